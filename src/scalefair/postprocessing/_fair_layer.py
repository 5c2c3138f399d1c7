"""A layer's new weight, whose outputs differ less between groups, by either method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scalefair._memory import require_memory
from scalefair.postprocessing._direct import SMALLEST_SHARE, direct_weights
from scalefair.postprocessing._direct_sqp import smallest_change
from scalefair.postprocessing._explainable_svd import (
    exact_first_moment,
    explainable_svd,
    svd_first_moment,
)
from scalefair.postprocessing._layer_host import LayerHost
from scalefair.postprocessing._layer_moments import LayerMoments, Moments

Array = NDArray[np.float64]

# Noise that every input is given, as a share of its mean square, where the change of
# the outputs is made small. Without it the change may lie in directions that hardly
# occur in the training rows and are large in others.
_NOISE = 1e-3
# Gaps this small beside the outputs are rounding of the moments.
_ROUNDING = 1e-12
_EPS = float(np.finfo(np.float64).eps)
_TINY = float(np.finfo(np.float64).tiny)
# Of several attributes: most weights that are tried, the power of what a square is too
# large by that a weight grows with, by how much squares are too large where the bounds
# are narrowed instead, and the part that is rounding.
_MOST_WEIGHTS, _POWER, _NEAR, _INSIDE = 40, 0.7, 0.02, 1e-9


@dataclass(frozen=True)
class FairLayer:
    """New weight of a layer, shape (m, n), and what it does.

    Gaps of the outputs are those in mean and in covariance; the squared change of the
    outputs and its lower bound are shares of their squares.
    """

    weight: Array
    gaps_before: tuple[float, float]
    gaps_after: tuple[float, float]
    change: float
    change_bound: float
    converged: bool  # whether the bounds on the gaps hold


def check_room(host: LayerHost, layer: int, sizes: list[int], remedy: str) -> None:
    """Raise a MemoryError if the n x n matrices of a layer do not fit into memory."""
    n_inputs = host.shape(layer)[1]
    # Two of each group and one of each pair, the second moment and its eigenvectors.
    n_matrices = 2 + sum(2 * n + n * (n - 1) // 2 for n in sizes)
    require_memory(
        8 * n_matrices * n_inputs**2,
        f"The matrices of layer {host.layer_names[layer]!r}, {n_inputs:,} x "
        f"{n_inputs:,} numbers for each group,",
        remedy,
    )


def fair_layer(
    weight: Array,
    moments: Moments,
    *,
    method: str,
    reductions: tuple[float, float],
    epsilon: float,
    first_moment: str,
) -> FairLayer:
    """Change a layer, given its weight (m, n) and the moments of its inputs."""
    inputs = LayerMoments(moments)
    square = inputs.output_change(weight, np.zeros_like(weight))
    gaps = inputs.gaps(weight)
    reductions = worthwhile(weight, inputs, gaps, square, reductions)
    if method == "direct":
        changed, least, converged = _direct(weight, inputs, gaps, reductions)
    else:
        changed = _published(weight, inputs, gaps, reductions, epsilon, first_moment)
        least, converged = float("nan"), True
    square = square or 1.0
    return FairLayer(
        weight=changed,
        gaps_before=gaps,
        gaps_after=inputs.gaps(changed),
        change=inputs.output_change(weight, changed) / square,
        change_bound=least / square,
        converged=converged,
    )


def _direct(
    weight: Array,
    layer: LayerMoments,
    gaps: tuple[float, float],
    reductions: tuple[float, float],
) -> tuple[Array, float, bool]:
    """Meet both bounds at the smallest change of the outputs.

    Returns the weight, a lower bound of the change (nan for more than two groups), and
    whether the bounds hold.
    """
    if len(weight) > weight.shape[1]:  # outputs that follow from fewer
        basis, triangle = np.linalg.qr(weight)
        fewer, least, converged = _direct(triangle, layer, gaps, reductions)
        return basis @ fewer, least, converged
    M = layer.covariance_differences
    whitening = layer.whitening(weight, _NOISE)
    if layer.n_attributes > 1:
        changed, converged = within_each(weight, *whitening, layer, reductions)
        return changed, float("nan"), converged
    mean_bound = reduced(gaps[0], reductions[0])
    found = direct_weights(
        weight,
        *whitening,
        layer.differences,
        M,
        mean_bound=mean_bound,
        covariance_bound=reduced(gaps[1], reductions[1]),
    )
    if len(M) > 1:
        return found.weight, float("nan"), found.converged
    proved = smallest_change(
        *layer.whitening(weight),
        layer.differences[:, 0],
        M[0],
        found.multiplier,
        mean_bound=mean_bound,
        covariance_bound=found.covariance_bound,
    )
    # Rounding, where S is ill-conditioned, may put it above what it bounds.
    least = min(proved, layer.output_change(weight, found.weight))
    return found.weight, least, found.converged


def within_each(
    weight: Array,
    whitened: Array,
    root: Array,
    layer: LayerMoments,
    reductions: tuple[float, float],
    **options: float,
) -> tuple[Array, bool]:
    """Meet bounds on the gaps of each of several attributes; return whether they hold.

    What is bounded is a weighted sum of all squares. Weights of attributes whose gaps
    are above their own bounds grow, the others shrink, as multipliers would.
    """
    before = np.array(layer.gaps_of_each(weight)) ** 2
    reduction = np.reshape(reductions, (2, 1))
    largest = before.max(axis=1, keepdims=True)
    asked = (reduction > 1) & (before > _ROUNDING**2 * largest)
    bounds = np.where(asked, before / reduction, 0.0)
    bounds[1] = np.maximum(
        bounds[1], np.where(asked[1], before[1] * SMALLEST_SHARE**2, 0)
    )
    positive = bounds > 0
    weights = np.where(positive, 1 / np.where(positive, bounds, 1.0), asked)
    M, margin = layer.covariance_differences, np.ones(2)
    changed = weight
    for _ in range(_MOST_WEIGHTS):
        weights /= np.maximum(weights.max(axis=1, keepdims=True), _TINY)
        scales = np.sqrt(weights)[:, layer.attribute]
        kept = scales > 0
        limits = np.where(
            asked.any(axis=1), margin * (weights * bounds).sum(axis=1), np.inf
        )
        forms = (M * scales[1][:, None, None])[kept[1]]
        changed = direct_weights(
            weight,
            whitened,
            root,
            (layer.differences * scales[0])[:, kept[0]],
            forms if len(forms) else 0 * M[:1],
            mean_bound=float(limits[0]),
            covariance_bound=float(limits[1]),
            **options,
        ).weight
        after = np.array(layer.gaps_of_each(changed)) ** 2
        ratios = np.where(positive, after / np.where(positive, bounds, 1.0), 0.0)
        worst = ratios.max(axis=1)
        if worst.max() <= 1 + _INSIDE:
            return changed, True
        if worst.max() <= 1 + _NEAR:  # the weights are good enough
            margin *= (1 - _INSIDE) / np.maximum(worst, 1.0)
            continue
        weights *= np.clip(ratios, 0.01, 100.0) ** _POWER
    return changed, False


def _published(
    weight: Array,
    layer: LayerMoments,
    gaps: tuple[float, float],
    reductions: tuple[float, float],
    epsilon: float,
    first_moment: str,
) -> Array:
    """Algorithm 1 of the paper: second moment first, then the first moment."""
    eigenvalues, eigenvectors = layer.covariance_eigenpairs()
    gram = eigenvectors.T @ layer.second_moment @ eigenvectors
    changed = explainable_svd(weight, eigenvalues, eigenvectors, gram, reductions[1])
    D = layer.differences
    if first_moment == "svd":
        S = layer.second_moment
        return svd_first_moment(changed, D, S, epsilon, reductions[0])
    if reductions[0] > 1:
        gap = gaps[0]
        if layer.n_attributes > 1:  # the sum over all pairs is bounded
            gap = float(np.linalg.norm(layer.gaps_of_each(weight)[0]))
        bound = reduced(gap, reductions[0])
        return exact_first_moment(changed, D, layer.solve, bound)
    return changed


def worthwhile(
    weight: Array,
    layer: LayerMoments,
    gaps: tuple[float, float],
    square: float,
    reductions: tuple[float, float],
) -> tuple[float, float]:
    """Reductions in mean and covariance, 1 for a gap that is rounding.

    Given both gaps of the outputs and the sum of their squares. To take
    away what is not there may cost a large part of the outputs.
    """
    square /= int(layer.moments.counts.sum())
    spread = float(((weight @ layer.within) * weight).sum())
    spread = max(spread, _EPS**2 * square)  # that of equal outputs, by their rounding
    mean_gap, covariance_gap = gaps
    no_means = mean_gap <= _ROUNDING * np.sqrt(square)
    no_covariances = covariance_gap <= _ROUNDING * np.sqrt(square * spread)
    return (
        1.0 if no_means else reductions[0],
        1.0 if no_covariances else reductions[1],
    )


def reduced(gap: float, reduction: float) -> float:
    """Bound on the square of a gap; none for a reduction of 1."""
    return float("inf") if reduction == 1 else gap**2 / reduction
