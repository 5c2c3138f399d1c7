"""Product with the groups' covariances: ours and two products of SciPy or NumPy."""

import numpy as np

from scalefair.datasets import make_group_gaussians, make_topic_documents
from scalefair.operators import GroupCovariance

N_COLUMNS = 25
WEIGHTS = [0.5, 0.5]


class _Product:
    """The peers neither centre nor weight: they are the cost of reading the rows."""

    timeout = 600

    def prepare(self, X, codes):
        self.X = X
        self.operator = GroupCovariance(X, codes, WEIGHTS)
        self.one_group = self.operator.with_weights([0.0, 1.0])
        rng = np.random.default_rng(0)
        self.V = rng.standard_normal((X.shape[1], N_COLUMNS))
        self.out = np.empty_like(self.V)
        self.operator.apply(self.V, self.out)
        expected = sum(
            w * self.covariance(X[codes == g]) for g, w in enumerate(WEIGHTS)
        )
        np.testing.assert_allclose(self.out, expected, rtol=1e-8, atol=1e-12)

    def covariance(self, rows):
        """``C_g @ V`` from its definition."""
        Y = rows @ self.V - self.operator.mean @ self.V
        product = rows.T @ Y - np.outer(self.operator.mean, Y.sum(axis=0))
        return product / rows.shape[0]

    def time_scalefair(self):
        self.operator.apply(self.V, self.out)

    def time_one_group(self):
        self.one_group.apply(self.V, self.out)

    def time_compress(self):
        self.operator.compress(self.V)

    def time_two_products(self):
        self.X.T @ (self.X @ self.V)


class SparseProduct(_Product):
    """100,000 documents, 50,000 words, density 1e-3."""

    def setup(self):
        data = make_topic_documents(random_state=0)
        self.codes = data.sensitive_features
        self.prepare(data.data, self.codes)

    def time_construction(self):
        GroupCovariance(self.X, self.codes, WEIGHTS)


class DenseProduct(_Product):
    """100,000 rows of 200 features."""

    def setup(self):
        data = make_group_gaussians(
            100_000, 200, group_probabilities=(0.7, 0.3), random_state=0
        )
        self.prepare(data.data, data.sensitive_features)
