"""Dual of the linear relaxation of the fair assignment, by Newton's method.

With costs ``C`` of n rows in k clusters and counts ``N`` of their kinds, the relaxation
is

    min  sum_i C[i, label_i]   subject to   A^T N <= 1   in every cluster,

where the columns of A hold the bounds on the shares of the groups. The right-hand side
1 is the one row by which a rounded count may be beyond its share. For multipliers
``x >= 0`` and prices ``p = A x`` of the kinds a lower bound on the cost is

    sum_i min_l (C[i, l] + p[kind_i, l]) - sum x.

The minima are smoothed at a temperature, and a logarithmic barrier keeps x positive
(Nocedal and Wright, chapters 7 and 19): both vanish in stages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg

from scalefair._rounding import ROUNDING, TINY
from scalefair.kernels import smoothed_minima

Array = NDArray[np.float64]

# The iteration ends at this relative distance from the optimum of the relaxation.
RELAXATION_GAP = 1e-4
# Temperature after a stage, in units of that before it.
TEMPERATURE_FACTOR = 0.3
# Barrier after a stage, in units of that before it (Nocedal and Wright, section 19.3).
BARRIER_FACTOR = 0.2
# Rows of the sample on which the first stages work.
MAX_SAMPLE_ROWS = 20_000


@dataclass(frozen=True)
class DualSolution:
    """Multipliers of the share bounds, and what follows from them."""

    multipliers: Array  # (m, k), >= 0
    prices: Array  # (c, k) of the kinds
    counts: Array  # (c, k): rows of each kind in each cluster, not whole
    # Where the iteration ended, as a start for similar costs:
    interior: Array  # multipliers, > 0
    temperature: float
    barrier: float  # for each row


class KindCurvature(NamedTuple):
    """Minus the Hessian by the prices of kinds, of rows of one kind each."""

    blocks: Array  # (c, k, k)

    def multiply(self, V: Array) -> Array:
        """Multiply prices (c, k)."""
        product: Array = np.einsum("sab,sb->sa", self.blocks, V)
        return product

    def factors(self, A: Array) -> Array:
        """Matrices B (k, c, m): ``B^T B = A^T H A`` for the block H of each cluster."""
        factors: Array = np.sqrt(np.einsum("saa->as", self.blocks))[:, :, None] * A
        return factors


@dataclass(frozen=True)
class CostRows:
    """Costs of rows that are sorted by kind, each standing for `weights[kind]` rows.

    With `row_weights` a row counts so many times, and `C` is its cost at weight 1.
    """

    C: Array
    row_weights: Array | None  # (n,); None: all 1
    chunks: NDArray[np.int64]  # start, stop, kind
    weights: Array  # (c,)

    @classmethod
    def of(
        cls,
        C: Array,
        offsets: NDArray[np.int64],
        step: int = 1,
        row_weights: Array | None = None,
    ) -> CostRows:
        """Take every step-th row of each kind."""
        sizes = -(-np.diff(offsets) // step)
        weights = np.diff(offsets) / np.maximum(sizes, 1)
        if step > 1:
            parts = [np.arange(start, stop, step) for start, stop in pairwise(offsets)]
            sample = np.concatenate(parts)
            C = C[sample]
            # The weight of all rows of a kind, divided by that of its sample.
            if row_weights is not None:
                weights = np.add.reduceat(row_weights, offsets[:-1])
                row_weights = row_weights[sample]
                starts = np.append(0, np.cumsum(sizes)[:-1])
                weights = weights / np.add.reduceat(row_weights, starts)
        # Each chunk of 2048 rows has sums of its own: the same on any threads.
        ends = np.append(0, np.cumsum(sizes))
        chunks = [
            (start, min(start + 2048, stop), kind)
            for kind, stop in enumerate(ends[1:].tolist())
            for start in range(int(ends[kind]), stop, 2048)
        ]
        return cls(np.ascontiguousarray(C), row_weights, np.array(chunks), weights)

    def minima(
        self, prices: Array, temperature: float
    ) -> tuple[float, Array, KindCurvature]:
        """Sum of smoothed minima, its gradient (c, k), and minus its Hessian."""
        (m, kind), (c, k) = (len(self.chunks), self.chunks[:, 2]), prices.shape
        values, counts, curvatures = np.empty(m), np.empty((m, k)), np.empty((m, k, k))
        smoothed_minima(
            self.C,
            self.row_weights,
            self.chunks,
            prices,
            temperature,
            values,
            counts,
            curvatures,
        )
        # One kind after the other, chunks in their order.
        weights = self.weights[kind]
        merge = sparse.csr_array((weights, (kind, np.arange(m))), shape=(c, m))
        by_kind = (merge @ curvatures.reshape(m, -1)).reshape(c, k, k)
        return float(weights @ values), merge @ counts, KindCurvature(by_kind)


class RowCurvature(NamedTuple):
    """Minus the Hessian by the prices of kinds, of rows that are mixes of these.

    A row with the mix p, the shares q and the weight w adds the matrix
    ``w / t (diag(q) - q q^T)[a, b] p p^T`` to the block of the clusters a and b.
    """

    P: Array  # (m, h): p of each row
    shares: Array  # (m, k): q
    weights: Array  # (m,): w / t

    def multiply(self, V: Array) -> Array:
        """Multiply prices (h, k)."""
        U = self.shares * (self.P @ V)
        U -= self.shares * U.sum(axis=1, keepdims=True)
        product: Array = self.P.T @ (self.weights[:, None] * U)
        return product

    def factors(self, A: Array) -> Array:
        """Matrices B (k, h, m): ``B^T B = A^T H A`` for the block H of each cluster."""
        diagonal = self.weights[:, None] * self.shares * (1 - self.shares)
        H = np.array([(self.P * d[:, None]).T @ self.P for d in diagonal.T])
        values, vectors = np.linalg.eigh(H)
        roots = np.sqrt(np.maximum(values, 0))[:, :, None] * vectors.transpose(0, 2, 1)
        factors: Array = roots @ A
        return factors


@dataclass(frozen=True)
class MixedRows:
    """Costs of rows that are mixes of kinds: row i pays ``P[i] @ prices``."""

    C: Array  # (n, k): of a unit
    P: Array  # (n, h)
    row_weights: Array  # (n,)

    @classmethod
    def of(cls, C: Array, P: Array, row_weights: Array, step: int = 1) -> MixedRows:
        """Take every step-th row."""
        if step == 1:
            return cls(C, P, row_weights)
        total, totals = row_weights.sum(), row_weights @ P
        C, P = np.ascontiguousarray(C[::step]), np.ascontiguousarray(P[::step])
        row_weights = row_weights[::step] * (total / row_weights[::step].sum())
        # The kinds get their sums again, or no prices might bound their shares
        # (calibration, Deville and Särndal 1992).
        A = P * row_weights[:, None]
        change = np.linalg.lstsq(P.T @ A, totals - A.sum(axis=0), rcond=None)[0]
        return cls(C, P, row_weights * np.maximum(1 + P @ change, 0))

    def minima(
        self, prices: Array, temperature: float
    ) -> tuple[float, Array, RowCurvature]:
        """Sum of smoothed minima, its gradient (h, k), and minus its Hessian."""
        temperature = max(temperature, TINY)
        shares = priced_costs(self.C, self.P, prices)
        values = shares.min(axis=1)
        shares -= values[:, None]
        with np.errstate(over="ignore"):
            shares /= -temperature
        np.exp(shares, out=shares)
        shares[shares < ROUNDING] = 0.0
        sums = shares.sum(axis=1)
        values -= temperature * np.log(sums)
        shares /= sums[:, None]
        counts = self.P.T @ (self.row_weights[:, None] * shares)
        # A row with one share has no curvature.
        active = np.flatnonzero(sums > 1)
        with np.errstate(over="ignore"):  # ties at temperature 0
            weights = self.row_weights[active] / temperature
        curvature = RowCurvature(self.P[active], shares[active], weights)
        return float(self.row_weights @ values), counts, curvature


def priced_costs(C: Array, P: Array, prices: Array) -> Array:
    """Costs (n, k) of rows that are mixes `P` of kinds, with the prices (h, k)."""
    costs: Array = P @ prices
    costs += C
    return costs


class StageResult(NamedTuple):
    """Where a stage of Newton's method ended."""

    x: Array
    value: float  # of the smoothed bound with the barrier
    counts: Array  # (c, k)
    is_settled: bool  # little more is to be gained
    is_stuck: bool  # no step raised the value by more than rounding


