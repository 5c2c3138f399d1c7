"""`scalefair classify`: what it computes, writes, says and refuses."""

import gzip
from itertools import combinations

import joblib
import numpy as np
import pandas
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scalefair.files._tables import FLOAT_OPTIONS
from scalefair.linear_model import PartiallyFairClassifier
from scalefair.metrics import null_parity_gap, partial_parity_gap
from scalefair.postprocessing import FairCalibratedClassifier
from scalefair.streaming import RowReader

from .conftest import JOBS, OLD

REAL_FIT = PartiallyFairClassifier.fit


def done(people, *arguments, **options):
    """Run, and return what is in the model file and in the report."""
    report = people.done(*arguments, **options)
    return joblib.load(people.output), report


def at_once(X):
    if not isinstance(X, RowReader):
        return X
    return sparse.vstack(list(X.blocks())) if X.is_sparse else np.vstack([*X.blocks()])


def fit_quickly(model, X, y, *, sensitive_features, sample_weight=None):
    """Weights of an unconstrained model: what is fitted is for others to test."""
    assert sample_weight is None
    rows = model._check_training(at_once(X), y, sensitive_features)
    plain = LogisticRegression().fit(rows.X, rows.signs)
    weights = np.zeros((len(rows.groups) if model.interactions else 1, X.shape[1] + 1))
    weights[0] = [*plain.coef_[0], *plain.intercept_]
    weights[1:] = 0.1
    weights[:, -1] += model.kappa
    model._store_weights(weights)
    model.kkt_residual_, model.objective_, model.infeasibility_ = 1e-4, 0.5, 0.0
    model.n_iter_, model.n_oracle_calls_, model.converged_ = 1, 2, True
    model.history_ = [{"objective": 0.5, "kkt_residual": float("nan")}]
    return model


@pytest.fixture(autouse=True)
def fits(monkeypatch):
    """What the fair estimator is fitted to, and its parameters."""
    seen = []

    def remember(model, X, y, **kwargs):
        if model.kappa < 1:
            seen.append((X, y, kwargs["sensitive_features"], model.get_params()))
        return fit_quickly(model, X, y, **kwargs)

    monkeypatch.setattr(PartiallyFairClassifier, "fit", remember)
    return seen


@pytest.fixture
def real_fit(fits, monkeypatch):
    monkeypatch.setattr(PartiallyFairClassifier, "fit", REAL_FIT)


def test_svmlight(people, fits):
    people.done(people.svm, "--drop", 5, target=None, groups=6)
    [(X, y, groups, _)] = fits
    np.testing.assert_allclose(X.toarray(), people.X[:, :4], atol=1e-9)
    np.testing.assert_array_equal(y, np.where(people.y == "yes", 1, -1))
    np.testing.assert_array_equal(groups, people.sex == "f")
    people.done(people.svm, "--keep-groups", target=None, groups=6)
    assert fits[1][0].shape == (240, 6)
    path = people.folder / "other.gz"
    path.write_bytes(gzip.compress(people.svm.read_bytes()))
    people.done(path, "--svmlight", target=None, groups=people.sexes)
    assert fits[2][0].shape == (240, 6)
    assert set(fits[2][2]) == {"f", "m"}


def test_columns(people, fits):
    frame = people.frame.assign(code=np.arange(240) % 3 + 9, note="-")
    frame.insert(0, "id", [f"p{i}" for i in range(240)])
    data = people.save(frame, "codes.csv")
    drop = ("--drop", "note", "--drop", "job", "--drop", "weight")
    saved, _ = done(people, data, *drop, "--categorical", "code")
    assert saved["feature_names"] == ["height", "code=10", "code=11", "code=9"]
    saved, _ = done(people, data, *drop, "--drop", "code", "--keep-groups")
    assert saved["feature_names"] == ["height", "sex=f", "sex=m"]
    # Files may name the rows by their ids, in any order.
    pairs = [f"p{i},{label}" for i, label in enumerate(people.y)]
    labels = people.write("pairs.csv", ["stranger,no", *reversed(pairs)])
    options = (*drop, "--drop", "hired")
    people.done(data, *options, target=labels, message="1 id(s) are not in")
    np.testing.assert_array_equal(fits[-1][1], people.y)


