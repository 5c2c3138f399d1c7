"""What is clustered, as it was read: a matrix and the names of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray

__all__ = ["Nodes"]


@dataclass(frozen=True)
class Nodes:
    """Nodes of a graph, or rows of features, read from a file.

    Attributes
    ----------
    path : Path
        The file.
    matrix : array of shape (n, m)
        What the estimator is given.
    node_ids : ndarray of shape (n,)
        int64, or object (str) if an id is not an integer.
    named : bool
        True if the ids are the file's own, False if they are row numbers from 0.
    """

    path: Path
    matrix: Any
    node_ids: NDArray[Any]
    named: bool

    unit: ClassVar[str] = "node"

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.node_ids)

    @property
    def ordered(self) -> bool:
        """Whether their order in the file means something to the user."""
        return True
