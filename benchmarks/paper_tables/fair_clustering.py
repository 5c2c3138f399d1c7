"""Tables of "Accelerating Spectral Clustering under Fairness Constraints", made anew.

    python benchmarks/paper_tables/fair_clustering.py
    python benchmarks/paper_tables/fair_clustering.py --tables 1 9 --repeats 5
    python benchmarks/paper_tables/fair_clustering.py --quick --output tables.md

Tables 1, 2, 3, 4, 5, 6, 8 and 9 of Tonin, Lambert, Suykens and Cevher (ICML 2025),
ours beside the printed values, as markdown on standard output or in a file. Real data
are read from the folder named by SCALEFAIR_DATA; without it those rows are skipped.
See benchmarks/README.md.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from _clustering_methods import METHODS, run
from _clustering_problems import block_model, random_affinity
from _clustering_tables import TABLES, Session
from _command import Command, at_least, progress
from _timing import timed
from scipy import sparse

_PREAMBLE = """\
# Tables of Tonin et al. (2025), made anew

    {command}

Machine: {machine}. Printed values: Intel i7-9700K (8 cores), 64 GB.

Printed / ours. Seconds are those of embedding and k-means, from the affinity (ours and
ADMM on kernels: from the points, computed anew in every product) to the labels; means ±
deviations over seeds, one run where it takes more than 5 s. A star: stopped before its
tolerance (residuals 1e-4; 1e-7 on Thyroid). Relaxed cost is Tr(H^T L H).

- o-FSC: `solver="nullspace"`, dense (up to 6000 nodes without `--large`).
- s-FSC: smallest eigenpairs of P L P + |L|_1 (I - P), as in the paper, by SciPy's
  `eigsh` on the stored affinity; the same tolerance and k-means as ours.
- ADMM (theirs): `solver="admm"`, algorithm 1 with alpha = 0.005, ten iterations, which
  do not converge: the printed ‖F^T H‖² is not reached.
- ours: `solver="auto"` (Chebyshev iteration) and `solver="dual"`.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the tables that are asked for."""
    command = Command(__doc__)
    command.option(
        "--tables",
        type=int,
        nargs="+",
        choices=sorted(TABLES),
        default=sorted(TABLES),
        metavar="N",
        help="numbers of the tables; 2 has 3, 4 and 8, too (all)",
    )
    command.option(
        "--repeats",
        type=at_least(1),
        default=3,
        help="runs of each row that takes less than 5 s (3)",
    )
    command.option(
        "--large",
        action="store_true",
        help="all rows of Census and 4area, o-FSC up to 10000 nodes (hours, 24 GiB)",
    )
    options = command.parse(arguments)
    n_runs = 1 if options.quick else options.repeats
    session = Session(options.quick, options.large, n_runs)
    if not options.quick:
        _warm_up()
    made = []
    for chosen in options.tables:
        took, table = timed(TABLES[chosen], session)
        progress(f"table {chosen}", took)
        made.append(table)
        last = chosen == options.tables[-1]
        command.write(made, last, head=_preamble(arguments))
    return 0


def _warm_up() -> None:
    """Compile the kernels before anything is timed."""
    dense = random_affinity(200, 2)
    graph = block_model(300, 3, 2, (0.5, 0.1, 0.3, 0.05))
    graph = dataclasses.replace(graph, affinity=sparse.csr_array(graph.affinity))
    points = np.random.default_rng(0).standard_normal((200, 3))
    kernel = dataclasses.replace(dense, affinity=None, points=points, gamma=0.3)
    for problem in (dense, graph, kernel):
        for method in METHODS:
            run(problem, method, 3, 0)


def _preamble(arguments: Sequence[str] | None) -> str:
    packages = ("numpy", "scipy", "scikit-learn", "numba")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    options = sys.argv[1:] if arguments is None else list(arguments)
    command = " ".join(["python benchmarks/paper_tables/fair_clustering.py", *options])
    machine = (
        f"{len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else ''} "
        f"cores ({platform.machine()}), Python {platform.python_version()}, {versions}"
    )
    return _PREAMBLE.format(command=command, machine=machine.strip())


if __name__ == "__main__":
    sys.exit(main())
