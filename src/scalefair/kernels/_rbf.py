"""Product of a Gaussian kernel matrix with a dense block of vectors.

The caller scales the features, ``p = sqrt(gamma / log(2)) x``, so that the kernel
``exp(-gamma |x_i - x_j|^2)`` is :math:`2^{-|p_i - p_j|^2}`: powers of two are cheap.

The matrix is not stored: it is computed tile by tile. Each tile is used for two
products, one for its rows and one, transposed, for its columns. Pairs of row blocks are
scheduled in rounds, as in a round-robin tournament: the pairs of a round share no
block, so that threads can write at the same time. Every sum is in the order of the
rounds, whatever the number of threads.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numba.extending import overload

from scalefair._threads import cached_njit, parallel
from scalefair.kernels._arrays import FloatArray, Scalar, read_only
from scalefair.kernels._block import combine

# Points of a block. A tile of 256 x 256 doubles is half a MiB and fits the second-level
# cache. Larger tiles were not faster, and small problems need enough pairs of blocks.
TILE_POINTS = 256


def rbf_tiles(points: FloatArray) -> FloatArray:
    """Cut points (n, d) into blocks of 256, transposed: (n_blocks, d, 256).

    The last block is filled up with zeros.
    """
    n, d = points.shape
    # Coordinate f of all points of a block is one row: loops over points run along
    # memory.
    tiles = np.zeros((-(-n // TILE_POINTS), d, TILE_POINTS), points.dtype)
    for block, tile in enumerate(tiles):
        rows = points[block * TILE_POINTS : (block + 1) * TILE_POINTS]
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
    exactly. (Distances from ``p_i @ p_j`` took a sixth less time in float32 with 100
    coordinates, and no less in float64; their errors grow with :math:`|p_i|^2`.)
    """
    if X.size == 0:
        return
    n_blocks = tiles.shape[0]
    # In round r, block i is paired with block (r - i) modulo an odd number of blocks:
    # each pair occurs once, and each block is paired once with itself. To an even
    # number of blocks an empty one is added.
    n_rounds = n_blocks + 1 - n_blocks % 2
    # Buffers for each thread: one tile, and its product with k columns.
    n_workers = numba.get_num_threads()
    tile_buffers = np.empty((n_workers, TILE_POINTS**2), X.dtype)
    product_buffers = np.empty((n_workers, TILE_POINTS * X.shape[1]), X.dtype)
    # First beta out - alpha shift X, to which the pairs of blocks are added.
    if beta == 0:
        out.fill(0)  # it may hold NaN
    combine(out, beta, out, -alpha * shift, X)
    X = read_only(X)
    # Within a round no two pairs share a block, so that threads write to rows of their
    # own. A round ends before the next one begins.
    for r in range(n_rounds):
        arguments = tiles, X, out, alpha, r, n_rounds, tile_buffers, product_buffers
        _round(n_workers, *arguments)


def rbf_columns(P: FloatArray, Q: FloatArray, out: FloatArray) -> None:
    """Overwrite `out` with :math:`2^{-|p_i - q_j|^2}`, of two sets from `rbf_tiles`."""
    _columns(P, Q, out, numba.get_num_threads())


# Two coordinates of four points at a time: fewer loads and stores for each difference.
@cached_njit(nogil=True, fastmath={"contract"})
def _squared_distances(P, Q, i, T):
    """Overwrite four rows T with the squared distances of points i to i + 3 of P to Q.

    Coordinates are rows of P and Q.
    """
    d = P.shape[0]
    m = T.shape[1]
    for r in range(T.shape[0]):
        for j in range(m):
            T[r, j] = 0
    # T[r, j] = |p_(i + r) - q_j|^2: 3 flops for each coordinate and entry, on columns
    # of Q that are contiguous: the loops over j become vector instructions.
    # Squared differences of coordinates f and f + 1, then of the last if d is odd.
    f = 0
    while f + 1 < d:
        a0, a1, a2, a3 = P[f, i], P[f, i + 1], P[f, i + 2], P[f, i + 3]
        b0 = P[f + 1, i]
        b1 = P[f + 1, i + 1]
        b2 = P[f + 1, i + 2]
        b3 = P[f + 1, i + 3]
        for j in range(m):
            p, q = Q[f, j], Q[f + 1, j]
            T[0, j] += (a0 - p) * (a0 - p) + (b0 - q) * (b0 - q)
            T[1, j] += (a1 - p) * (a1 - p) + (b1 - q) * (b1 - q)
            T[2, j] += (a2 - p) * (a2 - p) + (b2 - q) * (b2 - q)
            T[3, j] += (a3 - p) * (a3 - p) + (b3 - q) * (b3 - q)
        f += 2
    if f < d:
        for j in range(m):
            p = Q[f, j]
            T[0, j] += (P[f, i] - p) ** 2
            T[1, j] += (P[f, i + 1] - p) ** 2
            T[2, j] += (P[f, i + 2] - p) ** 2
            T[3, j] += (P[f, i + 3] - p) ** 2


