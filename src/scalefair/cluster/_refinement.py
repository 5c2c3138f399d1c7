"""Refinement of a partition of a graph that keeps every cluster as fair as it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from scalefair._decorators import checked_call
from scalefair._docs import documented
from scalefair._entries import (
    check_array,
    check_count,
    check_number,
    check_random_state,
    check_sample_weight,
    equal_weight,
    graph_as_matrix,
)
from scalefair._membership import Membership
from scalefair.cluster._base import checked_affinity, relative_weights
from scalefair.cluster._share_bounds import (
    ShareBounds,
    count_kinds,
    is_mixed,
    smallest_size,
)
from scalefair.kernels import degrees_and_inner_weights, refine


@dataclass(frozen=True)
class RefinedPartition:
    """Labels with a lower normalised cut.

    Attributes
    ----------
    labels : ndarray of shape (n,), int32
        Cluster of each node.
    cut_before, cut_after : float
        Normalised cut, with the regularization asked for, before and after.
    n_passes : int
        Passes over the nodes.
    n_moved : int
        Nodes whose label has changed.

    Examples
    --------
    See `refine_partition`.
    """

    labels: NDArray[np.int32]
    cut_before: float
    cut_after: float
    n_passes: int
    n_moved: int


@documented()
@checked_call
def refine_partition(
    W: Any,
    labels: ArrayLike,
    *,
    sensitive_features: ArrayLike | None = None,
    group_probabilities: ArrayLike | None = None,
    tolerance: float = 0.1,
    attributes: str = "joint",
    regularization: float = 0.0,
    max_iter: int = 20,
    random_state: Any = None,
    sample_weight: ArrayLike | None = None,
) -> RefinedPartition:
    r"""Lower the normalised cut of a partition, with the shares of groups in bounds.

    Local search (Kernighan and Lin 1970, here with groups): single nodes move to
    another cluster where the shares of all groups in both stay within the tolerance, up
    to one node, as in `fair_assignment`; and two nodes of one group change places,
    which changes no share. Every step lowers the normalised cut. Labels that meet the
    bounds still meet them afterwards; others get no less fair by exchanges.

    Parameters
    ----------
    W : {array-like, sparse matrix or array} of shape (n, n)
        Symmetric weights >= 0, or a graph of NetworkX or igraph.
    labels : array-like of shape (n,)
        Cluster of each node, from 0; a number without nodes stays so.
    sensitive_features : array-like of shape (n,) or (n, k)
        Group of each node; of k columns see `attributes`.
    %(group_probabilities)s
    tolerance : float, default=0.1
        Largest relative deviation of a share, up to one node.
    %(attributes)s
        With ``"each"`` and several columns nodes only exchange, those that agree in
        all, and in weight.
    regularization : float, default=0.0
        The cut is that of `W` with this multiple of the mean degree, over n, added to
        every entry, as in `FairSpectralClustering`.
    max_iter : int, default=20
        Passes over the nodes at most: over all twice, then over those next to a change.
        One that lowers the cut by less than 1 / 2000 is the last, seldom the tenth.
    %(random_state)s
    sample_weight : array-like of shape (n,), default=None
        How many nodes each one stands for, > 0: the cut is that of a graph of copies,
        as in `FairSpectralClustering`, and shares are weighted. Where weights differ,
        shares stay within the tolerance up to a node of average weight.

    Returns
    -------
    RefinedPartition
        Labels, and the normalised cut before and after.

    Raises
    ------
    TypeError
        Unless there are groups or probabilities, not both.
    ValueError
        If an argument does not fit, `W` is not a symmetric matrix of weights >= 0, or
        has none; a node has no weight, or a cluster has no edges and there is no
        regularization.

    See Also
    --------
    fair_assignment : Labels that meet the bounds, from rows and centres.

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.cluster import refine_partition
    >>> from scalefair.datasets import make_fair_sbm
    >>> data = make_fair_sbm(1000, n_clusters=4, n_groups=2, random_state=0)
    >>> rng, planted = np.random.default_rng(0), data.target
    >>> noisy = np.where(rng.random(1000) < 0.2, rng.integers(0, 4, 1000), planted)
    >>> refined = refine_partition(
    ...     data.graph, noisy, sensitive_features=data.sensitive_features
    ... )
    >>> bool((refined.labels == planted).all())
    True
    """
    # Step 1: the graph, the labels as numbers from 0, and the parameters.
    W, sensitive_features = graph_as_matrix(
        W,
        sensitive_features,
        labels=labels,
        group_probabilities=group_probabilities,
        sample_weight=sample_weight,
    )
    W = check_array(W, accept_sparse=True, dtype=[np.float64, np.float32])
    W = checked_affinity(sparse.csr_array(W))
    if W.nnz == 0:
        raise ValueError("The graph has no edges: no labels have a normalised cut.")
    n = W.shape[0]
    clusters, codes = encode_labels(labels, n)
    tolerance = check_number(tolerance, "tolerance")
    regularization = check_number(regularization, "regularization")
    check_count("max_iter", max_iter, 1)
    membership = Membership.of(
        sensitive_features, group_probabilities, n, attributes=attributes
    )
    weights = check_sample_weight(sample_weight, n, positive=True)
    edges = np.bincount(codes, np.diff(W.indptr), len(clusters))
    if regularization == 0 and edges.min() == 0:
        raise ValueError(
            f"Cluster {clusters[edges.argmin()]} has no edges, so that its normalised "
            "cut is 0 / 0: give its nodes other labels, or regularization > 0."
        )
    # Step 2: local search; labels are again those that were passed.
    rng = check_random_state(random_state)
    relative = relative_weights(weights, slice(None))
    bounds = membership.columns(n), tolerance, regularization
    refined = refine_labels(W, codes, *bounds, rng, int(max_iter), relative)
    return replace(refined, labels=clusters[refined.labels].astype(np.int32))


def refine_labels(
    W: sparse.csr_array,
    labels: NDArray[np.integer],
    groups: NDArray[Any],
    tolerance: float,
    regularization: float,
    rng: np.random.RandomState,
    max_iter: int = 20,
    weights: NDArray[np.float64] | None = None,
) -> RefinedPartition:
    """Refine labels of a checked graph.

    The groups are codes (n, n_attributes), or probabilities (n, h); `weights` have a
    mean of 1.
    """
    # Step 1: the graph; of equal weights one is enough, read with a stride of 0.
    weight = equal_weight(W.data) if weights is None else None
    data = np.array([weight]) if weight else np.ascontiguousarray(W.data)
    if weights is not None:  # of copies: W_ij of i and j counts w_i w_j times
        data = data * np.repeat(weights, np.diff(W.indptr)) * weights[W.indices]
    graph = W.indptr, W.indices, data, int(not weight)
    # Step 2: bounds on counts. Of several attributes the bounds are on sums of kinds,
    # which the search does not test. A smallest size of n then forbids moves: nodes
    # only exchange.
    bounds, kinds = ShareBounds.of(groups, tolerance, row_weights=weights)
    n, k, c = len(labels), int(labels.max()) + 1, len(bounds.sizes)
    min_size = smallest_size(n, k) if bounds.n_attributes == 1 else n
    # Step 3: totals of the clusters, tau / n added to every weight.
    refined = labels.astype(np.int64)
    degrees, inner = degrees_and_inner_weights(graph, refined, k)
    tau = regularization * degrees.mean()
    degrees += tau if weights is None else tau * weights
    sizes, mixes, node_sizes = np.bincount(refined, weights, k), None, weights
    if is_mixed(groups):
        mixes = np.ascontiguousarray(groups)
        node_sizes = np.ones(n) if weights is None else weights
    counts = count_kinds(kinds if mixes is None else mixes, refined, k, weights)
    volumes = np.bincount(refined, degrees, k).astype(np.float64)
    inner += tau / n * sizes.astype(np.float64) ** 2
    cut_before = float((1 - inner / volumes).sum())
    # Step 4: local search. Of a single attribute the kinds are its groups. Of several,
    # infinite bounds refuse exchanges of nodes of different weight.
    limits, totals = (bounds.lower[:c], bounds.upper[:c]), (counts, volumes, inner)
    if bounds.n_attributes > 1:
        limits = np.full(c, np.inf), np.full(c, np.inf)
    order = rng.permutation(n)
    cut_after, n_passes = refine(
        graph,
        tau / n,
        degrees,
        kinds,
        node_sizes,
        mixes,
        limits,
        min_size,
        order,
        refined,
        totals,
        max_iter,
    )
    return RefinedPartition(
        labels=refined.astype(np.int32),
        cut_before=cut_before,
        cut_after=cut_after,
        n_passes=n_passes,
        n_moved=int((refined != labels).sum()),
    )


def encode_labels(
    labels: ArrayLike, n: int
) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
    """Check labels; return the clusters, sorted, and codes of the nodes."""
    values = np.asarray(labels)
    is_whole = values.shape == (n,) and values.dtype.kind in "iu"
    if not is_whole or not 0 <= values.min() <= values.max() < 2**31:
        raise ValueError(
            f"labels must be {n} integers from 0 to 2**31 - 1, one per node, got "
            f"{values.dtype} of shape {values.shape}. Leave out nodes without a "
            "cluster."
        )
    clusters, codes = np.unique(values, return_inverse=True)
    return clusters, codes.astype(np.int64)
