"""Rows of features as they were read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from scalefair.cli._nodes import Nodes

__all__ = ["Rows"]


@dataclass(frozen=True)
class Rows(Nodes):
    """Rows of finite numbers read from a file.

    `matrix` is an ndarray or a csr_array of shape (n, n_features); `named` is True if
    a column held ids.
    """

    unit: ClassVar[str] = "row"

    @property
    def n_features(self) -> int:
        """Number of columns that are features."""
        return int(self.matrix.shape[1])
