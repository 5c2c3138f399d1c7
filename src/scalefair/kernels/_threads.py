"""Threads of kernels and of BLAS: which library runs them, and how many work.

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
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any, TypeVar

import numba
from threadpoolctl import ThreadpoolController

# Nanoseconds of work that are worth another thread. Starting one takes 5 to 20 us on an
# idle machine, and on a busy one a slice of time whenever it is not there to end.
_WORTH = 100_000.0

_Function = TypeVar("_Function", bound=Callable[..., Any])


def parallel(
    work: Callable[..., float], *, blas: bool = False
) -> Callable[[_Function], _Function]:
    """Compile a function with a parallel loop, and run it on as many threads as pay.

    Parameters
    ----------
    work : callable
        Takes what the function takes; returns about how many nanoseconds one thread
        needs. Little work stays on the calling thread.
    blas : bool, default=False
        Whether the loop calls BLAS, which is then held to one thread.
    """

    def decorate(function: _Function) -> _Function:
        compiled = numba.njit(parallel=True, cache=True, nogil=True)(function)

        @functools.wraps(function)
        def run(*args: Any) -> Any:
            turn = _turn()
            before = numba.get_num_threads()
            n_threads = max(1, min(before, int(work(*args) / _WORTH)))
            if n_threads < before:
                numba.set_num_threads(n_threads)
            try:
                with turn, single_blas_thread() if blas else _FREE:
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
    """Context in which BLAS runs on one thread (enters in microseconds).

    The number is one of the whole process: whoever leaves last sets it back.
    """
    return _SINGLE


class _SingleBlasThread:
    """Counts who is inside, in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._n_inside == 0:
                self._limit = _blas_controller().limit(limits=1)
            self._n_inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0:
                self._limit.restore_original_limits()
                self._limit = None

    def reset(self) -> None:
        """Forget the threads of the process that this one is a fork of."""
        self.__init__()  # type: ignore[misc]


@functools.cache
def _blas_controller() -> ThreadpoolController:
    # np.dot in kernels calls SciPy's BLAS: only what is loaded can be held back.
    importlib.import_module("scipy.linalg.cython_blas")
    return ThreadpoolController().select(user_api="blas")


def _turn() -> Any:
    """Return what a kernel holds while it runs; raise if it would end the process."""
    if _forked_from == "omp" and sys.platform == "linux":
        raise RuntimeError(
            "This process was forked from one in which kernels had run on the threads "
            "of GNU OpenMP, which ends such processes. Start processes by "
            'multiprocessing.get_context("forkserver") or "spawn", or joblib; or '
            "install tbb, whose threads can be forked."
        )
    return _TURN if _layer() == "workqueue" else _FREE


def _layer() -> str:
    numba.get_num_threads()  # starts the threads if they have not been
    layer: str = numba.threading_layer()  # type: ignore[attr-defined]
    return layer


def _find_tbb() -> None:
    """Load the library of the package `tbb`: no loader looks where pip puts it."""
    names = {"linux": "libtbb.so.12", "win32": "tbb12.dll", "darwin": "libtbb.12.dylib"}
    with suppress(PackageNotFoundError, OSError):
        for file in distribution("tbb").files or ():
            if file.name == names.get(sys.platform):
                ctypes.CDLL(os.fspath(file.locate()))  # type: ignore[arg-type]


def _after_fork() -> None:
    global _forked_from
    _SINGLE.reset()
    with suppress(ValueError):  # no kernel had run
        _forked_from = numba.threading_layer()  # type: ignore[attr-defined]


_FREE = nullcontext()
_SINGLE = _SingleBlasThread()
_TURN = threading.RLock()
_forked_from = ""

_find_tbb()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
