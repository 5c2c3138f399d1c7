"""Gaussian kernel times block: computed in tiles, stored, and scikit-learn's."""

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from scalefair.operators import RBFKernel

N_FEATURES = 8
N_COLUMNS = 30
# Rows of a stored kernel that are computed at a time.
CHUNK = 1000


def stored_kernel(X):
    K = np.empty((len(X), len(X)), np.float32)
    for start in range(0, len(X), CHUNK):
        K[start : start + CHUNK] = rbf_kernel(X[start : start + CHUNK], X)
    return K


class KernelProduct:
    """The stored kernel of 35 000 points takes 5 GB, scikit-learn's 10 GB."""

    params = ([7_000, 35_000], ["implicit", "stored", "sklearn"])
    param_names = ("n_points", "kernel")
    timeout = 600

    def setup(self, n_points, kernel):
        rng = np.random.default_rng(0)
        self.points = rng.standard_normal((n_points, N_FEATURES))
        self.X = rng.standard_normal((n_points, N_COLUMNS)).astype(np.float32)
        self.out = np.empty_like(self.X)
        self.implicit = RBFKernel(self.points, dtype=np.float32)
        self.implicit.apply(self.X, self.out)
        expected = rbf_kernel(self.points[:100], self.points) @ self.X
        np.testing.assert_allclose(self.out[:100], expected, atol=1e-3)
        self.stored = stored_kernel(self.points) if kernel == "stored" else None

    def time_product(self, n_points, kernel):
        if kernel == "implicit":
            self.implicit.apply(self.X, self.out)
        elif kernel == "stored":
            np.dot(self.stored, self.X, out=self.out)
        else:
            rbf_kernel(self.points) @ self.X

    peakmem_product = time_product
