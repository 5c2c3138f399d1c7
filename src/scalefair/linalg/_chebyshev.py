"""Chebyshev-filtered subspace iteration."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator

from scalefair._entries import check_product
from scalefair._random import check_random_state, random_generator
from scalefair.kernels import (
    block_gram,
    block_subtract,
    rotate_ritz,
    single_blas_thread,
)
from scalefair.linalg._bounds import SpectralBounds, spectral_bounds
from scalefair.linalg._checks import (
    as_avoided,
    as_block,
    as_symmetric_operator,
    buffer_size,
    check_count,
    check_scale,
)
from scalefair.linalg._dense import dense_eigh
from scalefair.linalg._orthonormalize import orthonormalize
from scalefair.linalg._result import EigenResult, orient
from scalefair.linalg._ritz import eigh_descending
from scalefair.operators._base import apply_block

__all__ = ["chebyshev"]

# Degree of the first filter, from random vectors: enough to see the spectrum.
_FIRST_DEGREE = 8
# The next filter is aimed at this fraction of the tolerance: a sweep that just
# misses it costs another Rayleigh-Ritz step, worth three products.
_AIM = 0.3
# A filter may leave rounding errors of this size, relative to a wanted vector.
_ROUNDING = 1e-4
# Part of a last-level cache that a block should fit into, and the fewest columns
# for which splitting a block to that end pays (docs/performance.md).
_CACHE_BYTES = 16 * 2**20
_NARROWEST = 16
# Sweeps without progress (1 %) after which the iteration gives up.
_PATIENCE = 8


@single_blas_thread()
def chebyshev(
    A: Any,
    k: int,
    *,
    tol: float = 1e-4,
    max_iter: int = 100,
    max_degree: int = 40,
    n_buffer: int | None = None,
    X0: ArrayLike | None = None,
    orthogonal_to: ArrayLike | None = None,
    bounds: SpectralBounds | None = None,
    random_state: Any = None,
    callback: Callable[[int, float], object] | None = None,
) -> EigenResult:
    r"""Largest eigenpairs of a symmetric operator by filtered subspace iteration.

    A block of ``k + n_buffer`` vectors is multiplied by a Chebyshev polynomial of
    the operator that is small on the unwanted part :math:`[a, b]` of the spectrum
    and grows fast above it, then orthonormalised and rotated to Ritz vectors.
    The cut :math:`b` follows the smallest Ritz value of the block, the degree
    follows the gap between it and the wanted values; converged leading vectors
    are locked. All work on long vectors is in blocks. Two blocks and the locked
    vectors are kept: about ``16 n (k + n_buffer) + 8 n k`` bytes in float64.

    Parameters
    ----------
    A : LinearOperator, sparse matrix or ndarray of shape (n, n)
        Symmetric. A float32 operator is iterated in float32, any other in
        float64. Orders up to ``2 (k + n_buffer)`` are solved densely.
    k : int
        Number of eigenpairs, ``1 <= k <= n``.
    tol : float, default=1e-4
        A pair has converged when its residual norm is at most `tol` times the
        spectral norm of the operator. In float32 little below 1e-5 is reached.
    max_iter : int, default=100
        Most filter sweeps.
    max_degree : int, default=40
        Cap on the degree of a filter.
    n_buffer : int or None, default=None
        Extra vectors: they widen the gap that the filter works on. None takes
        ``max(5, k // 10)``.
    X0 : array-like of shape (n, p) or None, default=None
        Approximate eigenvectors to start from, any number of them. With
        ``p >= k`` they are tried as they are before any filtering.
    orthogonal_to : array-like of shape (n, r) or None, default=None
        Orthonormal basis of an invariant subspace that is not wanted: the iterates
        are kept orthogonal to it, to rounding.
    bounds : SpectralBounds or None, default=None
        From `spectral_bounds`, if it was called already.
    random_state : int, RandomState instance or None, default=None
        For the vectors that `X0` does not supply.
    callback : callable or None, default=None
        Called after each sweep with the number of converged pairs and the
        largest residual norm among the wanted ones.

    Returns
    -------
    EigenResult
        `n_iter` counts filter sweeps. Residuals belong to the returned vectors
        and are measured with `A`.

    Raises
    ------
    ValueError
        If `A` is not square, `k` or another number does not fit it, the columns of
        `orthogonal_to` are not orthonormal, or the norm of `A` is not zero and below
        1e-140 or above 1e150.
    FloatingPointError
        If a product with the operator is not finite.

    References
    ----------
    Zhou, Saad, Tiago, Chelikowsky (2006), "Self-consistent-field calculations
    using Chebyshev-filtered subspace iteration", Journal of Computational
    Physics 219, 172-184.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from scalefair.linalg import chebyshev
    >>> A = sparse.diags_array(np.arange(200.0))
    >>> chebyshev(A, 2, tol=1e-8, random_state=0).values.round(6)
    array([199., 198.])
    """
    operator = as_symmetric_operator(A, k)
    n = operator.shape[0]
    start = np.empty((n, 0)) if X0 is None else as_block(X0, n, "X0")
    avoided = as_avoided(orthogonal_to, n, k)
    n_buffer = buffer_size(n_buffer, k)
    check_count("max_iter", max_iter, 1)
    check_count("max_degree", max_degree, 1)
    if n - avoided.shape[1] <= 2 * (k + n_buffer):
        return dense_eigh(operator, k, orthogonal_to=avoided)
    rng = check_random_state(random_state)
    if bounds is None:
        bounds = spectral_bounds(operator, random_state=rng)
    iteration = _Iteration(operator, k, k + n_buffer, tol, bounds, rng)
    iteration.start(start, avoided)
    given = start.shape[1] >= k
    degree = 0 if given else min(iteration.first_degree(), max_degree)
    best, stalled = math.inf, 0
    n_iter = 0
    while True:
        if degree:
            iteration.filter(degree)
            n_iter += 1
        iteration.rayleigh_ritz()
        n_converged, worst = iteration.progress()
        if callback is not None:
            callback(n_converged, worst)
        if n_converged == k:
            message = f"Converged in {n_iter} filter sweeps."
            break
        stalled = 0 if worst < 0.99 * best else stalled + 1
        best = min(best, worst)
        if n_iter >= max_iter:
            message = (
                f"Residual {worst:.1e} after max_iter = {max_iter} filter sweeps: "
                "raise max_iter or tol."
            )
            break
        if stalled >= _PATIENCE:
            message = f"The residual stays at {best:.1e}: raise tol" + (
                " or use float64." if iteration.dtype == np.float32 else "."
            )
            break
        if stalled == 2:
            iteration.unlock()
        else:
            iteration.lock()
        degree = min(iteration.wanted_degree(), max_degree, max(2 * degree, 16))
    return iteration.result(n_iter, n_converged == k, message)


class _Iteration:
    """State of the iteration: locked and active blocks, filter interval, counts."""

    def __init__(
        self,
        operator: LinearOperator,
        k: int,
        m: int,
        tol: float,
        bounds: SpectralBounds,
        rng: np.random.RandomState,
    ) -> None:
        self.operator = operator
        self.n = operator.shape[0]
        self.k, self.m = k, m
        self.dtype: np.dtype[Any] = np.dtype(
            np.float32 if operator.dtype == np.float32 else np.float64
        )
        self.epsilon = float(np.finfo(self.dtype).eps)
        self.rng = rng
        self.lower, self.upper = bounds.lower, bounds.upper
        # Ritz values bound the norm from below: the test errs on the strict side.
        self.scale = float(np.abs(bounds.nodes).max()) or 1.0  # 0: zero operator
        check_scale(self.scale)
        self.tol = tol * self.scale
        # A multiple of the identity has an interval of no width.
        self.cut = max(_first_cut(bounds, m / self.n), self.lower + 1e-6 * self.scale)
        self.X = np.empty((self.n, m), self.dtype)
        self.Y = np.empty_like(self.X)
        self.values = np.zeros(m)
        self.residuals = np.full(m, np.inf)
        self.avoided = np.empty((self.n, 0), self.dtype)
        self._set_locked(self.avoided, np.empty(0), np.empty(0))
        self.n_products = len(bounds.nodes)
        self.n_columns = len(bounds.nodes)

    def start(self, X0: NDArray[np.float64], avoided: NDArray[np.float64]) -> None:
        """Fill the block with the given vectors and random ones."""
        self.avoided = avoided.astype(self.dtype, copy=False)
        given = min(X0.shape[1], self.m)
        self.X[:, given:] = random_generator(self.rng).standard_normal(
            (self.n, self.m - given), dtype=self.dtype
        )
        self.X[:, :given] = X0[:, :given]
        block_subtract(self.X, self.avoided, block_gram(self.avoided, self.X))

    def filter(self, degree: int) -> None:
        """Multiply the active block by the scaled Chebyshev polynomial."""
        for columns in self._panels():
            X = np.ascontiguousarray(self.X[:, columns])
            self.Y[:, columns] = self._filter_panel(X, np.empty_like(X), degree)
        self.n_products += degree
        self.n_columns += degree * self.X.shape[1]
        self.X, self.Y = self.Y, self.X

    def _panels(self) -> list[slice]:
        """Columns that are filtered together.

        A sparse product gathers rows of its block at random. If a part of the block
        that is not too narrow fits the cache, the parts are filtered one after the
        other.
        """
        m = self.X.shape[1]
        if not getattr(self.operator, "gathers_rows", False):
            return [slice(0, m)]
        fits = _CACHE_BYTES // (self.n * self.dtype.itemsize)
        if not _NARROWEST <= fits < m:
            return [slice(0, m)]
        width = math.ceil(m / math.ceil(m / fits))
        return [slice(j, min(j + width, m)) for j in range(0, m, width)]

    def _filter_panel(self, X: np.ndarray, Y: np.ndarray, degree: int) -> np.ndarray:
        """Three-term recurrence from X; overwrites X and Y, returns one of them."""
        half_width = (self.cut - self.lower) / 2
        center = (self.cut + self.lower) / 2
        top = max(self.upper, self.cut + 1e-3 * half_width)
        sigma_1 = sigma = half_width / (top - center)  # scaled to 1 at the top
        apply_block(self.operator, X, Y, alpha=sigma_1 / half_width, shift=center)
        for _ in range(1, degree):
            sigma_new = 1 / (2 / sigma_1 - sigma)
            apply_block(
                self.operator,
                Y,
                X,
                alpha=2 * sigma_new / half_width,
                shift=center,
                beta=-sigma * sigma_new,
            )
            X, Y = Y, X
            sigma = sigma_new
        return Y

    def rayleigh_ritz(self) -> None:
        """Turn the active block into Ritz vectors; measure their residuals."""
        against = np.hstack([self.avoided, self.locked])
        self.X = orthonormalize(self.X, against=against, rng=self.rng)
        apply_block(self.operator, self.X, self.Y)
        self.n_products += 1
        self.n_columns += self.X.shape[1]
        projected = block_gram(self.X, self.Y)
        check_product(projected)
        self.values, S = eigh_descending(projected)
        self.residuals = rotate_ritz(self.X, self.Y, S, self.values)
        self.lower = min(self.lower, float(self.values[-1]))

    def progress(self) -> tuple[int, float]:
        """Converged pairs among the k largest, and their largest residual."""
        _, residuals = self._all_pairs()
        residuals = residuals[self._largest()]
        return int((residuals <= self.tol).sum()), float(residuals.max())

    def lock(self) -> None:
        """Set aside the leading active vectors that have converged."""
        wanted = self.k - self.locked.shape[1]
        ready = np.append(self.residuals[: max(wanted, 0)] <= self.tol, False)
        count = int(np.argmin(ready))
        if count == 0:
            return
        self._set_locked(
            np.hstack([self.locked, self.X[:, :count]]),
            np.append(self.locked_values, self.values[:count]),
            np.append(self.locked_residuals, self.residuals[:count]),
        )
        self._set_active(self.X[:, count:])
        self.values, self.residuals = self.values[count:], self.residuals[count:]

    def unlock(self) -> None:
        """Take all vectors up again: errors in locked ones hold the rest back."""
        self._set_active(np.hstack([self.locked, self.X]))
        self.values, self.residuals = self._all_pairs()
        self._set_locked(np.empty((self.n, 0), self.dtype), np.empty(0), np.empty(0))

    def first_degree(self) -> int:
        """Degree for random vectors, less if the largest value would drown the rest."""
        growth = self._growth(np.array([self.upper]))[0]
        return int(np.clip(-math.log(self.epsilon) / growth, 2, _FIRST_DEGREE))

    def wanted_degree(self) -> int:
        """Move the cut to the end of the block; degree that reaches the tolerance."""
        wanted = max(self.k - self.locked.shape[1], 1)
        values, residuals = self.values[:wanted], self.residuals[:wanted]
        end = float(self.values[-1])
        # Values closer together than their errors can tell are one multiple
        # eigenvalue: the cut then stays where it is, well below it.
        distinct = values[-1] - end > 1e-2 * float(residuals.max())
        # A residual far above the distance to the wanted values: the end of the block
        # is one of their copies, mixed with vectors about this far below.
        distance = max(float(values[-1]) - end, np.finfo(float).tiny)
        mixed = float(self.residuals[-1]) ** 2 / distance
        if mixed > 100 * distance and self.cut < values[-1]:
            self.cut = max(self.cut, float(values[-1]) - mixed / 2)
        elif distinct or not self.cut < values[-1]:
            # What lies within the tolerance of a wanted value does no harm.
            self.cut = min(end, float(values[-1]) - self.tol)
        self.cut = max(self.cut, self.lower + 1e-6 * self.scale)
        growth = self._growth(values)
        reduction = np.maximum(2 * residuals / (_AIM * self.tol), 1.0)
        degree = (np.log(reduction) / growth)[residuals > self.tol].max(initial=3.0)
        return int(max(min(degree, self._safe_degree(growth[-1])), 3.0))

    def _growth(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Logarithm of the growth of the filter per degree at the given values."""
        half_width = (self.cut - self.lower) / 2
        center = (self.cut + self.lower) / 2
        growth: NDArray[np.float64] = np.arccosh(
            np.maximum((values - center) / half_width, 1 + 1e-12)
        )
        return growth

    def _safe_degree(self, wanted_growth: float) -> float:
        """Degree up to which larger eigenvectors do not drown the wanted ones.

        Each vector holds about residual / scale of every other eigenvector, and
        the filter enlarges that of the largest ones most.
        """
        values, residuals = self._all_pairs()
        excess = np.maximum(self._growth(values) - wanted_growth, 1e-12)
        small = np.maximum(residuals / self.scale, self.epsilon)
        room = _ROUNDING / (self.epsilon * small)
        return float((np.log(np.maximum(room, 1.0)) / excess).min())

    def result(self, n_iter: int, converged: bool, message: str) -> EigenResult:
        values, residuals = self._all_pairs()
        largest = self._largest()
        return EigenResult(
            values=values[largest],
            vectors=orient(self._vectors(largest)),
            residual_norms=residuals[largest],
            n_products=self.n_products,
            n_columns=self.n_columns,
            n_iter=n_iter,
            converged=converged,
            message=message,
        )

    def _all_pairs(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Ritz values and residual norms, those of the locked vectors first."""
        return (
            np.append(self.locked_values, self.values),
            np.append(self.locked_residuals, self.residuals),
        )

    def _largest(self) -> NDArray[np.intp]:
        """Places of the k largest values among all."""
        values, _ = self._all_pairs()
        return np.argsort(-values, kind="stable")[: self.k]

    def _vectors(self, places: NDArray[np.intp]) -> NDArray[np.float64]:
        """Vectors of the pairs in the given places among all."""
        vectors = np.empty((self.n, len(places)))
        n_locked = self.locked.shape[1]
        from_locked = places < n_locked
        vectors[:, from_locked] = _take(self.locked, places[from_locked])
        vectors[:, ~from_locked] = _take(self.X, places[~from_locked] - n_locked)
        return vectors

    def _set_locked(
        self,
        vectors: np.ndarray,
        values: NDArray[np.float64],
        residuals: NDArray[np.float64],
    ) -> None:
        self.locked = np.ascontiguousarray(vectors)
        self.locked_values, self.locked_residuals = values, residuals

    def _set_active(self, X: np.ndarray) -> None:
        self.X = np.ascontiguousarray(X)
        self.Y = np.empty_like(self.X)


def _take(block: np.ndarray, columns: NDArray[np.intp]) -> np.ndarray:
    """Pick columns; as a slice, which is much faster, where they are consecutive."""
    if columns.size and (np.diff(columns) == 1).all():
        return block[:, columns[0] : columns[-1] + 1]
    return block[:, columns]


def _first_cut(bounds: SpectralBounds, fraction: float) -> float:
    """Cut with clearly more than the given fraction of the spectrum above it.

    A cut that is too low costs one filter some of its force; one that is too
    high makes it useless. Hence the factor ten.
    """
    above = np.cumsum(bounds.weights[::-1])[::-1]
    j = int(np.flatnonzero(above >= min(10 * fraction, 0.5)).max(initial=0))
    width = max(bounds.upper - bounds.lower, np.finfo(float).tiny)
    return max(float(bounds.nodes[j]), bounds.lower + 1e-3 * width)
