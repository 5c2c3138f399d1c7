"""The results of a command, shown as a page of HTML, as JSON, or on a terminal.

A command fills a `Report` with values, facts, tables and figures; none of the three
renderings knows a command. What several commands say of groups, weights and gaps is
computed in the second half of this file.
"""

import base64
import io
import json
import math
import platform
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from numbers import Real
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas
from numpy.typing import NDArray

import scalefair
from scalefair.cli._errors import Failure, messages, printable, warn
from scalefair.metrics import (
    null_parity_gap,
    partial_parity_gap,
    unmixed_parity_gap,
)

# What a report says, by name: values, nested facts, and lists of records.
Facts = dict[str, Any]
# Columns of a table: title and format of their values, by key.
Columns = Mapping[str, tuple[str, str]]
# What a report says of weighted rows.
WEIGHTS = "{weights_from}, effective rows {effective_rows:,.0f} of {n_rows:,}"
# What gives a distance of groups its meaning.
KS = "the largest difference of two groups' shares below any value"
CHANCE = "Groups that do not differ would show about {:.3f} by chance"
# Groups in a figure: as many as it has colours.
MAX_FIGURE_GROUPS = 7
# Before each part of a summary but the first.
_PARTS = re.compile(r" (?=(?:Reached|Cost|Not promised)\b)")
# Characters that are not allowed in HTML, not even escaped.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True)
class ReportTable:
    """Records; `columns` has title and format by key, by default of all keys.

    Keys of `columns` that no record has are left out, so that one table serves methods
    with different results.
    """

    caption: str
    records: Sequence[Mapping[str, Any]]
    columns: Columns = field(default_factory=dict)
    terminal: bool = False  # shown on a terminal as well
    max_records: int = 20  # on a terminal

    def present_columns(self) -> list[tuple[str, str, str, bool]]:
        """Return key, title and format, and whether there are numbers, of columns."""
        keys = dict.fromkeys(key for record in self.records for key in record)
        columns = self.columns or {key: (key.replace("_", "\n"), "") for key in keys}
        return [
            (key, title, spec, any(is_number(x.get(key)) for x in self.records))
            for key, (title, spec) in columns.items()
            if key in keys
        ]


@dataclass(frozen=True)
class ReportFigure:
    """A figure that `plot` draws on a matplotlib Figure of a size in inches."""

    plot: Callable[[Any], object]
    size: tuple[float, float]
    alt: str  # instead of the figure, for who cannot see it
    caption: str


@dataclass
class Report:
    """Results of a command: `content` is the JSON, the others are for readers."""

    command: str
    content: Facts
    title: str
    source: str = ""
    facts: list[tuple[str, str]] = field(default_factory=list)
    tables: list[ReportTable] = field(default_factory=list)
    figures: list[ReportFigure] = field(default_factory=list)
    # In words: what was asked and reached, at what cost, and what is not promised.
    summary: str = ""

    def write(self, file: BinaryIO, path: Path) -> None:
        """Write a page of HTML if the name ends in .html, else strict JSON."""
        if path.suffix.lower() == ".html":
            text = _render(self)
        else:
            summary = {"summary": self.summary} if self.summary else {}
            content = as_python({**self.content, **summary})
            text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        # Bytes of a file name that are no text are escaped as JSON does it.
        file.write(f"{text}\n".encode(errors="backslashreplace"))

    def show(self, written: Mapping[str, Path]) -> None:
        """Print the tables for a terminal, the facts, and the files written."""
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        console = Console()
        if self.summary:
            console.print(Text(printable(self.summary)))
        # 1. Tables; columns of numbers are neither cut nor wrapped. Texts are of users
        #    (names of groups, of files): they are no markup of rich.
        for table in self.tables:
            if not table.terminal or not table.records:
                continue
            grid, columns = Table(), table.present_columns()
            for _, title, _, has_numbers in columns:
                header = Text("\n".join(map(printable, title.split("\n"))))
                side: Any = "right" if has_numbers else "left"
                grid.add_column(header, justify=side, no_wrap=has_numbers)
            for record in table.records[: table.max_records]:
                cells = [as_text(record.get(x, ""), spec) for x, _, spec, _ in columns]
                grid.add_row(*(Text(printable(cell)) for cell in cells))
            if (n_more := len(table.records) - table.max_records) > 0:
                grid.add_row(f"... {n_more:,} more")
            console.print(Text(printable(table.caption)), grid)
        # 2. Facts, and the files written; their names are folded, not cut.
        files = [(name, str(path)) for name, path in written.items()]
        grid = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        grid.add_column()
        grid.add_column(overflow="fold")
        for name, value in [*self.facts, *files]:
            grid.add_row(Text(printable(name)), Text(printable(value)))
        console.print(grid)


