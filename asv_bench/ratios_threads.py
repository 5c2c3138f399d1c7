"""Threads as they come beside other settings: on an idle machine and beside a fit.

    python asv_bench/ratios_threads.py                # the table of docs/performance.md
    python asv_bench/ratios_threads.py NAME [NAME...] # some rows: see BENCHMARKS

Every figure is the median of the runs of three processes, which take turns among the
settings; each process times its benchmark after it has checked the answer. The other
process fits a graph of 5,000 nodes over and over, with threads as they come.
"""

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

# Benchmark class, parameters, the method that is timed, and how often.
BENCHMARKS = {
    "cluster, 1,000 nodes": ("threads.SmallFit", (1000,), "time_fit", 15),
    "cluster, 5,000 nodes": ("threads.SmallFit", (5000,), "time_fit", 15),
    "cluster, 10,000 nodes": ("clustering.Fit", (10_000, "scalefair"), "time_fit", 5),
    "embedding, chebyshev": (
        "eigensolvers.Embedding",
        (10_000, "chebyshev"),
        "time_solve",
        5,
    ),
    "embedding, lanczos": (
        "eigensolvers.Embedding",
        (10_000, "lanczos"),
        "time_solve",
        3,
    ),
    "fair PCA, documents": ("fair_pca.Documents", ("FairPCA",), "time_fit", 5),
    "fair PCA, 100,000 x 50": (
        "fair_pca.Rows",
        (100_000, 50, "FairPCA"),
        "time_fit",
        15,
    ),
    "fair PCA, 1,000 features": ("fair_pca.Features", (1000, 20), "time_fit", 5),
    "pairwise, group AUC": (
        "fair_classifiers.Pairwise",
        (30_000, "group_auc"),
        "time_fit",
        5,
    ),
    "partially fair": (
        "fair_classifiers.PartiallyFair",
        (30_000, "zero"),
        "time_fit",
        5,
    ),
    "layer of a network": (
        "fair_regression.Layer",
        (256, 20_000, "direct"),
        "time_fit",
        5,
    ),
    "fair labels": ("rounding.Rounding", (10_000, "mixed"), "time_fair_assignment", 3),
}
SETTINGS = {
    "as they come": {},
    "BLAS 1": {"OPENBLAS_NUM_THREADS": "1"},
    "kernels 1": {"NUMBA_NUM_THREADS": "1"},
    "both 1": {"OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
}
_UNSET = ("OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "GOMP_SPINCOUNT")


def run_here(name):
    """Seconds of each run of a benchmark in this process."""
    where, parameters, method, repeats = BENCHMARKS[name]
    module, kind = where.split(".")
    bench = getattr(importlib.import_module(f"benchmarks.{module}"), kind)()
    bench.setup(*parameters)
    run = getattr(bench, method)
    run(*parameters)
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        run(*parameters)
        seconds.append(time.perf_counter() - start)
    if hasattr(bench, "teardown"):
        bench.teardown(*parameters)  # refuses a wrong answer
    return seconds


def child(*words, **environment):
    inherited = {key: v for key, v in os.environ.items() if key not in _UNSET}
    return subprocess.Popen(
        [sys.executable, __file__, *words],
        env={**inherited, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


def measure(name, settings, rounds):
    """Median seconds of a benchmark under each of the settings, taking turns."""
    seconds = {key: [] for key in settings}
    for _ in range(rounds):
        for key in settings:
            process = child("--here", name, **SETTINGS[key])
            said, _ = process.communicate()
            if process.returncode:
                raise RuntimeError(f"{name} with {key} failed")
            seconds[key] += json.loads(said.splitlines()[-1])
    return {key: statistics.median(values) for key, values in seconds.items()}


@contextmanager
def another_fit():
    """Another process that fits in a loop; entered when it does."""
    process = child("--loop")
    process.stdout.readline()
    try:
        yield
    finally:
        process.kill()
        process.wait()


def loop():
    bench = importlib.import_module("benchmarks.threads").SmallFit()
    bench.setup(5000)
    print("started", flush=True)
    while True:
        bench.time_fit(5000)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=3, help="processes a figure")
    parser.add_argument("--here", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("--loop", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.loop:
        loop()
    if options.here:
        print(json.dumps(run_here(options.here)))
        return
    heads = [*SETTINGS, "of the best", "beside a fit", "of idle"]
    print("| benchmark | " + " | ".join(heads) + " |")
    print("| --- " * (len(heads) + 1) + "|", flush=True)
    for name in options.names or BENCHMARKS:
        idle = measure(name, list(SETTINGS), options.rounds)
        with another_fit():
            beside = measure(name, ["as they come"], options.rounds)["as they come"]
        ours = idle["as they come"]
        cells = [f"{1e3 * idle[key]:.1f} ms" for key in SETTINGS]
        cells += [f"{ours / min(idle.values()):.2f}", f"{1e3 * beside:.1f} ms"]
        cells.append(f"{beside / ours:.2f}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
