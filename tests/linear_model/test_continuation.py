"""The gap of the training rows is at most kappa, or a warning says how large it is."""

import pickle
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score

from scalefair.datasets import fetch_compas, fetch_law_school, make_biased_rows
from scalefair.linear_model import (
    PartiallyFairClassifier,
    _continuation,
    partial_fairness_path,
)
from scalefair.linear_model._continuation import GapSolver
from scalefair.metrics import null_parity_gap, partial_parity_gap

INTERVAL = (0.1, 0.5)
ALLOWED = 1.05  # times kappa: what the documentation allows without a warning


def table(kind, m=1500):
    rows = make_biased_rows(m, 3, n_groups=2 + (kind == "three"), random_state=0)
    X, y, group = rows.data, rows.target, rows.sensitive_features
    if kind == "ties":
        X = np.round(X)
    if kind == "four scores":
        X = (X[:, :2] > 0.5).astype(float)
    if kind == "small":  # a group of 40 rows
        keep = (group == 0) | (np.cumsum(group == 1) <= 40)
        X, y, group = X[keep], y[keep], group[keep]
    return X, y, group


def classifier(**params):
    params = {"kappa": 0.05, "n_thresholds": 6, "tol": 5e-3, **params}
    return PartiallyFairClassifier(**{"interval": INTERVAL, **params})


def fit(model, rows):
    """Return the model trained, and the texts of its warnings."""
    X, y, group = rows
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, sensitive_features=group)
    assert all(issubclass(w.category, ConvergenceWarning) for w in caught)
    assert all(w.filename == __file__ for w in caught)
    return model, [str(w.message) for w in caught]


def measured_gap(model, X, group):
    """The criterion's gap, from what the model predicts."""
    scores = model.decision_function(X, sensitive_features=group)
    options = {"threshold": model.threshold if model.criterion == "weak" else None}
    options |= {"sensitive_features": group, "interval": model.interval}
    return partial_parity_gap(scores, **options)


def check_gap(model, messages, X, group):
    """The gap is what was promised, and a warning is there if and only if it is not."""
    gap = measured_gap(model, X, group)
    # The intercept is added before or after the products: ties apart by rounding.
    assert model.partial_parity_gap_ == pytest.approx(gap, abs=1e-3)
    texts = [m for m in messages if m.startswith("The gap of the training rows is")]
    assert len(texts) == (model.partial_parity_gap_ > ALLOWED * model.kappa)
    for message in texts:
        shown, kappa = re.search(
            r"rows is ([\d.e-]+), .* kappa=(\S+)\.", message
        ).groups()
        assert float(shown) == pytest.approx(model.partial_parity_gap_, rel=0.06)
        assert float(shown) > float(kappa) == model.kappa
        assert "FairCalibratedClassifier" in message
    return bool(texts)


@pytest.fixture
def few_surrogates(monkeypatch):
    """The search ends early: what it says of its end is tested, not how far it goes."""
    monkeypatch.setattr(_continuation, "MAX_SURROGATES", 2)


REACHED = [
    ("plain", {"interactions": False, "surrogate": "sigmoid", "kappa": 0.1}),
    ("plain", {"loss": "squared", "kappa": 0.1}),
    ("plain", {"loss": "auc", "kappa": 0.2}),
    ("plain", {"loss": "partial_auc", "kappa": 0.2}),
    ("plain", {"criterion": "weak", "loss": "hinge", "kappa": 0.1}),
    ("plain", {"start": "zero"}),
    ("three", {"interval": (0.0, 1.0)}),
    ("three", {"criterion": "weak", "surrogate": "sigmoid", "kappa": 0.02}),
    ("small", {"kappa": 0.2, "n_thresholds": 12}),
]


@pytest.mark.parametrize(("kind", "params"), REACHED, ids=str)
def test_gap_is_at_most_kappa(kind, params):
    X, _, group = rows = table(kind)
    model, messages = fit(classifier(**params), rows)
    assert not check_gap(model, messages, X, group)
    assert model.partial_parity_gap_ <= ALLOWED * model.kappa
    # The bound may be raised by what the smoothed problem's solution violates it.
    assert model.surrogate_kappa_ <= model.kappa + model.tol


def test_ties_that_leave_no_gap_so_small(few_surrogates):
    X, _, group = rows = table("four scores", 600)
    options = {"kappa": 0.05, "interactions": False, "max_iter": 5, "tol": 0.05}
    model, messages = fit(classifier(**options), rows)
    assert check_gap(model, messages, X, group)
    scores = model.decision_function(X, sensitive_features=group)
    ties = []
    for g in (0, 1):
        _, counts = np.unique(-scores[group == g].round(9), return_counts=True)
        ranks = np.append(0, counts.cumsum()) / counts.sum()
        ties.append(np.diff(np.clip(ranks, *INTERVAL)).max() / 0.4)
    shown = re.search(
        r"([\d.]+) of a group's rows between .* score, and ([\d.]+) is what chance",
        messages[-1],
    ).groups()
    expected = max(ties), null_parity_gap(np.bincount(group), interval=INTERVAL)
    assert [*map(float, shown)] == pytest.approx(expected, rel=0.05)  # two digits


