"""One layer's new weight, by either method."""

from functools import partial

import numpy as np
import pytest

from scalefair.postprocessing._explainable_svd import explainable_svd, svd_first_moment
from scalefair.postprocessing._fair_layer import GapBounds, fair_layer
from scalefair.postprocessing._layer_moments import LayerMoments
from scalefair.streaming import GroupMoments


def layer(n=5, n_groups=2, seed=0, m=200):
    """Inputs of a layer, their moments and a weight."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(n_groups, size=m)
    codes[:n_groups] = np.arange(n_groups)
    X = rng.standard_normal((m, n)) @ rng.standard_normal((n, n))
    for g in range(n_groups):
        X[codes == g] *= rng.uniform(0.5, 1.5, n)
        X[codes == g] += rng.standard_normal(n)
    return X, codes, GroupMoments.from_data(X, codes), rng.standard_normal((3, n))


def change(method, weight, moments, mean=15.0, covariance=150.0, **options):
    options = {"noise_floor": False, "epsilon": 1e-5, "first_moment": "exact"} | options
    return fair_layer(
        weight,
        moments,
        method=method,
        reductions=(mean, covariance),
        **options,
    )


directly, published = partial(change, "direct"), partial(change, "explainable_svd")
both_methods = pytest.mark.parametrize("change", [directly, published])


@pytest.mark.parametrize("seed", range(2))
def test_published_method_step_by_step(seed):
    """Second moment from the eigenpairs of M, then the first one."""
    X, codes, moments, W = layer(seed=seed)
    C = [np.cov(X[codes == g].T, bias=True) for g in (0, 1)]
    values, vectors = np.linalg.eigh(C[1] - C[0])
    order = np.argsort(-np.abs(values))
    values, vectors = values[order], vectors[:, order]
    S = X.T @ X
    second = explainable_svd(W, values, vectors, vectors.T @ S @ vectors, 150.0)
    result = published(W, moments, mean=1.0)
    np.testing.assert_allclose(result.weight, second, rtol=1e-7, atol=1e-9)
    assert np.isnan(result.change_bound)
    d = X[codes == 1].mean(axis=0) - X[codes == 0].mean(axis=0)
    both = published(W, moments)
    bound = min(np.linalg.norm(W @ d) / 15**0.5, np.linalg.norm(second @ d))
    assert np.linalg.norm(both.weight @ d) == pytest.approx(bound)
    # The second step moves along S^-1 d only.
    step = both.weight - second
    row = np.linalg.solve(S, d)
    np.testing.assert_allclose(step, np.outer(step @ row, row) / (row @ row), atol=1e-8)
    paper = published(W, moments, first_moment="svd", epsilon=1e-3)
    expected = svd_first_moment(second, d[:, None], S, 1e-3, 15.0)
    np.testing.assert_allclose(paper.weight, expected, rtol=1e-6, atol=1e-8)


def bounds_of(weight, moments, noise_floor=True):
    layer = LayerMoments(moments)
    return GapBounds.build(weight, layer, (15.0, 150.0), noise_floor)


def test_gaps_that_are_rounding_are_left():
    X, _, _, W = layer()
    twice = np.vstack([X, X[np.random.default_rng(0).permutation(len(X))]])
    halves = np.repeat([0, 1], len(X))

    def bounded(rows):
        """Whether means and covariances have a bound."""
        bounds = bounds_of(W, GroupMoments.from_data(rows, halves), False)
        return tuple(np.isfinite(bounds.limits[:, 0]))

    for offset in (0.0, 1e5):
        assert bounded(twice + offset) == (False, False)
        same = GroupMoments.from_data(twice + offset, halves)
        for method in (directly, published):
            np.testing.assert_array_equal(method(W, same, np.inf).weight, W)
        # A true difference, however small beside the means, is not rounding.
        moved = twice + offset + 1e-3 * halves[:, None]
        moved[halves == 1] *= [1.01, 1, 1, 1, 1]
        assert bounded(moved) == (True, True)


@both_methods
@pytest.mark.parametrize("n_groups", [2, 3])
def test_inputs_or_weights_that_are_all_zero(n_groups, change):
    """As after hidden units that no row reaches."""
    codes = np.arange(9) % n_groups
    moments = GroupMoments.from_data(np.zeros((9, 4)), codes)
    for weight, inputs in ((np.ones((2, 4)), moments), (np.zeros((3, 5)), layer()[2])):
        result = change(weight, inputs)
        np.testing.assert_array_equal(result.weight, weight)
        assert result.converged
        assert result.change == 0


def test_gaps_below_noise_are_left():
    """Two groups of the same rows, moved by less than chance would move them."""
    X, _, _, W = layer()
    halves = np.repeat([0, 1], len(X))
    rows = np.vstack([X, X]) * (1 + 0.01 * halves[:, None]) + 0.01 * halves[:, None]
    moments = GroupMoments.from_data(rows, halves)
    assert (LayerMoments(moments).noise(W)[:, 0] > LayerMoments(moments).gaps(W)).all()
    assert np.isinf(bounds_of(W, moments).limits).all()
    result = directly(W, moments, noise_floor=True)
    np.testing.assert_array_equal(result.weight, W)
    assert result.converged
    assert not result.weights.any()
    assert directly(W, moments).change > 0
    # An infinite reduction has no floor.
    equal = directly(W, moments, np.inf, 1.0, noise_floor=True)
    assert equal.gaps_after[0] < 1e-10


@pytest.mark.parametrize(("m", "binding"), [(200, "noise"), (20_000, "reduction")])
def test_gaps_fall_to_the_noise_and_no_further(m, binding):
    _, _, moments, W = layer(m=m, seed=3)
    (before, _), noise = LayerMoments(moments).gaps(W), LayerMoments(moments).noise(W)
    target = before / np.sqrt(15)
    assert (noise[0, 0] > target) == (binding == "noise")
    result = directly(W, moments, covariance=1.0, noise_floor=True)
    assert result.gaps_after[0] == pytest.approx(max(target, noise[0, 0]), rel=1e-3)
    np.testing.assert_array_equal(result.noise, noise)


def test_a_rare_group_leaves_the_others_their_bound():
    """Twelve rows at random give a pair of large groups no slack, nor cost a change."""
    X, codes, two, W = layer(m=4000)
    rare = codes.copy()
    rare[np.random.default_rng(0).choice(4000, 12, replace=False)] = 2
    three = GroupMoments.from_data(X, rare)
    weights = bounds_of(W, three).weights
    assert (weights.max(axis=1) == 1).all()
    np.testing.assert_array_equal(weights[:, 0], 1)
    assert (weights[:, 1:] < [[0.02], [0.8]]).all()
    gap = LayerMoments(two).gaps
    # Nor has a pair of groups of the same rows, beside a third one.
    equal = np.vstack([X[:200], X[:200], X[:200] + 5.0])
    moments = GroupMoments.from_data(equal, np.repeat([0, 1, 2], 200))
    assert bounds_of(W, moments).weights[0, 0] == 0
    np.testing.assert_array_equal(bounds_of(W, moments, False).weights[0], 1)
    with_rare = directly(W, three, noise_floor=True)
    assert gap(with_rare.weight)[0] <= 1.05 * gap(directly(W, two).weight)[0]
    assert with_rare.change < directly(W, three).change
