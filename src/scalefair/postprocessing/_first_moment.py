"""First moment of a layer's outputs: least change, and the paper's restricted one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair.postprocessing._cubic import monotone_root

__all__ = ["exact_first_moment", "svd_first_moment"]

_EPS = float(np.finfo(np.float64).eps)
# What costs less than this part of the dearest costs nothing.
_FREE = 1e-100

_Values = NDArray[np.float64]


def exact_first_moment(
    W: _Values, D: _Values, solve: Callable[[_Values], _Values], c_e: float
) -> _Values:
    r"""Return the weight nearest in the outputs whose groups have near means.

    .. math::

        \min_{W'} \operatorname{Tr}((W' - W) S (W' - W)^T)
        \quad \text{subject to} \quad |W' D|_F^2 \le c_e.

    At the minimum :math:`W' (S + \lambda D D^T) = W S`. With :math:`Y = S^+ D` and
    :math:`K = D^T S^+ D` that is :math:`W' D = W D (I + \lambda K)^{-1}` and
    :math:`W' = W - (W - W') D \, K^{-1} Y^T`: a small eigenproblem, an equation of
    one variable for :math:`\lambda`, and a change of W in as many directions as the
    differences span. Of two groups the equation is solved in closed form,

    .. math::

        W' = W - \Bigl(1 - \frac{\sqrt{c_e}}{|W d|}\Bigr)
            \frac{W d \, d^T S^+}{d^T S^+ d}.

    Parameters
    ----------
    W : ndarray of shape (m, n)
        Weight, outputs first.
    D : ndarray of shape (n, P)
        Differences of the means of the groups, in the range of S.
    solve : callable
        ``solve(B)`` is :math:`S^+ B` for B of shape (n, k), or a generalised
        inverse's product. Called once, with a basis of the span of D.
    c_e : float
        Bound on the sum of squares of the gaps; zero makes the means equal.

    Returns
    -------
    ndarray of shape (m, n)
        The new weight; a copy of W if the bound holds already.

    Raises
    ------
    ValueError
        If `c_e` is negative or NaN.

    References
    ----------
    .. [1] Zuo, Zhu & Khalili, "Post-processing for fair regression via explainable
       SVD". Problem (10), here without the restriction (11).
    """
    if not c_e >= 0:
        raise ValueError(f"c_e={c_e} must not be negative: it bounds a square.")
    # Inputs in units of their differences: those of large units hide no others.
    units = np.abs(D).max(axis=1, keepdims=True)
    units[units == 0] = 1.0
    basis, lengths = _span(D / units)
    basis *= units
    gaps = (W @ basis) * lengths  # as large as W D, one column for each dimension
    if float((gaps**2).sum()) <= c_e:
        return W.copy()
    Y = solve(basis) * lengths
    K = lengths[:, None] * (basis.T @ Y)
    kappa, vectors = np.linalg.eigh((K + K.T) / 2)
    # No change of the outputs moves a gap outside the range of S: leave it.
    movable = kappa > 4 * len(kappa) * _EPS * max(float(kappa[-1]), 0.0)
    vectors, Y = vectors[:, movable], Y @ vectors[:, movable]
    gaps = gaps @ vectors
    rest = max(c_e - _outside(W, basis, lengths, vectors), 0.0)
    factors = _shrinkage((gaps**2).sum(axis=0), 1.0 / kappa[movable], rest)
    wanted = gaps * factors
    # The second pass takes away the rounding of the first: K may be ill-conditioned.
    changed = W
    for _ in range(2):
        left = ((changed @ basis) * lengths) @ vectors - wanted
        changed = changed - (left / kappa[movable]) @ Y.T
    return changed


def svd_first_moment(
    W: _Values, D: _Values, S: Any, epsilon: float, mean_reduction: float
) -> _Values:
    r"""Return the weight of the paper: smaller singular values of :math:`W S_e`.

    With :math:`S_e S_e^T = D D^T + \epsilon I` and :math:`W S_e = U \Sigma V^T`, the
    weight :math:`W' = U \Sigma' V^T S_e^{-1}` has the values

    .. math::

        \sigma'_i = \frac{k_i}{k_i + \gamma} \sigma_i, \quad
        k_i = v_i^T S_e^{-1} S S_e^{-1} v_i, \quad
        \sum_i \sigma_i'^2 = \frac{1}{\tilde c_e} \sum_i \sigma_i^2.

    The symmetric root :math:`S_e` is the identity times a number but for as many
    directions as the differences span: it is multiplied by, never formed. The sum
    holds the gaps, :math:`|W' D|_F^2`, and :math:`\epsilon |W'|_F^2`: an infinite
    reduction leaves nothing of W. `exact_first_moment` changes the outputs less.

    Parameters
    ----------
    W : ndarray of shape (m, n)
        Weight, outputs first.
    D : ndarray of shape (n, P)
        Differences of the means of the groups.
    S : {ndarray, LinearOperator} of shape (n, n)
        Second moment of the inputs; only ``S @ block`` is taken, once.
    epsilon : float
        What makes the root invertible, positive.
    mean_reduction : float
        :math:`\tilde c_e`, at least 1.

    Returns
    -------
    ndarray of shape (m, n)
        The new weight.

    Raises
    ------
    ValueError
        If `epsilon` is not positive or `mean_reduction` is below 1.

    References
    ----------
    .. [1] Zuo, Zhu & Khalili, "Post-processing for fair regression via explainable
       SVD". Equations (10) to (14); theorem 4.1 with the plus sign of its proof.
    """
    if not epsilon > 0:
        raise ValueError(f"epsilon={epsilon} must be positive: a root is inverted.")
    if not mean_reduction >= 1:
        raise ValueError(f"mean_reduction={mean_reduction} must be at least 1.")
    if mean_reduction == 1:
        return W.copy()
    basis, lengths = _span(D)
    base = math.sqrt(epsilon)
    roots = np.hypot(base, lengths)
    WS = base * W + ((W @ basis) * (roots - base)) @ basis.T
    U, sigma, Vt = np.linalg.svd(WS, full_matrices=False)
    rows = Vt / base + ((Vt @ basis) * (1.0 / roots - 1.0 / base)) @ basis.T
    k = np.maximum(np.einsum("ij,ji->i", rows, S @ rows.T), 0.0)
    squares = sigma**2
    factors = _shrinkage(squares, k, float(squares.sum()) / mean_reduction)
    changed: _Values = W - (U * (sigma * (1.0 - factors))) @ rows
    return changed


def _span(D: _Values) -> tuple[_Values, _Values]:
    """Orthonormal basis of the columns of D and the lengths along it."""
    basis, lengths, _ = np.linalg.svd(D, full_matrices=False)
    kept = lengths > max(D.shape) * _EPS * lengths.max(initial=0.0)
    return basis[:, kept], lengths[kept]


def _outside(W: _Values, basis: _Values, lengths: _Values, vectors: _Values) -> float:
    """Square of the gaps that no change of the outputs moves."""
    gaps = (W @ basis) * lengths
    return float(((gaps - (gaps @ vectors) @ vectors.T) ** 2).sum())


def _shrinkage(squares: _Values, k: _Values, target: float) -> _Values:
    """Factors ``k / (k + gamma)`` with ``sum squares factor^2 = target``."""
    total = float(squares.sum())
    if total <= target:
        return np.ones_like(k)
    if target <= 0:
        return np.zeros_like(k)
    moved = k > _FREE * float(k.max())
    costly = float(squares[moved].sum())
    if costly <= target:  # what costs nothing pays for all
        share = (target - costly) / (total - costly)
        return np.where(moved, 1.0, math.sqrt(share))
    unit, sizes = k[moved] / float(k.max()), squares[moved] / costly

    def sum_of_squares(gamma: float) -> tuple[float, float]:
        factors = unit / (unit + gamma)
        terms = sizes * factors**2
        return float(terms.sum()), -2.0 * float((terms / (unit + gamma)).sum())

    # The root if all the k were equal, 1 / factor - 1 times k.
    alone = math.expm1(-math.log(target / costly) / 2) * unit
    gamma = monotone_root(
        sum_of_squares,
        target / costly,
        float(alone.min()),
        float(alone.max()),
        power=0.5,
    )
    gamma *= float(k.max())
    return k / (k + gamma)
