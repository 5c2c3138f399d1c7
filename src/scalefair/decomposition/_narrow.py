"""Few leading eigenvectors of a sparse operator, one vector at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import (
    ArpackError,
    LinearOperator,
    eigsh,
)

from scalefair.linalg import spectral_bounds

__all__ = ["narrow_leading"]

Array = NDArray[np.float64]

# ARPACK's residuals were 3 to 10,000 times smaller than asked for.
_SLACK = 10.0
# Lanczos steps that look for eigenvectors which were missed.
_CHECK_STEPS = 8


def narrow_leading(
    H: LinearOperator, k: int, tol: float, rng: np.random.RandomState
) -> tuple[Array, Array, int] | None:
    """Leading eigenpairs by ARPACK, and the number of products; None if it failed.

    A Krylov space of one vector needs the fewest products of all, some 100 for 20
    pairs of a matrix of words, and sparse products gain little from blocks. It may
    contain only one of several equal eigenvalues and not know: a few Lanczos steps on
    the operator without the pairs found have to stay below the last of them.
    """
    n = H.shape[0]
    n_products = 0

    def multiply(x: Array) -> Array:
        nonlocal n_products
        n_products += 1
        y: Array = H.matvec(x)
        return y

    counted = LinearOperator(H.shape, matvec=multiply, dtype=np.float64)
    try:
        values, vectors = eigsh(
            counted, k, which="LA", tol=_SLACK * tol, v0=rng.standard_normal(n)
        )
    except ArpackError:  # also when it does not converge
        return None
    values, vectors = values[::-1], vectors[:, ::-1]

    def without_found(x: Array) -> Array:
        y = multiply(x - vectors @ (vectors.T @ x))
        y -= vectors @ (vectors.T @ y)
        return y

    rest = LinearOperator(H.shape, matvec=without_found, dtype=np.float64)
    highest = spectral_bounds(rest, n_steps=_CHECK_STEPS, random_state=rng).nodes[-1]
    if not highest <= values[-1] + 10 * tol * values[0]:
        return None
    return values, np.ascontiguousarray(vectors), n_products
