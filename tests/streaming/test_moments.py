"""Moments of groups against their definitions in extended precision."""

import pickle
import tracemalloc

import dask.array
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from scalefair.files import open_rows
from scalefair.streaming import GroupMoments, _blocks

from ..conftest import assert_same_moments, delayed_blocks, dense_covariances, one_hot

# Scatter matrices of three groups: small ones in register tiles, large ones by BLAS.
NARROW, WIDE = 6, 220


def definition(X, A):
    """Means and scatter matrices of each group, centred in extended precision."""
    X = X.toarray() if sparse.issparse(X) else np.asarray(X)
    X, means, scatters = X.astype(np.longdouble), [], []
    for a in A.T:
        rows, weights = X[a > 0], a[a > 0]
        means.append(weights @ rows / weights.sum())
        centred = np.asarray(rows - means[-1], np.float64)
        scatters.append((centred.T * weights) @ centred)
    return np.array(means, np.float64), np.array(scatters)


def check(moments, X, groups, rtol=1e-13):
    """Moments are those of groups, or of a data frame with weights of the rows."""
    if isinstance(groups, pd.DataFrame):
        values, A = groups.columns, groups.to_numpy()
    else:
        values, A = np.unique(groups), one_hot(groups)
        assert moments.counts.dtype == np.int64
    means, scatters = definition(X, A)
    assert moments.groups.tolist() == list(values)
    np.testing.assert_allclose(moments.counts, A.sum(axis=0), rtol=rtol)
    assert moments.means.dtype == moments.scatters.dtype == np.float64
    size = np.abs(scatters).max()
    scale = np.abs(means).max() + np.sqrt(size)
    np.testing.assert_allclose(moments.means, means, rtol=0, atol=1e-14 * scale)
    atol = rtol * size + 1e-20
    np.testing.assert_allclose(moments.scatters, scatters, rtol=0, atol=atol)
    assert np.array_equal(moments.scatters, moments.scatters.transpose(0, 2, 1))


def rows_of(m, n, n_groups=3, seed=0, density=1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, n)) * rng.uniform(0.1, 10, n)
    X[rng.random((m, n)) >= density] = 0
    groups = rng.integers(0, n_groups, m)
    groups[:n_groups] = np.arange(n_groups)
    return X, groups


def packed(X):
    """Rows whose strides are no multiples of the size of an entry."""
    records = np.zeros(len(X), dtype=[("flag", "i1"), ("row", X.dtype, X.shape[1])])
    records["row"] = X
    return records["row"]


