"""What a command found, once: as a page of HTML, as JSON, on a terminal."""

from __future__ import annotations

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
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas
from numpy.typing import NDArray

import scalefair
from scalefair.cli._errors import messages, printable, warn

MAX_GROUPS = 7  # as many colours as the figures have
_MAX_NAME = 24  # longer ones leave no room for the figure
_MAX_SVG = 300_000  # bytes above which pixels are smaller than lines
# Not allowed in HTML, not even escaped.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True)
class Table:
    """Records, with titles and formats of columns that any has; else of all keys."""

    caption: str
    records: Sequence[Mapping[str, Any]]
    columns: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    terminal: bool = False  # shown there as well
    most: int = 20  # records on a terminal

    def known(self) -> list[tuple[str, str, str, bool]]:
        """Key, title and format of each column, and whether it holds numbers."""
        keys = dict.fromkeys(key for record in self.records for key in record)
        columns = {key: (key.replace("_", "\n"), "") for key in keys}
        return [
            (key, title, spec, any(is_number(record.get(key)) for record in having))
            for key, (title, spec) in (self.columns or columns).items()
            if (having := [record for record in self.records if key in record])
        ]


@dataclass(frozen=True)
class Figure:
    """What `plot` draws on a matplotlib Figure of a size in inches; `alt` says it."""

    plot: Callable[[Any], object]
    size: tuple[float, float]
    alt: str
    caption: str


@dataclass
class Report:
    """What a command found: `content` for JSON, `facts` and `tables` for a page."""

    command: str
    content: dict[str, Any]
    title: str
    source: str = ""
    facts: list[tuple[str, str]] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)

    def write(self, file: BinaryIO, path: Path) -> None:
        """Write a page of HTML if the name ends in .html, else strict JSON."""
        if path.suffix.lower() == ".html":
            text = _render(self)
        else:
            content = as_python(self.content)
            text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        # Bytes of a file name that are no text are escaped as JSON does it.
        file.write(f"{text}\n".encode(errors="backslashreplace"))

    def show(self, written: Mapping[str, Path]) -> None:
        """Print the tables for a terminal, the facts, and the files written."""
        from rich.console import Console
        from rich.table import Table as Grid
        from rich.text import Text

        console = Console()
        for table in [t for t in self.tables if t.terminal and t.records]:
            grid, columns = Grid(), table.known()
            for _, title, _, of_numbers in columns:
                head = Text("\n".join(map(printable, title.split("\n"))))
                side: Any = "right" if of_numbers else "left"
                grid.add_column(head, justify=side, no_wrap=of_numbers)
            for record in table.records[: table.most]:
                values = ((record.get(key, ""), spec) for key, _, spec, _ in columns)
                grid.add_row(*(Text(printable(as_text(*value))) for value in values))
            if (more := len(table.records) - table.most) > 0:
                grid.add_row(f"... {more:,} more")
            console.print(Text(printable(table.caption)), grid)
        files = [(name, str(path)) for name, path in written.items()]
        grid = Grid(show_header=False, box=None, padding=(0, 2, 0, 0))
        grid.add_column()
        grid.add_column(overflow="fold")  # names of files are to be copied
        for name, value in [*self.facts, *files]:
            grid.add_row(Text(printable(name)), Text(printable(value)))
        console.print(grid)


