"""Read rows with labels from files in the format of svmlight and LIBSVM."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair.cli._classify_blocks import (
    count_beyond,
    open_svmlight,
    read_feature,
    resize,
    select,
)
from scalefair.cli._classify_rows import (
    LabelledRows,
    Request,
    Schema,
    read_column_file,
)
from scalefair.cli._errors import Failure, blame_file
from scalefair.cli._rows import Rows
from scalefair.cli._text_table import data_lines, is_number

__all__ = ["SVMLIGHT", "read_svmlight"]

SVMLIGHT = (".svm", ".svmlight", ".libsvm")
_DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile)


def read_svmlight(
    path: Path, request: Request, like: tuple[Schema, LabelledRows] | None = None
) -> tuple[Schema, LabelledRows]:
    """Read lines ``label number:value number:value ...``.

    Parameters
    ----------
    path : Path
        The file; with a name ending in ``.gz``, compressed.
    request : Request
        Which features are left out, and which one, or which file, holds the groups.
    like : tuple of Schema and LabelledRows, or None, default=None
        Those of the rows for training, if these are others.

    Raises
    ------
    Failure
        If the file cannot be read or does not hold what it should.
    click.UsageError
        If options do not fit the format.
    """
    _refuse_options(request)
    X, labels, zero_based = _load(path, request, like)
    group, groups_from = _find_group(path, request, X.shape[1], zero_based, like)
    notes: list[str] = []
    if group is None:
        groups_from = request.groups
        rows = Rows(path, X, np.arange(X.shape[0]), named=False)
        header = request.groups_header
        kind = None if like is None else like[1].groups.dtype.kind
        groups, notes = read_column_file(
            Path(request.groups), rows, "--groups", header, kind
        )
    else:
        groups = _as_integers(read_feature(path, X, group))
    if like is None:
        schema = _learn(path, request, X.shape[1], group, zero_based)
    else:
        schema = like[0]
        notes += _note_beyond(path, X, schema)
        X = resize(X, schema.n_columns)
    numbers = select(X, schema.positions) if len(schema.positions) < X.shape[1] else X
    labels_from = f"the labels of {path}"
    return schema, LabelledRows(
        path, numbers, [], labels, groups, labels_from, groups_from, notes
    )


def _refuse_options(request: Request) -> None:
    for option, given in (
        ("--target", request.target is not None),
        ("--id-column", request.id_column is not None),
        ("--categorical", bool(request.categorical)),
        ("--header", request.header is not None),
    ):
        if given:
            why = (
                "the label is the first number of each line"
                if option == "--target"
                else "features have numbers, not names"
            )
            raise click.UsageError(
                f"{option} does not apply to files in svmlight format: {why}."
            )


def _load(
    path: Path, request: Request, like: tuple[Schema, LabelledRows] | None
) -> tuple[Any, NDArray[Any], bool]:
    """Rows, labels, and whether features count from 0."""
    with blame_file(path), open(path, "rb") as file:
        empty = not file.read(1)
    if empty:
        raise Failure(f"{path}: is empty: it has no rows.")
    known = None if like is None else like[0].zero_based
    try:
        reader = open_svmlight(path, request.limit, known)
    except ValueError as error:
        raise _bad_line(path) or Failure(str(error)) from error
    if reader is None:
        X, y, zero_based = _load_at_once(path, known)
    else:
        X, y, zero_based = reader, reader.labels, reader.zero_based
        _check_zero(path, zero_based, known)
    if not X.shape[1]:
        raise Failure(f"{path}: has labels, but no features `number:value`.")
    labels = np.flatnonzero(~np.isfinite(y))
    if labels.size:
        raise Failure(f"{path}: the label of row {labels[0]} (from 0) is not finite.")
    return X, _as_integers(y), zero_based


def _load_at_once(
    path: Path, zero_based: bool | None
) -> tuple[sparse.csr_array, NDArray[np.float64], bool]:
    from sklearn.datasets import load_svmlight_file

    with blame_file(path):
        try:
            loaded, y = load_svmlight_file(str(path), zero_based=True)
        except _DAMAGE as error:
            raise Failure(
                f"{path}: damaged gzip file ({error}). Compress or copy it again."
            ) from error
        except (ValueError, OverflowError) as error:
            raise _bad_line(path) or Failure(
                f"{path}: not in svmlight format ({error})."
            ) from error
    X = sparse.csr_array(loaded)
    if not X.shape[0]:
        raise Failure(f"{path}: is empty: it has no rows.")
    _refuse_not_finite(path, X)
    has_zero = bool(X.nnz) and int(X.indices.min()) == 0
    _check_zero(path, has_zero, zero_based)
    if zero_based is None:
        zero_based = has_zero
    if not zero_based:
        X = sparse.csr_array(
            (X.data, X.indices - 1, X.indptr), shape=(X.shape[0], X.shape[1] - 1)
        )
    return X, y, zero_based


def _check_zero(path: Path, has_zero: bool, zero_based: bool | None) -> None:
    if has_zero and zero_based is False:
        raise Failure(
            f"{path}: has a feature 0, but the features of TRAIN count from 1."
        )


def _find_group(
    path: Path,
    request: Request,
    n_features: int,
    zero_based: bool,
    like: tuple[Schema, LabelledRows] | None,
) -> tuple[int | None, str]:
    """Position of the feature with the groups, None if a file has them."""
    given = request.groups
    first = 0 if zero_based else 1
    if given.isdecimal():
        position = int(given) - first
        if like is not None:  # a feature that no row of the test has is zero there
            n_features = max(n_features, like[0].n_columns)
        if not 0 <= position < n_features:
            raise Failure(
                f"{path}: has no feature {given}: the features are {first} to "
                f"{n_features - 1 + first}. Write ./{given} for a file of this name."
            )
        return position, f"feature {given} of {path}"
    if not Path(given).exists():
        raise Failure(
            f"{given}: neither the number of a feature of {path} ({first} to "
            f"{n_features - 1 + first}) nor a file. Check what --groups gives."
        )
    if request.keep_groups:
        raise click.UsageError(
            f"--keep-groups applies to --groups NUMBER only; {given} is a file."
        )
    return None, given


def _learn(
    path: Path, request: Request, n_features: int, group: int | None, zero_based: bool
) -> Schema:
    first = 0 if zero_based else 1
    left_out = set()
    for given in request.drop:
        if not (given.isdecimal() and 0 <= int(given) - first < n_features):
            raise Failure(
                f"{path}: --drop {given} must be the number of a feature, {first} to "
                f"{n_features - 1 + first}."
            )
        left_out.add(int(given) - first)
    if group is not None and not request.keep_groups:
        left_out.add(group)
    positions = [j for j in range(n_features) if j not in left_out]
    if not positions:
        raise Failure(f"{path}: no feature is left beside groups and --drop.")
    return Schema(
        [str(j + first) for j in positions],
        positions,
        [],
        n_features,
        ("--groups",) if group is None else (),
        zero_based=zero_based,
    )


def _note_beyond(path: Path, X: Any, schema: Schema) -> list[str]:
    """Return a note on features that the training rows do not have, if any."""
    n_beyond = count_beyond(path, X, schema.n_columns)
    if not n_beyond:
        return []
    return [
        f"{path}: {n_beyond} value(s) belong to features that do not occur in TRAIN "
        "and were ignored."
    ]


def _as_integers(values: NDArray[np.float64]) -> NDArray[Any]:
    with np.errstate(invalid="ignore"):  # what is too large is no integer
        integers = values.astype(np.int64)
    return integers if np.array_equal(integers, values) else values


def _refuse_not_finite(path: Path, X: sparse.csr_array) -> None:
    invalid = np.flatnonzero(~np.isfinite(X.data))
    if invalid.size:
        row = int(np.searchsorted(X.indptr, invalid[0], side="right")) - 1
        raise Failure(
            f"{path}: a value is NaN or infinite, in row {row} (from 0), feature "
            f"{X.indices[invalid[0]]}. Give it a value or leave the row out."
        )


def _bad_line(path: Path) -> Failure | None:
    """Find the line that cannot be read, if there is one."""
    for number, line in data_lines(path):
        reason = _find_fault(line.split("#")[0].split())
        if reason:
            return Failure(
                f"{path}:{number}: {reason}. A line is `label number:value ...` with "
                "rising numbers."
            )
    return None


def _find_fault(fields: list[str]) -> str:
    if not fields:
        return ""
    if not is_number(fields[0]):
        return f"the label {fields[0][:40]!r} is not a number"
    last = -1
    for field in fields[1:]:
        index, _, value = field.partition(":")
        if index == "qid":
            continue
        if not index.isdecimal() or not is_number(value):
            return f"{field[:40]!r} is not number:value"
        if int(index) <= last:
            return f"feature {index} comes after feature {last}"
        last = int(index)
    return ""
