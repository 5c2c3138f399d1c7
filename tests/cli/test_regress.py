"""`scalefair regress`: what it computes, writes, says and refuses."""

import errno
import gzip
import pickle
import warnings

import joblib
import numpy as np
import pandas
import pytest
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.datasets import dump_svmlight_file
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from scalefair import postprocessing
from scalefair.metrics import statistical_parity_ks


def done(wages, *arguments, said="", **options):
    """Run, and return what is in the output."""
    result = wages.regress(*arguments, **options)
    assert (result.exit_code, result.stdout) == (0, ""), result.output
    assert said in result.stderr
    assert bool(said) == bool(result.stderr)
    return joblib.load(wages.output)


def agree(found, estimator, X, wages):
    """Check that the class makes the same of these rows."""
    model = postprocessing.ExplainableSVDRegressor(estimator, random_state=0)
    model.fit(X, wages.y, sensitive_features=wages.sex)
    # The solver is the same, and so are the rows but for their types.
    np.testing.assert_allclose(found.predict(X), model.predict(X), rtol=1e-9, atol=1e-9)


def parquet(wages):
    wages.frame.to_parquet(wages.folder / "wages.parquet")
    return wages.folder / "wages.parquet", "wage", "sex"


def with_files(wages):
    lines = [",".join(line.split(",")[:3]) for line in wages.lines]
    return wages.write("features.csv", lines), wages.targets, wages.sexes


def without_header(wages):
    lines = [line.replace(",", "\t") for line in wages.lines[1:]]
    return wages.write("plain.tsv", lines), "5", "4"


def packed(wages):
    path = wages.folder / "packed"
    path.write_bytes(gzip.compress(wages.csv.read_bytes()))
    return path, "wage", "sex"


TABLES = {"packed": packed, "files": with_files, "parquet": parquet}
FORMATS = TABLES | {
    "no header": without_header,
    "npy": lambda w: (w.npy, w.targets, w.sexes),
    "npz": lambda w: (w.npz, w.targets, w.sexes),
}


@pytest.mark.parametrize("source", FORMATS)
def test_columns_of_numbers_in_order(wages, source, plain_network):
    data, target, groups = FORMATS[source](wages)
    said = "" if data.suffix in (".npy", ".npz") else "columns of words were left out"
    model = done(wages, wages.plain, data, target=target, groups=groups, said=said)
    agree(model, plain_network, wages.X, wages)


@pytest.mark.parametrize("source", TABLES)
def test_columns_by_name(wages, source, named_network):
    data, target, groups = TABLES[source](wages)
    before = wages.named.read_bytes()
    model = done(wages, wages.named, data, target=target, groups=groups)
    agree(model, named_network, wages.frame[wages.names], wages)
    assert wages.named.read_bytes() == before


def test_words_true_and_false_are_truth_values(wages, train_network):
    lines = [f"{line},{i % 3 == 0}" for i, line in enumerate(wages.lines)]
    lines[0] = f"{wages.lines[0]},night"
    data = wages.write("night.csv", lines)
    frame = pandas.read_csv(data)
    assert frame["night"].dtype == bool
    encoder = make_column_transformer(
        (OneHotEncoder(), ["job", "night"]), remainder="passthrough"
    )
    frame = frame[["height", "night", "job"]]
    model = train_network(frame, wages.y, encoder)
    agree(done(wages, wages.save(model), data, "--test", data), model, frame, wages)


def test_words_are_spelled_as_the_model_knows_them(wages, train_network):
    """As pandas reads them unless told otherwise: with blanks, and ``?``."""
    lines = [line.replace(",", ", ") for line in wages.lines]
    lines[3] = lines[3].replace(wages.job[2], "?")
    data = wages.write("blanks.csv", lines)
    frame = pandas.read_csv(data).rename(columns=str.strip)[["job", "height"]]
    assert {" ?", " cook"} < set(frame["job"])
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    encoder = make_column_transformer((encoder, ["job"]), remainder="passthrough")
    model = train_network(frame, wages.y, encoder)
    agree(done(wages, wages.save(model), data), model, frame, wages)
    lines[5] = lines[5].replace(wages.job[4], "pilot")
    data = wages.write("new.csv", lines)
    done(wages, wages.save(model), data, said="column job: 1 row(s) have a value")


