"""Concave functions on the simplex: any one, by an oracle, and quadratic ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog, nnls

from scalefair._messages import format_distinct
from scalefair._rounding import EPS, TINY

Array = NDArray[np.float64]
# Takes a point, returns the value, a supergradient, and the Hessian or None.
ConcaveOracle = Callable[[Array], tuple[float, Array, Array | None]]


@dataclass(frozen=True)
class SimplexResult:
    """Maximiser of a concave function on the simplex, with its certificate.

    Attributes
    ----------
    x : ndarray of shape (n,)
        Best point.
    value, upper_bound, gap : float
        The function at `x`, a bound on its values, and the difference of the two.
    n_iter : int
        Calls of the oracle.
    converged, message : bool and str
        Whether the gap met the tolerance; how the search ended and what to change.
    """

    x: Array
    value: float
    upper_bound: float
    gap: float
    n_iter: int
    converged: bool
    message: str


def maximize_on_simplex(
    oracle: ConcaveOracle,
    n: int,
    *,
    x0: ArrayLike | None = None,
    tol: float = 1e-8,
    atol: float = 0.0,
    max_iter: int = 200,
) -> SimplexResult:
    """Maximise a concave function, smooth or not, over the simplex.

    Every call of the oracle gives a linear upper bound of the function; the maximum
    of their minimum, a linear program, is the upper bound reported. The next point is

    1. the maximiser of the second-order model at the best point, if there is a
       Hessian and the bound of its linear function has halved since the last such step;
    2. else the point nearest to the best one at which the linear bounds close a
       fixed share of the gap (level bundle method [1]_).

    Parameters
    ----------
    oracle : callable
        Takes `x`, gives the value, a supergradient (n,) and the Hessian (n, n) or None.
    n : int
        Number of entries of `x`.
    x0 : array-like of shape (n,) or None, default=None
        Start, scaled to the simplex; None takes the centre.
    tol, atol : float, default=1e-8, 0.0
        Bounds on the gap, relative to the value and absolute (the rounding of the
        oracle), of which one must be met.
    max_iter : int, default=200
        Most calls of the oracle.

    Returns
    -------
    SimplexResult
        The best point, its value and a bound of the maximum.

    Raises
    ------
    ValueError
        If `n` is not positive, `x0` is not a nonzero vector of `n` nonnegative
        numbers, or the oracle returns arrays of other shapes.
    FloatingPointError
        If the oracle returns numbers that are not finite.

    References
    ----------
    .. [1] Lemarechal, Nemirovskii, Nesterov, "New variants of bundle methods",
       Math. Program. 69 (1995).

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.optimize import maximize_on_simplex
    >>> rows = np.array([[3.0, 0.0], [1.0, 2.0]])
    >>> def smallest(x):  # min(3 x_1, x_1 + 2 x_2)
    ...     i = np.argmin(rows @ x)
    ...     return rows[i] @ x, rows[i], None
    >>> maximize_on_simplex(smallest, 2).x.round(6)
    array([0.5, 0.5])
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}.")
    x: Array = np.array(np.ones(n) if x0 is None else x0, dtype=np.float64)
    if x.shape != (n,) or not np.isfinite(x).all() or x.min() < 0 or x.max() <= 0:
        raise ValueError(
            f"x0 must hold {n} nonnegative numbers that are not all zero, got {x0!r}."
        )
    # Level bundle method (Lemarechal, Nemirovskii, Nesterov 1995) with Newton steps.
    # Invariant: best.value <= maximum <= upper_bound.
    search = _LevelSearch(oracle, x / x.sum(), tol, atol)
    # Where Newton steps converge, the vertex gap halves each time; else it is the turn
    # of a level step, which converges for any concave function.
    newton_gap = np.inf  # a Newton step is due where the vertex gap is no larger
    reason = f"max_iter={max_iter} reached; raise max_iter"
    while not search.certified and len(search.slopes) < max_iter:
        best = search.best
        if best.hessian is not None and best.vertex_gap <= newton_gap:
            # 1. Maximiser of the second-order model at the best point.
            newton_gap = best.vertex_gap / 2
            # f(y) ~ slope (y - x) - (y - x)^T Q (y - x) / 2, up to constants: the
            # linear part in y is slope + Q x.
            Q = -best.hessian
            x = maximize_quadratic_on_simplex(best.slope + Q @ best.x, Q, x0=best.x)
        else:
            # 2. The upper bound of the linear bounds, and a level step.
            search.bound_from_model()
            if search.certified:
                break
            x = search.level_point()
            if np.array_equal(x, best.x):
                reason = "rounding stopped progress; raise tol"
                break
        search.visit(x)
    if not search.certified:
        search.bound_from_model()
    message = "The gap is within the tolerance."
    if not search.certified:
        message = f"The gap is {format_distinct(search.gap, search.allowed)}: {reason}."
    return SimplexResult(
        search.best.x,
        search.best.value,
        search.upper_bound,
        search.gap,
        len(search.slopes),
        search.certified,
        message,
    )


