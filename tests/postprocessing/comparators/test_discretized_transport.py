"""Transport of binned scores: the program, and the regressor."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import ks_2samp
from sklearn.base import BaseEstimator, RegressorMixin

from scalefair.postprocessing import (
    DiscretizedTransportRegressor,
    WassersteinBarycenterRegressor,
)
from scalefair.postprocessing.comparators._discretized_transport import (
    monotone_coupling,
    solve_parity_program,
)


class _First(RegressorMixin, BaseEstimator):
    """The first feature is the score; nothing to fit."""

    def fit(self, X, y=None):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, X):
        return np.asarray(X)[:, 0]


def _map(scores, groups, **kwargs):
    kwargs = {"random_state": 0, "group_predictor": False, **kwargs}
    model = DiscretizedTransportRegressor(_First(), **kwargs)
    return model.fit(scores[:, None], sensitive_features=groups)


def _moved(scores, groups, **kwargs):
    model = _map(scores, groups, **kwargs)
    return model.predict(scores[:, None], sensitive_features=groups)


def _rows(m=300, n_groups=2, seed=0):
    rng = np.random.default_rng(seed)
    groups = rng.integers(n_groups, size=m)
    groups[:n_groups] = np.arange(n_groups)
    return rng.standard_normal(m) * (1 + groups) + 2 * groups, groups


def _histograms(n_groups, n_bins, seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 6, (n_groups, n_bins))
    counts[:, rng.integers(n_bins)] += 1
    shares = rng.dirichlet(np.full(n_groups, 3.0))
    return counts / counts.sum(axis=1, keepdims=True), shares


def _ks(a, b):
    return ks_2samp(a, b, method="asymp").statistic


def _largest_ks(moved):
    sums = np.cumsum(moved, axis=1)
    return np.abs(sums[:, None] - sums).max()


def _least_cost(source, target):
    """Cost of the order-keeping coupling, squares of bins."""
    steps = np.arange(len(source))
    coupling = monotone_coupling(np.cumsum(source), np.cumsum(target))
    return (coupling * (steps[:, None] - steps) ** 2).sum()


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_groups=st.integers(2, 4),
    n_bins=st.integers(1, 9),
    tolerance=st.sampled_from([0.0, 0.1, 0.4, 1.0]),
)
def test_program_keeps_the_tolerance_at_the_cost_it_states(
    seed, n_groups, n_bins, tolerance
):
    distributions, shares = _histograms(n_groups, n_bins, seed)
    plan = solve_parity_program(distributions, shares, tolerance)
    assert (plan.moved >= 0).all()
    np.testing.assert_allclose(plan.moved.sum(axis=1), 1.0)
    assert _largest_ks(plan.moved) <= tolerance + 1e-7
    costs = [_least_cost(r, q) for r, q in zip(distributions, plan.moved, strict=True)]
    assert shares @ costs == pytest.approx(plan.cost, abs=1e-5)
    if _largest_ks(distributions) <= tolerance:
        np.testing.assert_allclose(plan.moved, distributions, atol=1e-6)
    if tolerance == 0.0:
        np.testing.assert_array_equal(plan.moved, [plan.barycenter] * n_groups)


@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize("tolerance", [0.0, 0.03, 0.1])
def test_program_against_another_method_and_wording(n_groups, tolerance):
    # As the authors write it: couplings and barycentre, cumulated dense sums.
    k = 5
    distributions, shares = _histograms(n_groups, k, seed=7)
    steps = np.arange(k)
    unit, ones, sums = np.eye(k), np.ones((1, k)), np.tri(k)
    groups = np.eye(n_groups)
    none = np.zeros((n_groups * k, k))
    moved = np.kron(groups, sums @ np.kron(ones, unit))
    middle = np.tile(sums, (n_groups, 1))
    found = linprog(
        np.r_[np.kron(shares, ((steps[:, None] - steps) ** 2).ravel()), np.zeros(k)],
        A_eq=np.hstack([np.kron(groups, np.kron(unit, ones)), none]),
        b_eq=distributions.ravel(),
        A_ub=np.vstack([np.hstack([moved, -middle]), np.hstack([-moved, middle])]),
        b_ub=np.full(2 * n_groups * k, tolerance / 2),
        method="highs-ipm",
    )
    plan = solve_parity_program(distributions, shares, tolerance)
    assert plan.cost == pytest.approx(found.fun, abs=1e-7)
    assert plan.cost > 1e-3


def test_barycenter_against_the_multimarginal_program():
    # One joint distribution of all bins; each tuple goes to its best common bin.
    k = 6
    distributions, shares = _histograms(3, k, seed=1)
    tuples = np.stack(np.meshgrid(*[np.arange(k)] * 3, indexing="ij")).reshape(3, -1)
    spread = (tuples[:, :, None] - np.arange(k)) ** 2
    costs = np.tensordot(shares, spread, axes=1).min(axis=1)
    marginals = np.vstack([tuples[g] == np.arange(k)[:, None] for g in range(3)])
    found = linprog(costs, A_eq=marginals.astype(float), b_eq=distributions.ravel())
    plan = solve_parity_program(distributions, shares)
    assert plan.cost == pytest.approx(found.fun, abs=1e-7)


def test_known_answers():
    # All of one group in the first bin, all of the other in the last.
    apart = np.array([[1.0, 0, 0, 0, 0], [0, 0, 0, 0, 1.0]])
    plan = solve_parity_program(apart, np.array([0.5, 0.5]))
    np.testing.assert_allclose(plan.barycenter, [0, 0, 1, 0, 0], atol=1e-9)
    assert plan.cost == pytest.approx(4.0)
    plan = solve_parity_program(apart, np.array([0.75, 0.25]))
    np.testing.assert_allclose(plan.barycenter, [0, 1, 0, 0, 0], atol=1e-9)
    # A quarter of each group may stay where it is.
    plan = solve_parity_program(apart, np.array([0.5, 0.5]), tolerance=0.25)
    assert plan.cost < 4.0
    assert _largest_ks(plan.moved) == pytest.approx(0.25, abs=1e-7)
    # Bins of no width.
    plan = solve_parity_program(np.ones((3, 1)), np.full(3, 1 / 3))
    assert plan.cost == 0.0


def test_cost_falls_with_the_tolerance():
    distributions, shares = _histograms(3, 12, seed=2)
    costs = [
        solve_parity_program(distributions, shares, tolerance).cost
        for tolerance in (0.0, 0.05, 0.1, 0.2, 0.4, 1.0)
    ]
    assert (np.diff(costs) <= 1e-9).all()
    assert costs[0] > 2 * costs[3] > 0
    assert costs[-1] == pytest.approx(0.0, abs=1e-9)


def test_coupling_has_both_margins_and_keeps_the_order():
    (source, target), _ = _histograms(2, 8, seed=3)
    coupling = monotone_coupling(np.cumsum(source), np.cumsum(target))
    np.testing.assert_allclose(coupling.sum(axis=1), source, atol=1e-15)
    np.testing.assert_allclose(coupling.sum(axis=0), target, atol=1e-15)
    rows, columns = np.nonzero(coupling > 1e-12)
    assert (np.diff(columns[np.lexsort((columns, rows))]) >= 0).all()


def test_fine_bins_approach_the_barycenter_without_bins():
    scores, groups = _rows(2000, 3, seed=4)
    exact = WassersteinBarycenterRegressor(_First(), jitter=0, group_predictor=False)
    exact.fit(scores[:, None], sensitive_features=groups)
    expected = exact.predict(scores[:, None], sensitive_features=groups)
    errors = []
    for n_bins in (8, 64):
        model = _map(scores, groups, n_bins=n_bins)
        moved = model.predict(scores[:, None], sensitive_features=groups)
        width = np.diff(model.bin_edges_)[0]
        errors.append(np.abs(moved - expected).mean())
        assert errors[-1] < 0.6 * width
        sums = np.cumsum(model.barycenter_)[:-1]
        quantiles = np.interp(
            sums, model.barycenter_.cumsum() - model.barycenter_ / 2, model.bin_centers_
        )
        exact_quantiles = np.interp(sums, exact.barycenter_levels_, exact.barycenter_)
        inner = (sums > 0.02) & (sums < 0.98)
        assert np.abs(quantiles - exact_quantiles)[inner].max() < 1.5 * width
        cost = ((expected - scores) ** 2).mean()
        assert model.transport_cost_ == pytest.approx(cost, abs=width**2)
    assert errors[1] < errors[0] / 4


@pytest.mark.parametrize("n_groups", [2, 4])
@pytest.mark.parametrize(("assignment", "bound"), [("ordered", 0.02), ("random", 0.05)])
def test_groups_agree_after_the_map(n_groups, assignment, bound):
    scores, groups = _rows(4000, n_groups)
    moved = _moved(scores, groups, assignment=assignment)
    parts = [moved[groups == g] for g in range(n_groups)]
    assert max(_ks(a, b) for a in parts for b in parts) < bound


def test_tolerance_is_met_and_used():
    scores, groups = _rows(4000)
    moved = _moved(scores, groups, tolerance=0.2)
    distance = _ks(moved[groups == 0], moved[groups == 1])
    assert distance == pytest.approx(0.2, abs=0.02)


def test_means_break_parity_and_lots_change_more():
    # What is said of the three assignments.
    scores, groups = _rows(4000)
    changes, distances = {}, {}
    for assignment in ("ordered", "random", "mean"):
        moved = _moved(scores, groups, n_bins=12, assignment=assignment)
        changes[assignment] = ((moved - scores) ** 2).mean()
        distances[assignment] = _ks(moved[groups == 0], moved[groups == 1])
    assert changes["random"] > max(changes["ordered"], changes["mean"])
    assert distances["mean"] > 0.1 > 3 * distances["ordered"]
    assert distances["random"] < 0.05


def test_mean_of_the_lots_is_the_mean():
    scores, groups = _rows(200)
    model = _map(scores, groups, n_bins=6, assignment="random")
    model.set_params(random_state=np.random.RandomState(0))
    X = scores[:, None]
    draws = [model.predict(X, sensitive_features=groups) for _ in range(400)]
    model.set_params(assignment="mean")
    means = model.predict(X, sensitive_features=groups)
    np.testing.assert_allclose(np.mean(draws, axis=0), means, atol=0.4)
    assert np.mean(draws) == pytest.approx(means.mean(), abs=0.02)


@pytest.mark.parametrize("assignment", ["ordered", "mean"])
def test_nondecreasing_everywhere_even_in_empty_bins(assignment):
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.normal(0, 0.2, 50), rng.normal(9, 3, 80)])
    groups = np.repeat([0, 1], [50, 80])
    model = _map(scores, groups, assignment=assignment)
    assert (model.distributions_[0] == 0).any()
    grid = np.linspace(scores.min() - 2, scores.max() + 2, 3001)[:, None]
    for g in (0, 1):
        moved = model.predict(grid, sensitive_features=np.full(3001, g))
        assert (np.diff(moved) >= -1e-12).all()
        assert moved.max() <= model.bin_centers_[-1]


def test_outputs_are_centers_of_bins_with_mass():
    scores, groups = _rows()
    model = _map(scores, groups, assignment="random")
    moved = model.predict(scores[:, None], sensitive_features=groups)
    used = model.bin_centers_[model.barycenter_ > 0]
    assert np.isin(moved, used).all()
    np.testing.assert_allclose(np.diff(model.bin_edges_), np.ptp(scores) / 36)


def test_same_seed_same_lots():
    scores, groups = _rows()
    first = _moved(scores, groups, assignment="random", random_state=7)
    again = _moved(scores, groups, assignment="random", random_state=7)
    np.testing.assert_array_equal(first, again)
    other = _moved(scores, groups, assignment="random", random_state=8)
    assert (first != other).any()


@pytest.mark.parametrize("assignment", ["ordered", "mean"])
def test_invariances(assignment):
    scores, groups = _rows(120, 3)
    moved = _moved(scores, groups, assignment=assignment)
    order = np.random.default_rng(1).permutation(120)
    np.testing.assert_allclose(
        _moved(scores[order], groups[order], assignment=assignment), moved[order]
    )
    names = np.array(["q", "c", "x"])[groups]
    np.testing.assert_allclose(
        _moved(scores, names, assignment=assignment), moved, atol=1e-6
    )
    # A power of two, so that no score changes its bin by rounding.
    np.testing.assert_allclose(
        _moved(4 * scores, groups, assignment=assignment), 4 * moved
    )


def test_given_bounds():
    scores, groups = _rows()
    model = _map(scores, groups, bounds=(-1, 3), n_bins=4)
    np.testing.assert_allclose(model.bin_edges_, [-1, 0, 1, 2, 3])
    assert model.distributions_[0, 0] == (scores[groups == 0] < 0).mean()
    for bounds in [(3, -1), (0, 0), (0, np.inf), (0, 1, 2), ("a", "b"), ((0, 1), 2)]:
        with pytest.raises(ValueError, match="bounds must be two finite numbers"):
            _map(scores, groups, bounds=bounds)


def test_constant_scores_and_groups_of_one_row():
    np.testing.assert_array_equal(_moved(np.full(6, 2.0), np.arange(6) % 2), 2.0)
    moved = _moved(np.array([0.0, 1.0]), np.array([0, 1]), n_bins=3)
    np.testing.assert_allclose(moved, 0.5)
    assert np.ptp(_moved(np.array([0.0, 1.0]), np.array([0, 1]), n_bins=1)) == 0


@pytest.mark.parametrize("assignment", ["ordered", "random", "mean"])
def test_scores_far_from_constant_values_of_the_fit(assignment):
    groups = np.arange(6) % 2
    model = _map(np.full(6, 2.0), groups, assignment=assignment)
    scores = np.array([-1e3, 0.0, 2.0, 1e3, 3.0, 1e308])
    moved = model.predict(scores[:, None], sensitive_features=groups)
    np.testing.assert_array_equal(moved, 2.0)


def test_bad_parameters():
    scores, groups = _rows()
    for name, value in [("n_bins", 0), ("tolerance", 1.5), ("assignment", "lot")]:
        with pytest.raises(ValueError, match=f"'{name}' parameter"):
            _map(scores, groups, **{name: value})
