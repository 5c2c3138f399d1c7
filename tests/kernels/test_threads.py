"""Limits of threads that several threads set and leave."""

import os
import subprocess
import sys
import threading

import numba
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from scalefair.kernels import one_thread, single_blas_thread


def blas_threads():
    blas = ThreadpoolController().select(user_api="blas")
    return {library["num_threads"] for library in blas.info()}


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


def test_threads_that_overlap():
    entered, leave = threading.Event(), threading.Event()

    def work():
        with one_thread():
            entered.set()
            leave.wait(10)

    other = threading.Thread(target=work)
    other.start()
    assert entered.wait(10)
    assert numba.get_num_threads() == 2  # each thread has its own number
    with one_thread():
        leave.set()
        other.join()
        assert numba.get_num_threads() == 1
    # What OpenBLAS makes of calls from several threads is its own matter.
    assert numba.get_num_threads() == 2


def test_an_error_sets_the_threads_back():
    with pytest.raises(ZeroDivisionError), one_thread(), single_blas_thread():
        raise ZeroDivisionError
    assert blas_threads() == {2}
    assert numba.get_num_threads() == 2


TURNS = """
import threading
import numba
import numpy as np
from scalefair.kernels import add_scaled, one_thread

x = np.zeros(100_000)

def work():
    y = x.copy()
    for _ in range(100):
        with one_thread():
            add_scaled(y, 1.0, x)

work()  # compiled by one thread
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(numba.threading_layer())
"""


def test_threads_take_turns_where_numba_cannot_have_several():
    # This layer aborts the process if two threads call kernels at once.
    done = subprocess.run(
        [sys.executable, "-c", TURNS],
        env={**os.environ, "NUMBA_THREADING_LAYER": "workqueue"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "workqueue"
