"""Tables of named columns, of numbers or of strings, in delimited text or parquet.

pandas parses the cells; what a column is, is decided here, for the whole column: one of
numbers or of strings. A few words among numbers are an error that names the cell.
"""

import io
import tempfile
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from pandas.api.types import is_numeric_dtype

from scalefair._messages import listed
from scalefair.files._matrices import GRAPH_FORMATS, file_format
from scalefair.files._source import (
    FileError,
    one_line,
    open_parquet,
    parquet_columns,
    reading,
)
from scalefair.files._text import (
    MISSING,
    FileOptions,
    Layout,
    UncommentedText,
    find_layout,
    first_duplicate,
    is_number,
    open_bytes,
    open_text,
    quote,
    with_decimal_point,
)

# Rows by which `store` tells columns of numbers. Fewer may all be empty or whole.
SAMPLE_ROWS = 20_000
# Numbers in a piece of `store`, 16 MB. A quarter and twice as many are as fast.
PIECE_NUMBERS = 2**21
# Before 3.1 pandas rounds the last digit of some numbers unless it is told not to.
_IS_OLD_PANDAS = tuple(map(int, pandas.__version__.split(".")[:2])) < (3, 1)
FLOAT_OPTIONS: dict[str, Any] = (
    {"float_precision": "round_trip"} if _IS_OLD_PANDAS else {}
)
# One spelling of truth values, whichever program wrote them.
_BOOLEANS = {"TRUE": "True", "true": "True", "FALSE": "False", "false": "False"}


