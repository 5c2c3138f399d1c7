"""Fair calibration: partial parity, exactly, around any classifier."""

from __future__ import annotations

from copy import copy
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from scalefair._decorators import GroupRequests, available_if, checked_call, fit_context
from scalefair._docs import SHARED, documented
from scalefair._entries import check_features
from scalefair._groups import check_interval, encode_groups, known_codes
from scalefair._messages import ROUTED
from scalefair.metrics import null_parity_gap
from scalefair.optimize import parity_isotonic_regression
from scalefair.postprocessing._scored_rows import (
    ScoredRows,
    Scorer,
    break_ties,
    compared_rows,
    gives_probabilities,
    score_rows,
    warn_of_pairs,
)
from scalefair.streaming import PartitionedRows, is_partitioned

Array = NDArray[np.float64]

TEXTS = {
    "X": """\
X : {array-like, sparse matrix, Dask collection, reader} of shape (m, n_features)
    Rows of features, as `estimator` takes them.""",
    "sensitive_features": """\
sensitive_features : array-like or Dask collection of shape (m,) or (m, k)
    Group of each row, one of `groups_`.""",
    "refused_probabilities": """\
group_probabilities : None
    Not taken: a mixture of the functions of the groups is not fair.""",
    "unseen": """\
Raises
------
ValueError
    If a group was not seen by `fit`, or a score is not finite.""",
    "fit_rows": """\
X : {array-like, sparse matrix, Dask collection, reader} of shape (m, n_features)
    Rows of features, handed to `estimator` as they are; those in parts to a fitted
    one only, part by part: scores, labels and groups are gathered, features are not.
y : array-like or Dask collection of shape (m,)
    Labels of two kinds; the larger one is positive.
sensitive_features : array-like or Dask collection of shape (m,) or (m, k)
    Group of each row: numbers, strings or booleans, none missing. Of k columns each
    combination that occurs is a group.""",
    "group_probabilities": f"""\
{SHARED["group_probabilities"]}
    With `given`, given the label, too. At prediction groups must be known.""",
    "sample_weight": """\
sample_weight : array-like or Dask array of shape (m,), default=None
    Weights of the rows, not negative, in losses and shares. They are passed on to an
    estimator whose `fit` takes them; if it has a penalty, their unit counts there.""",
}


