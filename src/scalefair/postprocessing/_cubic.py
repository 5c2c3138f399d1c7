"""Root of the cubic of the explainable SVD, and of the equation of its multiplier."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["cubic_root", "monotone_root"]

_EPS = float(np.finfo(np.float64).eps)
# An error of the logarithm of a sum that may not fall any further.
_ROUNDING = 64 * _EPS
# By as much a bracket is widened at both ends.
_MARGIN = 1e-12
# Beyond it k x is beneath the rounding of the cubic: 2 gamma x^3 = k sigma is left.
_PURE_CUBE = 1e30


def cubic_root(k: ArrayLike, sigma: ArrayLike, gamma: float) -> NDArray[np.float64]:
    r"""Return the real root of :math:`2 \gamma x^3 + k x - k \sigma = 0`.

    The root of one real root with a positive linear term is

    .. math::

        x = 2 \sqrt{\frac{k}{6 \gamma}} \sinh\Bigl(\frac{1}{3}
            \operatorname{asinh}\Bigl(\frac{3 \sigma}{2}
            \sqrt{\frac{6 \gamma}{k}}\Bigr)\Bigr),

    which does not cancel, as the closed form with cube roots does. One Newton step
    then takes away what the hyperbolic functions lose of large arguments.

    Parameters
    ----------
    k : array-like of shape (r,)
        Not negative. Where `k` is zero the root is zero, or `sigma` if `gamma` is
        zero too.
    sigma : array-like of shape (r,)
        Of any sign.
    gamma : float
        Not negative; infinity gives zeros.

    Returns
    -------
    ndarray of shape (r,)
        Roots, with the signs of `sigma` and between it and zero.

    References
    ----------
    .. [1] Zuo, Zhu & Khalili, "Post-processing for fair regression via explainable
       SVD". Theorem 4.2; its closed form holds for k = 1 only.
    """
    k, sigma = np.broadcast_arrays(
        np.asarray(k, dtype=np.float64), np.asarray(sigma, dtype=np.float64)
    )
    if gamma == 0:
        return sigma.copy()
    x = np.zeros(sigma.shape)
    moved = (k > 0) & (sigma != 0)
    if not math.isinf(gamma):
        x[moved] = _positive_root(k[moved], np.abs(sigma[moved]), gamma)
    signed: NDArray[np.float64] = np.copysign(x, sigma)
    return signed


def _positive_root(
    k: NDArray[np.float64], sigma: NDArray[np.float64], gamma: float
) -> NDArray[np.float64]:
    """Root for positive values: y = x / sigma solves s^2 y^3 + y = 1."""
    # Roots before the quotient: a ratio of gamma and k could leave the range.
    with np.errstate(over="ignore"):  # infinity is far enough
        s = np.sqrt(2.0) * (sigma * (np.sqrt(gamma) / np.sqrt(k)))
    y = np.ones(s.shape)
    near = (s > 1e-9) & (s < _PURE_CUBE)
    # With t = 1.5 sigma sqrt(6 gamma / k), x = sigma * 3 sinh(asinh(t) / 3) / t.
    t = 1.5 * np.sqrt(3.0) * s[near]
    y[near] = 3.0 * np.sinh(np.arcsinh(t) / 3.0) / t
    square = (s[near] * y[near]) ** 2
    y[near] -= (square * y[near] + (y[near] - 1.0)) / (3.0 * square + 1.0)
    x = sigma * y
    far = s >= _PURE_CUBE
    x[far] = np.cbrt(k[far]) * np.cbrt(sigma[far]) / (np.cbrt(2.0) * np.cbrt(gamma))
    return np.minimum(x, sigma)


def monotone_root(
    function: Callable[[float], tuple[float, float]],
    target: float,
    lower: float,
    upper: float,
    *,
    power: float,
    max_iter: int = 200,
) -> float:
    r"""Return where a positive decreasing function takes a value.

    Newton's method on :math:`f^{-p}`, which is nearly linear if `f` falls like
    :math:`\gamma^{-1/p}` far out and is smooth at zero: for one term of the sums of
    the explainable SVD it ends in one or two steps. A step that leaves the bracket,
    or one after a step that did not halve the logarithm of the error, is replaced by
    the geometric mean of the ends of the bracket.

    Parameters
    ----------
    function : callable
        ``function(gamma) -> (value, slope)``, the value positive and decreasing.
    target : float
        Wanted value, positive.
    lower, upper : float
        Ends of an interval that holds the root, ``0 < lower <= upper``.
    power : float
        The exponent `p`.
    max_iter : int, default=200
        Most evaluations. Halving the brackets alone would take 70.

    Returns
    -------
    float
        The root, to rounding.
    """
    gamma, last = lower, math.inf
    # A root at an end must not be stepped over for its rounding.
    lower, upper = lower * (1 - _MARGIN), upper * (1 + _MARGIN)
    for _ in range(max_iter):
        value, slope = function(gamma)
        error = math.log(value / target) if value > 0 else -math.inf
        halved = abs(error) <= last / 2
        if abs(error) <= 2 * _EPS or (abs(error) <= _ROUNDING and not halved):
            return gamma
        if error > 0:
            lower = gamma
        else:
            upper = gamma
        if upper <= lower * (1 + 2 * _EPS):
            return upper
        step = math.nan
        if slope < 0 and halved:
            step = gamma - math.expm1(power * error) * (value / (power * slope))
        last = abs(error)
        if not lower < step < upper:
            step = math.sqrt(lower) * math.sqrt(upper)
            last = math.inf
        gamma = step
    return upper
