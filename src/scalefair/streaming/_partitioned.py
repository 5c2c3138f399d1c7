"""Rows in parts: readers of files, Dask collections, and what they have in common."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from scalefair._groups import (
    Attribute,
    check_are_groups,
    check_values,
    compared_attributes,
    encode_attributes,
    encode_values,
    join_attributes,
    warn_few_rows,
)
from scalefair._messages import listed
from scalefair.streaming._blocks import check_rows
from scalefair.streaming._dask import (
    DaskParts,
    column_names,
    dask_column,
    dask_rows,
    is_dask,
    require_dask,
)
from scalefair.streaming._parts import LocalParts, Parts, Progress


class RowReader(ABC):
    """Rows in a file, read block by block, as often as they are needed.

    A reader holds no open file between two passes, and can be sent to other processes.

    Attributes
    ----------
    lengths : ndarray of shape (n_blocks,), int64
        Rows of each block, at least 1.
    n_features : int
        Number of columns.
    dtype : dtype
        Type of the entries.
    is_sparse : bool
        Whether blocks are CSR matrices.
    nnz : int
        Stored entries; all of them for dense rows.
    feature_names : ndarray of str or None
        Names of the columns, if the file has any.
    progress : callable or None
        Called as ``progress(n_done, n_blocks)`` after each block of a pass.

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.streaming import GroupMoments, RowReader
    >>> class Ones(RowReader):
    ...     lengths, n_features = np.array([2, 2]), 1
    ...     dtype, is_sparse, nnz = np.dtype(float), False, 4
    ...
    ...     def block(self, number):
    ...         return np.ones((2, 1))
    >>> GroupMoments.from_data(Ones(), ["a", "a", "a", "a"]).mean
    array([1.])
    """

    lengths: NDArray[np.int64]
    n_features: int
    dtype: np.dtype
    is_sparse: bool
    nnz: int
    feature_names: NDArray[Any] | None = None
    progress: Progress | None = None

    @abstractmethod
    def block(self, number: int) -> Any:
        """Return the rows of a block.

        Parameters
        ----------
        number : int
            Of the block, from 0.

        Returns
        -------
        {ndarray, csr_array} of shape (n_rows of the block, n_features)
            Dense and C-contiguous, or CSR.
        """

    def __getstate__(self) -> dict[str, Any]:
        # What watches the progress stays in its process.
        return {**self.__dict__, "progress": None}

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.lengths.sum()), self.n_features

    def __len__(self) -> int:
        return len(self.lengths)

    def blocks(self) -> Iterator[Any]:
        """Iterate over the blocks in their order."""
        for number in range(len(self)):
            yield self.block(number)

    def parts(self) -> LocalParts:
        """Return the blocks as parts.

        Returns
        -------
        LocalParts
            Read anew in each pass.
        """
        return LocalParts(self._checked_blocks, len(self), self.progress)

    def _checked_blocks(self) -> Iterator[Any]:
        # Compiled code counts on the shapes.
        for i, (block, m) in enumerate(zip(self.blocks(), self.lengths, strict=True)):
            is_csr = sparse.issparse(block) and block.format == "csr"
            is_kind = is_csr if self.is_sparse else isinstance(block, np.ndarray)
            shape = int(m), self.n_features
            if not is_kind or block.shape != shape:
                wanted = "a CSR matrix" if self.is_sparse else "an ndarray"
                raise ValueError(
                    f"Block {i} of {type(self).__name__} is a {type(block).__name__}: "
                    f"shape {getattr(block, 'shape', None)}, but is_sparse, lengths "
                    f"and n_features say {wanted} of shape {shape}."
                )
            yield block

    def delayed(self) -> list[Any]:
        """Return the blocks as Dask's delayed values, read where they are computed.

        Returns
        -------
        list of dask.delayed.Delayed
            A block each. All workers must see the file under its name.
        """
        read = require_dask().delayed(self.block, pure=False, traverse=False)
        return [read(number) for number in range(len(self))]


def is_partitioned(X: Any) -> bool:
    """Whether `X` are rows in parts.

    Parameters
    ----------
    X : object
        Whatever it is.

    Returns
    -------
    bool
        True for Dask collections, lists of delayed blocks, and readers.

    Examples
    --------
    >>> from scalefair.streaming import is_partitioned
    >>> is_partitioned([[1.0, 2.0]])
    False
    """
    return isinstance(X, (PartitionedRows, RowReader)) or is_dask(X)


@dataclass(eq=False, repr=False)
class PartitionedRows:
    """Rows in parts, each of which fits in memory.

    Made by `of`. Dask keeps its parts; those of a reader are read anew in each pass.

    Attributes
    ----------
    parts : Parts
        The rows of each part: a dense array or a CSR matrix.
    lengths, n_features, dtype, is_sparse, nnz, feature_names
        As of a `RowReader`, of parts instead of blocks.

    Examples
    --------
    >>> import dask.array as da
    >>> from scalefair.streaming import PartitionedRows
    >>> rows = PartitionedRows.of(da.ones((5, 2), chunks=(3, 2)))
    >>> rows.lengths, rows.shape, rows.map(len).gather()
    (array([3, 2]), (5, 2), [3, 2])
    """

    parts: Parts
    lengths: NDArray[np.int64]
    n_features: int
    dtype: np.dtype
    is_sparse: bool
    nnz: int
    feature_names: NDArray[Any] | None = None
    # Rows of the parts that were given, some of which may have none.
    _given: Sequence[int] | None = None

    @classmethod
    def of(cls, X: Any, *, persist: bool = True) -> Self:
        """Return the rows of a Dask collection or a reader.

        Parameters
        ----------
        X : Dask collection, reader or PartitionedRows
            See `is_partitioned`. Partitions without rows are left out.
        persist : bool, default=True
            Whether Dask computes the partitions now and keeps them.

        Returns
        -------
        PartitionedRows
            Tables of real numbers with the same columns; others are refused.
        """
        if isinstance(X, cls):
            return X
        if isinstance(X, RowReader):
            about = X.n_features, X.dtype, X.is_sparse, X.nnz, X.feature_names
            return cls(X.parts(), X.lengths, *about)
        parts = dask_rows(X)
        parts = parts.map(_checked_part, each=[parts.like(range(len(parts)))])
        if persist:
            parts = parts.persist()
        found = None if persist else _known(X)
        if found is None:
            found = parts.map(_describe).gather()
        given = [part.n_rows for part in found]
        kept = np.flatnonzero(given).tolist()
        if not kept:
            raise ValueError("X has no rows in any partition.")
        _check_alike(found, kept)
        first = found[kept[0]]
        return cls(
            parts.select(kept),
            np.array([found[i].n_rows for i in kept], np.int64),
            first.n_columns,
            np.result_type(*{found[i].dtype for i in kept}),
            first.is_sparse,
            sum(found[i].nnz for i in kept),
            column_names(X),
            given,
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return int(self.lengths.sum()), self.n_features

    @property
    def starts(self) -> NDArray[np.int64]:
        """First row of each part."""
        return np.cumsum(self.lengths) - self.lengths

    @property
    def _numbers(self) -> list[int]:
        """Number of each part among those that were given, for messages."""
        return [i for i, length in enumerate(self._given or self.lengths) if length]

    def map(
        self, function: Callable[..., Any], *args: Any, each: Sequence[Parts] = ()
    ) -> Parts:
        """Return the parts ``function(rows, *args, *one of each)``, errors with place.

        Parameters
        ----------
        function, *args : object
            As of `Parts.map`.
        each : sequence of Parts
            Columns as `split` or `encode` return them.

        Returns
        -------
        Parts
            Computed when they are asked for.
        """
        starts, lengths = self.starts.tolist(), self.lengths.tolist()
        place = self.parts.like(zip(self._numbers, starts, lengths, strict=True))
        run = functools.partial(_placed, function, len(args))
        return self.parts.map(run, *args, each=[place, *each])

    def rowwise(
        self,
        function: Callable[..., Any],
        *args: Any,
        shape: tuple[int, ...] = (),
        dtype: DTypeLike = np.float64,
        each: Sequence[Parts] = (),
    ) -> Any:
        """Return what a function gives for each row, in the order of the rows.

        Parameters
        ----------
        function, *args : object
            As for `map`; the function returns an array with an entry for each row.
        shape, dtype : tuple of int, and dtype
            Shape and type of one entry, numbers in float64 by default.
        each : sequence of Parts
            As for `map`.

        Returns
        -------
        {ndarray, dask.array.Array} of shape (m,) + shape
            For a Dask collection a Dask array, not computed yet.
        """
        found = self.map(function, *args, each=each)
        return found.stack(self.lengths.tolist(), shape, dtype)

    def split(self, values: NDArray[Any]) -> Parts:
        """Return an array, cut as the rows are.

        Parameters
        ----------
        values : ndarray of shape (m, ...)
            An entry for each row.

        Returns
        -------
        Parts
            As many as there are of the rows.
        """
        return self.parts.like(np.split(values, self.starts[1:]))

    def encode(
        self,
        values: Any,
        *,
        name: str = "sensitive_features",
        what: str = "group",
        warn: bool = True,
    ) -> tuple[Any, Parts]:
        """Return the distinct values of a column, and the index of each row's.

        Parameters
        ----------
        values : array-like or Dask collection of shape (m,)
            One for each row. Collections of unknown chunks must be cut as `X` is.
            Groups may have several columns, (m, n_attributes): each combination that
            occurs is one.
        name, what : str
            Name of the column and of one value, for messages; groups by default.
        warn : bool, default=True
            Whether the user is warned of combinations of few rows.

        Returns
        -------
        distinct : ndarray of shape (n_distinct,)
            Sorted.
        codes : Parts
            Indices of shape (n_rows of the part,), in a small type of integers.
        """
        ((_, distinct, codes),) = self._encode(values, name, what, "joint", warn)
        return distinct, codes

    def compared_attributes(
        self, sensitive_features: Any, attributes: str = "joint", *, warn: bool = True
    ) -> list[Attribute]:
        """Return what is compared: the columns joined into one, or each by itself.

        Parameters
        ----------
        sensitive_features : array-like or Dask collection of shape (m,) or (m, k)
            As the values of `encode`.
        attributes : {"joint", "each"}, default="joint"
            Whether combinations that occur are groups, or values of each column.
        warn : bool, default=True
            Whether the user is warned of combinations of few rows.

        Returns
        -------
        list of tuple of str, ndarray and Parts
            Name, sorted groups, and codes as of `encode`, of each attribute.
        """
        return self._encode(
            sensitive_features, "sensitive_features", "group", attributes, warn
        )

    def _encode(
        self, values: Any, name: str, what: str, attributes: str, warn: bool
    ) -> list[Attribute]:
        of_groups = what == "group"
        if is_dask(values):
            local = not isinstance(self.parts, DaskParts)
            lengths = None if local else list(self._given or self.lengths)
            given = dask_column(values, lengths, name, several=of_groups)
            numbers = range(len(given)) if local else self._numbers
            sizes = [None] * len(given) if local else self.lengths.tolist()
            parts = given.select(numbers)
            places = parts.like(zip(numbers, sizes, strict=True))
            parts = parts.map(_encoded, name, what, attributes, each=[places]).persist()
            merged = _merged(parts.map(_distinct).gather(), name)
            for column in merged if of_groups else ():
                check_are_groups([Attribute(*column[:2], None)])
            found = [
                Attribute(own, distinct, parts.map(_codes, j, distinct).persist())
                for j, (own, distinct, _) in enumerate(merged)
            ]
            if warn and merged[0][2]:
                _, distinct, codes = found[0]
                warn_few_rows(distinct, sum(codes.map(_sizes, len(distinct)).gather()))
            if not local:
                return found
            found = [c._replace(codes=np.concatenate(c.codes.gather())) for c in found]
        elif of_groups:
            n = self.shape[0]
            found = compared_attributes(values, n, attributes, warn=warn)
        else:
            values = check_values(values, name=name, what=what)
            found = [Attribute(name, *encode_values(values, name=name))]
        n_given = len(found[0].codes)
        if n_given != self.shape[0]:
            raise ValueError(
                f"{name} must have one {what} per sample, got {n_given} {what}s for "
                f"{self.shape[0]} samples."
            )
        return [
            Attribute(own, values, self.split(codes.astype(_small_type(values))))
            for own, values, codes in found
        ]


class _Description(NamedTuple):
    """What is to be known of a part without having it."""

    n_rows: int
    n_columns: int
    nnz: int
    dtype: np.dtype
    is_sparse: bool


def _placed(function: Callable[..., Any], n_shared: int, rows: Any, *args: Any) -> Any:
    """Call a function of a part, whose place comes after the shared arguments."""
    shared, ((number, start, length), *own) = args[:n_shared], args[n_shared:]
    stop = start + length - 1
    place = f"{number} of X, rows {start} to {stop} (counted from 0 within it below)"
    with _naming(place):
        return function(rows, *shared, *own)


@contextmanager
def _naming(partition: Any) -> Iterator[None]:
    """Say in an error which partition has it."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"Partition {partition}: {error}") from error


