"""Draw the group of each row."""

import numpy as np
from numpy.typing import NDArray


def draw_groups(
    n_samples: int, shares: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw groups with the given probabilities; none is empty."""
    groups = rng.choice(shares.size, size=n_samples, p=shares).astype(np.int64)
    groups[: shares.size] = np.arange(shares.size)
    return rng.permutation(groups)
