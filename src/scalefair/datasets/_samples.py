"""Samples with groups: normal rows, ellipses, an affinity.

Also what other generators use: a text of docstrings, and a draw of groups.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit
from sklearn.utils import Bunch, gen_batches

from scalefair._docs import documented
from scalefair._entries import check_count, random_generator

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Text that the docstrings of the generators share.
TEXTS = {
    "raises": """\
Raises
------
ValueError
    If an argument is out of range; the message states the range."""
}


def check_shares(group_probabilities: Sequence[float]) -> Floats:
    """Return positive probabilities of the groups, with sum 1 to the last digit."""
    shares: Floats = np.asarray(group_probabilities, dtype=np.float64)
    is_positive = shares.ndim == 1 and bool((shares > 0).all())
    if not (is_positive and np.isclose(shares.sum(), 1)):
        raise ValueError(
            "group_probabilities must be positive numbers of sum 1, got "
            f"{group_probabilities!r}."
        )
    # `Generator.choice` refuses sums that differ from 1 by more than rounding.
    shares = shares / shares.sum()
    return shares


def draw_groups(n_samples: int, shares: Floats, rng: np.random.Generator) -> Ints:
    """Draw groups with these probabilities; none is empty."""
    # The first rows get one of each group; then all are shuffled.
    groups = rng.choice(shares.size, size=n_samples, p=shares).astype(np.int64)
    groups[: shares.size] = np.arange(shares.size)
    return rng.permutation(groups)


_BIASED_DESCR = """\
Biased rows: {} normal rows of {} features, density {:g}, in
{} groups of equal probability, with labels from a logistic model, whose
expected scores are {:g} apart from the first to the last group.
"""


@documented(**TEXTS)
def make_biased_rows(
    n_samples: int = 1000,
    n_features: int = 20,
    *,
    density: float = 1.0,
    n_groups: int = 2,
    bias: float = 2.0,
    random_state: Any = None,
) -> Bunch:
    r"""Generate rows with binary labels that one group has more often than another.

    An entry is stored with probability `density`, and is then normal with variance 1.
    Labels are 1 with probability :math:`1 / (1 + e^{-\langle w, x \rangle})`, where
    :math:`w` is normal, scaled such that the scores :math:`\langle w, x \rangle` have
    standard deviation 2 or little more within a group. The entries of group
    :math:`k = 0, \dots, G - 1` have the mean :math:`\delta_k \operatorname{sign}(w_j)`
    with :math:`\delta_k` such that the expected score is

    .. math:: \mathrm{bias} \left( \frac{k}{G - 1} - \frac12 \right).

    Time follows the stored entries, memory is less than twice the result.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows.
    n_features : int, default=20
        Number of features.
    density : float, default=1.0
        Expected share of stored entries, positive. 1 gives a dense array.
    n_groups : int, default=2
        Number of groups, at least 2, of equal probability. Every group gets a row.
    bias : float, default=2.0
        Difference of the expected scores of the last and the first group.
    %(random_state)s

    Returns
    -------
    data : Bunch
        - data : csr_array with sorted indices or, for density 1, ndarray; float64,
          shape (n_samples, n_features)
        - target : ndarray of int, shape (n_samples,), 0 or 1
        - sensitive_features : ndarray of int, shape (n_samples,), the group
        - coef : ndarray of shape (n_features,)
        - DESCR : str

    %(raises)s

    Examples
    --------
    >>> from scalefair.datasets import make_biased_rows
    >>> data = make_biased_rows(10_000, 50, density=0.1, random_state=0)
    >>> data.data.shape, data.coef.shape
    ((10000, 50), (50,))
    """
    check_count("n_groups", n_groups, 2)
    check_count("n_samples", n_samples, n_groups, "one for each group")
    check_count("n_features", n_features, 1)
    if not 0 < density <= 1:
        raise ValueError(f"density must be in (0, 1], got {density}.")
    if not np.isfinite(bias):
        raise ValueError(f"bias must be finite, got {bias}.")
    # 1. Coefficients, and the mean of each group along their signs.
    rng = random_generator(random_state)
    coef = rng.standard_normal(n_features)
    # Within a group the scores have the variance density |coef|^2, and a little more by
    # the shifts. It is made 2^2.
    coef *= 2.0 / np.sqrt(density * (coef @ coef))
    expected_scores = bias * (np.linspace(0, 1, n_groups) - 0.5)
    # Stored entries of mean delta sign(coef) add delta density sum |coef| to a score.
    deltas = expected_scores / (density * np.abs(coef).sum())
    means = deltas[:, None] * np.sign(coef)  # (n_groups, n_features)
    # 2. Groups and rows.
    groups = rng.integers(0, n_groups, size=n_samples)
    groups[:n_groups] = np.arange(n_groups)  # none is empty
    groups = rng.permutation(groups)
    if density < 1:
        X: Any = _sparse_rows(groups, means, density, rng)
    else:
        X = rng.standard_normal((n_samples, n_features))
        for rows in _batches(n_samples):
            X[rows] += means[groups[rows]]
    # 3. Labels of the logistic model.
    target = (rng.random(n_samples) < expit(X @ coef)).astype(np.int64)
    return Bunch(
        data=X,
        target=target,
        sensitive_features=groups,
        coef=coef,
        DESCR=_BIASED_DESCR.format(n_samples, n_features, density, n_groups, bias),
    )


def _batches(n_rows: int) -> Iterator[slice]:
    """Batches of rows that are changed together: their arrays stay in the cache."""
    yield from gen_batches(n_rows, 8192)


def _sparse_rows(
    groups: Ints, means: Floats, density: float, rng: np.random.Generator
) -> sparse.csr_array:
    """Return sparse normal rows; stored entries are shifted by their group's mean."""
    n_features = means.shape[1]
    # 1. Which entries are stored, a batch of rows at a time. Time and memory are
    #    O(stored entries): cells are never visited one by one.
    lengths, columns = [], []
    for rows in _batches(groups.size):
        n_rows = rows.stop - rows.start
        cells = _draw_cells(n_rows * n_features, density, rng)
        row, column = np.divmod(cells, n_features)
        lengths.append(np.bincount(row, minlength=n_rows))
        columns.append(column.astype(np.int32))
    indices = np.concatenate(columns)
    indptr: NDArray[Any] = np.append(0, np.cumsum(np.concatenate(lengths)))
    if indices.size <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)
    # 2. Their values.
    values = rng.standard_normal(indices.size)
    for rows in _batches(groups.size):
        # The group of each stored entry, from that of its row.
        members = np.repeat(groups[rows], np.diff(indptr[rows.start : rows.stop + 1]))
        entries = slice(indptr[rows.start], indptr[rows.stop])
        values[entries] += means[members, indices[entries]]
    return sparse.csr_array((values, indices, indptr), shape=(groups.size, n_features))


