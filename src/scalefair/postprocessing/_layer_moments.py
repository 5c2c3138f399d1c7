"""Gaps and change of a linear layer's outputs, from the moments of its inputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scalefair._entries import ignore_fp_warnings
from scalefair._groups import as_list
from scalefair._rounding import ROUNDING
from scalefair.streaming import GroupMoments

Array = NDArray[np.float64]

Moments: TypeAlias = GroupMoments | list[GroupMoments]  # of each attribute


class LayerMoments:
    """First and second moments of the inputs X, shape (N, n), of a layer, by group.

    Pairs of groups are (a, b) with a < b, in lexicographic order; differences are b
    minus a. Weights W have shape (m, n), and the outputs are X W^T. Of several
    attributes the groups of one follow those of the other, and pairs are within one.
    `sizes` are the effective numbers of rows of the groups, on which noise depends.
    """

    def __init__(self, moments: Moments, sizes: list[Array] | None = None) -> None:
        attributes = as_list(moments)
        if sizes is None:
            sizes = [m.counts for m in attributes]
        # 1. Distinct attributes. One that comes twice counts once: the first with equal
        # moments stands for it, and `positions` has, for all attributes, the index
        # among the distinct ones.
        first = [
            next(j for j, other in enumerate(attributes) if _equal(m, other))
            for m in attributes
        ]
        indices = sorted(set(first))
        distinct = [attributes[j] for j in indices]
        self.positions = [indices.index(j) for j in first]
        self.n_attributes = len(distinct)
        self.moments = distinct[0]
        self.counts, self.means, self.scatters = (
            np.concatenate([getattr(m, name) for m in distinct])
            if len(distinct) > 1
            else getattr(distinct[0], name)
            for name in ("counts", "means", "scatters")
        )
        self.sizes = np.concatenate([sizes[j] for j in indices])
        # 2. Pairs of groups of the same attribute, and the attribute of each pair.
        pairs: list[tuple[int, int]] = []
        attribute: list[int] = []
        start = 0
        for j, m in enumerate(distinct):
            stop = start + len(m.groups)
            pairs += combinations(range(start, stop), 2)
            attribute += [j] * (len(pairs) - len(attribute))
            start = stop
        self.pairs = np.array(pairs, dtype=np.int64)
        self.attribute = np.array(attribute, dtype=np.int64)

    @cached_property
    def second_moment(self) -> Array:
        """S = X^T X, the sum of ``x x^T`` over all rows, shape (n, n)."""
        scaled = np.sqrt(self.moments.counts)[:, None] * self.moments.means
        S: Array = self.moments.scatters.sum(axis=0)
        S += scaled.T @ scaled
        return S

    @cached_property
    def differences(self) -> Array:
        """Differences d_p of the means, shape (n, P)."""
        first, second = self.pairs.T
        return np.ascontiguousarray((self.means[second] - self.means[first]).T)

    @cached_property
    def covariance_differences(self) -> Array:
        """Differences M_p of the covariances, divisors N_g, shape (P, n, n)."""
        counts, scatters = self.counts, self.scatters
        M = np.empty((len(self.pairs), *scatters.shape[1:]))
        for p, (a, b) in enumerate(self.pairs):
            np.divide(scatters[b], counts[b], out=M[p])
            M[p] -= scatters[a] / counts[a]
        return M

    def covariance_eigenpairs(self) -> tuple[Array, Array]:
        """Eigenpairs of the only M_p, or of (sum_p M_p^2)^(1/2) for several pairs.

        Largest modulus first; the eigenvectors are columns.
        """
        M = self.covariance_differences
        if len(M) > 1:
            # From the singular values of the stacked M_p: nothing is squared.
            triangle = np.linalg.qr(M.reshape(-1, M.shape[2]), mode="r")
            _, values, rows = np.linalg.svd(triangle)
            return values, np.ascontiguousarray(rows.T)
        values, vectors = np.linalg.eigh(M[0])
        order = np.argsort(-np.abs(values), kind="stable")
        return values[order], np.ascontiguousarray(vectors[:, order])

    def whitening(self, weight: Array, noise: float = 0.0) -> tuple[Array, Array]:
        """W S T, shape (m, r), and T, shape (n, r), with T^T S T = I, r the rank of S.

        S is taken with its diagonal multiplied by ``1 + noise``, so that directions
        that hardly occur in these rows count as well.
        """
        scale, values, vectors = self._scaled_eigenpairs
        values = np.maximum(values, 0.0) + noise
        # S has a diagonal of ones here: the rounding of its sums is far below the
        # limit, and the inverse has four digits.
        positive = values > ROUNDING * values[-1]
        vectors, sizes = vectors[:, positive], np.sqrt(values[positive])
        return (weight * scale) @ vectors * sizes, vectors / sizes / scale[:, None]

    def solve(self, B: Array) -> Array:
        """T T^T B for B of shape (n, k): a generalised inverse of S times B.

        Differences of means lie in the range of S. The solution has the smallest norm
        in units of the inputs' root mean squares.
        """
        root = self._root
        return np.asarray(root @ (root.T @ B))

    @cached_property
    def _root(self) -> Array:
        return self.whitening(np.zeros((0, len(self.second_moment))))[1]

    @cached_property
    def _scaled_eigenpairs(self) -> tuple[Array, Array, Array]:
        """Lengths of the columns of X, eigenpairs of S for columns of length one."""
        S = self.second_moment
        scale = np.sqrt(S.diagonal())
        scale[scale == 0] = 1.0  # an input that is always zero
        values, vectors = np.linalg.eigh(S / np.outer(scale, scale))
        return scale, values, vectors

    def gaps(self, weight: Array) -> tuple[float, float]:
        """Gaps d_e and d_v of the outputs, in mean and in covariance, the largest."""
        mean_gap, covariance_gap = self.gaps_by_attribute(self.pair_gaps(weight)).max(
            axis=1
        )
        return float(mean_gap), float(covariance_gap)

    def gaps_by_attribute(self, pair_gaps: Array) -> Array:
        """Gaps of the attributes, shape (2, k), roots of sums of squares over pairs."""
        gaps = np.empty((2, self.n_attributes))
        for j in range(self.n_attributes):
            gaps[:, j] = np.linalg.norm(pair_gaps[:, self.attribute == j], axis=1)
        return gaps

    def pair_gaps(self, weight: Array) -> Array:
        """Gaps |W d_p| and |W M_p W^T|_F of the outputs for each pair, shape (2, P)."""
        W = _compressed(weight)
        with ignore_fp_warnings():
            if len(self.pairs) == 1:
                # Half the products of two covariances.
                differences = (W @ self.covariance_differences[0] @ W.T)[None]
            else:
                covariances = W @ self.scatters @ W.T
                covariances /= self.counts[:, None, None]
                first, second = self.pairs.T
                differences = covariances[second] - covariances[first]
            # Scaled by the largest entry: squares could overflow.
            largest = np.abs(differences).max() or 1.0
            covariance_gaps = (
                np.linalg.norm(differences / largest, axis=(1, 2)) * largest
            )
            mean_gaps = np.linalg.norm(W @ self.differences, axis=0)
        gaps = np.stack([mean_gaps, covariance_gaps])
        if not np.isfinite(gaps).all():
            raise ValueError(
                "The moments of the layer's outputs overflow: scale the targets."
            )
        return gaps

    def noise(self, weight: Array) -> Array:
        """Root mean squares of both gaps between groups that are alike, shape (2, P).

        From the covariance K of the outputs within groups, as if rows were normal;
        infinite if a group has one row only.
        """
        # Of normal rows: E |W d|^2 = tr K (1/n_a + 1/n_b), and for the covariances
        # ((tr K)^2 + |K|^2) (1/n_a + 1/n_b), but for terms in 1/n^2.
        W = _compressed(weight)
        n_rows, n = float(self.sizes.sum()), self.sizes[self.pairs].T
        K = W @ self.within @ W.T * (n_rows / max(n_rows - len(self.sizes), 1.0))
        trace = max(float(np.trace(K)), 0.0)  # rounding may be negative
        variances = [[trace], [trace**2 + float((K * K).sum())]]
        squares = np.where((n > 1).all(axis=0), (1 / n).sum(axis=0) * variances, np.inf)
        return np.asarray(np.sqrt(squares))

    def matrices(self, values: Array) -> list[Array]:
        """Values of pairs, shape (P,), as a symmetric matrix for each attribute."""
        matrix = np.zeros((len(self.counts),) * 2)
        first, second = self.pairs.T
        matrix[first, second] = matrix[second, first] = values
        blocks = []
        for j in self.positions:
            pairs = self.pairs[self.attribute == j]
            groups = slice(pairs.min(), pairs.max() + 1)
            blocks.append(matrix[groups, groups])
        return blocks

    def output_change(self, weight: Array, changed: Array) -> float:
        """|X (W - W')^T|_F^2, the squared change summed over the rows."""
        step = weight - changed
        change = float(((step @ self.second_moment) * step).sum())
        return max(change, 0.0)  # rounding may be negative

    @property
    def within(self) -> Array:
        """Covariance within groups, its mean over the attributes."""
        covariance: Array = self.scatters.sum(axis=0) / self.counts.sum()
        return covariance


def _equal(one: GroupMoments, other: GroupMoments) -> bool:
    """Whether the moments of two attributes are the same."""
    return one is other or (
        np.array_equal(one.counts, other.counts)
        and np.array_equal(one.means, other.means)
        and np.array_equal(one.scatters, other.scatters)
    )


def _compressed(weight: Array) -> Array:
    """R of W = Q R if there are more outputs than inputs: gaps are the same."""
    m, n = weight.shape
    return weight if m <= n else np.asarray(np.linalg.qr(weight, mode="r"))


@dataclass(frozen=True)
class LayerUnfairness:
    """Gaps of the outputs of a layer, in its own units and without units.

    Relative to the root of the trace of the covariance within groups, and to its
    Frobenius norm; infinite if the outputs differ between groups only.
    """

    name: str
    mean_gap: float
    covariance_gap: float
    relative_mean_gap: float
    relative_covariance_gap: float

    @property
    def score(self) -> float:
        """Root of the sum of both relative gaps' squares, which ranks layers."""
        return float(np.hypot(self.relative_mean_gap, self.relative_covariance_gap))


def layer_unfairness(name: str, moments: Moments, weight: Array) -> LayerUnfairness:
    """Gaps of a layer's outputs, from the moments of its inputs."""
    weight = _compressed(weight)
    layer = LayerMoments(moments)
    mean_gap, covariance_gap = layer.gaps(weight)
    covariance = weight @ layer.within @ weight.T
    deviation = np.sqrt(max(np.trace(covariance), 0.0))  # rounding may be negative
    return LayerUnfairness(
        name,
        mean_gap,
        covariance_gap,
        _ratio(mean_gap, deviation),
        _ratio(covariance_gap, np.linalg.norm(covariance)),
    )


def _ratio(gap: float, size: Any) -> float:
    """Gap relative to a size, which may be zero."""
    if size > 0:
        return gap / float(size)
    return float("inf") if gap > 0 else 0.0
