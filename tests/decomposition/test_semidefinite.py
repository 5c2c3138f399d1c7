"""Semidefinite relaxation: known answers, the dual, P*, and the estimator."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import _num_samples

from scalefair.decomposition import SemidefiniteFairPCA
from scalefair.decomposition._pencil import captured, leading_basis
from scalefair.decomposition.comparators._semidefinite import multiplicative_weights
from scalefair.streaming import GroupMoments


def covariances(n_groups, n, seed, rank=None):
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((n_groups, n, rank or n))
    return factors @ factors.transpose(0, 2, 1) / n


def rows_of(*matrices):
    """Centred rows whose groups have the given covariances, and their groups."""
    blocks = []
    for C in matrices:
        values, vectors = np.linalg.eigh(np.asarray(C, dtype=float))
        root = vectors * np.sqrt(np.maximum(values, 0) * len(C))
        blocks += [np.vstack([root.T, -root.T])]
    return np.vstack(blocks), np.repeat(np.arange(len(blocks)), len(blocks[0]))


def best_captured(C, r):
    return np.array([np.linalg.eigvalsh(C_g)[-r:].sum() for C_g in C])


def random_rows(n_groups=2, m=60, n=5, seed=0):
    rng = np.random.default_rng(seed)
    groups = np.arange(m) % n_groups
    mix = rng.standard_normal((n_groups, n, n))
    means = rng.standard_normal((n_groups, n))
    X = np.einsum("ij,ijk->ik", rng.standard_normal((m, n)), mix[groups])
    return X + means[groups], groups


def dual(C, r, weights):
    top = [np.linalg.eigvalsh(C_g)[-r:].sum() for C_g in C]
    mixed = np.linalg.eigvalsh(np.tensordot(weights, C, axes=1))
    return float(weights @ top - mixed[-r:].sum())


def dual_maximum(C, r):
    """Largest dual value by brute force over the weights, refined three times."""
    G = len(C)
    centre, width = np.full(G, 1 / G), 1.0
    steps = np.linspace(-1, 1, 41 if G == 3 else 401)
    grid = np.stack(np.meshgrid(*[steps] * (G - 1)), axis=-1).reshape(-1, G - 1)
    best = -np.inf
    for _ in range(4):
        first = centre[:-1] + width * grid
        W = np.column_stack([first, 1 - first.sum(axis=1)])
        W = W[(W >= 0).all(axis=1)]
        values = np.array([dual(C, r, w) for w in W])
        best = max(best, values.max())
        centre, width = W[values.argmax()], width / 10
    return best


# Diagonal covariances diag(4, 0) and diag(0, 1), r = 1. Every leading eigenvector is
# a unit vector: e_1 has the losses (0, 1), e_2 has (4, 0).
CORNERS = np.array([np.diag([4.0, 0.0]), np.diag([0.0, 1.0])])
BEST = np.array([4.0, 1.0])


def test_one_iteration_is_the_pca_of_the_mean_covariance():
    found = multiplicative_weights(CORNERS, 1, BEST, 1, 1.0)
    np.testing.assert_array_equal(np.abs(found.vectors), [[1], [0]])
    np.testing.assert_array_equal(found.p, [1])
    np.testing.assert_array_equal(found.losses, [0, 1])
    np.testing.assert_array_equal(found.weights, [0.5, 0.5])
    assert found.dual_value == 0.5  # 5/2 - 2


def test_three_iterations_by_hand():
    """Weights (1, 1), (1, e), (1, e^2): e_1, e_1, e_2; the average is better."""
    found = multiplicative_weights(CORNERS, 1, BEST, 3, 1.0)
    np.testing.assert_allclose(found.p, [2 / 3, 1 / 3], rtol=1e-14)
    np.testing.assert_allclose(np.abs(found.vectors), np.eye(2), atol=1e-15)
    np.testing.assert_allclose(found.losses, [4 / 3, 2 / 3], rtol=1e-14)
    np.testing.assert_allclose(found.weights, np.array([1, np.e]) / (1 + np.e))
    assert found.dual_value == pytest.approx(np.e / (1 + np.e), rel=1e-14)

    X, groups = rows_of(*CORNERS)
    model = SemidefiniteFairPCA(1, max_iter=3).fit(X, sensitive_features=groups)
    roots = 1 - np.sqrt([1 / 3, 2 / 3])
    np.testing.assert_allclose(model.projection_, np.diag(roots), atol=1e-14)
    np.testing.assert_allclose(model.components_, np.diag(np.sqrt(roots)), atol=1e-14)
    assert model.rank_ == 2
    assert model.n_iter_ == 3
    np.testing.assert_allclose(model.group_losses_, [4 / 3, 2 / 3], rtol=1e-13)
    # diag(4, 0) keeps (1 - root)^2 = 1/3 of its first column.
    np.testing.assert_allclose(model.group_reconstruction_errors_, [4 / 3, 2 / 3])
    np.testing.assert_allclose(model.explained_variance_, roots * [2, 0.5])
    assert model.duality_gap_ == pytest.approx(4 / 3 - np.e / (1 + np.e))


def test_last_projection_is_taken_when_it_is_better():
    """Smooth dual: the weights converge, the average remembers where they began."""
    C = covariances(2, 5, seed=0)
    best = best_captured(C, 2)
    found = multiplicative_weights(C, 2, best, 200, 1.0)
    np.testing.assert_array_equal(found.p, np.ones(2))
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(2), atol=1e-14)
    optimum = dual_maximum(C, 2)
    assert found.losses.max() == pytest.approx(optimum, rel=1e-6)


@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize("case", ["random", "ties"])
def test_optimum_is_reached_to_the_accuracy_of_the_theory(n_groups, case):
    eps, n, r = 0.3, 4, 2
    if case == "random":
        C = covariances(n_groups, n, seed=n_groups) / 2
    else:  # every leading eigenspace is spanned by unit vectors
        C = np.array([np.diag(np.roll([3.0, 2.0, 0.0, 1.0], g)) for g in range(3)])
        C = C[:n_groups]
    best = best_captured(C, r)
    assert best.max() < 6.9  # no loss is larger
    n_iter = int(np.ceil(32 * np.log(n_groups) / eps**2))
    found = multiplicative_weights(C, r, best, n_iter, eps / 8)
    optimum = dual_maximum(C, r)
    excess = found.losses.max() - optimum
    assert -1e-9 <= excess <= eps / 4 + eps * best.max() ** 2 / 64
    assert found.dual_value <= optimum + 1e-9
    assert found.losses.max() - found.dual_value <= eps


@pytest.mark.parametrize("n_groups", [2, 3, 5])
@pytest.mark.parametrize("n_iter", [1, 7, 60])
def test_bound_of_the_docstring(n_groups, n_iter):
    C = covariances(n_groups, 6, seed=n_groups, rank=2)
    best = best_captured(C, 2)
    for step in (0.05, 0.5, 3.0):
        found = multiplicative_weights(C, 2, best, n_iter, step)
        bound = np.log(n_groups) / (step * n_iter) + step * best.max() ** 2 / 8
        assert -1e-12 <= found.losses.max() - found.dual_value <= bound


def test_dual_value_is_that_of_the_weights():
    C = covariances(3, 5, seed=3)
    found = multiplicative_weights(C, 2, best_captured(C, 2), 20, 1.0)
    assert found.weights.sum() == pytest.approx(1)
    assert found.dual_value == pytest.approx(dual(C, 2, found.weights), rel=1e-12)


def test_huge_losses_do_not_overflow():
    scaled = 1e200 * CORNERS
    found = multiplicative_weights(scaled, 1, 1e200 * BEST, 5, 1.0)
    assert np.isfinite(found.losses).all()
    assert np.isfinite(found.weights).all()


def test_leading_basis_and_captured():
    C = covariances(2, 6, seed=5)
    weights = np.array([2.0, -0.5])
    U = leading_basis(weights, C, 3)
    values, vectors = np.linalg.eigh(np.tensordot(weights, C, axes=1))
    np.testing.assert_allclose(U @ U.T, vectors[:, 3:] @ vectors[:, 3:].T, atol=1e-12)
    mixed = U.T @ np.tensordot(weights, C, axes=1) @ U
    np.testing.assert_allclose(mixed, np.diag(values[:2:-1]), atol=1e-12)
    assert weights @ captured(C, U) == pytest.approx(values[3:].sum())


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 1000),
    n_groups=st.integers(2, 4),
    r=st.integers(1, 5),
    n_iter=st.integers(1, 12),
    step=st.sampled_from([0.1, 1.0, 10.0]),
)
def test_map_and_its_losses(seed, n_groups, r, n_iter, step):
    """0 <= P* <= I, (I - P*)^2 = I - P, and losses as the rows show them."""
    X, groups = random_rows(n_groups, seed=seed)
    model = SemidefiniteFairPCA(r, max_iter=n_iter, step=step)
    model.fit(X, sensitive_features=groups)
    P_star = model.projection_
    np.testing.assert_array_equal(P_star, P_star.T)
    spectrum = np.linalg.eigvalsh(P_star)
    assert spectrum.min() > -1e-12
    assert spectrum.max() < 1 + 1e-12
    assert (spectrum > 1e-13).sum() == model.rank_ >= r
    rest = np.eye(5) - P_star
    P = np.eye(5) - rest @ rest
    assert np.trace(P) == pytest.approx(r, abs=1e-10)

    centred = X - X.mean(axis=0)
    back = model.inverse_transform(model.transform(X)) - X.mean(axis=0)
    np.testing.assert_allclose(back, centred @ P_star, atol=1e-10)
    for g in range(n_groups):
        rows = groups == g
        error = ((centred[rows] - back[rows]) ** 2).sum() / rows.sum()
        C_g = centred[rows].T @ centred[rows] / rows.sum()
        least = np.linalg.eigvalsh(C_g)[: 5 - r].sum()
        assert model.group_reconstruction_errors_[g] == pytest.approx(error, abs=1e-9)
        assert model.group_losses_[g] == pytest.approx(error - least, abs=1e-9)
        relaxed = np.linalg.eigvalsh(C_g)[5 - r :].sum() - np.trace(C_g @ P)
        assert model.relaxed_losses_[g] == pytest.approx(relaxed, abs=1e-9)
    np.testing.assert_allclose(
        model.explained_variance_, model.transform(X).var(axis=0), atol=1e-9
    )


@pytest.mark.parametrize("n_iter", [1, 10])
def test_all_components(n_iter):
    X, groups = random_rows()
    model = SemidefiniteFairPCA(5, max_iter=n_iter).fit(X, sensitive_features=groups)
    assert model.rank_ == 5
    np.testing.assert_allclose(model.projection_, np.eye(5), atol=1e-13)
    np.testing.assert_allclose(model.group_losses_, 0, atol=1e-12)
    assert model.duality_gap_ == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), X)


def test_equal_groups_give_pca():
    X, groups = random_rows(m=30)
    X, groups = np.vstack([X, X]), np.repeat([0, 1], 30)
    model = SemidefiniteFairPCA(2).fit(X, sensitive_features=groups)
    pca = PCA(2).fit(X)
    assert model.rank_ == 2
    signs = np.sign((model.components_ * pca.components_).sum(axis=1))
    np.testing.assert_allclose(model.components_ * signs[:, None], pca.components_)
    np.testing.assert_allclose(model.group_losses_, 0, atol=1e-12)
    np.testing.assert_allclose(
        model.explained_variance_, pca.explained_variance_ * 59 / 60
    )


@pytest.mark.parametrize(
    ("X", "groups", "r"),
    [
        ([[1.0], [2.0], [4.0]], [0, 1, 1], 1),  # one column, a group of one row
        ([[1.0, 3.0], [2.0, 3.0], [4.0, 3.0]], [0, 1, 1], 1),  # a constant column
        ([[5.0, 5.0], [5.0, 5.0]], [0, 1], 1),  # no variance
        (np.outer(np.arange(6), [1.0, 2.0, 0.0]), [0, 1, 2, 0, 1, 2], 2),  # rank one
    ],
)
@pytest.mark.parametrize("centering", ["global", "group"])
def test_degenerate_rows(X, groups, r, centering):
    model = SemidefiniteFairPCA(r, centering=centering)
    model.fit(np.asarray(X), sensitive_features=groups)
    np.testing.assert_allclose(model.group_losses_, 0, atol=1e-12)
    scores = model.transform(np.asarray(X))
    np.testing.assert_allclose(model.inverse_transform(scores), X, atol=1e-12)


def test_group_centering():
    """Around their own means, groups that are moved apart are as they were."""
    C = covariances(2, 4, seed=0)
    X, groups = rows_of(*C)
    here = SemidefiniteFairPCA(2).fit(X, sensitive_features=groups)
    moved = X + 10.0 * groups[:, None]
    there = SemidefiniteFairPCA(2, centering="group")
    there.fit(moved, sensitive_features=groups)
    np.testing.assert_allclose(there.projection_, here.projection_, atol=1e-10)
    np.testing.assert_allclose(there.group_losses_, here.group_losses_, rtol=1e-9)
    np.testing.assert_allclose(there.mean_, moved.mean(axis=0))
    around = SemidefiniteFairPCA(2).fit(moved, sensitive_features=groups)
    assert np.abs(around.projection_ - here.projection_).max() > 0.1


@pytest.mark.parametrize("n_iter", [10, 100])
def test_invariances(n_iter):
    X, groups = random_rows(3)
    rng = np.random.default_rng(1)
    model = SemidefiniteFairPCA(2, max_iter=n_iter, step=0.2)
    model.fit(X, sensitive_features=groups)

    def refit(X, groups, step=0.2):
        other = SemidefiniteFairPCA(2, max_iter=n_iter, step=step)
        return other.fit(X, sensitive_features=groups)

    order = rng.permutation(len(X))
    permuted = refit(X[order], groups[order])
    np.testing.assert_allclose(permuted.components_, model.components_, atol=1e-9)
    renamed = refit(X, np.array(["c", "b", "a"])[groups])
    np.testing.assert_allclose(renamed.components_, model.components_, atol=1e-9)
    np.testing.assert_allclose(renamed.group_losses_[::-1], model.group_losses_)
    np.testing.assert_allclose(renamed.dual_weights_[::-1], model.dual_weights_)
    scaled = refit(10 * X, groups, step=0.002)
    np.testing.assert_allclose(scaled.components_, model.components_, atol=1e-9)
    np.testing.assert_allclose(scaled.group_losses_, 100 * model.group_losses_)
    Q = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    turned = refit(X @ Q, groups)
    np.testing.assert_allclose(
        turned.projection_, Q.T @ model.projection_ @ Q, atol=1e-9
    )
    twice = refit(np.vstack([X, X]), np.tile(groups, 2))
    np.testing.assert_allclose(twice.components_, model.components_, atol=1e-9)


def test_axes_within_the_common_subspace_are_those_of_pca():
    """P has the eigenvalue 1 twice: any basis would do, the coordinates' is chosen."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    C = [Q @ np.diag(d) @ Q.T for d in ([9, 7, 4, 0], [8, 6, 0, 1])]
    X, groups = rows_of(*C)
    model = SemidefiniteFairPCA(3, max_iter=3).fit(X, sensitive_features=groups)
    assert model.rank_ == 4
    shared = model.components_[:2]
    np.testing.assert_allclose(np.abs(shared @ Q), np.eye(4)[:2], atol=1e-10)
    assert (np.diff(model.explained_variance_[:2]) < 0).all()


