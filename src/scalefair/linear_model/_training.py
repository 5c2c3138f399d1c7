"""From a start to a certified solution of a parity problem."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from scalefair._digits import apart
from scalefair.kernels import single_blas_thread
from scalefair.linear_model._parity_problem import ParityProblem, StrongParity
from scalefair.optimize import (
    DCRecord,
    DCResult,
    augmented_lagrangian,
    direct_switching_subgradient,
    idca,
)

__all__ = ["Solution", "given_start", "solve", "warn_unfinished"]

# The corners of the ramp are rounded over this much to both sides while it is
# treated as smooth.
_CORNER = 0.05
# Subgradient steps per subproblem, of the paper.
_STEPS = 150
# Accuracy of the subproblems under the switching subgradient method, of the paper.
_EPSILON = 2e-3
# Ratio of tolerances: the smoothed problem is solved this much more exactly, as the
# corners add to the violation.
_MARGIN = 0.1
# Gradient of its Lagrangian, beside the residual that is to be certified.
_STATIONARY = 0.5
# Change of the objective, as a share, after which rounds end, and steps of a round.
_SETTLED = 1e-4
_INNER = 80


@dataclass(frozen=True)
class Solution:
    """What the solvers found, and the multipliers to go on from."""

    x: NDArray[np.float64]
    thresholds: NDArray[np.float64]
    multipliers: NDArray[np.float64]
    objective: float
    infeasibility: float
    kkt_residual: float
    history: list[dict[str, float]]
    n_iter: int
    n_calls: int
    converged: bool
    remedy: str


def solve(
    problem: ParityProblem,
    v0: NDArray[np.float64] | None,
    *,
    multipliers: NDArray[np.float64] | None,
    smooth: bool,
    inner_solver: str,
    tol: float,
    max_iter: int,
    n_calls: int,
) -> Solution:
    """Solve a problem from `v0`, or from weights of zero.

    With `smooth` an augmented Lagrangian goes first, unless `v0` is feasible; without,
    a `v0` that is not feasible is of no use. If what the augmented Lagrangian finds
    violates the constraints by more than `tol`, the DC algorithm starts from weights
    of zero instead: those are feasible, and it keeps what is feasible.
    `n_calls` have been made before.
    """
    # Matrices are small here: threads of BLAS would wait for each other.
    with single_blas_thread():
        return _solve(
            problem, v0, multipliers, smooth, inner_solver, tol, max_iter, n_calls
        )


def _solve(
    problem: ParityProblem,
    v0: NDArray[np.float64] | None,
    multipliers: NDArray[np.float64] | None,
    smooth: bool,
    inner_solver: str,
    tol: float,
    max_iter: int,
    n_calls: int,
) -> Solution:
    v = problem.start() if v0 is None else v0
    records: list[DCRecord] = []
    if v0 is not None:
        feasible = _violation(problem, v0) <= tol
        n_calls += 1
        if not feasible and not smooth:
            v = problem.start()  # the DC algorithm keeps violations
        smooth = smooth and not feasible
    if smooth:
        found = augmented_lagrangian(
            lambda x: problem.smoothed(x, _CORNER),
            v,
            multipliers=multipliers,
            tol=_MARGIN * tol,
            stationarity=_STATIONARY * tol,
            settled=_SETTLED,
            max_iter=20,
            max_inner=_INNER,
        )
        records = [
            DCRecord(objective, infeasibility, np.nan, calls + n_calls)
            for objective, infeasibility, calls in found.history
        ]
        v = found.x if found.infeasibility <= tol else problem.start()
    result = _certify(problem, v, inner_solver, tol, max_iter)
    before = records[-1].n_calls if records else n_calls
    history = [
        *records,
        *(
            DCRecord(r.objective, r.infeasibility, r.kkt_residual, r.n_calls + before)
            for r in result.history
        ),
    ]
    return Solution(
        x=result.x,
        thresholds=problem.thresholds(result.x),
        multipliers=result.multipliers,
        objective=result.objective,
        infeasibility=result.infeasibility,
        kkt_residual=result.kkt_residual,
        history=[
            {
                "objective": r.objective,
                "infeasibility": r.infeasibility,
                "kkt_residual": r.kkt_residual,
                "n_oracle_calls": r.n_calls,
            }
            for r in history
        ],
        n_iter=result.n_iter,
        n_calls=result.n_calls + before,
        converged=result.converged and result.infeasibility <= tol,
        remedy=_remedy(result, inner_solver, max_iter),
    )


def _certify(
    problem: ParityProblem,
    v: NDArray[np.float64],
    inner: str,
    tol: float,
    max_iter: int,
) -> DCResult:
    if inner == "direct":
        return direct_switching_subgradient(
            problem, v, max_iter=_STEPS * max_iter, eps=_EPSILON, tol=tol
        )
    if inner == "ssg":
        return idca(
            problem,
            v,
            inner="switching_subgradient",
            tol=tol,
            max_iter=max_iter,
            eps=_EPSILON,
        )
    return idca(problem, v, tol=tol, max_iter=max_iter)


def _remedy(result: DCResult, inner: str, max_iter: int) -> str:
    """Return what to do, in words of the estimator's parameters."""
    if inner != "bundle":
        return 'Raise max_iter or tol, or take inner_solver="bundle".'
    if result.n_iter < max_iter:
        return "No step improves it: raise tol."
    return "Raise max_iter or tol."


def _violation(problem: ParityProblem, v: NDArray[np.float64]) -> float:
    (plus, _), (minus, _) = problem.evaluate(v)
    return float((plus - minus)[1:].max())


def given_start(problem: ParityProblem, rows: Any, tol: float) -> NDArray[np.float64]:
    """Variables for weights given as rows of coefficients and intercept."""
    w = np.asarray(rows, dtype=np.float64)
    columns = problem.oracle.n_features + 1
    expected = (problem.oracle.n_weights // columns, columns)
    if w.shape != expected or not np.isfinite(w).all():
        raise ValueError(
            f"start must hold finite rows of coefficients and intercept, of shape "
            f"{expected}, got shape {w.shape}."
        )
    w = problem.oracle.layout.parameters(w)
    v = w
    if isinstance(problem, StrongParity):
        theta = np.quantile(problem.oracle.scores(w), 1 - problem.ranks)
        v = problem.with_thresholds(w, theta)
    violation = _violation(problem, v)
    if violation > tol:
        raise ValueError(
            f"start violates a fairness constraint by {apart(violation, tol)} "
            f"(tol={tol:g}): rates may differ by {problem.slack:.3g}. Give fairer "
            "weights, or "
            'start="auto".'
        )
    return v


def warn_unfinished(found: Solution, tol: float, *, stacklevel: int) -> None:
    """Warn if a solution is not certified to `tol`."""
    if not found.converged:
        warnings.warn(
            f"Training stopped after {found.n_iter} iterations with a nearly-KKT "
            f"residual of {apart(found.kkt_residual, tol)} and a violation of "
            f"{apart(max(found.infeasibility, 0.0), tol)} (tol={tol:g}). "
            f"{found.remedy}",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
