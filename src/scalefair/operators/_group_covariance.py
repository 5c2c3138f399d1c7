"""Weighted sum of the covariances of parts of the rows, never formed."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from scalefair._docs import documented
from scalefair._entries import (
    all_finite,
    canonical,
    check_product,
    check_sample_weight,
    ignore_fp_warnings,
)
from scalefair.operators._base import TEXTS, Array, TypedOperator, put_sum
from scalefair.operators._coded_rows import (
    DenseRows,
    DistributedRows,
    Moments,
    SparseRows,
)
from scalefair.streaming import PartitionedRows, Parts


@documented(**TEXTS)
class GroupCovariance(TypedOperator):
    r"""Weighted sum of covariances :math:`\sum_g w_g C_g`, multiplied by, not formed.

    .. math::

        C_g = \frac{1}{m_g} \sum_{i \in g} (x_i - c)(x_i - c)^T

    over the :math:`m_g` rows of group `g`, `c` the mean of all rows or of the group.
    Rows may have weights: sums and means are then weighted, and :math:`m_g` is the sum
    of the weights.

    A sparse `X` is never densified: `c` enters as a correction of rank one, and the
    transpose is stored beside it. A dense `X` is read once in each product, in blocks
    of rows: it may be a memory-mapped file larger than the memory. Groups of zero
    weight are skipped.

    Parameters
    ----------
    X : {array-like, sparse matrix, PartitionedRows} of shape (m, n)
        Rows are samples, used as they are if dense or CSR in float32 or float64, else
        converted. Do not change them while the operator is in use. Rows in parts stay
        where they are: `V` goes to them.
    codes : {array-like of int, Parts}, shape (m,)
        Group of each row, 0 to ``G - 1``, every one of them present. For rows in
        parts also the codes that their `encode` returns.
    weights : array-like of shape (G,)
        :math:`w_g`, of any sign.
    centering : {"global", "group"}, default="global"
        Whether `c` is the mean of all rows or that of the group.
    sample_weight : {array-like, Parts} of shape (m,), default=None
        Weights of the rows, not negative; None weighs all 1. Parts are those that
        the `weights` of rows in parts returns.
    %(dtype)s
        Rows stored in float32 are converted as they are read.

    Attributes
    ----------
    weights : ndarray of shape (G,), float64
        The weights.
    counts : ndarray of shape (G,), int64 or float64
        Rows of each group, or the sums of their weights.
    means : ndarray of shape (G, n), float64
        Mean of each group.
    mean : ndarray of shape (n,), float64
        Mean of all rows.
    centres : ndarray of shape (1, n) or (G, n), float64
        Subtracted from the rows: the mean of all rows, or of each group.
    group_traces : ndarray of shape (G,), float64
        Traces of the :math:`C_g`: the total variance of each group about `c`.

    Raises
    ------
    ValueError
        If shapes do not match, a group has no row or no weight, a weight is negative,
        or an entry is not finite.
    %(type_error)s

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.operators import GroupCovariance
    >>> X = np.array([[0.0, 1.0], [2.0, 1.0], [4.0, 0.0], [4.0, 4.0]])
    >>> C = GroupCovariance(X, [0, 0, 1, 1], [1.0, 0.5], centering="group")
    >>> C @ np.eye(2)
    array([[1., 0.],
           [0., 2.]])
    >>> C.group_traces
    array([1., 4.])
    >>> C.with_weights([0.0, 1.0]) @ np.ones(2)
    array([0., 4.])
    """

    def __init__(
        self,
        X: Any,
        codes: ArrayLike | Parts,
        weights: ArrayLike,
        *,
        centering: str = "global",
        sample_weight: ArrayLike | Parts | None = None,
        dtype: Any = np.float64,
    ) -> None:
        if centering not in ("global", "group"):
            raise ValueError(
                f"centering must be 'global' or 'group', got {centering!r}."
            )
        # Step 1: the rows, dense, sparse or in parts, with their codes.
        X = X if isinstance(X, PartitionedRows) else _check_rows(X)
        super().__init__(dtype, X.shape[1])
        n_codes = np.size(weights)
        self._set_weights(weights, n_codes)
        self._rows: DenseRows | DistributedRows | SparseRows
        if isinstance(X, PartitionedRows):
            self.gathers_rows = X.is_sparse
            if not isinstance(codes, Parts):
                codes = X.split(_check_codes(codes, X.shape[0], n_codes))
            if not isinstance(sample_weight, Parts):
                sample_weight = X.weights(sample_weight)
            self._rows = DistributedRows(X, codes, n_codes, sample_weight)
        else:
            self.gathers_rows = sparse.issparse(X)
            checked = _check_codes(codes, X.shape[0], n_codes)
            checked_weight = check_sample_weight(sample_weight, X.shape[0])
            kind = SparseRows if self.gathers_rows else DenseRows
            self._rows = kind(X, checked, n_codes, checked_weight)
        # Step 2: counts and means.
        self.counts = self._moments.counts
        if not self.counts.all():
            missing = "row" if sample_weight is None else "row of positive weight"
            raise ValueError(
                f"Group {int(np.argmin(self.counts))} has no {missing}: number the "
                "groups from 0 to G - 1 without gaps, with one weight for each."
            )
        self.mean = (self.counts / self.counts.sum()) @ self.means
        is_global = centering == "global"
        self.centres = self.mean[None, :] if is_global else self.means
        self._set_type()

    @cached_property
    def _moments(self) -> Moments:
        return self._rows.moments()

    @property
    def means(self) -> Array:
        """Mean of each group."""
        return self._moments.means

    @property
    def group_traces(self) -> Array:
        """Variance of each group about its centre."""
        _, means, scatter = self._moments
        between = ((means - self.centres) ** 2).sum(axis=1)
        traces: Array = scatter / self.counts + between
        return traces

    def _set_type(self) -> None:
        with ignore_fp_warnings():
            self._centres = self.centres.astype(self.dtype)
            self._typed_rows = self._rows.astype(self.dtype)
        if not all_finite(self._centres):
            raise ValueError(
                f"The means of X are too large for {self.dtype}: rescale its features."
            )

    @property
    def trace(self) -> float:
        """Trace of the operator."""
        return float(self.weights @ self.group_traces)

    def _apply(
        self, X: np.ndarray, out: np.ndarray, alpha: float, shift: float, beta: float
    ) -> None:
        put_sum(X, out, -alpha * shift, beta)
        coefficients = (alpha * self.weights / self.counts).astype(self.dtype)
        if coefficients.any():
            self._typed_rows.add_products(X, self._centres, coefficients, out)

    def _set_weights(self, weights: ArrayLike, n_codes: int) -> None:
        """Keep a copy of the weights, one finite number for each group."""
        checked = np.array(weights, dtype=np.float64)
        if checked.shape != (n_codes,) or n_codes < 1:
            raise ValueError(
                f"weights must be one number for each of the {n_codes} groups, at "
                f"least one, got shape {checked.shape}."
            )
        if not np.isfinite(checked).all():
            bad = int(np.flatnonzero(~np.isfinite(checked))[0])
            raise ValueError(
                f"weights must be finite, got {checked[bad]} for group {bad}."
            )
        self.weights = checked

    def with_weights(self, weights: ArrayLike) -> Self:
        """Return the operator with other weights; all else is shared.

        Parameters
        ----------
        weights : array-like of shape (G,)
            New weights.

        Returns
        -------
        GroupCovariance
            A new operator.
        """
        other = copy(self)
        other._set_weights(weights, self.counts.size)
        return other

    def with_sample_weight(self, sample_weight: Array) -> Self:
        """Return the operator of rows with other weights, about the same centres.

        Parameters
        ----------
        sample_weight : ndarray of shape (m,), float64
            New weights, relative to their sum: sums over rows are not divided by it,
            and `counts` are 1. Negative ones are for products only.

        Returns
        -------
        GroupCovariance
            A new operator, which shares the rows.
        """
        other = copy(self)
        other.__dict__.pop("_moments", None)
        other.counts = np.ones_like(self.counts)
        other._rows = other._typed_rows = self._rows.with_weights(sample_weight)
        if self._typed_rows is not self._rows:
            other._typed_rows = self._typed_rows.with_weights(sample_weight)
        return other

    def products(
        self, x: Array, out: Array, codes: Sequence[int] | None = None
    ) -> Array:
        """Overwrite the rows of `out` with the products of groups with a vector.

        The weights play no part. Sparse rows are read once, from a copy of those of the
        group, sorted by length, that is made in the first product.

        Parameters
        ----------
        x : ndarray of shape (n,), float64
            Vector.
        out : ndarray of shape (len(codes), n), float64
            For ``C_g @ x``.
        codes : sequence of int or None, default=None
            Of the groups, None for all.

        Returns
        -------
        ndarray
            `out`.
        """
        codes = range(self.counts.size) if codes is None else codes
        for g, product in zip(codes, out, strict=True):
            if isinstance(self._rows, SparseRows):  # saves a third of the time
                centre = self.centres[g % len(self.centres)]
                product[:] = self._rows.normal_product(x, centre, g)
                product /= self.counts[g]
            else:
                unit = np.arange(self.counts.size) == g
                product[:] = self.with_weights(unit) @ x
        return out

    def compress(self, V: ArrayLike) -> Array:
        """Return the small matrices ``V.T @ C_g @ V`` of every group, in one pass.

        The weights play no part.

        Parameters
        ----------
        V : ndarray of shape (n, k)
            Block of vectors.

        Returns
        -------
        ndarray of shape (G, k, k), float64
            Symmetric.
        """
        V = np.asarray(V)
        if V.ndim != 2 or V.shape[0] != self.shape[0]:
            raise ValueError(
                f"V must be a block of vectors of length {self.shape[0]}, got shape "
                f"{V.shape}."
            )
        V = self._converted(V)
        if not all_finite(V):
            raise ValueError(
                f"V has entries that are not finite in {self.dtype}: replace them."
            )
        if V.size == 0:
            return np.zeros((self.counts.size, V.shape[1], V.shape[1]))
        with ignore_fp_warnings():
            grams = self._typed_rows.gram(V, self._centres)
            grams /= self.counts[:, None, None]
            grams = (grams + grams.transpose(0, 2, 1)) / 2
        check_product(grams)
        return grams

    def captured(self, V: ArrayLike) -> Array:
        """Return ``trace(V.T @ C_g @ V)`` of every group, in one pass.

        For orthonormal columns it is the variance of the group within their span.

        Parameters
        ----------
        V : ndarray of shape (n, k)
            Block of vectors.

        Returns
        -------
        ndarray of shape (G,), float64
            Traces, in the order of the codes.
        """
        traces: Array = np.trace(self.compress(V), axis1=1, axis2=2)
        return traces


def _check_rows(X: Any) -> Any:
    """Table of float32 or float64; copied only if it has another type."""
    X = sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must be a table of rows, got shape {X.shape}.")
    if np.iscomplexobj(X):
        raise TypeError("X must be real, got complex numbers.")
    if 0 in X.shape:
        raise ValueError(f"X must have rows and columns, got shape {X.shape}.")
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    return canonical(X)


def _check_codes(codes: Any, n_rows: int, n_codes: int) -> NDArray[np.int64]:
    """Return the codes of rows in int64, after checking that they are 0 to G - 1."""
    codes = np.asarray(codes)
    if codes.shape != (n_rows,) or codes.dtype.kind not in "iu":
        raise ValueError(
            f"codes must be {n_rows} integers, one for each row, got shape "
            f"{codes.shape} of {codes.dtype}."
        )
    if codes.size and (codes.min() < 0 or codes.max() >= n_codes):
        raise ValueError(
            f"codes must lie between 0 and {n_codes - 1}, one for each weight, got "
            f"{codes.min()} to {codes.max()}."
        )
    checked: NDArray[np.int64] = codes.astype(np.int64, copy=False)
    return checked
