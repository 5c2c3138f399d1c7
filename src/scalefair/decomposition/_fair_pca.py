"""Principal component analysis with equal losses among groups."""

from __future__ import annotations

import warnings
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from scalefair._decorators import fit_context
from scalefair._docs import documented
from scalefair._groups import Attribute, as_list, fitted_groups, squeeze_single
from scalefair.decomposition._base import (
    TEXTS,
    BaseGroupPCA,
    ComparedMoments,
    Moments,
    joined_moments,
)
from scalefair.decomposition._pencil import (
    CovariancePencil,
    FormedPencil,
    OperatorPencil,
    OverlappingCovariance,
    buffer_size,
)
from scalefair.decomposition._spaces import space_of
from scalefair.decomposition._sparse_two_groups import solve_by_lanczos
from scalefair.decomposition._subspace import FairBasis, solve
from scalefair.operators import GroupCovariance
from scalefair.streaming import GroupMoments

Array = NDArray[np.float64]

# Moments of the groups and the matrices of the eigen-solver, in bytes.
_MOST_MEMORY = 2 * 2**30
_MATRICES = 2
# Block products of a matrix-free solution with two groups.
_PRODUCTS = 100
# Time of an operation with a stored entry, and of one in a dense product with a block,
# in units of one in a dense second moment.
_SPARSE = 10.0
_BLOCK = 2.0
# Time of a full eigendecomposition, in units of n^3 of these.
_DECOMPOSITION = 10.0


def _solved(name: str) -> Any:
    """Attribute that `fit` sets, or the first reading of one after `partial_fit`."""

    def solve_all(estimator: FairPCA) -> Any:
        check_is_fitted(estimator, "moments_")
        warning = estimator._fit_moments(as_list(estimator.moments_))
        if warning:
            warnings.warn(warning, ConvergenceWarning, stacklevel=3)
        return vars(estimator)[name]

    return cached_property(solve_all)


