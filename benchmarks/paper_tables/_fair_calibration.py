"""Fair calibration against other classifiers: tables, splits, methods, measures."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Self

import numpy as np
from _command import data_file
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scalefair.datasets import (
    fetch_a9a,
    fetch_bank_additional,
    fetch_compas,
    fetch_law_school,
    make_biased_rows,
)
from scalefair.linear_model import PartiallyFairClassifier
from scalefair.metrics import partial_demographic_parity_gap
from scalefair.postprocessing import FairCalibratedClassifier

NAMES = ("a9a", "bank", "census", "compas", "law", "compas-all", "census-all")
INTERVALS = ((0.05, 0.3), (0.0, 1.0))
KAPPAS = (0.0, 0.02, 0.05, 0.1, 0.2)
_QUICK_ROWS = 1500


# -- Tables -------------------------------------------------------------------------


@cache
def read(name: str, quick: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read dense rows, labels 0 and 1, and group codes; "-all" has several groups."""
    if quick:
        n_groups = 4 if name.endswith("-all") else 2
        data = make_biased_rows(_QUICK_ROWS, 6, n_groups=n_groups, random_state=0)
        X, y, groups = data.data, data.target, data.sensitive_features
    elif name.startswith("census"):
        X, y, groups = _census("race" if name.endswith("-all") else "sex")
    else:
        options: dict[str, Any] = {"download_if_missing": False}
        if name == "compas-all":
            options["groups"] = "all"
        fetch = {
            "a9a": fetch_a9a,
            "bank": fetch_bank_additional,
            "law": fetch_law_school,
        }.get(name, fetch_compas)
        data = fetch(**options)
        X, y, groups = data.data, data.target, data.sensitive_features
        if name == "a9a":
            X = np.vstack([X.toarray(), data.data_test.toarray()])
            y = np.append(y, data.target_test)
            groups = np.append(groups, data.sensitive_features_test)
    return X, (y == y.max()).astype(int), np.unique(groups, return_inverse=True)[1]


