"""Types of what kernels take and return.

They are for readers and type checkers: Numba infers types of its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Float64Array",
    "FloatArray",
    "Index",
    "IntArray",
    "RowTable",
    "Scalar",
    "StridedTable",
]

FloatArray = NDArray[np.floating]  # float64 or float32
Float64Array = NDArray[np.float64]
IntArray = NDArray[np.integer]
Scalar = float | np.floating
Index = int | np.integer
# What `row_table` and `strided_table` return.
RowTable = tuple[IntArray, IntArray, FloatArray]
StridedTable = tuple[FloatArray, int, int, int]
