"""Parity among the rows of one label: training, promises, parts, what is refused."""

import re
import warnings

import dask.array as da
import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold

from scalefair._groups import Attribute
from scalefair._membership import Cells, Membership
from scalefair.datasets import make_biased_rows
from scalefair.linear_model import (
    PartiallyFairClassifier,
    PartiallyFairClassifierCV,
    _continuation,
    partial_fairness_path,
)
from scalefair.linear_model import _partitioned as training_rows
from scalefair.linear_model._oracle import ScoreOracle
from scalefair.linear_model._parity_problem import StrongParity, WeakParity
from scalefair.linear_model._partitioned import PartitionedTraining
from scalefair.linear_model._training_rows import LabeledRows
from scalefair.linear_model._weights import ridge_factors
from scalefair.metrics import (
    null_parity_gap,
    partial_equal_opportunity_gap,
    partial_equalized_odds_gap,
)
from scalefair.streaming import PartitionedRows

INTERVAL = (0.1, 0.6)
GAPS = {"positive": partial_equal_opportunity_gap, "label": partial_equalized_odds_gap}
every_given = pytest.mark.parametrize("given", GAPS)


def table(m=1200, n_groups=2, seed=0):
    rows = make_biased_rows(m, 3, n_groups=n_groups, random_state=seed)
    return rows.data, rows.target, rows.sensitive_features


def classifier(**params):
    params = {"interval": INTERVAL, "kappa": 0.15, "n_thresholds": 6, **params}
    return PartiallyFairClassifier(**{"tol": 5e-3, "max_iter": 100, **params})


def encoded(X, y, group, given):
    classes, groups = np.unique(y), np.unique(group)
    codes = np.searchsorted(groups, group)
    signs = np.where(y == classes[1], 1.0, -1.0)
    compared = [Attribute("group", groups, codes)]
    return LabeledRows.of(X, signs, classes, Membership(compared, None, None), given)


def test_what_is_compared():
    y, group = np.array([0, 1, 1, 0, 1, 1]), np.array([0, 0, 0, 1, 1, 2])
    rows = {g: encoded(np.zeros((6, 1)), y, group, g) for g in (None, *GAPS)}
    actual = {g: [sets.tolist() for sets in rows[g].compared] for g in rows}
    positive = [-1, 0, 0, -1, 1, 2]
    assert actual[None] == [[0, 0, 0, 1, 1, 2]]
    assert actual["positive"] == [positive]
    assert actual["label"] == [[0, -1, -1, 1, -1, -1], positive]
    assert [sizes.tolist() for sizes in rows["label"].set_sizes] == [
        [1, 1, 0][: len(rows["label"].set_sizes[0])],
        [2, 1, 1],
    ]


# Families of sets of cells: groups, labels within them, or unions of groups, as they
# are if two attributes are compared, each by itself.
@pytest.mark.parametrize("kind", ["groups", "positive", "label", "unions"])
@pytest.mark.parametrize("surrogate", ["ramp", "sigmoid"])
@pytest.mark.parametrize("interactions", [True, False])
def test_constraints_and_gradients(kind, surrogate, interactions):
    rng = np.random.default_rng(0)
    X, group = rng.standard_normal((80, 3)), rng.integers(0, 3, 80)
    y = rng.integers(0, 2, 80)
    given = kind if kind in GAPS else None
    rows = encoded(X, y, group, given)
    families = Cells(np.array([[0, 1], [0, 0], [1, 1]]), [2, 2])
    families = families if kind == "unions" else rows.families
    sets = [
        (f[rows.cells] == s, i) for i, f in enumerate(families.sets.T) for s in range(9)
    ]
    sets = [(mask, i) for mask, i in sets if mask.any()]
    options = {"surrogate": surrogate, "interactions": interactions}
    options = {**rows.oracle_options(options), "families": families}
    oracle = ScoreOracle(X, rows.signs, rows.codes, 3, **options)
    common = oracle, INTERVAL, 0.1, ridge_factors(oracle.layout, 0.3), 0.0
    slack = 0.05
    for problem in (
        StrongParity(*common, n_thresholds=4, surrogate=surrogate),
        WeakParity(*common, threshold=0.2),
    ):
        v = 0.7 * rng.standard_normal(problem.n_variables)
        theta = problem.thresholds(v).reshape(-1, 4 if v.size > oracle.n_weights else 1)
        x = oracle.scores(problem.weights(v))[:, None]
        rates = []
        for mask, family in sets:
            z = x[mask] - theta[family % len(theta)]
            above = (
                np.clip(z + 0.5, 0, 1) if surrogate == "ramp" else 1 / (1 + np.exp(-z))
            )
            rates.append(above.mean(axis=0))
        if isinstance(problem, StrongParity):
            ranks = np.linspace(0.1, 0.6 - slack, 4, endpoint=False)
            low = ranks - np.array(rates)
            expected = np.append(low, -low - slack)
        else:
            A = np.clip(np.ravel(rates), *INTERVAL)
            expected = [
                a - b - slack
                for i, a in enumerate(A)
                for j, b in enumerate(A)
                if i != j and sets[i][1] == sets[j][1]
            ]
        (plus, _), (minus, _) = problem.evaluate(v)
        np.testing.assert_allclose((plus - minus)[1:], expected, atol=1e-12)
        np.testing.assert_allclose(
            problem.smoothed(v, 0.0).constraints, expected, atol=1e-12
        )
        # Both forms of the gradients, against differences along a direction.
        d = rng.standard_normal(v.size)
        multipliers = rng.random(problem.n_constraints)
        value = problem.smoothed(v, 0.05)
        slope = (value.gradient + value.pull_back(multipliers)) @ d
        ahead, behind = (problem.smoothed(v + h * d, 0.05) for h in (1e-6, -1e-6))
        change = ahead.objective - behind.objective
        change += multipliers @ (ahead.constraints - behind.constraints)
        assert slope == pytest.approx(change / 2e-6, rel=1e-5)
        for part, at in zip(problem.evaluate(v), problem.evaluate(v + d), strict=True):
            assert (at[0] >= part[0] + part[1] @ d - 1e-12).all()  # convex


