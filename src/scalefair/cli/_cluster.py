"""``scalefair cluster``: fair clusters of a graph, or of rows, in a file.

Nodes of a graph have groups and weights but no features. They are `Rows` as well, so
that all steps after the reading are the same for both.
"""

import sys
import time
from copy import copy
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
from scalefair.cli import _encoder, _report, _run
from scalefair.cli import _options as opt
from scalefair.cli._errors import Failure, print_notes, warn
from scalefair.cli._report import Facts
from scalefair.cli._roles import Rows, find_role_columns, type_role, type_weights
from scalefair.cli._rows import read_rows
from scalefair.cluster import FairSpectralClustering
from scalefair.files._graphs import Graph, load_graph
from scalefair.metrics import balance_score, normalized_cut_score

_EPILOG = """\b
DATA is a graph: edges `source target [weight]`, or a matrix. With another
--affinity than precomputed it is rows. Labels of -1: left out by --components,
or of weight 0.
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
# Affinities that are computed from rows; the other one, precomputed, is a graph's.
_ROW_AFFINITIES = ("nearest_neighbors", *_KERNELS)
_ROW_OPTIONS = ("id_column", "drop", "feature", "missing", "standardize", "keep_groups")
_GROUP_OPTIONS = ("group_probabilities", "missing_groups", "knots", "na_values")
_EDGE_OPTIONS = ("directed", "weights", "weight_column")
# Options that apply only with some values of another one.
_CONDITIONS = {
    **dict.fromkeys(_ROW_OPTIONS, ("affinity", _ROW_AFFINITIES)),
    **dict.fromkeys(("n_neighbors", "neighbors"), ("affinity", ("nearest_neighbors",))),
    "gamma": ("affinity", _KERNELS),
    "n_landmarks": ("affinity", ("rbf_nystroem",)),
    "connected_components": ("affinity", ("precomputed", "nearest_neighbors")),
    **dict.fromkeys(_EDGE_OPTIONS, ("affinity", ("precomputed",))),
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
# Attributes of options that differ from those of the parameters.
_CHANGED: dict[str, dict[str, Any]] = {
    "n_clusters": {"required": True},
    "solver": {"metavar": "[auto|chebyshev|lobpcg|lanczos|nullspace|...]"},
    "affinity": {"type": click.Choice(["precomputed", *_ROW_AFFINITIES])},
    "dtype": {"type": click.Choice(["auto", "float32", "float64"])},
}
_OPTIONS = [
    *opt.shared(f"{opt.GROUPS} standardize"),
    opt.output_option("the labels"),
    *opt.estimator_options(FairSpectralClustering, _PARAMETERS, **_CHANGED),
    *opt.shared(f"baseline {opt.INPUT} directed weights weight-column report quiet"),
    opt.option("Files", "--model", "model_file", type=opt.PATH, help=_MODEL),
]
# Labels, and what is said of them, by the name of the clustering.
Labels = dict[str, NDArray[Any]]
Runs = dict[str, Facts]
FAIR, UNFAIR = "fair", "without fairness"
# Titles and formats of the measures of a clustering.
_MEASURES = {
    "balance_mean": ("average balance", ".3f"),
    "balance_min": ("minimum balance", ".3f"),
    "normalized_cut": ("normalized cut", ".4f"),
}
# Facts of the input and the solver. Those that lack a value, as of rows where a graph
# was clustered, are left out.
_FACTS = {
    "nodes": "{n_nodes:,}, {n_edges:,} edges",
    "rows": "{n_rows:,}, {n_features:,} features",
    "weights": _report.WEIGHTS,
    "groups": "{expected}",
    "left out": "{n_left_out:,}",
    "neighbours": "{neighbors}, recall {neighbors_recall:.4f}",
    "solver": "{solver}, {fit:.1f} s",
}
# Attributes in the report: of the model, without their underscore, and its assignment.
_FITTED = (
    "affinity_error neighbors neighbors_recall solver converged n_iter n_products "
    "fairness_violation history eigenvalues"
)
_ASSIGNMENT = "cost nearest_cost lower_bound gap max_violation n_moved message"


# --- The command ---------------------------------------------------------------------


@opt.command(_OPTIONS, _EPILOG, data="DATA")
def cluster(data: Path, **options: Any) -> None:
    """Cluster DATA, a graph or rows, so that every cluster mirrors the population."""
    options = opt.parameters_in_force(options, _CONDITIONS)
    outputs, show = _run.take_outputs(options, data, output="", model=".joblib")
    baseline = options.pop("baseline")
    read_options = opt.ReadOptions.take(options, memory_limit=sys.maxsize)
    # The report has all parameters; `standardize` is none of the estimator's.
    parameters, standardize = dict(options), options.pop("standardize", False)
    is_graph = options["affinity"] == "precomputed"
    if read_options.missing_groups == "drop" and is_graph:
        raise click.UsageError("--missing-groups drop: nodes of a graph stay; ignore.")
    # 1. Read a graph, or rows; and what report and model say of them.
    start = time.perf_counter()
    if is_graph:
        X, rows, source, saved = _read_graph(data, read_options)
    else:
        affinity = options["affinity"]
        X, rows, source, saved = _read_features(
            data, read_options, affinity, standardize
        )
    seconds = {"read": time.perf_counter() - start}
    # 2. Cluster, perhaps also without fairness.
    model = FairSpectralClustering(**options)
    labels, runs = run_both(model, X, rows, path=data, show=show, baseline=baseline)
    n_left_out = int((model.labels_ < 0).sum())
    source["n_nodes_left_out" if is_graph else "n_rows_left_out"] = n_left_out
    source |= _run.describe_weights(rows)
    seconds["fit"] = runs[FAIR]["seconds"]
    # 3. Write report, labels and model.
    content = {
        **_report.describe_run("cluster", parameters),
        "input": {**source, "groups": _report.count_groups(rows)},
        **{**runs[FAIR], "seconds": seconds},
        **({"baseline": runs[UNFAIR]} if baseline else {}),
    }
    values = {"n_left_out": n_left_out} if n_left_out else {}
    facts = _report.fill(_FACTS, content, n_rows=rows.n_rows, **values)
    report = _report.Report("cluster", content, "", str(data), facts)
    add_clusters(report, runs, labels, rows)
    columns = {"id": rows.ids, "label": model.labels_}
    # A sparse affinity is most of the model's size, and not needed for prediction.
    stored = copy(model)
    if sparse.issparse(model.affinity_matrix_):
        del stored.affinity_matrix_
    saved |= {"clustering": stored, "groups": model.groups_, "knots": rows.knots}
    writers = {
        "output": lambda file: _run.write_table(file, columns),
        "model": partial(joblib.dump, saved),
    }
    _run.finish(report, outputs, writers, show=show, converged=model.converged_)


def _read_graph(
    path: Path, options: opt.ReadOptions
) -> tuple[Any, Rows, Facts, dict[str, Any]]:
    """Return a matrix of weights, its nodes, and what report and model say of them."""
    graph = load_graph(path, options)
    nodes = read_groups(graph, options)
    source = {
        "graph": str(path),
        "groups_file": str(options.groups),
        "n_nodes": nodes.n_rows,
        "n_edges": graph.n_edges,
    }
    names = ("attributes", *_GROUP_OPTIONS, *_EDGE_OPTIONS)
    saved = {
        "nodes": graph.ids,
        "named": graph.named,
        "kinds": nodes.kinds,
        "reading": {name: getattr(options, name) for name in names},
    }
    return graph.matrix, nodes, source, saved


def _read_features(
    path: Path, options: opt.ReadOptions, affinity: str, standardize: bool
) -> tuple[Any, Rows, Facts, dict[str, Any]]:
    """Return features, their rows, and what report and model say of them."""
    rows = read_rows(path, options, strings="refuse")
    impute = options.missing == "impute"
    encoder = _encoder.fit_encoder(rows, standardize=standardize, impute=impute)
    X = _encoder.encode(encoder, rows)
    if not standardize:
        _encoder.note_spreads(rows, X)
    if sparse.issparse(X) and affinity != "nearest_neighbors":
        raise Failure(f"{path}: --affinity {affinity} takes dense rows.")
    groups_key = "groups_file" if "groups" in rows.from_files else "groups_column"
    source = {
        "rows": str(path),
        groups_key: str(options.groups),
        "n_rows": rows.n_rows,
        "n_features": X.shape[1],
    }
    saved = {**_run.describe_columns(rows, options), "encoder": encoder}
    return X, rows, source, saved


def read_groups(
    graph: Graph, options: opt.ReadOptions, training: Rows | None = None
) -> Rows:
    """Return nodes as rows without features, with groups and weights if any.

    If the nodes are new to the graph of a saved model, `training` has the types of the
    groups of its own nodes.
    """
    print_notes(graph)
    nodes = Rows(graph.path, None, [], graph.ids, named=graph.named)
    # 1. Groups and weights are attributes of the nodes if the graph has such, else in a
    #    file.
    columns, table = {}, graph.nodes
    if table is not None:
        source = f"the nodes of {graph.path}"
        columns = find_role_columns(source, list(table), options)
    for role in ("groups", "weight"):
        if (value := getattr(options, role)) is None:
            continue
        nodes.sources[role] = value
        if table is None or role not in columns:  # a file of its own
            setattr(nodes, role, options.read_values(role, graph))
            continue
        attributes = table[columns[role]]
        missing = graph.ids[attributes.isna().any(axis=1)].tolist()
        if missing and not (role == "groups" and options.may_lack_groups):
            raise Failure(
                f"{graph.path}: {len(missing)} node(s) have no "
                f"{' or '.join(columns[role])}: {listed(missing)}. Give each one, or "
                "pass --missing-groups ignore."
            )
        setattr(nodes, role, attributes)
    # 2. Strings become their types.
    type_role(nodes, "groups", options, training)
    type_weights(nodes)
    return nodes


# --- Clusterings, and their measures -------------------------------------------------


def run_both(
    model: FairSpectralClustering,
    X: Any,
    rows: Rows,
    *,
    baseline: bool,
    path: Path | str,
    show: bool,
) -> tuple[Labels, Runs]:
    """Cluster with and without fairness: labels, and what a report says of each run.

    Time and memory are those of a run alone where the system can tell.
    """
    labels: Labels = {}
    runs: Runs = {}
    for name in (FAIR, UNFAIR) if baseline else (FAIR,):
        was_reset, start = reset_peak_memory(), time.perf_counter()
        if name == FAIR:
            _run.fit(model, X, path=path, show=show, **rows.fit_arguments)
            labels[name] = model.labels_
            # Results of affinity, solver and assignment that are not None.
            facts = {k: getattr(model, f"{k}_") for k in _FITTED.split()}
            facts["residual_max"] = np.max(model.residuals_)
            facts["affinity"] = model.affinity
            if (assignment := model.assignment_) is not None:
                facts["assignment"] = {
                    **{k: getattr(assignment, k) for k in _ASSIGNMENT.split()},
                    "balance_tolerance": model.balance_tolerance,
                }
            facts = {k: value for k, value in facts.items() if value is not None}
        else:
            labels[name], facts = _cluster_without_fairness(model, rows.weight)
        runs[name] = {
            "seconds": time.perf_counter() - start,
            "peak_memory_bytes": peak_memory(),
            "peak_memory_is_of_this_run": was_reset,
            **facts,
            **measure_clusters(labels[name], rows, model.affinity_matrix_),
        }
    return labels, runs


def _cluster_without_fairness(
    model: FairSpectralClustering, weights: Any
) -> tuple[NDArray[Any], Facts]:
    """Cluster the same nodes by the same affinity with plain spectral clustering.

    The affinity is not computed again: runs differ in their constraints only.
    """
    from scalefair.cluster._base import relative_weights, submatrix, suboperator
    from scalefair.cluster._kmeans import embedding_kmeans, embedding_rows
    from scalefair.linalg import chebyshev
    from scalefair.operators import NormalizedAffinity, NormalizedOperator

    # 1. The same affinity of the nodes that were not left out.
    is_kept, W, seed = model.labels_ >= 0, model.affinity_matrix_, model.random_state
    select: Any = suboperator
    normalized: Any = NormalizedOperator
    if sparse.issparse(W):
        select, normalized = submatrix, NormalizedAffinity
    operator = normalized(
        select(W, is_kept),
        regularization=model.regularization,
        sample_weight=relative_weights(weights, is_kept),
    )
    # 2. Its leading eigenvectors, and k-means of their rows. Without constraints any
    #    solver finds the same subspace: Chebyshev, whichever the model has used.
    k = model.n_clusters
    result = chebyshev(operator, k, tol=model.tol, random_state=seed)
    rows, row_weights = embedding_rows(result.vectors, operator)
    labels = np.full(is_kept.size, -1)
    labels[is_kept] = embedding_kmeans(
        rows, k, weights=row_weights, n_init=model.n_init, random_state=seed
    )
    if not result.converged:
        warn("Clustering without fairness did not converge: raise --tol.")
    return labels, {"converged": result.converged}


def measure_clusters(labels: NDArray[Any], rows: Rows, matrix: Any = None) -> Facts:
    """Return balance and cut of a clustering, and the composition of its clusters.

    Without a `matrix` of weights there is no cut. Labels of -1 are left out.
    """
    # 1. How many of each group, or how much weight, are in each cluster.
    entries, weights = rows.entries(), rows.weight
    groups, entry_labels = entries.sensitive_features, labels[entries.positions]
    is_kept, cell_sums = entry_labels != -1, {}  # `crosstab` counts rows by default
    if entries.weight is not None:
        is_kept &= entries.weight > 0
        cell_sums = {"values": entries.weight[is_kept], "aggfunc": "sum"}
    # Of each attribute a table with a row for each cluster, a column for each group.
    tables = {}
    for attribute, values in _report.by_attribute(groups).items():
        table = pandas.crosstab(entry_labels[is_kept], values[is_kept], **cell_sums)
        tables[attribute] = table.fillna(0)
    # Every table adds up to the same sizes of the clusters.
    sizes = next(iter(tables.values())).sum(axis=1)
    counts = pandas.concat(tables.values(), axis=1)
    counts.columns = [
        f"{attribute} {group}" if attribute else group
        for attribute, table in tables.items()
        for group in table
    ]
    # 2. Balance and cut.
    balances = balance_score(entry_labels, average=None, **entries.metric_arguments)
    facts = {"balance_mean": balances.mean(), "balance_min": balances.min()}
    # The balance of the population is that of one cluster with all of it.
    totals = [table.sum() for table in tables.values()]
    facts["population_balance"] = min(x.min() / x.max() for x in totals)
    if matrix is not None:
        # A cluster without edges, which regularisation allows, has degrees that sum to
        # zero, by which its cut would be divided: there is no cut then.
        masses = np.ones(len(labels)) if weights is None else weights
        is_counted = (labels != -1) & (masses > 0)
        degrees = matrix @ (is_counted * masses)
        if set(labels[is_counted]) == set(labels[is_counted & (degrees > 0)]):
            facts["normalized_cut"] = normalized_cut_score(
                matrix, labels, sample_weight=weights
            )
    clusters = zip(balances, sizes, counts.iterrows(), strict=True)
    facts["clusters"] = [
        {"label": label, "size": size, "balance": balance, "groups": dict(row)}
        for balance, size, (label, row) in clusters
    ]
    return facts


# --- The report ----------------------------------------------------------------------


def add_clusters(
    report: _report.Report, runs: Runs, labels: Labels, rows: Rows
) -> None:
    """Add title, measures, tables and a figure of one or two clusterings.

    The first of `runs` is the main one, with which the report begins.
    """
    # 1. Measures of the first clustering, beside those of the other one.
    (_, main), *baselines = runs.items()
    for key, (title, spec) in _MEASURES.items():
        if key in main:
            compared = [f" ({run[key]:{spec}} {name})" for name, run in baselines]
            report.facts.append((title, f"{main[key]:{spec}}{''.join(compared)}"))
    population = f"{main['population_balance']:.3f}"
    report.facts.append(("population's balance", population))
    sizes = np.array([entry["size"] for entry in main["clusters"]])
    span = f"{sizes.min():,.0f} to {sizes.max():,.0f}, median {np.median(sizes):,.0f}"
    report.facts.append(("cluster sizes", span))
    report.title = f"Clusters: average balance {dict(report.facts)['average balance']}"
    report.summary = _summarize(runs, next(iter(labels.values())))
    # 2. A table of the clusters, after a line for all of them, and one of the steps of
    #    the solver.
    names = [f"group {g}" for g in main["clusters"][0]["groups"]]
    columns = {
        "label": ("cluster", ""),
        "size": ("size", ",.0f"),
        "balance": ("balance", ".3f"),
        **{name: (name, ",.0f") for name in names},
    }
    for name, run in runs.items():
        records = [
            entry | dict(zip(names, entry["groups"].values(), strict=True))
            for entry in run["clusters"]
        ]
        total = {key: sum(x[key] for x in records) for key in ("size", *names)}
        total |= {"label": "all", "balance": run["population_balance"]}
        report.tables += [
            _report.ReportTable(f"Clusters, {name}", [total, *records], columns),
            _report.history_table(run.get("history"), f", {name}"),
        ]
    # 3. A figure, unless there are so many groups or clusters that nobody could tell
    #    them apart.
    entries = rows.entries()

    def plot(figure: Any) -> None:
        """Draw the composition of the clusters, each clustering on its axes."""
        from scalefair.plotting import ClusterCompositionDisplay

        shape = (len(labels), 1) if is_long else (1, len(labels))
        axes = figure.subplots(*shape, sharey=True, squeeze=False).ravel()
        for ax, name in zip(axes, reversed(labels), strict=True):
            ClusterCompositionDisplay.from_predictions(
                labels[name][entries.positions],
                **entries.metric_arguments,
                ax=ax,
                name=name,
                legend=ax is axes[0 if is_long else -1],
            )

    is_long = len(records) > 30  # many bars: the axes lie one above the other
    caption = "Share of each group in each cluster; dashed: in the population."
    if len(names) <= 28 and len(records) <= 200:
        height = 2.2 + 2 * len(_report.by_attribute(entries.sensitive_features))
        size, alt = (5.0 + 4 * len(labels), height), f"{report.title}. {caption}"
        if is_long:
            size = (11.0, height * len(labels))
        report.figures.append(_report.ReportFigure(plot, size, alt, caption))


def _summarize(runs: Runs, labels: NDArray[Any]) -> str:
    """Return what was asked and reached, at what cost, and what is not promised."""
    (_, main), *baselines = runs.items()
    # Labels of any origin, as `evaluate` takes them, have no solver.
    is_fit, assignment = "solver" in main, main.get("assignment")
    k, n_kept = len(main["clusters"]), int((labels != -1).sum())
    balance = "{balance_mean:.3f} on average and {balance_min:.3f} in the worst cluster"
    # 1. What was asked, if the labels are those of a fit, and what was reached.
    text = "Measured: "
    if is_fit:
        text = f"Asked: {k} clusters of {n_kept:,} members. In each, every group has "
        text += "the share that it has in the population"
        if assignment:
            text += f", give or take {assignment['balance_tolerance']:.0%} of that "
            text += "share and one member"
        text += ". Reached: "
    text += "the balance of a cluster (its smallest group divided by its largest) is "
    text += f"{balance.format_map(main)}. In the population it is "
    text += f"{main['population_balance']:.3f}"
    if assignment and assignment["max_violation"] >= 1:
        text += f". A share is off by {assignment['max_violation']:.1f} members more"
    for name, run in baselines:
        text += f". {name.capitalize()} it is {balance.format_map(run)}"
    # 2. The cost, as far as it was computed.
    costs = []
    if assignment:
        share = assignment["n_moved"] / n_kept
        costs.append(f"{share:.1%} of all members were moved from the nearest centre")
    for name, run in baselines:
        if {"normalized_cut"} <= main.keys() & run.keys():
            cut, unfair_cut = main["normalized_cut"], run["normalized_cut"]
            costs.append(f"the normalized cut is {cut:.3f}, {name} {unfair_cut:.3f}")
    if is_fit and not baselines:
        costs.append("the cut without fairness was not computed (--baseline)")
    text += f". Cost: {'; '.join(costs)}" if costs else ""
    # 3. What is not promised.
    text += ". Not promised: "
    if is_fit and not assignment:
        text += "the balance of any cluster, as only the eigenvectors are constrained; "
    return f"{text}any fairness other than the shares of groups in clusters."
