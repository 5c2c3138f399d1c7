"""The barycentre map, and what the comparators share."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment, minimize
from scipy.stats import ks_2samp
from sklearn.base import BaseEstimator, RegressorMixin

from scalefair.postprocessing import WassersteinBarycenterRegressor


class _First(RegressorMixin, BaseEstimator):
    """The first feature is the score; nothing to fit."""

    def fit(self, X, y=None):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, X):
        return np.asarray(X)[:, 0]


def _map(scores, groups, **kwargs):
    kwargs = {"jitter": 0, "random_state": 0, "group_predictor": False, **kwargs}
    model = WassersteinBarycenterRegressor(_First(), **kwargs)
    return model.fit(scores[:, None], sensitive_features=groups)


def _moved(scores, groups, **kwargs):
    model = _map(scores, groups, **kwargs)
    return model.predict(scores[:, None], sensitive_features=groups)


def _rows(m=90, n_groups=3, seed=0):
    rng = np.random.default_rng(seed)
    groups = rng.integers(n_groups, size=m)
    groups[:n_groups] = np.arange(n_groups)
    return rng.standard_normal(m) * (1 + groups) + 2 * groups, groups


def _ks(a, b):
    return ks_2samp(a, b, method="asymp").statistic


def _largest_ks(outputs, groups):
    parts = [outputs[groups == g] for g in np.unique(groups)]
    return max(_ks(a, b) for a in parts for b in parts)


@pytest.mark.parametrize("jitter", [0, 1e-5])
def test_groups_agree_after_the_map(jitter):
    scores, groups = _rows(600, n_groups=4)
    assert _largest_ks(scores, groups) > 0.5
    moved = _moved(scores, groups, jitter=jitter)
    smallest = np.bincount(groups).min()
    assert _largest_ks(np.round(moved, 9), groups) <= 1.01 / smallest


def test_equal_sizes_get_the_average_of_the_sorted_values():
    rng = np.random.default_rng(0)
    scores, groups = rng.standard_normal(30), np.tile([0, 1, 2], 10)
    columns = scores.reshape(10, 3)
    expected = np.empty((10, 3))
    for g in range(3):
        expected[columns[:, g].argsort(), g] = np.sort(columns, axis=0).mean(axis=1)
    np.testing.assert_allclose(
        _moved(scores, groups), expected.ravel(), rtol=0, atol=1e-12
    )


def test_no_equal_distributions_are_nearer():
    # Brute force: any n output values, each group matched to them at least cost.
    scores = np.array([0.0, 3.0, 1.0, 7.0, 2.5, -4.0, 6.0, 0.5])
    groups = np.repeat([0, 1], 4)

    def change(values):
        total = 0.0
        for g in (0, 1):
            costs = (scores[groups == g][:, None] - values) ** 2
            total += costs[linear_sum_assignment(costs)].sum()
        return total

    best = min(
        minimize(change, start, method="Nelder-Mead", options={"maxiter": 4000}).fun
        for start in np.random.default_rng(0).normal(1, 3, (5, 4))
    )
    moved = _moved(scores, groups)
    assert ((moved - scores) ** 2).sum() == pytest.approx(best, rel=1e-5)


def test_weights_are_the_shares_of_the_groups():
    # Two point masses: the barycentre is the mean of all.
    scores = np.array([0.0] * 6 + [4.0] * 2)
    groups = np.array(["a"] * 6 + ["b"] * 2)
    np.testing.assert_allclose(_moved(scores, groups), 1.0)


def test_nondecreasing_and_constant_beyond_the_ends():
    scores, groups = _rows()
    model = _map(scores, groups)
    grid = np.linspace(scores.min() - 5, scores.max() + 5, 2001)
    for g in range(3):
        moved = model.predict(grid[:, None], sensitive_features=np.full(2001, g))
        assert (np.diff(moved) >= -1e-12).all()
        # Up to the level of an end, not beyond.
        own = np.sort(scores[groups == g])
        ends = model.predict(own[[0, -1], None], sensitive_features=[g, g])
        np.testing.assert_allclose(moved[[0, -1]], ends)


def test_between_two_scores_the_map_is_linear():
    scores, groups = np.array([0.0, 2.0, 10.0, 30.0]), np.array([0, 0, 1, 1])
    model = _map(scores, groups)
    moved = model.predict(np.array([[0.5], [15.0]]), sensitive_features=[0, 1])
    # Barycentre 5 to 16; a quarter of the way in both.
    np.testing.assert_allclose(moved, [7.75, 7.75])


def test_ties_without_jitter_share_the_middle_rank():
    scores = np.array([1.0, 1.0, 1.0, 5.0, 6.0, 7.0])
    groups = np.array([0, 0, 0, 1, 1, 1])
    np.testing.assert_allclose(
        _moved(scores, groups), [3.5, 3.5, 3.5, 3.0, 3.5, 4.0], rtol=1e-12
    )


def test_jitter_spreads_ties_over_their_ranks():
    scores = np.array([1.0] * 400 + list(np.linspace(5, 7, 400)))
    groups = np.repeat([0, 1], 400)
    assert _largest_ks(_moved(scores, groups), groups) > 0.4
    moved = _moved(scores, groups, jitter=1e-5)
    assert _largest_ks(np.round(moved, 9), groups) <= 0.01
    # New rows with the same score too.
    model = _map(scores, groups, jitter=1e-5, random_state=3)
    fresh = model.predict(np.ones((400, 1)), sensitive_features=np.zeros(400))
    assert _ks(fresh, moved[400:]) < 0.1


def test_same_seed_same_outputs():
    scores, groups = _rows()
    first = _moved(scores, groups, jitter=0.1, random_state=7)
    np.testing.assert_array_equal(
        first, _moved(scores, groups, jitter=0.1, random_state=7)
    )
    assert (first != _moved(scores, groups, jitter=0.1, random_state=8)).any()
    model = _map(scores, groups, jitter=0.1, random_state=np.random.RandomState(0))
    X, known = np.ones((1, 1)), [1]
    draws = {float(model.predict(X, sensitive_features=known)[0]) for _ in range(5)}
    assert len(draws) == 5


def test_global_random_state_is_left_alone():
    scores, groups = _rows()
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    _moved(scores, groups, jitter=0.1, random_state=None)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n_groups=st.integers(2, 4), ties=st.booleans())
def test_invariances(seed, n_groups, ties):
    scores, groups = _rows(25, n_groups, seed)
    if ties:
        scores = np.round(scores)
    moved = _moved(scores, groups)
    close = {"rtol": 0, "atol": 1e-11 * (1 + np.abs(scores).max())}
    order = np.random.default_rng(seed).permutation(25)
    np.testing.assert_allclose(_moved(scores[order], groups[order]), moved[order])
    names = np.array(["q", "c", "x", "a"])[groups]
    np.testing.assert_allclose(_moved(scores, names), moved, **close)
    for slope in (3.0, -0.5):
        np.testing.assert_allclose(
            _moved(slope * scores + 2, groups), slope * moved + 2, **close
        )
    for g in range(n_groups):
        ranks = scores[groups == g].argsort(kind="stable")
        assert (np.diff(moved[groups == g][ranks]) >= -close["atol"]).all()


def test_groups_of_one_row_and_constant_scores():
    np.testing.assert_allclose(_moved(np.array([1.0, 3.0]), np.array([0, 1])), 2.0)
    np.testing.assert_allclose(
        _moved(np.full(5, 2.0), np.arange(5) % 2, jitter=1e-5), 2.0
    )


def test_quantiles_increase_at_strictly_increasing_levels():
    scores, groups = _rows(1000, 5)
    model = _map(np.round(scores, 1), groups)
    assert (np.diff(model.barycenter_levels_) > 0).all()
    assert (np.diff(model.barycenter_) >= 0).all()
    assert len(model.barycenter_) <= 1000
    assert all((np.diff(s) >= 0).all() for s in model.group_scores_)
