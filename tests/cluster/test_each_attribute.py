"""Clusters that are fair to several attributes, each by itself."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scalefair.cluster._assignment_prices import AssignmentProblem, optimal_prices
from scipy import sparse
from scipy.linalg import null_space, subspace_angles
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse.linalg import aslinearoperator

from scalefair.cluster import FairSpectralClustering, fair_assignment
from scalefair.cluster._share_bounds import ShareBounds, joint_cells
from scalefair.cluster._solvers import FairProblem, independent_groups
from scalefair.datasets import make_fair_sbm
from scalefair.metrics import balance_score, group_proportions, minimum_balance_score
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
    return FairSpectralClustering(K, **options).fit(W, sensitive_features=groups)


def same_span(A, B):
    return subspace_angles(A, B).max() < 1e-6


@pytest.mark.parametrize(
    ("solver", "how"),
    [
        *((name, "stored") for name in ("nullspace", "lanczos", "chebyshev", "dual")),
        ("lobpcg", "stored"),
        ("chebyshev", "operator"),
        ("chebyshev", "regularized"),
    ],
)
def test_dense_reference(graph, solver, how):
    W, people = graph
    dense = W.toarray()
    options = {}
    if how == "regularized":
        options = {"regularization": 0.1}
        dense = dense + 0.1 * dense.sum(axis=1).mean() / N
    d = dense.sum(axis=1)
    M, F = dense / np.sqrt(np.outer(d, d)), constraints(dense, people)
    Z = null_space(F.T)
    assert Z.shape[1] == N - (1 + 2 + 1)
    values, Y = np.linalg.eigh(Z.T @ M @ Z)
    given = aslinearoperator(W) if how == "operator" else W
    model = fit(given, people, solver=solver, **options)
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
    each, joint = fit(W, pair), fit(W, pair, attributes="joint")
    assert constraints(W.toarray(), pair).shape[1] - 2 == 2
    assert each.eigenvalues_.sum() > joint.eigenvalues_.sum() + 1e-6
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
    model = fit(W, people, assign_labels=assign_labels)
    found = model.predict(W, sensitive_features=people)
    different = (found != model.labels_).mean()
    assert different <= (0.05 if assign_labels == "fair" else 0.0)
    with pytest.raises(ValueError, match="fit saw 4"):
        model.predict(W, sensitive_features=people["sex"])


def test_an_attribute_of_one_group_is_named(graph):
    W, people = graph
    with pytest.raises(ValueError, match="same has fewer than two groups"):
        fit(W, people.assign(same=1))
    with pytest.raises(ValueError, match="n_clusters"):
        FairSpectralClustering(3, attributes="each").fit(
            np.ones((4, 4)), sensitive_features=[[0, 0], [0, 1], [1, 0], [1, 1]]
        )


def test_balance_is_the_smallest_of_each(graph):
    W, people = graph
    model = fit(W, people)
    how = {"average": None, "sensitive_features": people, "attributes": "each"}
    each = [
        balance_score(model.labels_, average=None, sensitive_features=people[name])
        for name in people
    ]
    np.testing.assert_array_equal(model.balance_, np.min(each, axis=0))
    np.testing.assert_array_equal(model.balance_, balance_score(model.labels_, **how))
    del how["average"]
    assert model.minimum_balance_ == minimum_balance_score(model.labels_, **how)
    found = group_proportions(model.labels_, **how)
    for shares, name in zip(found, people, strict=True):
        expected = group_proportions(model.labels_, sensitive_features=people[name])
        np.testing.assert_array_equal(shares, expected)
    with pytest.raises(ValueError, match="attributes must be"):
        balance_score(model.labels_, sensitive_features=people, attributes="all")


def bounds_hold(labels, groups, k, tolerance):
    n = len(labels)
    for column in np.asarray(groups).T:
        for cluster, group in itertools.product(range(k), np.unique(column)):
            inside, own = labels == cluster, column == group
            expected = int(own.sum()) * int(inside.sum())
            if not inside.any() or (
                abs(int((inside & own).sum()) * n - expected)
                > tolerance * expected + 1e-7
            ):
                return False
    return True


def by_integer_program(X, centers, groups, tolerance, whole=True):
    """Cost of the cheapest assignment within all bounds, a binary variable per pair."""
    C = ((X[:, None] - centers) ** 2).sum(axis=2)
    n, k = C.shape
    sizes = sparse.kron(np.ones((1, n)), sparse.eye_array(k))
    rows = sparse.kron(sparse.eye_array(n), np.ones((1, k)))
    limits = [LinearConstraint(rows, 1, 1), LinearConstraint(sizes, 1, np.inf)]
    for column in groups.T:
        for group in np.unique(column):
            member = (column == group).astype(float)
            counts = sparse.kron(member[None], sparse.eye_array(k))
            share = member.mean()
            upper = counts - (1 + tolerance) * share * sizes
            lower = counts - (1 - tolerance) * share * sizes
            limits.append(LinearConstraint(upper, -np.inf, 1e-9))
            limits.append(LinearConstraint(lower, -1e-9, np.inf))
    found = milp(C.ravel(), integrality=np.full(n * k, whole), bounds=Bounds(0, 1),
                 constraints=limits, options={"mip_rel_gap": 1e-6})  # fmt: skip
    return found.fun


def rows_of(n, k, a, seed, h=2):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, h, (n, a))
    centers = rng.normal(size=(k, 2))
    own = np.where(rng.random(n) < 0.4, groups.sum(axis=1) % k, rng.integers(0, k, n))
    return centers[own] + 0.6 * rng.normal(size=(n, 2)), centers, groups


@pytest.mark.parametrize(("n", "k", "a", "seed"), [(30, 2, 2, 0), (36, 3, 2, 1)])
def test_fair_labels_against_an_integer_program(n, k, a, seed):
    X, centers, groups = rows_of(n, k, a, seed)
    how = {"sensitive_features": groups, "tolerance": 0.25, "attributes": "each"}
    found = fair_assignment(X, centers, **how)
    best = by_integer_program(X, centers, groups, 0.25)
    # The bound of the prices is the value of the relaxation, not more.
    members, cells = joint_cells(groups)
    order = np.argsort(cells, kind="stable")
    costs = ((X[order, None] - centers) ** 2).sum(axis=2)
    sizes = np.bincount(cells)
    problem = AssignmentProblem(
        costs,
        np.append(0, np.cumsum(sizes)),
        np.ones(sizes.size),
        ShareBounds(sizes, k, 0.25, members),
    )
    relaxed = by_integer_program(X, centers, groups, 0.25, whole=False)
    np.testing.assert_allclose(optimal_prices(problem).lower_bound, relaxed, rtol=1e-6)
    assert bounds_hold(found.labels, groups, k, 0.25)
    assert found.max_violation == 0.0
    assert found.lower_bound <= best * (1 + 1e-6)
    assert best <= found.cost * (1 + 1e-6) <= best * 1.02


@pytest.mark.parametrize(
    ("n", "a", "h", "tolerance"), [(3000, 3, 3, 0.1), (500, 2, 2, 0.0)]
)
def test_fair_labels_of_many_rows(n, a, h, tolerance):
    X, centers, groups = rows_of(n, 5, a, 2, h)
    if tolerance == 0.0:  # halves of halves, so that it can be met
        groups = np.column_stack([np.arange(n) % 2, np.arange(n) // 2 % 2])
    how = {"sensitive_features": groups, "tolerance": tolerance}
    found = fair_assignment(X, centers, attributes="each", **how)
    assert bounds_hold(found.labels, groups, 5, tolerance)
    assert found.gap < 0.02


def test_fair_labels_that_are_impossible():
    X = np.arange(8.0)[:, None]
    groups = [[0, 0], [0, 0], [0, 1], [1, 1], [1, 1], [1, 1], [1, 1], [1, 1]]
    how = {"sensitive_features": groups, "attributes": "each"}
    with pytest.raises(ValueError, match=r"4 groups in 4 clusters .* tolerance=(\S+)"):
        fair_assignment(X, X[:4], tolerance=0.1, **how)
    assert fair_assignment(X, X[:4], tolerance=2.0, **how).max_violation == 0


def test_table_of_combinations():
    codes = np.array([[0, 2], [1, 0], [0, 2], [1, 1], [0, 0]])
    members, cells = joint_cells(codes)
    np.testing.assert_array_equal(members[cells], codes)
    bounds = ShareBounds(np.bincount(cells), 2, 0.5, members)
    np.testing.assert_array_equal(bounds.group_sizes, [3, 2, 2, 1, 2])
