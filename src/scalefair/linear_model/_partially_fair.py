"""Linear classifier that is fair where decisions are contested."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions

from scalefair._decorators import fit_context
from scalefair._docs import documented
from scalefair._entries import check_random_state
from scalefair._groups import GroupCodes, check_interval, fitted_groups
from scalefair._membership import check_one_of
from scalefair.linear_model._base import TEXTS, BaseGroupClassifier
from scalefair.linear_model._continuation import (
    GapSolver,
    Solution,
    best_solution,
    warn_unfinished,
)
from scalefair.linear_model._oracle import (
    RowOracle,
    best_constant,
    most_accurate_shift,
)
from scalefair.linear_model._parity_problem import (
    ParityProblem,
    StrongParity,
    WeakParity,
    check_start,
)
from scalefair.linear_model._partitioned import PartitionedTraining
from scalefair.linear_model._partitioned_oracle import RankedScores
from scalefair.linear_model._training_rows import LabeledRows
from scalefair.linear_model._weights import Array, ridge_factors
from scalefair.metrics import partial_parity_gap, unmixed_parity_gap
from scalefair.streaming import is_partitioned


@documented(**TEXTS)
class PartiallyFairClassifier(BaseGroupClassifier):
    r"""Linear classifier whose scores are fair within a range of ranks.

    With :math:`P_k(\theta)` the share of group `k` that scores above :math:`\theta`,
    :math:`A_k = (\min(P_k, \beta) - \min(P_k, \alpha)) / (\beta - \alpha)` is what of
    it lies within the ranks :math:`[\alpha, \beta)`. No two groups are to differ in
    :math:`A_k` by more than `kappa`, at any threshold (strong criterion) or at one
    (weak); outside of the range the scores are free [1]_. The inexact DC algorithm
    solves the problem for a surrogate; `kkt_residual_` certifies the solution.

    Parameters
    ----------
    %(interval)s
    kappa : float, default=0.05
        Gap of the training rows' scores allowed, as a share of the interval. What
        exceeds it by more than a twentieth is warned of.
    given : {"positive", "label"} or None, default=None
        Which rows of the groups are compared: all (demographic parity), for
        ``"positive"`` those labelled ``classes_[1]`` (equal opportunity), ``"label"``
        those of the same label (equalized odds). Ranks are those among these rows.
    %(attributes)s
    %(criterion)s
    %(interactions)s
    surrogate_width : "auto" or float, default="auto"
        ``"auto"`` narrows the surrogate, and lowers its bound below `kappa`, until the
        gap of the scores themselves is at most `kappa`. A number is a width that stays,
        in scores: 1 is the method of [1]_, which bounds the surrogate's gap only.
    n_thresholds : int, default=25
        Ranks at which the strong criterion is enforced. With ``surrogate_width="auto"``
        there are multiples of them where the gap between them is above `kappa`.
    alpha : float, default=1e-4
        Factor of half the squared norm of the coefficients of standardized features.
    interaction_alpha : float or None, default=None
        The same for what groups add to the shared coefficients. None is at least
        ``16 / m``, as if what they add had a normal prior of deviation 1/4 (of small
        groups little else is known), or 0 if `alpha` is.
    inner_solver : {"bundle", "ssg", "direct"}, default="bundle"
        Solver of the convex subproblems: proximal bundle, certified, or switching
        subgradients; ``"direct"`` applies these to the problem itself, unguaranteed.
    start : {"auto", "zero"} or array-like of shape (n_rows, d + 1), default="auto"
        ``"auto"`` is an augmented Lagrangian's solution of the problem with rounded
        corners, ``"zero"`` that of [1]_ (weak criterion: the best constant score). An
        array gives feasible rows of coefficients, as `coef_` has them, and intercept.
    tune_intercept : bool, default=True
        Whether the intercept is moved, after training (and `objective_`), to where
        rows are classified best; not with the weak criterion, which it would change.
    tol : float, default=1e-3
        Nearly-KKT residual (definition 6.2 of [1]_) at which to stop.
    max_iter : int, default=500
        Most iterations of the DC algorithm, of 150 subgradient steps each with
        ``"ssg"``; ``"direct"`` takes 150 times as many steps.
    warm_start : bool, default=False
        Whether `fit` starts from the last solution, if the numbers of features and
        groups are the same.
    random_state : int, RandomState instance or None, default=None
        Draws the sample that training on many rows in parts begins with.
    %(group_limits)s

    Attributes
    ----------
    %(group_weights_)s
    %(input_)s
    thresholds_ : ndarray of shape ([2, ][n_attributes, ]n_thresholds)
        Scores at the enforced ranks, by label with ``given="label"``, and by attribute
        with ``attributes="each"`` and several; for the weak criterion `threshold`.
    partial_parity_gap_ : float
        Gap of the criterion on the training rows, exact: not the surrogate's. With
        ``attributes="each"`` the largest one of an attribute. With
        `group_probabilities` expected: right if they are calibrated given the features.
    unmixed_parity_gap_ : float
        Only with `group_probabilities`: the gap at all thresholds if within a group the
        scores do not depend on them, `unmixed_parity_gap`; nan if that is not defined.
        Between both gaps the probabilities do not decide.
    surrogate_kappa_, surrogate_width_ : float
        Bound and width of the surrogate in the last problem, which `infeasibility_`
        and `kkt_residual_` are about; the bound leaves room to the solution.
    objective_, infeasibility_ : float
        The objective with its penalty, and the largest violation of a constraint.
    kkt_residual_ : float
        Nearly-KKT residual.
    history_ : list of dict
        Records of the whole search, of all surrogates that were tried, with the keys
        "objective", "infeasibility", "kkt_residual" (nan where it was not computed)
        and "n_oracle_calls".
    n_iter_, n_oracle_calls_, converged_ : int, int and bool
        Iterations of the DC algorithm in the last problem, passes over the rows, and
        whether the residual is within `tol` and the scores better than constant ones.

    See Also
    --------
    partial_fairness_path : Classifiers for several gaps, at little more cost.
    PartiallyFairClassifierCV : Choice of the gap by cross-validation.

    Notes
    -----
    The residual, `tol` and `alpha` are about features of mean 0 and deviation 1, those
    of two values with distance 1 between them [2]_, `coef_` and `intercept_` about the
    features as given. A column whose deviation is below 1e-10 of its largest entry
    counts as constant and gets no weight. From a part of many rows come sums of
    ``16 n_groups n_thresholds (n_features + 1)`` bytes, twice that with
    ``given="positive"`` and four times with ``"label"``. Of Dask collections nothing
    that travels grows with the rows, but for `group_probabilities`; gaps are exact to
    1e-6 of the ranks, the tuned intercept to 2e-4. A reader's scores, 8 bytes a row,
    are kept while they are ranked.

    References
    ----------
    %(paper)s
       Problems (13) and (17), algorithms 1 to 3.
    .. [2] Gelman, "Scaling regression inputs by dividing by two standard
       deviations", Statistics in Medicine 27 (2008).

    %(example_rows)s
    >>> from scalefair.linear_model import PartiallyFairClassifier
    >>> fair = PartiallyFairClassifier((0.1, 0.5), kappa=0.05, n_thresholds=25)
    >>> fair = fair.fit(X, y, sensitive_features=group)
    >>> fair.converged_, fair.partial_parity_gap_ < 0.15
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseGroupClassifier._parameter_constraints,
        "kappa": [Interval(Real, 0, 1, closed="right")],
        "given": [StrOptions({"positive", "label"}), None],
        "attributes": [StrOptions({"joint", "each"})],
        "interaction_alpha": [Interval(Real, 0, None, closed="left"), None],
        "inner_solver": [StrOptions({"bundle", "ssg", "direct"})],
        "start": [StrOptions({"auto", "zero"}), "array-like"],
        "surrogate_width": [
            StrOptions({"auto"}),
            Interval(Real, 0, None, closed="neither"),
        ],
        "tune_intercept": ["boolean"],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        interval: Sequence[float] = (0.0, 1.0),
        kappa: float = 0.05,
        *,
        given: str | None = None,
        attributes: str = "joint",
        criterion: str = "strong",
        threshold: float = 0.0,
        loss: str = "logistic",
        surrogate: str = "ramp",
        interactions: bool = True,
        surrogate_width: Any = "auto",
        n_thresholds: int = 25,
        alpha: float = 1e-4,
        interaction_alpha: float | None = None,
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
        self.given = given
        self.attributes = attributes
        self.criterion = criterion
        self.threshold = threshold
        self.loss = loss
        self.surrogate = surrogate
        self.interactions = interactions
        self.surrogate_width = surrogate_width
        self.n_thresholds = n_thresholds
        self.alpha = alpha
        self.interaction_alpha = interaction_alpha
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
        self,
        X: Any,
        y: ArrayLike,
        *,
        sensitive_features: ArrayLike | None = None,
        group_probabilities: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> PartiallyFairClassifier:
        """Train the classifier.

        Parameters
        ----------
        %(X)s
            Dense or CSR, in any units, not copied if C-contiguous. Partitions of Dask
            stay where they are; each pass reads a reader anew.
        y : array-like or Dask collection of shape (m,)
            Labels of two kinds.
        sensitive_features : array-like or Dask collection of shape (m,) or (m, k)
            Group of each row, at least two different ones; of k columns as `attributes`
            says. Not with `group_probabilities`.
        %(group_probabilities)s
        %(sample_weight)s

        Returns
        -------
        self : object
            The trained classifier.

        Raises
        ------
        ValueError
            If an input or a group is not as described, `start` violates the
            constraints, the loss compares pairs of rows, in parts or with weights, or
            `group_probabilities` are not as described.
        MemoryError
            If the gradients of all constraints do not fit.

        %(warns)s
        """
        # 1. Checked rows, and the oracle of their loss and rates.
        check_interval(self.interval)
        samples: Iterator[LabeledRows] = iter(())
        oracle: RowOracle
        if is_partitioned(X):
            check_one_of(sensitive_features, group_probabilities)
            if group_probabilities is not None:
                self._check_takes_probabilities()
            training = PartitionedTraining(
                self._check_rows(X, reset=True),
                y,
                sensitive_features,
                (self.max_groups, self.min_group_size),
                self._oracle_options(),
                self.given,
                self.attributes,
                sample_weight,
                group_probabilities,
            )
            rows, oracle = training.labels, training.oracle
            samples = training.nested_subsamples(check_random_state(self.random_state))
            self.classes_ = rows.classes
            self.groups_ = fitted_groups(rows.membership.compared)
        else:
            rows = self._check_training(
                X, y, sensitive_features, sample_weight, group_probabilities
            )
            oracle = rows.oracle(**self._oracle_options())
        rows.warn_few()
        problem = self._problem(oracle, rows)
        # 2. Of many rows in parts solve nested samples first, ever larger ones, each
        # from the solution of the one before.
        last: Solution | None = None
        if self._is_auto_start and not self._can_warm_start(problem):
            for sample in samples:
                part = sample.oracle(oracle.layout.units, **self._oracle_options())
                # The labels of all rows: a sample may lack a class.
                last = self._solve(self._problem(part, rows), sample, last)
        # 3. The problem of all rows.
        solution = self._solve(problem, rows, last)
        self._finish(rows, solution)
        return self

    def _problem(self, oracle: RowOracle, rows: LabeledRows) -> ParityProblem:
        """Return the problem of an oracle's rows; labels are those of `rows`."""
        interval = check_interval(self.interval)
        interaction_alpha = self.interaction_alpha
        if interaction_alpha is None:
            # A normal prior of deviation 1/4 of coefficients that groups add: its
            # precision, divided by the rows, as the objective is a mean.
            prior = 1 / (0.25**2 * oracle.n_effective)
            interaction_alpha = max(self.alpha, prior) if self.alpha else 0.0
        ridge = ridge_factors(oracle.layout, self.alpha, interaction_alpha)
        constant = best_constant(rows.signs, self.loss, rows.weights)
        common = (oracle, interval, float(self.kappa), ridge, constant)
        problem: ParityProblem
        if self.criterion == "weak":
            problem = WeakParity(*common, threshold=float(self.threshold))
        else:
            n = int(self.n_thresholds)  # of a short type products would overflow
            problem = StrongParity(*common, n_thresholds=n, surrogate=self.surrogate)
        problem.require_memory()
        return problem

    @property
    def _is_auto_start(self) -> bool:
        """Whether the smoothed problem gives the start of the DC algorithm."""
        return isinstance(self.start, str) and self.start == "auto"

    def _solve(
        self,
        problem: ParityProblem,
        rows: LabeledRows,
        last: Solution | None = None,
    ) -> Solution:
        """Solve a problem from another's solution, the given start, or the last fit."""
        kappa, width = float(self.kappa), self.surrogate_width
        is_auto = isinstance(width, str)
        # Step 1: the point to start from, if there is one.
        if not is_auto:
            problem = problem.with_surrogate(kappa, width)
        solver = self._gap_solver(problem, rows)
        layout, start = problem.oracle.layout, None
        if last is not None:
            start = solver.start_from(last, last.weights)
        elif self._can_warm_start(problem):
            w = layout.parameters(np.column_stack([self.coef_, self.intercept_]))
            bound = kappa * self._kappa_ratio
            width = self.surrogate_width_ if is_auto else width
            start = solver.start_at(bound, width, w, self.thresholds_.ravel())
        elif not isinstance(self.start, str):
            w, thresholds = check_start(problem, self.start, self.tol)
            start = solver.start_at(kappa, problem.width, w, thresholds)
        # Step 2: the solution for a fixed surrogate, or for the measured gap.
        if not is_auto:
            return solver.solve_fixed(start)
        solution = solver.meet_gap(start)
        if solution.gap <= kappa or not solver.smooth or layout.shape[0] == 1:
            return solution
        # Step 3: weights of the model without interactions are weights of this one. If
        # that model has a smaller gap, the search starts again from its solution, with
        # nothing (rows of zeros) added to the shared weights.
        smaller_problem = self._problem(problem.oracle.without_interactions(), rows)
        smaller_solver = self._gap_solver(smaller_problem, rows)
        nested = smaller_solver.meet_gap(None)
        if nested.gap < solution.gap and not nested.is_flat:
            embedded = np.zeros(layout.shape)
            embedded[0] = smaller_problem.oracle.layout.rows(nested.weights)[0]
            start = solver.start_from(nested, layout.parameters(embedded))
            again = solver.meet_gap(start, is_nested=True)
            solution = best_solution([solution, again], self.tol)
        assert solution.certificate is not None
        n_calls = solver.n_calls + smaller_solver.n_calls
        certificate = replace(solution.certificate, n_calls=n_calls)
        return replace(solution, certificate=certificate)

    def _gap_solver(self, problem: ParityProblem, rows: LabeledRows) -> GapSolver:
        """Return the solver of a problem that measures the gap on its rows."""

        def measure(w: Array) -> float:
            return self._gap(problem.oracle.ranked(w), rows)

        return GapSolver(
            problem,
            float(self.kappa),
            measure,
            inner_solver=self.inner_solver,
            tol=self.tol,
            max_iter=self.max_iter,
            smooth=self._is_auto_start,
        )

    def _can_warm_start(self, problem: ParityProblem) -> bool:
        """Whether the last fit had as many features and groups."""
        if not (self.warm_start and hasattr(self, "_kappa_ratio")):
            return False
        n_rows, n_columns = problem.oracle.layout.shape
        return self.coef_.shape == (n_rows, n_columns - 1)

    def _finish(self, rows: LabeledRows, solution: Solution) -> None:
        """Store a solution and warn of it; the intercept is tuned on the rows."""
        # 1. The weights, with the shared intercept at the most accurate cut. The strong
        # criterion looks at ranks, which a common shift of the scores does not change;
        # the thresholds move with them.
        problem, certificate = solution.problem, solution.certificate
        assert certificate is not None
        w, thresholds = solution.weights.copy(), solution.thresholds
        scores = problem.oracle.ranked(w)
        if self.tune_intercept and self.criterion == "strong":
            if isinstance(scores, RankedScores):
                shift = scores.most_accurate_shift()
            else:
                shift = most_accurate_shift(scores, rows.signs, rows.weights)
            thresholds = thresholds + shift
            w[problem.oracle.n_features] += shift
        self._store_weights(problem.oracle.layout.rows(w))
        if self.criterion == "strong":
            # Axes of length one, of labels and of attributes, are left out.
            n_labels, n_attributes = 1 + (self.given == "label"), len(rows.groups)
            shape = [n for n in (n_labels, n_attributes) if n > 1]
            self.thresholds_ = thresholds.reshape(*shape, -1)
        else:
            self.thresholds_ = thresholds[:1]
        # 2. The gaps. The criterion's was measured before the shift, which changes no
        # gap at all thresholds; scores of the weak criterion are not shifted.
        self.partial_parity_gap_ = solution.gap
        self.__dict__.pop("unmixed_parity_gap_", None)  # of an earlier fit
        if (P := rows.probabilities) is not None:
            self.unmixed_parity_gap_ = self._unmixed_gap(
                problem.oracle.scores(w), rows, P
            )
        # 3. The surrogate, and how the search ended.
        self.surrogate_kappa_ = problem.kappa
        self.surrogate_width_ = problem.width
        self._kappa_ratio = problem.kappa / solution.kappa  # for a warm start
        self.objective_ = solution.objective
        self.infeasibility_ = solution.infeasibility
        self.kkt_residual_ = certificate.kkt_residual
        self.history_ = [
            {
                "objective": record.objective,
                "infeasibility": record.infeasibility,
                "kkt_residual": record.kkt_residual,
                "n_oracle_calls": record.n_calls,
            }
            for record in certificate.history
        ]
        self.n_iter_ = certificate.n_iter
        self.n_oracle_calls_ = certificate.n_calls
        self.converged_ = certificate.converged and not solution.is_flat
        is_fixed = self.surrogate_width != "auto"
        warn_unfinished(solution, scores, rows, self.tol, is_fixed=is_fixed)

    def _gap(self, scores: Array | RankedScores, rows: LabeledRows) -> float:
        """Return the gap of the criterion for the scores of all rows."""
        interval = check_interval(self.interval)
        threshold = self.threshold if self.criterion == "weak" else None
        if isinstance(scores, RankedScores):
            return scores.gap(interval, threshold)
        # Codes of the groups of each entry, a column for each attribute.
        groups, take = rows.combinations.sets[rows.codes], rows.membership.take
        return partial_parity_gap(
            take(scores),
            sensitive_features=groups.view(GroupCodes),
            attributes="each",
            y_true=take(rows.signs),
            given=self.given,
            interval=interval,
            threshold=threshold,
            sample_weight=rows.membership.weights,
        )

    def _unmixed_gap(self, scores: Array, rows: LabeledRows, P: Array) -> float:
        """Gap if within a group scores do not depend on the probabilities, or nan."""
        # Rows that are compared: all, the positive ones, or those of each label. The
        # gap is the largest of theirs, nan if one is not defined.
        masks = [np.ones(len(scores), bool)]
        if self.given is not None:
            labels = (1,) if self.given == "positive" else (1, -1)
            masks = [rows.signs == label for label in labels]
        weights, gaps = rows.weights, []
        for members in masks:
            try:
                gap = unmixed_parity_gap(
                    scores[members],
                    group_probabilities=P[members],
                    interval=check_interval(self.interval),
                    sample_weight=None if weights is None else weights[members],
                )
            except ValueError:  # a column is a combination of others
                gap = np.nan
            gaps.append(gap)
        return float(np.max(gaps))
