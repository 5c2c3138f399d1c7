"""Certified solver of the convex subproblem: a proximal bundle method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from scalefair._docs import documented
from scalefair._messages import format_distinct
from scalefair._rounding import EPS
from scalefair.kernels import single_blas_thread
from scalefair.optimize._dc_problem import (
    TEXTS,
    CountingOracle,
    DCProblem,
    OraclePoint,
    check_positive,
)
from scalefair.optimize._simplex import Array, maximize_quadratic_on_simplex

# Constraints that one call gives cuts of at most, the most violated ones. The quadratic
# programs of more take longer than the calls they save, and memory for all pairs.
MAX_NEW_CUTS = 100
# Calls in a row without a new cut after which the search ends: only rounding remains.
MAX_NULL_CALLS = 5


@documented(**TEXTS)
@dataclass(frozen=True)
class SubproblemResult:
    """Solution of the convex subproblem at a centre.

    Attributes
    ----------
    x, multipliers : ndarray of shape (n,) and (m,)
        Best nearly feasible point, and nonnegative multipliers of the constraints.
    value, lower_bound, gap : float
        Objective at `x`, proximal term included; what no feasible point goes below,
        -inf if unproved; their difference, maybe negative if a constraint is violated.
    violation : float
        Largest constraint value of the subproblem at `x`, 0 if none is positive.
    n_calls, converged : int and bool
        Calls of the oracle; whether gap and violation are proved within the tolerance.
    message : str
        How the search ended and, if it failed, what to change.
    """

    x: Array
    value: float
    lower_bound: float
    gap: float
    violation: float
    multipliers: Array
    n_calls: int
    converged: bool
    message: str


@documented(**TEXTS)
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

    where :math:`\delta` is the violation at the centre, 0 if it is feasible. Tangents
    of the plus parts, one from each call, give a lower bound and the next point. The
    search ends when the inexactness criterion (27) of [1]_ is verified: gap and
    violation are both at most `eps`.

    Parameters
    ----------
    %(problem)s
    %(center)s
    eps, max_calls : float and int, default=1e-6, 200
        Tolerance of gap and violation, and most calls of the oracle.
    %(metric)s

    Returns
    -------
    SubproblemResult
        The best nearly feasible point, its value and a lower bound.

    Raises
    ------
    %(subproblem_raises)s

    %(paper)s

    %(example)s
    >>> result = optimize.proximal_bundle(Outside(), [4.0])
    >>> result.converged, result.x.round(3)
    (True, array([3.168]))
    """
    check_positive(mu=mu, eps=eps, max_calls=max_calls)
    oracle = CountingOracle(problem)
    centre = oracle(oracle.start(center, "center"))
    solver = BundleSolver(oracle, Metric(metric, oracle.n), mu=mu, eps=eps)
    return solver.solve(centre, max_calls)[0]


