"""Delimited text: encoding, delimiter, decimal mark, header and records of a file.

`find_layout` detects these from the first records; what it assumes without being sure
becomes a note, with the option that says otherwise. pandas then parses the text
(`_tables.TableFile`); records are only read here to detect, and to locate an error.
"""

import bz2
import codecs
import csv
import functools
import gzip
import io
import lzma
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise, zip_longest
from pathlib import Path
from typing import IO, Any, cast

from scalefair.files._source import FileError, reading

# Spellings of a missing value.
MISSING = ("", "?", "NA", "na", "N/A", "n/a", "NaN", "nan", "NULL", "null", "<NA>")
# By the first bytes of a compressed file.
DECOMPRESSORS: dict[bytes, Any] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}
# Numbers as all programs write them, with a decimal point; and those with a comma.
_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?)", re.I | re.A)
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(e[+-]?\d+)?", re.I | re.A)
# Names of the two ends of an edge in a header, in lower case.
EDGE_HEADERS = {"source target", "src dst", "from to", "fromnodeid tonodeid", "u v"}
EDGE_HEADERS |= {"node_1 node_2", "node1 node2", "id_1 id_2", "id1 id2", "i j"}
# Marks at the start of a comment, and lines that are comments. Lists of edges may have
# them anywhere, other texts before the first record.
_COMMENT_MARKS = ("#", "%")
_COMMENT_LINES = re.compile(r"^[ \t]*[#%].*\n?", re.M)
# Byte order marks. UTF-32 comes first: its marks start with those of UTF-16.
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    codecs.BOM_UTF8: "utf-8-sig",
}
# Spellings of delimiters. None is white space: any to pandas, blanks to `records`.
_DELIMITERS = {"tab": "\t", "\\t": "\t", "space": None, " ": None}
# Records from which decimal mark and header are detected, in 5 ms for 10 columns. More
# would show rarer decimal commas, and take a time in proportion.
LAYOUT_RECORDS = 500


# --- Files of text -------------------------------------------------------------------


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file, or the standard input for ``-``; decompress gzip, bzip2 and xz."""
    # The first bytes tell whether a file is compressed, not its name.
    is_stdin = str(path) == "-"
    file: IO[bytes] = io.BytesIO(_stdin()) if is_stdin else path.open("rb")
    start = file.read(6)
    file.seek(0)
    for magic, decompress in DECOMPRESSORS.items():
        if start.startswith(magic):
            if is_stdin:
                return cast(IO[bytes], decompress(file))
            # A decompressor closes only the files that it opened itself.
            file.close()
            return cast(IO[bytes], decompress(path))
    return file


@functools.cache
def _stdin() -> bytes:
    """Return the standard input, which can be read once only."""
    return sys.stdin.buffer.read()


def open_text(path: Path, encoding: str) -> io.TextIOWrapper:
    """Open a text; only line feeds end its lines."""
    file: Any = open_bytes(path)
    try:
        return io.TextIOWrapper(file, encoding, newline="\n")
    except LookupError as error:
        file.close()
        raise FileError(f"{path}: {error}. Pass another --encoding.") from error


class UncommentedText(io.TextIOBase):
    """Text without its comment lines, which are counted.

    pandas takes one character for the start of a comment, also within a line.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file, self.n_comments = file, 0

    def read(self, size: int | None = -1) -> str:
        """Return whole lines, of about this size; an empty text at the end."""
        text, n_removed = "", 1
        # A piece that holds nothing but comments is not the end of the file.
        while n_removed and not text:
            # The rest of the last line comes with the piece: comments are whole lines.
            text = self._file.read(size or -1) + self._file.readline()
            text, n_removed = _COMMENT_LINES.subn("", text)
            self.n_comments += n_removed
        return text


