"""Saved models on other rows, and measures of what they say: `predict`, `evaluate`."""

import io
import re
from itertools import product

import joblib
import numpy as np
import pandas
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import IsolationForest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from scalefair import metrics
from scalefair.files._tables import FLOAT_OPTIONS

from .conftest import ran


class Models:
    """Rows with blanks after commas, models of them, and runs of ``predict``."""

    def __init__(self, wages):
        self.folder, self.write, self.invoke = wages.folder, wages.write, wages.invoke
        self.output = wages.output = wages.output.rename(wages.folder / "scores.csv")
        self.wages, self.fails, self.sexes = wages, wages.fails, wages.sex[80:]
        self.model = wages.folder / "model.joblib"
        labels = np.where(wages.y > np.median(wages.y), "high", "low")
        frame = wages.frame.drop(columns="wage").assign(pay=labels)
        self.lines = frame.to_csv(index=False).replace(",", ", ").splitlines()
        self.train = self.write("train.csv", self.lines[:81])
        self.test = self.write("test.csv", [self.lines[0], *self.lines[81:]])
        self.train_rows, self.test_rows = frame[:80], frame[80:].reset_index(drop=True)

    def fit(self, data=None, *options):
        """Let classify write a model."""
        command = ["classify", data or self.train, "--target", "pay", "--groups", "sex"]
        command += ["--standardize", "--quiet"]
        if "calibrated" not in options:  # few steps to some model
            command += ["--max-iter", 2, "--tol", 0.1, "--surrogate-width", 1]
        result = self.invoke(*command, "-o", self.model, *options)
        assert result.exit_code in (0, 3), result.output

    def save(self, data=None, *options):
        """Do the same; scores and predictions of the test rows."""
        self.fit(data, *options)
        saved = joblib.load(self.model)
        X = saved["encoder"].transform(self.test_rows[saved["columns"]])
        model, groups = saved["classifier"], {"sensitive_features": self.sexes}
        return model.decision_function(X, **groups), model.predict(X, **groups)

    def predict(self, table=None, *options, model=None):
        arguments = ["predict", model or self.model, table or self.test]
        return self.invoke(*arguments, "-o", self.output, *options)

    def done(self, *arguments, message="", **options):
        """Run, and return what was written."""
        ran(self.predict(*arguments, **options), message)
        return pandas.read_csv(self.output, **FLOAT_OPTIONS)


@pytest.fixture
def models(wages):
    return Models(wages)


CALIBRATED = ("--method", "calibrated", "--cv", 2)


@pytest.mark.parametrize("options", [(), ("--no-interactions",), CALIBRATED])
def test_predictions_are_those_of_the_classifier(models, options):
    """To the last bit: the same encoder, the same rows, the same model."""
    scores, predictions = models.save(None, *options)
    actual = models.done()
    assert list(actual) == ["row", "score", "prediction"]
    assert actual["row"].tolist() == list(range(40))
    assert actual["score"].tolist() == scores.tolist()
    assert actual["prediction"].tolist() == predictions.tolist()
    in_blocks = models.done(None, "--memory-limit", "1kB")
    np.testing.assert_allclose(in_blocks["score"], scores, rtol=1e-12)


def test_columns_go_by_name_and_ids_come_along(models):
    scores, _ = models.save(None, "--no-interactions")
    frame = models.test_rows[["weight", "job", "height"]].assign(more=1)
    frame.insert(0, "id", [f"p{i}" for i in range(40)])
    table = models.folder / "people.parquet"
    frame.to_parquet(table)
    actual = models.done(table)
    assert actual["id"].tolist() == frame["id"].tolist()
    assert actual["score"].tolist() == scores.tolist()


def test_groups_in_a_file_or_of_one_kind(models):
    scores, _ = models.save()
    actual = models.done(None, "--groups", models.write("sexes.txt", models.sexes))
    assert actual["score"].tolist() == scores.tolist()
    kept = models.sexes == "f"
    table = models.wages.save(models.test_rows[kept], "women.csv")
    assert models.done(table)["score"].tolist() == scores[kept].tolist()


