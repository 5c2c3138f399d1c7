"""Fair calibration: the gap it promises, and the classifiers that it wraps."""

import re
from itertools import combinations, permutations

import numpy as np
import pytest
from scipy.special import expit
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from scalefair.metrics import null_parity_gap, partial_parity_gap
from scalefair.optimize import parity_isotonic_regression
from scalefair.postprocessing import FairCalibratedClassifier, fair_calibration_path


class First(ClassifierMixin, BaseEstimator):
    """The first feature is the score; nothing to fit."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return np.asarray(X)[:, 0]


def table(m=600, n_groups=2, seed=0, decimals=None):
    """Rows whose first feature differs among groups and tells the label."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.minimum(np.arange(m) % (n_groups + 2), n_groups - 1))
    X = rng.standard_normal((m, 3))
    X[:, 0] += codes / n_groups
    if decimals is not None:
        X = np.round(X, decimals)
    y = (X[:, 0] + X[:, 1] + rng.standard_normal(m) > 0.8).astype(int)
    return X, y, codes


X, Y, CODES = table()
PREFIT = FrozenEstimator(First().fit(X, Y))


def fair(estimator=PREFIT, rows=(X, Y, CODES), weights=None, **options):
    model = FairCalibratedClassifier(estimator, **options)
    features, labels, groups = rows
    return model.fit(features, labels, sensitive_features=groups, sample_weight=weights)


def gap_of(model, rows=(X, Y, CODES), weights=None, subset=slice(None)):
    decisions = model.decision_function(rows[0], sensitive_features=rows[2])
    return partial_parity_gap(
        decisions[subset],
        sensitive_features=rows[2][subset],
        y_true=None if rows[1] is None else rows[1][subset],
        given=model.given,
        interval=model.interval,
        sample_weight=None if weights is None else weights[subset],
    )


def compared(labels, given):
    """Samples that are compared, a column for each condition."""
    if given is None:
        return np.ones((labels.size, 1), bool)
    return np.column_stack([labels == 0, labels == 1])[:, given == "positive" :]


# The warnings are expected where groups have few rows.
quiet = pytest.mark.filterwarnings("ignore:(Groups of too few|kappa=.* is less than)")


@quiet
@pytest.mark.parametrize(
    ("given", "interval", "target", "kappa", "decimals", "n_groups"),
    [
        (None, (0.0, 1.0), "labels", 0.0, None, 2),
        (None, (0.05, 0.3), "scores", 0.05, 2, 5),
        (None, (0.0, 1.0), "scores", 0.05, 0, 2),
        ("positive", (0.05, 0.3), "labels", 0.2, None, 5),
        ("positive", (0.0, 1.0), "scores", 0.0, None, 2),
        ("label", (0.0, 1.0), "labels", 0.05, 2, 2),
        ("label", (0.05, 0.3), "scores", 0.2, None, 5),
    ],
)
def test_gaps_on_the_rows_of_fit(given, interval, target, kappa, decimals, n_groups):
    rows = table(1500, n_groups, decimals=decimals)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 1500) if decimals else None
    frozen = FrozenEstimator(First().fit(*rows[:2]))
    options = {"interval": interval, "kappa": kappa, "target": target}
    model = fair(frozen, rows, weights, given=given, **options)
    assert model.partial_parity_gap_ == pytest.approx(gap_of(model, rows, weights))
    for pair in combinations(range(n_groups), 2):
        gap = gap_of(model, rows, weights, np.isin(rows[2], pair))
        assert gap == pytest.approx(model.partial_parity_gaps_[pair], abs=1e-12)
        assert gap <= model.kappas_[pair] + 1e-12
    # Rows of a group are never brought out of their order.
    outputs = model.decision_function(rows[0], sensitive_features=rows[2])
    for k in range(n_groups):
        members = rows[2] == k
        ordered = outputs[members][np.argsort(rows[0][members, 0], kind="stable")]
        assert (np.diff(ordered) >= 0).all()


def test_weights_are_repeated_rows():
    weights = np.random.default_rng(1).integers(0, 4, len(Y))
    repeated = [np.repeat(column, weights, axis=0) for column in (X, Y, CODES)]
    options = {"interval": (0.05, 0.3), "kappa": 0.1}
    weighted = fair(weights=weights, **options)
    model = fair(rows=repeated, **options)
    np.testing.assert_allclose(weighted.values_, model.values_, rtol=1e-12)
    np.testing.assert_array_equal(weighted.thresholds_, model.thresholds_)
    assert weighted.partial_parity_gap_ <= 0.1 + 1e-12
    assert weighted.partial_parity_gap_ == pytest.approx(model.partial_parity_gap_)
    assert gap_of(weighted, weights=weights) == weighted.partial_parity_gap_
    # A row of weight three is less to go by than three rows.
    assert weighted.null_gap_ > model.null_gap_
    for unit in (2.0, 1e-170, 1e160):
        other = fair(weights=unit * weights, **options)
        assert other.null_gap_ == pytest.approx(weighted.null_gap_, rel=1e-12)


