"""``scalefair predict`` and ``describe``: models are used, tables looked at."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import suppress
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

from scalefair._memory import array_limit
from scalefair.cli import _fit as fits
from scalefair.cli import _options as shared
from scalefair.cli import _report as reports
from scalefair.cli import _rows
from scalefair.cli._errors import (
    EXIT_CODES,
    Failure,
    debug_option,
    note,
    printable,
    warn,
)
from scalefair.cli._output import name_outputs, write_files, write_table
from scalefair.files import FileError, read_graph, reading
from scalefair.files._matrices import (
    read_dense,
    read_sparse,
    read_svmlight,
    rows_format,
)
from scalefair.files._tables import TableFile
from scalefair.streaming import RowReader

_EPILOG = f"""\b
MODEL is the output of `scalefair classify`, `regress` or `pca`, or a fitted
estimator of scikit-learn saved by joblib.dump. Files of joblib run code when
they are opened: only open models you trust.
\b
A line of the output has the id of a row (its number from 0, if it has none)
and, of a classifier, score and prediction; of a regressor, prediction; of
components, component_1, component_2 ... Columns are found by name.
\b
{EXIT_CODES}
"""
# Rows of a large table that are described, and distinct words that are few.
_MOST, _FEW = 100_000, 20
_SENSITIVE = {"sex", "gender", "race", "ethnicity", "nationality", "religion", "group"}
_ROLES, _UNFIT = ("target", "groups"), ("to be corrected", "id or text", "empty")
_NAMES = ("column", "type", "missing", "distinct", "values", "role")
_COLUMNS = {name: (name, "") for name in _NAMES}
_PLAN = {"command": ("command", ""), "features": ("features", ""), "line": ("line", "")}


@click.command(
    cls=shared.SectionedCommand,
    epilog=_EPILOG,
    short_help="Apply a model of classify, regress or pca to rows.",
)
@click.argument("model_file", metavar="MODEL", type=shared.PATH)
@click.argument("table", type=shared.PATH)
@debug_option
@click.pass_context
def predict(
    ctx: click.Context,
    /,
    model_file: Path,
    table: Path,
    output: Path,
    quiet: bool | None,
    **options: Any,
) -> None:
    """Write what the model in MODEL says of each row in TABLE.

    Words that the model does not know are counted, and told. Only open models you
    trust: such a file can run any code.
    """
    from scalefair.cli import _regress

    written = name_outputs({"output": (output, ".csv")}, [model_file, table])
    given = {
        name: value
        for name, value in options.items()
        if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT
    }
    given["folder"] = output.resolve().parent
    with reading(model_file, "a model"), open(model_file, "rb") as file:
        is_archive = file.read(2) == b"PK"
    model = (
        _load_components(model_file) if is_archive else _regress.load_model(model_file)
    )
    if isinstance(model, dict):
        rows, columns = _apply(model, model_file, table, given)
    else:
        rows = _regress.read_for(model, table, _rows.Reading(**given))
        scored = hasattr(model, "decision_function") and len(model.classes_) == 2
        methods = {"score": "decision_function"} if scored else {}
        methods["prediction"] = "predict"
        with fits.library_warnings():
            columns = {
                name: _regress.predict(model, model_file, rows, method)
                for name, method in methods.items()
            }
    ids = {"id" if rows.named else "row": rows.ids}
    write_files({output: lambda file: write_table(file, {**ids, **columns})})
    if fits.on_terminal(quiet, written.values()):
        facts = [("rows", f"{rows.n_rows:,}")]
        if "score" in columns:
            counts = reports.count_values(columns["prediction"])
            facts += [(f"predicted {name}", f"{n:,}") for name, n in counts.items()]
        reports.Report("predict", {}, "", facts=facts).show(written)


shared.add_options(
    predict,
    [
        shared.output_option("a line for each row (csv)"),
        *shared.GROUPS_IF_ANY,
        *shared.INPUT,
        shared.SVMLIGHT,
        shared.MEMORY_LIMIT,
        shared.QUIET,
    ],
)


def _load_components(path: Path) -> dict[str, Any]:
    """Return the arrays of pca, and as encoder what projects rows."""
    from sklearn.preprocessing import FunctionTransformer

    with reading(path, "an output of scalefair pca"), np.load(path) as file:
        found = dict(file)
        columns = found["feature_names"].tolist()
        axes, mean = found["components"] / found["scale"], found["mean"]
        fill = found.get("imputation", np.nan)
        known = json.loads(str(found.get("reading", "{}")))

    def project(block: Any) -> Any:
        if sparse.issparse(block):
            return block @ axes.T - axes @ mean
        X = np.asarray(block, dtype=np.float64)
        return (np.where(np.isnan(X), fill, X) - mean) @ axes.T

    encoder = FunctionTransformer(project, accept_sparse=True)
    default = {"columns": columns, "words": [], "n_columns": len(columns)}
    default |= {"has_header": True, "zero_based": False, "reading": {}}
    return {**default, **known, "encoder": encoder}


def _apply(
    saved: dict[str, Any], model_file: Path, table: Path, given: dict[str, Any]
) -> tuple[_rows.Rows, dict[str, Any]]:
    """Read rows as a command read its own, and score or project them."""
    wanted = {"columns", "words", "n_columns", "has_header", "zero_based", "reading"}
    if lacking := sorted((wanted | {"encoder"}) - saved.keys()):
        raise Failure(
            f"{model_file}: is no model of this version of scalefair (it has no "
            f"{lacking[0]}). Train it again."
        )
    model, known = saved.get("classifier"), dict(saved["reading"])
    needs_groups = getattr(model, "interactions", False)
    if rows_format(table, given.get("svmlight", False)) == "table":
        known |= {"target": None, "drop": (), "keep_groups": False}
        known |= {} if needs_groups else {"groups": None}
    if "groups" in given and not needs_groups:
        raise click.UsageError("--groups does not apply: MODEL needs no groups.")
    if needs_groups and (given.get("groups") or known["groups"]) is None:
        raise click.UsageError("Missing option '--groups': MODEL needs the groups.")
    if known.get("missing") == "drop":
        known["missing"] = "error"
    elif given.get("missing") == "impute" != known.get("missing"):
        raise click.UsageError(
            "--missing impute does not apply: MODEL was trained without it."
        )
    types = {
        name: object if name in saved["words"] else float for name in saved["columns"]
    }
    like = _rows.Rows(
        model_file,
        pandas.DataFrame(
            {name: pandas.Series(dtype=kind) for name, kind in types.items()}
        ),
        list(types),
        np.arange(0),
        groups=saved.get("groups"),
        target=saved.get("classes"),
        **{name: saved[name] for name in ("n_columns", "has_header", "zero_based")},
    )
    rows = _rows.read_rows(table, _rows.Reading(**{**known, **given}), like=like)
    if others := set(rows.words) - set(like.words):
        raise Failure(
            f"{table}: holds words in {', '.join(sorted(others))}, where MODEL knows "
            "numbers. Correct it."
        )
    if rows.names != like.names:
        raise Failure(
            f"{table}: its features are {rows.names[0]} to {rows.names[-1]}, but MODEL "
            f"takes {', '.join(like.names[:8])}. Save them in the format of TRAIN."
        )
    try:
        X = _rows.encode(saved["encoder"], rows)
        if model is None:
            found = np.vstack(list(X.blocks())) if isinstance(X, RowReader) else X
            return rows, {f"component_{j}": x for j, x in enumerate(found.T, start=1)}
        scores = model.decision_function(X, sensitive_features=rows.groups)
    except ValueError as error:
        if isinstance(error, FileError):
            raise
        raise Failure(f"{table}: {error}") from error
    return rows, {
        "score": scores,
        "prediction": model.classes_[(scores > 0).astype(int)],
    }


@click.command(
    cls=shared.SectionedCommand,
    epilog=EXIT_CODES,
    short_help="Say how a table is understood: columns, types, roles.",
)
@click.argument("table", type=shared.PATH)
@debug_option
def describe(
    table: Path,
    target: str | None,
    groups: str | None,
    svmlight: bool,
    report_file: Path | None,
    quiet: bool,
    **text: Any,
) -> None:
    """Say how TABLE, or a graph, is understood, and which commands could take it.

    Roles are proposals: a column of few values may hold groups, one of two values the
    target. Cells that do not fit are told, and all else goes on.
    """
    written = name_outputs({"report": (report_file, "")}, [table])
    frame, read, damaged = _look(table, svmlight, text)
    columns = [_describe_column(frame[name], name in damaged) for name in frame]
    if columns and read.get("header") and frame.columns[0].lower() in _rows.ID_NAMES:
        columns[0]["role"] = "id"
    for role, given in (("target", target), ("groups", groups)):
        if given is not None and given not in frame:
            known = ", ".join(frame.columns[:8])
            raise Failure(f"{table}: no column is named {given!r} (columns: {known}).")
        for column in columns:
            column["role"] = role if column["column"] == given else column["role"]
    roles = {"target": target, "groups": groups}
    plan = _plan(str(table), columns, read, **roles)
    report = reports.Report(
        "describe",
        {
            **reports.describe_run("describe", roles),
            "input": {"table": str(table), **read},
            "columns": columns,
            "commands": plan,
        },
        f"{table.name}: {read['n_rows']:,} rows, {read['n_columns']:,} columns",
        str(table),
        [
            (key.replace("_", " "), reports.as_text(value))
            for key, value in read.items()
        ],
        [
            reports.Table(
                "Columns", columns, _COLUMNS, terminal=True, most=sys.maxsize
            ),
            reports.Table("Commands that could take it", plan, _PLAN),
        ],
    )
    files = {path: partial(report.write, path=path) for path in written.values()}
    write_files(files)
    if not quiet:
        report.show(written)
        for command in plan:  # in one piece, to be copied
            click.echo(printable(command["line"]))


shared.add_options(
    describe,
    [
        shared.option("Columns", "--target", metavar="COLUMN", help="The target."),
        shared.option("Columns", "--groups", metavar="COLUMN", help="The groups."),
        *shared.INPUT[3:],
        shared.SVMLIGHT,
        shared.REPORT,
        shared.option("Other options", "--quiet", is_flag=True, help="Print nothing."),
    ],
)


def _look(
    path: Path, svmlight: bool, text: dict[str, Any]
) -> tuple[pandas.DataFrame, dict[str, Any], list[str]]:
    """Read columns one by one; say what was assumed, and which columns are damaged."""
    kind, damaged, known = rows_format(path, svmlight), [], {}
    X: Any = None
    if ".mtx" in path.suffixes:
        kind, frame = "mtx", pandas.DataFrame()
    elif kind == "npy":
        frame = pandas.DataFrame(read_dense(path)).rename(columns="x{}".format)
    elif kind == "npz":
        X = read_sparse(path, "value")
        frame = pandas.DataFrame(index=range(X.shape[0]))
    elif kind == "svmlight":
        X, labels, _ = read_svmlight(path)
        frame = pandas.DataFrame({"label": labels})
    else:
        table = TableFile(path, **text)
        size = 0 if str(path) == "-" else path.stat().st_size
        is_large = 2 * size > array_limit(None)
        frame = table.frame(table.names, (), n_rows=_MOST if is_large else None)
        for name in table.names:
            try:
                frame[name] = table.typed(frame[name])
            except FileError as error:
                warn(str(error))
                damaged.append(name)
        for message in table.notes:
            note(message)
        if is_large:
            note(f"{path}: is large; the first {len(frame):,} rows were looked at.")
        kind, known = "text" if table.layout else "parquet", table.layout
    shape = frame.shape if X is None else X.shape
    found = {"format": kind, **known, "n_rows": shape[0], "n_columns": shape[1]}
    if X is not None:
        found["stored_values"] = X.nnz
    # Whose first columns name the same things, or which is square, may be a graph.
    ends = frame.iloc[:, :2]
    same = ends.shape[1] == 2 and ends.iloc[:, 0].duplicated().any()
    same = same and ends.iloc[:, 0].isin(ends.iloc[:, 1].unique()).any()
    if kind == "mtx" or shape[0] == shape[1] or (same and shape[1] < 4):
        with suppress(*(() if kind == "mtx" else (FileError,))):
            graph = read_graph(path)
            found |= {"nodes": len(graph.ids), "edges": graph.n_edges}
            parts = csgraph.connected_components(graph.matrix, directed=False)
            found["components_of_the_graph"] = parts[0]
    if kind == "mtx":
        found["n_rows"] = found["n_columns"] = found["nodes"]
    return frame, found, damaged


def _describe_column(values: pandas.Series, damaged: bool) -> dict[str, Any]:
    counts = values.dropna().value_counts()
    name, n, kind, role = str(values.name), len(counts), "words", "feature"
    shown = ", ".join(map(str, counts.index[:3])) + (", ..." if n > 3 else "")
    if is_numeric_dtype(values) and not is_bool_dtype(values):
        whole = not (counts.index % 1).any()
        kind = "whole numbers" if whole else "numbers"
        shown = f"{counts.index.min():g} to {counts.index.max():g}" if n else ""
    elif {str(word).lower() for word in counts.index} <= {"true", "false"}:
        kind = "true/false"
    few = _FEW if kind == "words" else _FEW // 2
    if damaged:
        kind, role = "damaged numbers", "to be corrected"
    elif n < 2:
        role = "constant" if n else "empty"
    elif kind == "words" and (n > _rows.MAX_CATEGORIES or n == len(values) > few):
        role = "id or text"
    elif kind == "whole numbers" and n == len(values) > few:
        role = "feature, or id?"
    elif n == 2:
        role = "feature, groups or target?"
    elif n <= few and kind != "numbers":
        role = "feature, or groups?"
    return {
        "column": name,
        "type": kind,
        "missing": int(values.isna().sum()),
        "distinct": n,
        "values": shown,
        "role": role,
    }


def _plan(
    path: str,
    columns: list[dict[str, Any]],
    read: dict[str, Any],
    target: str | None,
    groups: str | None,
) -> list[dict[str, Any]]:
    """Say for each command what to type, or why it cannot take the rows."""
    table = pandas.DataFrame(columns, columns=[*_COLUMNS]).set_index("column")
    numeric, role = table["type"].str.endswith("numbers"), table["role"]
    may_be = {name: [*table.index[role.str.contains(name)]] for name in _ROLES}
    known = [name for name in may_be["groups"] if name.lower() in _SENSITIVE]
    groups = groups or next(iter(known), None)
    labels = [name for name in may_be["target"] if name != groups]
    label = target or next(reversed(labels), None)
    others = [name for name in may_be["target"] + may_be["groups"] if name != label]
    groups = groups or next(iter(others), None)
    numbers = [n for n in table.index[numeric & ~role.isin(_UNFIT)] if n != groups]
    number = target or next(reversed(numbers), None)

    def line(start: str, end: str, y: str | None = "", words: bool = False) -> Any:
        """Return the command line; columns that it cannot take are dropped."""
        features = table[~table.index.isin([y, groups]) & (role != "id")]
        usable = ~features["role"].isin(_UNFIT) & (words | numeric[features.index])
        kept = features[usable]
        n = int(kept["distinct"].where(~numeric[kept.index], 1).sum())
        n = read["n_columns"] if "stored_values" in read else n
        command, *arguments = start.split()
        typed = ["scalefair", command, *arguments, path]
        if y != "" and "label" not in may_be["target"]:
            typed += ["--target", y or "targets.csv"]
        typed += ["--groups", groups or "groups.csv"]
        if command != "regress":  # whose model chooses
            for name in features.index[~usable]:
                typed += ["--drop", name]
            typed += ["--missing", "impute"] if kept["missing"].any() else []
        if not n and (command != "cluster" or "nodes" not in read):
            return {"command": command, "line": f"{command}: no columns of numbers"}
        return {"command": command, "features": n, "line": f"{shlex.join(typed)} {end}"}

    rows = "" if "nodes" in read else " --affinity nearest_neighbors"
    return [
        line(f"cluster{rows}", "-k 10 -o labels.csv"),
        line("pca", "-r 2 -o components.npz"),
        line("classify", "-o model.joblib", label, words=True),
        line("regress MODEL", "-o fair.joblib", number, words=True),
    ]
