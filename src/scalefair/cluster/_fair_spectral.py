"""Spectral clustering under group fairness constraints."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, ClusterMixin, _fit_context
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.validation import validate_data

from scalefair._groups import encode_groups
from scalefair._random import check_random_state
from scalefair.cluster._fairness import constraint_basis, fairness_violation
from scalefair.cluster._graph import (
    check_affinity,
    choose_nodes,
    nearest_neighbors_affinity,
)
from scalefair.cluster._kmeans import embedding_kmeans
from scalefair.cluster._progress import FitProgress
from scalefair.cluster._solvers import (
    choose_solver,
    nullspace_embedding,
    solve_chebyshev,
    solve_lanczos,
)
from scalefair.linalg import EigenResult
from scalefair.operators import NormalizedAffinity

__all__ = ["FairSpectralClustering"]


class FairSpectralClustering(CallbackSupportMixin, ClusterMixin, BaseEstimator):
    r"""Spectral clustering in which every cluster mirrors the population.

    The embedding maximises :math:`\mathrm{Tr}(H^T M H)` with
    :math:`M = D^{-1/2} W D^{-1/2}` subject to :math:`H^T H = I` and
    :math:`F^T H = 0`, :math:`F = D^{-1/2} (G - 1 z^T)`, where :math:`G` indicates
    the groups and :math:`z` holds their shares; the clusters are those of k-means
    on the rows of :math:`D^{-1/2} H`. If the rows took exactly `n_clusters` values,
    every cluster would hold each group in its share of the population; k-means
    rounds them, so the balance reached is to be measured
    (:func:`scalefair.metrics.balance_score`). Matrices are multiplied by, never
    formed: memory and time per product grow with the stored entries of `W`.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters and of eigenvectors.
    solver : {"auto", "nullspace", "lanczos", "chebyshev"}, default="auto"
        How the embedding is computed; all give the same subspace to `tol`.

        - ``"chebyshev"``: Chebyshev-filtered subspace iteration in blocks.
        - ``"lanczos"``: ARPACK on the projected operator, one vector at a time
          (s-FSC of [2]_).
        - ``"nullspace"``: dense, for up to a few thousand nodes (o-FSC of [1]_).
        - ``"auto"``: ``"nullspace"`` up to 100 nodes or when `n_clusters` exceeds
          a quarter of the nodes, else ``"chebyshev"``, the fastest on every graph
          measured.
    affinity : {"precomputed", "nearest_neighbors"}, default="precomputed"
        ``"precomputed"``: `fit` takes the affinity matrix itself.
        ``"nearest_neighbors"``: `fit` takes rows of features and builds their
        symmetric k-NN graph.
    n_neighbors : int, default=10
        Neighbours of each row, itself not counted.
    tol : float, default=1e-4
        Residual norm, relative to :math:`|M| = 1`, at which an eigenpair is
        accepted. The clusters settle well before; 1e-3 is often enough.
    max_iter : int or None, default=None
        Most filter sweeps of ``"chebyshev"`` (None: 100) or restarts of
        ``"lanczos"`` (None: 10 n).
    dtype : {np.float64, np.float32}, default=np.float64
        Type the iteration works in. With float32 it takes half the memory and
        about half the time, and ``"chebyshev"`` finishes in float64, so that the
        embedding is as accurate as `tol` says and exactly fair.
    n_init : int, default=10
        Starts of k-means; the first is deterministic (pivoted QR), the others are
        k-means++.
    connected_components : {"raise", "largest", "all"}, default="raise"
        What to do when the graph has several components: an error; cluster the
        largest one (all other nodes get the label -1); or cluster every node that
        has an edge. Isolated nodes cannot be clustered by a graph and always get
        the label -1, unless they are an error. The shares of the groups are those
        among the clustered nodes.
    random_state : int, RandomState instance or None, default=None
        For the starting block and k-means. With the same value the result is the
        same whatever the number of threads.

    Attributes
    ----------
    labels_ : ndarray of shape (n,), int
        Cluster of each node, -1 for nodes left out.
    embedding_ : ndarray of shape (n, n_clusters)
        H: orthonormal columns with :math:`F^T H = 0`; zero rows for nodes left
        out.
    eigenvalues_ : ndarray of shape (n_clusters,)
        Eigenvalues of M on the fair subspace, largest first; their sum is the
        maximised trace.
    residuals_ : ndarray of shape (n_clusters,)
        Residual norm of each eigenpair.
    n_products_ : int
        Block products with M.
    n_iter_ : int
        Outer iterations of the solver.
    converged_ : bool
        Whether all residuals reached `tol`.
    fairness_violation_ : float
        :math:`|F^T H|_F`, zero up to rounding.
    groups_ : ndarray
        Sorted groups among the clustered nodes.
    solver_ : str
        The solver that ran.
    affinity_matrix_ : csr_array of shape (n, n)
        The affinity used; for ``"nearest_neighbors"``, the graph built.
    n_features_in_ : int
        Number of columns of the input.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, when the input has names that are strings.

    See Also
    --------
    scalefair.metrics.balance_score : How balanced the clusters are.
    scalefair.metrics.normalized_cut_score : What the clustering costs.

    Notes
    -----
    Memory beyond `W`: 8 (float64) or 12 (float32) bytes per stored entry for the
    scaled affinity and about ``24 n k`` bytes for the iteration.

    References
    ----------
    .. [1] Kleindessner, Samadi, Awasthi, Morgenstern (2019), "Guarantees for
       Spectral Clustering with Fairness Constraints", ICML.
    .. [2] Wang, Lu, Davidson, Bai (2023), "Scalable Spectral Clustering with Group
       Fairness Constraints", AISTATS.
    .. [3] Tonin, Lambert, Suykens, Cevher (2025), "Accelerating Spectral Clustering
       under Fairness Constraints", ICML.

    Examples
    --------
    >>> from scalefair.cluster import FairSpectralClustering
    >>> from scalefair.datasets import make_fair_sbm
    >>> from scalefair.metrics import balance_score
    >>> data = make_fair_sbm(
    ...     2000, n_clusters=4, n_groups=2, average_degree=40, random_state=0
    ... )
    >>> model = FairSpectralClustering(n_clusters=4, random_state=0)
    >>> model = model.fit(data.graph, sensitive_features=data.sensitive_features)
    >>> balance_score(
    ...     model.labels_, sensitive_features=data.sensitive_features
    ... ) > 0.95
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "solver": [StrOptions({"auto", "nullspace", "lanczos", "chebyshev"})],
        "affinity": [StrOptions({"precomputed", "nearest_neighbors"})],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "dtype": [
            Options(type, {np.float32, np.float64}),
            StrOptions({"float32", "float64"}),
        ],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "connected_components": [StrOptions({"raise", "largest", "all"})],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        solver: str = "auto",
        affinity: str = "precomputed",
        n_neighbors: int = 10,
        tol: float = 1e-4,
        max_iter: int | None = None,
        dtype: Any = np.float64,
        n_init: int = 10,
        connected_components: str = "raise",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.solver = solver
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.tol = tol
        self.max_iter = max_iter
        self.dtype = dtype
        self.n_init = n_init
        self.connected_components = connected_components
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        precomputed = self.affinity == "precomputed"
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = precomputed
        tags.input_tags.positive_only = precomputed
        return tags

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, W: Any, y: Any = None, *, sensitive_features: ArrayLike
    ) -> FairSpectralClustering:
        """Cluster the nodes of a graph, or rows of features.

        Parameters
        ----------
        W : {array-like, sparse matrix or array} of shape (n, n) or (n, n_features)
            Symmetric affinity with entries >= 0, in any SciPy sparse format or
            dense; with ``affinity="nearest_neighbors"`` rows of features.
        y : None
            Ignored; there for the scikit-learn interface.
        sensitive_features : array-like of shape (n,)
            Group of each node: numbers, strings or booleans, none missing, at
            least two different ones.

        Returns
        -------
        FairSpectralClustering
            The fitted estimator.

        Raises
        ------
        ValueError
            If `W` is not square, not symmetric, or has negative or non-finite
            entries; if there are fewer than two groups among the clustered nodes
            or not more nodes than ``n_clusters``; if the graph has several
            components and ``connected_components="raise"``.

        Warns
        -----
        ConvergenceWarning
            If the solver stops before all residuals are below `tol`.
        """
        progress = FitProgress(self, W)
        W = validate_data(
            self,
            W,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_min_samples=2,
            estimator=self,
        )
        _, all_codes = encode_groups(sensitive_features, W.shape[0])
        with progress.task("affinity"):
            if self.affinity == "precomputed":
                W = check_affinity(W)
            else:
                W = nearest_neighbors_affinity(W, self.n_neighbors)
            kept = choose_nodes(W, self.connected_components)
        self.affinity_matrix_ = W
        if not kept.all():
            W = sparse.csr_array(W[kept][:, kept])
        self.groups_ = np.unique(np.asarray(sensitive_features)[kept])
        _, codes = np.unique(all_codes[kept], return_inverse=True)
        n_groups = int(codes.max()) + 1
        self._check_sizes(W.shape[0], n_groups)

        rng = check_random_state(self.random_state)
        affinity = NormalizedAffinity(W)
        with progress.task("eigenvectors", self.n_clusters) as eigenvectors:
            result = self._embed(W, affinity, codes, n_groups, rng, eigenvectors)
        if not result.converged:
            warnings.warn(
                f'solver="{self.solver_}" did not converge to tol={self.tol:g}. '
                f"{result.message}",
                ConvergenceWarning,
                stacklevel=2,
            )
        H = result.vectors
        with progress.task("k-means"):
            labels = embedding_kmeans(
                H * affinity.inv_sqrt_degrees[:, None],
                self.n_clusters,
                n_init=self.n_init,
                random_state=rng,
            )
        self.labels_ = np.full(kept.size, -1, dtype=labels.dtype)
        self.labels_[kept] = labels
        self.embedding_ = np.zeros((kept.size, self.n_clusters))
        self.embedding_[kept] = H
        self.eigenvalues_ = result.values
        self.residuals_ = result.residual_norms
        self.n_products_ = result.n_products
        self.n_iter_ = result.n_iter
        self.converged_ = result.converged
        self.fairness_violation_ = fairness_violation(
            H, codes, n_groups, affinity.inv_sqrt_degrees
        )
        progress.close()
        return self

    def _check_sizes(self, n: int, n_groups: int) -> None:
        if n_groups < 2:
            raise ValueError(
                "sensitive_features has fewer than two groups among the clustered "
                f"nodes (only {self.groups_[0]!r}): fairness compares groups. "
                "For one group use sklearn.cluster.SpectralClustering."
            )
        most = min(n - 1, n - n_groups + 1)
        if self.n_clusters > most:
            raise ValueError(
                f"n_clusters={self.n_clusters} must be less than the number of "
                f"clustered nodes, n_samples={n}, and {n_groups} groups leave at most "
                f"{most} fair directions: choose n_clusters <= {most}."
            )

    def _embed(
        self,
        W: sparse.csr_array,
        affinity: NormalizedAffinity,
        codes: np.ndarray,
        n_groups: int,
        rng: np.random.RandomState,
        callback: Any,
    ) -> EigenResult:
        Q = constraint_basis(codes, n_groups, affinity.inv_sqrt_degrees)
        k = self.n_clusters
        self.solver_ = self.solver
        if self.solver == "auto":
            self.solver_ = choose_solver(W.shape[0], k)
        if self.solver_ == "nullspace":
            return nullspace_embedding(affinity, Q, k)
        solve = solve_lanczos if self.solver_ == "lanczos" else solve_chebyshev
        return solve(
            W,
            affinity,
            Q,
            k,
            dtype=self.dtype,
            tol=self.tol,
            max_iter=self.max_iter,
            rng=rng,
            callback=callback,
        )
