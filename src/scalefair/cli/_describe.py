"""``scalefair describe``: how a file is understood, and commands that could take it."""

import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pandas
from pandas.api.types import is_bool_dtype, is_numeric_dtype
from scipy.sparse import csgraph

from scalefair.cli import _errors, _report, _roles, _run
from scalefair.cli import _options as opt
from scalefair.cli._options import ReadOptions
from scalefair.cli._report import Facts
from scalefair.cli._rows import find_role_columns, split_names
from scalefair.files import FileError, read_graph
from scalefair.files import _matrices as matrices
from scalefair.files._graphs import are_times
from scalefair.files._tables import TableFile
from scalefair.files._text import FileOptions
from scalefair.files._values import ID_NAMES

_ROLES = ("target", "groups")
_DESCRIBE_OPTIONS = [
    *(
        opt.option("Columns", f"--{role}", metavar="COLUMN", help=f"The {role}.")
        for role in _ROLES
    ),
    *opt.shared(f"{opt.TEXT} svmlight report"),
    opt.option("Files", "--quiet", is_flag=True, help="Print nothing."),
]
# Rows of a large table that are described: more take long and rarely say more.
MAX_DESCRIBED_ROWS = 100_000
_SENSITIVE_NAMES = ["sex", "gender", "race", "ethnicity", "nationality", "religion"]
_SENSITIVE_NAMES += ["group"]
_UNUSABLE_ROLES = ("to be corrected", "id or text", "empty")


@opt.command(_DESCRIBE_OPTIONS, table="TABLE")
def describe(table: Path, svmlight: bool, **options: Any) -> None:
    """Say how TABLE, or a graph, is understood, and which commands could take it.

    Roles are proposals: a column of few values may hold groups, one of two values the
    target. Cells that do not fit are told, and all else goes on.
    """
    # 1. Look at the file, and at each of its columns.
    outputs, show = _run.take_outputs(options, table)
    roles = {name: options.pop(name) for name in _ROLES}
    frame, facts, damaged = _look_at(table, svmlight, FileOptions(**options))
    columns = [_describe_column(frame[name], name in damaged) for name in frame]
    has_ids = facts.get("header") and frame.columns[0].lower() in ID_NAMES | {""}
    if columns and has_ids:
        columns[0]["role"] = "id"
    # 2. Roles that the options name, and what could be done with the others.
    names = [*frame]
    chosen = find_role_columns(table, names, ReadOptions(**roles))
    for role, role_columns in chosen.items():
        for column in columns:
            if column["column"] in role_columns:
                column["role"] = role
    commands = _propose_commands(table, columns, facts, **roles)
    # 3. The report; commands are shown on one line each, to be copied.
    content = {
        **_report.describe_run("describe", roles),
        "input": {"table": str(table), **facts},
        "columns": columns,
        "commands": commands,
    }
    size = f"{facts['n_rows']:,} rows, {facts['n_columns']:,} columns"
    report = _report.Report("describe", content, f"{table.name}: {size}", str(table))
    report.facts = [(k.replace("_", " "), _report.as_text(v)) for k, v in facts.items()]
    all_columns = _report.ReportTable(
        "Columns", columns, terminal=True, max_records=sys.maxsize
    )
    report.tables = [all_columns, _report.ReportTable("Commands", commands)]
    _run.finish(report, outputs, {}, show=show)
    if show:
        for command in commands:
            click.echo(_errors.printable(command["line"]))


