"""Rows of features with their groups and targets, as the commands understand a file."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import click
import numpy as np
import pandas
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype
from scipy import sparse

from scalefair._entries import not_finite
from scalefair._groups import encode_groups, few_rows
from scalefair._memory import array_limit
from scalefair._messages import listed
from scalefair.cli._errors import Failure, note, warn
from scalefair.cli._fit import watch_passes
from scalefair.cli._options import Reading, role_columns, translate
from scalefair.files import NpyReader, NpzReader, SvmlightReader, clean_table
from scalefair.files._matrices import read_sparse, read_svmlight, rows_format
from scalefair.files._tables import TableFile
from scalefair.files._text import quote
from scalefair.files._values import ID_NAMES, as_values, read_values
from scalefair.streaming import RowReader

# More are hardly groups, or categories: ids, free text, a number taken for a name.
_MAX_GROUPS = MAX_CATEGORIES = 1000
# Bytes of a block of rows, and of numbers that a byte of text becomes.
_BLOCK, _GROWTH = 2**26, 2
# Rows that an encoder is fitted to, whose scales and words are known.
_SAMPLE = 1000
_ROLES = ("target", "groups")


@dataclass
class Rows:
    """Rows as they were read: of a table a frame, with words as strings."""

    path: Path
    X: Any
    names: list[str]
    ids: NDArray[Any]  # row numbers from 0 unless they are names
    named: bool = False
    groups: Any = None
    each: Any = None  # frame of several columns of groups that are not joined
    target: Any = None
    groups_from: str = ""
    target_from: str = ""
    kinds: dict[str, str] = field(default_factory=dict)  # of the columns of roles
    n_columns: int = 0  # of the file
    has_header: bool = True
    zero_based: bool = False
    is_stored: bool = False
    from_files: list[str] = field(default_factory=list)
    unit: ClassVar[str] = "row"
    ordered: ClassVar[bool] = True

    @property
    def compared(self) -> Any:
        """Groups as estimators take them."""
        return self.groups if self.each is None else self.each

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

    `like` are rows for training, `columns` the features of a model. Columns of words
    are checked to be categories ("encode"), refused, left out ("leave"), or kept.
    """
    kind = rows_format(path, reading.svmlight)
    if columns is None and like is not None:
        columns = like.names
    is_training = like is None or like.n_rows > 0  # a saved model has no rows
    if like and is_training and rows_format(like.path, reading.svmlight) != kind:
        raise Failure(f"{path}: is in another format than {like.path}.")
    if kind == "table":
        rows, table = _read_table(path, reading, like, columns)
        _judge_words(rows, words)
        _treat_missing(rows, table, reading.missing, keep_missing, like is None)
    else:
        rows = _read_matrix(path, kind, reading, like)
    if like and not rows.has_header and rows.n_columns != like.n_columns:
        raise Failure(f"{path}: needs the {like.n_columns} columns of {like.path}.")
    if like and words == "encode" and (others := set(rows.words) - set(like.words)):
        names = listed(sorted(others))
        raise Failure(f"{path}: holds words in {names}, where TRAIN has numbers.")
    for role in _ROLES:
        if not isinstance(values := getattr(rows, role), pandas.DataFrame):
            continue
        kinds: Any = ["U" if name in reading.categorical else None for name in values]
        if like is not None:
            kinds = like.kinds.get(role) or getattr(like, role).dtype.kind
        if len(kinds) != values.shape[1]:
            raise Failure(f"{rows.groups_from}: TRAIN has its groups in other columns.")
        how = kinds, reading.attributes, is_training
        source = getattr(rows, f"{role}_from")
        typed, rows.kinds[role], rows.each = type_values(values, source, *how)
        setattr(rows, role, typed)
    if rows.groups is None:
        return rows
    names = np.unique(rows.groups).tolist()
    if not 1 + is_training <= len(names) <= _MAX_GROUPS:
        raise Failure(
            f"{rows.groups_from}: has {len(names):,} group(s), such as {names[0]!r}; "
            f"2 to {_MAX_GROUPS:,} can be compared. Join values, or take others."
        )
    if like is not None and like.groups is not None and rows.each is None:
        refuse_unknown(rows, "groups", "group", like)
    return rows


def refuse_unknown(rows: Any, role: str, what: str, like: Any) -> None:
    """Refuse groups or labels that did not occur in training."""
    known = np.unique(getattr(like, role)).tolist()
    new = [x for x in np.unique(getattr(rows, role)).tolist() if x not in known]
    if new:
        raise Failure(
            f"{getattr(rows, f'{role}_from')}: the {what} {listed(new[:1], repr)} does "
            f"not occur in TRAIN (known: {listed(known, repr)}). Leave it out."
        )


