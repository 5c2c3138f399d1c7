"""Read an array saved by :func:`numpy.save`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from scalefair.cli._errors import Failure, blame_file
from scalefair.cli._memory import refuse_too_large
from scalefair.files._errors import DAMAGE
from scalefair.files._npy import read_array

__all__ = ["open_array"]


def open_array(path: Path) -> NDArray[Any]:
    """Read an array of any type but objects.

    Raises
    ------
    Failure
        If the file cannot be read, does not hold such an array, or holds one that is
        larger than the memory.
    """
    with blame_file(path), open(path, "rb") as file:
        refuse_too_large(path, path.stat().st_size)
        try:
            return read_array(file)
        except DAMAGE as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise Failure(
                f"{path}: not an array of numbers or strings saved by numpy.save, or "
                f"damaged ({reason[:120]}). Save it again."
            ) from error
