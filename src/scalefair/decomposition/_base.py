"""What fair PCA and the methods it is compared with have in common."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from numbers import Integral
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from scalefair._decorators import fit_context
from scalefair._docs import documented
from scalefair._entries import (
    all_finite,
    check_array,
    check_features,
    judged_later,
    validate_data,
)
from scalefair._groups import (
    Attribute,
    as_list,
    check_compared,
    compared_attributes,
    fitted_groups,
)
from scalefair.streaming import (
    GroupMoments,
    PartitionedRows,
    is_partitioned,
    row_blocks,
)

Array = NDArray[np.float64]

_WITHOUT_GROUPS = "sklearn.decomposition.PCA"

TEXTS = {
    "n_components": """\
n_components : int, default=2
    Number of components, at most the number of features.""",
    "centering": """\
centering : {"global", "group"}, default="global"
    What is subtracted from the rows when covariances are computed: the mean of all
    rows, as PCA does, or each group's own. `transform` subtracts that of all rows.""",
    "components_": """\
components_ : ndarray of shape (n_components, n_features)
    Orthonormal rows that span the subspace: its principal axes for all rows,
    largest variance first, the entry largest in modulus positive.""",
    "explained_variance_": """\
explained_variance_ : ndarray of shape (n_components,)
    Variance of the rows along each component (divided by their number).""",
    "mean_": """\
mean_ : ndarray of shape (n_features,)
    Mean of all rows.""",
    "group_losses_": """\
group_losses_ : ndarray of shape (n_groups,)
    Loss of each group, in the order of `groups_`: what it reconstructs worse than
    with its own best components, in squared units of the features per sample.""",
    "group_reconstruction_errors_": """\
group_reconstruction_errors_ : ndarray of shape (n_groups,)
    Mean squared distance of each group's rows to what `inverse_transform` makes of
    their coordinates.""",
    "rows": """\
X : {array-like, sparse matrix, Dask collection, reader} of shape (m, n_features)
    Rows of features, dense or CSR or CSC (other sparse formats are converted).
    Sparse matrices are not densified, memory-mapped arrays are read in blocks,
    partitions of a Dask collection where they are, and a reader
    (:func:`scalefair.files.open_rows`) anew in each pass.""",
}


class ComparedMoments:
    """Moments of the groups of several attributes, one after the other."""

    def __init__(self, each: Sequence[GroupMoments]) -> None:
        self.each, self.mean = list(each), each[0].mean
        self.groups = np.concatenate([np.asarray(m.groups, object) for m in each])
        self.counts = np.concatenate([moments.counts for moments in each])

    def covariances(self, centering: str) -> Array:
        """Return those of all groups, as `GroupMoments` does."""
        n, start = self.each[0].n_features, 0
        found = np.empty((len(self.counts), n, n))
        for moments in self.each:
            stop = start + len(moments.groups)
            found[start:stop], start = moments.covariances(centering), stop
        return found


Moments: TypeAlias = GroupMoments | ComparedMoments


def joined_moments(each: list[GroupMoments]) -> Moments:
    """Return the moments of all groups, as one object."""
    return each[0] if len(each) == 1 else ComparedMoments(each)


