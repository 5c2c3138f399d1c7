"""Groups as every public name takes them: columns, probabilities, weights of rows."""

import inspect
import warnings
from functools import partial

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression

from scalefair import cluster, decomposition, linear_model, metrics, plotting
from scalefair import postprocessing as post
from scalefair._groups import encode_groups
from scalefair.files import open_rows
from scalefair.streaming import PartitionedRows

from .conftest import bad_weights, delayed_blocks

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
WEIGHTS = RNG.integers(1, 4, M).astype(float)
OF_MEN = np.where(PEOPLE["sex"] == "f", 0, WEIGHTS)


def fit(estimator, groups, *arguments):
    """Fit to groups as arguments of `fit`, with the others as parameters."""
    names = "attributes", "interval"
    parameters = {name: groups[name] for name in groups if name in names}
    options = {name: groups[name] for name in groups if name not in names}
    model = clone(estimator).set_params(**parameters).fit(*arguments, **options)
    people = options.get("sensitive_features", options.get("group_probabilities"))
    if isinstance(people, pd.DataFrame) and not parameters:
        is_table = "group_probabilities" in options
        names = people if is_table else people.astype(str).agg(", ".join, axis=1)
        assert model.groups_.tolist() == sorted({*names})
    return model


def labels(estimator, **groups):
    return fit(estimator, groups, W).labels_


def clusters(estimator, **groups):
    return fit(estimator, groups, X).labels_


def losses(estimator, **groups):
    return fit(estimator, groups, X).group_losses_


def predictions(estimator, y=Y, **groups):
    predict = fit(estimator, groups, X, y).predict
    if "sensitive_features" not in inspect.signature(predict).parameters:
        return predict(X)
    # A few rows need not have all combinations, and cause no warning.
    people = groups.get("sensitive_features", NAMES)
    return predict(X[:5], sensitive_features=people[:5])


def scores(models, sensitive_features=NAMES, **_):
    return models[0].decision_function(X, sensitive_features=sensitive_features)


def estimators(interactions):
    few, seed = {"max_iter": 2}, {"random_state": 0}
    linear = {"interactions": interactions, **few}
    partially = linear_model.PartiallyFairClassifier(kappa=1.0, **linear)
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
    yield decomposition.ErrorWeightedFairPCA(1), losses
    for estimator in (
        partially,
        linear_model.PartiallyFairClassifierCV([1.0], 0.0, estimator=partially, cv=2),
        linear_model.PairwiseFairClassifier(**linear),
        linear_model.PenalizedPartialParityClassifier(**linear),
        post.FairCalibratedClassifier(FrozenEstimator(CLASSIFIER)),
        post.ExplainableSVDRegressor(FrozenEstimator(REGRESSOR)),
        post.WassersteinBarycenterRegressor(
            FrozenEstimator(REGRESSOR), group_predictor=False, **seed
        ),
        post.DiscretizedTransportRegressor(
            FrozenEstimator(REGRESSOR), group_predictor=False, **seed
        ),
    ):
        yield estimator, predictions


def metric(name, *arguments):
    return name, partial(getattr(metrics, name), *arguments)


def display(name, attribute, *arguments, method="from_estimator", **options):
    def draw(**groups):
        from matplotlib.figure import Figure

        is_pair = name == "GroupLossDisplay"
        ax = Figure().subplots(1, 1 + is_pair)
        options["axes" if is_pair else "ax"] = ax
        drawn = getattr(getattr(plotting, name), method)(
            *arguments, **{**options, **groups}
        )
        values = getattr(drawn, attribute)
        return list(values.values()) if isinstance(values, dict) else values

    return name, draw


def joint_range(**groups):
    model = decomposition.FairPCA(1).fit(X, sensitive_features=NAMES)
    _, draw = display("JointNumericalRangeDisplay", "boundary", model, X, n_angles=8)
    return draw(**groups)


def partial_path(interactions, **groups):
    options = {"kappas": [1.0], "max_iter": 2, "interactions": interactions}
    return scores(linear_model.partial_fairness_path(X, Y, **options, **groups))


def calibration_path(**groups):
    options = {"kappas": [0.1], "cv": "prefit"}
    path = post.fair_calibration_path(CLASSIFIER, X, Y, **options, **groups)
    return scores(path, **groups)


