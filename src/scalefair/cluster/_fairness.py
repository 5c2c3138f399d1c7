"""The groups among the clustered nodes, and the constraints of group fairness."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair._groups import encode_values
from scalefair.kernels import block_gram

__all__ = ["FairProblem", "clustered_groups"]


def clustered_groups(
    groups: NDArray[Any], codes: NDArray[np.int64], kept: NDArray[np.bool_]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the groups that occur among the kept nodes, and the index of each one's.

    Raises
    ------
    ValueError
        If there are fewer than two.
    """
    present, codes = encode_values(codes[kept], name="sensitive_features")
    groups = groups[present]
    if groups.size < 2:
        raise ValueError(
            "sensitive_features has fewer than two groups among the clustered nodes "
            f"(only {groups.tolist()[0]!r}): fairness compares groups. For one group "
            "use sklearn.cluster.SpectralClustering."
        )
    return groups, codes


@dataclass(frozen=True)
class FairProblem:
    r"""Trace maximisation under group fairness, as the solvers take it.

    Maximise :math:`\mathrm{Tr}(H^T M H)` with :math:`H^T H = I_k` and
    :math:`F^T H = 0`.

    Attributes
    ----------
    affinity : NormalizedAffinity or NormalizedOperator of shape (n, n)
        M, in float64.
    group_codes : ndarray of shape (n,), int
        Group of each node, from 0; every group occurs.
    k : int
        Number of columns of H.
    """

    affinity: Any
    group_codes: NDArray[np.int64]
    k: int

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.group_codes)

    @cached_property
    def F(self) -> NDArray[np.float64]:
        r""":math:`F = D^{-1/2} (G - 1 z^T)`, n x h, G the indicator of the groups."""
        counts = np.bincount(self.group_codes)
        F0 = (self.group_codes[:, None] == np.arange(counts.size)) - counts / self.n
        F: NDArray[np.float64] = F0 * self.affinity.inv_sqrt_degrees[:, None]
        return F

    @cached_property
    def Q(self) -> NDArray[np.float64]:
        """Orthonormal basis of the span of F, n x (h - 1).

        The columns of F add up to zero, so one is dropped; the others are
        independent when no group is empty.
        """
        return np.linalg.qr(self.F[:, :-1])[0]

    def violation(self, H: NDArray[np.float64]) -> float:
        """Frobenius norm of ``F.T @ H``, with all columns of F."""
        return float(np.linalg.norm(block_gram(self.F, H)))
