"""A layer too wide for n x n matrices, changed by either method."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from scalefair.operators import StreamedSecondMoment
from scalefair.postprocessing._changed_layer import (
    ChangedLayer,
    reduced,
    worthwhile_beside,
)
from scalefair.postprocessing._direct import SMALLEST_SHARE, direct_weights
from scalefair.postprocessing._explainable_svd import explainable_svd
from scalefair.postprocessing._first_moment import (
    exact_first_moment,
    svd_first_moment,
)
from scalefair.postprocessing._wide import WideLayer

__all__ = ["directly_changed_wide", "svd_changed_wide"]

Array = NDArray[np.float64]

# The square of the gap may exceed its bound by this factor, in so many rounds.
_SLACK = 1.1
_ROUNDS = 4
# Share of the gap in mean that rounding may leave where none is wanted.
_ROUNDING = 1e-6


def directly_changed_wide(
    layer: WideLayer, *, mean_reduction: float, covariance_reduction: float
) -> ChangedLayer:
    """Meet both bounds in the span of the leading directions."""
    mean_reduction, covariance_reduction = _worthwhile(
        layer, mean_reduction, covariance_reduction
    )
    if mean_reduction == covariance_reduction == 1:
        return ChangedLayer(layer.weight, 0.0, float("nan"), True)
    small = layer.reduced()
    if not small.converged:
        warnings.warn(small.message, ConvergenceWarning, stacklevel=2)
    mean_bound = reduced(layer.mean_gap, mean_reduction)
    target = max(
        reduced(layer.covariance_gap, covariance_reduction),
        (SMALLEST_SHARE * layer.covariance_gap) ** 2,
    )
    bound = target
    gap = np.inf
    for _ in range(_ROUNDS):
        found = direct_weights(
            small.whitened,
            small.whitened,
            small.root,
            small.differences,
            small.forms,
            mean_bound=mean_bound,
            covariance_bound=bound,
        )
        before, gap = gap, small.gaps(found.weight)[1]
        # What the leading directions leave out takes part of the bound.
        if gap**2 <= _SLACK * target or gap > 0.98 * before:
            break
        bound *= target / gap**2
    changed = small.lift(found.weight)
    mean_gap = float(np.linalg.norm(changed @ layer.differences))
    # Of inputs in very different units some differences are out of reach.
    most = float(np.sqrt(_SLACK * mean_bound)) + _ROUNDING * layer.mean_gap
    converged = found.converged and gap**2 <= _SLACK * target and mean_gap <= most
    return ChangedLayer(changed, found.change, float("nan"), converged)


def svd_changed_wide(
    layer: WideLayer,
    *,
    mean_reduction: float,
    covariance_reduction: float,
    epsilon: float,
    first_moment: str,
) -> ChangedLayer:
    """Algorithm 1 of the paper on the leading eigenpairs."""
    mean_reduction, covariance_reduction = _worthwhile(
        layer, mean_reduction, covariance_reduction
    )
    changed: Array = explainable_svd(
        layer.weight,
        layer.eigenvalues,
        layer.eigenvectors,
        layer.gram,
        covariance_reduction,
    ).weight
    if first_moment == "svd":
        S = StreamedSecondMoment(layer.covariance)
        changed = svd_first_moment(
            changed, layer.differences, S, epsilon, mean_reduction
        )
    elif mean_reduction > 1:
        bound = reduced(layer.mean_gap, mean_reduction)
        changed = exact_first_moment(changed, layer.differences, layer.solve, bound)
    return ChangedLayer(changed, float("nan"), float("nan"), True)


def _worthwhile(
    layer: WideLayer, mean_reduction: float, covariance_reduction: float
) -> tuple[float, float]:
    """Reductions in mean and covariance, 1 for a gap that is rounding."""
    return worthwhile_beside(
        layer.square,
        layer.spread,
        (layer.mean_gap, layer.covariance_gap),
        mean_reduction,
        covariance_reduction,
    )
