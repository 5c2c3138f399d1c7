"""`scalefair cluster` on rows of features."""

import csv

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from scalefair.cli import _cluster_options
from scalefair.cli._cluster_summary import summary_rows
from scalefair.cluster import FairSpectralClustering
from scalefair.metrics import normalized_cut_score
from scalefair.operators import RBFKernel

# Few neighbours leave the two groups of points apart, many join them.
OPTIONS = {
    "nearest_neighbors": ("--n-neighbors", 40),
    "rbf": ("--gamma", 0.1),
    "rbf_nystroem": ("--gamma", 0.1, "--n-landmarks", 20),
}
every_affinity = pytest.mark.parametrize("affinity", OPTIONS)


def in_row_order(workspace):
    labels = workspace.labels()
    return np.array([labels[str(i)] for i in range(len(labels))])


@every_affinity
@pytest.mark.parametrize("source", ["npy", "table"])
def test_silent_and_right(with_rows, affinity, source):
    result = with_rows.cluster_rows(
        getattr(with_rows, source), affinity, *OPTIONS[affinity]
    )
    assert (result.exit_code, result.output) == (0, "")
    assert list(with_rows.labels()) == [str(i) for i in range(60)]
    assert adjusted_rand_score(with_rows.target, in_row_order(with_rows)) == 1


def test_sparse_rows(with_rows):
    result = with_rows.cluster_rows(
        with_rows.sparse_rows, "nearest_neighbors", "--n-neighbors", 40
    )
    assert (result.exit_code, result.output) == (0, "")
    assert adjusted_rand_score(with_rows.target, in_row_order(with_rows)) == 1


def test_ids_of_the_table_are_those_of_groups_and_labels(with_rows):
    rows = list(enumerate(with_rows.X.tolist()))
    table = with_rows.write(
        "named.csv", ["user_id,x,y", *(f"p{i},{x!r},{y!r}" for i, (x, y) in rows)]
    )
    pairs = [f"p{i},{sex}" for i, sex in enumerate(with_rows.sexes)]
    groups = with_rows.write("named_groups.csv", [*reversed(pairs), "stranger,f"])
    result = with_rows.cluster_rows(table, "rbf", groups=groups)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == (
        f"note: {groups}: 1 id(s) are not in {table} and were ignored.\n"
    )
    labels = with_rows.labels()
    assert list(labels) == [f"p{i}" for i in range(60)]
    assert adjusted_rand_score(with_rows.target, list(labels.values())) == 1
    by_hand = dict(labels)
    with_rows.cluster_rows(table, "rbf")  # groups in the order of the rows
    assert with_rows.labels() == by_hand
    with_rows.cluster_rows(table, "rbf", "--id-column", "user_id")
    assert with_rows.labels() == by_hand


@every_affinity
def test_report(with_rows, affinity):
    result = with_rows.cluster_rows(
        with_rows.npy, affinity, *OPTIONS[affinity], "--report", with_rows.report
    )
    assert result.exit_code == 0
    report = with_rows.read_report()
    assert report["affinity"] == affinity
    assert report["input"] == {
        "rows": str(with_rows.npy),
        "groups_file": str(with_rows.blobs),
        "n_rows": 60,
        "n_features": 2,
        "n_rows_left_out": 0,
        "groups": {"f": 30, "m": 30},
    }
    assert ("affinity_error" in report) == (affinity == "rbf_nystroem")
    labels = in_row_order(with_rows)
    if affinity == "nearest_neighbors":
        model = FairSpectralClustering(2, affinity=affinity, n_neighbors=40)
        model.fit(with_rows.X, sensitive_features=with_rows.sexes)
        W = model.affinity_matrix_
    else:
        W = RBFKernel(with_rows.X, gamma=0.1) @ np.eye(60)
    tolerance = 3 * report.get("affinity_error", 1e-10)
    assert tolerance < 0.1
    assert report["normalized_cut"] == pytest.approx(
        normalized_cut_score((W + W.T) / 2, labels), rel=tolerance
    )