@documented(**TEXTS)
class FairCalibratedClassifier(
    GroupRequests, MetaEstimatorMixin, ClassifierMixin, BaseEstimator
):
    r"""Calibrate the scores of any classifier to partial parity of groups.

    Isotonic calibration under partial parity: a nondecreasing function for each group
    maps scores to outputs. Among the ranks in `interval` the share of a group above any
    threshold differs between groups by at most `kappa`, for the cross-fitted scores of
    the rows of `fit`; of all such outputs these are the nearest to the labels. Those of
    `predict_proba` differ by more as a rule: measure them on other rows. Shares are of
    all rows, of the positive ones, or of both labels. Every cut is then the most
    accurate choice of cuts by group that is fair. The group of a row must be known at
    prediction, its label in `fit` only. Where groups may not be used, take a
    :class:`~scalefair.linear_model.PartiallyFairClassifier`, ``interactions=False``.

    Parameters
    ----------
    estimator : classifier
        Anything with `decision_function` or `predict_proba`, for two classes.
    interval : tuple of two floats, default=(0.0, 1.0)
        Ranks :math:`0 \le \alpha < \beta \le 1` within each group, counted from its
        highest score, among which the groups are compared; the default is all.
    kappa : float, default=0.05
        Largest gap of cross-fitted scores, from 0 to 1. In a small group one row may
        make a larger gap, which is then allowed to the group instead; the gap of two
        groups is at most the mean of what is allowed to both (`kappas_`). With
        ``kappa=0`` that is so for every group.
    given : {"positive", "label"} or None, default=None
        Which rows of the groups are compared: all (demographic parity), for
        ``"positive"`` those labelled ``classes_[1]`` (equal opportunity), ``"label"``
        those of the same label (equalized odds). Ranks are those among these rows. One
        gap may widen where another is closed: measure what matters.
    attributes : {"joint"}, default="joint"
        Of several columns every combination that occurs is a group. ``"each"``, as
        other estimators have it, is refused: fair cuts would have no order.
    target : {"labels", "scores"}, default="labels"
        What the outputs are closest to in the mean square. ``"labels"`` is the most
        accurate, and calibrates: outputs are the shares of positive labels in blocks
        of rows. ``"scores"`` changes the classifier's probabilities (or its decisions,
        if it has none) least; with ``kappa=0`` and all ranks that is the Wasserstein
        barycentre.
    cv : int, cross-validation generator, iterable or "prefit", default=None
        How rows are scored by models that have not seen them; without it the gap of
        overfitted models holds for the rows of `fit` only. None takes 5 folds.
        ``"prefit"``, or a :class:`~sklearn.frozen.FrozenEstimator`, takes a fitted
        classifier as it is: give `fit` rows that it was not fitted to. Rows in parts
        need one of the two; so do models whose scale varies from fit to fit, such as
        boosting that stops early, unless it is told not to.
    n_jobs : int, default=None
        Folds fitted at a time, as in scikit-learn.
    max_groups : int, default=100
        Most groups: more look like a number, such as an age, and are refused.
    min_group_size : int, default=1
        Smallest number of compared rows of a group, of weighted ones as many as have
        equal noise; smaller groups are refused. A warning names groups of which one
        row makes a gap above `kappa`, and with ``kappa=0`` those of fewer than 30 rows
        in the interval.

    Attributes
    ----------
    estimator_ : classifier
        Fitted to all rows, or as given.
    classes_ : ndarray of shape (2,)
        The labels.
    %(groups_)s
    kappas_ : ndarray of shape (n_groups, n_groups)
        Largest gap allowed to each pair of groups: the mean of two numbers, for each
        group the larger one of `kappa` and the gap that one of its rows makes.
    kappa_ : float
        The largest of `kappas_`: `kappa`, unless a group is small.
    values_ : ndarray of shape (n_blocks,)
        The outputs, decreasing.
    thresholds_ : ndarray of shape (n_blocks + 1, n_groups)
        Scores of group k in ``(thresholds_[b + 1, k], thresholds_[b, k]]`` become
        ``values_[b]``.
    partial_parity_gap_ : float
        Gap of the outputs for the cross-fitted scores of `fit`: at most `kappa_`.
    partial_parity_gaps_ : ndarray of shape (n_groups, n_groups)
        The same of each pair of groups: at most `kappas_`.
    roc_distance_ : float or None
        With ``given="label"`` the largest distance of a point of a group's ROC curve
        from that of another group, by the larger difference of the two rates. If
        `kappa` is less, few cuts are fair, and a warning says so.
    null_gap_ : float
        `null_gap` for as many new rows as `fit` had: what sampling noise makes of a
        perfectly fair score. Expect `kappa_` plus about this much on new rows.
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    fair_calibration_path : Classifiers for several kappas, at little more cost.
    scalefair.optimize.parity_isotonic_regression : The method on arrays.
    scalefair.metrics.partial_demographic_parity_gap : The gap.

    Notes
    -----
    Rows of a block are ordered by their rank in the block's part of their group, in up
    to four steps of less than 1e-6 each, which keep the gap. More steps would hardly
    improve the order, and let more noise into the gap on new rows. As in any isotonic
    calibration, probabilities of blocks of one label are 0 or 1; those of
    ``target="scores"`` are not.

    References
    ----------
    .. [1] Y. He, Y. Huang, Y. Yao, Q. Lin, "Enforcing fairness where it matters: an
       approach based on difference-of-convex constraints", definition 4.2.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from scalefair.datasets import make_biased_rows
    >>> from scalefair.postprocessing import FairCalibratedClassifier
    >>> data = make_biased_rows(2000, random_state=0)
    >>> groups = data.sensitive_features
    >>> model = FairCalibratedClassifier(LogisticRegression(), (0.0, 0.4), kappa=0.05)
    >>> model = model.fit(data.data, data.target, sensitive_features=groups)
    >>> bool(model.partial_parity_gap_ <= 0.05)
    True
    >>> model.predict_proba(data.data[:3], sensitive_features=groups[:3]).shape
    (3, 2)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods("decision_function"), HasMethods("predict_proba")],
        "interval": [tuple, list],
        "kappa": [Interval(Real, 0, 1, closed="both")],
        "given": [StrOptions({"positive", "label"}), None],
        "attributes": [StrOptions({"joint", "each"})],
        "target": [StrOptions({"labels", "scores"})],
        "cv": ["cv_object", StrOptions({"prefit"})],
        "n_jobs": [None, Interval(Real, None, None, closed="neither")],
        "max_groups": [Interval(Integral, 2, None, closed="left")],
        "min_group_size": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        estimator: Any,
        interval: tuple[float, float] = (0.0, 1.0),
        kappa: float = 0.05,
        *,
        given: str | None = None,
        attributes: str = "joint",
        target: str = "labels",
        cv: Any = None,
        n_jobs: int | None = None,
        max_groups: int = 100,
        min_group_size: int = 1,
    ) -> None:
        self.estimator = estimator
        self.interval = interval
        self.kappa = kappa
        self.given = given
        self.attributes = attributes
        self.target = target
        self.cv = cv
        self.n_jobs = n_jobs
        self.max_groups = max_groups
        self.min_group_size = min_group_size

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags = get_tags(self.estimator).input_tags
        tags.classifier_tags.multi_class = False
        return tags

    def get_metadata_routing(self) -> MetadataRouter:
        """Say where metadata of `fit` go: here, and to the estimator's `fit`.

        Returns
        -------
        MetadataRouter
            See scikit-learn's user guide of metadata routing.
        """
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(estimator=self.estimator, method_mapping=to_fit)

    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        *,
        sensitive_features: ArrayLike | None = None,
        group_probabilities: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit the classifier, score rows by models that know only others, calibrate.

        Parameters
        ----------
        %(fit_rows)s
        %(group_probabilities)s
        %(sample_weight)s

        Returns
        -------
        object
            The fitted estimator.

        Raises
        ------
        ValueError
            If there are not two labels, lengths differ, a group is missing or has no
            weight, groups are one, too many or too small, or lack a label that is
            compared, a score is not finite, a parameter is out of range, or rows in
            parts meet a classifier that is not fitted.

        Warns
        -----
        UserWarning
            If groups are so small that their gaps may exceed `kappa`, or `kappa` is
            less than `roc_distance_`.
        """
        groups = sensitive_features, group_probabilities
        rows = score_rows(self, X, y, groups, sample_weight)
        self._fit_steps(rows)
        warn_of_pairs(self, rows)
        return self

    def _fit_steps(self, rows: ScoredRows) -> None:
        """Fit the steps from scores to outputs, and measure the gaps they leave."""
        is_compared = compared_rows(rows.labels, self.given)  # (n_conditions, m)
        result = parity_isotonic_regression(
            rows.scores if self.target == "scores" else rows.labels,
            rows.scores,
            rows.codes,
            kappa=self.kappa,
            interval=check_interval(self.interval),
            levels_of=is_compared.T,
            sample_weight=rows.weights,
        )
        self.kappa_, self.kappas_ = result.kappa, result.kappas
        self.values_, self.thresholds_ = result.values, result.thresholds
        self.partial_parity_gap_, self.partial_parity_gaps_ = result.gap, result.gaps
        # Blocks divided into steps, whose outputs differ by less than 1e-6.
        self._limits = result.fine_thresholds
        self._outputs = break_ties(result.values, result.fine_blocks)
        # For `null_gap` the variance of a group's mean, 1 / n_k, and its share of rows.
        relative = rows.weights / rows.weights.max()  # no square is out of range
        weights = is_compared * relative
        sums = np.array([np.bincount(rows.codes, w) for w in weights])
        squares = np.array([np.bincount(rows.codes, w) for w in weights**2])
        self._variances = squares / sums**2
        self._shares = sums / relative.sum()
        self.null_gap_ = self.null_gap(rows.n_rows)

    def _map_scores(self, scores: Array, codes: NDArray[np.integer]) -> Array:
        """Return the outputs of the steps that hold the scores of the groups."""
        outputs = np.empty_like(scores)
        for k in range(len(self.groups_)):
            members = codes == k
            # Step b holds the scores in (limits[b + 1], limits[b]]; limits decrease.
            limits = self._limits[:, k]
            step = np.searchsorted(-limits, -scores[members], side="right") - 1
            outputs[members] = self._outputs[step]
        return outputs

    def _calibrated(
        self, X: Any, sensitive_features: Any, group_probabilities: Any
    ) -> Array:
        """Return the outputs of rows; for a Dask collection a lazy array."""
        check_is_fitted(self)
        if group_probabilities is not None:
            raise ValueError(
                "group_probabilities are for fit only: a mixture of the groups' "
                "outputs is not fair. Pass sensitive_features, the group of each row."
            )
        if sensitive_features is None:
            raise TypeError(f"Pass sensitive_features, the group of each row. {ROUTED}")
        if is_partitioned(X):
            rows = PartitionedRows.of(X, persist=False)
            check_features(self, rows, reset=False)
            scorer = Scorer.build(self, self.estimator_, rows)
            groups, part_codes = rows.encode(sensitive_features, warn=False)
            args = _map_part, self, scorer, known_codes(groups, self.groups_)
            outputs: Array = rows.rowwise(*args, aligned=[part_codes])
            return outputs
        # First the scores: the estimator knows best what is wrong with X.
        scores = Scorer.build(self, self.estimator_, None).score(X)
        validate_data(self, X, skip_check_array=True, reset=False)
        groups, codes = encode_groups(sensitive_features, _num_samples(X), warn=False)
        return self._map_scores(scores, known_codes(groups, self.groups_)[codes])

    @checked_call
    def decision_function(
        self,
        X: Any,
        *,
        sensitive_features: ArrayLike | None = None,
        group_probabilities: None = None,
    ) -> Array:
        """Return the outputs minus the threshold of the classes: 0.5, or 0.

        Parameters
        ----------
        %(X)s
        %(sensitive_features)s
        %(refused_probabilities)s

        Returns
        -------
        {ndarray, dask.array.Array} of shape (m,)
            Positive for the second class; its shares above any threshold differ as
            `kappa` says. For a Dask collection not computed yet.

        %(unseen)s
        """
        outputs = self._calibrated(X, sensitive_features, group_probabilities)
        return outputs - 0.5 * gives_probabilities(self)

    @available_if(gives_probabilities)
    @checked_call
    def predict_proba(
        self,
        X: Any,
        *,
        sensitive_features: ArrayLike | None = None,
        group_probabilities: None = None,
    ) -> Array:
        """Return the probabilities of both classes.

        Not there for ``target="scores"`` and an estimator without probabilities.

        Parameters
        ----------
        %(X)s
        %(sensitive_features)s
        %(refused_probabilities)s

        Returns
        -------
        {ndarray, dask.array.Array} of shape (m, 2)
            In the order of `classes_`.

        %(unseen)s
        """
        outputs = self._calibrated(X, sensitive_features, group_probabilities)
        outputs = outputs.clip(0.0, 1.0)  # the first and last block may lie outside
        return np.stack([1.0 - outputs, outputs], axis=1)

    @checked_call
    def predict(
        self,
        X: Any,
        *,
        sensitive_features: ArrayLike | None = None,
        group_probabilities: None = None,
    ) -> NDArray[Any]:
        """Return the class of each row.

        Parameters
        ----------
        %(X)s
        %(sensitive_features)s
        %(refused_probabilities)s

        Returns
        -------
        {ndarray, dask.array.Array} of shape (m,)
            Labels.

        %(unseen)s
        """
        outputs = self._calibrated(X, sensitive_features, group_probabilities)
        negative, positive = self.classes_[:1], self.classes_[1:]
        is_positive = outputs > 0.5 * gives_probabilities(self)
        labels: NDArray[Any] = np.where(is_positive, positive, negative)
        return labels

    @checked_call
    def score(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike | None = None,
    ) -> float:
        """Return the accuracy.

        Parameters
        ----------
        %(X)s
        y : array-like or Dask collection of shape (m,)
            True labels.
        sample_weight : array-like of shape (m,), default=None
            Weights of the rows.
        %(sensitive_features)s

        Returns
        -------
        float
            Share of the rows, or of their weight, whose label is predicted.
        """
        if is_partitioned(X):
            X = PartitionedRows.of(X, persist=False)
            labels, codes = X.encode(y, name="y", noun="label")
            y = labels[np.concatenate(codes.gather())]
        predicted = np.asarray(self.predict(X, sensitive_features=sensitive_features))
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))

    def null_gap(self, n_samples: int, groups: ArrayLike | None = None) -> float:
        r"""Return the gap that noise makes of a perfectly fair score on new rows.

        Parameters
        ----------
        n_samples : int
            Number of all new rows; groups, and labels in them, have their shares.
        groups : array-like, default=None
            Groups whose pairs count, such as two that matter; None takes all.

        Returns
        -------
        float
            Mean of the largest difference between Brownian bridges of the variances
            :math:`1/n_k + 1/n'_k`, for the compared rows of group k in `fit` and the
            new ones: the limit for scores that say nothing, calibrated with
            ``kappa=0``. Coarse steps give noise fewer places: gaps of few rows, or of
            the few blocks of labels, are smaller.

        Raises
        ------
        ValueError
            If `n_samples` is not positive, or `fit` did not see a group.
        """
        check_is_fitted(self)
        if not n_samples > 0:
            raise ValueError(f"n_samples must be positive, got {n_samples!r}.")
        # The noise of both samples adds up: as many rows as have variance 1/n + 1/n'.
        sizes = 1 / (self._variances + 1 / (n_samples * self._shares))
        if groups is not None:
            sizes = sizes[:, known_codes(np.asarray(groups), self.groups_)]
        return null_parity_gap(list(sizes), interval=check_interval(self.interval))


