"""Weights, several attributes and probabilities: roles of columns, in all commands."""

import json

import joblib
import numpy as np
import pandas
import pytest

from scalefair.cli import _encoder
from scalefair.metrics import balance_score, statistical_parity_ks, unmixed_parity_gap


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
CLASSIFY = "--criterion weak --no-interactions --no-tune-intercept"
GAPS = ["mean_gap_before", "covariance_gap_before", "mean_gap_after", "train"]


# Commands, options, what is reported, and how exact that is.
COMMANDS = [
    # Rounding, and the tolerance of the duality gap.
    ("pca", "--standardize", [*PCA, "groups"], 1e-7),
    # Two far clouds are the clusters: errors of eigenvectors change no label.
    ("cluster", CUT_LINE, CUT, 1e-9),
    ("classify", CLASSIFY, ["objective", "train", "baseline"], 1e-6),
    # Exact changes of a layer (without a noise floor, which is of effective rows).
    ("regress", "--method explainable_svd", GAPS, 1e-6),
]
on_commands = pytest.mark.parametrize(
    ("command", "line", "keys", "tol"), COMMANDS, indirect=["command"]
)


def run(command, frame, line, *options, groups=("--groups", "sex")):
    """Run the command on a frame, with other options for the groups."""
    more = {"k": 2} if "affinity" in line else {}
    path = command.save(frame, "data.csv")
    arguments = command.line(path, *line.split(), *options, groups="sex", **more)
    first = arguments.index("--groups")
    arguments[first : first + 2] = groups
    return command.invoke(*arguments, "--report", command.report)


def report(command, *arguments, **options) -> dict:
    result = run(command, *arguments, **options)
    assert (result.exit_code, result.stdout) == (0, ""), result.output
    return command.read_report()


@on_commands
def test_weights_are_repeated_rows(command, line, keys, tol):
    frame, index = weighted(command)
    plain = frame.drop(columns="w")
    if line == CLASSIFY:  # the solver stops at a tolerance
        line += " --tol 1e-6"
    content = report(command, frame, line, "--weight", "w")
    actual = values(content, keys)
    expected = values(report(command, plain.iloc[index], line), keys)
    np.testing.assert_allclose(actual, expected, rtol=tol, atol=tol)
    # Other weights, another report; the solver need not meet so small a tolerance.
    run(command, plain, line)
    unweighted = values(command.read_report(), keys)
    assert np.abs(actual - unweighted).max() > 2 * tol
    source = content["input"].get("train", content["input"])
    assert source["weights_from"] == f"column w of {command.folder / 'data.csv'}"
    w = frame["w"]
    assert source["effective_rows"] == pytest.approx(w.sum() ** 2 / (w**2).sum())


def test_rows_of_weight_0_are_no_rows(workspace, monkeypatch):
    """Also of the clusters without fairness, by a kernel that is never stored."""
    monkeypatch.setattr(_encoder, "BLOCK_BYTES", 64)  # some blocks have no weight
    frame = workspace.frame.assign(w=np.arange(60) % 3 * (np.arange(60) % 15 > 8))
    rows = (frame[frame["w"] > 0], frame)
    reports = (report(workspace, data, CUT_LINE, "--weight", "w") for data in rows)
    expected, actual = (values(content, [*CUT, "baseline"]) for content in reports)
    # The same clusters: all that differs is rounding, by 1e-16 in a cut near zero.
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-12)


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


