"""Eigen-solvers for symmetric operators that are multiplied by, never formed."""

from scalefair.linalg._bounds import SpectralBounds, spectral_bounds
from scalefair.linalg._chebyshev import chebyshev
from scalefair.linalg._dense import dense_eigh
from scalefair.linalg._lanczos import lanczos
from scalefair.linalg._orthonormalize import orthonormalize
from scalefair.linalg._result import EigenResult

__all__ = [
    "EigenResult",
    "SpectralBounds",
    "chebyshev",
    "dense_eigh",
    "lanczos",
    "orthonormalize",
    "spectral_bounds",
]
