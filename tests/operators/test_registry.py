"""What every operator owes, checked on a list of all of them.

Each is made from a matrix of numbers, and refuses one that is infinite somewhere or too
large, in our words. Warnings are errors in these tests, and whether a product with one
infinite entry warns is up to the processor; rows that hold both signs warn on each.
"""

import inspect
import pickle

import numpy as np
import pytest
import scipy
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

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
    SymmetricBlockOperator,
)
from scalefair.operators._base import TypedOperator
from scalefair.streaming import PartitionedRows

from ..conftest import (
    CountedBlocks,
    dense_covariances,
    nearest_neighbors,
    normalized,
    one_hot,
    with_long_indices,
)

N = 60
SCIPY = tuple(map(int, scipy.__version__.split(".")[:2]))
TYPES = [np.float64, np.float32]
ERRORS = ValueError, FloatingPointError
WEIGHTS = np.random.default_rng(4).gamma(2.0, size=N)
# The longest sums here have 200 terms, the rows of the covariances.
EPSILON = {dtype: 200 * float(np.finfo(dtype).eps) for dtype in TYPES}


def graph():
    return nearest_neighbors(N).toarray() + np.diag(np.arange(N) % 2)  # some loops


def basis(n=N, r=3, seed=1):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((n, r)))[0]


def features():
    return np.random.default_rng(2).standard_normal((N, 3))


def rows():
    X = np.random.default_rng(3).standard_normal((200, N))
    X[np.abs(X) < 0.5] = 0
    return X + 0.3 * (np.arange(N) < 5)


def codes(X):
    return np.arange(len(X)) % 2


def dense_regularized(W, regularization, weights=None):
    weights = np.ones(len(W)) if weights is None else weights
    constant = regularization * (weights @ W @ weights) / weights.sum() ** 2
    return normalized(np.outer(weights, weights) * (W + constant))


def dense_projected(A, Q, value):
    P = np.eye(N) - Q @ Q.T
    return P @ A @ P + value * Q @ Q.T


def dense_kernel(X, gamma):
    return np.exp(-gamma * ((X[:, None] - X) ** 2).sum(axis=-1))


def row_weights(X):
    return 1.0 + np.arange(len(X)) % 3


def dense_covariance(X, weights=1.0):
    A = (one_hot(codes(X)).T * weights).T
    return np.tensordot([0.3, 0.7], dense_covariances(X, A), axes=1)


def covariance(form, weights=lambda X: None):
    return lambda X, dtype: GroupCovariance(
        form(X), codes(X), [0.3, 0.7], dtype=dtype, sample_weight=weights(X)
    )


def in_two(X):
    """The rows of a CSR matrix in two blocks."""
    return CountedBlocks(sparse.csr_array(X), [0, 25, len(X)])


def in_parts(X):
    return PartitionedRows.of(in_two(X))


def of_affinity(form, **options):
    return lambda W, dtype: NormalizedAffinity(form(W), dtype=dtype, **options)


def any_normalized(form, **options):
    return lambda W, dtype: NormalizedOperator(form(W), dtype=dtype, **options)


