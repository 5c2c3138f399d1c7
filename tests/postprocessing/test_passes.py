"""Moments of what enters a layer, batch by batch."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from scalefair.postprocessing import _passes
from scalefair.postprocessing._hosts import MLPHost, find_host
from scalefair.postprocessing._passes import ModelRows
from scalefair.postprocessing._training_rows import GroupedRows
from scalefair.streaming import GroupMoments

RNG = np.random.default_rng(0)
N = 90
X = RNG.standard_normal((N, 5)) + 2.0
Y = np.stack([X[:, 0] * X[:, 1], X[:, 2]], axis=1)
y = Y[:, 0]
# The last group has one row, the second only rows at the end.
CODES = np.sort(RNG.integers(2, size=N))
CODES[40] = 2
GROUPS = np.array(["a", "b", "c"])


def mlp(targets=y, rows=X, **options):
    options = {"hidden_layer_sizes": (6, 4), "max_iter": 5, "random_state": 0} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MLPRegressor(**options).fit(rows, targets)


def scaled():
    """A pipeline that scales the rows for a network."""
    scaler = StandardScaler().fit(X)
    return Pipeline([("scale", scaler), ("network", mlp(rows=scaler.transform(X)))])


def rows_for(host, rows=X, codes=CODES, batch_size=16):
    return ModelRows.build(host, GroupedRows(rows, codes, GROUPS, N), batch_size)


def assert_moments(moments, rows, codes=CODES, rtol=1e-10):
    """Moments are those of the rows, from the definition."""
    present = np.unique(codes)
    np.testing.assert_array_equal(moments.groups, GROUPS[present])
    for i, code in enumerate(present):
        part = np.asarray(rows, dtype=float)[codes == code]
        offset = part - part.mean(axis=0)
        assert moments.counts[i] == len(part)
        np.testing.assert_allclose(moments.means[i], part.mean(axis=0), rtol=rtol)
        scatter = offset.T @ offset
        np.testing.assert_allclose(
            moments.scatters[i], scatter, rtol=rtol, atol=rtol * np.abs(scatter).max()
        )


class CountingHost(MLPHost):
    """How many rows went through how many layers."""

    n_rows = 0

    def _forward(self, A, layer, later):
        self.n_rows += A.shape[0] * (later - layer)
        return super()._forward(A, layer, later)


class Recomputing(CountingHost):
    """A host that cannot go on from the inputs of a layer."""

    can_resume = False

    def forward_from(self, A, layer, later):
        raise AssertionError("from the raw rows")


@pytest.mark.parametrize("batch_size", [1, 7, N, None])
@pytest.mark.parametrize("keep", [0, 10**6])
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_layer_moments_are_those_of_all_rows(layer, keep, batch_size, monkeypatch):
    monkeypatch.setattr(_passes, "MAX_CACHED_BYTES", keep)
    host = find_host(scaled())
    moments, kept = rows_for(host, batch_size=batch_size).layer_moments(layer)
    A = host.inputs(X, layer)
    assert_moments(moments, A)
    assert (kept is None) == (keep == 0)
    if keep:
        np.testing.assert_allclose(kept, A, rtol=1e-13)


@pytest.mark.parametrize("targets", [y, Y], ids=["one", "two"])
@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize("kind", [CountingHost, Recomputing])
def test_last_layer_and_targets(kind, is_kept, targets):
    host = kind(mlp(targets))
    _, kept = rows_for(host).layer_moments(1)
    assert host.n_rows == N
    changed = kind(host.replaced({1: (host.weight(1) / 2, None)}).estimator)
    joint = rows_for(changed).last_layer_moments(targets, 1, kept if is_kept else None)
    assert changed.n_rows == (1 if is_kept and changed.can_resume else 2) * N
    assert_moments(joint, np.column_stack([changed.inputs(X, 2), targets]))


def test_moments_of_every_layer_are_those_of_its_narrower_side(monkeypatch):
    widths, original = set(), GroupMoments._compared.__func__

    def count_widths(cls, X, *arguments):
        widths.add(X.shape[1])
        return original(cls, X, *arguments)

    monkeypatch.setattr(GroupMoments, "_compared", classmethod(count_widths))
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


def test_layers_without_rows_of_samples_are_left_out():
    class Odd(MLPHost):
        def inputs_by_layer(self, X_batch):
            yield from [*super().inputs_by_layer(X_batch)][:2]
            yield None

    layers = rows_for(Odd(mlp())).unfairness_by_layer()
    assert [layer is None for layer in layers] == [False, False, True]


def test_samples_have_rows_of_each_group():
    codes = np.repeat([0, 1, 2], [60, 29, 1])
    RNG.shuffle(codes)
    rows = rows_for(find_host(mlp()), codes=codes)

    def drawn(n_rows, seed):
        sample = rows.sample(n_rows, np.random.RandomState(seed))
        (chosen,), (sampled,) = sample.X.parts.gather(), sample.codes.gather()
        indices = np.array(
            [np.flatnonzero((row == X).all(axis=1))[0] for row in chosen]
        )
        np.testing.assert_array_equal(sampled, codes[indices])
        assert (np.diff(indices) > 0).all()  # in order, none twice
        return indices

    indices = drawn(30, 0)
    assert np.bincount(codes[indices]).tolist() == [10, 10, 1]
    np.testing.assert_array_equal(indices, drawn(30, 0))
    assert indices.tolist() != drawn(30, 1).tolist()
    np.testing.assert_array_equal(drawn(10**6, 0), np.arange(N))
    assert np.bincount(codes[drawn(3, 0)]).tolist() == [2, 2, 1]  # a spread needs two


def test_activations_that_overflow_name_the_layer_and_the_rows(monkeypatch):
    model = mlp(activation="identity")
    model.coefs_[0] = np.zeros_like(model.coefs_[0])
    model.coefs_[0][1, 0] = 1e308
    rows = X.copy()
    rows[:, 1] = 0.0
    rows[37, 1] = 100.0
    monkeypatch.setattr(_passes, "MAX_CACHED_BYTES", 0)
    model_rows = rows_for(find_host(model), rows)
    with np.errstate(over="ignore"):
        for compute in (
            lambda: model_rows.layer_moments(1),
            model_rows.unfairness_by_layer,
        ):
            message = (
                r"layer 'coefs_\[\d\]', over rows 32 to 47 .*NaN or infinite.*row 5"
            )
            with pytest.raises(ValueError, match=message):
                compute()