class TestFromData:
    @pytest.mark.parametrize("n", [NARROW, WIDE])
    @pytest.mark.parametrize(
        "form",
        [
            np.ascontiguousarray,
            np.asfortranarray,
            np.float32,
            np.float16,
            lambda X: X.astype(">f8"),
            packed,
            lambda X: np.broadcast_to(X[3], X.shape),
            lambda X: X[::-1, ::-1],
            lambda X: (10 * X).astype(np.int32),
            lambda X: X > 0,
            sparse.csr_array,
            sparse.csc_array,
            sparse.coo_array,
            lambda X: X.tolist(),
        ],
    )
    def test_forms(self, n, form):
        X, groups = rows_of(500, n)
        X = form(X)
        before = X.toarray() if sparse.issparse(X) else np.array(X)
        check(GroupMoments.from_data(X, groups), X, groups)
        assert np.array_equal(X.toarray() if sparse.issparse(X) else X, before)

    @pytest.mark.parametrize("n", [1, 209, 210])
    @pytest.mark.parametrize(("m", "n_groups"), [(3, 3), (257, 2), (2049, 40)])
    def test_sizes(self, m, n, n_groups):
        X, groups = rows_of(m, n, n_groups)
        check(GroupMoments.from_data(X, groups), X, groups)

    @pytest.mark.parametrize("n", [NARROW, WIDE])
    @pytest.mark.parametrize(
        ("form", "density", "mean"),
        [
            (np.asarray, 0.5, 0.0),
            (sparse.csr_array, 0.02, 0.0),
            (sparse.csr_array, 0.5, 0.0),
            # Far from zero, and groups from each other: nothing cancels.
            (np.asarray, 1.0, 1e6),
            (np.float32, 1.0, -1e8),
            (sparse.csr_array, 1.0, 1e6),
        ],
    )
    def test_many_blocks(self, n, form, density, mean, monkeypatch):
        monkeypatch.setattr(_blocks, "BLOCK_BYTES", 60_000)
        X, groups = rows_of(900, n, 5, density=density)
        groups[500:] %= 3  # two groups end, one begins late
        groups[:600] = np.where(groups[:600] == 0, 1, groups[:600])
        X = form(X + mean * (1 + groups[:, None]))
        check(GroupMoments.from_data(X, groups), X, groups, rtol=1e-12)

    def test_full_columns_of_sparse_rows_are_shifted(self, monkeypatch):
        monkeypatch.delattr(_blocks, "_accumulate_dense")  # nothing is made dense
        X, groups = rows_of(400, 300, density=0.01)
        X[:, [5, 100]] = 1e6 + np.random.default_rng(1).standard_normal((400, 2))
        X[groups == 1, 7] = -1e6
        X = sparse.csr_array(X)
        assert _blocks.is_cheaper_sparse(X)
        check(GroupMoments.from_data(X, groups), X, groups, rtol=1e-12)
        # Entries at the same place are added.
        parts = np.array([1.0, 2.0, 4.0]), np.array([1, 1, 0]), np.array([0, 2, 3])
        X = sparse.csr_array(parts, shape=(2, 300))
        check(GroupMoments.from_data(X, [0, 0]), X.toarray(), [0, 0])
        assert X.nnz == 3

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    def test_constant_rows_single_rows_and_zeros(self, form):
        X = np.full((2003, 3), 0.1)
        X[2000], X[2001:] = 7.3, 0.0
        groups = np.minimum(np.maximum(np.arange(2003) - 1999, 0), 2)
        moments = GroupMoments.from_data(form(X), groups)
        np.testing.assert_allclose(moments.scatters[0], 0, atol=1e-28)
        assert not moments.scatters[1:].any()
        assert np.array_equal(moments.means[1:], X[2000:2002])

    def test_variances_are_not_negative(self):
        sums = _blocks.ShiftedSums(1, 1)
        sums.counts[:], sums.sums[:] = 3, 1e-8  # squares were lost to rounding
        assert sums.to_moments()[2] == 0


