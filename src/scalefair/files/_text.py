"""Delimited text: its bytes, its records, and what the first of them tell."""

from __future__ import annotations

import bz2
import codecs
import csv
import functools
import gzip
import io
import lzma
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import IO, Any, cast

from scalefair.files._source import FileError, reading

# Spellings of a value that is not there.
MISSING = ("", "?", "NA", "na", "N/A", "n/a", "NaN", "nan", "NULL", "null", "<NA>")
_PACKED: dict[bytes, Any]
_PACKED = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?)", re.I | re.A)
_COMMA = re.compile(r"[+-]?\d+,\d+", re.ASCII)
# First words of a list of edges that are a header, whatever stands below.
_EDGE_HEADERS = "source target,src dst,from to,fromnodeid tonodeid,node_1 node_2,"
_EDGE_HEADERS += "node1 node2,id_1 id_2,id1 id2,u v,i j"
_COMMENT = ("#", "%")
_COMMENTS = re.compile(r"^[ \t]*[#%].*\n?", re.M)
# First bytes that tell an encoding; those of UTF-32 start like those of UTF-16.
_MARKS = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32"}
_MARKS |= {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_MARKS[codecs.BOM_UTF8] = "utf-8-sig"
# Spellings of delimiters; None is any white space.
_DELIMITERS = {"tab": "\t", "\\t": "\t", "space": None, " ": None}
# Records that are looked at before a table is read.
_PEEK = 500


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file, or the standard input for ``-``, unpacked if it is packed."""
    is_given = str(path) == "-"
    file: IO[bytes] = io.BytesIO(_stdin()) if is_given else path.open("rb")
    start = file.read(6)
    file.seek(0)
    for magic, unpack in _PACKED.items():
        if start.startswith(magic):
            if is_given:
                return cast(IO[bytes], unpack(file))
            file.close()  # what unpacks it would leave it open
            return cast(IO[bytes], unpack(path))
    return file


def open_text(path: Path, encoding: str) -> io.TextIOWrapper:
    """Open a text; only line feeds end its lines."""
    file: Any = open_bytes(path)
    try:
        return io.TextIOWrapper(file, encoding, newline="\n")
    except LookupError as error:
        file.close()
        raise FileError(f"{path}: {error}. Pass another --encoding.") from error


class EdgeText(io.TextIOBase):
    """Text without the lines between edges that are comments, and their number."""

    def __init__(self, file: IO[str]) -> None:
        self._file, self.n_comments = file, 0

    def read(self, size: int | None = -1) -> str:
        """Return whole lines, of about this size; none at the end."""
        text, n = "", 1
        while n and not text:
            text = self._file.read(size or -1) + self._file.readline()
            text, n = _COMMENTS.subn("", text)
            self.n_comments += n
        return text


@functools.cache
def _stdin() -> bytes:
    return sys.stdin.buffer.read()


def is_number(cell: str) -> bool:
    """Whether a cell is a number; 1_000 and 0x1F, which Python takes, are words."""
    return bool(_NUMBER.fullmatch(cell))


def with_point(cell: str) -> str:
    """Return a number that has a decimal comma with a point."""
    return cell.replace(",", ".") if _COMMA.fullmatch(cell) else cell


def quote(text: str) -> str:
    """Return a text, or its start, as it can stand in a message."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


@dataclass(frozen=True)
class Layout:
    """How the cells of a text are told apart."""

    path: Path
    delimiter: str | None  # None for white space
    decimal: str
    skipped: int  # lines before the first record
    names: list[str] | None  # of a header
    n_columns: int
    notes: list[str]  # what was assumed
    encoding: str
    of_edges: bool  # so that lines between them may be comments

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield line and cells of each record below the header that is not blank."""
        rows = csv.reader(
            islice(_lines(self.path, self.encoding), self.skipped, None),
            delimiter=self.delimiter or " ",
            skipinitialspace=True,
            strict=True,
        )
        is_first = self.names is not None
        while True:
            line = self.skipped + rows.line_num + 1
            try:
                row = next(rows, None)
            except csv.Error as error:
                raise FileError(
                    f"{self.path}:{line}: unreadable line ({error}). Close the "
                    "quotation, or leave the line out."
                ) from None
            if row is None:
                return
            cells = [cell.strip() for cell in row]
            if self.delimiter is None:
                cells = [cell for cell in cells if cell]
            is_comment = self.of_edges and "".join(cells[:1]).startswith(_COMMENT)
            if cells and cells != [""] and not is_comment:
                if not is_first:
                    yield line, cells
                is_first = False

    def refuse_uneven(self, most: int | None = None) -> None:
        """Raise for the first record, among so many, of too few or too many cells."""
        for line, cells in islice(self.records(), most):
            if len(cells) != self.n_columns:
                raise FileError(
                    f"{self.path}:{line}: expected {self.n_columns} fields as in the "
                    f"first line, found {len(cells)}: {quote(','.join(cells))}. "
                    "Correct the line, or give --delimiter or --skip-lines."
                )


def find_layout(
    path: Path,
    *,
    header: bool | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    skip_lines: int = 0,
    encoding: str | None = None,
    missing: Collection[str] = (),
    of_edges: bool = False,
) -> Layout:
    """Look at the first records of a text; what is None is found out."""
    # `of_edges` words above words are no header.
    skipped, notes = skip_lines, []
    with reading(path, "text"), open_bytes(path) as file:
        start = file.read(4)
    mark = next((name for mark, name in _MARKS.items() if start.startswith(mark)), None)
    if mark not in (None, encoding, "utf-8-sig"):
        notes.append(f"{path}: was read as {mark}, by the mark at its start.")
    if not mark and not encoding and b"\0" in start:
        raise FileError(
            f"{path}: no text, or UTF-16 without its mark: pass --encoding utf-16-le."
        )
    encoding = mark or encoding or "utf-8"
    for line in islice(_lines(path, encoding), skip_lines, None):
        if line.strip() and not line.startswith(_COMMENT):
            break
        skipped += 1
    else:
        raise FileError(f"{path}: is empty: it has no rows.")
    if "\r" in line.strip("\r\n"):
        raise FileError(
            f"{path}: its lines end in carriage returns alone. Save it with line feeds."
        )
    if delimiter is None:
        delimiter = next((mark for mark in "\t;,|" if mark in line), None)
    delimiter = _DELIMITERS.get(str(delimiter), delimiter)
    if len(delimiter or " ") != 1 or decimal not in (None, ".", ","):
        raise FileError(
            f"{path}: a delimiter is one character, tab or space, and a decimal mark a "
            f"point or a comma, not {delimiter!r} and {decimal!r}."
        )
    content: Any = notes, encoding, of_edges
    layout = Layout(path, delimiter, ".", skipped, None, 0, *content)
    found = list(islice(layout.records(), _PEEK))
    top, first = found[0]
    records = [["" if c in missing else c for c in record] for _, record in found]
    if decimal is None:
        cells = [cell for record in records[1:] for cell in record]
        commas = [cell for cell in cells if _COMMA.fullmatch(cell)]
        points = any("." in cell and is_number(cell) for cell in cells)
        decimal = "," if commas and delimiter != "," and not points else "."
        if decimal == ",":
            shown = f"decimal commas were assumed, as in {commas[0]}"
            notes.append(f"{path}: {shown}; else pass --decimal.")
    if decimal == ",":
        records = [[with_point(cell) for cell in record] for record in records]
    if header is None:
        header, doubt = _is_header(records, of_edges)
        if doubt:
            taken = "data; if it is a header, pass --header"
            taken = "the header; else pass --no-header" if header else taken
            shown = quote(",".join(first))
            notes.append(f"{path}: the first line, {shown}, was taken for {taken}.")
    names = [" ".join(name.split()) for name in first] if header else None
    if names is not None and len(records) == 1:
        raise FileError(f"{path}: has no rows below the header on line {top}.")
    if twice := repeated(names or []):
        raise FileError(
            f"{path}:{top}: several columns are named {twice}. Rename them; if the "
            "line is no header, pass --no-header."
        )
    layout = replace(layout, decimal=decimal, names=names, n_columns=len(first))
    layout.refuse_uneven(_PEEK)
    return layout


def repeated(names: Sequence[str]) -> str:
    """Return the first name that stands there twice, quoted, if any does."""
    return next((repr(name) for name in names if names.count(name) > 1), "")


def _is_header(records: list[list[str]], of_edges: bool) -> tuple[bool, bool]:
    """Whether the first record is a header, and whether that is doubtful.

    It differs in kind from all others: a word above numbers, or numbers that count up
    above fractions, or beside a word that does not come again.
    """
    first, others = records[0], records[1:]
    if of_edges and " ".join(first[:2]).lower() in _EDGE_HEADERS.split(","):
        return True, False
    columns = [
        [record[j] for record in others if j < len(record) and record[j] not in MISSING]
        for j in range(len(first))
    ]
    numeric = [bool(column) and all(map(is_number, column)) for column in columns]
    at = [j for j, cell in enumerate(first) if is_number(cell)]
    numbers = [first[j] for j in at]
    words = [j for j, c in enumerate(first) if j not in at and c not in MISSING]
    new = bool(words) and not any(first[j] in columns[j] for j in words)
    if any(numeric[j] for j in words) and not (numbers and of_edges):
        return True, bool(numbers)
    if len(set(first)) < len(first) or not all(first[1:]):
        return False, False
    if not numbers and of_edges:
        return False, new
    if not numbers:
        return True, not any(numeric)
    if of_edges or not all(cell.isdecimal() for cell in numbers):
        return False, new and len(others) > 2 and not of_edges
    steps = {int(b) - int(a) for a, b in pairwise(numbers)}
    rises = steps == {1}
    fractions = not any(cell.isdecimal() for j in at for cell in columns[j])
    if rises + fractions + new > 1:
        return True, True
    return False, rises or (new and len(others) > 2)


def _lines(path: Path, encoding: str) -> Iterator[str]:
    name, number = encoding.upper().removesuffix("-SIG"), 0
    with reading(path, f"{name} text"), open_text(path, encoding) as file:
        try:
            for line in file:
                number += 1
                yield line
        except UnicodeDecodeError as error:
            number += 1 + error.object.count(b"\n", 0, error.start)
            before, after = error.object[: error.start], error.object[error.start :]
            part = before.split(b"\n")[-1][-20:] + after.split(b"\n")[0][:20]
            shown = quote(part.decode("cp1252", "replace").strip())
            raise FileError(
                f"{path}:{number}: not {name} text. In Windows-1252 (Latin-1) it says "
                f"{shown}: if that is right pass --encoding cp1252, else another one."
            ) from None
