"""Fewer threads where there is less work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numba

__all__ = ["at_most_threads"]


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
