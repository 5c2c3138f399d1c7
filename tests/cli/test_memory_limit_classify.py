"""`scalefair classify` on rows that are read in blocks."""

import json

import joblib
import numpy as np
import pytest
from click.testing import CliRunner
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from scalefair.cli import main
from scalefair.linear_model import PartiallyFairClassifier
from scalefair.streaming import RowReader

M, N = 160, 4


class Trials:
    """Rows of two groups in all formats, and runs of ``classify`` on them."""

    def __init__(self, folder):
        self.folder = folder
        self.output = folder / "model.joblib"
        self.report = folder / "report.json"
        rng = np.random.default_rng(0)
        self.groups = rng.integers(0, 2, M)
        self.X = rng.normal(size=(M, N)).round(3) * [1, 20, 1, 1]
        self.X[rng.random(self.X.shape) < 0.3] = 0
        self.X[:, 0] += self.groups
        self.X[-1, -1] = 1.0
        self.y = (self.X[:, 0] + self.X[:, 1] / 20 + rng.normal(size=M) > 0.5) * 2 - 1
        np.savetxt(folder / "groups.txt", self.groups, fmt="%d")
        np.savetxt(folder / "labels.txt", self.y, fmt="%d")

    def save(self, extension, X=None):
        path = self.folder / f"rows{extension}"
        X = self.X if X is None else X
        if extension == ".npy":
            np.save(path, X)
        elif extension == ".npz":
            sparse.save_npz(path, sparse.csr_array(X))
        else:
            dump_svmlight_file(X, self.y, str(path), zero_based=False)
        return path

    def classify(self, path, *options, groups=None):
        groups = self.folder / "groups.txt" if groups is None else groups
        arguments = ["classify", path, "--groups", groups, "-o", self.output]
        if path.suffix in (".npy", ".npz"):
            arguments += ["--target", self.folder / "labels.txt"]
        arguments += ["--interval", "0.1,0.6", "--kappa", 0.2, "--report", self.report]
        return CliRunner().invoke(main, list(map(str, [*arguments, *options])))

    def done(self, *arguments, **options):
        """Run, and return what is in the model file and in the report."""
        result = self.classify(*arguments, **options)
        assert result.exit_code == 0, result.output
        return joblib.load(self.output), json.loads(self.report.read_text())

    def fails(self, result, *words):
        assert result.exit_code == 1, result.output
        for word in words:
            assert str(word) in result.stderr
        assert not self.output.exists()
        assert not self.report.exists()


@pytest.fixture
def trials(tmp_path):
    return Trials(tmp_path)


REAL_FIT = PartiallyFairClassifier.fit


def at_once(X):
    """Rows of a reader as a matrix."""
    if not isinstance(X, RowReader):
        return X
    blocks = list(X.blocks())
    return sparse.vstack(blocks) if X.is_sparse else np.concatenate(blocks)


@pytest.fixture(autouse=True)
def fits(monkeypatch):
    """Rows, labels and groups that the estimator is fitted to, at once for speed."""
    seen = []

    def remember(model, X, y, *, sensitive_features):
        seen.append((X, at_once(X), y, sensitive_features))
        return REAL_FIT(model, at_once(X), y, sensitive_features=sensitive_features)

    monkeypatch.setattr(PartiallyFairClassifier, "fit", remember)
    return seen


QUICK = ("--tol", 0.1)


@pytest.mark.parametrize("options", [(), ("--standardize",)])
@pytest.mark.parametrize("extension", [".npy", ".npz", ".svm"])
def test_same_rows_and_measures(trials, fits, extension, options):
    path = trials.save(extension)
    options = (*QUICK, *options, "--test", path)
    if extension != ".svm":
        options += ("--test-target", trials.folder / "labels.txt")
    options += ("--test-groups", trials.folder / "groups.txt")
    wanted, one = trials.done(path, *options)
    found, other = trials.done(path, *options, "--memory-limit", "4kB")
    assert [isinstance(X, RowReader) for X, *_ in fits] == [False, True]
    X = [sparse.csr_array(rows[1]).toarray() for rows in fits]
    np.testing.assert_allclose(*X, rtol=1e-12, atol=1e-12)
    assert all(map(np.array_equal, fits[0][2:], fits[1][2:]))
    new = [model["encoder"].transform(trials.X) for model in (wanted, found)]
    np.testing.assert_allclose(*new, rtol=1e-12, atol=1e-12)
    for part in ("train", "test"):
        assert "read" not in one["input"][part]
        said = other["input"][part]
        assert said.pop("read") == "in blocks"
        assert said.pop("n_blocks") == len(fits[1][0]) > 3
        assert said.pop("n_passes") == 1 + ("--standardize" in options) * (
            part == "train"
        )
        assert said == one["input"][part]
        assert other[part]["accuracy"] == one[part]["accuracy"]
        assert other[part]["partial_parity_gap"] == one[part]["partial_parity_gap"]


