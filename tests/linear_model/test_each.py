"""Several attributes, each by itself: training, parts, prediction, what is refused."""

import warnings

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from scalefair import metrics
from scalefair._groups import encode_attributes
from scalefair._membership import Membership
from scalefair.linear_model import PartiallyFairClassifier, PartiallyFairClassifierCV
from scalefair.linear_model._parity_problem import StrongParity
from scalefair.linear_model._training_rows import LabeledRows
from scalefair.linear_model._weights import ridge_factors
from scalefair.metrics import partial_parity_gap
from scalefair.plotting import ParetoFrontDisplay, ScoreDensityDisplay

INTERVAL = (0.1, 0.6)


def table(m=1500, seed=0):
    """Rows, labels, and two attributes of two and three groups that move the rows."""
    rng = np.random.default_rng(seed)
    two, three = rng.integers(0, 2, m), rng.integers(0, 3, m)
    X = rng.standard_normal((m, 3))
    X[:, 0] += 0.6 * two
    X[:, 1] += 0.5 * three
    y = (X.sum(axis=1) + rng.standard_normal(m) > 0.8).astype(int)
    return X, y, pd.DataFrame({"sex": np.array(["f", "m"])[two], "age": three})


def classifier(**params):
    params = {"interval": INTERVAL, "kappa": 0.15, "n_thresholds": 6, **params}
    params = {"tol": 5e-3, "max_iter": 100, "attributes": "each", **params}
    return PartiallyFairClassifier(**params)


def gap_twin(scores, group, interval=INTERVAL):
    """Largest difference of A_k over groups and thresholds, threshold by threshold."""
    low, high = interval
    shares = []
    for k in np.unique(group):
        sample = np.sort(scores[group == k])
        below = np.searchsorted(sample, np.unique(scores), side="right")
        rates = 1 - below / sample.size
        shares.append((np.clip(rates, low, high) - low) / (high - low))
    return np.ptp(shares, axis=0).max()


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"criterion": "weak", "interactions": False},
        {"criterion": "weak", "surrogate": "sigmoid"},
        {"given": "label"},
        {"given": "positive", "criterion": "weak"},
    ],
    ids=str,
)
def test_each_gap_is_at_most_kappa(params):
    X, y, attributes = table()
    model = classifier(**params).fit(X, y, sensitive_features=attributes)
    scores = model.decision_function(X, sensitive_features=attributes)
    compared = {None: [y < 2], "positive": [y == 1], "label": [y == 0, y == 1]}
    rows = compared[model.given]
    if model.criterion == "strong":
        gaps = [gap_twin(scores[r], attributes[a][r]) for a in attributes for r in rows]
        # The intercept is added before or after the products: ties apart by rounding.
        assert model.partial_parity_gap_ == pytest.approx(max(gaps), abs=5e-3)
    assert model.partial_parity_gap_ <= model.kappa
    assert model.kkt_residual_ <= model.tol
    assert [groups.tolist() for groups in model.groups_] == [["f", "m"], [0, 1, 2]]
    assert model.coef_.shape == (1 if not model.interactions else 1 + 1 + 2, 3)
    shape = {"positive": (2, 6), "label": (2, 2, 6), None: (2, 6)}[model.given]
    # Where the gap lies between ranks these become denser.
    *first, n_ranks = (1,) if model.criterion == "weak" else shape
    assert model.thresholds_.shape[:-1] == tuple(first)
    assert model.thresholds_.shape[-1] % n_ranks == 0


@pytest.mark.filterwarnings("ignore:The gap of the training rows")
@pytest.mark.parametrize("interactions", [True, False])
def test_one_attribute_twice_is_that_attribute(interactions):
    X, y, attributes = table()
    once = attributes[["age"]]
    twice = pd.concat([once, once], axis=1)
    params = {"interactions": interactions, "alpha": 0.0, "surrogate_width": 0.5}
    params |= {"tune_intercept": False, "tol": 1e-3}
    a = classifier(**params).fit(X, y, sensitive_features=once)
    # Weights of a group are sums of two. The problem has several local solutions: the
    # one of a single attribute is one of the attribute twice.
    start = np.column_stack([a.coef_, a.intercept_])
    start = np.concatenate([start, np.zeros((2 * interactions, 4))])
    b = classifier(start=start, **params).fit(X, y, sensitive_features=twice)
    assert b.converged_
    assert b.objective_ == pytest.approx(a.objective_, abs=1e-3)
    scores = a.decision_function(X, sensitive_features=once)
    others = b.decision_function(X, sensitive_features=twice)
    assert np.corrcoef(scores, others)[0, 1] > 0.999
    joint = classifier(**params, attributes="joint")
    joint.fit(X, y, sensitive_features=once["age"])
    assert np.array_equal(joint.coef_, a.coef_)
    assert np.array_equal(joint.groups_, a.groups_)


