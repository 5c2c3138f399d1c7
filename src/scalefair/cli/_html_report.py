"""The report of a command as one page of HTML."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO, Protocol

from scalefair.cli import (
    _html_report_classify,
    _html_report_cluster,
    _html_report_demo,
    _html_report_pca,
    _html_report_regress,
)
from scalefair.cli._html_figures import Drawing, draw
from scalefair.cli._html_page import Page, Section, Table, render_page
from scalefair.cli._html_tables import fact_table, history_table

__all__ = ["write_html"]


class _Content(Protocol):
    """What differs between the commands.

    Attributes
    ----------
    SHOWN : set of str
        Parts of the report that its tables show.
    """

    SHOWN: set[str]

    def finding(self, report: dict[str, Any]) -> str:
        """Return the result in a few words."""

    def tables(self, report: dict[str, Any]) -> list[Table]:
        """Return the tables, the summary first."""

    def drawings(
        self, report: dict[str, Any], evidence: Any
    ) -> tuple[list[Drawing], list[str]]:
        """Return figures, and what is to be said about those there are not."""


_CONTENTS: dict[str, _Content] = {
    "classify": _html_report_classify,
    "cluster": _html_report_cluster,
    "demo": _html_report_demo,
    "pca": _html_report_pca,
    "regress": _html_report_regress,
}
# Shown for all commands alike.
_COMMON = {
    "command",
    "version",
    "python",
    "parameters",
    "warnings",
    "notes",
    "input",
    "seconds",
    "peak_memory_bytes",
    "history",
}


def write_html(file: BinaryIO, report: dict[str, Any], evidence: Any = None) -> None:
    """Write a page with the tables and figures of a report.

    Parameters
    ----------
    file : binary file
        Where it is written.
    report : dict
        The report, with values as in JSON.
    evidence : object, default=None
        What the figures of the command are drawn from, beside the report.
    """
    content = _CONTENTS[report["command"]]
    drawings, remarks = content.drawings(report, evidence)
    summary, *tables = content.tables(report)
    page = Page(
        title=content.finding(report),
        subtitle=f"scalefair {report['command']}{_source(report['input'])}",
        alerts={"Warnings": report["warnings"], "Notes": report["notes"]},
        sections=[
            Section("Result", [summary]),
            Section("Figures", [*draw(drawings), *remarks]),
            Section("In detail", tables),
            Section("Run", _describe_run(report, content.SHOWN)),
        ],
    )
    file.write(render_page(page).encode())


def _source(read: dict[str, Any]) -> str:
    """Name of the file that was read, if there was one."""
    part = read.get("train", read)
    path = part.get("graph", part.get("rows"))
    return "" if path is None else f": {Path(path).name}"


def _describe_run(report: dict[str, Any], shown: set[str]) -> list[Table | str]:
    fit = {k: v for k, v in report.items() if k not in _COMMON | shown}
    history = history_table(report.get("history"))
    tables = [
        fact_table("Parameters", report["parameters"]),
        fact_table("Input", _without_groups(report["input"])),
        *([fact_table("Fit", fit)] if fit else []),
        *([history] if history is not None else []),
        _resources(report),
    ]
    return ["Names are those of the report in JSON.", *tables]


def _without_groups(read: dict[str, Any]) -> dict[str, Any]:
    """Leave out the sizes of the groups, which have a table."""
    return {
        name: _without_groups(value) if isinstance(value, dict) else value
        for name, value in read.items()
        if name != "groups"
    }


def _resources(report: dict[str, Any]) -> Table:
    facts = {
        "seconds": report.get("seconds", {}),
        "peak_memory_bytes": report.get("peak_memory_bytes"),
        "scalefair": report["version"],
        "python": report["python"],
    }
    known = {name: value for name, value in facts.items() if value is not None}
    return fact_table("Time, memory and versions", known)
