"""Base of the regressors that move another's scores by a map for each group."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods, Options, StrOptions
from sklearn.utils.validation import (
    _num_samples,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from scalefair._decorators import GroupRequests, checked_call, fit_context
from scalefair._docs import documented
from scalefair._entries import check_array, check_random_state
from scalefair._groups import encode_groups, known_codes
from scalefair.kernels import long_blas_call
from scalefair.postprocessing._hosts import fitted_estimator, is_fitted
from scalefair.postprocessing._passes import training_rows
from scalefair.streaming import is_partitioned

Array = NDArray[np.float64]
Codes = NDArray[np.int64]  # of rows, the indices of their groups

# Documentation of the parameters and attributes that all of them have.
TEXTS = {
    "transport_parameters": """\
prefit : bool or "auto", default="auto"
    ``"auto"`` uses a fitted estimator as it is and fits a clone of another;
    True uses it as it is, False fits a clone. In cross-validation a fitted one
    stays so as a :class:`sklearn.frozen.FrozenEstimator`.
group_predictor : classifier, None or False, default=None
    Predicts the groups from `X` when they are withheld from `predict`; fitted
    to the rows of `fit` unless it is fitted already. None stands for logistic
    regression on scaled features. With False none is fitted, and `predict`
    always needs the groups.
fit_on : {"scores", "targets"}, default="scores"
    What the distributions are estimated from; ``"targets"``, the true `y`, is there
    because published tables were made in that way.""",
    "transport_attributes": """\
estimator_ : regressor
    The fitted estimator whose scores are moved.
group_predictor_ : classifier or None
    The fitted classifier of groups.
groups_ : ndarray of shape (n_groups,)
    The groups, sorted.
group_shares_ : ndarray of shape (n_groups,)
    Share of the rows of `fit` in each group.""",
    "moved_rows": """\
