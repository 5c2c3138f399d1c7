"""Every public name that takes sensitive features takes several columns of them."""

import inspect
import warnings
from functools import partial
from itertools import pairwise

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from scalefair import cluster, decomposition, linear_model, metrics, plotting
from scalefair import postprocessing as post
from scalefair._groups import encode_groups
from scalefair.files import open_rows
from scalefair.streaming import PartitionedRows

RNG = np.random.default_rng(0)
M = 80
PEOPLE = pd.DataFrame({"sex": RNG.permutation(["f", "m"] * 40)})
PEOPLE["old"] = RNG.permutation([True, False] * 40)
NAMES = (PEOPLE["sex"] + ", " + PEOPLE["old"].astype(str)).to_numpy(str)
X = RNG.normal(size=(M, 3))
Y = (X[:, 0] + RNG.normal(size=M) > 0).astype(int)
LABELS = RNG.integers(0, 2, M)
W = np.exp(-((X[:, None] - X) ** 2).sum(axis=2))
REGRESSOR = LinearRegression().fit(X, X[:, 0])
CLASSIFIER = LogisticRegression().fit(X, Y)


def fitted(estimator, groups, *arguments):
    model = estimator.fit(*arguments, sensitive_features=groups)
    assert model.groups_.tolist() == sorted({*NAMES})
    return model


def labels(estimator, groups):
    return fitted(estimator, groups, W).labels_


def clusters(estimator, groups):
    return fitted(estimator, groups, X).labels_


def losses(estimator, groups):
    return estimator.fit(X, sensitive_features=groups).group_losses_


def predictions(estimator, groups, y=Y):
    predict = fitted(estimator, groups, X, y).predict
    if "sensitive_features" not in inspect.signature(predict).parameters:
        return predict(X)
    # A few rows need not have all combinations, and cause no warning.
    return predict(X[:5], sensitive_features=groups[:5])


def scores(models, groups):
    return models[0].decision_function(X, sensitive_features=groups)


def estimators():
    few, seed = {"max_iter": 2}, {"random_state": 0}
    linear = linear_model.PartiallyFairClassifier(kappa=1.0, **few)
    for estimator in (
        cluster.FairSpectralClustering(2, **seed),
        cluster.CoordinateDescentFairClustering(2, n_init=1, **seed),
        cluster.UnifiedFairSpectralClustering(2, n_init=1, **few, **seed),
    ):
        yield estimator, labels
    yield cluster.FairKMeans(2, **seed), clusters
    yield decomposition.FairPCA(1), losses
    yield decomposition.GroupPCA(1), losses
    yield decomposition.SemidefiniteFairPCA(1), losses
    for estimator in (
        linear,
        linear_model.PartiallyFairClassifierCV([1.0], 0.0, estimator=linear, cv=2),
        linear_model.PairwiseFairClassifier(**few),
        linear_model.PenalizedPartialParityClassifier(**few),
        post.FairCalibratedClassifier(CLASSIFIER, cv="prefit"),
        post.ExplainableSVDRegressor(REGRESSOR),
        post.WassersteinBarycenterRegressor(REGRESSOR, group_predictor=False, **seed),
        post.DiscretizedTransportRegressor(REGRESSOR, group_predictor=False, **seed),
    ):
        yield estimator, predictions


def metric(name, *arguments):
    return name, lambda groups: getattr(metrics, name)(
        *arguments, sensitive_features=groups
    )


def display(name, attribute, *arguments, method="from_estimator", **options):
    def draw(groups):
        from matplotlib.figure import Figure

        is_pair = name == "GroupLossDisplay"
        ax = Figure().subplots(1, 1 + is_pair)
        options["axes" if is_pair else "ax"] = ax
        drawn = getattr(getattr(plotting, name), method)(
            *arguments, sensitive_features=groups, **options
        )
        values = getattr(drawn, attribute)
        return list(values.values()) if isinstance(values, dict) else values

    return name, draw


def joint_range(groups):
    model = decomposition.FairPCA(1).fit(X, sensitive_features=NAMES)
    _, draw = display("JointNumericalRangeDisplay", "boundary", model, X, n_angles=8)
    return draw(groups)


