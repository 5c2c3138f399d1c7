"""The figure of partially fair classification is made, and judged as it says."""

import numpy as np
import pytest
from scipy import stats


@pytest.fixture
def modules(load_tables):
    return load_tables(
        script="partial_fairness",
        methods="_partial_fairness",
        tables="_partial_fairness_tables",
    )


def point(modules, setting, fairness, accuracy, validation=None):
    test = (accuracy, fairness)
    return modules.methods.Point(setting, validation or test, test)


def front(modules, method, split, *points):
    return modules.tables.Front("law", "strong", method, split, list(points), 1.0)


def test_quick_figure(modules, cells, tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(modules.methods.importlib.util, "find_spec", lambda name: None)
    output, plots = tmp_path / "figure.md", tmp_path / "plots"
    arguments = ["--data", "law", "--quick", "--splits", "1", "--ssg"]
    arguments += ["--output", str(output), "--plots", str(plots)]
    assert modules.script.main(arguments) == 0
    text = output.read_text()
    assert "## Table 1: law school, strong criterion, test rows" in text
    assert "## Table 2: law school, weak criterion, test rows" in text
    assert "Not run: fairlearn's reductions, not installed." in text
    first = text.split("## Table 2")[0]
    for method in modules.methods.methods(ssg=True):
        assert cells(first, method), method
    ours = {row[1]: row for row in cells(first, "ours")}
    plain = cells(first, "logistic regression")[0]
    fairness = [float(row[3].split()[0]) for row in (ours["fairest"], plain)]
    assert fairness[0] > fairness[1] + 0.1
    assert sorted(path.name for path in plots.iterdir()) == [
        "partial_fairness_law_strong.png",
        "partial_fairness_law_weak.png",
    ]
    assert "law, split 0, weak, ours" in capsys.readouterr().err


def test_splits(modules):
    """Disjoint, of the paper's shares, scaled by the training rows only."""
    split = modules.methods.load("law", 0, quick=True)
    sizes = [part.y.size for part in (split.train, split.validation, split.test)]
    assert sizes == [675, 225, 300]
    np.testing.assert_allclose(split.train.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(split.train.X.std(axis=0), 1)
    assert np.abs(split.test.X.mean(axis=0)).max() > 1e-3
    rows = np.vstack([split.train.X, split.validation.X, split.test.X])
    assert len(np.unique(rows, axis=0)) == 1200
    other = modules.methods.load("law", 1, quick=True)
    assert not np.array_equal(other.train.y, split.train.y)
    tests = [modules.methods.load("a9a", seed, quick=True).test for seed in (0, 1)]
    np.testing.assert_array_equal(tests[0].y, tests[1].y)


def test_selection_looks_at_validation_rows_only(modules):
    floors = [point(modules, "0.1", 0.2, 0.5, (0.8, 0.9))]
    pool = [
        *floors,
        point(modules, "a", 0.1, 0.1, (0.85, 0.91)),
        point(modules, "b", 0.9, 0.9, (0.70, 0.95)),
        point(modules, "c", 0.9, 0.9, (0.95, 0.89)),
    ]
    chosen = modules.methods.select(floors, pool)
    assert [p.setting for p in chosen] == ["0.1", "fairest"]
    assert [p.test for p in chosen] == [(0.1, 0.1), (0.9, 0.9)]
    assert [p.validation for p in chosen] == [(0.85, 0.91), (0.70, 0.95)]


def test_confidence_interval(modules):
    values = [0.1, 0.2, 0.4, 0.1]
    low, high = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    mean, half = modules.tables.interval(values)
    assert (mean - half, mean + half) == pytest.approx((low, high))


def test_claim_is_paired_over_the_splits(modules):
    fronts = []
    for split, level in enumerate((0.5, 0.7)):
        fair, loose = (0.9, level), (0.1, level + 0.1)
        fronts += [
            front(modules, "ours", split, point(modules, "0.1", *fair)),
            front(modules, "logistic regression", split, point(modules, "", *loose)),
            front(
                modules,
                "worse",
                split,
                point(modules, "1", 0.5, level + 0.04),
                point(modules, "2", 0.95, level - 0.1),
            ),
        ]
    table, summary = modules.tables.claim(fronts)
    rows = {row[3]: row for row in table.rows if row[2] == "worse"}
    assert rows["1"][5:] == ["0.0100 ± 0.0000", "2 of 2", "holds"]
    assert rows["2"][6:] == ["0 of 2", "fairer than ours"]
    assert rows["2"][5].startswith("0.1000 ± 0.0000, fairness -0.0500")
    tally = {row[2]: row[3:] for row in summary.rows}
    assert tally["worse"] == ["1", "0", "0", "1"]
