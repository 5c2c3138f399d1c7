"""Every failure: one line, its exit code, and the older result untouched."""

import errno
import os

import numpy as np
import pytest
from scipy import sparse

from scalefair.cli import _cluster, _output
from scalefair.cluster import FairSpectralClustering


def npz(workspace, matrix):
    path = workspace.folder / "other.npz"
    sparse.save_npz(path, sparse.csr_array(matrix))
    return path


def dense(planted):
    return planted.graph.toarray()


def test_missing_graph(older):
    older.fails(older.cluster("nowhere.csv"), "nowhere.csv: no such file")


def test_missing_groups(older):
    result = older.cluster(groups=older.folder / "nobody.csv")
    older.fails(result, "nobody.csv: no such file")


def test_unreadable_file(older, monkeypatch):
    real_open = open

    def refuse(path, *args, **kwargs):
        if str(path) == str(older.edges):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real_open(path, *args, **kwargs)

    monkeypatch.setattr("builtins.open", refuse)
    older.fails(older.cluster(), f"{older.edges}: no permission to read")


def test_wrong_extension(older):
    graph = older.write("graph.json", ["{}"])
    older.fails(older.cluster(graph), "unknown extension", ".npz", ".csv")


def test_rows_where_a_graph_is_expected(older):
    older.add_rows()
    older.fails(older.cluster(older.npy), "rows of features only", "--affinity")
    wide = older.write("wide.csv", ["1,2,3,4", "5,6,7,8"])
    older.fails(older.cluster(wide), f"{wide}:1: ", "choose an --affinity")


def test_unreadable_line(older):
    with older.edges.open("a") as file:
        file.write("1;2\n")
    line = len(older.pairs) + 2
    older.fails(older.cluster(), f"{older.edges}:{line}: ", "'1;2'")


def test_unreadable_line_of_groups(older):
    with older.groups.open("a") as file:
        file.write("7\n")
    older.fails(older.cluster(), f"{older.groups}:92: expected `id,group`")


@pytest.mark.parametrize("name", ["x.npz", "x.mtx", "x.mtx.gz", "x.csv.gz"])
def test_corrupted_file(older, name):
    path = older.folder / name
    path.write_bytes(b"\x1f\x8b\x08\x00 neither this nor that")
    older.fails(older.cluster(path), name, "damaged")


def test_npz_that_is_no_sparse_matrix(older):
    path = older.folder / "arrays.npz"
    np.savez(path, a=np.eye(3))
    older.fails(older.cluster(path), "scipy.sparse.save_npz")


def test_ids_without_a_group(older):
    lines = older.groups.read_text().splitlines()
    older.write("groups.csv", lines[:-7])
    line = older.fails(older.cluster(), "7 of the 90 nodes", " and 2 more.")
    listed = line.split("no group: ")[1].split(" and ")[0].split(", ")
    assert len(listed) == 5
    assert set(map(int, listed)) < set(range(83, 90))


def test_conflicting_groups(older):
    with older.groups.open("a") as file:
        file.write("4,another\n")
    older.fails(older.cluster(), f"{older.groups}:92: node 4", "on line 6")


def test_empty_group(older):
    with older.groups.open("a") as file:
        file.write("4,\n")
    older.fails(older.cluster(), f"{older.groups}:92: node 4 has an empty group")


def test_not_square(older, planted):
    graph = npz(older, planted.graph[:, :-1])
    line = older.fails(
        older.cluster(graph), graph, "must be a square matrix", "(90, 89)"
    )
    assert "affinity=" not in line
    assert line.endswith("For rows of features use --affinity nearest_neighbors.")


def test_asymmetric(older, planted):
    W = dense(planted)
    i, j = np.argwhere(np.triu(W))[0]
    W[i, j] = 5
    older.fails(older.cluster(npz(older, W)), "asymmetric", f"({i}, {j})", "W.T")


def test_contradicting_directions(older):
    lines = [f"{i},{j},1" for i, j in older.pairs]
    i, j = older.pairs[3]
    older.write("graph.csv", [*lines, f"{j},{i},2"])
    older.fails(older.cluster(), f":{len(lines) + 1}: edge", "on line 4")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_finite(older, planted, value):
    W = dense(planted)
    W[2, 3] = W[3, 2] = value
    older.fails(older.cluster(npz(older, W)), "NaN or infinite", "row 2, column 3")


def test_negative(older, planted):
    W = dense(planted)
    W[2, 3] = W[3, 2] = -1
    older.fails(older.cluster(npz(older, W)), "Negative values", "row 2, column 3")


def test_bad_weight_in_an_edge_list(older):
    for weight, word in (("nan", "finite"), ("-1", "negative"), ("x", "not a number")):
        lines = [f"{i},{j},1" for i, j in older.pairs]
        older.write("graph.csv", [*lines, f"0,1,{weight}"])
        older.fails(older.cluster(), f"graph.csv:{len(lines) + 1}: ", word)


@pytest.mark.parametrize("k", [90, 500])
def test_too_many_clusters(older, k):
    line = older.fails(
        older.cluster(k=k), f"-k {k} must be less", "choose -k 89 or less"
    )
    assert "n_clusters" not in line
    assert "n_samples" not in line


def test_one_group(older):
    older.write("groups.csv", [f"{i},same" for i in range(90)])
    older.fails(older.cluster(), "fewer than two groups", "same")


