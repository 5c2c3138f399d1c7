"""Blocks that are changed after they have been read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from scalefair.streaming import RowReader

__all__ = ["MappedReader", "map_rows"]


class MappedReader(RowReader):
    """Rows of another reader, each block changed by a function.

    Parameters
    ----------
    source : RowReader
        The rows.
    function : callable
        Takes a block and returns one with as many rows.
    n_features : int or None, default=None
        Columns of the new blocks; None for as many as before.
    dtype : dtype or None, default=None
        Type of their entries; None for the one before.
    """

    def __init__(
        self,
        source: RowReader,
        function: Callable[[Any], Any],
        *,
        n_features: int | None = None,
        dtype: np.dtype | None = None,
    ) -> None:
        self._source = source
        self._function = function
        self.lengths = source.lengths
        self.n_features = source.n_features if n_features is None else n_features
        self.dtype = source.dtype if dtype is None else dtype
        self.is_sparse = source.is_sparse
        # Of sparse rows a bound.
        self.nnz = source.nnz if source.is_sparse else int(np.prod(self.shape))
        self.progress = source.progress

    def block(self, number: int) -> Any:
        """Return the rows of a block."""
        return self._function(self._source.block(number))

    def blocks(self) -> Iterator[Any]:
        """Iterate over the blocks in their order."""
        return map(self._function, self._source.blocks())


def map_rows(X: Any, function: Callable[[Any], Any], n_features: int) -> Any:
    """Return rows changed by a function: now, or when a block is read."""
    if isinstance(X, RowReader):
        return MappedReader(X, function, n_features=n_features)
    return function(X)