@pytest.mark.parametrize(
    ("values", "kind"),
    [(("true", "false"), "csv"), ((True, False), "csv"), ((True, False), "parquet")],
)
def test_truth_values(models, values, kind):
    """As a feature, as groups and as labels; fitted from one spelling and file."""

    def spelled(values, kind):
        rows, names = models.train_rows, dict(zip((True, False), values, strict=True))
        for name, word in (("job", "cook"), ("sex", "f"), ("pay", "high")):
            rows = rows.assign(**{name: (rows[name] == word).map(names)})
        table = models.folder / f"{values[0]}.{kind}"
        getattr(rows, f"to_{kind}")(table, index=False)
        return table

    train, table = spelled(("TRUE", "FALSE"), "csv"), spelled(values, kind)
    options = ("--report", models.wages.report, "--no-baseline", "--test", table)
    models.fit(train, *CALIBRATED, *options)
    accuracy = models.wages.read_report()["test"]["accuracy"]
    assert accuracy > 0.6
    expected = models.done(train)
    assert set(expected["prediction"]) <= {True, False}
    for options in (), ("--memory-limit", "1kB"):
        actual = models.done(table, *options)
        np.testing.assert_allclose(actual["score"], expected["score"], rtol=1e-12)
    roles = "--groups", f"{table}:sex", "--target", f"{table}:pay"
    assert models.wages.evaluate(models.output, *roles)["accuracy"] == accuracy
    missing = spelled((True, None), "parquet")
    models.fails(models.predict(missing), "missing", "job (")


@pytest.mark.parametrize("fragments", [("yes", "no"), ("1", "0")])
def test_columns_of_unknown_words_only(models, fragments):
    """Predictions without the column are not those of the model."""
    frame, is_cook = models.train_rows, models.train_rows["job"] == "cook"
    table = models.wages.save(frame.assign(job=is_cook), "table.csv")
    models.fit(table, "--no-interactions")
    models.wages.save(frame.assign(job=np.where(is_cook, *fragments)), "table.csv")
    fragments = (f"{table}: column job: 80 row(s)", "known: False, True", "beside rows")
    models.fails(models.predict(table), *fragments)
    models.fails(models.predict(table, "--memory-limit", "1kB"), *fragments)


def test_what_else_means_missing_is_saved(models):
    lines = [*models.lines[:9], "-200" + models.lines[9][models.lines[9].index(",") :]]
    table = models.write("gaps.csv", [*lines, *models.lines[10:]])
    options = ("--na-values", "-,-200", "--na-values", "Unknown")
    models.fit(table)
    models.fails(models.predict(table, *options), "height (1)")
    models.fails(models.predict(models.wages.npy, *options), "na-values", code=2)
    models.done(table)
    models.fit(table, *options, "--missing", "impute")
    assert joblib.load(models.model)["reading"]["na_values"] == ["-", "-200", "Unknown"]
    models.done(table, message="height (1)")


def test_the_encoding_is_that_of_a_file(models):
    rows = models.train_rows.replace("cook", "Köchin")
    utf8 = models.wages.save(rows, "utf8.csv")
    latin = models.wages.save(rows, "latin.csv", encoding="cp1252")
    models.fit(latin, "--no-interactions", "--encoding", "latin-1")
    models.fails(models.predict(latin), "not UTF-8", "--encoding cp1252")
    actual = models.done(latin, "--encoding", "cp1252")
    assert actual["score"].tolist() == models.done(utf8)["score"].tolist()


def test_missing_values(models):
    lines = models.lines.copy()
    lines[7] = "?" + lines[7][lines[7].index(",") :]
    gaps = models.write("gaps.csv", lines)
    models.fit()
    models.fails(models.predict(gaps), gaps, "height (1)", "--missing drop")
    result = models.predict(gaps, "--missing", "impute")
    models.fails(result, "does not apply", code=2)
    message = "1 of 120 rows were left out"
    actual = models.done(gaps, "--missing", "drop", message=message)
    assert actual["row"].tolist() == [i for i in range(120) if i != 6]
    models.fit(gaps, "--missing", "impute", "--report", models.wages.report)
    actual = models.done(gaps, message="height (1)")
    truth = [line.rpartition(", ")[2] for line in lines[1:]]
    measured = models.wages.read_report()["train"]["accuracy"]
    assert (actual["prediction"] == truth).mean() == pytest.approx(measured)


@pytest.mark.parametrize("by_name", [False, True])
def test_models_of_regress_and_others(models, by_name):
    wages = models.wages
    model = wages.named if by_name else wages.plain
    changed = models.folder / "fair.joblib"
    assert wages.run(None, "-o", changed, model=model).exit_code == 0
    X = wages.frame[wages.names] if by_name else wages.X
    drop = ("--drop", "job", "--drop", "sex", "--drop", "wage")
    lines = [(wages.csv,)] if by_name else [(wages.csv, *drop), (wages.npz,)]
    for path, line in product((changed, model), lines):
        actual, expected = models.done(*line, model=path), joblib.load(path).predict(X)
        assert list(actual) == ["row", "prediction"]
        np.testing.assert_allclose(actual["prediction"], expected, rtol=1e-12)


