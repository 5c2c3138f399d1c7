"""Graphs, groups, rows and counters that several test files share.

Graphs of known spectrum say so in their docstring.
"""

import os
import sys
from itertools import pairwise
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import settings
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from scipy.spatial import KDTree
from threadpoolctl import ThreadpoolController, threadpool_limits

from scalefair.streaming import RowReader

# Continuous integration draws the same examples in every run. No test is about the time
# of one example.
settings.register_profile("scalefair", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "scalefair")


def _symmetric_csr(A):
    A = sparse.csr_array(A, dtype=np.float64)
    A = sparse.csr_array(A.maximum(A.T))
    A.setdiag(0)
    A.eliminate_zeros()
    A.sort_indices()
    return A


def with_long_indices(A):
    A = sparse.csr_array(A)
    A.indices, A.indptr = A.indices.astype(np.int64), A.indptr.astype(np.int64)
    return A


def path(n):
    """Path. D^{-1/2} W D^{-1/2} has the eigenvalues cos(pi j / (n - 1))."""
    return sparse.csr_array(sparse.diags_array([np.ones(n - 1)] * 2, offsets=[-1, 1]))


def path_eigenvalues(n):
    """Of the normalised affinity, largest first."""
    return np.cos(np.pi * np.arange(n) / (n - 1))


def cycle(n):
    """Cycle. Eigenvalues cos(2 pi j / n): all but the ends are double."""
    i = np.arange(n)
    return _symmetric_csr(
        sparse.coo_array((np.ones(n), (i, (i + 1) % n)), shape=(n, n))
    )


def star(n):
    """Star. Eigenvalues 1, 0 (n - 2 times), -1."""
    i = np.arange(1, n)
    return _symmetric_csr(sparse.coo_array((np.ones(n - 1), (0 * i, i)), shape=(n, n)))


def complete(n):
    """Complete graph. Eigenvalues 1 and -1 / (n - 1), n - 1 times."""
    return sparse.csr_array(np.ones((n, n)) - np.eye(n))


def grid(n_rows, n_columns):
    """Rectangular grid, four neighbours."""
    return sparse.csr_array(sparse.kronsum(path(n_columns), path(n_rows)))


def block_model(n, n_blocks=4, inside=0.3, outside=0.02, seed=0):
    """Stochastic block model with a ring through all nodes: connected."""
    rng = np.random.default_rng(seed)
    block = np.arange(n) % n_blocks
    probability = np.where(block[:, None] == block, inside, outside)
    joined = np.triu(rng.random((n, n)) < probability, 1)
    return _symmetric_csr(sparse.csr_array(joined).maximum(cycle(n)))


def nearest_neighbors(n, n_neighbors=8, seed=0):
    """Weighted k-NN graph of normal points in three dimensions."""
    points = np.random.default_rng(seed).standard_normal((n, 3))
    distances, neighbors = KDTree(points).query(points, n_neighbors + 1)
    rows = np.repeat(np.arange(n), n_neighbors)
    weights = np.exp(-distances[:, 1:].ravel())
    return _symmetric_csr(
        sparse.coo_array((weights, (rows, neighbors[:, 1:].ravel())), shape=(n, n))
    )


def two_cliques(size, weight):
    """Two cliques joined by one edge of the given weight."""
    W = sparse.lil_array(sparse.block_diag([complete(size)] * 2))
    W[0, size] = W[size, 0] = weight
    return sparse.csr_array(W)


def many_cliques(n_cliques, size):
    """Cliques apart. Eigenvalues 1, once per clique, and -1 / (size - 1)."""
    return sparse.csr_array(sparse.block_diag([complete(size)] * n_cliques))


# Every order is above 2 (k + n_buffer) for k <= 8: the solvers iterate.
GRAPHS = {
    "block model": lambda: block_model(240),
    "k-NN": lambda: nearest_neighbors(300),
    "path": lambda: path(120),
    "cycle": lambda: cycle(121),
    "star": lambda: star(150),
    "complete": lambda: complete(90),
    "grid": lambda: grid(12, 15),
    "nearly disconnected": lambda: two_cliques(60, 1e-3),
    "many components": lambda: many_cliques(40, 5),
}


