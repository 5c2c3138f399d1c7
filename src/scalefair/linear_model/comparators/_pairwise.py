"""Linear classifier under pairwise fairness constraints; pairs are never formed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cholesky, solve_triangular
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from scalefair._docs import documented
from scalefair._groups import GroupCodes
from scalefair._messages import format_distinct, warn_user
from scalefair.kernels import row_scores, row_table, weighted_row_sums
from scalefair.linear_model._base import TEXTS, BaseGroupClassifier
from scalefair.linear_model._oracle import ScoreOracle
from scalefair.linear_model._training_rows import LabeledRows
from scalefair.linear_model._weights import (
    Array,
    FeatureUnits,
    column_spread,
    ridge_factors,
)
from scalefair.optimize import ConstrainedValue, augmented_lagrangian
from scalefair.streaming import GroupMoments


@documented(**TEXTS)
class PairwiseFairClassifier(BaseGroupClassifier):
    r"""Linear classifier whose scores rank rows of different groups alike.

    Minimises the mean loss under convex quadratic bounds [1]_ on how often rows of one
    group are ranked above those of another. For each ordered pair :math:`(k, k')` of
    groups at most `kappa` is allowed: the mean of :math:`(1 + h - h')^2 / 2` over

    - ``"group_auc"`` (66): rows of `k` and of :math:`k'`, less 1/2;
    - ``"inter_group"`` (69): positives of `k` and negatives of :math:`k'`, plus that
      over negatives of `k` and positives of :math:`k'`, less 1;
    - ``"intra_group"`` (71): positives and negatives of `k`, plus that over negatives
      and positives of :math:`k'`, less 1.

    A small `kappa` also makes scores small: their squared differences count.

    Parameters
    ----------
    constraint : {"group_auc", "inter_group", "intra_group"}, default="group_auc"
        What is bounded. The last two need rows of both classes in every group.
    kappa : float, default=0.05
        The bound; not a probability, values from 0.05 to 10 make sense.
    loss : {"logistic", "squared"}, default="logistic"
        Objective, a mean over the rows; ``"squared"`` is halved.
    %(interactions)s
    alpha : float, default=0.0
        Factor of half the squared norm of the coefficients of standardized features.
    tol : float, default=1e-4
        Bound on `kkt_residual_`.
    max_iter : int, default=50
        Most updates of the multipliers, each after up to 500 iterations of L-BFGS.
    %(group_limits)s

    Attributes
    ----------
    %(group_weights_)s
    %(input_)s
    surrogate_gap_ : float
        Largest left side of the constraints on the training rows.
    objective_, infeasibility_ : float
        The objective with its penalty, and the largest violation of a constraint.
    kkt_residual_ : float
        The largest of the norm of the Lagrangian's gradient (in whitened variables),
        the infeasibility (relative to the bound) and the products of constraints and
        multipliers. The problem is convex: zero means that no weights are better.
    n_iter_, n_oracle_calls_, converged_ : int, int and bool
        Iterations, passes over the rows, and whether the residual is within `tol`.

    See Also
    --------
    PartiallyFairClassifier : Parity within a range of ranks.
    PenalizedPartialParityClassifier : The same by a penalty.

    References
    ----------
    %(paper)s
       Appendix D.3.

    %(example_rows)s
    >>> from scalefair.linear_model import PairwiseFairClassifier
    >>> tight = PairwiseFairClassifier(kappa=0.5).fit(X, y, sensitive_features=group)
    >>> tight.converged_, round(tight.surrogate_gap_, 3)
    (True, 0.5)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseGroupClassifier._parameter_constraints,
        "constraint": [StrOptions({"group_auc", "inter_group", "intra_group"})],
        "kappa": [Interval(Real, 0, None, closed="neither")],
        "loss": [StrOptions({"logistic", "squared"})],
    }

    def __init__(
        self,
        constraint: str = "group_auc",
        kappa: float = 0.05,
        *,
        loss: str = "logistic",
        interactions: bool = True,
        alpha: float = 0.0,
        tol: float = 1e-4,
        max_iter: int = 50,
        max_groups: int = 100,
        min_group_size: int = 2,
    ) -> None:
        self.constraint = constraint
        self.kappa = kappa
        self.loss = loss
        self.interactions = interactions
        self.alpha = alpha
        self.tol = tol
        self.max_iter = max_iter
        self.max_groups = max_groups
        self.min_group_size = min_group_size

    def _train(self, rows: LabeledRows) -> None:
        """Minimise by an augmented Lagrangian, from weights of zero."""
        oracle = rows.oracle(interactions=self.interactions, loss=self.loss)
        pairs = cell_pairs(rows, self.constraint)
        problem = PairwiseProblem(rows, pairs, oracle, self.kappa, self.alpha)
        result = augmented_lagrangian(
            problem.evaluate,
            np.zeros(oracle.n_weights),
            tol=self.tol,
            stationarity=self.tol,
            max_iter=self.max_iter,
        )
        self._store_weights(oracle.layout.rows(problem.weights(result.x)))
        self.objective_ = result.objective
        excess = problem.limit * float(problem.evaluate(result.x).constraints.max())
        self.surrogate_gap_ = excess + self.kappa
        self.infeasibility_ = max(excess, 0.0)
        self.kkt_residual_ = result.kkt_residual
        self.n_iter_ = result.n_iter
        self.n_oracle_calls_ = oracle.n_calls
        self.converged_ = result.kkt_residual <= self.tol
        if not self.converged_:
            warn_user(
                f"The KKT residual is {format_distinct(self.kkt_residual_, self.tol)} "
                f"(tol={self.tol:g}) after {self.n_iter_} updates of the multipliers. "
                "Raise max_iter or tol, or a small alpha if the classes can be "
                "separated.",
                ConvergenceWarning,
            )