def is_number(value: Any) -> bool:
    """Whether a value is a finite number, of Python or NumPy."""
    if isinstance(value, (float, np.floating)):
        return math.isfinite(value)
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


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
    """Return what JSON knows: dicts, lists, texts, numbers, and None for NaN."""
    if isinstance(value, Mapping):
        return {str(key): as_python(item) for key, item in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [as_python(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    known = isinstance(value, (bool, int, float, str, type(None)))
    return value if known else str(value)


def _render(report: Report) -> str:
    """Return the report as one page of HTML that loads and runs nothing."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("scalefair.cli", ".")
    blocks = {"trim_blocks": True, "lstrip_blocks": True}
    strict = {"autoescape": True, "undefined": StrictUndefined}
    environment = Environment(loader=loader, **blocks, **strict)  # type: ignore[arg-type]
    environment.filters |= {"text": as_text, "digits": lambda v: repr(as_python(v))}
    environment.tests["a_number"] = is_number
    content = as_python(report.content)
    page = environment.get_template("page.html").render(
        report=report,
        alerts=[(name, content.pop(name, [])) for name in ("warnings", "notes")],
        pictures=list(_draw(report.figures)),
        run=list(_describe(content)),
    )
    return _CONTROLS.sub("\ufffd", page)


def _describe(content: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each part of the report, names with their values, and its histories."""
    alone = {k: v for k, v in content.items() if k == "history" or type(v) is not dict}
    parts = {k: v for k, v in content.items() if k not in alone}
    for name, part in {**parts, "other values": alone}.items():
        found = list(_walk(part))
        if facts := [fact for fact in found if not isinstance(fact[1], Table)]:
            yield name.replace("_", " ").capitalize(), facts
        yield from (fact for fact in found if isinstance(fact[1], Table))


def _walk(facts: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all but records, which have their tables; a history as a table."""
    for name, value in facts.items():
        if name == "history" and (steps := _steps(value)):
            columns = {key: (key, "") for step in steps for key in step}
            where = f", {above.rstrip(': ')}" if above else ""
            yield name, Table(f"History of the solver{where}", steps, columns)
        elif isinstance(value, dict):
            yield from _walk(value, f"{above}{name}: ")
        elif not (isinstance(value, list) and any(type(v) is dict for v in value)):
            yield f"{above}{name}", value


def _steps(history: Any) -> list[dict[str, Any]]:
    """Return the steps of a history, which is a list of them, or of columns."""
    if isinstance(history, dict) and len({len(c) for c in history.values()}) == 1:
        rows = zip(*history.values(), strict=True)
        history = [dict(zip(history, row, strict=True)) for row in rows]
    steps = history if isinstance(history, list) else []
    records = [step for step in steps if isinstance(step, dict)]
    return [{"step": i, **step} for i, step in enumerate(records, start=1)]


def _draw(figures: list[Figure]) -> Iterator[dict[str, str]]:
    """Yield pictures, and what is said of those that fail; results survive that."""
    if figures and find_spec("matplotlib") is None:
        yield {"text": 'Figures need matplotlib: pip install "scalefair[plot]".'}
        return
    for figure in figures:
        try:
            yield {"src": _picture(figure), "alt": figure.alt, "text": figure.caption}
        except Exception as error:
            message = f"a figure could not be drawn: {type(error).__name__}: {error}"
            warn(message)
            yield {"text": f"{message} ({figure.caption})"}


def _picture(drawn: Figure) -> str:
    """Return the address of a picture that the page holds."""
    file, media_type = io.BytesIO(), "svg+xml"
    draw(drawn, file, format="svg", metadata={"Date": None})
    if file.tell() > _MAX_SVG:
        file, media_type = io.BytesIO(), "png"
        draw(drawn, file)
    encoded = base64.b64encode(file.getvalue()).decode()
    return f"data:image/{media_type};base64,{encoded}"


def draw(drawn: Figure, file: BinaryIO, **how: Any) -> None:
    """Draw a figure to a file, as png unless told otherwise."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    # The same report gives the same bytes.
    salted = matplotlib.rc_context({"svg.hashsalt": "scalefair"})
    with salted, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # letters that the font has not
        figure = Canvas(figsize=drawn.size, layout="constrained")
        drawn.plot(figure)
        figure.savefig(file, **{"format": "png", "dpi": 150, **how})


# What commands have in common.

GROUP_COLUMNS = {"attribute": ("attribute", ""), "group": ("group", "")}
GROUP_COLUMNS["n_rows"] = "rows", ",d"


def describe_run(command: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Say what ran: command, version, parameters; and what it said so far."""
    # JSON has no infinity: the word that an option takes.
    infinite = {k: "inf" for k, v in parameters.items() if v == math.inf}
    return {
        "command": command,
        "version": scalefair.__version__,
        "python": platform.python_version(),
        "parameters": {**parameters, **infinite},
        "warnings": messages("warning"),
        "notes": messages("note"),
    }


def by_attribute(groups: Any) -> dict[str, NDArray[Any]]:
    """Return groups by the name of their attribute; those of one, or joint, by none."""
    if not isinstance(groups, pandas.DataFrame):
        return {"": groups}
    return {str(name): groups[name].to_numpy() for name in groups}


def count_values(values: Any) -> dict[str, Any]:
    """How often each value occurs, in sorted order; for each attribute if several."""
    if isinstance(values, pandas.DataFrame):
        return {k: count_values(own) for k, own in by_attribute(values).items()}
    names, counts = np.unique(values, return_counts=True)
    return {str(n): int(c) for n, c in zip(names, counts, strict=True)}


def group_means(frame: pandas.DataFrame, groups: Any) -> list[dict[str, Any]]:
    """Return the number of rows of each group, and the means of the columns."""
    if isinstance(groups, pandas.DataFrame):
        return [
            {"attribute": name, **record}
            for name, own in by_attribute(groups).items()
            for record in group_means(frame, own)
        ]
    by_group = frame.groupby(groups)
    table = by_group.mean()
    table.insert(0, "n_rows", by_group.size())
    table.insert(0, "group", table.index.astype(str))
    records: list[dict[str, Any]] = table.to_dict("records")
    return records


def fill(templates: Mapping[str, str], values: Mapping[str, Any]) -> list[Any]:
    """Return facts, by their titles, of which all values are known."""
    facts = []
    for title, template in templates.items():
        with suppress(KeyError):
            facts.append((title, template.format_map(values)))
    return facts


def change(before: float, after: float) -> str:
    """Return in words how a number changes."""
    old, new = f"{before:.3g}", f"{after:.3g}"
    verb = "falls" if after < before else "rises"
    return f"stays {new}" if old == new else f"{verb} from {old} to {new}"


def iterations(n_iter: int) -> str:
    """Return how many iterations there were."""
    return "1 iteration" if n_iter == 1 else f"{n_iter:,} iterations"


def parts_of(content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what was measured on the train rows, and on the test rows if any."""
    return {name: content[name] for name in ("train", "test") if name in content}


def by_part(content: Mapping[str, Any], template: str) -> str:
    """Fill ``"{accuracy:.4f}"`` for each part: ``0.9123 (train), 0.9001 (test)``."""
    found = parts_of(content).items()
    return ", ".join(f"{template.format_map(part)} ({name})" for name, part in found)


def part_tables(
    content: Mapping[str, Any], columns: Mapping[str, tuple[str, str]] | None = None
) -> list[Table]:
    """Return a table of the groups in each part."""
    return [
        Table(f"Groups in the {name} rows", part["groups"], columns or {}, True)
        for name, part in parts_of(content).items()
    ]


def choose_groups(
    groups: NDArray[Any],
) -> tuple[NDArray[np.bool_], NDArray[np.str_], str]:
    """Return rows of the `MAX_GROUPS` largest groups, short names, and a remark."""
    found, codes, counts = np.unique(groups, return_inverse=True, return_counts=True)
    kept = np.argsort(-counts, kind="stable")[:MAX_GROUPS]
    plain = [" ".join(str(name).split()) or "(empty)" for name in found.tolist()]
    short = [n if len(n) <= _MAX_NAME else f"{n[: _MAX_NAME - 3]}..." for n in plain]
    numbered = enumerate(short, start=1)
    names = [n if short.count(n) == 1 else f"{n} ({i})" for i, n in numbered]
    remark = f" The {kept.size} largest of {found.size} groups are shown."
    shown = np.isin(codes, kept)
    return shown, np.array(names)[codes[shown]], remark * (kept.size < found.size)
