"""Features of rows, perhaps in blocks: numbers, and strings that are encoded.

The encoder is a pipeline of scikit-learn that is fitted to the rows for training and
saved with the model. Rows that exceed the memory go through it block by block, anew in
each pass of the estimator.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from numpy.typing import NDArray
from scipy import sparse

from scalefair._entries import not_finite
from scalefair._messages import listed
from scalefair.cli._errors import Failure, note, printable
from scalefair.files import clean_table
from scalefair.files._source import BLOCK_BYTES
from scalefair.files._text import quote
from scalefair.streaming import RowReader

# --- Blocks --------------------------------------------------------------------------


def iterate_blocks(X: Any) -> Iterator[Any]:
    """Yield blocks of rows: of a reader, or of an array or frame."""
    if isinstance(X, RowReader):
        for number, block in enumerate(X.blocks(), start=1):
            if X.progress is not None:
                X.progress(number, len(X))
            yield block
    elif sparse.issparse(X):
        yield X
    else:  # a frame may be a mapped file: a block of it is what is in memory
        step = max(1, BLOCK_BYTES // (8 * max(1, X.shape[1])))
        yield from (X[start : start + step] for start in range(0, len(X), step))


def map_blocks(X: Any, change: Callable[[Any], Any]) -> Any:
    """Return a changed matrix, or a reader that changes the blocks that it reads."""
    return MappedReader(X, change) if isinstance(X, RowReader) else change(X)


def check_finite(path: Path, X: Any) -> None:
    """Raise a Failure that names the first value that is NaN or infinite."""
    start = 0  # row of the file that is the first of the block
    for block in iterate_blocks(X):
        rows, columns, _ = not_finite(block)
        if rows.size:
            raise Failure(
                f"{path}: row {start + rows[0]}, column {columns[0]} (counted "
                "from 0) is NaN or infinite. Give it a value or leave the row out."
            )
        start += block.shape[0]


class MappedReader(RowReader):
    """Reader that applies a function to the blocks of another one, or of a frame."""

    def __init__(self, source: Any, change: Callable[[Any], Any]) -> None:
        self._source, self._change = source, change
        if isinstance(source, RowReader):
            self.lengths, self.progress = source.lengths, source.progress
        else:
            lengths = [len(block) for block in iterate_blocks(source)]
            self.lengths = np.array(lengths)
        # What the function makes of the first block holds for all of them.
        first = self.block(0)
        self.n_features, self.dtype = first.shape[1], first.dtype
        self.is_sparse = sparse.issparse(first)
        # Of sparse rows an estimate: that the blocks are alike.
        size = first.nnz * len(self) if self.is_sparse else np.prod(self.shape)
        self.nnz = int(size)

    def block(self, number: int) -> Any:
        """Return the rows of a block."""
        if isinstance(self._source, RowReader):
            return self._change(self._source.block(number))
        start = int(self.lengths[:number].sum())
        return self._change(self._source[start : start + int(self.lengths[number])])

    def blocks(self) -> Iterator[Any]:
        """Iterate over the blocks; a pass reads a compressed source only once."""
        is_reader = isinstance(self._source, RowReader)
        blocks = self._source.blocks() if is_reader else iterate_blocks(self._source)
        yield from map(self._change, blocks)


class _PassCounter:
    """Progress of a reader: counts the passes, and shows each on a bar of rich."""

    def __init__(self, name: str, bar: Any) -> None:
        self.n_passes, self._name, self._bar = 0, name, bar
        self._task = bar.add_task(name, visible=False)

    def __call__(self, number: int, n_blocks: int) -> None:
        """Show that a block was read; the first one starts a pass.

        How many passes an estimator needs is not known before it ends.
        """
        if number == 1:
            self.n_passes += 1
            name = f"{self._name}, pass {self.n_passes}"
            self._bar.reset(self._task, total=n_blocks, description=name, visible=True)
        self._bar.update(self._task, completed=number)


@contextmanager
def watch_passes(matrices: Mapping[str, Any], *, show: bool) -> Iterator[None]:
    """Count the passes of those matrices that are readers, on a bar if `show`."""
    readers = {name: X for name, X in matrices.items() if isinstance(X, RowReader)}
    if not readers:
        yield
        return
    from rich.markup import escape
    from rich.progress import Progress

    bar = Progress(transient=True, disable=not show)
    # Even a disabled bar prints a blank line at its end, with rich before 14.3.
    with bar if show else nullcontext():
        for name, reader in readers.items():
            reader.progress = _PassCounter(escape(printable(name)), bar)
        yield


def describe_passes(X: Any) -> dict[str, Any]:
    """Return the number of blocks and passes, of rows that were read in blocks."""
    if not isinstance(X, RowReader):
        return {}
    facts = {"read": "in blocks", "n_blocks": len(X)}
    if isinstance(X.progress, _PassCounter):
        facts["n_passes"] = X.progress.n_passes
    return facts


# --- The encoder ---------------------------------------------------------------------


@contextmanager
def encoded(
    parts: Mapping[str, Any],
    *,
    show: bool,
    standardize: bool,
    impute: bool,
    dense: bool = False,
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield an encoder, fitted to the first part, and the features of each part.

    Passes over rows that are read in blocks are counted, on a bar if `show`. `dense`
    makes no sparse matrix of encoded strings.
    """
    try:
        # 1. Passes of readers, those of the fit of the encoder among them.
        sources = {name: rows.X for name, rows in parts.items()}
        with watch_passes(sources, show=show):
            train = next(iter(parts.values()))
            encoder = fit_encoder(
                train, standardize=standardize, impute=impute, dense=dense
            )
            X = {name: encode(encoder, rows) for name, rows in parts.items()}
            # 2. Tables in a temporary file become readers only when they are encoded.
            stored = {name: X[name] for name, rows in parts.items() if rows.is_stored}
            with watch_passes(stored, show=show):
                yield encoder, X
    except (Failure, ValueError):
        # Blocks are not checked when they are read: a NaN may be the reason.
        for rows in parts.values():
            if isinstance(rows.X, RowReader):
                check_finite(rows.path, rows.X)
        raise


