"""Run an estimator for a command: its outputs, messages and progress."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

import scalefair
from scalefair.cli._errors import NOT_CONVERGED, Failure, printable, warn
from scalefair.cli._options import translate
from scalefair.cli._output import STDOUT, name_outputs, write_files
from scalefair.cli._report import count_values
from scalefair.files import FileError
from scalefair.files._values import find_source
from scalefair.streaming import RowReader

NEEDS_GROUPS = "Missing option '--groups': MODEL needs the groups."
_FOR_USERS = (UserWarning, RuntimeWarning)
# What is of one file, and not of others that a model is applied to.
_OF_ONE_FILE = {"folder", "memory_limit", "target_header", "groups_header"}
_OF_ONE_FILE |= {"test_file", "test_target", "test_groups", "encoding"}


def on_terminal(quiet: bool | None = None, written: Iterable[Path] = ()) -> bool:
    """Whether progress and a summary are shown: as asked for, else on a terminal."""
    # Nothing is shown on a stdout that takes one of the files `written`.
    if STDOUT in written or sys.stdout is None:
        return False
    return sys.stdout.isatty() if quiet is None else not quiet


def take_outputs(
    options: dict[str, Any], *inputs: Path | str | None, **endings: str
) -> tuple[dict[str, Path], bool]:
    """Take the options about output: files, with their `endings`, and what to show."""
    # Where --baseline is not given it is set: on if anybody sees it.
    given = {
        name: (options.pop(name, None) or options.pop(f"{name}_file", None), ending)
        for name, ending in {**endings, "report": ""}.items()
    }
    roles = ("groups", "target", "test_file", "test_target", "test_groups")
    sources = filter(None, [*inputs, *map(options.get, roles)])
    written = name_outputs(given, (find_source(source)[0] for source in sources))
    show = on_terminal(options.pop("quiet"), written.values())
    if options.get("baseline", False) is None:
        options["baseline"] = show or "report" in written
    return written, show


def finish(
    report: Any,
    written: Mapping[str, Path],
    writers: Mapping[str, Any],
    *,
    show: bool,
    converged: bool = True,
) -> None:
    """Write files, by the names of the options, show the report, end the command."""
    known = {**writers, "report": lambda file: report.write(file, written["report"])}
    write_files({path: known[name] for name, path in written.items()})
    if show:
        report.show(written)
    if not converged:
        click.get_current_context().exit(NOT_CONVERGED)


def fit(
    model: Any, X: Any, *args: Any, path: Path | str, show: bool, **kwargs: Any
) -> float:
    """Return the seconds of ``model.fit(X, *args, **kwargs)``; `path` names `X`."""
    if show and hasattr(model, "set_callbacks"):
        from sklearn.callback import ProgressBar

        model.set_callbacks(ProgressBar())
    start = time.perf_counter()
    with judged(path):
        model.fit(X, *args, **kwargs)
    return time.perf_counter() - start


@contextmanager
def judged(path: Path | str) -> Iterator[None]:
    """Have what an estimator says name options, and its errors the file at `path`."""
    context = click.get_current_context(silent=True)
    with library_warnings():
        try:
            yield
        except FileError:
            raise  # it names the file, and the place
        except FloatingPointError as error:
            told = "the numbers are too large to compute with: divide columns."
            raise Failure(f"{path}: {told}") from error
        except (ImportError, ValueError, TypeError) as error:
            raise Failure(f"{path}: {translate(str(error), context)}") from error


@contextmanager
def library_warnings() -> Iterator[None]:
    """Say each warning that is meant for users once, at the end of the block."""
    context = click.get_current_context(silent=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for_users = (w for w in caught if isinstance(w.message, _FOR_USERS))
    for message in dict.fromkeys(str(warning.message) for warning in for_users):
        warn(translate(message, context))


class _Passes:
    """Counts passes over rows that are read in blocks, and shows how far each is."""

    def __init__(self, name: str, bar: Any) -> None:
        self.n_passes, self._name, self._bar = 0, name, bar
        self._task = bar.add_task("", total=None, visible=False)

    def __call__(self, n_done: int, n_blocks: int) -> None:
        if n_done == 1:
            self.n_passes += 1
            said = f"{self._name}, pass {self.n_passes}"
            self._bar.reset(self._task, total=n_blocks, description=said, visible=True)
        self._bar.update(self._task, completed=n_done)


@contextmanager
def watch_passes(matrices: Mapping[str, Any], *, show: bool) -> Iterator[None]:
    """Count the passes of those matrices that are readers, on a bar if `show`."""
    readers = {name: X for name, X in matrices.items() if isinstance(X, RowReader)}
    if not readers:
        yield
        return
    from rich.markup import escape
    from rich.progress import Progress

    bar = Progress(transient=True, disable=not show)
    with bar if show else nullcontext():  # rich before 14.3 ends all with a blank line
        for name, reader in readers.items():
            reader.progress = _Passes(escape(printable(name)), bar)
        yield


def describe_passes(X: Any) -> dict[str, Any]:
    """How rows were read, if that was in blocks."""
    if not isinstance(X, RowReader):
        return {}
    found = {"read": "in blocks", "n_blocks": len(X)}
    if isinstance(X.progress, _Passes):
        found["n_passes"] = X.progress.n_passes
    return found


def describe(rows: Any, X: Any) -> dict[str, Any]:
    """Say what was read, how, and how many rows each group has."""
    return {
        "rows": str(rows.path),
        **describe_passes(X),
        "n_rows": rows.n_rows,
        "groups_from": rows.groups_from,
        "groups": count_values(getattr(rows, "compared", rows.groups)),
    }


def describe_columns(rows: Any, reading: Any) -> dict[str, Any]:
    """Say what a saved model needs to read other rows as its own were read."""
    options = {k: x for k, x in asdict(reading).items() if k not in _OF_ONE_FILE}
    known = ["words", "n_columns", "has_header", "zero_based", "groups_from", "kinds"]
    return {
        "columns": list(rows.names),
        **{name: getattr(rows, name) for name in known},
        "reading": options | dict.fromkeys(rows.from_files),
        "labels_from": rows.target_from,
        "version": scalefair.__version__,
    }
