"""``scalefair predict``, ``describe`` and ``evaluate``: models, tables, results."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas
from click.core import ParameterSource
from pandas.api.types import is_bool_dtype, is_numeric_dtype
from scipy import sparse
from scipy.sparse import csgraph

from scalefair import metrics
from scalefair._memory import array_limit
from scalefair._messages import listed
from scalefair.cli import _errors, _fit, _output, _report, _rows
from scalefair.cli import _options as opt
from scalefair.cli._errors import Failure
from scalefair.files import FileError, reading
from scalefair.files import _matrices as matrices
from scalefair.files._graphs import are_times, read_graph, read_new_nodes
from scalefair.files._tables import TableFile
from scalefair.files._values import ID_NAMES, as_values
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
_APPLIED = [opt.output_option("a line for each row (csv)"), *opt.GROUPS_IF_ANY]
_APPLIED += [*opt.INPUT, opt.SVMLIGHT, opt.MEMORY_LIMIT, opt.QUIET]
_ROLES = ("target", "groups")
_DESCRIBED = [
    opt.option("Columns", f"--{role}", metavar="COLUMN", help=f"The {role}.")
    for role in _ROLES
]
_DESCRIBED += [*opt.INPUT[3:], opt.SVMLIGHT, opt.REPORT]
_DESCRIBED += [opt.option("Files", "--quiet", is_flag=True, help="Print nothing.")]
_MEASURED: dict[str, tuple[Any, Any, str]] = {
    "labels": (str, None, "Column of clusters.  [default: label]"),
    "scores": (str, None, "Column of scores.  [default: score, or prediction]"),
    "target": (str, None, "Column or file of what was to be predicted."),
    "graph": (opt.PATH, None, "Graph whose nodes have the labels, for the cut."),
    "interval": (opt.ranks, "0,1", "Ranks a,b of the gaps, 0 at the top."),
    "given": (
        click.Choice(["positive", "label"]),
        None,
        "Compare the positive rows only, or those of the same label.",
    ),
    "threshold": (opt.Finite(), 0.0, "Scores above are decisions in favour."),
    "attributes": (
        click.Choice(["joint", "each"]),
        "joint",
        "Of several columns of groups compare combinations, or each by itself.",
    ),
}
_EVALUATED = opt.option_table("Measures", _MEASURED)
_EVALUATED += [opt.GROUPS[0], opt.GROUPS[2], opt.TARGET[1], *opt.INPUT[1:]]
_EVALUATED += [*opt.EDGES, opt.REPORT, opt.QUIET]
# Rows of a large table that are described, and distinct words that are few.
_MOST, _FEW = 100_000, 20
_SENSITIVE = {"sex", "gender", "race", "ethnicity", "nationality", "religion", "group"}
_UNFIT = ("to be corrected", "id or text", "empty")
# What to type: the command, what it predicts, whether it takes words, the end.
_LINES = [
    ("cluster", None, False, "-k 10 -o labels.csv"),
    ("pca", None, False, "-r 2 -o components.npz"),
    ("classify", "label", True, "-o model.joblib"),
    ("regress MODEL", "number", True, "-o fair.joblib"),
]
_SAVED = {"columns", "words", "n_columns", "has_header", "zero_based", "reading"}
_SAVED_OF_GRAPH = {"nodes", "named", "reading"}
# Options about rows of features.
_NOT_OF_NODES = {"drop", "id_column", "keep_groups", "memory_limit", "missing"}
_NOT_OF_NODES |= {"svmlight"}
_MEASURES = {
    "ks": "KS distance",
    "partial_parity_gap": "partial parity gap",
    "weak_partial_parity_gap": "weak gap",
    "selection_rate": "share above the threshold",
    "accuracy": "accuracy",
    "mse": "mean squared error",
}


@opt.command(_APPLIED, _PREDICT, model_file="MODEL", table="TABLE")
@click.pass_context
def predict(
    ctx: click.Context, /, model_file: Path, table: Path, **options: Any
) -> None:
    """Write what the model in MODEL says of each row in TABLE.

    Words that the model does not know are counted, and told. Only open models you
    trust: such a file can run any code.
    """
    from scalefair.cli import _regress

    written, show = _fit.take_outputs(options, model_file, table, output=".csv")
    given = {
        name: value
        for name, value in options.items()
        if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT
    }
    given["folder"] = written["output"].resolve().parent
    with reading(model_file, "a model"), open(model_file, "rb") as file:
        is_archive = file.read(2) == b"PK"
    load = _load_components if is_archive else _regress.load_model
    model: Any = load(model_file)
    if isinstance(model, dict):
        rows, columns = _apply(model, model_file, table, given)
    else:
        rows = _regress.read_for(model, table, opt.Reading(**given))
        scored = hasattr(model, "decision_function") and len(model.classes_) == 2
        methods = {"score": "decision_function"} if scored else {}
        methods["prediction"] = "predict"
        with _fit.library_warnings():
            columns = {
                name: _regress.predict(model, model_file, rows, method)
                for name, method in methods.items()
            }
    m, is_id = len(rows.ids), rows.named or "label" in columns  # as cluster writes it
    report = _report.Report("predict", {}, "", facts=[(f"{rows.unit}s", f"{m:,}")])
    if "score" in columns or "label" in columns:
        *_, (name, values) = columns.items()
        counts = _report.count_values(values).items()
        shares = [{name: x, f"{rows.unit}s": n, "share": n / m} for x, n in counts]
        report.tables = [_report.Table(f"Each {name}", shares, terminal=True)]
    columns = {"id" if is_id else "row": rows.ids, **columns}
    write = partial(_output.write_table, columns=columns)
    _fit.finish(report, written, {"output": write}, show=show)


def _load_components(path: Path) -> dict[str, Any]:
    """Return the arrays of pca, and as encoder what projects rows."""
    from sklearn.preprocessing import FunctionTransformer

    with reading(path, "an output of scalefair pca"), np.load(path) as file:
        axes, mean = file["components"] / file["scale"], file["mean"]
        fill, known = file["imputation"], json.loads(str(file["reading"]))

    def project(block: Any) -> Any:
        if sparse.issparse(block):
            return block @ axes.T - axes @ mean
        X = np.asarray(block, dtype=np.float64)
        return (np.where(np.isnan(X), fill, X) - mean) @ axes.T

    return {**known, "encoder": FunctionTransformer(project, accept_sparse=True)}


def _apply(
    saved: dict[str, Any], model_file: Path, table: Path, given: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Read rows as a command read its own, and score, label or project them."""
    gives_labels, of_graph = "clustering" in saved, "nodes" in saved
    if lacking := (_SAVED_OF_GRAPH if of_graph else _SAVED) - saved.keys():
        raise Failure(
            f"{model_file}: is no model of this version of scalefair (it has no "
            f"{min(lacking)}). Train it again."
        )
    model: Any = saved.get("classifier", saved.get("clustering"))
    known = saved["reading"]
    needs_groups = model is not None and getattr(model, "interactions", True)
    if gives_labels:
        needs_groups = model.assignment_ is not None
        idle = _NOT_OF_NODES if of_graph else {"memory_limit"}
    else:
        idle = set() if needs_groups else {"groups"}
    wrong, imputes = sorted(idle & given.keys()), known.get("missing") == "impute"
    if given.get("missing") == "impute" and not imputes:
        wrong.append("missing impute")
    for name in wrong:
        told = f"--{name.replace('_', '-')} does not apply"
        raise click.UsageError(f"{told}: MODEL was made without it.")
    known = {**known, "missing": "impute" if imputes else "error"}
    if matrices.rows_format(table, given.get("svmlight", False)) == "table":
        known |= {"target": None, "drop": (), "keep_groups": False}
    known |= {} if needs_groups else {"groups": None}
    known |= {"memory_limit": sys.maxsize} if gives_labels else {}
    how = opt.Reading(**{**known, **given})
    if needs_groups and how.groups is None:
        raise click.UsageError(_fit.NEEDS_GROUPS)
    with _fit.judged(table):
        read = _read_nodes if of_graph else _read_features
        rows, X, groups = read(saved, model_file, table, how)
        if gives_labels:
            return rows, {"label": model.predict(X, sensitive_features=groups)}
        if model is None:
            found = np.vstack(list(X.blocks())) if isinstance(X, RowReader) else X
            return rows, {f"component_{j}": x for j, x in enumerate(found.T, start=1)}
        scores = model.decision_function(X, sensitive_features=groups)
    return rows, {"score": scores, "prediction": model.classes_[(scores > 0) * 1]}


