"""The options of ``scalefair pca``, in sections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from scalefair.cli._memory_limit import memory_limit_option
from scalefair.cli._options import (
    PATH,
    QUIET,
    REPORT,
    Count,
    Finite,
    add_options,
    option,
)

__all__ = ["pca_options"]

Command = TypeVar("Command", bound=Callable[..., Any])

# Pinned by a test to the estimator's, which takes a second to import.
_SOLVERS = ("auto", "gram", "matrix_free")
_CENTERINGS = ("global", "group")


def pca_options(command: Command) -> Command:
    """Add all options, so that the help lists them in this order."""
    return add_options(command, _OPTIONS)


_OPTIONS = (
    option(
        "Required",
        "--groups",
        required=True,
        metavar="COLUMN|FILE",
        help="Column of DATA with the group of each row, which is then no feature; or "
        "a file of groups.",
    ),
    option(
        "Required",
        "-r",
        "--components",
        "n_components",
        required=True,
        type=Count(),
        help="Number of components.",
    ),
    option(
        "Required",
        "-o",
        "--output",
        required=True,
        type=PATH,
        help="File to write the components to (npz), see below.",
    ),
    option(
        "Components",
        "--standardize",
        is_flag=True,
        help="Divide each feature by its standard deviation over all rows (divisor "
        "rows - 1): for features in different units.  [default: features as they are]",
    ),
    option(
        "Components",
        "--centering",
        type=click.Choice(_CENTERINGS),
        default="global",
        show_default=True,
        help="What is subtracted before losses are computed: the mean of all rows, or "
        "of each group.",
    ),
    option(
        "Components",
        "--solver",
        type=click.Choice(_SOLVERS),
        default="auto",
        show_default=True,
        help="How they are computed, see below.",
    ),
    option(
        "Components",
        "--tol",
        type=Finite(min=0, min_open=True),
        default=1e-8,
        show_default=True,
        help="Bound on the error of the largest loss, relative to the loss.",
    ),
    option(
        "Components",
        "--max-iter",
        type=Count(),
        default=100,
        show_default=True,
        help="Most evaluations of the dual, an eigenproblem each.",
    ),
    option(
        "Components",
        "--random-state",
        type=click.IntRange(min=0, max=2**32 - 1),
        default=0,
        show_default=True,
        help="Seed of the starting vectors (matrix_free).",
    ),
    option(
        "Columns",
        "--drop",
        multiple=True,
        metavar="COLUMN",
        help="Column of a table to leave out; may be given several times.",
    ),
    option(
        "Columns",
        "--keep-groups",
        is_flag=True,
        help="Keep the column of the groups as a feature; it must hold numbers.",
    ),
    option(
        "Columns",
        "--id-column",
        metavar="COLUMN",
        help="Column of a table with the ids of the rows, by which a file of groups "
        "may name them; no feature.  [default: a first column named id, node_id, "
        "user_id ...]",
    ),
    option(
        "Columns",
        "--header/--no-header",
        default=None,
        help="Whether a table of text starts with a header. Without one columns are "
        "given by number, from 1.  [default: a first line without a number is one]",
    ),
    option(
        "Files",
        "--groups-header/--no-groups-header",
        default=None,
        help="Whether the file of groups starts with a header.  [default: well-known "
        "headers are recognised]",
    ),
    option(
        "Files",
        "--scores",
        "scores_file",
        type=PATH,
        help="File to write the rows' coordinates to (npy, rows x components).",
    ),
    REPORT,
    memory_limit_option(
        "Of tables not more than this is kept in memory.  [default: half of the memory "
        "that is available; 256 MiB of tables]"
    ),
    QUIET,
)