@pytest.mark.parametrize("surrogate", ["ramp", "sigmoid"])
@pytest.mark.parametrize("given", [None, "label"])
def test_gradients_of_attributes_that_share_rows(surrogate, given):
    X, y, attributes = table(150)
    compared = encode_attributes(attributes)
    compared = Membership(compared, None, None)
    rows = LabeledRows.of(X, 2.0 * y - 1, np.array([0, 1]), compared, given)
    oracle = rows.oracle(surrogate=surrogate)
    ridge = ridge_factors(oracle.layout, 0.3)
    problem = StrongParity(
        oracle, INTERVAL, 0.1, ridge, 0.0, n_thresholds=3, surrogate=surrogate
    )
    rng = np.random.default_rng(1)
    v, d = rng.standard_normal((2, problem.n_variables))
    # Scores: shared weights, those of the second sex and of the two further ages.
    W = problem.weights(v).reshape(4, 4)
    W = oracle.layout.units.restore(W)
    B = W[0] + (attributes["sex"] == "m").to_numpy()[:, None] * W[1]
    age = attributes["age"].to_numpy()
    B += np.where(age[:, None] > 0, W[1 + age], 0.0)
    expected = (X * B[:, :3]).sum(axis=1) + B[:, 3]
    np.testing.assert_allclose(oracle.scores(problem.weights(v)), expected)
    multipliers = rng.random(problem.n_constraints)
    for corner in (0.0, 0.05):
        value = problem.smoothed(v, corner)
        ahead, behind = (problem.smoothed(v + h * d, corner) for h in (1e-6, -1e-6))
        change = multipliers @ (ahead.constraints - behind.constraints) / 2e-6
        slope = value.pull_back(multipliers) @ d
        assert slope == pytest.approx(change, rel=1e-4, abs=1e-4)
    (plus, slopes), (minus, others) = problem.evaluate(v)
    np.testing.assert_allclose((plus - minus)[1:], problem.smoothed(v, 0.0).constraints)
    value = problem.smoothed(v, 0.0)
    np.testing.assert_allclose(
        value.pull_back(multipliers), multipliers @ (slopes - others)[1:], atol=1e-12
    )


def test_each_is_less_than_all_combinations():
    X, y, attributes = table()
    rng = np.random.default_rng(2)
    scores = rng.standard_normal(len(y)) + (attributes["age"] == 1) * X[:, 0]
    keywords = {"y_true": y, "sensitive_features": attributes, "interval": INTERVAL}
    for given in (None, "positive", "label"):
        each = partial_parity_gap(scores, given=given, attributes="each", **keywords)
        assert each <= partial_parity_gap(scores, given=given, **keywords)
    assert each == max(
        gap_twin(scores[y == label].to_numpy(), attributes[a][y == label])
        for a in attributes
        for label in (0, 1)
    )


def test_gaps_of_each_attribute_by_itself():
    X, y, attributes = table(300)
    scores = X[:, 0] + X[:, 1]
    gaps = {
        metrics.statistical_parity_ks: (scores,),
        metrics.group_auc_gap: (scores,),
        metrics.inter_group_pairwise_gap: (y, scores),
        metrics.intra_group_pairwise_gap: (y, scores),
        metrics.partial_equalized_odds_gap: (y, scores),
        metrics.weak_partial_demographic_parity_gap: (scores,),
    }
    for gap, given in gaps.items():
        each = [gap(*given, sensitive_features=attributes[a]) for a in attributes]
        actual = gap(*given, sensitive_features=attributes, attributes="each")
        assert each[0] != each[1]
        assert actual == max(each)
        with pytest.raises(ValueError, match='attributes must be "joint" or "each"'):
            gap(*given, sensitive_features=attributes, attributes="both")
        one = attributes.assign(sex="f")
        with pytest.raises(ValueError, match=r"Column sex .* has only one group"):
            gap(*given, sensitive_features=one, attributes="each")


