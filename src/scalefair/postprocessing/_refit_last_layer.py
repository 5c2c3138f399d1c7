"""The last layer, fitted again to the targets, after some layer was changed."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair._groups import as_list
from scalefair.postprocessing._fair_layer import GapBounds, meet_bounds
from scalefair.postprocessing._layer_host import LayerHost
from scalefair.postprocessing._layer_moments import LayerMoments, Moments
from scalefair.streaming import GroupMoments, is_partitioned

Array = NDArray[np.float64]

# Squares of covariances of outputs are added up: fourth powers.
_LARGEST = 1e70
# Ridges relative to the second moment's mean eigenvalue: of plain least squares, as
# the inputs were trained on the same targets, and those that are compared. A smaller
# one fits more of what differs between groups.
_RIDGE = 1e-2
_RIDGES = np.geomspace(_RIDGE, 1e6, 81)
_LEAST = 1e-6
# Accuracy of the bounds: the problem is small.
_TOL = 1e-4
_EPOCHS = 50
_BATCH = 256


def checked_targets(y: Any, n_rows: int, host: LayerHost) -> Array:
    """Targets as numbers in memory, one row each; Dask's are gathered.

    A ValueError tells what is wrong with them, or that the model has other outputs.
    """
    if isinstance(y, (list, tuple, np.ndarray)) and is_partitioned(y):
        dask = import_module("dask")  # it made what is in the list
        blocks = y.ravel() if isinstance(y, np.ndarray) else y
        # Futures have to be made delayed values to be computed.
        parts = dask.compute(*[dask.delayed(block) for block in blocks])
        y = np.concatenate([np.asarray(part) for part in parts])
    try:
        targets = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must be numbers, one or more a row: {error}.") from error
    if targets.ndim not in (1, 2) or len(targets) != n_rows:
        raise ValueError(
            f"y must have shape ({n_rows},) or ({n_rows}, k), got {targets.shape}."
        )
    moderate = (np.abs(targets.T) <= _LARGEST).reshape(-1, n_rows).all(axis=0)
    if not moderate.all():
        bad = np.flatnonzero(~moderate)
        raise ValueError(
            f"y has entries that are NaN or infinite in {bad.size} row(s), or above "
            f"{_LARGEST:g}, the first at position {bad[0]}: drop these rows, or scale "
            "the targets."
        )
    n_targets = 1 if targets.ndim == 1 else targets.shape[1]
    n_outputs = host.shape(host.n_layers - 1)[0]
    if n_targets != n_outputs:
        raise ValueError(
            f"This {type(host.estimator).__name__} predicts {n_outputs} target(s) a "
            f"row, y has {n_targets}: pass those that it was trained for."
        )
    return targets


@dataclass(frozen=True)
class LastLayer:
    """New weight, shape (k, n), and bias of the last layer; the mean residual is zero.

    Gaps of the outputs in mean and covariance are those with the old and with the new
    last layer, on the same inputs.
    """

    weight: Array
    bias: Array
    gaps_before: tuple[float, float]
    gaps_after: tuple[float, float]
    converged: bool  # whether the bounds on the gaps hold


def refit_last_layer(
    moments: Moments,
    weight: Array,
    kind: str,
    reductions: tuple[float, float],
    noise_floor: bool,
) -> LastLayer:
    """Fit the last layer from the moments of rows ``[a, y]``, its inputs and targets.

    By "ridge", "least_squares" or "gradient", in the first two cases with a ridge
    towards the old weight. Bounds, if reductions are above 1, are those of the fitted
    weight's gaps; the weight is the one within them with the smallest squared error.
    """
    n = weight.shape[1]
    each = as_list(moments)
    joint = each[0]
    inputs = LayerMoments(
        [
            GroupMoments(m.groups, m.counts, m.means[:, :n], m.scatters[:, :n, :n])
            for m in each
        ]
    )
    S = _total_scatter(joint)
    values, vectors = np.linalg.eigh(S[:n, :n])
    values = np.maximum(values, 0.0)
    # Least squares away from the old weight: S (w - w_old) = cross - S w_old.
    rest = (S[n:, :n] - weight @ S[:n, :n]) @ vectors
    # Of the mean squares, means included: inputs that hardly vary say nothing.
    n_rows = int(joint.counts.sum())
    square = values.sum() + n_rows * float(joint.mean[:n] @ joint.mean[:n])
    least, ridge = _LEAST * float(square) / n, _RIDGE * float(values.mean())
    if kind == "ridge":
        step = np.hstack([-weight, np.eye(len(weight))])
        residual = float(((step @ S) * step).sum())
        ridge = _cross_validated_ridge(values, (rest**2).sum(axis=0), residual, n_rows)
    ridge = max(ridge, least) or 1.0
    shares = 1 / (values + ridge)
    if kind == "gradient":
        steps = _EPOCHS * max(1, n_rows // _BATCH)
        shares = _walked(values, max(float(values.max()), least) or 1.0, steps)
    fitted = weight + (rest * shares) @ vectors.T
    bounds = GapBounds.of(fitted, inputs, reductions, noise_floor)
    converged = True
    if np.isfinite(bounds.limits).any():
        sizes = np.sqrt(values + ridge)
        whitening = (fitted @ vectors) * sizes, vectors / sizes
        found = meet_bounds(fitted, *whitening, inputs, bounds, tol=_TOL)
        fitted, converged = found.weight, found.converged
    return LastLayer(
        weight=fitted,
        bias=joint.mean[n:] - fitted @ joint.mean[:n],
        gaps_before=inputs.gaps(weight),
        gaps_after=inputs.gaps(fitted),
        converged=converged,
    )


def _cross_validated_ridge(
    values: Array, squares: Array, residual: float, n_rows: int
) -> float:
    """Ridge of the least generalised cross-validation error (Golub, Heath, Wahba 1979).

    Given the eigenvalues of S, the squares of (cross - S w_old) along the eigenvectors,
    and the sum of squared residuals of the old weight with the best bias.
    """
    # |y - A w|^2 / (N - 1 - df)^2, df = sum_i v_i / (v_i + ridge)
    ridges = (float(values.mean()) or 1.0) * _RIDGES[:, None]
    shrinkage = values / (values + ridges)
    residuals = residual - ((2 - shrinkage) * squares / (values + ridges)).sum(axis=1)
    errors = residuals / (n_rows - 1 - shrinkage.sum(axis=1)) ** 2
    return float(ridges[np.argmin(errors), 0])


def _total_scatter(moments: GroupMoments) -> Array:
    """Sum of ``(x - mean)(x - mean)^T`` over the rows of all groups."""
    offsets = moments.means - moments.mean
    between = (moments.counts[:, None] * offsets).T @ offsets
    total: Array = moments.scatters.sum(axis=0) + between
    return total


def _walked(values: Array, largest: float, steps: int) -> Array:
    """(1 - (1 - v / largest)^steps) / v, its limit where v is zero.

    So far towards the minimum come gradient steps of length 1 / largest.
    """
    ratio = np.minimum(values / largest, 1.0)
    with np.errstate(divide="ignore"):
        left = np.exp(steps * np.log1p(-ratio))
    small = ratio * steps < 1e-8
    return np.where(small, steps / largest, (1 - left) / np.where(small, 1.0, values))
