"""Fair clustering: products, embeddings, whole fits, rounding."""

import os
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas
from _clustering_problems import census, four_area, four_area_rows, thyroid
from _layout import number
from _timing import timed
from benchmarks.block_lbfgs import DualProblem
from benchmarks.clustering import Fit
from benchmarks.kernels import stored_kernel
from benchmarks.neighbors import clustered_rows, recall
from benchmarks.problems import (
    FairProblem,
    assert_agree,
    block_model,
    grid,
    largest_component,
)
from benchmarks.rounding import Rounding
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee
from sklearn.metrics import adjusted_rand_score, mutual_info_score
from sklearn.preprocessing import StandardScaler

from scalefair import datasets
from scalefair.cluster import FairSpectralClustering
from scalefair.cluster._kmeans import embedding_kmeans, embedding_rows
from scalefair.cluster._neighbors import neighbors_graph
from scalefair.cluster._solvers import FairProblem as Problem
from scalefair.cluster._solvers import SolverOptions, solve
from scalefair.kernels import csr_matmat, csr_workspace
from scalefair.linalg import chebyshev
from scalefair.metrics import balance_score, normalized_cut_score
from scalefair.operators import NormalizedAffinity, NormalizedOperator, RBFKernel

from .runner import alternate, benchmark, compare, once, show


def spmm(sizes=(5_000, 20_000, 100_000), repeats=9):
    """Sparse matrix times dense block: the kernel's time as a share of scipy's."""
    rows = []
    for n in sizes:
        row = {"nodes": f"{n:,}"}
        for dtype in ("float64", "float32"):
            for k in (1, 8, 50):
                runs = {
                    who: benchmark(f"spmm.BlockProduct.time_{who}", n, k, dtype)
                    for who in ("scipy", "scalefair")
                }
                seconds, _ = alternate(repeats, runs)
                ratio = seconds["scalefair"] / seconds["scipy"]
                row[f"{dtype}, k = {k}"] = f"{ratio:.2f}"
        rows.append(row)
    show("Time of our kernel divided by scipy's", *rows)


def cache_lines(n_nodes=1_000_000, columns=(15, 20, 25, 30, 55), repeats=5):
    """Products whose gathered rows start at cache lines, against others.

    Of a graph without weights, whose affinity scales the rows first: both write them.
    """
    W = block_model(n_nodes, 20).graph
    rng, rows = np.random.default_rng(0), []
    for k in columns:
        row = {"columns": k}
        for dtype in (np.float32, np.float64):
            X = rng.standard_normal((n_nodes, k)).astype(dtype)
            out, scale = np.empty_like(X), np.ones(n_nodes, dtype)
            ones = np.ndarray(W.nnz, dtype, np.ones(1, dtype), strides=(0,))
            arguments = W.indptr, W.indices, ones, X, out, *map(dtype, (1, 0, 0)), scale
            runs = {
                "packed": partial(csr_matmat, *arguments, np.empty_like(X)),
                "lines": partial(csr_matmat, *arguments, csr_workspace(X, None, True)),
            }
            seconds, _ = alternate(repeats, runs)
            row[np.dtype(dtype).name] = f"{seconds['lines'] / seconds['packed']:.2f}"
        rows.append(row)
    show(f"{n_nodes:,} nodes, rows at cache lines as part of packed ones", *rows)


GRAPHS = ("lastfm_asia", "deezer_europe", "pokec")


def numbering(sizes=((100_000, 50), (1_000_000, 20)), graphs=GRAPHS, repeats=5):
    """A product by the numbering of the nodes, and what to renumber them costs."""
    rows = [
        _numberings(name, W, groups, np.zeros_like(groups), 50, repeats)
        for name, W, groups in _real_graphs(graphs)
    ]
    for n, k in sizes:
        data = block_model(n, k)
        groups = data.sensitive_features
        rows.append(
            _numberings(f"{n:,} nodes", data.graph, groups, data.target, k, repeats)
        )
        block_model.cache_clear()
    show("Product by the numbering; in brackets what it costs, in products", *rows)


