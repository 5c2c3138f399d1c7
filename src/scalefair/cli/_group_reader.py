"""Read the group of each node."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair.cli._errors import Failure
from scalefair.cli._nodes import Nodes
from scalefair.cli._npy_file import open_array
from scalefair.cli._text_table import (
    ID_NAMES,
    data_lines,
    quote,
    sniff_delimiter,
    split_line,
)

__all__ = ["check_group_names", "read_groups"]

# More are hardly groups: a column of numbers was named by mistake.
_MAX_GROUPS = 1000
_GROUP_NAMES = {"group", "groups", "sensitive_feature", "sensitive_features"}


def read_groups(
    path: Path, nodes: Nodes, *, header: bool | None = None
) -> tuple[NDArray[Any], int]:
    """Read the group of each node of a graph, or of each row of features.

    Parameters
    ----------
    path : Path
        Text file of lines ``id,group`` (comma, tab or white space; plain or
        gzip-compressed). For a matrix ids are row numbers from 0. A file of one
        column, or a ``.npy`` array, gives the groups in the order of the nodes;
        those of an edge list have none.
    nodes : Nodes
        The graph or the rows, whose ids are looked up.
    header : bool or None, default=None
        Whether the first line is a header. None recognises well-known ones, such as
        ``id,group`` or ``node_id,sex``, unless a node has that name.

    Returns
    -------
    groups : ndarray of shape (n,)
        Group of each node; strings, or what the ``.npy`` file holds.
    n_unknown : int
        Number of ids in the file that are no nodes (only if these have names).

    Raises
    ------
    Failure
        If the file or a line cannot be read, a group is empty, an id has two groups
        or is no row of the matrix, or nodes have no group.
    """
    if path.name.lower().endswith(".npy"):
        return _read_npy(path, nodes), 0
    lines = list(data_lines(path))
    if not lines:
        raise Failure(f"{path}: has no groups, only blank lines and comments.")
    first = lines[0][1]
    delimiter = sniff_delimiter(first)
    n_columns = len(split_line(path, *lines[0], delimiter))
    if n_columns == 1:
        return _read_column(path, nodes, lines, header), 0
    if n_columns != 2:
        raise Failure(
            f"{path}:{lines[0][0]}: expected `id,group`, found {n_columns} fields. "
            "Keep the id and the group only."
        )
    return _read_pairs(path, nodes, lines, delimiter, header)


def check_group_names(names: Sequence[Any], origin: str) -> None:
    """Refuse groups that cannot be compared.

    Parameters
    ----------
    names : sequence
        The groups, each once.
    origin : str
        Where they are from.

    Raises
    ------
    Failure
        If there is one, or so many that they are hardly groups.
    """
    if len(names) < 2:
        raise Failure(
            f"{origin}: all rows are in one group, {names[0]!r}. Fairness compares two "
            "groups or more."
        )
    if len(names) > _MAX_GROUPS:
        raise Failure(
            f"{origin}: has {len(names):,} different values, too many for groups (at "
            f"most {_MAX_GROUPS:,}). Join values into groups, such as age bands."
        )


def _read_npy(path: Path, nodes: Nodes) -> NDArray[Any]:
    _refuse_unordered(path, nodes)
    groups = open_array(path)
    if groups.ndim != 1:
        raise Failure(
            f"{path}: expected an array with one group per {nodes.unit}, found shape "
            f"{groups.shape}. Save one dimension."
        )
    if groups.dtype.kind not in "biufmMSU":
        raise Failure(
            f"{path}: groups must be numbers or strings, found dtype {groups.dtype}."
        )
    _check_length(path, nodes, len(groups))
    missing = np.flatnonzero(groups != groups)
    if missing.size:
        raise Failure(
            f"{path}: {missing.size} group(s) are NaN, the first at position "
            f"{missing[0]}. Give each {nodes.unit} a group."
        )
    return groups


def _read_column(
    path: Path, nodes: Nodes, lines: list[tuple[int, str]], header: bool | None
) -> NDArray[Any]:
    _refuse_unordered(path, nodes)
    if header or (header is None and lines[0][1].lower() in _GROUP_NAMES):
        lines = lines[1:]
    groups = []
    for number, line in lines:
        fields = split_line(path, number, line, sniff_delimiter(line))
        if len(fields) != 1:
            raise Failure(
                f"{path}:{number}: expected one group as on the first line, found "
                f"{len(fields)} fields: {quote(line)}."
            )
        groups.append(fields[0])
    _check_length(path, nodes, len(groups))
    return np.array(groups, dtype=object)


def _read_pairs(
    path: Path,
    nodes: Nodes,
    lines: list[tuple[int, str]],
    delimiter: str | None,
    header: bool | None,
) -> tuple[NDArray[Any], int]:
    position = {node: i for i, node in enumerate(nodes.node_ids.tolist())}
    as_key = _parse_integer if nodes.node_ids.dtype.kind == "i" else str
    if header is None:
        name = split_line(path, *lines[0], delimiter)[0]
        header = name.lower() in ID_NAMES and as_key(name) not in position
    groups: list[str | None] = [None] * nodes.n_nodes
    stated_on: dict[Any, int] = {}
    unknown: dict[Any, str] = {}
    for number, line in lines[1:] if header else lines:
        fields = split_line(path, number, line, delimiter)
        if len(fields) != 2:
            raise Failure(
                f"{path}:{number}: expected `id,group`, found {len(fields)} field(s): "
                f"{quote(line)}."
            )
        node, group = fields
        if not group:
            raise Failure(
                f"{path}:{number}: {nodes.unit} {node} has an empty group. Give it "
                "a group, for example `unknown`."
            )
        key = as_key(node)
        at = position.get(key)
        if at is None and not nodes.named:
            raise Failure(_describe_no_row(path, number, node, nodes))
        key = node if key is None else key
        before = unknown.get(key) if at is None else groups[at]
        if before is not None and before != group:
            raise Failure(
                f"{path}:{number}: {nodes.unit} {node} has group {group!r} here and "
                f"{before!r} on line {stated_on[key]}. Keep one of the lines."
            )
        stated_on.setdefault(key, number)
        if at is None:
            unknown[key] = group
        else:
            groups[at] = group
    _refuse_missing(path, nodes, groups)
    return np.array(groups, dtype=object), len(unknown)


def _parse_integer(text: str) -> int | None:
    try:
        return None if "_" in text else int(text)
    except ValueError:
        return None


def _describe_no_row(path: Path, number: int, node: str, nodes: Nodes) -> str:
    return (
        f"{path}:{number}: {node!r} is no row of {nodes.path}. The ids are "
        f"row numbers, 0 to {nodes.n_nodes - 1}. If the line is a header, pass "
        "--groups-header."
    )


def _refuse_unordered(path: Path, nodes: Nodes) -> None:
    if not nodes.ordered:
        raise Failure(
            f"{path}: has groups without ids, but the nodes of an edge list have no "
            "order. Write lines `id,group`."
        )


def _check_length(path: Path, nodes: Nodes, n_groups: int) -> None:
    if n_groups != nodes.n_nodes:
        off_by_one = n_groups == nodes.n_nodes + 1
        hint = " If the first is a header, pass --groups-header." if off_by_one else ""
        raise Failure(
            f"{path}: has {n_groups} groups for the {nodes.n_nodes} {nodes.unit}s of "
            f"{nodes.path}; give one per {nodes.unit}, in the order of the rows.{hint}"
        )


def _refuse_missing(path: Path, nodes: Nodes, groups: list[str | None]) -> None:
    missing = [
        str(node)
        for node, group in zip(nodes.node_ids, groups, strict=True)
        if group is None
    ]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise Failure(
            f"{path}: {len(missing)} of the {nodes.n_nodes} {nodes.unit}s of "
            f"{nodes.path} have no group: {', '.join(missing[:5])}{more}. Add a line "
            "`id,group` for each."
        )
