"""The tables of the paper are made without real data, and with small files like it."""

import numpy as np
import pytest
from scipy import sparse

from scalefair.metrics import normalized_cut_score


@pytest.fixture
def modules(load_tables):
    return load_tables(
        script="fair_clustering",
        methods="_clustering_methods",
        problems="_clustering_problems",
        tables="_clustering_tables",
    )


@pytest.fixture
def small_files(write_data):
    """Data with the names and formats of the real ones, 150 rows each."""
    rng = np.random.default_rng(0)
    n = 150
    features = (",".join(f"{x:.3f}" for x in row) for row in rng.random((n, 21)))
    lines = [f"{row},{i % 3 + 1}," for i, row in enumerate(features)]
    write_data("thyroid/ann-train.data", lines[:100])
    write_data("thyroid/ann-test.data", lines[100:])
    points = rng.normal(size=(n, 8)) + 4 * rng.integers(3, size=(n, 1))
    people = [
        f"{x:.2f}, {i}, level {i % 4}, state {i % 7}, <=50K"
        for i, x in enumerate(points[:, 0])
    ]
    header = "age,final-weight,education,marital-status,income"
    write_data("census-adult/adult.csv.gz", [header, *people, ""])
    rows = [",".join(f"{x:.4f}" for x in row) for row in points]
    rows = [f"{i % 4},{row}" for i, row in enumerate(rows)]
    write_data("4area/4area.csv.gz", ["color,1,2,3,4,5,6,7,8", *rows])
    users = [f"{i},{i % 3}" for i in range(n + 2)]  # two isolated ones
    write_data("lastfm-asia/lastfm_clean_countries.csv", users)
    block = np.arange(n) % 5
    likely = np.where(block[:, None] == block, 0.3, 0.02)
    joined = np.triu(rng.random((n, n)) < likely, 1)
    joined[np.arange(n - 1), np.arange(1, n)] = True
    edges = [f"{i},{j}" for i, j in np.argwhere(joined)]
    write_data("lastfm-asia/lastfm_clean_edges.csv", edges)


def test_tables_of_real_data(modules, small_files):
    session = modules.tables.Session(quick=True, n_runs=1)
    table = modules.tables.table_2(session)
    assert not any("Skipped" in note for note in table.notes)
    assert "nan" not in table.markdown()
    rows = [f"{name}, 150" for name in ("LastFM", "Thyroid", "Census", "4area")]
    assert list(dict.fromkeys(row[0] for row in table.rows)) == rows
    costs = [row[2:] for row in table.rows if row[1] == "relaxed cost"]
    for o_fsc, s_fsc, _, _, _, auto, dual in costs:
        exact = [float(cost) for cost in (o_fsc, s_fsc, auto, dual)]
        np.testing.assert_allclose(exact, exact[0], rtol=1e-3)
    printed = [row[3] for row in table.rows if row[1] == "seconds"]
    assert printed[0].startswith("19.08 / ")
    assert session.problems["LastFM"].n == 150


def make(modules, kind):
    problem = modules.problems.block_model(240, 4, 2, (1.0, 0.3, 0.6, 0.1))
    if kind == "dense":
        return problem
    Problem = modules.problems.Problem
    if kind == "sparse":
        return Problem("sparse", problem.groups, sparse.csr_array(problem.affinity))
    points = np.random.default_rng(0).normal(size=(240, 2)) + 3 * np.column_stack(
        [problem.target % 2, problem.target // 2]
    )
    return Problem("kernel", problem.groups, points=points, gamma=0.5, tol=1e-6)


def dense_affinity(problem):
    W = problem.stored()
    return W.toarray() if sparse.issparse(W) else W


def reference_trace(problem, k):
    W = dense_affinity(problem)
    scale = 1 / np.sqrt(W.sum(axis=1))
    G = np.eye(problem.groups.max() + 1)[problem.groups]
    F = (G - G.mean(axis=0)) * scale[:, None]
    U, s, _ = np.linalg.svd(F, full_matrices=True)
    Z = U[:, int((s > 1e-10).sum()) :]
    M = scale[:, None] * W * scale
    return np.linalg.eigvalsh(Z.T @ M @ Z)[-k:].sum()


@pytest.mark.parametrize("kind", ["sparse", "dense", "kernel"])
def test_methods_agree_on_trace_and_cost(modules, kind):
    """One trace and one fair embedding, ADMM another; SciPy alone is the judge."""
    problem = make(modules, kind)
    W, trace = dense_affinity(problem), reference_trace(problem, 4)
    bound = modules.tables.least_cut(problem, 4)
    for method in modules.methods.METHODS:
        run = modules.methods.run(problem, method, 4, 0)
        assert run.orthogonality < 1e-20
        cut = normalized_cut_score(W, run.labels)
        assert bound <= run.cost == pytest.approx(cut, rel=1e-10)
        if method == "ADMM":
            assert run.fairness > 1e-12
            continue
        assert run.trace == pytest.approx(trace, abs=1e-6)
        assert run.fairness < (1e-8 if method == "s-FSC" else 1e-25)
        assert run.converged
    scale = 1 / np.sqrt(W.sum(axis=1))
    values = np.linalg.eigvalsh(scale[:, None] * W * scale)
    exact = values if kind == "kernel" else values[-4:]
    assert bound == pytest.approx(4 - exact.sum(), abs=1e-6)