def _read_features(
    saved: dict[str, Any], model_file: Path, table: Path, how: opt.Reading
) -> tuple[_rows.Rows, Any, Any]:
    """Read rows as those of a model; their features, and groups."""
    names, own = list(saved["columns"]), ("n_columns", "has_header", "zero_based")
    frame = pandas.DataFrame(columns=names, dtype=float)
    frame = frame.astype(dict.fromkeys(saved["words"], object))
    of: dict[str, Any] = {name: saved[name] for name in own}
    of |= {"groups": _groups_of(saved), "target": saved.get("classes")}
    of["kinds"] = saved.get("kinds", {})
    like = _rows.Rows(model_file, frame, names, np.arange(0), **of)
    rows = _rows.read_rows(table, how, like=like)
    return rows, _rows.encode(saved["encoder"], rows), rows.compared


def _read_nodes(
    saved: dict[str, Any], _: Path, path: Path, how: opt.Reading
) -> tuple[Any, Any, Any]:
    """Read nodes that are new to a graph: their weights to its own, and groups."""
    from scalefair.cli import _cluster

    nodes = read_new_nodes(
        path, saved["nodes"], saved["named"], **how.text, **how.edges
    )
    groups = _cluster.read_groups(nodes, how, _groups_of(saved).dtype.kind)
    return nodes, nodes.matrix, groups


