"""Linear classifier that is fair where decisions are contested."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from scalefair._decorators import fit_context
from scalefair._groups import check_interval
from scalefair._random import check_random_state
from scalefair.linear_model._base import BaseGroupClassifier
from scalefair.linear_model._oracle import ScoreOracle
from scalefair.linear_model._parity_problem import (
    ParityProblem,
    Solution,
    StrongParity,
    WeakParity,
    given_start,
    solve,
    warn_unfinished,
)
from scalefair.linear_model._partitioned import (
    BlockRows,
    ReadBlocks,
    RowOracle,
    partitioned_training,
    refuse_pairs,
)
from scalefair.linear_model._training_rows import (
    FeatureUnits,
    TrainingRows,
    warn_few_rows,
)
from scalefair.metrics import (
    partial_demographic_parity_gap,
    weak_partial_demographic_parity_gap,
)
from scalefair.streaming import is_partitioned


class PartiallyFairClassifier(BaseGroupClassifier):
    r"""Linear classifier whose scores are fair within a range of ranks.

    Scores :math:`h_w(x)` decide who is above which threshold. Let :math:`P_k(\theta)`
    be the share of group `k` above :math:`\theta`, and
    :math:`A_k(\theta) = (\min(P_k, \beta) - \min(P_k, \alpha)) / (\beta - \alpha)`
    what of it lies within the ranks :math:`[\alpha, \beta)`, 0 being the top. The
    strong criterion asks that no two groups differ in :math:`A_k` by more than
    `kappa` at any threshold, the weak one that they do not at one. Outside of the
    range, where decisions are not contested, the scores are free [1]_.

    The constraints are differences of convex functions once the indicator of a
    score above a threshold is replaced by a ramp. The problem is solved by the
    inexact DC algorithm, whose convex subproblems a bundle method solves with a
    certificate: `kkt_residual_` is computed, not assumed.

    Parameters
    ----------
    interval : tuple of float, default=(0.0, 1.0)
        Ranks ``(alpha, beta)`` within which the groups are to be treated alike,
        as shares of a group counted from the highest score: ``(0.05, 0.30)`` is
        the top 5 % to 30 %. The default is ordinary demographic parity of scores.
    kappa : float, default=0.05
        Gap allowed, as a share of the interval. It bounds the surrogate's gap:
        `partial_parity_gap_` is that of the scores themselves.
    criterion : {"strong", "weak"}, default="strong"
        Whether parity is asked for at all thresholds or at `threshold` alone.
    threshold : float, default=0.0
        The threshold of the weak criterion. The strong one has no use for it.
    loss : {"logistic", "hinge", "squared", "auc", "partial_auc"}, default="logistic"
        What is minimised, a mean over rows. ``"squared"`` is half the squared
        difference from a label of -1 or 1. The last two are mean pairwise hinge losses
        of positives against negatives, ``"partial_auc"`` of the negatives whose rank
        among the negatives is in `interval` (examples B.1 and B.2 of [1]_); a
        function of differences of scores leaves the intercept to `tune_intercept`.
    surrogate : {"ramp", "sigmoid"}, default="ramp"
        What stands for the indicator of a score above a threshold.
    interactions : bool, default=True
        Whether groups have weights of their own. Without, the model does not use
        the group, and prediction does not need it.
    n_thresholds : int, default=10
        Ranks at which the strong criterion is enforced. Between them gaps add up:
        25 cost little more and give smaller gaps.
    alpha : float, default=0.0
        Factor of half the squared norm of the coefficients (not the intercepts) of
        standardized features (see Notes).
    inner_solver : {"bundle", "ssg", "direct"}, default="bundle"
        Solver of the convex subproblems: proximal bundle, certified, or the
        switching subgradient method of [1]_. ``"direct"`` applies the latter to the
        problem itself, without DC algorithm and without any guarantee.
    start : {"auto", "zero"} or array-like of shape (n_rows, d + 1), default="auto"
        ``"auto"`` starts from an augmented Lagrangian's solution of the problem with
        rounded corners, ``"zero"`` from weights of zero. After the first the DC
        algorithm needs few iterations; the second is the start of [1]_, for the weak
        criterion the best constant score, which is as fair. An array gives weights as
        rows of coefficients and intercept (d features), one row without interactions,
        otherwise one per group as in `coef_`; they have to be feasible.
    tune_intercept : bool, default=True
        Whether the intercept is moved, after training, to where the training rows
        are classified best, and the probabilities with it. The accuracy is averaged
        over thresholds up to 1 % of the rows away, as its maximum follows noise. A
        common shift of the scores changes no strong criterion; with the weak one
        nothing is moved.
    tol : float, default=1e-3
        Nearly-KKT residual (definition 6.2 of [1]_), in the coefficients of
        standardized features, at which to stop.
    max_iter : int, default=500
        Most iterations of the DC algorithm. ``"ssg"`` takes 150 subgradient steps
        in each, ``"direct"`` 150 times as many in all.
    warm_start : bool, default=False
        Whether `fit` starts from the last solution, if the numbers of features and
        groups are the same.
    random_state : int, RandomState instance or None, default=None
        Draws the sample of `fit_blocks`. `fit` draws no random numbers.
    max_groups : int, default=100
        Most groups: more look like a number, such as an age, and are refused. Nothing
        is formed for each of them before.
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
    thresholds_ : ndarray of shape (n_thresholds,)
        Scores at the enforced ranks; for the weak criterion `threshold`.
    partial_parity_gap_ : float
        Gap of the criterion on the training rows, exact: not the surrogate's.
    objective_ : float
        Value of the objective, the penalty included, before the intercept is moved.
    infeasibility_ : float
        Largest violation of a constraint of the surrogate problem.
    kkt_residual_ : float
        Nearly-KKT residual.
    history_ : list of dict
        Records of the iterations with the keys "objective", "infeasibility",
        "kkt_residual" (nan where it was not computed) and "n_oracle_calls".
    n_iter_ : int
        Iterations of the DC algorithm.
    n_oracle_calls_ : int
        Passes over the rows.
    converged_ : bool
        Whether the residual is within `tol`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if `X` has any.

    See Also
    --------
    partial_fairness_path : Classifiers for several gaps, at little more cost.
    PartiallyFairClassifierCV : Choice of the gap by cross-validation.

    Notes
    -----
    Features may be in any units. The problem is solved for features of mean 0 and
    standard deviation 1, or, if a feature has two values, of distance 1 between them
    as an indicator has [2]_; neither is formed, so that sparse rows stay sparse. The
    residual, `tol` and `alpha` are about that problem, `coef_` and `intercept_` about
    the features as given: other units of a feature change the scores by no more than
    rounding, and what the solver makes of it. A column whose deviation is below 1e-10
    of its largest entry counts as constant and gets no weight.

    Rows may come in parts, as a Dask collection or a reader of a file. The steps are
    those for rows in memory, each pass over the rows one task for each part. To the
    parts go weights and thresholds, from them come sums as large as the gradients of
    all constraints, ``16 n_groups n_thresholds (n_features + 1)`` bytes from each,
    added up on the way. The client keeps the sign of each row's label and the code
    of its group, and in the end its score: 10 bytes a row with up to 128 groups.
    Sorting the scores then takes about 90 bytes a row for a moment.

    References
    ----------
    .. [1] He, Huang, Yao, Lin. "Enforcing fairness where it matters: an approach
       based on difference-of-convex constraints": problems (13) and (17),
       algorithms 1 to 3.
    .. [2] Gelman (2008). "Scaling regression inputs by dividing by two standard
       deviations". Statistics in Medicine 27, 2865-2873.

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.linear_model import PartiallyFairClassifier
    >>> rng = np.random.RandomState(0)
    >>> group = rng.randint(2, size=2000)
    >>> X = rng.randn(2000, 3) + group[:, None]
    >>> y = X.sum(axis=1) + rng.randn(2000) > 2
    >>> fair = PartiallyFairClassifier((0.1, 0.5), kappa=0.05, n_thresholds=25)
    >>> fair = fair.fit(X, y, sensitive_features=group)
    >>> fair.converged_, fair.partial_parity_gap_ < 0.15
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseGroupClassifier._parameter_constraints,
        "interval": [tuple, list],
        "kappa": [Interval(Real, 0, 1, closed="right")],
        "criterion": [StrOptions({"strong", "weak"})],
        "threshold": [Interval(Real, None, None, closed="neither")],
        "loss": [StrOptions({"logistic", "hinge", "squared", "auc", "partial_auc"})],
        "surrogate": [StrOptions({"ramp", "sigmoid"})],
        "n_thresholds": [Interval(Integral, 1, None, closed="left")],
        "inner_solver": [StrOptions({"bundle", "ssg", "direct"})],
        "start": [StrOptions({"auto", "zero"}), "array-like"],
        "tune_intercept": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        interval: Sequence[float] = (0.0, 1.0),
        kappa: float = 0.05,
        *,
        criterion: str = "strong",
        threshold: float = 0.0,
        loss: str = "logistic",
        surrogate: str = "ramp",
        interactions: bool = True,
        n_thresholds: int = 10,
        alpha: float = 0.0,
        inner_solver: str = "bundle",
        start: Any = "auto",
        tune_intercept: bool = True,
        tol: float = 1e-3,
        max_iter: int = 500,
        warm_start: bool = False,
        random_state: Any = None,
        max_groups: int = 100,
        min_group_size: int = 2,
    ) -> None:
        self.interval = interval
        self.kappa = kappa
        self.criterion = criterion
        self.threshold = threshold
        self.loss = loss
        self.surrogate = surrogate
        self.interactions = interactions
        self.n_thresholds = n_thresholds
        self.alpha = alpha
        self.inner_solver = inner_solver
        self.start = start
        self.tune_intercept = tune_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.max_groups = max_groups
        self.min_group_size = min_group_size

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: Any, y: ArrayLike, *, sensitive_features: ArrayLike
    ) -> PartiallyFairClassifier:
        """Train the classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection, reader} of shape \
                (m, n_features)
            Rows of features, dense or CSR, in any units; they are not copied if they
            are C-contiguous. Partitions of a Dask collection stay where they are. A
            reader is read anew in each pass: `fit_blocks` needs fewer.
        y : array-like or Dask collection of shape (m,)
            Labels of two kinds.
        sensitive_features : array-like or Dask collection of shape (m,)
            Group of each row, at least two different ones.

        Returns
        -------
        PartiallyFairClassifier
            The trained classifier.

        Raises
        ------
        ValueError
            If a parameter or an input is not as described, there are too many groups
            or rows too few in one, a given `start` violates the constraints, or the
            loss compares pairs of rows and these are in parts.
        MemoryError
            If the gradients of all constraints are larger than the memory that is
            free.

        Warns
        -----
        ConvergenceWarning
            If the residual or the infeasibility stayed above `tol`.
        UserWarning
            If groups have fewer than 30 rows: the message names them.
        """
        check_interval(self.interval)
        rows, oracle = self._rows_and_oracle(X, y, sensitive_features)
        warn_few_rows(rows.groups, oracle.group_sizes, stacklevel=4)
        return self._train(rows, oracle)

    @fit_context(prefer_skip_nested_validation=True)
    def fit_blocks(
        self, read_blocks: ReadBlocks, *, sample_size: int = 100_000
    ) -> PartiallyFairClassifier:
        """Train on rows that do not fit in memory.

        The problem is solved on a growing random sample, 1/16, 1/4 and all of
        `sample_size` rows, and then on all rows, starting from the sample's
        solution: every evaluation of this last phase reads all blocks once. What is
        stored for each row is its label, its group and a score.

        Parameters
        ----------
        read_blocks : callable
            Without arguments; returns a new iterable of blocks ``(X, y,
            sensitive_features)`` each time, the same blocks in the same order. Those
            without rows are left out.
        sample_size : int, default=100000
            Rows of the sample; it has to fit in memory, as has a block. Groups have
            at least 500 rows in it.

        Returns
        -------
        PartiallyFairClassifier
            The classifier; `n_oracle_calls_` counts the passes over all rows.

        Raises
        ------
        ValueError
            If there are no blocks, rows that `fit` would refuse, or the loss
            compares pairs of rows.

        Warns
        -----
        ConvergenceWarning
            As `fit` does.
        """
        check_interval(self.interval)
        if sample_size < 1:
            raise ValueError(f"sample_size must be at least 1, got {sample_size!r}.")
        refuse_pairs(self.loss)
        blocks = BlockRows(read_blocks, self._check_rows, self._limits)
        self.classes_, self.groups_ = blocks.classes, blocks.groups
        warn_few_rows(blocks.groups, blocks.group_sizes, stacklevel=4)
        parts = blocks.growing(sample_size, check_random_state(self.random_state))
        labels = blocks.labels()
        last: Solution | None = None
        for part in parts:
            # The labels of all rows: a sample may lack a class.
            problem = self._problem(self._oracle(part, blocks.units), labels)
            last = self._solve(problem, last)
        oracle = blocks.oracle(self._oracle, interactions=self.interactions)
        return self._train(labels, oracle, last)

    def _train(
        self, rows: TrainingRows, oracle: RowOracle, last: Solution | None = None
    ) -> PartiallyFairClassifier:
        problem = self._problem(oracle, rows)
        found = self._solve(problem, last)
        self._finish(rows, problem, found)
        warn_unfinished(found, self.tol, stacklevel=6)
        return self

    def _rows_and_oracle(
        self, X: Any, y: ArrayLike, sensitive_features: ArrayLike
    ) -> tuple[TrainingRows, RowOracle]:
        if not is_partitioned(X):
            rows = self._check_training(X, y, sensitive_features)
            return rows, self._oracle(rows, rows.units())
        refuse_pairs(self.loss)
        parts = self._check_rows(X, reset=True)
        rows, oracle = partitioned_training(
            parts, y, sensitive_features, self._limits, self._oracle_options()
        )
        self.classes_, self.groups_ = rows.classes, rows.groups
        return rows, oracle

    def _oracle(
        self, rows: TrainingRows, units: FeatureUnits | None = None
    ) -> ScoreOracle:
        """Return the oracle of rows in memory, in the given units of the features."""
        return ScoreOracle(
            rows.X,
            rows.signs,
            rows.codes,
            len(rows.groups),
            auc_interval=check_interval(self.interval),
            units=units,
            **self._oracle_options(),
        )

    def _oracle_options(self) -> dict[str, Any]:
        return {
            "interactions": self.interactions,
            "loss": self.loss,
            "surrogate": self.surrogate,
        }

    def _problem(self, oracle: RowOracle, rows: TrainingRows) -> ParityProblem:
        """Return the problem of an oracle's rows; labels are those of `rows`."""
        interval = check_interval(self.interval)
        common = (oracle, interval, float(self.kappa), float(self.alpha))
        if self.criterion == "weak":
            constant = best_constant(rows.signs, self.loss)
            weak = WeakParity(*common, float(self.threshold), constant)
            weak.require_memory()
            return weak
        strong = StrongParity(*common, self.n_thresholds, self.surrogate)
        strong.require_memory()
        return strong

    def _solve(self, problem: ParityProblem, last: Solution | None = None) -> Solution:
        """Solve a problem from another solution, the given start, or the last fit."""
        v0 = None
        before = problem.oracle.n_calls
        if last is not None:
            v0 = problem.with_thresholds(problem.weights(last.x), last.thresholds)
        elif self._may_go_on(problem):
            given = np.column_stack([self.coef_, self.intercept_])
            w = problem.oracle.layout.parameters(given)
            v0 = problem.with_thresholds(w, self.thresholds_)
        elif not isinstance(self.start, str):
            v0 = given_start(problem, self.start, self.tol)
        return solve(
            problem,
            v0,
            multipliers=None if last is None else last.multipliers,
            smooth=isinstance(self.start, str) and self.start == "auto",
            inner_solver=self.inner_solver,
            tol=self.tol,
            max_iter=self.max_iter,
            n_calls=problem.oracle.n_calls - before,
        )

    def _may_go_on(self, problem: ParityProblem) -> bool:
        n_rows = problem.oracle.n_groups if self.interactions else 1
        shape = n_rows, problem.oracle.n_features
        return self.warm_start and hasattr(self, "coef_") and self.coef_.shape == shape

    def _finish(
        self, rows: TrainingRows, problem: ParityProblem, found: Solution
    ) -> None:
        """Store a solution; the intercept is tuned on the rows."""
        w = problem.weights(found.x).copy()
        thresholds = np.array(problem.thresholds(found.x))
        scores = problem.oracle.scores(w)
        if self.tune_intercept and self.criterion == "strong":
            shift = most_accurate_shift(scores, rows.signs)
            scores = scores + shift
            thresholds = thresholds + shift
            w[problem.oracle.n_features] += shift
        self._store_weights(problem.oracle.layout.rows(w))
        self.thresholds_ = thresholds
        self.partial_parity_gap_ = self._gap(scores, rows.codes)
        self.objective_ = found.objective
        self.infeasibility_ = found.infeasibility
        self.kkt_residual_ = found.kkt_residual
        self.history_ = found.history
        self.n_iter_ = found.n_iter
        self.n_oracle_calls_ = found.n_calls
        self.converged_ = found.converged

    def _gap(self, scores: NDArray[np.float64], groups: NDArray[Any]) -> float:
        interval = check_interval(self.interval)
        where: dict[str, Any] = {"sensitive_features": groups, "interval": interval}
        if self.criterion == "strong":
            return partial_demographic_parity_gap(scores, **where)
        return weak_partial_demographic_parity_gap(
            scores, threshold=self.threshold, **where
        )


