"""Ranks of scores in parts are those of all scores; what travels does not grow."""

import pickle

import dask.array as da
import numpy as np
import pytest

from scalefair._membership import Cells
from scalefair.linear_model import _partitioned
from scalefair.linear_model._continuation import _largest_tie
from scalefair.linear_model._oracle import ScoreOracle, most_accurate_shift
from scalefair.linear_model._partitioned_oracle import PartitionedOracle
from scalefair.metrics import partial_parity_gap
from scalefair.streaming import LocalParts, PartitionedRows
from scalefair.streaming._dask import DaskParts

SCORES = {
    "smooth": lambda x: x,
    "tied": lambda x: np.round(x, 1),
    "long tails": lambda x: np.sinh(4 * x) ** 3,
    "many tied": lambda x: np.where(x > 0.5, x, 0.0),
}


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("has_weights", [False, True])
def test_ranks_of_parts(kind, has_weights):
    rng = np.random.default_rng(3)
    groups, signs = rng.integers(0, 3, 6000), rng.choice([-1.0, 1.0], 6000)
    scores = SCORES[kind](rng.normal(size=6000) + 0.3 * (groups == 1) + 0.5 * signs)
    weights = rng.integers(0, 3, 6000) * 1.0 if has_weights else None
    families = Cells(np.arange(3)[:, None], [3])
    parts = [
        ScoreOracle(
            *(scores[i::4, None], signs[i::4], groups[i::4], 3),
            weights=None if weights is None else weights[i::4],
            families=families,
        ).without_interactions()
        for i in range(4)
    ]
    sizes = np.bincount(groups, weights)
    oracles = LocalParts(parts.__iter__, 4)
    oracle = PartitionedOracle(oracles, parts[0].layout, sizes, families)
    ranked = oracle.ranked(np.array([1.0, 0.0]))
    arguments = {"sensitive_features": groups, "sample_weight": weights}
    for interval in [(0.0, 1.0), (0.1, 0.4)]:
        for threshold in (None, 0.0, 0.3):
            options = {"interval": interval, "threshold": threshold}
            expected = partial_parity_gap(scores, **options, **arguments)
            assert ranked.gap(**options) == pytest.approx(expected, abs=1e-12)
        tie = _largest_tie(scores, groups, interval, weights)
        assert ranked.largest_tie(interval) == pytest.approx(tie, abs=5e-3)
    levels = [0.0, 0.02, 0.5, 0.98, 1.0]
    options = {"weights": weights, "method": "inverted_cdf"}
    assert (
        oracle.quantiles([1.0, 0.0], levels) == np.quantile(scores, levels, **options)
    ).all()
    shift = most_accurate_shift(scores, signs, weights)
    assert ranked.most_accurate_shift() == pytest.approx(shift, abs=2e-3)


def travelled(monkeypatch, copies):
    """Bytes to and from the parts in each step, of so many copies of the rows."""
    totals, map_to, keep = [], DaskParts.map, DaskParts.like
    gather = DaskParts.gather

    def add(values):
        totals[-1] += len(pickle.dumps(values))
        return values

    def add_map(self, *args, aligned=()):
        return map_to(self, *add(args), aligned=aligned)

    monkeypatch.setattr(DaskParts, "map", add_map)
    monkeypatch.setattr(DaskParts, "like", lambda self, v: keep(self, add([*v])))
    monkeypatch.setattr(DaskParts, "gather", lambda self: add(gather(self)))
    rng = np.random.default_rng(0)
    group, weights = rng.integers(0, 2, 3000), rng.choice([1.0, 2.0], 3000)
    X, y = rng.normal(size=(3000, 2)), np.where(rng.random(3000) < 0.4, "yes", "no")
    X, y, group, weights = (
        da.from_array(np.concatenate([a] * copies), chunks=(750 * copies, -1)[: a.ndim])
        for a in (X, y, group, weights)
    )
    options = {"interactions": True, "loss": "logistic", "surrogate": "ramp"}
    totals.append(0)
    training = _partitioned.PartitionedTraining(
        *(PartitionedRows.of(X), y, group, (9, 2), options), sample_weight=weights
    )
    totals.append(0)
    assert len(list(training.nested_subsamples(np.random.RandomState(0)))) == 3
    w = np.array([1.0, 0.5, 0.1, 0.0, 1.0, 0.0])
    ranked = training.oracle.ranked(w)
    for result in (
        lambda: training.oracle.evaluate(w, np.zeros(3)),
        lambda: ranked.gap((0.1, 0.5), None),
        lambda: ranked.quantiles([0.1, 0.9]),
        lambda: ranked.largest_tie((0.1, 0.5)),
        lambda: ranked.most_accurate_shift(),
    ):
        totals.append(0)
        result()
    monkeypatch.undo()
    return np.array(totals)


def test_what_travels_does_not_grow_with_the_rows(monkeypatch):
    totals = []
    for copies in (1, 16):
        monkeypatch.setattr(_partitioned, "LARGEST_SAMPLE_ROWS", 1200)
        totals.append(travelled(monkeypatch, copies))
    one, many = totals
    assert (many <= 1.2 * one).all(), totals


def test_weights_of_a_collection():
    rows = PartitionedRows.of(da.ones((4, 1), chunks=2))
    weights = rows.weights(da.from_array([0.0, 0.0, 1.0, 2.0], chunks=1))
    assert np.concatenate(weights.gather()).tolist() == [0, 0, 1, 2]
    assert rows.weights(da.ones(4, chunks=2)) is None
    with pytest.raises(ValueError, match="zero for all samples"):
        rows.weights(da.zeros(4, chunks=2))
    with pytest.raises(ValueError, match=r"Partition 1: .* negative, .* position 0"):
        rows.weights(da.from_array([1.0, 0.0, -1.0, 2.0], chunks=2))