def test_from_moments():
    X, groups = random_rows(3)
    model = SemidefiniteFairPCA(2, step=0.5).fit(X, sensitive_features=groups)
    moments = GroupMoments.from_data(X, groups)
    other = SemidefiniteFairPCA.from_moments(moments, n_components=2, step=0.5)
    np.testing.assert_array_equal(other.components_, model.components_)
    np.testing.assert_array_equal(other.group_losses_, model.group_losses_)


def test_sparse_rows():
    X, groups = random_rows()
    X[np.abs(X) < 1] = 0
    dense = SemidefiniteFairPCA(2).fit(X, sensitive_features=groups)
    for kind in (sparse.csr_array, sparse.csc_matrix):
        model = SemidefiniteFairPCA(2).fit(kind(X), sensitive_features=groups)
        np.testing.assert_allclose(model.components_, dense.components_, atol=1e-10)
        np.testing.assert_allclose(
            model.transform(kind(X)), dense.transform(X), atol=1e-10
        )


def test_output_has_as_many_columns_as_the_rank():
    pandas = pytest.importorskip("pandas")
    X, groups = rows_of(*CORNERS)
    frame = pandas.DataFrame(X, columns=["first", "second"])
    model = SemidefiniteFairPCA(1, max_iter=3).set_output(transform="pandas")
    scores = model.fit(frame, sensitive_features=groups).transform(frame)
    assert list(scores.columns) == ["semidefinitefairpca0", "semidefinitefairpca1"]
    assert list(scores.columns) == list(model.get_feature_names_out())


