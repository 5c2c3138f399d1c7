import itertools
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scalefair.cluster._assignment_prices import (
    AssignmentProblem,
    ColumnBound,
    _merge_ties,
    optimal_prices,
)
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linear_sum_assignment, milp

from scalefair.cluster import (
    FairAssignment,
    FairSpectralClustering,
    _assignment_prices,
    _share_bounds,
    fair_assignment,
)
from scalefair.cluster._fair_assignment import CountSearch
from scalefair.cluster._share_bounds import ShareBounds
from scalefair.datasets import make_fair_sbm
from scalefair.kernels import move_along_paths
from scalefair.metrics import balance_score


def shares_hold(labels, groups, k, tolerance):
    """The bounds, from the definition, in whole numbers but for the tolerance."""
    n = len(labels)
    for cluster, group in itertools.product(range(k), np.unique(groups)):
        inside = labels == cluster
        if not inside.any():
            return False
        n_group = int((groups == group).sum())
        expected = n_group * int(inside.sum())
        count = int((inside & (groups == group)).sum())
        if abs(count * n - expected) > tolerance * expected + 1e-7:
            return False
    return True


def squared(X, centers):
    return ((X[:, None] - centers[None]) ** 2).sum(axis=2)


def by_integer_program(X, centers, groups, tolerance):
    """Cheapest fair assignment by HiGHS, one binary variable per pair; inf: none."""
    C = squared(X, centers)
    n, k = C.shape
    rows = sparse.kron(sparse.eye_array(n), np.ones((1, k)))
    sizes = sparse.kron(np.ones((1, n)), sparse.eye_array(k))
    constraints = [LinearConstraint(rows, 1, 1), LinearConstraint(sizes, 1, np.inf)]
    for group in np.unique(groups):
        member = (groups == group).astype(float)
        share = member.mean()
        counts = sparse.kron(member[None, :], sparse.eye_array(k))
        high, low = (1 + tolerance) * share, max(1 - tolerance, 0) * share
        constraints.append(LinearConstraint(counts - high * sizes, -np.inf, 0))
        constraints.append(LinearConstraint(low * sizes - counts, -np.inf, 0))
    result = milp(
        C.ravel(),
        integrality=np.ones(n * k),
        bounds=Bounds(0, 1),
        constraints=constraints,
        options={"mip_rel_gap": 0},
    )
    return np.inf if result.x is None else result.fun


