"""What is compared: rows of a label, several attributes, groups by probabilities."""

import re

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from scalefair.linear_model import (
    PartiallyFairClassifier,
    PartiallyFairClassifierCV,
    _continuation,
    partial_fairness_path,
)
from scalefair.metrics import null_parity_gap, partial_parity_gap, unmixed_parity_gap

INTERVAL = (0.1, 0.6)
GIVEN = ("positive", "label")
every_given = pytest.mark.parametrize("given", GIVEN)


def table(kind="each", m=1000, seed=0):
    """Rows, labels, and groups as arguments of fit."""
    rng = np.random.default_rng(seed)
    X, two, three = rng.standard_normal((m, 3)), *rng.integers(0, [[2], [3]], (2, m))
    P = rng.dirichlet(np.ones(3), m)
    P[::7], P[3] = 0.0, np.eye(3)[1]  # of some rows nothing is known
    if kind == "probabilities":
        X[:, 0] += P[:, 0] - P[:, 1]
        groups = {"group_probabilities": pd.DataFrame(P, columns=["b", "a", "c"])}
        groups["sample_weight"] = rng.integers(0, 4, m).astype(float)
    else:
        X[:, 0] += 0.6 * two
        X[:, 1] += 0.5 * three
        frame = pd.DataFrame({"sex": np.array(["f", "m"])[two], "age": three})
        groups = {"sensitive_features": frame if kind == "each" else frame["sex"]}
    y = (X.sum(axis=1) + rng.standard_normal(m) > 0.8).astype(int)
    return X, y, groups


def classifier(kind="each", **params):
    options = {"kappa": 0.15, "n_thresholds": 6, "tol": 5e-3, "max_iter": 100}
    options["attributes"] = "each" if kind == "each" else "joint"
    options["interactions"] = kind != "probabilities"
    return PartiallyFairClassifier(**{"interval": INTERVAL} | options | params)


def measured_gap(model, scores, y, groups):
    """The gap of scores that the model bounds."""
    options = {"given": model.given, "attributes": model.attributes, **groups}
    threshold = model.threshold if model.criterion == "weak" else None
    options |= {"interval": model.interval, "threshold": threshold}
    return partial_parity_gap(scores, y_true=y, **options)


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("one", {"given": "positive", "interactions": False}),
        ("one", {"given": "label"}),
        ("one", {"given": "label", "criterion": "weak", "interval": (0.0, 1.0)}),
        ("each", {}),
        ("each", {"criterion": "weak", "interactions": False}),
        ("each", {"given": "label"}),
        ("each", {"given": "positive", "criterion": "weak", "surrogate": "sigmoid"}),
        ("probabilities", {}),
        ("probabilities", {"given": "label"}),
        ("probabilities", {"given": "positive", "criterion": "weak"}),
    ],
    ids=str,
)
def test_gap_is_at_most_kappa(kind, params):
    X, y, groups = table(kind)
    model = classifier(kind, **params).fit(X, y, **groups)
    needed = {k: v for k, v in groups.items() if k == "sensitive_features"}
    scores = model.decision_function(X, **needed)
    # The intercept is added before or after the products: ties apart by rounding.
    gap = measured_gap(model, scores, y, groups)
    assert model.partial_parity_gap_ == pytest.approx(gap, abs=5e-3)
    assert model.partial_parity_gap_ <= 1.05 * model.kappa  # without a warning
    assert max(model.kkt_residual_, model.infeasibility_) <= model.tol
    n_families = (1 + (kind == "each")) * (1 + (model.given == "label"))
    if model.criterion == "weak":
        assert model.thresholds_.tolist() == [0.0]
    else:
        # Where the gap lies between ranks these become denser.
        assert model.thresholds_.size % (6 * n_families) == 0
        n_axes = (model.given == "label") + (kind == "each")
        assert model.thresholds_.shape[:-1] == (2,) * n_axes
    if kind == "each":
        assert [g.tolist() for g in model.groups_] == [["f", "m"], [0, 1, 2]]
        assert model.coef_.shape == (1 + 3 * model.interactions, 3)
    if kind != "probabilities":
        assert not hasattr(model, "unmixed_parity_gap_")
        return
    assert model.groups_.tolist() == ["a", "b", "c"]
    compared = {None: [y < 2], "positive": [y == 1], "label": [y == 0, y == 1]}
    unmixed = [
        unmixed_parity_gap(
            scores[rows],
            group_probabilities=groups["group_probabilities"][rows],
            sample_weight=groups["sample_weight"][rows],
            interval=INTERVAL,
        )
        for rows in compared[model.given]
    ]
    assert model.unmixed_parity_gap_ == pytest.approx(max(unmixed), rel=1e-9)