def test_weights_go_to_the_estimator():
    weights = np.random.default_rng(1).uniform(0.1, 3.0, len(Y))
    model = fair(LogisticRegression(), weights=weights)
    alone = LogisticRegression().fit(X, Y, weights)
    np.testing.assert_array_equal(model.estimator_.coef_, alone.coef_)
    # And in the folds.
    options = {"method": "decision_function", "params": {"sample_weight": weights}}
    scores = cross_val_predict(LogisticRegression(), X, Y, **options)[:, None]
    frozen = FrozenEstimator(First().fit(scores, Y))
    expected = fair(frozen, (scores, Y, CODES), weights)
    np.testing.assert_array_equal(model.thresholds_, expected.thresholds_)
    # Its fit takes none, only that of its last step does.
    piped = fair(make_pipeline(StandardScaler(), LogisticRegression()), weights=weights)
    assert piped.partial_parity_gap_ <= 0.05 + 1e-12


@pytest.mark.parametrize(("n_rare", "interval"), [(1, (0.05, 0.3)), (10, (0.0, 1.0))])
def test_a_rare_group_leaves_the_others_their_bound(n_rare, interval):
    features, labels, codes = table(4000)
    two = fair(rows=(features, labels, codes), interval=interval)
    groups = np.array(["a", "b", "rare"])[codes]
    groups[np.random.default_rng(2).choice(4000, n_rare, replace=False)] = "rare"
    message = rf"few rows for kappa=0.05: 'rare' \({n_rare}\)\."
    with pytest.warns(UserWarning, match=message) as caught:
        model = fair(rows=(features, labels, groups), interval=interval)
    assert len(caught) == 1
    resolution = min(1 / (n_rare * (interval[1] - interval[0])), 1.0)
    expected = np.full((3, 3), (0.05 + resolution) / 2)
    expected[:2, :2] = 0.05
    np.testing.assert_allclose(model.kappas_, expected * (1 - np.eye(3)), rtol=1e-12)
    assert model.kappa_ == model.kappas_.max()
    is_common = groups != "rare"
    rows = features[is_common], labels[is_common], groups[is_common]
    assert gap_of(model, rows) <= 0.05 + 1e-12
    # Hardly a prediction of the other groups changes.
    predicted = model.predict(rows[0], sensitive_features=rows[2])
    expected = two.predict(rows[0], sensitive_features=codes[is_common])
    assert np.mean(predicted != expected) < 0.01


def test_groups_that_get_less_than_was_asked_are_named():
    codes = np.repeat([0, 1, 2, 3], [580, 4, 1, 15])
    kappas = {"kappas": [0.1, 0.5], "sensitive_features": codes}
    message = r"kappa=0.1: 2 \(1\), 1 \(4\)\..*min_group_size=10 refuses"
    with pytest.warns(UserWarning, match=message) as caught:
        fair_calibration_path(PREFIT, X, Y, **kappas)
    assert (len(caught), caught[0].filename) == (1, __file__)
    with pytest.warns(UserWarning, match="kappa=0: 2 .*, 3 .15.*=30 ") as caught:
        FairCalibratedClassifier(PREFIT, kappa=0).fit(X, Y, sensitive_features=codes)
    assert (len(caught), caught[0].filename) == (1, __file__)


@pytest.mark.parametrize(
    ("estimator", "target"),
    [
        (LinearSVC(), "labels"),  # decisions only
        (LinearSVC(), "scores"),
        (GaussianNB(), "scores"),  # probabilities only
        (GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2), "labels"),
    ],
    ids=str,
)
def test_wraps_any_classifier(estimator, target):
    model = fair(estimator, target=target, kappa=0.1, cv=3)
    assert model.partial_parity_gap_ <= 0.1 + 1e-12
    groups = {"sensitive_features": CODES}
    decisions = model.decision_function(X, **groups)
    predicted = model.predict(X, **groups)
    np.testing.assert_array_equal(predicted, decisions > 0)
    assert model.score(X, Y, **groups) == (predicted == Y).mean() > 0.7
    if target == "labels" or hasattr(estimator, "predict_proba"):
        probabilities = model.predict_proba(X, **groups)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
        np.testing.assert_allclose(
            probabilities[:, 1], (decisions + 0.5).clip(0, 1), atol=1e-15
        )
    else:
        assert not hasattr(model, "predict_proba")


