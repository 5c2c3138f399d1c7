"""Training rows in parts: labels, groups and weights stay with the features.

Each part has an oracle of its rows, which stays there as well. What comes back are sums
over the rows of a part, and small samples of the rows.

Training on parts has three steps. `PartitionedTraining` checks and encodes what a user
passes, and makes the oracles. `nested_subsamples` draws rows to start with, which are
solved in memory. The `PartitionedOracle` then serves the problem of all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.random import sample_without_replacement

from scalefair._entries import canonical, check_array
from scalefair._groups import check_group_weights
from scalefair._membership import Membership, gathered
from scalefair.linear_model._oracle import (
    PAIRWISE_LOSSES,
    ScoreOracle,
    cells_by_label,
    row_totals,
)
from scalefair.linear_model._partitioned_oracle import PartitionedOracle
from scalefair.linear_model._training_rows import (
    LabeledRows,
    check_label_weights,
    encode_labels,
)
from scalefair.linear_model._weights import (
    Array,
    ColumnSpread,
    FeatureUnits,
    WeightLayout,
    column_spread,
)
from scalefair.streaming import PartitionedRows, Parts

# Most rows of a random sample, and most bytes of its entries, those of a block of a
# reader. It is solved in memory, in a small part of the time that all rows take.
LARGEST_SAMPLE_ROWS = 100_000
SAMPLE_BYTES = 2**26
# Rows of a cell in the sample at least, if it has as many: rates to 0.02, the standard
# error of a share of one half.
MIN_CELL_ROWS = 500


@dataclass(frozen=True)
class PartitionedLabels(LabeledRows):
    """Labels and groups that stay with the rows in parts, and sums over these.

    `signs` and `weights` are those of the two labels, as if there were two rows: means
    over labels are those over all rows. All codes are in parts.
    """

    # Fields in place of the properties that would count rows in memory.
    cell_sizes: Any = None  # (n_cells,)
    squares: Any = None  # see `LabeledRows.squares`

    @property
    def totals(self) -> tuple[float, float]:
        """Total weight of the rows, and their effective number."""
        (squares, unit), total = self.squares, float(self.cell_sizes.sum())
        return total, (total / unit) ** 2 / float(squares.sum())


class PartitionedTraining:
    """Training rows in parts, where their labels, groups and weights stay.

    `labels` are what the estimator needs of them, and `oracle` is that of all rows.
    `limits` are the most groups, and the fewest rows of one; `options` are those of an
    oracle.
    """

    def __init__(
        self,
        rows: PartitionedRows,
        y: ArrayLike,
        sensitive_features: Any,
        limits: tuple[int, int],
        options: dict[str, Any],
        given: str | None = None,
        attributes: str = "joint",
        sample_weight: Any = None,
        group_probabilities: Any = None,
    ) -> None:
        if options["loss"] in PAIRWISE_LOSSES:
            raise ValueError(
                f"loss={options['loss']!r} compares pairs of rows and cannot be added "
                'up over partitions: use "logistic", "hinge" or "squared".'
            )
        # 1. Labels, weights and groups, in parts; entries of probabilities are here.
        # Label codes are 0 and 1, for the classes in their order.
        classes, label_codes = rows.encode(y, name="y", noun="label")
        encode_labels(classes)  # refuses all but two classes
        weights = rows.weights(sample_weight)
        membership = Membership.of(
            sensitive_features,
            group_probabilities,
            rows,
            attributes=attributes,
            warn=False,
        )
        self.rows = rows
        self.labels: LabeledRows
        totals: tuple[float, float] | None
        codes: Any
        if membership.rows is None:  # groups are certain: an entry for each row
            signs = np.array([-1, 1])
            coded = PartitionedLabels.of(None, signs, classes, membership, given)
            in_parts = self._label_parts(coded, label_codes, weights)
            totals, codes = in_parts.totals, in_parts.codes
            self.labels = in_parts
        else:  # labels and weights are gathered, as the probabilities are
            signs, all_weights = _signs(gathered(label_codes)), gathered(weights)
            check_label_weights(all_weights, signs, classes)
            membership = membership.weighted(all_weights)
            membership.check_weights()
            if all_weights is None:
                all_weights = np.ones(len(signs))  # some rows may be in no cell
                weights = rows.split(all_weights).persist()
            arguments = membership, given, all_weights
            self.labels = LabeledRows.of(None, signs, classes, *arguments)
            totals = row_totals(all_weights)
            codes = rows._memberships(membership)
        self.labels.check_groups(*limits)
        # 2. The oracle of each part, and that of all rows in units of all rows. Units
        # take a pass over all rows: the oracles of parts do not wait for them, and take
        # weights of the features as given.
        dtype = real_type(rows)
        weight_parts = [] if weights is None else [weights]
        options = self.labels.oracle_options(**options)
        oracles = rows.map(
            _make_oracle,
            dtype,
            len(self.labels.combinations.sets),
            options,
            aligned=[label_codes, codes, *weight_parts],
        ).persist()
        spreads = rows.map(_spread, dtype, aligned=weight_parts)
        units = FeatureUnits.of(spreads.reduce(_merge_spreads))
        cells_per_group = 1 + options["by_label"]
        layout = WeightLayout(rows.shape[1], options["members"], units, cells_per_group)
        self.oracle = PartitionedOracle(
            oracles, layout, self.labels.cell_sizes, self.labels.families, totals
        )

    def _label_parts(
        self, coded: Any, labels: Parts, weights: Parts | None
    ) -> PartitionedLabels:
        """Return labels and groups with sums over the rows; keeps the parts of both.

        `coded` are the same without sums. `labels` are codes of labels, 0 or 1.
        """
        # 1. Sums over the rows of each part. Squares of weights are in units of the
        # largest one, so that none is out of range. `_counts`, (n_parts, n_cells), are
        # the rows with a weight that samples are drawn from.
        codes, by_label, unit = coded.codes.keep(), coded.given is not None, 1.0
        self._columns: list[Parts] = [codes]
        if weights is not None:
            self._columns.append(weights)
            unit = float(weights.map(np.max).reduce(max))
        self._labels = labels
        by_part = labels.map(
            _cell_sums, by_label, coded.n_cells, unit, aligned=self._columns
        ).gather()
        self._counts, *sums = map(np.array, zip(*by_part, strict=True))
        sizes, squares, label_weights = (a.sum(axis=0) for a in sums)
        # 2. Both labels and all groups have a weight.
        if weights is not None:
            check_label_weights(label_weights, coded.signs, coded.classes)
            sets, compared = coded.combinations.sets, coded.membership.compared
            combination_weights = sizes.reshape(len(sets), -1).sum(axis=1)
            for (_, groups, _), group in zip(compared, sets.T, strict=True):
                check_group_weights(combination_weights, groups, group)
        labelled: PartitionedLabels = replace(
            coded,
            codes=codes,
            membership=coded.membership._replace(weights=weights),
            weights=label_weights,
            cell_sizes=sizes,
            squares=(squares, unit),
        )
        return labelled

    def nested_subsamples(self, rng: np.random.RandomState) -> Iterator[LabeledRows]:
        """Yield ever larger random samples of each cell; none of few rows.

        Stratified by cell: rates of small groups need as many rows as those of large
        ones. The largest sample is drawn once, the others are parts of it, so that the
        rows in parts are read once.
        """
        labels, m = self.labels, self.rows.shape[0]
        if labels.membership.rows is not None:
            return  # cells are of entries, and rows are drawn
        # Bytes of a stored entry: of sparse rows with its index.
        width = np.dtype(real_type(self.rows)).itemsize + 4 * self.rows.is_sparse
        size = min(
            LARGEST_SAMPLE_ROWS, SAMPLE_BYTES * m // max(width * self.rows.nnz, 1)
        )
        # Row p of `starts`, (n_parts + 1, n_cells), has for each cell its rows with a
        # weight in the parts before p; the last row has those in all parts. Few rows,
        # or cells that the sample is too small for, are left to the solver of all rows.
        starts = np.cumsum(np.pad(self._counts, ((1, 0), (0, 0))), axis=0)
        if not MIN_CELL_ROWS * labels.n_cells <= size < m:
            return
        # Step 1: draw rows of each cell, as many as its share of the sample. A row has
        # a number among the rows of its cell in all parts: only these are drawn here.
        by_cell = []  # for each cell a list: its drawn numbers, sorted, of each part
        for n_rows, of_parts in zip(starts[-1], starts[1:-1].T, strict=True):
            n_drawn = min(max(-(-size * n_rows // m), MIN_CELL_ROWS), n_rows)
            drawn = sample_without_replacement(n_rows, n_drawn, random_state=rng)
            drawn.sort()
            # Parts follow each other: the sorted numbers are cut where parts start.
            by_cell.append(np.split(drawn, np.searchsorted(drawn, of_parts)))
        # Step 2: read them once, in the order of the parts. Each part gets, for each of
        # its cells, the numbers to take and that of its first row.
        numbers = zip(zip(*by_cell, strict=True), starts, strict=False)
        sampled = self._take_rows(self.rows.parts.like(numbers))
        # Step 3: samples that contain each other; each has four times the rows of the
        # one before, the first ones of each cell in a random order.
        cells = [np.flatnonzero(sampled.cells == c) for c in range(labels.n_cells)]
        shuffled = [rng.permutation(rows) for rows in cells]
        for share in (1 / 16, 1 / 4, 1.0):
            first = [
                rows[: max(int(share * rows.size), MIN_CELL_ROWS)] for rows in shuffled
            ]
            sample = np.sort(np.concatenate(first))
            yield sampled.take(sample, sampled.X[sample])

    def _take_rows(self, numbers: Parts) -> LabeledRows:
        """Return some rows of each part, by their numbers within their cells.

        The parts' rows come in the order of the parts, those of a part cell by cell.
        """
        # 1. Rows, labels, codes and maybe weights of each part, then of all.
        labels, columns = self.labels, [numbers, self._labels, *self._columns]
        parts = self.rows.map(
            _rows_of_part,
            real_type(self.rows),
            labels.given is not None,
            aligned=columns,
        ).gather()
        blocks, *values = zip(*parts, strict=True)
        is_sparse = self.rows.is_sparse
        X = sparse.vstack(blocks, format="csr") if is_sparse else np.concatenate(blocks)
        label_codes, codes, *weights = map(np.concatenate, values)
        # 2. From combinations of groups to the groups of each attribute.
        groups = labels.combinations.sets[codes].T
        row_weights = weights[0] if weights else None
        compared = [
            attribute._replace(codes=group)
            for attribute, group in zip(labels.membership.compared, groups, strict=True)
        ]
        return LabeledRows(
            X,
            _signs(label_codes),
            Membership(compared, None, row_weights),
            codes,
            labels.combinations,
            labels.classes,
            labels.given,
            row_weights,
        )


def real_type(rows: PartitionedRows) -> np.dtype:
    """Return the type of products with the rows: float32 for float32 rows."""
    return np.dtype(np.float32 if rows.dtype == np.float32 else np.float64)


def _make_oracle(
    X: Any,
    dtype: np.dtype,
    n_groups: int,
    options: dict[str, Any],
    labels: NDArray[Any],
    codes: NDArray[Any] | Membership,
    weights: Array | None = None,
) -> ScoreOracle:
    """Return the oracle of one part, after a check of its features.

    `codes` are the combinations of groups of its rows or, with probabilities, the
    entries of its rows.
    """
    X = _checked(X, dtype)
    if isinstance(codes, Membership):  # of probabilities
        options = {**options, "entries": (codes.rows, codes.weights)}
        codes = codes.codes
    return ScoreOracle(X, _signs(labels), codes, n_groups, weights=weights, **options)


def _spread(
    X: Any, dtype: np.dtype, weights: Array | None = None
) -> ColumnSpread | None:
    """Return the spread of the columns of one part, None of one without weight."""
    X = _checked(X, dtype)
    has_weight = weights is None or weights.any()
    return column_spread(X, weights) if has_weight else None


def _merge_spreads(a: ColumnSpread | None, b: ColumnSpread | None) -> Any:
    """Spread of the rows of two parts, None where no row has a weight."""
    return a.merge(b) if a and b else a or b


def _cell_sums(
    labels: NDArray[Any],
    by_label: bool,
    n_cells: int,
    unit: float,
    codes: NDArray[Any],
    weights: Array | None = None,
) -> list[NDArray[Any]]:
    """Return sums over a part: for each cell rows with a weight, weights, squares.

    Last come the weights of both labels. Squares are of weights in the `unit`.
    """
    cells = _cells(labels, by_label, codes)
    if weights is None:
        weights = np.ones(len(cells))
    return [
        np.bincount(cells[weights > 0], minlength=n_cells),
        np.bincount(cells, weights, n_cells),
        np.bincount(cells, (weights / unit) ** 2, n_cells),
        np.bincount(labels, weights, 2),
    ]


def _cells(
    labels: NDArray[Any], by_label: bool, codes: NDArray[Any]
) -> NDArray[np.int64]:
    """Cell of each row, as of `LabeledRows`. Labels are 0 and 1."""
    return cells_by_label(_signs(labels), codes) if by_label else codes


def _rows_of_part(
    X: Any,
    dtype: np.dtype,
    by_label: bool,
    numbers: tuple[Sequence[NDArray[np.int64]], NDArray[np.int64]],
    labels: NDArray[Any],
    codes: NDArray[Any],
    *weights: Array,
) -> list[Any]:
    """Return rows of one part, maybe none, with labels, codes and weights.

    `numbers` are, for each cell, those of the rows to take among the rows of the cell
    with a weight in all parts, and the number of the first one in this part.
    """
    cells = _cells(labels, by_label, codes)
    if weights:  # rows of weight 0 have no number
        cells = np.where(weights[0] > 0, cells, -1)
    rows = np.concatenate(
        [
            np.flatnonzero(cells == cell)[chosen - start]
            for cell, (chosen, start) in enumerate(zip(*numbers, strict=True))
        ]
    )
    X = _checked(X[rows], dtype, ensure_min_samples=0)
    return [X, labels[rows], codes[rows], *(w[rows] for w in weights)]


def _checked(X: Any, dtype: np.dtype, **options: Any) -> Any:
    """Features of a part as kernels take them: finite, C-contiguous or canonical."""
    X = check_array(
        X, dtype=dtype, accept_sparse="csr", order="C", input_name="X", **options
    )
    return canonical(X)


def _signs(labels: NDArray[Any]) -> NDArray[np.int8]:
    """Labels 0 and 1 as -1 and 1."""
    return (2 * labels - 1).astype(np.int8)
