"""What the clustering estimators share: texts, graphs and affinities, and warnings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils._param_validation import Interval, StrOptions

from scalefair._decorators import GroupRequests
from scalefair._entries import (
    canonical,
    check_sample_weight,
    equal_weight,
    validate_data,
    with_small_indices,
)
from scalefair._groups import check_compared
from scalefair._membership import Membership
from scalefair._messages import warn_user
from scalefair._rounding import TINY
from scalefair.cluster._neighbors import neighbors_graph, stored_neighbors
from scalefair.cluster._share_bounds import count_kinds, is_mixed, smallest_size
from scalefair.kernels import csr_is_symmetric
from scalefair.operators import (
    NormalizedAffinity,
    NormalizedOperator,
    NystroemKernel,
    PartitionedMatrix,
    RBFKernel,
)
from scalefair.streaming import PartitionedRows, is_partitioned

Array = NDArray[np.float64]

# One cluster above this fraction of all nodes leaves hardly any structure.
MAX_CLUSTER_FRACTION = 0.9
# Balance is judged in clusters where each group is expected to have so many members
# or more.
MIN_EXPECTED_COUNT = 10
# Clusters with less than this fraction of the population's balance are unfair.
MIN_RELATIVE_BALANCE = 0.2
# Options of FairSpectralClustering that make it the method of the papers.
PAPERS_METHOD: dict[str, Any] = {"regularization": 0, "assign_labels": "kmeans"}

TEXTS = {
    "connected_components": """\
connected_components : {"raise", "largest", "all"}, default="raise"
    What to do when the graph has several components: an error; cluster the
    largest one; or cluster every node that has an edge. Nodes left out get the
    label -1. The shares of the groups are those among the clustered nodes.""",
    "labels_": """\
labels_ : ndarray of shape (n,), int
    Cluster of each node, -1 for nodes left out.""",
    "embedding_": """\
embedding_ : ndarray of shape (n, n_clusters)
    H: orthonormal columns, :math:`F^T H = 0`; zero rows for nodes left out.""",
    "groups_": """\
groups_ : ndarray
    Sorted groups among the clustered nodes.""",
    "sensitive_features": """\
sensitive_features : array-like of shape (n,) or (n, k)
    Group of each node, at least two: numbers, strings or booleans. Of k columns each
    combination that occurs is a group.""",
    "bad_graph": """\
ValueError
    If `W` is not square and symmetric with finite entries >= 0, if there are fewer
    than two groups or too few nodes for `n_clusters` among the clustered nodes, or
    several components and ``connected_components="raise"``.""",
    "scores": """\