def is_number(value: Any) -> bool:
    """Return whether a value is a finite number, of Python or NumPy."""
    is_real = isinstance(value, Real) and not isinstance(value, bool)
    return is_real and math.isfinite(value)


def as_text(value: Any, spec: str = "") -> str:
    """Return a value as it is shown: numbers with commas, or with six digits."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, bool):
        return "yes" if value else "no"
    if is_number(value):
        return format(value, spec or (",d" if isinstance(value, int) else ".6g"))
    if isinstance(value, (list, tuple)):
        return ", ".join(as_text(item, spec) for item in value)
    return "none" if value is None else str(value)


def as_python(value: Any) -> Any:
    """Return a value of types that JSON has; numbers that are not finite are None."""
    if isinstance(value, Mapping):
        return {str(key): as_python(item) for key, item in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [as_python(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    is_json = isinstance(value, (bool, int, float, str, type(None)))
    return value if is_json else str(value)


def _render(report: Report) -> str:
    """Return the report as one page of HTML that loads and runs nothing."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("scalefair.cli", "."),
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {"text": as_text, "digits": lambda v: repr(as_python(v))}
    environment.filters["parts"] = _PARTS.split
    environment.tests["a_number"] = is_number
    # The template shows a title, facts, tables and pictures, and below them all values
    # of the JSON by their names; messages of the run stand at the top.
    content = as_python(report.content)
    page = environment.get_template("page.html").render(
        report=report,
        alerts=[(name, content.pop(name, [])) for name in ("warnings", "notes")],
        pictures=list(_draw(report.figures)),
        run=list(_describe(content)),
    )
    return _CONTROLS.sub("\ufffd", page)


def _describe(content: Facts) -> Iterator[tuple[str, list[Any]]]:
    """Yield the facts of each part of a report, with a caption."""
    # Values that belong to no part come last.
    parts = {k: v for k, v in content.items() if type(v) is dict and k != "history"}
    single = {k: v for k, v in content.items() if k not in parts}
    for name, part in {**parts, "other values": single}.items():
        if facts := list(_flatten(part)):
            yield name.replace("_", " ").capitalize(), facts


