"""Parts that Dask keeps and computes, wherever its scheduler puts them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from numpy.typing import DTypeLike

from scalefair.kernels import one_thread
from scalefair.streaming._parts import Parts

__all__ = ["DaskParts", "require_dask"]

# Partial results that one task adds up.
_FAN_IN = 8
def require_dask() -> Any:
    """Import Dask, or say how to get it."""
    try:
        import dask
    except ImportError as error:
        raise ImportError(
            'Dask collections need Dask: pip install "scalefair[dask]".'
        ) from error
    return dask


class DaskParts(Parts):
    """Parts as delayed values, computed by whatever scheduler is current.

    That is the `distributed.Client` that was made last, or else the threads of
    this process. A value that went with a lost worker is computed again, from the
    graph that it came from.

    Parameters
    ----------
    values : sequence of dask.delayed.Delayed
        The parts.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = list(values)

    @property
    def is_remote(self) -> bool:
        return "distributed" in sys.modules and any(
            type(each).__module__.startswith("distributed")
            for value in self._values[:1]
            for each in dict(value.dask).values()
        )

    def __len__(self) -> int:
        return len(self._values)

    def map(
        self,
        function: Callable[..., Any],
        *args: Any,
        each: Sequence[Any] = (),
    ) -> DaskParts:
        task = _delayed(_Task(function))
        shared = _delayed(args)  # one value, which all tasks refer to
        columns = [column._values for column in each]
        return DaskParts(
            [
                task(value, shared, *own)
                for value, *own in zip(self._values, *columns, strict=True)
            ]
        )

    def like(self, values: Iterable[Any]) -> DaskParts:
        return DaskParts([_delayed(value) for value in values])

    def select(self, numbers: Sequence[int]) -> DaskParts:
        """Return some of the parts."""
        return DaskParts([self._values[i] for i in numbers])

    def persist(self) -> DaskParts:
        dask = require_dask()
        with _large_graphs():
            return DaskParts(dask.persist(*self._values))

    def gather(self) -> list[Any]:
        dask = require_dask()
        with _large_graphs():
            return list(dask.compute(*self._values))

    def stack(
        self, lengths: Sequence[int], shape: tuple[int, ...], dtype: DTypeLike
    ) -> Any:
        require_dask()
        from dask import array

        return array.concatenate(
            [
                array.from_delayed(value, (int(length), *shape), dtype)
                for value, length in zip(self._values, lengths, strict=True)
            ]
        )

    def reduce(self, combine: Callable[[Any, Any], Any]) -> Any:
        task = _delayed(_Combined(combine))
        values = self._values
        while len(values) > 1:
            values = [
                task(values[i : i + _FAN_IN]) for i in range(0, len(values), _FAN_IN)
            ]
        return DaskParts(values).gather()[0]


class _Task:
    """A function that is called by one thread among others."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, part: Any, shared: tuple[Any, ...], *own: Any) -> Any:
        with one_thread():
            return self._function(part, *shared, *own)


class _Combined:
    """Combine values two by two, in their order."""

    def __init__(self, combine: Callable[[Any, Any], Any]) -> None:
        self._combine = combine

    def __call__(self, values: list[Any]) -> Any:
        total = values[0]
        for value in values[1:]:
            total = self._combine(total, value)
        return total


def _large_graphs() -> AbstractContextManager[object]:
    """Context in which a large graph is no reason for a warning.

    Blocks of vectors travel inside the graph, from where they can be had again when
    a worker is lost.
    """
    if "distributed" not in sys.modules:  # its defaults are not there yet
        return nullcontext()
    options = {"distributed.admin.large-graph-warning-threshold": "1 PB"}
    return require_dask().config.set(options)


def _delayed(value: Any) -> Any:
    """Delayed value that is sent once, as it is, however many tasks take it."""
    return require_dask().delayed(value, pure=False, traverse=False)
