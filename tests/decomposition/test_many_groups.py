"""Fair PCA of many groups against brute force and other solvers."""

import csv
import os
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize

from scalefair.decomposition import _many_groups


def solve_groups(C, r, best=None, **options):
    best = best_sums(C, r) if best is None else best
    return _many_groups.solve_groups(C, r, best=best, **options)


def covariances(seed, G, n, m=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((G, m or 3 * n, n)) * np.sqrt(np.arange(n, 0, -1.0))
    return X.transpose(0, 2, 1) @ X / X.shape[1]


def best_sums(C, r):
    return np.linalg.eigvalsh(C)[:, C.shape[1] - r :].sum(axis=1)


def phi(C, r, weights):
    mu = np.linalg.eigvalsh(np.tensordot(weights, C, axes=1))
    return weights @ best_sums(C, r) - mu[..., C.shape[1] - r :].sum(axis=-1)


def three_lines(n):
    """Covariances 2 u u^T, the three u in a plane and 60 degrees apart."""
    angles = np.pi / 3 * np.arange(3)
    u = np.zeros((3, n))
    u[:, 0], u[:, 1] = np.cos(angles), np.sin(angles)
    return 2 * u[:, :, None] * u[:, None, :]


def assert_consistent(C, r, found):
    """The solution is what it says, and weak duality holds."""
    size = max(best_sums(C, r).max(), np.finfo(float).tiny)
    assert found.basis.shape == (C.shape[1], r)
    np.testing.assert_allclose(found.basis.T @ found.basis, np.eye(r), atol=1e-12)
    captured = np.einsum("ij,gik,kj->g", found.basis, C, found.basis)
    np.testing.assert_allclose(
        found.losses, best_sums(C, r) - captured, atol=1e-13 * size
    )
    assert found.weights.min() >= 0
    assert found.weights.sum() == pytest.approx(1, abs=1e-13)
    assert found.dual_value == pytest.approx(phi(C, r, found.weights), abs=1e-13 * size)
    assert found.gap >= -1e-13 * size


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 6), st.integers(1, 8))
def test_any_problem_is_certified(seed, G, n, m):
    r = 1 + seed % n
    C = covariances(seed, G, n, m)
    found = solve_groups(C, r)
    assert_consistent(C, r, found)
    assert found.converged
    rng = np.random.default_rng(seed)
    for weights in rng.dirichlet(np.ones(G), 20):
        assert phi(C, r, weights) <= found.dual_value + 1e-8 * found.losses.max() + (
            1e-13 * np.abs(C).max()
        )


@pytest.mark.parametrize(("n", "r"), [(4, 1), (5, 2), (6, 5)])
def test_three_groups_on_a_grid_of_weights(n, r):
    C = covariances(n, 3, n)
    found = solve_groups(C, r)
    steps = 60
    grid = max(
        phi(C, r, np.array([i, j, steps - i - j]) / steps)
        for i in range(steps + 1)
        for j in range(steps + 1 - i)
    )
    assert grid <= found.dual_value + 1e-12
    assert found.dual_value <= grid * 1.02


@pytest.mark.parametrize("seed", range(5))
def test_two_groups_by_root_finding(seed):
    C = covariances(seed, 2, 7)
    r = 3
    best = best_sums(C, r)

    def slope(t):
        _, U = np.linalg.eigh(t * C[0] + (1 - t) * C[1])
        captured = np.einsum("ij,gik,kj->g", U[:, 4:], C, U[:, 4:])
        return (best[0] - captured[0]) - (best[1] - captured[1])

    t = brentq(slope, 0, 1, xtol=1e-15, rtol=1e-14)
    found = solve_groups(C, r)
    assert found.weights[0] == pytest.approx(t, abs=1e-8)
    assert found.losses[0] == pytest.approx(found.losses[1], rel=1e-9)
    assert found.gap <= 1e-9 * found.losses.max()
    assert found.n_iter <= 12


