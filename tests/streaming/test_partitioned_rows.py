"""Rows of Dask collections: cut, checked and encoded like rows in memory."""

import itertools

import numpy as np
import pytest
from scipy import sparse

from scalefair.files import open_rows
from scalefair.streaming import GroupMoments, PartitionedRows, is_partitioned

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

M, N = 230, 6


@pytest.fixture(scope="module", name="X")
def table():
    rng = np.random.default_rng(0)
    return rng.standard_normal((M, N)) * np.arange(1, N + 1) + 1e3


@pytest.fixture(scope="module")
def groups():
    return np.random.default_rng(1).choice(["a", "b", "c"], M)


def blocks(X, cuts=(0, 90, 91, M)):
    return [dask.delayed(X[i:j]) for i, j in itertools.pairwise(cuts)]


def frame(X, groups, npartitions=4):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    table = pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    return dd.from_pandas(table.assign(group=groups), npartitions=npartitions)


def assert_same(found, expected):
    assert found.groups.tolist() == expected.groups.tolist()
    assert found.counts.tolist() == expected.counts.tolist()
    np.testing.assert_allclose(found.means, expected.means, rtol=1e-13)
    size = np.abs(expected.scatters).max()
    np.testing.assert_allclose(found.scatters, expected.scatters, atol=1e-12 * size)


COLLECTIONS = {
    "array": lambda X: da.from_array(X, chunks=(70, 4)),
    "one chunk": lambda X: da.from_array(X, chunks=X.shape),
    "float32": lambda X: da.from_array(X, chunks=(70, N)).astype(np.float32),
    "delayed": blocks,
    "array of delayed": lambda X: da.from_array(X, chunks=(70, N)).to_delayed(),
    "delayed CSR": lambda X: list(blocks(sparse.csr_array(X))),
    "CSR chunks": lambda X: da.from_array(X, chunks=(70, N)).map_blocks(
        sparse.csr_matrix
    ),
}


@pytest.mark.parametrize("name", COLLECTIONS)
def test_moments_are_those_in_memory(name, X, groups):
    collection = COLLECTIONS[name](X)
    dense = X.astype(np.float32) if name == "float32" else X
    expected = GroupMoments.from_data(dense, groups)
    assert is_partitioned(collection)
    assert_same(GroupMoments.from_data(collection, groups), expected)
    cut_otherwise = da.from_array(groups, chunks=33)
    assert_same(GroupMoments.from_data(collection, cut_otherwise), expected)


def test_a_data_frame_and_its_column(X, groups):
    table = frame(X, groups)
    features = table.drop(columns="group")
    expected = GroupMoments.from_data(X, groups)
    # A column without known chunks, and one of the same partitions
    assert_same(GroupMoments.from_data(features, table["group"]), expected)
    assert_same(GroupMoments.from_data(features, groups), expected)
    rows = PartitionedRows.of(features)
    assert rows.feature_names.tolist() == [f"f{i}" for i in range(N)]


def test_a_bag_of_blocks(X, groups):
    bag = pytest.importorskip("dask.bag")
    parts = [sparse.csr_array(X[i : i + 46]) for i in range(0, M, 46)]
    found = GroupMoments.from_data(bag.from_sequence(parts, npartitions=2), groups)
    assert_same(found, GroupMoments.from_data(X, groups))


def test_delayed_groups(X, groups):
    found = GroupMoments.from_data(blocks(X), blocks(groups))
    assert_same(found, GroupMoments.from_data(X, groups))


@pytest.mark.parametrize("cut", ["blocks", "array", "series"])
def test_groups_of_dask_for_rows_of_a_file(cut, X, groups, tmp_path):
    np.save(tmp_path / "X.npy", X)
    reader = open_rows(tmp_path / "X.npy", max_bytes=5000)
    assert len(reader) > 1
    columns = {
        "blocks": lambda: blocks(groups),
        "array": lambda: da.from_array(groups, chunks=33),
        "series": lambda: frame(X, groups)["group"],
    }
    found = GroupMoments.from_data(reader, columns[cut]())
    assert_same(found, GroupMoments.from_data(X, groups))


def test_a_group_may_be_absent_from_a_partition(X):
    groups = np.repeat([2, 0, 1], [90, 1, M - 91])
    found = GroupMoments.from_data(blocks(X), groups)
    assert_same(found, GroupMoments.from_data(X, groups))


def test_partitions_without_rows_are_left_out(X, groups):
    cuts = (0, 0, 90, 90, M, M)
    rows = PartitionedRows.of(blocks(X, cuts))
    assert rows.lengths.tolist() == [90, M - 90]
    found = GroupMoments.from_data(blocks(X, cuts), blocks(groups, cuts))
    assert_same(found, GroupMoments.from_data(X, groups))


