"""Shared by generators and loaders: checks, groups, a part of docstrings."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair._rounding import ROUNDING

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Strings = NDArray[np.str_]
Columns = dict[str, Floats]

# Text that the docstrings of the generators share.
TEXTS = {
    "raises": """\
Raises
------
ValueError
    If an argument is out of range; the message states the range."""
}


def check_option(name: str, value: Any, allowed: Sequence[Any]) -> None:
    """Raise ValueError unless the value is one of those allowed."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {tuple(allowed)}, got {value!r}.")


def standardise(values: Floats, *, ddof: int = 0) -> Floats:
    """Return columns of mean 0 and variance 1, by n - ddof; constant ones become 0."""
    deviations = values.std(axis=0, ddof=ddof)
    centred: Floats = values - values.mean(axis=0)
    # The deviation of a constant column is rounding.
    varies = deviations > ROUNDING * np.abs(values).max(axis=0)
    scaled: Floats = np.zeros_like(centred)
    np.divide(centred, deviations, out=scaled, where=varies)
    return scaled


def check_shares(group_probabilities: Sequence[float]) -> Floats:
    """Return positive probabilities of the groups, with sum 1 to the last digit."""
    shares: Floats = np.asarray(group_probabilities, dtype=np.float64)
    is_positive = shares.ndim == 1 and bool((shares > 0).all())
    if not (is_positive and np.isclose(shares.sum(), 1)):
        raise ValueError(
            "group_probabilities must be positive numbers of sum 1, got "
            f"{group_probabilities!r}."
        )
    # NumPy's choice refuses sums that differ from 1 by more than rounding.
    shares = shares / shares.sum()
    return shares


def draw_groups(n_samples: int, shares: Floats, rng: np.random.Generator) -> Ints:
    """Draw groups with these probabilities; none is empty."""
    # The first rows have one of each group before all are shuffled.
    groups = rng.choice(shares.size, size=n_samples, p=shares).astype(np.int64)
    groups[: shares.size] = np.arange(shares.size)
    return rng.permutation(groups)
