"""Principal component analysis with equal losses among groups."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from scalefair._decorators import fit_context
from scalefair._groups import encode_groups
from scalefair.decomposition._base import BaseGroupPCA, Population, check_groups
from scalefair.decomposition._choice import choose_solver
from scalefair.decomposition._pencil import (
    CovariancePencil,
    FormedPencil,
    OperatorPencil,
)
from scalefair.decomposition._solution import FairBasis
from scalefair.decomposition._solvers import solve
from scalefair.operators import GroupCovariance
from scalefair.streaming import GroupMoments, PartitionedRows

__all__ = ["FairPCA"]

Array = NDArray[np.float64]

_SOLUTION = (
    "components_",
    "explained_variance_",
    "mean_",
    "groups_",
    "group_losses_",
    "group_reconstruction_errors_",
    "dual_weights_",
    "duality_gap_",
    "fairness_ratio_gap_",
    "n_iter_",
    "n_products_",
    "converged_",
)


class FairPCA(BaseGroupPCA):
    r"""Principal component analysis in which no group pays more than it must.

    The loss of a group under an orthonormal basis U of `n_components` columns is
    what it reconstructs worse, per sample, than with its own best basis:
    :math:`\mathrm{loss}_g(U) = \mathrm{top}_r(C_g) - \mathrm{Tr}(U^T C_g U)`, with
    :math:`C_g` the covariance of the group and :math:`\mathrm{top}_r` the sum of
    the r largest eigenvalues. Fair PCA minimises the largest loss [1]_. For two
    groups both losses are equal at the optimum and U consists of leading
    eigenvectors of :math:`t C_A + (1-t) C_B` at the t that maximises the concave
    dual [2]_; its derivative is the difference of the losses, and its root is found
    to rounding. For more groups the dual weights :math:`\lambda` of all groups are
    sought; the loss is certified by `duality_gap_`.

    Parameters
    ----------
    n_components : int, default=2
        Number of components, at most the number of features.
    solver : {"auto", "gram", "matrix_free"}, default="auto"
        - ``"gram"``: one pass over the rows accumulates the second moments of each
          group (``8 n_features**2`` bytes a group, float64); the rest does not
          depend on the number of rows.
        - ``"matrix_free"``: covariances are multiplied by, in block products with
          the rows, and never formed: for many features.
        - ``"auto"``: the one that needs fewer operations, by an estimate (see
          Notes); never ``"gram"`` when the moments would take more than 2 GiB.
    centering : {"global", "group"}, default="global"
        What is subtracted from the rows when covariances are computed: the mean of
        all rows, as plain PCA does, or each group's own mean, as in [2]_.
        `transform` subtracts the mean of all rows in either case: the group of a new
        row need not be known.
    tol : float, default=1e-8
        Bound on the error of the largest loss and on the difference of the losses
        of two groups, relative to the loss.
    max_iter : int, default=100
        Most evaluations of the dual, an eigenproblem each. Two groups need 4 to 20.
    random_state : int, RandomState instance or None, default=None
        For starting vectors with many features; the result depends on it by no more
        than the tolerance.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal rows that span the subspace: its principal axes for all rows,
        largest variance first, the entry largest in modulus positive.
    explained_variance_ : ndarray of shape (n_components,)
        Variance of the rows along each component (sums divided by the number of
        rows, as in the losses).
    mean_ : ndarray of shape (n_features,)
        Mean of all rows.
    groups_ : ndarray of shape (n_groups,)
        The groups, sorted.
    group_losses_ : ndarray of shape (n_groups,)
        Loss of each group, in the order of `groups_`, in squared units of the
        features per sample.
    group_reconstruction_errors_ : ndarray of shape (n_groups,)
        Mean squared distance of the rows of each group from the subspace.
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
        Evaluations of the dual.
    n_products_ : int
        Products of a covariance matrix or operator with a block of vectors
        (decompositions count as one).
    converged_ : bool
        Whether the dual was maximised to `tol`.
    moments_ : GroupMoments
        The moments; only with ``"gram"``. `partial_fit` adds to them.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if `X` had any.

    See Also
    --------
    SemidefiniteFairPCA : The semidefinite relaxation, by multiplicative weights.
    ErrorWeightedFairPCA : Equalises errors instead of losses.
    GroupPCA : Plain PCA with the losses of each group.

    Notes
    -----
    For `m` rows with `s` stored entries, ``"gram"`` takes about :math:`m n^2`
    operations, a product in ``"matrix_free"`` :math:`4 s q` with
    :math:`q \approx 1.3 r`; about a hundred are needed.

    Two groups have no duality gap. Three or more can have one: of three groups that
    vary along lines at 60 degrees of each other in a plane, with variance 2, one
    loses at least 3/2 with one component, where the dual is 1.

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
    """

    moments_: GroupMoments

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseGroupPCA._parameter_constraints,
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
        tol: float = 1e-8,
        max_iter: int = 100,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.centering = centering
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, sensitive_features: ArrayLike) -> FairPCA:
        """Find the fair subspace.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection, reader} of shape \
                (m, n_features)
            Rows of features, dense or CSR or CSC (other sparse formats are
            converted). Sparse matrices are not densified; memory-mapped arrays are
            read in blocks. Partitions of a Dask collection stay where they are: their
            moments, or products with them, are added up. A reader
            (:func:`scalefair.files.open_rows`) is read anew in each pass.
        y : None
            Ignored; there for the scikit-learn interface.
        sensitive_features : array-like or Dask collection of shape (m,)
            Group of each row: numbers, strings or booleans, none missing, at least
            two different ones.

        Returns
        -------
        FairPCA
            The fitted estimator.

        Raises
        ------
        ValueError
            If `X` has entries that are not finite, `n_components` exceeds the
            number of features, or there are fewer than two groups.

        Warns
        -----
        ConvergenceWarning
            If the dual was not maximised to `tol`, or a duality gap remains.
        """
        X = self._check_rows(X)
        self._check_rank(X.shape[1])
        codes: Any
        if isinstance(X, PartitionedRows):
            groups, codes = X.encode(
                sensitive_features, name="sensitive_features", what="group"
            )
        else:
            groups, codes = encode_groups(sensitive_features, X.shape[0])
        check_groups(groups)
        solver = self.solver
        if solver == "auto":
            solver = choose_solver(X, self.n_components, len(groups))
        if solver == "gram":
            self._fit_moments(GroupMoments._from_codes(X, groups, codes))
        else:
            self._fit_rows(X, groups, codes)
        return self

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: Any, y: Any = None, *, sensitive_features: ArrayLike
    ) -> FairPCA:
        """Add rows to the moments; the subspace is found when it is asked for.

        The first fitted attribute that is read, or `transform`, solves the problem
        for all rows seen so far, by ``"gram"`` whatever `solver` says.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection, reader} of shape \
                (m, n_features)
            More rows. The first call decides the number of features.
        y : None
            Ignored; there for the scikit-learn interface.
        sensitive_features : array-like or Dask collection of shape (m,)
            Their groups; new ones may appear.

        Returns
        -------
        FairPCA
            The estimator.

        Raises
        ------
        ValueError
            If the rows do not fit those before, or the estimator was fitted without
            moments (``solver="matrix_free"``).
        """
        fitted = vars(self)
        if "components_" in fitted and "moments_" not in fitted:
            raise ValueError(
                'This FairPCA was fitted by solver="matrix_free" and kept no moments '
                'to add to: fit with solver="gram", or begin with partial_fit.'
            )
        # Rows that were refused may have left n_features_in_.
        first = "moments_" not in fitted
        X = self._check_rows(X, reset=first)
        self._check_rank(X.shape[1])
        moments = GroupMoments.from_data(X, sensitive_features)
        # Those so far may be the caller's own (`from_moments`): they do not change.
        self.moments_ = moments if first else self.moments_.merge(moments)
        self.solver_ = "gram"
        for name in _SOLUTION:
            self.__dict__.pop(name, None)
        return self

    def __getattr__(self, name: str) -> Any:
        # Only called for attributes that are not there: after partial_fit.
        if name in _SOLUTION and "moments_" in vars(self):
            self._fit_moments(self.moments_)
            return vars(self)[name]
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}"
        )

    def _fit_moments(self, moments: GroupMoments) -> None:
        self.solver_ = "gram"
        self.moments_ = moments
        covariances = moments.covariances(self.centering)
        self._solve(
            FormedPencil(covariances),
            Population(moments.groups, moments.counts, moments.mean),
            np.trace(covariances, axis1=1, axis2=2),
        )

    def _fit_rows(self, X: Any, groups: NDArray[Any], codes: Any) -> None:
        self.solver_ = "matrix_free"
        self.__dict__.pop("moments_", None)
        weights = np.full(len(groups), 1 / len(groups))
        operator = GroupCovariance(X, codes, weights, centering=self.centering)
        self._solve(
            OperatorPencil(operator),
            Population(groups, operator.counts, operator.mean),
            operator.group_traces,
        )

    def _solve(
        self, pencil: CovariancePencil, population: Population, traces: Array
    ) -> None:
        check_groups(population.groups)
        found = solve(
            pencil,
            self.n_components,
            tol=self.tol,
            max_iter=self.max_iter,
            random_state=self.random_state,
        )
        self._store_basis(found.basis, population, found.compressed, traces, found.best)
        self.dual_weights_ = found.weights
        largest = float(self.group_losses_.max())
        self.duality_gap_ = max(largest - found.dual_value, 0.0)
        self.fairness_ratio_gap_ = _ratio_gap(self.group_losses_, found)
        self.n_iter_ = found.n_iter
        self.n_products_ = found.n_products
        self.converged_ = found.converged
        if not found.converged:
            warnings.warn(
                f"The dual was not maximised to tol={self.tol:g} in {found.n_iter} "
                f"evaluations; the largest loss, {largest:.6g}, may be "
                f"{self.duality_gap_:.2g} above the smallest possible. "
                f"{found.message or 'Raise max_iter or tol.'}",
                ConvergenceWarning,
                stacklevel=6,
            )
        elif self.duality_gap_ > max(self.tol * largest, found.rounding):
            warnings.warn(
                f"The largest loss, {largest:.6g}, is {self.duality_gap_:.2g} above "
                "the maximum of the dual. With three groups or more such a gap can "
                "be real, and cannot be closed by more iterations: the smallest "
                "largest loss lies in between. Another n_components may close it.",
                ConvergenceWarning,
                stacklevel=6,
            )


def _ratio_gap(losses: Array, found: FairBasis) -> float:
    """Largest over smallest of the losses that matter, less one."""
    active = losses[found.weights > 1e-6]
    if active.max() <= found.rounding:
        return 0.0  # nobody loses anything
    return float(active.max() / active.min() - 1) if active.min() > 0 else np.inf
