"""Every failure of `scalefair pca`: one line, and the older result untouched."""

import errno
import io
import os

import numpy as np
import pytest
from scipy import sparse

from scalefair.cli import _feature_store, _output, _pca_output
from scalefair.decomposition import FairPCA


def edited(older, replace, by, name="bad.csv"):
    """A table in which the line 5 is changed."""
    lines = older.csv.read_text().splitlines()
    fields = lines[4].split(",")
    fields[replace] = by
    lines[4] = ",".join(fields)
    return older.write(name, lines)


@pytest.mark.parametrize(
    "name", ["no.csv", "no.csv.gz", "no.npy", "no.npz", "no.parquet", "no.xyz"]
)
def test_missing_file(older_components, name):
    older = older_components
    older.fails(older.pca(name, groups=older.column), f"{name}: no such file")


@pytest.mark.parametrize("name", ["d.csv", "d.npy", "d.npz", "d.parquet"])
def test_folder_instead_of_a_file(older_components, name):
    older = older_components
    (older.folder / name).mkdir()
    result = older.pca(older.folder / name, groups=older.column)
    older.fails(result, name, "is a folder")


@pytest.mark.parametrize("name", ["rows.csv", "rows.npy", "rows.npz"])
def test_unreadable_file(older_components, monkeypatch, name):
    older = older_components
    data = older.folder / name
    real_open = open

    def refuse(path, *args, **kwargs):
        if str(path) == str(data):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real_open(path, *args, **kwargs)

    monkeypatch.setattr("builtins.open", refuse)
    older.fails(older.pca(data, groups=older.column), f"{data}: no permission to read")


def test_unknown_extension(older_components):
    older = older_components
    path = older.write("rows.json", ["{}"])
    line = older.fails(older.pca(path, groups=older.column), "unknown extension")
    for extension in (".csv", ".parquet", ".npy", ".npz"):
        assert extension in line


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.csv.gz"])
def test_damaged_file(older_components, name):
    older = older_components
    path = older.folder / name
    path.write_bytes(b"\x1f\x8b\x08\x00 neither this nor that")
    older.fails(older.pca(path, groups=older.column), name, "damaged")


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.arange(5.0), "two-dimensional"),
        (np.ones((3, 2)) * 1j, "real numbers"),
        (np.ones((0, 2)), "is empty"),
    ],
)
def test_arrays_that_are_no_rows(older_components, array, words):
    older = older_components
    np.save(older.npy, array)
    older.fails(older.pca(older.npy, groups=older.column), words)


@pytest.mark.parametrize("text", ["", "# only a comment\n", "a,b\n"])
def test_empty_tables(older_components, text):
    older = older_components
    path = older.folder / "empty.csv"
    path.write_text(text)
    line = older.fails(older.pca(path, groups="a"), str(path))
    assert "is empty" in line or "no rows below the header" in line


@pytest.mark.parametrize(
    ("column", "field", "words"),
    [
        (0, "tall", "is 'tall', which is not a number. Leave the column out with"),
        (1, "", "(weight) has no value. Fill in missing values or leave the row out"),
        (3, "NA", "column 4 (age) has no value. Fill in"),
        (3, "nan", "or the column with --drop age."),
        (4, "inf", "column 5 (income) is inf; features must be finite"),
        (4, "1_000", "column 5 (income) is '1_000', which is not a number"),
        (2, "", "column 3 (sex) has no value, but holds the groups. Give the row"),
        (5, "1,2", "expected 6 fields as in the header, found 7"),
        (5, '"1', "unreadable line"),
    ],
)
def test_bad_field(older_components, column, field, words):
    older = older_components
    path = edited(older, column, field)
    older.fails(older.pca(path), f"{path}:5: ", words)


def test_not_finite_in_a_standardized_table(older_components):
    older = older_components
    older.fails(older.pca(edited(older, 3, "nan"), "--standardize"), "has no value")


def test_columns_of_words_are_listed_at_once(older_components):
    older = older_components
    lines = ["a,job,b,home town,sex", "1,clerk,2,Rome,f", "3,cook,4,Oslo,m"]
    path = older.write("words.csv", lines)
    line = older.fails(older.pca(path), f"{path}:2: 2 columns are not numbers: job, ")
    assert "--drop job --drop 'home town'" in line
    lines = ["1,clerk,2,Rome,f", "3,cook,4,Oslo,m"]
    path = older.write("plain.csv", lines)
    line = older.fails(older.pca(path, groups="5"), "--drop 2 --drop 4")
    assert line.endswith("if the line is a header, pass --header.")
    result = older.pca(path, "--drop", 2, "--drop", 4, groups="5", r=1)
    assert result.exit_code != 1, result.output


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("options", [(), ("--standardize",)])
@pytest.mark.parametrize("solver", ["gram", "matrix_free"])
def test_not_finite_in_an_array(older_components, value, options, solver):
    older = older_components
    older.X[7, 1] = value
    np.save(older.npy, older.X)
    options = (*options, "--solver", solver)
    result = older.pca(older.npy, *options, groups=older.column)
    older.fails(result, f"{older.npy}: ", "NaN or infinite", "row 7, column 1")
    sparse.save_npz(older.npz, sparse.csr_array(older.X))
    result = older.pca(older.npz, *options, groups=older.column)
    older.fails(result, f"{older.npz}: ", "row 7, column 1")


