"""A few rows of each group."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["rows_of_each_group"]


def rows_of_each_group(
    codes: NDArray[np.integer],
    n_groups: int,
    n_rows: int,
    random_state: np.random.RandomState,
) -> NDArray[np.int64]:
    """Draw about as many rows of each group, `n_rows` at most in all, in order."""
    each = max(n_rows // n_groups, 2)
    chosen = []
    for group in range(n_groups):
        rows = np.flatnonzero(codes == group)
        if len(rows) > each:
            rows = random_state.choice(rows, each, replace=False)
        chosen.append(rows)
    return np.sort(np.concatenate(chosen))