def _draw_cells(n_cells: int, density: float, rng: np.random.Generator) -> Ints:
    """Draw each of the cells 0, 1, ... with probability `density` < 1, in order."""
    # The distance to the next cell drawn is geometric: an exponential of this rate,
    # rounded up.
    rate = -np.log1p(-density)
    expected = n_cells * density
    # Six standard deviations more than expected: nearly always one round is enough.
    size = int(expected + 6 * np.sqrt(expected)) + 16
    cells = np.empty(0, np.int64)
    last = -1
    # Invariant: `cells` are the cells drawn up to `last`, in order; those past the end
    # are cut off at last.
    while last < n_cells:
        steps = np.ceil(rng.standard_exponential(size) / rate)
        # A step of zero would repeat a cell; steps past the end may overflow.
        np.clip(steps, 1, n_cells + 1, out=steps)
        drawn = last + np.cumsum(steps.astype(np.int64))
        cells, last = np.append(cells, drawn), int(drawn[-1])
    return cells[: np.searchsorted(cells, n_cells)]


_GAUSSIANS_DESCR = """\
Group Gaussians: {} normal rows of {} features in {} groups.
Standard deviations along the principal axes fall like exp(-j / {:g}); the axes of
the groups are a common basis, turned a little (tilt {:g}).
"""


