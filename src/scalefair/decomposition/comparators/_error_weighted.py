"""PCA by the total error alone, and weighed against the difference of the errors."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from scalefair._docs import documented
from scalefair._rounding import ROUNDING
from scalefair.decomposition._base import TEXTS, Array, BaseGroupPCA, Counts
from scalefair.decomposition._covariances import (
    captured,
    compress,
    leading_basis,
    top_sums,
)


@documented(**TEXTS)
class GroupPCA(BaseGroupPCA):
    r"""Plain PCA, with what it costs each group: the baseline of :class:`FairPCA`.

    The components are the leading eigenvectors of the covariance of all rows,
    :math:`\sum_g (m_g / m) C_g`. With ``centering="global"`` they are those of
    :class:`sklearn.decomposition.PCA`, up to the signs.

    Parameters
    ----------
    %(n_components)s
    %(centering)s

    Attributes
    ----------
    %(components_)s
    %(explained_variance_)s
    %(mean_)s
    %(groups_)s
    %(group_losses_)s
    %(group_reconstruction_errors_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.decomposition import GroupPCA
    >>> X = np.array([[4.0, 0], [-4, 0], [3, 0], [-3, 0], [0, 1], [0, -1]])
    >>> group = ["a", "a", "a", "a", "b", "b"]
    >>> pca = GroupPCA(n_components=1).fit(X, sensitive_features=group)
    >>> pca.group_losses_
    array([0., 1.])
    """

    def __init__(self, n_components: int = 2, *, centering: str = "global") -> None:
        self.n_components = n_components
        self.centering = centering

    def _fit_basis(self, C: Array, counts: Counts) -> None:
        r = self.n_components
        U = leading_basis(counts / counts.sum(), C, r)
        traces = np.trace(C, axis1=1, axis2=2)
        self._store_basis(U, compress(C, U), counts, traces, top_sums(C, r))


@documented(**TEXTS)
class ErrorWeightedFairPCA(BaseGroupPCA):
    r"""PCA with nearly equal reconstruction errors in two groups, for comparison.

    With B the group that plain PCA reconstructs worse and A the other one, the basis
    :math:`U_\alpha` minimises :math:`\alpha\, e(U) + (1-\alpha)(e_B(U) - e_A(U))`,
    where e is the mean squared reconstruction error of all rows and :math:`e_A, e_B`
    are those of the groups; the :math:`\alpha` in [0, 1] is taken that makes
    :math:`(e_B - e_A)^2` smallest. Both methods of [1]_ are there: u-FPCA and, with
    ``constraint="error"``, c-FPCA. `fit` takes exactly two groups, else ValueError.

    Errors, not losses, are made equal: a group that is harder to reconstruct even
    with a basis of its own is favoured at the cost of the other.

    Parameters
    ----------
    %(n_components)s
    constraint : {"none", "error"}, default="none"
        ``"error"`` admits only bases under which no group's error exceeds that of
        B under plain PCA. Plain PCA always is one of them.
    %(centering)s
    tol : float, default=1e-6
        Width of the interval of :math:`\alpha` at which the search ends, the authors'
        value; each digit costs three or four eigendecompositions.
    max_iter : int, default=100
        Most eigendecompositions.

    Attributes
    ----------
    %(components_)s
    alpha_ : float
        Weight of the total error; 1 is plain PCA.
    error_difference_ : float
        Mean error of `disfavored_group_` less that of the other group.
    disfavored_group_ : object
        B, the group with the larger mean error under plain PCA.
    %(group_reconstruction_errors_)s
    %(group_losses_)s
    %(explained_variance_)s
    %(mean_)s
    %(groups_)s
    n_iter_ : int
        Eigendecompositions of the search, plain PCA's included.
    converged_ : bool
        Whether the interval became as narrow as `tol`.
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    FairPCA : Equal losses of any number of groups.
    SemidefiniteFairPCA : Equal losses by semidefinite relaxation.

    Notes
    -----
    :math:`e_B - e_A` never falls as :math:`\alpha` grows, and the bases admitted by
    the constraint are those of an interval that ends at 1: bisection finds the best
    :math:`\alpha`. The difference jumps where the leading eigenvalues of the weighted
    matrix tie; no :math:`\alpha` may then make the errors equal. The best of all bases
    visited is kept. Signs are those of (B1) of [2]_, not of (B2).

    References
    ----------
    .. [1] Pelegrina, Duarte (2024), "A Novel Approach for Fair Principal Component
       Analysis Based on Eigendecomposition", IEEE Transactions on Artificial
       Intelligence 5(3).
    .. [2] Shen, Davis, Lu, Bai (2026), "Fair principal component analysis via
       eigenvalue optimization", appendix B.

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.decomposition import ErrorWeightedFairPCA
    >>> X = np.array([[2.0, 0], [-2, 0], [1, 1], [-1, -1]])
    >>> model = ErrorWeightedFairPCA(n_components=1)
    >>> model = model.fit(X, sensitive_features=["a", "a", "b", "b"])
    >>> model.group_reconstruction_errors_.round(3)
    array([0.4, 0.4])
    >>> round(model.alpha_, 3)
    0.909
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseGroupPCA._parameter_constraints,
        "constraint": [StrOptions({"none", "error"})],
        "tol": [Interval(Real, 0, 1, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        constraint: str = "none",
        centering: str = "global",
        tol: float = 1e-6,
        max_iter: int = 100,
    ) -> None:
        self.n_components = n_components
        self.constraint = constraint
        self.centering = centering
        self.tol = tol
        self.max_iter = max_iter

    def _fit_basis(self, C: Array, counts: Counts) -> str | None:
        if len(counts) != 2:
            raise ValueError(
                f"There are {len(counts)} groups, but the difference of errors is "
                "defined for exactly two. Merge groups, or use FairPCA, which takes "
                "any number."
            )
        # 1. Search for alpha, among the admitted bases.
        r = self.n_components
        errors = _WeightedErrors(C, counts, r)
        limit = errors.limit if self.constraint == "error" else math.inf
        best, width, n_iter = bisect(errors, limit, self.tol, self.max_iter)
        # 2. Store the best basis, and what became of the errors.
        U = best.basis
        self._store_basis(U, compress(C, U), counts, errors.traces, top_sums(C, r))
        self.alpha_ = best.alpha
        self.error_difference_ = best.difference
        self.disfavored_group_ = self.groups_[errors.worse]
        self.n_iter_ = n_iter
        self.converged_ = width <= self.tol
        if self.converged_:
            return None
        return (
            f"The search for alpha stopped at an interval of width {width:.1e} > "
            f"tol={self.tol:g} after {n_iter} eigendecompositions. Increase "
            f"max_iter={self.max_iter} or tol."
        )


class _WeightedBasis(NamedTuple):
    """The basis of one alpha, and its errors."""

    alpha: float  # weight of the total error
    basis: Array  # U_alpha, shape (n, r)
    difference: float  # error of B less that of A
    largest: float  # the larger one of the two errors
    total: float  # mean error of all rows


class _WeightedErrors:
    """Errors of the two groups as functions of alpha."""

    def __init__(self, C: Array, counts: Counts, r: int) -> None:
        self.C, self.r = C, r
        self.shares = counts / counts.sum()
        self.traces = np.trace(C, axis1=1, axis2=2)
        self.plain = leading_basis(self.shares, C, r)
        errors = self.traces - captured(C, self.plain)
        self.worse = int(errors.argmax())
        self.sign = np.where(np.arange(2) == self.worse, 1.0, -1.0)
        self.limit = float(errors.max()) + ROUNDING * float(self.traces.max())

    def evaluate(self, alpha: float) -> _WeightedBasis:
        """Leading eigenvectors of alpha C + (1 - alpha)(C_B - C_A), and errors."""
        if alpha == 1.0:
            U = self.plain
        else:
            weights = alpha * self.shares + (1.0 - alpha) * self.sign
            U = leading_basis(weights, self.C, self.r)
        errors = self.traces - captured(self.C, U)
        difference, total = float(self.sign @ errors), float(self.shares @ errors)
        return _WeightedBasis(alpha, U, difference, float(errors.max()), total)


def bisect(
    errors: _WeightedErrors, limit: float, tol: float, max_iter: int
) -> tuple[_WeightedBasis, float, int]:
    """Find where the difference changes its sign; return basis, width and steps."""
    best, n_iter = errors.evaluate(1.0), 1
    low, high = 0.0, 1.0
    while high - low > tol and n_iter < max_iter:
        point = errors.evaluate((low + high) / 2)
        n_iter += 1
        # A point whose larger error exceeds `limit` is excluded, and all below it.
        is_admitted = point.largest <= limit
        if is_admitted:
            best = min(best, point, key=lambda p: (abs(p.difference), p.total))
        # The difference never falls with alpha.
        if is_admitted and point.difference > 0:
            high = point.alpha
        else:
            low = point.alpha
    return best, high - low, n_iter