def test_classifiers_of_scikit_learn(models):
    X = models.wages.frame[["job", "height"]]
    one_hot = (OneHotEncoder(), ["job"])
    encoder = make_column_transformer(one_hot, remainder="passthrough")
    model = make_pipeline(encoder, LogisticRegression()).fit(X, models.wages.sex)
    joblib.dump(model, models.model)
    actual = models.done(models.wages.csv)
    assert actual["prediction"].tolist() == model.predict(X).tolist()
    np.testing.assert_allclose(actual["score"], model.decision_function(X), rtol=1e-12)
    # Three classes have no score, and outliers are no classes.
    classifier = LogisticRegression().fit(models.wages.X, models.wages.frame["job"])
    detector = IsolationForest(n_estimators=2).fit(models.wages.X)
    for model in (classifier, detector):
        joblib.dump(model, models.model)
        assert list(models.done(models.wages.npy)) == ["row", "prediction"]


@pytest.mark.parametrize("values", [("TRUE", "FALSE"), (True, False), ("yes", "no")])
def test_encoders_of_scikit_learn_know_truth_values(models, values):
    """As words or as truth values, whichever they were fitted to."""
    X = models.wages.frame[["height"]].assign(cook=models.wages.frame["job"] == "cook")
    X["cook"] = X["cook"].map(dict(zip((True, False), values, strict=True)))
    encoder = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["cook"]), remainder="passthrough"
    )
    model = make_pipeline(encoder, LinearRegression()).fit(X, models.wages.y)
    joblib.dump(model, models.model)
    other = X.assign(cook=X["cook"].map(dict(zip(values, "TF", strict=True))))
    table = models.wages.save(other, "table.csv")
    if values[0] is not True:
        models.fails(models.predict(table), "120 row(s)", "model does not")
    actual = models.done(models.wages.save(X, "table.csv"))
    np.testing.assert_allclose(actual["prediction"], model.predict(X), rtol=1e-12)


@pytest.mark.parametrize("kind", ["csv", "npy", "npz"])
def test_components(components, kind):
    """Coordinates are those that pca writes itself, up to rounding."""
    data = getattr(components, kind)
    groups = "sex" if kind == "csv" else components.sexes
    options = ("--scores", components.scores, "--standardize")
    assert components.run(data, *options, groups=groups).exit_code == 0
    actual = components.predict(data)
    assert list(actual) == ["row", "component_1", "component_2"]
    coordinates = np.load(components.scores)
    np.testing.assert_allclose(actual.iloc[:, 1:], coordinates, rtol=0, atol=1e-12)
    if kind == "csv":
        blocks = components.predict(data, "--memory-limit", "1kB")
        pandas.testing.assert_frame_equal(actual, blocks, rtol=1e-12)


def test_pipes(models):
    scores, _ = models.save()
    result = models.invoke("predict", models.model, models.test, "-o", "-", "--verbose")
    assert (result.exit_code, result.stderr) == (0, "")
    actual = pandas.read_csv(io.StringIO(result.stdout), **FLOAT_OPTIONS)
    assert actual["score"].tolist() == scores.tolist()
    result = models.predict(None, "--verbose")
    n = (actual["prediction"] == "high").sum()
    assert re.search(rf"high\W+{n}\W+{n / 40:g}", result.stdout)


def test_what_cannot_be_predicted(models):
    models.fit()
    models.fails(models.predict("no.csv"), "no.csv: no such file")
    models.fails(models.predict(model="no.joblib"), "no.joblib: no such file")
    frame = models.test_rows
    for changed, *fragments in (
        (frame.drop(columns="height"), "table.csv", "lacks 1 of the 3", "height"),
        (frame.drop(columns="sex"), "sex: neither a column", "--groups"),
        (frame.assign(sex="x"), "the group 'x' does not occur"),
        (frame.assign(height="tall"), "holds words in height"),
    ):
        table = models.wages.save(changed, "table.csv")
        models.fails(models.predict(table), *fragments)
    models.fails(models.predict(models.wages.npy), models.wages.npy)
    models.fails(models.predict(None, "-o", models.test), "is an input file")
    result = models.predict(model=models.wages.npz)
    models.fails(result, "not an output of scalefair pca")
    models.fit(None, "--no-interactions")
    models.fails(models.predict(None, "--groups", "sex"), "does not apply", code=2)
    for held in ({"classifier": 1}, 7, LinearRegression()):
        joblib.dump(held, models.model)
        models.fails(models.predict(models.wages.npy), models.model)


