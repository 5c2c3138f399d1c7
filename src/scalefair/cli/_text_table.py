"""Lines and fields of text tables, with the line number of whatever is wrong."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

from scalefair.cli._errors import Failure, blame_file

__all__ = [
    "ID_NAMES",
    "data_lines",
    "is_integer",
    "is_number",
    "quote",
    "sniff_delimiter",
    "split_line",
]

# Names of a column that holds ids, in a header.
ID_NAMES = {"id", "ids", "node", "node_id", "nodeid", "user", "user_id", "vertex"}

_COMMENT = ("#", "%")
_INTEGER = re.compile(r"[+-]?[0-9]{1,30}", re.ASCII)


def data_lines(path: Path) -> Generator[tuple[int, str], None, None]:
    """Yield number (from 1) and text of each line that is not blank or a comment.

    Comment lines start with ``#`` or ``%``. A name ending in ``.gz`` is
    decompressed; a byte order mark is dropped.

    Raises
    ------
    Failure
        If the file cannot be read, is damaged, is not UTF-8, or has no line feeds.
    """
    number = 0
    with blame_file(path), closing(_open(path)) as file:
        try:
            for number, raw in enumerate(file, start=1):
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                content = line.strip()
                if number == 1 and "\r" in content:
                    raise Failure(
                        f"{path}: its lines end in carriage returns alone, as on old "
                        "Macs. Save it with line feeds."
                    )
                if content and not content.startswith(_COMMENT):
                    # A tab or comma at either end delimits an empty field.
                    yield number, line.strip(" \r\n")
        except UnicodeDecodeError:
            raise Failure(
                f"{path}:{number}: not UTF-8 text. Save the file as UTF-8, or check "
                "that its extension fits its format."
            ) from None
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise Failure(
                f"{path}: damaged gzip file ({error}). Compress or copy it again."
            ) from None


def sniff_delimiter(line: str) -> str | None:
    """Return the delimiter of a line: tab, comma, semicolon, None for white space."""
    return next((mark for mark in "\t,;" if mark in line), None)


def split_line(path: Path, number: int, line: str, delimiter: str | None) -> list[str]:
    """Split a line into fields without the blanks around them.

    Fields between tabs or commas may be in double quotes.

    Raises
    ------
    Failure
        If a quotation is not closed; it names the file and the line.
    """
    if delimiter is None:
        return line.split()
    if '"' not in line:
        return [field.strip() for field in line.split(delimiter)]
    try:
        rows = csv.reader(
            [line], delimiter=delimiter, skipinitialspace=True, strict=True
        )
        return [field.strip() for field in next(rows)]
    except csv.Error as error:
        raise Failure(
            f"{path}:{number}: unreadable line ({error}): {quote(line)}. Close the "
            "quotation, or leave the line out."
        ) from None


def is_integer(field: str) -> bool:
    """Whether a field is an integer that fits 64 bits."""
    return bool(_INTEGER.fullmatch(field)) and -(2**63) <= int(field) < 2**63


def is_number(field: str) -> bool:
    """Whether a field is a number; 1_000, which Python takes for one, is a name."""
    if "_" in field:
        return False
    try:
        float(field)
    except ValueError:
        return False
    return True


def quote(text: str) -> str:
    """Return a text, or its start, as it can stand in a message."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def _open(path: Path) -> BinaryIO | gzip.GzipFile:
    if path.name.lower().endswith(".gz"):
        return gzip.open(path, "rb")
    return open(path, "rb")
