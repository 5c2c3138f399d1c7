"""ThickRestartLanczos: pairs, orthogonality, restarts, invariant subspaces."""

import numpy as np
import pytest

from scalefair.linalg import ThickRestartLanczos

# Orthogonality that partial reorthogonalisation promises, with room for estimates.
SEMI = 1e-7


def start(n, seed=0):
    return np.random.default_rng(seed).standard_normal(n)


def diagonals(*rows):
    """Products with diagonal matrices."""
    D = np.array(rows)

    def products(x, out):
        np.multiply(D, x, out=out)

    return products


def lanczos(d, k, **options):
    options = {"random_state": 0} | options
    return ThickRestartLanczos(diagonals(d), [1.0], k, start(len(d)), **options)


def to(tol, k, norm=1.0):
    """Criterion: the k leading residuals, and values for all of them."""
    return lambda it: len(it.values) >= k and it.residuals[:k].max() <= tol * norm


def check_relation(it, d):
    """Semi-orthogonal basis, T of the operator, and true residuals of exact vectors."""
    V, norm = it.basis, np.abs(d).max() or 1.0
    j = len(V)
    np.testing.assert_allclose(V @ V.T, np.eye(j), atol=SEMI)
    projected = np.linalg.eigvalsh((V * d) @ V.T)[::-1]
    np.testing.assert_allclose(it.values, projected, atol=SEMI * norm)
    X = it.leading(it.k)
    np.testing.assert_allclose(X @ X.T, np.eye(it.k), atol=1e-12)
    residuals = np.linalg.norm(X * d - X * it.values[: it.k, None], axis=1)
    estimates = it.residuals[: it.k]
    np.testing.assert_allclose(residuals, estimates, rtol=1e-3, atol=1e-12 * norm)
    assert it.values[: it.k].max() <= it.scale * (1 + 1e-12)
    assert it.scale <= norm * (1 + 1e-12)


SPECTRA = {
    "evenly": np.linspace(-1, 1, 3000),
    "dense at the end": 1 - np.linspace(0, 1, 2000) ** 2,
    "decaying": 0.9 ** np.arange(1500.0),
    "negative": -(np.linspace(1, 2, 500) ** 3),
    "far apart": np.r_[1e6, 2e6, 3e6, np.linspace(0, 1, 1000)],
    "small norm": 1e-120 * np.linspace(-1, 1, 500),
    "large norm": 1e120 * np.linspace(-1, 1, 500),
}


@pytest.mark.parametrize("k", [1, 20])
@pytest.mark.parametrize("name", SPECTRA)
def test_largest_pairs(name, k):
    d = SPECTRA[name]
    norm = np.abs(d).max()
    it = lanczos(d, k)
    assert it.run(to(1e-10, k, norm), max_products=20_000)
    check_relation(it, d)
    np.testing.assert_allclose(it.values[:k], np.sort(d)[::-1][:k], 0, 1e-12 * norm)
    if name == "dense at the end" and k == 20:
        # Errors of 1e-8 that each of so many restarts kept grew to 1.
        assert it.n_restarts > 100
        assert it.n_orthogonalizations < it.n_products / 10
    with pytest.raises(ValueError, match="not stored"):  # of a single operator
        it.leading_products(1)


def test_two_operators_and_their_products():
    # Drift of stored products, which are turned at each of many restarts.
    n, k = 1000, 8
    a, b = np.linspace(0, 1, n) ** 2, np.cos(np.arange(n))
    it = ThickRestartLanczos(
        diagonals(a, b), [0.7, 0.3], k, start(n), ncv=2 * k, random_state=0
    )
    assert it.run(to(1e-9, k), max_products=20_000)
    assert it.n_restarts > 20
    d = 0.7 * a + 0.3 * b
    check_relation(it, d)
    V, X = it.basis, it.leading(k)
    np.testing.assert_allclose(it.basis_products, [V * a, V * b], atol=1e-13)
    np.testing.assert_allclose(it.leading_products(k), [X * a, X * b], atol=1e-13)


