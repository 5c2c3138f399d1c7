"""What all clustering estimators promise: input, components, groups, repeatability."""

import numpy as np
import pytest
from joblib import hash
from scipy import sparse
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from scalefair.cluster import (
    CoordinateDescentFairClustering,
    FairSpectralClustering,
    UnifiedFairSpectralClustering,
)
from scalefair.cluster._base import PAPERS_METHOD
from scalefair.metrics import balance_score

ESTIMATORS = [
    FairSpectralClustering,
    CoordinateDescentFairClustering,
    UnifiedFairSpectralClustering,
]
# With regularization a graph of several components is clustered as a whole.
PAPERS = {FairSpectralClustering: PAPERS_METHOD}
every = pytest.mark.parametrize("estimator", ESTIMATORS)


def fit(estimator, W, groups, k=4, **options):
    return estimator(k, random_state=0, **options).fit(W, sensitive_features=groups)


@pytest.fixture(scope="module")
def fitted(planted):
    return {e: fit(e, planted.graph, planted.sensitive_features) for e in ESTIMATORS}


@every
def test_planted_clusters_and_what_is_measured(estimator, planted, fitted):
    model, groups = fitted[estimator], planted.sensitive_features
    assert adjusted_rand_score(planted.target, model.labels_) > 0.98
    assert balance_score(model.labels_, sensitive_features=groups) > 0.95
    assert model.converged_
    assert model.labels_.dtype == np.int32
    assert list(model.groups_) == [0, 1, 2]
    degrees = planted.graph.toarray().sum(axis=1)
    degrees += getattr(model, "regularization", 0) * degrees.mean()
    F = (groups[:, None] == np.unique(groups)) - np.bincount(groups) / groups.size
    F = F / np.sqrt(degrees)[:, None]
    H = model.embedding_
    np.testing.assert_allclose(H.T @ H, np.eye(4), atol=1e-10)
    violation = np.linalg.norm(F.T @ H)
    assert model.fairness_violation_ == pytest.approx(violation, abs=1e-12)
    if estimator is not CoordinateDescentFairClustering:
        assert violation < 1e-12
    assert getattr(model, "orthogonality_violation_", 0.0) < 1e-10


@every
def test_names_of_groups_scale_and_threads_change_nothing(
    estimator, planted, fitted, with_threads
):
    pandas = pytest.importorskip("pandas")
    W, groups = sparse.csr_array(planted.graph), planted.sensitive_features
    names = np.array(["north", "south", "west"])[groups]
    unsorted_rows = pandas.Series(names, index=np.arange(600)[::-1])
    one = fitted[estimator]
    for A, g in ((W * 1024.0, unsorted_rows.astype("category")), (W.toarray(), names)):
        model = fit(estimator, A, g)
        assert list(model.groups_) == ["north", "south", "west"]
        np.testing.assert_array_equal(model.labels_, one.labels_)
        np.testing.assert_allclose(
            abs(model.embedding_), abs(one.embedding_), atol=1e-5
        )
    with threadpool_limits(2):
        again = with_threads(2, fit, estimator, W, groups)
    np.testing.assert_array_equal(again.labels_, one.labels_)
    np.testing.assert_array_equal(again.embedding_, one.embedding_)
    # Permuted nodes give permuted clusters.
    order = np.random.RandomState(0).permutation(600)
    model = fit(estimator, W[order][:, order], groups[order])
    assert adjusted_rand_score(one.labels_[order], model.labels_) > 0.99


@every
def test_input_and_global_random_state_are_untouched(estimator, planted):
    W = sparse.csr_array(planted.graph).astype(float)
    W.data[:] = 3.0

    def state():
        return hash((W.data, W.indices, W.indptr, np.random.get_state()))  # noqa: NPY002

    before = state()
    estimator(3, n_init=1).fit(W, sensitive_features=planted.sensitive_features)
    assert state() == before


@pytest.mark.filterwarnings("ignore:The clusters are of very different sizes")
@every
def test_components(estimator):
    # Two cliques, a triangle and two isolated nodes, in that order.
    cliques = [np.ones((s, s)) - np.eye(s) for s in (16, 15, 3)]
    islands = sparse.block_diag([*cliques, sparse.csr_array((2, 2))], format="csr")
    groups, options = np.arange(36) % 2, PAPERS.get(estimator, {})
    message = (
        r"5 connected components, 2 of them isolated \(first: node 34\); the largest "
        r"has 16 of 36 nodes.*\"largest\".*\"all\""
    )
    with pytest.raises(ValueError, match=message):
        fit(estimator, islands, groups, 2, **options)
    leaving = np.where(np.arange(36) < 16, groups, 9)  # with its component
    model = fit(estimator, islands, leaving, 2, connected_components="largest")
    assert list(model.groups_) == [0, 1]
    assert (model.labels_[:16] >= 0).all()
    assert (model.labels_[16:] == -1).all()
    assert (model.embedding_[16:] == 0).all()
    model = fit(estimator, islands, groups, 3, connected_components="all", **options)
    components = np.repeat([0, 1, 2], [16, 15, 3])
    assert adjusted_rand_score(components, model.labels_[:34]) == 1
    assert (model.labels_[34:] == -1).all()


@every
def test_nearest_neighbors(estimator):
    rng = np.random.RandomState(0)
    X = np.vstack([rng.standard_normal((60, 2)) + c for c in ([0, 0], [15, 0])])
    groups = np.arange(120) % 2
    options = {"affinity": "nearest_neighbors", **PAPERS.get(estimator, {})}
    with pytest.raises(ValueError, match=r"2 connected components.*raise n_neighbors"):
        fit(estimator, X, groups, 2, **options)
    model = fit(estimator, X, groups, 2, connected_components="all", **options)
    assert adjusted_rand_score(np.repeat([0, 1], 60), model.labels_) == 1
    with pytest.raises(ValueError, match="n_neighbors = 120 must be less"):
        fit(estimator, X, groups, 2, n_neighbors=120, **options)


@every
def test_float32_affinity_is_symmetric_to_float32_rounding(estimator):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    K = np.exp(-((X[:, None] - X) ** 2).sum(axis=2))
    noisy = K * (1 + 3e-7 * np.triu(rng.standard_normal((60, 60)), 1))
    groups = np.arange(60) % 2
    with pytest.raises(ValueError, match=r"asymmetric: entry \(\d+, \d+\) is 0\.\d{8}"):
        fit(estimator, noisy, groups, 3)
    W = fit(estimator, noisy.astype(np.float32), groups, 3).affinity_matrix_
    assert abs(W - W.T).max() == 0
    np.testing.assert_allclose(W.toarray(), K, rtol=1e-5)


@every
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda W: W[:, :-1], "square matrix, got shape"),
        (lambda W: -W, "Negative values in data.*row 0, column 1"),
        (lambda W: sparse.triu(W).tocsr(), r"asymmetric: entry \("),
        (lambda W: W * np.nan, "NaN"),
        (lambda W: W * 0, "no edges"),
        (lambda W: W * 1e307, "so large that their sum overflows"),
        (lambda W: W.toarray()[:1, :1], "minimum of 2"),
        (lambda W: W[:2, :2], r"n_clusters=3 must .*n_samples=2"),
    ],
)
def test_bad_matrix(estimator, change, message, graphs):
    with np.errstate(invalid="ignore"):
        W = change(graphs.path(30))
    with pytest.raises(ValueError, match=message):
        fit(estimator, W, np.arange(W.shape[0]) % 2, 3)
