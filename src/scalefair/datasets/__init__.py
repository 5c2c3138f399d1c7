"""Generators of problems with groups, and loaders of public data sets."""

from scalefair.datasets._a9a import fetch_a9a
from scalefair.datasets._bank_clients import (
    fetch_bank_additional,
    fetch_bank_marketing,
    fetch_credit_default,
)
from scalefair.datasets._block_model import make_fair_sbm
from scalefair.datasets._diabetes import fetch_diabetes
from scalefair.datasets._law import fetch_bar_passage, fetch_compas, fetch_law_school
from scalefair.datasets._networks import (
    fetch_deezer_europe,
    fetch_facebooknet,
    fetch_lastfm_asia,
    fetch_pokec,
)
from scalefair.datasets._normal_rows import make_biased_rows, make_group_gaussians
from scalefair.datasets._point_sets import make_elliptical, make_random_affinity
from scalefair.datasets._topic_documents import make_topic_documents

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
