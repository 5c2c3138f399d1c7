"""Fair calibration given the label: its promises, what it says of pairs, refusals."""

import itertools

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from scalefair.metrics import null_parity_gap, partial_parity_gap
from scalefair.optimize import parity_isotonic_regression
from scalefair.postprocessing import FairCalibratedClassifier, fair_calibration_path


def table(m, n_groups=2, seed=0, decimals=None):
    """Rows of one feature that differs among groups and tells the label."""
    rng = np.random.default_rng(seed)
    codes = np.minimum(rng.integers(n_groups + 2, size=m), n_groups - 1)
    X = rng.normal(size=(m, 1)) + codes[:, None] / n_groups
    X = X if decimals is None else np.round(X, decimals)
    y = (X[:, 0] + 1.4 * rng.normal(size=m) > 0.8).astype(int)
    return X, y, codes


X, Y, CODES = table(1500)
every_given = pytest.mark.parametrize("given", ["positive", "label"])
# They are expected where groups have few rows.
quiet = pytest.mark.filterwarnings("ignore:(Groups of too few|kappa=.* is less than)")


def fair(rows=(X, Y, CODES), weights=None, **options):
    features, labels, groups = rows
    estimator = FrozenEstimator(LogisticRegression().fit(features, labels))
    model = FairCalibratedClassifier(estimator, **options)
    return model.fit(features, labels, sensitive_features=groups, sample_weight=weights)


def gap_of(model, rows=(X, Y, CODES), weights=None, kept=slice(None)):
    decisions = model.decision_function(rows[0], sensitive_features=rows[2])
    return partial_parity_gap(
        decisions[kept],
        sensitive_features=rows[2][kept],
        y_true=rows[1][kept],
        given=model.given,
        interval=model.interval,
        sample_weight=None if weights is None else weights[kept],
    )


def compared(labels, given):
    return np.column_stack([labels == 0, labels == 1])[:, given == "positive" :]


@quiet
@every_given
@pytest.mark.parametrize("interval", [(0.0, 1.0), (0.05, 0.4)])
@pytest.mark.parametrize("target", ["labels", "scores"])
@pytest.mark.parametrize(("kappa", "decimals"), [(0.0, None), (0.05, 1), (0.2, None)])
@pytest.mark.parametrize("n_groups", [2, 4])
def test_gaps_on_the_rows_of_fit(given, interval, target, kappa, decimals, n_groups):
    rows = table(1500, n_groups, decimals=decimals)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 1500) if decimals else None
    options = {"interval": interval, "kappa": kappa, "target": target}
    model = fair(rows, weights, given=given, **options)
    bounds = np.zeros((n_groups, n_groups))
    for is_compared in compared(rows[1], given).T:
        sizes = np.bincount(rows[2][is_compared]) * (interval[1] - interval[0])
        allowed = np.clip(1 / sizes, kappa, 1.0)
        bounds = np.maximum(bounds, np.add.outer(allowed, allowed) / 2)
    np.fill_diagonal(bounds, 0.0)
    np.testing.assert_allclose(model.kappas_, bounds, rtol=1e-12)
    assert model.kappa_ == model.kappas_.max()
    assert model.partial_parity_gap_ == pytest.approx(gap_of(model, rows, weights))
    for pair in itertools.combinations(range(n_groups), 2):
        gap = gap_of(model, rows, weights, np.isin(rows[2], pair))
        assert gap == pytest.approx(model.partial_parity_gaps_[pair], abs=1e-12)
        assert gap <= model.kappas_[pair] + 1e-12


@quiet
@every_given
def test_outputs_are_the_regression_s(given):
    model = fair(given=given, kappa=0.1)
    expected = parity_isotonic_regression(
        Y, X[:, 0], CODES, kappa=0.1, levels_of=compared(Y, given)
    )
    outputs = model.predict_proba(X, sensitive_features=CODES)[:, 1]
    np.testing.assert_allclose(outputs, expected.fitted, atol=1e-6)
    # The gap among all rows is another one.
    other = fair(kappa=0.1)
    assert gap_of(model.set_params(given=None)) > 0.1 >= gap_of(other) - 1e-12


@quiet
def test_gaps_are_closed_at_all_thresholds_for_positives_only():
    plain = partial_parity_gap(
        X[:, 0], sensitive_features=CODES, y_true=Y, given="positive"
    )
    model = fair(given="positive", kappa=0.02)
    assert model.partial_parity_gap_ <= 0.02 < plain / 3
    assert gap_of(model.set_params(given="label")) > 0.1


@quiet
@every_given
def test_path_equals_single_fits(given):
    groups = {"sensitive_features": CODES}
    frozen = FrozenEstimator(LogisticRegression().fit(X, Y))
    kappas = [0.2, 0.02]
    path = fair_calibration_path(frozen, X, Y, **groups, kappas=kappas, given=given)
    for kappa, model in zip(kappas, path, strict=True):
        alone = fair(given=given, kappa=kappa)
        assert (model.given, model.roc_distance_) == (given, alone.roc_distance_)
        np.testing.assert_array_equal(model.kappas_, alone.kappas_)
        np.testing.assert_array_equal(
            model.decision_function(X, **groups), alone.decision_function(X, **groups)
        )


def curves(labels, scores, interval):
    """Rates of negatives and positives among the ranks at each cut."""
    cuts = [np.inf, *np.unique(scores)[::-1]]
    low, high = interval
    rates = [
        [np.clip(np.mean(scores[labels == y] >= cut), low, high) for y in (0, 1)]
        for cut in cuts
    ]
    return (np.array(rates) - low) / (high - low)


