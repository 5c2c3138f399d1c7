"""Edge weights learned from distances, with a log barrier on the degrees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg

Array = NDArray[np.float64]

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

    Similarity is the cosine of two rows of W, scaled to a largest weight of 1, with
    loops of 1; of each row only the ``5 * n_neighbors`` largest entries count. So many
    nodes does each node propose; the distance is 1 less the similarity.
    """
    n = W.shape[0]
    most = _CANDIDATES_PER_NEIGHBOR * n_neighbors
    X = _top_entries(W, most)
    X = sparse.csr_array(X.maximum(X.T))
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
    """Weight of the distances that leaves about q = `n_neighbors` edges per node.

    One node with sorted distances z has at most q from the weight
    ``(q z[q+1]^2 - z[q+1] sum(z[:q]))^(-1/2)`` on (Kalofolias, Perraudin 2019). The
    median of the nodes that have more than q candidates, not all alike.
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
    pairs: CandidatePairs, costs: Array, multipliers: Array
) -> tuple[Array, Array]:
    """Weights that minimise cost less the logarithms of the degrees, and multipliers.

    Minimises ``sum(2 c s + s^2) - sum(log d)`` over weights s >= 0 of the pairs, d the
    degrees, by Newton's method on the dual from the given multipliers > 0, one per
    node: ``s_ij = max(x_i + x_j - 2 c_ij, 0) / 2`` and ``x_i = 1 / d_i`` in the end.
    """
    i, j = pairs.rows, pairs.columns

    def evaluate(x: Array) -> tuple[float, Array]:
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


def _newton_step(active: sparse.csr_array, x: Array, gradient: Array) -> Array:
    """Solve with the Hessian ``diag(1/x^2) + (A + diag(A 1)) / 2``."""
    n = x.size
    diagonal = 1.0 / x**2 + 0.5 * (active @ np.ones(n))
    hessian = LinearOperator(
        (n, n), matvec=lambda v: diagonal * v + 0.5 * (active @ v), dtype=np.float64
    )
    jacobi = sparse.diags_array(1.0 / diagonal)
    step: Array
    # Any iterate is a direction of descent.
    step, _ = cg(hessian, -gradient, rtol=1e-6, maxiter=200, M=jacobi)
    return step


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
