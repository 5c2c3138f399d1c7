"""Spectral clustering under group fairness constraints."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.callback import CallbackSupportMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, Options, StrOptions

from scalefair._decorators import fit_context, with_callbacks
from scalefair._entries import validate_data
from scalefair._groups import encode_groups
from scalefair._random import check_random_state
from scalefair.cluster._affinities import (
    AFFINITIES,
    AffinityOptions,
    build_affinity,
)
from scalefair.cluster._fair_assignment import FairAssignment, fair_assignment
from scalefair.cluster._fairness import FairProblem, clustered_groups
from scalefair.cluster._graph import check_partitioned_affinity
from scalefair.cluster._kmeans import cluster_means, embedding_kmeans
from scalefair.cluster._progress import FitProgress
from scalefair.cluster._solvers import SOLVERS, SolverOptions, solve
from scalefair.streaming import is_partitioned

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
    solver : str, default="auto"
        How the eigenvectors of the embedding are computed. All but ``"admm"`` give
        the same subspace to `tol`.

        - ``"chebyshev"``: Chebyshev-filtered subspace iteration in blocks.
        - ``"lanczos"``: ARPACK on the projected operator, one vector at a time
          (s-FSC of [2]_).
        - ``"lobpcg"``: LOBPCG with an algebraic multigrid preconditioner, for
          grids and k-NN graphs; needs a stored graph.
        - ``"dual"``: the dual of [3]_ on the projected operator: one L-BFGS
          minimisation.
        - ``"admm"``: algorithm 1 of [3]_, which enforces :math:`F^T M H = 0`
          instead of :math:`F^T H = 0` (M shifted by 1.01): another problem, whose
          solution is not the fair optimum. For comparison.
        - ``"nullspace"``: dense, for up to a few thousand nodes (o-FSC of [1]_).
        - ``"auto"``: ``"nullspace"`` up to 100 nodes, or up to 26,754 when
          `n_clusters` exceeds a quarter of them; ``"lobpcg"`` on graphs whose
          neighbourhoods grow as on a line or in the plane (grids, road networks);
          else ``"chebyshev"``. The fastest on every graph measured.
    affinity : str, default="precomputed"
        What the data are and how they are compared.

        - ``"precomputed"``: `fit` takes the affinity matrix itself, or a
          LinearOperator that multiplies by it.
        - ``"nearest_neighbors"``: `fit` takes rows of features and builds their
          symmetric k-NN graph.
        - ``"rbf"``: Gaussian kernel ``exp(-gamma |x - y|^2)`` of rows of features,
          exact and never stored: every product computes it anew.
        - ``"rbf_nystroem"``: low-rank approximation of that kernel, for 10^5 rows
          and more; its error is estimated in `affinity_error_`.
    n_neighbors : int, default=10
        Neighbours of each row, itself not counted (``"nearest_neighbors"``).
    gamma : float or None, default=None
        Factor of the squared distances in the Gaussian kernel; None takes 1 over
        the number of features.
    n_landmarks : int, default=500
        Rank of ``"rbf_nystroem"``.
    tol : float, default=1e-4
        Residual norm, relative to :math:`|M| = 1`, at which an eigenpair is
        accepted. The clusters settle well before; 1e-3 is often enough.
    max_iter : int or None, default=None
        Most iterations of the solver; None takes its own number. These are 100
        filter sweeps of ``"chebyshev"``, 10 n restarts of ``"lanczos"``, 500 steps of
        ``"lobpcg"``, 1000 L-BFGS steps of ``"dual"`` and 10 iterations of ``"admm"``,
        as in [3]_, which is seldom enough for `tol`.
    dtype : {np.float64, np.float32}, default=np.float64
        Type in which ``"chebyshev"`` and ``"lanczos"`` iterate; the other solvers
        work in float64. With float32 it takes half the memory and about half the
        time, and ``"chebyshev"`` finishes in float64, so that the embedding is as
        accurate as `tol` says and exactly fair.
    n_init : int, default=10
        Attempts of k-means on all rows. The first start is deterministic (pivoted
        QR), half of the others are k-means++, whose centres are crossed, and the rest
        mend the best: on real networks as good as ten starts of scikit-learn's.
    assign_labels : {"kmeans", "fair"}, default="kmeans"
        How the embedding is rounded: by k-means, which can lose balance, or
        (``"fair"``) by k-means and then moves of nodes, at the least increase of its
        cost, until every cluster keeps each group's share within `balance_tolerance`
        (see `fair_assignment`).
    balance_tolerance : float, default=0.1
        Largest deviation of a group's share in a cluster, relative to its share in
        the population, for ``assign_labels="fair"``.
    connected_components : {"raise", "largest", "all"}, default="raise"
        What to do when the graph has several components: an error; cluster the
        largest one (all other nodes get the label -1); or cluster every node that
        has an edge. Isolated nodes cannot be clustered by a graph and always get
        the label -1, unless they are an error. The shares of the groups are those
        among the clustered nodes. Kernels, operators and graphs in parts are taken as
        connected; an isolated node of these is an error.
    random_state : int, RandomState instance or None, default=None
        For the starting block, k-means and landmarks. With the same value the
        embedding is the same to rounding (1e-12 of its largest entry) whatever the
        number of threads, and so are the labels of all nodes that are not between two
        clusters to that precision.

    Attributes
    ----------
    labels_ : ndarray of shape (n,), int
        Cluster of each node, -1 for nodes left out.
    embedding_ : ndarray of shape (n, n_clusters)
        H: orthonormal columns with :math:`F^T H = 0`; zero rows for nodes left
        out.
    eigenvalues_ : ndarray of shape (n_clusters,)
        Eigenvalues of M on the fair subspace, largest first; their sum is the
        maximised trace. With ``"admm"``, Ritz values of M on the span of H.
    residuals_ : ndarray of shape (n_clusters,)
        Residual norm of each eigenpair; with ``"admm"``, in the problem it solves.
    n_products_ : int
        Block products with M.
    n_iter_ : int
        Outer iterations of the solver.
    converged_ : bool
        Whether all residuals reached `tol`.
    fairness_violation_ : float
        :math:`|F^T H|_F`, zero up to rounding except with ``"admm"``.
    groups_ : ndarray
        Sorted groups among the clustered nodes.
    solver_ : str
        The solver that ran.
    history_ : dict of ndarray or None
        Record of ``"admm"``, one entry per iteration: see
        `scalefair.linalg.AdmmResult`. None for the other solvers.
    assignment_ : FairAssignment or None
        Cost, lower bound and moved nodes of ``assign_labels="fair"``.
    affinity_matrix_ : csr_array or LinearOperator of shape (n, n)
        The affinity used; for ``"nearest_neighbors"``, the graph built; for
        kernels, the operator.
    affinity_error_ : float or None
        Relative error of ``"rbf_nystroem"`` in the Frobenius norm, estimated from
        a sample of exact rows.
    n_features_in_ : int
        Number of columns of the input.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, when the input has names that are strings.

    See Also
    --------
    fair_assignment : The rounding of ``assign_labels="fair"`` by itself.
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "solver": [StrOptions({"auto", *SOLVERS})],
        "affinity": [StrOptions(set(AFFINITIES))],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "gamma": [Interval(Real, 0, None, closed="neither"), None],
        "n_landmarks": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "dtype": [
            Options(type, {np.float32, np.float64}),
            StrOptions({"float32", "float64"}),
        ],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "assign_labels": [StrOptions({"kmeans", "fair"})],
        "balance_tolerance": [Interval(Real, 0, None, closed="left")],
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
        gamma: float | None = None,
        n_landmarks: int = 500,
        tol: float = 1e-4,
        max_iter: int | None = None,
        dtype: Any = np.float64,
        n_init: int = 10,
        assign_labels: str = "kmeans",
        balance_tolerance: float = 0.1,
        connected_components: str = "raise",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.solver = solver
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.gamma = gamma
        self.n_landmarks = n_landmarks
        self.tol = tol
        self.max_iter = max_iter
        self.dtype = dtype
        self.n_init = n_init
        self.assign_labels = assign_labels
        self.balance_tolerance = balance_tolerance
        self.connected_components = connected_components
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        precomputed = self.affinity == "precomputed"
        tags.input_tags.sparse = self.affinity in ("precomputed", "nearest_neighbors")
        tags.input_tags.pairwise = precomputed
        tags.input_tags.positive_only = precomputed
        return tags

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, W: Any, y: Any = None, *, sensitive_features: ArrayLike
    ) -> FairSpectralClustering:
        """Cluster the nodes of a graph, or rows of features.

        Parameters
        ----------
        W : {array-like, sparse matrix or array} of shape (n, n) or (n, n_features)
            Symmetric affinity with entries >= 0, in any SciPy sparse format, dense,
            or a LinearOperator with positive row sums; with another `affinity` than
            ``"precomputed"`` rows of features. A graph larger than the memory may come
            in blocks of rows, with all n columns: a Dask collection of CSR blocks or a
            reader, see `scalefair.operators.PartitionedMatrix`.
        y : None
            Ignored; there for the scikit-learn interface.
        sensitive_features : array-like, Dask array or Dask series of shape (n,)
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
            components and ``connected_components="raise"``; if no assignment meets
            `balance_tolerance` (the message names one that can be met).

        Warns
        -----
        ConvergenceWarning
            If the solver stops before all residuals are below `tol`.
        """
        progress = FitProgress(self, W)
        W = self._check_input(W)
        groups, all_codes = encode_groups(sensitive_features, W.shape[0])
        rng = check_random_state(self.random_state)
        with progress.task("affinity"):
            affinity = build_affinity(
                self.affinity,
                W,
                AffinityOptions(
                    self.n_neighbors,
                    self.gamma,
                    self.n_landmarks,
                    self.connected_components,
                    rng,
                ),
            )
        kept = affinity.kept
        self.affinity_matrix_ = affinity.matrix
        self.affinity_error_ = affinity.error
        self.groups_, codes = clustered_groups(groups, all_codes, kept)
        self._check_sizes(codes.size)

        problem = FairProblem(affinity.normalized, codes, self.n_clusters)
        with progress.task("eigenvectors", self.n_clusters) as callback:
            options = SolverOptions(self.tol, self.max_iter, self.dtype, rng, callback)
            self.solver_, result = solve(self.solver, problem, options)
        if not result.converged:
            warnings.warn(
                f'solver="{self.solver_}" did not converge to tol={self.tol:g}. '
                f"{result.message}",
                ConvergenceWarning,
                stacklevel=4,
            )
        with progress.task("labels"):
            labels = self._round(problem, result.vectors, rng)
        self.labels_ = np.full(kept.size, -1, dtype=labels.dtype)
        self.labels_[kept] = labels
        self.embedding_ = np.zeros((kept.size, self.n_clusters))
        self.embedding_[kept] = result.vectors
        self.eigenvalues_ = result.values
        self.residuals_ = result.residual_norms
        self.n_products_ = result.n_products
        self.n_iter_ = result.n_iter
        self.converged_ = result.converged
        self.fairness_violation_ = problem.violation(result.vectors)
        self.history_ = result.history
        progress.close()
        return self

    def _check_input(self, W: Any) -> Any:
        if isinstance(W, LinearOperator):
            if self.affinity != "precomputed":
                raise ValueError(
                    f'affinity="{self.affinity}" takes rows of features, got a '
                    'LinearOperator: use affinity="precomputed".'
                )
            self._set_n_features(W)
            return W
        if is_partitioned(W):
            if self.affinity != "precomputed":
                raise ValueError(
                    f'affinity="{self.affinity}" takes rows of features in memory; '
                    'graphs in parts go with affinity="precomputed".'
                )
            graph = check_partitioned_affinity(W)
            self._set_n_features(graph)
            return graph
        return validate_data(
            self,
            W,
            accept_sparse="csr" if self.__sklearn_tags__().input_tags.sparse else False,
            dtype=[np.float64, np.float32],
            ensure_min_samples=2,
            estimator=self,
        )

    def _set_n_features(self, W: LinearOperator) -> None:
        """Set what `validate_data` sets, for input without names."""
        self.n_features_in_ = W.shape[1]
        if hasattr(self, "feature_names_in_"):  # of an earlier fit
            del self.feature_names_in_

    def _round(
        self, problem: FairProblem, H: NDArray[np.float64], rng: np.random.RandomState
    ) -> NDArray[np.int32]:
        """Labels from the rows of D^{-1/2} H."""
        rows = H * problem.affinity.inv_sqrt_degrees[:, None]
        labels = embedding_kmeans(
            rows, self.n_clusters, n_init=self.n_init, random_state=rng
        )
        self.assignment_: FairAssignment | None = None
        if self.assign_labels == "fair":
            try:
                self.assignment_ = fair_assignment(
                    rows,
                    cluster_means(rows, labels),
                    sensitive_features=problem.group_codes,
                    tolerance=self.balance_tolerance,
                )
            except ValueError as error:  # it names its own parameter
                message = str(error).replace(" tolerance=", " balance_tolerance=")
                raise ValueError(message) from error
            labels = self.assignment_.labels
        return labels

    def _check_sizes(self, n: int) -> None:
        n_groups = self.groups_.size
        most = min(n - 1, n - n_groups + 1)
        if self.n_clusters > most:
            raise ValueError(
                f"n_clusters={self.n_clusters} must be less than the number of "
                f"clustered nodes, n_samples={n}, and {n_groups} groups leave at most "
                f"{most} fair directions: choose n_clusters <= {most}."
            )
