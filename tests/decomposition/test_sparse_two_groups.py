"""Fair PCA of sparse rows by Lanczos against that of formed covariances."""

import numpy as np
import pytest
from scipy import sparse

from scalefair.decomposition import FairPCA
from scalefair.decomposition._subspace import solve_formed

M, N = 600, 160


def random_rows(m=M, n=N, density=0.1, share=0.4, seed=0):
    rng = np.random.default_rng(seed)
    codes = (rng.random(m) < share).astype(int)
    codes[:2] = 0, 1
    X = sparse.random_array((m, n), density=density, format="csr", rng=rng)
    strengths = np.array([np.linspace(2, 1, n) ** 3, np.linspace(1, 2, n) ** 2])
    return X.multiply(strengths[codes]).tocsr(), codes


def one_hot():
    rng = np.random.default_rng(1)
    codes = np.repeat([0, 1], M // 2)
    columns = rng.integers(0, 12, (M, 14)) // (1 + codes[:, None])
    columns += 12 * np.arange(14)
    indptr = np.arange(0, columns.size + 1, 14)
    return sparse.csr_array((np.ones(columns.size), columns.ravel(), indptr)), codes


def low_rank():
    X, codes = random_rows(m=30, n=200)
    return X, codes


def with_empty_rows_and_columns():
    X, codes = random_rows(seed=3)
    keep = sparse.diags_array((np.arange(M) % 3 > 0).astype(float))
    return (keep @ X @ sparse.diags_array((np.arange(N) % 4 > 0) * 1.0)).tocsr(), codes


def one_row_group():
    X, codes = random_rows()
    codes[:] = 0
    codes[17] = 1
    return X, codes


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
        signs = np.kron(np.ones((2, 1)), np.array([[1.0], [-1.0]]))
        X = sparse.kron(np.ones((1, 1)), X)  # a copy
        X = sparse.kron(signs, X)  # means of zero: centring couples no blocks
        return (
            sparse.block_diag([X] * copies, format="csr"),
            np.tile(codes, 4 * copies),
        )

    return make


CASES = {
    "random": random_rows,
    "long rows": lambda: random_rows(density=0.6),
    "three in a hundred": lambda: random_rows(share=0.03),
    "one-hot": one_hot,
    "low rank": low_rank,
    "empty rows and columns": with_empty_rows_and_columns,
    "one row in a group": one_row_group,
    "equal groups": equal_groups,
    "dominated": dominated,
    "pairs": repeated_eigenvalues(2),
    "five copies": repeated_eigenvalues(5),
}


def covariances(X, codes, centering):
    X = X.toarray().astype(float)
    C = []
    for g in (0, 1):
        own = X[codes == g]
        own = own - (X.mean(axis=0) if centering == "global" else own.mean(axis=0))
        C.append(own.T @ own / len(own))
    return np.array(C)


@pytest.mark.parametrize("centering", ["global", "group"])
@pytest.mark.parametrize("r", [1, 5, 12])
@pytest.mark.parametrize("case", CASES)
def test_losses_are_those_of_formed_covariances(case, r, centering):
    X, codes = CASES[case]()
    before = X.copy()
    pca = FairPCA(r, solver="matrix_free", centering=centering, random_state=0)
    pca.fit(X, sensitive_features=codes)
    C = covariances(X, codes, centering)
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
