"""What `scalefair classify` computes and writes."""

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import joblib
import numpy as np
import pytest
from click.testing import CliRunner
from scipy import sparse
from sklearn.datasets import dump_svmlight_file
from sklearn.linear_model import LogisticRegression

from scalefair.cli import main
from scalefair.cli._classify_summary import group_rows, summary_rows
from scalefair.linear_model import PartiallyFairClassifier
from scalefair.metrics import (
    partial_demographic_parity_gap,
    weak_partial_demographic_parity_gap,
)

COLUMNS = ["height", "job", "weight", "sex", "hired"]


class People:
    """Rows of two groups in all formats, and runs of ``classify`` on them."""

    def __init__(self, folder, m=240):
        self.folder = folder
        self.output = folder / "model.joblib"
        self.report = folder / "report.json"
        rng = np.random.default_rng(0)
        self.sex = np.where(rng.random(m) < 0.4, "f", "m")
        self.job = rng.choice(["clerk", "cook", "nurse"], m)
        self.job[:3] = "cook", "nurse", "clerk"  # neither in order nor reversed
        self.numbers = (
            rng.normal(size=(m, 2)).round(3) + 0.5 * (self.sex == "m")[:, None]
        )
        score = self.numbers.sum(axis=1) + (self.job == "cook") + rng.normal(size=m)
        self.hired = np.where(score > 0.7, "yes", "no")
        lines = [
            f"{a!r},{job},{b!r},{sex},{label}"
            for (a, b), job, sex, label in zip(
                self.numbers.tolist(), self.job, self.sex, self.hired, strict=True
            )
        ]
        self.lines = [",".join(COLUMNS), *lines]
        self.csv = self.write("people.csv", self.lines)
        self.X = np.column_stack(
            [self.numbers, *(self.job == job for job in ("clerk", "cook", "nurse"))]
        ).astype(float)
        self.npy = folder / "people.npy"
        np.save(self.npy, self.X)
        self.npz = folder / "people.npz"
        sparse.save_npz(self.npz, sparse.csr_array(self.X))
        self.sexes = self.write("sexes.txt", self.sex)
        self.labels = self.write("labels.txt", self.hired)

    def write(self, name, lines):
        path = self.folder / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    def invoke(self, *arguments):
        return CliRunner().invoke(main, [str(a) for a in arguments])

    def classify(self, data=None, *options, target="hired", groups="sex"):
        arguments = ["classify", data or self.csv, "--groups", groups]
        arguments += [] if target is None else ["--target", target]
        arguments += ["--interval", "0.1,0.6", "--kappa", "0.2", "-o", self.output]
        return self.invoke(*arguments, *options)

    def done(self, *arguments, **options):
        """Run, and return what is in the model file."""
        result = self.classify(*arguments, **options)
        assert (result.exit_code, result.output) == (0, ""), result.output
        return joblib.load(self.output)

    def read_report(self):
        def refuse(constant):
            raise AssertionError(f"{constant} is not strict JSON")

        return json.loads(self.report.read_text(), parse_constant=refuse)


@pytest.fixture
def people(tmp_path):
    return People(tmp_path)


REAL_FIT = PartiallyFairClassifier.fit


def fit_quickly(model, X, y, *, sensitive_features):
    """Weights of an unconstrained model: what is fitted is for others to test."""
    rows = model._check_training(X, y, sensitive_features)
    plain = LogisticRegression().fit(rows.X, rows.signs)
    weights = np.zeros((len(rows.groups) if model.interactions else 1, X.shape[1] + 1))
    weights[0] = [*plain.coef_[0], *plain.intercept_]
    weights[1:] = 0.1
    model._store_weights(weights)
    model.kkt_residual_, model.objective_, model.infeasibility_ = 1e-4, 0.5, 0.0
    model.n_iter_, model.n_oracle_calls_, model.converged_ = 1, 2, True
    model.history_ = [{"objective": 0.5, "kkt_residual": float("nan")}]
    return model


@pytest.fixture(autouse=True)
def fits(monkeypatch):
    """What the estimator is fitted to, and its parameters."""
    seen = []

    def remember(model, X, y, **kwargs):
        seen.append((X, y, kwargs["sensitive_features"], model.get_params()))
        return fit_quickly(model, X, y, **kwargs)

    monkeypatch.setattr(PartiallyFairClassifier, "fit", remember)
    return seen


