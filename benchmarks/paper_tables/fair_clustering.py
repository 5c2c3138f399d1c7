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

import argparse
import os
import platform
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from _methods import METHODS, run
from _problems import block_model, random_affinity
from _session import Session
from _tables import TABLES

_PREAMBLE = """\
# Tables of Tonin et al. (2025), made anew

    {command}

Machine: {machine}. Printed values: Intel i7-9700K (8 cores), 64 GB.

Seconds are those of the embedding and k-means, from the affinity (or, for ours and
ADMM on kernels, from the points, the kernel computed anew in every product) to the
labels; data generation and the kernel matrix that s-FSC, FFSC and UFSC store are not
counted. Means ± deviations over runs with different seeds, one run where it takes more
than 5 s. A star marks a solver that stopped before its tolerance (residuals 1e-4;
1e-7 on Thyroid); ADMM makes ten iterations, as in the paper.

- o-FSC: `solver="nullspace"`, dense (up to 6000 nodes without `--large`).
- s-FSC: smallest eigenpairs of P L P + s (I - P), s = |L|_1 as in the paper, by SciPy's
  `eigsh` on the stored affinity; the same tolerance and k-means as ours.
- ADMM (theirs): `solver="admm"`, algorithm 1 with alpha = 0.005, T = 10.
- ours: `solver="auto"` (Chebyshev iteration) and `solver="dual"`.

Cost is the normalised cut of the clusters, relaxed cost Tr(H^T L H).
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the tables that are asked for."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.output and not options.output.absolute().parent.is_dir():
        parser.error(f"there is no folder {options.output.parent} for --output")
    session = Session(options.quick, options.large, 1 if options.quick else 0)
    session.n_runs = session.n_runs or options.repeats
    _warm_up(session.quick)
    parts = [_preamble(arguments)]
    for chosen in options.tables:
        start = time.perf_counter()
        table = TABLES[chosen](session)
        took = time.perf_counter() - start
        print(f"table {chosen}: {took:.0f} s", file=sys.stderr, flush=True)
        parts.append(table.markdown())
        if options.output:  # after every table: a long run can be interrupted
            options.output.write_text("\n".join(parts), encoding="utf-8")
    if not options.output:
        print("\n".join(parts))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tables",
        type=int,
        nargs="+",
        choices=sorted(TABLES),
        default=sorted(TABLES),
        metavar="N",
        help="numbers of the tables (all)",
    )
    parser.add_argument(
        "--repeats",
        type=_positive,
        default=3,
        help="runs of each row that takes less than 5 s (3)",
    )
    parser.add_argument("--output", type=Path, help="markdown file to write")
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes: only shows that it runs"
    )
    parser.add_argument(
        "--large",
        action="store_true",
        help="all rows of Census and 4area, o-FSC up to 10000 nodes (hours, 24 GiB)",
    )
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


def _warm_up(quick: bool) -> None:
    """Compile the kernels before anything is timed."""
    if quick:
        return
    import dataclasses

    import numpy as np
    from scipy import sparse

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
    given = sys.argv[1:] if arguments is None else list(arguments)
    command = " ".join(["python benchmarks/paper_tables/fair_clustering.py", *given])
    machine = (
        f"{len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else ''} "
        f"cores ({platform.machine()}), Python {platform.python_version()}, {versions}"
    )
    return _PREAMBLE.format(command=command, machine=machine.strip())


if __name__ == "__main__":
    sys.exit(main())
