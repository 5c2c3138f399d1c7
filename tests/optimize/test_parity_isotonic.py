"""Isotonic regression under parity: against its definition, enumerated, and a QP."""

import itertools

import numpy as np
import pandas as pd
import pytest

from scalefair.optimize import _parity_isotonic, parity_isotonic_regression


def conditions(levels_of, chains):
    """Samples whose shares are compared, of each condition."""
    if levels_of is None:
        return np.ones((1, chains.size), bool)
    return levels_of.reshape(chains.size, -1).T


def allowed_gaps(chains, kappa, interval, levels_of=None):
    """Of each condition and pair of chains: kappa, or what a sample makes of it."""
    gaps = []
    for compared in conditions(levels_of, chains):
        resolutions = 1 / (np.bincount(chains[compared]) * (interval[1] - interval[0]))
        allowed = np.clip(resolutions, kappa, 1.0)
        gaps.append(np.add.outer(allowed, allowed) / 2 * (1 - np.eye(allowed.size)))
    return np.array(gaps)


def allowed_cuts(scores, chains, weights, kappa, interval, levels_of=None):
    """Samples above each joint cut whose levels differ by what is allowed, as rows."""
    low, high = interval
    gaps = allowed_gaps(chains, kappa, interval, levels_of) + 1e-12
    compared = conditions(levels_of, chains) * weights  # (n_conditions, n_samples)
    per_chain = []
    for k in range(chains.max() + 1):
        members = chains == k
        limits = [np.inf, *np.unique(scores[members])[::-1]]
        above = np.array([members & (scores >= limit) for limit in limits])
        shares = above @ compared.T / compared[:, members].sum(axis=1)
        levels = (np.clip(shares, low, high) - low) / (high - low)
        per_chain.append(list(zip(levels, above, strict=True)))
    allowed = []
    for cut in itertools.product(*per_chain):
        levels = np.array([level for level, _ in cut]).T  # (n_conditions, n_chains)
        if (levels[:, :, None] - levels[:, None] <= gaps).all():
            allowed.append(np.any([rows for _, rows in cut], axis=0))
    return np.array(allowed)


def small_problem(seed):
    rng = np.random.default_rng(seed)
    n_chains = 1 + seed % 3
    parts = n_chains if seed < 12 else n_chains + 3  # the last chain is larger
    chains = np.arange(rng.integers(8, 20)) % parts
    chains = rng.permutation(np.minimum(chains, n_chains - 1))
    n = chains.size
    scores = rng.integers(0, 9, n).astype(float) if seed % 2 else rng.normal(size=n)
    y = rng.normal(size=n) if seed % 5 == 0 else rng.integers(0, 2, n).astype(float)
    weights = rng.uniform(0.2, 2.0, n) if seed % 4 == 1 else np.ones(n)
    interval = [(0.0, 1.0), (0.1, 0.6)][seed % 7 == 1]
    return y, scores, chains, weights, [0.0, 0.13, 0.3, 1.0][seed % 4], interval


