"""`scalefair describe`: how files are understood, and what could take them."""

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


def described(components, path, *options, code=0):
    """Run with a report; return it, what was printed, and what was said."""
    options += ("--report", components.report)
    result = components.invoke("describe", path, *options)
    assert result.exit_code == code, result.output
    report = components.read_report()
    columns = {column.pop("column"): column for column in report["columns"]}
    lines = {line["command"]: line["line"] for line in report["commands"]}
    return report, columns, lines, result


def test_columns(components):
    lines = LINES.copy()
    lines[3] = lines[3].replace("cook", "?").replace("nurse", "?")
    path = components.write("people.csv", [line.replace(".", ",") for line in lines])
    report, columns, commands, result = described(components, path)
    expected = {"n_rows": 40, "n_columns": 6, "header": True}
    expected |= {"delimiter": ";", "decimal": ","}
    assert expected.items() <= report["input"].items()
    types = ["words", "numbers", "words", "words", "words", "whole numbers"]
    assert [column["type"] for column in columns.values()] == types
    assert columns["id"]["role"] == "id"
    assert columns["note"]["role"] == "id or text"
    assert "groups" in columns["sex"]["role"]
    assert "target" in columns["hired"]["role"]
    assert columns["job"]["missing"] == 1
    assert columns["job"]["distinct"] == 2
    assert columns["height"]["values"] == "1 to 1.39"
    for fragments in ("whole numbers", "decimal", *commands.values()):
        assert fragments in result.stdout
    assert "decimal commas were assumed" in result.stderr
    assert components.invoke("describe", path, "--quiet").stdout == ""


def test_lines_are_such_that_they_run(components):
    """For a column of text, a missing value and a blank in a name as well."""
    lines = [line.replace("note", "my note") for line in LINES]
    lines[3] = lines[3].replace(";1.02;", ";;")
    path = components.write("our people.csv", lines)
    report, _, commands, _ = described(components, path)
    features = {c["command"]: c.get("features") for c in report["commands"]}
    assert features["classify"] == 3  # height, cook, nurse
    typed = shlex.split(commands["classify"])
    assert typed[3:7] == ["--target", "hired", "--groups", "sex"]
    output = components.folder / "model.joblib"
    options = ["--max-iter", 2, "--tol", 0.5, "--surrogate-width", 1, "-o", output]
    options.append("--no-baseline")
    result = components.invoke(*typed[1:], *options)
    assert result.exit_code in (0, 3), result.output
    typed = shlex.split(commands["pca"])
    assert typed[typed.index("-r") + 1] == "2"
    result = components.invoke(*typed[1:], "-o", components.output, "-r", 1)
    assert result.exit_code == 0, result.output


def test_ten_rows_have_fewer_neighbours(components):
    rows = [f"{i}.5,1" for i in range(11)]
    for n_rows, is_few in ((10, True), (11, False)):
        path = components.write("few.csv", ["x,y", *rows[:n_rows]])
        commands = described(components, path)[2]
        assert ("--n-neighbors 9 " in commands["cluster"]) == is_few


def test_given_roles(components):
    path = components.write("people.csv", LINES)
    roles = ("--target", "sex", "--groups", "job")
    _, columns, commands, _ = described(components, path, *roles)
    assert (columns["sex"]["role"], columns["job"]["role"]) == ("target", "groups")
    assert "--target sex --groups job" in commands["classify"]
    result = components.invoke("describe", path, "--target", "pay")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "pay: neither a column of" in result.stderr


@pytest.mark.parametrize("cell", ["abc", "1_000", "0x1F"])
def test_a_bad_cell_is_told_and_the_rest_goes_on(components, cell):
    lines = LINES.copy()
    lines[5] = lines[5].replace("1.04", cell)
    path = components.write("people.csv", lines)
    _, columns, commands, result = described(components, path)
    assert result.stderr.startswith(f"warning: {path}:6: column 2 (height) is '{cell}'")
    assert columns["height"]["role"] == "to be corrected"
    assert columns["sex"]["distinct"] == 2
    assert "--drop height" in commands["classify"]


