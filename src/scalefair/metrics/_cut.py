"""Normalised cut of a partition of a weighted graph."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from scalefair._entries import canonical
from scalefair.metrics._balance import encode_clusters

# Numbers in a block of indicator vectors: 256 MB.
_BLOCK = 2**25
# Difference between w_ij and w_ji, relative to the largest weight, that is taken for
# rounding; in float32 it is 100 units in the last place, if that is more.
_ASYMMETRY = 1e-8


def normalized_cut_score(W: Any, labels: ArrayLike) -> float:
    r"""Normalised cut of a partition (lower is better).

    .. math::
        \mathrm{Ncut}(C_1, \dots, C_k)
        = \sum_l \frac{\mathrm{cut}(C_l)}{\mathrm{vol}(C_l)}
        = \operatorname{Tr}(\hat H^\top L \hat H),

    where cut is the weight of the edges that leave the cluster, vol the sum of its
    members' degrees, :math:`L = I - D^{-1/2} W D^{-1/2}`, and column :math:`l` of
    :math:`\hat H` is :math:`D^{1/2} 1_{C_l}` scaled to unit norm. It lies between 0
    (each cluster is a union of components) and the number of clusters.

    Parameters
    ----------
    W : sparse matrix, sparse array, ndarray or LinearOperator, shape (n, n)
        Symmetric up to rounding, nonnegative, finite edge weights. A sparse `W` is
        never made dense; time and memory are proportional to its stored entries. An
        operator, such as a kernel, is multiplied by one vector per cluster, in
        blocks of 256 MB; its entries cannot be seen, so symmetry and sign are the
        caller's business. Self-loops count once in the volume and never in the cut.
    labels : array-like of shape (n,)
        Cluster of each node. Nodes labelled -1 are outside the partition: the cut is
        that of the subgraph of the assigned nodes, so edges to a node outside count
        neither in the cut nor in the volume.

    Returns
    -------
    cut : float
        Sum over clusters of cut divided by volume.

    Raises
    ------
    ValueError
        If `W` is not square, symmetric, finite and nonnegative, if the lengths
        differ, if the volume of a cluster overflows, or is zero (the ratio is then
        undefined). Of an operator: if it is not square and real, if a product is
        not finite, or if a cluster has no positive volume.

    References
    ----------
    .. [1] J. Shi, J. Malik, "Normalized Cuts and Image Segmentation", IEEE TPAMI
       22(8), 2000.

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
    W = _check_operator(W) if isinstance(W, LinearOperator) else _check_affinity(W)
    assigned, clusters, codes = encode_clusters(labels)
    if len(assigned) != W.shape[0]:
        raise ValueError(
            f"labels must give one cluster per node: W has {W.shape[0]} nodes, "
            f"labels has length {len(assigned)}."
        )
    cluster_of = np.full(len(assigned), -1, dtype=np.int64)
    cluster_of[assigned] = codes
    measure = _sparse_cut if sparse.issparse(W) else _product_cut
    cut, volume = measure(W, cluster_of, clusters.shape[0])
    _check_volume(volume, clusters)
    return float((cut / volume).sum())