def test_quantities_are_no_groups_and_codes_may_be(people, fits):
    rng = np.random.default_rng(0)
    towns = 100 + np.arange(240) % 60
    frame = people.frame.assign(age=rng.integers(18, 91, 240), town=towns)
    data = people.save(frame, "ages.csv")
    fragments = "different numbers", "bins", "--categorical"
    for groups in ("age", "sex,age"):
        for options in ((), ("--attributes", "each")):
            result = people.run(data, *options, groups=groups)
            assert len(people.fails(result, *fragments)) < 400
    options = ("--drop", "age", "--categorical", "town", "--max-groups", "60")
    options += ("--min-group-size", "1", "--no-baseline")
    result = people.run(data, *options, groups="town")
    assert result.exit_code == 0, result.output
    towns = [str(town) for town in range(100, 160)]
    assert sorted(joblib.load(people.output)["groups"]) == towns


def split(people):
    train = people.save(people.frame[:160], "train.csv")
    return train, people.save(people.frame[160:], "test.csv")


def test_report(people):
    train, test = split(people)
    options = ("--criterion", "weak", "--threshold", "0.1", "--test", test)
    saved, report = done(people, train, *options)
    assert saved["classes"].tolist() == ["no", "yes"]
    assert saved["groups"].tolist() == ["f", "m"]
    assert saved["columns"] == ["height", "job", "weight"]
    names = ["height", "weight", *(f"job={job}" for job in JOBS)]
    assert saved["feature_names"] == names
    model = saved["classifier"]
    parameters = model.get_params()
    parameters.pop("warm_start")
    chosen = {**parameters, "interval": [0.1, 0.6], "standardize": False}
    chosen["method"] = "linear"
    assert report["parameters"] == chosen
    assert report["input"]["n_features"] == 5
    fitted = clone(model).set_params(kappa=1)
    fitted.fit(people.X[:160], people.y[:160], sensitive_features=people.sex[:160])
    parts = ("train", slice(0, 160), train), ("test", slice(160, None), test)
    for name, rows, path in parts:
        sex, hired = people.sex[rows], people.y[rows]
        assert report["input"][name] == {
            "rows": str(path),
            "labels_from": f"column hired of {path}",
            "groups_from": f"column sex of {path}",
            "n_rows": len(sex),
            "labels": {k: int((hired == k).sum()) for k in ("no", "yes")},
            "groups": {k: int((sex == k).sum()) for k in ("f", "m")},
        }
        rates = {x["group"]: x["positive_rate"] for x in report[name]["groups"]}
        is_hired = pandas.Series(hired == "yes").groupby(sex).mean()
        assert rates == pytest.approx(is_hired.to_dict())
        predicted = fitted.predict(people.X[rows], sensitive_features=sex)
        accuracy = pytest.approx(np.mean(predicted == hired))
        assert report["baseline"][name]["accuracy"] == accuracy
    assert report["baseline"]["train"] != report["train"]
    assert report["positive_label"] == "yes"
    assert report["converged"] is True
    assert report["n_oracle_calls"] == 2
    assert len(report["history"]) == 1
    assert set(report["seconds"]) == {"read", "fit"}
    assert report["peak_memory_bytes"] > 10_000_000
    _, report = done(people, train, "--no-baseline")
    assert not {"test", "baseline"} & set(report)


@pytest.mark.parametrize(
    ("condition", "method"), [("positive", "calibrated"), ("label", "linear")]
)
def test_rows_of_one_label_are_compared(people, condition, method):
    train, test = split(people)
    options = ("--given", condition, "--method", method, "--kappa", 0.6)
    frame = pandas.read_csv(test, **FLOAT_OPTIONS)
    frame.loc[frame["sex"] == "f", "hired"] = "no"
    none = people.save(frame, "none.csv")
    result = people.run(train, *options, "--test", none)
    people.fails(result, f"{none}: group(s) ['f'] have no positive samples")
    saved, report = done(people, train, *options, "--test", test)
    model = saved["classifier"]
    assert model.given == report["parameters"]["given"] == condition
    for name, rows in (("train", slice(0, 160)), ("test", slice(160, None))):
        sex = people.sex[rows]
        scores = model.decision_function(people.X[rows], sensitive_features=sex)
        keywords = {"sensitive_features": sex, "y_true": people.y[rows]}
        keywords |= {"interval": (0.1, 0.6), "given": condition}
        measures = report[name]
        assert measures["partial_parity_gap"] == partial_parity_gap(scores, **keywords)
        weak = partial_parity_gap(scores, threshold=0.0, **keywords)
        assert measures["weak_partial_parity_gap"] == weak


