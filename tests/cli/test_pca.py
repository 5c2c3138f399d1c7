"""`scalefair pca`: what it computes, writes, says and refuses."""

import numpy as np
import pandas
import pytest
from scipy import sparse

from scalefair.decomposition import FairPCA, GroupPCA
from scalefair.streaming import RowReader


def fitted(components, X=None, r=2, **parameters):
    model = FairPCA(r, random_state=0, **parameters)
    X = components.X if X is None else X
    return model.fit(X, sensitive_features=components.sex)


def done(components, *arguments, **roles):
    """Run, and return the arrays, the scores and the report."""
    report = components.done(*arguments, "--scores", components.scores, **roles)
    return components.arrays(), np.load(components.scores), report


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


@pytest.mark.parametrize("source", ["csv", "npy", "no header"])
def test_components_are_the_estimators(components, source):
    data, roles = components.stored(source)
    actual, scores, _ = done(components, data, **roles)
    model = fitted(components)
    # Columns of a table lie behind each other: products round otherwise.
    np.testing.assert_allclose(actual["components"], model.components_, atol=1e-9)
    np.testing.assert_allclose(actual["mean"], model.mean_, atol=1e-12)
    np.testing.assert_array_equal(actual["scale"], np.ones(5))
    for name in ("group_losses", "group_reconstruction_errors", "explained_variance"):
        np.testing.assert_allclose(actual[name], getattr(model, f"{name}_"), rtol=1e-8)
    assert actual["groups"].tolist() == ["f", "m"]
    assert actual["group_counts"].tolist() == [70, 50]
    assert actual["duality_gap"] <= 1e-8 * actual["group_losses"].max()
    plain = GroupPCA(2).fit(components.X, sensitive_features=components.sex)
    losses = actual["pca_group_losses"]
    np.testing.assert_allclose(losses, plain.group_losses_, rtol=1e-9)
    names = {"no header": list("23456"), "npy": [f"x{i}" for i in range(5)]}
    names = names.get(source, components.names)
    assert actual["feature_names"].tolist() == actual["columns"].tolist() == names
    expected = (components.X - actual["mean"]) @ actual["components"].T
    np.testing.assert_allclose(scores, expected, atol=1e-9)


@pytest.mark.parametrize("source", ["csv", "npy", "npz"])
def test_standardize(components, fits, source):
    """One divisor in the package: the number of rows."""
    data, roles = components.stored(source)
    actual, scores, _ = done(components, data, "--standardize", **roles)
    X, std = components.X, components.X.std(axis=0)
    np.testing.assert_allclose(actual["mean"], X.mean(axis=0))
    np.testing.assert_allclose(actual["scale"], std)
    model = fitted(components, (X - X.mean(axis=0)) / std)
    np.testing.assert_allclose(actual["components"], model.components_, atol=1e-8)
    expected = (X - actual["mean"]) / actual["scale"] @ actual["components"].T
    np.testing.assert_allclose(scores, expected, atol=1e-9)
    assert sparse.issparse(fits[0][0]) == (source == "npz")


def test_constant_columns_are_not_scaled(components, fits):
    components.X[:, 2] = 0.1  # whose mean is not 0.1
    np.save(components.npy, components.X)
    options = {"groups": components.sexes}
    actual, _, _ = done(components, components.npy, "--standardize", **options)
    assert actual["scale"][2] == 1
    assert np.abs(fits[0][0][:, 2]).max() < 1e-15


def test_missing_values(components):
    path = components.edited(3, "income", "?")
    result = components.run(path)
    location = "edited.csv:5: column 5 (income)"
    components.fails(result, location, "income (1)", "--missing")
    for missing in ("drop", "impute"):
        options = ("--missing", missing, "--scores", components.scores)
        components.done(path, *options, "--standardize", message="income (1)")
        assert len(np.load(components.scores)) == (119 if missing == "drop" else 120)
    actual, X = components.arrays(), components.X.copy()
    X[3, 3] = np.nan
    np.testing.assert_allclose(actual["imputation"], np.nanmean(X, axis=0))
    # What is filled in is the mean, so that it counts as 0 when it is scaled.
    np.testing.assert_allclose(actual["scale"], np.nanstd(X, axis=0))
    X[3, 3] = actual["imputation"][3]
    expected = (X - actual["mean"]) / actual["scale"] @ actual["components"].T
    np.testing.assert_allclose(np.load(components.scores), expected, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.int16])
def test_scores_have_the_type_of_the_rows(components, dtype):
    X = components.X.astype(dtype)
    np.save(components.npy, X)
    _, scores, _ = done(components, components.npy, groups=components.sexes)
    assert scores.dtype == (np.float32 if dtype == np.float32 else np.float64)
    np.testing.assert_array_equal(scores, fitted(components, X).transform(X))