# Share of the rows, to either side, over which the accuracy of cuts is averaged.
_NEIGHBOURS = 0.01


def most_accurate_shift(
    scores: NDArray[np.float64], signs: NDArray[np.float64]
) -> float:
    """Return the shift after which most signs of the scores are right.

    Zero if nothing is better; of several best places that of the smallest shift.
    """
    # The number of right signs as a function of the cut is a random walk, whose
    # maximum follows the noise: it is averaged over neighbouring cuts first. Between
    # two scores all shifts do the same: the middle is taken.
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    # gain[i]: rows right if the i lowest scores become negative, up to a constant
    gain = np.concatenate([[0.0], np.cumsum(-signs[order])])
    gain = _averaged(gain, int(_NEIGHBOURS * scores.size))
    distinct = np.concatenate([[True], ordered[1:] > ordered[:-1], [True]])
    now = np.searchsorted(ordered, 0.0, side="right")  # a score of 0 is negative
    if gain[now] >= gain[distinct].max():
        return 0.0
    places = np.flatnonzero(distinct & (gain == gain[distinct].max()))
    padded = np.concatenate([[ordered[0] - 2.0], ordered, [ordered[-1] + 2.0]])
    cuts = (padded[places] + padded[places + 1]) / 2
    return float(-cuts[np.abs(cuts).argmin()])


def _averaged(values: NDArray[np.float64], reach: int) -> NDArray[np.float64]:
    """Means over neighbours, the ends repeated beyond them."""
    if reach == 0:
        return values
    sums = np.concatenate([[0.0], np.cumsum(np.pad(values, reach, mode="edge"))])
    width = 2 * reach + 1
    means: NDArray[np.float64] = (sums[width:] - sums[:-width]) / width
    return means


def best_constant(signs: NDArray[np.float64], loss: str) -> float:
    """Return the score with the least mean loss if all rows have the same."""
    mean = float(signs.mean())
    if loss == "logistic":
        return float(np.log1p(mean) - np.log1p(-mean))
    if loss == "hinge":
        return float(np.sign(mean))
    return mean if loss == "squared" else 0.0  # pairs: it does not matter
