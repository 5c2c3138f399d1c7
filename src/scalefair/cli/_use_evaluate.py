"""``scalefair evaluate``: how fair labels or scores are, whatever they are from."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas
from pandas.api.types import is_numeric_dtype

from scalefair import metrics
from scalefair._groups import check_interval
from scalefair.cli import _options as opt
from scalefair.cli._cluster import add_clusters, measure_clusters, text_options
from scalefair.cli._errors import EXIT_CODES, Failure, debug_option
from scalefair.cli._fit import on_terminal
from scalefair.cli._output import name_outputs, write_files
from scalefair.cli._report import Report, Table, count_values, describe_run
from scalefair.cli._rows import Reading, Rows, read_rows
from scalefair.files import read_graph
from scalefair.files._tables import TableFile
from scalefair.files._values import as_values

_EPILOG = f"""\b
RESULT is a table: labels of `scalefair cluster`, scores of `scalefair predict`, or
any with a column that --labels or --scores names. Groups and targets are columns of
it, or files by the ids of its rows. Labels of -1 are left out.
\b
{EXIT_CODES}
"""
_MEASURES = {
    "partial_parity_gap": ("partial parity gap", ".4f"),
    "weak_partial_parity_gap": ("weak gap", ".4f"),
    "ks": ("KS distance", ".4f"),
    "selection_rate": ("share above the threshold", ".4f"),
    "accuracy": ("accuracy", ".4f"),
    "mse": ("mean squared error", ".4g"),
}
_GROUP = {"group": ("group", ""), "n_rows": ("rows", ",d"), **_MEASURES}
_OWN: list[tuple[str, Any, Any, str]] = [
    ("labels", str, None, "Column of clusters.  [default: label]"),
    ("scores", str, None, "Column of scores.  [default: score, or prediction]"),
    ("target", str, None, "Column or file of what was to be predicted."),
    ("graph", opt.PATH, None, "Graph whose nodes have the labels, for the cut."),
    ("interval", str, "0,1", "Ranks a,b that the gaps are about, 0 at the top."),
    ("threshold", opt.Finite(), 0.0, "Scores above are decisions in favour."),
]
_OPTIONS = [
    opt.option("Measures", f"--{name}", type=kind, default=default, help=told)
    for name, kind, default, told in _OWN
]
_OPTIONS += [opt.GROUPS[0], opt.GROUPS[2], opt.TARGET[1], *opt.INPUT[1:]]
_OPTIONS += [opt.REPORT, opt.QUIET]


@click.command(cls=opt.SectionedCommand, epilog=_EPILOG)
@click.argument("result", type=opt.PATH)
@partial(opt.add_options, options=_OPTIONS)
@debug_option
def evaluate(
    result: Path, report_file: Path | None, quiet: bool | None, **options: Any
) -> None:
    """Measure the labels or scores in RESULT by groups."""
    parameters = dict(options)
    try:
        interval = check_interval(options.pop("interval").split(","))
    except ValueError as error:
        raise click.UsageError("--interval is a,b with 0 <= a < b <= 1.") from error
    parameters["interval"] = interval
    graph, threshold = options.pop("graph"), options.pop("threshold")
    files = [Path(options[name] or "") for name in ("groups", "target")]
    written = name_outputs({"report": (report_file, "")}, [result, *files])
    given = {name: options.pop(name) for name in ("labels", "scores")}
    reading = Reading.take(options)
    names = TableFile(result, **text_options(reading)).names
    if names[0] == "row" and reading.id_column is None:
        reading = replace(reading, id_column="row")  # as predict writes it
    kind, column = _choose(result, names, given)
    columns = [column]
    if kind == "scores" and "prediction" in names and reading.target is not None:
        columns = list(dict.fromkeys([column, "prediction"]))
    rows = read_rows(result, reading, words="keep", columns=columns)
    source = {"result": str(result), kind: column, "n_rows": rows.n_rows}
    content = describe_run("evaluate", parameters)
    content["input"] = {**source, "groups": count_values(rows.groups)}
    report = Report("evaluate", content, "", f"{result}, column {column}")
    if kind == "labels":
        labels = as_values(rows.X[column])
        found = measure_clusters(labels, rows.groups)
        if graph is not None:
            found["normalized_cut"] = _cut(graph, rows, labels)
        add_clusters(report, {"result": found}, {"result": labels}, rows.groups)
    else:
        found = _measure_scores(rows, column, interval, threshold)
        for key in (key for key in _MEASURES if key in found):
            title, spec = _MEASURES[key]
            report.facts.append((title, format(found[key], spec)))
        report.title = f"KS distance of the groups' scores {found['ks']:.3f}"
        report.tables.append(Table("Groups", found["groups"], _GROUP, terminal=True))
    content |= found
    if report_file is not None:
        write_files({report_file: lambda file: report.write(file, report_file)})
    if on_terminal(bool(quiet), written.values()):
        report.show(written)


def _choose(path: Path, names: list[str], given: dict[str, Any]) -> tuple[str, str]:
    """Return what is measured, labels or scores, and the column it is in."""
    chosen = [(kind, name) for kind, name in given.items() if name is not None]
    if len(chosen) > 1:
        raise click.UsageError("--labels and --scores do not go together.")
    known = {"label": "labels", "score": "scores", "prediction": "scores"}
    chosen += [(kind, name) for name, kind in known.items() if name in names]
    if not chosen:
        raise Failure(
            f"{path}: has no column label, score or prediction (columns: "
            f"{', '.join(names[:8])}). Name one with --labels or --scores."
        )
    return chosen[0]


def _cut(path: Path, rows: Rows, labels: Any) -> float:
    """Return the normalized cut of a graph, whose nodes have labels by their ids."""
    graph = read_graph(path)
    at = pandas.Index(rows.ids.astype(str)).get_indexer(graph.ids.astype(str))
    if (at < 0).any():
        first = graph.ids[at < 0][0]
        raise Failure(
            f"{rows.path}: {(at < 0).sum():,} nodes of {path} have no label, such as "
            f"{first}. Each needs a line `id,label`."
        )
    return float(metrics.normalized_cut_score(graph.matrix, labels[at]))


def _measure_scores(
    rows: Rows, column: str, interval: tuple[float, float], threshold: float
) -> dict[str, Any]:
    """Gaps of the groups; with a target accuracy, or the error."""
    if not is_numeric_dtype(rows.X[column]):
        raise Failure(f"{rows.path}: column {column} holds words; scores are numbers.")
    scores, target = rows.X[column].to_numpy(np.float64), rows.target
    of = {"sensitive_features": rows.groups}
    found: dict[str, Any] = {"ks": metrics.statistical_parity_ks(scores, **of)}
    parts, classes = {}, np.unique([0, 1] if target is None else target)
    if len(classes) == 2:
        of["interval"] = interval
        gap = metrics.partial_demographic_parity_gap(scores, **of)
        of["threshold"] = threshold
        weak = metrics.weak_partial_demographic_parity_gap(scores, **of)
        found |= {"partial_parity_gap": gap, "weak_partial_parity_gap": weak}
        parts["selection_rate"] = scores > threshold
        predicted = classes[parts["selection_rate"].astype(int)]
        if "prediction" in rows.X and target is not None:
            predicted = as_values(rows.X["prediction"], classes.dtype.kind)
        if target is not None:
            parts["accuracy"] = predicted == target
    elif target.dtype.kind in "iuf":
        parts["mse"] = (scores - target) ** 2
    else:
        raise Failure(f"{rows.target_from}: is neither numbers nor two classes.")
    frame = pandas.DataFrame(parts, index=range(rows.n_rows))
    groups = frame.groupby(rows.groups)
    table = groups.mean().assign(n_rows=groups.size()).rename_axis("group")
    records = table.reset_index().to_dict("records")
    return {**found, **frame.mean().to_dict(), "groups": records}
