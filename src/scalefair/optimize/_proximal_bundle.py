"""Certified solver of the convex subproblem: a proximal bundle method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair._digits import apart
from scalefair.kernels import single_blas_thread
from scalefair.optimize._checks import check_positive
from scalefair.optimize._cut_model import CutModel, Cuts
from scalefair.optimize._dc_problem import DCProblem, Oracle, Point
from scalefair.optimize._metric import Metric

__all__ = ["SubproblemResult", "proximal_bundle"]

# Most constraints that one call gives cuts of, the most violated ones. The quadratic
# programs of more take longer than the calls they save, and memory for all pairs.
_MOST_NEW = 100
_STALE = 5  # calls in a row that taught nothing, after which none will
_ROUNDING = 4 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class SubproblemResult:
    """Solution of the convex subproblem at a centre.

    Attributes
    ----------
    x : ndarray of shape (n,)
        Best nearly feasible point.
    value : float
        Objective of the subproblem at `x`, proximal term included.
    lower_bound : float
        No feasible point has a smaller value; -inf if the method proves none.
    gap : float
        ``value - lower_bound``; may be negative where the violation is not zero.
    violation : float
        Largest constraint value of the subproblem at `x`, 0 if none is positive.
    multipliers : ndarray of shape (m,)
        Multipliers of the constraints.
    n_calls : int
        Calls of the oracle.
    converged : bool
        Whether gap and violation are proved to be within the tolerance.
    message : str
        How the search ended and, if it failed, what to change.
    """

    x: NDArray[np.float64]
    value: float
    lower_bound: float
    gap: float
    violation: float
    multipliers: NDArray[np.float64]
    n_calls: int
    converged: bool
    message: str


@single_blas_thread()
def proximal_bundle(
    problem: DCProblem,
    center: ArrayLike,
    *,
    mu: float = 1.0,
    eps: float = 1e-6,
    max_calls: int = 200,
    metric: ArrayLike | None = None,
) -> SubproblemResult:
    r"""Solve the strongly convex subproblem at a centre, with a certificate.

    With the minus parts linearised at the centre c, :math:`g_i(v) = f_i^+(v) -
    f_i^-(c) - f_i^{-\prime}(c)^T (v - c)`, solves

    .. math::

        \min_v \; g_0(v) + \tfrac{\mu}{2} |v - c|^2 \quad \text{subject to} \quad
        g_i(v) + \tfrac{\mu}{2} |v - c|^2 \le \delta ,

    where :math:`\delta` is the violation at the centre, 0 if it is feasible. Every
    call of the oracle gives a tangent of each plus part. The subproblem with these
    tangents in place of the plus parts is a small quadratic program in its dual;
    its value is a lower bound and its minimiser the next point. The search ends
    when the inexactness criterion (27) of [1]_ is verified: value less lower bound
    and violation are both at most `eps`.

    Parameters
    ----------
    problem : DCProblem
        Objective and constraints; for a convex problem the minus parts are zero.
    center : array-like of shape (n,)
        Where the minus parts are linearised.
    mu : float, default=1.0
        Proximal weight, positive. The larger, the shorter the step and the fewer
        the calls.
    eps : float, default=1e-6
        Tolerance of gap and violation, in units of the functions.
    max_calls : int, default=200
        Most calls of the oracle.
    metric : array-like of shape (n,) or (n, n), or None, default=None
        Positive diagonal or positive definite matrix M of the norm in the proximal
        terms, :math:`|d|^2 = d^T M d`; None is the identity.

    Returns
    -------
    SubproblemResult
        The best nearly feasible point, its value and a lower bound.

    Raises
    ------
    ValueError
        If `center` is not a finite vector of the right length, `mu`, `eps` or
        `max_calls` is not positive, or `metric` not positive definite.
    FloatingPointError
        If the oracle returns numbers that are not finite.

    References
    ----------
    .. [1] He, Huang, Yao, Lin, "Enforcing fairness where it matters: an approach
       based on difference-of-convex constraints", section 6.

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.optimize import DCProblem, proximal_bundle
    >>> class Corner(DCProblem):  # |x| + |y| subject to 1 - x <= 0
    ...     n_variables, n_constraints = 2, 1
    ...
    ...     def plus(self, v):
    ...         values = np.array([np.abs(v).sum(), 1 - v[0]])
    ...         return values, np.array([np.sign(v), [-1.0, 0.0]])
    ...
    ...     def minus(self, v):
    ...         return np.zeros(2), np.zeros((2, 2))
    >>> found = proximal_bundle(Corner(), [2.0, 0.5], mu=0.1)
    >>> found.converged, found.x.round(3) + 0.0, found.multipliers.round(3)
    (True, array([1.057, 0.   ]), array([0.828]))
    """
    check_positive(mu=mu, eps=eps, max_calls=max_calls)
    oracle = Oracle(problem)
    centre = oracle(oracle.start(center, "center"))
    solver = BundleSolver(oracle, Metric(metric, oracle.n), mu=mu, eps=eps)
    return solver.solve(centre, max_calls).result


@dataclass(frozen=True)
class Solved:
    """What an inner solver hands to the outer loop."""

    result: SubproblemResult
    point: Point
    model: CutModel | None = None


class BundleSolver:
    """Bundle method that keeps its cuts from one centre to the next.

    Parameters
    ----------
    oracle : Oracle
        Counts the calls.
    metric : Metric
        Of the proximal term.
    mu : float
        Proximal weight; may be changed between calls of `solve`.
    eps : float
        Absolute tolerance of gap and violation.
    share : float
        Tolerance as a share of ``mu |x - centre|^2``; the larger of both holds.
    """

    def __init__(
        self,
        oracle: Oracle,
        metric: Metric,
        *,
        mu: float,
        eps: float,
        share: float = 0.0,
    ) -> None:
        self.oracle, self.metric = oracle, metric
        self.mu, self.eps, self.share = mu, eps, share
        self.cuts = Cuts(oracle.n)
        # No more constraints can bind at once than there are variables.
        self.most_new = min(oracle.m, max(10, 2 * oracle.n), _MOST_NEW) + 1
        self.max_cuts = max(100, 8 * self.most_new)

    def solve(
        self, centre: Point, max_calls: int, pull: NDArray[np.float64] | None = None
    ) -> Solved:
        """Solve the subproblem at a centre; `pull` moves the objective's prox."""
        self.cuts.prune(2 * self.most_new)
        oracle, before = self.oracle, self.oracle.n_calls
        model = self._model(centre, pull)
        self._cut(model, centre)
        best, value, violation = centre, float(model.values(centre)[0]), 0.0
        converged, stale, eps = False, 0, self.eps
        while (
            not (converged or stale == _STALE) and oracle.n_calls - before < max_calls
        ):
            if self.cuts.weights.size > self.max_cuts:
                self.cuts.prune(2 * self.most_new)
                bound, model = model.lower_bound, self._model(centre, pull)
                model.lower_bound = bound
            model.solve()
            d = model.step
            point = oracle(centre.x + d)
            values, prox = model.values(point), self.mu / 2 * self.metric.square(d)
            eps = max(self.eps, 2 * self.share * prox)
            over = float(np.max(values[1:] + prox, initial=0.0))
            if over <= eps and values[0] + prox < value:
                best, value, violation = point, float(values[0] + prox), over
            converged = value - model.lower_bound <= eps  # (27)
            stale = 0 if self._cut(model, point) else stale + 1
        result = SubproblemResult(
            x=best.x,
            value=value,
            lower_bound=model.lower_bound,
            gap=value - model.lower_bound,
            violation=violation,
            multipliers=model.multipliers,
            n_calls=oracle.n_calls - before,
            converged=converged,
            message=_message(converged, stale, value - model.lower_bound, eps),
        )
        return Solved(result, best, model)

    def _model(self, centre: Point, pull: NDArray[np.float64] | None) -> CutModel:
        shift = np.zeros(self.oracle.n)
        if pull is not None:
            shift = self.mu * self.metric.product(pull)
        return CutModel(
            self.cuts,
            centre,
            mu=self.mu,
            metric=self.metric,
            relax=centre.infeasibility,
            shift=shift,
        )

    def _cut(self, model: CutModel, point: Point) -> bool:
        """Add the tangents that say something new near the centre, if there are."""
        values, d = model.values(point), point.x - model.centre.x
        size = np.abs(point.plus) + np.abs(model.centre.minus)
        bounds = model.bounds(d)
        new = values - bounds > _ROUNDING * size
        # A constraint whose tangent stays negative within the step cannot bind yet.
        rows = point.plus_jacobian - model.minus_jacobian
        reach = np.linalg.norm(d) * np.linalg.norm(rows, axis=1)
        reach += self.mu / 2 * self.metric.square(d)
        new[1:] &= (values + reach >= 0)[1:]
        functions = np.flatnonzero(new)
        if functions.size > self.most_new:
            rank = np.where(functions > 0, values[functions], np.inf)
            order = np.argsort(-rank, kind="stable")[: self.most_new]
            functions = np.sort(functions[order])
        if functions.size:
            model.add(point, functions)
        return functions.size > 0


def _message(converged: bool, stale: int, gap: float, eps: float) -> str:
    if converged:
        return "Gap and violation are within the tolerance."
    if stale == _STALE:
        return f"The gap is {apart(gap, eps)}: rounding hides what is left; raise eps."
    return (
        f"The gap is {apart(gap, eps)}: max_calls reached; raise max_calls, mu or eps."
    )
