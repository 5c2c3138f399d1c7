"""``scalefair cluster``: fair clusters of a graph, or of rows, in a file."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import click
import joblib
import numpy as np
import pandas
from numpy.typing import NDArray
from scipy import sparse

from scalefair._memory import peak_memory, reset_peak_memory
from scalefair._messages import listed
from scalefair.cli import _fit, _report
from scalefair.cli import _options as opt
from scalefair.cli._errors import Failure, warn
from scalefair.cli._output import write_table
from scalefair.cli._rows import (
    encode,
    fit_encoder,
    read_rows,
    say_notes,
    type_values,
)
from scalefair.cluster import FairSpectralClustering
from scalefair.files._graphs import Graph, read_graph
from scalefair.files._values import read_values
from scalefair.metrics import balance_score, normalized_cut_score

_EPILOG = """\b
DATA is a graph: edges `source target [weight]`, or a matrix. With another
--affinity than precomputed it is rows. Labels of -1: left out by --components.
\b
Solvers: chebyshev, the fastest as a rule; lobpcg, with multigrid, for grids;
lanczos (s-FSC); nullspace, dense and exact (o-FSC).
\b
Advanced: --solver dual, by L-BFGS; --solver admm (Tonin et al. 2025), under
another constraint, for comparison.
"""
_MODEL = "File to write the fitted clustering to, for predict (joblib)."
_EIGENSOLVERS = ("auto", "chebyshev", "lobpcg", "lanczos", "nullspace", "dual")
_KERNELS = ("rbf", "rbf_nystroem")
_ROWS = ("nearest_neighbors", *_KERNELS)
_OF_ROWS = ("id_column", "drop", "missing", "standardize", "keep_groups")
# Options that mean something only with some values of another one.
_CONDITIONS = {
    **dict.fromkeys(_OF_ROWS, ("affinity", _ROWS)),
    **dict.fromkeys(("n_neighbors", "neighbors"), ("affinity", ("nearest_neighbors",))),
    "gamma": ("affinity", _KERNELS),
    "n_landmarks": ("affinity", ("rbf_nystroem",)),
    "connected_components": ("affinity", ("precomputed", "nearest_neighbors")),
    **dict.fromkeys(("directed", "weights"), ("affinity", ("precomputed",))),
    **dict.fromkeys(("balance_tolerance", "refine"), ("assign_labels", ("fair",))),
    "model_file": ("solver", _EIGENSOLVERS),
}
_PARAMETERS = {
    "Required": "n_clusters,-k",
    "Affinity": "affinity n_neighbors neighbors gamma regularization "
    "connected_components,--components",
    "Eigenvectors": "solver tol",
    "Clusters": "attributes assign_labels balance_tolerance refine random_state",
    "Advanced": "n_landmarks max_iter n_init dtype",
}
_CHANGED: dict[str, dict[str, Any]] = {
    "n_clusters": {"required": True},
    "solver": {"metavar": "[auto|chebyshev|lobpcg|lanczos|nullspace|...]"},
    "affinity": {"type": click.Choice(["precomputed", *_ROWS])},
    "dtype": {"type": click.Choice(["auto", "float32", "float64"])},
}
_OPTIONS = [
    *(*opt.GROUPS, opt.STANDARDIZE, opt.output_option("the labels")),
    *opt.estimator_options(FairSpectralClustering, _PARAMETERS, **_CHANGED),
    *(opt.BASELINE, *opt.INPUT, *opt.EDGES, opt.REPORT, opt.QUIET),
    opt.option("Files", "--model", "model_file", type=opt.PATH, help=_MODEL),
]
Labels = dict[str, NDArray[Any]]
Runs = dict[str, dict[str, Any]]
FAIR, UNFAIR = "fair", "without fairness"
_MEASURES = {
    "balance_mean": ("average balance", ".3f"),
    "balance_min": ("minimum balance", ".3f"),
    "normalized_cut": ("normalized cut", ".4f"),
}
_FACTS = {
    "nodes": "{n_nodes:,}, {n_edges:,} edges",
    "rows": "{n_rows:,}, {n_features:,} features",
    "left out": "{n_nodes_left_out:,}",
    "neighbours": "{neighbors}, recall {neighbors_recall:.4f}",
    "solver": "{solver}, {fit:.1f} s",
}
_FITTED = ["affinity_error", "neighbors", "neighbors_recall", "solver", "converged"]
_FITTED += ["n_iter", "n_products", "fairness_violation", "history", "eigenvalues"]
_ASSIGNED = ["cost", "nearest_cost", "lower_bound", "gap", "max_violation", "n_moved"]
_ASSIGNED += ["message"]


@opt.command(_OPTIONS, _EPILOG, data="DATA")
@click.pass_context
def cluster(ctx: click.Context, /, data: Path, **options: Any) -> None:
    """Cluster DATA, a graph or rows, so that every cluster mirrors the population."""
    options = opt.parameters_in_force(ctx, options, _CONDITIONS)
    written, show = _fit.take_outputs(options, data, output="", model=".joblib")
    baseline = options.pop("baseline")
    reading = opt.Reading.take(options, memory_limit=sys.maxsize)
    options["attributes"] = reading.attributes
    parameters, standardize = dict(options), options.pop("standardize", False)
    start = time.perf_counter()
    how = {"affinity": options["affinity"], "standardize": standardize}
    X, ids, groups, source, saved = _read(data, reading, **how)
    seconds = {"read": time.perf_counter() - start}
    model = FairSpectralClustering(**options)
    labels, runs = run_both(model, X, groups, path=data, show=show, baseline=baseline)
    unit = "rows" if "rows" in source else "nodes"
    source[f"n_{unit}_left_out"] = int((model.labels_ < 0).sum())
    seconds["fit"] = runs[FAIR]["seconds"]
    content = {
        **_report.describe_run("cluster", parameters),
        "input": {**source, "groups": _report.count_values(groups)},
        **{**runs[FAIR], "seconds": seconds},
        **({"baseline": runs[UNFAIR]} if baseline else {}),
    }
    facts = _report.fill(_FACTS, {**content, **source, **seconds})
    report = _report.Report("cluster", content, "", str(data), facts)
    add_clusters(report, runs, labels, groups)
    columns = {"id": ids, "label": model.labels_}
    saved |= {"clustering": model, "groups": model.groups_}
    writers = {
        "output": lambda file: write_table(file, columns),
        "model": partial(joblib.dump, saved),
    }
    _fit.finish(report, written, writers, show=show, converged=model.converged_)


def _read(
    path: Path, reading: opt.Reading, *, affinity: str, standardize: bool
) -> tuple[Any, NDArray[Any], Any, dict[str, Any], dict[str, Any]]:
    """Return what is clustered, ids, groups; what a report and a model say of them."""
    given = str(reading.groups)
    if affinity == "precomputed":
        graph: Any = read_graph(path, **reading.text, **reading.edges)
        groups = read_groups(graph, reading)
        size = {"n_nodes": len(graph.ids), "n_edges": graph.n_edges}
        source = {"graph": str(path), "groups_file": given, **size}
        saved = {"nodes": graph.ids, "named": graph.named}
        saved["reading"] = {"attributes": reading.attributes, **reading.edges}
        return graph.matrix, graph.ids, groups, source, saved
    rows = read_rows(path, reading, words="refuse")
    impute = reading.missing == "impute"
    encoder = fit_encoder(rows, standardize=standardize, impute=impute)
    X, saved = encode(encoder, rows), _fit.describe_columns(rows, reading)
    if sparse.issparse(X) and affinity != "nearest_neighbors":
        raise Failure(f"{path}: --affinity {affinity} takes dense rows.")
    of = "groups_file" if "groups" in rows.from_files else "groups_column"
    size = {"n_rows": rows.n_rows, "n_features": X.shape[1]}
    source = {"rows": str(path), of: given, **size}
    return X, rows.ids, rows.compared, source, {**saved, "encoder": encoder}


def read_groups(graph: Graph, reading: opt.Reading, kind: str | None = None) -> Any:
    """Read groups of nodes, if any, of a kind if told; say the notes of their graph."""
    say_notes(graph)
    if reading.groups is None:
        return None
    nodes: Any = graph.nodes
    place, names = f"the nodes of {graph.path}", None
    if nodes is not None:
        names = opt.role_columns(place, list(nodes), reading).get("groups")
    if not names:
        values = read_values(reading.groups, graph, "group", **reading.values("groups"))
    elif lacking := graph.ids[nodes[names].isna().any(axis=1)].tolist():
        raise Failure(
            f"{graph.path}: {len(lacking)} node(s) have no {' or '.join(names)}: "
            f"{listed(lacking)}. Give each one."
        )
    else:
        values = nodes[names]
    if isinstance(values, np.ndarray):
        return values
    kinds = [kind] if values.shape[1] == 1 else [None] * values.shape[1]
    groups, _, each = type_values(values, reading.groups, kinds, reading.attributes)
    return groups if each is None else each


def run_both(
    model: FairSpectralClustering, X: Any, groups: Any, *, baseline: bool, **how: Any
) -> tuple[Labels, Runs]:
    """Labels with and without fairness, and what a report says of each run."""
    labels: Labels = {}
    runs: Runs = {}
    for name in (FAIR, UNFAIR) if baseline else (FAIR,):
        own_peak, start = reset_peak_memory(), time.perf_counter()
        if name == FAIR:
            _fit.fit(model, X, sensitive_features=groups, **how)
            labels[name], found = model.labels_, _describe_fit(model)
        else:
            labels[name], found = _cluster_without_fairness(model)
        runs[name] = {
            "seconds": time.perf_counter() - start,
            "peak_memory_bytes": peak_memory(),
            "peak_memory_is_of_this_run": own_peak,
            **found,
            **measure_clusters(labels[name], groups, model.affinity_matrix_),
        }
    return labels, runs


def _cluster_without_fairness(
    model: FairSpectralClustering,
) -> tuple[NDArray[Any], dict[str, Any]]:
    """Labels of plain spectral clustering of the same nodes by the same affinity."""
    # All eigensolvers find the same subspace: this is the one of solver="chebyshev".
    from scalefair.cluster._kmeans import embedding_kmeans, embedding_rows
    from scalefair.linalg import chebyshev
    from scalefair.operators import NormalizedAffinity, NormalizedOperator

    kept, W, seed = model.labels_ >= 0, model.affinity_matrix_, model.random_state
    W = W if kept.all() else W[kept][:, kept]
    normalized: Any = NormalizedAffinity if sparse.issparse(W) else NormalizedOperator
    operator = normalized(W, regularization=model.regularization)
    k, n_init = model.n_clusters, model.n_init
    found = chebyshev(operator, k, tol=model.tol, random_state=seed)
    rows, weights = embedding_rows(found.vectors, operator)
    labels = np.full(kept.size, -1)
    how = {"weights": weights, "n_init": n_init, "random_state": seed}
    labels[kept] = embedding_kmeans(rows, k, **how)
    if not found.converged:
        warn("Clustering without fairness did not converge: raise --tol.")
    return labels, {"converged": found.converged}


def _describe_fit(model: FairSpectralClustering) -> dict[str, Any]:
    """How affinity, solver and assignment fared, as far as there are any."""
    found = {name: getattr(model, f"{name}_") for name in _FITTED}
    found |= {"residual_max": np.max(model.residuals_), "affinity": model.affinity}
    if (assignment := model.assignment_) is not None:
        found["assignment"] = {name: getattr(assignment, name) for name in _ASSIGNED}
    return {name: value for name, value in found.items() if value is not None}


def measure_clusters(
    labels: NDArray[Any], groups: Any, matrix: Any = None
) -> dict[str, Any]:
    """Balance and cut of a clustering, and the composition of its clusters."""
    kept, each = labels != -1, _report.by_attribute(groups)
    tables = {of: pandas.crosstab(labels[kept], x[kept]) for of, x in each.items()}
    counts = pandas.concat(tables.values(), axis=1)
    names = [(of, group) for of, table in tables.items() for group in table]
    counts.columns = [group if of == "" else f"{of} {group}" for of, group in names]
    balance = balance_score(
        labels, sensitive_features=groups, average=None, attributes="each"
    )
    found = {"balance_mean": balance.mean(), "balance_min": balance.min()}
    if matrix is not None and _have_edges(matrix, labels):
        found["normalized_cut"] = normalized_cut_score(matrix, labels)
    found["clusters"] = [
        {
            "label": label,
            "size": row.sum() // len(each),
            "balance": own,
            "groups": dict(row),
        }
        for own, (label, row) in zip(balance, counts.iterrows(), strict=True)
    ]
    return found


def _have_edges(matrix: Any, labels: NDArray[Any]) -> bool:
    """Whether each cluster has; isolated nodes may be one, if regularised."""
    kept = labels != -1
    degrees = matrix @ kept.astype(np.float64)
    return set(labels[kept]) == set(labels[kept & (degrees > 0)])


def add_clusters(
    report: _report.Report, runs: Runs, labels: Labels, groups: Any
) -> None:
    """Add title, measures, tables and a figure of a clustering, and of a second one."""
    (_, main), *others = runs.items()
    for key, (title, spec) in _MEASURES.items():
        if key in main:
            more = [f" ({other[key]:{spec}} {name})" for name, other in others]
            report.facts.append((title, f"{main[key]:{spec}}{''.join(more)}"))
    sizes = np.array([entry["size"] for entry in main["clusters"]])
    span = f"{sizes.min():,d} to {sizes.max():,d}, median {np.median(sizes):,.0f}"
    report.facts.append(("cluster sizes", span))
    report.title = f"Clusters: average balance {dict(report.facts)['average balance']}"
    columns = {"label": ("cluster", ""), "size": ("size", ",d")}
    columns |= {"balance": ("balance", ".3f")}
    names = [f"group {g}" for g in main["clusters"][0]["groups"]]
    columns |= {name: (name, ",d") for name in names}
    for name, part in runs.items():
        records = [
            entry | dict(zip(names, entry["groups"].values(), strict=True))
            for entry in part["clusters"]
        ]
        report.tables.append(_report.Table(f"Clusters, {name}", records, columns))

    def plot(figure: Any) -> None:
        from scalefair.plotting import ClusterCompositionDisplay

        how = {"sensitive_features": groups, "attributes": "each"}
        axes = figure.subplots(1, len(labels), sharey=True, squeeze=False)[0]
        for ax, name in zip(axes, reversed(labels), strict=True):
            how |= {"ax": ax, "name": name, "legend": ax is axes[-1]}
            ClusterCompositionDisplay.from_predictions(labels[name], **how)

    caption = "Share of each group in each cluster; dashed: in the population."
    # More bars than this could not be told apart.
    if len(columns) <= 31 and len(records) <= 200:
        height = 2.2 + 2 * len(_report.by_attribute(groups))
        size, alt = (5.0 + 4 * len(labels), height), f"{report.title}. {caption}"
        report.figures.append(_report.Figure(plot, size, alt, caption))
