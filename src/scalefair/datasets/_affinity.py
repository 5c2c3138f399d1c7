"""A random affinity matrix without structure, to measure solvers on."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from scalefair._random import random_generator
from scalefair.datasets._checks import check_count, check_shares

_DESCR = """\
RandLaplace: a dense random symmetric affinity of {n_samples} samples (uniform entries
in [0, 1), zero diagonal) and {n_groups} groups assigned at random. There are no
clusters to find.
"""


def make_random_affinity(
    n_samples: int,
    *,
    n_groups: int = 2,
    group_probabilities: Sequence[float] | None = None,
    random_state: Any = None,
) -> Bunch:
    """Generate a dense random affinity with random groups (RandLaplace).

    The data set has no cluster structure; it serves to measure the cost of solvers
    on dense matrices.

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
    random_state : int, RandomState instance or None, default=None
        Determines the affinity and the groups.

    Returns
    -------
    data : Bunch
        With the entries

        - affinity : ndarray of shape (n_samples, n_samples), symmetric, entries
          uniform in [0, 1), zero diagonal
        - sensitive_features : ndarray of int, shape (n_samples,), the group, 0 to
          ``n_groups - 1``
        - DESCR : str

    Raises
    ------
    ValueError
        If a number is out of range or `group_probabilities` is not a distribution
        over the groups.

    Notes
    -----
    No group is empty: should a draw leave one out, a random member of the largest
    group moves there, which can only happen in small samples.

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
    shares = _group_shares(group_probabilities, n_groups)
    rng = random_generator(random_state)
    affinity = np.triu(rng.random((n_samples, n_samples)), k=1)
    affinity += affinity.T
    return Bunch(
        affinity=affinity,
        sensitive_features=_draw_groups(n_samples, shares, rng),
        DESCR=_DESCR.format(n_samples=n_samples, n_groups=n_groups),
    )


def _group_shares(
    group_probabilities: Sequence[float] | None, n_groups: int
) -> NDArray[np.float64]:
    if group_probabilities is None:
        if n_groups == 2:
            return np.array([0.7, 0.3])
        return np.full(n_groups, 1.0 / n_groups)
    if np.shape(group_probabilities) != (n_groups,):
        raise ValueError(
            f"group_probabilities must have one entry for each of the {n_groups} "
            f"groups, got shape {np.shape(group_probabilities)}."
        )
    return check_shares(group_probabilities)


def _draw_groups(
    n_samples: int, shares: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.int64]:
    groups = rng.choice(shares.shape[0], size=n_samples, p=shares).astype(np.int64)
    counts = np.bincount(groups, minlength=shares.shape[0])
    for empty in np.flatnonzero(counts == 0):
        largest = np.bincount(groups).argmax()
        groups[rng.choice(np.flatnonzero(groups == largest))] = empty
    return groups
