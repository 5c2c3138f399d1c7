"""Clusters that are fair to several attributes, each by itself."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.linalg import null_space, subspace_angles
from scipy.sparse.linalg import aslinearoperator

from scalefair.cluster import FairSpectralClustering, fair_assignment
from scalefair.cluster._base import PAPERS_METHOD
from scalefair.cluster._fair_assignment import GAP
from scalefair.cluster._share_bounds import ShareBounds, round_counts
from scalefair.cluster._solvers import FairProblem, independent_groups
from scalefair.datasets import make_fair_sbm
from scalefair.metrics import balance_score
from scalefair.operators import NormalizedAffinity

N, K = 240, 4


@pytest.fixture(scope="module")
def graph():
    data = make_fair_sbm(N, n_clusters=K, n_groups=2, average_degree=30, random_state=0)
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"sex": data.sensitive_features})
    people["race"] = rng.permutation(np.array(["x", "y", "z"])[np.arange(N) % 3])
    people["old"] = rng.random(N) < 0.2
    return data.graph, people


def constraints(W, groups):
    """F of all columns, from the definition."""
    columns = [np.unique(x, return_inverse=True)[1] for x in np.asarray(groups).T]
    G = np.hstack([np.equal.outer(x, np.arange(x.max() + 1)) for x in columns])
    return (G - G.mean(axis=0)) / np.sqrt(W.sum(axis=1))[:, None]


def fit(W, groups, **options):
    options = {"attributes": "each", "tol": 1e-8, "random_state": 0} | options
    options = PAPERS_METHOD | options
    return FairSpectralClustering(K, **options).fit(W, sensitive_features=groups)


def same_span(A, B):
    return subspace_angles(A, B).max() < 1e-6


@pytest.mark.parametrize(
    ("solver", "storage"),
    [
        *((name, "stored") for name in ("nullspace", "lanczos", "chebyshev", "dual")),
        ("lobpcg", "stored"),
        ("chebyshev", "operator"),
        ("chebyshev", "regularized"),
    ],
)
def test_dense_reference(graph, solver, storage):
    W, people = graph
    dense = W.toarray()
    options = {}
    if storage == "regularized":
        options = {"regularization": 0.1}
        dense = dense + 0.1 * dense.sum(axis=1).mean() / N
    d = dense.sum(axis=1)
    M, F = dense / np.sqrt(np.outer(d, d)), constraints(dense, people)
    Z = null_space(F.T)
    assert Z.shape[1] == N - (1 + 2 + 1)
    values, Y = np.linalg.eigh(Z.T @ M @ Z)
    W = aslinearoperator(W) if storage == "operator" else W
    model = fit(W, people, solver=solver, **options)
    np.testing.assert_allclose(model.eigenvalues_, values[::-1][:K], atol=1e-7)
    assert same_span(model.embedding_, Z @ Y[:, -K:])
    assert np.linalg.norm(F.T @ model.embedding_) < 1e-12
    assert model.fairness_violation_ < 1e-12
    assert [len(groups) for groups in model.groups_] == [2, 3, 2]


def test_one_attribute_twice_is_once(graph):
    W, people = graph
    race = people["race"].to_numpy()
    once = fit(W, race[:, None])
    assert once.groups_.tolist() == ["x", "y", "z"]  # no list of one
    for more in (race, np.where(race == "x", "b", "a")):  # and a coarser one
        twice = fit(W, np.column_stack([more, race]))
        assert same_span(once.embedding_, twice.embedding_)
        np.testing.assert_array_equal(twice.labels_, once.labels_)


def test_joint_is_stricter_where_attributes_are_independent(graph):
    W, _ = graph
    pair = np.column_stack([np.arange(N) // 2 % 2, np.arange(N) % 2])
    separate, joint = fit(W, pair), fit(W, pair, attributes="joint")
    assert constraints(W.toarray(), pair).shape[1] - 2 == 2
    assert separate.eigenvalues_.sum() > joint.eigenvalues_.sum() + 1e-6
    # Combinations are orthogonal to less: what "joint" forbids, "each" forbids, too.
    F = constraints(W.toarray(), pair)
    assert np.linalg.norm(F.T @ joint.embedding_) < 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_rank_of_dependent_attributes(graph, seed):
    W, _ = graph
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, N)
    one_node = (np.arange(N) == 7).astype(int)
    finer = np.unique(a * 4 + rng.integers(0, 2, N), return_inverse=True)[1]
    codes = np.column_stack([a, finer, one_node, a, 1 - one_node])
    # Degrees of many sizes hide dependence from the columns of F themselves.
    spread = sparse.diags_array(10.0 ** rng.uniform(-4, 4, N))
    W = sparse.csr_array(spread @ W @ spread)
    problem = FairProblem(NormalizedAffinity(W), codes, 2)
    assert problem.Q.shape[1] == (finer.max() + 1 - 1) + 1
    F = problem.F / np.linalg.norm(problem.F, axis=0)
    outside = F - problem.Q @ (problem.Q.T @ F)
    assert np.abs(outside).max() < 1e-9
    chosen = independent_groups(codes)
    assert np.linalg.matrix_rank(problem.F[:, chosen] > 0) == chosen.size


@pytest.mark.parametrize("assign_labels", ["kmeans", "fair"])
def test_nodes_of_the_fit_get_their_labels_again(graph, assign_labels):
    W, people = graph
    # Groups that follow the clusters have to be moved, at prices.
    people = people.assign(old=np.arange(N) % 5 == 0, half=np.arange(N) < 0.4 * N)
    model = fit(W, people, assign_labels=assign_labels, refine=False)
    labels = model.predict(W, sensitive_features=people)
    different = (labels != model.labels_).mean()
    assert different <= (0.05 if assign_labels == "fair" else 0.0)
    with pytest.raises(ValueError, match="fit saw 4"):
        model.predict(W, sensitive_features=people["sex"])


def test_an_attribute_of_one_group_is_named(graph):
    W, people = graph
    with pytest.raises(ValueError, match=r"same of .* has only one group"):
        fit(W, people.assign(same=1))
    with pytest.raises(ValueError, match="n_clusters"):
        FairSpectralClustering(3, attributes="each").fit(
            np.ones((4, 4)), sensitive_features=[[0, 0], [0, 1], [1, 0], [1, 1]]
        )


def test_balance_is_the_smallest_of_each(graph):
    model = fit(*graph)
    score = balance_score(
        model.labels_, average=None, sensitive_features=graph[1], attributes="each"
    )
    np.testing.assert_array_equal(model.balance_, score)


def excess(labels, groups, k, tolerance):
    """Most rows by which a count is beyond its bound, rounded outwards."""
    n, worst = len(labels), 0
    for column in np.asarray(groups).T:
        for cluster, group in itertools.product(range(k), np.unique(column)):
            in_cluster, in_group = labels == cluster, column == group
            assert in_cluster.any()
            expected = in_group.sum() * in_cluster.sum() / n
            high = np.ceil((1 + tolerance) * expected - 1e-9)
            low = np.floor(max(1 - tolerance, 0) * expected + 1e-9)
            count = (in_cluster & in_group).sum()
            worst = max(worst, count - high, low - count)
    return worst


def rows_of(n, k, a, seed, h=2):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, h, (n, a))
    centers = rng.normal(size=(k, 2))
    follows = rng.random(n) < 0.4
    clusters = np.where(follows, groups.sum(axis=1) % k, rng.integers(0, k, n))
    return centers[clusters] + 0.6 * rng.normal(size=(n, 2)), centers, groups


def assign(X, centers, groups, tolerance):
    """Assign, and check what is said of the violation."""
    result = fair_assignment(
        X, centers, sensitive_features=groups, tolerance=tolerance, attributes="each"
    )
    violation = excess(result.labels, groups, len(centers), tolerance)
    assert violation == result.max_violation
    return result


@pytest.mark.parametrize(("n", "k", "seed"), [(10, 2, 0), (7, 3, 1), (9, 2, 2)])
@pytest.mark.parametrize("tolerance", [0.0, 0.25, 1.0])
def test_fair_labels_against_enumeration(n, k, seed, tolerance):
    X, centers, groups = rows_of(n, k, 2, seed)
    result = assign(X, centers, groups, tolerance)
    C = ((X[:, None] - centers) ** 2).sum(axis=2)
    assert result.cost == pytest.approx(C[np.arange(n), result.labels].sum())
    labels = np.array(list(itertools.product(range(k), repeat=n)))
    costs = C[np.arange(n), labels].sum(axis=1)
    fair = (
        costs[i]
        for i in np.argsort(costs)
        if np.unique(labels[i]).size == k
        and excess(labels[i], groups, k, tolerance) == 0
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
def test_fair_labels_of_many_rows(n, a, h, tolerance):
    X, centers, groups = rows_of(n, 5, a, 2, h)
    result = assign(X, centers, groups, tolerance)
    assert result.max_violation <= 1
    assert result.gap < (0.02 if h < 9 else 0.1)
    # All but a few rows are where cost and the prices of their groups are least.
    starts = np.append(0, np.cumsum(groups.max(axis=0) + 1))[:-1]
    prices = result.prices[groups + starts].sum(axis=1)
    priced = ((X[:, None] - centers) ** 2).sum(axis=2) + prices
    excess_cost = priced[np.arange(n), result.labels] - priced.min(axis=1)
    assert (excess_cost > 1e-6).mean() < 0.1


@pytest.mark.parametrize("tolerance", [0.0, 0.1, 2.0])
def test_rare_combinations_are_not_refused(tolerance):
    X = np.arange(8.0)[:, None]
    groups = [[0, 0], [0, 0], [0, 1], [1, 1], [1, 1], [1, 1], [1, 1], [1, 1]]
    assign(X, X[:4], groups, tolerance)


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
