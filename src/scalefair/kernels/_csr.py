"""Product of a CSR matrix with a dense block of vectors."""

from __future__ import annotations

import numba
import numpy as np

from scalefair._threads import parallel
from scalefair.kernels._arrays import FloatArray, IntArray, Scalar, read_only

__all__ = ["csr_matmat"]

# Entries up to which 64-bit indices are converted: in microseconds, where a kernel for
# them takes seconds to compile.
_FEW = 2**14


def csr_matmat(
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    X: FloatArray,
    out: FloatArray,
    alpha: Scalar,
    shift: Scalar,
    beta: Scalar,
) -> None:
    """Overwrite `out` with ``alpha * (A @ X - shift * X) + beta * out``.

    Rows are shared among threads and each row is summed in storage order, so
    the result does not depend on the number of threads. Four stored entries are
    taken at a time: the row of `out` is then read and written a quarter as
    often, which is what limits the plain loop. (Working through the columns in
    tiles that fit the cache was tried: slower at every width, as a gathered row
    then uses only part of the cache lines it brings in.)

    Parameters
    ----------
    indptr, indices, data : ndarray
        The CSR matrix ``A`` (n_rows x n_columns); `data` is of the type of `X`.
    X : ndarray of shape (n_columns, k)
        C-contiguous block.
    out : ndarray of shape (n_rows, k)
        C-contiguous block, not overlapping `X`. Not read when ``beta == 0``.
    alpha, shift, beta : scalars of the type of `X`
        Coefficients; ``shift != 0`` needs a square ``A``.
    """
    if indices.dtype != np.int32 and indices.size <= _FEW and X.shape[0] <= _FEW:
        indptr, indices = indptr.astype(np.int32), indices.astype(np.int32)
    csr = read_only(indptr), read_only(indices), read_only(data)
    _matmat(*csr, read_only(X), out, alpha, shift, beta)


@parallel(
    lambda indptr, indices, data, X, out, *_: 0.2 * data.size * X.shape[1] + out.size
)
def _matmat(
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    X: FloatArray,
    out: FloatArray,
    alpha: Scalar,
    shift: Scalar,
    beta: Scalar,
) -> None:
    n_rows = indptr.shape[0] - 1
    k = X.shape[1]
    for i in numba.prange(n_rows):
        if beta == 0:
            for c in range(k):
                out[i, c] = 0
        else:
            for c in range(k):
                out[i, c] *= beta
        if shift != 0:
            factor = alpha * shift
            for c in range(k):
                out[i, c] -= factor * X[i, c]
        p = np.int64(indptr[i])
        end = np.int64(indptr[i + 1])
        while p + 3 < end:
            a0 = alpha * data[p]
            a1 = alpha * data[p + 1]
            a2 = alpha * data[p + 2]
            a3 = alpha * data[p + 3]
            j0 = indices[p]
            j1 = indices[p + 1]
            j2 = indices[p + 2]
            j3 = indices[p + 3]
            for c in range(k):
                out[i, c] += (
                    a0 * X[j0, c] + a1 * X[j1, c] + a2 * X[j2, c] + a3 * X[j3, c]
                )
            p += 4
        while p < end:
            a0 = alpha * data[p]
            j0 = indices[p]
            for c in range(k):
                out[i, c] += a0 * X[j0, c]
            p += 1