@documented(**TEXTS)
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
    :math:`\Lambda_g` holds :math:`e^{-2 j / \mathrm{decay}}` times squares of
    log-normal factors, and :math:`Q_g` is a common random basis plus normal noise of
    norm about `tilt` per vector, made orthonormal again. PCA of all rows then suits the
    large group better than the small ones.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows. With 325,834 and 173 features, like the crop data of [1]_.
    n_features : int, default=20
        Number of features.
    group_probabilities : sequence of float, default=(0.88, 0.12)
        Probability of each group; they sum to 1. Every group gets a row.
    decay : float, default=25.0
        Features over which the standard deviations fall by a factor e.
    tilt : float, default=0.3
        How far the groups' axes are turned: 0 gives common axes.
    spread : float, default=0.3
        Standard deviation of the logarithms of the groups' factors.
    %(random_state)s

    Returns
    -------
    data : Bunch
        - data : ndarray of float64, shape (n_samples, n_features)
        - sensitive_features : ndarray of int, shape (n_samples,), the group
        - covariances : ndarray of shape (n_groups, n_features, n_features), exact
        - DESCR : str

    %(raises)s

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
    shares = check_shares(group_probabilities)
    check_count("n_samples", n_samples, shares.size, "one for each group")
    check_count("n_features", n_features, 1)
    if not 0 < decay < np.inf:
        raise ValueError(f"decay must be positive and finite, got {decay}.")
    for name, number in [("tilt", tilt), ("spread", spread)]:
        if not 0 <= number < np.inf:
            raise ValueError(f"{name} must be nonnegative and finite, got {number}.")
    rng = random_generator(random_state)
    n = n_features
    # 1. Matrices R_g = Lambda_g^(1/2) Q_g^T: the covariance is R_g^T R_g.
    roots = np.empty((shares.size, n, n))
    basis, _ = np.linalg.qr(rng.standard_normal((n, n)))
    deviations = np.exp(-np.arange(n) / decay)
    for root in roots:
        # Columns of norm about 1, so that `tilt` is the norm of the noise per axis.
        noise = rng.standard_normal((n, n)) / np.sqrt(n)
        axes, _ = np.linalg.qr(basis + tilt * noise)
        factors = np.exp(spread * rng.standard_normal(n))
        root[...] = (deviations * factors)[:, None] * axes.T
    # 2. Groups, and standard normal rows times the R_g of their group.
    groups = draw_groups(n_samples, shares, rng)
    X = rng.standard_normal((n_samples, n))
    for rows in _batches(n_samples):
        for g, root in enumerate(roots):
            members = rows.start + np.flatnonzero(groups[rows] == g)
            # A row z of standard normals becomes z R_g: its covariance is R_g^T R_g.
            X[members] = X[members] @ root
    return Bunch(
        data=X,
        sensitive_features=groups,
        covariances=roots.transpose(0, 2, 1) @ roots,
        DESCR=_GAUSSIANS_DESCR.format(n_samples, n, shares.size, decay, tilt),
    )


_AFFINITY_DESCR = """\
RandLaplace: a dense random symmetric affinity of {n_samples} samples and {n_groups}
groups assigned at random. There are no clusters to find.
"""


