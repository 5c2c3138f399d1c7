"""Fair PCA of rows in parts is that of rows in memory."""

import itertools

import numpy as np
import pytest
from scipy import sparse

from scalefair.decomposition import FairPCA, GroupPCA, SemidefiniteFairPCA

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

M, N, R = 600, 24, 4


def rows(kind):
    rng = np.random.default_rng(0)
    groups = rng.choice(["a", "b"], M, p=[0.7, 0.3])
    X = rng.standard_normal((M, N)) * np.linspace(1, 3, N) + 10
    X[groups == "b"] *= np.linspace(2, 1, N)
    if kind == "sparse":
        X = sparse.csr_array(X * (rng.random((M, N)) < 0.3))
    return X, groups


def delayed(X, cuts=(0, 250, 251, M)):
    return [dask.delayed(X[i:j]) for i, j in itertools.pairwise(cuts)]


def projector(pca):
    return pca.components_.T @ pca.components_


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("solver", ["gram", "matrix_free", "auto"])
@pytest.mark.parametrize("centering", ["global", "group"])
def test_same_as_in_memory(kind, solver, centering):
    X, groups = rows(kind)
    options = {"solver": solver, "centering": centering, "random_state": 0}
    here = FairPCA(R, **options).fit(X, sensitive_features=groups)
    there = FairPCA(R, **options).fit(
        delayed(X), sensitive_features=da.from_array(groups, chunks=99)
    )
    assert there.solver_ == here.solver_
    assert there.converged_
    assert there.groups_.tolist() == here.groups_.tolist()
    np.testing.assert_allclose(there.group_losses_, here.group_losses_, rtol=1e-8)
    np.testing.assert_allclose(there.mean_, here.mean_, rtol=1e-12)
    np.testing.assert_allclose(projector(there), projector(here), atol=1e-8)
    scores = there.transform(delayed(X))
    assert type(scores).__module__.startswith("dask")
    np.testing.assert_allclose(scores.compute(), here.transform(X), atol=1e-7)
    np.testing.assert_allclose(there.transform(X), here.transform(X), atol=1e-7)


@pytest.mark.parametrize("estimator", [GroupPCA, SemidefiniteFairPCA])
def test_comparators(estimator):
    X, groups = rows("dense")
    here = estimator(R).fit(X, sensitive_features=groups)
    there = estimator(R).fit(delayed(X), sensitive_features=groups)
    np.testing.assert_allclose(there.group_losses_, here.group_losses_, rtol=1e-8)


def test_partial_fits():
    X, groups = rows("dense")
    pca = FairPCA(R).partial_fit(X[:100], sensitive_features=groups[:100])
    pca.partial_fit(delayed(X[100:], (0, 300, 500)), sensitive_features=groups[100:])
    here = FairPCA(R, solver="gram").fit(X, sensitive_features=groups)
    np.testing.assert_allclose(pca.group_losses_, here.group_losses_, rtol=1e-8)


def test_a_data_frame_has_names():
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    X, groups = rows("dense")
    table = pd.DataFrame(X, columns=[f"f{i}" for i in range(N)])
    frame = dd.from_pandas(table, npartitions=3)
    pca = FairPCA(R).fit(frame, sensitive_features=groups)
    assert pca.feature_names_in_.tolist() == list(table.columns)
    np.testing.assert_allclose(pca.transform(frame), pca.transform(table), atol=1e-9)
    with pytest.raises(ValueError, match=r"'g' instead of 'f23' \(column 23\)"):
        pca.transform(frame.rename(columns={"f23": "g"}))
    pca.fit(delayed(X), sensitive_features=groups)
    assert not hasattr(pca, "feature_names_in_")


def test_transform_is_lazy_and_checks():
    X, groups = rows("dense")
    pca = FairPCA(R).fit(X, sensitive_features=groups)
    with pytest.raises(ValueError, match="X has 23 features, but FairPCA is expecting"):
        pca.transform(da.from_array(X[:, :23], chunks=(100, 23)))
    X[333, 2] = np.nan
    lazy = pca.transform(da.from_array(X, chunks=(100, N)))
    assert lazy.shape == (M, R)
    with pytest.raises(ValueError, match=r"Partition 3 of X, rows 300 to 399.*NaN"):
        lazy.compute()


def test_single_precision_is_kept():
    X, groups = rows("dense")
    X = X.astype(np.float32)
    pca = FairPCA(R).fit(delayed(X), sensitive_features=groups)
    assert pca.transform(delayed(X)).dtype == np.float32


@pytest.mark.parametrize(
    ("n_components", "groups", "message"),
    [
        (N + 1, None, "n_components=25 must be at most n_features=24"),
        (R, np.zeros(M), "only one group"),
        (R, np.zeros(M - 1), "599 groups for 600 samples"),
    ],
)
def test_bad_input(n_components, groups, message):
    X, own = rows("dense")
    groups = own if groups is None else groups
    with pytest.raises(ValueError, match=message):
        FairPCA(n_components).fit(delayed(X), sensitive_features=groups)