def _flatten(facts: Facts, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested facts with their names; records and histories have tables."""
    for name, value in facts.items():
        if name == "history":
            continue
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}: ")
        elif not (isinstance(value, list) and any(type(v) is dict for v in value)):
            yield f"{prefix}{name}", value


def _draw(figures: list[ReportFigure]) -> Iterator[dict[str, str]]:
    """Yield pictures; if one cannot be drawn the reason, and the page is complete."""
    if figures and find_spec("matplotlib") is None:
        yield {"text": 'Figures need matplotlib: pip install "scalefair[plot]".'}
        return
    for figure in figures:
        file = io.BytesIO()
        try:
            draw(figure, file)
            # The picture is in the page itself, which loads nothing.
            encoded = base64.b64encode(file.getvalue()).decode()
            address = f"data:image/png;base64,{encoded}"
            yield {"src": address, "alt": figure.alt, "text": figure.caption}
        # The results are worth more than their figure, whatever fails.
        except Exception as error:
            message = f"a figure could not be drawn: {type(error).__name__}: {error}"
            warn(message)
            yield {"text": f"{message} ({figure.caption})"}


def draw(figure: ReportFigure, file: BinaryIO) -> None:
    """Draw a figure to a file, as a picture of pixels (png)."""
    from matplotlib.figure import Figure

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # letters that the font has not
        canvas = Figure(figsize=figure.size, layout="constrained")
        figure.plot(canvas)
        canvas.savefig(file, format="png", dpi=150)


# --- Parts of reports that several commands have -------------------------------------

GROUP_COLUMNS = {
    "attribute": ("attribute", ""),
    "group": ("group", ""),
    "n_rows": ("rows", ",d"),
}


def describe_run(command: str, parameters: Mapping[str, Any]) -> Facts:
    """Return command, versions and parameters of a run, and its messages so far."""
    # JSON has no infinity: write what the option takes.
    infinite = {k: "inf" for k, v in parameters.items() if v == math.inf}
    return {
        "command": command,
        "version": scalefair.__version__,
        "python": platform.python_version(),
        "parameters": {**parameters, **infinite},
        "warnings": messages("warning"),
        "notes": messages("note"),
    }


# What the facts say of groups that are probabilities.
EXPECTED = "probabilities: what is said of groups is expected"


def by_attribute(groups: Any) -> dict[str, NDArray[Any]]:
    """Return the groups of each attribute by its name; "" if there is one."""
    if not isinstance(groups, pandas.DataFrame):
        return {"": groups}
    return {str(name): groups[name].to_numpy() for name in groups}


def count_groups(rows: Any) -> Facts:
    """Return how many rows each group has, or is expected to have."""
    if rows.has_probabilities:
        counts: Facts = rows.groups.sum().to_dict()
        return counts
    return count_values(rows.sensitive_features)


def count_values(values: Any) -> Facts:
    """Return how often each value occurs, of a frame for each column."""
    if isinstance(values, pandas.DataFrame):
        return {k: count_values(column) for k, column in by_attribute(values).items()}
    names, counts = np.unique(values, return_counts=True)
    return {str(n): int(c) for n, c in zip(names, counts, strict=True)}


def group_means(
    frame: pandas.DataFrame, groups: Any, weights: NDArray[np.float64] | None
) -> list[Facts]:
    """Return the number of rows of each group, and weighted means of the columns."""
    if isinstance(groups, pandas.DataFrame):
        return [
            {"attribute": name, **record}
            for name, column in by_attribute(groups).items()
            for record in group_means(frame, column, weights)
        ]
    # The sum of weighted values by the sum of the weights, of each group.
    by_group = frame.groupby(groups)
    table = by_group.mean()
    if weights is not None:
        totals = pandas.Series(weights).groupby(groups).sum()
        table = frame.mul(weights, axis=0).groupby(groups).sum().div(totals, axis=0)
    table.insert(0, "n_rows", by_group.size())
    table.insert(0, "group", table.index.astype(str))
    records: list[Facts] = table.to_dict("records")
    return records


def parity_gaps(rows: Any, scores: Any, *, threshold: float, **compared: Any) -> Facts:
    """Return the gaps of the scores of groups, at all thresholds and at one.

    `rows` and scores are of entries; `compared` has the interval of ranks, and which
    labels are given.
    """
    arguments = {"y_true": rows.target, **rows.metric_arguments, **compared}
    gap = partial(partial_parity_gap, scores, **arguments)
    try:
        gaps = {"partial_parity_gap": gap()}
    except ValueError as error:  # a group may lack a label
        raise Failure(f"{rows.path}: {error}") from error
    return {**gaps, "weak_partial_parity_gap": gap(threshold=threshold)}


def unmixed_gap(rows: Any, scores: Any, interval: Any, **compared: Any) -> Facts:
    """Return the gap if probabilities of groups say nothing of scores within them.

    Nothing where all groups are sure, or where rows of the same label are compared.
    """
    if not rows.is_uncertain or compared["given"] is not None:
        return {}
    with suppress(ValueError):  # columns that are combinations of others
        gap = unmixed_parity_gap(scores, interval=interval, **rows.fit_arguments)
        return {"unmixed_parity_gap": gap}
    return {}


def null_gap(
    rows: Any, interval: Any, kinds: Sequence[NDArray[np.bool_]] | None = None
) -> Facts:
    """Return the gap that fair scores of these rows would have by chance.

    Nothing where some group is uncertain.
    `kinds` selects the rows of each comparison, by default all in one.
    """
    if rows.is_uncertain:
        return {}
    # Effective sizes of the groups that are compared, of each attribute and kind.
    entries, sizes = rows.entries(), []
    for groups in by_attribute(entries.sensitive_features).values():
        names, codes = np.unique(groups, return_inverse=True)
        for kind in kinds or [np.full(entries.n_rows, True)]:
            members = [kind & (codes == i) for i in range(names.size)]
            sizes.append([entries.effective_size(x) for x in members if x.any()])
    return {"null_gap": null_parity_gap(sizes, interval=interval)}


def worst_change(groups: Sequence[Facts], before: str, after: str, spec: str) -> str:
    """Say of which group the error grows most, by the names of both errors.

    Where no error grows it is the group whose error falls least.
    """
    record = max(groups, key=lambda group: group[after] - group[before])
    name = f"{record.get('attribute', '')} {record['group']}".strip()
    old, new = (format(record[key], spec) for key in (before, after))
    verb = "grows most" if record[after] > record[before] else "falls least"
    return f"The error of {name} {verb}, from {old} to {new}"


def between(interval: Sequence[float]) -> str:
    """Say between which ranks of its group, from the top, a row is compared."""
    low, high = (f"{100 * rank:g}%" for rank in interval)
    return f" among the rows between the top {low} and the top {high} of each group"


def fill(templates: Mapping[str, str], content: Facts, **more: Any) -> list[Any]:
    """Return titles and templates that are filled with values of a report, and more.

    Those that lack a value are left out, so that a command has one list of facts.
    """
    values = content | content["input"] | content.get("seconds", {}) | more
    facts = []
    for title, template in templates.items():
        with suppress(KeyError):
            facts.append((title, template.format_map(values)))
    return facts


def iterations(n_iter: int) -> str:
    """Return how many iterations there were."""
    return "1 iteration" if n_iter == 1 else f"{n_iter:,} iterations"


def parts_of(content: Mapping[str, Any]) -> dict[str, Facts]:
    """Return what was measured on the train rows, and on the test rows if any."""
    return {name: content[name] for name in ("train", "test") if name in content}


def by_part(content: Mapping[str, Any], template: str) -> str:
    """Fill ``"{accuracy:.4f}"`` for each part: ``0.9123 (train), 0.9001 (test)``."""
    parts = parts_of(content).items()
    return ", ".join(f"{template.format_map(part)} ({name})" for name, part in parts)


def weight_facts(source: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return facts of the parts: their weights, and that groups are probabilities."""
    weighted = {k: x for k, x in parts_of(source).items() if "weights_from" in x}
    facts = [("weights", by_part(weighted, WEIGHTS))] if weighted else []
    if any("expected" in part for part in parts_of(source).values()):
        facts.append(("groups", EXPECTED))
    return facts


def part_tables(content: Facts, columns: Columns) -> list[ReportTable]:
    """Return a table of the groups in each part; a terminal shows the last one."""
    parts = parts_of(content)
    *_, last = parts
    return [
        ReportTable(f"Groups in the {name} rows", part["groups"], columns, name == last)
        for name, part in reversed(parts.items())
    ]


def history_table(history: Any, name: str = "") -> ReportTable:
    """Return a table of the steps of a solver, from a list of them or from columns.

    Without a history it has no records, and is not shown.
    """
    steps = pandas.DataFrame(history)
    steps.insert(0, "step", range(1, len(steps) + 1))
    return ReportTable(f"History of the solver{name}", steps.to_dict("records"))


def choose_groups(
    groups: NDArray[Any],
) -> tuple[NDArray[np.bool_], NDArray[np.str_], str]:
    """Select the rows of the largest groups, for a figure.

    Returns which rows, short names of their groups, and a remark if any are left out.
    """
    # 1. The largest groups; among equal ones the first by name.
    names, codes, counts = np.unique(groups, return_inverse=True, return_counts=True)
    largest = np.argsort(-counts, kind="stable")[:MAX_FIGURE_GROUPS]
    # 2. Their names on one line of 24 characters: longer ones cover a legend.
    lines = [" ".join(str(name).split()) or "(empty)" for name in names.tolist()]
    short = [line if len(line) <= 24 else f"{line[:21]}..." for line in lines]
    # Names that are alike when they are short are numbered.
    labels = [
        name if short.count(name) == 1 else f"{name} ({i})"
        for i, name in enumerate(short, start=1)
    ]
    remark = ""
    if largest.size < names.size:
        remark = f" The {largest.size} largest of {names.size} groups are shown."
    is_selected = np.isin(codes, largest)
    return is_selected, np.array(labels)[codes[is_selected]], remark


def group_figures(
    parts: Mapping[str, Any],
    plot: Callable[..., object],
    size: tuple[float, float],
    caption: str,
) -> list[ReportFigure]:
    """Return a figure of the groups, for each part of the rows and each attribute.

    They are drawn by ``plot(figure, part=..., selected=..., **roles)``.
    """
    figures = []
    for part, rows in parts.items():
        for attribute, groups in by_attribute(rows.sensitive_features).items():
            selected, names, remark = choose_groups(groups)
            roles = {"sensitive_features": names}
            roles["sample_weight"] = rows.weights_of(selected)
            draw_part = partial(plot, part=part, selected=selected, **roles)
            of_attribute = f" of {attribute}" if attribute else ""
            text = caption.format(part=part, of_attribute=of_attribute) + remark
            figures.append(ReportFigure(draw_part, size, text, text))
    return figures