# Three conditions at once take no more than two chains.
@pytest.mark.parametrize(
    ("n_conditions", "seed"),
    [(c, s) for c in range(4) for s in range(c, 24, 2) if c < 3 or s % 3 < 2],
)
def test_every_cut_is_the_best_allowed_one(n_conditions, seed):
    y, scores, chains, weights, kappa, interval = small_problem(seed)
    levels_of = None
    if n_conditions:
        drawn = np.random.default_rng(seed).random((chains.size, n_conditions)) < 0.5
        drawn[np.unique(chains, return_index=True)[1]] = True  # one in each chain
        levels_of = drawn if n_conditions > 1 or seed % 2 else drawn[:, 0]
    options = {"kappa": kappa, "interval": interval, "sample_weight": weights}
    result = parity_isotonic_regression(
        y, scores, chains, levels_of=levels_of, **options
    )
    cuts = allowed_cuts(scores, chains, weights, kappa, interval, levels_of)
    # At every cost the samples above it are the best allowed cut. This holds for the
    # solution alone.
    costs = (result.values[1:] + result.values[:-1]) / 2
    for cost in [*costs, result.values[0] + 1, result.values[-1] - 1]:
        chosen = result.fitted > cost
        assert (cuts == chosen).all(axis=1).any()
        gains = cuts @ (weights * (y - cost))
        assert (weights * (y - cost))[chosen].sum() >= gains.max() - 1e-12
    # The solution is the projection of y on the cone of sums of allowed cuts: the
    # residual is orthogonal to it and makes no acute angle with a cut.
    residual = weights * (y - result.fitted)
    assert residual.sum() == pytest.approx(0, abs=1e-12)
    assert residual @ result.fitted == pytest.approx(0, abs=1e-12)
    assert (cuts @ residual).max() <= 1e-12
    # The steps are allowed cuts, too, and have the fitted values.
    for limits in result.fine_thresholds:
        assert (cuts == (scores > limits[chains])).all(axis=1).any()
    for limits, values in (
        (result.thresholds, result.values),
        (result.fine_thresholds, result.values[result.fine_blocks]),
    ):
        inside = (scores <= limits[:-1, chains]) & (scores > limits[1:, chains])
        assert (inside.sum(axis=0) == 1).all()
        np.testing.assert_allclose(values[inside.argmax(axis=0)], result.fitted)
    # Gaps are within their bounds.
    allowed = allowed_gaps(chains, kappa, interval, levels_of)
    np.testing.assert_allclose(result.kappas, allowed.max(axis=0), rtol=1e-14)
    assert (result.kappa, result.gap) == (result.kappas.max(), result.gaps.max())
    assert (result.gaps <= result.kappas + 1e-12).all()
    np.testing.assert_array_equal(result.gaps, result.gaps.T)


def test_ties_are_broken_by_position_in_the_block():
    # At equal ranks the second chain would be 50 samples ahead.
    chains, ranks = np.repeat([0, 1], 1000), np.tile(np.arange(1000), 2)
    y = (ranks < np.where(chains == 0, 400, 200)).astype(float)
    result = parity_isotonic_regression(y, -ranks, chains, kappa=0.2)
    np.testing.assert_allclose(result.fitted, y, atol=1e-12)
    above = -ranks > result.fine_thresholds[:, chains]
    counts = [[row[chains == k].sum() for k in (0, 1)] for row in above]
    # Four steps in the block of ones, four in that of zeros.
    steps = [[100 * i, 50 * i] for i in range(5)]
    steps += [[400 + 150 * i, 200 + 200 * i] for i in range(1, 5)]
    np.testing.assert_allclose(counts, steps, atol=6)  # of 1 % of a block


def test_scores_that_are_equal_or_neighbours():
    result = parity_isotonic_regression(
        [0, 1, 1, 1], np.zeros(4), [0, 0, 1, 1], kappa=0
    )
    np.testing.assert_allclose(result.fitted, 0.75)
    assert result.gap == 0.0
    chains = pd.Series([0, 0, 1, 1], dtype="Int64")
    nullable = parity_isotonic_regression([0, 1, 1, 1], np.zeros(4), chains, kappa=0)
    np.testing.assert_array_equal(nullable.fitted, result.fitted)
    # Halfway between them there is no number.
    scores = np.array([1.0, np.nextafter(1.0, 2), np.nextafter(1.0, 0)])
    result = parity_isotonic_regression(scores, scores, [0, 0, 0], kappa=1.0)
    limits = result.fine_thresholds[:, [0]]
    inside = (scores <= limits[:-1]) & (scores > limits[1:])
    assert (inside.sum(axis=0) == 1).all()


