"""Read an undirected graph from a list of edges."""

from __future__ import annotations

import warnings
import zlib
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair.cli._edges import (
    Mentions,
    distinct_edges,
    number_by_appearance,
    symmetric_matrix,
)
from scalefair.cli._errors import Failure
from scalefair.cli._graph import Graph
from scalefair.cli._text_table import (
    data_lines,
    is_integer,
    quote,
    sniff_delimiter,
    split_line,
)

__all__ = ["is_edge_header", "read_edge_list"]

# First lines that are taken for a header unless the user says otherwise.
_HEADERS = {
    ("source", "target"),
    ("src", "dst"),
    ("from", "to"),
    ("fromnodeid", "tonodeid"),
    ("node_1", "node_2"),
    ("node1", "node2"),
    ("id_1", "id_2"),
    ("id1", "id2"),
}
_SHORT_HEADERS = {("u", "v"), ("i", "j")}


@dataclass(frozen=True)
class _Layout:
    delimiter: str | None
    n_columns: int
    n_skipped: int  # lines before the first edge


def read_edge_list(path: Path, *, header: bool | None = None) -> Graph:
    """Read a graph from lines ``source target [weight]``.

    The delimiter (tab, comma or white space) is that of the first line. Lines that
    start with ``#`` or ``%`` are comments. Ids are integers if all are (``007`` is
    then 7), else strings. An edge may be listed once or several times, in one or
    both directions, and counts once; its weights must then agree. A self-loop is
    kept, once, on the diagonal. Nodes are numbered in the order in which the file
    first names them.

    Parameters
    ----------
    path : Path
        Text file; with a name ending in ``.gz``, compressed.
    header : bool or None, default=None
        Whether the first line is a header. None recognises well-known ones, such as
        ``source,target,weight`` or ``node_1,node_2``.

    Returns
    -------
    Graph

    Raises
    ------
    Failure
        If the file or a line cannot be read, a weight is not a finite number >= 0,
        or an edge has two different weights.
    """
    layout = _find_layout(path, header)
    mentions = _parse_integers(path, layout)
    if mentions is None or _first_invalid(mentions.weight) is not None:
        mentions = _parse_lines(path, layout, header)
    kept, conflict = distinct_edges(mentions)
    if conflict is not None and mentions.line is None:
        mentions = _parse_lines(path, layout, header)
        kept, conflict = distinct_edges(mentions)
    if conflict is not None:
        raise Failure(_describe_conflict(path, mentions, *conflict))
    return Graph(path, symmetric_matrix(mentions, kept), mentions.node_ids, named=True)


def _find_layout(path: Path, header: bool | None) -> _Layout:
    lines = data_lines(path)
    number, line = next(lines, (0, ""))
    if number == 0:
        raise Failure(f"{path}: has no edges, only blank lines and comments.")
    delimiter = sniff_delimiter(line)
    fields = split_line(path, number, line, delimiter)
    is_header = _is_known_header(fields) if header is None else header
    if is_header:
        first = next(lines, None)
        if first is None:
            raise Failure(f"{path}: has no edges below the header on line {number}.")
        # Blank lines and comments below a header are skipped as well.
        number, line = first
        fields = split_line(path, number, line, delimiter)
    lines.close()
    if len(fields) not in (2, 3):
        raise Failure(
            f"{path}:{number}: expected `source target [weight]` separated by tab, "
            f"comma or white space, found {len(fields)} field(s): {quote(line)}. For "
            "rows of features choose an --affinity."
        )
    return _Layout(delimiter, len(fields), number - 1)


def is_edge_header(fields: list[str]) -> bool:
    """Whether these names can only be those of the ends of an edge."""
    return tuple(field.lower() for field in fields[:2]) in _HEADERS


def _is_known_header(fields: list[str]) -> bool:
    names = [field.lower() for field in fields]
    has_names = len(names) in (2, 3) and (
        (names[0], names[1]) in _HEADERS | _SHORT_HEADERS
    )
    return has_names and not (len(names) == 3 and _as_weight(names[2]) is not None)


