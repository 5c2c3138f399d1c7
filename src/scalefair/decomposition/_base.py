"""What fair PCA and the methods it is compared with have in common."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from scalefair._decorators import fit_context
from scalefair._entries import (
    all_finite,
    check_array,
    check_features,
    judged_later,
    validate_data,
)
from scalefair._groups import check_two_groups
from scalefair.streaming import (
    GroupMoments,
    PartitionedRows,
    is_partitioned,
    row_blocks,
)

__all__ = ["BaseGroupPCA", "Population", "check_groups"]

Array = NDArray[np.float64]


class Population(NamedTuple):
    """The groups (sorted), their sizes, and the mean of all rows."""

    groups: NDArray[Any]
    counts: NDArray[np.int64]
    mean: Array


class BaseGroupPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Linear transformer fitted to rows that belong to groups.

    A subclass has the parameters `n_components` and `centering`; its `_fit_moments`
    computes an orthonormal basis and hands it to `_store_basis`.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "centering": [StrOptions({"global", "group"})],
    }

    n_components: int
    centering: str
    components_: Array
    mean_: Array

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @abstractmethod
    def _fit_moments(self, moments: GroupMoments) -> None:
        """Set the fitted attributes."""

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, sensitive_features: ArrayLike) -> Self:
        """Find the subspace from one pass over the rows.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection, reader} of shape \
                (m, n_features)
            Rows of features, dense or CSR or CSC. Sparse matrices are not densified;
            memory-mapped arrays are read in blocks, Dask's partitions where they are.
        y : None
            Ignored; there for the scikit-learn interface.
        sensitive_features : array-like or Dask collection of shape (m,)
            Group of each row: numbers, strings or booleans, none missing, at least
            two different ones.

        Returns
        -------
        object
            The fitted estimator.

        Raises
        ------
        ValueError
            If `X` has entries that are not finite, `n_components` exceeds the
            number of features, or there are fewer than two groups.
        """
        X = self._check_rows(X)
        self._check_rank(X.shape[1])
        moments = GroupMoments.from_data(X, sensitive_features)
        check_groups(moments.groups)
        self._fit_moments(moments)
        return self

    @classmethod
    def from_moments(cls, moments: GroupMoments, **parameters: Any) -> Self:
        """Return an estimator fitted to moments instead of rows.

        Parameters
        ----------
        moments : GroupMoments
            Of all rows, with at least two groups.
        **parameters : dict
            Parameters of the estimator.

        Returns
        -------
        object
            The fitted estimator.

        Raises
        ------
        ValueError
            If there are fewer than two groups or `n_components` exceeds the number
            of features.
        """
        estimator = cls(**parameters)
        estimator._validate_params()
        estimator._check_rank(moments.n_features)
        check_groups(moments.groups)
        estimator.n_features_in_ = moments.n_features
        estimator._fit_moments(moments)
        return estimator

    def transform(self, X: Any) -> NDArray[Any]:
        """Project rows onto the components.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection, reader} of shape \
                (m, n_features)
            Rows of any group; the overall mean is subtracted. Read in blocks of
            rows, so that it may be larger than the memory.

        Returns
        -------
        {ndarray, dask.array.Array} of shape (m, n_components)
            Coordinates, in float32 if `X` is, otherwise in float64. For a Dask
            collection a Dask array that is not computed yet.

        Raises
        ------
        ValueError
            If `X` has another number of features than in `fit`, or entries that are
            not finite.
        """
        check_is_fitted(self)
        X = self._check_rows(X, reset=False)
        components = np.ascontiguousarray(self.components_.T)
        if isinstance(X, PartitionedRows):
            shape, dtype = (components.shape[1],), _real_type(X.dtype)
            scores: NDArray[Any] = X.rowwise(
                _project, self.mean_, components, shape=shape, dtype=dtype
            )
            return scores
        return _project(X, self.mean_, components)

    def inverse_transform(self, X: ArrayLike) -> NDArray[Any]:
        """Map coordinates back to rows of features.

        Parameters
        ----------
        X : array-like of shape (m, n_components)
            Coordinates as `transform` returns them.

        Returns
        -------
        ndarray of shape (m, n_features)
            Rows within the subspace of the components, the mean added; in float32 if
            `X` is, otherwise in float64.

        Raises
        ------
        ValueError
            If `X` does not hold rows of one coordinate for each component, all of
            them finite.
        """
        check_is_fitted(self)
        scores = check_array(X, dtype=[np.float64, np.float32], input_name="X")
        if scores.shape[1] != len(self.components_):
            raise ValueError(
                f"X must hold rows of {len(self.components_)} coordinates, one per "
                f"component, got shape {scores.shape}."
            )
        with judged_later():
            rows: NDArray[Any] = scores @ self.components_ + self.mean_
            rows = rows.astype(scores.dtype, copy=False)
        _check_finite(rows)
        return rows

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _check_rows(self, X: Any, *, reset: bool = True) -> Any:
        """Rows as they are: finite entries are checked where they are read."""
        if is_partitioned(X):
            rows = PartitionedRows.of(X, persist=reset)
            check_features(self, rows, reset=reset)
            return rows
        return validate_data(
            self,
            X,
            accept_sparse=("csr", "csc"),
            accept_large_sparse=True,
            ensure_all_finite=False,
            ensure_min_samples=2 if reset else 1,
            reset=reset,
        )

    def _check_rank(self, n_features: int) -> None:
        if self.n_components > n_features:
            raise ValueError(
                f"n_components={self.n_components} must be at most "
                f"n_features={n_features}."
            )

    def _store_basis(
        self,
        basis: Array,
        population: Population,
        compressed: Array,
        traces: Array,
        best: Array,
    ) -> None:
        """Store an orthonormal basis as components, with the losses of each group.

        Parameters
        ----------
        basis : ndarray of shape (n, r)
            Orthonormal columns.
        population : Population
            The groups.
        compressed : ndarray of shape (G, r, r)
            ``basis.T @ C_g @ basis`` of every group.
        traces : ndarray of shape (G,)
            Traces of the ``C_g``.
        best : ndarray of shape (G,)
            Sums of the `r` largest eigenvalues of the ``C_g``.
        """
        shares = population.counts / population.counts.sum()
        # The axes that plain PCA would choose within the subspace.
        values, axes = np.linalg.eigh(np.tensordot(shares, compressed, axes=1))
        components = (basis @ axes).T[::-1]
        peaks = np.abs(components).argmax(axis=1)
        components *= np.sign(components[np.arange(len(peaks)), peaks])[:, None]
        captured = np.trace(compressed, axis1=1, axis2=2)
        self.components_ = np.ascontiguousarray(components)
        self.explained_variance_ = np.maximum(values[::-1], 0.0)
        self.mean_ = population.mean
        self.groups_ = population.groups
        # Both are sums of squares: what is below zero is rounding.
        self.group_losses_ = np.maximum(best - captured, 0.0)
        self.group_reconstruction_errors_ = np.maximum(traces - captured, 0.0)


def check_groups(groups: NDArray[Any]) -> None:
    """Raise a ValueError unless there are groups to compare."""
    check_two_groups(groups, "sklearn.decomposition.PCA")


def _project(X: Any, mean: Array, components: Array) -> NDArray[Any]:
    """Coordinates of rows less the mean, in float32 if `X` is."""
    offset = mean @ components
    scores = np.empty((X.shape[0], components.shape[1]), _real_type(X.dtype))
    with judged_later():
        for rows, block in row_blocks(X):
            if sparse.issparse(block):
                scores[rows] = block @ components - offset
            else:  # subtract first: a large mean would cancel
                scores[rows] = (block - mean) @ components
    _check_finite(scores)
    return scores


def _real_type(dtype: np.dtype) -> type[np.floating]:
    return np.float32 if dtype == np.float32 else np.float64


def _check_finite(scores: NDArray[Any]) -> None:
    if not all_finite(scores):
        bad = np.flatnonzero(~np.isfinite(scores).all(axis=1))
        raise ValueError(
            f"Input X contains NaN, infinity or numbers too large for {scores.dtype}, "
            f"in {bad.size} row(s), the first at position {bad[0]}. Replace the "
            "entries or drop the rows."
        )
