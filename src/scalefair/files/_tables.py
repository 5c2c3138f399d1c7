"""Tables of named columns: numbers and words, whichever file they are in."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
import pandas
from numpy.typing import NDArray

from scalefair.files._errors import FileError, reading
from scalefair.files._text import (
    MISSING,
    Layout,
    find_layout,
    is_number,
    open_bytes,
    quote,
)

# A column with this share of numbers among its values is one of numbers.
_NUMBERS = 0.8
# Rows by which a table that is read in pieces is judged, and numbers of a piece.
_SAMPLE, _PIECE = 20_000, 2**21


class TableFile:
    """A table in a file: its columns are known, its rows are read when asked for.

    Parameters
    ----------
    path : Path
        Delimited text, packed or not, ``-`` for the standard input; or parquet.
    **options
        See `find_layout`; they do not apply to parquet.

    Attributes
    ----------
    names : list of str
        Names of the columns; their numbers, from 1, if there is no header.
    has_header : bool
        Whether the file has one.
    notes : list of str
        What was assumed.
    """

    def __init__(self, path: Path, **options: Any) -> None:
        self.path = path
        self.layout = None if is_parquet(path) else find_layout(path, **options)
        self.notes: list[str] = []
        if self.layout is None:
            self.names, self.has_header = _parquet_names(path), True
            return
        self.names = self.layout.column_names()
        self.has_header = self.layout.names is not None
        self.notes += self.layout.notes
        if any(len(record) != len(self.names) for record in self.layout.first):
            self._refuse_uneven()

    def find(self, given: str, option: str) -> str:
        """Return the name of a column, or raise a FileError that lists what there is."""
        if given in self.names:
            return given
        known = ", ".join(self.names[:8]) + (", ..." if len(self.names) > 8 else "")
        if not self.has_header:
            known = f"1 to {len(self.names)}; there is no header, see --header"
        raise FileError(
            f"{self.path}: no column is named {given!r} (columns: {known}). Check "
            f"{option}."
        )

    def where(self, row: int, column: str) -> str:
        """Place of a value for messages: file and line, or row, and column."""
        if self.layout is None:
            return f"{self.path}: row {row} (counted from 0), column {column}"
        at = self.names.index(column) + 1
        named = f" ({column})" if self.has_header else ""
        return f"{self.path}:{self.line(row)}: column {at}{named}"

    def line(self, row: int) -> int:
        """Line of a row; the text is read again up to it."""
        assert self.layout is not None
        for i, (line, _) in enumerate(self.layout.records()):
            if i == row:
                return line
        return 0

    def read(
        self, columns: Sequence[str] | None = None, words: Collection[str] = ()
    ) -> pandas.DataFrame:
        """Return columns of all rows, numbers as numbers and words as strings.

        Parameters
        ----------
        columns : sequence of str or None, default=None
            Which, in this order; None for all.
        words : collection of str, default=()
            Columns that are words, whatever they look like.

        Raises
        ------
        FileError
            If the file is damaged, a line is too short or too long, or a word stands
            in a column of numbers.
        """
        columns = self.names if columns is None else list(columns)
        frame = self._typed(self.frame(columns, words), words, 0)
        if not len(frame):
            raise FileError(f"{self.path}: is empty: it has no rows.")
        self._refuse_short(frame)
        return frame

    def store(
        self, columns: Sequence[str], words: Collection[str], rows: RowStore
    ) -> pandas.DataFrame:
        """Do as `read` does piece by piece, with the numbers in a `RowStore`.

        Which columns hold words is judged by the first rows.
        """
        sample = self._typed(self.frame(columns, words, _SAMPLE), words, 0)
        words = {c for c in columns if not pandas.api.types.is_numeric_dtype(sample[c])}
        numbers = [c for c in columns if c not in words]
        texts: dict[str, list[Any]] = {c: [] for c in columns if c in words}
        n_rows = 0
        with rows:
            for piece in self._pieces(columns, words):
                frame = self._typed(piece, words, n_rows, numbers)
                self._refuse_short(frame, n_rows)
                rows.append(frame[numbers].to_numpy(np.float64))
                for column, pieces in texts.items():
                    pieces.append(frame[column].astype("category"))
                n_rows += len(frame)
            X = rows.matrix()
        stored = pandas.DataFrame(X, columns=numbers, copy=False)
        for column, pieces in texts.items():
            joined = pandas.api.types.union_categoricals(pieces, sort_categories=True)
            stored[column] = joined
        return stored

    def _options(
        self, columns: Sequence[str], words: Collection[str], missing: Sequence[str]
    ) -> dict[str, Any]:
        """Return how pandas is to read the text."""
        layout = self.layout
        assert layout is not None
        at = {column: i for i, column in enumerate(self.names)}
        return {
            "sep": r"\s+" if layout.delimiter is None else layout.delimiter,
            "decimal": layout.decimal,
            "header": 0 if layout.names is not None else None,
            # Not `usecols`: cells beyond the last column would be dropped in silence.
            "names": range(len(self.names)),
            "index_col": False,
            "dtype": {at[column]: str for column in words if column in columns},
            "skiprows": layout.skipped,
            "skipinitialspace": True,
            "keep_default_na": False,
            "na_values": list(missing),
            "encoding": "utf-8-sig",
            "low_memory": False,
        }

    def frame(
        self,
        columns: Sequence[str],
        words: Collection[str],
        n_rows: int | None = None,
        missing: Sequence[str] = MISSING,
    ) -> pandas.DataFrame:
        """Return columns as pandas reads them."""
        if self.layout is None:
            with reading(self.path, "a parquet file"):
                frame = pandas.read_parquet(self.path, columns=list(columns))
                return frame[list(columns)].reset_index(drop=True)
        options = self._options(columns, words, missing)
        try:
            with reading(self.path, "a table"), open_bytes(self.path) as file:
                frame = pandas.read_csv(file, nrows=n_rows, **options)
                frame = self._renamed(frame, columns)
                if not _has_comments(frame):
                    return frame
        except FileError:
            self._refuse_uneven()
        return self._renamed(self._without_comments(options, n_rows), columns)

    def _pieces(
        self, columns: Sequence[str], words: Collection[str]
    ) -> Iterator[pandas.DataFrame]:
        size = max(1, _PIECE // max(1, len(columns)))
        if self.layout is None:
            parquet = _pyarrow_parquet(self.path)
            with reading(self.path, "a parquet file"):
                file = parquet.ParquetFile(self.path)
                for batch in file.iter_batches(batch_size=size, columns=list(columns)):
                    yield batch.to_pandas()[list(columns)].reset_index(drop=True)
            return
        with reading(self.path, "a table"), open_bytes(self.path) as file:
            pieces = pandas.read_csv(
                file, chunksize=size, **self._options(columns, words, MISSING)
            )
            try:
                for piece in pieces:
                    yield self._renamed(piece, columns).reset_index(drop=True)
            except pandas.errors.ParserError:
                self._refuse_uneven()
                raise

    def _renamed(
        self, frame: pandas.DataFrame, columns: Sequence[str]
    ) -> pandas.DataFrame:
        frame.columns = [self.names[i] for i in frame.columns]
        return frame[list(columns)]

    def _without_comments(
        self, options: dict[str, Any], n_rows: int | None
    ) -> pandas.DataFrame:
        """Read a text again by its records, those that are comments left out."""
        layout = self.layout
        assert layout is not None
        import csv
        import io

        text = io.StringIO()
        writer = csv.writer(text, delimiter=layout.delimiter or " ")
        writer.writerows(cells for _, cells in layout.records())
        text.seek(0)
        options = {**options, "header": None, "skiprows": 0}
        return pandas.read_csv(text, nrows=n_rows, **options)

    def _refuse_uneven(self) -> None:
        """Raise for the first record with too few or too many cells."""
        assert self.layout is not None
        n = self.layout.n_columns
        for line, cells in self.layout.records():
            if len(cells) != n:
                raise FileError(
                    f"{self.path}:{line}: expected {n} fields as in the first line, "
                    f"found {len(cells)}: {quote(','.join(cells))}. Correct the line, "
                    "or give --delimiter or --skip-lines."
                )

    def _refuse_short(self, frame: pandas.DataFrame, start: int = 0) -> None:
        """Pandas fills short lines; where a last value is missing they are counted."""
        last = self.names[-1]
        if self.layout is not None and last in frame and frame[last].isna().any():
            self._refuse_uneven()

    def _typed(
        self,
        frame: pandas.DataFrame,
        words: Collection[str],
        start: int,
        numbers: Collection[str] = (),
    ) -> pandas.DataFrame:
        """Make every column one of numbers or of words, stripped, or say why not."""
        api = pandas.api.types
        found = {}
        for column in frame.columns:
            values = frame[column]
            is_number_type = api.is_numeric_dtype(values) and not (
                api.is_bool_dtype(values) or api.is_complex_dtype(values)
            )
            if is_number_type and column not in words:
                found[column] = values
                continue
            found[column] = texts = _as_words(values)
            if column not in words:
                found[column] = self._judge(column, texts, start, column in numbers)
        return pandas.DataFrame(found, copy=False)

    def _judge(
        self, column: str, texts: pandas.Series, start: int, must: bool
    ) -> pandas.Series:
        """Words, or numbers beside which nothing else stands; else say what does."""
        codes, distinct = pandas.factorize(texts)
        valid = np.array([is_number(str(word)) for word in distinct], dtype=bool)
        numeric = valid[codes] & (codes >= 0) if len(distinct) else codes >= 0
        n_known = int((codes >= 0).sum())
        if not n_known or numeric.sum() == n_known:
            return pandas.to_numeric(texts).astype(np.float64)
        if must or numeric.sum() >= _NUMBERS * n_known:
            bad = np.flatnonzero(~numeric & (codes >= 0))
            many = f" ({bad.size} such cells)" if bad.size > 1 else ""
            raise FileError(
                f"{self.where(start + int(bad[0]), column)} is "
                f"{quote(str(texts.iloc[bad[0]]))}{many}, in a column of numbers. "
                f"Correct it, leave the column out with --drop {quoted(column)}, or "
                f"take all its values for words with --categorical {quoted(column)}."
            )
        if numeric.any():
            self.notes.append(
                f"{self.path}: column {column} holds numbers and words, and was taken "
                "for words."
            )
        return texts


class RowStore:
    """Rows that come in pieces, in memory or, beyond a limit, in a nameless file.

    The file vanishes with the process, however it ends; the matrix is memory-mapped.

    Parameters
    ----------
    folder : Path
        Where the file is made, if one is needed.
    limit : int
        Bytes that are kept in memory.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder, self._limit = folder, limit
        self._pieces: list[NDArray[np.float64]] = []
        self._n_columns = self._n_bytes = 0
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            with suppress(OSError):  # what does not fit on the disk is not wanted
                self._file.close()  # a memory map lives on

    def append(self, rows: NDArray[np.float64]) -> None:
        """Add rows; a full disk is a FileError."""
        self._pieces.append(np.ascontiguousarray(rows))
        self._n_columns = rows.shape[1]
        self._n_bytes += rows.nbytes
        if self._file is None and self._n_bytes <= self._limit:
            return
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder)
            for piece in self._pieces:
                self._file.write(piece.data)
            self._file.flush()
            self._pieces.clear()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise FileError(
                f"{self._folder}: no space left for a temporary copy of the rows "
                f"({self._n_bytes / 1e9:.1f} GB so far). Free some, or write the "
                "output to another disk."
            ) from error

    def matrix(self) -> NDArray[np.float64]:
        """All rows: an array, or a memory-mapped one."""
        if self._file is None or not self._n_bytes:
            return np.concatenate(self._pieces)
        shape = (self._n_bytes // (8 * self._n_columns), self._n_columns)
        return np.memmap(self._file, np.float64, "r+", shape=shape)


def read_table(path: str | Path, **options: Any) -> pandas.DataFrame:
    """Read a table as the commands of ``scalefair`` understand it.

    Cells are stripped of blanks; ``?``, ``NA``, ``nan`` and empty cells are missing;
    a column is one of numbers or of words, and a word among numbers is an error.

    Parameters
    ----------
    path : str or Path
        Delimited text, packed (gz, bz2, xz) or not, whatever its name; parquet; or
        ``-`` for the standard input.
    **options
        ``header`` (bool, found out by default), ``delimiter``, ``decimal``,
        ``skip_lines`` (of text), and ``columns``, ``words``: the columns wanted, and
        those that are words whatever they look like.

    Returns
    -------
    DataFrame
        Columns of numbers and of strings.

    Raises
    ------
    FileError
        If the file cannot be read; the message says where and what to do.

    Examples
    --------
    >>> import os, tempfile
    >>> from scalefair.files import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "people.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("age, sex\\n31, female\\n?, male\\n")
    ...     read_table(path)
        age     sex
    0  31.0  female
    1   NaN    male
    """
    wanted = {
        name: options.pop(name) for name in ("columns", "words") if name in options
    }
    return TableFile(Path(path), **options).read(**wanted)


def is_parquet(path: Path) -> bool:
    """Whether a file is parquet, by its name or its first bytes."""
    if path.suffix.lower() in (".parquet", ".pq"):
        return True
    with reading(path, "a file"), open_bytes(path) as file:
        return file.read(4) == b"PAR1"


def quoted(name: str) -> str:
    """Return a name as it is given to a shell."""
    return f"'{name}'" if " " in name else name


def as_values(
    words: Sequence[Any] | NDArray[Any], kind: str | None = None
) -> NDArray[Any]:
    """Return words as integers if all are, else as numbers, else as strings.

    `kind` is that of the dtype which other rows had: the words are given the same if
    they can be.
    """
    distinct = list(dict.fromkeys(map(str, words)))
    whole = all(word.lstrip("+-").isdecimal() and len(word) < 19 for word in distinct)
    if kind in (None, "i", "u") and whole:
        return np.array([int(word) for word in words], dtype=np.int64)
    if kind in (None, "i", "u", "f") and all(map(is_number, distinct)):
        known = np.array([float(word) for word in words])
        if np.isfinite(known).all():
            return known
    return np.array(list(map(str, words)), dtype=np.str_)


def _as_words(values: pandas.Series) -> pandas.Series:
    """Strings, stripped; those that stand for a missing value are missing."""
    codes, distinct = pandas.factorize(values)
    stripped = [str(word).strip() for word in distinct]
    kept = np.array(
        [word if word not in MISSING else None for word in stripped], object
    )
    found = np.full(len(values), None, object)
    found[codes >= 0] = kept[codes[codes >= 0]]
    return pandas.Series(found, index=values.index, dtype=object)


def _has_comments(frame: pandas.DataFrame) -> bool:
    first = frame.iloc[:, 0]
    if pandas.api.types.is_numeric_dtype(first):
        return False
    distinct = first.dropna().unique()
    return any(str(word).lstrip().startswith(("#", "%")) for word in distinct)


def _pyarrow_parquet(path: Path) -> Any:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise FileError(
            f'{path}: parquet files need pyarrow: pip install "scalefair[data]" '
            f"({error}). Or save the table as csv."
        ) from error
    return parquet


def _parquet_names(path: Path) -> list[str]:
    """Names of the columns; the index that a frame was saved with is not among them."""
    with reading(path, "a parquet file"):
        open(path, "rb").close()  # a missing file is no reason to install anything
        schema = _pyarrow_parquet(path).read_schema(path)
        names = [str(label) for label in schema.empty_table().to_pandas().columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise FileError(f"{path}: several columns are named {twice!r}. Rename them.")
    return names
