"""Rows whose scores overflow: the error is ours; warnings are errors here."""

import numpy as np
import pytest
from scipy import sparse

from scalefair.linear_model import (
    PartiallyFairClassifier,
    PenalizedPartialParityClassifier,
)

rng = np.random.default_rng(0)
X = rng.standard_normal((80, 4))
groups = np.arange(80) % 2
y = X[:, 0] + 0.5 * groups + rng.standard_normal(80) > 0


@pytest.mark.parametrize("interactions", [False, True])
def test_scores(interactions):
    model = PartiallyFairClassifier((0.1, 0.5), interactions=interactions, tol=0.1)
    model.fit(X, y, sensitive_features=groups)
    model.coef_ = 3 * np.ones_like(model.coef_)
    for dtype in (np.float64, np.float32):
        for wrap in (np.asarray, sparse.csr_array):
            bad = X.astype(dtype)
            bad[7] = 0.5 * np.finfo(dtype).max
            for method in (model.decision_function, model.predict, model.predict_proba):
                with pytest.raises(ValueError, match=r"too large for .*position 7"):
                    method(wrap(bad), sensitive_features=groups)


@pytest.mark.parametrize("size", [1e160, 1e200, 1e300])
@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_large_features_are_features(size, everywhere):
    # Weights are those of standardised features: nothing overflows.
    bad = size * np.sign(X) if everywhere else np.r_[np.full((1, 4), size), X[1:]]
    for kind in (PenalizedPartialParityClassifier, PartiallyFairClassifier):
        model = kind((0.1, 0.5), max_iter=5).fit(bad, y, sensitive_features=groups)
        scores = model.decision_function(bad, sensitive_features=groups)
        assert np.isfinite(scores).all()


@pytest.mark.parametrize("size", [8e307, 1.7e308])
def test_features_too_large_to_be_summed(size):
    for kind in (PenalizedPartialParityClassifier, PartiallyFairClassifier):
        with pytest.raises(ValueError, match=r"scale (its|the) features"):
            kind((0.1, 0.5)).fit(size * np.sign(X), y, sensitive_features=groups)