@dataclass(frozen=True)
class _SimplexPoint:
    """Point of the simplex with value, supergradient (n,) and maybe Hessian (n, n)."""

    x: Array
    value: float
    slope: Array
    hessian: Array | None = None

    @property
    def vertex_gap(self) -> float:
        """Height of the linear bound at this point's best vertex above the value."""
        return float((self.slope - self.slope @ self.x).max())


class _LevelSearch:
    """Points visited, the best of them, and the upper bound they prove."""

    def __init__(
        self, oracle: ConcaveOracle, x: Array, tol: float, atol: float
    ) -> None:
        """Evaluate the first point, of shape (n,) and on the simplex."""
        self.oracle, self.tol, self.atol = oracle, tol, atol
        # Bound i is  f(y) <= offsets[i] + slopes[i] y,  from the i-th call.
        self.slopes: list[Array] = []
        self.offsets: list[float] = []
        self.upper_bound = np.inf
        self.best = self._evaluate(x)

    @property
    def gap(self) -> float:
        """Upper bound of what can still be gained on the best point."""
        return self.upper_bound - self.best.value

    @property
    def allowed(self) -> float:
        """Gap that is within the tolerances."""
        return max(self.tol * abs(self.best.value), self.atol)

    @property
    def certified(self) -> bool:
        """Whether the gap is within the tolerances."""
        return bool(self.gap <= self.allowed)

    def visit(self, x: Array) -> None:
        """Evaluate a point; make it the best one if it is better."""
        point, best = self._evaluate(x), self.best
        # Of values that are equal to rounding the one with the flatter bound is better.
        if (point.value, -point.vertex_gap) > (best.value, -best.vertex_gap) or (
            point.vertex_gap < best.vertex_gap / 2
            and point.value >= best.value - 4 * EPS * abs(best.value)
        ):
            self.best = point

    def _evaluate(self, x: Array) -> _SimplexPoint:
        """Call the oracle, check what it returns, and add its linear bound."""
        value, slope, hessian = self.oracle(x)
        # Copies: points are kept, and an oracle may write to its arrays again.
        derivatives = [
            np.array(g, dtype=np.float64) for g in (slope, hessian) if g is not None
        ]
        n, shapes = x.size, [part.shape for part in derivatives]
        if shapes != [(n,), (n, n)][: 1 if hessian is None else 2]:
            raise ValueError(
                f"The oracle must return a supergradient of shape {(n,)} and a Hessian "
                f"of shape {(n, n)} or None, got the shapes {shapes}."
            )
        point = _SimplexPoint(x, float(value), *derivatives)
        finite = all(np.isfinite(part).all() for part in derivatives)
        if not (np.isfinite(point.value) and finite):
            raise FloatingPointError(
                "The oracle returned a value, supergradient or Hessian that is not "
                f"finite at {x}."
            )
        self.slopes.append(point.slope)
        self.offsets.append(point.value - float(point.slope @ x))
        # A linear function is largest at a vertex of the simplex.
        self.upper_bound = min(self.upper_bound, point.value + point.vertex_gap)
        return point

    def bound_from_model(self) -> None:
        """Lower the upper bound to the maximum of the linear bounds' minimum.

        It is that of a convex combination: it holds however inexact the program is.
        """
        # 1. Maximise h with h <= slope_i x + offset_i on the simplex, heights above the
        #    best value and in units of the slopes.
        slopes, offsets = np.array(self.slopes), np.array(self.offsets)
        m, n = slopes.shape
        size = max(float(np.abs(slopes).max()), TINY)
        # Variables (x, h), n + 1 of them; one inequality for each call of the oracle.
        program = linprog(
            np.append(np.zeros(n), -1.0),
            A_ub=np.hstack([-slopes / size, np.ones((m, 1))]),
            b_ub=(offsets - self.best.value) / size,
            A_eq=np.append(np.ones(n), 0.0)[None],
            b_eq=[1.0],
            bounds=[(0, None)] * n + [(None, None)],
            method="highs-ds",
            options={
                "primal_feasibility_tolerance": 1e-10,
                "dual_feasibility_tolerance": 1e-10,
            },
        )
        if program.status != 0:
            return
        # 2. The multipliers combine the linear bounds to one, highest at a vertex.
        # Any shares >= 0 with sum 1 give a valid bound; the optimal ones the lowest.
        shares = np.maximum(-program.ineqlin.marginals, 0.0)
        shares /= shares.sum()
        heights = shares @ (slopes + (offsets - self.best.value)[:, None])
        self.upper_bound = min(self.upper_bound, self.best.value + float(heights.max()))

    def level_point(self) -> Array:
        """Nearest point where all linear bounds are above the level, 0.7 of the gap.

        The best point itself if rounding leaves none.
        """
        # Bounds relative to the best value, at the best point: heights >= 0. They must
        # rise to 0.7 of the gap.
        slopes = np.array(self.slopes)
        heights = np.array(self.offsets) - self.best.value + slopes @ self.best.x
        d = _least_distance_step(slopes, 0.7 * self.gap - heights, self.best.x)
        if d is None:
            return self.best.x
        x: Array = np.maximum(self.best.x + d, 0.0)
        x /= x.sum()
        return x


