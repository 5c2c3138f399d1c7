"""Fair assignment beside enumeration and HiGHS, of one attribute and of several."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linear_sum_assignment, milp

from scalefair.cluster import (
    FairAssignment,
    FairSpectralClustering,
    _assignment_dual,
    fair_assignment,
)
from scalefair.cluster._assignment_dual import RELAXATION_GAP, maximise_dual
from scalefair.cluster._assignment_problem import GAP
from scalefair.cluster._base import PAPERS_METHOD
from scalefair.cluster._fair_assignment import assign_rows
from scalefair.cluster._share_bounds import ShareBounds, round_counts
from scalefair.datasets import make_fair_sbm
from scalefair.metrics import balance_score


def excess(labels, groups, k, tolerance):
    """Most rows by which a count is beyond its bound, rounded outwards; inf: empty."""
    n, worst = len(labels), 0
    if np.unique(labels).size < k:
        return np.inf
    for column in np.reshape(groups, (n, -1)).T:
        for cluster, group in itertools.product(range(k), np.unique(column)):
            in_cluster, in_group = labels == cluster, column == group
            expected = in_group.sum() * in_cluster.sum() / n
            count = (in_cluster & in_group).sum()
            low = np.floor(max(1 - tolerance, 0) * expected + 1e-9)
            high = np.ceil(min(1 + tolerance, n) * expected - 1e-9)
            worst = max(worst, low - count, count - high)
    return worst


def squared(X, centers):
    return ((X[:, None] - centers[None]) ** 2).sum(axis=2)


def problem(seed, n, k, h, d=2):
    """Groups that follow the clusters, so that rows must move."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((k, d))
    cluster = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    groups = np.where(rng.random(n) < 0.8, cluster % h, rng.integers(0, h, n))
    groups[:h] = np.arange(h)
    X = centers[cluster] + 0.3 * rng.standard_normal((n, d))
    return X, centers, groups


def checked(X, centers, groups, tolerance=0.1, weights=None, **options):
    """What every result promises, from the definitions."""
    centers, codes = np.asarray(centers), np.unique(groups, return_inverse=True)[1]
    if weights is None:
        options |= {"sensitive_features": groups, "tolerance": tolerance}
        result = fair_assignment(X, centers, **options)
        weights = np.ones(len(X))
    else:
        result = assign_rows(X, centers, codes[:, None], tolerance, weights, **options)
    k, C = len(centers), squared(X, centers) * weights[:, None]
    rows = np.arange(len(X))
    assert result.labels.dtype == np.int32
    assert excess(result.labels, groups, k, tolerance) == 0
    assert result.max_violation == 0.0
    assert np.bincount(result.labels).min() >= options.get("min_size", 1)
    assert result.cost == pytest.approx(C[rows, result.labels].sum(), rel=1e-9)
    assert result.nearest_cost == pytest.approx(C.min(axis=1).sum(), rel=1e-9)
    assert result.lower_bound <= result.cost
    assert result.lower_bound >= result.nearest_cost * (1 - 1e-12)
    assert 0 <= result.gap <= 1
    priced = C + result.prices[codes]
    excess_cost = priced[rows, result.labels] - priced.min(axis=1)
    assert excess_cost.max() <= 1e-9 * (abs(priced).max() or 1)
    share = np.bincount(codes)[:, None] / len(X)
    counts = np.zeros((codes.max() + 1, k))
    np.add.at(counts, (codes, result.labels), 1)
    expected = share * counts.sum(axis=0)
    is_rounded = (abs(counts - expected) - 1e-9) / expected > tolerance
    np.testing.assert_array_equal(result.rounded, is_rounded)
    return result


@pytest.mark.parametrize("tolerance", [0.0, 0.3])
@pytest.mark.parametrize(
    ("n", "k", "h", "seed"), [(8, 2, 2, 0), (7, 3, 3, 2), (8, 2, 3, 3), (7, 3, 2, 1)]
)
def test_against_enumeration(n, k, h, seed, tolerance):
    X, centers, groups = problem(seed, n, k, h)
    if seed % 2:
        groups[:] = np.arange(n) == 3  # one row alone
        groups[0] = h - 1
    every = np.array(list(itertools.product(range(k), repeat=n)))
    weights = np.random.default_rng(seed).integers(1, 4, n).astype(float)
    for w in (None, weights):
        C = squared(X, centers) * (1 if w is None else w[:, None])
        costs = C[np.arange(n), every].sum(axis=1)
        optimum = next(
            costs[i]
            for i in np.argsort(costs)
            if excess(every[i], groups, k, tolerance) == 0
        )
        result = checked(X, centers, groups, tolerance, weights=w)
        assert result.lower_bound <= optimum * (1 + 1e-9)
        assert optimum * (1 - 1e-9) <= result.cost <= optimum * (1 + 6 * GAP)