def test_groups_are_needed_for_calibrated_scores(models):
    scores, _ = models.save(None, *CALIBRATED)
    # Saved without what reads rows, and not knowing how the groups are called.
    saved = joblib.load(models.model)
    joblib.dump(saved["classifier"], models.model)
    X = saved["encoder"].transform(models.test_rows[saved["columns"]])
    rows, _ = models.wages.save_arrays("test", X)
    models.fails(models.predict(rows), "Missing option '--groups'", code=2)
    actual = models.done(rows, "--groups", models.write("sexes.txt", models.sexes))
    assert actual["score"].tolist() == scores.tolist()


def test_columns_that_are_kept(models):
    """Features, groups and others, as the table has them; `evaluate` takes them."""
    models.fit()
    output = models.done(None, "--keep", "pay, sex", "--keep", "height")
    names = ["pay", "sex", "height"]
    assert list(output) == ["row", "score", "prediction", *names]
    pandas.testing.assert_frame_equal(output[names], models.test_rows[names])
    models.wages.evaluate(models.output, "--groups", "sex", "--target", "pay")
    models.fails(models.predict(None, "--keep", "no"), "no column is named 'no'")


@pytest.fixture
def scored(workspace):
    """Scores of 60 rows with groups, labels to predict, predictions and numbers."""
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"row": range(60), "score": rng.normal(size=60)})
    frame["prediction"] = np.where(frame["score"] > 0, "yes", "no")
    frame["truth"] = np.where(frame["score"] + rng.normal(size=60) > 0, "yes", "no")
    frame["wage"] = 2 * frame["score"] + 1
    frame["sex"] = np.where(rng.random(60) < 0.4, "f", "m")
    workspace.frame, workspace.scores = frame, workspace.save(frame, "scores.csv")
    return workspace


@pytest.mark.parametrize("source", ["npz", "edges"])
def test_labels_give_what_cluster_reports(workspace, source):
    graph = getattr(workspace, source)
    expected = workspace.done(graph)
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


def test_encoding_of_labels_and_graph(workspace):
    texts = "id,label,sex\né,0,f\na,1,m\n", "é,a\na,a\n"
    table, graph = workspace.folder / "labels.csv", workspace.folder / "latin.csv"
    for path, text in zip((table, graph), texts, strict=True):
        path.write_text(text, encoding="cp1252")
    options = ("--groups", "sex", "--graph", graph, "--encoding", "cp1252")
    assert workspace.evaluate(table, *options)["normalized_cut"] == 1.5


def test_scores_with_two_classes(scored):
    options = (scored.scores, "--groups", "sex", "--target", "truth")
    options += ("--interval", "0.1,0.6", "--threshold", 0.2)
    actual, frame = scored.evaluate(*options), scored.frame
    groups, top = {"sensitive_features": frame["sex"]}, {"interval": (0.1, 0.6)}
    gap = metrics.partial_demographic_parity_gap(frame["score"], **groups, **top)
    assert actual["partial_parity_gap"] == pytest.approx(gap)
    top["threshold"] = 0.2
    weak = metrics.weak_partial_demographic_parity_gap(frame["score"], **groups, **top)
    assert actual["weak_partial_parity_gap"] == pytest.approx(weak)
    ks = metrics.statistical_parity_ks(frame["score"], **groups)
    assert actual["ks"] == pytest.approx(ks)
    sizes = np.unique(frame["sex"], return_counts=True)[1]
    noise = metrics.null_parity_gap(sizes, interval=(0.1, 0.6))
    assert actual["null_gap"] == noise
    for fragment in ("the top 10% and the top 60% of each", f"about {noise:.3f}"):
        assert fragment in actual["summary"]
    # The predictions are those of the file, not what the threshold would say.
    right, above = frame["prediction"] == frame["truth"], frame["score"] > 0.2
    assert actual["accuracy"] == pytest.approx(right.mean())
    assert actual["selection_rate"] == pytest.approx(above.mean())
    for entry, sex in zip(actual["groups"], "fm", strict=True):
        is_group = frame["sex"] == sex
        assert (entry["group"], entry["n_rows"]) == (sex, is_group.sum())
        assert entry["accuracy"] == pytest.approx(right[is_group].mean())
        assert entry["selection_rate"] == pytest.approx(above[is_group].mean())


def test_rows_of_one_label(scored):
    options = (scored.scores, "--groups", "sex", "--target", "truth", "--given")
    actual, frame = scored.evaluate(*options, "label"), scored.frame
    data, groups = [frame["truth"], frame["score"]], {"sensitive_features": frame.sex}
    gap = metrics.partial_equalized_odds_gap(*data, **groups)
    assert actual["partial_parity_gap"] == pytest.approx(gap)
    actual = scored.evaluate(*options, "positive", "--threshold", 0.2)
    gap = metrics.partial_equal_opportunity_gap(*data, **groups, threshold=0.2)
    assert actual["weak_partial_parity_gap"] == pytest.approx(gap)


