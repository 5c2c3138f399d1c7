"""Streamed operators against the moments formed from their definition."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalefair.operators import (
    StreamedCovariance,
    StreamedSecondMoment,
    StreamedSquaredDifferences,
)

M, N = 230, 17


def rows(m=M, n=N, seed=0):
    rng = np.random.default_rng(seed)
    return np.maximum(rng.standard_normal((m, n)) + rng.standard_normal(n), 0)


def random_codes(m=M, n_groups=3, seed=1):
    codes = np.random.default_rng(seed).integers(n_groups, size=m)
    codes[:n_groups] = np.arange(n_groups)
    return codes


def in_batches(A, codes, size=32):
    def batches():
        for start in range(0, len(A), size):
            yield A[start : start + size], codes[start : start + size]

    return batches


def covariances(A, codes):
    """By definition, divisor N_g - 1, zero for one row; shape (G, n, n)."""
    out = []
    for g in range(codes.max() + 1):
        part = A[codes == g] - A[codes == g].mean(axis=0)
        out.append(part.T @ part / max(len(part) - 1, 1))
    return np.array(out)


@pytest.fixture(params=[2, 3, 5])
def problem(request):
    A, codes = rows(), random_codes(n_groups=request.param)
    return A, codes, request.param


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_covariance(problem, size):
    A, codes, G = problem
    weights = np.linspace(-1, 2, G)
    C = StreamedCovariance(in_batches(A, codes, size), G, weights)
    dense = np.tensordot(weights, covariances(A, codes), axes=1)
    np.testing.assert_allclose(C @ np.eye(N), dense, atol=1e-12)
    np.testing.assert_array_equal(C.counts, np.bincount(codes))
    means = [A[codes == g].mean(axis=0) for g in range(G)]
    np.testing.assert_allclose(C.means, means, atol=1e-13)


def test_pair_differences_share_passes(problem):
    A, codes, G = problem
    C = StreamedCovariance(in_batches(A, codes), G, np.zeros(G))
    dense = covariances(A, codes)
    for a, b in combinations(range(G), 2):
        pair = np.zeros(G)
        pair[[a, b]] = -1, 1
        product = C.with_weights(pair) @ np.eye(N)
        np.testing.assert_allclose(product, dense[b] - dense[a], atol=1e-12)
    assert C.n_passes == 1 + G * (G - 1) // 2
    assert not C.weights.any()


def test_second_moment(problem):
    A, codes, G = problem
    C = StreamedCovariance(in_batches(A, codes), G, np.ones(G))
    S = StreamedSecondMoment(C)
    np.testing.assert_allclose(S @ np.eye(N), A.T @ A, rtol=1e-12)
    assert S.n_passes == C.n_passes == 2


def test_squared_differences(problem):
    A, codes, G = problem
    C = StreamedCovariance(in_batches(A, codes), G, np.ones(G))
    dense = covariances(A, codes)
    expected = sum(
        (dense[b] - dense[a]) @ (dense[b] - dense[a])
        for a, b in combinations(range(G), 2)
    )
    product = StreamedSquaredDifferences(C) @ np.eye(N)
    np.testing.assert_allclose(product, expected, atol=1e-11)
    assert C.n_passes == 3  # two for the product, however many pairs


def test_products_of_each_group_in_one_pass(problem):
    A, codes, G = problem
    C = StreamedCovariance(in_batches(A, codes), G, np.ones(G))
    V = np.random.default_rng(2).standard_normal((N, 4))
    dense = covariances(A, codes)
    np.testing.assert_allclose(C.code_products(V), dense @ V, atol=1e-12)
    np.testing.assert_allclose(C.compress(V), V.T @ dense @ V, atol=1e-12)
    assert C.n_passes == 3
    assert C.code_products(V[:, :0]).shape == (G, N, 0)
    assert C.compress(V[:, :0]).shape == (G, 0, 0)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_order_of_rows_and_names_of_groups(seed):
    rng = np.random.default_rng(seed)
    A, codes = rows(60, 5), random_codes(60)
    order, names = rng.permutation(60), rng.permutation(3)
    V = rng.standard_normal((5, 2))
    weights = rng.standard_normal(3)
    C = StreamedCovariance(in_batches(A, codes, 11), 3, weights)
    renamed = np.empty(3)
    renamed[names] = weights
    other = StreamedCovariance(in_batches(A[order], names[codes[order]], 8), 3, renamed)
    np.testing.assert_allclose(other @ V, C @ V, atol=1e-12)
    squares, others = StreamedSquaredDifferences(C), StreamedSquaredDifferences(other)
    np.testing.assert_allclose(others @ V, squares @ V, atol=1e-11)


def test_a_group_of_one_row_has_no_covariance():
    A, codes = rows(20, 3), np.zeros(20, int)
    codes[7] = 1
    C = StreamedCovariance(in_batches(A, codes, 6), 2, [-1, 1])
    np.testing.assert_allclose(C @ np.eye(3), -covariances(A, codes)[0], atol=1e-13)
    assert not C.compress(np.eye(3))[1].any()
    assert not C.code_products(np.eye(3))[1].any()
    np.testing.assert_array_equal(C.means[1], A[7])


def test_far_from_the_origin():
    # Sums of squares alone would lose twelve of sixteen digits.
    A, codes = rows() + 1e6, random_codes(n_groups=2)
    C = StreamedCovariance(in_batches(A, codes), 2, [-1, 1])
    dense = covariances(A - 1e6, codes)
    np.testing.assert_allclose(C @ np.eye(N), dense[1] - dense[0], atol=1e-8)


def test_rows_of_other_types_and_layouts():
    codes = random_codes(n_groups=2)
    for A in (
        rows().astype(np.float32),
        np.asfortranarray(rows()),
        (10 * rows()).astype(int),
        rows(n=2 * N)[:, ::2],
    ):
        C = StreamedCovariance(in_batches(A, codes), 2, [-1, 1])
        dense = covariances(A.astype(float), codes)
        np.testing.assert_allclose(C @ np.eye(N), dense[1] - dense[0], atol=1e-10)


@pytest.mark.parametrize(
    ("A", "codes", "message"),
    [
        (rows(6), [0, 0, 0, 0, 0, 0], "Group 1 has no row"),
        (rows(0), [], "There is no row"),
        (rows(6), [0, 1, 0, 1, 2, 0], "between 0 and 1"),
        (rows(6), [0, 1, 0, 1, -1, 0], "between 0 and 1"),
        (rows(6), [0, 1, 0, 1, 0.0, 0], "6 integers"),
        (rows(6), [0, 1], "6 integers, one for each row"),
        (rows(6)[0], [0, 1], "must be a table"),
        (np.diag([1.0, np.nan]), [0, 1], r"the first at row 1, column 1 \(nan\)"),
        (np.diag([1e200, 2e200]), [0, 0], "squares .* overflow: rescale"),
    ],
)
def test_refuses_batches(A, codes, message):
    codes = np.array(codes) if len(codes) else np.empty(0, int)
    with pytest.raises(ValueError, match=message):
        StreamedCovariance(lambda: [(A, codes)], 2, [-1, 1])


def test_refuses_batches_of_other_widths():
    two = [(np.ones((2, 3)), np.array([0, 1])), (np.ones((2, 4)), np.array([0, 1]))]
    with pytest.raises(ValueError, match="4 entries"):
        StreamedCovariance(lambda: two, 2, [-1, 1])


def test_rows_are_counted_over_the_batches():
    bad = np.diag([1.0, np.inf])
    batches = [(np.ones((5, 2)), np.zeros(5, int)), (bad, np.array([0, 1]))]
    with pytest.raises(ValueError, match=r"the first at row 6, column 1 \(inf\)"):
        StreamedCovariance(lambda: batches, 2, [-1, 1])


def test_refuses_rows_that_are_gone_in_the_second_pass():
    once = iter([(rows(6), np.array([0, 1, 0, 1, 0, 1]))])
    C = StreamedCovariance(lambda: once, 2, [-1, 1])
    with pytest.raises(ValueError, match="start anew"):
        C @ np.ones(N)


def test_refuses_complex_rows():
    with pytest.raises(TypeError, match="real"):
        StreamedCovariance(lambda: [(1j * rows(2), np.array([0, 1]))], 2, [-1, 1])
