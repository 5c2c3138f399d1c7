"""`scalefair regress`: what it computes, writes, says and refuses."""

import errno
import pickle
import warnings
from functools import partial

import joblib
import numpy as np
import pandas
import pytest
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.datasets import dump_svmlight_file
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import r2_score
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from scalefair import postprocessing
from scalefair.metrics import null_parity_gap, statistical_parity_ks

from .conftest import network

encode_some = partial(make_column_transformer, remainder="passthrough")
INDICATOR = SimpleImputer(strategy="most_frequent", add_indicator=True)


def done(wages, *arguments, **options):
    """Run, and return what is in the output."""
    wages.done(*arguments, **options)
    return joblib.load(wages.output)


def agree(actual, estimator, X, wages):
    """Check that the class makes the same of these rows."""
    model = postprocessing.ExplainableSVDRegressor(estimator, random_state=0)
    model.fit(X, wages.y, sensitive_features=wages.sex)
    # The solver is the same, and so are the rows but for their types.
    np.testing.assert_allclose(
        actual.predict(X), model.predict(X), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("source", ["csv", "parquet"])
def test_columns_in_order_and_by_name(wages, source, plain_network, named_network):
    data, roles = wages.stored(source)
    message, before = "columns of words were left out", wages.named.read_bytes()
    model = done(wages, data, model=wages.plain, message=message, **roles)
    agree(model, plain_network, wages.X, wages)
    model = done(wages, data, **roles)
    agree(model, named_network, wages.frame[wages.names], wages)
    assert wages.named.read_bytes() == before


def test_words_are_spelled_as_the_model_knows_them(wages):
    """As pandas reads them unless told otherwise: with blanks, and ``?``."""
    lines = [line.replace(",", ", ") for line in wages.lines]
    lines[3] = lines[3].replace(wages.frame["job"][2], "?")
    data = wages.write("blanks.csv", lines)
    frame = pandas.read_csv(data).rename(columns=str.strip)[["job", "height"]]
    assert {" ?", " cook"} < set(frame["job"])
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    model = network(frame, wages.y, encode_some((encoder, ["job"])))
    agree(done(wages, data, model=wages.dump(model)), model, frame, wages)
    lines[5] = lines[5].replace(wages.frame["job"][4], "pilot")
    data = wages.write("new.csv", lines)
    message = "column job: 1 row(s) have a value"
    done(wages, data, model=wages.dump(model), message=message)


@pytest.mark.parametrize(
    "steps",
    [
        [SimpleImputer(strategy="most_frequent"), OneHotEncoder()],
        [encode_some((OneHotEncoder(), slice(0, 1)))],
        [encode_some((OneHotEncoder(), [True, False]))],
        [encode_some((make_pipeline(INDICATOR, OneHotEncoder()), ["job"]))],
    ],
)
def test_wherever_an_encoder_is(wages, steps):
    """Whether or not it has seen the names of its columns."""
    frame = wages.frame[["job", "height"]].assign(job=" " + wages.frame["job"])
    frame.loc[3, "job"] = np.nan
    model = network(frame, wages.y, *steps)
    data = wages.edited(3, "job", "")
    agree(done(wages, data, model=wages.dump(model)), model, frame, wages)


def test_values_are_missing(wages):
    """The model fills them in, or the message says where they are."""
    lines = wages.lines.copy()
    lines[4] = "," + lines[4].split(",", 1)[1]
    data = wages.write("gaps.csv", lines)
    names = ["height", "weight"]
    frame = pandas.read_csv(data)[names]
    strict = wages.dump(network(frame.fillna(0.0), wages.y, StandardScaler()))
    result = wages.run(data, model=strict)
    wages.fails(result, data, "(height 1)", "--missing drop")
    message = "1 of 120 rows were left out"
    wages.done(data, "--missing", "drop", model=strict, message=message)
    model = network(frame, wages.y, SimpleImputer(), StandardScaler())
    agree(done(wages, data, model=wages.dump(model)), model, frame, wages)


@pytest.mark.parametrize("zero_based", [False, True])
def test_svmlight(wages, zero_based):
    """A group is a feature; features that no row has are zero."""
    X = np.zeros((120, 6))
    X[:, :3] = np.column_stack([wages.X, wages.sex == "f"])
    X[0, :2] = 0.5  # a first feature that occurs
    path, number = wages.folder / "wages.svm", 2 if zero_based else 3
    dump_svmlight_file(X, wages.y, str(path), zero_based=zero_based)
    X = np.delete(X, 2, axis=1)
    model = network(X + np.arange(5), wages.y)
    roles = {"target": None, "groups": number, "model": wages.dump(model)}
    actual = done(wages, path, "--test", path, **roles)
    agree(actual, model, X, wages)
    assert wages.read_report()["input"]["n_features"] == 5
    mse = ((model.predict(X) - wages.y) ** 2).mean()
    assert wages.read_report()["test"]["mse_before"] == pytest.approx(mse)


def test_other_rows_have_the_same_columns_by_name(wages):
    rows = [line.split(",") for line in wages.lines]
    shuffled = [",".join([r[4], "0", r[2], r[1], r[3], r[0]]) for r in rows]
    shuffled[0] = shuffled[0].replace(",0,", ",new,")
    other = wages.write("other.csv", shuffled)
    for model in (wages.plain, wages.named):
        message = "" if model == wages.named else "columns of words were left out"
        report = wages.done(wages.csv, "--test", other, model=model, message=message)
        assert report["test"] == report["train"]


def test_report(wages, named_network):
    train = wages.write("train.csv", wages.lines[:81])
    test = wages.write("test.csv", [wages.lines[0], *wages.lines[81:]])
    model = done(wages, train, "--test", test, "--mean-reduction", "inf")
    report = wages.read_report()
    assert report["parameters"]["mean_reduction"] == "inf"
    assert report["parameters"]["refit_last"] == "least_squares"
    assert report["input"]["model"] == str(wages.named)
    assert report["input"]["n_features"] == 3
    # The first sentences are about the rows of the test, and the group that pays.
    tested = report["test"]
    growth = {x["mse_after"] - x["mse_before"]: x for x in tested["groups"]}
    worst = growth[max(growth)]
    for fragment in (
        "on rows that were not fitted: ",
        f"a KS distance of {tested['ks_after']:.3f}, before {tested['ks_before']:.3f}",
        f"would show about {tested['null_gap']:.3f} by chance. Cost: ",
        f"The error of {worst['group']} grows most, from "
        f"{worst['mse_before']:.3g} to {worst['mse_after']:.3g}",
        "Not promised: any bound",
    ):
        assert fragment in report["summary"]
    sizes = np.unique(wages.sex[80:], return_counts=True)[1]
    assert tested["null_gap"] == null_parity_gap(sizes)
    parts = {"train": (train, slice(0, 80)), "test": (test, slice(80, None))}
    for name, (path, rows) in parts.items():
        X, y = wages.frame[wages.names].iloc[rows], wages.y[rows]
        read, measures = report["input"][name], report[name]
        assert (read["rows"], read["n_rows"]) == (str(path), len(y))
        assert read["target_from"] == f"column wage of {path}"
        sexes, groups = wages.sex[rows], measures["groups"]
        assert [x["group"] for x in groups] == ["f", "m"]
        assert [x["n_rows"] for x in groups] == [sum(sexes == "f"), sum(sexes == "m")]
        models = {"before": named_network, "after": model}
        for when, predicted in ((k, v.predict(X)) for k, v in models.items()):
            distance = statistical_parity_ks(predicted, sensitive_features=sexes)
            assert measures[f"ks_{when}"] == pytest.approx(distance)
            for found in (measures, *groups):
                selected = sexes == found.get("group", sexes)
                target, scores = y[selected], predicted[selected]
                mse = ((scores - target) ** 2).mean()
                assert found[f"mse_{when}"] == pytest.approx(mse)
                assert found[f"r2_{when}"] == pytest.approx(r2_score(target, scores))
                if found is not measures:
                    assert found[f"mean_{when}"] == pytest.approx(scores.mean())
                    assert found["mean_target"] == pytest.approx(target.mean())
    for when in ("before", "after"):
        gaps = getattr(model, f"refit_gaps_{when}_")
        for i, gap in enumerate(("mean_gap", "covariance_gap")):
            assert report["last_layer"][f"{gap}_{when}"] == pytest.approx(gaps[i])
            of_layer = getattr(model, f"{gap}_{when}_")
            assert report[f"{gap}_{when}"] == pytest.approx(of_layer)
    assert (report["layer"], report["layer_shape"]) == (1, [4, 6])
    assert (report["groups"], report["converged"]) == (["f", "m"], True)


def test_equal_targets_have_no_r2(wages):
    """In a group, or all: rounding makes no variance of them."""
    frame = wages.frame.assign(w=np.linspace(0.3, 1.7, 120))
    for wage, selected in ((1e6 + 0.1, frame["sex"] == "f"), (3.3, frame["w"] > 0)):
        frame.loc[selected, "wage"] = wage
        line = wages.line(wages.save(frame, "equal.csv"), "--weight", "w")
        result = wages.invoke(*line, "--report", wages.report)
        assert result.exit_code == 0, result.output
        measures = wages.read_report()["train"]
        values = [x["r2_before"] for x in (*measures["groups"], measures)]
        assert [x is None for x in values] == [True, *[selected.all()] * 2]


def test_a_distance_is_asked_for(wages):
    """It is met on the rows of the fit, and said to be missed if it is not."""
    before = wages.done(wages.csv)["train"]["ks_before"]
    asked = f"{0.8 * before:.6f}"
    report = wages.done(wages.csv, "--max-distance", asked, "--no-noise-floor")
    assert report["train"]["ks_after"] <= float(asked)
    assert report["parameters"]["noise_floor"] is False
    assert np.shape(report["mean_gap_noise"]) == (2, 2)
    assert f"at most {float(asked):g} on the rows of the fit" in report["summary"]
    assert "Not promised: this distance on new rows" in report["summary"]
    message = "The distance of the groups' predictions is"
    wages.done(wages.csv, "--max-distance", "0", message=message)


@pytest.mark.parametrize(
    ("value", "layer"), [("-2", -2), ("0", 0), ("+1", 1), ("auto", "auto")]
)
def test_layers(wages, monkeypatch, value, layer):
    seen = []

    def remember(model, *args, **kwargs):
        seen.append(model.layer)
        raise ValueError("layer=7 is none")

    monkeypatch.setattr(postprocessing.ExplainableSVDRegressor, "fit", remember)
    wages.fails(wages.run(None, "--layer", value), wages.named, "--layer 7 is none")
    assert seen == [layer]
    assert type(seen[0]) is type(layer)


def test_no_convergence_is_exit_code_3(wages, monkeypatch):
    never = property(lambda _: False, lambda *_: None)
    cls = postprocessing.ExplainableSVDRegressor
    monkeypatch.setattr(cls, "converged_", never, raising=False)
    result = wages.run(None, "--report", wages.report)
    assert (result.exit_code, result.stdout) == (3, ""), result.output
    assert wages.read_report()["converged"] is False
    joblib.load(wages.output)


def test_models_of_other_versions_may_work(wages, monkeypatch):
    load = joblib.load

    def warn(file):
        warnings.warn("Trying to unpickle", UserWarning, stacklevel=2)
        return load(file)

    monkeypatch.setattr(joblib, "load", warn)
    result = wages.run()
    assert (result.exit_code, result.stderr) == (0, "warning: Trying to unpickle\n")


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
        b"cbuiltins\nint\n(Vseven\ntR.",  # int("seven")
    ],
)
def test_no_file_of_joblib(wages, content):
    path = wages.folder / "broken.joblib"
    path.write_bytes(content)
    wages.fails(wages.run(model=path), path, "not a model saved by joblib")