def test_columns_of_a_test_are_found_by_name(people):
    train, test = split(people)
    _, report = done(people, train, "--test", test)
    names = ["sex", "hired", "weight", "job", "height"]
    frame = pandas.read_csv(test, **FLOAT_OPTIONS)[names]
    other = people.save(frame.assign(new=0), "other.csv")
    assert people.done(train, "--test", other)["test"] == report["test"]
    frame["job"] = frame["job"].replace("cook", "pilot")
    n = (frame["job"] == "pilot").sum()
    message = f"column job: {n} row(s) have a value that does not occur in TRAIN"
    people.done(train, "--test", people.save(frame, "pilots.csv"), message=message)


def test_test_of_svmlight_may_have_other_features(people):
    lines = ["+1 1:1 3:1", "-1 2:1 3:1", "+1 1:1", "-1 2:1"] * 10
    train = people.write("train.svm", lines)
    test = people.write("test.svm", ["+1 1:1 3:1 7:1", "-1 2:1", "-1 2:1 3:1"])
    zero = people.write("zero.svm", ["+1 0:1 3:1", "-1 2:1"] * 10)
    for options in ((), ("--memory-limit", "100B")):
        result = people.run(train, "--test", zero, *options, target=None, groups=3)
        people.fails(result, f"{zero}: has a feature 0")
    message = "1 value(s) of features TRAIN lacks"
    roles = {"target": None, "groups": 3}
    report = people.done(train, "--test", test, message=message, **roles)
    assert report["test"]["accuracy"] == 1
    assert report["input"]["n_features"] == 2


def test_the_classifier_is_the_estimators(people, real_fit):
    arguments = people.csv, "--no-interactions", "--tol", 0.01
    saved, report = done(people, *arguments)
    model = PartiallyFairClassifier((0.1, 0.6), 0.2, interactions=False, tol=0.01)
    model.fit(people.X, people.y, sensitive_features=people.sex)
    np.testing.assert_array_equal(saved["classifier"].coef_, model.coef_)
    assert report["kkt_residual"] == model.kkt_residual_
    gap = pytest.approx(model.partial_parity_gap_)
    assert report["train"]["partial_parity_gap"] == gap
    # Without the constraint the groups are farther apart, and it is said.
    assert report["baseline"]["train"]["partial_parity_gap"] > gap.expected + 0.1
    # By the paper's method the gap is above kappa, and it is said.
    message = "more than --kappa 0.2. Take --surrogate-width auto"
    _, wide = done(people, *arguments, "--surrogate-width", 1, message=message)
    assert wide["train"]["partial_parity_gap"] > 0.21 >= gap.expected


def test_rows_in_blocks(people, fits):
    for extension in ("csv", "npy", "npz"):
        data, roles = people.stored(extension)
        options = ["--standardize", "--test", data]
        if extension != "csv":
            options += ["--test-target", people.targets, "--test-groups", people.sexes]
        _, one = done(people, data, *options, **roles)
        _, other = done(people, data, *options, "--memory-limit", "2kB", **roles)
        reader = fits[-1][0]
        assert isinstance(reader, RowReader)
        assert isinstance(fits[-2][0], np.ndarray | sparse.csr_array)
        X = [sparse.csr_array(at_once(seen[0])).toarray() for seen in fits[-2:]]
        np.testing.assert_allclose(*X, rtol=1e-12, atol=1e-12)
        facts = other["input"]["train"]
        assert facts.pop("read") == "in blocks"
        assert facts.pop("n_blocks") == len(reader)
        # The pass that scores them; of readers, before that, the one that scales.
        assert facts.pop("n_passes") == (2 if extension == "csv" else 3)
        assert facts == one["input"]["train"]
        groups = [pandas.DataFrame(x["test"].pop("groups")) for x in (one, other)]
        pandas.testing.assert_frame_equal(*groups)
        assert other["test"] == pytest.approx(one["test"])


@pytest.mark.parametrize("options", [(), ("--standardize",)])
def test_bad_values_in_blocks_are_placed(people, real_fit, options):
    options += ("--memory-limit", "4kB")
    lines = people.svm.read_text().splitlines()
    for line, place in (
        ("1 2:3 1:4", (f"{people.svm}:51: ", "rising numbers")),
        ("1 2:nan", (people.svm, "row 50, column 1")),
    ):
        lines[50] = line
        people.write(people.svm, lines)
        result = people.run(people.svm, *options, target=None, groups=6)
        people.fails(result, *place)