@documented(**TEXTS)
@checked_call
def fair_calibration_path(
    estimator: Any,
    X: Any,
    y: ArrayLike,
    *,
    sensitive_features: ArrayLike | None = None,
    group_probabilities: ArrayLike | None = None,
    kappas: ArrayLike,
    sample_weight: ArrayLike | None = None,
    **params: Any,
) -> list[FairCalibratedClassifier]:
    """Calibrate for several kappas: a whole front of fairness and accuracy.

    The classifier is fitted and the rows are scored only once.

    Parameters
    ----------
    estimator : classifier
        As of `FairCalibratedClassifier`.
    %(fit_rows)s
    %(group_probabilities)s
    kappas : array-like of shape (n_kappas,)
        Largest gaps on these rows, from 0 to 1, in any order.
    %(sample_weight)s
    **params
        Parameters of `FairCalibratedClassifier` other than these.

    Returns
    -------
    list of FairCalibratedClassifier
        In the order of `kappas`; they share `estimator` and `estimator_`.

    Raises
    ------
    ValueError
        If `kappas` is empty or has a number that is not within [0, 1], or for the
        reasons of `FairCalibratedClassifier.fit`.

    See Also
    --------
    scalefair.plotting.ParetoFrontDisplay : Draws the front.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from scalefair.datasets import make_biased_rows
    >>> from scalefair.postprocessing import fair_calibration_path
    >>> data = make_biased_rows(2000, random_state=0)
    >>> path = fair_calibration_path(
    ...     LogisticRegression(),
    ...     data.data,
    ...     data.target,
    ...     sensitive_features=data.sensitive_features,
    ...     kappas=[0.0, 0.1],
    ... )
    >>> path[0].partial_parity_gap_ < path[1].partial_parity_gap_ <= 0.1
    True
    """
    values = np.asarray(kappas, dtype=np.float64)
    if values.ndim != 1 or not values.size or not ((values >= 0) & (values <= 1)).all():
        raise ValueError(
            f"kappas must be numbers from 0 to 1, at least one, got {kappas!r}."
        )
    first = FairCalibratedClassifier(estimator, kappa=float(values[0]), **params)
    first._validate_params()
    groups = sensitive_features, group_probabilities
    rows = score_rows(first, X, y, groups, sample_weight)
    models = [copy(first).set_params(kappa=float(kappa)) for kappa in values]
    for model in models:
        model._fit_steps(rows)
    warn_of_pairs(models[values.argmin()], rows)
    return models


def _map_part(
    block: Any,
    model: FairCalibratedClassifier,
    scorer: Scorer,
    fitted_codes: NDArray[np.int64],
    codes: NDArray[np.integer],
) -> Array:
    """Return the outputs of a part; `fitted_codes` are its groups' in `fit`."""
    return model._map_scores(scorer.score(block), fitted_codes[codes])
