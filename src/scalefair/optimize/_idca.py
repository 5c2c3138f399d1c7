"""Inexact DC algorithm, and switching subgradients of subproblem and problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from scalefair._docs import documented
from scalefair._messages import format_distinct
from scalefair.kernels import single_blas_thread
from scalefair.optimize._dc_problem import (
    TEXTS,
    CountingOracle,
    DCProblem,
    DCRecord,
    DCResult,
    KKTResidual,
    OraclePoint,
    check_positive,
    least_residual,
    residual_at,
    residual_of_aggregate,
)
from scalefair.optimize._proximal_bundle import BundleSolver, Metric, SubproblemResult
from scalefair.optimize._simplex import Array

# Default calls per subproblem.
INNER_CALLS = {"bundle": 60, "switching_subgradient": 150}


@documented(**TEXTS)
@single_blas_thread()
def idca(
    problem: DCProblem,
    x0: ArrayLike,
    *,
    inner: str = "bundle",
    mu: float = 0.3,
    metric: ArrayLike | None = None,
    tol: float = 1e-3,
    max_iter: int = 1000,
    max_calls: int | None = None,
    inner_calls: int | None = None,
    eps: float | None = None,
    callback: Callable[[DCRecord], object] | None = None,
) -> DCResult:
    """Nearly-KKT point of a problem with differences of convex functions.

    The minus parts are linearised at the current point and the convex subproblem
    that results is solved approximately (algorithm 1 of [1]_), until a nearly-KKT
    residual (definition 6.2) of at most `tol` is proved. The bundle keeps its cuts
    between subproblems; the objective's proximal term is centred ahead of the iterate,
    along the last step (inertia), as long as the objective falls.

    Parameters
    ----------
    %(problem)s
    x0 : array-like of shape (n,)
        First point. From a feasible one all iterates are feasible with the bundle;
        otherwise the violation does not grow.
    inner : {"bundle", "switching_subgradient"}, default="bundle"
        Solver of the subproblems, see `proximal_bundle` and `switching_subgradient`.
    mu : float, default=0.3
        Proximal weight at the start; the bundle adapts it, to a tenth at the least.
    %(metric)s
        Rough curvatures of the objective can save most of the calls. The residual is
        in the Euclidean norm all the same.
    tol, max_iter : float and int, default=1e-3, 1000
        Bound on the nearly-KKT residual, and most subproblems.
    max_calls, inner_calls : int or None, default=None
        Most calls of the oracle (None: no limit), and most per subproblem (None: 60
        for the bundle, 150 for the switching subgradient method).
    eps : float or None, default=None
        Accuracy of the subproblems. None takes 2e-3 for switching subgradients; the
        bundle then works to 0.4 mu times the squared step.
    callback : callable or None, default=None
        Called with the `DCRecord` of every iteration.

    Returns
    -------
    DCResult
        The point whose residual was proved, the multipliers and the history.

    Raises
    ------
    ValueError
        If `x0`, `inner`, `mu`, `metric`, `tol`, `eps` or a limit is not as described.
    %(not_finite)s

    %(paper)s

    %(example)s
    >>> result = optimize.idca(Outside(), [4.0], tol=1e-5)
    >>> result.x.round(3), result.multipliers.round(3)
    (array([3.]), array([0.333]))
    """
    if inner not in INNER_CALLS:
        raise ValueError(
            f'inner must be "bundle" or "switching_subgradient", got {inner!r}.'
        )
    check_positive(mu=mu, tol=tol, eps=eps)
    check_positive(max_iter=max_iter, max_calls=max_calls, inner_calls=inner_calls)
    oracle = CountingOracle(problem)
    call_limit = np.inf if max_calls is None else max_calls
    per_subproblem = INNER_CALLS[inner] if inner_calls is None else inner_calls
    norm = Metric(metric, oracle.n)
    centre = oracle(oracle.start(x0, "x0"))
    step = (
        _BundleStep(oracle, norm, mu, eps or 1e-3 * tol**2)
        if inner == "bundle"
        else _SwitchingStep(oracle, norm, mu, eps or 2e-3)  # as the paper
    )
    history: list[DCRecord] = []
    while True:
        # Invariant: `centre` is the iterate w_k of algorithm 1. With the bundle its
        # infeasibility does not rise, but for `eps`, nor without inertia its objective.
        # Step 1: an inexact solution of the convex subproblem at the centre, the
        # smallest residual that is proved with it, and the next centre.
        calls = int(min(per_subproblem, max(call_limit - oracle.n_calls, 1)))
        certificate, centre = step.iterate(centre, calls)
        residual, _, point = certificate
        history.append(
            DCRecord(
                point.objective, point.infeasibility, residual.value, oracle.n_calls
            )
        )
        if callback is not None:
            callback(history[-1])
        # Step 2: the end, also where no subproblem gives a better point. The residual
        # may be that of the new point or of the old centre: `certificate` has it.
        is_limit = len(history) >= max_iter or oracle.n_calls >= call_limit
        if residual.value <= tol or step.is_stuck or is_limit:
            break
    advice = "the limit was reached; raise max_iter or max_calls."
    if step.is_stuck:
        advice = "no subproblem gave a better point; raise tol or mu."
    if residual.violation >= residual.value:
        advice = "the constraints are violated; start from a feasible point."
    return _result(certificate, oracle, history, len(history), tol, advice)


# A residual, its multipliers and the point that has it.
_Certificate = tuple[KKTResidual, Array, OraclePoint]


def _result(
    certificate: _Certificate,
    oracle: CountingOracle,
    history: list[DCRecord],
    n_iter: int,
    tol: float,
    advice: str,
) -> DCResult:
    """Return a result for the certified point; `advice` ends a failure's message."""
    residual, multipliers, point = certificate
    converged = residual.value <= tol
    return DCResult(
        x=point.x,
        objective=point.objective,
        infeasibility=point.infeasibility,
        kkt_residual=residual.value,
        multipliers=multipliers,
        n_iter=n_iter,
        n_calls=oracle.n_calls,
        history=history,
        converged=converged,
        message="The nearly-KKT residual is within the tolerance."
        if converged
        else "The nearly-KKT residual is "
        f"{format_distinct(residual.value, tol)}: {advice}",
    )


