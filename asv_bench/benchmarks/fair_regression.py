"""Fair regression against a forward pass; a gap above its bound raises in setup."""

import numpy as np
from sklearn.neural_network import MLPRegressor

from scalefair.metrics import statistical_parity_ks
from scalefair.postprocessing import (
    DiscretizedTransportRegressor,
    ExplainableSVDRegressor,
    WassersteinBarycenterRegressor,
)


def _network(width, n_rows):
    """Rows of two groups and a network trained on some of them."""
    rng = np.random.default_rng(0)
    groups = rng.integers(2, size=n_rows)
    X = rng.standard_normal((n_rows, 16)) + 0.5 * groups[:, None]
    X[:, 1] *= 1 + groups
    y = X[:, 0] + np.sin(X[:, 1]) + 0.1 * rng.standard_normal(n_rows)
    net = MLPRegressor(hidden_layer_sizes=(width,) * 4, random_state=0)
    for _ in range(3):
        net.partial_fit(X[:5000], y[:5000])
    return net, X, y, groups


class Layer:
    """The second-last layer changed and the last refitted, against one prediction."""

    params = ([64, 256], [20_000, 100_000], ["direct", "explainable_svd"])
    param_names = ("width", "rows", "method")
    timeout = 300

    def setup(self, width, rows, method):
        self.net, self.X, self.y, self.groups = _network(width, rows)
        self.model = ExplainableSVDRegressor(self.net, method=method)
        self.time_fit(width, rows, method)
        share = self.model.mean_gap_after_ / self.model.mean_gap_before_
        if not (self.model.converged_ and share <= 15**-0.5 + 1e-6):
            raise RuntimeError(f"mean gap {share} of what it was")

    def time_fit(self, width, rows, method):
        self.model.fit(self.X, self.y, sensitive_features=self.groups)

    def time_predict_alone(self, width, rows, method):
        self.net.predict(self.X)

    peakmem_fit = time_fit

    def track_output_change(self, width, rows, method):
        return self.model.output_change_

    def track_ks(self, width, rows, method):
        return statistical_parity_ks(
            self.model.predict(self.X), sensitive_features=self.groups
        )


class Comparators:
    """Scores of a million rows moved group by group."""

    params = (["barycenter", "transport"],)
    param_names = ("method",)
    timeout = 300

    def setup(self, method):
        rng = np.random.default_rng(0)
        self.groups = rng.integers(3, size=1_000_000)
        self.scores = rng.standard_normal((1_000_000, 1)) + self.groups[:, None]
        kind = WassersteinBarycenterRegressor
        if method == "transport":
            kind = DiscretizedTransportRegressor
        self.model = kind(_Identity(), group_predictor=False, random_state=0)
        self.time_fit(method)

    def time_fit(self, method):
        self.model.fit(self.scores, sensitive_features=self.groups)

    def time_predict(self, method):
        self.model.predict(self.scores, sensitive_features=self.groups)


class _Identity:
    """The only column is the score."""

    def predict(self, X):
        return X[:, 0]