def type_values(
    frame: pandas.DataFrame,
    source: str,
    kinds: Sequence[str | None],
    attributes: str,
    warns: bool = True,
) -> tuple[NDArray[Any], str, pandas.DataFrame | None]:
    """Type words by kinds; of several columns name combinations, or return "each"."""
    columns = zip(frame, kinds, strict=True)
    values = {name: as_values(frame[name], kind) for name, kind in columns}
    kinds = "".join(column.dtype.kind for column in values.values())
    if len(values) == 1:
        return values.popitem()[1], kinds, None
    table = pandas.DataFrame(values)
    try:
        names, codes = encode_groups(table, len(frame), warn=False)
    except ValueError as error:  # a column holds no groups
        message = translate(str(error), click.get_current_context(silent=True))
        raise Failure(f"{source}: {message}") from error
    if attributes == "each":
        return names[codes], kinds, table
    if warns and (few := few_rows(names, np.bincount(codes))):
        warn(f"{source}: {few}")
    return names[codes], kinds, None


def _read_table(
    path: Path, reading: Reading, like: Rows | None, columns: Sequence[str] | None
) -> tuple[Rows, TableFile]:
    """Read a table; groups and target that are columns of it remain such."""
    table = TableFile(path, **reading.text)
    say_notes(table)
    roles = role_columns(path, table.names, reading)
    if reading.keep_groups and "groups" not in roles:
        raise click.UsageError("--keep-groups applies to --groups COLUMN only.")
    first = table.names[0]
    is_id = table.has_header and first.lower() in ID_NAMES | {""}
    if reading.id_column is not None:
        roles["ids"] = [table.find(reading.id_column, "--id-column")]
    elif is_id and first not in chain(*roles.values()):
        roles["ids"] = [first]
    features = _features(path, table.names, reading, roles, columns)
    coded = {*reading.categorical, *(() if like is None else like.words)}
    words = {table.find(name, "--categorical") for name in coded}.union(*roles.values())
    wanted = list(dict.fromkeys(chain(features, *roles.values())))
    table.ids = ids = roles.get("ids", [])
    is_large = _GROWTH * size_of(path) > array_limit(reading.memory_limit)
    if is_large:
        frame = table.store(wanted, words, reading.folder)
    else:
        frame = table.read(wanted, words)
    say_notes(table)
    rows = Rows(
        path,
        frame[features] if len(wanted) > len(features) else frame,
        features,
        _ids(table, frame[ids[0]]) if ids else np.arange(len(frame)),
        named=bool(ids),
        n_columns=len(table.names),
        has_header=table.has_header,
        is_stored=is_large,
    )
    for role in roles.keys() & _ROLES:
        setattr(rows, role, frame[roles[role]].astype(object))
        setattr(rows, f"{role}_from", f"{_named('column', roles[role])} of {path}")
    for kept in roles["groups"] if reading.keep_groups else ():
        values = frame[kept].astype(object)
        if kept not in coded and as_values(values.dropna()).dtype.kind != "U":
            rows.X = rows.X.assign(**{kept: pandas.to_numeric(values)})
    _read_files(rows, reading)
    return rows, table


def say_notes(table: Any) -> None:
    """Say what was assumed of a table, or a graph, since this was said last."""
    while table.notes:
        note(table.notes.pop(0))


def size_of(path: Path) -> int:
    """Bytes of a file, of which a stream has none."""
    return 0 if str(path) == "-" else path.stat().st_size


def _named(what: str, names: Sequence[str]) -> str:
    return f"{what}{'s' * (len(names) > 1)} {listed(names)}"


def _read_files(rows: Rows, reading: Reading) -> None:
    """Read targets and groups that are in files of their own."""
    for role in _ROLES:
        source, what = getattr(reading, role), role.removesuffix("s")
        if source is not None and getattr(rows, role) is None:
            by_row = reading.id_column == "row"  # as predict writes it
            how = reading.values(role)
            setattr(rows, role, read_values(source, rows, what, by_row=by_row, **how))
            setattr(rows, f"{role}_from", source)
            rows.from_files.append(role)