def problem(seed, n, k, h, d=2):
    """Groups that follow the clusters, so that rows must move."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((k, d))
    cluster = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    groups = np.where(rng.random(n) < 0.8, cluster % h, rng.integers(0, h, n))
    groups[:h] = np.arange(h)
    X = centers[cluster] + 0.3 * rng.standard_normal((n, d))
    return X, centers, groups


def checked(X, centers, groups, tolerance=0.1):
    """What every result promises, from the definitions."""
    result = fair_assignment(X, centers, sensitive_features=groups, tolerance=tolerance)
    centers = np.asarray(centers)
    k = len(centers)
    C = squared(X, centers)
    assert result.labels.dtype == np.int32
    assert shares_hold(result.labels, groups, k, tolerance)
    assert result.max_violation == 0.0
    cost = C[np.arange(len(X)), result.labels].sum()
    assert result.cost == pytest.approx(cost, rel=1e-9)
    assert result.nearest_cost == pytest.approx(C.min(axis=1).sum(), rel=1e-9)
    assert result.lower_bound <= result.cost
    assert result.lower_bound >= result.nearest_cost * (1 - 1e-12)
    assert 0 <= result.gap <= 1
    priced = C + result.prices[np.unique(groups, return_inverse=True)[1]]
    least = priced.min(axis=1)
    own = priced[np.arange(len(X)), result.labels]
    np.testing.assert_allclose(own, least, atol=1e-9 * (abs(priced).max() or 1))
    return result


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("tolerance", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(
    ("n", "k", "h"), [(12, 2, 2), (8, 3, 2), (12, 2, 3), (30, 4, 2), (30, 4, 3)]
)
def test_against_the_whole_integer_program(n, k, h, tolerance, seed):
    X, centers, groups = problem(seed, n, k, h)
    exact = by_integer_program(X, centers, groups, tolerance)
    if np.isinf(exact):
        with pytest.raises(ValueError, match="No whole counts"):
            fair_assignment(X, centers, sensitive_features=groups, tolerance=tolerance)
        return
    result = checked(X, centers, groups, tolerance)
    assert result.lower_bound <= exact * (1 + 1e-6)
    assert exact * (1 - 1e-6) <= result.cost <= exact * 1.002


@pytest.mark.parametrize("tolerance", [0.02, 0.5])
def test_many_rows_small_gap(tolerance):
    X, centers, groups = problem(0, 3000, 6, 4, d=5)
    result = checked(X, centers, groups, tolerance)
    assert result.gap <= 3e-3
    assert result.n_moved > 0


def test_tighter_costs_more():
    X, centers, groups = problem(1, 150, 4, 3)
    costs = [
        fair_assignment(X, centers, sensitive_features=groups, tolerance=t)
        for t in (0.05, 0.2, 0.6, 10.0)
    ]
    for tight, loose in itertools.pairwise(costs):
        assert tight.lower_bound >= loose.lower_bound * (1 - 1e-9)
        assert tight.cost >= loose.cost * (1 - 3e-3)
    assert costs[-1].n_moved == 0
    assert costs[-1].cost == costs[-1].nearest_cost == costs[-1].lower_bound
    assert "nearest" in costs[-1].message


def test_same_call_same_result_and_invariances():
    X, centers, groups = problem(2, 1500, 4, 3)
    base = checked(X, centers, groups)
    np.testing.assert_array_equal(checked(X, centers, groups).labels, base.labels)
    order = np.random.default_rng(0).permutation(len(X))
    for factor, *changed in (
        (1.0, X[order], centers, groups[order]),
        (1.0, X, centers, np.array(["z", "b", "m"])[groups]),
        (1e-6, 1e-6 * X, 1e-6 * centers, groups),
        (1e5, 1e5 * X, 1e5 * centers, groups),
        (1.0, X + 1e4, centers + 1e4, groups),
    ):
        result = checked(*changed)
        # Another optimum within the gap that ends the search.
        assert result.cost == pytest.approx(factor**2 * base.cost, rel=3e-3)
        bound = factor**2 * base.lower_bound
        assert result.lower_bound == pytest.approx(bound, rel=3e-3)
        assert result.gap <= 3e-3


class TestTies:
    def test_identical_rows(self):
        # Every row costs the same in its group: half must move, any half.
        X = np.repeat([[0.0], [1.0]], 10_000, axis=0)
        groups = np.repeat([0, 1], 10_000)
        result = checked(X, [[0.0], [1.0]], groups, 0.0)
        # Moving m of one group and m' of the other costs m + m' = 10,000.
        assert result.cost == pytest.approx(10_000)
        assert result.gap <= 1e-3
        assert result.n_moved == 10_000

    def test_duplicate_centres(self):
        X = np.random.default_rng(0).standard_normal((400, 2))
        centers = np.zeros((4, 2))
        groups = np.arange(400) % 2
        result = checked(X, centers, groups, 0.1)
        assert result.n_moved == 0
        assert result.cost == pytest.approx((X**2).sum())

    @pytest.mark.parametrize(("seed", "noise"), [(0, 0.0), (1, 1e-13)])
    def test_few_distinct_rows(self, seed, noise):
        # Thousands of rows change their centre at the same prices.
        rng = np.random.default_rng(seed)
        X = rng.integers(0, 3, (2600, 1)) + noise * rng.standard_normal((2600, 1))
        groups = rng.integers(0, 4, 2600)
        centers = X[rng.choice(2600, 8, replace=False)]
        centers += seed * rng.standard_normal(centers.shape)
        result = checked(X, centers, groups, 0.05)
        assert "solved in" in result.message

    @pytest.mark.parametrize("n", [60, 8000])
    def test_all_rows_and_centres_equal(self, n):
        result = checked(np.ones((n, 2)), np.ones((3, 2)), np.arange(n) % 2)
        assert result.cost == result.gap == 0.0


class TestDegenerate:
    def test_one_cluster_and_one_group(self):
        X, centers, groups = problem(3, 200, 4, 2)
        assert not checked(X, X[:1], groups, 0.0).labels.any()
        result = checked(X, centers, np.zeros(200, int))
        np.testing.assert_array_equal(result.labels, squared(X, centers).argmin(1))
        assert result.gap == 0

    def test_as_many_clusters_as_rows(self):
        rng = np.random.default_rng(0)
        X, centers = rng.standard_normal((2, 6, 2))
        result = fair_assignment(
            X, centers, sensitive_features=np.arange(6) % 2, tolerance=1.0
        )
        assert sorted(result.labels) == list(range(6))
        C = squared(X, centers)
        assert result.cost == pytest.approx(C[linear_sum_assignment(C)].sum())

    def test_group_of_one_row(self):
        X, centers, groups = problem(4, 300, 3, 2)
        groups = np.where(np.arange(300) == 7, 5, groups)
        with pytest.raises(ValueError, match="tolerance"):
            fair_assignment(X, centers, sensitive_features=groups, tolerance=0.5)
        checked(X, centers, groups, 2.0)

    @pytest.mark.parametrize("tolerance", [5.0, 1e6, 1e16, 1e308])
    def test_far_centre_gets_a_row(self, tolerance):
        X, centers, groups = problem(5, 100, 2, 2)
        centers = np.vstack([centers, [[100.0, 100.0]]])
        result = checked(X, centers, groups, tolerance)
        assert (result.labels == 2).sum() == 1
        C = squared(X, centers)
        forced = C.min(axis=1).sum() + (C[:, 2] - C.min(axis=1)).min()
        assert result.cost == pytest.approx(forced)
        assert result.gap < 1e-6

    def test_nothing_to_gain_after_the_fallback(self, monkeypatch):
        # No gap is left between cost and bound, by which programs could be scaled.
        monkeypatch.setattr(CountSearch, "_nearest_table", lambda *_: None)
        X, centers, groups = np.ones((60, 3)), np.ones((3, 3)), np.arange(60) % 2
        result = checked(X, centers, groups)
        assert result.cost == 0.0


@pytest.mark.parametrize(
    ("sizes", "k", "tolerance"),
    [
        ([3, 200], 20, 0.1),
        ([7, 13], 2, 0.0),
        ([5, 5, 11], 4, 0.05),
        ([40, 1], 3, 0.3),
        # Pairs have shares of 1/2, 70/155 wanted: 0.1072.
        ([70, 85], 25, 0.1),
    ],
)
def test_tolerance_named_in_the_error_is_feasible(sizes, k, tolerance):
    groups = np.repeat(np.arange(len(sizes)), sizes)
    X = np.random.default_rng(0).standard_normal((len(groups), 2))
    with pytest.raises(ValueError, match="No whole counts") as error:
        fair_assignment(X, X[:k], sensitive_features=groups, tolerance=tolerance)
    named = float(re.search(r"or tolerance=([\d.e+]+),", str(error.value))[1])
    assert named > tolerance
    result = fair_assignment(X, X[:k], sensitive_features=groups, tolerance=named)
    assert shares_hold(result.labels, groups, k, named)
    if named < 0.9:  # and it is the least, to the digits printed
        assert ShareBounds(np.array(sizes), k, named - 3e-4).any_table() is None


@pytest.mark.parametrize("block", [3, 4096])
@pytest.mark.parametrize("tolerance", [0.0, 0.1, 0.25, 0.5])
def test_smallest_cluster(monkeypatch, tolerance, block):
    monkeypatch.setattr(_share_bounds, "_SIZES", block)
    sizes = np.array([30, 50, 20])
    n = sizes.sum()

    def possible(m):
        return any(
            sum(c) == m
            and all(
                abs(c[s] - sizes[s] * m / n) <= tolerance * sizes[s] * m / n + 1e-9
                for s in range(3)
            )
            for c in itertools.product(range(m + 1), repeat=3)
        )

    expected = next(m for m in range(1, 20) if possible(m))
    assert ShareBounds(sizes, 2, tolerance).smallest == expected
    assert ShareBounds(sizes, int(n // expected) + 1, tolerance).smallest == 0


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("ties", [False, True])
def test_paths_against_linear_sum_assignment(seed, ties):
    rng = np.random.default_rng(seed)
    n, k = 150, 6
    C = rng.integers(0, 4, (n, k)).astype(float) if ties else rng.random((n, k))
    target = rng.multinomial(n, rng.dirichlet(np.ones(k)))
    labels, prices = np.empty(n, np.int64), np.zeros(k)
    assert move_along_paths(C, prices, target, labels) == 0
    np.testing.assert_array_equal(np.bincount(labels, minlength=k), target)
    repeated = np.repeat(C, target, axis=1)
    exact = repeated[linear_sum_assignment(repeated)].sum()
    assert C[np.arange(n), labels].sum() == pytest.approx(exact)
    # The prices prove it.
    dual = (C + prices).min(axis=1).sum() - prices @ target
    assert dual == pytest.approx(exact)


def _relaxation(seed, n, k, h, tolerance):
    X, centers, groups = problem(seed, n, k, h, d=3)
    return whole_problem(X, centers, groups, tolerance)


@pytest.mark.parametrize("pairs", [20_000, 500])  # at once, and open pairs alone
def test_relaxation_against_the_whole_linear_program(pairs, monkeypatch):
    monkeypatch.setattr(_assignment_prices, "_WHOLE", pairs)
    n = 900
    relaxation = _relaxation(0, n, 6, 3, 0.1)
    result = optimal_prices(relaxation)
    assert result.optimal
    C = relaxation.costs
    k = C.shape[1]
    rows = sparse.kron(sparse.eye_array(n), np.ones((1, k)))
    sizes = sparse.kron(np.ones((1, n)), sparse.eye_array(k))
    constraints = [LinearConstraint(rows, 1, 1)]
    for s in range(3):
        member = sparse.csr_array((relaxation.groups == s)[None, :].astype(float))
        counts = sparse.kron(member, sparse.eye_array(k))
        constraints += [
            LinearConstraint(counts - relaxation.bounds.upper[s] * sizes, -np.inf, 0),
            LinearConstraint(relaxation.bounds.lower[s] * sizes - counts, -np.inf, 0),
        ]
    whole = milp(C.ravel(), bounds=Bounds(0, 1), constraints=constraints)
    assert result.lower_bound == pytest.approx(whole.fun, rel=1e-7)


@pytest.mark.parametrize("noise", [0.0, 1e-12])
def test_relaxation_of_merged_rows(noise):
    # The same as of the rows one by one.
    rng = np.random.default_rng(2)
    relaxation = _relaxation(0, 5000, 6, 3, 0.1)
    some = relaxation.costs[rng.integers(0, 5000, 40)]
    costs = np.ascontiguousarray(some[rng.integers(0, 40, 5000)])
    costs *= 1 + noise * rng.random(costs.shape)
    tied = replace(relaxation, costs=costs)
    merged, times = _merge_ties(tied)
    assert merged.costs.shape[0] <= 120
    assert times.sum() == 5000
    sizes = np.add.reduceat(times, merged.offsets[:-1])
    np.testing.assert_array_equal(sizes, np.diff(tied.offsets))
    result = optimal_prices(tied)
    assert result.optimal
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_assignment_prices, "_WHOLE", 10**6)
        whole = optimal_prices(tied)
    assert result.lower_bound == pytest.approx(whole.lower_bound, rel=1e-8)


def test_linear_program_that_highs_cannot_solve(monkeypatch):
    failed = SimpleNamespace(status=4, x=None)
    monkeypatch.setattr(_assignment_prices, "linprog", lambda *_, **__: failed)
    X, centers, groups = problem(0, 300, 4, 2)
    result = checked(X, centers, groups, 0.3)
    assert "not solved to the end" in result.message


@pytest.mark.parametrize("seed", range(4))
def test_any_prices_give_a_lower_bound(seed):
    relaxation = _relaxation(seed, 400, 4, 3, 0.2)
    optimum = optimal_prices(relaxation).lower_bound
    rng = np.random.default_rng(seed)
    for scale in (0.01, 0.3, 10.0):
        prices = scale * rng.standard_normal((3, 4))
        credits = scale * rng.random(4)
        for raised in (prices, prices + 5 * scale):
            _, bound = relaxation.certify(raised, credits)
            assert bound <= optimum * (1 + 1e-9)


def whole_problem(X, centers, groups, tolerance):
    """Problem with its rows sorted by group."""
    bounds = ShareBounds(np.bincount(groups), len(centers), tolerance)
    order = np.argsort(groups, kind="stable")
    return AssignmentProblem(
        costs=squared(X[order], centers),
        offsets=np.append(0, np.cumsum(bounds.sizes)),
        weights=np.ones(bounds.sizes.size),
        bounds=bounds,
    )


@pytest.mark.parametrize("seed", range(4))
def test_bounds_of_integer_programs_hold(seed):
    # From a poor table the gap is wide: a wrong bound would pass the optimum.
    X, centers, groups = problem(seed, 40, 4, 2)
    exact = by_integer_program(X, centers, groups, 0.3)
    whole = whole_problem(X, centers, groups, 0.3)
    relaxed = optimal_prices(whole)
    search = CountSearch(whole, relaxed.lower_bound)
    search.evaluate(whole.bounds.any_table(), relaxed.prices)
    found = search._table_of_rows(relaxed)
    assert relaxed.lower_bound <= search.lower_bound <= exact * (1 + 1e-6)
    search.evaluate(found, relaxed.prices)
    assert exact * (1 - 1e-6) <= search.cost <= exact * 1.001
    assert search.lower_bound >= exact * 0.99


@pytest.mark.parametrize("most_sizes", [2, 9, 4096])
@pytest.mark.parametrize("seed", range(4))
def test_bounds_of_whole_columns_hold(seed, most_sizes, monkeypatch):
    monkeypatch.setattr(_assignment_prices, "_MOST_SIZES", most_sizes)
    X, centers, groups = problem(seed, 40, 4, 2)
    exact = by_integer_program(X, centers, groups, 0.3)
    whole = whole_problem(X, centers, groups, 0.3)
    relaxed = optimal_prices(whole)
    bound = ColumnBound(whole)
    _, value = bound.maximise(relaxed, 2 * exact)
    assert relaxed.lower_bound * (1 - 1e-9) <= value <= exact * (1 + 1e-9)
    rng = np.random.default_rng(seed)
    for size in (0.01, 1.0):  # at any prices
        prices = relaxed.prices + size * rng.standard_normal(relaxed.prices.shape)
        assert bound._evaluate(prices)[0] <= exact * (1 + 1e-9)


def test_clusters_that_are_dust():
    # Whole rows in small clusters cost more than the linear relaxation knows.
    rng = np.random.default_rng(0)
    n, k = 3000, 12
    centers = np.concatenate([np.zeros((1, k)), 5 * np.eye(k)[1:]])
    labels = np.where(np.arange(n) < 20 * (k - 1), 1 + np.arange(n) % (k - 1), 0)
    X = centers[labels] + rng.normal(scale=0.3, size=(n, k))
    groups = (rng.random(n) < 0.35) | (rng.random(n) < 0.3)
    whole = whole_problem(X, centers, groups, 0.1)
    relaxed = optimal_prices(whole)
    _, bound = ColumnBound(whole).maximise(relaxed, 2 * relaxed.lower_bound)
    assert bound > relaxed.lower_bound * 1.001
    result = fair_assignment(X, centers, sensitive_features=groups, tolerance=0.1)
    assert result.max_violation == 0.0
    assert relaxed.lower_bound * 1.001 < result.lower_bound <= result.cost


@pytest.mark.parametrize("tolerance", [-0.1, np.nan, np.inf, "0.1", None])
def test_bad_tolerance(tolerance):
    X, centers, groups = problem(0, 30, 3, 2)
    with pytest.raises(ValueError, match="tolerance must be a finite number >= 0"):
        fair_assignment(X, centers, sensitive_features=groups, tolerance=tolerance)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, c, g: (X, np.zeros((3, 4)), g), "must have the 2 columns of X"),
        (lambda X, c, g: (X, np.zeros((31, 2)), g), "31 centers for 30 rows"),
        (lambda X, c, g: (np.nan * X, c, g), "X contains NaN"),
        (lambda X, c, g: (1e160 * X, 1e160 * c, g), "of X to centers overflow"),
        (lambda X, c, g: (X, c, g[1:]), "one group per sample"),
    ],
)
def test_bad_input(change, message):
    X, centers, groups = change(*problem(0, 30, 3, 2))
    with pytest.raises(ValueError, match=message):
        fair_assignment(X, centers, sensitive_features=groups)


# --- assign_labels="fair" of the estimator -------------------------------------------


@pytest.fixture(scope="module")
def hard():
    """Clusters that k-means leaves unbalanced: many clusters of few nodes."""
    return make_fair_sbm(
        200, n_clusters=4, n_groups=2, average_degree=20, random_state=3
    )


def fit(data, k=8, **options):
    model = FairSpectralClustering(k, random_state=0, n_init=3, **options)
    return model.fit(data.graph, sensitive_features=data.sensitive_features)


@pytest.fixture(scope="module")
def plain(hard):
    with pytest.warns(UserWarning, match="k-means has lost"):
        return fit(hard)


@pytest.mark.parametrize("tolerance", [0.05, 0.2, 50.0])
def test_bounds_hold_exactly(hard, plain, tolerance):
    groups = np.asarray(hard.sensitive_features)
    model = fit(hard, assign_labels="fair", balance_tolerance=tolerance)
    assert shares_hold(model.labels_, groups, 8, tolerance)
    if tolerance == 50.0:  # moves hardly anything
        assert (model.labels_ != plain.labels_).mean() < 0.01
    else:
        assert balance_score(model.labels_, sensitive_features=groups) > balance_score(
            plain.labels_, sensitive_features=groups
        )
    # The embedding is the same: only the rounding differs.
    np.testing.assert_array_equal(model.embedding_, plain.embedding_)
    result = model.assignment_
    assert isinstance(result, FairAssignment)
    assert result.max_violation == 0
    np.testing.assert_array_equal(result.labels, model.labels_)
    assert plain.assignment_ is None


def test_nodes_left_out_stay_out(hard):
    W = hard.graph.tolil()
    W[7] = 0
    W[:, 7] = 0
    data = type(hard)(**{**hard, "graph": W.tocsr()})
    model = fit(data, assign_labels="fair", connected_components="largest")
    assert model.labels_[7] == -1
    assert set(model.labels_) == {-1, *range(8)}


def test_infeasible_bounds_name_a_tolerance(hard):
    groups = np.zeros(200, dtype=int)
    groups[:3] = 1  # three nodes cannot be in all eight clusters
    model = FairSpectralClustering(
        8, assign_labels="fair", balance_tolerance=0.1, random_state=0
    )
    message = r"within balance_tolerance=0\.1 .* or balance_tolerance=\d"
    with pytest.raises(ValueError, match=message):
        model.fit(hard.graph, sensitive_features=groups)
    assert not hasattr(model, "labels_")
