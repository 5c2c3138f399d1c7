"""``scalefair demo``: what fairness costs and brings on a planted graph."""

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np
from sklearn.metrics import adjusted_rand_score

from scalefair.cli import _options as opt
from scalefair.cli import _run
from scalefair.cli._cluster import FAIR, UNFAIR, add_clusters, run_both
from scalefair.cli._errors import NOT_CONVERGED
from scalefair.cli._parameters import translate
from scalefair.cli._report import Report, ReportTable, describe_run, draw
from scalefair.cli._roles import Rows
from scalefair.cluster import FairSpectralClustering
from scalefair.datasets import make_fair_sbm

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
_OPTIONS = opt.option_table("Sizes", _SIZES)
_FILES = ("labels.csv", "report.json", "report.html", "figure.png")
_COLUMNS = {
    "method": ("", ""),
    "seconds": ("time, s", ".1f"),
    "megabytes": ("peak\nmemory,\nMB", ",.0f"),
    "balance_mean": ("average\nbalance", ".3f"),
    "balance_min": ("minimum\nbalance", ".3f"),
    "normalized_cut": ("cut\n(Ncut)", ".2f"),
    "agreement_with_planted": ("agreement\n(ARI)", ".3f"),
}


@opt.command([*_OPTIONS, *opt.shared("quiet")])
@click.pass_context
def demo(
    ctx: click.Context, /, output_dir: Path, quiet: bool | None, **sizes: Any
) -> None:
    """Cluster a block model of 100,000 nodes with and without fairness.

    Its edges follow groups and planted clusters alike, and as many clusters as there
    are groups are looser than the others. The output folder gets labels.csv,
    report.json, the same as a page in report.html and, with matplotlib, figure.png.
    """
    # 1. A graph in which groups hide clusters.
    table, *pages, picture = _run.check_folder(output_dir, _FILES)

    def say(text: str) -> None:
        if not quiet:
            click.echo(text)

    say("generating a block model: {n_nodes:,} nodes ...".format_map(sizes))
    k, h, seed = (sizes[name] for name in ("n_clusters", "n_groups", "random_state"))
    # Without constraints h - 1 eigenvectors separate the groups. As many clusters as
    # groups are loose, so that their eigenvectors are the ones that are lost.
    weights = (0.36, 0.34 / (k - 1), 0.25 / (h - 1), 0.05 / ((k - 1) * (h - 1)))
    cohesion = [0.4] * h + [1.0] * (k - h) if k >= 2 * h else None
    try:
        data = make_fair_sbm(probabilities=weights, cohesion=cohesion, **sizes)
    except ValueError as error:
        raise click.UsageError(translate(str(error), ctx)) from error
    # 2. Compile the kernels of the timed runs, on a graph that is large enough.
    say("compiling kernels (takes time in a first run only) ...")
    small = make_fair_sbm(
        1000, n_clusters=4, n_groups=2, average_degree=30, random_state=0
    )
    FairSpectralClustering(
        4, solver="chebyshev", random_state=0, connected_components="largest"
    ).fit(small.graph, sensitive_features=small.sensitive_features)
    # 3. Cluster with and without fairness, and compare with the planted clusters.
    W, groups = data.graph, data.sensitive_features
    say(f"clustering {W.nnz:,} stored entries into {k}, with and without fairness ...")
    nodes = Rows(Path(), None, [], np.arange(W.shape[0]), groups=groups)
    tol = 1e-4
    model = FairSpectralClustering(
        k, tol=tol, random_state=seed, connected_components="largest"
    )
    labels, runs = run_both(
        model,
        W,
        nodes,
        baseline=True,
        path="the block model",
        show=not quiet and _run.on_terminal(),
    )
    kept = model.labels_ >= 0
    records = []
    for name, run in runs.items():
        agreement = adjusted_rand_score(data.target[kept], labels[name][kept])
        run["agreement_with_planted"] = agreement
        records.append({**run, "method": name})
        if run["peak_memory_is_of_this_run"]:
            records[-1]["megabytes"] = run["peak_memory_bytes"] / 1e6
    # 4. Report, labels and figure.
    n_left_out = int((~kept).sum())
    content = describe_run("demo", {**sizes, "tol": tol})
    content["input"] = {
        "n_nodes": W.shape[0],
        "n_stored_entries": W.nnz,
        "n_nodes_left_out": n_left_out,
    }
    content["methods"] = runs
    report = Report("demo", content, "")
    add_clusters(report, runs, labels, nodes)
    report.facts = [("left out", f"{n_left_out:,} nodes outside the largest component")]
    caption = "Lower cuts are better; agreement is with the planted clusters, at most 1"
    report.tables.insert(0, ReportTable(caption, records, _COLUMNS, terminal=True))
    columns = {
        "node": np.arange(W.shape[0]),
        "group": groups,
        "planted": data.target,
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
        ctx.exit(NOT_CONVERGED)
