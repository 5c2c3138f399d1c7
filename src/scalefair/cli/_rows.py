"""Rows in a file as a command reads them: features, ids, groups and targets.

`read_rows` finds the columns of each role, reads them, and checks what was read. A
table may hold strings, ids and missing values; a matrix, dense or sparse, has numbers
only, and its features go by number.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas
from numpy.typing import NDArray
from scipy import sparse

from scalefair._memory import array_limit
from scalefair._messages import listed
from scalefair.cli._encoder import check_finite, iterate_blocks, map_blocks
from scalefair.cli._errors import Failure, note, print_notes
from scalefair.cli._options import ROLES, ReadOptions
from scalefair.cli._roles import (
    Rows,
    are_ids,
    are_texts,
    check_groups,
    find_role_columns,
    note_doubts,
    split_names,
    treat_missing_groups,
    type_role,
    type_weights,
)
from scalefair.files import NpyReader, NpzReader, SvmlightReader
from scalefair.files._matrices import read_sparse, read_svmlight, rows_format
from scalefair.files._source import BLOCK_BYTES
from scalefair.files._tables import TableFile
from scalefair.files._values import ID_NAMES, parse_ids, parse_values


def read_rows(
    path: Path,
    options: ReadOptions,
    *,
    training: Rows | None = None,
    strings: str = "encode",
    columns: Sequence[str] | None = None,
    keep_missing: bool = False,
) -> Rows:
    """Read rows, and the groups, targets and weights that the options name.

    `training` are the rows of a model, without data if the model was saved; `columns`
    are its features. Features that are strings are checked to be categories
    ("encode"), refused ("refuse"), left out ("drop"), or kept ("keep").
    """
    rows_kind = rows_format(path, options.svmlight)
    if (
        training is not None
        and training.n_rows > 0  # not of a saved model
        and rows_format(training.path, options.svmlight) != rows_kind
    ):
        raise Failure(f"{path}: is in another format than {training.path}.")
    if training is not None and columns is None:
        columns = training.names
    # A model names its features. Without one ids are left out, and doubts are noted.
    is_free = columns is None and strings != "drop"
    # 1. From a path to a frame, or a matrix.
    table = None
    if rows_kind == "table":
        rows, table = _read_table(path, options, training, columns, is_free)
    else:
        rows = _read_matrix(path, rows_kind, options, training)
    # 2. Targets, groups and weights that are in files of their own.
    for role in ROLES:
        source = getattr(options, role)
        if source is not None and getattr(rows, role) is None:
            setattr(rows, role, options.read_values(role, rows))
            rows.sources[role] = source
            rows.from_files.append(role)
    treat_missing_groups(rows, options)
    # 3. Values that cannot be used.
    if table is not None:
        _check_strings(rows, strings, is_training=training is None)
        if is_free:
            note_doubts(
                path,
                rows.X[[x for x in rows.names if x not in options.feature]],
                has_weight=options.weight is not None,
                has_target=rows.target is not None,
            )
        table.refuse_infinite(rows.X)
        _treat_missing(rows, table, options, keep_missing, training is None)
        rows.X.index = range(rows.n_rows)  # so far it had the rows of the file
    if training is not None:
        _check_columns(path, rows, training, may_be_new=strings != "encode")
    # 4. Strings of target and groups become their types, and weights numbers.
    for role in ("target", "groups"):
        type_role(rows, role, options, training)
    check_groups(rows, training)
    type_weights(rows)
    return rows


def _check_columns(path: Path, rows: Rows, training: Rows, may_be_new: bool) -> None:
    """Refuse other columns than those of training; new strings may be let in."""
    # Columns without names go by number: there must be as many.
    if not rows.has_header and rows.n_columns != training.n_columns:
        raise Failure(
            f"{path}: needs the {training.n_columns} columns of {training.path}."
        )
    new_strings = {*rows.string_columns} - {*training.string_columns}
    if new_strings and not may_be_new:
        names = listed(sorted(new_strings))
        raise Failure(f"{path}: holds words in {names}, where TRAIN has numbers.")


def read_parts(
    path: Path, options: ReadOptions, read: Callable[..., Rows] = read_rows
) -> dict[str, Rows]:
    """Read rows with targets for training and, if there is an option, for a test."""
    # Roles without an option for the test are columns of the same names.
    roles = {role: getattr(options, f"test_{role}") for role in ROLES}
    test_roles: dict[str, Any] = {k: v for k, v in roles.items() if v is not None}
    if test_roles and options.test_file is None:
        names = listed(f"--test-{role}" for role in test_roles)
        raise click.UsageError(f"Options that apply with --test only: {names}.")
    train = read(path, options)
    if train.target is None:
        raise click.UsageError("Missing option '--target'.")
    if options.test_file is None:
        return {"train": train}
    # A file of values belongs to one file of rows: the test needs its own.
    for role in train.from_files:
        if role not in test_roles:
            raise click.UsageError(f"Missing option '--test-{role}': a file, too.")
    test = read(options.test_file, replace(options, **test_roles), training=train)
    return {"train": train, "test": test}


# --- Tables --------------------------------------------------------------------------


def _read_table(
    path: Path,
    options: ReadOptions,
    training: Rows | None,
    columns: Sequence[str] | None,
    is_free: bool,
) -> tuple[Rows, TableFile]:
    """Read a table. Roles that are columns of it become frames of strings.

    Weights become numbers. If it `is_free`, no model says which columns are features,
    and those that hold ids are none.
    """
    table = TableFile(path, options)
    print_notes(table)
    if table.is_adjacency and is_free:
        raise Failure(
            f"{path}: its first column is its header once more, as of a graph: cluster "
            "reads it without --affinity. For rows leave that column out of the file."
        )
    # 1. The columns of each role, ids, those that are copied, and those that are left
    #    as features.
    roles = find_role_columns(path, table.names, options)
    table.id_columns = ids = _find_ids(table, roles, options)
    role_columns = list(chain(ids, *roles.values()))
    features = _find_features(path, table.names, options, roles, ids, columns)
    copied = chain(*(split_names(name, table.names) for name in options.keep))
    kept = [table.find(name, "--keep") for name in copied]
    # 2. Columns whose values are strings even if they look like numbers: codes, and the
    #    roles, whose types are decided when all their values are known.
    categorical = {*options.categorical, *(training.string_columns if training else ())}
    strings = {table.find(name, "--categorical") for name in categorical}
    strings |= {*role_columns} - {*roles.get("weight", ())}
    strings |= {*kept} - {*features}
    # 3. The frame, on disk if the memory is small; a column may have two roles.
    all_columns = list(dict.fromkeys([*features, *role_columns, *kept]))
    is_large = options.exceeds_memory(path, is_text=True)
    if is_large:
        frame = table.store(all_columns, strings, options.folder)
    else:
        frame = table.read(all_columns, strings)
    print_notes(table)
    if is_free:
        features = _without_ids(table, frame, features, options)
    # 4. Each role from its columns; groups that stay features may be numbers.
    rows = Rows(
        path,
        frame[features] if len(all_columns) > len(features) else frame,
        features,
        _parse_ids(table, frame[ids[0]]) if ids else np.arange(len(frame)),
        named=bool(ids),
        n_columns=len(table.names),
        has_header=table.has_header,
        is_stored=is_large,
        kept=frame[kept],
    )
    for role, names in roles.items():
        setattr(rows, role, frame[names].astype(object))
        rows.sources[role] = f"{_describe_columns('column', names)} of {path}"
    if options.keep_groups:
        for name in (x for x in roles.get("groups", ()) if x not in categorical):
            if parse_values(rows.groups[name].dropna()).dtype.kind != "U":
                numbers = pandas.to_numeric(rows.groups[name])
                rows.X = rows.X.assign(**{name: numbers})
    return rows, table


def _describe_columns(kind: str, names: Sequence[str]) -> str:
    """Return a kind with names for messages: "columns sex, race"."""
    plural = "s" if len(names) > 1 else ""
    return f"{kind}{plural} {listed(names)}"


def _find_ids(
    table: TableFile, roles: Mapping[str, list[str]], options: ReadOptions
) -> list[str]:
    """Return the column of ids: of the option, or a first one that is named so."""
    first = table.names[0]
    if options.id_column is not None:
        return [table.find(options.id_column, "--id-column")]
    is_named_so = table.has_header and first.lower() in ID_NAMES | {""}
    return [first] if is_named_so and first not in chain(*roles.values()) else []


def _find_features(
    path: Path,
    names: Sequence[str],
    options: ReadOptions,
    roles: Mapping[str, list[str]],
    ids: Sequence[str],
    columns: Sequence[str] | None,
) -> list[str]:
    """Return the columns that are features: those of a model, or all without a role."""
    # 1. Options, or a model, may ask for columns that are not there.
    if columns is None and options.keep_groups and "groups" not in roles:
        raise click.UsageError("--keep-groups applies to --groups COLUMN only.")
    required: Sequence[str] = options.drop if columns is None else columns
    if missing := [name for name in required if name not in names]:
        raise Failure(
            f"{path}: lacks {len(missing)} of the {len(required)} columns wanted: "
            f"{listed(missing)}. Check the header, or --drop."
        )
    # 2. Without a model these are the columns that have no role and are not dropped.
    if columns is None:
        excluded = {*chain(ids, *roles.values())}
        if options.keep_groups:
            excluded -= {*roles["groups"]}
        excluded |= {*options.drop}
        columns = [name for name in names if name not in excluded]
    for role in ("target", "weight"):
        if {*roles.get(role, ())} & {*columns}:
            name = getattr(options, role)
            raise Failure(f"{path}: --{role} {name} is a feature of the model.")
    if not columns:
        raise Failure(f"{path}: no column is left as a feature. Check --drop.")
    return list(columns)


def _without_ids(
    table: TableFile, frame: pandas.DataFrame, features: list[str], options: ReadOptions
) -> list[str]:
    """Leave out features that are ids, with a note.

    What is learnt of the id of a row holds for no other row.
    """
    kept = {table.find(name, "--feature") for name in options.feature}
    ids = [name for name in features if name not in kept and are_ids(frame[name])]
    if ids:
        note(
            f"{table.path}: columns of ids were left out: {listed(ids)}. Pass "
            "--id-column for the ids of the output, --feature to keep one."
        )
    if len(ids) == len(features):
        raise Failure(f"{table.path}: no column is left as a feature.")
    return [name for name in features if name not in ids]


def _parse_ids(table: TableFile, strings: pandas.Series) -> NDArray[Any]:
    """Return ids, which must differ."""
    if (is_wrong := strings.isna() | strings.duplicated()).any():
        row = int(is_wrong.argmax())
        raise Failure(
            f"{table.locate(row, str(strings.name))}: the id {strings[row]} is "
            "missing, or there twice. Choose another --id-column."
        )
    return parse_ids(strings)


def _check_strings(rows: Rows, strings: str, is_training: bool) -> None:
    """Refuse or drop features that are strings, or check that they are categories."""
    columns = rows.string_columns
    # 1. A model of numbers takes the others; a graph or a PCA takes numbers only.
    if strings == "drop" and columns:
        note(f"{rows.path}: columns of words were left out: {listed(columns)}.")
        rows.names = [name for name in rows.names if name not in columns]
        rows.X = rows.X[rows.names]
    if strings == "refuse" and columns:
        raise Failure(
            f"{rows.path}: {len(columns)} column(s) do not hold numbers. Leave them "
            f"out with {_drop_options(columns)}, or encode them."
        )
    # 2. A column of ids or free text would make a feature of each string.
    counts = rows.X[columns].nunique() if strings == "encode" else {}
    n_rows = rows.n_rows if is_training else inf
    if texts := {x: n for x, n in counts.items() if are_texts(n, n_rows)}:
        names = listed(f"{name} ({n:,})" for name, n in texts.items())
        raise Failure(
            f"{rows.path}: too many different words for categories: {names}. Pass "
            f"{_drop_options([*texts])}, or join values."
        )


def _drop_options(names: Sequence[str]) -> str:
    """Return the options that leave out columns, for messages."""
    return listed(f"--drop {name!r}" for name in names).replace(", --drop", " --drop")


def _treat_missing(
    rows: Rows,
    table: TableFile,
    options: ReadOptions,
    keep_missing: bool,
    is_training: bool,
) -> None:
    """Refuse rows with missing values, drop them, or leave features to be imputed."""
    # Which values are missing, of the columns that lack some.
    policy = options.missing
    role_columns = _role_columns(rows, options)
    features = [] if keep_missing else [rows.X[name] for name in rows.names]
    columns = [x for x in [*role_columns, *features] if x.hasnans]
    if not columns:
        return
    # Roles that are in other files have another index.
    is_missing = pandas.DataFrame({x.name: x.isna().to_numpy() for x in columns})
    # 1. Refuse them. Means of a table on disk would take a pass of their own.
    counts = listed(f"{name} ({n:,})" for name, n in is_missing.sum().items())
    if policy == "error" or (policy == "impute" and rows.is_stored):
        row, column = np.argwhere(is_missing)[0]
        location = table.locate(rows.X.index[row], is_missing.columns[column])
        raise Failure(
            f"{rows.path}: values are missing in {is_missing.shape[1]} column(s): "
            f"{counts}; first at {location}. Pass --missing drop to leave out rows, or "
            "impute to fill in features (in memory only), or --drop the columns."
        )
    # 2. Which rows are dropped: groups and targets are not imputed.
    is_incomplete = is_missing.any(axis=1).to_numpy()
    is_dropped = is_incomplete
    if policy == "impute":
        is_in_role = is_missing.filter([column.name for column in role_columns])
        is_dropped = is_in_role.any(axis=1).to_numpy()
    # Nothing can be made of a column without values, nor of a table without rows.
    empty = list(is_missing.columns[is_missing.all()])
    if is_dropped.all() or (empty and is_training):
        remedy = f", with {_drop_options(empty)}" if empty else ""
        raise Failure(
            f"{rows.path}: no row has all its values, or a column none (missing: "
            f"{counts}). Leave columns out{remedy}."
        )
    # 3. Say what is done, and drop the rows.
    done = []
    if n_dropped := int(is_dropped.sum()):
        done.append(f"{n_dropped:,} of {rows.n_rows:,} rows were left out")
    if (is_incomplete & ~is_dropped).any():
        done.append("features were filled in")
    note(f"{rows.path}: {' and '.join(done)}. Missing values: {counts}.")
    rows.keep(~is_dropped)


def _role_columns(rows: Rows, options: ReadOptions) -> list[pandas.Series]:
    """Return the columns of the roles; of groups only if no row may lack one."""
    roles = [x for x in ROLES if x != "groups" or not options.may_lack_groups]
    values = [getattr(rows, role) for role in roles]
    frames = [x for x in values if isinstance(x, pandas.DataFrame)]
    return [frame[name] for frame in frames for name in frame]


# --- Matrices ------------------------------------------------------------------------


def _read_matrix(
    path: Path, rows_kind: str, options: ReadOptions, training: Rows | None
) -> Rows:
    """Read an array or svmlight; features go by number: x0, x1, ... or 1, 2, ..."""
    # 1. Options of tables; lines of svmlight start with the target.
    refused = ["id_column", "categorical", "feature", "header", "na_values", "keep"]
    if rows_kind == "svmlight":
        refused.append("target")
    for name in refused:
        if getattr(options, name):
            spelling = name.replace("_", "-")
            raise click.UsageError(f"--{spelling} does not apply to {path}.")
    # 2. The matrix; features of svmlight that TRAIN lacks are dropped, others are zero.
    X, labels, zero_based = _open_matrix(path, rows_kind, options, training)
    if isinstance(X, np.ndarray):
        check_finite(path, X)
    m, n = X.shape
    if training is not None and rows_kind == "svmlight" and n != training.n_columns:
        n = training.n_columns
        if n_ignored := sum((block.indices >= n).sum() for block in iterate_blocks(X)):
            note(f"{path}: {n_ignored} value(s) of features TRAIN lacks were ignored.")
        selection = sparse.eye_array(X.shape[1], n, format="csr")
        X = map_blocks(X, lambda block: block @ selection)
    # 3. The features of each role. Those of svmlight have the numbers of the file.
    prefix = "" if rows_kind == "svmlight" else "x"
    names = [f"{prefix}{j if zero_based else j + 1}" for j in range(n)]
    columns = find_role_columns(path, names, options)
    feature_names = None if training is None else training.names
    features = _find_features(path, names, options, columns, (), feature_names)
    rows = Rows(path, X, features, np.arange(m), n_columns=n, zero_based=zero_based)
    rows.has_header = False
    if labels is not None:
        _set_role(rows, "target", pandas.DataFrame(labels), "the labels")
    for role, chosen in columns.items():
        positions = [names.index(name) for name in chosen]
        # The product with an identity matrix is dense, also if the rows are sparse.
        dense = [x[:, positions] @ np.eye(len(positions)) for x in iterate_blocks(X)]
        values = pandas.DataFrame(np.concatenate(dense), columns=chosen)
        _set_role(rows, role, values, _describe_columns("feature", chosen))
    if len(features) < n:
        kept = np.flatnonzero(np.isin(names, features))
        rows.X = map_blocks(X, lambda block: block[:, kept])
    return rows


def _open_matrix(
    path: Path, rows_kind: str, options: ReadOptions, training: Rows | None
) -> tuple[Any, NDArray[Any] | None, bool]:
    """Return a matrix, or a reader if it is large; labels; where features start."""
    # Some blocks are in memory at a time, as read and as changed: each gets a quarter.
    limit = array_limit(options.memory_limit)
    max_bytes = max(1, min(BLOCK_BYTES, limit // 4))
    if rows_kind == "svmlight":
        zero_based = None if training is None else training.zero_based
        if options.exceeds_memory(path, is_text=True):
            start: Any = "auto" if zero_based is None else zero_based
            reader = SvmlightReader(path, zero_based=start, max_bytes=max_bytes)
            return reader, reader.labels, reader.zero_based
        return read_svmlight(path, zero_based)
    if rows_kind == "npz":
        if options.exceeds_memory(path, is_text=False):
            return NpzReader(path, max_bytes=max_bytes), None, True
        return read_sparse(path, "value"), None, True
    # A dense file that fits the limit is one block.
    whole_file = NpyReader(path, max_bytes=limit)
    if len(whole_file) == 1:
        return whole_file.block(0), None, True
    return NpyReader(path, max_bytes=max_bytes), None, True


def _set_role(rows: Rows, role: str, values: pandas.DataFrame, source: str) -> None:
    """Set the values of a role: integers if all are, a vector if it has one column.

    Features of a matrix are floats, also those that are codes of groups or labels.
    """
    rows.sources[role] = source = f"{source} of {rows.path}"
    infinite = np.argwhere(~np.isfinite(values))
    if infinite.size:
        row = f"row {infinite[0, 0]} (counted from 0)"
        raise Failure(f"{source}: {row} is NaN or infinite.")
    integers = values.astype(np.int64)
    values = integers.where(integers == values, values)
    setattr(rows, role, values if values.shape[1] > 1 else values.to_numpy()[:, 0])
