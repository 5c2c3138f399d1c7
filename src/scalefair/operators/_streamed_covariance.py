"""Moments of groups of rows that come in batches, multiplied by and never formed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair._docs import documented
from scalefair._entries import check_product, judged_later, refuse_entries
from scalefair.kernels import dense_rows_gram, dense_rows_matmat, dense_rows_moments
from scalefair.operators._base import TEXTS, Array, ProductOperator
from scalefair.operators._group_covariance import WeightedCovariances, check_codes

Batches = Callable[[], Iterable[tuple[np.ndarray, np.ndarray]]]

_OF_COVARIANCE = {
    "of_covariance": """\
Parameters
----------
covariance : StreamedCovariance
    Gives the batches and groups; its weights play no part.

Attributes
----------
counts, means, n_passes
    Those of the covariance."""
}


class _StreamedOperator(ProductOperator):
    """Operator whose product is a sum over batches of rows: one pass for a block."""

    counts: NDArray[np.int64]
    means: Array

    def __init__(self, rows: _Rows, dtype: Any) -> None:
        super().__init__(dtype, rows.means.shape[1])
        self._rows, self.counts, self.means = rows, rows.counts, rows.means

    @property
    def n_passes(self) -> int:
        """Passes over the batches so far, of all operators that share them."""
        return self._rows.n_passes


@documented(**TEXTS)
class StreamedCovariance(WeightedCovariances, _StreamedOperator):
    r"""Weighted sum of the covariances of groups whose rows come in batches.

    .. math::

        \sum_g w_g C_g, \qquad
        C_g = \frac{1}{N_g - 1} \sum_{i \in g} (x_i - \mu_g)(x_i - \mu_g)^T

    Weights 1 and -1 make it the difference of two covariances. Rows are not kept: a
    pass over the batches, here and for each product with a block of any width, reads
    them anew, as where they are the activations of a network that is run again. The
    covariance of a group of one row is zero. Memory: the batch at hand, the block, and
    up to 64 MiB of partial sums.

    Parameters
    ----------
    batches : callable
        Called without arguments for each pass, returns an iterable of
        ``(rows, codes)``: a float32 or float64 array of shape (b, n) and the group of
        each of its rows, integers from 0 to ``n_codes - 1``. Every pass must deliver
        the same rows.
    n_codes : int
        Number of groups G.
    %(weights)s
    %(dtype)s
        Counts and means are those of float64 sums in either case.

    Attributes
    ----------
    %(group_attributes)s
    n_passes : int
        Passes over the batches so far, with those of operators made from this one.

    Raises
    ------
    ValueError
        If there is no row, a group has none, rows and codes do not fit, an entry is
        not finite, or a later pass delivers another number of rows.
    %(type_error)s

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.operators import StreamedCovariance
    >>> X = np.array([[0.0, 1.0], [2.0, 1.0], [4.0, 0.0], [4.0, 4.0]])
    >>> codes = np.array([0, 0, 1, 1])
    >>> def batches():
    ...     for start in range(0, 4, 3):
    ...         yield X[start : start + 3], codes[start : start + 3]
    >>> C = StreamedCovariance(batches, 2, [-1.0, 1.0])
    >>> C @ np.eye(2)
    array([[-2.,  0.],
           [ 0.,  8.]])
    >>> C.n_passes
    2
    """

    def __init__(
        self,
        batches: Batches,
        n_codes: int,
        weights: ArrayLike,
        *,
        dtype: Any = np.float64,
    ) -> None:
        self._set_weights(weights, n_codes)
        _StreamedOperator.__init__(self, _Rows(batches, n_codes), dtype)

    def code_products(self, V: ArrayLike) -> np.ndarray:
        """Return the products ``C_g @ V`` of every group, in one pass.

        The weights play no part.

        Parameters
        ----------
        V : ndarray of shape (n, k)
            Block of vectors.

        Returns
        -------
        ndarray of shape (G, n, k)
            Products, of the operator's dtype.
        """
        V = self._as_block(V)
        with judged_later():
            products = self._rows.code_products([V] * self.counts.size)
        check_product(products)
        return products

    def _grams(self, V: np.ndarray) -> Array:
        return self._rows.compress(V)

    def _product(self, X: np.ndarray) -> np.ndarray:
        coefficients = self.weights * self._rows.scales
        return self._rows.product(X, self._rows.means, coefficients)


class _OfCovariance(_StreamedOperator):
    """Another operator of the batches of a covariance."""

    def __init__(self, covariance: StreamedCovariance) -> None:
        super().__init__(covariance._rows, covariance.dtype)


@documented(**_OF_COVARIANCE)
class StreamedSecondMoment(_OfCovariance):
    r"""Second moment about the origin, :math:`\sum_i x_i x_i^T`, of rows in batches.

    %(of_covariance)s

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.operators import StreamedCovariance, StreamedSecondMoment
    >>> def batches():
    ...     yield np.array([[1.0, 2.0], [3.0, 0.0]]), np.array([0, 1])
    >>> StreamedSecondMoment(StreamedCovariance(batches, 2, [-1, 1])) @ np.eye(2)
    array([[10.,  2.],
           [ 2.,  4.]])
    """

    def _product(self, X: np.ndarray) -> np.ndarray:
        origin = np.zeros_like(self._rows.means)
        return self._rows.product(X, origin, np.ones(self.counts.size))


@documented(**_OF_COVARIANCE)
class StreamedSquaredDifferences(_OfCovariance):
    r"""Sum of the squared differences of the covariances of all pairs of groups.

    .. math::

        \sum_{a < b} (C_b - C_a)^2 = \sum_g C_g (G C_g - \sum_h C_h)

    The right-hand side takes two passes for any number G of groups. Eigenvectors for
    large eigenvalues are the directions in which covariances differ most over all
    pairs.

    %(of_covariance)s

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.operators import StreamedCovariance, StreamedSquaredDifferences
    >>> rows = np.array([[1.0, 2.0], [3.0, 0.0], [4.0, 1.0], [0.0, 1.0]])
    >>> def batches():
    ...     yield rows, np.array([0, 0, 1, 1])
    >>> C = StreamedCovariance(batches, 2, [-1, 1])
    >>> (StreamedSquaredDifferences(C) @ np.eye(2)).round(10)
    array([[40.,  8.],
           [ 8.,  8.]])
    """

    def _product(self, X: np.ndarray) -> np.ndarray:
        n_codes = self.counts.size
        products = self._rows.code_products([X] * n_codes)
        total = products.sum(axis=0)
        products *= n_codes
        products -= total
        out: np.ndarray = self._rows.code_products(list(products)).sum(axis=0)
        return out


class _Rows:
    """The batches, with the counts and means that the first pass found."""

    def __init__(self, batches: Batches, n_codes: int) -> None:
        self.batches = batches
        self.n_codes = int(n_codes)
        self.n_passes = 0
        self.n_rows: int | None = None  # not known yet
        self.counts, self.means = self._first_pass()
        # 1 / (N_g - 1), and no covariance where there is one row only.
        self.scales = np.where(self.counts > 1, 1 / np.maximum(self.counts - 1, 1), 0.0)

    def product(
        self, X: np.ndarray, centres: np.ndarray, coefficients: np.ndarray
    ) -> np.ndarray:
        """Sum of ``coefficients[g] Z_g^T Z_g X`` over the groups, one pass."""
        centres = centres.astype(X.dtype, copy=False)
        coefficients = coefficients.astype(X.dtype)
        out = np.zeros_like(X)
        for A, codes in self._pass():
            out += dense_rows_matmat(A, codes, centres, coefficients, X)
        return out

    def code_products(self, blocks: list[np.ndarray]) -> np.ndarray:
        """Products ``C_g @ blocks[g]``, one pass."""
        dtype = blocks[0].dtype
        centres = self.means.astype(dtype, copy=False)
        out = np.zeros((self.n_codes, *blocks[0].shape), dtype)
        if out.size == 0:
            return out
        for A, codes in self._pass():
            present = np.unique(codes)
            for g in present[self.counts[present] > 1]:
                only = np.zeros(self.n_codes, dtype)
                only[g] = self.scales[g]
                out[g] += dense_rows_matmat(A, codes, centres, only, blocks[g])
        return out

    def compress(self, V: np.ndarray) -> Array:
        """Return the small matrices ``V.T @ C_g @ V``, one pass."""
        centres = self.means.astype(V.dtype, copy=False)
        grams = np.zeros((self.n_codes, V.shape[1], V.shape[1]))
        for A, codes in self._pass():
            grams += dense_rows_gram(A, codes, centres, V)
        return grams * self.scales[:, None, None]

    def _first_pass(self) -> tuple[NDArray[np.int64], Array]:
        """Return counts and means, batch after batch (Chan, Golub & LeVeque 1983)."""
        counts = np.zeros(self.n_codes, np.int64)
        means = np.zeros((0, 0))
        for A, codes in self._pass():
            if not means.size:
                means = np.zeros((self.n_codes, A.shape[1]))
            more, their_means, scatter = dense_rows_moments(A, codes, self.n_codes)
            if not (np.isfinite(scatter).all() and np.isfinite(their_means).all()):
                refuse_entries(A, int(counts.sum()))
            counts += more.astype(np.int64)
            share = more / np.maximum(counts, 1)
            means += share[:, None] * (their_means - means)
        if not counts.all():
            what = f"Group {int(np.argmin(counts))} has" if counts.any() else "There is"
            raise ValueError(f"{what} no row in the batches.")
        self.n_rows = int(counts.sum())
        return counts, means

    def _pass(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Batches that were checked; at the end, whether they were all there."""
        self.n_passes += 1
        n_rows, width = 0, None if self.n_rows is None else self.means.shape[1]
        for rows, labels in self.batches():
            A, codes = _check_batch(rows, labels, self.n_codes)
            if not A.size:
                continue
            if width not in (None, A.shape[1]):
                raise ValueError(
                    f"A batch has rows of {A.shape[1]} entries, others {width}."
                )
            width = A.shape[1]
            n_rows += A.shape[0]
            yield A, codes
        if self.n_rows is not None and n_rows != self.n_rows:
            raise ValueError(
                f"A pass over the batches gave {n_rows} rows, the first one "
                f"{self.n_rows}: each call of batches() must start anew and deliver "
                "the same rows."
            )


def _check_batch(
    rows: Any, labels: Any, n_codes: int
) -> tuple[np.ndarray, NDArray[np.int64]]:
    A, codes = np.asarray(rows), np.asarray(labels)
    if A.ndim != 2:
        raise ValueError(f"The rows of a batch must be a table, got shape {A.shape}.")
    if np.iscomplexobj(A):
        raise TypeError("The rows of a batch must be real, got complex numbers.")
    codes = check_codes(codes, A.shape[0], n_codes)
    if A.dtype not in (np.dtype(np.float64), np.dtype(np.float32)):
        A = A.astype(np.float64)
    return A, codes
