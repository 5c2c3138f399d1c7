"""What the comparators share: their input, checked, and their measures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

from scalefair._entries import validate_data
from scalefair._groups import encode_groups
from scalefair.cluster._fairness import clustered_groups
from scalefair.cluster._graph import (
    NEIGHBORS_REMEDY,
    check_affinity,
    choose_nodes,
    nearest_neighbors_affinity,
)

__all__ = ["ClusteredGraph", "GraphInputMixin", "orthogonality_violation"]


@dataclass(frozen=True)
class ClusteredGraph:
    """The nodes to cluster, their graph and their groups.

    Attributes
    ----------
    given : csr_array of shape (n, n)
        The affinity of all nodes.
    kept : ndarray of shape (n,), bool
        Nodes to cluster.
    W : csr_array of shape (m, m)
        Affinity of the nodes to cluster.
    codes : ndarray of shape (m,), int
        Group of each of them, an index into `groups`.
    groups : ndarray
        Sorted groups.
    """

    given: sparse.csr_array
    kept: NDArray[np.bool_]
    W: sparse.csr_array
    codes: NDArray[np.int64]
    groups: NDArray[Any]

    @cached_property
    def degrees(self) -> NDArray[np.float64]:
        """Row sums of `W`, all positive."""
        return np.asarray(self.W @ np.ones(self.W.shape[0]))

    @cached_property
    def inv_sqrt_degrees(self) -> NDArray[np.float64]:
        """What F needs of an affinity (:class:`FairProblem`)."""
        return np.asarray(1.0 / np.sqrt(self.degrees))

    def spread(self, values: NDArray[Any], fill: Any) -> NDArray[Any]:
        """Return the values of the kept nodes among all nodes, `fill` elsewhere."""
        out = np.full((self.kept.size, *values.shape[1:]), fill, dtype=values.dtype)
        out[self.kept] = values
        return out


class GraphInputMixin(BaseEstimator):
    """Estimators that take an affinity, or features for a k-NN graph."""

    affinity: str
    n_neighbors: int
    n_clusters: int
    connected_components: str

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        precomputed = self.affinity == "precomputed"
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = precomputed
        tags.input_tags.positive_only = precomputed
        return tags

    def _read_graph(
        self, W: Any, sensitive_features: ArrayLike, *, loops: bool
    ) -> ClusteredGraph:
        W = validate_data(
            self,
            W,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_min_samples=2,
            estimator=self,
        )
        names, all_codes = encode_groups(sensitive_features, W.shape[0])
        precomputed = self.affinity == "precomputed"
        if precomputed:
            W = check_affinity(W).astype(np.float64, copy=False)
        else:
            W = nearest_neighbors_affinity(W, self.n_neighbors)
        given = W
        if not loops and W.diagonal().any():
            W = sparse.csr_array(W - sparse.diags_array(W.diagonal()))
            W.eliminate_zeros()
        kept = choose_nodes(
            W,
            self.connected_components,
            remedy="" if precomputed else NEIGHBORS_REMEDY,
        )
        if not kept.all():
            W = sparse.csr_array(W[kept][:, kept])
        groups, codes = clustered_groups(names, all_codes, kept)
        if self.n_clusters > W.shape[0]:
            raise ValueError(
                f"n_clusters={self.n_clusters} must not exceed the number of "
                f"clustered nodes, n_samples={W.shape[0]}."
            )
        return ClusteredGraph(given, kept, W, codes, groups)


def orthogonality_violation(H: NDArray[np.float64]) -> float:
    """Frobenius norm of ``H.T @ H - I``."""
    return float(np.linalg.norm(H.T @ H - np.eye(H.shape[1])))
