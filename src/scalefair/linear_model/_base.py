"""What linear classifiers of rows that belong to groups have in common.

The checks of what users give, and scores by the weights of each row's group.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from scalefair._decorators import available_if
from scalefair._entries import (
    all_finite,
    canonical,
    check_array,
    check_features,
    judged_later,
    validate_data,
)
from scalefair._groups import encode_groups, known_codes
from scalefair.linear_model._training_rows import (
    GroupLimits,
    TrainingRows,
    encode_labels,
    refuse_parts,
)
from scalefair.streaming import PartitionedRows, is_partitioned


def _gives_probabilities(estimator: Any) -> bool:
    if estimator.loss == "logistic":
        return True
    raise AttributeError(
        f"predict_proba needs loss='logistic': the scores of loss={estimator.loss!r} "
        "are not log-odds. Use decision_function."
    )


class BaseGroupClassifier(ClassifierMixin, BaseEstimator):
    """Linear classifier of two classes whose weights may differ among groups.

    A subclass's `fit` calls `_check_training`, and `_store_weights` in the end.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "interactions": ["boolean"],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "max_groups": [Interval(Integral, 2, None, closed="left")],
        "min_group_size": [Interval(Integral, 1, None, closed="left")],
    }

    loss: str
    interactions: bool
    alpha: float
    max_groups: int
    min_group_size: int
    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        return tags

    def decision_function(
        self, X: Any, *, sensitive_features: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Return the score of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection, reader} of shape (m, d)
            Rows of features.
        sensitive_features : array-like or Dask collection of shape (m,), default=None
            Group of each row. Needed by a model with interactions, ignored by one
            without.

        Returns
        -------
        {ndarray, dask.array.Array} of shape (m,)
            Scores, in float32 if `X` is, otherwise in float64. Positive scores
            belong to ``classes_[1]``. For a Dask collection a Dask array that is not
            computed yet.

        Raises
        ------
        ValueError
            If the model needs groups and there are none, or one it was not
            trained on, or a score is too large for its type.
        """
        return self._outputs(X, sensitive_features, np.asarray)

    def predict(
        self, X: Any, *, sensitive_features: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Return the class of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection, reader} of shape (m, d)
            Rows of features.
        sensitive_features : array-like or Dask collection of shape (m,), default=None
            As in `decision_function`.

        Returns
        -------
        {ndarray, dask.array.Array} of shape (m,)
            Entries of `classes_`.
        """
        check_is_fitted(self)
        output = partial(decide, classes=self.classes_)
        return self._outputs(X, sensitive_features, output, dtype=self.classes_.dtype)

    @available_if(_gives_probabilities)
    def predict_proba(
        self, X: Any, *, sensitive_features: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Return the probability of each class; only with the logistic loss.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection, reader} of shape (m, d)
            Rows of features.
        sensitive_features : array-like or Dask collection of shape (m,), default=None
            As in `decision_function`.

        Returns
        -------
        {ndarray, dask.array.Array} of shape (m, 2)
            Probabilities, in the order of `classes_`.
        """
        return self._outputs(X, sensitive_features, probabilities, shape=(2,))

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
        X : {array-like, sparse matrix, Dask collection, reader} of shape (m, d)
            Rows of features.
        y : array-like or Dask collection of shape (m,)
            True labels.
        sample_weight : array-like of shape (m,), default=None
            Weight of each row.
        sensitive_features : array-like or Dask collection of shape (m,), default=None
            As in `decision_function`.

        Returns
        -------
        float
            Share of the rows (or of their weight) that are classified correctly.
        """
        if is_partitioned(X):
            check_is_fitted(self)
            X = self._check_rows(X, reset=False)
            labels, codes = X.encode(y, name="y", what="label")
            y = labels[np.concatenate(codes.gather())]
        predicted = self.predict(X, sensitive_features=sensitive_features)
        return float(
            accuracy_score(y, np.asarray(predicted), sample_weight=sample_weight)
        )

    @property
    def _limits(self) -> GroupLimits:
        return GroupLimits(self.max_groups, self.min_group_size)

    def _check_training(
        self, X: Any, y: ArrayLike, sensitive_features: ArrayLike
    ) -> TrainingRows:
        """Check and encode rows; sets `classes_`, `groups_`, `n_features_in_`."""
        refuse_parts(X, type(self).__name__)
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
        )
        classes, signs = encode_labels(y)
        groups, codes = encode_groups(sensitive_features, X.shape[0])
        self._limits.check(groups, np.bincount(codes, minlength=len(groups)))
        self.classes_ = classes
        self.groups_ = groups
        return TrainingRows(canonical(X), signs, codes, classes, groups)

    def _store_weights(self, rows: NDArray[np.float64]) -> None:
        """Store rows of coefficients, intercept last: one, or one for each group.

        The first is shared by all groups, the others are what each further one adds.
        """
        self.coef_ = np.array(rows[:, :-1], dtype=np.float64, order="C")
        self.intercept_ = np.array(rows[:, -1], dtype=np.float64)

    def _check_rows(self, X: Any, *, reset: bool) -> Any:
        if is_partitioned(X):
            rows = PartitionedRows.of(X, persist=reset)
            check_features(self, rows, reset=reset)
            return rows
        return validate_data(
            self,
            X,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            reset=reset,
        )

    def _outputs(
        self,
        X: Any,
        sensitive_features: ArrayLike | None,
        output: Output,
        *,
        shape: tuple[int, ...] = (),
        dtype: DTypeLike | None = None,
    ) -> NDArray[Any]:
        """Return what a function makes of scores; entries of some shape and type."""
        check_is_fitted(self)
        X = self._check_rows(X, reset=False)
        if isinstance(X, PartitionedRows):
            return self._partitioned_outputs(
                X, sensitive_features, output, shape, dtype
            )
        codes = None
        if len(self.coef_) > 1:
            given = self._needed(sensitive_features)
            groups, codes = encode_groups(given, X.shape[0])
            codes = known_codes(groups, self.groups_)[codes]
        return output(group_scores(X, codes, self.coef_, self.intercept_))

    def _partitioned_outputs(
        self,
        rows: PartitionedRows,
        sensitive_features: ArrayLike | None,
        output: Output,
        shape: tuple[int, ...],
        dtype: DTypeLike | None,
    ) -> NDArray[Any]:
        known, columns = None, []
        if len(self.coef_) > 1:
            given = self._needed(sensitive_features)
            groups, codes = rows.encode(given, name="sensitive_features", what="group")
            known, columns = known_codes(groups, self.groups_), [codes]
        real = real_type(rows)
        outputs: NDArray[Any] = rows.rowwise(
            output_of_part,
            output,
            real,
            known,
            self.coef_,
            self.intercept_,
            shape=shape,
            dtype=real if dtype is None else dtype,
            each=columns,
        )
        return outputs

    def _needed(self, sensitive_features: ArrayLike | None) -> ArrayLike:
        if sensitive_features is None:
            raise ValueError(
                f"This {type(self).__name__} has weights of its own for each group: "
                "pass sensitive_features, the group of each row. A model that does "
                "not need them is trained with interactions=False."
            )
        return sensitive_features


