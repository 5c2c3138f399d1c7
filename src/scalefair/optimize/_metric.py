"""Metric of proximal terms: the identity, a diagonal or a dense matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
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
        what = (
            f"metric must be {n} positive numbers or a symmetric positive definite "
            f"matrix of shape {(n, n)}"
        )
        if M.shape not in ((n,), (n, n)):
            raise ValueError(f"{what}, got an array of shape {M.shape}.")
        if not np.isfinite(M).all():
            raise ValueError(f"{what}, got entries that are not finite.")
        self.matrix: NDArray[np.float64] = M
        if M.ndim == 1:
            if not (M > 0).all():
                raise ValueError(f"{what}, got {M.min()} among the numbers.")
            return
        if np.abs(M - M.T).max() > 1e-10 * np.abs(M).max():
            raise ValueError(
                f"{what}, got one that is not symmetric: use (M + M.T) / 2."
            )
        try:
            self.factor = cho_factor(M)
        except LinAlgError as error:
            raise ValueError(f"{what}, got an indefinite one ({error}).") from None

    def product(self, d: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the matrix times a vector."""
        return self.matrix * d if self.matrix.ndim == 1 else self.matrix @ d

    def square(self, d: NDArray[np.float64]) -> float:
        return float(d @ self.product(d))

    def inverse(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rows times the inverse."""
        if self.matrix.ndim == 1:
            return rows / self.matrix
        solved: NDArray[np.float64] = cho_solve(self.factor, rows.T, check_finite=False)
        return solved.T