class _BundleStep:
    """Steps of the outer loop by the bundle: prox weight, inertia and certificates."""

    def __init__(
        self, oracle: CountingOracle, metric: Metric, mu: float, eps: float
    ) -> None:
        """Bundle with the `metric` of its steps and the least tolerance `eps`."""
        # Inexactness 0.4 mu |step|^2, less than the prox term's mu/2 |step|^2: a new
        # point is feasible if the old one was and, without inertia, not worse.
        self.solver = BundleSolver(oracle, metric, mu, eps, 0.4)
        self.min_mu = mu / 10
        self.inertia: Array | None = None  # shift of the objective's proximal centre
        self.n_falls = 0
        self.n_failures = 0

    @property
    def is_stuck(self) -> bool:
        """Whether no step improves the point."""
        return self.n_failures >= 5

    def iterate(
        self, centre: OraclePoint, calls: int
    ) -> tuple[_Certificate, OraclePoint]:
        """Solve a subproblem; return what it proves, and the next centre."""
        solved, new = self.solver.solve(centre, calls, self.inertia)
        lam, model = solved.multipliers, self.solver.model
        # 1. Residual of the new point, by its own subgradients.
        residual, point = residual_at(new, lam, new), new
        # 2. Residual of the centre, by the combination of cuts that solved the model:
        #    a subgradient of the weighted plus parts there, up to the cuts' error.
        norm = float(np.linalg.norm(model.aggregate + model.shift))
        other = residual_of_aggregate(centre, lam, centre, norm, model.error)
        if other.value < residual.value:
            residual, point = other, centre
        self._adapt(centre, new, solved.n_calls)
        return (residual, lam, point), new

    def _adapt(self, centre: OraclePoint, new: OraclePoint, n_calls: int) -> None:
        """Adapt proximal weight and inertia for the next subproblem."""
        solver = self.solver
        if new is centre:
            # No better point. With inertia the step may have been too long; without it
            # the weight is too small.
            if self.inertia is None:
                self.n_failures += 1
                solver.mu *= 4
                self.min_mu = max(self.min_mu, solver.mu / 10)
            self.inertia, self.n_falls = None, 0
            return
        self.n_failures = 0
        # Many calls: the step was too long for the model. A single one: it was short.
        if n_calls > 8:
            solver.mu *= 2
        elif n_calls == 1:
            solver.mu = max(solver.mu / 1.1, self.min_mu)
        self.n_falls = self.n_falls + 1 if new.objective < centre.objective else 0
        # t / (t + 3) for the t-th step in a row that lowers the objective; a step that
        # raises it restarts the count.
        momentum = self.n_falls / (self.n_falls + 3)  # as Nesterov's
        self.inertia = momentum * (new.x - centre.x) if self.n_falls else None


