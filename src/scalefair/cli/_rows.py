"""Rows of features with their groups and targets, as the commands understand a file."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import click
import numpy as np
import pandas
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype
from scipy import sparse

import scalefair
from scalefair._memory import array_limit
from scalefair.cli._errors import Failure, note
from scalefair.cli._fit import describe_passes, watch_passes
from scalefair.cli._report import count_values
from scalefair.files import SvmlightReader, clean_table, open_rows
from scalefair.files._matrices import (
    read_dense,
    read_sparse,
    read_svmlight,
    rows_format,
)
from scalefair.files._tables import TableFile
from scalefair.files._values import as_values, read_values
from scalefair.streaming import RowReader

# Names of a first column that holds ids, unless an option says otherwise.
ID_NAMES = {"", "id", "ids", "node", "node_id", "nodeid", "user", "user_id", "vertex"}
# More are hardly groups, or categories: ids, free text, a number taken for a name.
_MAX_GROUPS = MAX_CATEGORIES = 1000
# Bytes of a block of rows, and of numbers that a byte of text becomes.
_BLOCK, _GROWTH = 2**26, 2
# Rows that an encoder is fitted to, whose scales and words are known.
_SAMPLE = 1000


@dataclass(frozen=True)
class Reading:
    """What the options say about files of rows."""

    groups: str | None = None
    target: str | None = None
    id_column: str | None = None
    drop: Sequence[str] = ()
    categorical: Sequence[str] = ()
    keep_groups: bool = False
    missing: str = "error"
    header: bool | None = None
    delimiter: str | None = None
    decimal: str | None = None
    skip_lines: int = 0
    svmlight: bool = False
    target_header: bool | None = None
    groups_header: bool | None = None
    memory_limit: int | None = None
    folder: Path = Path()

    @classmethod
    def take(cls, options: dict[str, Any], **others: Any) -> Self:
        """Take the options that are about files out of all options of a command."""
        names = {entry.name for entry in fields(cls)} & options.keys()
        return cls(**{name: options.pop(name) for name in names}, **others)


@dataclass
class Rows:
    """Rows of features as they were read: of a table a frame, with words as strings.

    `ids` are row numbers from 0 unless `named`; `groups` and `target` are integers if
    all are, else numbers if all are, else strings; `n_columns` are those of the file.
    """

    path: Path
    X: Any
    names: list[str]
    ids: NDArray[Any]
    named: bool = False
    groups: Any = None
    target: Any = None
    groups_from: str = ""
    target_from: str = ""
    n_columns: int = 0
    has_header: bool = True
    zero_based: bool = False
    is_stored: bool = False
    from_files: list[str] = field(default_factory=list)

    unit: ClassVar[str] = "row"
    ordered: ClassVar[bool] = True

    @property
    def words(self) -> list[str]:
        """Names of the features that are words."""
        if not isinstance(self.X, pandas.DataFrame):
            return []
        return [name for name in self.names if not is_numeric_dtype(self.X[name])]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.ids)


def read_rows(
    path: Path,
    reading: Reading,
    *,
    like: Rows | None = None,
    words: str = "encode",
    columns: Sequence[str] | None = None,
    keep_missing: bool = False,
) -> Rows:
    """Read rows, and the groups and targets that the options name.

    `like` are rows for training, whose columns these must have; `columns` the features,
    if a model knows them. Columns of words are checked to be categories ("encode"),
    refused, left out with a note ("leave"), or kept as they are.
    """
    kind = rows_format(path, reading.svmlight)
    if kind == "table":
        rows = _read_table(path, reading, like, words, columns, keep_missing)
    else:
        rows = _read_matrix(path, kind, reading, like)
    if rows.groups is not None:
        _check_groups(rows, like)
    return rows


def column_or_file(names: Sequence[str], given: str, option: str, path: Path) -> bool:
    """Whether an option names a column; if not, it must name a file."""
    if given in names:
        return True
    if Path(given).exists():
        return False
    known = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    raise Failure(
        f"{given}: neither a column of {path} (columns: {known}) nor a file. Check the "
        f"name that {option} gives."
    )


def _read_table(
    path: Path,
    reading: Reading,
    like: Rows | None,
    words: str,
    columns: Sequence[str] | None,
    keep_missing: bool,
) -> Rows:
    options = ("header", "delimiter", "decimal", "skip_lines")
    table = TableFile(path, **{name: getattr(reading, name) for name in options})
    _say_notes(table)
    roles = {
        name: given
        for name in ("target", "groups")
        if (given := getattr(reading, name)) is not None
        and column_or_file(table.names, given, f"--{name}", path)
    }
    if len(set(roles.values())) < len(roles):
        raise click.UsageError("--target and --groups name the same column.")
    if reading.keep_groups and "groups" not in roles:
        raise click.UsageError("--keep-groups applies to --groups COLUMN only.")
    ids = None
    if reading.id_column is not None:
        ids = table.find(reading.id_column, "--id-column")
    elif table.has_header and table.names[0].lower() in ID_NAMES - set(roles.values()):
        ids = table.names[0]
    features = _features(table, reading, roles, ids, like, columns)
    known = {*reading.categorical, *(like.words if like is not None else ())}
    as_words = {table.find(name, "--categorical") for name in known}
    others = [*roles.values(), *([ids] if ids is not None else [])]
    wanted = list(dict.fromkeys([*features, *others]))
    as_words.update(others)
    is_large = _GROWTH * _size(path) > array_limit(reading.memory_limit)
    if is_large:
        frame = table.store(wanted, as_words, reading.folder)
    else:
        frame = table.read(wanted, as_words)
    _say_notes(table)
    rows = Rows(
        path,
        frame[features] if len(wanted) > len(features) else frame,
        features,
        np.arange(len(frame)) if ids is None else _ids(table, frame[ids]),
        named=ids is not None,
        n_columns=len(table.names),
        has_header=table.has_header,
        is_stored=is_large,
    )
    for name, column in roles.items():
        setattr(rows, name, frame[column].astype(object))
        setattr(rows, f"{name}_from", f"column {column} of {path}")
    kept = roles["groups"] if reading.keep_groups else None
    if kept not in {None, *known} and as_values(rows.groups.dropna()).dtype.kind != "U":
        rows.X = rows.X.assign(**{str(kept): pandas.to_numeric(rows.groups)})
    _read_files(rows, reading, like)
    _judge_words(rows, words)
    _treat_missing(rows, table, reading.missing, roles, keep_missing)
    for name in roles:
        kind = None if like is None else getattr(like, name).dtype.kind
        setattr(rows, name, as_values(getattr(rows, name), kind))
    return rows


def _say_notes(table: TableFile) -> None:
    while table.notes:
        note(table.notes.pop(0))


def _size(path: Path) -> int:
    return 0 if str(path) == "-" else path.stat().st_size


def _features(
    table: TableFile,
    reading: Reading,
    roles: dict[str, str],
    ids: str | None,
    like: Rows | None,
    columns: Sequence[str] | None,
) -> list[str]:
    """Columns that are features."""
    if columns is None and like is not None:
        columns = like.names
        if like.has_header != table.has_header or (
            not table.has_header and like.n_columns != len(table.names)
        ):
            raise Failure(
                f"{table.path}: needs the same columns as {like.path}, and a header if "
                "that has one."
            )
    if columns is not None:
        if missing := [name for name in columns if name not in table.names]:
            raise Failure(
                f"{table.path}: lacks {len(missing)} of the {len(columns)} columns "
                f"that are wanted: {', '.join(missing[:8])}."
            )
        if roles.get("target") in columns:
            raise Failure(
                f"{table.path}: column {roles['target']} is the target, but also a "
                "feature of the model. Check --target."
            )
        return list(columns)
    left_out = {table.find(name, "--drop") for name in reading.drop}
    left_out |= {roles.get("target", ""), ids or ""}
    left_out |= set() if reading.keep_groups else {roles.get("groups", "")}
    if features := [name for name in table.names if name not in left_out]:
        return features
    raise Failure(
        f"{table.path}: no column is left as a feature beside target, groups, ids and "
        "--drop."
    )


def _ids(table: TableFile, words: pandas.Series) -> NDArray[Any]:
    """Ids as integers if all are, else as strings; each row has its own."""
    for what, wrong in (("missing", words.isna()), ("twice", words.duplicated())):
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise Failure(
                f"{table.where(row, str(words.name))}: the id {words[row]} is {what}. "
                "Each row needs an id of its own: choose another --id-column."
            )
    ids = as_values(words)
    return ids if ids.dtype.kind != "f" else words.to_numpy(np.str_)


def _judge_words(rows: Rows, words: str) -> None:
    """Refuse columns of words, or leave them out, or check that they are categories."""
    found = rows.words
    if words == "leave" and found:
        note(f"{rows.path}: columns of words were left out: {', '.join(found)}.")
        rows.names = [name for name in rows.names if name not in found]
        rows.X = rows.X[rows.names]
    if words == "refuse" and found:
        drop = " ".join(f"--drop {name!r}" for name in found)
        raise Failure(
            f"{rows.path}: {len(found)} column(s) do not hold numbers: "
            f"{', '.join(found)}. Leave them out with {drop}, or encode them."
        )
    for name in found if words == "encode" else ():
        if (n := rows.X[name].nunique()) > MAX_CATEGORIES:
            raise Failure(
                f"{rows.path}: column {name} has {n:,} different words, too many for "
                f"categories (at most {MAX_CATEGORIES:,}). Leave it out with --drop "
                f"{name!r}, or join values."
            )


def _treat_missing(
    rows: Rows,
    table: TableFile,
    policy: str,
    roles: dict[str, str],
    keep_missing: bool,
) -> None:
    """Refuse or leave out rows in which a value is missing; none may be infinite."""
    missing = {roles[name]: getattr(rows, name).isna().to_numpy() for name in roles}
    lacks_role = np.logical_or.reduce([*missing.values(), np.zeros(rows.n_rows, bool)])
    for name in rows.names:
        values = rows.X[name]
        if is_numeric_dtype(values) and np.isinf(values).any():
            row = int(np.flatnonzero(np.isinf(values))[0])
            raise Failure(
                f"{table.where(row, name)} is {values[row]}; features must be finite."
            )
        if not keep_missing:
            missing[name] = values.isna().to_numpy()
    counts = {name: int(at.sum()) for name, at in missing.items() if at.any()}
    if not counts:
        return
    lacks = np.logical_or.reduce([missing[name] for name in counts])
    listed = ", ".join(f"{name} {n:,}" for name, n in counts.items())
    if policy == "error" or (policy == "impute" and rows.is_stored):
        first = int(np.flatnonzero(lacks)[0])
        column = next(name for name in counts if missing[name][first])
        raise Failure(
            f"{rows.path}: values are missing in {len(counts)} column(s): {listed}; "
            f"first at {table.where(first, column)}. Pass --missing drop to leave out "
            "those rows, --missing impute to fill in features (of a table that fits "
            "--memory-limit), or --drop the columns."
        )
    kept = ~lacks if policy == "drop" else ~lacks_role
    if not kept.any():
        raise Failure(
            f"{rows.path}: no row has all its values (missing: {listed}). Leave "
            "columns out with --drop."
        )
    filled = "" if policy == "drop" else " (without target or group); others filled in"
    note(
        f"{rows.path}: {int((~kept).sum()):,} of {rows.n_rows:,} rows were left out"
        f"{filled}. Missing values: {listed}."
    )
    rows.X = rows.X[kept].reset_index(drop=True)
    for name in ("ids", "target", "groups"):
        if getattr(rows, name) is not None:
            setattr(rows, name, getattr(rows, name)[kept])


def _read_files(rows: Rows, reading: Reading, like: Rows | None) -> None:
    """Read targets and groups that are in files of their own."""
    for name in ("target", "groups"):
        given = getattr(reading, name)
        if given is None or getattr(rows, name) is not None:
            continue
        if not Path(given).exists():
            raise Failure(
                f"{given}: no such file. The columns of {rows.path} have no names: "
                f"--{name} must be a file with a value for each row."
            )
        values = read_values(
            Path(given),
            rows,
            name.removesuffix("s"),
            header=getattr(reading, f"{name}_header"),
            kind=None if like is None else getattr(like, name).dtype.kind,
            say=note,
        )
        setattr(rows, name, values)
        setattr(rows, f"{name}_from", given)
        rows.from_files.append(name)


def _read_matrix(path: Path, kind: str, reading: Reading, like: Rows | None) -> Rows:
    """Read an array, or svmlight, whose features go by number: x0, x1, ... or 1, 2."""
    for name in ("id_column", "categorical", "header"):
        if getattr(reading, name):
            raise click.UsageError(
                f"--{name.replace('_', '-')} applies to tables only, not to {path}."
            )
    limit = array_limit(reading.memory_limit)
    size = max(1, min(_BLOCK, limit // 4))
    target, zero_based, first = None, True, "x0"
    if kind == "svmlight":
        known = None if like is None else like.zero_based
        if _GROWTH * _size(path) > limit:
            X: Any = SvmlightReader(path, zero_based=known or "auto", max_bytes=size)
            target, zero_based = X.labels, X.zero_based
        else:
            X, target, zero_based = read_svmlight(path, known)
        X = X if like is None else _resized(path, X, like.n_columns)
        first = "0" if zero_based else "1"
    elif _size(path) > limit:
        X = open_rows(path, max_bytes=size)
    elif kind == "npz":
        X = read_sparse(path, "value")
    else:
        X = read_dense(path)
        if X.ndim != 2 or X.dtype.kind not in "buif" or 0 in X.shape:
            raise Failure(
                f"{path}: rows of features are a two-dimensional array of numbers, "
                f"found shape {X.shape} and dtype {X.dtype}."
            )
        check_finite(path, X)
    m, n = X.shape
    if like is not None and n != like.n_columns:
        raise Failure(
            f"{path}: has {n} features, but {like.path} has {like.n_columns}."
        )
    prefix, start = first[:-1], int(first[-1])
    names = [f"{prefix}{j + start}" for j in range(n)]
    rows = Rows(path, X, names, np.arange(m), n_columns=n, zero_based=zero_based)
    if target is not None:
        if reading.target is not None:
            raise click.UsageError(
                "--target does not apply to svmlight: lines start with their labels."
            )
        rows.target_from = f"the labels of {path}"
        rows.target = _whole(target, rows.target_from)
    left_out = set(reading.drop)
    for name in ("target", "groups"):
        given = getattr(reading, name)
        if given is None or not column_or_file(names, given, f"--{name}", path):
            continue
        column = [_column(block, names.index(given)) for block in _blocks(X)]
        where = f"feature {given} of {path}"
        setattr(rows, name, _whole(np.concatenate(column), where))
        setattr(rows, f"{name}_from", where)
        left_out |= set() if reading.keep_groups and name == "groups" else {given}
    if unknown := left_out - set(names):
        raise Failure(
            f"{path}: --drop {min(unknown)} is no feature, {names[0]} to {names[-1]}."
        )
    _read_files(rows, reading, like)
    kept = [j for j, name in enumerate(names) if name not in left_out]
    if len(kept) < n:
        rows.names = [names[j] for j in kept]
        rows.X = map_rows(X, lambda block: block[:, kept])
    return rows


def _whole(numbers: NDArray[Any], where: str) -> NDArray[Any]:
    """Return groups or labels as integers, if all are."""
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise Failure(f"{where}: row {row} (counted from 0) is NaN or infinite.")
    whole = numbers.astype(np.int64)
    return whole if np.array_equal(whole, numbers) else numbers


def _column(block: Any, j: int) -> NDArray[Any]:
    column = block[:, [j]]
    return np.asarray(column.toarray() if sparse.issparse(column) else column).ravel()


def _resized(path: Path, X: Any, n_columns: int) -> Any:
    """Return as many columns as are wanted; what stands beyond them is counted."""
    if X.shape[1] == n_columns:
        return X
    if X.shape[1] > n_columns:
        beyond = sum(int((block.indices >= n_columns).sum()) for block in _blocks(X))
        note(
            f"{path}: {beyond} value(s) belong to features that do not occur in TRAIN "
            "and were ignored."
        )

    def resize(block: Any) -> Any:
        block.resize((block.shape[0], n_columns))
        return block

    return map_rows(X, resize)


def _blocks(X: Any) -> Iterator[Any]:
    if isinstance(X, RowReader):
        for number, block in enumerate(X.blocks(), start=1):
            if X.progress is not None:
                X.progress(number, len(X))
            yield block
    elif isinstance(X, pandas.DataFrame):  # it may be larger than the memory
        step = max(1, _BLOCK // (8 * max(1, X.shape[1])))
        yield from (X[start : start + step] for start in range(0, len(X), step))
    else:
        yield X


def check_finite(path: Path, X: Any) -> None:
    """Raise a Failure that names the first value that is NaN or infinite."""
    start = 0
    for block in X.blocks() if isinstance(X, RowReader) else np.array_split(X, 64):
        is_sparse = sparse.issparse(block)
        if not np.isfinite(block.data if is_sparse else block).all():
            found = sparse.coo_array(block)
            at = int(np.flatnonzero(~np.isfinite(found.data))[0])
            row, column = found.row[at], found.col[at]
            raise Failure(
                f"{path}: a value is NaN or infinite, at row {start + row}, column "
                f"{column} (counted from 0). Give it a value or leave the row out."
            )
        start += block.shape[0]


def _check_groups(rows: Rows, like: Rows | None) -> None:
    """Refuse groups that cannot be compared, or that training has not seen."""
    names = np.unique(rows.groups).tolist()
    if len(names) < 2 and (like is None or like.n_rows):  # a saved model has no rows
        raise Failure(
            f"{rows.groups_from}: all rows are in one group, {names[0]!r}. Fairness "
            "compares two groups or more."
        )
    if len(names) > _MAX_GROUPS:
        raise Failure(
            f"{rows.groups_from}: has {len(names):,} different values, too many for "
            f"groups (at most {_MAX_GROUPS:,}). Join values into groups, such as age "
            "bands."
        )
    if like is not None and like.groups is not None:
        refuse_unknown(rows.groups_from, "group", rows.groups, np.unique(like.groups))


def refuse_unknown(where: str, what: str, found: Any, known: NDArray[Any]) -> None:
    """Refuse values that did not occur in training."""
    unknown = [value for value in np.unique(found).tolist() if value not in known]
    if unknown:
        listed = ", ".join(map(repr, known[:8].tolist()))
        raise Failure(
            f"{where}: the {what} {unknown[0]!r} does not occur in TRAIN (known: "
            f"{listed}). Leave such rows out, or train with some."
        )


class MappedRows(RowReader):
    """Blocks of rows, of a reader or a large frame, that are changed when read."""

    def __init__(self, source: Any, change: Callable[[Any], Any]) -> None:
        self._source, self._change = source, change
        if isinstance(source, RowReader):
            self.lengths, self.progress = source.lengths, source.progress
        else:
            step = max(1, _BLOCK // (8 * max(1, source.shape[1])))
            self.lengths = np.diff(np.arange(0, len(source), step), append=len(source))
        first = self.block(0)
        self.n_features, self.dtype = first.shape[1], first.dtype
        self.is_sparse = sparse.issparse(first)
        # Of sparse rows as many as there will be if the blocks are alike.
        size = first.nnz * len(self) if self.is_sparse else np.prod(self.shape)
        self.nnz = int(size)

    def block(self, number: int) -> Any:
        """Return the rows of a block."""
        if isinstance(self._source, RowReader):
            return self._change(self._source.block(number))
        start = int(self.lengths[:number].sum())
        return self._change(self._source[start : start + int(self.lengths[number])])


def map_rows(X: Any, change: Callable[[Any], Any]) -> Any:
    """Return rows changed by a function: now, or when a block is read."""
    return MappedRows(X, change) if isinstance(X, RowReader) else change(X)


def read_test(
    path: Path, like: Rows, reading: Reading, roles: Mapping[str, str | None]
) -> Rows:
    """Read rows for a test; roles that are not given are the columns of TRAIN."""
    if rows_format(path, reading.svmlight) != rows_format(like.path, reading.svmlight):
        raise Failure(f"{path}: is in another format than {like.path}.")
    for name in like.from_files:
        if roles[name] is None:
            raise click.UsageError(
                f"Missing option '--test-{name}': {path} needs a file of its own."
            )
    given = {name: value for name, value in roles.items() if value is not None}
    rows = read_rows(path, replace(reading, **cast("Any", given)), like=like)
    refuse_unknown(rows.target_from, "label", rows.target, np.unique(like.target))
    if others := set(rows.words) - set(like.words):
        raise Failure(
            f"{path}: holds words in {', '.join(sorted(others))}, and {like.path} "
            "numbers. Correct it."
        )
    return rows


def fit_encoder(rows: Rows, *, standardize: bool, impute: bool = False) -> Any:
    """Fit what turns rows into features: a transformer of scikit-learn.

    Numbers are standardized (divisor m) if asked for, each word becomes a feature; of a
    table it takes a frame, or an array, with the columns `rows.names`.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.frozen import FrozenEstimator
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

    words = rows.words
    numbers = [name for name in rows.names if name not in words]
    scaler = _fit_scaler(rows, numbers) if standardize and numbers else None
    if not isinstance(rows.X, pandas.DataFrame):
        return scaler or FunctionTransformer(accept_sparse=True).fit(np.zeros((1, 1)))
    if impute and (empty := [c for c in rows.names if rows.X[c].isna().all()]):
        raise Failure(
            f"{rows.path}: without any value, nothing can be filled in: "
            f"{', '.join(empty)}. Leave out with "
            f"{' '.join(f'--drop {name!r}' for name in empty)}."
        )
    # As a frame, for the scaler is fitted to one.
    steps = [SimpleImputer().set_output(transform="pandas")] if impute else []
    steps += [] if scaler is None else [FrozenEstimator(scaler)]
    # Given, for the rows of a large table are not all looked at below.
    known = [np.array(sorted(rows.X[name].dropna().unique())) for name in words]
    hot = [OneHotEncoder(categories=known, handle_unknown="warn")]
    fill = [SimpleImputer(strategy="most_frequent")] if impute else []
    parts = [
        ("numbers", make_pipeline(*steps) if steps else "passthrough", numbers),
        ("words", make_pipeline(*fill, *hot), words),
    ]
    given = {"columns": rows.names, "words": words}
    return make_pipeline(
        FunctionTransformer(clean_table, kw_args=given),
        ColumnTransformer([part for part in parts if part[2]]),
    ).fit(rows.X if impute else rows.X.head(_SAMPLE))