class TestErrors:
    @pytest.mark.parametrize("n", [NARROW, WIDE])
    @pytest.mark.parametrize("bad", [np.nan, -np.inf])
    @pytest.mark.parametrize("form", [np.asarray, np.float32, sparse.csr_array])
    def test_not_finite(self, n, bad, form, monkeypatch):
        monkeypatch.setattr(_blocks, "BLOCK_BYTES", 100_000)
        X, groups = rows_of(700, n, density=0.02)
        X[650, 4] = X[650, 2] = X[680, 0] = bad
        X[690, 2] = -bad  # infinities that would cancel
        message = r"first at row 650, column 2 \(-?(nan|inf)"
        with pytest.raises(ValueError, match=message):
            GroupMoments.from_data(form(X), groups)

    def test_sums_that_overflow(self):
        moments, distant = (
            GroupMoments([0, 1], [2, 2], [[0.0], [mean]], np.zeros((2, 1, 1)))
            for mean in (1.0, 1e160)
        )
        before = pickle.dumps(moments)
        for compute in (
            lambda: moments.merge(distant),
            lambda: distant.merge(moments),
            distant.covariances,
        ):
            with pytest.raises(ValueError, match=r"squares .* overflow"):
                compute()
        assert pickle.dumps(moments) == before

    @pytest.mark.parametrize("n", [NARROW, WIDE])
    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    def test_overflow(self, n, form):
        for size in (1e200, 1.7e308):
            X, groups = rows_of(100, n, 1, density=0.02)
            X[::2, 2] = size
            with pytest.raises(ValueError, match="overflow: rescale"):
                GroupMoments.from_data(form(X), groups)

    @pytest.mark.parametrize(
        ("X", "message"),
        [
            (np.ones(3), "two dimensions"),
            (np.ones((0, 3)), r"\(0, 3\): at least one row"),
            (np.ones((3, 0)), "one feature"),
            (np.ones((3, 2), complex), "real numbers"),
            (np.array([["a"], ["b"], ["c"]]), "real numbers"),
            (np.array([[1, 2], [3, "a"]], object), r"words in column\(s\) 1 \(.a.\)"),
        ],
    )
    def test_rows(self, X, message):
        with pytest.raises(ValueError, match=message):
            GroupMoments.from_data(X, [0, 0, 1])

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"counts": [1]}, "need arrays of shape"),
            ({"counts": [1, 0]}, r"positive and finite, got \[1 0\]"),
            ({"counts": [1.5, np.inf]}, "counts must be positive and finite"),
            ({"means": np.full((2, 3), np.nan)}, "means must be finite"),
            ({"scatters": np.full((2, 3, 3), np.inf)}, "scatters must be finite"),
            ({"groups": [1, 0]}, "sorted"),
            ({"scatters": np.zeros((2, 3, 2))}, "need arrays"),
        ],
    )
    def test_arrays_that_do_not_fit(self, change, message):
        complete = {"groups": [0, 1], "counts": [1, 2]}
        complete |= {"means": np.zeros((2, 3)), "scatters": np.zeros((2, 3, 3))}
        assert GroupMoments(**complete).n_features == 3
        assert not np.shares_memory(GroupMoments(**complete).means, complete["means"])
        with pytest.raises(ValueError, match=message):
            GroupMoments(**(complete | change))


class TestUpdateAndMerge:
    @pytest.mark.parametrize("n", [NARROW, WIDE])
    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    def test_parts_give_the_whole(self, n, form):
        X, groups = rows_of(600, n)
        X += 1e4  # means must be combined, not sums
        X = form(X)
        moments = GroupMoments.from_data(X[:100], groups[:100])
        for start in range(100, 600, 100):
            rows = slice(start, start + 100)
            assert moments.update(X[rows], groups[rows]) is moments
        check(moments, X, groups, rtol=1e-12)

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (np.array(["b", "a"]), ["long name", "a"]),
            (["b", "d"], ["c", "a"]),  # between the others
            (np.array([2, 1], np.int8), np.array([1000, 1])),
            ([True, False], np.array([True, True])),
            (np.array([0.5, -1.5]), [3.0, 0.5]),
        ],
    )
    def test_groups_of_any_form(self, first, second):
        X, _ = rows_of(4, 3)
        a = GroupMoments.from_data(X[:2], first)
        b = GroupMoments.from_data(X[2:], second)
        arrays = a.groups, a.counts, a.means, a.scatters
        copy, before = GroupMoments(*arrays), pickle.dumps((a, b))
        check(a.merge(b), X, [*first, *second])
        check(copy.update(X[2:], second), X, [*first, *second])
        assert pickle.dumps((a, b)) == before
        check(a.update(X[2:], second), X, [*first, *second])

    def test_refused_rows_change_nothing(self):
        X, groups = rows_of(60, 3)
        moments = GroupMoments.from_data(X, groups)
        before = pickle.dumps(moments)
        large = np.array([1, 2**64 - 1], np.uint64)  # no float
        for others in (["a", "b"], [True, False], large):
            with pytest.raises(ValueError, match="Convert them to one type"):
                moments.update(X[:2], others)
            with pytest.raises(ValueError, match="Convert them to one type"):
                GroupMoments.from_data(X[:2], others).merge(moments)
        with pytest.raises(ValueError, match="of 3 features, the rows to add have 2"):
            moments.update(X[:, :2], groups)
        X[59, 1] = np.nan
        with pytest.raises(ValueError, match="row 59, column 1"):
            moments.update(X, groups)
        with pytest.raises(ValueError, match="groups for 60 samples"):
            moments.update(X, groups[:5])
        assert pickle.dumps(moments) == before


