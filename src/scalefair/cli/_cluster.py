"""``scalefair cluster``: fair clusters of a graph in a file."""

from __future__ import annotations

import csv
import io
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from scalefair.cli._errors import NOT_CONVERGED, debug_option
from scalefair.cli._output import check_destination, write_files

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from scalefair.cli._graph import Graph

__all__ = ["cluster"]

# Readable or not is for the readers to say, in one line.
_PATH = click.Path(readable=False, path_type=Path)

_FORMATS = """\b
GRAPH formats:
  .npz               scipy.sparse.save_npz
  .mtx               Matrix Market
  .csv .tsv .txt     edge list: `source target [weight]` per line, delimited
  .edges             by comma, tab or white space; # and % start comments
  (.gz may be added to all but .npz)
\b
Node ids of an edge list are arbitrary; an edge may be listed once or in both
directions (with the same weight) and counts once; a self-loop is kept. For
.npz and .mtx the ids are the row numbers from 0.
\b
The groups file holds a line `id,group` per node (comma, tab or white space;
.gz may be added). For .npz and .mtx it may also be a single column, or a .npy
array, in the order of the rows.
\b
The output is a csv file `id,label` in the order in which GRAPH first names the
nodes; labels count from 0, and -1 marks nodes left out by --components.
\b
Exit codes: 0 done, 1 bad data (nothing is written), 2 wrong usage,
3 not converged (results are written), 70 internal error, 130 interrupted.
"""


@click.command(epilog=_FORMATS, short_help="Cluster the nodes of a graph fairly.")
@click.argument("graph", type=_PATH)
@click.option(
    "--groups",
    "groups_file",
    required=True,
    type=_PATH,
    help="File with the group of each node.",
)
@click.option(
    "-k",
    "--n-clusters",
    required=True,
    type=click.IntRange(min=1),
    help="Number of clusters.",
)
@click.option(
    "-o",
    "--output",
    required=True,
    type=_PATH,
    help="File to write the labels to (csv).",
)
@click.option(
    "--report",
    "report_file",
    type=_PATH,
    help="File to write a report to (JSON).",
)
@click.option(
    "--solver",
    type=click.Choice(["auto", "nullspace", "lanczos", "chebyshev"]),
    default="auto",
    show_default=True,
    help="How the eigenvectors are computed; nullspace is for small graphs.",
)
@click.option(
    "--tol",
    type=click.FloatRange(min=0, min_open=True),
    default=1e-4,
    show_default=True,
    help="Residual at which an eigenvector is accepted.",
)
@click.option(
    "--max-iter",
    type=click.IntRange(min=1),
    help="Most iterations of the solver.  [default: the solver's]",
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float64"]),
    default="float64",
    show_default=True,
    help="Type the solver works in; float32 is faster and takes half the memory.",
)
@click.option(
    "--n-init",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Starts of k-means.",
)
@click.option(
    "--components",
    type=click.Choice(["raise", "largest", "all"]),
    default="raise",
    show_default=True,
    help="If the graph is not connected: stop with an error, cluster the largest "
    "component, or cluster all nodes that have an edge.",
)
@click.option(
    "--random-state",
    type=click.IntRange(min=0, max=2**32 - 1),
    default=0,
    show_default=True,
    help="Seed; the same seed gives the same labels.",
)
@click.option(
    "--header/--no-header",
    default=None,
    help="Whether an edge list starts with a header.  [default: well-known headers "
    "are recognised]",
)
@click.option(
    "--groups-header/--no-groups-header",
    default=None,
    help="The same for the groups file.",
)
@click.option("--quiet", is_flag=True, help="Nothing on stdout, even on a terminal.")
@debug_option
@click.pass_context
def cluster(
    ctx: click.Context,
    /,
    graph: Path,
    groups_file: Path,
    n_clusters: int,
    output: Path,
    report_file: Path | None,
    header: bool | None,
    groups_header: bool | None,
    quiet: bool,
    components: str,
    **parameters: Any,
) -> None:
    """Cluster the nodes of GRAPH so that every cluster mirrors the population.

    On a terminal a progress bar and a summary are shown; in a pipe nothing is
    printed but errors and warnings, on stderr.
    """
    _check_destinations(output, report_file, (graph, groups_file))
    parameters = {
        "n_clusters": n_clusters,
        **parameters,
        "connected_components": components,
    }
    show = sys.stdout.isatty() and not quiet

    start = time.perf_counter()
    loaded, groups = _read(graph, groups_file, header, groups_header)
    seconds = {"read": time.perf_counter() - start}
    # Imported between the two clocks: it is neither reading nor fitting.
    from scalefair.cli._estimator import fit_model
    from scalefair.cli._memory import peak_memory
    from scalefair.cli._report import (
        describe_fit,
        describe_input,
        describe_run,
        measure,
        write_json,
    )
    from scalefair.cluster import FairSpectralClustering

    model = FairSpectralClustering(**parameters)
    seconds["fit"] = fit_model(model, loaded.matrix, groups, path=graph, progress=show)
    report = {
        **describe_run("cluster", parameters),
        "input": {
            "groups_file": str(groups_file),
            **describe_input(loaded, groups, model.labels_),
        },
        "seconds": seconds,
        **describe_fit(model),
        **measure(loaded.matrix, model.labels_, groups),
        "peak_memory_bytes": peak_memory(),
    }
    writers = {output: lambda file: write_labels(file, loaded.node_ids, model.labels_)}
    if report_file is not None:
        writers[report_file] = lambda file: write_json(file, report)
    write_files(writers)
    if show:
        _print_summary(report, output, report_file)
    if not model.converged_:
        ctx.exit(NOT_CONVERGED)


