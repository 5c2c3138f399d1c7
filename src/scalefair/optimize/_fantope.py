"""Minimax of linear functions on the Fantope: a primal-dual interior-point method."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from scalefair._messages import format_distinct
from scalefair._rounding import EPS
from scalefair.kernels import single_blas_thread
from scalefair.optimize._simplex import Array

# Largest entry: squares are added up.
MAX_ENTRY = 1e150
# Iterations within which the certified gap must halve.
STAGNATION_ITERATIONS = 8


@dataclass(frozen=True)
class FantopeResult:
    """Solution of a minimax problem on the Fantope, with its certificate.

    Attributes
    ----------
    W, weights : ndarray of shape (n, n) and (G,)
        Matrix of the Fantope, and dual weights on the simplex.
    value, bound, gap : float
        ``max_g b_g - <A_g, W>``, ``weights @ b - top_k(sum_g weights_g A_g)``, which no
        `W` goes below, and their difference; below zero by rounding only.
    n_iter : int
        Newton systems set up, each solved for a predictor and a corrector.
    converged, message : bool and str
        Whether the gap met the tolerance; how the solver ended and what to change.
    """

    W: Array
    weights: Array
    value: float
    bound: float
    gap: float
    n_iter: int
    converged: bool
    message: str


@single_blas_thread()
def minimax_on_fantope(
    A: ArrayLike, b: ArrayLike, k: int, *, tol: float = 1e-9, max_iter: int = 60
) -> FantopeResult:
    r"""Minimise ``max_g b_g - <A_g, W>`` over ``0 <= W <= I``, ``Tr W = k``.

    The Fantope is the convex hull of the projectors of rank `k`. The dual maximises
    :math:`\lambda^T b - top_k(\sum_g \lambda_g A_g)` over the simplex, top_k being the
    sum of the `k` largest eigenvalues. A predictor-corrector method with Nesterov-Todd
    scaling [1]_, [2]_ follows the central path, a dozen iterations usually.

    Parameters
    ----------
    A, b : array-like of shape (G, n, n) and (G,)
        Symmetric matrices and constants.
    k : int
        Trace of `W`, ``1 <= k <= n - 1``.
    tol, max_iter : float and int, default=1e-9, 60
        Bound on the gap, relative to the value, and most iterations.

    Returns
    -------
    FantopeResult
        The best matrix and weights, and bounds of the optimum from both.

    Raises
    ------
    ValueError
        If the shapes do not agree, there is no matrix, `k` is out of range or numbers
        are not finite or above 1e150.

    References
    ----------
    .. [1] Nesterov, Todd, "Primal-dual interior-point methods for self-scaled
       cones", SIAM J. Optim. 8 (1998).
    .. [2] Vandenberghe, "The CVXOPT linear and quadratic cone program solvers" (2010).

    Examples
    --------
    Two groups that want one direction each:

    >>> import numpy as np
    >>> from scalefair.optimize import minimax_on_fantope
    >>> A = [np.diag([1.0, 0.0, 0.0]), np.diag([0.0, 3.0, 0.0])]
    >>> solution = minimax_on_fantope(A, [1, 3], 1)
    >>> round(solution.value, 6), solution.weights.round(6)
    (0.75, array([0.75, 0.25]))
    """
    A, b = np.asarray(A, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if A.ndim != 3 or A.shape[1] != A.shape[2] or b.shape != A.shape[:1] or not b.size:
        raise ValueError(
            "A must be (G, n, n), G at least 1, with one number in b per matrix, got "
            f"shapes {A.shape} and {b.shape}."
        )
    if not (isinstance(k, Integral) and 1 <= k < A.shape[1]):
        raise ValueError(
            f"k={k} must be an integer from 1 to n - 1 = {A.shape[1] - 1}."
        )
    moderate = (np.abs(A) <= MAX_ENTRY).all(axis=(1, 2)) & (np.abs(b) <= MAX_ENTRY)
    if not moderate.all():
        raise ValueError(
            f"A and b must be finite and no larger than {MAX_ENTRY:g}, got NaN, "
            f"infinity or more in matrix {int(np.argmin(moderate))} or its number in b."
        )
    A = (A + A.transpose(0, 2, 1)) / 2
    # 1. Matrices of order one; smaller gaps than `floor` are rounding.
    scale = float(np.sqrt((A * A).sum(axis=(1, 2))).max())
    scale = scale or float(np.abs(b).max()) or 1.0
    A, b = A / scale, b / scale
    floor = 8 * EPS * np.sqrt(A.shape[1]) * max(1.0, float(np.abs(b).max()))
    # 2. Follow the central path; keep the best W and the best weights.
    path = CentralPath(A, b, k)
    best = _certify(A, b, k, path.W, path.weights)
    history = [best.gap]
    reason = f"max_iter={max_iter} reached; raise max_iter"
    n_iter = 0
    while best.gap > max(tol * abs(best.value), floor) and n_iter < max_iter:
        n_iter += 1
        try:
            path.advance()
        except np.linalg.LinAlgError:
            reason = "rounding stopped progress; raise tol"
            break
        best = _better(best, _certify(A, b, k, path.W, path.weights))
        history.append(best.gap)
        if (
            n_iter > STAGNATION_ITERATIONS
            and best.gap > history[-1 - STAGNATION_ITERATIONS] / 2
        ):
            reason = "rounding stopped progress; raise tol"
            break
    # 3. The result, in the units of the problem.
    allowed = max(tol * abs(best.value), floor)
    converged = bool(best.gap <= allowed)
    message = "The gap is within the tolerance."
    if not converged:
        message = f"The gap is {format_distinct(best.gap * scale, allowed * scale)}: "
        message += f"{reason}."
    return replace(
        best,
        value=best.value * scale,
        bound=best.bound * scale,
        gap=best.gap * scale,
        n_iter=n_iter,
        converged=converged,
        message=message,
    )


def _certify(A: Array, b: Array, k: int, W: Array, weights: Array) -> FantopeResult:
    """Values of both problems at a feasible point next to the iterate."""
    # 1. Move W towards 0 or the identity until rounding in its trace is gone.
    n, trace = W.shape[0], float(np.trace(W))
    # Convex combinations with 0 or I: both keep 0 <= W <= I.
    if trace > k:
        W = W * (k / trace)
    else:
        W = W + (np.eye(n) - W) * ((k - trace) / (n - trace))
    weights = np.maximum(weights, 0.0)
    weights = weights / weights.sum()
    # 2. The largest function at W, and the dual function at the weights.
    value = float((b - np.einsum("gij,ij->g", A, W)).max())
    # top_k is the largest <M, W> over the Fantope: any weights prove a bound.
    mu = np.linalg.eigvalsh(np.tensordot(weights, A, axes=1))
    bound = float(weights @ b) - float(mu[n - k :].sum())
    return FantopeResult(W, weights, value, bound, value - bound, 0, False, "")


def _better(old: FantopeResult, new: FantopeResult) -> FantopeResult:
    """Smaller value of one, larger bound of the other: neither need be monotone."""
    primal = new if new.value <= old.value else old
    dual = new if new.bound >= old.bound else old
    return replace(
        primal, weights=dual.weights, bound=dual.bound, gap=primal.value - dual.bound
    )


class _ScaledPair:
    """Matrix P and multiplier D, scaled: ``R^-1 P R^-T = R^T D R = diag(lam)``."""

    def __init__(self, P: Array, D: Array) -> None:
        """Nesterov-Todd scaling of two positive definite matrices of order n."""
        # With P = L_P L_P^T, D = L_D L_D^T and the SVD L_D^T L_P = U diag(lam) V^T,
        #     R = L_P V diag(lam)^-1/2,   R^-1 = diag(lam)^-1/2 U^T L_D^T.
        # No inverse is formed; lam^2 are the eigenvalues of P D.
        L_P, L_D = np.linalg.cholesky(P), np.linalg.cholesky(D)
        U, self.lam, Vt = np.linalg.svd(L_D.T @ L_P)
        root = np.sqrt(self.lam)
        self.R = (L_P @ Vt.T) / root
        self.R_inv = (U.T @ L_D.T) / root[:, None]

    def primal(self, change: Array) -> Array:
        """Scaled change of P: ``R^-1 dP R^-T``."""
        return _sym(self.R_inv @ change @ self.R_inv.T)

    def dual_back(self, scaled: Array) -> Array:
        """Change of D from a scaled one: ``R^-T dD R^-1``."""
        return _sym(self.R_inv.T @ scaled @ self.R_inv)

    def max_step(self, scaled: Array) -> float:
        """Largest step along a scaled direction that stays semidefinite."""
        root = np.sqrt(self.lam)
        # diag(lam) + a dS >= 0 is I + a lam^-1/2 dS lam^-1/2 >= 0: the smallest
        # eigenvalue decides.
        smallest = float(np.linalg.eigvalsh(scaled / np.outer(root, root))[0])
        return -1.0 / smallest if smallest < 0 else np.inf

    def target(self, nu: float, dP: Array, dD: Array) -> Array:
        """Right-hand side E of dP + dD = E, scaled: P D = nu I to second order."""
        # The symmetrised product (P D + D P) / 2 of scaled matrices is linearised at
        # diag(lam): its entry (i, j) changes by (lam_i + lam_j) / 2 times (dP + dD)_ij.
        # dP and dD of the predictor give the second-order term.
        E = -(dP @ dD + dD @ dP) / 2
        E[np.diag_indices_from(E)] += nu - self.lam**2
        scaled: Array = 2 * E / np.add.outer(self.lam, self.lam)
        return scaled

    def product(self, dP: Array, dD: Array) -> float:
        """Trace of (P + dP)(D + dD) after scaled steps of both matrices."""
        lam = np.diag(self.lam)
        return float(((lam + dP) * (lam + dD)).sum())


class _NewtonStep(NamedTuple):
    """Search direction; matrices in the scaled coordinates of their pair."""

    weights: Array
    slacks: Array
    tau: float
    t: float
    change: Array  # of W, unscaled
    W: Array
    Z: Array
    V: Array
    Y: Array


class CentralPath:
    """Interior-point iterates: ``sum_g lambda_g A_g - tau I = Y - Z``.

    ``W > 0`` has the multiplier `Z`, ``V = I - W > 0`` has `Y`, and the slacks of the G
    functions have the positive `weights` lambda. Matrices `A` are of order one.
    """

    def __init__(self, A: Array, b: Array, k: int) -> None:
        # A strictly feasible start for both problems.
        G, n = A.shape[:2]
        self.A, self.b, self.k, self.n = A, b, k, n
        self.weights = np.full(G, 1.0 / G)
        M = A.mean(axis=0)
        mu, U = np.linalg.eigh(M)
        # Dual: equal weights, tau between the eigenvalues k and k + 1 of the mean
        # matrix, and Y and Z its parts above and below tau, both lifted by a margin.
        self.tau = float(mu[n - k] + mu[n - k - 1]) / 2
        margin = 0.1 * max(float(mu[-1] - mu[0]), 1e-3)
        # Primal: the centre of the Fantope, and t above the largest function.
        self.W = np.eye(n) * (k / n)
        self.V = np.eye(n) - self.W
        self.Y = _sym((U * (np.maximum(mu - self.tau, 0) + margin)) @ U.T)
        self.Z = _sym(self.Y - M + self.tau * np.eye(n))
        values = self.values()
        self.t = float(values.max()) + margin * n / G
        self.slacks = self.t - values

    def values(self) -> Array:
        """Return the G functions at `W`."""
        values: Array = self.b - np.einsum("gij,ij->g", self.A, self.W)
        return values

    def advance(self) -> None:
        """One predictor-corrector step."""
        # Step 1: the scaling and the Newton system at the iterate; nu is the mean
        # product of the complementary pairs.
        # Invariants: W, V, Y, Z positive definite, slacks and weights positive.
        self._set_up()
        first, second = self.first, self.second
        total = float(self.weights @ self.slacks)
        total += float((first.lam**2).sum() + (second.lam**2).sum())
        nu = total / (self.slacks.size + 2 * self.n)

        # Step 2: predictor, towards products of zero.
        affine = self._solve(
            -np.diag(first.lam), -np.diag(second.lam), -self.weights * self.slacks
        )
        # How far the predictor gets tells how much centring the corrector needs: the
        # cube of the part of the products that it leaves.
        alpha, beta = self._step_lengths(affine, 1.0)
        predicted = float(
            (self.slacks + alpha * affine.slacks)
            @ (self.weights + beta * affine.weights)
        )
        predicted += first.product(alpha * affine.W, beta * affine.Z)
        predicted += second.product(alpha * affine.V, beta * affine.Y)
        nu *= min(1.0, max(predicted / total, 1e-6)) ** 3  # Mehrotra's centring

        # Step 3: corrector, with second-order terms.
        step = self._solve(
            first.target(nu, affine.W, affine.Z),
            second.target(nu, affine.V, affine.Y),
            nu - self.weights * self.slacks - affine.weights * affine.slacks,
        )
        # Step 4: 98 % of the way to the boundary, so that iterates stay inside.
        alpha, beta = self._step_lengths(step, 0.98)
        self.W = self.W + alpha * step.change
        self.V = self.V - alpha * step.change
        self.slacks = self.slacks + alpha * step.slacks
        self.t += alpha * step.t
        self.Z = self.Z + beta * first.dual_back(step.Z)
        self.Y = self.Y + beta * second.dual_back(step.Y)
        self.weights = self.weights + beta * step.weights
        self.tau += beta * step.tau

    def _set_up(self) -> None:
        """Linearise the optimality conditions, reduced to the G weights, tau and t.

        The scaling point of a pair is ``Theta = R R^T``: a change dP of the one matrix
        is, but for the right-hand side, ``dD = -Theta^-1 dP Theta^-1`` of the other. X
        has ``X^T Theta_W^-1 X = I`` and ``X^T Theta_V^-1 X = diag(d)^2``. So with
        ``dW = X M X^T`` the equation for the n x n unknown is a division of entries:
        ``M_ij (1 + d_i^2 d_j^2) = (X^T (sum dlambda A - dtau I + H) X)_ij``.
        """
        G, n = self.slacks.size, self.n
        self.first = _ScaledPair(self.W, self.Z)
        self.second = _ScaledPair(self.V, self.Y)
        # One SVD diagonalises both scalings at once; then the system costs G n^3 for
        # the transformed matrices and G^2 n^2 for K.
        _, d, Qt = np.linalg.svd(self.second.R_inv @ self.first.R)
        self.X = X = self.first.R @ Qt.T
        self.divisor = 1 + np.multiply.outer(d**2, d**2)
        self.T = np.empty((G + 1, n, n))  # the matrices A_g and -I, transformed
        np.matmul(X.T, self.A @ X, out=self.T[:G])
        self.T[G] = -(X.T @ X)
        flat = self.T.reshape(G + 1, -1)
        self.K = K = np.zeros((G + 2, G + 2))
        K[: G + 1, : G + 1] = (flat / self.divisor.ravel()) @ flat.T
        # The slacks are eliminated: dslack = (e - slack dlambda) / lambda.
        K[np.arange(G), np.arange(G)] += self.slacks / self.weights
        # The last row and column belong to t: the weights sum to 1.
        K[:G, G + 1] = K[G + 1, :G] = 1.0

    def _solve(self, E_W: Array, E_V: Array, e: Array) -> _NewtonStep:
        """Direction for the right-hand sides of the three complementarities."""
        G, first, second = self.slacks.size, self.first, self.second
        # Unknowns of the reduced system: G changes of weights, then of tau and of t.
        # 1. Residuals: zero at the start, but for rounding, which must not pile up.
        M = np.tensordot(self.weights, self.A, axes=1)
        H = M - self.tau * np.eye(self.n) - self.Y + self.Z
        slack_residual = self.t - self.values() - self.slacks
        trace_residual = self.k - float(np.trace(self.W))
        # 2. The reduced system for the weights, tau and t.
        #    With dZ = E_W - dW and dY = E_V - dV, scaled, the dual equation has only dW
        #    and the changes of the weights and tau.
        H = H - second.dual_back(E_V) + first.dual_back(E_W)
        H = self.X.T @ H @ self.X
        h = self.T.reshape(G + 1, -1) @ (H / self.divisor).ravel()
        rhs = np.empty(G + 2)
        rhs[:G] = e / self.weights - slack_residual - h[:G]
        rhs[G] = -trace_residual - h[G]
        rhs[G + 1] = 1.0 - float(self.weights.sum())
        x = np.linalg.solve(self.K, rhs)
        # 3. The other unknowns. dV = -dW; dZ and dY follow from the scaled
        #    complementarities dP + dD = E.
        M = (np.tensordot(x[: G + 1], self.T, axes=1) + H) / self.divisor
        dW = _sym(self.X @ M @ self.X.T)
        W, V = first.primal(dW), -second.primal(dW)
        slacks = (e - self.slacks * x[:G]) / self.weights
        return _NewtonStep(x[:G], slacks, x[G], x[G + 1], dW, W, E_W - W, V, E_V - V)

    def _step_lengths(self, step: _NewtonStep, share: float) -> tuple[float, float]:
        """Primal and dual step: a share of the way to the boundary, at most 1."""
        primal = min(
            self.first.max_step(step.W),
            self.second.max_step(step.V),
            _max_step(self.slacks, step.slacks),
        )
        dual = min(
            self.first.max_step(step.Z),
            self.second.max_step(step.Y),
            _max_step(self.weights, step.weights),
        )
        return min(1.0, share * primal), min(1.0, share * dual)


def _max_step(x: Array, dx: Array) -> float:
    """Largest step along dx that keeps x >= 0; infinite if no entry falls."""
    falling = dx < 0
    return float((-x[falling] / dx[falling]).min()) if falling.any() else np.inf


def _sym(M: Array) -> Array:
    """Symmetric part: products of symmetric matrices lose it by rounding."""
    symmetric: Array = (M + M.T) / 2
    return symmetric
