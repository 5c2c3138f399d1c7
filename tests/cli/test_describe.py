"""`scalefair describe`: how files are understood, and what could take them."""

import json
import shlex

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

LINES = [
    "id;height;job;sex;note;hired",
    *(
        f"p{i};{1 + i / 100:.2f};{'cook' if i % 3 else 'nurse'};{'fm'[i % 2]};"
        f"text {i};{i % 4 // 3}"
        for i in range(40)
    ),
]


def described(runs, path, *options, code=0):
    """Run with a report; return it, what was printed, and what was said."""
    result = runs.invoke("describe", path, "--report", runs.report, *options)
    assert result.exit_code == code, result.output
    report = json.loads(runs.report.read_text())
    columns = {column.pop("column"): column for column in report["columns"]}
    lines = {line["command"]: line["line"] for line in report["commands"]}
    return report, columns, lines, result


@pytest.fixture
def runs(components):
    return components


def test_columns(runs):
    lines = LINES.copy()
    lines[3] = lines[3].replace("cook", "?").replace("nurse", "?")
    path = runs.write("people.csv", [line.replace(".", ",") for line in lines])
    report, columns, commands, result = described(runs, path)
    read = report["input"]
    assert (read["n_rows"], read["n_columns"]) == (40, 6)
    assert (read["header"], read["delimiter"], read["decimal"]) == (True, ";", ",")
    assert [column["type"] for column in columns.values()] == [
        *("words", "numbers", "words", "words", "words", "whole numbers"),
    ]
    assert columns["id"]["role"] == "id"
    assert columns["note"]["role"] == "id or text"
    assert "groups" in columns["sex"]["role"]
    assert "target" in columns["hired"]["role"]
    assert columns["job"]["missing"] == 1
    assert columns["job"]["distinct"] == 2
    assert columns["height"]["values"] == "1 to 1.39"
    for words in ("whole numbers", "decimal", *commands.values()):
        assert words in result.stdout
    assert "decimal commas were assumed" in result.stderr
    assert runs.invoke("describe", path, "--quiet").stdout == ""


def test_lines_are_such_that_they_run(runs):
    """For a column of text, a missing value and a blank in a name as well."""
    lines = [line.replace("note", "my note") for line in LINES]
    lines[3] = lines[3].replace(";1.02;", ";;")
    path = runs.write("our people.csv", lines)
    report, _, commands, _ = described(runs, path)
    features = {c["command"]: c.get("features") for c in report["commands"]}
    assert features["classify"] == 3  # height, cook, nurse
    typed = shlex.split(commands["classify"])
    assert typed[3:7] == ["--target", "hired", "--groups", "sex"]
    output = runs.folder / "model.joblib"
    options = ["--max-iter", 2, "--tol", 0.5, "-o", output, "--no-baseline"]
    result = runs.invoke(*typed[1:], *options)
    assert result.exit_code in (0, 3), result.output
    typed = shlex.split(commands["pca"])
    assert typed[typed.index("-r") + 1] == "2"
    result = runs.invoke(*typed[1:], "-o", runs.output, "-r", 1)
    assert result.exit_code == 0, result.output


def test_given_roles(runs):
    path = runs.write("people.csv", LINES)
    _, columns, commands, _ = described(
        runs, path, "--target", "sex", "--groups", "job"
    )
    assert (columns["sex"]["role"], columns["job"]["role"]) == ("target", "groups")
    assert "--target sex --groups job" in commands["classify"]
    result = runs.invoke("describe", path, "--target", "pay")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "'pay'" in result.stderr


@pytest.mark.parametrize("cell", ["abc", "1_000", "0x1F"])
def test_a_bad_cell_is_told_and_the_rest_goes_on(runs, cell):
    lines = LINES.copy()
    lines[5] = lines[5].replace("1.04", cell)
    path = runs.write("people.csv", lines)
    _, columns, commands, result = described(runs, path)
    assert result.stderr.startswith(f"warning: {path}:6: column 2 (height) is '{cell}'")
    assert columns["height"]["role"] == "to be corrected"
    assert columns["sex"]["distinct"] == 2
    assert "--drop height" in commands["classify"]


