"""L-BFGS for a variable that is a tall block."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.optimize import brentq

from scalefair import kernels
from scalefair.linalg._base import Array

# Strong Wolfe conditions: the slope falls to this part of the first slope, the value
# by this part of what that promised.
_SLOPE, _DECREASE = 0.1, 1e-4
_LONGEST = 2.0**30
_N_PAIRS = 5  # steps and gradient differences kept: ten saved no iteration here


class BlockObjective(Protocol):
    """Objective that knows how it changes along a line: no products for a search."""

    def start(self, V: Array) -> float:
        """Move to `V` (not copied, not changed) and return the value."""

    def gradient(self, out: Array) -> None:
        """Write the gradient at the current point into `out`."""

    def line(self, D: Array) -> Callable[[float], tuple[float, float]]:
        """Return value and slope at ``V + t D`` as a function of `t`."""

    def move(self, D: Array, t: float) -> float:
        """Tell that the point is now ``V + t D``; return the value there."""


@dataclass(frozen=True)
class MinimizeResult:
    """How a minimisation ended."""

    value: float
    n_iter: int
    converged: bool
    message: str


@kernels.single_blas_thread()
def lbfgs(
    objective: BlockObjective,
    V: Array,
    *,
    ftol: float = 1e-4,
    gtol: float = 1e-3,
    max_iter: int = 1000,
    callback: Callable[[int, float], bool] | None = None,
) -> MinimizeResult:
    """Minimise a smooth function of the C-contiguous (n, k) block V, in place.

    Stops when a step lowers the value f by less than ``ftol * max(|f|, 1)``, no entry
    of the gradient exceeds `gtol`, or ``callback(n_iter, value)`` returns True.
    """
    # The two-loop recursion (Nocedal, Wright 2006, algorithm 7.4) on inner products
    # (Chen, Wang, Zhou 2014). It keeps 14 blocks beside V.
    memory = _Memory(V.shape)
    value = objective.start(V)
    objective.gradient(memory.gradient)
    memory.measure([])
    n_iter = 0
    while True:
        if gtol > 0 and _largest(memory.gradient) <= gtol:
            return MinimizeResult(value, n_iter, True, "Gradient below gtol.")
        if n_iter >= max_iter:
            message = f"max_iter = {max_iter} steps reached: raise max_iter or gtol."
            return MinimizeResult(value, n_iter, False, message)
        D = memory.direction()
        t = _step_length(objective.line(D))
        if t is None and memory.order:
            memory.order.clear()
            continue
        if t is None:
            message = "No lower value along the gradient: rounding level reached."
            return MinimizeResult(value, n_iter, False, message)
        old = value
        kernels.add_scaled(V, t, D)
        value = objective.move(D, t)
        objective.gradient(memory.next_gradient())
        memory.keep(t)
        n_iter += 1
        if callback is not None and callback(n_iter, value):
            return MinimizeResult(value, n_iter, True, "Stopped by the callback.")
        if old - value <= ftol * max(abs(old), abs(value), 1.0):
            return MinimizeResult(value, n_iter, True, "Decrease below ftol.")


class _Memory:
    """Kept pairs, the gradient, and the inner products among them."""

    # Rows 0 to m - 1 hold directions, one for the new one among them, rows m to 2 m - 1
    # the differences of gradients along them, divided by the step; the last two the
    # gradients at both ends of a step.

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.m = _N_PAIRS + 1
        self.rows = np.zeros((2 * self.m + 2, math.prod(shape)))
        self.shape = shape
        self.now = 2 * self.m  # row of the gradient
        self.products = np.zeros((2 * self.m + 2,) * 2)
        self.order: list[int] = []  # slots from the oldest pair to the newest
        self.slot = 0

    @property
    def gradient(self) -> Array:
        """Gradient at the current point."""
        gradient: Array = self.rows[self.now].reshape(self.shape)
        return gradient

    def next_gradient(self) -> Array:
        """Return the block for the gradient at the next point."""
        self.now = 4 * self.m + 1 - self.now
        return self.gradient

    def direction(self) -> Array:
        """Quasi-Newton direction (two-loop recursion), in a free slot."""
        G, m = self.products, self.m
        q = np.zeros(len(self.rows))
        q[self.now] = 1.0
        weights = {}
        for i in reversed(self.order):
            weights[i] = (G[i] @ q) / G[i, m + i]
            q[m + i] -= weights[i]
        if self.order:
            i = self.order[-1]
            q *= G[i, m + i] / G[m + i, m + i]
        for i in self.order:
            q[i] += weights[i] - (G[m + i] @ q) / G[i, m + i]
        self.slot = next(i for i in range(m) if i not in self.order)
        D: Array = self.rows[self.slot].reshape(self.shape)
        kernels.rows_combine(self.rows, -q, D)
        return D

    def keep(self, t: float) -> None:
        """Complete the pair of the last direction; keep it if it curves upwards."""
        s, y, rows = self.slot, self.m + self.slot, self.rows
        before = 4 * self.m + 1 - self.now
        kernels.combine(rows[y], 1 / t, rows[self.now], -1 / t, rows[before])
        self.order = self.order[-_N_PAIRS + 1 :]
        self.measure([s, y])
        curvature = self.products[s, y]
        if curvature > 1e-12 * math.sqrt(self.products[s, s] * self.products[y, y]):
            self.order.append(s)

    def measure(self, changed: list[int]) -> None:
        """Update the inner products of changed rows and of the gradient."""
        kept = [row for i in self.order for row in (i, self.m + i)]
        changed = [*changed, self.now]
        some = kept + changed
        values = kernels.rows_inner(self.rows, some, changed)
        self.products[np.ix_(some, changed)] = values
        self.products[np.ix_(changed, some)] = values.T


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


def _largest(X: Array) -> float:
    """Largest modulus of an entry."""
    return float(max(X.max(initial=0.0), -X.min(initial=0.0)))
