"""Fair assignment beside enumeration and HiGHS, of one attribute and of several."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linear_sum_assignment, linprog

from scalefair.cluster import (
    FairAssignment,
    FairSpectralClustering,
    _assignment_dual,
    _assignment_problem,
    fair_assignment,
)
from scalefair.cluster._assignment_dual import RELAXATION_GAP
from scalefair.cluster._assignment_problem import GAP
from scalefair.cluster._base import PAPERS_METHOD
from scalefair.datasets import make_fair_sbm
from scalefair.metrics import balance_score

from .conftest import beyond, memberships, within


def squared(X, centers):
    return ((X[:, None] - np.asarray(centers)[None]) ** 2).sum(axis=2)


def problem(seed, n, k, h, d=2):
    """Groups that follow the clusters, so that rows must move."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((k, d))
    cluster = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    groups = np.where(rng.random(n) < 0.8, cluster % h, rng.integers(0, h, n))
    groups[:h] = np.arange(h)
    X = centers[cluster] + 0.3 * rng.standard_normal((n, d))
    return X, centers, groups


def soft_problem(seed, n, k, h):
    """Probabilities that depend on the cluster, zero for some rows, and weights."""
    X, centers, _ = problem(seed, n, k, h)
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.standard_normal((k, h))[squared(X, centers).argmin(axis=1)]
    P = np.exp(logits + rng.standard_normal((n, h)))
    P /= P.sum(axis=1, keepdims=True)
    P[rng.random(n) < 0.1] = 0
    return X, centers, P, rng.gamma(2.0, size=n) + 0.1


