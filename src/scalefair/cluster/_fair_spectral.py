"""Spectral clustering under group fairness constraints."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import HasMethods, Interval, Options, StrOptions
from sklearn.utils.validation import check_is_fitted

from scalefair._decorators import (
    CallbackSupportMixin,
    checked_call,
    fit_context,
    with_callbacks,
)
from scalefair._docs import documented
from scalefair._entries import check_random_state, graph_as_matrix
from scalefair._groups import fitted_groups
from scalefair._messages import warn_user
from scalefair.cluster._assignment_problem import MAX_GAP
from scalefair.cluster._base import (
    TEXTS,
    FitProgress,
    GraphClustering,
    check_affinity_input,
    cluster_balances,
    clustered_groups,
    groups_and_weights,
    normalized_affinity,
    submatrix,
    warn_of_balance,
    warn_of_sizes,
)
from scalefair.cluster._fair_assignment import FairAssignment, assign_rows
from scalefair.cluster._kmeans import cluster_means, embedding_kmeans, embedding_rows
from scalefair.cluster._new_nodes import (
    ClusterCentres,
    NystroemExtension,
    predict_labels,
)
from scalefair.cluster._refinement import RefinedPartition, refine_labels
from scalefair.cluster._share_bounds import smallest_size
from scalefair.cluster._solvers import SOLVERS, FairProblem, SolverOptions, solve

Array = NDArray[np.float64]


@documented(**TEXTS)
class FairSpectralClustering(CallbackSupportMixin, GraphClustering):
    r"""Spectral clustering in which every cluster mirrors the population.

    The embedding maximises :math:`\mathrm{Tr}(H^T M H)` with
    :math:`M = D^{-1/2} W D^{-1/2}` subject to :math:`H^T H = I` and
    :math:`F^T H = 0`, :math:`F = D^{-1/2} (G - 1 z^T)`, where :math:`G` indicates
    the groups and :math:`z` holds their shares (of all attributes side by side with
    ``attributes="each"``). k-means on the rows of :math:`D^{-1/2} H`, at unit length
    and weighted by the degrees, gives centres; every node goes to one such that each
    cluster holds each group in its share of the population, to `balance_tolerance` and
    one node (`fair_assignment`); and the labels are refined on the graph, with the
    shares kept (`refine_partition`). The balance is measured in `balance_`.

    ``regularization=0, assign_labels="kmeans"`` is the method of the papers, whose
    clusters are often handfuls of nodes, and seldom balanced.
    Memory beyond `W`: 8 (float64) or 12 (float32) bytes per stored entry for M, none if
    all stored weights are equal, and about ``50 n k`` bytes for the iteration.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters and of eigenvectors.
    solver : str, default="auto"
        How the eigenvectors are computed; all but ``"admm"`` agree to `tol`.

        - ``"chebyshev"``: Chebyshev-filtered subspace iteration in blocks.
        - ``"lanczos"``: thick-restart Lanczos, one vector at a time (s-FSC of [2]_).
        - ``"lobpcg"``: LOBPCG, preconditioned by multigrid; needs a stored graph.
        - ``"dual"``: L-BFGS on the dual of [3]_ for the projected operator.
        - ``"admm"``: algorithm 1 of [3]_, which solves another problem: it enforces
          :math:`F^T M H = 0` (M shifted by 1.01).
        - ``"nullspace"``: dense, for up to a few thousand nodes (o-FSC of [1]_).
        - ``"auto"``: the fastest measured, or nearly so: ``"nullspace"`` up to 100
          nodes, or up to 26,754 when `n_clusters` exceeds a quarter of them;
          ``"lobpcg"`` on graphs that grow as lines or planes do (grids, road
          networks); else ``"chebyshev"``.
    affinity : str, default="precomputed"
        What the data are and how they are compared.

        - ``"precomputed"``: `fit` takes the affinity matrix itself, or a
          LinearOperator that multiplies by it; otherwise rows of features.
        - ``"nearest_neighbors"``: their symmetric k-NN graph.
        - ``"precomputed_nearest_neighbors"``: `fit` takes a sparse graph of distances,
          as `sklearn.neighbors.KNeighborsTransformer` makes it, of which the
          `n_neighbors` nearest of each row count.
        - ``"rbf"``: Gaussian kernel ``exp(-gamma |x - y|^2)``, exact and never
          stored: every product computes it anew.
        - ``"rbf_nystroem"``: low-rank approximation of that, for 10^5 rows and more.
    n_neighbors : int, default=10
        Neighbours of each row, itself not counted.
    neighbors : {"auto", "exact", "approximate"} or transformer, default="auto"
        How neighbours are found (``"nearest_neighbors"``).

        - ``"exact"``: by scikit-learn; the time grows with the square of the rows.
        - ``"approximate"``: of dense rows by faiss (extra "neighbors"). It searches
          as many inverted lists as a recall of 0.99 needs; exact if these are half
          of all. Memory: 8 bytes per value of the rows and 12 per neighbour.
        - ``"auto"``: approximate for 20,000 dense rows or more, where faiss is
          installed and the system is not macOS.
        - a transformer whose `fit_transform` makes a sparse graph, such as
          `sklearn.neighbors.RadiusNeighborsTransformer`: all neighbours that it
          stores, whatever `n_neighbors` is.
    gamma : float or None, default=None
        Factor in the Gaussian kernel; None takes 1 over the number of features.
    n_landmarks : int, default=500
        Rank of ``"rbf_nystroem"``.
    regularization : float, default=0.1
        tau as a multiple of the mean degree: tau / n is added to every entry of W, and
        so tau to every degree, in M and F; and k-means takes the rows at unit length,
        as in [4]_, with weights d + tau, those of the normalised cut [6]_. 0 is the
        method of the papers, which on sparse networks cuts off handfuls of nodes on a
        thread; of 0.05, 0.1, 0.3 and 1 the default cut best with few of these [5]_.
        Every node is then clustered. A product takes one more pass over its block.
    tol : float, default=1e-4
        Residual norm at which an eigenpair is accepted (:math:`|M| = 1`). The
        clusters settle well before; 1e-3 is often enough.
    max_iter : int or None, default=None
        Most iterations of the solver. None: 100 filter sweeps of ``"chebyshev"``,
        10 n restarts of ``"lanczos"``, 500 steps of ``"lobpcg"``, 1000 of ``"dual"``
        and 10 of ``"admm"``, as in [3]_, which is seldom enough for `tol`.
    dtype : {"auto", np.float64, np.float32}, default="auto"
        Type in which ``"chebyshev"`` iterates and ``"lanczos"`` multiplies. float32
        takes about half the memory; ``"chebyshev"`` still finishes in float64, and
        ``"auto"`` has it iterate so on stored graphs of 20,000 nodes or more if `tol`
        is at least 2e-5.
    n_init : int, default=10
        Attempts of k-means on all rows: starts, and attempts to mend the best.
    %(attributes)s
    assign_labels : {"fair", "kmeans"}, default="fair"
        How the embedding is rounded: by k-means and then `fair_assignment`, or by
        k-means alone, which loses balance.
    balance_tolerance : float, default=0.1
        Largest relative deviation of a group's share in a cluster from that in the
        population, up to one node, for ``assign_labels="fair"``.
    refine : bool, default=True
        Whether fair labels of a stored graph are refined by `refine_partition`, which
        lowers the normalised cut and keeps the shares within the tolerance.
    %(connected_components)s
        All else than stored graphs is taken as connected, and so is every graph with
        `regularization`, but for ``"largest"``.
    random_state : int, RandomState instance or None, default=None
        For the starting block, k-means and landmarks. The same integer gives the same
        embedding to rounding (1e-12 of its largest entry) with any number of threads.

    Attributes
    ----------
    %(labels_)s
    %(embedding_)s
    eigenvalues_ : ndarray of shape (n_clusters,)
        Eigenvalues of M on the fair subspace, largest first; with ``"admm"``, Ritz
        values of M on the span of H.
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
    %(groups_each_)s
    solver_ : str
        The solver that ran.
    history_ : dict of ndarray or None
        Record of ``"admm"`` (`scalefair.linalg.AdmmResult`); None for other solvers.
    assignment_ : FairAssignment or None
        Cost, bound and moved nodes of ``assign_labels="fair"``, before refinement; its
        labels, and those of `refinement_`, are of the clustered nodes.
    refinement_ : RefinedPartition or None
        Normalised cut before and after the refinement; None if there was none.
    balance_ : ndarray of shape (n_clusters,)
        Balance of each cluster (:func:`scalefair.metrics.balance_score`), between 0
        and 1, of the weights of groups where nodes have some; the smallest over
        attributes with ``attributes="each"``; shorter if k-means left a cluster without
        nodes.
    minimum_balance_ : float
        The smallest of these.
    affinity_matrix_ : csr_array or LinearOperator of shape (n, n)
        The affinity used: the one given, the graph built, or the kernel; without
        what `regularization` adds.
    neighbors_ : {"exact", "approximate", "transformer"} or None
        How neighbours were found; None for other affinities.
    neighbors_recall_ : float or None
        Share of the neighbours that are no farther than the exact ones, 1 for
        ``"exact"``; else estimated from 1,000 rows. None for transformers by other
        than Euclidean distances.
    affinity_error_ : float or None
        Estimated relative error of ``"rbf_nystroem"`` in the Frobenius norm.
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    fair_assignment : The rounding of ``assign_labels="fair"`` by itself.
    refine_partition : The refinement by itself.
    %(scores)s

    References
    ----------
    .. [1] Kleindessner, Samadi, Awasthi, Morgenstern (2019), "Guarantees for
       Spectral Clustering with Fairness Constraints", ICML.
    .. [2] Wang, Lu, Davidson, Bai (2023), "Scalable Spectral Clustering with Group
       Fairness Constraints", AISTATS.
    .. [3] Tonin, Lambert, Suykens, Cevher (2025), "Accelerating Spectral Clustering
       under Fairness Constraints", ICML.
    .. [4] Qin, Rohe (2013), "Regularized Spectral Clustering under the Degree-Corrected
       Stochastic Blockmodel", NeurIPS.
    .. [5] Zhang, Rohe (2018), "Understanding Regularized Spectral Clustering via Graph
       Conductance", NeurIPS.
    .. [6] Dhillon, Guan, Kulis (2004), "Kernel k-means, Spectral Clustering and
       Normalized Cuts", KDD.

    Examples
    --------
    >>> from scalefair.cluster import FairSpectralClustering
    >>> from scalefair.datasets import make_fair_sbm
    >>> data = make_fair_sbm(2000, n_clusters=4, n_groups=2, random_state=0)
    >>> groups = data.sensitive_features
    >>> model = FairSpectralClustering(n_clusters=4, random_state=0)
    >>> labels = model.fit_predict(data.graph, sensitive_features=groups)
    >>> model.minimum_balance_ > 0.9
    True
    """

    affinity_matrix_: Any
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GraphClustering._parameter_constraints,
        "solver": [StrOptions({"auto", *SOLVERS})],
        "affinity": [
            StrOptions(
                {
                    "precomputed",
                    "nearest_neighbors",
                    "precomputed_nearest_neighbors",
                    "rbf",
                    "rbf_nystroem",
                }
            )
        ],
        "neighbors": [
            StrOptions({"auto", "exact", "approximate"}),
            HasMethods("fit_transform"),
        ],
        "gamma": [Interval(Real, 0, None, closed="neither"), None],
        "n_landmarks": [Interval(Integral, 1, None, closed="left")],
        "regularization": [Interval(Real, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "dtype": [
            Options(type, {np.float32, np.float64}),
            StrOptions({"auto", "float32", "float64"}),
        ],
        "attributes": [StrOptions({"joint", "each"})],
        "assign_labels": [StrOptions({"kmeans", "fair"})],
        "balance_tolerance": [Interval(Real, 0, None, closed="left")],
        "refine": ["boolean"],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        solver: str = "auto",
        affinity: str = "precomputed",
        n_neighbors: int = 10,
        neighbors: Any = "auto",
        gamma: float | None = None,
        n_landmarks: int = 500,
        regularization: float = 0.1,
        tol: float = 1e-4,
        max_iter: int | None = None,
        dtype: Any = "auto",
        n_init: int = 10,
        attributes: str = "joint",
        assign_labels: str = "fair",
        balance_tolerance: float = 0.1,
        refine: bool = True,
        connected_components: str = "raise",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.solver = solver
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.neighbors = neighbors
        self.gamma = gamma
        self.n_landmarks = n_landmarks
        self.regularization = regularization
        self.tol = tol
        self.max_iter = max_iter
        self.dtype = dtype
        self.n_init = n_init
        self.attributes = attributes
        self.assign_labels = assign_labels
        self.balance_tolerance = balance_tolerance
        self.refine = refine
        self.connected_components = connected_components
        self.random_state = random_state

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        W: Any,
        y: Any = None,
        *,
        sensitive_features: ArrayLike | None = None,
        group_probabilities: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> FairSpectralClustering:
        r"""Cluster the nodes of a graph, or rows of features.

        Parameters
        ----------
        W : {array-like, sparse matrix or array} of shape (n, n) or (n, n_features)
            Symmetric affinity with entries >= 0, in any SciPy sparse format, dense,
            or a LinearOperator with positive row sums; or in blocks of rows, a Dask
            collection or a reader (`scalefair.operators.PartitionedMatrix`); or an
            undirected graph of NetworkX or igraph, weighted by "weight" if its edges
            have that. With another `affinity` than ``"precomputed"`` rows of features.
        %(y_ignored)s
        sensitive_features : array-like of shape (n,) or (n, k), default=None
            Group of each node, at least two: numbers, strings or booleans; of k columns
            see `attributes`. A Dask array, series or data frame, too. For a graph of
            NetworkX also a dict of nodes.
        %(group_probabilities)s
            F is :math:`D^{-1/2} (P - \rho z^T)`, :math:`\rho` 1 where something is
            known; expected shares are bounded.
        sample_weight : array-like of shape (n,), default=None
            How many nodes each one stands for, >= 0, not all 0 in a group: so many
            copies, which keep its ties and are tied to each other as it is to itself.
            Cut, degrees and shares are weighted, and fair labels are within the bounds
            as in `fair_assignment`. Nodes of weight 0 get the label -1; `predict` has
            one for them. Of rows of features weights act on the graph or kernel, which
            is built without them: repeated rows would be each other's neighbours.

        Returns
        -------
        FairSpectralClustering
            The fitted estimator.

        Raises
        ------
        TypeError
            Unless there are either groups or probabilities.
        %(bad_graph)s
            If `neighbors` is given with an affinity that has no use for it, or a
            graph of distances has fewer neighbours than `n_neighbors`.
        ImportError
            If ``neighbors="approximate"`` and faiss is not installed.

        Warns
        -----
        ConvergenceWarning
            If the solver stops before all residuals are below `tol`.
        UserWarning
            If a cluster has less than a tenth of the average, or more than 90 % of all
            nodes; or if one of k-means, which by chance should hold ten of each group,
            has less than a fifth of the population's balance.
        """
        progress = FitProgress(self, W)
        if self.affinity == "precomputed":
            W, sensitive_features = graph_as_matrix(
                W,
                sensitive_features,
                group_probabilities=group_probabilities,
                sample_weight=sample_weight,
            )
        W = check_affinity_input(self, W)
        membership, weights = groups_and_weights(
            sensitive_features,
            group_probabilities,
            W.shape[0],
            self.attributes,
            sample_weight,
        )
        rng = check_random_state(self.random_state)
        # Step 1: M for the clustered nodes (`kept` is a mask of all nodes), and their
        # groups. These get new numbers, as a group may have lost all its nodes.
        with progress.task("affinity"):
            normalized, kept = normalized_affinity(self, W, rng, weights)
        membership = clustered_groups(membership, kept)
        self.groups_ = fitted_groups(membership.compared)
        groups = membership.columns(int(kept.sum()))
        problem = FairProblem(normalized, groups, self.n_clusters)
        self._check_n_clusters(problem)
        # Step 2: the fair embedding H, (n_kept, n_clusters).
        with progress.task("eigenvectors", self.n_clusters) as callback:
            options = SolverOptions(self.tol, self.max_iter, self.dtype, rng, callback)
            self.solver_, result = solve(self.solver, problem, options)
        if not result.converged:
            warn_user(
                f'solver="{self.solver_}" did not converge to tol={self.tol:g}. '
                f"{result.message}",
                ConvergenceWarning,
            )
        # Step 3: round the embedding to labels.
        H = result.vectors
        with progress.task("labels"):
            labels, centres = self._assign(problem, H, kept, rng)
        self._set_clusters(kept, labels, H)
        self.eigenvalues_ = result.values
        self.residuals_ = result.residual_norms
        self.n_products_ = result.n_products
        self.n_iter_ = result.n_iter
        self.converged_ = result.converged
        self.fairness_violation_ = problem.violation(H)
        self.history_ = result.history
        # Step 4: what `predict` needs. It takes eigenvectors, "admm" gives none.
        self._extension = None
        if self.solver_ != "admm":
            self._extension = NystroemExtension.of(problem, H, kept, centres)
        # Step 5: balance of each attribute (row) in each cluster (column).
        balance = cluster_balances(groups, labels, problem.weights)
        self.balance_ = balance.min(axis=0)
        self.minimum_balance_ = float(balance.min())
        warn_of_sizes(labels, self.n_clusters, self.regularization, problem.weights)
        # Imbalance is a surprise only if H solves the fair problem: not before
        # convergence, which has its own warning, and not by "admm".
        is_fair_embedding = self.converged_ and self.solver_ != "admm"
        if self.assign_labels == "kmeans" and is_fair_embedding:
            warn_of_balance(labels, groups, balance, problem.weights)
        progress.close()
        return self

    @checked_call
    def predict(
        self,
        W: Any,
        *,
        sensitive_features: ArrayLike | None = None,
        group_probabilities: ArrayLike | None = None,
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
        group_probabilities : array-like of shape (m, n_groups), default=None
            In place of these, the probabilities of the groups, as in `fit`. New nodes
            need not be of every group.

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
        W = self._validate(W, reset=False)
        return predict_labels(self, W, sensitive_features, group_probabilities)

    def _assign(
        self,
        problem: FairProblem,
        H: Array,
        kept: NDArray[np.bool_],
        rng: np.random.RandomState,
    ) -> tuple[NDArray[np.int32], ClusterCentres]:
        """Return the labels, and the k-means centres with their labels and prices."""
        self.assignment_: FairAssignment | None = None
        self.refinement_: RefinedPartition | None = None
        # Step 1: k-means on the rows. It may leave a cluster without nodes.
        rows, weights = embedding_rows(H, problem.affinity)
        options: dict[str, Any] = {"n_init": self.n_init, "random_state": rng}
        labels = embedding_kmeans(rows, self.n_clusters, weights=weights, **options)
        centres = cluster_means(rows, labels, weights)
        if self.assign_labels == "kmeans":
            return labels, ClusterCentres(centres, np.unique(labels), None)
        # Step 2: the fair assignment to the centres. Regularisation is there to avoid
        # tiny clusters: with it the assignment makes none either.
        k = len(centres)
        min_size = 1 if problem.affinity.tau == 0 else smallest_size(problem.n, k)
        # Refinement, which needs the entries of the graph, makes up for a cost that is
        # a few percent too high: such a gap is not worth an integer program.
        is_refined = self.refine and sparse.issparse(self.affinity_matrix_)
        self.assignment_ = assign_rows(
            rows,
            centres,
            problem.groups,
            self.balance_tolerance,
            weights,
            min_size,
            row_weights=problem.weights,
            max_gap=0.05 if is_refined else MAX_GAP,
        )
        labels = self.assignment_.labels
        # Step 3: refinement.
        if is_refined:
            self.refinement_ = refine_labels(
                submatrix(self.affinity_matrix_, kept),
                labels,
                problem.groups,
                self.balance_tolerance,
                self.regularization,
                rng,
                weights=problem.weights,
            )
            labels = self.refinement_.labels
        prices = self.assignment_.prices
        return labels, ClusterCentres(centres, np.arange(k), prices)

    def _check_n_clusters(self, problem: FairProblem) -> None:
        """Refuse more eigenvectors than the null space of F^T has dimensions."""
        n, rank = problem.Q.shape  # Q spans the columns of F
        limit = min(n - 1, n - rank)
        if self.n_clusters > limit:
            raise ValueError(
                f"n_clusters={self.n_clusters} must be less than the number of "
                f"clustered nodes, n_samples={n}, and {rank + 1} groups leave at most "
                f"{limit} fair directions: choose n_clusters <= {limit}."
            )
