"""Measures of partial and pairwise fairness, against other ways to compute them."""

import numpy as np
import pandas
from scipy.stats import ks_2samp, mannwhitneyu
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import roc_auc_score

from scalefair.metrics import (
    group_auc_gap,
    inter_group_pairwise_gap,
    intra_group_pairwise_gap,
    partial_demographic_parity_gap,
    partial_equalized_odds_gap,
)
from scalefair.optimize import parity_isotonic_regression


def scored_rows(m, n_groups=2, ties=False):
    """Scores, labels and groups of m rows; ties leaves a thousand distinct scores."""
    rng = np.random.default_rng(0)
    groups = rng.integers(0, n_groups, m)
    y_true = rng.integers(0, 2, m)
    scores = rng.standard_normal(m) + 0.3 * groups / n_groups + y_true
    if ties:
        scores = np.round(scores, 2)
    return y_true, scores, groups


def isotonic_by_group(y, scores, groups):
    fitted = np.empty_like(scores)
    for k in np.unique(groups):
        members = groups == k
        fitted[members] = IsotonicRegression().fit_transform(
            scores[members], y[members]
        )
    return fitted


def kolmogorov_smirnov(y_true, scores, groups):
    return ks_2samp(scores[groups == 0], scores[groups == 1], method="asymp").statistic


def mann_whitney(y_true, scores, groups):
    first, second = scores[groups == 0], scores[groups == 1]
    statistic = mannwhitneyu(first, second, method="asymptotic").statistic
    return abs(statistic / (first.size * second.size) - 0.5)


def difference_of_areas(y_true, scores, groups):
    areas = [
        roc_auc_score(y_true[groups == g], scores[groups == g])
        for g in np.unique(groups)
    ]
    return np.ptp(areas)


OURS = {
    "partial odds": lambda y, s, g: partial_equalized_odds_gap(
        y, s, sensitive_features=g
    ),
    "partial parity": lambda y, s, g: partial_demographic_parity_gap(
        s, sensitive_features=g
    ),
    "group AUC": lambda y, s, g: group_auc_gap(s, sensitive_features=g),
    "intra-group": lambda y, s, g: intra_group_pairwise_gap(y, s, sensitive_features=g),
    "inter-group": lambda y, s, g: inter_group_pairwise_gap(y, s, sensitive_features=g),
}
PEERS = {
    "partial parity": kolmogorov_smirnov,
    "group AUC": mann_whitney,
    "intra-group": difference_of_areas,
}


class TwoGroups:
    params = ([100_000, 1_000_000], list(PEERS), ["ours", "scipy or scikit-learn"])
    param_names = ("n_rows", "gap", "method")
    timeout = 300

    def setup(self, n_rows, gap, method):
        self.rows = scored_rows(n_rows, ties=True)
        expected = PEERS[gap](*self.rows)
        error = abs(OURS[gap](*self.rows) - expected)
        if not error <= 1e-9:
            raise AssertionError(f"error {error:.1e}")
        self.rows = scored_rows(n_rows)

    def time_gap(self, n_rows, gap, method):
        (OURS if method == "ours" else PEERS)[gap](*self.rows)

    peakmem_gap = time_gap


class ManyGroups:
    params = (
        [2, 20, 200],
        ["partial parity", "partial odds", "group AUC", "inter-group"],
    )
    param_names = ("n_groups", "gap")
    timeout = 300

    def setup(self, n_groups, gap):
        y_true, scores, codes = scored_rows(200_000, n_groups)
        # Many different numbers would be refused as a quantity.
        names = [f"group {i}" for i in range(n_groups)]
        self.rows = y_true, scores, pandas.Categorical.from_codes(codes, names)

    def time_gap(self, n_groups, gap):
        OURS[gap](*self.rows)


class Calibration:
    """Isotonic regression under parity; scikit-learn's of each group has no parity."""

    params = ([2, 8], ["labels", "scores"], ["ours", "scikit-learn"])
    param_names = ("n_groups", "target", "method")
    timeout = 300

    def setup(self, n_groups, target, method):
        labels, scores, groups = scored_rows(1_000_000, n_groups)
        self.rows = labels if target == "labels" else scores, scores, groups
        sample = [column[:20_000] for column in self.rows]
        alone = parity_isotonic_regression(*sample, kappa=1.0).fitted
        error = np.abs(alone - isotonic_by_group(*sample)).max()
        fair = parity_isotonic_regression(*sample, kappa=0.05, interval=(0.05, 0.3))
        gap = partial_demographic_parity_gap(
            fair.fitted, sensitive_features=sample[2], interval=(0.05, 0.3)
        )
        if not (error <= 1e-9 and gap <= 0.05 + 1e-12):
            raise AssertionError(f"error {error:.1e}, gap {gap}")

    def time_fit(self, n_groups, target, method):
        if method == "ours":
            options = {"kappa": 0.05, "interval": (0.05, 0.3)}
            parity_isotonic_regression(*self.rows, **options)
        else:
            isotonic_by_group(*self.rows)

    peakmem_fit = time_fit