def _features(
    path: Path,
    names: Sequence[str],
    reading: Reading,
    roles: Mapping[str, list[str]],
    columns: Sequence[str] | None,
) -> list[str]:
    """Columns that are features: those that are known to be, or what is left."""
    wanted: Sequence[str] = reading.drop if columns is None else columns
    if lacking := [name for name in wanted if name not in names]:
        raise Failure(
            f"{path}: lacks {len(lacking)} of the {len(wanted)} columns wanted: "
            f"{listed(lacking)}. Check the header, or --drop."
        )
    if columns is None:
        kept = {*roles["groups"]} if reading.keep_groups else set()
        left_out = {*chain(*roles.values())} - kept | {*reading.drop}
        columns = [name for name in names if name not in left_out]
    if {*roles.get("target", ())} & {*columns}:
        raise Failure(f"{path}: --target {reading.target} is a feature of the model.")
    if not columns:
        raise Failure(f"{path}: no column is left as a feature. Check --drop.")
    return list(columns)


def _ids(table: TableFile, words: pandas.Series) -> NDArray[Any]:
    """Ids as integers if all are, else as strings; each row has its own."""
    if (wrong := words.isna() | words.duplicated()).any():
        row = int(wrong.argmax())
        raise Failure(
            f"{table.where(row, str(words.name))}: the id {words[row]} is missing, or "
            "there twice. Choose another --id-column."
        )
    ids = as_values(words)
    return ids if ids.dtype.kind != "f" else words.to_numpy(np.str_)


def _judge_words(rows: Rows, words: str) -> None:
    """Refuse columns of words, or leave them out, or check that they are categories."""
    found = rows.words
    if words == "leave" and found:
        note(f"{rows.path}: columns of words were left out: {listed(found)}.")
        rows.names = [name for name in rows.names if name not in found]
        rows.X = rows.X[rows.names]
    if words == "refuse" and found:
        raise Failure(
            f"{rows.path}: {len(found)} column(s) do not hold numbers. Leave them out "
            f"with {_drop(found)}, or encode them."
        )
    for name in found if words == "encode" else ():
        if (n := rows.X[name].nunique()) > MAX_CATEGORIES:
            raise Failure(
                f"{rows.path}: column {name} has {n:,} different words, too many for "
                f"categories. Pass {_drop([name])}, or join values."
            )


def _drop(names: Sequence[str]) -> str:
    return listed(f"--drop {name!r}" for name in names).replace(", --drop", " --drop")


def _treat_missing(
    rows: Rows, table: TableFile, policy: str, keep_missing: bool, is_training: bool
) -> None:
    """Refuse or leave out rows in which a value is missing; none may be infinite."""
    for name in rows.names:
        x = rows.X[name]
        if is_numeric_dtype(x) and (infinite := np.isinf(x)).any():
            raise Failure(f"{table.where(infinite.argmax(), name)} is infinite.")
    roles = [getattr(rows, role) for role in _ROLES]
    columns = [x[j] for x in roles if isinstance(x, pandas.DataFrame) for j in x]
    must = [x.name for x in columns if x.hasnans]  # nothing can take their place
    columns += [] if keep_missing else [rows.X[name] for name in rows.names]
    gaps = pandas.DataFrame({x.name: x.isna() for x in columns if x.hasnans})
    if gaps.empty:
        return
    lacks = gaps.any(axis=1).to_numpy()
    counts = listed(f"{name} ({n:,})" for name, n in gaps.sum().items())
    if policy == "error" or (policy == "impute" and rows.is_stored):
        row = int(lacks.argmax())
        place = table.where(row, gaps.columns[gaps.iloc[row].argmax()])
        raise Failure(
            f"{rows.path}: values are missing in {gaps.shape[1]} column(s): {counts}; "
            f"first at {place}. Pass --missing drop to leave out rows, or impute "
            "to fill in features (in memory only), or --drop the columns."
        )
    kept = ~(lacks if policy == "drop" else gaps.filter(must).any(axis=1).to_numpy())
    empty = list(gaps.columns[gaps.all()])
    if not kept.any() or (empty and is_training):
        raise Failure(
            f"{rows.path}: no row has all its values, or a column none (missing: "
            f"{counts}). Leave columns out{', with ' * bool(empty)}{_drop(empty)}."
        )
    lost, filled = int((~kept).sum()), bool(lacks[kept].any())
    done = [f"{lost:,} of {rows.n_rows:,} rows were left out"] * (lost > 0)
    done += ["features were filled in"] * filled
    note(f"{rows.path}: {' and '.join(done)}. Missing values: {counts}.")
    rows.X = rows.X[kept].reset_index(drop=True)
    for name in ("ids", *_ROLES):
        if getattr(rows, name) is not None:
            setattr(rows, name, getattr(rows, name)[kept])


