"""What all commands of the tables do: options, missing data, files, and cells."""

import inspect
import re
import shutil
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

ROOT = Path(__file__).parents[2]
CLUSTERING, PCA = "fair_clustering", "fair_pca_table"
CLASSIFICATION, REGRESSION = "partial_fairness", "fair_regression"


@pytest.mark.parametrize(
    ("command", "arguments", "skipped"),
    [
        (CLUSTERING, ["--tables", "9", "--quick"], ["FacebookNet: facebooknet/"]),
        (PCA, ["--rows", "bank,lfw"], ["bank_marketing/bank.csv not found", "lfw42/"]),
        (CLASSIFICATION, ["--data", "law,a9a"], ["law school: ", "a9a: a9a/"]),
        ("equal_opportunity", ["--data", "census"], ["census: census-adult/"]),
        ("equal_opportunity", ["--data", "a9a"], ["postprocess is not installed"]),
        (REGRESSION, ["--data", "law,compas-plain"], ["law school: ", "COMPAS, "]),
    ],
)
def test_missing_data_are_skipped(
    load_tables, command, arguments, skipped, capsys, tmp_path, monkeypatch
):
    script = load_tables(script=command).script
    monkeypatch.setenv("SCALEFAIR_DATA", str(tmp_path))
    assert script.main(arguments) == 0
    text = capsys.readouterr().out
    for name in skipped:
        assert f"Skipped: {name}" in text


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        (CLUSTERING, ["--repeats", "0"], "not at least 1"),
        (PCA, ["--rows", "bank,none"], "not among"),
        (CLASSIFICATION, ["--criteria", "both"], "not among"),
        (REGRESSION, ["--varied", "-1"], "not at least 0"),
        (REGRESSION, ["--output", "nowhere/tables.md"], "no folder nowhere"),
    ],
)
def test_wrong_options(load_tables, command, arguments, message, capsys):
    script = load_tables(script=command).script
    with pytest.raises(SystemExit):
        script.main(arguments)
    assert message in capsys.readouterr().err


def test_equal_opportunity(load_tables, cells, capsys):
    tables = load_tables(script="equal_opportunity").script
    methods = "logistic regression;linear, one threshold"
    how = ["--quick", "--data", "bank", "--splits", "1", "--methods", methods]
    assert tables.main(how) == 0
    text = capsys.readouterr().out
    assert "bank, equal opportunity" in text
    assert "bank, equalized odds" in text
    rows = cells(text, "linear, one threshold")
    assert len(rows) == 2
    for _, kappa, _, _, gap, *_ in rows:  # what is promised of the rows of training
        assert float(gap) <= 1.05 * float(kappa)


def test_documented_ratios_exist_and_run(load, capsys):
    ratios = load("asv_bench", ratios="ratios").ratios
    documented = set()
    for path in (*ROOT.glob("docs/*.md"), *ROOT.glob("*/README.md")):
        documented |= set(re.findall(r"ratios\.py ([a-z_]+)", path.read_text("utf-8")))
    assert documented == set(ratios.TABLES)
    ratios.main(["spmm", "sizes=[4500]", "repeats=1"])
    assert "| 4,500 | " in capsys.readouterr().out
    ratios.main(["sparse_rows", "size=0.1", "repeats=1", "kinds=['correlated groups']"])
    rows = re.findall(r"\| (\w+) \| \S+ \| \S+ \| (\d*) \|", capsys.readouterr().out)
    assert [row[0] for row in rows] == ["FairPCA", "PCA"]
    assert int(rows[0][1]) > 0


def test_benchmarks_of_threads_take_their_parameters(load):
    asv = load("asv_bench", threads="benchmarks.threads")
    for benchmark, parameters, _ in asv.threads.BENCHMARKS.values():
        suite, kind, method = benchmark.split(".")
        module = load("asv_bench", suite=f"benchmarks.{suite}").suite
        for name in "setup", method:
            function = getattr(getattr(module, kind), name)
            inspect.signature(function).bind(None, *parameters)


def test_the_page_shows_the_stored_sizes_of_graphs(load, capsys, tmp_path):
    sizes = load("asv_bench", sizes="graph_sizes").sizes
    shutil.copy(ROOT / "docs/images/graph_sizes.csv", tmp_path)
    sizes.main(["--draw", "--folder", str(tmp_path)])
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) > 5
    page = (ROOT / "docs/scaling.md").read_text("utf-8").splitlines()
    assert set(rows) <= set(page)  # the page shows what is stored
    assert (tmp_path / "graph_sizes.svg").stat().st_size > 10_000


def test_chapters_show_the_numbers_of_their_tables(load, tmp_path):
    pictures = load("asv_bench", pictures="chapter_pictures").pictures
    pictures.main(["--output", str(tmp_path)])
    for name, make in pictures.CHAPTERS.items():
        numbers = escape(make().numbers())
        assert numbers.count(";") >= 8
        for folder in (tmp_path, ROOT / "docs/images"):
            text = (folder / f"{name}.svg").read_text(encoding="utf-8")
            assert numbers in text, f"python {pictures.__file__}"
            assert float(re.search(r'viewBox="0 0 ([\d.]+)', text)[1]) < 300
        page = (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")
        assert f"](images/{name}.svg)" in page
