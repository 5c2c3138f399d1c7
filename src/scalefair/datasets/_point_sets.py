"""Small sets: an affinity without structure, and two ellipses in the plane."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from scalefair._random import random_generator
from scalefair.datasets._common import check_count, check_shares, generator

_AFFINITY_DESCR = """\
RandLaplace: a dense random symmetric affinity of {n_samples} samples (uniform entries
in [0, 1), zero diagonal) and {n_groups} groups assigned at random. There are no
clusters to find.
"""


@generator
def make_random_affinity(
    n_samples: int,
    *,
    n_groups: int = 2,
    group_probabilities: Sequence[float] | None = None,
    random_state: Any = None,
) -> Bunch:
    """Generate a dense random affinity with random groups (RandLaplace).

    The data set has no cluster structure; it serves to measure the cost of solvers on
    dense matrices. No group is empty: should a draw leave one out, a random member of
    the largest group moves there, which can only happen in small samples.

    Parameters
    ----------
    n_samples : int
        Number of samples, at least `n_groups`. The matrix takes
        ``8 * n_samples ** 2`` bytes.
    n_groups : int, default=2
        Number of groups, at least 1.
    group_probabilities : sequence of float, shape (n_groups,), default=None
        Positive probabilities of the groups, with sum one. By default (0.7, 0.3) for
        two groups, as in [1]_, and equal otherwise.

    Returns
    -------
    data : Bunch
        - affinity : ndarray of shape (n_samples, n_samples), symmetric, entries
          uniform in [0, 1), zero diagonal
        - sensitive_features : ndarray of int, shape (n_samples,), the group, 0 to
          ``n_groups - 1``

    References
    ----------
    .. [1] F. Tonin, A. Lambert, J. A. K. Suykens, V. Cevher, "Accelerating Spectral
       Clustering under Fairness Constraints", ICML 2025, appendix A.2.

    Examples
    --------
    >>> from scalefair.datasets import make_random_affinity
    >>> data = make_random_affinity(100, n_groups=5, random_state=0)
    >>> data.affinity.shape, len(set(data.sensitive_features))
    ((100, 100), 5)
    """
    check_count("n_groups", n_groups, 1)
    check_count("n_samples", n_samples, n_groups, "one for each group")
    if group_probabilities is None:
        group_probabilities = (0.7, 0.3) if n_groups == 2 else [1 / n_groups] * n_groups
    shares = check_shares(group_probabilities)
    if shares.size != n_groups:
        raise ValueError(
            f"group_probabilities must have one entry for each of the {n_groups} "
            f"groups, got {shares.size}."
        )
    rng = random_generator(random_state)
    affinity = np.triu(rng.random((n_samples, n_samples)), k=1)
    affinity += affinity.T
    groups = rng.choice(n_groups, size=n_samples, p=shares).astype(np.int64)
    counts = np.bincount(groups, minlength=n_groups)
    for empty in np.flatnonzero(counts == 0):
        largest = np.bincount(groups).argmax()
        groups[rng.choice(np.flatnonzero(groups == largest))] = empty
    return Bunch(
        affinity=affinity,
        sensitive_features=groups,
        DESCR=_AFFINITY_DESCR.format(n_samples=n_samples, n_groups=n_groups),
    )


_HALF_LENGTH, _HALF_HEIGHT = 4.0, 0.5
_GAP_BETWEEN_ELLIPSES, _GAP_BETWEEN_GROUPS = 1.0, 2.0

_ELLIPTICAL_DESCR = """\
Elliptical: {n_samples} points of the plane in two long horizontal ellipses, one above
the other. The left half of each ellipse is group 0, the right half group 1, with a
gap between the halves. The gap between the groups is the widest, so clustering
without fairness constraints separates left from right (balance 0); the fair answer is
the upper and the lower ellipse (balance 1).

A re-creation with the properties described in the literature, not the original points
of Feng et al. (2024), to whom the name goes back.
"""


@generator
def make_elliptical(n_samples: int = 600, *, random_state: Any = None) -> Bunch:
    """Generate two ellipses that are fair clusters, cut across by two groups.

    Points are uniform in two long horizontal ellipses, one above the other. The left
    half of each belongs to group 0, the right half to group 1, and a gap wider than
    the one between the ellipses separates the halves. Plain clustering into two
    follows the groups; the fair clustering is the two ellipses. A re-creation with the
    properties described in [1]_ and [2]_, not the original points.

    Parameters
    ----------
    n_samples : int, default=600
        Number of points, at least 4. The four half-ellipses differ by at most one
        point.

    Returns
    -------
    data : Bunch
        - data : ndarray of shape (n_samples, 2)
        - sensitive_features : ndarray of int, shape (n_samples,), 0 left, 1 right
        - target : ndarray of int, shape (n_samples,), 0 lower ellipse, 1 upper

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
        DESCR=_ELLIPTICAL_DESCR.format(n_samples=n_samples),
    )
