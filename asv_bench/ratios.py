"""Ratios against named peers, alternating within one process; medians.

    python asv_bench/ratios.py spmm
    python asv_bench/ratios.py embedding        # against scipy's eigsh
    python asv_bench/ratios.py fit              # against scikit-learn (minutes)
    python asv_bench/ratios.py auto             # dense against iterative, small n
    python asv_bench/ratios.py million          # 1M nodes, 30M stored entries
    SCALEFAIR_DATA=... python asv_bench/ratios.py real

Run on an otherwise idle machine. Every answer is checked before it is timed.
"""

import resource
import statistics
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.metrics import adjusted_rand_score

from scalefair.cluster import FairSpectralClustering
from scalefair.linalg import chebyshev, spectral_bounds
from scalefair.metrics import balance_score
from scalefair.operators import NormalizedAffinity, Projected

sys.path.insert(0, str(Path(__file__).parent))
from benchmarks.clustering import Fit
from benchmarks.problems import FairProblem, block_model


def alternate(repeats, **candidates):
    """Run the candidates in turn; median seconds of each, after one warm-up.

    Runs shorter than 0.2 s are made twice and timed the second time: the first has
    to wake the threads, or waits for those of the other candidate to go to sleep.
    """
    seconds = {name: [] for name in candidates}
    for turn in range(repeats + 1):
        for name, run in candidates.items():
            if turn and seconds[name][0] < 0.2:
                run()
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times[1:]) for name, times in seconds.items()}


def report(title, seconds, peer):
    for name, value in seconds.items():
        ratio = value / seconds[peer]
        print(f"{title:28s} {name:22s} {value:9.4f} s   {ratio:6.3f} of {peer}")


def our_embedding(problem, tol, dtype):
    """What the estimator does between the graph and k-means, set-up included."""
    affinity = NormalizedAffinity(problem.W)
    X0 = np.sqrt(affinity.degrees)[:, None]
    X0 /= np.linalg.norm(X0)
    bounds = spectral_bounds(affinity, random_state=0)
    options = {"orthogonal_to": problem.Q, "bounds": bounds, "random_state": 0}
    if dtype == np.float32:
        low = Projected(
            NormalizedAffinity(problem.W, dtype=dtype),
            problem.Q,
            constrained_value=bounds.lower,
        )
        X0 = chebyshev(low, problem.k, tol=tol, X0=X0, **options).vectors
    operator = Projected(affinity, problem.Q, constrained_value=bounds.lower)
    result = chebyshev(operator, problem.k, tol=tol, X0=X0, **options)
    return result.values, result.vectors


def compare_embeddings(title, problem, tol=1e-3, repeats=5):
    runs = {
        "eigsh": lambda: problem.eigsh(tol),
        "chebyshev": lambda: our_embedding(problem, tol, np.float64),
        "chebyshev float32": lambda: our_embedding(problem, tol, np.float32),
    }
    for name, run in runs.items():
        values, vectors = run()
        residual = problem.check(values, vectors, 1.001 * tol)
        print(
            f"{title:28s} {name:22s} residual {residual:.1e} trace {values.sum():.5f}"
        )
    report(title, alternate(repeats, **runs), "eigsh")


def spmm():
    for n in (5_000, 20_000, 100_000):
        for dtype in (np.float64, np.float32):
            affinity = NormalizedAffinity(block_model(n, 10).graph, dtype=dtype)
            for k in (1, 8, 50):
                X = np.random.default_rng(0).standard_normal((n, k)).astype(dtype)
                out = np.empty_like(X)
                seconds = alternate(
                    9,
                    scipy=lambda A=affinity.matrix, X=X: A @ X,
                    scalefair=lambda A=affinity, X=X, out=out: A.apply(X, out),
                )
                np.testing.assert_allclose(out, affinity.matrix @ X, atol=1e-4)
                report(f"n={n} k={k} {np.dtype(dtype)}", seconds, "scipy")


def embedding():
    data = block_model(100_000, 50)
    problem = FairProblem(data.graph, data.sensitive_features, 50)
    compare_embeddings("block model, k=50", problem)


def largest_component(data):
    W = sparse.csr_array(data.graph)
    _, component = connected_components(W, directed=False)
    kept = np.flatnonzero(component == np.bincount(component).argmax())
    return sparse.csr_array(W[kept][:, kept]), np.asarray(data.sensitive_features)[kept]


def real():
    from scalefair.datasets import fetch_deezer_europe, fetch_lastfm_asia, fetch_pokec

    for fetch in (fetch_lastfm_asia, fetch_deezer_europe, fetch_pokec):
        W, groups = largest_component(fetch())
        problem = FairProblem(W, groups, 25)
        for tol in (1e-3, 1e-4):
            compare_embeddings(f"{fetch.__name__[6:]} tol={tol:g}", problem, tol)


def fit():
    bench, labels = Fit(), {}
    bench.setup(100_000, "scalefair")
    bench.setup(100_000, "scalefair-float32")

    def run(name):
        labels[name] = bench.run(name)

    # amg and lanczos take minutes a run: asv has them.
    names = ("sklearn-lobpcg", "scalefair", "scalefair-float32")
    seconds = alternate(3, **{name: partial(run, name) for name in names})
    report("fit, block model, k=50", seconds, "sklearn-lobpcg")
    groups = bench.data.sensitive_features
    for name in names:
        agreement = adjusted_rand_score(bench.data.target, labels[name])
        balance = balance_score(labels[name], sensitive_features=groups)
        print(f"{name:22s} ARI {agreement:.4f} balance {balance:.4f}")


def auto():
    def fit(solver, k, W, groups):
        model = FairSpectralClustering(k, solver=solver, n_init=1, random_state=0)
        model.fit(W, sensitive_features=groups)

    for n in (150, 200, 400, 800, 1600):
        W, groups = largest_component(block_model(n, 2))
        for k in (2, 10, 30):
            runs = {
                solver: partial(fit, solver, k, W, groups)
                for solver in ("nullspace", "lanczos", "chebyshev")
            }
            report(f"n={n} k={k}", alternate(5, **runs), "nullspace")


def million():
    for n, k in ((100_000, 50), (100_000, 20), (1_000_000, 20)):
        data = block_model(n, k)
        for dtype in (np.float64, np.float32):
            model = FairSpectralClustering(k, tol=1e-3, dtype=dtype, random_state=0)
            start = time.perf_counter()
            model.fit(data.graph, sensitive_features=data.sensitive_features)
            seconds = time.perf_counter() - start
            agreement = adjusted_rand_score(data.target, model.labels_)
            balance = balance_score(
                model.labels_, sensitive_features=data.sensitive_features
            )
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            print(
                f"n={n} k={k} {np.dtype(dtype)}: {seconds:.1f} s, "
                f"{1e9 * seconds / data.graph.nnz:.0f} ns per entry, peak so far "
                f"{peak:.2f} GiB, residual {model.residuals_.max():.1e}, "
                f"ARI {agreement:.4f}, balance {balance:.4f}"
            )
        block_model.cache_clear()


COMMANDS = {f.__name__: f for f in (spmm, embedding, real, fit, auto, million)}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    COMMANDS[sys.argv[1]]()
