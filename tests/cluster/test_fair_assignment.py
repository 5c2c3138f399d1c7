"""Fair assignment beside enumeration and HiGHS, and its dual."""

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
from scalefair.cluster._base import PAPERS_METHOD
from scalefair.cluster._fair_assignment import (
    GAP,
    AssignmentProblem,
    FairSet,
    assign_rows,
)
from scalefair.cluster._share_bounds import ShareBounds
from scalefair.datasets import make_fair_sbm
from scalefair.kernels import largest_fair_set
from scalefair.metrics import balance_score


def excess(labels, groups, k, tolerance):
    """Most rows by which a count is beyond its bound, rounded outwards; inf: empty."""
    n, worst = len(labels), 0
    for cluster, group in itertools.product(range(k), np.unique(groups)):
        in_cluster = labels == cluster
        expected = (groups == group).sum() * in_cluster.sum() / n
        count = (in_cluster & (groups == group)).sum()
        low = np.floor(max(1 - tolerance, 0) * expected + 1e-9)
        high = np.ceil(min(1 + tolerance, n) * expected - 1e-9)
        is_empty = not in_cluster.any()
        worst = max(worst, low - count, count - high, np.inf * is_empty)
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


@pytest.mark.parametrize("tolerance", [0.0, 0.1, 0.3, 1.0])
@pytest.mark.parametrize(
    ("n", "k", "h", "seed"),
    [
        (8, 2, 2, 0),
        (7, 3, 2, 1),
        (7, 3, 3, 2),
        (8, 2, 3, 3),
        (6, 3, 2, 4),
        (8, 3, 2, 5),
    ],
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


@pytest.mark.parametrize("tolerance", [0.0, 0.02, 0.5])
@pytest.mark.parametrize(("n", "h", "gap"), [(3000, 5, 3 * GAP), (15_000, 2, GAP)])
def test_rows_in_blobs(n, h, gap, tolerance):
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


@pytest.mark.parametrize("tolerance", [0.0, 0.1])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e4])
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


def test_weights():
    X, centers, groups = problem(6, 900, 4, 3)
    base = checked(X, centers, groups)
    one = checked(X, centers, groups, weights=np.full(900, 2.0))
    assert one.cost == pytest.approx(2 * base.cost, rel=2 * GAP)
    # Rows that count little are moved in place of those that count much.
    rng = np.random.default_rng(0)
    weights = rng.choice([0.01, 1.0], 900)
    result = checked(X, centers, groups, weights=weights)
    assert result.gap <= GAP
    nearest = squared(X, centers).argmin(axis=1)
    moved = result.labels != nearest
    assert moved[weights < 1].mean() > 5 * moved[weights == 1].mean()


class TestTies:
    def test_identical_rows(self):
        # Every row costs the same in its group: half must move, any half.
        X = np.repeat([[0.0], [1.0]], 10_000, axis=0)
        groups = np.repeat([0, 1], 10_000)
        result = checked(X, [[0.0], [1.0]], groups, 0.0)
        # Moving m of one group and m' of the other costs m + m' = 10,000.
        assert result.cost == pytest.approx(10_000)
        assert result.gap <= GAP
        assert result.n_moved == 10_000

    @pytest.mark.parametrize(("seed", "noise"), [(0, 0.0), (1, 1e-13)])
    def test_few_distinct_rows(self, seed, noise):
        rng = np.random.default_rng(seed)
        X = rng.integers(0, 3, (2600, 1)) + noise * rng.standard_normal((2600, 1))
        groups = rng.integers(0, 4, 2600)
        centers = X[rng.choice(2600, 8, replace=False)]
        centers += seed * rng.standard_normal(centers.shape)
        checked(X, centers, groups, 0.05)

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

    @pytest.mark.parametrize("tolerance", [0.0, 0.1, 0.5, 2.0])
    def test_rare_groups(self, tolerance):
        X, centers, groups = problem(4, 300, 20, 2)
        groups[[7, 8, 9]] = [5, 6, 6]
        result = checked(X, centers, groups, tolerance)
        assert result.rounded[2:].any()

    @pytest.mark.parametrize("tolerance", [5.0, 1e6, 1e16, 1e308])
    def test_far_centre_gets_a_row(self, tolerance):
        X, centers, groups = problem(5, 100, 2, 2)
        centers = np.vstack([centers, [[100.0, 100.0]]])
        result = checked(X, centers, groups, tolerance)
        assert (result.labels == 2).sum() == 1
        C = squared(X, centers)
        forced = C.min(axis=1).sum() + (C[:, 2] - C.min(axis=1)).min()
        assert forced * (1 - 1e-9) <= result.cost <= forced * (1 + GAP)
        assert result.gap <= GAP