class BundleSolver:
    """Bundle method that keeps its cuts from one centre to the next.

    The larger tolerance holds: `eps`, or `share` of ``mu |x - centre|^2``.
    """

    def __init__(
        self,
        oracle: CountingOracle,
        metric: Metric,
        mu: float,
        eps: float,
        share: float = 0.0,
    ) -> None:
        """Empty bundle; `mu` and `eps` as in `proximal_bundle`, `share` as above."""
        self.oracle, self.metric = oracle, metric
        self.mu, self.eps, self.share = mu, eps, share
        self.model = CutModel(oracle.n, metric)
        # No more constraints can bind at once than there are variables.
        self.max_new = min(oracle.m, max(10, 2 * oracle.n), MAX_NEW_CUTS) + 1
        # A cut takes n numbers, and its products with the others one for each of them.
        self.max_cuts = max(100, 8 * self.max_new)

    def solve(
        self, centre: OraclePoint, max_calls: int, inertia: Array | None = None
    ) -> tuple[SubproblemResult, OraclePoint]:
        """Solve the subproblem at a centre; `inertia` moves the objective's prox."""
        # Cuts are minorants of the plus parts at any centre: those of the last
        # subproblem stay valid, and only their heights above the new centre change.
        oracle, model, first_call = self.oracle, self.model, self.oracle.n_calls
        model.prune(2 * self.max_new)
        model.move(centre, self.mu, inertia)
        self._cut(centre)
        # Invariant: `best` satisfies the relaxed constraints up to eps, `value` is its
        # objective with prox, and no feasible point has less than `model.lower_bound`.
        best, value, violation = centre, float(model.values(centre)[0]), 0.0
        converged, n_null_calls, eps = False, 0, self.eps
        while (
            not (converged or n_null_calls == MAX_NULL_CALLS)
            and oracle.n_calls - first_call < max_calls
        ):
            if model.weights.size > self.max_cuts:
                model.prune(2 * self.max_new)
            # Step 1: the minimiser of the model, and the functions there.
            model.solve()
            d = model.step
            point = oracle(centre.x + d)
            values, prox = model.values(point), self.mu / 2 * self.metric.square(d)
            # Step 2: the best nearly feasible point.
            # prox = mu/2 |d|^2, and `share` refers to mu |d|^2.
            eps = max(self.eps, 2 * self.share * prox)
            excess = float(np.max(values[1:] + prox, initial=0.0))
            if excess <= eps and values[0] + prox < value:
                best, value, violation = point, float(values[0] + prox), excess
            converged = value - model.lower_bound <= eps  # (27)
            # Step 3: new cuts.
            n_null_calls = 0 if self._cut(point) else n_null_calls + 1
        gap = value - model.lower_bound
        message = "Gap and violation are within the tolerance."
        if not converged:
            reason = "max_calls reached; raise max_calls, mu or eps."
            if n_null_calls == MAX_NULL_CALLS:
                reason = "rounding hides what is left; raise eps."
            message = f"The gap is {format_distinct(gap, eps)}: {reason}"
        result = SubproblemResult(
            x=best.x,
            value=value,
            lower_bound=model.lower_bound,
            gap=gap,
            violation=violation,
            multipliers=model.multipliers,
            n_calls=oracle.n_calls - first_call,
            converged=converged,
            message=message,
        )
        return result, best

    def _cut(self, point: OraclePoint) -> bool:
        """Add the tangents that lie above the model near the centre, if there are."""
        model = self.model
        # 1. A tangent is new if its function lies above the model at the point, by more
        #    than the rounding of the two parts.
        values, d = model.values(point), point.x - model.centre.x
        size = np.abs(point.plus) + np.abs(model.centre.minus)
        new = values - model.bounds(d) > 4 * EPS * size
        # 2. A constraint whose tangent stays negative within the step cannot bind yet:
        #    there it is at most the value at the point plus |row| |d| and the prox.
        rows = point.plus_jacobian - model.minus_jacobian
        increase = np.linalg.norm(d) * np.linalg.norm(rows, axis=1)
        increase += self.mu / 2 * self.metric.square(d)
        new[1:] &= (values + increase >= 0)[1:]
        functions = np.flatnonzero(new)
        # 3. At most `max_new` of them.
        if functions.size > self.max_new:  # the objective and the most violated ones
            rank = np.where(functions > 0, values[functions], np.inf)
            order = np.argsort(-rank, kind="stable")[: self.max_new]
            functions = np.sort(functions[order])
        if functions.size:
            model.add(point, functions)
        return functions.size > 0


