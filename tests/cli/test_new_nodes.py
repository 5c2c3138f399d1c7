"""`scalefair cluster --model`, and `predict` of clusters for new nodes and rows."""

import re

import joblib
import numpy as np
import pandas
import pytest
from scipy import io, sparse

from scalefair.cluster import FairSpectralClustering

from .conftest import AFFINITIES, OLD, ran

PAPERS_METHOD = ("--regularization", 0, "--assign-labels", "kmeans")
FAIR = ("--assign-labels", "fair")
N_OLD = 80  # nodes of the fit; the others are new


class Clusters:
    """A graph in files, without its last nodes, and runs on what is new."""

    def __init__(self, workspace):
        self.workspace, self.folder = workspace, workspace.folder
        self.write, self.fails = workspace.write, workspace.fails
        self.model = self.folder / "model.joblib"
        self.W = workspace.data.graph.tocsr()
        self.groups = np.array([f"g{g}" for g in workspace.data.sensitive_features])
        self.new = self.W[N_OLD:, :N_OLD]
        self.npz = self.folder / "new.npz"
        sparse.save_npz(self.npz, sparse.csr_array(self.new))
        self.new_groups = self.write("new_groups.txt", self.groups[N_OLD:])

    def fit(self, data, *options, **roles):
        """Save a model of what is clustered, which is then returned."""
        options = "--model", self.model, *PAPERS_METHOD, *options
        result = self.workspace.run(data, *options, **roles)
        assert result.exit_code == 0, result.output
        return joblib.load(self.model)["clustering"]

    def fit_graph(self, *options):
        """Save a model of the old nodes, which come as a matrix."""
        old = self.folder / "old.npz"
        sparse.save_npz(old, sparse.csr_array(self.W[:N_OLD, :N_OLD]))
        groups = self.write("old_groups.txt", self.groups[:N_OLD])
        return self.fit(old, *options, groups=groups)

    def fit_edges(self, *options):
        """Save a model of the old nodes, which come as a list of edges; their ids."""
        lines = [f"n{i},n{j}" for i, j in self.workspace.pairs if max(i, j) < N_OLD]
        edges = self.write("old.csv", lines)
        lines = [f"n{i},{group}" for i, group in enumerate(self.groups)]
        self.by_id = self.write("all.csv", lines)
        self.fit(edges, *options, groups=self.by_id)
        return list(self.workspace.labels())

    def predict(self, data, *options):
        """Run ``predict``, which replaces the labels of the fit."""
        self.workspace.output.write_bytes(OLD)
        arguments = ["predict", self.model, data, "-o", self.workspace.output]
        return self.workspace.invoke(*arguments, *options)

    def labels(self, data, *options, message=""):
        """Labels by the ids of the rows, of a run that says nothing but a note."""
        ran(self.predict(data, *options), message)
        return self.workspace.labels()


@pytest.fixture
def clusters(workspace):
    return Clusters(workspace)


def in_order(labels):
    """Labels of nodes that are numbered."""
    assert list(labels) == [str(i) for i in range(len(labels))]
    return list(labels.values())


@pytest.mark.parametrize(
    ("affinity", "source"),
    [("nearest_neighbors", "npy"), ("rbf", "table"), ("rbf_nystroem", "npy")],
)
def test_rows(clusters, affinity, source):
    workspace = clusters.workspace
    rows = getattr(workspace, source)
    options = ("--affinity", affinity, *AFFINITIES[affinity], "--standardize")
    model = clusters.fit(rows, *options, k=2, groups=workspace.sexes)
    X = (workspace.X - workspace.X.mean(axis=0)) / workspace.X.std(axis=0)
    actual = in_order(clusters.labels(rows, "--groups", workspace.sexes))
    assert actual == model.predict(X, sensitive_features=workspace.sex).tolist()
    assert actual == model.labels_.tolist()
    if source == "npy":
        np.save(rows, workspace.X[[40, 3]])
        expected = model.predict(X[[40, 3]]).tolist()
        assert in_order(clusters.labels(rows)) == expected == [actual[40], actual[3]]


def test_a_table_with_ids_and_groups(clusters):
    """Fair labels take the groups from the same column as the fit."""
    workspace = clusters.workspace
    frame = pandas.DataFrame(workspace.X, columns=["height", "weight"])
    frame.insert(0, "id", [f"p{i}" for i in range(60)])
    frame["sex"] = np.where(np.arange(60) % 3, "f", "m")
    table, new = clusters.folder / "people.csv", clusters.folder / "new.csv"
    frame.to_csv(table, index=False)
    options = ("--affinity", "rbf", "--gamma", 0.1)
    model = clusters.fit(table, *options, *FAIR, k=3, groups="sex")
    frame[["id", "sex", "weight", "height"]].to_csv(new, index=False)
    actual = clusters.labels(new)
    X, groups = workspace.X, {"sensitive_features": frame["sex"]}
    expected = model.predict(X, **groups)
    assert actual == dict(zip(frame["id"], expected, strict=True))
    result = clusters.predict(table, "--memory-limit", "1kB")
    clusters.fails(result, "--memory-limit", "does not apply", code=2)
    # Other labels do without groups.
    model = clusters.fit(table, *options, k=3, groups="sex")
    frame.drop(columns="sex").to_csv(new, index=False)
    assert [*clusters.labels(new).values()] == model.predict(X).tolist()
    frame.to_csv(new, index=False)
    assert [*clusters.labels(new).values()] == model.predict(X).tolist()


