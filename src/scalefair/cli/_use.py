"""``scalefair predict`` and ``scalefair evaluate``: results of models, and of any.

`predict` takes what the other commands have saved, which says how its rows were read,
or an estimator of scikit-learn. `evaluate` takes a table with labels or scores, whoever
made them.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas
from click.core import ParameterSource
from pandas.api.types import is_numeric_dtype
from scipy import sparse

from scalefair import metrics
from scalefair._messages import listed
from scalefair.cli import _encoder, _report, _rows, _run
from scalefair.cli import _options as opt
from scalefair.cli._errors import Failure, print_notes
from scalefair.cli._report import Facts
from scalefair.cli._roles import Rows
from scalefair.files import _matrices as matrices
from scalefair.files import reading
from scalefair.files._graphs import load_graph, read_new_nodes
from scalefair.files._tables import TableFile
from scalefair.files._text import FileOptions
from scalefair.files._values import parse_values
from scalefair.streaming import RowReader

_PREDICT = """\b
MODEL is from `scalefair classify`, `regress`, `pca` or `cluster --model`, or of
scikit-learn, saved by joblib.dump. A line of the output has the id of a row, or
its number from 0, and score and prediction, prediction alone, component_1 ...,
or the label of a cluster.
\b
With clusters of a graph TABLE has edges: a matrix of new nodes x nodes of the
graph, or `source target [weight]` if the graph was such a list.
"""
_EVALUATE = """\b
RESULT is a table: labels of `scalefair cluster`, scores of `predict`, or any
with a column that --labels or --scores names. Labels of -1 are left out. Groups
and targets may be in the table that was scored: --groups people.csv:sex
"""
_KEEP = "Columns of TABLE to copy to the output, as in sex,hired; repeatable."
_PREDICT_OPTIONS = [
    opt.output_option("a line for each row (csv)"),
    opt.option("Columns", "--keep", metavar="COLUMNS", multiple=True, help=_KEEP),
    *opt.shared("groups keep-groups groups-header"),
    *opt.shared(f"{opt.INPUT} svmlight memory-limit quiet"),
]
_NAME = opt.value(opt.column_name)
_MEASURE_OPTIONS = {
    "labels": (_NAME, "Column of clusters.  [default: label]"),
    "scores": (_NAME, "Column of scores.  [default: score, or prediction]"),
    "target": (
        opt.value(opt.source_name),
        "Column or file of what was to be predicted.",
    ),
    "graph": (opt.value(opt.PATH), "Graph whose nodes have the labels, for the cut."),
    "interval": (opt.value(opt.ranks, "0,1"), "Ranks a,b of the gaps, 0 at the top."),
    "given": (
        opt.value(click.Choice(["positive", "label"])),
        "Compare the positive rows only, or those of the same label.",
    ),
    "threshold": (
        opt.value(opt.Finite(), 0.0),
        "Scores above are decisions in favour.",
    ),
    "attributes": (
        opt.value(click.Choice(["joint", "each"]), "joint"),
        "Of several columns of groups compare combinations, or each by itself.",
    ),
}
_EVALUATE_OPTIONS = [
    *opt.option_table("Measures", _MEASURE_OPTIONS),
    *opt.shared("groups group-probabilities missing-groups knots keep-groups"),
    *opt.shared("target-header groups-header id-column missing"),
    *opt.shared(opt.WEIGHT),
    *opt.shared(f"{opt.TEXT} directed weights weight-column report quiet"),
]
# Entries that a saved model of rows, or of a graph, must have.
_SAVED = {"columns", "words", "kinds", "n_columns", "has_header", "zero_based"}
_SAVED_OF_GRAPH = {"nodes", "named", "kinds"}
# Options about rows of features, which do not apply to nodes.
_ROW_OPTIONS = ["drop", "id_column", "keep_groups", "memory_limit", "missing"]
_ROW_OPTIONS += ["keep", "svmlight"]
# Columns that `evaluate` takes without an option, the first of these that is there.
_DEFAULT_COLUMNS = [("label", "labels"), ("score", "scores"), ("prediction", "scores")]
# Titles of the measures of scores, in the order of the report.
_MEASURES = {
    "ks": "KS distance",
    "partial_parity_gap": "partial parity gap",
    "weak_partial_parity_gap": "weak gap",
    "unmixed_parity_gap": "unmixed gap",
    "selection_rate": "share above the threshold",
    "accuracy": "accuracy",
    "mse": "mean squared error",
}
# Measures of which the summary names the groups with the smallest and largest value.
_ERRORS = {"accuracy": ("accuracy", ".1%"), "mse": ("mean squared error", ".3g")}


# --- predict -------------------------------------------------------------------------


@opt.command(_PREDICT_OPTIONS, _PREDICT, model_file="MODEL", table="TABLE")
def predict(model_file: Path, table: Path, **options: Any) -> None:
    """Write what the model in MODEL says of each row in TABLE.

    A message counts the words that the model does not know. Only open models you
    trust: such a file can run any code.
    """
    from scalefair.cli import _regress

    outputs, show = _run.take_outputs(options, model_file, table, output=".csv")
    # Options on the command line take precedence over those of the model.
    ctx = click.get_current_context()
    overrides = {
        name: value
        for name, value in options.items()
        if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT
    }
    overrides["folder"] = outputs["output"].resolve().parent
    # The output of pca is an npz archive; all others are files of joblib.
    with reading(model_file, "a model"), open(model_file, "rb") as file:
        is_archive = file.read(2) == b"PK"
    load = _load_components if is_archive else _regress.load_model
    model: Any = load(model_file)
    # 1. By a model of a command, or by an estimator of scikit-learn, or of regress.
    if isinstance(model, dict):
        rows, columns = _apply_saved(model, model_file, table, overrides)
    else:
        rows = _regress.read_for_model(model, table, opt.ReadOptions(**overrides))
        # The methods of the model that fill the columns of the output, by their names.
        methods = {"prediction": "predict"}
        classes = getattr(model, "classes_", ())  # none of an outlier detector
        if hasattr(model, "decision_function") and len(classes) == 2:
            methods = {"score": "decision_function", **methods}
        with _run.library_warnings():
            columns = {
                name: _regress.predict(model, model_file, rows, method)
                for name, method in methods.items()
            }
    # 2. How often each label or class is predicted. These are the last column; numbers
    #    are not counted.
    m, unit = len(rows.ids), rows.unit
    report = _report.Report("predict", {}, "", facts=[(f"{unit}s", f"{m:,}")])
    if "score" in columns or "label" in columns:
        *_, (name, values) = columns.items()
        counts = _report.count_values(values).items()
        shares = [{name: x, f"{unit}s": n, "share": n / m} for x, n in counts]
        table_of_shares = _report.ReportTable(f"Each {name}", shares, terminal=True)
        report.tables = [table_of_shares]
    # 3. The table. Of a clustering it has ids, as the output of `cluster` has, even if
    #    they are row numbers.
    has_ids = rows.named or "label" in columns
    columns = {"id" if has_ids else "row": rows.ids, **columns}
    kept = getattr(rows, "kept", None)  # nodes of a graph have no other columns
    for name, values in () if kept is None else kept.items():
        if name in columns:
            raise Failure(f"--keep {name}: the output has such a column already.")
        columns[name] = values
    write = partial(_run.write_table, columns=columns)
    _run.finish(report, outputs, {"output": write}, show=show)


def _load_components(path: Path) -> dict[str, Any]:
    """Return an output of pca as a saved model, whose encoder projects rows."""
    # Rows X have the coordinates ((X - mean) / scale) @ components.T.
    from sklearn.preprocessing import FunctionTransformer

    with reading(path, "an output of scalefair pca"), np.load(path) as file:
        axes, mean = file["components"] / file["scale"], file["mean"]
        imputation, saved = file["imputation"], json.loads(str(file["reading"]))

    def project(block: Any) -> Any:
        """Return coordinates of rows; missing values are filled in as in training."""
        if sparse.issparse(block):  # centred without a dense copy
            return block @ axes.T - axes @ mean
        X = np.asarray(block, dtype=np.float64)
        return (np.where(np.isnan(X), imputation, X) - mean) @ axes.T

    return {**saved, "encoder": FunctionTransformer(project, accept_sparse=True)}


def _apply_saved(
    saved: dict[str, Any], model_file: Path, path: Path, overrides: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Return rows, and columns of the output by a model of a command.

    These are labels, coordinates, or scores and classes. `overrides` are the options of
    `predict` that are on the command line.
    """
    from scalefair.cli import _cluster

    # 1. What was saved, by which command, and how its rows were read.
    is_clustering, is_of_graph = "clustering" in saved, "nodes" in saved
    entries = _SAVED_OF_GRAPH if is_of_graph else _SAVED
    if missing := {*entries, "reading"} - saved.keys():
        raise Failure(
            f"{model_file}: is no model of this version of scalefair (it has no "
            f"{min(missing)}). Train it again."
        )
    model: Any = saved.get("classifier", saved.get("clustering"))
    training_groups: Any = saved.get("groups")
    if isinstance(training_groups, list):  # of several attributes
        training_groups = np.concatenate(training_groups)
    options = _saved_read_options(saved, model, path, overrides)
    # Rows without data stand for those that the model was trained on: they hold types
    # and groups.
    training = Rows(model_file, None, [], np.arange(0), kinds=saved["kinds"])
    training.groups, training.target = training_groups, saved.get("classes")
    training.knots = saved.get("knots")
    if options.makes_probabilities:
        training.groups = pandas.DataFrame(columns=training_groups)
    with _run.estimator_errors(path):
        rows: Any
        # 2. Nodes that are new to a graph: weights of edges to its nodes.
        if is_of_graph:
            rows = read_new_nodes(path, saved["nodes"], saved["named"], options)
            members = _cluster.read_groups(rows, options, training)
            X = rows.matrix
        # 3. Or rows with features. An empty frame says which are numbers, and which are
        #    strings.
        else:
            for name in ("n_columns", "has_header", "zero_based"):
                setattr(training, name, saved[name])
            training.names = list(saved["columns"])
            frame = pandas.DataFrame(columns=training.names, dtype=float)
            training.X = frame.astype(dict.fromkeys(saved["words"], object))
            rows = members = _rows.read_rows(path, options, training=training)
            X = _encoder.encode(saved["encoder"], rows)
        # 4. What the model says of them: labels, coordinates, or scores and classes.
        groups = members.sensitive_features
        if is_clustering:
            name = "sensitive_features"
            if members.has_probabilities:
                name = "group_probabilities"
            return rows, {"label": model.predict(X, **{name: groups})}
        if model is None:
            Z = np.vstack(list(X.blocks())) if isinstance(X, RowReader) else X
            return rows, {f"component_{j}": z for j, z in enumerate(Z.T, start=1)}
        scores = model.decision_function(X, sensitive_features=groups)
    predictions = model.classes_[(scores > 0).astype(int)]
    return rows, {"score": scores, "prediction": predictions}


