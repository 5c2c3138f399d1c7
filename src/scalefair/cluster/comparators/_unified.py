"""Fair spectral clustering on a graph that is learned along with it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import polar
from scipy.sparse.linalg import LinearOperator, cg
from sklearn.preprocessing import normalize
from sklearn.utils._param_validation import Interval

from scalefair._docs import documented
from scalefair._groups import GroupCodes
from scalefair.cluster._base import PAPERS_METHOD
from scalefair.cluster._fair_spectral import FairSpectralClustering
from scalefair.cluster._solvers import FairProblem
from scalefair.cluster.comparators._base import TEXTS, Clustering, GraphComparator, Mask

Array = NDArray[np.float64]

# Candidates of a node for each neighbour that it shall have in the learned graph.
CANDIDATES_PER_NEIGHBOR = 5


@documented(**TEXTS)
class UnifiedFairSpectralClustering(GraphComparator):
    r"""Graph, fair embedding and clusters learned together (UFSC).

    From a given affinity with degrees D the method learns a graph S, a fair
    embedding H, a rotation R and a cluster indicator Y that minimise

    .. math::
        J = \theta \sum_{ij} s_{ij} \left(p_{ij} + \tfrac{\mu}{2} |v_i - v_j|^2\right)
        - \sum_i \log \sum_j s_{ij} + \tfrac12 |S|_F^2
        + \gamma \sum_i \frac{d_i}{\bar d} |y_i - v_i R|^2

    subject to :math:`H^T H = I`, :math:`F^T H = 0` and :math:`R^T R = I`, where
    :math:`p_{ij}` is a distance in the given graph and :math:`v_i` is row i of
    :math:`\sqrt{\mathrm{vol} / k}\, D^{-1/2} H`, which for perfect clusters is a
    rotated indicator. Edges between nodes far apart in the fair embedding fade, and
    the embedding follows the learned graph. S, H, R and Y are updated in turn; none
    of the updates raises J. For comparison: :class:`FairSpectralClustering`, which
    gives the start, works on the graph as it is.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters and of columns of the embedding.
    n_neighbors : int, default=10
        Neighbours a node of the learned graph shall have, roughly: :math:`\theta`
        follows from it. With ``affinity="nearest_neighbors"`` also of the given graph.
    embedding_weight : float, default=0.5
        :math:`\mu`: what two clusters add to :math:`p_{ij}`, which is at most 1.
    label_weight : float, default=0.1
        :math:`\gamma`, how much the clusters count for the embedding; results were
        alike from 0.01 to 1. With 0 the embedding of a learned graph of more pieces
        than clusters is not determined.
    %(affinity)s
    tol : float, default=1e-3
        Relative change of the learned weights, in the norm, at which to stop.
    max_iter : int, default=50
        Most rounds of the four updates.
    n_init : int, default=10
        Starts of k-means for the clusters to begin with.
    %(connected_components)s
    %(random_state)s

    Attributes
    ----------
    %(labels_)s
    %(embedding_)s
    learned_affinity_ : csr_array of shape (n, n)
        S.
    history_ : ndarray of shape (n_iter_,)
        J after each round; it never increases.
    n_iter_ : int
        Rounds.
    converged_ : bool
        Whether the learned graph settled to `tol`.
    %(measures)s
    %(groups_)s
    %(affinity_matrix_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    %(scores)s

    Notes
    -----
    Written from the abstract of the preprint of UFSC [1]_ and the authors' published
    MATLAB code (github.com/kalman36912/UFSC), which learns the graph of all pairs from
    signals. Here an affinity is given, its loops ignored: :math:`p_{ij}` is 1 less the
    cosine of two of its rows (scaled to a largest weight of 1, with loops of 1), for
    the ``5 * n_neighbors`` most similar nodes of each. The Laplacian of S is scaled by
    the given degrees, as F of [2]_ is; :math:`\theta` follows from `n_neighbors` [3]_.
    The learned graph often falls into pieces, such as the members of one group in
    one cluster; start and label term hold them together. A cluster can end empty.

    References
    ----------
    .. [1] Zhang, Wang (2024), "A Dual Laplacian Framework with Effective Graph
       Learning for Unified Fair Spectral Clustering", Neurocomputing 601, 128210.
    %(tonin)s
    .. [3] Kalofolias, Perraudin (2019), "Large Scale Graph Learning from Smooth
       Signals", ICLR.

    Examples
    --------
    >>> from scalefair.cluster import UnifiedFairSpectralClustering
    >>> from scalefair.datasets import make_fair_sbm
    >>> data = make_fair_sbm(1000, n_clusters=3, n_groups=2, random_state=0)
    >>> model = UnifiedFairSpectralClustering(n_clusters=3, random_state=0)
    >>> model = model.fit(data.graph, sensitive_features=data.sensitive_features)
    >>> model.converged_
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GraphComparator._parameter_constraints,
        "embedding_weight": [Interval(Real, 0, None, closed="neither")],
        "label_weight": [Interval(Real, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
    }
    _uses_loops = False

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_neighbors: int = 10,
        embedding_weight: float = 0.5,
        label_weight: float = 0.1,
        affinity: str = "precomputed",
        tol: float = 1e-3,
        max_iter: int = 50,
        n_init: int = 10,
        connected_components: str = "raise",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_neighbors = n_neighbors
        self.embedding_weight = embedding_weight
        self.label_weight = label_weight
        self.affinity = affinity
        self.tol = tol
        self.max_iter = max_iter
        self.n_init = n_init
        self.connected_components = connected_components
        self.random_state = random_state

    def _cluster(
        self, W: sparse.csr_array, problem: FairProblem, kept: Mask, rng: RandomState
    ) -> Clustering:
        start = FairSpectralClustering(
            self.n_clusters,
            n_init=self.n_init,
            connected_components="all",
            random_state=rng,
            **PAPERS_METHOD,
        )
        with warnings.catch_warnings():  # advice on parameters that are not here
            advice = ".*(regularization|assign_labels)="
            warnings.filterwarnings("ignore", advice, UserWarning)
            start.fit(W, sensitive_features=problem.groups.view(GroupCodes))
        state = Alternation(W, problem, self, start)
        history: list[float] = []
        converged = False
        while not converged and len(history) < self.max_iter:
            previous = state.weights
            state.advance()
            history.append(state.objective())
            change = np.linalg.norm(state.weights - previous)
            converged = bool(change <= self.tol * np.linalg.norm(state.weights))
        # Rows and columns of zeros for nodes left out.
        spread = sparse.eye_array(kept.size, format="csr")[:, np.flatnonzero(kept)]
        S = state.pairs.matrix(state.weights)
        self.learned_affinity_ = sparse.csr_array(spread @ S @ spread.T)
        self.history_, self.n_iter_ = np.array(history), len(history)
        warning = (
            f"The learned graph still changes by more than tol={self.tol:g} after "
            f"max_iter={self.max_iter} rounds. Raise max_iter or tol."
        )
        return state.labels, state.H, None if converged else warning


class Alternation:
    """Graph, embedding, rotation and clusters, each updated in turn."""

    def __init__(
        self,
        W: sparse.csr_array,
        problem: FairProblem,
        parameters: UnifiedFairSpectralClustering,
        start: FairSpectralClustering,
    ) -> None:
        self.problem, self.degrees = problem, problem.affinity.degrees
        self.inv_sqrt_degrees = problem.affinity.inv_sqrt_degrees
        self.pairs = candidate_pairs(W, parameters.n_neighbors)
        self.theta = sparsity_weight(self.pairs, parameters.n_neighbors)
        self.mu = float(parameters.embedding_weight)
        label_weight = float(parameters.label_weight)
        self.node_weights = label_weight * self.degrees / self.degrees.mean()
        # v_i is this times row i of D^{-1/2} H.
        self.scale = float(np.sqrt(self.degrees.sum() / problem.k))
        self.H, self.labels = start.embedding_, start.labels_
        self.weights = np.zeros(self.pairs.rows.size)
        self.multipliers = np.ones(problem.n)
        self._rotate()

    def advance(self) -> None:
        """Update graph, embedding, rotation and clusters, in this order."""
        self.weights, self.multipliers = learn_weights(
            self.pairs, self._costs(), self.multipliers
        )
        self.H = descend_embedding(self.H, *self.embedding_terms(), self.problem.Q)
        self._rotate()
        self.labels = (self._scaled_embedding() @ self.R).argmax(axis=1)

    def embedding_terms(self) -> tuple[sparse.csr_array, Array]:
        """Return A and B of J = Tr(H' A H) - 2 Tr(B' H) + a constant."""
        S = self.pairs.matrix(self.weights)
        laplacian = sparse.diags_array(self.pairs.sums(self.weights)) - S
        scaling = sparse.diags_array(self.scale * self.inv_sqrt_degrees)
        # Sum over ordered pairs of s_ij |v_i - v_j|^2 / 2 is Tr(V^T L_S V).
        A = sparse.csr_array(self.theta * self.mu * (scaling @ laplacian @ scaling))
        linear = self.scale * self.inv_sqrt_degrees * self.node_weights
        return A, linear[:, None] * self.R.T[self.labels]

    def objective(self) -> float:
        """J of the estimator's description."""
        s = self.weights
        sums = self.pairs.sums(s)
        if not sums.min() > 0:
            raise ValueError(
                "All learned weights of a node have vanished: the weights of the "
                "affinity are too far apart. Remove or lower the largest."
            )
        misfit = -self._scaled_embedding() @ self.R
        misfit[np.arange(misfit.shape[0]), self.labels] += 1.0
        return float(
            2.0 * (s @ self._costs())
            - np.log(sums).sum()
            + s @ s
            + self.node_weights @ (misfit**2).sum(axis=1)
        )

    def _scaled_embedding(self) -> Array:
        """V, whose rows are v_i of the estimator's description."""
        V: Array = self.H * (self.scale * self.inv_sqrt_degrees)[:, None]
        return V

    def _rotate(self) -> None:
        """Set the rotation that maximises Tr(R' C), C = V' D Y: its polar factor."""
        V = self._scaled_embedding() * self.degrees[:, None]
        C = [V[self.labels == c].sum(axis=0) for c in range(V.shape[1])]
        self.R = polar(np.stack(C, axis=1))[0]

    def _costs(self) -> Array:
        """Cost of each pair: theta times its distances in graph and embedding."""
        V = self._scaled_embedding()
        differences = V[self.pairs.rows] - V[self.pairs.columns]
        squares = np.einsum("pc,pc->p", differences, differences)
        costs: Array = self.pairs.distances + 0.5 * self.mu * squares
        return self.theta * costs


def descend_embedding(H: Array, A: sparse.csr_array, B: Array, Q: Array) -> Array:
    """Lower Tr(H' A H) - 2 Tr(B' H) within H'H = I, Q'H = 0; Q orthonormal.

    Gradient steps of Barzilai and Borwein, each followed by a return by the polar
    factor (Wen, Yin 2013, Mathematical Programming 142, 397-434).
    """
    B = B - Q @ (Q.T @ B)
    AH = A @ H
    value = _value(H, AH, B)
    gradient = _gradient(H, AH, B, Q)
    # The first step: the minimum of the quadratic along the gradient.
    curvature = float(np.vdot(gradient, A @ gradient))
    squared_norm = float(np.vdot(gradient, gradient))
    length = squared_norm / (2.0 * curvature) if curvature > 0 else 1.0
    for step in range(50):
        # Step 1: stop where the gradient is small beside its two terms.
        scale = np.linalg.norm(AH) + np.linalg.norm(B)
        if np.sqrt(squared_norm) <= 1e-6 * scale:
            break
        # Step 2: backtrack to a sufficient decrease. The Gram matrix of H - t G is
        # I + t^2 G'G for a tangent G: of steps t G of norm 10 at most its condition
        # number is at most 101.
        length = min(length, 10.0 / float(np.sqrt(squared_norm)))
        for _ in range(40):
            X = H - length * gradient
            X -= Q @ (Q.T @ X)  # fair, whatever was rounded
            values, V = np.linalg.eigh(X.T @ X)
            trial: Array = X @ ((V / np.sqrt(values)) @ V.T)  # its polar factor
            A_trial = A @ trial
            trial_value = _value(trial, A_trial, B)
            if trial_value <= value - 1e-4 * length * squared_norm:
                break
            length /= 2.0
        else:  # no progress beyond rounding
            break
        # Step 3: the two lengths of Barzilai and Borwein in turn.
        trial_gradient = _gradient(trial, A_trial, B, Q)
        dH, dG = trial - H, trial_gradient - gradient
        product = abs(float(np.vdot(dH, dG)))
        if product == 0.0:
            return trial
        if step % 2:
            length = product / float(np.vdot(dG, dG))
        else:
            length = float(np.vdot(dH, dH)) / product
        H, AH, value, gradient = trial, A_trial, trial_value, trial_gradient
        squared_norm = float(np.vdot(gradient, gradient))
    return H


def _value(H: Array, AH: Array, B: Array) -> float:
    return float(np.vdot(H, AH)) - 2.0 * float(np.vdot(B, H))


def _gradient(H: Array, AH: Array, B: Array, Q: Array) -> Array:
    """Gradient within the tangent space of the fair orthonormal blocks."""
    G = 2.0 * (AH - B)
    G -= Q @ (Q.T @ G)
    inner = H.T @ G
    return G - H @ ((inner + inner.T) / 2.0)


@dataclass(frozen=True)
class CandidatePairs:
    """Pairs of nodes that the learned graph may join."""

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]  # rows < columns
    distances: Array  # in the given graph, between 0 and 1
    n: int  # nodes

    def matrix(self, values: Array) -> sparse.csr_array:
        """Symmetric matrix with the values at the pairs, without stored zeros."""
        stored = values != 0
        i, j, v = self.rows[stored], self.columns[stored], values[stored]
        return sparse.csr_array(
            (np.append(v, v), (np.append(i, j), np.append(j, i))),
            shape=(self.n, self.n),
        )

    def sums(self, values: Array) -> Array:
        """Row sums of ``matrix(values)``."""
        first = np.bincount(self.rows, values, self.n)
        second = np.bincount(self.columns, values, self.n)
        return np.asarray(first + second, dtype=np.float64)


def candidate_pairs(W: sparse.csr_array, n_neighbors: int) -> CandidatePairs:
    """Pairs of similar nodes of a graph without loops or isolated nodes.

    Similarity, 1 less the distance: cosine of two rows of W, scaled to a largest weight
    of 1, with loops of 1; each node proposes, and each row keeps, the 5 q largest.
    """
    n = W.shape[0]
    n_candidates = CANDIDATES_PER_NEIGHBOR * n_neighbors
    # Step 1: rows of unit length.
    X = _top_entries(W, n_candidates)
    X = sparse.csr_array(X.maximum(X.T))
    X = normalize(sparse.csr_array(X / W.data.max() + sparse.eye_array(n)))
    # Step 2: their products, in blocks of rows, of which the largest stay.
    XT = sparse.csr_array(X.T)
    blocks = []
    for start in range(0, n, 1024):
        similarity = sparse.csr_array(X[start : start + 1024] @ XT)
        rows = np.repeat(np.arange(similarity.shape[0]), np.diff(similarity.indptr))
        similarity.data[rows + start == similarity.indices] = 0.0
        blocks.append(_top_entries(similarity, n_candidates))
    top = sparse.csr_array(sparse.vstack(blocks))
    upper = sparse.triu(top.maximum(top.T), k=1).tocsr().tocoo()
    return CandidatePairs(
        rows=upper.coords[0].astype(np.intp),
        columns=upper.coords[1].astype(np.intp),
        distances=np.maximum(1.0 - upper.data, 0.0),  # a cosine can round above 1
        n=n,
    )


def sparsity_weight(pairs: CandidatePairs, n_neighbors: int) -> float:
    """Weight of the distances that leaves about q = `n_neighbors` edges per node.

    Median of ``(q z[q+1]^2 - z[q+1] sum(z[:q]))^(-1/2)``, z the sorted distances of a
    node with more than q candidates, not all alike (Kalofolias, Perraudin 2019).
    """
    i = np.append(pairs.rows, pairs.columns)
    z = np.append(pairs.distances, pairs.distances)
    z = z[np.lexsort((z, i))]  # node by node, in order
    counts = np.bincount(i, minlength=pairs.n)
    first = np.cumsum(counts) - counts
    q = n_neighbors
    first = first[counts > q]
    if first.size == 0:
        return 1.0
    sums = np.append(0.0, np.cumsum(z))
    spread = z[first + q] * (q * z[first + q] - (sums[first + q] - sums[first]))
    # Rounding of the running sum must not pass for a difference between distances.
    spread = spread[spread > 1e-9 * q]
    return float(np.median(spread**-0.5)) if spread.size else 1.0


def learn_weights(
    pairs: CandidatePairs, costs: Array, multipliers: Array
) -> tuple[Array, Array]:
    """Weights s >= 0 that minimise ``sum(2 c s + s^2) - sum(log d)``, d the degrees.

    By Newton's method on the dual from multipliers > 0 of the nodes, returned too:
    ``s_ij = max(x_i + x_j - 2 c_ij, 0) / 2`` and ``x_i = 1 / d_i`` in the end.
    """
    i, j = pairs.rows, pairs.columns

    def evaluate(x: Array) -> tuple[float, Array]:
        excess = np.maximum(x[i] + x[j] - 2.0 * costs, 0.0)
        return float(excess @ excess) / 4.0 - float(np.log(x).sum()), excess

    x = multipliers
    value, excess = evaluate(x)
    for _ in range(200):
        # Step 1: Newton's direction.
        gradient = pairs.sums(excess) / 2.0 - 1.0 / x
        step = _newton_step(pairs.matrix((excess > 0).astype(np.float64)), x, gradient)
        slope = float(gradient @ step)
        # Step 2: the multipliers stay positive.
        is_falling = step < 0
        length = 1.0
        if is_falling.any():
            ratios = -x[is_falling] / step[is_falling]
            length = min(1.0, 0.9 * float(ratios.min()))
        if -slope <= 1e-14 * (x.size + abs(value)):
            x = x + length * step  # too small a step to be seen in the objective
            break
        # Step 3: backtrack to a sufficient decrease.
        trial, trial_excess = evaluate(x + length * step)
        while trial > value + 1e-4 * length * slope and length > 1e-10:
            length /= 2.0
            trial, trial_excess = evaluate(x + length * step)
        x, value, excess = x + length * step, trial, trial_excess
    return evaluate(x)[1] / 2.0, x


def _newton_step(active: sparse.csr_array, x: Array, gradient: Array) -> Array:
    """Solve with the Hessian ``diag(1/x^2) + (A + diag(A 1)) / 2``."""
    n = x.size
    diagonal = 1.0 / x**2 + 0.5 * (active @ np.ones(n))
    hessian = LinearOperator(
        (n, n), matvec=lambda v: diagonal * v + 0.5 * (active @ v), dtype=np.float64
    )
    jacobi = sparse.diags_array(1.0 / diagonal)
    # Any iterate is a direction of descent.
    step: Array
    step, _ = cg(hessian, -gradient, rtol=1e-6, maxiter=200, M=jacobi)
    return step


def _top_entries(A: sparse.csr_array, n_entries: int) -> sparse.csr_array:
    """Copy of the `n_entries` largest positive entries of each row."""
    positions = []
    for start, stop in zip(A.indptr[:-1], A.indptr[1:], strict=True):
        row = np.arange(start, stop)
        if row.size > n_entries:
            row = row[np.argpartition(A.data[row], row.size - n_entries)[-n_entries:]]
        positions.append(row[A.data[row] > 0])
    entries = np.concatenate(positions)
    rows = np.repeat(np.arange(A.shape[0]), [row.size for row in positions])
    return sparse.csr_array(
        (A.data[entries], (rows, A.indices[entries])), shape=A.shape, dtype=np.float64
    )
