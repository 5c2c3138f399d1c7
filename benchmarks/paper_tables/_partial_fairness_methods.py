"""The methods of the partially fair classifiers' figure, run in the same way."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from _partial_fairness_data import Part, Split
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from scalefair.linear_model import (
    PairwiseFairClassifier,
    PartiallyFairClassifier,
    PenalizedPartialParityClassifier,
    partial_fairness_path,
)

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
        "direct SSG": _direct,
    }
    if ssg:
        chosen["IDCA with SSG"] = _ssg
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
    paths = [
        _path(split, criterion, kappas, alpha, n, effort.path_iterations)
        for n in thresholds
        for alpha in effort.alphas
    ]
    pool = [*(p for path in paths for p in path), *_plain(split, criterion, effort)]
    return select(paths[0], pool)


def _path(
    split: Split,
    criterion: str,
    kappas: tuple[float, ...],
    alpha: float,
    n: int,
    max_iter: int,
) -> list[Point]:
    train = split.train
    models = partial_fairness_path(
        train.X,
        train.y,
        sensitive_features=train.groups,
        kappas=kappas,
        interval=split.interval,
        criterion=criterion,
        alpha=alpha,
        n_thresholds=n,
        start="zero",
        max_iter=max_iter,
    )
    return [
        point(split, criterion, kappa, _scores(model))
        for kappa, model in zip(kappas, models, strict=True)
    ]


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
        inner_solver=inner_solver,
        start="zero",
        max_iter=max(1, n_steps // 150),
    )


def _subgradients(
    split: Split, criterion: str, inner_solver: str, n_steps: int, most: int | None
) -> list[Point]:
    points = []
    for kappa in KAPPAS[criterion, split.name][:most]:
        model = fit(classifier(split, criterion, kappa, inner_solver, n_steps), split)
        points.append(point(split, criterion, kappa, _scores(model)))
    return points


def _direct(split: Split, criterion: str, effort: Effort) -> list[Point]:
    steps, most = effort.direct_steps, effort.n_settings
    return _subgradients(split, criterion, "direct", steps, most)


def _ssg(split: Split, criterion: str, effort: Effort) -> list[Point]:
    steps, most = effort.ssg_steps, effort.n_settings
    return _subgradients(split, criterion, "ssg", steps, most)


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