def test_types_and_roles(components):
    rows = [f"{i},x,,{i % 2 == 0},{i * 0.5},{i % 7}" for i in range(60)]
    path = components.write("some.csv", ["number,same,none,truth,half,code", *rows])
    _, columns, commands, _ = described(components, path)
    assert {name: column["role"].split(",")[0] for name, column in columns.items()} == {
        **{"number": "id", "same": "constant", "none": "empty"},
        **{"truth": "feature", "half": "feature", "code": "feature"},
    }
    assert columns["truth"]["type"] == "true/false"
    assert "or groups?" in columns["code"]["role"]
    assert columns["half"]["role"] == "feature"
    assert "--drop none" in commands["classify"]
    path = components.write("words.csv", ["job,sex", *["cook,f", "nurse,m"] * 4])
    _, _, commands, _ = described(components, path)
    assert "pca" not in commands  # it takes numbers only


def test_tables_without_a_header_and_of_parquet(components):
    path = components.write("bare.csv", LINES[1:])
    options = ("--delimiter", ";", "--no-header")
    report, columns, _, _ = described(components, path, *options)
    assert list(columns) == ["1", "2", "3", "4", "5", "6"]
    assert report["input"]["header"] is False
    report, columns, _, _ = described(components, components.stored("parquet")[0])
    assert report["input"]["format"] == "parquet"
    assert columns["sex"]["distinct"] == 2


def test_large_tables_are_looked_at_in_part(components, monkeypatch):
    monkeypatch.setattr("scalefair._memory.available_memory", lambda: 100)
    monkeypatch.setattr("scalefair.cli._describe.MAX_DESCRIBED_ROWS", 50)
    report, _, _, result = described(components, components.csv)
    read = report["input"]
    assert (read["n_rows"], read["looked_at"]) == (50, "the first 50 rows")
    assert "the first 50 rows were looked at" in result.stderr


def test_arrays(components):
    report, columns, commands, _ = described(components, components.npy)
    assert (report["input"]["format"], len(columns)) == ("npy", 5)
    assert "--groups groups.csv" in commands["pca"]
    report, _, commands, _ = described(components, components.npz)
    read = report["input"]
    assert (read["format"], read["n_rows"], read["n_columns"]) == ("npz", 120, 5)
    assert read["stored_values"] == np.count_nonzero(components.X)
    path = components.folder / "rows.svm"
    dump_svmlight_file(components.X, np.arange(120) % 2, str(path), zero_based=False)
    report, columns, commands, _ = described(components, path)
    assert (report["input"]["n_columns"], columns["label"]["distinct"]) == (5, 2)
    assert "--target" not in commands["classify"]
    assert "--drop" not in commands["pca"]


@pytest.mark.parametrize("name", ["npz", "mtx", "edges", "words"])
def test_graphs(components, workspace, name):
    path = getattr(workspace, name, None)
    if name == "words":
        pairs = ["ann bob", "bob ann", "ann cid", "ann dan", "fay eve"]
        path = components.write("friends.txt", pairs)
    report, _, commands, _ = described(components, path)
    n, n_edges = (6, 4) if name == "words" else (90, len(workspace.pairs))
    read = report["input"]
    assert (read["nodes"], read["edges"]) == (n, n_edges)
    assert read["components_of_the_graph"] == (2 if name == "words" else 1)
    components = "--components largest " if name == "words" else ""
    line = f"scalefair cluster {path} {components}--groups groups.csv"
    assert list(commands) == ["cluster"]
    assert commands["cluster"].startswith(line)


def test_a_name_of_an_end_may_have_a_comma(components):
    path = components.write("ties.csv", ['"a, b",c', "ann,bob", "bob,ann", "ann,cid"])
    report, columns, _, _ = described(components, path)
    assert report["input"]["edges_from"] == ["a, b", "c"]
    assert columns["a, b"]["role"] == "source"


