"""Scores, losses and sums above edges against NumPy."""

import numpy as np
import pytest
from scipy import sparse

from scalefair.kernels import (
    LOGISTIC,
    _arrays,
    row_scores,
    score_losses,
    score_pass,
    weighted_row_sums,
)
from scalefair.kernels._arrays import row_table

EDGES = np.array([-1.0, -0.25, 0.0, 0.0, 1.5])


def problem(m=500, n=7, n_codes=3, dtype=np.float64):
    """Rows, codes, labels and coefficients that make scores multiples of 1/8."""
    rng = np.random.default_rng(0)
    X = rng.integers(-3, 4, (m, n)) * (rng.random((m, n)) < 0.4)
    X[:: max(m // 5, 2)] = 0  # rows without entries
    codes = rng.integers(0, n_codes, m)
    codes[: min(m, n_codes)] = np.arange(n_codes)[: min(m, n_codes)]
    signs = rng.choice([-1.0, 1.0], m)
    B = rng.integers(-4, 5, (n_codes, n + 1)) / 8
    return sparse.csr_array(X.astype(dtype)), codes, signs, B


def definition(Z, codes, signs, h, n_codes, n_powers):
    """Logistic loss; gradient, moments and sums above the edges."""
    of_code = codes == np.arange(n_codes)[:, None]
    above = of_code[:, None] & (h > EDGES[:, None])
    slopes = -signs / (1 + np.exp(signs * h))
    gradient = (of_code * slopes) @ Z
    moments = np.stack([above @ h**power for power in range(3)], axis=2)
    sums = np.stack([(above * h**power) @ Z for power in range(n_powers)], axis=2)
    return np.logaddexp(0, -signs * h).sum(), gradient, moments, sums


def check(actual, expected):
    for a, e in zip(actual, expected, strict=True):
        assert a.shape == e.shape
        scale = np.abs(e).max(initial=1.0)
        np.testing.assert_allclose(a, e, rtol=0, atol=1e-12 * scale)


# Around multiples of the blocks of 128 rows and the chunks of 2048.
@pytest.mark.parametrize(("m", "n_codes"), [(1, 1), (127, 5), (129, 1), (4097, 5)])
def test_numbers_of_rows(m, n_codes, same_bits):
    X, codes, signs, B = problem(m, n_codes=n_codes)
    Z = np.column_stack([X.toarray(), np.ones(m)])
    weights = np.random.default_rng(1).standard_normal((m, 6))
    for rows in (X, X.toarray()):
        table, selected = row_table(rows), (LOGISTIC, B, EDGES, 0.0, 2)
        same_bits(lambda t=table, a=selected: score_pass(t, codes, signs, *a))
        weighted = same_bits(
            lambda t=table: weighted_row_sums(t, codes, weights, B.shape)
        )
        expected = [Z[codes == k].T @ weights[codes == k] for k in range(n_codes)]
        np.testing.assert_allclose(weighted, expected, rtol=0, atol=1e-10)
    h = (Z * B[codes]).sum(axis=1)
    assert m < 500 or np.isin(EDGES, h).any()  # ties of scores and edges
    for n_powers in (1, 2):
        options = LOGISTIC, B, EDGES, 0.0, n_powers
        loss, *actual = score_pass(row_table(X), codes, signs, *options)
        total, *expected = definition(Z, codes, signs, h, n_codes, n_powers)
        assert loss == pytest.approx(total, rel=1e-13)
        check(actual, expected)
    np.testing.assert_allclose(row_scores(row_table(X), codes, B), h, atol=1e-13)


def test_logistic_loss_of_huge_scores():
    scores = np.array([800.0, -800.0, 1e300, -1e300])
    total, slopes = score_losses(scores, np.ones(4), LOGISTIC)
    assert total == pytest.approx(1e300)
    assert slopes.tolist() == [-0.0, -1.0, -0.0, -1.0]


def test_single_precision_and_long_indices(monkeypatch):
    # Few rows are converted to float64 and 32-bit indices: here they are not.
    monkeypatch.setattr(_arrays, "SMALL_SIZE", 0)
    X, codes, signs, B = problem(dtype=np.float32)
    X.indptr, X.indices = X.indptr.astype(np.int64), X.indices.astype(np.int64)
    table = row_table(X)
    assert [a.dtype for a in table] == [np.int64, np.uint64, np.float32]
    wide = row_table(X.astype(np.float64))
    actual = score_pass(table, codes, signs, LOGISTIC, B, EDGES, 0.0, 2)
    expected = score_pass(wide, codes, signs, LOGISTIC, B, EDGES, 0.0, 2)
    check(actual[1:], expected[1:])
    assert actual[1].dtype == np.float64
