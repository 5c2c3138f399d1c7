"""scalefair.postprocessing._changed_layer: one layer by either method."""

import numpy as np
import pytest

from scalefair.postprocessing._changed_layer import (
    directly_changed,
    reduced,
    svd_changed,
    worthwhile,
    worthwhile_beside,
)
from scalefair.postprocessing._explainable_svd import explainable_svd
from scalefair.postprocessing._first_moment import svd_first_moment
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
    moments = LayerMoments(GroupMoments.from_data(X, codes))
    return X, codes, moments, rng.standard_normal((3, n))


def directly(weight, moments, mean=15.0, covariance=150.0):
    return directly_changed(
        weight, moments, mean_reduction=mean, covariance_reduction=covariance
    )


def published(weight, moments, mean=15.0, covariance=150.0, first="exact", eps=1e-5):
    return svd_changed(
        weight,
        moments,
        mean_reduction=mean,
        covariance_reduction=covariance,
        epsilon=eps,
        first_moment=first,
    )


@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("mean", "covariance"), [(15.0, 150.0), (1.0, 20.0), (4.0, 1.0), (np.inf, 5.0)]
)
def test_directly_changed_meets_its_bounds(mean, covariance, seed, n_groups):
    X, _, moments, W = layer(seed=seed, n_groups=n_groups)
    before = moments.gaps(W)
    found = directly(W, moments, mean, covariance)
    after = moments.gaps(found.weight)
    assert found.converged
    if mean > 1:
        assert after[0] <= before[0] / np.sqrt(mean) * (1 + 1e-9) + 1e-12
    if covariance > 1:
        bound = before[1] / np.sqrt(covariance)
        assert after[1] <= bound * (1 + 1e-9)
    change = np.sum((X @ (W - found.weight).T) ** 2)
    assert found.change == pytest.approx(change)
    assert 0 < change < np.sum((X @ W.T) ** 2)


