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

from scalefair.cli import _fit, _report
from scalefair.cli import _options as opt
from scalefair.cli._errors import EXIT_CODES, NOT_CONVERGED, Failure, debug_option, note
from scalefair.cli._output import name_outputs, write_files, write_table
from scalefair.cli._rows import Reading, encode, fit_encoder, read_rows
from scalefair.cluster import FairSpectralClustering
from scalefair.files import read_graph, read_values

_EPILOG = f"""\b
DATA is a graph (--affinity precomputed):
  text      `source target [weight]` per line, or a square matrix of numbers
  matrices  of SciPy (.npz), Matrix Market (.mtx), or NumPy (.npy)
or rows of features (nearest_neighbors, rbf, or rbf_nystroem for 100,000 and more):
  a table (text or parquet), or an array (.npy, .npz); scale the features before
\b
Groups of a graph are in a file of lines `id,group`, those of rows in a column or a
file. Without ids of their own, nodes and rows go by their numbers from 0. Labels are
written as lines `id,label`; -1 marks nodes that --components left out.
\b
Solvers:
  chebyshev  polynomial filter on blocks of vectors: the fastest as a rule
  lobpcg     multigrid, for grids and neighbour graphs
  lanczos    one vector at a time (ARPACK), s-FSC
  nullspace  dense and exact, up to a few thousand nodes, o-FSC
  auto       nullspace up to 100 nodes, lobpcg on grids, else chebyshev
Advanced: dual, one minimisation by L-BFGS to the same result; admm, of Tonin et al.
(2025), under another constraint, for comparison.
{EXIT_CODES}
"""
_ROWS = ("nearest_neighbors", "rbf", "rbf_nystroem")
# Options that mean something only with some values of another one.
_CONDITIONS = {
    **dict.fromkeys(
        ("id_column", "drop", "missing", "keep_groups"), ("affinity", _ROWS)
    ),
    "n_neighbors": ("affinity", ("nearest_neighbors",)),
    "gamma": ("affinity", ("rbf", "rbf_nystroem")),
    "n_landmarks": ("affinity", ("rbf_nystroem",)),
    "connected_components": ("affinity", ("precomputed", "nearest_neighbors")),
    "balance_tolerance": ("assign_labels", ("fair",)),
}
_PARAMETERS: dict[str, tuple[Any, ...]] = {
    "n_clusters": ("Required", "-k", {"required": True}),
    "affinity": ("Affinity",),
    "n_neighbors": ("Affinity",),
    "gamma": ("Affinity",),
    "n_landmarks": ("Advanced",),
    "connected_components": ("Affinity", "--components"),
    "solver": ("Eigenvectors",),
    "tol": ("Eigenvectors",),
    "max_iter": ("Advanced",),
    "dtype": ("Advanced", {"type": click.Choice(["float32", "float64"])}),
    "assign_labels": ("Clusters",),
    "balance_tolerance": ("Clusters",),
    "n_init": ("Advanced",),
    "random_state": ("Clusters",),
}
_OPTIONS = [
    *opt.GROUPS,
    *opt.estimator_options(FairSpectralClustering, _PARAMETERS),
    *(opt.output_option("the labels"), opt.BASELINE, *opt.INPUT, opt.REPORT, opt.QUIET),
]
FAIR, UNFAIR = "fair", "without fairness"
# Colours, with and without hatching, of the figure; and bars that can be told apart.
_MAX_GROUPS, _MAX_CLUSTERS = 28, 200


