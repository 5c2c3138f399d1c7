"""Numba kernels: plain functions on arrays, nothing else.

The floors above take the functions from here:

- `_block`: products of blocks of few columns, and of a few long rows.
- `_csr`, `_rbf`: products of sparse and of Gaussian kernel matrices with blocks.
- `_dense_rows`: products and scatter matrices of dense rows in groups.
- `_score_bins`, `_score_functions`: scores of a linear model, losses, smoothed rates.
- `_assignment`, `_refinement`, `_centres`: labels of clusters.
- `_level_cuts`: splits for isotonic regression.
- `_lapack`: BLAS and LAPACK without the interpreter's lock, not compiled.
- `_arrays`: arrays as kernels take them, and the chunks of rows that threads share.

Sums over rows are taken chunk by chunk. The chunks do not depend on the number of
threads, and are added in order: results have the same bits with any number.
"""

from scalefair._threads import long_blas_call, one_thread, single_blas_thread
from scalefair.kernels._arrays import row_table
from scalefair.kernels._assignment import (
    best_columns,
    largest_fair_set,
    min_cost_flow,
    round_minima,
    share_ties,
    smoothed_minima,
)
from scalefair.kernels._block import (
    add_scaled,
    block_gram,
    block_multiply,
    block_subtract,
    combine,
    deflate_rows,
    inner,
    mirror_lower,
    rotate_ritz,
    rows_combine,
    rows_inner,
)
from scalefair.kernels._centres import capped_distances, nearest_centres
from scalefair.kernels._csr import (
    csr_is_symmetric,
    csr_matmat,
    csr_normal_product,
    csr_rows_matmat,
    csr_workspace,
    sparse_gram,
)
from scalefair.kernels._dense_rows import (
    dense_rows_gram,
    dense_rows_matmat,
    first_means,
    gather_shifted,
    label_scatter,
)
from scalefair.kernels._lapack import add_gram, eigenvalues, leading_eigh, matmul
from scalefair.kernels._level_cuts import split_at_levels
from scalefair.kernels._rbf import rbf_columns, rbf_matmat, rbf_tiles
from scalefair.kernels._refinement import (
    degrees_and_inner_weights,
    indicator_sweep,
    refine,
)
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
from scalefair.kernels._score_functions import (
    family_moments,
    family_slopes,
    sigmoid_slopes,
    sigmoid_sums,
    top_pairwise_hinge,
)
