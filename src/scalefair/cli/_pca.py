"""``scalefair pca``: fair principal components of the rows in a file."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scalefair.cli._errors import EXIT_CODES, NOT_CONVERGED, Failure, debug_option, note
from scalefair.cli._options import SectionedCommand
from scalefair.cli._output import name_outputs, write_files
from scalefair.cli._pca_options import pca_options
from scalefair.cli._summary_tables import on_terminal

if TYPE_CHECKING:
    from scalefair.cli._feature_reader import FeatureRows
    from scalefair.cli._pca_fit import Fitted

__all__ = ["pca"]

_EPILOG = f"""\b
DATA formats:
  .csv .tsv .txt     numbers, delimited by comma, tab or white space, with or
                     without a header; .gz may be added
  .parquet           named columns; needs pip install "scalefair[data]"
  .npy               two-dimensional array of numpy.save, read in place
  .npz               scipy.sparse.save_npz; stays sparse
\b
All of them may be larger than the memory. Arrays beyond --memory-limit are
read in blocks, anew in each pass; the solver gram makes one pass (and one
more with --standardize), matrix_free many. In .npz files they must be CSR
matrices, in files saved with compressed=False they are read fastest. Tables
beyond it (8 bytes a number), and with --standardize smaller .npy files, are
kept in a temporary file in the folder of the output until the end.
\b
A name given by --groups is looked for among the columns of DATA first; write
./NAME for a file of that name. A file of groups holds the group of each row,
one per line in the order of the rows, or lines `id,group` (comma, tab or white
space; .gz may be added), or is a .npy array. Ids are row numbers from 0, or
those of --id-column.
\b
Loss: by how much the components reconstruct the rows of a group worse than
this group's own best components would; mean squared distance per row, in
squared units of the features (without unit if standardized). Fair components
make the largest loss of a group as small as possible. The duality gap bounds
what is missing: no components have a largest loss that is smaller by more.
\b
The output (numpy.load) holds the arrays components, mean, scale,
explained_variance, feature_names; groups, group_counts, group_losses,
group_reconstruction_errors, dual_weights, in the same order; duality_gap;
with gram also pca_group_losses, the losses under plain components.
Coordinates of rows X are ((X - mean) / scale) @ components.T.
\b
Solvers:
  auto         the faster one, by an estimate
  gram         one pass sums up products of features; for few features
  matrix_free  products with the rows only; for many features, or sparse rows
\b
{EXIT_CODES}
"""


@click.command(
    cls=SectionedCommand,
    epilog=_EPILOG,
    short_help="Find principal components that are fair to groups.",
)
@click.argument("data", type=click.Path(readable=False, path_type=Path))
@pca_options
@debug_option
@click.pass_context
def pca(
    ctx: click.Context,
    /,
    data: Path,
    groups: str,
    output: Path,
    scores_file: Path | None,
    report_file: Path | None,
    standardize: bool,
    quiet: bool,
    header: bool | None,
    id_column: str | None,
    drop: tuple[str, ...],
    keep_groups: bool,
    groups_header: bool | None,
    memory_limit: int | None,
    **parameters: Any,
) -> None:
    """Find components of the rows in DATA that lose equally much for all groups.

    On a terminal a progress bar and a summary are shown; in a pipe nothing is
    printed but errors and warnings, on stderr.
    """
    outputs = {
        "output": (output, ".npz"),
        "scores": (scores_file, ".npy"),
        "report": (report_file, ""),
    }
    written = name_outputs(outputs, (data, Path(groups)))
    show = on_terminal() and not quiet
    folder = Path(os.path.realpath(output)).parent

    start = time.perf_counter()
    from scalefair.cli._feature_reader import read_features
    from scalefair.cli._memory_limit import array_limit

    rows = read_features(
        data,
        groups,
        folder=folder,
        header=header,
        id_column=id_column,
        drop=drop,
        keep_groups=keep_groups,
        groups_header=groups_header,
        limit=array_limit(memory_limit),
        table_limit=memory_limit,
    )
    _note_unknown(rows)
    seconds = {"read": time.perf_counter() - start}
    # Imported between the two clocks: it is neither reading nor fitting.
    from scalefair.cli._passes import watch_passes
    from scalefair.cli._pca_fit import fit_components

    with watch_passes({data.name: rows.matrix}, show=show):
        try:
            fitted = fit_components(
                rows,
                parameters,
                standardized=standardize,
                folder=folder,
                limit=memory_limit,
                progress=show,
            )
        except MemoryError as error:
            raise Failure(
                f"{data}: not enough memory ({error}). Use --solver matrix_free, fewer "
                "components, or fewer features (--drop)."
            ) from error
        seconds["fit"] = fitted.seconds
        options = {**parameters, "standardize": standardize}
        report = _describe(rows, fitted, options, seconds)
        _write(written, fitted, report)
    if show:
        from scalefair.cli._pca_summary import print_summary

        print_summary(report, written)
    if not fitted.model.converged_:
        ctx.exit(NOT_CONVERGED)


def _describe(
    rows: FeatureRows,
    fitted: Fitted,
    options: dict[str, Any],
    seconds: dict[str, float],
) -> dict[str, Any]:
    """Content of the report."""
    from scalefair.cli._memory import peak_memory
    from scalefair.cli._pca_report import (
        describe_components,
        describe_groups,
        describe_rows,
    )
    from scalefair.cli._report import describe_run

    return {
        **describe_run("pca", options),
        "input": {**describe_rows(rows), "groups_from": rows.groups_from},
        "seconds": seconds,
        **describe_components(fitted.model, fitted.plain, fitted.counts),
        "groups": describe_groups(fitted.model, fitted.plain, fitted.counts),
        "peak_memory_bytes": peak_memory(),
    }


def _write(written: dict[str, Path], fitted: Fitted, report: dict[str, Any]) -> None:
    from scalefair.cli._pca_output import write_arrays, write_scores
    from scalefair.cli._report import write_report

    contents = {
        "output": lambda file: write_arrays(file, fitted.arrays),
        "scores": lambda file: write_scores(
            file, fitted.model, fitted.matrix, Path(report["input"]["rows"])
        ),
        "report": lambda file: write_report(file, written["report"], report, fitted),
    }
    write_files({path: contents[name] for name, path in written.items()})


def _note_unknown(rows: FeatureRows) -> None:
    if rows.n_unknown:
        note(
            f"{rows.groups_from}: {rows.n_unknown} id(s) are not in {rows.path} and "
            "were ignored."
        )
