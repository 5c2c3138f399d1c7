import numpy as np
import pandas as pd
import pytest

from scalefair.metrics import moment_gaps

from ..conftest import one_hot
from .conftest import moment_differences

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("n_outputs", [1, 2, 30])
@pytest.mark.parametrize("n_groups", [2, 3, 6])
def test_equals_the_definition(n_groups, n_outputs):
    groups = RNG.integers(0, n_groups, 500)
    Z = RNG.standard_normal((500, n_outputs)) * (1 + groups[:, None]) + groups[:, None]
    gaps = moment_gaps(Z, sensitive_features=groups)
    assert [type(gap) for gap in gaps] == [float, float]
    expected = moment_differences(one_hot(groups), Z)
    np.testing.assert_allclose(gaps, expected, rtol=1e-12)
    order, names = RNG.permutation(500), np.array(list("zyxwvu"))[groups]
    again = moment_gaps(-3 * Z[order], sensitive_features=names[order])
    np.testing.assert_allclose(again, [3 * gaps[0], 9 * gaps[1]])


def test_known_answers():
    # Variances 1 and 4 with divisor n, 2 and 8 with n - 1.
    column = pd.Series([0.0, 2.0, 5.0, 9.0], index=[3, 2, 1, 0])
    assert moment_gaps(column, sensitive_features=[0, 0, 1, 1]) == (6.0, 3.0)
    Z = np.tile(RNG.standard_normal((40, 3)), (3, 1))
    gaps = moment_gaps(Z, sensitive_features=np.repeat([0, 1, 2], 40))
    np.testing.assert_allclose(gaps, 0, atol=1e-14)
    assert moment_gaps(np.ones(6), sensitive_features=[0, 1] * 3) == (0.0, 0.0)
    # Groups of one row have no covariance.
    Z = np.array([[0.0, 0.0], [2.0, 0.0], [4.0, 1.0]])
    assert moment_gaps(Z, sensitive_features=[0, 0, 1]) == (np.sqrt(10), 1)


def test_large_means_and_outputs_cost_no_digits():
    groups = np.repeat([0, 1], 100)
    Z = RNG.standard_normal(200) * (1 + groups)
    gaps = moment_gaps(Z + 1e8, sensitive_features=groups)
    means, covariances = moment_gaps(Z, sensitive_features=groups)
    np.testing.assert_allclose(gaps, (means, covariances), rtol=1e-6)
    large = moment_gaps(1e100 * Z, sensitive_features=groups)  # whose square is not
    assert large == pytest.approx((1e100 * means, 1e200 * covariances))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Z": [1.0, np.nan, 2.0]}, "NaN or infinite"),
        ({"Z": [[1.0], [np.inf], [2.0]]}, "NaN or infinite"),
        ({"Z": [1.0, 1e200, -1e200]}, "overflow"),
        ({"Z": np.outer([0, 8e153, -8e153], np.ones(9))}, "gaps overflow: rescale"),
        ({"Z": np.zeros((3, 2, 2))}, "two dimensions"),
        ({"Z": np.zeros((3, 0))}, "at least one row and one feature"),
        ({"Z": 1.0}, "one row per sample, got a single number"),
        ({"Z": [1j, 0, 0]}, "real numbers"),
    ],
)
def test_bad_input(change, message):
    arguments = {"Z": [1.0, 2.0, 3.0], "sensitive_features": [0, 1, 1], **change}
    with pytest.raises(ValueError, match=message):
        moment_gaps(arguments.pop("Z"), **arguments)
