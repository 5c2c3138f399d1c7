"""Which rows count for which groups, and how much: hard groups and probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from numbers import Integral
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import _num_samples

from scalefair._entries import check_sample_weight
from scalefair._groups import (
    Attribute,
    as_list,
    check_compared,
    check_group_weights,
    combinations,
    compared_attributes,
    encode_values,
    known_groups,
)
from scalefair._messages import listed

Array = NDArray[np.float64]


class Membership(NamedTuple):
    """Entries (row, group, weight): a row of a group counts for it by this weight.

    Of hard groups an entry is a row. Of probabilities a row has an entry for each group
    that it may be of, weighted by the probability times the weight of the row, and none
    if nothing is known of its group. Sums over the entries of a group are expectations
    of sums over its rows.
    """

    compared: list[Attribute]  # their codes are of entries
    rows: NDArray[np.int64] | None  # row of each entry, rising; None: entry i is row i
    weights: Any  # of entries, ndarray or Parts; None if all are 1

    @classmethod
    def of(
        cls,
        sensitive_features: Any,
        group_probabilities: Any,
        samples: Any,
        *,
        sample_weight: Any = None,
        attributes: str = "joint",
        alternative: str | None = None,
        warn: bool = True,
    ) -> Membership:
        """Check groups or probabilities, and weights of the rows.

        `samples` are the rows, or their number. Of rows in parts codes and weights are
        in parts, too, but entries of probabilities are in memory. Fewer than two
        groups, and groups without weight, are refused where there is an `alternative`
        for one group.
        """
        check_one_of(sensitive_features, group_probabilities)
        if hasattr(samples, "compared_attributes"):
            n_rows, compare = samples.shape[0], samples.compared_attributes
            weights = samples.weights(sample_weight)
        else:
            is_number = isinstance(samples, Integral)
            n_rows = samples if is_number else _num_samples(samples)
            compare = partial(compared_attributes, n_samples=n_rows)
            weights = check_sample_weight(sample_weight, n_rows)
        if group_probabilities is None:
            compared = compare(sensitive_features, attributes=attributes, warn=warn)
            membership = cls(compared, None, weights)
        else:
            groups, P = check_group_probabilities(group_probabilities, n_rows)
            membership = cls.of_probabilities(groups, P).weighted(gathered(weights))
        if alternative is not None:
            check_compared(membership.compared, alternative)
            if weights is not None:
                membership.gathered().check_weights()
        return membership

    @classmethod
    def of_probabilities(cls, groups: NDArray[Any], P: Array) -> Membership:
        """Entries of checked probabilities (n, h) of the groups (h,)."""
        rows, codes = np.nonzero(P)
        entries = P[rows, codes]
        compared = [Attribute("group_probabilities", groups, codes)]
        return cls(compared, rows, None if (entries == 1).all() else entries)

    @classmethod
    def of_columns(
        cls, codes: NDArray[Any], compared: list[Attribute], *more: NDArray[Any]
    ) -> Membership:
        """Membership by the codes of each attribute, and perhaps weights.

        `more` are the codes of the second attribute and so on, then the weights.
        """
        columns = [codes, *more]
        coded = [a._replace(codes=c) for a, c in zip(compared, columns, strict=False)]
        weights = columns[len(compared)] if len(columns) > len(compared) else None
        return cls(coded, None, weights)

    def weighted(self, weights: Array | None) -> Membership:
        """Return the membership of rows that count by these weights, too."""
        if weights is None:
            return self
        entries = self.take(weights)
        entries = entries if self.weights is None else entries * self.weights
        if self.rows is None:
            return self._replace(weights=entries)
        # Only rows of hard groups have an entry of weight 0, to stay one entry each.
        is_counted = entries > 0
        compared = [a._replace(codes=a.codes[is_counted]) for a in self.compared]
        entries = None if (entries[is_counted] == 1).all() else entries[is_counted]
        return Membership(compared, self.rows[is_counted], entries)

    def check_weights(self) -> None:
        """Raise a ValueError for groups without weight."""
        if self.rows is None and self.weights is None:
            return  # every group has a row
        for _, groups, codes in self.compared:
            weights = np.ones(len(codes)) if self.weights is None else self.weights
            check_group_weights(weights, groups, codes)

    def gathered(self) -> Membership:
        """Return the membership in memory of rows that may be in parts."""
        compared = [a._replace(codes=gathered(a.codes)) for a in self.compared]
        return Membership(compared, self.rows, gathered(self.weights))

    @property
    def codes(self) -> NDArray[np.int64]:
        """Group of each entry, of the only attribute."""
        codes: NDArray[np.int64] = self.compared[0].codes
        return codes

    def take(self, values: Any) -> Any:
        """Values of rows for the entries."""
        return values if self.rows is None else values[self.rows]

    def select(self, rows: NDArray[np.int64]) -> Membership:
        """Return the membership of some rows, which get new numbers."""
        entries, entry_rows = rows, None
        if self.rows is not None:
            first, last = (
                np.searchsorted(self.rows, rows, side) for side in ("left", "right")
            )
            n_entries = last - first
            entry_rows = np.repeat(np.arange(len(rows)), n_entries)
            # Entries `first` to `last` - 1 of each row. Counted through, those of a row
            # start at the number of entries of the rows before: shift them to `first`.
            entries = np.arange(len(entry_rows))
            entries += np.repeat(first - np.cumsum(n_entries) + n_entries, n_entries)
        return self._of_entries(entries, entry_rows)

    def occurring(self) -> Membership:
        """Return the membership in the groups that occur."""
        compared = []
        for name, groups, codes in self.compared:
            present, codes = encode_values(codes, name=name)
            compared.append(Attribute(name, groups[present], codes))
        return self._replace(compared=compared)

    def recoded(self, fitted: Any) -> Membership:
        """Return the membership in the groups that `fit` saw; refuse others."""
        positions = known_groups(self.compared, fitted)
        compared = [
            Attribute(name, seen, position[codes])
            for (name, _, codes), seen, position in zip(
                self.compared, as_list(fitted), positions, strict=True
            )
        ]
        return self._replace(compared=compared)

    def part(self, start: int, stop: int) -> Membership:
        """Return the membership of consecutive rows, in views."""
        entries, entry_rows = slice(start, stop), None
        if self.rows is not None:
            entries = slice(*np.searchsorted(self.rows, [start, stop]).tolist())
            entry_rows = self.rows[entries] - start
        return self._of_entries(entries, entry_rows)

    def _of_entries(self, entries: Any, rows: NDArray[np.int64] | None) -> Membership:
        """Membership of some entries, which are of these rows."""
        compared = [a._replace(codes=a.codes[entries]) for a in self.compared]
        weights = None if self.weights is None else self.weights[entries]
        return Membership(compared, rows, weights)

    def matrix(self, n_rows: int) -> Array:
        """How much rows count for the groups of the only attribute, (n_rows, h)."""
        matrix = np.zeros((n_rows, len(self.compared[0].groups)))
        rows = np.arange(n_rows) if self.rows is None else self.rows
        matrix[rows, self.codes] = 1.0 if self.weights is None else self.weights
        return matrix

    def columns(self, n_rows: int) -> NDArray[Any]:
        """Codes of the rows (n_rows, n_attributes), of which each counts once.

        `matrix` if rows have weights, or some are of no certain group.
        """
        codes = [attribute.codes for attribute in self.compared]
        is_certain = self.weights is None and len(codes[0]) == n_rows
        return np.column_stack(codes) if is_certain else self.matrix(n_rows)

    def cells(self) -> tuple[Any, Cells]:
        """Cell of each entry, in parts if codes are, and the groups of the cells.

        Of several attributes only combinations that have weight are cells; entries of
        weight 0 are then in cell 0.
        """
        sizes = [len(attribute.groups) for attribute in self.compared]
        first, *more = (attribute.codes for attribute in self.compared)
        if not more:
            return first, Cells(np.arange(sizes[0])[:, None], sizes)
        if self.weights is not None:
            more.append(self.weights)
        if not hasattr(first, "gather"):
            return _number_cells(first, sizes, *more)
        # Number the cells of each part, those of all parts, and then each part's again.
        numbered = first.map(_number_cells, sizes, aligned=more).persist()
        by_part = [cells.sets for cells in numbered.map(itemgetter(1)).gather()]
        sets, numbers = np.unique(np.concatenate(by_part), axis=0, return_inverse=True)
        cuts = np.cumsum([len(part) for part in by_part])[:-1]
        new_numbers = numbered.like(np.split(numbers.ravel(), cuts))
        codes = numbered.map(_renumber, aligned=[new_numbers]).persist()
        return codes, Cells(sets, sizes)


class Cells(NamedTuple):
    """Disjoint sets of rows, of which all compared sets, such as groups, are unions.

    Sets of one family, such as the groups of an attribute, are disjoint, too.
    """

    sets: NDArray[np.int64]  # (n_cells, n_families): set of each cell, -1 for none
    n_sets: list[int]  # of each family

    @classmethod
    def number(
        cls,
        columns: Sequence[NDArray[np.integer]],
        sizes: list[int],
        weights: Array | None = None,
    ) -> tuple[NDArray[np.int64], Cells]:
        """Cell of each row, and the combinations of codes that occur: the cells.

        `columns` are the codes in each attribute, of `sizes` groups. Rows of weight 0
        are in cell 0.
        """
        if weights is None:
            a_row, codes = combinations(columns, sizes)  # of each cell
        else:
            rows, codes = np.flatnonzero(weights), np.zeros(len(columns[0]), np.int64)
            a_row, codes[rows] = combinations([c[rows] for c in columns], sizes)
            a_row = rows[a_row]
        return codes, cls(np.column_stack([c[a_row] for c in columns]), sizes)

    @property
    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pairs of a set and a cell in it; sets of all families are in one count."""
        cells, family = np.nonzero(self.sets >= 0)
        starts = np.cumsum([0, *self.n_sets])
        return starts[family] + self.sets[cells, family], cells

    @property
    def members(self) -> sparse.csr_array:
        """Matrix (sum of n_sets, n_cells): 1 where a set has the cell."""
        sets, cells = self.pairs
        ones = np.ones(len(cells), np.int64)
        return sparse.csr_array((ones, (sets, cells)), shape=self._shape)

    def shares(self, sizes: NDArray[Any]) -> sparse.csr_array:
        """Share of each cell in its sets, a matrix as `members`; sizes (n_cells,)."""
        sets, cells = self.pairs
        totals = np.bincount(sets, sizes[cells], minlength=self._shape[0])
        shares = sizes[cells] / np.where(totals > 0, totals, 1.0)[sets]
        return sparse.csr_array((shares, (sets, cells)), shape=self._shape)

    @property
    def _shape(self) -> tuple[int, int]:
        return sum(self.n_sets), len(self.sets)