def _look_at(
    path: Path, svmlight: bool, options: FileOptions
) -> tuple[pandas.DataFrame, Facts, list[str]]:
    """Return columns of a file, facts about it, and which columns are damaged."""
    is_market = ".mtx" in path.suffixes
    file_kind = "mtx" if is_market else matrices.rows_format(path, svmlight)
    frame, facts = pandas.DataFrame(), Facts()
    damaged: list[str] = []
    # 1. The columns, as far as they have names or are few.
    if file_kind == "npy":
        frame = pandas.DataFrame(matrices.read_dense(path)).rename(columns="x{}".format)
    elif file_kind == "npz":
        facts = _describe_sparse(matrices.read_sparse(path, "value"))
    elif file_kind == "svmlight":
        X, labels, _ = matrices.read_svmlight(path)
        frame, facts = pandas.DataFrame({"label": labels}), _describe_sparse(X)
    elif file_kind == "table":
        table = TableFile(path, options)
        is_large = ReadOptions().exceeds_memory(path, is_text=True)
        n_rows = MAX_DESCRIBED_ROWS if is_large else None
        frame, facts = table.read_raw(table.names, n_rows=n_rows), table.layout
        try:
            frame = table.convert(frame)
        except FileError as error:
            _errors.warn(str(error))
            damaged = [*table.damaged]
            others = table.convert(frame.drop(columns=damaged))
            frame = others.join(frame[damaged])[table.names]
        _errors.print_notes(table)
        if is_large:
            _errors.note(f"{path}: the first {len(frame):,} rows were looked at.")
        file_kind = "text" if facts else "parquet"
    # 2. Its size, also as a graph: a square matrix, or two columns of the same things.
    size = dict(zip(("n_rows", "n_columns"), frame.shape, strict=True))
    facts = {"format": file_kind, **size, **facts}
    if is_market:
        facts |= _describe_graph(path, frame)
        facts["n_rows"] = facts["n_columns"] = facts["nodes"]
    elif facts["n_rows"] == facts["n_columns"] or _may_be_edges(frame):
        with suppress(FileError):  # it is no graph
            facts |= _describe_graph(path, frame)
    return frame, facts, damaged


def _describe_sparse(X: Any) -> Facts:
    """Return the size of a matrix whose columns are too many to be described."""
    return {"n_rows": X.shape[0], "n_columns": X.shape[1], "stored_values": X.nnz}


def _may_be_edges(frame: pandas.DataFrame) -> bool:
    """Return whether the first two of two or three columns name the same things."""
    if frame.shape[1] not in (2, 3):
        return False
    sources, targets = (set(frame.iloc[:, j].dropna()) for j in (0, 1))
    return bool(sources & targets) and len(sources) < len(frame)


def _describe_graph(path: Path, frame: pandas.DataFrame) -> Facts:
    """Return the size of a graph; raise a FileError if the file is none."""
    may_have_times = frame.shape[1] == 3 and _may_be_edges(frame)
    has_times = may_have_times and are_times(frame.iloc[:, 2])
    graph = read_graph(path, weights=False if has_times else None)
    n_components, _ = csgraph.connected_components(graph.matrix, directed=False)
    time = {"third_column": "looks like a time, no weight: --no-weights"}
    return {
        **(time if has_times else {}),
        "nodes": len(graph.ids),
        "edges": graph.n_edges,
        "components_of_the_graph": n_components,
    }


def _describe_column(values: pandas.Series, is_damaged: bool) -> Facts:
    """Return type, values and possible role of a column."""
    # 1. Its values, with some examples or the range of numbers.
    counts = values.dropna().value_counts()
    n_distinct, has_unique_values = len(counts), len(counts) == len(values)
    # Groups and categories have at most so many values.
    kind, max_categories = "words", 20
    examples = ", ".join(map(str, counts.index[:3]))
    if n_distinct > 3:
        examples += ", ..."
    if is_numeric_dtype(values) and not is_bool_dtype(values):
        max_categories = 10
        kind = "numbers" if (counts.index % 1).any() else "whole numbers"
        examples = ""
        if n_distinct:
            examples = f"{counts.index.min():g} to {counts.index.max():g}"
    elif {str(value).lower() for value in counts.index} <= {"true", "false"}:
        kind = "true/false"
    may_be_ids = has_unique_values and n_distinct > max_categories
    is_text = n_distinct > _roles.MAX_CATEGORIES or may_be_ids
    # 2. The first role that is possible.
    roles = {
        "to be corrected": is_damaged,
        "empty": n_distinct == 0,
        "constant": n_distinct == 1,
        "id or text": kind == "words" and is_text,
        "feature, or id?": kind == "whole numbers" and may_be_ids,
        "feature, groups or target?": n_distinct == 2,
        "feature, or groups?": n_distinct <= max_categories and kind != "numbers",
        "feature": True,
    }
    return {
        "column": str(values.name),
        "type": "damaged numbers" if is_damaged else kind,
        "missing": int(values.isna().sum()),
        "distinct": n_distinct,
        "values": examples,
        "role": next(role for role, is_possible in roles.items() if is_possible),
    }


