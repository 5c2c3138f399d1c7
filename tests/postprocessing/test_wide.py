"""wide_layer against the moments of all rows, formed as matrices."""

from itertools import combinations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from scalefair.postprocessing._wide import wide_layer

N_ROWS, N, M = 600, 90, 7


@pytest.fixture(scope="module", params=[2, 3])
def problem(request):
    """Rows, codes, weight, S, D, M_p: activations of 8 raw columns and some noise."""
    G = request.param
    rng = np.random.default_rng(G)
    codes = np.arange(N_ROWS) % G
    raw = rng.standard_normal((N_ROWS, 8)) * (
        1 + 0.5 * codes[:, None] * (np.arange(8) < 3)
    )
    raw[:, 0] += 0.4 * codes
    A = np.maximum(raw @ rng.standard_normal((8, N)) + rng.standard_normal(N), 0)
    A += 0.05 * rng.standard_normal(A.shape)
    W = rng.standard_normal((M, N)) / np.sqrt(N)
    means = np.array([A[codes == g].mean(axis=0) for g in range(G)])
    covariances = np.array([np.cov(A[codes == g].T) for g in range(G)])
    pairs = list(combinations(range(G), 2))
    D = np.array([means[b] - means[a] for a, b in pairs]).T
    forms = np.array([covariances[b] - covariances[a] for a, b in pairs])
    return A, codes, G, W, A.T @ A, D, forms


def solve(problem, rank, **options):
    A, codes, G, W = problem[:4]

    def batches():
        for start in range(0, N_ROWS, 100):
            yield A[start : start + 100], codes[start : start + 100]

    return wide_layer(batches, W, G, rank, random_state=0, **options)


def gaps(W, D, forms):
    return np.linalg.norm(W @ D), np.linalg.norm(W @ forms @ W.T)


def test_eigenpairs_and_small_matrices(problem):
    _, _, G, W, S, D, forms = problem
    layer = solve(problem, 5, tol=1e-10)
    root = forms[0] if G == 2 else sum(F @ F for F in forms)
    values = np.linalg.eigvalsh(root)
    values = values[np.argsort(-np.abs(values))][:5]
    if G > 2:
        values = np.sqrt(values)
    np.testing.assert_allclose(layer.eigenvalues, values, rtol=1e-8)
    Q = layer.eigenvectors
    np.testing.assert_allclose(Q.T @ Q, np.eye(5), atol=1e-12)
    scale = np.abs(np.linalg.eigvalsh(root)).max()
    expected = Q * (values if G == 2 else values**2)
    np.testing.assert_allclose(root @ Q, expected, atol=1e-8 * scale)
    np.testing.assert_allclose(layer.gram, Q.T @ S @ Q, rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(
        layer.covariance_differences, Q.T @ forms @ Q, atol=1e-11 * scale
    )
    np.testing.assert_allclose(layer.differences, D, atol=1e-13)
    np.testing.assert_allclose(
        (layer.mean_gap, layer.covariance_gap), gaps(W, D, forms), rtol=1e-10
    )
    assert layer.converged


def test_compare(problem):
    _, _, _, W, S, D, forms = problem
    layer = solve(problem, 3)
    before = layer.n_passes
    other = 0.5 * W + 0.1
    found = layer.compare(other)
    assert layer.n_passes == before + 1
    np.testing.assert_allclose(
        (found.mean_gap_before, found.covariance_gap_before), gaps(W, D, forms)
    )
    np.testing.assert_allclose(
        (found.mean_gap_after, found.covariance_gap_after), gaps(other, D, forms)
    )
    assert found.output_change == pytest.approx(
        np.trace((W - other) @ S @ (W - other).T)
    )


@pytest.mark.parametrize("tol", [1.0, 1e-2, 1e-9])
def test_reduced_problem_is_exact_whatever_the_tolerance(problem, tol):
    _, _, _, W, S, D, forms = problem
    small = solve(problem, 4).reduced(tol=tol)
    r = small.directions.shape[1]
    np.testing.assert_allclose(
        small.directions.T @ S @ small.directions, np.eye(r), atol=1e-6
    )
    np.testing.assert_allclose(small.lift(small.whitened), W, atol=1e-14)
    changed = small.whitened.copy()
    changed *= np.linspace(0, 1.5, r)
    lifted = small.lift(changed)
    np.testing.assert_allclose(
        small.gaps(changed), gaps(lifted, D, forms), rtol=1e-8, atol=1e-10
    )
    change = np.trace((W - lifted) @ S @ (W - lifted).T)
    assert np.linalg.norm(changed - small.whitened) ** 2 == pytest.approx(
        change, rel=1e-6
    )


def test_forms_are_those_of_the_leading_span(problem):
    _, _, _, _, _, D, forms = problem
    layer = solve(problem, 4, tol=1e-10)
    small = layer.reduced()
    B, _ = np.linalg.qr(np.hstack([layer.eigenvectors, D]))
    B = B[:, : small.whitened.shape[1]]
    V = 0.7 * small.whitened
    inside = small.lift(V) @ B @ B.T
    np.testing.assert_allclose(
        V @ small.forms @ V.T, inside @ forms @ inside.T, atol=1e-8
    )
    np.testing.assert_allclose(V @ small.differences, small.lift(V) @ D, atol=1e-10)


def test_nearest_weight_with_given_values(problem):
    # KKT: W' differs from W by a combination of the rows of B^T S^+.
    _, _, _, W, S, D, _ = problem
    layer = solve(problem, 4, tol=1e-8)
    small = layer.reduced(tol=0.0, max_products=2000)
    B = np.hstack([layer.eigenvectors, D])
    r = small.directions.shape[1]
    X = np.linalg.solve(S, B)
    change = -W @ B @ np.linalg.pinv(B.T @ X) @ X.T  # W' B = 0
    erased = np.zeros((M, r))
    np.testing.assert_allclose(small.lift(erased), W + change, atol=1e-5)
    np.testing.assert_allclose(small.gaps(erased)[0], 0, atol=1e-9)


def test_solve(problem):
    _, _, _, _, S, D, _ = problem
    X = solve(problem, 4).solve(D, tol=0.0, max_products=2000)
    np.testing.assert_allclose(D.T @ X, D.T @ np.linalg.solve(S, D), rtol=1e-5)


def test_more_rank_than_there_is():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((9, 60))  # covariances of rank 4 and 3
    codes = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1])
    layer = wide_layer(lambda: [(rows, codes)], np.ones((2, 60)), 2, 12, random_state=0)
    assert layer.eigenvalues.shape == (7,)
    small = layer.reduced()
    assert np.isfinite(small.directions).all()
    erased = small.gaps(0 * small.whitened)
    assert erased == pytest.approx((0, 0), abs=1e-6)