def test_the_threshold_decides_where_there_is_no_prediction(scored):
    frame = scored.frame.drop(columns="prediction")
    frame.to_csv(scored.scores, index=False)
    options = (scored.scores, "--groups", "sex", "--target", "truth")
    actual = scored.evaluate(*options, "--threshold", 0.2)
    right = np.where(frame["score"] > 0.2, "yes", "no") == frame["truth"]
    assert actual["accuracy"] == pytest.approx(right.mean())
    # Predictions of a regressor are scores, though the target has two values.
    frame = frame.assign(truth=frame["truth"] == "yes")
    table = frame.astype({"truth": int}).rename(columns={"score": "prediction"})
    table.to_csv(scored.scores, index=False)
    assert scored.evaluate(*options, "--threshold", 0.2)["accuracy"] == right.mean()


def test_predictions_are_compared_with_labels_in_any_spelling(scored):
    """Truth values of a file are words; what is no label at all is refused."""
    path = scored.folder / "truth.npy"
    frame = scored.frame.replace({"yes": True, "no": False})
    frame.to_csv(scored.scores, index=False)
    np.save(path, frame["truth"].to_numpy(bool))
    options = scored.scores, "--groups", "sex", "--target"
    right = (frame["prediction"] == frame["truth"]).mean()
    assert scored.evaluate(*options, path)["accuracy"] == right
    np.save(path, frame["truth"].to_numpy(int))
    done = scored.invoke("evaluate", *options, path)
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"column prediction has False, True, and {path} 0, 1" in done.stderr


def test_numbers_with_targets_in_a_file(scored):
    """Rows of a file are found by their ids, whatever their order."""
    wages = scored.frame.sample(frac=1, random_state=0)[["row", "wage"]]
    wages = scored.save(wages, "wages.csv", header=False)
    options = ("--groups", "sex", "--target", wages)
    actual = scored.evaluate(scored.scores, "--scores", "score", *options)
    error = (scored.frame["score"] - scored.frame["wage"]) ** 2
    assert actual["mse"] == pytest.approx(error.mean())
    assert "accuracy" not in actual
    assert "partial_parity_gap" not in actual


def test_groups_of_the_original_table(scored):
    """Rows are those that predict numbered, or found by their ids, or all in order."""
    expected = scored.evaluate(scored.scores, "--groups", "sex", "--target", "truth")
    frame = scored.frame.drop(columns=["row", "score", "prediction"])
    people = scored.save(frame, "people.csv")
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
    scored.save(frame.sample(frac=1, random_state=0), "people.csv")
    scored.frame["row"] = frame["id"]
    assert measured(row="id") == same
    for line in (roles, ("--group-probabilities", people)):
        done = scored.invoke("evaluate", result, *line, "--report", people)
        scored.fails(done, "is an input file")
    scored.save(frame.drop(columns="id"), "people.csv")
    done = scored.invoke("evaluate", result, *roles)
    scored.fails(done, "has no ids to be matched")
    done = scored.invoke("evaluate", result, "--groups", f"{people}:age")
    scored.fails(done, "no column is named 'age' (columns: truth, wage")


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
        (("--groups", "sex", "--missing", "impute"), 2, "impute does not apply"),
        (("--groups", "sex", "--given", "label"), 2, "--given needs a --target of two"),
        (("--groups", "sex,x", "--attributes", "each"), 1, "x has 1 group(s), such as"),
        ((), 2, "--groups"),
    ],
)
def test_errors(scored, options, code, fragments):
    frame = scored.frame.assign(many=["a", "b", "c"] * 20, x="x")
    table = scored.save(frame, "scores.csv")
    scored.fails(scored.invoke("evaluate", table, *options), fragments, code=code)


def test_tables_without_a_known_column_and_nodes_without_a_label(workspace):
    table = workspace.write("table.csv", ["a,b", "1,x", "2,y"])
    result = workspace.invoke("evaluate", table, "--groups", "b")
    workspace.fails(result, "columns: a, b")
    table = workspace.write("labels.csv", ["id,label,sex", "0,1,f", "1,0,m"])
    options = ("--groups", "sex", "--graph", workspace.npz)
    workspace.fails(workspace.invoke("evaluate", table, *options), "88 nodes")
    table = workspace.write("labels.csv", ["id,label,sex", "0,1,f", "1,-1,m"])
    result = workspace.invoke("evaluate", table, "--groups", "sex")
    workspace.fails(result, "only one among the assigned")
