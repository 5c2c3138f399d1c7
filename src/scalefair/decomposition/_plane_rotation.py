"""Subspace of a tied eigenspace that gives a trace exactly (two groups)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["smallest_rotation", "subspace_of_trace"]

Array = NDArray[np.float64]


def subspace_of_trace(C: Array, k: int, trace: float) -> Array | None:
    """Orthonormal basis V of k columns with ``Tr(V^T C V) = trace``.

    In the eigenbasis of `C`, start from the k leading eigenvectors and replace them
    one at a time by the k last ones: the trace falls from its maximum to its
    minimum. In the swap that crosses the wanted trace the two vectors are rotated
    within their plane, by an angle known in closed form. The curve of [1]_ (A.3)
    can lose rank on its way between the same ends; this one cannot.

    Parameters
    ----------
    C : ndarray of shape (q, q)
        Symmetric.
    k : int
        Number of columns, ``0 <= k <= q``.
    trace : float
        Wanted trace.

    Returns
    -------
    ndarray of shape (q, k) or None
        None if `trace` lies outside the range of the traces.

    References
    ----------
    .. [1] Shen, Davis, Lu, Bai, "Fair principal component analysis via eigenvalue
       optimization", section A.3.
    """
    values, vectors = np.linalg.eigh(C)
    values, vectors = values[::-1], vectors[:, ::-1]
    q = values.size
    lowest, highest = float(values[q - k :].sum()), float(values[:k].sum())
    rounding = 4 * np.finfo(float).eps * float(np.abs(values).sum())
    if not lowest - rounding <= trace <= highest + rounding:
        return None
    V = vectors[:, :k].copy()
    n_swaps = min(k, q - k)  # what is in both ends stays
    left = max(0.0, highest - trace)
    for i in range(n_swaps):
        out, into = i, q - n_swaps + i
        drop = float(values[out] - values[into])
        if drop > left or (i == n_swaps - 1 and drop > 0):
            sine_squared = min(1.0, max(0.0, left / drop))
            V[:, out] = (
                np.sqrt(1 - sine_squared) * vectors[:, out]
                + np.sqrt(sine_squared) * vectors[:, into]
            )
            break
        V[:, out] = vectors[:, into]
        left -= drop
    return V


def smallest_rotation(C: Array, trace: float) -> tuple[float, float] | None:
    """Cosine and sine of the least angle at which a vector of a plane has its trace.

    The vector ``v = (cos a, sin a)`` has ``v @ C @ v = trace``; a = 0 is where the
    caller stands. Of a pair of nearly tied eigenvectors it loses least.

    Parameters
    ----------
    C : ndarray of shape (2, 2)
        Symmetric.
    trace : float
        Wanted value.

    Returns
    -------
    tuple of float or None
        None if no vector has this value.
    """
    mean, half = (C[0, 0] + C[1, 1]) / 2, (C[0, 0] - C[1, 1]) / 2
    radius = math.hypot(half, C[0, 1])
    # v @ C @ v = mean + radius cos(2 a - phase), phase the direction of (half, C_01).
    if not abs(trace - mean) <= radius * (1 + 1e-15):
        return None
    phase = math.atan2(C[0, 1], half)
    turn = math.acos(max(-1.0, min(1.0, (trace - mean) / radius))) if radius else 0.0
    angles = [(phase + turn) / 2, (phase - turn) / 2]
    # Angles differing by pi give the same line.
    angle = min((math.remainder(a, math.pi) for a in angles), key=abs)
    return math.cos(angle), math.sin(angle)