def _numberings(name, W, groups, target, k, repeats):
    M = NormalizedAffinity(W)
    orders = {
        "random": lambda: np.random.default_rng(0).permutation(M.shape[0]),
        "groups": lambda: np.argsort(groups, kind="stable"),
        "RCM": lambda: reverse_cuthill_mckee(sparse.csr_matrix(W), symmetric_mode=True),
        "planted": lambda: np.lexsort((groups, target)),
    }
    if not target.any():
        del orders["planted"]
    X = np.random.default_rng(0).standard_normal((M.shape[0], k + 5))
    expected = M @ X
    operators, cost = {"given": M}, {}
    for order in orders:
        cost[order], (nodes, operators[order]) = timed(
            partial(_renumbered, W, orders[order])
        )
        assert_agree(operators[order] @ X[nodes], expected[nodes])
    out = np.empty_like(X)
    runs = {order: partial(A.apply, X, out) for order, A in operators.items()}
    seconds, _ = alternate(repeats, runs)
    base = seconds["given"]
    cells = {
        order: f"{seconds[order] / base:.2f} ({cost[order] / base:.0f})"
        for order in cost
    }
    block = f"{X.nbytes / 1e6:.0f} MB"
    return {
        "graph": name,
        "block": block,
        "given, ms": f"{1e3 * base:.2f}",
    } | cells


def _renumbered(W, order):
    """Nodes in an order, and the operator of their graph."""
    nodes = order()
    return nodes, NormalizedAffinity(sparse.csr_array(W[nodes][:, nodes]))


def _embed(W, groups, k, solver, tol, dtype=np.float64):
    """What the estimator does between a clean graph and k-means."""
    codes = np.unique(groups, return_inverse=True)[1]
    problem = Problem(NormalizedAffinity(W), codes[:, None], k)
    rng = np.random.RandomState(0)
    return solve(solver, problem, SolverOptions(tol, None, dtype, rng, lambda *_: None))


def _embeddings(title, W, groups, k, tol, solvers, peer, repeats, unconverged=()):
    """Solvers, ours and scipy's eigsh, to the same measured residual."""
    problem = FairProblem(W, groups, k)
    runs = {
        name: partial(_embed, W, groups, k, name.split()[0], tol, dtype)
        for name in (*solvers, *unconverged)
        for dtype in [np.float32 if name.endswith("float32") else np.float64]
    }
    if tol >= 1e-4:  # minutes on a grid at 1e-6
        runs["eigsh"] = partial(problem.eigsh, tol)

    def facts(name, result):
        if name == "eigsh":
            values, vectors = result
            used, products = "eigsh", ""
        else:
            used, solution = result
            values, vectors, products = (
                solution.values,
                solution.vectors,
                solution.n_products,
            )
        if name in unconverged:
            residual = solution.residual_norms.max()
        else:
            # Tolerances are relative to a norm, which is estimated.
            residual = problem.check(values, vectors, 1.05 * tol)
        return {
            "solver": used,
            "residual": f"{residual:.1e}",
            "trace": f"{values.sum():.5f}",
            "k - trace": f"{k - values.sum():.6f}",
            "products": products,
        }

    compare(title, runs, peer, repeats, facts)


def embedding(n=100_000, repeats=5):
    """Fair embedding of a block model, k = 50, against scipy's eigsh."""
    data = block_model(n, 50)
    ours = ("chebyshev", "chebyshev float32")
    title = f"Fair embedding of {n:,} nodes, k = 50"
    groups = data.sensitive_features
    _embeddings(title, data.graph, groups, 50, 1e-3, ours, "eigsh", repeats)


def _real_graphs(names):
    for name in names:
        data = getattr(datasets, f"fetch_{name}")()
        yield name, *largest_component(data.graph, data.sensitive_features)


def real(graphs=GRAPHS, repeats=5):
    """Fair embeddings of real graphs, k = 25, against scipy's eigsh."""
    ours = ("chebyshev", "chebyshev float32")
    for name, W, groups in _real_graphs(graphs):
        for tol in (1e-3, 1e-4):
            title = f"{name}, tolerance {tol:g}"
            _embeddings(title, W, groups, 25, tol, ours, "eigsh", repeats)


def solvers(graphs=GRAPHS, repeats=3):
    """All solvers on real graphs, k = 25, at equal residual; ADMM's ten iterations."""
    ours = ("auto", "chebyshev", "lanczos", "lobpcg", "dual")
    for name, W, groups in _real_graphs(graphs):
        _embeddings(name, W, groups, 25, 1e-3, ours, "auto", repeats, ["admm"])