@click.command(cls=opt.SectionedCommand, epilog=_EPILOG)
@click.argument("data", type=opt.PATH)
@partial(opt.add_options, options=_OPTIONS)
@debug_option
@click.pass_context
def cluster(
    ctx: click.Context,
    /,
    data: Path,
    groups: str,
    output: Path,
    report_file: Path | None,
    baseline: bool | None,
    quiet: bool | None,
    **options: Any,
) -> None:
    """Cluster DATA, a graph or rows, so that every cluster mirrors the population."""
    options = opt.parameters_in_force(ctx, options, _CONDITIONS)
    outputs = {"output": (output, ""), "report": (report_file, "")}
    written = name_outputs(outputs, (data, Path(groups)))
    show = _fit.on_terminal(quiet, written.values())
    # The graph of all rows is made at once.
    reading = Reading.take(options, groups=groups, memory_limit=sys.maxsize)
    start = time.perf_counter()
    X, ids, values, source = _read(data, reading, options["affinity"])
    seconds = {"read": time.perf_counter() - start}
    model = FairSpectralClustering(**options)
    seconds["fit"] = _fit.fit(model, X, path=data, show=show, sensitive_features=values)
    peak, labels = _fit.peak_memory(), {FAIR: model.labels_}
    if baseline or (baseline is None and (show or report_file)):
        start = time.perf_counter()
        labels[UNFAIR] = cluster_without_fairness(model)
        seconds["baseline"] = time.perf_counter() - start
    found = {
        name: measure_clusters(part, values, model.affinity_matrix_)
        for name, part in labels.items()
    }
    unit = "rows" if "rows" in source else "nodes"
    source[f"n_{unit}_left_out"] = int((model.labels_ < 0).sum())
    content = {
        **_report.describe_run("cluster", options),
        "input": {**source, "groups": _report.count_values(values)},
        "seconds": seconds,
        **describe_fit(model),
        **found[FAIR],
        **({"baseline": found[UNFAIR]} if UNFAIR in found else {}),
        "peak_memory_bytes": peak,
    }
    title = f"Clusters: {len(found[FAIR]['clusters']):,}, average balance "
    title += beside(found, "balance_mean", ".2f")
    report = _report.Report(
        "cluster", content, title, str(data), _facts(content, found)
    )
    show_clusters(report, found, labels, values, unit)
    columns = {"id": ids, "label": model.labels_}
    writers = {output: lambda file: write_table(file, columns)}
    if report_file is not None:
        writers[report_file] = lambda file: report.write(file, report_file)
    write_files(writers)
    if show:
        report.show(written)
    if not model.converged_:
        ctx.exit(NOT_CONVERGED)


def _read(
    path: Path, reading: Reading, affinity: str
) -> tuple[Any, NDArray[Any], NDArray[Any], dict[str, Any]]:
    """Return what is clustered, ids, groups, and what a report says of them."""
    groups = str(reading.groups)
    if affinity == "precomputed":
        graph = read_graph(path, **reading.text)
        values = read_groups(groups, graph, reading.groups_header)
        size = {"n_nodes": len(graph.ids), "n_edges": graph.n_edges}
        source = {"graph": str(path), "groups_file": groups, **size}
        return graph.matrix, graph.ids, values, source
    rows = read_rows(path, reading, words="refuse")
    encoder = fit_encoder(rows, standardize=False, impute=reading.missing == "impute")
    X = encode(encoder, rows)
    if sparse.issparse(X) and affinity != "nearest_neighbors":
        raise Failure(f"{path}: --affinity {affinity} takes dense rows.")
    of = "groups_file" if "groups" in rows.from_files else "groups_column"
    size = {"n_rows": rows.n_rows, "n_features": X.shape[1]}
    return X, rows.ids, rows.groups, {"rows": str(path), of: groups, **size}


def read_groups(path: str, units: Any, header: bool | None) -> NDArray[Any]:
    """Read the groups of nodes, and say what was assumed of both files."""
    notes = getattr(units, "notes", [])
    values = read_values(Path(path), units, "group", header=header, notes=notes)
    for message in notes:
        note(message)
    return values


def cluster_without_fairness(model: FairSpectralClustering) -> NDArray[np.integer]:
    """Labels of spectral clustering of the same nodes by the same affinity.

    All eigensolvers find the same subspace: it is the one of solver="chebyshev".
    """
    from scalefair.cluster._kmeans import embedding_kmeans
    from scalefair.linalg import chebyshev
    from scalefair.operators import NormalizedAffinity, NormalizedOperator

    kept, W, seed = model.labels_ >= 0, model.affinity_matrix_, model.random_state
    if sparse.issparse(W):
        operator: Any = NormalizedAffinity(W if kept.all() else W[kept][:, kept])
    else:
        operator = NormalizedOperator(W)
    found = chebyshev(operator, model.n_clusters, tol=model.tol, random_state=seed)
    if not found.converged:
        note(f"clustering without fairness did not converge: {found.message}")
    rows = found.vectors * operator.inv_sqrt_degrees[:, None]
    labels = np.full_like(model.labels_, -1)
    labels[kept] = embedding_kmeans(
        rows, model.n_clusters, n_init=model.n_init, random_state=seed
    )
    return labels


