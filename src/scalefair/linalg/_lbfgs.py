"""L-BFGS for a variable that is a tall block."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from scipy.optimize import brentq

from scalefair import kernels
from scalefair._rounding import ROUNDING
from scalefair.linalg._base import Array


class BlockObjective(Protocol):
    """Objective with values along a line that need no further products."""

    def start(self, V: Array) -> float:
        """Move to `V` (not copied, not changed) and return the value."""

    def gradient(self, out: Array) -> None:
        """Write the gradient at the current point into `out`."""

    def line(self, D: Array) -> Callable[[float], tuple[float, float]]:
        """Return value and slope at ``V + t D`` as a function of `t`."""

    def move(self, D: Array, t: float) -> float:
        """Move to ``V + t D``, which is `V` now; return the value there."""


class MinimizeResult(NamedTuple):
    """Value and number of steps at the end of a minimisation."""

    value: float
    n_iter: int


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
    of the gradient exceeds `gtol`, ``callback(n_iter, value)`` returns True, or no step
    lowers the value: rounding level is reached, or the function is unbounded. The
    memory holds five steps and gradient differences: ten saved no iteration.
    """
    # The two-loop recursion (Nocedal, Wright 2006, algorithm 7.4) on inner products
    # (Chen, Wang, Zhou 2014). Besides V it needs 14 blocks.
    memory = _Memory(V.shape, n_pairs=5)
    value = objective.start(V)
    objective.gradient(memory.gradient)
    memory.measure([])
    n_iter = 0
    # Invariant: `value` and `memory.gradient` are those at V.
    while n_iter < max_iter:
        if gtol > 0 and max(memory.gradient.max(), -memory.gradient.min()) <= gtol:
            break
        # 1. Quasi-Newton direction, and a step along it.
        D = memory.direction()
        t = _step_length(objective.line(D))
        if t is None:
            if not memory.order:
                break
            memory.order.clear()  # try the negative gradient
            continue
        # 2. Move, and add the step to the memory.
        previous_value = value
        # The objective follows by its recurrences: no further product with D.
        kernels.add_scaled(V, t, D)
        value = objective.move(D, t)
        objective.gradient(memory.next_gradient())
        memory.store(t)
        n_iter += 1
        # 3. Stop by the callback's or by the value's criterion.
        if callback is not None and callback(n_iter, value):
            break
        if previous_value - value <= ftol * max(abs(previous_value), abs(value), 1.0):
            break
    return MinimizeResult(value, n_iter)


