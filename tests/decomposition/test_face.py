"""Subspaces from relaxed optima."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalefair.decomposition._many_groups import (
    basis_from_fantope,
    extreme_point,
    local_minimax,
)
from scalefair.optimize import minimax_on_fantope


def symmetric(rng, *shape):
    A = rng.standard_normal(shape)
    return A + np.swapaxes(A, -1, -2)


def fantope_point(rng, n, k):
    """Interior point of the Fantope."""
    w = np.full(n, k / n)
    d = rng.uniform(-1, 1, n)
    d -= d.mean()
    w += 0.9 * d * min(k / n, 1 - k / n) / np.abs(d).max()
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    return (Q * w) @ Q.T


def losses_of(A, b, U):
    return b - np.einsum("ij,gik,kj->g", U, A, U)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(2, 7))
def test_extreme_point_keeps_the_largest_loss(seed, G, n):
    rng = np.random.default_rng(seed)
    k = 1 + seed % (n - 1)
    A, W = symmetric(rng, G, n, n), fantope_point(rng, n, k)
    b = rng.standard_normal(G)
    before = b - np.einsum("gij,ij->g", A, W)
    E = extreme_point(A, b, W)
    w = np.linalg.eigvalsh(E)
    after = b - np.einsum("gij,ij->g", A, E)
    assert after.max() == pytest.approx(before.max(), abs=1e-9)
    assert np.trace(E) == pytest.approx(k, abs=1e-10)
    assert w.min() >= -1e-10
    assert w.max() <= 1 + 1e-10
    q = (np.minimum(w, 1 - w) > 1e-6).sum()
    assert q * (q + 1) / 2 <= G + 1


@pytest.mark.parametrize(("n", "k"), [(3, 1), (4, 2), (7, 3)])
def test_two_groups_reach_a_projector(n, k):
    """In a tied eigenspace, where a weighted sum is a multiple of the identity."""
    A = symmetric(np.random.default_rng(n), 2, n, n)
    A[0] = 2 * np.eye(n) - A[1]
    W = np.eye(n) * (k / n)
    b = np.einsum("gij,ij->g", A, W)  # the losses are zero
    E = extreme_point(A, b, W)
    w = np.linalg.eigvalsh(E)
    np.testing.assert_allclose(w, np.arange(n) >= n - k, atol=1e-6)
    np.testing.assert_allclose(np.einsum("gij,ij->g", A, E), b, atol=1e-6)


def test_a_projector_is_extreme():
    U = np.linalg.qr(np.random.default_rng(1).standard_normal((5, 2)))[0]
    A = symmetric(np.random.default_rng(2), 3, 5, 5)
    np.testing.assert_allclose(extreme_point(A, np.ones(3), U @ U.T), U @ U.T)


@pytest.mark.parametrize("n", [2, 3])
def test_local_search_against_every_line(n):
    """Lines in the plane and in space, on a fine grid."""
    rng = np.random.default_rng(n)
    X = rng.standard_normal((3, 5, n))
    A = X.transpose(0, 2, 1) @ X
    b = np.linalg.eigvalsh(A)[:, -1]
    phi, theta = np.meshgrid(
        np.linspace(0, np.pi, 721), np.linspace(0, np.pi, 361 if n == 3 else 1)
    )
    u = np.stack(
        [np.cos(phi), np.sin(phi) * np.cos(theta), np.sin(phi) * np.sin(theta)]
    )
    u = u[:n].reshape(n, -1)
    grid = (b[:, None] - np.einsum("ip,gij,jp->gp", u, A, u)).max(axis=0).min()
    found = min(
        losses_of(
            A,
            b,
            local_minimax(A, b, U, np.full(3, 1 / 3), atol=1e-13, max_iter=200),
        ).max()
        for U in (np.eye(n)[:, [i]] for i in range(n))
    )
    assert grid - 1e-2 * b.max() <= found <= grid + 1e-12


@pytest.mark.parametrize("seed", range(6))
def test_local_search_never_goes_up_and_levels_the_active_losses(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((4, 20, 8))
    A = X.transpose(0, 2, 1) @ X / 20
    b = np.linalg.eigvalsh(A)[:, 5:].sum(axis=1)
    U = np.linalg.qr(rng.standard_normal((8, 3)))[0]
    last = losses_of(A, b, U).max()
    for max_iter in (1, 2, 3, 4, 5, 7, 9, 12, 300):
        V = local_minimax(A, b, U, np.full(4, 0.25), atol=1e-14, max_iter=max_iter)
        np.testing.assert_allclose(V.T @ V, np.eye(3), atol=1e-13)
        value = losses_of(A, b, V).max()
        assert value <= last + 1e-14
        last = value
    losses = np.sort(losses_of(A, b, V))
    assert losses[-1] == pytest.approx(losses[-2], rel=1e-8)


def test_two_groups_within_their_tied_block():
    """No search is needed: the extreme point is the projector with equal losses."""
    rng = np.random.default_rng(3)
    B = symmetric(rng, 3, 3)
    B -= np.eye(3) * np.trace(B) / 3
    C = np.zeros((2, 5, 5))
    C[:, 0, 0] = 30.0
    C[0, 1:4, 1:4], C[1, 1:4, 1:4] = 10 * np.eye(3) + B, 10 * np.eye(3) - B
    W = np.diag([1, 1 / 3, 1 / 3, 1 / 3, 0])  # both losses are 1
    best = np.array([41.0, 41.0])
    basis = basis_from_fantope(
        C, best, W, np.full(2, 0.5), 2, np.inf, atol=0.0, max_iter=0
    )
    np.testing.assert_allclose(losses_of(C, best, basis), 1, atol=1e-5)


@pytest.mark.parametrize("seed", range(10))
def test_more_starts_find_nothing_worse(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((5, 12, 6))
    C = X.transpose(0, 2, 1) @ X
    best = np.linalg.eigvalsh(C)[:, 5:].sum(axis=1)
    relaxed = minimax_on_fantope(C, best, 1)
    first, last = (
        basis_from_fantope(C, best, relaxed.W, relaxed.weights, 1, gap, atol=1e-13)
        for gap in (np.inf, -np.inf)
    )
    after, before = (losses_of(C, best, U).max() for U in (last, first))
    assert after <= before * (1 + 1e-14)
    assert after >= relaxed.bound - 1e-12


def test_basis_of_a_projector_with_nothing_to_gain():
    U = np.linalg.qr(np.random.default_rng(1).standard_normal((5, 2)))[0]
    C = np.stack([U @ np.diag([3.0, 2.0]) @ U.T] * 2)
    best = np.array([5.0, 5.0])
    basis = basis_from_fantope(C, best, U @ U.T, np.full(2, 0.5), 2, 1e-12, atol=1e-14)
    np.testing.assert_allclose(basis @ basis.T, U @ U.T, atol=1e-12)


def test_all_zero():
    basis = basis_from_fantope(
        np.zeros((3, 4, 4)),
        np.zeros(3),
        np.eye(4) / 2,
        np.full(3, 1 / 3),
        2,
        0.0,
        atol=1e-14,
    )
    np.testing.assert_allclose(basis.T @ basis, np.eye(2), atol=1e-14)
