"""Loaders of data sets: find or download the files, read and check them.

A data set is a record in sources.toml, and a function that makes a Bunch of its files.
Columns are checked when they are taken: a file that is not the published one is refused
before a number of it is used.
"""

import functools
import inspect
import os
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas
from numpy.typing import NDArray
from sklearn.utils import Bunch

from scalefair._docs import documented
from scalefair._rounding import ROUNDING
from scalefair.files import FileError, reading

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Strings = NDArray[np.str_]
Columns = dict[str, Floats]  # by name

DATA_VARIABLE = "SCALEFAIR_DATA"
PUBLISHED = "the published file (delete it to download it again)"

# A folder as users name it; None is the default one.
Home = str | os.PathLike[str] | None

# Texts of the docstrings of all fetchers.
_TEXTS = {
    "download": """\
data_home : str or path-like, default=None
    Folder in which files are looked for and to which they are downloaded; by default
    that of the environment variable SCALEFAIR_DATA, else the user's cache folder.
download_if_missing : bool, default=True
    If False, raise an error instead of downloading.""",
    "raises": """\
Raises
------
OSError
    If a file is missing and `download_if_missing` is False, or a download fails.
ValueError
    If an option is unknown, a file is not the published one (the message says where),
    or a download has a wrong checksum.
ImportError
    If a download is needed and pooch is not installed.""",
}
# The examples of a fetcher, {0}.
_EXAMPLES = """\
Examples
--------
>>> from scalefair.datasets import {0}
>>> data = {0}()  # doctest: +SKIP
>>> print(data.DESCR)  # doctest: +SKIP"""


@dataclass(frozen=True)
class Source:
    """A data set: its folder, location on GitHub, licence, description and files."""

    folder: str
    location: str  # owner/name/commit and a folder
    licence: str
    description: str  # the entry `DESCR` and the section Notes
    files: dict[str, str]  # SHA-256 of the published bytes, by name

    @property
    def page(self) -> str:
        """Page of the folder, pinned to a commit."""
        owner, name, commit = self.location.split("/", 2)
        return f"https://github.com/{owner}/{name}/tree/{commit}"

    def url(self, name: str) -> str:
        """Public address of a file."""
        return f"{_RAW}/{self.location}/{name}"


_RAW = "https://raw.githubusercontent.com"
# The data sets by their folders.
_RECORDS = tomllib.loads(Path(__file__).with_name("sources.toml").read_text("utf-8"))
SOURCES = {folder: Source(folder, **record) for folder, record in _RECORDS.items()}


def fetcher(folder: str) -> Callable[[Callable[..., Bunch]], Callable[..., Bunch]]:
    """Make a fetcher of the data set of a folder from a function that reads its files.

    The function gets `Files` and the options of the fetcher. The fetcher has parameters
    for the folder and the download, too; it adds the source and the description of the
    data set to the Bunch, and fills texts into the docstring: `download` (these
    parameters), `raises`, `notes` (the description) and `examples`.
    """
    source = SOURCES[folder]

    def decorate(read: Callable[..., Bunch]) -> Callable[..., Bunch]:
        """Make the fetcher, with its signature and docstring."""

        def fetch(
            *, data_home: Home = None, download_if_missing: bool = True, **options: Any
        ) -> Bunch:
            data = read(Files(source, data_home, download_if_missing), **options)
            data.DESCR, data.source = source.description, source.page
            data.licence = source.licence
            return data

        # The signature that users see has the options of `read`, without the files, and
        # the parameters of all fetchers.
        _, *options = inspect.signature(read).parameters.values()
        *shared, _ = inspect.signature(fetch).parameters.values()
        signature = inspect.Signature([*options, *shared], return_annotation=Bunch)
        functools.update_wrapper(fetch, read)
        # `help` and the documentation show this instead of **options.
        vars(fetch)["__signature__"] = signature
        notes = f"Notes\n-----\n{source.description.strip()}"
        examples = _EXAMPLES.format(read.__name__)
        return documented(**_TEXTS, notes=notes, examples=examples)(fetch)

    return decorate


