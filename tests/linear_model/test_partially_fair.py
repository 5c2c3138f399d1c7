"""The classifier by the paper's method, on its data as well, paths, and the choice."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from scalefair.datasets import fetch_a9a, fetch_bank_additional, fetch_law_school
from scalefair.linear_model import (
    PartiallyFairClassifier,
    PartiallyFairClassifierCV,
    partial_fairness_path,
)
from scalefair.linear_model._partially_fair import most_accurate_shift
from scalefair.metrics import partial_demographic_parity_gap

# The method of the paper: its surrogate stays as it is, and the gap may be any.
PAPER = {"surrogate_width": 1.0, "alpha": 0.0}
pytestmark = pytest.mark.filterwarnings("ignore:The gap of the training rows")
INTERVAL = (0.1, 0.5)


def make_rows(m=1500, n_groups=2, seed=0):
    rng = np.random.RandomState(seed)
    group = rng.randint(n_groups, size=m)
    X = rng.randn(m, 4) + 0.6 * group[:, None]
    y = X[:, :2].sum(axis=1) + rng.randn(m) > 0.6
    return X, y, np.array(["a", "b", "c"])[group]


X, y, group = ROWS = make_rows()


def classifier(**params):
    params = {"kappa": 0.05, "n_thresholds": 25, **PAPER, **params}
    return PartiallyFairClassifier(**{"interval": INTERVAL, **params})


def gap(scores, groups, interval=INTERVAL):
    return partial_demographic_parity_gap(
        scores, sensitive_features=groups, interval=interval
    )


def fit(model, rows):
    X, y, group = rows
    return model.fit(X, y, sensitive_features=group)


@pytest.fixture(scope="module")
def fitted():
    return fit(classifier(), ROWS)


def test_fair_where_asked_and_accurate(fitted):
    plain = LogisticRegression().fit(X, y)
    unfair = gap(plain.decision_function(X), group)
    fair = gap(fitted.decision_function(X, sensitive_features=group), group)
    assert fitted.converged_
    assert fitted.kkt_residual_ <= 1e-3
    assert fitted.infeasibility_ <= 1e-3
    assert unfair > 0.6
    assert fitted.partial_parity_gap_ == fair < 0.15
    assert fitted.score(X, y, sensitive_features=group) > plain.score(X, y) - 0.06
    assert fitted.coef_.shape == (2, 4)
    assert fitted.intercept_.shape == (2,)
    assert fitted.thresholds_.shape == (25,)
    assert (np.diff(fitted.thresholds_) < 0).all()
    assert fitted.groups_.tolist() == ["a", "b"]
    assert fitted.classes_.tolist() == [False, True]
    calls = [record["n_oracle_calls"] for record in fitted.history_]
    assert calls == sorted(calls)
    assert calls[-1] == fitted.n_oracle_calls_
    assert fitted.history_[-1]["kkt_residual"] == fitted.kkt_residual_


def test_starts_agree_on_fairness(fitted):
    zero = fit(classifier(start="zero", tol=2e-3), ROWS)
    assert zero.infeasibility_ <= 2e-3
    # Problems are not convex, yet the two ends should not be far from each other.
    assert_allclose(zero.objective_, fitted.objective_, rtol=0.05)
    # Where the augmented Lagrangian ends little is left to do.
    assert fitted.n_iter_ < zero.n_iter_ / 3


def test_check_start_must_fit_and_be_fair():
    with pytest.raises(ValueError, match=r"shape \(2, 5\)"):
        fit(classifier(start=np.zeros(5)), ROWS)
    unfair = np.zeros((2, 5))
    unfair[1, 4] = 5
    with pytest.raises(ValueError, match="start violates a fairness constraint"):
        fit(classifier(start=unfair), ROWS)


def test_warm_start_for_another_interval_is_feasible():
    model = fit(classifier(warm_start=True, start="zero"), ROWS)
    fit(model.set_params(interval=(0.2, 0.4), n_thresholds=10), ROWS)
    assert model.converged_
    assert model.infeasibility_ <= 1e-3
    assert model.thresholds_.shape == (10,)


def test_no_warm_start_from_another_shape():
    # As many weights: 2 groups and 5 features, 3 groups and 3 features.
    X, y, group = ROWS
    model = classifier(warm_start=True, n_thresholds=4)
    fit(model, (np.column_stack([X, X[:, :1] ** 2]), y, group))
    assert model.coef_.shape == (2, 5)
    X, y, group = make_rows(n_groups=3)
    rows = X[:, :3], y, group
    cold = fit(classifier(n_thresholds=np.int8(4)), rows)  # any integer
    assert np.array_equal(fit(model, rows).coef_, cold.coef_)


def test_unfinished_says_so():
    model = classifier(start="zero", max_iter=2)
    remedy = r"after 2 iterations .* Raise max_iter, or take a larger kappa"
    with pytest.warns(ConvergenceWarning, match=remedy) as caught:
        model.fit(X, y, sensitive_features=group)
    assert caught[0].filename == __file__
    assert not model.converged_
    assert np.isfinite(model.coef_).all()
    # A residual just above the tolerance does not look like it.
    model.tol = 0.9999999 * model.kkt_residual_
    with pytest.warns(ConvergenceWarning, match="residual of") as caught:
        model.fit(X, y, sensitive_features=group)
    shown = float(str(caught[0].message).split("residual of ")[1].split()[0])
    assert shown > model.tol


@pytest.mark.parametrize("solver", ["ssg", "direct"])
def test_subgradient_solvers(solver):
    model = classifier(inner_solver=solver, start="zero", max_iter=10, n_thresholds=6)
    with pytest.warns(ConvergenceWarning, match='inner_solver="bundle"'):
        fit(model, ROWS)
    assert model.objective_ < np.log(2)
    assert model.infeasibility_ < 0.02


def test_weak_criterion_does_not_select_everybody():
    # From scores of zero the method ended where every group had a rate beyond the
    # interval: as fair as any, with a quarter selected of whom half are negative.
    rng = np.random.RandomState(0)
    group = (rng.uniform(size=3000) < 0.2).astype(int)
    X = rng.randn(3000, 4)
    X[:, 0] += 2 * group
    y = X.sum(axis=1) + rng.randn(3000) > 3
    model = classifier(interval=(0, 0.25), kappa=0.01, criterion="weak", start="zero")
    model.fit(X, y, sensitive_features=group)
    assert model.objective_ < 0.2
    assert model.predict(X, sensitive_features=group).mean() < 0.15


def test_shift_is_the_best_of_all():
    rng = np.random.RandomState(0)
    for _ in range(20):
        scores = rng.randint(-3, 4, size=12) * 0.5
        signs = rng.choice([-1.0, 1.0], size=12)
        weights = rng.randint(0, 4, size=12).astype(float)
        shift = most_accurate_shift(scores, signs, weights)
        shifts = [shift, *np.arange(-2.25, 2.5, 0.5)]
        is_correct = [weights @ ((scores + s > 0) == (signs > 0)) for s in shifts]
        assert is_correct[0] == max(is_correct)
        repeated = [np.repeat(x, weights.astype(int)) for x in (scores, signs)]
        assert most_accurate_shift(*repeated) == shift
        for unit in (1e-300, 1e300):
            assert most_accurate_shift(scores, signs, unit * weights) == shift


def test_one_lucky_row_does_not_decide_the_shift():
    # 1000 rows: the walk has its broad top at 0.5 and a spike of two rows at 0.9.
    scores = np.linspace(-1, 1, 1000)
    signs = np.where(scores > 0.5, 1.0, -1.0)
    signs[40:60] = 1.0
    signs[960:985] = -1.0
    assert abs(most_accurate_shift(scores, signs) + 0.5) < 0.02


def test_path_of_solutions_in_the_order_given():
    options = {
        "kappas": [0.3, 0.02, 0.1],
        "interval": INTERVAL,
        "n_thresholds": 20,
        **PAPER,
    }
    path = partial_fairness_path(X, y, sensitive_features=group, **options)
    assert [model.kappa for model in path] == [0.3, 0.02, 0.1]
    wide, tight, middle = path
    assert tight.objective_ > middle.objective_ > wide.objective_
    gaps = [model.partial_parity_gap_ for model in (tight, middle, wide)]
    assert gaps == sorted(gaps)
    for model in path:
        alone = fit(clone(model), ROWS)
        assert model.converged_
        np.testing.assert_allclose(model.objective_, alone.objective_, rtol=0.02)
        if model.kappa > 0.02:  # a warm start
            assert model.n_oracle_calls_ < alone.n_oracle_calls_ / 3


@pytest.mark.parametrize("kappas", [[], [0.0], [0.1, 2.0], 0.1])
def test_bad_kappas(kappas):
    with pytest.raises(ValueError, match="kappas"):
        partial_fairness_path(X, y, sensitive_features=group, kappas=kappas)


def search_of(floor):
    estimator = classifier(n_thresholds=4, tol=5e-3)
    return PartiallyFairClassifierCV([0.02, 0.5], floor, estimator=estimator, cv=2)


@pytest.fixture(scope="module")
def loose():
    return fit(search_of(0.2), ROWS)


def test_floor_decides(loose):
    strict = fit(search_of(0.75), ROWS)
    assert loose.kappa_ == 0.5
    assert strict.kappa_ == 0.02
    assert strict.best_estimator_.kappa == 0.02
    assert strict.cv_results_["accuracy"].shape == (2, 2)
    fairness = strict.cv_results_["fairness"].mean(axis=1)
    assert fairness[0] >= 0.75 > fairness[1]


def test_penalty_of_the_interactions_is_chosen_as_well(loose):
    search = search_of(0.0).set_params(interaction_alphas=[10.0, 0.0])
    results = fit(search, ROWS).cv_results_
    assert results["kappa"].tolist() == [0.02, 0.5, 0.02, 0.5]
    assert results["interaction_alpha"].tolist() == [0.0, 0.0, 10.0, 10.0]
    assert results["accuracy"].shape == results["fairness"].shape == (4, 2)
    best = results["accuracy"].mean(axis=1).argmax()
    assert search.kappa_ == results["kappa"][best]
    assert search.interaction_alpha_ == results["interaction_alpha"][best]
    chosen = search.best_estimator_.get_params()
    assert chosen["interaction_alpha"] == search.interaction_alpha_
    # Without alpha the default is no penalty.
    for name in ("accuracy", "fairness"):
        assert_allclose(results[name][:2], loose.cv_results_[name])


@pytest.mark.parametrize(
    ("option", "values", "message"),
    [
        ("interaction_alphas", [[], [-1.0], 0.1, [np.nan]], "interaction_alphas"),
        ("cv", [iter([])], "no folds"),
        ("cv", [3], "fewer than the 3 folds"),
    ],
)
def test_bad_options_of_the_choice(option, values, message):
    rare = np.arange(len(y)) < 2
    for value in values:
        with pytest.raises(ValueError, match=message):
            fit(search_of(0.2).set_params(**{option: value}), (X, rare, group))


def test_no_gap_is_fair_enough():
    with pytest.warns(ConvergenceWarning, match="fairness_floor") as caught:
        search = search_of(1.0).fit(X, y, sensitive_features=group)
    assert search.kappa_ == 0.02
    assert caught[0].filename == __file__


def test_rows_as_columns_and_predictions_of_the_best(loose):
    with pytest.warns(DataConversionWarning):
        search = fit(search_of(0.2), (X, y[:, None], group[:, None]))
    for name in ("accuracy", "fairness"):
        assert_allclose(search.cv_results_[name], loose.cv_results_[name], rtol=0)
    for name in ("predict", "decision_function", "predict_proba"):
        actual, expected = (
            getattr(model, name)(X, sensitive_features=group)
            for model in (search, loose.best_estimator_)
        )
        np.testing.assert_array_equal(actual, expected)


@pytest.fixture(scope="module")
def a9a():
    return fetch_a9a(download_if_missing=False)


# From zero less than by switching subgradients: 0.3600 after 18,000 calls.
@pytest.mark.realdata
@pytest.mark.parametrize(
    ("start", "objective", "infeasibility", "n_calls"),
    [("auto", 0.3530, 1e-3, np.inf), ("zero", 0.3600, 1e-9, 200)],
)
def test_the_papers_problem(a9a, start, objective, infeasibility, n_calls):
    options = PAPER | {"n_thresholds": 10, "start": start}
    model = PartiallyFairClassifier((0.05, 0.30), 0.1, **options)
    model.fit(a9a.data, a9a.target, sensitive_features=a9a.sensitive_features)
    assert model.converged_
    assert model.kkt_residual_ <= 1e-3
    assert model.objective_ <= objective
    assert model.infeasibility_ <= infeasibility
    assert model.n_oracle_calls_ <= n_calls


@pytest.mark.realdata
def test_front_of_a9a(a9a):
    options = PAPER | {"n_thresholds": 25, "alpha": 1e-3, "start": "zero"}
    options |= {"interval": (0.05, 0.30)}
    options |= {"sensitive_features": a9a.sensitive_features}
    kappas = 0.01, 0.05, 0.1, 0.2, 0.28
    path = partial_fairness_path(a9a.data, a9a.target, kappas=kappas, **options)
    X, groups = a9a.data_test, a9a.sensitive_features_test
    scores = [m.decision_function(X, sensitive_features=groups) for m in path]
    accuracies = [((s > 0) == a9a.target_test).mean() for s in scores]
    gaps = [gap(s, groups, (0.05, 0.30)) for s in scores]
    assert all(model.converged_ for model in path)
    assert gaps == sorted(gaps)
    assert gaps[0] < 0.06
    assert accuracies == sorted(accuracies)
    assert accuracies[2] > 0.831


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("fetch", "interval"),
    [(fetch_bank_additional, (0.0, 0.25)), (fetch_law_school, (0.70, 1.0))],
)
def test_bank_and_law_school(fetch, interval):
    data = fetch(download_if_missing=False)
    X = StandardScaler().fit_transform(data.data)
    y, groups = np.asarray(data.target), data.sensitive_features
    plain = LogisticRegression(max_iter=2000).fit(X, y)
    unfair = gap(plain.decision_function(X), groups, interval)
    options = PAPER | {"n_thresholds": 25, "start": "zero"}
    model = PartiallyFairClassifier(interval, 0.08, **options)
    model.fit(X, y, sensitive_features=groups)
    assert model.converged_
    assert model.partial_parity_gap_ < 0.3
    assert model.partial_parity_gap_ < unfair / 2
