"""A graph as it was read: its matrix and the names of its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from scipy import sparse

__all__ = ["Graph"]


@dataclass(frozen=True)
class Graph:
    """A graph read from a file.

    Attributes
    ----------
    path : Path
        The file.
    matrix : csr_array of shape (n, n)
        Weights; finite, as far as the reader can tell symmetric.
    node_ids : ndarray of shape (n,)
        int64, or object (str) if an id is not an integer.
    named : bool
        True for an edge list, whose ids are the file's own; False for a matrix,
        whose ids are its row numbers from 0.
    """

    path: Path
    matrix: sparse.csr_array
    node_ids: NDArray[Any]
    named: bool

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.node_ids)

    @property
    def n_edges(self) -> int:
        """Number of undirected edges, self-loops among them."""
        n_loops = int((self.matrix.diagonal() != 0).sum())
        return (int(self.matrix.nnz) - n_loops) // 2 + n_loops
