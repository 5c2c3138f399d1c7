"""Fair linear classifiers and the loss alone; a wrong answer raises in setup."""

from functools import partial

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from scalefair.linear_model import (
    PairwiseFairClassifier,
    PartiallyFairClassifier,
    PenalizedPartialParityClassifier,
    partial_fairness_path,
)

CONSTRAINTS = ["group_auc", "inter_group", "intra_group"]


def _rows(m, n, density):
    """Rows of two groups, one of which is scored higher by the labels."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((m, n), density=density, rng=rng, format="csr")
    groups = rng.integers(2, size=m)
    scores = X @ rng.standard_normal(n) + 0.5 * groups
    y = scores + 0.3 * rng.standard_normal(m) > np.quantile(scores, 0.75)
    return X if density < 1 else X.toarray(), y, groups


class PartiallyFair:
    """Parity in an interval of ranks: the measured gap, and the surrogate's alone.

    One fit, among the rows of a label too, by the paper's method from both starts, and
    a path of five gaps by each.
    """

    params = (
        [30_000, 300_000],
        ["fit", "positive", "label", "path", "auto", "zero", "paper's path"],
    )
    param_names = ("rows", "way")
    timeout = 600

    def setup(self, m, way):
        X, y, groups = _rows(m, 120, 0.1)
        options = {"interval": (0.05, 0.3), "n_thresholds": 25, "alpha": 1e-4}
        rows = {"X": X, "y": y, "sensitive_features": groups}
        if way in ("positive", "label"):
            options["given"] = way
        elif way not in ("fit", "path"):
            options["surrogate_width"] = 1.0
        if "path" in way:
            kappas = (0.02, 0.05, 0.1, 0.2, 0.3)
            self.run = partial(partial_fairness_path, **rows, kappas=kappas, **options)
        else:
            start = "zero" if way == "zero" else "auto"
            model = PartiallyFairClassifier(kappa=0.02, start=start, **options)
            self.run = lambda: [model.fit(**rows)]
        self.models = self.run()
        if not all(model.converged_ for model in self.models):
            raise RuntimeError(f"residuals {[m.kkt_residual_ for m in self.models]}")
        gaps = [model.partial_parity_gap_ / model.kappa for model in self.models]
        if "surrogate_width" not in options and max(gaps) > 1.05:
            raise RuntimeError(f"gaps are {gaps} times kappa")

    def time_fit(self, m, way):
        self.run()

    peakmem_fit = time_fit

    def track_oracle_calls(self, m, way):
        return sum(model.n_oracle_calls_ for model in self.models)

    def track_gap(self, m, way):
        return self.models[0].partial_parity_gap_


class Pairwise:
    """Sparse rows under constraints on pairs, against plain logistic regression."""

    params = ([30_000, 300_000], [*CONSTRAINTS, "none"])
    param_names = ("rows", "constraint")
    timeout = 600

    def setup(self, m, constraint):
        self.X, self.y, self.groups = _rows(m, 120, 0.1)
        if constraint == "none":
            self.model = LogisticRegression(C=np.inf, tol=1e-4, max_iter=1000)
            self.kwargs = {}
        else:
            self.model = PairwiseFairClassifier(constraint, 0.5)
            self.kwargs = {"sensitive_features": self.groups}
        self.model.fit(self.X, self.y, **self.kwargs)
        if constraint != "none" and not self.model.converged_:
            raise RuntimeError(f"residual {self.model.kkt_residual_}")

    def time_fit(self, m, constraint):
        self.model.fit(self.X, self.y, **self.kwargs)

    peakmem_fit = time_fit

    def track_oracle_calls(self, m, constraint):
        return 0 if constraint == "none" else self.model.n_oracle_calls_


class ManyFeatures:
    """More features than second moments are formed for."""

    timeout = 600

    def setup(self):
        self.X, self.y, self.groups = _rows(20_000, 5_000, 0.002)
        self.model = PairwiseFairClassifier("inter_group", 0.5, alpha=1e-3)
        self.time_fit()
        if not self.model.converged_:
            raise RuntimeError(f"residual {self.model.kkt_residual_}")

    def time_fit(self):
        self.model.fit(self.X, self.y, sensitive_features=self.groups)

    peakmem_fit = time_fit


class Penalized:
    """A hundred steps of subgradient descent."""

    params = (["strong", "weak"], ["sparse", "dense"])
    param_names = ("criterion", "rows")
    timeout = 600

    def setup(self, criterion, rows):
        density = 0.1 if rows == "sparse" else 1.0
        self.X, self.y, self.groups = _rows(30_000, 120, density)
        self.model = PenalizedPartialParityClassifier(
            (0.05, 0.30), 0.05, criterion=criterion, learning_rate=0.01, max_iter=100
        )
        self.time_fit(criterion, rows)
        if self.model.objective_ >= self.model.history_[0]:
            raise RuntimeError("the objective did not fall")

    def time_fit(self, criterion, rows):
        self.model.fit(self.X, self.y, sensitive_features=self.groups)