def _groups_of(saved: dict[str, Any]) -> Any:
    """Return the groups of a model, of all its attributes; None if it has none."""
    groups = saved.get("groups")
    return np.concatenate(groups) if isinstance(groups, list) else groups


@opt.command(_DESCRIBED, table="TABLE")
def describe(table: Path, svmlight: bool, **text: Any) -> None:
    """Say how TABLE, or a graph, is understood, and which commands could take it.

    Roles are proposals: a column of few values may hold groups, one of two values the
    target. Cells that do not fit are told, and all else goes on.
    """
    written, show = _fit.take_outputs(text, table)
    roles = {name: text.pop(name) for name in _ROLES}
    frame, read, damaged = _look(table, svmlight, text)
    columns = [_describe_column(frame[name], name in damaged) for name in frame]
    if columns and read.get("header") and frame.columns[0].lower() in ID_NAMES | {""}:
        columns[0]["role"] = "id"
    for role, chosen in opt.role_columns(table, [*frame], opt.Reading(**roles)).items():
        for column in columns:
            column["role"] = role if column["column"] in chosen else column["role"]
    plan = _plan(table, columns, read, **roles)
    content = _report.describe_run("describe", roles)
    content["input"] = {"table": str(table), **read}
    content |= {"columns": columns, "commands": plan}
    title = f"{table.name}: {read['n_rows']:,} rows, {read['n_columns']:,} columns"
    report = _report.Report("describe", content, title, str(table))
    report.facts = [(k.replace("_", " "), _report.as_text(v)) for k, v in read.items()]
    in_full = _report.Table("Columns", columns, terminal=True, most=sys.maxsize)
    report.tables = [in_full, _report.Table("Commands", plan)]
    _fit.finish(report, written, {}, show=show)
    for command in plan if show else ():  # in one piece, to be copied
        click.echo(_errors.printable(command["line"]))


