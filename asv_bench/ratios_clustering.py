"""Ratios for the solvers, kernels and rounding of fair clustering.

    python asv_bench/ratios_clustering.py lbfgs      # against scipy's L-BFGS-B
    python asv_bench/ratios_clustering.py rounding   # fair assignment, 100,000 rows
    SCALEFAIR_DATA=... python asv_bench/ratios_clustering.py solvers  # real graphs
    SCALEFAIR_DATA=... python asv_bench/ratios_clustering.py meshes   # where AMG pays
    SCALEFAIR_DATA=... python asv_bench/ratios_clustering.py kernels  # points

Alternating within one process, medians, as in ratios.py; answers are checked first.
"""

import gzip
import os
import resource
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from scalefair.cluster import FairSpectralClustering
from scalefair.cluster._solvers import FairProblem as Problem
from scalefair.cluster._solvers import SolverOptions, solve
from scalefair.metrics import balance_score, minimum_balance_score
from scalefair.operators import NormalizedAffinity, NormalizedOperator, RBFKernel

sys.path.insert(0, str(Path(__file__).parent))
from benchmarks.block_lbfgs import DualProblem
from benchmarks.kernels import stored_kernel
from benchmarks.problems import FairProblem
from benchmarks.rounding import Rounding
from ratios import alternate, largest_component, report


def embed(W, codes, k, solver, tol, max_iter=None):
    """What the estimator does between a clean graph and k-means."""
    problem = Problem(NormalizedAffinity(W), codes, k)
    rng = np.random.RandomState(0)
    options = SolverOptions(tol, max_iter, np.float64, rng, lambda *_: None)
    return solve(solver, problem, options)


def compare(title, W, groups, k, tol, solvers, repeats=3, peer="auto"):
    """Time the solvers beside eigsh, each to the same measured residual."""
    problem = FairProblem(W, groups, k)
    codes = np.unique(groups, return_inverse=True)[1]
    runs = {name: partial(embed, W, codes, k, name, tol) for name in solvers}
    for name, run in runs.items():
        used, result = run()
        residual = problem.check(result.values, result.vectors, 1.001 * tol)
        print(
            f"{title:28s} {name:10s} ({used}) residual {residual:.1e} "
            f"k - trace {k - result.values.sum():.6f} products {result.n_products}"
        )
    if tol >= 1e-4:  # minutes on a grid at 1e-6
        runs["eigsh"] = partial(problem.eigsh, tol)
        values, vectors = runs["eigsh"]()
        residual = problem.check(values, vectors, 1.01 * tol)
        lost = k - values.sum()
        print(f"{title:28s} eigsh      residual {residual:.1e} k - trace {lost:.6f}")
    report(title, alternate(repeats, **runs), peer)


def lbfgs():
    DualProblem(1000, 5).ours()
    problem = DualProblem(100_000)
    value, n_evaluations = problem.scipy()
    reached, n_steps = problem.ours(value)
    print(
        f"scipy {value:.4f} in {n_evaluations} evaluations, ours {reached:.4f} in "
        f"{n_steps} steps"
    )
    seconds = alternate(5, scipy=problem.scipy, scalefair=lambda: problem.ours(value))
    report("L-BFGS, n=100k, k=50", seconds, "scipy")


def solvers():
    from scalefair.datasets import fetch_deezer_europe, fetch_lastfm_asia, fetch_pokec

    for fetch in (fetch_lastfm_asia, fetch_deezer_europe, fetch_pokec):
        W, groups = largest_component(fetch())
        name = fetch.__name__[6:]
        methods = ("auto", "chebyshev", "lanczos", "lobpcg", "dual")
        compare(f"{name} tol=1e-3", W, groups, 25, 1e-3, methods)
        codes = np.unique(groups, return_inverse=True)[1]
        runs = {
            "auto": partial(embed, W, codes, 25, "auto", 1e-3),
            "admm, T=10": partial(embed, W, codes, 25, "admm", 1e-3),
        }
        _, ended = runs["admm, T=10"]()
        print(f"{name}: ADMM ends with residual {ended.residual_norms.max():.1e}")
        report(f"{name}, faithful ADMM", alternate(3, **runs), "auto")
        model = FairSpectralClustering(25, tol=1e-3, random_state=0)
        start = time.perf_counter()
        model.fit(W, sensitive_features=groups)
        print(f"{name}: whole fit {time.perf_counter() - start:.1f} s")


def grid(n):
    line = sparse.diags_array([np.ones(n - 1)] * 2, offsets=[-1, 1])
    eye = sparse.eye_array(n)
    return sparse.csr_array(sparse.kron(eye, line) + sparse.kron(line, eye))