def test_missing_values_are_listed_and_dropped(people):
    frame = people.frame.astype(object)
    for row, column in enumerate(["height", "height", "job", "sex", "hired"]):
        frame.loc[row, column] = "?"
    path = people.save(frame, "gaps.csv")
    listed = ("hired (1)", "sex (1)", "height (2)", "job (1)", "--missing drop")
    people.fails(people.run(path), f"{path}:2", *listed)
    empty = people.save(people.frame.assign(weight="?"), "empty.csv")
    people.fails(people.run(empty, "--missing", "drop"), "weight (240)", "--drop")
    result = people.run(empty, "--missing", "impute")
    assert result.exit_code == 1
    assert "--drop 'weight'" in result.stderr
    assert "note" not in result.stderr
    # Rows without a group are dropped first; messages have the lines of the file.
    drop = ("--missing-groups", "drop")
    result = people.run(path, *drop, "--drop", "height", "--drop", "job")
    assert f"first at {path}:6: column 5 (hired)" in result.stderr
    frame.loc[10, "weight"] = "inf"
    result = people.run(people.save(frame, "infinite.csv"), *drop)
    assert "infinite.csv:12: column 3 (weight) is infinite" in result.stderr
    message = "4 of 239 rows were left out"
    _, report = done(people, path, *drop, "--missing", "drop", message=message)
    assert report["input"]["train"]["n_rows"] == 235
    _, report = done(people, path, "--missing", "drop", message="5 of 240 rows")
    assert report["input"]["train"]["n_rows"] == 235
    message = "2 of 240 rows were left out and features were filled in"
    _, report = done(people, path, "--missing", "impute", message=message)
    assert report["input"]["train"]["groups"] == {
        sex: int((people.sex[[*range(3), *range(5, 240)]] == sex).sum()) for sex in "fm"
    }


def test_labels_are_two_whole_numbers_or_words(people):
    for values, fragments in (
        (["no", "perhaps", "yes"] * 80, "3 different labels ('no', 'perhaps', 'yes')"),
        (["yes"] * 240, "1 different labels ('yes')"),
        ([0, 1.5] * 120, "(0.0, 1.5)"),
        (range(240), "240 different labels (0, 1, 2"),
    ):
        path = people.write("wrong.txt", values)
        result = people.run(people.npy, target=path, groups=people.sexes)
        people.fails(result, f"{path}: ", fragments)


def test_tests_that_do_not_fit(people):
    for column, value, message in (
        ("hired", "perhaps", "the label 'perhaps' does not occur in TRAIN"),
        ("sex", "x", "the group 'x' does not occur in TRAIN (known: 'f', 'm')"),
    ):
        path = people.edited(3, column, value)
        people.fails(people.run(people.csv, "--test", path), path, message)
    path = people.save(people.frame, "plain.csv", header=False)
    more = ("--test-target", "5", "--test-groups", "4")
    result = people.run(people.csv, "--test", path, *more)
    people.fails(result, path, "lacks 3", "header")
    result = people.run(people.csv, "--test", people.npy, *more)
    people.fails(result, people.npy, "format")
    narrow = people.folder / "narrow.npy"
    np.save(narrow, people.X[:, :2])
    more = ("--test-target", people.targets, "--test-groups", people.sexes)
    result = people.run(people.npy, "--test", narrow, *more, **people.files)
    people.fails(result, narrow, "lacks 3 of the 5")


CALIBRATED = ("--method", "calibrated")


