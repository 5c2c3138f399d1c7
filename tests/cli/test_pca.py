"""What `scalefair pca` computes and writes."""

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from scipy import sparse

from scalefair.cli import _feature_store, main
from scalefair.cli._pca_summary import group_rows, summary_rows
from scalefair.decomposition import FairPCA, GroupPCA


def fitted(components, X=None, r=2, **parameters):
    model = FairPCA(r, random_state=0, **parameters)
    X = components.X if X is None else X
    return model.fit(X, sensitive_features=components.sexes)


def zipped(components):
    path = components.folder / "rows.csv.gz"
    path.write_bytes(gzip.compress(components.csv.read_bytes()))
    return path, "sex"


def without_header(components):
    lines = components.csv.read_text().replace(",", "\t").splitlines()[1:]
    return components.write("plain.tsv", lines), "3"


def quoted(components):
    lines = components.csv.read_text().splitlines()
    lines = ['"' + line.replace(",", '", "') + '"' for line in lines]
    return components.write("quoted.csv", lines), "sex"


def npy_groups(components):
    path = components.folder / "groups.npy"
    np.save(path, components.sexes)
    return components.npy, path


FORMATS = {
    "csv": lambda c: (c.csv, "sex"),
    "csv.gz": zipped,
    "no header": without_header,
    "quoted": quoted,
    "npy": lambda c: (c.npy, c.column),
    "npy groups": npy_groups,
    "npz": lambda c: (c.npz, c.column),
}


@pytest.mark.parametrize("source", FORMATS)
def test_silent_and_right(components, source):
    data, groups = FORMATS[source](components)
    result = components.pca(data, groups=groups)
    assert (result.exit_code, result.output) == (0, "")
    found, model = components.arrays(), fitted(components)
    np.testing.assert_allclose(found["components"], model.components_, atol=1e-9)
    np.testing.assert_allclose(found["mean"], model.mean_, atol=1e-12)
    np.testing.assert_array_equal(found["scale"], np.ones(5))
    assert found["groups"].tolist() == ["f", "m"]
    assert found["group_counts"].tolist() == [70, 50]
    for name in (
        "group_losses",
        "group_reconstruction_errors",
        "dual_weights",
        "explained_variance",
    ):
        expected = getattr(model, f"{name}_")
        np.testing.assert_allclose(found[name], expected, rtol=1e-8)
    assert found["duality_gap"].shape == ()
    assert found["duality_gap"] <= 1e-8 * found["group_losses"].max()
    names = components.names if groups == "sex" else None
    numbers = [0, 1, 3, 4, 5] if groups == "3" else range(5)
    assert found["feature_names"].tolist() == (names or [f"x{i}" for i in numbers])


def test_same_rows_same_bits(components):
    components.pca()
    np.testing.assert_array_equal(
        components.arrays()["components"], fitted(components).components_
    )


def test_losses_of_plain_components(components):
    components.pca()
    plain = GroupPCA(2).fit(components.X, sensitive_features=components.sexes)
    np.testing.assert_allclose(
        components.arrays()["pca_group_losses"], plain.group_losses_, rtol=1e-9
    )


@pytest.fixture
def fits(monkeypatch):
    """What FairPCA was fitted to, and its parameters."""
    seen = []
    fit = FairPCA.fit

    def remember(model, X, *args, **kwargs):
        seen.append((X, model.get_params()))
        return fit(model, X, *args, **kwargs)

    monkeypatch.setattr(FairPCA, "fit", remember)
    return seen


def test_arrays_are_read_at_once(components, fits):
    """Not mapped: a file that is cut during the fit would end the process."""
    components.pca(components.npy, groups=components.column)
    components.pca(components.npz, groups=components.column)
    (rows, _), (sparse_rows, _) = fits
    assert type(rows) is np.ndarray
    assert sparse.issparse(sparse_rows)


@pytest.mark.parametrize("standardize", [(), ("--standardize",)])
def test_large_tables_are_kept_on_disk(components, fits, monkeypatch, standardize):
    components.pca(components.csv, *standardize)
    small = components.arrays()
    monkeypatch.setattr(_feature_store, "_LIMIT", 1000)
    before = set(components.folder.iterdir())
    result = components.pca(components.csv, *standardize, "--scores", components.scores)
    assert (result.exit_code, result.output) == (0, "")
    (in_memory, _), (on_disk, _) = fits
    assert not isinstance(in_memory, np.memmap)
    assert isinstance(on_disk, np.memmap)
    np.testing.assert_array_equal(on_disk, in_memory)
    assert set(components.folder.iterdir()) == before | {components.scores}
    found = components.arrays()
    for name, values in small.items():
        np.testing.assert_array_equal(found[name], values)


