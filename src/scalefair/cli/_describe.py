"""``scalefair describe``: how a file is understood, and commands that could take it.

Each column gets a type and the first role that is possible; a table of edges, or a
square one, is looked at as a graph, too. From the roles follow lines to be copied.
"""

import shlex
import sys
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import click
import pandas
from pandas.api.types import is_bool_dtype, is_numeric_dtype
from scipy.sparse import csgraph

from scalefair._messages import listed
from scalefair.cli import _errors, _report, _roles, _run
from scalefair.cli import _options as opt
from scalefair.cli._options import ReadOptions
from scalefair.cli._report import Facts
from scalefair.cli._roles import find_role_columns, split_names
from scalefair.files import FileError
from scalefair.files import _matrices as matrices
from scalefair.files._graphs import are_times, edge_columns, load_graph
from scalefair.files._tables import TableFile
from scalefair.files._text import FileOptions, find_ends
from scalefair.files._values import ID_NAMES

# Roles that an option may name, in place of a proposal.
_ROLES = ("target", "groups")
_COLUMN = {"metavar": "COLUMN", "type": opt.source_name}
_DESCRIBE_OPTIONS = [
    *opt.option_table("Columns", {role: (_COLUMN, f"The {role}.") for role in _ROLES}),
    *opt.shared(f"{opt.TEXT} svmlight report"),
    opt.option("Files", "--quiet", is_flag=True, help="Print nothing."),
]
# Rows of a large table that are described: more take long and rarely say more.
MAX_DESCRIBED_ROWS = 100_000
# Names of columns that are rather groups than features or targets.
_SENSITIVE_NAMES = ["sex", "gender", "race", "ethnicity", "nationality", "religion"]
_SENSITIVE_NAMES += ["group"]
# Roles of columns that are dropped in the proposed commands.
_UNUSABLE_ROLES = ("to be corrected", "id or text", "empty", "id")
# Facts about graphs that say which options `cluster` needs.
_NO_WEIGHT, _SEVERAL = "no_weights", "several_weights"
_WEIGHT = "weight_column"
_END_ROLES = ("source", "target", "weight")


@opt.command(_DESCRIBE_OPTIONS, table="TABLE")
def describe(table: Path, svmlight: bool, **options: Any) -> None:
    """Say how TABLE, or a graph, is understood, and which commands could take it.

    Roles are proposals: a column of few values may hold groups, one of two values the
    target. Cells that do not fit are told, and all else goes on.
    """
    # 1. Look at the file, and at each of its columns.
    outputs, show = _run.take_outputs(options, table)
    roles = {name: options.pop(name) for name in _ROLES}
    file_options = FileOptions(**options)
    frame, facts, graph, damaged = _look_at(table, svmlight, file_options)
    spelled = _spell(file_options) + (["--svmlight"] if svmlight else [])
    columns = [_describe_column(frame[name], name in damaged) for name in frame]
    # A table that could be a graph is none if an option names a column of it. The
    # columns of a matrix are nodes.
    chosen = find_role_columns(table, [*frame], ReadOptions(**roles))
    is_table = facts["format"] not in matrices.GRAPH_FORMATS
    if not (chosen and is_table):
        facts |= graph
        if graph and is_table and "edges_from" not in graph:
            columns = []
    # 2. Roles of the ends of edges, or that the options name, and doubtful features.
    _set_roles(columns, facts, chosen)
    if "nodes" not in facts:
        features = [x["column"] for x in columns if x["role"].startswith("feature")]
        _roles.note_doubts(table, frame[features], has_weight=False, has_target=True)
    commands = _propose_commands(table, columns, facts, spelled, **roles)
    if not commands:
        _errors.note(
            f"{table}: no command takes it: it has neither features nor edges."
        )
    # 3. The report; commands are printed below it on one line each, to be copied: a
    #    table would break them.
    content = {
        **_report.describe_run("describe", roles),
        "input": {"table": str(table), **facts},
        "columns": columns,
        "commands": commands,
    }
    size = facts.get("looked_at", f"{facts['n_rows']:,} rows")
    size += f", {facts['n_columns']:,} columns"
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


