import numpy as np
import pytest

from scalefair.datasets._block_model import _PairKind


def test_numbers_cover_each_ordered_pair_once():
    class_of = np.array([2, 0, 1, 0, 2, 2])
    pairs = _PairKind(class_of)
    i, j = pairs.decode(np.arange(pairs.n_ordered))
    expected = {
        (a, b) for a in range(6) for b in range(6) if class_of[a] == class_of[b]
    }
    assert len(i) == len(expected)
    assert set(zip(i.tolist(), j.tolist(), strict=True)) == expected


@pytest.mark.parametrize("probability", [0.05, 0.2, 0.3, 0.9, 1.0])
def test_each_pair_occurs_with_the_probability(probability):
    # Both sides of the threshold between drawing and walking.
    class_of = np.repeat([0, 1], [5, 4])
    pairs = _PairKind(class_of)
    n_pairs, n_draws = 10 + 6, 1500
    rng = np.random.default_rng(0)
    counts = np.zeros((9, 9))
    totals = []
    for _ in range(n_draws):
        keys = pairs.sample(n_pairs, probability, rng)
        i, j = np.divmod(keys, 9)
        assert len(set(keys.tolist())) == len(keys)
        assert (i < j).all()
        counts[i, j] += 1
        totals.append(len(keys))
    allowed = np.triu(class_of[:, None] == class_of, k=1)
    assert (counts[~allowed] == 0).all()
    deviation = np.sqrt(probability * (1 - probability) / n_draws)
    np.testing.assert_allclose(
        counts[allowed] / n_draws, probability, atol=4.5 * deviation + 1e-12
    )
    # The number of edges must vary like independent coins, not be fixed.
    variance = n_pairs * probability * (1 - probability)
    assert np.var(totals) == pytest.approx(variance, rel=0.2, abs=1e-12)


@pytest.mark.parametrize("count", [0, 1, 7, 27, 28])
def test_drawn_count_is_exact(count):
    pairs = _PairKind(np.zeros(8, dtype=np.int64))
    keys = pairs._draw_distinct(28, count, np.random.default_rng(1))
    assert len(set(keys.tolist())) == len(keys) == count


def test_excluded_pairs_never_occur():
    class_of, colour = np.zeros(40, dtype=np.int64), np.arange(40) % 3
    for probability in (0.1, 0.6):
        n_pairs = 40 * 39 // 2 - 78 * 2 - 91
        kind = _PairKind(class_of, colour)
        keys = kind.sample(n_pairs, probability, np.random.default_rng(2))
        i, j = np.divmod(keys, 40)
        assert len(keys) > 0
        assert (colour[i] != colour[j]).all()
