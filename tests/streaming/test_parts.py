"""Functions that go to parts, wherever these are."""

import operator
import pickle
import sys
import time

import numba
import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from scalefair._memory import array_bytes
from scalefair.streaming import LocalParts, Parts

from ..conftest import blas_threads

dask = pytest.importorskip("dask")
from scalefair.streaming._dask import DaskParts, require_dask  # noqa: E402

VALUES = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]


def local(values=VALUES):
    return LocalParts(list(values).__iter__, len(values))


def delayed(values=VALUES):
    return DaskParts.of_delayed([dask.delayed(value) for value in values])


both = pytest.mark.parametrize("make", [local, delayed], ids=["local", "dask"])


def weighted(part, factor, shift, numbers):
    return factor * part + shift + 100 * numbers


def threads_of(part):
    time.sleep(0.02)  # so that both threads work
    return numba.get_num_threads(), blas_threads()


@both
def test_functions_take_shared_and_own_arguments(make):
    parts = make()
    numbers = parts.like(range(len(VALUES)))
    values = parts.map(weighted, 2, 0.5, aligned=[numbers]).gather()
    assert values == [2 * v + 0.5 + 100 * i for i, v in enumerate(VALUES)]
    # A shared list is not taken apart; columns of another length are refused.
    assert make([1, 2]).map(operator.mul, [7]).gather() == [[7], [7, 7]]
    with pytest.raises(ValueError, match="zip"):
        make([1, 2]).map(operator.add, aligned=[make([1])]).gather()


@both
def test_reduce_keeps_the_order(make):
    assert make([[v] for v in VALUES]).reduce(operator.add) == VALUES
    assert make([5]).reduce(operator.add) == 5
    with pytest.raises(TypeError, match="empty"):
        local([]).reduce(operator.add)


@both
def test_persist_changes_no_value(make):
    parts = make().map(operator.neg).persist()
    assert isinstance(parts, Parts)
    assert parts.gather() == [-v for v in VALUES]
    assert len(parts) == len(VALUES)
    assert pickle.loads(pickle.dumps(parts)).gather() == parts.gather()


def test_kept_parts_are_computed_once():
    computed = []

    def noted(part):
        computed.append(part)
        return part

    parts = delayed([1, 2]).map(noted).persist()
    assert parts.gather() == parts.gather() == [1, 2]
    assert sorted(computed) == [1, 2]


@both
def test_stacked_parts_are_one_array(make):
    blocks = [np.full((n, 2), n) for n in (3, 1)]
    values = make(blocks).map(np.negative).stack([3, 1], (2,), np.float32)
    assert values.dtype == np.float32
    assert np.array_equal(np.asarray(values), -np.concatenate(blocks))
    assert type(values).__module__.startswith("dask") == (make is delayed)


def test_progress_is_told_after_each_part():
    calls = []
    parts = LocalParts([7, 8].__iter__, 2, lambda *done: calls.append(done))
    parts.map(operator.neg).persist().gather()
    parts.reduce(operator.add)  # read anew in each pass
    assert calls == [(1, 2), (2, 2)] * 2


def test_a_task_runs_on_one_thread():
    with threadpool_limits(2, user_api="blas"):
        for parts in (delayed().map(threads_of), delayed().map(threads_of).persist()):
            assert all(values == (1, {1}) for values in parts.gather())
        assert blas_threads() == {2}  # and all are given back


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(ImportError, match=r"scalefair\[dask\]"):
        require_dask()


def test_sizes_are_known_where_parts_are_kept():
    sizeof = pytest.importorskip("dask.sizeof").sizeof
    X = sparse.random_array((1000, 50), density=0.5, format="csr")
    delayed([X]).map(operator.neg).gather()
    assert sizeof(X) >= X.data.nbytes + X.indices.nbytes
    assert array_bytes([X, {"a": (X,)}, 3]) == 2 * sizeof(X)