def test_columns_too_large_to_standardize(older_components):
    older = older_components
    lines = ["a,b,sex", *(f"{i},{(-1) ** i}e308,{'fm'[i % 2]}" for i in range(10))]
    path = older.write("large.csv", lines)
    result = older.pca(path, "--standardize", r=1)
    older.fails(result, path, "cannot be standardized", "column b are too large")
    older.X[:, 1] = np.where(older.sexes == "f", 1e308, -1e308)
    np.save(older.npy, older.X)
    for limit in ("1GB", "1kB"):
        options = ("--standardize", "--memory-limit", limit)
        result = older.pca(older.npy, *options, groups=older.column)
        older.fails(result, older.npy, "cannot be standardized", "column x1 are")


def test_more_components_than_features(older_components):
    older = older_components
    line = older.fails(older.pca(r=6), f"{older.csv}: -r 6 must be at most", "5.")
    assert "n_components" not in line
    assert "n_features" not in line


def test_one_group(older_components):
    older = older_components
    same = older.write("same.txt", ["all"] * 120)
    older.fails(
        older.pca(older.npy, groups=same), f"{same}: all rows are in one group, 'all'"
    )
    lines = older.csv.read_text().replace(",m,", ",f,").splitlines()
    path = older.write("women.csv", lines)
    older.fails(older.pca(path), f"column sex of {path}: all rows are in one group")


def test_numbers_instead_of_groups(older_components):
    older = older_components
    lines = ["a,b", *(f"{i},{i % 3}" for i in range(1200))]
    path = older.write("long.csv", lines)
    older.fails(older.pca(path, groups="a"), "column a of", "1,200 different values")


def test_neither_column_nor_file(older_components):
    older = older_components
    line = older.fails(older.pca(groups="gender"), "gender: neither a column of")
    assert "(columns: height, weight, sex, age, income, steps)" in line
    plain = older.write("plain.csv", ["1,2,f", "3,4,m"])
    older.fails(older.pca(plain, groups="9"), "columns: 1 to 3, there is no header")
    for data in (older.npy, older.npz):
        older.fails(older.pca(data, groups="sex"), "sex: no such file", "no names")


def test_column_named_twice(older_components):
    older = older_components
    path = older.write("twice.csv", ["a,sex,sex", "1,f,2", "3,m,4"])
    older.fails(older.pca(path), "2 columns are named 'sex'")


def test_groups_that_do_not_fit_the_rows(older_components):
    older = older_components
    short = older.write("short.txt", older.sexes[:-1])
    for data, options in ((older.npy, ()), (older.csv, ("--drop", "sex"))):
        result = older.pca(data, *options, groups=short)
        older.fails(result, "has 119 groups for the 120 rows", "one per row")
    pairs = older.write("pairs.csv", [f"{i},f" for i in range(1, 121)])
    result = older.pca(older.npy, groups=pairs)
    older.fails(result, "'120' is no row", "row numbers, 0 to 119")


@pytest.mark.parametrize(
    ("ids", "words"),
    [((1, 2, 1), ":4: the id 1 is on line 2"), ((1, "", 2), ":3: the id is empty")],
)
def test_bad_ids(older_components, ids, words):
    older = older_components
    lines = ["id,a,b", *(f"{x},{i},2" for i, x in enumerate(ids))]
    path = older.write("ids.csv", lines)
    groups = older.write("three.txt", ["f", "m", "f"])
    older.fails(older.pca(path, groups=groups), f"{path}{words}")


@pytest.mark.parametrize("option", ["--drop", "--id-column"])
def test_no_such_column(older_components, option):
    older = older_components
    line = older.fails(older.pca(older.csv, option, "town"), "no column is named")
    assert "'town'" in line


def test_no_features_left(older_components):
    older = older_components
    path = older.write("two.csv", ["sex,a", "f,1", "m,2"])
    older.fails(older.pca(path, "--drop", "a"), "no column is left as a feature")


@pytest.mark.parametrize(
    "option", [("--drop", "1"), ("--id-column", "1"), ("--keep-groups",)]
)
def test_arrays_have_no_columns_to_name(older_components, option):
    older = older_components
    result = older.pca(older.npy, *option, groups=older.column)
    assert result.exit_code == 2
    assert f"{option[0]} applies to tables only" in result.stderr


def test_groups_of_a_file_cannot_be_kept(older_components):
    older = older_components
    result = older.pca(older.csv, "--keep-groups", groups=older.column)
    assert result.exit_code == 2
    assert "--keep-groups applies to --groups COLUMN only" in result.stderr


