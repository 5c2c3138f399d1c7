"""Every failure of `scalefair classify`: one line, and the older model untouched."""

import errno
import os

import numpy as np
import pytest
from scipy import sparse

from scalefair.cli import _classify_fit, _output
from scalefair.linear_model import PartiallyFairClassifier

OLD = b"an older model"
LINES = [
    "height,job,weight,sex,hired",
    *(
        f"{i % 7},{('clerk', 'cook')[i % 2]},{i % 5}.5,{'fm'[i % 3 > 0]},{i % 4 // 2}"
        for i in range(60)
    ),
]


class Older:
    """Rows in several formats, and an older model that failing runs must not touch."""

    def __init__(self, components):
        self.folder = components.folder
        self.write = components.write
        self.invoke = components.invoke
        self.output = self.folder / "model.joblib"
        self.output.write_bytes(OLD)
        self.report = self.folder / "report.json"
        self.csv = self.write("people.csv", LINES)
        self.X = np.array([[i % 7, i % 5] for i in range(60)], dtype=float)
        self.npy = self.folder / "people.npy"
        np.save(self.npy, self.X)
        self.npz = self.folder / "people.npz"
        sparse.save_npz(self.npz, sparse.csr_array(self.X))
        fields = [line.split(",") for line in LINES[1:]]
        self.sexes = self.write("sexes.csv", [row[3] for row in fields])
        self.labels = self.write("labels.csv", [row[4] for row in fields])
        self.svm = self.write(
            "people.svm", [f"{row[4]} 1:{row[0]} 2:{row[2]} 4:1" for row in fields]
        )

    def classify(self, data=None, *options, target="hired", groups="sex"):
        arguments = ["classify", data or self.csv, "--groups", groups]
        arguments += [] if target is None else ["--target", target]
        return self.invoke(*arguments, "-o", self.output, *options)

    def classify_array(self, data, *options, **roles):
        roles = {"target": self.labels, "groups": self.sexes, **roles}
        return self.classify(data, *options, **roles)

    def classify_svmlight(self, data, *options, groups=4):
        return self.classify(data, *options, target=None, groups=groups)

    def fails(self, result, *words, code=1):
        """Check that a run failed as it must, and return its one line."""
        assert result.exit_code == code, result.output
        assert result.stdout == ""
        line, *others = result.stderr.splitlines()
        assert others == []
        assert line.startswith("error: ")
        assert "Traceback" not in line
        for word in words:
            assert str(word) in line
        self.untouched()
        return line

    def refuses(self, result, *words):
        """Check that the usage was wrong."""
        assert result.exit_code == 2, result.output
        assert "Traceback" not in result.output
        for word in words:
            assert word in " ".join(result.stderr.split())
        self.untouched()

    def untouched(self):
        assert self.output.read_bytes() == OLD
        assert not self.report.exists()
        assert list(self.folder.glob(".*.tmp")) == []


@pytest.fixture
def older(components):
    return Older(components)


def edited(older, column, field, line=4):
    """A table in which a line is changed."""
    lines = LINES.copy()
    fields = lines[line].split(",")
    fields[column] = field
    lines[line] = ",".join(fields)
    return older.write("bad.csv", lines)


@pytest.mark.parametrize(
    "name",
    ["no.csv", "no.csv.gz", "no.npy", "no.npz", "no.parquet", "no.svm", "no.xyz"],
)
def test_missing_file(older, name):
    target = None if name == "no.svm" else older.labels
    result = older.classify(name, target=target, groups=older.sexes)
    older.fails(result, f"{name}: no such file")


@pytest.mark.parametrize("name", ["d.csv", "d.npy", "d.npz", "d.svm"])
def test_folder_instead_of_a_file(older, name):
    (older.folder / name).mkdir()
    target = None if name == "d.svm" else older.labels
    result = older.classify(older.folder / name, target=target, groups=older.sexes)
    older.fails(result, name, "is a folder")


def test_unknown_extension(older):
    path = older.write("rows.json", ["{}"])
    line = older.fails(older.classify(path), "unknown extension")
    for extension in (".csv", ".parquet", ".svm", "--svmlight", ".npy", ".npz"):
        assert extension in line


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.csv.gz", "x.svm.gz"])
def test_damaged_file(older, name):
    path = older.folder / name
    path.write_bytes(b"\x1f\x8b\x08\x00 neither this nor that")
    target = None if name == "x.svm.gz" else older.labels
    result = older.classify(path, target=target, groups=older.sexes)
    older.fails(result, name, "damaged")


