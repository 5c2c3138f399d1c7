"""Groups known as probabilities: a row counts for each by a part of its weight."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scalefair._membership import Membership
from scalefair.linear_model import (
    PartiallyFairClassifier,
    PartiallyFairClassifierCV,
    partial_fairness_path,
)
from scalefair.linear_model._training_rows import LabeledRows
from scalefair.metrics import partial_demographic_parity_gap, unmixed_parity_gap

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:Gaps of groups of fewer than"),
]
INTERVAL = (0.1, 0.6)
THETA = np.array([0.75, -0.5, 0.25, 0.25, 2.0])
NAMES = np.array(["b", "a", "c"])


def table(m=500, n_groups=3, seed=0):
    """Rows, labels, probabilities, of some rows none, and weights, some of them 0."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(n_groups), m)
    P[::7], P[3] = 0.0, np.eye(n_groups)[1]
    X = rng.standard_normal((m, 3))
    X[:, 0] += P[:, 0] - P[:, 1]
    y = (X @ [0.5, 1.0, 1.0] + rng.standard_normal(m) > 0).astype(int)
    return X, y, P, rng.integers(0, 4, m).astype(float)


def labeled(X, y, membership, given=None, weights=None):
    return LabeledRows.of(X, 2.0 * y - 1, np.array([0, 1]), membership, given, weights)


def classifier(**params):
    options = {"kappa": 0.1, "n_thresholds": 6, "interactions": False, "tol": 2e-3}
    return PartiallyFairClassifier(INTERVAL, **options | params)


def check_equal(actual, expected):
    scale = np.abs(expected).max()
    assert_allclose(actual, expected, rtol=0, atol=1e-12 * scale)


@pytest.mark.parametrize("has_weights", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared"])
@pytest.mark.parametrize(("surrogate", "corner"), [("ramp", 0.1), ("sigmoid", 0.0)])
@pytest.mark.parametrize("given", [None, "positive", "label"])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_oracle_is_that_of_expanded_rows(
    has_weights, loss, surrogate, corner, given, container
):
    X, y, P, weights = table()
    weights = weights if has_weights else None
    w = np.ones(len(y)) if weights is None else weights
    A = P * w[:, None]
    row, group = np.nonzero(A)
    options = {"loss": loss, "surrogate": surrogate, "interactions": False}
    soft = Membership.of(None, P, len(y), sample_weight=weights)
    oracle = labeled(container(X), y, soft, given, weights).oracle(**options)
    entry_weights = A[row, group]
    hard = Membership.of(group, None, len(row), sample_weight=entry_weights)
    rows = labeled(container(X[row]), y[row], hard, given, entry_weights)
    expanded = rows.oracle(oracle.layout.units, **options)
    rng = np.random.default_rng(1)
    v = rng.standard_normal(oracle.n_weights)
    theta = np.tile(THETA, oracle.compared.n_families)
    a, b = (o.evaluate(v, theta, width=0.7, corner=corner) for o in (oracle, expanded))
    check_equal(a.parts, b.parts)
    check_equal(a.slopes, b.slopes)
    multipliers = rng.standard_normal((2, *a.plus.shape))
    check_equal(a.combine(*multipliers), b.combine(*multipliers))
    # Rows of no group are in the loss; a row is there once.
    coef, intercept = np.split(oracle.layout.rows(v)[0], [-1])
    scores, signs = X @ coef + intercept, 2 * y - 1
    loss_of = {
        "logistic": np.logaddexp(0, -signs * scores),
        "hinge": np.maximum(0, 1 - signs * scores),
        "squared": (scores - signs) ** 2 / 2,
    }
    assert a.loss == pytest.approx(np.average(loss_of[loss], weights=w), rel=1e-12)
    numeric = [
        (oracle.evaluate(v + e, theta).loss - oracle.evaluate(v - e, theta).loss) / 2e-6
        for e in 1e-6 * np.eye(v.size)
    ]
    assert_allclose(a.loss_gradient, numeric, atol=1e-5)
    if surrogate == "ramp" and given is None:
        # The documented equation, S_g = sum_i A_ig sigma(h_i - theta) / W_g.
        value = oracle.evaluate(v, theta, width=0.7)
        ramp = np.clip((scores - THETA[:, None]) / 0.7 + 0.5, 0, 1)
        check_equal(value.plus - value.minus, (ramp @ A / A.sum(axis=0)).T)


def test_certain_probabilities_are_groups():
    X, y, P, weights = table()
    codes = P.argmax(axis=1)
    frame = pd.DataFrame(np.eye(3)[codes], columns=NAMES)
    groups = NAMES[codes]
    for options, sample_weight in (
        ({}, None),
        ({"criterion": "weak"}, weights + 1),
        ({"criterion": "weak", "given": "label"}, weights + 1),
    ):
        args = {"sample_weight": sample_weight}
        a, b = (classifier(**options, kappa=0.3, tol=1e-2) for _ in range(2))
        a.fit(X, y, group_probabilities=frame, **args)
        b.fit(X, y, sensitive_features=groups, **args)
        assert a.groups_.tolist() == b.groups_.tolist() == ["a", "b", "c"]
        for name in ("coef_", "intercept_", "partial_parity_gap_"):
            assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-12)
        assert not hasattr(b, "unmixed_parity_gap_")
        if not options:
            # Certain groups are not mixed.
            assert a.unmixed_parity_gap_ == pytest.approx(a.partial_parity_gap_)
    # A fit to groups forgets that of probabilities.
    a.fit(X, y, sensitive_features=groups)
    assert not hasattr(a, "unmixed_parity_gap_")