def describe_fit(model: FairSpectralClustering) -> dict[str, Any]:
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
    """Balance and cut of a clustering, and the composition of each cluster."""
    from scalefair.metrics import balance_score, normalized_cut_score

    kept = labels != -1
    counts = pandas.crosstab(labels[kept], groups[kept])
    balance = balance_score(labels, sensitive_features=groups, average=None)
    found = {"balance_mean": balance.mean(), "balance_min": balance.min()}
    if matrix is not None:
        found["normalized_cut"] = normalized_cut_score(matrix, labels)
    clusters = [
        {"label": label, "size": row.sum(), "balance": own, "groups": row.to_dict()}
        for own, (label, row) in zip(balance, counts.iterrows(), strict=True)
    ]
    return {**found, "clusters": clusters}


def beside(found: Mapping[str, Any], key: str, spec: str) -> str:
    """Return a measure, with that of the baseline in brackets."""
    values = {name: format(part[key], spec) for name, part in found.items()}
    more = f" ({values[UNFAIR]} {UNFAIR})" if UNFAIR in values else ""
    return f"{values[FAIR]}{more}"


def _facts(
    content: Mapping[str, Any], found: Mapping[str, Any]
) -> list[tuple[str, str]]:
    facts = [
        (name.removeprefix("n_").replace("_", " "), f"{value:,}")
        for name, value in content["input"].items()
        if name.startswith("n_") and (value or "left" not in name)
    ]
    facts += [
        ("affinity", content["affinity"]),
        ("clusters", f"{len(content['clusters']):,}"),
        ("average balance", beside(found, "balance_mean", ".3f")),
        ("minimum balance", beside(found, "balance_min", ".3f")),
        ("normalized cut", beside(found, "normalized_cut", ".4f")),
        ("solver", f"{content['solver']}, {_report.iterations(content['n_iter'])}"),
        ("time", f"{content['seconds']['fit']:.1f} s"),
    ]
    if "affinity_error" in content:
        facts.append(("affinity error", f"about {content['affinity_error']:.1e}"))
    if "assignment" in content:
        moved, gap = (content["assignment"][name] for name in ("n_moved", "gap"))
        facts.append(("moved for balance", f"{moved:,}, at most {gap:.2%} too many"))
    return facts


def show_clusters(
    report: _report.Report,
    found: Mapping[str, Any],
    labels: Mapping[str, NDArray[Any]],
    groups: NDArray[Any],
    unit: str,
) -> None:
    """Add to a report a table of each clustering, and one figure of all."""
    for name, part in found.items():
        clusters = part["clusters"]
        columns = {"label": ("cluster", ""), "size": (unit, ",d")}
        columns |= {"balance": ("balance", ".3f")}
        # Names of groups may be those of the other columns: their places tell.
        columns |= {(g,): (f"group {g}", ",d") for g in clusters[0]["groups"]}
        records = [
            {**entry, **{(g,): n for g, n in entry["groups"].items()}}
            for entry in clusters
        ]
        report.tables.append(_report.Table(f"Clusters, {name}", records, columns))
    n_groups = len(clusters[0]["groups"])
    if n_groups > _MAX_GROUPS or len(clusters) > _MAX_CLUSTERS:
        report.remarks.append(
            f"There is no figure of more than {_MAX_GROUPS} groups or {_MAX_CLUSTERS} "
            f"clusters, here {n_groups:,} and {len(clusters):,}."
        )
        return
    alt = "Stacked bars of the share of each group in each cluster: average balance "
    alt += ", ".join(
        f"{part['balance_mean']:.3f} {name}" for name, part in found.items()
    )
    caption = (
        "Share of each group in each cluster. A cluster mirrors the population where "
        "its bars meet the dashed lines."
    )
    size = (9.0 if len(labels) == 1 else 12.0, 4.2)
    plot = partial(draw_clusters, labels=labels, groups=groups)
    report.figures.append(_report.Figure(plot, size, alt, caption))


def draw_clusters(
    figure: Any, labels: Mapping[str, NDArray[Any]], groups: NDArray[Any]
) -> None:
    """Draw clusterings beside each other."""
    from scalefair.plotting import ClusterCompositionDisplay

    axes = figure.subplots(1, len(labels), sharey=True, squeeze=False)[0]
    for ax, (name, part) in zip(axes, labels.items(), strict=True):
        ClusterCompositionDisplay.from_predictions(
            part,
            sensitive_features=groups,
            ax=ax,
            name=name if len(labels) > 1 else None,
            legend=ax is axes[-1],
        )
