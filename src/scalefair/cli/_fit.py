"""Run an estimator for a command: its outputs, messages, progress, memory."""

from __future__ import annotations

import re
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from scalefair._memory import available_memory
from scalefair.cli._errors import NOT_CONVERGED, Failure, printable, warn
from scalefair.cli._options import translate
from scalefair.cli._output import STDOUT, Writers, name_outputs, write_files

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
# Where the system does not tell how much memory there is.
_LIMIT = 2**31


def on_terminal(quiet: bool | None = None, written: Iterable[Path] = ()) -> bool:
    """Whether progress and a summary are shown: as asked for, else on a terminal.

    Nothing is shown on a stdout that takes one of the files `written`.
    """
    if STDOUT in written or sys.stdout is None:
        return False
    return sys.stdout.isatty() if quiet is None else not quiet


def take_outputs(
    options: dict[str, Any], *inputs: Path | str | None, **endings: str
) -> tuple[dict[str, Path], bool]:
    """Take the options about output: the files to write, and whether to show more.

    `endings` has for an option how its file must end. Where --baseline is not given
    it is set: on if anybody sees it.
    """
    given = {
        name: (options.pop(name, None) or options.pop(f"{name}_file", None), ending)
        for name, ending in {**endings, "report": ""}.items()
    }
    roles = ("groups", "target", "test_file", "test_target", "test_groups")
    sources = filter(None, [*inputs, *map(options.get, roles)])
    written = name_outputs(given, map(Path, sources))
    show = on_terminal(options.pop("quiet"), written.values())
    if options.get("baseline", False) is None:
        options["baseline"] = show or "report" in written
    return written, show


def write_outputs(
    report: Any, written: Mapping[str, Path], writers: Mapping[str, Any]
) -> None:
    """Write the files of a command, by the names of the options, and its report."""
    known = {**writers, "report": lambda file: report.write(file, written["report"])}
    files: Writers = {path: known[name] for name, path in written.items()}
    write_files(files)


def finish(
    report: Any,
    written: Mapping[str, Path],
    writers: Mapping[str, Any],
    *,
    show: bool,
    converged: bool = True,
) -> None:
    """Write the files of a command, show its report, end with the exit code."""
    write_outputs(report, written, writers)
    if show:
        report.show(written)
    if not converged:
        click.get_current_context().exit(NOT_CONVERGED)


def fit(
    model: Any, X: Any, *args: Any, path: Path | str, show: bool, **kwargs: Any
) -> float:
    """Return the seconds of ``model.fit(X, *args, **kwargs)``; `path` names `X`."""
    from scalefair.files import FileError  # not for --help

    if show and hasattr(model, "set_callbacks"):
        from sklearn.callback import ProgressBar

        model.set_callbacks(ProgressBar())
    context = click.get_current_context(silent=True)
    with library_warnings():
        start = time.perf_counter()
        try:
            model.fit(X, *args, **kwargs)
        except FileError:
            raise  # it names the file, and the place
        except FloatingPointError as error:
            raise Failure(
                f"{path}: the numbers are too large to compute with: divide columns "
                "by constants."
            ) from error
        except (ValueError, TypeError) as error:
            raise Failure(f"{path}: {translate(str(error), context)}") from error
        return time.perf_counter() - start


@contextmanager
def library_warnings() -> Iterator[None]:
    """Say each warning that is meant for users once, at the end of the block."""
    context = click.get_current_context(silent=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    found = dict.fromkeys(
        translate(str(warning.message), context)
        for warning in caught
        if issubclass(warning.category, (UserWarning, RuntimeWarning))
    )
    for message in found:
        warn(message)


class _Passes:
    """Counts passes over rows that are read in blocks, and shows how far each is."""

    def __init__(self, name: str, bar: Any) -> None:
        self.n_passes = 0
        self._name = printable(name)
        self._bar = bar
        self._task = bar.add_task("", total=None, visible=False)

    def __call__(self, n_done: int, n_blocks: int) -> None:
        """Take note that a block was read."""
        if n_done == 1:
            self.n_passes += 1
            said = f"{self._name}, pass {self.n_passes}"
            self._bar.reset(self._task, total=n_blocks, description=said, visible=True)
        self._bar.update(self._task, completed=n_done)


@contextmanager
def watch_passes(matrices: Mapping[str, Any], *, show: bool) -> Iterator[None]:
    """Count the passes of those matrices that are readers, on a bar if `show`."""
    from scalefair.streaming import RowReader

    readers = {name: X for name, X in matrices.items() if isinstance(X, RowReader)}
    if not readers:
        yield
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),  # it is the name of a file
        BarColumn(),
        TextColumn("{task.completed} of {task.total} blocks"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, transient=True, disable=not show) as bar:
        for name, reader in readers.items():
            reader.progress = _Passes(name, bar)
        yield


def describe_passes(X: Any) -> dict[str, Any]:
    """How rows were read, if that was in blocks."""
    from scalefair.streaming import RowReader

    if not isinstance(X, RowReader):
        return {}
    found = {"read": "in blocks", "n_blocks": len(X)}
    if isinstance(X.progress, _Passes):
        found["n_passes"] = X.progress.n_passes
    return found


def array_limit(given: int | None) -> int:
    """Bytes above which rows are read in blocks: as given, else half of the memory."""
    if given is not None:
        return given
    free = available_memory()
    return _LIMIT if free is None else free // 2


def reset_peak_memory() -> bool:
    """Start a new measurement where the system can (Linux); return whether it did."""
    try:
        _CLEAR.write_text("5")  # resets the resident set's high-water mark
    except OSError:
        return False
    return True


def peak_memory() -> int | None:
    """Largest resident memory of the process in bytes; None if it is not known."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", _STATUS.read_text())
    except OSError:
        found = None
    if found is not None:
        return int(found[1]) * 1024
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
