"""PCA of groups that are known as probabilities."""

from functools import partial

import dask.array
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from scalefair._membership import Membership
from scalefair.decomposition import (
    ErrorWeightedFairPCA,
    FairPCA,
    GroupPCA,
    SemidefiniteFairPCA,
)
from scalefair.decomposition._covariances import ExpectedCovariance
from scalefair.files import open_rows
from scalefair.operators import GroupCovariance
from scalefair.operators._coded_rows import DenseRows, SparseRows

M, N, R = 400, 30, 3
NAMES = ["a", "b", "c"]
RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 3, M)
X = RNG.standard_normal((M, N))
X[CODES == 0, :4] *= 3
X[CODES == 1, 3:9] *= 2.5
X[:, 0] += 5
SPARSE = np.where(RNG.random(X.shape) < 0.9, 0.0, X)
P = 0.7 * np.eye(3)[CODES] + 0.3 * RNG.dirichlet([1, 1, 1], M)
P[::9] = 0.0
P = pd.DataFrame(P, columns=NAMES)
WEIGHTS = RNG.integers(0, 4, M).astype(np.float64)


def covariances(X, A, centering="global"):
    """sum_i A_ig (x_i - c)(x_i - c)^T / W_g, c the mean of rows of known groups."""
    centre, C = A.sum(axis=1) @ X / A.sum(), []
    for a in A.T:
        offsets = X - (centre if centering == "global" else a @ X / a.sum())
        C.append((offsets.T * a) @ offsets / a.sum())
    return np.array(C)


def losses_of(C, components):
    best = np.linalg.eigvalsh(C)[:, -len(components) :].sum(axis=1)
    return best - np.trace(components @ C @ components.T, axis1=1, axis2=2)


def assert_optimal(pca, C):
    """Losses are as told; the dual certifies that none is smaller."""
    losses, w = losses_of(C, pca.components_), pca.dual_weights_
    best = np.linalg.eigvalsh(C)[:, -R:].sum(axis=1)
    dual = w @ best - np.linalg.eigvalsh(np.tensordot(w, C, axes=1))[-R:].sum()
    np.testing.assert_allclose(pca.group_losses_, losses, atol=1e-9 * losses.max())
    assert losses.max() == pytest.approx(dual, rel=1e-7)
    errors = np.trace(C, axis1=1, axis2=2) - best + losses
    np.testing.assert_allclose(pca.group_reconstruction_errors_, errors)


def project(pca):
    return pca.components_.T @ pca.components_


@pytest.mark.parametrize(
    ("form", "solver", "centering", "weights"),
    [
        (np.asarray, "gram", "global", WEIGHTS),
        (np.asarray, "matrix_free", "group", None),
        (sparse.csr_array, "gram", "group", None),
        (sparse.csr_array, "matrix_free", "global", None),
        (sparse.csr_array, "matrix_free", "group", WEIGHTS),
    ],
)
def test_no_basis_has_a_smaller_largest_expected_loss(form, solver, centering, weights):
    rows = SPARSE if form is sparse.csr_array else X
    A = P.to_numpy() * (1 if weights is None else weights[:, None])
    pca = FairPCA(R, solver=solver, centering=centering)
    pca.fit(form(rows), group_probabilities=P, sample_weight=weights)
    assert pca.solver_ == solver
    assert pca.groups_.tolist() == NAMES
    assert_optimal(pca, covariances(rows, A, centering))
    np.testing.assert_allclose(pca.mean_, A.sum(axis=1) @ rows / A.sum())
    with pytest.raises(AssertionError):  # the probabilities are seen
        assert_optimal(pca, covariances(rows, np.sqrt(A), centering))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_two_groups(form):
    rows = SPARSE if form is sparse.csr_array else X
    two = np.column_stack([P["a"], P["b"] + P["c"]])
    pca = FairPCA(R, solver="matrix_free").fit(form(rows), group_probabilities=two)
    assert pca.groups_.tolist() == [0, 1]
    assert_optimal(pca, covariances(rows, two))
    assert pca.group_losses_[0] == pytest.approx(pca.group_losses_[1], rel=1e-6)


