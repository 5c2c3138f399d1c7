"""A layer's new weight, whose outputs differ less between groups, by either method."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scalefair._memory import require_memory
from scalefair.postprocessing._direct import DirectResult, direct_weights
from scalefair.postprocessing._duality_bound import smallest_change
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
# Share of a covariance gap below which nothing is asked for.
_SMALLEST_SHARE = 1e-4
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
    noise: Array  # gaps of pairs that are alike, shape (2, P)
    weights: Array  # of pairs in the bounds, the larger one, shape (P,)


@dataclass(frozen=True)
class GapBounds:
    """Bounds on both squared gaps of each attribute, shape (2, k); inf is none.

    Those of pairs are summed with weights of shape (2, P), the largest one.
    """

    limits: Array
    weights: Array

    @classmethod
    def of(
        cls,
        weight: Array,
        layer: LayerMoments,
        reductions: tuple[float, float],
        noise_floor: bool,
    ) -> GapBounds:
        """Divide the squares by the reductions, finite ones not to less than noise.

        The weight of a pair is the part of its square that is above noise, for means
        divided by the noise. A gap that is rounding has no bound: its removal may cost
        a large part of the outputs.
        """
        reduction = np.reshape(reductions, (2, 1))
        gaps = layer.pair_gaps(weight)
        square = layer.output_change(weight, np.zeros_like(weight))
        square /= int(layer.moments.counts.sum())
        spread = float(((weight @ layer.within) * weight).sum())
        spread = max(spread, _EPS**2 * square)  # that of equal outputs, by rounding
        rounding = _ROUNDING * np.sqrt([[square], [square * spread]])
        asked = (reduction > 1) & (layer.gaps_of_each(gaps) > rounding)
        floor = noise_floor & np.isfinite(reduction)
        sizes = np.maximum(gaps, _TINY)
        noise = np.where(floor, np.minimum(layer.noise(weight), sizes), 0.0)
        weights = 1 - (noise / sizes) ** 2
        if floor[0]:
            # Differences of means count in units of their noise, 1/n_a + 1/n_b: the
            # floors of pairs with a rare group leave pairs of large groups no slack.
            weights[0] /= (1 / layer.counts[layer.pairs]).sum(axis=1)
        weights *= asked[:, layer.attribute]
        goals = np.maximum(gaps / np.sqrt(reduction), noise)
        goals[1] = np.maximum(goals[1], _SMALLEST_SHARE * gaps[1])
        limits = np.full(asked.shape, np.inf)
        for i, j in np.argwhere(asked):
            pairs = layer.attribute == j
            if largest := weights[i, pairs].max():
                weights[i, pairs] /= largest
                limits[i, j] = weights[i, pairs] @ goals[i, pairs] ** 2
        return cls(limits, weights)


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
    noise_floor: bool,
    epsilon: float,
    first_moment: str,
) -> FairLayer:
    """Change a layer, given its weight (m, n) and the moments of its inputs."""
    inputs = LayerMoments(moments)
    direct = method == "direct"
    bounds = GapBounds.of(weight, inputs, reductions, noise_floor and direct)
    if direct:
        changed, least, converged = _direct(weight, inputs, bounds)
    else:
        changed = _published(weight, inputs, bounds, reductions, epsilon, first_moment)
        least, converged = float("nan"), True
    square = inputs.output_change(weight, np.zeros_like(weight)) or 1.0
    return FairLayer(
        weight=changed,
        gaps_before=inputs.gaps(weight),
        gaps_after=inputs.gaps(changed),
        change=inputs.output_change(weight, changed) / square,
        change_bound=least / square,
        converged=converged,
        noise=inputs.noise(weight),
        weights=bounds.weights.max(axis=0),
    )


def _direct(
    weight: Array, layer: LayerMoments, bounds: GapBounds
) -> tuple[Array, float, bool]:
    """Meet the bounds at the smallest change of the outputs.

    Returns the weight, a lower bound of the change (nan for more than two groups), and
    whether the bounds hold.
    """
    if len(weight) > weight.shape[1]:  # outputs that follow from fewer
        basis, triangle = np.linalg.qr(weight)
        fewer, least, converged = _direct(triangle, layer, bounds)
        return basis @ fewer, least, converged
    found = meet_bounds(weight, *layer.whitening(weight, _NOISE), layer, bounds)
    if len(layer.pairs) > 1:
        return found.weight, float("nan"), found.converged
    proved = smallest_change(
        *layer.whitening(weight),
        layer.differences[:, 0],
        layer.covariance_differences[0],
        found.multiplier,
        mean_bound=float(bounds.limits[0, 0]),
        covariance_bound=float(bounds.limits[1, 0]),
    )
    # Rounding, where S is ill-conditioned, may put it above what it bounds.
    least = min(proved, layer.output_change(weight, found.weight))
    return found.weight, least, found.converged


def meet_bounds(
    weight: Array,
    whitened: Array,
    root: Array,
    layer: LayerMoments,
    bounds: GapBounds,
    **options: float,
) -> DirectResult:
    """Smallest change within the bounds on the gaps, those of each attribute.

    What is bounded is a weighted sum of all squares. Multipliers of attributes whose
    gaps are above their bounds grow, the others shrink.
    """
    limits, asked = bounds.limits, np.isfinite(bounds.limits)
    positive = asked & (limits > 0)
    multipliers = np.where(positive, 1 / np.where(positive, limits, 1.0), asked)
    M, margin = layer.covariance_differences, np.ones(2)
    for _ in range(_MOST_WEIGHTS):
        multipliers /= np.maximum(multipliers.max(axis=1, keepdims=True), _TINY)
        scales = np.sqrt(bounds.weights * multipliers[:, layer.attribute])
        sums = (multipliers * np.where(asked, limits, 0.0)).sum(axis=1)
        sums = np.where(asked.any(axis=1), margin * sums, np.inf)
        pairs = scales > 0
        forms = M[pairs[1]] * scales[1, pairs[1], None, None]
        found = direct_weights(
            weight,
            whitened,
            root,
            (layer.differences * scales[0])[:, pairs[0]],
            forms if len(forms) else 0 * M[:1],
            mean_bound=float(sums[0]),
            covariance_bound=float(sums[1]),
            **options,
        )
        if layer.n_attributes == 1:
            return found
        gaps = layer.pair_gaps(found.weight) * np.sqrt(bounds.weights)
        after = layer.gaps_of_each(gaps) ** 2
        ratios = np.where(positive, after / np.where(positive, limits, 1.0), 0.0)
        worst = ratios.max(axis=1)
        if worst.max() <= 1 + _INSIDE:
            return replace(found, converged=True)
        if worst.max() <= 1 + _NEAR:  # the multipliers are good enough
            margin *= (1 - _INSIDE) / np.maximum(worst, 1.0)
            continue
        multipliers *= np.clip(ratios, 0.01, 100.0) ** _POWER
    return replace(found, converged=False)


def _published(
    weight: Array,
    layer: LayerMoments,
    bounds: GapBounds,
    reductions: tuple[float, float],
    epsilon: float,
    first_moment: str,
) -> Array:
    """Algorithm 1 of the paper: second moment first, then the first moment.

    Of several attributes the sums over all pairs are bounded.
    """
    changed, D, S = weight, layer.differences, layer.second_moment
    if np.isfinite(bounds.limits[1]).any():
        eigenvalues, eigenvectors = layer.covariance_eigenpairs()
        gram = eigenvectors.T @ S @ eigenvectors
        args = eigenvalues, eigenvectors, gram, reductions[1]
        changed = explainable_svd(weight, *args)
    limits = bounds.limits[0, np.isfinite(bounds.limits[0])]
    if not limits.size:
        return changed
    if first_moment == "svd":
        return svd_first_moment(changed, D, S, epsilon, reductions[0])
    return exact_first_moment(changed, D, layer.solve, float(limits.sum()))