def test_only_parameters_in_force_are_reported(with_rows):
    shared = {
        *("n_clusters", "affinity", "solver", "tol", "max_iter", "dtype", "n_init"),
        *("assign_labels", "random_state"),
    }
    for affinity, own in [
        ("nearest_neighbors", {"n_neighbors", "connected_components"}),
        ("rbf", {"gamma"}),
        ("rbf_nystroem", {"gamma", "n_landmarks"}),
    ]:
        with_rows.cluster_rows(
            with_rows.npy, affinity, *OPTIONS[affinity], "--report", with_rows.report
        )
        assert set(with_rows.read_report()["parameters"]) == shared | own


def test_components_of_the_neighbour_graph(with_rows):
    options = ("--n-neighbors", 5, "--components", "all")
    result = with_rows.cluster_rows(with_rows.npy, "nearest_neighbors", *options)
    assert (result.exit_code, result.output) == (0, "")
    assert adjusted_rand_score(with_rows.target, in_row_order(with_rows)) == 1


@pytest.fixture
def uneven(with_rows):
    """Women mostly in the first group of points: k-means is not balanced."""
    sexes = np.where(with_rows.target == 0, "f", "m")
    sexes[::3] = np.where(with_rows.target[::3] == 0, "m", "f")
    with_rows.write("sexes.txt", sexes)
    with_rows.sexes = sexes
    return with_rows


def test_fair_assignment_is_kept_and_reported(uneven):
    options = ("--assign-labels", "fair", "--balance-tolerance", 0.1)
    result = uneven.cluster_rows(
        uneven.npy, "rbf", *options, "--report", uneven.report, k=3
    )
    assert (result.exit_code, result.output) == (0, "")
    labels = in_row_order(uneven)
    share = (uneven.sexes == "f").mean()
    for label in range(3):
        found = (uneven.sexes[labels == label] == "f").mean()
        assert abs(found - share) <= 0.1 * share + 1e-12
    report = uneven.read_report()
    assert report["parameters"]["balance_tolerance"] == 0.1
    assignment = report["assignment"]
    assert set(assignment) == {
        *("cost", "nearest_cost", "lower_bound", "gap", "max_violation", "n_moved"),
        "message",
    }
    assert assignment["max_violation"] == 0
    assert assignment["n_moved"] > 0
    assert 0 <= assignment["gap"] < 1
    assert assignment["nearest_cost"] < assignment["lower_bound"] * (1 + 1e-9)
    assert assignment["lower_bound"] <= assignment["cost"]
    uneven.cluster_rows(uneven.npy, "rbf", "--report", uneven.report, k=3)
    assert "assignment" not in uneven.read_report()


def test_fair_assignment_of_a_graph(workspace, planted):
    options = ("--assign-labels", "fair", "--balance-tolerance", 0)
    result = workspace.cluster(workspace.edges, *options)
    assert (result.exit_code, result.output) == (0, "")
    labels = workspace.labels()
    found = np.array([labels[str(i)] for i in range(90)])
    for label in range(3):
        members = planted.sensitive_features[found == label]
        assert members.mean() == 0.5


def test_infeasible_tolerance_names_one_that_is_met(older_with_rows):
    older = older_with_rows
    older.write("sexes.txt", ["f"] * 29 + ["m"] * 31)  # no whole counts are equal
    options = ("--assign-labels", "fair", "--balance-tolerance")
    line = older.fails(
        older.cluster_rows(older.npy, "rbf", *options, 0),
        f"{older.npy}: ",
        "--balance-tolerance 0 of the population's",
        "Use fewer clusters or --balance-tolerance 0.",
    )
    nearest = line.split("or --balance-tolerance ")[1].split(",")[0]
    result = older.cluster_rows(older.npy, "rbf", *options, nearest)
    assert (result.exit_code, result.output) == (0, "")