def _saved_read_options(
    saved: dict[str, Any], model: Any, path: Path, overrides: dict[str, Any]
) -> opt.ReadOptions:
    """Return the options by which the rows for training were read, for new rows.

    Options on the command line, `overrides`, take precedence if they apply.
    """
    is_clustering, is_of_graph = "clustering" in saved, "nodes" in saved
    options = dict(saved["reading"])
    # Imputation is part of the encoder: it cannot be asked for later.
    imputes = options.get("missing") == "impute"
    # 1. Options that have no meaning for this model are refused.
    #    Fair assignment, and shifts of scores by groups, need the groups of the rows.
    if is_clustering:
        needs_groups = model.assignment_ is not None
        inapplicable = _ROW_OPTIONS if is_of_graph else ["memory_limit"]
    else:
        needs_groups = model is not None and getattr(model, "interactions", True)
        inapplicable = [] if needs_groups else ["groups"]
    refused = [name for name in inapplicable if name in overrides]
    if overrides.get("missing") == "impute" and not imputes:
        refused.append("missing impute")
    if refused:
        spelling = refused[0].replace("_", "-")
        raise click.UsageError(
            f"--{spelling} does not apply: MODEL was made without it."
        )
    # 2. Targets, and groups that are not needed, are not read. Features of a table are
    #    found by name: no column need be dropped.
    options["missing"] = "impute" if imputes else "error"
    if matrices.rows_format(path, overrides.get("svmlight", False)) == "table":
        options |= {"target": None, "drop": (), "keep_groups": False}
    if not needs_groups:
        options["groups"] = None
    if is_clustering:  # it takes rows in memory
        options["memory_limit"] = sys.maxsize
    read_options = opt.ReadOptions(**{**options, **overrides})
    if needs_groups and read_options.groups is None:
        raise click.UsageError(_run.NEEDS_GROUPS)
    return read_options