@pytest.mark.parametrize("method", ["linear --tol 0.05", "calibrated --kappa 0.3"])
def test_what_classify_reports_is_what_evaluate_says(people, method):
    frame, _ = weighted(people)
    data = people.save(frame, "data.csv")
    line = ["--method", *method.split(), "--weight", "w", "--test", data]
    reported = people.done(data, *line)
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
    w = np.arange(90) % 3
    lines = ["id,weight", *(f"{i},{x}" for i, x in enumerate(w))]
    path = workspace.write("w.csv", lines)
    content = workspace.done(None, "--weight", path, "--no-weights")
    assert content["input"]["weights_from"] == str(path)
    assert sum(x["size"] for x in content["clusters"]) == w.sum()
    assert sum(x["size"] for x in content["baseline"]["clusters"]) == w.sum()
    bad = workspace.write("w.csv", [*lines[:-1], "89,-2"])
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
    for w, fragment in (
        (0, "--weight is 0 for all"),
        (1 * (components.sex == "m"), "1 group(s): 'f'"),
        ("many", "the weight of row 0 (counted from 0) is 'many'"),
    ):
        path = components.save(components.frame.assign(w=w), "data.csv")
        result = components.run(path, "--weight", "w")
        components.fails(result, "column w of", fragment)


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
    np.testing.assert_allclose(values(content, PCA), values(expected, PCA), rtol=1e-7)


def with_two(command):
    """Save the rows with one more attribute, and with both in one column."""
    old = np.random.default_rng(1).permutation(len(command.frame)) % 2
    frame = command.frame.assign(old=old)
    return frame.assign(both=frame["sex"] + ", " + frame["old"].astype(str))


def of_groups(report):
    return report.get("train", report)["groups"]


@pytest.mark.parametrize("command", ["pca", "classify", "regress"], indirect=True)
def test_combinations_are_those_of_one_column(command):
    frame = with_two(command)
    two = command.save(frame.drop(columns="both"), "two.csv")
    one = command.save(frame.drop(columns=["sex", "old"]), "one.csv")
    loose = ["--kappa", 1] if "--kappa" in command.line() else []
    actual = command.done(two, *loose, groups="sex,old")
    expected = command.done(one, *loose, groups="both")
    assert of_groups(actual) == of_groups(expected)
    assert [group["group"] for group in of_groups(actual)] == sorted({*frame["both"]})
    source = actual["input"].get("train", actual["input"])
    assert source["groups_from"] == f"columns sex, old of {two}"


def test_a_saved_model_finds_the_columns(people):
    frame = with_two(people).drop(columns="both")
    two = people.save(frame, "two.csv")
    assert people.run(two, "--method", "calibrated", groups="old,sex").exit_code == 0
    saved = joblib.load(people.output)
    assert saved["reading"]["groups"] == "old,sex"
    assert saved["groups"].tolist() == ["0, f", "0, m", "1, f", "1, m"]
    # Few rows, in which an integer is written as a float, are nothing to warn of.
    other = people.save(frame.astype({"old": float})[:7], "other.csv")
    scores = people.predict(other)["score"]
    X = saved["encoder"].transform(frame[saved["columns"]][:7])
    groups = frame[["old", "sex"]][:7]
    expected = saved["classifier"].decision_function(X, sensitive_features=groups)
    np.testing.assert_allclose(scores, expected)
    other = people.save(frame.assign(old=5), "other.csv")
    people.fails(people.run_predict(other), "the group '5, f' does not occur in TRAIN")


def test_evaluate_and_describe(people):
    frame = with_two(people).assign(score=np.arange(240))
    path = people.save(frame, "two.csv")
    report = people.evaluate(path, "--groups", "sex,old", "--scores", "score")
    names = [group["group"] for group in report["groups"]]
    assert names == sorted({*frame["both"]})
    result = people.invoke("describe", path, "--groups", "sex,old")
    assert "--groups sex,old --drop" in " ".join(result.stdout.split())