def standardized(X):
    std = X.std(axis=0, ddof=1)
    return (X - X.mean(axis=0)) / np.where(std > 0, std, 1)


@pytest.mark.parametrize("source", ["csv", "npy", "npz"])
def test_standardize(components, source):
    data, groups = FORMATS[source](components)
    options = ("--standardize", "--scores", components.scores)
    result = components.pca(data, *options, groups=groups)
    assert (result.exit_code, result.output) == (0, "")
    found, X = components.arrays(), components.X
    model = fitted(components, standardized(X))
    np.testing.assert_allclose(found["components"], model.components_, atol=1e-8)
    np.testing.assert_allclose(found["group_losses"], model.group_losses_, rtol=1e-8)
    np.testing.assert_allclose(found["mean"], X.mean(axis=0))
    np.testing.assert_allclose(found["scale"], X.std(axis=0, ddof=1))
    scores = np.load(components.scores)
    np.testing.assert_allclose(
        scores, (X - found["mean"]) / found["scale"] @ found["components"].T, atol=1e-9
    )


def test_constant_columns_are_not_scaled(components, fits):
    components.X[:, 2] = 0.1  # whose mean is not 0.1
    np.save(components.npy, components.X)
    components.pca(components.npy, "--standardize", groups=components.column)
    assert components.arrays()["scale"][2] == 1
    assert np.abs(fits[0][0][:, 2]).max() < 1e-15


def test_standardized_sparse_rows_stay_sparse(components, fits):
    components.pca(components.npz, "--standardize", groups=components.column)
    matrix = fits[0][0]
    assert sparse.issparse(matrix)
    assert matrix.nnz == np.count_nonzero(components.X)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16])
def test_scores(components, dtype):
    X = components.X.astype(dtype)
    np.save(components.npy, X)
    options = ("--scores", components.scores)
    result = components.pca(components.npy, *options, groups=components.column)
    assert (result.exit_code, result.output) == (0, "")
    scores = np.load(components.scores, allow_pickle=False)
    assert scores.dtype == (np.float32 if dtype == np.float32 else np.float64)
    np.testing.assert_array_equal(scores, fitted(components, X).transform(X))


def test_groups_file_may_name_rows_by_id(components):
    lines = components.csv.read_text().splitlines()
    named = [f"p{i},{line}" for i, line in enumerate(lines[1:])]
    data = components.write("named.csv", ["user_id," + lines[0], *named])
    pairs = [f"p{i},{sex}" for i, sex in enumerate(components.sexes)]
    groups = components.write("pairs.csv", [*reversed(pairs), "stranger,f"])
    result = components.pca(data, "--drop", "sex", groups=groups)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == (
        f"note: {groups}: 1 id(s) are not in {data} and were ignored.\n"
    )
    by_file = components.arrays()
    components.pca(components.csv)
    for name, values in components.arrays().items():
        np.testing.assert_array_equal(by_file[name], values)


def test_groups_file_without_ids(components):
    result = components.pca(components.csv, "--drop", "sex", groups=components.column)
    assert (result.exit_code, result.output) == (0, "")
    np.testing.assert_array_equal(
        components.arrays()["components"], fitted(components).components_
    )


def test_a_column_comes_before_a_file(older_components, monkeypatch):
    older = older_components
    monkeypatch.chdir(older.folder)
    older.write("sex", ["f", "m"])
    result = older.pca(older.csv, "--drop", "sex", groups="./sex")
    older.fails(result, "has 2 groups for the 120 rows")
    assert older.pca(older.csv, groups="sex").exit_code == 0
    assert older.arrays()["group_counts"].tolist() == [70, 50]


def test_drop_ids_and_kept_groups(components):
    lines = [
        "id,a,b,unit,age group,c",
        *(
            f"{i},{x},{y},cm,{int(s == 'f')},{z}"
            for i, (x, y, z, *_), s in zip(
                range(120), components.X.tolist(), components.sexes, strict=True
            )
        ),
    ]
    data = components.write("mixed.csv", lines)
    assert components.pca(data, "--drop", "unit", groups="age group").exit_code == 0
    assert components.arrays()["feature_names"].tolist() == ["a", "b", "c"]
    options = ("--drop", "unit", "--drop", "b", "--keep-groups")
    result = components.pca(data, *options, groups="age group")
    assert (result.exit_code, result.output) == (0, "")
    found = components.arrays()
    assert found["feature_names"].tolist() == ["a", "age group", "c"]
    assert found["groups"].tolist() == ["0", "1"]
    age = components.sexes == "f"
    X = np.column_stack([components.X[:, 0], age, components.X[:, 2]])
    np.testing.assert_allclose(
        found["components"], fitted(components, X).components_, atol=1e-9
    )
    components.pca(data, "--drop", "unit", "--id-column", "a", groups="age group")
    assert components.arrays()["feature_names"].tolist() == ["id", "b", "c"]


