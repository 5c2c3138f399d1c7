"""Rows and graphs in parts: what it costs, how it scales, how large it gets.

    python asv_bench/ratios_parts.py overhead  # 10^6 x 200 rows, threads, in memory
    python asv_bench/ratios_parts.py workers   # one worker process and two
    python asv_bench/ratios_parts.py exchange  # all rows of a block, or those needed
    python asv_bench/ratios_parts.py entries   # a graph of 2.3 * 10^9 entries

Alternating within one process, medians, as in ratios.py; answers are checked first.
Everything but the last needs the extra "dask".
"""

import resource
import sys
import time
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy import sparse

from scalefair.datasets import make_fair_sbm, make_group_gaussians
from scalefair.decomposition import FairPCA
from scalefair.operators import GroupCovariance, PartitionedMatrix
from scalefair.streaming import GroupMoments, LocalParts, PartitionedRows

sys.path.insert(0, str(Path(__file__).parent))
from ratios import alternate, report


def cut(X, n_parts):
    import dask

    bounds = np.linspace(0, X.shape[0], n_parts + 1).astype(int)
    return [dask.delayed(X[i:j]) for i, j in pairwise(bounds)]


def agree(found, expected, tol=1e-8):
    error = np.abs(found - expected).max() / np.abs(expected).max()
    if not error <= tol:
        raise RuntimeError(f"results differ by {error:.1e}")


def overhead(m=1_000_000, n=200, k=10):
    """Fits and products on the threaded scheduler, beside those in memory."""
    import dask.array as da

    data = make_group_gaussians(m, n, random_state=0)
    X, groups = data.data, data.sensitive_features
    there = da.from_array(X, chunks=(m // 16, n))

    def fit(table):
        return FairPCA(k, solver="gram").fit(table, sensitive_features=groups)

    agree(fit(there).group_losses_, fit(X).group_losses_)
    seconds = alternate(5, Dask=lambda: fit(there), memory=lambda: fit(X))
    report(f"FairPCA, gram, {m:,} x {n}", seconds, "memory")

    codes = np.unique(groups, return_inverse=True)[1]
    here = GroupCovariance(X, codes, [0.5, 0.5])
    parts = GroupCovariance(PartitionedRows.of(there), codes, [0.5, 0.5])
    V = np.random.default_rng(0).standard_normal((n, k))
    agree(parts @ V, here @ V)
    seconds = alternate(7, Dask=lambda: parts @ V, memory=lambda: here @ V)
    report(f"product of covariances with {k} vectors", seconds, "memory")


def workers(m=400_000, n=200, k=20):
    """Moments and products with one worker process of one thread, and with two.

    Rows "numpy" multiply by NumPy alone and send nothing back: what the machine gives.
    Rows "empty" do nothing: what a round trip costs.
    """
    from distributed import Client, LocalCluster

    data = make_group_gaussians(m, n, random_state=0)
    X, groups = data.data, data.sensitive_features
    codes = np.unique(groups, return_inverse=True)[1]
    graph = make_fair_sbm(
        200_000, n_clusters=5, n_groups=2, average_degree=100, random_state=0
    ).graph
    V = np.random.default_rng(0).standard_normal((n, k))
    Y = np.random.default_rng(0).standard_normal((graph.shape[0], k))
    expected = GroupMoments.from_data(X, groups)
    seconds = {"moments": {}, "covariance": {}, "graph": {}, "empty": {}, "numpy": {}}
    for n_workers in (1, 2):
        with (
            LocalCluster(
                n_workers=n_workers, threads_per_worker=1, dashboard_address=None
            ) as cluster,
            Client(cluster) as client,
        ):
            client.wait_for_workers(n_workers)
            rows = PartitionedRows.of(cut(X, 8))
            C = GroupCovariance(rows, codes, [0.5, 0.5])
            W = PartitionedMatrix(cut(sparse.csr_array(graph), 8))
            empty = rows.parts.map(_nothing)
            plain = rows.parts.map(_numpy_product, V)
            agree(GroupMoments.from_data(rows, groups).scatters, expected.scatters)
            agree(W @ Y, graph @ Y)
            found = alternate(
                7,
                moments=lambda rows=rows: GroupMoments.from_data(rows, groups),
                covariance=lambda C=C: C @ V,
                graph=lambda W=W: W @ Y,
                empty=empty.gather,
                numpy=plain.gather,
            )
            for name, times in found.items():
                seconds[name][f"{n_workers} worker(s)"] = times
    for name, times in seconds.items():
        report(name, times, "1 worker(s)")


def _nothing(_):
    return 0


def _numpy_product(X, V):
    return float((X.T @ (X @ V))[0, 0])


def exchange(n_parts=8, k=10):
    """Send all rows of a block to each part, or those that its entries need."""
    from distributed import Client, LocalCluster

    side = 450
    line = sparse.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(side, side))
    eye = sparse.eye_array(side)
    graphs = {
        "grid": sparse.csr_array(sparse.kron(line, eye) + sparse.kron(eye, line)),
        "blocks at random": sparse.csr_array(
            make_fair_sbm(
                200_000, n_clusters=5, n_groups=2, average_degree=20, random_state=0
            ).graph
        ),
    }
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        Client(cluster),
    ):
        for name, W in graphs.items():
            X = np.random.default_rng(0).standard_normal((W.shape[0], k))
            found = {
                how: PartitionedMatrix(cut(W, n_parts), exchange=how)
                for how in ("all", "needed")
            }
            for A in found.values():
                agree(A @ X, W @ X)
            parts = [block.compute() for block in cut(W, n_parts)]
            needed = sum(len(np.unique(B.indices)) for B in parts) / W.shape[0]
            products = {how: partial(A.matmat, X) for how, A in found.items()}
            seconds = alternate(7, **products)
            report(f"{name}: {needed:.2f} n rows needed", seconds, "all")


