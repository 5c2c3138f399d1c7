"""Tables in csv files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

__all__ = ["write_table"]


def write_table(
    file: BinaryIO, header: Sequence[str], rows: Iterable[Iterable[Any]]
) -> None:
    """Write rows below a header, in UTF-8; the file stays open."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    text.detach()  # flushes, and leaves the file open