def test_isolated_node(older, planted):
    W = dense(planted)
    W[5] = W[:, 5] = 0
    line = older.fails(
        older.cluster(npz(older, W)),
        *("isolated", "--components largest", "--components all"),
    )
    assert "connected_components" not in line


def test_several_components(older):
    with older.edges.open("a") as file:
        file.write("x,y\n")
    with older.groups.open("a") as file:
        file.write("x,g0\ny,g1\n")
    line = older.fails(
        older.cluster(),
        *("2 connected components", "--components largest", "--components all"),
    )
    assert "connected_components" not in line


def test_no_edges_at_all(older):
    graph = npz(older, np.zeros((90, 90)))
    older.fails(older.cluster(graph), "no edges")


def test_graph_of_one_node(older):
    groups = older.write("one.csv", ["0,a"])
    older.fails(older.cluster(npz(older, np.ones((1, 1))), groups=groups))


def never(*args, **kwargs):
    raise AssertionError("computed although the output cannot be written")


def test_output_is_checked_before_computing(older, monkeypatch):
    monkeypatch.setattr(FairSpectralClustering, "fit", never)
    monkeypatch.setattr(_cluster, "_read", never)
    missing = older.folder / "missing" / "labels.csv"
    older.fails(older.cluster(older.npz, "-o", missing), missing, "does not exist")
    older.fails(older.cluster(older.npz, "-o", older.folder), "is a folder")
    older.fails(older.cluster(older.npz, "-o", older.npz), "is an input file")
    older.fails(older.cluster(older.npz, "--report", missing), "does not exist")
    older.fails(older.cluster(older.npz, "--report", older.groups), "is an input")


def test_no_write_permission(older, monkeypatch):
    monkeypatch.setattr(FairSpectralClustering, "fit", never)
    monkeypatch.setattr(_output.os, "access", lambda *_: False)
    older.fails(older.cluster(older.npz), older.output, "no permission to write")


def test_disk_full(older, monkeypatch):
    def fill(file, *_):
        file.write(b"id,la")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(_cluster, "write_labels", fill)
    older.fails(older.cluster(older.npz), older.output, "no space left")


def test_report_that_fails_leaves_older_labels(older, monkeypatch):
    from scalefair.cli import _report

    def fail(file, content):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(_report, "write_json", fail)
    result = older.cluster(older.npz, "--report", older.report)
    older.fails(result, older.report)
    assert not older.report.exists()


def test_not_enough_memory(older, monkeypatch):
    def fail(*args, **kwargs):
        raise MemoryError("Unable to allocate 80 GiB")

    monkeypatch.setattr(FairSpectralClustering, "fit", fail)
    older.fails(older.cluster(older.npz), "not enough memory", "80 GiB", "smaller data")


@pytest.mark.parametrize("where", ["fit", "write"])
def test_interrupt(older, monkeypatch, where):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    if where == "fit":
        monkeypatch.setattr(FairSpectralClustering, "fit", interrupt)
    else:
        monkeypatch.setattr(_cluster, "write_labels", interrupt)
    result = older.cluster(older.npz, "--report", older.report)
    assert older.fails(result, code=130) == "error: interrupted, nothing written"
    assert not older.report.exists()


def test_internal_error(older, monkeypatch):
    def fail(*args, **kwargs):
        raise ZeroDivisionError("a\nbug")

    monkeypatch.setattr(FairSpectralClustering, "fit", fail)
    line = older.fails(older.cluster(older.npz), "--debug", "report", code=70)
    assert line.startswith("error: internal error, ZeroDivisionError: a bug")
    result = older.cluster(older.npz, "--debug")
    assert result.exit_code == 70
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1] == line


def test_debug_shows_where_the_estimator_refused(older):
    result = older.cluster(older.npz, "--debug", k=90)
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert "_check_sizes" in result.stderr


@pytest.mark.parametrize(
    "options",
    [
        ("-k", "0"),
        ("-k", "many"),
        ("--tol", "-1"),
        ("--tol", "nan"),
        ("--tol", "inf"),
        ("--affinity", "cosine"),
        ("--affinity", "rbf", "--gamma", "0"),
        ("--affinity", "rbf", "--gamma", "inf"),
        ("--affinity", "nearest_neighbors", "--n-neighbors", "0"),
        ("--affinity", "rbf_nystroem", "--n-landmarks", "0"),
        ("--assign-labels", "random"),
        ("--assign-labels", "fair", "--balance-tolerance", "-0.1"),
        ("--assign-labels", "fair", "--balance-tolerance", "nan"),
        ("--solver", "magic"),
        ("--components", "some"),
        ("--max-iter", str(2**31)),
        ("--unknown",),
    ],
)
def test_wrong_usage(older, options):
    result = older.cluster(older.npz, *options)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_one_file_for_both_outputs(older):
    result = older.cluster(older.npz, "--report", older.output)
    assert result.exit_code == 2
    assert "same file" in result.stderr


def test_larger_numbers_than_compiled_code_takes(older):
    options = ("--solver", "lanczos", "--max-iter", 10**20)
    result = older.cluster(older.npz, *options)
    assert result.exit_code == 2
    assert "is too large: at most 2147483647" in result.stderr
    options = ("--solver", "lanczos", "--max-iter", 2**31 - 1)
    assert older.cluster(older.npz, *options).exit_code == 0


def test_no_permission_names_a_remedy(older, monkeypatch):
    def refuse(source, target):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), source)

    monkeypatch.setattr(_output.os, "replace", refuse)
    older.fails(older.cluster(older.npz), f"{older.output}: ", "Check the access")
