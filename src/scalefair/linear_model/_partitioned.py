"""Rows that are not all in memory: in parts elsewhere, or read in blocks.

What is known of all of them, the oracle to which every part adds its sums, and a
random sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import _num_samples

from scalefair._entries import canonical, check_array
from scalefair._groups import check_values, encode_groups, encode_values
from scalefair.linear_model._base import real_type
from scalefair.linear_model._oracle import OracleValue, ScoreOracle
from scalefair.linear_model._training_rows import (
    ColumnSpread,
    FeatureUnits,
    GroupLimits,
    TrainingRows,
    WeightLayout,
    check_classes,
    column_spread,
)
from scalefair.streaming import LocalParts, PartitionedRows, Parts


def partitioned_training(
    rows: PartitionedRows,
    y: ArrayLike,
    sensitive_features: ArrayLike,
    limits: GroupLimits,
    options: dict[str, Any],
) -> tuple[TrainingRows, PartitionedOracle]:
    """Return what the client knows of the rows, and the oracle over their parts.

    Known are signs and groups, in small integers. Parts of the oracle are kept where
    they were made, if there is room; `options` are those of `ScoreOracle`.
    """
    classes, labels = rows.encode(y, name="y", what="label")
    check_classes(classes)
    groups, codes = rows.encode(
        sensitive_features, name="sensitive_features", what="group"
    )
    sizes = codes.map(_sizes, len(groups)).reduce(np.add)
    limits.check(groups, sizes)
    dtype = real_type(rows)
    oracles = rows.map(_make_oracle, dtype, len(groups), options, each=[labels, codes])
    units = FeatureUnits.of(rows.map(_spread, dtype).reduce(ColumnSpread.merge))
    oracle = PartitionedOracle(
        oracles.persist(),
        rows.shape[1],
        sizes,
        interactions=options["interactions"],
        units=units,
    )
    known = TrainingRows(
        None,
        np.concatenate(labels.map(_signs).gather()),
        np.concatenate(codes.gather()),
        classes,
        groups,
    )
    return known, oracle


def refuse_pairs(loss: str) -> None:
    """Raise a ValueError for a loss that rows of one part do not have alone."""
    if loss in {"auc", "partial_auc"}:
        raise ValueError(
            f"loss={loss!r} compares pairs of rows and cannot be added up over blocks "
            'or partitions: use "logistic", "hinge" or "squared".'
        )


def _make_oracle(
    X: Any,
    dtype: np.dtype,
    n_groups: int,
    options: dict[str, Any],
    labels: NDArray[Any],
    codes: NDArray[Any],
) -> ScoreOracle:
    """Oracle of one part, whose entries are looked at."""
    X = _checked(X, dtype)
    return ScoreOracle(X, _signs(labels), codes, n_groups, **options)


def _spread(X: Any, dtype: np.dtype) -> ColumnSpread:
    """Spread of the columns of one part, whose entries are looked at."""
    return column_spread(_checked(X, dtype))


def _checked(X: Any, dtype: np.dtype) -> Any:
    return canonical(
        check_array(X, accept_sparse="csr", dtype=dtype, order="C", input_name="X")
    )


def _signs(labels: NDArray[Any]) -> NDArray[np.int8]:
    """Labels 0 and 1 as -1 and 1."""
    return (2 * labels - 1).astype(np.int8)


def _sizes(codes: NDArray[Any], n_groups: int) -> NDArray[np.int64]:
    return np.bincount(codes, minlength=n_groups)


_Array = NDArray[np.float64]


class PartitionedOracle:
    """What `ScoreOracle` offers, for rows in parts and losses of single rows.

    To each part, which may lack groups, go parameters and thresholds; back come sums
    of the size of their gradients, added up on the way. Parts know nothing of units.
    """

    def __init__(
        self,
        oracles: Parts,
        n_features: int,
        group_sizes: NDArray[np.int64],
        *,
        interactions: bool,
        units: FeatureUnits | None = None,
    ) -> None:
        self._oracles = oracles
        units = units or FeatureUnits.given(n_features)
        self.layout = WeightLayout(n_features, len(group_sizes), interactions, units)
        self.n_features = n_features
        self.n_weights = self.layout.n_weights
        self.n_groups = len(group_sizes)
        self.group_sizes = group_sizes
        self.n_calls = 0

    def scores(self, w: _Array) -> _Array:
        """Return the scores of all rows, ndarray of shape (m,)."""
        return np.concatenate(
            self._oracles.map(_scores, self.layout.rows(w).ravel()).gather()
        )

    def evaluate(
        self, w: _Array, theta: _Array, *, width: float = 1.0, corner: float = 0.0
    ) -> OracleValue:
        """Return means over the rows of all parts; see `ScoreOracle.evaluate`."""
        self.n_calls += 1
        at = _Point(
            self.layout.rows(w).ravel(),
            np.asarray(theta, dtype=np.float64),
            width,
            corner,
        )
        sums: _Sums = self._oracles.map(_sums, at).reduce(_added)
        n_rows = self.group_sizes.sum()
        shares = sums.shares / self.group_sizes[:, None]
        slopes = sums.slopes / self.group_sizes[:, None, None]
        gradient = sums.loss_gradient.reshape(-1, self.n_features + 1)
        return OracleValue(
            self.layout,
            sums.loss / n_rows,
            self.layout.units.pull_back(gradient).ravel() / n_rows,
            shares[:, : len(theta)],
            shares[:, len(theta) :],
            lambda: slopes,
        )


RowOracle = ScoreOracle | PartitionedOracle


class _Point(NamedTuple):
    """Where an oracle is evaluated: one thing to send."""

    w: _Array
    theta: _Array
    width: float
    corner: float


class _Sums(NamedTuple):
    """Sums over rows of what `OracleValue` has the means of."""

    loss: float
    loss_gradient: _Array
    shares: _Array  # plus parts, then minus parts, (G, 2 P)
    slopes: _Array  # likewise, (G, 2 P, n + 1)


def _sums(oracle: ScoreOracle, at: _Point) -> _Sums:
    # What was sent may be read-only, and kernels are compiled for what is not.
    value = oracle.evaluate(at.w, at.theta.copy(), width=at.width, corner=at.corner)
    sizes = oracle.group_sizes
    return _Sums(
        value.loss * sizes.sum(),
        value.loss_gradient * sizes.sum(),
        np.hstack([value.plus, value.minus]) * sizes[:, None],
        value.slopes * sizes[:, None, None],
    )


def _added(a: _Sums, b: _Sums) -> _Sums:
    return _Sums(
        a.loss + b.loss,
        a.loss_gradient + b.loss_gradient,
        a.shares + b.shares,
        a.slopes + b.slopes,
    )


def _scores(oracle: ScoreOracle, w: _Array) -> _Array:
    return oracle.scores(w)


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

    `check` takes the features of a block, with the keyword `reset` for the first, and
    returns them checked: dense or CSR.
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
