"""The direct method: smallest change of a layer under bounds on both moments' gaps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from scalefair.postprocessing._direct_sqp import nearest
from scalefair.postprocessing._explainable_svd import exact_first_moment

Array = NDArray[np.float64]

# Further rows are left as they are if without them the gaps end this near, in
# multiples of the accuracy.
_NEAR = 3.0
# The largest derivative ends at this multiple of the accuracy, relative to the root
# mean square of the change.
_SHARE = 2.0
# Share of the quadratic forms' trace that the rows of a level may leave out.
_LEVELS = (1e-2, 1e-4, 1e-5)
_MAX_ROUNDS = 15
_ROUGH = 0.1
_FIRST_OFF = 1.0
_FURTHER = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 0.5)
_TINY = 1e-300
_ROUNDING = 1e-12
_INSIDE = 1e-9
_MEMORY = 12
# Relative accuracy of the square that belongs to that of the covariance gap.
_OF_SQUARE = 0.1


@dataclass(frozen=True)
class DirectResult:
    """Changed weight, and what a proof needs that no other changes the outputs less."""

    weight: Array  # (m, n)
    multiplier: Array  # (m, m), of the outputs' covariances of the last pair
    converged: bool  # whether both bounds hold


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
    # In coordinates V = W' S T the change is |V - V_0|^2 and the forms are T^T M_p T.
    # For more groups than two, and where nothing is proved of two, both bounds are met
    # by penalties whose weights are found by secant steps, each problem solved by
    # L-BFGS from the last one's solution. Means that must be equal are left out of the
    # coordinates instead.
    means, full_root, start, kept = root.T @ differences, root, whitened, None
    if mean_bound == 0:
        kept = _complement(means)
        root, start = root @ kept, whitened @ kept
    if mean_bound in (0, np.inf):
        means = np.empty((root.shape[1], 0))
    problem = _Problem.of(start, root, means, forms)
    bounds = _Bounds(float(np.sqrt(mean_bound)), float(np.sqrt(covariance_bound)))
    V, multiplier = _nearest_means(problem, bounds), np.zeros((len(start),) * 2)
    if not bounds.hold(problem, V):
        V, multiplier = _solve(problem, V, bounds, tol)
    step = (V - problem.start) @ problem.root.T
    if kept is not None:
        step -= (whitened - start @ kept.T) @ full_root.T
    return DirectResult(
        weight=weight + step,
        multiplier=multiplier,
        converged=bounds.hold(problem, V),
    )


def _solve(
    problem: _Problem, start: Array, bounds: _Bounds, tol: float
) -> tuple[Array, Array]:
    """Change and multiplier, for two groups with a proof if there is one."""
    choices: list[tuple[Array, Array]] = []
    proved = False
    if problem.forms.ndim == 2:
        u = problem.means.sum(axis=1) / (bounds.mean or 1.0)  # of one pair, or none
        d = problem.forms[0] / bounds.covariance
        found = nearest(problem.start, d, u, _OF_SQUARE * tol)
        if found.V is not None and found.multiplier is not None:
            V = _within_bounds(problem, found.V, bounds)
            choices = [(V, found.multiplier / bounds.covariance)]
        proved = found.proved(_OF_SQUARE * tol)
    if not proved:
        V, penalties = _descend(problem, start, bounds, tol)
        V = _within_bounds(problem, V, bounds)
        choices.append((V, penalties.covariance * problem.products(V)[1][-1]))

    def change(choice: tuple[Array, Array]) -> float:
        within = bounds.hold(problem, choice[0])
        return float(np.sum((choice[0] - problem.start) ** 2)) if within else np.inf

    return min(choices, key=change)


@dataclass(frozen=True)
class _Bounds:
    """Largest gaps in mean and in covariance."""

    mean: float
    covariance: float

    def hold(self, problem: _Problem, V: Array, tol: float = _ROUNDING) -> bool:
        return bool(
            problem.mean_gap(V) <= self.mean * (1 + tol)
            and problem.gap(V) <= self.covariance * (1 + tol)
        )


@dataclass(frozen=True)
class _Penalties:
    """Weights of the squares of the gap in mean and of that in covariance."""

    mean: float
    covariance: float


@dataclass(frozen=True)
class _Problem:
    """The problem in whitened coordinates."""

    start: Array  # (m, r)
    root: Array  # (n, r)
    means: Array  # (r, P), or (r, 0) if there is no bound on the means
    forms: Array  # (P, r), P = 1, or (P, r, r)

    @classmethod
    def of(cls, V: Array, root: Array, means: Array, forms: Array) -> _Problem:
        forms = np.stack([root.T @ form @ root for form in forms])
        if len(forms) == 1:
            values, vectors = np.linalg.eigh(forms[0])
            forms, root = values[None], root @ vectors
            means, V = vectors.T @ means, V @ vectors
        return cls(V, root, means, forms)

    def products(self, V: Array) -> tuple[list[Array], list[Array]]:
        """V M_p and V M_p V^T for every pair."""
        if self.forms.ndim == 2:
            left = [V * form for form in self.forms]
        else:
            left = [V @ form for form in self.forms]
        return left, [product @ V.T for product in left]

    def gap(self, V: Array) -> float:
        return float(np.sqrt(sum(np.sum(B * B) for B in self.products(V)[1])))

    def mean_gap(self, V: Array) -> float:
        return float(np.linalg.norm(V @ self.means))

    def rotated(self, basis: Array) -> _Problem:
        """Return the problem in other coordinates of the outputs."""
        return _Problem(basis.T @ self.start, self.root, self.means, self.forms)


def _complement(means: Array) -> Array:
    """Orthonormal basis of what is orthogonal to all columns."""
    vectors, lengths, _ = np.linalg.svd(means)
    rank = int(np.sum(lengths > _ROUNDING * lengths.max(initial=0.0)))
    return vectors[:, rank:]


def _nearest_means(problem: _Problem, bounds: _Bounds) -> Array:
    """Nearest matrix that meets the bound on the means."""
    if np.isinf(bounds.mean) or not problem.means.size:
        return problem.start.copy()
    return exact_first_moment(problem.start, problem.means, lambda B: B, bounds.mean**2)


def _descend(
    problem: _Problem, start: Array, bounds: _Bounds, tol: float
) -> tuple[Array, _Penalties]:
    """Point with about the wanted gaps, and its penalties.

    The gaps lie in few directions of the outputs: the search begins with those that
    have the largest shares, and takes in more until the gaps of all are as wanted.
    """
    shares, basis = _row_shares(problem, start)
    turned = problem.rotated(basis)
    V = basis.T @ start
    penalties = _first_penalties(problem, start, bounds)
    for rows in _levels(shares):
        level = _Level(turned, rows, V, bounds)
        V[:rows], penalties = level.solve(penalties, tol)
        if bounds.hold(turned, V, _NEAR * tol):
            break
    return basis @ V, penalties


def _first_penalties(problem: _Problem, V: Array, bounds: _Bounds) -> _Penalties:
    """Of the order at which they bend the leading directions."""
    if problem.forms.ndim == 2:
        largest = float(np.abs(problem.forms).max())
    else:
        largest = float(max(np.linalg.norm(form, 2) for form in problem.forms))
    covariance = 5.0 / max(problem.gap(V) * largest, _TINY)
    mean = 0.0
    before = problem.mean_gap(problem.start)
    if problem.means.size and before > bounds.mean:
        mean = (before / bounds.mean - 1) / float(np.linalg.norm(problem.means, 2)) ** 2
    return _Penalties(mean, covariance)


def _row_shares(problem: _Problem, V: Array) -> tuple[Array, Array]:
    """Directions of the outputs, sorted by their part in the forms."""
    total = np.zeros((len(V), len(V)))
    for form in problem.forms:
        if form.ndim == 1:
            total += (V * np.abs(form)) @ V.T
        else:
            left = V @ form
            total += left @ left.T
    values, basis = np.linalg.eigh(total)
    values, basis = np.maximum(values[::-1], 0), basis[:, ::-1]
    return values / max(values.sum(), _TINY), basis


def _levels(shares: Array) -> list[int]:
    """Numbers of leading rows to work on, each larger, the last all."""
    left = 1 - np.cumsum(shares)
    levels = [int(np.searchsorted(-left, -share)) + 1 for share in _LEVELS]
    levels = [rows for rows in levels if rows <= len(shares) // 2]
    return [*sorted(set(levels)), len(shares)]


class _Level:
    """The penalised problem over the first rows; the others stay as they are."""

    def __init__(self, problem: _Problem, rows: int, V: Array, bounds: _Bounds) -> None:
        self.problem, self.point = problem, V[:rows]
        self.start = problem.start[:rows]
        # What the other rows leave of the bound on the means.
        others = problem.mean_gap(V[rows:])
        self.mean = float(np.sqrt(max(bounds.mean**2 - others**2, 0.0)))
        self.gap = bounds.covariance
        self.along, lengths, _ = np.linalg.svd(problem.means, full_matrices=False)
        self.stiffness = lengths**2

    def solve(self, penalties: _Penalties, tol: float) -> tuple[Array, _Penalties]:
        known: list[tuple[float, float]] = []
        off = _FIRST_OFF
        for _ in range(_MAX_ROUNDS):
            # Far from the wanted gap a rough point tells the next penalty.
            self._minimise(penalties, max(tol, _ROUGH * off))
            size = self.problem.gap(self.point) / self.gap
            mean = self.problem.mean_gap(self.point) / max(self.mean, _TINY)
            settled = mean <= 1 + tol and (penalties.mean == 0 or mean >= 1 - tol)
            rough, off = off * _ROUGH > tol, min(abs(size - 1), _FIRST_OFF)
            if abs(size - 1) <= tol and settled and not rough:
                break
            if size < 1 and penalties.covariance == 0:
                break
            known.append((np.log(penalties.covariance), np.log(max(size, _TINY))))
            penalties = _Penalties(
                self._next_mean(penalties.mean, mean), float(np.exp(_secant(known)))
            )
        return self.point, penalties

    def _next_mean(self, penalty: float, ratio: float) -> float:
        """Gaps are about ``1 / (1 + penalty stiffness)`` of what they were."""
        if not self.stiffness.size:
            return 0.0
        stiffness = float(self.stiffness.max())
        factor = (1 + penalty * stiffness) * ratio
        return max(factor - 1, 0.0) / stiffness

    def _minimise(self, penalties: _Penalties, tol: float) -> None:
        moved = np.sqrt(np.sum((self.point - self.start) ** 2))
        moved = max(float(moved), 1e-3 * float(np.linalg.norm(self.start)), _TINY)
        shrink = 1 / np.sqrt(1 + penalties.mean * self.stiffness) - 1
        found = minimize(
            self._value,
            self._stretched(self.point, 1 / (1 + shrink) - 1).ravel() / moved,
            args=(penalties, shrink, moved),
            jac=True,
            method="L-BFGS-B",
            options={
                "maxcor": _MEMORY,
                "gtol": _SHARE * tol / np.sqrt(self.point.size),
                "ftol": 1e-14,
            },
        )
        x = found.x.reshape(self.point.shape) * moved
        self.point = self._stretched(x, shrink)

    def _stretched(self, V: Array, factors: Array) -> Array:
        """V with its parts along the means multiplied by one plus the factors."""
        stretched: Array = V + ((V @ self.along) * factors) @ self.along.T
        return stretched

    def _value(
        self, x: Array, penalties: _Penalties, shrink: Array, unit: float
    ) -> tuple[float, Array]:
        """Penalised change and gradient, where the penalty of the means is round."""
        V = self._stretched(x.reshape(self.point.shape) * unit, shrink)
        left, forms = self.problem.products(V)
        gradient = V - self.start
        value = np.sum(gradient * gradient) / 2
        for product, B in zip(left, forms, strict=True):
            value += penalties.covariance / 4 * np.sum(B * B)
            gradient += penalties.covariance * (B @ product)
        if penalties.mean:
            gaps = V @ self.problem.means
            value += penalties.mean / 2 * np.sum(gaps * gaps)
            gradient += penalties.mean * (gaps @ self.problem.means.T)
        gradient = self._stretched(gradient, shrink)
        return float(value / unit**2), gradient.ravel() / unit


def _secant(known: list[tuple[float, float]]) -> float:
    """Logarithm of the penalty where that of the gap's excess is zero."""
    at, value = known[-1]
    slope = -0.7
    if len(known) > 1 and known[-2][0] != at:
        slope = (value - known[-2][1]) / (at - known[-2][0])
        slope = float(np.clip(slope, -3.0, -0.2))
    return at + float(np.clip(-value / slope, -3, 3))


def _within_bounds(problem: _Problem, V: Array, bounds: _Bounds) -> Array:
    """Last point of the line from the start through V that meets both bounds."""
    start, step = problem.start, V - problem.start
    low, high = 0.0, 1.0
    for further in _FURTHER:
        if bounds.hold(problem, start + high * step):
            break
        low, high = high, 1.0 + further
    else:  # smaller outputs have smaller gaps
        mean = 1.0
        if problem.means.size:
            mean = bounds.mean / max(problem.mean_gap(V), _TINY)
        share = np.sqrt(bounds.covariance / max(problem.gap(V), _TINY))
        # A little inside: gaps are rounded, relative to the terms that cancel in them.
        return V * (min(1.0, mean, float(share)) * (1 - _INSIDE))
    for _ in range(20):
        middle = (low + high) / 2
        inside = bounds.hold(problem, start + middle * step)
        low, high = (low, middle) if inside else (middle, high)
    return start + high * step
