"""Base of fair PCA and of the methods it is compared with."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral
from typing import Any, ClassVar, Self

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

from scalefair._decorators import GroupRequests, fit_context
from scalefair._docs import documented
from scalefair._entries import (
    all_finite,
    check_array,
    check_features,
    ignore_fp_warnings,
    real_type,
    validate_data,
)
from scalefair._groups import Attribute, as_list, check_compared, fitted_groups
from scalefair._membership import Membership
from scalefair._messages import warn_user
from scalefair._rounding import EPS
from scalefair.streaming import (
    GroupMoments,
    PartitionedRows,
    is_partitioned,
    row_blocks,
)

Array = NDArray[np.float64]
Counts = NDArray[Any]  # rows of each group, or sums of their weights

# The method that an error message recommends for a single group.
_WITHOUT_GROUPS = "sklearn.decomposition.PCA"

TEXTS = {
    "n_components": """\
n_components : int, default=2
    Number of components, at most the number of features.""",
    "centering": """\
centering : {"global", "group"}, default="global"
    Mean that is subtracted from the rows for the covariances: that of all rows, as in
    PCA, or that of each group. `transform` subtracts that of all rows.""",
    "components_": """\
components_ : ndarray of shape (n_components, n_features)
    Orthonormal rows that span the subspace: its principal axes for all rows,
    largest variance first, the entry largest in modulus positive.""",
    "explained_variance_": """\
explained_variance_ : ndarray of shape (n_components,)
    Variance of the rows along each component (divided by their number), about the mean
    that `centering` names.""",
    "mean_": """\
mean_ : ndarray of shape (n_features,)
    Mean of all rows, by their weights; those of no known group are left out.""",
    "group_losses_": """\
group_losses_ : ndarray of shape (n_groups,)
    Loss of each group, in the order of `groups_`: its reconstruction error minus that
    of its own best components, in squared units of the features per sample.""",
    "group_reconstruction_errors_": """\
group_reconstruction_errors_ : ndarray of shape (n_groups,)
    Mean squared distance of each group's rows to their reconstructions. These are those
    of `inverse_transform` with ``centering="global"``; with ``"group"`` each group is
    projected, and reconstructed, about its own mean.""",
    "sample_weight": """\
sample_weight : array-like or Dask collection of shape (m,), default=None
    Weights of the rows, not negative, such as survey weights: of weight 2 a row counts
    twice, of weight 0 it is left out. None counts each once.""",
    "rows": """\
