"""Edge weights learned from distances, with a log barrier on the degrees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg

__all__ = ["CandidatePairs", "candidate_pairs", "learn_weights", "sparsity_weight"]

# The learned graph chooses among this many neighbours per neighbour it shall have.
_CANDIDATES_PER_NEIGHBOR = 5
# Rows of a block in which the most similar nodes are looked for: 1024 rows of
# 20,000 doubles are 160 MiB.
_BLOCK_ROWS = 1024
_MAX_NEWTON = 200
# Gain of a Newton step, per node, below which the objective is rounding.
_LEAST_GAIN = 1e-14


@dataclass(frozen=True)
class CandidatePairs:
    """Pairs of nodes that the learned graph may join.

    Attributes
    ----------
    rows, columns : ndarray of int
        The two nodes of each pair, ``rows < columns``.
    distances : ndarray of float
        Distance of the nodes in the given graph, between 0 and 1.
    n : int
        Number of nodes.
    """

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    distances: NDArray[np.float64]
    n: int

    def matrix(self, values: NDArray[np.float64]) -> sparse.csr_array:
        """Symmetric matrix with the values at the pairs, without stored zeros."""
        stored = values != 0
        i, j, v = self.rows[stored], self.columns[stored], values[stored]
        return sparse.csr_array(
            (np.append(v, v), (np.append(i, j), np.append(j, i))),
            shape=(self.n, self.n),
        )

    def sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Row sums of ``matrix(values)``."""
        first = np.bincount(self.rows, values, self.n)
        second = np.bincount(self.columns, values, self.n)
        return np.asarray(first + second, dtype=np.float64)


def candidate_pairs(W: sparse.csr_array, n_neighbors: int) -> CandidatePairs:
    """Pairs of similar nodes, and their distances.

    The similarity of two nodes is the cosine of their rows of the affinity, scaled
    to a largest weight of 1 and with loops of weight 1: nodes that are linked, or
    linked to the same nodes, are similar. Each node proposes its most similar
    ones, ``5 * n_neighbors`` of them; the distance is 1 less the similarity.

    Parameters
    ----------
    W : csr_array of shape (n, n)
        Symmetric affinity without loops; every node has an edge. Of the rows with
        more than ``5 * n_neighbors`` entries only the largest ones count, and
        those that count for the other end of the edge.
    n_neighbors : int
        Neighbours that the nodes of the learned graph shall have.
    """
    n = W.shape[0]
    most = _CANDIDATES_PER_NEIGHBOR * n_neighbors
    X = _largest_entries(W, most)
    X.data /= W.data.max()
    X = sparse.csr_array(X + sparse.eye_array(n))
    norms = np.sqrt((X * X) @ np.ones(n))
    X.data /= np.repeat(norms, np.diff(X.indptr))
    XT = sparse.csr_array(X.T)
    blocks = []
    for start in range(0, n, _BLOCK_ROWS):
        similar = sparse.csr_array(X[start : start + _BLOCK_ROWS] @ XT)
        rows = np.repeat(np.arange(similar.shape[0]), np.diff(similar.indptr))
        similar.data[rows + start == similar.indices] = 0.0
        blocks.append(_top_entries(similar, most))
    top = sparse.csr_array(sparse.vstack(blocks))
    upper = sparse.triu(top.maximum(top.T), k=1).tocsr().tocoo()
    return CandidatePairs(
        rows=upper.coords[0].astype(np.intp),
        columns=upper.coords[1].astype(np.intp),
        distances=np.maximum(1.0 - upper.data, 0.0),  # a cosine can round above 1
        n=n,
    )


def sparsity_weight(pairs: CandidatePairs, n_neighbors: int) -> float:
    r"""Weight :math:`\theta` of the distances that leaves about `n_neighbors` edges.

    For one node with sorted distances :math:`z_1 \le z_2 \le \dots`, the weights
    that minimise :math:`\theta w^T z - \log(w^T 1) + |w|^2 / 2` have at most q
    entries from :math:`\theta = (q z_{q+1}^2 - z_{q+1} \sum_{j \le q} z_j)^{-1/2}`
    on (Kalofolias, Perraudin 2019). The median over the nodes is taken; nodes with
    no more than q candidates, or none farther than the nearest, have no say.
    """
    i = np.append(pairs.rows, pairs.columns)
    z = np.append(pairs.distances, pairs.distances)
    order = np.lexsort((z, i))
    z = z[order]
    counts = np.bincount(i, minlength=pairs.n)
    first = np.cumsum(counts) - counts
    first = first[counts > n_neighbors]
    if first.size == 0:
        return 1.0
    q = n_neighbors
    total = np.append(0.0, np.cumsum(z))
    nearest = total[first + q] - total[first]
    farther = z[first + q]
    spread = farther * (q * farther - nearest)
    # Rounding of the running sum must not pass for a difference between distances.
    spread = spread[spread > 1e-9 * q]
    return float(np.median(spread**-0.5)) if spread.size else 1.0