@pytest.mark.parametrize("name", ["empty.csv", "empty.svm"])
@pytest.mark.parametrize("text", ["", "# only a comment\n"])
def test_empty_files(older, name, text):
    path = older.folder / name
    path.write_text(text)
    target = None if name == "empty.svm" else "y"
    older.fails(older.classify(path, target=target), path, "is empty")


@pytest.mark.parametrize(
    ("column", "field", "words"),
    [
        (0, "tall", "is 'tall', which is not a number"),
        (0, "tall", "Or pass --categorical for a column of categories."),
        (0, "", "(height) has no value. Fill in missing values"),
        (2, "inf", "(weight) is inf; features must be finite"),
        (1, "", "(job) has no value. Give it one, for example `unknown`, or leave"),
        (1, "", "or the column with --drop job."),
        (3, "", "(sex) has no value. Give it one"),
        (4, "", "(hired) has no value. Give it one"),
        (4, "1,2", "expected 5 fields as in the header, found 6"),
    ],
)
def test_bad_field(older, monkeypatch, column, field, words):
    # A word in the first rows would make a column one of words.
    monkeypatch.setattr("scalefair.cli._classify_columns._PEEK", 2)
    path = edited(older, column, field)
    older.fails(older.classify(path), f"{path}:5: ", words)


def test_roles_have_values(older):
    path = edited(older, 4, "")
    line = older.fails(older.classify(path), "has no value")
    assert "--drop" not in line


@pytest.mark.parametrize(
    ("option", "name"), [("target", "outcome"), ("groups", "gender")]
)
def test_neither_column_nor_file(older, option, name):
    line = older.fails(older.classify(**{option: name}), f"{name}: neither a column of")
    assert "(columns: height, job, weight, sex, hired)" in line
    assert f"--{option}" in line
    plain = older.write("plain.csv", LINES[1:])
    roles = {"target": "5", "groups": "4", option: "9"}
    older.fails(older.classify(plain, **roles), "columns: 1 to 5, there is no header")
    for data in (older.npy, older.npz):
        result = older.classify_array(data, **{option: name})
        older.fails(result, f"{name}: no such file", "no names", f"--{option}")


def test_labels_are_two(older):
    result = older.classify(target="height")
    older.fails(result, "column height of", "7 different labels (0, 1, 2")
    same = older.write("same.txt", ["yes"] * 60)
    result = older.classify_array(older.npy, target=same)
    older.fails(result, f"{same}: all rows have the label 'yes'")


@pytest.mark.parametrize("name", ["fractions.npy", "fractions.txt"])
def test_labels_are_no_fractions(older, name):
    labels = older.folder / name
    values = np.tile([0.0, 1.5], 30)
    np.save(labels, values) if name.endswith("npy") else np.savetxt(labels, values)
    result = older.classify_array(older.npy, target=labels)
    older.fails(result, f"{labels}: the labels 0.0, 1.5 are fractions")


def test_groups_are_two(older):
    same = older.write("same.txt", ["all"] * 60)
    result = older.classify_array(older.npy, groups=same)
    older.fails(result, f"{same}: all rows are in one group, 'all'")


def test_numbers_instead_of_groups(older):
    lines = ["a,b,y", *(f"{i},{i % 3},{i % 2}" for i in range(1200))]
    path = older.write("long.csv", lines)
    result = older.classify(path, target="y", groups="a")
    older.fails(result, "column a of", "1,200 different values")


def test_ids_instead_of_categories(older):
    lines = ["a,b,g,y", *(f"p{i},{i % 3},{i % 2},{i % 2}" for i in range(1200))]
    path = older.write("long.csv", lines)
    result = older.classify(path, target="y", groups="g")
    older.fails(result, "column a has 1,200 different words", "--drop a")