@pytest.mark.parametrize(
    ("n", "h", "tolerance", "gap"),
    [(3000, 5, 0.0, 3 * GAP), (3000, 5, 0.5, 3 * GAP), (15_000, 2, 0.02, GAP)],
)
def test_rows_in_blobs(n, h, tolerance, gap):
    X, centers, groups = problem(0, n, 6, h, d=5)
    result = checked(X, centers, groups, tolerance)
    assert result.gap <= gap
    assert result.n_moved > 0


def test_tiny_clusters():
    # Small clusters are bounded by their fair sets, not by the relaxation.
    rng = np.random.default_rng(0)
    n, k = 3000, 12
    centers = np.concatenate([np.zeros((1, k)), 5 * np.eye(k)[1:]])
    labels = np.where(np.arange(n) < 20 * (k - 1), 1 + np.arange(n) % (k - 1), 0)
    X = centers[labels] + rng.normal(scale=0.3, size=(n, k))
    groups = (rng.random(n) < 0.35) | (rng.random(n) < 0.3)
    result = checked(X, centers, groups)
    assert result.gap <= GAP
    # Sets below the least size do not count: with them the gap is 0.7.
    assert checked(X, centers, groups, min_size=60).gap <= 2 * GAP
    with pytest.raises(ValueError, match="min_size must be an integer from 1 to 250"):
        checked(X, centers, groups, min_size=251)


@pytest.mark.parametrize(("tolerance", "unit"), [(0.0, 1e4), (0.1, 1e-6)])
def test_clusters_of_a_handful(tolerance, unit):
    # Without an integer program the gap is 0.05 to 0.07.
    X, centers, groups = problem(0, 90, 15, 2)
    result = checked(unit * X, unit * centers, groups, tolerance)
    assert result.gap <= 2 * GAP


def test_tighter_costs_more():
    X, centers, groups = problem(1, 150, 4, 3)
    costs = [checked(X, centers, groups, t) for t in (0.0, 0.05, 0.2, 0.6, 10.0)]
    for tight, loose in itertools.pairwise(costs):
        assert tight.cost >= loose.cost * (1 - 3e-3)
    assert costs[-1].n_moved == 0
    assert costs[-1].cost == costs[-1].nearest_cost == costs[-1].lower_bound
    assert "nearest" in costs[-1].message


def test_same_bits_and_invariances(with_threads):
    X, centers, groups = problem(2, 1500, 4, 3)
    base = checked(X, centers, groups)
    for n_threads in (1, 2):
        same = with_threads(n_threads, checked, X, centers, groups)
        np.testing.assert_array_equal(same.labels, base.labels)
        np.testing.assert_array_equal(same.prices, base.prices)
        assert (same.cost, same.lower_bound) == (base.cost, base.lower_bound)
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
        assert result.cost == pytest.approx(factor**2 * base.cost, rel=2 * GAP)
        bound = factor**2 * base.lower_bound
        assert result.lower_bound == pytest.approx(bound, rel=2 * GAP)


class TestTies:
    def test_identical_rows(self):
        # Every row costs the same in its group: half must move, any half.
        X = np.repeat([[0.0], [1.0]], 2000, axis=0)
        groups = np.repeat([0, 1], 2000)
        result = checked(X, [[0.0], [1.0]], groups, 0.0)
        # Moving m of one group and m' of the other costs m + m' = 2000.
        assert result.cost == pytest.approx(2000, abs=1)  # a row of rounding
        assert result.gap <= GAP
        assert result.n_moved == result.cost

    @pytest.mark.parametrize(("seed", "noise"), [(0, 0.0), (1, 1e-13)])
    def test_few_distinct_rows(self, seed, noise):
        rng = np.random.default_rng(seed)
        X = rng.integers(0, 3, (2600, 1)) + noise * rng.standard_normal((2600, 1))
        groups = rng.integers(0, 4, 2600)
        centers = X[rng.choice(2600, 8, replace=False)]
        centers += seed * rng.standard_normal(centers.shape)
        checked(X, centers, groups, 0.05)

    def test_all_rows_and_centres_equal(self):
        result = checked(np.ones((60, 2)), np.ones((3, 2)), np.arange(60) % 2)
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

    @pytest.mark.parametrize("tolerance", [0.0, 0.5])
    def test_rare_groups(self, tolerance):
        X, centers, groups = problem(4, 300, 20, 2)
        groups[[7, 8, 9]] = [5, 6, 6]
        result = checked(X, centers, groups, tolerance)
        assert result.rounded[2:].any()

    @pytest.mark.parametrize("tolerance", [5.0, 1e308])
    def test_far_centre_gets_a_row(self, tolerance):
        X, centers, groups = problem(5, 100, 2, 2)
        centers = np.vstack([centers, [[100.0, 100.0]]])
        result = checked(X, centers, groups, tolerance)
        assert (result.labels == 2).sum() == 1
        C = squared(X, centers)
        forced = C.min(axis=1).sum() + (C[:, 2] - C.min(axis=1)).min()
        assert forced * (1 - 1e-9) <= result.cost <= forced * (1 + GAP)
        assert result.gap <= GAP


