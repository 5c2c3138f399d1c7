"""Which rows count for which groups, and how much: hard groups and probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalefair._entries import check_sample_weight
from scalefair._groups import (
    Attribute,
    check_compared,
    check_group_weights,
    combinations,
    compared_attributes,
    encode_values,
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
    weights: Array | None  # of entries; None if all are 1

    @classmethod
    def of(
        cls,
        sensitive_features: Any,
        group_probabilities: Any,
        n_samples: int,
        *,
        sample_weight: Any = None,
        attributes: str = "joint",
        alternative: str | None = None,
        warn: bool = True,
    ) -> Membership:
        """Check groups or probabilities, and weights of the rows.

        Fewer than two groups are refused where there is an `alternative` for one.
        """
        check_one_of(sensitive_features, group_probabilities)
        weights = check_sample_weight(sample_weight, n_samples)
        if group_probabilities is None:
            compared = compared_attributes(
                sensitive_features, n_samples, attributes, warn=warn
            )
            membership = cls(compared, None, weights)
        else:
            groups, P = check_group_probabilities(group_probabilities, n_samples)
            membership = cls.of_probabilities(groups, P, weights)
        if alternative is not None:
            check_compared(membership.compared, alternative)
        if group_probabilities is None:
            for _, groups, codes in membership.compared:
                check_group_weights(weights, groups, codes)
        return membership

    @classmethod
    def of_probabilities(
        cls, groups: NDArray[Any], P: Array, weights: Array | None
    ) -> Membership:
        """Entries of checked probabilities (n, h) of the groups (h,)."""
        A = P if weights is None else P * weights[:, None]
        rows, codes = np.nonzero(A)
        entries = A[rows, codes]
        empty = np.bincount(codes, minlength=len(groups)) == 0
        if empty.any():
            raise ValueError(
                "sample_weight is 0 for all rows that may be of "
                f"{listed(groups[empty].tolist(), repr)}: leave the column(s) out of "
                "group_probabilities."
            )
        compared = [Attribute("group_probabilities", groups, codes)]
        return cls(compared, rows, None if (entries == 1).all() else entries)

    @property
    def codes(self) -> NDArray[np.int64]:
        """Group of each entry, of the only attribute."""
        codes: NDArray[np.int64] = self.compared[0].codes
        return codes

    def take(self, values: Any) -> Any:
        """Values of rows for the entries."""
        return values if self.rows is None else values[self.rows]


def check_one_of(sensitive_features: Any, group_probabilities: Any) -> None:
    """Raise a TypeError unless there is one of both arguments."""
    if (sensitive_features is None) == (group_probabilities is None):
        got = "neither" if sensitive_features is None else "both"
        raise TypeError(
            "Pass sensitive_features=, the group of each sample, or "
            f"group_probabilities=, a column for each group; got {got}."
        )


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
    columns = getattr(values, "columns", None)
    values = values.toarray() if hasattr(values, "toarray") else values
    try:
        P = np.array(values, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold real numbers: {error}.") from error
    if P.ndim != 2 or P.shape[0] != n_samples or P.shape[1] < 2:
        raise ValueError(
            f"{name} must have a row for each of the {n_samples} samples and a column "
            f"for each group, two or more, got shape {P.shape}."
        )
    labels = np.arange(P.shape[1]) if columns is None else np.asarray(list(columns))
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

    # Printed probabilities are rounded to a few digits: sums may be off by so much.
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


def number_cells(
    columns: Sequence[NDArray[np.integer]],
    sizes: Sequence[int],
    weights: Array | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Cell of each row, and the groups of each cell, (n_cells, n_attributes).

    A cell is a combination of groups that occurs; `columns` are the codes in each
    attribute, of `sizes` groups. Rows of weight 0 are in cell 0.
    """
    if weights is None:
        first_row, cells = combinations(columns, sizes)
    else:
        rows, cells = np.flatnonzero(weights), np.zeros(len(columns[0]), np.int64)
        first_row, cells[rows] = combinations([c[rows] for c in columns], sizes)
        first_row = rows[first_row]
    return cells, np.column_stack([column[first_row] for column in columns])


def cell_members(
    groups_of_cells: NDArray[np.int64], sizes: Sequence[int]
) -> NDArray[np.int64]:
    """Matrix (sum of sizes, n_cells): 1 where a stacked group has the cell."""
    n_cells, n_attributes = groups_of_cells.shape
    starts = np.cumsum([0, *sizes])
    members = np.zeros((starts[-1], n_cells), np.int64)
    for attribute in range(n_attributes):
        groups = starts[attribute] + groups_of_cells[:, attribute]
        members[groups, np.arange(n_cells)] = 1
    return members
