"""Moments of what enters a layer, batch by batch."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

from scalefair._membership import Membership
from scalefair.postprocessing import _passes
from scalefair.postprocessing._hosts import MLPHost
from scalefair.postprocessing._passes import ModelRows
from scalefair.streaming import GroupMoments

RNG = np.random.default_rng(0)
N = 90
X = RNG.standard_normal((N, 5)) + 2.0
Y = np.stack([X[:, 0] * X[:, 1], X[:, 2]], axis=1)
# The last group has one row, the second only rows at the end.
CODES = np.sort(RNG.integers(2, size=N))
CODES[40] = 2
GROUPS = np.array(["a", "b", "c"])


def mlp(targets=Y[:, 0], **options):
    options = {"hidden_layer_sizes": (6, 4), "max_iter": 5, "random_state": 0} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MLPRegressor(**options).fit(X, targets)


def rows_for(host, rows=X):
    return ModelRows.build(host, rows, Membership.of(GROUPS[CODES], None, N), 16)


class CountingHost(MLPHost):
    """How many rows went through how many layers."""

    n_rows = 0

    def forward_from(self, A, layer, later):
        self.n_rows += A.shape[0] * (later - layer)
        return super().forward_from(A, layer, later)


def test_moments_of_every_layer_are_those_of_its_narrower_side(monkeypatch):
    widths, original = set(), GroupMoments._by_attribute.__func__

    def count_widths(cls, X, *arguments):
        widths.add(X.shape[1])
        return original(cls, X, *arguments)

    monkeypatch.setattr(GroupMoments, "_by_attribute", classmethod(count_widths))
    host = CountingHost(mlp(hidden_layer_sizes=(50, 4)))
    layers = rows_for(host).unfairness_by_layer()
    assert widths == {5, 4, 1}  # not 50
    assert host.n_rows == 2 * N  # one pass, not 1 + 2
    assert [layer.name for layer in layers] == [f"coefs_[{i}]" for i in range(3)]
    for layer, unfairness in enumerate(layers):
        Z = host.inputs(X, layer) @ host.weight(layer).T
        means = np.array([Z[g == CODES].mean(axis=0) for g in range(3)])
        gaps = means[[1, 2, 2]] - means[[0, 0, 1]]
        assert unfairness.mean_gap == pytest.approx(np.linalg.norm(gaps))
    monkeypatch.setattr(_passes, "MAX_COMPARED_WIDTH", 3)
    layers = rows_for(host).unfairness_by_layer()
    assert [layer is None for layer in layers] == [True, True, False]


def test_samples_have_rows_of_each_group():
    rows = rows_for(MLPHost(mlp()))

    def drawn(n_rows, seed):
        sample = rows.sample(n_rows, np.random.RandomState(seed))
        indices = [np.flatnonzero((row == X).all(axis=1))[0] for row in sample.X.X]
        np.testing.assert_array_equal(sample.membership.codes, CODES[indices])
        return indices  # in order, none twice

    indices = drawn(30, 0)
    assert np.bincount(CODES[indices]).tolist() == [10, 10, 1]
    assert indices == drawn(30, 0) == sorted(set(indices)) != drawn(30, 1)
    assert drawn(10**6, 0) == list(range(N))
    assert np.bincount(CODES[drawn(3, 0)]).tolist() == [2, 2, 1]  # a spread needs two


def test_activations_that_overflow_name_the_layer_and_the_rows():
    model = mlp(activation="identity")
    model.coefs_[0] = np.zeros_like(model.coefs_[0])
    model.coefs_[0][1, 0] = 1e308
    rows = X.copy()
    rows[:, 1] = 0.0
    rows[37, 1] = 100.0
    model_rows = rows_for(MLPHost(model), rows)
    message = r"layer 'coefs_\[\d\]', over rows 32 to 47 .*NaN or infinite.*row 5"
    with np.errstate(over="ignore"):
        for compute in (lambda: model_rows.moments(1), model_rows.unfairness_by_layer):
            with pytest.raises(ValueError, match=message):
                compute()
