"""Fair PCA by weighing the total error against the difference of the errors."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from scalefair.decomposition._base import BaseGroupPCA, Population
from scalefair.decomposition._pencil import captured, compress, top_sums
from scalefair.decomposition._semidefinite import leading_basis
from scalefair.streaming import GroupMoments

__all__ = ["ErrorWeightedFairPCA"]

Array = NDArray[np.float64]

_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
# Errors are differences of traces: what counts as equal, relative to the trace.
_ROUNDING = 1e-12


class ErrorWeightedFairPCA(BaseGroupPCA):
    r"""PCA with nearly equal reconstruction errors in two groups, for comparison.

    With B the group that plain PCA reconstructs worse and A the other one, the basis
    :math:`U_\alpha` minimises :math:`\alpha\, e(U) + (1-\alpha)(e_B(U) - e_A(U))`,
    where e is the mean squared reconstruction error of all rows and
    :math:`e_A, e_B` are those of the groups; :math:`\alpha` in [0, 1] is the one
    that makes :math:`(e_B - e_A)^2` smallest. Both methods of [1]_ are there:
    u-FPCA and, with ``constraint="error"``, c-FPCA.

    Errors, not losses, are made equal: a group that is harder to reconstruct even
    with a basis of its own is favoured at the cost of the other. `FairPCA` makes
    the losses equal.

    Parameters
    ----------
    n_components : int, default=2
        Number of components.
    constraint : {"none", "error"}, default="none"
        ``"error"`` admits only bases under which no group's error exceeds that of
        B under plain PCA. Plain PCA always is one of them.
    centering : {"global", "group"}, default="global"
        Whether covariances are around the overall mean, as in PCA, or each around
        its group's own mean.
    tol : float, default=1e-6
        Width of the interval of :math:`\alpha` at which the search ends, the authors'
        value; each digit costs about five eigendecompositions.
    max_iter : int, default=100
        Most eigendecompositions.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal rows: the basis, turned to the axes that PCA would choose in its
        span.
    alpha_ : float
        Weight of the total error; 1 is plain PCA.
    error_difference_ : float
        Mean error of `disfavored_group_` less that of the other group.
    disfavored_group_ : object
        B, the group with the larger mean error under plain PCA.
    group_reconstruction_errors_ : ndarray of shape (2,)
        Mean squared reconstruction error of each group, in the order of `groups_`.
    group_losses_ : ndarray of shape (2,)
        The same less the least error of a basis for that group alone.
    explained_variance_ : ndarray of shape (n_components,)
        Variance of each coordinate over all rows.
    mean_ : ndarray of shape (n_features,)
        Overall mean of the rows.
    groups_ : ndarray of shape (2,)
        Sorted groups.
    n_iter_ : int
        Eigendecompositions of the search, plain PCA's included.
    converged_ : bool
        Whether the interval became as narrow as `tol`.
    n_features_in_ : int
        Number of columns of the input.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, when the input has names that are strings.

    See Also
    --------
    FairPCA : Equal losses of any number of groups.
    SemidefiniteFairPCA : Equal losses by semidefinite relaxation.

    Notes
    -----
    `fit` raises ValueError unless there are exactly two groups, and warns
    (ConvergenceWarning) when `max_iter` eigendecompositions do not narrow the
    interval to `tol`.

    :math:`e_B - e_A` never falls as :math:`\alpha` grows, so that its square has one
    valley, and the bases admitted by the constraint are those of an interval that
    ends at 1: a golden-section search that turns away from bases not admitted finds
    the best :math:`\alpha`. The difference jumps where the leading eigenvalues of
    the weighted matrix tie; no :math:`\alpha` may then make the errors equal. Where
    it is constant, the search goes by its sign. The best of all bases visited is
    kept, plain PCA among them. [2]_ prints the weighted matrix with the signs of A
    and B exchanged (equation B2); here B has the positive one, as its (B1) implies.

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

    def _fit_moments(self, moments: GroupMoments) -> None:
        if len(moments.groups) != 2:
            raise ValueError(
                f"sensitive_features has {len(moments.groups)} groups, but the "
                "difference of errors is defined for exactly two. Merge groups, or "
                "use FairPCA, which takes any number."
            )
        C = moments.covariances(self.centering)
        errors = _WeightedErrors(C, moments.counts, self.n_components)
        limit = errors.limit if self.constraint == "error" else math.inf
        search = golden_section(
            errors.at, errors.at(1.0), limit, self.tol, self.max_iter
        )
        if not search.converged:
            warnings.warn(
                f"The search for alpha stopped at an interval of width "
                f"{search.width:.1e} > tol={self.tol:g} after {search.n_iter} "
                f"eigendecompositions. Increase max_iter={self.max_iter} or tol.",
                ConvergenceWarning,
                stacklevel=5,  # where `fit` is called
            )
        found = search.best
        self._store_basis(
            found.basis,
            Population(moments.groups, moments.counts, moments.mean),
            compress(C, found.basis),
            errors.traces,
            top_sums(C, self.n_components),
        )
        self.alpha_ = found.alpha
        self.error_difference_ = found.difference
        self.disfavored_group_ = moments.groups[errors.worse]
        self.n_iter_ = search.n_iter
        self.converged_ = search.converged


