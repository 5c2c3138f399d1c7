"""Eigensolvers, subspace methods and linear systems that only multiply."""

from scalefair.linalg._base import EigenResult, dense_eigh
from scalefair.linalg._block_cg import LinearResult, block_cg
from scalefair.linalg._block_krylov import block_krylov
from scalefair.linalg._chebyshev import SpectralBounds, chebyshev, spectral_bounds
from scalefair.linalg._dc_admm import AdmmResult, dc_admm
from scalefair.linalg._dual import dual
from scalefair.linalg._lanczos import lanczos
from scalefair.linalg._lobpcg import lobpcg
from scalefair.linalg._orthonormalize import orthonormalize
from scalefair.linalg._thick_restart import ThickRestartLanczos

__all__ = [
    "AdmmResult",
    "EigenResult",
    "LinearResult",
    "SpectralBounds",
    "ThickRestartLanczos",
    "block_cg",
    "block_krylov",
    "chebyshev",
    "dc_admm",
    "dense_eigh",
    "dual",
    "lanczos",
    "lobpcg",
    "orthonormalize",
    "spectral_bounds",
]
