"""The direct method: smallest change of a layer under bounds on both moments' gaps.

In whitened coordinates V (m, r) of the weight, with u_p the differences of the means
and F_p those of the covariances, for each pair p of groups:

    min |V - V_0|^2 / 2  subject to  sum |V u_p|^2 <= c_e,  sum |V F_p V^T|^2 <= c_v.

For multipliers a and b of the two constraints the Lagrangian

    L(V) = |V - V_0|^2 / 2 + a/2 sum_p |V u_p|^2 + b/4 sum_p |V F_p V^T|^2

is minimised by L-BFGS. Secant steps find the multipliers at which both gaps are on
their bounds; each minimisation starts from the last one's solution.

For two groups Lagrangian duality proves a lower bound of |V - V_0|^2, the squared
change, without the factor 1/2. There F is D = diag(d), in units in which both bounds
are one. Let B, symmetric, be a multiplier of V D V^T, with eigenvectors U and
eigenvalues b, let a >= 0 be one of |V u|^2, and let R = U^T V_0. In the coordinates U
the Lagrangian is

    |V - R|^2 + <B, V D V^T> + a |V u|^2 - |B| - a,  B = diag(b).

Where all weights w_ij = 1 + b_i d_j are positive its minimum V(B, a) is explicit. Its
value there is the bound, as of every V within the bounds it is at most |V - R|^2:

    <R, R - V(B, a)> - |B| - a.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space
from scipy.optimize import minimize

from scalefair._rounding import ROUNDING, TINY
from scalefair.postprocessing._explainable_svd import exact_first_moment, shrinkage

Array = NDArray[np.float64]

# Updates of the multipliers for one set of rows; five to ten are usual.
MAX_MULTIPLIER_STEPS = 15
# Shares of the forms' trace that the rows of a subproblem may leave out. Without these
# subproblems a solution takes three times as long.
OMITTED_SHARES = (1e-2, 1e-3, 1e-4)
# The dual needs positive weights: multipliers are shrunk until all are at least this.
MIN_WEIGHT = 1e-3


class DirectResult(NamedTuple):
    """Changed weight, and what a proof needs that no other changes the outputs less."""

    weight: Array  # (m, n)
    multiplier: Array  # (m, m), of V F V^T; for more than two groups of the first pair
    converged: bool  # whether both bounds hold


@dataclass(frozen=True)
class WhitenedProblem:
    """V_0, u_p and F_p, the bounds on both gaps, and T from V - V_0 to the weight."""

    start: Array  # V_0, (m, r)
    root: Array  # T, (n, r)
    means: Array  # (r, P), or (r, 0) if there is no bound on the means
    forms: Array  # (P, r, r), or (1, r): one form is diagonal
    mean_bound: float  # root of c_e
    covariance_bound: float  # root of c_v

    def products(self, V: Array) -> tuple[list[Array], list[Array]]:
        """V F_p and V F_p V^T for every pair."""
        if self.forms.ndim == 2:
            VF = [V * form for form in self.forms]
        else:
            VF = [V @ form for form in self.forms]
        return VF, [product @ V.T for product in VF]

    def covariance_gap(self, V: Array) -> float:
        """Root of the sum of |V F_p V^T|^2."""
        return float(np.sqrt(sum(np.sum(B * B) for B in self.products(V)[1])))

    def mean_gap(self, V: Array) -> float:
        """Root of the sum of |V u_p|^2."""
        return float(np.linalg.norm(V @ self.means))

    def is_feasible(self, V: Array, tol: float = 0.0) -> bool:
        """Whether both gaps of V are within the bounds, up to the relative `tol`."""
        return bool(
            self.mean_gap(V) <= self.mean_bound * (1 + tol)
            and self.covariance_gap(V) <= self.covariance_bound * (1 + tol)
        )

    @cached_property
    def mean_axes(self) -> tuple[Array, Array]:
        """Eigenvectors and eigenvalues of sum u_p u_p^T, the curvature of the means."""
        basis, lengths, _ = np.linalg.svd(self.means, full_matrices=False)
        return basis, lengths**2


def direct_weights(
    weight: Array,
    whitened: Array,
    root: Array,
    differences: Array,
    forms: Array,
    *,
    mean_bound: float,
    covariance_bound: float,
    tol: float = 1e-2,
) -> DirectResult:
    """Minimise tr (W' - W) S (W' - W)^T, sum |W' d|^2 <= c_e, sum |W' M W'^T|^2 <= c_v.

    Given W (m, n), W S T and T (n, r) with T T^T = S^+, d_p (n, P) and M_p (P, n, n);
    inf is no bound. `tol` is the relative accuracy of the covariance gap.
    """
    # 1. Whitened coordinates: V_0 = W S T, u_p = T^T d_p, F_p = T^T M_p T.
    means, full_root, start, basis = root.T @ differences, root, whitened, None
    if mean_bound == 0:  # V only has coordinates that are orthogonal to all means
        basis = null_space(means.T, rcond=ROUNDING)
        root, start = root @ basis, whitened @ basis
    if mean_bound in (0, np.inf):
        means = np.empty((root.shape[1], 0))
    forms = np.stack([root.T @ form @ root for form in forms])
    if len(forms) == 1:  # the eigenvectors of one form become the coordinates
        values, vectors = np.linalg.eigh(forms[0])
        forms, root = values[None], root @ vectors
        means, start = vectors.T @ means, start @ vectors
    bounds = float(np.sqrt(mean_bound)), float(np.sqrt(covariance_bound))
    problem = WhitenedProblem(start, root, means, forms, *bounds)
    # 2. The means alone have a closed form. Their solution may do for both bounds.
    V, multiplier = start.copy(), np.zeros((len(start),) * 2)
    if means.size:
        # The second moment is the identity in whitened coordinates, and so is S^+.
        V = exact_first_moment(start, means, lambda B: B, mean_bound)
    if not problem.is_feasible(V, ROUNDING):
        V, b = _minimise_by_subproblems(problem, V, tol)
        V = _feasible_point_on_line(problem, V)
        multiplier = b * problem.products(V)[1][0]
    # 3. Back to the weight: W' = W + (V - V_0) T^T, and what the basis leaves out of
    # V_0.
    step = (V - start) @ root.T
    if basis is not None:
        step -= (whitened - whitened @ basis @ basis.T) @ full_root.T
    return DirectResult(weight + step, multiplier, problem.is_feasible(V, ROUNDING))


def _minimise_by_subproblems(
    problem: WhitenedProblem, V: Array, tol: float
) -> tuple[Array, float]:
    """Solution with gaps at their bounds, up to `tol`, and the multiplier b.

    The gaps lie in few directions of the outputs. Only those with the largest shares
    are changed first; more are added until the gaps of all rows are as wanted.
    """
    # 1. Directions of the outputs by their shares in the forms, the largest first, and
    # for each the share of those behind it.
    total = np.sum([VF @ VF.T for VF in problem.products(V)[0]], axis=0)
    values, basis = np.linalg.eigh(total)
    values, basis = np.maximum(values[::-1], 0), basis[:, ::-1]
    omitted = 1 - np.cumsum(values / max(values.sum(), TINY))
    problem = replace(problem, start=basis.T @ problem.start)
    V = basis.T @ V
    # 2. The fewest leading rows that omit no more than each share, if these are at most
    # half of the rows; and all rows.
    sizes = {int(np.searchsorted(-omitted, -share)) + 1 for share in OMITTED_SHARES}
    sizes = {n for n in sizes if n <= len(V) // 2} | {len(V)}
    # 3. First multipliers. V meets the bound on the means without a. The curvature of
    # the forms' term is about b |V F V^T| |F|, and is to be five times that of the
    # change, which is one.
    forms = problem.forms
    norms = np.abs(forms) if forms.ndim == 2 else np.linalg.norm(forms, 2, axis=(1, 2))
    # A divisor of 8 TINY or more keeps the quotient finite.
    a, b = 0.0, 5 / max(problem.covariance_gap(V) * float(norms.max()), 8 * TINY)
    # 4. More and more rows: each solution, and its multipliers, start the next one.
    for n_rows in sorted(sizes):
        # What the other rows leave of the bound on the means.
        fixed = problem.mean_gap(V[n_rows:])
        mean_bound = np.sqrt(max(problem.mean_bound**2 - fixed**2, 0.0))
        subproblem = replace(
            problem,
            start=problem.start[:n_rows],
            mean_bound=max(float(mean_bound), TINY),
        )
        V[:n_rows], a, b = _solve_subproblem(subproblem, V[:n_rows], a, b, tol)
        if problem.is_feasible(V, tol):
            break
    return basis @ V, b


def _solve_subproblem(
    problem: WhitenedProblem, V: Array, a: float, b: float, tol: float
) -> tuple[Array, float, float]:
    """Update the multipliers until both gaps are on their bounds, up to `tol`."""
    points: list[tuple[float, float]] = []
    curvature, accuracy = float(problem.mean_axes[1].max(initial=0.0)), 0.1
    for _ in range(MAX_MULTIPLIER_STEPS):
        V = _minimise_lagrangian(problem, V, a, b, max(tol, accuracy))
        # Gaps relative to their bounds: one in the end.
        ratio = problem.covariance_gap(V) / problem.covariance_bound
        mean_ratio = problem.mean_gap(V) / problem.mean_bound
        # Complementarity: without a multiplier the means may be inside.
        on_bounds = abs(ratio - 1) <= tol and mean_ratio <= 1 + tol
        on_bounds &= a == 0 or mean_ratio >= 1 - tol
        if on_bounds and accuracy <= tol:
            break
        # Far from the bound a rough minimum is enough for the next multiplier.
        accuracy = 0.1 * min(abs(ratio - 1), 1.0)
        # Fixed-point step for a: gaps of means are about 1 / (1 + a curvature) of what
        # they were.
        if curvature > 0:
            a = max((1 + a * curvature) * mean_ratio - 1, 0.0) / curvature
        # Secant step for b, in logarithms of b and of the gap's ratio.
        points.append((np.log(b), np.log(max(ratio, TINY))))
        # One point has no slope: the first is one seen for wide layers.
        (log_b, log_ratio), slope = points[-1], -0.7
        if len(points) > 1 and points[-2][0] != log_b:
            slope = (log_ratio - points[-2][1]) / (log_b - points[-2][0])
            slope = np.clip(slope, -3.0, -0.2)  # rough minima may give any slope
        b = float(np.exp(log_b + np.clip(-log_ratio / slope, -3, 3)))
    return V, a, b


def _minimise_lagrangian(
    problem: WhitenedProblem, V: Array, a: float, b: float, tol: float
) -> Array:
    """Minimise L from V, in units of the norm of the change.

    Over X with V = X (I + a sum_p u_p u_p^T)^(-1/2), so that the terms of the change
    and of the means together have the curvature one.
    """
    basis, curvatures = problem.mean_axes
    roots = np.sqrt(1 + a * curvatures)
    unit = float(np.linalg.norm(V - problem.start))
    unit = max(unit, 1e-3 * float(np.linalg.norm(problem.start)), TINY)

    def scaled_along_means(V: Array, factors: Array) -> Array:
        scaled: Array = V + ((V @ basis) * (factors - 1)) @ basis.T
        return scaled

    def lagrangian(x: Array) -> tuple[float, Array]:
        # dL/dV = V - V_0 + a sum_p V u_p u_p^T + b sum_p (V F_p V^T) V F_p
        V = scaled_along_means(x.reshape(problem.start.shape) * unit, 1 / roots)
        gradient = V - problem.start
        value = np.sum(gradient * gradient) / 2
        for VF, B in zip(*problem.products(V), strict=True):
            value += b / 4 * np.sum(B * B)
            gradient += b * (B @ VF)
        if a:
            gaps = V @ problem.means
            value += a / 2 * np.sum(gaps * gaps)
            gradient += a * (gaps @ problem.means.T)
        gradient = scaled_along_means(gradient, 1 / roots)
        return float(value / unit**2), gradient.ravel() / unit

    result = minimize(
        lagrangian,
        scaled_along_means(V, roots).ravel() / unit,
        jac=True,
        method="L-BFGS-B",
        # The change has norm one: its derivatives are about size^(-1/2).
        options={"gtol": 2 * tol / np.sqrt(V.size), "ftol": 1e-14},
    )
    return scaled_along_means(result.x.reshape(V.shape) * unit, 1 / roots)


def _feasible_point_on_line(problem: WhitenedProblem, V: Array) -> Array:
    """First point of the line from V_0 through V that meets both bounds."""
    S = V - problem.start
    # The bounds hold at V + `inside` S and not at V + `outside` S, which is V_0 first.
    # `inside` grows from V until they hold; then bisection closes the interval.
    outside, inside = -1.0, 0.0
    while inside < 0.5 and not problem.is_feasible(V + inside * S):
        outside, inside = inside, max(1e-4, 3 * inside)
    if inside >= 0.5:  # none near V: shrink V itself, smaller V have smaller gaps
        mean = problem.mean_gap(V) / problem.mean_bound if problem.mean_bound else 0.0
        covariance = np.sqrt(problem.covariance_gap(V) / problem.covariance_bound)
        # Gaps are rounded relative to terms that cancel: a little further inside.
        return V / max(1.0, mean, float(covariance)) * (1 - 1e-9)
    for _ in range(20):
        middle = (outside + inside) / 2
        if problem.is_feasible(V + middle * S):
            inside = middle
        else:
            outside = middle
    return V + inside * S


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
    """Lower bound of the squared change of the outputs, by the dual.

    Given W S T (m, r), T (n, r), d (n,), M (n, n) and a symmetric multiplier Y (m, m)
    of ``V F V^T``, F = T^T M T. Every Y proves a bound: it may be that of another T.
    """
    # 1. Coordinates in which the form and its multiplier are diagonal, with units in
    # which both bounds are one. A bound of zero is replaced by a tiny one, which allows
    # more: the result is valid.
    d, vectors = np.linalg.eigh(root.T @ form @ root)
    b, basis = np.linalg.eigh(multiplier)
    if np.isinf(covariance_bound):
        b, covariance_bound = np.zeros_like(b), 1.0
    d, b = d / np.sqrt(covariance_bound), b * np.sqrt(covariance_bound)
    R, u = basis.T @ whitened @ vectors, vectors.T @ (root.T @ difference)
    u /= max(np.sqrt(mean_bound), 1e-8 * np.linalg.norm(R @ u), TINY)
    # 2. Weights 1 + b_i d_j must be positive: else b is shrunk. The smallest is at an
    # end of d and of b. Where all inputs are zero d is empty.
    low, high = d.min(initial=0.0), d.max(initial=0.0)
    smallest = min(float(b.min() * high), float(b.max() * low))
    if smallest < MIN_WEIGHT - 1:
        b *= (MIN_WEIGHT - 1) / smallest
    # 3. The minimum V of the Lagrangian, and the best a: 0, or with |V u| = 1.
    inverse = 1 / (1 + np.outer(b, d))
    V, a = R * inverse, 0.0
    gaps = V @ u
    if gaps @ gaps > 1:
        # V u = g / (1 + a k), by the formula of Sherman and Morrison for each row.
        along = inverse * u
        k = along @ u
        factors = shrinkage(gaps * gaps, 1 / k, 1.0, 2)
        V -= ((1 - factors) * gaps / k)[:, None] * along
        i = int(np.argmax(k))
        a = float((1 / factors[i] - 1) / k[i])
    return max(float(np.vdot(R, R - V) - np.linalg.norm(b) - a), 0.0)
