"""Parts of something too large for one memory: functions go to the parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

__all__ = ["LocalParts", "Parts", "Progress"]

# Told after each part that was read: how many so far, and of how many.
Progress = Callable[[int, int], object]


class Parts(ABC):
    """Parts in an order, each of which fits in memory; functions go to them.

    Where the parts are and who calls the functions is the matter of a subclass: read
    from a file one after the other, or kept by the workers of a cluster.
    """

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of parts."""

    @abstractmethod
    def map(
        self,
        function: Callable[..., Any],
        *args: Any,
        each: Sequence[Any] = (),
    ) -> Parts:
        """Return the parts ``function(part, *args, *[column[i] for column in each])``.

        Nothing is computed before the result is asked for.

        Parameters
        ----------
        function : callable
            Of the module level, so that it can be sent to other processes.
        *args : object
            The same for all parts.
        each : sequence of Parts
            Columns: parts of the same class and number, one of which each call takes
            as a further argument.
        """

    @abstractmethod
    def like(self, values: Iterable[Any]) -> Parts:
        """Return parts of this class, in number too, whose values are given here."""

    @abstractmethod
    def persist(self) -> Parts:
        """Return the same parts, computed and kept where there is room for it."""

    @abstractmethod
    def gather(self) -> list[Any]:
        """Return all parts, here."""

    @abstractmethod
    def reduce(self, combine: Callable[[Any, Any], Any]) -> Any:
        """Return all parts combined, the same two by two whoever computes it.

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
        Called as ``progress(n_done, n_parts)`` after each part of a pass.
    """

    def __init__(
        self,
        read: Callable[[], Iterable[Any]],
        n_parts: int,
        progress: Progress | None = None,
    ) -> None:
        self._read = read
        self._n_parts = n_parts
        self._progress = progress

    def __len__(self) -> int:
        return self._n_parts

    def __iter__(self) -> Iterator[Any]:
        return iter(self._read())

    def map(
        self,
        function: Callable[..., Any],
        *args: Any,
        each: Sequence[Any] = (),
    ) -> LocalParts:
        def read() -> Iterator[Any]:
            for part, *own in zip(self, *each, strict=True):
                yield function(part, *args, *own)

        return LocalParts(read, self._n_parts, self._progress)

    def like(self, values: Iterable[Any]) -> LocalParts:
        kept = list(values)
        return LocalParts(lambda: kept, len(kept))

    def persist(self) -> LocalParts:
        return self

    def gather(self) -> list[Any]:
        return list(self._watched())

    def reduce(self, combine: Callable[[Any, Any], Any]) -> Any:
        parts = self._watched()
        total = next(parts)
        for part in parts:
            total = combine(total, part)
        return total

    def _watched(self) -> Iterator[Any]:
        for i, part in enumerate(self):
            yield part
            if self._progress is not None:
                self._progress(i + 1, self._n_parts)