# --- evaluate ------------------------------------------------------------------------


@opt.command(_EVALUATE_OPTIONS, _EVALUATE, result="RESULT")
def evaluate(result: Path, **options: Any) -> None:
    """Measure the labels or scores in RESULT by groups."""
    from scalefair.cli import _cluster

    if options["missing"] == "impute":
        raise click.UsageError("--missing impute does not apply: drop the rows.")
    options["quiet"] = bool(options["quiet"])  # shown also if stdout is no terminal
    outputs, show = _run.take_outputs(options, result, options["graph"])
    content = _report.describe_run("evaluate", options)
    # 1. Which column holds labels, or scores.
    read_options = opt.ReadOptions.take(options)
    names = TableFile(result, read_options).names
    if names[0] == "row" and read_options.id_column is None:
        read_options = replace(read_options, id_column="row")  # as predict writes it
    kind, column = _choose_column(result, names, options)
    columns = [column]
    # Classes that were predicted beside scores are the decisions.
    if "prediction" in names and read_options.target is not None and kind == "scores":
        columns = list(dict.fromkeys([column, "prediction"]))
    # 2. The rows with their groups, and targets if there are any.
    rows = _rows.read_rows(result, read_options, strings="keep", columns=columns)
    content["input"] = {
        "result": str(result),
        kind: column,
        "groups": _report.count_groups(rows),
        "n_rows": rows.n_rows,
        **_run.describe_weights(rows),
    }
    # 3. Measures of the labels, or of the scores.
    report = _report.Report("evaluate", content, "", f"{result}, column {column}")
    facts = {"weights": _report.WEIGHTS, "groups": "{expected}"}
    report.facts = _report.fill(facts, content)
    if kind == "labels":
        labels = parse_values(rows.X[column])
        with _run.estimator_errors(result):  # one group may be left in the clusters
            measures = _cluster.measure_clusters(labels, rows)
        if options["graph"] is not None:
            cut = _cut(options["graph"], rows, labels, read_options)
            measures["normalized_cut"] = cut
        runs = {"result": measures}
        _cluster.add_clusters(report, runs, {"result": labels}, rows)
    else:
        measures = _measure_scores(rows, column, options)
        titles = {key: title for key, title in _MEASURES.items() if key in measures}
        if not measures.get("weak_partial_parity_gap"):  # none at this threshold
            titles.pop("weak_partial_parity_gap", None)
        report.facts += [(titles[key], f"{measures[key]:.4g}") for key in titles]
        report.summary = _summarize(measures, rows.n_rows, options["interval"])
        report.title = f"KS distance of the groups' scores {measures['ks']:.3f}"
        formats = {key: (title, ".4g") for key, title in titles.items()}
        formats = {**_report.GROUP_COLUMNS, **formats}
        report.tables = [
            _report.ReportTable("Groups", measures["groups"], formats, terminal=True)
        ]
    content |= measures
    _run.finish(report, outputs, {}, show=show)


