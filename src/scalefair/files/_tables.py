"""Tables of named columns: numbers and words, whichever file they are in."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from pandas.api.types import is_numeric_dtype

from scalefair._messages import listed
from scalefair.files._matrices import file_format
from scalefair.files._source import FileError, open_parquet, reading
from scalefair.files._text import (
    MISSING,
    EdgeText,
    find_layout,
    is_number,
    open_bytes,
    open_text,
    quote,
    repeated,
    with_point,
)

# A column with this share of numbers among its values is one of numbers.
_NUMBERS = 0.8
# Rows by which a table that is read in pieces is judged, and numbers of a piece.
_SAMPLE, _PIECE = 20_000, 2**21
# Before 3.1 pandas misses the last place of some numbers, unless it is told.
_OLD = tuple(map(int, pandas.__version__.split(".")[:2])) < (3, 1)
_EXACTLY: dict[str, Any] = {"float_precision": "round_trip"} if _OLD else {}
# A truth value has one spelling, whoever wrote or parsed it.
_TRUTH = {"TRUE": "True", "true": "True", "FALSE": "False", "false": "False"}


class TableFile:
    """A table in a file: names or numbers of columns, notes, rows when asked for."""

    def __init__(
        self, path: Path, *, na_values: Collection[str] = (), **options: Any
    ) -> None:
        na_values = [na_values] if isinstance(na_values, str) else na_values
        self.path = path
        self.ids: list[str] = []  # columns whose words stay as they are spelled
        self.missing = (*MISSING, *na_values)
        self._missing_numbers = [float(x) for x in na_values if is_number(x)]
        self.notes: list[str] = []
        self.layout: dict[str, Any] = {}
        self._text, self._is_even = None, False
        if file_format(path) == "parquet":
            self.names, self.has_header = _parquet_names(path), True
            return
        self._text = text = find_layout(path, missing=na_values, **options)
        self.names = text.names or [str(i + 1) for i in range(text.n_columns)]
        self.has_header = text.names is not None
        self.notes += text.notes
        self.layout = {"header": self.has_header, "delimiter": text.delimiter}
        self.layout["decimal"] = text.decimal

    def find(self, given: str, option: str) -> str:
        """Return the name of a column, or raise a FileError that lists all."""
        if given in self.names:
            return given
        known = listed(self.names)
        if not self.has_header:
            known = f"1 to {len(self.names)}, there is no header; else pass --header"
        raise FileError(
            f"{self.path}: no column is named {given!r} (columns: {known}). Check "
            f"{option}."
        )

    def where(self, row: int, column: str | None = None) -> str:
        """Place of a row or a value: file and line, and column; for messages."""
        place = f":{self.line(row)}" if self._text else f": row {row} (counted from 0)"
        place = f"{self.path}{place}"
        if column is None:
            return place
        name = f" ({column})" if self.has_header else ""
        return f"{place}: column {self.names.index(column) + 1}{name}"

    def line(self, row: int) -> int:
        """Line of a row of text, which is read again up to it."""
        assert self._text is not None
        records = enumerate(self._text.records())
        return next((line for i, (line, _) in records if i == row), 0)

    def read(
        self, columns: Sequence[str] | None = None, words: Collection[str] = ()
    ) -> pandas.DataFrame:
        """Return columns (None: all) of all rows, typed; those in `words` are words."""
        columns = self.names if columns is None else columns
        frame = self.typed(self.frame(columns, words), words)
        if frame.empty:
            raise FileError(f"{self.path}: is empty: it has no rows.")
        return frame

    def store(
        self, columns: Sequence[str], words: Collection[str], folder: Path
    ) -> pandas.DataFrame:
        """Do as `read`, by the first rows, with the numbers in a nameless file."""
        sample = self.typed(self.frame(columns, words, _SAMPLE), words)
        words = [column for column in columns if not is_numeric_dtype(sample[column])]
        numbers = [column for column in columns if column not in words]
        texts: dict[str, list[Any]] = {column: [] for column in words}
        n_rows, size = 0, max(1, _PIECE // max(1, len(columns)))
        with tempfile.TemporaryFile(dir=folder) as file:
            for piece in self._pieces(columns, words, size):
                frame = self.typed(piece, words, n_rows, numbers)
                try:
                    file.write(np.ascontiguousarray(frame[numbers], np.float64).data)
                    file.flush()
                except OSError as error:  # no space, as a rule
                    error.filename = str(folder)
                    raise
                for column in words:
                    texts[column].append(frame[column].astype("category"))
                n_rows += len(frame)
            stored = pandas.DataFrame(index=range(n_rows))
            if numbers:  # the map lives on when the file is closed
                X = np.memmap(file, np.float64, "r+", shape=(n_rows, len(numbers)))
                stored = pandas.DataFrame(X, columns=numbers, copy=False)
        for column, pieces in texts.items():
            stored[column] = pandas.api.types.union_categoricals(pieces)
        return stored

    def frame(
        self, columns: Sequence[str], words: Collection[str], n_rows: int | None = None
    ) -> pandas.DataFrame:
        """Return columns, of the first rows or of all, as pandas reads them."""
        with closing(self._pieces(columns, words, n_rows)) as pieces:
            return next(pieces, pandas.DataFrame(columns=list(columns)))

    def _pieces(
        self, columns: Sequence[str], words: Collection[str], size: int | None
    ) -> Generator[pandas.DataFrame]:
        """Yield so many rows after the other, or all at once."""
        layout = self._text
        if layout is None:
            with _parquet(self.path) as file:
                pieces = [file.read(columns)] if size is None else ()
                for piece in pieces or file.iter_batches(size, columns=columns):
                    yield piece.to_pandas()[columns]
            return
        # All columns are read, so that pandas counts the cells.
        options: dict[str, Any] = {
            "sep": r"\s+" if layout.delimiter is None else layout.delimiter,
            "decimal": layout.decimal,
            "header": 0 if self.has_header else None,
            "names": range(len(self.names)),
            "index_col": False,
            "dtype": {self.names.index(column): str for column in words},
            "skipinitialspace": True,
            "keep_default_na": False,
            "na_values": {
                j: [""] if name in self.ids else list(self.missing)
                for j, name in enumerate(self.names)
            },
            "low_memory": False,
            "iterator": True,
            "chunksize": size,
            **_EXACTLY,
        }
        with (
            reading(self.path, "a table"),
            open_text(self.path, layout.encoding) as file,
        ):
            for _ in range(layout.skipped):
                file.readline()
            text: Any = EdgeText(file) if layout.of_edges else file
            try:
                with pandas.read_csv(text, **options) as pieces:
                    for piece in pieces:
                        if not self._is_even and piece.iloc[:, -1].isna().any():
                            layout.refuse_uneven()  # so look cells not there
                            self._is_even = True
                        piece.columns = self.names
                        yield piece[list(columns)]
            except (pandas.errors.ParserError, UnicodeDecodeError):
                layout.refuse_uneven()  # which says where it is
                raise
            finally:
                if n := getattr(text, "n_comments", 0):
                    note = f"{self.path}: {n} line(s) between the edges start with # "
                    note += "or %, and were taken for comments."
                    self.notes += [note] * (note not in self.notes)

    def typed(
        self,
        frame: pandas.DataFrame,
        words: Collection[str] = (),
        start: int = 0,
        numbers: Collection[str] = (),
    ) -> pandas.DataFrame:
        """Make every column one of numbers or of words, or say why it is neither."""
        found = {}
        for column in frame.columns:
            values = frame[column].reset_index(drop=True)
            if column in words or values.dtype.kind not in "iuf":
                spelled = column in self.ids
                values = as_words(values, [""] if spelled else self.missing, spelled)
            elif self._missing_numbers:
                values = values.mask(values.isin(self._missing_numbers))
            if column not in words and values.dtype.kind == "O":
                values = self._judge(values, start, column in numbers)
            found[column] = values
        return pandas.DataFrame(found, copy=False)

    def _judge(self, texts: pandas.Series, start: int, must: bool) -> pandas.Series:
        """Words, or numbers beside which nothing else stands; else say what does."""
        codes, distinct = pandas.factorize(texts)
        known, plain = codes >= 0, list(distinct)
        if self.layout.get("decimal") == ",":
            plain = [with_point(word) for word in plain]
        valid = np.array([is_number(word) for word in plain] or [True], dtype=bool)
        numeric = known & valid[codes]
        if numeric.sum() == known.sum():
            values = np.array([*map(float, plain), np.nan])[codes]
            return pandas.Series(values, name=texts.name)
        column = str(texts.name)
        if must or numeric.sum() >= _NUMBERS * known.sum():
            bad = np.flatnonzero(known & ~numeric)
            more = f" (and {bad.size - 1} more)" if bad.size > 1 else ""
            raise FileError(
                f"{self.where(start + int(bad[0]), column)} is "
                f"{quote(texts.iloc[bad[0]])}{more}, in a column of numbers. Correct "
                f"it, or pass --drop {column!r}, or --categorical {column!r} for words."
            )
        if numeric.any():
            mixed = f"column {column} holds numbers and words, and was taken for words"
            self.notes.append(f"{self.path}: {mixed}.")
        return texts


def read_table(path: str | Path, **options: Any) -> pandas.DataFrame:
    r"""Read a table as the commands of ``scalefair`` understand it.

    Cells are stripped of blanks; ``?``, ``NA``, ``nan`` and empty cells are missing;
    a column is one of numbers or of words, and a word among numbers is an error.

    Parameters
    ----------
    path : str or Path
        Delimited text, packed or not, or parquet; ``-`` is the standard input.
    **options
        ``columns`` that are read, ``words`` among them whatever they look like; what
        else means missing as ``na_values=["-", "-200"]``; of text ``header``,
        ``delimiter``, ``decimal``, ``skip_lines`` and ``encoding``.

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
    >>> import tempfile
    >>> from scalefair.files import read_table
    >>> with tempfile.NamedTemporaryFile("w+") as file:
    ...     print("age, sex\n31, female\n?, male", file=file, flush=True)
    ...     read_table(file.name)
        age     sex
    0  31.0  female
    1   NaN    male
    """
    wanted = {k: options.pop(k) for k in ("columns", "words") if k in options}
    return TableFile(Path(path), **options).read(**wanted)


def clean_table(X: Any, columns: Sequence[str], words: Collection[str]) -> Any:
    """Do what a saved model does first to the rows it is given.

    Parameters
    ----------
    X : DataFrame, or array of shape (m, n_columns) in the order of `columns`
        The rows.
    columns : sequence of str
        Names of the columns.
    words : collection of str
        Those that become stripped strings; the others become floats.

    Returns
    -------
    DataFrame
        Missing values are NaN.

    Examples
    --------
    >>> from scalefair.files import clean_table
    >>> clean_table([[31, " female"]], ["age", "sex"], ["sex"])
        age     sex
    0  31.0  female
    """
    if not isinstance(X, pandas.DataFrame):
        X = pandas.DataFrame(np.asarray(X, dtype=object), columns=list(columns))
    found = {}
    for column in columns:
        is_word = column in words
        values = as_words(X[column]) if is_word else X[column].astype(np.float64)
        found[column] = values.where(values.notna(), np.nan).to_numpy()
    return pandas.DataFrame(found)


def as_words(
    values: pandas.Series, missing: Collection[str] = MISSING, spelled: bool = False
) -> pandas.Series:
    """Strings, stripped, or None if missing; truth values have one spelling, or not."""
    codes, distinct = pandas.factorize(values)
    stripped = [str(word).strip() for word in distinct] + [""]
    truth = {} if spelled else _TRUTH
    kept = [None if word in missing else truth.get(word, word) for word in stripped]
    return pandas.Series(np.array(kept, object)[codes], name=values.name, dtype=object)


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    with reading(path, "a parquet file"), open_bytes(path) as file:
        yield open_parquet(path, file)


def _parquet_names(path: Path) -> list[str]:
    """Names of the columns; the index that a frame was saved with is not among them."""
    with _parquet(path) as file:
        frame = file.schema_arrow.empty_table().to_pandas()
    names = [str(label) for label in frame.columns]
    if twice := repeated(names):
        raise FileError(f"{path}: several columns are named {twice}. Rename them.")
    return names