def fit_encoder(
    rows: Any, *, standardize: bool, impute: bool, dense: bool = False
) -> Any:
    """Fit a pipeline that turns rows into features.

    A table is cleaned, and its numbers and strings are imputed and scaled or encoded; a
    matrix is scaled at most.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.frozen import FrozenEstimator
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

    strings = rows.string_columns
    numbers = [name for name in rows.names if name not in strings]
    scaler = _fit_scaler(rows, numbers) if standardize and numbers else None
    if not isinstance(rows.X, pandas.DataFrame):
        return scaler or FunctionTransformer(accept_sparse=True).fit(np.zeros((1, 1)))
    # 1. Numbers are imputed and standardized. The scaler was fitted to all rows, as a
    #    frame; a frozen one is not fitted again.
    number_steps = []
    if impute:
        number_steps.append(SimpleImputer().set_output(transform="pandas"))
    if scaler is not None:
        number_steps.append(FrozenEstimator(scaler))
    # 2. Strings are imputed and encoded; the categories are those of all rows.
    categories = [np.array(sorted(rows.X[name].dropna().unique())) for name in strings]
    string_steps = [OneHotEncoder(categories=categories, handle_unknown="warn")]
    if impute:
        string_steps.insert(0, SimpleImputer(strategy="most_frequent"))
    # 3. Both are put together. Saved models have these names of steps.
    columns = {"columns": rows.names, "strings": strings}
    transformers: list[tuple[str, Any, list[str]]] = []
    if numbers:
        transformer = make_pipeline(*number_steps) if number_steps else "passthrough"
        transformers.append(("numbers", transformer, numbers))
    if strings:
        transformers.append(("words", make_pipeline(*string_steps), strings))
    encoder = make_pipeline(
        FunctionTransformer(clean_table, kw_args=columns),
        ColumnTransformer(transformers, sparse_threshold=0.0 if dense else 0.3),
    )
    # 4. Means and most frequent strings are of all rows. Nothing else is still to be
    #    fitted, so that without imputation a few rows of a large table do.
    return encoder.fit(rows.X if impute else rows.X.head(1000))


def _fit_scaler(rows: Any, numbers: list[str]) -> Any:
    """Fit a scaler to all rows, block by block; sparse rows are not centred."""
    from sklearn.preprocessing import StandardScaler

    X = rows.X[numbers] if isinstance(rows.X, pandas.DataFrame) else rows.X
    is_sparse = X.is_sparse if isinstance(X, RowReader) else sparse.issparse(X)
    scaler = StandardScaler(with_mean=not is_sparse)
    with np.errstate(over="ignore", invalid="ignore"):  # checked below
        start = 0  # first row of the block
        for block in iterate_blocks(X):
            weights = rows.weights_of(slice(start, start := start + block.shape[0]))
            if weights is None or weights.any():  # else its mean would be 0 / 0
                scaler.partial_fit(block, sample_weight=weights)
    if not (is_finite := np.isfinite(scaler.var_)).all():
        name = numbers[is_finite.argmin()]
        raise Failure(f"{rows.path}: column {name} cannot be standardized: too large.")
    return scaler


def note_spreads(rows: Any, X: Any) -> None:
    """Note features whose spreads, in the first rows, differ a thousandfold."""
    from sklearn.preprocessing import StandardScaler

    first = X.block(0) if isinstance(X, RowReader) else X
    with np.errstate(over="ignore", invalid="ignore"):
        spreads = np.sqrt(StandardScaler(with_mean=False).fit(first).var_)
    spreads = np.where(spreads > 0, spreads, np.nan)  # constants have none
    if np.isnan(spreads).all():
        return
    low, high = np.nanargmin(spreads), np.nanargmax(spreads)
    if spreads[high] > 1000 * spreads[low]:
        note(
            f"{rows.path}: {rows.names[high]} spreads {spreads[high]:.2g} and "
            f"{rows.names[low]} {spreads[low]:.2g}: the largest spreads decide. Pass "
            "--standardize unless all are in one unit."
        )


def encode(encoder: Any, rows: Any) -> Any:
    """Return the features of rows: an array, a CSR matrix, or a reader of either."""
    # The encoder would warn of unknown strings without their column.
    for name, categories in _categories(encoder, rows).items():
        note_unknown(rows.path, rows.X[name], categories, "does not occur in TRAIN")

    def transform(block: Any) -> Any:
        """Encode some rows, without a warning in each block."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Found unknown categories")
            X = encoder.transform(block)
        return sparse.csr_array(X) if sparse.issparse(X) else X

    in_blocks = rows.is_stored or isinstance(rows.X, RowReader)
    return MappedReader(rows.X, transform) if in_blocks else transform(rows.X)


