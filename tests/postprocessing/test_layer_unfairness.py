"""scalefair.postprocessing._layer_unfairness: gaps of every layer."""

import warnings
from itertools import combinations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from sklearn.neural_network import MLPRegressor

from scalefair.postprocessing._hosts import find_host
from scalefair.postprocessing._layer_unfairness import (
    LayerUnfairness,
    layer_unfairness,
)
from scalefair.postprocessing._row_sample import rows_of_each_group

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("batch_size", [None, 1, 17])
@pytest.mark.parametrize("n_groups", [2, 3])
def test_every_layer_against_its_definition(n_groups, batch_size):
    codes = RNG.integers(n_groups, size=120)
    X = RNG.standard_normal((120, 3)) * (1 + codes)[:, None] + codes[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = MLPRegressor(
            hidden_layer_sizes=(6, 4), activation="tanh", max_iter=3, random_state=0
        ).fit(X, X[:, 0])
    found = layer_unfairness(
        find_host(model), X, codes, np.arange(n_groups), batch_size=batch_size
    )
    assert [layer.name for layer in found] == [f"coefs_[{i}]" for i in range(3)]
    A = X
    for layer, weight, bias in zip(found, model.coefs_, model.intercepts_, strict=True):
        Z = A @ weight
        parts = [Z[codes == g] for g in range(n_groups)]
        means = [part.mean(axis=0) for part in parts]
        C = [np.atleast_2d(np.cov(part.T)) for part in parts]
        pairs = list(combinations(range(n_groups), 2))
        mean_gap = np.sqrt(sum(np.sum((means[b] - means[a]) ** 2) for a, b in pairs))
        gap = np.sqrt(sum(np.sum((C[b] - C[a]) ** 2) for a, b in pairs))
        within = sum((len(part) - 1) * c for part, c in zip(parts, C, strict=True))
        within = within / len(Z)
        assert layer.mean_gap == pytest.approx(mean_gap)
        assert layer.covariance_gap == pytest.approx(gap)
        assert layer.relative_mean_gap == pytest.approx(
            mean_gap / np.sqrt(np.trace(within))
        )
        assert layer.relative_covariance_gap == pytest.approx(
            gap / np.linalg.norm(within)
        )
        assert layer.score == pytest.approx(
            np.hypot(layer.relative_mean_gap, layer.relative_covariance_gap)
        )
        A = np.tanh(Z + bias)


def test_relative_gaps_have_no_units():
    X = RNG.standard_normal((50, 2))
    codes = np.arange(50) % 2
    X[codes == 1] += 0.5
    X[codes == 1, 0] *= 2
    model = LinearRegression().fit(X, X[:, 0])
    groups = np.arange(2)
    (first,) = layer_unfairness(find_host(model), X, codes, groups)
    model.coef_ = 1000 * model.coef_
    (second,) = layer_unfairness(find_host(model), X, codes, groups)
    assert second.mean_gap == pytest.approx(1000 * first.mean_gap)
    assert second.covariance_gap == pytest.approx(1e6 * first.covariance_gap)
    assert second.score == pytest.approx(first.score)


def test_outputs_without_a_spread_within_groups():
    codes = np.repeat([0, 1], 8)
    model = LinearRegression().fit(np.eye(2), [0.0, 1.0])
    same = np.tile([1.0, 2.0], (16, 1))
    (found,) = layer_unfairness(find_host(model), same, codes, np.arange(2))
    assert (found.mean_gap, found.score) == (0.0, 0.0)
    # All the difference there is lies between the groups.
    apart = same + codes[:, None] * [0.0, 1.0]
    (found,) = layer_unfairness(find_host(model), apart, codes, np.arange(2))
    assert found.mean_gap == pytest.approx(np.abs(model.coef_[1]))
    assert found.score == np.inf
    assert found == LayerUnfairness("coef_", found.mean_gap, 0.0, np.inf, 0.0)


@pytest.mark.parametrize("seed", range(8))
def test_spreads_below_zero_by_rounding(seed):
    """Outputs that the spread within groups does not reach."""
    rng = np.random.default_rng(seed)
    v, codes = rng.standard_normal(3), np.repeat([0, 1], 10)
    X = rng.standard_normal((20, 1)) * v + codes[:, None] * rng.standard_normal(3)
    model = LinearRegression().fit(X, X)
    away = np.eye(3) - np.outer(v, v) / (v @ v)
    model.coef_ = rng.standard_normal((3, 3)) @ away
    (found,) = layer_unfairness(find_host(model), X, codes, np.arange(2))
    assert found.relative_mean_gap > 1e6


def test_layers_that_cannot_be_changed_are_none():
    torch = pytest.importorskip("torch")

    class Odd(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.used = torch.nn.Linear(3, 1)
            self.unused = torch.nn.Linear(3, 2)

        def forward(self, X):
            return self.used(X)

    X = RNG.standard_normal((30, 3)).astype(np.float32)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        host = find_host(Odd())
    found = layer_unfairness(host, X, np.arange(30) % 2, np.arange(2))
    assert found[0].name == "used"
    assert found[1] is None


def test_rows_of_each_group():
    codes = np.repeat([0, 1, 2], [100, 7, 1])
    RNG.shuffle(codes)
    rows = rows_of_each_group(codes, 3, 30, np.random.RandomState(0))
    assert np.bincount(codes[rows]).tolist() == [10, 7, 1]
    assert (np.diff(rows) > 0).all()  # in order, none twice
    again = rows_of_each_group(codes, 3, 30, np.random.RandomState(0))
    np.testing.assert_array_equal(rows, again)
    other = rows_of_each_group(codes, 3, 30, np.random.RandomState(1))
    assert rows.tolist() != other.tolist()
    everyone = rows_of_each_group(codes, 3, 10**6, np.random.RandomState(0))
    np.testing.assert_array_equal(everyone, np.arange(108))
    few = rows_of_each_group(codes, 3, 3, np.random.RandomState(0))
    assert np.bincount(codes[few]).tolist() == [2, 2, 1]  # a spread needs two


def test_wide_sides_are_not_squared(monkeypatch):
    """Of a layer the moments of its fewer columns are formed."""
    import scalefair.postprocessing._passes as passes

    widths = []
    original = passes.GroupMoments.from_data.__func__

    def from_data(cls, X, groups):
        widths.append(X.shape[1])
        return original(cls, X, groups)

    monkeypatch.setattr(passes.GroupMoments, "from_data", classmethod(from_data))
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(60, 3)), np.arange(60) % 2
    net = MLPRegressor(hidden_layer_sizes=(50, 4), max_iter=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net.fit(X, X[:, 0])
    found = layer_unfairness(find_host(net), X, codes, np.array([0, 1]))
    assert max(widths) <= 4
    A = np.maximum(X @ net.coefs_[0] + net.intercepts_[0], 0) @ net.coefs_[1]
    gap = np.linalg.norm(A[codes == 1].mean(axis=0) - A[codes == 0].mean(axis=0))
    assert found[1].mean_gap == pytest.approx(gap)
