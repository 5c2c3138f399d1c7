"""The methods of the tables, run and measured in the same way."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from _clustering_problems import Problem
from scipy import sparse
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from sklearn.exceptions import ConvergenceWarning

from scalefair.cluster import (
    CoordinateDescentFairClustering,
    FairSpectralClustering,
    UnifiedFairSpectralClustering,
)

# All methods are rounded by the same k-means.
from scalefair.cluster._base import PAPERS_METHOD
from scalefair.cluster._kmeans import embedding_kmeans
from scalefair.linalg import dc_admm
from scalefair.metrics import (
    balance_score,
    minimum_balance_score,
    normalized_cut_score,
)
from scalefair.operators import NormalizedOperator

# Methods of the tables and the solvers of FairSpectralClustering that they are.
SOLVERS = {"o-FSC": "nullspace", "ADMM": "admm", "auto": "auto", "dual": "dual"}
METHODS = ("o-FSC", "s-FSC", *list(SOLVERS)[1:])
# omega of remark 2.3: M + (1 + omega) I is positive definite.
_OMEGA = 0.01
# A row that takes longer is not repeated.
_SLOW = 5.0


@dataclass
class Run:
    """What one run of a method gave; n_iter and product are those of ADMM."""

    seconds: float  # embedding and k-means
    cost: float  # normalised cut
    trace: float  # Tr(H^T M H)
    balance: float
    minimum_balance: float
    fairness: float  # |F^T H|_F^2
    orthogonality: float  # |H^T H - I|_F^2
    converged: bool
    labels: np.ndarray
    n_iter: float = math.nan
    product: float = math.nan  # |F^T M H|_F^2


def repeat(problem: Problem, method: str, k: int, n_runs: int) -> list[Run]:
    """Run a method with seeds 0, 1, ...; once if it is slow."""
    runs: list[Run] = []
    while len(runs) < n_runs and (not runs or runs[0].seconds < _SLOW):
        runs.append(run(problem, method, k, len(runs)))
    return runs


def run(problem: Problem, method: str, k: int, seed: int) -> Run:
    """Run a method once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # tables mark such rows
        if method == "s-FSC":
            return _scalable(problem, k, seed)
        if method in ("FFSC", "UFSC"):
            return _comparator(problem, method, k, seed)
        return _estimator(problem, method, k, seed)


def run_admm(problem: Problem, k: int, seed: int, alpha: float, n_steps: int) -> Run:
    """Algorithm 1 of the paper from a given penalty, and k-means."""
    start = time.perf_counter()
    M = NormalizedOperator(problem.operator)
    F = constraints(problem.groups, M.inv_sqrt_degrees)
    result = dc_admm(
        M,
        k,
        F,
        shift=-(1 + _OMEGA),
        alpha=alpha,
        max_iter=n_steps,
        random_state=np.random.RandomState(seed),
    )
    labels = _round(result.vectors, M.inv_sqrt_degrees, k, seed)
    seconds = time.perf_counter() - start
    run = _measure(problem, seconds, labels, result.vectors, result.converged)
    run.n_iter = float(result.n_iter)
    run.product = float(result.history["constraint_product"][-1]) ** 2
    return run


def constraints(groups: np.ndarray, inv_sqrt_degrees: np.ndarray) -> np.ndarray:
    """Return F = D^{-1/2} (G - 1 z^T)."""
    G = (groups[:, None] == np.unique(groups)).astype(np.float64)
    return (G - G.mean(axis=0)) * inv_sqrt_degrees[:, None]


def _estimator(problem: Problem, method: str, k: int, seed: int) -> Run:
    fit_input, parameters = problem.fit_input()
    model = FairSpectralClustering(
        k,
        solver=SOLVERS[method],
        tol=problem.tol,
        random_state=seed,
        **parameters,
        **PAPERS_METHOD,
    )
    start = time.perf_counter()
    model.fit(fit_input, sensitive_features=problem.groups)
    seconds = time.perf_counter() - start
    return _measure(problem, seconds, model.labels_, model.embedding_, model.converged_)


