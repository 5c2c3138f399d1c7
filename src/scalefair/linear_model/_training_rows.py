"""Training rows, in memory or in parts, with checked labels and groups.

An entry is a row that counts for a group: of hard groups each row, of probabilities a
row has several. A cell is a combination of the groups of all attributes or, where rows
of one label are compared, its entries of one label. A set is a union of cells, such as
a group. Sets that are compared with each other, the groups of an attribute, are a
family.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from scalefair._entries import check_sample_weight
from scalefair._groups import (
    FEW_ROWS,
    check_compared,
    check_group_count,
    check_group_sizes,
    check_values,
    encode_values,
    smallest,
)
from scalefair._membership import Cells, Membership
from scalefair._messages import listed, warn_user
from scalefair.linear_model._oracle import ScoreOracle, cells_by_label
from scalefair.linear_model._shares import divisors
from scalefair.linear_model._weights import (
    Array,
    FeatureUnits,
    column_spread,
    group_members,
)
from scalefair.streaming import is_partitioned

# What to use in place of a comparison of groups.
WITHOUT_GROUPS = "sklearn.linear_model.LogisticRegression"


@dataclass(frozen=True)
class LabeledRows:
    """Rows to learn from, checked and encoded.

    The chain of codes: an entry has a combination of groups (`codes`), this and the
    label of its row make its cell (`cells`), and `families` say which set of each
    family a cell belongs to (`compared`).
    """

    # (m, d), C-contiguous or canonical CSR, float64 or float32; None of rows in parts.
    X: Any
    signs: NDArray[Any]  # (m,), label of each row, -1 or +1
    # Which rows count for which groups, by entries: of hard groups one for each row.
    membership: Membership
    # Group of each entry; of several attributes its row in `combinations`.
    codes: NDArray[Any]
    combinations: Cells
    classes: NDArray[Any]  # (2,), sorted; the second has the sign +1
    given: str | None = None  # "positive" or "label": which rows are compared
    weights: Array | None = None  # (m,) of rows, None if each counts once

    @classmethod
    def of(
        cls,
        X: Any,
        signs: NDArray[Any],
        classes: NDArray[Any],
        membership: Membership,
        given: str | None = None,
        weights: Array | None = None,
    ) -> LabeledRows:
        """Return rows with the combinations of their attributes' groups numbered."""
        # Rows of weight 0 keep their combination: they are scored, too.
        numbered = membership._replace(weights=None).cells()
        return cls(X, signs, membership, *numbered, classes, given, weights)

    @property
    def groups(self) -> list[NDArray[Any]]:
        """Groups of each attribute, sorted."""
        return [attribute.groups for attribute in self.membership.compared]

    def take(self, rows: NDArray[np.int64], X: Any) -> LabeledRows:
        """Return some of the rows, of features X. All groups keep their numbers."""
        membership = self.membership.select(rows)
        # Probabilities are of one attribute, whose groups are the combinations.
        is_certain = membership.rows is None
        return replace(
            self,
            X=X,
            signs=self.signs[rows],
            membership=membership,
            codes=self.codes[rows] if is_certain else membership.codes,
            weights=None if self.weights is None else self.weights[rows],
        )

    @property
    def cells(self) -> NDArray[Any]:
        """Cell of each entry, as the oracle has them.

        The code of its combination or, by label, twice that and 1 for positive rows.
        """
        if self.given is None:
            return self.codes
        return cells_by_label(self.membership.take(self.signs), self.codes)

    @property
    def n_cells(self) -> int:
        """Cells of all groups: one of each combination or, by label, two."""
        return len(self.combinations.sets) * (1 if self.given is None else 2)

    @property
    def cell_sizes(self) -> NDArray[Any]:
        """Entries of each cell, or their weight, (n_cells,)."""
        weights = self.membership.weights
        return np.bincount(self.cells, weights, minlength=self.n_cells)

    @property
    def families(self) -> Cells:
        """Cells, and the compared sets of cells: a family for each attribute.

        By label there is one for each attribute and label, the first label first. Of
        given="positive" the negative rows are in no set: they count for the loss only.
        """
        groups, sizes = self.combinations
        if self.given is None:
            return self.combinations
        # Axes: combination, label of the cell, label that is compared, attribute. A
        # cell is in the sets of its own label only, in those of others it has -1.
        is_same = np.eye(2, dtype=bool)[None, :, :, None]
        sets = np.where(is_same, groups[:, None, None, :], -1)
        n_labels = 1 + (self.given == "label")  # the last ones are compared
        # Cells are rows, ordered by combination, then label; families are columns.
        sets = sets[:, :, 2 - n_labels :].reshape(2 * len(groups), -1)
        return Cells(sets, sizes * n_labels)

    @property
    def compared(self) -> list[NDArray[np.int64]]:
        """For each of the `families` the set that each entry belongs to, or -1."""
        return [family[self.cells] for family in self.families.sets.T]

    @property
    def set_sizes(self) -> list[NDArray[np.int64]]:
        """Rows of each set that is compared, for each of the `families`.

        Of weighted rows the effective number, (sum w)^2 / sum w^2.
        """
        members = self.families.members
        sizes = members @ self.cell_sizes
        if self.membership.weights is not None:
            squares, unit = self.squares
            sizes = np.rint((sizes / unit) ** 2 / divisors(members @ squares))
        return np.split(sizes.astype(np.int64), np.cumsum(self.families.n_sets)[:-1])

    @property
    def squares(self) -> tuple[NDArray[Any], float]:
        """Sums of squared weights in each cell, and the largest weight, their unit."""
        unit = self.membership.weights.max()  # no square is out of range
        weights = (self.membership.weights / unit) ** 2
        return np.bincount(self.cells, weights, self.n_cells), unit

    @property
    def probabilities(self) -> Array | None:
        """Probabilities of the groups, (m, h), or None if the groups are certain.

        They are 0 in rows of weight 0.
        """
        if self.membership.rows is None:
            return None
        # Entries count by the probability times the weight of the row.
        P = self.membership.matrix(len(self.signs))
        return P if self.weights is None else P / divisors(self.weights)[:, None]

    @property
    def group_arguments(self) -> dict[str, Any]:
        """The groups as arguments of `fit`: an array, or a frame.

        Cross-validation selects rows of it, and fits again.
        """
        compared, P = self.membership.compared, self.probabilities
        columns = [groups[codes] for _, groups, codes in compared]
        if P is None and len(columns) == 1:
            return {"sensitive_features": columns[0]}
        import pandas

        if P is not None:
            frame = pandas.DataFrame(P, columns=self.groups[0])
            return {"group_probabilities": frame}
        frame = pandas.DataFrame(dict(enumerate(columns)))
        frame = frame.set_axis([name for name, *_ in compared], axis=1)
        return {"sensitive_features": frame}

    def oracle(self, units: FeatureUnits | None = None, **options: Any) -> ScoreOracle:
        """Return the oracle of rows in memory, by default in units of their own.

        A sample takes the units of all rows: its solution is a start for them.
        """
        units = units or FeatureUnits.of(column_spread(self.X, self.weights))
        # Probabilities may all be 0 or 1. Then rows are entries, which are faster.
        _, entry_rows, entry_weights = self.membership
        certain = np.arange(len(self.signs))  # an entry for each row, as of hard groups
        if entry_rows is not None and np.array_equal(entry_rows, certain):
            entry_rows = None
        return ScoreOracle(
            self.X,
            self.signs,
            self.codes,
            len(self.combinations.sets),
            units=units,
            weights=self.weights,
            entries=None if entry_rows is None else (entry_rows, entry_weights),
            **self.oracle_options(**options),
        )

    def oracle_options(
        self, *, interactions: bool = True, **options: Any
    ) -> dict[str, Any]:
        """Return options of an oracle, with the sets that these rows compare.

        `members` say which rows of weights a combination of groups adds up: without
        interactions the shared one only, as if there were no attributes.
        """
        groups, sizes = self.combinations
        n_attributes = len(sizes) if interactions else 0
        weighted = Cells(groups[:, :n_attributes], sizes[:n_attributes])
        return {
            **options,
            "by_label": self.given is not None,
            "families": self.families,
            "members": group_members(weighted),
        }

    def check_groups(self, max_groups: int, min_group_size: int) -> None:
        """Raise a ValueError for no groups, too many, or too small ones.

        Sizes are those of the sets that are compared: rows of one label, maybe.
        """
        compared = self.membership.compared
        check_compared(compared, WITHOUT_GROUPS)
        for name, groups, _ in compared:
            if len(compared) > 1:
                name = f"Column {name} of sensitive_features"
            check_group_count(len(groups), max_groups, name)
        # Groups occur, but perhaps with one label only.
        sizes = np.concatenate(self.set_sizes)
        if not sizes.all():
            raise ValueError(
                f"given={self.given!r} compares rows of one label, and some groups "
                f"have none: {self._named(sizes == 0)}. Leave these groups out, "
                "join them with others, or pass given=None."
            )
        within = "" if self.given is None else ", within a label,"
        check_group_sizes(self._set_names, sizes, min_group_size, within)

    @property
    def _set_names(self) -> list[str]:
        """Names of the sets that are compared, in the order of `families`.

        Such as "'b'", "'b' of sex" or "'b' labelled 1".
        """
        several = len(self.groups) > 1
        names = [
            repr(group) + f" of {name}" * several
            for name, groups, _ in self.membership.compared
            for group in groups.tolist()
        ]
        if self.given is not None:
            n_labels = 1 + (self.given == "label")
            labels = self.classes.tolist()[2 - n_labels :]
            names = [f"{name} labelled {y!r}" for y in labels for name in names]
        return names

    def _named(self, small: NDArray[np.bool_]) -> str:
        """Return sets that are compared with their sizes, the smallest first.

        `small` are those to be named, of all sets in the order of `families`.
        """
        return smallest(self._set_names, np.concatenate(self.set_sizes), small)

    def warn_few(self) -> None:
        """Warn of groups in which shares, and so gaps, are mostly noise."""
        sizes = np.concatenate(self.set_sizes)
        small = sizes < FEW_ROWS
        if small.any():
            # The deviation of a share p of n rows is (p (1 - p) / n)^(1/2), at most
            # with p = 1/2.
            error = 0.5 / np.sqrt(sizes.min())
            warn_user(
                f"Gaps of groups of fewer than {FEW_ROWS} rows mean little: "
                f"{self._named(small)}. A share of {sizes.min()} row(s) "
                f"has a standard error of up to {error:.2f}. Join such groups with "
                "others, or measure the gaps on more rows."
            )


