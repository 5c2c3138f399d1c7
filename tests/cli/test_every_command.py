"""What `cluster`, `pca`, `classify` and `regress` share: options, roles, and ends."""

import errno
import html
import inspect
import os
import re
from functools import partial
from unittest.mock import Mock

import numpy as np
import pytest
from scipy import sparse

from scalefair.cli import _report, main


def on(*names):
    return pytest.mark.parametrize("command", names, indirect=True)


on_all = on("cluster", "pca", "classify", "regress")
on_tables = on("pca", "classify", "regress")


def of_format(command, source="npy"):
    """Rows in a format, and what else a run on them needs."""
    data, roles = command.stored(source)
    model = {"model": command.plain} if name(command) == "regress" else {}
    return data, {**roles, **model}


def name(command):
    return command.line()[0]


@on_all
def test_every_parameter_is_an_option(command):
    options = {param.name for param in main.commands[name(command)].load().params}
    parameters = inspect.signature(command.estimator).parameters.keys()
    left_out = {"classify": "warm_start", "regress": "estimator prefit batch_size"}
    assert parameters - options == {*left_out.get(name(command), "").split()}


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (
            "cluster",
            "--affinity rbf_nystroem --gamma 0.25 --n-landmarks 30 --solver dual "
            "--no-refine --balance-tolerance 0.3 --tol 0.001 --n-init 2",
        ),
        (
            "cluster",
            "--affinity nearest_neighbors --n-neighbors 33 --neighbors exact "
            "--connected-components all --max-iter 500 --dtype float32",
        ),
        ("pca", "--solver gram --centering group --tol 1e-06 --max-iter 50"),
        (
            "classify",
            "--criterion weak --threshold -0.5 --loss hinge --surrogate sigmoid "
            "--no-interactions --n-thresholds 30 --alpha 0.01 --inner-solver ssg "
            "--surrogate-width 0.5 --start zero --no-tune-intercept --tol 0.01 "
            "--max-iter 50 --max-groups 7 --min-group-size 3",
        ),
        (
            "regress",
            "--layer hidden_1 --method explainable_svd --mean-reduction inf "
            "--covariance-reduction 2.0 --first-moment svd --epsilon 0.01 "
            "--refit-last none",
        ),
    ],
    indirect=["command"],
)
def test_options_arrive_at_the_estimator(command, line, monkeypatch):
    seen = []

    def remember(model, *_, **__):
        seen.append(model.get_params(deep=False))
        raise ValueError("random_state=None is seen")

    monkeypatch.setattr(command.estimator, "fit", remember)
    roles = {"groups": command.sexes} if "affinity" in line else {}
    data = command.npy if roles else None
    result = command.run(data, *line.split(), "--random-state", 7, **roles)
    command.fails(result, "--random-state none is seen")
    [fitted] = seen
    values = dict(re.findall(r"--([\w-]+) ((?!--)\S+)", line))
    values |= dict.fromkeys(re.findall(r"--no-([\w-]+)", line), "False")
    parameters = inspect.signature(command.estimator).parameters
    for option, value in {**values, "random-state": "7"}.items():
        parameter = option.replace("-", "_")
        assert str(fitted[parameter]).lower() == value.lower(), option
        assert fitted[parameter] != parameters[parameter].default, option


@pytest.mark.parametrize(
    ("command", "options", "fragments"),
    [
        ("cluster", "-k 0", "-k"),
        ("cluster", "--gamma 1", "--affinity rbf or rbf_nystroem only"),
        ("cluster", "--affinity rbf --n-neighbors 5", "nearest_neighbors only"),
        ("cluster", "--affinity rbf --neighbors exact", "nearest_neighbors only"),
        ("cluster", "--affinity rbf --components all", "precomputed or nearest"),
        ("cluster", "--id-column a", "not to --affinity precomputed"),
        ("cluster", "--standardize", "not to --affinity precomputed"),
        ("cluster", "--assign-labels kmeans --balance-tolerance 0.2", "fair only"),
        ("pca", "--categorical a", "--categorical"),
        ("pca", "--groups sexes.txt --keep-groups", "--keep-groups"),
        ("pca", "-o c.csv", "must end in .npz"),
        ("pca", "--scores s.txt", "--scores s.txt: must end in .npy"),
        ("classify", "--interval 0.3,0.1", "--interval"),
        ("classify", "--interval nan,1", "--interval"),
        ("classify", "-o model.pkl", "must end in .joblib"),
        ("classify", "--test-groups sex", "apply with --test"),
        ("classify", "--target sex", "the same column"),
        ("classify", "--method calibrated --alpha 1", "--alpha applies to --method"),
        ("classify", "--method calibrated --solver ssg", "--inner-solver applies"),
        ("classify", "--cv 3", "--cv applies to --method calibrated only"),
        ("classify", "--calibrate-to scores", "--calibrate-to applies to --method"),
        ("classify", "--kappa 0", "--kappa 0 applies to --method calibrated only"),
        ("classify", "--group-probabilities f,m", "do not go together"),
        ("classify", "--knots 1", "--knots"),
        ("classify", "--attributes each --missing-groups ignore", "--attributes each"),
        ("pca", "--weight sex", "--groups and --weight name the same column"),
        ("pca", "--weight age --missing impute", "--missing impute takes no --weight"),
        ("regress", "--first-moment svd", "--first-moment"),
        ("regress", "--method explainable_svd --epsilon 0.1", "--epsilon"),
        ("regress", "--missing impute", "do not apply"),
        ("regress", "--drop height", "do not apply"),
        ("regress", "-o fair.pkl", "must end in .joblib"),
    ],
    indirect=["command"],
)
def test_wrong_usage(command, options, fragments, monkeypatch):
    monkeypatch.chdir(command.folder)
    command.fails(command.run(None, *options.split()), fragments, code=2)


