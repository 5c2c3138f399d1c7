"""What linear classifiers of rows that belong to groups have in common."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils._param_validation import Interval
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from scalefair._groups import check_values, encode_groups, encode_values

__all__ = ["BaseGroupClassifier", "TrainingRows", "group_scores"]


@dataclass(frozen=True)
class TrainingRows:
    """Rows to learn from, checked and encoded.

    Attributes
    ----------
    X : {ndarray, csr_array} of shape (m, d)
        Features: C-contiguous or canonical CSR, float64 or float32.
    signs : ndarray of shape (m,)
        Label of each row, -1.0 or +1.0.
    codes : ndarray of shape (m,), int64
        Group of each row, an index into `groups`.
    classes : ndarray of shape (2,)
        The labels, sorted; the second has the sign +1.
    groups : ndarray of shape (G,)
        The groups, sorted.
    """

    X: Any
    signs: NDArray[np.float64]
    codes: NDArray[np.int64]
    classes: NDArray[Any]
    groups: NDArray[Any]


def _gives_probabilities(estimator: Any) -> bool:
    if estimator.loss == "logistic":
        return True
    raise AttributeError(
        f"predict_proba needs loss='logistic': the scores of loss={estimator.loss!r} "
        "are not log-odds. Use decision_function."
    )


class BaseGroupClassifier(ClassifierMixin, BaseEstimator):
    """Linear classifier of two classes whose weights may differ among groups.

    A subclass has the parameters `loss`, `interactions` and `alpha`. Its `fit` calls
    `_check_training`, and `_store_weights` in the end.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "interactions": ["boolean"],
        "alpha": [Interval(Real, 0, None, closed="left")],
    }

    # Whether rows of a single group are something to learn from.
    _single_group_allowed: ClassVar[bool] = False

    loss: str
    interactions: bool
    alpha: float

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
        X : {array-like, sparse matrix} of shape (m, d)
            Rows of features.
        sensitive_features : array-like of shape (m,), default=None
            Group of each row. Needed by a model with interactions, ignored by one
            without.

        Returns
        -------
        ndarray of shape (m,)
            Scores, in float32 if `X` is, otherwise in float64. Positive scores
            belong to ``classes_[1]``.

        Raises
        ------
        ValueError
            If the model needs groups and there are none, or one it was not
            trained on.
        """
        check_is_fitted(self)
        X = self._check_rows(X, reset=False)
        codes = None
        if len(self.coef_) > 1:
            codes = self._known_codes(sensitive_features, X.shape[0])
        return group_scores(X, codes, self.coef_, self.intercept_)

    def predict(
        self, X: Any, *, sensitive_features: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Return the class of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (m, d)
            Rows of features.
        sensitive_features : array-like of shape (m,), default=None
            As in `decision_function`.

        Returns
        -------
        ndarray of shape (m,)
            Entries of `classes_`.
        """
        scores = self.decision_function(X, sensitive_features=sensitive_features)
        return self.classes_[(scores > 0).astype(np.intp)]

    @available_if(_gives_probabilities)
    def predict_proba(
        self, X: Any, *, sensitive_features: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Return the probability of each class; only with the logistic loss.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (m, d)
            Rows of features.
        sensitive_features : array-like of shape (m,), default=None
            As in `decision_function`.

        Returns
        -------
        ndarray of shape (m, 2)
            Probabilities, in the order of `classes_`.
        """
        scores = self.decision_function(X, sensitive_features=sensitive_features)
        return np.column_stack([expit(-scores), expit(scores)])

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
        X : {array-like, sparse matrix} of shape (m, d)
            Rows of features.
        y : array-like of shape (m,)
            True labels.
        sample_weight : array-like of shape (m,), default=None
            Weight of each row.
        sensitive_features : array-like of shape (m,), default=None
            As in `decision_function`.

        Returns
        -------
        float
            Share of the rows (or of their weight) that are classified correctly.
        """
        predicted = self.predict(X, sensitive_features=sensitive_features)
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))

    def _check_training(
        self, X: Any, y: ArrayLike, sensitive_features: ArrayLike
    ) -> TrainingRows:
        """Check and encode rows; sets `classes_`, `groups_`, `n_features_in_`."""
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
        )
        classes, signs = _encode_labels(y)
        groups, codes = encode_groups(sensitive_features, X.shape[0])
        if len(groups) < 2 and not self._single_group_allowed:
            raise ValueError(
                f"sensitive_features has only one group ({groups.tolist()[0]!r}): "
                "fairness compares groups. For one group use "
                "sklearn.linear_model.LogisticRegression."
            )
        self.classes_ = classes
        self.groups_ = groups
        return TrainingRows(_canonical(X), signs, codes, classes, groups)

    def _store_weights(self, rows: NDArray[np.float64]) -> None:
        """Store weights as attributes.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, d + 1)
            Coefficients, then the intercept; one row, or one per group: the first
            shared by all groups, the others what each further group adds.
        """
        self.coef_ = np.array(rows[:, :-1], dtype=np.float64, order="C")
        self.intercept_ = np.array(rows[:, -1], dtype=np.float64)

    def _check_rows(self, X: Any, *, reset: bool) -> Any:
        return validate_data(
            self,
            X,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            reset=reset,
        )

    def _known_codes(
        self, sensitive_features: ArrayLike | None, n_samples: int
    ) -> NDArray[np.int64]:
        """Return the groups as indices into `groups_`."""
        if sensitive_features is None:
            raise ValueError(
                f"This {type(self).__name__} has weights of its own for each group: "
                "pass sensitive_features, the group of each row. A model that does "
                "not need them is trained with interactions=False."
            )
        groups, codes = encode_groups(sensitive_features, n_samples)
        known = {group: code for code, group in enumerate(self.groups_.tolist())}
        unseen = [group for group in groups.tolist() if group not in known]
        if unseen:
            raise ValueError(
                f"sensitive_features has {len(unseen)} group(s) without weights: "
                f"{_listed(unseen)}. The model was trained on {_listed(list(known))}."
            )
        return np.array([known[group] for group in groups.tolist()], np.int64)[codes]


