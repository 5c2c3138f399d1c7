"""Whether covariances are formed or multiplied by."""

from __future__ import annotations

from typing import Any

from scipy import sparse

from scalefair.decomposition._pencil import buffer_size

__all__ = ["choose_solver"]

# Moments of the groups and the matrices of the eigen-solver, in bytes.
_MOST_MEMORY = 2 * 2**30
_MATRICES = 2
# Block products of a matrix-free solution with two groups.
_PRODUCTS = 100
# Time of an operation with a stored entry of a sparse matrix, and of one in a dense
# product with a block, in units of one in a dense second moment.
_SPARSE = 10.0
_BLOCK = 2.0
# Time of a full eigendecomposition, in units of n^3 of these.
_DECOMPOSITION = 10.0


def choose_solver(X: Any, r: int, n_groups: int) -> str:
    """``"gram"`` or ``"matrix_free"``, whichever needs less time by an estimate."""
    m, n = X.shape
    is_sparse = sparse.issparse(X) or getattr(X, "is_sparse", False)
    if 8 * (n_groups + _MATRICES) * n * n > _MOST_MEMORY:
        return "matrix_free"
    stored, unit = (float(X.nnz), _SPARSE) if is_sparse else (float(m * n), _BLOCK)
    free = 4 * stored * (r + buffer_size(r)) * unit * _PRODUCTS
    # Second moments of sparse rows cost the square of their entries each.
    formed = stored**2 / m * unit if is_sparse else stored * n
    return "gram" if formed + _DECOMPOSITION * n**3 <= free else "matrix_free"
