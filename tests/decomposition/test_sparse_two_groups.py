"""Fair PCA of sparse rows by Lanczos against that of formed covariances."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from scalefair.decomposition import FairPCA
from scalefair.decomposition._sparse_two_groups import _SharedSubspace
from scalefair.decomposition._subspace import solve_formed

from ..conftest import dense_covariances, one_hot
from .conftest import certify

M, N = 600, 160


def random_rows(m=M, n=N, density=0.1, share=0.4, seed=0):
    rng = np.random.default_rng(seed)
    codes = (rng.random(m) < share).astype(int)
    codes[:2] = 0, 1
    X = sparse.random_array((m, n), density=density, format="csr", rng=rng)
    strengths = np.array([np.linspace(2, 1, n) ** 3, np.linspace(1, 2, n) ** 2])
    return X.multiply(strengths[codes]).tocsr(), codes


def one_hot_rows():
    rng = np.random.default_rng(1)
    codes = np.repeat([0, 1], M // 2)
    columns = rng.integers(0, 12, (M, 14)) // (1 + codes[:, None])
    columns += 12 * np.arange(14)
    indptr = np.arange(0, columns.size + 1, 14)
    return sparse.csr_array((np.ones(columns.size), columns.ravel(), indptr)), codes


def with_empty_rows_and_columns():
    X, codes = random_rows(seed=3)
    keep = sparse.diags_array((np.arange(M) % 3 > 0).astype(float))
    return (keep @ X @ sparse.diags_array((np.arange(N) % 4 > 0) * 1.0)).tocsr(), codes


def one_row_group(make=random_rows):
    X, codes = make()
    return X, np.where(np.arange(codes.size) == 17, 1, 0)


def fewer_rows(m=150, n=400):
    return random_rows(m, n, density=0.05, seed=5)


def copies_and_zeros():
    # Copies and empty rows: y is not determined by x, the Gram matrix is singular.
    X, codes = fewer_rows()
    X = X.tolil()
    X[20:40] = X[0]
    X[60:70] = 0
    return X.tocsr(), codes


def far_from_zero():
    X, codes = fewer_rows()
    ones = sparse.csr_array(np.ones((150, 1)))
    return (X + ones @ sparse.csr_array(np.eye(1, 400) * 30)).tocsr(), codes


def equal_groups():
    X, _ = random_rows(m=M // 2)
    return sparse.vstack([X, X]).tocsr(), np.repeat([0, 1], M // 2)


def dominated():
    # The second group's rows vanish: the first group alone decides.
    X, codes = random_rows()
    return (sparse.diags_array(np.where(codes == 0, 1, 1e-3)) @ X).tocsr(), codes


def repeated_eigenvalues(copies):
    """Uncorrelated blocks of columns that hold the same rows."""

    def make():
        X, codes = random_rows(m=60, n=40, density=0.3)
        # Means of zero: centring couples no blocks.
        X = sparse.kron(np.array([[1.0], [-1.0]] * 2), X)
        X = sparse.block_diag([X] * copies, format="csr")
        return X, np.tile(codes, 4 * copies)

    return make


CASES = {
    "random": random_rows,
    "long rows": lambda: random_rows(density=0.6),
    "three in a hundred": lambda: random_rows(share=0.03),
    "one-hot": one_hot_rows,
    "low rank": lambda: random_rows(m=30, n=200),
    "empty rows and columns": with_empty_rows_and_columns,
    "one row in a group": one_row_group,
    "equal groups": equal_groups,
    "dominated": dominated,
    "pairs": repeated_eigenvalues(2),
    "five copies": repeated_eigenvalues(5),
    "wide": fewer_rows,
    "wide, copies and zeros": copies_and_zeros,
    "wide, one row in a group": lambda: one_row_group(fewer_rows),
    "wide, far from zero": far_from_zero,
}


# The cases in turn with few components and many, around one mean and around two.
@pytest.mark.parametrize("case", CASES)
def test_losses_are_those_of_formed_covariances(case):
    r, centering = [(5, "global"), (12, "group")][list(CASES).index(case) % 2]
    X, codes = CASES[case]()
    before = X.copy()
    pca = FairPCA(r, solver="matrix_free", centering=centering, random_state=0)
    pca.fit(X, sensitive_features=codes)
    C = dense_covariances(X.toarray(), codes, centering)
    expected = solve_formed(C, r, 1e-10, 100)
    captured = np.trace(expected.compressed, axis1=1, axis2=2)
    largest = (expected.best - captured).max()
    slack = 1e-8 * largest + 1e-12 * expected.best.max()
    # The losses are what they are said to be, and the largest is smallest.
    U = pca.components_
    losses = expected.best - np.trace(U @ C @ U.T, axis1=1, axis2=2)
    np.testing.assert_allclose(pca.group_losses_, losses, rtol=0, atol=slack)
    assert losses.max() == pytest.approx(largest, abs=slack)
    np.testing.assert_allclose(U @ U.T, np.eye(r), atol=1e-12)
    assert pca.converged_
    assert pca.duality_gap_ <= slack
    assert abs(X - before).nnz == 0


def test_a_missed_vector_is_noticed_behind_one_that_turns_into_it():
    values = np.concatenate([[1.0, 0.8, 0.79, 0.8], 0.5 * 0.9 ** np.arange(56)])
    V = np.eye(4, 60)
    V[3, 3:5] = np.sqrt([0.1, 0.9])  # as Lanczos has it before the copy converges
    run = SimpleNamespace(
        values=(V**2) @ values,
        residuals=np.array([0, 0, 0, 0.3 * 0.3]),
        weights=np.ones(1),
        leading=lambda k: V[:k],
        products=lambda x, out: np.multiply(values, x, out=out[0]),
    )
    space, rng = SimpleNamespace(size=60, n_blocks=3), np.random.RandomState(0)
    search = _SharedSubspace(space, 3, 1e-8, rng)
    search.scale = 1.0
    assert search.has_missed_vector(run)


def test_each_tolerance_is_kept():
    X, codes = random_rows(m=2000)
    C = dense_covariances(X.toarray(), codes, "global")
    best = solve_formed(C, 5, 1e-12, 100)
    largest = (best.best - np.trace(best.compressed, axis1=1, axis2=2)).max()
    products = []
    for tol in (1e-4, 1e-8, 1e-11):
        pca = FairPCA(5, solver="matrix_free", tol=tol, random_state=0)
        pca.fit(X, sensitive_features=codes)
        assert pca.group_losses_.max() == pytest.approx(largest, rel=tol)
        assert pca.fairness_ratio_gap_ <= tol
        products.append(pca.n_products_)
    assert products == sorted(products)
    assert products[0] < products[2]


@pytest.mark.parametrize("rank", [3, 6])
@pytest.mark.parametrize("centering", ["global", "group"])
def test_no_more_directions_than_components(rank, centering):
    rng = np.random.default_rng(0)
    few = sparse.random_array((rank, 400), density=0.1, rng=rng, format="csr")
    X, groups = few[rng.integers(0, rank, 200)], rng.integers(0, 2, 200)
    model = FairPCA(6, solver="matrix_free", centering=centering, random_state=0)
    model.fit(X, sensitive_features=groups)
    U = model.components_
    np.testing.assert_allclose(U @ U.T, np.eye(6), atol=1e-12)
    assert model.group_losses_.max() < 1e-10  # of squared lengths of about 10


def test_weights_of_fewer_rows_than_features():
    X, codes = fewer_rows()
    weights = np.random.default_rng(0).integers(0, 4, len(codes)).astype(float)
    pca = FairPCA(5, solver="matrix_free", random_state=0)
    pca.fit(X, sensitive_features=codes, sample_weight=weights)
    certify(pca, X.toarray(), one_hot(codes) * weights[:, None])
