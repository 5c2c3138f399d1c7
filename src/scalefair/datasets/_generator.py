"""Random numbers of the generators."""

from typing import Any

import numpy as np
from sklearn.utils import check_random_state


def random_generator(random_state: Any) -> np.random.Generator:
    """Return a Generator seeded from `random_state` (int, RandomState or None).

    A Generator draws 64-bit integers on every platform, which the keys of large
    graphs need, and a passed RandomState advances, as scikit-learn's users expect.
    """
    state = check_random_state(random_state)
    return np.random.default_rng(state.randint(0, 2**32, size=4, dtype=np.uint32))
