"""Scores of rows by classifiers that were not fitted to them, in memory or in parts."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import roc_curve
from sklearn.model_selection import cross_val_predict
from sklearn.utils import assert_all_finite
from sklearn.utils.metadata_routing import get_routing_for_object, process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _num_samples,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
    validate_data,
)

from scalefair._decorators import GROUP_ARGUMENTS
from scalefair._entries import (
    check_features,
    check_sample_weight,
    naming_text_columns,
)
from scalefair._groups import (
    FEW_ROWS,
    check_group_count,
    check_group_sizes,
    check_interval,
    check_values,
    effective_sizes,
    smallest,
)
from scalefair._membership import Membership
from scalefair._messages import format_distinct, listed, warn_user
from scalefair.kernels import long_blas_call
from scalefair.postprocessing._passes import with_column_names
from scalefair.streaming import PartitionedRows, is_partitioned

Array = NDArray[np.float64]
Codes = NDArray[np.int64]  # of rows, the indices of their groups


class Scorer(NamedTuple):
    """A fitted classifier of two classes, and its method that scores rows."""

    estimator: Any
    method: str
    feature_names: NDArray[Any] | None = None  # of rows in parts

    @classmethod
    def build(cls, model: Any, estimator: Any, X: Any) -> Scorer:
        """Return the scorer of a model's fitted classifier for rows such as X."""
        # For the target "labels" only the order of the scores counts. Decisions then
        # have fewer ties than probabilities, which round to 0 and 1.
        methods = ["decision_function", "predict_proba"]
        if model.target == "scores":
            methods.reverse()
        method = next(name for name in methods if hasattr(model.estimator, name))
        names = X.feature_names if isinstance(X, PartitionedRows) else None
        return cls(estimator, method, names)

    def score(self, X: Any) -> Array:
        """Score rows for the second class."""
        X = with_column_names(X, self.feature_names, self.estimator)
        return _positive_scores(getattr(self.estimator, self.method)(X), self.method)


def gives_probabilities(model: Any) -> bool:
    """Whether the outputs of a calibrated classifier are probabilities."""
    return model.target == "labels" or hasattr(model.estimator, "predict_proba")


class ScoredRows(NamedTuple):
    """Columns that calibration reads, of entries (see `Membership`), 32 bytes each."""

    scores: Array
    labels: Codes
    codes: Codes
    weights: Array
    n_rows: int  # with an entry

    def roc_distances(self, n_groups: int, interval: tuple[float, float]) -> Array:
        """Return the Hausdorff distances between the ROC curves of the groups.

        The points of a curve are the cuts of the group, with rates among the ranks of
        the interval. The distance of two points is the larger difference of a rate.
        """
        # 1. The curve of each group: false and true positive rates, (2, n_cuts).
        curves, (low, high) = [], interval
        for k in range(n_groups):
            scores, labels, _, weights = (x[self.codes == k] for x in self[:4])
            false_rates, true_rates, _ = roc_curve(
                labels, scores, sample_weight=weights, drop_intermediate=False
            )
            rates = np.array([false_rates, true_rates])
            curves.append((rates.clip(low, high) - low) / (high - low))
        # 2. For each pair the largest distance of a point of k from the curve of m.
        # Both rates increase along a curve, so does their sum. In the maximum norm the
        # nearest point is the one before, or after, the point's own sum.
        distances = np.zeros((n_groups, n_groups))
        for (k, points), (m, curve) in permutations(enumerate(curves), 2):
            after = np.searchsorted(curve.sum(axis=0), points.sum(axis=0))
            candidates = np.stack([after - 1, after]).clip(0, curve.shape[1] - 1)
            distance = np.abs(curve[:, candidates] - points[:, None]).max(axis=0)
            distances[k, m] = distance.min(axis=0).max()
        # 3. Of both directions the larger one.
        return np.maximum(distances, distances.T)


def compared_rows(labels: Codes, given: str | None) -> NDArray[np.bool_]:
    """Return the rows compared under each condition, bool (n_conditions, m)."""
    if given is None:
        return np.ones((1, labels.size), bool)
    return np.array([labels == y for y in ((1,) if given == "positive" else (0, 1))])