def few_clusters(graphs=GRAPHS, repeats=3):
    """Few eigenvectors of real graphs, in blocks and one at a time, against eigsh."""
    for name, W, groups in _real_graphs(graphs):
        for k in (5, 10):
            title = f"{name}, k = {k}"
            ours = ("chebyshev", "lanczos")
            _embeddings(title, W, groups, k, 1e-3, ours, "eigsh", repeats)


def _all_graphs(names, made_graphs, n_nodes):
    """Real graphs, a block model, and neighbours of rows whose units are alike."""
    yield from _real_graphs(names)
    if "block" in made_graphs:
        data = block_model(n_nodes, 20)
        yield "block model", data.graph, data.sensitive_features
    if "patients" in made_graphs:
        data = datasets.fetch_diabetes()
        W = neighbors_graph(StandardScaler().fit_transform(data.data), 10).affinity
        yield "patients", *largest_component(W, np.asarray(data.sensitive_features))
    if "4area" in made_graphs:
        points, groups = four_area_rows(None)
        W = neighbors_graph(StandardScaler().fit_transform(points), 10).affinity
        yield "4area", *largest_component(W, groups)


# Folders of SCALEFAIR_DATA with edges.csv.gz and nodes.csv.gz, and a column of groups.
FOLDERS = {
    "email-eu-core": "department",
    "polblogs": "party",
    "twitch-de": "mature",
    "musae-facebook": "page_type",
}


def _network_graphs(names, made_graphs, n_nodes):
    """Real networks, those of edge lists among them, and others."""
    for name in names:
        if name not in FOLDERS:
            yield from _real_graphs([name])
            continue
        folder = Path(os.environ["SCALEFAIR_DATA"]) / name
        edges = pandas.read_csv(folder / "edges.csv.gz").to_numpy()[:, :2]
        nodes = pandas.read_csv(folder / "nodes.csv.gz")
        ends = pandas.Index(nodes.iloc[:, 0]).get_indexer(edges.ravel()).reshape(-1, 2)
        source, target = ends[(ends >= 0).all(axis=1) & (ends[:, 0] != ends[:, 1])].T
        shape = (len(nodes), len(nodes))
        W = sparse.csr_array((np.ones(source.size), (source, target)), shape=shape)
        W = W + W.T
        W.data[:] = 1.0  # whoever wrote to whom, and how often
        yield name, *largest_component(W, nodes[FOLDERS[name]].to_numpy())
    yield from _all_graphs((), made_graphs, n_nodes)


def networks(
    graphs=("facebooknet", *FOLDERS, *GRAPHS),
    made_graphs=("block", "patients", "4area"),
    clusters=(5, 10, 20, 50),
    n_nodes=100_000,
):
    """Unfair clusters, the papers' method and the defaults, on all our networks."""
    methods = {
        "unfair": None,
        "papers": {"assign_labels": "kmeans", "regularization": 0.0},
        "k-means": {"assign_labels": "kmeans"},
        "fair, not refined": {"refine": False},
        "default": {},
    }
    means = {}
    for name, W, groups in _network_graphs(graphs, made_graphs, n_nodes):
        for k in clusters:
            if len(groups) < 10 * k:
                continue
            rows = []
            for method, options in methods.items():
                cells = _clusters(W, groups, k, options)
                rows.append({"method": method} | cells)
                means.setdefault(method, []).append(cells)
            show(f"{name}, {len(groups):,} nodes, k = {k}", *rows)
    rows = [
        {"method": method, "fits": str(len(fits))}
        | {
            head: f"{np.mean([float(fit[head]) for fit in fits]):.3f}"
            for head in ("modularity", "cut / k", "I / H", "largest")
        }
        | {
            "above 90 %": str(sum(float(fit["largest"]) > 0.9 for fit in fits)),
            "with tiny clusters": str(sum(fit["tiny"] != "0" for fit in fits)),
        }
        for method, fits in means.items()
    ]
    show("means over all", *rows)


def _plain_labels(W, k):
    """Plain spectral clustering, as the estimator does it but for groups."""
    affinity = NormalizedAffinity(W, regularization=0.1)
    vectors = chebyshev(affinity, k, tol=1e-4, random_state=0).vectors
    rows, weights = embedding_rows(vectors, affinity)
    return embedding_kmeans(rows, k, weights=weights, random_state=0), None


def _fair_labels(W, groups, k, options):
    model = FairSpectralClustering(k, random_state=0, **options)
    model.fit(W, sensitive_features=groups)
    return model.labels_, model.assignment_