@pytest.fixture
def real_fit(fits, monkeypatch):
    monkeypatch.setattr(PartiallyFairClassifier, "fit", REAL_FIT)


def zipped(people):
    path = people.folder / "zipped.csv.gz"
    path.write_bytes(gzip.compress(people.csv.read_bytes()))
    return path, "hired", "sex"


def without_header(people):
    lines = [line.replace(",", "\t") for line in people.lines[1:]]
    return people.write("plain.tsv", lines), "5", "4"


def quoted(people):
    lines = ['"' + line.replace(",", '", "') + '"' for line in people.lines]
    return people.write("quoted.csv", lines), "hired", "sex"


def with_files(people):
    lines = [",".join(line.split(",")[:3]) for line in people.lines]
    return people.write("features.csv", lines), people.labels, people.sexes


def parquet(people):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    path = people.folder / "people.parquet"
    pandas.read_csv(people.csv).to_parquet(path)
    return path, "hired", "sex"


def array_files(people):
    labels, sexes = people.folder / "labels.npy", people.folder / "sexes.npy"
    np.save(labels, people.hired)
    np.save(sexes, people.sex)
    return people.npy, labels, sexes


FORMATS = {
    "csv": lambda p: (p.csv, "hired", "sex"),
    "csv.gz": zipped,
    "no header": without_header,
    "quoted": quoted,
    "files": with_files,
    "parquet": parquet,
    "npy": lambda p: (p.npy, p.labels, p.sexes),
    "npy files": array_files,
    "npz": lambda p: (p.npz, p.labels, p.sexes),
}


@pytest.mark.parametrize("source", FORMATS)
def test_silent_and_right(people, fits, source):
    data, target, groups = FORMATS[source](people)
    saved = people.done(data, target=target, groups=groups)
    [(X, y, sex, _)] = fits
    np.testing.assert_array_equal(X.toarray() if sparse.issparse(X) else X, people.X)
    np.testing.assert_array_equal(y, people.hired)
    np.testing.assert_array_equal(sex, people.sex)
    model = saved["classifier"]
    assert isinstance(model, PartiallyFairClassifier)
    assert saved["classes"].tolist() == ["no", "yes"]
    assert saved["groups"].tolist() == ["f", "m"]
    jobs = ["clerk", "cook", "nurse"]
    if source in ("npy", "npy files", "npz"):
        assert saved["columns"] == saved["feature_names"] == [f"x{i}" for i in range(5)]
        assert saved["positions"] == list(range(5))
    elif source == "no header":
        assert saved["columns"] == ["1", "3", "2"]
        assert saved["feature_names"] == ["1", "3", *(f"2={job}" for job in jobs)]
        assert saved["positions"] == [0, 2, 1]
    else:
        assert saved["columns"] == ["height", "weight", "job"]
        names = ["height", "weight", *(f"job={job}" for job in jobs)]
        assert saved["feature_names"] == names


@pytest.mark.parametrize("standardize", [(), ("--standardize",)])
@pytest.mark.parametrize("options", [(), ("--drop", "job"), ("--drop", "height")])
def test_the_model_can_be_used(people, standardize, options):
    saved = people.done(people.csv, *options, *standardize, "--report", people.report)
    table = np.array([line.split(",") for line in people.lines[1:]], dtype=object)
    positions = [COLUMNS.index(name) for name in saved["columns"]]
    assert positions == saved["positions"]
    X = saved["encoder"].transform(table[:, positions])
    model = saved["classifier"]
    assert X.shape[1] == len(saved["feature_names"]) == model.coef_.shape[1]
    accuracy = model.score(X, people.hired, sensitive_features=people.sex)
    assert accuracy == pytest.approx(people.read_report()["train"]["accuracy"])
    dense = X.toarray() if sparse.issparse(X) else X
    np.testing.assert_allclose(dense, reference_features(people, saved, standardize))
    # A word that did not occur is none of the categories.
    if "job" in saved["columns"]:
        row = table[:1, positions]
        row[0, saved["columns"].index("job")] = "pilot"
        coded = sparse.csr_array(saved["encoder"].transform(row)).toarray()
        assert coded[0, -3:].tolist() == [0, 0, 0]