def test_fit_bounds_the_expected_gap():
    X, y, P, weights = table()
    model = classifier().fit(X, y, group_probabilities=P, sample_weight=weights)
    A = P * weights[:, None]
    scores = model.decision_function(X)

    def gap(scores):
        """Equation of the gap, at every threshold."""
        shares = [A[scores > t].sum(axis=0) / A.sum(axis=0) for t in scores]
        return np.ptp(np.clip(shares, *INTERVAL), axis=1).max() / np.ptp(INTERVAL)

    assert model.converged_
    assert model.partial_parity_gap_ == pytest.approx(gap(scores), rel=1e-9)
    assert 0.05 < model.partial_parity_gap_ <= 0.105
    free = classifier(kappa=1.0).fit(X, y, group_probabilities=P)
    assert gap(free.decision_function(X)) > 0.15
    unmixed = unmixed_parity_gap(
        scores, group_probabilities=P, interval=INTERVAL, sample_weight=weights
    )
    assert model.unmixed_parity_gap_ == pytest.approx(unmixed, rel=1e-9)
    assert unmixed > model.partial_parity_gap_


@pytest.mark.parametrize("given", ["positive", "label"])
def test_unmixed_gap_of_labels(given):
    X, y, P, weights = table()
    model = classifier(given=given, kappa=0.5)
    model.fit(X, y, group_probabilities=P, sample_weight=weights)
    scores = model.decision_function(X)
    gaps = [
        unmixed_parity_gap(
            scores[y == label],
            group_probabilities=P[y == label],
            interval=INTERVAL,
            sample_weight=weights[y == label],
        )
        for label in (0, 1)
    ]
    expected = gaps[1] if given == "positive" else max(gaps)
    assert model.unmixed_parity_gap_ == pytest.approx(expected, rel=1e-9)


