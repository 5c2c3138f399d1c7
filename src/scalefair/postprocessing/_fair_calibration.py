"""Fair calibration: partial demographic parity, exactly, around any classifier."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MetaEstimatorMixin,
    clone,
)
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score
from sklearn.model_selection import cross_val_predict
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    _num_samples,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
    validate_data,
)

from scalefair._decorators import available_if, fit_context
from scalefair._docs import documented
from scalefair._groups import check_interval, encode_groups, known_codes
from scalefair.metrics import partial_demographic_parity_gap
from scalefair.optimize import parity_isotonic_regression

# Ties within a block are broken by so little, and less than half way to its neighbours.
_SHIFT = 1e-6
# Draws, and points of the ranks, from which the gap of sampling noise is estimated.
_DRAWS, _POINTS = 200, 1024


@documented()
class FairCalibratedClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    r"""Calibrate the scores of any classifier so that groups are treated alike.

    To partial demographic parity what isotonic calibration is to calibration: the
    scores of each group are mapped by a function that rises with them, so that among
    the ranks in `interval` the share of a group above any threshold differs between
    groups by at most `kappa`, on the rows of `fit`, and nothing else that does so is
    nearer to the labels. Every cut of the outputs is then the most accurate choice of
    cuts by group that is fair. The group of a row must be known at prediction; where
    that is not allowed use
    :class:`~scalefair.linear_model.PartiallyFairClassifier` with
    ``interactions=False``.

    Parameters
    ----------
    estimator : classifier
        Anything with `decision_function` or `predict_proba`, for two classes.
    interval : tuple of two floats, default=(0.0, 1.0)
        Ranks :math:`0 \le \alpha < \beta \le 1` within each group, counted from its
        highest score, among which the groups are treated alike; the default is all.
    kappa : float, default=0.05
        Largest gap on the rows of `fit`, from 0 to 1. At 0 it is what one row of the
        smallest group makes (`kappa_`).
    target : {"labels", "scores"}, default="labels"
        What the outputs are near to in the mean square. ``"labels"`` is the most
        accurate, and calibrates: outputs are the shares of positive labels in blocks
        of rows. ``"scores"`` changes the classifier's probabilities (or its decisions,
        if it has none) least; at ``kappa=0`` over all ranks that is the Wasserstein
        barycentre.
    cv : int, cross-validation generator, iterable or "prefit", default=None
        How rows are scored by models that have not seen them; without it the gap of
        overfitted models holds for the rows of `fit` only. None takes 5 folds.
        ``"prefit"``, or a :class:`~sklearn.frozen.FrozenEstimator`, takes a fitted
        classifier as it is: give `fit` rows that it was not fitted to.
    n_jobs : int, default=None
        Folds fitted at a time, as in scikit-learn.

    Attributes
    ----------
    estimator_ : classifier
        Fitted to all rows, or as given.
    classes_ : ndarray of shape (2,)
        The labels.
    %(groups_)s
    kappa_ : float
        `kappa`, or the gap that one row of the smallest group makes, if larger.
    values_ : ndarray of shape (n_blocks,)
        The outputs, decreasing.
    thresholds_ : ndarray of shape (n_blocks + 1, n_groups)
        Scores of group k in ``(thresholds_[b + 1, k], thresholds_[b, k]]`` become
        ``values_[b]``.
    partial_parity_gap_ : float
        Gap of the outputs for the scores of `fit`, measured: at most `kappa_`.
    null_gap_ : float
        What sampling noise makes, on the average, of a perfectly fair score for as
        many new rows of each group as `fit` had: expect `kappa_` plus about this much
        on new rows. `null_gap` has it for other numbers.
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    scalefair.optimize.parity_isotonic_regression : The method on arrays.
    scalefair.metrics.partial_demographic_parity_gap : The gap.

    Notes
    -----
    Rows with one output are ranked by how high they stand in their group, so far as
    that keeps the gap, by differences below 1e-6.

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
        "estimator": [
            HasMethods(["fit", "decision_function"]),
            HasMethods(["fit", "predict_proba"]),
        ],
        "interval": [tuple, list],
        "kappa": [Interval(Real, 0, 1, closed="both")],
        "target": [StrOptions({"labels", "scores"})],
        "cv": ["cv_object", StrOptions({"prefit"})],
        "n_jobs": [None, Interval(Real, None, None, closed="neither")],
    }

    def __init__(
        self,
        estimator: Any,
        interval: tuple[float, float] = (0.0, 1.0),
        kappa: float = 0.05,
        *,
        target: str = "labels",
        cv: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.interval = interval
        self.kappa = kappa
        self.target = target
        self.cv = cv
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        tags.classifier_tags.multi_class = False
        return tags

    # The estimator inside is checked by its own fit.
    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        *,
        sensitive_features: ArrayLike,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit the classifier, score rows by models that know only others, calibrate.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (m, n_features)
            Rows of features, handed to `estimator` as they are.
        y : array-like of shape (m,)
            Labels of two kinds; the larger one is positive.
        sensitive_features : array-like of shape (m,)
            Group of each row: numbers, strings or booleans, none missing.
        sample_weight : array-like of shape (m,), default=None
            Weights of the rows, not negative, in losses and shares. They are passed on
            to an estimator whose `fit` takes them.

        Returns
        -------
        object
            The fitted estimator.

        Raises
        ------
        ValueError
            If there are not two labels, lengths differ, a group is missing, a score
            is not finite, or a parameter is out of range.
        """
        validate_data(self, X, skip_check_array=True)
        labels = self._check_labels(y, _num_samples(X))
        self.groups_, codes = encode_groups(sensitive_features, len(labels))
        interval = check_interval(self.interval)
        weights, kept = None, slice(None)
        if sample_weight is not None:
            weights = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
            kept = weights > 0
        scores = self._fit_scores(X, y, weights)
        if weights is not None:
            weights = weights[kept]
        codes = codes[kept]
        found = parity_isotonic_regression(
            scores[kept] if self.target == "scores" else labels[kept],
            scores[kept],
            codes,
            kappa=self.kappa,
            interval=interval,
            sample_weight=weights,
        )
        self.values_, self.thresholds_ = found.values, found.thresholds
        self._limits = found.fine_thresholds
        self._outputs = _shifted(found.values, found.fine_blocks)
        sizes = np.bincount(codes)
        self.kappa_ = max(self.kappa, 1 / (sizes.min() * (interval[1] - interval[0])))
        self.kappa_ = float(min(self.kappa_, 1.0))
        self._shares = sizes / sizes.sum()
        self._n_fitted = int(sizes.sum())
        self.partial_parity_gap_ = 0.0
        if len(self.groups_) > 1:
            self.partial_parity_gap_ = partial_demographic_parity_gap(
                self._outputs_of(scores[kept], codes),
                sensitive_features=codes,
                interval=interval,
                sample_weight=weights,
            )
        self.null_gap_ = self.null_gap(self._n_fitted)
        return self

    def _check_labels(self, y: ArrayLike, n_samples: int) -> NDArray[np.float64]:
        """Return which labels are the larger one of two, which `classes_` become."""
        check_classification_targets(y)
        values = column_or_1d(y, warn=True)
        if len(values) != n_samples:
            raise ValueError(
                f"X and y must have as many rows, got {n_samples} and {len(values)}."
            )
        self.classes_, codes = np.unique(values, return_inverse=True)
        if len(self.classes_) != 2:
            raise ValueError(
                "Only binary classification is supported: y must have two labels, got "
                f"{len(self.classes_)} class(es)."
            )
        return codes.astype(np.float64)

    def _fit_scores(
        self, X: Any, y: ArrayLike, weights: NDArray[np.float64] | None
    ) -> NDArray[np.float64]:
        """Fit `estimator_`; return scores of the rows by models that know others."""
        # Decisions are finer than probabilities near 0 and 1.
        methods = ["decision_function", "predict_proba"]
        if self.target == "scores":
            methods.reverse()
        self._method = next(name for name in methods if hasattr(self.estimator, name))
        is_frozen = isinstance(self.estimator, FrozenEstimator)
        if is_frozen or (isinstance(self.cv, str) and self.cv == "prefit"):
            check_is_fitted(self.estimator)
            self.estimator_ = self.estimator
            return self._scores(X)
        passed = {}
        if weights is not None and has_fit_parameter(self.estimator, "sample_weight"):
            passed["sample_weight"] = weights
        scores = cross_val_predict(
            self.estimator,
            X,
            y,
            cv=self.cv,
            n_jobs=self.n_jobs,
            method=self._method,
            params=passed,
        )
        self.estimator_ = clone(self.estimator).fit(X, y, **passed)
        return _one_column(scores, self._method)

    def _scores(self, X: Any) -> NDArray[np.float64]:
        return _one_column(getattr(self.estimator_, self._method)(X), self._method)

    def _outputs_of(
        self, scores: NDArray[np.float64], codes: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return outputs for scores of groups, ties broken."""
        outputs = np.empty_like(scores)
        for k in range(len(self.groups_)):
            own = codes == k
            # Thresholds fall: the last one that is not below the score.
            step = np.searchsorted(-self._limits[:, k], -scores[own], side="right") - 1
            outputs[own] = self._outputs[step]
        return outputs

    def _calibrated(self, X: Any, sensitive_features: ArrayLike) -> NDArray[np.float64]:
        check_is_fitted(self)
        validate_data(self, X, skip_check_array=True, reset=False)
        groups, codes = encode_groups(sensitive_features, _num_samples(X))
        return self._outputs_of(
            self._scores(X), known_codes(groups, self.groups_)[codes]
        )

    def decision_function(
        self, X: Any, *, sensitive_features: ArrayLike
    ) -> NDArray[np.float64]:
        """Return the outputs, less what separates the classes: one half, or 0.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (m, n_features)
            Rows of features.
        sensitive_features : array-like of shape (m,)
            Group of each row.

        Returns
        -------
        ndarray of shape (m,)
            Positive for the second class; its shares above any threshold differ as
            `kappa` says.

        Raises
        ------
        ValueError
            If a group was not seen by `fit`.
        """
        outputs = self._calibrated(X, sensitive_features)
        if _gives_probabilities(self):
            outputs -= 0.5
        return outputs

    @available_if(lambda self: _gives_probabilities(self))
    def predict_proba(
        self, X: Any, *, sensitive_features: ArrayLike
    ) -> NDArray[np.float64]:
        """Return the probabilities of both classes.

        Not there for ``target="scores"`` and an estimator without probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (m, n_features)
            Rows of features.
        sensitive_features : array-like of shape (m,)
            Group of each row.

        Returns
        -------
        ndarray of shape (m, 2)
            In the order of `classes_`.

        Raises
        ------
        ValueError
            If a group was not seen by `fit`.
        """
        outputs = self._calibrated(X, sensitive_features).clip(0.0, 1.0)
        return np.column_stack([1.0 - outputs, outputs])

    def predict(self, X: Any, *, sensitive_features: ArrayLike) -> NDArray[Any]:
        """Return the class of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (m, n_features)
            Rows of features.
        sensitive_features : array-like of shape (m,)
            Group of each row.

        Returns
        -------
        ndarray of shape (m,)
            Labels.

        Raises
        ------
        ValueError
            If a group was not seen by `fit`.
        """
        decisions = self.decision_function(X, sensitive_features=sensitive_features)
        labels: NDArray[Any] = self.classes_[(decisions > 0).astype(np.intp)]
        return labels

    def score(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike,
    ) -> float:
        """Return the accuracy.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (m, n_features)
            Rows of features.
        y : array-like of shape (m,)
            True labels.
        sample_weight : array-like of shape (m,), default=None
            Weights of the rows.
        sensitive_features : array-like of shape (m,)
            Group of each row.

        Returns
        -------
        float
            Share of the rows whose label is predicted.
        """
        found = self.predict(X, sensitive_features=sensitive_features)
        return float(accuracy_score(y, found, sample_weight=sample_weight))

    def null_gap(self, n_samples: int) -> float:
        """Return the gap that noise makes of a perfectly fair score on new rows.

        Parameters
        ----------
        n_samples : int
            Number of new rows, in groups of the shares that the rows of `fit` have.

        Returns
        -------
        float
            Mean over draws: of the noise of those rows, and of `fit`'s own.
        """
        check_is_fitted(self)
        variances = (1 / self._n_fitted + 1 / n_samples) / self._shares
        return _noise_gap(variances, check_interval(self.interval))


def _gives_probabilities(model: FairCalibratedClassifier) -> bool:
    return model.target == "labels" or hasattr(model.estimator, "predict_proba")


def _one_column(scores: Any, method: str) -> NDArray[np.float64]:
    """Scores of the positive class, finite."""
    scores = np.asarray(scores, dtype=np.float64)
    positive: NDArray[np.float64] = scores[:, -1] if scores.ndim == 2 else scores
    if not np.isfinite(positive).all():
        bad = np.flatnonzero(~np.isfinite(positive))
        raise ValueError(
            f"The estimator's {method} is not finite for {bad.size} row(s), the first "
            f"at position {bad[0]}."
        )
    return positive


def _shifted(
    values: NDArray[np.float64], blocks: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Values of the steps: of their blocks, and falling within each by little."""
    room = np.full(values.size + 1, 2 * _SHIFT)
    room[1:-1] = np.minimum(room[1:-1], -np.diff(values))
    counts = np.bincount(blocks, minlength=values.size)
    position = np.arange(blocks.size) - np.repeat(np.cumsum(counts) - counts, counts)
    within = (counts[blocks] - 1 - 2 * position) / counts[blocks]  # from 1 to -1
    half = 0.49 * np.minimum(room[:-1], room[1:])
    shifted: NDArray[np.float64] = values[blocks] + half[blocks] * within
    return shifted


def _noise_gap(variances: NDArray[np.float64], interval: tuple[float, float]) -> float:
    """Mean gap of shares whose errors are Brownian bridges of these variances."""
    if variances.size < 2:
        return 0.0
    low, high = interval
    reach = 4 * np.sqrt(variances.max() * 0.25)  # ranks that noise brings inside
    ranks = np.linspace(max(0.0, low - reach), min(1.0, high + reach), _POINTS)
    rng = np.random.default_rng(0)  # an estimate: the same for the same sizes
    steps = np.diff(ranks, prepend=0.0, append=1.0)
    gaps = []
    for _ in range(_DRAWS):
        walk = rng.normal(size=(variances.size, steps.size)) * np.sqrt(steps)
        paths = np.cumsum(walk, axis=1)
        bridges = paths[:, :-1] - ranks * paths[:, -1:]
        shares = np.clip(ranks + np.sqrt(variances)[:, None] * bridges, low, high)
        gaps.append(np.ptp(shares, axis=0).max() / (high - low))
    return float(np.mean(gaps))