@pytest.mark.parametrize("criterion", ["strong", "weak"])
@pytest.mark.parametrize("surrogate", ["ramp", "sigmoid"])
def test_residual_is_of_the_last_problem(criterion, surrogate):
    X, _, group = rows = table("plain")
    options = {"criterion": criterion, "surrogate": surrogate, "kappa": 0.05}
    model, _ = fit(classifier(**options, tune_intercept=False), rows)
    scores = model.decision_function(X, sensitive_features=group)
    x = (scores[:, None] - model.thresholds_) / model.surrogate_width_
    above = np.clip(x + 0.5, 0, 1) if surrogate == "ramp" else 1 / (1 + np.exp(-x))
    rates = np.array([above[group == g].mean(axis=0) for g in (0, 1)])
    slack = 0.4 * model.surrogate_kappa_
    if criterion == "strong":
        n_ranks = model.thresholds_.size  # of 6 the gap between them is too large
        assert n_ranks > 1 / model.kappa
        ranks = np.linspace(0.1, 0.5 - slack, n_ranks, endpoint=False)
        violation = max((ranks - rates).max(), (rates - ranks - slack).max())
        # Otherwise another problem than that of kappa would not be seen.
        assert model.surrogate_width_ < 1
        assert model.surrogate_kappa_ < 0.05
    else:
        violation = np.ptp(np.clip(rates, *INTERVAL)) - slack
    assert model.infeasibility_ == pytest.approx(max(violation, 0), abs=1e-9)
    assert model.infeasibility_ <= model.tol
    assert model.history_[-1]["kkt_residual"] == model.kkt_residual_ <= model.tol
    # The same problem, given as such, is solved by the same point.
    width, kappa = model.surrogate_width_, model.surrogate_kappa_
    start = np.column_stack([model.coef_, model.intercept_])
    same = clone(model).set_params(surrogate_width=width, kappa=kappa, start=start)
    same.set_params(n_thresholds=model.thresholds_.size)
    same, _ = fit(same, rows)
    assert same.n_iter_ <= 10  # thresholds are fitted anew
    # Both to tol; steps that make the gap of the scores too large are not taken.
    assert same.objective_ == pytest.approx(model.objective_, rel=5e-3)


def test_path_is_monotone(few_surrogates):
    X, y, group = table("plain", 300)
    kappas = [0.4, 0.06, 0.15]
    options = {"interval": INTERVAL, "n_thresholds": 6, "tol": 0.05, "max_iter": 5}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        path = partial_fairness_path(
            X, y, sensitive_features=group, kappas=kappas, **options
        )
    assert [model.kappa for model in path] == kappas
    assert all(w.filename == __file__ for w in caught)
    texts = [str(w.message) for w in caught]
    for model in path:
        texts_of_model = [m for m in texts if f"kappa={model.kappa:g}." in m]
        check_gap(model, texts_of_model, X, group)
    ordered = sorted(path, key=lambda model: model.kappa)
    for name, slope in (("partial_parity_gap_", 1), ("objective_", -1)):
        values = [getattr(model, name) for model in ordered]
        assert (slope * np.diff(values) >= 0).all()


def test_bound_is_not_needlessly_low():
    # The first bound with a gap below 0.05 may have one of 0.037; nine tenths suffice.
    model, _ = fit(classifier(criterion="weak"), table("plain"))
    assert 0.04 <= model.partial_parity_gap_ <= 0.05
    assert model.surrogate_kappa_ < 0.05 or model.surrogate_width_ < 1


@pytest.mark.parametrize("criterion", ["strong", "weak"])
def test_warm_and_check_starts(criterion):
    X, _, group = rows = table("plain")
    options = {"criterion": criterion, "threshold": 0.5}
    model, _ = fit(classifier(**options, warm_start=True), rows)
    cold = model.n_oracle_calls_, model.surrogate_width_, model.surrogate_kappa_
    again, messages = fit(model, rows)
    assert not check_gap(again, messages, X, group)
    assert again.n_oracle_calls_ <= cold[0] / 2
    # It goes on with the last surrogate, whose bound may have to fall a little more.
    assert again.surrogate_width_ == cold[1]
    assert again.surrogate_kappa_ == pytest.approx(cold[2], rel=0.2)
    # Fair by the surrogate of the paper, but not by the gap of its scores.
    given, _ = fit(classifier(**options, surrogate_width=1.0), rows)
    start = np.column_stack([given.coef_, given.intercept_])
    model, messages = fit(classifier(**options, start=start), rows)
    assert not check_gap(model, messages, X, group)


