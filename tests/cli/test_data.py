import csv
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import sparse
from sklearn.utils import Bunch

from scalefair import datasets
from scalefair.cli import main

EDGES = ["0,1", "1,2"]
GROUPS = ["5,0", "6,3", "7,0"]


def invoke(*arguments):
    return CliRunner().invoke(main, ["data", *map(str, arguments)])


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Folder with a data set of three nodes; the tests run in a folder beside it."""
    folder = tmp_path / "home" / "lastfm-asia"
    folder.mkdir(parents=True)
    for name, lines in (("edges", EDGES), ("countries", GROUPS)):
        (folder / f"lastfm_clean_{name}.csv").write_text("\n".join(lines) + "\n")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return folder.parent


@pytest.fixture
def made(monkeypatch):
    """Return a function that puts a data set in the place of law-school."""

    def make(**entries):
        bunch = Bunch(DESCR="What it is.\n", source="there", licence="none", **entries)
        monkeypatch.setattr(datasets, "fetch_law_school", lambda **_: bunch)

    return make


def read_table(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_the_list_names_every_data_set():
    result = invoke()
    assert result.exit_code == 0
    lines = [line.split(maxsplit=1) for line in result.stdout.splitlines()]
    fetchers = {name for name in datasets.__all__ if name.startswith("fetch_")}
    assert {f"fetch_{name.replace('-', '_')}" for name, _ in lines} == fetchers
    assert all(len(summary) > 20 for _, summary in lines)
    assert invoke("--quiet").output == ""


def test_a_graph_in_files(home):
    result = invoke("lastfm-asia", "--data-home", home)
    assert (result.exit_code, result.output) == (0, "")  # not a terminal
    folder = home.parent / "work" / "lastfm-asia"
    graph = sparse.load_npz(folder / "graph.npz")
    np.testing.assert_array_equal(graph.toarray(), [[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    table = read_table(folder / "groups.csv")
    assert table == [["id", "group"], ["0", "0"], ["1", "3"], ["2", "0"]]
    text = (folder / "about.txt").read_text()
    assert text.startswith("LastFM Asia")
    assert "\nSource: https://" in text
    assert "\nLicence: " in text


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_rows_in_files(home, made, form):
    X = np.arange(6.0).reshape(3, 2) / 4
    made(
        data=form(X),
        target=np.array([0, 1, 0]),
        sensitive_features=np.array(["a", "b, c", "a"]),
        feature_names=["x", "y"],
        data_test=form(X[:1]),
        target_test=np.array([1]),
        sensitive_features_test=np.array(["é"]),
    )
    assert invoke("law-school", "--output-dir", "out").exit_code == 0
    header, *rows = read_table("out/rows.csv")
    assert header == ["x", "y", "target", "group"]
    assert [row[2:] for row in rows] == [["0", "a"], ["1", "b, c"], ["0", "a"]]
    np.testing.assert_array_equal(np.array([row[:2] for row in rows], dtype=float), X)
    assert read_table("out/test.csv")[1:] == [["0.0", "0.25", "1", "é"]]
    assert Path("out/about.txt").read_text().startswith("What it is.\n\nSource")


@pytest.mark.parametrize(
    ("entries", "fragments"),
    [
        ({"graph": sparse.eye_array(4).tocsr()}, ("cluster", "graph.npz", ": 4 in")),
        ({"data": np.eye(4, 2), "target": [0, 1, 0, 1]}, ("classify", ": 4 in")),
        ({"data": np.eye(4, 2), "target": [0.5, 1, 2, 3]}, ("pca", "rows.csv")),
    ],
)
def test_it_says_what_to_do_next(home, made, entries, fragments):
    made(sensitive_features=np.zeros(4), feature_names=["x", "y"], **entries)
    text = invoke("law-school", "--verbose").stdout
    said = "1 groups", "wrote law-school/about.txt", "next: scalefair"
    for fragment in fragments + said:
        assert fragment in text
    assert invoke("law-school", "--quiet").stdout == ""


@pytest.mark.parametrize(
    ("arguments", "code", "fragments"),
    [
        (("lastfm",), 2, ("no data set lastfm", "did you mean lastfm-asia?")),
        (("--output-dir", "out"), 2, ("--output-dir goes with the NAME",)),
        (("pokec", "--no-download"), 1, ("error: pokec:", "--data-home", "https://")),
        (("lastfm-asia", "--output-dir", "file"), 1, ("file: is not a folder",)),
        (("lastfm-asia", "--output-dir", "no/such"), 1, ("does not exist",)),
    ],
)
def test_what_cannot_be_done(home, arguments, code, fragments):
    mine = home.parent / "work" / "file"
    mine.write_text("mine")
    result = invoke(*arguments, "--data-home", home)
    assert result.exit_code == code
    for fragment in fragments:
        assert fragment in result.stderr
    assert "Traceback" not in result.stderr
    assert list(mine.parent.iterdir()) == [mine]
    assert mine.read_text() == "mine"


def test_a_damaged_file_is_named_and_nothing_is_written(home):
    damaged = home / "lastfm-asia" / "lastfm_clean_edges.csv"
    damaged.write_text("\n".join([*EDGES, "0,x"]) + "\n")
    result = invoke("lastfm-asia", "--data-home", home)
    assert result.exit_code == 1
    assert "lastfm_clean_edges.csv" in result.stderr
    assert "replace it" in result.stderr
    assert list((home.parent / "work").iterdir()) == []


@pytest.mark.parametrize("error", [ConnectionError, ImportError])
def test_a_failed_download(home, monkeypatch, error):
    def fail(**_):
        raise error("no route")

    monkeypatch.setattr(datasets, "fetch_law_school", fail)
    result = invoke("law-school")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: law-school: cannot be had: no route")
    assert list((home.parent / "work").iterdir()) == []