@documented(**TEXTS)
@single_blas_thread()
def switching_subgradient(
    problem: DCProblem,
    center: ArrayLike,
    *,
    mu: float = 1.0,
    eps: float = 1e-3,
    max_calls: int = 150,
    metric: ArrayLike | None = None,
) -> SubproblemResult:
    r"""Solve the convex subproblem at a centre by switching subgradients.

    The subproblem is that of `proximal_bundle`. Where the largest constraint value
    g is at most `eps` the step is :math:`-\epsilon g_0' / |g_0'|^2`, elsewhere
    :math:`-g g' / |g'|^2` with a subgradient of the most violated constraint
    (algorithm 2 of [1]_). No bound is proved: `converged` is False.

    Parameters
    ----------
    %(problem)s
    %(center)s
    eps : float, default=1e-3
        Tolerance of the violation and length of the steps, in units of the functions.
    max_calls : int, default=150
        Number of steps, a call each; fewer if a subgradient is zero.
    %(metric)s

    Returns
    -------
    SubproblemResult
        With the multipliers that fit the subgradients best, and lower bound -inf.

    Raises
    ------
    %(subproblem_raises)s

    %(paper)s

    %(example)s
    >>> result = optimize.switching_subgradient(Outside(), [4.0], max_calls=5000)
    >>> result.x.round(2), result.converged
    (array([3.17]), False)
    """
    check_positive(mu=mu, eps=eps, max_calls=max_calls)
    oracle = CountingOracle(problem)
    centre = oracle(oracle.start(center, "center"))
    step = _SwitchingStep(oracle, Metric(metric, oracle.n), mu, eps)
    return step.solve(centre, max_calls)[0]


@dataclass
class _SwitchingStep:
    """Steps of the outer loop by algorithm 2; multipliers are fitted to its points."""

    oracle: CountingOracle
    metric: Metric
    mu: float
    eps: float
    is_stuck: bool = False  # whether no step improves the point

    def solve(
        self, centre: OraclePoint, max_calls: int
    ) -> tuple[SubproblemResult, OraclePoint]:
        """Best nearly feasible point of at most `max_calls` steps of algorithm 2."""
        oracle, relax = self.oracle, centre.infeasibility
        n_calls = oracle.n_calls
        point, best = centre, centre
        best_value, best_violation = np.inf, 0.0
        message = "All steps taken; this method proves no bound."
        for t in range(max_calls + 1):
            # 1. Functions of the subproblem, (m + 1,): the minus parts are linear in d,
            #    every function has the prox mu/2 |d|^2 with the gradient `pull`, and
            #    constraints may be as far above 0 as the worst one at the centre.
            d = point.x - centre.x
            pull = self.mu * self.metric.product(d)
            values = point.plus - centre.minus - centre.minus_jacobian @ d
            values += d @ pull / 2
            values[1:] -= relax
            # 2. The best nearly feasible point.
            violation = float(np.max(values[1:], initial=0.0))
            is_feasible = violation <= self.eps
            if is_feasible and values[0] < best_value:
                best, best_value, best_violation = point, float(values[0]), violation
            if t == max_calls:
                break
            # 3. A Polyak step: it would lower the linearised objective by eps at a
            #    nearly feasible point, elsewhere the worst constraint to 0.
            i = 0 if is_feasible else 1 + int(np.argmax(values[1:]))
            slope = point.plus_jacobian[i] - centre.minus_jacobian[i] + pull
            square = float(slope @ slope)
            if square == 0.0:  # this function is as small as it can be
                message = f"Zero subgradient after {t} steps; no step leads on."
                break
            length = (self.eps if is_feasible else violation) / square
            point = oracle(point.x - length * slope)
        result = SubproblemResult(
            x=best.x,
            value=best_value,
            lower_bound=-np.inf,
            gap=np.inf,
            violation=best_violation,
            multipliers=least_residual(centre, best)[1],
            n_calls=oracle.n_calls - n_calls,
            converged=False,
            message=message,
        )
        return result, best

    def iterate(
        self, centre: OraclePoint, calls: int
    ) -> tuple[_Certificate, OraclePoint]:
        """Solve a subproblem; return the new point's residual, and the next centre."""
        _, new = self.solve(centre, calls)
        self.is_stuck = new is centre
        return (*least_residual(new, new), new), new


