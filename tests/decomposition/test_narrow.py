"""Few eigenvectors of a sparse operator, one vector at a time."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import scalefair.decomposition._pencil as narrow
from scalefair.decomposition._pencil import arpack_leading


def _diagonal(values):
    return aslinearoperator(sparse.diags_array(np.asarray(values, float)).tocsr())


def test_leading_pairs():
    values = 0.9 ** np.arange(300)
    found, vectors, n_products = arpack_leading(
        _diagonal(values), 5, 1e-10, np.random.RandomState(0)
    )
    np.testing.assert_allclose(found, values[:5], rtol=1e-10)
    np.testing.assert_allclose(np.abs(vectors[:5, :5]), np.eye(5), atol=1e-6)
    assert 5 < n_products < 200


def test_missed_copies_are_noticed(monkeypatch):
    # A solver that returns one of two equal leading values, as ARPACK can.
    values = np.concatenate([[2.0, 2.0], 0.9 ** np.arange(300)])
    original = narrow.eigsh

    def forgetful(A, k, **options):
        w, U = original(A, k + 1, **options)
        return np.delete(w, -2), np.delete(U, -2, axis=1)

    monkeypatch.setattr(narrow, "eigsh", forgetful)
    rng = np.random.RandomState(0)
    assert arpack_leading(_diagonal(values), 3, 1e-10, rng) is None


def test_failure_is_no_result():
    # A zero operator: ARPACK's starting vector is mapped to zero.
    assert (
        arpack_leading(_diagonal(np.zeros(50)), 2, 1e-10, np.random.RandomState(0))
        is None
    )


@pytest.mark.parametrize("k", [1, 4])
def test_same_answer_again(k):
    H = _diagonal(0.95 ** np.arange(200))
    runs = [arpack_leading(H, k, 1e-10, np.random.RandomState(3)) for _ in range(2)]
    np.testing.assert_array_equal(runs[0][1], runs[1][1])