@dataclass(frozen=True)
class Files:
    """The files of a data set in a folder, downloaded where allowed and needed."""

    source: Source
    data_home: Home
    download: bool

    def path(self, name: str) -> Path:
        """Return where a file is (text also as ``.gz``), downloading it if allowed."""
        # Files are found by their published names in a folder for each data set.
        key, url = f"{self.source.folder}/{name}", self.source.url(name)
        folder = data_folder(self.data_home)
        # 1. The file itself, or packed.
        plain = folder / key
        if plain.is_file():
            return plain
        compressed = plain.with_name(f"{name}.gz")
        if plain.suffix not in {".npz", ".zip"} and compressed.is_file():
            return compressed
        # 2. It is missing: download it if that is allowed.
        if not self.download:
            raise FileNotFoundError(
                f"{key} is not in the data folder {folder}, and "
                f"download_if_missing=False. Name the folder that holds it with "
                f"data_home or the environment variable {DATA_VARIABLE}, allow the "
                f"download, or save {url} there yourself."
            )
        pooch = _import_pooch(f"download {url}")
        try:
            # Downloads to a temporary name, checks and renames: a file is complete.
            checksum = f"sha256:{self.source.files[name]}"
            pooch.retrieve(url, checksum, fname=name, path=plain.parent)
        except OSError as error:
            raise OSError(
                f"{key} could not be downloaded: {error}. Try again, or save {url} as "
                f"{plain} yourself."
            ) from error
        return plain

    def table(self, name: str, **options: Any) -> "Table":
        """Read a text file: see `Table`."""
        path = self.path(name)
        with reading(path, PUBLISHED):
            return Table(path, path, **options)