def reference_features(people, saved, standardize):
    numbers = people.numbers
    if standardize:
        numbers = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    columns = {"height": numbers[:, 0], "weight": numbers[:, 1]}
    for job in ("clerk", "cook", "nurse"):
        columns[f"job={job}"] = people.job == job
    return np.column_stack([columns[name] for name in saved["feature_names"]])


@pytest.mark.parametrize("standardize", [(), ("--standardize",)])
@pytest.mark.parametrize("name", ["npy", "npz"])
def test_models_of_arrays_can_be_used(people, name, standardize, fits):
    data = getattr(people, name)
    saved = people.done(data, *standardize, target=people.labels, groups=people.sexes)
    X = np.load(data) if name == "npy" else sparse.load_npz(data)
    coded = saved["encoder"].transform(X[:, saved["positions"]])
    seen = fits[0][0]
    assert sparse.issparse(seen) == sparse.issparse(coded) == (name == "npz")
    difference = abs(seen - coded)
    assert difference.max() < 1e-12
    if standardize:
        X = seen.toarray() if name == "npz" else seen
        np.testing.assert_allclose(X.std(axis=0), 1)


@pytest.mark.parametrize("zero_based", [False, True])
def test_svmlight(people, fits, zero_based):
    X = np.column_stack([people.X, people.sex == "f"]).astype(float)
    X[0, :-1] = 0.5  # a first feature that occurs
    y = np.where(people.hired == "yes", 1, -1)
    path = people.folder / "people.svm"
    dump_svmlight_file(X, y, str(path), zero_based=zero_based)
    number = 5 if zero_based else 6
    saved = people.done(path, "--drop", number - 1, target=None, groups=number)
    [(seen, labels, groups, _)] = fits
    assert sparse.issparse(seen)
    np.testing.assert_allclose(seen.toarray(), X[:, :4], atol=1e-9)
    np.testing.assert_array_equal(labels, y)
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(groups, X[:, 5])
    assert saved["columns"] == [str(j) for j in range(number - 5, number - 1)]
    assert saved["positions"] == [0, 1, 2, 3]
    coded = saved["encoder"].transform(sparse.csr_array(X)[:, saved["positions"]])
    model = saved["classifier"]
    model.predict(coded, sensitive_features=groups)
    people.done(path, "--keep-groups", target=None, groups=number)
    assert fits[1][0].shape == (240, 6)


def test_svmlight_by_any_name_and_groups_in_a_file(people, fits):
    path = people.folder / "people.gz"
    lines = ["+1 1:0.5 3:2 # a comment", "-1 2:1 3:1", "+1 1:1", "-1 2:2"] * 10
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    groups = people.write("groups.txt", ["a", "a", "b", "b"] * 10)
    people.done(path, "--svmlight", target=None, groups=groups)
    [(X, y, seen, _)] = fits
    np.testing.assert_array_equal(
        X.toarray()[:4], [[0.5, 0, 2], [0, 1, 1], [1, 0, 0], [0, 2, 0]]
    )
    assert y[:4].tolist() == [1, -1, 1, -1]
    assert seen[:4].tolist() == ["a", "a", "b", "b"]


def test_sparse_words(people, fits):
    jobs = np.array([f"job{i % 40:02d}" for i in range(240)])
    lines = ["job,sex,hired"]
    lines += map(",".join, zip(jobs, people.sex, people.hired, strict=True))
    people.done(people.write("jobs.csv", lines))
    X = fits[0][0]
    assert sparse.issparse(X)
    np.testing.assert_array_equal(X.toarray(), jobs[:, None] == np.unique(jobs))


