"""Counts, means and second moments of groups of rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair._decorators import checked_call
from scalefair._docs import documented
from scalefair._entries import SQUARES_OVERFLOW, all_finite, ignore_fp_warnings
from scalefair._membership import Cells, Membership
from scalefair._writing import write_files
from scalefair.streaming._blocks import accumulate, check_rows
from scalefair.streaming._partitioned import PartitionedRows, is_partitioned

_FORMAT = "scalefair group moments 1"
_ARRAYS = ["groups", "counts", "means", "scatters"]
# Largest size of the scatter matrices of all combinations of attributes, or twice the
# size of those of the groups if that is larger. Beyond it rows are read once for each
# attribute.
MAX_JOINT_BYTES = 2**28


@documented()
class GroupMoments:
    """Counts, means and scatter matrices of the rows of each group.

    Rows are read once, in blocks; `update` and `merge` combine the moments of different
    rows exactly, but for rounding. Takes G n^2 numbers in float64, and one block.

    Parameters
    ----------
    groups, counts, means, scatters : array-like
        As the attributes of these names; they are copied.

    Attributes
    ----------
    groups : ndarray of shape (G,)
        Distinct groups, sorted.
    counts : ndarray of shape (G,), int64 or float64
        Rows of each group; of weighted rows the sum of their weights, and of
        probabilities that of theirs.
    means : ndarray of shape (G, n)
        Mean of the rows of each group, weighted as they are.
    scatters : ndarray of shape (G, n, n)
        Sum of ``w (x - mean_g)(x - mean_g)^T`` over the rows of each group, of weight
        w, by default 1.

    Raises
    ------
    ValueError
        If the arrays do not fit each other, or are not what they should be; from all
        methods, if rows do not fit, or squares overflow.

    References
    ----------
    T. F. Chan, G. H. Golub, R. J. LeVeque, The American Statistician 37, 1983, (2.1).

    Examples
    --------
    >>> from scalefair.streaming import GroupMoments
    >>> moments = GroupMoments.from_data([[1.0, 2.0], [3.0, 2.0]], ["a", "a"])
    >>> moments.counts, moments.means
    (array([2]), array([[2., 2.]]))
    """

    def __init__(
        self,
        groups: ArrayLike,
        counts: ArrayLike,
        means: ArrayLike,
        scatters: ArrayLike,
    ) -> None:
        counts = np.asarray(counts)
        is_whole = counts.dtype.kind != "f" or all(
            n.is_integer() and n < 2**63 for n in counts.flat
        )
        self.groups = np.array(groups)
        self.counts: NDArray[Any] = np.array(
            counts, np.int64 if is_whole else np.float64
        )
        self.means = np.array(means, dtype=np.float64)
        self.scatters = np.array(scatters, dtype=np.float64)
        shapes = [getattr(self, name).shape for name in _ARRAYS]
        sizes = (*shapes[0], *shapes[2][1:])  # G and n
        expected = [sizes[:1], sizes[:1], sizes, (*sizes, *sizes[1:])]
        if len(sizes) != 2 or not self.groups.size or shapes != expected:
            raise ValueError(
                "Moments of G groups of rows with n features need arrays of shape "
                f"(G,), (G,), (G, n) and (G, n, n), got {', '.join(map(str, shapes))}."
            )
        if not (self.groups[1:] > self.groups[:-1]).all():
            raise ValueError("groups must be distinct and sorted.")
        if not ((self.counts > 0) & (self.counts < np.inf)).all():
            raise ValueError(f"counts must be positive and finite, got {counts}.")
        for name in ("means", "scatters"):
            if not np.isfinite(getattr(self, name)).all():
                raise ValueError(f"{name} must be finite, got NaN or infinity.")

    @classmethod
    def _from_valid(cls, *arrays: NDArray[Any]) -> GroupMoments:
        """Return moments of valid arrays, of groups with weight, without checks."""
        has_weight = arrays[1] > 0
        if not has_weight.all():
            arrays = tuple(array[has_weight] for array in arrays)
        moments = cls.__new__(cls)
        moments.groups, moments.counts, moments.means, moments.scatters = arrays
        return moments

    @classmethod
    def _of_codes(
        cls,
        X: Any,
        groups: NDArray[Any],
        codes: NDArray[np.integer],
        weights: NDArray[np.float64] | None,
        entries: NDArray[np.int64] | None = None,
    ) -> GroupMoments:
        """Moments of rows or entries with these codes."""
        codes = codes.astype(np.int64, copy=False)  # for which kernels are compiled
        sums = accumulate(X, codes, len(groups), weights, entries)
        return cls._from_valid(groups, *sums.to_moments())

    @classmethod
    @checked_call
    def from_data(
        cls,
        X: Any,
        groups: ArrayLike | None = None,
        *,
        group_probabilities: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> GroupMoments:
        """Return the moments of rows, read once.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection, reader} of shape (m, n)
            Rows of any real type, CSR or CSC if sparse, read block by block.
        groups : array-like or Dask collection of shape (m,), default=None
            Group of each row: strings, integers, booleans.
        %(group_probabilities)s
            A row then counts for a group by its probability.
        sample_weight : array-like or Dask collection of shape (m,), default=None
            Weights of the rows, not negative: of weight 2 a row counts twice, of
            weight 0 it is left out. None counts each once.

        Returns
        -------
        GroupMoments
            Moments of the groups that occur.
        """
        return cls._from_attributes(
            X, groups, "joint", sample_weight, group_probabilities
        )[0]

    @classmethod
    def _from_attributes(
        cls,
        X: Any,
        groups: Any,
        attributes: str,
        sample_weight: Any = None,
        group_probabilities: Any = None,
    ) -> list[GroupMoments]:
        """`from_data`, of each attribute by itself if `attributes` is "each"."""
        X = PartitionedRows.of(X) if is_partitioned(X) else check_rows(X)
        membership = Membership.of(
            groups,
            group_probabilities,
            X,
            sample_weight=sample_weight,
            attributes=attributes,
            warn=False,
        )
        return cls._by_attribute(X, membership)

    @classmethod
    def _by_attribute(cls, X: Any, membership: Membership) -> list[GroupMoments]:
        """Moments of the groups of each attribute, of a checked membership.

        Its codes and weights are in parts if the rows are.
        """
        moments: list[GroupMoments]
        if is_partitioned(X):
            rows = PartitionedRows.of(X)
            memberships = rows._memberships(membership)
            parts = rows.map(_moments_of_part, aligned=[memberships])
            moments = parts.reduce(cls._merge_each)
        else:
            moments = _moments_of_part(check_rows(X), membership)
        # Groups by name, of which the moments have the codes. These are new objects:
        # moments from other processes may be read-only.
        return [
            cls._from_valid(groups[m.groups], m.counts, m.means, m.scatters)
            for m, (_, groups, _) in zip(moments, membership.compared, strict=True)
        ]

    @checked_call
    def update(
        self,
        X: Any,
        groups: ArrayLike | None = None,
        *,
        group_probabilities: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> GroupMoments:
        """Add rows, many at a time, in place; if they are refused nothing has changed.

        Parameters
        ----------
        X, groups, group_probabilities, sample_weight : array-like
            As of `from_data`; new groups may appear. Weights are in the unit of those
            before: rows without weights count 1.

        Returns
        -------
        GroupMoments
            Itself.
        """
        moments = GroupMoments._from_attributes(
            X, groups, "joint", sample_weight, group_probabilities
        )
        vars(self).update(vars(self.merge(moments[0])))
        return self

    def merge(self, other: GroupMoments) -> GroupMoments:
        """Return the moments of the rows of both; neither changes.

        Parameters
        ----------
        other : GroupMoments
            Moments of other rows, with the same features.

        Returns
        -------
        GroupMoments
            As if all rows had been read together, but for rounding.
        """
        if other.n_features != self.n_features:
            raise ValueError(
                f"These moments are of {self.n_features} features, the rows to add "
                f"have {other.n_features}."
            )
        both = self.groups, other.groups
        is_one_type = _kind(both[0]) == _kind(both[1])
        if is_one_type:
            groups = np.union1d(*both)
            positions = [np.searchsorted(groups, names) for names in both]
            # Integers of two types may become floats, which round those above 2**53.
            united = [groups[p].tolist() for p in positions]
            is_one_type = united == [names.tolist() for names in both]
        if not is_one_type:
            raise ValueError(
                f"The groups so far are of type {self.groups.dtype}, those to add of "
                f"type {other.groups.dtype}. Convert them to one type."
            )
        cells = Cells(np.concatenate(positions)[:, None], [len(groups)])
        arrays = _unite_cells(
            cells,
            np.concatenate([self.counts, other.counts]),
            np.concatenate([self.means, other.means]),
            [*self.scatters, *other.scatters],
        )
        return GroupMoments._from_valid(groups, *arrays)

    @staticmethod
    def _merge_each(
        one: list[GroupMoments], other: list[GroupMoments]
    ) -> list[GroupMoments]:
        """`merge`, for the moments of each attribute."""
        return [a.merge(b) for a, b in zip(one, other, strict=True)]

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.means.shape[1])

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean of all rows, shape (n,)."""
        return np.asarray((self.counts / self.counts.sum()) @ self.means)

    def covariances(self, centering: str = "global") -> NDArray[np.float64]:
        r"""Return the second moments of each group about a centre.

        Parameters
        ----------
        centering : {"global", "group"}, default="global"
            The centre `c`: the mean of all rows, or the group's own.

        Returns
        -------
        ndarray of shape (G, n, n)
            Means of :math:`(x_i - c)(x_i - c)^T` over the rows of a group, weighted as
            they are.
        """
        if centering not in {"global", "group"}:
            raise ValueError(
                f'centering must be "global" or "group", got {centering!r}.'
            )
        covariances = self.scatters / self.counts[:, None, None]
        if centering == "global":
            offsets = self.means - self.mean
            with ignore_fp_warnings():
                for covariance, offset in zip(covariances, offsets, strict=True):
                    covariance += np.outer(offset, offset)
        if not all_finite(covariances):
            raise ValueError(SQUARES_OVERFLOW)
        return np.asarray(covariances, np.float64)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the moments to a file, whole or not at all.

        Parameters
        ----------
        path : str or path-like
            Name of the npz file; no suffix is added, and an older file replaced.
        """
        content = {name: getattr(self, name) for name in _ARRAYS}
        if _kind(self.groups) == "U":
            content["groups"] = self.groups.astype(np.str_)
        if content["groups"].dtype.hasobject:
            raise ValueError(
                "groups are Python objects, which can only be pickled: encode them as "
                "strings or numbers before they are saved."
            )
        content["format"] = np.array(_FORMAT)
        write_files(
            {Path(path): lambda file: np.savez(file, allow_pickle=False, **content)}
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> GroupMoments:
        """Read moments that `save` wrote.

        Parameters
        ----------
        path : str or path-like
            Name of the file.

        Returns
        -------
        GroupMoments
            Moments with the same numbers.
        """
        with open(path, "rb") as file:
            try:
                with np.load(file, allow_pickle=False) as content:
                    if str(content["format"]) != _FORMAT:
                        raise ValueError("another format")
                    arrays = {name: content[name] for name in _ARRAYS}
            except MemoryError:
                raise
            except Exception as error:  # NumPy raises many kinds for damaged files
                raise ValueError(
                    f"{os.fspath(path)!r} is not a whole file of group moments: write "
                    "it by GroupMoments.save."
                ) from error
        return cls(**arrays)


def _moments_of_part(X: Any, membership: Membership) -> list[GroupMoments]:
    """Moments of the codes that occur among rows, for each of several attributes.

    Rows are read once if there is memory for the moments of each combination of codes
    that occurs (a cell): a group is a union of cells.
    """
    compared, entries, weights = membership
    if len(compared) > 1:
        sizes = [len(attribute.groups) for attribute in compared]
        columns = [attribute.codes for attribute in compared]
        cell_of_row, cells = Cells.number(columns, sizes)
        scatter_bytes = 8 * X.shape[1] ** 2
        max_bytes = max(MAX_JOINT_BYTES, 2 * sum(sizes) * scatter_bytes)
        if len(cells.sets) * scatter_bytes <= max_bytes:
            numbers = np.arange(len(cells.sets))
            joint = GroupMoments._of_codes(X, numbers, cell_of_row, weights)
            # Cells with weight, of which the groups are unions.
            cells = cells._replace(sets=cells.sets[joint.groups])
            arrays = _unite_cells(cells, joint.counts, joint.means, joint.scatters)
            cuts = np.cumsum(sizes)[:-1]
            by_attribute = zip(*(np.split(x, cuts) for x in arrays), strict=True)
            return [
                GroupMoments._from_valid(np.arange(len(part[0])), *part)
                for part in by_attribute
            ]
    # One attribute, or too many combinations: read the rows for each attribute.
    return [
        GroupMoments._of_codes(X, np.arange(len(groups)), codes, weights, entries)
        for _, groups, codes in compared
    ]


def _unite_cells(
    cells: Cells,
    counts: NDArray[Any],
    means: NDArray[np.float64],
    scatters: Sequence[NDArray[Any]] | NDArray[Any],
) -> tuple[NDArray[Any], ...]:
    """Return counts, means and scatter matrices of sets, from those of cells."""
    # 1. Counts are added; means are averaged by the share of each cell in its set.
    totals = (cells.members @ counts).astype(counts.dtype)
    centres = cells.shares(counts) @ means
    # 2. The scatter of a set is that within its cells and that between their means.
    united = np.zeros((*centres.shape, centres.shape[1]))
    with ignore_fp_warnings():
        for number, cell in zip(*cells.pairs, strict=True):
            offset = np.sqrt(counts[cell]) * (means[cell] - centres[number])
            united[number] += scatters[cell]
            united[number] += np.outer(offset, offset)
    if not all_finite(np.diagonal(united, axis1=1, axis2=2)):
        raise ValueError(SQUARES_OVERFLOW)
    return totals, centres, united


def _kind(groups: NDArray[Any]) -> str:
    """Kind of values that can be compared with each other."""
    if groups.dtype.kind == "O" and all(isinstance(group, str) for group in groups):
        return "U"  # NumPy's kind of a list of strings
    return "number" if groups.dtype.kind in "iuf" else groups.dtype.kind