def test_values_are_missing(wages, train_network):
    """The model fills them in, or the message says where they are."""
    lines = wages.lines.copy()
    lines[4] = "," + lines[4].split(",", 1)[1]
    data = wages.write("gaps.csv", lines)
    names = ["height", "weight"]
    frame = pandas.read_csv(data)[names]
    model = train_network(frame, wages.y, SimpleImputer(), StandardScaler())
    agree(done(wages, wages.save(model), data), model, frame, wages)
    model = wages.save(train_network(frame.fillna(0.0), wages.y, StandardScaler()))
    wages.output.write_bytes(b"id,label\nan older result\n")
    wages.fails(wages.regress(model, data), data, "(height 1)", "--missing drop")
    done(wages, model, data, "--missing", "drop", said="1 of 120 rows were left out")
    result = wages.regress(model, data, "--missing", "impute")
    assert (result.exit_code, "do not apply" in result.stderr) == (2, True)


@pytest.mark.parametrize("zero_based", [False, True])
def test_svmlight(wages, zero_based, train_network):
    """A group is a feature; features that no row has are zero."""
    X = np.zeros((120, 6))
    X[:, :3] = np.column_stack([wages.X, wages.sex == "f"])
    X[0, :2] = 0.5  # a first feature that occurs
    path, number = wages.folder / "wages.svm", 2 if zero_based else 3
    dump_svmlight_file(X, wages.y, str(path), zero_based=zero_based)
    X = np.delete(X, 2, axis=1)
    model = train_network(X + np.arange(5), wages.y)
    options = ("--test", path, "--report", wages.report)
    found = done(wages, wages.save(model), path, *options, target=None, groups=number)
    agree(found, model, X, wages)
    assert wages.read_report()["input"]["n_features"] == 5
    mse = ((model.predict(X) - wages.y) ** 2).mean()
    assert wages.read_report()["test"]["mse_before"] == pytest.approx(mse)


def test_other_rows_have_the_same_columns_by_name(wages):
    rows = [line.split(",") for line in wages.lines]
    shuffled = [",".join([r[4], "0", r[2], r[1], r[3], r[0]]) for r in rows]
    shuffled[0] = shuffled[0].replace(",0,", ",new,")
    other = wages.write("other.csv", shuffled)
    for model in (wages.plain, wages.named):
        options = ("--test", other, "--report", wages.report)
        assert wages.regress(model, wages.csv, *options).exit_code == 0
        report = wages.read_report()
        assert report["test"] == report["train"]


def test_report(wages, named_network):
    train = wages.write("train.csv", wages.lines[:81])
    test = wages.write("test.csv", [wages.lines[0], *wages.lines[81:]])
    options = ("--report", wages.report, "--test", test, "--mean-reduction", "inf")
    model = done(wages, wages.named, train, *options)
    report = wages.read_report()
    assert report["parameters"]["mean_reduction"] == "inf"
    assert report["parameters"]["refit_last"] == "least_squares"
    assert report["input"]["model"] == str(wages.named)
    assert report["input"]["n_features"] == 3
    parts = {"train": (train, slice(0, 80)), "test": (test, slice(80, None))}
    for name, (path, rows) in parts.items():
        X, y = wages.frame[wages.names].iloc[rows], wages.y[rows]
        read, found = report["input"][name], report[name]
        assert (read["rows"], read["n_rows"]) == (str(path), len(y))
        assert read["target_from"] == f"column wage of {path}"
        models = {"before": named_network, "after": model}
        for when, predicted in ((k, v.predict(X)) for k, v in models.items()):
            assert found[f"mse_{when}"] == pytest.approx(((predicted - y) ** 2).mean())
            assert found[f"ks_{when}"] == pytest.approx(
                statistical_parity_ks(predicted, sensitive_features=wages.sex[rows])
            )
            for entry in found["groups"]:
                of = wages.sex[rows] == entry["group"]
                assert entry["n_rows"] == of.sum()
                assert entry["mean_target"] == pytest.approx(y[of].mean())
                assert entry[f"mean_{when}"] == pytest.approx(predicted[of].mean())
                mse = ((predicted - y)[of] ** 2).mean()
                assert entry[f"mse_{when}"] == pytest.approx(mse)
    for when in ("before", "after"):
        gaps = getattr(model, f"refit_gaps_{when}_")
        for i, gap in enumerate(("mean_gap", "covariance_gap")):
            assert report["last_layer"][f"{gap}_{when}"] == pytest.approx(gaps[i])
            of_layer = getattr(model, f"{gap}_{when}_")
            assert report[f"{gap}_{when}"] == pytest.approx(of_layer)
    assert (report["layer"], report["layer_shape"]) == (1, [4, 6])
    assert (report["groups"], report["converged"]) == (["f", "m"], True)


