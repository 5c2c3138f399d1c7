"""Generators of fair-clustering problems, and loaders of public data sets."""

from scalefair.datasets._affinity import make_random_affinity
from scalefair.datasets._block_model import make_fair_sbm
from scalefair.datasets._deezer import fetch_deezer_europe
from scalefair.datasets._diabetes import fetch_diabetes
from scalefair.datasets._elliptical import make_elliptical
from scalefair.datasets._facebooknet import fetch_facebooknet
from scalefair.datasets._lastfm import fetch_lastfm_asia
from scalefair.datasets._pokec import fetch_pokec

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
