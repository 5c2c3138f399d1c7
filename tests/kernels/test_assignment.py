"""Rows assigned to columns and to centres, against NumPy."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from scalefair.kernels import (
    best_columns,
    box_widths,
    capped_distances,
    count_open,
    list_open,
    move_along_paths,
    nearest_centres,
    soft_columns,
)


def problem(n=200, k=5, n_kinds=3, seed=0):
    """Costs, kinds in order, where each kind starts, and prices."""
    rng = np.random.default_rng(seed)
    kinds = np.sort(rng.integers(0, n_kinds, n))
    kinds[:n_kinds] = 0
    offsets = np.searchsorted(kinds, np.arange(n_kinds + 1))
    return rng.random((n, k)), kinds, offsets, rng.standard_normal((n_kinds, k)) / 10


def chunks_of(offsets, n_parts=3):
    """Parts of each kind, one of them without rows."""
    chunks = []
    for kind, (start, stop) in enumerate(pairwise(offsets)):
        cuts = [start, *np.linspace(start, stop, n_parts).astype(int)]
        chunks += [(i, j, kind) for i, j in pairwise(cuts)]
    return np.array(chunks)


@pytest.mark.parametrize("temperature", [0.0, 1e-3, 0.1, 10.0])
def test_soft_columns(temperature, with_threads):
    C, kinds, offsets, prices = problem()
    reduced = C + prices[kinds]
    if temperature:
        scaled = -reduced / temperature
        low = -temperature * logsumexp(scaled, axis=1)
        shares = np.exp(scaled - logsumexp(scaled, axis=1, keepdims=True))
    else:
        low = reduced.min(axis=1)
        shares = np.eye(C.shape[1])[reduced.argmin(axis=1)]
    chunks = chunks_of(offsets)

    def call():
        counts, values = np.full((len(chunks), 5), np.nan), np.full(len(chunks), np.nan)
        soft_columns(C, chunks, prices, temperature, counts, values)
        return counts, values

    counts, values = with_threads(1, call)
    for (start, stop, _), count, value in zip(chunks, counts, values, strict=True):
        np.testing.assert_allclose(count, shares[start:stop].sum(axis=0), atol=1e-10)
        assert value == pytest.approx(low[start:stop].sum(), rel=1e-12, abs=1e-12)
    for one, two in zip((counts, values), with_threads(2, call), strict=True):
        assert np.array_equal(one, two)


def best_of(C, kinds, prices):
    best = np.empty(len(C), np.int64)
    low, second = np.empty(len(C)), np.empty(len(C))
    best_columns(C, kinds, prices, best, low, second)
    return best, low, second


@pytest.mark.parametrize("k", [1, 2, 5])
def test_best_columns(k):
    C, kinds, _, prices = problem(k=k)
    C[0], prices[0] = 0.5, 0.0  # ties: the first column is taken
    reduced = C + prices[kinds]
    ordered = np.sort(np.column_stack([reduced, np.full(len(C), np.inf)]), axis=1)
    best, low, second = best_of(C, kinds, prices)
    assert np.array_equal(best, reduced.argmin(axis=1))
    assert np.array_equal(low, ordered[:, 0])
    np.testing.assert_allclose(second, ordered[:, 1] - ordered[:, 0], atol=1e-15)


@pytest.mark.parametrize("rank", [0, 3, 10**6])
def test_box_widths(rank):
    C, kinds, offsets, prices = problem()
    best, low, second = best_of(C, kinds, prices)
    widths = np.empty_like(prices)
    ranks = np.full(prices.shape, rank)
    box_widths(C, offsets, prices, best, low, second, ranks, widths)
    for s, j in np.ndindex(prices.shape):
        rows = kinds == s
        margins = np.where(best == j, second, C[:, j] + prices[s, j] - low)[rows]
        # One more row than the rank changes its column at this change of the price.
        assert widths[s, j] == np.sort(margins)[min(rank, rows.sum() - 1)]


@pytest.mark.parametrize("target", [[2, 2], [1, 1], [2, 1]])
def test_targets_that_do_not_add_up(target):
    labels = np.empty(3, np.int64)
    prices = np.zeros(2)
    failed = move_along_paths(np.zeros((3, 2)), prices, np.array(target), labels)
    assert failed == (sum(target) != 3)


def test_more_surplus_rows_than_are_listed():
    # The cheapest moves are listed 32 at a time: all rows start in the first column.
    rng = np.random.default_rng(0)
    C = np.column_stack([np.zeros(300), 1 + rng.random((300, 2))])
    labels, prices = np.empty(300, np.int64), np.zeros(3)
    target = np.array([20, 130, 150])
    assert move_along_paths(C, prices, target, labels) == 0
    assert np.array_equal(np.bincount(labels), target)
    columns = np.repeat(np.arange(3), target)
    rows, places = linear_sum_assignment(C[:, columns])
    cost = C[np.arange(300), labels].sum()
    assert cost == pytest.approx(C[rows, columns[places]].sum())
    reduced = C + prices  # no row would rather be elsewhere
    assert (reduced[np.arange(300), labels] <= reduced.min(axis=1) + 1e-12).all()


def test_open_columns():
    C, kinds, _, prices = problem()
    best, low, _ = best_of(C, kinds, prices)
    widths = np.random.default_rng(1).random(prices.shape) / 4
    excess = C + prices[kinds] - low[:, None]
    near = excess <= widths[kinds, best][:, None] + widths[kinds]
    near[np.arange(len(C)), best] = False
    assert 0 < near.sum() < near.size / 2

    n_open = np.empty(len(C), np.int64)
    count_open(C, kinds, prices, best, low, widths, n_open)
    assert np.array_equal(n_open, near.sum(axis=1))
    rows, columns = np.empty((2, near.sum()), np.int64)
    excesses = np.empty(near.sum())
    list_open(C, kinds, prices, best, low, widths, rows, columns, excesses)
    assert np.array_equal((rows, columns), np.nonzero(near))
    np.testing.assert_allclose(excesses, excess[near], atol=1e-15)


@pytest.mark.parametrize(("n", "k"), [(1, 1), (7, 3), (1500, 12), (70_000, 2)])
def test_nearest_centres(n, k, same_bits):
    rng = np.random.default_rng(0)
    X, centres = rng.standard_normal((n, 4)), rng.standard_normal((k, 4))
    centres[2:3] = centres[:1]  # the first of equal centres
    apart = cdist(X, centres, "sqeuclidean")
    found = nearest_centres(X, centres)
    same_bits(lambda: nearest_centres(X, centres))
    assert np.array_equal(found.labels, apart.argmin(axis=1))
    np.testing.assert_allclose(found.low, apart.min(axis=1), atol=1e-12)
    member = np.eye(k)[found.labels]
    np.testing.assert_allclose(found.sums, member.T @ X, atol=1e-10)
    assert np.array_equal(found.counts, member.sum(axis=0))
    if k > 1:
        lost = np.diff(np.partition(apart, 1, axis=1)[:, :2])
        np.testing.assert_allclose(found.losses, (member.T @ lost)[:, 0], rtol=1e-9)


@pytest.mark.parametrize("n", [1, 700, 5000])
def test_capped_distances(n, same_bits):
    rng = np.random.default_rng(0)
    X, centres = rng.standard_normal((n, 5)), rng.standard_normal((3, 5))
    centres[1] = X[0]
    low = rng.chisquare(10, n)
    low[n // 2] = np.inf

    def call():
        out = np.full((3, n), np.nan)
        return out, capped_distances(X, centres, low, out)

    out, sums = same_bits(call)
    assert out[1, 0] == 0  # exactly: a row that is taken is not taken again
    expected = np.minimum(cdist(centres, X, "sqeuclidean"), low)
    np.testing.assert_allclose(out, expected, rtol=1e-13)
    np.testing.assert_allclose(sums, expected.sum(axis=1), rtol=1e-12)
