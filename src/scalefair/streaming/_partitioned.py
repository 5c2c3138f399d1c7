"""Rows in parts: readers of files, Dask collections, and what they have in common."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, starmap
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from scalefair._entries import check_sample_weight
from scalefair._groups import (
    Attribute,
    check_are_groups,
    check_values,
    compared_attributes,
    encode_values,
    warn_few_rows,
)
from scalefair._membership import Membership
from scalefair._messages import listed
from scalefair.streaming._blocks import check_rows
from scalefair.streaming._dask import (
    DaskParts,
    column_names,
    dask_column,
    dask_rows,
    encode_part,
    groups_of_part,
    naming_partition,
    no_collection,
    recode,
    require_dask,
    small_codes,
    weights_of_part,
)
from scalefair.streaming._parts import LocalParts, Parts, Progress

# Packages whose classes are collections, delayed values or futures.
_DASK_PACKAGES = {"dask", "dask_expr", "distributed"}


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
        # A progress callback belongs to its process.
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
        """Yield the blocks, after a check of their types and shapes.

        Kernels rely on these, and classes of users may have errors.
        """
        for i, (block, m) in enumerate(zip(self.blocks(), self.lengths, strict=True)):
            is_csr = sparse.issparse(block) and block.format == "csr"
            has_type = is_csr if self.is_sparse else isinstance(block, np.ndarray)
            shape = int(m), self.n_features
            if not has_type or block.shape != shape:
                expected = "a CSR matrix" if self.is_sparse else "an ndarray"
                raise ValueError(
                    f"Block {i} of {type(self).__name__} is a {type(block).__name__}: "
                    f"shape {getattr(block, 'shape', None)}, but is_sparse, lengths "
                    f"and n_features say {expected} of shape {shape}."
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
        Any object.

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


def is_dask(X: Any) -> bool:
    """Whether `X` is a Dask collection, or a list of delayed values or futures."""
    if isinstance(X, np.ndarray):  # of delayed values, from to_delayed
        return X.dtype == object and X.size > 0 and is_dask(X.flat[0])
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and all(is_dask(x) for x in X)
    return type(X).__module__.split(".")[0] in _DASK_PACKAGES


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
    # Rows of all parts of the input, including the parts without rows.
    _input_lengths: Sequence[int] | None = None

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
            fields = X.n_features, X.dtype, X.is_sparse, X.nnz, X.feature_names
            return cls(X.parts(), X.lengths, *fields)
        if not is_dask(X):
            raise no_collection(X)
        parts = dask_rows(X)
        # A part is checked together with its number, for the messages of errors.
        parts = parts.map(_checked_part, aligned=[parts.like(range(len(parts)))])
        if persist:
            parts = parts.persist()
        if persist or not hasattr(type(X), "numblocks") or np.isnan(X.shape).any():
            summaries = parts.map(_PartSummary.of).gather()
        else:  # a Dask array of known shape: nothing is computed, nnz is an upper bound
            n, is_sparse = X.shape[1], sparse.issparse(X._meta)
            summaries = [
                _PartSummary(m, n, m * n, X.dtype, is_sparse) for m in X.chunks[0]
            ]
        lengths = [part.n_rows for part in summaries]
        nonempty = np.flatnonzero(lengths).tolist()
        if not nonempty:
            raise ValueError("X has no rows in any partition.")
        # All parts must have the same columns, and be dense or sparse.
        first = summaries[nonempty[0]]
        for i in nonempty:
            if summaries[i].kind != first.kind:
                raise ValueError(
                    f"Partition {i} of X has {summaries[i].kind}, partition "
                    f"{nonempty[0]} has {first.kind}: all must have the same."
                )
        return cls(
            parts.select(nonempty),
            np.array([lengths[i] for i in nonempty], np.int64),
            first.n_columns,
            np.result_type(*{summaries[i].dtype for i in nonempty}),
            first.is_sparse,
            sum(summaries[i].nnz for i in nonempty),
            column_names(X),
            lengths,
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
        """Number of each part in the input, where parts without rows count, too."""
        lengths = self._input_lengths or self.lengths
        return [i for i, length in enumerate(lengths) if length]

    def map(
        self, function: Callable[..., Any], *args: Any, aligned: Sequence[Parts] = ()
    ) -> Parts:
        """Return the parts ``function(rows, *args, *values)``; errors name the part.

        Parameters
        ----------
        function, *args : object
            As of `Parts.map`.
        aligned : sequence of Parts
            Cut as the rows are, as by `split` or `encode`: `values` are of the part.

        Returns
        -------
        Parts
            Computed when they are asked for.
        """
        starts, lengths = self.starts.tolist(), self.lengths.tolist()
        locations = self.parts.like(zip(self._numbers, starts, lengths, strict=True))
        run = functools.partial(_call_at_location, function)
        return self.parts.map(run, args, aligned=[locations, *aligned])

    def rowwise(
        self,
        function: Callable[..., Any],
        *args: Any,
        shape: tuple[int, ...] = (),
        dtype: DTypeLike = np.float64,
        aligned: Sequence[Parts] = (),
    ) -> Any:
        """Return what a function gives for each row, in the order of the rows.

        Parameters
        ----------
        function, *args : object
            As for `map`; the function returns an array with an entry for each row.
        shape, dtype : tuple of int, and dtype
            Shape and type of one entry, numbers in float64 by default.
        aligned : sequence of Parts
            As for `map`.

        Returns
        -------
        {ndarray, dask.array.Array} of shape (m,) + shape
            For a Dask collection a Dask array, not computed yet.
        """
        values = self.map(function, *args, aligned=aligned)
        return values.stack(self.lengths.tolist(), shape, dtype)

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

    def _memberships(self, membership: Membership) -> Parts:
        """Return the membership of the rows of each part."""
        compared = membership.compared
        # Codes in memory are of all rows, codes in parts are cut already.
        if not isinstance(compared[0].codes, Parts):
            cuts = pairwise([*self.starts.tolist(), self.shape[0]])
            return self.parts.like(starmap(membership.part, cuts))
        first, *more = (attribute.codes for attribute in compared)
        more += [] if membership.weights is None else [membership.weights]
        named = [attribute._replace(codes=None) for attribute in compared]
        memberships: Parts = first.map(Membership.of_columns, named, aligned=more)
        return memberships

    def encode(
        self,
        values: Any,
        *,
        name: str = "sensitive_features",
        noun: str = "group",
        warn: bool = True,
    ) -> tuple[Any, Parts]:
        """Return the distinct values of a column, and the index of each row's.

        Parameters
        ----------
        values : array-like or Dask collection of shape (m,)
            One for each row. Collections of unknown chunks must be cut as `X` is.
            Groups may have several columns, (m, n_attributes): each combination that
            occurs is one.
        name, noun : str
            Name of the column and of one value, for messages. Only a "group" may have
            several columns.
        warn : bool, default=True
            Whether the user is warned of combinations of few rows.

        Returns
        -------
        distinct : ndarray of shape (n_distinct,)
            Sorted.
        codes : Parts
            Indices of shape (n_rows of the part,), in a small type of integers.
        """
        ((_, distinct, codes),) = self._encode(values, name, noun, "joint", warn)
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

    def weights(self, sample_weight: Any) -> Parts | None:
        """Return the weights of the rows, cut as the rows are.

        Parameters
        ----------
        sample_weight : array-like or Dask collection of shape (m,), or None
            Not negative.

        Returns
        -------
        Parts or None
            Of float64; None for None, and for weights that are all 1.
        """
        if is_dask(sample_weight):
            column, locations = self._column(sample_weight, "sample_weight")
            if isinstance(self.parts, DaskParts):
                parts = column.map(weights_of_part, aligned=[locations]).persist()
                # Smallest and largest weights of the parts: one value if all are equal.
                ends = {*parts.map(np.min).gather(), *parts.map(np.max).gather()}
                if ends == {0.0}:
                    check_sample_weight(np.zeros(1), 1)  # raises
                return None if ends == {1.0} else parts
            # A reader is cut in another way than the collection: gather, and cut anew.
            sample_weight = np.concatenate(column.map(np.asarray).gather())
        weights = check_sample_weight(sample_weight, self.shape[0])
        return None if weights is None else self.split(weights).persist()

    def _column(
        self, values: Any, name: str, *, several: bool = False
    ) -> tuple[DaskParts, DaskParts]:
        """Partitions of a column; and of each its number, and its rows if known."""
        if not isinstance(self.parts, DaskParts):  # of a reader, which is cut otherwise
            parts = dask_column(values, None, name, several=several)
            return parts, parts.like((i, None) for i in range(len(parts)))
        lengths = list(self._input_lengths or self.lengths)
        parts = dask_column(values, lengths, name, several=several)
        locations = zip(self._numbers, self.lengths.tolist(), strict=True)
        return parts.select(self._numbers), parts.like(locations)

    def _encode(
        self, values: Any, name: str, noun: str, attributes: str, warn: bool
    ) -> list[Attribute]:
        """Attributes with codes that are cut as the rows are."""
        n_rows = self.shape[0]
        if is_dask(values):
            encoded = self._encode_collection(values, name, noun, attributes, warn)
            if isinstance(self.parts, DaskParts):
                return encoded
            # A reader is cut in another way than the collection: gather, and cut anew.
            encoded = [
                a._replace(codes=np.concatenate(a.codes.gather())) for a in encoded
            ]
        elif noun == "group":
            encoded = compared_attributes(values, n_rows, attributes, warn=warn)
        else:
            values = check_values(values, name=name, noun=noun)
            encoded = [Attribute(name, *encode_values(values, name=name))]
        n_values = len(encoded[0].codes)
        if n_values != n_rows:
            raise ValueError(
                f"{name} must have one {noun} per sample, got {n_values} {noun}s for "
                f"{n_rows} samples."
            )
        # Cut as the rows are, and kept by the same workers.
        return [
            Attribute(name, groups, self.split(small_codes(groups, codes)).persist())
            for name, groups, codes in encoded
        ]

    def _encode_collection(
        self, values: Any, name: str, noun: str, attributes: str, warn: bool
    ) -> list[Attribute]:
        """Attributes of a Dask collection, with codes where its parts are."""
        # 1. Encode each part by itself: values stay where they are.
        parts, locations = self._column(values, name, several=noun == "group")
        encoded_parts = parts.map(
            encode_part, name, noun, attributes, aligned=[locations]
        ).persist()
        summaries = encoded_parts.map(groups_of_part).gather()
        # 2. All parts must have the same columns.
        names = summaries[0][0]
        for other_names, _ in summaries:
            if other_names != names:
                raise ValueError(
                    f"{name} has the columns {listed(names, repr)} in one partition "
                    f"and {listed(other_names, repr)} in another: all must have the "
                    "same."
                )
        # 3. Map the codes of each part to the values of all parts. In the summaries the
        #    field `codes` holds the number of rows of each group.
        encoded = []
        by_attribute = zip(*(columns for _, columns in summaries), strict=True)
        for number, column in enumerate(by_attribute):
            distinct = np.concatenate([part.groups for part in column])
            distinct, codes = encode_values(distinct, name=name)
            sizes = np.bincount(codes, np.concatenate([part.codes for part in column]))
            cuts = np.cumsum([len(part.groups) for part in column])[:-1]
            new_codes = np.split(small_codes(distinct, codes), cuts)
            code_parts = encoded_parts.map(
                recode, number, aligned=[encoded_parts.like(new_codes)]
            ).persist()
            encoded.append(Attribute(column[0].name, distinct, code_parts))
        if noun == "group":
            check_are_groups(encoded)
        # Combinations of several columns are the only attribute, the last of the loop.
        if warn and len(names) > len(encoded):
            warn_few_rows(distinct, sizes.astype(np.int64))
        return encoded


class _PartSummary(NamedTuple):
    """Size and type of a part, without its entries."""

    n_rows: int
    n_columns: int
    nnz: int
    dtype: np.dtype
    is_sparse: bool

    @classmethod
    def of(cls, block: Any) -> Self:
        """Return the summary of a checked block."""
        is_sparse = sparse.issparse(block)
        nnz = block.nnz if is_sparse else block.size
        return cls(block.shape[0], block.shape[-1], nnz, block.dtype, is_sparse)

    @property
    def kind(self) -> str:
        """What all parts must have in common, for messages."""
        storage = "sparse" if self.is_sparse else "dense"
        return f"{self.n_columns} columns ({storage})"


def _call_at_location(
    function: Callable[..., Any],
    rows: Any,
    shared: tuple[Any, ...],
    location: tuple[int, int, int],
    *values: Any,
) -> Any:
    """Call a function of a part; errors name the part and its rows."""
    number, start, length = location
    stop = start + length - 1
    rows_of_part = f"rows {start} to {stop} (counted from 0 within it below)"
    with naming_partition(f"{number} of X, {rows_of_part}"):
        return function(rows, *shared, *values)


def _checked_part(block: Any, number: int) -> Any:
    """Table of real numbers, dense or CSR.

    Blocks without rows are not checked, as they are left out.
    """
    if hasattr(block, "to_numpy"):
        block = block.to_numpy()
    if getattr(block, "shape", (1,))[0] == 0:
        return block
    with naming_partition(f"{number} of X"):
        return check_rows(block)
