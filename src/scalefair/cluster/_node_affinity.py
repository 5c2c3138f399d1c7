"""The normalised affinity of nodes, by the parameters of FairSpectralClustering."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from scalefair.cluster._base import (
    check_square,
    checked_affinity,
    relative_weights,
    submatrix,
    suboperator,
)
from scalefair.cluster._neighbors import neighbors_graph, stored_neighbors
from scalefair.operators import (
    NormalizedAffinity,
    NormalizedOperator,
    NystroemKernel,
    RBFKernel,
)

Array = NDArray[np.float64]


def normalized_affinity(
    model: Any, W: Any, rng: np.random.RandomState, weights: Array | None
) -> tuple[NormalizedAffinity | NormalizedOperator, NDArray[np.bool_]]:
    """Set the affinity of all nodes; return that of the kept ones, normalised."""
    model.affinity_error_ = None
    model.neighbors_ = None
    model.neighbors_recall_ = None
    if isinstance(W, LinearOperator) or model.affinity.startswith("rbf"):
        # All nodes: the components of an operator cannot be seen.
        kept = np.ones(W.shape[0], dtype=bool) if weights is None else weights > 0
        return _normalized_operator(model, W, rng, kept, weights), kept
    if model.affinity == "nearest_neighbors":
        # A copy of the generator: the solver's start depends on no search.
        graph = neighbors_graph(W, model.n_neighbors, model.neighbors, deepcopy(rng))
        model.affinity_matrix_ = graph.affinity
        model.neighbors_, model.neighbors_recall_ = graph.neighbors, graph.recall
        model._search = W, graph.search
    elif model.affinity == "precomputed_nearest_neighbors":
        model.affinity_matrix_ = stored_neighbors(W, model.n_neighbors)
    else:
        model.affinity_matrix_ = checked_affinity(W)
    kept = model._kept_nodes(model.affinity_matrix_, weights)
    normalized = NormalizedAffinity(
        submatrix(model.affinity_matrix_, kept),
        regularization=model.regularization,
        sample_weight=relative_weights(weights, kept),
    )
    return normalized, kept


def _normalized_operator(
    model: Any,
    W: Any,
    rng: np.random.RandomState,
    kept: NDArray[np.bool_],
    weights: Array | None,
) -> NormalizedOperator:
    """Normalise an operator, or a kernel of rows."""
    if model.affinity == "rbf":
        W = RBFKernel(W, gamma=model.gamma)
    elif model.affinity == "rbf_nystroem":
        W = NystroemKernel(
            W, gamma=model.gamma, n_landmarks=model.n_landmarks, random_state=rng
        )
        model.affinity_error_ = W.frobenius_error
    check_square(W.shape)
    model.affinity_matrix_ = W
    try:
        return NormalizedOperator(
            suboperator(W, kept),
            regularization=model.regularization,
            sample_weight=relative_weights(weights, kept),
            dtype=np.float64,
        )
    except ValueError as error:
        if model.affinity != "rbf_nystroem":
            raise
        remedy = "Or raise n_landmarks or lower gamma: the kernel is too coarse."
        raise ValueError(f"{error} {remedy}") from error
