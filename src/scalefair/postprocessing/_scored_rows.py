"""Scores of rows by classifiers that were not fitted to them, in memory or in parts."""

from __future__ import annotations

import math
import warnings
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn import get_config
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import roc_curve
from sklearn.model_selection import cross_val_predict
from sklearn.utils import assert_all_finite
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    _num_samples,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
    validate_data,
)

from scalefair._entries import check_features, naming_words
from scalefair._groups import (
    FEW_ROWS,
    Attribute,
    check_compared,
    check_group_count,
    check_group_sizes,
    check_interval,
    encode_groups,
    smallest,
)
from scalefair._messages import listed
from scalefair.kernels import long_blas_call
from scalefair.streaming import PartitionedRows, is_partitioned


class Scorer(NamedTuple):
    """A fitted classifier of two classes, and its method that scores rows."""

    estimator: Any
    method: str

    def __call__(self, X: Any) -> NDArray[np.float64]:
        """Score rows for the second class."""
        return _one_column(getattr(self.estimator, self.method)(X), self.method)

    def of_part(self, block: Any, names: NDArray[Any] | None) -> NDArray[np.float64]:
        """Score the rows of a part, in a data frame if the classifier knows names."""
        has_names = hasattr(self.estimator, "feature_names_in_")
        if has_names and names is not None and not sparse.issparse(block):
            import pandas as pd

            block = pd.DataFrame(block, columns=names, copy=False)
        return self(block)


class ScoredRows(NamedTuple):
    """What calibration is to know of the rows: 32 bytes each."""

    scores: NDArray[np.float64]
    labels: NDArray[np.int64]
    codes: NDArray[np.int64]
    weights: NDArray[np.float64]

    def counted(self) -> ScoredRows:
        """Return the rows whose weight is not zero."""
        return ScoredRows._make(column[self.weights > 0] for column in self)

    def roc_distances(
        self, n_groups: int, interval: tuple[float, float]
    ) -> NDArray[np.float64]:
        """Return how far a point of a group's ROC curve can be from another's.

        The points are the cuts of the group, rates those among the ranks of the
        interval, and a distance the larger difference of the two rates.
        """
        curves, (low, high) = [], interval
        for k in range(n_groups):
            scores, labels, _, weights = (column[self.codes == k] for column in self)
            how: dict[str, Any] = {"sample_weight": weights, "drop_intermediate": False}
            rates = np.array(roc_curve(labels, scores, **how)[:2])
            curves.append((rates.clip(low, high) - low) / (high - low))
        distances = np.zeros((n_groups, n_groups))
        for (k, points), (m, other) in permutations(enumerate(curves), 2):
            # The nearest points of a rising curve are those about as far along it.
            after = np.searchsorted(other.sum(axis=0), points.sum(axis=0))
            near = np.stack([after - 1, after]).clip(0, other.shape[1] - 1)
            distance = np.abs(other[:, near] - points[:, None]).max(axis=0)
            distances[k, m] = distance.min(axis=0).max()
        return np.maximum(distances, distances.T)


def compared_rows(labels: NDArray[np.int64], given: str | None) -> NDArray[np.bool_]:
    """Return which rows are compared under each condition, (n_conditions, m)."""
    if given is None:
        return np.ones((1, labels.size), bool)
    return np.array([labels == y for y in (0, 1)[given == "positive" :]])


def score_rows(
    model: Any, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
) -> ScoredRows:
    """Fit a calibrated classifier's `estimator_`; return rows scored by others.

    Sets `classes_`, `groups_`, `roc_distance_` and what there is to say of the
    features.
    """
    if model.attributes == "each":
        raise ValueError(
            'attributes="each" is not for calibration: of two cuts that are fair to '
            "groups that overlap, as women and the old do, the union need not be, so "
            'that no map of scores is best at all cuts. Take attributes="joint".'
        )
    interval = check_interval(model.interval)
    score = _score_parts if is_partitioned(X) else _score_in_memory
    rows = score(model, X, y, sensitive_features, sample_weight).counted()
    model.roc_distance_ = None
    if model.given == "label":
        model._roc_distances = rows.roc_distances(len(model.groups_), interval)
        model.roc_distance_ = float(model._roc_distances.max())
    return rows