def _least_distance_step(slopes: Array, rises: Array, x: Array) -> Array | None:
    """Shortest d, or None, with ``slopes @ d >= rises`` and x + d on the simplex.

    By nonnegative least squares (Lawson & Hanson (1974), chapter 23).
    """
    # 1. Inequalities rows d >= bounds: those of the slopes, then d >= -x. Rows are
    #    projected to the plane of zero sums: the shortest d is a combination of rows,
    #    so that it lies in this plane, too.
    rows = np.vstack([slopes, np.eye(x.size)])
    rows -= rows.mean(axis=1, keepdims=True)  # the sum of d is zero
    bounds = np.append(rises, -x)
    # 2. Rows of length 1, and the largest bound as the unit of length.
    norms = np.linalg.norm(rows, axis=1)
    norms[norms == 0] = 1.0
    bounds = bounds / norms
    unit = float(bounds.max())  # positive: the value at x is below the level
    # 3. Least distance programming as nonnegative least squares: d is the residual of
    #    E u = (0, ..., 0, 1), divided by its last entry. E has the rows, of unit
    #    length, as columns, and their bounds below.
    E = np.vstack([(rows / norms[:, None]).T, bounds / unit])
    target = np.append(np.zeros(x.size), 1.0)
    try:
        u, _ = nnls(E, target, maxiter=20 * E.shape[1])
    except RuntimeError:  # no convergence
        return None
    # 4. No residual: the inequalities contradict each other.
    residual = target - E @ u
    if residual[-1] <= 1e-12:
        return None
    step: Array = -residual[:-1] / residual[-1] * unit
    return step


