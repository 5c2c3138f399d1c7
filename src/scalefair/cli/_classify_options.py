"""The options of ``scalefair classify``, in sections."""

from __future__ import annotations

import math
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
    ParamType,
    add_options,
    option,
)

__all__ = ["classify_options"]

Command = TypeVar("Command", bound=Callable[..., Any])

# Pinned by a test to the estimator's, which takes a second to import.
_CRITERIA = ("strong", "weak")
_LOSSES = ("logistic", "hinge", "squared", "auc", "partial_auc")
_SURROGATES = ("ramp", "sigmoid")
_SOLVERS = ("bundle", "ssg", "direct")
_STARTS = ("auto", "zero")


class Score(click.types.FloatParamType):
    """Any number but infinity and NaN."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{number} is not a finite number.", param, ctx)
        return number


class Ranks(ParamType):
    """Interval of ranks, ``alpha,beta`` with 0 <= alpha < beta <= 1."""

    name = "ranks"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, float]:
        if isinstance(value, tuple):
            return value
        try:
            low, high = (float(part) for part in value.split(","))
        except ValueError:
            self.fail(
                f"{value!r} is not alpha,beta: two numbers such as 0.05,0.30.",
                param,
                ctx,
            )
        if not 0 <= low < high <= 1:
            self.fail(
                f"{value}: ranks must be 0 <= alpha < beta <= 1; 0 is the top.",
                param,
                ctx,
            )
        return low, high


def classify_options(command: Command) -> Command:
    """Add all options, so that the help lists them in this order."""
    return add_options(command, _OPTIONS)


_OPTIONS = (
    option(
        "Required",
        "--target",
        metavar="COLUMN|FILE",
        help="Column of TRAIN with the label of each row, one of two, or a file of "
        "labels. Not for svmlight files, whose lines start with the label.",
    ),
    option(
        "Required",
        "--groups",
        required=True,
        metavar="COLUMN|FILE",
        help="Column of TRAIN with the group of each row, which is then no feature; or "
        "a file of groups. In svmlight files the number of a feature.",
    ),
    option(
        "Required",
        "-o",
        "--output",
        required=True,
        type=PATH,
        help="File to write the model to (joblib), see below.",
    ),
    option(
        "Fairness",
        "--interval",
        type=Ranks(),
        default="0,1",
        show_default=True,
        metavar="ALPHA,BETA",
        help="Ranks within which groups are to be treated alike, as shares of a group "
        "counted from its highest score: 0.05,0.30 is the top 5 % to 30 %.",
    ),
    option(
        "Fairness",
        "--kappa",
        type=Finite(min=0, max=1, min_open=True),
        default=0.05,
        show_default=True,
        help="Largest gap of two groups, as a share of the interval.",
    ),
    option(
        "Fairness",
        "--criterion",
        type=click.Choice(_CRITERIA),
        default="strong",
        show_default=True,
        help="Parity at all thresholds, or (weak) at --threshold.",
    ),
    option(
        "Fairness",
        "--threshold",
        type=Score(),
        default=0.0,
        show_default=True,
        help="Score of the weak criterion; the weak gap in the report is taken there.",
    ),
    option(
        "Fairness",
        "--n-thresholds",
        type=Count(),
        default=10,
        show_default=True,
        help="Ranks at which the strong criterion is enforced. 25 give smaller gaps.",
    ),
    option(
        "Fairness",
        "--interactions/--no-interactions",
        default=True,
        show_default=True,
        help="Weights of their own for the groups; the model then needs the group of "
        "a row to classify it.",
    ),
    option(
        "Fairness",
        "--max-groups",
        type=Count(min=2),
        default=100,
        show_default=True,
        help="Most groups: more look like a number, such as an age, and are refused.",
    ),
    option(
        "Fairness",
        "--min-group-size",
        type=Count(),
        default=2,
        show_default=True,
        help="Fewest rows of a group. Groups of fewer than 30 are warned of.",
    ),
    option(
        "Training",
        "--loss",
        type=click.Choice(_LOSSES),
        default="logistic",
        show_default=True,
        help="What is minimised.",
    ),
    option(
        "Training",
        "--surrogate",
        type=click.Choice(_SURROGATES),
        default="ramp",
        show_default=True,
        help="What stands for the indicator of a score above a threshold.",
    ),
    option(
        "Training",
        "--alpha",
        type=Finite(min=0),
        default=0.0,
        show_default=True,
        help="Factor of half the squared norm of the coefficients, those of "
        "standardized features.",
    ),
    option(
        "Training",
        "--standardize",
        is_flag=True,
        help="Divide each column of numbers by its standard deviation and, unless it "
        "is sparse, centre it. Training does not need it: the classifier does not "
        "depend on units.  [default: features as they are]",
    ),
    option(
        "Training",
        "--solver",
        "inner_solver",
        type=click.Choice(_SOLVERS),
        default="bundle",
        show_default=True,
        help="How the convex subproblems are solved, see below.",
    ),
    option(
        "Training",
        "--start",
        type=click.Choice(_STARTS),
        default="auto",
        show_default=True,
        help="Start from an augmented Lagrangian's solution, or from zero.",
    ),
    option(
        "Training",
        "--tune-intercept/--no-tune-intercept",
        default=True,
        show_default=True,
        help="Move the intercept to the most accurate threshold in the end; changes "
        "no strong criterion.",
    ),
    option(
        "Training",
        "--tol",
        type=Finite(min=0, min_open=True),
        default=1e-3,
        show_default=True,
        help="Nearly-KKT residual at which to stop.",
    ),
    option(
        "Training",
        "--max-iter",
        type=Count(),
        default=500,
        show_default=True,
        help="Most iterations of the DC algorithm.",
    ),
    option(
        "Columns",
        "--drop",
        multiple=True,
        metavar="COLUMN",
        help="Column of a table, or number of a feature, to leave out; may be given "
        "several times.",
    ),
    option(
        "Columns",
        "--categorical",
        multiple=True,
        metavar="COLUMN",
        help="Column whose numbers are codes of categories; may be given several "
        "times. Columns with words need no option.",
    ),
    option(
        "Columns",
        "--keep-groups",
        is_flag=True,
        help="Keep the column of the groups as a feature.",
    ),
    option(
        "Columns",
        "--id-column",
        metavar="COLUMN",
        help="Column of a table with the ids of the rows, by which files of labels or "
        "groups may name them; no feature.  [default: a first column named id, "
        "node_id, user_id ...]",
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
        help="Other rows in the format of TRAIN, on which the model is measured.",
    ),
    option(
        "Test",
        "--test-target",
        metavar="COLUMN|FILE",
        help="Their labels.  [default: the same column]",
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
        help="Whether the file of labels starts with a header.  [default: well-known "
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
    memory_limit_option(
        "So are files in svmlight format.  [default: half of the memory that is "
        "available]"
    ),
    QUIET,
)
