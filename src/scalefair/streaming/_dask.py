"""Dask collections as parts, kept and computed where Dask's scheduler puts them.

A table stays where its partitions are: functions are sent there, and only results of
the size of the answer come back. Columns (groups, labels, weights) are checked and
encoded there, too.
"""

from __future__ import annotations

import functools
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import Any, ClassVar
from uuid import uuid4

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from scalefair import __version__
from scalefair._entries import check_sample_weight, refuse_unread
from scalefair._groups import (
    Attribute,
    check_values,
    encode_attributes,
    encode_values,
    join_attributes,
)
from scalefair._memory import array_bytes
from scalefair.kernels import one_thread, single_blas_thread
from scalefair.streaming._parts import Parts


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
    """Parts as a Dask collection, computed by whatever scheduler is current."""

    # Tasks are added to the graph directly: delayed objects double a product's cost.
    # Id of the last client that computed parts, and address of its scheduler.
    _client: ClassVar[Any] = None

    def __init__(self, graph: Mapping[Any, Any], keys: Sequence[Any]) -> None:
        self._graph, self._keys = dict(graph), list(keys)

    @classmethod
    def of_delayed(cls, values: Sequence[Any]) -> DaskParts:
        """Return delayed values as parts."""
        # Values of one collection share a graph: read each graph once.
        graphs = {id(graph): graph for graph in (v.__dask_graph__() for v in values)}
        tasks = {key: graph[key] for graph in graphs.values() for key in graph}
        return cls(tasks, [value.key for value in values])

    def __len__(self) -> int:
        return len(self._keys)

    def map(
        self, function: Callable[..., Any], *args: Any, aligned: Sequence[Any] = ()
    ) -> DaskParts:
        task_type, ref, data = _node_types()
        # 1. The graph of this object and of what is aligned with it: tasks not yet run.
        graph = self._graph.copy()
        for column in aligned:
            graph.update(column._graph)
        name = f"{getattr(function, '__name__', 'part')}-{uuid4().hex}"
        shared = f"shared-{name}"
        graph[shared] = data(shared, args)  # sent once, whatever the number of tasks
        # 2. A task for each part, under a new name: Dask takes equal keys for equal
        #    values.
        run = functools.partial(_run, function)
        columns = zip(self._keys, *(column._keys for column in aligned), strict=True)
        keys = [(name, i) for i in range(len(self))]
        for key, (part, *values) in zip(keys, columns, strict=True):
            graph[key] = task_type(key, run, ref(part), ref(shared), *map(ref, values))
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
        # Tasks may run in threads of this process: BLAS stays on one thread in each.
        self._check_scheduler()
        with _large_graphs(), single_blas_thread():
            parts: DaskParts = require_dask().persist(self)[0]
        return parts

    def gather(self) -> list[Any]:
        self._check_scheduler()
        with _large_graphs(), single_blas_thread():
            values: list[Any] = require_dask().compute(self)[0]
        return values

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
        run = functools.partial(_combined, combine)
        graph, keys = self._graph.copy(), self._keys
        # A tree of tasks, each of which combines eight results, as Dask's split_every:
        # its shape depends on the number of parts only, and so does the rounding.
        while len(keys) > 1:
            name, children = f"combined-{uuid4().hex}", keys
            keys = [(name, i) for i in range(0, len(children), 8)]
            for key in keys:
                group = children[key[1] : key[1] + 8]
                graph[key] = task_type(key, run, *map(ref, group))
        return DaskParts(graph, keys).gather()[0]

    @classmethod
    def _check_scheduler(cls) -> None:
        """Raise if Dask would compute in this process what a cluster had.

        Without its client Dask takes the threads of this process, without a word.
        """
        scheduler = require_dask().base.get_scheduler(cls=cls)
        client: Any = getattr(scheduler, "__self__", None)
        if hasattr(client, "run_on_scheduler"):
            if cls._client is None or cls._client[0] != client.id:
                _check_versions(client)
                cls._client = client.id, client.scheduler.address
        elif cls._client is not None and scheduler is cls.__dask_scheduler__:
            raise RuntimeError(
                f"Parts were computed by the scheduler at {cls._client[1]}, whose "
                "client is closed. Make a new distributed.Client, and pass rows that "
                "the old one did not keep; or choose the threads of this process by "
                'dask.config.set(scheduler="threads").'
            )

    # The protocol of Dask collections: graph, keys, and what becomes of their results.

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