def test_a_narrow_start_has_the_ranks_of_a_smaller_kappa():
    rows = table("plain")
    model, _ = fit(classifier(kappa=0.2, warm_start=True), rows)
    model.surrogate_width_ = 0.5  # narrow, whatever that fit needed
    warm, _ = fit(model.set_params(kappa=0.02), rows)
    assert warm.thresholds_.size >= 1 / 0.02
    assert warm.surrogate_kappa_ <= 1


def test_more_ranks_than_rows_are_of_no_use():
    X, y, group = table("plain", 300)
    model, _ = fit(classifier(kappa=1e-4, max_iter=2), (X, y, group))
    assert model.thresholds_.size <= 325


def test_a_start_far_below_kappa_is_improved_even_if_its_first_step_goes_too_far(
    monkeypatch,
):
    rows = table("plain", 400)
    model = classifier(kappa=0.05, warm_start=True, tune_intercept=False)
    objective = fit(model, rows)[0].objective_
    certify, gaps = GapSolver.certify, []

    def first_one_unfair(solver, problem, x):
        solution = certify(solver, problem, x)
        gaps.append(solution.gap if gaps else 0.9)
        return replace(solution, gap=gaps[-1])

    monkeypatch.setattr(GapSolver, "certify", first_one_unfair)
    fit(model.set_params(kappa=0.3), rows)
    assert model.objective_ < objective - 1e-3
    assert model.partial_parity_gap_ <= 0.3


def test_method_of_the_paper_warns():
    rows = table("plain")
    model, messages = fit(classifier(surrogate_width=1.0), rows)
    assert (model.surrogate_width_, model.surrogate_kappa_) == (1.0, 0.05)
    assert model.partial_parity_gap_ > 0.1
    (message,) = messages
    assert f"rows is {model.partial_parity_gap_:.2g}, more than kappa=0.05" in message
    assert 'surrogate_width="auto"' in message


def test_same_rows_same_model():
    X, _, group = rows = table("plain")
    first, _ = fit(classifier(kappa=0.1), rows)
    again, _ = fit(clone(first), rows)
    for model in (again, pickle.loads(pickle.dumps(first))):
        assert np.array_equal(model.coef_, first.coef_)
        assert np.array_equal(model.thresholds_, first.thresholds_)
        assert model.surrogate_kappa_ == first.surrogate_kappa_
        assert measured_gap(model, X, group) == measured_gap(first, X, group)
    # What a warm start needs is kept as well.
    copy = pickle.loads(pickle.dumps(first)).set_params(warm_start=True)
    assert fit(copy, rows)[0].n_oracle_calls_ < first.n_oracle_calls_


@pytest.mark.realdata
@pytest.mark.parametrize("kappa", [0.02, 0.05, 0.1, 0.2])
@pytest.mark.parametrize("interval", [(0.05, 0.3), (0.0, 1.0)])
@pytest.mark.parametrize("interactions", [True, False])
@pytest.mark.parametrize("fetch", [fetch_compas, fetch_law_school])
def test_tables(fetch, interactions, interval, kappa):
    data = fetch(download_if_missing=False)
    X, y, group = np.asarray(data.data), data.target, data.sensitive_features
    model = PartiallyFairClassifier(interval, kappa, interactions=interactions)
    model, messages = fit(model, (X, y, group))
    check_gap(model, messages, X, group)


def test_success_does_not_depend_on_the_seed():
    """Nor on the last digits of the rows, which are the processor's."""
    n_solved = 0
    for seed in range(4):
        rows = make_biased_rows(1000, 3, random_state=seed % 2)
        X, noise = rows.data, np.random.default_rng(seed)
        if seed >= 2:
            X = X * (1 + 1e-14 * noise.standard_normal(X.shape))
        rows = X, rows.target, rows.sensitive_features
        model, _ = fit(classifier(), rows)
        is_fair = model.partial_parity_gap_ <= ALLOWED * model.kappa
        n_solved += model.converged_ and is_fair
    assert n_solved >= 3


def test_groups_that_chance_tells_apart_do_not_make_scores_constant():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 24, 1500)  # bands of age
    X = rng.standard_normal((1500, 2))
    y = (X.sum(axis=1) / np.sqrt(2) + rng.standard_normal(1500) > 0).astype(int)
    model = PartiallyFairClassifier(interactions=False)
    model, messages = fit(model, (X, y, group))
    check_gap(model, messages, X, group)
    assert model.converged_
    assert not any("no better than" in message for message in messages)
    scores = model.decision_function(X)
    assert np.ptp(scores) > 0.05
    assert roc_auc_score(y, scores) > 0.75


