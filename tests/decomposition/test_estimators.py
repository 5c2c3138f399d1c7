"""What every estimator of scalefair.decomposition keeps: rows, groups, bad input."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.decomposition import PCA

from scalefair.decomposition import (
    ErrorWeightedFairPCA,
    FairPCA,
    GroupPCA,
    SemidefiniteFairPCA,
)
from scalefair.files import open_rows
from scalefair.streaming import GroupMoments

from ..conftest import delayed_blocks, dense_covariances
from .conftest import assert_same, projector, rows

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

ESTIMATORS = {
    "fair": partial(FairPCA, solver="gram"),
    "fair, matrix-free": partial(FairPCA, solver="matrix_free", random_state=0),
    "plain": GroupPCA,
    "semidefinite": SemidefiniteFairPCA,
    "error-weighted": ErrorWeightedFairPCA,
}
every = pytest.mark.parametrize("make", ESTIMATORS.values(), ids=list(ESTIMATORS))
M, N = 300, 6
delayed = partial(delayed_blocks, cuts=(0, 100, 101, M))


FORMS = {
    "Fortran": lambda X, path: np.asfortranarray(X),
    "CSR": lambda X, path: sparse.csr_array(X),
    "CSC": lambda X, path: sparse.csc_matrix(X),
    "mapped": lambda X, path: np.load(path, mmap_mode="r"),
    "reader": lambda X, path: open_rows(path, max_bytes=5000),
    "delayed": lambda X, path: delayed(X),
    "delayed CSR": lambda X, path: delayed(sparse.csr_array(X)),
    "Dask array": lambda X, path: da.from_array(X, chunks=(70, 4)),
}


@every
@pytest.mark.parametrize("form", FORMS)
def test_forms_of_rows_agree(make, form, tmp_path):
    centering = "group" if "CSR" in form else "global"
    X, groups = rows()
    X[np.abs(X) < 1] = 0
    np.save(tmp_path / "rows.npy", X)
    data = FORMS[form](X, tmp_path / "rows.npy")
    names = np.array(["a", "b"])[groups]
    expected = make(2, centering=centering).fit(X, sensitive_features=names)
    if form == "Dask array":
        names = da.from_array(names, chunks=33)
    model = make(2, centering=centering).fit(data, sensitive_features=names)
    assert model.groups_.tolist() == ["a", "b"]
    assert_allclose(model.mean_, X.mean(axis=0), atol=1e-12)
    assert_same(model, expected)
    scores = np.asarray(dask.compute(model.transform(data))[0])
    assert_allclose(scores, model.transform(X), atol=1e-10)


@every
def test_losses_are_those_of_the_rows(make):
    X, groups = rows()
    model = make(3).fit(X, sensitive_features=groups)
    scores = model.transform(X)
    squares = ((X - model.inverse_transform(scores)) ** 2).sum(axis=1)
    errors = np.array([squares[groups == g].mean() for g in (0, 1)])
    smallest = np.linalg.eigvalsh(dense_covariances(X, groups))[:, : N - 3].sum(axis=1)
    assert_allclose(model.group_reconstruction_errors_, errors, rtol=1e-9)
    assert_allclose(model.group_losses_, errors - smallest, atol=1e-10)
    assert_allclose(model.explained_variance_, scores.var(axis=0))
    if "rank_" not in vars(model):
        gram = model.components_ @ model.components_.T
        assert_allclose(gram, np.eye(3), atol=1e-12)
        assert (np.diff(model.explained_variance_) <= 0).all()


@every
def test_moments_do_for_rows(make):
    X, groups = rows()
    moments = GroupMoments.from_data(X, groups)
    options = {**getattr(make, "keywords", {}), "n_components": 3}
    cls = getattr(make, "func", make)
    model = cls.from_moments(moments, **options)
    assert_same(model, make(3).fit(X, sensitive_features=groups))
    assert model.n_features_in_ == N
    if cls is not ErrorWeightedFairPCA:  # which takes two groups in all
        model = cls.from_moments([moments, moments], **options)
        assert [len(losses) for losses in model.group_losses_] == [2, 2]
    with pytest.raises(ValueError, match="n_components=7 must be at most n_features=6"):
        cls.from_moments(moments, **options | {"n_components": 7})
    with pytest.raises(ValueError, match="only one group"):
        cls.from_moments(GroupMoments.from_data(X, 0 * groups), **options)
    with pytest.raises(ValueError, match=r"\(features, rows\) \[\]"):
        cls.from_moments([], **options)


@every
def test_equal_groups_give_pca(make):
    X, _ = rows(m=100)
    X, groups = np.vstack([X, X]), np.repeat([0, 1], 100)
    model = make(2).fit(X, sensitive_features=groups)
    pca = PCA(2).fit(X)
    cosines = np.abs((model.components_ * pca.components_).sum(axis=1))
    assert_allclose(cosines, 1, atol=1e-9)
    assert_allclose(model.explained_variance_, pca.explained_variance_ * 199 / 200)
    assert_allclose(model.group_losses_, 0, atol=1e-12)


@every
def test_group_centering(make):
    """Around their own means, groups that are moved apart are as they were."""
    X, groups = rows()
    for g in (0, 1):
        X[groups == g] -= X[groups == g].mean(axis=0)
    centred = make(2).fit(X, sensitive_features=groups)
    moved = X + 10.0 * groups[:, None]
    shifted = make(2, centering="group").fit(moved, sensitive_features=groups)
    assert_allclose(shifted.group_losses_, centred.group_losses_, rtol=1e-9)
    assert_allclose(projector(shifted), projector(centred), atol=1e-6)
    assert_allclose(shifted.mean_, moved.mean(axis=0))
    for name in ("explained_variance_", "group_reconstruction_errors_"):  # about them
        values = [getattr(model, name) for model in (shifted, centred)]
        assert_allclose(*values, rtol=1e-9)
    around = make(2).fit(moved, sensitive_features=groups)
    assert np.abs(projector(around) - projector(centred)).max() > 0.1


@every
def test_invariances(make):
    X, groups = rows()
    rng = np.random.default_rng(1)
    semidefinite = "semi" in str(make).lower()

    def refit(X, groups, scale=1.0):
        step = {"step": 0.2 / scale**2} if semidefinite else {}
        return make(2, **step).fit(X, sensitive_features=groups)

    model = refit(X, groups)
    P, losses = projector(model), model.group_losses_
    order = rng.permutation(M)
    Q = np.linalg.qr(rng.standard_normal((N, N)))[0]
    names = np.array(["z", "a"])[groups]
    for other, P_expected, losses_expected in [
        (refit(X[order], groups[order]), P, losses),
        (refit(X, names), P, losses[::-1]),
        (refit(1e3 * X + 7, groups, 1e3), P, 1e6 * losses),
        (refit(np.vstack([X, X]), np.tile(groups, 2)), P, losses),
        (refit(X @ Q, groups), Q.T @ P @ Q, losses),
    ]:
        # Bisection ends by what rounding decides: 1e-6 of alpha.
        assert_allclose(projector(other), P_expected, atol=1e-5)
        assert_allclose(other.group_losses_, losses_expected, rtol=1e-5)


@every
@pytest.mark.parametrize(
    ("X", "groups", "r"),
    [
        ([[1.0], [2.0], [4.0]], [0, 1, 1], 1),  # one column, a group of one row
        ([[1.0, 3.0], [2.0, 3.0], [4.0, 3.0]], [0, 1, 1], 1),  # a constant column
        ([[5.0, 5.0], [5.0, 5.0]], [0, 1], 1),  # no variance
        ([[1.0, 2.0], [0.0, 5.0], [7.0, 3.0]], [0, 1, 1], 2),  # all components
        (np.outer(np.arange(6), [1.0, 2.0, 0.0]), [0, 1, 1, 0, 1, 0], 2),  # rank one
    ],
)
def test_degenerate_rows(make, X, groups, r):
    X = np.asarray(X)
    model = make(r).fit(X, sensitive_features=groups)
    assert_allclose(model.group_losses_, 0, atol=1e-12)
    assert_allclose(model.inverse_transform(model.transform(X)), X, atol=1e-12)


@every
def test_bad_input(make):
    X, groups = rows()
    for bad, sensitive_features, r, message in [
        (delayed(X), groups[1:], 2, "299 groups for 300 samples"),
        (X, groups, 7, "n_components=7 must be at most n_features=6"),
        (delayed(X), groups, 7, "n_components=7 must be at most n_features=6"),
    ]:
        with pytest.raises(ValueError, match=message):
            make(r).fit(bad, sensitive_features=sensitive_features)
    model = make(2).fit(X, sensitive_features=groups)
    with pytest.raises(ValueError, match=r"hold rows of \d coordinates"):
        model.inverse_transform(np.ones((3, N + 1)))


# The sum of infinities of both signs is NaN on every processor.
@pytest.mark.parametrize(
    ("row", "wrap"),
    [
        (-np.inf, np.asarray),
        ([np.inf, -np.inf] * 3, np.float32),
        (np.nan, sparse.csr_array),
    ],
)
def test_rows_that_are_not_finite(row, wrap):
    X, groups = rows()
    fitted = FairPCA(2).fit(X, sensitive_features=groups)
    bad = X.copy()
    bad[7] = row
    with pytest.raises(ValueError, match=r"X contains NaN.* position 7\. Rep"):
        fitted.transform(wrap(bad))
    for make in ESTIMATORS.values():
        with pytest.raises(ValueError, match=r"NaN or infinite .* at row 7, column 0"):
            make(2).fit(wrap(bad), sensitive_features=groups)
    with pytest.raises(ValueError, match=r"NaN or infinite .* at row 7, column 0"):
        FairPCA(2).partial_fit(wrap(bad), sensitive_features=groups)
    if wrap is not sparse.csr_array:
        with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
            fitted.inverse_transform(wrap(bad[:, :2]))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_that_are_too_large(dtype):
    X, groups = rows()
    fitted = FairPCA(2).fit(X, sensitive_features=groups)
    bad = X.astype(dtype)
    bad[7] = 0.9 * np.finfo(dtype).max * np.sign(fitted.components_[0])
    with pytest.raises(ValueError, match=r"too large for float\d\d, in 1 .*position 7"):
        fitted.transform(bad)
    turned = FairPCA(2).fit(X[:, :2], sensitive_features=groups)
    scores = np.finfo(dtype).max * np.sign(turned.components_[:, :1].T)
    with pytest.raises(ValueError, match="too large for float"):
        turned.inverse_transform(scores.astype(dtype))


def test_single_precision():
    """Rows in float32 with a large mean are summed in float64; scores stay float32."""
    X, groups = rows()
    single = (X + 1000.0).astype(np.float32)
    model = FairPCA(2).fit(single, sensitive_features=groups)
    expected = FairPCA(2).fit(single.astype(np.float64), sensitive_features=groups)
    assert_allclose(model.group_losses_, expected.group_losses_, rtol=1e-9)
    scores = model.transform(single)
    assert scores.dtype == model.transform(delayed(single)).dtype == np.float32
    # A thousandth is the spacing of float32 at 1000, a few times over.
    assert_allclose(scores, expected.transform(single), atol=2e-3)
    assert model.inverse_transform(np.float32([[1, 2]])).dtype == np.float32
    assert model.inverse_transform([[1, 2]]).dtype == np.float64


def test_a_data_frame_has_names():
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    X, groups = rows()
    table = pd.DataFrame(X, columns=[f"f{i}" for i in range(N)])
    frame = dd.from_pandas(table, npartitions=3)
    pca = FairPCA(2).fit(frame, sensitive_features=groups)
    assert pca.feature_names_in_.tolist() == list(table.columns)
    assert_allclose(pca.transform(frame), pca.transform(table), atol=1e-9)
    with pytest.raises(ValueError, match=r"unseen at fit time:\n- g\n"):
        pca.transform(frame.rename(columns={"f5": "g"}))
    pca.fit(delayed(X), sensitive_features=groups)
    assert not hasattr(pca, "feature_names_in_")
    # As many columns as the rank of the map, which may exceed `n_components`.
    model = SemidefiniteFairPCA(2, max_iter=3).set_output(transform="pandas")
    scores = model.fit(table, sensitive_features=groups).transform(table)
    assert list(scores.columns) == list(model.get_feature_names_out())
    assert scores.columns[-1] == f"semidefinitefairpca{model.rank_ - 1}"