def score_rows(
    model: Any, X: Any, y: Any, groups: tuple[Any, Any], sample_weight: Any
) -> ScoredRows:
    """Fit `estimator_`; return the rows, scored by models not fitted to them.

    `groups` are sensitive features and probabilities of groups, one of them None.
    Sets `classes_`, `groups_`, `roc_distance_`, `n_features_in_` and, of data frames,
    `feature_names_in_`.
    """
    if model.attributes == "each":
        raise ValueError(
            'attributes="each" is not for calibration: of two cuts that are fair to '
            "groups that overlap, as women and the old do, the union need not be, so "
            'that no map of scores is best at all cuts. Take attributes="joint".'
        )
    # 1. Whether the estimator is fitted, which rows in parts need.
    interval, estimator = check_interval(model.interval), model.estimator
    is_prefit = isinstance(model.cv, str) and model.cv == "prefit"
    is_prefit = is_prefit or isinstance(estimator, FrozenEstimator)
    if is_prefit and isinstance(estimator, BaseEstimator):
        check_is_fitted(estimator)
    if is_partitioned(X) and not is_prefit:
        raise ValueError(
            f"Rows in parts (a {type(X).__name__}) are not cross-validated: fit this "
            f"{type(estimator).__name__} to other rows, and pass a FrozenEstimator of "
            "it."
        )
    # 2. Labels, groups and weights of the rows, or of entries of probabilities.
    X, y, labels = _encode_labels(model, X, y)
    membership = Membership.of(
        *groups,
        X,
        sample_weight=sample_weight,
        alternative="sklearn.isotonic.IsotonicRegression",
    ).gathered()
    name, model.groups_, codes = membership.compared[0]
    codes = codes.astype(np.int64, copy=False)  # those of parts are small
    check_group_count(len(model.groups_), model.max_groups, name)
    entry_labels, weights = membership.take(labels), membership.weights
    classes = model.classes_
    if weights is not None:
        classes = classes[np.unique(entry_labels[weights > 0])]
    _check_two_classes(classes, "y of rows that have a weight")
    names, sizes = _count_compared(model, entry_labels, codes, weights)
    within = ", within a label," * (model.given is not None)
    check_group_sizes(names, sizes, model.min_group_size, within)
    # 3. Scores, by the fitted classifier or by those of the folds. The estimator's own
    # fit may use all threads of BLAS. If it fails on columns of strings, the error
    # names them.
    scorer = Scorer.build(model, estimator, X)
    if is_prefit:
        model.estimator_ = estimator
        classes = np.asarray(getattr(estimator, "classes_", model.classes_))
        if not np.array_equal(classes, model.classes_):
            raise ValueError(
                f"y has the labels {listed(model.classes_.tolist(), repr)}, the "
                f"estimator was fitted to {listed(classes.tolist(), repr)}: give it "
                "the same."
            )
    if isinstance(X, PartitionedRows):
        scores = np.concatenate(X.map(scorer.score).gather())
    else:
        with long_blas_call(), naming_text_columns(X):
            if is_prefit:
                scores = scorer.score(X)
            else:
                row_weights = check_sample_weight(sample_weight, len(labels))
                scores = _cross_fit(model, X, y, groups, row_weights, scorer.method)
    # 4. The entries that count.
    weights = np.ones(len(codes)) if weights is None else weights
    counts = weights > 0
    rows = ScoredRows(
        membership.take(scores)[counts],
        entry_labels[counts],
        codes[counts],
        weights[counts],
        np.unique(membership.take(np.arange(len(labels)))[counts]).size,
    )
    # 5. How well the groups' ROC curves agree: what equalized odds may cost.
    model.roc_distance_ = None
    if model.given == "label":
        model._roc_distances = rows.roc_distances(len(model.groups_), interval)
        model.roc_distance_ = float(model._roc_distances.max())
    return rows


def _encode_labels(model: Any, X: Any, y: Any) -> tuple[Any, Any, Codes]:
    """Return X, y as a vector, and the codes of all labels, in memory."""
    if is_partitioned(X):
        X = PartitionedRows.of(X, persist=False)
        check_features(model, X, reset=True)
        classes, label_parts = X.encode(y, name="y", noun="label")
        check_classification_targets(classes)
        model.classes_ = _check_two_classes(classes)
        return X, y, np.concatenate(label_parts.gather()).astype(np.int64)
    validate_data(model, X, skip_check_array=True)
    y = column_or_1d(y, warn=True)
    assert_all_finite(y, input_name="y")
    y = check_values(y, name="y", noun="label")
    check_classification_targets(y)
    n_samples = _num_samples(X)
    if len(y) != n_samples:
        raise ValueError(
            f"X and y must have as many rows, got {n_samples} and {len(y)}."
        )
    classes, labels = np.unique(y, return_inverse=True)
    model.classes_ = _check_two_classes(classes)
    return X, y, labels


def _cross_fit(
    model: Any,
    X: Any,
    y: NDArray[Any],
    groups: tuple[Any, Any],
    weights: Array | None,
    method: str,
) -> Array:
    """Fit `estimator_` to all rows; score each by the model of a fold without it."""
    # Weights go to a fit that takes them, or that routing sends them to; so do groups.
    fit_params = {} if weights is None else {"sample_weight": weights}
    if get_config()["enable_metadata_routing"]:
        named = dict(zip(GROUP_ARGUMENTS, groups, strict=True))
        routing = get_routing_for_object(model.estimator)
        fit_params |= {name: named[name] for name in routing.consumes("fit", named)}
        fit_params = process_routing(model, "fit", **fit_params).estimator.fit
    elif not has_fit_parameter(model.estimator, "sample_weight"):
        fit_params = {}
    scores = cross_val_predict(
        model.estimator,
        X,
        y,
        cv=model.cv,
        n_jobs=model.n_jobs,
        method=method,
        params=fit_params,
    )
    model.estimator_ = clone(model.estimator).fit(X, y, **fit_params)
    return _positive_scores(scores, method)


