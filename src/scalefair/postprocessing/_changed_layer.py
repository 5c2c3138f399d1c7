"""One layer, changed by either method, and what that did to its gaps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scalefair.postprocessing._direct import direct_weights
from scalefair.postprocessing._direct_bound import smallest_change
from scalefair.postprocessing._explainable_svd import explainable_svd
from scalefair.postprocessing._first_moment import (
    exact_first_moment,
    svd_first_moment,
)
from scalefair.postprocessing._layer_moments import LayerMoments

__all__ = [
    "ChangedLayer",
    "directly_changed",
    "reduced",
    "svd_changed",
    "worthwhile",
    "worthwhile_beside",
]

Array = NDArray[np.float64]

# Noise that every input is given, as a share of its mean square, where the change of
# the outputs is made small. Without it the change may lie in directions that hardly
# occur in the training rows and are large in others.
_NOISE = 1e-3

# Gaps this small beside the outputs are rounding of the moments.
_ROUNDING = 1e-12
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class ChangedLayer:
    """A layer's new weight.

    Attributes
    ----------
    weight : ndarray of shape (m, n)
        The new weight.
    change : float
        Squared change of the outputs, summed over the rows.
    lower_bound : float
        No weight with the same bounds on the gaps changes the outputs less; nan if
        no bound is known.
    converged : bool
        Whether the bounds hold.
    """

    weight: Array
    change: float
    lower_bound: float
    converged: bool


def directly_changed(
    weight: Array,
    layer: LayerMoments,
    *,
    mean_reduction: float,
    covariance_reduction: float,
) -> ChangedLayer:
    """Meet both bounds at the smallest change of the outputs."""
    if len(weight) > weight.shape[1]:  # outputs that follow from fewer
        basis, triangle = np.linalg.qr(weight)
        fewer = directly_changed(
            triangle,
            layer,
            mean_reduction=mean_reduction,
            covariance_reduction=covariance_reduction,
        )
        return replace(fewer, weight=basis @ fewer.weight)
    mean_gap, covariance_gap = layer.gaps(weight)
    mean_reduction, covariance_reduction = worthwhile(
        weight, layer, mean_reduction, covariance_reduction
    )
    whitened, root = layer.noisy_whitening(weight, _NOISE)
    mean_bound = reduced(mean_gap, mean_reduction)
    M = layer.covariance_differences
    found = direct_weights(
        weight,
        whitened,
        root,
        layer.differences,
        M,
        mean_bound=mean_bound,
        covariance_bound=reduced(covariance_gap, covariance_reduction),
    )
    change, least = layer.output_change(weight, found.weight), float("nan")
    if len(M) == 1:
        whitened, root = layer.noisy_whitening(weight, 0.0)
        proved = smallest_change(
            whitened,
            root,
            layer.differences[:, 0],
            M[0],
            found.multiplier,
            mean_bound=mean_bound,
            covariance_bound=found.covariance_bound,
        )
        # Rounding, where S is ill-conditioned, may put it above what it bounds.
        least = min(proved, change)
    return ChangedLayer(found.weight, change, least, found.converged)


def svd_changed(
    weight: Array,
    layer: LayerMoments,
    *,
    mean_reduction: float,
    covariance_reduction: float,
    epsilon: float,
    first_moment: str,
) -> ChangedLayer:
    """Algorithm 1 of the paper: second moment first, then the first moment."""
    mean_reduction, covariance_reduction = worthwhile(
        weight, layer, mean_reduction, covariance_reduction
    )
    eigenvalues, eigenvectors = layer.covariance_eigenpairs()
    gram = eigenvectors.T @ layer.second_moment @ eigenvectors
    changed = explainable_svd(
        weight, eigenvalues, eigenvectors, gram, covariance_reduction
    ).weight
    if first_moment == "svd":
        changed = svd_first_moment(
            changed, layer.differences, layer.second_moment, epsilon, mean_reduction
        )
    elif mean_reduction > 1:
        bound = reduced(layer.gaps(weight)[0], mean_reduction)
        changed = exact_first_moment(changed, layer.differences, layer.solve, bound)
    change = layer.output_change(weight, changed)
    return ChangedLayer(changed, change, float("nan"), True)


def worthwhile(
    weight: Array,
    layer: LayerMoments,
    mean_reduction: float,
    covariance_reduction: float,
) -> tuple[float, float]:
    """Return the reductions in mean and covariance, 1 for a gap that is rounding."""
    moments = layer.moments
    n_rows = int(moments.counts.sum())
    within = moments.scatters.sum(axis=0) / n_rows
    return worthwhile_beside(
        layer.output_change(weight, np.zeros_like(weight)) / n_rows,
        float(((weight @ within) * weight).sum()),
        layer.gaps(weight),
        mean_reduction,
        covariance_reduction,
    )


def worthwhile_beside(
    square: float,
    spread: float,
    gaps: tuple[float, float],
    mean_reduction: float,
    covariance_reduction: float,
) -> tuple[float, float]:
    """Return the reductions, 1 for a gap that is rounding beside the outputs.

    To take away what is not there may cost a large part of the outputs.

    Parameters
    ----------
    square, spread : float
        Mean square of the outputs, and of their distance from the group's mean.
    gaps : tuple of float
        Gaps of the outputs in mean and in covariance.
    mean_reduction, covariance_reduction : float
        What is asked for.
    """
    square = max(square, 0.0)
    spread = max(spread, _EPS**2 * square)  # that of equal outputs, by their rounding
    mean_gap, covariance_gap = gaps
    if mean_gap <= _ROUNDING * np.sqrt(square):
        mean_reduction = 1.0
    if covariance_gap <= _ROUNDING * np.sqrt(square * spread):
        covariance_reduction = 1.0
    return mean_reduction, covariance_reduction


def reduced(gap: float, reduction: float) -> float:
    """Bound on the square of a gap; none for a reduction of 1."""
    return float("inf") if reduction == 1 else gap**2 / reduction
