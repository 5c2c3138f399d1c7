"""Rows of Dask collections: cut, checked and encoded like rows in memory."""

import numpy as np
import pytest
from scipy import sparse

from scalefair.streaming import GroupMoments, PartitionedRows, is_partitioned

from ..conftest import assert_same_moments, delayed_blocks

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
    return delayed_blocks(X, cuts)


def with_entry(X, value):
    X = X.copy()
    X[200, 3] = value
    return X


def frame(X, groups, npartitions=4):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    table = pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    return dd.from_pandas(table.assign(group=groups), npartitions=npartitions)


CUTS = (0, 0, 90, 90, M, M)  # some partitions have no rows
ROWS = {
    "array": lambda X: da.from_array(X, chunks=(70, 4)),
    "one chunk": lambda X: da.from_array(X, chunks=X.shape),
    "delayed": blocks,
    "array of delayed": lambda X: da.from_array(X, chunks=(70, N)).to_delayed(),
    "delayed CSR": lambda X: list(blocks(sparse.csr_array(X))),
    "CSR chunks": lambda X: da.from_array(X, chunks=(70, 4)).map_blocks(
        sparse.csr_matrix
    ),
    "frame": lambda X: frame(X, 0).drop(columns="group"),
    "bag": lambda X: pytest.importorskip("dask.bag").from_sequence(
        [sparse.csr_array(X[i : i + 46]) for i in range(0, M, 46)], npartitions=2
    ),
    "without rows": lambda X: blocks(X, CUTS),
}


@pytest.mark.parametrize("name", ROWS)
def test_moments_are_those_in_memory(name, X, groups):
    rows = ROWS[name](X)
    assert is_partitioned(rows)
    expected = GroupMoments.from_data(X, groups)
    for values in (groups, da.from_array(groups, chunks=33)):  # cut otherwise
        assert_same_moments(GroupMoments.from_data(rows, values), expected)


GROUPS = {
    "delayed": (blocks, blocks),
    "without rows": (lambda X: blocks(X, CUTS), lambda g: blocks(g, CUTS)),
    # A column without known chunks
    "column": (ROWS["frame"], lambda g: frame(np.zeros((M, 1)), g)["group"]),
}


@pytest.mark.parametrize("name", GROUPS)
def test_groups_that_are_cut_as_the_rows(name, X, groups):
    make, cut = GROUPS[name]
    absent = np.repeat(["c", "a", "b"], [90, 1, M - 91])  # from some partitions
    for values in (groups, absent):
        moments = GroupMoments.from_data(make(X), cut(values))
        assert_same_moments(moments, GroupMoments.from_data(X, values))


def test_partitions_without_rows_count_in_messages(X, groups):
    with pytest.raises(ValueError, match="Partition 3 of X, rows 90 to 229"):
        GroupMoments.from_data(blocks(with_entry(X, np.nan), CUTS), groups)
    missing = np.where(np.arange(M) == 95, None, groups)
    with pytest.raises(ValueError, match=r"Partition 3: .* 1 missing value"):
        GroupMoments.from_data(blocks(X, CUTS), blocks(missing, CUTS))


def test_what_is_known_of_rows(X):
    rows = PartitionedRows.of(blocks(sparse.csr_array(X * (X > 1e3))))
    assert rows.shape == (M, N)
    assert rows.is_sparse
    assert rows.nnz == (X > 1e3).sum()
    assert rows.starts.tolist() == [0, 90, 91]
    assert PartitionedRows.of(rows) is rows
    assert PartitionedRows.of(blocks(X, CUTS)).lengths.tolist() == [90, M - 90]
    single = da.from_array(X.astype(np.float32), chunks=(70, N))
    assert PartitionedRows.of(single).dtype == np.float32
    names = PartitionedRows.of(ROWS["frame"](X)).feature_names
    assert names.tolist() == [f"f{i}" for i in range(N)]


def test_nothing_is_computed_for_one_pass(X):
    def fail(block):
        raise AssertionError("computed")

    lazy = da.from_array(X, chunks=(70, N)).map_blocks(
        fail, dtype=X.dtype, meta=np.empty((0, 0))
    )
    rows = PartitionedRows.of(lazy, persist=False)
    assert rows.lengths.tolist() == [70, 70, 70, 20]


def in_two(X, change):
    """Two blocks, the second of which is changed."""
    return [dask.delayed(X[:90]), dask.delayed(change(X[90:]))]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X: blocks(with_entry(X, np.nan)), "rows 91 to 229.*row 109, column 3"),
        (lambda X: in_two(X, lambda x: x[:, :5]), "has 5 columns .*on 0 has 6"),
        (lambda X: in_two(X, sparse.csr_array), "1 of X has 6 col.* .sparse.*dense"),
        (lambda X: in_two(X, lambda x: x.astype(str)), "Partition 1 of X: X .* real"),
        (
            lambda X: da.from_array(np.ma.masked_equal(X, X[99, 1]), chunks=(90, 6)),
            "Partition 1 of X: X has masked entries",
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
        (lambda g: blocks(g, (0, 90, 92, M)), r"[12] of s.* has \d+ groups for \d+"),
        (lambda g: blocks(g, (0, 90, M)), "s.* has 2 partitions and X has 3"),
        (
            lambda g: blocks(np.where(np.arange(M) == 95, None, g)),
            r"Partition 2: sensitive_features has 1 missing value.*position 4",
        ),
        (lambda g: da.from_array(np.ones((M, 1, 1)), chunks=50), "one-dimensional"),
        (
            lambda g: [
                *blocks(g, (0, 90, 91)),
                dask.delayed(np.column_stack([g, g])[91:]),
            ],
            r"the columns 'sensitive_features' in one .* and '0', '1' in another",
        ),
    ],
)
def test_bad_groups_are_named(make, message, X, groups):
    with pytest.raises(ValueError, match=message):
        GroupMoments.from_data(blocks(X), make(groups))


@pytest.mark.parametrize("X", [np.ones((2, 2)), [[1.0]], [], "abc", None])
def test_what_is_no_table_is_refused(X):
    assert not is_partitioned(X)
    assert is_partitioned(dask.delayed(5))
    for refused in (X, dask.delayed(5)):
        with pytest.raises(ValueError, match=r"A \w+ is no collection of rows: use"):
            PartitionedRows.of(refused)