def _maximise_stage(
    rows: CostRows | MixedRows,
    A: Array,
    x: Array,
    temperature: float,
    barrier: float,
    spread: float,
    limits: Array,
) -> StageResult:
    """Maximise with smoothing and barrier: eight steps of Newton's method at most.

    `x` is the start, `spread` the range of the costs of a row, on average, and `limits`
    are the right-hand sides (m, 1).
    """

    def evaluate(x: Array) -> tuple[float, Array, KindCurvature | RowCurvature]:
        """Value, counts N and curvature H of the smoothed minima."""
        value, N, H = rows.minima(A @ x, temperature)
        return value - (limits * x).sum() + barrier * np.log(x).sum(), N, H

    value, N, H = evaluate(x)
    for _ in range(8):
        # Step 1: Newton's direction, unless it promises little.
        gradient = A.T @ N - limits + barrier / x
        direction = _newton_direction(A, H, x, gradient, barrier)
        predicted = float((gradient * direction).sum())
        if predicted < 0.025 * barrier * x.size:
            return StageResult(x, value, N, is_settled=True, is_stuck=False)
        # Step 2: at most nine tenths of the way to x = 0, and no prices change by more
        # than costs differ; then backtrack.
        to_boundary = float((-direction / x).max())
        change = float(abs(A @ direction).max())
        length = 1 / max(1.0, to_boundary / 0.9, change / spread)
        min_length = 1e-8 * length
        while length >= min_length:
            trial = x + length * direction
            trial_value, trial_N, trial_H = evaluate(trial)
            if trial_value >= value + 0.1 * length * predicted:
                break
            length *= 0.4
        else:  # rounding, or flat: the point before is as good as it gets
            return StageResult(x, value, N, is_settled=False, is_stuck=True)
        x, value, N, H = trial, trial_value, trial_N, trial_H
    return StageResult(x, value, N, is_settled=False, is_stuck=False)


