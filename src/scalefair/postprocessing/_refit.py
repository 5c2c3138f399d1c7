"""The last layer, fitted again on inputs that have changed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scalefair.postprocessing._changed_layer import reduced, worthwhile
from scalefair.postprocessing._direct import direct_weights
from scalefair.postprocessing._layer_moments import LayerMoments
from scalefair.streaming import GroupMoments

__all__ = ["Refit", "refit_last_layer"]

Array = NDArray[np.float64]

# What the second moment's mean eigenvalue is multiplied by and added to it: the
# inputs were trained on the same targets, and exact least squares overfits them.
_RIDGE = 1e-2
_LEAST = 1e-6
# Accuracy of the bounds: the problem is small.
_TOL = 1e-4
_EPOCHS = 50
_BATCH = 256


@dataclass(frozen=True)
class Refit:
    """New last layer, and the gaps of the outputs without and with it.

    Attributes
    ----------
    weight : ndarray of shape (k, n)
    bias : ndarray of shape (k,)
    gaps_before, gaps_after : tuple of float
        Gaps of the outputs in mean and in covariance with the old and with the new
        last layer, on the same inputs.
    converged : bool
        Whether the bounds hold.
    """

    weight: Array
    bias: Array
    gaps_before: tuple[float, float]
    gaps_after: tuple[float, float]
    converged: bool


def refit_last_layer(
    joint: GroupMoments,
    weight: Array,
    *,
    kind: str,
    mean_reduction: float,
    covariance_reduction: float,
) -> Refit:
    r"""Fit the last layer to the targets, from moments.

    Least squares takes the weight nearest to the old one, by a ridge that is small
    beside the inputs' second moment; the gradient method stops early, which has a
    closed form from moments: k steps of length h leave
    :math:`(I - h S)^k` of the way. If reductions are given, the bounds are those
    of the fitted weight's own gaps divided by them, and the weight is the one in
    them with the smallest squared error.

    Parameters
    ----------
    joint : GroupMoments
        Of rows ``[a, y]``: the n inputs of the last layer, then the k targets.
    weight : ndarray of shape (k, n)
        The old weight.
    kind : {"least_squares", "gradient"}
        How the weight is fitted.
    mean_reduction, covariance_reduction : float
        What the gaps' squares are divided by at least; 1 leaves them alone.

    Returns
    -------
    Refit
        New weight and bias; the mean residual is zero.
    """
    n = weight.shape[1]
    inputs = LayerMoments(
        GroupMoments(
            joint.groups,
            joint.counts,
            joint.means[:, :n],
            joint.scatters[:, :n, :n],
        )
    )
    S = _total_scatter(joint)
    values, vectors = np.linalg.eigh(S[:n, :n])
    values = np.maximum(values, 0.0)
    # Least squares away from the old weight: S (w - w_old) = cross - S w_old.
    rest = (S[n:, :n] - weight @ S[:n, :n]) @ vectors
    # Of the mean squares, means included: inputs that hardly vary say nothing.
    square = values.sum() + joint.counts.sum() * float(joint.mean[:n] @ joint.mean[:n])
    least = _LEAST * float(square) / n
    ridge = max(_RIDGE * float(values.mean()), least) or 1.0
    shares = 1 / (values + ridge)
    if kind == "gradient":
        steps = _EPOCHS * max(1, int(joint.counts.sum()) // _BATCH)
        shares = _walked(values, max(float(values.max()), least) or 1.0, steps)
    fitted = weight + (rest * shares) @ vectors.T
    before = inputs.gaps(fitted)
    mean_reduction, covariance_reduction = worthwhile(
        fitted, inputs, mean_reduction, covariance_reduction
    )
    converged = True
    if mean_reduction > 1 or covariance_reduction > 1:
        root = vectors / np.sqrt(values + ridge)
        found = direct_weights(
            fitted,
            (fitted @ vectors) * np.sqrt(values + ridge),
            root,
            inputs.differences,
            inputs.covariance_differences,
            mean_bound=reduced(before[0], mean_reduction),
            covariance_bound=reduced(before[1], covariance_reduction),
            tol=_TOL,
        )
        fitted, converged = found.weight, found.converged
    mean = joint.mean
    return Refit(
        weight=fitted,
        bias=mean[n:] - fitted @ mean[:n],
        gaps_before=inputs.gaps(weight),
        gaps_after=inputs.gaps(fitted),
        converged=converged,
    )


def _total_scatter(moments: GroupMoments) -> Array:
    """Sum of ``(x - mean)(x - mean)^T`` over the rows of all groups."""
    offsets = moments.means - moments.mean
    between = (moments.counts[:, None] * offsets).T @ offsets
    total: Array = moments.scatters.sum(axis=0) + between
    return total


def _walked(values: Array, largest: float, steps: int) -> Array:
    """(1 - (1 - v / largest)^steps) / v, its limit where v is zero."""
    ratio = np.minimum(values / largest, 1.0)
    with np.errstate(divide="ignore"):
        left = np.exp(steps * np.log1p(-ratio))
    small = ratio * steps < 1e-8
    return np.where(small, steps / largest, (1 - left) / np.where(small, 1.0, values))
