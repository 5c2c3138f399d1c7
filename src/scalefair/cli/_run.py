"""A run of a command: it checks its outputs, fits an estimator, and writes files.

Each command takes its outputs first (`take_outputs`), so that no work is lost to a file
that cannot be written; it fits inside `estimator_errors`, which speak of options; and
it ends with `finish`, which writes all files or none.
"""

import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, cast

import click
import pandas

import scalefair
from scalefair import _writing
from scalefair.cli._encoder import describe_passes
from scalefair.cli._errors import (
    NOT_CONVERGED,
    Failure,
    mark_written,
    translate,
    warn,
)
from scalefair.cli._options import ROLES
from scalefair.cli._report import EXPECTED, Facts, count_groups
from scalefair.files import FileError
from scalefair.files._values import find_source

NEEDS_GROUPS = "Missing option '--groups': MODEL needs the groups."
STDOUT = Path("-")
# Options about one file, which do not hold for others that a model is applied to: a
# saved model does not keep them.
_OPTIONS_OF_ONE_FILE = {"folder", "memory_limit", "target_header", "groups_header"}
_OPTIONS_OF_ONE_FILE |= {"encoding", "test_file", "test_target", "test_groups"}
_OPTIONS_OF_ONE_FILE |= {"weight", "weight_header", "test_weight"}
# By path, a function that writes the content to the open file.
Writers = Mapping[Path, Callable[[BinaryIO], object]]


# --- Outputs -------------------------------------------------------------------------


def take_outputs(
    options: dict[str, Any], *inputs: Path | str | None, **endings: str
) -> tuple[dict[str, Path], bool]:
    """Take the options about output; return the files, and whether to show a summary.

    `endings` has the options that name files, and how the names must end. All are
    checked before any work is done.
    """
    # 1. The files that are read, which must not be written.
    roles = [*ROLES, "group_probabilities"]
    roles += ["test_file", *(f"test_{role}" for role in ROLES)]
    named = filter(None, [*inputs, *map(options.get, roles)])
    sources = [find_source(source)[0] for source in named]
    # 2. The files to be written, by option.
    files: dict[str, Path] = {}
    options_by_file: dict[Path, str] = {}
    for name, ending in {**endings, "report": ""}.items():
        path = options.pop(name, None) or options.pop(f"{name}_file", None)
        if path is None:
            continue
        if path == STDOUT and ending and sys.stdout.isatty():
            raise click.UsageError(f"--{name} -: a terminal does not show {ending}.")
        if path != STDOUT and not path.name.lower().endswith(ending):
            raise click.UsageError(f"--{name} {path}: must end in {ending}.")
        # Two names may be one file, through a link or another spelling.
        other = options_by_file.setdefault(Path(os.path.realpath(path)), name)
        if other != name:
            raise click.UsageError(f"--{other} and --{name} name the same file.")
        files[name] = path
        if path != STDOUT:
            check_destination(path, sources)
    # 3. Without an option the baseline is computed if the user sees it.
    show = on_terminal(options.pop("quiet", None), files.values())
    if options.get("baseline", False) is None:
        options["baseline"] = show or "report" in files
    return files, show


def on_terminal(quiet: bool | None = None, outputs: Iterable[Path] = ()) -> bool:
    """Return whether to show progress: as the option says, else on a terminal only."""
    # A stdout that takes an output takes nothing else.
    if STDOUT in outputs or sys.stdout is None:
        return False
    return sys.stdout.isatty() if quiet is None else not quiet


def check_folder(folder: Path, names: Iterable[str]) -> list[Path]:
    """Return the paths of files in a folder, after a check that they can be written."""
    if folder.exists() and not folder.is_dir():
        raise Failure(f"{folder}: is not a folder; choose another --output-dir.")
    paths = [folder / name for name in names]
    # A folder that is to be made is checked as a file would be: by its own folder.
    for path in paths if folder.is_dir() else [folder]:
        check_destination(path)
    return paths


