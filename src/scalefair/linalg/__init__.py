"""Eigensolvers and subspace methods that only multiply."""

from scalefair.linalg._base import EigenResult, dense_eigh, orthonormalize
from scalefair.linalg._chebyshev import SpectralBounds, chebyshev, spectral_bounds
from scalefair.linalg._dc_admm import AdmmResult, dc_admm
from scalefair.linalg._dual import dual
from scalefair.linalg._lanczos import lanczos
from scalefair.linalg._lobpcg import lobpcg
from scalefair.linalg._thick_restart import ThickRestartLanczos

__all__ = [
    "AdmmResult",
    "EigenResult",
    "SpectralBounds",
    "ThickRestartLanczos",
    "chebyshev",
    "dc_admm",
    "dense_eigh",
    "dual",
    "lanczos",
    "lobpcg",
    "orthonormalize",
    "spectral_bounds",
]
