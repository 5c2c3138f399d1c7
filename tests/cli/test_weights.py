"""`--weight`: reports of weighted rows are those of repeated rows; and its files."""

import numpy as np
import pandas
import pytest


def weighted(command) -> tuple[pandas.DataFrame, np.ndarray]:
    """Rows of a command with integer weights in a column, and the rows repeated."""
    frame = command.frame.copy()
    first = frame.select_dtypes("number").iloc[:, 0]
    # Where the weights are large the rows differ, so that ignored weights are seen.
    frame["w"] = 1 + 3 * (first > first.median()) * (command.sex == "f")
    return frame, np.repeat(np.arange(len(frame)), frame["w"])


# Of a report: counts of rows, noise, costs, and what only probabilities have.
OMITTED = {"n_rows", "null_gap", "seconds", "peak_memory_bytes", "unmixed_parity_gap"}


def numbers(value):
    """All other numbers of a part of a report."""
    if isinstance(value, dict):
        value = [value[key] for key in value if key not in OMITTED]
    if isinstance(value, list):
        return [number for item in value for number in numbers(item)]
    return [value] if isinstance(value, (int, float)) else []


def values(content, keys):
    return np.array(numbers([content[key] for key in keys]), float)


PCA = ["explained_variance", "reconstruction_error", "pca_reconstruction_error"]
CUT = ["balance_mean", "balance_min", "normalized_cut"]
CUT_LINE = "--affinity rbf --standardize --assign-labels kmeans"
CLASSIFY = "--criterion weak --no-interactions --no-tune-intercept --tol 1e-6"
GAPS = ["mean_gap_before", "covariance_gap_before", "mean_gap_after", "train"]


# Commands, options, what is reported, and how exact that is.
COMMANDS = [
    # Rounding, and the tolerance of the duality gap.
    ("pca", "--standardize", [*PCA, "groups"], 1e-7),
    # Two far clouds are the clusters: errors of eigenvectors change no label.
    ("cluster", CUT_LINE, CUT, 1e-9),
    # The solver stops at a tolerance.
    ("classify", CLASSIFY, ["objective", "train", "baseline"], 1e-6),
    # Exact changes of a layer (without a noise floor, which is of effective rows).
    ("regress", "--method explainable_svd", GAPS, 1e-6),
]
on_commands = pytest.mark.parametrize(
    ("command", "line", "keys", "tol"), COMMANDS, indirect=["command"]
)


@on_commands
def test_weights_are_repeated_rows(command, line, keys, tol):
    frame, index = weighted(command)
    plain = frame.drop(columns="w")
    roles = {"groups": "sex"}
    if "affinity" in line:
        roles["k"] = 2

    def report(data, *options):
        data = command.save(data, "data.csv")
        content = command.done(data, *line.split(), *options, **roles)
        return content, values(content, keys)

    content, actual = report(frame, "--weight", "w")
    _, expected = report(plain.iloc[index])
    np.testing.assert_allclose(actual, expected, rtol=tol, atol=tol)
    # Other weights, another report; the solver need not meet so small a tolerance.
    options = [*line.split(), "--report", command.report]
    command.run(command.save(plain, "data.csv"), *options, **roles)
    unweighted = values(command.read_report(), keys)
    assert np.abs(actual - unweighted).max() > 2 * tol
    source = content["input"].get("train", content["input"])
    assert source["weights_from"] == f"column w of {command.folder / 'data.csv'}"
    w = frame["w"]
    assert source["effective_rows"] == pytest.approx(w.sum() ** 2 / (w**2).sum())


@pytest.mark.parametrize("command", ["cluster"], indirect=True)
def test_rows_of_weight_0_are_no_rows(command):
    """Also of the clusters without fairness, by a kernel that is never stored."""
    frame, _ = weighted(command)
    frame["w"] = np.arange(len(frame)) % 3

    def report(data):
        data = command.save(data, "data.csv")
        options = [*CUT_LINE.split(), "--weight", "w"]
        content = command.done(data, *options, groups="sex", k=2)
        return values(content, [*CUT, "baseline"])

    # The same clusters: all that differs is rounding, by 1e-16 in a cut near zero.
    expected = report(frame[frame["w"] > 0])
    np.testing.assert_allclose(report(frame), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "line",
    [
        "--scores score --interval 0.1,0.6",
        "--scores score --target hired --given label",
        "--scores score --target height",
        "--labels job --attributes each",
    ],
)
def test_measures_of_weighted_rows(people, line):
    frame, index = weighted(people)
    frame["score"] = frame["height"] - frame["weight"]
    line = ["--groups", "sex", *line.split()]

    def report(data, *options):
        content = people.evaluate(people.save(data, "data.csv"), *line, *options)
        for name in ("input", "parameters"):
            del content[name]
        return np.array(numbers(content), float)

    actual = report(frame, "--weight", "w")
    expected = report(frame.iloc[index])
    np.testing.assert_allclose(actual, expected, rtol=1e-12)
    assert np.abs(actual - report(frame)).max() > 1e-3


