"""Proof that no other weight meets both bounds at a smaller change."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["smallest_change"]

Array = NDArray[np.float64]

# How near to -1 the products of the multiplier's and the form's values may come.
_NEAREST = 0.999
_STEPS = 200


def smallest_change(
    whitened: Array,
    root: Array,
    difference: Array,
    form: Array,
    multiplier: Array,
    *,
    mean_bound: float,
    covariance_bound: float,
) -> float:
    r"""Lower bound of the change by Lagrangian duality, for two groups.

    In coordinates V = W' S T with T T^T = S^+, u = T^T d and F = T^T M T, with a
    symmetric multiplier Y of ``V F V^T`` and a number a >= 0 for the means, every V
    that meets the bounds has

    .. math::

        |V - V_0|^2 \ge \min_V |V - V_0|^2 + \langle Y, V F V^T \rangle
        + a (|V u|^2 - c_e) - \sqrt{c_v} |Y|_F .

    In the eigenbases of Y and F the rows of the minimiser are solutions with
    diagonal plus rank one matrices. It exists if ``1 + y_i f_j > 0`` for all i and
    j, if need be after Y was made smaller: then the bound holds although the
    constraint is not convex. For each Y the best a is found; at the solution's own
    multipliers the bound is attained, but where duality leaves a gap.

    Parameters
    ----------
    whitened : ndarray of shape (m, r)
        V_0.
    root : ndarray of shape (n, r)
        T.
    difference : ndarray of shape (n,)
        d.
    form : ndarray of shape (n, n)
        M.
    multiplier : ndarray of shape (m, m)
        Y.
    mean_bound, covariance_bound : float
        c_e and c_v; inf for no bound.

    Returns
    -------
    float
        The bound.
    """
    values, vectors = np.linalg.eigh(root.T @ form @ root)
    y, basis = np.linalg.eigh(multiplier)
    products = np.outer(y, values)
    least = float(products.min(initial=0.0))  # inputs may all be zero
    if least < -_NEAREST:  # a smaller multiplier proves less, but does
        shrink = -_NEAREST / least
        y, products = shrink * y, shrink * products
    weights = 1 + products
    rows = basis.T @ whitened @ vectors
    bound = np.sum(rows * rows * (1 - 1 / weights))  # min over V, without means
    if np.isfinite(covariance_bound):
        bound -= np.sqrt(covariance_bound) * np.linalg.norm(y)
    if np.isfinite(mean_bound):
        mean = vectors.T @ (root.T @ difference)
        gaps, gram = (rows / weights) @ mean, (1 / weights) @ (mean * mean)
        bound += _mean_term(gaps, gram, mean_bound)
    return max(float(bound), 0.0)


def _mean_term(gaps: Array, gram: Array, bound: float) -> float:
    """Largest of ``sum_i a g_i^2 / (1 + a k_i) - a c`` over a >= 0."""
    positive = gram > 0
    gaps, gram = gaps[positive], gram[positive]
    if not gaps.size or np.sum(gaps * gaps) <= bound:
        return 0.0
    if bound == 0:
        return float(np.sum(gaps * gaps / gram))
    low, high = 0.0, float(np.linalg.norm(gaps) / np.sqrt(bound) / gram.min())
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if np.sum((gaps / (1 + middle * gram)) ** 2) > bound:
            low = middle
        else:
            high = middle
    return float(np.sum(low * gaps * gaps / (1 + low * gram)) - low * bound)
