"""What a reader of rows in a file offers: blocks that fit in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair.streaming._dask import require_dask
from scalefair.streaming._parts import LocalParts, Progress


class RowReader(ABC):
    """Rows in a file, read block by block, as often as they are needed.

    Estimators take readers where they take matrices. A reader holds no open file
    between two passes and can be sent to other processes.

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
    >>> class Countdown(RowReader):
    ...     lengths, n_features = np.array([2, 2]), 1
    ...     dtype, is_sparse, nnz = np.dtype(float), False, 4
    ...
    ...     def block(self, number):
    ...         return np.array([[3.0], [2.0]]) - 2 * number
    >>> GroupMoments.from_data(Countdown(), ["a", "b", "a", "b"]).means
    array([[2.],
           [1.]])
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
            Read anew in each pass. A block that is not what the attributes say is
            a ValueError when it is read.
        """
        return LocalParts(self._checked_blocks, len(self), self.progress)

    def _checked_blocks(self) -> Iterator[Any]:
        # Compiled code counts on the shapes.
        kind = "a CSR matrix" if self.is_sparse else "an ndarray"
        name = type(self).__name__
        for i, (block, m) in enumerate(zip(self.blocks(), self.lengths, strict=True)):
            is_csr = sparse.issparse(block) and block.format == "csr"
            if not (is_csr if self.is_sparse else isinstance(block, np.ndarray)):
                raise ValueError(
                    f"Block {i} of {name} is a {type(block).__name__}: is_sparse is "
                    f"{self.is_sparse}, so that it must be {kind}."
                )
            if block.shape != (m, self.n_features):
                raise ValueError(
                    f"Block {i} of {name} has shape {block.shape}, but lengths and "
                    f"n_features say {(int(m), self.n_features)}."
                )
            yield block

    def delayed(self) -> list[Any]:
        """Return the blocks as Dask's delayed values, read where they are computed.

        All workers must see the file under its name.

        Returns
        -------
        list of dask.delayed.Delayed
            A block each, in their order.

        Raises
        ------
        ImportError
            If Dask is not installed.
        """
        read = require_dask().delayed(self.block, pure=False, traverse=False)
        return [read(number) for number in range(len(self))]
