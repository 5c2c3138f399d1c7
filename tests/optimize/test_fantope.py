"""Minimax on the Fantope against closed forms and another solver."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scalefair.optimize import minimax_on_fantope


def random_problem(seed, G, n, k, rank=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((G, rank or 2 * n, n))
    A = X.transpose(0, 2, 1) @ X
    return A, np.linalg.eigvalsh(A)[:, n - k :].sum(axis=1)


def assert_certified(A, b, k, found):
    """What the result says is true of what it returns."""
    w = np.linalg.eigvalsh(found.W)
    assert w.min() >= -1e-12
    assert w.max() <= 1 + 1e-12
    assert np.trace(found.W) == pytest.approx(k, rel=1e-12)
    np.testing.assert_array_equal(found.W, found.W.T)
    assert found.weights.min() >= 0
    assert found.weights.sum() == pytest.approx(1, abs=1e-14)
    size = np.abs(A).max() + np.abs(b).max()
    value = (b - np.einsum("gij,ij->g", A, found.W)).max()
    assert found.value == pytest.approx(value, abs=1e-13 * size)
    mu = np.linalg.eigvalsh(np.tensordot(found.weights, A, axes=1))
    bound = found.weights @ b - mu[len(mu) - k :].sum()
    assert found.bound == pytest.approx(bound, abs=1e-13 * size)
    assert found.gap == pytest.approx(value - bound, abs=1e-13 * size)
    assert found.gap >= -1e-13 * size


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 7), st.integers(2, 7), st.integers(1, 9))
@example(99, 7, 4, 7)  # rounding adds up in the trace
def test_certificate(seed, G, n, rank):
    k = 1 + seed % (n - 1)
    A, b = random_problem(seed, G, n, k, rank)
    actual = minimax_on_fantope(A, b, k, tol=1e-8)
    assert actual.converged, actual.message
    assert_certified(A, b, k, actual)
    assert actual.gap <= max(1e-8 * actual.value, 1e-13 * np.abs(b).max())


def test_known_answers():
    angles = np.pi / 3 * np.arange(3)
    u = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    for unit in (1e-20, 1.0, 1e9):
        A, b = 2 * unit * u[:, :, None] * u[:, None, :], np.full(3, 2 * unit)
        actual = minimax_on_fantope(A, b, 1)
        assert actual.converged, actual.message
        assert actual.value == pytest.approx(unit, rel=1e-9, abs=0)
        np.testing.assert_allclose(actual.W, np.eye(2) / 2, atol=1e-8)
        np.testing.assert_allclose(actual.weights, 1 / 3, atol=1e-8)
    # Nothing to decide.
    actual = minimax_on_fantope(np.zeros((3, 4, 4)), np.zeros(3), 2)
    assert actual.converged
    assert actual.value == actual.bound == 0
    # The same with constants of any size.
    actual = minimax_on_fantope(np.zeros((2, 4, 4)), [1e-20, -1e-20], 2)
    assert actual.bound == pytest.approx(actual.value, rel=1e-8, abs=0)
    same = np.broadcast_to(np.diag([3.0, 2.0, 1.0]), (3, 3, 3))
    actual = minimax_on_fantope(same, [3.0, 3.0, 3.0], 1)
    assert actual.converged, actual.message
    assert actual.value == pytest.approx(0, abs=1e-13)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"max_iter": 3}, "raise max_iter"), ({"tol": 1e-17}, "raise tol")],
)
def test_says_why_it_stopped(options, message):
    A, b = random_problem(5, 4, 6, 2)
    actual = minimax_on_fantope(A, b, 2, **options)
    assert not actual.converged
    assert message in actual.message
    assert_certified(A, b, 2, actual)
    assert (actual.n_iter == 3) == ("max_iter" in options)
    assert (actual.gap < 1e-9 * actual.value) == ("tol" in options)


def test_refuses_what_is_no_problem():
    A, b = random_problem(0, 3, 4, 2)
    for k in (0, 4, 1.5):
        with pytest.raises(ValueError, match=rf"k={k} must be an integer from 1 to n"):
            minimax_on_fantope(A, b, k)
    with pytest.raises(ValueError, match=r"one number in b per matrix"):
        minimax_on_fantope(A, b[:2], 2)
    with pytest.raises(ValueError, match="G at least 1"):
        minimax_on_fantope(A[:0], b[:0], 2)
    for bad in (np.nan, np.inf, 1e160, 1e308):
        with pytest.raises(ValueError, match=r"finite .* in matrix 1 or its number"):
            minimax_on_fantope(A, [1, bad, 1], 2)
        with pytest.raises(ValueError, match=r"finite .* in matrix 1 or its number"):
            minimax_on_fantope(np.where([[[0]], [[1]], [[0]]], bad, A), b, 2)
