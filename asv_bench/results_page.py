"""A page of documentation from the results of one asv run.

python asv_bench/results_page.py

reads the newest results in asv_bench/results (or those of --machine and --commit) and
writes a Markdown page and its figures to docs/results. Versions are those of the
Python that the benchmarks ran in, of --python, or of the one that runs this.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

HERE = Path(__file__).parent
# What a time is divided by: the value of one of the parameters of the class ...
PEER_VALUES = {
    "block_lbfgs.BlockLBFGS": ("solver", "scipy"),
    "clustering.Fit": ("method", "sklearn-lobpcg"),
    "eigensolvers.Embedding": ("solver", "eigsh"),
    "fair_classifiers.Pairwise": ("constraint", "none"),
    "fair_pca.Documents": ("method", "PCA"),
    "fair_pca.Rows": ("method", "PCA"),
    "kernels.KernelProduct": ("kernel", "stored"),
    "moments.Moments": ("method", "numpy"),
    "partial_parity.TwoGroups": ("method", "scipy or scikit-learn"),
    "parts.DenseRows": ("where", "memory"),
    "parts.Graph": ("where", "memory"),
    "score_oracle.Evaluate": ("method", "numpy"),
}
# ... or another benchmark of the class, at the same parameters.
PEER_BENCHMARKS = {
    "fair_regression.Layer.time_fit": "time_predict_alone",
    "files.Tables.time_read_table": "time_pandas_read_csv",
    "group_covariance.DenseProduct.time_scalefair": "time_two_products",
    "group_covariance.SparseProduct.time_scalefair": "time_two_products",
    "spmm.BlockProduct.time_scalefair": "time_scipy",
}
# Other peers: they are listed, and have no ratio of their own.
THEIRS = {"sklearn", "sklearn-amg", "products"}
# Names of peers as a reader knows them.
PEER_LABELS = {
    "eigsh": "SciPy's eigsh",
    "memory": "the same in memory",
    "none": "scikit-learn's LogisticRegression, not fair",
    "numpy": "NumPy",
    "PCA": "scikit-learn's PCA, not fair",
    "scipy": "SciPy",
    "sklearn-lobpcg": "scikit-learn's lobpcg clustering, not fair",
    "stored": "a stored kernel",
    "time_pandas_read_csv": "pandas",
    "time_predict_alone": "one prediction, without a fit",
    "time_scipy": "SciPy",
    "time_two_products": "two products of SciPy or NumPy",
}
# Peers that do an easier task: the figure counts them apart.
UNFAIR = ("none", "PCA", "sklearn-lobpcg")
EASIER = {PEER_LABELS[peer] for peer in (*UNFAIR, "time_predict_alone")}
SUITES = {
    "clustering": "Fair spectral clustering",
    "fair_pca": "Fair PCA",
    "fair_classifiers": "Fair classifiers",
    "fair_regression": "Fair regression",
    "rounding": "Fair assignment",
    "kmeans": "Fair k-means",
    "eigensolvers": "Eigensolvers",
    "block_lbfgs": "L-BFGS on blocks",
    "dc_solvers": "Difference-of-convex solvers",
    "group_covariance": "Products with groups' covariances",
    "kernels": "Gaussian kernels",
    "moments": "Moments of groups",
    "neighbors": "Nearest neighbours",
    "partial_parity": "Measures of fairness",
    "parts": "Rows and graphs in parts",
    "score_oracle": "Oracle of loss and shares",
    "spmm": "Sparse products",
    "threads": "Threads",
    "files": "Files and small commands",
}
FITTED = tuple(SUITES)[:4]  # whose whole fits are in a figure


# -- Results of one run, read from asv's files ---------------------------------------

PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "pyamg", "dask")
VERSIONS = """
import importlib.metadata, importlib.util, json, platform, sys
versions = {"Python": platform.python_version()}
for name in sys.argv[1:]:
    if importlib.util.find_spec({"scikit-learn": "sklearn"}.get(name, name)):
        versions[name] = importlib.metadata.version(name)
