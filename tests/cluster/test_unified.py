"""UnifiedFairSpectralClustering: its parts, its result, input and conventions."""

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import expm, null_space
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import rbf_kernel

from scalefair.cluster import FairSpectralClustering, UnifiedFairSpectralClustering
from scalefair.cluster.comparators._base import ClusteredGraph
from scalefair.cluster.comparators._learned_graph import (
    CandidatePairs,
    candidate_pairs,
    learn_weights,
    sparsity_weight,
)
from scalefair.cluster.comparators._unified import (
    _Alternation,
    descend_embedding,
    nearest_rotation,
)
from scalefair.datasets import make_fair_sbm


def _all_pairs(n, seed=0):
    i, j = np.triu_indices(n, k=1)
    distances = np.random.RandomState(seed).uniform(0.2, 1, i.size)
    return CandidatePairs(i, j, distances, n)


def _random_graph(n, seed=0, density=0.4):
    rng = np.random.RandomState(seed)
    W = rng.uniform(0.1, 2, (n, n)) * (rng.uniform(size=(n, n)) < density)
    W = np.triu(W, 1)
    W[0, 1:] = 1  # connected
    return W + W.T


# --- The graph --------------------------------------------------------------------


def _graph_objective(s, costs, pairs):
    degrees = pairs.matrix(s).toarray().sum(axis=1)
    return 2 * s @ costs + s @ s - np.log(degrees).sum()


