"""The classifiers under scikit-learn's checks."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import _num_samples

from scalefair.linear_model import (
    PairwiseFairClassifier,
    PartiallyFairClassifier,
    PartiallyFairClassifierCV,
    PenalizedPartialParityClassifier,
)

pytestmark = [
    # Most groups here have few rows: what is tested does not depend on their number.
    pytest.mark.filterwarnings("ignore:Gaps of groups of fewer than"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


class _Alternating:
    """The checks do not know sensitive_features: two groups by turns in each class."""

    def fit(self, X, y, *, sensitive_features=None):
        if sensitive_features is None:
            sensitive_features = np.arange(_num_samples(X)) % 2
            if isinstance(self, PartiallyFairClassifierCV) and y is not None:
                labels = np.asarray(y).ravel()  # folds need rows of both groups
                for label in np.unique(labels):
                    own = np.flatnonzero(labels == label)
                    sensitive_features[own] = np.arange(own.size) % 2 == 0
        return super().fit(X, y, sensitive_features=sensitive_features)


class _PartiallyFair(_Alternating, PartiallyFairClassifier):
    pass


class _Chosen(_Alternating, PartiallyFairClassifierCV):
    pass


class _Pairwise(_Alternating, PairwiseFairClassifier):
    pass


class _Penalized(_Alternating, PenalizedPartialParityClassifier):
    pass


def _expected_to_fail(estimator):
    if isinstance(estimator, PartiallyFairClassifierCV):
        reason = "it has fewer rows of a class than there are folds"
        return {"check_fit2d_1feature": reason}
    return {}


# At prediction the checks give no groups either: no interactions.
BLIND = {"interactions": False}


@parametrize_with_checks(
    [
        _PartiallyFair(kappa=0.9, n_thresholds=2, **BLIND),
        _PartiallyFair(criterion="weak", kappa=0.9, **BLIND),
        _Chosen(
            [0.9],
            0.0,
            estimator=PartiallyFairClassifier(criterion="weak", **BLIND),
            cv=2,
        ),
        _Pairwise(kappa=1.0, alpha=1e-3, **BLIND),
        _Pairwise(kappa=1.0, loss="squared", alpha=1e-3, **BLIND),
        _Penalized((0.05, 0.5), 0.01, learning_rate=0.02, max_iter=200, **BLIND),
    ],
    expected_failed_checks=_expected_to_fail,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