@pytest.mark.parametrize(
    ("estimator", "target"), [("logistic", "scores"), ("boosting", "labels")]
)
def test_the_calibrated_classifier_is_the_estimators(people, estimator, target):
    train, test = split(people)
    options = {"estimator": estimator, "calibrate-to": target, "cv": 4}
    arguments = [x for k, v in options.items() for x in (f"--{k}", v)]
    more = ("--random-state", 5, "--test", test)
    saved, report = done(people, train, *CALIBRATED, *arguments, *more)
    plain = {
        "logistic": make_pipeline(StandardScaler(), LogisticRegression()),
        "boosting": HistGradientBoostingClassifier(
            early_stopping=False, random_state=5
        ),
    }[estimator]
    folds = StratifiedKFold(4, shuffle=True, random_state=5)
    model = FairCalibratedClassifier(plain, (0.1, 0.6), 0.2, target=target, cv=folds)
    X, y, sex = people.X[:160], people.y[:160], people.sex[:160]
    model.fit(X, y, sensitive_features=sex)
    # Columns of numbers come first in the encoded table, as in `people.X`.
    actual, expected = (
        by.decision_function(people.X, sensitive_features=people.sex)
        for by in (saved["classifier"], model)
    )
    np.testing.assert_array_equal(actual, expected)
    for name in ("kappa", "partial_parity_gap", "null_gap", "roc_distance"):
        assert report[name] == getattr(model, f"{name}_")
    assert report["partial_parity_gap"] <= 0.2
    for name in ("kappas", "partial_parity_gaps"):
        np.testing.assert_array_equal(report[name], getattr(model, f"{name}_"))
    for name, rows in (("train", slice(0, 160)), ("test", slice(160, None))):
        accuracy = model.estimator_.score(people.X[rows], people.y[rows])
        assert report["baseline"][name]["accuracy"] == pytest.approx(accuracy)
        assert report[name]["null_gap"] == model.null_gap(len(people.sex[rows]))
    chosen = {"method": "calibrated", "interval": [0.1, 0.6], "kappa": 0.2, "cv": 4}
    chosen |= {"estimator": estimator, "calibrate_to": target, "random_state": 5}
    chosen |= {"given": None, "attributes": "joint"}
    assert report["parameters"] == {**chosen, "standardize": False}


@pytest.mark.parametrize("method", ["linear", "calibrated"])
@pytest.mark.parametrize("condition", [None, "label"])
def test_pairs_of_groups(people, method, condition):
    """Of more than two groups, the largest gaps first, on the page as well."""
    train, test = split(people)
    options = ["--method", method, "--kappa", 0.5, "--test", test]
    options += ["--given", condition] * (condition is not None)
    saved, report = done(people, train, *options, groups="job")
    model, pairs = saved["classifier"], report["pairs"]
    assert sorted((x["group"], x["other"]) for x in pairs) == [*combinations(JOBS, 2)]
    assert [x["gap"] for x in pairs] == sorted((x["gap"] for x in pairs), reverse=True)
    jobs, labels = people.frame["job"].to_numpy(), people.y
    X = saved["encoder"].transform(people.frame[saved["columns"]])
    scores = model.decision_function(X, sensitive_features=jobs)
    for record in pairs:
        names = [record["group"], record["other"]]
        i, j = (JOBS.index(name) for name in names)
        gaps = []
        for rows in (slice(0, 160), slice(160, None)):
            is_pair = np.isin(jobs[rows], names)
            compared = {"sensitive_features": jobs[rows][is_pair], "given": condition}
            compared |= {"y_true": labels[rows][is_pair], "interval": (0.1, 0.6)}
            gaps.append(partial_parity_gap(scores[rows][is_pair], **compared))
        assert record["test_gap"] == gaps[1]
        if method == "calibrated":
            assert record["gap"] == model.partial_parity_gaps_[i, j]
            assert record["gap"] <= record["bound"] == model.kappas_[i, j]
            assert record["null_gap"] == model.null_gap(80, names)
        else:
            kinds = ["no", "yes"] if condition else [labels[160:]]
            sizes = [
                [((jobs[160:] == x) & (labels[160:] == kind)).sum() for x in names]
                for kind in kinds
            ]
            assert record["gap"] == gaps[0]
            assert record["null_gap"] == null_parity_gap(sizes, interval=(0.1, 0.6))
    # The first sentences: of new rows, beside what gives the numbers meaning.
    test, plain = report["test"], report["baseline"]["test"]
    errors = [
        (1 - x["accuracy"], 1 - y["accuracy"], x["group"])
        for x, y in zip(test["groups"], plain["groups"], strict=True)
    ]
    new, old, worst = max(errors, key=lambda error: error[0] - error[1])
    for fragment in (
        f"difference of {test['partial_parity_gap']:.3f} on rows that were not fitted, "
        f"{report['train']['partial_parity_gap']:.3f} on those that were",
        f"would show about {test['null_gap']:.3f} by chance. Cost: the accuracy is "
        f"{test['accuracy']:.1%}; without fairness it is {plain['accuracy']:.1%}, and "
        f"the shares differ by {plain['partial_parity_gap']:.3f}. The error of {worst} "
        f"grows most, from {old:.1%} to {new:.1%}. Not promised: equal errors",
    ):
        assert fragment in report["summary"]
    assert ("had not seen them" in report["summary"]) == (method == "calibrated")
    if condition is None:
        page = people.folder / "page.html"
        people.run(train, *options, "--report", page, groups="job")
        assert "Pairs of groups with the largest gaps" in page.read_text()


