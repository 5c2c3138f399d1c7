"""Layers too wide for matrices of n x n numbers: leading directions, in few passes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from scalefair._random import check_random_state, random_generator
from scalefair.linalg import LinearResult, block_cg, block_krylov
from scalefair.operators import (
    StreamedCovariance,
    StreamedSecondMoment,
    StreamedSquaredDifferences,
)
from scalefair.postprocessing._layer_moments import layer_weight
from scalefair.postprocessing._wide_reduced import LayerComparison, ReducedLayer

__all__ = ["WideLayer", "wide_layer"]

Array = NDArray[np.float64]
Batches = Callable[[], Iterable[tuple[NDArray[Any], NDArray[np.int64]]]]

# Eigenvalues this small, relative to the largest, are taken for zero.
_NEGLIGIBLE = 1e-8
# Those of small matrices, which are rounding.
_DEPENDENT = 1e-14


@dataclass(frozen=True)
class WideLayer:
    """Leading eigenpairs of the covariance differences of a wide layer's inputs.

    Attributes
    ----------
    counts : ndarray of shape (G,), int64
        Rows of each group.
    means : ndarray of shape (G, n)
        Their means.
    differences : ndarray of shape (n, P)
        Differences of the means over all pairs of groups, later minus earlier.
    eigenvalues : ndarray of shape (q,)
        For two groups those of M largest in modulus, with their signs; for more, the
        square roots of those of the sum of the squares of all M_p.
    eigenvectors : ndarray of shape (n, q)
        Q, orthonormal.
    gram : ndarray of shape (q, q)
        ``Q^T S Q`` with the second moment S about the origin.
    covariance_differences : ndarray of shape (P, q, q)
        ``Q^T M_p Q``.
    weight : ndarray of shape (m, n)
        The weight W that the layer came with.
    mean_gap, covariance_gap : float
        d_e and d_v of that weight, exactly.
    square, spread : float
        Mean square of its outputs, and of their distance from the group's mean.
    converged : bool
        Whether all eigenpairs reached the tolerance.
    covariance : StreamedCovariance
        The covariances as an operator; each product is a pass.
    """

    counts: NDArray[np.int64]
    means: Array
    differences: Array
    eigenvalues: Array
    eigenvectors: Array
    gram: Array
    covariance_differences: Array
    weight: Array = field(repr=False)
    mean_gap: float
    covariance_gap: float
    square: float
    spread: float
    converged: bool
    covariance: StreamedCovariance = field(repr=False)

    @property
    def n_passes(self) -> int:
        """Passes over the rows so far, those of the methods included."""
        return self.covariance.n_passes

    def compare(self, weight: Array) -> LayerComparison:
        """Return the gaps of W and of another weight, and their distance; one pass.

        Parameters
        ----------
        weight : ndarray of shape (m, n)
            Another weight.

        Returns
        -------
        LayerComparison
            Exact numbers: nothing is left out beyond the leading eigenpairs.
        """
        change = weight - self.weight
        m = change.shape[0]
        V = np.hstack([change.T, weight.T])
        covariances = self.covariance.compress(V)
        moments = _second_moment(covariances, self.counts, self.means @ V)
        spread = _pair_differences(covariances)[:, m:, m:]
        return LayerComparison(
            mean_gap_before=self.mean_gap,
            mean_gap_after=float(np.linalg.norm(weight @ self.differences)),
            covariance_gap_before=self.covariance_gap,
            covariance_gap_after=float(np.linalg.norm(spread)),
            output_change=float(np.trace(moments[:m, :m])),
        )

    def solve(self, B: Array, *, tol: float = 1e-2, max_products: int = 50) -> Array:
        """Return ``S^+ B`` for columns in the range of S, by block conjugate gradients.

        The leading eigenvectors are solved for beside B: their directions serve its
        columns too and save passes.

        Parameters
        ----------
        B : ndarray of shape (n, s)
            Right-hand sides, such as the differences of the means.
        tol : float, default=1e-2
            As in `reduced`.
        max_products : int, default=50
            Most passes. A ConvergenceWarning tells if they were too few.

        Returns
        -------
        ndarray of shape (n, s)
            Solution. ``B.T @ X`` grows towards ``B.T S^+ B`` as `tol` falls.
        """
        basis = _joint_basis(self.eigenvectors, B)
        solution, converged, message = self._solve(basis, tol, max_products)
        if not converged:
            warnings.warn(message, ConvergenceWarning, stacklevel=2)
        out: Array = solution.X @ (basis.T @ B)
        return out

    def reduced(self, *, tol: float = 1e-2, max_products: int = 50) -> ReducedLayer:
        """Return the problem of the smallest change on the leading directions.

        Parameters
        ----------
        tol : float, default=1e-2
            The systems with S are solved until one more pass lowers what it costs to
            make ``W B`` vanish by less than this share.
        max_products : int, default=50
            Most passes for them. One more pass serves the gaps.

        Returns
        -------
        ReducedLayer
            Small matrices, and the way back.
        """
        B = _joint_basis(self.eigenvectors, self.differences)
        solution, converged, message = self._solve(B, tol, max_products)
        sizes, turn = _symmetric_eigh(B.T @ solution.X)
        # What lies outside the range of S cannot be changed.
        turn = turn[:, sizes > _DEPENDENT * sizes[-1]]
        B, X, SX = B @ turn, solution.X @ turn, (B - solution.residuals) @ turn
        # Y with Y^T B = I and its cost Y^T S Y = L L^T, whatever the residuals.
        K = B.T @ X
        Y = np.linalg.solve(K.T, X.T).T
        costs, axes = _symmetric_eigh(Y.T @ np.linalg.solve(K.T, SX.T).T)
        L = axes * np.sqrt(np.maximum(costs, _DEPENDENT * costs[-1]))
        Z = np.linalg.solve(L, Y.T).T
        V0 = self.weight @ B @ L  # Z^T B = L^-1, so that (W - V0 Z^T) B = 0
        m, r = V0.shape
        M = _pair_differences(
            self.covariance.compress(np.hstack([Z, self.weight.T, B]))
        )
        # From the inputs (Z^T x, W x) to (Z^T x, W x - V0 Z^T x).
        shear = np.eye(r + m)
        shear[r:, :r] = -V0
        inverse = np.linalg.solve(L, np.eye(r))
        return ReducedLayer(
            whitened=V0,
            root=np.eye(r),
            differences=Z.T @ self.differences,
            forms=inverse @ M[:, r + m :, r + m :] @ inverse.T,
            directions=Z,
            n_products=solution.n_products,
            converged=converged,
            message=message,
            original=self.weight,
            _whole=shear @ M[:, : r + m, : r + m] @ shear.T,
        )

    def _solve(
        self, B: Array, tol: float, max_products: int
    ) -> tuple[LinearResult, bool, str]:
        """Solve ``S X = B`` until the cost of changes within X settles."""
        watch = _CostWatch(B, self.weight @ B, tol)
        operator = StreamedSecondMoment(self.covariance)
        solution = block_cg(
            operator, B, tol=1e-8, max_products=max_products, callback=watch
        )
        n_passes = solution.n_products
        if solution.converged or watch.settled:
            return solution, True, f"Solved in {n_passes} passes."
        last = "some directions are still out of reach"
        if np.isfinite(watch.decrease):
            last = f"the last one still lowered the cost by {watch.decrease:.0%}"
        message = (
            f"The outputs of the layer change more than they need to: after {n_passes} "
            f"passes {last}. Scale the inputs of the layer alike, or use rank=None."
        )
        return solution, False, message


class _CostWatch:
    """Watches what it costs to make ``W B`` vanish by directions X, pass after pass.

    Residuals are no measure of it: where the spectrum of S is wide they stay large
    long after the cost, which is flat about its minimum, has settled.
    """

    def __init__(self, B: Array, values: Array, tol: float) -> None:
        self.B, self.values, self.tol = B, values, tol
        self.cost = self.decrease = np.inf
        self.settled = False

    def __call__(self, X: Array, residuals: Array) -> bool:
        K = self.B.T @ X
        eigenvalues, vectors = _symmetric_eigh(K)
        if eigenvalues[0] <= _DEPENDENT * eigenvalues[-1]:
            return False  # too few directions as yet
        cost = float(((self.values @ vectors) ** 2 / eigenvalues).sum())
        if np.isfinite(self.cost):
            self.decrease = (self.cost - cost) / cost if cost > 0 else 0.0
            self.settled = abs(self.decrease) <= self.tol
        self.cost = cost
        return self.settled


def wide_layer(
    batches: Batches,
    weight: ArrayLike,
    n_groups: int,
    rank: int,
    *,
    tol: float = 1e-3,
    max_products: int = 50,
    random_state: Any = None,
) -> WideLayer:
    """Find the leading directions in which the groups' covariances differ.

    Every pass reads all rows, that is, runs the network up to the layer; nothing of
    n x n numbers is formed and no row is kept. One pass finds counts and means, one
    starts the iteration in the range of the covariances, three to six find the
    eigenpairs, one more the small matrices.

    Parameters
    ----------
    batches : callable
        Called without arguments for each pass, returns an iterable of
        ``(rows, codes)``: inputs of the layer, shape (b, n), and their groups, 0 to
        ``n_groups - 1``.
    weight : array-like of shape (m, n)
        Weight of the layer, outputs first.
    n_groups : int
        Number of groups, at least 2.
    rank : int
        Eigenpairs q, ``1 <= rank <= n``. Fewer are returned if the differences have
        a lower rank.
    tol : float, default=1e-3
        Residual norms of the eigenpairs, relative to the largest eigenvalue; the
        eigenvalues are accurate to about its square.
    max_products : int, default=50
        Most products of the eigensolver; for more than two groups each takes two
        passes.
    random_state : int, RandomState instance or None, default=None
        For the starting block of the eigensolver.

    Returns
    -------
    WideLayer
        Eigenpairs, small matrices, and methods that go on from there.

    Raises
    ------
    ValueError
        If shapes do not fit, the rank exceeds the number of inputs, or for the
        reasons of `StreamedCovariance`.

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.postprocessing._wide import wide_layer
    >>> rng = np.random.default_rng(0)
    >>> codes = np.arange(400) % 2
    >>> rows = rng.standard_normal((400, 30))
    >>> rows[codes == 1, 3] *= 4
    >>> rows[codes == 1, 5] += 1
    >>> layer = wide_layer(lambda: [(rows, codes)], np.eye(30)[:6], 2, rank=1)
    >>> int(np.abs(layer.eigenvectors[:, 0]).argmax())
    3
    >>> int(np.abs(layer.differences[:, 0]).argmax())
    5
    """
    if n_groups < 2:
        raise ValueError(f"There must be two groups at least, got {n_groups}.")
    rng = check_random_state(random_state)
    first = np.zeros(n_groups)
    first[:2] = -1.0, 1.0
    covariance = StreamedCovariance(batches, n_groups, first)
    n = covariance.shape[0]
    W = layer_weight(weight, n)
    if rank > n:
        raise ValueError(
            f"rank={rank} must be at most {n}, the number of inputs of the layer."
        )
    operator = covariance if n_groups == 2 else StreamedSquaredDifferences(covariance)
    result = block_krylov(
        operator,
        rank,
        tol=tol,
        max_products=max_products,
        X0=_start(covariance, rank + 10, rng),
        random_state=rng,
    )
    values = result.values
    if n_groups > 2:
        values = np.sqrt(np.maximum(values, 0))
    used = np.abs(values) > _NEGLIGIBLE * np.abs(values[0])
    Q = np.ascontiguousarray(result.vectors[:, used])
    # One pass for all small matrices: Q and the outputs of the weight.
    V = np.hstack([Q, W.T])
    q = Q.shape[1]
    covariances = covariance.compress(V)
    M = _pair_differences(covariances)
    gram = _second_moment(
        covariances[:, :q, :q], covariance.counts, covariance.means @ Q
    )
    differences = _pair_differences(covariance.means).T
    # The same of the outputs.
    n_rows = int(covariance.counts.sum())
    within = np.tensordot(covariance.counts - 1.0, covariances[:, q:, q:], axes=1)
    offsets = covariance.means @ W.T
    between = (covariance.counts[:, None] * offsets**2).sum()
    spread = float(np.trace(within)) / n_rows
    return WideLayer(
        counts=covariance.counts,
        means=covariance.means,
        differences=differences,
        eigenvalues=values[used],
        eigenvectors=Q,
        gram=gram,
        covariance_differences=M[:, :q, :q],
        weight=W,
        mean_gap=float(np.linalg.norm(W @ differences)),
        covariance_gap=float(np.linalg.norm(M[:, q:, q:])),
        square=spread + float(between) / n_rows,
        spread=spread,
        converged=result.converged,
        covariance=covariance,
    )


def _start(
    covariance: StreamedCovariance, width: int, rng: np.random.RandomState
) -> Array:
    """Random combinations of centred rows: in the range of all covariances.

    Eigenvectors built from them lie in the range of S, where systems with S have
    solutions, although they are found to a rough tolerance only.
    """
    n = covariance.shape[0]
    width = min(width, n)
    signs = np.ones(covariance.counts.size)
    block = random_generator(rng).standard_normal((n, width))
    product: Array = covariance.with_weights(signs).matmat(block)
    return product


def _pair_differences(values: Array) -> Array:
    """Differences over all pairs of groups (axis 0), later minus earlier."""
    pairs = combinations(range(values.shape[0]), 2)
    return np.array([values[b] - values[a] for a, b in pairs])


def _second_moment(
    covariances: Array, counts: NDArray[np.int64], means: Array
) -> Array:
    """Sum of x x^T from covariances (divisors N_g - 1) and means."""
    within = np.tensordot(counts - 1.0, covariances, axes=1)
    out: Array = within + (means * counts[:, None]).T @ means
    return out


def _symmetric_eigh(K: Array) -> tuple[Array, Array]:
    """Eigenpairs of a matrix that is symmetric but for rounding, smallest first."""
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    return values, vectors


def _joint_basis(Q: Array, D: Array) -> Array:
    """Orthonormal basis of the span of Q, orthonormal, and of D."""
    rest = D - Q @ (Q.T @ D)
    rest -= Q @ (Q.T @ rest)
    U, sizes, _ = np.linalg.svd(rest, full_matrices=False)
    new = sizes > _NEGLIGIBLE * np.linalg.norm(D)
    return np.ascontiguousarray(np.hstack([Q, U[:, new]]))