@pytest.mark.parametrize(
    "groups", ["--group-probabilities f,m", "--groups age --knots 3", "--groups sex"]
)
@pytest.mark.parametrize("is_graph", [False, True])
def test_groups_that_are_probabilities(clusters, groups, is_graph):
    """New rows get the groups, and the knots, of those of the fit; some may be none."""
    workspace, n = clusters.workspace, N_OLD if is_graph else 60
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"age": rng.random(90), "f": rng.random(90).round(2)})
    frame = frame.assign(m=1 - frame["f"], sex=np.where(frame["f"] > 0.4, "f", "m"))
    frame.loc[::9, "sex"] = None
    options = groups.split()
    hats, columns = frame[["f", "m"]], options[1]
    if "--knots" in options:
        knots = np.quantile(frame["age"][:n], [0, 0.5, 1])
        hats = np.stack([np.interp(frame["age"], knots, x) for x in np.eye(3)], 1)
        hats = pandas.DataFrame(hats, columns=[f"age {knot:g}" for knot in knots])
    elif columns == "sex":
        options += ["--missing-groups", "ignore"]
        hats = pandas.get_dummies(frame["sex"], dtype=float)
    old, table = clusters.folder / "old.csv", clusters.folder / "people.csv"
    if is_graph:
        matrix = clusters.folder / "old.npz"
        sparse.save_npz(matrix, sparse.csr_array(clusters.W[:n, :n]))
        options[1] = f"{old}:{columns}"
    else:
        matrix, options = old, [*options, "--affinity", "nearest_neighbors"]
        frame = frame.head(n).assign(**dict(zip("xy", workspace.X.T, strict=True)))
        unused = {"age", "f", "m", "sex"} - {*columns.split(",")}
        options += [word for name in unused for word in ("--drop", name)]
    frame.head(n).to_csv(old, index=False)
    line = ["cluster", matrix, *options, "-k", 2, "--model", clusters.model]
    done = workspace.invoke(*line, "-o", workspace.output)
    assert done.exit_code == 0, done.output
    model = joblib.load(clusters.model)["clustering"]
    new = [*range(N_OLD, 90)] if is_graph else [9, 3]
    X = clusters.new if is_graph else workspace.X[new]
    frame.loc[new].to_csv(table, index=False)
    data, source = (clusters.npz, f"{table}:{columns}") if is_graph else (table, None)
    expected = model.predict(X, group_probabilities=hats.loc[new])
    done = clusters.predict(data, *(("--groups", source) if source else ()))
    assert done.exit_code == 0, done.output
    assert in_order(workspace.labels()) == expected.tolist()


@pytest.mark.parametrize("options", [(), FAIR])
def test_a_matrix_of_new_nodes(clusters, options):
    model = clusters.fit_graph(*options)
    market, path = clusters.folder / "new.mtx", clusters.folder / "new.npy"
    io.mmwrite(market, sparse.coo_matrix(clusters.new))
    np.save(path, clusters.new.toarray())
    groups = {"sensitive_features": clusters.groups[N_OLD:]}
    expected = model.predict(clusters.new, **groups).tolist()
    assert len(set(expected)) == 3
    for matrix in (clusters.npz, market, path):
        actual = clusters.labels(matrix, "--groups", clusters.new_groups)
        assert in_order(actual) == expected
    if options:
        clusters.fails(clusters.predict(path), "--groups", code=2)
    else:
        expected = model.predict(clusters.new).tolist()
        assert in_order(clusters.labels(path)) == expected


def test_groups_are_words_if_those_of_the_fit_were(clusters):
    clusters.groups = np.where(clusters.groups == "g0", "1", "x")
    model = clusters.fit_graph()
    groups = clusters.write("groups.txt", ["1"] * 10)
    expected = model.predict(clusters.new, sensitive_features=["1"] * 10)
    assert in_order(clusters.labels(clusters.npz, "--groups", groups)) == [*expected]


def test_edges_of_new_nodes(clusters):
    """Ends that the fit had are old nodes, wherever in a line and a list they stand."""
    ids = clusters.fit_edges(*FAIR)
    model = joblib.load(clusters.model)["clustering"]
    pairs = np.array(clusters.workspace.pairs)
    is_new = pairs >= N_OLD
    lines = [f"n{i},n{j}" for i, j in pairs[is_new.any(axis=1)][::-1]]
    lines[::2] = [",".join(reversed(line.split(","))) for line in lines[::2]]
    message = f"{is_new.all(axis=1).sum()} edge(s) among new nodes"
    edges = clusters.write("new.csv", lines)
    ignored = f"{N_OLD} id(s) are not in"
    actual = clusters.labels(edges, "--groups", clusters.by_id, message=message)
    assert ignored in clusters.predict(edges, "--groups", clusters.by_id).stderr
    rows, columns = ([int(name[1:]) for name in names] for names in (actual, ids))
    assert sorted(rows) == list(range(N_OLD, 90))
    groups = {"sensitive_features": clusters.groups[rows]}
    expected = model.predict(clusters.W[rows][:, columns], **groups)
    assert list(actual.values()) == expected.tolist()
    # A matrix has the order of the labels.
    sparse.save_npz(clusters.npz, clusters.W[rows][:, columns])
    written = clusters.write("groups.txt", clusters.groups[rows])
    actual = in_order(clusters.labels(clusters.npz, "--groups", written))
    assert actual == expected.tolist()