@pytest.mark.parametrize(
    ("given", "params"),
    [
        ("positive", {}),
        ("label", {}),
        ("positive", {"interactions": False}),
        ("label", {"criterion": "weak", "interval": (0.0, 1.0)}),
        ("positive", {"criterion": "weak", "surrogate": "sigmoid"}),
        ("label", {"loss": "squared", "kappa": 0.03, "max_iter": 5, "tol": 0.1}),
    ],
    ids=str,
)
def test_gap_is_at_most_kappa(given, params, monkeypatch):
    X, y, group = table()
    if params.get("kappa") == 0.03:  # out of reach: the search may end early
        monkeypatch.setattr(_continuation, "MAX_SURROGATES", 1)
    model = classifier(given=given, **params)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, sensitive_features=group)
    scores = model.decision_function(X, sensitive_features=group)
    threshold = model.threshold if model.criterion == "weak" else None
    gap = GAPS[given](
        y,
        scores,
        sensitive_features=group,
        interval=model.interval,
        threshold=threshold,
    )
    # The intercept is added before or after the products: ties apart by rounding.
    assert model.partial_parity_gap_ == pytest.approx(gap, abs=3e-3)
    texts = [str(w.message) for w in caught if "gap of the training" in str(w.message)]
    assert len(texts) == (model.partial_parity_gap_ > 1.05 * model.kappa)
    for message in texts:
        assert model.kappa == 0.03
        sizes = [np.bincount(group[y == label]) for label in (0, 1)]
        chance = null_parity_gap(
            sizes if given == "label" else sizes[1], interval=INTERVAL
        )
        shown = re.search(r"([\d.]+) is what chance", message)[1]
        assert float(shown) == pytest.approx(chance, rel=0.05)  # two digits
        assert "FairCalibratedClassifier" not in message  # has no such gap
    if model.kappa > 0.03:
        assert model.kkt_residual_ <= model.tol
        assert model.infeasibility_ <= model.tol
    n_families = 1 if given == "positive" or model.criterion == "weak" else 2
    assert model.thresholds_.shape[:-1] == ((2,) if n_families == 2 else ())


def test_labels_without_noise():
    # All that is right is fair given the label, however different the groups are.
    rng = np.random.default_rng(0)
    X, group = rng.standard_normal((1000, 2)), np.arange(1000) % 2
    y = (X[:, 0] + X[:, 1] > 0.6 * (1 - 2 * group)).astype(int)
    params = {"criterion": "weak", "interval": (0.0, 1.0), "kappa": 0.02}
    accuracy = {}
    for given in (None, *GAPS):
        model = classifier(given=given, alpha=1e-6, **params)
        model.fit(X, y, sensitive_features=group)
        accuracy[given] = model.score(X, y, sensitive_features=group)
        assert model.partial_parity_gap_ <= 0.021
    assert min(accuracy["positive"], accuracy["label"]) > 0.985
    # The groups' rates are 0.34 and 0.66: nobody has equal rates with fewer errors.
    assert accuracy[None] < 1 - (0.32 - 0.02) / 2 + 0.01