def maximise_dual(
    C: Array,
    offsets: NDArray[np.int64],
    A: Array,
    start: DualSolution | None = None,
    row_weights: Array | None = None,
    P: Array | None = None,
    limits: Array | None = None,
) -> DualSolution:
    """Maximise the lower bound to within `RELAXATION_GAP`, or as far as it goes.

    `C` (n, k), k > 1, are the costs of rows sorted by kind, `offsets` (c + 1,) where
    kinds begin, `A` (c, m) the bounds: ``A^T N <= 1`` in every column of N. `start` is
    the solution for costs that differ little. With `row_weights`, of mean 1, `C` is of
    a unit. With `P` (n, c) rows are mixes of kinds, in any order. `limits` (m, 1) are
    right-hand sides in place of 1.
    """
    n, k = C.shape
    limits = np.ones((A.shape[1], 1)) if limits is None else limits

    def every(step: int) -> CostRows | MixedRows:
        """Take every step-th row."""
        if P is None or row_weights is None:
            return CostRows.of(C, offsets, step, row_weights)
        return MixedRows.of(C, P, row_weights, step)

    step = -(-n // MAX_SAMPLE_ROWS) if start is None else 1
    rows, is_sample = every(step), step > 1
    # Scales of prices: the mean range of a row's costs, and the median difference of
    # its two smallest.
    nearest = np.partition(rows.C, 1, axis=1)
    spread = float(np.mean(rows.C.max(axis=1) - nearest[:, 0]))
    # A divisor: of equal costs any will do. 1e-4 of it, the least x, has all digits.
    spread = max(spread, 1e-300) if spread > 0 else 1.0
    gap = float(np.median(nearest[:, 1] - nearest[:, 0]))
    gap = max(gap, 1e-3 * spread)
    if start is None:
        temperature = max(0.3 * spread, gap)
        barrier = 3e-3 * temperature * max(n / k, 1.0)
        x = np.full((A.shape[1], k), 0.1 * gap)
    else:  # one stage before the end of the other solution
        temperature = start.temperature / TEMPERATURE_FACTOR
        barrier = max(n * start.barrier / BARRIER_FACTOR, 1e-300)
        x = np.maximum(start.interior, barrier * k / n)
    for _ in range(30):  # stages: the temperature falls to 1e-15 of the first
        # Step 1: maximise with smoothing and barrier; measure the bound without.
        stage = _maximise_stage(rows, A, x, temperature, barrier, spread, limits)
        x = stage.x
        bound = rows.minima(A @ x, 0.0)[0] - float((limits * x).sum())
        if stage.is_stuck and not is_sample:
            break
        if not (is_sample or stage.is_settled):  # more steps
            continue
        # Step 2: how much smoothing and barrier may still lower the bound.
        hidden = bound - stage.value + barrier * np.log(x).sum()
        loss = max(hidden, barrier * x.size)
        if loss <= RELAXATION_GAP * bound and not is_sample:
            break
        # Step 3: the next stage. Once the sample is solved to ten times the gap, all
        # rows take over, one stage back: the sample has few rows of small clusters, and
        # their prices are far off.
        n_stages = 1
        if is_sample and (stage.is_stuck or loss <= 10 * RELAXATION_GAP * bound):
            rows = every(1)
            is_sample, n_stages = False, -1
        temperature *= TEMPERATURE_FACTOR**n_stages
        barrier *= BARRIER_FACTOR**n_stages
    # A bound with more than a row to spare has a multiplier below the barrier; without
    # a barrier it would be 0. With zeros in their place prices that should be equal
    # are, and the flow has fewer paths to search.
    sparse_x = np.where(x < barrier, 0.0, x)
    sparse_bound = rows.minima(A @ sparse_x, 0.0)[0] - (limits * sparse_x).sum()
    is_as_good = sparse_bound >= bound - RELAXATION_GAP * abs(bound)
    multipliers = sparse_x if is_as_good else x
    return DualSolution(
        multipliers, A @ multipliers, stage.counts, x, temperature, barrier / n
    )


def _newton_direction(
    A: Array, H: KindCurvature | RowCurvature, x: Array, gradient: Array, barrier: float
) -> Array:
    """Solve ``(A^T H A + barrier / x^2) d = gradient`` in units of the barrier.

    Conjugate gradients (Nocedal and Wright, section 7.1). The preconditioner leaves out
    of H what couples different clusters.
    """
    (c, m), scale = A.shape, x / math.sqrt(barrier)

    def multiply(v: Array) -> Array:
        v = v.reshape(x.shape)
        product: Array = v + scale * (A.T @ H.multiply(A @ (scale * v)))
        return product.ravel()

    # Inverses of 1 + B^T B for the clusters, by the smaller side of B.
    B: Array = H.factors(A) * scale.T[:, None, :]
    Bt = B.transpose(0, 2, 1)
    if c < m:
        inverses: Array = np.eye(m) - Bt @ np.linalg.solve(np.eye(c) + B @ Bt, B)
    else:
        inverses = np.asarray(np.linalg.inv(np.eye(m) + Bt @ B))

    def precondition(v: Array) -> Array:
        columns: Array = inverses @ v.reshape(x.shape).T[:, :, None]
        return columns[:, :, 0].T.ravel()

    shape = (x.size, x.size)
    d, _ = cg(
        LinearOperator(shape, matvec=multiply, dtype=np.float64),
        (scale * gradient).ravel(),
        rtol=0.1,  # Newton's direction is needed only roughly
        maxiter=300,
        M=LinearOperator(shape, matvec=precondition, dtype=np.float64),
    )
    direction: Array = scale * d.reshape(x.shape)
    return direction
