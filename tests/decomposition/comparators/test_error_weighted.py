"""u-FPCA and c-FPCA: known answers, a grid of alphas, and the estimator."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from scalefair.decomposition import ErrorWeightedFairPCA
from scalefair.streaming import GroupMoments

# Rows with the covariances diag(4, 0) and [[1, 1], [1, 1]]: for the direction
# (cos v, sin v) the errors are 4 sin(v)^2 and 1 - sin(2 v).
PAIRS = np.array([[2.0, 0], [-2, 0], [1, 1], [-1, -1]])
PAIRS_GROUPS = np.array(["a", "a", "b", "b"])


def diagonal_rows(*diagonals):
    """Rows of groups with the given diagonal covariances."""
    blocks = [np.diag(np.sqrt(np.array(d) * len(d))) for d in diagonals]
    X = np.vstack([sign * block for block in blocks for sign in (1, -1)])
    return X, np.repeat(np.arange(len(blocks)), 2 * len(diagonals[0]))


def errors_of(X, groups, basis):
    """Mean squared reconstruction error of each group, from the rows."""
    centred = X - X.mean(axis=0)
    squares = ((centred - centred @ basis @ basis.T) ** 2).sum(axis=1)
    return np.array([squares[groups == g].mean() for g in np.unique(groups)])


def test_equal_errors_by_hand():
    """Errors equal at tan v = 1/3, the direction of alpha = 10/11."""
    model = ErrorWeightedFairPCA(1, tol=1e-9)
    model.fit(PAIRS, sensitive_features=PAIRS_GROUPS)
    assert model.alpha_ == pytest.approx(10 / 11, abs=1e-8)
    np.testing.assert_allclose(model.components_, [[3, 1] / np.sqrt(10)], atol=1e-8)
    np.testing.assert_allclose(model.group_reconstruction_errors_, 0.4, atol=1e-7)
    np.testing.assert_allclose(model.group_losses_, [0.4, 0.4], atol=1e-7)
    np.testing.assert_allclose(model.explained_variance_, [(4 + 2) / 2 - 0.4])
    assert model.error_difference_ == pytest.approx(0, abs=1e-8)
    assert model.disfavored_group_ == "b"
    assert model.converged_
    assert model.n_iter_ == 31  # 30 halvings to 1e-9, and plain PCA
    constrained = ErrorWeightedFairPCA(1, constraint="error", tol=1e-9)
    constrained.fit(PAIRS, sensitive_features=PAIRS_GROUPS)
    assert constrained.alpha_ == model.alpha_  # 0.4 is less than plain PCA's 0.55


def test_constraint_by_hand():
    """Group b with covariance [[1, 1], [1, 1]] + 3.9 I and twice the rows.

    Plain PCA has v = pi/8, so that b's error is not larger for v up to 3 pi/8. There
    alpha is 3/7; without the constraint it is 0, where tan(2 v) = -1/2.
    """
    beta = 3.9
    first, second = np.sqrt(2 + beta) * np.ones(2), np.sqrt(beta) * np.array([1, -1])
    X = np.vstack([PAIRS[:2], first, -first, second, -second])
    groups = np.repeat([0, 1], [2, 4])
    model = ErrorWeightedFairPCA(1, constraint="error", tol=1e-10)
    model.fit(X, sensitive_features=groups)
    v = 3 * np.pi / 8
    assert model.alpha_ == pytest.approx(3 / 7, abs=1e-8)
    np.testing.assert_allclose(model.components_, [[np.cos(v), np.sin(v)]], atol=1e-8)
    expected = np.array([4 * np.sin(v) ** 2, beta + 1 - np.sin(2 * v)])
    np.testing.assert_allclose(model.group_reconstruction_errors_, expected, atol=1e-7)
    assert model.error_difference_ == pytest.approx(expected[1] - expected[0])
    plain_error = beta + 1 - np.sqrt(0.5)
    assert model.group_reconstruction_errors_.max() <= plain_error + 1e-9

    free = ErrorWeightedFairPCA(1).fit(X, sensitive_features=groups)
    assert free.alpha_ == pytest.approx(0, abs=1e-6)
    direction = free.components_[0]
    ratio = np.tan(2 * np.arctan2(direction[1], direction[0]))
    assert ratio == pytest.approx(-0.5, abs=1e-4)
    assert free.error_difference_ < model.error_difference_
    assert free.group_reconstruction_errors_[1] > plain_error


def test_jumps_take_the_better_admitted_side():
    # e_1 has the errors (1, 3), e_2 has (4, 1): no alpha makes them equal.
    X, groups = diagonal_rows([4, 1], [1, 3])
    model = ErrorWeightedFairPCA(1).fit(X, sensitive_features=groups)
    np.testing.assert_allclose(model.group_reconstruction_errors_, [1, 3])
    assert model.alpha_ > 10 / 11
    assert model.error_difference_ == pytest.approx(2)
    # e_2 has the errors (4, 3.9): nearly equal, but above plain PCA's (1, 1.5).
    X, groups = diagonal_rows([4, 1], [3.9, 1.5])
    for constraint, errors in (("none", [4, 3.9]), ("error", [1, 1.5])):
        model = ErrorWeightedFairPCA(1, constraint=constraint)
        model.fit(X, sensitive_features=groups)
        np.testing.assert_allclose(model.group_reconstruction_errors_, errors)


@settings(max_examples=8)
@given(
    seed=st.integers(0, 10_000),
    r=st.integers(1, 4),
    spread=st.sampled_from([0.5, 1.0, 3.0]),
)
def test_against_a_grid(seed, r, spread):
    """The difference grows with alpha; no alpha of the grid is better."""
    rng, groups = np.random.default_rng(seed), np.repeat([0, 1], [25, 40])
    mix = rng.standard_normal((2, 5, 5)) * np.array([spread, 1.0])[:, None, None]
    X = np.einsum("ij,ijk->ik", rng.standard_normal((65, 5)), mix[groups])
    X += rng.standard_normal((2, 5))[groups]
    centred = X - X.mean(axis=0)
    total = centred.T @ centred / len(X)
    C = GroupMoments.from_data(X, groups).covariances()
    plain = errors_of(X, groups, np.linalg.eigh(total)[1][:, -r:])
    worse, limit = int(plain.argmax()), plain.max() * (1 + 1e-10)
    alphas = np.linspace(0, 1, 201)[:, None, None]
    H = alphas * total + (1 - alphas) * (C[worse] - C[1 - worse])
    errors = np.array([errors_of(X, groups, U[:, -r:]) for U in np.linalg.eigh(H)[1]])
    differences = errors[:, worse] - errors[:, 1 - worse]
    assert (np.diff(differences) > -1e-9).all()
    # Admitted alphas are an interval that ends at 1.
    admitted = errors.max(axis=1) <= limit
    assert admitted[-1]
    assert (np.diff(admitted.astype(int)) >= 0).all()
    for constraint in ("none", "error"):
        model = ErrorWeightedFairPCA(r, constraint=constraint)
        model.fit(X, sensitive_features=groups)
        smallest = np.abs(differences[admitted | (constraint == "none")]).min()
        # The search ends at a width of 1e-6, a grid point of 5e-3.
        assert abs(model.error_difference_) <= smallest + 1e-4 * np.ptp(X) ** 2
        assert abs(model.error_difference_) <= abs(differences[-1]) + 1e-12
        if constraint == "error":
            assert model.group_reconstruction_errors_.max() <= limit


def test_three_groups_are_refused():
    with pytest.raises(ValueError, match=r"are 3 groups.*exactly two.*FairPCA"):
        ErrorWeightedFairPCA(1).fit(PAIRS, sensitive_features=[0, 1, 2, 2])


def test_search_cut_short():
    model = ErrorWeightedFairPCA(1, max_iter=5)
    with pytest.warns(ConvergenceWarning, match=r"after 5 .*max_iter=5") as caught:
        model.fit(PAIRS, sensitive_features=PAIRS_GROUPS)
    assert caught[0].filename == __file__
    assert model.n_iter_ == 5
    assert not model.converged_
    with pytest.warns(ConvergenceWarning):
        model.set_params(max_iter=1).fit(PAIRS, sensitive_features=PAIRS_GROUPS)
    assert model.alpha_ == 1  # plain PCA