def test_rows_are_scored_by_models_that_did_not_see_them():
    folds = KFold(3, shuffle=True, random_state=0)
    tree = DecisionTreeClassifier(random_state=0)  # knows its rows by heart
    model = fair(tree, cv=folds)
    scores = cross_val_predict(tree, X, Y, cv=folds, method="predict_proba")[:, [1]]
    expected = fair(FrozenEstimator(First().fit(scores, Y)), (scores, Y, CODES))
    np.testing.assert_array_equal(model.values_, expected.values_)
    np.testing.assert_array_equal(model.thresholds_, expected.thresholds_)
    np.testing.assert_array_equal(model.estimator_.predict(X), Y)  # fitted to all


def test_fitted_classifiers_are_taken_as_they_are():
    inner = LogisticRegression().fit(X[:100], Y[:100])
    frozen, prefit = fair(FrozenEstimator(inner)), fair(inner, cv="prefit")
    assert prefit.estimator_ is inner
    np.testing.assert_array_equal(frozen.thresholds_, prefit.thresholds_)
    for fresh, cv in (
        (LogisticRegression(), "prefit"),
        (FrozenEstimator(LogisticRegression()), None),
    ):
        with pytest.raises(NotFittedError):
            fair(fresh, cv=cv)


class Plain:
    """A fitted classifier that knows nothing of scikit-learn."""

    def predict_proba(self, X):
        return np.column_stack([expit(-X[:, 0]), expit(X[:, 0])])


def test_a_classifier_that_is_not_of_scikit_learn():
    model = fair(Plain(), cv="prefit")
    np.testing.assert_allclose(model.values_, fair().values_)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames(library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]})
    labels = np.array(["no", "yes"])[Y]
    columns = frames.Series(labels), frames.Series(np.array(["f", "m"])[CODES])
    model = fair(LogisticRegression(), (frame, *columns))
    plain = fair(LogisticRegression())
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.groups_.tolist() == ["f", "m"]
    # Columns of a frame lie behind each other: products round otherwise.
    np.testing.assert_allclose(model.thresholds_, plain.thresholds_, rtol=1e-12)
    np.testing.assert_allclose(
        model.predict_proba(frame, sensitive_features=columns[1]),
        plain.predict_proba(X, sensitive_features=CODES),
    )
    np.testing.assert_array_equal(  # rows of one group alone
        model.predict(frame[:9], sensitive_features=["f"] * 9),
        model.classes_[plain.predict(X[:9], sensitive_features=[0] * 9)],
    )
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[["b", "a", "c"]], sensitive_features=columns[1])


def test_metadata_are_routed():
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(Y))
    params = {"sensitive_features": CODES, "sample_weight": weights}
    inner = LogisticRegression()
    with config_context(enable_metadata_routing=True):
        told = clone(inner).set_fit_request(sample_weight=True)
        model = FairCalibratedClassifier(told, cv=3)
        model.set_fit_request(sensitive_features=True, sample_weight=True)
        model.set_score_request(sensitive_features=True, sample_weight=True)
        model.set_predict_request(sensitive_features=True)
        search = GridSearchCV(model, {"kappa": [0.0, 0.3]}, cv=2).fit(X, Y, **params)
        best = search.best_estimator_
        alone = fair(told, weights=weights, kappa=best.kappa, cv=3)
        np.testing.assert_array_equal(best.thresholds_, alone.thresholds_)
        np.testing.assert_array_equal(best.estimator_.coef_, alone.estimator_.coef_)
        # What the estimator inside was not told to do, nobody guesses.
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            model.set_params(estimator=inner).fit(X, Y, **params)
        told_not = clone(inner).set_fit_request(sample_weight=False)
        model.set_params(estimator=told_not).fit(X, Y, **params)
        expected = inner.fit(X, Y).coef_
        np.testing.assert_array_equal(model.estimator_.coef_, expected)


class Counting(LogisticRegression):
    n_fits = 0

    def fit(self, X, y):
        type(self).n_fits += 1
        return super().fit(X, y)


