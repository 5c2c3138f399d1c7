"""The last layer fitted again, from moments."""

import numpy as np
import pytest
from scipy.optimize import minimize

from scalefair.metrics import moment_gaps
from scalefair.postprocessing._model_change import (
    _cross_validated_ridge,
    refit_last_layer,
)
from scalefair.streaming import GroupMoments


def table(m=400, n=5, k=1, n_groups=2, seed=0):
    """Inputs of a last layer, targets, groups and the moments of all that."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(n_groups, size=m)
    codes[:n_groups] = np.arange(n_groups)
    A = rng.standard_normal((m, n)) @ rng.standard_normal((n, n)) + 2.0
    A[:, 0] *= 1 + codes
    A[:, 1] += 1.5 * codes
    y = A @ rng.standard_normal((n, k)) + rng.standard_normal((m, k)) - 3.0
    moments = GroupMoments.from_data(np.hstack([A, y]), codes)
    return A, y, codes, moments, rng.standard_normal((k, n))


def refit(moments, weight, kind="least_squares", reductions=(1.0, 1.0)):
    return refit_last_layer(moments, weight, kind, reductions, noise_floor=False)


def ridge_of(A):
    """One per cent of the mean eigenvalue of the centred second moment."""
    return 0.01 * ((A - A.mean(axis=0)) ** 2).sum() / A.shape[1]


def loss_of(W, A, y, old):
    """Squared error with the best bias, and the ridge towards the old weight."""
    residual = (y - y.mean(axis=0)) - (A - A.mean(axis=0)) @ W.T
    return (residual**2).sum() + ridge_of(A) * ((W - old) ** 2).sum()


@pytest.mark.parametrize(("n_groups", "k"), [(2, 1), (4, 3)])
def test_least_squares_against_stacked_rows(n_groups, k):
    A, y, codes, moments, old = table(k=k, n_groups=n_groups)
    result = refit(moments, old)
    # Rows for the ridge below the centred rows: an ordinary least-squares problem.
    root = np.sqrt(ridge_of(A))
    rows = np.vstack([A - A.mean(axis=0), root * np.eye(5)])
    targets = np.vstack([y - y.mean(axis=0), root * old.T])
    expected = np.linalg.lstsq(rows, targets, rcond=None)[0].T
    np.testing.assert_allclose(result.weight, expected, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(
        result.bias, y.mean(axis=0) - expected @ A.mean(axis=0), rtol=1e-9, atol=1e-9
    )
    for weight, gaps in ((old, result.gaps_before), (result.weight, result.gaps_after)):
        expected = moment_gaps(A @ weight.T, sensitive_features=codes)
        np.testing.assert_allclose(gaps, expected)


@pytest.mark.parametrize("m", [100, 600])
def test_gradient_against_a_loop_of_steps(m):
    A, y, _, moments, old = table(m=m, k=2)
    centred, targets = A - A.mean(axis=0), y - y.mean(axis=0)
    S = centred.T @ centred
    length = 1 / np.linalg.eigvalsh(S)[-1]
    W = old
    for _ in range(50 * max(1, m // 256)):
        W = W - length * (W @ S - targets.T @ centred)
    result = refit(moments, old, "gradient")
    np.testing.assert_allclose(result.weight, W, rtol=1e-8, atol=1e-10)
    bias = y.mean(axis=0) - W @ A.mean(axis=0)
    np.testing.assert_allclose(result.bias, bias, rtol=1e-8)


@pytest.mark.parametrize("seed", range(2))
def test_no_weight_within_the_bounds_fits_better(seed):
    """Against a general constrained optimiser, from many starts."""
    A, y, _, moments, old = table(n=3, seed=seed)
    free = refit(moments, old)
    reductions = (4.0, 9.0)
    result = refit(moments, old, reductions=reductions)
    bounds = np.square(free.gaps_after) / reductions
    d = np.diff(moments.means[:, :3], axis=0)[0]
    covariances = moments.scatters[:, :3, :3] / moments.counts[:, None, None]
    M = covariances[1] - covariances[0]
    scale = loss_of(free.weight, A, y, old)
    rng = np.random.default_rng(seed)
    best = np.inf
    for start in [result.weight[0], *rng.standard_normal((8, 3))]:
        other = minimize(
            lambda w: loss_of(w[None], A, y, old) / scale,
            start,
            method="SLSQP",
            constraints=[
                {"type": "ineq", "fun": lambda w: 1 - (w @ d) ** 2 / bounds[0]},
                {"type": "ineq", "fun": lambda w: 1 - (w @ M @ w) ** 2 / bounds[1]},
            ],
            options={"maxiter": 300, "ftol": 1e-12},
        )
        if other.success:
            best = min(best, other.fun)
    assert loss_of(result.weight, A, y, old) <= best * scale * (1 + 1e-3)


@pytest.mark.parametrize("kind", ["least_squares", "gradient"])
def test_inputs_that_vary_little_or_not_at_all(kind):
    """What they tell of the targets is rounding: the old weight stays."""
    A, y, codes, _, old = table()
    A = np.hstack([A, A[:, :2], np.ones((len(A), 1))])
    old = np.hstack([old, np.full((1, 3), 0.5)])
    moments = GroupMoments.from_data(np.hstack([A, y]), codes)
    result = refit(moments, old, kind, (15.0, 150.0))
    assert np.isfinite(result.weight).all()
    assert result.weight[0, -1] == pytest.approx(0.5, abs=1e-3)
    residual = y - A @ result.weight.T - result.bias
    assert abs(residual.mean()) < 1e-10
    A = 0.1 + 2e-17 * np.random.default_rng(0).integers(2, size=(400, 3))
    moments = GroupMoments.from_data(np.hstack([A, y]), codes)
    old = np.array([[1.0, 2.0, 3.0]])
    result = refit(moments, old, kind, (15.0, 150.0))
    np.testing.assert_allclose(result.weight, old, rtol=1e-6)
    assert (A @ result.weight.T + result.bias).mean() == pytest.approx(y.mean())


def hat_errors(A, y, old, ridges):
    """Generalised cross-validation by the matrix that maps residuals to the fit."""
    A, residual = A - A.mean(axis=0), y - y.mean(axis=0) - (A - A.mean(axis=0)) @ old.T
    errors = []
    for ridge in ridges:
        hat = A @ np.linalg.solve(A.T @ A + ridge * np.eye(A.shape[1]), A.T)
        residuals = residual - hat @ residual
        errors.append((residuals**2).sum() / (len(A) - 1 - np.trace(hat)) ** 2)
    return np.array(errors)


@pytest.mark.parametrize(("distance", "k"), [(0.0, 1), (0.03, 3), (1.0, 1)])
def test_ridge_by_generalised_cross_validation(distance, k):
    """The ridge of the least error on a grid, from the rows; the old weight is near."""
    A, _, _, _, old = table(m=80, k=k)
    rng = np.random.default_rng(5)
    y = A @ (old + distance * rng.standard_normal(old.shape)).T
    y += rng.standard_normal(y.shape)
    moments = GroupMoments.from_data(np.hstack([A, y]), np.arange(80) % 2)
    mean = ((A - A.mean(axis=0)) ** 2).sum() / 5
    ridges = mean * np.geomspace(1e-2, 1e6, 81)
    ridge = ridges[np.argmin(hat_errors(A, y, old, ridges))]
    centred, S = A - A.mean(axis=0), np.cov(A.T) * 79
    cross = centred.T @ (y - y.mean(axis=0)) + ridge * old.T
    expected = np.linalg.solve(S + ridge * np.eye(5), cross).T
    np.testing.assert_allclose(refit(moments, old, "ridge").weight, expected, rtol=1e-6)
    if distance == 1.0:  # no ridge is below that of least squares
        plain = refit(moments, old, "least_squares").weight
        np.testing.assert_allclose(expected, plain, rtol=1e-6)


@pytest.mark.parametrize("n_rows", [200.0, 10.0, 1.0])
def test_the_ridge_of_nothing_to_gain_is_large(n_rows):
    """Also of 64 inputs and weighted rows that are effectively fewer."""
    values = np.full(64, 10.0)
    assert _cross_validated_ridge(values, 0 * values, 1.0, n_rows) == 1e7
