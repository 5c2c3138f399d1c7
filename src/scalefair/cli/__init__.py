"""The ``scalefair`` command line.

Each command reads files, calls an estimator of the package and writes files; the
heavy modules are imported when a command runs, so that ``--help`` is immediate.
"""

from __future__ import annotations

import click

import scalefair
from scalefair.cli._classify import classify
from scalefair.cli._cluster import cluster
from scalefair.cli._data import data
from scalefair.cli._demo import demo
from scalefair.cli._errors import EXIT_CODES_HELP, Commands
from scalefair.cli._pca import pca
from scalefair.cli._regress import regress

__all__ = ["main"]


@click.group(
    cls=Commands,
    epilog=EXIT_CODES_HELP,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(scalefair.__version__, prog_name="scalefair")
def main() -> None:
    """Fair machine learning at scale: sparse, matrix-free solvers."""


main.add_command(classify)
main.add_command(cluster)
main.add_command(data)
main.add_command(demo)
main.add_command(pca)
main.add_command(regress)
