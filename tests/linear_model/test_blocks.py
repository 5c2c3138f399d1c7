"""Rows read in blocks give the classifier of all rows."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from scalefair.linear_model import PartiallyFairClassifier
from scalefair.linear_model._oracle import ScoreOracle
from scalefair.linear_model._partitioned import BlockRows, PartitionedOracle
from scalefair.linear_model._training_rows import GroupLimits
from scalefair.streaming import LocalParts

LIMITS = GroupLimits(100, 2)


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
    blocks = BlockRows(reader(rows), lambda X, reset: np.ascontiguousarray(X), LIMITS)
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
    blocks = BlockRows(reader(rows), lambda X, reset: X, LIMITS)
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
    blocks = BlockRows(reader(rows), lambda X, reset: X, LIMITS)
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


def test_bad_blocks_are_placed(rows):
    X, y, group = rows
    good, bad = (X[:10], y[:10], group[:10]), X[10:20].copy()
    bad[3, 1] = np.nan
    for block, message in [
        ((X[10:20], y[10:19], group[10:20]), "10 rows and 9 labels"),
        ((X[10:20], y[10:20], group[10:19]), "9 groups for 10 samples"),
        ((bad, y[10:20], group[10:20]), "X contains NaN"),
        ((X[10:20, :2], y[10:20], group[10:20]), "2 features"),
    ]:
        with pytest.raises(ValueError, match=rf"Block 1 of .* from 10 on: .*{message}"):
            classifier().fit_blocks(lambda block=block: [good, block])


@pytest.mark.parametrize("name", ["y", "sensitive_features"])
def test_blocks_of_different_types(rows, name):
    X, y, group = rows
    columns = {"y": y[:10], "sensitive_features": group[:10]}
    blocks = [(X[:10], *columns.values())]
    columns[name] = np.arange(10) % 2
    blocks.append((X[10:20], *columns.values()))
    with pytest.raises(ValueError, match=f"^{name} holds numbers in some blocks"):
        classifier().fit_blocks(lambda: blocks)


def test_blocks_without_rows_are_left_out(rows):
    X, y, group = rows
    parts = [slice(0, 0), slice(0, 2500), slice(2500, 2500), slice(2500, 4000)]
    blocks = BlockRows(
        lambda: [(X[part], y[part], group[part]) for part in parts],
        lambda X, reset: X,
        LIMITS,
    )
    assert (blocks.n_rows, blocks.n_blocks) == (4000, 2)
    assert [len(block.signs) for block in blocks.read()] == [2500, 1500]
    assert (
        blocks.group_sizes.tolist() == np.unique(group, return_counts=True)[1].tolist()
    )


@pytest.mark.parametrize("what", ["label", "group"])
def test_other_values_the_second_time(rows, what):
    X, y, group = rows
    calls = []

    def read_blocks():
        calls.append(1)
        last = np.full(4000, "new")
        if len(calls) == 1:
            return [(X, y, group)]
        return [(X, last, group) if what == "label" else (X, y, last)]

    with pytest.raises(ValueError, match=f"a {what} that was not there .* same blocks"):
        classifier().fit_blocks(read_blocks)


def test_weak_criterion_where_the_sample_lacks_a_class():
    # Four positives of 20,000: from a sample without them all is one class.
    rng = np.random.RandomState(0)
    X, group = rng.randn(20_000, 2), np.arange(20_000) % 2
    y = np.zeros(20_000, int)
    y[[100, 5001, 12_000, 19_001]] = 1
    model = PartiallyFairClassifier((0, 0.25), criterion="weak", random_state=0)
    model.fit_blocks(reader((X, y, group), step=5000), sample_size=1000)
    rate = 4 / 20_000
    best = -rate * np.log(rate) - (1 - rate) * np.log1p(-rate)  # of a constant score
    assert model.objective_ <= best * (1 + 1e-9)


def test_warning_names_the_caller(rows):
    with pytest.warns(ConvergenceWarning, match="stopped after 1 it") as caught:
        classifier(max_iter=1, start="zero").fit_blocks(reader(rows))
    assert {warning.filename for warning in caught} == {__file__}