def _lines(path: Path, encoding: str) -> Iterator[str]:
    """Yield the lines of a text; an error of the encoding names the line.

    It shows what the bytes would say in Windows-1252, the most frequent other encoding.
    """
    name, n_lines = encoding.upper().removesuffix("-SIG"), 0
    with reading(path, f"{name} text"), open_text(path, encoding) as file:
        try:
            for line in file:
                n_lines += 1
                yield line
        except UnicodeDecodeError as error:
            # The decoder fails on a whole buffer: count the lines before the byte.
            # n_lines were yielded: the buffer begins in the line after them.
            number = n_lines + 1 + error.object.count(b"\n", 0, error.start)
            before, after = error.object[: error.start], error.object[error.start :]
            part = before.split(b"\n")[-1][-20:] + after.split(b"\n")[0][:20]
            excerpt = quote(part.decode("cp1252", "replace").strip())
            raise FileError(
                f"{path}:{number}: not {name} text. In Windows-1252 (Latin-1) it says "
                f"{excerpt}: if that is right pass --encoding cp1252, else another one."
            ) from None


# --- Cells ---------------------------------------------------------------------------


def is_number(cell: str) -> bool:
    """Whether a cell is a number; 1_000 and 0x1F, which Python takes, are not."""
    return bool(_NUMBER.fullmatch(cell))


def with_decimal_point(cell: str) -> str:
    """Replace the decimal comma of a number by a point."""
    return cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell) else cell


def quote(text: str) -> str:
    """Quote a text for a message; one of more than 60 characters is cut."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def split_cells(text: str) -> list[str]:
    """Return the values between the commas of a text; one with a comma is quoted."""
    cells = next(csv.reader([text], skipinitialspace=True), [])
    return [cell.strip() for cell in cells]


def find_ends(names: Sequence[str]) -> int | None:
    """Return where the names of the two ends of edges stand in a header, or None."""
    pairs = (" ".join(pair).lower() for pair in pairwise(names))
    return next((i for i, pair in enumerate(pairs) if pair in EDGE_HEADERS), None)


def first_duplicate(names: Sequence[str]) -> str:
    """Return the first name that occurs twice, quoted, or an empty string."""
    return next((repr(name) for name in names if names.count(name) > 1), "")


# --- Layout --------------------------------------------------------------------------


@dataclass(frozen=True)
class FileOptions:
    """How a user says that a file is to be read; what is None is detected.

    The commands have these options, `read_table` and `read_graph` these keywords.
    """

    header: bool | None = None
    delimiter: str | None = None
    decimal: str | None = None
    skip_lines: int = 0
    encoding: str | None = None
    na_values: Collection[str] = ()  # missing values besides `MISSING`
    # Of graphs: see `read_graph`.
    directed: str = "error"
    weights: bool | None = None
    weight_column: str | None = None

    def __post_init__(self) -> None:
        """Put a single spelling of missing values into a list."""
        # A string is a collection of its letters.
        if isinstance(self.na_values, str):
            object.__setattr__(self, "na_values", [self.na_values])


@dataclass(frozen=True)
class Layout:
    """How the cells of a text are separated, and what they mean.

    Records can be read before decimal mark, names and number of columns are set: these
    are detected from them.
    """

    path: Path
    encoding: str
    n_skipped: int  # lines before the first record
    delimiter: str | None  # None for white space
    of_edges: bool  # comment lines may stand between the records
    notes: list[str]  # what was assumed
    decimal: str = "."
    names: list[str] | None = None  # of a header
    n_columns: int = 0

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield line number and cells of each record below the header."""
        lines: Iterator[str] = islice(
            _lines(self.path, self.encoding), self.n_skipped, None
        )
        if self.of_edges:  # a comment may hold a quotation mark
            lines = (_COMMENT_LINES.sub("\n", line) for line in lines)
        # csv parses quoted cells, which may hold delimiters and line feeds.
        rows = csv.reader(
            lines,
            delimiter=self.delimiter or " ",
            skipinitialspace=True,
            strict=True,
        )
        is_header = self.names is not None  # true of the first record only
        # Lines are counted by the csv module, also those within quoted cells.
        while True:
            line_number = self.n_skipped + rows.line_num + 1
            try:
                row = next(rows, None)
            except csv.Error as error:
                raise FileError(
                    f"{self.path}:{line_number}: unreadable line ({error}). Close the "
                    "quotation, leave the line out, or give --delimiter."
                ) from None
            if row is None:
                return
            # csv splits at every single blank: several in a row leave empty cells.
            cells = [cell.strip() for cell in row]
            if self.delimiter is None:  # tabs separate as well
                parts = (cell.split("\t") for cell in cells)
                cells = [part for part in chain.from_iterable(parts) if part]
            if not cells or cells == [""]:
                continue
            if not is_header:
                yield line_number, cells
            is_header = False

    def check_records(self, n_records: int | None = None) -> None:
        """Raise for a record with more or fewer cells, of the first `n_records`."""
        for line_number, cells in islice(self.records(), n_records):
            if len(cells) != self.n_columns:
                remedy = "Correct the line, or give --delimiter or --skip-lines."
                if self.delimiter in (None, "\t"):
                    remedy += " A list of neighbours has to be named .adjlist."
                raise FileError(
                    f"{self.path}:{line_number}: expected {self.n_columns} fields as "
                    f"in the first line, found {len(cells)}: {quote(','.join(cells))}. "
                    f"{remedy}"
                )