def group_scores(
    X: Any,
    codes: NDArray[np.int64] | None,
    coef: NDArray[np.float64],
    intercept: NDArray[np.float64],
) -> NDArray[Any]:
    """Return ``X @ coef + intercept`` with the weights of each row's group.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (m, d)
        Rows of features. Products are taken in their type.
    codes : ndarray of shape (m,), int64, or None
        Group of each row; only read if there are several rows of weights.
    coef : ndarray of shape (n_rows, d)
        Coefficients: the first row shared, the others added to it.
    intercept : ndarray of shape (n_rows,)
        Intercepts, likewise.

    Returns
    -------
    ndarray of shape (m,)
        Scores, of the type of `X`.
    """
    if len(coef) == 1:
        return np.asarray(X @ coef[0].astype(X.dtype) + X.dtype.type(intercept[0]))
    scores = np.empty(X.shape[0], X.dtype)
    for code in range(len(coef)):
        rows = np.flatnonzero(codes == code)
        added = coef[0] + coef[code] if code else coef[0]
        shift = intercept[0] + intercept[code] if code else intercept[0]
        scores[rows] = X[rows] @ added.astype(X.dtype) + X.dtype.type(shift)
    return scores


def _encode_labels(y: ArrayLike) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return the two classes, sorted, and the sign of each label."""
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y", raise_unknown=True)
    labels = check_values(y, name="y", what="label")
    classes, codes = encode_values(labels, name="y")
    if kind != "binary" or len(classes) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is "
            f"{kind}, with {len(classes)} classes."
        )
    if len(classes) < 2:
        raise ValueError(
            f"y must have two classes, found 1 class ({classes.tolist()[0]!r}): there "
            "is nothing to tell apart."
        )
    return classes, np.where(codes == 1, 1.0, -1.0)


def _canonical(X: Any) -> Any:
    """CSR with sorted columns and no duplicates; dense rows as they are."""
    if sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _listed(groups: list[Any], most: int = 10) -> str:
    shown = ", ".join(map(repr, groups[:most]))
    rest = len(groups) - most
    return f"{shown} and {rest} more" if rest > 0 else shown