def _check_versions(client: Any) -> None:
    """Raise if the scheduler or a worker has no scalefair, or another one."""
    # A name is sent, not a function of ours: that could not be read without scalefair.
    # The pickle is the attribute `__version__` of `scalefair`.
    read_version = pickle.loads, b"cscalefair\n__version__\n."
    try:
        versions = {"the scheduler": client.run_on_scheduler(*read_version)}
    except ImportError as error:
        versions = {"the scheduler": error}
    versions |= client.run(*read_version, on_error="return")
    for address, remote in versions.items():
        if remote != __version__:
            raise RuntimeError(
                f"Scheduler and workers need scalefair {__version__}, as this process "
                f"has it; {address} has {remote!r}. Install the same there."
            )


def _run(
    function: Callable[..., Any], part: Any, shared: tuple[Any, ...], *values: Any
) -> Any:
    """Call a function in a task, whose kernels use one thread."""
    _register_sizes()  # once in each process
    with one_thread():
        return function(part, *shared, *values)


def _combined(combine: Callable[[Any, Any], Any], *values: Any) -> Any:
    """Combine some results in a task, the first with the second and so on."""
    return functools.reduce(combine, values)


def _node_types() -> tuple[Any, Any, Any]:
    """Dask's types of a task, a reference to a key, and a value."""
    require_dask()
    from dask._task_spec import DataNode, Task, TaskRef

    return Task, TaskRef, DataNode


@functools.cache
def _register_sizes() -> None:
    """Register the size of sparse arrays.

    Without it Dask believes them small, and moves them between workers too readily.
    """
    from dask.sizeof import sizeof

    sizeof.register(sparse.sparray)(array_bytes)  # type: ignore[no-untyped-call]


def _rebuilt(graph: Mapping[Any, Any], keys: list[Any], **_: Any) -> DaskParts:
    """Parts of computed values, or of futures on a cluster."""
    _, ref, data = _node_types()
    nodes = {key: graph[key] for key in keys}
    for key, node in nodes.items():
        nodes[key] = node if isinstance(node, (ref, data)) else data(key, node)
    return DaskParts(nodes, keys)


def _large_graphs() -> AbstractContextManager[object]:
    """Context without warnings of large graphs, which contain blocks of vectors."""
    options = {"distributed.admin.large-graph-warning-threshold": "1 PB"}
    if "distributed" not in sys.modules:  # its defaults are not set yet
        return nullcontext()
    context: AbstractContextManager[object] = require_dask().config.set(options)
    return context


def dask_rows(X: Any) -> DaskParts:
    """Return the partitions of a table, each with all columns."""
    if hasattr(type(X), "numblocks"):  # an array, whose chunks may cut the columns
        if X.ndim != 2:
            raise ValueError(
                f"X must have two dimensions, rows and features, got shape {X.shape}."
            )
        X = X.rechunk({1: -1})
    return DaskParts.of_delayed(_partitions(X))


def dask_column(
    values: Any, lengths: list[int] | None, name: str, *, several: bool = False
) -> DaskParts:
    """Partitions of a column, with a value for each row of X.

    Arrays of known chunks are cut at the `lengths` of the parts of X. With `several`
    they may have several columns.
    """
    if hasattr(type(values), "numblocks"):
        if values.ndim == 2:
            values = values.rechunk({1: -1})
            values = values[:, 0] if values.shape[1] == 1 else values
        # The number of rows is NaN if the chunks are of unknown lengths: each part is
        # checked when it is computed.
        m = values.shape[0]
        n_samples = m if lengths is None or np.isnan(m) else sum(lengths)
        if values.ndim not in (1, 1 + several) or (m != n_samples and not np.isnan(m)):
            raise ValueError(
                f"{name} must be one-dimensional with one value per sample, got shape "
                f"{values.shape} for {n_samples} samples."
            )
        if lengths is not None and not np.isnan(m):
            values = values.rechunk({0: tuple(lengths)})
    parts = _partitions(values)
    if lengths is not None and len(parts) != len(lengths):
        raise ValueError(
            f"{name} has {len(parts)} partitions and X has {len(lengths)}: cut both "
            "alike, for example by repartition."
        )
    return DaskParts.of_delayed(parts)