def test_columns(people, fits):
    lines = ["id,code,height,sex,note,hired"]
    lines += [
        f"p{i},{i % 3 + 9},{line.split(',')[0]},{line.split(',')[3]},-,{line[-1]}"
        for i, line in enumerate(people.lines[1:])
    ]
    data = people.write("codes.csv", lines)
    saved = people.done(data, "--drop", "note", "--categorical", "code")
    assert saved["feature_names"] == ["height", "code=9", "code=10", "code=11"]
    np.testing.assert_array_equal(fits[0][0].argmax(axis=1)[:3] > -1, True)
    coded = saved["encoder"].transform(np.array([[0.5, 10], [0.5, 12]], dtype=object))
    np.testing.assert_array_equal(
        coded.toarray() if sparse.issparse(coded) else coded,
        [[0.5, 0, 1, 0], [0.5, 0, 0, 0]],
    )
    saved = people.done(data, "--drop", "note", "--keep-groups", "--drop", "code")
    assert saved["feature_names"] == ["height", "sex=f", "sex=m"]
    # Files may name the rows by their ids, in any order.
    pairs = [f"p{i},{label}" for i, label in enumerate(people.hired)]
    labels = people.write("pairs.csv", ["stranger,no", *reversed(pairs)])
    options = ("--drop", "note", "--drop", "hired")
    result = people.classify(data, *options, target=labels)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == (
        f"note: {labels}: 1 id(s) are not in {data} and were ignored.\n"
    )
    np.testing.assert_array_equal(fits[-1][1], people.hired)


def test_words_that_come_late_and_missing_numbers_first(people, fits):
    # A column is one of words if one occurs in the first rows; `?` is one there.
    lines = ["code,sex,y", "?,f,0", "7,f,1", "x,m,0", "7,m,1"] + ["7,m,1"] * 10
    saved = people.done(people.write("late.csv", lines), target="y")
    assert saved["feature_names"] == ["code=7", "code=?", "code=x"]
    assert fits[0][1].dtype == np.int64


@pytest.mark.parametrize(
    ("labels", "classes"),
    [(("0", "1"), [0, 1]), (("0.0", "1.0"), [0.0, 1.0]), (("10", "1x"), ["10", "1x"])],
)
def test_kinds_of_labels(people, labels, classes):
    low, high = labels
    lines = [
        line.replace(",no", f",{low}").replace(",yes", f",{high}")
        for line in people.lines
    ]
    saved = people.done(people.write("kinds.csv", lines))
    assert saved["classes"].tolist() == classes


def test_memory_of_tables_is_bounded(people, fits, monkeypatch):
    from scalefair.cli import _feature_store

    people.done()
    monkeypatch.setattr(_feature_store, "_LIMIT", 1000)
    before = set(people.folder.iterdir())
    people.done()
    np.testing.assert_array_equal(fits[0][0], fits[1][0])
    assert set(people.folder.iterdir()) == before


def split(people, n=160):
    train = people.write("train.csv", people.lines[: n + 1])
    test = people.write("test.csv", [people.lines[0], *people.lines[n + 1 :]])
    return train, test


@pytest.mark.parametrize("criterion", ["strong", "weak"])
def test_report(people, criterion):
    train, test = split(people)
    options = ("--report", people.report, "--criterion", criterion, "--test", test)
    options += ("--alpha", "0.001", "--threshold", "0.1")
    saved = people.done(train, *options)
    report, model = people.read_report(), saved["classifier"]
    assert report["command"] == "classify"
    parameters = model.get_params()
    for name in ("warm_start", "random_state"):
        parameters.pop(name)
    expected = {**parameters, "interval": [0.1, 0.6], "standardize": False}
    assert report["parameters"] == expected
    read = report["input"]
    assert read["n_features"] == 5
    parts = {"train": slice(0, 160), "test": slice(160, None)}
    for name, rows in parts.items():
        sex, hired, X = people.sex[rows], people.hired[rows], people.X[rows]
        path = {"train": train, "test": test}[name]
        assert read[name] == {
            "rows": str(path),
            "labels_from": f"column hired of {path}",
            "groups_from": f"column sex of {path}",
            "n_rows": len(sex),
            "labels": {k: int((hired == k).sum()) for k in ("no", "yes")},
            "groups": {k: int((sex == k).sum()) for k in ("f", "m")},
        }
        scores = model.decision_function(X, sensitive_features=sex)
        given = {"sensitive_features": sex, "interval": (0.1, 0.6)}
        found = report[name]
        assert found["accuracy"] == pytest.approx(
            model.score(X, hired, sensitive_features=sex)
        )
        assert found["partial_parity_gap"] == pytest.approx(
            partial_demographic_parity_gap(scores, **given)
        )
        assert found["weak_partial_parity_gap"] == pytest.approx(
            weak_partial_demographic_parity_gap(scores, threshold=0.1, **given)
        )
        for entry, group in zip(found["groups"], ("f", "m"), strict=True):
            of = sex == group
            assert entry == {
                "group": group,
                "n_rows": int(of.sum()),
                "positive_rate": pytest.approx((hired[of] == "yes").mean()),
                "selection_rate": pytest.approx((scores[of] > 0).mean()),
                "accuracy": pytest.approx(
                    ((scores[of] > 0) == (hired[of] == "yes")).mean()
                ),
            }
    assert report["positive_label"] == "yes"
    assert report["converged"] is True
    assert report["kkt_residual"] == pytest.approx(model.kkt_residual_)
    assert report["n_oracle_calls"] == model.n_oracle_calls_
    assert len(report["history"]) == len(model.history_)
    assert set(report["seconds"]) == {"read", "fit"}
    assert report["peak_memory_bytes"] > 10_000_000


