"""ADMM for a difference of convex functions under linear constraints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import scalefair.linalg._base as base
from scalefair import kernels
from scalefair._docs import documented
from scalefair._entries import (
    check_count,
    check_product,
    check_random_state,
    random_generator,
)
from scalefair._rounding import EPS, TINY
from scalefair.linalg._base import TEXTS, EigenResult, orthonormalize
from scalefair.linalg._dual import EnergyDual
from scalefair.linalg._lbfgs import lbfgs
from scalefair.operators._base import apply_block


@documented(**TEXTS)
class AdmmResult(EigenResult):
    """Orthonormal block that `dc_admm` returns, and the history of the iteration.

    Attributes
    ----------
    values : ndarray of shape (k,)
        The diagonal of `T`, largest first.
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
    n = operator.shape[0]
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1, got {alpha}.")
    check_count("max_iter", max_iter, 1)
    constraints = base.as_block(F, n, "F")
    base.check_scale(float(np.abs(constraints).max(initial=0.0)), "block F")
    # Orthonormal bases of the span of F, and of that of M F, which H avoids. With
    # Q of shape (n, rank), F^T Y = 0 becomes Q^T Y = 0.
    U, s, _ = np.linalg.svd(constraints, full_matrices=False)
    rank = int((s > n * EPS * s.max(initial=0.0)).sum())
    base.check_complement(k, n, rank)
    Q = np.ascontiguousarray(U[:, :rank])
    MQ = np.empty_like(Q)
    if rank:  # else no product
        apply_block(operator, Q, MQ, shift=shift)
        check_product(MQ)
        MQ = np.ascontiguousarray(np.linalg.qr(MQ)[0])
    # V is the dual variable of the H-step, kept from one iteration to the next. Y and
    # the multipliers begin at 0.
    V = random_generator(check_random_state(random_state)).standard_normal((n, k))
    V /= np.sqrt(n)
    objective = EnergyDual(operator, shift, k)
    Y = np.zeros((n, k))
    C = np.zeros((rank, k))  # multipliers P = Q C
    inner_ftol = 1e-4 if ftol is None else ftol
    inner_gtol = 1e-3 if gtol is None else gtol
    records: list[dict[str, float]] = []
    # The augmented Lagrangian of the splitting M H = Y is
    #     -|MH|^2 / 2 + <P, MH - Y> + alpha |MH - Y|^2 / 2.
    # It is minimised over H, then over Y; then P moves along the violation.
    # Invariants: Q^T Y = 0 and P = Q C, so that rank * k numbers hold P.
    for n_iter in range(1, max_iter + 1):
        # The penalty stays below 1: the H-step has curvature 1 - alpha.
        alpha = min(alpha, 0.9)
        # 1. H-step, equation (14), with B = alpha Y - P (proposition 3.3).
        objective.curvature = 1 - alpha
        objective.B = B = alpha * Y
        kernels.block_subtract(B, Q, C)
        n_inner = lbfgs(objective, V, ftol=inner_ftol, gtol=inner_gtol).n_iter
        MH = objective.MH
        # 2. Y-step: P lies in the span of Q, so that Y = (I - Q Q^T) M H.
        violation = kernels.block_gram(Q, MH)
        next_Y = MH.copy()
        kernels.block_subtract(next_Y, Q, violation)
        # 3. Multiplier step, equation (13).
        C += alpha * violation
        # 4. Residuals of the splitting: Y - M H = -Q violation is the primal one, alpha
        #    times the change of Y the dual one (Boyd et al. 2011, section 3.3).
        primal_residual = float(np.linalg.norm(violation))
        Y -= next_Y
        dual_residual = alpha * float(np.linalg.norm(Y))
        Y = next_Y
        # 5. Ritz vectors of P M^2 in the span of H, and their relative residuals; the
        #    memory of B is free.
        H = objective.H.copy()
        apply_block(operator, MH, B, shift=shift)
        kernels.block_subtract(B, MQ, kernels.block_gram(MQ, B))
        values, residuals = base.rotate_to_ritz(H, B)
        # Ritz values of M^2: residuals relative to the squared norm of M.
        residuals /= max(float(np.abs(values).max()), TINY)
        residual = float(residuals.max())
        F_MH, F_H = (kernels.block_gram(constraints, X) for X in (MH, objective.H))
        records.append(
            {
                "objective": 0.5 * float(np.linalg.norm(MH)) ** 2,
                "primal_residual": primal_residual,
                "dual_residual": dual_residual,
                "alpha": alpha,
                "constraint_product": float(np.linalg.norm(F_MH)),
                "constraint": float(np.linalg.norm(F_H)),
                "residual": residual,
                "n_inner": n_inner,
            }
        )
        if callback is not None:
            callback(n_iter, residual)
        if residual <= tol:
            break
        # 6. Penalty, equation (16), with the paper's factors 10 and 2 (appendix B).
        if primal_residual > 10 * dual_residual:
            alpha *= 2
        elif dual_residual > 10 * primal_residual:
            alpha /= 2
        # After the paper's ten iterations, an idle L-BFGS gets smaller tolerances.
        if n_iter >= 10 and n_inner <= 1 and ftol is None and gtol is None:
            inner_ftol, inner_gtol = inner_ftol / 10, inner_gtol / 10
    message = base.stop_message(
        n_iter,
        max_iter,
        residual,
        residual <= tol,
        steps="ADMM iterations",
        limit_remedy=f", the constraint is violated by {primal_residual:.1e}",
    )
    n_products = objective.n_products + n_iter  # one of M with each iteration's M H
    return AdmmResult(
        values=values,
        # The polar factor is orthonormal up to the condition of M V: one more pass.
        vectors=orthonormalize(H, rng=np.random.RandomState(0)),
        residual_norms=residuals,
        history={
            name: np.array([record[name] for record in records]) for name in records[0]
        },
        n_products=n_products + (rank > 0),
        n_columns=k * n_products + rank,
        n_iter=n_iter,
        converged=residual <= tol,
        message=message,
    )
