"""Rows and graphs in parts: what they cost, how they scale, how large they get.

All but `entries` need the extra "dask".
"""

import sys
from contextlib import contextmanager
from functools import partial
from itertools import pairwise

import numpy as np
from benchmarks.problems import assert_agree, grid
from scipy import sparse

from scalefair.datasets import make_fair_sbm, make_group_gaussians
from scalefair.operators import GroupCovariance, PartitionedMatrix
from scalefair.streaming import GroupMoments, LocalParts, PartitionedRows

from .runner import alternate, benchmark, compare, once, show


def _cut(X, n_parts=8):
    import dask

    bounds = np.linspace(0, X.shape[0], n_parts + 1).astype(int)
    return [dask.delayed(X[i:j]) for i, j in pairwise(bounds)]


@contextmanager
def _cluster(n_workers):
    """Worker processes of one thread each."""
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(n_workers=n_workers, **options) as cluster, Client(cluster) as it:
        it.wait_for_workers(n_workers)
        yield


def _block_model(n, degree):
    data = make_fair_sbm(
        n, n_clusters=5, n_groups=2, average_degree=degree, random_state=0
    )
    return sparse.csr_array(data.graph)


def overhead(m=1_000_000, n=200):
    """Fits and products on the threaded scheduler, against those in memory."""
    for task in ("fit", "product"):
        runs = {
            where: benchmark(f"parts.DenseRows.time_{task}", m, n, where)
            for where in ("Dask", "memory")
        }
        compare(f"{m:,} x {n}, {task}", runs, "memory", 7)


def workers(m=400_000, n=200, k=20, nodes=200_000, repeats=7):
    """One worker process and two; NumPy alone, and tasks that do nothing."""
    data = make_group_gaussians(m, n, random_state=0)
    X, groups = data.data, data.sensitive_features
    codes = np.unique(groups, return_inverse=True)[1]
    graph = _block_model(nodes, 100)
    V = np.random.default_rng(0).standard_normal((n, k))
    Y = np.random.default_rng(0).standard_normal((nodes, k))
    expected = GroupMoments.from_data(X, groups)
    seconds = []
    for n_workers in (1, 2):
        with _cluster(n_workers):
            rows = PartitionedRows.of(_cut(X))
            C = GroupCovariance(rows, codes, [0.5, 0.5])
            W = PartitionedMatrix(_cut(graph))
            moments = partial(GroupMoments.from_data, rows, groups)
            assert_agree(moments().scatters, expected.scatters)
            assert_agree(W @ Y, graph @ Y)
            runs = {
                "moments": moments,
                "covariance": partial(C.matmat, V),
                "graph": partial(W.matmat, Y),
                "NumPy alone": rows.parts.map(_numpy_product, V).gather,
                "nothing": rows.parts.map(_nothing).gather,
            }
            seconds.append(alternate(repeats, runs)[0])
    one, two = seconds
    show(
        f"Workers, {m:,} x {n} and {nodes:,} nodes",
        *(
            {
                "": name,
                "1 worker": f"{one[name]:.3f}",
                "2 workers": f"{two[name]:.3f}",
                "ratio": f"{two[name] / one[name]:.2f}",
            }
            for name in one
        ),
    )


def _nothing(_):
    return 0


def _numpy_product(X, V):
    return float((X.T @ (X @ V))[0, 0])


def exchange(side=450, nodes=200_000, k=10, repeats=7):
    """All rows of a block sent to each part, or those that its entries need."""
    graphs = {"grid": grid(side), "blocks at random": _block_model(nodes, 20)}
    with _cluster(2):
        for name, W in graphs.items():
            X = np.random.default_rng(0).standard_normal((W.shape[0], k))
            runs = {}
            for exchange in ("all", "needed"):
                A = PartitionedMatrix(_cut(W), exchange=exchange)
                assert_agree(A @ X, W @ X)
                runs[exchange] = partial(A.matmat, X)
            parts = [block.compute() for block in _cut(W)]
            needed = sum(len(np.unique(B.indices)) for B in parts) / W.shape[0]
            compare(f"{name}: {needed:.2f} n rows needed", runs, "all", repeats)


class _Circulant(LocalParts):
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
    parts = _Circulant(n, offsets, n_parts)
    properties = {"dtype": np.float32, "is_sparse": True, "nnz": n * degree}
    rows = PartitionedRows(parts, np.diff(parts.bounds), n, **properties)
    wave = 2 * np.pi * 5 / n
    x = np.cos(wave * np.arange(n))
    value = 2 * np.cos(wave * offsets).sum()
    A = PartitionedMatrix(rows)
    product = once(lambda: np.abs(A @ x - value * x).max(), lambda e: {"error": e})
    print(file=sys.stderr)
    if not product["error"] <= 1e-9:
        raise RuntimeError(f"the product is wrong by {product['error']:.1e}")
    show(f"{A.nnz:,} entries (2^31 = {2**31:,}), {n:,} nodes", product)
