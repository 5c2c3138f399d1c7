"""Tables of a page from the parts of a report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scalefair.cli._html_page import Number, Table

__all__ = [
    "cell",
    "fact_table",
    "group_table",
    "history_table",
    "measure_table",
    "record_table",
    "summary_table",
]

# Longer tables are folded.
_MAX_ROWS = 50


def cell(value: Any, spec: str = "") -> str | Number:
    """Return a value as it is shown; numbers keep all their digits as well."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (int, float)):
        usual = ",d" if isinstance(value, int) else ".6g"
        return Number(value, format(value, spec or usual))
    if isinstance(value, (list, tuple)):
        return ", ".join(_text(item) for item in value)
    return "none" if value is None else str(value)


def _text(value: Any) -> str:
    shown = cell(value)
    return shown.text if isinstance(shown, Number) else shown


def summary_table(rows: Iterable[tuple[str, str]]) -> Table:
    """Names with their values, as on a terminal."""
    return Table("Summary", (), list(rows))


def fact_table(caption: str, facts: Mapping[str, Any]) -> Table:
    """Names with their values; those of a mapping in a mapping are joined."""
    return Table(caption, (), [(name, cell(v)) for name, v in _flat(facts)])


def _flat(facts: Mapping[str, Any], above: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}: ")
        else:
            yield f"{above}{name}", value


def record_table(
    caption: str,
    records: Sequence[Mapping[str, Any]],
    columns: Mapping[str, tuple[str, str]],
) -> Table:
    """One row for each record.

    Parameters
    ----------
    caption : str
        What it shows.
    records : sequence of mappings
        All with the same keys, at least one.
    columns : mapping of str to (str, str)
        For a key the title of its column and the format of its numbers. Keys that
        records do not have are left out.
    """
    known = {key: column for key, column in columns.items() if key in records[0]}
    rows = [
        [cell(record[key], spec) for key, (_, spec) in known.items()]
        for record in records
    ]
    head = [title for title, _ in known.values()]
    return Table(caption, head, rows, folded=len(rows) > _MAX_ROWS)


def group_table(counts: Mapping[str, int], unit: str) -> Table:
    """Size and share of each group."""
    total = sum(counts.values())
    rows = [(name, cell(n), cell(n / total, ".1%")) for name, n in counts.items()]
    head = ("group", unit, "share")
    return Table("Groups", head, rows, folded=len(rows) > _MAX_ROWS)


def measure_table(parts: Mapping[str, Mapping[str, Any]]) -> Table:
    """All single numbers that were measured on each part of the rows."""
    names = [
        key
        for key, value in next(iter(parts.values())).items()
        if isinstance(value, (int, float))
    ]
    rows = [(name, *(cell(part[name]) for part in parts.values())) for name in names]
    return Table("Measures", ("measure", *(f"{p} rows" for p in parts)), rows)


def history_table(history: Any) -> Table | None:
    """Return the iterations, one below the other, of a list or of columns."""
    if isinstance(history, Mapping):
        lengths = {len(column) for column in history.values()}
        if len(lengths) != 1:
            return None
        columns = history.values()
        history = [
            dict(zip(history, values, strict=True))
            for values in zip(*columns, strict=True)
        ]
    if not history:
        return None
    names = list(dict.fromkeys(name for entry in history for name in entry))
    rows = [
        (cell(i), *(cell(entry.get(name)) for name in names))
        for i, entry in enumerate(history, start=1)
    ]
    return Table("History of the solver", ("step", *names), rows, folded=True)