@on_tables
def test_every_format_gives_the_same_rows(command, source, monkeypatch):
    """What the estimator is fitted to."""
    fits = []

    def remember(_, X, y=None, *, sensitive_features, **__):
        fits.append((X, y, sensitive_features))
        raise ValueError("it is seen")

    monkeypatch.setattr(command.estimator, "fit", remember)
    data, roles = of_format(command, source)
    assert "it is seen" in command.run(data, **roles).stderr
    [(X, y, groups)] = fits
    assert sparse.issparse(X) == (source == "npz")
    dense = X.toarray() if sparse.issparse(X) else X
    np.testing.assert_array_equal(dense, command.X)
    np.testing.assert_array_equal(groups, command.sex)
    if command.target:
        np.testing.assert_array_equal(y, command.y)


@on_tables
def test_roles_that_are_not_there_or_do_not_fit(command):
    data, roles = of_format(command)
    short = command.write("short.txt", ["0", "1"] * 20)
    for role in command.files:
        result = command.run(data, **{**roles, role: "town"})
        command.fails(result, "town: neither a column", "columns: x0", f"--{role}")
        result = command.run(data, **{**roles, role: short})
        command.fails(result, f"{short}: has 40", f"{len(command.sex)} rows")
        result = command.run(**{role: "town"})
        command.fails(result, "town: neither a column", "height, ", f"--{role}")
    same = command.write("same.txt", ["all"] * len(command.sex))
    result = command.run(data, **{**roles, "groups": same})
    command.fails(result, f"{same}: has 1 group(s), such as 'all'")
    command.fails(command.run("absent.csv"), "absent.csv: no such file")


@on("classify", "regress")
def test_targets_are_needed(command):
    data, roles = of_format(command)
    result = command.run(data, **{**roles, "target": None})
    command.fails(result, "Missing option '--target'", code=2)
    result = command.run(data, "--test", data, **roles)
    command.fails(result, "Missing option '--test-", code=2)


@on("pca", "classify")
def test_columns_that_are_left_out(command):
    for option in ("--drop", "--id-column"):
        command.fails(command.run(None, option, "town"), "town")
    features = [x for x in command.frame if x not in ("sex", command.target)]
    every = [argument for x in features for argument in ("--drop", x)]
    command.fails(command.run(None, *every), "no column is left as a feature")


@on_tables
@pytest.mark.parametrize(
    ("column", "value", "fragments"),
    [
        ("height", "tall", "is 'tall', in a column of numbers"),
        ("weight", "inf", "is inf"),
        ("sex", "?", "missing in 1 column(s): "),
        ("target", "?", "missing in 1 column(s): "),
    ],
)
def test_bad_cells_are_placed(command, column, value, fragments):
    column = (command.target or "sex") if column == "target" else column
    path = command.edited(3, column, value)
    location = f"{path}:5: column {1 + list(command.frame).index(column)} ({column})"
    for options in [(path,)] + [(None, "--test", path)] * bool(command.target):
        command.fails(command.run(*options), location, fragments, column)


@on_all
def test_outputs_are_checked_before_anything_is_read(command):
    run = partial(command.run, "nowhere.csv")
    missing = command.folder / "missing" / command.output.name
    command.fails(run("-o", missing), missing, "does not exist")
    result = run("--report", command.output)
    command.fails(result, "--output and --report name the same file", code=2)
    data, groups = getattr(command, "csv", command.npz), command.sexes
    for path in (data, groups):
        result = command.run(data, "--report", path, groups=groups)
        command.fails(result, path, "is an input file")


