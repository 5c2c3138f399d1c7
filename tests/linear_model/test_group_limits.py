"""What is refused, and warned of, because it is hardly a group, or is in parts."""

import tracemalloc
import warnings
from functools import partial

import dask.array as da
import numpy as np
import pytest

from scalefair.linear_model import (
    PairwiseFairClassifier,
    PartiallyFairClassifier,
    PartiallyFairClassifierCV,
    PenalizedPartialParityClassifier,
    partial_fairness_path,
)
from scalefair.linear_model import _parity_problem as parity_problem
from scalefair.streaming import PartitionedRows

# What is checked comes before training: the cheapest.
CHEAP = {"surrogate_width": 1.0, "n_thresholds": 10, "tol": 0.5}
Classifier = partial(PartiallyFairClassifier, **CHEAP)
pytestmark = pytest.mark.filterwarnings("ignore:The gap of the training rows")


RNG = np.random.default_rng(0)
X = RNG.standard_normal((3000, 3))
y = (X.sum(axis=1) + RNG.standard_normal(3000) > 0).astype(int)


def fit(X, y, groups, kind=Classifier, **options):
    return kind(**options).fit(X, y, sensitive_features=groups)


def fit_path(X, y, groups, **options):
    options |= {"sensitive_features": groups, "kappas": [0.1], **CHEAP}
    return partial_fairness_path(X, y, **options)[0]


def fit_choice(*rows, **options):
    keywords = {"estimator": Classifier(**options), "fairness_floor": 0.0}
    choice = partial(PartiallyFairClassifierCV, kappas=[0.5], cv=2)
    return fit(*rows, choice, **keywords).best_estimator_


WAYS = {
    "fit": fit,
    "weak": partial(fit, criterion="weak"),
    "parts": lambda X, *y, **options: fit(da.from_array(X, (1000, 3)), *y, **options),
    "path": fit_path,
    "choice": fit_choice,
    "pairwise": partial(fit, kind=PairwiseFairClassifier),
    "comparator": partial(fit, kind=PenalizedPartialParityClassifier, max_iter=5),
}
ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


@pytest.mark.parametrize("way", ["path", "choice", "pairwise", "comparator"])
def test_some_take_rows_in_memory_alone(way):
    parts = PartitionedRows.of(da.from_array(X))
    with pytest.raises(TypeError, match=r" takes .* PartiallyFairClassifier"):
        WAYS[way](parts, y, np.arange(3000) % 2)


def quietly(way, *given, **options):
    """Fit without looking at how good the solution is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return way(*given, **options)


@ways
def test_numbers_are_no_groups(way):
    income = np.random.default_rng(1).lognormal(size=1500).repeat(2).astype(str)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"1,500 different values.*=100.*=1500"):
            way(X, y, income)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Weights of all groups would be 1500 x 4 numbers, gradients 30,000 times that.
    assert peak < 20e6


@ways
def test_as_many_groups_as_are_meant(way):
    groups = np.arange(3000) % 6
    with pytest.raises(ValueError, match="6 different values"):
        way(X, y, groups, max_groups=5)
    model = quietly(way, X, y, groups, max_groups=6)
    assert len(model.groups_) == 6


@ways
def test_groups_of_one_row(way):
    groups = np.arange(3000) % 2
    groups[[7, 8]] = [2, 3]
    with pytest.raises(ValueError, match=r"2 of the 4 .*_size=2: 2 \(1\), 3 \(1\)"):
        way(X, y, groups)


@pytest.mark.parametrize("name", WAYS)
def test_few_rows_are_warned_of(name):
    groups = np.where(np.arange(3000) % 2 == 0, "a", "b").astype("U5")
    groups[:18] = "few"
    groups[18:47] = "some"
    groups[47:77] = "30"  # enough
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        WAYS[name](X, y, groups)
    (actual,) = [w for w in caught if "fewer than 30 rows" in str(w.message)]
    assert actual.category is UserWarning
    assert "'few' (18), 'some' (29). A share of 18 row(s)" in str(actual.message)
    assert "error of up to 0.12" in str(actual.message)
    if name != "choice":
        assert actual.filename == __file__


def test_memory_is_asked_for_before_it_is_needed(monkeypatch):
    groups = np.arange(3000) % 50
    monkeypatch.setattr("scalefair._memory.available_memory", lambda: 50_000_000)
    with pytest.raises(MemoryError, match=r"1,000 con.* of 50 .* need about 0\.\d GB"):
        fit(X[:, [0, 1, 2] * 20], y, groups)
    monkeypatch.setattr("scalefair._memory.available_memory", lambda: None)
    quietly(fit, X, y, groups, start="zero", max_iter=1)


def test_memory_that_is_foretold_is_enough():
    groups = np.arange(3000) % 50
    wide = X[:, [0, 1, 2] * 5] + 0.1 * RNG.standard_normal((3000, 15))
    foretold = []
    tracemalloc.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                parity_problem, "require_memory", lambda n, *_: foretold.append(n)
            )
            quietly(fit, wide, y, groups, start="zero", max_iter=8)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0.3 * foretold[0] < peak < 1.2 * foretold[0]
