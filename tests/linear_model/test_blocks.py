"""Rows read in blocks give the classifier of all rows."""

import numpy as np
import pytest
from scipy import sparse

from scalefair.linear_model import PartiallyFairClassifier
from scalefair.linear_model._block_rows import BlockRows
from scalefair.linear_model._oracle import ScoreOracle
from scalefair.linear_model._partitioned_oracle import PartitionedOracle
from scalefair.streaming import LocalParts


@pytest.fixture(scope="module")
def rows():
    rng = np.random.RandomState(2)
    group = np.sort(rng.randint(2, size=4000))  # blocks without one of the groups
    X = rng.randn(4000, 3) + 0.6 * group[:, None]
    y = np.where(X.sum(axis=1) + rng.randn(4000) > 0.9, "yes", "no")
    return X, y, np.where(group == 1, "b", "a")


def reader(rows, form=np.asarray, step=700):
    X, y, group = rows

    def read_blocks():
        for i in range(0, len(y), step):
            yield form(X[i : i + step]), y[i : i + step], group[i : i + step]

    return read_blocks


def classifier(**params):
    return PartiallyFairClassifier(
        (0.1, 0.5), 0.05, n_thresholds=10, random_state=0, **params
    )


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_as_fit(rows, form):
    X, y, group = rows
    whole = classifier().fit(X, y, sensitive_features=group)
    blocks = classifier().fit_blocks(reader(rows, form), sample_size=1000)
    assert blocks.converged_
    assert blocks.classes_.tolist() == ["no", "yes"]
    np.testing.assert_allclose(blocks.objective_, whole.objective_, rtol=0.01)
    assert blocks.infeasibility_ <= 1e-3
    np.testing.assert_allclose(
        blocks.partial_parity_gap_, whole.partial_parity_gap_, atol=0.03
    )
    assert blocks.n_oracle_calls_ < whole.n_oracle_calls_


def test_block_oracle_is_the_oracle(rows):
    X, _y, _group = rows
    blocks = BlockRows(reader(rows), lambda X, reset: np.ascontiguousarray(X))
    labels = blocks.labels()

    def make(block):
        return ScoreOracle(block.X, block.signs, block.codes, 2)

    sizes = np.bincount(labels.codes)
    assert (blocks.n_rows, blocks.n_blocks) == (4000, 6)
    parts = LocalParts(blocks.read, blocks.n_blocks).map(make)
    many = PartitionedOracle(parts, 3, sizes, interactions=True)
    one = ScoreOracle(X, labels.signs, labels.codes, 2)
    rng = np.random.RandomState(0)
    w, theta = rng.randn(8), rng.randn(5)
    a, b = many.evaluate(w, theta, corner=0.05), one.evaluate(w, theta, corner=0.05)
    for name in ("loss", "loss_gradient", "plus", "minus", "plus_gradient"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), atol=1e-12)
    weights = rng.randn(2, 2, 5)
    np.testing.assert_allclose(a.combine(*weights), b.combine(*weights), atol=1e-12)
    np.testing.assert_allclose(many.scores(w), one.scores(w))


def test_sample_has_every_group_and_is_random(rows):
    blocks = BlockRows(reader(rows), lambda X, reset: X)
    sample = blocks.sample(1200, np.random.RandomState(0))
    part = blocks.part(sample, 0.5)
    assert np.bincount(part.codes).min() >= 300
    positions = [np.flatnonzero((rows[0] == x).all(axis=1))[0] for x in part.X]
    assert len(set(positions)) == len(positions)
    assert np.ptp(positions) > 3000


def test_groups_as_a_column(rows):
    X, y, group = rows
    columns = (X, y, group[:, None])
    model = classifier().fit_blocks(reader(columns), sample_size=1000)
    assert model.groups_.tolist() == ["a", "b"]
    assert model.partial_parity_gap_ < 0.3


def test_small_groups_are_kept_in_a_small_sample(rows):
    blocks = BlockRows(reader(rows), lambda X, reset: X)
    sample = blocks.sample(10, np.random.RandomState(0))
    assert [part.keys.size for part in sample] == [500, 500]
    with pytest.raises(ValueError, match="sample_size"):
        classifier().fit_blocks(reader(rows), sample_size=0)


def test_pairwise_losses_are_refused(rows):
    with pytest.raises(ValueError, match="pairs of rows"):
        classifier(loss="auc").fit_blocks(reader(rows))


def test_exhausted_reader(rows):
    blocks = iter(list(reader(rows)()))
    with pytest.raises(ValueError, match="new iterator"):
        classifier().fit_blocks(lambda: iter([]))
    with pytest.raises(ValueError, match="new iterator"):
        classifier().fit_blocks(lambda: blocks)


def test_labels_must_fit_the_rows(rows):
    X, y, group = rows
    with pytest.raises(ValueError, match="10 rows and 9 labels"):
        classifier().fit_blocks(lambda: [(X[:10], y[:9], group[:10])])