def _checked_part(block: Any, number: int) -> Any:
    """Table of real numbers, dense or CSR; one without rows as it is."""
    if hasattr(block, "to_numpy"):
        block = block.to_numpy()
    if getattr(block, "shape", (1,))[0] == 0:
        return block
    with _naming(f"{number} of X"):
        return check_rows(block)


def _describe(block: Any) -> _Description:
    is_sparse = sparse.issparse(block)
    nnz = block.nnz if is_sparse else block.size
    return _Description(block.shape[0], block.shape[-1], nnz, block.dtype, is_sparse)


def _known(X: Any) -> list[_Description] | None:
    """Return what an array tells of its chunks, without computing them."""
    if not hasattr(type(X), "numblocks") or np.isnan(X.shape).any():
        return None
    n, is_sparse = X.shape[1], sparse.issparse(X._meta)
    return [_Description(k, n, k * n, X.dtype, is_sparse) for k in X.chunks[0]]


def _check_alike(found: list[_Description], kept: list[int]) -> None:
    def kind(number: int) -> str:
        form = "sparse" if found[number].is_sparse else "dense"
        return f"{found[number].n_columns} columns ({form})"

    for i in kept:
        if kind(i) != kind(kept[0]):
            raise ValueError(
                f"Partition {i} of X has {kind(i)}, partition {kept[0]} has "
                f"{kind(kept[0])}: all must have the same."
            )


