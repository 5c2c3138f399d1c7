"""Gaussian kernel matrix: computed anew in every product, and of low rank."""

from __future__ import annotations

import math
from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair._docs import documented
from scalefair._entries import (
    all_finite,
    check_array,
    check_random_state,
    ignore_fp_warnings,
)
from scalefair._rounding import ROUNDING
from scalefair.kernels import (
    block_gram,
    block_multiply,
    block_subtract,
    rbf_columns,
    rbf_matmat,
    rbf_tiles,
    single_blas_thread,
)
from scalefair.operators._base import Array, TypedOperator, put_sum

# Most landmarks that are drawn at a time.
LANDMARK_BLOCK = 50

_TEXTS = {
    "gamma": """\
gamma : float or None, default=None
    :math:`\\gamma > 0`, in one over the squared unit of the features. None takes
    ``1 / d``, as `sklearn.metrics.pairwise.rbf_kernel` does.""",
    "raises": """\
Raises
------
TypeError
    If `X` is sparse, or `dtype` is neither float32 nor float64.
ValueError
    If `X` is not a table of finite numbers, the scaled features overflow, or another
    parameter is out of its range.""",
    "gamma_used": """\
gamma : float
    The value that is used.""",
    "at": """\
points : array-like of shape (m, d)
    Features, in the units of `X`.
B : ndarray of shape (n, k)
    Block.""",
}


class _GaussianKernel(TypedOperator):
    """Base of both kernels: turns features into points p, ``K_ij = 2**-|p_i - p_j|^2``.

    Points at which a kernel is evaluated are centred by the mean of its rows, too.
    """

    def __init__(self, X: Any, gamma: float | None, dtype: Any) -> None:
        X = _check_features(X)
        super().__init__(dtype, X.shape[0])
        self.gamma = 1.0 / X.shape[1] if gamma is None else float(gamma)
        if not 0 < self.gamma < math.inf:
            raise ValueError(f"gamma must be positive and finite, got {self.gamma}.")
        with ignore_fp_warnings():
            # It is subtracted: in float32 a large mean would leave few digits for the
            # differences.
            self._mean: Array = X.mean(axis=0)

    def _points(self, X: Any) -> Array:
        """Return centred features times sqrt(gamma / log 2): 2**x replaces exp(x)."""
        with ignore_fp_warnings():
            points: Array = _check_features(X) - self._mean
            points *= math.sqrt(self.gamma / math.log(2))
        return points

    def _at(self, points: Any, B: Any) -> tuple[Array, Array]:
        """Return other points, and a block to multiply there, after checks."""
        points, block = _check_features(points), np.ascontiguousarray(B, np.float64)
        (n, _), d = self.shape, len(self._mean)
        if points.shape[1] != d or block.ndim != 2 or len(block) != n:
            raise ValueError(
                f"points must have {d} features and B {n} rows, as X, got shapes "
                f"{points.shape} and {block.shape}."
            )
        return self._points(points), block