def test_combinations_that_are_new():
    X, y, attributes = table()
    seen = ~((attributes["sex"] == "m") & (attributes["age"] == 2))
    model = classifier(surrogate_width=1.0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The gap of the training")
        model.fit(X[seen], y[seen], sensitive_features=attributes[seen])
    new = X[~seen]
    scores = model.decision_function(new, sensitive_features=attributes[~seen])
    rows = np.column_stack([model.coef_, model.intercept_])
    w = rows[0] + rows[1] + rows[3]
    np.testing.assert_allclose(scores, new @ w[:3] + w[3])
    chunks = da.from_array(new, chunks=(len(new), 3))
    frame = dd.from_pandas(attributes[~seen].reset_index(drop=True), npartitions=1)
    for groups in (attributes[~seen], frame):
        again = model.decision_function(chunks, sensitive_features=groups)
        np.testing.assert_allclose(again.compute(), scores)
    unseen = attributes.assign(age=attributes["age"] + 1)
    with pytest.raises(ValueError, match=r"Column age .*: 3\. It saw 0, 1, 2"):
        model.predict(X, sensitive_features=unseen)
    with pytest.raises(ValueError, match=r"1 attribute\(s\), fit saw 2"):
        model.predict(X, sensitive_features=attributes["sex"])


def test_groups_that_cannot_be_compared_are_named_with_their_attribute():
    X, y, attributes = table(300)
    lonely = attributes.copy()
    lonely.loc[0, "sex"] = "x"
    with pytest.raises(ValueError, match=r"min_group_size=2: 'x' of sex \(1\)"):
        classifier().fit(X, y, sensitive_features=lonely)
    with pytest.raises(ValueError, match=r"Column sex .* has only one group"):
        classifier().fit(X, y, sensitive_features=attributes.assign(sex="f"))
    with pytest.raises(ValueError, match=r"Column age .*max_groups=2"):
        classifier(max_groups=2).fit(X, y, sensitive_features=attributes)
    lonely.loc[1:5, "sex"] = "x"
    with pytest.warns(UserWarning, match=r"fewer than 30 rows.*'x' of sex \(6\)"):
        classifier(surrogate_width=1.0, kappa=1.0).fit(X, y, sensitive_features=lonely)
    y = np.where(lonely["sex"] == "x", 0, y)
    with pytest.raises(ValueError, match=r"have none: 'x' of sex labelled 1 \(0\)"):
        classifier(given="label").fit(X, y, sensitive_features=lonely)


def test_training_in_parts_and_choice():
    X, y, attributes = table(600)
    chunks = da.from_array(X, chunks=(300, 3))
    params = {"criterion": "weak", "surrogate_width": 1.0}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The gap of the training")
        one, many = (
            classifier(**params).fit(rows, y, sensitive_features=attributes)
            for rows in (X, chunks)
        )
        search = PartiallyFairClassifierCV(
            [0.3], estimator=classifier(**params), cv=2, fairness_floor=0.1
        ).fit(X, y, sensitive_features=attributes)
    assert many.objective_ == pytest.approx(one.objective_, abs=2 * one.tol)
    for model in (many, search):
        assert [groups.tolist() for groups in model.groups_] == [["f", "m"], [0, 1, 2]]
    fairness = search.cv_results_["fairness"][0]
    assert ((fairness > 0.2) & (fairness < 1)).all()


def test_displays():
    X, y, attributes = table(400)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = classifier(surrogate_width=1.0, kappa=0.3)
        model.fit(X, y, sensitive_features=attributes)
    options = {"sensitive_features": attributes}
    densities = ScoreDensityDisplay.from_estimator(model, X, **options)
    assert densities.groups.tolist() == ["sex f", "sex m", "age 0", "age 1", "age 2"]
    assert densities.gap == pytest.approx(model.partial_parity_gap_, abs=0.02)
    front = ParetoFrontDisplay.from_estimator([model], X, y, **options)
    (fairness,) = front.fairness.values()
    assert np.ravel(fairness)[0] == pytest.approx(1 - densities.gap)


@pytest.mark.realdata
def test_sex_and_race_of_adult(data_folder):
    frame = pd.read_csv(
        data_folder / "census-adult/adult.csv.gz", skipinitialspace=True
    )
    y = (frame["income"] == ">50K").to_numpy()
    attributes = frame[["sex", "race"]].copy()
    few = ~attributes["race"].isin(["White", "Black"])
    attributes.loc[few, "race"] = "other"
    X = frame.select_dtypes("number").drop(columns="final-weight").to_numpy(float)
    model = PartiallyFairClassifier((0.05, 0.3), 0.1, attributes="each")
    model.fit(X, y, sensitive_features=attributes)
    scores = model.decision_function(X, sensitive_features=attributes)
    gaps = [gap_twin(scores, attributes[a], (0.05, 0.3)) for a in attributes]
    assert max(gaps) == pytest.approx(model.partial_parity_gap_, abs=1e-3)
    assert max(gaps) <= 0.105
    assert model.converged_
    # Combinations are further apart.
    joint = attributes["sex"] + attributes["race"]
    assert gap_twin(scores, joint, (0.05, 0.3)) > max(gaps)
