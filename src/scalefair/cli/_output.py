"""Output files: whole or not at all; ``-`` is stdout."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

import click
import pandas

from scalefair import _writing
from scalefair.cli._errors import Failure, mark_written

STDOUT = Path("-")

Writers = Mapping[Path, Callable[[BinaryIO], object]]


def name_outputs(
    given: Mapping[str, tuple[Path | None, str]], inputs: Iterable[Path]
) -> dict[str, Path]:
    """Return the files to be written, after a check that they can be."""
    # `given` has for an option the file that it names (or None) and the end that its
    # name must have; `inputs` are not to be replaced.
    written: dict[str, Path] = {}
    taken: dict[Path, str] = {}
    sources = tuple(inputs)
    for name, (path, extension) in given.items():
        if path is None:
            continue
        if path == STDOUT and extension and sys.stdout.isatty():
            raise click.UsageError(f"--{name} -: a terminal does not show {extension}.")
        if path != STDOUT and not path.name.lower().endswith(extension):
            raise click.UsageError(f"--{name} {path}: must end in {extension}.")
        other = taken.setdefault(Path(os.path.realpath(path)), name)
        if other != name:
            raise click.UsageError(f"--{other} and --{name} name the same file.")
        written[name] = path
        if path != STDOUT:
            check_destination(path, inputs=sources)
    return written


def check_destination(path: Path, *, inputs: tuple[Path, ...] = ()) -> None:
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


def check_folder(folder: Path, names: Iterable[str]) -> list[Path]:
    """Return the files to be written to a folder, after a check that they can be."""
    if folder.exists() and not folder.is_dir():
        raise Failure(f"{folder}: is not a folder; choose another --output-dir.")
    paths = [folder / name for name in names]
    for path in paths if folder.is_dir() else [folder]:
        check_destination(path)
    return paths


def write_files(writers: Writers) -> None:
    """Write several files of a command, all or none; what goes to stdout comes last."""
    files = dict(writers)
    show = files.pop(STDOUT, None)
    with tempfile.TemporaryFile() as shown:
        if show is not None:
            show(cast("BinaryIO", shown))
        _writing.write_files(files, mark_written)
        if show is not None:
            shown.seek(0)
            shutil.copyfileobj(shown, sys.stdout.buffer)


def write_folder(folder: Path, writers: Writers) -> None:
    """Write files to a folder, as `write_files` does; it is made if it is missing."""
    _writing.write_folder(folder, writers, mark_written)


def write_table(file: BinaryIO, columns: Mapping[str, Any]) -> None:
    """Write arrays or a frame as csv below a header, in UTF-8; the file stays open."""
    frame = pandas.DataFrame(columns)
    frame.to_csv(file, index=False, lineterminator="\n", encoding="utf-8")
