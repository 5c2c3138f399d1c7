"""Fair PCA against scikit-learn's PCA; a wrong answer raises in setup."""

from functools import partial

import numpy as np
from sklearn.decomposition import PCA

from scalefair.datasets import make_group_gaussians, make_topic_documents
from scalefair.decomposition import FairPCA


def check(model):
    """Equal losses and closed brackets of t and of the dual."""
    if not (model.converged_ and model.fairness_ratio_gap_ <= 1e-8):
        raise RuntimeError(f"losses {model.group_losses_}")


class _Fit:
    """A fit of FairPCA or, where a method says so, of its peer."""

    timeout = 600

    def prepare(self, data, model, peer=None):
        fit = partial(model.fit, data.data, sensitive_features=data.sensitive_features)
        check(fit())
        self.model = model
        self.run = fit if peer is None else partial(peer.fit, data.data)

    def time_fit(self, *_):
        self.run()


class Rows(_Fit):
    """Dense rows: one pass, then a problem of the size of the features."""

    params = ([100_000, 1_000_000], [50], ["FairPCA", "PCA"])
    param_names = ("rows", "features", "method")

    def setup(self, m, n, method):
        data = make_group_gaussians(m, n, random_state=0)
        self.prepare(data, FairPCA(10), PCA(10) if method == "PCA" else None)

    peakmem_fit = _Fit.time_fit

    def track_evaluations(self, m, n, method):
        return self.model.n_iter_ if method == "FairPCA" else 0


class Attributes(_Fit):
    """Five attributes of three groups against one, each by itself."""

    params = ([100_000], [50], [1, 5])
    param_names = ("rows", "features", "attributes")

    def setup(self, m, n, n_attributes):
        rng = np.random.default_rng(0)
        groups = rng.integers(0, 3, (m, n_attributes))
        X = rng.standard_normal((m, n)) * 0.9 ** np.arange(n)
        for j, codes in enumerate(groups.T):
            X[:, 3 * j : 3 * j + 3] *= 1 + np.eye(3)[codes] / 2
        self.model = FairPCA(10, attributes="each")
        self.run = partial(self.model.fit, X, sensitive_features=groups)
        model = self.run()
        largest = max(np.hstack(model.group_losses_))
        if not (model.converged_ and model.duality_gap_ <= 1e-8 * largest):
            raise RuntimeError(f"losses {model.group_losses_}")

    peakmem_fit = _Fit.time_fit


class Features(_Fit):
    """Many dense features: few large eigenproblems."""

    params = ([1000, 2000], [20, 100], ["FairPCA", "PCA"])
    param_names = ("features", "components", "method")

    def setup(self, n, r, method):
        data = make_group_gaussians(5000, n, random_state=0)
        peer = PCA(r, svd_solver="covariance_eigh") if method == "PCA" else None
        self.prepare(data, FairPCA(r, solver="gram"), peer)

    def track_products(self, n, r, method):
        return self.model.n_products_ if method == "FairPCA" else 0

    def track_ratio_gap(self, n, r, method):
        return self.model.fairness_ratio_gap_ if method == "FairPCA" else 0


class Documents(_Fit):
    """Sparse rows of many features, never densified and no covariance formed."""

    params = (["FairPCA", "PCA"],)
    param_names = ("method",)
    shape, n_components = (20_000, 10_000), 10

    def setup(self, method):
        r = self.n_components
        data = make_topic_documents(*self.shape, density=1e-3, random_state=0)
        peer = PCA(r, svd_solver="arpack", random_state=0) if method == "PCA" else None
        self.prepare(data, FairPCA(r, solver="matrix_free"), peer)

    peakmem_fit = _Fit.time_fit

    def track_products(self, method):
        return self.model.n_products_ if method == "FairPCA" else 0
