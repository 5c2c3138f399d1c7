"""Rows in groups and the certificate of a fit, by definition."""

import numpy as np
import pytest

from ..conftest import dense_covariances


def best_sums(C, r):
    """Sums of the r largest eigenvalues."""
    return np.linalg.eigvalsh(C)[:, C.shape[1] - r :].sum(axis=1)


def certify(pca, X, A):
    """Losses are as told; the dual proves that no basis has a smaller largest one."""
    U, C = pca.components_, dense_covariances(X, A, pca.centering)
    w, told, errors = (
        np.hstack(getattr(pca, name))
        for name in ("dual_weights_", "group_losses_", "group_reconstruction_errors_")
    )
    best = best_sums(C, len(U))
    losses = best - np.trace(U @ C @ U.T, axis1=1, axis2=2)
    dual = w @ best - best_sums(np.tensordot([w], C, axes=1), len(U))[0]
    np.testing.assert_allclose(told, losses, atol=1e-9 * best.max())
    np.testing.assert_allclose(errors, np.trace(C, axis1=1, axis2=2) - best + losses)
    assert w.min() >= 0
    assert w.sum() == pytest.approx(1)
    assert losses.max() == pytest.approx(dual, rel=1e-7)
    assert pca.converged_
    return losses


def rows(m=300, n=6, n_groups=2, seed=0):
    """Rows whose groups have covariances of their own, and means of their own."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_groups, m)
    codes[:n_groups] = np.arange(n_groups)
    X = np.empty((m, n))
    for g in range(n_groups):
        mixing = rng.standard_normal((n, n)) * 0.7 ** np.arange(n)[:, None]
        size = int((codes == g).sum())
        X[codes == g] = rng.standard_normal((size, n)) @ mixing + g
    return X, codes


def projector(model):
    """P, or P* of the semidefinite method: components may be turned, or signed."""
    return model.components_.T @ model.components_


def assert_same(model, expected, rtol=1e-8):
    losses, others = (np.hstack(m.group_losses_) for m in (model, expected))
    np.testing.assert_allclose(losses, others, rtol=rtol, atol=1e-12)
    # The eigenvectors err by the square root of what the losses do.
    np.testing.assert_allclose(projector(model), projector(expected), atol=1e-6)
    np.testing.assert_allclose(model.mean_, expected.mean_, atol=1e-12)