@documented(**_TEXTS)
class RBFKernel(_GaussianKernel):
    r"""Gaussian kernel matrix :math:`K_{ij} = \exp(-\gamma |x_i - x_j|^2)`.

    A product computes the matrix in tiles, each used for its rows and, transposed, for
    its columns: memory is that of the points and of the blocks.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Features, dense. Standardise them unless their units are comparable.
    %(gamma)s
    dtype : {np.float64, np.float32}, default=np.float64
        Type of the products. In float32 the entries are accurate to about 1e-6.

    Attributes
    ----------
    %(gamma_used)s

    %(raises)s

    References
    ----------
    Tonin, Lambert, Suykens, Cevher (2025), "Accelerating Spectral Clustering under
    Fairness Constraints", appendix D.

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.operators import RBFKernel
    >>> K = RBFKernel([[0.0], [1.0], [5.0]], gamma=np.log(2))
    >>> K @ np.array([1.0, 0.0, 0.0])
    array([1.00000000e+00, 5.00000000e-01, 2.98023224e-08])
    """

    def __init__(
        self, X: Any, *, gamma: float | None = None, dtype: Any = np.float64
    ) -> None:
        super().__init__(X, gamma, dtype)
        # Float64 points in tiles, (n_tiles, d, 256), padded by zeros; `_tiles` has the
        # type of the products.
        self._exact_tiles = rbf_tiles(self._points(X))
        self._set_type()

    def _set_type(self) -> None:
        with ignore_fp_warnings():
            self._tiles = self._exact_tiles.astype(self.dtype, copy=False)
        if not all_finite(self._tiles):
            raise ValueError(
                f"The features times the square root of gamma overflow {self.dtype}: "
                "rescale them or lower gamma."
            )

    def _apply(
        self, X: np.ndarray, out: np.ndarray, alpha: float, shift: float, beta: float
    ) -> None:
        real = self.dtype.type
        rbf_matmat(self._tiles, X, out, real(alpha), real(shift), real(beta))

    def matmat_at(self, points: Any, B: Any) -> Array:
        r"""Product of the kernel's rows at other points with a block, in float64.

        Parameters
        ----------
        %(at)s

        Returns
        -------
        ndarray of shape (m, k)
            Sums over all :math:`x_j` of :math:`\exp(-\gamma |p_i - x_j|^2) b_j`.
        """
        queries, B = self._at(points, B)
        out = np.zeros((len(queries), B.shape[1]))
        # A tile of queries at a time. K has a row for each x_j of a chunk and a column
        # for each query: K^T B[rows] is summed over the chunks.
        block_size = self._exact_tiles.shape[2]
        for start in range(0, len(queries), block_size):
            block = slice(start, start + block_size)
            for rows, K in _kernel_columns(self._exact_tiles, len(B), queries[block]):
                out[block] += block_gram(K, B[rows])
        return out


@documented(**_TEXTS)
class NystroemKernel(_GaussianKernel):
    r"""Low-rank approximation :math:`W = Z Z^T` of a Gaussian kernel matrix `K`.

    The Nyström approximation :math:`W = C U^+ C^T`: the columns of `C` are those of `K`
    for some points, the landmarks, and `U` their rows of `C`. Randomly pivoted Cholesky
    draws the landmarks in blocks, one half in proportion to the residual of the
    diagonal of `K`, the other to that of the normalised kernel :math:`D^{-1/2} K
    D^{-1/2}`. Points far from the others dominate the leading eigenvectors of that one.

    :math:`K - W` is positive semidefinite. The factor takes ``8 n r`` bytes for ``r``
    landmarks and time that grows with :math:`n r^2`. `NormalizedOperator` refuses a row
    sum that is not positive: more landmarks or a smaller `gamma` help.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Features, dense, as for `RBFKernel`.
    %(gamma)s
    n_landmarks : int, default=500
        Most columns of `Z`. Look at the errors below before a result is trusted.
    dtype : {np.float64, np.float32}, default=np.float64
        Type of `Z` and of the products.
    %(random_state)s

    Attributes
    ----------
    %(gamma_used)s
    landmarks : ndarray of shape (n_drawn,)
        Rows of `X` that were drawn.
    factor : ndarray of shape (n, rank)
        `Z`. Its rank is below `n_landmarks` if there are fewer rows, or if
        `trace_error` is at most 1e-12.
    trace_error : float
        :math:`\mathrm{tr}(K - W) / \mathrm{tr}\, K`, the error in the nuclear norm.
    frobenius_error : float
        Estimate of :math:`|K - W|_F / |K|_F` from 256 exact rows.
    frobenius_error_std : float
        Standard error of that estimate.

    %(raises)s

    References
    ----------
    Chen, Epperly, Tropp, Webber (2025), "Randomly pivoted Cholesky", Communications on
    Pure and Applied Mathematics 78, 995-1041.

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.operators import NystroemKernel
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> W = NystroemKernel(X, n_landmarks=100, random_state=0)
    >>> W.factor.shape, W.trace_error < 1e-3
    ((1000, 100), True)
    """

    def __init__(
        self,
        X: Any,
        *,
        gamma: float | None = None,
        n_landmarks: int = 500,
        dtype: Any = np.float64,
        random_state: Any = None,
    ) -> None:
        super().__init__(X, gamma, dtype)
        if not isinstance(n_landmarks, Integral) or n_landmarks < 1:
            raise ValueError(
                f"n_landmarks must be a positive integer, got {n_landmarks!r}."
            )
        rng = check_random_state(random_state)
        points = self._points(X)
        if not np.isfinite(points).all():
            raise ValueError(
                "The features times the square root of gamma overflow: rescale them."
            )
        # The factor, and its error: exact in the trace, sampled in the Frobenius norm.
        Z, landmarks, self.trace_error = _pivoted_cholesky(
            points, min(int(n_landmarks), self.shape[0]), rng
        )
        self.landmarks: NDArray[np.int64] = landmarks
        self._landmark_points: Array = points[landmarks]
        self.frobenius_error, self.frobenius_error_std = _sampled_error(points, Z, rng)
        self.factor: np.ndarray = Z
        self._set_type()

    def _set_type(self) -> None:
        self.factor = self.factor.astype(self.dtype, copy=False)

    def _apply(
        self, X: np.ndarray, out: np.ndarray, alpha: float, shift: float, beta: float
    ) -> None:
        # alpha (Z Z^T - shift I) X + beta out
        put_sum(X, out, -alpha * shift, beta)
        block_subtract(out, self.factor, -alpha * block_gram(self.factor, X))

    def matmat_at(self, points: Any, B: Any) -> Array:
        """Product of the approximation's rows at other points with a block.

        The factor gets a row for each point: it reproduces the kernel between the point
        and the landmarks.

        Parameters
        ----------
        %(at)s

        Returns
        -------
        ndarray of shape (m, k)
            The sums that `RBFKernel.matmat_at` forms, approximately, in float64.
        """
        queries, B = self._at(points, B)
        Z: Any = self.factor.astype(np.float64, copy=False)
        out = np.empty((len(queries), B.shape[1]))
        with single_blas_thread():
            # The row z of a point solves Z_L z = k_L. Z_L has the rows of the landmarks
            # in Z, k_L is the kernel between them and the point.
            # Thus z^T Z^T B = k_L^T (Z_L^T)^+ Z^T B.
            coefficients = np.linalg.pinv(Z[self.landmarks].T) @ block_gram(Z, B)
            tiles = rbf_tiles(queries)
            for rows, K in _kernel_columns(tiles, len(out), self._landmark_points):
                out[rows] = K @ coefficients
        return out


