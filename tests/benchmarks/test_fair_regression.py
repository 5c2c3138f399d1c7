"""The tables of fair regression are made, and judged as they say."""

import json
from functools import partial

import numpy as np
import pytest


@pytest.fixture
def modules(load_tables):
    return load_tables(script="fair_regression", methods="_fair_regression")


def test_quick_tables(modules, cells, tmp_path, capsys, monkeypatch):
    util = modules.script.importlib.util
    monkeypatch.setattr(util, "find_spec", lambda name: None)
    output = tmp_path / "tables.md"
    arguments = ["--data", "law", "--quick", "--repeats", "1", "--output", str(output)]
    assert modules.script.main(arguments) == 0
    text = output.read_text()
    assert "## Table 1: law school, the paper's table 1" in text
    first, by_covariance, by_mean, targets = text.split("## Table")[1:]

    records = json.loads(output.with_suffix(".json").read_text())
    runs = {(r["method"], r["setting"]): r for r in records}
    assert len(runs) == len(records)  # nothing is run twice
    for row in cells(first, "no", "Chzhen", "Xian", "explainable", "direct"):
        record = runs[row[0], row[1].replace("–", "")]
        found = [float(cell) for cell in row[2:4]]
        assert found == pytest.approx([record["mse"], record["ks"]], rel=6e-3)
    # The default is in the first table, in both others, and among the targets.
    default = cells(first, "direct")[0]
    assert default[1] == "last but one, 15/150, least squares refit"
    for table, c in ((by_covariance, "150"), (by_mean, "15")):
        row = next(row for row in cells(table, *map(str, range(10))) if row[0] == c)
        assert row[-2:] == default[2:4]
    row = next(row for row in cells(targets, "law") if row[1] == "direct")
    assert row[2:5] == default[1:4]
    assert "Skipped: figures: matplotlib is not installed." in text
    assert "law, split 0" in capsys.readouterr().err


def test_law_school_is_split_and_scaled_honestly(modules, write_data):
    columns = {
        "dnn_bar_pass_prediction": lambda i: i / 40,
        "lsat": lambda i: 11 + i,
        "pass_bar": lambda i: i % 2,
        "gender": lambda i: ("female", "male")[i // 2 % 2],
        "race1": lambda i: ("black", "white")[i % 2],
        "ugpa": lambda i: 2 + i / 40,
    }
    rows = [",".join(str(f(i)) for f in columns.values()) for i in range(40)]
    name = "lsac-bar-pass/bar_pass_prediction.csv"
    write_data(name, [",".join(columns), *rows])
    split = modules.methods.load("law", 0, modules.methods.QUICK, quick=False)
    parts = (split.train, split.validation, split.test)
    assert [part.y.size for part in parts] == [28, 6, 6]
    assert len(np.unique(np.concatenate([part.y for part in parts]))) == 40
    np.testing.assert_allclose(split.network[0].mean_, split.train.X.mean(axis=0))
    other = modules.methods.load("law", 1, modules.methods.QUICK, quick=False)
    assert not np.array_equal(other.train.y, split.train.y)


def test_choice_looks_at_validation_rows_only(modules):
    known = {"data": "law", "split": 0, "method": modules.methods.DIRECT}
    outcome = partial(modules.methods.Outcome, **known)
    options = [
        outcome(setting="a", mse=0.9, ks=0.9, validation_mse=0.2, validation_ks=0.1),
        outcome(setting="b", mse=0.1, ks=0.1, validation_mse=0.3, validation_ks=0.05),
        outcome(setting="c", mse=0.1, ks=0.1, validation_mse=0.1, validation_ks=0.15),
    ]
    best = modules.methods.chosen(options, 0.1)
    assert (best.mse, best.method) == (0.9, modules.methods.CHOSEN)
    assert modules.methods.chosen(options, 0.04).validation_ks == 0.05
    assert modules.methods.chosen(options, 0.2).validation_mse == 0.10