def test_pairs_of_many_groups_of_two_and_of_attributes(people, real_fit):
    towns = people.frame.assign(town=[f"t{i % 8}" for i in range(240)])
    data = people.save(towns, "towns.csv")
    loose = ("--kappa", 0.9, "--min-group-size", 1, "--no-baseline")
    weak = (*loose, "--criterion", "weak")
    pairs = people.done(data, *weak, groups="town")["pairs"]
    assert len(pairs) == 20  # of 28
    assert not {"bound", "null_gap", "test_gap", "attribute"} & set(pairs[0])
    assert "pairs" not in people.done(data, *loose)
    each = ("--attributes", "each", *loose)
    pairs = people.done(data, *each, groups="sex,job")["pairs"]
    assert [pair["attribute"] for pair in pairs] == ["job"] * 3


def test_sparse_rows_are_calibrated_but_not_boosted(people):
    people.done(people.npz, *CALIBRATED, **people.files)
    boosting = (*CALIBRATED, "--estimator", "boosting")
    towns = people.frame.assign(town=[f"t{i % 20}" for i in range(240)])
    saved, _ = done(people, people.save(towns, "towns.csv"), *boosting)
    X = saved["encoder"].transform(towns[saved["columns"]])
    assert isinstance(X, np.ndarray)  # of many words, too
    assert X.shape == (240, 25)
    people.output.write_bytes(OLD)
    people.report.unlink()
    result = people.run(people.npz, *boosting, **people.files)
    people.fails(result, people.npz, "is sparse", "--estimator logistic")


def test_rows_to_calibrate_are_in_memory_and_others_in_blocks(people):
    result = people.run(None, *CALIBRATED, "--memory-limit", "2kB")
    people.fails(result, people.csv, "--memory-limit", "--method linear")
    twice = people.save(pandas.concat([people.frame] * 4), "twice.csv")
    limit = ("--memory-limit", f"{3 * people.csv.stat().st_size}B")
    _, report = done(people, None, *CALIBRATED, "--test", twice, *limit)
    assert report["input"]["test"]["read"] == "in blocks"
    assert "read" not in report["input"]["train"]
    for run in (report, report["baseline"]):
        for name in ("accuracy", "partial_parity_gap"):
            assert run["test"][name] == pytest.approx(run["train"][name])


def test_kappa_below_what_one_row_makes_is_noted(people):
    message = "note: --kappa 0: rows of the smallest groups make a gap of 0.0"
    _, report = done(people, None, *CALIBRATED, "--kappa", 0, message=message)
    sizes = np.unique(people.sex, return_counts=True)[1]
    assert report["kappa"] == pytest.approx(np.mean(2 / sizes))
    assert report["partial_parity_gap"] <= report["kappa"]


@pytest.mark.realdata
def test_adult_as_it_comes(people, real_fit, data_folder):
    path = data_folder / "census-adult" / "adult.csv.gz"
    roles = {"target": "income", "groups": "sex"}
    result = people.run(path, **roles)
    assert result.exit_code == 1
    assert "workclass (1,836), occupation (1,843), native-country" in result.stderr
    notes = {"drop": "2,399 of 32,561", "impute": "features were filled"}
    for missing, message in notes.items():
        saved, report = done(
            people, path, "--missing", missing, message=message, **roles
        )
        assert report["train"]["accuracy"] == pytest.approx(0.84, abs=0.01)
    frame = pandas.read_csv(path, na_values=" ?", **FLOAT_OPTIONS)
    X = saved["encoder"].transform(frame[saved["columns"]])
    predicted = saved["classifier"].predict(X, sensitive_features=frame["sex"].str[1:])
    accuracy = np.mean(predicted == frame["income"].str[1:])
    assert accuracy == pytest.approx(report["train"]["accuracy"])