class CellPairs(NamedTuple):
    """Groups, or rows of one class of a group, whose scores are compared."""

    # Constraint i sums, over t, the means of (1 + h - h')^2 / 2 with scores h of the
    # cell first[i, t], h' of second[i, t].
    cells: NDArray[np.int64]  # of each row; no cell is empty
    group_of_cell: NDArray[np.int64]
    first: NDArray[np.int64]
    second: NDArray[np.int64]


def cell_pairs(rows: LabeledRows, constraint: str) -> CellPairs:
    """Return the cells of the rows and the pairs that a constraint compares."""
    (groups,), n_groups = rows.groups, len(rows.combinations.sets)
    k, other = np.array(list(permutations(range(n_groups), 2))).reshape(-1, 2).T
    if constraint == "group_auc":
        return CellPairs(rows.codes, np.arange(n_groups), k[:, None], other[:, None])
    cells = 2 * rows.codes + (rows.signs > 0)
    sizes = np.bincount(cells, rows.weights, minlength=2 * n_groups)
    missing = np.flatnonzero(sizes == 0)
    if missing.size:
        group, sign = divmod(int(missing[0]), 2)
        name, label = groups.tolist()[group], rows.classes.tolist()[sign]
        raise ValueError(
            f"Group {name!r} has no rows of class {label!r}: constraint={constraint!r} "
            "compares rows of both classes in every group. Leave the group out, or use "
            "constraint='group_auc'."
        )
    if constraint == "inter_group":  # (69): k+ above k'-, and k- above k'+
        first, second = [2 * k + 1, 2 * k], [2 * other, 2 * other + 1]
    else:  # (71): k+ above k-, and k'- above k'+
        first, second = [2 * k + 1, 2 * other], [2 * k, 2 * other + 1]
    group_of_cell = np.repeat(np.arange(n_groups), 2)
    return CellPairs(cells, group_of_cell, np.stack(first, 1), np.stack(second, 1))


