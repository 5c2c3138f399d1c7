"""Read rows with labels and groups from a table, in which columns may be words."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair.cli._classify_columns import (
    Roles,
    column_name,
    find_roles,
    known_columns,
    learn_columns,
)
from scalefair.cli._classify_rows import (
    LabelledRows,
    Request,
    Schema,
    as_values,
    read_column_file,
)
from scalefair.cli._classify_words import Vocabulary
from scalefair.cli._errors import Failure
from scalefair.cli._feature_reader import open_table
from scalefair.cli._feature_store import RowStore
from scalefair.cli._feature_table import Block, Table
from scalefair.cli._feature_text import Selection, as_ids
from scalefair.cli._rows import Rows

__all__ = ["Chooser", "read_table"]

# More are hardly categories: ids, or free text.
_MAX_CATEGORIES = 1000

# Positions of the columns of numbers, and of those of words.
Chooser = Callable[[Table, Roles, Request], tuple[list[int], list[int]]]


def read_table(
    path: Path,
    request: Request,
    like: tuple[Schema, LabelledRows] | None = None,
    *,
    choose: Chooser = learn_columns,
) -> tuple[Schema, LabelledRows]:
    """Read a table of text (csv, tsv, txt; .gz) or a parquet file.

    Parameters
    ----------
    path : Path
        The file.
    request : Request
        Which columns are what.
    like : tuple of Schema and LabelledRows, or None, default=None
        Those of the rows for training, if these are others.
    choose : callable, default=learn_columns
        Which columns are features, unless those of other rows are known.

    Raises
    ------
    Failure
        If the file cannot be read or does not hold what it should.
    click.UsageError
        If options do not fit the table.
    """
    table = open_table(path, request.header)
    roles = find_roles(table, request)
    if like is None:
        numbers, words = choose(table, roles, request)
        vocabularies: list[Vocabulary] = [Vocabulary() for _ in words]
    else:
        numbers, words = known_columns(table, like[0])
        vocabularies = [Vocabulary(known) for known in like[0].categories]
    store = RowStore(request.folder, request.table_limit)
    read = _read(table, numbers, words, roles, vocabularies, store)
    if like is None:
        found = [vocabulary.sort() for vocabulary in vocabularies]
        codes = [
            order[code] for (_, order), code in zip(found, read.codes, strict=True)
        ]
        _refuse_ids(table, words, [categories for categories, _ in found])
        schema = Schema(
            [column_name(table, i) for i in [*numbers, *words]],
            [*numbers, *words],
            [categories for categories, _ in found],
            table.n_columns,
            _options_of_files(roles),
            named=table.names is not None,
            is_table=True,
        )
    else:
        schema, codes = like[0], read.codes
    kinds = (None, None) if like is None else _kinds(like[1])
    labels, labels_from, notes = _role(
        read, table, request, roles.target, "--target", kinds[0]
    )
    groups, groups_from, more = _role(
        read, table, request, roles.group, "--groups", kinds[1]
    )
    notes += more + _unknown_words(table, words, vocabularies, codes)
    return schema, LabelledRows(
        path, read.X, codes, labels, groups, labels_from, groups_from, notes
    )


@dataclass(frozen=True)
class _Read:
    """What the blocks of a table hold."""

    X: NDArray[np.float64]
    codes: list[NDArray[np.int32]]
    texts: dict[int, list[str]]  # columns of labels and groups
    rows: Rows


def _read(
    table: Table,
    numbers: list[int],
    words: list[int],
    roles: Roles,
    vocabularies: list[Vocabulary],
    store: RowStore,
) -> _Read:
    kept = [i for i in (roles.target, roles.group) if i is not None]
    # Ids are of use if a file may name them.
    ids = [roles.ids] if roles.ids is not None and len(kept) < 2 else []
    columns = list(dict.fromkeys([*words, *kept, *ids]))
    selection = Selection(numbers, columns, roles.ids is not None, can_drop=True)
    lines = array("q")
    texts: dict[int, list[str]] = {i: [] for i in [*kept, *ids]}
    codes: list[list[NDArray[np.int32]]] = [[] for _ in words]
    n_rows = 0
    with store:
        for block in _blocks(table, selection):
            read = dict(zip(columns, block.texts, strict=True))
            for column in (*words, *kept):
                _refuse_empty(table, column, read[column], block, column in kept)
            for column, blocks, vocabulary in zip(
                words, codes, vocabularies, strict=True
            ):
                blocks.append(vocabulary.encode(read[column]))
            for column, collected in texts.items():
                collected.extend(read[column])
            if ids:
                lines.extend(block.numbers)
            store.append(block.X)
            n_rows += len(block.X)
        if not n_rows:
            raise Failure(f"{table.path}: is empty: it has no rows.")
        X = store.matrix()
    node_ids = np.arange(n_rows, dtype=np.int64)
    if ids:
        node_ids = as_ids(texts[ids[0]], lines, table.place, table.unit)
    rows = Rows(table.path, X, node_ids, named=bool(ids))
    return _Read(X, [np.concatenate(blocks) for blocks in codes], texts, rows)


def _blocks(table: Table, selection: Selection) -> Any:
    """Blocks of rows; a word among numbers may also be declared as one."""
    try:
        yield from table.blocks(selection)
    except Failure as error:
        if "is not a number. " in error.message:
            raise Failure(
                f"{error.message} Or pass --categorical for a column of categories."
            ) from error
        raise


def _refuse_empty(
    table: Table, column: int, words: list[str], block: Block, is_role: bool
) -> None:
    if "" in words:
        where = table.where(block.numbers[words.index("")], column)
        drop = (
            ""
            if is_role
            else f", or the column with --drop {column_name(table, column)}"
        )
        raise Failure(
            f"{where} has no value. Give it one, for example `unknown`, or leave the "
            f"row out{drop}."
        )


def _role(
    read: _Read,
    table: Table,
    request: Request,
    column: int | None,
    option: str,
    kind: str | None,
) -> tuple[NDArray[Any], str, list[str]]:
    """Values, origin and notes of the labels or the groups."""
    given = request.target if option == "--target" else request.groups
    assert given is not None
    if column is not None:
        values = as_values(read.texts[column], kind)
        return values, f"column {given} of {table.path}", []
    is_target = option == "--target"
    header = request.target_header if is_target else request.groups_header
    values, notes = read_column_file(Path(given), read.rows, option, header, kind)
    return values, given, notes


def _refuse_ids(
    table: Table, words: Sequence[int], categories: Sequence[NDArray[Any]]
) -> None:
    for column, values in zip(words, categories, strict=True):
        if len(values) > _MAX_CATEGORIES:
            name = column_name(table, column)
            raise Failure(
                f"{table.path}: column {name} has {len(values):,} different words, too "
                f"many for categories (at most {_MAX_CATEGORIES:,}). Leave it out with "
                f"--drop {name}, or join values."
            )


def _unknown_words(
    table: Table,
    words: Sequence[int],
    vocabularies: Sequence[Vocabulary],
    codes: Sequence[NDArray[np.int32]],
) -> list[str]:
    notes = []
    for column, vocabulary, code in zip(words, vocabularies, codes, strict=True):
        if vocabulary.unknown:
            name, example = column_name(table, column), min(vocabulary.unknown)
            notes.append(
                f"{table.path}: column {name}: {int((code < 0).sum())} row(s) "
                f"have a value that does not occur in TRAIN, such as "
                f"{example!r}; it counts as none of the categories."
            )
    return notes


def _options_of_files(roles: Roles) -> tuple[str, ...]:
    given = (("--target", roles.target), ("--groups", roles.group))
    return tuple(option for option, column in given if column is None)


def _kinds(rows: LabelledRows) -> tuple[str, str]:
    return rows.labels.dtype.kind, rows.groups.dtype.kind
