"""Dense normal data whose groups share most of their directions of variance."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from scalefair._random import random_generator
from scalefair.datasets._checks import check_count, check_shares
from scalefair.datasets._draw_groups import draw_groups

# Rows that are drawn together.
_ROWS = 8192

_DESCR = """\
Group Gaussians: {n_samples} normal rows of {n_features} features in {n_groups} groups.
Standard deviations along the principal axes fall like exp(-j / {decay:g}); the axes of
the groups are those of a common basis, turned a little (tilt {tilt:g}), and their
variances differ by random factors. `covariances` are the exact ones.
"""


def make_group_gaussians(
    n_samples: int = 1000,
    n_features: int = 20,
    *,
    group_probabilities: Sequence[float] = (0.88, 0.12),
    decay: float = 25.0,
    tilt: float = 0.3,
    spread: float = 0.3,
    random_state: Any = None,
) -> Bunch:
    r"""Generate normal groups of known covariance with nearly the same axes.

    Group `g` has mean zero and covariance :math:`Q_g \Lambda_g Q_g^T`, where
    :math:`\Lambda_g` holds :math:`e^{-2 j / \mathrm{decay}}` times log-normal
    factors, and :math:`Q_g` a common random basis plus normal noise of norm about
    `tilt` per vector, made orthonormal again. PCA of all rows then suits the large
    group better than the small ones.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows. 325,834 rows of 173 features have the size, and with the
        default shares the groups, of the crop mapping data of [1]_.
    n_features : int, default=20
        Number of features.
    group_probabilities : sequence of float, default=(0.88, 0.12)
        Probability of each group; they sum to 1. Every group gets a row.
    decay : float, default=25.0
        Features over which the standard deviations fall by a factor e.
    tilt : float, default=0.3
        How far the groups' axes are turned: 0 gives common axes.
    spread : float, default=0.3
        Standard deviation of the logarithm of the groups' factors on the standard
        deviations: 0 gives equal ones.
    random_state : int, RandomState instance or None, default=None
        Determines everything.

    Returns
    -------
    data : Bunch
        With the entries

        - data : ndarray of float64, shape (n_samples, n_features)
        - sensitive_features : ndarray of int, shape (n_samples,), the group
        - covariances : ndarray of shape (n_groups, n_features, n_features), those of
          the distribution, not of the sample
        - DESCR : str

    Raises
    ------
    ValueError
        If a number is out of range.

    References
    ----------
    .. [1] J. Shen, D. Davis, D. Lu, Z. Bai, "Fair principal component analysis via
       eigenvalue optimization".

    Examples
    --------
    >>> from scalefair.datasets import make_group_gaussians
    >>> data = make_group_gaussians(500, 10, random_state=0)
    >>> data.data.shape, data.covariances.shape
    ((500, 10), (2, 10, 10))
    """
    shares = _check(n_samples, n_features, group_probabilities, decay, tilt, spread)
    rng = random_generator(random_state)
    roots = _covariance_roots(n_features, shares.size, decay, tilt, spread, rng)
    groups = draw_groups(n_samples, shares, rng)
    X = np.empty((n_samples, n_features))
    for start in range(0, n_samples, _ROWS):
        rows = slice(start, min(start + _ROWS, n_samples))
        X[rows] = rng.standard_normal(X[rows].shape)
        for g, root in enumerate(roots):
            members = start + np.flatnonzero(groups[rows] == g)
            X[members] = X[members] @ root
    return Bunch(
        data=X,
        sensitive_features=groups,
        covariances=roots.transpose(0, 2, 1) @ roots,
        DESCR=_DESCR.format(
            n_samples=n_samples,
            n_features=n_features,
            n_groups=shares.size,
            decay=decay,
            tilt=tilt,
        ),
    )


def _check(
    n_samples: int,
    n_features: int,
    group_probabilities: Sequence[float],
    decay: float,
    tilt: float,
    spread: float,
) -> NDArray[np.float64]:
    shares = check_shares(group_probabilities)
    check_count("n_samples", n_samples, shares.size, "one for each group")
    check_count("n_features", n_features, 1)
    if not 0 < decay < np.inf:
        raise ValueError(f"decay must be positive and finite, got {decay}.")
    for name, number in [("tilt", tilt), ("spread", spread)]:
        if not 0 <= number < np.inf:
            raise ValueError(f"{name} must be nonnegative and finite, got {number}.")
    return shares


def _covariance_roots(
    n: int,
    n_groups: int,
    decay: float,
    tilt: float,
    spread: float,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Matrices R_g with covariance ``R_g.T @ R_g``, shape (n_groups, n, n)."""
    common, _ = np.linalg.qr(rng.standard_normal((n, n)))
    deviations = np.exp(-np.arange(n) / decay)
    roots = np.empty((n_groups, n, n))
    for root in roots:
        noise = rng.standard_normal((n, n)) / np.sqrt(n)
        axes, _ = np.linalg.qr(common + tilt * noise)
        factors = np.exp(spread * rng.standard_normal(n))
        root[...] = (deviations * factors)[:, None] * axes.T
    return roots