def check_destination(path: Path, inputs: Iterable[Path] = ()) -> None:
    """Refuse, before any work is done, a path that cannot be written later."""
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "not a regular file"
        raise Failure(f"{path}: is {kind}; give the name of a file to write.")
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise Failure(f"{path}: the folder {folder} does not exist; create it first.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise Failure(f"{path}: no permission to write in {folder}; choose another.")
    if path.exists() and any(s.exists() and path.samefile(s) for s in inputs):
        raise Failure(f"{path}: is an input file; give another name to write to.")


def finish(
    report: Any,
    outputs: Mapping[str, Path],
    writers: Mapping[str, Any],
    *,
    show: bool,
    converged: bool = True,
) -> None:
    """Write the files, with `writers` by option, show the report, end the command.

    The options that were used are the keys of `outputs`. Results of a solver that has
    not converged are written, too, and the exit code says so.
    """
    files = {outputs[name]: write for name, write in writers.items() if name in outputs}
    if "report" in outputs:
        path = outputs["report"]
        files[path] = lambda file: report.write(file, path)
    write_files(files)
    if show:
        report.show(outputs)
    if not converged:
        click.get_current_context().exit(NOT_CONVERGED)


def write_files(writers: Writers) -> None:
    """Write the files of a command, all or none; the one for stdout comes last."""
    files = dict(writers)
    write_stdout = files.pop(STDOUT, None)
    # What goes to stdout is written to a buffer first, as it cannot be taken back if
    # one of the files fails.
    with tempfile.TemporaryFile() as buffer:
        if write_stdout is not None:
            write_stdout(cast("BinaryIO", buffer))
        _writing.write_files(files, mark_written)
        buffer.seek(0)
        if write_stdout is not None:
            shutil.copyfileobj(buffer, sys.stdout.buffer)


def write_folder(folder: Path, writers: Writers) -> None:
    """Write files to a folder, all or none; it is made if it is missing."""
    _writing.write_folder(folder, writers, mark_written)


def write_table(file: BinaryIO, columns: Mapping[str, Any]) -> None:
    """Write arrays or a frame as csv below a header, in UTF-8."""
    frame = pandas.DataFrame(columns)
    frame.to_csv(file, index=False, lineterminator="\n", encoding="utf-8")


# --- Estimators ----------------------------------------------------------------------


def fit(model: Any, X: Any, *, path: Path | str, show: bool, **roles: Any) -> float:
    """Fit a model and return the seconds it took; `path` is the source of `X`."""
    if show and hasattr(model, "set_callbacks"):  # of iterative estimators
        from sklearn.callback import ProgressBar

        model.set_callbacks(ProgressBar())
    start = time.perf_counter()
    with estimator_errors(path):
        model.fit(X, **roles)
    return time.perf_counter() - start


@contextmanager
def estimator_errors(path: Path | str) -> Iterator[None]:
    """Turn errors of an estimator into Failures that name the file, and options."""
    with library_warnings():
        try:
            yield
        except FileError:
            raise  # it names the file, and the line
        except FloatingPointError as error:
            raise Failure(
                f"{path}: the numbers are too large to compute with: divide columns."
            ) from error
        except (ImportError, ValueError, TypeError) as error:
            raise Failure(f"{path}: {translate(str(error))}") from error


@contextmanager
def library_warnings() -> Iterator[None]:
    """Print the warnings for users at the end of the block, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    # Each text once, in order. Other warnings, as of deprecation, are for developers.
    texts = dict.fromkeys(
        str(warning.message)
        for warning in caught
        if isinstance(warning.message, (UserWarning, RuntimeWarning))
    )
    for text in texts:
        warn(translate(text))


# --- What reports and saved models say of rows ---------------------------------------


def describe_rows(rows: Any, X: Any) -> Facts:
    """Return what a report says of rows and of their features."""
    return {
        "rows": str(rows.path),
        **describe_passes(X),
        "n_rows": rows.n_rows,
        "groups_from": rows.sources.get("groups", ""),
        "groups": count_groups(rows),
        **describe_weights(rows),
    }


def describe_weights(rows: Any) -> Facts:
    """Return where weights are from, and their effective number of rows.

    Also that counts of groups are expected ones, where groups are probabilities.
    """
    facts: Facts = {"expected": EXPECTED} if rows.is_uncertain else {}
    if rows.weight is not None:
        facts["weights_from"] = rows.sources["weight"]
        facts["effective_rows"] = rows.effective_size()
    return facts


def describe_columns(rows: Any, options: Any) -> Facts:
    """Return what a saved model needs to read other rows as its own were read."""
    # Roles that were in files of their own have none for other rows.
    kept = {k: v for k, v in asdict(options).items() if k not in _OPTIONS_OF_ONE_FILE}
    return {
        "columns": list(rows.names),
        "words": rows.string_columns,
        "n_columns": rows.n_columns,
        "has_header": rows.has_header,
        "zero_based": rows.zero_based,
        "groups_from": rows.sources.get("groups", ""),
        "kinds": rows.kinds,
        "reading": kept | dict.fromkeys(rows.from_files),
        "labels_from": rows.sources.get("target", ""),
        "version": scalefair.__version__,
    }
