"""The comparators under scikit-learn's checks."""

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import _num_samples

from scalefair.postprocessing import (
    DiscretizedTransportRegressor,
    WassersteinBarycenterRegressor,
)


def _alternating(X):
    return np.arange(_num_samples(X)) % 2


class _Wasserstein(WassersteinBarycenterRegressor):
    """The checks do not know sensitive_features: alternate two groups."""

    def fit(self, X, y=None, *, sensitive_features=None):
        if sensitive_features is None:
            sensitive_features = _alternating(X)
        return super().fit(X, y, sensitive_features=sensitive_features)


class _Discretized(DiscretizedTransportRegressor):
    def fit(self, X, y=None, *, sensitive_features=None):
        if sensitive_features is None:
            sensitive_features = _alternating(X)
        return super().fit(X, y, sensitive_features=sensitive_features)


@parametrize_with_checks(
    [
        _Wasserstein(LinearRegression()),
        _Wasserstein(LinearRegression(), jitter=0, group_predictor=DummyClassifier()),
        _Discretized(LinearRegression(), n_bins=5, group_predictor=DummyClassifier()),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
