"""Check the arguments that the generators share."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray


def check_count(name: str, value: Any, least: int, reason: str = "") -> None:
    """Raise ValueError unless `value` is an integer of at least `least`."""
    if not isinstance(value, Integral) or value < least:
        why = f" ({reason})" if reason else ""
        raise ValueError(f"{name} must be an integer >= {least}{why}, got {value!r}.")


def check_shares(group_probabilities: Sequence[float]) -> NDArray[np.float64]:
    """Return the probabilities of the groups with sum 1, or say what is wrong."""
    shares: NDArray[np.float64] = np.asarray(group_probabilities, dtype=np.float64)
    positive = shares.ndim == 1 and bool((shares > 0).all())
    if not (positive and np.isclose(shares.sum(), 1)):
        raise ValueError(
            "group_probabilities must be positive numbers of sum 1, got "
            f"{group_probabilities!r}."
        )
    shares = shares / shares.sum()
    return shares