# --- The linear relaxation -----------------------------------------------------------


@pytest.mark.parametrize(
    ("tolerance", "h", "sample"), [(0.0, 2, 100), (0.1, 3, 20_000)]
)
def test_lower_bound_is_that_of_the_linear_program(tolerance, h, sample, monkeypatch):
    monkeypatch.setattr(_assignment_dual, "MAX_SAMPLE_ROWS", sample)
    (X, centers, groups), (n, k) = problem(0, 300, 4, h, d=3), (300, 4)
    rows = sparse.kron(sparse.eye_array(n), np.ones((1, k)))
    member = (groups == np.arange(h)[:, None]).astype(float)
    counts = sparse.kron(member, sparse.eye_array(k), format="csr")
    expected = sparse.kron(member.mean(axis=1)[:, None] * np.ones((h, n)), np.eye(k))
    # A count may be one row beyond its share.
    upper = LinearConstraint(counts - (1 + tolerance) * expected, -np.inf, 1)
    lower = LinearConstraint(counts - (1 - tolerance) * expected, -1, np.inf)
    exact = milp(
        squared(X, centers).ravel(),
        constraints=[LinearConstraint(rows, 1, 1), upper, lower],
        bounds=Bounds(0, 1),
    ).fun
    result = checked(X, centers, groups, tolerance)
    assert result.lower_bound >= exact * (1 - 3 * RELAXATION_GAP)
    assert result.lower_bound <= result.cost
    assert result.cost <= exact * 1.01  # rows are whole
    # The dual alone.
    order = np.argsort(groups, kind="stable")
    C, kinds = squared(X, centers)[order], groups[order]
    A = ShareBounds.of(kinds[:, None], tolerance)[0].constraints
    dual = maximise_dual(C, np.searchsorted(kinds, np.arange(h + 1)), A)
    bound = (C + dual.prices[kinds]).min(axis=1).sum() - dual.multipliers.sum()
    assert exact * (1 - 3 * RELAXATION_GAP) <= bound <= exact * (1 + 1e-9)


# --- Several attributes, each by itself ----------------------------------------------


