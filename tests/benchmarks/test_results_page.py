"""The page of benchmark results is made from a folder of made-up results."""

import json
import math
import platform
import re
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "asv_bench"
COMMIT = "0123456789abcdef0123456789abcdef01234567"

COLUMNS = ["result", "params", "version", "started_at", "duration"]
COLUMNS += ["stats_ci_99_a", "stats_ci_99_b", "stats_q_25", "stats_q_75"]
COLUMNS += ["stats_number", "stats_repeat"]
DAY = 1_700_000_000_000  # in November 2023, milliseconds


def known(name, kind, unit, **parameters):
    """What asv writes of a benchmark in benchmarks.json."""
    return {
        "name": name,
        "type": kind,
        "unit": unit,
        "param_names": list(parameters),
        "params": [[repr(value) for value in values] for values in parameters.values()],
    }


METHODS = {"rows": [100, 200], "features": [5], "method": ["FairPCA", "PCA"]}
BENCHMARKS = [
    (known("fair_pca.Rows.time_fit", "time", "seconds", **METHODS), [2, 4, 3, 2]),
    (
        known("fair_pca.Rows.peakmem_fit", "peakmemory", "bytes", **METHODS),
        [2**27, 2**28, 3 * 2**27, 2**28],
    ),
    (
        known("fair_pca.Rows.track_evaluations", "track", "unit", **METHODS),
        [12, math.nan, None, 0],
    ),
    (known("spmm.BlockProduct.time_scalefair", "time", "seconds", n=[10]), [2e-3]),
    (known("spmm.BlockProduct.time_scipy", "time", "seconds", n=[10]), [8e-3]),
    (known("rounding.Rounding.time_failed", "time", "seconds", n=[10]), [None]),
    (known("dc_solvers.Inner.time_alone", "time", "seconds"), [3e-7]),
]


@pytest.fixture
def script(load):
    return load("asv_bench", page="results_page").page


def write_run(folder, name, commit=COMMIT, started=DAY, repeat=1, benchmarks=None):
    """Results of one run; statistics are those of times only, as asv has it."""
    results = {}
    for what, values in BENCHMARKS if benchmarks is None else benchmarks:
        row = [values, what["params"], "1", started, 1.0]
        if what["type"] == "time":
            row += [None, None, None, None, [1] * len(values), [repeat] * len(values)]
        results[what["name"]] = row
    results["gone.Gone.time_gone"] = [[1.0], [], "1", started, 1.0]
    results["rounding.Rounding.time_crashed"] = None
    path = folder / "secret-host" / f"{commit[:8]}-{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"commit_hash": commit, "python": "3.99", "result_columns": COLUMNS}
    path.write_text(json.dumps({**content, "results": results}))
    return path


@pytest.fixture
def folder(tmp_path):
    """A results folder with one run."""
    folder = tmp_path / "results"
    write_run(folder, "existing-py_secret_path")
    machine = {"arch": "x86_64", "cpu": "Processor 9", "machine": "secret-host"}
    machine |= {"num_cpu": "2", "os": "Linux 1.2-secret", "ram": str(24 * 2**30)}
    (folder / "secret-host" / "machine.json").write_text(json.dumps(machine))
    names = {what["name"]: what for what, _ in BENCHMARKS}
    crashed = known("rounding.Rounding.time_crashed", "time", "seconds", n=[10])
    names[crashed["name"]] = crashed
    # asv puts its own version beside the benchmarks.
    (folder / "benchmarks.json").write_text(json.dumps({**names, "version": 2}))
    return folder


@pytest.fixture
def made(script, folder, tmp_path):
    """Folder of the page made from these results."""
    output = tmp_path / "docs"
    script.main(["--results", str(folder), "--output", str(output)])
    return output


def rows(text):
    """Cells of each line of the tables."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_tables(made):
    text = (made / "index.md").read_text()
    assert text.startswith("# Benchmark results of 2023-11-14\n")
    found = {(row[0], row[1]): row[2:] for row in rows(text)}
    peer = "scikit-learn's PCA, not fair"
    fit, memory = "`Rows.time_fit`", "`Rows.peakmem_fit`"
    where = "rows {}, features 5, method {}"
    assert found[fit, where.format(100, "FairPCA")] == ["2 s", peer, "0.50"]
    assert found[fit, where.format(200, "FairPCA")] == ["3 s", peer, "1.50"]
    assert found[fit, where.format(100, "PCA")] == ["4 s", "", ""]
    assert found[memory, where.format(100, "FairPCA")] == ["128 MiB", "", ""]
    calls = "`Rows.track_evaluations`"
    assert found[calls, where.format(100, "FairPCA")] == ["12", "", ""]
    assert (calls, where.format(100, "PCA")) not in found  # skipped
    assert (calls, where.format(200, "FairPCA")) not in found  # failed
    assert found["`BlockProduct.time_scalefair`", "n 10"] == ["2 ms", "SciPy", "0.25"]
    assert found["`Inner.time_alone`", ""] == ["300 ns", "", ""]
    for word in ("gone", "time_failed", "time_crashed", "Fair assignment"):
        assert word not in text
    titles = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    assert titles == ["Fair PCA", "Difference-of-convex solvers", "Sparse products"]


def test_machine_is_described_and_not_named(made):
    text = (made / "index.md").read_text()
    about = {row[0]: row[1] for row in rows(text) if len(row) == 2}
    assert about["processor"] == "Processor 9, x86_64"
    assert (about["cores"], about["memory"]) == ("2", "24 GiB")
    assert (about["commit"], about["date"]) == ("`0123456789`", "2023-11-14")
    assert about["Python"] == platform.python_version()
    assert about["numpy"] == np.__version__
    for path in made.iterdir():
        assert "secret" not in path.read_text(encoding="utf-8")


def test_newest_results_unless_a_commit_is_named(script, folder):
    newer = write_run(folder, "virtualenv", commit="f" * 40, started=DAY + 1)
    assert script.newest_results(folder) == newer
    older = script.newest_results(folder, commit=COMMIT[:10])
    assert older.name.startswith(COMMIT[:8])
    with pytest.raises(SystemExit, match="no results of nowhere in"):
        script.newest_results(folder, machine="nowhere")
    with pytest.raises(SystemExit, match=r"no results in .*: run `asv run` first"):
        script.newest_results(folder / "empty")


def test_peers_are_in_the_suites(script):
    assert set(script.SUITES) == {
        path.stem
        for path in (FOLDER / "benchmarks").glob("*.py")
        if path.stem not in ("__init__", "problems")
    }
    for owner, (parameter, value) in script.PEER_VALUES.items():
        suite, name = owner.split(".")
        text = (FOLDER / "benchmarks" / f"{suite}.py").read_text()
        assert f"class {name}" in text
        assert f'"{parameter}"' in text
        assert f'"{value}"' in text
    for owner, method in script.PEER_BENCHMARKS.items():
        text = (FOLDER / "benchmarks" / f"{owner.split('.')[0]}.py").read_text()
        assert f"def {method}(" in text
        assert f"def {owner.split('.')[2]}(" in text


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
