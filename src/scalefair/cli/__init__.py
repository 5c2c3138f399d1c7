"""The ``scalefair`` command line.

Each command reads files, calls an estimator of the package and writes files; the
heavy modules are imported when a command runs, so that ``--help`` is immediate.
"""

from __future__ import annotations

import os

import click

import scalefair
from scalefair.cli._cluster import cluster
from scalefair.cli._demo import demo
from scalefair.cli._errors import EXIT_CODES_HELP, Commands

__all__ = ["main"]

# Threads that wait for their next kernel sleep instead of spinning. On a machine
# that others use too, spinning makes kernels many times slower (docs/performance.md).
# The OpenMP runtime reads this when it is loaded, which is after this module.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


@click.group(
    cls=Commands,
    epilog=EXIT_CODES_HELP,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(scalefair.__version__, prog_name="scalefair")
def main() -> None:
    """Fair machine learning at scale: sparse, matrix-free solvers."""


main.add_command(cluster)
main.add_command(demo)