def _clusters(W, groups, k, options):
    """Cells on a whole fit, without fairness or with: how good its clusters are."""
    run = partial(_plain_labels, W, k)
    if options is not None:
        run = partial(_fair_labels, W, groups, k, options)
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        seconds, (labels, assignment) = timed(run)
    codes = np.unique(groups, return_inverse=True)[1]
    sizes, shares = np.bincount(labels, minlength=k), np.bincount(codes) / len(codes)
    indicator = sparse.csr_array(
        (np.ones(len(labels)), (np.arange(len(labels)), labels))
    )
    within = np.asarray((indicator.T @ W @ indicator).todense())
    volumes = within.sum(axis=1) / within.sum()
    modularity = np.trace(within) / within.sum() - (volumes**2).sum()
    information = mutual_info_score(labels, codes) / -(shares @ np.log(shares))
    return {
        "modularity": f"{modularity:.3f}",
        "cut / k": f"{normalized_cut_score(W, labels) / (sizes > 0).sum():.3f}",
        "I / H": f"{information:.4f}",
        "largest": f"{sizes.max() / len(labels):.2f}",
        "tiny": str((sizes < 0.1 * sizes.mean()).sum()),
        "gap": f"{assignment.gap:.0e}" if assignment else "",
        "seconds": number(seconds, 2),
    }


def new_nodes(
    graphs=("facebooknet", *GRAPHS), amounts=(0, 0.1), k=10, patients=True, repeats=3
):
    """Clusters of a tenth of the nodes by predict, against a fit of all of them."""
    problems = [(name, W, groups, {}) for name, W, groups in _real_graphs(graphs)]
    if patients:
        data = datasets.fetch_diabetes()
        options = {"affinity": "nearest_neighbors", "connected_components": "all"}
        X = StandardScaler().fit_transform(data.data)
        problems.append(("patients", X, np.asarray(data.sensitive_features), options))
    for name, X, groups, options in problems:
        rows = [
            {"labels": labels, "regularization": f"{amount:g}"}
            | _predicted(
                X,
                np.asarray(groups),
                repeats,
                n_clusters=k,
                regularization=amount,
                assign_labels=labels,
                **options,
            )
            for labels in ("kmeans", "fair")
            for amount in amounts
        ]
        show(f"{name}, {len(groups):,} nodes, k = {k}", *rows)


