"""Limits of threads that several threads set and leave."""

import os
import subprocess
import sys

import numba
import pytest
from threadpoolctl import threadpool_limits

from scalefair._threads import parallel
from scalefair.kernels import long_blas_call, one_thread, single_blas_thread

from ..conftest import blas_threads


@pytest.fixture(autouse=True)
def two_threads():
    if numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("one processor")
    before = numba.get_num_threads()
    numba.set_num_threads(2)
    with threadpool_limits(2, user_api="blas"):
        yield
    numba.set_num_threads(before)


def test_who_leaves_last_sets_the_threads_back():
    first, second = single_blas_thread(), single_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert blas_threads() == {1}
    second.__exit__(None, None, None)
    assert blas_threads() == {2}


def test_an_error_sets_the_threads_back():
    with pytest.raises(ZeroDivisionError), one_thread(), single_blas_thread():
        raise ZeroDivisionError
    assert blas_threads() == {2}
    assert numba.get_num_threads() == 2


@pytest.mark.parametrize(("nanoseconds", "expected"), [(1e3, 1), (1e9, 2)])
def test_little_work_stays_on_the_calling_thread(monkeypatch, nanoseconds, expected):
    monkeypatch.setattr(numba, "njit", lambda **_: lambda function: function)
    kernel = parallel(lambda work: work)(lambda work: numba.get_num_threads())
    assert kernel(nanoseconds) == expected
    assert numba.get_num_threads() == 2


def test_decorated_functions_hold_blas_to_one_thread(monkeypatch):
    monkeypatch.setattr(numba, "njit", lambda **_: lambda function: function)
    for decorated in (single_blas_thread(), parallel(lambda: 1e9, blas=True)):
        assert decorated(blas_threads)() == {1}
        assert blas_threads() == {2}


def test_a_long_call_takes_all_threads_and_gives_them_back():
    with single_blas_thread():
        with long_blas_call(1e9):
            assert blas_threads() == {2}
            with long_blas_call(1e9):  # one within another
                pass
            assert blas_threads() == {2}
        assert blas_threads() == {1}
        with long_blas_call(1e3):
            assert blas_threads() == {1}
    assert blas_threads() == {2}
    with long_blas_call(1e9):  # outside nothing is held
        assert blas_threads() == {2}


WORK = """
import os, threading
import numba
import numpy as np
from scalefair.kernels import inner

x = np.ones(3_000_000)  # enough for two threads

def work():
    for _ in range(50):
        assert inner(x, x) == x.size

work()
"""
THREADS = """
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
FORK = """
print(numba.threading_layer(), flush=True)
child = os.fork()
if child == 0:
    try:
        work()
        print("done", flush=True)
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
work()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
@pytest.mark.parametrize("layer", ["tbb", "omp", "workqueue"])
def test_a_forked_process_and_threads_at_once(layer):
    # The fork: GNU OpenMP ends it without a word that Python hears.
    # Threads: "workqueue" aborts the process if they call at once; they take turns.
    done = subprocess.run(
        [sys.executable, "-c", WORK + FORK + (THREADS if layer != "omp" else "")],
        env={**os.environ, "NUMBA_THREADING_LAYER": layer, "NUMBA_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if "No threading layer could be loaded" in done.stderr:
        pytest.skip(f"no {layer} here")
    assert done.returncode == 0, done.stderr
    used_layer, message, status = done.stdout.splitlines()
    assert (used_layer, status) == (layer, "7")
    if layer == "omp" and sys.platform == "linux":
        assert all(term in message for term in ("forked", "forkserver", "tbb"))
    else:
        assert message == "done"
