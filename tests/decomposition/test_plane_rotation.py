"""Subspace of a given trace within a tied eigenspace."""

import numpy as np
import pytest

from scalefair.decomposition._two_groups import subspace_of_trace


def _symmetric(rng, q, kind):
    if kind == "generic":
        C = rng.standard_normal((q, q))
        return C + C.T
    values = rng.integers(-1, 2, q).astype(float)  # repeated eigenvalues
    Q = np.linalg.qr(rng.standard_normal((q, q)))[0]
    return Q @ np.diag(values) @ Q.T


@pytest.mark.parametrize("kind", ["generic", "repeated"])
@pytest.mark.parametrize("q", range(1, 8))
def test_every_trace_in_reach_is_met(kind, q):
    rng = np.random.default_rng(q)
    for k in range(q + 1):
        C = _symmetric(rng, q, kind)
        values = np.sort(np.linalg.eigvalsh(C))
        lowest, highest = values[:k].sum(), values[q - k :].sum()
        for share in (0, 0.1, 0.5, 0.77, 1):
            trace = share * lowest + (1 - share) * highest
            V = subspace_of_trace(C, k, trace)
            assert V.shape == (q, k)
            np.testing.assert_allclose(V.T @ V, np.eye(k), atol=1e-13)
            assert np.trace(V.T @ C @ V) == pytest.approx(trace, abs=1e-12)


def test_out_of_reach():
    C = np.diag([3.0, 2.0, 1.0])
    assert subspace_of_trace(C, 2, 5.1) is None
    assert subspace_of_trace(C, 2, 2.9) is None


def test_rank_is_kept_where_the_papers_curve_loses_it():
    # orth(t V_M + (1 - t) V_m) with V_m = -V_M on a shared vector is zero at t = 1/2;
    # here what both ends share stays.
    C = np.diag([2.0, 1.0, 0.0])
    V = subspace_of_trace(C, 2, 2.0)
    assert np.linalg.matrix_rank(V) == 2
    assert np.trace(V.T @ C @ V) == pytest.approx(2.0)
