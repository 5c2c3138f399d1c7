"""FairKMeans: time, cost against unconstrained k-means, and balance."""

import numpy as np
from sklearn.cluster import KMeans

from scalefair.cluster import FairKMeans


def blobs(n, k):
    """Rows of unequal clusters in which three groups are mixed differently."""
    rng = np.random.default_rng(0)
    target = rng.choice(k, n, p=rng.dirichlet(np.ones(k)))
    X = 2 * rng.normal(size=(k, 8))[target] + 0.4 * rng.normal(size=(n, 8))
    ends = np.cumsum(rng.dirichlet([5.0, 3.0, 2.0], k), axis=1)
    groups = (rng.random(n)[:, None] > ends[target, :2]).sum(axis=1)
    return X, groups


def uniform(n, k):
    """Rows without clusters, and groups that have nothing to do with them."""
    rng = np.random.default_rng(0)
    return rng.random((n, 10)), rng.integers(0, 3, n)


class Lloyd:
    params = ([10, 20], ["blobs", "uniform"])
    param_names = ("n_clusters", "problem")
    timeout = 900
    number = 1
    repeat = (1, 3, 60.0)

    def setup(self, n_clusters, problem):
        make = blobs if problem == "blobs" else uniform
        self.X, self.groups = make(60_000, 20)
        X, groups = self.X[:2000], self.groups[:2000]
        FairKMeans(3, random_state=0).fit(X, sensitive_features=groups)  # compile

    def run(self, n_clusters):
        model = FairKMeans(n_clusters, random_state=0)
        return model.fit(self.X, sensitive_features=self.groups)

    def time_fit(self, n_clusters, problem):
        self.run(n_clusters)

    peakmem_fit = time_fit

    def track_cost_ratio(self, n_clusters, problem):
        plain = KMeans(n_clusters, n_init=4, random_state=0).fit(self.X)
        return self.run(n_clusters).inertia_ / plain.inertia_

    def track_balance(self, n_clusters, problem):
        return self.run(n_clusters).minimum_balance_
