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
from scalefair._rounding import EPS, TINY
from scalefair.linalg._base import TEXTS, Array
from scalefair.linalg._dual import EnergyDual
from scalefair.linalg._lbfgs import lbfgs
from scalefair.linalg._orthonormalize import orthonormalize
from scalefair.operators._base import apply_block


@documented(**TEXTS)
@dataclass(frozen=True)
class AdmmResult:
    """Orthonormal block that `dc_admm` returns, and the history of the iteration.

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
        Tolerances of the inner L-BFGS. None takes the paper's 1e-4 and 1e-3. After ten
        iterations, each that makes no more than one inner step divides them by ten.
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
        If shapes do not fit, there are too many constraints, `alpha` or
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
    >>> result = dc_admm(A, 1, np.eye(4)[:, :1], max_iter=100, random_state=0)
    >>> abs(result.vectors[:, 0]).round(3)
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
    iteration = _AdmmIteration(operator, k, constraints, shift, V / np.sqrt(len(V)))
    inner_ftol = 1e-4 if ftol is None else ftol
    inner_gtol = 1e-3 if gtol is None else gtol
    for i in range(1, max_iter + 1):
        # The penalty stays below 1: the H-step has curvature 1 - alpha.
        alpha = iteration.step(min(alpha, 0.9), inner_ftol, inner_gtol)
        residual = float(iteration.residuals.max())
        if callback is not None:
            callback(i, residual)
        if residual <= tol:
            break
        # After the paper's ten iterations, an idle L-BFGS gets smaller tolerances.
        is_idle = iteration.history["n_inner"][-1] <= 1
        if i >= 10 and is_idle and ftol is None and gtol is None:
            inner_ftol, inner_gtol = inner_ftol / 10, inner_gtol / 10
    return iteration.result(tol)


class _AdmmIteration:
    """H, Y and the multipliers P = Q C of algorithm 1, and its history."""

    def __init__(
        self, operator: LinearOperator, k: int, F: Array, shift: float, V: Array
    ) -> None:
        self.operator, self.k, self.F, self.shift = operator, k, F, shift
        self.objective = EnergyDual(operator, shift, k)
        n = operator.shape[0]
        U, s, _ = np.linalg.svd(F, full_matrices=False)
        rank = int((s > n * EPS * s.max(initial=0.0)).sum())
        base.check_complement(k, n, rank)
        self.Q = np.ascontiguousarray(U[:, :rank])
        # Orthonormal basis of the span of M Q: H is feasible if orthogonal to it.
        self.MQ = np.empty_like(self.Q)
        if rank:
            apply_block(self.operator, self.Q, self.MQ, shift=shift)
            check_product(self.MQ)
        self.MQ = np.ascontiguousarray(np.linalg.qr(self.MQ)[0])
        self.V = V  # overwritten
        self.Y = np.zeros((n, k))
        self.C = np.zeros((rank, k))  # multipliers P = Q C
        self.history: dict[str, list[float]] = {}
        self.n_extra = 0  # products of width k beyond the objective's

    def step(self, alpha: float, ftol: float, gtol: float) -> float:
        """Make one iteration with penalty `alpha`; return the next penalty."""
        objective = self.objective
        # 1. H-step, equation (14), with B = alpha Y - P (proposition 3.3).
        objective.curvature = 1 - alpha
        B = alpha * self.Y
        kernels.block_subtract(B, self.Q, self.C)
        objective.B = B
        inner = lbfgs(objective, self.V, ftol=ftol, gtol=gtol)
        MH = objective.MH
        # 2. Y-step: P lies in the span of Q, so that Y = (I - Q Q^T) M H.
        violation = kernels.block_gram(self.Q, MH)
        Y = MH.copy()
        kernels.block_subtract(Y, self.Q, violation)
        # 3. Multiplier step, equation (13).
        self.C += alpha * violation
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
        # 4. Penalty, equation (16), with the paper's factors 10 and 2 (appendix B).
        if primal_residual > 10 * dual_residual:
            return 2 * alpha
        return alpha / 2 if dual_residual > 10 * primal_residual else alpha

    def _measure(self, work: Array) -> float:
        """Measure the residuals of H in the constrained problem; overwrite `work`."""
        H = self.objective.H.copy()
        apply_block(self.operator, self.objective.MH, work, shift=self.shift)
        self.n_extra += 1
        kernels.block_subtract(work, self.MQ, kernels.block_gram(self.MQ, work))
        T = kernels.block_gram(H, work)
        values, S = base.eigh_descending(T)
        residuals = kernels.rotate_ritz(H, work, S, values)
        scale = max(float(np.abs(values).max()), TINY)
        self.H, self.residuals = H, residuals / scale
        return float(self.residuals.max())

    def _record(self, **entries: float) -> None:
        for name, value in entries.items():
            self.history.setdefault(name, []).append(value)

    def result(self, tol: float) -> AdmmResult:
        n_iter = len(self.history["alpha"])
        residual = float(self.residuals.max())
        converged = residual <= tol
        message = f"Converged in {n_iter} iterations."
        if not converged:
            message = (
                f"Residual {residual:.1e}, constraint violated by "
                f"{self.history['primal_residual'][-1]:.1e} after max_iter = {n_iter} "
                "ADMM iterations: raise max_iter or tol."
            )
        n_products = self.objective.n_products + self.n_extra
        # The polar factor is orthonormal up to the condition of M V: one more pass.
        vectors = orthonormalize(self.H, rng=np.random.RandomState(0))
        history = {name: np.array(v) for name, v in self.history.items()}
        rank = self.Q.shape[1]
        return AdmmResult(
            vectors=vectors,
            residual_norms=self.residuals,
            history=history,
            n_products=n_products + (rank > 0),
            n_columns=self.k * n_products + rank,
            n_iter=n_iter,
            converged=converged,
            message=message,
        )
