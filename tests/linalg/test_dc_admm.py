"""ADMM against the dense optimum of its own problem."""

import numpy as np
import pytest

from scalefair.linalg import dc_admm
from scalefair.linalg._lbfgs import _step_length, lbfgs
from scalefair.operators import NormalizedAffinity

SHIFT = -1.01


@pytest.fixture
def problem(graphs):
    W = graphs.block_model(120)
    M = NormalizedAffinity(W)
    groups = graphs.random_groups(120, 3)
    indicator = (groups[:, None] == np.unique(groups)).astype(float)
    F = (indicator - indicator.mean(axis=0)) * M.inv_sqrt_degrees[:, None]
    return M, F, graphs.normalized(W)


BAD = [np.nan, 1e160]
TIGHT = {"shift": SHIFT, "max_iter": 400, "ftol": 1e-13, "gtol": 1e-9}


@pytest.mark.parametrize(("k", "n_constraints"), [(1, 3), (4, 3), (3, 0)])
def test_reaches_the_optimum_of_its_problem(problem, k, n_constraints):
    M, F, A = problem
    F = F[:, :n_constraints]
    result = dc_admm(M, k, F, tol=1e-6, random_state=0, **TIGHT)
    # Largest eigenvalues of M^2 where F^T M H = 0: what Algorithm 1 converges to.
    shifted = A - SHIFT * np.eye(len(A))
    U, s, _ = np.linalg.svd(shifted @ F, full_matrices=False)
    Q = U[:, s > 1e-10]
    P = np.eye(len(A)) - Q @ Q.T
    values = np.linalg.eigvalsh(P @ shifted @ shifted @ P)[-k:]
    assert result.converged, result.message
    H = result.vectors
    np.testing.assert_allclose(H.T @ H, np.eye(k), atol=1e-12)
    assert np.linalg.norm(F.T @ shifted @ H) < 1e-5
    energy = np.linalg.norm(shifted @ H) ** 2
    assert energy == pytest.approx(values.sum(), rel=1e-6)
    assert result.history["objective"][-1] == pytest.approx(energy / 2, rel=1e-6)


def test_history(problem):
    M, F, _ = problem
    result = dc_admm(M, 3, F, shift=SHIFT, random_state=0)
    assert {len(v) for v in result.history.values()} == {result.n_iter} == {10}
    assert not result.converged
    assert "raise max_iter" in result.message
    alpha = result.history["alpha"]
    assert alpha[0] == 0.005
    # Doubled, halved or left alone, and never above the cap.
    ratios = set(np.round((alpha[1:] / alpha[:-1])[alpha[1:] < 0.9], 6))
    assert ratios <= {0.5, 1.0, 2.0}
    assert alpha.max() <= 0.9
    primal, dual = result.history["primal_residual"], result.history["dual_residual"]
    grown = alpha[1:] > alpha[:-1]
    assert (primal[:-1] > 10 * dual[:-1])[grown].all()


def test_residuals_are_those_of_its_problem(problem):
    M, F, A = problem
    result = dc_admm(M, 3, F, shift=SHIFT, max_iter=5, random_state=0)
    shifted = A - SHIFT * np.eye(len(A))
    Q = np.linalg.qr(shifted @ F[:, :-1])[0]
    H = result.vectors
    S = shifted @ (shifted @ H)
    S -= Q @ (Q.T @ S)
    T = H.T @ S
    values, rotation = np.linalg.eigh((T + T.T) / 2)
    residuals = np.linalg.norm(S @ rotation - H @ rotation * values, axis=0)
    expected = np.sort(residuals / values.max())
    np.testing.assert_allclose(np.sort(result.residual_norms), expected, rtol=1e-3)
    assert result.history["residual"][-1] == result.residual_norms.max()


def test_more_constraints_than_room_if_they_are_dependent(problem):
    M, F, _ = problem
    result = dc_admm(M, 2, np.tile(F, 50), shift=SHIFT, random_state=0)
    assert result.history["constraint_product"][-1] < 1
    with pytest.raises(ValueError, match=r"5 vectors of order 120.*118 others"):
        dc_admm(M, 5, np.eye(120)[:, :118])


@pytest.mark.parametrize(
    "F", [np.ones(120), np.ones((119, 2)), *(np.full((120, 1), b) for b in BAD)]
)
def test_constraints_that_do_not_fit(problem, F):
    with pytest.raises(ValueError, match=r"F (must have shape|has entries|has a norm)"):
        dc_admm(problem[0], 2, F)
    for alpha in (0.0, 1.0, np.nan):
        with pytest.raises(ValueError, match="alpha must be between 0 and 1"):
            dc_admm(problem[0], 2, problem[1], alpha=alpha)


def test_penalty_is_halved_when_the_dual_residual_dominates(problem):
    # Without constraints the primal residual is zero.
    M, F, _ = problem
    result = dc_admm(M, 3, F[:, :0], tol=1e-12, max_iter=4, random_state=0)
    assert result.history["primal_residual"].max() == 0
    alpha, dual = result.history["alpha"], result.history["dual_residual"]
    moved = dual[:-1] > 0  # both residuals may be zero: then it stays
    np.testing.assert_array_equal(alpha[1:], np.where(moved, 0.5, 1.0) * alpha[:-1])
    assert moved[0]


def test_counts_products(problem, counting):
    M, F, _ = problem
    for constraints in (F, F[:, :0]):
        counted = counting(M)
        result = dc_admm(counted, 3, constraints, shift=SHIFT, random_state=0)
        assert result.n_products == counted.n_products
        assert result.n_columns == counted.n_columns


class Falling:
    """Minus the sum of a block, which has no minimum."""

    def start(self, V):
        self.V = V
        return -float(V.sum())

    def gradient(self, out):
        out[...] = -1.0

    def line(self, D):
        return lambda t: (-float((self.V + t * D).sum()), -float(D.sum()))


def test_unbounded_function_ends():
    assert lbfgs(Falling(), np.zeros((2, 2)), ftol=-np.inf).n_iter == 0


def test_line_that_rises_and_falls_again():
    def hill(t):  # a fall, and a step of 3 at .8
        step = 1 / (1 + np.exp(50 * (0.8 - t)))
        return 3 * step - t, 150 * step * (1 - step) - 1

    assert _step_length(hill) == pytest.approx(0.7, abs=0.05)
    # A rise that is nothing but rounding.
    assert _step_length(lambda t: (1e-13 * (t > 0), -1e-9)) is None