def test_admm_that_does_not_converge_is_written(older_with_rows):
    older = older_with_rows
    result = older.cluster_rows(
        older.npy, "rbf", "--solver", "admm", "--max-iter", 3, "--report", older.report
    )
    assert result.exit_code == 3, result.output
    assert result.stdout == ""
    line, *others = result.stderr.splitlines()
    assert others == []
    assert line.startswith("warning: --solver admm did not converge to --tol 0.0001")
    assert line.endswith(
        "after --max-iter 3 ADMM iterations: raise --max-iter or --tol."
    )
    assert len(older.labels()) == 60
    report = older.read_report()
    assert report["converged"] is False
    assert {len(entries) for entries in report["history"].values()} == {3}
    assert {"objective", "primal_residual", "residual"} <= set(report["history"])


def test_every_option_of_the_estimator_arrives(with_rows, monkeypatch):
    seen = []
    fit = FairSpectralClustering.fit

    def remember(model, *args, **kwargs):
        seen.append(model.get_params())
        return fit(model, *args, **kwargs)

    monkeypatch.setattr(FairSpectralClustering, "fit", remember)
    options = "--gamma 0.25 --n-landmarks 30 --solver dual --assign-labels fair"
    options += " --balance-tolerance 0.3"
    result = with_rows.cluster_rows(with_rows.npy, "rbf_nystroem", *options.split())
    assert result.exit_code == 0
    with_rows.cluster_rows(with_rows.npy, "nearest_neighbors", "--n-neighbors", 33)
    expected = {
        "affinity": "rbf_nystroem",
        "gamma": 0.25,
        "n_landmarks": 30,
        "solver": "dual",
        "assign_labels": "fair",
        "balance_tolerance": 0.3,
    }
    assert seen[0].items() >= expected.items()
    assert seen[1]["n_neighbors"] == 33


def options_of(workspace):
    from scalefair.cli import main

    return {param.name: param for param in main.commands["cluster"].params}


def choices(parameter):
    [constraint] = FairSpectralClustering._parameter_constraints[parameter]
    return set(constraint.options)


def test_choices_are_those_of_the_estimator(workspace):
    options = options_of(workspace)
    for name in ("solver", "affinity", "assign_labels", "connected_components"):
        assert set(options[name].type.choices) == choices(name), name


def test_defaults_are_those_of_the_estimator(workspace):
    options = options_of(workspace)
    defaults = FairSpectralClustering().get_params()
    assert set(defaults) <= set(options)
    for name, value in defaults.items():
        if name not in ("n_clusters", "dtype", "random_state"):
            shown = options[name].default
            assert (None if not isinstance(shown, (int, float, str)) else shown) == (
                value
            ), name
    assert np.dtype(options["dtype"].default) == np.dtype(defaults["dtype"])


@pytest.mark.parametrize(
    ("affinity", "option", "value", "expected"),
    [
        ("precomputed", "--gamma", 1, "rbf or rbf_nystroem"),
        ("nearest_neighbors", "--gamma", 1, "rbf or rbf_nystroem"),
        ("rbf", "--n-neighbors", 5, "nearest_neighbors"),
        ("precomputed", "--n-neighbors", 10, "nearest_neighbors"),  # the default
        ("rbf", "--n-landmarks", 50, "rbf_nystroem"),
        ("rbf", "--components", "largest", "precomputed or nearest_neighbors"),
        ("rbf_nystroem", "--components", "raise", "precomputed or nearest_neighbors"),
        ("precomputed", "--id-column", "a", "nearest_neighbors, rbf or rbf_nystroem"),
    ],
)
def test_options_that_do_not_apply(older, affinity, option, value, expected):
    result = older.cluster(older.npz, "--affinity", affinity, option, value)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == (
        f"Error: {option} applies to --affinity {expected} only, not to --affinity "
        f"{affinity}."
    )
    assert older.output.read_bytes().startswith(b"id,label\nan older")


def test_tolerance_without_fair_labels(older):
    result = older.cluster(older.npz, "--balance-tolerance", 0.2)
    assert result.exit_code == 2
    assert "--balance-tolerance applies to --assign-labels fair only" in result.stderr