# Takes scores, returns an entry or a row of entries for each.
Output = Callable[[NDArray[Any]], NDArray[Any]]


def group_scores(
    X: Any,
    codes: NDArray[np.int64] | None,
    coef: NDArray[np.float64],
    intercept: NDArray[np.float64],
) -> NDArray[Any]:
    """Return ``X @ coef + intercept`` with the weights of each row's group.

    In the type of `X`, dense or CSR; a ValueError if a score is too large for it. The
    first row of weights is shared by the groups, which add the others to it.
    """
    with judged_later():
        scores = _products(X, codes, coef, intercept)
    if not all_finite(scores):
        bad = np.flatnonzero(~np.isfinite(scores))
        raise ValueError(
            f"The scores of {bad.size} row(s) are too large for {X.dtype}, the first "
            f"at position {bad[0]}: the features of these rows are too large."
        )
    return scores


def _products(
    X: Any,
    codes: NDArray[np.int64] | None,
    coef: NDArray[np.float64],
    intercept: NDArray[np.float64],
) -> NDArray[Any]:
    if len(coef) == 1:
        return np.asarray(X @ coef[0].astype(X.dtype) + intercept.astype(X.dtype)[0])
    scores = np.empty(X.shape[0], X.dtype)
    for code in range(len(coef)):
        rows = np.flatnonzero(codes == code)
        added = coef[0] + coef[code] if code else coef[0]
        shift = intercept[0] + intercept[code] if code else intercept[0]
        scores[rows] = X[rows] @ added.astype(X.dtype) + shift.astype(X.dtype)
    return scores


def real_type(rows: PartitionedRows) -> np.dtype:
    """Return the type in which rows are multiplied: float32 if they are that."""
    return np.dtype(np.float32 if rows.dtype == np.float32 else np.float64)


def output_of_part(
    X: Any,
    output: Output,
    dtype: np.dtype,
    known: NDArray[np.int64] | None,
    coef: NDArray[np.float64],
    intercept: NDArray[np.float64],
    codes: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Return what `output` makes of the scores of one part.

    Of its groups, given by codes, `known` are the indices among those trained on.
    """
    X = check_array(X, accept_sparse="csr", dtype=dtype, input_name="X")
    if known is not None:
        codes = known[codes]
    return output(group_scores(X, codes, coef, intercept))


def decide(scores: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """Class of each score; zero is the first."""
    return classes[(scores > 0).astype(np.intp)]


def probabilities(scores: NDArray[Any]) -> NDArray[Any]:
    """Probabilities of both classes."""
    return np.column_stack([expit(-scores), expit(scores)])
