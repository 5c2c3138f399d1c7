"""What `scalefair regress` computes and writes."""

import gzip
import re
import subprocess
import sys
import warnings

import click
import joblib
import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import dump_svmlight_file
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from scalefair import postprocessing
from scalefair.cli import main
from scalefair.cli._regress_summary import group_rows, summary_rows
from scalefair.metrics import statistical_parity_ks

# Columns are known by their names in tables of pandas only.
pandas = pytest.importorskip("pandas")


def done(wages, *arguments, **options):
    """Run, and return what is in the output."""
    result = wages.regress(*arguments, **options)
    assert (result.exit_code, result.output) == (0, ""), result.output
    return joblib.load(wages.output)


def expected(estimator, X, wages, **parameters):
    """What the class makes of the same rows."""
    model = postprocessing.ExplainableSVDRegressor(
        estimator, random_state=0, **parameters
    )
    return model.fit(X, wages.y, sensitive_features=wages.sex)


def zipped(wages):
    path = wages.folder / "zipped.csv.gz"
    path.write_bytes(gzip.compress(wages.csv.read_bytes()))
    return path, "wage", "sex"


def without_header(wages):
    lines = [line.replace(",", "\t") for line in wages.lines[1:]]
    return wages.write("plain.tsv", lines), "5", "4"


def with_files(wages):
    lines = [",".join(line.split(",")[:3]) for line in wages.lines]
    return wages.write("features.csv", lines), wages.targets, wages.sexes


def parquet(wages):
    pytest.importorskip("pyarrow")
    path = wages.folder / "wages.parquet"
    wages.frame.to_parquet(path)
    return path, "wage", "sex"


def array_files(wages):
    targets, sexes = wages.folder / "targets.npy", wages.folder / "sexes.npy"
    np.save(targets, wages.y)
    np.save(sexes, wages.sex)
    return wages.npy, targets, sexes


TABLES = {
    "csv": lambda w: (w.csv, "wage", "sex"),
    "csv.gz": zipped,
    "files": with_files,
    "parquet": parquet,
}
FORMATS = TABLES | {
    "no header": without_header,
    "npy": lambda w: (w.npy, w.targets, w.sexes),
    "npy files": array_files,
    "npz": lambda w: (w.npz, w.targets, w.sexes),
}


