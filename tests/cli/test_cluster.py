"""What `scalefair cluster` computes and writes, and how it fails."""

import gzip
import re

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

from scalefair.cli import _cluster
from scalefair.cluster import FairSpectralClustering
from scalefair.metrics import balance_score, normalized_cut_score
from scalefair.operators import RBFKernel

from .conftest import AFFINITIES, ran


def in_row_order(workspace):
    labels = workspace.labels()
    return np.array([labels[str(i)] for i in range(len(labels))])


@pytest.fixture
def people(workspace):
    """A table with columns of groups and of ids beside the features."""
    values = zip(workspace.X.tolist(), workspace.sex, strict=True)
    lines = [f"p{i},{x!r},{s},{y!r}" for i, ((x, y), s) in enumerate(values)]
    workspace.people = workspace.write("people.csv", ["id,height,sex,weight", *lines])
    return workspace


def test_named_nodes_in_a_packed_file(workspace, planted):
    lines = [f'"node {i}, x";"node {j}, x"\n' for i, j in workspace.pairs]
    edges = workspace.folder / "named.data"
    edges.write_bytes(gzip.compress("".join(lines).encode()))
    groups = [f'"node {i}, x",{g}' for i, g in enumerate(planted.sensitive_features)]
    groups = workspace.write("groups.txt", [*groups, "stranger,1"])
    result = workspace.run(edges, groups=groups)
    assert result.exit_code == 0
    assert result.stderr.startswith(f"note: {groups}: 1 id(s) are not in {edges}")
    labels = workspace.labels()
    actual = [labels[f"node {i}, x"] for i in range(90)]
    assert adjusted_rand_score(planted.target, actual) == 1


def test_groups_may_be_a_column_or_a_file(people):
    """The label of a row does not depend on where its group was read."""
    options = ("--affinity", "rbf", "--gamma", 0.1)
    ran(people.run(people.people, *options, groups="sex", k=2))
    labels = people.labels()
    assert list(labels) == [f"p{i}" for i in range(60)]
    assert adjusted_rand_score(people.target, list(labels.values())) == 1
    pairs = [f"p{i},{sex}" for i, sex in enumerate(people.sex)]
    for lines in (people.sex, reversed(pairs)):  # in the order of rows; by ids
        groups = people.write("groups.txt", lines)
        ran(people.run(people.people, *options, "--drop", "sex", groups=groups, k=2))
        assert people.labels() == labels
    model = FairSpectralClustering(2, affinity="rbf", gamma=0.1, random_state=0)
    model.fit(people.X, sensitive_features=people.sex)
    np.testing.assert_array_equal(list(labels.values()), model.labels_)


def test_sparse_rows(workspace):
    result = workspace.cluster_rows(workspace.sparse_rows, "rbf")
    workspace.fails(result, workspace.sparse_rows, "dense rows")
    knn = ("nearest_neighbors", "--n-neighbors", 40)
    ran(workspace.cluster_rows(workspace.sparse_rows, *knn))
    assert adjusted_rand_score(workspace.target, in_row_order(workspace)) == 1


def test_missing_values_are_left_out_or_filled_in(people):
    lines = people.people.read_text().splitlines()
    lines[5] = re.sub(",[^,]*,", ",?,", lines[5], count=1)
    table = people.write("holes.csv", lines)
    for missing, n_rows in (("drop", 59), ("impute", 60)):
        options = ("--affinity", "rbf", "--missing", missing)
        assert people.run(table, *options, groups="sex").exit_code == 0
        labels = people.labels()
        assert (len(labels), "p4" in labels) == (n_rows, missing == "impute")


