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
from benchmarks.fair_pca import check
from fair_pca_table import COMPONENTS
from scipy import sparse
from sklearn.decomposition import PCA

from scalefair.datasets import fetch_credit_default, make_topic_documents
from scalefair.decomposition import FairPCA

from .runner import compare, once, show


def sparse_rows(size=1.0, repeats=5, kinds=None):
    """Two groups of sparse rows of several kinds, against scikit-learn's PCA (arpack).

    Ratios of `size` to the numbers of rows and columns; `kinds` picks some by name.
    """
    for kind, (make, ranks) in _kinds(size).items():
        if kinds is not None and kind not in kinds:
            continue
        X, groups = make()
        for r in ranks:
            ours = FairPCA(r, solver="matrix_free", random_state=0)
            runs = {
                "FairPCA": partial(ours.fit, X, sensitive_features=groups),
                "PCA": partial(PCA(r, svd_solver="arpack", random_state=0).fit, X),
            }
            check(runs["FairPCA"]())
            compare(
                f"{kind}, {X.shape[0]:,} x {X.shape[1]:,}, r = {r}",
                runs,
                "PCA",
                repeats,
                lambda name, model: {"products": getattr(model, "n_products_", "")},
            )


def _kinds(size):
    """Rows and their groups, and the numbers of components, by name."""
    rng = np.random.default_rng(0)

    def scaled(number):
        return int(number * size)

    def random():
        m, n = scaled(50_000), scaled(10_000)
        X = sparse.random_array((m, n), density=5e-4 / size, format="csr", rng=rng)
        return X, rng.integers(0, 2, m)

    def documents(m, n, density=1e-3, share=0.3, seed=0):
        data = make_topic_documents(
            scaled(m),
            scaled(n),
            density=density / size,
            group_probabilities=(1 - share, share),
            random_state=seed,
        )
        return data.data, data.sensitive_features

    def correlated():
        X, _ = documents(40_000, 10_000, seed=1)
        return X, rng.integers(0, 5, X.shape[0]) < 2

    def low_rank():
        # Twelve entries of one of 40 sparse factors, and noise.
        m, n, k = scaled(40_000), scaled(20_000), 40
        groups, ranks = rng.integers(0, 2, m), np.arange(k)
        shares = np.array([(1.0 + ranks) ** -0.5, 1.0 + rng.permutation(k)])
        shares[1] **= -0.5
        shares /= shares.sum(axis=1, keepdims=True)
        factors = (np.cumsum(shares, axis=1)[groups] < rng.random((m, 1))).sum(axis=1)
        factors = np.minimum(factors, k - 1)
        support = rng.integers(0, n, (k, scaled(300)))
        columns = support[factors[:, None], rng.integers(0, scaled(300), (m, 12))]
        values = 1 + 0.3 * rng.standard_normal(columns.size)
        indptr = np.arange(0, columns.size + 1, 12)
        X = sparse.csr_array((values, columns.ravel(), indptr), shape=(m, n))
        noise = sparse.random_array((m, n), density=4e-4 / size, rng=rng)
        return (X + 0.7 * noise).tocsr(), groups

    def one_hot():
        # The categories of the Adult data's columns, drawn by a hidden class.
        m, sizes = scaled(32_561), (5, 8, 5, 16, 5, 7, 14, 6, 5, 2, 2, 2, 5, 41)
        hidden, groups = rng.integers(0, 6, m), rng.integers(0, 3, m) == 0
        columns, first = [], 0
        for n in sizes:
            shares = rng.gamma(0.6, size=(6, 2, n))
            ends = np.cumsum(shares / shares.sum(axis=2, keepdims=True), axis=2)
            drawn = (rng.random((m, 1)) > ends[hidden, groups.astype(int)]).sum(axis=1)
            columns.append(first + np.minimum(drawn, n - 1))
            first += n
        indices = np.column_stack(columns).ravel()
        indptr = np.arange(0, indices.size + 1, len(sizes))
        return sparse.csr_array((np.ones(indices.size), indices, indptr)), groups

    small_documents = partial(documents, 20_000, 10_000)
    return {
        "random": (random, (10, 50)),
        "documents": (small_documents, (5, 10, 50)),
        "correlated groups": (correlated, (10,)),
        "97:3": (partial(documents, 40_000, 10_000, 2e-3, 0.03, 2), (10,)),
        "low rank": (low_rank, (10,)),
        "one-hot": (one_hot, (10,)),
        "text": (partial(documents, 100_000, 50_000), (20,)),
        "wide": (partial(documents, 5_000, 40_000, seed=3), (10,)),
    }


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
    with tempfile.TemporaryDirectory(dir=folder) as directory:
        path = Path(directory) / "rows.npy"
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
        peak = {"beside the file, MiB": f"{memory.peak:.0f}"}
        show(f"{m:,} x {n}, float64, r = {r}", size | cells | peak)


def faces(components=(50, 137, 200), repeats=5):
    """Many components of faces, against PCA's fastest solver and its default one."""
    _dense(load("lfw", False), components, ("covariance_eigh", "auto"), repeats)


def few_features(names=("bank", "credit", "crop"), repeats=15):
    """Many rows of few features, the papers', against PCA with its default solver."""
    for name in names:
        _dense(load(name, False), COMPONENTS[name], ("auto",), repeats)


def _dense(data, components, solvers, repeats):
    for r in components:
        model = FairPCA(r, centering="group")
        fit = partial(model.fit, data.X, sensitive_features=data.groups)
        check(fit())
        runs = {"FairPCA": fit} | {
            f"PCA {name}": partial(PCA(r, svd_solver=name, random_state=0).fit, data.X)
            for name in solvers
        }
        shape = " x ".join(f"{size:,}" for size in data.X.shape)
        compare(f"{data.name}, {shape}, r = {r}", runs, f"PCA {solvers[0]}", repeats)


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