@every_given
def test_one_member(given):
    X, y, group = table(400)
    y = np.where(group == 1, 0, y)
    names = np.where(group == 1, "b", "a")
    with pytest.raises(ValueError, match=r"none: 'b' labelled 1 \(0\).*given=None"):
        classifier(given=given).fit(X, y, sensitive_features=names)
    y[np.flatnonzero(group)[3]] = 1
    with pytest.raises(
        ValueError,
        match=r"of the \d groups .*, within a label, .* 'b' labelled 1 \(1\)",
    ):
        classifier(given=given).fit(X, y, sensitive_features=names)
    model = classifier(given=given, surrogate_width=1.0, min_group_size=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, sensitive_features=names)
    texts = "".join(str(w.message) for w in caught)
    assert re.search(r"fewer than 30 rows.*'b' labelled 1 \(1\)", texts)
    assert np.isfinite(model.coef_).all()
    # A group without negatives has what the positives are compared by.
    model.set_params(min_group_size=2, given="positive")
    y = np.where(group == 1, 1, table(400)[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y, sensitive_features=names)
    with pytest.raises(ValueError, match=r"none: 'b' labelled 0 \(0\)"):
        model.set_params(given="label").fit(X, y, sensitive_features=names)


@every_given
def test_parts(given):
    X, y, group = table(600, n_groups=3)
    y[group == 2] = 1 if given == "positive" else y[group == 2]  # a cell without rows
    params = {"given": given, "kappa": 0.2, "surrogate_width": 1.0}
    chunks = da.from_array(X, chunks=(250, 3))
    models = []
    for features in (X, chunks):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The gap of the training")
            models.append(
                classifier(**params).fit(features, y, sensitive_features=group)
            )
    one, many = models
    assert many.converged_
    # Sums in another order: both stop within the tolerance of the same problem.
    assert many.objective_ == pytest.approx(one.objective_, abs=2 * one.tol)
    assert many.partial_parity_gap_ == pytest.approx(one.partial_parity_gap_, abs=0.05)


def test_samples_have_rows_of_each_cell(monkeypatch):
    monkeypatch.setattr(training_rows, "LARGEST_SAMPLE_ROWS", 900)
    monkeypatch.setattr(training_rows, "MIN_CELL_ROWS", 60)
    rng = np.random.default_rng(0)
    X, group = rng.standard_normal((6000, 2)), rng.integers(0, 2, 6000)
    y = np.zeros(6000, int)
    y[:70] = 1  # 35 in either group, about: fewer than the least, so all
    names = {"interactions": True, "loss": "logistic", "surrogate": "ramp"}
    parts = PartitionedRows.of(da.from_array(X, chunks=(2000, 2)))
    training = PartitionedTraining(parts, y, group, (9, 1), names, "label")
    samples = list(training.nested_subsamples(np.random.RandomState(0)))
    assert samples
    for sample in samples:
        positive = sample.cell_sizes[1::2]
        assert positive.tolist() == np.bincount(group[:70]).tolist()
        assert sample.given == "label"


def test_paths_and_choice():
    X, y, group = table(400)
    options = {"interval": INTERVAL, "n_thresholds": 4, "tol": 2e-2, "given": "label"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = partial_fairness_path(
            X, y, sensitive_features=group, kappas=[0.4, 0.25], **options
        )
        assert path[1].partial_parity_gap_ <= path[0].partial_parity_gap_ <= 0.42
        estimator = PartiallyFairClassifier(surrogate_width=1.0, **options)
        folds = list(StratifiedKFold(2).split(X, 2 * group + y))
        search = PartiallyFairClassifierCV(
            [0.2], estimator=estimator, cv=folds, fairness_floor=0.1
        ).fit(X, y, sensitive_features=group)
        for i, (train, test) in enumerate(folds):
            model = estimator.set_params(kappa=0.2)
            model.fit(X[train], y[train], sensitive_features=group[train])
            scores = model.decision_function(X[test], sensitive_features=group[test])
            keywords = {"sensitive_features": group[test], "interval": INTERVAL}
            gap = partial_equalized_odds_gap(y[test], scores, **keywords)
            assert search.cv_results_["fairness"][0, i] == pytest.approx(1 - gap)
        # From thresholds of two families to those of one, and back.
        again = search.best_estimator_.set_params(warm_start=True, given="positive")
        for given in ("positive", "label"):
            again.set_params(given=given).fit(X, y, sensitive_features=group)
            assert again.infeasibility_ <= again.tol