def _fit_scaler(rows: Rows, numbers: list[str]) -> Any:
    from sklearn.preprocessing import StandardScaler

    X = rows.X[numbers] if isinstance(rows.X, pandas.DataFrame) else rows.X
    is_sparse = bool(getattr(X, "is_sparse", sparse.issparse(X)))
    scaler = StandardScaler(with_mean=not is_sparse)
    with np.errstate(over="ignore", invalid="ignore"):  # which is looked at below
        for block in _blocks(X):
            scaler.partial_fit(block)
    if not np.isfinite(scaler.var_).all():
        worst = numbers[int(np.flatnonzero(~np.isfinite(scaler.var_))[0])]
        raise Failure(
            f"{rows.path}: cannot be standardized: the numbers of column {worst} are "
            "too large. Divide them by a constant, or leave the column out."
        )
    return scaler


def encode(encoder: Any, rows: Rows) -> Any:
    """Features of rows: an array, a CSR matrix, or a reader of blocks of either."""
    for name, known in zip(rows.words, categories(encoder), strict=False):
        new = rows.X[name].notna() & ~rows.X[name].isin(known)
        if new.any():
            note(
                f"{rows.path}: column {name}: {int(new.sum()):,} row(s) have a value "
                f"that does not occur in TRAIN, such as {rows.X[name][new].iloc[0]!r}; "
                "it counts as none of the categories."
            )

    def transform(block: Any) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Found unknown categories")
            found = encoder.transform(block)
        return sparse.csr_array(found) if sparse.issparse(found) else found

    if rows.is_stored or isinstance(rows.X, RowReader):
        return MappedRows(rows.X, transform)
    return transform(rows.X)