def gathered(values: Any) -> Any:
    """Values of all rows, in memory or in parts, as one array; None of None."""
    return np.concatenate(values.gather()) if hasattr(values, "gather") else values


def _number_cells(first: Any, sizes: list[int], *more: Any) -> tuple[Any, Cells]:
    """`Cells.number` of codes of all attributes, and perhaps weights."""
    n_more = len(sizes) - 1
    return Cells.number([first, *more[:n_more]], sizes, *more[n_more:])


def _renumber(numbered: Any, new_numbers: NDArray[Any]) -> Any:
    """Cell of each row of a part in new numbers, which are none if it has no weight."""
    return new_numbers[numbered[0]] if new_numbers.size else numbered[0]


def check_one_of(sensitive_features: Any, group_probabilities: Any) -> None:
    """Raise a TypeError unless there is one of both arguments."""
    if (sensitive_features is None) == (group_probabilities is None):
        got = "neither" if sensitive_features is None else "both"
        raise TypeError(
            "Pass sensitive_features=, the group of each sample, or "
            f"group_probabilities=, a column for each group; got {got}."
        )


def column_labels(table: Any) -> list[Any] | None:
    """Labels of the columns of a frame, such as of pandas, Polars or Arrow."""
    labels = getattr(table, "column_names", getattr(table, "columns", None))
    return None if labels is None else list(labels)