def find_layout(path: Path, options: FileOptions, of_edges: bool = False) -> Layout:
    """Detect the layout of a text from its first records; options take precedence."""
    # 1. The encoding, the line of the first record, and the delimiter in it.
    notes: list[str] = []
    encoding = _detect_encoding(path, options.encoding, notes)
    n_skipped, first_line = _find_first_record(path, encoding, options.skip_lines)
    delimiter = _choose_delimiter(path, options, first_line)
    layout = Layout(path, encoding, n_skipped, delimiter, of_edges, notes)
    # 2. The first records, a header included, as pairs of a line number and the cells;
    #    and the decimal mark in them.
    numbered = list(islice(layout.records(), LAYOUT_RECORDS))
    if not numbered:
        raise no_rows(path)
    line_number, first = numbered[0]
    missing = options.na_values
    records = [["" if c in missing else c for c in cells] for _, cells in numbered]
    decimal = options.decimal or _detect_decimal(layout, records[1:])
    if decimal == ",":
        records = [[with_decimal_point(cell) for cell in cells] for cells in records]
    # 3. Whether the first record is the header, as the option says or as it looks.
    has_header, is_doubtful = options.header, False
    if has_header is None:
        has_header, is_doubtful = _is_header(records, of_edges)
    if is_doubtful:
        decision = "data; if it is a header, pass --header"
        if has_header:
            decision = "the header; else pass --no-header"
        line = quote(",".join(first))
        notes.append(f"{path}: the first line, {line}, was taken for {decision}.")
    if options.header is None and _are_counts(records):
        raise FileError(
            f"{path}:{line_number}: the first line says how many rows and columns "
            f"follow: pass --skip-lines {n_skipped + 1}, or --header if it is one."
        )
    # 4. The names in it have to differ, and rows below it to have as many cells.
    names = [" ".join(name.split()) for name in first] if has_header else None
    if names and len(records) == 1:
        raise FileError(f"{path}: has no rows below the header on line {line_number}.")
    if names and (duplicate := first_duplicate(names)):
        raise FileError(
            f"{path}:{line_number}: several columns are named {duplicate}. Rename "
            "them; if the line is no header, pass --no-header."
        )
    layout = replace(layout, decimal=decimal, names=names, n_columns=len(first))
    layout.check_records(LAYOUT_RECORDS)
    return layout