@pytest.mark.parametrize(("first", "chunk"), [(1e-1, 1), (1e-4, 8)])
def test_goes_on_where_it_stopped(first, chunk):
    d = SPECTRA["evenly"]
    it, again = lanczos(d, 4), lanczos(d, 4)
    again.run(to(first, 4), chunk=chunk)
    assert not it.run(to(0, 4), max_products=10)
    assert 10 <= it.n_products < 18
    for lanczos_run in (it, again):
        assert lanczos_run.run(to(1e-9, 4), chunk=1)
    assert again.n_products == it.n_products
    np.testing.assert_array_equal(again.values, it.values)
    np.testing.assert_array_equal(again.leading(4), it.leading(4))
    assert it.run(to(1e-9, 4))  # at once
    assert it.n_products == again.n_products
    with pytest.raises(ValueError, match="chunk must be an integer >= 1"):
        it.run(to(1e-9, 4), chunk=0)


def test_error_bounds_that_of_the_sum():
    d = np.arange(1, 3001.0) ** -0.5
    it = lanczos(d, 5)
    assert it.error == np.inf
    for tol in (1e-2, 1e-6, 1e-10):
        assert it.run(lambda it, tol=tol: it.error <= tol)
        assert d[:5].sum() - it.values[:5].sum() <= tol + 1e-14
    assert it.n_products < 80


@pytest.mark.parametrize("n", [1, 2, 7, 41])
@pytest.mark.parametrize("kind", ["distinct", "identity", "zero", "rank one", "copies"])
def test_small_and_degenerate(n, kind):
    d = {
        "distinct": np.cos(np.arange(n)),
        "identity": np.ones(n),
        "zero": np.zeros(n),
        "rank one": np.r_[2.0, np.zeros(n - 1)],
        "copies": np.arange(n) // 3 - n / 6,
    }[kind]
    norm = np.abs(d).max() or 1.0
    for k in {1, min(3, n), n}:
        it = lanczos(d, k, ncv=n)
        assert not it.run(lambda it: False)  # until the basis fills the space
        assert it.n_products == n
        assert it.error == 0
        check_relation(it, d)
        np.testing.assert_allclose(it.values, np.sort(d)[::-1], atol=1e-12 * norm)
        vectors = it.leading(n)
        np.testing.assert_allclose(vectors @ vectors.T, np.eye(n), atol=1e-12)


def test_goes_on_from_an_invariant_subspace():
    # The start has three eigenvectors; the second copy comes by a random vector.
    d = np.r_[5.0, 5.0, np.linspace(0, 4, 100)]
    v = np.zeros(len(d))
    v[[0, 2, -1]] = 1.0
    it = ThickRestartLanczos(diagonals(d), [1.0], 2, v, random_state=0)
    assert it.run(lambda it: it.n_products > 60)
    check_relation(it, d)
    np.testing.assert_allclose(it.values[:3], [5, 5, 4])
    # Without the vectors that are to be avoided.
    deflated = lanczos(d, 2, deflate=np.eye(1, len(d)))
    assert deflated.run(to(1e-8, 2))
    np.testing.assert_allclose(deflated.values[:2], [5, 4])
    np.testing.assert_allclose(deflated.basis[:, 0], 0, atol=1e-14)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k must be"),
        ({"k": 101}, "k = 101"),
        ({"ncv": 4}, "ncv = 4"),
        ({"kept": 2}, "kept = 2"),
        ({"kept": 39}, "kept = 39"),
        ({"deflate": np.eye(98, 100)}, "order 2"),
        ({"start": np.zeros(100)}, "start"),
        ({"start": np.ones((10, 10))}, "start"),
    ],
)
def test_bad_arguments(options, message):
    arguments = {"k": 3, "start": start(100)} | options
    with pytest.raises(ValueError, match=message):
        ThickRestartLanczos(diagonals(np.ones(100)), [1.0], **arguments)


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        (np.r_[np.nan, np.ones(99)], FloatingPointError, "not finite"),
        (np.full(100, 1e-150), ValueError, "norm"),
    ],
)
def test_bad_products(values, error, message):
    with pytest.raises(error, match=message):
        lanczos(values, 2).run(to(1e-8, 2))
