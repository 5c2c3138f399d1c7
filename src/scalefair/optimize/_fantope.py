"""Minimax of linear functions on the Fantope: a primal-dual interior-point method."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair._digits import apart
from scalefair.kernels import single_blas_thread
from scalefair.optimize._central_path import CentralPath

__all__ = ["FantopeResult", "minimax_on_fantope"]

_EPS = float(np.finfo(np.float64).eps)
_LARGEST = 1e150  # squares are added up
_PATIENCE = 8  # iterations within which the certified gap must halve


@dataclass(frozen=True)
class FantopeResult:
    """Solution of a minimax problem on the Fantope, with its certificate.

    Attributes
    ----------
    W : ndarray of shape (n, n)
        Symmetric, eigenvalues in [0, 1], trace `k`.
    weights : ndarray of shape (G,)
        Dual weights, on the simplex.
    value : float
        ``max_g b_g - <A_g, W>``.
    bound : float
        ``weights @ b - top_k(sum_g weights_g A_g)``: no `W` has a smaller value.
    gap : float
        ``value - bound``; below zero by rounding only.
    n_iter : int
        Newton systems set up, each solved for a predictor and a corrector.
    converged : bool
        Whether the gap met the tolerance.
    message : str
        How the solver ended and, if it failed, what to change.
    """

    W: NDArray[np.float64]
    weights: NDArray[np.float64]
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

    The Fantope is the convex hull of the projectors of rank `k`, so this is the
    convex relaxation of a minimax problem over subspaces. Its dual is the
    maximisation of :math:`\lambda^T b - top_k(\sum_g \lambda_g A_g)` over the simplex,
    with top_k the sum of the `k` largest eigenvalues, and there is no gap between
    the two. A predictor-corrector method with Nesterov-Todd scaling [1]_, [2]_
    follows the central path of

    - ``W >= 0`` with multiplier `Z`, ``V = I - W >= 0`` with multiplier `Y`,
    - the slacks of the G functions with multipliers `lambda`,

    where ``sum_g lambda_g A_g - tau I = Y - Z``. A dozen iterations are usual,
    whether eigenvalues tie at the solution or not. The reported gap is that of
    `W` and `weights` themselves, measured by an eigendecomposition.

    Parameters
    ----------
    A : array-like of shape (G, n, n)
        Symmetric matrices.
    b : array-like of shape (G,)
        Constants.
    k : int
        Trace of `W`, ``1 <= k <= n - 1``.
    tol : float, default=1e-9
        Bound on the gap, relative to the value; rounding in the largest of the
        matrices bounds what can be reached.
    max_iter : int, default=60
        Most iterations.

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
    .. [2] Vandenberghe, "The CVXOPT linear and quadratic cone program solvers"
       (2010), section 5.

    Examples
    --------
    Three directions in the plane, 60 degrees apart; none of the lines in it is
    good for all, the mean of them is.

    >>> import numpy as np
    >>> from scalefair.optimize import minimax_on_fantope
    >>> angles = np.pi / 3 * np.arange(3)
    >>> u = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    >>> A = 2 * u[:, :, None] * u[:, None, :]
    >>> solution = minimax_on_fantope(A, [2, 2, 2], 1)
    >>> round(solution.value, 6), solution.weights.round(6)
    (1.0, array([0.333333, 0.333333, 0.333333]))
    """
    A, b = _check_problem(A, b, k)
    scale = float(np.sqrt((A * A).sum(axis=(1, 2))).max())
    scale = scale if scale > 0 else 1.0
    A, b = A / scale, b / scale
    floor = 8 * _EPS * np.sqrt(A.shape[1]) * max(1.0, float(np.abs(b).max()))
    path = CentralPath(A, b, k)
    best = _certify(A, b, k, path.W, path.weights)
    history = [best.gap]
    ended = f"max_iter={max_iter} reached; raise max_iter"
    n_iter = 0
    while best.gap > max(tol * abs(best.value), floor) and n_iter < max_iter:
        n_iter += 1
        try:
            path.advance()
        except np.linalg.LinAlgError:
            ended = "rounding stopped progress; raise tol"
            break
        best = _better(best, _certify(A, b, k, path.W, path.weights))
        history.append(best.gap)
        if n_iter > _PATIENCE and best.gap > history[-1 - _PATIENCE] / 2:
            ended = "rounding stopped progress; raise tol"
            break
    allowed = max(tol * abs(best.value), floor)
    converged = bool(best.gap <= allowed)
    return replace(
        best,
        value=best.value * scale,
        bound=best.bound * scale,
        gap=best.gap * scale,
        n_iter=n_iter,
        converged=converged,
        message="The gap is within the tolerance."
        if converged
        else f"The gap is {apart(best.gap * scale, allowed * scale)}: {ended}.",
    )


def _check_problem(
    A: ArrayLike, b: ArrayLike, k: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
    moderate = (np.abs(A) <= _LARGEST).all(axis=(1, 2)) & (np.abs(b) <= _LARGEST)
    if not moderate.all():
        raise ValueError(
            f"A and b must be finite and no larger than {_LARGEST:g}, got NaN, "
            f"infinity or more in matrix {int(np.argmin(moderate))} or its number in b."
        )
    return (A + A.transpose(0, 2, 1)) / 2, b


def _certify(
    A: NDArray[np.float64],
    b: NDArray[np.float64],
    k: int,
    W: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> FantopeResult:
    W = _with_trace(W, k)
    weights = np.maximum(weights, 0.0)
    weights = weights / weights.sum()
    value = float((b - np.einsum("gij,ij->g", A, W)).max())
    mu = np.linalg.eigvalsh(np.tensordot(weights, A, axes=1))
    bound = float(weights @ b) - float(mu[mu.size - k :].sum())
    return FantopeResult(W, weights, value, bound, value - bound, 0, False, "")


def _with_trace(W: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """Move `W` towards 0 or the identity until rounding in its trace is gone."""
    n, trace = W.shape[0], float(np.trace(W))
    moved: NDArray[np.float64]
    if trace > k:
        moved = W * (k / trace)
    else:
        moved = W + (np.eye(n) - W) * ((k - trace) / (n - trace))
    return moved


def _better(old: FantopeResult, new: FantopeResult) -> FantopeResult:
    """Smaller value of one, larger bound of the other: neither need be monotone."""
    primal = new if new.value <= old.value else old
    dual = new if new.bound >= old.bound else old
    return replace(
        primal,
        weights=dual.weights,
        bound=dual.bound,
        gap=primal.value - dual.bound,
    )