# --- The file ------------------------------------------------------------------------


def _look_at(
    path: Path, svmlight: bool, options: FileOptions
) -> tuple[pandas.DataFrame, Facts, Facts, list[str]]:
    """Return columns of a file, facts about it, also as a graph, and damaged columns.

    Without edges there are no facts of the second kind.
    """
    # 1. A graph in a format of its own: its nodes, with attributes for columns.
    file_kind = "mtx" if ".mtx" in path.suffixes else matrices.file_format(path)
    if file_kind in matrices.GRAPH_FORMATS:
        graph, nodes = _describe_graph(path, pandas.DataFrame(), options)
        size = dict.fromkeys(("n_rows", "n_columns"), graph["nodes"])
        return nodes, {"format": file_kind, **size}, graph, []
    # 2. The columns, as far as they have names or are few.
    file_kind = matrices.rows_format(path, svmlight)
    frame, facts, graph, table = pandas.DataFrame(), Facts(), Facts(), None
    damaged: list[str] = []
    if file_kind == "npy":
        X = matrices.read_dense(path)
        if X.ndim not in (1, 2) or X.dtype.kind not in "biufmMU":
            raise FileError(
                f"{path}: rows are a matrix of real numbers, found shape {X.shape} and "
                f"type {X.dtype}."
            )
        frame = pandas.DataFrame(X).rename(columns="x{}".format)
    elif file_kind == "npz":
        facts = _describe_sparse(matrices.read_sparse(path, "value"))
    elif file_kind == "svmlight":
        X, labels, _ = matrices.read_svmlight(path)
        frame, facts = pandas.DataFrame({"label": labels}), _describe_sparse(X)
    else:
        table = TableFile(path, options)
        frame, damaged = _read_columns(table)
        file_kind, facts = table.kind, table.layout
    size = dict(zip(("n_rows", "n_columns"), frame.shape, strict=True))
    facts = {"format": file_kind, **size, **facts}
    # 3. The same as a graph: a matrix of named nodes, or one that is square, or two
    #    columns of the same things.
    if table is not None and table.is_adjacency:
        return pandas.DataFrame(), facts, _describe_graph(path, None, options)[0], []
    if facts["n_rows"] == facts["n_columns"] or _may_be_edges(frame):
        with suppress(FileError):  # it is no graph
            graph = _describe_graph(path, frame, options)[0]
    return frame, facts, graph, damaged


def _read_columns(table: TableFile) -> tuple[pandas.DataFrame, list[str]]:
    """Return the columns of a table, of a large one some rows, and the damaged ones."""
    is_large = ReadOptions().exceeds_memory(table.path, is_text=True)
    frame = table.read_raw(table.names, n_rows=MAX_DESCRIBED_ROWS if is_large else None)
    damaged: list[str] = []
    try:
        frame = table.convert(frame)
    except FileError as error:
        # A command would stop here. Describe the sound columns, and these as strings.
        _errors.warn(str(error))
        damaged = [*table.damaged]
        sound = table.convert(frame.drop(columns=damaged))
        frame = sound.join(frame[damaged])[table.names]
    _errors.print_notes(table)
    if is_large:
        table.layout["looked_at"] = f"the first {len(frame):,} rows"
        _errors.note(f"{table.path}: {table.layout['looked_at']} were looked at.")
    return frame, damaged


def _spell(options: FileOptions) -> list[str]:
    """Return the options that say how a text is read, as a command takes them."""
    names = ("delimiter", "decimal", "skip_lines", "encoding")
    values = {name: getattr(options, name) for name in names}
    values["na_values"] = ",".join(options.na_values)
    spelled = [[f"--{x.replace('_', '-')}", str(y)] for x, y in values.items() if y]
    if options.header is not None:
        spelled.append(["--header" if options.header else "--no-header"])
    return [*chain(*spelled)]