def _sparse_cut(
    W: Any, cluster_of: NDArray[np.int64], n_clusters: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    entries = W.tocoo(copy=False)
    source, target = cluster_of[entries.row], cluster_of[entries.col]
    inside = (source >= 0) & (target >= 0)
    leaves = inside & (source != target)
    volume = _sum_by(source[inside], entries.data[inside], n_clusters)
    cut = _sum_by(source[leaves], entries.data[leaves], n_clusters)
    return cut, volume


def _product_cut(
    W: Any, cluster_of: NDArray[np.int64], n_clusters: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cut and volume from products with indicators of the clusters, in blocks."""
    assigned = np.flatnonzero(cluster_of >= 0)
    codes = cluster_of[assigned]
    n = cluster_of.shape[0]
    width = max(1, min(n_clusters, _BLOCK // n))
    volume, cut = np.zeros(n_clusters), np.zeros(n_clusters)
    for start in range(0, n_clusters, width):
        stop = min(start + width, n_clusters)
        own = (codes >= start) & (codes < stop)
        members, columns = assigned[own], codes[own] - start
        block = np.zeros((n, stop - start))
        block[members, columns] = 1.0
        with np.errstate(over="ignore", invalid="ignore"):  # checked by the caller
            block = np.asarray(W @ block, dtype=np.float64)
        volume += _sum_by(codes, block[assigned].sum(axis=1), n_clusters)
        # Zero the own cluster instead of subtracting it: the cut keeps full accuracy.
        block[members, columns] = 0.0
        cut += _sum_by(codes, block[assigned].sum(axis=1), n_clusters)
    return cut, volume


def _sum_by(
    codes: NDArray[np.int64], weights: NDArray[np.float64], n_codes: int
) -> NDArray[np.float64]:
    return np.bincount(codes, weights, minlength=n_codes).astype(np.float64)


def _check_affinity(W: Any) -> Any:
    """Return W as float64, CSR or ndarray, after checking what Ncut relies on."""
    is_sparse = sparse.issparse(W)
    if not is_sparse:
        W = np.asarray(W)
    if W.ndim != 2 or W.shape[0] != W.shape[1]:
        raise ValueError(f"W must be a square matrix, got shape {W.shape}.")
    if W.dtype.kind not in "buif":
        raise ValueError(f"W must hold real numbers, got dtype {W.dtype}.")
    rounding = float(np.finfo(W.dtype).eps) if W.dtype.kind == "f" else 0.0
    W = (canonical(W.tocsr()) if is_sparse else W).astype(np.float64, copy=False)
    values = W.data if is_sparse else W
    unknown = ~np.isfinite(values)
    if unknown.any():
        raise ValueError(
            f"W has NaN or infinite weights, the first {_place(W, unknown)}."
        )
    if values.size and values.min() < 0:
        raise ValueError(
            f"W has negative weights, the first {_place(W, values < 0)}; the "
            "normalised cut needs W >= 0."
        )
    _check_symmetric(W, max(_ASYMMETRY, 100 * rounding))
    return W


def _place(W: Any, wrong: NDArray[np.bool_]) -> str:
    """Where the first of the wrong entries is, of the stored ones if W is sparse."""
    if sparse.issparse(W):
        p = int(wrong.argmax())
        i, j = int(np.searchsorted(W.indptr, p, side="right")) - 1, int(W.indices[p])
    else:
        i, j = divmod(int(wrong.argmax()), W.shape[1])
    return f"at row {i}, column {j}"


def _check_symmetric(W: Any, tolerance: float) -> None:
    if W.shape[0] == 0:
        return
    skew = abs(W - W.T)
    if skew.max() > tolerance * W.max():
        i, j = divmod(int(skew.argmax()), W.shape[1])
        raise ValueError(
            f"W must be symmetric, but entry ({i}, {j}) is {W[i, j]:.10g} and entry "
            f"({j}, {i}) is {W[j, i]:.10g}. Of a directed graph, measure (W + W.T) / 2."
        )


def _check_operator(W: LinearOperator) -> LinearOperator:
    if W.shape[0] != W.shape[1]:
        raise ValueError(f"W must be a square operator, got shape {W.shape}.")
    if np.dtype(W.dtype).kind not in "buif":
        raise ValueError(f"W must be a real operator, got dtype {W.dtype}.")
    return W


def _check_volume(volume: NDArray[np.float64], clusters: NDArray[Any]) -> None:
    """Refuse volumes that are no divisors."""
    for wrong, what in (
        (
            ~np.isfinite(volume),
            "no finite volume: W has weights that are NaN or infinite, or so large "
            "that their sum overflows.",
        ),
        (  # of an operator, whose weights cannot be seen
            volume < 0,
            "a negative volume: W has negative weights, and the normalised cut needs "
            "W >= 0.",
        ),
        (
            volume == 0,
            "zero volume: no edge of W touches their members, so cut / volume is "
            "undefined. Remove the isolated nodes, or label them -1.",
        ),
    ):
        if wrong.any():
            raise ValueError(f"cluster(s) {clusters[wrong].tolist()} have {what}")
