"""The classifiers under scikit-learn's checks."""

import numpy as np
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import _num_samples

from scalefair.linear_model import PartiallyFairClassifier


class _PartiallyFair(PartiallyFairClassifier):
    """The checks do not know sensitive_features: alternate two groups."""

    def fit(self, X, y, *, sensitive_features=None):
        if sensitive_features is None:
            sensitive_features = np.arange(_num_samples(X)) % 2
        return super().fit(X, y, sensitive_features=sensitive_features)


@parametrize_with_checks(
    [
        _PartiallyFair(interactions=False, kappa=0.9, n_thresholds=2),
        _PartiallyFair(interactions=False, criterion="weak", kappa=0.9),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