def _describe_sparse(X: Any) -> Facts:
    """Return the size of a matrix whose columns are too many to be described."""
    return {"n_rows": X.shape[0], "n_columns": X.shape[1], "stored_values": X.nnz}


# --- A graph -------------------------------------------------------------------------


def _may_be_edges(frame: pandas.DataFrame) -> bool:
    """Return whether two columns name the same things, by the header or the cells."""
    # 1. The names, of which a wide table needs known ones.
    names = edge_columns([*frame])
    is_known, is_wide = find_ends(names) == 0, len(names) > 3
    if len(names) < 2 or (is_wide and not is_known):
        return False
    # 2. The cells: fractions are no nodes.
    frame = frame[names]
    ends = [frame.iloc[:, j].dropna() for j in (0, 1)]
    if any(is_numeric_dtype(end) and (end % 1).any() for end in ends):
        return False
    if is_known and not is_wide:
        return True
    # 3. Nodes stand on both sides, and some have several edges.
    sources, targets = map(set, ends)
    size, n_common = min(len(sources), len(targets)), len(sources & targets)
    # Two features of numbers share some of them, too. Nodes share at least half, of
    # three or more.
    if any(map(is_numeric_dtype, ends)):
        n_common *= 2 * n_common >= size > 2
    return n_common > 0 and len(sources) < len(frame)


def _describe_graph(
    path: Path, frame: pandas.DataFrame | None, options: FileOptions
) -> tuple[Facts, pandas.DataFrame]:
    """Return facts about a graph and attributes of nodes; raise a FileError if none.

    Edges with several weights are added up, as the command that is proposed does.
    """
    # 1. Of a list the ends of edges, and their weights if a column may hold these.
    facts, is_list = Facts(), frame is not None and _may_be_edges(frame)
    if frame is not None and is_list:
        names = edge_columns([*frame])
        attributes = names[2:]
        if len(attributes) > 1:  # the one that is named so, or none
            attributes.sort(key=lambda name: not _roles.is_weight_name(name))
            facts[_WEIGHT] = attributes[0]
        why_none = "" if not attributes else _why_no_weights(frame[attributes])
        if why_none:
            facts[_NO_WEIGHT] = f"{why_none}: --no-weights"
            options = replace(options, weights=False)
        options = replace(options, weight_column=facts.get(_WEIGHT))
        facts["edges_from"] = names[:2] + attributes[: 0 if why_none else 1]
    # 2. The graph; where directions differ, with their sum.
    try:
        graph = load_graph(path, options)
        is_symmetric = abs(graph.matrix - graph.matrix.T).max() == 0
    except FileError:
        is_symmetric = False
    if not is_symmetric:
        # Rows of numbers look so, too. They are edges only if the header names the ends
        # first, or if there is no header: columns are then called 1 and 2.
        names = [] if frame is None else edge_columns([*frame])
        if names and names[:2] != ["1", "2"] and find_ends(names) != 0:
            raise FileError("rows rather than a graph")
        graph = load_graph(path, replace(options, directed="sum"))
        facts[_SEVERAL] = "edges have several weights: --directed sum adds them up"
    n_components, _ = csgraph.connected_components(graph.matrix, directed=False)
    facts["nodes"], facts["edges"] = len(graph.ids), graph.n_edges
    facts["components_of_the_graph"] = n_components
    return facts, pandas.DataFrame() if graph.nodes is None else graph.nodes


def _why_no_weights(attributes: pandas.DataFrame) -> str:
    """Return why the first of the columns beside the ends of edges holds no weights."""
    values = attributes.iloc[:, 0]
    if are_times(values):
        return f"{values.name} looks like a time, no weight"
    if not is_numeric_dtype(values):
        return f"{values.name} holds words, no weights"
    if attributes.shape[1] > 1 and not _roles.is_weight_name(values.name):
        return f"no other column is called weight ({listed(attributes)})"
    return ""