@on("cluster", "pca", "regress")
def test_result_and_report_are_replaced_together(command, monkeypatch):
    page = command.folder / "page.HTML"
    page.write_text("older")
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with monkeypatch.context() as patch:
        patch.setattr(_report.Report, "write", Mock(side_effect=error))
        command.fails(command.run(None, "--report", page), page, "no space left")
    assert page.read_text() == "older"
    assert command.run(None, "--report", page).exit_code == 0
    assert page.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("cluster", "--solver chebyshev --tol 1e-12 --max-iter 1"),
        ("cluster", "--solver dual --tol 1e-12 --max-iter 1"),
        ("cluster", "--solver admm --tol 1e-12 --max-iter 1"),
        ("pca", "--tol 1e-08 --max-iter 1"),
        ("classify", "--tol 1e-09 --max-iter 1 --kappa 0.9"),
    ],
    indirect=["command"],
)
def test_no_convergence_is_exit_code_3(command, options):
    before = command.output.read_bytes()
    result = command.run(None, *options.split(), "--report", command.report)
    assert (result.exit_code, result.stdout) == (3, ""), result.output
    line, *more_lines = result.stderr.splitlines()
    assert line.startswith("warning: ")
    for option in re.findall(r"--\w+ [a-z]+|--tol \S+|--max-iter", options):
        assert option in line
    assert not re.search("max_iter|n_clusters", line)
    # The comparison that the report has may say the same.
    assert all("without fairness did not converge" in other for other in more_lines)
    assert command.read_report()["converged"] is False
    assert command.output.read_bytes() != before  # written all the same


CUT = "normalized cut; minimum balance; without fairness"
PCA = "dual; above PCA's error; duality gap"
LINEAR = "Gaps and accuracy; Asked: ; Not promised: equal errors; yes"
CALIBRATED = "gap as calibrated; differ would show about; without fairness"
LAYERS = "KS distance; (test); gap, refit"
GROUPS = "Groups in the test rows"


@pytest.mark.parametrize(
    ("command", "options", "n_figures", "both", "on_the_page"),
    [
        ("cluster", "", 1, CUT, "Clusters, fair; Clusters, without fairness"),
        ("pca", "--solver gram", 1, PCA, ""),
        ("pca", "--solver matrix_free", 0, "need --solver gram", ""),
        ("classify", "--criterion weak --tol 0.1", 2, LINEAR, GROUPS),
        ("classify", "--method calibrated", 2, CALIBRATED, GROUPS),
        ("regress", "", 2, LAYERS, "Layers, before the change"),
    ],
    indirect=["command"],
)
def test_the_summary_on_a_terminal_and_the_page(
    command, options, n_figures, both, on_the_page, on_a_terminal, monkeypatch
):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(command.folder)
    test = ["--test", "rows.csv"] * (name(command) in ("classify", "regress"))
    line = command.line(None, *options.split(), *test, "--report", "page.html")
    code, shown = on_a_terminal(*line)
    assert code == 0, shown
    page = html.unescape((command.folder / "page.html").read_text())
    for fragment in both.split("; "):
        assert fragment in " ".join(shown.split())  # lines are wrapped
        assert fragment in page
    for fragment in ("output", command.output.name, "page.html"):
        assert fragment in shown
    for fragment in on_the_page.split("; "):
        assert fragment in page
    assert page.count("<img ") == n_figures
    assert "could not be drawn" not in page
    assert on_a_terminal(*line, "--quiet") == (0, "")


def test_columns_that_may_be_no_features(components):
    """Ids are left out; others that are doubtful are features, with a note each."""
    shuffled = np.random.default_rng(0).permutation(120)
    frame = components.frame.assign(
        RowNumber=range(1, 121),
        CustomerId=15_000_000 + 7 * shuffled,
        visits=13 * shuffled,
        fnlwgt=1.5,
        CO=np.where(np.arange(120) % 9, shuffled / 100, -200),
        target=shuffled / 100,
    )
    path = components.save(frame, "raw.csv")
    result = components.run(path)
    assert result.exit_code == 0, result.output
    for fragment in (
        "ids were left out: RowNumber, CustomerId. Pass",
        "all differ were taken for a feature: visits. Pass --drop",
        "target was taken for a feature",
        "--weight 'fnlwgt'",
        "CO (-200). Pass --na-values=-200",
        "visits spreads",
    ):
        assert fragment in result.stderr
    names = components.arrays()["columns"].tolist()
    assert names == [*components.names, "visits", "fnlwgt", "CO", "target"]
    options = "--feature RowNumber --drop visits --drop target --weight fnlwgt "
    options += "--standardize --na-values -200 --missing drop --drop"
    line = (path, *options.split(), " CustomerId ")
    report = components.done(*line, message="rows were left out")
    assert report["input"]["n_features"] == 7
    result = components.invoke("describe", path)
    assert "CO (-200)" in result.stderr


def test_words_that_differ_in_every_row_are_no_categories(people):
    names = [f"name {i}" for i in range(240)]
    path = people.save(people.frame.assign(Surname=names), "named.csv")
    people.fails(people.run(path), "Surname (240)", "--drop 'Surname'")


def test_all_damaged_columns_are_told(components):
    frame = components.frame.astype(object)
    frame.loc[3, "height"], frame.loc[5, "age"] = "tall", "1,000"
    result = components.run(components.save(frame, "damaged.csv"))
    fragments = ("damaged.csv:5", "is 'tall'", "damaged.csv:7", "is '1,000'")
    components.fails(result, *fragments)