@documented(**TEXTS)
class BaseGroupPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Linear transformer of rows in groups; a subclass finds and stores a basis."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "centering": [StrOptions({"global", "group"})],
    }

    n_components: int
    centering: str
    attributes = "joint"
    groups_: Any
    components_: Array
    mean_: Array

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, sensitive_features: ArrayLike) -> Self:
        """Find the subspace.

        Parameters
        ----------
        %(rows)s
        %(y_ignored)s
        sensitive_features : array-like or Dask collection of shape (m,) or (m, k)
            Group of each row, two or more: numbers, strings or booleans, none missing.
            Of k columns each combination that occurs is a group, if not told otherwise.

        Returns
        -------
        object
            The fitted estimator.

        Raises
        ------
        ValueError
            If `X` has entries that are not finite, `n_components` exceeds the
            number of features, or there are fewer than two groups.

        Warns
        -----
        ConvergenceWarning
            If the search did not end within its tolerance, or not at the optimum.
        """
        X = self._check_rows(X)
        self._check_rank(X.shape[1])
        if isinstance(X, PartitionedRows):
            compared = X.compared_attributes(sensitive_features, self.attributes)
        else:
            given = sensitive_features, X.shape[0], self.attributes
            compared = compared_attributes(*given)
        check_compared(compared, _WITHOUT_GROUPS)
        warning = self._fit_rows(X, compared)
        if warning:
            warnings.warn(warning, ConvergenceWarning, stacklevel=4)
        return self

    @classmethod
    def from_moments(
        cls, moments: GroupMoments | list[GroupMoments], **parameters: Any
    ) -> Self:
        """Return an estimator fitted to moments instead of rows.

        Parameters
        ----------
        moments : GroupMoments or list of them
            Of all rows, with at least two groups; a list has those of each attribute.
        **parameters : dict
            Parameters of the estimator.

        Returns
        -------
        object
            The fitted estimator.

        Raises
        ------
        ValueError
            If groups are fewer than two, features fewer than `n_components`, or the
            moments in a list not of the same rows.
        """
        estimator = cls(**parameters)
        each = as_list(moments)
        if len(each) > 1 and "attributes" in estimator.get_params():
            estimator.set_params(attributes="each")
        estimator._validate_params()
        sizes = [(found.n_features, int(found.counts.sum())) for found in each]
        if len(set(sizes)) != 1:
            raise ValueError(
                "moments must be a GroupMoments, or a list of those of the same rows, "
                f"got (features, rows) {sizes}."
            )
        estimator._check_rank(sizes[0][0])
        estimator.n_features_in_ = sizes[0][0]
        warning = estimator._fit_moments(each)
        if warning:
            warnings.warn(warning, ConvergenceWarning, stacklevel=2)
        return estimator

    def transform(self, X: Any) -> NDArray[Any]:
        """Project rows onto the components.

        Parameters
        ----------
        %(rows)s

        Returns
        -------
        {ndarray, dask.array.Array} of shape (m, n_components)
            Coordinates of the rows less the mean, in float32 if `X` is, otherwise in
            float64; of a Dask collection not computed yet.

        Raises
        ------
        ValueError
            If the number of features is not that of `fit`, or an entry not finite.
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
            Rows within the subspace, the mean added; in float32 if `X` is.

        Raises
        ------
        ValueError
            If `X` does not hold one finite coordinate per component in each row.
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

    def _fit_rows(self, X: Any, compared: list[Attribute]) -> str | None:
        """`_fit_moments` of checked rows."""
        return self._fit_moments(GroupMoments._of_each(X, compared))

    def _fit_moments(self, each: list[GroupMoments]) -> str | None:
        """Set the fitted attributes; return what the user is to be warned of."""
        compared = [Attribute(f"{j}", m.groups, m.counts) for j, m in enumerate(each)]
        check_compared(compared, _WITHOUT_GROUPS)
        self.groups_, self.mean_ = fitted_groups(compared), each[0].mean
        return self._find_basis(joined_moments(each))

    @abstractmethod
    def _find_basis(self, moments: Moments) -> str | None:
        """Set the fitted attributes beside `groups_` and `mean_`; return a warning."""

    def _by_attribute(self, values: Array) -> Any:
        """Values of all groups, as `groups_` is."""
        if not isinstance(self.groups_, list):
            return values
        return np.split(values, np.cumsum([len(own) for own in self.groups_])[:-1])

    def _store_basis(
        self,
        basis: Array,
        compressed: Array,
        counts: NDArray[np.int64],
        traces: Array,
        best: Array,
    ) -> Array:
        """Store the columns of an orthonormal basis, turned to the axes of PCA.

        Of each group: `compressed` is ``basis.T @ C_g @ basis``, `counts` its rows,
        `traces` those of C_g, `best` the sums of C_g's r largest eigenvalues. Returns
        the losses.
        """
        shares = counts / counts.sum()
        values, axes = np.linalg.eigh(np.tensordot(shares, compressed, axes=1))
        components = (basis @ axes).T[::-1]
        peaks = np.abs(components).argmax(axis=1)
        components *= np.sign(components[np.arange(len(peaks)), peaks])[:, None]
        captured = np.trace(compressed, axis1=1, axis2=2)
        self.components_ = np.ascontiguousarray(components)
        self.explained_variance_ = np.maximum(values[::-1], 0.0)
        # Both are sums of squares: what is below zero is rounding.
        losses: Array = np.maximum(best - captured, 0.0)
        self.group_losses_ = self._by_attribute(losses)
        errors = np.maximum(traces - captured, 0.0)
        self.group_reconstruction_errors_ = self._by_attribute(errors)
        return losses


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
