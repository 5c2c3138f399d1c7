"""``scalefair demo``: what fairness costs and brings on a planted graph."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from scalefair.cli._csv_file import write_table
from scalefair.cli._demo_summary import FAIR, UNFAIR, print_summary
from scalefair.cli._errors import NOT_CONVERGED, Failure, debug_option
from scalefair.cli._options import Count, Finite
from scalefair.cli._output import check_destination, write_folder
from scalefair.cli._summary_tables import on_terminal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["demo"]

_TOL = 1e-4


@dataclass(frozen=True)
class Run:
    """One method's result on the demo's graph."""

    labels: NDArray[np.integer]
    details: dict[str, Any]


@click.command(short_help="Generate a graph and cluster it with and without fairness.")
@click.option(
    "--nodes",
    "n_nodes",
    type=Count(),
    default=100_000,
    show_default=True,
    help="Nodes of the graph.",
)
@click.option(
    "-k",
    "--n-clusters",
    type=Count(min=2),
    default=50,
    show_default=True,
    help="Planted clusters, and clusters sought.",
)
@click.option(
    "--groups-count",
    "n_groups",
    type=Count(min=2),
    default=5,
    show_default=True,
    help="Groups, of equal size in every planted cluster.",
)
@click.option(
    "--average-degree",
    type=Finite(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="Expected number of edges of a node.",
)
@click.option(
    "--output-dir",
    type=click.Path(readable=False, path_type=Path),
    default=Path("scalefair-demo"),
    show_default=True,
    help="Folder for labels.csv, report.json, report.html and figure.png; made if "
    "missing.",
)
@click.option(
    "--random-state",
    type=click.IntRange(min=0, max=2**32 - 1),
    default=0,
    show_default=True,
    help="Seed; the same seed gives the same graph and labels.",
)
@click.option("--quiet", is_flag=True, help="Nothing on stdout.")
@debug_option
@click.pass_context
def demo(
    ctx: click.Context,
    /,
    output_dir: Path,
    quiet: bool,
    random_state: int,
    **sizes: Any,
) -> None:
    """Cluster a block model of 100,000 nodes with and without fairness.

    The graph has planted clusters, each holding every group in equal number; its
    edges follow groups and clusters alike, and as many clusters as there are
    groups are looser than the others. A table compares the two
    clusterings; labels.csv, report.json, the same as a page with tables and figures
    in report.html and, with matplotlib, figure.png are written to the output
    folder. Exit codes are those of `scalefair --help`.
    """
    from rich.console import Console

    console = Console(quiet=quiet, highlight=False, soft_wrap=True)
    paths = _choose_paths(output_dir)
    show_progress = on_terminal() and not quiet

    data = _generate(console, random_state, sizes)
    console.print("compiling kernels (first run only) ...")
    _warm_up()
    k = sizes["n_clusters"]
    console.print(f"clustering into {k}, fairly ...")
    runs = {FAIR: _run_fair(data, k, random_state, show_progress)}
    console.print(f"clustering into {k}, without fairness ...")
    kept = runs[FAIR].labels >= 0
    runs[UNFAIR] = _run_unfair(data, kept, k, random_state)

    report = _report({**sizes, "random_state": random_state}, data, runs)
    writers = {
        paths["labels"]: lambda file: _write_labels(file, data, runs),
        **{
            paths[key]: _report_writer(paths[key], report) for key in ("report", "page")
        },
    }
    has_figure = importlib.util.find_spec("matplotlib") is not None
    if has_figure:
        from scalefair.cli._demo_figure import write_figure

        groups = data.sensitive_features
        panels = {name: run.labels for name, run in reversed(runs.items())}
        writers[paths["figure"]] = lambda file: write_figure(file, panels, groups)
    write_folder(output_dir, writers)
    print_summary(console, report, list(writers), has_figure)
    if not runs[FAIR].details["converged"]:
        ctx.exit(NOT_CONVERGED)


def cluster_without_fairness(
    matrix: Any, n_clusters: int, *, tol: float, random_state: int
) -> tuple[NDArray[np.integer], bool]:
    """Spectral clustering by the same solver and k-means, unconstrained.

    Returns
    -------
    labels : ndarray of shape (n,)
    converged : bool
    """
    from scalefair.cluster._kmeans import embedding_kmeans
    from scalefair.linalg import chebyshev
    from scalefair.operators import NormalizedAffinity

    operator = NormalizedAffinity(matrix)
    result = chebyshev(operator, n_clusters, tol=tol, random_state=random_state)
    labels = embedding_kmeans(
        result.vectors * operator.inv_sqrt_degrees[:, None],
        n_clusters,
        n_init=10,
        random_state=random_state,
    )
    return labels, result.converged


def _choose_paths(folder: Path) -> dict[str, Path]:
    """Return where the results go, checked; the folder is made when there are any."""
    names = {
        "labels": "labels.csv",
        "report": "report.json",
        "page": "report.html",
        "figure": "figure.png",
    }
    paths = {key: folder / name for key, name in names.items()}
    if folder.is_dir():
        for path in paths.values():
            check_destination(path)
    elif folder.exists():
        raise Failure(f"{folder}: is not a folder; choose another --output-dir.")
    else:
        check_destination(folder)  # the folder it is made in must be there
    return paths


def _generate(console: Any, random_state: int, sizes: dict[str, Any]) -> Any:
    from scalefair.datasets import make_fair_sbm

    console.print(
        f"generating a block model: {sizes['n_nodes']:,} nodes, "
        f"{sizes['n_clusters']} clusters, {sizes['n_groups']} groups ..."
    )
    try:
        data = make_fair_sbm(random_state=random_state, **sizes, **_edge_model(**sizes))
    except ValueError as error:
        message = str(error)
        for name, option in (
            ("n_nodes", "--nodes"),
            ("n_clusters", "-k"),
            ("n_groups", "--groups-count"),
            ("average_degree", "--average-degree"),
        ):
            message = message.replace(f"{name}=", f"{option} ").replace(name, option)
        raise click.UsageError(message) from error
    console.print(f"  {data.graph.nnz:,} stored entries")
    return data


def _edge_model(n_clusters: int, n_groups: int, **_: Any) -> dict[str, Any]:
    """Shares of a node's edges, and as many loose clusters as there are groups.

    Without constraints the groups take ``n_groups - 1`` of the eigenvectors, and
    those that tell the loose clusters apart are the ones that give way.
    """
    k, h = n_clusters, n_groups
    weights = (0.36, 0.34 / (k - 1), 0.25 / (h - 1), 0.05 / ((k - 1) * (h - 1)))
    cohesion = None
    if k >= 2 * h:
        cohesion = [0.4] * h + [1.0] * (k - h)
    return {"probabilities": weights, "cohesion": cohesion}


def _warm_up() -> None:
    """Compile what the timed runs use, on a graph large enough to use it."""
    from scalefair.cluster import FairSpectralClustering
    from scalefair.datasets import make_fair_sbm

    data = make_fair_sbm(
        1000, n_clusters=4, n_groups=2, average_degree=30, random_state=0
    )
    model = FairSpectralClustering(
        4, solver="chebyshev", connected_components="largest", random_state=0
    )
    model.fit(data.graph, sensitive_features=data.sensitive_features)


def _run_fair(data: Any, k: int, random_state: int, progress: bool) -> Run:
    from scalefair.cli._estimator import fit_model
    from scalefair.cli._memory import peak_memory, reset_peak_memory
    from scalefair.cli._report import describe_fit
    from scalefair.cluster import FairSpectralClustering

    model = FairSpectralClustering(
        k, tol=_TOL, connected_components="largest", random_state=random_state
    )
    own_peak = reset_peak_memory()
    seconds = fit_model(
        model,
        data.graph,
        data.sensitive_features,
        path="the block model",
        progress=progress,
    )
    details = {
        "seconds": seconds,
        "peak_memory_bytes": peak_memory(),
        "peak_memory_is_of_this_run": own_peak,
        **describe_fit(model),
    }
    return Run(model.labels_, details)


def _run_unfair(data: Any, kept: Any, k: int, random_state: int) -> Run:
    import numpy as np

    from scalefair.cli._memory import peak_memory, reset_peak_memory

    own_peak = reset_peak_memory()
    start = time.perf_counter()
    matrix = data.graph if kept.all() else data.graph[kept][:, kept]
    found, converged = cluster_without_fairness(
        matrix, k, tol=_TOL, random_state=random_state
    )
    seconds = time.perf_counter() - start
    labels = np.full(kept.size, -1, dtype=found.dtype)
    labels[kept] = found
    details = {
        "seconds": seconds,
        "peak_memory_bytes": peak_memory(),
        "peak_memory_is_of_this_run": own_peak,
        "converged": converged,
    }
    return Run(labels, details)


def _report(
    parameters: dict[str, Any], data: Any, runs: dict[str, Run]
) -> dict[str, Any]:
    from sklearn.metrics import adjusted_rand_score

    from scalefair.cli._report import describe_run, measure

    kept = runs[FAIR].labels >= 0
    methods = {
        name: {
            **run.details,
            "agreement_with_planted": adjusted_rand_score(
                data.target[kept], run.labels[kept]
            ),
            **measure(data.graph, run.labels, data.sensitive_features),
        }
        for name, run in runs.items()
    }
    return {
        **describe_run("demo", {**parameters, "tol": _TOL}),
        "input": {
            "n_nodes": data.graph.shape[0],
            "n_stored_entries": int(data.graph.nnz),
            "n_nodes_left_out": int((~kept).sum()),
        },
        "methods": methods,
    }


def _write_labels(file: BinaryIO, data: Any, runs: dict[str, Run]) -> None:
    header = ["node", "group", "planted", "fair_label", "unfair_label"]
    columns = (
        data.sensitive_features,
        data.target,
        runs[FAIR].labels,
        runs[UNFAIR].labels,
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    write_table(file, header, ((node, *row) for node, row in enumerate(rows)))


def _report_writer(path: Path, report: dict[str, Any]) -> Callable[[BinaryIO], object]:
    from scalefair.cli._report import write_report

    return lambda file: write_report(file, path, report)
