"""Turn a list of undirected edges into the CSR matrix the solvers want."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


def sort_distinct(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sorted distinct keys; sorts `keys` in place.

    numpy.unique hashes since NumPy 2.3, tens of times slower for large keys.
    """
    keys.sort()
    first = np.ones(keys.shape[0], dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    return keys[first]


def symmetric_graph(
    source: NDArray[np.integer], target: NDArray[np.integer], n_nodes: int
) -> sparse.csr_array:
    """Symmetric 0/1 adjacency of an edge list, in canonical form.

    An edge may be listed once, several times or in both directions, and becomes
    weight 1 in both; self-loops are dropped. Indices are int32 unless the graph is
    too large for them.
    """
    source, target = source.astype(np.int64), target.astype(np.int64)
    for nodes in (source, target):
        if nodes.size and (nodes.min() < 0 or nodes.max() >= n_nodes):
            raise ValueError(
                f"an edge names node {int(nodes[(nodes < 0) | (nodes >= n_nodes)][0])},"
                f" but the nodes are numbered 0 to {n_nodes - 1}."
            )
    loops = source == target
    if loops.any():
        source, target = source[~loops], target[~loops]
    # One sort of the keys row * n + column gives CSR order and finds duplicates.
    keys = np.concatenate([source * n_nodes + target, target * n_nodes + source])
    keys = sort_distinct(keys)
    rows, columns = np.divmod(keys, n_nodes)
    indptr = np.zeros(n_nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=n_nodes), out=indptr[1:])
    fits = max(n_nodes, keys.size) <= np.iinfo(np.int32).max
    index_type = np.int32 if fits else np.int64
    graph = sparse.csr_array(
        (np.ones(keys.size), columns.astype(index_type), indptr.astype(index_type)),
        shape=(n_nodes, n_nodes),
    )
    graph.has_sorted_indices = True
    graph.has_canonical_format = True
    return graph