def test_kept_groups_are_numbers(older_components):
    older = older_components
    older.fails(older.pca(older.csv, "--keep-groups"), "(sex) is 'm', which is not")
    path = older.write("coded.csv", ["a,sex", "1,1_0", "2,2_0", "3,1_0"])
    result = older.pca(path, "--keep-groups", r=1)
    older.fails(result, "(sex) is '1_0', which is not a number")


@pytest.mark.parametrize(
    "options",
    [
        ("-r", "0"),
        ("-r", "two"),
        ("--tol", "0"),
        ("--tol", "nan"),
        ("--max-iter", "0"),
        ("--solver", "lanczos"),
        ("--centering", "none"),
        ("--unknown",),
    ],
)
def test_wrong_usage(older_components, options):
    result = older_components.pca(older_components.csv, *options)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_required_options(older_components):
    for arguments in (("--groups", "sex"), ("-r", 2), ("-r", 2, "--groups", "sex")):
        result = older_components.invoke("pca", older_components.csv, *arguments)
        assert result.exit_code == 2
        assert "Missing option" in result.stderr


def test_names_of_outputs(older_components):
    older = older_components
    for options, words in (
        (("-o", older.folder / "c.csv"), "the format is .npz"),
        (("--scores", older.folder / "s.txt"), "the format is .npy"),
        (("--report", older.output), "--output and --report name the same file"),
    ):
        result = older.pca(older.csv, *options)
        assert result.exit_code == 2
        assert words in " ".join(result.stderr.split())


def never(*args, **kwargs):
    raise AssertionError("computed although the output cannot be written")


def test_output_is_checked_before_reading(older_components, monkeypatch):
    older = older_components
    monkeypatch.setattr("scalefair.cli._feature_reader.read_features", never)
    missing = older.folder / "missing" / "c.npz"
    older.fails(older.pca(older.csv, "-o", missing), missing, "does not exist")
    (older.folder / "folder.npz").mkdir()
    folder = older.folder / "folder.npz"
    older.fails(older.pca(older.csv, "-o", folder), "is a folder")
    older.fails(older.pca(older.npz, "-o", older.npz), "is an input file")
    older.fails(older.pca(older.npy, "--scores", older.npy), "is an input file")
    older.fails(
        older.pca(older.npy, "--report", older.column, groups=older.column),
        "is an input file",
    )
    monkeypatch.setattr(_output.os, "access", lambda *_: False)
    older.fails(older.pca(older.npz), older.output, "no permission to write")


@pytest.mark.parametrize("name", ["write_scores", "write_arrays"])
def test_disk_full(older_components, monkeypatch, name):
    older = older_components

    def fill(file, *_):
        file.write(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(_pca_output, name, fill)
    result = older.pca(older.csv, "--scores", older.scores)
    where = older.scores if name == "write_scores" else older.output
    older.fails(result, where, "no space left")
    assert not older.scores.exists()


class FullDisk(io.BytesIO):
    """File on a disk without space, with something left to be flushed."""

    def write(self, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self):
        super().close()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_disk_full_while_reading(older_components, monkeypatch):
    older = older_components
    monkeypatch.setattr(_feature_store, "_LIMIT", 1000)

    monkeypatch.setattr(_feature_store, "_open_nameless", lambda _: FullDisk())
    before = set(older.folder.iterdir())
    older.fails(older.pca(), older.folder, "no space left for a temporary copy")
    assert set(older.folder.iterdir()) == before


def test_not_enough_memory(older_components, monkeypatch):
    def fail(*args, **kwargs):
        raise MemoryError("Unable to allocate 80 GiB")

    monkeypatch.setattr(FairPCA, "fit", fail)
    older = older_components
    older.fails(older.pca(), "not enough memory", "80 GiB", "matrix_free")


@pytest.mark.parametrize("where", ["fit", "write", "read"])
def test_interrupt(older_components, monkeypatch, where):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    older = older_components
    if where == "fit":
        monkeypatch.setattr(FairPCA, "fit", interrupt)
    elif where == "write":
        monkeypatch.setattr(_pca_output, "write_scores", interrupt)
    else:
        monkeypatch.setattr(_feature_store.RowStore, "matrix", interrupt)
    result = older.pca(older.csv, "--scores", older.scores, "--report", older.report)
    assert older.fails(result, code=130) == "error: interrupted, nothing written"
    assert not older.scores.exists()
    assert not older.report.exists()


def test_internal_error(older_components, monkeypatch):
    def fail(*args, **kwargs):
        raise ZeroDivisionError("a\nbug")

    monkeypatch.setattr(FairPCA, "fit", fail)
    older = older_components
    older.fails(older.pca(), "ZeroDivisionError: a bug", "--debug", code=70)
    result = older.pca(older.csv, "--debug")
    assert "Traceback" in result.stderr
