"""Tables in parquet files, read in batches by pyarrow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from scalefair.cli._errors import Failure, blame_file
from scalefair.cli._feature_table import Block, refuse_words
from scalefair.cli._feature_text import Selection

__all__ = ["ParquetTable"]

# Numbers that are read at a time.
_BLOCK = 2**20


class ParquetTable:
    """Table of named columns in a parquet file.

    Parameters
    ----------
    path : Path
        The file.

    Raises
    ------
    Failure
        If pyarrow or pandas is not installed, or the file cannot be read.
    """

    unit = "in row"

    def __init__(self, path: Path) -> None:
        with blame_file(path), open(path, "rb"):
            pass  # a missing file is no reason to install anything
        try:
            import pyarrow
            from pandas.api.types import is_complex_dtype, is_numeric_dtype
            from pyarrow import parquet
        except ImportError as error:
            raise Failure(
                f'{path}: parquet files need pandas and pyarrow: pip install "scalefair'
                f'[data]" ({error}). Or save the table as csv.'
            ) from error
        self.path = path
        self._parquet = parquet
        # The last two if what pandas has added is damaged.
        self._damage = (pyarrow.ArrowException, ValueError, KeyError, TypeError)
        with self._open() as file:
            frame = file.schema_arrow.empty_table().to_pandas()
        # The index that a frame was saved with is not among the columns.
        self._labels = list(frame.columns)
        self._words = [
            i
            for i, dtype in enumerate(frame.dtypes)
            if not is_numeric_dtype(dtype) or is_complex_dtype(dtype)
        ]
        names = [str(label) for label in self._labels]
        if twice := [name for name, n in Counter(names).items() if n > 1]:
            raise Failure(
                f"{path}: several columns are named {twice[0]!r}. Rename them, for "
                "columns are read by name."
            )
        self.names: list[str] | None = names
        self.n_columns = len(names)

    def place(self, number: int) -> str:
        """File and row."""
        return f"{self.path}: row {number} (counted from 0)"

    def where(self, number: int, column: int) -> str:
        """File, row and column."""
        return f"{self.place(number)}, column {self._labels[column]}"

    def check(self, selection: Selection) -> None:
        """Refuse features whose type is not a number, all of them at once."""
        words = [i for i in selection.features if i in self._words]
        if words:
            raise refuse_words(self, words, str(self.path))

    def blocks(self, selection: Selection) -> Iterator[Block]:
        """Read some thousand rows at a time, and only the columns that are wanted."""
        read = sorted({*selection.features, *selection.texts})
        size = max(1, _BLOCK // max(1, len(read)))
        start = 0
        for frame in self._frames(size, [str(self._labels[i]) for i in read]):
            yield self._as_block(frame, start, selection)
            start += len(frame)

    def _frames(self, size: int, columns: list[str]) -> Iterator[Any]:
        with self._open() as file:
            for batch in file.iter_batches(batch_size=size, columns=columns):
                yield batch.to_pandas()

    def _as_block(self, frame: Any, start: int, selection: Selection) -> Block:
        X = np.empty((len(frame), len(selection.features)))
        for j, column in enumerate(selection.features):
            values = frame[self._labels[column]]
            missing = np.flatnonzero(values.isna())
            if missing.size:
                where = self.where(start + int(missing[0]), column)
                raise Failure(
                    f"{where} has no value. Fill in missing values or leave the row "
                    f"out, or the column with --drop {self._labels[column]}."
                )
            X[:, j] = values.to_numpy(dtype=np.float64)
            infinite = np.flatnonzero(~np.isfinite(X[:, j]))
            if infinite.size:
                where = self.where(start + int(infinite[0]), column)
                raise Failure(
                    f"{where} is {X[infinite[0], j]}; features must be finite."
                )
        texts = []
        for column in selection.texts:
            values = frame[self._labels[column]]
            texts.append(
                values.astype(object).map(str).mask(values.isna(), "").tolist()
            )
        return Block(X, texts, range(start, start + len(frame)))

    @contextmanager
    def _open(self) -> Iterator[Any]:
        with blame_file(self.path), open(self.path, "rb") as file:
            try:
                yield self._parquet.ParquetFile(file)
            except self._damage as error:
                reason = " ".join(str(error).split()).rstrip(".")
                raise Failure(
                    f"{self.path}: not a parquet file, or damaged ({reason[:120]}). "
                    "Save it again."
                ) from error
