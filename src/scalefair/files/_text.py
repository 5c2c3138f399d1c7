"""Text of a table or a list: its bytes, its lines, and what its first lines tell."""

from __future__ import annotations

import bz2
import csv
import functools
import gzip
import io
import lzma
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any

from scalefair.files._errors import FileError, reading

STDIN = Path("-")
# Spellings of a value that is not there.
MISSING = ("", "?", "NA", "na", "N/A", "n/a", "NaN", "nan", "NULL", "null", "<NA>")
# Names of a column that holds ids.
ID_NAMES = {"id", "ids", "node", "node_id", "nodeid", "user", "user_id", "vertex"}

_PACKED: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open}
_PACKED[b"\xfd7zXZ"] = lzma.open
_NUMBER = re.compile(
    r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf(inity)?", re.I | re.A
)
_COMMA = re.compile(r"[+-]?\d+,\d+", re.ASCII)
# Records that are looked at before a table is read.
_PEEK = 500


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file, or the standard input for ``-``, unpacked if it is compressed."""
    file: IO[bytes] = io.BytesIO(_stdin()) if path == STDIN else open(path, "rb")
    start = file.read(6)
    file.seek(0)
    for magic, unpack in _PACKED.items():
        if start.startswith(magic):
            unpacked: IO[bytes] = unpack(file)
            return unpacked
    return file


@functools.cache
def _stdin() -> bytes:
    return sys.stdin.buffer.read()


def is_number(cell: str) -> bool:
    """Whether a cell is a number; 1_000 and 0x1F, numbers elsewhere, are words."""
    return bool(_NUMBER.fullmatch(cell))


def quote(text: str) -> str:
    """Return a text, or its start, as it can stand in a message."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


