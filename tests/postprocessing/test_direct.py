"""Smallest change of a layer under bounds on both gaps, against other solvers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from scalefair.postprocessing._direct import direct_weights, smallest_change
from scalefair.postprocessing._explainable_svd import exact_first_moment
from scalefair.postprocessing._fair_layer import GapBounds
from scalefair.postprocessing._layer_moments import LayerMoments
from scalefair.streaming import GroupMoments


def layer(seed, n=6, n_groups=2, n_rows=80):
    rng = np.random.default_rng(seed)
    codes = np.arange(n_rows) % n_groups
    X = np.maximum(rng.normal(size=(n_rows, n)) @ rng.normal(size=(n, n)), -0.5)
    X *= 1 + 0.7 * codes[:, None] * rng.random(n)
    X += codes[:, None] * rng.normal(size=n)
    return LayerMoments(GroupMoments.from_data(X, codes))


def solve(weight, moments, mean_bound, covariance_bound, **options):
    return direct_weights(
        weight,
        *moments.whitening(weight),
        moments.differences,
        moments.covariance_differences,
        mean_bound=mean_bound,
        covariance_bound=covariance_bound,
        **options,
    )


def proved(result, weight, moments, mean_bound, covariance_bound):
    """Lower bound of the change, from the solution's multiplier."""
    return smallest_change(
        *moments.whitening(weight),
        moments.differences[:, 0],
        moments.covariance_differences[0],
        result.multiplier,
        mean_bound=mean_bound,
        covariance_bound=covariance_bound,
    )


def reduced(weight, moments, mean_reduction, covariance_reduction):
    mean, covariance = moments.gaps(weight)
    return mean**2 / mean_reduction, covariance**2 / covariance_reduction


@pytest.mark.parametrize(
    ("m", "n_groups", "reductions"),
    [(3, 2, (15, 150)), (1, 2, (4, 1000)), (2, 3, (2, 5))],
)
def test_no_worse_than_a_general_optimiser(m, n_groups, reductions):
    moments = layer(m, n=4, n_groups=n_groups)
    weight = np.random.default_rng(9).normal(size=(m, 4))
    bounds = reduced(weight, moments, *reductions)
    result = solve(weight, moments, *bounds, tol=1e-4)

    def change(w):
        return moments.output_change(weight, w.reshape(weight.shape))

    def slack(w):
        gaps = np.square(moments.gaps(w.reshape(weight.shape)))
        return (np.array(bounds) - gaps) / np.array(bounds)

    best = min(
        (
            minimize(
                change,
                start.ravel(),
                constraints={"type": "ineq", "fun": slack},
                method="SLSQP",
                options={"maxiter": 1000, "ftol": 1e-12},
            )
            for start in (result.weight, 0.5 * weight, weight)
        ),
        key=lambda result: result.fun if slack(result.x).min() > -1e-6 else np.inf,
    )
    assert result.converged
    assert slack(result.weight).min() >= -1e-8
    assert change(result.weight) <= best.fun * 1.003


@settings(deadline=None, max_examples=12)
@given(
    st.integers(0, 10**6), st.integers(1, 7), st.floats(1.5, 50), st.floats(1.5, 1e4)
)
def test_certificate(seed, m, mean_reduction, covariance_reduction):
    """Bounds hold, and what is proved of other weights is no contradiction."""
    moments = layer(seed)
    weight = np.random.default_rng(seed).normal(size=(m, 6))
    bounds = reduced(weight, moments, mean_reduction, covariance_reduction)
    result = solve(weight, moments, *bounds, tol=1e-3)
    gaps = np.square(moments.gaps(result.weight))
    assert result.converged
    assert (gaps <= np.array(bounds) * (1 + 1e-6)).all()
    lower_bound = proved(result, weight, moments, *bounds)
    assert 0 <= lower_bound <= moments.output_change(weight, result.weight) * (1 + 1e-9)


def test_means_alone_are_the_closed_form():
    moments = layer(1)
    weight = np.random.default_rng(1).normal(size=(3, 6))
    bound = moments.gaps(weight)[0] ** 2 / 7
    result = solve(weight, moments, bound, np.inf)
    exact = exact_first_moment(weight, moments.differences, moments.solve, bound)
    np.testing.assert_allclose(result.weight, exact, atol=1e-10)
    lower_bound = proved(result, weight, moments, bound, np.inf)
    assert lower_bound == pytest.approx(
        moments.output_change(weight, result.weight), rel=1e-6
    )


@pytest.mark.parametrize("mean_bound", [0.0, np.inf])
def test_equal_covariances_as_far_as_promised(mean_bound):
    """Down to a share of the gap that the weight came with."""
    moments = layer(4)
    weight = np.random.default_rng(4).normal(size=(4, 6))
    before = moments.gaps(weight)[1]
    bounds = GapBounds.build(weight, moments, (1.0, np.inf), False)
    assert bounds.limits[1, 0] == pytest.approx((1e-4 * before) ** 2)
    result = solve(weight, moments, mean_bound, bounds.limits[1, 0])
    assert result.converged
    assert moments.gaps(result.weight)[1] <= 1.0001e-4 * before
    # Equal means do not empty the layer.
    change = moments.output_change(weight, result.weight)
    assert change < 0.99 * moments.output_change(weight, np.zeros_like(weight))


def test_wide_layers_begin_with_few_rows():
    """Levels end at all rows; the result is as good as without them."""
    moments = layer(8, n=40, n_rows=400)
    rng = np.random.default_rng(8)
    weight = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 40))
    weight += 1e-3 * rng.normal(size=(60, 40))
    bounds = reduced(weight, moments, 15, 150)
    result = solve(weight, moments, *bounds)
    assert result.converged
    change = moments.output_change(weight, result.weight)
    assert change <= 1.03 * proved(result, weight, moments, *bounds)
