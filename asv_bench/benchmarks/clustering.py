"""Whole fits: FairSpectralClustering against scikit-learn's unconstrained one."""

import warnings

import numpy as np
from sklearn.cluster import SpectralClustering
from sklearn.metrics import adjusted_rand_score

from scalefair.cluster import FairSpectralClustering
from scalefair.metrics import balance_score

from .problems import block_model

METHODS = {
    "scalefair": {"tol": 1e-3},
    "scalefair-float32": {"tol": 1e-3, "dtype": np.float32},
    "scalefair-papers": {"tol": 1e-3, "regularization": 0, "assign_labels": "kmeans"},
    "scalefair-lanczos": {"tol": 1e-3, "solver": "lanczos"},
    "sklearn-lobpcg": {"eigen_solver": "lobpcg"},
    "sklearn-amg": {"eigen_solver": "amg"},
}

N_CLUSTERS = {10_000: 10, 100_000: 50, 1_000_000: 20}  # that the graph tells apart


class Fit:
    params = ([10_000, 100_000], list(METHODS))
    param_names = ("n_nodes", "method")
    timeout = 900
    number = 1
    repeat = (1, 3, 60.0)

    def setup(self, n_nodes, method):
        self.data = block_model(n_nodes, N_CLUSTERS[n_nodes])
        self.labels = None
        small = block_model(1000, 5)
        if method.startswith("scalefair"):  # compile the kernels
            options = METHODS[method] | {"solver": "chebyshev"}
            FairSpectralClustering(5, **options).fit(
                small.graph, sensitive_features=small.sensitive_features
            )

    def run(self, method):
        k = np.unique(self.data.target).size
        if method.startswith("scalefair"):
            model = FairSpectralClustering(k, random_state=0, **METHODS[method])
            groups = self.data.sensitive_features
            self.labels = model.fit_predict(self.data.graph, sensitive_features=groups)
        else:
            model = SpectralClustering(
                k, affinity="precomputed", random_state=0, **METHODS[method]
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # lobpcg and amg warn of their limits
                self.labels = model.fit_predict(self.data.graph)
        return self.labels

    def teardown(self, n_nodes, method):
        """Refuse the measurement of a wrong answer: that of ours, not of the peer."""
        if self.labels is not None and method.startswith("scalefair"):
            agreement = self.agreement()
            if not agreement >= 0.9:
                raise AssertionError(f"planted clusters missed: ARI {agreement:.3f}")

    def agreement(self):
        return adjusted_rand_score(self.data.target, self.labels)

    def time_fit(self, n_nodes, method):
        self.run(method)

    peakmem_fit = time_fit

    def track_agreement(self, n_nodes, method):
        self.run(method)
        return self.agreement()

    def track_balance(self, n_nodes, method):
        return balance_score(
            self.run(method), sensitive_features=self.data.sensitive_features
        )


class EachAttribute:
    """Several attributes, each by itself, of three groups: 1.3 times one, at most."""

    params = ([1, 5],)
    param_names = ("n_attributes",)
    timeout = 900
    number = 1
    repeat = (3, 5, 60.0)

    def setup(self, n_attributes):
        self.data = block_model(100_000, 10)
        rng = np.random.default_rng(0)
        groups = rng.integers(0, 3, (100_000, n_attributes))
        groups[:, 0] = self.data.sensitive_features.astype(np.int64) % 3
        self.groups = groups

    def time_fit(self, n_attributes):
        model = FairSpectralClustering(10, attributes="each", random_state=0)
        model.fit(self.data.graph, sensitive_features=self.groups)
        if not model.fairness_violation_ < 1e-8:
            raise AssertionError(f"|F^T H| = {model.fairness_violation_:.1e}")


class Predict:
    """A tenth of the nodes as new ones, against a fit of all of them."""

    params = ([0.0, 0.1],)
    param_names = ("regularization",)
    timeout = 900
    number = 1

    def setup(self, regularization):
        self.data = block_model(100_000, 50)
        W, groups = self.data.graph, self.data.sensitive_features
        self.new = np.arange(groups.size) % 10 == 0
        self.model = FairSpectralClustering(
            50, tol=1e-3, regularization=regularization, random_state=0
        )
        self.model.fit(W[~self.new][:, ~self.new], sensitive_features=groups[~self.new])
        self.rows, self.groups = W[self.new][:, ~self.new], groups[self.new]
        if not self.track_agreement(regularization) >= 0.9:
            raise AssertionError("planted clusters missed")

    def run(self):
        return self.model.predict(self.rows, sensitive_features=self.groups)

    def time_predict(self, regularization):
        self.run()

    peakmem_predict = time_predict

    def time_fit_of_all(self, regularization):
        W, groups = self.data.graph, self.data.sensitive_features
        self.model.fit(W, sensitive_features=groups)

    def track_agreement(self, regularization):
        return adjusted_rand_score(self.data.target[self.new], self.run())


class MillionNodes(Fit):
    """30 million entries, which should not be copied."""

    params = ([1_000_000], ["scalefair", "scalefair-float32"])