def every_taker(interactions):
    """Functions of groups as arguments, by the public name that they call."""
    return {type(m).__name__: partial(f, m) for m, f in estimators(interactions)} | {
        "refine_partition": lambda **groups: (
            cluster.refine_partition(W, LABELS, random_state=0, **groups).labels
        ),
        "fair_assignment": lambda **groups: (
            cluster.fair_assignment(X, X[:2], **groups).labels
        ),
        "partial_fairness_path": partial(partial_path, interactions),
        "fair_calibration_path": calibration_path,
        "JointNumericalRangeDisplay": joint_range,
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
                    "ClusterCompositionDisplay", "proportions", LABELS, **OF_LABELS
                ),
                display("FairnessAccuracyDisplay", "unfairness", REGRESSOR, X, FIRST),
                display("GroupLossDisplay", "losses", X, **OF_DATA),
                display("GroupRateDisplay", "gaps", CLASSIFIER, X, pair=PAIR),
                display("OutputDensityDisplay", "densities", REGRESSOR, X),
                display("ParetoFrontDisplay", "means", CLASSIFIER, X, Y),
                display("ScoreDensityDisplay", "densities", CLASSIFIER, X),
            ]
        ),
    }


FIRST, PAIR = X[:, 0], ("f, True", "m, False")
OF_LABELS = {"method": "from_predictions"}
OF_DATA = {"method": "from_data", "n_components": [1, 2]}
TAKERS = every_taker(interactions=True)
# Weights of a linear model cannot depend on groups of which probabilities are known.
SOFT_TAKERS = every_taker(interactions=False)
BY_NAME = ["FairCalibratedClassifier", "fair_calibration_path", "GroupRateDisplay"]
OF_TWO_GROUPS = ["ErrorWeightedFairPCA", "JointNumericalRangeDisplay"]
MODULES = (cluster, decomposition, linear_model, metrics, plotting, post)
PUBLIC = {name: vars(m)[name] for m in MODULES for name in m.__all__}


def takes(public_object, argument):
    names = "fit", "from_estimator", "from_data"
    calls = [public_object, *(getattr(public_object, name, None) for name in names)]
    signatures = [inspect.signature(call) for call in calls if callable(call)]
    return any(argument in s.parameters for s in signatures)


def that_take(argument, *others):
    """Decorate a test of all that takes an argument, but for some names."""
    names = [n for n in TAKERS if takes(PUBLIC[n], argument) and n not in others]
    return pytest.mark.parametrize("name", names)


def people_for(name):
    """Groups of which the name takes as many."""
    return PEOPLE["sex"].to_numpy() if name in OF_TWO_GROUPS else NAMES


def same(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-9)


def test_everything_that_takes_groups_is_tested():
    takers = {n for n, value in PUBLIC.items() if takes(value, "sensitive_features")}
    assert takers == TAKERS.keys()


# Of few rows in many groups, and of few steps of a solver.
quiet = pytest.mark.filterwarnings(
    "ignore:Gaps of groups of fewer",
    "ignore:Groups of too few rows for kappa",
    "ignore:The clusters are of very different sizes",
    "ignore:.*gaps of these groups are no more than noise",
    "ignore::sklearn.exceptions.ConvergenceWarning",
)


@quiet
@that_take("sensitive_features", *OF_TWO_GROUPS)
def test_two_columns_are_their_combinations(name):
    take = TAKERS[name]
    expected = np.asarray(take(sensitive_features=NAMES))
    actual = np.asarray(take(sensitive_features=PEOPLE))
    np.testing.assert_array_equal(actual, expected)


@quiet
@that_take("group_probabilities")
def test_probabilities(name):
    """Certain ones are groups; what is none is refused in one way."""
    take, people = SOFT_TAKERS[name], people_for(name)
    in_order = pd.get_dummies(people).astype(float)
    table = in_order[np.roll(in_order.columns, 1)]
    for weights in ({}, {"sample_weight": WEIGHTS}):
        expected = take(sensitive_features=people, **weights)
        same(take(group_probabilities=table, **weights), expected)
    if name not in BY_NAME:  # such columns have numbers
        in_order = sparse.csr_array(in_order)
        same(take(group_probabilities=in_order, **weights), expected)
    for wrong in ({}, {"sensitive_features": people, "group_probabilities": table}):
        with pytest.raises((TypeError, ValueError), match=r"sensitive_.*group_prob"):
            take(**wrong)
    first = table.columns[0]
    for row, value, message in (
        (3, -0.5, f"below 0 or above 1, the first in row 3, column '{first}'"),
        (7, 1.5, f"below 0 or above 1, the first in row 7, column '{first}'"),
        (5, np.nan, f"missing, the first in row 5, column '{first}'"),
    ):
        wrong = table.copy()
        wrong.loc[row, first] = value
        with pytest.raises(ValueError, match=message):
            take(group_probabilities=wrong)
    for wrong, message in (
        (table / 2, "do not add up to 1, the first row 0"),
        (table.assign(x=0.0), "never positive: 'x'"),
        (table[:9], f"a row for each of the {M} samples"),
        (table[[first]], "a column for each group, two or more"),
        (np.ma.masked_equal(table.to_numpy(), 1), "masked entries"),
    ):
        with pytest.raises(ValueError, match=message):
            take(group_probabilities=wrong)
    if name not in SHARES:
        with pytest.raises(ValueError, match=r"0 for all .*'f|are zero|got 1"):
            take(group_probabilities=table, sample_weight=OF_MEN)