class PairwiseProblem:
    """Mean loss under pairwise constraints, in variables that whiten the rows."""

    def __init__(
        self,
        rows: LabeledRows,
        pairs: CellPairs,
        oracle: ScoreOracle,
        kappa: float,
        alpha: float,
    ) -> None:
        self.pairs = pairs
        self.oracle = oracle
        self.limit = 0.5 * pairs.first.shape[1] + kappa
        self.ridge = ridge_factors(oracle.layout, alpha)
        self.cells = score_cells(rows.X, oracle.layout.units, pairs, rows.weights)
        # The whitening: a matrix T for each row of weights, w = T u, after which the
        # curvature is about the same in all directions. The second moments are the
        # curvature of the squared loss in each row of weights. That of the logistic
        # loss is a quarter of it at most: next to them a penalty counts four times.
        groups = [self.cells.second_moments(k) for k in range(oracle.layout.n_groups)]
        moments = [np.sum(groups, axis=0), *groups[1 : len(self.ridge)]]
        self._whitening = [_inverse_root(S, 4.0 * self.ridge[0]) for S in moments]

    def evaluate(self, u: Array) -> ConstrainedValue:
        """Objective, and constraints relative to their `limit`; u is whitened."""
        # Step 1: the loss, and means and variances of the scores of each cell.
        W, layout = self.weights(u), self.oracle.layout
        value = self.oracle.evaluate(W.ravel(), np.empty(0))
        means, variances, gradient = self.cells.evaluate(layout.of_groups(W))
        # Step 2: the constraints.
        first, second = self.pairs.first, self.pairs.second
        above = 1.0 + means[first] - means[second]
        # Means of (1 + h - h')^2 / 2 over all pairs of rows, from those of the cells.
        terms = (above**2 + variances[first] + variances[second]) / 2.0

        # Step 3: derivatives in means and variances, then in the weights.
        def pull_back(multipliers: Array) -> Array:
            on_means, on_variances = np.zeros((2, means.size))
            weights = multipliers[:, None] / self.limit
            slopes = weights * above
            halves = np.broadcast_to(weights / 2.0, first.shape)
            np.add.at(on_means, first, slopes)
            np.subtract.at(on_means, second, slopes)
            np.add.at(on_variances, first, halves)
            np.add.at(on_variances, second, halves)
            return self._pull_back(layout.lift(gradient(on_means, on_variances)))

        penalized = self.ridge * W
        return ConstrainedValue(
            value.loss + 0.5 * float((penalized * W).sum()),
            self._pull_back(value.loss_gradient + penalized.ravel()),
            terms.sum(axis=1) / self.limit - 1.0,
            pull_back,
        )

    def weights(self, u: Array) -> Array:
        """Weights of shape (n_rows, d + 1) from whitened variables."""
        rows = zip(self._whitening, u.reshape(self.ridge.shape), strict=True)
        return np.array([T @ row for T, row in rows])

    def _pull_back(self, gradient: Array) -> Array:
        """Gradient in the whitened variables from that in the weights."""
        rows = zip(self._whitening, gradient.reshape(self.ridge.shape), strict=True)
        return np.concatenate([T.T @ row for T, row in rows])


def _inverse_root(S: Array, extra: Array) -> Any:
    """T with ``T.T @ (S + extra) @ T`` near the identity; diagonal if S is one."""
    diagonal = (S if S.ndim == 1 else np.diagonal(S)) + extra
    scales = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    if S.ndim == 1:
        return sparse.diags_array(1.0 / scales)
    correlation = (S + np.diag(extra)) / np.outer(scales, scales)
    # Directions in which the rows hardly vary get no large weights.
    correlation[np.diag_indices_from(correlation)] += 1e-3
    root = cholesky(correlation)
    inverse: Array = solve_triangular(root, np.eye(len(S)))
    return inverse / scales[:, None]


# Means and variances of the scores of each cell, at some weights, and the gradient of
# a sum of them with weights of each mean and each variance.
CellScores = tuple[Array, Array, Callable[[Array, Array], Array]]