# Name: operator of a matrix and a type, the matrix, and what the operator stands for.
REGISTRY = {
    "AMGPreconditioner": (
        # So small a matrix is inverted at once.
        lambda A, dtype: AMGPreconditioner(A, dtype=dtype),
        lambda: np.eye(N) - 0.5 * normalized(graph()),
        np.linalg.inv,
    ),
    "GroupCovariance": (covariance(np.asarray), rows, dense_covariance),
    "GroupCovariance, sparse": (covariance(sparse.csr_array), rows, dense_covariance),
    "GroupCovariance, parts": (covariance(in_parts), rows, dense_covariance),
    **{
        f"GroupCovariance, weighted, {form.__name__}": (
            covariance(form, row_weights),
            rows,
            lambda X: dense_covariance(X, row_weights(X)),
        )
        for form in (np.asarray, sparse.csr_array, in_parts)
    },
    "NormalizedAffinity": (of_affinity(sparse.csr_array), graph, normalized),
    "NormalizedAffinity, unweighted": (
        of_affinity(with_long_indices, regularization=0.7, shift=1.5),
        lambda: 3.5 * (graph() > 0),
        lambda W: dense_regularized(W, 0.7) + 1.5 * np.eye(N),
    ),
    "NormalizedAffinity, weighted": (
        of_affinity(with_long_indices, regularization=0.7, sample_weight=WEIGHTS),
        lambda: 3.5 * (graph() > 0),
        lambda W: dense_regularized(W, 0.7, WEIGHTS),
    ),
    "NormalizedOperator, weighted": (
        any_normalized(
            aslinearoperator, regularization=0.7, shift=1.5, sample_weight=WEIGHTS
        ),
        graph,
        lambda W: dense_regularized(W, 0.7, WEIGHTS) + 1.5 * np.eye(N),
    ),
    "NormalizedOperator, regularized": (
        any_normalized(lambda X: RBFKernel(X, gamma=0.5), regularization=2, shift=1.5),
        features,
        lambda X: dense_regularized(dense_kernel(X, 0.5), 2) + 1.5 * np.eye(N),
    ),
    "NormalizedOperator, LinearOperator": (
        any_normalized(aslinearoperator),
        graph,
        normalized,
    ),
    "NullspaceProjector": (
        lambda Q, dtype: NullspaceProjector(Q, dtype=dtype),
        basis,
        lambda Q: np.eye(N) - Q @ Q.T,
    ),
    "NystroemKernel": (
        # As many landmarks as points: exact.
        lambda X, dtype: NystroemKernel(
            X, gamma=3.0, n_landmarks=N, dtype=dtype, random_state=0
        ),
        features,
        lambda X: dense_kernel(X, 3.0),
    ),
    "PartitionedMatrix": (
        lambda W, dtype: PartitionedMatrix(in_two(W), dtype=dtype),
        graph,
        np.asarray,
    ),
    "Projected": (
        lambda W, dtype: Projected(
            NormalizedAffinity(W, dtype=dtype), basis(), constrained_value=-1.0
        ),
        graph,
        lambda W: dense_projected(normalized(W), basis(), -1.0),
    ),
    "Projected, sparse": (
        lambda W, dtype: Projected(
            sparse.csr_array(W.astype(dtype)), basis(), constrained_value=-2.0
        ),
        graph,
        lambda W: dense_projected(W, basis(), -2.0),
    ),
    "Projected, basis": (
        lambda Q, dtype: Projected(np.eye(N, dtype=dtype), Q, constrained_value=-1.0),
        basis,
        lambda Q: np.eye(N) - 2.0 * Q @ Q.T,
    ),
    "RBFKernel": (
        lambda X, dtype: RBFKernel(X, gamma=0.5, dtype=dtype),
        features,
        lambda X: dense_kernel(X, 0.5),
    ),
}
OF_A_BASIS = [name for name in REGISTRY if REGISTRY[name][1] is basis]
OF_GIVEN_TYPE = [name for name in REGISTRY if not name.startswith("Projected")]
OF_BOTH_TYPES = [
    name
    for name in REGISTRY
    if issubclass(getattr(scalefair.operators, name.split(",")[0]), TypedOperator)
]
of_names = pytest.mark.parametrize("name", REGISTRY)


@pytest.fixture(params=TYPES, ids=["float64", "float32"])
def dtype(request):
    return request.param


@pytest.fixture(params=list(REGISTRY))
def pair(request, dtype):
    """Operator and its matrix."""
    make, numbers, dense = REGISTRY[request.param]
    return make(numbers(), dtype), dense(numbers())


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
    public = {vars(scalefair.operators)[name] for name in scalefair.operators.__all__}
    classes = {c.__name__ for c in public if inspect.isclass(c)}
    names = {name.split(",")[0] for name in REGISTRY}
    assert classes == names | {SymmetricBlockOperator.__name__}


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
    assert (operator @ X[:, :1]).shape == operator.matmat(X[:, :1]).shape == (N, 1)
    assert (operator @ X[:, :0]).shape == (N, 0)
    for turned in (operator.H, operator.T):
        close(turned @ X, dense.T @ X, dtype)


@pytest.mark.skipif(SCIPY < (1, 18), reason="SciPy hands over no stacks")
def test_stacks(pair, dtype):
    operator, dense = pair
    X = random_block(6, dtype)
    close(operator.matvec(X.T), (dense @ X).T, dtype)
    close(operator.rmatvec(X.T.reshape(2, 3, N)).reshape(6, N), (dense.T @ X).T, dtype)
    stack = np.stack([X, -X])
    close(operator.matmat(stack), dense @ stack, dtype)
    close(operator.rmatmat(stack), dense.T @ stack, dtype)


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
    close(operator @ wide.astype(other), dense @ wide.astype(other), dtype)
    wide.flags.writeable = False
    close(operator @ wide, dense @ wide, dtype)