def test_several_attributes(clusters):
    age = np.where(np.arange(90) % 3, "old", "young")
    pairs = zip(clusters.groups, age, strict=True)
    lines = [f"n{i},{g},{a}" for i, (g, a) in enumerate(pairs)]
    clusters.write("both.csv", lines)
    lines = [f"n{i} n{j}" for i, j in clusters.workspace.pairs]
    edges = clusters.write("all.csv", lines)
    options = (*FAIR, "--balance-tolerance", 0.9, "--attributes", "each")
    model = clusters.fit(edges, *options, groups=clusters.folder / "both.csv")
    friends = clusters.write("new.csv", [f"x n{i}" for i in range(0, 20, 2)])
    for a, b in (("g0", "old"), ("g1", "young")):
        groups = clusters.write("x.csv", [f"x,{a},{b}"])
        weights = np.isin(np.arange(90), np.arange(0, 20, 2)) * 1.0
        order = pandas.factorize(np.ravel(clusters.workspace.pairs))[1]
        expected = model.predict([weights[order]], sensitive_features=[[a, b]])
        actual = clusters.labels(friends, "--groups", groups)
        assert actual == {"x": expected.item()}
    one = clusters.write("x.csv", ["x,g0"])
    result = clusters.predict(friends, "--groups", one)
    clusters.fails(result, one, "has 1 column(s) of groups, and TRAIN has 2")


def test_the_summary_on_a_terminal(clusters, on_a_terminal):
    assert not hasattr(clusters.fit_graph(), "affinity_matrix_")  # nothing needs it
    output = clusters.workspace.output
    code, shown = on_a_terminal("predict", clusters.model, clusters.npz, "-o", output)
    assert code == 0
    actual = list(clusters.workspace.labels().values())
    for label in set(actual):
        n = actual.count(label)
        assert re.search(rf"{label}\W+{n}\W+{n / len(actual):g}", shown)
    assert re.search(r"nodes\s+10\b", shown)


def test_new_nodes_that_do_not_fit(clusters):
    clusters.fit_graph()
    wrong = clusters.folder / "wrong.npz"
    sparse.save_npz(wrong, sparse.csr_array(clusters.new.T))
    clusters.fails(clusters.predict(wrong), wrong, "(80, 10)", "the 80 nodes")
    edges = clusters.write("new.csv", ["x,1", "x,2"])
    line = clusters.fails(clusters.predict(edges), edges, "not a matrix")
    assert "lines" not in line
    clusters.fails(clusters.predict("no.npz"), "no.npz: no such file")
    few = clusters.write("few.txt", clusters.groups[:7])
    result = clusters.predict(clusters.npz, "--groups", few)
    clusters.fails(result, "7 groups for the 10 nodes")
    other_groups = clusters.write("others.txt", ["g9"] * 10)
    result = clusters.predict(clusters.npz, "--groups", other_groups)
    clusters.fails(result, "--groups has 1 group(s) that fit did not see: 'g9'")
    for option in (("--drop", "x"), ("--missing", "drop"), ("--svmlight",)):
        result = clusters.predict(clusters.npz, *option)
        clusters.fails(result, f"{option[0]} ", "does not apply", code=2)
    empty = clusters.new.tolil()
    empty[4] = 0
    sparse.save_npz(wrong, sparse.csr_array(empty))
    clusters.fails(clusters.predict(wrong), wrong, "no weight", "first: 4")
    clusters.fit_edges()
    for lines in (["x,y", "y,z"], ["n1,n2", "n2,n3"]):
        path = clusters.write("new.csv", lines)
        clusters.fails(clusters.predict(path), path, "edges between both")
    path = clusters.write("new.csv", ["1 2 3 4", "1 2 3 4"])
    clusters.fails(clusters.predict(path), path, "4 columns", "or lines `source")


def test_models_that_cannot_be_written(clusters):
    run = clusters.workspace.run
    result = run(None, "--model", clusters.folder / "model.pkl")
    clusters.fails(result, "must end in .joblib", code=2)
    result = run(None, "--model", clusters.model, "--solver", "admm")
    clusters.fails(result, "--model applies to --solver auto", code=2)
    result = run(None, "--model", clusters.model, k=90)
    assert "n_clusters" not in clusters.fails(result, "less than", "--n-clusters")
    assert not clusters.model.exists()
    joblib.dump({"clustering": FairSpectralClustering(2), "nodes": []}, clusters.model)
    result = clusters.predict(clusters.npz)
    clusters.fails(result, clusters.model, "no model of this version")