@pytest.mark.parametrize(
    "estimator",
    [
        partial(FairPCA, R, solver="gram"),
        partial(FairPCA, R, solver="matrix_free", tol=1e-12),
        partial(GroupPCA, R),
        partial(SemidefiniteFairPCA, R, max_iter=30),
        partial(ErrorWeightedFairPCA, R),
    ],
)
def test_one_hot_is_hard(estimator):
    codes = CODES % 2
    for weights in (None, WEIGHTS):
        hard = estimator().fit(X, sensitive_features=codes, sample_weight=weights)
        soft = estimator().fit(
            X, group_probabilities=np.eye(2)[codes], sample_weight=weights
        )
        np.testing.assert_array_equal(soft.groups_, hard.groups_)
        # Of a matrix-free solution the basis only is as exact as `tol`.
        atol = 1e-12 if getattr(hard, "solver_", "gram") == "gram" else 1e-6
        np.testing.assert_allclose(project(soft), project(hard), atol=atol)
        np.testing.assert_allclose(soft.group_losses_, hard.group_losses_, atol=atol)


@pytest.mark.parametrize("solver", ["gram", "matrix_free"])
def test_columns_and_rows_may_be_cut_otherwise(solver):
    def fit(rows, P, weights=None):
        pca = FairPCA(R, solver=solver, tol=1e-10)
        return pca.fit(rows, group_probabilities=P, sample_weight=weights)

    def assert_same(pca, other, index=slice(None)):
        np.testing.assert_allclose(project(pca), project(other), atol=1e-5)
        losses = pca.group_losses_[index]
        np.testing.assert_allclose(losses, other.group_losses_, rtol=1e-6)
        np.testing.assert_allclose(pca.mean_, other.mean_)

    pca = fit(X, P)
    assert_same(fit(X, P[["c", "a", "b"]]), pca)
    renamed = P.rename(columns={"a": "z"})  # sorted last
    assert_same(fit(X, renamed), pca, [2, 0, 1])
    halved = fit(X, P.assign(a=P["a"] / 2, d=P["a"] / 2))
    assert_same(halved, pca, [0, 1, 2])
    assert halved.group_losses_[3] == pytest.approx(halved.group_losses_[0])
    is_of_group = P.sum(axis=1) > 0
    assert_same(fit(X[is_of_group], P[is_of_group]), pca)
    repeated = np.repeat(np.arange(M), WEIGHTS.astype(int))
    assert_same(fit(X, P, WEIGHTS), fit(X[repeated], P.iloc[repeated]))


@pytest.mark.parametrize(
    ("solver", "centering"), [("gram", "group"), ("matrix_free", "global")]
)
def test_rows_in_parts_are_rows_in_memory(solver, centering, tmp_path):
    options = {"solver": solver, "centering": centering, "tol": 1e-10}
    arguments = {"group_probabilities": P, "sample_weight": WEIGHTS}
    np.save(tmp_path / "X.npy", X)
    sparse.save_npz(tmp_path / "X.npz", sparse.csr_matrix(SPARSE))
    for table, name in ((X, "X.npy"), (sparse.csr_array(SPARSE), "X.npz")):
        expected = FairPCA(R, **options).fit(table, **arguments)
        inputs = [open_rows(tmp_path / name, max_bytes=40_000)]
        inputs += [dask.array.from_array(X, (150, N))] * (name == "X.npy")
        for rows in inputs:
            pca = FairPCA(R, **options).fit(rows, **arguments)
            np.testing.assert_allclose(project(pca), project(expected), atol=1e-5)
            losses = pca.group_losses_, expected.group_losses_
            np.testing.assert_allclose(*losses, rtol=1e-7)


