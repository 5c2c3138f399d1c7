"""What every operator owes, checked on a list of all of them."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import scalefair.operators
from scalefair.operators import (
    AMGPreconditioner,
    GroupCovariance,
    NormalizedAffinity,
    NormalizedOperator,
    NullspaceProjector,
    NystroemKernel,
    PartitionedMatrix,
    Projected,
    RBFKernel,
    StreamedCovariance,
    StreamedSecondMoment,
    StreamedSquaredDifferences,
    SymmetricBlockOperator,
)
from scalefair.operators._base import apply_block
from scalefair.streaming import RowReader

N = 60
TYPES = [np.float64, np.float32]
# The longest sums here have 200 terms, the rows of the covariances.
EPSILON = {dtype: 200 * float(np.finfo(dtype).eps) for dtype in TYPES}


def weights(n=N, seed=0, density=0.2):
    rng = np.random.default_rng(seed)
    W = rng.random((n, n)) * (rng.random((n, n)) < density)
    W = W + W.T
    i = np.arange(n)
    W[i, i - 1] = W[i - 1, i] = 1  # a ring: no node without a neighbour
    return W


def basis(n=N, r=3, seed=1):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((n, r)))[0]


def dense_affinity(shift=0.0):
    W = weights()
    d = W.sum(axis=1)
    return W / np.sqrt(np.outer(d, d)) + shift * np.eye(N)


def dense_projected(A, value):
    Q = basis()
    P = np.eye(N) - Q @ Q.T
    return P @ A @ P + value * Q @ Q.T


def with_int64_indices(W):
    W = sparse.csr_array(W)
    W.indices, W.indptr = W.indices.astype(np.int64), W.indptr.astype(np.int64)
    return W


def affinity(dtype, **options):
    return NormalizedAffinity(sparse.csr_array(weights()), dtype=dtype, **options)


def features():
    return np.random.default_rng(2).standard_normal((N, 3))


def dense_kernel(gamma):
    X = features()
    return np.exp(-gamma * ((X[:, None] - X) ** 2).sum(axis=-1))


def dense_normalized_kernel():
    K = dense_kernel(0.5)
    d = K.sum(axis=1)
    return K / np.sqrt(np.outer(d, d))


def rows():
    X = np.random.default_rng(3).standard_normal((200, N))
    X[np.abs(X) < 0.5] = 0
    return X + 0.3 * (np.arange(N) < 5)


codes = np.arange(200) % 2


def dense_covariance():
    X = rows() - rows().mean(axis=0)
    parts = (X[codes == code] for code in (0, 1))
    return sum(
        weight * part.T @ part / len(part)
        for weight, part in zip((0.3, 0.7), parts, strict=True)
    )


class Batches:
    """Rows and codes in parts, again at every call."""

    def __call__(self):
        for start in range(0, 200, 64):
            yield rows()[start : start + 64], codes[start : start + 64]


def streamed(dtype):
    return StreamedCovariance(Batches(), 2, [-1.0, 1.0], dtype=dtype)


def dense_difference():
    return np.cov(rows()[codes == 1].T) - np.cov(rows()[codes == 0].T)


class GraphRows(RowReader):
    """The graph in two blocks of rows."""

    lengths, n_features, dtype = np.array([25, N - 25]), N, np.dtype(np.float64)
    is_sparse = True

    def __init__(self):
        self.graph = sparse.csr_array(weights())
        self.nnz = self.graph.nnz

    def block(self, number):
        return self.graph[:25] if number == 0 else self.graph[25:]


# Name: operator of a given dtype, and the matrix that it stands for.
REGISTRY = {
    "AMGPreconditioner": (
        # So small a matrix is inverted at once.
        lambda dtype: AMGPreconditioner(
            sparse.csr_array(np.eye(N) - 0.5 * dense_affinity()), dtype=dtype
        ),
        lambda: np.linalg.inv(np.eye(N) - 0.5 * dense_affinity()),
    ),
    "GroupCovariance": (
        lambda dtype: GroupCovariance(rows(), codes, [0.3, 0.7], dtype=dtype),
        dense_covariance,
    ),
    "GroupCovariance, sparse": (
        lambda dtype: GroupCovariance(
            sparse.csr_array(rows()), codes, [0.3, 0.7], dtype=dtype
        ),
        dense_covariance,
    ),
    "NormalizedAffinity": (affinity, dense_affinity),
    "NormalizedAffinity, shift": (
        lambda dtype: affinity(dtype, shift=1.5),
        lambda: dense_affinity(1.5),
    ),
    "NormalizedAffinity, int64": (
        lambda dtype: NormalizedAffinity(with_int64_indices(weights()), dtype=dtype),
        dense_affinity,
    ),
    "NormalizedAffinity, coo": (
        lambda dtype: NormalizedAffinity(sparse.coo_array(weights()), dtype=dtype),
        dense_affinity,
    ),
    "NormalizedAffinity, ndarray": (
        lambda dtype: NormalizedAffinity(weights(), dtype=dtype),
        dense_affinity,
    ),
    "NormalizedOperator": (
        lambda dtype: NormalizedOperator(RBFKernel(features(), gamma=0.5), dtype=dtype),
        dense_normalized_kernel,
    ),
    "NormalizedOperator ndarray, shift": (
        lambda dtype: NormalizedOperator(weights(), shift=1.5, dtype=dtype),
        lambda: dense_affinity(1.5),
    ),
    "NormalizedOperator LinearOperator": (
        lambda dtype: NormalizedOperator(aslinearoperator(weights()), dtype=dtype),
        dense_affinity,
    ),
    "NullspaceProjector": (
        lambda dtype: NullspaceProjector(basis(), dtype=dtype),
        lambda: np.eye(N) - basis() @ basis().T,
    ),
    "NullspaceProjector, no columns": (
        lambda dtype: NullspaceProjector(np.empty((N, 0)), dtype=dtype),
        lambda: np.eye(N),
    ),
    "NystroemKernel": (
        # As many landmarks as points: exact.
        lambda dtype: NystroemKernel(
            features(), gamma=3.0, n_landmarks=N, dtype=dtype, random_state=0
        ),
        lambda: dense_kernel(3.0),
    ),
    "PartitionedMatrix": (
        lambda dtype: PartitionedMatrix(GraphRows(), dtype=dtype),
        weights,
    ),
    "Projected affinity": (
        lambda dtype: Projected(affinity(dtype), basis(), constrained_value=-1.0),
        lambda: dense_projected(dense_affinity(), -1.0),
    ),
    "Projected kernel": (
        lambda dtype: Projected(
            NormalizedOperator(RBFKernel(features(), gamma=0.5), dtype=dtype),
            basis(),
            constrained_value=-1.0,
        ),
        lambda: dense_projected(dense_normalized_kernel(), -1.0),
    ),
    "Projected ndarray": (
        lambda dtype: Projected(
            dense_affinity().astype(dtype), basis(), constrained_value=0.25
        ),
        lambda: dense_projected(dense_affinity(), 0.25),
    ),
    "Projected sparse": (
        lambda dtype: Projected(
            sparse.csr_array(dense_affinity(), dtype=dtype),
            basis(),
            constrained_value=-2.0,
        ),
        lambda: dense_projected(dense_affinity(), -2.0),
    ),
    "Projected LinearOperator": (
        lambda dtype: Projected(
            aslinearoperator(dense_affinity().astype(dtype)),
            basis(),
            constrained_value=-1.0,
        ),
        lambda: dense_projected(dense_affinity(), -1.0),
    ),
    "Projected, no columns": (
        lambda dtype: Projected(
            affinity(dtype), np.empty((N, 0)), constrained_value=-1.0
        ),
        dense_affinity,
    ),
    "RBFKernel": (
        lambda dtype: RBFKernel(features(), gamma=0.5, dtype=dtype),
        lambda: dense_kernel(0.5),
    ),
    "StreamedCovariance": (streamed, dense_difference),
    "StreamedSecondMoment": (
        lambda dtype: StreamedSecondMoment(streamed(dtype)),
        lambda: rows().T @ rows(),
    ),
    "StreamedSquaredDifferences": (
        lambda dtype: StreamedSquaredDifferences(streamed(dtype)),
        lambda: dense_difference() @ dense_difference(),
    ),
}


@pytest.fixture(params=TYPES, ids=["float64", "float32"])
def dtype(request):
    return request.param


@pytest.fixture(params=list(REGISTRY))
def pair(request, dtype):
    """Operator and its matrix."""
    make, dense = REGISTRY[request.param]
    return make(dtype), dense()


def random_block(k, dtype=np.float64, seed=5):
    return np.random.default_rng(seed).standard_normal((N, k)).astype(dtype)


def close(actual, expected, dtype, factor=1):
    """Compare sums: their errors are relative to the terms, not to what is left.

    Where terms cancel that is eps times their number times the largest entry; the
    order of the terms, and so the error, is up to the processor.
    """
    tolerance = factor * EPSILON[dtype]
    size = max(1.0, np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * size)


def test_every_operator_is_in_the_registry():
    tested = {type(make(np.float64)) for make, _ in REGISTRY.values()}
    public = {
        getattr(scalefair.operators, name) for name in scalefair.operators.__all__
    }
    classes = {c for c in public if isinstance(c, type)} - {SymmetricBlockOperator}
    assert classes == tested


def test_products(pair, dtype):
    operator, dense = pair
    assert operator.shape == (N, N)
    assert operator.dtype == dtype
    X = random_block(4, dtype)
    for product in (operator @ X, operator.matmat(X), operator.rmatmat(X)):
        assert product.dtype == dtype
        assert product.flags.c_contiguous
        close(product, dense @ X, dtype)
    for product in (operator @ X[:, 0], operator.matvec(X[:, 0]), operator(X[:, 0])):
        assert product.shape == (N,)
        close(product, dense @ X[:, 0], dtype)
    close(operator.rmatvec(X[:, 0]), dense.T @ X[:, 0], dtype)
    assert operator.matvec(X[:, :1]).shape == (N, 1)
    assert (operator @ X[:, :0]).shape == (N, 0)
    for turned in (operator.H, operator.T):
        close(turned @ X, dense.T @ X, dtype)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32 - 1))
def test_adjoint(seed):
    rng = np.random.default_rng(seed)
    for make, _ in REGISTRY.values():
        operator = make(np.float64)
        x, y = rng.standard_normal((2, N))
        product = operator @ x
        rounding = max(1e-12, 1e-14 * np.linalg.norm(product) * np.linalg.norm(y))
        assert product @ y == pytest.approx(x @ (operator.H @ y), abs=rounding)


def test_apply_like_blas(pair, dtype):
    operator, dense = pair
    X, start = random_block(3, dtype), random_block(3, dtype, seed=6)
    before = X.copy()
    for alpha, shift, beta in [
        (1.0, 0.0, 0.0),
        (2.0, 0.0, 1.0),
        (-0.5, 1.3, 0.0),
        (1.5, -0.4, -2.0),
        (0.0, 1.0, 1.0),
    ]:
        out = np.full_like(start, np.nan) if beta == 0 else start.copy()
        result = operator.apply(X, out, alpha=alpha, shift=shift, beta=beta)
        assert result is out
        expected = alpha * (dense @ X - shift * X)
        if beta:
            expected += beta * start
        close(out, expected, dtype, 5)
        assert np.array_equal(X, before)


def test_blocks_of_any_layout(pair, dtype):
    operator, dense = pair
    wide = random_block(8, dtype)
    close(operator @ wide[:, ::2], dense @ wide[:, ::2], dtype)
    close(operator @ np.asfortranarray(wide), dense @ wide, dtype)
    close(operator @ wide[::-1], dense @ wide[::-1], dtype)
    integers = np.arange(2 * N).reshape(N, 2) - N
    close(operator @ integers, dense @ integers, dtype, 100)
    other = np.float32 if dtype == np.float64 else np.float64
    product = operator @ wide.astype(other)
    close(product, dense @ wide.astype(other), dtype)
    frozen = wide.copy()
    frozen.flags.writeable = False
    close(operator @ frozen, dense @ wide, dtype)


def test_pickling(pair, dtype):
    operator, _ = pair
    copy = pickle.loads(pickle.dumps(operator))
    X = random_block(3, dtype)
    assert copy.dtype == operator.dtype
    assert np.array_equal(copy @ X, operator @ X)


def test_scipy_algebra(pair, dtype):
    operator, dense = pair
    B = np.random.default_rng(7).standard_normal((N, N)).astype(dtype)
    X = random_block(2, dtype)
    for composed, expected in [
        (operator + operator, 2 * dense),
        (2 * operator, 2 * dense),
        (-operator, -dense),
        (operator @ aslinearoperator(B), dense @ B),
        (aslinearoperator(B) @ operator, B @ dense),
        (operator - operator, 0 * dense),
        (operator**2, dense @ dense),
    ]:
        assert isinstance(composed, LinearOperator)
        close(composed @ X, expected @ X, dtype, 50)
        close(composed.H @ X, expected.T @ X, dtype, 50)


def test_same_bits_for_any_number_of_threads(pair, dtype, with_threads):
    operator, _ = pair
    X = random_block(5, dtype)
    one = with_threads(1, operator.matmat, X)
    assert np.array_equal(one, with_threads(2, operator.matmat, X))


def test_refuses_complex_blocks(pair):
    operator, _ = pair
    with pytest.raises(TypeError, match="real"):
        operator @ (1j * random_block(2))


def test_refuses_blocks_of_another_order(pair):
    operator, _ = pair
    with pytest.raises(ValueError, match="mismatch"):
        operator @ np.ones((N + 1, 2))


@pytest.mark.parametrize("bad", [complex, np.complex64, int, np.float16, bool])
def test_refuses_other_types(bad):
    with pytest.raises(TypeError, match="float32 or float64"):
        NormalizedAffinity(weights(), dtype=bad)
    with pytest.raises(TypeError, match="float32 or float64"):
        NullspaceProjector(basis(), dtype=bad)
    with pytest.raises(TypeError, match="float32 or float64"):
        RBFKernel(features(), dtype=bad)
    with pytest.raises(TypeError, match="float32 or float64"):
        NystroemKernel(features(), dtype=bad)
    with pytest.raises(TypeError, match="float32 or float64"):
        NormalizedOperator(weights(), dtype=bad)


@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array, NormalizedAffinity])
def test_apply_block_on_any_operator(wrap, dtype):
    A = aslinearoperator(wrap(weights()))
    dense = A @ np.eye(N)
    X, start = random_block(3, dtype), random_block(3, dtype, seed=6)
    for alpha, shift, beta in [(1.0, 0.0, 0.0), (2.0, 0.3, 0.0), (-1.0, 0.5, 0.7)]:
        out = np.full_like(start, np.nan) if beta == 0 else start.copy()
        assert apply_block(A, X, out, alpha=alpha, shift=shift, beta=beta) is out
        expected = alpha * (dense @ X - shift * X)
        if beta:
            expected += beta * start
        close(out, expected, dtype, 100)
