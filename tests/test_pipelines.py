"""Pipelines and searches hand groups on; wrong calls say what to do, in one line."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from scalefair import cluster
from scalefair import postprocessing as post
from scalefair.decomposition import FairPCA
from scalefair.linear_model import (
    PairwiseFairClassifier,
    PartiallyFairClassifier,
    PartiallyFairClassifierCV,
)
from scalefair.metrics import partial_demographic_parity_gap
from scalefair.plotting import GroupRateDisplay

PAGE = Path(__file__).parents[1] / "docs" / "pipelines.md"
RNG = np.random.default_rng(0)
N = 120
X = pd.DataFrame(RNG.standard_normal((N, 3)), columns=["pay", "age", "days"])
Y = (X["pay"] + RNG.standard_normal(N) > 0).astype(int)
SEX = pd.Series(np.array(["f", "m"])[np.arange(N) % 2])
MIXED = SEX.sample(frac=1, random_state=0)
LINEAR = PartiallyFairClassifier(n_thresholds=3, kappa=0.4)
ESTIMATORS = [
    FairPCA(2),
    cluster.FairKMeans(2, random_state=0),
    cluster.FairSpectralClustering(2, affinity="nearest_neighbors", random_state=0),
    cluster.UnifiedFairSpectralClustering(
        2, affinity="nearest_neighbors", random_state=0
    ),
    LINEAR,
    PartiallyFairClassifierCV([0.4], fairness_floor=0, estimator=LINEAR, cv=2),
    PairwiseFairClassifier(),
    post.FairCalibratedClassifier(LogisticRegression(), cv=2),
    post.ExplainableSVDRegressor(LinearRegression()),
    post.WassersteinBarycenterRegressor(LinearRegression()),
]
each = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)


@each
@pytest.mark.filterwarnings("ignore")
def test_groups_are_requested_by_default(estimator):
    groups = {"sensitive_features": SEX}
    with sklearn.config_context(enable_metadata_routing=True):
        piped = make_pipeline(StandardScaler(), sklearn.clone(estimator))
        piped.fit(X, Y, **groups)
        assert len(piped[-1].groups_) == 2
        if hasattr(estimator, "score"):
            params = {"params": groups, "cv": 2, "error_score": "raise"}
            assert np.isfinite(cross_val_score(piped, X, Y, **params)).all()
        # What users ask for stays so.
        changed = sklearn.clone(estimator).set_fit_request(sensitive_features=False)
        with pytest.raises(TypeError, match="sensitive_features"):
            make_pipeline(changed).fit(X, Y, **groups)


@pytest.mark.filterwarnings("ignore:Gaps of groups of fewer than")
def test_probabilities_are_requested_by_default_and_weights_if_told():
    probabilities = pd.get_dummies(SEX, dtype=float)
    params = {"group_probabilities": probabilities, "sample_weight": np.arange(N) % 3}
    model = sklearn.clone(LINEAR).set_params(interactions=False, kappa=1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        model.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        options = {"params": params, "cv": 2, "error_score": "raise"}
        assert np.isfinite(cross_val_score(make_pipeline(model), X, Y, **options)).all()
        piped = make_pipeline(sklearn.clone(model)).fit(X, Y, **params)
    np.testing.assert_array_equal(piped[-1].coef_, model.fit(X, Y, **params).coef_)


def test_groups_reach_the_estimator_inside_of_a_calibration():
    inner = make_pipeline(FairPCA(2), LogisticRegression())
    with sklearn.config_context(enable_metadata_routing=True):
        model = post.FairCalibratedClassifier(inner, cv=2)
        model.fit(X, Y, sensitive_features=SEX)
    expected = FairPCA(2).fit(X, sensitive_features=SEX).components_
    np.testing.assert_array_equal(model.estimator_[0].components_, expected)


@each
def test_missing_groups(estimator):
    with pytest.raises(TypeError, match=r"Pass sensitive_features=.*set_config") as e:
        make_pipeline(PCA(2), sklearn.clone(estimator)).fit(X, Y)
    assert len(str(e.value)) < 300
    ignores_y = not get_tags(estimator).target_tags.required
    if ignores_y:
        assert "If y has the groups" in str(e.value)


@each
def test_wrong_calls_name_the_estimator(estimator):
    name = type(estimator).__name__
    with pytest.raises(TypeError, match=rf"^{name}.fit\(\): too many .* by name"):
        estimator.fit(X, Y, SEX)
    with pytest.raises(TypeError, match=rf"^{name}.fit\(\): .*'sensitive_feature'"):
        estimator.fit(X, Y, sensitive_feature=SEX)


@each
def test_labels_in_another_order(estimator):
    estimator = sklearn.clone(estimator)
    with pytest.raises(ValueError, match=r"sensitive_features.loc\[X.index\]|\[W.ind"):
        estimator.fit(X, Y, sensitive_features=MIXED)
    with pytest.raises(ValueError, match="same labels in another order"):
        estimator.fit(X, Y[::-1], sensitive_features=SEX)


@pytest.mark.parametrize("estimator", [LINEAR, ESTIMATORS[7]])
@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
def test_labels_in_another_order_at_prediction(estimator, method):
    model = sklearn.clone(estimator).fit(X, Y, sensitive_features=SEX)
    with pytest.raises(ValueError, match="same labels in another order"):
        getattr(model, method)(X, sensitive_features=MIXED)
    aligned = MIXED.loc[X.index]
    assert len(getattr(model, method)(X, sensitive_features=aligned)) == N
    with pytest.raises(ValueError, match="X and y have the same labels"):
        model.score(X, Y[::-1], sensitive_features=SEX)


def test_labels_of_scores():
    scores = X["pay"]
    for draw in (partial_demographic_parity_gap, GroupRateDisplay.from_predictions):
        with pytest.raises(ValueError, match=r"first in row 0 \(0 and \d+\)"):
            draw(scores, sensitive_features=MIXED)
    with pytest.raises(ValueError, match=r"scores\['a'\]\.loc\[sensitive_features"):
        GroupRateDisplay.from_predictions({"a": scores}, sensitive_features=MIXED)
    gap = partial_demographic_parity_gap(scores, sensitive_features=SEX)
    # Labels that are not the same are no order: rows are taken by position.
    index = pd.Index(range(7, N + 7))
    repeated = [0, 0, *range(2, N)]
    for labels in (index, index.astype(str), X.index.astype(float), repeated):
        same = SEX.set_axis(labels)
        assert partial_demographic_parity_gap(scores, sensitive_features=same) == gap
    pairs = scores.set_axis(np.arange(N) // 2)
    other = SEX.set_axis(np.arange(N) % (N // 2))
    with pytest.raises(ValueError, match=r"row 1 \(0 and 1\)"):
        partial_demographic_parity_gap(pairs, sensitive_features=other)


@pytest.mark.parametrize(
    ("kind", "remedy"), [("LazyFrame", r"X\.collect\(\)"), ("AnnData", r"pass X\.X")]
)
def test_tables_without_rows(kind, remedy):
    table = type(kind, (), {})()
    model = FairPCA(2).fit(X, sensitive_features=SEX)
    for call in (lambda: FairPCA().fit(table, sensitive_features=SEX), model.transform):
        with pytest.raises(TypeError, match=remedy):
            call(*[table] * (call == model.transform))
    with pytest.raises(TypeError, match=r"sensitive_features\.collect|sensitive.*\.X"):
        FairPCA().fit(X, sensitive_features=table)


@each
@pytest.mark.parametrize("name", ["X", "y", "sensitive_features"])
def test_masked_entries(estimator, name):
    """NumPy would read the values under the mask."""
    columns = {"X": X, "y": Y, "sensitive_features": SEX}
    values = columns[name].to_numpy()
    columns[name] = np.ma.masked_where(values == values[:1], values)
    with pytest.raises(ValueError, match=r"(X|W|y|sensitive_features) has masked"):
        estimator.fit(columns.pop("X"), **columns)


@pytest.mark.parametrize("estimator", [FairPCA(), ESTIMATORS[2], LINEAR])
@pytest.mark.parametrize("library", ["pyarrow", "polars"])
def test_words_in_frames_of_others(estimator, library):
    frame = pytest.importorskip(library)
    columns = {**X.to_dict("list"), "job": ["q", "r"] * (N // 2)}
    table = frame.table(columns) if library == "pyarrow" else frame.DataFrame(columns)
    with pytest.raises(ValueError, match=r"X has words in column\(s\) 'job' \('q'\)"):
        sklearn.clone(estimator).fit(table, Y, sensitive_features=SEX)


@pytest.mark.parametrize("weights", [None, np.arange(N) >= 20])
def test_folds_without_a_score_are_refused(weights):
    folds = [(np.arange(N), np.arange(0, 20, 2))]  # of one group
    search = PartiallyFairClassifierCV([0.4], estimator=LINEAR, cv=folds)
    with pytest.raises(ValueError, match="held-out rows of a fold have no score"):
        search.fit(X, Y, sensitive_features=SEX, sample_weight=weights)


@pytest.mark.filterwarnings("ignore")
def test_the_page_runs():
    names = {}
    with sklearn.config_context():
        for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S):
            exec(code, names)
    assert names["accuracies"].min() > 0.6
    assert names["search"].best_score_ > 0.6  # of a fair one
    assert names["search"].best_params_ == {"kappa": names["chosen"].kappa_}


# Mistakes of new users in classifiers: the message is one clear line.

A, LABELS, PEOPLE = X.to_numpy(), Y.to_numpy(), SEX.to_numpy()
WORDS = X[["pay"]].assign(job=["q", "r"] * (N // 2), town="x")


# Of both classifiers: the wrong argument, and the message.
BOTH = [
    ({"X": WORDS}, r"'job' \('q'\), 'town' \('x'\): encode them"),
    ({"X": WORDS.to_numpy()}, r"column\(s\) 1 \('q'\), 2 \('x'\): encode them"),
    ({"y": np.arange(N) % 3}, "Only binary classification.*3 class"),
    ({"y": np.zeros(N, int)}, "two classes|two labels"),
    ({"y": [None, *np.where(LABELS[1:], "yes", "no")]}, "y has 1 missing value"),
    ({"y": A, "X": LABELS}, "1d array|1D array|continuous|should be a 1d|multioutput"),
]


@pytest.mark.parametrize(("wrong", "text"), BOTH)
@pytest.mark.parametrize("estimator", [LINEAR, ESTIMATORS[7]])
def test_classifiers(estimator, wrong, text):
    rows = {"X": A, "y": LABELS, "sensitive_features": PEOPLE, **wrong}
    with pytest.raises((ValueError, TypeError), match=text) as error:
        sklearn.clone(estimator).fit(rows.pop("X"), rows.pop("y"), **rows)
    assert len(str(error.value).splitlines()[0]) <= 400  # scikit-learn adds lines