def test_report(components):
    _, _, report = done(components, components.csv, "--solver", "gram")
    X, sexes = components.X, components.sex
    model = fitted(components, solver="gram")
    plain = GroupPCA(2).fit(X, sensitive_features=sexes)
    assert report["command"] == "pca"
    assert report["parameters"] == {**model.get_params(), "standardize": False}
    assert report["input"] == {
        "rows": str(components.csv),
        "groups_from": f"column sex of {components.csv}",
        "n_rows": 120,
        "n_features": 5,
        "groups": {"f": 70, "m": 50},
    }
    assert set(report["seconds"]) == {"read", "fit"}
    assert report["peak_memory_bytes"] > 10_000_000
    assert (report["solver"], report["converged"]) == ("gram", True)
    assert report["n_iter"] == model.n_iter_
    # The error is what the components leave of the variance of all rows.
    total = X.var(axis=0).sum()
    error = pytest.approx(total - model.explained_variance_.sum())
    assert report["reconstruction_error"] == error
    pca_error = pytest.approx(total - plain.explained_variance_.sum())
    assert report["pca_reconstruction_error"] == pca_error
    increase = pytest.approx(error.expected / pca_error.expected - 1)
    assert report["error_increase"] == increase
    summary = report["summary"]
    for name, by in (("Reached: a largest loss of ", model), ("; with PCA ", plain)):
        assert f"{name}{by.group_losses_.max():.3g} (" in summary
    assert f"{increase.expected:.2%} more than PCA's. Not promised: equal" in summary
    expected = pandas.DataFrame({"group": ["f", "m"], "n_rows": [70, 50]})
    for prefix, by in (("pca_", plain), ("", model)):
        expected[f"{prefix}loss"] = by.group_losses_
        expected[f"{prefix}reconstruction_error"] = by.group_reconstruction_errors_
    expected["dual_weight"] = model.dual_weights_
    table = pandas.DataFrame(report["groups"])[list(expected)]
    pandas.testing.assert_frame_equal(table, expected)


def test_errors_that_are_not_compared(components):
    """By how much one exceeds an error of 0, or of PCA that was not computed."""
    assert "error_increase" not in components.done(components.csv, r=5)
    actual, _, report = done(components, components.csv, "--solver", "matrix_free")
    assert "error_increase" not in report
    assert "pca_loss" not in report["groups"][0]
    assert "pca_group_losses" not in actual


@pytest.mark.parametrize(
    ("extension", "solver", "options"),
    [
        ("npy", "gram", ()),
        ("npy", "matrix_free", ("--standardize",)),
        ("npz", "gram", ("--standardize",)),
        ("csv", "gram", ("--standardize",)),
    ],
)
def test_rows_in_blocks(components, fits, extension, solver, options):
    path, roles = components.stored(extension)
    options += ("--solver", solver, "--tol", 1e-8 if solver == "gram" else 1e-3)
    before = set(components.folder.iterdir())
    expected, scores, report = done(components, path, *options, **roles)
    assert "read" not in report["input"]
    # A sparse row counts as 512 bytes, and blocks are a quarter of the limit.
    limit = ("--memory-limit", "5kB" if extension == "npz" else "2kB")
    actual, in_blocks, report = done(components, path, *options, *limit, **roles)
    # The solver's tolerance, where sums in another order lead it elsewhere.
    close = {"rtol": 1e-7, "atol": 1e-7} if solver == "gram" else {"atol": 0.03}
    for name, array in expected.items():
        if array.dtype.kind == "f" and name != "duality_gap":
            np.testing.assert_allclose(actual[name], array, **close, err_msg=name)
        elif array.dtype.kind in "iU":
            assert np.array_equal(actual[name], array), name
    np.testing.assert_allclose(in_blocks, scores, **close)
    assert [isinstance(X, RowReader) for X, _ in fits] == [False, True]
    facts = report["input"]
    assert (facts["read"], facts["n_blocks"]) == ("in blocks", len(fits[1][0]))
    assert len(fits[1][0]) >= 10 or extension == "csv"
    n_passes = 1 + ("--standardize" in options and extension != "csv")
    assert facts["n_passes"] == n_passes if solver == "gram" else facts["n_passes"] > 3
    # The copy of a table has no name, and vanishes.
    outputs = {components.output, components.scores, components.report}
    assert set(components.folder.iterdir()) == before | outputs


@pytest.mark.parametrize("limit", ["1kB", "1GB"])
@pytest.mark.parametrize("options", [(), ("--standardize",)])
@pytest.mark.parametrize("extension", ["npy", "npz"])
def test_values_that_are_not_finite(components, extension, options, limit):
    components.X[70, 3] = np.nan
    path, _ = components.stored(extension)
    components.save_arrays("rows", components.X)
    options += ("--memory-limit", limit)
    result = components.run(path, *options, groups=components.sexes)
    components.fails(result, path, "row 70, column 3")


def test_columns_of_words_are_listed_at_once(components):
    lines = ["a,job,b,home town,sex", "1,clerk,2,Rome,f", "3,cook,4,Oslo,m"]
    result = components.run(components.write("words.csv", lines))
    components.fails(result, "2 column(s)", "--drop 'job' --drop 'home town'")
    components.fails(components.run(components.csv, "--keep-groups"), "sex")


def test_numbers_too_large(components):
    components.X[:, 1] = np.where(components.sex == "f", 1e308, -1e308)
    path, _ = components.save_arrays("rows", components.X)
    for limit in ("1GB", "1kB"):
        options = ("--standardize", "--memory-limit", limit)
        result = components.run(path, *options, groups=components.sexes)
        components.fails(result, path, "cannot be standardized", "column x1")


@pytest.mark.parametrize(
    ("cell", "options", "fragments"),
    [
        ("?", (), "values are missing in 200 column(s)"),
        ("?", ("--missing", "drop"), "no row has all its values"),
        ("x", (), "200 column(s) do not hold numbers"),
        ("1", ("--groups", "age"), "neither a column"),
        ("1", ("--drop", ",".join(f"no {i}" for i in range(200))), "lacks 1 of"),
    ],
)
def test_messages_about_many_columns_are_short(components, cell, options, fragments):
    names = [f"column {i} {'of a long name ' * 4}" for i in range(200)]
    sexes = components.frame[["sex"]]
    frame = sexes.join(pandas.DataFrame(cell, sexes.index, names))
    table = components.save(frame, "wide.csv")
    message = components.fails(components.run(table, "--header", *options), fragments)
    assert len(message.replace(str(table), "")) < 400