def _pivoted_cholesky(
    points: Array, max_rank: int, rng: np.random.RandomState
) -> tuple[Array, NDArray[np.int64], float]:
    """Factor Z of the kernel K, the landmarks, and trace(K - Z Z^T) / trace(K).

    Block variant of the algorithm of Chen et al. Invariant: Z[:, :rank] Z[:, :rank]^T
    agrees with K in the rows and columns of the landmarks, up to pivots of 1e-12.
    """
    n = len(points)
    tiles = rbf_tiles(points)
    Z = np.empty((n, max_rank))
    diagonal = np.ones(n)  # of K - Z Z^T
    degrees = _estimated_degrees(tiles, points, rng)
    landmarks: list[NDArray[np.int64]] = []
    rank = 0
    while rank < max_rank and diagonal.sum() > n * ROUNDING:
        # 1. Draw half of the landmarks by the diagonal of the residual of K, half by
        # that of the normalised kernel. Landmarks drawn before have probability 0.
        size = min(LANDMARK_BLOCK, max_rank - rank)
        normalized = diagonal / degrees
        probability = (diagonal / diagonal.sum() + normalized / normalized.sum()) / 2
        drawn = np.unique(rng.choice(n, size=size, p=probability))
        # 2. A is the residual at the new landmarks, and T whitens it: T^T A T = I, but
        # for zero columns.
        Z_drawn = Z[drawn, :rank]
        whitening = _whiten(points[drawn], Z_drawn)
        n_pivots = whitening.any(axis=0).sum()
        # 3. New columns of Z: those of the residual at the new landmarks, times T. The
        # diagonal falls by their squares.
        for rows, columns in _kernel_columns(tiles, n, points[drawn]):
            block_subtract(columns, np.ascontiguousarray(Z[rows, :rank]), Z_drawn.T)
            block_multiply(columns, whitening, columns)
            Z[rows, rank : rank + n_pivots] = columns[:, :n_pivots]
            diagonal[rows] -= np.square(columns).sum(axis=1)
        np.maximum(diagonal, 0, out=diagonal)  # rounding
        diagonal[drawn] = 0
        landmarks.append(drawn)
        rank += n_pivots
    if rank < max_rank:
        Z = Z[:, :rank].copy()
    return Z, np.concatenate(landmarks), float(diagonal.sum() / n)


