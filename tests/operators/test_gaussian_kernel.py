"""RBFKernel and NystroemKernel: against definition, scikit-learn and each other."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

from scalefair.operators import NormalizedOperator, NystroemKernel, RBFKernel


def points(n=300, d=5, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def matrix(kernel):
    return kernel @ np.eye(kernel.shape[0])


@pytest.mark.parametrize(("d", "gamma"), [(1, 30.0), (5, None), (120, 1e-3)])
def test_equals_scikit_learn(d, gamma):
    X = points(d=d)
    K = RBFKernel(X, gamma=gamma)
    np.testing.assert_allclose(matrix(K), rbf_kernel(X, gamma=gamma), atol=1e-12)
    assert K.gamma == (1 / d if gamma is None else gamma)


def test_an_offset_of_the_data_costs_no_digits_in_float32():
    X = points()
    moved = X + np.array([1e6, -1e5, 0, 1e4, 3e5])
    K = matrix(RBFKernel(moved, dtype=np.float32))
    np.testing.assert_allclose(K, rbf_kernel(X, gamma=0.2), rtol=0, atol=1e-6)


def test_refuses_what_overflows():
    X = 1e30 * points()
    with pytest.raises(ValueError, match="overflow float32"):
        RBFKernel(X, gamma=1e20, dtype=np.float32)
    with pytest.raises(ValueError, match="overflow float32"):
        RBFKernel(X, gamma=1e20).astype(np.float32)


@pytest.mark.parametrize("make", [RBFKernel, NystroemKernel])
def test_other_points_and_blocks_are_of_the_same_features_and_rows(make):
    X, block = points(50, 1), np.arange(100).reshape(50, 2)  # integers, too
    K = make(X, gamma=1.0)
    expected = rbf_kernel(X[:3], X, gamma=1.0) @ block
    np.testing.assert_allclose(K.matmat_at(X[:3], block), expected, atol=1e-6)
    wrong = (points(3, 4), block), (X[:3], np.ones((60, 2))), (X[:3], np.ones(50))
    for arguments in wrong:
        with pytest.raises(ValueError, match="1 features and B 50 rows"):
            K.matmat_at(*arguments)


@pytest.fixture(scope="module")
def rough():
    """Features, exact kernel, and an approximation with visible errors."""
    X = points(700, 3)
    return X, rbf_kernel(X), NystroemKernel(X, n_landmarks=60, random_state=0)


def test_is_the_nystroem_approximation_of_its_landmarks(rough):
    _, K, W = rough
    C, U = K[:, W.landmarks], K[np.ix_(W.landmarks, W.landmarks)]
    assert len(W.landmarks) == len(set(W.landmarks)) <= 60
    np.testing.assert_allclose(matrix(W), C @ np.linalg.solve(U, C.T), atol=1e-8)
    # It is exact in the rows of the landmarks.
    np.testing.assert_allclose(matrix(W)[W.landmarks], K[W.landmarks], atol=1e-8)


def test_trace_error_is_exact(rough):
    _, K, W = rough
    assert W.trace_error > 1e-3
    assert W.trace_error == pytest.approx(np.trace(K - matrix(W)) / len(K), rel=1e-8)
    nuclear = np.abs(np.linalg.eigvalsh(K - matrix(W))).sum() / len(K)
    assert W.trace_error == pytest.approx(nuclear, rel=1e-6)
    # So is that of all rows of few.
    X = points(200, 3)
    W, K = NystroemKernel(X, n_landmarks=40, random_state=0), rbf_kernel(X)
    true = np.linalg.norm(K - matrix(W)) / np.linalg.norm(K)
    assert W.frobenius_error == pytest.approx(true, rel=1e-8)
    assert W.frobenius_error_std == 0


def test_frobenius_error_is_within_its_standard_errors(rough):
    X, K, _ = rough
    deviations = []
    for seed in range(20):
        W = NystroemKernel(X, n_landmarks=60, random_state=seed)
        true = np.linalg.norm(K - matrix(W)) / np.linalg.norm(K)
        deviations.append((W.frobenius_error - true) / W.frobenius_error_std)
    assert 0.5 < np.sqrt(np.mean(np.square(deviations))) < 1.6


def test_rank_is_cut_for_duplicates_and_smooth_kernels():
    X = np.repeat(points(12, 3), 50, axis=0)
    W = NystroemKernel(X, gamma=5.0, n_landmarks=100, random_state=0)
    assert W.factor.shape[1] == len(set(W.landmarks // 50)) == 12
    np.testing.assert_allclose(matrix(W), rbf_kernel(X, gamma=5.0), atol=1e-10)
    smooth = NystroemKernel(points(700, 3), gamma=1e-4, n_landmarks=300, random_state=0)
    assert smooth.factor.shape[1] < 60
    assert smooth.trace_error < 1e-10
    one = NystroemKernel(np.ones((30, 2)), random_state=0)
    np.testing.assert_allclose(matrix(one), 1, rtol=1e-14)
    assert one.factor.shape == (30, 1)


def test_finds_points_far_from_the_others():
    # 5 of 1000 points: a tenth of them, drawn uniformly, would miss most.
    X = np.vstack([points(995, 3), 40 + 20 * np.arange(5)[:, None] * np.ones(3)])
    W = NystroemKernel(X, n_landmarks=100, random_state=0)
    assert set(range(995, 1000)) <= set(W.landmarks)
    degrees = W @ np.ones(1000)
    np.testing.assert_allclose(degrees[-5:], 1, atol=1e-8)
    M, exact = NormalizedOperator(W), rbf_kernel(X)
    exact /= np.sqrt(np.outer(exact.sum(axis=0), exact.sum(axis=0)))
    eigenvalues = np.linalg.eigvalsh(matrix(M))[-10:]
    np.testing.assert_allclose(eigenvalues, np.linalg.eigvalsh(exact)[-10:], atol=5e-3)


def test_more_rows_than_are_worked_on_at_a_time():
    X = points(16384 + 300, 1)
    W = NystroemKernel(X, n_landmarks=60, random_state=0)
    assert W.trace_error < 1e-6
    rows = np.r_[0:3, 16382:16387, -3:0]
    product = W.factor[rows] @ W.factor.T
    np.testing.assert_allclose(product, rbf_kernel(X[rows], X), atol=1e-3)


@pytest.mark.parametrize("bad", [0, -3, 2.5])
def test_refuses_a_number_of_landmarks(bad):
    with pytest.raises(ValueError, match="n_landmarks must be a positive integer"):
        NystroemKernel(points(700, 3), n_landmarks=bad)


@pytest.mark.parametrize("kernel", [RBFKernel, NystroemKernel])
class TestBadInput:
    def test_sparse_features(self, kernel):
        with pytest.raises(TypeError, match="nearest-neighbour graph"):
            kernel(sparse.csr_array(points()))

    @pytest.mark.parametrize("gamma", [0, -1.0, np.nan, np.inf])
    def test_gamma(self, kernel, gamma):
        with pytest.raises(ValueError, match="gamma must be positive and finite"):
            kernel(points(), gamma=gamma)

    def test_entries_that_overflow(self, kernel):
        with pytest.raises(ValueError, match="overflow"):
            kernel(1e200 * points(), gamma=1e300)