@pytest.mark.parametrize("seed", range(4))
def test_published_method_step_by_step(seed):
    """Second moment from the eigenpairs of M, then the first one."""
    X, codes, moments, W = layer(seed=seed)
    C = [np.cov(X[codes == g].T) for g in (0, 1)]
    values, vectors = np.linalg.eigh(C[1] - C[0])
    order = np.argsort(-np.abs(values))
    values, vectors = values[order], vectors[:, order]
    S = X.T @ X
    second = explainable_svd(W, values, vectors, vectors.T @ S @ vectors, 150.0).weight
    found = published(W, moments, mean=1.0)
    np.testing.assert_allclose(found.weight, second, rtol=1e-7, atol=1e-9)
    assert np.isnan(found.lower_bound)
    assert found.change == pytest.approx(np.sum((X @ (W - second).T) ** 2))
    d = X[codes == 1].mean(axis=0) - X[codes == 0].mean(axis=0)
    both = published(W, moments)
    goal = min(np.linalg.norm(W @ d) / 15**0.5, np.linalg.norm(second @ d))
    assert np.linalg.norm(both.weight @ d) == pytest.approx(goal)
    # The second step moves along S^-1 d only.
    step = both.weight - second
    row = np.linalg.solve(S, d)
    np.testing.assert_allclose(step, np.outer(step @ row, row) / (row @ row), atol=1e-8)
    paper = published(W, moments, first="svd", eps=1e-3)
    expected = svd_first_moment(second, d[:, None], S, 1e-3, 15.0)
    np.testing.assert_allclose(paper.weight, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize("change", [directly, published])
def test_reductions_of_one_change_nothing(change, n_groups):
    _, _, moments, W = layer(n_groups=n_groups)
    found = change(W, moments, 1.0, 1.0)
    np.testing.assert_array_equal(found.weight, W)
    assert found.change == 0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("reduction", [1e6, 1e9, 1e12, np.inf])
def test_lower_bound_of_what_the_direct_method_is_for(reduction, seed):
    """It goes down to 1e-4 of the gap; so does the bound, not further."""
    X, codes, _, W = layer(seed=seed)
    X[codes == 1] *= 10.0
    moments = LayerMoments(GroupMoments.from_data(X, codes))
    found = directly(W, moments, 1.0, reduction)
    assert found.converged
    assert 0 < found.lower_bound <= found.change


@pytest.mark.parametrize("seed", range(6))
def test_exact_parity_keeps_what_it_can(seed):
    """Of five inputs one is the difference of means; the others may stay."""
    _, _, moments, W = layer(seed=seed)
    means = directly(W, moments, np.inf, 1.0)
    both = directly(W, moments, np.inf, np.inf)
    assert moments.gaps(both.weight)[0] < 1e-10
    # As far as the direct method goes.
    assert moments.gaps(both.weight)[1] <= 2e-4 * moments.gaps(W)[1]
    assert means.change < both.change * (1 + 1e-6)
    assert np.linalg.norm(both.weight) > 0


def test_gaps_that_are_rounding_are_left():
    X, _, moments, W = layer()
    assert worthwhile(W, moments, 15.0, 150.0) == (15.0, 150.0)
    order = np.random.default_rng(0).permutation(len(X))
    twice = np.vstack([X, X[order]])
    halves = np.repeat([0, 1], len(X))
    for offset in (0.0, 1e5):
        same = LayerMoments(GroupMoments.from_data(twice + offset, halves))
        assert worthwhile(W, same, 15.0, np.inf) == (1.0, 1.0)
        for change in (directly, published):
            np.testing.assert_array_equal(change(W, same, np.inf, 150.0).weight, W)
        # A true difference, however small beside the means, is not rounding.
        moved = twice + offset + 1e-3 * halves[:, None]
        moved[halves == 1] *= [1.01, 1, 1, 1, 1]
        true = LayerMoments(GroupMoments.from_data(moved, halves))
        assert worthwhile(W, true, 15.0, 150.0) == (15.0, 150.0)
    # The means may differ though the covariances do not, and the reverse.
    shifted = LayerMoments(
        GroupMoments.from_data(twice + 2.0 * halves[:, None], halves)
    )
    assert worthwhile(W, shifted, 15.0, 150.0) == (15.0, 1.0)
    turned = np.vstack([X, -X]) - np.repeat([X.mean(axis=0), -X.mean(axis=0)], 200, 0)
    turned[200:, 0] *= 2
    centred = LayerMoments(GroupMoments.from_data(turned, halves))
    assert worthwhile(W, centred, 15.0, 150.0) == (1.0, 150.0)
    # Equal rows have covariances of rounding.
    assert worthwhile_beside(1.0, -1e-45, (0.0, 1e-43), 1.5, np.inf) == (1.0, 1.0)
    assert worthwhile_beside(1.0, -1e-45, (0.0, 1e-25), 1.5, np.inf) == (1.0, np.inf)
    # A weight of zeros has no gap to reduce.
    assert worthwhile(0 * W, moments, 15.0, 150.0) == (1.0, 1.0)
    np.testing.assert_array_equal(directly(0 * W, moments).weight, 0)
    np.testing.assert_array_equal(published(0 * W, moments).weight, 0)


@pytest.mark.parametrize("change", [directly, published])
def test_dependent_inputs_and_constant_ones(change):
    X, codes, _, W = layer()
    wide = np.hstack([X, X[:, :2], np.ones((len(X), 1)), np.zeros((len(X), 1))])
    moments = LayerMoments(GroupMoments.from_data(wide, codes))
    W = np.hstack([W, W[:, :4]])
    before = moments.gaps(W)
    found = change(W, moments)
    assert np.isfinite(found.weight).all()
    after = moments.gaps(found.weight)
    assert after[0] <= before[0] / 15**0.5 * (1 + 1e-6)
    assert found.change == pytest.approx(np.sum((wide @ (W - found.weight).T) ** 2))


def test_reduced():
    assert reduced(6.0, 4.0) == 9.0
    assert reduced(6.0, 1.0) == np.inf
    assert reduced(6.0, np.inf) == 0.0


def test_many_outputs_of_few_inputs():
    """Outputs that follow from fewer are changed with them; bounds hold for all."""
    rng = np.random.default_rng(5)
    codes = np.arange(120) % 2
    X = rng.standard_normal((120, 4)) * (1 + codes[:, None]) + codes[:, None]
    layer = LayerMoments(GroupMoments.from_data(X, codes))
    few = rng.standard_normal((4, 4))
    basis = np.linalg.qr(rng.standard_normal((500, 4)))[0]
    options = {"mean_reduction": 15.0, "covariance_reduction": 150.0}
    small = directly_changed(few, layer, **options)
    found = directly_changed(basis @ few, layer, **options)
    assert found.weight.shape == (500, 4)
    assert found.change == pytest.approx(small.change, rel=0.02)
    before, after = layer.gaps(basis @ few), layer.gaps(found.weight)
    assert after[0] <= before[0] / 15**0.5 * (1 + 1e-6)
    assert after[1] <= before[1] / 150**0.5 * (1 + 1e-6)
    assert found.change == pytest.approx(
        layer.output_change(basis @ few, found.weight), rel=1e-9
    )


@pytest.mark.parametrize("change", [directly, published])
@pytest.mark.parametrize("n_groups", [2, 3])
def test_inputs_that_are_all_zero(n_groups, change):
    """As after hidden units that no row reaches."""
    codes = np.arange(9) % n_groups
    moments = LayerMoments(GroupMoments.from_data(np.zeros((9, 4)), codes))
    weight = np.ones((2, 4))
    found = change(weight, moments)
    np.testing.assert_array_equal(found.weight, weight)
    assert found.converged
    assert found.change == 0