def test_page_and_summary(wages):
    page = wages.folder / "report.html"
    options = ("--report", page, "--test", wages.csv, "--verbose")
    result = wages.regress(wages.named, None, *options)
    assert result.exit_code == 0
    for words in ("KS distance", "(test)", "gap, refit", "output"):
        assert words in result.stdout
    text = page.read_text()
    assert text.count("<img") == 2
    assert "Layers, before the change" in text


@pytest.fixture
def parameters(monkeypatch):
    """Parameters of the estimator; it is not fitted."""
    seen = []

    def remember(model, *args, **kwargs):
        seen.append(model.get_params(deep=False))
        raise ValueError("layer=7 is none: refit_last=None needs mean_reduction=1.0.")

    monkeypatch.setattr(postprocessing.ExplainableSVDRegressor, "fit", remember)
    return seen


def test_every_option_of_the_estimator_arrives(older_wages, parameters):
    options = "--layer hidden_1 --method explainable_svd --mean-reduction inf"
    options += " --covariance-reduction 2 --first-moment svd --epsilon 0.01"
    options += " --refit none --random-state 7"
    result = older_wages.regress(older_wages.named, None, *options.split())
    line = older_wages.fails(result, older_wages.named, "--layer 7 is none")
    assert line.endswith("--refit-last none needs --mean-reduction 1.0.")
    [found] = parameters
    found.pop("estimator")
    words = {"layer": "hidden_1", "method": "explainable_svd", "first_moment": "svd"}
    reductions = {"mean_reduction": np.inf, "covariance_reduction": 2.0}
    others = {"epsilon": 0.01, "refit_last": None, "random_state": 7}
    left_out = {"prefit": "auto", "batch_size": None}
    assert found == words | reductions | others | left_out


@pytest.mark.parametrize(
    ("given", "layer"), [("-2", -2), ("0", 0), ("+1", 1), ("auto", "auto")]
)
def test_layers(wages, parameters, given, layer):
    wages.regress(wages.named, None, "--layer", given)
    assert parameters[0]["layer"] == layer
    assert type(parameters[0]["layer"]) is type(layer)


def test_no_convergence_is_exit_code_3(wages, monkeypatch):
    cls = postprocessing.ExplainableSVDRegressor
    fit = cls.fit

    def give_up(model, *args, **kwargs):
        fit(model, *args, **kwargs)
        model.converged_ = False
        return model

    monkeypatch.setattr(cls, "fit", give_up)
    result = wages.regress(wages.named, wages.csv, "--report", wages.report)
    assert (result.exit_code, result.stdout) == (3, ""), result.output
    assert wages.read_report()["converged"] is False
    joblib.load(wages.output)


def test_models_of_other_versions_may_work(wages, monkeypatch):
    load = joblib.load

    def warn(file):
        warnings.warn("Trying to unpickle", UserWarning, stacklevel=2)
        return load(file)

    monkeypatch.setattr(joblib, "load", warn)
    result = wages.regress(wages.named)
    assert (result.exit_code, result.stderr) == (0, "warning: Trying to unpickle\n")


class Breaks:
    """Cannot be opened again."""

    def __reduce__(self):
        return int, ("seven",)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"neither this nor that",
        pickle.dumps(np.arange(1000.0))[:500],
        b"\x80\x05\x95\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x1f\x8b\x08\x00 damaged",
        b"\x80\x04\x8c\x02os\x94\x8c\x06nosuch\x94\x93.",
        b"\x80\x04\x8c\x08nosuch_m\x94\x8c\x01A\x94\x93.",
        pickle.dumps(Breaks()),
    ],
)
def test_no_file_of_joblib(older_wages, content):
    path = older_wages.folder / "broken.joblib"
    path.write_bytes(content)
    older_wages.fails(older_wages.regress(path), path, "not a model saved by joblib")