def rows_of(n, k, a, seed, h=2):
    """Rows, centres and groups of `a` attributes."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, h, (n, a))
    centers = rng.normal(size=(k, 2))
    follows = rng.random(n) < 0.4
    clusters = np.where(follows, groups.sum(axis=1) % k, rng.integers(0, k, n))
    return centers[clusters] + 0.6 * rng.normal(size=(n, 2)), centers, groups


def assign_each(X, centers, groups, tolerance):
    """Assign, and check what is said of the violation."""
    result = fair_assignment(
        X, centers, sensitive_features=groups, tolerance=tolerance, attributes="each"
    )
    violation = excess(result.labels, groups, len(centers), tolerance)
    assert violation == result.max_violation
    return result


@pytest.mark.parametrize(("n", "k", "seed"), [(10, 2, 0), (7, 3, 1)])
@pytest.mark.parametrize("tolerance", [0.0, 0.25])
def test_each_against_enumeration(n, k, seed, tolerance):
    X, centers, groups = rows_of(n, k, 2, seed)
    result = assign_each(X, centers, groups, tolerance)
    C = squared(X, centers)
    assert result.cost == pytest.approx(C[np.arange(n), result.labels].sum())
    every = np.array(list(itertools.product(range(k), repeat=n)))
    costs = C[np.arange(n), every].sum(axis=1)
    fair = (
        costs[i]
        for i in np.argsort(costs)
        if excess(every[i], groups, k, tolerance) == 0
    )
    optimum = next(fair, np.inf)
    assert result.lower_bound <= optimum * (1 + 1e-9)
    if result.max_violation == 0:
        assert result.cost >= optimum * (1 - 1e-9)
    if optimum < np.inf:
        assert result.max_violation == 0
        assert result.cost <= optimum * (1 + 6 * GAP)


@pytest.mark.parametrize(
    ("n", "a", "h", "tolerance"), [(3000, 3, 3, 0.1), (500, 2, 2, 0.0), (700, 2, 9, 0)]
)
def test_each_of_many_rows(n, a, h, tolerance):
    X, centers, groups = rows_of(n, 5, a, 2, h)
    result = assign_each(X, centers, groups, tolerance)
    assert result.max_violation <= 1
    assert result.gap < (0.02 if h < 9 else 0.1)
    # All but a few rows are where cost and the prices of their groups are least.
    starts = np.append(0, np.cumsum(groups.max(axis=0) + 1))[:-1]
    priced = squared(X, centers) + result.prices[groups + starts].sum(axis=1)
    excess_cost = priced[np.arange(n), result.labels] - priced.min(axis=1)
    assert (excess_cost > 1e-6).mean() < 0.1


@pytest.mark.parametrize("tolerance", [0.0, 2.0])
def test_rare_combinations_are_not_refused(tolerance):
    X = np.arange(8.0)[:, None]
    groups = [[0, 0], [0, 0], [0, 1], [1, 1], [1, 1], [1, 1], [1, 1], [1, 1]]
    assign_each(X, X[:4], groups, tolerance)


def test_counts_are_rounded_to_the_fewest_rows_beyond():
    # The diagonal alone: in two clusters of three a half of each cannot be.
    codes = np.array([[0, 0], [1, 1]])
    bounds, _ = ShareBounds.of(np.repeat(codes, 3, axis=0), 0.0)
    counts = round_counts(bounds, np.full((2, 2), 1.5), np.array([3, 3]))
    np.testing.assert_array_equal(counts.sum(axis=0), [3, 3])
    np.testing.assert_array_equal(counts.sum(axis=1), [3, 3])
    assert bounds.excess(counts) == 0
    exact = np.array([[2, 1], [0, 3]])
    bounds, _ = ShareBounds.of(np.repeat(codes, exact.sum(axis=1), axis=0), 5.0)
    np.testing.assert_array_equal(
        round_counts(bounds, 1.0 * exact, np.array([2, 4])), exact
    )


# --- Bad input -----------------------------------------------------------------------


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


@pytest.mark.parametrize("tolerance", [-0.1, np.nan, "0.1"])
def test_bad_tolerance(tolerance):
    X, centers, groups = problem(0, 30, 3, 2)
    with pytest.raises(ValueError, match="tolerance must be a finite number >= 0"):
        fair_assignment(X, centers, sensitive_features=groups, tolerance=tolerance)


# --- assign_labels="fair" of the estimator -------------------------------------------


@pytest.fixture(scope="module")
def hard():
    """Clusters that k-means leaves unbalanced: many clusters of few nodes."""
    return make_fair_sbm(
        200, n_clusters=4, n_groups=2, average_degree=20, random_state=3
    )


def fit(data, k=8, groups=None, **options):
    model = FairSpectralClustering(k, random_state=0, n_init=3, **options)
    groups = data.sensitive_features if groups is None else groups
    return model.fit(data.graph, sensitive_features=groups)


@pytest.fixture(scope="module")
def plain(hard):
    with pytest.warns(UserWarning, match="k-means has lost"):
        return fit(hard, **PAPERS_METHOD)


@pytest.mark.parametrize(
    ("tolerance", "refine"), [(0.05, False), (0.2, True), (50.0, True)]
)
def test_bounds_of_a_fit(hard, plain, tolerance, refine):
    groups = np.asarray(hard.sensitive_features)
    options = {"balance_tolerance": tolerance, "refine": refine}
    model = fit(hard, regularization=0, **options)
    assert excess(model.labels_, groups, 8, tolerance) == 0
    if tolerance < 1:
        assert balance_score(model.labels_, sensitive_features=groups) > balance_score(
            plain.labels_, sensitive_features=groups
        )
    # The embedding is the same: only the rounding differs.
    np.testing.assert_array_equal(model.embedding_, plain.embedding_)
    result = model.assignment_
    assert isinstance(result, FairAssignment)
    assert result.max_violation == 0
    assert (result.labels != model.labels_).any() == refine
    assert plain.assignment_ is None
    assert plain.refinement_ is None


def test_three_nodes_in_eight_clusters(hard):
    groups = np.zeros(200, dtype=int)
    groups[:3] = 1
    model = fit(hard, groups=groups)
    assert excess(model.labels_, groups, 8, 0.1) == 0
    assert model.assignment_.rounded[1].all()