def test_without_a_test_there_are_no_measures_of_it(people):
    people.done(people.csv, "--report", people.report)
    assert "test" not in people.read_report()
    assert list(people.read_report()["input"]) == ["n_features", "train"]


def test_test_columns_are_found_by_name(people, fits):
    train, test = split(people)
    people.done(train, "--test", test, "--report", people.report)
    first = people.read_report()["test"]
    rows = [line.split(",") for line in test.read_text().splitlines()]
    shuffled = [",".join([r[4], "0", r[2], r[1], r[3], r[0]]) for r in rows]
    shuffled[0] = shuffled[0].replace(",0,", ",new,")
    other = people.write("other.csv", shuffled)
    people.done(train, "--test", other, "--report", people.report)
    assert people.read_report()["test"] == first


def test_unknown_words_in_the_test_are_noted(people):
    train, test = split(people)
    text = test.read_text()
    n = text.count("cook")
    test.write_text(text.replace("cook", "pilot"))
    result = people.classify(train, "--test", test, "--report", people.report)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == (
        f"note: {test}: column job: {n} row(s) have a value that does not occur in "
        "TRAIN, such as 'pilot'; it counts as none of the categories.\n"
    )
    saved = joblib.load(people.output)
    X = people.X[160:].copy()
    X[:, 3] = 0
    accuracy = saved["classifier"].score(
        X, people.hired[160:], sensitive_features=people.sex[160:]
    )
    assert people.read_report()["test"]["accuracy"] == pytest.approx(accuracy)


def test_test_of_arrays_has_files(people):
    parts = {"train": slice(0, 160), "test": slice(160, None)}
    files = {}
    for name, rows in parts.items():
        path = people.folder / f"{name}.npy"
        np.save(path, people.X[rows])
        files[name] = (
            path,
            people.write(f"{name}_y.txt", people.hired[rows]),
            people.write(f"{name}_g.txt", people.sex[rows]),
        )
    data, target, groups = files["train"]
    test, test_target, test_groups = files["test"]
    options = ("--test", test, "--test-target", test_target)
    people.done(
        data,
        *options,
        *("--test-groups", test_groups, "--report", people.report),
        target=target,
        groups=groups,
    )
    by_file = people.read_report()["test"]
    train_csv, test_csv = split(people)
    people.done(train_csv, "--test", test_csv, "--report", people.report)
    assert people.read_report()["test"] == by_file


def test_test_of_svmlight_may_have_other_features(people):
    train = ["+1 1:1 3:1", "-1 2:1 3:1", "+1 1:1", "-1 2:1"] * 10
    train = people.write("train.svm", train)
    test = people.write("test.svm", ["+1 1:1 3:1 7:1", "-1 2:1", "-1 2:1 3:1"])
    result = people.classify(
        train, "--test", test, "--report", people.report, target=None, groups=3
    )
    assert result.exit_code == 0
    assert result.stderr == (
        f"note: {test}: 1 value(s) belong to features that do not occur in TRAIN and "
        "were ignored.\n"
    )
    found = people.read_report()
    assert found["test"]["accuracy"] == 1
    assert found["input"]["n_features"] == 2
    few = people.write("few.svm", ["+1 1:1", "-1 2:1", "+1 3:1"])
    people.classify(
        train, "--test", few, "--report", people.report, target=None, groups=3
    )
    assert people.read_report()["input"]["test"]["groups"] == {"0": 2, "1": 1}


