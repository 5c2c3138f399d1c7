"""Moments of groups that are known as probabilities: rows count by entries."""

from itertools import pairwise

import dask
import dask.array
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from scalefair.files import open_rows
from scalefair.streaming import GroupMoments, _blocks

M, H = 300, 3
NAMES = ["a", "b", "c"]


def probabilities(seed=0):
    """Probabilities of three groups; nothing is known of rows 0 to 40 and some more."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet([0.5] * H, M)
    P[rng.random(P.shape) < 0.3] = 0.0
    P[P.sum(axis=1) == 0] = [1.0, 0.0, 0.0]
    P /= P.sum(axis=1, keepdims=True)
    P[:41] = P[::11] = 0.0
    return pd.DataFrame(P, columns=NAMES)


P = probabilities()
CODES = np.random.default_rng(1).integers(0, H, M)
WEIGHTS = np.random.default_rng(2).integers(0, 4, M).astype(np.float64)


def table(n, density=1.0):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((M, n)) * (1 + 2 * (CODES == 1))[:, None] + 100 * (
        density == 1
    )
    X[rng.random(X.shape) >= density] = 0.0
    return X


def expected_moments(X, A):
    """Counts, means and scatter matrices of weighted entries A (M, H)."""
    counts = A.sum(axis=0)
    means = A.T @ X / counts[:, None]
    offsets = X - means[:, None]
    return counts, means, np.einsum("gi,gij,gik->gjk", A.T, offsets, offsets)


def assert_moments(moments, expected, rtol=1e-12):
    counts, means, scatters = expected
    np.testing.assert_allclose(moments.counts, counts, rtol=rtol)
    np.testing.assert_allclose(moments.means, means, rtol=rtol, atol=rtol)
    atol = 10 * rtol * np.abs(scatters).max()
    np.testing.assert_allclose(moments.scatters, scatters, rtol=rtol, atol=atol)


def assert_same(moments, other, rtol=1e-12):
    np.testing.assert_array_equal(moments.groups, other.groups)
    assert_moments(moments, (other.counts, other.means, other.scatters), rtol)


@pytest.mark.parametrize(
    ("weights", "block_bytes"), [(None, 2**26), (WEIGHTS, 4000)], ids=["1", "w"]
)
@pytest.mark.parametrize(
    ("n", "density", "form"),
    [
        (6, 1.0, np.asarray),
        (6, 1.0, np.asfortranarray),
        (250, 1.0, np.asarray),  # scatter matrices of BLAS
        (200, 0.01, sparse.csr_array),  # sparse products
        (6, 0.5, sparse.csr_array),  # dense blocks
    ],
)
def test_moments_are_those_of_weighted_entries(
    n, density, form, block_bytes, weights, monkeypatch
):
    monkeypatch.setattr(_blocks, "BLOCK_BYTES", block_bytes)
    X = table(n, density)
    A = P.to_numpy() * (1 if weights is None else weights[:, None])
    rows = form(X)
    moments = GroupMoments.from_data(rows, group_probabilities=P, sample_weight=weights)
    assert moments.groups.tolist() == NAMES
    assert_moments(moments, expected_moments(X, A))
    # The moments see the probabilities.
    with pytest.raises(AssertionError):
        assert_moments(moments, expected_moments(X, A**2))


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_one_hot_is_hard(weights, tmp_path):
    X = table(6)
    labels, one_hot = np.array(NAMES)[CODES], pd.get_dummies(np.array(NAMES)[CODES])
    np.save(tmp_path / "X.npy", X)
    for rows in (
        X,
        X.astype(np.float32),
        sparse.csr_array(X),
        open_rows(tmp_path / "X.npy", max_bytes=4000),
        dask.array.from_array(X, (70, 6)),
    ):
        hard = GroupMoments.from_data(rows, labels, sample_weight=weights)
        soft = GroupMoments.from_data(
            rows, group_probabilities=one_hot, sample_weight=weights
        )
        assert_same(soft, hard)


def test_rows_in_parts_are_rows_in_memory(tmp_path):
    X = table(6)
    expected = GroupMoments.from_data(X, group_probabilities=P, sample_weight=WEIGHTS)
    np.save(tmp_path / "X.npy", X)
    cuts = list(pairwise((0, 40, 40, 170, M)))  # the first has no row of a group
    parts, weights = ([dask.delayed(x[a:b]) for a, b in cuts] for x in (X, WEIGHTS))
    for rows, of_rows in (
        (open_rows(tmp_path / "X.npy", max_bytes=1900), WEIGHTS),
        (parts, WEIGHTS),
        (parts, weights),
    ):
        moments = GroupMoments.from_data(
            rows, group_probabilities=P, sample_weight=of_rows
        )
        assert_same(moments, expected)


def test_rows_one_after_the_other_with_groups_and_with_probabilities(tmp_path):
    X = table(6)
    moments = GroupMoments.from_data(X, group_probabilities=P)
    permuted = GroupMoments.from_data(X, group_probabilities=P[["c", "a", "b"]])
    assert_same(permuted, moments)
    updated = GroupMoments.from_data(X[:200], group_probabilities=P[:200])
    assert_same(updated.update(X[200:], group_probabilities=P[200:]), moments)
    updated.update(X, np.array(NAMES)[CODES]).save(tmp_path / "moments.npz")
    both = moments.merge(GroupMoments.from_data(X, np.array(NAMES)[CODES]))
    assert_same(GroupMoments.load(tmp_path / "moments.npz"), both)


def test_what_is_refused():
    X = table(6)
    for arguments in ({}, {"groups": CODES, "group_probabilities": P}):
        with pytest.raises(TypeError, match=r"got (neither|both)"):
            GroupMoments.from_data(X, **arguments)
    with pytest.raises(ValueError, match=r"a row for each of the 300 samples"):
        GroupMoments.from_data(X, group_probabilities=P[1:])
    wrong = P.copy()
    wrong.loc[70, "b"] = -0.5
    with pytest.raises(ValueError, match=r"first in row 70, column 'b' \(-0.5\)"):
        GroupMoments.from_data(X, group_probabilities=wrong)
    no_weight = np.where(P["b"] > 0, 0.0, 1.0)
    moments = GroupMoments.from_data(X, group_probabilities=P, sample_weight=no_weight)
    assert "b" not in moments.groups  # as hard groups without weight
    row = 200
    assert P.iloc[row].any()
    X[row, 4] = np.nan
    for rows in (X, sparse.csr_array(X)):
        with pytest.raises(ValueError, match=rf"first at row {row}, column 4 \(nan\)"):
            GroupMoments.from_data(rows, group_probabilities=P)