def _detect_encoding(path: Path, encoding: str | None, notes: list[str]) -> str:
    """Return the encoding: of the byte order mark, as the option says, or UTF-8.

    Other encodings are not guessed: a wrong one would change letters unnoticed.
    """
    with reading(path, "text"), open_bytes(path) as file:
        start = file.read(4)
    # A byte order mark is certain, and wins over the option.
    for mark, name in _BYTE_ORDER_MARKS.items():
        if start.startswith(mark):
            if name not in (encoding, "utf-8-sig"):
                notes.append(f"{path}: was read as {name}, by the mark at its start.")
            return name
    if not encoding and b"\0" in start:
        raise FileError(
            f"{path}: no text, or UTF-16 without its mark: pass --encoding utf-16-le."
        )
    return encoding or "utf-8"


def _choose_delimiter(path: Path, options: FileOptions, line: str) -> str | None:
    """Return the delimiter of the options, or that of a line: None for white space."""
    delimiter = options.delimiter
    if delimiter is None:
        # The first of these that is in the line. The semicolon comes before the comma,
        # which is a decimal mark beside semicolons.
        unquoted = re.sub(r'"[^"]*"', "", line)
        marks = "\t;,|".replace(options.decimal or "", "")
        delimiter = next((mark for mark in marks if mark in unquoted), None)
        # Between bars or blanks commas that are all within numbers are decimal, too.
        for mark in ("|", None) if delimiter == "," else ():
            cells = [cell.strip() for cell in unquoted.split(mark)]
            with_comma = [cell for cell in cells if "," in cell]
            if len(cells) > 1 and all(map(_DECIMAL_COMMA.fullmatch, with_comma)):
                delimiter = mark
                break
    delimiter = _DELIMITERS.get(str(delimiter), delimiter)
    if len(delimiter or " ") != 1 or options.decimal not in (None, ".", ","):
        raise FileError(
            f"{path}: a delimiter is one character, tab or space, and a decimal mark a "
            f"point or a comma, not {delimiter!r} and {options.decimal!r}."
        )
    return delimiter


def _find_first_record(path: Path, encoding: str, skip_lines: int) -> tuple[int, str]:
    """Return the number of lines before the first record, and its line."""
    # Empty lines and comments before the first record are skipped, too.
    lines = enumerate(islice(_lines(path, encoding), skip_lines, None), skip_lines)
    for number, line in lines:
        if line.strip() and not line.startswith(_COMMENT_MARKS):
            if "\r" in line.strip("\r\n"):
                raise FileError(
                    f"{path}: its lines end in carriage returns alone. Save it with "
                    "line feeds."
                )
            return number, line
    raise no_rows(path)


def no_rows(path: Path) -> FileError:
    """Return the error of a text without a record."""
    return FileError(f"{path}: is empty: it has no rows.")


def _detect_decimal(layout: Layout, records: list[list[str]]) -> str:
    """Return the decimal mark: a comma if some numbers have one, and none a point.

    A comma that is the delimiter is no decimal mark.
    """
    # Evidence from all cells below the first record: 1,5 is a number with a decimal
    # comma, 1.5 proves that the mark is a point.
    cells = list(chain(*records))
    with_comma = [cell for cell in cells if _DECIMAL_COMMA.fullmatch(cell)]
    has_points = any("." in cell and is_number(cell) for cell in cells)
    if layout.delimiter == "," or has_points or not with_comma:
        return "."
    assumed = f"decimal commas were assumed, as in {with_comma[0]}"
    layout.notes.append(f"{layout.path}: {assumed}; else pass --decimal.")
    return ","


def _is_header(records: list[list[str]], of_edges: bool) -> tuple[bool, bool]:
    """Return whether the first record is a header, and whether that is doubtful."""
    if _is_header_of_matrix(records):
        return True, False
    first = _FirstRecord(records)
    return first.is_header_of_edges() if of_edges else first.is_header_of_table()