print(json.dumps(versions))
"""


class Measurement(NamedTuple):
    """One benchmark at one set of parameters."""

    name: str  # suite.Class.method, or suite.method
    kind: str  # time, peakmemory or track
    unit: str
    parameters: dict[str, str]
    value: float

    @property
    def suite(self) -> str:
        return self.name.split(".")[0]

    @property
    def owner(self) -> str:
        return self.name.rpartition(".")[0]


class Run(NamedTuple):
    """Results of one machine, commit and environment."""

    machine: dict[str, str]
    commit: str
    python: str
    started: datetime
    repeats: int  # a time is the median of so many runs, or more
    measurements: list[Measurement]


def newest_results(folder: Path, machine: str = "", commit: str = "") -> Path:
    """File of the newest run of this machine and commit; of any where empty."""
    paths = [
        path
        for path in folder.glob(f"{machine or '*'}/*.json")
        if path.name != "machine.json" and path.name.startswith(commit[:8])
    ]
    if not paths:
        filters = "".join(f" of {name}" for name in (machine, commit) if name)
        raise SystemExit(f"no results{filters} in {folder}: run `asv run` first")
    return max(paths, key=lambda path: max(_started(json.loads(path.read_text()))))


def _columns(results: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name of each benchmark that ran, and what was recorded of it."""
    for name, row in results["results"].items():
        # Columns at the end are left out where they are empty.
        record = dict(zip(results["result_columns"], row or [], strict=False))
        if record.get("result"):
            yield name, record


def _started(results: dict[str, Any]) -> list[float]:
    return [record["started_at"] or 0 for _, record in _columns(results)] or [0]


def read_run(path: Path) -> Run:
    """Results in this file, described by benchmarks.json and machine.json near it."""
    results = json.loads(path.read_text())
    descriptions = json.loads((path.parents[1] / "benchmarks.json").read_text())
    measurements, repeats = [], []
    for name, record in sorted(_columns(results)):
        if name not in descriptions:  # a benchmark that is gone
            continue
        description = descriptions[name]
        for values, value in zip(
            product(*record["params"]), record["result"], strict=True
        ):
            if value is None or math.isnan(value):  # failed, or not asked for
                continue
            parameters = dict(
                zip(
                    description["param_names"],
                    (v.strip("'\"") for v in values),
                    strict=True,
                )
            )
            measurements.append(
                Measurement(
                    name, description["type"], description["unit"], parameters, value
                )
            )
        repeats += [n for n in record.get("stats_repeat") or [] if n]
    return Run(
        machine=json.loads((path.parent / "machine.json").read_text()),
        commit=results["commit_hash"],
        python=results["python"],
        started=datetime.fromtimestamp(max(_started(results)) / 1000, UTC),
        repeats=min(repeats, default=1),
        measurements=measurements,
    )


def versions(python: str) -> dict[str, str]:
    """Versions of this Python and of the packages installed for it."""
    answer = subprocess.run(
        [python, "-c", VERSIONS, *PACKAGES], check=True, capture_output=True, text=True
    )
    return json.loads(answer.stdout)


# -- Peers --------------------------------------------------------------------------


def peer_of(
    measurement: Measurement, measurements: list[Measurement]
) -> tuple[str, Measurement] | None:
    """Name and measurement that this one is compared with, if there is one."""
    name, parameters = measurement.name, dict(measurement.parameters)
    if measurement.kind != "time":  # the peak includes set-ups, which run both
        return None
    if name in PEER_BENCHMARKS:
        label = PEER_BENCHMARKS[name]
        name = f"{measurement.owner}.{label}"
    elif measurement.owner in PEER_VALUES:
        parameter, label = PEER_VALUES[measurement.owner]
        if parameters[parameter] in THEIRS | {label}:
            return None
        parameters[parameter] = label
    else:
        return None
    for other in measurements:
        same = other.name == name and other.parameters == parameters
        if same and other.value > 0:
            return PEER_LABELS.get(label, label), other
    return None


# -- Text ---------------------------------------------------------------------------


def quantity(value: float, unit: str) -> str:
    """Value in a unit of a handy size, with three digits."""
    if unit == "seconds":
        for factor, name in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
            if value >= factor:
                return f"{_digits(value / factor)} {name}"
        return f"{_digits(value / 1e-9)} ns"
    if unit == "bytes":
        return f"{_digits(value / 2**20)} MiB"
    return _digits(value) + ("" if unit in ("unit", "") else f" {unit}")


def _digits(value: float) -> str:
    return f"{value:.0f}" if 100 <= abs(value) < 1e7 else f"{value:.3g}"


