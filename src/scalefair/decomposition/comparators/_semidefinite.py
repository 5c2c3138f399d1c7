"""Fair PCA by semidefinite relaxation and multiplicative weights."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import softmax
from sklearn.utils._param_validation import Interval

from scalefair._docs import documented
from scalefair._rounding import ROUNDING
from scalefair.decomposition._base import TEXTS, Array, BaseGroupPCA, Counts
from scalefair.decomposition._covariances import captured, leading_basis, top_sums


@documented(**TEXTS)
class SemidefiniteFairPCA(BaseGroupPCA):
    r"""Fair PCA by semidefinite relaxation, for comparison with `FairPCA`.

    The relaxation looks for a symmetric P with :math:`0 \le P \le I` and
    :math:`\mathrm{Tr}(P) \le r` that makes the largest loss
    :math:`\mathrm{top}_r(C_g) - \mathrm{Tr}(C_g P)` of a group small, by
    multiplicative weights: each iteration takes the PCA of a weighted sum of the
    groups' covariances and raises the weights of the groups that lost most. P is
    the average of these projections or the last one, whichever has the smaller
    largest loss, and rows are mapped by :math:`P^* = I - \sqrt{I - P}`.

    The rank of P* is in general larger than `n_components`: `transform` returns
    `rank_` coordinates, scaled such that `inverse_transform` of `transform` multiplies
    the centred rows by P*. The answer is approximate; `duality_gap_` bounds its error.

    Parameters
    ----------
    n_components : int, default=2
        r, the dimension that the relaxation allows in all.
    %(centering)s
    max_iter : int, default=10
        Iterations T, one eigendecomposition each: the authors' number, all made.
    step : float, default=1.0
        Step :math:`\eta` of the weights, :math:`w_g \propto \exp(\eta \sum loss_g)`;
        the authors' value. Scaling `X` by c is scaling `step` by c squared.

    Attributes
    ----------
    components_ : ndarray of shape (rank_, n_features)
        Eigenvectors of P* times the square roots of their eigenvalues, largest
        eigenvalue first. Not orthonormal unless P* is a projector.
    rank_ : int
        Number of eigenvalues of P above 1e-12; the others are dropped.
    projection_ : ndarray of shape (n_features, n_features)
        P*, formed from `components_` when it is asked for.
    explained_variance_ : ndarray of shape (rank_,)
        Variance of each coordinate over all rows.
    %(group_losses_)s
    %(group_reconstruction_errors_)s
    relaxed_losses_ : ndarray of shape (n_groups,)
        Losses of P in the relaxation, equal to `group_losses_` up to rounding since
        :math:`(I - P^*)^2 = I - P`.
    dual_weights_ : ndarray of shape (n_groups,)
        The weights visited that give the largest lower bound.
    duality_gap_ : float
        Largest relaxed loss less that lower bound: no basis of `n_components`
        vectors, and no P, has a largest loss smaller by more than this.
    %(mean_)s
    %(groups_)s
    n_iter_ : int
        Iterations made.
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    FairPCA : The exact solution of the problem that is relaxed here.
    ErrorWeightedFairPCA : Equal errors instead of equal losses.

    Notes
    -----
    No linear program makes the average an extreme point of the relaxation, of rank r
    for two groups ([1]_ had r + 1). If all losses stay below W, its largest loss
    exceeds the least one by at most :math:`\ln(G)/(\eta T) + \eta W^2/8`:
    :math:`T = 32 \ln(G)/\epsilon^2`, :math:`\eta = \epsilon/8` makes this at most
    :math:`\epsilon` when W is at most 6.9. Memory: ``8 (G + 2) n_features**2`` bytes
    and the moments.

    References
    ----------
    .. [1] Samadi, Tantipongpipat, Morgenstern, Singh, Vempala (2018), "The Price of
       Fair PCA: One Extra Dimension", NeurIPS, algorithms 1 and 2.
    .. [2] Shen, Davis, Lu, Bai (2026), "Fair principal component analysis via
       eigenvalue optimization", section 3.3.

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.decomposition import SemidefiniteFairPCA
    >>> X = np.array([[2.0, 0], [-2, 0], [0, 1], [0, -1]])
    >>> model = SemidefiniteFairPCA(n_components=1, max_iter=1000, step=0.1)
    >>> model = model.fit(X, sensitive_features=["a", "a", "b", "b"])
    >>> model.group_losses_.round(1)
    array([0.8, 0.8])
    >>> model.rank_
    2
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseGroupPCA._parameter_constraints,
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "step": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        centering: str = "global",
        max_iter: int = 10,
        step: float = 1.0,
    ) -> None:
        self.n_components = n_components
        self.centering = centering
        self.max_iter = max_iter
        self.step = step

    def _fit_basis(self, C: Array, counts: Counts) -> None:
        best = top_sums(C, self.n_components)
        relaxed = multiplicative_weights(
            C, self.n_components, best, self.max_iter, self.step
        )
        self.relaxed_losses_ = self._by_attribute(np.maximum(relaxed.losses, 0.0))
        self.dual_weights_ = self._by_attribute(relaxed.weights)
        self.duality_gap_ = max(float(relaxed.losses.max()) - relaxed.dual_value, 0.0)
        self.n_iter_ = self.max_iter
        p, V = relaxed.p, relaxed.vectors
        overall = np.tensordot(counts / counts.sum(), C, axes=1)
        # Any basis of the eigenspace of 1 will do: take the principal axes in it.
        eigenspace = V[:, p == 1]
        axes = np.linalg.eigh(eigenspace.T @ overall @ eigenspace)[1]
        V[:, p == 1] = (eigenspace @ axes)[:, ::-1]
        V *= np.sign(V[np.abs(V).argmax(axis=0), np.arange(p.size)])
        s = p / (1 + np.sqrt(1 - p))  # 1 - sqrt(1 - p) without cancellation
        self.rank_ = p.size
        self.components_ = np.ascontiguousarray((V * np.sqrt(s)).T)
        self.explained_variance_ = np.maximum(s * _diagonal_of(V, overall), 0.0)
        # |x - P* x|^2 = x^T (I - P*)^2 x, and (1 - s)^2 = 1 - p.
        kept = np.array([p @ _diagonal_of(V, C_g) for C_g in C])
        traces = np.trace(C, axis1=1, axis2=2)
        self.group_losses_ = self._by_attribute(np.maximum(best - kept, 0.0))
        errors = np.maximum(traces - kept, 0.0)
        self.group_reconstruction_errors_ = self._by_attribute(errors)

    @property
    def projection_(self) -> Array:
        """P*, an array of shape (n_features, n_features)."""
        return self.components_.T @ self.components_


