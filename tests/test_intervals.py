"""Intervals of ranks as users give them."""

import numpy as np
import pytest

from scalefair._intervals import check_interval


@pytest.mark.parametrize("given", [(0, 1), [0.25, 0.5], np.array([0.25, 0.5])])
def test_ends_are_floats(given):
    ends = check_interval(given)
    assert ends == tuple(given)
    assert {type(end) for end in ends} == {float}


@pytest.mark.parametrize("given", [0.5, None, (0.5,), (0, 0.5, 1), "01", ("a", "b")])
def test_two_numbers(given):
    with pytest.raises(ValueError, match="interval must be two numbers, got"):
        check_interval(given)


@pytest.mark.parametrize("given", [(0.5, 0.5), (0.6, 0.5), (-0.1, 1), (0, 1.1)])
def test_ends_in_order_between_0_and_1(given):
    with pytest.raises(ValueError, match=r"0 <= alpha < beta <= 1 .* highest score"):
        check_interval(given)


def test_nan():
    with pytest.raises(ValueError, match="0 <= alpha < beta <= 1"):
        check_interval((0, np.nan))
