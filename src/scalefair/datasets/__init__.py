"""Generators of problems with groups, and loaders of public data sets."""

from scalefair.datasets._block_model import make_fair_sbm
from scalefair.datasets._diabetes import fetch_diabetes
from scalefair.datasets._documents import make_topic_documents
from scalefair.datasets._networks import (
    fetch_deezer_europe,
    fetch_facebooknet,
    fetch_lastfm_asia,
    fetch_pokec,
)
from scalefair.datasets._people import (
    fetch_a9a,
    fetch_bank_additional,
    fetch_bank_marketing,
    fetch_bar_passage,
    fetch_compas,
    fetch_credit_default,
    fetch_law_school,
)
from scalefair.datasets._samples import (
    make_biased_rows,
    make_elliptical,
    make_group_gaussians,
    make_random_affinity,
)

__all__ = [
    "fetch_a9a",
    "fetch_bank_additional",
    "fetch_bank_marketing",
    "fetch_bar_passage",
    "fetch_compas",
    "fetch_credit_default",
    "fetch_deezer_europe",
    "fetch_diabetes",
    "fetch_facebooknet",
    "fetch_lastfm_asia",
    "fetch_law_school",
    "fetch_pokec",
    "make_biased_rows",
    "make_elliptical",
    "make_fair_sbm",
    "make_group_gaussians",
    "make_random_affinity",
    "make_topic_documents",
]
