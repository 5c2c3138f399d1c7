"""Eigenpairs of the small matrices of Rayleigh-Ritz steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scalefair.kernels import single_blas_thread

__all__ = ["eigh_descending"]


def eigh_descending(
    T: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eigenvalues of the symmetric part of `T`, largest first, and eigenvectors.

    On one thread, so that results do not depend on their number.
    """
    with single_blas_thread():
        values, S = np.linalg.eigh((T + T.T) / 2)
    return values[::-1], S[:, ::-1]