def _parse_integers(path: Path, layout: _Layout) -> Mentions | None:
    """Parse a file whose ids are all integers in C; None for any other file."""
    dtype = [("source", np.int64), ("target", np.int64), ("weight", np.float64)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            table = np.loadtxt(
                path,
                dtype=dtype[: layout.n_columns],
                comments=None,
                delimiter=layout.delimiter,
                skiprows=layout.n_skipped,
                encoding="utf-8-sig",
                ndmin=1,
            )
    # Whatever is the matter, the parser by lines can tell where.
    except (ValueError, OSError, EOFError, zlib.error, Warning):
        return None
    pairs = np.column_stack([table["source"], table["target"]])
    node_ids, codes = number_by_appearance(pairs.ravel())
    source, target = codes.reshape(-1, 2).T
    weighted = layout.n_columns == 3
    weight = table["weight"].copy() if weighted else np.ones(len(table))
    return Mentions(node_ids, source, target, weight, None)


def _parse_lines(path: Path, layout: _Layout, header: bool | None) -> Mentions:
    """Parse any file, line by line."""
    codes: dict[str, int] = {}
    source, target, numbers = array("q"), array("q"), array("q")
    weight = array("d")
    for number, line in data_lines(path):
        if number <= layout.n_skipped:
            continue
        fields = split_line(path, number, line, layout.delimiter)
        if len(fields) != layout.n_columns:
            raise Failure(
                f"{path}:{number}: expected {layout.n_columns} fields as on line "
                f"{layout.n_skipped + 1}, found {len(fields)}: {quote(line)}."
            )
        if not fields[0] or not fields[1]:
            raise Failure(f"{path}:{number}: a node id is empty: {quote(line)}.")
        source.append(codes.setdefault(fields[0], len(codes)))
        target.append(codes.setdefault(fields[1], len(codes)))
        if layout.n_columns == 3:
            weight.append(_check_weight(path, number, fields[2]))
        numbers.append(number)
    names = list(codes)
    if header is None:
        _refuse_doubtful_header(path, numbers, names)
    positions = np.array([source, target], dtype=np.int64)
    node_ids: NDArray[Any]
    if all(map(is_integer, names)):
        # Several spellings of an integer are one node.
        node_ids, renumbered = number_by_appearance(np.array(names, dtype=np.int64))
        positions = renumbered[positions]
    else:
        node_ids = np.array(names, dtype=object)
    return Mentions(
        node_ids,
        positions[0],
        positions[1],
        np.array(weight) if layout.n_columns == 3 else np.ones(len(numbers)),
        np.array(numbers, dtype=np.int64),
    )


def _as_weight(field: str) -> float | None:
    try:
        return None if "_" in field else float(field)
    except ValueError:
        return None


def _check_weight(path: Path, number: int, field: str) -> float:
    weight = _as_weight(field)
    if weight is None:
        raise Failure(
            f"{path}:{number}: the weight {field!r} is not a number. If the line is a "
            "header, pass --header."
        )
    if not np.isfinite(weight):
        raise Failure(
            f"{path}:{number}: the weight is {weight}; weights must be finite. Remove "
            "the edge or give it a weight."
        )
    if weight < 0:
        raise Failure(
            f"{path}:{number}: the weight {weight:g} is negative; spectral clustering "
            "needs weights >= 0."
        )
    return weight


def _first_invalid(weight: NDArray[np.float64]) -> int | None:
    invalid = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    return int(invalid[0]) if invalid.size else None


def _refuse_doubtful_header(path: Path, numbers: array[int], names: list[str]) -> None:
    """Refuse to guess whether the only line with ids that are words is a header."""
    first, others = names[:2], names[2:]
    if others and not any(map(is_integer, first)):
        if not all(map(is_integer, others)):
            return
        raise Failure(
            f"{path}:{numbers[0]}: is {first[0]!r}, {first[1]!r} a header? All other "
            "ids are integers. Pass --header to skip the line, --no-header to read "
            "it as an edge."
        )


def _describe_conflict(path: Path, mentions: Mentions, i: int, j: int) -> str:
    assert mentions.line is not None
    source, target = (
        mentions.node_ids[side[i]] for side in (mentions.source, mentions.target)
    )
    return (
        f"{path}:{mentions.line[j]}: edge {source} - {target} has weight "
        f"{mentions.weight[j]:g} here and {mentions.weight[i]:g} on line "
        f"{mentions.line[i]}. An undirected edge has one weight, in both directions: "
        "correct or add up the lines."
    )