class TableFile:
    """A table in a file: its columns are known at once, its rows are read on demand.

    Columns without a header are named by number, from 1. `notes` say what was assumed.
    """

    def __init__(
        self, path: Path, options: FileOptions | None = None, *, of_edges: bool = False
    ) -> None:
        """Find the columns: of text by its first records, of parquet by the schema."""
        options = options or FileOptions()
        self.path = path
        # Columns of ids, whose strings are not changed: "NA" or "true" may be a name.
        self.id_columns: list[str] = []
        self.notes: list[str] = []
        self.layout: dict[str, Any] = {}
        self.damaged: dict[str, str] = {}  # columns of numbers with another cell
        self._mixed: list[str] = []  # columns of strings with some numbers
        self._missing = (*MISSING, *options.na_values)
        self._missing_numbers = [float(x) for x in options.na_values if is_number(x)]
        self._text: Layout | None = None
        self._frame: pandas.DataFrame | None = None  # of another program
        self._is_checked = False  # whether all records have as many cells
        self.has_header = True
        # 1. The format; other formats than text say themselves what their columns are.
        self.kind = file_format(path)
        if self.kind in GRAPH_FORMATS:
            raise FileError(f"{path}: is a graph ({self.kind}), which cluster reads.")
        if self.kind != "text":
            if self.kind == "parquet":
                with _open_parquet(path) as file:
                    labels = parquet_columns(file.schema_arrow)
            else:
                self._frame = self._read_frame(options.encoding)
                labels = self._frame.columns
            # Names have single blanks, as those of text; labels are those of the file.
            self.names = [" ".join(str(label).split()) for label in labels]
            self._labels = dict(zip(self.names, labels, strict=True))
            if duplicate := first_duplicate(self.names):
                raise FileError(
                    f"{path}: several columns are named {duplicate}. Rename them."
                )
            return
        # 2. Of text what its first records show.
        self._text = text = find_layout(path, options, of_edges)
        self.names = text.names or [str(i + 1) for i in range(text.n_columns)]
        self.has_header = text.names is not None
        self.notes += text.notes
        self.layout = {
            "header": self.has_header,
            "delimiter": text.delimiter,
            "decimal": text.decimal,
        }

    def _read_frame(self, encoding: str | None) -> pandas.DataFrame:
        """Read a table of another program with pandas, or SciPy.

        Each of their errors that a user can mend is told in other words.
        """
        path, kind = self.path, self.kind
        content = f"a file of {kind} with numbers and words"
        with reading(path, content), open_bytes(path) as file:
            try:
                if kind == "Stata":
                    return pandas.read_stata(file)
                if kind == "SPSS":
                    return pandas.read_spss(path)
                if kind == "Excel":
                    book = pandas.ExcelFile(file)
                    if (n_sheets := len(book.sheet_names)) > 1:
                        self.notes.append(f"{path}: has {n_sheets} sheets: the first.")
                    return book.parse()
                if kind != "ARFF":
                    default = {"sas7bdat": "infer", "xport": "utf-8"}[kind]
                    encoding = encoding or default
                    return pandas.read_sas(file, format=kind, encoding=encoding)
            except ImportError as error:
                raise FileError(
                    f"{path}: is of {kind}, for which pandas needs another package "
                    f"({one_line(error)}). Install it, or save the table as csv."
                ) from error
            except ValueError as error:
                if "XPORT" not in str(error):
                    raise
                raise FileError(
                    f"{path}: pandas reads xport files of version 5, and this is no "
                    "such file. Save it so, or as csv."
                ) from error
            # ARFF, by SciPy, which returns words as bytes.
            from scipy.io import arff

            text = file.read().decode(encoding or "utf-8-sig")
            try:
                frame = pandas.DataFrame(arff.loadarff(io.StringIO(text))[0])
            except NotImplementedError as error:
                raise FileError(
                    f"{path}: has string attributes, dates or sparse rows, which SciPy "
                    f"does not read ({one_line(error)}). Save the table as csv."
                ) from error
            names = frame.columns[[dtype.kind == "O" for dtype in frame.dtypes]]
            return frame.assign(**{x: frame[x].str.decode("utf-8") for x in names})

    @property
    def is_adjacency(self) -> bool:
        """Whether the first column is the header once more, as of a matrix of weights.

        NetworkX writes graphs so: ``to_pandas_adjacency(G).to_csv(...)``.
        """
        if self._text is None or not self.has_header or len(self.names) < 4:
            return False
        first_cells = (cells[0] for _, cells in self._text.records())
        return all(a == b for a, b in zip_longest(first_cells, self.names[1:]))

    # --- Where something is ---

    def find(self, name: str, option: str) -> str:
        """Return the name of a column, or raise a FileError that lists all."""
        if name in self.names:
            return name
        columns = listed(self.names)
        if not self.has_header:
            columns = f"1 to {len(self.names)}, there is no header; else pass --header"
        raise FileError(
            f"{self.path}: no column is named {name!r} (columns: {columns}). Check "
            f"{option}."
        )

    def locate(self, row: int, column: str | None = None) -> str:
        """Return file and line of a row, and the column of a value, for messages.

        A table that is no text has no lines: its rows are counted.
        """
        line = f":{self.line_number(row)}" if self._text else f": row {row}"
        counted = "" if self._text else " (counted from 0)"
        location = f"{self.path}{line}{counted}"
        if column is None:
            return location
        name = f" ({column})" if self.has_header else ""
        return f"{location}: column {self.names.index(column) + 1}{name}"

    def refuse_infinite(self, frame: pandas.DataFrame) -> None:
        """Raise a FileError that names the first infinite value of the frame.

        Its index has the rows of the table.
        """
        for name, values in frame.items():  # no copy: it may be on disk
            if is_numeric_dtype(values) and (is_infinite := np.isinf(values)).any():
                location = self.locate(is_infinite.idxmax(), str(name))
                raise FileError(f"{location} is infinite.")

    def line_number(self, row: int) -> int:
        """Return the line of a row of text, which is read again up to it.

        Header, comments, empty lines and quoted line feeds set rows and lines apart.
        """
        assert self._text is not None
        records = enumerate(self._text.records())
        return next((number for i, (number, _) in records if i == row), 0)

    # --- Rows ---

    def read(
        self, columns: Sequence[str] | None = None, strings: Collection[str] = ()
    ) -> pandas.DataFrame:
        """Return columns (None: all) of numbers, or strings as those in `strings`."""
        columns = self.names if columns is None else columns
        frame = self.convert(self.read_raw(columns, strings), strings)
        if frame.empty:
            raise FileError(f"{self.path}: is empty: it has no rows.")
        return frame

    def store(
        self, columns: Sequence[str], strings: Collection[str], folder: Path
    ) -> pandas.DataFrame:
        """Read as `read` does, with the numbers in a temporary file, mapped.

        The first rows tell which columns have numbers; strings become categories, in
        memory.
        """
        # 1. Which columns have numbers; a word that comes later in one is an error.
        sample = self.convert(self.read_raw(columns, strings, SAMPLE_ROWS), strings)
        numbers = [name for name in columns if is_numeric_dtype(sample[name])]
        strings = [name for name in columns if name not in numbers]
        # Each distinct string of a column is stored once, and a code for each row.
        categories: dict[str, list[Any]] = {name: [] for name in strings}
        # 2. Numbers go to the file piece by piece, row after row.
        n_rows, piece_rows = 0, max(1, PIECE_NUMBERS // max(1, len(columns)))
        with tempfile.TemporaryFile(dir=folder) as file:
            for piece in self._pieces(columns, strings, piece_rows):
                frame = self.convert(piece, strings, n_rows, numbers)
                try:
                    file.write(np.ascontiguousarray(frame[numbers], np.float64).data)
                    file.flush()
                except OSError as error:  # usually the disk is full
                    error.filename = str(folder)
                    raise
                for name in strings:  # objects, also where all are missing
                    column = frame[name].astype("category")
                    names = column.cat.categories.astype(object)
                    categories[name].append(column.cat.rename_categories(names))
                n_rows += len(frame)
            # 3. A frame of the mapped file, in which a block of rows is one piece, and
            #    of the strings in memory.
            stored = pandas.DataFrame(index=range(n_rows))
            if numbers:  # the map remains valid when the file is closed
                X = np.memmap(file, np.float64, "r+", shape=(n_rows, len(numbers)))
                stored = pandas.DataFrame(X, columns=numbers, copy=False)
        for name, pieces in categories.items():
            stored[name] = pandas.api.types.union_categoricals(pieces)
        return stored

    def read_raw(
        self,
        columns: Sequence[str],
        strings: Collection[str] = (),
        n_rows: int | None = None,
    ) -> pandas.DataFrame:
        """Return columns of the first rows, or of all, as pandas reads them.

        Those in `strings` are read as strings, others as pandas takes them.
        """
        with closing(self._pieces(columns, strings, n_rows)) as pieces:
            return next(pieces, pandas.DataFrame(columns=list(columns)))

    def _pieces(
        self, columns: Sequence[str], strings: Collection[str], n_rows: int | None
    ) -> Generator[pandas.DataFrame]:
        """Yield so many rows at a time, or all at once, with names as in `names`."""
        if self._text is not None:
            yield from self._text_pieces(self._text, columns, strings, n_rows)
            return
        labels = [self._labels[name] for name in columns]
        if self._frame is not None:
            step = n_rows or max(1, len(self._frame))
            for start in range(0, len(self._frame), step):
                piece = self._frame[labels][start : start + step]
                yield piece.set_axis(columns, axis=1)
            return
        with _open_parquet(self.path) as file:
            if n_rows is None:
                batches = [file.read(labels)]
            else:
                batches = file.iter_batches(n_rows, columns=labels)
            for batch in batches:
                # Without metadata of pandas, whose own types would come back.
                frame = batch.to_pandas(ignore_metadata=True)
                yield frame[labels].set_axis(columns, axis=1)

    def _text_pieces(
        self,
        layout: Layout,
        columns: Sequence[str],
        strings: Collection[str],
        n_rows: int | None,
    ) -> Generator[pandas.DataFrame]:
        """Yield columns of a text as pandas reads them; errors name a line of it."""
        # 1. How pandas is to read the text. Missing values go by the number of the
        #    column: an id may be called NA, but not be empty.
        missing = {
            j: [""] if name in self.id_columns else list(self._missing)
            for j, name in enumerate(self.names)
        }
        #    All columns are read, so that pandas counts the cells of each record.
        options: dict[str, Any] = {
            "sep": r"\s+" if layout.delimiter is None else layout.delimiter,
            "decimal": layout.decimal,
            "header": 0 if self.has_header else None,
            "names": range(len(self.names)),
            "index_col": False,
            "dtype": {self.names.index(name): str for name in strings},
            "skipinitialspace": True,
            "keep_default_na": False,
            "na_values": missing,
            "low_memory": False,
            "iterator": True,
            "chunksize": n_rows,
            **FLOAT_OPTIONS,
        }
        # 2. The rows below what is skipped, in pieces.
        with (
            reading(self.path, "a table"),
            open_text(self.path, layout.encoding) as file,
        ):
            for _ in range(layout.n_skipped):
                file.readline()
            text: Any = UncommentedText(file) if layout.of_edges else file
            try:
                with pandas.read_csv(text, **options) as pieces:
                    for piece in pieces:
                        # pandas fills short records with missing values.
                        if not self._is_checked and piece.iloc[:, -1].isna().any():
                            layout.check_records()
                            self._is_checked = True
                        piece.columns = self.names
                        yield piece[list(columns)]
            except (pandas.errors.ParserError, UnicodeDecodeError):
                layout.check_records()  # its message has the line
                raise
            finally:
                if layout.of_edges and text.n_comments:
                    note = (
                        f"{self.path}: {text.n_comments} line(s) between the edges "
                        "start with # or %, and were taken for comments."
                    )
                    if note not in self.notes:  # a table may be read twice
                        self.notes.append(note)

    # --- Types ---

    def convert(
        self,
        frame: pandas.DataFrame,
        strings: Collection[str] = (),
        start: int = 0,
        numbers: Collection[str] = (),
    ) -> pandas.DataFrame:
        """Make each column one of numbers or of strings, or say why it is neither.

        Columns in `strings` or `numbers` must become these; `start` is the row of the
        table that is the first of the frame.
        """
        converted, self.damaged, self._mixed = {}, {}, []
        for name in frame.columns:
            # Strings are cleaned, numbers lose the values that mean missing, and
            # strings that are all numbers, as with decimal commas, become numbers.
            values = frame[name].reset_index(drop=True)
            if name in strings or values.dtype.kind not in "iuf":
                is_id = name in self.id_columns
                values = as_strings(values, [""] if is_id else self._missing, is_id)
                if not is_id and self.layout.get("decimal") == ",":
                    values = values.map(with_decimal_point, "ignore").astype(object)
                    values = values.where(values.notna(), None)
            elif self._missing_numbers:
                values = values.mask(values.isin(self._missing_numbers))
            if name not in strings and values.dtype.kind == "O":
                values = self._parse_numbers(values, start, name in numbers)
            converted[name] = values
        if self._mixed:
            self.notes.append(
                f"{self.path}: columns of numbers and words were taken for words: "
                f"{listed(self._mixed)}."
            )
        if self.damaged:
            name, n_more = next(iter(self.damaged)), len(self.damaged) - 1
            more = f" and {n_more} more" if n_more else ""
            raise FileError(
                f"{'; '.join(self.damaged.values())}, in a column of numbers. Correct "
                f"it, or pass --drop {name!r}{more}, or --categorical {name!r} of "
                "classify or regress for words, or --na-values for what means missing."
            )
        return pandas.DataFrame(converted, copy=False)

    def _parse_numbers(
        self, strings: pandas.Series, start: int, must_be_numbers: bool
    ) -> pandas.Series:
        """Return numbers if all strings are, else the strings, which may be damaged."""
        # 1. Parse each distinct string once; `codes` are -1 where a value is missing.
        codes, distinct = pandas.factorize(strings)
        is_present, cells = codes >= 0, list(distinct)
        is_valid = np.array([is_number(cell) for cell in cells] or [True], dtype=bool)
        # Counted by rows, not by distinct strings.
        is_numeric = is_present & is_valid[codes]
        n_numbers, n_values = is_numeric.sum(), is_present.sum()
        if n_numbers == n_values:
            # The last entry is that of the code -1.
            values = np.array([*map(float, cells), np.nan])[codes]
            return pandas.Series(values, name=strings.name)
        # 2. Where four of five values are numbers a string is a mistake. It is only
        #    noted here: `convert` reports those of all columns.
        name = str(strings.name)
        if must_be_numbers or n_numbers >= 0.8 * n_values:
            invalid = np.flatnonzero(is_present & ~is_numeric)
            more = f" (and {invalid.size - 1} more)" if invalid.size > 1 else ""
            row, cell = int(invalid[0]), quote(strings.iloc[invalid[0]])
            self.damaged[name] = f"{self.locate(start + row, name)} is {cell}{more}"
        elif n_numbers:
            self._mixed.append(name)
        return strings


def read_table(
    path: str | Path,
    *,
    columns: Sequence[str] | None = None,
    strings: Collection[str] = (),
    **options: Any,
) -> pandas.DataFrame:
    r"""Read a table as the commands of ``scalefair`` understand it.

    Cells are stripped of blanks; ``?``, ``NA``, ``nan`` and empty cells are missing;
    a column is one of numbers or of words, and a word among numbers is an error.

    Parameters
    ----------
    path : str or Path
        Delimited text, packed or not, parquet, ARFF, Stata or SAS, or what pandas has
        packages for, as Excel and SPSS; ``-`` is the standard input.
    columns : sequence of str or None, default=None
        Columns that are read, in this order; by default all.
    strings : collection of str, default=()
        Columns of strings, whatever they look like; decimal commas become points.
    **options
        Lists of what else means missing, as ``na_values=["-", "-200"]``; of text
        ``header``, ``delimiter``, ``decimal``, ``skip_lines`` and ``encoding``.

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
    table = TableFile(Path(path), FileOptions(**options))
    for name in (*(columns or ()), *strings):
        table.find(name, "columns and strings")
    return table.read(columns, strings)


def clean_table(X: Any, columns: Sequence[str], strings: Collection[str]) -> Any:
    """Convert the rows that a saved model is given, as its own rows were.

    Parameters
    ----------
    X : DataFrame, or array of shape (m, n_columns) in the order of `columns`
        The rows.
    columns : sequence of str
        Names of the columns.
    strings : collection of str
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
    cleaned = {}
    for name in columns:
        values = as_strings(X[name]) if name in strings else X[name].astype(np.float64)
        cleaned[name] = values.where(values.notna(), np.nan).to_numpy()
    return pandas.DataFrame(cleaned)


def as_strings(
    values: pandas.Series, missing: Collection[str] = MISSING, verbatim: bool = False
) -> pandas.Series:
    """Return stripped strings, None if missing; truth values as Python spells them.

    `verbatim` keeps the spelling of truth values.
    """
    try:
        codes, distinct = pandas.factorize(values)
    except TypeError:  # lists or dicts, as parquet may hold
        codes, distinct = pandas.factorize(values.map(str, na_action="ignore"))
    # The last entry is that of missing values, whose code is -1.
    stripped = [str(value).strip() for value in distinct] + [""]
    if values.dtype.kind == "f":  # as integers are, if some of them are missing
        stripped = [cell.removesuffix(".0") for cell in stripped]
    booleans = {} if verbatim else _BOOLEANS
    cells = [None if cell in missing else booleans.get(cell, cell) for cell in stripped]
    strings = np.array(cells, object)[codes]
    return pandas.Series(strings, name=values.name, dtype=object)


@contextmanager
def _open_parquet(path: Path) -> Iterator[Any]:
    """Open a table, which may come from the standard input."""
    with reading(path, "a parquet file"), open_bytes(path) as file:
        yield open_parquet(path, file)