X : {array-like, sparse matrix} of shape (m, n_features)
    Rows of features, handed to `estimator` as they are.""",
}


@documented(**TEXTS)
class BaseGroupTransportRegressor(GroupRequests, RegressorMixin, BaseEstimator):
    """Regressor that moves the scores of another, by a map for each group.

    A subclass implements `_fit_maps`, from scores and groups, and `_moved`.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods("predict")],
        "prefit": ["boolean", StrOptions({"auto"})],
        "group_predictor": [HasMethods("predict"), Options(bool, {False}), None],
        "fit_on": [StrOptions({"scores", "targets"})],
        "random_state": ["random_state"],
    }

    estimator: Any
    prefit: bool | str
    group_predictor: Any
    fit_on: str
    random_state: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if isinstance(self.estimator, BaseEstimator):
            inner = get_tags(self.estimator).input_tags
            tags.input_tags.sparse = inner.sparse
            tags.input_tags.allow_nan = inner.allow_nan
            tags.input_tags.pairwise = inner.pairwise
        tags.target_tags.required = (
            self.fit_on == "targets"
            or self.prefit is False
            or not is_fitted(self.estimator)
        )
        return tags

    @abstractmethod
    def _fit_maps(self, values: Array, codes: Codes, random_state: RandomState) -> None:
        """Fit the map of each group to the values of its rows."""

    @abstractmethod
    def _moved(self, scores: Array, codes: Codes, random_state: RandomState) -> Array:
        """Return the scores, moved by the maps of their groups."""

    # The estimators inside are checked by their own fits.
    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self, X: Any, y: ArrayLike | None = None, *, sensitive_features: ArrayLike
    ) -> Self:
        """Fit the maps to the scores of the rows.

        Parameters
        ----------
        %(moved_rows)s
        y : array-like of shape (m,), default=None
            Targets. Only needed by an estimator that has to be fitted, and with
            ``fit_on="targets"``.
        sensitive_features : array-like of shape (m,) or (m, k)
            Group of each row: numbers, strings or booleans, none missing, at least
            two different ones. Of k columns each combination that occurs is a group.

        Returns
        -------
        object
            The fitted estimator.

        Raises
        ------
        ValueError
            If there are fewer than two groups, targets are needed and not given,
            or `estimator` does not predict one finite number a row, or the values
            to fit on are above 1e150.
        NotFittedError
            If ``prefit=True`` and `estimator` is not fitted.
        """
        self._refuse_parts(X)
        X, membership = training_rows(self, X, sensitive_features)
        _, self.groups_, codes = membership.compared[0]
        if y is not None:
            y = column_or_1d(y, warn=True)
            check_consistent_length(X, y)
        self.estimator_ = fitted_estimator(self.estimator, X, y, self.prefit)
        if self.fit_on == "targets":
            if y is None:
                raise ValueError(
                    'fit_on="targets" requires y to be passed, but the target y is '
                    "None."
                )
            values = np.asarray(
                check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
            )
        else:
            values = _predicted_scores(self.estimator_, X)
        if np.abs(values).max() > 1e150:  # sums of 10^8 squares stay below 1e308
            raise ValueError(
                f"The {self.fit_on} have numbers above 1e+150, whose squares overflow: "
                "scale the targets."
            )
        self.group_predictor_ = None
        if self.group_predictor is not False:
            self.group_predictor_ = fit_group_predictor(
                self.group_predictor, X, self.groups_[codes]
            )
        self.group_shares_ = np.bincount(codes) / len(codes)
        self._fit_maps(values, codes, check_random_state(self.random_state))
        return self

    @checked_call
    def predict(self, X: Any, *, sensitive_features: ArrayLike | None = None) -> Array:
        """Return the moved scores.

        Parameters
        ----------
        %(moved_rows)s
        sensitive_features : array-like of shape (m,) or (m, k), default=None
            Group of each row. If None, the groups are predicted from `X` by
            `group_predictor_`; the groups' outputs then agree only as far as the
            predictions are right.

        Returns
        -------
        ndarray of shape (m,)
            Outputs, in the units of the scores, float64.

        Raises
        ------
        ValueError
            If a group was not seen by `fit`, or the groups are withheld and there
            is no classifier to predict them.
        """
        check_is_fitted(self)
        self._refuse_parts(X)
        scores = _predicted_scores(self.estimator_, X)
        X = validate_data(self, X, skip_check_array=True, reset=False)
        subject = "sensitive_features has"  # of the message about unseen groups
        if sensitive_features is None:
            subject = "group_predictor_ predicts"
            if self.group_predictor_ is None:
                raise ValueError(
                    "This estimator was fitted with group_predictor=False: pass "
                    "sensitive_features, the group of each row, or fit with a "
                    "classifier that predicts it."
                )
            sensitive_features = self.group_predictor_.predict(X)
        groups, codes = encode_groups(sensitive_features, len(scores), warn=False)
        codes = known_codes(groups, self.groups_, subject=subject)[codes]
        return self._moved(scores, codes, check_random_state(self.random_state))

    @checked_call
    def score(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike | None = None,
    ) -> float:
        """Return the coefficient of determination, R squared.

        Parameters
        ----------
        %(moved_rows)s
        y : array-like of shape (m,)
            True targets.
        sample_weight : array-like of shape (m,), default=None
            Weight of each row.
        sensitive_features : array-like of shape (m,) or (m, k), default=None
            As in `predict`.

        Returns
        -------
        float
            At most 1, which is a perfect prediction.
        """
        predicted = self.predict(X, sensitive_features=sensitive_features)
        return float(r2_score(y, predicted, sample_weight=sample_weight))

    def _refuse_parts(self, X: Any) -> None:
        """Raise a ValueError for rows in parts."""
        if is_partitioned(X):
            raise ValueError(
                f"{type(self).__name__} sorts the scores of all rows and takes rows in "
                "memory only, not a Dask collection or a file: compute X first, or use "
                "ExplainableSVDRegressor, which works from moments."
            )


def _predicted_scores(estimator: Any, X: Any) -> Array:
    """Return the predictions, which must be one finite number for each row."""
    scores = np.asarray(estimator.predict(X))
    n_samples = _num_samples(X)
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    if scores.shape != (n_samples,) or scores.dtype.kind not in "biuf":
        raise ValueError(
            f"{type(estimator).__name__}.predict must return one number a row, got "
            f"an array of shape {scores.shape} and type {scores.dtype} for "
            f"{n_samples} rows."
        )
    scores = scores.astype(np.float64)
    if not np.isfinite(scores).all():
        bad = np.flatnonzero(~np.isfinite(scores))
        raise ValueError(
            f"{type(estimator).__name__}.predict returned NaN or infinity for "
            f"{bad.size} row(s), the first at position {bad[0]}."
        )
    return scores


def fit_group_predictor(predictor: Any, X: Any, labels: NDArray[Any]) -> Any:
    """Return a fitted classifier of groups: the predictor itself or a fitted clone."""
    if predictor is not None:
        if is_fitted(predictor):
            return predictor
        with long_blas_call():  # the predictor's own fit may use all threads of BLAS
            return clone(predictor).fit(X, labels)
    # Sparse rows are not centred, which would make them dense. L-BFGS takes tens of
    # steps on scaled features: 1000 is no limit in practice.
    scaler = StandardScaler(with_mean=not sparse.issparse(X))
    try:
        return make_pipeline(scaler, LogisticRegression(max_iter=1000)).fit(X, labels)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Logistic regression of the groups on X failed ({error}). Pass a "
            "group_predictor that reads such rows, or group_predictor=False if "
            "predict will be given sensitive_features."
        ) from error