def _census(attribute: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Adult census data: numbers, and an indicator of each category."""
    import pandas as pd

    path = data_file("census-adult", "adult.csv.gz")
    rows = pd.read_csv(path, skipinitialspace=True)
    y = rows.pop("income").str.contains(">50K").to_numpy()
    groups = rows.pop(attribute).to_numpy()
    return pd.get_dummies(rows).to_numpy(np.float64), y.astype(int), groups


class Split:
    """One random split of a table, 70:30, and what is fitted once for all kappas."""

    def __init__(self, name: str, number: int, quick: bool) -> None:
        self.name, self.number = name, number
        X, y, codes = read(name, quick)
        order = np.random.RandomState(number).permutation(len(y))
        train, test = np.split(order, [int(0.7 * len(y))])
        self.X, self.y, self.codes = X[train], y[train], codes[train]
        self.X_test, self.y_test, self.codes_test = X[test], y[test], codes[test]
        self._scores: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    @cached_property
    def plain(self) -> Any:
        """Fit logistic regression."""
        return logistic().fit(self.X, self.y)

    def scores(self, name: str, *, crossed: bool) -> tuple[np.ndarray, np.ndarray]:
        """Score the rows of training, by models that know others or not, and of test.

        Two columns: decisions (probabilities, if there are none) and probabilities.
        """
        key = f"{name} {crossed}"
        if key not in self._scores:
            X, X_test = self.X, self.X_test
            if name == BY_GROUP:
                X = np.column_stack([X, self.codes])
                X_test = np.column_stack([X_test, self.codes_test])
            model = ESTIMATORS[name]()
            method = "decision_function"
            if not hasattr(model, method):
                method = "predict_proba"
            fitted = model.fit(X, self.y)
            train_scores = getattr(fitted, method)(X)
            if crossed:
                train_scores = cross_val_predict(model, X, self.y, method=method)
            both = (train_scores, getattr(fitted, method)(X_test))
            self._scores[key] = tuple(_two_columns(s) for s in both)
        return self._scores[key]


def _two_columns(scores: np.ndarray) -> np.ndarray:
    if scores.ndim == 2:
        return scores[:, [1, 1]]
    return np.column_stack([scores, expit(scores)])


# -- Classifiers --------------------------------------------------------------------


def logistic() -> Any:
    """Logistic regression of standardised features."""
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


class GroupwiseClassifier(ClassifierMixin, BaseEstimator):
    """Logistic regression for each group, whose code is the last feature."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Fit a model to each group."""
        self.classes_ = np.unique(y)
        codes = X[:, -1]
        self.models_ = {
            code: logistic().fit(X[codes == code, :-1], y[codes == code])
            for code in np.unique(codes)
        }
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """Score each row by its group's model."""
        scores = np.empty(len(X))
        for code in np.unique(X[:, -1]):
            members = X[:, -1] == code
            scores[members] = self.models_[code].decision_function(X[members, :-1])
        return scores

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the larger label where the decision is positive."""
        return self.classes_[(self.decision_function(X) > 0).astype(int)]


class Scores(ClassifierMixin, BaseEstimator):
    """A classifier whose decisions and probabilities are its two features."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Learn the labels."""
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """Return the first feature."""
        return X[:, 0]

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return the second feature as a probability."""
        return np.column_stack([1 - X[:, 1], X[:, 1]])


LOGISTIC, BY_GROUP = "LR", "LR by group"
BOOSTING, STOPPED, FOREST = "boosting", "boosting (early stopping)", "forest"
ESTIMATORS: dict[str, Callable[[], Any]] = {
    LOGISTIC: logistic,
    BY_GROUP: GroupwiseClassifier,
    BOOSTING: lambda: HistGradientBoostingClassifier(
        early_stopping=False, random_state=0
    ),
    STOPPED: lambda: HistGradientBoostingClassifier(random_state=0),
    FOREST: lambda: RandomForestClassifier(random_state=0),
}


# -- Methods ------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What a method with a kappa gives: decisions, positive for 1, and probabilities.

    Without probabilities they are the logistic function of the decisions.
    """

    kappa: float | None
    decisions: np.ndarray
    test: np.ndarray
    test_probabilities: np.ndarray | None = None


Interval = tuple[float, float]
Method = Callable[[Split, Interval, tuple[float, ...]], Iterator[Outcome]]
PLAIN, REPAIR = "logistic regression", "quantile repair of LR"
LINEAR, BLIND = "linear", "linear (blind)"
BARYCENTRE = "barycentre of LR"
REWEIGHED, RESIDUALS = "reweighed LR", "LR of residuals"
THRESHOLDS, REDUCTION = "ThresholdOptimizer", "ExponentiatedGradient"


def plain(split: Split, interval: Interval, kappas: Any) -> Iterator[Outcome]:
    """Logistic regression."""
    scores, test = split.scores(LOGISTIC, crossed=False)
    yield Outcome(None, scores[:, 0], test[:, 0])


def repair(split: Split, interval: Interval, kappas: Any) -> Iterator[Outcome]:
    """Logistic regression; each score becomes the pooled one at its group's rank."""
    scores, test = (s[:, 0] for s in split.scores(LOGISTIC, crossed=False))
    parts = ((scores, split.codes), (test, split.codes_test))
    yield Outcome(None, *(_repaired(scores, split.codes, *p, interval) for p in parts))


def reweighed(split: Split, interval: Interval, kappas: Any) -> Iterator[Outcome]:
    """Logistic regression of rows weighted as if label and group were independent.

    Kamiran and Calders (2012).
    """
    cells = 2 * split.codes + split.y
    sizes = np.bincount(cells, minlength=2 * (split.codes.max() + 1)).astype(float)
    expected = np.bincount(split.codes)[:, None] * np.bincount(split.y) / len(cells)
    weights = (expected.ravel() / np.maximum(sizes, 1.0))[cells]
    model = logistic()
    model.fit(split.X, split.y, logisticregression__sample_weight=weights)
    yield Outcome(None, *map(model.decision_function, (split.X, split.X_test)))


def residuals(split: Split, interval: Interval, kappas: Any) -> Iterator[Outcome]:
    """Logistic regression of what group means do not explain of the features."""
    means = np.array(
        [split.X[split.codes == k].mean(axis=0) for k in range(split.codes.max() + 1)]
    )
    X, X_test = split.X - means[split.codes], split.X_test - means[split.codes_test]
    model = logistic().fit(X, split.y)
    yield Outcome(None, *map(model.decision_function, (X, X_test)))


def _repaired(
    fitted: np.ndarray,
    fitted_codes: np.ndarray,
    scores: np.ndarray,
    codes: np.ndarray,
    interval: Interval,
) -> np.ndarray:
    """Replace scores within the ranks of the interval; the others stay outside it."""
    pooled, new = np.sort(fitted), scores.copy()

    def quantile(rank: Any) -> Any:  # from the top
        return np.interp(1 - rank, _middles(len(pooled)), pooled)

    for k in np.unique(codes):
        members = codes == k
        values = np.sort(fitted[fitted_codes == k])
        ranks = 1 - np.interp(scores[members], values, _middles(len(values)))
        low, high = interval
        new[members] = np.select(
            [ranks < low, ranks < high],
            [np.maximum(scores[members], quantile(low)), quantile(ranks)],
            np.minimum(scores[members], quantile(high)),
        )
    return new


def _middles(n: int) -> np.ndarray:
    return (np.arange(n) + 0.5) / n


def calibrated(name: str, *, crossed: bool = True, target: str = "labels") -> Method:
    """FairCalibratedClassifier around scores, which are the same for all kappas."""

    def method(split: Split, interval: Interval, kappas: Any) -> Iterator[Outcome]:
        scores, test = split.scores(name, crossed=crossed)
        estimator = Scores().fit(scores, split.y)
        for kappa in kappas if target == "labels" else (0.0,):
            model = FairCalibratedClassifier(
                estimator, interval, kappa, target=target, cv="prefit"
            ).fit(scores, split.y, sensitive_features=split.codes)
            yield Outcome(
                kappa,
                model.decision_function(scores, sensitive_features=split.codes),
                model.decision_function(test, sensitive_features=split.codes_test),
                model.predict_proba(test, sensitive_features=split.codes_test)[:, 1],
            )

    return method


def linear(*, interactions: bool) -> Method:
    """PartiallyFairClassifier."""

    def method(split: Split, interval: Interval, kappas: Any) -> Iterator[Outcome]:
        for kappa in filter(None, kappas):  # 0 is out of its range
            model = PartiallyFairClassifier(interval, kappa, interactions=interactions)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(split.X, split.y, sensitive_features=split.codes)
            parts = ((split.X, split.codes), (split.X_test, split.codes_test))
            yield Outcome(
                kappa,
                *(
                    model.decision_function(X, sensitive_features=codes)
                    if interactions
                    else model.decision_function(X)
                    for X, codes in parts
                ),
            )

    return method


def thresholds(split: Split, interval: Interval, kappas: Any) -> Iterator[Outcome]:
    """Fairlearn's (randomised) thresholds by group for logistic regression."""
    from fairlearn.postprocessing import ThresholdOptimizer

    if interval != (0.0, 1.0):
        return
    model = ThresholdOptimizer(
        estimator=split.plain, prefit=True, predict_method="predict_proba"
    ).fit(split.X, split.y, sensitive_features=split.codes)
    parts = ((split.X, split.codes), (split.X_test, split.codes_test))
    yield Outcome(
        0.0,
        *(
            model.predict(X, sensitive_features=codes, random_state=0) - 0.5
            for X, codes in parts
        ),
    )


def reduction(split: Split, interval: Interval, kappas: Any) -> Iterator[Outcome]:
    """Fairlearn's reduction, blind to the group: the share of positive predictions."""
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient

    if interval != (0.0, 1.0):
        return
    for kappa in (0.02, 0.1):
        model = ExponentiatedGradient(
            logistic(),
            DemographicParity(difference_bound=kappa),
            max_iter=20,
            sample_weight_name="logisticregression__sample_weight",
        ).fit(split.X, split.y, sensitive_features=split.codes)
        shares = [model._pmf_predict(X)[:, 1] for X in (split.X, split.X_test)]
        yield Outcome(kappa, *(share - 0.5 for share in shares), shares[1])


METHODS: dict[str, Method] = {
    PLAIN: plain,
    REPAIR: repair,
    REWEIGHED: reweighed,
    RESIDUALS: residuals,
    "calibrated LR": calibrated(LOGISTIC),
    "calibrated LR by group": calibrated(BY_GROUP),
    "calibrated boosting": calibrated(BOOSTING),
    "calibrated boosting (early stopping)": calibrated(STOPPED),
    "calibrated forest": calibrated(FOREST),
    "calibrated forest (not cross-fitted)": calibrated(FOREST, crossed=False),
    BARYCENTRE: calibrated(LOGISTIC, target="scores"),
    LINEAR: linear(interactions=True),
    BLIND: linear(interactions=False),
    THRESHOLDS: thresholds,
    REDUCTION: reduction,
}


# -- Measures -----------------------------------------------------------------------


def measures(split: Split, interval: Interval, outcome: Outcome) -> dict[str, float]:
    """Measure accuracy and gaps of an outcome, and losses that see the ranks.

    The gap of labels is that of their one threshold, over all ranks.
    """

    def gap(decisions: np.ndarray, codes: np.ndarray) -> float:
        return float(
            partial_demographic_parity_gap(
                decisions, sensitive_features=codes, interval=interval
            )
        )

    probabilities = outcome.test_probabilities
    if probabilities is None:
        probabilities = expit(outcome.test)
    probabilities = np.clip(probabilities, 0.0, 1.0)  # rounding
    labels = outcome.test > 0
    sizes = np.bincount(split.codes_test)
    return {
        "accuracy": float(np.mean(labels == split.y_test)),
        "gap": gap(outcome.test, split.codes_test),
        "label gap": float(np.ptp(np.bincount(split.codes_test, labels) / sizes)),
        "fit gap": gap(outcome.decisions, split.codes),
        "log-loss": float(log_loss(split.y_test, probabilities)),
        "AUC": float(roc_auc_score(split.y_test, outcome.test)),
        "AUC of ranks": auc_of_ranks(split.y_test, outcome.test, interval),
    }


def auc_of_ranks(y: np.ndarray, scores: np.ndarray, interval: Interval) -> float:
    """AUC of the ranks of an interval; of all ranks it is the AUC.

    With R(p) the share of the positive rows found among the share p of highest
    scores, the mean over the interval of R(p) - p, divided by that of a perfect
    ranking, is the accuracy ratio 2 AUC - 1 of all ranks.
    """
    values, blocks = np.unique(-scores, return_inverse=True)
    counts = np.bincount(blocks, minlength=len(values))
    positives = np.bincount(blocks, y, len(values))
    ranks = np.append(0.0, np.cumsum(counts) / len(y))
    recall = np.append(0.0, np.cumsum(positives) / y.sum())
    rate = y.mean()
    grid = np.union1d(np.clip(np.append(ranks, rate), *interval), interval)
    gained = np.trapezoid(np.interp(grid, ranks, recall) - grid, grid)
    best = np.trapezoid(np.minimum(grid / rate, 1.0) - grid, grid)
    return float(0.5 + 0.5 * gained / best)


def null_gap(split: Split, interval: Interval) -> float:
    """Gap that noise makes of a fair score: of the rows of test, and of training."""
    scores, _ = split.scores(LOGISTIC, crossed=False)
    model = FairCalibratedClassifier(
        Scores().fit(scores, split.y), interval, cv="prefit"
    ).fit(scores, split.y, sensitive_features=split.codes)
    return float(model.null_gap(len(split.y_test)))
