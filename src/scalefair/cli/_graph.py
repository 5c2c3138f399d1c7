"""A graph as it was read: its matrix and the names of its nodes."""

from __future__ import annotations

from dataclasses import dataclass

from scalefair.cli._nodes import Nodes

__all__ = ["Graph"]


@dataclass(frozen=True)
class Graph(Nodes):
    """A graph read from a file.

    `matrix` is a csr_array of shape (n, n): weights, finite, as far as the reader
    can tell symmetric. `named` is True for an edge list, whose ids are the file's
    own, False for a matrix.
    """

    @property
    def n_edges(self) -> int:
        """Number of undirected edges, self-loops among them."""
        n_loops = int((self.matrix.diagonal() != 0).sum())
        return (int(self.matrix.nnz) - n_loops) // 2 + n_loops

    @property
    def ordered(self) -> bool:
        """Nodes of an edge list have no order that the user has set."""
        return not self.named
