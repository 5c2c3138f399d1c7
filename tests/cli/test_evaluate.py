"""What `scalefair evaluate` measures."""

import numpy as np
import pandas
import pytest

from scalefair import metrics


@pytest.fixture
def scored(workspace):
    """Scores of 60 rows with groups, labels to predict, predictions and numbers."""
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"row": range(60), "score": rng.normal(size=60)})
    frame["prediction"] = np.where(frame["score"] > 0, "yes", "no")
    frame["truth"] = np.where(frame["score"] + rng.normal(size=60) > 0, "yes", "no")
    frame["wage"] = 2 * frame["score"] + 1
    frame["sex"] = np.where(rng.random(60) < 0.4, "f", "m")
    workspace.frame = frame
    workspace.scores = workspace.folder / "scores.csv"
    frame.to_csv(workspace.scores, index=False)
    return workspace


@pytest.mark.parametrize("source", ["npz", "edges"])
def test_labels_give_what_cluster_reports(workspace, source):
    graph = getattr(workspace, source)
    workspace.run(graph, "--report", workspace.report)
    expected = workspace.read_report()
    options = (workspace.output, "--groups", workspace.groups, "--graph", graph)
    actual = workspace.evaluate(*options)
    for name in ("balance_mean", "balance_min", "normalized_cut", "clusters"):
        assert actual[name] == expected[name]
    assert actual["input"]["groups"] == expected["input"]["groups"]
    assert "normalized_cut" not in workspace.evaluate(*options[:3])


def test_labels_may_be_words(workspace):
    lines = ["row,team,sex", "0,red,f", "1,red,m", "2,blue,m", "3,blue,m"]
    table = workspace.write("teams.csv", lines)
    actual = workspace.evaluate(table, "--groups", "sex", "--labels", "team")
    assert actual["balance_mean"] == 0.5  # red is balanced, blue has no f
    assert [entry["label"] for entry in actual["clusters"]] == ["blue", "red"]
    assert actual["clusters"][0]["groups"] == {"f": 0, "m": 2}


def test_scores_with_two_classes(scored):
    options = (scored.scores, "--groups", "sex", "--target", "truth")
    options += ("--interval", "0.1,0.6", "--threshold", 0.2)
    actual, frame = scored.evaluate(*options), scored.frame
    options_of = {"sensitive_features": frame["sex"], "interval": (0.1, 0.6)}
    gap = metrics.partial_demographic_parity_gap(frame["score"], **options_of)
    assert actual["partial_parity_gap"] == pytest.approx(gap)
    options_of["threshold"] = 0.2
    weak = metrics.weak_partial_demographic_parity_gap(frame["score"], **options_of)
    assert actual["weak_partial_parity_gap"] == pytest.approx(weak)
    ks = metrics.statistical_parity_ks(frame["score"], sensitive_features=frame["sex"])
    assert actual["ks"] == pytest.approx(ks)
    sizes = np.unique(frame["sex"], return_counts=True)[1]
    noise = metrics.null_parity_gap(sizes, interval=(0.1, 0.6))
    assert actual["null_gap"] == noise
    between = "among the rows between the top 10% and the top 60% of each group. "
    assert (
        f"{between}Groups that do not differ would show about {noise:.3f}"
        in (actual["summary"])
    )
    # The predictions are those of the file, not what the threshold would say.
    right = frame["prediction"] == frame["truth"]
    assert actual["accuracy"] == pytest.approx(right.mean())
    above = frame["score"] > 0.2
    assert actual["selection_rate"] == pytest.approx(above.mean())
    for entry, sex in zip(actual["groups"], "fm", strict=True):
        is_group = frame["sex"] == sex
        assert (entry["group"], entry["n_rows"]) == (sex, is_group.sum())
        assert entry["accuracy"] == pytest.approx(right[is_group].mean())
        assert entry["selection_rate"] == pytest.approx(above[is_group].mean())


def test_rows_of_one_label(scored):
    options = (scored.scores, "--groups", "sex", "--target", "truth", "--given")
    actual, frame = scored.evaluate(*options, "label"), scored.frame
    gap = metrics.partial_equalized_odds_gap(
        frame["truth"], frame["score"], sensitive_features=frame["sex"]
    )
    assert actual["partial_parity_gap"] == pytest.approx(gap)
    actual = scored.evaluate(*options, "positive", "--threshold", 0.2)
    gap = metrics.partial_equal_opportunity_gap(
        frame["truth"], frame["score"], sensitive_features=frame["sex"], threshold=0.2
    )
    assert actual["weak_partial_parity_gap"] == pytest.approx(gap)
    result = scored.invoke("evaluate", *options[:3], "--given", "label")
    assert result.exit_code == 2
    assert "--given needs a --target of two labels" in result.stderr


