"""``scalefair demo`` and ``scalefair data``: something to try the others on.

`demo` generates a graph whose groups hide its clusters, and shows what fairness costs
and brings there. `data` writes public data sets to files, and says which command takes
them.
"""

import difflib
import inspect
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

from scalefair import datasets
from scalefair.cli import _options as opt
from scalefair.cli import _run
from scalefair.cli._cluster import FAIR, UNFAIR, add_clusters, run_both
from scalefair.cli._errors import NOT_CONVERGED, Failure, printable, translate
from scalefair.cli._report import Report, ReportTable, describe_run, draw
from scalefair.cli._roles import Rows
from scalefair.cluster import FairSpectralClustering

# --- demo ----------------------------------------------------------------------------

# Options of `demo`: the parameters of the block model, and the folder. A name after the
# comma is that of the parameter, or another spelling of the option.
_SIZES = {
    "nodes,n_nodes": (opt.value(opt.Count(), 100_000), "Nodes of the graph."),
    "-k,--n-clusters": (opt.value(opt.Count(2), 50), "Clusters, planted and sought."),
    "groups-count,n_groups": (opt.value(opt.Count(2), 5), "Groups of equal size."),
    "average-degree": (opt.value(opt.Finite(0), 30.0), "Expected edges of a node."),
    "random-state": (
        opt.value(opt.Count(0, 2**32 - 1), 0),
        "Seed of graph and labels.",
    ),
    "output-dir": (
        opt.value(opt.PATH, Path("scalefair-demo")),
        "Folder for the results.",
    ),
}
# What `demo` writes, in the order in which its code takes the paths.
_RESULTS = ("labels.csv", "report.json", "report.html", "figure.png")
# Columns of the table that compares both clusterings: title and format by key.
_COLUMNS = {
    "method": ("", ""),
    "seconds": ("time, s", ".1f"),
    "megabytes": ("peak\nmemory,\nMB", ",.0f"),
    "balance_mean": ("average\nbalance", ".3f"),
    "balance_min": ("minimum\nbalance", ".3f"),
    "normalized_cut": ("cut\n(Ncut)", ".2f"),
    "agreement_with_planted": ("agreement\n(ARI)", ".3f"),
}


@opt.command([*opt.option_table("Sizes", _SIZES), *opt.shared("quiet")])
def demo(output_dir: Path, quiet: bool | None, **sizes: Any) -> None:
    """Cluster a block model of 100,000 nodes with and without fairness.

    Its edges follow groups and planted clusters alike, and as many clusters as there
    are groups are looser than the others. The output folder gets labels.csv,
    report.json, the same as a page in report.html and, with matplotlib, figure.png.
    """
    # 1. Check that results can be written; make a graph whose groups hide clusters.
    table, *pages, picture = _run.check_folder(output_dir, _RESULTS)

    def say(text: str) -> None:
        """Print what takes time, unless nothing is to be printed."""
        if not quiet:
            click.echo(text)

    say("generating a block model: {n_nodes:,} nodes ...".format_map(sizes))
    bunch = _make_graph(sizes)
    say("compiling kernels (takes time in a first run only) ...")
    _compile_kernels()
    # 2. Cluster with and without fairness, and compare with the planted clusters.
    W, groups, k = bunch.graph, bunch.sensitive_features, sizes["n_clusters"]
    say(f"clustering {W.nnz:,} stored entries into {k}, with and without fairness ...")
    nodes = Rows(Path(), None, [], np.arange(W.shape[0]), groups=groups)
    tol = 1e-4  # the default of the estimator, here for the report
    model = FairSpectralClustering(
        k,
        tol=tol,
        random_state=sizes["random_state"],
        connected_components="largest",
    )
    labels, runs = run_both(
        model,
        W,
        nodes,
        baseline=True,
        path="the block model",
        show=not quiet and _run.on_terminal(),
    )
    is_kept = model.labels_ >= 0  # nodes of the largest component
    records = []
    for name, run in runs.items():
        agreement = adjusted_rand_score(bunch.target[is_kept], labels[name][is_kept])
        run["agreement_with_planted"] = agreement
        records.append({**run, "method": name})
        # Not every system can tell the peak of one run from that of the process.
        if run["peak_memory_is_of_this_run"]:
            records[-1]["megabytes"] = run["peak_memory_bytes"] / 1e6
    # 3. Report, labels and figure.
    n_left_out = int((~is_kept).sum())
    content = describe_run("demo", {**sizes, "tol": tol})
    content["input"] = {
        "n_nodes": W.shape[0],
        "n_stored_entries": W.nnz,
        "n_nodes_left_out": n_left_out,
    }
    content["methods"] = runs
    report = Report("demo", content, "")
    add_clusters(report, runs, labels, nodes)
    # The table of both methods replaces the facts that `cluster` would show.
    report.facts = [("left out", f"{n_left_out:,} nodes outside the largest component")]
    caption = "Lower cuts are better; agreement is with the planted clusters, at most 1"
    report.tables.insert(0, ReportTable(caption, records, _COLUMNS, terminal=True))
    columns = {
        "node": np.arange(W.shape[0]),
        "group": groups,
        "planted": bunch.target,
        "fair_label": labels[FAIR],
        "unfair_label": labels[UNFAIR],
    }
    writers: dict[Path, Any] = {table: lambda file: _run.write_table(file, columns)}
    writers |= {path: partial(report.write, path=path) for path in pages}
    if find_spec("matplotlib") is None:
        report.facts.append(("figure", 'pip install "scalefair[plot]" for one'))
    elif report.figures:
        writers[picture] = partial(draw, report.figures[0])
    _run.write_folder(output_dir, writers)
    if not quiet:
        report.show({path.name: path for path in writers})
    if not model.converged_:
        click.get_current_context().exit(NOT_CONVERGED)


