"""Fair PCA of sparse rows by Lanczos against that of formed covariances."""

import numpy as np
import pytest
from scipy import sparse

from scalefair.decomposition import FairPCA
from scalefair.decomposition._covariances import top_sums
from scalefair.decomposition._spaces import FeatureSpace, SampleSpace
from scalefair.decomposition._sparse_two_groups import solve_by_lanczos
from scalefair.decomposition._subspace import solve_formed
from scalefair.operators import GroupCovariance

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


@pytest.mark.parametrize("centering", ["global", "group"])
@pytest.mark.parametrize("r", [1, 5, 12])
@pytest.mark.parametrize("case", CASES)
def test_losses_are_those_of_formed_covariances(covariances, case, r, centering):
    X, codes = CASES[case]()
    before = X.copy()
    pca = FairPCA(r, solver="matrix_free", centering=centering, random_state=0)
    pca.fit(X, sensitive_features=codes)
    C = covariances(X.toarray(), codes, centering)
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


@pytest.mark.parametrize(
    ("case", "r", "is_solved"),
    [
        ("random", 12, True),
        ("three in a hundred", 5, True),
        ("five copies", 12, False),  # Lanczos finds one copy, and sees that it does
        ("random", 40, False),  # the bases would be a large part of the space
    ],
)
def test_where_another_way_is_taken(covariances, case, r, is_solved):
    X, codes = CASES[case]()
    C = GroupCovariance(X, codes, [0.5, 0.5])
    solution = solve_by_lanczos(
        FeatureSpace(C), r, tol=1e-8, max_iter=100, random_state=0
    )
    assert (solution is not None) == is_solved
    if solution is not None:
        formed = covariances(X.toarray(), codes, "global")
        H = np.tensordot(solution.weights, formed, axes=1)
        best = top_sums(formed, r)
        dual = solution.weights @ best - top_sums(H[None], r)[0]
        loss = (best - np.trace(solution.compressed, axis1=1, axis2=2)).max()
        # The value that is reported does not exceed the dual at the weights by more
        # than the error that the groups' own sums may have.
        assert solution.dual_value <= dual + 1e-9 * loss
        assert loss - solution.dual_value <= 2e-9 * loss


def test_each_tolerance_is_kept(covariances):
    X, codes = random_rows(m=2000)
    C = covariances(X.toarray(), codes, "global")
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


@pytest.mark.parametrize("form", ["csc", "int64", "float32", "explicit zeros"])
def test_forms_of_the_rows(form):
    X, codes = random_rows()
    X.data[::3] = np.round(X.data[::3] * 8) / 8
    X.data = X.data.astype(np.float32).astype(float)
    made = X.copy()
    if form == "csc":
        made = X.tocsc()
    elif form == "float32":
        made = X.astype(np.float32)
    elif form == "int64":
        made.indices = made.indices.astype(np.int64)
        made.indptr = made.indptr.astype(np.int64)
    else:
        X.data[::7] = 0
        made = X.copy()
        X.eliminate_zeros()
    fits = [
        FairPCA(5, solver="matrix_free", random_state=0).fit(
            rows, sensitive_features=codes
        )
        for rows in (X, made)
    ]
    losses = [pca.group_losses_ for pca in fits]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-8)


def fewer_rows(m=150, n=400):
    return random_rows(m, n, density=0.05, seed=5)


def with_copies_and_zeros():
    # Copies and empty rows: y is not determined by x, the Gram matrix is singular.
    X, codes = fewer_rows()
    X = X.tolil()
    X[20:40] = X[0]
    X[60:70] = 0
    return X.tocsr(), codes


def one_row_of_few():
    X, codes = fewer_rows()
    codes[:] = 0
    codes[17] = 1
    return X, codes


WIDE = {
    "random": fewer_rows,
    "copies and zeros": with_copies_and_zeros,
    "one row in a group": one_row_of_few,
    "far from zero": lambda: (
        fewer_rows()[0]
        + sparse.csr_array(np.ones((150, 1))) @ sparse.csr_array(np.eye(1, 400) * 30),
        fewer_rows()[1],
    ),
}


@pytest.mark.parametrize("centering", ["global", "group"])
@pytest.mark.parametrize("case", WIDE)
def test_samples_give_what_features_give(covariances, case, centering):
    X, codes = WIDE[case]()
    X, r = sparse.csr_array(X), 6
    C = GroupCovariance(X, codes, [0.5, 0.5], centering=centering)
    options = {"tol": 1e-8, "max_iter": 100, "random_state": 0}
    solution = solve_by_lanczos(SampleSpace(C, X, codes), r, **options)
    other = solve_by_lanczos(FeatureSpace(C), r, **options)
    formed = covariances(X.toarray(), codes, centering)
    expected = solve_formed(formed, r, 1e-11, 100)
    losses = expected.best - np.trace(expected.compressed, axis1=1, axis2=2)
    if case == "one row in a group" and centering == "group":
        assert solution is None  # a covariance of zero: another way is is_solved
        return
    assert solution is not None
    assert other is not None
    for basis in (solution, other):
        U = basis.basis
        np.testing.assert_allclose(U.T @ U, np.eye(r), atol=1e-12)
        basis_losses = expected.best - np.trace(U.T @ formed @ U, axis1=1, axis2=2)
        slack = 1e-8 * losses.max() + 1e-12 * expected.best.max()
        assert basis_losses.max() == pytest.approx(losses.max(), abs=slack)
    np.testing.assert_allclose(solution.best, expected.best, rtol=1e-9)


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