def test_groups_without_a_difference():
    rows = np.random.default_rng(0).standard_normal((40, 5))
    twice, codes = np.vstack([rows, rows]), np.repeat([0, 1], 40)
    layer = wide_layer(lambda: [(twice, codes)], np.eye(5), 2, 2, random_state=0)
    assert layer.mean_gap == pytest.approx(0, abs=1e-12)
    assert layer.covariance_gap == pytest.approx(0, abs=1e-12)
    small = layer.reduced()
    np.testing.assert_allclose(small.lift(small.whitened), np.eye(5), atol=1e-12)


def test_few_passes(problem):
    G = problem[2]
    layer = solve(problem, 5)
    assert layer.n_passes <= (8 if G == 2 else 13)


def test_warns_when_passes_run_out(problem):
    layer = solve(problem, 4)
    with pytest.warns(ConvergenceWarning, match=r"after 2 passes .*use rank=None"):
        layer.solve(problem[5], tol=1e-12, max_products=2)
    small = layer.reduced(tol=1e-12, max_products=2)
    assert not small.converged
    assert not solve(problem, 4, tol=1e-14, max_products=1).converged


@pytest.mark.parametrize(
    ("weight", "n_groups", "message"),
    [
        (np.ones((2, 4)), 2, r"inputs must have shape \(m, 5\).*got \(2, 4\)"),
        (np.ones(5), 2, r"inputs must have shape \(m, 5\).*got \(5,\)"),
        (np.full((2, 5), np.nan), 2, "NaN or infinite"),
        (np.ones((2, 5)), 1, "two groups"),
    ],
)
def test_refuses(weight, n_groups, message):
    rows = np.random.default_rng(0).standard_normal((8, 5))
    with pytest.raises(ValueError, match=message):
        wide_layer(lambda: [(rows, np.arange(8) % n_groups)], weight, n_groups, 2)


def test_more_eigenpairs_than_inputs():
    rows = np.random.default_rng(0).standard_normal((8, 5))
    with pytest.raises(ValueError, match=r"rank=6 must be at most 5, the number of in"):
        wide_layer(lambda: [(rows, np.arange(8) % 2)], np.ones((2, 5)), 2, 6)


def test_size_of_the_outputs(problem):
    A, codes, G, W = problem[:4]
    layer = solve(problem, 3)
    Z = A @ W.T
    assert layer.square == pytest.approx((Z**2).sum() / N_ROWS)
    for g in range(G):
        Z[codes == g] -= Z[codes == g].mean(axis=0)
    assert layer.spread == pytest.approx((Z**2).sum() / N_ROWS)


@pytest.mark.parametrize("kind", ["groups only", "scales"])
@pytest.mark.parametrize("seed", [1, 5, 12])
def test_small_matrices_that_rounding_makes_indefinite(seed, kind):
    """Rows that tell the group and no more, and columns of very different units."""
    rng = np.random.default_rng(seed)
    codes = np.arange(20) % 5 if kind == "scales" else np.arange(60) % 2
    if kind == "scales":
        rows = rng.standard_normal((20, 5)) * 10.0 ** rng.uniform(-6, 6, 5)
        rows += codes[:, None]
    else:
        rows = rng.standard_normal((2, 5))[codes]
        rows *= 1 + 2e-16 * rng.integers(2, size=rows.shape)
    W = rng.standard_normal((2, 5))
    n_groups = int(codes.max()) + 1
    layer = wide_layer(lambda: [(rows, codes)], W, n_groups, 2, random_state=0)
    small = layer.reduced()
    np.testing.assert_allclose(small.lift(small.whitened), W)
    erased = small.lift(0 * small.whitened)
    gap = np.linalg.norm(erased @ layer.differences)
    assert gap <= 1e-6 * layer.mean_gap
    assert small.gaps(0 * small.whitened)[0] == 0
