"""Numba kernels: plain functions on arrays, nothing else."""

from scalefair._threads import long_blas_call, one_thread, single_blas_thread
from scalefair.kernels._arrays import row_table
from scalefair.kernels._assignment import (
    best_columns,
    box_widths,
    count_open,
    list_open,
    move_along_paths,
    nearest_centres,
    soft_columns,
)
from scalefair.kernels._block import (
    add_scaled,
    block_gram,
    block_multiply,
    block_rotate,
    block_subtract,
    combine,
    inner,
    mirror_lower,
    rotate_ritz,
    rows_combine,
    rows_inner,
)
from scalefair.kernels._csr import (
    csr_add_matmat,
    csr_matmat,
    csr_rows_matmat,
    csr_rows_scatter,
    csr_rows_transpose,
    sparse_gram,
)
from scalefair.kernels._dense_rows import (
    dense_rows_gram,
    dense_rows_matmat,
    dense_rows_moments,
    first_means,
    gather_shifted,
    label_scatter,
)
from scalefair.kernels._indicator_descent import indicator_sweep, weight_within
from scalefair.kernels._lapack import add_gram, leading_eigh
from scalefair.kernels._level_cuts import cuts_between, split_at_levels
from scalefair.kernels._rbf import rbf_columns, rbf_matmat, rbf_tiles
from scalefair.kernels._score_bins import (
    HINGE,
    LOGISTIC,
    SQUARED,
    bin_pass,
    row_scores,
    score_losses,
    score_pass,
    weighted_row_sums,
)
from scalefair.kernels._score_losses import (
    sigmoid_slopes,
    sigmoid_sums,
    top_pairwise_hinge,
)

__all__ = [
    "HINGE",
    "LOGISTIC",
    "SQUARED",
    "add_gram",
    "add_scaled",
    "best_columns",
    "bin_pass",
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
    "cuts_between",
    "dense_rows_gram",
    "dense_rows_matmat",
    "dense_rows_moments",
    "first_means",
    "gather_shifted",
    "indicator_sweep",
    "inner",
    "label_scatter",
    "leading_eigh",
    "list_open",
    "long_blas_call",
    "mirror_lower",
    "move_along_paths",
    "nearest_centres",
    "one_thread",
    "rbf_columns",
    "rbf_matmat",
    "rbf_tiles",
    "rotate_ritz",
    "row_scores",
    "row_table",
    "rows_combine",
    "rows_inner",
    "score_losses",
    "score_pass",
    "sigmoid_slopes",
    "sigmoid_sums",
    "single_blas_thread",
    "soft_columns",
    "sparse_gram",
    "split_at_levels",
    "top_pairwise_hinge",
    "weight_within",
    "weighted_row_sums",
]
