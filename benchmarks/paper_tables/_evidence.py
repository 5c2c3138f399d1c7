"""Bounds that no clustering can beat, to hold printed values against."""

from __future__ import annotations

import numpy as np
from _problems import Problem

from scalefair.linalg import chebyshev
from scalefair.operators import NormalizedAffinity


def best_average_balance(first: int, second: int) -> float:
    """Largest average balance of two clusters of two groups of the given sizes."""
    best = 0.0
    for a in range(first + 1):
        b = np.arange(second + 1)
        rest = (first - a, second - b)
        with np.errstate(invalid="ignore"):
            one = np.nan_to_num(np.minimum(a, b) / np.maximum(a, b))
            two = np.nan_to_num(np.minimum(*rest) / np.maximum(*rest))
        best = max(best, float(((one + two) / 2).max()))
    return best


def least_cut(problem: Problem, k: int) -> float:
    """Lower bound on the normalised cut of any k clusters, fair or not (Ky Fan).

    It is k less the k largest eigenvalues of M; for kernels, which have none below
    zero, less the trace of M.
    """
    if problem.is_kernel:
        degrees = problem.operator @ np.ones(problem.n)
        return k - float((1 / degrees).sum())
    found = chebyshev(NormalizedAffinity(problem.affinity), k, tol=1e-6, random_state=0)
    return k - float(found.values.sum())
