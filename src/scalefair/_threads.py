"""Compilation of kernels, and threads, of theirs and of BLAS: which, and how many.

Numba runs parallel loops on one of three libraries, its threading layers. TBB comes
first: a thread that waits does not hold up the others, which on a busy machine is most
of the time of a small fit; several threads may call kernels at once; and a forked
process may. GNU OpenMP waits at the end of each loop for all threads, and ends a forked
process; "workqueue" ends the process when two threads call kernels at once.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any, TypeVar

import numba
from threadpoolctl import ThreadpoolController

# Nanoseconds of work that are worth another thread: on an idle machine two threads of
# TBB take 40 us for what takes one 60 us. On a busy machine the other layers wait for
# a slice of time, some milliseconds, whenever a thread is not there to end.
_WORTH = {"tbb": 30e3, "omp": 150e3, "workqueue": 150e3}
# Nanoseconds of a call of BLAS that are worth all its threads: they spin for some
# milliseconds when they have done, and others wait for them.
_LONG = 30e6

_Function = TypeVar("_Function", bound=Callable[..., Any])


def cached_njit(**options: Any) -> Callable[[_Function], _Function]:
    """Return `numba.njit` with a cache where there is a folder for it, else without.

    In a folder of ours among the temporary ones others could put code for us to run.
    """

    def decorate(function: _Function) -> _Function:
        try:
            compiled: _Function = numba.njit(cache=True, **options)(function)
        except RuntimeError:  # neither the package, nor HOME, nor NUMBA_CACHE_DIR
            compiled = numba.njit(**options)(function)
        return compiled

    return decorate


def parallel(
    work: Callable[..., float], *, blas: bool = False
) -> Callable[[_Function], _Function]:
    """Compile a function with a parallel loop, and run it on as many threads as pay.

    `work` takes what the function takes, and returns about how many nanoseconds one
    thread needs; with `blas` the loop calls BLAS, which is then held to one thread.
    """

    def decorate(function: _Function) -> _Function:
        compiled = cached_njit(parallel=True, nogil=True)(function)

        @functools.wraps(function)
        def run(*args: Any) -> Any:
            before = numba.get_num_threads()  # starts the threads if need be
            layer: str = numba.threading_layer()  # type: ignore[attr-defined]
            _refuse_fork(layer)
            n_threads = max(1, min(before, int(work(*args) / _WORTH[layer])))
            if n_threads < before:
                numba.set_num_threads(n_threads)
            try:
                with (
                    _TURN if layer == "workqueue" else _FREE,
                    _SINGLE if blas else _FREE,
                ):
                    return compiled(*args)
            finally:
                if n_threads < before:
                    numba.set_num_threads(before)

        return run  # type: ignore[return-value]

    return decorate


@contextmanager
def one_thread() -> Iterator[None]:
    """Run kernels on the calling thread, one of many that work at a time.

    BLAS is not held back: OpenBLAS does not take its old number of threads back from
    another thread than the one that set it. Whoever starts the threads does it, by
    `single_blas_thread`.
    """
    n_threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        yield
    finally:
        numba.set_num_threads(n_threads)


def single_blas_thread() -> _SingleBlasThread:
    """Context, or decorator, in which BLAS runs on one thread (enters in microseconds).

    For short products, and where kernels follow: threads of BLAS spin for milliseconds
    when done. The number is the process's: whoever leaves last sets it back.
    """
    return _SINGLE


def long_blas_call(work: float = math.inf) -> AbstractContextManager[None]:
    """Context of a call of BLAS or LAPACK inside of `single_blas_thread`.

    If it takes so many nanoseconds on one thread that others are worth waking, all of
    them work; unless another thread of Python wants BLAS on one.
    """
    return _SINGLE.lifted() if work >= _LONG else _FREE


class _SingleBlasThread:
    """Counts who is inside, in any thread and in each."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0
        self._own = threading.local()
        self._limit: Any = None
        self._is_lifted = False

    def __call__(self, function: _Function) -> _Function:
        @functools.wraps(function)
        def held(*args: Any, **options: Any) -> Any:
            with self:
                return function(*args, **options)

        return held  # type: ignore[return-value]

    def __enter__(self) -> None:
        self._own.depth = getattr(self._own, "depth", 0) + 1
        with self._lock:
            if self._n_inside == 0:
                self._limit = _blas_controller().limit(limits=1)
            self._n_inside += 1

    def __exit__(self, *_: object) -> None:
        self._own.depth -= 1
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0:
                self._limit.restore_original_limits()
                self._limit = None

    @contextmanager
    def lifted(self) -> Iterator[None]:
        with self._lock:
            alone = 0 < self._n_inside == getattr(self._own, "depth", 0)
            lifted = alone and not self._is_lifted
            if lifted:
                self._limit.restore_original_limits()
                self._is_lifted = True
        try:
            yield
        finally:
            if lifted:
                with self._lock:
                    self._limit = _blas_controller().limit(limits=1)
                    self._is_lifted = False

    def reset(self) -> None:
        """Forget the threads of the process that this one is a fork of."""
        self.__init__()  # type: ignore[misc]


@functools.cache
def _blas_controller() -> ThreadpoolController:
    # np.dot in kernels calls SciPy's BLAS: only what is loaded can be held back.
    importlib.import_module("scipy.linalg.cython_blas")
    return ThreadpoolController().select(user_api="blas")


def _refuse_fork(layer: str) -> None:
    """Raise in a process that a kernel would end."""
    if _is_fork and layer == "omp" and sys.platform == "linux":
        raise RuntimeError(
            "This process was forked from one in which kernels had run on the threads "
            "of GNU OpenMP, which ends such processes. Start processes by "
            'multiprocessing.get_context("forkserver") or "spawn", or joblib; or '
            "install tbb, whose threads can be forked."
        )


def _find_tbb() -> None:
    """Load the library of the package `tbb`: no loader looks where pip puts it."""
    names = {"linux": "libtbb.so.12", "win32": "tbb12.dll", "darwin": "libtbb.12.dylib"}
    with suppress(PackageNotFoundError, OSError):
        for file in distribution("tbb").files or ():
            if file.name == names.get(sys.platform):
                ctypes.CDLL(os.fspath(file.locate()))
                return
    # GNU OpenMP reads this when Numba loads it: a thread that waits for its next kernel
    # sleeps after microseconds, not milliseconds, that others want the processor for.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")


def _after_fork() -> None:
    global _is_fork
    _SINGLE.reset()
    with suppress(ValueError):  # no kernel had run
        _is_fork = bool(numba.threading_layer())  # type: ignore[attr-defined]


_FREE = nullcontext()
_SINGLE = _SingleBlasThread()
_TURN = threading.RLock()
_is_fork = False

_find_tbb()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
