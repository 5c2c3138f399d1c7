"""Rows with labels and groups, as the readers of ``scalefair classify`` give them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from scalefair.cli._errors import Failure
from scalefair.cli._group_reader import check_group_names, read_groups
from scalefair.cli._rows import Rows
from scalefair.cli._text_table import is_integer, is_number

__all__ = [
    "LabelledRows",
    "Request",
    "Schema",
    "as_values",
    "check_groups",
    "check_roles",
    "listed",
    "read_column_file",
    "require_target",
]


@dataclass(frozen=True)
class Request:
    """What the options say about a file of rows."""

    target: str | None
    groups: str
    folder: Path
    header: bool | None = None
    id_column: str | None = None
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    keep_groups: bool = False
    target_header: bool | None = None
    groups_header: bool | None = None
    limit: int | None = None  # bytes above which arrays are read in blocks, if any
    table_limit: int | None = None  # bytes above which tables are kept on disk


@dataclass(frozen=True)
class Schema:
    """Features of the rows for training, by which others are read.

    Attributes
    ----------
    columns : list of str
        Columns that become features: first those of numbers, then those of words.
    positions : list of int
        Where they are in the file, counted from 0.
    categories : list of ndarray
        For each column of words its values, sorted.
    n_columns : int
        Columns of the file, features or not.
    from_files : tuple of str
        Options, among ``"--target"`` and ``"--groups"``, that name a file.
    zero_based : bool
        Whether the feature numbers of an svmlight file start at 0.
    named : bool
        Whether columns have names, or are known by their numbers.
    is_table : bool
        Whether a column may hold words.
    """

    columns: list[str]
    positions: list[int]
    categories: list[NDArray[Any]]
    n_columns: int
    from_files: tuple[str, ...]
    zero_based: bool = False
    named: bool = False
    is_table: bool = False

    @property
    def n_numbers(self) -> int:
        """Number of columns that hold numbers."""
        return len(self.columns) - len(self.categories)


@dataclass(frozen=True)
class LabelledRows:
    """Rows before they are encoded.

    Attributes
    ----------
    path : Path
        The file.
    numbers : {ndarray, csr_array, RowReader} of shape (m, n_numbers)
        Columns of numbers.
    words : list of ndarray of shape (m,), int32
        For each column of words the category of each row, -1 if it is unknown.
    labels, groups : ndarray of shape (m,)
        Integers if all are, else numbers if all are, else strings.
    labels_from, groups_from : str
        Where they are from, for messages.
    notes : list of str
        What the user should know.
    """

    path: Path
    numbers: Any
    words: list[NDArray[np.int32]]
    labels: NDArray[Any]
    groups: NDArray[Any]
    labels_from: str
    groups_from: str
    notes: list[str] = field(default_factory=list)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.labels)


def as_values(words: Sequence[Any], kind: str | None = None) -> NDArray[Any]:
    """Return words as integers if all are, else as numbers, else as strings.

    Parameters
    ----------
    words : sequence of str
        What was read.
    kind : str or None, default=None
        Kind of the dtype that other rows had; the words are given the same if they
        can be.
    """
    distinct = list(dict.fromkeys(words))
    if kind in (None, "i", "u") and all(map(is_integer, distinct)):
        return np.array([int(word) for word in words], dtype=np.int64)
    if kind in (None, "i", "u", "f"):
        known = {word: float(word) for word in distinct if is_number(word)}
        if len(known) == len(distinct) and np.isfinite(list(known.values())).all():
            return np.array([known[word] for word in words])
    return np.array(words, dtype=np.str_)


def read_column_file(
    path: Path,
    rows: Rows,
    option: str,
    header: bool | None,
    kind: str | None = None,
) -> tuple[NDArray[Any], list[str]]:
    """Read labels or groups from a file of their own.

    Parameters
    ----------
    path : Path
        See `_group_reader.read_groups`.
    rows : Rows
        The rows, whose ids may be named.
    option : {"--target", "--groups"}
        What is read.
    header : bool or None
        Whether the file starts with a header.
    kind : str or None, default=None
        Kind of the dtype that other rows had, see `as_values`.

    Returns
    -------
    values : ndarray of shape (m,)
        Integers if all are, else numbers if all are, else strings; or what a
        ``.npy`` file holds.
    notes : list of str
        What the user should know.
    """
    try:
        values, n_unknown = read_groups(path, rows, header=header)
    except Failure as error:
        if option == "--groups":
            raise
        # The reader speaks of groups; the path keeps its spelling.
        said = error.message.removeprefix(f"{path}")
        kept = error.message[: len(error.message) - len(said)]
        said = said.replace("--groups-header", "--target-header")
        raise Failure(kept + said.replace("group", "label")) from error
    if values.dtype.kind == "O":  # words of a text
        values = as_values(values.tolist(), kind)
    notes = []
    if n_unknown:
        notes.append(
            f"{path}: {n_unknown} id(s) are not in {rows.path} and were ignored."
        )
    return values, notes


def check_roles(rows: LabelledRows, like: LabelledRows | None = None) -> None:
    """Refuse labels that are not two, or groups that cannot be compared.

    Parameters
    ----------
    rows : LabelledRows
        The rows.
    like : LabelledRows or None, default=None
        Rows for training, whose labels and groups are the known ones.

    Raises
    ------
    Failure
        If they do not fit.
    """
    check_groups(rows)
    labels, groups = np.unique(rows.labels), np.unique(rows.groups)
    if like is not None:
        _refuse_unknown(rows.labels_from, "label", labels, np.unique(like.labels))
        _refuse_unknown(rows.groups_from, "group", groups, np.unique(like.groups))
        return
    if len(labels) == 1:
        raise Failure(
            f"{rows.labels_from}: all rows have the label {listed(labels)}, but two "
            "labels are to be told apart. Add rows of another, or choose other labels."
        )
    if len(labels) > 2:
        raise Failure(
            f"{rows.labels_from}: has {len(labels):,} different labels "
            f"({listed(labels)}), but two are to be told apart. Join labels, leave "
            "rows out, or choose other labels."
        )
    # As scikit-learn has it.
    if labels.dtype.kind == "f" and (labels % 1 != 0).any():
        raise Failure(
            f"{rows.labels_from}: the labels {listed(labels)} are fractions. Labels "
            "are whole numbers or words, such as 0 and 1."
        )


def check_groups(rows: LabelledRows) -> None:
    """Refuse groups that cannot be compared.

    Raises
    ------
    Failure
        If there is one, or so many that they are hardly groups.
    """
    check_group_names(np.unique(rows.groups).tolist(), rows.groups_from)


def listed(values: NDArray[Any], most: int = 8) -> str:
    """Return the first of some values, for a message."""
    shown = ", ".join(repr(value) for value in values[:most].tolist())
    return f"{shown}, ..." if len(values) > most else shown


def _refuse_unknown(
    where: str, what: str, found: NDArray[Any], known: NDArray[Any]
) -> None:
    names = set(known.tolist())
    unknown = [value for value in found.tolist() if value not in names]
    if unknown:
        raise Failure(
            f"{where}: the {what} {unknown[0]!r} does not occur in TRAIN (known: "
            f"{listed(known)}). Leave such rows out, or train with some."
        )


def require_target(request: Request, path: Path) -> str:
    """Return the target, or say that the option is missing."""
    if request.target is None:
        raise click.UsageError(
            f"Missing option '--target': {path} needs a column, or a file, with the "
            "label of each row."
        )
    return request.target