scalefair.metrics.balance_score : How balanced the clusters are.
scalefair.metrics.normalized_cut_score : What the clustering costs.""",
}


class GraphClustering(GroupRequests, ClusterMixin, BaseEstimator):
    """Estimators that cluster by an affinity, or by the k-NN graph of features."""

    n_clusters: int
    affinity: str
    n_neighbors: int
    connected_components: str
    regularization: float = 0.0  # of those that have no such parameter
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "affinity": [StrOptions({"precomputed", "nearest_neighbors"})],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "connected_components": [StrOptions({"raise", "largest", "all"})],
        "random_state": ["random_state"],
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        precomputed = self.affinity.startswith("precomputed")
        tags.input_tags.sparse = precomputed or self.affinity == "nearest_neighbors"
        tags.input_tags.pairwise = precomputed
        tags.input_tags.positive_only = precomputed
        return tags

    def _validate(self, W: Any, *, reset: bool = True) -> Any:
        """Check a matrix, dense or sparse, as scikit-learn does."""
        # Weights of one byte would take eight times the memory as float64. Where all
        # are equal, one float64 stands for them: an array of stride 0.
        is_csr = sparse.issparse(W) and W.format == "csr"
        has_bytes = is_csr and W.dtype.kind in "biu" and W.dtype.itemsize == 1
        if self.affinity == "precomputed" and has_bytes:
            weight = equal_weight(W.data)
            if weight:
                data = np.broadcast_to(np.float64(weight), W.data.shape)
                W = sparse.csr_array((data, W.indices, W.indptr), shape=W.shape)
        return validate_data(
            self,
            W,
            accept_sparse="csr" if self.__sklearn_tags__().input_tags.sparse else False,
            dtype=[np.float64, np.float32],
            ensure_min_samples=2 if reset else 1,
            estimator=self,
            reset=reset,
        )

    def _kept_nodes(
        self, W: sparse.csr_array, weights: Array | None = None
    ) -> NDArray[np.bool_]:
        """Mask of the nodes to cluster: with weight, and by `connected_components`."""
        # Without the nodes of weight 0, which may be what connects the others.
        kept = np.ones(W.shape[0], dtype=bool) if weights is None else weights > 0
        nodes, W = np.flatnonzero(kept), submatrix(W, kept)
        linked = np.diff(W.indptr) > 0
        if not linked.any():
            raise ValueError("The graph has no edges: there is nothing to cluster by.")
        if self.regularization > 0 and self.connected_components != "largest":
            return kept  # regularisation links all nodes
        if self.connected_components == "all":
            kept[nodes] = linked
            return kept
        n_components, component = connected_components(W, directed=False)
        sizes = np.bincount(component)
        # Several components: an error, or the largest one.
        if n_components > 1 and self.connected_components == "raise":
            isolated = nodes[~linked]
            detail, remedy = "", ""
            if isolated.size:
                first = isolated[0]
                detail = f", {isolated.size} of them isolated (first: node {first})"
            if self.affinity != "precomputed":
                remedy = " Or raise n_neighbors."
            raise ValueError(
                f"The graph has {n_components} connected components{detail}; the "
                f"largest has {sizes.max()} of {nodes.size} nodes. Choose "
                'connected_components="largest" to cluster that one (all other nodes '
                'get the label -1) or connected_components="all" to cluster every '
                f"node that has an edge (isolated nodes get the label -1).{remedy}"
            )
        kept[nodes] = component == sizes.argmax()
        return kept

    def _set_clusters(
        self, kept: NDArray[np.bool_], labels: NDArray[np.integer], H: Array
    ) -> None:
        """Spread labels and embedding of the kept nodes among all."""
        self.labels_ = np.full(kept.size, -1, dtype=np.int32)
        self.labels_[kept] = labels
        if not kept.all():
            H, rows = np.zeros((kept.size, H.shape[1])), H
            H[kept] = rows
        self.embedding_ = H


class FitProgress:
    """Tasks of one fit for callbacks: a root, its phases, a part per eigenpair."""

    def __init__(self, estimator: Any, X: Any) -> None:
        self.estimator = estimator
        self.context = estimator._init_callback_context(max_subtasks=3)
        self.context.call_on_fit_task_begin(estimator=estimator, X=X)

    @contextmanager
    def task(self, name: str, n_parts: int = 0) -> Iterator[Callable[..., None]]:
        """Report a phase; yields a function to call with the parts done so far."""
        context = self.context.subcontext(task_name=name, max_subtasks=n_parts)
        context.call_on_fit_task_begin(estimator=self.estimator)
        reported = 0

        def report(n_done: int, *_: Any) -> None:
            nonlocal reported
            while reported < min(n_done, n_parts):
                leaf = context.subcontext(task_name="part")
                leaf.call_on_fit_task_begin(estimator=self.estimator)
                leaf.call_on_fit_task_end(estimator=self.estimator)
                reported += 1

        yield report
        context.call_on_fit_task_end(estimator=self.estimator)

    def close(self) -> None:
        """Report the end of the fit."""
        self.context.call_on_fit_task_end(
            estimator=self.estimator, reconstruction_attributes={}
        )


def groups_and_weights(
    sensitive_features: Any,
    group_probabilities: Any,
    n: int,
    attributes: str,
    sample_weight: Any,
) -> tuple[Membership, Array | None]:
    """Return the checked groups or probabilities of rows, and their weights."""
    membership = Membership.of(
        sensitive_features, group_probabilities, n, attributes=attributes
    )
    weights = check_sample_weight(sample_weight, n)
    if weights is not None:
        membership.weighted(weights).check_weights()
    return membership, weights


def stacked_groups(membership: Membership, n: int) -> NDArray[Any]:
    """Codes (n, n_attributes), or probabilities (n, h) as they are.

    The codes number the groups of all attributes in one count.
    """
    groups = membership.columns(n)
    if not is_mixed(groups):
        sizes = [len(attribute.groups) for attribute in membership.compared]
        groups = groups + np.cumsum([0, *sizes[:-1]])
    return groups


def clustered_groups(membership: Membership, kept: NDArray[np.bool_]) -> Membership:
    """Return the groups of the kept nodes, at least two of each attribute."""
    among = ""
    if not kept.all():
        membership = membership.select(np.flatnonzero(kept)).occurring()
        among = " among the clustered nodes"
    check_compared(membership.compared, "sklearn.cluster.SpectralClustering", among)
    return membership


def sums_of_groups(table: NDArray[Any], stacked: NDArray[Any]) -> NDArray[Any]:
    """Rows of a `table` (n_groups, k), summed over the groups of each row.

    These are as `stacked_groups` returns them.
    """
    if is_mixed(stacked):
        sums: NDArray[Any] = stacked @ table
    else:
        sums = table[stacked].sum(axis=1)
    return sums


def relative_weights(weights: Array | None, kept: Any) -> Array | None:
    """Weights > 0 of the kept rows in units of their mean; None if all are equal."""
    if weights is None:
        return None
    # By the largest one first: then the sum in the mean cannot overflow.
    relative: Array = weights[kept] / weights.max()
    if relative.min() == relative.max():
        return None
    relative /= relative.mean()
    return relative


def submatrix(W: sparse.csr_array, kept: NDArray[np.bool_]) -> sparse.csr_array:
    """Rows and columns of the kept nodes; the matrix itself if these are all."""
    return W if kept.all() else sparse.csr_array(W[kept][:, kept])


def cluster_balances(
    groups: NDArray[Any],
    labels: NDArray[np.integer] | None = None,
    weights: Array | None = None,
) -> Array:
    """Balances (n_attributes, n_clusters); of all rows if there are no labels.

    Of probabilities they are the balances of expected counts, (1, n_clusters): 0 in a
    cluster of which no row has a probability.
    """
    tables = _group_counts(groups, labels, weights)
    return np.array(
        [counts.min(axis=0) / np.maximum(counts.max(axis=0), TINY) for counts in tables]
    )


def _group_counts(
    groups: NDArray[Any],
    labels: NDArray[np.integer] | None = None,
    weights: Array | None = None,
) -> list[NDArray[Any]]:
    """Count the groups of each attribute, (h, n_clusters), in clusters with rows."""
    labels = np.zeros(len(groups), np.int32) if labels is None else labels
    sizes = np.bincount(labels)
    return [
        count_kinds(kinds, labels, len(sizes), weights)[:, sizes > 0]
        for kinds in ([groups] if is_mixed(groups) else groups.T)
    ]


def suboperator(W: LinearOperator, kept: NDArray[np.bool_]) -> LinearOperator:
    """Rows and columns of the kept nodes of an operator."""
    if kept.all():
        return W
    # Rows of the identity select the kept nodes; their transpose puts a block back
    # among zeros.
    rows = sparse.eye_array(kept.size, dtype=W.dtype, format="csr")[kept]
    return aslinearoperator(rows) @ W @ aslinearoperator(rows.T)


def check_square(shape: tuple[int, ...]) -> None:
    """Refuse the shape of rows of features where an affinity is expected."""
    if shape[0] != shape[1]:
        raise ValueError(
            f"A precomputed affinity must be a square matrix, got shape {shape}. "
            'For rows of features use affinity="nearest_neighbors".'
        )


def checked_affinity(W: Any) -> sparse.csr_array:
    """Clean symmetric CSR matrix: no duplicates or zeros; the input is not modified."""
    # Step 1: weights >= 0 whose sum is finite; stored zeros are dropped.
    check_square(W.shape)
    A = with_small_indices(canonical(sparse.csr_array(W)))
    refuse_negative(A)
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
    # Step 2: a matrix that is symmetric but for rounding is made exactly so.
    if csr_is_symmetric(A.indptr, A.indices, A.data):
        return A
    # The difference shows the largest deviation, and where it is.
    B = sparse.csr_array(A.T)
    difference = abs(A - B)
    largest = float(difference.max()) if difference.nnz else 0.0
    # Relative to the largest weight: 1e-8, of float32 100 eps, which is larger.
    tolerance = max(1e-8, 100 * float(np.finfo(A.dtype).eps))
    if largest > tolerance * float(A.data.max(initial=0.0)):
        entries = difference.tocoo()
        i, j = (int(c[entries.data.argmax()]) for c in entries.coords)
        raise ValueError(
            f"The affinity is asymmetric: entry ({i}, {j}) is {A[i, j]:.10g}, "
            f"entry ({j}, {i}) is {A[j, i]:.10g}. Symmetrise it, for example with "
            "(W + W.T) / 2 or W.maximum(W.T)."
        )
    return sparse.csr_array((A + B) / 2)


def refuse_negative(A: sparse.csr_array) -> None:
    """Refuse negative weights, and name one."""
    if A.nnz and A.data.min() < 0:
        # Entry p is in the row whose pointers enclose p.
        p = int(A.data.argmin())
        i = int(np.searchsorted(A.indptr, p, side="right")) - 1
        raise ValueError(
            f"Negative values in data: the smallest weight is {A.data[p]:g}, at row "
            f"{i}, column {A.indices[p]}; spectral clustering needs weights >= 0."
        )


def check_affinity_input(model: Any, W: Any) -> Any:
    """Check a matrix for FairSpectralClustering, or take a graph in parts as operator.

    Sets the number of features, and their names; an operator has no names.
    """
    # Step 1: rows, distances, or an affinity in memory are checked as by scikit-learn.
    if model.neighbors != "auto" and model.affinity != "nearest_neighbors":
        raise ValueError(
            f"neighbors={model.neighbors!r} is for "
            f'affinity="nearest_neighbors", not for "{model.affinity}".'
        )
    in_parts = not isinstance(W, LinearOperator) and is_partitioned(W)
    if not (in_parts or isinstance(W, LinearOperator)):
        return model._validate(W)
    # Step 2: an operator, or a graph in parts, which becomes one.
    if model.affinity != "precomputed":
        kind, remedy = "LinearOperator", "use"
        if in_parts:
            kind, remedy = "collection in parts", "compute it, or if it is a graph use"
        is_stored = model.affinity == "precomputed_nearest_neighbors"
        expected = "a graph of distances" if is_stored else "rows of features"
        raise ValueError(
            f'affinity="{model.affinity}" takes {expected} in memory, got a {kind}: '
            f'{remedy} affinity="precomputed".'
        )
    if in_parts:
        rows = PartitionedRows.of(W)
        check_square(rows.shape)
        W = PartitionedMatrix(rows)
        rows.map(refuse_negative).gather()
    model.n_features_in_ = W.shape[1]
    if hasattr(model, "feature_names_in_"):  # of an earlier fit
        del model.feature_names_in_
    return W


def normalized_affinity(
    model: Any, W: Any, rng: np.random.RandomState, weights: Array | None
) -> tuple[NormalizedAffinity | NormalizedOperator, NDArray[np.bool_]]:
    """Set the affinity of all nodes; return that of the kept ones, and their mask."""
    model.affinity_error_ = model.neighbors_ = model.neighbors_recall_ = None
    # Step 1: an affinity that only multiplies, ...
    if isinstance(W, LinearOperator) or model.affinity.startswith("rbf"):
        # All nodes with weight: the components of an operator cannot be seen.
        kept = np.ones(W.shape[0], dtype=bool) if weights is None else weights > 0
        return _normalized_operator(model, W, rng, kept, weights), kept
    # ... or the stored graph: built from rows, from distances, or taken as it is.
    if model.affinity == "nearest_neighbors":
        # A copy of the generator: a search draws from it, and the solver's start must
        # not depend on that.
        graph = neighbors_graph(W, model.n_neighbors, model.neighbors, deepcopy(rng))
        model.affinity_matrix_ = graph.affinity
        model.neighbors_, model.neighbors_recall_ = graph.neighbors, graph.recall
        model._search = W, graph.search
    elif model.affinity == "precomputed_nearest_neighbors":
        model.affinity_matrix_ = stored_neighbors(W, model.n_neighbors)
    else:
        model.affinity_matrix_ = checked_affinity(W)
    # Step 2: the part of the nodes that are clustered, normalised by their degrees.
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


def warn_of_sizes(
    labels: NDArray[np.integer],
    n_clusters: int,
    regularization: float,
    weights: Array | None,
) -> None:
    """Warn of clusters far below the average, and of one that is nearly all.

    `weights` have a mean of 1.
    """
    # Step 1: sizes far below the average, or above nine tenths of all nodes.
    n, k = labels.size, n_clusters
    sizes = np.bincount(labels, weights)
    sizes = np.rint(sizes[sizes > 0]).astype(int)  # k-means may leave one empty
    tiny = np.sort(sizes[sizes < smallest_size(n, k)])
    if tiny.size == 0 and (k == 1 or sizes.max() <= MAX_CLUSTER_FRACTION * n):
        return
    # Step 2: the message, and what helps: more regularisation, until it is as large as
    # the mean degree (1); then fewer clusters.
    smallest = ", ".join(map(str, tiny[:10])) + ", ..." * (tiny.size > 10)
    tiny_text = f" {tiny.size} of {k} have {smallest}," if tiny.size else ""
    remedy = (
        f"regularization={max(0.1, 10 * regularization):g} (now {regularization:g}) "
        "makes such clusters costly."
    )
    if regularization >= 1:
        remedy = f"Fewer than n_clusters={k} may be of more use."
    warn_user(
        f"The clusters are of very different sizes:{tiny_text} the largest has "
        f"{sizes.max()} of {n} nodes. {remedy}"
    )


def warn_of_balance(
    labels: NDArray[np.integer],
    groups: NDArray[Any],
    balance: Array,
    weights: Array | None,
) -> None:
    """Warn of the least fair cluster that chance should have made fair.

    `groups` are codes (n, n_attributes) or probabilities, `balance` has a row of the
    clusters' balances for each attribute.
    """
    # Balances relative to the population's, (n_attributes, n_clusters). Clusters where
    # few rows of the smallest group are expected are left out: there chance decides.
    sizes = np.bincount(labels)
    sizes = sizes[sizes > 0]
    population = cluster_balances(groups, weights=weights)
    smallest = [[counts.min()] for counts in _group_counts(groups)]
    shares = np.array(smallest) / labels.size
    is_expected = sizes * shares >= MIN_EXPECTED_COUNT
    relative_balance = np.where(is_expected, balance / population, np.inf)
    worst = np.unravel_index(relative_balance.argmin(), relative_balance.shape)
    if relative_balance[worst] < MIN_RELATIVE_BALANCE:
        warn_user(
            f"A cluster of {sizes[worst[1]]} nodes has balance {balance[worst]:.2g}, "
            f"and the population {population[worst[0], 0]:.2g}: k-means has lost what "
            'the embedding promised. assign_labels="fair" keeps it.'
        )