@pytest.mark.parametrize("option", ["target", "groups"])
def test_files_that_do_not_fit_the_rows(older, option):
    short = older.write("short.txt", ["0", "1"] * 20)
    word = {"target": "label", "groups": "group"}[option]
    result = older.classify_array(older.npy, **{option: short})
    older.fails(result, f"{short}: has 40 {word}s for the 60 rows")
    longer = older.write("group.txt", ["a", *["0", "1"] * 30])
    line = older.fails(
        older.classify_array(older.npy, **{option: longer}), f"{longer}: has 61 {word}s"
    )
    assert line.endswith(f"If the first is a header, pass --{option}-header.")
    result = older.classify_array(older.npy, f"--{option}-header", **{option: longer})
    assert "61" not in result.output


def test_same_column_twice(older):
    older.refuses(older.classify(target="sex"), "name the same column")


def test_no_features_left(older):
    drop = [x for name in ("height", "job", "weight") for x in ("--drop", name)]
    older.fails(older.classify(older.csv, *drop), "no column is left as a feature")
    drop = [x for number in (1, 2, 3) for x in ("--drop", number)]
    result = older.classify_svmlight(older.svm, *drop)
    older.fails(result, "no feature is left")


@pytest.mark.parametrize("option", ["--drop", "--id-column", "--categorical"])
def test_no_such_column(older, option):
    older.fails(older.classify(older.csv, option, "town"), "no column is named 'town'")


@pytest.mark.parametrize("name", ["npy", "npz", "svm"])
@pytest.mark.parametrize(
    "option", [("--categorical", "1"), ("--id-column", "1"), ("--header",)]
)
def test_options_of_tables(older, name, option):
    data = getattr(older, name)
    run = older.classify_svmlight if name == "svm" else older.classify_array
    older.refuses(run(data, *option), f"{option[0]} does not apply to")


def test_options_of_arrays(older):
    for option in (("--drop", "1"), ("--keep-groups",)):
        result = older.classify_array(older.npy, *option)
        older.refuses(result, f"{option[0]} does not apply to arrays")
    result = older.classify(older.csv, "--keep-groups", groups=older.sexes)
    older.refuses(result, "--keep-groups applies to --groups COLUMN only")
    result = older.classify_svmlight(older.svm, "--keep-groups", groups=older.sexes)
    older.refuses(result, "--keep-groups applies to --groups NUMBER only")


def test_target_is_required_but_for_svmlight(older):
    for data in (older.csv, older.npy):
        result = older.classify(data, target=None, groups=older.sexes)
        older.refuses(result, "Missing option '--target'")
    result = older.classify(older.svm, target="1", groups="4")
    older.refuses(result, "--target does not apply to files in svmlight format")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("yes 1:2", "the label 'yes' is not a number"),
        ("1 1:2 height:3", "'height:3' is not number:value"),
        ("1 1:2 3", "'3' is not number:value"),
        ("1 3:1 2:1", "feature 2 comes after feature 3"),
        ("1 1:x", "'1:x' is not number:value"),
    ],
)
def test_bad_lines_of_svmlight(older, line, words):
    path = older.write("bad.svm", ["1 1:2 4:1", "0 2:1", line])
    older.fails(older.classify_svmlight(path), f"{path}:3: ", words)


@pytest.mark.parametrize(
    ("line", "words"),
    [("1 1:nan", "NaN or infinite, in row 1"), ("inf 1:2", "label of row 1 (from 0)")],
)
def test_not_finite_in_svmlight(older, line, words):
    path = older.write("bad.svm", ["1 1:2 4:1", line])
    older.fails(older.classify_svmlight(path), f"{path}: ", words)


def test_features_of_svmlight(older):
    result = older.classify_svmlight(older.svm, groups=9)
    older.fails(result, "has no feature 9: the features are 1 to 4", "./9")
    result = older.classify_svmlight(older.svm, groups=0)
    older.fails(result, "has no feature 0")
    result = older.classify_svmlight(older.svm, groups="sex")
    older.fails(result, "sex: neither the number of a feature", "1 to 4")
    result = older.classify_svmlight(older.svm, "--drop", "job", groups=older.sexes)
    older.fails(result, "--drop job must be the number of a feature, 1 to 4")
    result = older.classify_svmlight(older.svm)
    older.fails(result, "feature 4 of", "all rows are in one group, 1")


@pytest.mark.parametrize("options", [(), ("--memory-limit", "1B")])
def test_svmlight_without_features(older, options):
    path = older.write("labels.svm", ["1", "0"] * 30)
    result = older.classify_svmlight(path, *options)
    older.fails(result, path, "no features" if not options else "0 features")


