"""`--group-probabilities`, `--missing-groups` and `--knots` in all commands."""

import json

import numpy as np
import pandas
import pytest

from scalefair.metrics import statistical_parity_ks, unmixed_parity_gap

from .conftest import OLD
from .test_weights import CLASSIFY, on_commands, values


def run(command, frame, line, *options, groups=("--groups", "sex"), name="data.csv"):
    """Run the command on a frame, with other options for the groups."""
    more = {"k": 2} if "affinity" in line else {}
    path = command.save(frame, name)
    arguments = command.line(path, *line.split(), *options, groups="sex", **more)
    first = arguments.index("--groups")
    arguments[first : first + 2] = groups
    return command.invoke(*arguments, "--report", command.report)


def report(command, *arguments, **options) -> dict:
    result = run(command, *arguments, **options)
    assert (result.exit_code, result.stdout) == (0, ""), result.output
    return command.read_report()


@on_commands
def test_one_hot_probabilities_are_groups(command, line, keys, tol):
    frame = command.frame.copy()
    expected = report(command, frame, line)
    soft = pandas.get_dummies(frame, columns=["sex"], prefix="", prefix_sep="")
    soft[["f", "m"]] = soft[["f", "m"]].astype(float)
    groups = "--group-probabilities", "f,m"
    content = report(command, soft, line, groups=groups)
    assert "expected" not in json.dumps(content["input"])  # all is certain
    close = {"rtol": 10 * tol, "atol": 10 * tol}
    np.testing.assert_allclose(values(content, keys), values(expected, keys), **close)
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
    content = workspace.done(
        None, "--missing-groups", "ignore", groups=holes, message="5 of 90"
    )
    n = len(workspace.data.sensitive_features)
    assert sum(content["input"]["groups"].values()) == n - 5
    assert len(workspace.labels()) == n
    result = workspace.run(None, "--missing-groups", "drop", groups=holes)
    assert result.exit_code == 2
    assert "nodes of a graph stay" in result.output


@pytest.mark.parametrize("command", ["classify"], indirect=True)
def test_knots_of_a_number(command):
    frame = command.frame.copy()
    rng = np.random.default_rng(3)
    frame["age"] = rng.integers(18, 70, len(frame))
    groups = "--groups", "age", "--knots", "3"
    content = report(command, frame, CLASSIFY, "--drop", "sex", groups=groups)
    counts = content["input"]["train"]["groups"]
    knots = np.quantile(frame["age"], [0, 0.5, 1])
    assert list(counts) == [f"age {knot:g}" for knot in knots]
    hats = [np.interp(frame["age"], knots, unit).sum() for unit in np.eye(3)]
    np.testing.assert_allclose(list(counts.values()), hats)
    assert "unmixed_parity_gap" not in content["train"]  # nothing is uncertain
    # Rows of a test have the knots of the rows for training.
    old = frame.assign(age=frame["age"] // 2 + 35)
    options = "--drop", "sex", "--test", command.save(old, "old.csv")
    content = report(command, frame, CLASSIFY, *options, groups=groups)
    hats = [np.interp(old["age"], knots, unit).sum() for unit in np.eye(3)]
    counts = content["input"]["test"]["groups"]
    np.testing.assert_allclose(list(counts.values()), hats)
    command.output.write_bytes(OLD)
    command.report.unlink()
    result = run(command, frame, CLASSIFY, groups=("--groups", "sex", "--knots", "3"))
    command.fails(result, "column sex of", "is not a number")


def test_evaluate(people):
    frame = people.frame.assign(score=people.frame["height"])
    rng = np.random.default_rng(0)
    frame["p_f"] = rng.random(len(frame)).round(3)
    frame["p_m"] = 1 - frame["p_f"]
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


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([], "Missing option '--groups'."),
        (["--groups", "sex", "--group-probabilities", "f,m"], "do not go together"),
        (["--groups", "sex", "--knots", "1"], "--knots"),
        (["--groups", "sex,job", "--missing-groups", "ignore"], "--attributes each"),
    ],
)
def test_options_that_do_not_go_together(people, groups, message):
    options = ["--attributes", "each"] if "ignore" in groups else []
    result = run(people, people.frame, CLASSIFY, *options, groups=groups)
    people.fails(result, message, code=2)


def test_calibration_needs_groups(people):
    frame = people.frame.assign(p_f=0.25, p_m=0.75)
    groups = "--group-probabilities", "p_f,p_m"
    result = run(people, frame, "--method calibrated", groups=groups)
    people.fails(result, "takes --groups", "--method linear", code=2)
    result = run(people, frame, "--criterion weak", groups=groups)
    people.fails(result, "--no-interactions")