def test_groups_of_nodes_in_two_columns(workspace):
    sex, old = np.arange(90) % 2, np.arange(90) // 2 % 2
    lines = [f"{i},{s},{o}" for i, (s, o) in enumerate(zip(sex, old, strict=True))]
    two = workspace.write("two.csv", ["id,sex,old", *reversed(lines)])
    array = workspace.folder / "two.npy"
    np.save(array, np.column_stack([sex, old]))
    for groups, graph in ((two, workspace.edges), (array, workspace.npz)):
        message = "4 combinations of sex, old are the groups" * (groups is two)
        report = workspace.done(graph, groups=groups, message=message)
        counts = report["input"]["groups"]
        assert list(counts) == ["0, 0", "0, 1", "1, 0", "1, 1"]
        assert sum(counts.values()) == 90
    options = ["--attributes", "each", "--assign-labels", "fair"]
    report = workspace.done(workspace.edges, *options, groups=two)
    expected = [dict(enumerate(np.bincount(x).tolist())) for x in (sex, old)]
    counts = report["input"]["groups"].values()
    assert [{int(k): v for k, v in x.items()} for x in counts] == expected
    for cluster in report["clusters"]:
        a, b, c, d = (
            cluster["groups"][x] for x in ("sex 0", "sex 1", "old 0", "old 1")
        )
        assert a + b == c + d == cluster["size"]
        assert cluster["balance"] == min(a / b, b / a, c / d, d / c)
    lines[3] = "3,,1"
    missing = workspace.write("two.csv", ["id,sex,old", *lines])
    result = workspace.run(groups=missing)
    workspace.fails(result, "two.csv:5: 1 group(s) are missing")


def test_measures_of_each_attribute(people):
    frame = with_two(people).assign(score=np.arange(len(people.frame)))
    frame["label"] = frame["score"] // 3 % 2
    line = [people.save(frame, "two.csv"), "--attributes", "each"]
    report = people.evaluate(*line, "--labels", "label", "--groups", "sex,old")
    balances = [
        balance_score(frame["label"], sensitive_features=frame[name], average=None)
        for name in ("sex", "old")
    ]
    actual = [cluster["balance"] for cluster in report["clusters"]]
    np.testing.assert_allclose(actual, np.min(balances, axis=0))
    actual = [
        people.evaluate(*line, "--scores", "score", "--groups", groups)
        for groups in ("sex", "old", "sex,old")
    ]
    assert actual[2]["ks"] == max(actual[0]["ks"], actual[1]["ks"])
    assert len(actual[2]["groups"]) == 4


def test_features_of_arrays(components):
    X = np.column_stack([components.X, components.sex == "f", np.arange(120) % 3])
    np.save(components.npy, X)
    message = "maximum of the dual"
    actual = components.done(components.npy, groups="x5,x6", message=message)
    names = [group["group"] for group in actual["groups"]]
    assert names == ["0, 0", "0, 1", "0, 2", "1, 0", "1, 1", "1, 2"]
    assert actual["input"]["n_features"] == 5
    assert actual["input"]["groups_from"] == f"features x5, x6 of {components.npy}"


def test_what_cannot_be_combined(components):
    frame = with_two(components)
    path = components.save(frame, "two.csv")
    result = components.run(path, groups="sex,odl")
    components.fails(result, "odl: neither a column of", "nor a file. Check --groups")
    frame = frame.astype({"old": object})
    frame.loc[3, "old"] = None
    path = components.save(frame, "two.csv")
    line = (path, "--drop", "both")
    result = components.run(*line, groups="sex,old")
    components.fails(result, "missing in 1 column(s): old (1)", "two.csv:5: column 7")
    components.save(frame.assign(old=np.arange(120) < 3), "two.csv")
    components.done(*line, groups="sex,old", message="have fewer than 10 rows: ")


@pytest.mark.parametrize("command", ["pca", "classify", "regress"], indirect=True)
def test_each_attribute_by_itself(command):
    two = command.save(with_two(command).drop(columns="both"), "two.csv")
    loose = ["--kappa", 1] if "--kappa" in command.line() else []
    if "regress" in command.line():  # 60 rows a group
        loose = ["--no-noise-floor"]
    actual = command.done(two, *loose, "--attributes", "each", groups="sex,old")
    named = [(group["attribute"], group["group"]) for group in of_groups(actual)]
    assert named == [("sex", "f"), ("sex", "m"), ("old", "0"), ("old", "1")]
    assert actual["parameters"]["attributes"] == "each"
    source = actual["input"].get("train", actual["input"])
    assert list(source["groups"]) == ["sex", "old"]
    # A file of groups without a header has no names of columns.
    groups = with_two(command)[["sex", "old"]].reset_index()
    file = command.save(groups, "both.csv", header=False)
    table = command.save(command.frame.drop(columns="sex"), "one.csv")
    actual = command.done(table, *loose, "--attributes", "each", groups=file)
    assert [group["group"] for group in of_groups(actual)] == ["f", "m", "0", "1"]
    names = {group["attribute"] for group in of_groups(actual)}
    assert names == {"attribute 1", "attribute 2"}


