"""Concave quadratic function on the simplex: an active-set method."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["maximize_quadratic_on_simplex"]

_ROUNDING = 4 * float(np.finfo(np.float64).eps)
# Proximal term that keeps singular systems solvable; steps repeat until it is of
# no effect.
_RIDGE = 1e-13


def maximize_quadratic_on_simplex(
    c: ArrayLike, Q: ArrayLike, *, x0: ArrayLike | None = None
) -> np.ndarray:
    """Maximise ``c @ x - x @ Q @ x / 2`` over the simplex.

    Each step solves the optimality conditions on the entries that are free, goes
    that way until one of them would become negative and fixes it at zero, or else
    frees the entry with the largest multiplier of the wrong sign. Exact to rounding
    after finitely many steps.

    Parameters
    ----------
    c : array-like of shape (n,)
        Linear part.
    Q : array-like of shape (n, n)
        Symmetric positive semidefinite.
    x0 : array-like of shape (n,) or None, default=None
        Start, on the simplex; None takes the best vertex.

    Returns
    -------
    ndarray of shape (n,)
        Nonnegative, sum 1.

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.optimize import maximize_quadratic_on_simplex
    >>> maximize_quadratic_on_simplex([1.0, 1.0, 0.0], np.diag([1.0, 3.0, 1.0]))
    array([0.75, 0.25, 0.  ])
    """
    linear, Q = np.asarray(c, dtype=np.float64), np.asarray(Q, dtype=np.float64)
    if x0 is None:
        x = np.zeros(linear.size)
        x[np.argmax(linear - Q.diagonal() / 2)] = 1.0
    else:
        x = np.array(x0, dtype=np.float64)
    # Only the differences of the linear entries matter, and no common factor.
    linear = linear - linear.max()
    scale = max(
        float(np.abs(linear).max()), float(np.abs(Q).max()), np.finfo(float).tiny
    )
    linear, Q = linear / scale, Q / scale
    free = x > 0
    least = np.inf  # what the last full steps left of the gradient
    for _ in range(20 * linear.size + 20):
        active = np.flatnonzero(free)
        d = _newton_step(active, linear - Q @ x, Q)
        falling = d < 0
        reach = x[active][falling] / -d[falling]
        if reach.size and reach.min() < 1.0:
            x[active] = np.maximum(x[active] + reach.min() * d, 0.0)
            out = active[falling][reach.argmin()]
            x[out], free[out] = 0.0, False
            least = np.inf
            continue
        x[active] += d
        gradient = linear - Q @ x
        excess = gradient - gradient @ x
        left = float(np.abs(excess[active]).max())
        if left > _ROUNDING and left < least / 2:
            least = left
            continue
        excess[active] = -np.inf
        if excess.max() <= max(_ROUNDING, left):
            break
        free[excess.argmax()] = True
        least = np.inf
    x = np.maximum(x, 0.0)
    return x / x.sum()


def _newton_step(active: np.ndarray, gradient: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Step to the maximum over the free entries, whose sum stays."""
    size = active.size
    K = np.ones((size + 1, size + 1))
    K[:size, :size] = Q[np.ix_(active, active)]
    K[np.arange(size), np.arange(size)] += _RIDGE
    K[size, size] = 0.0
    d = np.linalg.solve(K, np.append(gradient[active], 0.0))[:size]
    return d - d.mean()