@pytest.mark.parametrize(
    ("held", "words"),
    [
        ({"classifier": 1}, "holds dict, not a fitted regressor"),
        (StandardScaler(), "holds StandardScaler"),
        (MLPRegressor(), "NotFittedError"),
        (MLPRegressor, "TypeError"),
        (KMeans(2), "NotFittedError"),
        (LogisticRegression().fit([[0], [1]], [0, 1]), "holds LogisticRegression"),
        (LinearRegression().fit(np.eye(2), np.eye(2)), "not one finite number"),
    ],
)
def test_other_objects(older_wages, held, words):
    path = older_wages.save(held)
    older_wages.fails(older_wages.regress_array(path), path, words)


def test_columns_that_do_not_fit(older_wages):
    older, named = older_wages, older_wages.named
    short = older.write("short.csv", [line.split(",", 2)[2] for line in older.lines])
    for options in ((named, short), (named, None, "--test", short)):
        older.fails(older.regress(*options), short, "lacks 2 of the 3", "job, height")
    bare = older.write("bare.csv", older.lines[1:])
    older.fails(older.regress(named, bare, target="5", groups="4"), bare, "lacks 3")
    for data in (older.npy, older.npz):
        result = older.regress_array(named, data)
        older.fails(result, data, "columns have no names")
    older.refuses(older.regress(named, None, "--drop", "height"), "do not apply")
    wide = older.folder / "wide.npy"
    np.save(wide, np.ones((120, 3)))
    result = older.regress_array(older.plain, wide)
    older.fails(result, wide, "cannot predict these rows", "3 features")


@pytest.mark.parametrize(
    ("column", "field", "words"),
    [
        (0, "tall", ":5: column 1 (height) is 'tall'"),
        (2, "inf", ":5: column 3 (weight) is inf"),
        (3, "", "values are missing in 1 column(s): sex (1)"),
        (4, "?", "values are missing in 1 column(s): wage (1)"),
        (4, "inf", "the target of row 3 (counted from 0) is 'inf'"),
        (4, "1_000", "is '1_000', not a finite number"),
    ],
)
def test_bad_field(older_wages, column, field, words):
    fields = older_wages.lines[4].split(",")
    fields[column] = field
    lines = [*older_wages.lines[:4], ",".join(fields), *older_wages.lines[5:]]
    path = older_wages.write("bad.csv", lines)
    for options in ((path,), (None, "--test", path)):
        result = older_wages.regress(older_wages.named, *options)
        older_wages.fails(result, path, words)


def test_roles(older_wages):
    older = older_wages
    older.fails(older.regress(older.named, target="pay"), "pay: neither a column")
    same = older.write("same.txt", ["all"] * 120)
    result = older.regress_array(older.plain, groups=same)
    older.fails(result, f"{same}: has 1 group")
    result = older.regress_array(older.plain, target=None)
    older.refuses(result, "Missing option '--target'")
    result = older.regress_array(older.plain, None, "--test", older.npy)
    older.refuses(result, "Missing option '--test-target'")
    result = older.regress(older.named, None, "--test-groups", "sex")
    older.refuses(result, "apply with --test")


@pytest.mark.parametrize(
    "options",
    [
        ("--method", "magic"),
        ("--mean-reduction", "0.5"),
        ("--mean-reduction", "nan"),
        ("--epsilon", "0"),
        ("--refit", "sometimes"),
        ("--random-state", "-1"),
        ("--first-moment", "svd"),
        ("--method", "explainable_svd", "--epsilon", "0.1"),
        ("-o", "fair.pkl"),
    ],
)
def test_wrong_usage(older_wages, options):
    older_wages.refuses(
        older_wages.regress(older_wages.named, None, *options), options[-2]
    )


@pytest.mark.parametrize(
    ("owner", "name", "error", "code", "words"),
    [
        (joblib, "load", MemoryError("80 GiB"), 1, "not enough memory (80 GiB)"),
        (
            joblib,
            "load",
            OSError(errno.EIO, "broken"),
            1,
            "plain.joblib: cannot be read",
        ),
        (joblib, "load", KeyboardInterrupt(), 130, "nothing written"),
        (joblib, "dump", OSError(errno.ENOSPC, "full"), 1, "no space left"),
        (joblib, "dump", KeyboardInterrupt(), 130, "nothing written"),
        (postprocessing.ExplainableSVDRegressor, "fit", KeyError("x"), 70, "--debug"),
    ],
)
def test_what_goes_wrong(older_wages, monkeypatch, owner, name, error, code, words):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(owner, name, fail)
    options = ("--report", older_wages.report)
    result = older_wages.regress_array(older_wages.plain, None, *options)
    older_wages.fails(result, words, code=code)
    assert not older_wages.report.exists()
