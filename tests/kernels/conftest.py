"""What the tests of several kernels share."""

import numpy as np
import pytest


@pytest.fixture
def same_bits(with_threads):
    """Call with one thread and with two; the arrays must agree to the last bit."""

    def check(call):
        one, two = with_threads(1, call), with_threads(2, call)
        for a, b in zip(one, two, strict=True):
            assert np.array_equal(a, b)
        return one

    return check