def _read_matrix(path: Path, kind: str, reading: Reading, like: Rows | None) -> Rows:
    """Read an array, or svmlight, whose features go by number: x0, x1, ... or 1, 2."""
    wrong = ["id_column", "categorical", "header", "na_values"]
    wrong += ["target"] * (kind == "svmlight")
    if wrong := [name.replace("_", "-") for name in wrong if getattr(reading, name)]:
        raise click.UsageError(f"--{wrong[0]} does not apply to {path}.")
    limit = array_limit(reading.memory_limit)
    size = max(1, min(_BLOCK, limit // 4))
    is_large = size_of(path) * (_GROWTH if kind == "svmlight" else 1) > limit
    roles: dict[str, Any] = {}
    zero_based, prefix = True, "x"
    if kind == "svmlight":
        prefix, base = "", None if like is None else like.zero_based
        if is_large:
            X: Any = SvmlightReader(path, zero_based=base or "auto", max_bytes=size)
            labels, zero_based = X.labels, X.zero_based
        else:
            X, labels, zero_based = read_svmlight(path, base)
        roles["target"] = pandas.DataFrame(labels), f"the labels of {path}"
    elif kind == "npz":
        X = NpzReader(path, max_bytes=size) if is_large else read_sparse(path, "value")
    else:
        X = NpyReader(path, max_bytes=limit)
        X = X.block(0) if len(X) == 1 else NpyReader(path, max_bytes=size)
    if isinstance(X, np.ndarray):
        _check_finite(path, X)
    m, n = X.shape
    if like is not None and kind == "svmlight" and n != like.n_columns:
        same = sparse.eye_array(n, like.n_columns, format="csr")
        if beyond := sum((x.indices >= like.n_columns).sum() for x in _blocks(X)):
            note(f"{path}: {beyond} value(s) of features TRAIN lacks were ignored.")
        X, n = _map(X, lambda block: block @ same), like.n_columns
    names = [f"{prefix}{j + (not zero_based)}" for j in range(n)]
    columns = role_columns(path, names, reading)
    features = _features(path, names, reading, columns, getattr(like, "names", None))
    rows = Rows(path, X, features, np.arange(m), n_columns=n, zero_based=zero_based)
    rows.has_header = False
    for role, chosen in columns.items():
        at = [names.index(name) for name in chosen]
        # The product is dense, whatever the rows are.
        blocks = [block[:, at] @ np.eye(len(at)) for block in _blocks(X)]
        values = pandas.DataFrame(np.concatenate(blocks), columns=chosen)
        roles[role] = values, f"{_named('feature', chosen)} of {path}"
    for role, (values, where) in roles.items():
        infinite = np.argwhere(~np.isfinite(values))
        if infinite.size:
            row = f"row {infinite[0, 0]} (counted from 0)"
            raise Failure(f"{where}: {row} is NaN or infinite.")
        whole = values.astype(np.int64)
        values = whole.where(whole == values, values)
        setattr(rows, role, values if values.shape[1] > 1 else values.to_numpy()[:, 0])
        setattr(rows, f"{role}_from", where)
    _read_files(rows, reading)
    if len(features) < n:
        kept = np.flatnonzero(np.isin(names, features))
        rows.X = _map(X, lambda block: block[:, kept])
    return rows


def _map(X: Any, change: Callable[[Any], Any]) -> Any:
    return _Changed(X, change) if isinstance(X, RowReader) else change(X)


def _blocks(X: Any) -> Iterator[Any]:
    """Iterate over rows, which may be more than the memory holds."""
    if isinstance(X, RowReader):
        for number, block in enumerate(X.blocks(), start=1):
            if X.progress is not None:
                X.progress(number, len(X))
            yield block
    elif sparse.issparse(X):
        yield X
    else:
        step = max(1, _BLOCK // (8 * max(1, X.shape[1])))
        yield from (X[start : start + step] for start in range(0, len(X), step))


def _check_finite(path: Path, X: Any) -> None:
    """Raise a Failure that names the first value that is NaN or infinite."""
    start = 0
    for block in _blocks(X):
        rows, columns, _ = not_finite(block)
        if rows.size:
            raise Failure(
                f"{path}: row {start + rows[0]}, column {columns[0]} (counted "
                "from 0) is NaN or infinite. Give it a value or leave the row out."
            )
        start += block.shape[0]


class _Changed(RowReader):
    """Blocks of rows, of a reader or a large frame, that are changed when read."""

    def __init__(self, source: Any, change: Callable[[Any], Any]) -> None:
        self._source, self._change = source, change
        if isinstance(source, RowReader):
            self.lengths, self.progress = source.lengths, source.progress
        else:
            self.lengths = np.array([len(block) for block in _blocks(source)])
        first = self.block(0)
        self.n_features, self.dtype = first.shape[1], first.dtype
        self.is_sparse = sparse.issparse(first)
        size = first.nnz * len(self) if self.is_sparse else np.prod(self.shape)
        self.nnz = int(size)  # of sparse rows about, if the blocks are alike

    def block(self, number: int) -> Any:
        """Return the rows of a block."""
        if isinstance(self._source, RowReader):
            return self._change(self._source.block(number))
        start = int(self.lengths[:number].sum())
        return self._change(self._source[start : start + int(self.lengths[number])])


def read_parts(
    path: Path, reading: Reading, read: Callable[..., Rows] = read_rows
) -> dict[str, Rows]:
    """Read rows with targets for training and, if the options name any, for a test."""
    # Roles that are not given for the test are the columns of TRAIN.
    roles = {role: getattr(reading, f"test_{role}") for role in _ROLES}
    given: dict[str, Any] = {role: x for role, x in roles.items() if x is not None}
    if given and reading.test_file is None:
        raise click.UsageError("--test-target and --test-groups apply with --test.")
    train = read(path, reading)
    if train.target is None:
        raise click.UsageError("Missing option '--target'.")
    if reading.test_file is None:
        return {"train": train}
    for role in train.from_files:
        if role not in given:
            raise click.UsageError(f"Missing option '--test-{role}': a file, too.")
    test = read(reading.test_file, replace(reading, **given), like=train)
    return {"train": train, "test": test}


def fit_encoder(
    rows: Rows, *, standardize: bool, impute: bool = False, dense: bool = False
) -> Any:
    """Fit what turns rows into features: numbers, by m if scaled, and coded words."""
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
    clean = FunctionTransformer(clean_table, kw_args=given)
    parts, limit = [x for x in parts if x[2]], 0.0 if dense else 0.3
    encoder = make_pipeline(clean, ColumnTransformer(parts, sparse_threshold=limit))
    return encoder.fit(rows.X if impute else rows.X.head(_SAMPLE))


def _fit_scaler(rows: Rows, numbers: list[str]) -> Any:
    from sklearn.preprocessing import StandardScaler

    X = rows.X[numbers] if isinstance(rows.X, pandas.DataFrame) else rows.X
    scaler = StandardScaler(with_mean=not getattr(X, "is_sparse", sparse.issparse(X)))
    with np.errstate(over="ignore", invalid="ignore"):  # which is looked at below
        for block in _blocks(X):
            scaler.partial_fit(block)
    if not (finite := np.isfinite(scaler.var_)).all():
        name = numbers[finite.argmin()]
        raise Failure(f"{rows.path}: column {name} cannot be standardized: too large.")
    return scaler


def encode(encoder: Any, rows: Rows) -> Any:
    """Features of rows: an array, a CSR matrix, or a reader of blocks of either."""
    for name, known in _categories(encoder, rows).items():
        say_unknown(rows.path, rows.X[name], known, "does not occur in TRAIN")

    def transform(block: Any) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Found unknown categories")
            found = encoder.transform(block)
        return sparse.csr_array(found) if sparse.issparse(found) else found

    in_blocks = rows.is_stored or isinstance(rows.X, RowReader)
    return _Changed(rows.X, transform) if in_blocks else transform(rows.X)


def say_unknown(path: Path, words: pandas.Series, vocabulary: Any, is_new: str) -> None:
    """Note words that a model has not seen; refuse a column that has no others."""
    present = words.dropna()
    new = present[~present.isin(vocabulary)]
    if new.empty:
        return
    shown = f"{path}: column {words.name}: {len(new):,} row(s) have a value that "
    shown += f"{is_new}, such as {quote(str(new.iloc[0]))}"
    if len(new) < len(present):
        note(f"{shown}.")
        return
    shown += f", and none has another (known: {listed(vocabulary)})"
    raise Failure(
        f"{shown}. Spell them as there, predict them beside rows that have these, or "
        "train without this column."
    )


@contextmanager
def encoded(
    parts: Mapping[str, Rows], *, show: bool, **how: Any
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield an encoder, fitted to the first part, and features; count their passes."""
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
                _check_finite(rows.path, rows.X)
        raise


def _categories(encoder: Any, rows: Rows) -> dict[str, NDArray[Any]]:
    """Words that a fitted encoder knows, of each column of words."""
    if not rows.words:
        return {}
    known = encoder[-1].named_transformers_["words"][-1].categories_
    return dict(zip(rows.words, known, strict=True))


def feature_names(encoder: Any, rows: Rows) -> list[str]:
    """Names of the features: columns, and ``column=value`` for words."""
    known = _categories(encoder, rows)
    coded = [f"{name}={value}" for name in known for value in known[name]]
    return [name for name in rows.names if name not in known] + coded