# --- The dual of the relaxation ------------------------------------------------------


def sorted_problem(X, centers, groups, tolerance):
    """Problem with its rows sorted by group."""
    order = np.argsort(groups, kind="stable")
    bounds, _ = ShareBounds.of(groups[:, None], tolerance)
    return AssignmentProblem(squared(X[order], centers), groups[order], bounds, 1)


def by_program(problem, sizes=None):
    """Cost of the relaxation, or of whole rows in clusters of fixed sizes."""
    (n, k), bounds = problem.C.shape, problem.bounds
    member = (problem.kinds == np.arange(len(bounds.sizes))[:, None]).astype(float)
    rows = sparse.kron(sparse.eye_array(n), np.ones((1, k)))
    counts = sparse.kron(member, sparse.eye_array(k), format="csr")
    constraints = [LinearConstraint(rows, 1, 1)]
    if sizes is None:
        A = sparse.kron(bounds.constraints.T, sparse.eye_array(k))
        constraints.append(LinearConstraint(A @ counts, -np.inf, 1))
    else:
        low, high = bounds.counts(sizes)
        constraints.append(LinearConstraint(counts, low.ravel(), high.ravel()))
        columns = sparse.kron(np.ones((1, n)), sparse.eye_array(k))
        constraints.append(LinearConstraint(columns, sizes, sizes))
    return milp(
        problem.C.ravel(),
        constraints=constraints,
        bounds=Bounds(0, 1),
        integrality=np.full(n * k, sizes is not None),
    ).fun


@pytest.mark.parametrize("sample", [100, 20_000])
@pytest.mark.parametrize(("tolerance", "h"), [(0.0, 2), (0.1, 4), (0.5, 3)])
def test_dual_against_the_linear_program(tolerance, h, sample, monkeypatch):
    monkeypatch.setattr(_assignment_dual, "MAX_SAMPLE_ROWS", sample)
    rows = sorted_problem(*problem(0, 500, 5, h, d=3), tolerance)
    A = rows.bounds.constraints
    dual = maximise_dual(rows.C, rows.offsets, A)
    exact = by_program(rows)

    def bound(x):
        return (rows.C + (A @ x)[rows.kinds]).min(axis=1).sum() - x.sum()

    assert bound(dual.multipliers) >= exact * (1 - 3 * RELAXATION_GAP)
    assert bound(dual.multipliers) <= exact * (1 + 1e-9)
    np.testing.assert_allclose(dual.prices, A @ dual.multipliers)
    assert (dual.multipliers >= 0).all()
    # Any multipliers give a bound.
    rng = np.random.default_rng(0)
    for scale in (0.01, 0.3, 10.0):
        x = dual.multipliers + scale * rng.exponential(size=dual.multipliers.shape)
        assert bound(x) <= exact * (1 + 1e-9)


def test_dual_of_equal_rows_and_from_another_start(monkeypatch):
    # Curvature vanishes between equal rows: Newton's steps are long, and once were
    # taken even where the line search failed.
    rng = np.random.default_rng(18)
    sizes = rng.dirichlet(np.full(8, 0.4))
    clusters, centers = rng.choice(8, 600, p=sizes), 3 * rng.normal(size=(8, 3))
    X = np.round(centers[clusters] + 0.3 * rng.normal(size=(600, 3)))
    groups = (rng.random(600) < rng.random(8)[clusters]).astype(int)
    rows = sorted_problem(X, centers, groups, 0.1)
    offsets, A = rows.offsets, rows.bounds.constraints

    def bound(solution, C):
        minima = (C + solution.prices[rows.kinds]).min(axis=1)
        return minima.sum() - solution.multipliers.sum()

    passes = []

    def counted(*args, kernel=_assignment_dual.smoothed_minima):
        passes.append(1)
        kernel(*args)

    monkeypatch.setattr(_assignment_dual, "smoothed_minima", counted)
    cold = maximise_dual(rows.C, offsets, A)
    n_cold = len(passes)
    assert bound(cold, rows.C) == pytest.approx(by_program(rows), rel=1e-3)
    warm = maximise_dual(1.01 * rows.C, offsets, A, cold)
    assert len(passes) - n_cold < n_cold / 2
    assert bound(warm, 1.01 * rows.C) >= 1.01 * bound(cold, rows.C) * (1 - 1e-3)