@pytest.mark.parametrize(
    ("held", "fragments"),
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
def test_other_objects(wages, held, fragments):
    path = wages.dump(held)
    wages.fails(wages.run(wages.npy, model=path, **wages.files), path, fragments)


def test_columns_that_do_not_fit(wages):
    short = wages.write("short.csv", [line.split(",", 2)[2] for line in wages.lines])
    for options in ((short,), (None, "--test", short)):
        wages.fails(wages.run(*options), short, "lacks 2 of the 3", "job, height")
    bare = wages.write("bare.csv", wages.lines[1:])
    wages.fails(wages.run(bare, target="5", groups="4"), bare, "lacks 3")
    for data in (wages.npy, wages.npz):
        result = wages.run(data, **wages.files)
        wages.fails(result, data, "columns have no names")
    wide, _ = wages.save_arrays("wide", np.ones((120, 3)))
    result = wages.run(wide, model=wages.plain, **wages.files)
    wages.fails(result, wide, "cannot predict these rows", "3 features")


@pytest.mark.parametrize(
    ("field", "fragments"),
    [
        ("inf", "the target of row 3 (counted from 0) is 'inf'"),
        ("1_000", "is '1_000', not a finite number"),
    ],
)
def test_bad_targets(wages, field, fragments):
    path = wages.edited(3, "wage", field)
    for options in ((path,), (None, "--test", path)):
        wages.fails(wages.run(*options), path, fragments)
    wages.frame.loc[1, "sex"] = None  # a row before it that is left out
    path = wages.edited(3, "wage", field)
    assert fragments in wages.run(path, "--missing-groups", "drop").stderr


@pytest.mark.parametrize(
    ("name", "error", "fragments"),
    [
        ("load", MemoryError("80 GiB"), "not enough memory (80 GiB)"),
        ("load", OSError(errno.EIO, "broken"), "named.joblib: cannot be read"),
        ("dump", OSError(errno.ENOSPC, "full"), "no space left"),
    ],
)
def test_what_goes_wrong_with_files_of_models(
    wages, monkeypatch, name, error, fragments
):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(joblib, name, fail)
    wages.fails(wages.run(None, "--report", wages.report), fragments)
