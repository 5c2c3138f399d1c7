"""A layer's new weight, whose outputs differ less between groups, by either method."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scalefair._memory import require_memory
from scalefair._rounding import EPS, ROUNDING, TINY
from scalefair.postprocessing._direct import (
    DirectResult,
    direct_weights,
    smallest_change,
)
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
INPUT_NOISE = 1e-3
# Updates of the multipliers of several attributes; up to 15 were seen.
MAX_MULTIPLIER_UPDATES = 40


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

    def undone(self, weight: Array) -> FairLayer:
        """Return the layer with its old weight, which no bound asks to be changed."""
        return replace(
            self,
            weight=weight,
            gaps_after=self.gaps_before,
            change=0.0,
            change_bound=0.0,
            converged=True,
        )


@dataclass(frozen=True)
class GapBounds:
    """Bounds on both squared gaps of each attribute, shape (2, k); inf is none.

    Those of pairs are summed with weights of shape (2, P), the largest one.
    """

    limits: Array
    weights: Array

    @classmethod
    def build(
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
        # 1. Which gaps of which attributes are bounded, (2, k): those that are to be
        # reduced and are above the rounding error of the moments.
        reduction = np.reshape(reductions, (2, 1))
        gaps = layer.pair_gaps(weight)
        mean_square = layer.output_change(weight, np.zeros_like(weight))
        mean_square /= float(layer.moments.counts.sum())
        variance = float(((weight @ layer.within) * weight).sum())
        variance = max(variance, EPS**2 * mean_square)  # equal outputs
        rounding = ROUNDING * np.sqrt([[mean_square], [mean_square * variance]])
        bounded = (reduction > 1) & (layer.gaps_by_attribute(gaps) > rounding)
        # 2. A pair weighs by the share of its square that is above noise.
        floor = noise_floor & np.isfinite(reduction)
        sizes = np.maximum(gaps, TINY)
        noise = np.where(floor, np.minimum(layer.noise(weight), sizes), 0.0)
        weights = 1 - (noise / sizes) ** 2
        if floor[0]:
            # Differences of means count in units of their noise, 1/n_a + 1/n_b: the
            # floors of pairs with a rare group leave pairs of large groups no slack.
            weights[0] /= (1 / layer.sizes[layer.pairs]).sum(axis=1)
        weights *= bounded[:, layer.attribute]
        # 3. Each pair may keep its noise, and 1e-4 of its gap in covariance. The limit
        # of an attribute is the weighted sum of these squares.
        targets = np.maximum(gaps / np.sqrt(reduction), noise)
        targets[1] = np.maximum(targets[1], 1e-4 * gaps[1])
        limits = np.full(bounded.shape, np.inf)
        for i, j in np.argwhere(bounded):
            pairs = layer.attribute == j
            if largest := weights[i, pairs].max():
                weights[i, pairs] /= largest
                limits[i, j] = weights[i, pairs] @ targets[i, pairs] ** 2
        return cls(limits, weights)


def check_memory(host: LayerHost, layer: int, sizes: list[int], remedy: str) -> None:
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
    sizes: list[Array] | None = None,
) -> FairLayer:
    """Change a layer, given its weight (m, n) and the moments of its inputs.

    `sizes` are those of `LayerMoments`.
    """
    # The published method has no floor of noise.
    inputs = LayerMoments(moments, sizes)
    direct = method == "direct"
    bounds = GapBounds.build(weight, inputs, reductions, noise_floor and direct)
    if direct:
        changed, change_bound, converged = _direct(weight, inputs, bounds)
    else:
        changed = _published(weight, inputs, bounds, reductions, epsilon, first_moment)
        change_bound, converged = float("nan"), True
    square = inputs.output_change(weight, np.zeros_like(weight)) or 1.0
    return FairLayer(
        weight=changed,
        gaps_before=inputs.gaps(weight),
        gaps_after=inputs.gaps(changed),
        change=inputs.output_change(weight, changed) / square,
        change_bound=change_bound / square,
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
    if len(weight) > weight.shape[1]:
        # The outputs lie in the range of W: solve for R of W = Q R.
        Q, R = np.linalg.qr(weight)
        changed, change_bound, converged = _direct(R, layer, bounds)
        return Q @ changed, change_bound, converged
    whitened, root = layer.whitening(weight, INPUT_NOISE)
    solution = meet_bounds(weight, whitened, root, layer, bounds)
    if len(layer.pairs) > 1:
        return solution.weight, float("nan"), solution.converged
    change_bound = smallest_change(
        *layer.whitening(weight),
        layer.differences[:, 0],
        layer.covariance_differences[0],
        solution.multiplier,
        mean_bound=float(bounds.limits[0, 0]),
        covariance_bound=float(bounds.limits[1, 0]),
    )
    # Rounding, where S is ill-conditioned, may put it above what it bounds.
    change = layer.output_change(weight, solution.weight)
    return solution.weight, min(change_bound, change), solution.converged


def meet_bounds(
    weight: Array,
    whitened: Array,
    root: Array,
    layer: LayerMoments,
    bounds: GapBounds,
    tol: float = 1e-2,
) -> DirectResult:
    """Smallest change within the bounds on the gaps, those of every attribute.

    A sum of all squares is bounded, weighted by multipliers of the attributes. Those
    of attributes whose gaps are above their bounds grow, the others shrink.
    """
    # A weighted sum at its bound may have one attribute above its limit and another one
    # below. The updates of the multipliers end where none is above.
    limits, bounded = bounds.limits, np.isfinite(bounds.limits)
    positive = bounded & (limits > 0)
    divisors = np.where(positive, limits, 1.0)
    multipliers = np.where(positive, 1 / divisors, bounded)
    M, margin = layer.covariance_differences, np.ones(2)
    for _ in range(MAX_MULTIPLIER_UPDATES):
        # Step 1: scaled differences and forms, so that the weighted sums are plain sums
        # over pairs. Multipliers are relative to the largest one.
        multipliers /= np.maximum(multipliers.max(axis=1, keepdims=True), TINY)
        scales = np.sqrt(bounds.weights * multipliers[:, layer.attribute])
        sums = (multipliers * np.where(bounded, limits, 0.0)).sum(axis=1)
        sums = np.where(bounded.any(axis=1), margin * sums, np.inf)
        pairs = scales > 0
        forms = M[pairs[1]] * scales[1, pairs[1], None, None]
        solution = direct_weights(
            weight,
            whitened,
            root,
            (layer.differences * scales[0])[:, pairs[0]],
            forms if len(forms) else 0 * M[:1],
            mean_bound=float(sums[0]),
            covariance_bound=float(sums[1]),
            tol=tol,
        )
        if layer.n_attributes == 1:
            return solution
        # Step 2: squares of each attribute relative to their limits, which are at most
        # one in the end.
        gaps = layer.pair_gaps(solution.weight) * np.sqrt(bounds.weights)
        squares = layer.gaps_by_attribute(gaps) ** 2
        ratios = np.where(positive, squares / divisors, 0.0)
        largest = ratios.max(axis=1)
        if largest.max() <= 1 + 1e-9:  # but for rounding
            return solution._replace(converged=True)
        # Step 3: tighten the bounds on the sums where the multipliers are good enough,
        # else update these. The power damps the update, which would oscillate.
        if largest.max() <= 1.02:
            margin *= (1 - 1e-9) / np.maximum(largest, 1.0)
        else:
            multipliers *= np.clip(ratios, 0.01, 100.0) ** 0.7
    return solution._replace(converged=False)


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
        changed = explainable_svd(
            weight, eigenvalues, eigenvectors, gram, reductions[1]
        )
    limits = bounds.limits[0, np.isfinite(bounds.limits[0])]
    if not limits.size:
        return changed
    if first_moment == "svd":
        return svd_first_moment(changed, D, S, epsilon, reductions[0])
    return exact_first_moment(changed, D, layer.solve, float(limits.sum()))