class CutModel:
    """Cuts, and the proximal subproblem with all plus parts replaced by them.

    A cut is an affine minorant of a plus part, valid for every centre. The minus parts
    are linearised at the centre c, and mu is the same for all functions. With
    d = v - c the model is

        minimise   max_j (b_j + G_j d) + mu/2 |d|^2    over the objective's cuts
        subject to b_j + G_j d + mu/2 |d|^2 <= 0       for the constraints' cuts.

    Every l >= 0 that sums to 1 over the objective's cuts bounds it from below by

        b l - |G^T l|^2 / (2 mu (1 + sum of the constraints' weights)) .

    Norms are those of the metric. Constraints may exceed 0 by what they do at the
    centre (`relax`); `shift` is a slope taken from the objective.
    """

    centre: OraclePoint

    def __init__(self, n: int, metric: Metric) -> None:
        self.metric = metric
        # A row for each cut: slope, height at the centre, the function above it, and
        # the multiplier that the last subproblem gave.
        # Shapes (n_cuts, n) for slopes and rows, (n_cuts, n_cuts) for gram, (n_cuts,)
        # for the others. Function 0 is the objective.
        self.slopes, self.offsets = np.empty((0, n)), np.empty(0)
        self.owners, self.weights = np.empty(0, dtype=np.intp), np.empty(0)
        # G, b and the inner products of the rows of G, at the centre.
        self.rows, self.heights = np.empty((0, n)), np.empty(0)
        self.gram = np.empty((0, 0))

    def move(self, centre: OraclePoint, mu: float, inertia: Array | None) -> None:
        """Centre the model at a point, its cuts included."""
        # 1. A cut does not move: its height at the new centre follows from its slope.
        if self.weights.size:
            self.offsets = self.offsets + self.slopes @ (centre.x - self.centre.x)
        self.centre, self.mu, self.relax = centre, mu, centre.infeasibility
        # 2. Inertia e centres the objective's prox at c + e. As
        #        mu/2 |d - e|^2 = mu/2 |d|^2 - mu (M e)^T d + const,
        #    this is a slope to be taken from the objective, next to that of its minus
        #    part.
        self.shift = np.zeros(centre.x.size)
        if inertia is not None:
            self.shift = mu * self.metric.product(inertia)
        self.minus_jacobian = centre.minus_jacobian.copy()
        self.minus_jacobian[0] += self.shift
        # 3. Rows, heights and their products belong to a centre: form all of them anew.
        self.lower_bound = -np.inf
        self.rows, self.heights = self.rows[:0], self.heights[:0]
        self.gram = self.gram[:0, :0]
        self._extend()

    def add(self, point: OraclePoint, functions: NDArray[np.intp]) -> None:
        """Add the tangents of some functions at a point."""
        slopes = point.plus_jacobian[functions]
        offsets = point.plus[functions] - slopes @ (point.x - self.centre.x)
        self.slopes = np.concatenate([self.slopes, slopes])
        self.offsets = np.concatenate([self.offsets, offsets])
        self.owners = np.concatenate([self.owners, functions])
        self.weights = np.concatenate([self.weights, np.zeros(functions.size)])
        self._extend()

    def _extend(self) -> None:
        """Rows, heights and inner products of the cuts that have none yet."""
        # Height above the linearised minus part: b_j = offset_j - f^-(c), less what the
        # constraints may exceed; slope G_j = slope_j - f^-'(c).
        n_old = self.heights.size
        owners = self.owners[n_old:]
        heights = self.offsets[n_old:] - self.centre.minus[owners]
        heights -= self.relax * (owners > 0)
        self.heights = np.concatenate([self.heights, heights])
        rows = self.slopes[n_old:] - self.minus_jacobian[owners]
        self.rows = np.concatenate([self.rows, rows])
        # Entry (i, j) of the Gram matrix is G_i M^-1 G_j^T: n numbers for each new
        # pair.
        products = self.rows @ self.metric.inverse(rows).T
        gram = np.empty((len(products), len(products)))
        gram[:n_old, :n_old] = self.gram
        gram[:, n_old:], gram[n_old:, :] = products, products.T
        self.gram = gram

    def prune(self, n_newest: int) -> None:
        """Drop the cuts without multiplier, but for the newest ones."""
        kept = self.weights > 0
        kept[max(kept.size - n_newest, 0) :] = True
        if not (self.owners[kept] == 0).any():  # the objective needs a cut
            kept |= self.owners == 0
        self.slopes, self.offsets = self.slopes[kept], self.offsets[kept]
        self.owners, self.weights = self.owners[kept], self.weights[kept]
        self.rows, self.heights = self.rows[kept], self.heights[kept]
        self.gram = self.gram[np.ix_(kept, kept)]

    def values(self, point: OraclePoint) -> Array:
        """Functions of the subproblem at a point, without proximal term."""
        d = point.x - self.centre.x
        values = point.plus - self.centre.minus - self.minus_jacobian @ d
        values[1:] -= self.relax
        return values

    @property
    def aggregate(self) -> Array:
        """Weighted sum of the rows: slope of the model's Lagrangian at its end."""
        slope: Array = self.weights @ self.rows
        return slope

    @property
    def step(self) -> Array:
        """Minimiser of the model, relative to the centre."""
        # The Lagrangian of the model with the weights l is
        #     l^T (b + G d) + sigma mu/2 |d|^2,  sigma = 1 + weights of the constraints.
        # It is least at d = -M^-1 G^T l / (mu sigma).
        slope = self.metric.inverse(self.aggregate)
        return -slope / (self.mu * self._sigma(self.weights))

    @property
    def multipliers(self) -> Array:
        """Sums of the weights over each constraint's cuts."""
        sums = np.zeros(self.centre.plus.size)
        np.add.at(sums, self.owners, self.weights)
        return sums[1:]

    def bounds(self, d: Array) -> Array:
        """Largest cut of every function at centre + d; -inf without any."""
        bounds = np.full(self.centre.plus.size, -np.inf)
        np.maximum.at(bounds, self.owners, self.heights + self.rows @ d)
        return bounds

    @property
    def error(self) -> float:
        """Weighted height of the plus parts above the cuts at the centre."""
        return float(self.weights @ (self.centre.plus[self.owners] - self.offsets))

    def _sigma(self, weights: Array) -> float:
        """Factor of the prox in the Lagrangian: 1 + the constraints' weights."""
        return 1.0 + float(weights[self.owners > 0].sum())

    def dual(self, weights: Array) -> float:
        """Lower bound of the model for some weights of the cuts."""
        # |G^T l|^2 in the inverse metric; below 0 by rounding only.
        square = float(weights @ self.gram @ weights)
        curve = max(square, 0.0) / (2 * self.mu * self._sigma(weights))
        return float(self.heights @ weights) - curve

    def solve(self) -> None:
        """Maximise the dual by Newton's method; every step is a quadratic program."""
        # 1. The last weights, those of the objective's cuts scaled to the sum 1.
        weights, objective = self.weights.copy(), self.owners == 0
        total = weights[objective].sum()
        if total > 0:
            weights[objective] /= total
        else:
            weights[np.flatnonzero(objective)[-1]] = 1.0
        value = self.dual(weights)
        for _ in range(30):  # some five are taken
            # 2. Maximiser of the second-order model: a quadratic program.
            target, predicted = self._newton_target(weights)
            # 3. Line search: at least a tenth of the predicted increase, less what
            #    rounding can hide. The dual is steep for small mu: without the last
            #    steps, which it cannot see, the constraints would be violated.
            size = np.abs(self.heights) @ weights
            size += weights @ np.abs(self.gram) @ weights / (2 * self.mu)
            rounding = 4 * EPS * float(size)
            length, trial, gain = 1.0, target, self.dual(target) - value
            while gain < 0.1 * length * predicted - rounding:
                length /= 2
                trial = weights + length * (target - weights)
                gain = self.dual(trial) - value
            weights, value = trial, value + gain
            # The quadratic term, sigma mu/2 |d|^2, measures what is still to be gained.
            prox = float(self.heights @ weights) - value
            if predicted <= max(1e-3 * prox, rounding):
                break
        self.weights = weights
        self.lower_bound = max(self.lower_bound, self.dual(weights))

    def _newton_target(self, weights: Array) -> tuple[Array, float]:
        """Maximiser of the dual's second-order model, and the increase it predicts."""
        # The dual is  b l - |G^T l|^2 / (2 mu sigma),  with sigma linear in l. Its
        # second term is a square over a linear function, which is convex: `hessian`,
        # minus the second derivatives of the dual, is positive semidefinite, and the
        # model has a maximum over the simplex.
        mu, sigma = self.mu, self._sigma(weights)
        constrained = (self.owners > 0).astype(np.float64)
        product = self.gram @ weights / (mu * sigma)  # - G e, e the current step
        square = float(weights @ product) / (mu * sigma)  # |e|^2
        # d sigma / d l_j is 1 for the constraints' cuts and 0 for the objective's.
        gradient = self.heights - product + mu / 2 * square * constrained
        cross = np.outer(product, constrained)
        hessian = self.gram / mu - (cross + cross.T)
        hessian += mu * square * np.outer(constrained, constrained)
        hessian /= sigma
        # The model around l, written with x in place of x - l: gradient + hessian l.
        target = maximize_quadratic_on_simplex(
            gradient + hessian @ weights,
            hessian,
            x0=weights,
            subset=self.owners == 0,
        )
        change = target - weights
        predicted = float(change @ gradient - change @ hessian @ change / 2)
        return target, predicted


