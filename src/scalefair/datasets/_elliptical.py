"""Points of two elongated ellipses in the plane, for pictures of fair clustering."""

from typing import Any

import numpy as np
from sklearn.utils import Bunch

from scalefair._random import random_generator
from scalefair.datasets._checks import check_count

_HALF_LENGTH = 4.0
_HALF_HEIGHT = 0.5
_GAP_BETWEEN_ELLIPSES = 1.0
_GAP_BETWEEN_GROUPS = 2.0

_DESCR = """\
Elliptical: {n_samples} points of the plane in two long horizontal ellipses, one above
the other. The left half of each ellipse is group 0, the right half group 1, with a
gap between the halves. The gap between the groups is the widest, so clustering
without fairness constraints separates left from right (balance 0); the fair answer is
the upper and the lower ellipse (balance 1).

A re-creation with the properties described in the literature, not the original points
of Feng et al. (2024), to whom the name goes back.
"""


def make_elliptical(n_samples: int = 600, *, random_state: Any = None) -> Bunch:
    """Generate two ellipses that are fair clusters, cut across by two groups.

    Points are uniform in two long horizontal ellipses, one above the other. The left
    half of each belongs to group 0, the right half to group 1, and a gap wider than
    the one between the ellipses separates the halves. Plain clustering into two
    follows the groups; the fair clustering is the two ellipses.

    Parameters
    ----------
    n_samples : int, default=600
        Number of points, at least 4. The four half-ellipses differ by at most one
        point.
    random_state : int, RandomState instance or None, default=None
        Determines the points and their order.

    Returns
    -------
    data : Bunch
        With the entries

        - data : ndarray of shape (n_samples, 2)
        - sensitive_features : ndarray of int, shape (n_samples,), 0 left, 1 right
        - target : ndarray of int, shape (n_samples,), 0 lower ellipse, 1 upper
        - DESCR : str

    Raises
    ------
    ValueError
        If `n_samples` is not an integer of at least 4.

    Notes
    -----
    A re-creation with the properties described in [1]_ and [2]_, not the original
    points.

    References
    ----------
    .. [1] R. Feng, C. Zhong, T. Pan, "Fair Spectral Clustering Based on Coordinate
       Descent", Symmetry 17(1):12, 2024.
    .. [2] F. Tonin, A. Lambert, J. A. K. Suykens, V. Cevher, "Accelerating Spectral
       Clustering under Fairness Constraints", ICML 2025, figures 2 and 9.

    Examples
    --------
    >>> from scalefair.datasets import make_elliptical
    >>> from scalefair.metrics import balance_score
    >>> data = make_elliptical(200, random_state=0)
    >>> data.data.shape
    (200, 2)
    >>> balance_score(data.target, sensitive_features=data.sensitive_features)
    1.0
    """
    check_count("n_samples", n_samples, 4)
    rng = random_generator(random_state)
    quarter = rng.permutation(np.arange(n_samples, dtype=np.int64) % 4)
    upper, right = np.divmod(quarter, 2)
    angle = rng.uniform(-np.pi / 2, np.pi / 2, size=n_samples)
    radius = np.sqrt(rng.random(n_samples))  # uniform over the area
    x = _HALF_LENGTH * radius * np.cos(angle) + _GAP_BETWEEN_GROUPS / 2
    y = _HALF_HEIGHT * radius * np.sin(angle)
    centre = _HALF_HEIGHT + _GAP_BETWEEN_ELLIPSES / 2
    points = np.column_stack([(2 * right - 1) * x, y + (2 * upper - 1) * centre])
    return Bunch(
        data=points,
        sensitive_features=right,
        target=upper,
        DESCR=_DESCR.format(n_samples=n_samples),
    )