def _look(
    path: Path, svmlight: bool, text: dict[str, Any]
) -> tuple[pandas.DataFrame, dict[str, Any], list[str]]:
    """Read columns one by one; say what was assumed, and which columns are damaged."""
    kind = "mtx" if ".mtx" in path.suffixes else matrices.rows_format(path, svmlight)
    X, frame, known, damaged = None, pandas.DataFrame(), {}, []
    if kind == "npy":
        frame = pandas.DataFrame(matrices.read_dense(path)).rename(columns="x{}".format)
    elif kind == "npz":
        X = matrices.read_sparse(path, "value")
    elif kind == "svmlight":
        X, labels, _ = matrices.read_svmlight(path)
        frame = pandas.DataFrame({"label": labels})
    elif kind == "table":
        table = TableFile(path, **text)
        is_large = 2 * _rows.size_of(path) > array_limit(None)
        frame = table.frame(table.names, (), n_rows=_MOST if is_large else None)
        for name in table.names:
            try:
                frame[name] = table.typed(frame[[name]])[name]
            except FileError as error:
                _errors.warn(str(error))
                damaged.append(name)
        _rows.say_notes(table)
        if is_large:
            _errors.note(f"{path}: the first {len(frame):,} rows were looked at.")
        kind, known = "text" if table.layout else "parquet", table.layout
    shape = frame.shape if X is None else X.shape
    found = {"format": kind, **known, "n_rows": shape[0], "n_columns": shape[1]}
    if X is not None:
        found["stored_values"] = X.nnz
    # Whose first columns name the same things, or which is square, may be a graph.
    ends = [set(frame[name].dropna()) for name in frame if shape[1] in (2, 3)]
    same = len(ends) > 1 and ends[0] & ends[1] and len(ends[0]) < len(frame)
    if kind == "mtx" or same or shape[0] == shape[1]:
        with suppress(*(() if kind == "mtx" else (FileError,))):
            of_times = same and shape[1] == 3 and are_times(frame.iloc[:, 2])
            graph = read_graph(path, weights=False if of_times else None)
            if of_times:
                found["third_column"] = "looks like a time, no weight: --no-weights"
            found |= {"nodes": len(graph.ids), "edges": graph.n_edges}
            parts = csgraph.connected_components(graph.matrix, directed=False)
            found["components_of_the_graph"] = parts[0]
            if kind == "mtx":
                found["n_rows"] = found["n_columns"] = found["nodes"]
    return frame, found, damaged


def _describe_column(values: pandas.Series, damaged: bool) -> dict[str, Any]:
    counts = values.dropna().value_counts()
    n, kind, few, is_key = len(counts), "words", _FEW, len(counts) == len(values)
    shown = ", ".join(map(str, counts.index[:3])) + (", ..." if n > 3 else "")
    if is_numeric_dtype(values) and not is_bool_dtype(values):
        few = _FEW // 2
        kind = "numbers" if (counts.index % 1).any() else "whole numbers"
        shown = f"{counts.index.min():g} to {counts.index.max():g}" if n else ""
    elif {str(word).lower() for word in counts.index} <= {"true", "false"}:
        kind = "true/false"
    # The first that holds.
    roles = {
        "to be corrected": damaged,
        "empty": n == 0,
        "constant": n == 1,
        "id or text": kind == "words"
        and (n > _rows.MAX_CATEGORIES or (is_key and n > few)),
        "feature, or id?": kind == "whole numbers" and is_key and n > few,
        "feature, groups or target?": n == 2,
        "feature, or groups?": n <= few and kind != "numbers",
        "feature": True,
    }
    return {
        "column": str(values.name),
        "type": "damaged numbers" if damaged else kind,
        "missing": int(values.isna().sum()),
        "distinct": n,
        "values": shown,
        "role": next(role for role, holds in roles.items() if holds),
    }


