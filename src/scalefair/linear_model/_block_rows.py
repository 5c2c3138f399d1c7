"""Rows that are read in blocks: what there is, and a sample of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import _num_samples

from scalefair._entries import canonical
from scalefair._groups import check_values, encode_groups, encode_values
from scalefair.linear_model._feature_units import (
    ColumnSpread,
    FeatureUnits,
    column_spread,
)
from scalefair.linear_model._oracle import ScoreOracle
from scalefair.linear_model._partitioned_oracle import PartitionedOracle
from scalefair.linear_model._training_rows import (
    GroupLimits,
    TrainingRows,
    check_classes,
)
from scalefair.streaming import LocalParts

__all__ = ["BlockRows", "ReadBlocks"]

ReadBlocks = Callable[[], Iterable[tuple[Any, Any, Any]]]
# Least rows of a group in the sample, if it has as many.
_LEAST = 500
# Shares of the sample that are solved one after the other.
_GROWING = (1 / 16, 1 / 4, 1.0)


@dataclass
class _Kept:
    """Rows of one group with the smallest random keys so far."""

    keys: NDArray[np.float64]
    X: Any
    signs: NDArray[np.float64]

    def first(self, n: int) -> _Kept:
        order = np.argsort(self.keys, kind="stable")[:n]
        return _Kept(self.keys[order], self.X[order], self.signs[order])


class BlockRows:
    """Labels, groups, sizes and units of all rows, and a random sample of them.

    Parameters
    ----------
    read_blocks : callable
        Returns an iterable of blocks ``(X, y, sensitive_features)``, the same ones
        each time. Those without rows are left out.
    check : callable
        Takes the features of a block, with the keyword `reset` whether they are the
        first, and returns them checked: dense or CSR.
    limits : GroupLimits
        What groups there may be.
    """

    def __init__(
        self, read_blocks: ReadBlocks, check: Callable[..., Any], limits: GroupLimits
    ) -> None:
        self._read_blocks = read_blocks
        self._check = check
        classes, groups, sizes, spreads = [], [], [], []
        n_rows = n_blocks = 0
        for X, y, features in self._blocks():
            try:
                X = check(X, reset=n_blocks == 0)
                classes.append(_distinct_labels(y, X.shape[0]))
                found, codes = encode_groups(features, X.shape[0])
            except ValueError as error:
                raise ValueError(
                    f"Block {n_blocks} of read_blocks(), rows from {n_rows} on: {error}"
                ) from error
            groups.append(found)
            sizes.append(np.bincount(codes))
            spreads.append(column_spread(_stored(X)))
            n_rows += X.shape[0]
            n_blocks += 1
        if not n_rows:
            raise ValueError(
                "read_blocks() gave no rows. It must return a new iterator each time "
                "it is called."
            )
        self.classes, _ = _union(classes, "y")
        self.groups, codes = _union(groups, "sensitive_features")
        check_classes(self.classes)
        self.group_sizes = np.bincount(codes, np.concatenate(sizes)).astype(np.int64)
        limits.check(self.groups, self.group_sizes)
        self.units = FeatureUnits.of(reduce(ColumnSpread.merge, spreads))
        self.n_rows = n_rows
        self.n_blocks = n_blocks

    def read(self) -> Iterator[TrainingRows]:
        """Yield encoded blocks."""
        for X, y, features in self._blocks():
            X = _stored(self._check(X, reset=False))
            labels = check_values(y, name="y", what="label")
            groups = check_values(features, name="sensitive_features", what="group")
            signs = 2.0 * _indices(labels, self.classes, "label") - 1.0
            codes = _indices(groups, self.groups, "group")
            yield TrainingRows(X, signs, codes, self.classes, self.groups)

    def _blocks(self) -> Iterator[tuple[Any, Any, Any]]:
        """Yield the blocks that have rows."""
        for X, y, features in self._read_blocks():
            if _num_samples(X):
                yield X, y, features

    def labels(self) -> TrainingRows:
        """Return signs and groups of all rows in small types, without features."""
        small = np.min_scalar_type(-len(self.groups))
        parts = [
            (block.signs.astype(np.int8), block.codes.astype(small))
            for block in self.read()
        ]
        signs, codes = (np.concatenate(column) for column in zip(*parts, strict=True))
        return TrainingRows(None, signs, codes, self.classes, self.groups)

    def sample(self, size: int, rng: np.random.RandomState) -> list[_Kept]:
        """Return random rows of each group, in random order.

        Any first ones are a sample too. Groups have their shares of `size`, or 500
        rows if that is more.
        """
        shares = self.group_sizes / self.n_rows
        wanted = np.maximum(np.ceil(size * shares), _LEAST).astype(int)
        kept: list[_Kept | None] = [None] * len(self.groups)
        n_rows = 0
        for block in self.read():
            n_rows += block.signs.size
            keys = rng.uniform(size=block.signs.size)
            for code, n_wanted in enumerate(wanted):
                rows = np.flatnonzero(block.codes == code)
                new = _Kept(keys[rows], block.X[rows], block.signs[rows])
                kept[code] = _joined(kept[code], new).first(n_wanted)
        if n_rows != self.n_rows:
            raise ValueError(
                f"read_blocks() gave {self.n_rows} rows when it was called first and "
                f"{n_rows} the second time: it must return a new iterator over the "
                "same blocks each time it is called."
            )
        return [rows for rows in kept if rows is not None]

    def growing(self, size: int, rng: np.random.RandomState) -> Iterator[TrainingRows]:
        """Return growing samples, each of which has the rows of the one before."""
        sample = self.sample(size, rng)
        return (self.part(sample, share) for share in _GROWING)

    def oracle(
        self, make: Callable[[TrainingRows], ScoreOracle], *, interactions: bool
    ) -> PartitionedOracle:
        """Return the oracle of all rows; `make` returns that of a block."""
        return PartitionedOracle(
            LocalParts(self.read, self.n_blocks).map(make),
            len(self.units.centre),
            self.group_sizes,
            interactions=interactions,
            units=self.units,
        )

    def part(self, sample: list[_Kept], share: float) -> TrainingRows:
        """Return the first rows of each group of a sample."""
        parts = [
            rows.first(max(int(share * rows.keys.size), min(_LEAST, rows.keys.size)))
            for rows in sample
        ]
        codes = np.repeat(np.arange(len(parts)), [p.keys.size for p in parts])
        return TrainingRows(
            _stack([p.X for p in parts]),
            np.concatenate([p.signs for p in parts]),
            codes,
            self.classes,
            self.groups,
        )


def _distinct_labels(y: Any, n_rows: int) -> NDArray[Any]:
    labels = check_values(y, name="y", what="label")
    if labels.size != n_rows:
        raise ValueError(f"{n_rows} rows and {labels.size} labels.")
    return encode_values(labels, name="y")[0]


def _union(
    parts: list[NDArray[Any]], name: str
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Distinct values of all blocks, and the index of each block's among them."""
    if len({part.dtype.kind in "biuf" for part in parts}) > 1:
        raise ValueError(
            f"{name} holds numbers in some blocks and other values in others: convert "
            "it to one type."
        )
    return encode_values(np.concatenate(parts), name=name)


def _indices(values: NDArray[Any], known: NDArray[Any], what: str) -> NDArray[np.int64]:
    """Index of each value among the sorted ones of the first pass."""
    indices = np.searchsorted(known, values).astype(np.int64)
    indices[indices == known.size] = 0
    if not (known[indices] == values).all():
        raise ValueError(
            f"read_blocks() gave a {what} that was not there when it was called "
            "first: it must return the same blocks each time it is called."
        )
    return indices


def _stored(X: Any) -> Any:
    """Rows as oracles read them."""
    return canonical(X) if sparse.issparse(X) else np.ascontiguousarray(X)


def _joined(first: _Kept | None, second: _Kept) -> _Kept:
    if first is None:
        return second
    return _Kept(
        np.concatenate([first.keys, second.keys]),
        _stack([first.X, second.X]),
        np.concatenate([first.signs, second.signs]),
    )


def _stack(parts: list[Any]) -> Any:
    if sparse.issparse(parts[0]):
        return sparse.vstack(parts, format="csr")
    return np.ascontiguousarray(np.concatenate(parts))
