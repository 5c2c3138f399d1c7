"""Draw the edges of one kind of node pair, each with the same probability.

A kind of pair is "both nodes in the same class, and not excluded": same cluster and
same group, same group but not the same cluster, and so on. Every ordered pair inside
a class has a number, so a pair is drawn by drawing a number, and the pairs of a kind
can also be listed in chunks; neither needs more memory than the edges that result.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from scalefair.datasets._edges import sort_distinct

Exclude = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]

# Above this probability a walk over all pairs is cheaper than drawing distinct ones.
_WALK_ABOVE = 0.25
_CHUNK = 1 << 22


class ClassPairs:
    """Numbers the ordered pairs of nodes that lie in the same class.

    Parameters
    ----------
    class_of : ndarray of shape (n_nodes,)
        Class of each node, 0, 1, ...
    """

    def __init__(self, class_of: NDArray[np.int64]) -> None:
        self.n_nodes = class_of.shape[0]
        self._members = np.argsort(class_of, kind="stable")
        self._sizes = np.bincount(class_of)
        self._offsets = np.cumsum(self._sizes) - self._sizes
        self._ends = np.cumsum(self._sizes.astype(np.int64) ** 2)
        self.n_ordered = int(self._ends[-1])

    def decode(
        self, numbers: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the two nodes of each numbered pair (the same node twice occurs)."""
        which = np.searchsorted(self._ends, numbers, side="right")
        size, offset = self._sizes[which], self._offsets[which]
        first, second = np.divmod(numbers - (self._ends[which] - size**2), size)
        return self._members[offset + first], self._members[offset + second]


def sample_pairs(
    pairs: ClassPairs,
    exclude: Exclude,
    n_pairs: int,
    probability: float,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Include each of the `n_pairs` unordered pairs independently.

    Returns the keys ``i * n_nodes + j`` (i < j) of the included pairs.
    """
    if probability > _WALK_ABOVE:
        return _walk(pairs, exclude, probability, rng)
    # A binomial count of pairs, then a uniform set of that many distinct pairs, is
    # the same law as one coin per pair, at a cost that follows the edges.
    count = int(rng.binomial(n_pairs, probability))
    return _draw_distinct(pairs, exclude, n_pairs, count, rng)


def _walk(
    pairs: ClassPairs,
    exclude: Exclude,
    probability: float,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    kept = [np.empty(0, dtype=np.int64)]
    for start in range(0, pairs.n_ordered, _CHUNK):
        i, j = pairs.decode(
            np.arange(start, min(start + _CHUNK, pairs.n_ordered), dtype=np.int64)
        )
        once = i < j
        i, j = i[once], j[once]
        wanted = ~exclude(i, j)
        i, j = i[wanted], j[wanted]
        edge = rng.random(i.shape[0]) < probability
        kept.append(i[edge] * pairs.n_nodes + j[edge])
    return np.concatenate(kept)


def _draw_distinct(
    pairs: ClassPairs,
    exclude: Exclude,
    n_pairs: int,
    count: int,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Draw a uniform set of `count` of the `n_pairs` pairs, each set equally likely."""
    keys = np.empty(0, dtype=np.int64)
    while keys.shape[0] < count:
        # A draw hits a given pair with probability 2 / n_ordered, so this many draws
        # find the missing share of the free pairs on average; the rest is margin.
        share = min((count - keys.shape[0]) / (n_pairs - keys.shape[0]), 0.9)
        draws = int(1.01 * pairs.n_ordered / 2 * -math.log1p(-share)) + 16
        i, j = pairs.decode(rng.integers(pairs.n_ordered, size=draws))
        wanted = (i != j) & ~exclude(i, j)
        i, j = i[wanted], j[wanted]
        new = np.minimum(i, j) * pairs.n_nodes + np.maximum(i, j)
        keys = sort_distinct(np.concatenate([keys, new]))
    # Too many: drop at random, not from the sorted end, to favour no pair.
    surplus = rng.choice(keys.shape[0], size=keys.shape[0] - count, replace=False)
    return np.delete(keys, surplus)