def test_the_threshold_decides_where_there_is_no_prediction(scored):
    frame = scored.frame.drop(columns="prediction")
    frame.to_csv(scored.scores, index=False)
    options = (scored.scores, "--groups", "sex", "--target", "truth")
    actual = scored.evaluate(*options, "--threshold", 0.2)
    right = np.where(frame["score"] > 0.2, "yes", "no") == frame["truth"]
    assert actual["accuracy"] == pytest.approx(right.mean())


def test_numbers_with_targets_in_a_file(scored):
    """Rows of a file are found by their ids, whatever their order."""
    wages = scored.frame.sample(frac=1, random_state=0)[["row", "wage"]]
    wages.to_csv(scored.folder / "wages.csv", index=False, header=False)
    options = ("--groups", "sex", "--target", scored.folder / "wages.csv")
    actual = scored.evaluate(scored.scores, "--scores", "score", *options)
    error = (scored.frame["score"] - scored.frame["wage"]) ** 2
    assert actual["mse"] == pytest.approx(error.mean())
    assert "accuracy" not in actual
    assert "partial_parity_gap" not in actual


def test_groups_of_the_original_table(scored):
    """Rows are those that predict numbered, or found by their ids, or all in order."""
    expected = scored.evaluate(scored.scores, "--groups", "sex", "--target", "truth")
    frame = scored.frame.drop(columns=["row", "score", "prediction"])
    people = scored.folder / "people.csv"
    frame.to_csv(people, index=False)
    roles = ("--groups", f"{people}:sex", "--target", f"{people}:truth")
    columns = ["row", "score", "prediction"]
    result = scored.folder / "result.csv"

    def measured(**names):
        table = scored.frame[columns].rename(columns=names)
        table.drop(columns="none", errors="ignore").to_csv(result, index=False)
        actual = scored.evaluate(result, *roles)
        return [actual[name] for name in ("ks", "accuracy", "partial_parity_gap")]

    same = [expected[name] for name in ("ks", "accuracy", "partial_parity_gap")]
    assert measured() == measured(row="id") == measured(row="none") == same
    frame.insert(0, "id", [f"p{i}" for i in range(60)])
    frame.sample(frac=1, random_state=0).to_csv(people, index=False)
    scored.frame["row"] = frame["id"]
    assert measured(row="id") == same
    done = scored.invoke("evaluate", result, *roles, "--report", people)
    assert "is an input file" in done.stderr
    frame.drop(columns="id").to_csv(people, index=False)
    done = scored.invoke("evaluate", result, *roles)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "has no ids to be matched" in done.stderr
    done = scored.invoke("evaluate", result, "--groups", f"{people}:age")
    assert "no column is named 'age' (columns: wage" in done.stderr.replace(
        "truth, ", ""
    )


def test_what_is_shown(scored, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    page = scored.folder / "page.html"
    options = ("evaluate", scored.scores, "--groups", "sex", "--report", page)
    shown = scored.invoke(*options).stdout
    for fragments in ("partial parity gap", "KS distance", "share above", str(page)):
        assert fragments in shown
    assert "KS distance" in page.read_text()
    assert scored.invoke(*options, "--quiet").output == ""
    monkeypatch.setenv("COLUMNS", "60")
    page = scored.folder / f"{'long ' * 20}.html"
    shown = scored.invoke(*options[:-1], page).stdout
    assert "".join(str(page).split()) in "".join(shown.split())  # to be copied


@pytest.mark.parametrize(
    ("options", "code", "fragments"),
    [
        (("--groups", "age"), 1, "neither a column"),
        (("--groups", "sex", "--scores", "height"), 1, "height"),
        (("--groups", "sex", "--scores", "prediction"), 1, "holds words"),
        (("--groups", "sex", "--target", "many"), 1, "neither numbers nor two"),
        (("--groups", "sex", "--labels", "row", "--scores", "wage"), 2, "together"),
        (("--groups", "sex", "--interval", "0.5,0.1"), 2, "alpha < beta"),
        (("--groups", "sex", "--interval", "half"), 2, "alpha < beta"),
        (("--groups", "sex", "--labels", "sex", "--graph", "g"), 1, "g: no such file"),
        ((), 2, "--groups"),
    ],
)
def test_errors(scored, options, code, fragments):
    scored.frame["many"] = ["a", "b", "c"] * 20
    scored.frame.to_csv(scored.scores, index=False)
    result = scored.invoke("evaluate", scored.scores, *options)
    assert (result.exit_code, result.stdout) == (code, "")
    assert fragments in " ".join(result.stderr.split())


def test_tables_without_a_known_column_and_nodes_without_a_label(workspace):
    table = workspace.write("table.csv", ["a,b", "1,x", "2,y"])
    result = workspace.invoke("evaluate", table, "--groups", "b")
    assert result.exit_code == 1
    assert "columns: a, b" in result.stderr
    table = workspace.write("labels.csv", ["id,label,sex", "0,1,f", "1,0,m"])
    options = ("--groups", "sex", "--graph", workspace.npz)
    result = workspace.invoke("evaluate", table, *options)
    assert result.exit_code == 1
    assert "88 nodes" in result.stderr