@pytest.mark.parametrize("method", ["linear", "calibrated"])
def test_what_classify_reports_is_what_evaluate_says(people, method):
    frame, _ = weighted(people)
    data = people.save(frame, "data.csv")
    options = {"linear": "--tol 0.05", "calibrated": "--kappa 0.3"}[method]
    line = ["--method", method, *options.split(), "--test", data]
    reported = people.done(data, "--weight", "w", *line)
    roles = ["--groups", f"{data}:sex", "--target", f"{data}:hired"]
    roles += ["--weight", f"{data}:w", "--interval", "0.1,0.6"]
    # A model needs no weights, and takes them for no feature.
    without = people.save(frame.drop(columns="w"), "without.csv")
    for table in (data, without):
        people.predict(table)
        measured = people.evaluate(people.folder / "scores.csv", *roles)
        for part in (reported["train"], reported["test"]):
            for name in ("accuracy", "partial_parity_gap", "weak_partial_parity_gap"):
                assert measured[name] == pytest.approx(part[name], abs=1e-12)
            rates = ["group", "n_rows", "accuracy", "selection_rate"]
            groups = [pandas.DataFrame(x["groups"])[rates] for x in (measured, part)]
            pandas.testing.assert_frame_equal(*groups)


def test_weights_of_nodes(workspace):
    """Of a file by id, and without any: those of edges are another option."""
    n = len(workspace.data.sensitive_features)
    w = np.arange(n) % 3
    lines = ["id,weight", *(f"{i},{x}" for i, x in enumerate(w))]
    path = workspace.write("w.csv", lines)
    content = workspace.done(None, "--weight", path, "--no-weights")
    assert content["input"]["weights_from"] == str(path)
    assert sum(x["size"] for x in content["clusters"]) == w.sum()
    assert sum(x["size"] for x in content["baseline"]["clusters"]) == w.sum()
    content = workspace.done(None)
    assert "weights_from" not in content["input"]
    bad = workspace.write("w.csv", [*lines[:-1], f"{n - 1},-2"])
    workspace.output.write_bytes(b"id,label\nan older result\n")
    workspace.report.unlink()
    workspace.fails(workspace.run(None, "--weight", bad), f"{bad}: the weight of", "-2")


@pytest.mark.parametrize(
    ("cell", "fragments"),
    [
        (-1, ["column w of", "the weight of row 3 (counted from 0) is -1"]),
        ("inf", ["column w of", "the weight of row 3 (counted from 0) is inf"]),
        ("much", [":5: column 7 (w)", "much"]),
        ("", [":5: column 7 (w)", "--missing drop"]),
    ],
)
def test_bad_weights(components, cell, fragments):
    components.frame["w"] = 2
    path = components.edited(3, "w", cell)
    components.fails(components.run(path, "--weight", "w"), path, *fragments)


def test_weights_that_do_not_fit(components):
    frame = components.frame.assign(w=0, words="many", u=1)
    frame.loc[components.sex == "f", "u"] = 0
    path = components.save(frame.drop(columns="words"), "data.csv")
    result = components.run(path, "--weight", "w", "--drop", "u")
    components.fails(result, "column w of", "--weight is 0 for all")
    result = components.run(path, "--weight", "u", "--drop", "w")
    components.fails(result, "column u of", "1 group(s): 'f'")
    path = components.save(frame, "data.csv")
    result = components.run(path, "--weight", "words", "--drop", "w", "--drop", "u")
    components.fails(result, "the weight of row 0 (counted from 0) is 'many'")
    for line, fragment in (
        ("--weight sex", "--groups and --weight name the same column"),
        ("--weight w --missing impute", "--missing impute takes no --weight"),
    ):
        components.fails(components.run(path, *line.split()), fragment, code=2)


def test_a_weight_is_no_feature_and_may_be_missing(components):
    components.frame["w"] = 2
    path = components.edited(3, "w", "?")
    line = (path, "--weight", "w", "--missing", "drop")
    content = components.done(*line, message="1 of 120 rows were left out")
    assert content["input"]["n_rows"] == content["input"]["effective_rows"] == 119
    assert components.arrays()["columns"].tolist() == components.names


def test_an_array_of_weights_of_rows_in_blocks(components):
    weights = components.folder / "w.npy"
    np.save(weights, 1 + np.arange(120) % 3)
    line = (components.npy, "--weight", weights, "--standardize")
    expected = components.done(*line, **components.files)
    assert expected["input"]["weights_from"] == str(weights)
    content = components.done(*line, "--memory-limit", "2kB", **components.files)
    assert content["input"]["n_blocks"] > 2
    for name in PCA:
        np.testing.assert_allclose(content[name], expected[name], rtol=1e-7)