@quiet
@pytest.mark.parametrize(
    ("target", "given"), [("scores", None), ("labels", "positive"), ("labels", "label")]
)
def test_path_equals_single_fits(target, given):
    weights = np.random.default_rng(0).integers(0, 3, len(Y))
    kappas = [0.2, 0.0, 1.0]
    options = {"target": target, "given": given, "interval": (0.1, 0.5), "cv": 3}
    Counting.n_fits = 0
    rows = {"sensitive_features": CODES, "sample_weight": weights}
    path = fair_calibration_path(Counting(), X, Y, **rows, kappas=kappas, **options)
    assert Counting.n_fits == 4  # three folds, and all rows
    for kappa, model in zip(kappas, path, strict=True):
        alone = fair(Counting(), weights=weights, kappa=kappa, **options)
        assert model.get_params()["kappa"] == kappa
        for name in ("partial_parity_gap_", "null_gap_", "n_features_in_"):
            assert getattr(model, name) == getattr(alone, name)
        assert (model.given, model.roc_distance_) == (given, alone.roc_distance_)
        np.testing.assert_array_equal(model.kappas_, alone.kappas_)
        groups = {"sensitive_features": CODES}
        np.testing.assert_array_equal(
            model.decision_function(X, **groups), alone.decision_function(X, **groups)
        )


class NotFinite(First):
    def decision_function(self, X):
        return np.where(np.arange(len(X)) % 7 == 3, np.nan, X[:, 0])


def six(*labels):
    """Rows of two groups, three each."""
    return {"rows": (X[:6], np.array(labels), np.array(list("aaabbb"))), "kappa": 1.0}


