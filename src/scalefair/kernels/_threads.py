"""Fewer threads: where there is less work, or where others share the processor."""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numba
from threadpoolctl import ThreadpoolController

__all__ = ["at_most_threads", "one_thread", "single_blas_thread"]


@contextmanager
def at_most_threads(n_parts: int) -> Iterator[None]:
    """Run kernels on no more threads than there are parts of work.

    A thread without a part is waited for all the same, which on a busy machine takes
    many times as long as the work.
    """
    n_threads = numba.get_num_threads()
    numba.set_num_threads(max(1, min(n_threads, n_parts)))
    try:
        yield
    finally:
        numba.set_num_threads(n_threads)


@contextmanager
def one_thread() -> Iterator[None]:
    """Run kernels on the calling thread, one of many that work at a time.

    BLAS is not held back: OpenBLAS does not take its old number of threads back from
    another thread than the one that set it. Whoever starts the threads does it, by
    `single_blas_thread`.

    Numba's threading layer "workqueue" aborts the process if two threads call
    kernels at once: there they take turns.
    """
    with at_most_threads(1):
        if numba.threading_layer() != "workqueue":  # type: ignore[attr-defined]
            yield
        else:
            with _TURN:
                yield


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


@functools.cache
def _blas_controller() -> ThreadpoolController:
    # np.dot in kernels calls SciPy's BLAS: only what is loaded can be held back.
    importlib.import_module("scipy.linalg.cython_blas")
    return ThreadpoolController().select(user_api="blas")


_SINGLE = _SingleBlasThread()
_TURN = threading.RLock()