class _FirstRecord:
    """A first record, and what its cells and those below say for a header.

    Signs of one: a name above a column of numbers; names that do not come again; names
    that differ, of which only the first, of an index, may be empty. Signs may be wrong:
    a decision that hangs on few of them is doubtful, and becomes a note.
    """

    def __init__(self, records: list[list[str]]) -> None:
        self.cells = records[0]
        # A column is a pair: its cell of the first record, and those below that are not
        # missing. Short records are filled up with empty cells, which are missing.
        self.columns = [
            (first, [cell for cell in below if cell not in MISSING])
            for first, *below in zip_longest(*records, fillvalue="")
        ]
        # Columns whose first cell is a number, or else a name; "NA" is neither.
        self.numbered = [x for x in self.columns if is_number(x[0])]
        texts = [x for x in self.columns if not is_number(x[0])]
        named = [x for x in texts if x[0] not in MISSING]
        self.is_above_numbers = any(_are_numbers(cells) for _, cells in named)
        self.has_new_name = bool(named) and all(x not in cells for x, cells in named)
        is_distinct = len({*self.cells}) == len(self.cells)
        are_missing = not (self.numbered or named)
        self.can_be_names = is_distinct and all(self.cells[1:]) and not are_missing

    def is_header_of_edges(self) -> tuple[bool, bool]:
        """Return whether it is one above edges, and whether that is doubtful."""
        # Names above names are more likely two nodes, and a number is a node or a
        # weight. No node is called "": an empty first cell is the header of an index.
        is_known = self.cells[0] == "" or find_ends(self.cells) is not None
        is_header = is_known or (self.is_above_numbers and not self.numbered)
        may_be_header = self.can_be_names and self.has_new_name and not self.numbered
        return is_header, may_be_header and not is_header

    def is_header_of_table(self) -> tuple[bool, bool]:
        """Return whether it is one above rows, and whether that is doubtful."""
        if self.is_above_numbers:  # numbers beside such a name are doubtful names
            return True, bool(self.numbered)
        if not self.can_be_names:
            return False, False
        if not self.numbered:  # words above words: it may be the first row as well
            # Only pandas leaves a name empty, that of the numbers of the rows.
            return True, self.cells[0] != "" or not _are_numbers(self.columns[0][1])
        return self._has_years()

    def _has_years(self) -> tuple[bool, bool]:
        """Return whether numbers are names, as years, and whether that is doubtful.

        They are if all are whole and two of three signs hold: they count up by one, no
        cell below is whole, a name beside them is new.
        """
        # For example 2019, 2020, 2021.
        labels = [label for label, _ in self.numbered]
        are_whole = all(label.isdecimal() for label in labels)
        counts_up = are_whole and {int(b) - int(a) for a, b in pairwise(labels)} == {1}
        is_whole_below = any(x.isdecimal() for _, cells in self.numbered for x in cells)
        if are_whole and counts_up + (not is_whole_below) + self.has_new_name > 1:
            return True, True
        n_below = max(len(cells) for _, cells in self.numbered)
        return False, counts_up or (self.has_new_name and n_below > 2)


def _is_header_of_matrix(records: list[list[str]]) -> bool:
    """Return whether the first record comes again as the first column, of nodes.

    So does the first row of a symmetric matrix without a header. But that starts with a
    number, or the diagonal is empty, as its cell in the second row shows.
    """
    (corner, *names), *rows = records
    if len(names) < 3 or not rows or names[: len(rows)] != [row[0] for row in rows]:
        return False
    has_diagonal = rows[0][1:2] not in ([], [""])
    is_distinct = len({corner, *names}) == 1 + len(names)
    return has_diagonal and is_distinct and not is_number(corner)


def _are_counts(records: list[list[str]]) -> bool:
    """Return whether the first record counts rows and features, as of scikit-learn.

    Files of its data sets have the names of the classes after these two numbers, as in
    150,4,setosa,...
    """
    first, n_rows = records[0], len(records) - 1
    if len(first) < 3 or not (n_rows and first[0].isdecimal()):
        return False
    counts_rows = min(int(first[0]), LAYOUT_RECORDS - 1) == n_rows
    counts_columns = first[1] == str(len(records[1]) - 1)
    return counts_rows and counts_columns and not is_number(first[2])


def _are_numbers(cells: list[str]) -> bool:
    """Whether there are cells, all of them numbers."""
    return bool(cells) and all(map(is_number, cells))
