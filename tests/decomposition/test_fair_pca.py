"""scalefair.decomposition.FairPCA."""

import pickle
import warnings

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline

from scalefair.decomposition import FairPCA, GroupPCA
from scalefair.decomposition._subspace import solve_formed
from scalefair.streaming import GroupMoments


def _rows(m=300, n=8, n_groups=2, seed=0):
    """Rows whose groups have covariances of their own, and means of their own."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_groups, m)
    codes[:n_groups] = np.arange(n_groups)
    X = np.empty((m, n))
    for g in range(n_groups):
        mixing = rng.standard_normal((n, n)) * 0.7 ** np.arange(n)[:, None]
        size = int((codes == g).sum())
        X[codes == g] = rng.standard_normal((size, n)) @ mixing + g
    return X, codes


def _covariances(X, codes, centering):
    C = []
    for g in np.unique(codes):
        rows = X[codes == g]
        rows = rows - (X.mean(axis=0) if centering == "global" else rows.mean(axis=0))
        C.append(rows.T @ rows / len(rows))
    return np.array(C)


def _best(C, r):
    return np.linalg.eigvalsh(C)[:, C.shape[1] - r :].sum(axis=1)


SOLVERS = ["gram", "matrix_free"]


@pytest.mark.parametrize("centering", ["global", "group"])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("r", [1, 3, 8])
def test_attributes_against_dense_algebra(r, solver, centering):
    X, codes = _rows()
    pca = FairPCA(r, solver=solver, centering=centering)
    pca.fit(X, sensitive_features=codes)
    C = _covariances(X, codes, centering)
    U = pca.components_.T
    captured = np.array([np.trace(U.T @ C_g @ U) for C_g in C])
    np.testing.assert_allclose(U.T @ U, np.eye(r), atol=1e-12)
    np.testing.assert_allclose(pca.group_losses_, _best(C, r) - captured, atol=1e-9)
    traces = np.trace(C, axis1=1, axis2=2)
    np.testing.assert_allclose(
        pca.group_reconstruction_errors_, traces - captured, atol=1e-9
    )
    np.testing.assert_allclose(pca.mean_, X.mean(axis=0), atol=1e-12)
    shares = np.bincount(codes) / len(codes)
    pooled = np.tensordot(shares, C, axes=1)
    np.testing.assert_allclose(
        U.T @ pooled @ U, np.diag(pca.explained_variance_), atol=1e-9
    )
    assert (np.diff(pca.explained_variance_) <= 0).all()
    assert pca.dual_weights_.sum() == pytest.approx(1)
    assert pca.converged_
    assert pca.solver_ == solver
    if r < X.shape[1]:
        # Equal losses, and no basis does better: the dual says so.
        assert pca.fairness_ratio_gap_ <= 1e-8
        H = np.tensordot(pca.dual_weights_, C, axes=1)
        dual = pca.dual_weights_ @ _best(C, r) - _best(H[None], r)[0]
        assert pca.group_losses_.max() == pytest.approx(dual, rel=1e-8)
        assert pca.duality_gap_ <= 1e-8 * pca.group_losses_.max()
    else:
        np.testing.assert_allclose(pca.group_losses_, 0, atol=1e-12)
        assert pca.fairness_ratio_gap_ == 0


@pytest.mark.parametrize("n_groups", [2, 3, 5])
def test_no_random_basis_is_better(n_groups):
    X, codes = _rows(n=5, n_groups=n_groups)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a gap is allowed here
        pca = FairPCA(2).fit(X, sensitive_features=codes)
    C = _covariances(X, codes, "global")
    rng = np.random.default_rng(1)
    largest = pca.group_losses_.max()
    for _ in range(2000):
        U = np.linalg.qr(rng.standard_normal((5, 2)))[0]
        captured = np.einsum("ik,gij,jk->g", U, C, U)
        assert (_best(C, 2) - captured).max() >= largest - pca.duality_gap_ - 1e-9


@pytest.mark.parametrize(("r", "n_groups"), [(3, 4), (12, 2)])
def test_solvers_agree_at_many_features(r, n_groups):
    # 340 features: the subspace method of both solvers.
    X, codes = _rows(m=900, n=340, n_groups=n_groups, seed=3)
    fits = [FairPCA(r, solver=solver) for solver in SOLVERS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # four groups have a gap
        for pca in fits:
            pca.fit(X, sensitive_features=codes)
    gram, free = fits
    largest = gram.group_losses_.max()
    np.testing.assert_allclose(free.group_losses_, gram.group_losses_, rtol=1e-7)
    np.testing.assert_allclose(free.dual_weights_, gram.dual_weights_, atol=1e-6)
    # Also the method for small problems, on the same covariances.
    C = _covariances(X, codes, "global")
    found = solve_formed(C, r, 1e-8, 100)
    assert largest - gram.duality_gap_ == pytest.approx(found.dual_value, rel=1e-8)
    np.testing.assert_allclose(gram.dual_weights_, found.weights, atol=1e-6)
    assert gram.n_iter_ < 8


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    "form", [sparse.csr_array, sparse.csc_array, np.asfortranarray]
)
def test_forms_of_rows_agree(form, solver):
    X, codes = _rows()
    X[np.abs(X) < 1] = 0
    dense = FairPCA(2, solver=solver).fit(X, sensitive_features=codes)
    other = FairPCA(2, solver=solver).fit(form(X), sensitive_features=codes)
    np.testing.assert_allclose(other.components_, dense.components_, atol=1e-6)
    np.testing.assert_allclose(other.group_losses_, dense.group_losses_, rtol=1e-8)
    np.testing.assert_allclose(other.transform(form(X)), dense.transform(X), atol=1e-5)


@pytest.mark.parametrize("solver", SOLVERS)
def test_memory_mapped_rows(tmp_path, solver):
    X, codes = _rows()
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    pca = FairPCA(2, solver=solver).fit(mapped, sensitive_features=codes)
    expected = FairPCA(2, solver=solver).fit(X, sensitive_features=codes)
    np.testing.assert_allclose(pca.components_, expected.components_, atol=1e-9)
    np.testing.assert_allclose(pca.transform(mapped), expected.transform(X), atol=1e-9)


def test_float32_rows_are_accumulated_in_float64():
    X, codes = _rows()
    X += 1000.0  # large beside the variance
    pca = FairPCA(2).fit(X.astype(np.float32), sensitive_features=codes)
    expected = FairPCA(2).fit(
        X.astype(np.float32).astype(np.float64), sensitive_features=codes
    )
    np.testing.assert_allclose(pca.group_losses_, expected.group_losses_, rtol=1e-9)
    scores = pca.transform(X.astype(np.float32))
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, expected.transform(X), atol=2e-3)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    r=st.integers(1, 3),
    scale=st.sampled_from([1e-5, 1, 1e6]),
)
def test_invariances(seed, r, scale):
    X, codes = _rows(m=60, n=5, seed=seed)
    rng = np.random.default_rng(seed)
    pca = FairPCA(r).fit(X, sensitive_features=codes)
    P = pca.components_.T @ pca.components_
    losses = pca.group_losses_
    order = rng.permutation(60)
    Q = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    names = np.array(["z", "a"])[codes]
    same = FairPCA(r).fit(X[order], sensitive_features=codes[order])
    named = FairPCA(r).fit(X, sensitive_features=names)
    scaled = FairPCA(r).fit(scale * X + 3 * scale, sensitive_features=codes)
    turned = FairPCA(r).fit(X @ Q, sensitive_features=codes)
    np.testing.assert_allclose(same.group_losses_, losses, rtol=1e-7)
    np.testing.assert_allclose(named.group_losses_, losses[::-1], rtol=1e-7)
    assert named.groups_.tolist() == ["a", "z"]
    np.testing.assert_allclose(scaled.group_losses_, scale**2 * losses, rtol=1e-7)
    np.testing.assert_allclose(turned.group_losses_, losses, rtol=1e-7)
    for other in (same, scaled):
        np.testing.assert_allclose(
            other.components_.T @ other.components_, P, atol=2e-4
        )


def test_transform_and_back():
    X, codes = _rows()
    pca = FairPCA(8).fit(X, sensitive_features=codes)
    np.testing.assert_allclose(pca.inverse_transform(pca.transform(X)), X, atol=1e-10)
    pca = FairPCA(3).fit(X, sensitive_features=codes)
    back = pca.inverse_transform(pca.transform(X))
    squares = ((X - back) ** 2).sum(axis=1)
    errors = [squares[codes == g].mean() for g in (0, 1)]
    np.testing.assert_allclose(pca.group_reconstruction_errors_, errors, rtol=1e-9)
    with pytest.raises(ValueError, match="3 coordinates"):
        pca.inverse_transform(X)
    with pytest.raises(ValueError, match="X contains NaN"):
        pca.inverse_transform([[0.0, np.nan, 0.0]])
    assert pca.inverse_transform(np.float32([[1, 2, 3]])).dtype == np.float32
    assert pca.inverse_transform([[1, 2, 3]]).dtype == np.float64


def test_partial_fit_solves_on_demand(monkeypatch):
    X, codes = _rows()
    whole = FairPCA(2).fit(X, sensitive_features=codes)
    calls = []
    original = FairPCA._solve
    monkeypatch.setattr(
        FairPCA, "_solve", lambda self, *a: (calls.append(1), original(self, *a))[1]
    )
    pca = FairPCA(2)
    with pytest.raises(AttributeError):
        _ = pca.components_
    for part in np.array_split(np.arange(300), 7):
        pca.partial_fit(X[part], sensitive_features=codes[part])
    assert not calls
    np.testing.assert_allclose(pca.components_, whole.components_, atol=1e-7)
    np.testing.assert_allclose(pca.group_losses_, whole.group_losses_, rtol=1e-9)
    assert len(calls) == 1
    pca.partial_fit(X[:50], sensitive_features=codes[:50])
    assert pca.transform(X).shape == (300, 2)
    assert len(calls) == 2
    # After fit it goes on from the rows of fit.
    whole.partial_fit(X[:50], sensitive_features=codes[:50])
    np.testing.assert_allclose(whole.group_losses_, pca.group_losses_, rtol=1e-9)


def test_partial_fit_after_matrix_free_is_refused():
    X, codes = _rows()
    pca = FairPCA(2, solver="matrix_free").fit(X, sensitive_features=codes)
    with pytest.raises(ValueError, match="kept no moments"):
        pca.partial_fit(X, sensitive_features=codes)


def test_partial_fit_after_rows_that_were_refused():
    X, codes = _rows()
    pca = FairPCA(2)
    with pytest.raises(ValueError, match="one group per sample"):
        pca.partial_fit(X, sensitive_features=codes[1:])
    pca.partial_fit(X[:, :5], sensitive_features=codes)
    assert pca.components_.shape == (2, 5)
    with pytest.raises(ValueError, match="8 features"):
        pca.partial_fit(X, sensitive_features=codes)
    assert pca.moments_.counts.sum() == 300


def test_partial_fit_leaves_given_moments_alone():
    X, codes = _rows()
    moments = GroupMoments.from_data(X[:200], codes[:200])
    before = moments.counts.copy(), moments.scatters.copy()
    pca = FairPCA.from_moments(moments, n_components=2)
    pca.partial_fit(X[200:], sensitive_features=codes[200:])
    whole = FairPCA(2).fit(X, sensitive_features=codes)
    np.testing.assert_allclose(pca.group_losses_, whole.group_losses_, rtol=1e-9)
    np.testing.assert_array_equal(moments.counts, before[0])
    np.testing.assert_array_equal(moments.scatters, before[1])


def test_from_moments():
    X, codes = _rows()
    moments = GroupMoments.from_data(X, codes)
    pca = FairPCA.from_moments(moments, n_components=3)
    expected = FairPCA(3).fit(X, sensitive_features=codes)
    np.testing.assert_allclose(pca.components_, expected.components_, atol=1e-12)
    assert pca.n_features_in_ == 8
    with pytest.raises(ValueError, match="n_components=9"):
        FairPCA.from_moments(moments, n_components=9)


def test_one_observation_and_constant_groups():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.standard_normal((50, 4)), np.ones((20, 4)), [[9.0, 0, 0, 0]]])
    codes = np.repeat([0, 1, 2], [50, 20, 1])
    for pair in ([0, 1], [0, 2], [1, 2]):
        kept = np.isin(codes, pair)
        for centering in ("global", "group"):
            pca = FairPCA(2, centering=centering)
            pca.fit(X[kept], sensitive_features=codes[kept])
            assert np.isfinite(pca.components_).all()
            assert pca.converged_
            assert pca.fairness_ratio_gap_ <= 1e-8 or pca.group_losses_.max() < 1e-12


def test_a_gap_is_reported():
    # Lines at 0, 60 and 120 degrees: dual 1, best basis 3/2 (in units of 1/2 here).
    angles = np.deg2rad([0, 60, 120])
    directions = np.column_stack([np.cos(angles), np.sin(angles), np.zeros(3)])
    X = np.repeat(directions, 2, axis=0) * np.tile([1, -1], 3)[:, None]
    with pytest.warns(ConvergenceWarning, match="0.25 above the maximum of the dual"):
        pca = FairPCA(1).fit(X, sensitive_features=np.repeat([0, 1, 2], 2))
    assert pca.group_losses_.max() == pytest.approx(0.75)
    assert pca.duality_gap_ == pytest.approx(0.25)
    assert pca.converged_


def test_too_few_steps_are_reported():
    X, codes = _rows()
    with pytest.warns(ConvergenceWarning, match="max_iter") as caught:
        pca = FairPCA(2, max_iter=1).fit(X, sensitive_features=codes)
    assert caught[0].filename == __file__
    assert not pca.converged_
    assert pca.duality_gap_ > 0


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_tolerance_below_rounding_is_reported(solver):
    X, codes = _rows(m=400, n=320)
    pca = FairPCA(3, solver=solver, tol=1e-17, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"to a residual of .*: raise tol\.$"):
        pca.fit(X, sensitive_features=codes)
    assert not pca.converged_


def test_plain_pca_is_the_baseline():
    X, codes = _rows()
    plain = GroupPCA(3).fit(X, sensitive_features=codes)
    peer = PCA(3).fit(X)
    np.testing.assert_allclose(
        np.abs(np.sum(plain.components_ * peer.components_, axis=1)), 1, atol=1e-9
    )
    np.testing.assert_allclose(
        plain.explained_variance_, peer.explained_variance_ * 299 / 300, rtol=1e-9
    )
    fair = FairPCA(3).fit(X, sensitive_features=codes)
    assert fair.group_losses_.max() < plain.group_losses_.max()


def test_pipeline_names_and_routing():
    X, codes = _rows()
    pca = FairPCA(2).fit(X, sensitive_features=codes)
    assert pca.get_feature_names_out().tolist() == ["fairpca0", "fairpca1"]
    with config_context(enable_metadata_routing=True):
        step = FairPCA(2).set_fit_request(sensitive_features=True)
        scores = make_pipeline(step).fit_transform(X, sensitive_features=codes)
    np.testing.assert_allclose(scores, pca.transform(X))


def test_clone_and_pickle():
    X, codes = _rows()
    pca = FairPCA(2).partial_fit(X, sensitive_features=codes)
    copy = pickle.loads(pickle.dumps(pca))
    np.testing.assert_array_equal(copy.components_, pca.components_)
    with pytest.raises(NotFittedError):
        clone(pca).transform(X)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_components": 9}, "n_components=9 must be at most n_features=8"),
        ({"n_components": 0}, "n_components"),
        ({"solver": "dense"}, "solver"),
        ({"tol": 0}, "tol"),
    ],
)
def test_bad_parameters(change, message):
    X, codes = _rows()
    with pytest.raises(ValueError, match=message):
        FairPCA(**change).fit(X, sensitive_features=codes)


@pytest.mark.parametrize("solver", SOLVERS)
def test_bad_rows(solver):
    X, codes = _rows()
    pca = FairPCA(2, solver=solver)
    with pytest.raises(ValueError, match=r"only one group \('a'\)"):
        pca.fit(X, sensitive_features=np.full(300, "a"))
    with pytest.raises(ValueError, match="one group per sample"):
        pca.fit(X, sensitive_features=codes[1:])
    X[7, 3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        pca.fit(X, sensitive_features=codes)
    X[7, 3] = np.inf
    with pytest.raises(ValueError, match="inf"):
        pca.fit(sparse.csr_array(X), sensitive_features=codes)
    X[7, 3] = 0
    pca.fit(X, sensitive_features=codes)
    X[5, 1] = np.nan
    X[8, 1] = np.inf
    with pytest.raises(ValueError, match=r"2 row\(s\), the first at position 5\. Rep"):
        pca.transform(X)


def test_same_answer_on_one_thread():
    X, codes = _rows(m=3000, n=320)
    fits = []
    for n_threads in (1, numba.config.NUMBA_NUM_THREADS):
        before = numba.get_num_threads()
        numba.set_num_threads(n_threads)
        try:
            fits.append(
                FairPCA(4, solver="matrix_free").fit(X, sensitive_features=codes)
            )
        finally:
            numba.set_num_threads(before)
    one, all_threads = fits
    np.testing.assert_allclose(one.group_losses_, all_threads.group_losses_, rtol=1e-11)
    # Rounding over the gap between neighbouring eigenvalues.
    np.testing.assert_allclose(one.components_, all_threads.components_, atol=1e-6)