def test_learned_weights_agree_with_a_general_solver():
    pairs = _all_pairs(8)
    costs = 0.7 * pairs.distances
    s, multipliers = learn_weights(pairs, costs, np.ones(8))
    reference = minimize(
        _graph_objective,
        np.full(s.size, 0.2),
        args=(costs, pairs),
        bounds=[(0, None)] * s.size,
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 2000, "maxfun": 10**6},
    )
    np.testing.assert_allclose(s, reference.x, atol=1e-4)
    assert _graph_objective(s, costs, pairs) <= reference.fun + 1e-9
    np.testing.assert_allclose(pairs.sums(s), 1 / multipliers, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_learned_weights_are_optimal(scale):
    # Optimality from the definition: no pair wants to change.
    pairs = _all_pairs(60, seed=1)
    costs = scale * pairs.distances
    s, _ = learn_weights(pairs, costs, np.ones(60))
    inverse = 1 / pairs.matrix(s).toarray().sum(axis=1)
    slope = 2 * costs + 2 * s - inverse[pairs.rows] - inverse[pairs.columns]
    size = np.abs(inverse).max()
    assert np.abs(slope[s > 0]).max() < 1e-6 * size
    assert slope.min() > -1e-6 * size
    if scale > 1:
        assert (s == 0).any()


@pytest.mark.parametrize("seed", range(20))
def test_any_start_of_the_multipliers_will_do(seed):
    rng = np.random.RandomState(seed)
    pairs = _all_pairs(rng.randint(3, 30), seed=seed)
    costs = 10 ** rng.uniform(-3, 3) * pairs.distances
    expected, _ = learn_weights(pairs, costs, np.ones(pairs.n))
    s, _ = learn_weights(pairs, costs, 10 ** rng.uniform(-3, 3, pairs.n))
    np.testing.assert_allclose(s, expected, atol=1e-6 * expected.max())


def test_candidates_are_the_nodes_with_similar_rows():
    W = _random_graph(30, seed=3)
    pairs = candidate_pairs(sparse.csr_array(W), 30)  # all of them
    rows = W / W.max() + np.eye(30)
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    expected = 1 - rows @ rows.T
    np.testing.assert_allclose(
        pairs.distances, expected[pairs.rows, pairs.columns], atol=1e-12
    )
    assert (pairs.rows < pairs.columns).all()
    assert pairs.rows.size == (np.triu(expected < 1 - 1e-12, 1)).sum()


def _keep_largest(A, most):
    largest = np.argsort(-A, axis=1)[:, :most]
    kept = np.zeros_like(A)
    np.put_along_axis(kept, largest, np.take_along_axis(A, largest, 1), 1)
    return np.maximum(kept, kept.T)


def test_each_node_proposes_its_most_similar_candidates():
    W = rbf_kernel(np.random.RandomState(0).standard_normal((80, 2)))
    np.fill_diagonal(W, 0)
    pairs = candidate_pairs(sparse.csr_array(W), 2)  # 10 candidates each
    rows = _keep_largest(W, 10) / W.max() + np.eye(80)
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    expected = _keep_largest(rows @ rows.T - np.eye(80), 10)
    chosen = pairs.matrix(2 - pairs.distances).toarray()
    chosen[chosen > 0] -= 1
    np.testing.assert_allclose(chosen, expected, atol=1e-12)


def test_sparsity_weight_gives_the_stated_number_of_neighbors():
    # One node's problem, solved in closed form: w = (x - theta z)_+ with x = 1/sum w.
    rng = np.random.RandomState(4)
    z = np.sort(rng.uniform(0.2, 1, 40))
    pairs = CandidatePairs(np.zeros(40, int), np.arange(1, 41), z, 41)
    for q in (1, 3, 10, 39):
        theta = sparsity_weight(pairs, q)  # the other nodes have one candidate each
        kept = z[:q]
        b, c = theta * kept.sum(), q
        x = (b + np.sqrt(b**2 + 4 * c)) / (2 * c)
        assert x - theta * z[q - 1] > 0
        assert x - theta * z[q] == pytest.approx(0, abs=1e-9)


def test_sparsity_weight_of_equal_distances():
    pairs = _all_pairs(20)
    equal = CandidatePairs(
        pairs.rows, pairs.columns, np.full_like(pairs.distances, 0.3), 20
    )
    assert sparsity_weight(equal, 5) == 1.0
    assert sparsity_weight(pairs, 19) == 1.0  # nobody has more candidates
    assert sparsity_weight(pairs, 3) != 1.0


# --- The embedding ----------------------------------------------------------------


def _embedding_problem(n=40, k=3, r=2, seed=0):
    rng = np.random.RandomState(seed)
    A = rng.standard_normal((n, n))
    Q = np.linalg.qr(rng.standard_normal((n, r)))[0]
    start = null_space(Q.T) @ np.linalg.qr(rng.standard_normal((n - r, k)))[0]
    return sparse.csr_array(A @ A.T / n), rng.standard_normal((n, k)), Q, start


@pytest.mark.parametrize("factor", [0.0, 0.1, 10.0])
def test_descent_lowers_the_value_and_keeps_the_constraints(factor):
    A, B, Q, H = _embedding_problem()
    B = factor * B
    values = []
    for _ in range(30):
        values.append(np.trace(H.T @ A @ H) - 2 * np.trace(B.T @ H))
        H = descend_embedding(H, A, B, Q)
        np.testing.assert_allclose(H.T @ H, np.eye(3), atol=1e-10)
        assert np.abs(Q.T @ H).max() < 1e-10
    assert (np.diff(values) <= 1e-12).all()
    assert values[-1] < values[0] - 0.1
    # Stationary: the gradient is symmetric in H and nothing is left outside.
    G = A @ H - B
    G -= Q @ (Q.T @ G)
    inner = H.T @ G
    np.testing.assert_allclose(inner, inner.T, atol=1e-4 * np.linalg.norm(G))
    outside = np.linalg.norm(G - H @ inner)
    assert outside < 1e-4 * np.linalg.norm(G)


def test_descent_without_linear_term_finds_the_lowest_eigenvectors():
    A, B, Q, H = _embedding_problem()
    for _ in range(30):
        H = descend_embedding(H, A, 0 * B, Q)
    Z = null_space(Q.T)
    lowest = np.linalg.eigvalsh(Z.T @ A.toarray() @ Z)[:3]
    np.testing.assert_allclose(
        np.linalg.eigvalsh(H.T @ A @ H), lowest, rtol=1e-5, atol=1e-8
    )


def test_nearly_stationary_start_stays_fair():
    # The gradient is hardly more than rounding, and the first step a long one.
    A, _, Q, H = _embedding_problem()
    A = sparse.csr_array(sparse.eye_array(40) + 1e-7 * A)
    for _ in range(10):
        H = descend_embedding(H, A, 0 * H, Q)
        assert np.abs(Q.T @ H).max() < 1e-14
        np.testing.assert_allclose(H.T @ H, np.eye(3), atol=1e-12)


def test_almost_linear_objective():
    # No curvature limits the first step; the best block is the polar factor of B.
    A, B, Q, H = _embedding_problem()
    B[:, 1:] *= 1e-9  # a step that is long for one column only
    A, B = 1e-12 * A, B - Q @ (Q.T @ B)
    for _ in range(10):
        H = descend_embedding(H, A, B, Q)
        np.testing.assert_allclose(H.T @ H, np.eye(3), atol=1e-12)
    assert np.trace(B.T @ H) == pytest.approx(np.linalg.svd(B)[1].sum())


def test_descent_stays_at_a_minimum():
    A, B, Q, H = _embedding_problem()
    zero = sparse.csr_array(A.shape)
    np.testing.assert_array_equal(descend_embedding(H, zero, 0 * B, Q), H)


def test_nearest_rotation():
    C = np.random.RandomState(0).standard_normal((4, 4))
    R = nearest_rotation(C)
    np.testing.assert_allclose(R.T @ R, np.eye(4), atol=1e-12)
    assert np.trace(R.T @ C) == pytest.approx(np.linalg.svd(C)[1].sum())


# --- The alternation --------------------------------------------------------------


@pytest.fixture
def alternation():
    """A state in the middle of the iteration, degrees and labels irregular."""
    W = sparse.csr_array(_random_graph(50, seed=6, density=0.15))
    groups = np.arange(50) % 3
    start = FairSpectralClustering(4, random_state=0)
    start.fit(W, sensitive_features=groups)
    graph = ClusteredGraph(W, np.ones(50, bool), W, groups, np.arange(3))
    labels = np.random.RandomState(0).randint(4, size=50)
    state = _Alternation(graph, 5, 0.5, 0.7, start.embedding_, labels)
    state.advance()
    return state


def test_embedding_terms_are_those_of_the_objective(alternation):
    state = alternation
    A, B = state.embedding_terms()
    Z = null_space(state.problem.Q.T)
    rng = np.random.RandomState(1)
    offsets = []
    for _ in range(3):
        H = Z @ np.linalg.qr(rng.standard_normal((Z.shape[1], 4)))[0]
        state.H = H
        offsets.append(state.objective() - np.trace(H.T @ A @ H - 2 * B.T @ H))
    np.testing.assert_allclose(offsets, offsets[0], rtol=1e-12)


def test_rotation_and_labels_are_the_best_ones(alternation):
    state = alternation
    value = state.objective()
    labels = state.labels.copy()
    for node in range(50):
        for c in range(4):
            state.labels = labels.copy()
            state.labels[node] = c
            assert state.objective() >= value - 1e-12
    state.labels = labels
    state._rotate()
    R, value = state.R, state.objective()
    rng = np.random.RandomState(2)
    for _ in range(50):
        skew = 0.05 * rng.standard_normal((4, 4))
        state.R = R @ expm(skew - skew.T)
        assert state.objective() >= value - 1e-12


# --- The estimator ----------------------------------------------------------------


@pytest.fixture(scope="module")
def planted():
    return make_fair_sbm(
        600, n_clusters=4, n_groups=3, average_degree=40, random_state=1
    )


@pytest.fixture(scope="module")
def fitted(planted):
    return UnifiedFairSpectralClustering(4, random_state=0).fit(
        planted.graph, sensitive_features=planted.sensitive_features
    )


def test_history_is_the_objective_and_falls(planted, fitted):
    assert fitted.n_iter_ == fitted.history_.size > 2
    size = np.abs(fitted.history_).max()
    assert (np.diff(fitted.history_) <= 1e-10 * size).all()
    # From the definition, at the end.
    W = planted.graph.toarray()
    d = W.sum(axis=1)
    S = fitted.learned_affinity_.toarray()
    rows = W / W.max() + np.eye(600)
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    p = 1 - rows @ rows.T
    V = np.sqrt(d.sum() / 4) * fitted.embedding_ / np.sqrt(d)[:, None]
    squares = ((V[:, None] - V[None]) ** 2).sum(axis=2)
    Y = np.eye(4)[fitted.labels_]
    theta = sparsity_weight(candidate_pairs(sparse.csr_array(W), 10), 10)
    before = (
        theta * (S * (p + 0.25 * squares)).sum()
        - np.log(S.sum(axis=1)).sum()
        + 0.5 * (S**2).sum()
    )
    # R of the last round belongs to the labels before it: here they are the same.
    R = nearest_rotation(V.T @ (d[:, None] * Y))
    misfit = (d / d.mean() * ((Y - V @ R) ** 2).sum(axis=1)).sum()
    assert fitted.history_[-1] == pytest.approx(before + 0.1 * misfit, rel=1e-9)


def test_learned_graph_is_sparse_and_keeps_to_the_clusters(planted, fitted):
    S = fitted.learned_affinity_
    assert abs(S - S.T).max() == 0
    assert S.data.min() > 0
    assert S.diagonal().max() == 0
    assert (np.diff(S.indptr) > 0).all()  # the logarithm keeps every degree positive
    assert 5 < S.nnz / 600 < 20  # n_neighbors = 10
    # Less of its weight joins different clusters than of the given graph's.
    across = planted.target[:, None] != planted.target

    def share(A):
        return A.toarray()[across].sum() / A.sum()

    assert share(S) < 0.5 * share(planted.graph)


def test_embedding_weight_pulls_the_graph_apart(planted):
    shares = []
    across = planted.target[:, None] != planted.target
    for weight in (0.01, 2.0):
        model = UnifiedFairSpectralClustering(
            4, embedding_weight=weight, n_init=1, random_state=0
        ).fit(planted.graph, sensitive_features=planted.sensitive_features)
        S = model.learned_affinity_
        shares.append(S.toarray()[across].sum() / S.sum())
    assert shares[1] < 0.2 * shares[0]


@pytest.mark.parametrize("weight", [0.0, 0.01, 1.0])
def test_label_weight(planted, weight):
    model = UnifiedFairSpectralClustering(4, label_weight=weight, random_state=0)
    model.fit(planted.graph, sensitive_features=planted.sensitive_features)
    assert (np.diff(model.history_) < 1e-9).all()
    assert model.fairness_violation_ < 1e-12
    # With 0 the pieces of the learned graph leave the embedding undetermined.
    if weight > 0:
        assert adjusted_rand_score(planted.target, model.labels_) > 0.98


def test_loops_change_nothing(planted, fitted):
    W = sparse.csr_array(planted.graph).astype(float)
    loops = sparse.csr_array(W + sparse.diags_array(np.arange(600.0)))
    model = UnifiedFairSpectralClustering(4, random_state=0)
    model.fit(loops, sensitive_features=planted.sensitive_features)
    np.testing.assert_array_equal(model.labels_, fitted.labels_)
    np.testing.assert_allclose(model.history_, fitted.history_, rtol=1e-6)


def test_components():
    clique = np.ones((15, 15)) - np.eye(15)
    W = sparse.block_diag([np.zeros((1, 1)), [[2.0]], clique, clique], format="csr")
    model = UnifiedFairSpectralClustering(
        2, connected_components="all", random_state=0
    ).fit(W, sensitive_features=np.arange(32) % 2)
    assert adjusted_rand_score(np.repeat([0, 1], 15), model.labels_[2:]) == 1
    assert (model.labels_[:2] == -1).all()  # a loop is no edge
    S = model.learned_affinity_.toarray()
    assert S.shape == (32, 32)
    assert (S[:2] == 0).all()
    assert S[2:17, 17:].max() == 0
    assert S.sum(axis=1)[2:].min() > 0


def test_equal_weights_everywhere():
    # A complete graph: all distances are zero and all pairs alike.
    model = UnifiedFairSpectralClustering(2, random_state=0)
    model.fit(np.ones((20, 20)), sensitive_features=np.arange(20) % 2)
    assert np.isfinite(model.history_).all()
    assert (np.diff(model.history_) <= 1e-9).all()


def test_no_convergence_is_said(planted):
    model = UnifiedFairSpectralClustering(4, max_iter=2, tol=1e-12, random_state=0)
    with pytest.warns(ConvergenceWarning, match="Raise max_iter or tol"):
        model.fit(planted.graph, sensitive_features=planted.sensitive_features)
    assert not model.converged_
    assert model.n_iter_ == 2
    assert model.fairness_violation_ < 1e-12


# --- scikit-learn's conventions ---------------------------------------------------


def test_refuses_weights_too_far_apart():
    W = rbf_kernel(np.random.default_rng(0).standard_normal((60, 2)))
    W[2, 3] = W[3, 2] = 1e100
    with pytest.raises(ValueError, match=r"vanished: .* too far apart"):
        UnifiedFairSpectralClustering(2, random_state=0).fit(
            W, sensitive_features=np.arange(60) % 2
        )