@dataclass(frozen=True)
class Layout:
    """How the cells of a text are told apart.

    `delimiter` is None for white space; `skipped` counts the lines before the first
    record; `names` are those of a header; `notes` say what was assumed.
    """

    path: Path
    delimiter: str | None
    decimal: str
    skipped: int
    names: list[str] | None
    n_columns: int
    first: list[list[str]] = field(repr=False)  # records below the header
    notes: list[str] = field(default_factory=list)

    def column_names(self) -> list[str]:
        """Names of the columns; their numbers, from 1, if there is no header."""
        return self.names or [str(i + 1) for i in range(self.n_columns)]

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield line and cells of each record below the header, comments left out."""
        found = _records(self.path, self.delimiter, self.skipped)
        yield from islice(found, 0 if self.names is None else 1, None)


def find_layout(
    path: Path,
    *,
    header: bool | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    skip_lines: int = 0,
    known_headers: Sequence[tuple[str, ...]] = (),
    words_are_rows: bool = False,
) -> Layout:
    """Look at the first lines of a text.

    Parameters
    ----------
    path : Path
        The file.
    header : bool or None, default=None
        Whether the first record is a header; None compares it with the others.
    delimiter, decimal : str or None, default=None
        None finds them out.
    skip_lines : int, default=0
        Lines before the table.
    known_headers : sequence of tuples of str
        First names, in lower case, that are those of a header whatever follows.
    words_are_rows : bool, default=False
        Whether words above words are rows, as names in a list of edges.

    Raises
    ------
    FileError
        If the file is empty or no text, or two columns have the same name.
    """
    skipped, line = skip_lines, ""
    for skipped, line in enumerate(islice(_lines(path), skip_lines, None), skip_lines):
        if line.strip() and not line.startswith(("#", "%")):
            break
    else:
        raise FileError(f"{path}: is empty: it has no rows.")
    if "\r" in line.strip("\r\n"):
        raise FileError(
            f"{path}: its lines end in carriage returns alone, as on old Macs. Save it "
            "with line feeds."
        )
    notes: list[str] = []
    if delimiter is None:
        delimiter = next((mark for mark in "\t;,|" if mark in line), None)
    elif delimiter in (" ", r"\s+", "space"):
        delimiter = None
    found = list(islice(_records(path, delimiter, skipped), _PEEK))
    cells = [cell for _, record in found[1:] for cell in record]
    if decimal is None:
        decimal = "."
        commas = delimiter != "," and any(map(_COMMA.fullmatch, cells))
        if commas and not any("." in cell and is_number(cell) for cell in cells):
            decimal = ","
            notes.append(
                f"{path}: decimal commas were assumed, as in "
                f"{next(filter(_COMMA.fullmatch, cells))}; else pass --decimal."
            )
    records = [record for _, record in found]
    if decimal == ",":
        records = [[_point(cell) for cell in record] for record in records]
    if header is None:
        header, assumed = _is_header(records, known_headers, words_are_rows)
        if assumed:
            notes.append(f"{path}: {assumed}")
    if not found:
        raise FileError(f"{path}: is empty: it has no rows.")
    names = [" ".join(name.split()) for name in found[0][1]] if header else None
    if header and len(found) == 1:
        raise FileError(f"{path}: has no rows below the header on line {found[0][0]}.")
    if names is not None and len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise FileError(
            f"{path}:{found[0][0]}: several columns are named {twice!r}. Rename them; "
            "if the line is no header, pass --no-header."
        )
    return Layout(
        path,
        delimiter,
        decimal,
        skipped,
        names,
        len(found[0][1]),
        records[1:] if header else records,
        notes,
    )


def _point(cell: str) -> str:
    return cell.replace(",", ".") if _COMMA.fullmatch(cell) else cell


def _is_header(
    records: list[list[str]], known: Sequence[tuple[str, ...]], words_are_rows: bool
) -> tuple[bool, str]:
    """Whether the first record is a header, and what was assumed if that is doubtful.

    It is one if it differs in kind from every other record: a word above numbers, or
    numbers that count up above fractions or beside a word that does not come again.
    """
    first, others = records[0], records[1:]
    if tuple(cell.lower() for cell in first[:2]) in known:
        return True, ""
    columns = [
        [record[j] for record in others if j < len(record) and record[j] not in MISSING]
        for j in range(len(first))
    ]
    numeric = [bool(column) and all(map(is_number, column)) for column in columns]
    numbers = [is_number(cell) for cell in first]
    words = [
        (cell in column, above)
        for cell, column, number, above in zip(
            first, columns, numbers, numeric, strict=True
        )
        if not number and cell not in MISSING
    ]
    new = bool(words) and not any(again for again, _ in words)
    header = f"the first line, {quote(','.join(first))}, was taken for the header; else"
    header = f"{header} pass --no-header."
    data = f"the first line, {quote(','.join(first))}, was taken for data; if it is a"
    data = f"{data} header, pass --header."
    if any(above for _, above in words):
        return True, header if any(numbers) else ""
    if len(set(first)) < len(first) or not all(first[1:]):
        return False, ""
    if not any(numbers):
        if words_are_rows:
            return False, data if new else ""
        return True, "" if any(numeric) else header
    below = [column for column, number in zip(columns, numbers, strict=True) if number]
    if (counts := [cell for cell in first if is_number(cell)]) and all(
        cell.isdecimal() for cell in counts
    ):
        start = int(counts[0])
        rises = [int(cell) for cell in counts] == [*range(start, start + len(counts))]
        rises = rises and len(counts) > 1
        fractions = not any(cell.isdecimal() for column in below for cell in column)
        if rises + fractions + new > 1:
            return True, header
        if rises:
            return False, data
    return False, data if new and len(others) > 2 else ""


def _lines(path: Path) -> Iterator[str]:
    with reading(path, "UTF-8 text"), open_bytes(path) as file:
        number = 0
        try:
            for number, raw in enumerate(file, start=1):
                yield raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise FileError(
                f"{path}:{number}: not UTF-8 text. Save the file as UTF-8, or check "
                "what it is."
            ) from None


def _records(
    path: Path, delimiter: str | None, skipped: int
) -> Iterator[tuple[int, list[str]]]:
    """Yield the line and the cells of each record; it may go on for lines in quotes."""
    lines = islice(_lines(path), skipped, None)
    line = skipped

    def counted() -> Iterator[str]:
        nonlocal line
        for text in lines:
            line += 1
            yield text

    source = counted()
    rows = csv.reader(
        source, delimiter=delimiter or " ", skipinitialspace=True, strict=True
    )
    while True:
        start = line + 1
        try:
            row = next(rows, None)
        except csv.Error as error:
            raise FileError(
                f"{path}:{start}: unreadable line ({error}). Close the quotation, or "
                "leave the line out."
            ) from None
        if row is None:
            return
        cells = [cell.strip() for cell in row]
        if delimiter is None:
            cells = [cell for cell in cells if cell]
        if cells and cells != [""] and not cells[0].startswith(("#", "%")):
            yield start, cells
