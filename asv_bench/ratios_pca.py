"""Ratios of fair PCA against scikit-learn's PCA, and its memory.

    python asv_bench/ratios_pca.py sparse          # 100,000 x 50,000, density 1e-3
    python asv_bench/ratios_pca.py mapped [FOLDER] # 10^7 x 50 rows in a 4 GB file
    SCALEFAIR_DATA=... python asv_bench/ratios_pca.py groups  # six groups, credit data
    python asv_bench/ratios_pca.py crossover       # gram against matrix_free

The twelve rows of the papers' tables: benchmarks/paper_tables/fair_pca_table.py.
Alternating within one process, medians, as in ratios.py; answers are checked first.
"""

import resource
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA

from scalefair.datasets import fetch_credit_default, make_topic_documents
from scalefair.decomposition import FairPCA

sys.path.insert(0, str(Path(__file__).parent))
from ratios import alternate, report


def fair(X, groups, r, **options):
    return FairPCA(r, **options).fit(X, sensitive_features=groups)


def check(model):
    """Equal losses and a closed bracket, or no time is reported."""
    losses = model.group_losses_
    if not (model.converged_ and model.fairness_ratio_gap_ <= 1e-8):
        raise RuntimeError(f"losses {losses}, converged {model.converged_}")
    if model.duality_gap_ > 1e-8 * losses.max():
        raise RuntimeError(f"duality gap {model.duality_gap_}")


class Memory:
    """Largest memory of the process that no file backs, sampled every 10 ms."""

    def __enter__(self):
        self.peak, self._stop = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _watch(self):
        while not self._stop.wait(0.01):
            for line in Path("/proc/self/status").read_text().splitlines():
                if line.startswith("RssAnon"):
                    self.peak = max(self.peak, int(line.split()[1]) * 1024)


def sparse(r=20):
    data = make_topic_documents(100_000, 50_000, density=1e-3, random_state=0)
    X, groups = data.data, data.sensitive_features
    run = partial(fair, X, groups, r, solver="matrix_free")
    model = run()
    check(model)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{model.n_iter_} evaluations, {model.n_products_} products, {peak:.2f} GiB")
    peer = partial(PCA(r, svd_solver="arpack", random_state=0).fit, X)
    seconds = alternate(3, fair=run, arpack=peer)
    report(f"{X.shape[0]} x {X.shape[1]}, r = {r}", seconds, "arpack")


def mapped(folder=None, m=10_000_000, n=50, r=10):
    """One pass over a file, with the data segment of the process limited to 1 GB."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = Path(place) / "rows.npy"
        rng = np.random.default_rng(0)
        groups = rng.integers(0, 2, m, dtype=np.int8)
        scales = np.exp(-np.arange(n) / 10)
        turned = np.roll(scales, 3)
        rows = np.lib.format.open_memmap(path, "w+", np.float64, (m, n))
        for start in range(0, m, 100_000):
            part = slice(start, start + 100_000)
            block = rng.standard_normal((100_000, n))
            block *= np.where(groups[part, None] == 0, scales, turned)
            rows[part] = block + 5
        rows.flush()
        del rows, block
        X = np.load(path, mmap_mode="r")
        fair(np.asarray(X[:1000]), groups[:1000], r)  # compile
        limit = 2**30
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        with Memory() as memory:
            start = time.perf_counter()
            model = fair(X, groups, r)
            seconds = time.perf_counter() - start
        check(model)
        print(
            f"{m} x {n} float64, {path.stat().st_size / 2**30:.1f} GiB: "
            f"{seconds:.1f} s, {memory.peak / 2**20:.0f} MiB beside the file, "
            f"losses {model.group_losses_}"
        )


def six_groups():
    data = fetch_credit_default(n_groups=6)
    for r in (1, 7, 8, 15):
        start = time.perf_counter()
        model = fair(data.data, data.sensitive_features, r, centering="group")
        seconds = time.perf_counter() - start
        print(
            f"r = {r}: {seconds:.3f} s, largest loss {model.group_losses_.max():.12f}, "
            f"gap {model.duality_gap_:.3e}, weights {model.dual_weights_.round(6)}"
        )


def crossover():
    rng = np.random.default_rng(0)
    for m, n, r in [
        (20_000, 1000, 10),
        (20_000, 2000, 10),
        (10_000, 4000, 10),
        (10_000, 4000, 50),
        (5_000, 6000, 10),
    ]:
        X = rng.standard_normal((m, n)) * np.exp(-np.arange(n) / (n / 10))
        groups = rng.integers(0, 2, m)
        runs = {
            solver: partial(fair, X, groups, r, solver=solver)
            for solver in ("gram", "matrix_free")
        }
        for run in runs.values():
            check(run())
        auto = fair(X, groups, r).solver_
        report(f"{m} x {n}, r = {r}: auto {auto}", alternate(1, **runs), "gram")


if __name__ == "__main__":
    commands = {
        "sparse": sparse,
        "mapped": mapped,
        "groups": six_groups,
        "crossover": crossover,
    }
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])
