"""Output files: whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

import click

from scalefair import _writing
from scalefair.cli._errors import Failure, mark_written

__all__ = ["check_destination", "name_outputs", "write_files", "write_folder"]


def name_outputs(
    given: Mapping[str, tuple[Path | None, str]], inputs: Iterable[Path]
) -> dict[str, Path]:
    """Return the files to be written, after a check that they can be.

    Parameters
    ----------
    given : mapping of str to (Path or None, str)
        For an option, without its hyphens, the file that it names, and how the name
        must end.
    inputs : iterable of Path
        Files that are read and must not be replaced.

    Raises
    ------
    click.UsageError
        If a name ends otherwise, or two options name the same file.
    Failure
        If a file cannot be written, see `check_destination`.
    """
    written: dict[str, Path] = {}
    taken: dict[Path, str] = {}
    for name, (path, extension) in given.items():
        if path is None:
            continue
        if not path.name.lower().endswith(extension):
            raise click.UsageError(
                f"--{name} {path}: the format is {extension}; give a name that ends "
                "in it."
            )
        other = taken.setdefault(Path(os.path.realpath(path)), name)
        if other != name:
            raise click.UsageError(f"--{other} and --{name} name the same file.")
        written[name] = path
    sources = tuple(inputs)
    for path in written.values():
        check_destination(path, inputs=sources)
    return written


def check_destination(path: Path, *, inputs: tuple[Path, ...] = ()) -> None:
    """Refuse, before any work is done, a path that cannot be written later.

    Parameters
    ----------
    path : Path
        File to be written.
    inputs : tuple of Path
        Files that are read and must not be replaced.

    Raises
    ------
    Failure
        If the path is a folder or a device, its folder is missing or cannot be
        written to, or it is one of the inputs.
    """
    if path.is_dir():
        raise Failure(f"{path}: is a folder; give the name of a file to write.")
    if path.exists() and not path.is_file():
        raise Failure(f"{path}: is not a regular file; give another name.")
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise Failure(f"{path}: the folder {folder} does not exist; create it first.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise Failure(
            f"{path}: no permission to write in the folder {folder}; choose another."
        )
    for source in inputs:
        if path.exists() and source.exists() and path.samefile(source):
            raise Failure(f"{path}: is an input file; give another name to write to.")


def write_files(writers: Mapping[Path, Callable[[BinaryIO], object]]) -> None:
    """Write several files of a command, all or none, see `_writing.write_files`."""
    _writing.write_files(writers, mark_written)


def write_folder(
    folder: Path, writers: Mapping[Path, Callable[[BinaryIO], object]]
) -> None:
    """Write files to a folder, as `write_files` does; it is made if it is missing."""
    _writing.write_folder(folder, writers, mark_written)