@pytest.mark.parametrize("source", ["npz", "mtx", "edges"])
def test_report_of_a_graph(workspace, planted, source):
    """Labels are in the order of the file."""
    graph = getattr(workspace, source)
    ran(workspace.run(graph, "--report", workspace.report))
    report = workspace.read_report()
    actual = in_row_order(workspace)
    assert adjusted_rand_score(planted.target, actual) == 1
    ends = np.ravel(workspace.pairs) if source == "edges" else range(90)
    assert list(workspace.labels()) == list(dict.fromkeys(map(str, ends)))
    files = {"graph": str(graph), "groups_file": str(workspace.groups)}
    size = {"n_nodes": 90, "n_edges": len(workspace.pairs), "n_nodes_left_out": 0}
    assert report["input"] == {**files, **size, "groups": {"g0": 45, "g1": 45}}
    groups = planted.sensitive_features
    balance = balance_score(actual, sensitive_features=groups, average=None)
    assert report["balance_mean"] == pytest.approx(balance.mean())
    assert report["balance_min"] == pytest.approx(balance.min())
    cut = normalized_cut_score(planted.graph, actual)
    assert report["normalized_cut"] == pytest.approx(cut)
    for label, entry in enumerate(report["clusters"]):
        members = groups[actual == label]
        assert entry["label"] == label
        assert entry["size"] == members.size
        assert list(entry["groups"].values()) == np.bincount(members).tolist()
    assert report["converged"] is True
    assert report["fairness_violation"] < 1e-10
    assert set(report["seconds"]) == {"read", "fit"}
    assert report["peak_memory_bytes"] > 1e7


@pytest.mark.parametrize("affinity", AFFINITIES)
def test_report_of_rows(workspace, affinity):
    options = (*AFFINITIES[affinity], "--report", workspace.report)
    ran(workspace.cluster_rows(workspace.npy, affinity, *options))
    assert adjusted_rand_score(workspace.target, in_row_order(workspace)) == 1
    report = workspace.read_report()
    assert report["affinity"] == affinity
    files = {"rows": str(workspace.npy), "groups_file": str(workspace.sexes)}
    size = {"n_rows": 60, "n_features": 2, "n_rows_left_out": 0}
    assert report["input"] == {**files, **size, "groups": {"f": 30, "m": 30}}
    names = {option[2:].replace("-", "_") for option in AFFINITIES[affinity][::2]}
    every_name = {"n_neighbors", "gamma", "n_landmarks"}
    assert every_name & set(report["parameters"]) == names
    actual = {name: report.get(name) for name in ("neighbors", "neighbors_recall")}
    exact = {"neighbors": "exact", "neighbors_recall": 1}
    assert actual == (
        exact if affinity == "nearest_neighbors" else dict.fromkeys(exact)
    )
    assert ("affinity_error" in report) == (affinity == "rbf_nystroem")
    if affinity == "nearest_neighbors":
        model = FairSpectralClustering(2, affinity=affinity, n_neighbors=40)
        W = model.fit(workspace.X, sensitive_features=workspace.sex).affinity_matrix_
    else:
        W = RBFKernel(workspace.X, gamma=0.1) @ np.eye(60)
    # The report measures by the affinity it used, which may be an approximation.
    tolerance = 3 * report.get("affinity_error", 1e-10)
    cut = normalized_cut_score((W + W.T) / 2, in_row_order(workspace))
    assert tolerance < 0.1
    assert report["normalized_cut"] == pytest.approx(cut, rel=tolerance)


@pytest.fixture
def apart(workspace, planted):
    """A graph that falls into its groups, and beneath them into fair clusters."""
    same_group, same_cluster = (
        labels[:, None] == labels
        for labels in (planted.sensitive_features, planted.target == 0)
    )
    within, across = np.where(same_cluster, 1, 0.5), np.where(same_cluster, 0.1, 0.02)
    W = np.where(same_group, within, across)
    sparse.save_npz(workspace.npz, sparse.csr_array(W))
    return workspace


def test_a_baseline_without_fairness_stands_beside(apart, planted):
    ran(apart.run(apart.npz, "--report", apart.report, k=2))
    report = apart.read_report()
    plain, W = report["baseline"], sparse.load_npz(apart.npz)
    assert [plain["balance_mean"], report["balance_mean"]] == [0, 1]
    assert plain["balance_min"] < report["balance_min"]
    fair = (planted.target == 0).astype(int)
    for run, labels in ((plain, planted.sensitive_features), (report, fair)):
        cut = normalized_cut_score(W, labels)
        assert run["normalized_cut"] == pytest.approx(cut)
    assert plain["converged"] is True


