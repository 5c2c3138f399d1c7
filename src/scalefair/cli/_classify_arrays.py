"""Read rows from arrays, with labels and groups from files of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from numpy.typing import NDArray

from scalefair.cli._block_files import open_blocks, refuse_not_finite
from scalefair.cli._classify_rows import (
    LabelledRows,
    Request,
    Schema,
    read_column_file,
    require_target,
)
from scalefair.cli._errors import Failure
from scalefair.cli._matrix_file import read_sparse
from scalefair.cli._row_readers import as_rows, open_npy
from scalefair.cli._rows import Rows

__all__ = ["ARRAYS", "read_array"]

ARRAYS = (".npy", ".npz")


def read_array(
    path: Path, request: Request, like: tuple[Schema, LabelledRows] | None = None
) -> tuple[Schema, LabelledRows]:
    """Read an array of numpy.save, or a sparse one of save_npz.

    A large one is read in blocks; whether all values are finite is then seen in the
    passes that use them.

    Parameters
    ----------
    path : Path
        The file.
    request : Request
        Which files hold labels and groups.
    like : tuple of Schema and LabelledRows, or None, default=None
        Those of the rows for training, if these are others.

    Raises
    ------
    Failure
        If a file cannot be read or does not hold what it should.
    click.UsageError
        If options do not fit the format.
    """
    _refuse_options(request)
    target = require_target(request, path)
    reader = open_blocks(path, request.limit)
    if reader is not None:
        rows = as_rows(path, reader)
    elif path.name.lower().endswith(".npy"):
        rows = as_rows(path, open_npy(path))
        refuse_not_finite(path, rows.matrix)
    else:
        rows = as_rows(path, read_sparse(path, "value"))
    n = rows.n_features
    if like is not None and n != like[0].n_columns:
        raise Failure(
            f"{path}: has {n} features, but TRAIN has {like[0].n_columns}. Both need "
            "the same columns."
        )
    schema = Schema(
        [f"x{i}" for i in range(n)], list(range(n)), [], n, ("--target", "--groups")
    )
    known = None if like is None else like[1]
    labels, notes = _read(
        target,
        rows,
        "--target",
        request.target_header,
        None if known is None else known.labels.dtype.kind,
    )
    groups, more = _read(
        request.groups,
        rows,
        "--groups",
        request.groups_header,
        None if known is None else known.groups.dtype.kind,
    )
    return schema, LabelledRows(
        path, rows.matrix, [], labels, groups, target, request.groups, notes + more
    )


def _read(
    given: str, rows: Rows, option: str, header: bool | None, kind: str | None
) -> tuple[NDArray[Any], list[str]]:
    if not Path(given).exists():
        raise Failure(
            f"{given}: no such file. The columns of an array have no names: {option} "
            "must be a file with one value for each row."
        )
    return read_column_file(Path(given), rows, option, header, kind)


def _refuse_options(request: Request) -> None:
    for option, given in (
        ("--id-column", request.id_column is not None),
        ("--drop", bool(request.drop)),
        ("--categorical", bool(request.categorical)),
        ("--keep-groups", request.keep_groups),
        ("--header", request.header is not None),
    ):
        if given:
            raise click.UsageError(
                f"{option} does not apply to arrays: their columns have no names."
            )