def _make_graph(sizes: dict[str, Any]) -> Any:
    """Return a block model whose groups hide its clusters."""
    k, h = sizes["n_clusters"], sizes["n_groups"]
    # Without constraints h - 1 of the k leading eigenvectors separate the groups, and
    # take the place of h - 1 that separate clusters. h clusters are loose, so that the
    # clusters lost are among these.
    cohesion = [0.4] * h + [1.0] * (k - h) if k >= 2 * h else None
    # Nodes of a pair share both cluster and group, the group, the cluster, or neither.
    # Each kind has a share of the expected degree, divided by the number of blocks that
    # the neighbours of this kind may be in.
    weights = (0.36, 0.34 / (k - 1), 0.25 / (h - 1), 0.05 / ((k - 1) * (h - 1)))
    try:
        return datasets.make_fair_sbm(probabilities=weights, cohesion=cohesion, **sizes)
    except ValueError as error:
        raise click.UsageError(translate(str(error))) from error


def _compile_kernels() -> None:
    """Compile the kernels before timed runs, by a graph that needs all of them."""
    small = datasets.make_fair_sbm(
        1000, n_clusters=4, n_groups=2, average_degree=30, random_state=0
    )
    FairSpectralClustering(
        4, solver="chebyshev", random_state=0, connected_components="largest"
    ).fit(small.graph, sensitive_features=small.sensitive_features)


# --- data ----------------------------------------------------------------------------

# Options of `data` about files; the last two are parameters of the fetchers.
_FILES = {
    "output-dir": (
        opt.value(opt.PATH),
        "Folder for the files.  [default: the name of the data set]",
    ),
    "data-home": (
        opt.value(opt.PATH),
        "Folder of downloads.  [default: as SCALEFAIR_DATA says, else the user's "
        "cache]",
    ),
    "--download/--no-download,download_if_missing": (
        {"default": True},
        "Whether files that are not there are downloaded.",
    ),
}
_DATA_OPTIONS = [
    click.argument("name", required=False),
    *opt.option_table("Files", _FILES),
    *opt.shared("quiet"),
]


