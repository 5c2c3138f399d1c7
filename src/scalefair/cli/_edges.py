"""Edges as a list mentions them, turned into one symmetric matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["Mentions", "distinct_edges", "number_by_appearance", "symmetric_matrix"]

# Weights of two mentions of an edge that differ by less are the same.
_ROUNDING = 1e-8


@dataclass(frozen=True)
class Mentions:
    """Edges as the file lists them: twice, in either direction, or once."""

    node_ids: NDArray[Any]
    source: NDArray[np.int64]  # positions in node_ids
    target: NDArray[np.int64]
    weight: NDArray[np.float64]
    line: NDArray[np.int64] | None  # None if the parser did not keep track


def number_by_appearance(
    values: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct values in order of appearance and each value's position."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    is_first = np.ones(values.size, dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    appearance = order[is_first]  # of each distinct value
    by_appearance = np.argsort(appearance)
    rank = np.empty_like(by_appearance)
    rank[by_appearance] = np.arange(rank.size)
    positions = np.empty(values.size, dtype=np.int64)
    positions[order] = rank[np.cumsum(is_first) - 1]
    return ordered[is_first][by_appearance], positions


def distinct_edges(
    mentions: Mentions,
) -> tuple[NDArray[np.int64], tuple[int, int] | None]:
    """Return the first mention of each edge, and two that contradict each other."""
    low = np.minimum(mentions.source, mentions.target)
    high = np.maximum(mentions.source, mentions.target)
    keys = low * len(mentions.node_ids) + high
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    is_first = np.ones(keys.size, dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    kept = order[is_first]
    weight = mentions.weight[order]
    stated = mentions.weight[kept][np.cumsum(is_first) - 1]
    differs = np.flatnonzero(np.abs(weight - stated) > _ROUNDING * stated)
    if not differs.size:
        return kept, None
    at = differs[np.argmin(order[differs])]  # the earliest line that contradicts
    first = kept[np.cumsum(is_first)[at] - 1]
    return kept, (int(first), int(order[at]))


def symmetric_matrix(mentions: Mentions, kept: NDArray[np.int64]) -> sparse.csr_array:
    """Symmetric matrix of the edges whose first mentions are `kept`."""
    source, target = mentions.source[kept], mentions.target[kept]
    weight = mentions.weight[kept]
    mirrored = source != target
    n = len(mentions.node_ids)
    matrix = sparse.csr_array(
        (
            np.concatenate([weight, weight[mirrored]]),
            (
                np.concatenate([source, target[mirrored]]),
                np.concatenate([target, source[mirrored]]),
            ),
        ),
        shape=(n, n),
    )
    matrix.eliminate_zeros()
    return matrix