X : {array-like, sparse matrix, Dask collection, reader} of shape (m, n_features)
    Rows of features, dense or CSR or CSC (other sparse formats are converted).
    Sparse matrices are not densified, memory-mapped arrays are read in blocks,
    partitions of a Dask collection where they are, and a reader
    (:func:`scalefair.files.open_rows`) anew in each pass.""",
}


@documented(**TEXTS)
class BaseGroupPCA(
    GroupRequests, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Linear transformer of rows in groups; a subclass computes the basis."""

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
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: ArrayLike | None = None,
        group_probabilities: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Find the subspace.

        Parameters
        ----------
        %(rows)s
        %(y_ignored)s
        sensitive_features : array-like or Dask collection of shape (m,) or (m, k), \
                default=None
            Group of each row, two or more: numbers, strings or booleans, none missing.
            Of k columns each combination that occurs is a group, by default.
        %(group_probabilities)s
            A row counts for a group by its probability, and not at all if nothing is
            known of its group.
        %(sample_weight)s

        Returns
        -------
        object
            The fitted estimator.

        Raises
        ------
        ValueError
            If `X` has entries that are not finite, `n_components` exceeds the
            number of features, there are fewer than two groups, or one has no weight.

        Warns
        -----
        ConvergenceWarning
            If the iteration did not reach its tolerance, or not the optimum.
        """
        X = self._check_rows(X, min_rows=2)
        self._check_rank(X.shape[1])
        membership = Membership.of(
            sensitive_features,
            group_probabilities,
            X,
            sample_weight=sample_weight,
            attributes=self.attributes,
            alternative=_WITHOUT_GROUPS,
        )
        if warning := self._fit_rows(X, membership):
            warn_user(warning, ConvergenceWarning)
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
        by_attribute = as_list(moments)
        if len(by_attribute) > 1 and "attributes" in estimator.get_params():
            estimator.set_params(attributes="each")
        estimator._validate_params()
        sizes = [(m.n_features, m.counts.sum()) for m in by_attribute]
        if not sizes or not np.allclose(sizes, sizes[0], rtol=np.sqrt(EPS)):
            raise ValueError(
                "moments must be a GroupMoments, or a list of those of the same rows, "
                f"got (features, rows) {sizes}."
            )
        estimator._check_rank(sizes[0][0])
        estimator.n_features_in_ = sizes[0][0]
        if warning := estimator._fit_moments(by_attribute):
            warn_user(warning, ConvergenceWarning)
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
            shape, dtype = (components.shape[1],), real_type(X.dtype)
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
        with ignore_fp_warnings():
            rows: NDArray[Any] = scores @ self.components_ + self.mean_
            rows = rows.astype(scores.dtype, copy=False)
        _check_finite(rows)
        return rows

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _check_rows(self, X: Any, *, reset: bool = True, min_rows: int = 1) -> Any:
        """Check all but that entries are finite, which the passes over the rows do."""
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
            ensure_min_samples=min_rows,
            reset=reset,
        )

    def _check_rank(self, n_features: int) -> None:
        if self.n_components > n_features:
            raise ValueError(
                f"n_components={self.n_components} must be at most "
                f"n_features={n_features}."
            )

    def _fit_rows(self, X: Any, membership: Membership) -> str | None:
        """Fit checked rows; return a warning for the user, if any."""
        return self._fit_moments(GroupMoments._by_attribute(X, membership))

    def _fit_moments(self, by_attribute: list[GroupMoments]) -> str | None:
        """Fit the moments of each attribute; return a warning for the user, if any."""
        # There are no rows, so no codes either: neither function below reads them.
        compared = [
            Attribute(f"{j}", moments.groups, codes=None)
            for j, moments in enumerate(by_attribute)
        ]
        if len(compared) == 1:
            compared = [compared[0]._replace(name="sensitive_features")]
        check_compared(compared, _WITHOUT_GROUPS)
        self.groups_, self.mean_ = fitted_groups(compared), by_attribute[0].mean
        counts = np.concatenate([moments.counts for moments in by_attribute])
        if len(by_attribute) == 1:
            C = by_attribute[0].covariances(self.centering)
        else:
            # One attribute at a time: never a second copy of all covariances.
            C = np.empty((len(counts), *by_attribute[0].scatters.shape[1:]))
            for moments, part in zip(by_attribute, self._by_attribute(C), strict=True):
                part[...] = moments.covariances(self.centering)
        return self._fit_basis(C, counts)

    @abstractmethod
    def _fit_basis(self, C: Array, counts: Counts) -> str | None:
        """Set the attributes that depend on the basis; return a warning, if any.

        `C` has the covariance of each group, (G, n, n), `counts` its rows, (G,).
        """

    def _by_attribute(self, values: Array) -> Any:
        """Values of all groups in the form of `groups_`: one array, or a list."""
        if not isinstance(self.groups_, list):
            return values
        sizes = [len(groups) for groups in self.groups_]
        return np.split(values, np.cumsum(sizes)[:-1])

    def _store_basis(
        self,
        basis: Array,
        compressed: Array,
        counts: Counts,
        traces: Array,
        best: Array,
    ) -> Array:
        """Store an orthonormal basis U (n, r), rotated to the axes of PCA.

        Of each group: `compressed` (G, r, r) is ``U.T @ C_g @ U``, `counts` its rows,
        `traces` those of C_g, `best` the sums of C_g's r largest eigenvalues. Returns
        the losses (G,).
        """
        # 1. Eigenvectors of U.T @ C @ U, with C the mean covariance of all rows. The
        # losses are those of the span: a rotation leaves them as they are.
        shares = counts / counts.sum()
        values, axes = np.linalg.eigh(np.tensordot(shares, compressed, axes=1))
        components = (basis @ axes).T[::-1]  # largest first
        # 2. Signs as scikit-learn's: the entry largest in modulus is positive.
        peaks = np.abs(components).argmax(axis=1)
        components *= np.sign(components[np.arange(len(peaks)), peaks])[:, None]
        # 3. Losses best - Tr(U.T C_g U) and errors Tr(C_g) - Tr(U.T C_g U). Both are
        # >= 0: negative values are rounding.
        captured = np.trace(compressed, axis1=1, axis2=2)
        self.components_ = np.ascontiguousarray(components)
        self.explained_variance_ = np.maximum(values[::-1], 0.0)
        losses: Array = np.maximum(best - captured, 0.0)
        self.group_losses_ = self._by_attribute(losses)
        errors = np.maximum(traces - captured, 0.0)
        self.group_reconstruction_errors_ = self._by_attribute(errors)
        return losses


def _project(X: Any, mean: Array, components: Array) -> NDArray[Any]:
    """Coordinates of rows less the mean, in float32 if `X` is."""
    offset = mean @ components
    scores = np.empty((X.shape[0], components.shape[1]), real_type(X.dtype))
    with ignore_fp_warnings():
        for rows, block in row_blocks(X):
            if sparse.issparse(block):
                # Subtracting first would fill in the zeros.
                scores[rows] = block @ components - offset
            else:  # subtract first: a large mean would cancel
                scores[rows] = (block - mean) @ components
    _check_finite(scores)
    return scores


def _check_finite(scores: NDArray[Any]) -> None:
    if not all_finite(scores):
        bad = np.flatnonzero(~np.isfinite(scores).all(axis=1))
        raise ValueError(
            f"Input X contains NaN, infinity or numbers too large for {scores.dtype}, "
            f"in {bad.size} row(s), the first at position {bad[0]}. Replace the "
            "entries or drop the rows."
        )
