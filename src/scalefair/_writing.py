"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

# Held while files get their names: who ends the process holds it, too.
PLACING = threading.RLock()
# Temporary files, and folders made for files that are not in place yet.
_unfinished: list[Path] = []


def write_files(
    writers: Mapping[Path, Callable[[BinaryIO], object]],
    placed: Callable[[], object] = lambda: None,
) -> None:
    """Write several files, then put all of them in place; then call `placed`.

    Each has another name until all are complete: before, older files stay as they were.
    What takes their place has their owner and rights; of a link the target is replaced.
    """
    pending: list[tuple[Path, Path]] = []
    try:
        for path, write in writers.items():
            final = Path(os.path.realpath(path))
            # With an ending of its own the name of the file might be too long.
            temporary = final.with_name(f".scalefair.{secrets.token_hex(8)}.tmp")
            _unfinished.append(temporary)
            pending.append((temporary, final))
            with _blame(path, temporary):
                _write(temporary, final, write)
        with PLACING:
            for (temporary, final), path in zip(pending, writers, strict=True):
                with _blame(path, temporary):
                    os.replace(temporary, final)
            placed()
    finally:
        for temporary, _ in pending:
            temporary.unlink(missing_ok=True)
            _unfinished.remove(temporary)


def write_folder(
    folder: Path,
    writers: Mapping[Path, Callable[[BinaryIO], object]],
    placed: Callable[[], object] = lambda: None,
) -> None:
    """Write files to a folder, as `write_files` does; it is made if it is missing."""
    if folder.is_dir():
        return write_files(writers, placed)
    _unfinished.append(folder)
    try:
        folder.mkdir()
        write_files(writers, placed)
    except BaseException:  # an interrupt as well
        with suppress(OSError):
            folder.rmdir()
        raise
    finally:
        _unfinished.remove(folder)


def abandon() -> None:
    """Remove what is not in place yet, for who ends the process at once."""
    for path in reversed(_unfinished):
        with suppress(OSError):
            path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)


def _write(temporary: Path, final: Path, write: Callable[[BinaryIO], object]) -> None:
    try:
        older = final.stat()
    except FileNotFoundError:
        older = None
    # Nobody reads what the rights of the older file would not let them.
    with open(temporary, "xb", opener=_open_privately if older else None) as file:
        if older is not None:
            _pass_on(older, temporary)
        write(file)
        file.flush()
        os.fsync(file.fileno())


def _open_privately(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


def _pass_on(older: os.stat_result, path: Path) -> None:
    """Give a file the owner and the rights of an older one, as far as allowed."""
    mode = older.st_mode & 0o777
    new = path.stat()
    if (new.st_uid, new.st_gid) != (older.st_uid, older.st_gid):
        for owner in (older.st_uid, -1):
            with suppress(PermissionError):
                os.chown(path, owner, older.st_gid)
                break
        else:
            mode &= ~0o070  # they were meant for another group
    with suppress(OSError):  # of file systems without rights
        path.chmod(mode)


@contextmanager
def _blame(path: Path, temporary: Path) -> Iterator[None]:
    """Name the file that the user asked for, not the temporary one, nor none."""
    try:
        yield
    except OSError as error:
        of_another = error.filename not in (None, str(temporary), temporary)
        if of_another or error.errno is None:
            raise  # such as that of an input that cannot be read again
        raise OSError(error.errno, error.strerror, str(path)) from error