class Circulant(LocalParts):
    """Rows of a ring in which nodes at given distances are neighbours."""

    def __init__(self, n, offsets, n_parts):
        self.n, self.offsets = n, np.concatenate([offsets, -np.asarray(offsets)])
        self.bounds = np.linspace(0, n, n_parts + 1).astype(np.int64)
        super().__init__(self.read, n_parts, self.tell)

    def read(self):
        for start, stop in pairwise(self.bounds):
            rows = np.arange(start, stop)[:, None]
            columns = (rows + self.offsets).astype(np.int32) % np.int32(self.n)
            indptr = len(self.offsets) * np.arange(stop - start + 1)
            ones = np.ones(columns.size, np.float32)
            yield sparse.csr_array(
                (ones, columns.ravel(), indptr), shape=(stop - start, self.n)
            )

    def tell(self, done, total):
        print(f"\r  part {done} of {total}", end="", file=sys.stderr, flush=True)


def entries(n=2**26, degree=34, n_parts=128):
    """One product with a graph of more than 2^31 entries, its answer known."""
    offsets = 1 + 3 * np.arange(degree // 2)
    parts = Circulant(n, offsets, n_parts)
    rows = PartitionedRows(
        parts,
        np.diff(parts.bounds),
        n,
        dtype=np.float32,
        is_sparse=True,
        nnz=n * degree,
    )
    start = time.perf_counter()
    A = PartitionedMatrix(rows)
    wave = 2 * np.pi * 5 / n
    x = np.cos(wave * np.arange(n))
    value = 2 * np.cos(wave * offsets).sum()
    began = time.perf_counter()
    error = np.abs(A @ x - value * x).max()
    now = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"\n{A.nnz:,} entries (2^31 = {2**31:,}), {n:,} nodes: made in "
        f"{began - start:.0f} s, product in {now - began:.0f} s, error {error:.1e}, "
        f"peak {peak:.2f} GiB"
    )
    if not error <= 1e-9:
        raise RuntimeError("the product is wrong")


if __name__ == "__main__":
    commands = {f.__name__: f for f in (overhead, workers, exchange, entries)}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]]()
