"""From what `fit` is given to the affinity it clusters by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from scalefair.cluster._graph import (
    NEIGHBORS_REMEDY,
    check_affinity,
    choose_nodes,
    nearest_neighbors_affinity,
)
from scalefair.operators import (
    NormalizedAffinity,
    NormalizedOperator,
    NystroemKernel,
    RBFKernel,
)

__all__ = ["AFFINITIES", "Affinity", "AffinityOptions", "build_affinity"]


@dataclass(frozen=True)
class Affinity:
    """An affinity and the nodes of it that are clustered.

    Attributes
    ----------
    matrix : csr_array or LinearOperator of shape (n, n)
        Affinity of all nodes.
    kept : ndarray of shape (n,), bool
        Nodes to cluster.
    normalized : NormalizedAffinity or NormalizedOperator
        Normalised affinity of the kept nodes, float64.
    error : float or None
        Relative error in the Frobenius norm, estimated, if it is approximated.
    """

    matrix: Any
    kept: NDArray[np.bool_]
    normalized: Any
    error: float | None = None


@dataclass(frozen=True)
class AffinityOptions:
    """What the affinities are told: parameters of the estimator."""

    n_neighbors: int
    gamma: float | None
    n_landmarks: int
    connected_components: str
    rng: np.random.RandomState


def build_affinity(name: str, X: Any, options: AffinityOptions) -> Affinity:
    """Build the affinity of the given name from a matrix, an operator or rows."""
    if isinstance(X, LinearOperator):
        return _of_operator(X)
    return AFFINITIES[name](X, options)


def _precomputed(W: Any, options: AffinityOptions) -> Affinity:
    return _of_graph(check_affinity(W), options)


def _nearest_neighbors(X: Any, options: AffinityOptions) -> Affinity:
    W = nearest_neighbors_affinity(X, options.n_neighbors)
    return _of_graph(W, options, remedy=NEIGHBORS_REMEDY)


def _rbf(X: Any, options: AffinityOptions) -> Affinity:
    return _of_operator(RBFKernel(X, gamma=options.gamma))


def _rbf_nystroem(X: Any, options: AffinityOptions) -> Affinity:
    kernel = NystroemKernel(
        X,
        gamma=options.gamma,
        n_landmarks=options.n_landmarks,
        random_state=options.rng,
    )
    try:
        return _of_operator(kernel, kernel.frobenius_error)
    except ValueError as error:
        raise ValueError(
            f"{error} Or raise n_landmarks or lower gamma: the low-rank kernel is too "
            "coarse for these nodes."
        ) from error


def _of_graph(
    W: sparse.csr_array, options: AffinityOptions, *, remedy: str = ""
) -> Affinity:
    kept = choose_nodes(W, options.connected_components, remedy=remedy)
    part = W if kept.all() else sparse.csr_array(W[kept][:, kept])
    return Affinity(W, kept, NormalizedAffinity(part))


def _of_operator(W: LinearOperator, error: float | None = None) -> Affinity:
    """All nodes: the components of an operator cannot be seen."""
    if W.shape[0] != W.shape[1]:
        raise ValueError(
            f"A precomputed affinity must be a square matrix, got shape {W.shape}."
        )
    kept = np.ones(W.shape[0], dtype=bool)
    return Affinity(W, kept, NormalizedOperator(W, dtype=np.float64), error)


AFFINITIES: dict[str, Callable[[Any, AffinityOptions], Affinity]] = {
    "precomputed": _precomputed,
    "nearest_neighbors": _nearest_neighbors,
    "rbf": _rbf,
    "rbf_nystroem": _rbf_nystroem,
}