@opt.command(_DATA_OPTIONS)
def data(
    name: str | None, output_dir: Path | None, quiet: bool | None, **fetch_options: Any
) -> None:
    """List public data sets; with a NAME, write that one to files.

    Of a graph these are graph.npz and groups.csv, of rows rows.csv with columns target
    and group (and test.csv), as the other commands read them; about.txt says what the
    data are, where they come from and under which licence.
    """
    # 1. The fetchers by the names of their data sets: bank-marketing and so on.
    fetchers = {
        fetcher.removeprefix("fetch_").replace("_", "-"): getattr(datasets, fetcher)
        for fetcher in datasets.__all__
        if fetcher.startswith("fetch_")
    }
    # 2. Without a name, a line for each data set: its name, and the first line of the
    #    fetcher's docstring.
    if name is None:
        if output_dir is not None:
            raise click.UsageError("--output-dir goes with the NAME of a data set.")
        if quiet:
            return
        for name, fetch in fetchers.items():
            summary = (inspect.getdoc(fetch) or "").partition("\n")[0]
            summary = summary.removeprefix("Load ").removesuffix(".")
            click.echo(f"{name:17} {summary}")
        return
    if name not in fetchers:
        close = difflib.get_close_matches(name, fetchers, n=1)
        hint = f"did you mean {close[0]}?" if close else "`scalefair data` lists them."
        raise click.UsageError(f"there is no data set {name}: {hint}")
    # 3. Fetch the one of this name, and write its files.
    folder = Path(name) if output_dir is None else output_dir
    names = "about.txt", "graph.npz", "groups.csv", "rows.csv", "test.csv"
    _run.check_folder(folder, names)
    try:
        bunch = fetchers[name](**fetch_options)
    except (ImportError, OSError, ValueError) as error:
        raise Failure(f"{name}: cannot be had: {translate(str(error))}") from error
    # The folder is made only now: a failed download leaves nothing behind.
    writers = {folder / name: write for name, write in _writers(bunch)}
    _run.write_folder(folder, writers)
    if _run.on_terminal(quiet):
        n_groups = np.unique(bunch.sensitive_features).size
        click.echo(f"{name}: {len(bunch.sensitive_features):,} in {n_groups} groups")
        for path in writers:
            click.echo(printable(f"wrote {path}"))
        click.echo(printable(f"next: scalefair {_next_command(bunch, folder)}"))


def _writers(bunch: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name of each file and the function that writes its content."""
    origin = f"Source: {bunch.source}\nLicence: {bunch.licence}"
    text = f"{bunch.DESCR.rstrip()}\n\n{origin}\n".encode()
    yield "about.txt", lambda file: file.write(text)
    if "graph" in bunch:
        groups = {"id": range(bunch.graph.shape[0]), "group": bunch.sensitive_features}
        yield "graph.npz", lambda file: sparse.save_npz(file, bunch.graph, False)
        yield "groups.csv", lambda file: _run.write_table(file, groups)
        return
    yield "rows.csv", lambda file: _run.write_table(file, _frame(bunch, ""))
    if "data_test" in bunch:
        yield "test.csv", lambda file: _run.write_table(file, _frame(bunch, "_test"))


def _frame(bunch: Any, suffix: str) -> pandas.DataFrame:
    """Return features, target and group of rows; `suffix` is "_test" of test rows."""
    X, names = bunch[f"data{suffix}"], list(bunch.feature_names)
    X = X.toarray() if sparse.issparse(X) else X
    return pandas.DataFrame(X, columns=names).assign(
        target=bunch[f"target{suffix}"], group=bunch[f"sensitive_features{suffix}"]
    )


def _next_command(bunch: Any, folder: Path) -> str:
    """Return a command that reads these files, as an example of what they are for."""
    if "graph" in bunch:
        return (
            f"cluster {folder / 'graph.npz'} --groups {folder / 'groups.csv'} -k 10 "
            "--components largest --assign-labels fair -o labels.csv"
        )
    roles = f"{folder / 'rows.csv'} --groups group --standardize"
    if np.unique(bunch.target).size == 2:
        return f"classify {roles} --target target --interval 0.05,0.30 -o model.joblib"
    return f"pca {roles} --drop target -r 5 -o components.npz"
