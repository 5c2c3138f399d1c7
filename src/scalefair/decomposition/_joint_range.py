"""The pairs of variances that orthonormal bases capture from two matrices."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair._entries import check_array
from scalefair._rounding import ROUNDING

Array = NDArray[np.float64]


@dataclass(frozen=True)
class JointNumericalRange:
    """Points on the boundary of a joint numerical range, with their normals.

    Row i of `points` lies on the supporting line of outward normal
    ``(cos(angles[i]), sin(angles[i]))``: the whole set is on the other side.

    Attributes
    ----------
    points : ndarray of shape (k, 2)
        Boundary points, counterclockwise. A corner is repeated for every normal; a
        normal of a flat piece has two rows, its end points.
    angles : ndarray of shape (k,)
        Angle of the outward normal of each point, in radians, nondecreasing.
    support : ndarray of shape (k,)
        Largest value of ``cos(angle) * y_A + sin(angle) * y_B`` over the set.
    """

    points: Array
    angles: Array
    support: Array


def joint_numerical_range(
    C_A: ArrayLike,
    C_B: ArrayLike,
    r: int,
    *,
    n_angles: int = 180,
    angles: ArrayLike | None = None,
) -> JointNumericalRange:
    r"""Boundary of the joint numerical range of two symmetric matrices.

    The r-th joint numerical range is the set of all pairs

    .. math:: (\mathrm{Tr}(U^T C_A U), \mathrm{Tr}(U^T C_B U)), \quad U^T U = I_r.

    With the covariances of two groups these are the variances that a basis of `r`
    components captures from each. The point furthest in the direction
    :math:`(\cos\theta, \sin\theta)` belongs to the `r` leading eigenvectors of
    :math:`\cos\theta\, C_A + \sin\theta\, C_B`.

    Parameters
    ----------
    C_A, C_B : array-like of shape (n, n)
        Symmetric, dense. They need not be positive.
    r : int
        Number of columns of U, ``1 <= r <= n``.
    n_angles : int, default=180
        Number of directions, at least 3, equally spaced over the full turn from
        angle 0. An even number takes half the time per direction.
    angles : array-like of shape (p,) or None, default=None
        Directions to use instead, in radians and increasing; in ``[0, pi / 2]`` no
        group can gain without the other's loss.

    Returns
    -------
    JointNumericalRange
        A row for each direction, two if the boundary is flat there (eigenvalues tie).

    Raises
    ------
    ValueError
        If a matrix is not square, symmetric and finite, the shapes differ, `r` does
        not fit them, or the directions are too few, not finite, or not increasing.

    Notes
    -----
    The set is convex if n >= 3, so that the polygon of the points lies within it, and
    the intersection of the half-planes of `support` contains it. For n = 2 and r = 1 it
    is an ellipse without its interior (or a segment), for r = n a point. A direction
    takes an eigendecomposition, or half of one; all about ``50 n**2`` bytes.

    References
    ----------
    .. [1] Shen, Davis, Lu, Bai (2026), "Fair principal component analysis via
       eigenvalue optimization", appendix A.2, algorithm 2.
    .. [2] Au-Yeung, Tsing (1984), "Some theorems on the generalized numerical
       ranges", Linear and Multilinear Algebra 15(1).

    Examples
    --------
    For diagonal matrices it is a polygon: here the triangle of the three pairs.

    >>> import numpy as np
    >>> from scalefair.decomposition import joint_numerical_range
    >>> joint_range = joint_numerical_range(
    ...     np.diag([1.0, 2.0, 2.0]), np.diag([1.0, 1.0, 2.0]), 1, n_angles=16
    ... )
    >>> np.unique(joint_range.points.round(9), axis=0)
    array([[1., 1.],
           [2., 1.],
           [2., 2.]])
    >>> round(float(joint_range.support[0]), 9)
    2.0
    """
    C_A, C_B = _check_symmetric(C_A, "C_A"), _check_symmetric(C_B, "C_B")
    if C_A.shape != C_B.shape:
        raise ValueError(
            f"C_A and C_B must have the same shape, got {C_A.shape} and {C_B.shape}."
        )
    n = C_A.shape[0]
    if not isinstance(r, Integral) or not 1 <= r <= n:
        raise ValueError(
            f"r must be an integer between 1 and the order {n} of C_A and C_B, got "
            f"{r!r}."
        )
    r = int(r)
    directions = _check_directions(n_angles, angles)
    # Eigenvalues as close as this are equal up to the errors of the eigensolver.
    tie = ROUNDING * (np.linalg.norm(C_A) + np.linalg.norm(C_B))
    # One decomposition serves a direction and its opposite.
    paired = angles is None and directions.size % 2 == 0
    ahead, opposite = [], []
    for theta in directions[: directions.size // 2] if paired else directions:
        # (A6) of [1], and in D its derivative in theta. A trace of B is a coordinate
        # along the normal, the same trace of D that along the tangent.
        B = np.cos(theta) * C_A + np.sin(theta) * C_B
        D = np.cos(theta) * C_B - np.sin(theta) * C_A
        values, vectors = np.linalg.eigh(B)
        ahead += _furthest(theta, values[::-1], vectors[:, ::-1], D, r, tie)
        if paired:
            opposite += _furthest(theta + np.pi, -values, vectors, -D, r, tie)
    # Points: `support` times the normal plus `along`, a trace of D, times the tangent.
    angles, support, along = np.array(ahead + opposite).T
    normals = np.column_stack([np.cos(angles), np.sin(angles)])
    tangents = np.column_stack([-np.sin(angles), np.cos(angles)])
    points = support[:, None] * normals + along[:, None] * tangents
    return JointNumericalRange(points, angles, support)


def _furthest(
    theta: float, values: Array, vectors: Array, D: Array, r: int, tie: float
) -> list[tuple[float, float, float]]:
    """Point, or both ends of the piece, of the set furthest in one direction.

    Given by its angle, the support (the sum of the `r` largest of the descending
    eigenvalues) and the coordinate along the boundary, a trace of D.
    """
    support = float(values[:r].sum())
    # Eigenvalues first, ..., last - 1 are equal to the r-th.
    first = int(np.count_nonzero(values > values[r - 1] + tie))
    last = int(np.count_nonzero(values >= values[r - 1] - tie))
    if last == r:
        return [(theta, support, _trace(vectors[:, :r], D))]
    # Of the tied eigenvectors those at both ends of D's spectrum span the flat piece.
    tied = vectors[:, first:last]
    slopes = np.linalg.eigvalsh(tied.T @ D @ tied)
    k = r - first  # vectors to choose in the tied block
    ends = np.array([slopes[:k].sum(), slopes[-k:].sum()])
    ends += _trace(vectors[:, :first], D)
    if ends[1] - ends[0] <= r * tie:  # D is constant on the block
        ends = ends.mean(keepdims=True)
    return [(theta, support, float(end)) for end in ends]


def _trace(U: Array, D: Array) -> float:
    """Trace of ``U.T @ D @ U``."""
    return float(np.vdot(U, D @ U))


def _check_directions(n_angles: int, angles: ArrayLike | None) -> Array:
    if angles is None:
        if not isinstance(n_angles, Integral) or n_angles < 3:
            raise ValueError(
                f"n_angles must be an integer of at least 3 for a polygon, got "
                f"{n_angles!r}."
            )
        return np.linspace(0.0, 2 * np.pi, int(n_angles), endpoint=False)
    directions = np.asarray(angles, dtype=np.float64)
    if directions.ndim != 1 or directions.size == 0:
        raise ValueError(
            f"angles must be one-dimensional and not empty, got shape "
            f"{directions.shape}."
        )
    if not np.isfinite(directions).all() or (np.diff(directions) < 0).any():
        raise ValueError("angles must be finite and in increasing order.")
    return directions


def _check_symmetric(C: ArrayLike, name: str) -> Array:
    S: Array = check_array(C, dtype=np.float64, input_name=name)
    if S.shape[0] != S.shape[1]:
        raise ValueError(f"{name} must be square, got shape {S.shape}.")
    largest = np.abs(S).max()
    if largest > 1e150:  # sums of squares would overflow
        raise ValueError(
            f"{name} has entries as large as {largest:.1e}, whose squares overflow: "
            "scale both matrices."
        )
    asymmetry = np.abs(S - S.T).max()
    if asymmetry > 1e-8 * largest:  # smaller ones are rounding errors
        raise ValueError(
            f"{name} must be symmetric, but entries differ from those of its "
            f"transpose by up to {asymmetry:.3g}."
        )
    return (S + S.T) / 2
