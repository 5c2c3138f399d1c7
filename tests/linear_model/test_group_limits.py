"""What is refused, and warned of, because it is hardly a group."""

import tracemalloc
import warnings

import dask.array as da
import numpy as np
import pytest

from scalefair.files import NpyReader
from scalefair.linear_model import (
    PairwiseFairClassifier,
    PartiallyFairClassifier,
    PartiallyFairClassifierCV,
    PenalizedPartialParityClassifier,
    partial_fairness_path,
)
from scalefair.linear_model import _parity_problem as parity_problem

INTERVAL = (0.1, 0.5)


def rows(m=3000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, 3))
    return X, (X.sum(axis=1) + rng.standard_normal(m) > 0).astype(int)


def fit_parts(X, y, groups, **options):
    parts = da.from_array(X, chunks=(1000, 3))
    return PartiallyFairClassifier(**options).fit(parts, y, sensitive_features=groups)


def fit_reader(X, y, groups, folder=None, **options):
    np.save(folder / "rows.npy", X)
    reader = NpyReader(folder / "rows.npy", max_bytes=20_000)
    return PartiallyFairClassifier(**options).fit(reader, y, sensitive_features=groups)


def fit_path(X, y, groups, **options):
    return partial_fairness_path(
        X, y, sensitive_features=groups, kappas=[0.1], **options
    )[0]


def fit_choice(X, y, groups, **options):
    estimator = PartiallyFairClassifier(**options)
    choice = PartiallyFairClassifierCV([0.5], 0.0, estimator=estimator, cv=2)
    return choice.fit(X, y, sensitive_features=groups).best_estimator_


def fit_with(Estimator, **fixed):
    def fit(X, y, groups, **options):
        return Estimator(**fixed, **options).fit(X, y, sensitive_features=groups)

    return fit


WAYS = {
    "fit": fit_with(PartiallyFairClassifier),
    "weak": fit_with(PartiallyFairClassifier, criterion="weak"),
    "parts": fit_parts,
    "reader": fit_reader,
    "path": fit_path,
    "choice": fit_choice,
    "pairwise": fit_with(PairwiseFairClassifier),
    "comparator": fit_with(PenalizedPartialParityClassifier, max_iter=5),
}


@pytest.fixture(params=WAYS)
def way(request, tmp_path):
    if request.param == "reader":
        return lambda *given, **options: fit_reader(*given, folder=tmp_path, **options)
    return WAYS[request.param]


def quietly(way, *given, **options):
    """Fit without looking at how good the solution is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return way(*given, **options)


def test_numbers_are_no_groups(way):
    X, y = rows()
    income = np.random.default_rng(1).lognormal(size=1500).repeat(2)
    tracemalloc.start()
    try:
        with pytest.raises(
            ValueError, match=r"1,500 different values.*max_groups=100.*max_groups=1500"
        ):
            way(X, y, income)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Weights of all groups would be 1500 x 4 numbers, gradients 30,000 times that.
    assert peak < 20e6


def test_as_many_groups_as_are_meant(way):
    X, y = rows()
    groups = np.arange(3000) % 6
    with pytest.raises(ValueError, match="6 different values"):
        way(X, y, groups, max_groups=5)
    model = quietly(way, X, y, groups, max_groups=6)
    assert len(model.groups_) == 6


def test_groups_of_one_row(way):
    X, y = rows()
    groups = np.arange(3000) % 2
    groups[[7, 8]] = [2, 3]
    with pytest.raises(
        ValueError, match=r"2 of the 4 groups .*min_group_size=2: 2 \(1\), 3 \(1\)"
    ):
        way(X, y, groups)


@pytest.mark.parametrize("name", [name for name in WAYS if name != "reader"])
def test_few_rows_are_warned_of(name):
    X, y = rows()
    groups = np.where(np.arange(3000) % 2 == 0, "a", "b").astype("U5")
    groups[:18] = "few"
    groups[18:47] = "some"
    groups[47:77] = "30"  # enough
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        WAYS[name](X, y, groups)
    (found,) = [w for w in caught if "fewer than 30 rows" in str(w.message)]
    assert found.category is UserWarning
    assert "'few' (18), 'some' (29). A share of 18 row(s)" in str(found.message)
    assert "error of up to 0.12" in str(found.message)
    if name in {"fit", "weak", "pairwise", "comparator", "path", "parts"}:
        assert found.filename == __file__


def test_memory_is_asked_for_before_it_is_needed(monkeypatch):
    X, y = rows()
    groups = np.arange(3000) % 50
    monkeypatch.setattr("scalefair._memory.available_memory", lambda: 50_000_000)
    with pytest.raises(
        MemoryError, match=r"1,000 constraints of 50 groups.* need about 0\.\d GB"
    ):
        PartiallyFairClassifier().fit(
            X[:, [0, 1, 2] * 20], y, sensitive_features=groups
        )
    monkeypatch.setattr("scalefair._memory.available_memory", lambda: None)
    quietly(WAYS["fit"], X, y, groups, start="zero", max_iter=1)


def test_memory_that_is_foretold_is_enough():
    X, y = rows()
    groups = np.arange(3000) % 50
    X = X[:, [0, 1, 2] * 5] + 0.1 * np.random.default_rng(2).standard_normal((3000, 15))
    foretold = []
    tracemalloc.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                parity_problem, "require_memory", lambda n, *_: foretold.append(n)
            )
            quietly(
                WAYS["fit"], X, y, groups, start="zero", max_iter=8, n_thresholds=10
            )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0.3 * foretold[0] < peak < 1.2 * foretold[0]