def test_types_and_roles(runs):
    rows = [f"{i},x,,{i % 2 == 0},{i * 0.5},{i % 7}" for i in range(60)]
    path = runs.write("some.csv", ["number,same,none,truth,half,code", *rows])
    _, columns, commands, _ = described(runs, path)
    assert {name: column["role"].split(",")[0] for name, column in columns.items()} == {
        **{"number": "feature", "same": "constant", "none": "empty"},
        **{"truth": "feature", "half": "feature", "code": "feature"},
    }
    assert columns["truth"]["type"] == "true/false"
    assert "or id?" in columns["number"]["role"]
    assert "or groups?" in columns["code"]["role"]
    assert columns["half"]["role"] == "feature"
    assert "--drop none" in commands["classify"]
    path = runs.write("words.csv", ["job,sex", *["cook,f", "nurse,m"] * 4])
    _, _, commands, _ = described(runs, path)
    assert "pca" not in commands  # it takes numbers only


def test_tables_without_a_header_and_of_parquet(runs):
    path = runs.write("bare.csv", LINES[1:])
    report, columns, _, _ = described(runs, path, "--delimiter", ";", "--no-header")
    assert list(columns) == ["1", "2", "3", "4", "5", "6"]
    assert report["input"]["header"] is False
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(runs.csv)
    frame.to_parquet(runs.folder / "rows.parquet")
    report, columns, _, _ = described(runs, runs.folder / "rows.parquet")
    assert report["input"]["format"] == "parquet"
    assert columns["sex"]["distinct"] == 2


def test_large_tables_are_looked_at_in_part(runs, monkeypatch):
    monkeypatch.setattr("scalefair._memory.available_memory", lambda: 100)
    monkeypatch.setattr("scalefair.cli._use._MOST", 50)
    report, _, _, result = described(runs, runs.csv)
    assert report["input"]["n_rows"] == 50
    assert "the first 50 rows were looked at" in result.stderr


def test_arrays(runs):
    report, columns, commands, _ = described(runs, runs.npy)
    assert (report["input"]["format"], len(columns)) == ("npy", 5)
    assert "--groups groups.csv" in commands["pca"]
    report, _, commands, _ = described(runs, runs.npz)
    read = report["input"]
    assert (read["format"], read["n_rows"], read["n_columns"]) == ("npz", 120, 5)
    assert read["stored_values"] == np.count_nonzero(runs.X)
    path = runs.folder / "rows.svm"
    dump_svmlight_file(runs.X, np.arange(120) % 2, str(path), zero_based=False)
    report, columns, commands, _ = described(runs, path)
    assert (report["input"]["n_columns"], columns["label"]["distinct"]) == (5, 2)
    assert "--target" not in commands["classify"]


@pytest.mark.parametrize("name", ["npz", "mtx", "edges", "words"])
def test_graphs(runs, workspace, name):
    path = getattr(workspace, name, None)
    if name == "words":
        path = runs.write(
            "friends.txt", ["ann bob", "bob ann", "ann cid", "ann dan", "fay eve"]
        )
    report, _, commands, _ = described(runs, path)
    n, n_edges = (6, 4) if name == "words" else (90, len(workspace.pairs))
    read = report["input"]
    assert (read["nodes"], read["edges"]) == (n, n_edges)
    assert read["components_of_the_graph"] == (2 if name == "words" else 1)
    assert commands["cluster"].startswith(f"scalefair cluster {path} --groups")


def test_files_that_cannot_be_read(runs):
    for path in (
        "no.csv",
        runs.write("empty.csv", []),
        runs.write("twice.csv", ["a,a", "1,2"]),
    ):
        result = runs.invoke("describe", path)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"error: {path}:")
    damaged = runs.folder / "damaged.npz"
    damaged.write_bytes(runs.npz.read_bytes()[:100])
    assert runs.invoke("describe", damaged).exit_code == 1
    assert runs.invoke("describe", runs.write("no.mtx", ["text"])).exit_code == 1
