"""The options of ``scalefair regress``, in sections, and which go together."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from scalefair.cli._options import (
    PATH,
    QUIET,
    REPORT,
    Count,
    Finite,
    ParamType,
    add_options,
    option,
)

__all__ = ["CONDITIONS", "regress_options"]

Command = TypeVar("Command", bound=Callable[..., Any])

# Pinned by a test to the estimator's, which takes a second to import.
_METHODS = ("direct", "explainable_svd")
_FIRST_MOMENTS = ("exact", "svd")
_REFITS = ("least_squares", "gradient", "none")

# Options that mean something only with some values of another one.
CONDITIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "epsilon": ("first_moment", ("svd",)),
    "first_moment": ("method", ("explainable_svd",)),
}

_POSITION = re.compile(r"[+-]?[0-9]{1,9}", re.ASCII)


class Reduction(click.FloatRange):
    """Factor of at least 1, infinity included."""

    name = "factor"

    def __init__(self) -> None:
        super().__init__(min=1)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail("NaN is not a number.", param, ctx)
        return number


class Layer(ParamType):
    """Position of a layer, an integer, or its name."""

    name = "layer"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        return int(value) if _POSITION.fullmatch(str(value)) else value


def regress_options(command: Command) -> Command:
    """Add all options, so that the help lists them in this order."""
    return add_options(command, _OPTIONS)


_OPTIONS = (
    option(
        "Required",
        "--target",
        metavar="COLUMN|FILE",
        help="Column of TRAIN with the number to be predicted, or a file of numbers. "
        "Not for svmlight files, whose lines start with it.",
    ),
    option(
        "Required",
        "--groups",
        required=True,
        metavar="COLUMN|FILE",
        help="Column of TRAIN with the group of each row, or a file of groups. In "
        "svmlight files the number of a feature.",
    ),
    option(
        "Required",
        "-o",
        "--output",
        required=True,
        type=PATH,
        help="File to write the changed model to (joblib), see below.",
    ),
    option(
        "Layer",
        "--layer",
        type=Layer(),
        default="-2",
        show_default=True,
        metavar="NUMBER|NAME|auto",
        help="Linear layer that is changed: counted from 0 or, from the end, from -1; "
        "its name; or auto for the one that treats groups most differently. A linear "
        "model has one only.",
    ),
    option(
        "Layer",
        "--method",
        type=click.Choice(_METHODS),
        default="direct",
        show_default=True,
        help="How it is changed, see below.",
    ),
    option(
        "Layer",
        "--mean-reduction",
        type=Reduction(),
        default=15.0,
        show_default=True,
        help="Factor by which the squared gap of the means is reduced; 1 leaves it, "
        "inf closes it.",
    ),
    option(
        "Layer",
        "--covariance-reduction",
        type=Reduction(),
        default=150.0,
        show_default=True,
        help="The same for the squared gap of the covariances.",
    ),
    option(
        "Layer",
        "--first-moment",
        type=click.Choice(_FIRST_MOMENTS),
        default="exact",
        show_default=True,
        help="Smallest change for the means, or the paper's (explainable_svd).",
    ),
    option(
        "Layer",
        "--epsilon",
        type=Finite(min=0, min_open=True),
        default=1e-5,
        show_default=True,
        help="Ridge of the paper's first moment (svd).",
    ),
    option(
        "Layer",
        "--rank",
        type=Count(),
        help="Directions in which covariances are compared: the most different ones, "
        "for wide layers.  [default: all]",
    ),
    option(
        "Layer",
        "--refit",
        type=click.Choice(_REFITS),
        default="least_squares",
        show_default=True,
        help="How the last layer is fitted again to the target.",
    ),
    option(
        "Layer",
        "--random-state",
        type=click.IntRange(min=0, max=2**32 - 1),
        default=0,
        show_default=True,
        help="Seed of the rows by which layers are compared, and of --rank.",
    ),
    option(
        "Columns",
        "--drop",
        multiple=True,
        metavar="COLUMN",
        help="Column of a table, or number of a feature, to leave out; may be given "
        "several times. Not if MODEL names its columns.",
    ),
    option(
        "Columns",
        "--categorical",
        multiple=True,
        metavar="COLUMN",
        help="Column whose numbers are words; may be given several times. Columns "
        "with words need no option.",
    ),
    option(
        "Columns",
        "--keep-groups",
        is_flag=True,
        help="The column of the groups is a feature too. Not needed if MODEL names "
        "its columns.",
    ),
    option(
        "Columns",
        "--id-column",
        metavar="COLUMN",
        help="Column of a table with the ids of the rows, by which files of targets "
        "or groups may name them.  [default: a first column named id, node_id, "
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
        "Test",
        "--test",
        "test_file",
        type=PATH,
        metavar="TEST",
        help="Other rows in the format of TRAIN, on which both models are measured.",
    ),
    option(
        "Test",
        "--test-target",
        metavar="COLUMN|FILE",
        help="Their targets.  [default: the same column]",
    ),
    option(
        "Test",
        "--test-groups",
        metavar="COLUMN|FILE",
        help="Their groups.  [default: the same column]",
    ),
    option(
        "Files",
        "--svmlight",
        is_flag=True,
        help="TRAIN and TEST are in svmlight format, whatever their names.",
    ),
    option(
        "Files",
        "--target-header/--no-target-header",
        default=None,
        help="Whether the file of targets starts with a header.  [default: well-known "
        "headers are recognised]",
    ),
    option(
        "Files",
        "--groups-header/--no-groups-header",
        default=None,
        help="Whether the file of groups starts with a header.  [default: well-known "
        "headers are recognised]",
    ),
    REPORT,
    QUIET,
)