@pytest.mark.parametrize("seed", range(20))
def test_fair_sets_of_some_sizes_bound_those_of_all(seed):
    rng = np.random.default_rng(seed)
    n, h = 40, 2 + seed % 2
    rows = sorted_problem(*problem(seed, n, 2, h), 0.2)
    values = rows.C[:, 0] + rng.normal(0.3 - 0.1 * (seed % 8), 1, n)
    gains = np.full((h, n + 1), -np.inf)
    for s in range(h):
        kind_gains = np.sort((values - rows.C[:, 0])[rows.kinds == s])[::-1]
        gains[s, : kind_gains.size] = kind_gains
    low, high = rows.bounds.counts(np.arange(1, n + 1))
    counts = np.zeros(h, np.int64)
    exact = largest_fair_set(gains, low, high, 1, counts)
    for max_size in (3, 10, 25, n):
        fair_set = FairSet.best(rows, 0, values, max_size)
        assert fair_set.gain >= exact - 1e-12
        gain = (values - rows.C[:, 0])[fair_set.rows].sum()
        assert fair_set.is_exact <= (abs(fair_set.gain - exact) < 1e-9)
        assert fair_set.is_exact == (gain >= fair_set.gain - 1e-9)
        np.testing.assert_array_equal(
            np.bincount(rows.kinds[fair_set.rows], minlength=h), fair_set.counts
        )
    assert fair_set.is_exact  # of all sizes


@pytest.mark.parametrize("seed", range(2))
def test_lower_bounds_hold_for_any_start(seed):
    # Small clusters by their sets, others by the relaxation: from poor values, too.
    X, centers, groups = problem(seed, 60, 4, 2)
    X[:6] = centers[0] + 5
    centers[0] += 5
    rows = sorted_problem(X, centers, groups, 0.1)
    lower_bounds = [relaxation.lower_bound for relaxation in rows._relaxations()]
    exact = min(
        by_program(rows, np.array(sizes))
        for sizes in itertools.product(
            range(1, 12, 3), range(3, 54, 12), range(3, 54, 12)
        )
        if 60 - sum(sizes) > 0
        for sizes in [(*sizes, 60 - sum(sizes))]
    )
    assert max(lower_bounds) <= exact * (1 + 1e-9)


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


def fit(data, k=8, groups=None, **options):
    model = FairSpectralClustering(k, random_state=0, n_init=3, **options)
    groups = data.sensitive_features if groups is None else groups
    return model.fit(data.graph, sensitive_features=groups)


@pytest.fixture(scope="module")
def plain(hard):
    with pytest.warns(UserWarning, match="k-means has lost"):
        return fit(hard, **PAPERS_METHOD)


@pytest.mark.parametrize("tolerance", [0.05, 0.2, 50.0])
@pytest.mark.parametrize("refine", [False, True])
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


def test_nodes_left_out_stay_out(hard):
    W = hard.graph.tolil()
    W[7] = 0
    W[:, 7] = 0
    data = type(hard)(**{**hard, "graph": W.tocsr()})
    model = fit(data, connected_components="largest")
    assert model.labels_[7] == -1
    assert set(model.labels_) == {-1, *range(8)}


def test_three_nodes_in_eight_clusters(hard):
    groups = np.zeros(200, dtype=int)
    groups[:3] = 1
    model = fit(hard, groups=groups)
    assert excess(model.labels_, groups, 8, 0.1) == 0
    assert model.assignment_.rounded[1].all()