def column_names(X: Any) -> NDArray[np.object_] | None:
    """Return the names of the columns if all are strings, else None."""
    names = getattr(X, "columns", None)
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return np.asarray(names, dtype=object)


def _partitions(X: Any) -> list[Any]:
    """Delayed blocks of rows: those of a collection, or the elements of a list."""
    delayed = require_dask().delayed
    if isinstance(X, (list, tuple, np.ndarray)):
        blocks = X.ravel() if isinstance(X, np.ndarray) else X
        return [x if hasattr(x, "dask") else delayed(x) for x in blocks]
    if not hasattr(type(X), "to_delayed"):
        raise no_collection(X)
    parts = np.asarray(X.to_delayed(), dtype=object).ravel().tolist()
    is_bag = type(X).__module__.startswith("dask.bag")
    return [delayed(_stacked)(part) for part in parts] if is_bag else parts


def no_collection(X: Any) -> ValueError:
    """Return the error that something has no blocks of rows."""
    return ValueError(
        f"A {type(X).__name__} is no collection of rows: use a Dask array or data "
        "frame, or a list of delayed blocks of rows."
    )


def _stacked(blocks: Any) -> Any:
    """Stack the blocks of rows in a partition of a bag."""
    blocks = list(blocks)
    if not blocks:
        raise ValueError("A partition of the bag has no block of rows.")
    is_sparse = sparse.issparse(blocks[0])
    return sparse.vstack(blocks, format="csr") if is_sparse else np.concatenate(blocks)


# --- Columns: what a task does with the values of one part ---------------------------


@contextmanager
def naming_partition(partition: Any) -> Iterator[None]:
    """Add to an error which partition raised it."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"Partition {partition}: {error}") from error


def encode_part(
    values: Any, name: str, noun: str, attributes: str, location: tuple[int, int | None]
) -> tuple[list[str], list[Attribute]]:
    """Names of the columns, and attributes encoded by the values of this part alone.

    Only columns of groups have names. `location` is the number of the part, and its
    rows if they are known.
    """
    number, n_rows = location
    names: list[str] = []
    with naming_partition(number):
        if noun == "group":
            encoded = encode_attributes(values)
            names = [attribute.name for attribute in encoded]
            if attributes == "joint":
                encoded = [Attribute(name, *join_attributes(encoded))]
        else:
            values = check_values(values, name=name, noun=noun)
            encoded = [Attribute(name, *encode_values(values, name=name))]
    check_length(len(encoded[0].codes), n_rows, number, name, noun)
    return names, [a._replace(codes=small_codes(a.groups, a.codes)) for a in encoded]


def groups_of_part(encoded: tuple[list[str], list[Attribute]]) -> Any:
    """Names of the columns, and attributes with numbers of rows in place of codes.

    The groups of a part and their rows are all that the client needs to number the
    groups of all parts.
    """
    names, columns = encoded
    return names, [a._replace(codes=np.bincount(a.codes)) for a in columns]


def recode(encoded: Any, number: int, new_codes: NDArray[Any]) -> NDArray[Any]:
    """Codes of attribute `number` of a part, as they are numbered for all parts."""
    codes: NDArray[Any] = new_codes[encoded[1][number].codes]
    return codes


def check_length(
    n_values: int, n_rows: int | None, number: int, name: str, noun: str
) -> None:
    """Raise a ValueError for a partition that has not one value for each row."""
    if n_rows is not None and n_values != n_rows:
        raise ValueError(
            f"Partition {number} of {name} has {n_values} {noun}s for {n_rows} "
            "rows of X."
        )


def small_codes(groups: NDArray[Any], codes: NDArray[Any]) -> NDArray[Any]:
    """Codes in the smallest signed type that holds them.

    They are kept for as long as the rows: a byte a row in place of eight.
    """
    return codes.astype(np.min_scalar_type(-max(len(groups), 1)))


def weights_of_part(values: Any, location: tuple[int, int]) -> NDArray[np.float64]:
    """Return the weights of a part, which may all be 0."""
    number, n_rows = location
    check_length(len(values), n_rows, number, "sample_weight", "weight")
    with naming_partition(number):
        refuse_unread(values, "sample_weight")
        # A weight of 1 is appended, as the check refuses weights that are all 0: those
        # of one part may be.
        weights = check_sample_weight(np.append(values, 1), n_rows + 1)
    return np.ones(n_rows) if weights is None else weights[:-1]
