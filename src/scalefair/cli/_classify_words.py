"""Words of a column and their codes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair.cli._classify_rows import as_values

__all__ = ["Vocabulary"]


class Vocabulary:
    """Codes of words: those of new words, or only of known ones."""

    def __init__(self, known: NDArray[Any] | None = None) -> None:
        self._grows = known is None
        self._codes: dict[str, int] = {}
        if known is not None:
            self._codes = {str(word): i for i, word in enumerate(known.tolist())}
        self.unknown: set[str] = set()

    def encode(self, words: list[str]) -> NDArray[np.int32]:
        codes = self._codes
        if self._grows:
            found = (codes.setdefault(word, len(codes)) for word in words)
        else:
            self.unknown.update(set(words) - codes.keys())
            found = (codes.get(word, -1) for word in words)
        return np.fromiter(found, np.int32, len(words))

    def sort(self) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """Return the sorted categories, and the new code of each old one."""
        values = as_values(list(self._codes))
        if values.dtype.kind == "f":  # 1.50 and 1.5 are two words
            values = np.array(list(self._codes), dtype=np.str_)
        if len(np.unique(values)) < len(values):  # as are 1 and 01
            values = np.array(list(self._codes), dtype=np.str_)
        order = np.argsort(values)
        codes = np.empty(len(values), np.int32)
        codes[order] = np.arange(len(values))
        return values[order], codes