# 2^-t = 2^f 2^i with the integer i nearest to -t and f = -t - i. In the sum of -t and
# 1.5 * 2^nmant (nmant bits of the mantissa) the last bit is worth one, so that the sum
# is rounded to i, and has i in its last bits. Shifted to the position of the exponent,
# and added to the bits of 2^f, they multiply it by 2^i. This is compiled to vector
# instructions, unlike calls of exp.
def _power_of_two(t):
    """Overwrite ``t >= 0`` with ``2**-t``, to about one unit in the last place."""
    raise NotImplementedError


def _make_power(real, integer, n_terms):
    """Return `_power_of_two` for one type and the integer type of the same size.

    `n_terms` of the series, so that what is left out is below rounding.
    """
    # 2**minexp is the smallest normal number, nmant the bits of the mantissa.
    info = np.finfo(real)
    smallest_exponent = real(info.minexp)
    mantissa_bits = integer(info.nmant)
    rounder = real(1.5 * 2.0**info.nmant)
    # 2^f = sum_k (f log 2)^k / k!; the remainder is below rounding for |f| <= 1/2.
    terms = [math.log(2) ** k / math.factorial(k) for k in range(n_terms)]
    coefficients = tuple(map(real, reversed(terms)))

    def power_of_two(t):
        for j in range(t.size):
            # 1. Split the exponent s = -t into i + f. Below the smallest exponent 2^s
            #    is subnormal: it becomes 0 in the end.
            s = max(real(-t[j]), smallest_exponent)
            z = real(s + rounder)
            f = s - (z - rounder)
            # 2. 2^f, between 0.7 and 1.4.
            power = coefficients[0]
            for k in range(1, n_terms):  # Horner's rule for 2^f
                power = real(power * f + coefficients[k])
            # 3. Add i to the exponent's bits of 2^f.
            mantissa = real(power)
            exponent = integer(z.view(integer) << mantissa_bits)  # i, the rest is lost
            bits = integer(mantissa.view(integer) + exponent)
            t[j] = bits.view(real) if s > smallest_exponent else 0

    return power_of_two


_power_of_two_32 = _make_power(np.float32, np.int32, 8)
_power_of_two_64 = _make_power(np.float64, np.int64, 14)


@overload(_power_of_two, jit_options={"fastmath": {"contract"}})
def _choose_power(t):
    return _power_of_two_32 if t.dtype == numba.float32 else _power_of_two_64


@cached_njit(nogil=True)
def _kernel_tile(P, Q, T):
    """Overwrite T, a multiple of four rows, with the kernel of two blocks.

    Four rows at a time: their distances are in the cache when powers are taken.
    """
    for i in range(0, T.shape[0], 4):
        _squared_distances(P, Q, i, T[i : i + 4])
        _power_of_two(T[i : i + 4].reshape(-1))


@cached_njit(nogil=True)
def _add(out, product, alpha):
    """Overwrite `out` with ``out + alpha product``; slices are compiled slowly."""
    for i in range(out.shape[0]):
        for c in range(out.shape[1]):
            out[i, c] += alpha * product[i, c]