# --- Columns -------------------------------------------------------------------------


def _set_roles(
    columns: list[Facts], facts: Facts, chosen: dict[str, list[str]]
) -> None:
    """Set the roles of ids, of the ends of edges, and those that the options name."""
    # Roles of columns by their names; those that are set later take precedence.
    names = [column["column"] for column in columns]
    first = names[:1] if facts.get("header") else []
    roles = {name: "id" for name in first if name.lower() in ID_NAMES | {""}}
    if "edges_from" in facts:
        ends = dict(zip(facts["edges_from"], _END_ROLES, strict=False))
        roles = {name: ends.get(name, "not used") for name in names}
    roles |= {name: role for role in chosen for name in chosen[role]}
    for column in columns:
        role = column["role"]
        if "nodes" in facts:  # attributes of nodes
            role = "groups?" if "groups" in role else "attribute"
        column["role"] = roles.get(column["column"], role)


def _describe_column(values: pandas.Series, is_damaged: bool) -> Facts:
    """Return type, values and possible role of a column."""
    # 1. Its values, with some examples or the range of numbers.
    counts = values.dropna().value_counts()
    n_distinct = len(counts)
    # Groups and categories have at most so many values, of numbers fewer.
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
    n_values = int(counts.sum())
    is_text = _roles.are_texts(n_distinct, n_values)
    may_be_groups = n_distinct <= max_categories and 2 * n_distinct <= n_values
    # 2. The first role that is possible; a question mark asks the reader to decide.
    roles = {
        "to be corrected": is_damaged,
        "empty": n_distinct == 0,
        "constant": n_distinct == 1,
        "id or text": kind == "words" and is_text,
        "id": _roles.are_ids(values),
        "feature, or id?": _roles.may_be_ids(values),
        "feature, groups or target?": n_distinct == 2,
        "feature, or groups?": may_be_groups and kind != "numbers",
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


# --- Commands ------------------------------------------------------------------------


class _Proposal(NamedTuple):
    """A command: its name and files, what it predicts, and its last options."""

    arguments: list[str]
    target: str | None
    ending: str


def _propose_commands(
    path: Path,
    columns: list[Facts],
    facts: Facts,
    spelled: list[str],
    target: str | None,
    groups: str | None,
) -> list[Facts]:
    """Return for each command what to type; columns it cannot take are dropped.

    `spelled` are the options that say how the file is read.
    """
    # A row for each column of the file, by name.
    names = ["column", "type", "missing", "distinct", "role"]
    table = pandas.DataFrame(columns, columns=names).set_index("column")
    table["numeric"] = table["type"].str.endswith("numbers")
    table["usable"] = ~table["role"].isin(_UNUSABLE_ROLES)
    label, number, groups, group_columns = _propose_roles(table, target, groups)
    # 1. The commands for a graph, or for rows; those of a table need a target in it.
    file = str(path)
    n_units: int = facts["nodes"] if "nodes" in facts else facts["n_rows"]
    # So many clusters of ten units or more.
    ending = f"-k {max(2, min(10, n_units // 10))} -o labels.csv"
    if "nodes" in facts:
        graph = ["cluster", file, *_spell_graph(facts)]
        proposals = [_Proposal(graph, None, ending)]
    else:
        rows = ["cluster", file, "--affinity", "nearest_neighbors"]
        if n_units <= 10:  # less than the neighbors by default
            rows += ["--n-neighbors", str(n_units - 1)]
        proposals = [
            _Proposal(rows, None, ending),
            _Proposal(["pca", file], None, "-r 2 -o components.npz"),
        ]
        for name, column, output in (
            (["classify"], label, "model.joblib"),
            (["regress", "MODEL"], number, "fair.joblib"),
        ):
            option = ["--target", column or "targets.csv"]
            if facts["format"] == "svmlight":  # its lines start with the target
                option = []
            arguments = [*name, file, *option]
            if column or facts["format"] in ("npy", "npz", "svmlight"):
                proposals.append(_Proposal(arguments, column, f"-o {output}"))
    # 2. The line of each command that has features: columns without a role.
    options = ["--groups", groups or "groups.csv", *spelled]
    lines = (_complete(x, table, group_columns, facts, options) for x in proposals)
    return [line for line in lines if line]


def _spell_graph(facts: Facts) -> list[str]:
    """Return the options of `cluster` for a graph."""
    options = ["--weight-column", facts[_WEIGHT]] if _WEIGHT in facts else []
    if _NO_WEIGHT in facts:
        options.append("--no-weights")
    if _SEVERAL in facts:
        options += ["--directed", "sum"]
    if facts["components_of_the_graph"] > 1:
        options += ["--components", "largest"]
    return options


def _complete(
    proposal: _Proposal,
    table: pandas.DataFrame,
    group_columns: list[str],
    facts: Facts,
    options: list[str],
) -> Facts:
    """Return a command with its line, or nothing if rows have no features for it."""
    # 1. Its features, of which strings become one for each value, if it takes them. A
    #    column that is called a target is none, whichever column is the target.
    name, is_graph = proposal.arguments[0], "nodes" in facts
    takes_words = name in ("classify", "regress")
    is_role = table.index.isin([proposal.target, *group_columns])
    features = table[~is_role & (table["role"] != "id")]
    is_kept = features["usable"] & (features["numeric"] | takes_words)
    is_kept &= ~features.index.str.lower().isin(_roles.TARGET_NAMES)
    kept = features[is_kept]
    n_features = int(kept["distinct"].where(~kept["numeric"], 1).sum())
    if "stored_values" in facts:  # a sparse matrix, whose columns have no names
        n_features = facts["n_columns"]
    if not (n_features or is_graph):
        return {}
    # 2. Options about the other columns, and about missing values.
    arguments = ["scalefair", *proposal.arguments, *options]
    # A model chooses its columns, and those of a sparse matrix are all features.
    if name != "regress" and not is_graph and "stored_values" not in facts:
        for column in features.index[~is_kept]:
            arguments += ["--drop", column]
        if kept["missing"].any():
            arguments += ["--missing", "impute"]
        elif table["missing"][is_role].any():
            arguments += ["--missing", "drop"]
    ending = proposal.ending
    if name == "pca":
        ending = ending.replace("2", str(min(2, n_features)))
    line = f"{shlex.join(arguments)} {ending}"
    return {"command": name, "features": n_features, "line": line}


def _propose_roles(
    table: pandas.DataFrame, target: str | None, groups: str | None
) -> tuple[str | None, str | None, str | None, list[str]]:
    """Return a label, a number to predict, the groups, and the columns of these.

    A target is called so, or is the last possible column without a name of groups.
    """
    names = table.index
    is_target = names.str.lower().isin(_roles.TARGET_NAMES)
    is_sensitive = names.str.lower().isin(_SENSITIVE_NAMES)
    group_columns = [] if groups is None else split_names(groups, list(names))

    def choose_target(is_possible: Any) -> str | None:
        """Return the column of the option, else the last one of these."""
        is_possible = is_possible & ~is_sensitive & ~names.isin(group_columns)
        # Columns that are called a target come once more, at the end: one of them is
        # the last, if there are any.
        possible = [*names[is_possible], *names[is_possible & is_target]]
        return target or next(reversed(possible), None)

    label = choose_target(table["role"].str.contains("target"))
    # Groups: a column with the name of some, else the first possible one.
    if groups is None:
        possible = names[table["role"].str.contains("groups") & ~is_target]
        possible = [name for name in possible if name != label]
        possible.sort(key=lambda name: name.lower() not in _SENSITIVE_NAMES)
        groups = next(iter(possible), None)
        group_columns = [] if groups is None else [groups]
    number = choose_target(table["numeric"] & table["usable"])
    return label, number, groups, group_columns
