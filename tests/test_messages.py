"""Numbers in messages say on which side of a limit they are."""

import numpy as np
import pytest

from scalefair._messages import format_distinct


@pytest.mark.parametrize(
    ("value", "limit", "text"),
    [
        (0.00100171, 1e-3, "0.001002"),
        (0.000999, 1e-3, "0.000999"),
        (0.0123, 1e-3, "0.012"),
        (1e-3, 1e-3, "0.001"),
        (0.0, 1e-3, "0"),
        (3.95e13, 1e-3, "4e+13"),
        (np.inf, 1.0, "inf"),
        (np.nan, 1.0, "nan"),
        (np.nextafter(1.0, 2), 1.0, "1.0000000000000002"),
    ],
)
def test_as_many_digits_as_needed(value, limit, text):
    assert format_distinct(value, limit) == text
