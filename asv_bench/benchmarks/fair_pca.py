"""Fair PCA beside scikit-learn's PCA; a wrong answer raises in setup."""

from sklearn.decomposition import PCA

from scalefair.datasets import make_group_gaussians, make_topic_documents
from scalefair.decomposition import FairPCA


def _check(model):
    if not (model.converged_ and model.fairness_ratio_gap_ <= 1e-8):
        raise RuntimeError(f"losses {model.group_losses_}")


class Rows:
    """Dense rows: one pass, then a problem of the size of the features."""

    params = ([100_000, 1_000_000], [50], ["FairPCA", "PCA"])
    param_names = ("rows", "features", "method")
    timeout = 300

    def setup(self, m, n, method):
        data = make_group_gaussians(m, n, random_state=0)
        self.X, self.groups = data.data, data.sensitive_features
        self.model = FairPCA(10)
        _check(self.model.fit(self.X, sensitive_features=self.groups))

    def _fit(self, method):
        if method == "PCA":
            return PCA(10).fit(self.X)
        return self.model.fit(self.X, sensitive_features=self.groups)

    def time_fit(self, m, n, method):
        self._fit(method)

    def peakmem_fit(self, m, n, method):
        self._fit(method)

    def track_evaluations(self, m, n, method):
        return self.model.n_iter_ if method == "FairPCA" else 0


class Features:
    """Many dense features: few large eigenproblems."""

    params = ([1000, 2000], [20, 100])
    param_names = ("features", "components")
    timeout = 300

    def setup(self, n, r):
        data = make_group_gaussians(5000, n, random_state=0)
        self.X, self.groups = data.data, data.sensitive_features
        self.model = FairPCA(r, solver="gram")
        _check(self.model.fit(self.X, sensitive_features=self.groups))

    def time_fit(self, n, r):
        self.model.fit(self.X, sensitive_features=self.groups)

    def track_products(self, n, r):
        return self.model.n_products_

    def track_ratio_gap(self, n, r):
        return self.model.fairness_ratio_gap_


class Documents:
    """Sparse rows of many features, never densified and no covariance formed."""

    params = (["FairPCA", "PCA"],)
    param_names = ("method",)
    timeout = 600

    def setup(self, method):
        data = make_topic_documents(20_000, 10_000, density=1e-3, random_state=0)
        self.X, self.groups = data.data, data.sensitive_features
        self.model = FairPCA(10, solver="matrix_free")
        _check(self.model.fit(self.X, sensitive_features=self.groups))

    def _fit(self, method):
        if method == "PCA":
            return PCA(10, svd_solver="arpack", random_state=0).fit(self.X)
        return self.model.fit(self.X, sensitive_features=self.groups)

    def time_fit(self, method):
        self._fit(method)

    def peakmem_fit(self, method):
        self._fit(method)

    def track_products(self, method):
        return self.model.n_products_ if method == "FairPCA" else 0