def _choose_column(
    path: Path, names: Sequence[str], options: dict[str, Any]
) -> tuple[str, str]:
    """Return whether "labels" or "scores" are measured, and the name of the column."""
    chosen = [(kind, options[kind]) for kind in ("labels", "scores") if options[kind]]
    if len(chosen) > 1:
        raise click.UsageError("--labels and --scores do not go together.")
    chosen += [(kind, name) for name, kind in _DEFAULT_COLUMNS if name in names]
    if not chosen:
        raise Failure(
            f"{path}: has no column label, score or prediction (columns: "
            f"{listed(names)}). Name one with --labels or --scores."
        )
    return chosen[0]


def _summarize(measures: Facts, n_rows: int, interval: tuple[float, float]) -> str:
    """Return what was measured, what it compares with, and what is not promised."""
    # 1. The distance and the gap, as far as there is one.
    text = f"Measured on {n_rows:,} rows: a KS distance of the groups' scores of "
    text += f"{measures['ks']:.3f}. It is {_report.KS}"
    if "partial_parity_gap" in measures and interval != (0, 1):
        text += f". It is {measures['partial_parity_gap']:.3f}"
        text += _report.between(interval)
    if "null_gap" in measures:
        text += f". {_report.CHANCE.format(measures['null_gap'])}"
    # 2. Accuracy or error, with the groups of the smallest and of the largest value.
    for key, (title, spec) in _ERRORS.items():
        if key in measures:
            low, *_, high = sorted(measures["groups"], key=itemgetter(key))
            text += f". The {title} is {measures[key]:{spec}}, from {low[key]:{spec}} "
            text += f"({low['group']}) to {high[key]:{spec}} ({high['group']})"
    return f"{text}. Not promised: the same on other rows."


