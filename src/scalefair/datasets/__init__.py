"""Generators of fair-clustering problems, and loaders of public data sets."""

from ._affinity import make_random_affinity
from ._block_model import make_fair_sbm
from ._deezer import fetch_deezer_europe
from ._diabetes import fetch_diabetes
from ._elliptical import make_elliptical
from ._facebooknet import fetch_facebooknet
from ._lastfm import fetch_lastfm_asia
from ._pokec import fetch_pokec

__all__ = [
    "fetch_deezer_europe",
    "fetch_diabetes",
    "fetch_facebooknet",
    "fetch_lastfm_asia",
    "fetch_pokec",
    "make_elliptical",
    "make_fair_sbm",
    "make_random_affinity",
]
