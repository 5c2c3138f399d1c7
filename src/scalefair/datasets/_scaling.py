"""Scale the columns of a table."""

import numpy as np
from numpy.typing import NDArray


def standardise(values: NDArray[np.float64], *, ddof: int = 0) -> NDArray[np.float64]:
    """Return columns of mean 0 and variance 1; constant ones become 0.

    The sum of squares is divided by n - ddof for the variance.
    """
    spread = values.std(axis=0, ddof=ddof)
    scaled: NDArray[np.float64] = values - values.mean(axis=0)
    scaled /= np.where(spread > 0, spread, 1.0)
    return scaled
