"""Rows with binary labels whose groups differ in every feature a little."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit
from sklearn.utils import Bunch

from scalefair._random import random_generator
from scalefair.datasets._checks import check_count

# Rows that are drawn together.
_ROWS = 8192
# Standard deviation of the scores within a group.
_SPREAD = 2.0

_DESCR = """\
Biased rows: {n_samples} normal rows of {n_features} features, density {density:g}, in
{n_groups} groups of equal probability, with labels from a logistic model. The expected
scores of the groups are equally spaced, {bias:g} from the first to the last. `coef` is
the model's coefficients; its intercept is zero.
"""


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

    So each feature tells a little of the group, and an accurate model ranks the groups
    differently without being told them.

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
        Difference of the expected scores of the last and the first group. 0 makes the
        groups alike.
    random_state : int, RandomState instance or None, default=None
        Determines everything.

    Returns
    -------
    data : Bunch
        With the entries

        - data : csr_array with sorted indices or, for density 1, ndarray; float64,
          shape (n_samples, n_features)
        - target : ndarray of int, shape (n_samples,), 0 or 1
        - sensitive_features : ndarray of int, shape (n_samples,), the group
        - coef : ndarray of shape (n_features,)
        - DESCR : str

    Raises
    ------
    ValueError
        If a number is out of range.

    Notes
    -----
    Rows are drawn in blocks, in time proportional to the stored entries and in memory
    of less than twice the result: a million rows of 200 features at density 0.1 take
    240 MB and a few seconds.

    Examples
    --------
    >>> from scalefair.datasets import make_biased_rows
    >>> data = make_biased_rows(10_000, 50, density=0.1, random_state=0)
    >>> data.data.shape
    (10000, 50)
    >>> groups, y = data.sensitive_features, data.target
    >>> bool(y[groups == 1].mean() > y[groups == 0].mean() + 0.2)
    True
    """
    _check(n_samples, n_features, density, n_groups, bias)
    rng = random_generator(random_state)
    coef = rng.standard_normal(n_features)
    coef *= _SPREAD / np.sqrt(density * (coef @ coef))
    shifts = _mean_entries(coef, density, n_groups, bias)
    groups = rng.integers(0, n_groups, size=n_samples)
    groups[:n_groups] = np.arange(n_groups)  # none is empty
    groups = rng.permutation(groups)
    if density == 1:
        X: Any = _dense_rows(groups, shifts, rng)
    else:
        X = _sparse_rows(groups, shifts, density, rng)
    target = (rng.random(n_samples) < expit(X @ coef)).astype(np.int64)
    return Bunch(
        data=X,
        target=target,
        sensitive_features=groups,
        coef=coef,
        DESCR=_DESCR.format(
            n_samples=n_samples,
            n_features=n_features,
            density=density,
            n_groups=n_groups,
            bias=bias,
        ),
    )


def _check(
    n_samples: int, n_features: int, density: float, n_groups: int, bias: float
) -> None:
    check_count("n_groups", n_groups, 2)
    check_count("n_samples", n_samples, n_groups, "one for each group")
    check_count("n_features", n_features, 1)
    if not 0 < density <= 1:
        raise ValueError(f"density must be in (0, 1], got {density}.")
    if not np.isfinite(bias):
        raise ValueError(f"bias must be finite, got {bias}.")


def _mean_entries(
    coef: NDArray[np.float64], density: float, n_groups: int, bias: float
) -> NDArray[np.float64]:
    """Means of the stored entries, shape (n_groups, n_features)."""
    expected_scores = bias * (np.linspace(0, 1, n_groups) - 0.5)
    deltas = expected_scores / (density * np.abs(coef).sum())
    means: NDArray[np.float64] = deltas[:, None] * np.sign(coef)
    return means


def _dense_rows(
    groups: NDArray[np.int64], shifts: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    X = np.empty((groups.shape[0], shifts.shape[1]))
    for start in range(0, groups.shape[0], _ROWS):
        rows = slice(start, start + _ROWS)
        rng.standard_normal(out=X[rows])
        X[rows] += shifts[groups[rows]]
    return X


def _sparse_rows(
    groups: NDArray[np.int64],
    shifts: NDArray[np.float64],
    density: float,
    rng: np.random.Generator,
) -> sparse.csr_array:
    n_samples, n_features = groups.shape[0], shifts.shape[1]
    indptr, indices = _draw_pattern(n_samples, n_features, density, rng)
    values = np.empty(indices.shape[0])
    for start in range(0, n_samples, _ROWS):
        stop = min(start + _ROWS, n_samples)
        members = np.repeat(groups[start:stop], np.diff(indptr[start : stop + 1]))
        entries = slice(indptr[start], indptr[stop])
        rng.standard_normal(out=values[entries])
        values[entries] += shifts[members, indices[entries]]
    return sparse.csr_array((values, indices, indptr), shape=(n_samples, n_features))


def _draw_pattern(
    n_samples: int, n_features: int, density: float, rng: np.random.Generator
) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Row pointers and sorted column indices of the stored entries."""
    lengths, columns = [], []
    for start in range(0, n_samples, _ROWS):
        n_rows = min(_ROWS, n_samples - start)
        cells = _draw_cells(n_rows * n_features, density, rng)
        row, column = np.divmod(cells, n_features)
        lengths.append(np.bincount(row, minlength=n_rows))
        columns.append(column.astype(np.int32))
    indptr = np.append(0, np.cumsum(np.concatenate(lengths)))
    if indptr[-1] <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)
    return indptr, np.concatenate(columns)


def _draw_cells(
    n_cells: int, density: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Take each of the cells with probability `density`; return those, in order."""
    # The distance to the next cell taken is geometric, an exponential rounded up: no
    # draw for the cells that are not taken.
    rate = -np.log1p(-density)
    expected = n_cells * density
    size = int(expected + 6 * np.sqrt(expected)) + 16
    cells = np.empty(0, np.int64)
    last = -1
    while last < n_cells:
        steps = np.ceil(rng.standard_exponential(size) / rate)
        # An exponential of zero would take a cell twice; steps past the end may be
        # too large for an integer.
        np.clip(steps, 1, n_cells + 1, out=steps)
        more = last + np.cumsum(steps.astype(np.int64))
        cells, last = np.append(cells, more), int(more[-1])
    return cells[: np.searchsorted(cells, n_cells)]
