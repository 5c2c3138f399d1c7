"""``scalefair cluster``: fair clusters of a graph, or of rows, in a file."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas
from numpy.typing import NDArray
from scipy import sparse

from scalefair.cli import _fit
from scalefair.cli import _options as opt
from scalefair.cli._errors import EXIT_CODES, NOT_CONVERGED, Failure, debug_option, note
from scalefair.cli._output import name_outputs, write_files, write_table
from scalefair.cli._report import Figure, Report, Table, count_values, describe_run
from scalefair.cli._rows import Reading, encode, fit_encoder, read_rows
from scalefair.cluster import FairSpectralClustering
from scalefair.files import read_graph
from scalefair.files._values import read_values
from scalefair.metrics import balance_score, normalized_cut_score

_EPILOG = f"""\b
DATA is a graph: text with a line `source target [weight]` per edge, or a matrix
(text, .npz of SciPy, .npy, .mtx). With another --affinity than precomputed it is
rows: a table (text, parquet), or an array (.npy, .npz); see --standardize.
\b
A file of groups has lines `id,group`. Nodes and rows without ids of their own go by
their numbers from 0. Labels are lines `id,label`; -1: left out by --components.
\b
Solvers: chebyshev, in blocks, the fastest as a rule; lobpcg, with multigrid, for
grids; lanczos (s-FSC); nullspace, dense and exact (o-FSC). Advanced: dual, by
L-BFGS; admm (Tonin et al. 2025), under another constraint, for comparison.
\b
{EXIT_CODES}
"""
_KERNELS = ("rbf", "rbf_nystroem")
_ROWS = ("nearest_neighbors", *_KERNELS)
# Options that mean something only with some values of another one.
_CONDITIONS = {
    "id_column": ("affinity", _ROWS),
    "drop": ("affinity", _ROWS),
    "missing": ("affinity", _ROWS),
    "standardize": ("affinity", _ROWS),
    "keep_groups": ("affinity", _ROWS),
    "n_neighbors": ("affinity", ("nearest_neighbors",)),
    "gamma": ("affinity", _KERNELS),
    "n_landmarks": ("affinity", ("rbf_nystroem",)),
    "connected_components": ("affinity", ("precomputed", "nearest_neighbors")),
    "balance_tolerance": ("assign_labels", ("fair",)),
}
_SECTIONS = {
    "Affinity": ("affinity", "n_neighbors", "gamma"),
    "Eigenvectors": ("solver", "tol"),
    "Clusters": ("assign_labels", "balance_tolerance", "random_state"),
    "Advanced": ("n_landmarks", "max_iter", "n_init"),
}
_PARAMETERS: dict[str, tuple[Any, ...]] = {
    "n_clusters": ("Required", "-k", {"required": True}),
    **{name: (where,) for where, names in _SECTIONS.items() for name in names},
    "connected_components": ("Affinity", "--components"),
    "dtype": ("Advanced", {"type": click.Choice(["float32", "float64"])}),
}
_OPTIONS = [
    *opt.GROUPS,
    opt.STANDARDIZE,
    *opt.estimator_options(FairSpectralClustering, _PARAMETERS),
    *(opt.output_option("the labels"), opt.BASELINE, *opt.INPUT, opt.REPORT, opt.QUIET),
]
FAIR, UNFAIR = "fair", "without fairness"
MEASURES = {
    "balance_mean": ("average balance", ".3f"),
    "balance_min": ("minimum balance", ".3f"),
    "normalized_cut": ("normalized cut", ".4f"),
}


@click.command(cls=opt.SectionedCommand, epilog=_EPILOG)
@click.argument("data", type=opt.PATH)
@partial(opt.add_options, options=_OPTIONS)
@debug_option
@click.pass_context
def cluster(ctx: click.Context, /, data: Path, **options: Any) -> None:
    """Cluster DATA, a graph or rows, so that every cluster mirrors the population."""
    options = opt.parameters_in_force(ctx, options, _CONDITIONS)
    take = options.pop
    output, report_file = take("output"), take("report_file")
    outputs = {"output": (output, ""), "report": (report_file, "")}
    written = name_outputs(outputs, (data, Path(options["groups"])))
    show, baseline = _fit.on_terminal(take("quiet"), written.values()), take("baseline")
    if baseline is None:
        baseline = show or report_file is not None
    reading = Reading.take(options, memory_limit=sys.maxsize)
    parameters, standardize = dict(options), options.pop("standardize", False)
    start = time.perf_counter()
    X, ids, values, source = _read(data, reading, options["affinity"], standardize)
    seconds = time.perf_counter() - start
    model = FairSpectralClustering(**options)
    labels, runs = run_both(model, X, values, path=data, show=show, baseline=baseline)
    unit = "rows" if "rows" in source else "nodes"
    source[f"n_{unit}_left_out"] = int((model.labels_ < 0).sum())
    content = {
        **describe_run("cluster", parameters),
        "input": {**source, "groups": count_values(values)},
        **runs[FAIR],
        "seconds": {"read": seconds, "fit": runs[FAIR]["seconds"]},
        **({"baseline": runs[UNFAIR]} if baseline else {}),
    }
    report = Report("cluster", content, "", str(data))
    sizes = [(key[2:], n) for key, n in source.items() if key.startswith("n_")]
    report.facts += [(key.replace("_", " "), f"{n:,}") for key, n in sizes]
    report.facts.append(("solver", f"{model.solver_}, {runs[FAIR]['seconds']:.1f} s"))
    add_clusters(report, runs, labels, values)
    columns = {"id": ids, "label": model.labels_}
    writers = {
        "output": lambda file: write_table(file, columns),
        "report": lambda file: report.write(file, report_file),
    }
    write_files({path: writers[name] for name, path in written.items()})
    if show:
        report.show(written)
    if not model.converged_:
        ctx.exit(NOT_CONVERGED)


def text_options(reading: Reading) -> dict[str, Any]:
    """Options about text, as the readers take them."""
    names = ("header", "delimiter", "decimal", "skip_lines")
    return {name: getattr(reading, name) for name in names}


def _read(
    path: Path, reading: Reading, affinity: str, standardize: bool
) -> tuple[Any, NDArray[Any], NDArray[Any], dict[str, Any]]:
    """Return what is clustered, ids, groups, and what a report says of them."""
    groups = str(reading.groups)
    if affinity == "precomputed":
        graph: Any = read_graph(path, **text_options(reading))
        for message in graph.notes:
            note(message)
        header = reading.groups_header
        values = read_values(Path(groups), graph, "group", header=header, say=note)
        size = {"n_nodes": len(graph.ids), "n_edges": graph.n_edges}
        source = {"graph": str(path), "groups_file": groups, **size}
        return graph.matrix, graph.ids, values, source
    rows = read_rows(path, reading, words="refuse")
    impute = reading.missing == "impute"
    X = encode(fit_encoder(rows, standardize=standardize, impute=impute), rows)
    if sparse.issparse(X) and affinity != "nearest_neighbors":
        raise Failure(f"{path}: --affinity {affinity} takes dense rows.")
    of = "groups_file" if "groups" in rows.from_files else "groups_column"
    size = {"n_rows": rows.n_rows, "n_features": X.shape[1]}
    return X, rows.ids, rows.groups, {"rows": str(path), of: groups, **size}


def run_both(
    model: FairSpectralClustering,
    X: Any,
    groups: NDArray[Any],
    *,
    path: Path | str,
    show: bool,
    baseline: bool = True,
) -> tuple[dict[str, NDArray[Any]], dict[str, dict[str, Any]]]:
    """Labels with and without fairness, and what a report says of each run."""
    seconds = _fit.fit(model, X, path=path, show=show, sensitive_features=groups)
    labels: dict[str, NDArray[Any]] = {FAIR: model.labels_}
    runs = {FAIR: {"seconds": seconds, "peak_memory_bytes": _fit.peak_memory()}}
    runs[FAIR] |= _describe_fit(model)
    if baseline:
        own_peak, start = _fit.reset_peak_memory(), time.perf_counter()
        labels[UNFAIR], converged = _cluster_without_fairness(model)
        runs[UNFAIR] = {
            "seconds": time.perf_counter() - start,
            "peak_memory_bytes": _fit.peak_memory(),
            "peak_memory_is_of_this_run": own_peak,
            "converged": converged,
        }
    for name, part in labels.items():
        runs[name] |= measure_clusters(part, groups, model.affinity_matrix_)
    return labels, runs


def _cluster_without_fairness(
    model: FairSpectralClustering,
) -> tuple[NDArray[Any], bool]:
    """Labels of plain spectral clustering of the same nodes by the same affinity.

    All eigensolvers find the same subspace: this is the one of solver="chebyshev".
    """
    from scalefair.cluster._kmeans import embedding_kmeans
    from scalefair.linalg import chebyshev
    from scalefair.operators import NormalizedAffinity, NormalizedOperator

    kept, W, seed = model.labels_ >= 0, model.affinity_matrix_, model.random_state
    if sparse.issparse(W):
        operator: Any = NormalizedAffinity(W if kept.all() else W[kept][:, kept])
    else:
        operator = NormalizedOperator(W)
    k, n_init = model.n_clusters, model.n_init
    found = chebyshev(operator, k, tol=model.tol, random_state=seed)
    rows = found.vectors * operator.inv_sqrt_degrees[:, None]
    labels = np.full(kept.size, -1)
    labels[kept] = embedding_kmeans(rows, k, n_init=n_init, random_state=seed)
    return labels, found.converged


def _describe_fit(model: FairSpectralClustering) -> dict[str, Any]:
    """How affinity, solver and assignment fared, as far as there are any."""
    names = "affinity_error solver converged n_iter n_products fairness_violation"
    found = {name: getattr(model, f"{name}_") for name in names.split()}
    found |= {"residual_max": np.max(model.residuals_), "history": model.history_}
    found |= {"affinity": model.affinity, "eigenvalues": model.eigenvalues_}
    if (assignment := model.assignment_) is not None:
        kept = {k: v for k, v in vars(assignment).items() if k != "labels"}
        found["assignment"] = {**kept, "gap": assignment.gap}
    return {name: value for name, value in found.items() if value is not None}


def measure_clusters(
    labels: NDArray[Any], groups: NDArray[Any], matrix: Any = None
) -> dict[str, Any]:
    """Balance and cut of a clustering, and the composition of its clusters."""
    counts = pandas.crosstab(labels[labels != -1], groups[labels != -1])
    balance = balance_score(labels, sensitive_features=groups, average=None)
    found = {"balance_mean": balance.mean(), "balance_min": balance.min()}
    if matrix is not None:
        found["normalized_cut"] = normalized_cut_score(matrix, labels)
    found["clusters"] = [
        {"label": label, "size": row.sum(), "balance": own, "groups": dict(row)}
        for own, (label, row) in zip(balance, counts.iterrows(), strict=True)
    ]
    return found


def add_clusters(
    report: Report,
    runs: Mapping[str, dict[str, Any]],
    labels: Mapping[str, NDArray[Any]],
    groups: NDArray[Any],
) -> None:
    """Add title, measures, tables and a figure of a clustering, and of a second one."""
    (_, main), *others = runs.items()
    for key, (title, spec) in MEASURES.items():
        if key in main:
            more = [f" ({other[key]:{spec}} {name})" for name, other in others]
            report.facts.append((title, f"{main[key]:{spec}}{''.join(more)}"))
    report.title = f"Clusters: average balance {dict(report.facts)['average balance']}"
    for name, part in runs.items():
        records = [
            {**entry, **{f"group {g}": n for g, n in entry["groups"].items()}}
            for entry in part["clusters"]
        ]
        columns = {"label": ("cluster", ""), "size": ("size", ",d")}
        columns |= {"balance": ("balance", ".3f")}
        columns |= {key: (key, ",d") for key in records[0] if key.startswith("group ")}
        report.tables.append(Table(f"Clusters, {name}", records, columns))

    def plot(figure: Any) -> None:
        from scalefair.plotting import ClusterCompositionDisplay

        axes = figure.subplots(1, len(labels), sharey=True, squeeze=False)[0]
        for ax, (name, part) in zip(axes, reversed(list(labels.items())), strict=True):
            ClusterCompositionDisplay.from_predictions(
                part, sensitive_features=groups, ax=ax, name=name, legend=ax is axes[-1]
            )

    caption = "Share of each group in each cluster; dashed: in the population."
    size, alt = (5.0 + 4 * len(labels), 4.2), f"{report.title}. Bars: {caption}"
    # More bars than this could not be told apart.
    if len(columns) <= 31 and len(records) <= 200:
        report.figures.append(Figure(plot, size, alt, caption))
