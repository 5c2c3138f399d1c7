"""The partially fair classifiers' figure: data, split as in the paper, and methods."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from scalefair.datasets import (
    fetch_a9a,
    fetch_bank_additional,
    fetch_law_school,
    make_biased_rows,
)
from scalefair.linear_model import (
    PairwiseFairClassifier,
    PartiallyFairClassifier,
    PenalizedPartialParityClassifier,
    partial_fairness_path,
)
from scalefair.metrics import (
    partial_demographic_parity_gap,
    weak_partial_demographic_parity_gap,
)

NAMES = {"a9a": "a9a", "bank": "bank-additional", "law": "law school"}
INTERVALS = {"a9a": (0.05, 0.30), "bank": (0.0, 0.25), "law": (0.70, 1.0)}
CRITERIA = ("strong", "weak")
# Shares of training and validation; a9a has a test part of its own.
_SHARES = {"a9a": (0.9, 0.1), "bank": (0.6, 0.2), "law": (0.5625, 0.1875)}
_QUICK_ROWS = 1200


@dataclass(frozen=True)
class Part:
    """Rows, their labels (0 or 1) and their groups."""

    X: Any
    y: np.ndarray
    groups: np.ndarray

    def take(self, rows: np.ndarray) -> Part:
        """Take some of the rows."""
        return Part(self.X[rows], self.y[rows], self.groups[rows])


@dataclass(frozen=True)
class Split:
    """One random split of a data set."""

    name: str
    train: Part
    validation: Part
    test: Part

    @property
    def interval(self) -> tuple[float, float]:
        """Ranks within which the groups are to be treated alike."""
        return INTERVALS[self.name]

    def measure(
        self, scores: np.ndarray, part: Part, criterion: str
    ) -> tuple[float, float]:
        """Accuracy and fairness, one less the gap, of scores of a part."""
        accuracy = float(np.mean((scores > 0) == (part.y == 1)))
        gap = {
            "strong": partial_demographic_parity_gap,
            "weak": weak_partial_demographic_parity_gap,
        }[criterion](scores, sensitive_features=part.groups, interval=self.interval)
        return accuracy, 1.0 - gap


def load(name: str, seed: int, quick: bool) -> Split:
    """Split a data set at random; numbers are scaled by the training rows."""
    rows, test, numeric = _synthetic(name) if quick else _read(name)
    n = rows.y.size
    order = np.random.default_rng(seed).permutation(n)
    shares = _SHARES[name]
    first = round(shares[0] * n)
    second = n if test is not None else round(sum(shares) * n)
    train, validation = rows.take(order[:first]), rows.take(order[first:second])
    held_out = rows.take(order[second:]) if test is None else test
    if numeric:
        X = train.X[:, :numeric]
        mean, scale = X.mean(axis=0), X.std(axis=0)
        scale[scale == 0] = 1.0
        for part in (train, validation, held_out):  # copies of the rows
            part.X[:, :numeric] = (part.X[:, :numeric] - mean) / scale
    return Split(name, train, validation, held_out)


@cache
def _read(name: str) -> tuple[Part, Part | None, int]:
    """Rows, test rows if they are given, and how many columns are numbers."""
    options = {"download_if_missing": False}
    if name == "a9a":
        data = fetch_a9a(**options)
        test = Part(data.data_test, data.target_test, data.sensitive_features_test)
        return Part(data.data, data.target, data.sensitive_features), test, 0
    fetch = {"bank": fetch_bank_additional, "law": fetch_law_school}[name]
    data = fetch(preprocess=False, **options)
    numeric = sum("=" not in feature for feature in data.feature_names)
    return Part(data.data, data.target, data.sensitive_features), None, numeric


@cache
def _synthetic(name: str) -> tuple[Part, Part | None, int]:
    """Rows of the same kind, few enough for seconds."""
    data = make_biased_rows(
        _QUICK_ROWS,
        6,
        density=0.5 if name == "a9a" else 1.0,
        random_state=list(NAMES).index(name),
    )
    rows = Part(data.data, data.target, data.sensitive_features)
    if name != "a9a":
        return rows, None, 6
    half = np.arange(_QUICK_ROWS) < _QUICK_ROWS // 2
    return rows.take(np.flatnonzero(half)), rows.take(np.flatnonzero(~half)), 0


# -- Methods ------------------------------------------------------------------------

OURS = "ours"
PLAIN = "logistic regression"
FAIRLEARN = "fairlearn reductions"
# (criterion, data): gaps allowed, of appendix D.2.
KAPPAS = {
    ("strong", "a9a"): (0.01, 0.05, 0.1, 0.2, 0.28),
    ("strong", "bank"): (0.01, 0.08, 0.22, 0.3),
    ("strong", "law"): (0.005, 0.08, 0.1, 0.15, 0.2),
    ("weak", "a9a"): (0.005, 0.03, 0.05, 0.1, 0.15),
    ("weak", "bank"): (0.01, 0.03, 0.05, 0.07, 0.1),
    ("weak", "law"): (0.005, 0.04, 0.06, 0.1, 0.15),
}
# Bounds on the pairwise surrogates, of appendix D.3.
PAIRWISE = {
    "group_auc": {
        ("strong", "a9a"): (0.7, 1.0, 2.0, 3.5),
        ("strong", "bank"): (0.1, 0.3, 0.56, 0.7, 1.0),
        ("strong", "law"): (0.5, 0.75, 1.15, 1.8, 2.7),
        ("weak", "a9a"): (0.3, 0.4, 0.5, 0.7, 1.0),
        ("weak", "bank"): (0.06, 0.5, 2.35, 2.62, 3.28, 4.0),
        ("weak", "law"): (1.0, 3.0, 4.0, 5.0, 6.0, 10.0),
    },
    "inter_group": {
        ("strong", "a9a"): (1.5, 3.0, 3.5, 6.0),
        ("strong", "bank"): (1.5, 1.8, 2.0, 3.0),
        ("strong", "law"): (0.4, 1.6, 2.4, 4.0),
        ("weak", "a9a"): (0.9, 1.2, 1.5, 2.0, 2.7),
        ("weak", "bank"): (0.3, 1.0, 5.0, 5.4, 6.0),
        ("weak", "law"): (2.0, 6.5, 8.0, 9.0, 10.0, 15.0),
    },
    "intra_group": {
        ("strong", "a9a"): (3.0, 5.0, 8.0),
        ("strong", "bank"): (2.0, 3.0, 4.0),
        ("strong", "law"): (3.0, 5.0, 10.0),
        ("weak", "a9a"): (0.7, 1.0, 1.3, 1.7, 2.2),
        ("weak", "bank"): (0.1, 0.3, 0.42, 0.5, 1.0, 2.5),
        ("weak", "law"): (0.1, 0.8, 2.0, 3.5, 10.0),
    },
}
# Prices of the gap, of appendix D.4.
PENALTIES = {
    ("strong", "a9a"): (0.2, 0.3, 0.37, 1.0),
    ("strong", "bank"): (0.4, 0.405, 0.41, 1.0, 1.5),
    ("strong", "law"): (0.39, 0.4, 0.5, 0.8, 1.5),
    ("weak", "a9a"): (0.13, 0.17, 0.2, 0.23, 1.0),
    ("weak", "bank"): (0.005, 0.015, 0.018, 0.1, 2.0),
    ("weak", "law"): (0.001, 0.01, 1.0),
}
# Wider gaps: the paper's leave most of the way to the classifier without constraints
# empty, where comparators have points.
WIDER = {"strong": (0.4, 0.6, 0.8), "weak": (0.25, 0.4, 0.6)}
# Bounds of demographic parity in fairlearn's reductions.
_BOUNDS = (0.005, 0.02, 0.05, 0.1, 0.15)


@dataclass(frozen=True)
class Effort:
    """How long the slow methods may take."""

    alphas: tuple[float, ...] = (0.0, 1e-4, 1e-3)
    thresholds: tuple[int, ...] = (10, 25)
    path_iterations: int = 300
    pairwise_updates: int = 50
    descent_steps: int = 1000
    descent_rates: tuple[float, ...] = (0.02, 0.1)
    direct_steps: int = 1500
    ssg_steps: int = 9000
    reductions: int = 20
    # Settings of each method; None takes all.
    n_settings: int | None = None


QUICK = Effort(
    alphas=(0.0,),
    thresholds=(10,),
    path_iterations=10,
    pairwise_updates=1,
    descent_steps=40,
    descent_rates=(0.1,),
    direct_steps=150,
    ssg_steps=300,
    reductions=3,
    n_settings=1,
)
Scores = Callable[[Part], np.ndarray]


@dataclass(frozen=True)
class Point:
    """A setting of a method: (accuracy, fairness) on validation and test rows."""

    setting: str
    validation: tuple[float, float]
    test: tuple[float, float]


Method = Callable[[Split, str, Effort], list[Point]]


def methods(ssg: bool) -> dict[str, Method]:
    """All methods by their names; ours first."""
    chosen: dict[str, Method] = {
        OURS: _ours,
        PLAIN: _plain,
        "group AUC": _pairwise("group_auc"),
        "inter-group pairwise": _pairwise("inter_group"),
        "intra-group pairwise": _pairwise("intra_group"),
        "penalty": _penalty,
        "direct SSG": _subgradients("direct", "direct_steps"),
    }
    if ssg:
        chosen["IDCA with SSG"] = _subgradients("ssg", "ssg_steps")
    if importlib.util.find_spec("fairlearn") is not None:
        chosen[FAIRLEARN] = _reductions
    return chosen


def most_accurate_shift(scores: np.ndarray, y: np.ndarray) -> float:
    """Shift of the scores that classifies most rows right, zero if none is better."""
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    right = np.concatenate([[0], np.cumsum(np.where(y[order] == 1, -1, 1))])
    # A cut between equal scores cannot be made.
    possible = np.concatenate([[True], ordered[1:] > ordered[:-1], [True]])
    now = np.searchsorted(ordered, 0.0, side="right")
    best = right[possible].max()
    if right[now] >= best:
        return 0.0
    padded = np.concatenate([[ordered[0] - 2.0], ordered, [ordered[-1] + 2.0]])
    cuts = (padded[:-1] + padded[1:]) / 2
    cuts = cuts[possible & (right == best)]
    return -float(cuts[np.abs(cuts).argmin()])


def point(split: Split, criterion: str, setting: float | str, scores: Scores) -> Point:
    """Measure scores; for the strong criterion after the most accurate shift."""
    shift = 0.0
    if criterion == "strong":
        shift = most_accurate_shift(scores(split.train), split.train.y)
    validation, test = (
        split.measure(scores(part) + shift, part, criterion)
        for part in (split.validation, split.test)
    )
    name = setting if isinstance(setting, str) else f"{setting:g}"
    return Point(name, validation, test)


def _scores(model: Any) -> Scores:
    return lambda part: np.asarray(
        model.decision_function(part.X, sensitive_features=part.groups)
    )


def fit(model: Any, split: Split) -> Any:
    """Train on the training rows."""
    train = split.train
    return model.fit(train.X, train.y, sensitive_features=train.groups)


def _ours(split: Split, criterion: str, effort: Effort) -> list[Point]:
    """Paths with several hyper-parameters, one front chosen by validation.

    For each kappa the path without ridge and with ten thresholds says how fair a
    classifier is to be; of all that are as fair on the validation rows the most
    accurate one there is taken. The last point is the fairest.
    """
    kappas = KAPPAS[criterion, split.name] + WIDER[criterion]
    kappas = kappas[: effort.n_settings]
    thresholds = effort.thresholds if criterion == "strong" else effort.thresholds[:1]
    paths = []
    for n, alpha in itertools.product(thresholds, effort.alphas):
        models = partial_fairness_path(
            split.train.X,
            split.train.y,
            sensitive_features=split.train.groups,
            kappas=kappas,
            interval=split.interval,
            criterion=criterion,
            surrogate_width=1.0,
            alpha=alpha,
            n_thresholds=n,
            start="zero",
            max_iter=effort.path_iterations,
        )
        pairs = zip(kappas, models, strict=True)
        paths.append([point(split, criterion, k, _scores(model)) for k, model in pairs])
    pool = [*(p for path in paths for p in path), *_plain(split, criterion, effort)]
    return select(paths[0], pool)


def select(floors: Iterable[Point], pool: list[Point]) -> list[Point]:
    """Of those in the pool as fair as a floor the most accurate, on validation rows."""
    chosen = []
    for floor in floors:
        fair = [p for p in pool if p.validation[1] >= floor.validation[1]]
        best = max(fair, key=lambda p: p.validation)
        chosen.append(Point(floor.setting, best.validation, best.test))
    fairest = max(pool, key=lambda p: p.validation[::-1])
    return [*chosen, Point("fairest", fairest.validation, fairest.test)]


def _design(part: Part, groups: np.ndarray) -> Any:
    """Columns (x, z, z x) for indicators z of all groups but the first."""
    blocks = [sparse.csr_array(part.X)]
    for group in groups[1:]:
        z = sparse.csr_array((part.groups == group).astype(float)[:, None])
        blocks += [z, z * blocks[0]]
    X = sparse.hstack(blocks, format="csr")
    return X if sparse.issparse(part.X) else X.toarray()


def _plain(split: Split, criterion: str, effort: Effort) -> list[Point]:
    """No constraints: where all fronts of the paper's figure start."""
    groups = np.unique(split.train.groups)
    # All but unpenalised: a ridge of 1e-6 beside the mean loss.
    model = LogisticRegression(C=1e6 / split.train.y.size, max_iter=2000)
    model.fit(_design(split.train, groups), split.train.y)
    return [
        point(
            split,
            criterion,
            "unconstrained",
            lambda part: model.decision_function(_design(part, groups)),
        )
    ]


