"""A wide layer, changed in its leading directions, against its whole gaps."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from scalefair.postprocessing._changed_wide_layer import (
    directly_changed_wide,
    svd_changed_wide,
)
from scalefair.postprocessing._direct import direct_weights
from scalefair.postprocessing._layer_moments import LayerMoments
from scalefair.postprocessing._wide import wide_layer
from scalefair.streaming import GroupMoments

N, M, RANK = 40, 6, 6


@pytest.fixture(scope="module")
def problem():
    """Covariances that differ in all directions, in the first ones most."""
    rng = np.random.default_rng(0)
    codes = np.arange(3000) % 2
    spread = 1 + 2.0 * codes[:, None] * 0.8 ** np.arange(N)
    X = rng.standard_normal((len(codes), N)) * spread + 0.3 * codes[:, None]
    X = X @ np.linalg.qr(rng.standard_normal((N, N)))[0]
    weight = rng.standard_normal((M, N))
    moments = LayerMoments(GroupMoments.from_data(X, codes))
    layer = wide_layer(lambda: [(X, codes)], weight, 2, RANK, random_state=0)
    return layer, moments, weight


def test_what_is_left_out_takes_part_of_the_bound(problem):
    layer, moments, weight = problem
    bounds = [
        gap / reduction**0.5
        for gap, reduction in zip(moments.gaps(weight), (15, 9), strict=True)
    ]
    small = layer.reduced()
    once = direct_weights(
        small.whitened,
        small.whitened,
        small.root,
        small.differences,
        small.forms,
        mean_bound=bounds[0] ** 2,
        covariance_bound=bounds[1] ** 2,
    )
    assert moments.gaps(small.lift(once.weight))[1] > 1.06 * bounds[1]
    found = directly_changed_wide(layer, mean_reduction=15.0, covariance_reduction=9.0)
    gaps = moments.gaps(found.weight)
    assert found.converged
    assert gaps[0] <= bounds[0] * (1 + 1e-6)
    assert gaps[1] <= 1.05 * bounds[1]


def test_bound_out_of_reach_is_told(problem):
    layer, _, _ = problem
    found = directly_changed_wide(layer, mean_reduction=1.0, covariance_reduction=1e5)
    assert not found.converged


@pytest.mark.parametrize("first_moment", ["exact", "svd"])
def test_published_method(problem, first_moment):
    layer, moments, weight = problem
    found = svd_changed_wide(
        layer,
        mean_reduction=15.0,
        covariance_reduction=9.0,
        epsilon=1e-5,
        first_moment=first_moment,
    )
    before, after = moments.gaps(weight), moments.gaps(found.weight)
    assert after[0] < before[0] / 2
    assert after[1] < before[1]


@pytest.mark.parametrize("change", [directly_changed_wide, svd_changed_wide])
def test_gaps_that_are_rounding_are_left(change):
    """To take away what is not there would cost a large part of the outputs."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 8)) @ rng.standard_normal((8, 8)) + 1.0
    halves = np.repeat([0, 1], 200)
    same = np.vstack([X, X[rng.permutation(200)]])
    turned = np.vstack([X, (X - X.mean(axis=0)) @ np.diag(np.arange(1.0, 9.0))])
    turned[200:] += X.mean(axis=0)
    weight = rng.standard_normal((3, 8))
    options = {"mean_reduction": 15.0, "covariance_reduction": 9.0}
    if change is svd_changed_wide:
        options |= {"epsilon": 1e-5, "first_moment": "exact"}

    def changed(rows, **other):
        layer = wide_layer(lambda: [(rows, halves)], weight, 2, 8, random_state=0)
        return change(layer, **(options | other))

    found = changed(same)
    assert found.converged
    np.testing.assert_array_equal(found.weight, weight)
    # The means alone are equal: what is asked for them plays no part.
    assert np.abs(changed(turned).weight - weight).max() > 0.1
    np.testing.assert_array_equal(
        changed(turned).weight, changed(turned, mean_reduction=1.0).weight
    )


def test_equal_covariances_as_far_as_promised():
    rng = np.random.default_rng(2)
    codes = np.arange(400) % 2
    X = rng.standard_normal((400, 6)) * (1 + codes[:, None] * np.arange(6))
    weight = rng.standard_normal((3, 6))
    layer = wide_layer(lambda: [(X, codes)], weight, 2, 6, random_state=0)
    found = directly_changed_wide(
        layer, mean_reduction=1.0, covariance_reduction=np.inf
    )
    assert found.converged
    moments = LayerMoments(GroupMoments.from_data(X, codes))
    assert moments.gaps(found.weight)[1] <= 1.05e-4 * layer.covariance_gap


def test_means_out_of_reach_are_told():
    """No change of the outputs moves what no row has."""
    rng = np.random.default_rng(3)
    codes = np.arange(300) % 2
    X = rng.standard_normal((300, 6)) + codes[:, None]
    X[:, -1] = 0.0
    weight = rng.standard_normal((3, 6))
    layer = wide_layer(lambda: [(X, codes)], weight, 2, 2, random_state=0)
    options = {"mean_reduction": 15.0, "covariance_reduction": 1.0}
    assert directly_changed_wide(layer, **options).converged
    outside = np.eye(6)[:, -1:]
    gap = float(np.linalg.norm(weight @ outside))
    layer = replace(layer, differences=outside, mean_gap=gap)
    with pytest.warns(ConvergenceWarning, match="directions are still out of reach"):
        found = directly_changed_wide(layer, **options)
    assert not found.converged
    np.testing.assert_allclose(found.weight[:, -1], weight[:, -1])