@pytest.mark.parametrize("n", [1, NARROW, WIDE])
def test_covariances(n):
    X, groups = rows_of(300, n)
    X += 50
    moments = GroupMoments.from_data(X, groups)
    before = pickle.dumps(moments)
    np.testing.assert_allclose(moments.mean, X.mean(axis=0), rtol=1e-14)
    for centering in ("global", "group"):
        C = moments.covariances(centering)
        expected = dense_covariances(X, groups, centering)
        np.testing.assert_allclose(C, expected, rtol=1e-12, atol=1e-12)
        C[:] = 7  # the result is new
    assert pickle.dumps(moments) == before
    with pytest.raises(ValueError, match='"global" or "group"'):
        moments.covariances("none")


class TestFiles:
    @pytest.mark.parametrize(
        "groups",
        [[2, 1, 1], ["x", "longer", "x"], [True, False, True], [0.5, 1.0, 0.5]],
    )
    def test_round_trip(self, groups, tmp_path):
        moments = GroupMoments.from_data(np.arange(6.0).reshape(3, 2), groups)
        moments.save(tmp_path / "m")  # no suffix is added
        assert [path.name for path in tmp_path.iterdir()] == ["m"]
        loaded = GroupMoments.load(str(tmp_path / "m"))
        assert loaded.groups.tolist() == moments.groups.tolist()
        for name in ("counts", "means", "scatters"):
            assert np.array_equal(getattr(loaded, name), getattr(moments, name))
        loaded.update([[1.0, 2.0]], groups[:1])  # may be written to
        assert_same_moments(pickle.loads(pickle.dumps(moments)), moments, rtol=0)

    def test_objects_are_not_pickled(self, tmp_path):
        groups = np.array([(1, 2), (0, 1), (1, 2)], dtype="i,i").astype(object)
        moments = GroupMoments.from_data(np.eye(3), groups)
        with pytest.raises(ValueError, match="groups are Python objects"):
            moments.save(tmp_path / "m.npz")
        assert not list(tmp_path.iterdir())

    def test_files_of_others(self, tmp_path):
        path = tmp_path / "file.npz"
        GroupMoments.from_data(np.eye(3), [0, 1, 1]).save(path)
        complete = path.read_bytes()

        contents = [complete[: len(complete) // 2], b"", pickle.dumps([1, 2])]
        for arrays in ({"a": np.ones(3)}, {"format": np.array("other")}):
            np.savez(path, **arrays)
            contents.append(path.read_bytes())
        np.save(tmp_path / "array.npy", np.ones(3))
        contents.append((tmp_path / "array.npy").read_bytes())
        # In the directory: encrypted, no such compression, no such version.
        for offset, value in [(8, 1), (10, 99), (6, 200)]:
            damaged = bytearray(complete)
            damaged[complete.rindex(b"PK\x01\x02") + offset] = value
            contents.append(damaged)
        for content in contents:
            path.write_bytes(content)
            with pytest.raises(ValueError, match="not a whole file of group moments"):
                GroupMoments.load(path)
        path.write_bytes(complete)
        with np.load(path) as file:
            arrays = dict(file)
        np.savez(path, **arrays | {"counts": arrays["counts"][:1]})
        with pytest.raises(ValueError, match="need arrays of shape"):
            GroupMoments.load(path)
        with pytest.raises(FileNotFoundError, match=r"none\.npz"):
            GroupMoments.load(tmp_path / "none.npz")


def test_mapped_rows_are_read_in_blocks(tmp_path):
    path, shape = tmp_path / "rows.npy", (200_000, 40)
    X = np.lib.format.open_memmap(path, "w+", np.float32, shape)
    X[::1000] = 1.0
    groups = np.arange(len(X)) % 2
    GroupMoments.from_data(X[:1000], groups[:1000])  # compile
    tracemalloc.start()  # memory maps do not count
    try:
        moments = GroupMoments.from_data(X, groups)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < X.nbytes / 2
    assert moments.means.sum() == pytest.approx(40 * 2 / 1000)


M, H = 300, 3
NAMES = ["a", "b", "c"]


def probabilities(seed=0):
    """Probabilities of three groups; nothing is known of rows 0 to 40 and some more."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet([0.5] * H, M)
    P[rng.random(P.shape) < 0.3] = 0.0
    P[P.sum(axis=1) == 0] = [1.0, 0.0, 0.0]
    P /= P.sum(axis=1, keepdims=True)
    P[:41] = P[::11] = 0.0
    return pd.DataFrame(P, columns=NAMES)


P = probabilities()
CODES = np.random.default_rng(1).integers(0, H, M)
WEIGHTS = np.random.default_rng(2).integers(0, 4, M).astype(np.float64)


def table(n, density=1.0):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((M, n)) * (1 + 2 * (CODES == 1))[:, None]
    X += 100 * (density == 1)
    X[rng.random(X.shape) >= density] = 0.0
    return X


@pytest.mark.parametrize(
    ("weights", "block_bytes"), [(None, 2**26), (WEIGHTS, 4000)], ids=["1", "w"]
)
@pytest.mark.parametrize(
    ("n", "density", "form"),
    [
        (6, 1.0, np.asarray),
        (6, 1.0, np.asfortranarray),
        (250, 1.0, np.asarray),  # scatter matrices of BLAS
        (200, 0.01, sparse.csr_array),  # sparse products
        (6, 0.5, sparse.csr_array),  # dense blocks
    ],
)
def test_moments_are_those_of_weighted_entries(
    n, density, form, block_bytes, weights, monkeypatch
):
    monkeypatch.setattr(_blocks, "BLOCK_BYTES", block_bytes)
    X = table(n, density)
    for table_of_groups, groups in (
        (pd.get_dummies(CODES, dtype=float), {"groups": CODES}),
        (P, {"group_probabilities": P}),
    ):
        A = table_of_groups.mul(1.0 if weights is None else weights, axis=0)
        moments = GroupMoments.from_data(form(X), sample_weight=weights, **groups)
        check(moments, X, A, rtol=1e-12)
    # The moments see the probabilities.
    with pytest.raises(AssertionError):
        check(moments, X, A**2, rtol=1e-12)


def test_probabilities_and_weights_of_rows_in_parts(tmp_path):
    X, labels = table(6), np.array(NAMES)[CODES]
    np.save(tmp_path / "X.npy", X)
    cuts = (0, 40, 40, 170, M)  # the first has no row of a group
    parts, weights = (delayed_blocks(x, cuts) for x in (X, WEIGHTS))
    expected = GroupMoments.from_data(X, group_probabilities=P, sample_weight=WEIGHTS)
    hard = GroupMoments.from_data(X, labels, sample_weight=WEIGHTS)
    for rows, w in (
        (sparse.csr_array(X), WEIGHTS),
        (open_rows(tmp_path / "X.npy", max_bytes=1900), WEIGHTS),
        (dask.array.from_array(X, (70, 6)), WEIGHTS),
        (parts, weights),
    ):
        for table_of_groups, moments in ((P, expected), (pd.get_dummies(labels), hard)):
            soft = GroupMoments.from_data(
                rows, group_probabilities=table_of_groups, sample_weight=w
            )
            assert_same_moments(soft, moments)
        assert_same_moments(GroupMoments.from_data(rows, labels, sample_weight=w), hard)


def test_probabilities_that_are_refused():
    X = table(6)
    for arguments in ({}, {"groups": CODES, "group_probabilities": P}):
        with pytest.raises(TypeError, match=r"got (neither|both)"):
            GroupMoments.from_data(X, **arguments)
    no_weight = np.where(P["b"] > 0, 0.0, 1.0)
    moments = GroupMoments.from_data(X, group_probabilities=P, sample_weight=no_weight)
    assert "b" not in moments.groups  # as hard groups without weight
    row = 200
    assert P.iloc[row].any()
    X[row, 4] = np.nan
    for rows in (X, sparse.csr_array(X)):
        with pytest.raises(ValueError, match=rf"first at row {row}, column 4 \(nan\)"):
            GroupMoments.from_data(rows, group_probabilities=P)
