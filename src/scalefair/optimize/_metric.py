"""Metric of proximal terms: the identity, a diagonal or a dense matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, cho_factor, cho_solve

__all__ = ["Metric"]


class Metric:
    """Products with a positive definite matrix and its inverse.

    Parameters
    ----------
    matrix : array-like of shape (n,) or (n, n), or None
        Diagonal, matrix, or None for the identity.
    n : int
        Number of variables.
    """

    def __init__(self, matrix: ArrayLike | None, n: int) -> None:
        M = np.ones(n) if matrix is None else np.asarray(matrix, dtype=np.float64)
        wrong = ValueError(
            f"metric must be {n} positive numbers or a positive definite matrix of "
            f"shape {(n, n)}, got an array of shape {M.shape}."
        )
        if M.shape not in ((n,), (n, n)) or not np.isfinite(M).all():
            raise wrong
        self.matrix = M
        if M.ndim == 1:
            if not (M > 0).all():
                raise wrong
            return
        try:
            self.factor = cho_factor(M)
        except LinAlgError:
            raise wrong from None

    def product(self, d: np.ndarray) -> np.ndarray:
        return self.matrix * d if self.matrix.ndim == 1 else self.matrix @ d

    def square(self, d: np.ndarray) -> float:
        return float(d @ self.product(d))

    def inverse(self, rows: np.ndarray) -> np.ndarray:
        """Rows times the inverse."""
        if self.matrix.ndim == 1:
            return rows / self.matrix
        return cho_solve(self.factor, rows.T, check_finite=False).T