def meshes():
    from scalefair.cluster._base import nearest_neighbors_affinity
    from scalefair.datasets import fetch_diabetes

    rng = np.random.default_rng(0)
    W = grid(300)
    groups = rng.integers(2, size=W.shape[0])
    for tol in (1e-3, 1e-4, 1e-6):
        compare(f"grid tol={tol:g}", W, groups, 10, tol, ("auto", "chebyshev"))
    data = fetch_diabetes()
    W = nearest_neighbors_affinity(data.data, 10)
    graph = type(data)(graph=W, sensitive_features=data.sensitive_features)
    W, groups = largest_component(graph)
    for tol in (1e-3, 1e-4):
        compare(f"patients tol={tol:g}", W, groups, 10, tol, ("auto", "lobpcg"))


def point_sets():
    """Features, groups and gamma of the paper's three point sets."""
    root = Path(os.environ["SCALEFAIR_DATA"])
    parts = [
        np.loadtxt(root / "thyroid" / name, delimiter=",", usecols=range(22))
        for name in ("ann-train.data", "ann-test.data")
    ]
    thyroid = np.vstack(parts)
    yield "Thyroid", thyroid[:, :21], thyroid[:, 21], 0.01 / 21
    four = np.loadtxt(root / "4area" / "4area.csv.gz", delimiter=",", skiprows=1)
    yield "4area", four[:, 1:], four[:, 0], 1 / 8
    with gzip.open(root / "census-adult" / "adult.csv.gz", "rt") as file:
        lines = file.read().split("\n")[1:]
    table = np.array([line.split(",") for line in lines if line])
    columns = [c for c in range(14) if c not in (2, 5)]  # not weight, marital status
    codes = []
    for c in columns:
        try:
            codes.append(table[:, c].astype(float))
        except ValueError:
            codes.append(np.unique(table[:, c], return_inverse=True)[1].astype(float))
    X = np.stack(codes, axis=1)
    yield "Census", (X - X.mean(axis=0)) / X.std(axis=0), table[:, 5], 1 / 12


def kernels():
    for name, X, groups, gamma in point_sets():
        for affinity, dtype in (
            ("rbf", np.float32),
            ("rbf", np.float64),
            ("rbf_nystroem", np.float64),
        ):
            model = FairSpectralClustering(
                25,
                affinity=affinity,
                gamma=gamma,
                n_landmarks=1000,
                dtype=dtype,
                tol=1e-3,
                random_state=0,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                start = time.perf_counter()
                model.fit(X, sensitive_features=groups)
                seconds = time.perf_counter() - start
            balance = balance_score(model.labels_, sensitive_features=groups)
            least = minimum_balance_score(model.labels_, sensitive_features=groups)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            print(
                f"{name} {X.shape} {affinity} {np.dtype(dtype)}: {seconds:.1f} s, "
                f"{model.n_products_} products, trace {model.eigenvalues_.sum():.5f}, "
                f"residual {model.residuals_.max():.1e}, converged {model.converged_}, "
                f"balance {balance:.4f} ({least:.4f}), error {model.affinity_error_}, "
                f"peak so far {peak:.2f} GiB"
            )
        block = np.random.default_rng(0).standard_normal((len(X), 30))
        block = block.astype(np.float32)
        implicit = NormalizedOperator(RBFKernel(X, gamma=gamma), dtype=np.float32)
        K = stored_kernel(X * np.sqrt(gamma * X.shape[1]))  # its gamma is 1 / d
        scale = implicit.inv_sqrt_degrees.astype(np.float32)[:, None]
        products = alternate(
            5,
            implicit=partial(implicit.matmat, block),
            stored=lambda K=K, s=scale, b=block: s * (K @ (s * b)),
        )
        report(f"{name}, product of width 30", products, "stored")
        del K


def rounding():
    bench = Rounding()
    for problem in ("mixed", "block-model"):
        bench.setup(100_000, problem)
        result = bench.run(problem)
        seconds = alternate(3, **{problem: partial(bench.run, problem)})
        print(
            f"{problem}: {seconds[problem]:.1f} s, {result.n_moved} rows moved, gap "
            f"{result.gap:.1e}, violation {result.max_violation:.1e}, cost "
            f"{result.cost:.6g} (nearest {result.nearest_cost:.6g})"
        )


COMMANDS = {f.__name__: f for f in (lbfgs, rounding, solvers, meshes, kernels)}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    COMMANDS[sys.argv[1]]()
