"""The options of ``scalefair cluster``, in sections, and which go together."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

__all__ = ["SectionedCommand", "cluster_options", "parameters_in_force"]

Command = TypeVar("Command", bound=Callable[..., Any])

# Pinned by a test to the estimator's, which takes a second to import.
_AFFINITIES = ("precomputed", "nearest_neighbors", "rbf", "rbf_nystroem")
_SOLVERS = (
    "auto",
    "nullspace",
    "lanczos",
    "chebyshev",
    "lobpcg",
    "dual",
    "admm",
)
_KERNELS = ("rbf", "rbf_nystroem")
_GRAPHS = ("precomputed", "nearest_neighbors")
_ROWS = ("nearest_neighbors", *_KERNELS)

# Options that mean something only with some values of another one.
_CONDITIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "id_column": ("affinity", _ROWS),
    "n_neighbors": ("affinity", ("nearest_neighbors",)),
    "gamma": ("affinity", _KERNELS),
    "n_landmarks": ("affinity", ("rbf_nystroem",)),
    "connected_components": ("affinity", _GRAPHS),
    "balance_tolerance": ("assign_labels", ("fair",)),
}

# Readable or not is for the readers to say, in one line.
_PATH = click.Path(readable=False, path_type=Path)


class _Finite(click.FloatRange):
    """Range of floats without infinity and NaN."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{number} is not a finite number.", param, ctx)
        return number


class _Option(click.Option):
    """Option listed in a section of the help."""

    def __init__(self, *args: Any, section: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


class SectionedCommand(click.Command):
    """Command whose help lists options in sections."""

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the sections in the order of their first options."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            # Arguments are described in the text above the options.
            is_option = isinstance(param, click.Option)
            record = param.get_help_record(ctx) if is_option else None
            if record is not None:
                section = getattr(param, "section", "Other options")
                sections.setdefault(section, []).append(record)
        for name, records in sections.items():
            with formatter.section(name):
                formatter.write_dl(records)


def cluster_options(command: Command) -> Command:
    """Add all options, so that the help lists them in this order."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def parameters_in_force(
    ctx: click.Context, parameters: dict[str, Any]
) -> dict[str, Any]:
    """Drop the options that do not apply, after checking that none was given.

    Raises
    ------
    click.UsageError
        If an option was given that does not apply to the values of the others.
    """
    kept = dict(parameters)
    names = {param.name: param.opts[-1] for param in ctx.command.params}
    for name, (other, values) in _CONDITIONS.items():
        if ctx.params[other] in values:
            continue
        if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise click.UsageError(
                f"{names[name]} applies to {names[other]} {_enumerate(values)} only, "
                f"not to {names[other]} {ctx.params[other]}.",
                ctx,
            )
        kept.pop(name, None)
    return kept


def _enumerate(values: tuple[str, ...]) -> str:
    *others, last = values
    return f"{', '.join(others)} or {last}" if others else last


def _option(section: str, *declarations: str, **attributes: Any) -> Any:
    return click.option(*declarations, cls=_Option, section=section, **attributes)


_OPTIONS = (
    _option(
        "Required",
        "--groups",
        "groups_file",
        required=True,
        type=_PATH,
        help="File with the group of each node.",
    ),
    _option(
        "Required",
        "-k",
        "--n-clusters",
        required=True,
        type=click.IntRange(min=1),
        help="Number of clusters.",
    ),
    _option(
        "Required",
        "-o",
        "--output",
        required=True,
        type=_PATH,
        help="File to write the labels to (csv).",
    ),
    _option(
        "Affinity",
        "--affinity",
        type=click.Choice(_AFFINITIES),
        default="precomputed",
        show_default=True,
        help="What DATA holds and how it is compared, see below.",
    ),
    _option(
        "Affinity",
        "--n-neighbors",
        type=click.IntRange(min=1),
        default=10,
        show_default=True,
        help="Neighbours of a row (nearest_neighbors).",
    ),
    _option(
        "Affinity",
        "--gamma",
        type=_Finite(min=0, min_open=True),
        help="Factor of the squared distances (rbf, rbf_nystroem).  [default: 1 / "
        "number of features]",
    ),
    _option(
        "Affinity",
        "--n-landmarks",
        type=click.IntRange(min=1),
        default=500,
        show_default=True,
        help="Rank of the approximation (rbf_nystroem).",
    ),
    _option(
        "Affinity",
        "--components",
        "connected_components",
        type=click.Choice(["raise", "largest", "all"]),
        default="raise",
        show_default=True,
        help="If the graph is not connected: stop with an error, cluster the largest "
        "component, or cluster all nodes that have an edge (precomputed, "
        "nearest_neighbors).",
    ),
    _option(
        "Eigenvectors",
        "--solver",
        type=click.Choice(_SOLVERS),
        default="auto",
        show_default=True,
        help="How the eigenvectors are computed, see below.",
    ),
    _option(
        "Eigenvectors",
        "--tol",
        type=_Finite(min=0, min_open=True),
        default=1e-4,
        show_default=True,
        help="Residual at which an eigenvector is accepted.",
    ),
    _option(
        "Eigenvectors",
        "--max-iter",
        type=click.IntRange(min=1),
        help="Most iterations of the solver.  [default: the solver's]",
    ),
    _option(
        "Eigenvectors",
        "--dtype",
        type=click.Choice(["float32", "float64"]),
        default="float64",
        show_default=True,
        help="Type the solver works in; float32 is faster and takes half the memory.",
    ),
    _option(
        "Clusters",
        "--assign-labels",
        type=click.Choice(["kmeans", "fair"]),
        default="kmeans",
        show_default=True,
        help="k-means on the eigenvectors; or k-means, then moves of nodes at the "
        "least cost until every cluster is balanced.",
    ),
    _option(
        "Clusters",
        "--balance-tolerance",
        type=_Finite(min=0),
        default=0.1,
        show_default=True,
        help="Largest deviation of a group's share in a cluster, relative to its share "
        "in the population (--assign-labels fair).",
    ),
    _option(
        "Clusters",
        "--n-init",
        type=click.IntRange(min=1),
        default=10,
        show_default=True,
        help="Starts of k-means.",
    ),
    _option(
        "Clusters",
        "--random-state",
        type=click.IntRange(min=0, max=2**32 - 1),
        default=0,
        show_default=True,
        help="Seed; the same seed gives the same labels.",
    ),
    _option(
        "Files",
        "--report",
        "report_file",
        type=_PATH,
        help="File to write a report to (JSON).",
    ),
    _option(
        "Files",
        "--header/--no-header",
        default=None,
        help="Whether an edge list or table starts with a header.  [default: "
        "well-known headers of edge lists, and first lines without a number, are "
        "recognised]",
    ),
    _option(
        "Files",
        "--id-column",
        metavar="NAME",
        help="Column of a table that holds the ids of the rows; without a header its "
        "number, from 1.  [default: a first column named id, node_id, user_id ...]",
    ),
    _option(
        "Files",
        "--groups-header/--no-groups-header",
        default=None,
        help="Whether the groups file starts with a header.  [default: well-known "
        "headers are recognised]",
    ),
    _option(
        "Other options",
        "--quiet",
        is_flag=True,
        help="Nothing on stdout, even on a terminal.",
    ),
)
