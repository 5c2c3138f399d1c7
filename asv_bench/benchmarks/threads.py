"""Threads as they come: against the best setting, and against another process."""

import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from scalefair.cluster import FairSpectralClustering
from scalefair.datasets import make_fair_sbm

from .problems import prepared

# Benchmark, its parameters, and how often it is timed in a process.
BENCHMARKS = {
    "cluster, 1,000 nodes": ("threads.SmallFit.time_fit", (1000,), 15),
    "cluster, 5,000 nodes": ("threads.SmallFit.time_fit", (5000,), 15),
    "cluster, 10,000 nodes": ("clustering.Fit.time_fit", (10_000, "scalefair"), 5),
    "embedding, chebyshev": (
        "eigensolvers.Embedding.time_solve",
        (10_000, "chebyshev"),
        5,
    ),
    "embedding, lanczos": ("eigensolvers.Embedding.time_solve", (10_000, "lanczos"), 3),
    "fair PCA, documents": ("fair_pca.Documents.time_fit", ("FairPCA",), 5),
    "fair PCA, 100,000 x 50": ("fair_pca.Rows.time_fit", (100_000, 50, "FairPCA"), 15),
    "fair PCA, 1,000 features": (
        "fair_pca.Features.time_fit",
        (1000, 20, "FairPCA"),
        5,
    ),
    "pairwise, group AUC": (
        "fair_classifiers.Pairwise.time_fit",
        (30_000, "group_auc"),
        5,
    ),
    "partially fair": ("fair_classifiers.PartiallyFair.time_fit", (30_000, "zero"), 5),
    "layer of a network": (
        "fair_regression.Layer.time_fit",
        (256, 20_000, "direct"),
        5,
    ),
    "fair labels": (
        "rounding.Rounding.time_fair_assignment",
        (10_000, "mixed"),
        3,
    ),
}
SETTINGS = {
    "as they come": {},
    "BLAS 1": {"OPENBLAS_NUM_THREADS": "1"},
    "kernels 1": {"NUMBA_NUM_THREADS": "1"},
    "both 1": {"OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
}
_UNSET = ("OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "GOMP_SPINCOUNT")


class SmallFit:
    """Many short kernels, which hardly gain from a second thread."""

    params = (200, 1000, 5000)
    param_names = ("n_nodes",)

    def setup(self, n_nodes):
        self.data = make_fair_sbm(
            n_nodes, n_clusters=4, n_groups=2, average_degree=20, random_state=0
        )
        self.time_fit(n_nodes)

    def time_fit(self, n_nodes):
        FairSpectralClustering(4, random_state=0).fit(
            self.data.graph, sensitive_features=self.data.sensitive_features
        )


class Settings:
    """Time with threads as they come, of that with the best setting and when idle."""

    params = tuple(BENCHMARKS)
    param_names = ("benchmark",)
    timeout = 900

    def track_of_the_best_setting(self, benchmark):
        seconds = measure(benchmark, list(SETTINGS), 1)
        return seconds["as they come"] / min(seconds.values())

    def track_beside_another_fit(self, benchmark):
        idle = measure(benchmark, ["as they come"], 1)
        with another_fit():
            loaded = measure(benchmark, ["as they come"], 1)
        return loaded["as they come"] / idle["as they come"]


def measure(name, settings, rounds):
    """Median seconds of a benchmark under each of the settings, taking turns."""
    seconds = {key: [] for key in settings}
    for _ in range(rounds):
        for key in settings:
            process = _child(name, **SETTINGS[key])
            output, _ = process.communicate()
            if process.returncode:
                raise RuntimeError(f"{name} with {key} failed")
            seconds[key] += json.loads(output.splitlines()[-1])
    return {key: statistics.median(values) for key, values in seconds.items()}


@contextmanager
def another_fit():
    """Another process that fits in a loop; entered when it does."""
    process = _child("loop")
    process.stdout.readline()
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _child(name, **environment):
    """A process that runs this file, below."""
    inherited = {key: v for key, v in os.environ.items() if key not in _UNSET}
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.threads", name],
        cwd=Path(__file__).parents[1],
        env={**inherited, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


def _seconds(name):
    """Seconds of each run of a benchmark in this process."""
    benchmark, parameters, repeats = BENCHMARKS[name]
    owner, _, method = benchmark.rpartition(".")
    bench = prepared(owner, *parameters)
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


def _fit_for_ever():
    bench = prepared("threads.SmallFit", 5000)
    print("started", flush=True)
    while True:
        bench.time_fit(5000)


if __name__ == "__main__":
    if sys.argv[1] == "loop":
        _fit_for_ever()
    print(json.dumps(_seconds(sys.argv[1])))