def test_partial_fit_of_columns():
    expected = FairPCA(R).fit(X, group_probabilities=P)
    pca = FairPCA(R).partial_fit(X[:150], group_probabilities=P[:150])
    pca.partial_fit(X[150:300], group_probabilities=P[150:300])
    pca.partial_fit(X[300:], group_probabilities=P[300:])
    np.testing.assert_allclose(pca.group_losses_, expected.group_losses_)
    np.testing.assert_allclose(project(pca), project(expected), atol=1e-9)
    before = pca.moments_
    with pytest.raises(
        ValueError, match=r"group_probabilities has 1 group\(s\) .* 'd'"
    ):
        pca.partial_fit(X, group_probabilities=P.rename(columns={"a": "d"}))
    with pytest.raises(ValueError, match=r"group_probabilities has 3 group\(s\)"):
        pca.partial_fit(X, group_probabilities=P.to_numpy())
    assert pca.moments_ is before
    # Of a column without rows, and rows of groups that are known for certain.
    two = P[["a", "b"]].div(P[["a", "b"]].sum(axis=1), axis=0)
    pca.partial_fit(X, group_probabilities=two)
    pca.partial_fit(X, sensitive_features=np.array(NAMES)[CODES])
    A = [P.to_numpy(), np.c_[two.fillna(0), np.zeros(M)], np.eye(3)[CODES]]
    assert_optimal(pca, covariances(np.vstack([X] * 3), np.vstack(A)))


@pytest.mark.parametrize(
    ("form", "centering", "dtype"),
    [
        (np.asarray, "global", np.float32),
        (sparse.csr_array, "group", np.float64),
    ],
)
def test_one_product_for_all_groups(form, centering, dtype, monkeypatch):
    rows = (SPARSE if form is sparse.csr_array else X).astype(dtype)
    membership = Membership.of(None, P, M, sample_weight=WEIGHTS)
    operator = ExpectedCovariance(form(rows), membership, centering)
    A = P.to_numpy() * WEIGHTS[:, None]
    C = covariances(rows.astype(np.float64), A, centering)
    np.testing.assert_allclose(operator.group_traces, np.trace(C, axis1=1, axis2=2))
    np.testing.assert_allclose(operator.counts, A.sum(axis=0))
    V, calls = RNG.standard_normal((N, 4)), []
    small = V.T @ C @ V
    np.testing.assert_allclose(operator.compress(V), small, atol=1e-10)
    for kind in (DenseRows, SparseRows):
        original = kind.add_products

        def count(self, *arguments, original=original):
            calls.append(self)
            return original(self, *arguments)

        monkeypatch.setattr(kind, "add_products", count)
    for w in ([0.2, 0.5, 0.3], [1.0, 0.0, 0.0], [2.0, -1.5, 0.5]):
        weighted = operator.with_weights(np.array(w))
        for block in (V, V[:, :1]):  # one vector of sparse rows takes another path
            calls.clear()
            product = weighted @ block
            assert len(calls) == 1
            expected = np.tensordot(w, C, axes=1) @ block
            np.testing.assert_allclose(product, expected, atol=1e-9)
        U = RNG.standard_normal((N, 4))
        np.testing.assert_allclose(U.T @ (weighted @ V), (weighted @ U).T @ V)


def test_other_weights_of_rows():
    """About the centres of the operator, undivided; it keeps its own."""
    C = GroupCovariance(X, CODES, [0.5, 1.0, 2.0], sample_weight=WEIGHTS + 1)
    before, V = C @ np.eye(N), RNG.standard_normal((N, 2))
    for rows in (X, sparse.csr_array(X)):
        C = GroupCovariance(rows, CODES, [0.5, 1.0, 2.0], sample_weight=WEIGHTS + 1)
        weights = RNG.standard_normal(M)
        factors = weights * np.array([0.5, 1.0, 2.0])[CODES]
        offsets = X - C.mean
        other = C.with_sample_weight(weights)
        np.testing.assert_allclose(other @ V, (offsets.T * factors) @ offsets @ V)
        np.testing.assert_allclose(other @ V[:, :1], (other @ V)[:, :1])
        np.testing.assert_allclose(C @ np.eye(N), before, atol=1e-10)
        np.testing.assert_allclose(C @ V[:, 0], before @ V[:, 0], atol=1e-10)


@pytest.mark.parametrize("estimator", [FairPCA, GroupPCA])
def test_what_is_refused(estimator):
    for arguments in ({}, {"sensitive_features": CODES, "group_probabilities": P}):
        with pytest.raises(TypeError, match=r"got (neither|both)"):
            estimator(R).fit(X, **arguments)
    with pytest.raises(ValueError, match="a column for each group, two or more"):
        estimator(R).fit(X, group_probabilities=P[["a"]])
    with pytest.raises(ValueError, match=r"that are never positive: 'd'"):
        estimator(R).fit(X, group_probabilities=P.assign(d=0.0))
