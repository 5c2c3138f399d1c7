"""scalefair.optimize.ConcaveSearch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalefair.optimize import ConcaveSearch


def _run(function, search, steps=80, tol=1e-13):
    """Points visited until the slope vanishes or the bracket is used up."""
    visited = []
    while len(visited) < steps and not search.exhausted:
        x = search.x
        value, slope, curvature = function(x)
        visited.append(x)
        if abs(slope) <= tol:
            break
        search.update(value, slope, curvature)
    return visited


def test_newton_on_a_smooth_function():
    # log(x) - 3 x: maximum at 1/3, curvature -1 / x^2
    search = ConcaveSearch(1e-3, 1)
    visited = _run(lambda x: (np.log(x) - 3 * x, 1 / x - 3, -1 / x**2), search)
    assert visited[-1] == pytest.approx(1 / 3, abs=1e-14)
    assert len(visited) <= 8


def test_derivative_whose_inverse_is_cubic():
    # x = 0.4 - 0.1 s - 0.01 s^3, with s the slope: found by the second step
    def function(x):
        roots = np.roots([0.01, 0, 0.1, x - 0.4])
        s = float(roots[np.abs(roots.imag).argmin()].real)
        return -0.05 * s**2 - 0.0075 * s**4, s, -1 / (0.1 + 0.03 * s**2)

    visited = _run(function, ConcaveSearch(), tol=1e-12)  # that of np.roots
    assert len(visited) == 3
    assert visited[-1] == pytest.approx(0.4, abs=1e-12)


def test_kink_of_two_parabolas_in_few_steps():
    # -(x - 0.8)^2 = 0.3 - 2 (x + 0.2)^2 where x^2 + 2.4 x - 0.86 = 0
    def function(x):
        pieces = [
            (-((x - 0.8) ** 2), -2 * (x - 0.8), -2.0),
            (0.3 - 2 * (x + 0.2) ** 2, -4 * (x + 0.2), -4.0),
        ]
        return min(pieces)

    crossing = (-2.4 + np.sqrt(2.4**2 + 4 * 0.86)) / 2
    search = ConcaveSearch()
    visited = _run(function, search, steps=8)
    assert search.upper - search.lower < 1e-15
    assert min(abs(x - crossing) for x in visited) < 1e-12


@settings(max_examples=20, deadline=None)
@given(
    slopes=st.lists(st.floats(-5, 5), min_size=2, max_size=6, unique=True),
    offsets=st.lists(st.floats(-1, 1), min_size=6, max_size=6),
)
def test_bracket_of_piecewise_linear_functions(slopes, offsets):
    lines = [(s, o) for s, o in zip(slopes, offsets, strict=False)]

    def function(x):
        return min((o + s * x, s, 0.0) for s, o in lines)

    grid = np.linspace(0, 1, 2001)
    best = max(function(x)[0] for x in grid)
    search = ConcaveSearch()
    visited = _run(function, search, steps=120)
    assert max(function(x)[0] for x in visited) >= best - 5e-3
    assert search.exhausted or abs(function(visited[-1])[1]) <= 1e-13
    # Half of every three steps at least: 53 bits in 160 steps, far fewer in fact.
    assert len(visited) < 120


def test_starts_and_steps():
    assert ConcaveSearch(start=0.25).x == 0.25
    # No cubic in the slope goes through two points of the same slope: the middle.
    search = ConcaveSearch()
    for x in (0.5, 0.25):
        assert search.x == x
        search.update(0.0, 0.0, -1.0)
    assert search.x == 0.125
    search = ConcaveSearch()
    while not search.exhausted:  # slope positive everywhere: the right end
        search.update(search.x, 1.0, 0.0)
    assert search.lower == pytest.approx(1.0, abs=1e-15)
    search = ConcaveSearch()
    while not search.exhausted:  # steep, in NumPy's numbers
        x = np.float64(search.x)
        search.update(-1e200 * abs(x - 0.3), 1e200 * np.sign(0.3 - x), -1e200)
    assert search.lower == pytest.approx(0.3)


def test_errors():
    with pytest.raises(ValueError, match="less than upper"):
        ConcaveSearch(1.0, 1.0)
    with pytest.raises(ValueError, match="must lie between"):
        ConcaveSearch(start=1.5)
    search = ConcaveSearch()
    for value, slope in ((np.nan, 1.0), (1.0, np.nan)):
        with pytest.raises(FloatingPointError, match=r"NaN at 0\.5"):
            search.update(value, slope, 0.0)
    assert (search.lower, search.upper) == (0.0, 1.0)
