"""Tables of clustering, components and uncertain groups; wrong answers are refused."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.decomposition import PCA


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


@pytest.fixture
def script(load_tables):
    return load_tables(script="fair_pca_table").script


def test_quick_table_of_all_methods(script, capsys, tmp_path):
    output = tmp_path / "table.md"
    arguments = ["--rows", "crop", "--repeats", "1", "--quick", "--published"]
    assert script.main([*arguments, "--output", str(output)]) == 0
    text = output.read_text()
    assert "## Table 10: crop, 300 x 12, r = 3" in text
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    table = {row[0][2:]: row for row in rows}
    expected = {"FairPCA", "SDR, T = 10", "u-FPCA", "c-FPCA", "PCA auto", "PCA full"}
    assert expected <= set(table)
    assert float(table["FairPCA"][3]) < 1e-8
    assert float(table["PCA auto"][3]) > 1
    assert float(table["PCA full"][4]) == pytest.approx(0, abs=1e-3)
    # Both ways to the same alpha.
    published, ours = table["u-FPCA from rows"][-1], table["u-FPCA"][-1]
    alphas = [float(remark.split()[1]) for remark in (published, ours)]
    assert alphas[0] == pytest.approx(alphas[1], abs=3e-6)
    assert float(text.splitlines()[-1].split(" | ")[2]) < 1e-8  # of the summary
    assert "crop, r = 3" in capsys.readouterr().err


def test_wrong_answers_are_refused(script):
    data = script.load("crop", quick=True)
    model = script.fair_pca(data, 3)
    *_, ratio = script.check(data, 3, model)
    assert ratio == pytest.approx(1, abs=1e-8)

    fair, weights = model.components_, model.dual_weights_
    for components, dual, message in (
        (PCA(3).fit(data.X).components_, weights, "loss_A / loss_B"),
        (fair, weights[::-1], "dual value"),
    ):
        wrong = SimpleNamespace(components_=components, dual_weights_=dual)
        with pytest.raises(script.WrongAnswerError, match=message):
            script.check(data, 3, wrong)


def made_up(tables, n=4000):
    rng = np.random.default_rng(0)
    groups = np.where(rng.random(n) < 0.3, "a", "b")
    X = rng.normal(size=(n, 4)) + (groups == "b")[:, None] * [0.7, 0.7, 0, 0]
    y = (X.sum(axis=1) + rng.normal(size=n) > 0.9).astype(int)
    return tables.Rows(X, y, groups)


def test_tables(load_tables, cells, monkeypatch, capsys):
    tables = load_tables(tables="uncertain_groups").tables
    monkeypatch.setattr(tables, "law", lambda n_rows=None: made_up(tables, n_rows))
    monkeypatch.setattr(tables, "KAPPA", 0.3)  # which takes few steps
    how = ["--quick", "--tables", "law,missing", "--splits", "1"]
    assert tables.main(how) == 0
    text = capsys.readouterr().out
    names = ("features, soft", "surname-like, soft", "both, soft")
    rows = cells(text, *names)
    assert len(rows) == 3
    for _, _, _, _, reported, *_ in rows:
        assert float(reported) <= 1.1 * tables.KAPPA
    assert len(cells(text, "at random", "by features")) == 10
