"""Read rows of features and the group of each row, in any of the formats."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from scalefair.cli._block_files import open_blocks
from scalefair.cli._errors import Failure
from scalefair.cli._feature_columns import Columns, choose_columns
from scalefair.cli._feature_store import RowStore
from scalefair.cli._feature_table import Block, Table, TextTable
from scalefair.cli._feature_text import as_ids
from scalefair.cli._group_reader import check_group_names, read_groups
from scalefair.cli._matrix_file import read_sparse
from scalefair.cli._row_readers import as_rows, open_npy
from scalefair.cli._rows import Rows

__all__ = ["TABLES", "FeatureRows", "open_table", "read_features"]

TABLES = (".csv", ".tsv", ".txt")


@dataclass(frozen=True)
class FeatureRows(Rows):
    """Rows of features, their groups, and the names of the columns.

    `groups` has an entry for each row, `group_counts` the number of rows of each
    group; `groups_from` says where the groups are from, for messages.
    """

    feature_names: list[str]
    groups: NDArray[Any]
    group_counts: dict[Any, int]
    groups_from: str
    n_unknown: int = 0


def read_features(
    path: Path,
    groups: str,
    *,
    folder: Path,
    header: bool | None = None,
    id_column: str | None = None,
    drop: Sequence[str] = (),
    keep_groups: bool = False,
    groups_header: bool | None = None,
    limit: int | None = None,
    table_limit: int | None = None,
) -> FeatureRows:
    """Read rows of features and their groups.

    Parameters
    ----------
    path : Path
        A table in ``.csv``, ``.tsv`` or ``.txt``, also with ``.gz`` added, or in
        ``.parquet``; or an array in ``.npy`` or ``.npz`` (SciPy, sparse).
    groups : str
        Column of a table or, if it has none of this name, a file, see
        `_group_reader.read_groups`.
    folder : Path
        Where large tables are kept in a temporary file.
    header : bool or None, default=None
        Whether a table of text starts with a header; None takes a line without a
        number for one.
    id_column : str or None, default=None
        Column that holds the ids by which a file of groups names the rows.
    drop : sequence of str, default=()
        Columns to leave out.
    keep_groups : bool, default=False
        Whether the column of the groups is a feature as well.
    groups_header : bool or None, default=None
        Whether a file of groups starts with a header.
    limit : int or None, default=None
        Bytes above which an array is not read at once, but in blocks in each pass;
        None reads any array at once.
    table_limit : int or None, default=None
        Bytes (as numbers) above which a table is kept on disk; None for 256 MiB.

    Raises
    ------
    Failure
        If a file cannot be read or does not hold what it should.
    click.UsageError
        If an option is given that does not apply to the format.
    """
    name = path.name.lower()
    if name.removesuffix(".gz").endswith(TABLES) or name.endswith(".parquet"):
        table = open_table(path, header)
        columns = choose_columns(
            table, groups, id_column=id_column, drop=drop, keep_groups=keep_groups
        )
        rows, words = _read_table(table, columns, RowStore(folder, table_limit))
        names = table.names or [f"x{i}" for i in range(table.n_columns)]
        feature_names = [names[i] for i in columns.features]
        if columns.group is not None:
            origin = f"column {groups} of {path}"
            return _with_groups(rows, feature_names, words, origin)
    else:
        _refuse_options_of_tables(id_column, drop, keep_groups)
        rows = _read_array(path, Path(groups), limit)
        feature_names = [f"x{i}" for i in range(rows.n_features)]
    values, n_unknown = read_groups(Path(groups), rows, header=groups_header)
    return _with_groups(rows, feature_names, values, groups, n_unknown)


def open_table(path: Path, header: bool | None) -> Table:
    """Open a table of text, or of parquet, by its extension."""
    if not path.name.lower().endswith(".parquet"):
        return TextTable(path, header)
    from scalefair.cli._feature_parquet import ParquetTable

    return ParquetTable(path)


def _read_table(
    table: Table, columns: Columns, rows: RowStore
) -> tuple[Rows, NDArray[Any]]:
    """Rows, and the groups as words if a column holds them."""
    selection = columns.selection
    table.check(selection)
    numbers = array("q")
    texts: list[list[str]] = [[] for _ in selection.texts]
    n_rows = 0
    with rows as store:
        for block in table.blocks(selection):
            if columns.group is not None:
                _refuse_empty(table, columns.group, block)
            else:
                numbers.extend(block.numbers)
            for column, words in zip(texts, block.texts, strict=True):
                column.extend(words)
            store.append(block.X)
            n_rows += len(block.X)
        if not n_rows:
            raise Failure(f"{table.path}: is empty: it has no rows.")
        X = store.matrix()
    node_ids = np.arange(n_rows, dtype=np.int64)
    named = columns.group is None and columns.ids is not None
    if named:
        node_ids = as_ids(texts[0], numbers, table.place, table.unit)
    groups = texts[-1] if columns.group is not None else []
    return Rows(table.path, X, node_ids, named=named), np.array(groups, dtype=object)


def _refuse_empty(table: Table, column: int, block: Block) -> None:
    words = block.texts[-1]
    if "" in words:
        where = table.where(block.numbers[words.index("")], column)
        raise Failure(
            f"{where} has no value, but holds the groups. Give the row a group, for "
            "example `unknown`, or leave it out."
        )


def _refuse_options_of_tables(
    id_column: str | None, drop: Sequence[str], keep_groups: bool
) -> None:
    for option, given in (
        ("--id-column", id_column is not None),
        ("--drop", bool(drop)),
        ("--keep-groups", keep_groups),
    ):
        if given:
            raise click.UsageError(
                f"{option} applies to tables only; the columns of an array have no "
                "names."
            )


def _read_array(path: Path, groups: Path, limit: int | None) -> Rows:
    name = path.name.lower()
    if name.endswith((".npy", ".npz")):
        reader = open_blocks(path, limit)
        if reader is not None:
            rows = as_rows(path, reader)
        elif name.endswith(".npy"):
            # Finite or not is seen when the rows are used: one pass less.
            rows = as_rows(path, open_npy(path))
        else:
            rows = as_rows(path, read_sparse(path, "value"))
    elif not path.exists():
        raise Failure(f"{path}: no such file. Check the path.")
    else:
        raise Failure(
            f"{path}: unknown extension. Use a table named .csv, .tsv or .txt, with "
            ".gz if compressed, or .parquet, or an array: .npy (numpy.save) or .npz "
            "(scipy.sparse.save_npz)."
        )
    if not groups.exists():
        raise Failure(
            f"{groups}: no such file. The columns of an array have no names: --groups "
            "must be a file with the group of each row."
        )
    return rows


def _with_groups(
    rows: Rows,
    feature_names: list[str],
    groups: NDArray[Any],
    origin: str,
    n_unknown: int = 0,
) -> FeatureRows:
    counts = Counter(groups.tolist())
    check_group_names(list(counts), origin)
    return FeatureRows(
        rows.path,
        rows.matrix,
        rows.node_ids,
        rows.named,
        feature_names,
        groups,
        counts,
        origin,
        n_unknown,
    )
