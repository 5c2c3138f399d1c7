"""The report as a page: of each command, with and without matplotlib."""

import csv
import io
import json
import os
import re
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from scalefair.cli import _html_figures, _html_report
from scalefair.cli._report import write_json

VOID = {"meta", "img", "br", "hr", "link", "input"}
EVIL = "<script>alert(1)</script>"


class Reader(HTMLParser):
    """Reads a page strictly; every element is closed in its turn."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict]] = []
        self.within: list[str] = []
        self.words: list[str] = []
        self.tables: list[dict] = []
        self.feed(text)
        self.close()
        assert self.within == []

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.within.append(tag)
        if tag == "table":
            self.tables.append({"caption": "", "heads": [], "numbers": []})
        if tag == "th":
            self.tables[-1]["heads"].append(dict(attrs).get("scope"))
        if tag == "data":
            self.tables[-1]["numbers"].append(float(dict(attrs)["value"]))

    def handle_endtag(self, tag):
        assert self.within.pop() == tag

    def handle_data(self, data):
        self.words.append(data)
        if self.within[-1:] == ["caption"]:
            self.tables[-1]["caption"] += data

    def all(self, tag: str) -> list[dict]:
        return [attrs for name, attrs in self.elements if name == tag]

    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@dataclass
class Run:
    """A page, and the report that it shows."""

    page: str
    report: dict
    errors: str = ""
    code: int = 0
    read: Reader = field(init=False)

    def __post_init__(self):
        self.read = Reader(self.page)


def run_once(folder: Path, invoke) -> Run:
    """Run a command, and keep the report that the page is made of."""
    kept = io.BytesIO()
    write_html = _html_report.write_html

    def remember(file, report, evidence=None):
        write_json(kept, report)
        write_html(file, report, evidence)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_html_report, "write_html", remember)
        result = invoke("--report", folder / "page.html")
    assert result.exit_code in (0, 3), result.output
    assert result.stdout == ""
    page = (folder / "page.html").read_text(encoding="utf-8")
    report = json.loads(kept.getvalue())
    return Run(page, report, result.stderr, result.exit_code)


def cluster(workspace, *options, data=None):
    data = data or workspace.npz
    return run_once(workspace.folder, lambda *o: workspace.cluster(data, *options, *o))


def pca(components, *options, data=None, groups="sex"):
    return run_once(
        components.folder,
        lambda *o: components.pca(data, *options, *o, groups=groups),
    )


def write_people(folder: Path, names=("f", "m"), m=120) -> Path:
    """Rows of groups, by turns, with a label that depends on them."""
    rng = np.random.default_rng(0)
    codes = np.arange(m) % len(names)
    X = rng.normal(size=(m, 2)).round(3) + 0.5 * (codes == 0)[:, None]
    label = np.where(X.sum(axis=1) + rng.normal(size=m) > 0.3, "yes", "no")
    path = folder / "people.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "income", "sex", "hired"])
        for row, code, word in zip(X.tolist(), codes, label, strict=True):
            writer.writerow([*row, names[code], word])
    return path


def classify(workspace, *options, names=("f", "m")):
    people = write_people(workspace.folder, names)
    arguments = ("classify", people, "--groups", "sex", "--target", "hired")
    arguments += ("--interval", "0.1,0.6", "--kappa", "0.2", "--tol", 0.1)
    arguments += ("-o", workspace.folder / "model.joblib", *options)
    return run_once(workspace.folder, lambda *o: workspace.invoke(*arguments, *o))


def classify_with_test(workspace):
    # The file is written before the commands run.
    return classify(workspace, "--test", workspace.folder / "people.csv")


def regress(wages, *options):
    return run_once(
        wages.folder, lambda *o: wages.regress_array(wages.plain, None, *options, *o)
    )


def demo(workspace):
    out = workspace.folder / "out"
    sizes = ("--nodes", 500, "-k", 3, "--groups-count", 2)
    result = workspace.invoke("demo", *sizes, "--output-dir", out, "--quiet")
    assert result.exit_code == 0, result.output
    return Run(
        (out / "report.html").read_text(encoding="utf-8"),
        json.loads((out / "report.json").read_text()),
    )


RUNS = {
    "classify": (classify_with_test, "workspace", 4),
    "cluster": (cluster, "workspace", 1),
    "demo": (demo, "workspace", 1),
    "pca": (pca, "components", 2),
    "regress": (regress, "wages", 1),
}


@pytest.fixture(scope="module")
def runs():
    """Runs so far, for all tests that only look at them."""
    return {}


@pytest.fixture(params=RUNS)
def run(request, runs):
    command, fixture, _ = RUNS[request.param]
    if request.param not in runs:
        runs[request.param] = command(request.getfixturevalue(fixture))
    return runs[request.param]


def test_is_a_whole_page(run):
    assert run.page.startswith("<!DOCTYPE html>\n<html lang=")
    read = run.read
    for tag in ("html", "head", "title", "body", "header", "h1", "main"):
        assert len(read.all(tag)) == 1, tag
    assert {"charset": "utf-8"} in read.all("meta")
    assert "prefers-color-scheme: dark" in run.page
    assert "@media print" in run.page
    title = re.search(r"<h1>(.+)</h1>", run.page)[1]
    assert f"<title>{title}</title>" in run.page
    assert re.search(r"\d", title)  # the finding
    assert len(read.tables) >= 5
    for table in read.tables:
        assert table["caption"]
        assert set(table["heads"]) <= {"row", "col"}
        assert "row" in table["heads"]


def test_loads_and_runs_nothing(run):
    tags = {tag for tag, _ in run.read.elements}
    assert not tags & {"script", "link", "iframe", "object", "embed", "form", "a"}
    for tag, attrs in run.read.elements:
        assert not any(name.startswith("on") or name == "style" for name in attrs)
        if "src" in attrs or "href" in attrs:
            assert tag == "img"
            assert attrs["src"].startswith("data:image/")
    assert "http://" not in run.page
    assert "https://" not in run.page
    assert "url(" not in run.page
    assert "@import" not in run.page
    (policy,) = (m for m in run.read.all("meta") if "http-equiv" in m)
    assert policy["http-equiv"] == "Content-Security-Policy"
    assert policy["content"].startswith("default-src 'none'; ")


def test_figures(run):
    pytest.importorskip("matplotlib")
    *_, n_figures = RUNS[run.report["command"]]
    pictures = run.read.all("img")
    assert len(pictures) == n_figures
    for picture in pictures:
        assert picture["src"].startswith("data:image/svg+xml;base64,")
        assert len(picture["alt"]) > 40
    assert len(run.read.all("figcaption")) == n_figures
    assert "could not be drawn" not in run.page


def numbers(value) -> list[float]:
    if isinstance(value, dict):
        return [n for item in value.values() for n in numbers(item)]
    if isinstance(value, list):
        return [n for item in value for n in numbers(item)]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return [value] if is_number else []


def tables_of(report) -> list:
    """What the groups of a report have in common, whatever the command."""
    for name in ("clusters", "groups"):
        if name in report:
            yield report[name]
    for name in ("train", "test"):
        if name in report:
            yield from tables_of(report[name])
    for method in report.get("methods", {}).values():
        yield from tables_of(method)
    if "groups" in report.get("input", {}):
        yield report["input"]["groups"]


def test_holds_every_number_of_the_groups(run):
    shown = {n for table in run.read.tables for n in table["numbers"]}
    wanted = [n for table in tables_of(run.report) for n in numbers(table)]
    assert len(wanted) >= 4
    assert set(wanted) <= shown


def test_holds_the_rest_of_the_report(run):
    text = run.read.text()
    report = run.report
    for name in report["parameters"]:
        assert name in text
    assert report["version"] in text
    assert report["python"] in text
    assert "peak_memory_bytes" in text or "peak memory" in text
    assert "Warnings" not in text
    assert "Notes" not in text
    for path in re.findall(r'"(/[^" ]+)"', json.dumps(report["input"])):
        assert path in text


@pytest.mark.parametrize("name", [n for n in RUNS if n != "demo"])
def test_without_matplotlib(request, monkeypatch, name):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    command, fixture, _ = RUNS[name]
    run = command(request.getfixturevalue(fixture))
    assert run.read.all("img") == []
    assert 'pip install "scalefair[plot]"' in run.read.text()
    assert run.errors == ""


def test_demo_without_matplotlib(workspace, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    run = demo(workspace)
    assert run.read.all("img") == []
    assert 'pip install "scalefair[plot]"' in run.read.text()


def test_names_are_text(workspace):
    pytest.importorskip("matplotlib")
    names = (EVIL, r"$\frac$ & \"b'", "_c")
    run = classify(workspace, names=names)
    assert EVIL not in run.page
    assert "<script" not in run.page
    text = run.read.text()
    for name in names:
        assert name in text
    # Of three groups two are compared; the alt text has quotes.
    assert len(run.read.all("img")) == 2
    assert run.errors == ""


def test_names_of_clusters_and_components_are_text(workspace, components):
    workspace.write(workspace.groups, [f"{i},{EVIL}{i % 2}" for i in range(90)])
    run = cluster(workspace, "--no-groups-header")
    assert "<script" not in run.page
    assert f"group {EVIL}0" in run.read.text()
    components.write(components.column, [f"{EVIL}{sex}" for sex in components.sexes])
    run = pca(components, data=components.npy, groups=components.column)
    assert "<script" not in run.page
    assert f"{EVIL}f" in run.read.text()


def test_file_names_are_text(workspace):
    path = workspace.folder / os.fsdecode(b"<b>&\xff.csv")
    try:
        path.write_bytes(workspace.edges.read_bytes())
    except OSError:
        pytest.skip("the file system takes no such name")
    run = cluster(workspace, data=path)
    assert run.report["input"]["graph"] == str(path)
    assert "<b>&\ufffd.csv" in run.read.text()


@pytest.mark.parametrize("at", ["draw", "render_page"])
def test_interrupt(older, monkeypatch, at):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_html_report, at, interrupt)
    page = older.folder / "page.html"
    result = older.cluster(older.npz, "--report", page)
    assert older.fails(result, code=130) == "error: interrupted, nothing written"
    assert not page.exists()


def test_older_page_is_replaced_or_kept(older, monkeypatch):
    page = older.folder / "page.HTML"
    page.write_text("older")
    monkeypatch.setattr(_html_report, "render_page", lambda _: 1 / 0)
    older.fails(older.cluster(older.npz, "--report", page), "internal", code=70)
    assert page.read_text() == "older"
    monkeypatch.undo()
    assert older.cluster(older.npz, "--report", page).exit_code == 0
    assert page.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("name", ["report", "report.txt", "report.htm", "html"])
def test_other_names_are_json(workspace, name):
    path = workspace.folder / name
    assert workspace.cluster(workspace.npz, "--report", path).exit_code == 0
    assert json.loads(path.read_text())["command"] == "cluster"


@pytest.mark.parametrize("command", ["classify", "cluster", "pca", "regress"])
def test_help_names_both_formats(workspace, command):
    text = " ".join(workspace.invoke(command, "--help").output.split())
    assert ".html" in text
    assert "JSON" in text


def test_a_figure_that_fails_does_not_lose_the_results(workspace, monkeypatch):
    pytest.importorskip("matplotlib")

    def fail(*_):
        raise ValueError("no <ink>")

    monkeypatch.setattr(_html_figures, "_render", fail)
    run = cluster(workspace)
    said = "a figure could not be drawn: ValueError: no <ink>"
    assert run.errors == f"warning: {said}\n"
    assert said in run.read.text()
    assert "no <ink>" not in run.page
    assert len(workspace.labels()) == 90


def test_warnings_and_notes(components, workspace):
    run = pca(components, "--max-iter", 1)
    assert run.code == 3
    (message,) = run.report["warnings"]
    assert run.errors == f"warning: {message}\n"
    assert f"Warnings {message}" in run.read.text()
    with open(workspace.groups, "a") as file:
        file.write("9999,g0\n")
    run = cluster(workspace, data=workspace.edges)
    (message,) = run.report["notes"]
    assert run.errors == f"note: {message}\n"
    assert f"Notes {message}" in run.read.text()


def test_rows_in_blocks(components):
    pytest.importorskip("matplotlib")
    roles = {"data": components.npy, "groups": components.column}
    run = pca(components, "--memory-limit", "2kB", **roles)
    assert run.report["input"]["read"] == "in blocks"
    assert len(run.read.all("img")) == 2
    options = ("--memory-limit", "2kB", "--solver", "matrix_free", "--tol", 1e-3)
    run = pca(components, *options, **roles)
    assert run.read.all("img") == []
    assert "need --solver gram" in run.read.text()


def test_iterations(workspace):
    run = cluster(workspace, "--solver", "admm", "--max-iter", 3)
    (history,) = (t for t in run.read.tables if t["caption"].startswith("History"))
    n_iter = len(run.report["history"]["alpha"])
    assert history["heads"].count("row") == n_iter
    for found in ("<details>", "<summary>"):
        assert found in run.page


def test_many_groups(workspace):
    pytest.importorskip("matplotlib")
    workspace.write(workspace.groups, [f"{i},g{i % 30}" for i in range(90)])
    run = cluster(workspace, "--solver", "dual", "--tol", 0.1, "--no-groups-header")
    assert run.read.all("img") == []
    assert "no figure of more than 28 groups, here 30" in run.read.text()
    run = classify(workspace, names=[f"g{i}" for i in range(9)])
    assert len(run.read.all("img")) == 2
    assert "The 7 largest of 9 groups are shown" in run.read.text()
    assert "shares of selected rows differ most" in run.read.text()