def test_no_interactions(people):
    saved = people.done(people.csv, "--no-interactions")
    assert saved["classifier"].coef_.shape == (1, 5)
    accuracy = saved["classifier"].score(people.X, people.hired)
    people.done(people.csv, "--no-interactions", "--report", people.report)
    assert people.read_report()["train"]["accuracy"] == pytest.approx(accuracy)


def test_fair_classifier(people, real_fit):
    options = ("--no-interactions", "--tol", 0.01, "--report", people.report)
    found = people.done(people.csv, *options)["classifier"]
    expected = PartiallyFairClassifier((0.1, 0.6), 0.2, interactions=False, tol=0.01)
    expected.fit(people.X, people.hired, sensitive_features=people.sex)
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    np.testing.assert_array_equal(found.intercept_, expected.intercept_)
    report = people.read_report()
    assert report["kkt_residual"] == expected.kkt_residual_
    gap = report["train"]["partial_parity_gap"]
    assert gap == pytest.approx(expected.partial_parity_gap_)


def test_no_convergence_is_exit_code_3(people, real_fit):
    options = ("--max-iter", 1, "--start", "zero", "--tol", 1e-9)
    result = people.classify(people.csv, *options, "--report", people.report)
    assert result.exit_code == 3, result.output
    assert result.stdout == ""
    line, *others = result.stderr.splitlines()
    assert others == []
    assert line.startswith("warning: ")
    assert "--tol 1e-09" in line
    assert "max_iter" not in line
    assert people.read_report()["converged"] is False
    assert joblib.load(people.output)["classifier"].n_iter_ == 1


def test_groups_of_few_rows_are_warned_of(people, real_fit):
    groups = people.sex.astype("U3")
    groups[:5] = "few"
    path = people.folder / "groups.npy"
    np.save(path, groups)
    result = people.classify(people.csv, groups=path)
    assert result.exit_code == 0, result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("warning: Gaps of groups of fewer than 30 rows")
    assert "'few' (5)." in line


def test_every_option_of_the_estimator_arrives(people, monkeypatch):
    seen = []

    def remember(model, *args, **kwargs):
        seen.append(model.get_params())
        raise ValueError("enough")

    monkeypatch.setattr(PartiallyFairClassifier, "fit", remember)
    options = "--criterion weak --threshold -0.5 --loss hinge --surrogate sigmoid"
    options += " --no-interactions --n-thresholds 25 --alpha 0.01 --solver ssg"
    options += " --start zero --no-tune-intercept --tol 1e-2 --max-iter 50"
    options += " --max-groups 7 --min-group-size 3"
    people.classify(people.csv, *options.split())
    assert seen == [
        {
            "interval": (0.1, 0.6),
            "kappa": 0.2,
            "criterion": "weak",
            "threshold": -0.5,
            "loss": "hinge",
            "surrogate": "sigmoid",
            "interactions": False,
            "n_thresholds": 25,
            "alpha": 0.01,
            "inner_solver": "ssg",
            "start": "zero",
            "tune_intercept": False,
            "tol": 0.01,
            "max_iter": 50,
            "warm_start": False,
            "random_state": None,
            "max_groups": 7,
            "min_group_size": 3,
        }
    ]


def test_options_are_those_of_the_estimator():
    options = {param.name: param for param in main.commands["classify"].params}
    defaults = PartiallyFairClassifier().get_params()
    # Nothing is random, and a command fits once.
    assert set(defaults) - set(options) == {"random_state", "warm_start"}
    for name in set(defaults) & set(options):
        option = options[name]
        default = option.type.convert(option.default, option, None)
        assert default == defaults[name], name
        if isinstance(option.type, click.Choice):
            constraint = PartiallyFairClassifier._parameter_constraints[name][0]
            assert set(option.type.choices) == set(constraint.options)