def suite_table(measurements: list[Measurement]) -> list[str]:
    """Lines of the table of one suite; a peer's own row has no ratio."""
    lines = [
        "| benchmark | parameters | measured | beside | ratio |",
        "| --- | --- | --- | --- | --- |",
    ]
    for one in measurements:
        peer = peer_of(one, measurements)
        cells = [
            f"`{one.name.partition('.')[2]}`",
            ", ".join(f"{name} {value}" for name, value in one.parameters.items()),
            quantity(one.value, one.unit),
            *((peer[0], f"{one.value / peer[1].value:.2f}") if peer else ("", "")),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def machine_table(run: Run, packages: dict[str, str]) -> list[str]:
    """Lines that describe the machine, without its name."""
    machine = run.machine
    rows = {
        "processor": f"{machine.get('cpu', '?')}, {machine.get('arch', '?')}",
        "cores": machine.get("num_cpu", "?"),
        "system": machine.get("os", "?").split()[0],
        "commit": f"`{run.commit[:10]}`",
        "date": f"{run.started:%Y-%m-%d}",
        **packages,
    }
    if machine.get("ram", "").isdigit():
        rows["memory"] = f"{int(machine['ram']) / 2**30:.0f} GiB"
    return ["| | |", "| --- | --- |", *(f"| {a} | {b} |" for a, b in rows.items())]


def page(run: Run, packages: dict[str, str], figures: dict[str, str]) -> str:
    """The page in Markdown; figures maps file names to captions."""
    lines = [
        f"# Benchmark results of {run.started:%Y-%m-%d}",
        "",
        f"**These times are of {run.started:%Y-%m-%d}, commit `{run.commit[:10]}`, and "
        "are not kept up.** Where",
        "[Performance](../performance.md) says something else, it is newer and holds.",
        "",
        "One run of a part of the benchmarks in `asv_bench/`, whose README has the",
        "commands. This page is generated (`asv_bench/results_page.py`).",
        "A ratio is our time divided by that of what stands beside it, at the same",
        "parameters: **below 1, ours takes less**. That is another way to the same",
        "answer, or an easier task: a method that is *not fair*, or no fit. A",
        "benchmark whose answer is wrong fails and is not listed. Memory is that of",
        "the whole process at its peak, with the interpreter, the data, and the",
        "set-up that checks the answer.",
        "",
    ]
    lines += [
        f"Each time is the median of {run.repeats} runs or more, one benchmark after "
        "the other."
        if run.repeats > 1
        else "Each time is that of a single run, and other work on the machine may "
        "have been in its way: take a ratio as a rough factor.",
        "Medians of alternating runs are in [Performance](../performance.md).",
        "",
        *machine_table(run, packages),
        "",
    ]
    for name, caption in figures.items():
        lines += [f"![{caption}]({name})", ""]
    suites = dict.fromkeys([*SUITES, *(one.suite for one in run.measurements)])
    for suite in suites:
        measurements = [one for one in run.measurements if one.suite == suite]
        if not measurements:
            continue
        lines += [f"## {_suite_title(suite)}", "", f"`-b '^{suite}\\.'`", ""]
        lines += [*suite_table(measurements), ""]
    return "\n".join(lines).rstrip() + "\n"


def _suite_title(suite: str) -> str:
    return SUITES.get(suite, suite.replace("_", " ").capitalize())


# -- Figures ------------------------------------------------------------------------

# Text as text: small files, and legible for screen readers.
STYLE = {"svg.hashsalt": "scalefair", "svg.fonttype": "none", "font.size": 8}


def ratios_at_largest(run: Run) -> list[tuple[str, float, bool]]:
    """Label and ratio of each compared method, at the last parameters that ran.

    And whether what stands beside it does an easier task.
    """
    comparisons: dict[tuple[str, ...], tuple[str, float, bool]] = {}
    for one in run.measurements:
        peer = peer_of(one, run.measurements)
        if peer is None:
            continue
        # Numbers are sizes, which grow from row to row; words are methods.
        sizes = [v for v in one.parameters.values() if v.lstrip("(")[:1].isdigit()]
        methods = [v for v in one.parameters.values() if v not in sizes]
        label = ", ".join([_suite_title(one.suite), *methods])
        text = f"{label} [{' x '.join(sizes)}]" if sizes else label
        method = one.name.rpartition(".")[2].partition("_")[2].replace("_", " ")
        text = f"{text}: {method}\nbeside {peer[0]}"
        ratio = one.value / peer[1].value
        comparisons[(one.name, *methods)] = (text, ratio, peer[0] in EASIER)
    return sorted(comparisons.values(), key=lambda mark: -mark[1])


def fits(run: Run) -> list[tuple[str, float, bool]]:
    """Label and seconds of whole fits, and whether scikit-learn made them."""
    times = []
    for one in reversed(run.measurements):
        if one.kind == "time" and one.suite in FITTED and "fit" in one.name:
            methods = list(one.parameters.values())
            peer = PEER_VALUES.get(one.owner, ("", ""))[1] in methods
            label = f"{_suite_title(one.suite)}: {', '.join(methods)}"
            times.append((label, one.value, peer or "sklearn" in label))
    return times


def dots(
    marks: list[tuple[str, float, bool]],
    format_value: Callable[[float], str],
    zero: float,
) -> tuple[Figure, Axes]:
    """A line of text and a mark below it for each, on a logarithmic axis.

    Squares are those with a True. Narrow, with the words above the marks rather than
    beside them: a telephone shows it in full, in letters of their size.
    """
    heights, height = [], 0.0
    for label, *_ in marks:
        heights.append(height)
        height += 2.2 + label.count("\n")  # lines of text
    figure = Figure(figsize=(4.1, 1.1 + 0.145 * height), layout="constrained")
    ax = figure.add_subplot()
    for y, (label, value, square) in zip(heights, marks, strict=True):
        # Blue and vermilion differ for colour-blind readers; so do the marks.
        color = "#D55E00" if square else "#0072B2"
        ax.plot([zero, value], [y, y], color="0.85", linewidth=2, zorder=1)
        ax.plot(value, y, "s" if square else "o", color=color, markersize=5)
        is_smaller = value < zero
        ax.annotate(
            format_value(value),
            (value, y),
            xytext=(-7 if is_smaller else 7, 0),
            textcoords="offset points",
            ha="right" if is_smaller else "left",
            va="center",
        )
        clear = {"facecolor": "white", "edgecolor": "none", "pad": 0}
        where = {"transform": ax.get_yaxis_transform(), "zorder": 3, "bbox": clear}
        ax.text(0, y + 0.65, label, linespacing=1.1, **where)
    ax.set_yticks([])
    ax.set_ylim(-0.9, height)
    ax.set_xscale("log")
    ax.margins(x=0.14)
    ax.spines[["top", "right", "left"]].set_visible(False)
    return figure, ax


def draw(run: Run, folder: Path) -> dict[str, str]:
    """Figures that the run has numbers for; their names and captions."""
    captions = {}

    def save(name: str, figure: Figure, ax: Axes, title: str, label: str) -> None:
        ax.set_xlabel(label)
        ax.set_title(title, loc="left")
        figure.savefig(folder / name, metadata={"Date": None})
        captions[name] = title.replace("\n", " ")

    with rc_context(STYLE):
        if pairs := ratios_at_largest(run):
            figure, ax = dots(pairs, lambda ratio: f"{ratio:.2g}", 1)
            ax.axvline(1, color="0.4", linewidth=1, zorder=0)
            same, easier = (
                [ratio < 1 for _, ratio, other in pairs if other == kind]
                for kind in (False, True)
            )
            caption = f"Less time for the same in {sum(same)} of {len(same)},"
            caption += f"\nthan for an easier task in {sum(easier)} of {len(easier)}"
            label = "our time / theirs, at the largest size that ran\n"
            label += "(circles: the same answer, squares: an easier task)"
            save("ratios.svg", figure, ax, caption, label)
        if marks := fits(run):
            minimum = min(value for _, value, _ in marks) / 2
            figure, ax = dots(marks, lambda value: quantity(value, "seconds"), minimum)
            label = "seconds (squares: scikit-learn, not fair)"
            save("fits.svg", figure, ax, "How long whole fits take", label)
    return captions


def main(arguments: list[str] | None = None) -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--output", type=Path, default=HERE.parent / "docs" / "results")
    parser.add_argument("--machine", default="", help="folder in the results")
    parser.add_argument("--commit", default="", help="at least eight letters of it")
    parser.add_argument("--python", default="", help="that the benchmarks ran in")
    options = parser.parse_args(arguments)
    run = read_run(newest_results(options.results, options.machine, options.commit))
    python = options.python
    if not python:
        python = run.python if Path(run.python).is_file() else sys.executable
    options.output.mkdir(parents=True, exist_ok=True)
    figures = draw(run, options.output)
    text = page(run, versions(python), figures)
    (options.output / "index.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