def write_labels(
    file: BinaryIO, node_ids: NDArray[Any], labels: NDArray[np.integer]
) -> None:
    """Write csv lines ``id,label`` below a header."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["id", "label"])
    writer.writerows(zip(node_ids.tolist(), labels.tolist(), strict=True))
    text.detach()  # flushes, and leaves the file open


def _check_destinations(
    output: Path, report_file: Path | None, inputs: tuple[Path, ...]
) -> None:
    check_destination(output, inputs=inputs)
    if report_file is not None:
        check_destination(report_file, inputs=inputs)
        if report_file.resolve() == output.resolve():
            raise click.UsageError("--output and --report name the same file.")


def _read(
    graph_file: Path,
    groups_file: Path,
    header: bool | None,
    groups_header: bool | None,
) -> tuple[Graph, NDArray[Any]]:
    from scalefair.cli._graph_readers import read_graph
    from scalefair.cli._group_reader import read_groups

    graph = read_graph(graph_file, header=header)
    groups, n_unknown = read_groups(groups_file, graph, header=groups_header)
    if n_unknown:
        click.echo(
            f"note: {groups_file}: {n_unknown} id(s) are not in {graph_file} and were "
            "ignored (nodes without an edge cannot be clustered).",
            err=True,
        )
    return graph, groups


def _print_summary(
    report: dict[str, Any], output: Path, report_file: Path | None
) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    left_out = report["input"]["n_nodes_left_out"]
    rows = [
        ("nodes", f"{report['input']['n_nodes']:,}"),
        ("edges", f"{report['input']['n_edges']:,}"),
        ("nodes left out", f"{left_out:,}" if left_out else None),
        ("clusters", f"{len(report['clusters'])}"),
        ("average balance", f"{report['balance_mean']:.3f}"),
        ("minimum balance", f"{report['balance_min']:.3f}"),
        ("normalized cut", f"{report['normalized_cut']:.4f}"),
        ("solver", f"{report['solver']}, {report['n_iter']} iterations"),
        ("time", f"{report['seconds']['fit']:.1f} s"),
        ("labels", str(output)),
        ("report", None if report_file is None else str(report_file)),
    ]
    for name, value in rows:
        if value is not None:
            table.add_row(name, Text(value))
    Console().print(table)