class MomentCells:
    """Cells represented by the mean and covariance matrix of their rows."""

    def __init__(self, X: Any, units: FeatureUnits, pairs: CellPairs) -> None:
        moments = GroupMoments.from_data(X, pairs.cells.view(GroupCodes))
        means = (moments.means - units.centre) * units.factor
        self.means = np.column_stack([means, np.ones(len(moments.counts))])
        self.covariances = moments.covariances("group")
        self.covariances *= units.factor[:, None]
        self.covariances *= units.factor
        self._shares = moments.counts / moments.counts.sum()
        self._group = pairs.group_of_cell

    def evaluate(self, weights: Array) -> CellScores:
        """Return means and variances at weights of each group, the intercepts last."""
        w = weights[self._group]  # of each cell
        pulled = np.matmul(self.covariances, w[:, :-1, None])[:, :, 0]

        def gradient(on_means: Array, on_variances: Array) -> Array:
            cells = on_means[:, None] * self.means
            cells[:, :-1] += 2.0 * on_variances[:, None] * pulled
            total = np.zeros_like(weights)
            np.add.at(total, self._group, cells)
            return total

        variances = np.einsum("cj,cj->c", w[:, :-1], pulled)
        means = np.einsum("cj,cj->c", w, self.means)
        return means, np.maximum(variances, 0.0), gradient  # below zero is rounding

    def second_moments(self, group: int) -> Array:
        """Return the sum of (x, 1) (x, 1)^T over a group, over the number of rows."""
        columns = self.means.shape[1]
        total = np.zeros((columns, columns))
        for cell in np.flatnonzero(self._group == group):
            share, mean = self._shares[cell], self.means[cell]
            total += share * np.outer(mean, mean)
            total[:-1, :-1] += share * self.covariances[cell]
        return total


class RowCells:
    """Cells represented by their rows, for many features."""

    def __init__(
        self,
        X: Any,
        units: FeatureUnits,
        pairs: CellPairs,
        weights: Array | None = None,
    ) -> None:
        self._X = X
        self._units = units
        self._cells = pairs.cells
        self._rows = row_table(X), pairs.group_of_cell[pairs.cells]
        self._row_weights = np.ones(len(pairs.cells)) if weights is None else weights
        self._sizes = np.bincount(pairs.cells, self._row_weights)

    def evaluate(self, weights: Array) -> CellScores:
        """As `MomentCells.evaluate`, by passes over the rows."""
        scores = row_scores(*self._rows, self._units.restore(weights))
        row_weights, sizes = self._row_weights, self._sizes
        means = np.bincount(self._cells, row_weights * scores) / sizes
        deviations = scores - means[self._cells]
        variances = np.bincount(self._cells, row_weights * deviations**2) / sizes

        def gradient(on_means: Array, on_variances: Array) -> Array:
            # The derivative in the score of each row, then the sum of rows times it.
            on_rows = (2.0 * on_variances / sizes)[self._cells] * deviations
            on_rows += (on_means / sizes)[self._cells]
            on_rows *= row_weights
            sums = weighted_row_sums(*self._rows, on_rows[:, None], weights.shape)
            return self._units.pull_back(sums[:, :, 0])

        return means, variances, gradient

    def second_moments(self, group: int) -> Array:
        """Return the diagonal of the matrix that `MomentCells` returns."""
        spread = column_spread(self._X, self._row_weights * (self._rows[1] == group))
        units = self._units
        square = ((spread.mean - units.centre) * units.factor) ** 2
        square += (spread.deviation * units.factor) ** 2
        share = spread.n_rows / float(self._sizes.sum())
        return np.append(square, 1.0) * share


def score_cells(
    X: Any, units: FeatureUnits, pairs: CellPairs, weights: Array | None = None
) -> MomentCells | RowCells:
    """Return the kind of cells that costs less.

    Matrices of second moments are formed up to one GiB, if they have fewer numbers
    than four passes over the rows would read. Weighted rows are not formed into them,
    nor features in units whose squares are out of range.
    """
    n_moments = len(pairs.group_of_cell) * X.shape[1] ** 2
    n_entries = X.nnz if sparse.issparse(X) else X.size
    form_moments = 8 * n_moments <= 2**30 and n_moments <= 4 * n_entries
    form_moments &= bool((np.abs(np.log10(units.scale[units.scale > 0])) < 100).all())
    if form_moments and weights is None:
        return MomentCells(X, units, pairs)
    return RowCells(X, units, pairs, weights)
