"""Polar factors; the dual solver itself is in test_solvers.py."""

import numpy as np
import pytest
from scipy.linalg import polar as scipy_polar

from scalefair.linalg._dual import inverse_root, polar


def block(singular_values, n=200, seed=0):
    rng = np.random.default_rng(seed)
    k = len(singular_values)
    U = np.linalg.qr(rng.standard_normal((n, k)))[0]
    V = np.linalg.qr(rng.standard_normal((k, k)))[0]
    return np.ascontiguousarray((U * singular_values) @ V.T)


def factor(Z):
    H = np.full_like(Z, np.nan)
    polar(Z, inverse_root(Z.T @ Z), H)
    return H


@pytest.mark.parametrize(
    "singular_values",
    [
        [3.0],
        [1.0, 1.0, 1.0],
        [5.0, 1.0, 0.3],
        [1e4, 1.0, 0.1],
        [1e-5, 1e-6, 1e-7],
        [1e7, 1e6, 1e5],
    ],
)
def test_against_scipy(singular_values):
    Z = block(np.array(singular_values))
    expected, _ = scipy_polar(Z)
    H = factor(Z)
    norm = inverse_root(Z.T @ Z).nuclear_norm
    assert norm == pytest.approx(sum(singular_values), rel=1e-6)
    np.testing.assert_allclose(H.T @ H, np.eye(len(singular_values)), atol=1e-11)
    np.testing.assert_allclose(H, expected, atol=1e-7)


def test_vanishing_directions_stay_short():
    Z = block(np.array([2.0, 1.0, 0.0]))
    H = factor(Z)
    assert np.isfinite(H).all()
    # On the rest it is an isometry.
    assert np.linalg.svd(H, compute_uv=False)[:2] == pytest.approx([1, 1])


def test_zero_block():
    np.testing.assert_array_equal(factor(np.zeros((10, 2))), 0)
    assert inverse_root(np.zeros((2, 2))).nuclear_norm == 0
