"""What every eigen-solver returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["EigenResult"]


@dataclass(frozen=True)
class EigenResult:
    """Largest eigenpairs of a symmetric operator, with what it took.

    Attributes
    ----------
    values : ndarray of shape (k,), float64
        Ritz values, largest first.
    vectors : ndarray of shape (n, k), float64
        Orthonormal Ritz vectors; in each the entry largest in modulus is
        positive.
    residual_norms : ndarray of shape (k,)
        Euclidean norms of ``A v - v * value``, measured, not estimated.
    n_products : int
        Block products with the operator (of any width).
    n_columns : int
        Vectors multiplied in all: the sum of the widths of the products.
    n_iter : int
        Outer iterations; their meaning is the solver's.
    converged : bool
        Whether every residual norm is at most `tol` times the spectral norm of
        the operator (as far as it is known).
    message : str
        How the solver ended and, if it failed, what to change.
    history : dict of ndarray or None
        What the solver recorded in each iteration, if it keeps a record.
    """

    values: NDArray[np.float64]
    vectors: NDArray[np.float64]
    residual_norms: NDArray[np.float64]
    n_products: int
    n_columns: int
    n_iter: int
    converged: bool
    message: str
    history: dict[str, np.ndarray] | None = None


def orient(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give each column the sign that makes its entry largest in modulus positive."""
    top, bottom = vectors.max(axis=0), -vectors.min(axis=0)
    signs = np.where(top >= bottom, 1.0, -1.0)
    for j in np.flatnonzero(top == bottom):  # the first of them decides
        signs[j] = np.sign(vectors[np.abs(vectors[:, j]).argmax(), j]) or 1.0
    vectors *= signs
    return vectors