@documented(**TEXTS)
def make_random_affinity(
    n_samples: int,
    *,
    n_groups: int = 2,
    group_probabilities: Sequence[float] | None = None,
    random_state: Any = None,
) -> Bunch:
    """Generate a dense random affinity with random groups (RandLaplace).

    There are no clusters: it serves to measure the cost of solvers. No group is empty.

    Parameters
    ----------
    n_samples : int
        Number of samples, at least `n_groups`.
    n_groups : int, default=2
        Number of groups, at least 1.
    group_probabilities : sequence of float, shape (n_groups,), default=None
        Positive, of sum one. By default (0.7, 0.3) for two, as in [1]_, else equal.
    %(random_state)s

    Returns
    -------
    data : Bunch
        - affinity : ndarray of shape (n_samples, n_samples), symmetric, entries
          uniform in [0, 1), zero diagonal
        - sensitive_features : ndarray of int, shape (n_samples,), group, from 0
        - DESCR : str

    %(raises)s

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
    # The upper triangle, mirrored.
    affinity = np.triu(rng.random((n_samples, n_samples)), k=1)
    affinity += affinity.T
    groups = rng.choice(n_groups, size=n_samples, p=shares).astype(np.int64)
    # An empty group gets a sample of the largest one.
    counts = np.bincount(groups, minlength=n_groups)
    for empty in np.flatnonzero(counts == 0):
        largest = np.bincount(groups).argmax()
        groups[rng.choice(np.flatnonzero(groups == largest))] = empty
    return Bunch(
        affinity=affinity,
        sensitive_features=groups,
        DESCR=_AFFINITY_DESCR.format(n_samples=n_samples, n_groups=n_groups),
    )


_ELLIPTICAL_DESCR = """\
Elliptical: {n_samples} points of the plane in two long horizontal ellipses, one above
the other. The groups are the left and the right halves, further apart than the
ellipses, which are the fair clusters (balance 1). A re-creation with the properties
described in the literature, not the original points of Feng et al. (2024).
"""


@documented(**TEXTS)
def make_elliptical(n_samples: int = 600, *, random_state: Any = None) -> Bunch:
    """Generate two ellipses that are fair clusters, cut across by two groups.

    Two long ellipses, one above the other, whose left and right halves are the groups,
    further apart than the ellipses: plain clustering follows the groups. A re-creation
    with the properties described in [1]_ and [2]_.

    Parameters
    ----------
    n_samples : int, default=600
        Number of points, at least 4; the four half ellipses differ by at most one.
    %(random_state)s

    Returns
    -------
    data : Bunch
        - data : ndarray of shape (n_samples, 2)
        - sensitive_features : ndarray of int, shape (n_samples,), 0 left, 1 right
        - target : ndarray of int, shape (n_samples,), 0 lower ellipse, 1 upper
        - DESCR : str

    %(raises)s

    References
    ----------
    .. [1] R. Feng, C. Zhong, T. Pan, "Fair Spectral Clustering Based on Coordinate
       Descent", Symmetry 17(1):12, 2024.
    .. [2] F. Tonin, A. Lambert, J. A. K. Suykens, V. Cevher, "Accelerating Spectral
       Clustering under Fairness Constraints", ICML 2025, figures 2 and 9.

    Examples
    --------
    >>> from scalefair.datasets import make_elliptical
    >>> make_elliptical(200, random_state=0).data.shape
    (200, 2)
    """
    check_count("n_samples", n_samples, 4)
    rng = random_generator(random_state)
    # Quarters: lower left, lower right, upper left, upper right.
    quarter = rng.permutation(np.arange(n_samples, dtype=np.int64) % 4)
    upper, right = np.divmod(quarter, 2)
    angle = rng.uniform(-np.pi / 2, np.pi / 2, size=n_samples)
    radius = np.sqrt(rng.random(n_samples))  # uniform over the area
    # Ellipses of half axes 4 and 0.5: their halves are 2 apart, the ellipses 1. All
    # points are of a right half until the sign 2 right - 1 mirrors those of left ones.
    x = 4.0 * radius * np.cos(angle) + 2.0 / 2
    y = 0.5 * radius * np.sin(angle)
    centre = 0.5 + 1.0 / 2
    points = np.column_stack([(2 * right - 1) * x, y + (2 * upper - 1) * centre])
    return Bunch(
        data=points,
        sensitive_features=right,
        target=upper,
        DESCR=_ELLIPTICAL_DESCR.format(n_samples=n_samples),
    )
