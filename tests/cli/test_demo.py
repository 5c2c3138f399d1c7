import csv
import importlib.util
import json

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.metrics import adjusted_rand_score

from scalefair.cli import _demo, main
from scalefair.cli._demo import cluster_without_fairness
from scalefair.cli._demo_summary import remarks
from scalefair.datasets import make_fair_sbm

SIZES = ("demo", "--nodes", 2000, "-k", 4)


def invoke(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Output folder and result of one run."""
    folder = tmp_path_factory.mktemp("demo") / "out"
    return folder, invoke(*SIZES, "--output-dir", folder)


def read_report(folder):
    def refuse(constant):
        raise AssertionError(f"{constant} is not strict JSON")

    return json.loads((folder / "report.json").read_text(), parse_constant=refuse)


def test_says_what_it_did(demo):
    folder, result = demo
    assert (result.exit_code, result.stderr) == (0, "")
    assert "compiling kernels (first run only)" in result.stdout
    assert "\x1b" not in result.stdout  # plain text
    for name in ("labels.csv", "report.json"):
        assert f"wrote {folder / name}" in result.stdout
    rows = [line for line in result.stdout.splitlines() if line.startswith("│")]
    assert [row.split("│")[1].strip() for row in rows[-2:]] == [
        "fair",
        "without fairness",
    ]


def test_labels(demo):
    folder, _ = demo
    with open(folder / "labels.csv", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["node", "group", "planted", "fair_label", "unfair_label"]
    node, group, planted, fair, unfair = np.array(rows, dtype=int).T
    data = make_fair_sbm(
        2000, n_clusters=4, n_groups=5, average_degree=30, random_state=0
    )
    np.testing.assert_array_equal(node, np.arange(2000))
    np.testing.assert_array_equal(group, data.sensitive_features)
    np.testing.assert_array_equal(planted, data.target)
    # Four clusters, five groups: fairness is what finds the clusters.
    assert adjusted_rand_score(planted, fair) > 0.9
    assert adjusted_rand_score(planted, unfair) < 0.1


def test_report(demo):
    folder, _ = demo
    report = read_report(folder)
    assert report["command"] == "demo"
    assert report["parameters"]["n_nodes"] == 2000
    assert report["input"]["n_nodes"] == 2000
    fair = report["methods"]["fair"]
    unfair = report["methods"]["without fairness"]
    assert fair["balance_mean"] > 0.8 > 0.2 > unfair["balance_mean"]
    assert fair["agreement_with_planted"] > 0.9
    assert fair["normalized_cut"] > unfair["normalized_cut"]
    for row in (fair, unfair):
        assert row["seconds"] > 0
        assert row["peak_memory_bytes"] > 10_000_000
        assert row["converged"]
        assert len(row["clusters"]) == 4


def test_figure(demo):
    folder, result = demo
    pytest.importorskip("matplotlib")
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert f"wrote {folder / 'figure.png'}" in result.stdout


def test_without_matplotlib_and_quiet(tmp_path, monkeypatch):
    find_spec = importlib.util.find_spec

    def hide(name, *args):
        return None if name == "matplotlib" else find_spec(name, *args)

    monkeypatch.setattr(_demo.importlib.util, "find_spec", hide)
    sizes = ("demo", "--nodes", 500, "-k", 3, "--output-dir", tmp_path)
    result = invoke(*sizes)
    assert result.exit_code == 0
    assert 'pip install "scalefair[plot]"' in result.stdout
    assert not (tmp_path / "figure.png").exists()
    result = invoke(*sizes, "--quiet")
    assert (result.exit_code, result.output) == (0, "")


def test_nodes_outside_the_largest_component(tmp_path):
    result = invoke(
        *("demo", "--nodes", 500, "-k", 2, "--average-degree", 4),
        *("--output-dir", tmp_path),
    )
    assert result.exit_code == 0
    n_left_out = read_report(tmp_path)["input"]["n_nodes_left_out"]
    assert n_left_out > 0
    assert f"{n_left_out} nodes outside the largest component" in result.stdout


def test_few_groups_beside_many_clusters_are_explained():
    def report(balance):
        row = {"peak_memory_is_of_this_run": False}
        return {
            "parameters": {"n_groups": 5},
            "input": {"n_nodes_left_out": 0},
            "methods": {
                "fair": {**row, "balance_mean": 0.99},
                "without fairness": {**row, "balance_mean": balance},
            },
        }

    assert any("Try `-k 5`" in line for line in remarks(report(0.98)))
    assert not any("Try" in line for line in remarks(report(0.2)))
    assert any("since its start" in line for line in remarks(report(0.2)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--nodes", 5, "-k", 4), "-k * --groups-count"),
        (
            ("--nodes", 100, "-k", 2, "--average-degree", 99),
            "--average-degree 99 is too large",
        ),
        (("-k", 1), "-k"),
        (("--average-degree", "nan"), "nan is not a finite number"),
        (("--average-degree", "inf"), "inf is not a finite number"),
    ],
)
def test_wrong_usage(tmp_path, options, message):
    result = invoke("demo", *options, "--output-dir", tmp_path / "out")
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "out").exists()


def test_output_folder_is_checked_first(tmp_path):
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "missing" / "out"):
        result = invoke(*SIZES, "--output-dir", folder)
        assert result.exit_code == 1
        assert result.stdout == ""
        assert result.stderr.startswith(f"error: {folder}: ")


def test_without_fairness_finds_plain_clusters():
    data = make_fair_sbm(
        1000,
        n_clusters=3,
        n_groups=2,
        average_degree=40,
        probabilities=(1.0, 0.03, 0.02, 0.01),
        random_state=0,
    )
    labels, converged = cluster_without_fairness(
        data.graph, 6, tol=1e-4, random_state=0
    )
    assert converged
    blocks = data.target * 2 + data.sensitive_features
    assert adjusted_rand_score(blocks, labels) > 0.95
