"""UnifiedFairSpectralClustering: its parts, its result, input and conventions."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from scalefair.cluster import UnifiedFairSpectralClustering
from scalefair.cluster.comparators._unified import (
    candidate_pairs,
    sparsity_weight,
)

# --- The graph --------------------------------------------------------------------


# --- The estimator ----------------------------------------------------------------


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
    U, _, Vt = np.linalg.svd(V.T @ (d[:, None] * Y))
    misfit = (d / d.mean() * ((Y - V @ U @ Vt) ** 2).sum(axis=1)).sum()
    assert fitted.history_[-1] == pytest.approx(before + 0.1 * misfit, rel=1e-9)


def test_learned_graph_is_sparse_and_keeps_to_the_clusters(planted, fitted):
    S = fitted.learned_affinity_
    assert abs(S - S.T).max() == 0
    assert S.data.min() > 0
    assert S.diagonal().max() == 0
    assert (np.diff(S.indptr) > 0).all()  # the logarithm keeps every degree positive
    assert 5 < S.nnz / 600 < 20  # n_neighbors = 10
    across = planted.target[:, None] != planted.target

    def share(A):
        return A.toarray()[across].sum() / A.sum()

    # Less of its weight joins different clusters than of the given graph's, and the
    # less the more the embedding counts.
    assert share(S) < 0.5 * share(planted.graph)
    model = UnifiedFairSpectralClustering(4, embedding_weight=0.01, random_state=0)
    model.fit(planted.graph, sensitive_features=planted.sensitive_features)
    assert share(S) < 0.8 * share(model.learned_affinity_)


@pytest.mark.parametrize("n", [10, 20])  # fewer and more than n_neighbors
def test_equal_weights_everywhere(n):
    # A complete graph: all distances are zero and all pairs alike.
    model = UnifiedFairSpectralClustering(2, random_state=0)
    model.fit(np.ones((n, n)), sensitive_features=np.arange(n) % 2)
    assert np.isfinite(model.history_).all()
    assert (np.diff(model.history_) <= 1e-9).all()


def test_no_convergence_is_said(planted):
    model = UnifiedFairSpectralClustering(4, max_iter=2, tol=1e-12, random_state=0)
    with pytest.warns(ConvergenceWarning, match="Raise max_iter or tol"):
        model.fit(planted.graph, sensitive_features=planted.sensitive_features)
    assert not model.converged_
    assert model.n_iter_ == 2
    assert model.fairness_violation_ < 1e-12


@pytest.mark.filterwarnings("ignore:The clusters are of very different sizes")
def test_refuses_weights_too_far_apart():
    W = rbf_kernel(np.random.default_rng(0).standard_normal((60, 2)))
    W[2, 3] = W[3, 2] = 1e100
    with pytest.raises(ValueError, match=r"vanished: .* too far apart"):
        UnifiedFairSpectralClustering(2, random_state=0).fit(
            W, sensitive_features=np.arange(60) % 2
        )
