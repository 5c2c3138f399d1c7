"""Normalised cut of a partition of a weighted graph."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator
from sklearn import get_config
from sklearn.utils import gen_batches

from scalefair._decorators import checked_call
from scalefair._entries import (
    canonical,
    check_number,
    graph_as_matrix,
    ignore_fp_warnings,
)
from scalefair.metrics._balance import encode_clusters

Array = NDArray[np.float64]


@checked_call
def normalized_cut_score(
    W: Any,
    labels: ArrayLike,
    *,
    regularization: float = 0.0,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Normalised cut of a partition (lower is better).

    .. math::
        \mathrm{Ncut}(C_1, \dots, C_k)
        = \sum_l \frac{\mathrm{cut}(C_l)}{\mathrm{vol}(C_l)},

    with cut the weight of the edges that leave the cluster and vol the sum of its
    members' degrees: between 0 (each cluster is a union of components) and the number
    of clusters.

    Parameters
    ----------
    W : sparse matrix, sparse array, ndarray or LinearOperator, shape (n, n)
        Symmetric up to rounding, nonnegative, finite edge weights. A sparse `W` is
        never made dense. An operator, such as a kernel, is multiplied by one vector
        per cluster, in blocks of scikit-learn's `working_memory`; symmetry and sign of
        its entries are not checked. Self-loops count once in the volume and never in
        the cut. Or an undirected graph of NetworkX or igraph.
    labels : array-like of shape (n,)
        Cluster of each node; of a graph object a dict by node is taken, too. The cut
        is that of the subgraph of the assigned nodes: edges to a node labelled -1
        count neither in the cut nor in the volume.
    regularization : float, default=0.0
        Multiple of the mean degree that is spread over the edges of each node to all:
        the cut that `regularization` of
        :class:`scalefair.cluster.FairSpectralClustering` relaxes [2]_, in which
        clusters of a few nodes cost much. Isolated nodes are then allowed.
    sample_weight : array-like of shape (n,), default=None
        Weights :math:`w_i` of the nodes: an edge counts :math:`w_i w_{ij} w_j`. A node
        of weight 2 is two nodes with its edges, joined to each other as it is to
        itself; one of weight 0 does not count. None counts each node once.

    Returns
    -------
    cut : float
        Sum over clusters of cut divided by volume.

    Raises
    ------
    ValueError
        If `W` is not square, real, symmetric, finite and nonnegative, as far as can
        be seen, if the lengths differ, if the volume of a cluster is not finite
        and positive, if a weight is negative, or if `regularization` is not a finite
        number >= 0.

    References
    ----------
    .. [1] J. Shi, J. Malik, "Normalized Cuts and Image Segmentation", IEEE TPAMI
       22(8), 2000.
    .. [2] Y. Zhang, K. Rohe, "Understanding Regularized Spectral Clustering via Graph
       Conductance", NeurIPS 2018.

    Examples
    --------
    Two triangles joined by one edge:

    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> from scalefair.metrics import normalized_cut_score
    >>> i, j = [0, 0, 1, 3, 3, 4, 2], [1, 2, 2, 4, 5, 5, 3]
    >>> W = csr_array((np.ones(14), (i + j, j + i)), shape=(6, 6))
    >>> round(normalized_cut_score(W, [0, 0, 0, 1, 1, 1]), 4)
    0.2857
    """
    W, labels = graph_as_matrix(W, labels, "labels", sample_weight=sample_weight)
    W = _check_affinity(W)
    regularization = check_number(regularization, "regularization")
    assigned, codes, weights, clusters = encode_clusters(labels, sample_weight)
    if len(assigned) != W.shape[0]:
        raise ValueError(
            f"labels must give one cluster per node: W has {W.shape[0]} nodes, "
            f"labels has length {len(assigned)}."
        )
    # 1. Cut and volume of each cluster. Column l of H has the weights of the nodes in
    # cluster l; nodes that are not assigned have no entry.
    if weights is not None:  # products of two are in range
        weights = weights / weights.max()
    values = np.ones(codes.size) if weights is None else weights
    entries = values, (np.flatnonzero(assigned), codes)
    H = sparse.csc_array(entries, shape=(W.shape[0], clusters.shape[0]))
    with ignore_fp_warnings():  # volumes are checked below
        cut, volume = _cut_and_volume(W, H)
    # 2. With regularization every node has an edge of weight tau / s to every node,
    # itself included, s the sum of all weights. A cluster of the size (sum of weights)
    # s_l gets the volume s_l s tau / s, of which s_l (s - s_l) tau / s is in the cut.
    if regularization > 0:
        sizes = np.bincount(codes, weights)
        with ignore_fp_warnings():
            tau = regularization * volume.sum() / sizes.sum()
            cut += tau * sizes * (1 - sizes / sizes.sum())
            volume += tau * sizes
    # 3. Volumes must be positive. Only operators can have negative ones.
    for wrong, problem in (
        (
            ~np.isfinite(volume),
            "no finite volume: W has NaN or infinite weights, or their sum overflows.",
        ),
        (volume < 0, "a negative volume, but the weights of W must be >= 0."),
        (
            volume == 0,
            "zero volume: no edge of W touches their members. Remove the "
            "isolated nodes, or label them -1.",
        ),
    ):
        if wrong.any():
            raise ValueError(f"cluster(s) {clusters[wrong].tolist()} have {problem}")
    return float((cut / volume).sum())