def as_floats(table: Any) -> Array:
    """Numbers in float64; missing ones of nullable columns of pandas are NaN."""
    if np.iscomplexobj(table):
        raise TypeError("got complex ones")
    if hasattr(table, "iloc"):
        return np.asarray(table.to_numpy(np.float64, na_value=np.nan))
    return np.asarray(table, np.float64)


def check_group_probabilities(
    group_probabilities: Any, n_samples: int, *, allow_empty: bool = False
) -> tuple[NDArray[Any], Array]:
    """Return the sorted groups (h,), and the probabilities (n, h) in their order.

    Rows add up to 1, or to 0 where nothing is known: all are 0 or missing. Groups that
    no row may be of are refused unless they are allowed.
    """
    name = "group_probabilities"
    # 1. Numbers, of which the columns have names.
    values = group_probabilities
    if hasattr(values, "compute"):
        values = values.compute()  # a data frame or array of Dask
    columns = column_labels(values)
    values = values.toarray() if hasattr(values, "toarray") else values
    try:
        P = as_floats(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold real numbers: {error}.") from error
    if P.ndim != 2 or P.shape[0] != n_samples or P.shape[1] < 2:
        raise ValueError(
            f"{name} must have a row for each of the {n_samples} samples and a column "
            f"for each group, two or more, got shape {P.shape}."
        )
    labels = np.arange(P.shape[1]) if columns is None else np.asarray(columns)
    groups, codes = encode_values(labels, name=f"The columns of {name}")
    if len(groups) < len(labels):
        twice = groups[np.bincount(codes) > 1].tolist()
        raise ValueError(f"{name} has several columns of {listed(twice, repr)}.")
    P = np.ascontiguousarray(P[:, np.argsort(codes)])

    # 2. Rows that are probabilities, or nothing.
    missing = np.isnan(P)
    P[missing.all(axis=1)] = 0.0

    def refuse(is_wrong: NDArray[np.bool_], fault: str, remedy: str) -> None:
        if is_wrong.any():
            row, column = np.argwhere(is_wrong)[0].tolist()
            raise ValueError(
                f"{name} has {int(is_wrong.sum())} value(s) that are {fault}, the "
                f"first in row {row}, column {groups.tolist()[column]!r} "
                f"({P[row, column]:g}). {remedy}"
            )

    # Printed probabilities are rounded to a few digits: sums may be off by this much.
    tolerance = 1e-3
    nothing = "a row of zeros, or with no value at all, is of no group."
    refuse(
        np.isnan(P), "missing", f"Fill the others of the row, too, or none: {nothing}"
    )
    refuse(P.clip(0, 1 + tolerance) != P, "below 0 or above 1", "Give probabilities.")
    totals = P.sum(axis=1)
    is_known = totals > 0
    wrong = is_known & (np.abs(totals - 1) > tolerance)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"{name} has {int(wrong.sum())} row(s) that do not add up to 1, the first "
            f"row {row} ({totals[row]:g}). Divide rows by their sums; {nothing}"
        )
    if not is_known.all():
        totals[~is_known] = 1.0
    P /= totals[:, None]

    # 3. Groups that some row may be of.
    never = ~(P > 0).any(axis=0)
    if never.any() and not allow_empty:
        raise ValueError(
            f"{name} has column(s) that are never positive: "
            f"{listed(groups[never].tolist(), repr)}. Leave them out."
        )
    return groups, P