def _scalable(problem: Problem, k: int, seed: int) -> Run:
    """s-FSC of Wang et al. (2023) on a stored affinity, all of it SciPy.

    The smallest eigenpairs of P L P + s (I - P) with s = |L|_1, by restarted Lanczos.
    The identity is added, which changes no eigenvector.
    """
    M = problem.stored()  # not timed: a kernel computed here
    start = time.perf_counter()
    degrees = M @ np.ones(problem.n)
    scale = 1 / np.sqrt(degrees)
    if sparse.issparse(M):
        M = sparse.csr_array(sparse.diags_array(scale) @ M @ sparse.diags_array(scale))
    else:
        M = np.multiply(M, scale, out=M if problem.is_kernel else None)
        M *= scale[:, None]
    Q, _ = np.linalg.qr(constraints(problem.groups, scale)[:, :-1])
    diagonal = M.diagonal()
    sums = M @ np.ones(problem.n)  # of columns too: M is symmetric, and not negative
    shift = float((sums - diagonal + abs(1 - diagonal)).max())

    def multiply(x: np.ndarray) -> np.ndarray:
        x = x.ravel()
        fair = x - Q @ (Q.T @ x)
        y = fair - M @ fair
        # Plus x: ARPACK's test is relative to the eigenvalue. On FacebookNet it passed
        # over the eigenvalue 0 and returned the next two.
        return y - Q @ (Q.T @ y) + shift * (x - fair) + x

    A = LinearOperator(M.shape, matvec=multiply, dtype=np.float64)
    v0 = np.random.default_rng(seed).standard_normal(problem.n)
    v0 -= Q @ (Q.T @ v0)
    converged = True
    try:
        _, H = eigsh(A, k, which="SA", tol=problem.tol, v0=v0)
    except ArpackNoConvergence as error:
        eigenvectors, converged = error.eigenvectors, False
        H = np.linalg.qr(np.column_stack([eigenvectors, v0[:, None]]))[0][:, :k]
    labels = _round(H, scale, k, seed)
    seconds = time.perf_counter() - start
    return _measure(problem, seconds, labels, H, converged)


def _comparator(problem: Problem, method: str, k: int, seed: int) -> Run:
    """FFSC or UFSC on a stored affinity."""
    # Sweeps over a full kernel are slow: one start there.
    n_init = 1 if problem.is_kernel else 10
    model: Any = (
        CoordinateDescentFairClustering(k, n_init=n_init, random_state=seed)
        if method == "FFSC"
        else UnifiedFairSpectralClustering(k, random_state=seed)
    )
    W = sparse.csr_array(problem.stored())
    start = time.perf_counter()
    model.fit(W, sensitive_features=problem.groups)
    seconds = time.perf_counter() - start
    measured = _measure(
        problem, seconds, model.labels_, model.embedding_, model.converged_
    )
    # UFSC leaves self-loops out of the degrees, kernels have them: its own F.
    measured.fairness = model.fairness_violation_**2
    return measured


def _round(H: np.ndarray, scale: np.ndarray, k: int, seed: int) -> np.ndarray:
    rng = np.random.RandomState(seed)
    return embedding_kmeans(H * scale[:, None], k, random_state=rng)


def _measure(
    problem: Problem,
    seconds: float,
    labels: np.ndarray,
    H: np.ndarray,
    converged: bool,
) -> Run:
    degrees = problem.operator @ np.ones(problem.n)
    scale = 1 / np.sqrt(degrees)
    rows = H * scale[:, None]
    F = constraints(problem.groups, scale)
    groups = problem.groups
    return Run(
        seconds=seconds,
        cost=normalized_cut_score(problem.operator, labels),
        trace=float((rows * problem.operator.matmat(rows)).sum()),
        balance=float(balance_score(labels, sensitive_features=groups)),
        minimum_balance=minimum_balance_score(labels, sensitive_features=groups),
        fairness=float(np.linalg.norm(F.T @ H)) ** 2,
        orthogonality=float(np.linalg.norm(H.T @ H - np.eye(H.shape[1]))) ** 2,
        converged=converged,
        labels=labels,
    )
