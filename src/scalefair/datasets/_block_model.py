"""The modified stochastic block model: planted clusters that are perfectly fair."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import Bunch

from scalefair._docs import documented
from scalefair._entries import check_count, random_generator
from scalefair.datasets._samples import TEXTS, Floats, Ints

_DESCR = """\
Modified stochastic block model (m-SBM) of Kleindessner et al. (2019).

{n_nodes} nodes in {n_clusters} planted clusters and {n_groups} groups, which every
cluster holds in equal number (within one node). Edges are independent, of probability

same cluster, same group    a = {a:.6g}
other cluster, same group   b = {b:.6g}
same cluster, other group   c = {c:.6g}
other cluster, other group  d = {d:.6g}

With b > c the groups are easier to see than the clusters.
"""


@documented(**TEXTS)
def make_fair_sbm(
    n_nodes: int,
    *,
    n_clusters: int,
    n_groups: int,
    average_degree: float | None = None,
    probabilities: Sequence[float] | None = None,
    cohesion: Sequence[float] | None = None,
    random_state: Any = None,
) -> Bunch:
    r"""Generate a graph whose planted clusters are perfectly fair.

    In the modified stochastic block model (m-SBM) [1]_ edges are independent, with
    probability a in the same cluster and group, b in the same group only, c in the
    same cluster only, and d in neither, a > b > c > d. The planted clustering has
    balance 1, while the groups are the stronger structure. Nodes are in random order.

    Parameters
    ----------
    n_nodes : int
        Number of nodes, at least ``n_clusters * n_groups``. The sizes of the clusters
        differ by at most one; so do those of the groups, and of their intersections.
    n_clusters : int
        Number of planted clusters, at least 2.
    n_groups : int
        Number of groups, at least 2.
    average_degree : float, default=None
        Expected degree; low ones leave isolated nodes. None gives the dense model of
        the literature, whose degree grows almost linearly with `n_nodes`.
    probabilities : sequence of 4 floats, default=None
        The probabilities (a, b, c, d), nonnegative, a the largest and d the smallest;
        with `average_degree` weights, scaled to reach it. By default, the dense model
        uses :math:`(1, 0.7, 0.4, 0.1)\,(\log n / n)^{1/10}`: the ratios 10 : 7 : 4 : 1
        of [2]_ with the exponent of [3]_. The sparse model fixes the shares of a node's
        expected degree instead, lest many clusters drown: b gets 0.40, d 0.03, c
        :math:`\min(0.15,\ 0.97 \cdot 0.40\,(h - 1) / (k - 1))` for k clusters and h
        groups, a the rest.
    cohesion : sequence of `n_clusters` floats in [0, 1], default=None
        Factors on a and c in each cluster, 1 by default; an `average_degree` stays.
    %(random_state)s

    Returns
    -------
    data : Bunch
        - graph : csr_array of float64, shape (n_nodes, n_nodes), symmetric, ones,
          zero diagonal, sorted int32 indices
        - sensitive_features : ndarray of int, shape (n_nodes,), group, from 0
        - target : ndarray of int, shape (n_nodes,), planted cluster, from 0
        - probabilities : ndarray of shape (4,), as used, before `cohesion`
        - DESCR : str

    %(raises)s

    References
    ----------
    .. [1] M. Kleindessner, S. Samadi, P. Awasthi, J. Morgenstern, "Guarantees for
       Spectral Clustering with Fairness Constraints", ICML 2019, section 4.
    .. [2] J. Wang, D. Lu, I. Davidson, Z. Bai, "Scalable Spectral Clustering with
       Group Fairness Constraints", AISTATS 2023.
    .. [3] F. Tonin, A. Lambert, J. A. K. Suykens, V. Cevher, "Accelerating Spectral
       Clustering under Fairness Constraints", ICML 2025, section 4.

    Examples
    --------
    >>> from scalefair.datasets import make_fair_sbm
    >>> data = make_fair_sbm(
    ...     1000, n_clusters=5, n_groups=2, average_degree=20, random_state=0
    ... )
    >>> data.graph.shape, bool(18 < data.graph.nnz / 1000 < 22)
    ((1000, 1000), True)
    """
    check_count("n_clusters", n_clusters, 2)
    check_count("n_groups", n_groups, 2)
    reason = "n_clusters * n_groups: every cluster holds every group"
    check_count("n_nodes", n_nodes, n_clusters * n_groups, reason)
    rng = random_generator(random_state)
    # 1. Clusters and groups: a block is a cluster's part of a group. Its number is
    #    cluster * n_groups + group.
    sizes = _block_sizes(n_nodes, n_clusters, n_groups)
    block_of = rng.permutation(np.repeat(np.arange(sizes.size), sizes.ravel()))
    cluster_of, group_of = np.divmod(block_of, n_groups)
    factors = np.ones(n_clusters) if cohesion is None else np.array(cohesion, float)
    is_valid = (factors >= 0) & (factors <= 1)
    if is_valid.shape != (n_clusters,) or not is_valid.all():
        raise ValueError(
            f"cohesion must hold n_clusters = {n_clusters} numbers between 0 and 1, "
            f"got {cohesion!r}."
        )
    # 2. Edges of each kind of pairs, of probabilities a, b, c and d.
    #    A kind has a class that both nodes share, and labels in which they differ: the
    #    same block (a), the same group (b), the same cluster (c), or any nodes (d).
    chosen = _edge_probabilities(sizes, factors, probabilities, average_degree)
    kinds = [
        _PairKind(block_of),
        _PairKind(group_of, cluster_of),
        _PairKind(cluster_of, group_of),
        _PairKind(np.zeros_like(block_of), cluster_of, group_of),
    ]
    # An edge {i, j} is the key i * n_nodes + j with i < j: one number of 64 bits.
    n_pairs = _count_pairs(sizes, np.ones(n_clusters, np.int64))
    samples = zip(kinds, n_pairs, chosen.tolist(), strict=True)
    keys = np.concatenate([kind.sample(n, p, rng) for kind, n, p in samples])
    del kinds, samples
    # 3. Thin out the edges within loose clusters: the others stay independent.
    if cohesion is not None:
        is_kept = np.empty(keys.size, dtype=bool)
        for part in _chunks(keys.size):
            i, j = (cluster_of[nodes] for nodes in np.divmod(keys[part], n_nodes))
            probability = np.where(i == j, factors[i], 1.0)
            is_kept[part] = rng.random(probability.size) < probability
        keys = keys[is_kept]
    return Bunch(
        graph=_graph(keys, n_nodes),
        sensitive_features=group_of,
        target=cluster_of,
        probabilities=chosen,
        DESCR=_DESCR.format(
            n_nodes=n_nodes,
            n_clusters=n_clusters,
            n_groups=n_groups,
            **dict(zip("abcd", chosen, strict=True)),
        ),
    )


def _chunks(size: int) -> Iterator[slice]:
    """Slices of four million entries of an array: temporary arrays stay small."""
    step = 1 << 22
    return (slice(i, min(i + step, size)) for i in range(0, size, step))


def _graph(keys: Ints, n_nodes: int) -> sparse.csr_array:
    """Symmetric graph of ones from distinct keys ``i * n_nodes + j``, i < j."""
    keys.sort()
    index_type = sparse.get_index_dtype(maxval=max(n_nodes, 2 * keys.size))
    indptr = np.searchsorted(keys, np.arange(n_nodes + 1) * n_nodes).astype(index_type)
    indices = np.empty(keys.size, index_type)
    for part in _chunks(keys.size):
        indices[part] = keys[part] % n_nodes
    # The upper triangle and its transpose have no entry in common. Entries of one byte
    # save memory; those of the result are made at the end.
    upper = sparse.csr_array(
        (np.ones(keys.size, bool), indices, indptr), shape=(n_nodes, n_nodes)
    )
    both = upper + upper.T.tocsr()
    del upper
    entries = np.ones(both.nnz), both.indices, both.indptr
    return sparse.csr_array(entries, shape=both.shape)


def _block_sizes(n_nodes: int, n_clusters: int, n_groups: int) -> Ints:
    """Nodes of each cluster in each group, shape (n_clusters, n_groups)."""
    # Every block has n_each nodes; n_extra blocks have one more.
    n_each, n_extra = divmod(n_nodes, n_clusters * n_groups)
    sizes = np.full((n_clusters, n_groups), n_each)
    # Along diagonals, so that sizes of clusters and of groups, too, differ by at most
    # one. A diagonal that has come back to its start is shifted.
    extra = np.arange(n_extra)
    shift = extra // math.lcm(n_clusters, n_groups)
    sizes[extra % n_clusters, (extra + shift) % n_groups] += 1
    return sizes


def _count_pairs(sizes: Ints, share: NDArray[Any]) -> list[Any]:
    """Unordered pairs of the four kinds; those in a cluster are times its `share`."""

    def within(sizes: Ints) -> Ints:
        """Unordered pairs in sets of these sizes."""
        return sizes * (sizes - 1) // 2

    # Of each cluster, (k,): pairs in the same block, and pairs in the cluster at all.
    # Of the graph: pairs in a group but not in a cluster, and what is left of all.
    block = within(sizes).sum(axis=1)
    cluster = within(sizes.sum(axis=1))
    same_group = within(sizes.sum(axis=0)).sum() - block.sum()
    different = within(sizes.sum()) - cluster.sum() - same_group
    return [share @ block, same_group, share @ (cluster - block), different]


class _PairKind:
    """Ordered pairs of nodes of the same class that differ in all other labels."""

    def __init__(self, class_of: Ints, *different: Ints) -> None:
        self.n_nodes = class_of.size
        self._different = different
        # Ordered pairs are numbered class by class: n**2 for a class of n nodes.
        # `_members` lists the nodes class by class; class c starts at _offsets[c] in
        # it, and its ordered pairs, with the pairs of a node and itself, end at number
        # _ends[c].
        self._members = np.argsort(class_of, kind="stable")
        self._sizes = np.bincount(class_of)
        self._offsets = np.cumsum(self._sizes) - self._sizes
        self._ends = np.cumsum(self._sizes.astype(np.int64) ** 2)
        self.n_ordered = int(self._ends[-1])

    def sample(
        self, n_pairs: int, probability: float, rng: np.random.Generator
    ) -> Ints:
        """Draw each of the pairs independently: keys ``i * n_nodes + j``, i < j."""
        if probability <= 0.25:
            # The same distribution, at a cost proportional to the number of edges. For
            # larger probabilities a pass over all pairs is cheaper.
            return self._draw_distinct(n_pairs, rng.binomial(n_pairs, probability), rng)
        edges = [np.empty(0, dtype=np.int64)]
        for part in _chunks(self.n_ordered):
            # The ordered pairs with these numbers, and a uniform number for each key.
            i, j = self.decode(np.arange(part.start, part.stop))
            is_ordered = i < j  # each pair occurs in both orders
            keys = self._keys(i[is_ordered], j[is_ordered])
            edges.append(keys[rng.random(keys.size) < probability])
        return np.concatenate(edges)

    def decode(self, numbers: Ints) -> tuple[Ints, Ints]:
        """Return the two nodes of each numbered pair (the same node twice occurs)."""
        # The number within its class, divided by the size of the class, gives two
        # positions.
        which = np.searchsorted(self._ends, numbers, side="right")
        size, offset = self._sizes[which], self._offsets[which]
        first, second = np.divmod(numbers - (self._ends[which] - size**2), size)
        return self._members[offset + first], self._members[offset + second]

    def _keys(self, i: Ints, j: Ints) -> Ints:
        """Return the keys of the pairs that differ in all other labels."""
        for label in self._different:
            is_different = label[i] != label[j]
            i, j = i[is_different], j[is_different]
        return np.minimum(i, j) * self.n_nodes + np.maximum(i, j)

    def _draw_distinct(
        self, n_pairs: int, count: int, rng: np.random.Generator
    ) -> Ints:
        """Draw a set of `count` of the `n_pairs` pairs, each set equally likely."""
        keys = np.empty(0, dtype=np.int64)
        while keys.size < count:
            # A draw is a certain pair with probability 2 / n_ordered: so many draws
            # meet the missing share of the pairs, with a margin of a hundredth.
            # With q = 2 / n_ordered, a pair is in none of m draws with probability
            # about exp(-q m): the share s is met by m = -log(1 - s) / q. A share of 1
            # would take infinitely many: one round aims at 0.9 at most.
            share = min((count - keys.size) / (n_pairs - keys.size), 0.9)
            # And 16 more, so that every round makes some.
            n_draws = int(1.01 * self.n_ordered / 2 * -math.log1p(-share)) + 16
            blocks = [keys]
            for part in _chunks(n_draws):
                numbers = rng.integers(self.n_ordered, size=part.stop - part.start)
                i, j = self.decode(numbers)
                is_pair = i != j
                blocks.append(self._keys(i[is_pair], j[is_pair]))
            keys = np.concatenate(blocks)
            del blocks
            # numpy.unique hashes since NumPy 2.3, tens of times slower for large keys.
            keys.sort()
            first = np.ones(keys.size, dtype=bool)
            np.not_equal(keys[1:], keys[:-1], out=first[1:])
            keys = keys[first]
        # Drop surplus pairs at random: at the end of the sorted keys would be biased.
        return np.delete(keys, rng.choice(keys.size, keys.size - count, replace=False))


def _edge_probabilities(
    sizes: Ints,
    factors: Floats,
    probabilities: Sequence[float] | None,
    average_degree: float | None,
) -> Floats:
    """Return (a, b, c, d), scaled if there is a degree to reach."""
    n_nodes = int(sizes.sum())
    if probabilities is not None:
        weights = np.asarray(probabilities, dtype=np.float64)
        a, *between, d = weights.tolist() if weights.shape == (4,) else [math.nan] * 4
        if not (d >= 0 and a < math.inf and all(d < p < a for p in between)):
            raise ValueError(
                "probabilities must be four numbers (a, b, c, d), nonnegative, with a "
                f"the largest and d the smallest, got {weights.tolist()}."
            )
    elif average_degree is None:
        # The dense model: probabilities that fall slowly with n.
        weights = np.array([1.0, 0.7, 0.4, 0.1]) * (math.log(n_nodes) / n_nodes) ** 0.1
    else:
        # Shares of a node's degree that go to the partners of each kind. 0.97 keeps
        # b > c when clusters are few and groups many.
        k, h = sizes.shape
        share_b, share_d = 0.40, 0.03
        share_c = min(0.15, 0.97 * share_b * (h - 1) / (k - 1))
        shares = np.array(
            [1.0 - share_b - share_c - share_d, share_b, share_c, share_d]
        )
        # Divided by the partners of each kind, in units of the block size.
        weights = shares / [1, k - 1, h - 1, (k - 1) * (h - 1)]
    # Without a degree the weights are probabilities; else they are scaled to it.
    if average_degree is None:
        if weights[0] > 1:
            raise ValueError(
                f"without average_degree, probabilities are edge probabilities and "
                f"must be at most 1, got {weights.tolist()}."
            )
        return weights
    if not (np.isfinite(average_degree) and average_degree > 0):
        raise ValueError(
            f"average_degree must be a positive number, got {average_degree!r}."
        )
    # The expected degree is twice the expected number of edges over the nodes. It is
    # linear in the weights, so that one factor reaches it.
    n_pairs = np.array(_count_pairs(sizes, factors))
    per_unit = 2.0 * float(weights @ n_pairs) / n_nodes
    scaled = weights * (average_degree / per_unit)
    if scaled[0] > 1:
        # The largest degree is named a little smaller: six digits may be rounded up.
        raise ValueError(
            f"average_degree={average_degree:g} is too large: nodes of the same "
            f"cluster and group would be linked with probability {scaled[0]:.3g}. With "
            f"{n_nodes} nodes and these clusters, groups and probabilities, at most "
            f"{(1 - 5e-6) * average_degree / scaled[0]:.6g} is possible."
        )
    return scaled
