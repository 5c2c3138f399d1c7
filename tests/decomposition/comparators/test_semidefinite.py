"""Semidefinite relaxation: known answers, the dual, P*, and the estimator."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalefair.decomposition import SemidefiniteFairPCA
from scalefair.decomposition._covariances import top_sums
from scalefair.decomposition._dense import solve_groups
from scalefair.decomposition.comparators._semidefinite import multiplicative_weights


def covariances(n_groups, n, seed, rank=None):
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((n_groups, n, rank or n))
    return factors @ factors.transpose(0, 2, 1) / n


def test_three_iterations_by_hand():
    """Weights (1, 1), (1, e), (1, e^2): e_1, e_1, e_2; the average is better.

    Covariances diag(4, 0) and diag(0, 1): e_1 has the losses (0, 1), e_2 has (4, 0).
    """
    X = np.array([[2.0, 0], [-2, 0], [0, 1], [0, -1]])
    model = SemidefiniteFairPCA(1, max_iter=3).fit(X, sensitive_features=[0, 0, 1, 1])
    roots = 1 - np.sqrt([1 / 3, 2 / 3])
    np.testing.assert_allclose(model.projection_, np.diag(roots), atol=1e-14)
    np.testing.assert_allclose(model.components_, np.diag(np.sqrt(roots)), atol=1e-14)
    assert model.rank_ == 2
    assert model.n_iter_ == 3
    for losses in (model.group_losses_, model.relaxed_losses_):
        np.testing.assert_allclose(losses, [4 / 3, 2 / 3], rtol=1e-13)
    np.testing.assert_allclose(model.dual_weights_, np.array([1, np.e]) / (1 + np.e))
    # diag(4, 0) keeps (1 - root)^2 = 1/3 of its first column.
    np.testing.assert_allclose(model.group_reconstruction_errors_, [4 / 3, 2 / 3])
    np.testing.assert_allclose(model.explained_variance_, roots * [2, 0.5])
    assert model.duality_gap_ == pytest.approx(4 / 3 - np.e / (1 + np.e))


def test_last_projection_is_taken_when_it_is_better():
    """Smooth dual: the weights converge, the average remembers where they began."""
    C = covariances(2, 5, seed=0)
    best = top_sums(C, 2)
    relaxed = multiplicative_weights(C, 2, best, 200, 1.0)
    np.testing.assert_array_equal(relaxed.p, np.ones(2))
    gram = relaxed.vectors.T @ relaxed.vectors
    np.testing.assert_allclose(gram, np.eye(2), atol=1e-14)
    # By the solver of `FairPCA`, which shares nothing with this method.
    optimum = solve_groups(C, 2, best=best, tol=1e-10).dual_value
    assert relaxed.losses.max() == pytest.approx(optimum, rel=1e-6)


@pytest.mark.parametrize(("n_groups", "n_iter"), [(2, 60), (3, 1), (5, 7)])
def test_bound_of_the_docstring(n_groups, n_iter):
    C = covariances(n_groups, 6, seed=n_groups, rank=2)
    best = top_sums(C, 2)
    for step in (0.05, 0.5, 3.0):
        relaxed = multiplicative_weights(C, 2, best, n_iter, step)
        bound = np.log(n_groups) / (step * n_iter) + step * best.max() ** 2 / 8
        assert -1e-12 <= relaxed.losses.max() - relaxed.dual_value <= bound
        assert relaxed.weights.sum() == pytest.approx(1)
        H = np.tensordot(relaxed.weights, C, axes=1)
        dual = relaxed.weights @ best - top_sums(H[None], 2)[0]
        assert relaxed.dual_value == pytest.approx(dual, rel=1e-12)


def test_huge_losses_do_not_overflow():
    C, best = 1e200 * np.array([np.diag([4, 0]), np.diag([0, 1])]), [4e200, 1e200]
    relaxed = multiplicative_weights(C, 1, np.array(best), 5, 1.0)
    assert np.isfinite([*relaxed.losses, *relaxed.weights]).all()


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 1000),
    n_groups=st.integers(2, 4),
    r=st.integers(1, 5),
    n_iter=st.integers(1, 12),
    step=st.sampled_from([0.1, 1.0, 10.0]),
)
def test_map_and_its_losses(seed, n_groups, r, n_iter, step):
    """0 <= P* <= I, (I - P*)^2 = I - P, and losses as the rows show them."""
    rng, groups = np.random.default_rng(seed), np.arange(60) % n_groups
    mix, means = rng.standard_normal((n_groups, 5, 5)), rng.standard_normal((4, 5))
    X = np.einsum("ij,ijk->ik", rng.standard_normal((60, 5)), mix[groups])
    X += means[groups]
    model = SemidefiniteFairPCA(r, max_iter=n_iter, step=step)
    model.fit(X, sensitive_features=groups)
    P_star = model.projection_
    np.testing.assert_array_equal(P_star, P_star.T)
    spectrum = np.linalg.eigvalsh(P_star)
    assert spectrum.min() > -1e-12
    assert spectrum.max() < 1 + 1e-12
    assert (spectrum > 1e-13).sum() == model.rank_ >= r
    complement = np.eye(5) - P_star
    P = np.eye(5) - complement @ complement
    assert np.trace(P) == pytest.approx(r, abs=1e-10)

    centred = X - X.mean(axis=0)
    back = model.inverse_transform(model.transform(X)) - X.mean(axis=0)
    np.testing.assert_allclose(back, centred @ P_star, atol=1e-10)
    # Losses are those of the rows (test_estimators), and those of the relaxation.
    np.testing.assert_allclose(model.relaxed_losses_, model.group_losses_, atol=1e-9)