def _check_two_classes(classes: NDArray[Any], name: str = "y") -> NDArray[Any]:
    """Return the labels of `y` or raise a ValueError if there are not two."""
    if len(classes) != 2:
        raise ValueError(
            f"Only binary classification is supported: {name} must have two labels, "
            f"got {len(classes)} class(es): {listed(classes.tolist(), repr)}."
        )
    return classes


def _count_compared(
    model: Any, labels: Codes, codes: Codes, weights: Array | None
) -> tuple[list[str], Codes]:
    """Name the compared sets, groups or their rows of one label, and count rows.

    Of weighted entries the effective number, (sum w)^2 / sum w^2.
    """
    names, n_groups = list(map(repr, model.groups_.tolist())), len(model.groups_)
    if model.given is not None:
        compared_labels = model.classes_.tolist()[model.given == "positive" :]
        names = [f"{k} labelled {label!r}" for label in compared_labels for k in names]
    is_compared = compared_rows(labels, model.given)
    sizes = [
        effective_sizes(codes[x], None if weights is None else weights[x], n_groups)
        for x in is_compared
    ]
    return names, np.rint(np.concatenate(sizes)).astype(np.int64)


def warn_of_pairs(model: Any, rows: ScoredRows) -> None:
    """Warn of pairs of groups whose gap may be larger, or whose cuts hardly agree."""
    low, high = check_interval(model.interval)
    kappa = float(model.kappa)

    def largest_pair(values: Array) -> str:
        pair = np.unravel_index(values.argmax(), values.shape)
        return "{!r} and {!r}".format(*model.groups_[list(pair)].tolist())

    # One of n rows is a share of 1 / (n (high - low)): at most kappa, if n is at least
    # this. At kappa=0, where that is never so, groups of few rows are named.
    min_size = math.ceil(1 / ((kappa or 1 / FEW_ROWS) * (high - low)) - 1e-9)
    names, sizes = _count_compared(model, rows.labels, rows.codes, rows.weights)
    is_small = sizes < min_size
    if is_small.any():
        warn_user(
            f"Groups of too few rows for kappa={kappa:g}: "
            f"{smallest(names, sizes, is_small)}. Pairs with one of them may differ by "
            f"more, since one row does: {largest_pair(model.kappas_)} by "
            f"{model.kappa_:.2g} (`kappas_`); other pairs may not. Join such groups "
            f"with others, or leave them out; min_group_size={min_size} refuses them."
        )
    # Cuts that are fair to both labels are points that the curves of two groups share,
    # up to kappa.
    if model.given == "label":
        excess = model._roc_distances - model.kappas_
        if excess.max() > 1e-9:
            distance = float(model._roc_distances.flat[excess.argmax()])
            warn_user(
                f"kappa={kappa:g} is less than the distance of the ROC curves of "
                f"{largest_pair(excess)}, {format_distinct(distance, kappa)} "
                "(`roc_distance_`): few cuts are fair to both labels, which costs "
                'accuracy. Raise kappa to that, or pass given="positive".'
            )


def _positive_scores(scores: Any, method: str) -> Array:
    """Return the scores of the positive class; raise unless they are finite."""
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim > 2 or (scores.ndim == 2 and scores.shape[1] != 2):
        raise ValueError(
            f"The estimator's {method} returns shape {scores.shape}, as for "
            "several classes or outputs: fit it to the two labels."
        )
    positive: Array = scores[:, 1] if scores.ndim == 2 else scores
    if not np.isfinite(positive).all():
        bad = np.flatnonzero(~np.isfinite(positive))
        raise ValueError(
            f"The estimator's {method} is not finite for {bad.size} row(s), the first "
            f"at position {bad[0]}."
        )
    return positive


def break_ties(values: Array, blocks: NDArray[np.integer]) -> Array:
    """Return values of the steps: those of their blocks, slightly decreasing in each.

    The steps of a block are spread evenly around its value, within 1e-6 of it and not
    halfway to a neighbouring block: the order of the blocks stays.
    """
    spacing = np.full(values.size + 1, 2e-6)  # below and above each block
    spacing[1:-1] = np.minimum(spacing[1:-1], -np.diff(values))
    half_width = 0.49 * np.minimum(spacing[:-1], spacing[1:])
    counts = np.bincount(blocks, minlength=values.size)
    first_step = np.cumsum(counts) - counts
    position = np.arange(blocks.size) - first_step[blocks]
    offsets = (counts[blocks] - 1 - 2 * position) / counts[blocks]  # within (-1, 1)
    outputs: Array = values[blocks] + half_width[blocks] * offsets
    return outputs
