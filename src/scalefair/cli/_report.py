"""What a command found, once: shown as a page of HTML, as JSON, on a terminal."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

import scalefair
from scalefair.cli._errors import messages, printable

if TYPE_CHECKING:
    import pandas

# As many colours as the figures have.
MAX_GROUPS = 7
# Longer names leave no room for the figure.
_MAX_NAME = 24
# Rows of a table on a terminal.
_MAX_ROWS = 20


@dataclass(frozen=True)
class Table:
    """Records, one below the other; for a key the title and the format of its column.

    Without `columns` all keys are titles; those that no record has are left out. A
    title may break where it has a newline. Of records on a `terminal` so many are
    shown at `most`.
    """

    caption: str
    records: Sequence[Mapping[str, Any]]
    columns: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    terminal: bool = False
    most: int = _MAX_ROWS

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

            file.write(render(self).encode())
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
            columns = table.known()
            grid = Grid()
            for _, title, _, of_numbers in columns:
                lines = map(printable, title.split("\n"))
                grid.add_column(
                    Text("\n".join(lines)),
                    justify="right" if of_numbers else "left",
                    no_wrap=of_numbers,
                )
            for record in table.records[: table.most]:
                cells = (
                    as_text(record.get(key, ""), spec) for key, _, spec, _ in columns
                )
                grid.add_row(*(Text(printable(cell)) for cell in cells))
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
    return (
        value if isinstance(value, (bool, int, float, str, type(None))) else str(value)
    )


# What commands have in common.


def describe_run(command: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Say what ran: command, version, parameters; and what it said so far."""
    return {
        "command": command,
        "version": scalefair.__version__,
        "python": platform.python_version(),
        # JSON has no infinity: the word that an option takes.
        "parameters": {
            name: "inf" if isinstance(value, float) and value == math.inf else value
            for name, value in parameters.items()
        },
        "warnings": messages("warning"),
        "notes": messages("note"),
    }


def count_values(values: NDArray[Any]) -> dict[str, int]:
    """How often each value occurs, in sorted order."""
    names, counts = np.unique(values, return_counts=True)
    return {str(n): int(c) for n, c in zip(names, counts, strict=True)}


def group_means(frame: pandas.DataFrame, groups: NDArray[Any]) -> list[dict[str, Any]]:
    """Return the number of rows of each group, and the means of the columns."""
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
    if old == new:
        return f"stays {new}"
    return f"{'falls' if after < before else 'rises'} from {old} to {new}"


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
        Table(
            f"Groups in the {name} rows", part["groups"], columns or {}, terminal=True
        )
        for name, part in parts_of(content).items()
    ]


def drawable_names(names: Iterable[str]) -> list[str]:
    """Short names, all different and none empty, for a figure."""
    found: list[str] = []
    for name in names:
        short = name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 3]}..."
        plain = " ".join(short.split()) or "(empty)"
        candidate, n = plain, 1
        while candidate in found:
            n += 1
            candidate = f"{plain} ({n})"
        found.append(candidate)
    return found


def choose_groups(
    groups: NDArray[Any],
) -> tuple[NDArray[np.intp], NDArray[np.bool_], list[str], str]:
    """Choose the largest groups, at most `MAX_GROUPS`, for a figure.

    Returns the code of each row's group, whether the row is shown, the names of the
    groups shown in the order of their codes, and a remark if some are not.
    """
    found, codes, counts = np.unique(groups, return_inverse=True, return_counts=True)
    kept = np.sort(np.argsort(-counts, kind="stable")[:MAX_GROUPS])
    names = drawable_names(str(name) for name in found[kept].tolist())
    remark = ""
    if kept.size < found.size:
        remark = f" The {kept.size} largest of {found.size} groups are shown."
    return codes, np.isin(codes, kept), names, remark