def _propose_commands(
    path: Path,
    columns: list[Facts],
    facts: Facts,
    target: str | None,
    groups: str | None,
) -> list[Facts]:
    """Return for each command what to type; columns it cannot take are dropped."""
    names = ["column", "type", "missing", "distinct", "role"]
    table = pandas.DataFrame(columns, columns=names).set_index("column")
    table["numeric"] = table["type"].str.endswith("numbers")
    table["usable"] = ~table["role"].isin(_UNUSABLE_ROLES)
    label, number, groups, group_columns = _propose_roles(table, target, groups)
    # 1. Each command, columns with a role in it, whether it takes strings, and its end.
    file, label_option, number_option = str(path), [], []
    if facts["format"] != "svmlight":  # its lines start with the target
        label_option = ["--target", label or "targets.csv"]
        number_option = ["--target", number or "targets.csv"]
    kind: list[str] = []
    if "nodes" not in facts:
        kind = ["--affinity", "nearest_neighbors"]
    elif "third_column" in facts:
        kind = ["--no-weights"]
    proposals: list[tuple[list[str], list[Any], bool, str]] = [
        (["cluster", file, *kind], [], False, "-k 10 -o labels.csv"),
        (["pca", file], [], False, "-r 2 -o components.npz"),
        (["classify", file, *label_option], [label], True, "-o model.joblib"),
        (["regress", "MODEL", file, *number_option], [number], True, "-o fair.joblib"),
    ]
    # 2. The line of each command that has features: columns without a role.
    commands = []
    for command, targets, takes_strings, ending in proposals:
        is_feature = ~table.index.isin([*targets, *group_columns])
        features = table[is_feature & (table["role"] != "id")]
        is_kept = features["usable"] & (features["numeric"] | takes_strings)
        kept = features[is_kept]
        n_features = int(kept["distinct"].where(~kept["numeric"], 1).sum())
        if "stored_values" in facts:
            n_features = facts["n_columns"]
        if not n_features and command[0] != "cluster":
            continue
        arguments = ["scalefair", *command, "--groups", groups or "groups.csv"]
        if "MODEL" not in command:  # a model chooses its columns itself
            for name in features.index[~is_kept]:
                arguments += ["--drop", name]
            if kept["missing"].any():
                arguments += ["--missing", "impute"]
        line = f"{shlex.join(arguments)} {ending}"
        commands.append({"command": command[0], "features": n_features, "line": line})
    return commands


def _propose_roles(
    table: pandas.DataFrame, target: str | None, groups: str | None
) -> tuple[str | None, str | None, str | None, list[str]]:
    """Return a label, a number to predict, the groups, and the columns of these.

    A target is the last column that it can be, and has no name of groups.
    """
    sensitive = [name for name in table.index if name.lower() in _SENSITIVE_NAMES]
    group_columns = [] if groups is None else split_names(groups, list(table.index))
    may_be_label = table["role"].str.contains("target")
    labels = table.index[may_be_label & ~table.index.isin(sensitive + group_columns)]
    label = target or next(reversed(labels), None)
    if groups is None:
        possible = table.index[table["role"].str.contains("groups")]
        names = [name for name in possible if name != label]
        names.sort(key=lambda name: name not in sensitive)  # these come first
        groups = names[0] if names else None
        group_columns = [groups] if groups else []
    is_number = table["numeric"] & table["usable"]
    numbers = table.index[is_number & ~table.index.isin(sensitive + group_columns)]
    return label, target or next(reversed(numbers), None), groups, group_columns
