"""The joint numerical range against known sets, and its supporting lines."""

import numpy as np
import pytest

from scalefair.decomposition import joint_numerical_range


def random_symmetric(n, seed):
    S = np.random.default_rng(seed).standard_normal((n, n))
    return (S + S.T) / 2


@pytest.mark.parametrize(("factor", "scale"), [(1, 1e-100), (2, 1), (-0.5, 1e100)])
def test_a_multiple_has_a_segment(factor, scale):
    C = random_symmetric(6, 0)
    values = np.linalg.eigvalsh(C)
    low, high = values[:2].sum(), values[-2:].sum()
    boundary = joint_numerical_range(scale * C, scale * factor * C, 2, n_angles=36)
    a, b = boundary.points.T / scale
    np.testing.assert_allclose(b, factor * a, atol=1e-12)
    np.testing.assert_allclose([a.min(), a.max()], [low, high])
    # The directions across return both ends: counterclockwise, and back.
    angles = np.arctan2(1.0, -factor) + np.array([0, np.pi])
    boundary = joint_numerical_range(scale * C, scale * factor * C, 2, angles=angles)
    np.testing.assert_allclose(boundary.angles, np.repeat(angles, 2))
    np.testing.assert_allclose(boundary.support, 0, atol=1e-12 * scale)
    np.testing.assert_allclose(boundary.points[:, 0] / scale, [high, low, low, high])


@pytest.mark.parametrize(
    ("n", "r", "n_angles"), [(1, 1, 8), (2, 1, 8), (5, 5, 8), (6, 3, 45)]
)
def test_supporting_lines(n, r, n_angles):
    C_A, C_B = random_symmetric(n, n), random_symmetric(n, n + 1000)
    boundary = joint_numerical_range(C_A, C_B, r, n_angles=n_angles)
    angles = 2 * np.pi / n_angles * np.arange(n_angles)
    np.testing.assert_allclose(boundary.angles, angles)
    for angle, support, point in zip(
        boundary.angles, boundary.support, boundary.points, strict=True
    ):
        values, vectors = np.linalg.eigh(np.cos(angle) * C_A + np.sin(angle) * C_B)
        U = vectors[:, -r:]
        np.testing.assert_allclose(support, values[-r:].sum())
        attained = [np.trace(U.T @ C_A @ U), np.trace(U.T @ C_B @ U)]
        np.testing.assert_allclose(point, attained, atol=1e-10)
    edges = np.roll(boundary.points, -1, axis=0) - boundary.points
    following = np.roll(edges, -1, axis=0)
    turns = edges[:, 0] * following[:, 1] - edges[:, 1] * following[:, 0]
    assert turns.min() > -1e-12  # counterclockwise


@pytest.mark.parametrize("theta", [0.0, 2.5])
@pytest.mark.parametrize(
    ("before", "tied", "n_chosen"), [(0, 2, 1), (2, 3, 2), (1, 4, 2), (0, 8, 3)]
)
def test_a_tie_returns_both_ends_of_the_flat_piece(theta, before, tied, n_chosen):
    n, r = 8, before + n_chosen
    rng = np.random.default_rng(tied)
    values = np.concatenate(
        [3.0 + np.arange(before), np.full(tied, 2.0), -np.arange(n - before - tied)]
    )
    D = random_symmetric(n, tied)
    block = np.linalg.eigvalsh(D[before : before + tied, before : before + tied])
    fixed = np.trace(D[:before, :before])
    ends = fixed + np.array([block[:n_chosen].sum(), block[-n_chosen:].sum()])
    # cos * C_A + sin * C_B has the eigenvalues; D is the derivative by the angle.
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    B, D = (Q * values) @ Q.T, Q @ D @ Q.T
    c, s = np.cos(theta), np.sin(theta)
    boundary = joint_numerical_range(c * B - s * D, s * B + c * D, r, angles=[theta])
    support = values[:before].sum() + 2.0 * n_chosen
    np.testing.assert_allclose(boundary.support, [support] * 2)
    expected = support * np.array([[c, s]]) + ends[:, None] * np.array([[-s, c]])
    np.testing.assert_allclose(boundary.points, expected, atol=1e-11)


def test_what_is_one_point():
    # Equal eigenvalues without a flat piece, and a near-tie that is no tie.
    boundary = joint_numerical_range(
        np.diag([1.0, 1, 0]), np.diag([3.0, 3, 0]), 1, angles=[0.3]
    )
    np.testing.assert_allclose(boundary.points, [[1, 3]])
    C_A, C_B = np.diag([1.0 + 1e-9, 1.0, 0.0]), np.diag([0.0, 1.0, 0.0])
    boundary = joint_numerical_range(C_A, C_B, 1, angles=[0.0])
    np.testing.assert_allclose(boundary.points, [[1 + 1e-9, 0]], rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"C_A": np.ones((2, 3))}, "C_A must be square"),
        ({"C_A": np.triu(np.ones((3, 3)))}, "C_A must be symmetric"),
        ({"C_B": np.diag([1.0, np.nan, 0.0])}, "C_B contains NaN"),
        ({"C_A": np.diag([1.0, 1e160, 0.0])}, "C_A has entries as large as"),
        ({"C_B": np.eye(4)}, "same shape"),
        ({"r": 4}, "between 1 and the order 3"),
        ({"r": 1.5}, "r must be an integer"),
        ({"n_angles": 2}, "n_angles must be"),
        ({"angles": []}, "angles must be one-dimensional and not empty"),
        ({"angles": [0.0, np.nan]}, "angles must be finite"),
        ({"angles": [1.0, 0.5]}, "increasing"),
    ],
)
def test_bad_input(change, message):
    arguments = {"C_A": np.eye(3), "C_B": np.eye(3), "r": 1} | change
    with pytest.raises(ValueError, match=message):
        joint_numerical_range(**arguments)
