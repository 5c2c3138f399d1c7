"""Root of a decreasing derivative on an interval, kinks included."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class _Quadratic:
    """Second-order model of the function at one point."""

    x: float
    value: float
    slope: float
    curvature: float


class ConcaveSearch:
    """Safeguarded search for the maximum of a concave function of one variable.

    The caller evaluates the function at `x` and reports value and slope by `update`,
    until its own test is met. Within a bracket of the maximiser the next point is

    1. where the inverse of the derivative, a cubic through the last two points, or else
       the Newton step, has its zero, if the last step at least halved the derivative;
    2. else the crossing of the quadratic models at the two ends, which converges
       to a kink quadratically;
    3. else the middle, also whenever three steps have not halved the bracket.

    Parameters
    ----------
    lower, upper : float, default=0.0, 1.0
        Ends of the interval.
    start : float or None, default=None
        First point; None takes the middle.

    Attributes
    ----------
    x, lower, upper : float
        Where to evaluate next, and the bracket of the maximiser.

    Raises
    ------
    ValueError
        If the interval is empty or `start` lies outside.

    Examples
    --------
    >>> from scalefair.optimize import ConcaveSearch
    >>> search = ConcaveSearch(0.0, 1.0)
    >>> while not search.exhausted:  # the maximum of min(2 x, 1 - x): a kink at 1/3
    ...     value, slope = min((2 * search.x, 2.0), (1 - search.x, -1.0))
    ...     search.update(value, slope, 0.0)
    >>> round(search.lower, 6)
    0.333333
    """

    def __init__(
        self, lower: float = 0.0, upper: float = 1.0, start: float | None = None
    ) -> None:
        if not lower < upper:
            raise ValueError(
                f"lower={lower} must be less than upper={upper}: an interval is "
                "searched."
            )
        self.lower, self.upper = float(lower), float(upper)
        self.x = (self.lower + self.upper) / 2 if start is None else float(start)
        if not self.lower <= self.x <= self.upper:
            raise ValueError(f"start={start} must lie between {lower} and {upper}.")
        self._first_width = self.upper - self.lower
        # Samples at both ends of the bracket and the last one, None before the first;
        # and the width of the bracket after each sample.
        self._lower_end: _Quadratic | None = None
        self._upper_end: _Quadratic | None = None
        self._last: _Quadratic | None = None
        self._widths: list[float] = []

    @property
    def exhausted(self) -> bool:
        """Whether the bracket cannot be told from a point."""
        middle = (self.lower + self.upper) / 2
        if not self.lower < middle < self.upper:
            return True
        # Near zero floating-point numbers are denser than the accuracy of any root.
        return self.upper - self.lower <= 2.0**-80 * self._first_width

    def update(self, value: float, slope: float, curvature: float) -> None:
        """Take in the function at `x` and move `x` to the next point.

        Parameters
        ----------
        value, slope, curvature : float
            The function and its first two derivatives; one-sided at a kink. The
            curvature may be any number <= 0 (0 where it is not known).

        Raises
        ------
        FloatingPointError
            If value or slope is NaN.
        """
        if math.isnan(value) or math.isnan(slope):
            raise FloatingPointError(
                f"The function or its slope is NaN at {self.x}: the search cannot tell "
                "on which side its maximum lies."
            )
        # 1. The sample replaces the end of the bracket on its side.
        #    Invariant: the slope is positive at `lower` and not at `upper`, where these
        #    were evaluated, so that the maximiser lies between them.
        numbers = map(float, (value, slope, curvature))  # no overflow warnings
        sample, last = _Quadratic(self.x, *numbers), self._last
        if slope > 0:
            self.lower, self._lower_end = self.x, sample
        else:
            self.upper, self._upper_end = self.x, sample
        self._last = sample
        self._widths.append(self.upper - self.lower)
        # 2. Candidates: from the last two samples, unless the slope hardly fell, and
        #    from the ends, unless three steps have not halved the bracket.
        points = []
        if last is None:
            points = [_newton_step(sample)]
        elif abs(slope) <= abs(last.slope) / 2:
            points = [_inverse_cubic(last, sample), _newton_step(sample)]
        # A candidate from the last two samples needs no such test: the slope halves.
        stalled = len(self._widths) > 3 and self._widths[-1] > self._widths[-4] / 2
        if not stalled and self._lower_end is not None and self._upper_end is not None:
            points.append(_model_crossing(self._lower_end, self._upper_end))
        # 3. The first one inside the bracket, else its middle.
        middle = (self.lower + self.upper) / 2
        self.x = next((x for x in points if self.lower < x < self.upper), middle)


def _newton_step(sample: _Quadratic) -> float:
    """Zero of the slope of the quadratic model, NaN where it has no curvature."""
    if sample.curvature < 0:
        return sample.x - sample.slope / sample.curvature
    return math.nan


def _inverse_cubic(a: _Quadratic, b: _Quadratic) -> float:
    """Zero of the slope by inverse cubic Hermite interpolation, or NaN.

    x is the cubic in the slope with the values and derivatives 1 / curvature of both.
    """
    rise = b.slope - a.slope
    if rise == 0 or not (a.curvature < 0 and b.curvature < 0):
        return math.nan
    # u is the place of slope 0 between the two slopes, 0 at a and 1 at b. The cubic's
    # basis functions are u^2 (3 - 2 u) for the value at b, and u (1 - u)^2 and
    # -u^2 (1 - u) for the derivatives 1 / curvature times the length `rise`.
    u = -a.slope / rise
    bend = (1 - u) / a.curvature - u / b.curvature
    return a.x + (b.x - a.x) * u * u * (3 - 2 * u) + rise * u * (1 - u) * bend


def _model_crossing(lower: _Quadratic, upper: _Quadratic) -> float:
    """Point between the two where their quadratic models agree, or NaN."""
    # With t the distance from the lower point, the lower model less the upper one is
    #     value_l + slope_l t + curvature_l t^2 / 2
    #     - (value_u + slope_u (t - w) + curvature_u (t - w)^2 / 2) = a t^2 + b t + c.
    w = upper.x - lower.x
    a = (lower.curvature - upper.curvature) / 2
    b = lower.slope - upper.slope + upper.curvature * w
    c = lower.value - upper.value + upper.slope * w - upper.curvature * w * w / 2
    discriminant = b * b - 4 * a * c
    if not (math.isfinite(discriminant) and discriminant >= 0):
        return math.nan
    # b > 0 unless the curvature dominates: this root has no cancellation then.
    denominator = b + math.copysign(math.sqrt(discriminant), b)
    return lower.x - 2 * c / denominator if denominator != 0 else math.nan
