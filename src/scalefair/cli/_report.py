"""What a command found, once: shown as a page of HTML, as JSON, on a terminal."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

import scalefair
from scalefair.cli._errors import messages, printable

MAX_GROUPS = 7  # as many colours as the figures have
_MAX_NAME = 24  # longer ones leave no room for the figure


@dataclass(frozen=True)
class Table:
    """Records; for each key the title and the format of its column.

    Keys that no record has are left out. A `terminal` shows at `most` so many records.
    """

    caption: str
    records: Sequence[Mapping[str, Any]]
    columns: Mapping[str, tuple[str, str]]
    terminal: bool = False
    most: int = 20

    def known(self) -> list[tuple[str, str, str, bool]]:
        """Key, title and format of each column, and whether it holds numbers."""
        return [
            (key, title, spec, any(is_number(record.get(key)) for record in having))
            for key, (title, spec) in self.columns.items()
            if (having := [record for record in self.records if key in record])
        ]


@dataclass(frozen=True)
class Figure:
    """What `plot` draws on a matplotlib Figure of this size, in inches.

    `alt` says what can be seen, for those who cannot; `caption` is the line below.
    """

    plot: Callable[[Any], object]
    size: tuple[float, float]
    alt: str
    caption: str


@dataclass
class Report:
    """What a command found; it fills this and hands it over.

    `content` is what JSON holds, and a page after `facts` and `tables`; `title` the
    finding in words, `source` the file, `remarks` what is said beside the figures.
    """

    command: str
    content: dict[str, Any]
    title: str
    source: str = ""
    facts: list[tuple[str, str]] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def write(self, file: BinaryIO, path: Path) -> None:
        """Write a page of HTML if the name ends in .html, else strict JSON."""
        if path.suffix.lower() == ".html":
            from scalefair.cli._page import render

            text = render(self)
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
        for table in self.tables:
            if not (table.terminal and table.records):
                continue
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


def count_values(values: NDArray[Any]) -> dict[str, int]:
    """How often each value occurs, in sorted order."""
    names, counts = np.unique(values, return_counts=True)
    return {str(n): int(c) for n, c in zip(names, counts, strict=True)}


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
    content: Mapping[str, Any], columns: Mapping[str, tuple[str, str]]
) -> list[Table]:
    """Return a table of the groups in each part."""
    return [
        Table(f"Groups in the {name} rows", part["groups"], columns, terminal=True)
        for name, part in parts_of(content).items()
    ]


def drawable_names(names: Iterable[str]) -> list[str]:
    """Short names, all different and none empty, for a figure."""
    plain = [" ".join(name.split()) or "(empty)" for name in names]
    short = [n if len(n) <= _MAX_NAME else f"{n[: _MAX_NAME - 3]}..." for n in plain]
    numbered = enumerate(short, start=1)
    return [n if short.count(n) == 1 else f"{n} ({i})" for i, n in numbered]


def choose_groups(
    groups: NDArray[Any],
) -> tuple[NDArray[np.intp], NDArray[np.bool_], list[str], str]:
    """Choose the largest groups, at most `MAX_GROUPS`, for a figure.

    Returns the codes of the rows' groups, which rows are shown, the names of the groups
    shown in the order of their codes, and a remark if some are not.
    """
    found, codes, counts = np.unique(groups, return_inverse=True, return_counts=True)
    kept = np.sort(np.argsort(-counts, kind="stable")[:MAX_GROUPS])
    names = drawable_names(str(name) for name in found[kept].tolist())
    remark = f" The {kept.size} largest of {found.size} groups are shown."
    return codes, np.isin(codes, kept), names, remark * (kept.size < found.size)