class _Column(NamedTuple):
    """Values of the rows of a part, encoded."""

    name: str
    distinct: NDArray[Any]
    codes: NDArray[Any]
    attributes: list[str]  # columns of which they are combinations


def _encoded(
    values: Any, name: str, what: str, attributes: str, place: tuple[int, int | None]
) -> list[_Column]:
    number, n_rows = place
    names: list[str] = []
    with _naming(number):
        if what == "group":
            found = encode_attributes(values)
            names = [attribute.name for attribute in found]
            if attributes == "joint":
                found = [Attribute(name, *join_attributes(found))]
        else:
            values = check_values(values, name=name, what=what)
            found = [Attribute(name, *encode_values(values, name=name))]
    n_given = len(found[0].codes)
    if n_given != (n_given if n_rows is None else n_rows):
        raise ValueError(
            f"Partition {number} of {name} has {n_given} {what}s for {n_rows} "
            "rows of X."
        )
    return [
        _Column(own, distinct, codes.astype(_small_type(distinct)), names)
        for own, distinct, codes in found
    ]


def _distinct(columns: list[_Column]) -> list[_Column]:
    return [column._replace(codes=column.codes[:0]) for column in columns]


def _merged(
    found: list[list[_Column]], name: str
) -> list[tuple[str, NDArray[Any], bool]]:
    """Name and distinct values of each column, and whether they are combinations."""
    names = [part[0].attributes for part in found]
    if any(own != names[0] for own in names):
        other = next(own for own in names if own != names[0])
        raise ValueError(
            f"{name} has the columns {listed(names[0], repr)} in one partition and "
            f"{listed(other, repr)} in another: all must have the same."
        )
    is_joint = len(names[0]) > len(found[0])
    merged = []
    for columns in zip(*found, strict=True):
        distinct = np.concatenate([column.distinct for column in columns])
        distinct = encode_values(distinct, name=name)[0]
        merged.append((columns[0].name, distinct, is_joint))
    return merged


def _codes(columns: list[_Column], j: int, distinct: NDArray[Any]) -> NDArray[Any]:
    column = columns[j]
    known = np.searchsorted(distinct, column.distinct).astype(_small_type(distinct))
    codes: NDArray[Any] = known[column.codes]
    return codes


def _sizes(codes: NDArray[Any], n_groups: int) -> NDArray[np.int64]:
    return np.bincount(codes, minlength=n_groups)


def _small_type(distinct: NDArray[Any]) -> np.dtype:
    return np.min_scalar_type(-max(len(distinct), 1))