def _predicted(X, groups, repeats, **options):
    """Cells on predict: agreement with a fit of all nodes, balance, time."""
    new = np.zeros(len(groups), dtype=bool)
    new[np.random.default_rng(0).permutation(new.size)[: new.size // 10]] = True
    # Nodes whose ties are all to new ones, or that are left without any.
    options = {"connected_components": "largest", "random_state": 0, **options}
    pairwise = options.get("affinity") is None
    old = X[~new][:, ~new] if pairwise else X[~new]
    rows = X[new][:, ~new] if pairwise else X[new]
    model, full_model = (FairSpectralClustering(**options) for _ in range(2))
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            model.fit(old, sensitive_features=groups[~new])
            refit = partial(full_model.fit, X, sensitive_features=groups)
            predict = partial(model.predict, rows, sensitive_features=groups[new])
            seconds, _ = alternate(repeats, {"fit": refit, "predict": predict})
    except ValueError as error:  # no counts are so fair
        return {"agreement of fits": str(error).partition(":")[0]}
    labels = predict()
    is_labelled = labels >= 0
    agreements = {
        "agreement of fits": adjusted_rand_score(
            full_model.labels_[~new], model.labels_
        ),
        "of predict": adjusted_rand_score(
            full_model.labels_[new][is_labelled], labels[is_labelled]
        ),
    }
    if options["assign_labels"] == "kmeans":
        agreements["groups unknown"] = adjusted_rand_score(
            full_model.labels_[new][is_labelled], model.predict(rows)[is_labelled]
        )
    agreements["balance fitted"] = model.balance_.mean()
    for title, partition in (
        ("of new nodes", labels),
        ("by the fit", full_model.labels_[new]),
    ):
        agreements[title] = balance_score(partition, sensitive_features=groups[new])
    return {
        **{title: f"{value:.2f}" for title, value in agreements.items()},
        "no tie": str((~is_labelled).sum()),
        "fit, s": number(seconds["fit"], 2),
        "predict, s": number(seconds["predict"], 2),
    }


def meshes(side=300, data=True, repeats=3):
    """Where multigrid pays: a grid, and nearest neighbours of real patients."""
    W = grid(side)
    groups = np.random.default_rng(0).integers(2, size=W.shape[0])
    for tol in (1e-3, 1e-4, 1e-6):
        title = f"{side} x {side} grid, tolerance {tol:g}"
        ours = ("auto", "chebyshev")
        _embeddings(title, W, groups, 10, tol, ours, "auto", repeats)
    if not data:
        return
    patients = datasets.fetch_diabetes()
    W = neighbors_graph(patients.data, 10).affinity
    W, groups = largest_component(W, patients.sensitive_features)
    for tol in (1e-3, 1e-4):
        title = f"patients, tolerance {tol:g}"
        _embeddings(title, W, groups, 10, tol, ("auto", "lobpcg"), "auto", repeats)


def _quality(data, labels):
    groups = data.sensitive_features
    return {
        "ARI": f"{adjusted_rand_score(data.target, labels):.4f}",
        "balance": f"{balance_score(labels, sensitive_features=groups):.4f}",
    }


def fit(n=100_000, repeats=3):
    """Whole fits against scikit-learn's, which are not fair (minutes)."""
    bench = Fit()
    bench.setup(n, "scalefair-float32")
    bench.setup(n, "scalefair")
    # amg and lanczos take minutes a run: asv has them.
    names = ("sklearn-lobpcg", "scalefair", "scalefair-float32")
    runs = {name: partial(bench.run, name) for name in names}
    facts = lambda name, labels: _quality(bench.data, labels)  # noqa: E731
    compare(f"Whole fits, {n:,} nodes", runs, "sklearn-lobpcg", repeats, facts)


def auto(sizes=(150, 200, 400, 800, 1600), repeats=5):
    """What solver="auto" chooses from: iterations against dense, on small graphs."""
    for n in sizes:
        data = block_model(n, 2)
        W, groups = largest_component(data.graph, data.sensitive_features)
        for k in (2, 10, 30):
            runs = {
                solver: partial(
                    FairSpectralClustering(
                        k, solver=solver, n_init=1, random_state=0
                    ).fit,
                    W,
                    sensitive_features=groups,
                )
                for solver in ("nullspace", "lanczos", "chebyshev")
            }
            compare(f"{n} nodes, k = {k}", runs, "nullspace", repeats)


def neighbors(tables=("diabetes", "bank_additional"), repeats=3):
    """Approximate neighbours of real rows against exact ones."""
    for table in tables:
        X = _standardized(table)[0]
        runs = {
            name: partial(neighbors_graph, X, 10, name, 0)
            for name in ("exact", "approximate")
        }

        def facts(name, neighbors, X=X):
            if not (measured := recall(X, neighbors.affinity)) >= 0.98:
                raise AssertionError(f"recall {measured}")
            return {"recall": f"{neighbors.recall:.4f}", "measured": f"{measured:.4f}"}

        title = f"Ten neighbours of {X.shape[0]:,} x {X.shape[1]}, {table}"
        compare(title, runs, "exact", repeats, facts)


def _standardized(table):
    data = getattr(datasets, f"fetch_{table}")()
    rows = StandardScaler().fit_transform(data.data)
    return rows, np.asarray(data.sensitive_features)


def neighbors_clusters(tables=("diabetes", "bank_additional"), seeds=range(5)):
    """Ten fair clusters of approximate graphs against those of the exact graph."""
    for table in tables:
        X, groups = _standardized(table)
        exact = neighbors_graph(X, 10).affinity
        labels, rows = {}, []
        for name in ("exact", "approximate"):
            for seed in seeds:
                W = neighbors_graph(X, 10, name, seed).affinity if rows else exact
                model = FairSpectralClustering(
                    10, tol=1e-3, connected_components="largest", random_state=seed
                )
                labels[name, seed] = model.fit_predict(W, sensitive_features=groups)
            partitions = [labels[name, seed] for seed in seeds]
            same, other = (
                [
                    adjusted_rand_score(labels["exact", a], labels[name, b])
                    for a in seeds
                    for b in seeds
                    if (a == b) == equal
                ]
                for equal in (True, False)
            )
            measures = {
                "cut": [normalized_cut_score(exact, x) for x in partitions],
                "balance": [
                    balance_score(x, sensitive_features=groups) for x in partitions
                ],
            }
            rows.append(
                {"graph": name}
                | {"ARI, same seed": f"{np.mean(same):.3f} ({np.min(same):.3f})"}
                | {"other seed": f"{np.mean(other):.3f} ({np.min(other):.3f})"}
                | {measure: f"{np.mean(x):.4f}" for measure, x in measures.items()}
            )
        show(f"Ten fair clusters, {table}: means (least) of {len(seeds)} seeds", *rows)


def million_neighbors(n=1_000_000, seeds=(0,)):
    """Approximate neighbours of a million rows of 50 features, once each."""
    rows = []
    for seed in seeds:
        X = clustered_rows(n, seed=seed)
        keep = {}
        run = lambda X=X, keep=keep: keep.update(  # noqa: E731
            found=neighbors_graph(X, 10, "approximate", 0)
        )
        cells = once(run)
        neighbors = keep["found"]
        cells |= {"recall": f"{neighbors.recall:.4f}", "found": neighbors.neighbors}
        cells["measured"] = f"{recall(X, neighbors.affinity, 100):.4f}"
        rows.append({"rows": f"{n:,}", "seed": seed} | cells)
    show("Ten approximate neighbours of rows x 50", *rows)


def lbfgs(n=100_000, repeats=5):
    """L-BFGS on blocks against scipy's L-BFGS-B, to scipy's value."""
    DualProblem(1000, 5).ours()  # compiles
    problem = DualProblem(n)
    value, _ = problem.scipy()
    compare(
        f"L-BFGS, {n:,} nodes, k = 50",
        {"scipy": problem.scipy, "scalefair": partial(problem.ours, value)},
        "scipy",
        repeats,
        lambda name, outcome: {"value": f"{outcome[0]:.4f}", "steps": outcome[1]},
    )


def kernels(rows=None, repeats=5):
    """Gaussian kernels of real points: fits, and products against a stored kernel."""
    fits = []
    for problem in (thyroid(rows), census(rows), four_area(rows)):
        X, gamma, groups = problem.points, problem.gamma, problem.groups
        for affinity, dtype in (
            ("rbf", np.float32),
            ("rbf", np.float64),
            ("rbf_nystroem", np.float64),
        ):
            model = FairSpectralClustering(
                25,
                affinity=affinity,
                gamma=gamma,
                n_landmarks=min(1000, len(X)),
                dtype=dtype,
                tol=1e-3,
                random_state=0,
            )
            cells = once(partial(model.fit, X, sensitive_features=groups))
            balance = balance_score(model.labels_, sensitive_features=groups)
            fits.append(
                {"data": problem.name, "affinity": f"{affinity}, {np.dtype(dtype)}"}
                | cells
                | {"products": model.n_products_, "error": model.affinity_error_}
                | {"residual": f"{model.residuals_.max():.1e}"}
                | {"converged": model.converged_, "balance": f"{balance:.4f}"}
                | {"trace": f"{model.eigenvalues_.sum():.5f}"}
            )
        block = np.random.default_rng(0).standard_normal((len(X), 30))
        block = block.astype(np.float32)
        implicit = NormalizedOperator(RBFKernel(X, gamma=gamma), dtype=np.float32)
        K = stored_kernel(X * np.sqrt(gamma * X.shape[1]))  # its gamma is 1 / d
        scale = implicit.inv_sqrt_degrees.astype(np.float32)[:, None]
        stored = lambda K=K, s=scale, b=block: s * (K @ (s * b))  # noqa: E731
        runs = {"implicit": partial(implicit.matmat, block), "stored": stored}
        compare(f"{problem.name}, product of width 30", runs, "stored", repeats)
        del K, stored, runs
    show("Gaussian kernels, k = 25", *fits)


def rounding(n=100_000, repeats=3):
    """Fair assignment of rows to 50 centres, five groups."""
    rows = []
    for problem in ("mixed", "block-model"):
        bench = Rounding()
        bench.setup(n, problem)
        seconds, results = alternate(repeats, {problem: partial(bench.run, problem)})
        result = results[problem]
        rows.append(
            {
                "problem": problem,
                "seconds": f"{seconds[problem]:.2f}",
                "rows moved": result.n_moved,
                "proved gap": f"{result.gap:.1e}",
                "violation": f"{result.max_violation:g}",
                "cost": f"{result.cost:.6g}",
                "nearest": f"{result.nearest_cost:.6g}",
            }
        )
    show(f"Fair assignment of {n:,} rows to 50 centres", *rows)