@documented(**TEXTS)
@single_blas_thread()
def direct_switching_subgradient(
    problem: DCProblem,
    x0: ArrayLike,
    *,
    eps: float = 1e-3,
    decreasing: bool = False,
    tol: float = 1e-3,
    max_iter: int = 10_000,
) -> DCResult:
    r"""Switching subgradients on a nonconvex problem itself.

    The steps are those of `switching_subgradient` with the functions
    :math:`f_i = f_i^+ - f_i^-` and differences of subgradients of the parts, for
    :math:`\epsilon_t` constant or :math:`c / (t + 1)` (algorithm 3 of [1]_). A
    heuristic: it may end at an infeasible point.

    Parameters
    ----------
    %(problem)s
    x0 : array-like of shape (n,)
        First point.
    eps, decreasing : float and bool, default=1e-3, False
        :math:`\epsilon_t`, or the c of one that decreases.
    tol : float, default=1e-3
        Nearly-KKT residual that counts as converged.
    max_iter : int, default=10000
        Most steps, each with a call of the oracle; fewer where a subgradient is zero.

    Returns
    -------
    DCResult
        The nearly feasible point of smallest objective, else the least infeasible
        one. Its history holds about a hundred records.

    Raises
    ------
    ValueError
        If `x0` is not a finite vector of length n or a number is not positive.
    %(not_finite)s

    %(paper)s

    %(example)s
    >>> optimize.direct_switching_subgradient(Outside(), [4.0]).x.round(2)
    array([3.])
    """
    check_positive(eps=eps, tol=tol, max_iter=max_iter)
    oracle = CountingOracle(problem)
    point = best = oracle(oracle.start(x0, "x0"))
    best_is_feasible = False
    history: list[DCRecord] = []
    record_interval = max(1, -(-max_iter // 100))
    for t in range(max_iter + 1):
        # 1. The nearly feasible point of smallest objective, else the least infeasible.
        allowed = eps / (t + 1) if decreasing else eps
        is_feasible = point.infeasibility <= allowed
        if is_feasible and not (best_is_feasible and point.objective >= best.objective):
            best, best_is_feasible = point, True
        elif not best_is_feasible and point.infeasibility < best.infeasibility:
            best = point
        if t % record_interval == 0 or t == max_iter:
            history.append(
                DCRecord(best.objective, best.infeasibility, np.nan, oracle.n_calls)
            )
        # 2. A Polyak step against the objective's subgradient, by eps_t, or against the
        #    worst constraint's, to 0.
        i = 0 if is_feasible else 1 + int(np.argmax(point.values[1:]))
        slope = point.plus_jacobian[i] - point.minus_jacobian[i]
        square = float(slope @ slope)
        if t == max_iter or square == 0.0:
            break
        length = (allowed if is_feasible else point.infeasibility) / square
        point = oracle(point.x - length * slope)
    advice = f"after {t} steps change eps, raise max_iter or use idca."
    certificate = (*least_residual(best, best), best)
    return _result(certificate, oracle, history, t, tol, advice)