@cached_njit(nogil=True)
def _add_pair(tiles, row, column, X, out, alpha, tile_buffer, product_buffer):
    """Add to `out` the products of the tile (row, column) and of its transpose.

    The kernel is symmetric: the transpose is the tile (column, row).
    """
    n, k = X.shape
    i0, j0 = row * TILE_POINTS, column * TILE_POINTS
    i1, j1 = min(n, i0 + TILE_POINTS), min(n, j0 + TILE_POINTS)
    n_rows, n_columns = i1 - i0, j1 - j0
    padded = (n_rows + 3) // 4 * 4  # four rows are computed together
    T = tile_buffer[: padded * n_columns].reshape(padded, n_columns)
    _kernel_tile(tiles[row], tiles[column], T)
    T = T[:n_rows]
    # out_I <- out_I + alpha K_IJ X_J, and out_J <- out_J + alpha K_IJ^T X_I.
    # The tile costs n_rows n_columns (3 d + some 40) flops, each product 2 k more.
    product = product_buffer[: n_rows * k].reshape(n_rows, k)
    np.dot(T, X[j0:j1], product)
    _add(out[i0:i1], product, alpha)
    if row != column:
        product = product_buffer[: n_columns * k].reshape(n_columns, k)
        np.dot(T.T, X[i0:i1], product)
        _add(out[j0:j1], product, alpha)


# Parallel functions contain only the loop: all that they contain is compiled slowly.
# The loop variable is unsigned; as int64 it causes no second compilation below.
@parallel(
    lambda n_workers, tiles, X, *_: (
        len(X) * TILE_POINTS / 2 * (3 + 0.3 * tiles.shape[1] + 0.2 * X.shape[1])
    ),
    blas=True,
)
def _round(n_workers, *arguments):
    """Share the pairs of one round among the threads."""
    for worker in numba.prange(n_workers):
        _worker_pairs(np.int64(worker), *arguments)


@cached_njit(nogil=True)
def _worker_pairs(
    worker, tiles, X, out, alpha, r, n_rounds, tile_buffers, product_buffers
):
    """Add the products of every n-th pair of round r, of n threads."""
    # Worker w of n takes the pairs w, w + n, w + 2 n, ...
    buffers = tile_buffers[worker], product_buffers[worker]
    n_pairs = (n_rounds + 1) // 2
    # All numbers are modulo n_rounds. The blocks of a pair add up to r. The centre s,
    # with 2 s = r, is paired with itself; the other pairs are (s + p, s - p). As
    # 2 n_pairs = n_rounds + 1 is 1, s is r n_pairs.
    centre = (r * n_pairs) % n_rounds
    for p in range(worker, n_pairs, tile_buffers.shape[0]):
        row = (centre + p) % n_rounds
        column = (centre - p) % n_rounds
        if max(row, column) < tiles.shape[0]:  # neither is the empty block
            _add_pair(tiles, row, column, X, out, alpha, *buffers)


@parallel(lambda P, Q, out, n_workers: out.size * (2 + 0.3 * P.shape[1]))
def _columns(P, Q, out, n_workers):
    """Share the rows of tiles among the threads."""
    for worker in numba.prange(n_workers):
        _worker_columns(P, Q, out, np.int64(worker), n_workers)


@cached_njit(nogil=True)
def _worker_columns(P, Q, out, worker, n_workers):
    """Compute every n-th row of tiles, of n threads.

    Each tile is copied to `out`, (n_p, n_q), without its padding.
    """
    buffer = np.empty(TILE_POINTS * TILE_POINTS, out.dtype)
    for row in range(worker, P.shape[0], n_workers):
        # Rows are padded with zeros by `rbf_tiles`; the surplus ones are not copied.
        i0 = row * TILE_POINTS
        i1 = min(out.shape[0], i0 + TILE_POINTS)
        padded = (i1 - i0 + 3) // 4 * 4
        for column in range(Q.shape[0]):
            j0 = column * TILE_POINTS
            j1 = min(out.shape[1], j0 + TILE_POINTS)
            T = buffer[: padded * (j1 - j0)].reshape(padded, j1 - j0)
            _kernel_tile(P[row], Q[column], T)
            for i in range(i0, i1):
                for j in range(j0, j1):
                    out[i, j] = T[i - i0, j - j0]
