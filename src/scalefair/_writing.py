"""Files that are written completely or not at all."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

# Held while files get their names, and by a thread that ends the process.
RENAMING = threading.RLock()
# Temporary files, and folders made for files that do not have their names yet.
_unfinished: list[Path] = []


def write_files(
    writers: Mapping[Path, Callable[[BinaryIO], object]],
    finished: Callable[[], object] = lambda: None,
) -> None:
    """Write several files, rename all when they are complete, then call `finished`.

    If a file cannot be written the older files stay. A file that replaces an older one
    gets its owner and permissions; of a link the target is replaced.
    """
    pending: list[tuple[Path, Path]] = []
    try:
        for path, write in writers.items():
            final = Path(os.path.realpath(path))
            # The name of the file, with a suffix, might be too long.
            temporary = final.with_name(f".scalefair.{secrets.token_hex(8)}.tmp")
            _unfinished.append(temporary)
            pending.append((temporary, final))
            with _error_names(path, temporary):
                _write(temporary, final, write)
        with RENAMING:
            for (temporary, final), path in zip(pending, writers, strict=True):
                with _error_names(path, temporary):
                    os.replace(temporary, final)
            finished()
    finally:
        for temporary, _ in pending:
            temporary.unlink(missing_ok=True)
            _unfinished.remove(temporary)


def write_folder(
    folder: Path,
    writers: Mapping[Path, Callable[[BinaryIO], object]],
    finished: Callable[[], object] = lambda: None,
) -> None:
    """Write files to a folder, as `write_files` does; it is made if it is missing."""
    if folder.is_dir():
        return write_files(writers, finished)
    _unfinished.append(folder)
    try:
        folder.mkdir()
        write_files(writers, finished)
    except BaseException:  # an interrupt as well
        with suppress(OSError):
            folder.rmdir()
        raise
    finally:
        _unfinished.remove(folder)


def remove_unfinished() -> None:
    """Remove temporary files and empty folders, before the process is ended."""
    for path in reversed(_unfinished):
        with suppress(OSError):
            path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)


def _write(temporary: Path, final: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a temporary file, with the permissions of the file that it replaces."""
    try:
        older = final.stat()
    except FileNotFoundError:
        older = None
    # Private until it has the permissions of the older file: nobody else may read it.
    opener = partial(os.open, mode=0o600) if older else None
    with open(temporary, "xb", opener=opener) as file:
        if older is not None:
            _copy_owner(older, temporary)
        write(file)
        file.flush()
        os.fsync(file.fileno())


def _copy_owner(older: os.stat_result, path: Path) -> None:
    """Give a file the owner and permissions of an older one, as far as allowed."""
    mode = older.st_mode & 0o777
    new = path.stat()
    if (new.st_uid, new.st_gid) != (older.st_uid, older.st_gid):
        for owner in (older.st_uid, -1):
            with suppress(PermissionError):
                os.chown(path, owner, older.st_gid)
                break
        else:
            mode &= ~0o070  # the permissions were those of another group
    with suppress(OSError):  # of file systems without permissions
        path.chmod(mode)


@contextmanager
def _error_names(path: Path, temporary: Path) -> Iterator[None]:
    """Let errors name the file that the user asked for, not the temporary one."""
    try:
        yield
    except OSError as error:
        is_other = error.filename not in (None, str(temporary), temporary)
        if is_other or error.errno is None:
            raise  # such as that of an input that cannot be read again
        raise OSError(error.errno, error.strerror, str(path)) from error
