"""Compilation of kernels, and the number of threads of kernels and of BLAS.

Numba runs parallel loops on one of three libraries, its threading layers.

- TBB is preferred. A thread that waits does not hold up the others, which matters on
  a busy machine. Several threads may call kernels at once, and so may a forked process.
- GNU OpenMP waits for all threads at the end of each loop. It ends a forked process.
- "workqueue" ends the process if two threads call kernels at once.
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
from contextlib import (
    AbstractContextManager,
    ContextDecorator,
    contextmanager,
    nullcontext,
    suppress,
)
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any, TypeVar

import numba
from threadpoolctl import ThreadpoolController

# Nanoseconds of work for each thread. On an idle machine two threads of TBB need 40 us
# for what one does in 60 us. On a busy machine the other layers wait some milliseconds
# for a thread that has no processor.
_NS_PER_THREAD = {"tbb": 30e3, "omp": 150e3, "workqueue": 150e3}
# Nanoseconds of a call of BLAS from which on it uses all threads. They spin for some
# milliseconds after the call, which would slow down short calls.
_MIN_BLAS_NS = 30e6

_Function = TypeVar("_Function", bound=Callable[..., Any])


def cached_njit(**options: Any) -> Callable[[_Function], _Function]:
    """Return `numba.njit` with a cache if there is a folder for it, else without.

    Not in the temporary folder: other users could put code there.
    """

    def decorate(function: _Function) -> _Function:
        try:
            compiled: _Function = numba.njit(cache=True, **options)(function)
        except RuntimeError:
            # Neither the folder of the package nor HOME or NUMBA_CACHE_DIR is writable.
            compiled = numba.njit(**options)(function)
        return compiled

    return decorate


def parallel(
    work: Callable[..., float], *, blas: bool = False
) -> Callable[[_Function], _Function]:
    """Compile a function with a parallel loop; its threads follow the work.

    `work` has the arguments of the function, and returns the estimated nanoseconds on
    one thread. With `blas` the loop calls BLAS, which is then limited to one thread.
    """

    def decorate(function: _Function) -> _Function:
        compiled = cached_njit(parallel=True, nogil=True)(function)

        @functools.wraps(function)
        def run(*args: Any) -> Any:
            # 1. As many threads as the work pays for.
            max_threads = numba.get_num_threads()  # starts the threads if need be
            layer: str = numba.threading_layer()  # type: ignore[attr-defined]
            if _is_fork and layer == "omp" and sys.platform == "linux":
                raise RuntimeError(
                    "This process was forked from one in which kernels had run on the "
                    "threads of GNU OpenMP, which ends such processes. Start processes "
                    'by multiprocessing.get_context("forkserver") or "spawn", or '
                    "joblib; or install tbb, whose threads can be forked."
                )
            n_threads = int(work(*args) / _NS_PER_THREAD[layer])
            n_threads = max(1, min(max_threads, n_threads))
            if n_threads < max_threads:
                numba.set_num_threads(n_threads)
            # 2. One kernel at a time where the layer needs it; BLAS on one thread.
            try:
                with (
                    _KERNEL_LOCK if layer == "workqueue" else _NO_LIMIT,
                    _BLAS_LIMIT if blas else _NO_LIMIT,
                ):
                    return compiled(*args)
            # 3. The number of threads is that of the caller again.
            finally:
                if n_threads < max_threads:
                    numba.set_num_threads(max_threads)

        return run  # type: ignore[return-value]

    return decorate


@contextmanager
def one_thread() -> Iterator[None]:
    """Run kernels on the calling thread only, in one of several Python threads.

    The threads of BLAS are not limited: in OpenBLAS only the thread that set a limit
    can lift it. Code that starts threads enters `single_blas_thread` before.
    """
    n_threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        yield
    finally:
        numba.set_num_threads(n_threads)


def single_blas_thread() -> _SingleBlasThread:
    """Context, or decorator, in which BLAS runs on one thread (enters in microseconds).

    For short products and for those before a kernel: threads of BLAS spin for some
    milliseconds when done. The limit is that of the process: it ends with the last
    context of any thread.
    """
    return _BLAS_LIMIT


def long_blas_call(work: float = math.inf) -> AbstractContextManager[None]:
    """Context of a call of BLAS or LAPACK within `single_blas_thread`.

    A call of enough `work`, in nanoseconds on one thread, uses all threads, unless
    another Python thread is within `single_blas_thread`, too.
    """
    return _BLAS_LIMIT.lifted() if work >= _MIN_BLAS_NS else _NO_LIMIT


class _SingleBlasThread(ContextDecorator):
    """Limit of BLAS to one thread: counts the contexts, in all and in this thread."""

    # Invariant: the limit is set while `_depth` > 0, unless it is lifted.

    def __init__(self) -> None:
        self._lock = threading.Lock()  # of all that follows
        self._depth = 0  # contexts of all threads
        self._in_thread = threading.local()  # its `depth`: contexts of this thread
        self._limit: Any = None
        self._is_lifted = False

    def __enter__(self) -> None:
        self._in_thread.depth = getattr(self._in_thread, "depth", 0) + 1
        with self._lock:
            if self._depth == 0:  # the first context sets the limit
                self._limit = _blas_controller().limit(limits=1)
            self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._in_thread.depth -= 1
        with self._lock:
            self._depth -= 1
            if self._depth == 0:  # the last one removes it
                self._limit.restore_original_limits()
                self._limit = None

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """Suspend the limit, if this thread is the only one that set it."""
        with self._lock:
            # All contexts are of this thread, and no caller has lifted the limit.
            is_alone = 0 < self._depth == getattr(self._in_thread, "depth", 0)
            is_lifter = is_alone and not self._is_lifted
            if is_lifter:
                self._limit.restore_original_limits()
                self._is_lifted = True
        try:
            yield
        finally:
            if is_lifter:
                with self._lock:
                    self._limit = _blas_controller().limit(limits=1)
                    self._is_lifted = False

    def reset(self) -> None:
        """Forget the contexts of the parent process, after a fork."""
        self.__init__()  # type: ignore[misc]


@functools.cache
def _blas_controller() -> ThreadpoolController:
    """Return the controller of the libraries of BLAS that are loaded."""
    # np.dot in kernels calls SciPy's BLAS, which must be loaded to be limited.
    importlib.import_module("scipy.linalg.cython_blas")
    return ThreadpoolController().select(user_api="blas")


def _find_tbb() -> None:
    """Load the library of the package `tbb`, which is not on the search path."""
    names = {"linux": "libtbb.so.12", "win32": "tbb12.dll", "darwin": "libtbb.12.dylib"}
    with suppress(PackageNotFoundError, OSError):
        for file in distribution("tbb").files or ():
            if file.name == names.get(sys.platform):
                ctypes.CDLL(os.fspath(file.locate()))
                return
    # GNU OpenMP reads this when Numba loads it: a waiting thread then sleeps after some
    # microseconds instead of milliseconds, and leaves the processor to others.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")


def _after_fork() -> None:
    """Set the state of a forked process: no contexts, and perhaps no kernels."""
    global _is_fork
    _BLAS_LIMIT.reset()
    with suppress(ValueError):  # no kernel had run
        _is_fork = bool(numba.threading_layer())  # type: ignore[attr-defined]


_NO_LIMIT = nullcontext()
_BLAS_LIMIT = _SingleBlasThread()
_KERNEL_LOCK = threading.RLock()  # for the layer that runs one kernel at a time
_is_fork = False

_find_tbb()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
