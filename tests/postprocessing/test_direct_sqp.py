"""Smallest change for two groups: proofs against points, and against penalties."""

import numpy as np
import pytest

from scalefair.postprocessing import _direct
from scalefair.postprocessing._direct import direct_weights
from scalefair.postprocessing._direct_sqp import Change, _Level, dual, nearest
from scalefair.postprocessing._layer_moments import LayerMoments
from scalefair.streaming import GroupMoments


def problem(seed, m=5, r=8, strictness=10.0, mean=True, kind=""):
    """V_0, d and u of a problem in units in which both bounds are one."""
    rng = np.random.default_rng(seed)
    V0, d, u = rng.normal(size=(m, r)), rng.normal(size=r), rng.normal(size=r)
    if kind == "rank one":
        V0 = np.outer(rng.normal(size=m), rng.normal(size=r))
    elif kind == "ties":
        d, V0[1] = np.sign(d), V0[0]
    elif kind == "singular":
        d[: r // 2] = 0.0
        V0[-1] = 0.0
    elif kind == "one sign":
        d = np.abs(d)
    elif kind == "cancels":  # rows with no form of their own
        d, V0 = np.array([1.0, -1.0]), np.array([[3.0, 3.0], [1.0, -1.0]])
        return V0, d, 5.0 * np.ones(2)
    d *= strictness / np.linalg.norm((V0 * d) @ V0.T)
    return V0, d, mean * u * strictness / np.linalg.norm(V0 @ u)


def gaps(V, d, u):
    return np.linalg.norm((V * d) @ V.T), np.linalg.norm(V @ u)


@pytest.mark.parametrize(
    "kind", ["", "rank one", "ties", "singular", "one sign", "cancels"]
)
@pytest.mark.parametrize("strictness", [1.1, 10.0, 1e3])
@pytest.mark.parametrize("mean", [True, False])
def test_within_the_bounds_and_above_what_is_proved(kind, strictness, mean):
    for seed in range(3):
        V0, d, u = problem(seed, strictness=strictness, mean=mean, kind=kind)
        found = nearest(V0, d, u, 1e-3)
        assert found.least >= 0
        if found.V is None:
            continue
        assert max(gaps(found.V, d, u)) <= 1 + 1e-9
        assert found.square == pytest.approx(np.sum((found.V - V0) ** 2))
        assert found.least <= found.square * (1 + 1e-12)
        again = nearest(V0, d, u, 1e-3)
        np.testing.assert_array_equal(found.V, again.V)


@pytest.mark.parametrize("seed", range(4))
def test_dual_bounds_every_point(seed):
    V0, d, u = problem(seed, m=3, r=4)
    rng = np.random.default_rng(seed)
    b, basis = np.linalg.eigh(np.cov(rng.normal(size=(3, 9))))
    b = np.array([-1.0, 0.5, 1.0]) * b * 3 / np.abs(d).max()
    R = basis.T @ V0
    least, V, a, b = dual(R, d, u, b)
    # The point is the minimum over V, and a the best.
    residual = V + b[:, None] * V * d + a * np.outer(V @ u, u) - R
    np.testing.assert_allclose(residual, 0, atol=1e-10 * np.abs(R).max())
    assert a > 0
    assert np.linalg.norm(V @ u) == pytest.approx(1)
    for _ in range(200):
        point = R * rng.uniform(0, 1) + rng.normal(size=R.shape)
        point /= max(1.0, gaps(point, d, u)[0] ** 0.5, gaps(point, d, u)[1])
        assert least <= np.sum((point - R) ** 2)


def test_few_rows_prove_what_holds_for_all():
    """Most rows hardly count: the levels before all rows are enough."""
    rng = np.random.default_rng(0)
    V0 = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 70))
    V0 += 1e-3 * rng.normal(size=(60, 70))
    d, u = rng.normal(size=70), rng.normal(size=70)
    d *= 5 / np.linalg.norm((V0 * d) @ V0.T)
    u *= 3 / np.linalg.norm(V0 @ u)
    found = nearest(V0, d, u, 1e-3)
    assert found.proved(1e-3)
    assert max(gaps(found.V, d, u)) <= 1 + 1e-9


def test_most_small_problems_are_proved():
    # Seen: 11 and 12; with a wrong step 1 to 6, or 2 to 10. Processors may differ.
    for strictness, least in ((1.1, 10), (3.0, 11)):
        problems = [problem(seed, strictness=strictness) for seed in range(12)]
        proved = [nearest(*given, 1e-3).proved(1e-3) for given in problems]
        assert sum(proved) >= least


def test_further_rows_solve_the_condition():
    R, d, u = problem(0, m=9, r=12)
    level = _Level(R[:4], d, u, None)
    level.solve(1e-3)
    V = level.extended(R)
    B, inside = np.linalg.norm(level.b), V[:4] * d
    sides = V[4:] + B * (V[4:] * d) @ V[:4].T @ inside
    sides += level.a * np.outer(V[4:] @ u, u)
    np.testing.assert_allclose(sides, R[4:], atol=1e-10 * np.abs(R).max())


def layer(seed, n, m):
    rng = np.random.default_rng(seed)
    codes = np.arange(100) % 2
    X = rng.normal(size=(100, n)) @ rng.normal(size=(n, n))
    X = np.maximum(X * (1 + 0.7 * codes[:, None] * rng.random(n)), -0.5)
    X += codes[:, None] * rng.normal(size=n)
    return LayerMoments(GroupMoments.from_data(X, codes)), rng.normal(size=(m, n))


@pytest.mark.parametrize("reductions", [(15, 150), (1.5, 1e4), (np.inf, 50), (1, 4)])
@pytest.mark.parametrize("seed", range(3))
def test_never_worse_than_penalties(seed, reductions, monkeypatch):
    moments, weight = layer(seed, 6 + seed, 2 + 2 * seed)
    mean, covariance = moments.gaps(weight)
    bounds = {
        "mean_bound": np.inf if reductions[0] == 1 else mean**2 / reductions[0],
        "covariance_bound": covariance**2 / reductions[1],
    }
    given = (
        weight,
        *moments.whitening(weight),
        moments.differences,
        moments.covariance_differences,
    )
    found = direct_weights(*given, **bounds)
    monkeypatch.setattr(_direct, "nearest", lambda *args: Change())
    other = direct_weights(*given, **bounds)
    assert found.converged
    assert other.converged
    after = np.square(moments.gaps(found.weight))
    assert after[1] <= bounds["covariance_bound"] * (1 + 1e-9)
    assert after[0] <= bounds["mean_bound"] * (1 + 1e-9) + 1e-18
    changes = [moments.output_change(weight, one.weight) for one in (found, other)]
    assert changes[0] <= changes[1] * 1.001
