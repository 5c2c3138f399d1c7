"""Columns turned into features: numbers perhaps standardized, words one-hot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from scalefair.cli._block_files import finite_blocks, is_reader
from scalefair.cli._classify_rows import LabelledRows, Schema
from scalefair.cli._errors import Failure

__all__ = ["Encoding", "learn_encoding"]

# Above this share of entries that are not zero dense rows are faster.
_DENSE = 0.3


@dataclass(frozen=True)
class Encoding:
    """How rows become features.

    Attributes
    ----------
    schema : Schema
        The columns.
    scaler : StandardScaler or None
        Scales the columns of numbers.
    """

    schema: Schema
    scaler: Any

    @property
    def feature_names(self) -> list[str]:
        """Names of the features: columns, and ``column=value`` for words."""
        schema, n = self.schema, self.schema.n_numbers
        names = list(schema.columns[:n])
        for column, values in zip(schema.columns[n:], schema.categories, strict=True):
            names += [f"{column}={value}" for value in values.tolist()]
        return names

    def transform(self, rows: LabelledRows) -> Any:
        """Features of rows: an array, or a csr_array if they are mostly zeros.

        Rows that are read in blocks are a reader again.
        """
        numbers = rows.numbers
        if self.scaler is not None and self.schema.n_numbers:
            from scalefair.cli._mapped_reader import map_rows

            numbers = map_rows(numbers, self.scaler.transform, self.schema.n_numbers)
        if not rows.words:
            return numbers
        hot = [
            _one_hot(codes, len(values))
            for codes, values in zip(rows.words, self.schema.categories, strict=True)
        ]
        filled = np.count_nonzero(numbers) + rows.n_rows * len(hot)
        if filled > _DENSE * rows.n_rows * len(self.feature_names):
            return np.hstack([numbers, *(block.toarray() for block in hot)])
        return sparse.hstack([sparse.csr_array(numbers), *hot], format="csr")

    def transformer(self) -> Any:
        """Return a transformer of scikit-learn that does the same to raw columns.

        It is fitted to the order of `Schema.columns`, and to an array of objects if
        some of them are words.
        """
        from sklearn.compose import ColumnTransformer
        from sklearn.frozen import FrozenEstimator
        from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

        n, schema = self.schema.n_numbers, self.schema
        numbers = self.scaler
        if numbers is None and schema.is_table:
            # Columns of an array of objects become floats.
            numbers = FunctionTransformer(np.asarray, kw_args={"dtype": np.float64})
        elif numbers is None:
            numbers = FunctionTransformer(accept_sparse=True)
        if not schema.categories:
            return numbers
        words = OneHotEncoder(categories=schema.categories, handle_unknown="ignore")
        row: list[Any] = [0.0] * n + [values[0] for values in schema.categories]
        parts = [
            ("numbers", FrozenEstimator(numbers), list(range(n))),
            ("words", words, list(range(n, len(row)))),
        ]
        # A row is enough: the scaler and the categories are known.
        encoder = ColumnTransformer(parts if n else parts[1:])
        return encoder.fit(np.array([row], dtype=object))


def learn_encoding(
    schema: Schema, rows: LabelledRows, *, standardize: bool
) -> Encoding:
    """Learn from the rows for training how they are encoded.

    Parameters
    ----------
    schema : Schema
        Their columns.
    rows : LabelledRows
        The rows.
    standardize : bool
        Whether columns of numbers are divided by their standard deviations and,
        unless they are sparse, centred.

    Raises
    ------
    Failure
        If the scale of a column overflows, or a value read in blocks is not finite.
    """
    if not standardize or not schema.n_numbers:
        return Encoding(schema, None)
    from sklearn.preprocessing import StandardScaler

    blocks: Iterable[Any] = [rows.numbers]
    is_sparse = sparse.issparse(rows.numbers)
    if is_reader(rows.numbers):
        blocks = finite_blocks(rows.path, rows.numbers)
        is_sparse = rows.numbers.is_sparse
    scaler = StandardScaler(with_mean=not is_sparse)
    with np.errstate(over="ignore", invalid="ignore"):  # which is looked at below
        for block in blocks:
            scaler.partial_fit(block)
    if not np.isfinite(scaler.var_).all():
        worst = schema.columns[int(np.flatnonzero(~np.isfinite(scaler.var_))[0])]
        raise Failure(
            f"{rows.path}: cannot be standardized: the numbers of column {worst} are "
            "too large. Divide them by a constant, or leave the column out."
        )
    return Encoding(schema, scaler)


def _one_hot(codes: Any, n_values: int) -> sparse.csr_array:
    known = codes >= 0
    indptr = np.concatenate([[0], np.cumsum(known)])
    data = np.ones(int(indptr[-1]))
    return sparse.csr_array((data, codes[known], indptr), shape=(len(codes), n_values))
