"""Oracle of loss and smoothed shares against NumPy and finite differences."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit

from scalefair.linear_model._oracle import ScoreOracle

THETA = np.array([0.75, -0.5, 0.25, 0.25, 2.0])
LOSSES = ["logistic", "hinge", "squared", "auc", "partial_auc"]
INTERVAL = (0.1, 0.6)


def rows(m=300, n=6, n_groups=3, dtype=np.float64, seed=0):
    """Sparse rows, a few empty, signs and groups; the last group has one row."""
    rng = np.random.default_rng(seed)
    X = sparse.random_array((m, n), density=0.5, rng=rng, dtype=dtype)
    X = sparse.csr_array(X.multiply(rng.random(m)[:, None] > 0.1), dtype=dtype)
    codes = rng.integers(0, max(n_groups - 1, 1), m)
    codes[:n_groups] = np.arange(n_groups)
    return X, rng.choice([-1.0, 1.0], m), codes


def scores_twin(X, codes, w, n_groups, interactions):
    """Scores by the coefficients and intercept of each group, one row after another."""
    W = w.reshape(-1, X.shape[1] + 1)
    B = [W[0] + (W[k] if k and interactions else 0) for k in range(n_groups)]
    return np.array(
        [x @ B[k][:-1] + B[k][-1] for x, k in zip(X.toarray(), codes, strict=True)]
    )


def parts_twin(h, theta, surrogate, corner):
    def above(u):
        if corner == 0:
            return np.maximum(u, 0)
        bent = (u + corner) ** 2 / (4 * corner)
        return np.where(np.abs(u) <= corner, bent, np.maximum(u, 0))

    x = h[:, None] - theta
    if surrogate == "ramp":
        return above(x + 0.5), above(x - 0.5)
    plus = np.where(x <= 0, expit(x), 0.5 + x / 4)
    return plus, plus - expit(x)


def loss_twin(h, signs, loss):
    """Convex part and what is subtracted."""
    margin = signs * h
    if loss == "logistic":
        return np.logaddexp(0, -margin).mean(), 0.0
    if loss == "hinge":
        return np.maximum(1 - margin, 0).mean(), 0.0
    if loss == "squared":
        return 0.5 * ((h - signs) ** 2).mean(), 0.0
    positive, negative = h[signs > 0], np.sort(h[signs < 0])[::-1]
    interval = INTERVAL if loss == "partial_auc" else (0.0, 1.0)
    first, last = (int(np.ceil(r * len(negative))) for r in interval)
    pairs = np.maximum(1 - positive[:, None] + negative, 0)
    n_pairs = len(positive) * (last - first)
    return pairs[:, :last].sum() / n_pairs, pairs[:, :first].sum() / n_pairs


def oracle_of(X, signs, codes, n_groups, **options):
    return ScoreOracle(X, signs, codes, n_groups, auc_interval=INTERVAL, **options)


def random_weights(oracle, seed=1):
    return np.random.default_rng(seed).standard_normal(oracle.n_weights)


shapes = pytest.mark.parametrize(
    ("surrogate", "corner"),
    [("ramp", 0.0), ("ramp", 0.05), ("ramp", 0.7), ("sigmoid", 0)],
)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_groups", [1, 3])
@pytest.mark.parametrize("interactions", [True, False])
@shapes
def test_values_and_gradients(loss, n_groups, interactions, surrogate, corner):
    X, signs, codes = rows(n_groups=n_groups)
    options = {"interactions": interactions, "loss": loss, "surrogate": surrogate}
    oracle = oracle_of(X, signs, codes, n_groups, **options)
    w, direction = random_weights(oracle), random_weights(oracle, 2)
    rng = np.random.default_rng(3)
    shift = rng.standard_normal(THETA.size)
    value, ahead, behind = (
        oracle.evaluate(w + s * direction, THETA + s * shift, corner=corner)
        for s in (0.0, 1e-7, -1e-7)
    )
    h = scores_twin(X, codes, w, n_groups, interactions)
    np.testing.assert_allclose(oracle.scores(w), h, atol=1e-13)
    expected = loss_twin(h, signs, loss)
    np.testing.assert_allclose((value.loss, value.concave_loss), expected, rtol=1e-12)
    plus, minus = parts_twin(h, THETA, surrogate, corner)
    for k in range(n_groups):
        mask = codes == k
        np.testing.assert_allclose(value.plus[k], plus[mask].mean(axis=0), atol=1e-12)
        np.testing.assert_allclose(value.minus[k], minus[mask].mean(axis=0), atol=1e-12)

    both = np.concatenate([direction, shift])
    slopes = {
        "loss": value.loss_gradient @ direction,
        "concave_loss": value.concave_gradient @ direction,
        "plus": value.plus_gradient @ both,
        "minus": value.minus_gradient @ both,
    }
    for name, slope in slopes.items():
        difference = (getattr(ahead, name) - getattr(behind, name)) / 2e-7
        np.testing.assert_allclose(slope, difference, rtol=1e-5, atol=1e-6)
    a, b = rng.standard_normal((2, n_groups, THETA.size))
    expected = np.tensordot(a, value.plus_gradient)
    expected += np.tensordot(b, value.minus_gradient)
    np.testing.assert_allclose(value.combine(a, b), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("surrogate", ["ramp", "sigmoid"])
@pytest.mark.parametrize("loss", ["logistic", "partial_auc"])
def test_any_number_of_threads(with_threads, surrogate, loss):
    X, signs, codes = rows(20_000)
    oracle = oracle_of(X, signs, codes, 3, surrogate=surrogate, loss=loss)
    w = random_weights(oracle)

    def call():
        value = oracle.evaluate(w, THETA, corner=0.1)
        combined = value.combine(value.plus, value.minus)
        return value.loss, value.loss_gradient, value.parts, value.slopes, combined

    for one, two in zip(with_threads(1, call), with_threads(2, call), strict=True):
        assert np.array_equal(one, two)


def test_scores_on_the_edges():
    # Scores are 0, 1/2 and 1; edges of the ramp are at 0 and 1.
    X = np.array([[0.0], [0.5], [1.0]])
    oracle = oracle_of(X, np.array([1.0, -1.0, 1.0]), np.zeros(3, int), 1)
    value = oracle.evaluate(np.array([1.0, 0.0]), np.array([0.5]))
    assert value.plus.tolist() == [[0.5]]
    assert value.minus.tolist() == [[0.0]]
    # The score on an edge is not above it.
    np.testing.assert_allclose(value.plus_gradient, [[[0.5, 2 / 3, -2 / 3]]])
    assert not value.minus_gradient.any()


def test_a_group_without_rows():
    X, signs, codes = rows(n_groups=2)
    oracle = oracle_of(X, signs, codes, 4)
    value = oracle.evaluate(random_weights(oracle), THETA)
    assert not value.plus[2:].any()
    assert not value.plus_gradient[2:].any()
    assert np.isfinite(value.loss_gradient).all()


def test_shift_of_all_scores():
    # Scores and thresholds that are far away, at the same distances.
    oracle = oracle_of(*rows(), 3)
    w = random_weights(oracle)
    distant = w.copy()
    distant[oracle.n_features] += 2.0**20
    for corner in (0.0, 0.05):
        reference = oracle.evaluate(w, THETA, corner=corner)
        shifted = oracle.evaluate(distant, THETA + 2.0**20, corner=corner)
        np.testing.assert_allclose(shifted.plus, reference.plus, rtol=0, atol=1e-8)
        np.testing.assert_allclose(shifted.minus, reference.minus, rtol=0, atol=1e-8)


def test_no_negative_has_its_rank_in_the_interval():
    X, signs, codes = rows()
    with pytest.raises(ValueError, match="No negative"):
        ScoreOracle(X, signs, codes, 3, loss="partial_auc", auc_interval=(1e-9, 1e-8))


def test_rounding_adds_no_rank():
    # 0.07 * 100 and 0.14 * 100 are above 7 and 14 in double precision.
    signs = np.repeat([-1.0, 1.0], [100, 10])
    X = np.concatenate([np.arange(100.0, 0.0, -1.0), np.full(10, 93.0)])[:, None]
    oracle = ScoreOracle(
        X, signs, np.zeros(110, int), 1, loss="partial_auc", auc_interval=(0.07, 0.14)
    )
    value = oracle.evaluate(np.array([1.0, 0.0]), np.empty(0))
    # Negatives 7 to 13 from the top have the scores 93 to 87.
    hinges = np.maximum(0, 1 - 93 + np.arange(93, 86, -1))
    assert value.loss - value.concave_loss == pytest.approx(hinges.mean())


def test_overflow_is_an_error():
    oracle = oracle_of(*rows(), 3)
    with pytest.raises(ValueError, match="overflow"):
        oracle.evaluate(np.full(21, np.nan), THETA)