@contextmanager
def encoded(
    parts: Mapping[str, Rows], *, show: bool, **how: Any
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield an encoder, fitted to the first part, and the features of all parts.

    In the meantime passes over the rows are counted, and shown. If something fails
    the place of a value that is not finite is said first, if there is one.
    """
    try:
        sources = {name: rows.X for name, rows in parts.items()}
        with watch_passes(sources, show=show):
            encoder = fit_encoder(next(iter(parts.values())), **how)
            X = {name: encode(encoder, rows) for name, rows in parts.items()}
            stored = {name: X[name] for name, rows in parts.items() if rows.is_stored}
            with watch_passes(stored, show=show):
                yield encoder, X
    except (Failure, ValueError):
        for rows in parts.values():
            if isinstance(rows.X, RowReader):
                check_finite(rows.path, rows.X)
        raise


def describe(rows: Rows, X: Any) -> dict[str, Any]:
    """Say what was read, how, and how many rows each group has."""
    return {
        "rows": str(rows.path),
        **describe_passes(X),
        "n_rows": rows.n_rows,
        "groups_from": rows.groups_from,
        "groups": count_values(rows.groups),
    }


def describe_columns(rows: Rows, reading: Reading) -> dict[str, Any]:
    """Say what a saved model needs to read other rows as its own were read."""
    options = asdict(reading)
    for name in ("folder", "memory_limit", "target_header", "groups_header"):
        options.pop(name)
    options |= dict.fromkeys(rows.from_files)
    return {
        "columns": list(rows.names),
        "words": rows.words,
        "n_columns": rows.n_columns,
        "has_header": rows.has_header,
        "zero_based": rows.zero_based,
        "reading": options,
        "labels_from": rows.target_from,
        "groups_from": rows.groups_from,
        "version": scalefair.__version__,
    }


def categories(encoder: Any) -> list[NDArray[Any]]:
    """Words that a fitted encoder knows, of each column of words."""
    columns = getattr(encoder, "steps", [(None, None)])[-1][1]
    if "words" not in getattr(columns, "named_transformers_", {}):
        return []
    return list(columns.named_transformers_["words"][-1].categories_)


def feature_names(encoder: Any, rows: Rows) -> list[str]:
    """Names of the features: columns, and ``column=value`` for words."""
    words = rows.words
    names = [name for name in rows.names if name not in words]
    for word, values in zip(words, categories(encoder), strict=True):
        names += [f"{word}={value}" for value in values]
    return names