def test_pickling_and_threads(pair, dtype, with_threads):
    operator, _ = pair
    copy = pickle.loads(pickle.dumps(operator))
    X = random_block(5, dtype)
    assert copy.dtype == operator.dtype
    one = with_threads(1, operator.matmat, X)
    assert np.array_equal(copy @ X, one)
    assert np.array_equal(one, with_threads(2, operator.matmat, X))


@pytest.mark.parametrize("name", OF_BOTH_TYPES)
def test_conversion(name, dtype):
    make, numbers, _ = REGISTRY[name]
    operator = make(numbers(), dtype)
    X = random_block(4)
    assert operator.astype(dtype) is operator
    for other in TYPES:
        converted = operator.astype(other)
        assert converted.dtype == (converted @ X).dtype == other
        close(converted @ X, operator @ X, np.float32)
        assert operator.dtype == dtype
    with pytest.raises(TypeError, match="float32 or float64"):
        operator.astype(int)


def test_refuses_blocks_that_do_not_fit(pair):
    operator, _ = pair
    with pytest.raises(TypeError, match="real"):
        operator @ (1j * random_block(2))
    with pytest.raises(ValueError, match="mismatch"):
        operator @ np.ones((N + 1, 2))


@pytest.mark.parametrize("name", OF_GIVEN_TYPE)
@pytest.mark.parametrize("bad", [complex, int])
def test_refuses_other_types(name, bad):
    make, numbers, _ = REGISTRY[name]
    with pytest.raises(TypeError, match="float32 or float64"):
        make(numbers(), bad)


def positive():
    A = np.random.default_rng(0).random((N, N))
    return A + A.T


def make_of(name, A, dtype):
    """Operator of a symmetric N x N matrix, or of columns of it as a basis."""
    if name in OF_A_BASIS:
        A = A[:, 2:4]
    return REGISTRY[name][0](A, dtype)


@of_names
@pytest.mark.parametrize(
    ("size", "signs"),
    [
        (np.nan, "one entry"),
        (np.inf, "one of each sign"),
        (1e152, "both"),
        (1e307, "plus"),
        (1e200, "one entry"),
    ],
)
def test_entries_that_are_too_large_or_not_finite(name, dtype, size, signs):
    A = positive()
    if signs.startswith("one"):
        A[3, 2] = A[2, 3] = size
    else:
        A *= size
    if signs == "one of each sign":
        A[3, 4] = A[4, 3] = A[8, 2] = A[2, 8] = -size
    elif signs == "both":
        A *= np.sign(np.subtract.outer(np.arange(N), np.arange(N)) ** 2 % 3 - 0.5)
    with np.errstate(over="ignore"):  # of what is made here
        A.astype(dtype)
        if np.isfinite(size) and dtype == np.float32 and name.startswith("Projected"):
            A = np.nan_to_num(A.astype(dtype)).astype(np.float64)
    try:
        product = make_of(name, A, dtype) @ random_block(3, dtype)
    except ERRORS as error:
        terms = "large|overflow|range|rescale|orthonormal|degree|finite|symmetric|NaN|"
        terms += "infinity"
        assert any(term in str(error) for term in terms.split("|")), error  # noqa: PT017
    else:
        assert np.isfinite(size)
        assert np.isfinite(product).all()


@of_names
@pytest.mark.parametrize("bad", [np.nan, "both", 1e308])
def test_products_of_what_is_not_finite(name, dtype, bad):
    A = positive() + N * np.eye(N)
    operator = make_of(name, np.linalg.qr(A)[0] if name in OF_A_BASIS else A, dtype)
    V = random_block(3)
    V[3, 1] = np.inf if bad == "both" else bad
    if bad == "both":
        V[4, 1] = -np.inf
    elif bad == 1e308:
        V[::2, 1], V[1::2, 1] = bad, -bad
    try:
        product = operator @ V
    except FloatingPointError as error:
        assert "not finite" in str(error)  # noqa: PT017
    else:  # the columns are finite, and their products
        assert bad == 1e308
        assert dtype == np.float64
        assert np.isfinite(product).all()
    for method in ("compress", "captured"):
        if hasattr(operator, method):
            with pytest.raises(ERRORS, match="not finite"):
                getattr(operator, method)(V)
