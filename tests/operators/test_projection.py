"""NullspaceProjector and Projected against their definitions."""

import numpy as np
import pytest

from scalefair.operators import NullspaceProjector, Projected


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint16])
def test_integer_matrix_becomes_float(dtype):
    A = Projected(np.eye(6), np.empty((6, 0)), constrained_value=-1.0)
    assert np.array_equal(A @ np.eye(6), np.eye(6))  # of no constraint
    A = np.arange(16, dtype=dtype).reshape(4, 4)
    A = A + A.T
    operator = Projected(A, np.eye(4)[:, :1], constrained_value=0.5)
    assert operator.dtype == np.float64
    expected = A.astype(float)
    expected[0], expected[:, 0], expected[0, 0] = 0, 0, 0.5
    np.testing.assert_allclose(operator @ np.eye(4), expected, atol=1e-14)


@pytest.mark.parametrize(
    "make",
    [NullspaceProjector, lambda Q: Projected(np.eye(6), Q, constrained_value=0.0)],
)
@pytest.mark.parametrize(
    ("Q", "message"),
    [
        (2 * np.eye(6)[:, :2], "not orthonormal"),
        (np.full((6, 1), np.nan), "not orthonormal"),
        (np.ones((2, 6)), "tall"),
    ],
)
def test_refuses_a_basis(make, Q, message):
    with pytest.raises(ValueError, match=message):
        make(Q)
    with pytest.raises(TypeError, match="Q must be real"):
        make((1 + 0j) * np.eye(6)[:, :1])


@pytest.mark.parametrize(
    ("A", "value", "message"),
    [
        (np.eye(7), 0.0, r"\(7, 7\).*6 rows"),
        (np.ones((6, 7)), 0.0, r"\(6, 7\)"),
        (np.eye(6), np.nan, "constrained_value must be a finite"),
    ],
)
def test_refuses_matrices_and_values(A, value, message):
    with pytest.raises(ValueError, match=message):
        Projected(A, np.eye(6)[:, :1], constrained_value=value)
    with pytest.raises(TypeError, match="float32 or float64"):
        Projected(1j * np.eye(6), np.eye(6)[:, :1], constrained_value=0.0)
