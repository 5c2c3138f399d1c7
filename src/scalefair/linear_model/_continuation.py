"""Solving the training problem, and tightening it until the scores' own gap is small.

The constraints are on a surrogate, which is kind to gaps that hide between its ranks
and in the width of its ramp. `meet_gap` narrows the ramp and lowers the surrogate's
bound until the gap of the scores themselves is at most kappa.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from scalefair._messages import apart
from scalefair.kernels import single_blas_thread
from scalefair.linear_model._parity_problem import (
    ParityProblem,
    violation_at,
    with_room,
)
from scalefair.linear_model._training_rows import TrainingRows
from scalefair.linear_model._weights import Array
from scalefair.metrics import null_parity_gap
from scalefair.optimize import (
    AugmentedLagrangianResult,
    DCRecord,
    DCResult,
    augmented_lagrangian,
    direct_switching_subgradient,
    idca,
)

# Corners of the ramp are rounded over this part of its width to both sides, to treat
# it as smooth.
_CORNER = 0.05
# Of the paper: subgradient steps per subproblem, and accuracy of the subproblems.
_STEPS, _EPSILON = 150, 2e-3
# Parts of the tolerance to which the smoothed problem is solved, as its corners add to
# the violation, and to which the gradient of its Lagrangian is to fall.
_MARGIN, _STATIONARY = 0.1, 0.5
# Change of the objective, as a share, after which rounds end, and steps of a round.
_SETTLED, _INNER = 1e-3, 80

# Widths of the surrogate after the first, as parts of the spread of the scores; each
# is at most this part of the one before.
_WIDTHS = (0.5, 0.2, 0.1, 0.05)
_NARROWER = 0.7
# Gaps above this multiple of kappa ask for a narrower surrogate, those below it for a
# lower bound: one that aims at this part of kappa, but is lowered at most so far.
_FAR, _AIM, _LEAST = 1.3, 0.95, 0.3
# Problems solved at most; with gaps below this part of kappa so many higher bounds are
# tried.
_MOST, _TOO_LOW, _RETRIES = 14, 0.9, 2
# Gaps above this multiple of kappa are warned of.
_ALLOWED = 1.05

# Takes weights, returns the gap of the scores that the criterion is about.
Measure = Callable[[Array], float]


@dataclass(frozen=True)
class Solution:
    """Solution of a problem, whose surrogate may be tighter than asked, and its gap."""

    problem: ParityProblem
    result: DCResult
    gap: float
    kappa: float  # what the gap was to be
    is_fixed: bool = False  # whether the surrogate was given

    @property
    def is_flat(self) -> bool:
        """Whether the scores are no better than constant ones, though gaps count."""
        constant = self.problem.constant_objective
        better = max(_SETTLED * constant, self.problem.gain_by_chance)
        return self.kappa < 1 and self.result.objective > constant - better

    @property
    def weights(self) -> Array:
        return self.problem.weights(self.result.x)


class Solver:
    """Solvers of problems with one oracle, and a record of what they did."""

    def __init__(
        self, problem: ParityProblem, *, inner_solver: str, tol: float, max_iter: int
    ) -> None:
        self.problem = problem
        self.tol = tol
        self._inner_solver = inner_solver
        self._max_iter = max_iter
        self._before = problem.oracle.n_calls
        self._records: list[DCRecord] = []

    @property
    def n_calls(self) -> int:
        return self.problem.oracle.n_calls - self._before

    def smooth(
        self, problem: ParityProblem, v: Array, multipliers: Array | None
    ) -> AugmentedLagrangianResult:
        """Solve a problem with rounded corners, not certified, from any point."""
        before = self.n_calls
        with single_blas_thread():  # Matrices are small: threads would wait.
            found = augmented_lagrangian(
                lambda x: problem.smoothed(x, _CORNER),
                v,
                multipliers=multipliers,
                tol=_MARGIN * self.tol,
                stationarity=_STATIONARY * self.tol,
                settled=_SETTLED,
                max_iter=20,
                max_inner=_INNER,
            )
        self._records += [
            DCRecord(objective, infeasibility, np.nan, calls + before)
            for objective, infeasibility, calls in found.history
        ]
        return found

    def certify_near(
        self, problem: ParityProblem, v: Array
    ) -> tuple[ParityProblem, DCResult]:
        """Certify a smoothed problem's solution, with room between bound and it."""
        if violation_at(problem, v) <= self.tol:
            problem, v = with_room(problem, v, _MARGIN * self.tol)
        return problem, self.certify(problem, v)

    def certify(self, problem: ParityProblem, v: Array) -> DCResult:
        """Solve a problem by the DC algorithm, from a feasible point or from zero."""
        # The algorithm keeps what is feasible, as weights of zero are, but violations
        # as well.
        with single_blas_thread():
            if violation_at(problem, v) > self.tol:
                v = problem.start()
            before = self.n_calls
            options: dict[str, Any] = {"tol": self.tol, "max_iter": self._max_iter}
            if self._inner_solver == "direct":
                options["max_iter"] *= _STEPS
                result = direct_switching_subgradient(
                    problem, v, eps=_EPSILON, **options
                )
            else:
                if self._inner_solver == "ssg":
                    options |= {"inner": "switching_subgradient", "eps": _EPSILON}
                result = idca(problem, v, **options)
        self._records += [
            replace(r, n_calls=r.n_calls + before) for r in result.history
        ]
        remedy = "Raise max_iter, or take a larger kappa"
        if self._inner_solver != "bundle":
            remedy = 'Take inner_solver="bundle"'
        elif result.n_iter < self._max_iter:
            remedy = "No step improves it: take a larger kappa"
        residual = max(result.kkt_residual, result.infeasibility)
        if residual < 1:  # above it says nothing of the solution
            remedy += f"; tol={1.1 * residual:.2g} would accept the solution"
        return replace(
            result,
            n_calls=self.n_calls,
            history=list(self._records),
            converged=result.converged and result.infeasibility <= self.tol,
            message=f"{remedy}.",
        )


