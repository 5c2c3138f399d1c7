"""``scalefair cluster``: fair clusters of a graph, or of rows, in a file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from scalefair.cli._cluster_options import CONDITIONS, cluster_options
from scalefair.cli._csv_file import write_table
from scalefair.cli._errors import EXIT_CODES, NOT_CONVERGED, debug_option, note
from scalefair.cli._options import SectionedCommand, parameters_in_force
from scalefair.cli._output import name_outputs, write_files
from scalefair.cli._summary_tables import on_terminal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from scalefair.cli._nodes import Nodes

__all__ = ["cluster"]

_EPILOG = f"""\b
Affinities:
  precomputed        DATA is a graph with weights that grow with similarity
  nearest_neighbors  DATA are rows of features; their k-nearest-neighbour graph
  rbf                rows; Gaussian kernel, exact, computed anew in every product
  rbf_nystroem       rows; low-rank approximation of it, for 100,000 and more
\b
Rows are compared by Euclidean distances: scale the features before.
\b
DATA formats, a graph:
  .npz               scipy.sparse.save_npz
  .mtx               Matrix Market
  .csv .tsv .txt     edge list: `source target [weight]` per line, delimited
  .edges             by comma, tab or white space; # and % start comments
\b
DATA formats, rows:
  .npy               two-dimensional array of numpy.save
  .csv .tsv .txt     numbers, delimited by comma, tab or white space, with or
                     without a header and a column of ids
  .npz               scipy.sparse.save_npz (nearest_neighbors only)
\b
.gz may be added to all but .npz and .npy.
\b
Node ids of an edge list are arbitrary; an edge may be listed once or in both
directions (with the same weight) and counts once; a self-loop is kept. For
matrices, arrays and tables without ids the ids are the row numbers from 0.
\b
The groups file holds a line `id,group` per node (comma, tab or white space;
.gz may be added). Unless DATA is an edge list it may also be a single column,
or a .npy array, in the order of the rows.
\b
The output is a csv file `id,label` in the order in which DATA first names the
nodes; labels count from 0, and -1 marks nodes left out by --components.
\b
Solvers:
  auto       nullspace up to 100 nodes or for very many clusters, else chebyshev
  chebyshev  polynomial filter on blocks of vectors: the fastest as a rule
  lobpcg     multigrid, for grids and neighbour graphs; not for kernels
  lanczos    one vector at a time (ARPACK), s-FSC
  dual       one minimisation by L-BFGS, to the same result
  nullspace  dense and exact, up to a few thousand nodes, o-FSC
  admm       ADMM of Tonin et al. (2025), under another constraint: for comparison
\b
{EXIT_CODES}
"""


@click.command(
    cls=SectionedCommand,
    epilog=_EPILOG,
    short_help="Cluster the nodes of a graph, or rows, fairly.",
)
@click.argument("data", type=click.Path(readable=False, path_type=Path))
@cluster_options
@debug_option
@click.pass_context
def cluster(
    ctx: click.Context,
    /,
    data: Path,
    groups_file: Path,
    output: Path,
    report_file: Path | None,
    header: bool | None,
    id_column: str | None,
    groups_header: bool | None,
    quiet: bool,
    **parameters: Any,
) -> None:
    """Cluster DATA so that every cluster mirrors the population.

    DATA is a graph or, with another --affinity than precomputed, rows of features.
    On a terminal a progress bar and a summary are shown; in a pipe nothing is
    printed but errors and warnings, on stderr.
    """
    parameters = parameters_in_force(ctx, parameters, CONDITIONS)
    name_outputs(
        {"output": (output, ""), "report": (report_file, "")}, (data, groups_file)
    )
    show = on_terminal() and not quiet

    start = time.perf_counter()
    loaded, groups = _read(
        data, groups_file, parameters["affinity"], header, id_column, groups_header
    )
    seconds = {"read": time.perf_counter() - start}
    # Imported between the two clocks: it is neither reading nor fitting.
    from scalefair.cli._estimator import fit_model
    from scalefair.cli._memory import peak_memory
    from scalefair.cli._report import (
        describe_fit,
        describe_input,
        describe_run,
        measure,
        write_report,
    )
    from scalefair.cluster import FairSpectralClustering

    model = FairSpectralClustering(**parameters)
    seconds["fit"] = fit_model(model, loaded.matrix, groups, path=data, progress=show)
    report = {
        **describe_run("cluster", parameters),
        "input": {
            "groups_file": str(groups_file),
            **describe_input(loaded, groups, model.labels_),
        },
        "seconds": seconds,
        **describe_fit(model),
        **measure(model.affinity_matrix_, model.labels_, groups),
        "peak_memory_bytes": peak_memory(),
    }
    writers = {output: lambda file: write_labels(file, loaded.node_ids, model.labels_)}
    if report_file is not None:
        writers[report_file] = lambda file: write_report(file, report_file, report)
    write_files(writers)
    if show:
        from scalefair.cli._cluster_summary import print_summary

        print_summary(report, output, report_file)
    if not model.converged_:
        ctx.exit(NOT_CONVERGED)


def write_labels(
    file: BinaryIO, node_ids: NDArray[Any], labels: NDArray[np.integer]
) -> None:
    """Write csv lines ``id,label`` below a header."""
    rows = zip(node_ids.tolist(), labels.tolist(), strict=True)
    write_table(file, ["id", "label"], rows)


def _read(
    path: Path,
    groups_file: Path,
    affinity: str,
    header: bool | None,
    id_column: str | None,
    groups_header: bool | None,
) -> tuple[Nodes, NDArray[Any]]:
    from scalefair.cli._group_reader import read_groups

    loaded = _read_data(path, affinity, header, id_column)
    groups, n_unknown = read_groups(groups_file, loaded, header=groups_header)
    if n_unknown:
        # Edge lists name only nodes that have an edge.
        reason = " (nodes without an edge cannot be clustered)"
        note(
            f"{groups_file}: {n_unknown} id(s) are not in {path} and were "
            f"ignored{'' if loaded.ordered else reason}."
        )
    return loaded, groups


def _read_data(
    path: Path, affinity: str, header: bool | None, id_column: str | None
) -> Nodes:
    if affinity == "precomputed":
        from scalefair.cli._graph_readers import read_graph

        return read_graph(path, header=header)
    from scalefair.cli._row_readers import read_rows

    return read_rows(path, affinity=affinity, header=header, id_column=id_column)