def random_groups(n, n_groups, seed=0, smallest_of_one=False):
    """Group codes of n nodes, every group present; the last may have one node."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(n_groups - smallest_of_one, size=n)
    groups[rng.permutation(n)[:n_groups]] = np.arange(n_groups)
    return groups


def fairness_basis(degrees, groups):
    """Orthonormal basis of D^{-1/2} F0, from its definition."""
    indicator = (groups[:, None] == np.unique(groups)).astype(float)
    F = (indicator - indicator.mean(axis=0))[:, :-1] / np.sqrt(degrees)[:, None]
    return np.linalg.qr(F)[0]


def one_hot(*columns):
    """Memberships (m, G) of rows in the groups of all columns."""
    codes = [np.unique(column, return_inverse=True)[1] for column in columns]
    return np.hstack([np.eye(code.max() + 1)[code] for code in codes])


def dense_covariances(X, A, centering="global"):
    """Covariances of groups of which rows have the weights A (m, G), or of codes."""
    A = one_hot(A) if A.ndim == 1 else A
    centre, C = A.sum(axis=1) @ X / A.sum(), []
    for a in A.T:
        offsets = X - (centre if centering == "global" else a @ X / a.sum())
        C.append((offsets.T * a) @ offsets / a.sum())
    return np.array(C)


def normalized(W):
    """Dense D^{-1/2} W D^{-1/2}, from its definition."""
    W = W.toarray() if sparse.issparse(W) else W
    d = W.sum(axis=1)
    return W / np.sqrt(d[:, None] * d)


def assert_same_moments(actual, expected, rtol=1e-12):
    """Moments of groups are equal but for rounding."""
    assert actual.groups.tolist() == expected.groups.tolist()
    for name, tolerance in (("counts", rtol), ("means", rtol / 10), ("scatters", rtol)):
        a, b = getattr(actual, name), getattr(expected, name)
        np.testing.assert_allclose(a, b, tolerance, tolerance * np.abs(b).max())


def bad_weights(n):
    """Values that are no weights of n rows, and what the error says of each."""
    rows = np.arange(n)
    return [
        (np.where(rows == 3, -1.0, 1), r"negative, the first at position 3 \(-1\)"),
        (np.where(rows == 4, np.nan, 1), "NaN or infinite, the first at position 4"),
        (np.ones(n - 1), rf"\({n - 1},\) for {n} samples"),
        (np.ones((n, 2)), "one-dimensional"),
        (np.zeros(n), "zero for all samples"),
        (np.ma.masked_less(rows, 3), "masked entries"),
        (["heavy"] * n, "real numbers"),
        (np.full(n, 1j), "real numbers"),
        (np.full(n, 1e308), "infinite sum"),
    ]


class CountingOperator(LinearOperator):
    """Any operator, with the number of its products and of their columns."""

    def __init__(self, A):
        self.A = aslinearoperator(A)
        super().__init__(self.A.dtype, self.A.shape)
        self.n_products = 0
        self.n_columns = 0

    def _matmat(self, X):
        self.n_products += 1
        self.n_columns += X.shape[1]
        return self.A.matmat(X)

    def _matvec(self, x):
        return self._matmat(x.reshape(-1, 1)).reshape(x.shape)

    def _adjoint(self):
        return self


class CountedBlocks(RowReader):
    """Blocks of rows in memory, and how many of them were read."""

    def __init__(self, rows, cuts):
        self._rows, self._cuts = rows, cuts
        self.lengths = np.diff(cuts)
        self.n_features = rows.shape[1]
        self.dtype = rows.dtype
        self.is_sparse = sparse.issparse(rows)
        self.nnz = rows.nnz if self.is_sparse else rows.size
        self.n_read = 0

    def block(self, number):
        self.n_read += 1
        return self._rows[self._cuts[number] : self._cuts[number + 1]]


def delayed_blocks(X, cuts):
    """Rows between cuts, a delayed object each."""
    dask = pytest.importorskip("dask")
    return [dask.delayed(X[i:j]) for i, j in pairwise(cuts)]


def blas_threads():
    """Numbers of threads that libraries of linear algebra take."""
    blas = ThreadpoolController().select(user_api="blas").info()
    # Another test may have loaded faiss, which brings a BLAS for itself.
    ours = [library for library in blas if "faiss" not in library["filepath"]]
    return {library["num_threads"] for library in ours}


def pytest_runtest_setup(item):
    """Skip what needs the real data sets where no folder of them is named."""
    if item.get_closest_marker("realdata") and not os.environ.get("SCALEFAIR_DATA"):
        pytest.skip("SCALEFAIR_DATA does not name the data folder")


@pytest.fixture
def data_folder():
    """Folder of the real data sets, for tests that are marked so."""
    return Path(os.environ["SCALEFAIR_DATA"])


@pytest.fixture(scope="session")
def graphs():
    """This module: generators of graphs with, where known, their eigenvalues."""
    return sys.modules[__name__]


@pytest.fixture(scope="session", params=list(GRAPHS))
def graph(request):
    """Every kind of graph in turn, CSR."""
    return GRAPHS[request.param]()


@pytest.fixture
def counting():
    """Class of operators that count their products."""
    return CountingOperator


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Run kernels, BLAS and OpenMP on one thread, but where a test asks for more.

    The problems of tests are small: on a busy machine threads would wait for each
    other many times as long as they work; those of OpenMP, scikit-learn's, spin.
    That results are the same for any number is tested by `with_threads`; with
    NUMBA_NUM_THREADS in the environment all tests run on as many (.ci/processors).
    """
    before = numba.get_num_threads()
    numba.set_num_threads(int(os.environ.get("NUMBA_NUM_THREADS", "1")))
    with threadpool_limits(1):
        yield
    numba.set_num_threads(before)


@pytest.fixture
def with_threads():
    """Call a function under a given number of Numba threads."""
    before = numba.get_num_threads()

    def call(n_threads, function, *args, **kwargs):
        if n_threads > numba.config.NUMBA_NUM_THREADS:
            pytest.skip(f"needs {n_threads} threads")
        numba.set_num_threads(n_threads)
        try:
            return function(*args, **kwargs)
        finally:
            numba.set_num_threads(before)

    yield call
    numba.set_num_threads(before)
