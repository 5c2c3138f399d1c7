"""BLAS and LAPACK without the interpreter's lock (GIL).

SciPy's functions hold the lock: for seconds no other thread runs, and interrupts wait.
NumPy's release it, but compute all eigenvectors, and use another copy of BLAS. For 30
ms after a call the threads of one copy spin on the processors that those of the other
need. Long calls therefore go to SciPy's copy, by pointers to its routines.

Work is estimated in nanoseconds on one thread: a factor per operation, times their
number.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, blas, cython_blas, cython_lapack, eigh

from scalefair._threads import long_blas_call

# Work in ns below which NumPy's functions are faster than a call by pointers.
MIN_POINTER_CALL_NS = 2e5


def add_gram(X: NDArray[np.float64], C: NDArray[np.float64]) -> None:
    """Add ``X.T @ X`` to the lower triangle of `C`; both are C-contiguous float64."""
    multiply = _routine(cython_blas, "dsyrk", 4)
    # Our rows are columns to BLAS: its upper triangle is our lower one.
    if multiply is None:
        blas.dsyrk(1.0, X.T, beta=1.0, c=C.T, overwrite_c=True)
        return
    # Fortran takes every argument by its address: scalars are arrays of one number.
    m, n = np.array([[X.shape[0]], [X.shape[1]]], np.intc)
    one = np.ones(1)
    arrays = [n, m, one, X, n, one, C, n]  # N, K, ALPHA, A, LDA, BETA, C, LDC
    with long_blas_call(0.03 * X.size * X.shape[1]):
        multiply(b"U", b"N", *(array.ctypes.data for array in arrays))


def matmul(A: NDArray[np.float64], B: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``A @ B`` for float64 matrices, C-contiguous or transposes of such."""
    multiply = _routine(cython_blas, "dgemm", 6)
    (m, depth), n = A.shape, B.shape[1]
    work = 0.04 * m * n * depth
    if multiply is None or work <= MIN_POINTER_CALL_NS:
        return np.asarray(A @ B)
    out = np.empty((m, n))
    one, zero = np.array([[1.0], [0.0]])
    # Our rows are columns to BLAS: it reads a C-contiguous matrix as its transpose, and
    # computes out.T = B.T @ A.T. The transpose of a C-contiguous matrix is passed as it
    # lies in memory, with the flag "T".
    transposes: list[bytes] = []
    factors: list[NDArray[Any]] = []
    for M in (B, A):
        is_by_rows = M.flags.c_contiguous
        transposes.append(b"N" if is_by_rows else b"T")
        M = np.ascontiguousarray(M if is_by_rows else M.T)
        # The leading dimension is the length of the rows in memory.
        factors += [M, np.array([M.shape[1]], np.intc)]
    sizes = list(np.array([[n], [m], [depth]], np.intc))
    # M, N, K, ALPHA, A, LDA, B, LDB, BETA, C, LDC
    arrays = [*sizes, one, *factors, zero, out, sizes[0]]
    with long_blas_call(work):
        multiply(*transposes, *(array.ctypes.data for array in arrays))
    return out


def eigenvalues(A: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return all eigenvalues of a symmetric matrix, ascending.

    Raises as `leading_eigh`.
    """
    values, _ = _eigh(np.array(A, np.float64, order="C"), 0)
    return values


def leading_eigh(
    A: NDArray[Any], k: int, *, overwrite: bool = False
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the `k` largest eigenpairs of a symmetric matrix, eigenvalues descending.

    With `overwrite` the entries of `A` may be lost. Raises ValueError if an entry is
    not finite and LinAlgError if LAPACK fails.
    """
    dtype = np.float32 if A.dtype == np.float32 else np.float64
    A = np.array(A, dtype, order="C", copy=None if overwrite else True)
    values, vectors = _eigh(A, k)
    return values[::-1], np.ascontiguousarray(vectors[:, ::-1])


def _eigh(A, k):
    """Leading eigenpairs, ascending; all eigenvalues alone if k = 0. Overwrites A."""
    if not np.isfinite(A).all():
        raise ValueError("the matrix has entries that are NaN or infinite")
    n, name = len(A), "ssyevr" if A.dtype == np.float32 else "dsyevr"
    solve, work = _routine(cython_lapack, name, 11), 0.1 * n**3
    diagonal = A.diagonal().copy()
    with long_blas_call(work):
        if solve is not None and work > MIN_POINTER_CALL_NS:
            values, vectors = _syevr(solve, A, k)
        elif k == 0:
            return np.linalg.eigvalsh(A), A[:, :0]
        else:
            bounds = n - k, n - 1
            values, vectors = eigh(A, subset_by_index=bounds, check_finite=False)
        # All pairs by divide and conquer, where fewer were found than asked for.
        if values.size < k:
            # LAPACK's bisection may miss eigenvalues that are equal up to rounding. It
            # has overwritten the diagonal and the other triangle, but not the lower one
            # of the rows, which NumPy reads.
            np.fill_diagonal(A, diagonal)
            values, vectors = np.linalg.eigh(A)
    return values[-k:], vectors[:, -k:]  # all values for k = 0: -0 is the start


def _syevr(solve, A, k):
    """Call LAPACK's syevr by its pointer, for the last k eigenpairs or all values."""
    n, n_pairs = len(A), k or len(A)
    # JOBZ: vectors or not. RANGE: by indices or all. UPLO: the triangle that is read.
    job, subset, triangle = (b"V", b"I", b"L") if k else (b"N", b"A", b"L")
    values, vectors = np.empty(n, A.dtype), np.empty((k, n), A.dtype)
    # `vectors` has a row for each pair, which is a column to LAPACK. `support` takes
    # the first and the last nonzero entry of each.
    support = np.empty(2 * n_pairs, np.intc)
    size, first, n_computed, info = np.array([[n], [n - k + 1], [0], [0]], np.intc)
    zero = np.zeros(1, A.dtype)  # for bounds that are not used, and the tolerance
    # Workspaces: (64 + 6) n numbers, for blocks of 64 columns, and 10 n integers.
    n_work, n_iwork = np.array([[70 * n], [10 * n]], np.intc)
    work, iwork = np.empty(70 * n, A.dtype), np.empty(10 * n, np.intc)
    # N, A, LDA, VL, VU, IL, IU, ABSTOL, M, W, Z
    arrays = [size, A, size, zero, zero, first, size, zero, n_computed, values, vectors]
    # LDZ, ISUPPZ, WORK, LWORK, IWORK, LIWORK, INFO
    arrays += [size, support, work, n_work, iwork, n_iwork, info]
    solve(job, subset, triangle, *(array.ctypes.data for array in arrays))
    if info[0]:
        raise LinAlgError(f"LAPACK's eigensolver failed with code {info[0]}")
    return values[: n_computed[0]], vectors[: n_computed[0]].T


@cache
def _routine(module, name, n_integers):
    """Return a routine of SciPy by its pointer.

    None if not all of its `n_integers` integer arguments have the type int: a build
    with 64-bit integers.
    """
    # SciPy exports its routines to Cython as capsules, named by their C signature.
    capsule = module.__pyx_capi__[name]
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    # Such as b"void (char *, int *, ..., double *, ...)".
    signature = api.PyCapsule_GetName(capsule)
    if signature.count(b"int *") != n_integers:
        return None
    # Calls by ctypes release the interpreter's lock, unlike those of SciPy's wrappers.
    address = api.PyCapsule_GetPointer(capsule, signature)
    n_pointers = signature.count(b"*")
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_pointers)(address)
