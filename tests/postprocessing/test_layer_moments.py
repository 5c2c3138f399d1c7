"""Moments of a layer's inputs against formulas on the rows."""

import numpy as np
import pytest

from scalefair.postprocessing._layer_moments import (
    LayerMoments,
    LayerUnfairness,
    layer_unfairness,
)
from scalefair.streaming import GroupMoments


def _rows(n_groups, seed=0, n=6):
    rng = np.random.default_rng(seed)
    codes = rng.integers(n_groups, size=90)
    codes[: 2 * n_groups] = np.repeat(np.arange(n_groups), 2)
    mixing = rng.standard_normal((n_groups, n, n))
    X = np.einsum("ij,ijk->ik", rng.standard_normal((90, n)), mixing[codes])
    return X + rng.standard_normal((n_groups, n))[codes], codes


def _layer(X, codes):
    return LayerMoments(GroupMoments.from_data(X, codes))


@pytest.mark.parametrize(("noise", "scale"), [(0.0, 1e-5), (1e-3, 1e6)])
def test_whitening_of_dependent_inputs_in_any_units(noise, scale):
    """The root is that of S + noise diag(S); of the rank of S without noise."""
    X, codes = _rows(3, n=4)
    X = np.column_stack([X, X[:, 0] - 2 * X[:, 1], X[:, 2]])
    X *= scale * 10.0 ** np.array([-4, 9, 0, 3, -4, 6])
    weight = np.random.default_rng(1).standard_normal((3, 6))
    whitened, T = _layer(X, codes).whitening(weight, noise)
    S = X.T @ X + noise * np.diag((X**2).sum(axis=0))
    assert T.shape == (6, 6 if noise else 4)
    np.testing.assert_allclose(T.T @ S @ T, np.eye(T.shape[1]), atol=1e-9)
    np.testing.assert_allclose(whitened, weight @ S @ T, rtol=1e-6)


@pytest.mark.parametrize(("n_groups", "n_outputs"), [(2, 60), (3, 3)])
def test_unfairness_against_its_definition(n_groups, n_outputs):
    """Many outputs of few inputs included."""
    X, codes = _rows(n_groups)
    weight = np.random.default_rng(0).standard_normal((n_outputs, 6))
    moments = GroupMoments.from_data(X, codes)
    unfairness = layer_unfairness("some", moments, weight)
    Z = X @ weight.T
    parts = [Z[codes == g] for g in range(n_groups)]
    C = [np.cov(part.T, bias=True) for part in parts]
    pairs = [(a, b) for a in range(n_groups) for b in range(a + 1, n_groups)]
    means = [part.mean(axis=0) for part in parts]
    mean_gap = np.linalg.norm([means[b] - means[a] for a, b in pairs])
    gap = np.linalg.norm([C[b] - C[a] for a, b in pairs])
    within = sum(len(p) * c for p, c in zip(parts, C, strict=True)) / len(Z)
    relative = mean_gap / np.sqrt(np.trace(within)), gap / np.linalg.norm(within)
    expected = (mean_gap, gap, *relative)
    np.testing.assert_allclose(list(vars(unfairness).values())[1:], expected)
    assert unfairness.score == pytest.approx(np.hypot(*relative))
    # Relative gaps have no units.
    scaled = layer_unfairness("some", moments, 1000 * weight)
    assert scaled.covariance_gap == pytest.approx(1e6 * gap)
    assert scaled.score == pytest.approx(unfairness.score)


def test_unfairness_without_a_spread_within_groups():
    codes, weight = np.repeat([0, 1], 8), np.array([[0.5, 2.0]])
    same = np.tile([1.0, 2.0], (16, 1))
    unfairness = layer_unfairness("some", GroupMoments.from_data(same, codes), weight)
    assert (unfairness.mean_gap, unfairness.score) == (0.0, 0.0)
    # All the difference there is lies between the groups.
    apart = GroupMoments.from_data(same + codes[:, None] * [0.0, 1.0], codes)
    unfairness = layer_unfairness("some", apart, weight)
    assert unfairness == LayerUnfairness("some", 2.0, 0.0, np.inf, 0.0)
    assert unfairness.score == np.inf


def test_noise_against_permutations():
    """Mean squares of both gaps where the groups are drawn at random."""
    codes = np.repeat([0, 1, 2], [40, 150, 400])
    X = np.random.default_rng(1).standard_normal((590, 4)) @ np.diag([1, 2, 3, 0.1])
    weight = np.random.default_rng(2).standard_normal((3, 4))
    rng = np.random.default_rng(0)
    layers = (_layer(X, rng.permutation(codes)) for _ in range(400))
    squares = np.mean([layer.pair_gaps(weight) ** 2 for layer in layers], axis=0)
    noise = _layer(X, codes).noise(weight)
    assert noise.shape == (2, 3)
    np.testing.assert_allclose(noise**2, squares, rtol=0.15)