def test_bad_input():
    X, groups = random_rows()
    model = SemidefiniteFairPCA(2)
    with pytest.raises(ValueError, match="only one group"):
        model.fit(X, sensitive_features=np.full(60, "a"))
    with pytest.raises(ValueError, match="n_components=6 must be at most"):
        SemidefiniteFairPCA(6).fit(X, sensitive_features=groups)
    with pytest.raises(ValueError, match="60 samples"):
        model.fit(X, sensitive_features=groups[1:])
    for parameters in ({"step": 0.0}, {"max_iter": 0}, {"centering": "none"}):
        with pytest.raises(ValueError, match=next(iter(parameters))):
            model.set_params(**parameters).fit(X, sensitive_features=groups)
        model = SemidefiniteFairPCA(2)


class _WithGroups(SemidefiniteFairPCA):
    """The checks do not know sensitive_features: alternate two groups."""

    def fit(self, X, y=None, *, sensitive_features=None):
        if sensitive_features is None:
            sensitive_features = np.arange(_num_samples(X)) % 2
        return super().fit(X, y, sensitive_features=sensitive_features)


@parametrize_with_checks([_WithGroups(1), _WithGroups(1, centering="group")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.realdata
def test_bank_marketing_four_components():
    """The losses of fair PCA, known from an independent dense solver."""
    folder = os.environ.get("SCALEFAIR_DATA")
    if not folder:
        pytest.skip("SCALEFAIR_DATA is not set")
    data = np.loadtxt(Path(folder) / "bank_marketing" / "bank.csv", delimiter=",")
    X = data[:, 1:]
    X = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    model = SemidefiniteFairPCA(4, centering="group", max_iter=100)
    model.fit(X, sensitive_features=data[:, 0] < 65)
    np.testing.assert_allclose(model.group_losses_, 0.6005689915016834, rtol=1e-10)
    assert model.duality_gap_ < 1e-10
