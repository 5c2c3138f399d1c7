"""Training with a bound on the measured gap of the scores.

The constraints bound a surrogate of the gap. It underestimates the gap between sampled
ranks and within the width of its ramp. `GapSolver.meet_gap` narrows the ramp and then
lowers the surrogate's bound in proportion, until the measured gap is at most kappa.
The solution that is returned is chosen by its measured gap. An augmented Lagrangian
solves the problems, with the corners of the ramp rounded. The DC algorithm certifies
the solution: it computes the nearly-KKT residual.

Two numbers define a surrogate: the width of its ramp, in scores, and the bound on its
gap, the kappa of problems (13) and (17). With the width of the paper, 1, the ramp is a
coarse indicator of a score above a threshold: the problem is easy, and its solution a
good start, but the measured gap is usually larger than the bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from scalefair._messages import format_distinct, warn_user
from scalefair.kernels import single_blas_thread
from scalefair.linear_model._parity_problem import (
    ParityProblem,
    violation_at,
    with_slack,
)
from scalefair.linear_model._partitioned_oracle import RankedScores
from scalefair.linear_model._training_rows import LabeledRows
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

# Width of the rounding to either side of the ramp's corners, as a part of its width.
CORNER_RATIO = 0.05
# Width of the narrow ramp, as a part of the spread of the scores between the ranks.
NARROW_RATIO = 1 / 16
# Surrogates that are tried after the first one. Most fits need three.
MAX_SURROGATES = 6
# The bound is lowered for a measured gap of this part of kappa.
TARGET_RATIO = 0.95
# Subgradient steps of one subproblem, as in the paper.
SUBGRADIENT_STEPS = 150


@dataclass(frozen=True)
class Solution:
    """Point of a problem with some surrogate, and the measured gap of its scores."""

    problem: ParityProblem
    x: Array  # variables of the problem
    multipliers: Array | None  # of its constraints; None where no solver has run
    objective: float
    infeasibility: float
    gap: float  # measured
    kappa: float  # bound on the measured gap; problem.kappa bounds the surrogate's
    certificate: DCResult | None = None  # of the DC algorithm, if it has run

    @property
    def weights(self) -> Array:
        """Parameters w of the scores, the first part of x."""
        return self.problem.weights(self.x)

    @property
    def thresholds(self) -> Array:
        """Thresholds of all families, whether they are variables or fixed."""
        return np.array(self.problem.thresholds(self.x))

    @property
    def is_flat(self) -> bool:
        """Whether the scores are no better than constant ones, as far as chance tells.

        Never with kappa = 1: without a constraint that is the features' fault.
        """
        constant = self.problem.constant_objective
        gain_by_chance = max(1e-3 * constant, self.problem.gain_by_chance)
        return self.kappa < 1 and self.objective > constant - gain_by_chance

    def is_accepted(self, tol: float) -> bool:
        """Whether the problem is solved, and better than by constant scores."""
        # Corners and a stopped search leave a violation of a few tolerances.
        is_feasible = self.infeasibility <= 5 * tol
        return is_feasible and self.objective < self.problem.constant_objective


def best_solution(solutions: Sequence[Solution], tol: float) -> Solution:
    """Return the fair solution of least loss; without one, the fairest.

    Last come solutions that are not accepted; before them, unfair flat ones: constant
    scores would be fair, and as good.
    """

    def sort_key(solution: Solution) -> tuple[bool, bool, float, float]:
        is_unfair = solution.gap > solution.kappa
        return (
            not solution.is_accepted(tol),
            is_unfair and solution.is_flat,
            max(solution.gap, solution.kappa),  # the same for all fair ones
            solution.objective,
        )

    return min(solutions, key=sort_key)


@dataclass
class GapSolver:
    """Solver of training problems that bounds the measured gap, not the surrogate's.

    All problems share one oracle. They differ in the width and the bound of the
    surrogate and in the number of ranks.
    """

    problem: ParityProblem  # the first one: width 1, or the width that a user chose
    kappa: float  # bound on the measured gap
    measure: Callable[[Array], float]  # gap of the scores of some weights
    inner_solver: str  # of the DC algorithm: "bundle", "ssg" or "direct"
    tol: float  # of the nearly-KKT residual
    max_iter: int  # iterations of the DC algorithm
    smooth: bool  # whether the smoothed problem is solved before the DC algorithm

    def __post_init__(self) -> None:
        """Count calls from here on: other solvers may have used the oracle before."""
        self._first_call = self.problem.oracle.n_calls
        self._records: list[DCRecord] = []

    @property
    def n_calls(self) -> int:
        """Calls of the oracle by this solver, which are passes over the rows."""
        return self.problem.oracle.n_calls - self._first_call

    @property
    def _n_narrow_ranks(self) -> int:
        """Ranks of a narrow ramp, a multiple of those of the first problem.

        Between two ranks the gap is free, up to their distance of 1 / n_ranks: that is
        to be kappa at most. More ranks than rows say nothing more. A wide ramp smooths
        over several ranks, and needs no more of them.
        """
        n = self.problem.n_thresholds
        distinct = min(1 / self.kappa, self.problem.oracle.n_effective)
        return n * max(1, math.ceil(distinct / n))

    def start_at(
        self,
        bound: float,
        width: float,
        weights: Array,
        thresholds: Array,
        multipliers: Array | None = None,
    ) -> Solution:
        """Return weights and thresholds as a point of the problem of a surrogate.

        The thresholds are fitted to the weights; the gap of their scores is measured.
        """
        # An earlier search may have made the ranks denser; so does a narrow ramp.
        n_ranks = thresholds.size // self.problem.n_families
        if width < self.problem.width:
            n_ranks = max(n_ranks, self._n_narrow_ranks)
        n_ranks = max(n_ranks, self.problem.n_thresholds)
        # A bound of one is no constraint: gaps are at most one.
        problem = self.problem.with_surrogate(min(bound, 1.0), width, n_ranks)
        problem.require_memory()
        x = problem.with_thresholds(weights, thresholds)
        value = problem.smoothed(x, 0.0)
        return Solution(
            problem,
            x,
            multipliers,
            value.objective,
            float(value.constraints.max()),
            self.measure(weights),
            self.kappa,
        )

    def start_from(self, solution: Solution, weights: Array) -> Solution:
        """Return weights with the surrogate of a solution for other rows or kappa.

        Its bound keeps its ratio to kappa.
        """
        return self.start_at(
            self.kappa * solution.problem.kappa / solution.kappa,
            solution.problem.width,
            weights,
            solution.thresholds,
            solution.multipliers,
        )

    def solve_smoothed(
        self,
        bound: float,
        width: float,
        start: Solution | None = None,
        *,
        min_ranks: int = 0,
        is_final: bool = False,
    ) -> Solution:
        """Solve the problem of a surrogate with rounded corners, from any point.

        The ranks are those of the start, `min_ranks` at least. The violation of a final
        surrogate is within the tolerance also where corners are not rounded.
        """
        problem = self.problem if start is None else start.problem
        # 1. The problem.
        n_ranks = max(problem.n_thresholds, min_ranks)
        problem = problem.with_surrogate(bound, width, n_ranks)
        problem.require_memory()
        # 2. The start. Multipliers are those of the same constraints, or zero; other
        # ranks have other constraints and thresholds.
        if start is None:
            x, multipliers = problem.start(), None
        elif start.problem.n_constraints == problem.n_constraints:
            x, multipliers = start.x, start.multipliers
        else:
            x = problem.with_thresholds(start.weights, start.thresholds)
            multipliers = None
        # 3. The search. Corners add to the violation: it has to be much smaller. Where
        # the measured gap decides, a violation may be as large as the part of the slack
        # by which bounds are lowered.
        tol = 0.1 * self.tol
        if not is_final:
            allowed = (1 - TARGET_RATIO) * problem.slack
            tol = float(np.clip(allowed, tol, self.tol))
        n_calls = self.n_calls
        with single_blas_thread():  # Matrices are small: threads would wait.
            result = augmented_lagrangian(
                lambda v: problem.smoothed(v, CORNER_RATIO),
                x,
                multipliers=multipliers,
                tol=tol,
                stationarity=0.5 * self.tol,
                # The next surrogate, or the DC algorithm, goes on from here.
                settled=1e-3,
                max_iter=20,
                max_inner=80,
            )
        self._records += [
            DCRecord(objective, infeasibility, np.nan, calls + n_calls)
            for objective, infeasibility, calls in result.history
        ]
        return self._solution(problem, result)

    def certify(self, problem: ParityProblem, x: Array) -> Solution:
        """Solve a problem by the DC algorithm, from a feasible point or from zero.

        The result is the certificate of the solution. Its message says what to do if
        the residual is too large.
        """
        with single_blas_thread():
            # 1. The start. The algorithm keeps feasible points feasible, but keeps
            # violations, too.
            if violation_at(problem, x) > self.tol:
                x = problem.start()
            # 2. The DC algorithm, with the chosen solver of its subproblems.
            n_calls = self.n_calls
            options: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter}
            if self.inner_solver == "direct":
                options["max_iter"] *= SUBGRADIENT_STEPS
                result = direct_switching_subgradient(problem, x, eps=2e-3, **options)
            else:
                if self.inner_solver == "ssg":
                    options["inner"] = "switching_subgradient"
                    options["inner_calls"] = SUBGRADIENT_STEPS
                result = idca(problem, x, **options)
        self._records += [
            replace(record, n_calls=record.n_calls + n_calls)
            for record in result.history
        ]
        # 3. What to do if it did not converge.
        remedy = "Raise max_iter, or take a larger kappa"
        if self.inner_solver != "bundle":
            remedy = 'Take inner_solver="bundle"'
        elif result.n_iter < self.max_iter:
            remedy = "No step improves it: take a larger kappa"
        residual = max(result.kkt_residual, result.infeasibility)
        if residual < 1:  # A larger one says nothing of the solution.
            # A tenth more than the residual, which is rounded.
            remedy += f"; tol={1.1 * residual:.2g} would accept the solution"
        certificate = replace(
            result,
            converged=result.converged and result.infeasibility <= self.tol,
            message=f"{remedy}.",
        )
        return replace(self._solution(problem, result), certificate=certificate)

    def solve_fixed(self, start: Solution | None) -> Solution:
        """Solve the problem with its own surrogate; the gap is measured only.

        The method of the paper, but for the start: a feasible one is kept, and any
        other is improved by the augmented Lagrangian.
        """
        problem = self.problem
        if start is None:
            x = problem.start()
        else:
            x = problem.with_thresholds(start.weights, start.thresholds)
            start = replace(start, problem=problem, x=x, multipliers=None)
        if self.smooth and (start is None or violation_at(problem, x) > self.tol):
            kappa, width = problem.kappa, problem.width
            x = self.solve_smoothed(kappa, width, start, is_final=True).x
        return self._with_history(self.certify(problem, x))

    def meet_gap(self, start: Solution | None, *, is_nested: bool = False) -> Solution:
        """Solve with tighter and tighter surrogates until the gap is at most kappa.

        The start may be the solution of a smaller, nested model; it is then improved
        even if it meets kappa.
        """
        # Step 1: the first surrogate. From scratch it is that of the paper; a start has
        # one, which may be narrow. A feasible start is improved by the DC algorithm,
        # which keeps it feasible, an infeasible one by the augmented Lagrangian.
        solutions = [self._solve_accepted() if start is None else start]
        if start is not None:
            # A start with a gap just below kappa has little to gain: it is certified
            # as it is. One far below kappa, as of a smaller kappa, has much to gain.
            is_tight = 0.9 * self.kappa <= start.gap <= self.kappa
            if is_nested or not (is_tight and start.is_accepted(self.tol)):
                problem = start.problem
                is_feasible = start.infeasibility <= self.tol
                if self.smooth and (is_nested or not is_feasible):
                    current = self.solve_smoothed(problem.kappa, problem.width, start)
                else:
                    current = self.certify(problem, start.x)
                solutions.append(current)
        # Step 2: tighter ones, from the last solution.
        solutions += self._tighten(solutions[-1])
        # Step 3: the best of all, and the segments from it to unfair ones. Bounds are
        # lowered by a twentieth more than needed: a better point may lie between.
        best = best_solution(solutions, self.tol)
        if best.gap <= self.kappa:
            best = self._search_segments(best, solutions)
        # Step 4: the certificate.
        if best.certificate is None:
            best = self._certify_feasible(best)
        return self._with_history(best)

    def _solution(
        self, problem: ParityProblem, result: AugmentedLagrangianResult | DCResult
    ) -> Solution:
        """Return the result of a solver, and measure the gap of its scores."""
        return Solution(
            problem,
            result.x,
            result.multipliers,
            result.objective,
            result.infeasibility,
            self.measure(problem.weights(result.x)),
            self.kappa,
        )

    def _solve_accepted(self) -> Solution:
        """Solve from zero; double the bound until the solution is accepted."""
        if not self.smooth:
            return self.certify(self.problem, self.problem.start())
        # With a small bound, and many groups, the search may end at an infeasible point
        # or at constant scores. A bound of one is no constraint: the loop ends there at
        # the latest. The bound is lowered again by `_tighten`.
        bound = self.kappa
        while True:
            solution = self.solve_smoothed(bound, 1.0)
            if solution.is_accepted(self.tol) or bound == 1:
                return solution
            bound = min(2 * bound, 1.0)

    def _tighten(self, current: Solution) -> list[Solution]:
        """Narrow the ramp, then lower the bound in proportion to the measured gap.

        Each solution starts from the one before; the last may not be accepted.
        """
        solutions: list[Solution] = []
        # Invariant: `current` is accepted, unless it is the one that was passed.
        for _ in range(MAX_SURROGATES):
            if current.gap <= self.kappa and current.is_accepted(self.tol):
                break
            bound, width = current.problem.kappa, current.problem.width
            min_ranks = 0
            if not solutions and width == 1:
                # The width of the paper: narrow it once, before the bound is lowered. A
                # narrow ramp follows the measured gap: its bound need not be below
                # kappa at first.
                bound = max(bound, self.kappa)
                width = min(NARROW_RATIO * self._spread(current), width)
                min_ranks = self._n_narrow_ranks
            else:
                # The measured gap is about proportional to the bound. A bound of less
                # than half of the last one may have no solution near.
                bound *= max(TARGET_RATIO * self.kappa / current.gap, 0.5)
            solution = self.solve_smoothed(bound, width, current, min_ranks=min_ranks)
            if not solution.is_accepted(self.tol):
                # A rough start can lead astray: once more from an accurate one.
                problem = current.problem
                accurate = self.solve_smoothed(
                    problem.kappa, problem.width, current, is_final=True
                )
                solution = self.solve_smoothed(
                    bound, width, accurate, min_ranks=min_ranks, is_final=True
                )
            solutions.append(solution)
            if not solution.is_accepted(self.tol):
                break
            current = solution
        return solutions

    def _spread(self, solution: Solution) -> float:
        """Difference of the scores at the ends of the interval of ranks.

        The unit of the narrow ramp: scores have any scale.
        """
        low, high = solution.problem.interval
        # Levels of quantiles: rank p is that of the share p from the highest score.
        # The outermost 2 % are left out, as outliers.
        ends = [max(1 - high, 0.02), min(1 - low, 0.98)]
        scores = solution.problem.oracle.quantiles(solution.weights, ends)
        return max(float(np.ptp(scores)), 1e-3)

    def _search_segments(
        self, fair: Solution, solutions: Sequence[Solution]
    ) -> Solution:
        """Bisect the segments to unfair solutions of less loss; keep the gap.

        A convex loss that is less at the unfair end is less all the way. Gaps need not
        be monotone: they are measured.
        """
        # Five halvings, to 1/32 of a segment: each costs a pass over the rows, and
        # another one where the point is fair.
        best = fair
        for unfair in solutions:
            if unfair.gap <= self.kappa or unfair.objective >= fair.objective:
                continue
            # Invariant: the point at `low` is fair, that at `high` is not.
            low, high = 0.0, 1.0
            for _ in range(5):
                middle = (low + high) / 2
                weights = (1 - middle) * fair.weights + middle * unfair.weights
                gap = self.measure(weights)
                if gap > self.kappa:
                    high = middle
                    continue
                low = middle
                # The loss does not depend on the thresholds: take the fair end's.
                x = fair.x.copy()
                x[: weights.size] = weights
                objective = fair.problem.smoothed(x, CORNER_RATIO).objective
                if objective < best.objective:
                    best = replace(fair, x=x, objective=objective, gap=gap)
        if best is not fair:
            # Thresholds were those of the fair end: fit them to the new scores.
            x = best.problem.with_thresholds(best.weights, best.thresholds)
            best = replace(best, x=x, certificate=None)
        return best

    def _certify_feasible(self, solution: Solution) -> Solution:
        """Raise the bound until the solution is strictly feasible, and certify that.

        The DC algorithm moves the point a little. Weights whose gap exceeds both kappa
        and this solution's are not taken: its own stay, with the certificate of the
        problem.
        """
        problem, x = with_slack(solution.problem, solution.x, 0.1 * self.tol)
        certified = self.certify(problem, x)
        if certified.gap <= max(self.kappa, solution.gap):
            return certified
        violation = max(violation_at(problem, x), 0.0)
        return replace(
            certified,
            x=x,
            objective=solution.objective,
            infeasibility=violation,
            gap=solution.gap,
        )

    def _with_history(self, solution: Solution) -> Solution:
        """Return the solution with the history and calls of all problems solved.

        What a user sees is the whole search, not the last of its problems.
        """
        assert solution.certificate is not None
        history = list(self._records)
        certificate = replace(
            solution.certificate, n_calls=self.n_calls, history=history
        )
        return replace(solution, certificate=certificate)


def warn_unfinished(
    solution: Solution,
    scores: Array | RankedScores,
    rows: LabeledRows,
    tol: float,
    *,
    is_fixed: bool,
) -> None:
    """Warn of a solution without certificate, and of a gap above kappa.

    `scores` are those of the solution, whose ranks a tuned intercept does not change.
    `is_fixed` says that the user chose the surrogate, whose gap alone was bounded.
    """
    result, interval, messages = solution.certificate, solution.problem.interval, []
    if result is not None and not result.converged:
        messages.append(
            f"Training stopped after {result.n_iter} iterations with a nearly-KKT "
            f"residual of {format_distinct(result.kkt_residual, tol)} and a violation "
            f"of {format_distinct(max(solution.infeasibility, 0.0), tol)} "
            f"(tol={tol:g}). "
            f"{result.message}"
        )
    elif solution.is_flat:
        messages.append(
            "The scores fit the labels no better than the same score for all rows: "
            "chance makes such a difference. Nothing better was as fair. Take a larger "
            "kappa, or fewer groups; if that changes nothing, the features say nothing "
            "of the labels."
        )
    # A twentieth more than kappa is documented as accepted.
    if solution.gap > 1.05 * solution.kappa:
        remedy = 'Take surrogate_width="auto", which tightens the surrogate.'
        if not is_fixed:
            # What no surrogate changes: rows of equal scores, and chance.
            if isinstance(scores, RankedScores):
                tie = scores.largest_tie(interval)
            else:
                entry_scores = rows.membership.take(scores)
                arguments = interval, rows.membership.weights
                tie = max(
                    _largest_tie(entry_scores, sets, *arguments)
                    for sets in rows.compared
                )
            noise = null_parity_gap(list(rows.set_sizes), interval=interval)
            remedy = (
                "No surrogate that was tried makes it smaller. "
                f"{tie:.2g} of a group's rows between these ranks have one score, and "
                f"{noise:.2g} is what chance makes of fair scores in as many rows. "
            )
            if rows.given is None:
                remedy += (
                    "Where the group is known at prediction, "
                    "scalefair.postprocessing.FairCalibratedClassifier has any gap; "
                    "otherwise take a larger kappa or finer features."
                )
            else:
                remedy += "Take a larger kappa or finer features."
        messages.append(
            "The gap of the training rows is "
            f"{format_distinct(solution.gap, solution.kappa)}, more than "
            f"kappa={solution.kappa:g}. {remedy}"
        )
    for message in messages:
        warn_user(message, ConvergenceWarning)


def _largest_tie(
    scores: Array,
    sets: NDArray[Any],
    interval: tuple[float, float],
    weights: Array | None = None,
) -> float:
    """Largest share of a set's entries within the interval that have one score.

    `sets` has the set of each entry, -1 for those that are not compared.
    """
    largest = 0.0
    for code in np.unique(sets[sets >= 0]):
        members = sets == code
        # Distinct scores from the highest on, and the rows (by weight) of each. A tie
        # that crosses an end of the interval counts by its part within.
        ties = np.unique(-scores[members], return_inverse=True)[1]
        counts = np.bincount(ties, None if weights is None else weights[members])
        ranks = np.append(0.0, np.cumsum(counts) / counts.sum())
        shares = np.diff(np.clip(ranks, *interval)) / (interval[1] - interval[0])
        largest = max(largest, float(shares.max()))
    return largest