def note_unknown(
    path: Path, strings: pandas.Series, vocabulary: Any, reason: str
) -> None:
    """Note strings that a model does not know; refuse a column that has no others.

    A column of other strings only is of another spelling, or another column.
    """
    present = strings.dropna()
    new = present[~present.isin(vocabulary)]
    if new.empty:
        return
    message = (
        f"{path}: column {strings.name}: {len(new):,} row(s) have a value that "
        f"{reason}, such as {quote(str(new.iloc[0]))}"
    )
    if len(new) < len(present):
        note(f"{message}.")
        return
    raise Failure(
        f"{message}, and none has another (known: {listed(vocabulary)}). Spell them as "
        "there, predict them beside rows that have these, or train without this column."
    )


def _categories(encoder: Any, rows: Any) -> dict[str, NDArray[Any]]:
    """Return the categories that a fitted encoder knows, by column."""
    if not rows.string_columns:
        return {}
    one_hot = encoder[-1].named_transformers_["words"][-1]
    return dict(zip(rows.string_columns, one_hot.categories_, strict=True))


def feature_names(encoder: Any, rows: Any) -> list[str]:
    """Return names of features: columns, and ``column=value`` of encoded strings."""
    categories = _categories(encoder, rows)
    encoded = [f"{name}={value}" for name in categories for value in categories[name]]
    return [name for name in rows.names if name not in categories] + encoded