def _plan(
    path: Path,
    columns: list[dict[str, Any]],
    read: dict[str, Any],
    target: str | None,
    groups: str | None,
) -> list[dict[str, Any]]:
    """Say for each command what to type; columns that it cannot take are dropped."""
    names = ["column", "type", "missing", "distinct", "role"]
    table = pandas.DataFrame(columns, columns=names).set_index("column")
    numeric, role = table["type"].str.endswith("numbers"), table["role"]
    fit = ~role.isin(_UNFIT)

    def propose(which: Any, but: list[Any], telling: bool = False) -> str | None:
        """Return the last column but some; or one whose name tells of groups."""
        found = [name for name in table.index[which] if name not in but]
        known = [name for name in found if name.lower() in _SENSITIVE]
        if telling:
            return next(iter(known + found), None)
        return next((name for name in reversed(found) if name not in known), None)

    own = [] if groups is None else opt.split_names(groups, list(table.index))
    y = {None: "", "label": target or propose(role.str.contains("target"), own)}
    if groups is None:
        is_groups = role.str.contains("groups")
        groups = propose(is_groups, [y["label"]], telling=True)
        own = [] if groups is None else [groups]
    y["number"] = target or propose(numeric & fit, own)
    plan: list[dict[str, Any]] = []
    for start, of, words, end in _LINES:
        features = table[~table.index.isin([y[of], *own]) & (role != "id")]
        takes = (fit & (words | numeric))[features.index]
        kept = features[takes]
        n = int(kept["distinct"].where(~numeric[kept.index], 1).sum())
        n = read["n_columns"] if "stored_values" in read else n
        typed = ["scalefair", *start.split(), str(path)]
        if start == "cluster" and "nodes" not in read:
            typed += ["--affinity", "nearest_neighbors"]
        elif start == "cluster":
            typed += ["--no-weights"] * ("third_column" in read)
        elif start != "cluster" and not n:
            continue
        if of and read["format"] != "svmlight":  # whose lines start with it
            typed += ["--target", y[of] or "targets.csv"]
        typed += ["--groups", groups or "groups.csv"]
        if "MODEL" not in start:  # which chooses
            dropped = [("--drop", name) for name in features.index[~takes]]
            typed += sum(dropped, start=())
            typed += ["--missing", "impute"] if kept["missing"].any() else []
        line = f"{shlex.join(typed)} {end}"
        plan.append({"command": typed[1], "features": n, "line": line})
    return plan


@opt.command(_EVALUATED, _EVALUATE, result="RESULT")
def evaluate(result: Path, **options: Any) -> None:
    """Measure the labels or scores in RESULT by groups."""
    from scalefair.cli import _cluster

    options["quiet"] = bool(options["quiet"])  # it is there to print
    written, show = _fit.take_outputs(options, result, options["graph"])
    content = _report.describe_run("evaluate", options)
    reading = opt.Reading.take(options)
    names = TableFile(result, **reading.text).names
    if names[0] == "row" and reading.id_column is None:
        reading = replace(reading, id_column="row")  # as predict writes it
    kind, column = _choose(result, names, options)
    columns = [column]
    if "prediction" in names and reading.target is not None and kind == "scores":
        columns = list(dict.fromkeys([column, "prediction"]))
    rows = _rows.read_rows(result, reading, words="keep", columns=columns)
    source: dict[str, Any] = {"result": str(result), kind: column}
    source["groups"] = _report.count_values(rows.compared)
    content["input"] = {**source, "n_rows": rows.n_rows}
    report = _report.Report("evaluate", content, "", f"{result}, column {column}")
    if kind == "labels":
        labels = as_values(rows.X[column])
        found = _cluster.measure_clusters(labels, rows.compared)
        if options["graph"] is not None:
            found["normalized_cut"] = _cut(options["graph"], rows, labels, reading)
        _cluster.add_clusters(
            report, {"result": found}, {"result": labels}, rows.compared
        )
    else:
        how = {key: options[key] for key in ("interval", "threshold", "given")}
        found = _measure(rows, column, **how)
        known = {key: title for key, title in _MEASURES.items() if key in found}
        report.facts += [(title, f"{found[key]:.4g}") for key, title in known.items()]
        report.title = f"KS distance of the groups' scores {found['ks']:.3f}"
        titles = {key: (title, ".4g") for key, title in known.items()}
        titles = {**_report.GROUP_COLUMNS, **titles}
        report.tables = [_report.Table("Groups", found["groups"], titles, True)]
    content |= found
    _fit.finish(report, written, {}, show=show)


