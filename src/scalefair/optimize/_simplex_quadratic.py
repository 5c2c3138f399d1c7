"""Concave quadratic function on the simplex: an active-set method."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["maximize_quadratic_on_simplex"]

_ROUNDING = 4 * float(np.finfo(np.float64).eps)
# Proximal term that keeps singular systems solvable; steps repeat until it is of
# no effect.
_RIDGE = 1e-13


def maximize_quadratic_on_simplex(
    c: ArrayLike,
    Q: ArrayLike,
    *,
    x0: ArrayLike | None = None,
    subset: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Maximise ``c @ x - x @ Q @ x / 2`` over the simplex.

    Or over nonnegative vectors of which some entries sum to 1; the function must be
    bounded above there.

    Each step solves the optimality conditions on the entries that are free, goes
    that way until one of them would become negative and fixes it at zero, or else
    frees the entry with the largest multiplier of the wrong sign. Exact to rounding
    after finitely many steps; equal rows of `Q` do no harm.

    Parameters
    ----------
    c : array-like of shape (n,)
        Linear part.
    Q : array-like of shape (n, n)
        Symmetric positive semidefinite.
    x0 : array-like of shape (n,) or None, default=None
        Start, negative entries count as zero; those in `subset` are scaled to sum 1.
        None takes the best vertex. A start near the solution saves most of the steps.
    subset : array-like of bool of shape (n,) or None, default=None
        Entries whose sum is 1; the others are only nonnegative. None takes all.

    Returns
    -------
    ndarray of shape (n,)
        Nonnegative, sum 1 over `subset`.

    Raises
    ------
    ValueError
        If shapes do not fit, a number is not finite, or `subset` is empty.

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.optimize import maximize_quadratic_on_simplex
    >>> maximize_quadratic_on_simplex([1.0, 1.0, 0.0], np.diag([1.0, 3.0, 1.0]))
    array([0.75, 0.25, 0.  ])

    The last entry free of the sum:

    >>> maximize_quadratic_on_simplex(
    ...     [1.0, 1.0, 4.0], np.diag([1.0, 3.0, 2.0]), subset=[True, True, False]
    ... )
    array([0.75, 0.25, 2.  ])
    """
    linear, Q = np.asarray(c, dtype=np.float64), np.asarray(Q, dtype=np.float64)
    if linear.ndim != 1 or linear.size == 0 or Q.shape != (linear.size,) * 2:
        raise ValueError(
            "c must be a vector of n numbers, n at least 1, and Q of shape (n, n), got "
            f"shapes {linear.shape} and {Q.shape}."
        )
    if not (np.isfinite(linear).all() and np.isfinite(Q).all()):
        raise ValueError("c and Q must be finite, they hold NaN or infinity.")
    share = _indicator(subset, linear.size)
    x = _start(linear, Q, share, x0)
    # Only the differences of the entries with a common sum matter.
    linear = linear - share * linear[share > 0].max()
    scale = max(
        float(np.abs(linear).max()), float(np.abs(Q).max()), np.finfo(float).tiny
    )
    linear, Q = linear / scale, Q / scale
    free = x > 0
    least = np.inf  # what the last full steps left of the gradient
    for _ in range(20 * linear.size + 20):
        active = np.flatnonzero(free)
        d = _newton_step(active, linear - Q @ x, Q, share[active])
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
        excess = gradient - (gradient @ (share * x)) * share
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
    x[share > 0] /= x @ share
    return x


def _indicator(subset: ArrayLike | None, n: int) -> NDArray[np.float64]:
    """Ones at the entries whose sum is 1."""
    if subset is None:
        return np.ones(n)
    chosen = np.asarray(subset)
    if chosen.shape != (n,) or chosen.dtype != np.bool_ or not chosen.any():
        raise ValueError(
            f"subset must be {n} booleans, one per entry of c, some of them True, "
            f"got {subset}."
        )
    return chosen.astype(np.float64)


def _start(
    linear: NDArray[np.float64],
    Q: NDArray[np.float64],
    share: NDArray[np.float64],
    x0: ArrayLike | None,
) -> NDArray[np.float64]:
    if x0 is not None:
        x = np.maximum(np.asarray(x0, dtype=np.float64), 0.0)
        if x.shape != linear.shape or not np.isfinite(x).all():
            raise ValueError(
                f"x0 must hold {linear.size} finite numbers, one per entry of c, got "
                f"{x0}."
            )
        total = float(x @ share)
        if total > 0:
            x[share > 0] /= total
            return x
    x = np.zeros(linear.size)
    vertices = np.where(share > 0, linear - Q.diagonal() / 2, -np.inf)
    x[np.argmax(vertices)] = 1.0
    return x


def _newton_step(
    active: NDArray[np.intp],
    gradient: NDArray[np.float64],
    Q: NDArray[np.float64],
    share: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Step to the maximum over the free entries that keeps the sum."""
    size = active.size
    K = np.zeros((size + 1, size + 1))
    K[:size, :size] = Q[np.ix_(active, active)]
    K[np.arange(size), np.arange(size)] += _RIDGE
    K[size, :size] = K[:size, size] = share
    d: NDArray[np.float64]
    d = np.linalg.solve(K, np.append(gradient[active], 0.0))[:size]
    d -= share * ((d @ share) / share.sum())
    return d