@dataclass(frozen=True)
class _Trial:
    """Solution of a smoothed problem, and the gap of its scores."""

    problem: ParityProblem
    x: Array
    multipliers: Array | None
    objective: float
    gap: float


class _Search:
    """Problems with ever other surrogates, each solved from the last solution."""

    def __init__(self, solver: Solver, measure: Measure, kappa: float) -> None:
        self._solver = solver
        self._measure = measure
        self._kappa = kappa
        self._worthwhile = (1 - _SETTLED) * solver.problem.constant_objective
        self.n_left = _MOST

    def trial(
        self, last: _Trial | None, kappa: float, width: float, is_denser: bool = False
    ) -> _Trial | None:
        """Solve the problem with another surrogate; None where that fails."""
        self.n_left -= 1
        problem = last.problem if last is not None else self._solver.problem
        n_ranks = problem.n_thresholds
        # What a surrogate allows between two ranks is their distance.
        if is_denser and 1 / n_ranks > self._kappa:
            n_ranks *= 2
        problem = problem.with_surrogate(kappa, width, n_ranks)
        v, multipliers = problem.start(), None
        if last is not None:
            thresholds = np.array(last.problem.thresholds(last.x))
            v = problem.with_thresholds(last.problem.weights(last.x), thresholds)
            if last.problem.n_constraints == problem.n_constraints:
                multipliers = last.multipliers
        found = self._solver.smooth(problem, v, multipliers)
        is_worse = found.objective > self._worthwhile
        if last is not None and (is_worse or found.infeasibility > self._solver.tol):
            return None
        gap = self._measure(problem.weights(found.x))
        return _Trial(problem, found.x, found.multipliers, found.objective, gap)

    def first(self) -> _Trial:
        """Solve from zero; allow larger gaps until scores are not all alike."""
        bound = self._kappa
        while True:
            found = self.trial(None, bound, 1.0)
            assert found is not None  # not from zero
            if found.objective <= self._worthwhile or bound == 1:
                return found
            bound = min(2 * bound, 1.0)

    def lowered(self, last: _Trial) -> _Trial | None:
        """Lower the surrogate's bound, in proportion to the gap."""
        share = max(_AIM * self._kappa / last.gap, _LEAST)
        return self.trial(last, share * last.problem.kappa, last.problem.width)

    def widths(self, last: _Trial) -> list[float]:
        """Narrower widths of the surrogate, parts of the spread of the scores."""
        scores = last.problem.oracle.scores(last.problem.weights(last.x))
        low, high = last.problem.interval
        ranks = [max(1 - high, 0.02), min(1 - low, 0.98)]  # not the outermost scores
        spread = max(float(np.ptp(np.quantile(scores, ranks))), 1e-3)
        least = _NARROWER * last.problem.width
        return [part * spread for part in _WIDTHS if part * spread <= least]

    def run(self, first: _Trial) -> list[_Trial]:
        """Return trials, of which the last has the gap, if one has."""
        trials, can_narrow = [first], True
        while trials[-1].gap > self._kappa and self.n_left > 0:
            last, found = trials[-1], None
            is_far = last.gap > _FAR * self._kappa
            if can_narrow and is_far and (widths := self.widths(last)):
                found = self.trial(last, self._kappa, widths[0], is_denser=True)
                can_narrow = found is not None
            if found is None:
                found = self.lowered(last)
            if found is None:
                break
            trials.append(found)
        return trials

    def raised(self, best: _Trial) -> _Trial:
        """Return the best fair trial, after raising a bound that is needlessly low."""
        above = None
        for _ in range(_RETRIES):
            low = best.problem.kappa
            if best.gap >= _TOO_LOW * self._kappa or low >= self._kappa:
                break
            bound = min(self._kappa, low * _AIM * self._kappa / max(best.gap, 1e-12))
            if above is not None:
                bound = float(np.sqrt(above * low))
            found = self.trial(best, bound, best.problem.width)
            if found is None or found.gap > self._kappa:
                above = bound
            elif found.objective < best.objective:
                best = found
        return best


