"""The tables of the paper are made without real data, and with small files like it."""

import numpy as np
import pytest


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
