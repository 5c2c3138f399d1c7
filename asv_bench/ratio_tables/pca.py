"""Fair PCA: words, a file larger than the memory, many groups.

The twelve rows of the papers' tables: benchmarks/paper_tables/fair_pca_table.py.
"""

import resource
import tempfile
import threading
from functools import partial
from pathlib import Path

import numpy as np
from _fair_pca import load
from benchmarks.fair_pca import Documents, check
from sklearn.decomposition import PCA

from scalefair.datasets import fetch_credit_default
from scalefair.decomposition import FairPCA

from .runner import compare, once, show


def documents(n_rows=100_000, n_words=50_000, r=20, repeats=3):
    """Sparse rows of words, against scikit-learn's PCA (arpack)."""

    class Large(Documents):
        shape, n_components = (n_rows, n_words), r

    runs = {}
    for method in ("FairPCA", "PCA"):
        bench = Large()
        bench.setup(method)
        runs[method] = bench.run
    compare(
        f"{n_rows:,} x {n_words:,}, density 1e-3, r = {r}",
        runs,
        "PCA",
        repeats,
        lambda name, model: {"products": getattr(model, "n_products_", "")},
    )


class _Memory:
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
                    self.peak = max(self.peak, int(line.split()[1]) / 2**10)


def mapped(folder=None, m=10_000_000, n=50, r=10):
    """One pass over a file, with the data segment of the process limited to 1 GiB."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = Path(place) / "rows.npy"
        rng = np.random.default_rng(0)
        groups = rng.integers(0, 2, m, dtype=np.int8)
        scales = np.exp(-np.arange(n) / 10)
        turned = np.roll(scales, 3)
        rows = np.lib.format.open_memmap(path, "w+", np.float64, (m, n))
        for start in range(0, m, 100_000):
            block = rng.standard_normal((min(m - start, 100_000), n))
            part = slice(start, start + len(block))
            block *= np.where(groups[part, None] == 0, scales, turned)
            rows[part] = block + 5
        rows.flush()
        del rows, block
        X = np.load(path, mmap_mode="r")
        model = FairPCA(r)
        model.fit(np.asarray(X[:1000]), sensitive_features=groups[:1000])  # compiles
        resource.setrlimit(resource.RLIMIT_DATA, (2**30, 2**30))
        with _Memory() as memory:
            cells = once(partial(model.fit, X, sensitive_features=groups))
        check(model)
        size = {"file, GiB": f"{path.stat().st_size / 2**30:.1f}"}
        beside = {"beside the file, MiB": f"{memory.peak:.0f}"}
        show(f"{m:,} x {n}, float64, r = {r}", size | cells | beside)


def faces(components=(50, 137, 200), repeats=5):
    """Many components of faces, against PCA's fastest solver and its default one."""
    data = load("lfw", False)
    for r in components:
        model = FairPCA(r, centering="group")
        fit = partial(model.fit, data.X, sensitive_features=data.groups)
        check(fit())
        runs = {"FairPCA": fit} | {
            name: partial(PCA(r, svd_solver=name, random_state=0).fit, data.X)
            for name in ("covariance_eigh", "auto")
        }
        shape = " x ".join(f"{size:,}" for size in data.X.shape)
        compare(f"Faces, {shape}, r = {r}", runs, "covariance_eigh", repeats)


def six_groups():
    """Six groups of the credit data: optimum of the dual, and the gap to it."""
    data, rows = fetch_credit_default(n_groups=6), []
    for r in (1, 7, 8, 15):
        model = FairPCA(r, centering="group")
        fit = partial(model.fit, data.data, sensitive_features=data.sensitive_features)
        rows.append(
            {"r": r}
            | once(fit)
            | {"largest loss": f"{model.group_losses_.max():.12f}"}
            | {"gap": f"{model.duality_gap_:.3e}"}
            | {"weights": model.dual_weights_.round(6)}
        )
    show("Six groups of the credit data", *rows)