@pytest.mark.parametrize("source", FORMATS)
def test_columns_of_numbers_in_order(wages, source, plain_network):
    data, target, groups = FORMATS[source](wages)
    result = wages.regress(wages.plain, data, target=target, groups=groups)
    assert (result.exit_code, result.stdout) == (0, ""), result.output
    if data.suffix in (".npy", ".npz"):
        assert result.stderr == ""
    else:
        name = "2" if source == "no header" else "job"
        assert result.stderr == (
            f"note: {data}: columns of words were left out: {name}.\n"
        )
    model = joblib.load(wages.output)
    assert type(model) is postprocessing.ExplainableSVDRegressor
    reference = expected(plain_network, wages.X, wages)
    np.testing.assert_allclose(
        model.predict(wages.X), reference.predict(wages.X), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("source", TABLES)
def test_columns_by_name(wages, source, named_network):
    data, target, groups = TABLES[source](wages)
    model = done(wages, wages.named, data, target=target, groups=groups)
    reference = expected(named_network, wages.frame[wages.names], wages)
    rows = wages.frame.sample(frac=1, random_state=0)
    np.testing.assert_allclose(
        model.predict(rows[wages.names]),
        reference.predict(rows[wages.names]),
        rtol=1e-9,
        atol=1e-9,
    )


def test_the_saved_model_stays_and_the_new_one_is_fairer(wages, plain_network):
    before = wages.plain.read_bytes()
    model = done(
        wages, wages.plain, wages.npy, target=wages.targets, groups=wages.sexes
    )
    assert wages.plain.read_bytes() == before
    before, after = plain_network.predict(wages.X), model.predict(wages.X)
    groups = {"sensitive_features": wages.sex}
    ks = statistical_parity_ks(before, **groups)
    assert statistical_parity_ks(after, **groups) < ks / 2


def test_an_output_of_its_own_can_be_replaced(wages):
    wages.output.write_bytes(b"an older model")
    done(wages, wages.named)
    assert wages.output.read_bytes() != b"an older model"


def test_a_group_that_the_model_knows(wages, train_network):
    """The sensitive column is a feature if the model was fitted with it."""
    frame = wages.frame.assign(sex=(wages.frame["sex"] == "m").astype(int))
    lines = frame.to_csv(index=False).splitlines()
    names = ["sex", "height"]
    model = wages.save(train_network(frame[names], wages.y))
    found = done(wages, model, wages.write("coded.csv", lines))
    reference = expected(joblib.load(model), frame[names], wages)
    np.testing.assert_allclose(
        found.predict(frame[names]), reference.predict(frame[names]), atol=1e-9
    )
    # By position it is left out, unless it is said to be one.
    bare = wages.save(train_network(frame[["height", "sex"]].to_numpy(), wages.y))
    lines = frame[["height", "sex", "wage"]].to_csv(index=False).splitlines()
    data = wages.write("three.csv", lines)
    assert "has 1 columns of numbers" in wages.regress(bare, data).stderr
    done(wages, bare, data, "--keep-groups")


def test_columns_to_drop(wages):
    lines = [f"{line},{i}" for i, line in enumerate(wages.lines)]
    lines[0] = wages.lines[0] + ",note"
    data = wages.write("more.csv", lines)
    result = wages.regress(wages.plain, data, "--drop", "note", "--drop", "job")
    assert (result.exit_code, result.output) == (0, "")
    done(wages, wages.named, data)  # which needs no option


def test_words_true_and_false_are_truth_values(wages, train_network):
    lines = [
        f"{line},{i % 3 == 0}" if i else f"{line},night"
        for i, line in enumerate(wages.lines)
    ]
    data = wages.write("night.csv", lines)
    frame = pandas.read_csv(data)
    assert frame["night"].dtype == bool
    names = ["height", "night", "job"]
    encoder = make_column_transformer(
        (OneHotEncoder(), ["job", "night"]), remainder="passthrough"
    )
    model = train_network(frame[names], wages.y, encoder)
    found = done(wages, wages.save(model), data)
    reference = expected(model, frame[names], wages)
    np.testing.assert_allclose(
        found.predict(frame[names]), reference.predict(frame[names]), atol=1e-9
    )


def test_numbers_between_words_stay_where_they_were(wages, train_network):
    """An encoder of all columns minds their order."""
    rows = wages.frame[["job", "height", "sex"]]
    model = train_network(rows, wages.y, OneHotEncoder())
    found = done(wages, wages.save(model))
    reference = expected(model, rows, wages)
    np.testing.assert_allclose(found.predict(rows), reference.predict(rows), atol=1e-9)


@pytest.mark.parametrize("zero_based", [False, True])
def test_svmlight(wages, zero_based, train_network):
    X = np.column_stack([wages.X, np.zeros(120), wages.sex == "f"])
    X[0] = 0.5  # a first feature that occurs
    X[0, 3] = wages.sex[0] == "f"
    path, number = wages.folder / "wages.svm", 3 if zero_based else 4
    dump_svmlight_file(X, wages.y, str(path), zero_based=zero_based)
    model = train_network(X[:, :3], wages.y)
    found = done(wages, wages.save(model), path, target=None, groups=number)
    reference = expected(model, X[:, :3], wages)
    np.testing.assert_allclose(
        found.predict(X[:, :3]), reference.predict(X[:, :3]), atol=1e-8
    )


def test_features_that_svmlight_leaves_out_are_zero(wages, train_network):
    """Of the five features of the model TRAIN has three and TEST has four."""
    X = np.zeros((120, 5))
    X[:, :3] = np.column_stack([wages.X, np.arange(120) % 3])
    model = train_network(X + np.arange(5), wages.y)
    files = []
    for name, n in (("train", 3), ("test", 4)):
        X[:, 3] = n == 4
        path = wages.folder / f"{name}.svm"
        dump_svmlight_file(X[:, :n], wages.y, str(path), zero_based=False)
        files.append(path)
    options = ("--test", files[1], "--test-groups", wages.sexes)
    options += ("--report", wages.report)
    done(wages, wages.save(model), files[0], *options, target=None, groups=wages.sexes)
    report = wages.read_report()
    assert report["input"]["n_features"] == 5
    for name, last in (("train", 0), ("test", 1)):
        X[:, 3] = last
        mse = ((model.predict(X) - wages.y) ** 2).mean()
        assert report[name]["mse_before"] == pytest.approx(mse)


def test_targets_beyond_64_bits(wages, train_network):
    model = wages.save(train_network(wages.X, wages.y))
    path = wages.folder / "large.svm"
    dump_svmlight_file(wages.X, 1e20 * wages.y, str(path), zero_based=False)
    result = wages.regress(
        model, path, "--report", wages.report, target=None, groups=wages.sexes
    )
    assert (result.exit_code, result.output) == (0, "")
    found = wages.read_report()["train"]["groups"][0]["mean_target"]
    assert found == pytest.approx(1e20 * wages.y[wages.sex == "f"].mean())


def split(wages, n=80):
    train = wages.write("train.csv", wages.lines[: n + 1])
    test = wages.write("test.csv", [wages.lines[0], *wages.lines[n + 1 :]])
    return train, test


@pytest.mark.parametrize("kind", ["plain", "named"])
def test_report(wages, kind, plain_network, named_network):
    train, test = split(wages)
    options = ("--report", wages.report, "--test", test, "--drop", "job")
    options = options if kind == "plain" else options[:4]
    model = done(wages, getattr(wages, kind), train, *options)
    report = wages.read_report()
    assert report["command"] == "regress"
    parameters = model.get_params(deep=False)
    for name in ("estimator", "prefit", "batch_size", "epsilon", "first_moment"):
        parameters.pop(name)
    assert report["parameters"] == parameters
    read = report["input"]
    assert read["model"] == str(getattr(wages, kind))
    assert read["n_features"] == {"plain": 2, "named": 3}[kind]
    before = {"plain": plain_network, "named": named_network}[kind]
    parts = {"train": slice(0, 80), "test": slice(80, None)}
    for name, rows in parts.items():
        sex, y = wages.sex[rows], wages.y[rows]
        X = wages.X[rows]
        if kind == "named":
            X = wages.frame[wages.names].iloc[rows]
        path = {"train": train, "test": test}[name]
        assert read[name] == {
            "rows": str(path),
            "target_from": f"column wage of {path}",
            "groups_from": f"column sex of {path}",
            "n_rows": len(y),
            "groups": {k: int((sex == k).sum()) for k in ("f", "m")},
        }
        found = report[name]
        predicted = {"before": before.predict(X), "after": model.predict(X)}
        for when, values in predicted.items():
            assert found[f"mse_{when}"] == pytest.approx(((values - y) ** 2).mean())
            assert found[f"ks_{when}"] == pytest.approx(
                statistical_parity_ks(values, sensitive_features=sex)
            )
        for entry, group in zip(found["groups"], ("f", "m"), strict=True):
            of = sex == group
            assert entry["group"] == group
            assert entry["n_rows"] == of.sum()
            assert entry["mean_target"] == pytest.approx(y[of].mean())
            for when, values in predicted.items():
                assert entry[f"mean_{when}"] == pytest.approx(values[of].mean())
                mse = ((values - y)[of] ** 2).mean()
                assert entry[f"mse_{when}"] == pytest.approx(mse)
    for name in ("mean_gap", "covariance_gap"):
        for when in ("before", "after"):
            found = getattr(model, f"{name}_{when}_")
            assert report[f"{name}_{when}"] == pytest.approx(found)
    assert report["output_change"] == pytest.approx(model.output_change_)
    bound = model.output_change_bound_
    known = None if np.isnan(bound) else pytest.approx(bound)  # no NaN in JSON
    assert report["output_change_bound"] == known
    assert (report["layer"], report["layer_shape"]) == (1, [4, 6])
    assert report["layer_name"] == model.unfairness_by_layer_[1].name
    assert len(report["unfairness_by_layer"]) == 3
    for entry, layer in zip(
        report["unfairness_by_layer"], model.unfairness_by_layer_, strict=True
    ):
        assert entry["relative_mean_gap"] == pytest.approx(layer.relative_mean_gap)
        assert entry["score"] == pytest.approx(layer.score)
    for when in ("before", "after"):
        gaps = getattr(model, f"refit_gaps_{when}_")
        found = report["last_layer"]
        assert (found[f"mean_gap_{when}"], found[f"covariance_gap_{when}"]) == (
            pytest.approx(gaps)
        )
    assert report["groups"] == ["f", "m"]
    assert report["converged"] is True
    assert report["warnings"] == []
    assert set(report["seconds"]) == {"read", "fit"}
    assert report["peak_memory_bytes"] > 10_000_000


def test_test_columns_are_found_by_name(wages):
    train, test = split(wages)
    rows = [line.split(",") for line in test.read_text().splitlines()]
    shuffled = [",".join([r[4], "0", r[2], r[1], r[3], r[0]]) for r in rows]
    shuffled[0] = shuffled[0].replace(",0,", ",new,")
    other = wages.write("other.csv", shuffled)
    for model in (wages.plain, wages.named):
        found = []
        for path in (test, other):
            options = ("--test", path, "--report", wages.report)
            assert wages.regress(model, train, *options).exit_code == 0
            found.append(wages.read_report()["test"])
        assert found[0] == found[1]


def test_words_that_the_model_knows_and_train_has_not(wages, named_network):
    lines = [line for line in wages.lines if ",cook," not in line]
    train, test = wages.write("train.csv", lines), wages.csv
    done(wages, wages.named, train, "--test", test, "--report", wages.report)
    predicted = named_network.predict(wages.frame[wages.names])
    mse = ((predicted - wages.y) ** 2).mean()
    assert wages.read_report()["test"]["mse_before"] == pytest.approx(mse)


def test_columns_hold_words_where_they_did_in_train(wages, train_network):
    """In TEST all codes look like numbers."""
    codes = np.array(["1", "2", "x"])[np.arange(120) % 3]
    lines = [
        f"{line},{code}"
        for line, code in zip(wages.lines, ["code", *codes], strict=True)
    ]
    train = wages.write("train.csv", lines)
    test = wages.write("test.csv", [line for line in lines if line[-1] != "x"])
    frame = pandas.read_csv(train)
    encoder = make_column_transformer(
        (OneHotEncoder(), ["code"]), remainder="passthrough"
    )
    names = ["height", "code"]
    model = train_network(frame[names], wages.y, encoder)
    options = ("--test", test, "--report", wages.report)
    done(wages, wages.save(model), train, *options)
    kept = frame["code"] != "x"
    predicted = model.predict(frame.loc[kept, names])
    mse = ((predicted - wages.y[kept]) ** 2).mean()
    assert wages.read_report()["test"]["mse_before"] == pytest.approx(mse)


def test_test_of_arrays_has_files(wages):
    parts = {"train": slice(0, 80), "test": slice(80, None)}
    files = {}
    for name, rows in parts.items():
        path = wages.folder / f"{name}.npy"
        np.save(path, wages.X[rows])
        files[name] = (
            path,
            wages.write(f"{name}_y.txt", wages.y[rows]),
            wages.write(f"{name}_g.txt", wages.sex[rows]),
        )
    data, target, groups = files["train"]
    test, test_target, test_groups = files["test"]
    options = ("--test", test, "--test-target", test_target)
    options += ("--test-groups", test_groups, "--report", wages.report)
    done(wages, wages.plain, data, *options, target=target, groups=groups)
    by_file = wages.read_report()["test"]
    train_csv, test_csv = split(wages)
    options = ("--test", test_csv, "--report", wages.report, "--drop", "job")
    done(wages, wages.plain, train_csv, *options)
    assert wages.read_report()["test"] == by_file


def test_rows_are_predicted_in_batches(wages, monkeypatch):
    done(wages, wages.named, wages.csv, "--report", wages.report)
    first = wages.read_report()["train"]
    monkeypatch.setattr("scalefair.cli._regress_model._ROWS", 50)
    done(wages, wages.named, wages.csv, "--report", wages.report)
    again = wages.read_report()["train"]
    for name in ("mse_before", "mse_after", "ks_before", "ks_after"):
        assert again[name] == pytest.approx(first[name])


@pytest.mark.parametrize("kind", ["linear", "pipeline"])
def test_other_models(wages, kind, train_network):
    if kind == "linear":
        estimator = LinearRegression().fit(wages.X, wages.y)
    else:
        estimator = train_network(wages.X, wages.y, StandardScaler())
    files = {"target": wages.targets, "groups": wages.sexes}
    found = done(wages, wages.save(estimator), wages.npy, **files)
    reference = expected(estimator, wages.X, wages)
    np.testing.assert_allclose(found.predict(wages.X), reference.predict(wages.X))


@pytest.fixture
def parameters(monkeypatch):
    """Parameters of the estimator; it is not fitted."""
    seen = []

    def remember(model, *args, **kwargs):
        seen.append(model.get_params(deep=False))
        raise ValueError("enough")

    cls = postprocessing.ExplainableSVDRegressor
    monkeypatch.setattr(cls, "fit", remember)
    return seen


def test_every_option_of_the_estimator_arrives(wages, parameters):
    options = "--layer hidden_1 --method explainable_svd --mean-reduction inf"
    options += " --covariance-reduction 2 --first-moment svd --epsilon 0.01 --rank 3"
    options += " --refit none --random-state 7"
    wages.regress(wages.named, None, *options.split())
    [found] = parameters
    assert type(found.pop("estimator")) is not type(wages)
    assert found.pop("prefit") == "auto"
    found.pop("batch_size")
    assert found == {
        "layer": "hidden_1",
        "method": "explainable_svd",
        "mean_reduction": np.inf,
        "covariance_reduction": 2.0,
        "first_moment": "svd",
        "epsilon": 0.01,
        "rank": 3,
        "refit_last": None,
        "random_state": 7,
    }


@pytest.mark.parametrize(
    ("given", "layer"), [("-2", -2), ("0", 0), ("+1", 1), ("auto", "auto")]
)
def test_layers(wages, parameters, given, layer):
    wages.regress(wages.named, None, "--layer", given)
    assert parameters[0]["layer"] == layer
    assert type(parameters[0]["layer"]) is type(layer)


def test_infinite_reductions_are_strict_json(wages):
    options = ("--mean-reduction", "inf", "--report", wages.report)
    done(wages, wages.named, wages.csv, *options)
    assert wages.read_report()["parameters"]["mean_reduction"] == "inf"


def test_options_are_those_of_the_estimator():
    options = {param.name: param for param in main.commands["regress"].params}
    estimator = postprocessing.ExplainableSVDRegressor
    defaults = estimator(None).get_params()
    left_out = {"estimator", "prefit", "batch_size", "refit_last"}
    assert set(defaults) - set(options) == left_out
    for name in set(defaults) & set(options) - {"random_state", "rank"}:
        option = options[name]
        default = option.type.convert(option.default, option, None)
        assert default == defaults[name], name
    assert not options["rank"].required
    assert defaults["rank"] is None
    assert options["refit"].default == defaults["refit_last"]
    constraints = estimator._parameter_constraints
    for name in ("method", "first_moment", "refit"):
        accepted = constraints["refit_last" if name == "refit" else name]
        known = {
            str(value).lower() for c in accepted for value in getattr(c, "options", [c])
        }
        assert set(options[name].type.choices) == known


def test_help(wages):
    text = wages.invoke("regress", "--help").output
    words = " ".join(text.split())
    for phrase in (
        "[default: -2]",
        "[default: 15.0; x>=1]",
        "Only open models you trust",
        '"scalefair[data]"',
        "3 not converged",
        "130 interrupted",
    ):
        assert phrase in words, phrase
    sections = re.findall(r"^(\w[\w ]*):$", text, flags=re.MULTILINE)
    assert sections == [
        *("Required", "Layer", "Columns", "Test", "Files", "Other options"),
    ]
    listed = re.findall(r"^  (?:-\w, )?--([\w-]+)", text, flags=re.MULTILINE)
    for param in main.commands["regress"].params:
        if isinstance(param, click.Option):
            assert listed.count(param.opts[-1].removeprefix("--")) == 1


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from scalefair.cli import main\n"
        "try: main(['regress', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'numba', 'rich', 'pandas', 'joblib'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_summary_on_a_terminal(wages, monkeypatch):
    monkeypatch.setattr("scalefair.cli._regress.on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    result = wages.regress(wages.named, wages.csv, "--test", wages.csv)
    assert (result.exit_code, result.stderr) == (0, "")
    for word in ("KS distance", "(test)", "gap, refit", "│ f ", "mean after"):
        assert word in result.stdout
    assert str(wages.output) in result.stdout
    done(wages, wages.named, wages.csv, "--quiet")  # which checks that nothing is shown


def test_summary_says_what_is_known():
    groups = [
        {"group": f"g{i}", "n_rows": 1000 + i, "mean_before": 0.5, "mean_after": 2 / 3}
        for i in range(23)
    ]
    measures = {"mse_before": 0.81234, "mse_after": 0.9}
    measures |= {"ks_before": 0.5, "ks_after": 0.25}
    report = {
        "input": {"n_features": 1234},
        "layer_name": "hidden",
        "layer_shape": [16, 256],
        "mean_gap_before": 1234.5,
        "mean_gap_after": 0.0012345,
        "covariance_gap_before": 2.0,
        "covariance_gap_after": 1.0,
        "last_layer": None,
        "output_change": 0.012345,
        "seconds": {"read": 2.04, "fit": 1.0},
        "train": {**measures, "groups": groups},
    }
    titles, rows = group_rows(report)
    assert [title.replace(",\n", " ") for title in titles] == [
        *("group", "rows train", "mean before train", "mean after train"),
    ]
    assert rows[0] == ["g0", "1,000", "0.5", "0.6667"]
    assert rows[-1] == ["... 3 more", "", "", ""]
    stranger = {**groups[0], "group": "other"}
    report["train"]["groups"] = groups[:2]
    report["test"] = {**measures, "groups": [groups[0], stranger]}
    titles, rows = group_rows(report)
    assert [row[0] for row in rows] == ["g0", "g1", "other"]
    assert all(len(row) == len(titles) == 7 for row in rows)
    assert rows[1][4:] == rows[2][1:4] == ["0", "", ""]
    assert dict(summary_rows(report)) == {
        "features": "1,234",
        "layer": "hidden, 256 inputs, 16 outputs",
        "mean gap": "1.23e+03 -> 0.00123",
        "covariance gap": "2 -> 1",
        "output change": "1.23%",
        "mean squared error": "0.8123 -> 0.9000 (train), 0.8123 -> 0.9000 (test)",
        "KS distance": "0.5000 -> 0.2500 (train), 0.5000 -> 0.2500 (test)",
        "time": "1.0 s, reading 2.0 s",
    }


def test_no_convergence_is_exit_code_3(wages, monkeypatch):
    cls = postprocessing.ExplainableSVDRegressor
    fit = cls.fit

    def complain(model, *args, **kwargs):
        warnings.warn("raise rank=3, it is low", ConvergenceWarning, stacklevel=2)
        return fit(model, *args, **kwargs)

    monkeypatch.setattr(cls, "fit", complain)
    result = wages.regress(wages.named, wages.csv, "--report", wages.report)
    assert (result.exit_code, result.stdout) == (3, ""), result.output
    assert result.stderr == "warning: raise --rank 3, it is low\n"
    report = wages.read_report()
    assert report["converged"] is False
    assert report["warnings"] == ["raise --rank 3, it is low"]
    joblib.load(wages.output)


def test_other_warnings_are_shown_once(wages, monkeypatch):
    cls = postprocessing.ExplainableSVDRegressor
    predict = cls.predict

    def complain(model, X):
        warnings.warn("an odd row", UserWarning, stacklevel=2)
        warnings.warn("old-fashioned", DeprecationWarning, stacklevel=2)
        return predict(model, X)

    monkeypatch.setattr(cls, "predict", complain)
    result = wages.regress(wages.named, wages.csv, "--test", wages.csv)
    assert result.exit_code == 0
    assert result.stderr == "warning: an odd row\n"