def test_fit_in_blocks(trials, monkeypatch):
    path = trials.save(".npy")
    wanted, one = trials.done(path, *QUICK, "--standardize")
    monkeypatch.setattr(PartiallyFairClassifier, "fit", REAL_FIT)
    found, other = trials.done(path, *QUICK, "--standardize", "--memory-limit", "4kB")
    X = wanted["encoder"].transform(trials.X)
    scores = [
        model["classifier"].decision_function(X, sensitive_features=trials.groups)
        for model in (wanted, found)
    ]
    np.testing.assert_allclose(*scores, atol=0.1)  # the solver's tolerance
    assert other["objective"] == pytest.approx(one["objective"], abs=2e-3)
    assert other["input"]["train"]["n_passes"] > other["n_oracle_calls"]


@pytest.mark.parametrize(
    "options", [(), ("--drop", "3"), ("--keep-groups",), ("--standardize",)]
)
def test_groups_in_a_feature_of_svmlight(trials, fits, options):
    X = np.column_stack([trials.X[:, :2], trials.groups, trials.X[:, 2:]])
    path = trials.save(".svm", X)
    options = tuple("4" if option == "3" else option for option in options)
    options += ("--max-iter", 1, "--start", "zero")
    trials.classify(path, *options, groups="3")
    trials.classify(path, *options, "--memory-limit", "4kB", groups="3")
    (_, X, y, groups), (reader, *found) = fits
    assert isinstance(reader, RowReader)
    assert reader.n_features == X.shape[1]
    np.testing.assert_allclose(found[0].toarray(), X.toarray(), rtol=1e-12)
    assert np.array_equal(found[1], y)
    assert np.array_equal(found[2], groups)
    assert np.array_equal(groups, trials.groups)
    assert X.shape[1] == {"--drop": 3, "--keep-groups": 5}.get(options[0], 4)


def test_a_test_with_other_features(trials):
    path = trials.save(".svm", trials.X)
    wide = trials.folder / "wide.svm"
    lines = path.read_text().splitlines()
    lines = [f"{line} 9:1" if i < 5 else line for i, line in enumerate(lines)]
    wide.write_text("\n".join(lines) + "\n")
    narrow = trials.folder / "narrow.svm"
    dump_svmlight_file(trials.X[:, :2], trials.y, str(narrow), zero_based=False)
    more = ("--test-groups", trials.folder / "groups.txt", *QUICK)
    limited = ("--memory-limit", "4kB")
    for other, note in ((wide, "5 value(s) belong to features"), (narrow, "")):
        outputs = []
        for options in ((), limited):
            result = trials.classify(path, "--test", other, *more, *options)
            assert result.exit_code == 0, result.output
            assert note in result.stderr
            assert ("note" in result.stderr) == bool(note)
            outputs.append(json.loads(trials.report.read_text())["test"]["accuracy"])
        assert outputs[1] == outputs[0]
    zero = trials.folder / "zero.svm"
    zero.write_text(path.read_text() + "1 0:1\n")
    trials.output.unlink()
    trials.report.unlink()
    result = trials.classify(path, "--test", zero, *more, *limited)
    trials.fails(result, zero, "has a feature 0, but the features of TRAIN")


@pytest.mark.parametrize("options", [(), ("--standardize",)])
@pytest.mark.parametrize("extension", [".npy", ".npz"])
def test_bad_values_are_placed(trials, monkeypatch, extension, options):
    monkeypatch.setattr(PartiallyFairClassifier, "fit", REAL_FIT)
    X = trials.X.copy()
    X[70, 3] = np.inf if extension == ".npy" else np.nan
    path = trials.save(extension, X)
    result = trials.classify(path, "--memory-limit", "4kB", *options)
    trials.fails(result, path, "NaN or infinite, at row 70, column 3")
    good = trials.folder / f"good{extension}"
    trials.save(extension).rename(good)
    trials.save(extension, X)
    more = ("--test-groups", trials.folder / "groups.txt", "--max-iter", 1)
    more += ("--start", "zero")
    more += ("--test-target", trials.folder / "labels.txt")
    result = trials.classify(
        good, "--test", path, *more, "--memory-limit", "4kB", *options
    )
    trials.fails(result, path, "NaN or infinite, at row 70, column 3")


def test_bad_text_is_placed(trials, monkeypatch):
    monkeypatch.setattr(PartiallyFairClassifier, "fit", REAL_FIT)
    path = trials.save(".svm")
    lines = path.read_text().splitlines()
    lines[50] = "1 2:3 1:4"
    path.write_text("\n".join(lines))
    result = trials.classify(path, "--memory-limit", "4kB")
    trials.fails(result, f"{path}:51: feature 1 comes after feature 2")
    lines[50] = "1 2:nan"
    path.write_text("\n".join(lines))
    result = trials.classify(path, "--memory-limit", "4kB")
    trials.fails(result, path, "NaN or infinite, at row 50, column 1")
    lines[50] = "nan 2:1"
    path.write_text("\n".join(lines))
    result = trials.classify(path, "--memory-limit", "4kB")
    trials.fails(result, path, "the label of row 50 (from 0) is not finite")


def test_losses_of_pairs_need_all_rows(trials, monkeypatch):
    monkeypatch.setattr(PartiallyFairClassifier, "fit", REAL_FIT)
    path = trials.save(".npy")
    result = trials.classify(path, "--loss", "auc", "--memory-limit", "4kB")
    trials.fails(result, "--loss auc", 'raise --memory-limit, or use "logistic"')