def problem_of_attributes(n, k, a, seed, h=2):
    """Groups of `a` attributes, some of which the clusters follow."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, h, (n, a))
    centers = rng.normal(size=(k, 2))
    follows = rng.random(n) < 0.4
    clusters = np.where(follows, groups.sum(axis=1) % k, rng.integers(0, k, n))
    return centers[clusters] + 0.6 * rng.normal(size=(n, 2)), centers, groups


def assign(X, centers, groups=None, tolerance=0.1, **options):
    """Assign, and check what every result promises, from the definitions."""
    n, k = len(X), len(centers)
    if groups is not None:
        options["sensitive_features"] = groups
    result = fair_assignment(X, centers, tolerance=tolerance, **options)
    A, weights = memberships(n, **options)
    C, rows = squared(X, centers) * weights[:, None], np.arange(n)
    assert result.labels.dtype == np.int32
    assert np.bincount(result.labels, minlength=k).min() >= options.get("min_size", 1)
    assert result.cost == pytest.approx(C[rows, result.labels].sum(), rel=1e-9)
    assert result.nearest_cost == pytest.approx(C.min(axis=1).sum(), rel=1e-9)
    assert result.nearest_cost * (1 - 1e-12) <= result.lower_bound <= result.cost
    assert 0 <= result.gap <= 1
    rows_beyond = beyond(result.labels, A, weights, tolerance)
    is_whole = "group_probabilities" not in options and "sample_weight" not in options
    violation = np.floor(rows_beyond + 1e-9) if is_whole else max(rows_beyond - 1, 0)
    assert result.max_violation == pytest.approx(violation, abs=1e-9)
    if is_whole and np.ndim(options["sensitive_features"]) == 1:
        assert result.max_violation == 0
        priced = C + A @ result.prices
        excess_cost = priced[rows, result.labels] - priced.min(axis=1)
        assert excess_cost.max() <= 1e-9 * (abs(priced).max() or 1)
        counts = A.T @ np.eye(k)[result.labels]
        expected = A.mean(axis=0)[:, None] * counts.sum(axis=0)
        is_rounded = (abs(counts - expected) - 1e-9) / expected > tolerance
        np.testing.assert_array_equal(result.rounded, is_rounded)
    return result


def least_cost(C, A, weights, tolerance):
    """Cost of the cheapest labels within all bounds, by enumeration."""
    n, k = C.shape
    every = np.array(list(itertools.product(range(k), repeat=n)))
    costs = C[np.arange(n), every].sum(axis=1)
    for i in np.argsort(costs):
        is_used = np.bincount(every[i], minlength=k).all()
        if is_used and beyond(every[i], A, weights, tolerance) < 1 - 1e-6:
            return costs[i]
    return np.inf


def of_groups(n, k, h, seed):
    X, centers, groups = problem(seed, n, k, h)
    if seed % 2:
        groups[:] = np.arange(n) == 3  # one row alone
        groups[0] = h - 1
    return X, centers, {"sensitive_features": groups}


def of_attributes(n, k, seed):
    X, centers, groups = problem_of_attributes(n, k, 2, seed)
    return X, centers, {"sensitive_features": groups, "attributes": "each"}


def of_weights(n, k, h, seed, is_soft):
    X, centers, P, weights = soft_problem(seed, n, k, h)
    options = {"group_probabilities": P, "sample_weight": weights}
    if not is_soft:
        options["sensitive_features"] = np.arange(n) % h
        del options["group_probabilities"]
    return X, centers, options


@pytest.mark.parametrize("tolerance", [0.0, 0.25])
@pytest.mark.parametrize(
    ("X", "centers", "options"),
    [
        of_groups(8, 2, 2, 0),
        of_groups(7, 3, 3, 2),
        of_groups(8, 2, 3, 3),
        of_groups(7, 3, 2, 1),
        of_attributes(10, 2, 0),
        of_attributes(7, 3, 1),
        of_weights(8, 2, 2, 0, True),
        of_weights(7, 3, 3, 1, True),
        of_weights(8, 2, 2, 0, False),
        of_weights(7, 3, 3, 1, False),
    ],
)
def test_against_enumeration(X, centers, options, tolerance):
    result = assign(X, centers, tolerance=tolerance, **options)
    A, weights = memberships(len(X), **options)
    C = squared(X, centers) * weights[:, None]
    optimum = least_cost(C, A, weights, tolerance)
    assert result.lower_bound <= optimum * (1 + 1e-9)
    if "sample_weight" not in options and optimum < np.inf:
        assert result.max_violation == 0
        assert optimum * (1 - 1e-9) <= result.cost <= optimum * (1 + 6 * GAP)


@pytest.mark.parametrize(
    ("n", "h", "tolerance", "gap"),
    [(3000, 5, 0.0, 3 * GAP), (3000, 5, 0.5, 3 * GAP), (15_000, 2, 0.02, GAP)],
)
def test_rows_in_blobs(n, h, tolerance, gap):
    X, centers, groups = problem(0, n, 6, h, d=5)
    result = assign(X, centers, groups, tolerance)
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
    result = assign(X, centers, groups)
    assert result.gap <= GAP
    # Sets below the least size do not count: with them the gap is 0.7.
    assert assign(X, centers, groups, min_size=60).gap <= 2 * GAP
    with pytest.raises(ValueError, match="min_size must be an integer from 1 to 250"):
        assign(X, centers, groups, min_size=251)


@pytest.mark.parametrize(("tolerance", "unit"), [(0.0, 1e4), (0.1, 1e-6)])
def test_clusters_of_a_handful(tolerance, unit, monkeypatch):
    X, centers, groups = problem(0, 90, 15, 2)
    rows = unit * X, unit * centers, groups, tolerance
    assert assign(*rows).gap <= 2 * GAP
    # Without an integer program it is 0.05 to 0.07.
    nothing = np.empty((0, 15), int), -np.inf
    monkeypatch.setattr(_assignment_problem, "cheapest_counts", lambda *_: nothing)
    assert assign(*rows).gap > 0.03


def test_bounds_that_do_not_bind():
    result = assign(*problem(1, 150, 4, 3), 10.0)
    assert result.n_moved == 0
    assert result.cost == result.nearest_cost == result.lower_bound
    assert "nearest" in result.message


def test_same_bits_and_invariances(with_threads):
    X, centers, groups = problem(2, 1500, 4, 3)
    base = assign(X, centers, groups)
    for n_threads in (1, 2):
        same = with_threads(n_threads, assign, X, centers, groups)
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
        result = assign(*changed)
        # Another optimum within the gap that ends the search.
        assert result.cost == pytest.approx(factor**2 * base.cost, rel=2 * GAP)
        bound = factor**2 * base.lower_bound
        assert result.lower_bound == pytest.approx(bound, rel=2 * GAP)


class TestTies:
    def test_identical_rows(self):
        # Every row costs the same in its group: half must move, any half.
        X = np.repeat([[0.0], [1.0]], 2000, axis=0)
        groups = np.repeat([0, 1], 2000)
        result = assign(X, [[0.0], [1.0]], groups, 0.0)
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
        assign(X, centers, groups, 0.05)

    def test_all_rows_and_centres_equal(self):
        result = assign(np.ones((60, 2)), np.ones((3, 2)), np.arange(60) % 2)
        assert result.cost == result.gap == 0.0
        P = np.eye(2)[np.arange(40) % 2]
        P[0] = 0.5
        X, centers = np.ones((40, 1)), np.ones((3, 1))
        for heavy in (1.0, 40.0):
            options = {"sample_weight": np.r_[heavy, np.ones(39)], "tolerance": 0.0}
            assert assign(X, centers, group_probabilities=P, **options).cost == 0


class TestDegenerate:
    def test_one_cluster_and_one_group(self):
        X, centers, groups = problem(3, 200, 4, 2)
        assert not assign(X, X[:1], groups, 0.0).labels.any()
        for seed in range(20):  # whatever the sum of the weights is rounded to
            options = {"sample_weight": np.random.default_rng(seed).random(5) + 0.1}
            assert assign(X[:5], X[:1], groups[:5], min_size=5, **options).gap == 0
        result = assign(X, centers, np.zeros(200, int))
        np.testing.assert_array_equal(result.labels, squared(X, centers).argmin(1))
        assert result.gap == 0

    @pytest.mark.parametrize("seed", [5, 46, 50])
    def test_weights_so_different_that_few_clusters_get_the_smallest_size(self, seed):
        rng = np.random.default_rng(seed)
        X, weights = rng.normal(size=(20, 2)), np.exp(8 * rng.normal(size=20))
        result = fair_assignment(
            X,
            X[:4],
            sensitive_features=np.arange(20) % 2,
            sample_weight=weights,
            min_size=4,
        )
        assert set(result.labels) == set(range(4))

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
        result = assign(X, centers, groups, tolerance)
        assert result.rounded[2:].any()

    @pytest.mark.parametrize("tolerance", [5.0, 1e308])
    def test_far_centre_gets_a_row(self, tolerance):
        X, centers, groups = problem(5, 100, 2, 2)
        centers = np.vstack([centers, [[100.0, 100.0]]])
        result = assign(X, centers, groups, tolerance)
        assert (result.labels == 2).sum() == 1
        C = squared(X, centers)
        forced = C.min(axis=1).sum() + (C[:, 2] - C.min(axis=1)).min()
        assert forced * (1 - 1e-9) <= result.cost <= forced * (1 + GAP)
        assert result.gap <= GAP


def relaxation(C, A, tolerance):
    """Value of the linear program whose counts may be one row beyond their share."""
    (n, k), clusters = C.shape, sparse.eye_array(C.shape[1])
    counts = sparse.kron(A.T, clusters)
    shares = np.outer(A.sum(axis=0) / A.sum(), A.sum(axis=1))
    expected = sparse.kron(shares, clusters)
    above, below = counts - (1 + tolerance) * expected, (1 - tolerance) * expected
    A_ub = sparse.vstack([above, below - counts])
    A_eq = sparse.kron(sparse.eye_array(n), np.ones((1, k)))
    ones = {"b_ub": np.ones(A_ub.shape[0]), "b_eq": np.ones(n)}
    return linprog(C.ravel(), A_ub=A_ub, A_eq=A_eq, **ones, method="highs-ds").fun


@pytest.mark.parametrize(
    ("tolerance", "h", "sample", "is_hard"),
    [(0.0, 2, 100, True), (0.1, 3, 20_000, True), (0.1, 3, 20_000, False)],
)
def test_lower_bound_is_that_of_the_linear_program(
    tolerance, h, sample, is_hard, monkeypatch
):
    monkeypatch.setattr(_assignment_dual, "MAX_SAMPLE_ROWS", sample)
    X, centers, groups = problem(0, 300, 4, h, d=3)
    options = {"sensitive_features": groups}
    if not is_hard:
        X, centers, P, _ = soft_problem(3, 300, 3, h)
        options = {"group_probabilities": P}
    A, _ = memberships(300, **options)
    exact = relaxation(squared(X, centers), A, tolerance)
    result = assign(X, centers, tolerance=tolerance, **options)
    assert result.lower_bound >= exact * (1 - 3 * RELAXATION_GAP)
    if is_hard:
        assert result.cost <= exact * 1.01  # rows are whole
    else:
        assert result.lower_bound == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize(
    ("n", "k", "h", "is_weighted", "is_hard", "tolerance"),
    [
        (600, 3, 2, False, False, 0.0),
        (2000, 5, 4, True, False, 0.5),
        (25_000, 4, 3, False, False, 0.1),
        (2000, 4, 3, True, True, 0.0),
    ],
)
def test_expected_shares(n, k, h, is_weighted, is_hard, tolerance, monkeypatch):
    monkeypatch.setattr(_assignment_dual, "MAX_SAMPLE_ROWS", 1000)
    X, centers, P, weights = soft_problem(0, n, k, h)
    options = {"sample_weight": weights} if is_weighted else {}
    options |= (
        {"sensitive_features": P.argmax(axis=1)}
        if is_hard
        else {"group_probabilities": P}
    )
    result = assign(X, centers, tolerance=tolerance, **options)
    assert result.n_moved > n / 100
    assert result.max_violation < 1  # seen: 0
    assert result.gap < max(20 / n, 1e-3)
    # Rows of no group are where they cost least, others where they do at the prices.
    A, weights = memberships(n, **options)
    C, unknown = squared(X, centers), ~A.any(axis=1)
    assert is_hard or unknown.sum() > 20
    nearest = C.argmin(axis=1)
    np.testing.assert_array_equal(result.labels[unknown], nearest[unknown])
    priced = C + A / weights[:, None] @ result.prices
    assert (priced.argmin(axis=1) != result.labels).mean() < 0.05


def test_small_clusters_of_expected_shares():
    X, centers, P, _ = soft_problem(0, 600, 3, 2)
    centers = np.vstack([centers, [[30.0, 30.0]]])  # nobody is near
    known = np.where(P.any(axis=1, keepdims=True), P, 0.5)  # of no row nothing
    # Equal sizes leave rounding no choice.
    for table, size, violation in ((P, 40, 0.5), (P, 150, 2), (known, 40, 0.5)):
        result = assign(X, centers, group_probabilities=table, min_size=size)
        assert result.max_violation < violation


@pytest.mark.parametrize(
    ("n", "a", "h", "tolerance"), [(3000, 3, 3, 0.1), (500, 2, 2, 0.0), (700, 2, 9, 0)]
)
def test_each_of_many_rows(n, a, h, tolerance):
    X, centers, groups = problem_of_attributes(n, 5, a, 2, h)
    result = assign(X, centers, groups, tolerance, attributes="each")
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
    assign(X, X[:4], groups, tolerance, attributes="each")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, c, g: (X, np.zeros((3, 4)), g), "must have the 2 columns of X"),
        (lambda X, c, g: (X, np.zeros((31, 2)), g), "31 centers for 30 rows"),
        (lambda X, c, g: (np.nan * X, c, g), "X contains NaN"),
        (lambda X, c, g: (1e160 * X, 1e160 * c, g), "of X to centers overflow"),
    ],
)
def test_bad_input(change, message):
    X, centers, groups = problem(0, 30, 3, 2)
    for tolerance in (-0.1, np.nan, "0.1"):
        with pytest.raises(ValueError, match="tolerance must be a finite number >= 0"):
            fair_assignment(X, centers, sensitive_features=groups, tolerance=tolerance)
    X, centers, groups = change(X, centers, groups)
    with pytest.raises(ValueError, match=message):
        fair_assignment(X, centers, sensitive_features=groups)


@pytest.fixture(scope="module")
def hard():
    """Clusters that k-means leaves unbalanced: many clusters of few nodes."""
    sizes = {"n_clusters": 4, "n_groups": 2, "average_degree": 20}
    return make_fair_sbm(200, **sizes, random_state=3)


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
    assert within(model.labels_, groups, tolerance)
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