def test_the_baseline_leaves_out_the_same_nodes(apart):
    with apart.edges.open("a") as file:
        file.write("x,y\n")
    with apart.groups.open("a") as file:
        file.write("x,g0\ny,g1\n")
    options = ("--components", "largest", "--report", apart.report)
    ran(apart.run(apart.edges, *options))
    report = apart.read_report()
    assert report["input"]["n_nodes_left_out"] == 2
    labels = apart.labels()
    assert [labels["x"], labels["y"]] == [-1, -1]
    for run in (report, report["baseline"]):
        assert sum(entry["size"] for entry in run["clusters"]) == 90


def test_the_baseline_can_be_left_out_or_asked_for(apart, monkeypatch):
    calls = []
    plain = _cluster._cluster_without_fairness

    def counted(*arguments):
        calls.append(arguments)
        return plain(*arguments)

    monkeypatch.setattr(_cluster, "_cluster_without_fairness", counted)
    ran(apart.run(apart.npz))
    ran(apart.run(apart.npz, "--no-baseline", "--report", apart.report))
    assert calls == []
    assert "baseline" not in apart.read_report()
    ran(apart.run(apart.npz, "--baseline"))
    assert len(calls) == 1


def test_many_groups_have_no_figure(workspace):
    groups = workspace.write("many.csv", [f"{i},{i % 30}" for i in range(90)])
    page = workspace.folder / "report.html"
    assert workspace.run(workspace.npz, "--report", page, groups=groups).exit_code == 0
    assert "<img " not in page.read_text()


def test_fair_assignment(workspace):
    sexes = np.where(workspace.target == 0, "f", "m")
    sexes[::3] = np.where(workspace.target[::3] == 0, "m", "f")
    workspace.write("sexes.txt", sexes)
    options = ("--assign-labels", "fair", "--report", workspace.report)
    ran(workspace.cluster_rows(workspace.npy, "rbf", *options, k=3))
    assignment = workspace.read_report()["assignment"]
    bounds = {"lower_bound", "gap", "max_violation", "balance_tolerance"}
    assert {"cost", "nearest_cost", "n_moved", "message", *bounds} == set(assignment)
    assert assignment["n_moved"] > 0
    # The first sentences say so, beside the balance of all rows.
    report, n_female = workspace.read_report(), (sexes == "f").sum()
    counts = sorted([n_female, sexes.size - n_female])
    assert report["population_balance"] == pytest.approx(counts[0] / counts[1])
    for fragment in (
        "Asked: 3 clusters of ",
        "give or take 10% of that share and one member. Reached: the balance",
        f"In the population it is {counts[0] / counts[1]:.3f}. Without fairness ",
        f"{assignment['n_moved'] / sexes.size:.1%} of all members were moved from ",
        f"the normalized cut is {report['normalized_cut']:.3f}, without fairness "
        f"{report['baseline']['normalized_cut']:.3f}. Not promised: ",
    ):
        assert fragment in report["summary"]


def test_groups_are_a_column_of_a_table_of_nodes(workspace, planted):
    groups = planted.sensitive_features
    lines = [f"{i},{50 + i % 7},{g}" for i, g in enumerate(groups)]
    table = workspace.write("nodes.csv", ["id,height,sex", *lines])
    result = workspace.run(workspace.npz, "--group-column", "sexx", groups=table)
    workspace.fails(result, "sexx", "id, height, sex")
    ran(workspace.run(workspace.npz, groups=f"{table}:sex"))
    labels = workspace.labels()
    ran(workspace.run(workspace.npz, "--group-column", "sex", groups=table))
    assert workspace.labels() == labels