def test_gains_of_rounding_at_an_end_are_no_split():
    # The search went on for ever: of so many terms the sum is off by 1e-11.
    n, rng = 1_000_000, np.random.default_rng(0)
    chains = rng.integers(0, 3, n)
    chains[chains == 2] = 0
    chains[:3] = 2
    scores = rng.normal(size=n) + chains / 2
    y = rng.random(n) < 1 / (1 + np.exp(-scores))
    result = parity_isotonic_regression(y, scores, chains, kappa=0.05)
    assert (np.diff(result.values) < 0).all()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"y": [0, 1]}, r"inconsistent numbers of samples: \[2, 3, 3\]"),
        ({"y": [0, 1, np.nan]}, "Input y contains NaN"),
        ({"y": np.ma.masked_less([0, 1, 1], 1)}, "y has masked entries"),
        ({"scores": [0, np.inf, 1]}, "Input scores contains infinity"),
        ({"sample_weight": [1, 0, 1]}, "zero.*position 1"),
        ({"chains": [0, 2, 2]}, "none has the number 1"),
        ({"chains": [0, 1, 10**15]}, "none has the number 2"),
        ({"chains": [0.0, 1.0, 1.0]}, "must be numbers 0, 1"),
        ({"kappa": 1.5}, "kappa=1.5"),
        ({"interval": (0.5, 0.5)}, "interval="),
        ({"levels_of": [1, 1, 0]}, r"booleans of shape \(3,\).* got int64"),
        ({"levels_of": [True, True]}, r"got bool of shape \(2,\)"),
        ({"levels_of": np.ones((3, 0), bool)}, r"got bool of shape \(3, 0\)"),
        ({"levels_of": [True, False, False]}, "chain 1 has no sample of condition 0"),
        ({"levels_of": [[True, False]] + 2 * [[True, True]]}, "chain 0 .* condition 1"),
        ({"levels_of": np.ones((3, 3), bool), "chains": [0, 1, 2]}, "take at most 2"),
    ],
)
def test_bad_input(changed, message):
    arguments = {"y": [0, 1, 1], "scores": [1, 2, 3], "chains": [0, 1, 1], "kappa": 0.1}
    with pytest.raises(ValueError, match=message):
        parity_isotonic_regression(**(arguments | changed))


def test_weights_of_a_chain_may_be_much_smaller():
    """Levels are shares within a chain: the unit of its weights does not matter."""
    rng = np.random.default_rng(0)
    chains, scores, y = rng.integers(0, 2, (3, 200))
    scores = scores + rng.normal(size=200)
    values = [
        parity_isotonic_regression(
            y, scores, chains, kappa=0.1, sample_weight=np.where(chains, unit, 1.0)
        )
        for unit in (1e-14, 1e-17)
    ]
    np.testing.assert_allclose(values[0].fitted, values[1].fitted, atol=1e-5)


def test_many_cuts_of_three_chains_are_compared_at_some_levels(monkeypatch):
    rng = np.random.default_rng(0)
    chains = rng.integers(0, 3, 900)
    scores = rng.normal(size=900) + chains / 2
    y = (rng.random(900) < 1 / (1 + np.exp(-2 * scores))).astype(int)
    options = {"kappa": 0.1, "levels_of": np.column_stack([y == 0, y == 1])}
    exact = parity_isotonic_regression(y, scores, chains, **options)
    monkeypatch.setattr(_parity_isotonic, "MAX_EXACT_CUTS", 0)
    monkeypatch.setattr(_parity_isotonic, "N_GRID_LEVELS", 30)
    result = parity_isotonic_regression(y, scores, chains, **options)
    assert max(result.gap, exact.gap) <= 0.1 + 1e-12
    losses = [np.mean((y - one.fitted) ** 2) for one in (exact, result)]
    assert losses[0] < losses[1] < 1.01 * losses[0]
    # Of the cuts at a level of the grid it is the best: means of blocks are kept.
    assert np.mean(y - result.fitted) == pytest.approx(0, abs=1e-12)
