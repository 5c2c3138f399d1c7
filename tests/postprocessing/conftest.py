"""Rows whose groups differ, and networks that are trained on them."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor


def table(m=300, n_groups=2, seed=0, shift=1.2, stretch=1.0):
    """Rows whose groups differ in mean and in spread, and targets that tell."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(n_groups, size=m)
    codes[:n_groups] = np.arange(n_groups)
    X = rng.standard_normal((m, 4)) + 0.3
    X[:, 0] += shift * codes
    X[:, 1] *= 1 + stretch * codes
    return X, X[:, 0] + np.abs(X[:, 1]) + 0.3 * X[:, 2], codes


X, Y, CODES = table()


def mlp(rows=X, targets=Y, **options):
    """A trained network with 8 and 6 hidden units."""
    options = {
        "hidden_layer_sizes": (8, 6),
        "learning_rate_init": 0.01,
        "max_iter": 40,
        "random_state": 0,
    } | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MLPRegressor(**options).fit(rows, targets)


def assert_same_moments(model, expected, rtol, unit=1.0):
    """Moments of one attribute or of several; `unit` is that of the weights."""
    moments = (m.moments_ for m in (model, expected))
    moments = ([m] if hasattr(m, "counts") else m for m in moments)
    for actual, other in zip(*moments, strict=True):
        assert actual.groups.tolist() == other.groups.tolist()
        pairs = [(actual.counts, unit * other.counts), (actual.means, other.means)]
        for got, want in [*pairs, (actual.scatters, unit * other.scatters)]:
            np.testing.assert_allclose(got, want, rtol, atol=rtol * np.abs(want).max())
