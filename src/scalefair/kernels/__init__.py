"""Numba kernels: plain functions on arrays, nothing else."""

from scalefair.kernels._assignment import (
    best_columns,
    box_widths,
    count_open,
    list_open,
    move_along_paths,
    soft_columns,
)
from scalefair.kernels._block import (
    block_gram,
    block_multiply,
    block_rotate,
    block_subtract,
    rotate_ritz,
    single_blas_thread,
)
from scalefair.kernels._csr import csr_matmat
from scalefair.kernels._csr_rows import (
    csr_add_matmat,
    csr_rows_matmat,
    csr_rows_scatter,
    csr_rows_transpose,
)
from scalefair.kernels._group_scatter import (
    first_means,
    gather_shifted,
    label_scatter,
    mirror_lower,
    sparse_gram,
)
from scalefair.kernels._indicator_descent import indicator_sweep, weight_within
from scalefair.kernels._rbf import rbf_columns, rbf_matmat, rbf_tiles
from scalefair.kernels._rows import add_scaled, combine, inner, rows_combine, rows_inner
from scalefair.kernels._weighted_rows import (
    dense_rows_gram,
    dense_rows_matmat,
    dense_rows_moments,
)

__all__ = [
    "add_scaled",
    "best_columns",
    "block_gram",
    "block_multiply",
    "block_rotate",
    "block_subtract",
    "box_widths",
    "combine",
    "count_open",
    "csr_add_matmat",
    "csr_matmat",
    "csr_rows_matmat",
    "csr_rows_scatter",
    "csr_rows_transpose",
    "dense_rows_gram",
    "dense_rows_matmat",
    "dense_rows_moments",
    "first_means",
    "gather_shifted",
    "indicator_sweep",
    "inner",
    "label_scatter",
    "list_open",
    "mirror_lower",
    "move_along_paths",
    "rbf_columns",
    "rbf_matmat",
    "rbf_tiles",
    "rotate_ritz",
    "rows_combine",
    "rows_inner",
    "single_blas_thread",
    "soft_columns",
    "sparse_gram",
    "weight_within",
]