def learn_weights(
    pairs: CandidatePairs,
    costs: NDArray[np.float64],
    multipliers: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Weights that minimise cost less the logarithms of the degrees.

    Minimises :math:`\sum_p (2 c_p s_p + s_p^2) - \sum_i \log d_i` over weights
    :math:`s_p \ge 0` of the pairs p, :math:`d_i` the degree of node i, by Newton's
    method on the dual: with one multiplier per node,
    :math:`s_{ij} = (\lambda_i + \lambda_j - 2 c_{ij})_+ / 2` and
    :math:`\lambda_i = 1 / d_i` at the optimum.

    Parameters
    ----------
    pairs : CandidatePairs
        The pairs; every node is in one.
    costs : ndarray of shape (n_pairs,)
        Cost of a unit of weight, >= 0.
    multipliers : ndarray of shape (n,)
        Start, > 0.

    Returns
    -------
    weights : ndarray of shape (n_pairs,)
    multipliers : ndarray of shape (n,)
    """
    i, j = pairs.rows, pairs.columns

    def evaluate(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        excess = np.maximum(x[i] + x[j] - 2.0 * costs, 0.0)
        return float(excess @ excess) / 4.0 - float(np.log(x).sum()), excess

    x = multipliers
    value, excess = evaluate(x)
    for _ in range(_MAX_NEWTON):
        gradient = pairs.sums(excess) / 2.0 - 1.0 / x
        step = _newton_step(pairs.matrix((excess > 0).astype(np.float64)), x, gradient)
        slope = float(gradient @ step)
        shrinks = step < 0
        length = 1.0
        if shrinks.any():  # the multipliers stay positive
            length = min(1.0, 0.9 * float((-x[shrinks] / step[shrinks]).min()))
        if -slope <= _LEAST_GAIN * (x.size + abs(value)):
            x = x + length * step  # too small a step to be seen in the objective
            break
        trial, trial_excess = evaluate(x + length * step)
        while trial > value + 1e-4 * length * slope and length > 1e-10:
            length /= 2.0
            trial, trial_excess = evaluate(x + length * step)
        x, value, excess = x + length * step, trial, trial_excess
    return evaluate(x)[1] / 2.0, x


def _newton_step(
    active: sparse.csr_array, x: NDArray[np.float64], gradient: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Solve with the Hessian ``diag(1/x^2) + (A + diag(A 1)) / 2``."""
    n = x.size
    diagonal = 1.0 / x**2 + 0.5 * (active @ np.ones(n))
    hessian = LinearOperator(
        (n, n), matvec=lambda v: diagonal * v + 0.5 * (active @ v), dtype=np.float64
    )
    jacobi = sparse.diags_array(1.0 / diagonal)
    step: NDArray[np.float64]
    # Any iterate is a direction of descent.
    step, _ = cg(hessian, -gradient, rtol=1e-6, maxiter=200, M=jacobi)
    return step


def _largest_entries(W: sparse.csr_array, most: int) -> sparse.csr_array:
    """Copy of the `most` largest entries of each row and their mirror images."""
    top = _top_entries(W, most)
    return sparse.csr_array(top.maximum(top.T))


def _top_entries(A: sparse.csr_array, most: int) -> sparse.csr_array:
    """Copy of the `most` largest positive entries of each row."""
    chosen = []
    for start, stop in zip(A.indptr[:-1], A.indptr[1:], strict=True):
        if stop - start > most:
            largest = np.argpartition(A.data[start:stop], stop - start - most)
            chosen.append(start + largest[-most:])
        else:
            chosen.append(np.arange(start, stop))
    kept = np.concatenate(chosen)
    rows = np.repeat(np.arange(A.shape[0]), [positions.size for positions in chosen])
    positive = A.data[kept] > 0
    kept, rows = kept[positive], rows[positive]
    return sparse.csr_array(
        (A.data[kept], (rows, A.indices[kept])), shape=A.shape, dtype=np.float64
    )
