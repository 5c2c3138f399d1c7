"""Dual of the linear relaxation of the fair assignment, by Newton's method.

With costs ``C`` of n rows in k clusters and counts ``N`` of their kinds, the relaxation
is

    min  sum_i C[i, label_i]   subject to   A^T N <= 1   in every cluster,

where the columns of A hold the bounds on the shares of the groups; the right-hand side
is the one person by which a whole count may be beyond its share. For multipliers
``x >= 0`` and prices ``p = A x`` of the kinds a lower bound on the cost is

    sum_i min_l (C[i, l] + p[kind_i, l]) - sum x.

The minima are smoothed at a temperature, and a logarithmic barrier keeps x positive
(Nocedal and Wright, chapters 7 and 19): both vanish in stages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg

from scalefair.kernels import smoothed_minima

Array = NDArray[np.float64]

# The bound is to be this close to that of the relaxation, relatively.
RELAXATION_GAP = 1e-4
# Temperature and barrier after a stage, in units of before (Nocedal and Wright, 19.3).
TEMPERATURE_FACTOR, BARRIER_FACTOR = 0.3, 0.2
MAX_STAGES, MAX_STEPS = 30, 8
# Stages by which it starts before the end of another one, for rows that were near.
STAGES_BACK = 1
# Iterations of conjugate gradients, and the residual that ends them: Newton's direction
# is needed only roughly (Nocedal and Wright, section 7.1).
MAX_CG_ITERATIONS, CG_TOL = 300, 0.1
# Least increase in the line search, in units of the predicted one; its shortest step,
# in units of the first.
SUFFICIENT_DECREASE, MIN_STEP = 0.1, 1e-8
# Rows of the sample on which the first stages work; rows of a chunk, summed by itself.
SAMPLE_ROWS, CHUNK_ROWS = 20_000, 2048


@dataclass(frozen=True)
class DualSolution:
    """Multipliers of the share bounds, and what they say."""

    multipliers: Array  # (m, k), >= 0
    prices: Array  # (c, k) of the kinds
    counts: Array  # (c, k): rows of each kind in each cluster, not whole
    n_passes: int  # over the rows or their sample
    # Where the iteration ended, for another one near by to start from:
    interior: Array | None = None  # multipliers, > 0
    temperature: float = 0.0
    barrier: float = 0.0  # for each row


@dataclass(frozen=True)
class _Rows:
    """Costs of rows that are sorted by kind, each standing for `weights[kind]` rows."""

    C: Array
    chunks: NDArray[np.int64]  # start, stop, kind
    weights: Array  # (c,)

    @classmethod
    def of(cls, C: Array, offsets: NDArray[np.int64], step: int = 1) -> _Rows:
        """Take every step-th row of each kind."""
        sizes = -(-np.diff(offsets) // step)
        if step > 1:
            taken = [np.arange(a, b, step) for a, b in pairwise(offsets)]
            C = C[np.concatenate(taken)]
        ends = np.append(0, np.cumsum(sizes))
        chunks = [
            (start, min(start + CHUNK_ROWS, stop), kind)
            for kind, stop in enumerate(ends[1:].tolist())
            for start in range(int(ends[kind]), stop, CHUNK_ROWS)
        ]
        weights = np.diff(offsets) / np.maximum(sizes, 1)
        return cls(np.ascontiguousarray(C), np.array(chunks), weights)

    def minima(self, prices: Array, temperature: float) -> tuple[float, Array, Array]:
        """Sum of smoothed minima, its gradient (c, k), minus its Hessian (c, k, k)."""
        (m, kind), (c, k) = (len(self.chunks), self.chunks[:, 2]), prices.shape
        values, counts, curvatures = np.empty(m), np.empty((m, k)), np.empty((m, k, k))
        smoothed_minima(
            self.C, self.chunks, prices, temperature, values, counts, curvatures
        )
        # One kind after the other, chunks in their order: the same sums on any threads.
        weights = self.weights[kind]
        merge = sparse.csr_array((weights, (kind, np.arange(m))), shape=(c, m))
        by_kind = (merge @ curvatures.reshape(m, -1)).reshape(c, k, k)
        return float(weights @ values), merge @ counts, by_kind


def maximise_dual(
    C: Array, offsets: NDArray[np.int64], A: Array, start: DualSolution | None = None
) -> DualSolution:
    """Maximise the lower bound to within `RELAXATION_GAP`, or as far as it goes.

    `C` (n, k), k > 1, are the costs of rows sorted by kind, `offsets` (c + 1,) where
    kinds begin, `A` (c, m) the bounds: ``A^T N <= 1`` in every column of N. `start` is
    the solution for costs that differ little.
    """
    n, k = C.shape
    interior = None if start is None else start.interior
    step = -(-n // SAMPLE_ROWS) if interior is None else 1
    rows, is_sample = _Rows.of(C, offsets, step), step > 1
    # Scales of prices: how far apart the clusters of a row are, and the two nearest.
    near = np.partition(rows.C, min(1, k - 1), axis=1)
    wide = float(np.mean(rows.C.max(axis=1) - near[:, 0]))
    wide = max(wide, 1e-300)
    gap = max(float(np.median(near[:, min(1, k - 1)] - near[:, 0])), 1e-3 * wide)
    temperature = max(0.3 * wide, gap)
    barrier = 3e-3 * temperature * max(n / k, 1.0)
    x = np.full((A.shape[1], k), 0.1 * gap)
    if start is not None and interior is not None:
        temperature = start.temperature / TEMPERATURE_FACTOR**STAGES_BACK
        barrier = max(n * start.barrier / BARRIER_FACTOR**STAGES_BACK, 1e-300)
        x = np.maximum(interior, barrier * k / n)
    n_passes = 0

    def evaluate(x: Array) -> tuple[float, Array, Array]:
        nonlocal n_passes
        n_passes += 1
        value, N, H = rows.minima(A @ x, temperature)
        return value - x.sum() + barrier * np.log(x).sum(), N, H

    for _ in range(MAX_STAGES):
        value, N, H = evaluate(x)
        plain, is_settled, is_stuck = 0.0, False, False
        for _ in range(MAX_STEPS):
            gradient = A.T @ N - 1 + barrier / x
            direction = _newton_direction(A, H, x, gradient, barrier)
            predicted = float((gradient * direction).sum())
            if predicted < max(
                0.05 * barrier * x.size / 2, 0.1 * RELAXATION_GAP * plain
            ):
                is_settled = True
                break
            # At most nine tenths of the way to the boundary, and no prices change by
            # more than costs differ; then backtrack.
            to_boundary, change = (-direction / x).max(), abs(A @ direction).max()
            length = 1 / max(1.0, float(to_boundary) / 0.9, float(change) / wide)
            shortest = MIN_STEP * length
            while length >= shortest:
                trial = x + length * direction
                new = evaluate(trial)
                if new[0] >= value + SUFFICIENT_DECREASE * length * predicted:
                    break
                length *= 0.4
            else:  # rounding, or flat: the point before is as good as it gets
                is_stuck = True
                break
            x, (value, N, H) = trial, new
        plain = rows.minima(A @ x, 0.0)[0] - float(x.sum())
        n_passes += 1
        if is_stuck and not is_sample:
            break
        if not (is_sample or is_settled):  # more steps
            continue
        # What smoothing and barrier may still hide of the bound.
        loss = max(plain - value + barrier * np.log(x).sum(), barrier * x.size)
        if loss <= RELAXATION_GAP * plain and not is_sample:
            break
        if is_sample and (is_stuck or loss <= 10 * RELAXATION_GAP * plain):
            # The sample lacks rows of small clusters: their prices are far off.
            rows, is_sample, n_stages = _Rows.of(C, offsets), False, -STAGES_BACK
        else:
            n_stages = int(loss > RELAXATION_GAP * plain and not is_stuck)
        temperature *= TEMPERATURE_FACTOR**n_stages
        barrier *= BARRIER_FACTOR**n_stages
    # Of a bound with more than a row to spare the multiplier is 0 but for the barrier;
    # without it prices that should be equal are, which leaves the flow fewer paths.
    interior, few = x, np.where(x < barrier, 0.0, x)
    if rows.minima(A @ few, 0.0)[0] - few.sum() >= plain - RELAXATION_GAP * abs(plain):
        x = few
    return DualSolution(x, A @ x, N, n_passes, interior, temperature, barrier / n)


def _newton_direction(
    A: Array, H: Array, x: Array, gradient: Array, barrier: float
) -> Array:
    """Solve ``(A^T H A + barrier / x^2) d = gradient`` in units of the barrier.

    The preconditioner leaves out of H what couples different clusters.
    """
    (c, m), scale = A.shape, x / math.sqrt(barrier)

    def multiply(v: Array) -> Array:
        v = v.reshape(x.shape)
        HAv = np.einsum("sab,sb->sa", H, A @ (scale * v))
        product: Array = v + scale * (A.T @ HAv)
        return product.ravel()

    # Inverses of 1 + B^T B for the clusters, by the smaller side of B.
    B = np.sqrt(np.einsum("saa->as", H))[:, :, None] * A * scale.T[:, None, :]
    Bt = B.transpose(0, 2, 1)
    if c < m:
        inverses = np.eye(m) - Bt @ np.linalg.solve(np.eye(c) + B @ Bt, B)
    else:
        inverses = np.linalg.inv(np.eye(m) + Bt @ B)

    def precondition(v: Array) -> Array:
        columns: Array = inverses @ v.reshape(x.shape).T[:, :, None]
        return columns[:, :, 0].T.ravel()

    shape = (x.size, x.size)
    d, _ = cg(
        LinearOperator(shape, matvec=multiply, dtype=np.float64),
        (scale * gradient).ravel(),
        rtol=CG_TOL,
        maxiter=MAX_CG_ITERATIONS,
        M=LinearOperator(shape, matvec=precondition, dtype=np.float64),
    )
    direction: Array = scale * d.reshape(x.shape)
    return direction
