"""Fair calibration and its peers: what changes the outputs of one boosting.

`error_parity` is a package, `postprocess` a module of
github.com/rxian/fair-classification, to be put on the path, which needs cvxpy with
HiGHS. They are imported when a method needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from _fair_calibration import BOOSTING, ESTIMATORS, LOGISTIC, Scores, Split
from _timing import timed
from sklearn.isotonic import IsotonicRegression

from scalefair.postprocessing import FairCalibratedClassifier

PLAIN, CALIBRATED, ERROR_PARITY = "boosting", "calibrated boosting", "error-parity"
XIAN, XIAN_BLIND = "Xian and Zhao", "Xian and Zhao, blind"
XIAN_CALIBRATED = "Xian and Zhao, calibrated"
XIAN_LOGISTIC = "Xian and Zhao, blind, LR"
CONSTRAINTS = {
    None: "demographic_parity",
    "positive": "true_positive_rate_parity",
    "label": "equalized_odds",
}
_CRITERIA = {None: "sp", "positive": "eopp", "label": "eo"}
# Setting, seconds, decisions of the rows of training and of test: positive for 1.
Outcome = tuple[float | None, float, np.ndarray, np.ndarray]
# A method for the probabilities of the held-out rows, their labels and groups, those of
# test rows, a condition and a kappa; with decisions for both.
_Fit = Callable[..., tuple[np.ndarray, np.ndarray]]


@cache
def _probabilities(
    split: Split, name: str, aware: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of group and label, (m, n_groups, 2): of held-out and test rows.

    The model is fitted to the first half of the training rows, held out is the other.
    One that is aware has the group among its features, and the group is no guess.
    """
    half, n_groups = len(split.y) // 2, split.codes.max() + 1
    X, X_test, targets = split.X, split.X_test, 2 * split.codes + split.y
    if aware:
        X, X_test = np.c_[X, split.codes], np.c_[X_test, split.codes_test]
        targets = split.y
    model = ESTIMATORS[name]().fit(X[:half], targets[:half])
    outputs = [model.predict_proba(rows) for rows in (X[half:], X_test)]
    if aware:
        parts = zip(outputs, (split.codes[half:], split.codes_test), strict=True)
        outputs = [np.eye(n_groups)[codes, :, None] * p[:, None] for p, codes in parts]
    held_out, test = (p.reshape(-1, n_groups, 2) for p in outputs)
    return held_out, test


def _positive(probabilities: np.ndarray) -> np.ndarray:
    return probabilities[:, :, 1].sum(axis=1)


def _plain(held_out: np.ndarray, y: Any, codes: Any, test: np.ndarray, *_: Any) -> Any:
    return _positive(held_out) - 0.5, _positive(test) - 0.5


def _calibrated(held_out: Any, y: Any, codes: Any, test: Any, *setting: Any) -> Any:
    codes_test, given, kappa = setting
    rows, new = (np.column_stack([_positive(p)] * 2) for p in (held_out, test))
    model = FairCalibratedClassifier(
        Scores().fit(rows, y), kappa=kappa, given=given, cv="prefit"
    ).fit(rows, y, sensitive_features=codes)
    return (
        model.decision_function(rows, sensitive_features=codes),
        model.decision_function(new, sensitive_features=codes_test),
    )


def _error_parity(held_out: Any, y: Any, codes: Any, test: Any, *setting: Any) -> Any:
    """Labels: those of some rows are drawn at random."""
    from error_parity import RelaxedThresholdOptimizer

    codes_test, given, kappa = setting
    model = RelaxedThresholdOptimizer(
        predictor=_positive, constraint=CONSTRAINTS[given], tolerance=kappa
    ).fit(held_out, y, group=codes)
    return tuple(
        model.predict(p, group=groups) - 0.5
        for p, groups in ((held_out, codes), (test, codes_test))
    )


def _xian(
    program: Any, held_out: Any, y: Any, codes: Any, test: Any, *setting: Any
) -> Any:
    """Difference of the risks, whose sign is the label; y and codes are not used."""
    from postprocess import PostProcessor

    _, given, kappa = setting
    model = PostProcessor(
        2,
        held_out.shape[1],
        pred_ay_fn=lambda p: p,
        criterion=_CRITERIA[given],
        alpha=kappa,
        seed=0,
    ).fit(held_out, **program)
    risks = map(model.predict_score, (held_out, test))
    return tuple(risk[:, 0] - risk[:, 1] for risk in risks)


def _recalibrated(held_out: Any, y: Any, codes: Any, test: Any, *setting: Any) -> Any:
    """Fit the same after an isotonic regression of the labels of each group."""
    parts = []
    for p, groups in ((held_out, codes), (test, setting[0])):
        shares = np.empty(len(p))
        for k in np.unique(codes):
            steps = IsotonicRegression(out_of_bounds="clip")
            steps.fit(_positive(held_out[codes == k]), y[codes == k])
            shares[groups == k] = steps.predict(_positive(p[groups == k]))
        memberships = p.sum(axis=2, keepdims=True)  # 1 for the row's group
        parts.append(memberships * np.c_[1 - shares, shares][:, None])
    return _DUAL(parts[0], y, codes, parts[1], *setting)


# The linear program and a solver that is fast for it; the optima are the same.
_DUAL = partial(_xian, {"solver": "CLARABEL", "solve_primal": False})
_PRIMAL = partial(_xian, {"solver": "HIGHS"})
_METHODS: dict[str, tuple[_Fit, str, bool]] = {
    PLAIN: (_plain, BOOSTING, True),
    CALIBRATED: (_calibrated, BOOSTING, True),
    ERROR_PARITY: (_error_parity, BOOSTING, True),
    XIAN: (_DUAL, BOOSTING, True),
    XIAN_CALIBRATED: (_recalibrated, BOOSTING, True),
    XIAN_BLIND: (_PRIMAL, BOOSTING, False),
    XIAN_LOGISTIC: (_PRIMAL, LOGISTIC, False),
}
PEERS = tuple(_METHODS)
MODULES = {ERROR_PARITY: "error_parity"} | dict.fromkeys(
    (XIAN, XIAN_CALIBRATED, XIAN_BLIND, XIAN_LOGISTIC), "postprocess"
)


def outcomes(
    split: Split, method: str, condition: str | None, kappas: Sequence[float]
) -> Iterator[Outcome]:
    """Fit a method with each of its settings; decisions are of held-out rows."""
    fit, name, aware = _METHODS[method]
    held_out, test = _probabilities(split, name, aware)
    half = len(split.y) // 2
    rows = (held_out, split.y[half:], split.codes[half:], test, split.codes_test)
    for kappa in (None,) if method == PLAIN else kappas:
        took, both = timed(fit, *rows, condition, kappa)
        yield kappa, took, *both
