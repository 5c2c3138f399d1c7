"""Open an array saved by :func:`numpy.save`."""

from __future__ import annotations

import tokenize
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair.cli._errors import Failure, blame_file

__all__ = ["BAD_HEADS", "open_array"]

# What NumPy may raise for the head of a file, which it parses as Python, beside a
# ValueError.
BAD_HEADS = (OverflowError, SyntaxError, TypeError, tokenize.TokenError)


def open_array(path: Path) -> NDArray[Any]:
    """Memory-map an array of any type but objects; it is not read.

    Raises
    ------
    Failure
        If the file cannot be read or does not hold such an array.
    """
    with blame_file(path), open(path, "rb"):
        pass  # NumPy's errors do not tell a missing file from a damaged one
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except (ValueError, EOFError, *BAD_HEADS) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise Failure(
            f"{path}: not an array of numbers or strings saved by numpy.save, or "
            f"damaged ({reason[:120]}). Save it again."
        ) from error
