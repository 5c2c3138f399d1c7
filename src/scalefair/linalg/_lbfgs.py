"""L-BFGS for a variable that is a tall block."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.optimize import brentq

from scalefair.kernels import add_scaled, rows_combine, rows_inner

__all__ = ["BlockObjective", "MinimizeResult", "lbfgs"]

# A step is taken when the slope has fallen to this part of the first slope, and the
# value by this part of what the slope promised (strong Wolfe conditions).
_SLOPE = 0.1
_DECREASE = 1e-4
_LONGEST = 2.0**30


class BlockObjective(Protocol):
    """Objective that knows how it changes along a line.

    A line search then needs no further products with long vectors.
    """

    def start(self, V: np.ndarray) -> float:
        """Move to `V` (not copied, not changed) and return the value."""

    def gradient(self, out: np.ndarray) -> None:
        """Write the gradient at the current point into `out`."""

    def line(self, D: np.ndarray) -> Callable[[float], tuple[float, float]]:
        """Return value and slope at ``V + t D`` as a function of `t`."""

    def move(self, D: np.ndarray, t: float) -> float:
        """Tell that the point is now ``V + t D``; return the value there."""


@dataclass(frozen=True)
class MinimizeResult:
    """How a minimisation ended.

    Attributes
    ----------
    value : float
        Objective reached.
    n_iter : int
        Steps taken.
    converged : bool
        Whether a stopping test was met.
    message : str
        Which one, or what stood in the way.
    """

    value: float
    n_iter: int
    converged: bool
    message: str


def lbfgs(
    objective: BlockObjective,
    V: np.ndarray,
    *,
    n_pairs: int = 5,
    ftol: float = 1e-4,
    gtol: float = 1e-3,
    max_iter: int = 1000,
    callback: Callable[[int, float], bool] | None = None,
) -> MinimizeResult:
    """Minimise a smooth function of a tall block by L-BFGS, in place.

    The two-loop recursion runs on inner products: those of the new pair with all
    kept ones come from one pass over the memory, and the direction is one more
    pass, a combination of the kept vectors. Step lengths come from a search on
    the objective's own restriction to the line. It keeps ``2 n_pairs + 2`` blocks
    beside `V` and what the objective holds.

    Parameters
    ----------
    objective : BlockObjective
        What to minimise.
    V : ndarray of shape (n, k)
        C-contiguous float64 block: start and result.
    n_pairs : int, default=5
        Pairs of steps and gradient differences that are kept. Ten instead of five
        saved no iteration on the problems here and cost twice the memory.
    ftol : float, default=1e-4
        Stop when a step lowers the value `f` by less than
        ``ftol * max(|f|, 1)``.
    gtol : float, default=1e-3
        Stop when no entry of the gradient is larger in modulus.
    max_iter : int, default=1000
        Most steps.
    callback : callable or None, default=None
        Called with the number of steps and the value after each step; stops the
        iteration by returning True.

    Returns
    -------
    MinimizeResult
        Value, number of steps, and how it ended.

    References
    ----------
    Nocedal, Wright (2006), "Numerical Optimization", algorithm 7.4. Chen, Wang,
    Zhou (2014), "Large-scale L-BFGS using MapReduce", NIPS, for the recursion on
    inner products.
    """
    memory = _Memory(V.shape, n_pairs)
    D = np.empty_like(V)
    value = objective.start(V)
    objective.gradient(memory.gradient)
    memory.refresh()
    n_iter = 0
    while True:
        if gtol > 0 and _largest(memory.gradient) <= gtol:
            return MinimizeResult(value, n_iter, True, "Gradient below gtol.")
        if n_iter >= max_iter:
            message = f"max_iter = {max_iter} steps reached: raise max_iter or gtol."
            return MinimizeResult(value, n_iter, False, message)
        memory.direction(D)
        along = objective.line(D)
        t = _step_length(along)
        if t is None and memory.n_stored:
            memory.forget()
            continue
        if t is None:
            message = "No lower value along the gradient: rounding level reached."
            return MinimizeResult(value, n_iter, False, message)
        old = value
        memory.before_step(D, t)
        add_scaled(V, t, D)
        value = objective.move(D, t)
        objective.gradient(memory.gradient)
        memory.after_step()
        n_iter += 1
        if callback is not None and callback(n_iter, value):
            return MinimizeResult(value, n_iter, True, "Stopped by the callback.")
        if old - value <= ftol * max(abs(old), abs(value), 1.0):
            return MinimizeResult(value, n_iter, True, "Decrease below ftol.")


class _Memory:
    """Kept pairs, the gradient, and the inner products among them."""

    def __init__(self, shape: tuple[int, ...], n_pairs: int) -> None:
        self.m = n_pairs
        self.rows = np.zeros((2 * n_pairs + 1, math.prod(shape)))
        self.gradient = self.rows[-1].reshape(shape)
        self.products = np.zeros((2 * n_pairs + 1,) * 2)
        self.order: list[int] = []  # slots from the oldest pair to the newest
        self.slot = 0

    @property
    def n_stored(self) -> int:
        return len(self.order)

    def forget(self) -> None:
        self.order.clear()

    def refresh(self) -> None:
        """Update the inner products of the gradient."""
        self._measure([2 * self.m])

    def before_step(self, D: np.ndarray, t: float) -> None:
        """Write the step and minus the old gradient into the oldest slot."""
        if len(self.order) == self.m:
            self.slot = self.order.pop(0)
        else:
            self.slot = next(i for i in range(self.m) if i not in self.order)
        np.multiply(D.reshape(-1), t, out=self.rows[self.slot])
        np.negative(self.rows[-1], out=self.rows[self.m + self.slot])

    def after_step(self) -> None:
        """Complete the pair with the new gradient; keep it if it curves upwards."""
        s, y = self.slot, self.m + self.slot
        add_scaled(self.rows[y], 1.0, self.rows[-1])
        self._measure([s, y, 2 * self.m])
        curvature = self.products[s, y]
        length = math.sqrt(self.products[s, s] * self.products[y, y])
        if curvature > 1e-12 * length:
            self.order.append(s)

    def direction(self, out: np.ndarray) -> None:
        """Write the quasi-Newton direction into `out` (two-loop recursion)."""
        G, m = self.products, self.m
        q = np.zeros(2 * m + 1)
        q[-1] = 1.0
        weights = {}
        for i in reversed(self.order):
            weights[i] = (G[i] @ q) / G[i, m + i]
            q[m + i] -= weights[i]
        if self.order:
            i = self.order[-1]
            q *= G[i, m + i] / G[m + i, m + i]
        for i in self.order:
            q[i] += weights[i] - (G[m + i] @ q) / G[i, m + i]
        rows_combine(self.rows, -q, out)

    def _measure(self, changed: list[int]) -> None:
        columns = rows_inner(self.rows, np.array(changed))
        self.products[:, changed] = columns
        self.products[changed] = columns.T


def _step_length(along: Callable[[float], tuple[float, float]]) -> float | None:
    """Step that meets the strong Wolfe conditions, None if there is none."""
    along = functools.cache(along)
    start, slope = along(0.0)
    if not slope < 0:
        return None
    rounding = 1e-15 * max(abs(start), 1.0)

    def enough(t: float) -> bool:
        value, here = along(t)
        decreased = value <= start + _DECREASE * t * slope + rounding
        return decreased and abs(here) <= _SLOPE * abs(slope)

    low, high = 0.0, 1.0
    if enough(high):
        return high
    while along(high)[1] < 0 and along(high)[0] <= start + rounding:
        low, high = high, 2 * high
        if high > _LONGEST:
            return None
    while along(high)[1] < 0:  # a rise and a fall lie between: back to the rise
        high = (low + high) / 2
        if high - low < 1e-10 * high:
            return None
    root = brentq(lambda t: along(t)[1], low, high, xtol=1e-12 * high, rtol=1e-3)
    return float(root) if enough(root) or along(root)[0] < start else None


def _largest(X: np.ndarray) -> float:
    """Largest modulus of an entry."""
    return float(max(X.max(initial=0.0), -X.min(initial=0.0)))
