"""Output files: whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from scalefair.cli._errors import Failure, mark_written

__all__ = ["check_destination", "write_files"]


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
    """Write several files, then put all of them in place.

    Each file is written under a temporary name in its own folder and renamed when
    all are complete. Whatever happens before, older files stay as they were and
    no temporary file is left.

    Parameters
    ----------
    writers : mapping of Path to callable
        For each file a function that writes its content to an open binary file.
    """
    pending: list[tuple[Path, Path]] = []
    try:
        for path, write in writers.items():
            # The target of a symbolic link is replaced, not the link.
            final = Path(os.path.realpath(path))
            temporary = final.with_name(f".{final.name}.{secrets.token_hex(4)}.tmp")
            pending.append((temporary, final))
            _write(temporary, write, path)
        for temporary, final in pending:
            os.replace(temporary, final)
    finally:
        for temporary, _ in pending:
            temporary.unlink(missing_ok=True)
    mark_written()


def _write(temporary: Path, write: Callable[[BinaryIO], object], path: Path) -> None:
    try:
        with open(temporary, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        # Name the file the user asked for, not the temporary one.
        raise OSError(error.errno, error.strerror, str(path)) from error