def test_help(people):
    text = people.invoke("classify", "--help").output
    words = " ".join(text.split())
    for phrase in (
        "[default: 0,1]",
        "[default: 0.05; 0<x<=1]",
        "[default: strong]",
        'model["encoder"].transform(array)',
        '"scalefair[data]"',
        "3 not converged",
        "130 interrupted",
    ):
        assert phrase in words, phrase
    sections = re.findall(r"^(\w[\w ]*):$", text, flags=re.MULTILINE)
    assert sections == [
        *("Required", "Fairness", "Training", "Columns", "Test", "Files"),
        "Other options",
    ]
    listed = re.findall(r"^  (?:-\w, )?--([\w-]+)", text, flags=re.MULTILINE)
    for param in main.commands["classify"].params:
        if isinstance(param, click.Option):
            assert listed.count(param.opts[-1].removeprefix("--")) == 1


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from scalefair.cli import main\n"
        "try: main(['classify', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'numba', 'rich', 'pandas'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_summary_on_a_terminal(people, monkeypatch):
    monkeypatch.setattr("scalefair.cli._classify.on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    result = people.classify(people.csv, "--test", people.csv)
    assert (result.exit_code, result.stderr) == (0, "")
    for word in ("partial parity gap", "(test)", "KKT residual", "│ f ", "selected"):
        assert word in result.stdout
    assert str(people.output) in result.stdout
    people.done(people.csv, "--quiet")  # which checks that nothing is shown


def test_summary_says_what_is_known():
    groups = [
        {"group": f"g{i}", "n_rows": 1000 + i, "positive_rate": 0.5, "accuracy": 0.75}
        | {"selection_rate": 0.25}
        for i in range(23)
    ]
    measures = {"accuracy": 0.81234, "partial_parity_gap": 0.1}
    measures["weak_partial_parity_gap"] = 0.05
    report = {
        "input": {"n_features": 1234},
        "positive_label": "yes",
        "parameters": {"tol": 1e-4},
        "kkt_residual": 1.00171e-4,
        "n_oracle_calls": 1500,
        "n_iter": 7,
        "seconds": {"read": 2.04, "fit": 1.0},
        "train": {**measures, "groups": groups},
    }
    titles, rows = group_rows(report)
    assert titles == ["group", "rows,\ntrain", "positive,\ntrain", "selected,\ntrain"]
    assert rows[0] == ["g0", "1,000", "50.0%", "25.0%"]
    assert rows[-1] == ["... 3 more", "", "", ""]
    report["test"] = {**measures, "groups": groups[:1]}
    titles, rows = group_rows(report)
    assert all(len(row) == len(titles) == 7 for row in rows)
    assert rows[1][4:] == ["0", "", ""]
    assert dict(summary_rows(report)) == {
        "features": "1,234",
        "positive label": "yes",
        "accuracy": "0.8123 (train), 0.8123 (test)",
        "partial parity gap": "0.1000 (train), 0.1000 (test)",
        "weak gap": "0.0500 (train), 0.0500 (test)",
        "KKT residual": "0.0001002",
        "oracle calls": "1,500 in 7 iterations",
        "time": "1.0 s, reading 2.0 s",
    }
    report["n_iter"] = 1
    assert dict(summary_rows(report))["oracle calls"] == "1,500 in 1 iteration"


@pytest.mark.realdata
def test_a9a(people, real_fit):
    folder = os.environ.get("SCALEFAIR_DATA")
    if not folder:
        pytest.skip("SCALEFAIR_DATA does not name the data folder")
    a9a = Path(folder) / "a9a"
    options = ("--svmlight", "--test", a9a / "a9a.t.gz", "--report", people.report)
    options += ("--interval", "0.05,0.30", "--kappa", "0.1")
    people.done(a9a / "a9a.gz", *options, target=None, groups=72)
    report = people.read_report()
    assert report["input"]["train"]["groups"] == {"0": 21790, "1": 10771}
    assert report["objective"] < 0.3535
    assert report["test"]["accuracy"] > 0.82
    assert report["test"]["partial_parity_gap"] < 0.2
