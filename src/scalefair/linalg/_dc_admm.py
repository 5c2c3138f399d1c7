"""ADMM for a difference of convex functions under linear constraints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator

import scalefair.linalg._base as base
from scalefair import kernels
from scalefair._docs import documented
from scalefair._entries import check_product
from scalefair._random_state import check_random_state, random_generator
from scalefair.linalg._base import TEXTS, Array
from scalefair.linalg._dual import EnergyDual
from scalefair.linalg._lbfgs import lbfgs
from scalefair.linalg._orthonormalize import orthonormalize
from scalefair.operators._base import apply_block

_TAU, _MU, _CAP = 2.0, 10.0, 0.9  # penalty rule (appendix B), and alpha < 1
_FTOL, _GTOL, _ITERATIONS = 1e-4, 1e-3, 10  # the paper's


@documented(**TEXTS)
@dataclass(frozen=True)
class AdmmResult:
    """Orthonormal block that `dc_admm` ends with, and how it came there.

    Attributes
    ----------
    vectors : ndarray of shape (n, k)
        H, orthonormal.
    residual_norms : ndarray of shape (k,)
        Norms of the columns of ``P M^2 H - H T`` with ``T = H^T M^2 H`` diagonal and
        `P` the projection away from ``M F``, over the squared norm of `M`.
    history : dict of ndarray
        One entry per iteration: ``objective`` (``|M H|^2 / 2``), ``primal_residual``,
        ``dual_residual``, ``alpha`` (penalty), ``constraint_product``
        (``|F^T M H|``), ``constraint`` (``|F^T H|``), ``residual`` (largest of
        `residual_norms`) and ``n_inner`` (L-BFGS steps).
    %(counts)s
    n_iter : int
        ADMM iterations.
    converged : bool
        Whether all `residual_norms` are at most `tol`.
    %(message)s
    """

    vectors: Array
    residual_norms: Array
    history: dict[str, NDArray[Any]]
    n_products: int
    n_columns: int
    n_iter: int
    converged: bool
    message: str


@documented(**TEXTS)
@kernels.single_blas_thread()
def dc_admm(
    A: Any,
    k: int,
    F: ArrayLike,
    *,
    shift: float = 0.0,
    tol: float = 1e-4,
    max_iter: int = 10,
    alpha: float = 0.005,
    ftol: float | None = None,
    gtol: float | None = None,
    random_state: Any = None,
    callback: Callable[[int, float], object] | None = None,
) -> AdmmResult:
    r"""Maximise :math:`|MH|^2/2` with :math:`H^T H = I` and :math:`F^T M H = 0`.

    :math:`M = A - \sigma I` has to be positive definite. The splitting :math:`Y = MH`
    puts the constraint on :math:`MH`, not on `H`; L-BFGS solves the dual of the step in
    `H`. About ``184 n k`` bytes are kept. Nothing guarantees convergence: with an
    eigenvalue of `M` close to 0 it may settle in a cycle.

    Parameters
    ----------
    %(A)s
    k : int
        Number of columns of `H`.
    F : array-like of shape (n, r)
        Constraints; dependent columns do no harm.
    shift : float, default=0.0
        :math:`\sigma`.
    tol : float, default=1e-4
        Stop when no residual (see `AdmmResult`) is larger.
    max_iter : int, default=10
        Most ADMM iterations; the paper's ten are often not enough for `tol`.
    alpha : float, default=0.005
        First penalty; doubled (up to 0.9) or halved when residuals differ tenfold.
    ftol, gtol : float or None, default=None
        When the inner L-BFGS stops. None takes the paper's 1e-4 and 1e-3, divided by
        ten, after ten iterations, whenever it finds next to nothing to do.
    %(random_state)s
    callback : callable or None, default=None
        Called after each iteration with its number and the largest residual.

    Returns
    -------
    AdmmResult
        The block and the history.

    Raises
    ------
    ValueError
        If shapes do not fit, the constraints leave too little room, `alpha` or
        `max_iter` is out of range, or the norm of `A` or `F` is too far from 1.
    FloatingPointError
        If a product with the operator is not finite.

    References
    ----------
    Tonin, Lambert, Suykens, Cevher (2025), "Accelerating Spectral Clustering under
    Fairness Constraints", ICML, algorithm 1 and appendix B.

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.linalg import dc_admm
    >>> A = np.diag([5.0, 4.0, 3.0, 1.0])
    >>> found = dc_admm(A, 1, np.eye(4)[:, :1], max_iter=100, random_state=0)
    >>> abs(found.vectors[:, 0]).round(3)
    array([0., 1., 0., 0.])
    """
    operator = base.as_symmetric_operator(A, k)
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1, got {alpha}.")
    base.check_count("max_iter", max_iter, 1)
    constraints = base.as_block(F, operator.shape[0], "F")
    base.check_scale(float(np.abs(constraints).max(initial=0.0)), "block F")
    shape = len(constraints), k
    V = random_generator(check_random_state(random_state)).standard_normal(shape)
    run = _Run(operator, k, constraints, shift, V / np.sqrt(len(V)))
    options: dict[str, Any] = {
        "ftol": _FTOL if ftol is None else ftol,
        "gtol": _GTOL if gtol is None else gtol,
    }
    for i in range(1, max_iter + 1):
        alpha = run.step(min(alpha, _CAP), options)
        worst = float(run.residuals.max())
        if callback is not None:
            callback(i, worst)
        if worst <= tol:
            break
        idle = run.history["n_inner"][-1] <= 1
        if i >= _ITERATIONS and idle and ftol is None and gtol is None:
            options = {name: value / 10 for name, value in options.items()}
    return run.result(tol)


class _Run:
    """State of the iteration."""

    def __init__(
        self, operator: LinearOperator, k: int, F: Array, shift: float, V: Array
    ) -> None:
        self.operator, self.k, self.F, self.shift = operator, k, F, shift
        self.objective = EnergyDual(operator, shift, k)
        n = operator.shape[0]
        U, s, _ = np.linalg.svd(F, full_matrices=False)
        rank = int((s > n * np.finfo(np.float64).eps * s.max(initial=0.0)).sum())
        base.check_room(k, n, rank)
        self.Q = np.ascontiguousarray(U[:, :rank])
        self.MQ = self._image(self.Q)
        self.V = V  # overwritten
        self.Y = np.zeros((n, k))
        self.C = np.zeros((rank, k))  # multipliers P = Q C
        self.history: dict[str, list[float]] = {}
        self.n_extra = 0  # products of width k beyond the objective's

    def _image(self, Q: Array) -> Array:
        """Orthonormal basis of the span of M Q: H is feasible if orthogonal to it."""
        image = np.empty_like(Q)
        if Q.shape[1]:
            apply_block(self.operator, Q, image, shift=self.shift)
            check_product(image)
        return np.ascontiguousarray(np.linalg.qr(image)[0])

    def step(self, alpha: float, options: dict[str, Any]) -> float:
        """Make one iteration with the given penalty; return the next one."""
        objective = self.objective
        objective.curvature = 1 - alpha
        B = alpha * self.Y  # alpha Y - P, proposition 3.3
        kernels.block_subtract(B, self.Q, self.C)
        objective.B = B
        inner = lbfgs(objective, self.V, **options)  # H-step, equation (14)
        MH = objective.MH
        violation = kernels.block_gram(self.Q, MH)
        Y = MH.copy()  # Y-step: P lies in the span of Q, so that Y = (I - Q Q^T) M H
        kernels.block_subtract(Y, self.Q, violation)
        self.C += alpha * violation  # multiplier step, equation (13)
        self.Y -= Y
        dual_residual = alpha * float(np.linalg.norm(self.Y))
        self.Y = Y
        primal_residual = float(np.linalg.norm(violation))
        self._record(
            objective=0.5 * float(np.linalg.norm(MH)) ** 2,
            primal_residual=primal_residual,
            dual_residual=dual_residual,
            alpha=alpha,
            constraint_product=float(np.linalg.norm(kernels.block_gram(self.F, MH))),
            constraint=float(np.linalg.norm(kernels.block_gram(self.F, objective.H))),
            residual=self._measure(B),
            n_inner=inner.n_iter,
        )
        if primal_residual > _MU * dual_residual:  # equation (16)
            return alpha * _TAU
        return alpha / _TAU if dual_residual > _MU * primal_residual else alpha

    def _measure(self, work: Array) -> float:
        """Update H and its residuals in the problem solved; `work` is overwritten."""
        H = self.objective.H.copy()
        apply_block(self.operator, self.objective.MH, work, shift=self.shift)
        self.n_extra += 1
        kernels.block_subtract(work, self.MQ, kernels.block_gram(self.MQ, work))
        T = kernels.block_gram(H, work)
        values, S = base.eigh_descending(T)
        residuals = kernels.rotate_ritz(H, work, S, values)
        scale = max(float(np.abs(values).max()), np.finfo(float).tiny)
        self.H, self.residuals = H, residuals / scale
        return float(self.residuals.max())

    def _record(self, **entries: float) -> None:
        for name, value in entries.items():
            self.history.setdefault(name, []).append(value)

    def result(self, tol: float) -> AdmmResult:
        n_iter = len(self.history["alpha"])
        worst = float(self.residuals.max())
        converged = worst <= tol
        message = f"Converged in {n_iter} iterations."
        if not converged:
            message = (
                f"Residual {worst:.1e}, constraint violated by "
                f"{self.history['primal_residual'][-1]:.1e} after max_iter = {n_iter} "
                "ADMM iterations: raise max_iter or tol."
            )
        n_products = self.objective.n_products + self.n_extra
        # Orthonormal to the condition of M V: to rounding after one more pass.
        rng = np.random.RandomState(0)
        vectors = orthonormalize(self.H, rng=rng)
        history = {name: np.array(v) for name, v in self.history.items()}
        rank = self.Q.shape[1]
        counts = n_products + (rank > 0), self.k * n_products + rank, n_iter
        return AdmmResult(vectors, self.residuals, history, *counts, converged, message)
