"""Numba kernels: plain functions on arrays, nothing else."""

from scalefair.kernels._block import (
    block_gram,
    block_rotate,
    block_subtract,
    rotate_ritz,
    single_blas_thread,
)
from scalefair.kernels._csr import csr_matmat

__all__ = [
    "block_gram",
    "block_rotate",
    "block_subtract",
    "csr_matmat",
    "rotate_ritz",
    "single_blas_thread",
]
