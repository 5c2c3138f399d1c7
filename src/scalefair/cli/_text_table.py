"""Lines and fields of text tables, with the line number of whatever is wrong."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, cast

from scalefair.cli._errors import Failure, blame_file

__all__ = ["ID_NAMES", "data_lines", "sniff_delimiter", "split_fields"]

# Names of a column that holds ids, in a header.
ID_NAMES = {"id", "ids", "node", "node_id", "nodeid", "user", "user_id", "vertex"}

_COMMENT = ("#", "%")


def data_lines(path: Path) -> Generator[tuple[int, str], None, None]:
    """Yield number (from 1) and text of each line that is not blank or a comment.

    Comment lines start with ``#`` or ``%``. A name ending in ``.gz`` is
    decompressed; a byte order mark is dropped.

    Raises
    ------
    Failure
        If the file cannot be read, is damaged, or is not UTF-8.
    """
    number = 0
    with blame_file(path), closing(_open(path)) as file:
        try:
            for number, raw in enumerate(file, start=1):
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                content = line.strip()
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


def split_fields(line: str, delimiter: str | None) -> list[str]:
    """Split a line into fields without the blanks around them.

    Fields between tabs or commas may be in double quotes.

    Raises
    ------
    ValueError
        If a quotation is not closed.
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
        raise ValueError(str(error)) from error


def _open(path: Path) -> BinaryIO:
    if path.name.lower().endswith(".gz"):
        return cast(BinaryIO, gzip.open(path, "rb"))
    return open(path, "rb")
