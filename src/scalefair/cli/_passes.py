"""Passes over rows that are read in blocks: a count, and a progress bar."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from scalefair.cli._block_files import is_reader
from scalefair.cli._errors import printable

__all__ = ["Passes", "describe_passes", "watch_passes"]


class Passes:
    """Counts passes, and shows how far each has come.

    Parameters
    ----------
    name : str
        What is read.
    bar : rich.progress.Progress or None
        Where it is shown.
    """

    def __init__(self, name: str, bar: Any) -> None:
        self.n_passes = 0
        self._name = name
        self._bar = bar
        self._task: Any = None

    def __call__(self, n_done: int, n_blocks: int) -> None:
        """Take note that a block was read."""
        if n_done == 1:
            self.n_passes += 1
        if self._bar is None:
            return
        said = printable(f"{self._name}, pass {self.n_passes}")
        if self._task is None:
            self._task = self._bar.add_task(said, total=n_blocks)
        elif n_done == 1:
            self._bar.reset(self._task, description=said)
        self._bar.update(self._task, completed=n_done)


@contextmanager
def watch_passes(matrices: dict[str, Any], *, show: bool) -> Iterator[None]:
    """Count the passes of those matrices that are readers.

    Parameters
    ----------
    matrices : dict of str to array or RowReader
        Rows by the name that is shown.
    show : bool
        Whether a progress bar is shown on stdout.
    """
    readers = {name: X for name, X in matrices.items() if is_reader(X)}
    if not (show and readers):
        for name, reader in readers.items():
            reader.progress = Passes(name, None)
        yield
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),  # it is the name of a file
        BarColumn(),
        TextColumn("{task.completed} of {task.total} blocks"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, transient=True) as bar:
        for name, reader in readers.items():
            reader.progress = Passes(name, bar)
        yield


def describe_passes(X: Any) -> dict[str, Any]:
    """How rows were read, if that was in blocks."""
    if not is_reader(X):
        return {}
    found = {"read": "in blocks", "n_blocks": len(X)}
    if isinstance(X.progress, Passes):
        found["n_passes"] = X.progress.n_passes
    return found