def test_edges_with_times(components):
    lines = ["1,2,1082040961", "2,3,1082155839", "3,1,1082414391", "3,4,1082414392"]
    path = components.write("sent.csv", lines)
    report, _, commands, _ = described(components, path)
    assert "--no-weights" in report["input"]["no_weights"]
    assert "--no-weights" in commands["cluster"]


NODES = list("abcdef")
GROUPS = ["id,group", *(f"{node},{'xy'[i % 2]}" for i, node in enumerate(NODES))]
PAIRS = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f"), ("a", "d")]
WIDE = {
    "weight": (["--weight-column", "weight"], "source,target,kind,weight", "{},{},x,2"),
    "index": (["--weight-column", "weight"], ",source,target,on,weight", "0,{},{},7,2"),
    "none": (["--no-weights"], "source,target,kind,on", "{},{},x,7"),
    "narrow": ([], ",source,target,weight", "0,{},{},2"),
    "twice": (["--directed"], "source,target,weight", "{0},{1},2\n{1},{0},3"),
}


@pytest.mark.parametrize("kind", [*WIDE, "matrix", "numbers"])
def test_lines_for_graphs_run(components, kind):
    """Lists with further columns, and the matrix that NetworkX writes with names."""
    options, nodes, groups = [], NODES, GROUPS
    if kind in ("matrix", "numbers"):
        edges = {*PAIRS, *(pair[::-1] for pair in PAIRS)}
        rows = [",".join(str(float((a, b) in edges)) for b in NODES) for a in NODES]
        lines = [",".join(["", *NODES])]
        lines += [f"{node},{row}" for node, row in zip(NODES, rows, strict=True)]
        if kind == "numbers":
            lines, nodes, groups = rows, [*"012345"], [*"xyxyxy"]
    else:
        options, header, line = WIDE[kind]
        lines = [header, *(line.format(*pair) for pair in PAIRS)]
    path = components.write("graph.csv", lines)
    report, _, commands, _ = described(components, path)
    assert (report["input"]["nodes"], report["input"]["edges"]) == (6, 6)
    assert list(commands) == ["cluster"]
    typed = shlex.split(commands["cluster"])[1:]
    assert set(options) <= set(typed)
    typed[typed.index("groups.csv")] = components.write("groups.csv", groups)
    typed[typed.index("-k") + 1] = 2
    labels = components.folder / "labels.csv"
    result = components.invoke(*typed[: typed.index("-o")], "-o", labels)
    assert result.exit_code in (0, 3), result.output
    assert sorted(line[0] for line in labels.read_text().splitlines()[1:]) == nodes


def test_a_matrix_of_named_nodes_is_no_table_of_rows(components):
    lines = [",a,b,c", "a,0,1,1", "b,1,0,1", "c,1,1,0"]
    path = components.write("graph.csv", lines)
    options = ("--groups", "x.csv", "-r", 1, "-o", components.output)
    result = components.invoke("pca", path, *options)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "first column is its header once more, as of a graph" in result.stderr


def test_files_that_cannot_be_read(components):
    damaged = components.folder / "damaged.npz"
    damaged.write_bytes(components.npz.read_bytes()[:100])
    # Numbers, but no rows of them, and no graph.
    wide = ["%%MatrixMarket matrix coordinate real general", "3 4 1", "1 2 0.5"]
    files = {"empty.csv": [], "twice.csv": ["a,a", "1,2"], "no.mtx": ["text"]}
    files["wide.mtx"] = wide
    paths = ["no.csv", damaged, *(components.write(*file) for file in files.items())]
    one = np.ones((2, 2, 2))
    for X in (np.array(1.0), one, one[0] * 1j, one[0].astype("S")):
        paths.append(components.folder / f"{X.ndim}{X.dtype}.npy")
        np.save(paths[-1], X)
    for path in paths:
        result = components.invoke("describe", path)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"error: {path}:")