@pytest.mark.parametrize("seed", [1, 4, 5])  # others have ties
def test_smooth_optimum_against_slsqp(seed):
    C = covariances(seed, 4, 8)
    r = 3
    best = best_sums(C, r)

    def negative(weights):
        _, U = np.linalg.eigh(np.tensordot(weights, C, axes=1))
        U = U[:, 5:]
        losses = best - np.einsum("ij,gik,kj->g", U, C, U)
        return -weights @ losses, -losses

    reference = minimize(
        negative,
        np.full(4, 0.25),
        jac=True,
        bounds=[(0, 1)] * 4,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    found = solve_groups(C, r)
    assert found.gap <= 1e-8 * found.losses.max()  # smooth
    assert found.dual_value == pytest.approx(-reference.fun, rel=1e-8)


@pytest.mark.parametrize("n", [2, 3, 6])
def test_three_lines_have_a_gap_in_any_dimension(n):
    C = three_lines(n)
    found = solve_groups(C, 1)
    assert_consistent(C, 1, found)
    assert found.converged
    assert found.dual_value == pytest.approx(1, abs=1e-9)
    np.testing.assert_allclose(found.weights, 1 / 3, atol=1e-7)
    assert found.losses.max() == pytest.approx(1.5, abs=1e-9)
    assert found.gap == pytest.approx(0.5, abs=1e-9)


def test_three_lines_by_brute_force():
    """Every line of the space, on a grid: the largest loss is at least 3/2."""
    phi, theta = np.meshgrid(np.linspace(0, np.pi, 361), np.linspace(0, np.pi, 181))
    u = np.stack(
        [np.cos(phi), np.sin(phi) * np.cos(theta), np.sin(phi) * np.sin(theta)]
    )
    captured = np.einsum("ipq,gij,jpq->gpq", u, three_lines(3), u)
    assert (2 - captured).max(axis=0).min() == pytest.approx(1.5, abs=1e-12)


def test_any_two_of_three_lines_have_no_gap():
    C = three_lines(3)
    for pair in ([0, 1], [0, 2], [1, 2]):
        found = solve_groups(C[pair], 1)
        assert found.gap <= 1e-9
        assert found.losses[0] == pytest.approx(found.losses[1])


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("G", [1, 3])
def test_all_components(G, n):
    C = covariances(0, G, n)
    found = solve_groups(C, n)
    assert_consistent(C, n, found)
    assert found.converged
    np.testing.assert_allclose(found.losses, 0, atol=1e-12)


def test_one_group_is_pca():
    C = covariances(0, 1, 6)
    found = solve_groups(C, 2)
    assert found.converged
    np.testing.assert_allclose(found.losses, 0, atol=1e-12)


@pytest.mark.parametrize("r", [1, 3])
def test_identical_groups(r):
    C = np.repeat(covariances(0, 1, 5), 4, axis=0)
    found = solve_groups(C, r)
    assert_consistent(C, r, found)
    assert found.converged
    np.testing.assert_allclose(found.losses, 0, atol=1e-12)


@pytest.mark.parametrize("r", [1, 3])
def test_one_constant_group(r):
    """It loses nothing, whatever the basis: its weight is zero."""
    C = covariances(0, 4, 5)
    C[2] = 0.0
    found = solve_groups(C, r)
    others = solve_groups(C[[0, 1, 3]], r)
    assert_consistent(C, r, found)
    assert found.converged
    assert found.losses[2] == 0
    assert found.weights[2] == pytest.approx(0, abs=1e-9)
    assert found.dual_value == pytest.approx(others.dual_value, rel=1e-8)


def test_constant_groups_only():
    found = solve_groups(np.zeros((3, 4, 4)), 2)
    assert found.converged
    np.testing.assert_array_equal(found.losses, 0)


def test_duplicated_groups():
    C = covariances(1, 3, 6)
    once, twice = solve_groups(C, 2), solve_groups(np.concatenate([C, C]), 2)
    assert twice.converged
    assert twice.dual_value == pytest.approx(once.dual_value, rel=1e-8)
    np.testing.assert_allclose(
        twice.weights[:3] + twice.weights[3:], once.weights, atol=1e-6
    )
    np.testing.assert_allclose(twice.losses[:3], once.losses, rtol=1e-7)


@pytest.mark.parametrize("kind", ["smooth", "tied"])
def test_permutation_and_unit(kind):
    C = {"smooth": covariances(2, 3, 6), "tied": three_lines(3)}[kind]
    found = solve_groups(C, 1)
    for order in permutations(range(3)):
        moved = solve_groups(C[list(order)], 1)
        assert moved.dual_value == pytest.approx(found.dual_value, rel=1e-8)
        assert moved.losses.max() == pytest.approx(found.losses.max(), rel=1e-7)
    for factor in (1e-8, 1e6):
        scaled = solve_groups(factor * C, 1)
        assert scaled.converged
        assert scaled.dual_value == pytest.approx(
            factor * found.dual_value, rel=1e-8, abs=0
        )
        assert scaled.losses.max() == pytest.approx(
            factor * found.losses.max(), rel=1e-7, abs=0
        )


@pytest.mark.parametrize("epsilon", [1e-2, 1e-5, 1e-8, 1e-11, 0.0])
def test_near_ties(epsilon):
    """Three lines pulled apart: the gap goes to 1/2, the dual is known throughout."""
    C = three_lines(3) + epsilon * covariances(3, 3, 3)
    found = solve_groups(C, 1)
    assert_consistent(C, 1, found)
    assert found.converged
    assert found.dual_value == pytest.approx(1, abs=10 * epsilon + 1e-8)
    assert found.losses.max() == pytest.approx(1.5, abs=10 * epsilon + 1e-8)


@pytest.mark.parametrize(("q", "k"), [(2, 1), (3, 1), (4, 2), (5, 3)])
def test_constructed_ties(q, k):
    """The weighted sum has a block of q equal eigenvalues, k of them wanted.

    Group g prefers its own directions of the block; a leading block that all share
    stays as it is.
    """
    rng = np.random.default_rng(q)
    n, G = q + 3, 4
    B = rng.standard_normal((G, q, q))
    B = B + B.transpose(0, 2, 1)
    B -= B.mean(axis=0)  # nothing is left of them at equal weights,
    B -= np.trace(B, axis1=1, axis2=2)[:, None, None] / q * np.eye(q)
    C = np.zeros((G, n, n))
    C[:, 0, 0] = C[:, 1, 1] = 30
    C[:, 2 : 2 + q, 2 : 2 + q] = B + 10 * np.eye(q)
    r = 2 + k
    # Bounds: with them equal weights and equal shares of the block are optimal.
    best = np.full(G, 60.0 + 10 * k + 1.0)
    found = solve_groups(C, r, best=best)
    assert found.converged
    assert found.dual_value == pytest.approx(1, abs=1e-8)
    assert found.gap >= -1e-12
    assert found.losses.max() < 1 + np.abs(B).max()


def test_bounds_instead_of_best_sums():
    C = covariances(0, 3, 5)
    best = best_sums(C, 2)
    found = solve_groups(C, 2, best=best + 1)
    assert found.dual_value == pytest.approx(solve_groups(C, 2).dual_value + 1)
    captured = np.einsum("ij,gik,kj->g", found.basis, C, found.basis)
    np.testing.assert_allclose(found.losses, best + 1 - captured)


def test_start_at_the_solution():
    C = covariances(4, 4, 8)
    found = solve_groups(C, 3)
    again = solve_groups(C, 3, weights0=found.weights)
    assert again.n_iter <= 2 < found.n_iter
    assert again.dual_value == pytest.approx(found.dual_value, rel=1e-10)


def test_says_so_when_steps_run_out():
    C = three_lines(3) + 1e-2 * covariances(3, 3, 3)
    found = solve_groups(C, 1, max_iter=1)
    assert not found.converged
    assert_consistent(C, 1, found)


def test_many_groups_with_ties():
    """Twenty groups, more than their losses can be leveled: a small gap."""
    C = covariances(5, 20, 6)
    found = solve_groups(C, 2)
    assert_consistent(C, 2, found)
    assert found.converged
    assert 1e-6 < found.gap < 0.5 * found.losses.max()


def _credit(k):
    """Covariances of the credit data as the reference table has them."""
    folder = os.environ.get("SCALEFAIR_DATA")
    if folder is None:
        pytest.skip("SCALEFAIR_DATA is not set")
    path = Path(folder) / "credit_default"
    table = np.loadtxt(path / "default_degree.csv", delimiter=",", skiprows=2)
    with open(path / "default_degree.csv") as lines:
        names = lines.readlines()[1].strip().split(",")[1:24]
    X = table[:, 1:24].copy()
    education = X[:, names.index("EDUCATION")].astype(int)
    sex = X[:, names.index("SEX")].astype(int)
    for name in ("EDUCATION", "SEX", "LIMIT_BAL", "MARRIAGE", "AGE"):
        X[:, names.index(name)] /= X[:, names.index(name)].std(ddof=1)
    for prefix in ("PAY_", "BILL_AMT", "PAY_AMT"):
        block = [
            j
            for j, name in enumerate(names)
            if name.startswith(prefix) and name[len(prefix) :].isdigit()
        ]
        X[:, block] /= X[:, block].ravel().std(ddof=1)
    level = np.select([education <= 2, education == 3], [0, 1], 2)
    groups = {3: level, 4: (level > 0) + 2 * sex, 6: level + 3 * sex}[k]
    C = []
    for g in np.unique(groups):
        own = X[groups == g] - X[groups == g].mean(axis=0)
        C.append(own.T @ own / len(own))
    return np.array(C), path


@pytest.mark.realdata
def test_reference_table_of_three_groups():
    C, path = _credit(3)
    with open(path / "sdp_reference" / "k3maxminloss.csv") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 22
    for row in rows:
        r = int(row["d"])
        found = solve_groups(C, r)
        assert found.converged
        assert found.dual_value == pytest.approx(-float(row["MM_loss"]), abs=1e-8)
        assert found.gap <= 1e-8 * found.dual_value
        reference = [-float(row[f"Loss{g}"]) for g in range(3)]
        np.testing.assert_allclose(found.losses, reference, atol=1e-5)


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("k", "r", "dual", "gap"),
    [(4, 8, 0.309989078250, 2.3015e-4), (6, 7, 0.685755351864, 7.207815e-3)],
)
def test_positive_gaps_of_the_credit_data(k, r, dual, gap):
    C, _ = _credit(k)
    found = solve_groups(C, r)
    assert found.converged
    assert found.dual_value == pytest.approx(dual, abs=1e-9)
    assert found.gap == pytest.approx(gap, rel=1e-4)


@pytest.mark.realdata
@pytest.mark.parametrize("k", [4, 6])
def test_no_other_gaps_of_the_credit_data(k):
    C, _ = _credit(k)
    for r in range(1, 24):
        if (k, r) in [(4, 8), (6, 7)]:
            continue
        found = solve_groups(C, r)
        assert found.converged
        assert found.gap <= max(1e-8 * found.dual_value, 1e-12)
