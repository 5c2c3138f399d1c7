"""The modified stochastic block model: planted clusters that are perfectly fair."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from scalefair._random import random_generator
from scalefair.datasets._checks import check_count
from scalefair.datasets._edges import symmetric_graph
from scalefair.datasets._pair_sampling import ClassPairs, Exclude, sample_pairs

_DESCR = """\
Modified stochastic block model (m-SBM) of Kleindessner et al. (2019).

{n_nodes} nodes in {n_clusters} planted clusters and {n_groups} groups; every cluster
holds every group in equal number (within one node). Each pair of nodes is an edge
independently, with a probability that depends on the pair:

same cluster, same group    a = {0:.6g}
other cluster, same group   b = {1:.6g}
same cluster, other group   c = {2:.6g}
other cluster, other group  d = {3:.6g}

With b > c the groups are easier to see than the clusters: clustering without
fairness constraints tends to follow the groups, fair clustering the planted clusters.
"""


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

    In the modified stochastic block model (m-SBM) [1]_ each pair of nodes is an edge
    independently, with probability a, b, c or d for a pair in

    - a: the same cluster and the same group,
    - b: another cluster, the same group,
    - c: the same cluster, another group,
    - d: another cluster, another group,

    where a > b > c > d. Each cluster holds each group in equal number, so the
    planted clustering has balance 1, while the groups are the stronger structure.

    Parameters
    ----------
    n_nodes : int
        Number of nodes, at least ``n_clusters * n_groups``. If that product does not
        divide `n_nodes`, the sizes of the cluster x group blocks, of the clusters and
        of the groups each differ by at most one.
    n_clusters : int
        Number of planted clusters, at least 2.
    n_groups : int
        Number of groups, at least 2.
    average_degree : float, default=None
        Expected degree. None gives the dense model of the literature, whose expected
        degree grows almost linearly with `n_nodes`. A number gives the sparse model,
        in time and memory proportional to the number of edges; low degrees leave
        isolated nodes.
    probabilities : sequence of 4 floats, default=None
        The probabilities (a, b, c, d), nonnegative, a the largest and d the smallest
        of them. The m-SBM has b > c; with c > b the clusters are easier to see. With
        `average_degree` they are relative weights only, scaled to reach that degree.
        By default, the dense model uses
        :math:`(1, 0.7, 0.4, 0.1)\,(\log n / n)^{1/10}`: the ratios 10 : 7 : 4 : 1 of
        [2]_ with the exponent of [3]_, which does not print its constants. The sparse
        model fixes the shares of a node's expected degree instead, since constant
        ratios would drown the clusters when there are many: b gets 0.40, d 0.03, c
        :math:`\min(0.15,\ 0.97 \cdot 0.40\,(h - 1) / (k - 1))` for k clusters and h
        groups, a the rest.
    cohesion : sequence of `n_clusters` floats in [0, 1], default=None
        Factors on a and c in each cluster: a cluster of low cohesion is looser than
        the others. None is 1 for all. In the sparse model the expected average
        degree stays what was asked for.
    random_state : int, RandomState instance or None, default=None
        Determines the edges and the order of the nodes.

    Returns
    -------
    data : Bunch
        With the entries

        - graph : csr_array of float64, shape (n_nodes, n_nodes), symmetric, ones,
          zero diagonal, sorted int32 indices
        - sensitive_features : ndarray of int, shape (n_nodes,), the group, 0 to
          ``n_groups - 1``
        - target : ndarray of int, shape (n_nodes,), the planted cluster, 0 to
          ``n_clusters - 1``
        - probabilities : ndarray of shape (4,), the (a, b, c, d) used, before
          `cohesion`
        - DESCR : str

    Raises
    ------
    ValueError
        If a number is out of range, the probabilities are in a wrong order, or
        `average_degree` asks for more edges than there are pairs.

    Notes
    -----
    The nodes come in random order, so nothing can be learnt from their position.

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
    >>> data.graph.shape
    (1000, 1000)
    >>> bool(18 < data.graph.nnz / 1000 < 22)
    True
    >>> from scalefair.metrics import balance_score
    >>> balance_score(data.target, sensitive_features=data.sensitive_features)
    1.0
    """
    _check_counts(n_nodes, n_clusters, n_groups)
    rng = random_generator(random_state)
    block_of = _shuffled_blocks(n_nodes, n_clusters, n_groups, rng)
    cluster_of, group_of = np.divmod(block_of, n_groups)
    n_pairs = _count_pairs(block_of, cluster_of, group_of)
    kept_share = _check_cohesion(cohesion, n_clusters)
    if average_degree is None:
        chosen = _dense_probabilities(n_nodes, probabilities)
    else:
        weights = _sparse_weights(n_clusters, n_groups, probabilities)
        expected = _expected_pairs(n_pairs, block_of, kept_share, n_groups)
        chosen = _scale_to_degree(weights, expected, n_nodes, average_degree)

    def same(of: NDArray[np.int64]) -> Exclude:
        return lambda i, j: of[i] == of[j]

    def same_cluster_or_group(
        i: NDArray[np.int64], j: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        alike: NDArray[np.bool_] = cluster_of[i] == cluster_of[j]
        alike |= group_of[i] == group_of[j]
        return alike

    def nothing(i: NDArray[np.int64], _: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.zeros(i.shape[0], dtype=bool)

    kinds: list[tuple[NDArray[np.int64], Exclude]] = [
        (block_of, nothing),
        (group_of, same(cluster_of)),
        (cluster_of, same(group_of)),
        (np.zeros_like(block_of), same_cluster_or_group),
    ]
    keys = np.concatenate(
        [
            sample_pairs(ClassPairs(class_of), exclude, count, probability, rng)
            for (class_of, exclude), count, probability in zip(
                kinds, n_pairs, chosen.tolist(), strict=True
            )
        ]
    )
    i, j = np.divmod(keys, n_nodes)
    if cohesion is not None:  # thinning keeps the edges independent
        share = np.where(cluster_of[i] == cluster_of[j], kept_share[cluster_of[i]], 1.0)
        kept = rng.random(share.size) < share
        i, j = i[kept], j[kept]
    return Bunch(
        graph=symmetric_graph(i, j, n_nodes),
        sensitive_features=group_of,
        target=cluster_of,
        probabilities=chosen,
        DESCR=_DESCR.format(
            *chosen, n_nodes=n_nodes, n_clusters=n_clusters, n_groups=n_groups
        ),
    )


def _check_counts(n_nodes: int, n_clusters: int, n_groups: int) -> None:
    check_count("n_clusters", n_clusters, 2)
    check_count("n_groups", n_groups, 2)
    check_count(
        "n_nodes",
        n_nodes,
        n_clusters * n_groups,
        "n_clusters * n_groups: every cluster holds every group",
    )


def _shuffled_blocks(
    n_nodes: int, n_clusters: int, n_groups: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Block (cluster * n_groups + group) of each node, in random order."""
    n_blocks = n_clusters * n_groups
    sizes = np.full(n_blocks, n_nodes // n_blocks)
    # Walk the extra nodes along diagonals, so that clusters and groups, too, differ
    # in size by at most one; shift at each return to the start of a diagonal.
    extra = np.arange(n_nodes % n_blocks)
    shift = extra // math.lcm(n_clusters, n_groups)
    sizes[(extra % n_clusters) * n_groups + (extra + shift) % n_groups] += 1
    return rng.permutation(np.repeat(np.arange(n_blocks, dtype=np.int64), sizes))


def _count_pairs(*class_of: NDArray[np.int64]) -> list[int]:
    """Count the unordered pairs of the four kinds, exactly."""

    def within(sizes: NDArray[np.integer]) -> int:
        return int((sizes.astype(np.int64) * (sizes - 1) // 2).sum())

    block, cluster, group = (within(np.bincount(of)) for of in class_of)
    n_nodes = class_of[0].shape[0]
    every = n_nodes * (n_nodes - 1) // 2
    return [block, group - block, cluster - block, every - group - cluster + block]


def _check_cohesion(
    cohesion: Sequence[float] | None, n_clusters: int
) -> NDArray[np.float64]:
    if cohesion is None:
        return np.ones(n_clusters)
    values = np.asarray(cohesion, dtype=np.float64)
    if values.shape != (n_clusters,) or not ((values >= 0) & (values <= 1)).all():
        raise ValueError(
            f"cohesion must hold n_clusters = {n_clusters} numbers between 0 and 1, "
            f"got {cohesion!r}."
        )
    return values


def _expected_pairs(
    n_pairs: list[int],
    block_of: NDArray[np.int64],
    kept_share: NDArray[np.float64],
    n_groups: int,
) -> NDArray[np.float64]:
    """Pairs of the four kinds, those inside a cluster weighted by its cohesion."""
    sizes = np.bincount(block_of, minlength=kept_share.size * n_groups)
    blocks = sizes.reshape(-1, n_groups).astype(np.float64)
    clusters = blocks.sum(axis=1)
    in_block = (blocks * (blocks - 1) / 2).sum(axis=1)
    in_cluster = clusters * (clusters - 1) / 2
    return np.array(
        [
            kept_share @ in_block,
            n_pairs[1],
            kept_share @ (in_cluster - in_block),
            n_pairs[3],
        ]
    )


def _check_probabilities(probabilities: Sequence[float]) -> NDArray[np.float64]:
    values = np.asarray(probabilities, dtype=np.float64)
    if values.shape != (4,):
        raise ValueError(
            f"probabilities must be the four numbers (a, b, c, d), got shape "
            f"{values.shape}."
        )
    a, between, d = values[0], values[1:3], values[3]
    if not (
        np.isfinite(values).all()
        and d >= 0
        and (between > d).all()
        and (between < a).all()
    ):
        raise ValueError(
            "probabilities (a, b, c, d) must be nonnegative, with a the largest and d "
            f"the smallest, got {values.tolist()}."
        )
    return values


def _dense_probabilities(
    n_nodes: int, probabilities: Sequence[float] | None
) -> NDArray[np.float64]:
    if probabilities is None:
        values = np.array([1.0, 0.7, 0.4, 0.1])
        values *= (math.log(n_nodes) / n_nodes) ** 0.1
        return values
    values = _check_probabilities(probabilities)
    if values[0] > 1:
        raise ValueError(
            f"without average_degree, probabilities are edge probabilities and must "
            f"be at most 1, got {values.tolist()}."
        )
    return values


def _sparse_weights(
    n_clusters: int, n_groups: int, probabilities: Sequence[float] | None
) -> NDArray[np.float64]:
    if probabilities is not None:
        return _check_probabilities(probabilities)
    k, h = n_clusters, n_groups
    share_b, share_d = 0.40, 0.03
    # 0.97 keeps b > c when clusters are few and groups many.
    share_c = min(0.15, 0.97 * share_b * (h - 1) / (k - 1))
    share_a = 1.0 - share_b - share_c - share_d
    # Divided by the partners of each kind, in units of the block size.
    return np.array(
        [share_a, share_b / (k - 1), share_c / (h - 1), share_d / ((k - 1) * (h - 1))]
    )


def _scale_to_degree(
    weights: NDArray[np.float64],
    n_pairs: NDArray[np.float64],
    n_nodes: int,
    average_degree: float,
) -> NDArray[np.float64]:
    if not (np.isfinite(average_degree) and average_degree > 0):
        raise ValueError(
            f"average_degree must be a positive number, got {average_degree!r}."
        )
    per_unit = 2.0 * float(weights @ n_pairs) / n_nodes
    chosen = weights * (average_degree / per_unit)
    if chosen[0] > 1:
        raise ValueError(
            f"average_degree={average_degree:g} is too large: nodes of the same "
            f"cluster and group would be linked with probability {chosen[0]:.3g}. With "
            f"{n_nodes} nodes and these clusters, groups and probabilities, at most "
            f"{average_degree / chosen[0]:.6g} is possible."
        )
    return chosen
