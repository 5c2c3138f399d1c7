"""Product of a Gaussian kernel matrix with a dense block of vectors.

The matrix is not stored: it is computed tile by tile, and a tile is used for two
products before it is forgotten, one for its rows and one, transposed, for its
columns. Tiles are scheduled in rounds, as in a tournament of the row blocks where
each meets every other one: the pairs of a round share no block, so that they may
write at the same time, and every sum is in the order of the rounds, whatever the
number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numba
import numpy as np
from numba.extending import overload

from scalefair._threads import cached_njit, parallel
from scalefair.kernels._arrays import FloatArray, Index, Scalar, read_only
from scalefair.kernels._block import combine

# A tile of 256 x 256 doubles is half a MiB: it stays in the second-level cache.
# Products of larger tiles were not faster, and small problems need enough pairs.
_TILE = 256
# Rows of a tile that are computed together.
_ROWS = 4

# 2^f = sum_k (f log 2)^k / k!; the rest is below the rounding error for |f| <= 1/2.
_TERMS_32 = tuple(np.float32(math.log(2) ** k / math.factorial(k)) for k in range(8))
_TERMS_64 = tuple(math.log(2) ** k / math.factorial(k) for k in range(14))


def rbf_tiles(points: FloatArray) -> FloatArray:
    """Cut points of shape (n, d) into blocks of 256, (n_blocks, d, 256).

    Zeros after the last point.
    """
    n, d = points.shape
    tiles = np.zeros((-(-n // _TILE), d, _TILE), points.dtype)
    for block, tile in enumerate(tiles):
        rows = points[block * _TILE : (block + 1) * _TILE]
        tile[:, : len(rows)] = rows.T
    return tiles


def rbf_matmat(
    tiles: FloatArray,
    X: FloatArray,
    out: FloatArray,
    alpha: Scalar,
    shift: Scalar,
    beta: Scalar,
) -> None:
    """Overwrite `out` with ``alpha * (K @ X - shift * X) + beta * out``.

    :math:`K_{ij} = 2^{-|p_i - p_j|^2}`, 0 below the smallest normal number, of points
    from `rbf_tiles` of the type of `X`; `out` is not read when ``beta == 0``. Distances
    are sums of squared differences: their errors are relative, and the diagonal is 1
    exactly. (Distances from ``p_i @ p_j`` were tried. In float32 they took a sixth less
    time with 100 coordinates, in float64 no less; their errors grow with
    :math:`|p_i|^2`.)
    """
    if X.size == 0:
        return
    n_blocks = tiles.shape[0]
    # In round r, block i meets block (r - i) modulo an odd number of blocks: each
    # pair meets once, each block meets itself once. An even number of blocks gets
    # an empty one more.
    n_rounds = n_blocks + 1 - n_blocks % 2
    n_workers = numba.get_num_threads()
    tile_buffers = np.empty((n_workers, _TILE * _TILE), X.dtype)
    product_buffers = np.empty((n_workers, _TILE * X.shape[1]), X.dtype)
    if beta == 0:
        out.fill(0)
    combine(out, beta, out, -alpha * shift, X)
    X = read_only(X)
    for r in range(n_rounds):
        _round(tiles, X, out, alpha, r, n_rounds, tile_buffers, product_buffers)


def rbf_columns(left: FloatArray, right: FloatArray, out: FloatArray) -> None:
    """Overwrite `out` with :math:`2^{-|p_i - q_j|^2}`, of two sets from `rbf_tiles`."""
    _columns(left, right, out, numba.get_num_threads())


# Two coordinates of four points at a time: fewer loads and stores per difference.
@cached_njit(nogil=True, fastmath={"contract"})
def _squared_distances(
    left: FloatArray, right: FloatArray, i: int, T: FloatArray
) -> None:
    d = left.shape[0]
    m = T.shape[1]
    for i_row in range(T.shape[0]):
        for j in range(m):
            T[i_row, j] = 0
    f = 0
    while f + 1 < d:
        a0, a1, a2, a3 = left[f, i], left[f, i + 1], left[f, i + 2], left[f, i + 3]
        b0 = left[f + 1, i]
        b1 = left[f + 1, i + 1]
        b2 = left[f + 1, i + 2]
        b3 = left[f + 1, i + 3]
        for j in range(m):
            p, q = right[f, j], right[f + 1, j]
            T[0, j] += (a0 - p) * (a0 - p) + (b0 - q) * (b0 - q)
            T[1, j] += (a1 - p) * (a1 - p) + (b1 - q) * (b1 - q)
            T[2, j] += (a2 - p) * (a2 - p) + (b2 - q) * (b2 - q)
            T[3, j] += (a3 - p) * (a3 - p) + (b3 - q) * (b3 - q)
        f += 2
    if f < d:
        for j in range(m):
            p = right[f, j]
            T[0, j] += (left[f, i] - p) ** 2
            T[1, j] += (left[f, i + 1] - p) ** 2
            T[2, j] += (left[f, i + 2] - p) ** 2
            T[3, j] += (left[f, i + 3] - p) ** 2


# Adding a large number rounds -t to an integer and leaves that in the last bits of
# the sum: shifted into the place of the exponent, they multiply the power of the
# fraction. Compiled to vector instructions, which calls of exp are not.
def _power_of_two(t: FloatArray) -> None:
    """Overwrite ``t >= 0`` with ``2**-t``, to about one unit in the last place."""
    raise NotImplementedError


def _power_of_two_32(t: FloatArray) -> None:
    lowest = np.float32(-126)
    rounder = np.float32(1.5 * 2**23)
    c0, c1, c2, c3, c4, c5, c6, c7 = _TERMS_32
    for j in range(t.size):
        s = max(np.float32(-t[j]), lowest)
        z = np.float32(s + rounder)
        f = s - (z - rounder)
        power = c7 * f + c6
        power = power * f + c5
        power = power * f + c4
        power = power * f + c3
        power = power * f + c2
        power = power * f + c1
        power = np.float32(power * f + c0)
        exponent = np.int32(z.view(np.int32) << 23)
        power = np.int32(power.view(np.int32) + exponent).view(np.float32)
        t[j] = power if s > lowest else 0


def _power_of_two_64(t: FloatArray) -> None:
    lowest = -1022.0
    rounder = 1.5 * 2.0**52
    c = _TERMS_64
    for j in range(t.size):
        s = max(np.float64(-t[j]), lowest)
        z = np.float64(s + rounder)
        f = s - (z - rounder)
        power = c[13] * f + c[12]
        power = power * f + c[11]
        power = power * f + c[10]
        power = power * f + c[9]
        power = power * f + c[8]
        power = power * f + c[7]
        power = power * f + c[6]
        power = power * f + c[5]
        power = power * f + c[4]
        power = power * f + c[3]
        power = power * f + c[2]
        power = power * f + c[1]
        power = np.float64(power * f + c[0])
        exponent = z.view(np.int64) << np.int64(52)
        power = np.int64(power.view(np.int64) + exponent).view(np.float64)
        t[j] = power if s > lowest else 0


# Called with the types of the arguments, but annotated as what it returns: Numba
# compares the signatures.
@overload(_power_of_two, jit_options={"fastmath": {"contract"}})
def _choose_power(t: FloatArray) -> Callable[[FloatArray], None]:
    return _power_of_two_32 if t.dtype == numba.float32 else _power_of_two_64


@cached_njit(nogil=True)
def _kernel_tile(left: FloatArray, right: FloatArray, T: FloatArray) -> None:
    """Overwrite T, a multiple of four rows, with the kernel of two blocks."""
    for i in range(0, T.shape[0], _ROWS):
        _squared_distances(left, right, i, T[i : i + _ROWS])
        _power_of_two(T[i : i + _ROWS].reshape(-1))


@cached_njit(nogil=True)
def _add(out: FloatArray, product: FloatArray, alpha: Scalar) -> None:
    for i in range(out.shape[0]):
        for c in range(out.shape[1]):
            out[i, c] += alpha * product[i, c]


@cached_njit(nogil=True)
def _add_pair(
    tiles: FloatArray,
    row: int,
    column: int,
    X: FloatArray,
    out: FloatArray,
    alpha: Scalar,
    tile_buffer: FloatArray,
    product_buffer: FloatArray,
) -> None:
    """Add to `out` what a tile of the kernel and its transpose contribute."""
    n, k = X.shape
    i0, j0 = row * _TILE, column * _TILE
    i1, j1 = min(n, i0 + _TILE), min(n, j0 + _TILE)
    n_rows, n_columns = i1 - i0, j1 - j0
    padded = (n_rows + _ROWS - 1) // _ROWS * _ROWS
    T = tile_buffer[: padded * n_columns].reshape(padded, n_columns)
    _kernel_tile(tiles[row], tiles[column], T)
    T = T[:n_rows]
    product = product_buffer[: n_rows * k].reshape(n_rows, k)
    np.dot(T, X[j0:j1], product)
    _add(out[i0:i1], product, alpha)
    if row != column:
        product = product_buffer[: n_columns * k].reshape(n_columns, k)
        np.dot(T.T, X[i0:i1], product)
        _add(out[j0:j1], product, alpha)


# Parallel functions hold the loop alone: what else they hold is compiled slowly.
@parallel(
    lambda tiles, X, *_: (
        tiles.shape[0] // 2 * _TILE**2 * (3 + 0.3 * tiles.shape[1] + 0.2 * X.shape[1])
    ),
    blas=True,
)
def _round(
    tiles: FloatArray,
    X: FloatArray,
    out: FloatArray,
    alpha: Scalar,
    r: int,
    n_rounds: int,
    tile_buffers: FloatArray,
    product_buffers: FloatArray,
) -> None:
    n_workers = tile_buffers.shape[0]
    for worker in numba.prange(n_workers):
        _worker_pairs(
            tiles,
            X,
            out,
            alpha,
            r,
            n_rounds,
            np.int64(worker),  # unsigned: all below would be compiled for it once more
            n_workers,
            tile_buffers[worker],
            product_buffers[worker],
        )


@cached_njit(nogil=True)
def _worker_pairs(
    tiles: FloatArray,
    X: FloatArray,
    out: FloatArray,
    alpha: Scalar,
    r: int,
    n_rounds: int,
    worker: Index,
    n_workers: int,
    tile_buffer: FloatArray,
    product_buffer: FloatArray,
) -> None:
    n_pairs = (n_rounds + 1) // 2
    itself = (r * n_pairs) % n_rounds
    for p in range(worker, n_pairs, n_workers):
        row = (itself + p) % n_rounds
        column = (itself - p) % n_rounds
        if max(row, column) < tiles.shape[0]:
            _add_pair(tiles, row, column, X, out, alpha, tile_buffer, product_buffer)


@parallel(lambda left, right, out, n_workers: out.size * (2 + 0.3 * left.shape[1]))
def _columns(
    left: FloatArray, right: FloatArray, out: FloatArray, n_workers: int
) -> None:
    for worker in numba.prange(n_workers):
        _worker_columns(left, right, out, np.int64(worker), n_workers)


@cached_njit(nogil=True)
def _worker_columns(
    left: FloatArray, right: FloatArray, out: FloatArray, worker: Index, n_workers: int
) -> None:
    buffer = np.empty(_TILE * _TILE, out.dtype)
    for row in range(worker, left.shape[0], n_workers):
        i0 = row * _TILE
        i1 = min(out.shape[0], i0 + _TILE)
        padded = (i1 - i0 + _ROWS - 1) // _ROWS * _ROWS
        for column in range(right.shape[0]):
            j0 = column * _TILE
            j1 = min(out.shape[1], j0 + _TILE)
            T = buffer[: padded * (j1 - j0)].reshape(padded, j1 - j0)
            _kernel_tile(left[row], right[column], T)
            for i in range(i0, i1):
                for j in range(j0, j1):
                    out[i, j] = T[i - i0, j - j0]