@every_given
@pytest.mark.filterwarnings("ignore:Training stopped")
def test_a_gap_out_of_reach_is_told_with_that_of_chance(given, monkeypatch):
    monkeypatch.setattr(_continuation, "MAX_SURROGATES", 1)
    X, y, groups = table("one", 400)
    options = {"kappa": 0.03, "interactions": False, "max_iter": 5, "tol": 0.1}
    model = classifier("one", given=given, **options)
    with pytest.warns(UserWarning, match="gap of the training rows is") as caught:
        model.fit(X, y, **groups)
    (message,) = [m for w in caught if "gap of the training" in (m := str(w.message))]
    sizes = pd.crosstab(y, groups["sensitive_features"]).to_numpy()
    sizes = list(sizes) if given == "label" else sizes[1]
    shown = re.search(r"([\d.]+) is what chance", message)[1]
    chance = null_parity_gap(sizes, interval=INTERVAL)
    assert float(shown) == pytest.approx(chance, rel=0.05)  # two digits
    assert "FairCalibratedClassifier" not in message  # has no such gap


def test_labels_without_noise():
    # All that is right is fair given the label, however different the groups are.
    rng = np.random.default_rng(0)
    X, group = rng.standard_normal((1000, 2)), np.arange(1000) % 2
    y = (X[:, 0] + X[:, 1] > 0.6 * (1 - 2 * group)).astype(int)
    options = {"criterion": "weak", "interval": (0.0, 1.0), "kappa": 0.02}
    accuracy = {}
    for given in (None, *GIVEN):
        model = classifier("one", given=given, alpha=1e-6, **options)
        model.fit(X, y, sensitive_features=group)
        accuracy[given] = model.score(X, y, sensitive_features=group)
        assert model.partial_parity_gap_ <= 0.021
    assert min(accuracy["positive"], accuracy["label"]) > 0.985
    # The groups' rates are 0.34 and 0.66: nobody has equal rates with fewer errors.
    assert accuracy[None] < 1 - (0.32 - 0.02) / 2 + 0.01


@pytest.mark.filterwarnings("ignore:The gap of the training rows")
def test_combinations_that_are_new():
    X, y, groups = table()
    attributes = groups["sensitive_features"]
    seen = ~((attributes["sex"] == "m") & (attributes["age"] == 2))
    model = classifier(surrogate_width=1.0, tol=0.1)
    model.fit(X[seen], y[seen], sensitive_features=attributes[seen])
    new = X[~seen]
    scores = model.decision_function(new, sensitive_features=attributes[~seen])
    rows = np.column_stack([model.coef_, model.intercept_])
    w = rows[0] + rows[1] + rows[3]
    assert_allclose(scores, new @ w[:3] + w[3])
    chunks = da.from_array(new, chunks=(len(new), 3))
    frame = dd.from_pandas(attributes[~seen].reset_index(drop=True), npartitions=1)
    for people in (attributes[~seen], frame):
        again = model.decision_function(chunks, sensitive_features=people)
        assert_allclose(again.compute(), scores)
    unseen = attributes.assign(age=attributes["age"] + 1)
    with pytest.raises(ValueError, match=r"Column age .*: 3\. It saw 0, 1, 2"):
        model.predict(X, sensitive_features=unseen)
    with pytest.raises(ValueError, match=r"1 attribute\(s\), fit saw 2"):
        model.predict(X, sensitive_features=attributes["sex"])


def test_a_fit_to_groups_forgets_the_gap_of_probabilities():
    X, y, groups = table("probabilities", 500)
    names = groups["group_probabilities"].idxmax(axis=1).to_numpy()
    model = classifier("probabilities", criterion="weak", given="label", kappa=0.3)
    model.fit(X, y, group_probabilities=pd.get_dummies(names))
    assert model.unmixed_parity_gap_ > 0  # certain groups are not mixed
    model.fit(X, y, sensitive_features=names)
    assert not hasattr(model, "unmixed_parity_gap_")


def test_probabilities_of_a_group_in_two_halves():
    X, y, groups = table("probabilities", 500)
    frame = groups["group_probabilities"]
    model = classifier("probabilities", criterion="weak")
    model.fit(X, y, group_probabilities=frame)
    # The same rates, and the same fit but for rounding.
    halves = frame.assign(b=frame["b"] / 2, d=frame["b"] / 2)
    twice = clone(model).fit(X, y, group_probabilities=halves)
    assert twice.objective_ == pytest.approx(model.objective_, rel=1e-2)
    assert np.isnan(twice.unmixed_parity_gap_)  # halves cannot be told apart


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", ["one", "each", "probabilities"])
def test_folds_are_judged_as_all_rows_are(kind):
    X, y, groups = table(kind, 600)
    kappas, options = [0.3, 0.9], {"criterion": "weak", "given": "label"}
    model = classifier(kind, **options)
    folds = [(np.arange(300), np.arange(300, 600))]
    search = PartiallyFairClassifierCV(kappas, 0.0, estimator=model, cv=folds)
    search.fit(pd.DataFrame(X).add_prefix("x"), y, **groups).fit(X, y, **groups)
    assert not hasattr(search, "feature_names_in_")  # of the first fit
    (X_fit, y_fit, of_fit), (X_test, y_test, of_test) = (
        (X[rows], y[rows], {name: values[rows] for name, values in groups.items()})
        for rows in (np.arange(600) < 300, np.arange(600) >= 300)
    )
    params = model.get_params()
    del params["kappa"]
    path = partial_fairness_path(X_fit, y_fit, **of_fit, kappas=kappas, **params)
    needed = {k: v for k, v in of_test.items() if k == "sensitive_features"}
    weights = of_test.get("sample_weight")
    for i, part in enumerate(path):
        scores = part.decision_function(X_test, **needed)
        accuracy = np.average((scores > 0) == y_test, weights=weights)
        gap = measured_gap(part, scores, y_test, of_test)
        assert part.kappa == search.cv_results_["kappa"][i] == kappas[i]
        assert search.cv_results_["accuracy"][i, 0] == pytest.approx(accuracy)
        assert search.cv_results_["fairness"][i, 0] == pytest.approx(1 - gap)
    best = clone(model).set_params(kappa=search.kappa_).fit(X, y, **groups)
    assert search.best_estimator_.objective_ == pytest.approx(best.objective_, rel=1e-4)
    assert search.predict(X_test, **needed).shape == (300,)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_warm_start_from_thresholds_of_other_families():
    X, y, groups = table("one", 400)
    model = classifier("one", given="label", warm_start=True, surrogate_width=1.0)
    for given in ("label", "positive", "label"):
        model.set_params(given=given).fit(X, y, **groups)
        assert model.infeasibility_ <= model.tol