def _choose(path: Path, names: list[str], given: dict[str, Any]) -> tuple[str, str]:
    """Return what is measured, labels or scores, and the column it is in."""
    chosen = [(kind, given[kind]) for kind in ("labels", "scores") if given[kind]]
    if len(chosen) > 1:
        raise click.UsageError("--labels and --scores do not go together.")
    known = {"label": "labels", "score": "scores", "prediction": "scores"}
    chosen += [(kind, name) for name, kind in known.items() if name in names]
    if not chosen:
        raise Failure(
            f"{path}: has no column label, score or prediction (columns: "
            f"{listed(names)}). Name one with --labels or --scores."
        )
    return chosen[0]


def _cut(path: Path, rows: _rows.Rows, labels: Any, how: opt.Reading) -> float:
    """Return the normalized cut of a graph, whose nodes have labels by their ids."""
    graph = read_graph(path, **how.edges)
    _rows.say_notes(graph)
    at = pandas.Index(rows.ids.astype(str)).get_indexer(graph.ids.astype(str))
    if (at < 0).any():
        raise Failure(
            f"{rows.path}: {(at < 0).sum():,} nodes of {path} have no label, such as "
            f"{graph.ids[at < 0][0]}. Each needs a line `id,label`."
        )
    return float(metrics.normalized_cut_score(graph.matrix, labels[at]))


def _measure(
    rows: _rows.Rows,
    column: str,
    *,
    interval: tuple[float, float],
    threshold: float,
    given: str | None,
) -> dict[str, Any]:
    """Gaps of the groups; with a target accuracy, or the error."""
    if not is_numeric_dtype(rows.X[column]):
        raise Failure(f"{rows.path}: column {column} holds words; scores are numbers.")
    scores, target = rows.X[column].to_numpy(np.float64), rows.target
    # Columns that were asked for as combinations are one already.
    of: dict[str, Any] = {"sensitive_features": rows.compared, "attributes": "each"}
    found: dict[str, Any] = {"ks": metrics.statistical_parity_ks(scores, **of)}
    parts, classes = {}, np.unique([0, 1] if target is None else target)
    if given is not None and (target is None or len(classes) != 2):
        raise click.UsageError("--given needs a --target of two labels.")
    if len(classes) == 2:
        of |= {"interval": interval, "y_true": target, "given": given}
        try:
            found["partial_parity_gap"] = metrics.partial_parity_gap(scores, **of)
        except ValueError as error:
            raise Failure(f"{rows.path}: {error}") from error
        weak = metrics.partial_parity_gap(scores, threshold=threshold, **of)
        found["weak_partial_parity_gap"] = weak
        parts["selection_rate"] = scores > threshold
        predicted = classes[parts["selection_rate"] * 1]
        if target is not None and "prediction" in rows.X:
            predicted = as_values(rows.X["prediction"], classes.dtype.kind)
        if target is not None:
            parts["accuracy"] = predicted == target
    elif target.dtype.kind in "iuf":
        parts["mse"] = (scores - target) ** 2
    else:
        raise Failure(f"{rows.target_from}: is neither numbers nor two classes.")
    found |= {name: values.mean() for name, values in parts.items()}
    return {
        **found,
        "groups": _report.group_means(pandas.DataFrame(parts), rows.compared),
    }