@documented(**TEXTS)
class FairPCA(BaseGroupPCA):
    r"""Principal component analysis in which no group pays more than it must.

    The loss of a group under an orthonormal basis U of `n_components` columns is
    what it reconstructs worse, per sample, than with its own best basis:
    :math:`\mathrm{loss}_g(U) = \mathrm{top}_r(C_g) - \mathrm{Tr}(U^T C_g U)`, with
    :math:`C_g` the covariance of the group and :math:`\mathrm{top}_r` the sum of
    the r largest eigenvalues. Fair PCA minimises the largest loss [1]_. For two
    groups both losses are equal at the optimum and U consists of leading
    eigenvectors of :math:`t C_A + (1-t) C_B` at the t that maximises the concave
    dual [2]_. For more groups the dual weights of all groups are sought; there can be
    a gap, `duality_gap_`.

    Parameters
    ----------
    %(n_components)s
    solver : {"auto", "gram", "matrix_free"}, default="auto"
        - ``"gram"``: one pass over the rows accumulates the second moments of each
          group (``8 n_features**2`` bytes a group).
        - ``"matrix_free"``: covariances are multiplied by, in products with the
          rows, and never formed, unless they take less memory than sparse rows and
          less time: for many features.
        - ``"auto"``: the one that needs fewer operations, by an estimate; never
          ``"gram"`` when the moments would take more than 2 GiB.
    %(centering)s
    %(attributes)s
        The largest loss is then over the groups of all columns.
    tol : float, default=1e-8
        Bound on the error of the largest loss and on the difference of the losses
        of two groups, relative to the loss.
    max_iter : int, default=100
        Most evaluations of the dual, an eigenproblem each. Two groups need about 10.
    random_state : int, RandomState instance or None, default=None
        For starting vectors with many features; the result hardly depends on it.

    Attributes
    ----------
    %(components_)s
    %(explained_variance_)s
    %(mean_)s
    %(groups_each_)s
        Other attributes of shape (n_groups,) are then such lists, too.
    %(group_losses_)s
    %(group_reconstruction_errors_)s
    dual_weights_ : ndarray of shape (n_groups,)
        The maximiser of the dual. A group of weight 0 loses less than the others.
    duality_gap_ : float
        Largest loss less the value of the dual: no basis of this size has a largest
        loss that is smaller by more. Zero up to `tol` for two groups.
    fairness_ratio_gap_ : float
        Largest over smallest loss, less 1, among the groups of positive weight.
    solver_ : str
        The solver that was used.
    n_iter_ : int
        Evaluations of the dual; with two groups of sparse rows, eigenproblems.
    n_products_ : int
        Products of a covariance, or of a weighted sum of them, with a block of
        vectors, or with one for sparse rows; a decomposition counts one.
    converged_ : bool
        Whether the dual was maximised to `tol`.
    moments_ : GroupMoments, or list of them
        The moments; only with ``"gram"``. `partial_fit` adds to them.
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    SemidefiniteFairPCA : The semidefinite relaxation, by multiplicative weights.
    ErrorWeightedFairPCA : Equalises errors instead of losses.
    GroupPCA : Plain PCA with the losses of each group.

    References
    ----------
    .. [1] Samadi, Tantipongpipat, Morgenstern, Singh, Vempala (2018), "The price of
       fair PCA: one extra dimension", NeurIPS.
    .. [2] Shen, Davis, Lu, Bai, "Hidden convexity of fair PCA and fast solver via
       eigenvalue optimization", Theorem 3.1; journal version "Fair principal
       component analysis via eigenvalue optimization".

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.decomposition import FairPCA
    >>> rng = np.random.default_rng(0)
    >>> scales = np.where(np.arange(300)[:, None] < 200, [3, 1, 1], [1, 2, 1])
    >>> X = rng.standard_normal((300, 3)) * scales
    >>> group = np.repeat(["a", "b"], [200, 100])
    >>> pca = FairPCA(n_components=1).fit(X, sensitive_features=group)
    >>> pca.group_losses_.round(3)
    array([1.923, 1.923])
    >>> pca.transform(X).shape
    (300, 1)

    Two attributes, each by itself:

    >>> people = np.column_stack([group, np.tile(["old", "young"], 150)])
    >>> pca = FairPCA(n_components=1, attributes="each")
    >>> pca = pca.fit(X, sensitive_features=people)
    >>> [losses.round(3) for losses in pca.group_losses_]
    [array([1.923, 1.923]), array([0.888, 1.156])]
    """

    moments_: GroupMoments | list[GroupMoments]
    components_: Any = _solved("components_")
    explained_variance_: Any = _solved("explained_variance_")
    group_losses_: Any = _solved("group_losses_")
    group_reconstruction_errors_: Any = _solved("group_reconstruction_errors_")
    dual_weights_: Any = _solved("dual_weights_")
    duality_gap_: Any = _solved("duality_gap_")
    fairness_ratio_gap_: Any = _solved("fairness_ratio_gap_")
    n_iter_: Any = _solved("n_iter_")
    n_products_: Any = _solved("n_products_")
    converged_: Any = _solved("converged_")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseGroupPCA._parameter_constraints,
        "attributes": [StrOptions({"joint", "each"})],
        "solver": [StrOptions({"auto", "gram", "matrix_free"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        solver: str = "auto",
        centering: str = "global",
        attributes: str = "joint",
        tol: float = 1e-8,
        max_iter: int = 100,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.centering = centering
        self.attributes = attributes
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: Any, y: Any = None, *, sensitive_features: ArrayLike
    ) -> FairPCA:
        """Add rows to the moments; the subspace is found when it is asked for.

        `transform`, or the first fitted attribute of the subspace that is read, solves
        the problem for all rows so far, by ``"gram"`` whatever `solver` says.

        Parameters
        ----------
        %(rows)s
        %(y_ignored)s
        sensitive_features : array-like or Dask collection of shape (m,)
            Their groups; new ones may appear.

        Returns
        -------
        FairPCA
            The estimator.

        Raises
        ------
        ValueError
            If the rows do not fit those before, or ``solver="matrix_free"`` has
            fitted the estimator without moments.
        """
        fitted: dict[str, Any] = self.__dict__
        if "components_" in fitted and "moments_" not in fitted:
            raise ValueError(
                'This FairPCA was fitted by solver="matrix_free" and kept no moments '
                'to add to: fit with solver="gram", or begin with partial_fit.'
            )
        # Rows that were refused may have left n_features_in_.
        first = "moments_" not in fitted
        X = self._check_rows(X, reset=first)
        self._check_rank(X.shape[1])
        each = GroupMoments._compared(X, sensitive_features, self.attributes)
        # Those so far may be the caller's own (`from_moments`): they do not change.
        each = each if first else self._merged(each)
        self.moments_ = squeeze_single(each)
        self.groups_ = squeeze_single([moments.groups for moments in each])
        self.mean_, self.solver_ = each[0].mean, "gram"
        for name, attribute in vars(FairPCA).items():
            if isinstance(attribute, cached_property):
                fitted.pop(name, None)
        return self

    def _merged(self, each: list[GroupMoments]) -> list[GroupMoments]:
        """Moments so far with those of more rows."""
        known = as_list(self.moments_)
        if len(known) != len(each):
            raise ValueError(
                f"sensitive_features has {len(each)} attribute(s), the rows before had "
                f"{len(known)}: give the same columns, and leave `attributes` as it is."
            )
        return GroupMoments._merge_each(known, each)

    def _fit_rows(self, X: Any, compared: list[Attribute]) -> str | None:
        solver = self.solver
        n_groups = sum(len(attribute.groups) for attribute in compared)
        if solver == "auto":
            solver = choose_solver(X, self.n_components, n_groups)
        if solver == "gram":
            return super()._fit_rows(X, compared)
        self.solver_ = "matrix_free"
        self.__dict__.pop("moments_", None)
        self.groups_ = fitted_groups(compared)
        if _fit_beside(X, n_groups) and (
            choose_solver(X, self.n_components, n_groups) == "gram"
        ):
            each = GroupMoments._of_each(X, compared)
            self.mean_ = each[0].mean
            return self._solve_formed(joined_moments(each))
        operator: GroupCovariance | OverlappingCovariance
        codes = compared[0].codes
        if len(compared) > 1:
            operator = OverlappingCovariance(X, compared, self.centering)
        else:
            weights = np.full(n_groups, 1 / n_groups)
            operator = GroupCovariance(X, codes, weights, centering=self.centering)
        self.mean_ = operator.mean
        found = None
        if (
            sparse.issparse(X)
            and isinstance(operator, GroupCovariance)
            and n_groups == 2
        ):
            found = solve_by_lanczos(
                space_of(operator, X, codes),
                self.n_components,
                tol=self.tol,
                max_iter=self.max_iter,
                random_state=self.random_state,
            )
        if found is None:
            found = self._search(OperatorPencil(operator))
        return self._store(found, operator.counts, operator.group_traces)

    def _find_basis(self, moments: Moments) -> str | None:
        self.solver_ = "gram"
        if isinstance(moments, ComparedMoments):
            self.moments_ = moments.each
        else:
            self.moments_ = moments
        return self._solve_formed(moments)

    def _solve_formed(self, moments: Moments) -> str | None:
        C = moments.covariances(self.centering)
        traces = np.trace(C, axis1=1, axis2=2)
        return self._store(self._search(FormedPencil(C)), moments.counts, traces)

    def _search(self, pencil: CovariancePencil) -> FairBasis:
        return solve(
            pencil,
            self.n_components,
            tol=self.tol,
            max_iter=self.max_iter,
            random_state=self.random_state,
        )

    def _store(
        self, found: FairBasis, counts: NDArray[np.int64], traces: Array
    ) -> str | None:
        losses = self._store_basis(
            found.basis, found.compressed, counts, traces, found.best
        )
        self.dual_weights_ = self._by_attribute(found.weights)
        largest = float(losses.max())
        self.duality_gap_ = max(largest - found.dual_value, 0.0)
        self.fairness_ratio_gap_ = _ratio_gap(losses, found)
        self.n_iter_ = found.n_iter
        self.n_products_ = found.n_products
        self.converged_ = found.converged
        if not found.converged:
            return (
                f"The dual was not maximised to tol={self.tol:g} in {found.n_iter} "
                f"evaluations; the largest loss, {largest:.6g}, may be "
                f"{self.duality_gap_:.2g} above the smallest possible. "
                f"{found.message or 'Raise max_iter or tol.'}"
            )
        if self.duality_gap_ > max(self.tol * largest, found.rounding):
            return (
                f"The largest loss, {largest:.6g}, is {self.duality_gap_:.2g} above "
                "the maximum of the dual. With three groups or more such a gap can "
                "be real, and cannot be closed by more iterations: the smallest "
                "largest loss lies in between. Another n_components may close it."
            )
        return None


def choose_solver(X: Any, r: int, n_groups: int) -> str:
    """``"gram"`` or ``"matrix_free"``, whichever needs less time by an estimate."""
    m, n = X.shape
    is_sparse = sparse.issparse(X) or getattr(X, "is_sparse", False)
    if 8 * (n_groups + _MATRICES) * n * n > _MOST_MEMORY:
        return "matrix_free"
    stored, unit = (float(X.nnz), _SPARSE) if is_sparse else (float(m * n), _BLOCK)
    free = 4 * stored * (r + buffer_size(r)) * unit * _PRODUCTS
    # Second moments of sparse rows cost the square of their entries each.
    formed = stored**2 / m * unit if is_sparse else stored * n
    return "gram" if formed + _DECOMPOSITION * n**3 <= free else "matrix_free"


def _fit_beside(X: Any, n_groups: int) -> bool:
    """Whether covariances take less memory than the sparse rows they are of."""
    if not sparse.issparse(X):
        return False
    covariances = 8 * n_groups * X.shape[1] ** 2
    return bool(covariances <= X.data.nbytes + X.indices.nbytes)


def _ratio_gap(losses: Array, found: FairBasis) -> float:
    """Largest over smallest of the losses that matter, less one."""
    active = losses[found.weights > 1e-6]
    if active.max() <= found.rounding:
        return 0.0  # nobody loses anything
    return float(active.max() / active.min() - 1) if active.min() > 0 else np.inf