class Relaxed(NamedTuple):
    """Approximate solution of the relaxation."""

    p: Array  # positive eigenvalues of P, largest first
    vectors: Array  # their eigenvectors, shape (n, q)
    losses: Array  # of the groups under P
    weights: Array  # the visited weights with the largest dual value
    dual_value: float  # a lower bound of the largest loss under any P


def multiplicative_weights(
    C: Array, r: int, best: Array, n_iter: int, step: float
) -> Relaxed:
    """Make the largest loss under a P of trace `r` small in `n_iter` PCAs."""
    # `best` are the sums of the `r` largest eigenvalues of each C.
    n_groups, n, _ = C.shape
    average = np.zeros((n, n))
    total = np.zeros(n_groups)
    bound, bound_weights = -np.inf, np.full(n_groups, 1 / n_groups)
    for _ in range(n_iter):
        # 1. Weights grow exponentially with the losses so far.
        weights = softmax(step * total)
        U = leading_basis(weights, C, r)
        losses = best - captured(C, U)
        # 2. U maximises the weighted variance: its weighted loss is a lower bound.
        dual_value = float(weights @ losses)
        if dual_value > bound:
            bound, bound_weights = dual_value, weights
        # 3. The average of all projections.
        average += U @ U.T
        total += losses
    # The last projection, if it is better than the average.
    if losses.max() <= (total / n_iter).max():
        return Relaxed(np.ones(r), U, losses, bound_weights, bound)
    p, V = np.linalg.eigh(average / n_iter)
    p, V = p[::-1], V[:, ::-1]
    # Eigenvalues that are 0 or 1 up to rounding.
    p = np.where(p > 1 - ROUNDING, 1.0, p)
    kept = p > ROUNDING
    V = np.ascontiguousarray(V[:, kept])
    return Relaxed(p[kept], V, total / n_iter, bound_weights, bound)


def _diagonal_of(U: Array, S: Array) -> Array:
    """Diagonal of ``U.T @ S @ U``."""
    return np.asarray(np.einsum("ij,ij->j", U, S @ U))
