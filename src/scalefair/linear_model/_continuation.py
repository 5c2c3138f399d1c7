"""Solving the training problem, and tightening it until the scores' own gap is small.

The constraints are on a surrogate, which is kind to gaps that hide between its ranks
and in the width of its ramp. `meet_gap` is a continuation in that width; at the first
width at which the measured gap is near kappa, safeguarded steps change the surrogate's
bound until it is there. What is returned is chosen by the measured gap alone.
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

# Widths of the surrogate after the first, each half of the one before.
_N_WIDTHS = 4
# Gaps above this multiple of kappa ask for a narrower surrogate, those below it for
# another bound: at most so many are tried at a width, which aim at this part of kappa.
_FAR, _N_BOUNDS, _AIM = 1.3, 5, 0.95
# Problems solved at most.
_MOST = 14
# The gap follows a power of the bound, below 1: with 1 steps stall, with 2 overshoot.
_POWER = 1.5
# Where the bound would fall below this part of kappa it is the width that is wrong.
_LOWEST = 0.5
# Violations of an accepted solution, in units of the tolerance.
_ACCEPTED = 5
# Points tried between a fair solution and one that loses less.
_HALVINGS = 5
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


@dataclass
class Solver:
    """Solvers of problems with one oracle, and a record of what they did."""

    problem: ParityProblem
    inner_solver: str
    tol: float
    max_iter: int

    def __post_init__(self) -> None:
        self._before = self.problem.oracle.n_calls
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

    def certify(self, problem: ParityProblem, v: Array) -> DCResult:
        """Solve a problem by the DC algorithm, from a feasible point or from zero."""
        # The algorithm keeps what is feasible, as weights of zero are, but violations
        # as well.
        with single_blas_thread():
            if violation_at(problem, v) > self.tol:
                v = problem.start()
            before = self.n_calls
            options: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter}
            if self.inner_solver == "direct":
                options["max_iter"] *= _STEPS
                result = direct_switching_subgradient(
                    problem, v, eps=_EPSILON, **options
                )
            else:
                if self.inner_solver == "ssg":
                    options |= {"inner": "switching_subgradient", "eps": _EPSILON}
                result = idca(problem, v, **options)
        self._records += [
            replace(r, n_calls=r.n_calls + before) for r in result.history
        ]
        remedy = "Raise max_iter, or take a larger kappa"
        if self.inner_solver != "bundle":
            remedy = 'Take inner_solver="bundle"'
        elif result.n_iter < self.max_iter:
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
    infeasibility: float
    gap: float

    @property
    def bound(self) -> float:
        return self.problem.kappa

    @property
    def weights(self) -> Array:
        return self.problem.weights(self.x)

    @property
    def thresholds(self) -> Array:
        return np.array(self.problem.thresholds(self.x))


class _Search:
    """Problems with ever other surrogates, each solved from the solution of another."""

    def __init__(self, solver: Solver, measure: Measure, kappa: float) -> None:
        self._solver = solver
        self._measure = measure
        self._kappa = kappa
        self.trials: list[_Trial] = []

    def trial(self, last: _Trial | None, bound: float, width: float) -> _Trial:
        """Solve the problem with another surrogate, and remember the solution."""
        problem = last.problem if last is not None else self._solver.problem
        n_ranks = problem.n_thresholds
        # What a surrogate allows between two ranks is their distance.
        if width < problem.width and 1 / n_ranks > self._kappa:
            n_ranks *= 2
        problem = problem.with_surrogate(bound, width, n_ranks)
        v, multipliers = problem.start(), None
        if last is not None and last.problem.n_constraints == problem.n_constraints:
            v, multipliers = last.x, last.multipliers
        elif last is not None:
            v = problem.with_thresholds(last.weights, last.thresholds)
        found = self._solver.smooth(problem, v, multipliers)
        return self.add(problem, found)

    def add(
        self, problem: ParityProblem, found: AugmentedLagrangianResult | DCResult
    ) -> _Trial:
        """Remember a solution, and the gap of its scores."""
        gap = self._measure(problem.weights(found.x))
        solved = found.x, found.multipliers, found.objective, found.infeasibility
        self.trials.append(_Trial(problem, *solved, gap))
        return self.trials[-1]

    def is_met(self, trial: _Trial) -> bool:
        """Whether the gap of an accepted trial is kappa, or little less."""
        within = 2 * _AIM - 1 <= trial.gap / self._kappa <= 1
        return within and self.is_accepted(trial)

    def is_accepted(self, trial: _Trial) -> bool:
        """Whether the problem is solved, by scores of some use."""
        constant = self._solver.problem.constant_objective
        is_feasible = trial.infeasibility <= _ACCEPTED * self._solver.tol
        return is_feasible and trial.objective < constant

    @property
    def best(self) -> _Trial:
        """The fair trial that loses least; if there is none, the fairest."""

        def rank(trial: _Trial) -> tuple[bool, float, float]:
            excess = max(trial.gap, self._kappa)
            return not self.is_accepted(trial), excess, trial.objective

        return min(self.trials, key=rank)

    def first(self) -> _Trial:
        """Solve from zero; allow larger gaps until scores are not all alike."""
        bound = self._kappa
        while True:
            found = self.trial(None, bound, 1.0)
            if self.is_accepted(found) or bound == 1:
                return found
            bound = min(2 * bound, 1.0)

    def run(self, current: _Trial) -> None:
        """Narrow the surrogate, then change its bound, until the gap is kappa."""
        highest, n_known = max(self._kappa, current.bound), len(self.trials) - 1
        for n_left in reversed(range(_N_WIDTHS + 1)):
            is_near = self.is_accepted(current) and current.gap <= _FAR * self._kappa
            if is_near or n_left == 0:
                self._change_bound(current, highest, is_last=n_left == 0)
            is_fair = any(
                self.is_accepted(trial) and trial.gap <= self._kappa
                for trial in self.trials[n_known:]
            )
            if n_left == 0 or is_fair or len(self.trials) > _MOST:
                break
            if not self.is_accepted(current):
                current = self.best
            width = min(self._spread(current), self.trials[-1].problem.width) / 2
            current = self.trial(current, highest, width)

    def _spread(self, trial: _Trial) -> float:
        """Width of the scores between the ranks, without the outermost ones."""
        scores = trial.problem.oracle.scores(trial.weights)
        low, high = trial.problem.interval
        ranks = [max(1 - high, 0.02), min(1 - low, 0.98)]
        return max(float(np.ptp(np.quantile(scores, ranks))), 1e-3)

    def _change_bound(self, trial: _Trial, highest: float, *, is_last: bool) -> None:
        """Solve gap(bound) = kappa at a width, by steps in log(bound)."""
        fair, unfair = None, None  # bounds
        width, kappa = trial.problem.width, self._kappa
        solved = [trial]
        for _ in range(_N_BOUNDS):
            if self.is_met(trial) or not self.is_accepted(trial):
                break
            if trial.gap > kappa:
                unfair = trial.bound
            else:
                fair = trial.bound
            if fair is None:
                bound = trial.bound * max((_AIM * kappa / trial.gap) ** _POWER, _LOWEST)
            elif unfair is None:
                bound = min(fair / _LOWEST, highest)
            else:
                bound = float(np.sqrt(fair * unfair))
            if bound == fair or (bound < _LOWEST * kappa and not is_last):
                break
            nearest = min(solved, key=lambda t: abs(np.log(t.bound / bound)))
            trial = self.trial(nearest, bound, width)
            if self.is_accepted(trial):
                solved.append(trial)

    def improve(self) -> _Trial:
        """Go from the best trial towards unfair ones that lose less, while it is fair.

        Losses are convex, so that they fall on the way; gaps are measured.
        """
        best = fair = self.best
        if fair.gap > self._kappa:
            return fair
        for other in [t for t in self.trials if t.objective < fair.objective]:
            if other.gap <= self._kappa:
                continue
            low, high = 0.0, 1.0
            for _ in range(_HALVINGS):
                part = (low + high) / 2
                w = (1 - part) * fair.weights + part * other.weights
                gap = self._measure(w)
                if gap > self._kappa:
                    high = part
                    continue
                low = part
                x = fair.x.copy()
                x[: w.size] = w
                objective = fair.problem.smoothed(x, _CORNER).objective
                if objective < best.objective:
                    best = replace(fair, x=x, objective=objective, gap=gap)
        if best is not fair:
            x = best.problem.with_thresholds(best.weights, best.thresholds)
            best = replace(best, x=x)
        return best


@dataclass(frozen=True)
class Start:
    """A surrogate to begin with, and weights with thresholds if some are known."""

    kappa: float
    width: float = 1.0
    weights: Array | None = None
    thresholds: Array | None = None
    multipliers: Array | None = None
    is_nested: bool = False  # whether they are of a smaller model

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
    """Solve with ever other surrogates until the measured gap is at most kappa.

    First by the smoothed problem, or by the DC algorithm from what is feasible or
    without `smooth`. The problem of the surrogate that is best is certified; the
    weights stay those of the search where its solution has a larger gap.
    """
    search = _Search(solver, measure, kappa)
    problem, n_ranks = solver.problem, 0
    if start.thresholds is not None:  # of ranks that may have become denser
        n_ranks = max(start.thresholds.size // problem.n_families, problem.n_thresholds)
    problem = problem.with_surrogate(start.kappa, start.width, n_ranks)
    known, certified = None, None
    if (v := start.variables(problem)) is not None:
        value = problem.smoothed(v, 0.0)
        end = v, start.multipliers, value.objective, float(value.constraints.max())
        known = _Trial(problem, *end, measure(problem.weights(v)))
        search.trials.append(known)
    if known is None or start.is_nested or not search.is_met(known):
        is_feasible = known is not None and known.infeasibility <= solver.tol
        if not smooth or (is_feasible and not start.is_nested):
            x = problem.start() if known is None else known.x
            certified = solver.certify(problem, x)
            first = search.add(problem, certified)
        elif known is not None:
            first = search.trial(known, start.kappa, start.width)
        else:
            first = search.first()
        search.run(first)
    best = search.improve()
    if certified is not None and best.x is certified.x:
        return Solution(problem, certified, best.gap, kappa)
    problem, x = with_room(best.problem, best.x, _MARGIN * solver.tol)
    result = solver.certify(problem, x)
    gap = measure(problem.weights(result.x))
    if gap > max(kappa, best.gap):
        gap = best.gap
        violation = max(violation_at(problem, x), 0.0)
        result = replace(result, x=x, objective=best.objective, infeasibility=violation)
    return Solution(problem, result, gap, kappa)


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