def test_partitions_without_rows_count_in_messages(X, groups):
    cuts = (0, 0, 90, 90, M, M)
    with pytest.raises(ValueError, match="Partition 3 of X, rows 90 to 229"):
        GroupMoments.from_data(blocks(with_entry(X, np.nan), cuts), groups)
    missing = np.where(np.arange(M) == 95, None, groups)
    with pytest.raises(ValueError, match=r"Partition 3: .* 1 missing value"):
        GroupMoments.from_data(blocks(X, cuts), blocks(missing, cuts))


def test_partial_fits_of_partitions(X, groups):
    moments = GroupMoments.from_data(X[:100], groups[:100])
    moments.update(da.from_array(X[100:], chunks=(50, N)), groups[100:])
    assert_same(moments, GroupMoments.from_data(X, groups))
    with pytest.raises(ValueError, match="6 features, the rows to add have 5"):
        moments.update(da.from_array(X[:, :5], chunks=(50, 5)), groups)


def test_what_is_known_of_rows(X):
    rows = PartitionedRows.of(blocks(sparse.csr_array(X * (X > 1e3))))
    assert rows.shape == (M, N)
    assert rows.is_sparse
    assert rows.nnz == (X > 1e3).sum()
    assert rows.starts.tolist() == [0, 90, 91]
    assert PartitionedRows.of(rows) is rows


def test_nothing_is_computed_for_one_pass(X):
    def fail(block):
        raise AssertionError("computed")

    lazy = da.from_array(X, chunks=(70, N)).map_blocks(
        fail, dtype=X.dtype, meta=np.empty((0, 0))
    )
    rows = PartitionedRows.of(lazy, persist=False)
    assert rows.lengths.tolist() == [70, 70, 70, 20]


def with_entry(X, value):
    X = X.copy()
    X[200, 3] = value
    return X


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda X: blocks(with_entry(X, np.nan)),
            r"Partition 2 of X, rows 91 to 229.*first at row 109, column 3 \(nan\)",
        ),
        (
            lambda X: [dask.delayed(X[:90]), dask.delayed(X[90:, :5])],
            "Partition 1 of X has 5 columns .*, partition 0 has 6",
        ),
        (
            lambda X: [dask.delayed(X[:90]), dask.delayed(sparse.csr_array(X[90:]))],
            "Partition 1 of X has 6 columns .sparse., partition 0 has .* .dense",
        ),
        (
            lambda X: [dask.delayed(X[:90]), dask.delayed(X[90:].astype(str))],
            "Partition 1 of X: X must hold real numbers",
        ),
        (lambda X: blocks(X[:, 0]), "Partition . of X: X must have two dimensions"),
        (lambda X: da.from_array(X[:, 0], chunks=50), "X must have two dimensions"),
        (lambda X: blocks(X, (0, 0, 0)), "X has no rows in any partition"),
        (lambda X: dask.bag.from_sequence([], npartitions=1), "no block of rows"),
    ],
)
def test_bad_partitions_are_named(make, message, X, groups):
    pytest.importorskip("dask.bag")
    with pytest.raises(ValueError, match=message):
        GroupMoments.from_data(make(X), groups)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda g: g[:-1], "229 groups for 230 samples"),
        (lambda g: da.from_array(g[:-1], chunks=50), "shape .229,. for 230 samples"),
        (
            lambda g: blocks(g, (0, 90, 92, M)),
            r"Partition [12] of sensitive_features has \d+ groups for \d+ rows",
        ),
        (
            lambda g: blocks(g, (0, 90, M)),
            "sensitive_features has 2 partitions and X has 3",
        ),
        (
            lambda g: blocks(np.where(np.arange(M) == 95, None, g)),
            r"Partition 2: sensitive_features has 1 missing value.*position 4",
        ),
        (
            lambda g: da.from_array(np.column_stack([g, g]), chunks=(50, 2)),
            "must be one-dimensional",
        ),
    ],
)
def test_bad_groups_are_named(make, message, X, groups):
    with pytest.raises(ValueError, match=message):
        GroupMoments.from_data(blocks(X), make(groups))


def test_codes_are_small(groups, X):
    rows = PartitionedRows.of(blocks(X))
    for values in (groups, blocks(groups)):
        distinct, codes = rows.encode(values, name="g", what="group")
        codes = np.concatenate(codes.gather())
        assert codes.dtype == np.int8
        assert np.array_equal(distinct[codes], groups)


def test_what_is_no_table_is_refused(groups):
    scalar = dask.delayed(5)
    assert is_partitioned(scalar)
    with pytest.raises(ValueError, match="no collection of rows"):
        GroupMoments.from_data(scalar, groups)


@pytest.mark.parametrize("X", [np.ones((2, 2)), [[1.0]], [], "abc", None])
def test_matrices_are_in_one_part(X):
    assert not is_partitioned(X)
    name = type(X).__name__
    with pytest.raises(ValueError, match=f"A {name} is no collection of rows: use"):
        PartitionedRows.of(X)
