"""Of many rows in parts a growing sample is solved before all of them."""

import dask.array as da
import numpy as np
import pytest
from scipy import sparse

from scalefair.files import NpyReader
from scalefair.linear_model import PartiallyFairClassifier, _training_rows
from scalefair.linear_model._training_rows import PartitionedTraining
from scalefair.streaming import PartitionedRows

OPTIONS = {"interactions": True, "loss": "logistic"}


@pytest.fixture
def small_samples(monkeypatch):
    """The rows below are many."""
    monkeypatch.setattr(_training_rows, "_SAMPLE_ROWS", 1200)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.RandomState(2)
    group = np.sort(rng.randint(2, size=4000))  # parts without one of the groups
    X = rng.randn(4000, 3) + 0.6 * group[:, None]
    y = np.where(X.sum(axis=1) + rng.randn(4000) > 0.9, "yes", "no")
    return X, y, np.where(group == 1, "b", "a")


def in_parts(X):
    return da.from_array(X, chunks=(700, X.shape[1]))


def in_sparse_parts(X):
    return in_parts(X).map_blocks(sparse.csr_array)


def in_a_file(X, tmp_path):
    np.save(tmp_path / "rows.npy", X)
    return NpyReader(tmp_path / "rows.npy", max_bytes=20_000)


def fit(X, rows, **params):
    how = {"n_thresholds": 4, "random_state": 0, **params}
    model = PartiallyFairClassifier((0.1, 0.5), **how)
    return model.fit(X, rows[1], sensitive_features=rows[2])


def samples(X, y, group, seed=0):
    limits = 100, 2
    parts = PartitionedRows.of(X)
    training = PartitionedTraining(parts, y, group, limits, OPTIONS)
    return list(training.growing_samples(np.random.RandomState(seed)))


@pytest.mark.parametrize("form", [in_parts, in_sparse_parts, in_a_file])
def test_same_classifier_in_fewer_passes(rows, form, small_samples, tmp_path):
    X = form(rows[0], tmp_path) if form is in_a_file else form(rows[0])
    model, whole = fit(X, rows), fit(rows[0], rows)
    assert model.converged_
    assert model.classes_.tolist() == ["no", "yes"]
    # Both are solved to tol, 1e-3.
    assert model.objective_ <= whole.objective_ + 1e-3
    assert model.infeasibility_ <= 1e-3
    assert model.partial_parity_gap_ <= whole.partial_parity_gap_ + 0.03
    assert model.n_oracle_calls_ < whole.n_oracle_calls_
    again = fit(X, rows)
    assert np.array_equal(again.coef_, model.coef_)


def test_other_starts_go_without(rows, monkeypatch):
    def drawn(*_):
        raise AssertionError("a sample was drawn")
        yield

    X = in_parts(rows[0])
    model = fit(X, rows, warm_start=True)
    monkeypatch.setattr(PartitionedTraining, "growing_samples", drawn)
    first = model.n_oracle_calls_
    model.fit(X, rows[1], sensitive_features=rows[2])
    assert model.n_oracle_calls_ < first / 2
    fit(X, rows, start="zero")
    with pytest.raises(AssertionError, match="drawn"):
        fit(X, rows)


@pytest.mark.parametrize("form", [in_parts, in_sparse_parts])
def test_samples_grow_and_have_every_group(rows, form, small_samples):
    X, y, group = rows
    found = samples(form(X), y, group)
    # Shares 1/16 and 1/4 of either group have fewer than 500 rows.
    assert [len(sample.signs) for sample in found] == [1000, 1000, 1201]
    taken = []
    for sample in found:
        rows_taken = sample.X.toarray() if sparse.issparse(sample.X) else sample.X
        taken.append([np.flatnonzero((x == X).all(axis=1))[0] for x in rows_taken])
        assert (sample.signs == np.where(y[taken[-1]] == "yes", 1, -1)).all()
        assert (sample.groups[sample.codes] == group[taken[-1]]).all()
        assert len(set(taken[-1])) == len(taken[-1])
    assert set(taken[0]) <= set(taken[1]) < set(taken[2])
    assert np.ptp(taken[0]) > 3000  # not the first ones
    assert samples(form(X), y, group, seed=1)[0].X[0, 0] != found[0].X[0, 0]


def test_no_sample_of_few_or_wide_rows(rows, monkeypatch):
    X, y, group = rows
    assert not samples(in_parts(X), y, group)
    monkeypatch.setattr(_training_rows, "_SAMPLE_ROWS", 900)  # below 500 a group
    assert not samples(in_parts(X), y, group)
    monkeypatch.setattr(_training_rows, "_SAMPLE_ROWS", 4000)  # as many as there are
    assert not samples(in_parts(X), y, group)
    monkeypatch.setattr(_training_rows, "_SAMPLE_ROWS", 3999)
    monkeypatch.setattr(_training_rows, "_SAMPLE_BYTES", 1100 * X[0].nbytes)
    assert len(samples(in_parts(X), y, group)[-1].signs) == 1101
    assert len(samples(in_parts(X.astype(np.float32)), y, group)[-1].signs) == 2201
    assert len(samples(in_sparse_parts(X), y, group)) == 0  # with 4 bytes an index
    monkeypatch.setattr(_training_rows, "_SAMPLE_BYTES", 900 * X[0].nbytes)
    assert not samples(in_parts(X), y, group)


def test_weak_criterion_where_the_sample_lacks_a_class(small_samples):
    # Four positives of 20,000: from a sample without them all is one class.
    rng = np.random.RandomState(0)
    X, group = rng.randn(20_000, 2), np.arange(20_000) % 2
    y = np.zeros(20_000, int)
    y[[100, 5001, 12_000, 19_001]] = 1
    model = PartiallyFairClassifier((0, 0.25), criterion="weak", random_state=0)
    model.fit(in_parts(X), y, sensitive_features=group)
    rate = 4 / 20_000
    best = -rate * np.log(rate) - (1 - rate) * np.log1p(-rate)  # of a constant score
    assert model.objective_ <= best * (1 + 1e-9)