def test_three_groups_of_numbers(components):
    groups = components.folder / "three.npy"
    values = np.arange(120) % 3 + 7
    np.save(groups, values)
    result = components.pca(components.npy, groups=groups, r=3)
    assert result.exit_code == 0
    found = components.arrays()
    model = FairPCA(3, random_state=0)
    model.fit(components.X, sensitive_features=values)
    assert found["groups"].tolist() == [7, 8, 9]
    np.testing.assert_allclose(found["group_losses"], model.group_losses_, rtol=1e-7)


def test_report(components):
    options = ("--report", components.report, "--standardize", "--solver", "gram")
    assert components.pca(components.csv, *options).exit_code == 0
    report = components.read_report()
    assert report["command"] == "pca"
    assert report["parameters"] == {
        "n_components": 2,
        "solver": "gram",
        "centering": "global",
        "tol": 1e-8,
        "max_iter": 100,
        "random_state": 0,
        "standardize": True,
    }
    assert report["input"] == {
        "rows": str(components.csv),
        "groups_from": f"column sex of {components.csv}",
        "n_rows": 120,
        "n_features": 5,
        "groups": {"f": 70, "m": 50},
    }
    assert set(report["seconds"]) == {"read", "fit"}
    assert min(report["seconds"].values()) > 0
    assert report["peak_memory_bytes"] > 10_000_000
    assert report["solver"] == "gram"
    assert report["converged"] is True
    X = standardized(components.X)
    model = fitted(components, X, solver="gram")
    plain = GroupPCA(2).fit(X, sensitive_features=components.sexes)
    assert report["n_iter"] == model.n_iter_
    assert report["fairness_ratio_gap"] <= 1e-7
    assert report["duality_gap"] <= 1e-8
    # Variance of standardized rows: the error is what the components leave of it.
    total = 5 * 119 / 120
    assert report["reconstruction_error"] == pytest.approx(
        total - model.explained_variance_.sum()
    )
    assert report["pca_reconstruction_error"] == pytest.approx(
        total - plain.explained_variance_.sum()
    )
    assert report["error_increase"] == pytest.approx(
        report["reconstruction_error"] / report["pca_reconstruction_error"] - 1
    )
    for i, entry in enumerate(report["groups"]):
        assert entry == {
            "group": "fm"[i],
            "n_rows": [70, 50][i],
            "loss": pytest.approx(model.group_losses_[i]),
            "reconstruction_error": pytest.approx(
                model.group_reconstruction_errors_[i]
            ),
            "dual_weight": pytest.approx(model.dual_weights_[i], abs=1e-6),
            "pca_loss": pytest.approx(plain.group_losses_[i]),
            "pca_reconstruction_error": pytest.approx(
                plain.group_reconstruction_errors_[i]
            ),
        }


def test_matrix_free_knows_no_plain_losses(components):
    options = ("--solver", "matrix_free", "--report", components.report)
    assert components.pca(components.csv, *options).exit_code == 0
    report = components.read_report()
    assert report["solver"] == "matrix_free"
    assert "error_increase" not in report
    assert "pca_loss" not in report["groups"][0]
    assert "pca_group_losses" not in components.arrays()
    assert group_rows(report["groups"])[0] == [
        *("group", "rows", "loss,\nfair PCA", "error,\nfair PCA"),
    ]


def test_all_components_lose_nothing(components):
    options = ("--report", components.report)
    assert components.pca(components.csv, *options, r=5).exit_code == 0
    report = components.read_report()
    assert max(entry["loss"] for entry in report["groups"]) < 1e-9
    summary_rows(report)  # no division by an error of zero


def test_no_convergence_is_exit_code_3(older_components):
    older = older_components
    options = ("--max-iter", 1, "--report", older.report)
    result = older.pca(older.csv, *options)
    assert result.exit_code == 3, result.output
    assert result.stdout == ""
    line, *others = result.stderr.splitlines()
    assert others == []
    assert line.startswith("warning: ")
    assert "--tol 1e-08" in line
    assert "--max-iter" in line
    assert older.arrays()["components"].shape == (2, 5)  # written all the same
    assert older.read_report()["converged"] is False


def test_every_option_of_the_estimator_arrives(components, fits):
    options = "--solver gram --centering group --tol 1e-6 --max-iter 50"
    options += " --random-state 7"
    assert components.pca(components.csv, *options.split(), r=3).exit_code == 0
    assert fits[0][1] == {
        "n_components": 3,
        "solver": "gram",
        "centering": "group",
        "tol": 1e-6,
        "max_iter": 50,
        "random_state": 7,
    }


