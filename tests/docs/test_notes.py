"""What the notes prove, checked by searches that use none of it."""

import itertools
import math
import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, milp

from scalefair.cluster import fair_assignment

NOTES = Path(__file__).parents[2] / "docs" / "notes"

# -- Partial parity is isotonic regression ------------------------------------------


@pytest.mark.filterwarnings("ignore:.*non-interactive:UserWarning")
def test_the_numbers_of_the_note_on_parity(capsys):
    pytest.importorskip("matplotlib").use("agg")
    runpy.run_path(str(NOTES / "parity_isotonic.py"), run_name="__main__")
    pytest.importorskip("matplotlib.pyplot").close("all")  # other tests count figures
    printed = capsys.readouterr().out
    note = (NOTES / "parity_isotonic.md").read_text(encoding="utf-8")
    for number in ("7,616", "0.520", "0.8200", "0.100", "0.7800"):
        assert number in printed
        assert number in note


# -- Fair assignment by values of rows ----------------------------------------------


def parts_of(n, k, least):
    """All ways to write n as a sum of k whole numbers, none below `least`."""
    parts = itertools.product(range(least, n + 1), repeat=k)
    return [part for part in parts if sum(part) == n]


def has_counts(members, sizes):
    """Whether counts within one person of all shares exist."""
    low, remainders = np.divmod(np.outer(members, sizes), sum(members))
    ups = np.array([*itertools.product((0, 1), repeat=low.size)])
    counts = low + ups.reshape(-1, *low.shape) * (remainders > 0)
    fits = (counts.sum(axis=2) == members).all(axis=1)
    return (fits & (counts.sum(axis=1) == sizes).all(axis=1)).any()


def test_one_person_is_always_enough():
    for n, h, k in itertools.product(range(2, 8), (2, 3), (2, 3)):
        for members in parts_of(n, h, 1):
            for sizes in parts_of(n, k, 0):
                assert has_counts(members, sizes)


def fair_costs(costs, groups, tolerance):
    """Cost of all fair labels, the least for each choice of sizes."""
    n, k = costs.shape
    members, best = np.bincount(groups), {}
    for labels in itertools.product(range(k), repeat=n):
        counts = np.zeros((len(members), k), int)
        np.add.at(counts, (groups, labels), 1)
        sizes = counts.sum(axis=0)
        shares = np.outer(members, sizes) / n
        low = np.floor((1 - tolerance) * shares + 1e-9)
        high = np.ceil((1 + tolerance) * shares - 1e-9)
        if sizes.all() and (low <= counts).all() and (counts <= high).all():
            cost = costs[np.arange(n), labels].sum()
            best[tuple(sizes)] = min(cost, best.get(tuple(sizes), np.inf))
    return best


def flow_cost(costs, groups, tolerance, sizes):
    """Least cost of the linear program of the network for fixed sizes."""
    (n, k), members = costs.shape, np.bincount(groups)
    is_member = groups == np.arange(len(members))[:, None]
    shares = np.outer(members, sizes).ravel() / n
    low = np.floor((1 - tolerance) * shares + 1e-9)
    high = np.ceil((1 + tolerance) * shares - 1e-9)
    constraints = [
        LinearConstraint(np.kron(np.eye(n), np.ones(k)), 1, 1),
        LinearConstraint(np.kron(np.ones(n), np.eye(k)), sizes, sizes),
        LinearConstraint(np.kron(is_member, np.eye(k)), low, high),
    ]
    return milp(costs.ravel(), constraints=constraints).fun


@pytest.mark.parametrize("seed", range(4))
def test_bound_and_flow(seed):
    rng = np.random.default_rng(seed)
    n, h, tolerance = 6, 2 + seed % 2, [0.0, 0.1, 0.3][seed % 3]
    groups = np.append(np.arange(h), rng.integers(0, h, n - h))
    X, centers = rng.normal(size=(n, 2)), rng.normal(size=(3, 2))
    X[groups == 0] += 1.5
    costs = ((X[:, None] - centers) ** 2).sum(axis=2)
    best = fair_costs(costs, groups, tolerance)
    for sizes, cost in best.items():
        assert flow_cost(costs, groups, tolerance, sizes) == pytest.approx(cost)
    result = fair_assignment(X, centers, sensitive_features=groups, tolerance=tolerance)
    assert result.max_violation == 0
    assert result.lower_bound <= min(best.values()) + 1e-12
    assert result.cost == pytest.approx(min(best.values()))


# -- When a fair embedding is worth it ----------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_unit_rows_and_their_means(seed):
    rng = np.random.default_rng(seed)
    groups = np.repeat([0, 1, 2], [5, 8, 12])
    rows = rng.normal(size=(25, 3))
    for s in range(3):
        rows[groups == s] += 0.4 - rows[groups == s].mean(axis=0)
    factors = 1 / np.linalg.norm(rows, axis=1)
    for s in range(3):
        members, f = rows[groups == s], factors[groups == s]
        covariance = (f - f.mean()) @ (members - members.mean(axis=0)) / len(f)
        mean = (f[:, None] * members).mean(axis=0)
        np.testing.assert_allclose(mean, f.mean() * rows.mean(axis=0) + covariance)


@pytest.mark.parametrize("seed", range(10))
def test_dimensions_that_groups_occupy(seed):
    rng = np.random.default_rng(seed)
    n, h, k = 12, 3, 4
    W = rng.random((n, n)) ** 4
    W += W.T
    root = np.sqrt(W.sum(axis=1))
    M = W / np.outer(root, root)
    G = np.eye(h)[np.append(np.arange(h), rng.integers(0, h, n - h))]
    F = (G - G.mean(axis=0)) / root[:, None]
    Q = np.linalg.svd(F, full_matrices=False)[0][:, : h - 1]
    values, vectors = np.linalg.eigh(M)
    v = ((Q.T @ vectors[:, -k:]) ** 2).sum()
    assert 0 <= v <= min(h - 1, k - 1)
    basis = np.linalg.svd(Q)[0][:, h - 1 :]
    fair = np.linalg.eigvalsh(basis.T @ M @ basis)[::-1][:k]
    values = values[::-1]
    assert fair[0] == pytest.approx(values[0])
    assert (fair <= values[:k] + 1e-12).all()
    assert (fair >= values[h - 1 : h - 1 + k] - 1e-12).all()


@pytest.mark.parametrize(("b", "v"), [(0.03, 0), (0.041, 0), (0.043, 3), (0.06, 3)])
def test_threshold_of_the_block_model(b, v):
    k, h, c, d = 5, 4, 0.05, 0.01
    a = b + c
    J, K = np.ones((k, k)), np.ones((h, h))
    S, T = np.eye(k), np.eye(h)
    blocks = a * np.kron(S, T) + b * np.kron(J - S, T)
    blocks += c * np.kron(S, K - T) + d * np.kron(J - S, K - T)
    vectors = np.linalg.eigh(blocks)[1][:, -k:]
    spread_of_groups = np.kron(np.ones(k), T - K / h) / math.sqrt(k)
    assert ((spread_of_groups @ vectors) ** 2).sum() == pytest.approx(v, abs=1e-9)
    assert (k * (b - d) > h * (c - d)) == (v > 0)
