"""Points and region of the plane of two groups' captured variances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair.decomposition import JointNumericalRange, joint_numerical_range
from scalefair.streaming import GroupMoments

__all__ = [
    "captured",
    "check_orthonormal",
    "check_plane",
    "find_fair_point",
    "moments_of_two",
    "plain_basis",
    "region",
]

# The fair point is taken from a chord of the boundary that turns by at most this,
# in radians: its relative error is about the square over eight.
_CHORD_TURN = 1e-5
_ORTHONORMAL = 1e-6


def region(
    C_A: ArrayLike, C_B: ArrayLike, r: int, n_angles: int
) -> tuple[NDArray[np.float64], JointNumericalRange]:
    """Boundary points, and those among them with normals in the first quadrant.

    These are twice as close to each other: no group can gain there without the
    other's loss.
    """
    around = joint_numerical_range(C_A, C_B, r, n_angles=n_angles)
    facing = np.linspace(0.0, np.pi / 2, n_angles // 2 + 1)
    arc = joint_numerical_range(C_A, C_B, r, angles=facing)
    rest = around.points[around.angles > np.pi / 2]
    return np.vstack([arc.points, rest]), arc


def find_fair_point(
    C: NDArray[Any], r: int, arc: JointNumericalRange
) -> NDArray[np.float64]:
    """Point of the arc where both losses are equal.

    The loss of the first group rises along the arc from zero, that of the second
    falls to zero. A flat piece of the boundary is a chord that does not turn.
    """
    best = arc.support[[0, -1]]
    while True:
        losses = best - arc.points
        excess = losses[:, 0] - losses[:, 1]
        excess[-1] = max(excess[-1], 0.0)  # up to rounding it is
        j = int(np.argmax(excess >= 0))
        if j == 0:
            first: NDArray[np.float64] = arc.points[0]
            return first
        before, after = arc.angles[j - 1], arc.angles[j]
        if after - before <= _CHORD_TURN:
            share = excess[j - 1] / (excess[j - 1] - excess[j])
            start, end = arc.points[j - 1], arc.points[j]
            between: NDArray[np.float64] = start + share * (end - start)
            return between
        closer = np.linspace(before, after, 5)
        arc = joint_numerical_range(C[0], C[1], r, angles=closer)


def moments_of_two(
    X: Any, sensitive_features: ArrayLike, n_features: int
) -> GroupMoments:
    """Return the moments of rows of two groups, with the features expected."""
    moments = GroupMoments.from_data(X, sensitive_features)
    if len(moments.groups) != 2:
        raise ValueError(
            f"The figure is for two groups, got {len(moments.groups)}: draw a "
            "GroupLossDisplay instead."
        )
    if moments.n_features != n_features:
        raise ValueError(
            f"X has {moments.n_features} features, the estimator was fitted to "
            f"{n_features}."
        )
    return moments


def plain_basis(C: NDArray[Any], group_sizes: ArrayLike, r: int) -> NDArray[np.float64]:
    """Leading eigenvectors of the covariance of all rows."""
    sizes = np.asarray(group_sizes, dtype=np.float64)
    if sizes.shape != (2,) or not (sizes > 0).all():
        raise ValueError(
            f"group_sizes must be two positive numbers, got {group_sizes!r}."
        )
    shares = sizes / sizes.sum()
    return np.linalg.eigh(np.tensordot(shares, C, axes=1))[1][:, -r:]


def captured(C: NDArray[Any], U: NDArray[Any]) -> NDArray[np.float64]:
    """Variance that the columns of U capture from each group."""
    return np.array([np.vdot(U, C_g @ U) for C_g in C])


def check_plane(
    boundary: NDArray[Any],
    points: Mapping[str, NDArray[Any] | None],
    groups: Sequence[Any] | NDArray[Any],
) -> None:
    """Raise unless everything is of two groups and finite."""
    if boundary.ndim != 2 or boundary.shape[1] != 2 or not len(boundary):
        raise ValueError(f"boundary must have shape (k, 2), got {boundary.shape}.")
    for name, point in {"boundary": boundary, **points}.items():
        if point is None:
            continue
        if name != "boundary" and point.shape != (2,):
            raise ValueError(f"{name} must have shape (2,), got {point.shape}.")
        if not np.isfinite(point).all():
            raise ValueError(f"{name} is NaN or infinite somewhere.")
    if len(groups) != 2:
        raise ValueError(f"groups must be two names, got {len(groups)}.")


def check_orthonormal(U: NDArray[Any]) -> None:
    """Raise unless the columns are orthonormal."""
    error = np.abs(U.T @ U - np.eye(U.shape[1])).max()
    if error > _ORTHONORMAL:
        raise ValueError(
            "The estimator's components_ must be orthonormal for what they capture "
            f"to lie within the region, but they are off by {error:.2g}."
        )