def _score_in_memory(
    model: Any, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
) -> ScoredRows:
    validate_data(model, X, skip_check_array=True)
    values = column_or_1d(y, warn=True)
    assert_all_finite(values, input_name="y")
    check_classification_targets(values)
    n_samples = _num_samples(X)
    if len(values) != n_samples:
        raise ValueError(
            f"X and y must have as many rows, got {n_samples} and {len(values)}."
        )
    classes, labels = np.unique(values, return_inverse=True)
    model.classes_ = _two(classes)
    model.groups_, codes = encode_groups(sensitive_features, n_samples)
    _check_groups(model, labels, codes)
    weights = _check_weights(model, sample_weight, labels, codes)
    # As many threads as its own fit takes; it may encode words, or not.
    with long_blas_call(), naming_words(X):
        used = None if sample_weight is None else weights
        scores = _fit_and_score(model, X, values, used)
    return ScoredRows(scores, labels, codes, weights)


def _fit_and_score(
    model: Any, X: Any, y: NDArray[Any], weights: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    scorer = _fitted_scorer(model)
    if scorer is not None:
        model.estimator_ = scorer.estimator
        _check_same_classes(model)
        return scorer(X)
    given = {} if weights is None else {"sample_weight": weights}
    if get_config()["enable_metadata_routing"]:
        given = process_routing(model, "fit", **given).estimator.fit
    elif not has_fit_parameter(model.estimator, "sample_weight"):
        given = {}
    method = scoring_method(model)
    scores = cross_val_predict(
        model.estimator,
        X,
        y,
        cv=model.cv,
        n_jobs=model.n_jobs,
        method=method,
        params=given,
    )
    model.estimator_ = clone(model.estimator).fit(X, y, **given)
    return _one_column(scores, method)


def _score_parts(
    model: Any, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
) -> ScoredRows:
    scorer = _fitted_scorer(model)
    if scorer is None:
        raise ValueError(
            f"Rows in parts (a {type(X).__name__}) are not cross-validated: fit this "
            f"{type(model.estimator).__name__} to other rows, and pass a "
            "FrozenEstimator of it."
        )
    rows = PartitionedRows.of(X, persist=False)
    check_features(model, rows, reset=True)
    classes, label_parts = rows.encode(y, name="y", what="label")
    check_classification_targets(classes)
    model.classes_ = _two(classes)
    model.groups_, code_parts = rows.encode(sensitive_features)
    labels, codes = (
        np.concatenate(column.gather()).astype(np.int64)
        for column in (label_parts, code_parts)
    )
    _check_groups(model, labels, codes)
    weights = _check_weights(model, sample_weight, labels, codes)
    model.estimator_ = scorer.estimator
    _check_same_classes(model)
    scores = rows.map(_scores_of_part, scorer, rows.feature_names).gather()
    return ScoredRows(np.concatenate(scores), labels, codes, weights)


def _scores_of_part(
    block: Any, scorer: Scorer, names: NDArray[Any] | None
) -> NDArray[np.float64]:
    return scorer.of_part(block, names)


def scoring_method(model: Any) -> str:
    """Name the method of the estimator that scores rows."""
    # Decisions are finer than probabilities near 0 and 1.
    names = ["decision_function", "predict_proba"]
    if model.target == "scores":
        names.reverse()
    return next(name for name in names if hasattr(model.estimator, name))


def _fitted_scorer(model: Any) -> Scorer | None:
    """Return the classifier as it was given, if that is what is wanted."""
    estimator = model.estimator
    is_prefit = isinstance(model.cv, str) and model.cv == "prefit"
    if not (is_prefit or isinstance(estimator, FrozenEstimator)):
        return None
    if isinstance(estimator, BaseEstimator):
        check_is_fitted(estimator)
    return Scorer(estimator, scoring_method(model))


def _two(classes: NDArray[Any], where: str = "y") -> NDArray[Any]:
    if len(classes) != 2:
        raise ValueError(
            f"Only binary classification is supported: {where} must have two labels, "
            f"got {len(classes)} class(es): {listed(classes.tolist(), repr)}."
        )
    return classes


def _check_same_classes(model: Any) -> None:
    known = getattr(model.estimator_, "classes_", model.classes_)
    if not np.array_equal(known, model.classes_):
        raise ValueError(
            f"y has the labels {listed(model.classes_.tolist(), repr)}, the estimator "
            f"was fitted to {listed(np.asarray(known).tolist(), repr)}: give it the "
            "same."
        )


def _check_groups(
    model: Any, labels: NDArray[np.int64], codes: NDArray[np.int64]
) -> None:
    groups = Attribute("sensitive_features", model.groups_, codes)
    check_compared([groups], "sklearn.isotonic.IsotonicRegression")
    check_group_count(len(model.groups_), model.max_groups)
    names, sizes = _sets(model, labels, codes)
    within = ", within a label," * (model.given is not None)
    check_group_sizes(names, sizes, model.min_group_size, within)


def _sets(
    model: Any, labels: NDArray[np.int64], codes: NDArray[np.int64]
) -> tuple[list[str], NDArray[np.int64]]:
    """Name the groups, or their rows of one label, that are compared; count rows."""
    names, n_groups = list(map(repr, model.groups_.tolist())), len(model.groups_)
    if model.given is not None:
        classes = model.classes_.tolist()[model.given == "positive" :]
        names = [f"{name} labelled {label!r}" for label in classes for name in names]
    compared = compared_rows(labels, model.given)
    sizes = [np.bincount(codes[rows], minlength=n_groups) for rows in compared]
    return names, np.concatenate(sizes)


def warn_of_pairs(model: Any, rows: ScoredRows, *, stacklevel: int) -> None:
    """Warn of pairs of groups whose gap may be larger, or whose cuts hardly agree."""
    low, high = check_interval(model.interval)
    kappa, messages = float(model.kappa), []

    def worst(values: NDArray[np.float64]) -> str:
        pair = np.unravel_index(values.argmax(), values.shape)
        return "{!r} and {!r}".format(*model.groups_[list(pair)].tolist())

    least = math.ceil(1 / ((kappa or 1 / FEW_ROWS) * (high - low)) - 1e-9)
    names, sizes = _sets(model, rows.labels, rows.codes)
    if (small := sizes < least).any():
        messages.append(
            f"Groups of too few rows for kappa={kappa:g}: "
            f"{smallest(names, sizes, small)}. Pairs with one of them may differ by "
            f"more, since one row does: {worst(model.kappas_)} by {model.kappa_:.2g} "
            "(`kappas_`); other pairs may not. Join such groups with others, or leave "
            f"them out; min_group_size={least} refuses them."
        )
    if model.given == "label":
        excess = model._roc_distances - model.kappas_
        if excess.max() > 1e-9:
            distance = model._roc_distances.flat[excess.argmax()]
            messages.append(
                f"kappa={kappa:g} is less than the distance of the ROC curves of "
                f"{worst(excess)}, {distance:.2g} (`roc_distance_`): few cuts are fair "
                "to both labels, which costs accuracy. Raise kappa to that, or pass "
                'given="positive".'
            )
    for message in messages:
        warnings.warn(message, UserWarning, stacklevel=stacklevel + 1)


def _check_weights(
    model: Any,
    sample_weight: Any,
    labels: NDArray[np.int64],
    codes: NDArray[np.int64],
) -> NDArray[np.float64]:
    if is_partitioned(sample_weight):
        sample_weight = np.asarray(sample_weight)  # computed, 8 bytes a row
    weights: NDArray[np.float64] = _check_sample_weight(
        sample_weight, labels, dtype=np.float64, ensure_non_negative=True
    )
    _two(model.classes_[np.unique(labels[weights > 0])], "y of rows that have a weight")
    names, sizes = _sets(model, labels[weights > 0], codes[weights > 0])
    if not sizes.all():
        empty = np.array(names)[sizes == 0].tolist()
        raise ValueError(
            f"sample_weight is 0 for all rows of {len(empty)} group(s): "
            f"{listed(empty)}. Leave them out: they have no shares."
        )
    return weights


def _one_column(scores: Any, method: str) -> NDArray[np.float64]:
    """Scores of the positive class, finite."""
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim > 2 or (scores.ndim == 2 and scores.shape[1] != 2):
        raise ValueError(
            f"The estimator's {method} returns shape {scores.shape}, as for "
            "several classes or outputs: fit it to the two labels."
        )
    positive: NDArray[np.float64] = scores[:, 1] if scores.ndim == 2 else scores
    if not np.isfinite(positive).all():
        bad = np.flatnonzero(~np.isfinite(positive))
        raise ValueError(
            f"The estimator's {method} is not finite for {bad.size} row(s), the first "
            f"at position {bad[0]}."
        )
    return positive