def test_a_classifier_of_each_attribute_is_used(people):
    frame = with_two(people).drop(columns="both")
    new = (frame["sex"] == "f") & (frame["old"] == 1)
    path = people.save(frame[~new], "two.csv")
    line = ["--attributes", "each", "--kappa", 1]
    people.done(path, *line, groups="sex,old")
    other = people.save(frame[new], "other.csv")  # a combination that is new
    scores = people.predict(other)
    model = joblib.load(people.output)["classifier"]
    assert [groups_of.tolist() for groups_of in model.groups_] == [["f", "m"], [0, 1]]
    lines = [f"{i},f,1" for i in range(new.sum())]
    file = people.write("both.csv", ["id,sex,old", *lines])
    again = people.predict(other, "--groups", file)
    pandas.testing.assert_frame_equal(again, scores)
    other = people.save(frame.assign(sex="x"), "other.csv")
    people.fails(people.run_predict(other), "Column sex of")
    result = people.run(path, *line, "--method", "calibrated", groups="sex,old")
    people.fails(result, "--attributes each is not for calibration")


@on_commands
def test_one_hot_probabilities_are_groups(command, line, keys, tol):
    frame = command.frame.copy()
    expected = report(command, frame, line)
    soft = pandas.get_dummies(frame, columns=["sex"], prefix="", prefix_sep="")
    soft[["f", "m"]] = soft[["f", "m"]].astype(float)
    groups = "--group-probabilities", "f,m"
    content = report(command, soft, line, groups=groups)
    assert "expected" not in json.dumps(content["input"])  # all is certain
    np.testing.assert_allclose(values(content, keys), values(expected, keys), rtol=1e-6)
    # Wrong probabilities give another report.
    soft.loc[:19, ["f", "m"]] = 0.5
    other = values(report(command, soft, line, groups=groups), keys)
    if command.estimator.__name__ != "FairSpectralClustering":  # the clouds are far
        assert np.abs(other - values(expected, keys)).max() > 1e-4


@on_commands
def test_rows_without_a_group(command, line, keys, tol):
    frame = command.frame.astype({"sex": object})
    frame.loc[3:9, "sex"] = None
    # 1. An error, as always, that names the options.
    result = run(command, frame, line)
    command.fails(result, "sex (7)", "--missing drop")
    result = run(command, frame, line, "--missing-groups", "error", "--missing", "drop")
    command.fails(result, "7 of", "no group, the first 3", "--missing-groups ignore")
    # 2. Rows that are left out are no rows.
    expected = report(command, frame.dropna(), line)
    content = report(command, frame, line, "--missing-groups", "drop")
    np.testing.assert_allclose(values(content, keys), values(expected, keys), rtol=1e-9)
    assert "7 of" in content["notes"][0]
    # 3. Rows that count for no group.
    content = report(command, frame, line, "--missing-groups", "ignore")
    assert "7 of" in content["notes"][0]
    groups = content["input"].get("train", content["input"])["groups"]
    assert groups == frame["sex"].value_counts().to_dict()


