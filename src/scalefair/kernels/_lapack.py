"""BLAS and LAPACK while other threads run.

SciPy's functions hold the interpreter's lock: for seconds no other thread gets on, nor
does an interrupt. NumPy's do not, but compute more than is wanted here. And NumPy has a
BLAS of its own: for 30 ms the threads of the one wait for more work, on the processors
that those of the other want. So long calls one after another are all to SciPy's.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, blas, cython_blas, cython_lapack, eigh

from scalefair._threads import long_blas_call

# Nanoseconds of work below which a call through pointers takes longer than NumPy's.
_SHORT = 2e5


def add_gram(X: NDArray[np.float64], C: NDArray[np.float64]) -> None:
    """Add ``X.T @ X`` to the lower triangle of `C`; both are C-contiguous float64."""
    multiply = _routine(cython_blas, "dsyrk", 4)
    # What BLAS takes for columns are rows: its upper triangle is the lower one.
    if multiply is None:
        blas.dsyrk(1.0, X.T, beta=1.0, c=C.T, overwrite_c=True)
        return
    m, n = np.array([[X.shape[0]], [X.shape[1]]], np.intc)
    one = np.ones(1)
    arrays = [n, m, one, X, n, one, C, n]
    with long_blas_call(0.03 * X.size * X.shape[1]):
        multiply(b"U", b"N", *(array.ctypes.data for array in arrays))


def matmul(A: NDArray[np.float64], B: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``A @ B`` for float64 matrices, C-contiguous or transposes of such."""
    multiply = _routine(cython_blas, "dgemm", 6)
    (m, depth), n = A.shape, B.shape[1]
    work = 0.04 * m * n * depth
    if multiply is None or work <= _SHORT:
        return np.asarray(A @ B)
    out = np.empty((m, n))
    one, zero = np.array([[1.0], [0.0]])
    kinds: list[bytes] = []
    arrays: list[NDArray[Any]] = []
    for M in (B, A):  # by rows, not columns: what is computed is B.T @ A.T
        as_it_is = M.flags.c_contiguous
        kinds.append(b"N" if as_it_is else b"T")
        M = np.ascontiguousarray(M if as_it_is else M.T)
        arrays += [M, np.array([M.shape[1]], np.intc)]
    sizes = list(np.array([[n], [m], [depth]], np.intc))
    arrays = [*sizes, one, *arrays, zero, out, sizes[0]]
    with long_blas_call(work):
        multiply(*kinds, *(array.ctypes.data for array in arrays))
    return out


def eigenvalues(A: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return all eigenvalues of a symmetric matrix, rising; raises as below."""
    values, _ = _eigh(np.array(A, np.float64, order="C"), 0)
    return values


def leading_eigh(
    A: NDArray[Any], k: int, *, overwrite: bool = False
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the `k` largest eigenvalues of a symmetric matrix, falling, and vectors.

    Raises ValueError if an entry is not finite and LinAlgError if LAPACK fails.
    """
    dtype = np.float32 if A.dtype == np.float32 else np.float64
    A = np.array(A, dtype, order="C", copy=None if overwrite else True)
    values, vectors = _eigh(A, k)
    return values[::-1], np.ascontiguousarray(vectors[:, ::-1])


def _eigh(A: NDArray[Any], k: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Leading pairs, rising, or all values without vectors; A is overwritten."""
    if not np.isfinite(A).all():
        raise ValueError("the matrix has entries that are NaN or infinite")
    n, name = len(A), "ssyevr" if A.dtype == np.float32 else "dsyevr"
    solve, work = _routine(cython_lapack, name, 11), 0.1 * n**3
    diagonal = A.diagonal().copy()
    with long_blas_call(work):
        if solve is not None and work > _SHORT:
            values, vectors = _solve(solve, A, k)
        elif k == 0:
            return np.linalg.eigvalsh(A), A[:, :0]
        else:
            bounds = n - k, n - 1
            values, vectors = eigh(A, subset_by_index=bounds, check_finite=False)
        if values.size < k:
            # Of equal eigenvalues, but for rounding, LAPACK's bisection may find none.
            np.fill_diagonal(A, diagonal)  # below it A is as it was
            values, vectors = np.linalg.eigh(A)
    return values[-k:], vectors[:, -k:]


def _solve(solve: Any, A: NDArray[Any], k: int) -> tuple[NDArray[Any], NDArray[Any]]:
    n, n_found = len(A), k or len(A)
    kind = (b"V", b"I", b"L") if k else (b"N", b"A", b"L")
    values, columns = np.empty(n, A.dtype), np.empty((k, n), A.dtype)
    support = np.empty(2 * n_found, np.intc)
    size, first, found, info = np.array([[n], [n - k + 1], [0], [0]], np.intc)
    zero = np.zeros(1, A.dtype)  # for bounds that are not used, and the tolerance
    work, n_work = np.empty(1, A.dtype), np.array([-1], np.intc)
    iwork, n_iwork = np.empty(1, np.intc), np.array([-1], np.intc)
    arrays = [size, A, size, zero, zero, first, size, zero, found, values, columns]
    for _ in range(2):  # how much room is wanted, then the solution
        more = [size, support, work, n_work, iwork, n_iwork, info]
        solve(*kind, *(array.ctypes.data for array in arrays + more))
        n_work[0], n_iwork[0] = int(work[0]), iwork[0]
        work, iwork = np.empty(n_work[0], A.dtype), np.empty(n_iwork[0], np.intc)
    if info[0]:
        raise LinAlgError(f"LAPACK's eigensolver failed with code {info[0]}")
    return values[: found[0]], columns[: found[0]].T


@cache
def _routine(module: Any, name: str, n_integers: int) -> Any:
    """Return a routine of SciPy, without the lock; None if it is of another kind."""
    capsule = module.__pyx_capi__[name]
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    kind = api.PyCapsule_GetName(capsule)
    if kind.count(b"int *") != n_integers:  # of another size, perhaps
        return None
    address = api.PyCapsule_GetPointer(capsule, kind)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * kind.count(b"*"))(address)