def test_regularization(workspace):
    """Isolated nodes are clustered; by themselves they have no normalised cut."""
    W = sparse.block_diag([np.ones((40, 40))] * 2 + [sparse.csr_array((10, 10))], "csr")
    sparse.save_npz(workspace.npz, W)
    options = ("--regularization", 0.1, "--report", workspace.report)
    for k, alone in ((2, False), (3, True)):
        ran(workspace.run(workspace.npz, *options, k=k))
        report = workspace.read_report()
        assert report["input"]["n_nodes_left_out"] == 0
        smallest = min(entry["size"] for entry in report["clusters"])
        assert (smallest in (9, 10)) == alone  # one may be elsewhere, to be fair
        assert ("normalized_cut" in report) != alone
        model = FairSpectralClustering(k, regularization=0.1, random_state=0)
        model.fit(W, sensitive_features=workspace.data.sensitive_features)
        np.testing.assert_array_equal(in_row_order(workspace), model.labels_)
        assert report["balance_min"] == model.minimum_balance_
        sizes = [entry["size"] for entry in report["baseline"]["clusters"]]
        assert sum(sizes) == 90


def test_files_that_do_not_fit_or_are_not_there(workspace):
    workspace.fails(workspace.run("absent.csv"), "absent.csv", "no such file")
    workspace.fails(workspace.run(groups="absent.csv"), "absent.csv", "no such file")
    one = workspace.write("one.csv", [f"{i},same" for i in range(90)])
    workspace.fails(workspace.run(groups=one), "only one group", "same")


def test_rows_that_cannot_be_clustered(workspace):
    bad = workspace.write("bad.csv", ["a,b", *("1,2" for _ in range(58)), "3,f", "1,2"])
    workspace.fails(workspace.cluster_rows(bad, "rbf"), f"{bad}:60", "'f'")
    strings = workspace.write("words.csv", ["a,b", *("1,f" for _ in range(60))])
    workspace.fails(workspace.cluster_rows(strings, "rbf"), strings, "--drop")
    short = workspace.write("short.txt", workspace.sex[:-1])
    result = workspace.cluster_rows(workspace.npy, "rbf", groups=short)
    workspace.fails(result, "59 groups for the 60 rows")
    workspace.X[7, 1] = np.nan
    np.save(workspace.npy, workspace.X)
    workspace.fails(workspace.cluster_rows(workspace.npy, "rbf"), "row 7, column 1")


def test_weights_of_two_directions(workspace):
    lines = [f"{i},{j},2\n{j},{i},3" for i, j in workspace.pairs]
    path = workspace.write("directed.csv", lines)
    workspace.fails(workspace.run(path), f"{path}:2", "--directed sum")
    for directed in ("sum", "max"):
        ran(workspace.run(path, "--directed", directed))
    ran(workspace.invoke("evaluate", workspace.output, "--groups", workspace.groups,
                         "--graph", path, "--directed", "max", "--quiet"))  # fmt: skip
    matrix = workspace.folder / "directed.npz"
    sparse.save_npz(matrix, sparse.triu(workspace.data.graph).tocsr())
    result = workspace.run(matrix)
    assert result.exit_code == 1
    assert "with --directed sum or --directed max" in result.stderr
    ran(workspace.run(matrix, "--directed", "max"))


def test_attributes_of_nodes_are_groups(workspace):
    pytest.importorskip("networkx")
    groups = workspace.data.sensitive_features
    nodes = [f'node [ id {i} party "g{g}" ]' for i, g in enumerate(groups)]
    edges = [f"edge [ source {i} target {j} ]" for i, j in workspace.pairs]
    path = workspace.write("graph.gml", ["graph [", *nodes, *edges, "]"])
    actual = workspace.done(path, groups="party")["input"]["groups"]
    assert actual == {f"g{g}": int((groups == g).sum()) for g in (0, 1)}
    result = workspace.run(path, groups="wing")
    assert (result.exit_code, "column of the nodes of" in result.stderr) == (1, True)
