"""A table as blocks of rows: what every format of tables offers."""

from __future__ import annotations

import warnings
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from scalefair.cli._errors import Failure
from scalefair.cli._feature_text import (
    Layout,
    Selection,
    find_layout,
    nonnumeric_columns,
    parse_lines,
    row_lines,
)
from scalefair.cli._text_table import split_line

__all__ = ["Block", "Table", "TextTable", "refuse_words"]

# Numbers that are parsed at a time, and lines at most.
_BLOCK = 2**20
_LINES = 2**16


@dataclass(frozen=True)
class Block:
    """Some rows of a table.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_features)
        Finite numbers, float64.
    texts : list of list of str
        Columns of words, such as groups and ids.
    numbers : sequence of int
        Where in the file each row is.
    """

    X: NDArray[np.float64]
    texts: list[list[str]]
    numbers: Sequence[int]


class Table(Protocol):
    """Named columns that are read in blocks of rows."""

    path: Path
    names: list[str] | None  # of all columns
    n_columns: int
    unit: str  # how the place of a row is called

    def place(self, number: int) -> str:
        """Place of a row, for messages."""

    def where(self, number: int, column: int) -> str:
        """Place of a value, for messages."""

    def check(self, selection: Selection) -> None:
        """Raise a Failure if features are seen at once to be no numbers."""

    def blocks(self, selection: Selection) -> Iterator[Block]:
        """Yield all rows."""


class TextTable:
    """Table of text, delimited by comma, tab or white space.

    Parameters
    ----------
    path : Path
        The file; with a name ending in ``.gz``, compressed.
    header : bool or None, default=None
        Whether it starts with a header; None takes a line without a number for one.
    """

    unit = "on line"

    def __init__(self, path: Path, header: bool | None = None) -> None:
        self.layout = find_layout(path, header)
        self.path = path
        self.names = self.layout.names
        self.n_columns = self.layout.n_columns

    def place(self, number: int) -> str:
        """File and line."""
        return f"{self.path}:{number}"

    def where(self, number: int, column: int) -> str:
        """File, line and column."""
        return self.layout.where(number, column)

    def check(self, selection: Selection) -> None:
        """Refuse features that are words in the first row, all of them at once."""
        lines = row_lines(self.layout)
        number, line = next(lines)
        del lines  # closes the file
        fields = split_line(self.path, number, line, self.layout.delimiter)
        if len(fields) == self.n_columns:  # else the parser says so
            words = nonnumeric_columns(fields, selection.features)
            if len(words) > 1:
                raise refuse_words(self, words, self.place(number))

    def blocks(self, selection: Selection) -> Iterator[Block]:
        """Parse some thousand lines at a time in C or, to find an error, one by one."""
        lines = row_lines(self.layout)
        size = min(_LINES, max(1, _BLOCK // self.n_columns))
        while chunk := list(islice(lines, size)):
            block = _parse_in_c(self.layout, chunk, selection)
            yield block or Block(*parse_lines(self.layout, chunk, selection))


def refuse_words(table: Table, columns: Sequence[int], where: str) -> Failure:
    """Say which columns hold words, and how to leave them out."""
    names = table.names
    labels = [names[i] if names else str(i + 1) for i in columns]
    quoted = [f"'{label}'" if " " in label else label for label in labels]
    header = "" if names else "; if the line is a header, pass --header"
    what, them = f"{len(labels)} columns are not numbers: {', '.join(labels)}", "them"
    if len(labels) == 1:
        what, them = f"column {labels[0]} does not hold numbers", "it"
    return Failure(
        f"{where}: {what}. Leave {them} out with "
        f"{' '.join(f'--drop {label}' for label in quoted)}, or encode {them} as "
        f"numbers{header}."
    )


def _parse_in_c(
    layout: Layout, lines: list[tuple[int, str]], selection: Selection
) -> Block | None:
    """Parse lines without blemish; None for any others."""
    converters: dict[int | str, Callable[[str], float]] = {}
    read = {*selection.features, *selection.texts}
    for column in range(layout.n_columns):
        if column not in read:
            converters[column] = _skip
    texts: list[list[str]] = [[] for _ in selection.texts]
    for column, words in zip(selection.texts, texts, strict=True):
        converters[column] = _collector(words, column in selection.features)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            values = np.loadtxt(
                (line for _, line in lines),
                comments=None,
                delimiter=layout.delimiter,
                quotechar=None if layout.delimiter is None else '"',
                converters=converters,
                ndmin=2,
            )
    # Whatever is the matter, the parser by lines can tell where.
    except (ValueError, Warning):
        return None
    if values.shape != (len(lines), layout.n_columns):
        return None
    if len(selection.features) < layout.n_columns:
        values = values[:, selection.features]
    if not np.isfinite(values).all():
        return None
    return Block(values, texts, array("q", (number for number, _ in lines)))


def _skip(_: str) -> float:
    return 0.0


def _collector(words: list[str], is_feature: bool) -> Callable[[str], float]:
    seen: dict[str, str] = {}

    def collect(field: str) -> float:
        word = field.strip()
        if '"' in word or (is_feature and "_" in word):
            raise ValueError(word)  # for the parser by lines
        words.append(seen.setdefault(word, word))  # one object per distinct word
        return float(word) if is_feature else 0.0

    return collect
