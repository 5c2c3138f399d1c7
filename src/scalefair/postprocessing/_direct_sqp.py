"""The direct method for two groups: sequential quadratic programming, with a proof.

    min |V - V_0|^2 over V (m, r), subject to |V D V^T|_F <= 1 and |V u| <= 1,

D = diag(d), in units in which both bounds are one. With multipliers a >= 0 and B, a
symmetric (m, m) matrix, a solution on both bounds satisfies

    (1)  V + B V D + a V u u^T = V_0,    (2)  V D V^T = B / |B|,    (3)  |V u| = 1.

Newton's method for the three at once is sequential quadratic programming. It is done in
the eigenbasis of B, with V and R for U^T V and U^T V_0: there V_ij has a weight of its
own in (1), w_ij = 1 + b_i d_j. Where these are positive, (1) has one solution V(B, a),
and no matrix within the bounds is nearer to V_0 than

    (4)  <R, R - V(B, a)> - |B| - a.

The problem for some rows of V alone, any directions of the outputs, is easier than that
for all: what is proved of it holds for that too. So few leading rows come first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scalefair.postprocessing._explainable_svd import shrinkage

Array = NDArray[np.float64]

# Shares of the trace of V |D| V^T that the rows of a level may leave out; levels of
# more than three quarters of all rows do not pay.
_LEVELS, _MOST_ROWS = (1e-2, 1e-3, 1e-4), 0.75
# The least weight in the dual, and that to which weights are clipped in a step: at
# first, where steps go well, and where they do not.
_NEAREST = 1e-3
_CLIP, _LEAST_CLIP, _MOST_CLIP = 0.2, 0.1, 10.0
# Steps of a level, their lengths, and what a step must bring of the best length's gain
# to be taken whole; a gain below this share of the merit is none.
_STEPS = 40
_LENGTHS = np.array([1, 0.85, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05, 0.02, 0.01, 0.001])
_ENOUGH, _NOTHING = 0.7, 1e-9
# Multipliers move at least so far, as they may be what is wrong.
_SHORTEST = 0.1
# Of the tolerance, what is proved of a level, and what four steps must bring.
_SHARP, _SLOW = 0.5, 0.05
_CG_STEPS, _CG_TOL = 30, 0.1
_HALVINGS, _RANGE = 5, 1e-2
# Bounds are met a little inside, for rounding.
_INSIDE = 1e-11
_TINY = 1e-300


@dataclass
class Change:
    """A matrix within the bounds, and what is known of all others."""

    V: Array | None = None  # None: none was found
    square: float = np.inf  # |V - V_0|^2
    least: float = 0.0  # lower bound of it
    multiplier: Array | None = None  # about B, of the last level

    def proved(self, tol: float) -> bool:
        return self.V is not None and self.square - self.least <= tol * self.square


def nearest(V0: Array, d: Array, u: Array, tol: float) -> Change:
    """Solve the problem: a square `tol`, relative, above its bound; u = 0 is no bound.

    Where that is not reached the square is about that of a local minimum.
    """
    basis, sizes = _leading_rows(V0, d, u)
    R, found, level = basis.T @ V0, Change(), None
    for p in sizes:
        last = p == len(R)
        if level is not None and not (last or level.found.proved(tol)):
            continue  # more rows will prove nothing either
        level = _Level(R[:p], d, u, level)
        level.solve(tol if last else _SHARP * tol)
        V = level.extended(R)
        found.least = max(found.least, level.found.least)
        for within in (level.found.V if last else None, _onto_bounds(R, V, d, u)):
            square = np.inf if within is None else float(np.sum((within - R) ** 2))
            if square < found.square:
                found.V, found.square = within, square
        found.multiplier = basis @ level.multiplier(V) @ basis.T
        if found.proved(tol):
            break
    if found.V is not None:
        found.V = basis @ found.V
    return found


def _leading_rows(V: Array, d: Array, u: Array) -> tuple[Array, list[int]]:
    """Directions of the outputs, that of the means first, and how many make a level."""
    shares = (V * np.abs(d)) @ V.T
    shares /= max(float(np.trace(shares)), _TINY)
    gaps = V @ u
    shares += np.outer(gaps, gaps) / max(float(gaps @ gaps), _TINY)
    values, basis = np.linalg.eigh(shares)
    left = np.cumsum(values)  # without the rows up to each
    sizes = {int(np.sum(left > share)) for share in _LEVELS}
    m = len(V)
    return basis[:, ::-1], [*sorted(p for p in sizes if 0 < p <= _MOST_ROWS * m), m]


def dual(R: Array, d: Array, u: Array, b: Array) -> tuple[float, Array, float, Array]:
    """Return (4), V and the best a for eigenvalues b, and b, smaller if need be."""
    low, high = d.min(initial=0.0), d.max(initial=0.0)  # inputs may all be zero
    least = min(float(b.min() * high), float(b.max() * low))
    if least < _NEAREST - 1:
        b = b * ((_NEAREST - 1) / least)
    inverse = 1 / (1 + np.outer(b, d))
    V, a = R * inverse, 0.0
    gaps = V @ u
    if gaps @ gaps > 1:
        # V u = g / (1 + a k), by the formula of Sherman and Morrison for each row.
        along = inverse * u
        k = along @ u
        factors = shrinkage(gaps * gaps, 1 / k, 1.0)
        V -= ((1 - factors) * gaps / k)[:, None] * along
        i = int(np.argmax(k))
        a = float((1 / factors[i] - 1) / k[i])
    return float(np.vdot(R, R - V) - np.linalg.norm(b) - a), V, a, b


def smallest_change(
    whitened: Array,
    root: Array,
    difference: Array,
    form: Array,
    multiplier: Array,
    *,
    mean_bound: float,
    covariance_bound: float,
) -> float:
    """Lower bound of the change, for a multiplier Y that is good in other coordinates.

    Given W S T (m, r), T (n, r), d (n,), M (n, n) and a symmetric Y (m, m), the
    multiplier of ``V F V^T``, F = T^T M T.
    """
    values, vectors = np.linalg.eigh(root.T @ form @ root)
    y, basis = np.linalg.eigh(multiplier)
    if np.isinf(covariance_bound):
        y, covariance_bound = np.zeros_like(y), 1.0
    unit = np.sqrt(covariance_bound)
    R, u = basis.T @ whitened @ vectors, vectors.T @ (root.T @ difference)
    # What holds for a bound that is nearly zero holds for zero.
    u /= max(np.sqrt(mean_bound), 1e-8 * np.linalg.norm(R @ u), _TINY)
    return max(dual(R, values / unit, u, y * unit)[0], 0.0)


class _Level:
    """The problem for some rows, and a point (V, B, a) in the eigenbasis U of B."""

    def __init__(self, V0: Array, d: Array, u: Array, before: _Level | None) -> None:
        self.R, self.d, self.u = V0, d, u
        self.V, self.a = V0, 0.0
        self.b, self.U = np.ones(len(V0)), np.eye(len(V0))
        self.found, self.clip = Change(), _CLIP
        if before is None:
            self._begin()
            return
        self.V, self.a, self.clip = before.extended(V0), before.a, before.clip
        B = before.multiplier(self.V)
        if B.any():
            self._turn(B)
        else:
            self._begin()

    def _begin(self) -> None:
        """Start from the multiple of ``V_0 D V_0^T`` with the best dual."""
        R, d, u = self.R, self.d, self.u
        g, self.U = np.linalg.eigh((R * d) @ R.T)
        self.R = R = self.U.T @ R
        if not g.any():  # any multiplier will do
            g = np.ones(len(g))
        edge = min(float(g.min() * d.max()), float(g.max() * d.min()))
        edge = min(edge, -1e-3 * float(np.abs(g).max() * np.abs(d).max()))
        low, high = np.log(-_RANGE / edge), np.log(-1 / edge)
        points = []
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            points.append(dual(R, d, u, np.exp(middle) * g))
            V = points[-1][1]
            rises = ((V * V) @ d) @ g > np.linalg.norm(g)
            low, high = (middle, high) if rises else (low, middle)
        _, self.V, self.a, self.b = max(points, key=lambda point: point[0])

    def multiplier(self, V: Array) -> Array:
        """B by (2) for further rows, in the coordinates before the turn."""
        B: Array = np.linalg.norm(self.b) * ((V * self.d) @ V.T)
        return B

    def extended(self, V0: Array) -> Array:
        """V for more rows, which solve (1) with B by (2): those of the level stay."""
        # V (I + |B| D V_1^T V_1 D + a u u^T) = V_0, V_1 the rows of the level
        p = len(self.R)
        M = np.vstack([self.V * self.d, np.sqrt(self.a) * self.u])
        M[:p] *= np.sqrt(np.linalg.norm(self.b))
        small, rest = np.eye(p + 1) + M @ M.T, V0[p:]
        rest = rest - np.linalg.solve(small, M @ rest.T).T @ M
        return np.vstack([self.U @ self.V, rest])

    def solve(self, tol: float) -> None:
        """Step until the point is proved, or gets hardly better."""
        found, known = self.found, []
        for _ in range(_STEPS):
            within = _onto_bounds(self.R, self.V, self.d, self.u)
            if within is not None:
                square = float(np.sum((within - self.R) ** 2))
                if square < found.square:
                    found.V, found.square = self.U @ within, square
            found.least = max(found.least, dual(self.R, self.d, self.u, self.b)[0])
            known.append(found.square)
            slow = len(known) > 4 and known[-5] - found.square < (
                _SLOW * tol * found.square
            )
            if found.proved(tol) or (found.V is not None and slow):
                break
            self._step()

    def _turn(self, B: Array) -> None:
        """Take another multiplier, and its eigenbasis."""
        self.b, basis = np.linalg.eigh(B)
        self.U = self.U @ basis
        self.R, self.V = basis.T @ self.R, basis.T @ self.V

    def _step(self) -> None:
        """One step for (1), (2) and (3), with the weights of (1) clipped."""
        V, b, d, u, a = self.V, self.b, self.d, self.u, self.a
        size, VD, gaps = np.linalg.norm(b), V * d, V @ u
        bounded = a > 0 or gaps @ gaps > 1
        weights = 1 + np.outer(b, d)
        inverse = 1 / np.maximum(np.abs(weights), self.clip)
        along = inverse * u
        share = a / (1 + a * (along @ u))

        def moved(X: Array) -> Array:  # X = Y o w + a Y u u^T, solved for Y
            Y = X * inverse
            if a > 0:
                Y -= (share * np.einsum("ij,ij->i", X, along))[:, None] * along
            return Y

        def form(X: Array) -> Array:
            XV = X @ VD.T
            return XV + XV.T

        # (1) gives dV = -moved(residual + dB V D + da (V u) u^T); what is left are
        # (2) and (3) for dB and da, and da = (excess - <dB, h>) / hh.
        residual = weights * V - self.R + a * np.outer(gaps, u)
        rhs = VD @ V.T - form(moved(residual))
        np.einsum("ii->i", rhs)[:] -= b / size
        excess, hh, h = 0.0, 1.0, np.zeros_like(rhs)
        if bounded:
            Y = moved(np.outer(gaps, u))
            h, hh = form(Y), 2 * float(gaps @ (Y @ u))
            excess = float(gaps @ gaps - 1 - 2 * gaps @ (moved(residual) @ u))
            rhs -= h * (excess / hh)

        def product(E: Array) -> Array:
            image = form(moved(E @ VD)) + E / size
            diagonal = np.einsum("ii->i", image)
            diagonal -= (E.diagonal() @ b / size**3) * b
            if bounded:
                image -= (np.vdot(h, E) / hh) * h
            return image

        scale = inverse @ (VD * VD).T
        scale = scale + scale.T + 1 / size + 2 * np.diag(scale.diagonal())
        dB = _conjugate_gradients(product, rhs, scale)
        da = (excess - float(np.vdot(dB, h))) / hh
        dV = -moved(residual + dB @ VD + da * np.outer(gaps, u))
        price = max(float(np.linalg.norm(np.diag(b) + dB)), float(size))
        t = self._length(dV, price, max(a + da, a))
        self.V = V + t * dV
        t = max(t, _SHORTEST)
        self.a = max(a + t * da, 0.0)
        self._turn(np.diag(b) + t * dB)

    def _length(self, dV: Array, price: float, mean_price: float) -> float:
        """Length of a step by an exact penalty, 0 if it rises; the clip follows."""
        V, t = self.V, np.append(_LENGTHS, 0.0)
        merit = np.polyval(_square(V - self.R, dV), t) / 2
        for cost, square in (
            (price, _covariance(V, dV, self.d)),
            (2 * mean_price, _square(V @ self.u, dV @ self.u)),
        ):
            gap = np.sqrt(np.maximum(np.polyval(square, t), 0.0))
            merit += cost * np.maximum(gap - 1, 0)
        gains = merit[-1] - merit
        # Near the end gains are rounding: the step is taken as it is, or not at all.
        nothing = _NOTHING * merit[-1]
        if gains[0] >= _ENOUGH * gains.max() - nothing:
            best = 0
        elif gains.max() > nothing:
            best = int(np.argmax(gains))
        else:
            self.clip = min(3 * self.clip, _MOST_CLIP)
            return 0.0
        whole = t[best] >= 0.6
        clip = 0.8 * self.clip if whole else min(2 * self.clip, 1.0)
        self.clip = max(clip, _LEAST_CLIP)
        return float(t[best])


def _conjugate_gradients(
    product: Callable[[Array], Array], rhs: Array, scale: Array
) -> Array:
    """Rough solution of a system with symmetric matrices for vectors."""
    x = np.zeros_like(rhs)
    left, z = rhs, rhs / scale
    direction, size = z, np.vdot(rhs, z)
    goal = _CG_TOL**2 * size
    for _ in range(_CG_STEPS):
        if size <= goal:
            break
        image = product(direction)
        curvature = np.vdot(direction, image)
        if curvature <= 0:
            break
        x += (size / curvature) * direction
        left = left - (size / curvature) * image
        z = left / scale
        before, size = size, np.vdot(left, z)
        direction = z + (size / before) * direction
    return x


def _onto_bounds(R: Array, V: Array, d: Array, u: Array) -> Array | None:
    """First point within both bounds on the line from R through V, not far beyond."""
    S = V - R
    bounds = _covariance(V, S, d), _square(V @ u, S @ u)
    for bound in bounds:
        bound[-1] -= 1 - 2 * _INSIDE
    roots = np.concatenate([np.roots(bound) for bound in bounds])
    roots = np.sort(roots.real[np.abs(roots.imag) < 1e-9])
    within = np.abs(roots) < 1
    for bound in bounds:
        within &= np.polyval(bound, roots) <= _INSIDE
    return V + roots[np.argmax(within)] * S if within.any() else None


def _square(A: Array, S: Array) -> Array:
    """Coefficients of ``|A + t S|^2``, the highest first."""
    return np.array([np.vdot(S, S), 2 * np.vdot(A, S), np.vdot(A, A)])


def _covariance(V: Array, S: Array, d: Array) -> Array:
    """Coefficients of ``|(V + t S) D (V + t S)^T|^2``."""
    G, A, C = (V * d) @ V.T, (V * d) @ S.T, (S * d) @ S.T
    A = A + A.T
    inner = 2 * np.array([np.vdot(A, C), np.vdot(G, C), np.vdot(A, G)])
    inner[1] += np.vdot(A, A)
    return np.array([np.vdot(C, C), *inner, np.vdot(G, G)])