POSITIVE, LABEL = {"given": "positive"}, {"given": "label"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rows": (X, Y, np.arange(600).astype(str))}, "600 different values, more"),
        (
            {"rows": (X, Y, np.append(CODES[:-2], [7, 7])), "min_group_size": 3},
            r"1 of the 3 groups .* than min_group_size=3: 7 \(2\)\. Shares of so few",
        ),
        ({"rows": (X, Y + CODES, CODES)}, r"two labels, got 3 class\(es\): 0, 1, 2"),
        ({"rows": (X, Y + 1, CODES)}, "labels 1, 2, the estimator was fitted to 0, 1"),
        ({"weights": Y}, "y of rows that have a weight must have two labels, got 1 c"),
        (
            {"estimator": FrozenEstimator(NotFinite().fit(X, Y))},
            r"decision_function is not finite for 86 row\(s\), the first at position 3",
        ),
        (
            {"estimator": FrozenEstimator(GaussianNB().fit(X, Y + CODES))},
            "fitted to 0, 1, 2: give it the same",
        ),
        ({**POSITIVE, "attributes": "each"}, "cuts that are fair to groups"),
        # Groups without rows of a label, or weights of them, or with few.
        (six(1, 1, 0, 0, 0, 0) | POSITIVE, r"fewer rows .*=1: 'b' labelled 1 \("),
        (six(1, 1, 1, 0, 1, 0) | LABEL, r"1: 'a' labelled 0 \(0\)\. .*out\.$"),
        (six(1, 1, 0, 0, 1, 0) | POSITIVE | {"min_group_size": 2}, r"labelled 1 \(1"),
        (
            six(1, 1, 0, 0, 1, 0) | POSITIVE | {"weights": [1, 1, 1, 1, 0, 1]},
            r"=1: 'b' labelled 1 \(0\)",
        ),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        fair(**arguments)


@pytest.mark.parametrize("kappas", [[], [0.1, 1.5], [np.nan], 0.1])
def test_path_of_bad_kappas(kappas):
    with pytest.raises(ValueError, match="kappas must be numbers from 0 to 1"):
        fair_calibration_path(PREFIT, X, Y, sensitive_features=CODES, kappas=kappas)


def test_bad_groups_of_predict():
    model = fair()
    with pytest.raises(ValueError, match=r"1 group\(s\) that fit did not see: 7"):
        model.predict(X[:2], sensitive_features=[0, 7])
    with pytest.raises(ValueError, match="got 5 groups for 600 samples"):
        model.predict(X, sensitive_features=CODES[:5])


MANY = table(1500)


def fair_given(rows=MANY, weights=None, **options):
    return fair(FrozenEstimator(First().fit(*rows[:2])), rows, weights, **options)


@quiet
@pytest.mark.parametrize(
    ("given", "target"),
    [(None, "labels"), (None, "scores"), ("positive", "labels"), ("label", "labels")],
)
def test_outputs_are_the_regression_s(given, target):
    features, labels, codes = MANY
    inner = LogisticRegression().fit(features, labels)
    model = fair(FrozenEstimator(inner), MANY, given=given, target=target, kappa=0.1)
    scores = inner.predict_proba(features)[:, 1]
    targets, levels = scores if target == "scores" else labels, compared(labels, given)
    options = {"kappa": 0.1, "levels_of": levels}
    expected = parity_isotonic_regression(targets, scores, codes, **options)
    outputs = model.predict_proba(features, sensitive_features=codes)[:, 1]
    np.testing.assert_allclose(outputs, expected.fitted, atol=1e-6)
    if given is not None:  # the gap among all rows is another one
        assert gap_of(model.set_params(given=None), MANY) > 0.1


def curve(labels, scores, interval):
    """Rates of negatives and positives among the ranks at each cut."""
    low, high = interval
    rates = [
        [np.clip(np.mean(scores[labels == y] >= cut), low, high) for y in (0, 1)]
        for cut in [np.inf, *np.unique(scores)[::-1]]
    ]
    return (np.array(rates) - low) / (high - low)


@quiet
@pytest.mark.parametrize(
    ("interval", "decimals"), [((0.0, 1.0), 1), ((0.05, 0.3), None)]
)
def test_roc_distance(interval, decimals):
    features, labels, codes = rows = table(240, 3, seed=3, decimals=decimals)
    curves = [
        curve(labels[codes == k], features[codes == k, 0], interval) for k in range(3)
    ]
    distances = [
        np.abs(a[:, None] - b).max(axis=2).min(axis=1).max()
        for a, b in permutations(curves, 2)
    ]
    model = fair_given(rows, given="label", interval=interval)
    assert model.roc_distance_ == pytest.approx(max(distances))
    assert fair_given(rows, given="positive", interval=interval).roc_distance_ is None


def test_kappas_below_the_roc_distance_are_warned_of():
    rows = *MANY[:2], np.array(["f", "m"])[MANY[2]]
    with pytest.warns(UserWarning, match="distance of the ROC curves") as caught:
        model = fair_given(rows, given="label", kappa=0.01)
    message = f"kappa=0.01 is less .* of 'f' and 'm', {model.roc_distance_:.2g} "
    assert len(caught) == 1
    options = {"sensitive_features": rows[2], "given": "label", "kappas": [0.5, 0.01]}
    with pytest.warns(UserWarning, match=message):
        fair_calibration_path(model.estimator, *rows[:2], **options)
    fair_given(rows, given="label", kappa=model.roc_distance_ + 1e-6)  # or an error
    below = np.floor(1000 * model.roc_distance_) / 1000
    with pytest.warns(UserWarning, match="is less than the distance") as caught:
        fair_given(rows, given="label", kappa=below)
    named = re.search(r"([\d.]+) \(`roc", str(caught[0].message))[1]
    assert float(named) > below


@pytest.mark.filterwarnings("ignore:kappa=.* is less than the distance")
def test_a_group_of_few_positives_leaves_the_others_their_bound():
    features, labels, codes = MANY
    groups, kappa = np.array(["a", "b", "rare"])[codes], 0.2
    groups[np.flatnonzero(labels == 1)[:3]] = "rare"
    groups[np.flatnonzero(labels == 0)[:100]] = "rare"
    rows = features, labels, groups
    message = r"few rows for kappa=0.2: 'rare' labelled 1 \(3\)\. Pairs with"
    with pytest.warns(UserWarning, match=message) as caught:
        model = fair_given(rows, given="label", kappa=kappa)
    bound = (kappa + 1 / 3) / 2
    assert f"'a' and 'rare' by {bound:.2g} (" in str(caught[0].message)
    np.testing.assert_allclose(model.kappas_[0], [0, kappa, bound])
    assert gap_of(model, rows, subset=groups != "rare") <= kappa + 1e-12


@quiet
@pytest.mark.parametrize("given", [None, "positive", "label"])
def test_null_gap_is_that_of_the_rows_compared(given):
    features, labels, _ = MANY
    codes = table(1500, 3)[2]
    groups = np.array(["a", "b", "c"])[codes]
    model = fair_given((features, labels, groups), given=given)
    sizes = [np.bincount(codes[rows]) / 2 for rows in compared(labels, given).T]
    assert model.null_gap_ == pytest.approx(null_parity_gap(sizes), rel=1e-9)
    pair = null_parity_gap([counts[[0, 2]] for counts in sizes])
    assert model.null_gap(1500, ["a", "c"]) == pytest.approx(pair, rel=1e-9)
    assert model.null_gap(10**9) < model.null_gap(1500) == model.null_gap_
    with pytest.raises(ValueError, match="fit did not see: 'x'"):
        model.null_gap(10, ["a", "x"])
    with pytest.raises(ValueError, match="n_samples must be positive, got 0"):
        model.null_gap(0)