@quiet
@that_take("sample_weight")
def test_weights(name):
    """Have no unit; equal ones are none; what is none is refused in one way."""
    take = partial(TAKERS[name], sensitive_features=people_for(name))
    same(take(sample_weight=np.ones(M)), take())
    same(take(sample_weight=7 * WEIGHTS), take(sample_weight=WEIGHTS))
    for weights, message in bad_weights(M):
        with pytest.raises(ValueError, match=f"sample_weight .*{message}"):
            take(sample_weight=weights)
    if name not in SHARES:
        with pytest.raises(ValueError, match=r"0 for all .*'f|are zero|got 1"):
            take(sample_weight=OF_MEN)


@quiet
@that_take("attributes", "FairCalibratedClassifier", "GroupRateDisplay")
def test_each_of_one_attribute_is_that_attribute(name):
    take, sex = TAKERS[name], PEOPLE[["sex"]]
    each = partial(take, attributes="each")
    same(each(sensitive_features=sex), take(sensitive_features=sex["sex"]))
    with pytest.raises(ValueError, match=r"attributes must be|'attributes' parameter"):
        take(sensitive_features=PEOPLE, attributes="both")
    if "one" not in ALLOWED.get(name, []):
        message = r"(old|Column 1).* has only one|groups of attribute"
        with pytest.raises(ValueError, match=message):
            each(sensitive_features=PEOPLE.assign(old=True))


@quiet
@that_take("interval")
def test_an_interval_has_its_ends_in_order(name):
    with pytest.raises(ValueError, match="0 <= alpha < beta <= 1"):
        TAKERS[name](sensitive_features=people_for(name), interval=(0.5, 0.2))


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
# Which of these a function has no reason to refuse, and what leaves groups out.
SHARES = ["balance_score", "minimum_balance_score", "group_proportions"]
SHARES += ["ClusterCompositionDisplay", "GroupLossDisplay"]
ALLOWED = {
    "group_probabilities": ["short", "missing", "one"],
    "group_proportions": ["one"],
    "refine_partition": ["one"],
    "fair_assignment": ["one"],
}


@that_take("sensitive_features")
def test_what_is_no_groups(name):
    for kind, (values, message) in NO_GROUPS.items():
        if kind in ALLOWED.get(name, []):
            continue
        with pytest.raises(ValueError, match=message) as error:
            TAKERS[name](sensitive_features=values)
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


@pytest.mark.parametrize("name", OF_TWO_GROUPS)
def test_methods_of_two_groups_take_two_combinations(name):
    take = TAKERS[name]
    result = take(sensitive_features=PEOPLE[["sex", "sex"]])
    same(result, take(sensitive_features=PEOPLE["sex"]))
    with pytest.raises(ValueError, match=r"two groups|exactly two"):
        take(sensitive_features=PEOPLE)


delayed = partial(delayed_blocks, cuts=(0, 30, 30, M))


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
        codes = np.concatenate(codes.gather())
        assert codes.dtype == np.int8
        assert distinct.tolist() == sorted({*NAMES})
        assert distinct[codes].tolist() == NAMES.tolist()


def test_groups_of_dask_for_rows_in_memory():
    groups, codes = encode_groups(PARTS["frame"](), M)
    assert groups[codes].tolist() == NAMES.tolist()


def test_quantities_in_parts():
    in_two = partial(delayed_blocks, cuts=(0, 40, M))
    rows = PartitionedRows.of(in_two(X))
    ages = 18 + np.arange(M) % 73  # of which each part has 40
    for groups in (in_two(ages), in_two(X[:, 0]), ages):
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
    with pytest.raises(ValueError, match=r"'f, maybe', 'm, no'. It saw 'f, F"):
        model.predict(X[:2], sensitive_features=[["f", "maybe"], ["m", "no"]])


@pytest.mark.parametrize(
    ("estimator", "method", "arguments"),
    [
        (linear_model.PartiallyFairClassifier(kappa=1.0, max_iter=1), "predict", [X]),
        (post.FairCalibratedClassifier(FrozenEstimator(CLASSIFIER)), "score", [X, Y]),
        (decomposition.FairPCA(1), "partial_fit", [X]),
    ],
)
def test_columns_have_the_order_of_the_fit(estimator, method, arguments):
    flags = pd.DataFrame(RNG.integers(0, 2, (M, 2)), columns=["veteran", "disabled"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = estimator.fit(X, Y, sensitive_features=flags)
    call = partial(getattr(model, method), *arguments)
    call(sensitive_features=flags.to_numpy())
    call(sensitive_features=dd.from_pandas(flags, npartitions=2))
    for other in (flags[["disabled", "veteran"]], flags.set_axis(["a", "b"], axis=1)):
        with pytest.raises(ValueError, match=r"veteran, disabled.* same order"):
            call(sensitive_features=other)