class _Memory:
    """Stored pairs (s, y), the gradient, and all inner products.

    Rows 0 to m - 1 hold directions s, one of them free for the next; rows m to 2 m - 1
    the gradient differences y, divided by the step; the last two rows the gradients at
    both ends of a step.
    """

    def __init__(self, shape: tuple[int, ...], n_pairs: int) -> None:
        # Memory: (2 m + 2) n k numbers for the rows, (2 m + 2)^2 for their products.
        self.m = n_pairs + 1
        self.rows = np.zeros((2 * self.m + 2, math.prod(shape)))
        self.shape = shape
        # Rows of the gradient, and of that at the other end of the last step.
        self.current, self.other = 2 * self.m, 2 * self.m + 1
        self.products = np.zeros((2 * self.m + 2,) * 2)
        self.order: list[int] = []  # slots from the oldest pair to the newest
        self.slot = 0

    @property
    def gradient(self) -> Array:
        """Gradient at the current point."""
        gradient: Array = self.rows[self.current].reshape(self.shape)
        return gradient

    def next_gradient(self) -> Array:
        """Return the block for the gradient at the next point."""
        self.current, self.other = self.other, self.current
        return self.gradient

    def direction(self) -> Array:
        """Quasi-Newton direction (two-loop recursion), in a free slot."""
        # Nothing here has the length n: with the inner products G known, the recursion
        # runs on the 2 m + 2 coefficients of the rows, in O(m^2).
        G, m = self.products, self.m
        # Algorithm 7.4 on coefficients q of the rows: q = g, then H g.
        q = np.zeros(len(self.rows))
        q[self.current] = 1.0
        weights = {}
        # First loop, from the newest pair to the oldest:
        #     weight_i = (s_i . q) / (s_i . y_i),  q <- q - weight_i y_i.
        for i in reversed(self.order):
            weights[i] = (G[i] @ q) / G[i, m + i]
            q[m + i] -= weights[i]
        if self.order:  # initial Hessian (7.20): s.y / y.y of the newest pair
            i = self.order[-1]
            q *= G[i, m + i] / G[m + i, m + i]
        # Second loop, from the oldest to the newest:
        #     q <- q + (weight_i - (y_i . q) / (s_i . y_i)) s_i.
        for i in self.order:
            q[i] += weights[i] - (G[m + i] @ q) / G[i, m + i]
        # D = -H g, the only pass over the rows: 2 (2 m + 2) n k flops.
        self.slot = next(i for i in range(m) if i not in self.order)
        D: Array = self.rows[self.slot].reshape(self.shape)
        kernels.rows_combine(self.rows, -q, D)
        return D

    def store(self, t: float) -> None:
        """Complete the pair of the last direction; keep it if ``s.y > 0``."""
        # The step is t D. Both members of the pair are divided by t: the BFGS update is
        # the same for (s, y) and any multiple of the pair, and D stays as it is.
        s, y, rows = self.slot, self.m + self.slot, self.rows
        kernels.combine(rows[y], 1 / t, rows[self.current], -1 / t, rows[self.other])
        if len(self.order) == self.m - 1:
            del self.order[0]  # the oldest makes way
        self.measure([s, y])
        # s.y > 0 keeps the approximate Hessian positive definite (curvature condition,
        # (6.7)): below rounding level its sign means nothing.
        curvature = self.products[s, y]
        if curvature > ROUNDING * math.sqrt(self.products[s, s] * self.products[y, y]):
            self.order.append(s)

    def measure(self, changed: list[int]) -> None:
        """Update the inner products of changed rows and of the gradient."""
        # Three rows are new in a step: s, y and the gradient. Their products with the
        # others are one tall times one thin block, some 12 n_pairs n k flops.
        kept = [row for i in self.order for row in (i, self.m + i)]
        changed = [*changed, self.current]
        rows = kept + changed
        values = kernels.rows_inner(self.rows, rows, changed)
        self.products[np.ix_(rows, changed)] = values
        self.products[np.ix_(changed, rows)] = values.T


def _step_length(along: Callable[[float], tuple[float, float]]) -> float | None:
    """Step that meets the strong Wolfe conditions, None if there is none."""
    # Each point of the line is asked for several times, by the conditions below.
    along = functools.cache(along)
    initial_value, initial_slope = along(0.0)
    if not initial_slope < 0:
        return None
    rounding = 1e-15 * max(abs(initial_value), 1.0)

    def meets_wolfe(t: float) -> bool:
        # Nocedal and Wright (3.7), with c1 = 1e-4 and c2 = 0.1.
        value, slope = along(t)
        has_decreased = value <= initial_value + 1e-4 * t * initial_slope + rounding
        return has_decreased and abs(slope) <= 0.1 * abs(initial_slope)

    def falls(t: float) -> bool:
        value, slope = along(t)
        return slope < 0 and value <= initial_value + rounding

    low, high = 0.0, 1.0
    if meets_wolfe(high):
        return high
    # Double the step until the slope is positive or the value has risen.
    while falls(high):
        low, high = high, 2 * high
        if high > 2.0**30:
            return None  # unbounded below
    # The value has risen but falls again: bisect for the rise in between, if it is one
    # and not rounding.
    min_width = 1e-10 * high
    while along(high)[1] < 0:
        middle = (low + high) / 2
        low, high = (middle, high) if falls(middle) else (low, middle)
        if high - low < min_width:
            return None
    # The slope is negative at `low` and not at `high`: a root of it lies between.
    root = brentq(lambda t: along(t)[1], low, high, xtol=1e-12 * high, rtol=1e-3)
    # At rounding level the conditions may fail though the value falls: take the step.
    is_lower = along(root)[0] < initial_value
    return float(root) if meets_wolfe(root) or is_lower else None