def test_nodes_without_a_group(workspace):
    lines = workspace.groups.read_text().splitlines()
    holes = workspace.write("holes.csv", lines[:-5])  # five nodes have no line
    workspace.fails(workspace.run(None, groups=holes), "5 of the", "have no group")
    line = (None, "--missing-groups")
    content = workspace.done(*line, "ignore", groups=holes, message="5 of 90")
    assert sum(content["input"]["groups"].values()) == 85
    assert len(workspace.labels()) == 90
    result = workspace.run(*line, "drop", groups=holes)
    workspace.fails(result, "nodes of a graph stay", code=2)


def test_knots_of_a_number(people):
    """Rows of a test have the knots of the rows for training."""
    age = np.random.default_rng(3).integers(18, 70, 240)
    frame, ages = people.frame.assign(age=age), {"train": age, "test": age // 2 + 35}
    test = people.save(frame.assign(age=ages["test"]), "test.csv")
    options, groups = ("--drop", "sex", "--test", test), ("--knots", "3", "--groups")
    content = report(people, frame, CLASSIFY, *options, groups=(*groups, "age"))
    knots = np.quantile(age, [0, 0.5, 1])
    for part, of_part in ages.items():
        counts = content["input"][part]["groups"]
        assert list(counts) == [f"age {knot:g}" for knot in knots]
        hats = [np.interp(of_part, knots, unit).sum() for unit in np.eye(3)]
        np.testing.assert_allclose(list(counts.values()), hats)
    assert "unmixed_parity_gap" not in content["train"]  # nothing is uncertain
    result = run(people, frame, CLASSIFY, groups=(*groups, "sex"))
    people.fails(result, "column sex of", "is not a number")


def test_measures_with_probabilities(people):
    p = np.random.default_rng(0).random(240).round(3)
    frame = people.frame.assign(score=people.frame["height"], p_f=p, p_m=1 - p)
    frame.loc[:4, ["p_f", "p_m"]] = np.nan
    data = people.save(frame, "data.csv")
    line = ["--scores", "score", "--missing-groups", "ignore"]
    line += ["--group-probabilities", "p_f,p_m"]
    content = people.evaluate(data, *line, message="have no known group")
    assert "expected" in content["input"]["expected"]
    probabilities = frame[["p_f", "p_m"]]
    gap = statistical_parity_ks(frame["score"], group_probabilities=probabilities)
    assert content["ks"] == pytest.approx(gap, abs=1e-12)
    unmixed = unmixed_parity_gap(frame["score"], group_probabilities=probabilities)
    assert content["unmixed_parity_gap"] == pytest.approx(unmixed, abs=1e-12)
    assert unmixed > gap


@pytest.mark.parametrize(
    ("row", "fragments"),
    [
        ((0.5, 0.4), ["do not add up to 1", "row 2", "0.9"]),
        ((-0.5, 1.5), ["below 0 or above 1", "row 2", "column 'p_f'"]),
        (("much", 0.5), ["'much' in row 2", "column p_f"]),
        ((None, 0.5), ["p_f (1)", "--missing drop"]),
    ],
)
def test_bad_probabilities(people, row, fragments):
    frame = people.frame.assign(p_f=0.25, p_m=0.75).astype({"p_f": object})
    frame.loc[2, ["p_f", "p_m"]] = row
    groups = "--group-probabilities", "p_f,p_m"
    people.fails(run(people, frame, CLASSIFY, groups=groups), *fragments)


def test_what_takes_no_probabilities(people):
    frame = people.frame.assign(p_f=0.25, p_m=0.75, w=1)
    result = run(people, frame, CLASSIFY, groups=())
    people.fails(result, "Missing option '--groups'.", code=2)
    groups = "--group-probabilities", "p_f,p_m"
    options = ("--weight", "w", "--test", people.save(frame.assign(w=0), "test.csv"))
    result = run(people, frame, CLASSIFY, *options, groups=groups)
    people.fails(result, "column w of", "test.csv: is 0 for all rows")
    result = run(people, frame, "--method calibrated", groups=groups)
    people.fails(result, "takes --groups", "--method linear", code=2)
    result = run(people, frame, "--criterion weak", groups=groups)
    people.fails(result, "--no-interactions")
