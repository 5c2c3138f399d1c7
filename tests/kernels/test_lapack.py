"""LAPACK's answers are SciPy's, and other threads get on meanwhile."""

import threading
import time

import numpy as np
import pytest
from scipy import linalg

from scalefair.kernels import _lapack, add_gram, eigenvalues, leading_eigh, matmul


def symmetric(n, dtype=np.float64):
    A = np.random.default_rng(0).standard_normal((n, n))
    return (A + A.T).astype(dtype)


@pytest.fixture(params=[True, False], ids=["pointers", "no pointers"])
def pointers(request, monkeypatch):
    """With SciPy's pointers to LAPACK, however little there is to do, and without."""
    monkeypatch.setattr(_lapack, "MIN_POINTER_CALL_NS", 0)
    if not request.param:
        monkeypatch.setattr(_lapack, "_routine", lambda *_: None)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (5, 5), (60, 7)])
def test_leading_eigenpairs(n, k, dtype, pointers):
    A = symmetric(n, dtype)
    before = A.copy()
    values, vectors = leading_eigh(A, k)
    expected, their_vectors = linalg.eigh(A, subset_by_index=(n - k, n - 1))
    of_all = eigenvalues(A)
    assert np.array_equal(A, before)
    assert values.dtype == vectors.dtype == dtype
    assert vectors.flags.c_contiguous
    # Not bit by bit: BLAS may share its work otherwise.
    tol = 100 * np.finfo(dtype).eps * abs(expected).max()
    assert np.allclose(values, expected[::-1], rtol=0, atol=tol)
    assert np.allclose(of_all, linalg.eigvalsh(A), rtol=0, atol=tol)
    residuals = A @ vectors - vectors * values
    assert abs(residuals).max() < tol * np.sqrt(n)
    signs = np.sign((vectors * their_vectors[:, ::-1]).sum(axis=0))
    assert np.allclose(vectors * signs, their_vectors[:, ::-1], rtol=0, atol=1e3 * tol)


def test_equal_eigenvalues_but_for_rounding(pointers):
    """LAPACK finds none of the pairs of some of these, and says nothing."""
    n, k, n_short = 60, 7, 0
    for seed in range(60):
        noise = 1e-16 * np.random.default_rng(seed).standard_normal((n, n))
        A = np.diag(np.tile([0.5, 1.0, 1.0], n // 3)) + noise + noise.T
        values, vectors = leading_eigh(A, k)
        assert np.allclose(values, np.ones(k), rtol=0, atol=1e-14)
        assert np.allclose(A @ vectors, vectors, rtol=0, atol=1e-14)
        assert np.allclose(vectors.T @ vectors, np.eye(k), rtol=0, atol=1e-13)
        n_short += linalg.eigh(A, subset_by_index=(n - k, n - 1))[0].size < k
    assert n_short > 0  # or LAPACK has been mended


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_entries_that_are_not_finite(value):
    A = symmetric(4)
    A[2, 1] = A[1, 2] = value
    with pytest.raises(ValueError, match="NaN or infinite"):
        leading_eigh(A, 2)
    with pytest.raises(ValueError, match="NaN or infinite"):
        eigenvalues(A)


def test_products(pointers):
    A, B = np.random.default_rng(0).integers(-9, 9, (2, 12, 30)).astype(float)
    for first, second in ((A, B.T), (A.T, B), (A[:, ::2], B[:5].T[::2])):
        expected = first.astype(int) @ second.astype(int)
        product = matmul(first, second)
        assert np.array_equal(product, expected)
        assert product.flags.c_contiguous
    assert matmul(A[:0], B.T).shape == (0, 12)
    assert np.array_equal(matmul(A[:, :0], B[:, :0].T), np.zeros((12, 12)))


def test_gram(pointers):
    X = np.random.default_rng(0).integers(-9, 9, (30, 7)).astype(float)
    C = np.ones((7, 7))
    add_gram(X, C)
    assert np.array_equal(np.tril(C), np.tril(1 + X.T @ X))
    assert np.array_equal(C[np.triu_indices(7, 1)], np.ones(21))  # as it was


@pytest.mark.parametrize(
    "compute",
    [
        lambda A: leading_eigh(A, 5),
        lambda A: [add_gram(A, A.copy()) for _ in range(10)],
    ],
    ids=["eigenpairs", "gram"],
)
def test_other_threads_get_on(compute):
    """An interrupt, among them, and whatever else a server has to do."""
    A, ticks, ended = symmetric(800), [], threading.Event()

    def tick():
        while not ended.wait(0.001):
            ticks.append(time.perf_counter())

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.perf_counter()
    compute(A)
    stop = time.perf_counter()
    ended.set()
    thread.join()
    # In the middle, where nothing but compiled code runs.
    third = (stop - start) / 3
    assert any(start + third < when < stop - third for when in ticks)
