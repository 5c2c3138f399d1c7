"""Lower bound of the change of a layer with two groups, by Lagrangian duality.

    min |V - V_0|^2 over V (m, r), subject to |V D V^T|_F <= 1 and |V u| <= 1,

D = diag(d), in units in which both bounds are one. Let B be a symmetric multiplier of
V D V^T with eigenvalues b, a >= 0 one of |V u|^2, and R = U^T V_0 with the eigenvectors
U of B. Where all weights w_ij = 1 + b_i d_j are positive, the minimum V(B, a) of the
Lagrangian is explicit, and no matrix within the bounds is nearer to V_0 than

    <R, R - V(B, a)> - |B| - a.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scalefair._rounding import TINY
from scalefair.postprocessing._explainable_svd import shrinkage

Array = NDArray[np.float64]

# The dual needs positive weights: multipliers are shrunk until all are at least this.
MIN_WEIGHT = 1e-3


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
    """Lower bound of the change, for a multiplier Y that is good in other coordinates.

    Given W S T (m, r), T (n, r), d (n,), M (n, n) and a symmetric Y (m, m), the
    multiplier of ``V F V^T``, F = T^T M T.
    """
    values, vectors = np.linalg.eigh(root.T @ form @ root)
    y, basis = np.linalg.eigh(multiplier)
    if np.isinf(covariance_bound):
        y, covariance_bound = np.zeros_like(y), 1.0
    unit = np.sqrt(covariance_bound)
    R, u = basis.T @ whitened @ vectors, vectors.T @ (root.T @ difference)
    # What holds for a bound that is nearly zero holds for zero.
    u /= max(np.sqrt(mean_bound), 1e-8 * np.linalg.norm(R @ u), TINY)
    return max(dual(R, values / unit, u, y * unit)[0], 0.0)


def dual(R: Array, d: Array, u: Array, b: Array) -> tuple[float, Array, float, Array]:
    """Return the bound, V, the best a for eigenvalues b, and b, shrunk if need be."""
    # The smallest weight is at an end of d and of b. Inputs may all be zero.
    low, high = d.min(initial=0.0), d.max(initial=0.0)
    smallest = min(float(b.min() * high), float(b.max() * low))
    if smallest < MIN_WEIGHT - 1:
        b = b * ((MIN_WEIGHT - 1) / smallest)
    inverse = 1 / (1 + np.outer(b, d))
    V, a = R * inverse, 0.0
    gaps = V @ u
    if gaps @ gaps > 1:
        # V u = g / (1 + a k), by the formula of Sherman and Morrison for each row.
        along = inverse * u
        k = along @ u
        factors = shrinkage(gaps * gaps, 1 / k, 1.0)
        V -= ((1 - factors) * gaps / k)[:, None] * along
        i = int(np.argmax(k))
        a = float((1 / factors[i] - 1) / k[i])
    return float(np.vdot(R, R - V) - np.linalg.norm(b) - a), V, a, b