def _cut(path: Path, rows: Rows, labels: Any, options: opt.ReadOptions) -> float:
    """Return the normalized cut of a graph, whose nodes have labels by their ids."""
    names = ("directed", "weights", "weight_column", "encoding")
    edges = FileOptions(**{name: getattr(options, name) for name in names})
    graph = load_graph(path, edges)
    print_notes(graph)
    # Entry i is the row with the label of node i, -1 if there is none. Ids are compared
    # as strings, as only one of both files may have them as integers.
    positions = pandas.Index(rows.ids.astype(str)).get_indexer(graph.ids.astype(str))
    without = graph.ids[positions < 0]
    if without.size:
        raise Failure(
            f"{rows.path}: {without.size:,} nodes of {path} have no label, such as "
            f"{without[0]}. Each needs a line `id,label`."
        )
    weights = rows.weights_of(positions)
    cut = metrics.normalized_cut_score
    return float(cut(graph.matrix, labels[positions], sample_weight=weights))


def _measure_scores(rows: Rows, column: str, options: dict[str, Any]) -> Facts:
    """Return gaps of the groups; with a target accuracy, or the error.

    `options` say which ranks, rows and threshold the gaps are about.
    """
    if not is_numeric_dtype(rows.X[column]):
        raise Failure(f"{rows.path}: column {column} holds words; scores are numbers.")
    # 1. The distance of the groups' scores, whatever they predict.
    entries, scores = rows.entries(), rows.X[column].to_numpy(np.float64)
    groups, threshold = entries.sensitive_features, options["threshold"]
    target, positions = rows.target, entries.positions
    arguments = entries.metric_arguments
    ks = metrics.statistical_parity_ks(scores[positions], **arguments)
    measures: Facts = {"ks": ks}
    classes = np.unique([0, 1] if target is None else target)
    if options["given"] is not None and (target is None or len(classes) != 2):
        raise click.UsageError("--given needs a --target of two labels.")
    # 2. For two classes the gaps, and the rate of decisions in favour; for numbers the
    #    error. Without a target there are taken to be two classes.
    by_row: dict[str, Any] = {}
    if len(classes) == 2:
        compared = {name: options[name] for name in ("interval", "given")}
        measures |= _report.unmixed_gap(rows, scores, **compared)
        compared["threshold"] = threshold
        measures |= _report.parity_gaps(entries, scores[positions], **compared)
        by_row["selection_rate"] = scores > threshold
        if target is not None:
            predicted = classes[by_row["selection_rate"] * 1]
            if "prediction" in rows.X:
                labels = parse_values(rows.X["prediction"], classes.dtype.kind)
                unknown = np.setdiff1d(labels, classes)
                if not unknown.size:
                    predicted = labels
                elif column != "prediction":  # else scores, as of a regressor
                    raise Failure(
                        f"{rows.path}: column prediction has {listed(unknown[:3])}, "
                        f"and {rows.sources['target']} {listed(classes)}. Spell them "
                        "alike, or leave that column out."
                    )
            by_row["accuracy"] = predicted == target
    elif target.dtype.kind in "iuf":
        by_row["mse"] = (scores - target) ** 2
    else:
        raise Failure(f"{rows.sources['target']}: is neither numbers nor two classes.")
    # 3. The gap that chance alone would make, and means of all rows and of the groups.
    if options["given"] is None:
        measures |= _report.null_gap(rows, options["interval"])
    mean = partial(np.average, weights=rows.weight)
    measures |= {name: mean(values) for name, values in by_row.items()}
    frame = pandas.DataFrame({k: v[positions] for k, v in by_row.items()})
    measures["groups"] = _report.group_means(frame, groups, entries.weight)
    return measures