FIRST, PAIR = X[:, 0], ("f, True", "m, False")
TAKERS = {type(model).__name__: partial(f, model) for model, f in estimators()} | {
    "refine_partition": lambda groups: (
        cluster.refine_partition(
            W, LABELS, sensitive_features=groups, random_state=0
        ).labels
    ),
    "fair_assignment": lambda groups: (
        cluster.fair_assignment(X, X[:2], sensitive_features=groups).labels
    ),
    "partial_fairness_path": lambda groups: scores(
        linear_model.partial_fairness_path(
            X, Y, sensitive_features=groups, kappas=[1.0], max_iter=2
        ),
        groups,
    ),
    "fair_calibration_path": lambda groups: scores(
        post.fair_calibration_path(
            CLASSIFIER, X, Y, sensitive_features=groups, kappas=[0.1], cv="prefit"
        ),
        groups,
    ),
    **dict(
        [
            metric("balance_score", LABELS),
            metric("minimum_balance_score", LABELS),
            metric("group_proportions", LABELS),
            metric("group_auc_gap", FIRST),
            metric("group_probabilities"),
            metric("inter_group_pairwise_gap", Y, FIRST),
            metric("intra_group_pairwise_gap", Y, FIRST),
            metric("moment_gaps", X),
            metric("partial_demographic_parity_gap", FIRST),
            metric("partial_equal_opportunity_gap", Y, FIRST),
            metric("partial_equalized_odds_gap", Y, FIRST),
            metric("partial_parity_gap", FIRST),
            metric("statistical_parity_ks", FIRST),
            metric("weak_partial_demographic_parity_gap", FIRST),
            display(
                "ClusterCompositionDisplay",
                "proportions",
                LABELS,
                method="from_predictions",
            ),
            display("FairnessAccuracyDisplay", "unfairness", REGRESSOR, X, FIRST),
            display(
                "GroupLossDisplay", "losses", X, method="from_data", n_components=[1, 2]
            ),
            display("GroupRateDisplay", "gaps", CLASSIFIER, X, pair=PAIR),
            display("OutputDensityDisplay", "densities", REGRESSOR, X),
            display("ParetoFrontDisplay", "means", CLASSIFIER, X, Y),
            display("ScoreDensityDisplay", "densities", CLASSIFIER, X),
        ]
    ),
}
TWO_GROUP_TAKERS = {
    "ErrorWeightedFairPCA": partial(losses, decomposition.ErrorWeightedFairPCA(1)),
    "JointNumericalRangeDisplay": joint_range,
}


def takes_groups(public_object):
    names = "fit", "from_estimator", "from_data"
    calls = [public_object, *(getattr(public_object, name, None) for name in names)]
    signatures = [inspect.signature(call) for call in calls if callable(call)]
    return any("sensitive_features" in s.parameters for s in signatures)


def test_everything_that_takes_groups_is_tested():
    modules = (cluster, decomposition, linear_model, metrics, plotting, post)
    public = {name: vars(m)[name] for m in modules for name in m.__all__}
    takers = {name for name, value in public.items() if takes_groups(value)}
    assert takers == TAKERS.keys() | TWO_GROUP_TAKERS.keys()


@pytest.mark.filterwarnings(
    "ignore:Gaps of groups of fewer",
    "ignore:Groups of too few rows for kappa",
    "ignore:The clusters are of very different sizes",
    "ignore:.*gaps of these groups are no more than noise",
    "ignore::sklearn.exceptions.ConvergenceWarning",
)
@pytest.mark.parametrize("name", TAKERS)
def test_two_columns_are_their_combinations(name):
    take = TAKERS[name]
    expected = np.asarray(take(NAMES))
    np.testing.assert_array_equal(np.asarray(take(PEOPLE)), expected)


NO_GROUPS = {
    "score": (RNG.random(M), r"80 different numbers, 0\.0.*bins"),
    "age": (18 + np.arange(M) % 73, r"73 different numbers, 18 to 90.*bins"),
    "day": (pd.date_range("2026-01-01", periods=M), "80 different dates.*bins"),
    "column": (PEOPLE.assign(age=18 + np.arange(M) % 73), "Column age of .*bins"),
    "probabilities": (RNG.dirichlet([1, 2], M), "add up to 1 .*argmax"),
    "list": (RNG.dirichlet([1, 2], M).tolist(), "add up to 1 .*argmax"),
    "short": (NAMES[:-1], "79 groups for 80 samples"),
    "missing": ([None, *NAMES[1:]], r"1 missing value\(s\).*position 0"),
    "one": (np.full(M, "f"), "only one|groups, got 1"),
}
# Which of these a function has no reason to refuse.
ALLOWED = {
    "group_probabilities": ["short", "missing", "one"],
    "group_proportions": ["one"],
    "refine_partition": ["one"],
    "fair_assignment": ["one"],
}


@pytest.mark.parametrize("name", [*TAKERS, *TWO_GROUP_TAKERS])
def test_what_is_no_groups(name):
    for kind, (values, message) in NO_GROUPS.items():
        if kind in ALLOWED.get(name, []):
            continue
        with pytest.raises(ValueError, match=message) as error:
            (TAKERS | TWO_GROUP_TAKERS)[name](values)
        assert len(str(error.value)) < 400