def test_no_condition_is_misspelt(workspace):
    options = options_of(workspace)
    for name, (other, values) in _cluster_options.CONDITIONS.items():
        assert name in options
        assert set(values) < set(options[other].type.choices)


def test_bad_rows_leave_the_older_result(older_with_rows):
    older = older_with_rows
    bad = older.write("bad.csv", ["a,b", "1,2", "3,f"])
    older.fails(older.cluster_rows(bad, "rbf"), f"{bad}:3: column 2 (b) is 'f'")
    older.fails(older.cluster_rows(older.sparse_rows, "rbf"), "takes dense rows")
    older.fails(older.cluster_rows(older.npz, "rbf"), "the matrix of a graph with")
    older.fails(older.cluster_rows(older.edges, "rbf"), "header of an edge list")
    older.fails(older.cluster_rows(older.mtx, "rbf"), "holds a graph")
    older.X[7, 1] = np.nan
    np.save(older.npy, older.X)
    older.fails(older.cluster_rows(older.npy, "rbf"), "row 7, column 1")


def test_id_column_of_an_array(older_with_rows):
    older = older_with_rows
    result = older.cluster_rows(older.npy, "rbf", "--id-column", "1")
    assert result.exit_code == 2
    assert "--id-column applies to tables of text only" in result.stderr


def test_groups_that_do_not_fit_the_rows(older_with_rows):
    older = older_with_rows
    short = older.write("short.txt", older.sexes[:-1])
    result = older.cluster_rows(older.npy, "rbf", groups=short)
    older.fails(result, "has 59 groups for the 60 rows", "one per row")
    pairs = older.write("pairs.csv", [f"{i},f" for i in range(1, 61)])
    result = older.cluster_rows(older.npy, "rbf", groups=pairs)
    older.fails(result, "'60' is no row", "row numbers, 0 to 59")


def test_summary_of_rows():
    report = {
        "input": {
            "n_rows": 1200,
            "n_features": 3,
            "n_rows_left_out": 2,
        },
        "affinity": "rbf_nystroem",
        "affinity_error": 0.0123,
        "assignment": {"n_moved": 45, "gap": 0.00123},
        "clusters": [{}, {}],
        "balance_mean": 0.9,
        "balance_min": 0.8,
        "normalized_cut": 1.5,
        "solver": "dual",
        "n_iter": 7,
        "seconds": {"fit": 1.0},
    }
    rows = summary_rows(report)
    shown = dict(rows)
    assert len(shown) == len(rows)
    assert shown["rows"] == "1,200"
    assert shown["rows left out"] == "2"
    assert shown["affinity"] == "rbf_nystroem"
    assert shown["affinity error"] == "about 1.2e-02"
    assert shown["moved for balance"] == "45"
    assert shown["cost above the bound"] == "at most 0.12%"


def test_summary_of_a_graph_says_no_more_than_there_is():
    report = {
        "input": {"n_nodes": 90, "n_edges": 100, "n_nodes_left_out": 0},
        "affinity": "precomputed",
        "clusters": [{}, {}],
        "balance_mean": 0.9,
        "balance_min": 0.8,
        "normalized_cut": 1.5,
        "solver": "dual",
        "n_iter": 7,
        "seconds": {"fit": 1.0},
    }
    names = [name for name, _ in summary_rows(report)]
    assert names[:3] == ["nodes", "edges", "clusters"]
    assert not any("affinity" in name or "moved" in name for name in names)


def test_labels_are_those_of_the_estimator(with_rows):
    with_rows.cluster_rows(
        with_rows.table, "rbf", "--gamma", 0.3, "--random-state", 4, k=4
    )
    model = FairSpectralClustering(4, affinity="rbf", gamma=0.3, random_state=4)
    model.fit(with_rows.X, sensitive_features=with_rows.sexes)
    with open(with_rows.output, newline="") as file:
        found = [int(row["label"]) for row in csv.DictReader(file)]
    np.testing.assert_array_equal(found, model.labels_)