def useless(model, rows):
    """Whether scores are said to be as good as constant ones, which do not converge."""
    model, messages = fit(model, rows)
    texts = [m for m in messages if "no better than the same score" in m]
    assert all("larger kappa" in message for message in texts)
    assert bool(texts) <= (not model.converged_)
    return bool(texts)


@pytest.mark.parametrize(
    ("n_groups", "by_group", "options"),
    [
        (24, 0.0, {"interactions": False}),
        (2, 2.0, {}),
        (2, 0.0, {"surrogate_width": 1.0, "alpha": 100.0}),
    ],
)
def test_scores_that_fit_as_chance_does_are_said_to_be_of_no_use(
    n_groups, by_group, options
):
    # The features say nothing of the labels but by the groups, or nothing at all.
    rng = np.random.default_rng(1)
    group = np.arange(1500) % n_groups
    shift = by_group * (2 * group / (n_groups - 1) - 1)
    X = rng.standard_normal((1500, 2)) + shift[:, None]
    y = rng.standard_normal(1500) + shift / 2 > 0
    model = classifier(**options)
    if by_group:  # unfair scores are of use
        assert not useless(clone(model).set_params(kappa=0.99), (X, y, group))
    # Unfair scores that are of use may be taken instead, with a warning of their gap.
    assert useless(model, (X, y, group)) or model.partial_parity_gap_ > model.kappa


def test_advice_does_not_ask_for_an_absurd_tolerance(monkeypatch):
    idca = _continuation.idca

    def stopped(*args, **options):
        result = idca(*args, **options)
        return replace(result, converged=False, kkt_residual=residual)

    monkeypatch.setattr(_continuation, "idca", stopped)
    rows = table("plain", 300)
    for residual in (1.1e10, 0.0213):
        _, messages = fit(classifier(kappa=0.3, max_iter=20), rows)
        (message,) = [m for m in messages if m.startswith("Training stopped")]
        assert "larger kappa" in message
        assert ("tol=0.023 would" in message) == (residual < 1)
        assert "raise tol" not in message.lower()


@pytest.mark.parametrize("useful", [0, 1, 2])
def test_a_search_that_fails_starts_again_from_the_nested_model(
    few_surrogates, monkeypatch, useful
):
    """Weights of the model without interactions are weights of the one with them."""
    solutions, meet_gap = [], GapSolver.meet_gap

    def pretend(solver, start, **options):
        starts.append(start)
        solution = meet_gap(solver, start, **options)
        # All miss kappa but by chance; one of them has scores that are of use.
        objective = 0.4 if len(solutions) == useful else 0.69
        gap = 0.9 - 0.1 * len(solutions)
        solutions.append(replace(solution, gap=gap, objective=objective))
        return solutions[-1]

    starts = []
    monkeypatch.setattr(GapSolver, "meet_gap", pretend)
    model, _ = fit(classifier(kappa=0.4, max_iter=2, tol=0.1), table("three", 200))
    if useful == 1:  # of the nested model
        assert [start is None for start in starts] == [True, True, False]
        # The start has the scores of the smaller model: groups add no weights.
        shared, *added = starts[2].weights.reshape(3, -1)
        assert shared.any()
        assert not np.any(added)
        assert model.objective_ == 0.69
    else:
        # A nested model that is of no use is no start.
        assert len(starts) == 2
        assert model.objective_ == solutions[0].objective


@pytest.mark.parametrize("interaction_alpha", [None, 1.0])
def test_what_groups_add_is_penalised_by_itself(interaction_alpha):
    X, y, group = rows = table("three", 400)
    options = {"kappa": 1.0, "interaction_alpha": interaction_alpha, "tol": 1e-4}
    options["tune_intercept"] = False
    model, _ = fit(classifier(**options), rows)
    loose, _ = fit(classifier(**{**options, "interaction_alpha": 1e-6}), rows)
    added, free = (np.abs(m.coef_[1:]).sum() for m in (model, loose))
    assert added < (0.1 if interaction_alpha else 0.9) * free
    # Gradient of the penalised loss, by hand: coefficients of standardized features.
    scale = X.std(axis=0)
    scores = model.decision_function(X, sensitive_features=group)
    penalty = interaction_alpha or 16 / len(X)
    slopes = expit(scores) - y
    standard = (X - X.mean(axis=0)) / scale
    for k in (1, 2):
        gradient = standard[group == k].T @ slopes[group == k] / len(X)
        gradient = gradient + penalty * model.coef_[k] * scale
        assert np.abs(gradient).max() < 5e-3
