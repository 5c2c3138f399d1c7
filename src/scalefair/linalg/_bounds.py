"""Bounds on a spectrum from a few Lanczos steps."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal
from scipy.sparse.linalg import LinearOperator

from scalefair._entries import checked_product
from scalefair._random import check_random_state
from scalefair.linalg._checks import (
    as_symmetric_operator,
    check_count,
    check_scale,
)

__all__ = ["SpectralBounds", "spectral_bounds"]


class SpectralBounds(NamedTuple):
    """Bounds on a spectrum, and a coarse picture of what lies between.

    Attributes
    ----------
    lower, upper : float
        Extreme Ritz value minus or plus its residual norm. An eigenvalue that the
        starting vector hardly contains may lie outside, as a rule by no more than
        a few per cent of the width.
    nodes, weights : ndarray
        Gauss quadrature of the spectral density: near ``nodes[j]`` lies about
        the fraction ``weights[j]`` of the eigenvalues. Ascending.
    """

    lower: float
    upper: float
    nodes: NDArray[np.float64]
    weights: NDArray[np.float64]


def spectral_bounds(
    A: Any, *, n_steps: int = 12, random_state: Any = None
) -> SpectralBounds:
    """Bound the spectrum of a symmetric operator by Lanczos from a random vector.

    Parameters
    ----------
    A : LinearOperator, sparse matrix or ndarray of shape (n, n)
        Symmetric.
    n_steps : int, default=12
        Lanczos steps, one product each. Ten to twenty bound the ends of a
        spectrum to a few per cent of its width.
    random_state : int, RandomState instance or None, default=None
        For the starting vector.

    Returns
    -------
    SpectralBounds
        Lower and upper bound, quadrature nodes and weights.

    Raises
    ------
    ValueError
        If `A` is not square, `n_steps` is not positive, or the norm of `A` is not
        zero and below 1e-140 or above 1e150.
    FloatingPointError
        If a product with the operator is not finite.

    References
    ----------
    Zhou, Li (2011), "Bounding the spectrum of large Hermitian matrices",
    Linear Algebra and its Applications 435, 480-493. Lin, Saad, Yang (2016),
    "Approximating spectral densities of large matrices", SIAM Review 58, 34-65.

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.linalg import spectral_bounds
    >>> A = np.diag(np.linspace(-1, 1, 50))
    >>> bounds = spectral_bounds(A, n_steps=20, random_state=0)
    >>> round(bounds.lower, 1), round(bounds.upper, 1)
    (-1.0, 1.0)
    """
    operator: LinearOperator = as_symmetric_operator(A, 1)
    check_count("n_steps", n_steps, 1)
    n = operator.shape[0]
    rng = check_random_state(random_state)
    v = rng.standard_normal(n)
    basis = [v / np.linalg.norm(v)]
    diagonal: list[float] = []
    off_diagonal: list[float] = []
    for _ in range(min(n_steps, n)):
        w = checked_product(operator, basis[-1])
        check_scale(float(np.abs(w).max()))
        diagonal.append(float(basis[-1] @ w))
        for q in basis:  # full orthogonalisation: a dozen vectors
            w -= (q @ w) * q
        off_diagonal.append(float(np.linalg.norm(w)))
        if off_diagonal[-1] <= 1e-12 * max(map(abs, diagonal)):
            break  # invariant subspace: the Ritz values are eigenvalues
        basis.append(w / off_diagonal[-1])
    nodes, S = eigh_tridiagonal(np.array(diagonal), np.array(off_diagonal[:-1]))
    errors = off_diagonal[-1] * np.abs(S[-1])
    return SpectralBounds(
        float(nodes[0] - errors[0]), float(nodes[-1] + errors[-1]), nodes, S[0] ** 2
    )
