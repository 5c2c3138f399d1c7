"""What `scalefair cluster` computes and writes."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

from scalefair.cli import _estimator
from scalefair.cluster import FairSpectralClustering
from scalefair.metrics import (
    balance_score,
    minimum_balance_score,
    normalized_cut_score,
)


def in_row_order(workspace):
    labels = workspace.labels()
    return np.array([labels[str(i)] for i in range(len(labels))])


@pytest.mark.parametrize("source", ["npz", "mtx", "edges"])
def test_silent_and_right(workspace, planted, source):
    result = workspace.cluster(getattr(workspace, source))
    assert (result.exit_code, result.output) == (0, "")
    labels = in_row_order(workspace)
    assert adjusted_rand_score(planted.target, labels) == 1
    model = FairSpectralClustering(3, random_state=0)
    model.fit(planted.graph, sensitive_features=planted.sensitive_features)
    assert adjusted_rand_score(model.labels_, labels) == 1


def test_matrix_gives_the_estimators_labels(workspace, planted):
    workspace.cluster(workspace.npz, "--solver", "lanczos", "--random-state", 5)
    model = FairSpectralClustering(3, solver="lanczos", random_state=5)
    model.fit(planted.graph, sensitive_features=planted.sensitive_features)
    np.testing.assert_array_equal(in_row_order(workspace), model.labels_)


def test_rows_follow_the_file(workspace):
    workspace.cluster(workspace.npz)
    assert list(workspace.labels()) == [str(i) for i in range(90)]
    workspace.cluster(workspace.edges)
    ends = [str(end) for pair in workspace.pairs for end in pair]
    assert list(workspace.labels()) == list(dict.fromkeys(ends))


def test_named_nodes_compressed_in_both_directions(workspace, planted):
    def name(i):
        return f'node "{i}", x'

    def quoted(i):
        return '"' + name(i).replace('"', '""') + '"'

    lines = [f"{quoted(i)},{quoted(j)},2.5\n" for i, j in workspace.pairs]
    lines += [f"{quoted(j)},{quoted(i)},2.5\n" for i, j in workspace.pairs]
    edges = workspace.folder / "named.csv.gz"
    edges.write_bytes(gzip.compress("".join(lines).encode()))
    groups = workspace.folder / "groups.tsv.gz"
    text = "".join(
        f"{quoted(i)}\t{g}\n" for i, g in enumerate(planted.sensitive_features)
    )
    groups.write_bytes(gzip.compress(text.encode()))
    result = workspace.cluster(edges, groups=groups)
    assert (result.exit_code, result.output) == (0, "")
    labels = workspace.labels()
    found = [labels[name(i)] for i in range(90)]
    assert adjusted_rand_score(planted.target, found) == 1


def test_groups_in_row_order(workspace, planted):
    column = workspace.write("column.txt", planted.sensitive_features)
    npy = workspace.folder / "groups.npy"
    np.save(npy, planted.sensitive_features)
    for groups in (column, npy):
        assert workspace.cluster(workspace.npz, groups=groups).exit_code == 0
        assert adjusted_rand_score(planted.target, in_row_order(workspace)) == 1


def test_report(workspace, planted):
    options = ("--report", workspace.report, "--dtype", "float32", "--n-init", 3)
    assert workspace.cluster(workspace.edges, *options).exit_code == 0
    report = workspace.read_report()
    labels = in_row_order(workspace)
    features = planted.sensitive_features
    assert report["command"] == "cluster"
    assert report["parameters"] == {
        "n_clusters": 3,
        "solver": "auto",
        "affinity": "precomputed",
        "assign_labels": "kmeans",
        "tol": 1e-4,
        "max_iter": None,
        "dtype": "float32",
        "n_init": 3,
        "random_state": 0,
        "connected_components": "raise",
    }
    assert report["input"] == {
        "graph": str(workspace.edges),
        "groups_file": str(workspace.groups),
        "n_nodes": 90,
        "n_edges": planted.graph.nnz // 2,
        "n_nodes_left_out": 0,
        "groups": {"g0": 45, "g1": 45},
    }
    assert set(report["seconds"]) == {"read", "fit"}
    assert min(report["seconds"].values()) > 0
    assert report["peak_memory_bytes"] > 10_000_000
    assert report["solver"] == "nullspace"
    assert report["converged"] is True
    assert report["n_iter"] == report["n_products"] == 1
    assert report["residual_max"] < 1e-4
    assert report["fairness_violation"] < 1e-10
    assert report["affinity"] == "precomputed"
    assert not {"affinity_error", "history", "assignment"} & set(report)
    assert len(report["eigenvalues"]) == 3
    assert report["eigenvalues"][0] == pytest.approx(1)
    assert report["balance_mean"] == balance_score(labels, sensitive_features=features)
    assert report["balance_min"] == minimum_balance_score(
        labels, sensitive_features=features
    )
    assert report["normalized_cut"] == pytest.approx(
        normalized_cut_score(planted.graph, labels)
    )
    assert [c["label"] for c in report["clusters"]] == [0, 1, 2]
    for entry in report["clusters"]:
        members = labels == entry["label"]
        assert entry["size"] == members.sum()
        assert entry["groups"] == {
            f"g{g}": int((features[members] == g).sum()) for g in (0, 1)
        }
        counts = entry["groups"].values()
        assert entry["balance"] == min(counts) / max(counts)


@pytest.fixture
def two_parts(workspace, planted):
    """The planted graph, a separate triangle and, in the matrix, a lone node."""
    lines = [f"{i} {j}" for i, j in [*workspace.pairs, (90, 91), (91, 92), (90, 92)]]
    workspace.write("parts.txt", lines)
    groups = [*planted.sensitive_features, 0, 1, 0, 1]
    workspace.write("parts_groups.txt", [f"{i} {g}" for i, g in enumerate(groups)])
    triangle = sparse.csr_array(np.ones((3, 3)) - np.eye(3))
    blocks = [planted.graph, triangle, sparse.csr_array((1, 1))]
    matrix = sparse.csr_array(sparse.block_diag(blocks))
    sparse.save_npz(workspace.folder / "parts.npz", matrix)
    return workspace


@pytest.mark.parametrize(("policy", "n_left_out"), [("largest", 4), ("all", 1)])
def test_components(two_parts, policy, n_left_out):
    folder = two_parts.folder
    result = two_parts.cluster(
        folder / "parts.npz",
        *("--components", policy, "--report", two_parts.report),
        groups=folder / "parts_groups.txt",
    )
    assert (result.exit_code, result.output) == (0, "")
    labels = in_row_order(two_parts)
    assert (labels == -1).sum() == n_left_out
    assert labels[-1] == -1
    assert two_parts.read_report()["input"]["n_nodes_left_out"] == n_left_out


def test_asymmetry_by_rounding_is_clustered_and_measured(workspace, planted):
    W = planted.graph.copy()
    W.data[0] += 1e-10
    sparse.save_npz(workspace.npz, W)
    result = workspace.cluster(workspace.npz, "--report", workspace.report)
    assert (result.exit_code, result.output) == (0, "")
    assert workspace.read_report()["normalized_cut"] > 0


def test_groups_of_nodes_without_an_edge_are_noted(two_parts):
    folder = two_parts.folder
    result = two_parts.cluster(
        folder / "parts.txt",
        *("--components", "largest"),
        groups=folder / "parts_groups.txt",
    )
    assert result.exit_code == 0
    assert result.stdout == ""
    note, *others = result.stderr.splitlines()
    assert note.startswith("note: ")
    assert "1 id(s)" in note
    assert others == []


def test_headers_can_be_stated(workspace):
    edges = workspace.write(
        "odd.csv", ["ego,alter", *(f"{i},{j}" for i, j in workspace.pairs)]
    )
    lines = workspace.groups.read_text().splitlines()
    groups = workspace.write("odd_groups.csv", ["who,what", *lines[1:]])
    options = ("--header", "--groups-header")
    assert workspace.cluster(edges, *options, groups=groups).output == ""
    assert len(workspace.labels()) == 90


def test_no_convergence_is_exit_code_3(older):
    result = older.cluster(
        older.npz,
        *("--solver", "chebyshev", "--tol", 1e-12, "--max-iter", 1),
        *("--report", older.report),
    )
    assert result.exit_code == 3, result.output
    assert result.stdout == ""
    line, *others = result.stderr.splitlines()
    assert others == []
    assert line.startswith(
        "warning: --solver chebyshev did not converge to --tol 1e-12"
    )
    assert "--max-iter" in line
    assert len(older.labels()) == 90  # written all the same
    assert older.read_report()["converged"] is False


def test_every_option_of_the_estimator_arrives(workspace, monkeypatch):
    seen = {}

    def remember(model, *args, **kwargs):
        seen.update(model.get_params())
        return fit_model(model, *args, **kwargs)

    fit_model = _estimator.fit_model
    monkeypatch.setattr(_estimator, "fit_model", remember)
    options = "--solver lanczos --tol 1e-6 --max-iter 500 --dtype float32 --n-init 2"
    options += " --components all --random-state 7"
    assert workspace.cluster(workspace.npz, *options.split(), k=4).exit_code == 0
    expected = {
        "n_clusters": 4,
        "solver": "lanczos",
        "tol": 1e-6,
        "max_iter": 500,
        "dtype": "float32",
        "n_init": 2,
        "connected_components": "all",
        "random_state": 7,
    }
    assert seen.items() >= expected.items()


@pytest.mark.realdata
def test_deezer_europe(workspace):
    folder = os.environ.get("SCALEFAIR_DATA")
    if not folder:
        pytest.skip("SCALEFAIR_DATA does not name the data folder")
    deezer = Path(folder) / "deezer-europe"
    result = workspace.cluster(
        deezer / "deezer_gendered_edges.csv.gz",
        *("--tol", "1e-3", "--report", workspace.report),
        groups=deezer / "deezer_gendered_target.csv.gz",
        k=25,
    )
    assert (result.exit_code, result.output) == (0, "")
    report = workspace.read_report()
    assert report["input"]["n_nodes"] == 28281
    assert report["input"]["n_edges"] == 92752
    assert sum(report["eigenvalues"]) == pytest.approx(24.79242, rel=1e-4)