def test_the_remedies_for_quantities_work():
    for values, _ in (NO_GROUPS["age"], NO_GROUPS["score"]):
        groups, codes = encode_groups(pd.cut(values, bins=5))
        assert (len(groups), len(codes)) == (5, M)
        groups, _ = encode_groups(values.astype(str))
        assert len(groups) == len(np.unique(values))
    most_likely = NO_GROUPS["probabilities"][0].argmax(axis=1)
    assert encode_groups(most_likely)[0].tolist() == [0, 1]
    # Members marked by a column each, and codes of many groups, are groups.
    assert len(encode_groups(np.eye(3)[np.arange(M) % 3])[0]) == 3
    assert len(encode_groups(np.arange(M) % 50)[0]) == 50
    assert len(encode_groups(np.arange(M) % 3 / 2)[0]) == 3


@pytest.mark.parametrize("name", TWO_GROUP_TAKERS)
def test_methods_of_two_groups_take_two_combinations(name):
    result = TWO_GROUP_TAKERS[name](PEOPLE[["sex", "sex"]])
    np.testing.assert_allclose(result, TWO_GROUP_TAKERS[name](PEOPLE["sex"]))
    with pytest.raises(ValueError, match=r"two groups|exactly two"):
        TWO_GROUP_TAKERS[name](PEOPLE)


def delayed(table, cuts=(0, 30, 30, M)):
    slices = [slice(a, b) for a, b in pairwise(cuts)]
    return [dask.delayed(table[part]) for part in slices]


PARTS = {
    "frame": lambda: dd.from_pandas(PEOPLE, npartitions=3),
    "categories": lambda: dd.from_pandas(
        PEOPLE.assign(sex=pd.Categorical(PEOPLE["sex"], ["m", "x", "f"])), npartitions=3
    ),
    "blocks": lambda: delayed(PEOPLE),
    "array": lambda: da.from_array(PEOPLE.to_numpy().astype(str), chunks=(33, 1)),
    "memory": lambda: PEOPLE,
}


@pytest.mark.parametrize("kind", PARTS)
def test_columns_in_parts(kind, tmp_path):
    groups = PARTS[kind]()
    np.save(tmp_path / "X.npy", X)
    reader = open_rows(tmp_path / "X.npy", max_bytes=500)
    rows = da.from_array(X, chunks=(30, 3))
    if kind == "blocks":
        rows = delayed(X)
    elif kind in ("frame", "categories"):
        rows = dd.from_pandas(pd.DataFrame(X), npartitions=3)
    for parts in (rows, reader):
        distinct, codes = PartitionedRows.of(parts).encode(groups)
        assert distinct.tolist() == sorted({*NAMES})
        assert distinct[np.concatenate(codes.gather())].tolist() == NAMES.tolist()


def test_groups_of_dask_for_rows_in_memory():
    groups, codes = encode_groups(PARTS["frame"](), M)
    assert groups[codes].tolist() == NAMES.tolist()


def test_quantities_in_parts():
    rows = PartitionedRows.of(delayed(X, (0, 40, M)))
    ages = 18 + np.arange(M) % 73  # of which each part has 40
    for groups in (delayed(ages, (0, 40, M)), delayed(X[:, 0], (0, 40, M)), ages):
        with pytest.raises(ValueError, match=r"different numbers.*bins"):
            rows.encode(groups)


def test_small_combinations_and_missing_values_in_parts():
    few = PEOPLE.assign(old=np.arange(M) < 5)
    rows = PartitionedRows.of(delayed(X))
    for groups in (few, delayed(few)):
        with pytest.warns(UserWarning, match=r"2 of the 4 groups, comb.*have fewer"):
            rows.encode(groups)
        rows.encode(groups, warn=False)
    few["sex"] = few["sex"].where(np.arange(M) != 31, None)
    with pytest.raises(ValueError, match=r"Partition 2: Column sex .* at position 1"):
        rows.encode(delayed(few))


def test_unknown_combinations_at_prediction():
    model = linear_model.PartiallyFairClassifier(kappa=1.0, max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, Y, sensitive_features=PEOPLE)
    for rows, groups in ((X, PEOPLE), (delayed(X), delayed(PEOPLE))):
        expected = model.decision_function(X, sensitive_features=NAMES)
        scores = model.decision_function(rows, sensitive_features=groups)
        np.testing.assert_array_equal(np.asarray(scores), expected)
    with pytest.raises(
        ValueError, match=r"fit did not see: 'f, maybe', 'm, no'. It saw 'f, F"
    ):
        model.predict(X[:2], sensitive_features=[["f", "maybe"], ["m", "no"]])
