"""Random numbers come from `random_state`, never from NumPy's global state."""

import numpy as np
import pytest
from sklearn.utils import check_random_state as check_global_state

from scalefair._random_state import check_random_state, random_generator


def draws(random_state):
    return random_generator(random_state).integers(0, 2**60, 5).tolist()


def test_the_same_seed_gives_the_same_draws():
    assert draws(3) == draws(3) == draws(np.random.RandomState(3))
    assert draws(3) != draws(4)


def test_a_random_state_advances():
    state = np.random.RandomState(0)
    assert draws(state) != draws(state)
    assert check_random_state(state) is state


def test_none_leaves_the_global_state_alone():
    legacy = check_global_state(np.random)  # scikit-learn's name of the global state
    before = legacy.get_state()[1].copy()
    assert draws(None) != draws(None)
    assert check_random_state(None) is not check_random_state(None)
    assert np.array_equal(legacy.get_state()[1], before)


def test_what_is_no_seed_is_refused():
    with pytest.raises(ValueError, match="cannot be used to seed"):
        random_generator("seed")