@dataclass(frozen=True)
class _Point:
    """The basis of one alpha.

    Attributes
    ----------
    alpha : float
        Weight of the total error.
    basis : ndarray of shape (n, r)
        U_alpha.
    difference : float
        Error of B less that of A.
    largest : float
        Larger one of the two errors.
    total : float
        Mean error of all rows.
    """

    alpha: float
    basis: Array
    difference: float
    largest: float
    total: float


class _WeightedErrors:
    """Errors of the two groups as functions of alpha."""

    def __init__(self, C: Array, counts: NDArray[np.int64], r: int) -> None:
        self.C, self.r = C, r
        self.shares = counts / counts.sum()
        self.traces = np.trace(C, axis1=1, axis2=2)
        self.plain = leading_basis(self.shares, C, r)
        errors = self.traces - captured(C, self.plain)
        self.worse = int(errors.argmax())
        self.sign = np.where(np.arange(2) == self.worse, 1.0, -1.0)
        self.limit = float(errors.max()) + _ROUNDING * float(self.traces.max())

    def at(self, alpha: float) -> _Point:
        """Leading eigenvectors of alpha C + (1 - alpha)(C_B - C_A), and errors."""
        if alpha == 1.0:
            U = self.plain
        else:
            weights = alpha * self.shares + (1.0 - alpha) * self.sign
            U = leading_basis(weights, self.C, self.r)
        errors = self.traces - captured(self.C, U)
        return _Point(
            alpha,
            U,
            float(self.sign @ errors),
            float(errors.max()),
            float(self.shares @ errors),
        )


@dataclass(frozen=True)
class _Search:
    """Best point visited, and how the search ended."""

    best: _Point
    width: float
    n_iter: int
    converged: bool


def golden_section(
    at: Callable[[float], _Point],
    plain: _Point,
    limit: float,
    tol: float,
    max_iter: int,
) -> _Search:
    """Minimise the squared difference over [0, 1] by golden section.

    Parameters
    ----------
    at : callable
        Gives the point of an alpha.
    plain : _Point
        That of alpha = 1, admitted.
    limit : float
        Points whose larger error exceeds this are not admitted; if a point is not,
        none to the left of it is.
    tol : float
        Width of the interval at which to end.
    max_iter : int
        Most points, `plain` included.

    Returns
    -------
    _Search
    """
    best, n_iter = plain, 1
    low, high = 0.0, 1.0
    left: _Point | None = None
    right: _Point | None = None
    while high - low > tol and n_iter < max_iter:
        if left is not None and right is not None:
            if _valley_is_left(left, right, limit):
                high, left, right = right.alpha, None, left
            else:
                low, left, right = left.alpha, right, None
            continue
        if left is None:
            point = left = at(high - _GOLDEN * (high - low))
        else:
            point = right = at(low + _GOLDEN * (high - low))
        n_iter += 1
        if point.largest <= limit:
            best = min(best, point, key=lambda p: (abs(p.difference), p.total))
    return _Search(best, high - low, n_iter, high - low <= tol)


def _valley_is_left(left: _Point, right: _Point, limit: float) -> bool:
    if left.largest > limit:
        return False
    # The difference grows with alpha, so that this is left**2 < right**2; where both
    # are equal, it does not leave the choice to rounding.
    return left.difference + right.difference > 0
