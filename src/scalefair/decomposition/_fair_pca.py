"""Principal component analysis with equal losses among groups."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from scalefair._decorators import fit_context
from scalefair._docs import documented
from scalefair._entries import check_random_state
from scalefair._groups import as_list, fitted_groups, known_codes, squeeze_single
from scalefair._membership import Membership
from scalefair._messages import warn_user
from scalefair.decomposition._base import TEXTS, Array, BaseGroupPCA, Counts
from scalefair.decomposition._covariances import (
    CovarianceOperators,
    ExpectedCovariance,
    FormedCovariances,
    OverlappingCovariance,
    buffer_size,
)
from scalefair.decomposition._sparse_two_groups import choose_space, solve_by_lanczos
from scalefair.decomposition._subspace import FairBasis, solve
from scalefair.operators import GroupCovariance
from scalefair.streaming import GroupMoments

# Most memory of the groups' moments and of the eigensolver, in bytes.
MAX_MOMENT_BYTES = 2 * 2**30
# Block products of a matrix-free solution with two groups.
N_BLOCK_PRODUCTS = 100
# Attributes that are computed when one of them is first read after `partial_fit`.
SOLVED_ATTRIBUTES = (
    "components_",
    "explained_variance_",
    "group_losses_",
    "group_reconstruction_errors_",
    "dual_weights_",
    "duality_gap_",
    "fairness_ratio_gap_",
    "n_iter_",
    "n_products_",
    "converged_",
)


@documented(**TEXTS)
class FairPCA(BaseGroupPCA):
    r"""Principal component analysis that minimises the largest loss of a group.

    The loss of a group under an orthonormal basis U of `n_components` columns is its
    reconstruction error per sample, minus that under its own best basis:
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
        Whether covariances are formed, or multiplied by.

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

    Groups that are known as probabilities:

    >>> P = np.where(group[:, None] == ["a", "b"], 0.9, 0.1)
    >>> pca = FairPCA(n_components=1).fit(X, group_probabilities=P)
    >>> pca.groups_, pca.group_losses_.round(3)
    (array([0, 1]), array([0.601, 0.601]))
    """

    moments_: GroupMoments | list[GroupMoments]

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

    def __getattr__(self, name: str) -> Any:
        # Called only for an attribute that the instance lacks. After `partial_fit` the
        # problem is solved here; `_fit_moments` sets all SOLVED_ATTRIBUTES.
        if name not in SOLVED_ATTRIBUTES:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        check_is_fitted(self, "moments_")
        try:
            warning = self._fit_moments(as_list(self.moments_))
        except ValueError as error:  # rows of one group only, so far
            raise NotFittedError(str(error)) from error
        if warning:
            warn_user(warning, ConvergenceWarning)
        return vars(self)[name]

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: ArrayLike | None = None,
        group_probabilities: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> FairPCA:
        """Add rows to the moments; the subspace is computed when it is needed.

        `transform`, or the first fitted attribute of the subspace that is read, solves
        the problem for all rows so far, by ``"gram"`` whatever `solver` says.

        Parameters
        ----------
        %(rows)s
        %(y_ignored)s
        sensitive_features : array-like or Dask collection of shape (m,), default=None
            Their groups; new ones may appear.
        %(group_probabilities)s
            The columns are those before; one in which all are 0 must be left out, in a
            data frame, whose names say which are there.
        %(sample_weight)s
            In the unit of the weights before.

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
        # A refused first call may have set n_features_in_: reset it.
        is_first = "moments_" not in fitted
        X = self._check_rows(X, reset=is_first)
        self._check_rank(X.shape[1])
        moments = GroupMoments._from_attributes(
            X, sensitive_features, self.attributes, sample_weight, group_probabilities
        )
        if not is_first:
            before = as_list(self.moments_)
            if len(before) != len(moments):
                raise ValueError(
                    f"sensitive_features has {len(moments)} attribute(s), the rows "
                    f"before had {len(before)}: give the same columns, and leave "
                    "`attributes` as it is."
                )
            if group_probabilities is not None:  # refuse other columns
                groups, subject = moments[0].groups, "group_probabilities has"
                known_codes(groups, before[0].groups, subject=subject)
                is_named = hasattr(group_probabilities, "columns")
                if len(groups) < len(before[0].groups) and not is_named:
                    raise ValueError(
                        f"{subject} {len(groups)} columns without names, the rows "
                        f"before had {len(before[0].groups)}. Leave out a column of "
                        "zeros in a data frame: its names say which are there."
                    )
            # A new object: the caller may hold the old one (`from_moments`).
            moments = GroupMoments._merge_each(before, moments)
        self.moments_ = squeeze_single(moments)
        self.groups_ = squeeze_single([attribute.groups for attribute in moments])
        self.mean_, self.solver_ = moments[0].mean, "gram"
        # Forget the solution for the rows before: `__getattr__` solves anew.
        for name in SOLVED_ATTRIBUTES:
            fitted.pop(name, None)
        return self

    def _fit_rows(self, X: Any, membership: Membership) -> str | None:
        compared, entry_rows, weights = membership
        n_groups = sum(len(attribute.groups) for attribute in compared)
        # Of probabilities a row has several entries; of certain groups, None, one.
        n_passes = 1.0 if entry_rows is None else len(entry_rows) / X.shape[0]
        cheaper = choose_solver(X, self.n_components, n_groups, n_passes)
        self.solver_ = cheaper if self.solver == "auto" else self.solver
        if self.solver_ == "gram":
            return super()._fit_rows(X, membership)
        self.__dict__.pop("moments_", None)  # of an earlier fit
        # 1. Covariances, if they take less memory and less time than sparse rows. The
        # base class does not store the moments.
        if cheaper == "gram" and sparse.issparse(X):
            n_bytes = 8 * n_groups * X.shape[1] ** 2
            if n_bytes <= X.data.nbytes + X.indices.nbytes:
                return super()._fit_moments(GroupMoments._by_attribute(X, membership))
        # 2. Products with the rows, by an operator for any weights of the groups.
        operator: GroupCovariance | OverlappingCovariance
        codes = compared[0].codes
        if entry_rows is not None:
            operator = ExpectedCovariance(X, membership, self.centering)
        elif len(compared) > 1:
            operator = OverlappingCovariance(X, membership, self.centering)
        else:
            operator = GroupCovariance(
                X,
                codes,
                np.full(n_groups, 1 / n_groups),
                centering=self.centering,
                sample_weight=weights,
            )
        self.groups_, self.mean_ = fitted_groups(compared), operator.mean
        # 3. Two groups of sparse rows: Lanczos. Otherwise, or if it fails, subspaces.
        solution = None
        is_single = isinstance(operator, GroupCovariance)
        if is_single and sparse.issparse(X) and n_groups == 2:
            solution = solve_by_lanczos(
                choose_space(operator, X, codes, weights),
                self.n_components,
                tol=self.tol,
                max_iter=self.max_iter,
                random_state=self.random_state,
            )
        if solution is None:
            rng = check_random_state(self.random_state)
            covariances = CovarianceOperators(operator, self.n_components, rng)
            solution = solve(covariances, tol=self.tol, max_iter=self.max_iter)
        return self._store(solution, operator.counts, operator.group_traces)

    def _fit_moments(self, by_attribute: list[GroupMoments]) -> str | None:
        self.moments_, self.solver_ = squeeze_single(by_attribute), "gram"
        return super()._fit_moments(by_attribute)

    def _fit_basis(self, C: Array, counts: Counts) -> str | None:
        rng = check_random_state(self.random_state)
        covariances = FormedCovariances(C, self.n_components, rng)
        solution = solve(covariances, tol=self.tol, max_iter=self.max_iter)
        return self._store(solution, counts, np.trace(C, axis1=1, axis2=2))

    def _store(self, solution: FairBasis, counts: Counts, traces: Array) -> str | None:
        losses = self._store_basis(
            solution.basis, solution.compressed, counts, traces, solution.best
        )
        largest = float(losses.max())
        self.dual_weights_ = self._by_attribute(solution.weights)
        self.duality_gap_ = max(largest - solution.dual_value, 0.0)
        # Largest over smallest loss of the groups with positive weight. The others lose
        # less by complementary slackness. Weights add up to 1.
        active = losses[solution.weights > 1e-6]
        self.fairness_ratio_gap_ = 0.0  # losses of 0
        if active.max() > solution.rounding:
            ratio = active.max() / active.min() if active.min() > 0 else np.inf
            self.fairness_ratio_gap_ = float(ratio - 1)
        self.n_iter_ = solution.n_iter
        self.n_products_ = solution.n_products
        self.converged_ = solution.converged
        if not solution.converged:
            return (
                f"The dual was not maximised to tol={self.tol:g} in {solution.n_iter} "
                f"evaluations; the largest loss, {largest:.6g}, may be "
                f"{self.duality_gap_:.2g} above the smallest possible. "
                f"{solution.message or 'Raise max_iter or tol.'}"
            )
        if self.duality_gap_ > max(self.tol * largest, solution.rounding):
            return (
                f"The largest loss, {largest:.6g}, is {self.duality_gap_:.2g} above "
                "the maximum of the dual. With three groups or more such a gap can "
                "be real, and cannot be closed by more iterations: the smallest "
                "largest loss lies in between. Another n_components may close it."
            )
        return None


def choose_solver(X: Any, r: int, n_groups: int, n_passes: float = 1.0) -> str:
    """``"gram"`` or ``"matrix_free"``, whichever needs less time by an estimate.

    The moments take `n_passes` over the rows: a row counts for so many groups.
    """
    m, n = X.shape
    is_sparse = sparse.issparse(X) or getattr(X, "is_sparse", False)
    # Moments, and two matrices for the eigensolver.
    if 8 * (n_groups + 2) * n * n > MAX_MOMENT_BYTES:
        return "matrix_free"
    # Times, in units of an operation of a dense second moment: one with a sparse entry
    # takes ten, one of a dense block product two, an eigendecomposition 10 n^3.
    if is_sparse:
        n_stored, unit = float(X.nnz), 10.0
        moment_time = n_stored**2 / m * unit  # the squared number of entries of a row
    else:
        n_stored, unit = float(m * n), 2.0
        moment_time = n_stored * n
    # A product with X and one with its transpose: two operations for an entry in each.
    product_time = 4 * n_stored * (r + buffer_size(r)) * unit
    moment_time *= n_passes
    is_gram = moment_time + 10.0 * n**3 <= N_BLOCK_PRODUCTS * product_time
    return "gram" if is_gram else "matrix_free"
