"""``--groups sex,old``: the combinations that occur, in every command."""

import joblib
import numpy as np
import pandas
import pytest

from scalefair.metrics import balance_score


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
    for changed, fragments in (
        (frame.assign(old=5), "the group '5, f' does not occur in TRAIN"),
        (frame.drop(columns="old"), "old: neither a column of"),
    ):
        path = people.save(changed, "other.csv")
        result = people.invoke(
            "predict", people.output, path, "-o", people.folder / "a.csv"
        )
        assert (result.exit_code, fragments in result.stderr) == (1, True)


def test_evaluate_and_describe(people):
    frame = with_two(people).assign(score=np.arange(len(people.frame)))
    path = people.save(frame, "two.csv")
    for groups in ("sex,old", "both"):
        report = people.evaluate(path, "--groups", groups, "--scores", "score")
        names = [group["group"] for group in report["groups"]]
        assert names == sorted({*frame["both"]})
    result = people.invoke("describe", path, "--groups", "sex,old", "--quiet")
    assert result.exit_code == 0
    result = people.invoke("describe", path, "--groups", "sex,old")
    assert "--groups sex,old --drop" in " ".join(result.stdout.split())
    result = people.invoke("describe", path, "--groups", "sex,odl")
    assert "odl: neither a column of" in result.stderr


def test_groups_of_nodes_in_two_columns(workspace):
    n = workspace.data.graph.shape[0]
    sex, old = np.arange(n) % 2, np.arange(n) // 2 % 2
    lines = [f"{i},{s},{o}" for i, (s, o) in enumerate(zip(sex, old, strict=True))]
    two = workspace.write("two.csv", ["id,sex,old", *reversed(lines)])
    array = workspace.folder / "two.npy"
    np.save(array, np.column_stack([sex, old]))
    for groups, graph in ((two, workspace.edges), (array, workspace.npz)):
        message = "4 combinations of sex, old are the groups" * (groups is two)
        counts_of_groups = workspace.done(graph, groups=groups, message=message)[
            "input"
        ]["groups"]
        assert list(counts_of_groups) == ["0, 0", "0, 1", "1, 0", "1, 1"]
        assert sum(counts_of_groups.values()) == n
    options = ["--attributes", "each", "--assign-labels", "fair"]
    report = workspace.done(workspace.edges, *options, groups=two)
    expected = [dict(enumerate(np.bincount(x).tolist())) for x in (sex, old)]
    counts_of_groups = report["input"]["groups"].values()
    assert [{int(k): v for k, v in x.items()} for x in counts_of_groups] == expected
    names = [f"{name} {value}" for name in ("sex", "old") for value in (0, 1)]
    for counts_of_groups in report["clusters"]:
        counts = [counts_of_groups["groups"][name] for name in names]
        assert (
            counts[0] + counts[1] == counts[2] + counts[3] == counts_of_groups["size"]
        )
        pairs = np.sort(np.reshape(counts, (2, 2)), axis=1)
        assert counts_of_groups["balance"] == (pairs[:, 0] / pairs[:, 1]).min()
    lines[3] = "3,,1"
    missing = workspace.write("two.csv", ["id,sex,old", *lines])
    result = workspace.run(groups=missing)
    assert "two.csv:5: 1 group(s) are missing" in result.stderr


def test_evaluate_each_attribute(people):
    frame = with_two(people)[["sex", "old"]]
    frame["label"] = np.arange(len(frame)) // 3 % 2
    path = people.save(frame, "labels.csv")
    report = people.evaluate(path, "--groups", "sex,old", "--attributes", "each")
    balances = [
        balance_score(frame["label"], sensitive_features=frame[name], average=None)
        for name in ("sex", "old")
    ]
    actual = [cluster["balance"] for cluster in report["clusters"]]
    np.testing.assert_allclose(actual, np.min(balances, axis=0))


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
    result = components.run(path, "--drop", "both", groups="sex,old")
    components.fails(result, "missing in 1 column(s): old (1)", "two.csv:5: column 7")
    few = components.save(frame.assign(old=np.arange(120) < 3), "two.csv")
    message = "have fewer than 10 rows: "
    components.done(few, "--drop", "both", groups="sex,old", message=message)


@pytest.mark.parametrize("command", ["pca", "classify", "regress"], indirect=True)
def test_each_attribute_by_itself(command):
    two = command.save(with_two(command).drop(columns="both"), "two.csv")
    loose = ["--kappa", 1] if "--kappa" in command.line() else []
    if "regress" in command.line():  # 60 rows a group
        loose = ["--no-noise-floor"]
    actual = command.done(two, *loose, "--attributes", "each", groups="sex,old")
    groups = of_groups(actual)
    named = [(group["attribute"], group["group"]) for group in groups]
    assert named == [("sex", "f"), ("sex", "m"), ("old", "0"), ("old", "1")]
    assert actual["parameters"]["attributes"] == "each"
    source = actual["input"].get("train", actual["input"])
    assert list(source["groups"]) == ["sex", "old"]
    # A file of groups without a header has no names of columns.
    frame = with_two(command)[["sex", "old"]]
    lines = [f"{sex},{old}" for sex, old in frame.itertuples(index=False)]
    file = command.write("both.csv", [f"{i},{line}" for i, line in enumerate(lines)])
    table = command.save(command.frame.drop(columns="sex"), "one.csv")
    actual = command.done(table, *loose, "--attributes", "each", groups=file)
    named = [(group["attribute"], group["group"]) for group in of_groups(actual)]
    assert [group for _, group in named] == ["f", "m", "0", "1"]
    assert {name for name, _ in named} == {"attribute 1", "attribute 2"}


def test_scores_of_each_attribute(people):
    frame = with_two(people).assign(score=np.arange(len(people.frame)))
    path = people.save(frame, "two.csv")
    line = [path, "--scores", "score", "--attributes", "each"]
    actual = {
        groups: people.evaluate(*line, "--groups", groups)
        for groups in ("sex", "old", "sex,old")
    }
    gaps = [actual[groups]["ks"] for groups in actual]
    assert gaps[2] == max(gaps[:2])
    assert len(actual["sex,old"]["groups"]) == 4


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
    result = people.invoke(
        "predict", people.output, other, "-o", people.folder / "a.csv"
    )
    assert "Column sex of" in result.stderr
    line += ["--method", "calibrated"]
    result = people.run(path, *line, groups="sex,old")
    assert "--attributes each is not for calibration" in result.stderr
