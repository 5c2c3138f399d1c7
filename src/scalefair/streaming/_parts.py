"""Parts of something too large for one memory: functions go to the parts."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

# Called after each part that was read, with the numbers of parts done and of all parts.
Progress = Callable[[int, int], object]


class Parts(ABC):
    """Parts in an order, each of which fits in memory; functions go to them.

    Read from a file one after the other, or kept by the workers of a cluster.

    Examples
    --------
    See `LocalParts`.
    """

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of parts."""

    @abstractmethod
    def map(
        self, function: Callable[..., Any], *args: Any, aligned: Sequence[Any] = ()
    ) -> Parts:
        """Return the parts ``function(part, *args, *[other[i] for other in aligned])``.

        Parameters
        ----------
        function : callable
            Of the module level, to be sent to other processes when a result is wanted.
        *args : object
            The same for all parts.
        aligned : sequence of Parts
            Of the same class and number of parts; part i of each goes to part i.
        """

    @abstractmethod
    def like(self, values: Iterable[Any]) -> Parts:
        """Return parts of this class with these values, to be `aligned` in `map`.

        Parameters
        ----------
        values : iterable
            A value for each part.
        """

    @abstractmethod
    def persist(self) -> Parts:
        """Return the same parts, computed and kept where there is room for it."""

    def keep(self) -> Parts:
        """Return the same parts, computed once and kept, in any case.

        Returns
        -------
        Parts
            Kept as by `persist`; parts that are read are in the memory of this process.
        """
        return self.persist()

    @abstractmethod
    def gather(self) -> list[Any]:
        """Return all parts in a list, in the memory of this process."""

    @abstractmethod
    def stack(
        self, lengths: Sequence[int], shape: tuple[int, ...], dtype: DTypeLike
    ) -> Any:
        """Return parts that are arrays as one: an ndarray, or a lazy Dask array.

        Parameters
        ----------
        lengths : sequence of int
            Entries of each part along the first axis.
        shape : tuple of int
            The other axes.
        dtype : dtype
            Type of all parts.
        """

    @abstractmethod
    def reduce(self, combine: Callable[[Any, Any], Any]) -> Any:
        """Return all parts combined, always in pairs in the same order.

        Parameters
        ----------
        combine : callable
            Takes two parts and returns a new one, associative up to rounding.
        """


class LocalParts(Parts):
    """Parts that are read one after the other, anew each time they are needed.

    Parameters
    ----------
    read : callable
        Returns an iterator over the parts, the same each time.
    n_parts : int
        Number of parts.
    progress : callable or None, default=None
        Called as ``progress(n_done, n_parts)`` after each part.

    Examples
    --------
    >>> import operator
    >>> from scalefair.streaming import LocalParts
    >>> LocalParts([3, 4].__iter__, 2).map(operator.add, 10).gather()
    [13, 14]
    """

    def __init__(
        self,
        read: Callable[[], Iterable[Any]],
        n_parts: int,
        progress: Progress | None = None,
    ) -> None:
        self._read, self._n_parts, self._progress = read, n_parts, progress

    def __len__(self) -> int:
        return self._n_parts

    def __iter__(self) -> Iterator[Any]:
        return iter(self._read())

    def map(
        self, function: Callable[..., Any], *args: Any, aligned: Sequence[Any] = ()
    ) -> LocalParts:
        read = functools.partial(_mapped, self, function, args, aligned)
        return LocalParts(read, self._n_parts, self._progress)

    def like(self, values: Iterable[Any]) -> LocalParts:
        values = list(values)
        return LocalParts(values.__iter__, len(values))

    def persist(self) -> LocalParts:
        return self

    def keep(self) -> LocalParts:
        return self.like(self.gather())

    def gather(self) -> list[Any]:
        return list(self._with_progress())

    def stack(
        self, lengths: Sequence[int], shape: tuple[int, ...], dtype: DTypeLike
    ) -> NDArray[Any]:
        out = np.empty((sum(lengths), *shape), dtype)
        start = 0
        for part, length in zip(self._with_progress(), lengths, strict=True):
            out[start : start + length] = part
            start += length
        return out

    def reduce(self, combine: Callable[[Any, Any], Any]) -> Any:
        return functools.reduce(combine, self._with_progress())

    def _with_progress(self) -> Iterator[Any]:
        """Yield the parts; the callback is told of each when it has been used."""
        for i, part in enumerate(self):
            yield part
            if self._progress is not None:
                self._progress(i + 1, self._n_parts)


def _mapped(
    parts: LocalParts,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    aligned: Sequence[Any],
) -> Iterator[Any]:
    """Call a function on the parts as they are read."""
    for part, *values in zip(parts, *aligned, strict=True):
        yield function(part, *args, *values)
