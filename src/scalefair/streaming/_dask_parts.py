"""Parts that Dask keeps and computes, wherever its scheduler puts them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any
from uuid import uuid4

from numpy.typing import DTypeLike
from scipy import sparse

from scalefair._memory import array_bytes
from scalefair.kernels import one_thread, single_blas_thread
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
    """Parts as a Dask collection, computed by whatever scheduler is current.

    That is the `distributed.Client` that was made last, or else the threads of
    this process. A value that went with a lost worker is computed again, from the
    graph that it came from.

    The graph is written down here: each part of a product would cost as much again
    if delayed objects were made and merged.

    Parameters
    ----------
    graph : mapping
        Tasks, in the terms of Dask's graphs.
    keys : sequence of hashable
        Those of the parts.
    """

    def __init__(self, graph: Mapping[Any, Any], keys: Sequence[Any]) -> None:
        self._graph = dict(graph)
        self._keys = list(keys)

    @classmethod
    def of_delayed(cls, values: Sequence[Any]) -> DaskParts:
        """Return delayed values as parts."""
        # Those of one collection share a graph, of as many tasks as there are values.
        graphs = {id(graph): graph for graph in (v.__dask_graph__() for v in values)}
        tasks: dict[Any, Any] = {}
        for graph in graphs.values():
            tasks.update(graph)
        return cls(tasks, [value.key for value in values])

    def __len__(self) -> int:
        return len(self._keys)

    def map(
        self,
        function: Callable[..., Any],
        *args: Any,
        each: Sequence[Any] = (),
    ) -> DaskParts:
        task_type, ref, data = _node_types()
        graph = self._graph.copy()
        for column in each:
            graph.update(column._graph)
        name = f"{getattr(function, '__name__', 'part')}-{uuid4().hex}"
        shared = f"shared-{name}"
        graph[shared] = data(shared, args)  # sent once, however many tasks take it
        run = _Task(function)
        columns = zip(self._keys, *(column._keys for column in each), strict=True)
        keys = [(name, i) for i in range(len(self))]
        for key, (own, *others) in zip(keys, columns, strict=True):
            arguments = [ref(own), ref(shared), *map(ref, others)]
            graph[key] = task_type(key, run, *arguments)
        return DaskParts(graph, keys)

    def like(self, values: Iterable[Any]) -> DaskParts:
        _, _, data = _node_types()
        name = f"value-{uuid4().hex}"
        graph = {(name, i): data((name, i), value) for i, value in enumerate(values)}
        return DaskParts(graph, list(graph))

    def select(self, numbers: Sequence[int]) -> DaskParts:
        """Return some of the parts."""
        return DaskParts(self._graph, [self._keys[i] for i in numbers])

    def persist(self) -> DaskParts:
        dask = require_dask()
        with _large_graphs(), single_blas_thread():
            kept: DaskParts = dask.persist(self)[0]
        return kept

    def gather(self) -> list[Any]:
        dask = require_dask()
        with _large_graphs(), single_blas_thread():  # that of tasks in this process
            return list(dask.compute(self)[0])

    def stack(
        self, lengths: Sequence[int], shape: tuple[int, ...], dtype: DTypeLike
    ) -> Any:
        require_dask()
        array: Any = import_module("dask.array")
        Delayed: Any = import_module("dask.delayed").Delayed
        blocks = [
            array.from_delayed(Delayed(key, self._graph), (int(length), *shape), dtype)
            for key, length in zip(self._keys, lengths, strict=True)
        ]
        return array.concatenate(blocks)

    def reduce(self, combine: Callable[[Any, Any], Any]) -> Any:
        task_type, ref, _ = _node_types()
        run = _Combined(combine)
        graph, keys = self._graph.copy(), self._keys
        while len(keys) > 1:
            name = f"combined-{uuid4().hex}"
            groups = [keys[i : i + _FAN_IN] for i in range(0, len(keys), _FAN_IN)]
            keys = [(name, i) for i in range(len(groups))]
            for key, group in zip(keys, groups, strict=True):
                graph[key] = task_type(key, run, *map(ref, group))
        return DaskParts(graph, keys).gather()[0]

    # What Dask asks of a collection.

    def __dask_graph__(self) -> Mapping[Any, Any]:
        return self._graph

    def __dask_keys__(self) -> list[Any]:
        return self._keys

    def __dask_tokenize__(self) -> Any:
        return type(self).__name__, self._keys

    def __dask_postcompute__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return list, ()

    def __dask_postpersist__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _rebuilt, (self._keys,)

    @staticmethod
    def __dask_optimize__(graph: Any, keys: Any, **_: Any) -> Any:
        return graph

    @staticmethod
    def __dask_scheduler__(graph: Any, keys: Any, **options: Any) -> Any:
        from dask.threaded import get

        return get(graph, keys, **options)


class _Task:
    """A function that is called by one thread among others."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, part: Any, shared: tuple[Any, ...], *own: Any) -> Any:
        _register_sizes()
        with one_thread():
            return self._function(part, *shared, *own)


class _Combined:
    """Combine values two by two, in their order."""

    def __init__(self, combine: Callable[[Any, Any], Any]) -> None:
        self._combine = combine

    def __call__(self, total: Any, *values: Any) -> Any:
        for value in values:
            total = self._combine(total, value)
        return total


def _node_types() -> tuple[Any, Any, Any]:
    """Dask's types of a task, a reference to a key, and a value."""
    require_dask()
    from dask._task_spec import DataNode, Task, TaskRef

    return Task, TaskRef, DataNode


@functools.cache
def _register_sizes() -> None:
    """Tell Dask how large sparse arrays are: it moves what it takes for small."""
    from dask.sizeof import sizeof

    register: Any = sizeof.register
    register(sparse.sparray)(array_bytes)


def _rebuilt(graph: Mapping[Any, Any], keys: list[Any], **_: Any) -> DaskParts:
    """Parts of computed values or, from a cluster, futures."""
    _, ref, data = _node_types()
    return DaskParts(
        {
            key: value if isinstance(value, (ref, data)) else data(key, value)
            for key, value in ((key, graph[key]) for key in keys)
        },
        keys,
    )


def _large_graphs() -> AbstractContextManager[object]:
    """Context in which a large graph is no reason for a warning.

    Blocks of vectors travel inside the graph, from where they can be had again when
    a worker is lost.
    """
    if "distributed" not in sys.modules:  # its defaults are not there yet
        return nullcontext()
    options = {"distributed.admin.large-graph-warning-threshold": "1 PB"}
    context: AbstractContextManager[object] = require_dask().config.set(options)
    return context