def encode_labels(y: ArrayLike) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return the two classes, sorted, and the sign of each label: -1 or 1.

    Messages are those that scikit-learn's checks of estimators look for.
    """
    labels = check_values(y, name="y", noun="label")
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y", raise_unknown=True)
    classes, codes = encode_values(labels, name="y")
    if kind != "binary" or len(classes) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is "
            f"{kind}, with {len(classes)} classes: {listed(classes.tolist(), repr)}."
        )
    if len(classes) < 2:
        raise ValueError(
            f"y must have two classes, found 1 class ({classes.tolist()[0]!r}): there "
            "is nothing to tell apart."
        )
    return classes, np.where(codes == 1, 1.0, -1.0)


def check_label_weights(
    sample_weight: Any, signs: NDArray[Any], classes: NDArray[Any]
) -> Array | None:
    """Return the weights of rows, some of each class; None if all are 1.

    Of rows in parts these are the total weights of both labels.
    """
    weights = check_sample_weight(sample_weight, len(signs))
    if weights is not None and np.ptp(signs[weights > 0]) == 0:
        lost = classes.tolist()[int(signs[weights > 0][0] < 0)]
        raise ValueError(
            f"sample_weight is 0 for all rows of the class {lost!r}: there is nothing "
            "to tell apart."
        )
    return weights


def refuse_parts(X: Any, name: str) -> None:
    """Raise a TypeError for rows in parts where only rows in memory are taken."""
    if is_partitioned(X):
        raise TypeError(
            f"{name} takes rows that are in memory, got a {type(X).__name__}. Load "
            "them, or use PartiallyFairClassifier, which takes Dask collections and "
            "readers of files."
        )
