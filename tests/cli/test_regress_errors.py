"""Every failure of `scalefair regress`: one line, and the older model untouched."""

import errno
import os
import pickle
import warnings

import joblib
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.cluster import KMeans
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scalefair import postprocessing
from scalefair.cli import _classify_fit, _output, _regress_fit

pytest.importorskip("pandas")


@pytest.fixture
def older(older_wages):
    return older_wages


def edited(older, column, field, line=4):
    """A table in which a line is changed."""
    lines = older.lines.copy()
    fields = lines[line].split(",")
    fields[column] = field
    lines[line] = ",".join(fields)
    return older.write("bad.csv", lines)


def test_missing_files(older):
    older.fails(older.regress("no.joblib"), "no.joblib: no such file")
    older.fails(older.regress(older.folder), older.folder, "is a folder")
    older.fails(older.regress(older.plain, "no.csv"), "no.csv: no such file")
    result = older.regress(older.named, older.csv, "--test", "no.csv")
    older.fails(result, "no.csv: no such file")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"neither this nor that",
        b"\x80\x05\x95\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x1f\x8b\x08\x00 damaged",
        b"\x80\x04\x8c\x02os\x94\x8c\x06nosuch\x94\x93.",
    ],
)
def test_no_file_of_joblib(older, content):
    path = older.folder / "broken.joblib"
    path.write_bytes(content)
    older.fails(older.regress(path), f"{path}: not an estimator saved by joblib.dump")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
@pytest.mark.parametrize("compress", [0, 3])
def test_half_a_file(older, share, compress):
    whole = older.folder / "whole.joblib"
    joblib.dump(joblib.load(older.plain), whole, compress=compress)
    half = older.folder / "half.joblib"
    half.write_bytes(whole.read_bytes()[: int(share * whole.stat().st_size)])
    older.fails(older.regress(half), f"{half}: not an estimator", "or damaged")


def test_a_module_is_missing(older):
    path = older.folder / "foreign.joblib"
    path.write_bytes(b"\x80\x04\x8c\x08nosuch_m\x94\x8c\x01A\x94\x93.")
    older.fails(older.regress(path), f"{path}: needs a module", "'nosuch_m'")


class Breaks:
    """Cannot be opened again."""

    def __reduce__(self):
        return int, ("seven",)


class Predicts:
    """Interface of a regressor without being one."""

    def predict(self, X):
        return np.zeros(len(X))


@pytest.mark.parametrize(
    ("held", "words"),
    [
        ({"classifier": 1}, "an object of type dict, not a fitted regressor"),
        (np.arange(3), "an object of type ndarray"),
        (None, "an object of type NoneType"),
        (MLPRegressor, "the class MLPRegressor"),
        (StandardScaler(), "an object of type StandardScaler"),
        (KMeans(), "holds KMeans, which is no regressor"),
        (MLPRegressor(), "holds MLPRegressor, which is not fitted yet"),
        (make_pipeline(StandardScaler(), MLPRegressor()), "Pipeline, which is not fit"),
        (LogisticRegression(), "holds a classifier, LogisticRegression"),
        (make_pipeline(MLPClassifier()), "holds a classifier, Pipeline"),
    ],
)
def test_other_objects(older, held, words):
    path = older.save(held)
    older.fails(older.regress(path), f"{path}: holds", words)


def test_objects_that_break(older):
    path = older.folder / "breaks.joblib"
    path.write_bytes(pickle.dumps(Breaks()))
    older.fails(older.regress(path), f"{path}: not an estimator", "ValueError")


def test_models_without_a_layer(older):
    from sklearn.tree import DecisionTreeRegressor

    path = older.save(DecisionTreeRegressor(max_depth=2).fit(older.X, older.y))
    older.fails(older.regress_array(path), f"{path}: ", "DecisionTreeRegressor")


def test_models_of_two_outputs(older):
    path = older.save(LinearRegression().fit(older.X, older.X))
    older.fails(older.regress_array(path), f"{path}: predicts 2 numbers for a row")


