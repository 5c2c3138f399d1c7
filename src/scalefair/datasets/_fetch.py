"""Find the files of a data set or download them, read and check them."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas
from numpy.typing import NDArray
from sklearn.utils import Bunch

from scalefair.datasets._common import Columns, Floats, Ints, Words
from scalefair.datasets._sources import CHECKSUMS, Source
from scalefair.files import FileError, reading

DATA_VARIABLE = "SCALEFAIR_DATA"
PUBLISHED = "the published file (delete it to download it again)"

# A folder as users name it; None is the default one.
Home = str | os.PathLike[str] | None


class Files:
    """The files of a data set in a folder, downloaded where allowed and needed."""

    def __init__(self, source: Source, data_home: Home, download: bool) -> None:
        self._source = source
        self._folder = data_folder(data_home)
        self._download = download

    def path(self, name: str) -> Path:
        """Return where a file is (text also as ``.gz``), downloading it if allowed."""
        key, url = f"{self._source.folder}/{name}", self._source.url(name)
        plain = self._folder / key
        if plain.is_file():
            return plain
        compressed = plain.with_name(f"{name}.gz")
        if plain.suffix not in {".npz", ".zip"} and compressed.is_file():
            return compressed
        if not self._download:
            raise FileNotFoundError(
                f"{key} is not in the data folder {self._folder}, and "
                f"download_if_missing=False. Name the folder that holds it with "
                f"data_home or the environment variable {DATA_VARIABLE}, allow the "
                f"download, or save {url} there yourself."
            )
        pooch = _import_pooch(f"download {url}")
        try:
            # Downloads to a temporary name, checks, then renames: no half file is left.
            known_hash = f"sha256:{CHECKSUMS[key]}"
            pooch.retrieve(url, known_hash, fname=name, path=plain.parent)
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

    def bunch(self, **entries: Any) -> Bunch:
        """Return the entries, and where they come from."""
        return Bunch(
            **entries,
            DESCR=self._source.description,
            source=self._source.page,
            licence=self._source.licence,
        )


class Table:
    """The columns of a text file by name, checked when they are taken."""

    # `names` are those of a file without header, else line `header` holds them.

    def __init__(
        self,
        path: Path,
        content: Path | IO[bytes],
        *,
        sep: str = ",",
        header: int = 1,
        names: str = "",
    ) -> None:
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
        found = names.split()
        if header:
            found, frame = frame.iloc[0].tolist(), frame.iloc[1:]
        self._check(len(frame) > 0, "it has no rows")
        n, n_columns = len(found), frame.shape[1]
        self._check(n_columns == n, f"it must have {n} column(s), but has {n_columns}")
        # Lines that are too long do not come so far; short ones end in empty entries.
        whole = frame.iloc[:, -1] != ""
        self._check(whole, f"each line must have {n} entries, there are fewer")
        self._frame = frame.set_axis(found, axis=1)

    def _column(self, name: str) -> Any:
        self._check(name in self._frame, f"its header must name a column {name}")
        columns = self._frame.loc[:, [name]]
        same = columns.eq(columns.iloc[:, 0], axis=0).all(axis=1)
        self._check(same, f"the columns {name} must not differ")
        return columns.iloc[:, 0]

    def text(self, name: str) -> Words:
        """Return a column as it is."""
        column: Words = self._column(name).to_numpy(dtype=np.str_)
        return column

    def words(self, name: str, known: Sequence[str]) -> Words:
        """Return a column of known words."""
        column = self.text(name)
        self.check(name, np.isin(column, known), f"hold one of {list(known)}")
        return column

    def numbers(self, name: str, *, empty: float = np.nan) -> Floats:
        """Return a column of finite numbers; `empty` stands for those that lack."""
        column = self._column(name)
        parsed = pandas.to_numeric(column, errors="coerce").to_numpy(np.float64)
        values: Floats = np.where(column == "", empty, parsed)
        self.check(name, np.isfinite(values), "hold finite numbers")
        return values

    def integers(self, name: str) -> Ints:
        """Return a column of integers."""
        values = self.numbers(name)
        whole = (values == np.rint(values)) & (np.abs(values) < 2**53)
        self.check(name, whole, "hold integers")
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
        right = (column == "").to_numpy() | ~np.isnat(values)
        self.check(name, right, "hold dates")
        return values

    def indicators(
        self, name: str, known: Sequence[str], *, missing: bool = False
    ) -> Columns:
        """Return a column of zeros and ones for each word of a column of words."""
        words = self.words(name, (*known, "") if missing else known)
        return {f"{name}={word}": (words == word).astype(np.float64) for word in known}

    def check(self, name: str, right: NDArray[np.bool_], rule: str) -> None:
        """Refuse the file unless all entries of a column are right."""
        if not right.all():
            entry = self.text(name)[right.argmin()]
            self._check(right, f"column {name} must {rule}, got {str(entry)!r}")

    def _check(self, right: Any, rule: str) -> None:
        """Raise unless all is right, with the line of the first that is not."""
        if not np.all(right):
            if np.ndim(right):
                rule += f" in line {np.argmin(right) + self._first_line}"
            raise FileError(
                f"{self._path}: not the published file: {rule}. Delete it to download "
                "it again, or replace it."
            )


def data_folder(data_home: Home) -> Path:
    """Return `data_home`, else the folder SCALEFAIR_DATA names, else pooch's cache."""
    if data_home is not None:
        return Path(data_home).expanduser()
    if named := os.environ.get(DATA_VARIABLE):
        return Path(named).expanduser()
    return Path(_import_pooch("choose a cache folder").os_cache("scalefair"))


def _import_pooch(purpose: str) -> Any:
    try:
        import pooch
    except ImportError as error:
        raise ImportError(
            f'pooch is needed to {purpose}. Run pip install "scalefair[data]", or '
            f"name a folder that has the data in {DATA_VARIABLE}."
        ) from error
    return pooch