def test_options_are_those_of_the_estimator():
    options = {param.name: param for param in main.commands["pca"].params}
    defaults = FairPCA().get_params()
    assert set(defaults) <= set(options)
    for name in ("solver", "centering", "tol", "max_iter"):
        assert options[name].default == defaults[name]
    for name in ("solver", "centering"):
        [constraint] = FairPCA._parameter_constraints[name]
        assert set(options[name].type.choices) == set(constraint.options)


def test_help(components):
    text = components.invoke("pca", "--help").output
    words = " ".join(text.split())
    for phrase in (
        "squared units of the features",
        "[default: global]",
        "[default: 1e-08; x>0]",
        "[default: 100; x>=1]",
        "256 MiB",
        "((X - mean) / scale) @ components.T",
        '"scalefair[data]"',
        "3 not converged",
        "130 interrupted",
    ):
        assert phrase in words, phrase
    sections = re.findall(r"^(\w[\w ]*):$", text, flags=re.MULTILINE)
    assert sections == ["Required", "Components", "Columns", "Files", "Other options"]
    listed = re.findall(r"^  (?:-\w, )?--([\w-]+)", text, flags=re.MULTILINE)
    for param in main.commands["pca"].params:
        if isinstance(param, click.Option):
            assert listed.count(param.opts[-1].removeprefix("--")) == 1


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from scalefair.cli import main\n"
        "try: main(['pca', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'numba', 'rich', 'pandas'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def pca_arguments(components, *options):
    roles = ["--groups", "sex", "-r", 2, "-o", components.output]
    return ["pca", components.csv, *roles, *options]


def test_summary_on_a_terminal(components, on_a_terminal):
    arguments = pca_arguments(components, "--scores", components.scores)
    code, shown = on_a_terminal(*arguments)
    assert code == 0, shown
    for word in ("fair PCA", "above PCA's error", "duality gap", "│ f ", "gram"):
        assert word in shown
    for path in (components.output, components.scores):
        assert str(path) in shown


def test_quiet_on_a_terminal(components, on_a_terminal):
    assert on_a_terminal(*pca_arguments(components, "--quiet")) == (0, "")
    assert components.arrays()["components"].shape == (2, 5)


def test_summary_of_many_groups():
    groups = [
        {"group": f"g{i}", "n_rows": 1000 + i, "loss": 0.5, "reconstruction_error": 2.0}
        for i in range(23)
    ]
    titles, rows = group_rows(groups)
    assert len(rows) == 21
    assert rows[0] == ["g0", "1,000", "0.5", "2"]
    assert rows[-1] == ["... 3 more", "", "", ""]
    assert all(len(row) == len(titles) for row in rows)


def test_summary_says_no_more_than_there_is():
    report = {
        "input": {"n_rows": 1200, "n_features": 1000},
        "explained_variance": [2.0, 1.0],
        "reconstruction_error": 1.5,
        "duality_gap": 0.01,
        "groups": [{"loss": 0.5}, {"loss": 0.25}],
        "solver": "gram",
        "n_iter": 7,
        "seconds": {"read": 2.04, "fit": 1.0},
    }
    shown = dict(summary_rows(report))
    assert shown == {
        "rows": "1,200",
        "features": "1,000",
        "components": "2",
        "error per row": "1.5",
        "duality gap": "1.0e-02 (2.0e-02 of the largest loss)",
        "solver": "gram, 7 iterations",
        "time": "1.0 s, reading 2.0 s",
    }
    shown = dict(summary_rows({**report, "error_increase": 0.20437}))
    assert shown["above PCA's error"] == "20.437%"


@pytest.mark.realdata
def test_bank_marketing(components):
    folder = os.environ.get("SCALEFAIR_DATA")
    if not folder:
        pytest.skip("SCALEFAIR_DATA does not name the data folder")
    data = Path(folder) / "bank_marketing" / "bank.csv"
    ages = np.loadtxt(data, delimiter=",", usecols=0)
    groups = components.write("old.txt", np.where(ages >= 65, "A", "B"))
    options = ("--drop", 1, "--standardize", "--centering", "group")
    result = components.pca(data, *options, groups=groups)
    assert (result.exit_code, result.output) == (0, "")
    found = components.arrays()
    assert found["group_counts"].tolist() == [810, 44401]
    np.testing.assert_allclose(found["group_losses"], 0.4840028745971, rtol=1e-9)
    assert found["dual_weights"][0] == pytest.approx(0.312584939874947, abs=1e-9)