def _kernel_columns(
    tiles: NDArray[np.floating[Any]], n: int, centres: Array
) -> Iterator[tuple[slice, Array]]:
    """Yield columns of the kernel at the centres, a chunk of rows at a time.

    A chunk is a slice of the n tiled points, and their kernel (rows, len(centres)).
    """
    centre_tiles, width = rbf_tiles(centres), tiles.shape[2]
    # 64 tiles are 16384 rows: a chunk takes 128 KiB for each centre, 6.5 MB for a block
    # of 50 landmarks.
    for first in range(0, len(tiles), 64):
        chunk, start = tiles[first : first + 64], first * width
        rows = slice(start, min(n, start + len(chunk) * width))
        columns = np.empty((rows.stop - start, len(centres)))
        rbf_columns(chunk, centre_tiles, columns)
        yield rows, columns


def _estimated_degrees(
    tiles: NDArray[np.floating[Any]], points: Array, rng: np.random.RandomState
) -> Array:
    """Row sums of the kernel from some of its columns; at least 1, its diagonal."""
    n = len(points)
    # From 1024 columns: the error of a mean is 3 % of the row's standard deviation.
    drawn = rng.choice(n, size=min(n, 1024), replace=False)
    degrees = np.empty(n)
    for rows, columns in _kernel_columns(tiles, n, points[drawn]):
        degrees[rows] = columns.mean(axis=1)
    return np.maximum(degrees * n, 1)


def _whiten(points: Array, Z: Array) -> Array:
    """Square T with ``T^T A T = I`` for the residual A = K - Z Z^T of some points.

    The pivots are the eigenvalues of A. Columns of T are zero, and last, where they are
    rounding errors.
    """
    tiles = rbf_tiles(points)
    residual = np.empty((len(points), len(points)))
    rbf_columns(tiles, tiles, residual)
    with single_blas_thread():
        residual -= Z @ Z.T
        values, vectors = np.linalg.eigh(residual)
    values, vectors = values[::-1], vectors[:, ::-1]
    is_pivot = values > ROUNDING
    return vectors * np.where(is_pivot, 1 / np.sqrt(np.where(is_pivot, values, 1)), 0)


def _sampled_error(
    points: Array, Z: Array, rng: np.random.RandomState
) -> tuple[float, float]:
    """Estimate of |K - Z Z^T|_F / |K|_F from some rows, and its standard error."""
    n = len(points)
    m = min(n, 256)  # the documented number of rows
    drawn = rng.choice(n, size=m, replace=False)
    # Squared norms of the sampled rows of K - Z Z^T and of K.
    errors, norms = np.zeros(m), np.zeros(m)
    for rows, columns in _kernel_columns(rbf_tiles(points), n, points[drawn]):
        norms += np.square(columns).sum(axis=0)
        block_subtract(columns, np.ascontiguousarray(Z[rows]), Z[drawn].T)
        errors += np.square(columns).sum(axis=0)
    ratio = errors.sum() / norms.sum()
    # Linearised variance of a ratio of means, drawn without replacement (Cochran 1977,
    # "Sampling techniques", chapter 6). The standard error of its square root follows
    # by the delta method.
    variance = np.square(errors - ratio * norms).sum() / max(m - 1, 1) / m * (1 - m / n)
    ratio_std = math.sqrt(variance) / norms.mean()
    estimate = math.sqrt(ratio)
    return estimate, ratio_std / (2 * estimate) if estimate > 0 else 0.0


def _check_features(X: Any) -> Array:
    """Check a table of finite numbers; return it in float64."""
    if sparse.issparse(X):
        raise TypeError(
            "A Gaussian kernel takes dense features, got a sparse matrix: reduce it by "
            "sklearn.decomposition.TruncatedSVD, or use a nearest-neighbour graph."
        )
    checked: Array = check_array(X, dtype=np.float64, input_name="X")
    return checked
