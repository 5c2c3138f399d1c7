"""Fair assignment to centres: time, proved gap and violation of the bounds."""

import numpy as np

from scalefair.cluster import FairSpectralClustering, fair_assignment

from .problems import N_GROUPS, block_model

N_CLUSTERS = 50


def mixed_points(n, k):
    """Points of k clusters, each held by one group: most rows must move."""
    rng = np.random.default_rng(0)
    means = rng.standard_normal((k, k))
    target = rng.integers(0, k, n)
    X = means[target] + 0.7 * rng.standard_normal((n, k))
    other = rng.random(n) >= 0.9
    groups = np.where(other, rng.integers(0, N_GROUPS, n), target % N_GROUPS)
    return X, target, groups


def embedded_block_model(n, k):
    """Rows of a fair spectral embedding: nearly balanced as they are."""
    data = block_model(n, k)
    model = FairSpectralClustering(
        k, regularization=0, tol=1e-3, assign_labels="kmeans", random_state=0
    ).fit(data.graph, sensitive_features=data.sensitive_features)
    degrees = model.affinity_matrix_.sum(axis=1)
    X = model.embedding_ / np.sqrt(np.maximum(degrees, 1e-300))[:, None]
    return X, model.labels_, np.asarray(data.sensitive_features)


class Rounding:
    params = ([10_000, 100_000], ["mixed", "block-model"])
    param_names = ("n_nodes", "problem")
    timeout = 900
    number = 1
    repeat = (1, 3, 60.0)

    def setup(self, n_nodes, problem):
        make = mixed_points if problem == "mixed" else embedded_block_model
        self.X, labels, self.groups = make(n_nodes, N_CLUSTERS)
        if (labels < 0).any():
            raise NotImplementedError("nodes without edges")
        self.centers = np.array(
            [self.X[labels == c].mean(axis=0) for c in range(N_CLUSTERS)]
        )
        self.run(problem)  # compile the kernels

    def run(self, problem):
        result = fair_assignment(
            self.X,
            self.centers,
            sensitive_features=self.groups,
            # Less than a row per count in the block model, or nothing would move.
            tolerance=0.1 if problem == "mixed" else 100 / self.X.shape[0],
        )
        if not result.max_violation == 0:
            raise AssertionError(f"bounds violated by {result.max_violation:.1e}")
        return result

    def time_fair_assignment(self, n_nodes, problem):
        self.run(problem)

    peakmem_fair_assignment = time_fair_assignment

    def track_gap(self, n_nodes, problem):
        return self.run(problem).gap

    def track_violation(self, n_nodes, problem):
        return self.run(problem).max_violation

    def track_moved(self, n_nodes, problem):
        return self.run(problem).n_moved
