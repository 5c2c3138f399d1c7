"""The ``scalefair`` command line: a module for each command, imported when it runs."""

import click

import scalefair
from scalefair.cli._errors import EXIT_CODES, Commands, Lazy

_COMMANDS = [
    Lazy("demo", "_examples", "Cluster a graph with and without fairness."),
    Lazy("data", "_examples", "List public data sets, or download one."),
    Lazy(
        "describe", "_describe", "Say how a table is understood: columns, types, roles."
    ),
    Lazy("cluster", "_cluster", "Cluster the nodes of a graph, or rows, fairly."),
    Lazy("pca", "_pca", "Find principal components that are fair to groups."),
    Lazy("classify", "_classify", "Train a classifier, fair within a range of ranks."),
    Lazy("regress", "_regress", "Make a saved regressor fair in one of its layers."),
    Lazy("predict", "_use", "Apply a model of classify, regress or pca to rows."),
    Lazy("evaluate", "_use", "Measure labels or scores of any origin by groups."),
]


@click.group(
    cls=Commands,
    commands=_COMMANDS,
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(scalefair.__version__, prog_name="scalefair")
def main() -> None:
    """Fair machine learning at scale: sparse, matrix-free solvers."""
