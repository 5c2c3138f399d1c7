"""What linear classifiers of groups share: input and scores."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit

from scalefair.linear_model._base import BaseGroupClassifier


class _FixedWeights(BaseGroupClassifier):
    """Keeps the rows it is given, and given weights."""

    def __init__(self, loss="logistic", interactions=True, alpha=0.0, weights=None):
        self.max_groups, self.min_group_size = 100, 2
        self.loss = loss
        self.interactions = interactions
        self.alpha = alpha
        self.weights = weights

    def fit(self, X, y, *, sensitive_features):
        self.rows = self._check_training(X, y, sensitive_features)
        weights = self.weights
        if weights is None:
            n_rows = len(self.rows.groups) if self.interactions else 1
            weights = np.ones((n_rows, X.shape[1] + 1))
        self._store_weights(weights)
        return self


def _rows(m=40, d=3, n_groups=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, d))
    groups = np.arange(m) % n_groups
    return X, (np.arange(m) // n_groups) % 2, groups


def _fitted(n_groups=3, **kwargs):
    X, y, groups = _rows(n_groups=n_groups)
    n_rows = n_groups if kwargs.get("interactions", True) else 1
    weights = np.random.default_rng(1).standard_normal((n_rows, 4))
    model = _FixedWeights(weights=weights, **kwargs)
    return model.fit(X, y, sensitive_features=groups), X, y, groups


def test_rows_as_they_are_stored():
    X, y, groups = _rows()

    def kept(rows):
        return _FixedWeights().fit(rows, y, sensitive_features=groups).rows.X

    assert np.shares_memory(kept(X), X)
    for rows in (np.asfortranarray(X), X[:, ::-1][:, ::-1]):
        assert kept(rows).flags.c_contiguous
    assert kept(X.astype(np.float32)).dtype == np.float32
    assert kept((10 * X).astype(int)).dtype == np.float64
    # Sparse rows become canonical, and the input is left alone.
    twice = sparse.csr_array(X)
    twice = sparse.csr_array(
        (np.repeat(twice.data, 2), np.repeat(twice.indices, 2), 2 * twice.indptr)
    )
    assert kept(twice).has_canonical_format
    assert twice.nnz == 2 * X.size
    np.testing.assert_array_equal(kept(twice).toarray(), 2 * X)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, sparse.csc_matrix])
def test_scores_are_those_of_each_rows_group(container, dtype):
    model, X, _, groups = _fitted()
    W = model.weights
    B = np.array([W[0] + (W[k] if k else 0) for k in range(3)])[groups]
    expected = (X * B[:, :-1]).sum(axis=1) + B[:, -1]
    rows = container(X.astype(dtype))
    scores = model.decision_function(rows, sensitive_features=groups)
    assert scores.dtype == dtype
    close = {"atol": 50 * np.finfo(dtype).eps}
    np.testing.assert_allclose(scores, expected, **close)
    selected = np.flatnonzero(groups > 0)[::-1]  # fewer groups, in another order
    scores = model.decision_function(
        container(X[selected].astype(dtype)), sensitive_features=groups[selected]
    )
    np.testing.assert_allclose(scores, expected[selected], **close)


def test_groups_are_needed_with_interactions_and_ignored_without():
    model, X, _, _ = _fitted(interactions=False)
    scores = model.decision_function(X)
    np.testing.assert_allclose(scores, X @ model.weights[0, :3] + model.weights[0, 3])
    unseen = model.decision_function(X, sensitive_features=["?"] * 40)
    np.testing.assert_array_equal(scores, unseen)
    model, X, _, _ = _fitted()
    for method in (model.decision_function, model.predict, model.predict_proba):
        with pytest.raises(ValueError, match="interactions=False"):
            method(X)


@pytest.mark.parametrize("unseen", [7, "b", 0.5, (1, 2)])
def test_unseen_groups_are_named(unseen):
    model, X, _, groups = _fitted()
    given = groups.astype(object)
    given[5] = unseen
    if not isinstance(unseen, int | float):
        given[:] = [unseen] * 40
    with pytest.raises(ValueError, match=r"It saw 0, 1, 2") as error:
        model.predict(X, sensitive_features=given)
    assert repr(unseen) in str(error.value)


def test_probabilities_are_those_of_logistic_loss():
    model, X, _, groups = _fitted()
    probability = model.predict_proba(X, sensitive_features=groups)
    scores = model.decision_function(X, sensitive_features=groups)
    np.testing.assert_allclose(probability, expit(scores[:, None] * [-1, 1]))
    model, _, _, _ = _fitted(loss="hinge")
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError) as error:
        model.predict_proba  # noqa: B018
    assert "loss='hinge'" in str(error.value.__cause__)


def test_score():
    model, X, y, groups = _fitted()
    is_correct = model.predict(X, sensitive_features=groups) == y
    assert model.score(X, y, sensitive_features=groups) == is_correct.mean()
    weight = np.arange(40.0)
    weighted = model.score(X, y, weight, sensitive_features=groups)
    assert weighted == pytest.approx(is_correct @ weight / weight.sum())


def test_a_score_of_zero_is_the_first_class():
    X, y, groups = _rows()
    model = _FixedWeights(weights=np.zeros((3, 4))).fit(X, y, sensitive_features=groups)
    assert not model.predict(X, sensitive_features=groups).any()