@quiet
@pytest.mark.parametrize("interval", [(0.0, 1.0), (0.1, 0.5)])
@pytest.mark.parametrize("decimals", [None, 1])
def test_roc_distance(interval, decimals):
    rows = table(240, 3, seed=3, decimals=decimals)
    points = []
    for k in range(3):
        members = rows[2] == k
        points.append(curves(rows[1][members], rows[0][members, 0], interval))
    distances = [
        np.abs(a[:, None] - b).max(axis=2).min(axis=1).max()
        for a, b in itertools.permutations(points, 2)
    ]
    model = fair(rows, given="label", interval=interval)
    assert model.roc_distance_ == pytest.approx(max(distances))
    assert fair(rows, given="positive", interval=interval).roc_distance_ is None


def test_kappas_below_the_roc_distance_are_warned_of():
    rows = X, Y, np.array(["f", "m"])[CODES]
    with pytest.warns(UserWarning, match="distance of the ROC curves") as caught:
        model = fair(rows, given="label", kappa=0.01)
    message = f"kappa=0.01 is less .* of 'f' and 'm', {model.roc_distance_:.2g} "
    assert len(caught) == 1
    with pytest.warns(UserWarning, match=message):
        fair_calibration_path(
            model.estimator, *rows[:2], sensitive_features=rows[2], given="label",
            kappas=[0.5, 0.01],
        )  # fmt: skip
    fair(rows, given="label", kappa=model.roc_distance_ + 1e-6)  # or it is an error


def test_equal_curves_are_at_no_distance():
    rows = [np.concatenate([column, column]) for column in (X, Y)]
    rows.append(np.repeat([0, 1], len(Y)))
    model = fair(rows, given="label", kappa=0.0)
    assert model.roc_distance_ == 0.0
    np.testing.assert_array_equal(*np.split(
        model.decision_function(rows[0], sensitive_features=rows[2]), 2
    ))  # fmt: skip


@pytest.mark.filterwarnings("ignore:kappa=.* is less than the distance")
@pytest.mark.parametrize("n_rare", [1, 3])
@every_given
def test_a_group_of_few_positives_leaves_the_others_their_bound(given, n_rare):
    groups, kappa = np.array(["a", "b", "rare"])[CODES], 0.2
    groups[np.flatnonzero(Y == 1)[:n_rare]] = "rare"
    groups[np.flatnonzero(Y == 0)[:100]] = "rare"
    message = rf"few rows for kappa=0.2: 'rare' labelled 1 \({n_rare}\)\. Pairs with"
    with pytest.warns(UserWarning, match=message) as caught:
        model = fair((X, Y, groups), given=given, kappa=kappa)
    assert f"'a' and 'rare' by {(kappa + 1 / n_rare) / 2:.2g} (" in str(
        caught[0].message
    )
    np.testing.assert_allclose(model.kappas_[0], [0, kappa, (kappa + 1 / n_rare) / 2])
    assert gap_of(model, (X, Y, groups), kept=groups != "rare") <= kappa + 1e-12


@quiet
@every_given
def test_null_gap_is_that_of_the_rows_compared(given):
    groups = np.array(["a", "b", "c"])[table(1500, 3)[2]]
    model = fair((X, Y, groups), given=given)
    _, codes = np.unique(groups, return_inverse=True)
    sizes = [np.bincount(codes[rows]) / 2 for rows in compared(Y, given).T]
    assert model.null_gap_ == pytest.approx(null_parity_gap(sizes), rel=1e-9)
    pair = null_parity_gap([counts[[0, 2]] for counts in sizes])
    assert model.null_gap(1500, ["a", "c"]) == pytest.approx(pair, rel=1e-9)
    with pytest.raises(ValueError, match="fit did not see: 'x'"):
        model.null_gap(10, ["a", "x"])


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        ([1, 1, 0, 0, 1, 0], {}, None),
        ([1, 1, 0, 0, 0, 0], {}, r"label, fewer rows .*=1: 'b' labelled 1 \(0\)\."),
        ([1, 1, 1, 0, 1, 0], {"given": "label"}, r"1: 'a' labelled 0 \(0\)\. .*out\.$"),
        ([1, 1, 0, 0, 1, 0], {"min_group_size": 2}, r"2: 'b' labelled 1 \(1\)"),
        (
            [1, 1, 0, 0, 1, 0],
            {"weights": [1, 1, 1, 1, 0, 1]},
            r"1 .*: 'b' labelled 1\.",
        ),
        ([1, 1, 0, 0, 1, 0], {"given": "negative"}, "'given' parameter"),
        ([1, 1, 0, 0, 1, 0], {"attributes": "each"}, "cuts that are fair to groups"),
    ],
)
def test_groups_need_rows_of_each_label(labels, options, message):
    rows = X[:6], np.array(labels), np.array(list("aaabbb"))
    options = {"given": "positive", "kappa": 1.0} | options
    if message is None:
        fair(rows, **options)
        return
    with pytest.raises(ValueError, match=message):
        fair(rows, **options)


@quiet
def test_cross_fitted_and_named_labels():
    model = FairCalibratedClassifier(LogisticRegression(), given="label", kappa=0.1)
    model.fit(X, np.array(["no", "yes"])[Y], sensitive_features=CODES)
    assert model.partial_parity_gap_ <= 0.1 + 1e-12
    assert set(model.predict(X, sensitive_features=CODES)) == {"no", "yes"}
