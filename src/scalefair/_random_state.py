"""Random numbers from `random_state`, never from NumPy's global state."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state as _check_random_state


def check_random_state(random_state: Any) -> np.random.RandomState:
    """Return a RandomState as scikit-learn does, but a fresh one for None."""
    if random_state is None:
        return np.random.RandomState(np.random.MT19937(np.random.SeedSequence()))
    state: np.random.RandomState = _check_random_state(random_state)
    return state


def random_generator(random_state: Any) -> np.random.Generator:
    """Return a Generator, which is faster, seeded from int, RandomState or None."""
    state = check_random_state(random_state)
    return np.random.default_rng(state.randint(0, 2**32, size=4, dtype=np.uint32))
