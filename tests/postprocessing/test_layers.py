"""New weights of one layer: the published method, the direct one, bounds, moments."""

import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from scalefair.metrics import moment_gaps
from scalefair.postprocessing._explainable_svd import (
    exact_first_moment,
    explainable_svd,
    shrunk_values,
    svd_first_moment,
)
from scalefair.postprocessing._fair_layer import GapBounds, fair_layer
from scalefair.postprocessing._layer_moments import (
    LayerMoments,
    LayerUnfairness,
    layer_unfairness,
)
from scalefair.streaming import GroupMoments


def problem(seed, m=5, n=7, n_groups=2, n_rows=80):
    """A weight, and rows that differ between groups in mean and covariance."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(n_groups, size=n_rows)
    codes[: 2 * n_groups] = np.repeat(np.arange(n_groups), 2)
    mixing = rng.standard_normal((n_groups, n, n))
    X = np.einsum("ij,ijk->ik", rng.standard_normal((n_rows, n)), mixing[codes])
    X += rng.standard_normal((n_groups, n))[codes]
    return rng.standard_normal((m, n)), X, codes


def layer_of(X, codes):
    return LayerMoments(GroupMoments.from_data(X, codes))


def layer_problem(*args, **options):
    W, X, codes = problem(*args, **options)
    return W, layer_of(X, codes)


def change(method, weight, moments, mean=15.0, covariance=150.0, **options):
    options = {"noise_floor": False, "epsilon": 1e-5, "first_moment": "exact"} | options
    reductions = mean, covariance
    return fair_layer(weight, moments, method=method, reductions=reductions, **options)


directly, published = partial(change, "direct"), partial(change, "explainable_svd")


def second(W, layer, reduction):
    values, Q = layer.covariance_eigenpairs()
    return explainable_svd(W, values, Q, Q.T @ layer.second_moment @ Q, reduction)


def exact(W, layer, c_e):
    return exact_first_moment(W, layer.differences, layer.solve, c_e)


def explainable_values(W, layer):
    """Singular values of W S_v, its factors and their costs k, from the definition."""
    values, Q = layer.covariance_eigenpairs()
    root = Q * np.sqrt(np.abs(values))
    U, sigma, Vt = np.linalg.svd(W @ root, full_matrices=False)
    rows = Vt @ np.linalg.inv(root)
    return sigma, U, rows, ((rows @ layer.second_moment) * rows).sum(axis=1)


@pytest.mark.parametrize("reduction", [1 + 1e-12, 150.0, 1e12])
@pytest.mark.parametrize(("m", "n", "n_groups"), [(4, 6, 2), (6, 4, 3), (1, 1, 2)])
def test_singular_values_meet_their_bound(m, n, reduction, n_groups):
    W, layer = layer_problem(0, m, n, n_groups)
    sigma, U, rows, k = explainable_values(W, layer)
    changed = second(W, layer, reduction)
    x = shrunk_values(k, sigma, reduction)
    assert (x <= sigma).all()
    assert (x**4).sum() == pytest.approx((sigma**4).sum() / reduction, rel=1e-13)
    np.testing.assert_allclose(changed, (U * x) @ rows, atol=1e-8 * np.abs(W).max())
    # The sum bounds the gap from above, however many groups there are.
    assert layer.gaps(changed)[1] <= math.sqrt((x**4).sum()) * (1 + 1e-9)
    # Equation (19): one multiplier for all.
    gamma = k * (sigma - x) / (2 * x**3)
    if reduction > 2:
        np.testing.assert_allclose(gamma, gamma[0], rtol=1e-6)


def test_ends_of_the_second_reduction():
    W, X, codes = problem(6)
    layer = layer_of(X, codes)
    assert layer.gaps(second(W, layer, math.inf))[1] <= 1e-12 * layer.gaps(W)[1]
    np.testing.assert_array_equal(second(W, layer, 1.0), W)
    assert not second(0 * W, layer, 10.0).any()
    same = explainable_svd(W, np.zeros(7), np.eye(7), layer.second_moment, 10.0)
    np.testing.assert_array_equal(same, W)
    scaled = layer_of(1e3 * X, codes)  # units of the inputs play no part
    np.testing.assert_allclose(second(W, scaled, 30.0), second(W, layer, 30.0))


@given(
    st.integers(0, 10**6),
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(2, 4),
    st.sampled_from([0.0, 1e-9, 0.01, 0.3, 0.999]),
)
def test_stationary_and_feasible(seed, m, n, n_groups, part):
    W, layer = layer_problem(seed, m, n, n_groups)
    S, D = layer.second_moment, layer.differences
    c_e = part * layer.gaps(W)[0] ** 2
    changed = exact(W, layer, c_e)
    size = np.linalg.norm(W) * np.linalg.norm(D)
    assert np.linalg.norm(changed @ D) == pytest.approx(
        math.sqrt(c_e), rel=1e-10, abs=1e-13 * size
    )
    if part > 0:
        # (W - W') S = lambda W' D D^T with lambda > 0: parallel, in one direction.
        # Convex, so that no weight within the bound changes the outputs less.
        gradient, normal = (W - changed) @ S, changed @ D @ D.T
        lam = (gradient * normal).sum() / (normal**2).sum()
        assert lam > 0
        np.testing.assert_allclose(
            gradient, lam * normal, atol=1e-7 * np.abs(lam * normal).max()
        )


@pytest.mark.parametrize("n_groups", [2, 5])
def test_equal_means(n_groups):
    W, layer = layer_problem(1, n_groups=n_groups)
    changed = exact(W, layer, 0.0)
    assert layer.gaps(changed)[0] <= 1e-13 * layer.gaps(W)[0]
    # Least squares on the orthogonal complement of the differences.
    D, S = layer.differences, layer.second_moment
    free = np.linalg.svd(D)[0][:, np.linalg.matrix_rank(D) :]
    expected = W @ S @ free @ np.linalg.inv(free.T @ S @ free) @ free.T
    np.testing.assert_allclose(changed, expected, atol=1e-11)


def test_differences_that_are_multiples_or_zero_or_out_of_reach():
    W, layer = layer_problem(4)
    D = np.outer(layer.differences[:, 0], [1.0, -2.0, 0.0])
    c_e = 0.1 * float(((W @ D) ** 2).sum())
    changed = exact_first_moment(W, D, layer.solve, c_e)
    np.testing.assert_allclose(changed, exact(W, layer, c_e / 5), atol=1e-12)
    for bound in (layer.gaps(W)[0] ** 2 * 1.001, math.inf):  # that holds already
        np.testing.assert_array_equal(exact(W, layer, bound), W)
    no_gap = exact_first_moment(W, np.zeros((7, 3)), layer.solve, 0.0)
    np.testing.assert_array_equal(no_gap, W)
    # The second axis has no second moment: no change of the outputs moves that gap.
    W, D, inverse = np.array([[1.0, 1.0]]), np.eye(2), np.diag([1.0, 0.0])
    for bound, first in ((1.25, 0.5), (0.25, 0.0)):
        changed = exact_first_moment(W, D, inverse.__matmul__, bound)
        np.testing.assert_allclose(changed, [[first, 1.0]], atol=1e-14)


@pytest.mark.parametrize(("m", "n", "n_groups"), [(5, 7, 2), (7, 4, 4)])
@pytest.mark.parametrize("reduction", [1.01, 1e6])
def test_restricted_weight_from_its_definition(reduction, m, n, n_groups):
    W, layer = layer_problem(8, m, n, n_groups)
    D, S, epsilon = layer.differences, layer.second_moment, 1e-2
    values, Q = np.linalg.eigh(D @ D.T + epsilon * np.eye(n))
    S_e = (Q * np.sqrt(values)) @ Q.T
    U, sigma, Vt = np.linalg.svd(W @ S_e, full_matrices=False)
    rows = Vt @ np.linalg.inv(S_e)
    k = ((rows @ S) * rows).sum(axis=1)
    np.testing.assert_array_equal(svd_first_moment(W, D, S, epsilon, 1.0), W)
    assert not svd_first_moment(0 * W, D, S, epsilon, reduction).any()
    changed = svd_first_moment(W, D, S, epsilon, reduction)
    new = ((U.T @ changed @ S_e) * Vt).sum(axis=1)
    np.testing.assert_allclose((U * new) @ rows, changed, atol=1e-9)
    assert (new**2).sum() == pytest.approx((sigma**2).sum() / reduction, rel=1e-11)
    # Theorem 4.1 with the plus sign: one gamma for all, gamma = k (sigma / new - 1).
    gamma = k * (sigma / new - 1)
    np.testing.assert_allclose(gamma, gamma[0], rtol=1e-6)
    assert gamma[0] > 0


@pytest.mark.parametrize("spread", [1, 15])
def test_multipliers_over_many_orders(spread):
    rng = np.random.default_rng(spread)
    for _ in range(20):
        r = rng.integers(1, 40)
        sigma, k = 10.0 ** rng.uniform(-spread, spread, (2, r))
        reduction = 10.0 ** rng.choice([rng.uniform(0, 1), 1e-12, 1e-5, 3, 10, 30])
        no_means = np.zeros((r, 1))
        changed = svd_first_moment(np.diag(sigma), no_means, np.diag(k), 1.0, reduction)
        assert (changed**2).sum() <= ((1 / reduction) + 1e-13) * (sigma**2).sum()
        x = shrunk_values(k, sigma, reduction)
        share = ((x / sigma.max()) ** 4).sum() / ((sigma / sigma.max()) ** 4).sum()
        assert share == pytest.approx(1 / reduction, rel=1e-13)
    # What costs nothing goes first: the other value pays alone, if that is enough.
    k, sigma = np.array([0.0, 1.0]), np.array([2.0, 1.0])
    for left, expected in ((5, [4**0.25, 1.0]), (0.5, [0, 0.5**0.25])):
        result = shrunk_values(k, sigma, 17 / left)
        np.testing.assert_allclose(result, expected, rtol=1e-14, atol=0)
    assert not shrunk_values(0 * k, sigma, math.inf).any()
    # S vanishes on the second axis, D on both: singular values 2 and 1 times 0.1.
    W, S = np.diag([2.0, 1.0]), np.diag([0.0, 1.0])
    for reduction, diagonal in ((1.0, [2.0, 1.0]), (2.5, [1.0, 1.0]), (20.0, [0, 0.5])):
        changed = svd_first_moment(W, np.zeros((2, 1)), S, 0.01, reduction)
        np.testing.assert_allclose(changed, np.diag(diagonal), atol=1e-14)


def test_published_method_step_by_step():
    """Second moment from the eigenpairs of M, then the first one."""
    W, X, codes = problem(0, 3, 5, n_rows=200)
    moments = GroupMoments.from_data(X, codes)
    C = [np.cov(X[codes == g].T, bias=True) for g in (0, 1)]
    values, vectors = np.linalg.eigh(C[1] - C[0])
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


N = 1500
RNG = np.random.default_rng(0)
PEOPLE = pd.DataFrame({"sex": RNG.permutation(["f", "m"] * (N // 2))})
PEOPLE["place"] = RNG.integers(0, 3, N)
ROWS = RNG.standard_normal((N, 4)) @ RNG.standard_normal((4, 4))
ROWS *= np.where(PEOPLE["sex"] == "f", 1.4, 1.0)[:, None]
ROWS += np.outer(PEOPLE["place"], [0.8, -0.4, 0.1, 0.3])
ROWS[PEOPLE["place"] == 1, 2] *= 1.5


def moments_of(*names):
    moments = GroupMoments._from_attributes(ROWS, PEOPLE[list(names)], "each")
    return moments if len(moments) > 1 else moments[0]


@pytest.mark.parametrize(
    ("names", "m", "reductions"),
    [
        (["sex"], 3, (15.0, 150.0)),
        (["sex"], 1, (4.0, 1000.0)),
        (["place"], 2, (2.0, 5.0)),
        (["sex", "place"], 3, (15.0, 150.0)),
        (["sex", "place"], 3, (1.0, 10.0)),
    ],
    ids=str,
)
def test_no_worse_than_a_general_optimiser(names, m, reductions):
    W = np.random.default_rng(9).standard_normal((m, 4))
    layer = LayerMoments(moments_of(*names))
    result = directly(W, moments_of(*names), *reductions)
    S, before = layer.second_moment, layer.gaps_by_attribute(layer.pair_gaps(W)) ** 2
    bounded = np.array(reductions) > 1

    def output_change(w):
        step = w.reshape(W.shape) - W
        return np.sum((step @ S) * step) / np.sum((W @ S) * W)

    def slack(w):
        after = layer.gaps_by_attribute(layer.pair_gaps(w.reshape(W.shape))) ** 2
        return (1 / np.array(reductions)[:, None] - after / before)[bounded].ravel()

    best = np.inf
    for start in (0.9 * result.weight, 0.5 * W):
        reference = minimize(
            output_change,
            start.ravel(),
            constraints={"type": "ineq", "fun": slack},
            method="SLSQP",
            options={"maxiter": 300, "ftol": 1e-10},
        )
        if slack(reference.x).min() > -1e-6:
            best = min(best, reference.fun)
    assert result.converged
    assert slack(result.weight).min() >= -1e-8
    assert result.change == pytest.approx(output_change(result.weight))
    assert result.change <= 1.05 * best < np.inf
    if names == ["sex"]:  # proved for two groups
        assert 0 < result.change_bound <= best * (1 + 1e-6)


@settings(max_examples=12, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(1, 7), st.floats(1.5, 50), st.floats(1.5, 1e4)
)
def test_certificate(seed, m, mean_reduction, covariance_reduction):
    """Bounds hold, and what is proved of other weights is no contradiction."""
    W, X, codes = problem(seed, m, 6)
    reductions = mean_reduction, covariance_reduction
    result = directly(W, GroupMoments.from_data(X, codes), *reductions)
    assert result.converged
    bounds = np.array(result.gaps_before) / np.sqrt(reductions)
    assert (np.array(result.gaps_after) <= bounds * (1 + 1e-6)).all()
    assert 0 <= result.change_bound <= result.change * (1 + 1e-9)


@pytest.mark.parametrize("mean_reduction", [1.0, np.inf])
def test_equal_covariances_as_far_as_promised(mean_reduction):
    """Down to a share of the gap that the weight came with."""
    W, X, codes = problem(4, 4, 6)
    result = directly(W, GroupMoments.from_data(X, codes), mean_reduction, np.inf)
    assert result.converged
    assert result.gaps_after[1] <= 1.0001e-4 * result.gaps_before[1]
    assert (result.gaps_after[0] < 1e-9) == np.isinf(mean_reduction)
    assert result.change < 0.99  # not by dropping everything


def test_wide_layers_begin_with_few_rows():
    """Levels end at all rows; the result is as good as without them."""
    _, X, codes = problem(8, n=40, n_rows=400)
    rng = np.random.default_rng(8)
    W = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 40))
    W += 1e-3 * rng.normal(size=(60, 40))
    result = directly(W, GroupMoments.from_data(X, codes))
    assert result.converged
    assert result.change <= 1.03 * result.change_bound


def bounds_of(weight, moments, noise_floor=True):
    layer = LayerMoments(moments)
    return GapBounds.build(weight, layer, (15.0, 150.0), noise_floor)


def test_gaps_that_are_rounding_are_left():
    W, X, _ = problem(0, 3, 5, n_rows=200)
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


@pytest.mark.parametrize("change", [directly, published])
@pytest.mark.parametrize("n_groups", [2, 3])
def test_inputs_or_weights_that_are_all_zero(n_groups, change):
    """As after hidden units that no row reaches."""
    codes = np.arange(9) % n_groups
    moments = GroupMoments.from_data(np.zeros((9, 4)), codes)
    _, X, codes = problem(0, n=5)
    other = GroupMoments.from_data(X, codes)
    for weight, inputs in ((np.ones((2, 4)), moments), (np.zeros((3, 5)), other)):
        result = change(weight, inputs)
        np.testing.assert_array_equal(result.weight, weight)
        assert result.converged
        assert result.change == 0


def test_gaps_below_noise_are_left():
    """Two groups of the same rows, moved by less than chance would move them."""
    W, X, _ = problem(0, 3, 5, n_rows=200)
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
    W, X, codes = problem(3, 3, 5, n_rows=m)
    moments = GroupMoments.from_data(X, codes)
    (before, _), noise = LayerMoments(moments).gaps(W), LayerMoments(moments).noise(W)
    target = before / np.sqrt(15)
    assert (noise[0, 0] > target) == (binding == "noise")
    result = directly(W, moments, covariance=1.0, noise_floor=True)
    assert result.gaps_after[0] == pytest.approx(max(target, noise[0, 0]), rel=1e-3)
    np.testing.assert_array_equal(result.noise, noise)


def test_a_rare_group_leaves_the_others_their_bound():
    """Twelve rows at random give a pair of large groups no slack, nor cost a change."""
    W, X, codes = problem(0, 3, 5, n_rows=4000)
    two = GroupMoments.from_data(X, codes)
    rare = codes.copy()
    rare[np.random.default_rng(0).choice(4000, 12, replace=False)] = 2
    three = GroupMoments.from_data(X, rare)
    weights = bounds_of(W, three).weights
    assert (weights.max(axis=1) == 1).all()
    np.testing.assert_array_equal(weights[:, 0], 1)
    assert (weights[:, 1:] < [[0.02], [0.9]]).all()
    gap = LayerMoments(two).gaps
    # Nor has a pair of groups of the same rows, beside a third one.
    equal = np.vstack([X[:200], X[:200], X[:200] + 5.0])
    moments = GroupMoments.from_data(equal, np.repeat([0, 1, 2], 200))
    assert bounds_of(W, moments).weights[0, 0] == 0
    np.testing.assert_array_equal(bounds_of(W, moments, False).weights[0], 1)
    with_rare = directly(W, three, noise_floor=True)
    assert gap(with_rare.weight)[0] <= 1.05 * gap(directly(W, two).weight)[0]
    assert with_rare.change < directly(W, three).change


@pytest.mark.parametrize(("noise", "scale"), [(0.0, 1e-5), (1e-3, 1e6)])
def test_whitening_of_dependent_inputs_in_any_units(noise, scale):
    """The root is that of S + noise diag(S); of the rank of S without noise."""
    _, X, codes = problem(0, n=4, n_groups=3)
    X = np.column_stack([X, X[:, 0] - 2 * X[:, 1], X[:, 2]])
    X *= scale * 10.0 ** np.array([-4, 9, 0, 3, -4, 6])
    weight = np.random.default_rng(1).standard_normal((3, 6))
    whitened, T = layer_of(X, codes).whitening(weight, noise)
    S = X.T @ X + noise * np.diag((X**2).sum(axis=0))
    assert T.shape == (6, 6 if noise else 4)
    np.testing.assert_allclose(T.T @ S @ T, np.eye(T.shape[1]), atol=1e-9)
    np.testing.assert_allclose(whitened, weight @ S @ T, rtol=1e-6)


@pytest.mark.parametrize(("n_groups", "n_outputs"), [(2, 60), (3, 3)])
def test_unfairness_against_its_definition(n_groups, n_outputs):
    """Many outputs of few inputs included."""
    _, X, codes = problem(0, n=6, n_groups=n_groups)
    weight = np.random.default_rng(0).standard_normal((n_outputs, 6))
    moments = GroupMoments.from_data(X, codes)
    unfairness = layer_unfairness("some", moments, weight)
    Z = X @ weight.T
    parts = [Z[codes == g] for g in range(n_groups)]
    C = [np.cov(part.T, bias=True) for part in parts]
    mean_gap, gap = moment_gaps(Z, sensitive_features=codes)
    within = sum(len(p) * c for p, c in zip(parts, C, strict=True)) / len(Z)
    relative = mean_gap / np.sqrt(np.trace(within)), gap / np.linalg.norm(within)
    expected = (mean_gap, gap, *relative)
    np.testing.assert_allclose(list(vars(unfairness).values())[1:], expected)
    assert unfairness.score == pytest.approx(np.hypot(*relative))
    # Relative gaps have no units.
    scaled = layer_unfairness("some", moments, 1000 * weight)
    assert scaled.covariance_gap == pytest.approx(1e6 * gap)
    assert scaled.score == pytest.approx(unfairness.score)


def test_unfairness_without_a_spread_or_that_overflows():
    codes, weight = np.repeat([0, 1], 8), np.array([[0.5, 2.0]])
    same = np.tile([1.0, 2.0], (16, 1))
    unfairness = layer_unfairness("some", GroupMoments.from_data(same, codes), weight)
    assert (unfairness.mean_gap, unfairness.score) == (0.0, 0.0)
    # All the difference there is lies between the groups.
    apart = GroupMoments.from_data(same + codes[:, None] * [0.0, 1.0], codes)
    unfairness = layer_unfairness("some", apart, weight)
    assert unfairness == LayerUnfairness("some", 2.0, 0.0, np.inf, 0.0)
    assert unfairness.score == np.inf
    moments = GroupMoments.from_data(*problem(0)[1:])
    moments.scatters *= 1e300
    with pytest.raises(ValueError, match="overflow: scale the targets"):
        LayerMoments(moments).gaps(1e10 * np.eye(7))


def test_noise_against_permutations():
    """Mean squares of both gaps where the groups are drawn at random."""
    codes = np.repeat([0, 1, 2], [40, 150, 400])
    X = np.random.default_rng(1).standard_normal((590, 4)) @ np.diag([1, 2, 3, 0.1])
    weight = np.random.default_rng(2).standard_normal((3, 4))
    rng = np.random.default_rng(0)
    layers = (layer_of(X, rng.permutation(codes)) for _ in range(400))
    squares = np.mean([layer.pair_gaps(weight) ** 2 for layer in layers], axis=0)
    noise = layer_of(X, codes).noise(weight)
    assert noise.shape == (2, 3)
    np.testing.assert_allclose(noise**2, squares, rtol=0.15)
    # Of equal outputs the variance is rounding, which may be negative.
    for seed in range(20):
        t = np.random.default_rng(seed).normal(size=50)
        layer = layer_of(np.column_stack([t, 0.1 * t]), np.arange(50) % 2)
        assert (layer.noise(np.array([[0.1, -1.0]])) < 1e-7).all()
