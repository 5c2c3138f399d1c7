"""Oracle of loss and smoothed shares against one sparse product and its adjoint."""

import numpy as np
from scipy import sparse

from scalefair._groups import encode_attributes
from scalefair._membership import Membership
from scalefair.linear_model._oracle import ScoreOracle
from scalefair.linear_model._training_rows import LabeledRows

N_ONES = 14
N_THRESHOLDS = 10
METHODS = ["oracle", "rounded", "sigmoid", "auc", "numpy", "products"]


def _rows(m, n):
    """CSR rows with so many ones each, labels and two groups."""
    rng = np.random.default_rng(0)
    # One column of each of so many ranges: no row has a column twice.
    width = n // N_ONES
    columns = rng.integers(0, width, (m, N_ONES)) + width * np.arange(N_ONES)
    indptr = np.arange(0, m * N_ONES + 1, N_ONES)
    X = sparse.csr_array(
        (np.ones(m * N_ONES), columns.ravel().astype(np.int32), indptr), shape=(m, n)
    )
    X.indptr = X.indptr.astype(np.int32)
    return X, rng.choice([-1.0, 1.0], m), rng.integers(0, 2, m)


def _numpy_value(X, transposed, signs, codes, w, theta):
    """Values and gradients by NumPy and scipy.sparse, without interactions."""
    h = X @ w[:-1] + w[-1]
    t = np.exp(-np.abs(signs * h))
    loss = (np.log1p(t) + np.maximum(-signs * h, 0)).mean()
    slopes = -signs * np.where(signs * h > 0, t, 1) / (1 + t) / len(h)
    weights = [slopes]
    values = []
    for code in range(2):
        share = (codes == code) / (codes == code).sum()
        for edge in np.concatenate([theta - 0.5, theta + 0.5]):
            above = share * (h > edge)
            values.append(above @ (h - edge))
            weights.append(above)
    return loss, np.array(values), transposed @ np.column_stack(weights)


class Evaluate:
    """One call: loss, shares of two groups above ten thresholds, all gradients."""

    params = ([(32_561, 123), (1_000_000, 200)], METHODS)
    param_names = ("shape", "method")
    timeout = 600

    def setup(self, shape, method):
        self.X, self.signs, self.codes = _rows(*shape)
        self.transposed = self.X.T
        rng = np.random.default_rng(1)
        self.oracle = ScoreOracle(
            self.X,
            self.signs,
            self.codes,
            2,
            loss="auc" if method == "auc" else "logistic",
            surrogate="sigmoid" if method == "sigmoid" else "ramp",
        ).without_interactions()
        self.corner = 0.05 if method == "rounded" else 0.0
        self.w = 0.3 * rng.standard_normal(self.oracle.n_weights)
        self.theta = np.linspace(-1, 1, N_THRESHOLDS)
        self._check()
        self.time_evaluate(shape, method)

    def _check(self):
        """Compare the plain oracle with NumPy."""
        oracle = ScoreOracle(self.X, self.signs, self.codes, 2).without_interactions()
        value = oracle.evaluate(self.w, self.theta)
        loss, values, gradients = _numpy_value(
            self.X, self.transposed, self.signs, self.codes, self.w, self.theta
        )
        np.testing.assert_allclose(value.loss, loss, rtol=1e-10)
        both = np.hstack([value.plus, value.minus])
        np.testing.assert_allclose(both.ravel(), values, atol=1e-10)
        slopes = np.hstack([value.plus_gradient, value.minus_gradient])
        slopes = slopes[:, :, : self.X.shape[1]].reshape(len(values), -1)
        np.testing.assert_allclose(slopes.T, gradients[:, 1:], atol=1e-10)

    def time_evaluate(self, shape, method):
        if method == "products":
            return self.transposed @ (self.X @ self.w[:-1])
        if method == "numpy":
            return _numpy_value(
                self.X, self.transposed, self.signs, self.codes, self.w, self.theta
            )
        value = self.oracle.evaluate(self.w, self.theta, corner=self.corner)
        return value.plus_gradient, value.minus_gradient

    peakmem_evaluate = time_evaluate


class EachAttribute:
    """Loss and a weighted sum of constraints, of attributes of three groups each."""

    params = ([1, 2, 5], [True, False])
    param_names = ("attributes", "interactions")
    timeout = 600

    def setup(self, n_attributes, interactions):
        rng = np.random.default_rng(0)
        X, m = rng.standard_normal((100_000, 30)), 100_000
        signs = rng.choice([-1.0, 1.0], m)
        columns = rng.integers(0, 3, (m, n_attributes))
        groups = Membership(encode_attributes(columns), None, None)
        rows = LabeledRows.of(X, signs, np.array([0, 1]), groups)
        self.oracle = rows.oracle(interactions=interactions)
        self.w = 0.3 * rng.standard_normal(self.oracle.n_weights)
        self.theta = np.tile(np.linspace(-1, 1, 25), n_attributes)
        self.weights = rng.random((3 * n_attributes, 25))
        value = self.oracle.evaluate(self.w, self.theta, corner=0.05)
        scores = self.oracle.scores(self.w)
        above = np.clip(scores[columns[:, -1] == 2, None] - self.theta[:25] + 0.5, 0, 1)
        rates = (value.plus - value.minus)[-1]
        np.testing.assert_allclose(rates, above.mean(axis=0), atol=0.02)  # corners
        self.time_lagrangian(n_attributes, interactions)

    def time_lagrangian(self, n_attributes, interactions):
        value = self.oracle.evaluate(self.w, self.theta, corner=0.05)
        return value.combine(self.weights, -self.weights)
