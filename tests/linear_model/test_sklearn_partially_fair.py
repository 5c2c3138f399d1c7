"""The classifiers under scikit-learn's checks."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import _num_samples

from scalefair.linear_model import PartiallyFairClassifier, PartiallyFairClassifierCV

# Most groups here have few rows: what is tested does not depend on their number.
pytestmark = pytest.mark.filterwarnings("ignore:Gaps of groups of fewer than")


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


class _Chosen(PartiallyFairClassifierCV):
    """Two groups by turns within each class: folds need rows of both."""

    def fit(self, X, y, *, sensitive_features=None):
        if sensitive_features is None:
            sensitive_features = np.zeros(_num_samples(X), int)
            labels = np.asarray([] if y is None else y).ravel()
            for label in np.unique(labels):
                sensitive_features[np.flatnonzero(labels == label)[::2]] = 1
        return super().fit(X, y, sensitive_features=sensitive_features)


@parametrize_with_checks(
    [
        _Chosen(
            [0.9],
            0.0,
            estimator=PartiallyFairClassifier(interactions=False, criterion="weak"),
            cv=2,
        )
    ],
    expected_failed_checks=lambda _: {
        "check_fit2d_1feature": "it has fewer rows of a class than there are folds"
    },
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_checks_of_the_choice(estimator, check):
    check(estimator)
