"""Linear classifier under pairwise fairness constraints.

The estimator; its problem, whose constraints are convex quadratics of the weights; the
means and variances of scores that they are made of. Pairs of rows are never formed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.linalg import cholesky, solve_triangular
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from scalefair._decorators import fit_context
from scalefair._digits import apart
from scalefair.linear_model._base import BaseGroupClassifier
from scalefair.linear_model._oracle import ScoreOracle
from scalefair.linear_model._training_rows import (
    FeatureUnits,
    TrainingRows,
    column_spread,
    ridge_factors,
    warn_few_rows,
)
from scalefair.optimize import ConstrainedValue, augmented_lagrangian
from scalefair.streaming import GroupMoments


class PairwiseFairClassifier(BaseGroupClassifier):
    r"""Linear classifier whose scores rank rows of different groups alike.

    Minimises the mean loss under a bound on how often, by a surrogate, a row of one
    group is ranked above a row of another. With :math:`\sigma(x) = (1 + x)^2 / 2` in
    place of the indicator of :math:`x \ge 0`, each ordered pair of groups
    :math:`(k, k')` gives one convex quadratic constraint [1]_:

    - ``"group_auc"`` (66): the mean of :math:`\sigma(h - h')` over rows of `k` and
      of :math:`k'`, less 1/2;
    - ``"inter_group"`` (69): the mean of :math:`\sigma(h - h')` over positives of
      `k` and negatives of :math:`k'`, plus that over negatives of `k` and positives
      of :math:`k'`, less 1;
    - ``"intra_group"`` (71): the mean of :math:`\sigma(h - h')` over positives and
      negatives of `k`, plus that over negatives and positives of :math:`k'`, less 1;

    each at most `kappa`. The surrogate exceeds the indicator's mean by half of the
    squared differences of scores, so that a small `kappa` also makes scores small.

    Parameters
    ----------
    constraint : {"group_auc", "inter_group", "intra_group"}, default="group_auc"
        What is bounded.
    kappa : float, default=0.05
        The bound. Not a probability: the surrogate is not bounded, and values from
        0.05 to 10 make sense.
    loss : {"logistic", "squared"}, default="logistic"
        Objective, a mean over the rows; ``"squared"`` is half the squared
        difference from a label of -1 or 1.
    interactions : bool, default=True
        Whether groups have weights of their own. Without, the model does not use
        the group, and prediction does not need it.
    alpha : float, default=0.0
        Factor of half the squared norm of the coefficients (not the intercepts) of
        standardized features, see `PartiallyFairClassifier`.
    tol : float, default=1e-4
        Bound on `kkt_residual_`.
    max_iter : int, default=50
        Most updates of the multipliers, each after up to 500 iterations of L-BFGS.
    max_groups : int, default=100
        Most groups. More look like a number, such as an age, and not a category, and
        are refused before anything is formed for each of them.
    min_group_size : int, default=2
        Fewest rows of a group. Groups of fewer than 30 are warned of in any case.

    Attributes
    ----------
    coef_ : ndarray of shape (n_rows, n_features)
        Coefficients: the first row shared by all groups, the others what each
        further group of `groups_` adds. One row without interactions.
    intercept_ : ndarray of shape (n_rows,)
        Intercepts, likewise.
    classes_ : ndarray of shape (2,)
        The labels.
    groups_ : ndarray of shape (n_groups,)
        The groups.
    surrogate_gap_ : float
        Largest left side of the constraints on the training rows; at most `kappa`
        up to `infeasibility_`.
    objective_ : float
        Value of the objective, the penalty included.
    infeasibility_ : float
        Largest violation of a constraint.
    kkt_residual_ : float
        The largest of the norm of the Lagrangian's gradient (in whitened variables:
        the units of the features do not matter), the infeasibility (relative to
        the bound) and the products of constraints and multipliers. The problem is
        convex: zero means that no weights are better.
    n_iter_ : int
        Updates of the multipliers.
    n_oracle_calls_ : int
        Evaluations of the objective, a pass over the rows each.
    converged_ : bool
        Whether the residual is within `tol`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if `X` has any.

    See Also
    --------
    PartiallyFairClassifier : Parity within a range of ranks.
    PenalizedPartialParityClassifier : The same by a penalty.

    Notes
    -----
    The mean over all pairs of rows of cells A and B (groups, or rows of one class
    of a group) is :math:`((1 + \mu_A - \mu_B)^2 + v_A + v_B) / 2`, with the means
    and variances of the scores in the cells. These come from the means and second
    moments of the rows, read once; for many features, from the scores. Variables
    are whitened by the second moments, so that L-BFGS sees a problem of curvature
    near one whatever the units of the features.

    References
    ----------
    .. [1] He, Huang, Yao, Lin. "Enforcing fairness where it matters: an approach
       based on difference-of-convex constraints", appendix D.3.

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.linear_model import PairwiseFairClassifier
    >>> rng = np.random.RandomState(0)
    >>> group = rng.randint(2, size=2000)
    >>> X = rng.randn(2000, 3) + group[:, None]
    >>> y = X.sum(axis=1) + rng.randn(2000) > 2
    >>> loose = PairwiseFairClassifier(kappa=10).fit(X, y, sensitive_features=group)
    >>> tight = PairwiseFairClassifier(kappa=0.5).fit(X, y, sensitive_features=group)
    >>> tight.converged_, round(tight.surrogate_gap_, 3)
    (True, 0.5)
    >>> tight.objective_ > loose.objective_
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseGroupClassifier._parameter_constraints,
        "constraint": [StrOptions({"group_auc", "inter_group", "intra_group"})],
        "kappa": [Interval(Real, 0, None, closed="neither")],
        "loss": [StrOptions({"logistic", "squared"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
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

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: Any, y: ArrayLike, *, sensitive_features: ArrayLike
    ) -> PairwiseFairClassifier:
        """Train the classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (m, n_features)
            Rows of features, dense or CSR.
        y : array-like of shape (m,)
            Labels of two kinds.
        sensitive_features : array-like of shape (m,)
            Group of each row, at least two different ones.

        Returns
        -------
        PairwiseFairClassifier
            The trained classifier.

        Raises
        ------
        ValueError
            If a parameter or an input is not as described, there are too many groups
            or rows too few in one, or a constraint compares classes and a group has
            rows of one class only.
        TypeError
            If `X` is a Dask collection or a reader: rows have to be in memory.

        Warns
        -----
        ConvergenceWarning
            If `kkt_residual_` stayed above `tol`.
        UserWarning
            If groups have fewer than 30 rows: the message names them.
        """
        rows = self._check_training(X, y, sensitive_features)
        warn_few_rows(rows.groups, rows.group_sizes, stacklevel=4)
        oracle = ScoreOracle(
            rows.X,
            rows.signs,
            rows.codes,
            len(rows.groups),
            interactions=self.interactions,
            loss=self.loss,
            units=rows.units(),
        )
        pairs = cell_pairs(rows, self.constraint)
        problem = PairwiseProblem(rows, pairs, oracle, self.kappa, self.alpha)
        found = augmented_lagrangian(
            problem.whitened,
            np.zeros(oracle.n_weights),
            tol=self.tol,
            stationarity=self.tol,
            max_iter=self.max_iter,
        )
        self._store_weights(oracle.layout.rows(problem.weights(found.x)))
        self.objective_ = found.objective
        excess = problem.limit * float(problem.whitened(found.x).constraints.max())
        self.surrogate_gap_ = excess + self.kappa
        self.infeasibility_ = max(excess, 0.0)
        self.kkt_residual_ = found.kkt_residual
        self.n_iter_ = found.n_iter
        self.n_oracle_calls_ = oracle.n_calls
        self.converged_ = found.kkt_residual <= self.tol
        if not self.converged_:
            warnings.warn(
                f"The KKT residual is {apart(self.kkt_residual_, self.tol)} "
                f"(tol={self.tol:g}) "
                f"after {self.n_iter_} updates of the multipliers. Raise max_iter or "
                "tol, or a small alpha if the classes can be separated.",
                ConvergenceWarning,
                stacklevel=4,  # where `fit` is called
            )
        return self


Array = NDArray[np.float64]

# Added to correlation matrices: directions that the rows hardly vary in stay tame.
_RIDGE = 1e-3


@dataclass(frozen=True)
class CellPairs:
    """Which cells each constraint compares, the first to be ranked above the second.

    Constraint i asks that the sum over t of the means of ``(1 + h - h')**2 / 2``,
    h of cell ``first[i, t]`` and h' of cell ``second[i, t]``, is at most half the
    number of terms plus kappa.
    """

    cells: NDArray[np.int64]  # of each row, every one of them occupied
    group_of_cell: NDArray[np.int64]
    first: NDArray[np.int64]
    second: NDArray[np.int64]


def cell_pairs(rows: TrainingRows, constraint: str) -> CellPairs:
    """Return the cells of the rows and the pairs that a constraint compares."""
    n_groups = len(rows.groups)
    k, other = np.array(list(permutations(range(n_groups), 2))).reshape(-1, 2).T
    if constraint == "group_auc":
        return CellPairs(rows.codes, np.arange(n_groups), k[:, None], other[:, None])
    cells = 2 * rows.codes + (rows.signs > 0)
    _check_cells(rows, cells, constraint)
    if constraint == "inter_group":  # (69): k+ above k'-, and k- above k'+
        first, second = [2 * k + 1, 2 * k], [2 * other, 2 * other + 1]
    else:  # (71): k+ above k-, and k'- above k'+
        first, second = [2 * k + 1, 2 * other], [2 * k, 2 * other + 1]
    return CellPairs(
        cells,
        np.repeat(np.arange(n_groups), 2),
        np.column_stack(first),
        np.column_stack(second),
    )


def _check_cells(rows: TrainingRows, cells: NDArray[np.int64], constraint: str) -> None:
    counts = np.bincount(cells, minlength=2 * len(rows.groups))
    if counts.all():
        return
    group, sign = divmod(int(np.flatnonzero(counts == 0)[0]), 2)
    name, label = rows.groups.tolist()[group], rows.classes.tolist()[sign]
    raise ValueError(
        f"Group {name!r} has no rows of class {label!r}: "
        f"constraint={constraint!r} compares rows of both classes in every group. "
        "Leave the group out, or use constraint='group_auc'."
    )


class PairwiseProblem:
    """Mean loss under pairwise constraints, in variables that whiten the rows."""

    def __init__(
        self,
        rows: TrainingRows,
        pairs: CellPairs,
        oracle: ScoreOracle,
        kappa: float,
        alpha: float,
    ) -> None:
        self.pairs = pairs
        self.oracle = oracle
        self.limit = 0.5 * pairs.first.shape[1] + kappa
        self.n_groups = len(rows.groups)
        self.ridge = ridge_factors(oracle.n_weights, oracle.n_features, alpha)
        self.n_rows = len(self.ridge)
        self.cells = score_cells(
            rows.X,
            oracle.layout.units,
            pairs.cells,
            pairs.group_of_cell,
            self._row_scores,
        )
        # Changes of variables after which second moments are near the identity.
        self._whitening = [_inverse_root(S) for S in self._second_moments()]

    def evaluate(self, W: Array) -> ConstrainedValue:
        """Objective and constraints at weights of shape (n_rows, d + 1).

        Constraints are relative to their `limit`, so that their curvature does not
        grow with kappa.
        """
        value = self.oracle.evaluate(W.ravel(), np.empty(0))
        scores = self.cells.evaluate(self._of_groups(W))
        means, variances = scores.means, scores.variances
        first, second = self.pairs.first, self.pairs.second
        above = 1.0 + means[first] - means[second]
        # Mean of (1 + h - h')^2 / 2 over all pairs
        terms = (above**2 + variances[first] + variances[second]) / 2.0

        def pull_back(multipliers: Array) -> Array:
            on_means = np.zeros(means.size)
            on_variances = np.zeros(means.size)
            weights = multipliers[:, None] / self.limit
            slopes = weights * above
            halves = np.broadcast_to(weights / 2.0, first.shape)
            np.add.at(on_means, first, slopes)
            np.subtract.at(on_means, second, slopes)
            np.add.at(on_variances, first, halves)
            np.add.at(on_variances, second, halves)
            return self._of_rows(scores.gradient(on_means, on_variances)).ravel()

        penalized = self.ridge * W
        return ConstrainedValue(
            value.loss + 0.5 * float((penalized * W).sum()),
            value.loss_gradient + penalized.ravel(),
            terms.sum(axis=1) / self.limit - 1.0,
            pull_back,
        )

    def whitened(self, u: Array) -> ConstrainedValue:
        """Objective and constraints as functions of the whitened variables."""
        value = self.evaluate(self.weights(u))
        return ConstrainedValue(
            value.objective,
            self._pull_back(value.gradient),
            value.constraints,
            lambda multipliers: self._pull_back(value.pull_back(multipliers)),
        )

    def weights(self, u: Array) -> Array:
        """Weights of shape (n_rows, d + 1) from whitened variables."""
        rows = u.reshape(self.n_rows, -1)
        return np.array(
            [
                T * row if T.ndim == 1 else T @ row
                for T, row in zip(self._whitening, rows, strict=True)
            ]
        )

    def _pull_back(self, gradient: Array) -> Array:
        """Gradient in the whitened variables from that in the weights."""
        rows = gradient.reshape(self.n_rows, -1)
        return np.concatenate(
            [
                T * row if T.ndim == 1 else T.T @ row
                for T, row in zip(self._whitening, rows, strict=True)
            ]
        )

    def _of_groups(self, W: Array) -> Array:
        """Weights of each group: the shared ones and what it adds."""
        groups = np.repeat(W[:1], self.n_groups, axis=0)
        if self.n_rows > 1:
            groups[1:] += W[1:]
        return groups

    def _of_rows(self, gradient: Array) -> Array:
        """Adjoint of `_of_groups`."""
        total = gradient.sum(axis=0, keepdims=True)
        return np.vstack([total, gradient[1:]]) if self.n_rows > 1 else total

    def _row_scores(self, groups: Array) -> Array:
        W = groups[:1]
        if self.n_rows > 1:
            W = np.vstack([W, groups[1:] - groups[:1]])
        return self.oracle.scores(W.ravel())

    def _second_moments(self) -> list[Array]:
        """Curvature of a squared loss in each row of weights, the penalty included."""
        groups = [self.cells.second_moments(k) for k in range(self.n_groups)]
        moments = [np.sum(groups, axis=0), *groups[1 : self.n_rows]]
        # The curvature of the logistic loss is a quarter of it, at most.
        extra = 4.0 * self.ridge[0]
        return [S + (extra if S.ndim == 1 else np.diag(extra)) for S in moments]


def _inverse_root(S: Array) -> Array:
    """T with ``T.T @ S @ T`` near the identity, S a matrix or a diagonal."""
    diagonal = S if S.ndim == 1 else np.diagonal(S)
    scales = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    if S.ndim == 1:
        return 1.0 / scales
    correlation = S / np.outer(scales, scales)
    correlation[np.diag_indices_from(correlation)] += _RIDGE
    root = cholesky(correlation)
    inverse: Array = solve_triangular(root, np.eye(len(S)))
    return inverse / scales[:, None]


# Matrices of second moments are formed if they are at most this many bytes, and no
# more numbers than a few passes over the rows would read.
_MOMENT_BYTES = 2**30
_PASSES = 4


@dataclass(frozen=True)
class CellScores:
    """Means and variances of the scores of each cell, at some weights.

    The gradient is that of a sum of all means and variances, which are given weights,
    in the weights of each group.
    """

    means: Array  # (n_cells,)
    variances: Array  # (n_cells,), divided by the number of rows
    gradient: Callable[[Array, Array], Array]  # (n_groups, d + 1)


class ScoreCells(Protocol):
    """Means and variances of scores as functions of the weights."""

    def evaluate(self, weights: Array) -> CellScores:
        """Return them at weights of shape (n_groups, d + 1), the intercepts last."""

    def second_moments(self, group: int) -> Array:
        """Return the sum of (x, 1) (x, 1)^T over a group, over the number of rows.

        The matrix of shape (d + 1, d + 1), or its diagonal where it is not formed.
        """


class MomentCells:
    """Cells known by the mean and the covariance matrix of their rows, read once."""

    def __init__(
        self,
        X: Any,
        units: FeatureUnits,
        cells: NDArray[np.int64],
        group_of_cell: NDArray[np.int64],
    ) -> None:
        moments = GroupMoments.from_data(X, cells)
        means = (moments.means - units.centre) * units.factor
        self.means = np.column_stack([means, np.ones(len(moments.counts))])
        self.covariances = moments.covariances("group")
        self.covariances *= units.factor[:, None]
        self.covariances *= units.factor
        self._shares = moments.counts / moments.counts.sum()
        self._group = group_of_cell

    def evaluate(self, weights: Array) -> CellScores:
        """See `ScoreCells`."""
        own = weights[self._group]
        pulled = np.matmul(self.covariances, own[:, :-1, None])[:, :, 0]

        def gradient(on_means: Array, on_variances: Array) -> Array:
            cells = on_means[:, None] * self.means
            cells[:, :-1] += 2.0 * on_variances[:, None] * pulled
            total = np.zeros_like(weights)
            np.add.at(total, self._group, cells)
            return total

        variances = np.einsum("cj,cj->c", own[:, :-1], pulled)
        return CellScores(
            np.einsum("cj,cj->c", own, self.means),
            np.maximum(variances, 0.0),  # what is below zero is rounding
            gradient,
        )

    def second_moments(self, group: int) -> Array:
        """See `ScoreCells`."""
        columns = self.means.shape[1]
        total = np.zeros((columns, columns))
        for cell in np.flatnonzero(self._group == group):
            share, mean = self._shares[cell], self.means[cell]
            total += share * np.outer(mean, mean)
            total[:-1, :-1] += share * self.covariances[cell]
        return total


class RowCells:
    """Cells whose rows are multiplied by: for many features.

    `scores` returns those of all rows for weights of shape (n_groups, d + 1).
    """

    def __init__(
        self,
        X: Any,
        units: FeatureUnits,
        cells: NDArray[np.int64],
        group_of_cell: NDArray[np.int64],
        scores: Callable[[Array], Array],
    ) -> None:
        self._X = X
        self._units = units
        self._cells = cells
        self._group = group_of_cell
        self._scores = scores
        self._counts = np.bincount(cells, minlength=len(group_of_cell))

    def evaluate(self, weights: Array) -> CellScores:
        """See `ScoreCells`."""
        scores = self._scores(weights)
        means = np.bincount(self._cells, scores) / self._counts
        deviations = scores - means[self._cells]
        variances = np.bincount(self._cells, deviations**2) / self._counts

        def gradient(on_means: Array, on_variances: Array) -> Array:
            on_rows = (2.0 * on_variances / self._counts)[self._cells] * deviations
            on_rows += (on_means / self._counts)[self._cells]
            return self._group_sums(on_rows, len(weights))

        return CellScores(means, variances, gradient)

    def second_moments(self, group: int) -> Array:
        """See `ScoreCells`; the diagonal."""
        spread = column_spread(self._X, self._group[self._cells] == group)
        units = self._units
        square = ((spread.mean - units.centre) * units.factor) ** 2
        square += (spread.deviation * units.factor) ** 2
        return np.append(square, 1.0) * spread.n_rows / len(self._cells)

    def _group_sums(self, on_rows: Array, n_groups: int) -> Array:
        """Return weighted sums of (x, 1) over the rows of each group."""
        groups = self._group[self._cells]
        m = len(groups)
        place = sparse.csc_array((on_rows, groups, np.arange(m + 1)), (n_groups, m))
        product = place @ self._X
        sums = np.empty((n_groups, self._X.shape[1] + 1))
        sums[:, :-1] = product.toarray() if sparse.issparse(product) else product
        sums[:, -1] = np.bincount(groups, on_rows, minlength=n_groups)
        return self._units.pull_back(sums)


def score_cells(
    X: Any,
    units: FeatureUnits,
    cells: NDArray[np.int64],
    group_of_cell: NDArray[np.int64],
    scores: Callable[[Array], Array],
) -> ScoreCells:
    """Return the kind of cells that costs less."""
    numbers = len(group_of_cell) * X.shape[1] ** 2
    entries = X.nnz if sparse.issparse(X) else X.size
    if 8 * numbers <= _MOMENT_BYTES and numbers <= _PASSES * entries:
        return MomentCells(X, units, cells, group_of_cell)
    return RowCells(X, units, cells, group_of_cell, scores)