def maximize_quadratic_on_simplex(
    c: ArrayLike,
    Q: ArrayLike,
    *,
    x0: ArrayLike | None = None,
    subset: ArrayLike | None = None,
) -> Array:
    """Maximise ``c @ x - x @ Q @ x / 2`` over the simplex.

    Or over nonnegative vectors of which some entries sum to 1, if it is bounded above
    there. An active-set method: exact to rounding, singular `Q` included.

    Parameters
    ----------
    c, Q : array-like of shape (n,) and (n, n)
        Linear part, and a symmetric positive semidefinite matrix.
    x0 : array-like of shape (n,) or None, default=None
        Start, negative entries count as zero; those in `subset` are scaled to sum 1.
        None takes the best vertex.
    subset : array-like of bool of shape (n,) or None, default=None
        Entries whose sum is 1; the others are only nonnegative. None takes all.

    Returns
    -------
    ndarray of shape (n,)
        Nonnegative, sum 1 over `subset`.

    Raises
    ------
    ValueError
        If shapes do not fit, a number is not finite, or `subset` is empty.

    Examples
    --------
    The last entry is free of the sum:

    >>> import numpy as np
    >>> from scalefair.optimize import maximize_quadratic_on_simplex
    >>> c, Q = [1.0, 1.0, 4.0], np.diag([1.0, 3.0, 2.0])
    >>> maximize_quadratic_on_simplex(c, Q, subset=[True, True, False])
    array([0.75, 0.25, 2.  ])
    """
    linear, Q = np.asarray(c, dtype=np.float64), np.asarray(Q, dtype=np.float64)
    if linear.ndim != 1 or linear.size == 0 or Q.shape != (linear.size,) * 2:
        raise ValueError(
            "c must be a vector of n numbers, n at least 1, and Q of shape (n, n), got "
            f"shapes {linear.shape} and {Q.shape}."
        )
    if not (np.isfinite(linear).all() and np.isfinite(Q).all()):
        raise ValueError("c and Q must be finite, they hold NaN or infinity.")
    # 1. The weights of the sum: ones in `subset`. It is indicator^T x.
    indicator = np.ones(linear.size)
    if subset is not None:
        chosen = np.asarray(subset)
        if chosen.shape != indicator.shape or chosen.dtype != bool or not chosen.any():
            raise ValueError(
                f"subset must be {linear.size} booleans, one per entry of c, some of "
                f"them True, got {subset}."
            )
        indicator = chosen.astype(np.float64)
    # 2. The start, scaled to the sum, or the best vertex.
    x = np.zeros(linear.size)
    if x0 is not None:
        x = np.maximum(np.asarray(x0, dtype=np.float64), 0.0)
        if x.shape != linear.shape or not np.isfinite(x).all():
            raise ValueError(
                f"x0 must hold {linear.size} finite numbers, one per entry of c, got "
                f"{x0}."
            )
    total = float(x @ indicator)
    if total > 0:
        x[indicator > 0] /= total
    else:
        vertices = np.where(indicator > 0, linear - Q.diagonal() / 2, -np.inf)
        x = (np.arange(x.size) == vertices.argmax()).astype(np.float64)
    # 3. Units: only the differences of the entries with a common sum matter.
    linear = linear - indicator * linear[indicator > 0].max()
    scale = float(max(np.abs(linear).max(), np.abs(Q).max(), TINY))
    linear, Q = linear / scale, Q / scale
    # 4. Primal active-set method (Nocedal & Wright 2006, algorithm 16.3).
    # Invariant: x >= 0 with sum 1 over `subset`, and zero but for the free entries.
    free = x > 0
    smallest = np.inf  # residual of the free entries after the last full steps
    for _ in range(20 * linear.size + 20):
        # 4.1 Step to the maximum over the free entries.
        active = np.flatnonzero(free)
        # d has the length of `active`; it keeps the sum over `subset`.
        d = _newton_step(active, linear - Q @ x, Q, indicator[active])
        # 4.2 An entry that would become negative on the way is fixed at zero (16.41).
        falling = d < 0
        lengths = x[active][falling] / -d[falling]  # of steps to zero
        if lengths.size and lengths.min() < 1.0:
            x[active] = np.maximum(x[active] + lengths.min() * d, 0.0)
            blocking = active[falling][lengths.argmin()]
            x[blocking], free[blocking] = 0.0, False
            smallest = np.inf
            continue
        # 4.3 A full step: repeat it while it lowers the residual of the free entries.
        # `excess` is the gradient less the multiplier of the sum, which at the maximum
        # is the mean gradient by the weights x. KKT: 0 for free entries, <= 0 for
        # others.
        x[active] += d
        gradient = linear - Q @ x
        excess = gradient - (gradient @ (indicator * x)) * indicator
        residual = float(np.abs(excess[active]).max())
        if residual > 4 * EPS and residual < smallest / 2:
            smallest = residual
            continue
        # 4.4 Free the entry with the largest multiplier of the wrong sign, if any.
        excess[active] = -np.inf
        if excess.max() <= max(4 * EPS, residual):
            break
        free[excess.argmax()] = True
        smallest = np.inf
    x = np.maximum(x, 0.0)
    x[indicator > 0] /= x @ indicator
    return x


def _newton_step(
    active: NDArray[np.intp], gradient: Array, Q: Array, indicator: Array
) -> Array:
    """Step to the maximum over the free entries that keeps the sum (16.39)."""
    # Equations (Q_aa + 1e-13 I) d + nu indicator = gradient_a, indicator^T d = 0.
    size = active.size
    K = np.zeros((size + 1, size + 1))
    K[:size, :size] = Q[np.ix_(active, active)]
    # A proximal term for singular systems: steps repeat until it is of no effect.
    K[np.arange(size), np.arange(size)] += 1e-13
    K[size, :size] = K[:size, size] = indicator
    d: Array
    d = np.linalg.solve(K, np.append(gradient[active], 0.0))[:size]
    # Rounding in the last equation would change the sum: project it away.
    d -= indicator * ((d @ indicator) / indicator.sum())
    return d
