"""Affinities as users give them, turned into one clean CSR matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.neighbors import kneighbors_graph

from scalefair._entries import canonical
from scalefair.operators import PartitionedMatrix
from scalefair.streaming import PartitionedRows

__all__ = [
    "NEIGHBORS_REMEDY",
    "check_affinity",
    "check_partitioned_affinity",
    "choose_nodes",
    "nearest_neighbors_affinity",
]

# Difference between w_ij and w_ji, relative to the largest weight, that is taken for
# rounding; in float32 it is 100 units in the last place, if that is more.
_ASYMMETRY = 1e-8
# What else connects a k-NN graph.
NEIGHBORS_REMEDY = " Or raise n_neighbors."


def check_affinity(W: Any) -> sparse.csr_array:
    """Return a precomputed affinity in CSR format after checking it.

    Entries stored more than once are added, explicit zeros go, a difference between
    ``w_ij`` and ``w_ji`` at rounding level is averaged away. The input is not
    modified.

    Raises
    ------
    ValueError
        If `W` is not square, has negative entries, is not symmetric, or its entries
        are too large to add up.
    """
    if W.shape[0] != W.shape[1]:
        raise ValueError(
            f"A precomputed affinity must be a square matrix, got shape {W.shape}. "
            'For rows of features use affinity="nearest_neighbors".'
        )
    A = _with_small_indices(canonical(sparse.csr_array(W)))
    _refuse_negative(A)
    with np.errstate(over="ignore"):
        total = A.data.sum(dtype=np.float64)
    if not np.isfinite(total):
        raise ValueError(
            "The weights are so large that their sum overflows: divide them by the "
            "largest one."
        )
    if A.nnz and A.data.min() == 0:
        A = A.copy()
        A.eliminate_zeros()
    return _check_symmetric(A)


def check_partitioned_affinity(W: Any) -> PartitionedMatrix:
    """Return a precomputed affinity in parts as an operator.

    Raises
    ------
    ValueError
        If `W` is not square, or has negative or infinite entries.
    """
    rows = PartitionedRows.of(W)
    if rows.shape[0] != rows.shape[1]:
        raise ValueError(
            f"A precomputed affinity must be a square matrix, got shape {rows.shape}: "
            "each block of rows needs the columns of all nodes."
        )
    graph = PartitionedMatrix(rows)
    rows.map(_refuse_negative).gather()
    return graph


def nearest_neighbors_affinity(X: Any, n_neighbors: int) -> sparse.csr_array:
    """Symmetric k-NN graph: ``w_ij`` is 1 for mutual neighbours, 1/2 for one-sided."""
    n_samples = X.shape[0]
    if n_neighbors >= n_samples:
        raise ValueError(
            f"n_neighbors = {n_neighbors} must be less than the number of samples, "
            f"{n_samples}."
        )
    largest = max(X.max(), -X.min())
    if largest > 0 and not 1e-150 <= largest <= 1e150:
        X = X / largest  # squared distances in range, for the same neighbours
    directed = sparse.csr_array(
        kneighbors_graph(X, n_neighbors, mode="connectivity", include_self=False)
    )
    return _with_small_indices(sparse.csr_array((directed + directed.T) / 2))


def choose_nodes(
    W: sparse.csr_array, policy: str, *, remedy: str = ""
) -> NDArray[np.bool_]:
    """Return the mask of the nodes to cluster, or raise what stands in the way.

    Parameters
    ----------
    W : csr_array of shape (n, n)
        Clean affinity.
    policy : {"raise", "largest", "all"}
        What to do with isolated nodes and with several components.
    remedy : str, default=""
        What else can be done about several components, for the message.

    Raises
    ------
    ValueError
        With ``policy="raise"`` if a node is isolated or the graph has several
        components; with any policy if the graph has no edge.
    """
    n = W.shape[0]
    connected: NDArray[np.bool_] = np.diff(W.indptr) > 0
    if not connected.any():
        raise ValueError("The graph has no edges: there is nothing to cluster by.")
    if policy == "all":
        return connected
    n_components, component = connected_components(W, directed=False)
    if n_components == 1:
        return np.ones(n, dtype=bool)
    sizes = np.bincount(component)
    if policy == "raise":
        isolated = np.flatnonzero(~connected)
        detail = (
            f", {isolated.size} of them isolated nodes (first: {isolated[0]})"
            if isolated.size
            else ""
        )
        raise ValueError(
            f"The graph has {n_components} connected components{detail}; the largest "
            f"has {sizes.max()} of {n} nodes. Choose "
            'connected_components="largest" to cluster that one (all other nodes get '
            'the label -1) or connected_components="all" to cluster every node that '
            f"has an edge (isolated nodes get the label -1).{remedy}"
        )
    inside: NDArray[np.bool_] = component == sizes.argmax()
    return inside


def _refuse_negative(A: sparse.csr_array) -> None:
    if A.nnz and A.data.min() < 0:
        p = int(A.data.argmin())
        i = int(np.searchsorted(A.indptr, p, side="right")) - 1
        raise ValueError(
            f"Negative values in data: the smallest weight is {A.data[p]:g}, at row "
            f"{i}, column {A.indices[p]}; spectral clustering needs weights >= 0."
        )


def _with_small_indices(A: sparse.csr_array) -> sparse.csr_array:
    """Use int32 indices where they suffice: a quarter less to read per product."""
    if A.indices.dtype == np.int32 or max(*A.shape, A.nnz) > np.iinfo(np.int32).max:
        return A
    return sparse.csr_array(
        (A.data, A.indices.astype(np.int32), A.indptr.astype(np.int32)), shape=A.shape
    )


def _check_symmetric(A: sparse.csr_array) -> sparse.csr_array:
    B = sparse.csr_array(A.T)
    pairs = ((A.indptr, B.indptr), (A.indices, B.indices), (A.data, B.data))
    if all(np.array_equal(a, b) for a, b in pairs):
        return A
    difference = abs(A - B)
    largest = float(difference.max()) if difference.nnz else 0.0
    rounding = max(_ASYMMETRY, 100 * float(np.finfo(A.dtype).eps))
    if largest > rounding * float(A.data.max(initial=0.0)):
        position = difference.tocoo()
        at = int(position.data.argmax())
        i, j = int(position.coords[0][at]), int(position.coords[1][at])
        raise ValueError(
            f"The affinity is asymmetric: entry ({i}, {j}) is {A[i, j]:.10g}, "
            f"entry ({j}, {i}) is {A[j, i]:.10g}. Symmetrise it, for example with "
            "(W + W.T) / 2 or W.maximum(W.T)."
        )
    return sparse.csr_array((A + B) / 2)