class Explodes(RegressorMixin, BaseEstimator):
    """Fitted, and not finite."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.where(np.arange(len(X)) == 7, np.inf, 1.0)


def test_predictions_that_are_not_finite(older, monkeypatch):
    monkeypatch.setattr(_regress_fit, "predict", None)  # which is not reached
    monkeypatch.setattr(LinearRegression, "predict", Explodes().predict)
    path = older.save(LinearRegression().fit(older.X, older.y))
    older.fails(older.regress_array(path), f"{path} predicts inf for row 7")


def test_models_that_are_not_whole(older):
    model = LinearRegression().fit(older.X, older.y)
    del model.intercept_
    path = older.save(model)
    result = older.regress_array(path)
    older.fails(result, f"{path} cannot predict these rows (AttributeError", "versions")


def test_unknown_layers(older):
    for layer in ("7", "-9", "hidden"):
        line = older.fails(older.regress(older.named, None, "--layer", layer), layer)
        assert f"{older.named}: " in line
        assert "layer=" not in line


def test_missing_columns(older):
    lines = [line.split(",", 2)[2] for line in older.lines]
    path = older.write("short.csv", lines)
    line = older.fails(older.regress(older.named, path), f"{path}: lacks 2 of the 3")
    assert line.endswith(f"{older.named} takes: job, height.")
    # In other rows as well.
    older.fails(older.regress(older.named, None, "--test", path), f"{path}: lacks 2")
    older.fails(older.regress(older.plain, None, "--test", path), "no column height")


def test_columns_without_names(older):
    plain = older.write("plain.csv", older.lines[1:])
    result = older.regress(older.named, plain, target="5", groups="4")
    older.fails(result, f"{plain}: has no header, but", "job, weight, height")
    for data in (older.npy, older.npz):
        result = older.regress_array(older.named, data)
        older.fails(result, f"{data}: its columns have no names", "3 columns by name")


def test_the_target_is_no_feature(older):
    result = older.regress(older.named, target="height")
    older.fails(result, "column height is the target, but", "Check --target")


def test_options_that_choose_columns(older):
    for option in (("--drop", "height"), ("--keep-groups",)):
        result = older.regress(older.named, None, *option)
        older.refuses(result, f"{option[0]} does not apply")


def test_number_of_columns(older):
    lines = [f"{line},1" for line in older.lines]
    lines[0] = f"{older.lines[0]},more"
    path = older.write("wide.csv", lines)
    result = older.regress(older.plain, path)
    older.fails(result, "has 3 columns of numbers", "(height, weight, more)", "takes 2")
    result = older.regress(older.plain, None, "--drop", "height")
    older.fails(result, "has 1 columns of numbers", "takes 2")
    for n in (1, 3):
        other = older.folder / f"{n}.npy"
        np.save(other, np.ones((120, n)))
        result = older.regress_array(older.plain, other)
        older.fails(result, f"{other}: has {n} features, but", "takes 2")
    svm = older.write("wide.svm", ["1 1:2 2:1 3:4", "0 2:1", *["1 1:1"] * 118])
    result = older.regress(older.plain, svm, target=None, groups=older.sexes)
    older.fails(result, f"{svm}: has 3 features, but", "takes 2")


@pytest.mark.parametrize(
    ("column", "field", "words"),
    [
        (0, "tall", "is 'tall', which is not a number"),
        (0, "", "(height) has no value. Fill in missing values"),
        (0, "nan", "(height)"),
        (2, "inf", "(weight) is inf; features must be finite"),
        (3, "", "(sex) has no value. Give it one"),
        (4, "", "(wage) has no value. Give it one"),
    ],
)
def test_bad_field(older, monkeypatch, column, field, words):
    # A word in the first rows would make a column one of words.
    monkeypatch.setattr("scalefair.cli._classify_columns._PEEK", 2)
    path = edited(older, column, field)
    for model in (older.plain, older.named):
        older.fails(older.regress(model, path), f"{path}:5: ", words)
        result = older.regress(model, older.csv, "--test", path, *quiet_note(model))
        older.fails(result, f"{path}:5: ", words)


def quiet_note(model):
    """Options with which no column of words is left out."""
    return ("--drop", "job") if model.name == "plain.joblib" else ()


@pytest.mark.parametrize("field", ["nan", "inf", "much", "1_000"])
def test_targets_are_numbers(older, field):
    path = edited(older, 4, field)
    result = older.regress(older.named, path)
    words = f"column wage of {path}: the target of row 3 (counted from 0) is '{field}'"
    older.fails(result, words, "not a finite number")
    result = older.regress(older.named, None, "--test", path)
    older.fails(result, words)
    targets = older.write("much.txt", [*older.y[:3], field, *older.y[4:]])
    result = older.regress_array(older.plain, target=targets)
    older.fails(result, f"{targets}: the target of row 3")


def test_targets_in_an_array(older):
    targets = older.folder / "targets.npy"
    np.save(targets, np.where(np.arange(120) == 5, -np.inf, older.y))
    result = older.regress_array(older.plain, target=targets)
    older.fails(result, f"{targets}: the target of row 5", "-inf")


def test_rows_that_are_not_finite(older):
    older.X[7, 1] = np.nan
    np.save(older.npy, older.X)
    sparse.save_npz(older.npz, sparse.csr_array(older.X))
    for data in (older.npy, older.npz):
        result = older.regress_array(older.plain, data)
        older.fails(result, f"{data}: ", "row 7, column 1")


def test_words_that_the_model_does_not_know(older):
    path = edited(older, 1, "pilot")
    result = older.regress(older.named, path)
    older.fails(result, f"{path}: {older.named} cannot predict these rows", "pilot")
    result = older.regress(older.named, None, "--test", path)
    older.fails(result, f"{path}: {older.named} cannot predict these rows", "pilot")


def test_groups_are_two(older):
    same = older.write("same.txt", ["all"] * 120)
    result = older.regress_array(older.plain, groups=same)
    older.fails(result, f"{same}: all rows are in one group, 'all'")
    one = older.write(
        "f.csv", [older.lines[0], *(x for x in older.lines[1:] if ",f," in x)]
    )
    result = older.regress(older.named, None, "--test", one)
    older.fails(result, f"column sex of {one}: all rows are in one group, 'f'")


def test_numbers_instead_of_groups(older):
    lines = ["height,weight,job,y", *(f"{i},{i % 3},cook,{i % 2}" for i in range(1200))]
    path = older.write("long.csv", lines)
    result = older.regress(older.named, path, target="y", groups="height")
    older.fails(result, "column height of", "1,200 different values")


@pytest.mark.parametrize("role", ["target", "groups"])
def test_roles(older, role):
    line = older.fails(
        older.regress(older.named, **{role: "pay"}), "pay: neither a column of"
    )
    assert f"--{role}" in line
    short = older.write("short.txt", ["0", "1"] * 20)
    result = older.regress_array(older.plain, **{role: short})
    older.fails(result, f"{short}: has 40")
    older.refuses(older.regress(older.named, target="sex"), "name the same column")
    result = older.regress_array(older.plain, target=None)
    older.refuses(result, "Missing option '--target'")


def test_test_needs_the_files_of_its_own(older):
    result = older.regress_array(older.plain, None, "--test", older.npy)
    older.refuses(result, "Missing option '--test-target'")
    for option in ("--test-target", "--test-groups"):
        result = older.regress(older.named, None, option, "sex")
        older.refuses(result, "with --test only")
    result = older.regress(older.named, None, "--test", older.npy)
    older.fails(result, "in another format")


@pytest.mark.parametrize(
    "options",
    [
        ("--method", "magic"),
        ("--mean-reduction", "0.5"),
        ("--mean-reduction", "nan"),
        ("--covariance-reduction", "0"),
        ("--epsilon", "0"),
        ("--epsilon", "inf"),
        ("--rank", "0"),
        ("--refit", "sometimes"),
        ("--first-moment", "third"),
        ("--random-state", "-1"),
        ("--unknown",),
    ],
)
def test_wrong_usage(older, options):
    older.refuses(older.regress(older.named, None, *options))


def test_options_that_do_not_apply(older):
    result = older.regress(older.named, None, "--first-moment", "svd")
    older.refuses(result, "--first-moment applies to --method explainable_svd only")
    options = ("--method", "explainable_svd", "--epsilon", "0.1")
    result = older.regress(older.named, None, *options)
    older.refuses(result, "--epsilon applies to --first-moment svd only")


def test_names_of_outputs(older):
    result = older.regress(older.named, None, "-o", older.folder / "fair.pkl")
    older.refuses(result, "the format is .joblib")
    result = older.regress(older.named, None, "--report", older.output)
    older.refuses(result, "--output and --report name the same file")


def never(*args, **kwargs):
    raise AssertionError("opened although the output cannot be written")


def test_output_is_checked_before_the_model_is_opened(older, monkeypatch):
    monkeypatch.setattr("scalefair.cli._regress_model.load_model", never)
    missing = older.folder / "missing" / "m.joblib"
    result = older.regress(older.named, None, "-o", missing)
    older.fails(result, missing, "does not exist")
    for path in (older.csv, older.named):
        result = older.regress(older.named, None, "--report", path)
        older.fails(result, path, "is an input file")
    result = older.regress(older.named, None, "-o", older.named)
    older.fails(result, older.named, "is an input file")
    monkeypatch.setattr(_output.os, "access", lambda *_: False)
    older.fails(older.regress(older.named), older.output, "no permission to write")


@pytest.fixture
def changed(monkeypatch):
    """A change that takes no time."""

    class Changed:
        model, report, seconds, converged = None, {}, 0.0, True

    monkeypatch.setattr(_regress_fit, "change_model", lambda *_, **__: Changed)


def test_disk_full(older, monkeypatch, changed):
    def fill(file, *_):
        file.write(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(_classify_fit, "write_model", fill)
    result = older.regress(older.named, None, "--report", older.report)
    older.fails(result, older.output, "no space left")


def interrupt(*args, **kwargs):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (joblib, "load"),
        (postprocessing.ExplainableSVDRegressor, "fit"),
        (_classify_fit, "write_model"),
    ],
)
def test_interrupt(older, monkeypatch, owner, name):
    monkeypatch.setattr(owner, name, interrupt)
    result = older.regress(older.named, None, "--report", older.report)
    line = older.fails(result, code=130)
    assert line == "error: interrupted, nothing written"


def test_not_enough_memory(older, monkeypatch):
    def fail(*args, **kwargs):
        raise MemoryError("Unable to allocate 80 GiB")

    monkeypatch.setattr(postprocessing.ExplainableSVDRegressor, "fit", fail)
    older.fails(older.regress(older.named), "not enough memory", "80 GiB", "--rank")


def test_the_estimator_refuses(older, monkeypatch):
    def refuse(*args, **kwargs):
        raise ValueError("layer=7 is none: refit_last=None needs mean_reduction=1.0.")

    monkeypatch.setattr(postprocessing.ExplainableSVDRegressor, "fit", refuse)
    line = older.fails(older.regress(older.named), f"{older.named}: --layer 7 is none")
    assert line.endswith("--refit none needs --mean-reduction 1.0.")


def test_internal_error(older, monkeypatch):
    def fail(*args, **kwargs):
        raise ZeroDivisionError("a\nbug")

    monkeypatch.setattr(postprocessing.ExplainableSVDRegressor, "fit", fail)
    result = older.regress(older.named)
    older.fails(result, "ZeroDivisionError: a bug", "--debug", code=70)
    assert "Traceback" in older.regress(older.named, None, "--debug").stderr


def test_models_of_other_versions(older, monkeypatch):
    """They may work: a warning, no failure."""
    load = joblib.load

    def warn(file):
        warnings.warn(
            InconsistentVersionWarning(
                estimator_name="MLPRegressor",
                current_sklearn_version="1.9",
                original_sklearn_version="1.2",
            ),
            stacklevel=2,
        )
        warnings.warn("old-fashioned", DeprecationWarning, stacklevel=2)
        return load(file)

    monkeypatch.setattr(joblib, "load", warn)
    result = older.regress(older.named)
    assert (result.exit_code, result.stdout) == (0, "")
    [line] = result.stderr.splitlines()
    assert line.startswith(f"warning: {older.named}: Trying to unpickle")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError("80 GiB"), "not enough memory (80 GiB)"),
        (OSError(errno.EIO, "broken"), "plain.joblib: cannot be read: input/output"),
    ],
)
def test_models_that_cannot_be_read(older, monkeypatch, error, words):
    def fail(file):
        raise error

    monkeypatch.setattr(joblib, "load", fail)
    older.fails(older.regress(older.plain), words)