def test_not_finite_in_an_array(older):
    older.X[7, 1] = np.nan
    np.save(older.npy, older.X)
    sparse.save_npz(older.npz, sparse.csr_array(older.X))
    for data in (older.npy, older.npz):
        older.fails(older.classify_array(data), f"{data}: ", "row 7, column 1")


@pytest.mark.parametrize("blocks", [(), ("--memory-limit", "500")])
def test_values_that_the_classifier_takes_for_no_groups(older, blocks):
    np.save(older.npy, older.X)
    ages = older.folder / "ages.npy"
    np.save(ages, np.arange(60) % 20 + 0.5)
    options = (*blocks, "--max-groups", 19)
    result = older.classify_array(older.npy, *options, groups=ages)
    line = older.fails(result, "20 different values", "--max-groups 19", "a number")
    assert "--max-groups 20 if" in line
    assert "max_groups" not in line
    np.save(ages, np.arange(60) // 59)
    result = older.classify_array(older.npy, *blocks, groups=ages)
    line = older.fails(result, "1 of the 2 groups", "--min-group-size 2: 1 (1).")
    assert "_size" not in line


def test_gradients_larger_than_the_memory(older, monkeypatch):
    monkeypatch.setattr("scalefair._memory.available_memory", lambda: 1000)
    result = older.classify_array(older.npy)
    older.fails(result, older.npy, "not enough memory", "40 constraints of 2 groups")


def test_numbers_too_large_to_compute_with(older, monkeypatch):
    def overflow(*args, **kwargs):
        raise FloatingPointError("plus returned a value that is not finite.")

    monkeypatch.setattr(PartiallyFairClassifier, "fit", overflow)
    result = older.classify_array(older.npy)
    older.fails(result, older.npy, "the numbers are too large", "divide columns")


def test_columns_too_large_to_standardize(older):
    older.X[:, 1] = np.where(np.arange(60) % 2, 1e308, -1e308)
    np.save(older.npy, older.X)
    result = older.classify_array(older.npy, "--standardize")
    older.fails(result, "cannot be standardized", "column x1")


def test_test_needs_the_files_of_its_own(older):
    result = older.classify_array(older.npy, "--test", older.npy)
    older.refuses(result, "Missing option '--test-target'")
    options = ("--test", older.npy, "--test-target", older.labels)
    result = older.classify_array(older.npy, *options)
    older.refuses(result, "Missing option '--test-groups'")
    for option in ("--test-target", "--test-groups"):
        older.refuses(older.classify(older.csv, option, "sex"), "with --test only")


@pytest.mark.parametrize(
    ("column", "field", "words"),
    [
        (4, "7", "the label 7 does not occur in TRAIN (known: 0, 1)"),
        (3, "x", "the group 'x' does not occur in TRAIN (known: 'f', 'm')"),
        (0, "tall", "(height) is 'tall', which is not a number"),
    ],
)
def test_bad_test(older, column, field, words):
    path = edited(older, column, field)
    older.fails(older.classify(older.csv, "--test", path), str(path), words)


def test_test_of_other_columns(older):
    lines = [line.rpartition(",")[0] for line in LINES]
    path = older.write("short.csv", lines)
    older.fails(older.classify(older.csv, "--test", path), "hired: neither a column of")
    lines = [line.split(",", 1)[1] for line in LINES]
    path = older.write("short.csv", lines)
    result = older.classify(older.csv, "--test", path)
    older.fails(result, f"{path}: has no column height, which is a feature in TRAIN")
    plain = older.write("plain.csv", LINES[1:])
    roles = {"target": "5", "groups": "4"}
    options = ("--test", older.csv, "--test-target", "hired", "--test-groups", "sex")
    result = older.classify(plain, *options, **roles)
    older.fails(result, "TEST has a header and TRAIN has none")
    wide = older.write("wide.csv", [f"{line},1" for line in LINES[1:]])
    result = older.classify(plain, "--test", wide, **roles)
    older.fails(result, "has 6 columns and TRAIN has 5")
    older.fails(older.classify(older.csv, "--test", older.npy), "in another format")
    np.save(older.npy, older.X)
    other = older.folder / "other.npy"
    np.save(other, older.X[:, :1])
    options = ("--test", other, "--test-target", older.labels)
    result = older.classify_array(older.npy, *options, "--test-groups", older.sexes)
    older.fails(result, f"{other}: has 1 features, but TRAIN has 2")


def test_test_of_one_group(older):
    one = older.write("f.csv", [LINES[0], *(x for x in LINES[1:] if ",f," in x)])
    result = older.classify(older.csv, "--test", one)
    older.fails(result, f"column sex of {one}: all rows are in one group, 'f'")


def test_svmlight_test_counts_as_train_does(older):
    zero = older.write("zero.svm", ["1 0:1 4:1", "0 1:1"])
    train = older.write("train.svm", ["1 1:1 4:1", "0 1:1"])
    result = older.classify_svmlight(train, "--test", zero)
    older.fails(result, f"{zero}: has a feature 0", "TRAIN count from 1")


@pytest.mark.parametrize(
    "options",
    [
        ("--interval", "0.3"),
        ("--interval", "0.3,0.1"),
        ("--interval", "0,1.5"),
        ("--interval", "a,b"),
        ("--kappa", "0"),
        ("--kappa", "nan"),
        ("--threshold", "inf"),
        ("--alpha", "-1"),
        ("--criterion", "medium"),
        ("--solver", "newton"),
        ("--n-thresholds", "0"),
        ("--unknown",),
    ],
)
def test_wrong_usage(older, options):
    older.refuses(older.classify(older.csv, *options))


def test_names_of_outputs(older):
    result = older.classify(older.csv, "-o", older.folder / "model.pkl")
    older.refuses(result, "the format is .joblib")
    result = older.classify(older.csv, "--report", older.output)
    older.refuses(result, "--output and --report name the same file")


def never(*args, **kwargs):
    raise AssertionError("computed although the output cannot be written")


def test_output_is_checked_before_reading(older, monkeypatch):
    monkeypatch.setattr("scalefair.cli._classify_reader.read_rows", never)
    missing = older.folder / "missing" / "m.joblib"
    older.fails(older.classify(older.csv, "-o", missing), missing, "does not exist")
    result = older.classify(older.csv, "--report", older.csv)
    older.fails(result, "is an input file")
    result = older.classify(older.csv, "--test", older.npy, "--report", older.npy)
    older.fails(result, "is an input file")
    result = older.classify_array(older.npy, "--report", older.labels)
    older.fails(result, "is an input file")
    monkeypatch.setattr(_output.os, "access", lambda *_: False)
    older.fails(older.classify(), older.output, "no permission to write")


@pytest.fixture
def trained(monkeypatch):
    """Training that takes no time."""

    class Trained:
        model, content, report, seconds = None, {}, {}, 0.0

    monkeypatch.setattr(_classify_fit, "train_classifier", lambda *_, **__: Trained)


def test_disk_full(older, monkeypatch, trained):
    def fill(file, *_):
        file.write(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(_classify_fit, "write_model", fill)
    result = older.classify(older.csv, "--report", older.report)
    older.fails(result, older.output, "no space left")


def test_interrupt(older, monkeypatch, trained):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(_classify_fit, "write_model", interrupt)
    result = older.classify(older.csv, "--report", older.report)
    line = older.fails(result, code=130)
    assert line == "error: interrupted, nothing written"


def test_not_enough_memory(older, monkeypatch):
    def fail(*args, **kwargs):
        raise MemoryError("Unable to allocate 80 GiB")

    monkeypatch.setattr(PartiallyFairClassifier, "fit", fail)
    older.fails(older.classify(), "not enough memory", "80 GiB", "--drop")


def test_the_estimator_refuses(older, monkeypatch):
    def refuse(*args, **kwargs):
        raise ValueError("inner_solver='ssg' cannot: raise max_iter or tol=0.1.")

    monkeypatch.setattr(PartiallyFairClassifier, "fit", refuse)
    line = older.fails(older.classify(), f"{older.csv}: --solver ssg cannot: raise")
    assert line.endswith("raise --max-iter or --tol 0.1.")


def test_internal_error(older, monkeypatch):
    def fail(*args, **kwargs):
        raise ZeroDivisionError("a\nbug")

    monkeypatch.setattr(PartiallyFairClassifier, "fit", fail)
    older.fails(older.classify(), "ZeroDivisionError: a bug", "--debug", code=70)
    assert "Traceback" in older.classify(older.csv, "--debug").stderr
