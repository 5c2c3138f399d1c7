"""What `scalefair demo` says and writes."""

import json

import pandas
import pytest
from click.testing import CliRunner
from sklearn.metrics import adjusted_rand_score

from scalefair.cli import _examples, main
from scalefair.datasets import make_fair_sbm

SIZES = ("demo", "--nodes", 2000, "-k", 4)


def invoke(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Output folder and result of one run."""
    folder = tmp_path_factory.mktemp("demo") / "out"
    return folder, invoke(*SIZES, "--output-dir", folder)


def test_says_what_it_did(demo):
    _, result = demo
    assert (result.exit_code, result.stderr) == (0, "")
    assert "try -k" not in result.stdout
    assert "\x1b" not in result.stdout  # plain text
    for fragment in ("labels.csv", "report.json", "report.html"):
        assert fragment in result.stdout
    rows = [line for line in result.stdout.splitlines() if line.startswith("│")]
    assert [row.split("│")[1].strip() for row in rows[:2]] == ["fair", "without"]


def test_labels(demo):
    folder, _ = demo
    frame = pandas.read_csv(folder / "labels.csv")
    names = ["node", "group", "planted", "fair_label", "unfair_label"]
    assert list(frame.columns) == names
    sizes = {"n_clusters": 4, "n_groups": 5, "average_degree": 30}
    data = make_fair_sbm(2000, **sizes, random_state=0)
    assert frame["node"].tolist() == list(range(2000))
    assert frame["group"].tolist() == data.sensitive_features.tolist()
    assert frame["planted"].tolist() == data.target.tolist()
    # Four clusters, five groups: fairness is what finds the clusters.
    assert adjusted_rand_score(data.target, frame["fair_label"]) > 0.9
    assert adjusted_rand_score(data.target, frame["unfair_label"]) < 0.1


def test_report(demo):
    report = json.loads((demo[0] / "report.json").read_text())
    assert report["command"] == "demo"
    assert report["parameters"]["n_nodes"] == report["input"]["n_nodes"] == 2000
    fair, unfair = (report["methods"][n] for n in ("fair", "without fairness"))
    assert fair["balance_mean"] > 0.8 > 0.2 > unfair["balance_mean"]
    assert fair["agreement_with_planted"] > 0.9 > 0.1 > unfair["agreement_with_planted"]
    assert fair["normalized_cut"] > unfair["normalized_cut"]
    for run in (fair, unfair):
        assert run["seconds"] > 0
        assert run["peak_memory_bytes"] > 1e7
        assert run["peak_memory_is_of_this_run"] in (True, False)
        assert run["converged"]
        assert len(run["clusters"]) == 4


def test_the_page_and_the_figure(demo):
    folder, _ = demo
    pytest.importorskip("matplotlib")
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "report.html").read_text()
    assert page.count("<img ") == 1
    assert "<summary>Clusters" not in page  # four rows are not folded


def test_without_matplotlib_and_quiet(tmp_path, monkeypatch):
    monkeypatch.setattr(_examples, "find_spec", lambda _: None)
    sizes = ("demo", "--nodes", 500, "-k", 3, "--output-dir", tmp_path)
    result = invoke(*sizes)
    assert result.exit_code == 0
    assert 'pip install "scalefair[plot]"' in result.stdout
    assert not (tmp_path / "figure.png").exists()
    result = invoke(*sizes, "--quiet")
    assert (result.exit_code, result.output) == (0, "")


def test_nodes_outside_the_largest_component(tmp_path):
    sizes = ("demo", "--nodes", 500, "-k", 2, "--average-degree", 4)
    result = invoke(*sizes, "--output-dir", tmp_path)
    assert result.exit_code == 0
    report = json.loads((tmp_path / "report.json").read_text())
    n_left_out = report["input"]["n_nodes_left_out"]
    assert n_left_out > 0
    assert f"{n_left_out} nodes outside the largest component" in result.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--nodes", 5, "-k", 4), "-k * --groups-count"),
        (("--nodes", 100, "-k", 2, "--average-degree", 99), "--average-degree 99"),
        (("-k", 1), "-k"),
        (("--average-degree", "nan"), "NaN"),
    ],
)
def test_wrong_usage(tmp_path, options, message):
    result = invoke("demo", *options, "--output-dir", tmp_path / "out")
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "out").exists()
