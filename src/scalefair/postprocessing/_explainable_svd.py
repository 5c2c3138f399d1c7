"""Explainable SVD, the published method: smaller gaps of a layer's outputs.

Zuo, Zhu & Khalili, "Post-processing for fair regression via explainable SVD", with the
smallest change for the first moment, which the paper restricts further.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import toms748

from scalefair._rounding import EPS, ROUNDING

Array = NDArray[np.float64]

# Costs below this part of the largest one are zero: their products underflow.
ZERO_COST = 1e-100


def explainable_svd(
    W: Array, eigenvalues: Array, eigenvectors: Array, gram: Array, reduction: float
) -> Array:
    """Shrink the singular values of W S_v at the least change of outputs, (15) to (19).

    Given W (m, n), the eigenpairs Lam (n,) and Q (n, n) of the covariance difference,
    and Q^T S Q (n, n), S the second moment of the inputs. The `reduction` is c_v;
    infinity makes the singular values zero.
    """
    # With S_v = Q |Lam|^(1/2) and W S_v = U Sigma V^T:
    #   W' = W - U (Sigma - Sigma') V^T S_v^+,
    #   min sum k_i (sigma_i - sigma'_i)^2,  sum sigma'_i^4 <= sum sigma_i^4 / c_v
    # W stays as it is on eigenvectors of zero eigenvalues, which the paper would drop.
    sizes = np.abs(eigenvalues)
    nonzero = sizes > ROUNDING * sizes.max(initial=0.0)
    roots = np.sqrt(sizes[nonzero])
    Q = eigenvectors[:, nonzero]
    U, sigma, Vt = np.linalg.svd((W @ Q) * roots, full_matrices=False)
    rows = Vt / roots  # v_i^T |Lam|^(-1/2), before Q^T
    k = np.maximum(((rows @ gram[np.ix_(nonzero, nonzero)]) * rows).sum(axis=1), 0.0)
    decrease = sigma - shrunk_values(k, sigma, reduction)
    changed: Array = W - ((U * decrease) @ rows) @ Q.T
    return changed


def shrunk_values(k: Array, sigma: Array, reduction: float) -> Array:
    """Return new singular values, by equation (19) for the multiplier of the bound."""
    scale = float(sigma.max(initial=0.0))
    if reduction == 1 or scale == 0:
        return sigma.copy()
    if math.isinf(reduction):
        return np.zeros_like(sigma)
    # Units in which the largest singular value and the largest k are one.
    unit, k = sigma / scale, k / (float(k.max()) or 1.0)
    powers, has_cost = unit**4, k > ZERO_COST
    total, with_cost = float(powers.sum()), float(powers[has_cost].sum())
    target = total / reduction
    if with_cost <= target:  # values without a cost are shrunk, no others
        share = (target - with_cost) / (total - with_cost)
        return sigma * np.where(has_cost, 1.0, share**0.25)
    # A value shrinks by the factor y, q y^3 + y = 1, at gamma = q k / (2 sigma^2). If
    # all shrink by y = (target / with_cost)^(1/4) or more, the sum is small enough.
    logarithm = math.log(target / with_cost) / 4
    q = -math.expm1(logarithm) * math.exp(-3.0 * logarithm)
    shrunk = has_cost & (powers > 0)
    costs, sizes = k[shrunk], unit[shrunk]
    gammas = q * (costs / sizes / (2.0 * sizes))

    def fourth_powers(gamma: float) -> float:
        return float((cubic_root(costs, sizes, gamma) ** 4).sum())

    lower, upper = float(gammas.min()), float(gammas.max())
    gamma = monotone_root(fourth_powers, target, lower, upper)
    return scale * cubic_root(k, unit, gamma)


def exact_first_moment(
    W: Array, D: Array, solve: Callable[[Array], Array], c_e: float
) -> Array:
    """Weight nearest in the outputs with |W' D|^2 <= c_e: (10), without (11).

    Given W (m, n), the differences D (n, P) of the means, in the range of S, and
    ``solve(B)``, S^+ B or a generalised inverse's product, called once.
    """
    # At the minimum W' (S + lam D D^T) = W S. With Y = S^+ D and K = D^T S^+ D that is
    # W' D = W D (I + lam K)^(-1), W' = W - (W - W') D K^(-1) Y^T: a small eigenproblem
    # and an equation of one variable; of two groups it has a closed form.
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
    movable = kappa > 4 * len(kappa) * EPS * max(float(kappa[-1]), 0.0)
    vectors, Y = vectors[:, movable], Y @ vectors[:, movable]
    immovable = float(((gaps - (gaps @ vectors) @ vectors.T) ** 2).sum())
    gaps = gaps @ vectors
    target = max(c_e - immovable, 0.0)
    factors = shrinkage((gaps**2).sum(axis=0), 1.0 / kappa[movable], target)
    reduced = gaps * factors
    # The second pass takes away the rounding of the first: K may be ill-conditioned.
    changed = W
    for _ in range(2):
        residual = ((changed @ basis) * lengths) @ vectors - reduced
        changed = changed - (residual / kappa[movable]) @ Y.T
    return changed


def svd_first_moment(
    W: Array, D: Array, S: Array, epsilon: float, mean_reduction: float
) -> Array:
    """Weight of the paper, with smaller singular values of W S_e, (10) to (14).

    Given W (m, n), the differences D (n, P) of the means, the second moment S (n, n)
    and what makes the root S_e of D D^T invertible. An infinite reduction leaves
    nothing of W.
    """
    # With S_e S_e^T = D D^T + epsilon I and W S_e = U Sigma V^T:
    #   W' = U Sigma' V^T S_e^(-1),  sigma'_i = sigma_i k_i / (k_i + gamma),
    #   k_i = v_i^T S_e^(-1) S S_e^(-1) v_i,  sum sigma'_i^2 = sum sigma_i^2 / c_e
    # (theorem 4.1 with the plus sign of its proof). The symmetric root is the identity
    # times a number but for as many directions as the differences span.
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
    factors = shrinkage(squares, k, float(squares.sum()) / mean_reduction)
    changed: Array = W - (U * (sigma * (1.0 - factors))) @ rows
    return changed


def _span(D: Array) -> tuple[Array, Array]:
    """Orthonormal basis of the columns of D and the lengths along it."""
    basis, lengths, _ = np.linalg.svd(D, full_matrices=False)
    positive = lengths > max(D.shape) * EPS * lengths.max(initial=0.0)
    return basis[:, positive], lengths[positive]


def shrinkage(squares: Array, k: Array, target: float) -> Array:
    """Factors ``k / (k + gamma)`` with ``sum squares factor^2 = target``."""
    total = float(squares.sum())
    if total <= target:
        return np.ones_like(k)
    if target <= 0:
        return np.zeros_like(k)
    has_cost = k > ZERO_COST * float(k.max())
    with_cost = float(squares[has_cost].sum())
    if with_cost <= target:  # squares without a cost are shrunk, no others
        share = (target - with_cost) / (total - with_cost)
        return np.where(has_cost, 1.0, math.sqrt(share))
    # Units in which the largest k and the sum of the squares are one.
    unit, sizes = k[has_cost] / float(k.max()), squares[has_cost] / with_cost

    def sum_of_squares(gamma: float) -> float:
        return float((sizes * (unit / (unit + gamma)) ** 2).sum())

    target /= with_cost
    # If all k were equal, all factors would be target^(1/2), and gamma would be
    # (1 / factor - 1) k. The smallest and the largest of these enclose the root.
    gammas = math.expm1(-math.log(target) / 2) * unit
    lower, upper = float(gammas.min()), float(gammas.max())
    gamma = monotone_root(sum_of_squares, target, lower, upper) * float(k.max())
    return k / (k + gamma)


def cubic_root(k: Array, sigma: Array, gamma: float) -> Array:
    """Root x of 2 gamma x^3 + k x - k sigma = 0, between 0 and sigma (theorem 4.2).

    For k, sigma >= 0, shape (r,), and gamma > 0; zero where k or sigma is. The closed
    form of the paper holds for k = 1 only.
    """
    # x = 2 (k / 6 gamma)^(1/2) sinh(asinh(3 sigma / 2 (6 gamma / k)^(1/2)) / 3) does
    # not cancel, as the form with cube roots does. With y = x / sigma and
    # s = sigma (2 gamma / k)^(1/2) the equation is s^2 y^3 + y = 1.
    x = np.zeros(sigma.shape)
    positive = (k > 0) & (sigma > 0)
    k, sigma = k[positive], sigma[positive]
    # Roots before the quotient: a ratio of gamma and k could leave the range. At the
    # ends of the range of s, y is one, or beneath the rounding of the others.
    with np.errstate(over="ignore"):
        s = np.sqrt(2.0) * (sigma * (np.sqrt(gamma) / np.sqrt(k)))
    s = np.clip(s, 1e-100, 1e200)
    # With t = 1.5 sigma sqrt(6 gamma / k), y = 3 sinh(asinh(t) / 3) / t.
    t = 1.5 * np.sqrt(3.0) * s
    y = 3.0 * np.sinh(np.arcsinh(t) / 3.0) / t
    # One Newton step takes away what the hyperbolic functions lose of large arguments.
    square = (s * y) ** 2
    y -= (square * y + (y - 1.0)) / (3.0 * square + 1.0)
    x[positive] = sigma * np.minimum(y, 1.0)
    return x


def monotone_root(
    function: Callable[[float], float], target: float, lower: float, upper: float
) -> float:
    """Where a decreasing function takes a value, between two positive ends."""

    # The function is nearly linear in logarithms of both.
    def excess(logarithm: float) -> float:
        return math.log(max(function(lower * math.exp(logarithm)), ZERO_COST) / target)

    width = math.log(upper / lower)
    if excess(0.0) <= 0:  # a root at an end, but for rounding
        return lower
    if excess(width) >= 0:
        return upper
    root = toms748(excess, 0.0, width, xtol=EPS, rtol=4 * EPS)
    return lower * math.exp(root)
