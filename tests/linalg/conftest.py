"""How the results of the eigen-solvers are checked."""

import numpy as np


def check_pairs(result, dense, k, tol, *, epsilon=1e-12, by_modulus=False):
    """Compare a result with NumPy and measure its residuals independently.

    `epsilon` is the departure from orthonormality that is allowed, `tol` is
    relative to the spectral norm, as in the solvers.
    """
    values, vectors = np.linalg.eigh(dense)
    size = np.abs if by_modulus else np.asarray
    order = np.argsort(-size(values), kind="stable")
    values, vectors = values[order], vectors[:, order]
    norm = np.abs(values).max()
    assert result.converged, result.message
    assert result.values.shape == result.residual_norms.shape == (k,)
    assert result.vectors.shape == (len(dense), k)
    assert result.vectors.flags.c_contiguous
    assert result.values.dtype == result.vectors.dtype == np.float64
    assert (np.diff(size(result.values)) <= 0).all()
    # Residuals bound errors of eigenvalues; comparison with the largest ones
    # makes sure that none was missed.
    slack = tol * norm * (1 + 1e-6) + 1e-13 * norm
    np.testing.assert_allclose(size(result.values), size(values[:k]), 0, slack)
    gram = result.vectors.T @ result.vectors
    np.testing.assert_allclose(gram, np.eye(k), atol=epsilon)
    residuals = dense @ result.vectors - result.vectors * result.values
    residuals = np.linalg.norm(residuals, axis=0)
    assert residuals.max() <= slack + epsilon * norm
    np.testing.assert_allclose(
        result.residual_norms, residuals, rtol=1e-2, atol=1e-14 * norm + epsilon * norm
    )
    # The largest entry of each vector is positive.
    i = np.abs(result.vectors).argmax(axis=0)
    assert (result.vectors[i, np.arange(k)] > 0).all()
    # Davis-Kahan: the subspace is right where there is a gap behind it.
    gap = size(values[k - 1]) - size(values[k]) if k < len(values) else 0.0
    if gap > 20 * slack:
        outside = vectors[:, k:].T @ result.vectors
        bound = np.sqrt(k) * (slack + epsilon * norm) / (gap - slack)
        assert np.linalg.norm(outside, 2) <= bound + 1e-12
