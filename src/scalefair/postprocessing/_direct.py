"""The direct method: smallest change of a layer under bounds on both moments' gaps.

In whitened coordinates V (m, r) of the weight, with u_p the differences of the means
and F_p those of the covariances, for each pair p of groups:

    min |V - V_0|^2 / 2  subject to  sum |V u_p|^2 <= c_e,  sum |V F_p V^T|^2 <= c_v.

For multipliers a and b of the two constraints the Lagrangian

    L(V) = |V - V_0|^2 / 2 + a/2 sum_p |V u_p|^2 + b/4 sum_p |V F_p V^T|^2

is minimised by L-BFGS. Secant steps find the multipliers at which both gaps are on
their bounds; each minimisation starts from the last one's solution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from scalefair._rounding import ROUNDING, TINY
from scalefair.postprocessing._explainable_svd import exact_first_moment

Array = NDArray[np.float64]

# Updates of the multipliers for one set of rows; five to ten are usual.
MAX_MULTIPLIER_STEPS = 15
# Shares of the forms' trace that the rows of a subproblem may leave out. Without these
# subproblems a solution takes three times as long.
OMITTED_SHARES = (1e-2, 1e-3, 1e-4)


@dataclass(frozen=True)
class DirectResult:
    """Changed weight, and what a proof needs that no other changes the outputs less."""

    weight: Array  # (m, n)
    multiplier: Array  # (m, m), of V F V^T; for more than two groups of the first pair
    converged: bool  # whether both bounds hold


@dataclass(frozen=True)
class Bounds:
    """Largest gaps in mean and in covariance."""

    mean: float
    covariance: float

    def hold(self, problem: WhitenedProblem, V: Array, tol: float = ROUNDING) -> bool:
        """Whether both gaps of V are within the bounds, up to the relative `tol`."""
        return bool(
            problem.mean_gap(V) <= self.mean * (1 + tol)
            and problem.covariance_gap(V) <= self.covariance * (1 + tol)
        )


@dataclass(frozen=True)
class Multipliers:
    """a and b, of the constraints on the means and on the covariances."""

    mean: float
    covariance: float


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
    # Whitened coordinates: V_0 = W S T, u_p = T^T d_p, F_p = T^T M_p T.
    means, full_root, start, basis = root.T @ differences, root, whitened, None
    if mean_bound == 0:  # V only has coordinates that are orthogonal to all means
        basis = _orthogonal_complement(means)
        root, start = root @ basis, whitened @ basis
    if mean_bound in (0, np.inf):
        means = np.empty((root.shape[1], 0))
    problem = WhitenedProblem.build(start, root, means, forms)
    bounds = Bounds(float(np.sqrt(mean_bound)), float(np.sqrt(covariance_bound)))
    # The means alone have a closed form. Their solution may do for both bounds.
    V, multiplier = _nearest_means(problem, bounds), np.zeros((len(start),) * 2)
    if not bounds.hold(problem, V):
        V, multipliers = _minimise_by_subproblems(problem, V, bounds, tol)
        V = _onto_bounds(problem, V, bounds)
        multiplier = multipliers.covariance * problem.products(V)[1][0]
    # Back to the weight: W' = W + (V - V_0) T^T, and what the basis leaves out of V_0.
    step = (V - problem.start) @ problem.root.T
    if basis is not None:
        step -= (whitened - start @ basis.T) @ full_root.T
    return DirectResult(weight + step, multiplier, bounds.hold(problem, V))


@dataclass(frozen=True)
class WhitenedProblem:
    """V_0, u_p and F_p, with T that takes V - V_0 back to a change of the weight."""

    start: Array  # (m, r)
    root: Array  # (n, r)
    means: Array  # (r, P), or (r, 0) if there is no bound on the means
    forms: Array  # (P, r, r), or (1, r): one form is diagonal

    @classmethod
    def build(
        cls, V: Array, root: Array, means: Array, forms: Array
    ) -> WhitenedProblem:
        """Transform the forms; of one form the eigenvectors become the coordinates."""
        forms = np.stack([root.T @ form @ root for form in forms])
        if len(forms) == 1:
            values, vectors = np.linalg.eigh(forms[0])
            forms, root = values[None], root @ vectors
            means, V = vectors.T @ means, V @ vectors
        return cls(V, root, means, forms)

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

    def rotated(self, basis: Array) -> WhitenedProblem:
        """Return the problem in other coordinates of the outputs."""
        return WhitenedProblem(basis.T @ self.start, self.root, self.means, self.forms)


def _orthogonal_complement(means: Array) -> Array:
    """Orthonormal basis of what is orthogonal to all columns."""
    vectors, lengths, _ = np.linalg.svd(means)
    rank = int(np.sum(lengths > ROUNDING * lengths.max(initial=0.0)))
    return vectors[:, rank:]


def _nearest_means(problem: WhitenedProblem, bounds: Bounds) -> Array:
    """Nearest matrix that meets the bound on the means."""
    if np.isinf(bounds.mean) or not problem.means.size:
        return problem.start.copy()
    return exact_first_moment(problem.start, problem.means, lambda B: B, bounds.mean**2)


def _minimise_by_subproblems(
    problem: WhitenedProblem, V: Array, bounds: Bounds, tol: float
) -> tuple[Array, Multipliers]:
    """Solution with gaps at their bounds, up to `tol`, and its multipliers.

    The gaps lie in few directions of the outputs. Only those with the largest shares
    are changed first; more are added until the gaps of all rows are as wanted.
    """
    shares, basis = _leading_directions(problem, V)
    rotated, V = problem.rotated(basis), basis.T @ V
    multipliers = _initial_multipliers(problem, V)
    # V is a solution for the rows before, and its multipliers are nearly those of all.
    for n_rows in _subproblem_sizes(shares):
        subproblem = Subproblem(rotated, n_rows, V, bounds)
        V[:n_rows], multipliers = subproblem.solve(multipliers, tol)
        if bounds.hold(rotated, V, tol):
            break
    return basis @ V, multipliers


def _initial_multipliers(problem: WhitenedProblem, V: Array) -> Multipliers:
    """Multipliers of a V on the bound of the means; b acts on leading directions."""
    if problem.forms.ndim == 2:
        largest = float(np.abs(problem.forms).max())
    else:
        largest = float(max(np.linalg.norm(form, 2) for form in problem.forms))
    # The curvature of the form's term is five times that of the change; 8 TINY keeps
    # the quotient finite.
    return Multipliers(0.0, 5 / max(problem.covariance_gap(V) * largest, 8 * TINY))


def _leading_directions(problem: WhitenedProblem, V: Array) -> tuple[Array, Array]:
    """Shares in the forms of orthonormal directions of the outputs, largest first."""
    total = np.zeros((len(V), len(V)))
    for form in problem.forms:
        if form.ndim == 1:
            total += (V * np.abs(form)) @ V.T
        else:
            VF = V @ form
            total += VF @ VF.T
    values, basis = np.linalg.eigh(total)
    values, basis = np.maximum(values[::-1], 0), basis[:, ::-1]
    return values / max(values.sum(), TINY), basis


def _subproblem_sizes(shares: Array) -> list[int]:
    """Numbers of leading rows, increasing: at most half of the rows, then all."""
    omitted = 1 - np.cumsum(shares)
    sizes = {int(np.searchsorted(-omitted, -share)) + 1 for share in OMITTED_SHARES}
    return [*sorted(n for n in sizes if n <= len(shares) // 2), len(shares)]


class Subproblem:
    """The problem for the first rows of V; the others stay as they are."""

    def __init__(
        self, problem: WhitenedProblem, n_rows: int, V: Array, bounds: Bounds
    ) -> None:
        self.problem, self.V, self.start = problem, V[:n_rows], problem.start[:n_rows]
        # What the other rows leave of the bound on the means.
        fixed = problem.mean_gap(V[n_rows:])
        mean = float(np.sqrt(max(bounds.mean**2 - fixed**2, 0.0)))
        self.bounds = Bounds(max(mean, TINY), bounds.covariance)
        self.mean_basis, lengths, _ = np.linalg.svd(problem.means, full_matrices=False)
        self.curvatures = lengths**2  # of |V u|^2 / 2 along the basis

    def solve(self, multipliers: Multipliers, tol: float) -> tuple[Array, Multipliers]:
        """Update the multipliers until both gaps are on their bounds, up to `tol`."""
        points: list[tuple[float, float]] = []  # logarithms of b and of the gap's ratio
        accuracy = 0.1
        for _ in range(MAX_MULTIPLIER_STEPS):
            self._minimise(multipliers, max(tol, accuracy))
            # Gaps relative to their bounds: one in the end.
            ratio = self.problem.covariance_gap(self.V) / self.bounds.covariance
            mean_ratio = self.problem.mean_gap(self.V) / self.bounds.mean
            # Complementarity: without a multiplier the means may be inside.
            on_bounds = abs(ratio - 1) <= tol and mean_ratio <= 1 + tol
            on_bounds &= multipliers.mean == 0 or mean_ratio >= 1 - tol
            if on_bounds and accuracy <= tol:
                break
            # Far from the bound a rough minimum is enough for the next multiplier.
            accuracy = 0.1 * min(abs(ratio - 1), 1.0)
            # Fixed-point step for a, secant step for b.
            points.append((np.log(multipliers.covariance), np.log(max(ratio, TINY))))
            multipliers = Multipliers(
                self._next_mean_multiplier(multipliers.mean, mean_ratio),
                float(np.exp(_secant_step(points))),
            )
        return self.V, multipliers

    def _next_mean_multiplier(self, multiplier: float, ratio: float) -> float:
        """Gaps of means are about ``1 / (1 + a curvature)`` of what they were."""
        if not self.curvatures.any():
            return 0.0
        curvature = float(self.curvatures.max())
        return max((1 + multiplier * curvature) * ratio - 1, 0.0) / curvature

    def _minimise(self, multipliers: Multipliers, tol: float) -> None:
        """Minimise the Lagrangian in units of the norm of the change.

        Over X with V = X (I + a sum_p u_p u_p^T)^(-1/2), so that the curvature of the
        means' term is one.
        """
        unit = float(np.linalg.norm(self.V - self.start))
        unit = max(unit, 1e-3 * float(np.linalg.norm(self.start)), TINY)
        roots = np.sqrt(1 + multipliers.mean * self.curvatures)
        result = minimize(
            self._lagrangian,
            self._scaled_along_means(self.V, roots).ravel() / unit,
            args=(multipliers, 1 / roots, unit),
            jac=True,
            method="L-BFGS-B",
            # The change has norm one: its derivatives are about size^(-1/2).
            options={"gtol": 2 * tol / np.sqrt(self.V.size), "ftol": 1e-14},
        )
        X = result.x.reshape(self.V.shape) * unit
        self.V = self._scaled_along_means(X, 1 / roots)

    def _scaled_along_means(self, V: Array, factors: Array) -> Array:
        """Return V with its parts along the means multiplied by the factors."""
        basis = self.mean_basis
        scaled: Array = V + ((V @ basis) * (factors - 1)) @ basis.T
        return scaled

    def _lagrangian(
        self, x: Array, multipliers: Multipliers, factors: Array, unit: float
    ) -> tuple[float, Array]:
        """L(V) / unit^2 and its gradient at x = X / unit."""
        # dL/dV = V - V_0 + a sum_p V u_p u_p^T + b sum_p (V F_p V^T) V F_p
        V = self._scaled_along_means(x.reshape(self.V.shape) * unit, factors)
        a, b = multipliers.mean, multipliers.covariance
        gradient = V - self.start
        value = np.sum(gradient * gradient) / 2
        for VF, B in zip(*self.problem.products(V), strict=True):
            value += b / 4 * np.sum(B * B)
            gradient += b * (B @ VF)
        if a:
            gaps = V @ self.problem.means
            value += a / 2 * np.sum(gaps * gaps)
            gradient += a * (gaps @ self.problem.means.T)
        gradient = self._scaled_along_means(gradient, factors)
        return float(value / unit**2), gradient.ravel() / unit


def _secant_step(points: list[tuple[float, float]]) -> float:
    """Logarithm of the multiplier where that of gap / bound should be zero."""
    log_multiplier, log_ratio = points[-1]
    slope = -0.7  # seen for wide layers; for one direction it is -1/3 to -1
    if len(points) > 1 and points[-2][0] != log_multiplier:
        slope = (log_ratio - points[-2][1]) / (log_multiplier - points[-2][0])
        slope = float(np.clip(slope, -3.0, -0.2))  # rough minima may give any slope
    return log_multiplier + float(np.clip(-log_ratio / slope, -3, 3))


def _onto_bounds(problem: WhitenedProblem, V: Array, bounds: Bounds) -> Array:
    """Last point of the line from V_0 through V that meets both bounds."""
    # Squares of both gaps at V + t S are polynomials of t, the highest power first.
    S = V - problem.start
    VF, B = problem.products(V)
    C = problem.products(S)[1]
    quartic = np.zeros(5)
    for product, b, c in zip(VF, B, C, strict=True):
        a = product @ S.T
        a += a.T.copy()
        quartic[:2] += np.vdot(c, c), 2 * np.vdot(a, c)
        quartic[2] += np.vdot(a, a) + 2 * np.vdot(b, c)
        quartic[3:] += 2 * np.vdot(a, b), np.vdot(b, b)
    g, h = V @ problem.means, S @ problem.means
    quadratic = np.array([np.vdot(h, h), 2 * np.vdot(g, h), np.vdot(g, g)])

    def within(t: float) -> bool:
        return bool(
            np.polyval(quartic, t) <= bounds.covariance**2
            and np.polyval(quadratic, t) <= bounds.mean**2
        )

    # The bounds hold at `inside` and not at `outside`: at V or a little beyond it.
    outside, inside = -1.0, 0.0
    while not within(inside) and inside < 0.5:
        outside, inside = inside, max(1e-4, 3 * inside)
    if inside >= 0.5:  # smaller outputs have smaller gaps
        mean = problem.mean_gap(V) / bounds.mean if bounds.mean else 0.0
        covariance = np.sqrt(problem.covariance_gap(V) / bounds.covariance)
        # Gaps are rounded relative to terms that cancel: a little further inside.
        return V / max(1.0, mean, float(covariance)) * (1 - 1e-9)
    for _ in range(20):
        middle = (outside + inside) / 2
        if within(middle):
            inside = middle
        else:
            outside = middle
    return V + inside * S