def _pairwise(constraint: str) -> Method:
    def run(split: Split, criterion: str, effort: Effort) -> list[Point]:
        points = []
        kappas = PAIRWISE[constraint][criterion, split.name]
        for kappa in kappas[: effort.n_settings]:
            model = PairwiseFairClassifier(
                constraint, kappa, max_iter=effort.pairwise_updates
            )
            scores = _scores(fit(model, split))
            points.append(point(split, criterion, kappa, scores))
        return points

    return run


def _penalty(split: Split, criterion: str, effort: Effort) -> list[Point]:
    """Subgradient descent; of two rates the more accurate one on validation rows."""
    points = []
    for penalty in PENALTIES[criterion, split.name][: effort.n_settings]:
        tried = []
        for rate in effort.descent_rates:
            model = PenalizedPartialParityClassifier(
                split.interval,
                penalty,
                criterion=criterion,
                learning_rate=rate,
                max_iter=effort.descent_steps,
            )
            scores = _scores(fit(model, split))
            tried.append(point(split, criterion, penalty, scores))
        points.append(max(tried, key=lambda p: p.validation))
    return points


def classifier(
    split: Split, criterion: str, kappa: float, inner_solver: str, n_steps: int
) -> PartiallyFairClassifier:
    """Untrained classifier with the subgradient methods, steps in units of 150."""
    return PartiallyFairClassifier(
        split.interval,
        kappa,
        criterion=criterion,
        surrogate_width=1.0,
        n_thresholds=10,
        alpha=0.0,
        inner_solver=inner_solver,
        start="zero",
        max_iter=max(1, n_steps // 150),
    )


def _subgradients(inner_solver: str, steps: str) -> Method:
    def run(split: Split, criterion: str, effort: Effort) -> list[Point]:
        points = []
        for kappa in KAPPAS[criterion, split.name][: effort.n_settings]:
            n_steps = getattr(effort, steps)
            model = classifier(split, criterion, kappa, inner_solver, n_steps)
            scores = _scores(fit(model, split))
            points.append(point(split, criterion, kappa, scores))
        return points

    return run


def _reductions(split: Split, criterion: str, effort: Effort) -> list[Point]:
    """Exponentiated gradient with demographic parity around logistic regression.

    The result is a random choice among classifiers. Rows are ranked by the
    probability of a positive answer and, where that is equal, by the mean of the
    classifiers' probabilities; the answer is the more probable one.
    """
    from fairlearn.reductions import (  # type: ignore[import-not-found]
        DemographicParity,
        ExponentiatedGradient,
    )

    train, groups = split.train, np.unique(split.train.groups)
    points = []
    for bound in _BOUNDS[: effort.n_settings]:
        model = ExponentiatedGradient(
            LogisticRegression(C=1e6 / train.y.size, max_iter=300),
            constraints=DemographicParity(difference_bound=bound),
            max_iter=effort.reductions,
        )
        model.fit(
            _dense(_design(train, groups)), train.y, sensitive_features=train.groups
        )

        def scores(part: Part, model: Any = model) -> np.ndarray:
            X = _dense(_design(part, groups))
            total = np.zeros(part.y.size)
            for weight, one in zip(model.weights_, model.predictors_, strict=True):
                if weight > 0:
                    likely = one.predict_proba(X)[:, 1]
                    total += weight * ((likely > 0.5) - 0.5 + 1e-3 * (likely - 0.5))
            return total

        points.append(point(split, criterion, bound, scores))
    return points


def _dense(X: Any) -> np.ndarray:
    return np.asarray(X.toarray() if sparse.issparse(X) else X)