class Metric:
    """Products with a positive definite matrix, maybe diagonal, and inverse."""

    def __init__(self, matrix: ArrayLike | None, n: int) -> None:
        M = np.ones(n) if matrix is None else np.asarray(matrix, dtype=np.float64)
        self.matrix: Array = M
        refused = ""
        if M.shape not in ((n,), (n, n)):
            refused = f"an array of shape {M.shape}"
        elif not np.isfinite(M).all():
            refused = "entries that are not finite"
        elif M.ndim == 1:
            refused = "" if (M > 0).all() else f"{M.min()} among the numbers"
        elif np.abs(M - M.T).max() > 1e-10 * np.abs(M).max():
            refused = "one that is not symmetric: use (M + M.T) / 2"
        else:
            try:
                self.factor = cho_factor(M)
            except LinAlgError as error:
                refused = f"an indefinite one ({error})"
        if refused:
            raise ValueError(
                f"metric must be {n} positive numbers or a symmetric positive definite "
                f"matrix of shape {(n, n)}, got {refused}."
            )

    def product(self, d: Array) -> Array:
        """Return the matrix times a vector."""
        return self.matrix * d if self.matrix.ndim == 1 else self.matrix @ d

    def square(self, d: Array) -> float:
        """Squared norm of a vector of length n."""
        return float(d @ self.product(d))

    def inverse(self, rows: Array) -> Array:
        """Rows times the inverse."""
        if self.matrix.ndim == 1:
            return rows / self.matrix
        # M is symmetric: M^-1 rows^T, transposed.
        solved: Array = cho_solve(self.factor, rows.T, check_finite=False)
        return solved.T