def test_columns():
    X, y, P, _ = table()
    frame = pd.DataFrame(P, columns=NAMES)
    model = classifier(criterion="weak").fit(X, y, group_probabilities=frame)
    permuted = clone(model).fit(X, y, group_probabilities=frame[["c", "b", "a"]])
    assert_allclose(permuted.coef_, model.coef_, rtol=0, atol=1e-12)
    assert permuted.groups_.tolist() == model.groups_.tolist() == ["a", "b", "c"]
    # A group in two halves: the same rates, and the same fit but for rounding.
    halves = frame.assign(b=frame["b"] / 2, d=frame["b"] / 2)
    twice = clone(model).fit(X, y, group_probabilities=halves)
    assert twice.objective_ == pytest.approx(model.objective_, rel=1e-2)
    assert twice.partial_parity_gap_ <= 0.105
    assert np.isnan(twice.unmixed_parity_gap_)  # halves cannot be told apart
    rates = []
    for probabilities in (frame, halves):
        members = Membership.of(None, probabilities, len(y))
        oracle = labeled(X, y, members).oracle(interactions=False)
        value = oracle.evaluate(np.ones(oracle.n_weights), THETA)
        rates.append(value.plus - value.minus)
    check_equal(rates[1][[0, 1, 2]], rates[0])
    check_equal(rates[1][3], rates[0][1])


def test_weights_are_repeated_rows():
    X, y, P, weights = table()
    model = classifier().fit(X, y, group_probabilities=P, sample_weight=weights)
    again = np.repeat(np.arange(len(y)), weights.astype(int))
    repeated = classifier().fit(X[again], y[again], group_probabilities=P[again])
    # The search begins alike; rounding may lead it elsewhere.
    for record, other in zip(model.history_[:3], repeated.history_, strict=False):
        assert record["n_oracle_calls"] == other["n_oracle_calls"]
        assert record["objective"] == pytest.approx(other["objective"], rel=1e-9)
    assert model.objective_ == pytest.approx(repeated.objective_, rel=2e-3)
    scores = model.decision_function(X)
    gaps = [
        model._gap(scores[rows], labeled(X[rows], y[rows], members))
        for rows, members in (
            (slice(None), Membership.of(None, P, len(y), sample_weight=weights)),
            (again, Membership.of(None, P[again], len(again))),
        )
    ]
    assert gaps[0] == pytest.approx(gaps[1], rel=1e-12)
    assert gaps[0] == pytest.approx(model.partial_parity_gap_, rel=1e-9)


@pytest.mark.parametrize("given", [None, "label"])
def test_some_rows(given):
    X, y, P, weights = table()
    rows = labeled(X, y, Membership.of(None, P, 500, sample_weight=weights), given)
    rows = labeled(X, y, rows.membership, given, weights)
    known = (weights > 0) & P.any(axis=1)
    assert_allclose(rows.probabilities[known], P[known], rtol=1e-15)
    assert not rows.probabilities[~known].any()
    A = P * weights[:, None]
    for sizes, label in zip(rows.set_sizes, [0, 1], strict=False):
        part = A if given is None else A[y == label]
        expected = part.sum(axis=0) ** 2 / (part**2).sum(axis=0)
        assert sizes.tolist() == np.rint(expected).tolist()
    chosen = np.random.default_rng(0).permutation(500)[:200]
    some = rows.take(chosen, X[chosen])
    again = Membership.of(None, P[chosen], 200, sample_weight=weights[chosen])
    again = labeled(X[chosen], y[chosen], again, given, weights[chosen])
    for name in ("codes", "signs", "weights", "cells"):
        assert np.array_equal(getattr(some, name), getattr(again, name))
    assert np.array_equal(some.membership.rows, again.membership.rows)
    assert np.array_equal(some.membership.weights, again.membership.weights)


def test_path_and_search():
    X, y, P, weights = table()
    rows = {"group_probabilities": P, "sample_weight": weights}
    options = {"interval": INTERVAL, "n_thresholds": 4, "interactions": False}
    options["tol"] = 1e-2
    path = partial_fairness_path(X, y, kappas=[0.15, 1.0], **rows, **options)
    assert path[0].partial_parity_gap_ <= 0.1575 < path[1].partial_parity_gap_
    assert path[0].objective_ > path[1].objective_
    assert path[0].unmixed_parity_gap_ > path[0].partial_parity_gap_
    search = PartiallyFairClassifierCV(
        [0.15, 1.0], cv=2, estimator=PartiallyFairClassifier(**options)
    ).fit(X, y, **rows)
    fairness = search.cv_results_["fairness"].mean(axis=1)
    assert 0.9 > fairness[0] > fairness[1] > 0.5
    assert search.predict(X).shape == (500,)