@dataclass(frozen=True)
class Start:
    """A surrogate to begin with, and weights with thresholds if some are known."""

    kappa: float
    width: float = 1.0
    weights: Array | None = None
    thresholds: Array | None = None
    multipliers: Array | None = None

    @classmethod
    def like(cls, last: Solution, kappa: float) -> Start:
        """Start from the solution for other rows or another kappa."""
        problem, result = last.problem, last.result
        bound = kappa * problem.kappa / last.kappa
        thresholds = np.array(problem.thresholds(result.x))
        given = last.weights, thresholds, result.multipliers
        return cls(bound, problem.width, *given)

    def variables(self, problem: ParityProblem) -> Array | None:
        if self.weights is None or self.thresholds is None:
            return None
        return problem.with_thresholds(self.weights, self.thresholds)


def solve_fixed(solver: Solver, start: Start, *, smooth: bool) -> DCResult:
    """Solve the solver's problem as it is."""
    problem = solver.problem
    v = start.variables(problem)
    if smooth and (v is None or violation_at(problem, v) > solver.tol):
        v = problem.start() if v is None else v
        v = solver.smooth(problem, v, start.multipliers).x
    return solver.certify(problem, problem.start() if v is None else v)


def meet_gap(
    solver: Solver, measure: Measure, kappa: float, start: Start, *, smooth: bool
) -> Solution:
    """Solve with ever tighter surrogates until the measured gap is at most kappa.

    First by the smoothed problem, or by the DC algorithm from what is feasible or
    without `smooth`. The last surrogate's problem is the one that is certified.
    """
    search = _Search(solver, measure, kappa)
    problem, n_ranks = solver.problem, 0
    if start.thresholds is not None:  # of ranks that may have become denser
        n_ranks = max(start.thresholds.size // problem.n_families, problem.n_thresholds)
    problem = problem.with_surrogate(start.kappa, start.width, n_ranks)
    v = start.variables(problem)
    first, certified = None, None
    if not smooth or (v is not None and violation_at(problem, v) <= solver.tol):
        certified = solver.certify(problem, problem.start() if v is None else v)
        gap = measure(problem.weights(certified.x))
        end = certified.x, certified.multipliers, certified.objective
        first = _Trial(problem, *end, gap)
    elif v is not None:
        known = _Trial(problem, v, start.multipliers, np.inf, np.inf)
        first = search.trial(known, start.kappa, start.width)
    first = first or search.first()
    trials = search.run(first)
    fairest = min(trials, key=lambda trial: trial.gap)
    is_fair = fairest.gap <= kappa
    best = search.raised(trials[-1]) if is_fair else fairest

    def solution(trial: _Trial) -> Solution:
        problem, result = trial.problem, certified
        if trial is not first or result is None:
            problem, result = solver.certify_near(problem, trial.x)
        return Solution(problem, result, measure(problem.weights(result.x)), kappa)

    found = last = solution(best)
    bound = best.problem.kappa
    for _ in range(_RETRIES * is_fair):
        if found.gap <= kappa:
            break
        # The certified solution is another one than that of the smoothed problem.
        bound *= _AIM * kappa / last.gap
        tighter = search.trial(best, bound, best.problem.width)
        if tighter is None:
            break
        last = solution(tighter)
        found = min(found, last, key=lambda solution: solution.gap)
    return found


def warn_unfinished(
    found: Solution, scores: Array, rows: TrainingRows, tol: float, *, stacklevel: int
) -> None:
    """Warn of what is not certified to the tolerance, and of a gap above kappa."""
    result, problem, messages = found.result, found.problem, []
    if not result.converged:
        messages.append(
            f"Training stopped after {result.n_iter} iterations with a nearly-KKT "
            f"residual of {apart(result.kkt_residual, tol)} and a violation of "
            f"{apart(max(result.infeasibility, 0.0), tol)} (tol={tol:g}). "
            f"{result.message}"
        )
    elif found.is_flat:
        messages.append(
            "The scores fit the labels no better than the same score for all rows: "
            "chance makes such a difference. Nothing better was as fair. Take a larger "
            "kappa, or fewer groups; if that changes nothing, the features say nothing "
            "of the labels."
        )
    if found.gap > _ALLOWED * found.kappa:
        noise = null_parity_gap(list(rows.set_sizes), interval=problem.interval)
        tie = max(_largest_tie(scores, own, problem.interval) for own in rows.compared)
        remedy = (
            'Take surrogate_width="auto", which tightens the surrogate.'
            if found.is_fixed
            else "No surrogate that was tried makes it smaller. "
            f"{tie:.2g} of a group's rows between these ranks have one score, and "
            f"{noise:.2g} is what chance makes of fair scores in as many rows. "
            + (
                "Where the group is known at "
                "prediction, scalefair.postprocessing.FairCalibratedClassifier has any "
                "gap; otherwise take a larger kappa or finer features."
                if rows.given is None
                else "Take a larger kappa or finer features."
            )
        )
        messages.append(
            f"The gap of the training rows is {apart(found.gap, found.kappa)}, more "
            f"than kappa={found.kappa:g}. {remedy}"
        )
    for message in messages:
        warnings.warn(message, ConvergenceWarning, stacklevel=stacklevel + 1)


def _largest_tie(
    scores: Array, codes: NDArray[Any], interval: tuple[float, float]
) -> float:
    """Largest share of a set's rows within the interval that have one score."""
    largest = 0.0
    for code in np.unique(codes[codes >= 0]):
        counts = np.unique(-scores[codes == code], return_counts=True)[1]
        ranks = np.append(0.0, np.cumsum(counts) / counts.sum())
        within = np.diff(np.clip(ranks, *interval)) / (interval[1] - interval[0])
        largest = max(largest, float(within.max()))
    return largest
