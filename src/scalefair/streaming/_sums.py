"""What is added up while rows are read."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scalefair._entries import SQUARES_OVERFLOW

__all__ = ["ShiftedSums"]


class ShiftedSums:
    """Counts, sums and scatter matrices of shifted rows, for each label."""

    def __init__(self, n_labels: int, n_features: int) -> None:
        self.counts = np.zeros(n_labels, np.int64)
        self.sums = np.zeros((n_labels, n_features))
        self.scatters = np.zeros((n_labels, n_features, n_features))
        self.shifts = np.zeros((n_labels, n_features))
        self.has_shift = np.zeros(n_labels, bool)

    def set_shifts(self, shifts: NDArray[np.float64], seen: NDArray[np.bool_]) -> None:
        """Take over the shifts of labels that are seen for the first time."""
        new = seen & ~self.has_shift
        self.shifts[new] = shifts[new]
        self.has_shift |= new

    def to_moments(
        self,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """Return counts, means and scatter matrices about the means, in place."""
        offsets = self.sums / self.counts[:, None]
        for scatter, offset, count in zip(
            self.scatters, offsets, self.counts, strict=True
        ):
            diagonal = scatter.reshape(-1)[:: scatter.shape[0] + 1]
            if not np.isfinite(diagonal).all():
                raise ValueError(SQUARES_OVERFLOW)
            # sum (x - c)(x - c)^T - m (mean - c)(mean - c)^T, exactly symmetric
            offset = np.sqrt(count) * offset
            scatter -= np.outer(offset, offset)
            # Sums of squares: what is below zero is rounding.
            np.maximum(diagonal, 0.0, out=diagonal)
        return self.counts, self.shifts + offsets, self.scatters