def _cut_and_volume(W: Any, H: sparse.csc_array) -> tuple[Array, Array]:
    """Return cut and volume of the clusters, from H^T W H for their weights H."""
    n, n_clusters = H.shape
    cut, volume = np.zeros(n_clusters), np.zeros(n_clusters)
    # Operators multiply dense blocks of indicators: as many columns as fit.
    is_operator, width = isinstance(W, LinearOperator), n_clusters
    if is_operator:
        width = max(1, int(get_config()["working_memory"] * 2**20 / (8 * n)))  # MiB
    for block in gen_batches(n_clusters, width):
        part = H[:, block].toarray() if is_operator else H[:, block]
        # H^T W H, (n_clusters, block): entry (k, l) is the weight of the edges between
        # cluster k and cluster l of the block.
        links = sparse.coo_array(H.T @ (W @ part))
        volume[block] = links.sum(axis=0)
        # The edges inside of a cluster are left out, not subtracted from the volume: a
        # small cut keeps all digits.
        crosses = links.row != links.col + block.start
        weights = links.data[crosses]
        cut[block] = np.bincount(links.col[crosses], weights, links.shape[1])
    return cut, volume


def _check_affinity(W: Any) -> Any:
    """Return W as CSR or ndarray of float64, or as operator, after checks."""
    is_operator, is_sparse = isinstance(W, LinearOperator), sparse.issparse(W)
    if not is_operator and not is_sparse:
        W = np.asarray(W)
    if len(W.shape) != 2 or W.shape[0] != W.shape[1]:
        raise ValueError(f"W must be square, got shape {W.shape}.")
    dtype = np.dtype(W.dtype)
    if dtype.kind not in "buif":
        raise ValueError(f"W must be real, got dtype {dtype}.")
    if is_operator:
        return W
    W = (canonical(W.tocsr()) if is_sparse else W).astype(np.float64, copy=False)
    values = W.data if is_sparse else W
    if not ((values >= 0) & (values < np.inf)).all():
        entries = sparse.coo_array(W)
        first = np.argmin((entries.data >= 0) & (entries.data < np.inf))
        raise ValueError(
            f"W must have finite weights >= 0, but that at row {entries.row[first]}, "
            f"column {entries.col[first]} is {entries.data[first]}."
        )
    # Rounding may make w_ij and w_ji differ: allow 100 units in the last place of the
    # largest weight, and never less than 1e-8 of it.
    skew = abs(W - W.T)
    tolerance = 100 * float(np.finfo(dtype).eps) if dtype.kind == "f" else 0.0
    if W.size and skew.max() > max(1e-8, tolerance) * W.max():
        i, j = divmod(int(skew.argmax()), W.shape[1])
        raise ValueError(
            f"W must be symmetric, but entry ({i}, {j}) is {W[i, j]:.10g} and entry "
            f"({j}, {i}) is {W[j, i]:.10g}. Of a directed graph, measure (W + W.T) / 2."
        )
    return W
