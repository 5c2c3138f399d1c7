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
    unit = sigma / (float(sigma.max(initial=0.0)) or 1.0)
    powers = unit**4
    # A value y sigma costs k sigma^2 (1 - y)^2, which is w c (1 - y)^2 for w = sigma^4.
    costs = np.divide(k, unit**2, out=np.ones_like(k), where=powers > 0)
    return sigma * shrinkage(powers, costs, float(powers.sum()) / reduction, 4)


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
    factors = shrinkage((gaps**2).sum(axis=0), 1.0 / kappa[movable], target, 2)
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
    basis, lengths = _span(D)
    base = math.sqrt(epsilon)
    roots = np.hypot(base, lengths)
    WS = base * W + ((W @ basis) * (roots - base)) @ basis.T
    U, sigma, Vt = np.linalg.svd(WS, full_matrices=False)
    rows = Vt / base + ((Vt @ basis) * (1.0 / roots - 1.0 / base)) @ basis.T
    k = np.maximum(np.einsum("ij,ji->i", rows, S @ rows.T), 0.0)
    squares = sigma**2
    factors = shrinkage(squares, k, float(squares.sum()) / mean_reduction, 2)
    changed: Array = W - (U * (sigma * (1.0 - factors))) @ rows
    return changed


def _span(D: Array) -> tuple[Array, Array]:
    """Orthonormal basis of the columns of D and the lengths along it."""
    basis, lengths, _ = np.linalg.svd(D, full_matrices=False)
    positive = lengths > max(D.shape) * EPS * lengths.max(initial=0.0)
    return basis[:, positive], lengths[positive]


def shrinkage(weights: Array, costs: Array, target: float, power: int) -> Array:
    """Factors y of least ``sum w_i c_i (1 - y_i)^2`` with ``sum w_i y_i^p <= target``.

    The power p is 2 in theorem 4.1 of the paper, and 4 in theorem 4.2.
    """
    total = float(weights.sum())
    if total <= target:
        return np.ones_like(costs)
    if target <= 0:
        return np.zeros_like(costs)
    # Units in which the sum of the weights and the largest cost are one.
    w, c = weights / total, costs / (float(costs.max()) or 1.0)
    target /= total
    losses = w * c
    has_cost = losses > ZERO_COST * float(losses.max())
    with_cost = float(w[has_cost].sum())
    if with_cost <= target:  # what has no cost is shrunk, nothing else
        share = (target - with_cost) / (1.0 - with_cost)
        return np.where(has_cost, 1.0, share ** (1 / power))
    # The Lagrangian is stationary at c_i (1 - y_i) = gamma y_i^(p - 1), for one gamma.
    # If all costs were equal, all factors would be y = (target / with_cost)^(1/p). The
    # smallest and the largest gamma of this y enclose the root.
    logarithm = math.log(target / with_cost) / power
    gammas = c[has_cost] * (-math.expm1(logarithm) * math.exp((1 - power) * logarithm))
    lower, upper = float(gammas.min()), float(gammas.max())

    # The sum is nearly linear in logarithms of both.
    def excess(log_ratio: float) -> float:
        y = _stationary_factors(lower * math.exp(log_ratio), c[has_cost], power)
        return math.log(max(float(w[has_cost] @ y**power), ZERO_COST) / target)

    width = math.log(upper / lower)
    gamma = lower  # a root at an end, but for rounding
    if excess(width) >= 0:
        gamma = upper
    elif excess(0.0) > 0:
        root = toms748(excess, 0.0, width, xtol=EPS, rtol=4 * EPS)
        gamma = lower * math.exp(root)
    return _stationary_factors(gamma, c, power)


def _stationary_factors(gamma: float, costs: Array, power: int) -> Array:
    """Roots y, from 0 to 1, of ``c (1 - y) = gamma y^(power - 1)``, gamma > 0."""
    with np.errstate(divide="ignore", over="ignore"):
        q = gamma / costs
    if power == 2:
        return np.asarray(1.0 / (1.0 + q))
    # For the power 4, y + q y^3 = 1: y = 3 sinh(asinh(t) / 3) / t with t^2 = 27 q / 4.
    # The closed form of the paper cancels, and holds for k = 1 only. At the ends of
    # this range of q, y is one, or beneath the rounding of the others.
    q = np.clip(q, 1e-200, 1e300)
    t = np.sqrt(6.75 * q)
    y = 3.0 * np.sinh(np.arcsinh(t) / 3.0) / t
    # One Newton step takes away what the hyperbolic functions lose of large arguments.
    square = q * y * y
    y -= (square * y + (y - 1.0)) / (3.0 * square + 1.0)
    return np.where(costs > 0, np.minimum(y, 1.0), 0.0)