@every_given
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_groups_need_rows_of_the_labels(given):
    X, y, groups = table("one", 400)
    is_b = groups["sensitive_features"] == "m"
    names, y = np.where(is_b, "b", "a"), np.where(is_b, 0, y)
    model = classifier("one", given=given, surrogate_width=1.0, tol=0.1)
    with pytest.raises(ValueError, match=r"none: 'b' labelled 1 \(0\).*given=None"):
        model.fit(X, y, sensitive_features=names)
    y[np.flatnonzero(is_b)[3]] = 1
    message = r"of the \d groups .*, within a label, .* 'b' labelled 1 \(1\)"
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, sensitive_features=names)
    model.set_params(min_group_size=1)
    with pytest.warns(UserWarning, match=r"fewer than 30 rows.*'b' labelled 1 \(1\)"):
        model.fit(X, y, sensitive_features=names)
    # A group without negatives has what the positives are compared by.
    y = np.where(is_b, 1, table("one", 400)[1])
    if given == "positive":
        model.fit(X, y, sensitive_features=names)
        return
    with pytest.raises(ValueError, match=r"none: 'b' labelled 0 \(0\)"):
        model.fit(X, y, sensitive_features=names)


def test_groups_are_named_with_their_attribute():
    X, y, groups = table(m=300)
    people = groups["sensitive_features"]
    lonely = people.copy()
    lonely.loc[0, "sex"] = "x"
    for frame, options, message in (
        (lonely, {}, r"min_group_size=2: 'x' of sex \(1\)"),
        (people, {"max_groups": 2}, r"Column age .*max_groups=2"),
    ):
        with pytest.raises(ValueError, match=message):
            classifier(**options).fit(X, y, sensitive_features=frame)
    lonely.loc[1:5, "sex"] = "x"
    with pytest.warns(UserWarning, match=r"fewer than 30 rows.*'x' of sex \(6\)"):
        classifier(surrogate_width=1.0, kappa=1.0).fit(X, y, sensitive_features=lonely)
    y = np.where(lonely["sex"] == "x", 0, y)
    with pytest.raises(ValueError, match=r"have none: 'x' of sex labelled 1 \(0\)"):
        classifier(given="label").fit(X, y, sensitive_features=lonely)


def test_probabilities_that_are_refused():
    X, y, groups = table("probabilities", 500)
    P = groups["group_probabilities"]
    parts = da.from_array(X, chunks=(100, 3))
    # Many rows that are hardly of a group are few.
    thin = np.tile([1 - 1e-3, 1e-3], (500, 1))
    thin[0] = [0.0, 1.0]
    some = {"group_probabilities": P}
    for rows, arguments, params, error, message in (
        (parts, {}, {}, TypeError, "got neither"),
        (X, some, {"interactions": True}, ValueError, "take weights of; pass inter"),
        (parts, some, {"interactions": True}, ValueError, "take weights of; pass int"),
        (X, some, {"loss": "auc"}, ValueError, "pairs of rows and takes no group_prob"),
        (
            *(X, {"group_probabilities": thin}, {"min_group_size": 5}, ValueError),
            "fewer rows than min_group_size=5",
        ),
    ):
        with pytest.raises(error, match=message):
            classifier("probabilities", **params).fit(rows, y, **arguments)


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
    options = {"interval": (0.05, 0.3), "attributes": "each"}
    gap = partial_parity_gap(scores, sensitive_features=attributes, **options)
    assert gap == pytest.approx(model.partial_parity_gap_, abs=1e-3)
    assert gap <= 0.105
    assert model.converged_
    # Combinations are further apart.
    joint = attributes["sex"] + attributes["race"]
    assert partial_parity_gap(scores, sensitive_features=joint, **options) > gap
