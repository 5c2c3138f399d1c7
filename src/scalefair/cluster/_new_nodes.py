"""Nodes that come after a fit: their rows of the embedding, and their clusters.

The embedding H (n, k) solves ``H Lambda = M H - Q Q^T M H``, where Q is an orthonormal
basis of the constraints' columns F (n, h). Row i of the right-hand side needs only the
weights, degree and groups of node i, and the rows of the nodes it has weights to: the
Nyström extension evaluates it for new nodes (Bengio et al. 2004, without constraints).
A node of the fit gets its own row, to the solver's residual.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from scalefair._entries import canonical, ignore_fp_warnings
from scalefair._membership import Membership, check_group_probabilities
from scalefair._rounding import ROUNDING, TINY
from scalefair.cluster._base import refuse_negative, stacked_groups, sums_of_groups
from scalefair.cluster._fair_assignment import squared_distances
from scalefair.cluster._kmeans import unit_rows
from scalefair.cluster._neighbors import new_neighbors, stored_neighbors
from scalefair.cluster._solvers import FairProblem
from scalefair.kernels import block_gram

Array = NDArray[np.float64]
# Codes (m, n_attributes) that count through the groups of all attributes, or
# probabilities (m, n_groups); None if nothing is known.
Groups = NDArray[Any] | None


class ClusterCentres(NamedTuple):
    """Where rows of the embedding go: to the centre of least distance and price."""

    centres: Array  # (c, k)
    clusters: NDArray[np.integer]  # (c,): the labels of the centres
    prices: Array | None  # (h, c): of the groups of all attributes; for fair labels


@dataclass(frozen=True)
class NystroemExtension:
    """The part of a fit, besides the embedding, that rows and clusters depend on."""

    scale: Array  # (n,): d^{-1/2}, with weights (w / d)^{1/2}; 0 for nodes left out
    weights: Array | None  # (n,): of the nodes; None: all 1
    tau: float  # what the regularisation adds to every degree
    shifts: Array  # (h, k): parts of d^{1/2} Q Q^T M H, of groups of all attributes
    centres: ClusterCentres

    @classmethod
    def of(
        cls,
        problem: FairProblem,
        H: Array,
        kept: NDArray[np.bool_],
        centres: ClusterCentres,
    ) -> NystroemExtension:
        """Compute it from the solution H of a problem; this takes a product with Q."""
        # Step 1: Q Q^T M H = F S, that is Q^T F S = Q^T M H. The columns of F are
        # linearly dependent: take the solution of minimum norm.
        Q, F = problem.Q, problem.F
        MQ = np.ascontiguousarray(problem.affinity @ Q)
        S: Any = np.linalg.lstsq(block_gram(Q, F), block_gram(MQ, H), rcond=None)[0]
        # Step 2: row i of F S is d_i^{-1/2} times the sum of S_g - z^T S / m over the
        # groups g of node i in m attributes; of probabilities it is the mean.
        shifts = S - problem.shares @ S / problem.n_attributes
        # Step 3: scales and weights of all nodes, zero for those left out.
        scale, weights = np.zeros(kept.size), None
        scale[kept] = problem.affinity.inv_sqrt_degrees
        if problem.weights is not None:
            weights = np.zeros(kept.size)
            weights[kept] = problem.weights
        return cls(scale, weights, problem.affinity.tau, shifts, centres)

    def embed(
        self,
        multiply: Callable[[Array], Array],
        H: Array,
        eigenvalues: Array,
        groups: Groups,
    ) -> tuple[Array, Array]:
        """Rows (m, k) of new nodes as k-means takes them, and their sums of weights.

        `multiply` multiplies a block by W, the weights (m, n) of the new nodes.
        """
        # 0 for nodes left out, whose rows of H are 0, too.
        node_weights = self.scale > 0 if self.weights is None else self.weights
        R = H * self.scale[:, None]
        # Row d^{-1} (W R + tau / n 1 1^T R - shift) / lambda of D^{-1/2} H.
        with ignore_fp_warnings():
            sums = multiply(np.column_stack([R, node_weights]))
            rows, weights = sums[:, :-1], sums[:, -1]
            rows = rows + (self.tau / node_weights.sum()) * R.sum(axis=0)
            # Without groups the shift is its mean over the population, which is 0.
            if groups is not None:
                rows -= sums_of_groups(self.shifts, groups)
            degrees = np.where(weights + self.tau > 0, weights + self.tau, 1)
            rows /= degrees[:, None] * eigenvalues
        if not np.isfinite(rows).all():
            raise ValueError(
                "The rows of new nodes overflow: their weights have another unit than "
                "those of fit. Rescale them."
            )
        return (unit_rows(rows) if self.tau > 0 else rows), weights

    def assign(self, rows: Array, weights: Array, groups: Groups) -> NDArray[np.int32]:
        """Labels of the nearest centres, at the prices of the fair assignment."""
        centres, clusters, prices = self.centres
        costs = squared_distances(rows, centres)
        if prices is not None and groups is not None:
            # k-means of unit rows (tau > 0) weighs squared distances by the degrees,
            # relative to their mean: so do the costs that prices are added to.
            if self.tau > 0:
                is_kept = self.scale > 0
                degrees = self.scale[is_kept] ** -2.0
                if self.weights is not None:
                    degrees *= self.weights[is_kept] ** 2
                costs *= ((weights + self.tau) / np.mean(degrees))[:, None]
            costs += sums_of_groups(prices, groups)
        labels: NDArray[np.int32] = clusters[costs.argmin(axis=1)].astype(np.int32)
        return labels


def predict_labels(
    model: Any,
    X: Any,
    sensitive_features: ArrayLike | None,
    group_probabilities: ArrayLike | None,
) -> NDArray[np.int32]:
    """Clusters of new nodes by a fitted `FairSpectralClustering`; X is checked."""
    extension: NystroemExtension | None = model._extension
    if extension is None:
        raise ValueError(
            'solver="admm" gives no eigenvectors, from which the rows of new nodes '
            'could come. Fit with another solver, such as "auto".'
        )
    # Step 1: rows are divided by the eigenvalues. Refuse relative residuals above 0.1.
    eigenvalues, residuals = model.eigenvalues_, model.residuals_
    noise = np.maximum(residuals, ROUNDING)
    is_noisy = noise > 0.1 * np.abs(eigenvalues)
    if is_noisy.any():
        worst = int((noise / np.maximum(np.abs(eigenvalues), TINY)).argmax())
        raise ValueError(
            f"{is_noisy.sum()} of {is_noisy.size} eigenvalues are too near 0 for new "
            f"nodes, whose rows are divided by them (eigenvalue "
            f"{eigenvalues[worst]:.1e}, residual {residuals[worst]:.1e}): lower tol or "
            "n_clusters."
        )
    # Step 2: rows of the embedding, and the centres of least cost.
    groups = _encode_new_groups(
        model, sensitive_features, group_probabilities, X.shape[0]
    )
    rows, weights = extension.embed(
        new_affinity(model, X), model.embedding_, eigenvalues, groups
    )
    labels = extension.assign(rows, weights, groups)
    # Step 3: isolated nodes. The regularisation links all nodes; but if only the
    # largest component is clustered, nodes without weights to it are not part of it.
    if model.connected_components != "largest":
        weights = weights + extension.tau
    isolated = np.flatnonzero(~(weights > 0))
    if isolated.size and model.connected_components == "raise":
        raise ValueError(
            f"{isolated.size} of {labels.size} new nodes have no weight to any "
            f"clustered node (first: {isolated[0]}): nothing says where they belong. "
            "Leave them out, or fit with regularization, which links all nodes, or "
            'with connected_components="all", which gives such nodes the label -1.'
        )
    labels[isolated] = -1
    return labels


def new_affinity(model: Any, X: Any) -> Callable[[Array], Array]:
    """Return what multiplies by the affinities of new nodes to those of the fit."""
    if model.affinity.startswith("rbf"):
        return partial(model.affinity_matrix_.matmat_at, X)
    if model.affinity == "precomputed_nearest_neighbors":
        W = stored_neighbors(X, model.n_neighbors, of_fit=False)
    elif model.affinity == "nearest_neighbors":
        rows, search = model._search
        W = new_neighbors(X, model.n_neighbors, rows, search)
    else:
        W = canonical(sparse.csr_array(X))
        refuse_negative(W)
    return lambda block: np.asarray(W @ block)


def _encode_new_groups(
    model: Any, sensitive_features: Any, group_probabilities: Any, n: int
) -> Groups:
    """Return groups of new nodes as those that `fit` saw; None if none are passed."""
    if sensitive_features is None and group_probabilities is None:
        if model.assignment_ is not None:
            raise ValueError(
                'Labels of assign_labels="fair" depend on groups: pass '
                "sensitive_features, the group of each new node, or "
                "group_probabilities."
            )
        return None
    if group_probabilities is not None and sensitive_features is None:
        # New nodes need not be of every group.
        groups, P = check_group_probabilities(group_probabilities, n, allow_empty=True)
        new = Membership.of_probabilities(groups, P)
    else:
        new = Membership.of(
            sensitive_features,
            group_probabilities,
            n,
            attributes=model.attributes,
            warn=False,
        )
    return stacked_groups(new.recoded(model.groups_), n)
