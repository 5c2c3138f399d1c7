"""Read rows of features from a table of text."""

from __future__ import annotations

import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair.cli._edge_list import is_edge_header
from scalefair.cli._errors import Failure
from scalefair.cli._feature_text import (
    Layout,
    Selection,
    as_ids,
    find_column,
    find_layout,
    has_ids,
    parse_lines,
    row_lines,
)
from scalefair.cli._rows import Rows

__all__ = ["read_row_table"]


def read_row_table(
    path: Path, *, header: bool | None = None, id_column: str | None = None
) -> Rows:
    """Read rows of numbers, one per line.

    The delimiter (tab, comma or white space) is that of the first line. Lines that
    start with ``#`` or ``%`` are comments.

    Parameters
    ----------
    path : Path
        Text file; with a name ending in ``.gz``, compressed.
    header : bool or None, default=None
        Whether the first line is a header. None takes a line without a number for
        one.
    id_column : str or None, default=None
        Column that holds the ids of the rows: its name or, if there is no header,
        its number from 1. None takes the first column if the header calls it
        ``id``, ``node_id``, ``user_id`` or the like, or gives it no name; without
        such a column ids are row numbers from 0. Ids are integers if all are, else
        strings.

    Returns
    -------
    Rows

    Raises
    ------
    Failure
        If the file or a line cannot be read, a value is missing or not a finite
        number, lines differ in length, or two rows have the same id.
    """
    layout = find_layout(path, header)
    if header is None:
        _refuse_edges(layout)
    id_at = _find_id_column(layout, id_column)
    if layout.n_columns == (id_at is not None):
        raise Failure(f"{path}: has ids, but no column of numbers beside them.")
    X = _parse_numbers(path, layout) if id_at is None else None
    if X is not None and np.isfinite(X).all():
        return Rows(path, X, np.arange(len(X), dtype=np.int64), named=False)
    X, node_ids = _parse_lines(layout, id_at)
    return Rows(path, X, node_ids, named=id_at is not None)


def _refuse_edges(layout: Layout) -> None:
    names = layout.names
    if names is not None and len(names) in (2, 3) and is_edge_header(names):
        raise Failure(
            f"{layout.path}:{layout.header_at}: `{', '.join(names)}` is the header of "
            "an edge list, but rows of features are expected. For a graph leave "
            "--affinity out; if these are features, pass --header."
        )


def _find_id_column(layout: Layout, id_column: str | None) -> int | None:
    if id_column is None:
        return 0 if has_ids(layout.names) else None
    return find_column(
        layout.path, layout.names, layout.n_columns, id_column, "--id-column"
    )


def _parse_numbers(path: Path, layout: Layout) -> NDArray[np.float64] | None:
    """Parse a table without blemish in C; None for any other."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            X = np.loadtxt(
                path,
                comments=None,
                delimiter=layout.delimiter,
                skiprows=layout.first - 1,
                encoding="utf-8-sig",
                ndmin=2,
            )
    # Whatever is the matter, the parser by lines can tell where.
    except (ValueError, OSError, EOFError, zlib.error, Warning):
        return None
    return X if X.shape[1] == layout.n_columns else None


def _parse_lines(
    layout: Layout, id_at: int | None
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Parse any table line by line; numbers and ids."""
    selection = Selection(
        features=[i for i in range(layout.n_columns) if i != id_at],
        texts=[] if id_at is None else [id_at],
        ids_known=id_at is not None,
    )
    X, texts, numbers = parse_lines(layout, row_lines(layout), selection)
    if id_at is None:
        return X, np.arange(len(X), dtype=np.int64)
    path = layout.path
    return X, as_ids(texts[0], numbers, lambda n: f"{path}:{n}", "on line")