class Table:
    """The columns of a text file by name, checked when they are taken."""

    # `names` are the columns of a file without header; else they are in line `header`.

    def __init__(
        self,
        path: Path,
        content: Path | IO[bytes],
        *,
        sep: str = ",",
        header: int = 1,
        names: str = "",
    ) -> None:
        """Read all cells as strings; columns are parsed when they are taken."""
        # Line of the file that holds the first row, for messages. All lines are kept,
        # also blank ones: a row and its line differ by this number.
        self._path, self._first_line = path, header + 1
        frame = pandas.read_csv(
            content,
            sep=sep,
            header=None,
            skiprows=max(header - 1, 0),
            dtype=str,
            keep_default_na=False,
            skip_blank_lines=False,
        )
        # The frame begins with the header, if there is one.
        columns = names.split()
        if header:
            columns, frame = frame.iloc[0].tolist(), frame.iloc[1:]
        self._check(len(frame) > 0, "it has no rows")
        n, n_columns = len(columns), frame.shape[1]
        self._check(n_columns == n, f"it must have {n} column(s), but has {n_columns}")
        # pandas refuses lines that are too long; short ones end in empty entries.
        is_complete = frame.iloc[:, -1] != ""
        self._check(is_complete, f"each line must have {n} entries, there are fewer")
        self._frame = frame.set_axis(columns, axis=1)

    def _column(self, name: str) -> Any:
        """Return a column of strings; columns of the same name must be equal."""
        self._check(name in self._frame, f"its header must name a column {name}")
        columns = self._frame.loc[:, [name]]
        is_same = columns.eq(columns.iloc[:, 0], axis=0).all(axis=1)
        self._check(is_same, f"the columns {name} must not differ")
        return columns.iloc[:, 0]

    def text(self, name: str) -> Strings:
        """Return a column as strings."""
        column: Strings = self._column(name).to_numpy(dtype=np.str_)
        return column

    def categories(self, name: str, allowed: Sequence[str]) -> Strings:
        """Return a column of categories."""
        column = self.text(name)
        self.check(name, np.isin(column, allowed), f"hold one of {list(allowed)}")
        return column

    def numbers(self, name: str, *, empty: float = np.nan) -> Floats:
        """Return a column of finite numbers; missing ones are `empty`."""
        column = self._column(name)
        # What is no number becomes NaN, which the check refuses; empty cells are
        # allowed if `empty` is finite.
        parsed = pandas.to_numeric(column, errors="coerce").to_numpy(np.float64)
        values: Floats = np.where(column == "", empty, parsed)
        self.check(name, np.isfinite(values), "hold finite numbers")
        return values

    def integers(self, name: str) -> Ints:
        """Return a column of integers."""
        values = self.numbers(name)
        # Up to 2^53 every integer is a float64.
        is_integer = (values == np.rint(values)) & (np.abs(values) < 2**53)
        self.check(name, is_integer, "hold integers")
        return values.astype(np.int64)

    def labels(self, name: str) -> Ints:
        """Return a column of labels 0 and 1."""
        values = self.integers(name)
        self.check(name, np.isin(values, (0, 1)), "hold 0 or 1")
        return values

    def dates(self, name: str) -> NDArray[np.datetime64]:
        """Return a column of dates, with or without a time; NaT where missing."""
        column = self._column(name)
        parsed = pandas.to_datetime(column, format="ISO8601", errors="coerce")
        values: NDArray[np.datetime64] = parsed.to_numpy(dtype="datetime64[s]")
        # NaT stands for an empty cell; elsewhere it is a date that cannot be parsed.
        is_valid = (column == "").to_numpy() | ~np.isnat(values)
        self.check(name, is_valid, "hold dates")
        return values

    def indicators(
        self, name: str, categories: Sequence[str], *, missing: bool = False
    ) -> Columns:
        """Return a column of zeros and ones for each category of a column."""
        column = self.categories(name, (*categories, "") if missing else categories)
        return {f"{name}={c}": (column == c).astype(np.float64) for c in categories}

    def check(self, name: str, is_valid: NDArray[np.bool_], rule: str) -> None:
        """Raise FileError unless all entries of a column are valid."""
        if not is_valid.all():
            entry = self.text(name)[is_valid.argmin()]
            self._check(is_valid, f"column {name} must {rule}, got {str(entry)!r}")

    def _check(self, is_valid: Any, rule: str) -> None:
        """Raise FileError, with the first line that is not valid, unless all are.

        `is_valid` is a test of the whole file, or of each row.
        """
        if not np.all(is_valid):
            if np.ndim(is_valid):
                rule += f" in line {np.argmin(is_valid) + self._first_line}"
            raise FileError(
                f"{self._path}: not the published file: {rule}. Delete it to download "
                "it again, or replace it."
            )


def check_option(name: str, value: Any, allowed: Sequence[Any]) -> None:
    """Raise ValueError unless the value is one of those allowed."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {tuple(allowed)}, got {value!r}.")


def standardise(values: Floats, *, ddof: int = 0) -> Floats:
    """Return columns of mean 0 and variance 1, by n - ddof; constant ones become 0."""
    deviations = values.std(axis=0, ddof=ddof)
    centred: Floats = values - values.mean(axis=0)
    # The deviation of a constant column is rounding.
    varies = deviations > ROUNDING * np.abs(values).max(axis=0)
    scaled: Floats = np.zeros_like(centred)
    np.divide(centred, deviations, out=scaled, where=varies)
    return scaled


def data_folder(data_home: Home) -> Path:
    """Return `data_home`, else the folder SCALEFAIR_DATA names, else pooch's cache."""
    if data_home is not None:
        return Path(data_home).expanduser()
    if folder := os.environ.get(DATA_VARIABLE):
        return Path(folder).expanduser()
    return Path(_import_pooch("choose a cache folder").os_cache("scalefair"))


def _import_pooch(purpose: str) -> Any:
    """Return pooch, or say what it is needed for."""
    try:
        import pooch
    except ImportError as error:
        raise ImportError(
            f'pooch is needed to {purpose}. Run pip install "scalefair[data]", or '
            f"name a folder that has the data in {DATA_VARIABLE}."
        ) from error
    return pooch
