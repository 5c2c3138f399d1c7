"""The estimators of scalefair.decomposition as scikit-learn estimators."""

import numpy as np
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import _num_samples

from scalefair.decomposition import FairPCA, GroupPCA


def _alternating(X):
    return np.arange(_num_samples(X)) % 2


class _FairPCA(FairPCA):
    """The checks do not know sensitive_features: alternate two groups."""

    def fit(self, X, y=None, *, sensitive_features=None):
        if sensitive_features is None:
            sensitive_features = _alternating(X)
        return super().fit(X, y, sensitive_features=sensitive_features)

    def partial_fit(self, X, y=None, *, sensitive_features=None):
        if sensitive_features is None:
            sensitive_features = _alternating(X)
        return super().partial_fit(X, y, sensitive_features=sensitive_features)


class _GroupPCA(GroupPCA):
    def fit(self, X, y=None, *, sensitive_features=None):
        if sensitive_features is None:
            sensitive_features = _alternating(X)
        return super().fit(X, y, sensitive_features=sensitive_features)


_NO_MOMENTS = "partial_fit refuses to go on from a fit that kept no moments"


def _expected_failures(estimator):
    if getattr(estimator, "solver", None) == "matrix_free":
        return {"check_fit_score_takes_y": _NO_MOMENTS}
    return {}


@parametrize_with_checks(
    [
        _FairPCA(1),
        _FairPCA(1, solver="matrix_free"),
        _FairPCA(1, centering="group"),
        _GroupPCA(1),
    ],
    expected_failed_checks=_expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
