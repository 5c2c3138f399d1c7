"""What the commands of the tables share: options, messages, and where they write."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from _layout import Table


class Command:
    """A command line with `--output` and `--quick`, and what it has to say.

    Tables are written as soon as they are there: a long run can be interrupted.
    """

    def __init__(self, description: str | None) -> None:
        self.parser = argparse.ArgumentParser(
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.option = self.parser.add_argument
        self.option("--output", type=Path, help="markdown file to write")
        self.option("--quick", action="store_true", help="tiny sizes, seconds")
        self.skipped: list[str] = []

    def parse(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """Parse, and check that the output has a folder."""
        self.options = self.parser.parse_args(arguments)
        output = self.options.output
        if output and not output.absolute().parent.is_dir():
            self.parser.error(f"there is no folder {output.parent} for --output")
        return self.options

    def skip(self, remark: object) -> None:
        """Remember what was left out, and why."""
        self.skipped.append(f"- Skipped: {remark}")

    def write(
        self, tables: Iterable[Table], last: bool = False, head: str = ""
    ) -> None:
        """Write to the file or, when the last table is made, to standard output."""
        parts = [head, *(table.markdown() for table in tables), *self.skipped]
        text = "\n".join(part for part in parts if part)
        if self.options.output:
            self.options.output.write_text(text, encoding="utf-8")
        elif last:
            print(text)


def progress(label: str, seconds: float) -> None:
    """Say what has been run, on standard error."""
    print(f"{label}: {seconds:.2f} s", file=sys.stderr, flush=True)


def among(allowed: Iterable[str], comma: str = ",") -> Callable[[str], list[str]]:
    """Type of an option: some of the known names, with commas or others between."""
    allowed = list(allowed)

    def names(text: str) -> list[str]:
        chosen = text.split(comma)
        if unknown := [name for name in chosen if name not in allowed]:
            raise argparse.ArgumentTypeError(f"{unknown} not among {allowed}")
        return chosen

    return names


def at_least(minimum: int) -> Callable[[str], int]:
    """Type of an option: a number of things."""

    def count(text: str) -> int:
        if not text.isdigit() or int(text) < minimum:
            raise argparse.ArgumentTypeError(f"{text!r} is not at least {minimum}")
        return int(text)

    return count


def data_file(folder: str, name: str) -> Path:
    """File of the data, in the folder that the environment names."""
    root = os.environ.get("SCALEFAIR_DATA")
    path = Path(root or ".") / folder / name
    if not root or not path.is_file():
        raise FileNotFoundError(
            f"{folder}/{name} not found: name the folder that holds {folder} in the "
            "environment variable SCALEFAIR_DATA."
        )
    return path
