"""Nodes that come after a fit: their rows of the embedding, and their clusters.

The embedding solves ``H Lambda = M H - Q Q^T M H``, Q an orthonormal basis of the
constraints. Read row by row it gives the row of any node from its own weights, degree
and group, and from the rows of the nodes it has weights to (Bengio et al. 2004, here
with constraints): a node of the fit gets its own row, to the solver's residual.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from scalefair._docs import documented
from scalefair._entries import canonical, judged_later
from scalefair._groups import compared_attributes, known_groups
from scalefair.cluster._base import TEXTS, GraphClustering, refuse_negative
from scalefair.cluster._fair_assignment import squared_distances
from scalefair.cluster._kmeans import unit_rows
from scalefair.cluster._neighbors import new_neighbors, stored_neighbors
from scalefair.cluster._solvers import FairProblem
from scalefair.kernels import block_gram

Array = NDArray[np.float64]
Codes = Sequence[NDArray[np.int64]]  # of each attribute, the group of each node

# A row is divided by the eigenvalues: where the residual is more than this part of
# one, noise is. Residuals themselves are known to rounding.
_NOISE, _ROUNDING = 0.1, 1e-12


@dataclass(frozen=True)
class NystroemExtension:
    """What the rows and clusters of new nodes take besides the embedding."""

    scale: Array  # (n,): d^{-1/2}; 0 for nodes left out
    tau: float  # what the regularisation adds to every degree
    shifts: list[Array]  # of each attribute (h, k): what a group's rows are moved by
    centres: Array  # (c, k)
    clusters: NDArray[np.integer]  # (c,): the labels of the centres
    prices: Array | None  # (h, c): of fair labels

    @classmethod
    def of(
        cls, problem: FairProblem, H: Array, kept: NDArray[np.bool_], **clusters: Any
    ) -> NystroemExtension:
        """Take what is needed of a problem that is solved; a product with Q."""
        # Q Q^T M H = F S. All columns of F depend: S is the shortest that does it.
        Q, F = problem.Q, problem.F
        MQ = np.ascontiguousarray(problem.affinity @ Q)
        S: Any = np.linalg.lstsq(block_gram(Q, F), block_gram(MQ, H), rcond=None)[0]
        shifts: list[Array] = []
        stop = 0
        for codes in problem.group_codes.reshape(problem.n, -1).T:
            shares = np.bincount(codes) / problem.n
            start, stop = stop, stop + shares.size
            shifts.append(np.asarray(S[start:stop] - shares @ S[start:stop]))
        scale = np.zeros(kept.size)
        scale[kept] = problem.affinity.inv_sqrt_degrees
        return cls(scale, problem.affinity.tau, shifts, **clusters)

    def embed(
        self,
        multiply: Callable[[Array], Array],
        H: Array,
        eigenvalues: Array,
        codes: Codes,
    ) -> tuple[Array, Array]:
        """Rows that k-means takes, of nodes whose weights `multiply` a block; sums."""
        known = self.scale > 0
        R = H * self.scale[:, None]
        with judged_later():
            sums = multiply(np.column_stack([R, known]))
            rows, weights = sums[:, :-1], sums[:, -1]
            rows = rows + (self.tau / known.sum()) * R.sum(axis=0)
            for shift, own in zip(self.shifts, codes, strict=False):
                rows -= shift[own]
            degrees = np.where(weights + self.tau > 0, weights + self.tau, 1)
            rows /= degrees[:, None] * eigenvalues
        if not np.isfinite(rows).all():
            raise ValueError(
                "The rows of new nodes overflow: their weights have another unit than "
                "those of fit. Rescale them."
            )
        return (unit_rows(rows) if self.tau > 0 else rows), weights

    def assign(self, rows: Array, weights: Array, codes: Codes) -> NDArray[np.int32]:
        """Labels of the nearest centres, at the prices of the fair assignment."""
        costs = squared_distances(rows, self.centres)
        if self.prices is not None:
            if self.tau > 0:  # rows count by their degrees
                mean = np.mean(self.scale[self.scale > 0] ** -2.0)
                costs *= ((weights + self.tau) / mean)[:, None]
            start = 0
            for own, shift in zip(codes, self.shifts, strict=True):
                costs += self.prices[start + own]
                start += len(shift)
        labels: NDArray[np.int32] = self.clusters[costs.argmin(axis=1)].astype(np.int32)
        return labels


@documented(**TEXTS)
class PredictingClustering(GraphClustering):
    """Clustering whose embedding is extended to nodes that come after the fit."""

    assignment_: Any
    embedding_: Array
    eigenvalues_: Array
    residuals_: Array
    attributes: str
    groups_: Any
    affinity_matrix_: Any
    _extension: NystroemExtension | None
    _search: tuple[Any, Any]  # rows of the fit, and how their neighbours were found

    def predict(
        self, W: Any, *, sensitive_features: ArrayLike | None = None
    ) -> NDArray[np.int32]:
        """Clusters of new nodes, or new rows, without another fit.

        Nyström extension: a new node gets the row of the embedding that the eigenvalue
        equation gives it, its group's part in the constraint included, and goes to the
        nearest mean of a cluster; with ``assign_labels="fair"`` to the one with the
        least sum of squared distance and price (`FairAssignment.prices`). Nodes of the
        fit get their own rows again, to `tol`. Each new node is judged by itself, new
        ones' ties to each other do not count, and the clusters do not change.

        If new nodes are like those of the fit, groups have their shares in each
        cluster in expectation, within the tolerance that the fit met; nothing is
        promised of a single batch.

        Parameters
        ----------
        W : {array-like, sparse matrix or array} of shape (m, n) or (m, n_features)
            Weights >= 0 of the m new nodes to the n nodes of `fit`, in their order,
            those left out included; sparse or dense also if `fit` took an operator or
            a graph in parts. With another `affinity` than ``"precomputed"`` rows of
            features, or of distances to the n rows of `fit`; the neighbours among
            these have weight 1.
        sensitive_features : array-like of shape (m,) or (m, k), default=None
            Group of each new node, one of `groups_`. None, for
            ``assign_labels="kmeans"`` only: not known, and the part of the constraint
            is its mean over the population, which is 0.

        Returns
        -------
        ndarray of shape (m,), int32
            Clusters, as in `labels_`; -1, unless ``connected_components="raise"``, for
            nodes without weights to any clustered one, if no `regularization` links
            them.

        Raises
        ------
        ValueError
            If `W` does not fit, or has entries that are negative or not finite; a group
            is new, or groups are needed and missing; if a node has no weight to any
            clustered one, with ``connected_components="raise"`` and without
            `regularization`; if the solver was ``"admm"``, whose embedding is of no
            eigenvectors; or if an eigenvalue is so near 0 that its residual is more
            than a tenth of it.

        Examples
        --------
        >>> from sklearn.metrics import adjusted_rand_score
        >>> from scalefair.cluster import FairSpectralClustering
        >>> from scalefair.datasets import make_fair_sbm
        >>> data = make_fair_sbm(2000, n_clusters=4, n_groups=2, random_state=0)
        >>> W, groups = data.graph, data.sensitive_features
        >>> old, new = slice(0, 1800), slice(1800, 2000)
        >>> model = FairSpectralClustering(n_clusters=4, random_state=0)
        >>> model = model.fit(W[old, old], sensitive_features=groups[old])
        >>> labels = model.predict(W[new, old], sensitive_features=groups[new])
        >>> whole = model.fit_predict(W, sensitive_features=groups)
        >>> float(adjusted_rand_score(whole[new], labels))
        1.0
        """
        check_is_fitted(self)
        X = self._validate(W, reset=False)
        extension = self._extension
        if extension is None:
            raise ValueError(
                'solver="admm" gives no eigenvectors, from which the rows of new nodes '
                'could come. Fit with another solver, such as "auto".'
            )
        self._check_eigenvalues()
        codes = self._codes_of_new(sensitive_features, X.shape[0])
        rows, weights = extension.embed(
            self._weights_of_new(X), self.embedding_, self.eigenvalues_, codes
        )
        labels = extension.assign(rows, weights, codes)
        if self.connected_components != "largest":
            weights = weights + extension.tau
        lost = np.flatnonzero(~(weights > 0))
        if lost.size and self.connected_components == "raise":
            raise ValueError(
                f"{lost.size} of {labels.size} new nodes have no weight to any "
                f"clustered node (first: {lost[0]}): nothing says where they belong. "
                "Leave them out, or fit with regularization, which links all nodes, or "
                'with connected_components="all", which gives such nodes the label -1.'
            )
        labels[lost] = -1
        return labels

    def _codes_of_new(self, sensitive_features: Any, n: int) -> Codes:
        if sensitive_features is not None:
            compared = compared_attributes(
                sensitive_features, n, self.attributes, warn=False
            )
            known = known_groups(compared, self.groups_)
            return [own[x.codes] for own, x in zip(known, compared, strict=True)]
        if self.assignment_ is not None:
            raise ValueError(
                'Labels of assign_labels="fair" depend on groups: pass '
                "sensitive_features, the group of each new node."
            )
        return []

    def _weights_of_new(self, X: Any) -> Callable[[Array], Array]:
        """Return what multiplies by the affinities of new nodes to those of the fit."""
        if self.affinity.startswith("rbf"):
            return partial(self.affinity_matrix_.matmat_at, X)
        if self.affinity == "precomputed_nearest_neighbors":
            W = stored_neighbors(X, self.n_neighbors, of_fit=False)
        elif self.affinity == "nearest_neighbors":
            W = new_neighbors(X, self.n_neighbors, *self._search)
        else:
            W = canonical(sparse.csr_array(X))
            refuse_negative(W)
        return lambda block: np.asarray(W @ block)

    def _check_eigenvalues(self) -> None:
        """Refuse to divide by eigenvalues that are mostly noise."""
        noise = np.maximum(self.residuals_, _ROUNDING)
        small = noise > _NOISE * np.abs(self.eigenvalues_)
        if small.any():
            worst = int(
                (noise / np.maximum(np.abs(self.eigenvalues_), 1e-300)).argmax()
            )
            raise ValueError(
                f"{small.sum()} of {small.size} eigenvalues are too near 0 for new "
                f"nodes, whose rows are divided by them (eigenvalue "
                f"{self.eigenvalues_[worst]:.1e}, residual {self.residuals_[worst]:.1e}"
                "): lower tol or n_clusters."
            )
