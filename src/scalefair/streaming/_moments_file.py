"""Moments in a file: plain arrays, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from scalefair._writing import write_files

__all__ = ["read_arrays", "write_arrays"]

_FORMAT = "scalefair group moments 1"


def write_arrays(path: str | os.PathLike[str], arrays: dict[str, Any]) -> None:
    """Write a file of arrays, whole or not at all."""
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise ValueError(
                f"{name} are Python objects, which can only be pickled: encode them "
                "as strings or numbers before they are saved."
            )
    content = {"format": np.array(_FORMAT), **arrays}
    write_files(
        {Path(path): lambda file: np.savez(file, allow_pickle=False, **content)}
    )


def read_arrays(path: str | os.PathLike[str], names: list[str]) -> dict[str, Any]:
    """Return the arrays of a file that `write_arrays` wrote."""
    with open(path, "rb") as file:
        try:
            with np.load(file, allow_pickle=False) as arrays:
                if str(arrays["format"]) == _FORMAT:
                    return {name: arrays[name] for name in names}
        except MemoryError:
            raise
        except Exception as error:  # whatever NumPy meets in it
            raise _foreign(path) from error
    raise _foreign(path)


def _foreign(path: str | os.PathLike[str]) -> ValueError:
    return ValueError(
        f"{os.fspath(path)!r} is not a whole file of group moments: write it by "
        "GroupMoments.save."
    )
