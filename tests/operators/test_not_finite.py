"""Operators of what is infinite somewhere, or too large: the error is ours.

Warnings are errors in these tests. Whether a product with one infinite entry warns is
up to the processor; rows that hold both signs warn on each.
"""

import numpy as np
import pytest
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
    StreamedCovariance,
    StreamedSecondMoment,
    StreamedSquaredDifferences,
    SymmetricBlockOperator,
)
from scalefair.streaming import RowReader

ERRORS = ValueError, FloatingPointError
N = 40
TYPES = pytest.mark.parametrize("dtype", [np.float64, np.float32])


def basis():
    return np.linalg.qr(np.random.default_rng(1).standard_normal((N, 3)))[0]


class GraphRows(RowReader):
    """A matrix in one block of rows."""

    lengths, n_features, dtype = np.array([N]), N, np.dtype(np.float64)
    nnz, is_sparse = N * N, True

    def __init__(self, W):
        self.W = sparse.csr_array(W)

    def block(self, number):
        return self.W


codes = np.arange(N) % 2


def streamed(X, dtype):
    return StreamedCovariance(lambda: [(X, codes)], 2, [-1.0, 1.0], dtype=dtype)


# Operators of a symmetric N x N matrix, positive but for what is wrong with it.
OPERATORS = {
    "AMGPreconditioner": lambda A, dtype: AMGPreconditioner(A, dtype=dtype),
    "GroupCovariance": lambda A, dtype: GroupCovariance(
        A, codes, [1.0, -1.0], dtype=dtype
    ),
    "GroupCovariance, sparse": lambda A, dtype: GroupCovariance(
        sparse.csr_array(A), codes, [1.0, -1.0], centering="group", dtype=dtype
    ),
    "NormalizedAffinity": lambda A, dtype: NormalizedAffinity(A, dtype=dtype),
    "NormalizedOperator": lambda A, dtype: NormalizedOperator(A, dtype=dtype),
    "NormalizedOperator, operator": lambda A, dtype: NormalizedOperator(
        aslinearoperator(A), dtype=dtype
    ),
    "NullspaceProjector": lambda A, dtype: NullspaceProjector(A[:, 2:4], dtype=dtype),
    "NystroemKernel": lambda A, dtype: NystroemKernel(
        A, n_landmarks=5, dtype=dtype, random_state=0
    ),
    "PartitionedMatrix": lambda A, dtype: PartitionedMatrix(GraphRows(A), dtype=dtype),
    "Projected": lambda A, dtype: Projected(
        A.astype(dtype), basis(), constrained_value=-1.0
    ),
    "Projected, basis": lambda A, dtype: Projected(
        np.eye(N, dtype=dtype), A[:, 2:4], constrained_value=-1.0
    ),
    "RBFKernel": lambda A, dtype: RBFKernel(A, dtype=dtype),
    "StreamedCovariance": streamed,
    "StreamedSecondMoment": lambda A, dtype: StreamedSecondMoment(streamed(A, dtype)),
    "StreamedSquaredDifferences": lambda A, dtype: StreamedSquaredDifferences(
        streamed(A, dtype)
    ),
}


@pytest.fixture(params=list(OPERATORS))
def make(request):
    return OPERATORS[request.param]


def positive():
    A = np.random.default_rng(0).random((N, N))
    return A + A.T


def block(dtype=np.float64):
    return np.random.default_rng(5).standard_normal((N, 3)).astype(dtype)


def test_every_operator_is_tried():
    public = {
        getattr(scalefair.operators, name) for name in scalefair.operators.__all__
    }
    classes = {
        c.__name__
        for c in public - {SymmetricBlockOperator}
        if type(c) is not type(test_every_operator_is_tried)
    }
    assert classes == {name.split(",")[0] for name in OPERATORS}


@TYPES
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan, "both"])
def test_entries_that_are_not_finite(make, dtype, bad):
    A = positive()
    A[3, 2] = A[2, 3] = np.inf if bad == "both" else bad
    if bad == "both":
        A[3, 4] = A[4, 3] = A[8, 2] = A[2, 8] = -np.inf
    with pytest.raises(ERRORS, match=r"finite|NaN|infinity|overflow|not orthonormal"):
        make(A, dtype) @ block(dtype)


@TYPES
@pytest.mark.parametrize("size", [1e100, 1e152, 1e200, 1e307])
@pytest.mark.parametrize("signs", ["plus", "both", "one entry"])
def test_entries_that_are_too_large(make, dtype, size, signs):
    A = size * positive()
    if signs == "both":
        A *= np.sign(np.subtract.outer(np.arange(N), np.arange(N)) ** 2 % 3 - 0.5)
    elif signs == "one entry":
        A = positive()
        A[3, 2] = A[2, 3] = size
    with np.errstate(over="ignore"):  # of what is made here
        A.astype(dtype)
        if dtype == np.float32 and make is OPERATORS["Projected"]:
            A = np.nan_to_num(A.astype(dtype)).astype(np.float64)
    try:
        product = make(A, dtype) @ block(dtype)
    except ERRORS as error:
        words = "large|overflow|range|rescale|orthonormal|degree|finite|symmetric"
        assert any(word in str(error) for word in words.split("|")), error  # noqa: PT017
    else:
        assert np.isfinite(product).all()


def test_affinities_of_any_size_are_normalised():
    W = positive()
    expected = NormalizedOperator(W) @ block()
    for operator in (NormalizedOperator, NormalizedAffinity):
        product = operator(1e306 * W) @ block()
        np.testing.assert_allclose(product, expected, rtol=1e-10)


@TYPES
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan, "both", 1e308])
def test_products_of_what_is_not_finite(make, dtype, bad):
    A = positive() + N * np.eye(N)
    if make in (OPERATORS["NullspaceProjector"], OPERATORS["Projected, basis"]):
        A = np.linalg.qr(A)[0]
    operator = make(A, dtype)
    V = block()
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
    for name in ("compress", "captured", "code_products"):
        if hasattr(operator, name):
            with pytest.raises(ERRORS, match="not finite"):
                getattr(operator, name)(V)


@pytest.mark.parametrize("bad", [1e-300, 1e300])
def test_candidate_of_any_size(bad):
    A = sparse.csr_array(np.diag(positive().sum(axis=1) + 1) - positive())
    expected = AMGPreconditioner(A) @ block()
    product = AMGPreconditioner(A, candidate=np.full(N, bad)) @ block()
    np.testing.assert_allclose(product, expected, rtol=1e-10)
    with pytest.raises(ValueError, match="too far apart"):
        AMGPreconditioner(A, candidate=np.r_[1e-200, np.ones(N - 1)])
