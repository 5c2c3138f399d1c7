"""Moments in a file: plain arrays, whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

import numpy as np

from scalefair._npy import DAMAGE

__all__ = ["read_arrays", "write_arrays"]

_FORMAT = "scalefair group moments 1"


def write_arrays(path: str | os.PathLike[str], arrays: dict[str, Any]) -> None:
    """Write arrays under a temporary name beside `path`, then rename the file.

    Whatever happens before, an older file stays as it was.
    """
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise ValueError(
                f"{name} are Python objects, which can only be pickled: encode them "
                "as strings or numbers before they are saved."
            )
    final = Path(os.path.realpath(path))
    temporary = final.with_name(f".{final.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            np.savez(file, allow_pickle=False, format=np.array(_FORMAT), **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, final)
    finally:
        temporary.unlink(missing_ok=True)


def read_arrays(path: str | os.PathLike[str], names: list[str]) -> dict[str, Any]:
    """Return the arrays of a file that `write_arrays` wrote."""
    with open(path, "rb") as file:
        try:
            with np.load(file, allow_pickle=False) as arrays:
                if str(arrays["format"]) == _FORMAT:
                    return {name: arrays[name] for name in names}
        except (
            OSError,
            TypeError,  # an array alone is no context manager
            *DAMAGE,
        ) as error:
            raise _foreign(path) from error
    raise _foreign(path)


def _foreign(path: str | os.PathLike[str]) -> ValueError:
    return ValueError(
        f"{os.fspath(path)!r} is not a whole file of group moments: write it by "
        "GroupMoments.save."
    )