def test_fit_of_rows_in_parts():
    X, y, P, _ = table()
    model = classifier()
    model.fit(da.from_array(X, chunks=(250, 3)), y, group_probabilities=P)
    gap = partial_demographic_parity_gap(
        model.decision_function(X), interval=INTERVAL, group_probabilities=P
    )
    assert model.partial_parity_gap_ == pytest.approx(gap, abs=1e-12)
    assert gap <= 0.11
    assert model.unmixed_parity_gap_ > 0


def test_what_is_refused():
    X, y, P, _ = table()
    fit = classifier().fit
    with pytest.raises(TypeError, match="got both"):
        fit(X, y, group_probabilities=P, sensitive_features=y)
    for rows in (X, da.from_array(X, chunks=(100, 3))):
        with pytest.raises(TypeError, match="got neither"):
            fit(rows, y)
    with pytest.raises(ValueError, match="no group to take weights of; pass inter"):
        classifier(interactions=True).fit(X, y, group_probabilities=P)
    with pytest.raises(ValueError, match="pairs of rows and takes no group_prob"):
        classifier(loss="auc").fit(X, y, group_probabilities=P)
    parts = da.from_array(X, chunks=(100, 3))
    with pytest.raises(ValueError, match="no group to take weights of; pass inter"):
        classifier(interactions=True).fit(parts, y, group_probabilities=P)
    frame = pd.DataFrame(P, columns=NAMES)
    frame.iloc[5, 2] = -0.25
    with pytest.raises(ValueError, match="first in row 5, column 'c'"):
        fit(X, y, group_probabilities=frame)
    # Many rows that are hardly of a group are few.
    thin = np.tile([1 - 1e-3, 1e-3], (500, 1))
    thin[0] = [0.0, 1.0]
    with pytest.raises(ValueError, match="fewer rows than min_group_size=5"):
        classifier(min_group_size=5).fit(X, y, group_probabilities=thin)


def test_rows_and_columns_are_routed():
    X, y, P, weights = table(240)
    frame = pd.DataFrame(P, columns=NAMES, index=np.arange(240)[::-1])
    seen = []

    class Recorder(PartiallyFairClassifier):
        def fit(self, X, y, *, group_probabilities=None, sample_weight=None):
            seen.append((group_probabilities, sample_weight))
            args = {"sample_weight": sample_weight}
            return super().fit(X, y, group_probabilities=group_probabilities, **args)

    train, test = np.arange(1, 240, 2), np.arange(0, 240, 2)
    params = {"group_probabilities": frame, "sample_weight": weights}
    with config_context(enable_metadata_routing=True):
        model = Recorder(INTERVAL, 0.3, interactions=False, max_iter=5, tol=0.1)
        model.set_fit_request(group_probabilities=True, sample_weight=True)
        model.set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        options = {"cv": [(train, test)], "error_score": "raise"}
        for estimator, prefix in (
            (model, ""),
            (make_pipeline(scaler, model), "recorder__"),
        ):
            seen.clear()
            cross_validate(estimator, X, y, params=params, **options)
            grid = {f"{prefix}kappa": [0.2, 0.3]}
            search = GridSearchCV(estimator, grid, **options).fit(X, y, **params)
            assert len(seen) == 4
            for probabilities, sample_weight in seen[:3]:
                pd.testing.assert_frame_equal(probabilities, frame.iloc[train])
                assert np.array_equal(sample_weight, weights[train])
            pd.testing.assert_frame_equal(seen[3][0], frame)
            best = search.best_estimator_
            fitted = best if not prefix else best[-1]
            assert fitted.groups_.tolist() == ["a", "b", "c"]
