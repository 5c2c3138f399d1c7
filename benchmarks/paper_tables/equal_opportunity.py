"""Equal opportunity and equalized odds: accuracy against gap, with fairlearn's.

    SCALEFAIR_DATA=... python benchmarks/paper_tables/equal_opportunity.py
    python benchmarks/paper_tables/equal_opportunity.py --data compas --splits 3

Means over random splits, 70:30: accuracy on the rows of test, the gap of the labels
there and on the rows of training, the gap of the scores at any threshold, and the
seconds of a fit. Data are read from the folder named by SCALEFAIR_DATA; what is missing
is skipped.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from _command import Command, among, at_least, progress
from _fair_calibration import Split, logistic
from _layout import EMPTY, Table
from _timing import timed

from scalefair.linear_model import PartiallyFairClassifier
from scalefair.metrics import partial_parity_gap
from scalefair.postprocessing import FairCalibratedClassifier

_NAMES = ("a9a", "bank", "census", "compas", "law")
_GIVEN = ("positive", "label")
_TITLES = {"positive": "equal opportunity", "label": "equalized odds"}
_KAPPAS = (0.0, 0.02, 0.05, 0.1, 0.2)
# Of fairlearn: constraints by their names, and fits of the reduction at most.
_MOMENTS = {"positive": "TruePositiveRateParity", "label": "EqualizedOdds"}
_WORDS = {"positive": "true_positive_rate_parity", "label": "equalized_odds"}
_FITS = 20
_COLUMNS = ("accuracy", "label gap", "fit label gap", "score gap", "seconds")
_PLAIN, _CALIBRATED, _THRESHOLDS, _REDUCTION = (
    "logistic regression",
    "calibrated",
    "ThresholdOptimizer",
    "ExponentiatedGradient, blind",
)
_LINEAR = {
    f"{name}{kind}": {"criterion": criterion, "interactions": interactions}
    for kind, interactions in (("", True), (", blind", False))
    for name, criterion in (("linear, one threshold", "weak"), ("linear", "strong"))
}
_FAIRLEARN = (_THRESHOLDS, _REDUCTION)
_METHODS = (_PLAIN, _CALIBRATED, *_LINEAR, *_FAIRLEARN)
# Setting, seconds, decisions of the rows of training and of test: positive for 1.
_Outcome = tuple[float | None, float, np.ndarray, np.ndarray]


def outcomes(
    split: Split, method: str, condition: str, kappas: Sequence[float]
) -> Iterator[_Outcome]:
    """Fit a method with each of its settings."""
    train_groups = {"sensitive_features": split.codes}
    new = {"sensitive_features": split.codes_test}
    if method == _PLAIN:
        took, model = timed(logistic().fit, split.X, split.y)
        yield None, took, *map(model.decision_function, (split.X, split.X_test))
    elif method == _THRESHOLDS:
        from fairlearn.postprocessing import ThresholdOptimizer

        model = ThresholdOptimizer(
            estimator=logistic(),
            constraints=_WORDS[condition],
            predict_method="predict_proba",
        )
        took, _ = timed(lambda: model.fit(split.X, split.y, **train_groups))
        both = (split.X, train_groups), (split.X_test, new)
        labels = [model.predict(X, **groups, random_state=0) for X, groups in both]
        yield None, took, *(drawn - 0.5 for drawn in labels)
    elif method == _REDUCTION:
        from fairlearn import reductions

        for kappa in filter(None, kappas):
            model = reductions.ExponentiatedGradient(
                logistic(),
                getattr(reductions, _MOMENTS[condition])(difference_bound=kappa),
                max_iter=_FITS,
                sample_weight_name="logisticregression__sample_weight",
            )
            took, _ = timed(
                lambda model=model: model.fit(split.X, split.y, **train_groups)
            )
            labels = [model.predict(X, random_state=0) for X in (split.X, split.X_test)]
            yield kappa, took, *(drawn - 0.5 for drawn in labels)
    else:
        for kappa in kappas:
            if method == _CALIBRATED:
                model = FairCalibratedClassifier(
                    logistic(), kappa=kappa, given=condition
                )
            elif kappa > 0:
                options = {"kappa": kappa, "given": condition, **_LINEAR[method]}
                model = PartiallyFairClassifier(**options)
            else:
                continue
            took, _ = timed(
                lambda model=model: model.fit(split.X, split.y, **train_groups)
            )
            both = (split.X, train_groups), (split.X_test, new)
            yield (
                kappa,
                took,
                *(model.decision_function(X, **groups) for X, groups in both),
            )


def run(
    split: Split, method: str, condition: str, kappas: Sequence[float]
) -> list[dict[str, Any]]:
    """Measure all that a method gives on a split."""
    records = []
    for kappa, took, fitted, test in outcomes(split, method, condition, kappas):
        test_options = {"sensitive_features": split.codes_test, "y_true": split.y_test}
        of_fit = {"sensitive_features": split.codes, "y_true": split.y}
        values = (
            float(np.mean((test > 0) == split.y_test)),
            partial_parity_gap(test, threshold=0.0, given=condition, **test_options),
            partial_parity_gap(fitted, threshold=0.0, given=condition, **of_fit),
            partial_parity_gap(test, given=condition, **test_options),
            took,
        )
        names = {
            "data": split.name,
            "given": condition,
            "method": method,
            "kappa": kappa,
        }
        records.append(names | dict(zip(_COLUMNS, values, strict=True)))
    return records


def tables(runs: list[dict[str, Any]]) -> list[Table]:
    """Give a table for each data set and criterion."""
    made = []
    for name, condition in dict.fromkeys((one["data"], one["given"]) for one in runs):
        panel = [
            one for one in runs if (one["data"], one["given"]) == (name, condition)
        ]
        columns = "|".join(("method", "kappa", *_COLUMNS))
        table = Table(f"{name}, {_TITLES[condition]}", columns)
        for method, kappa in dict.fromkeys((o["method"], o["kappa"]) for o in panel):
            repeats = [o for o in panel if (o["method"], o["kappa"]) == (method, kappa)]
            means = {key: np.mean([one[key] for one in repeats]) for key in _COLUMNS}
            cells = [f"{means[key]:.4f}" for key in _COLUMNS[:-1]]
            cells.append(f"{means['seconds']:.2f}")
            table.add(method, EMPTY if kappa is None else f"{kappa:g}", *cells)
        table.notes = [
            f"Means over {len(repeats)} split(s). Labels of fairlearn's methods are "
            "drawn, and have no other threshold."
        ]
        made.append(table)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the tables that are asked for."""
    command = Command(__doc__)
    data, methods, kappas = list(_NAMES), list(_METHODS), list(map(str, _KAPPAS))
    command.option("--data", type=among(data), default=data, help=",".join(data))
    method_help = {"help": "; ".join(methods), "metavar": "METHODS"}
    command.option(
        "--methods", type=among(methods, ";"), default=methods, **method_help
    )
    command.option("--kappas", type=among(kappas), default=kappas, help="of these")
    command.option("--splits", type=at_least(1), default=3, help="random splits (3)")
    options = command.parse(arguments)
    if importlib.util.find_spec("fairlearn") is None:
        command.skip("fairlearn is not installed.")
        options.methods = [m for m in options.methods if m not in _FAIRLEARN]
    kappas = [0.05] if options.quick else list(map(float, options.kappas))
    runs: list[dict[str, Any]] = []
    for name in options.data:
        for number in range(options.splits):
            try:
                split = Split(name, number, options.quick)
            except OSError as error:
                command.skip(f"{name}: {error}")
                break
            for condition in _GIVEN:
                for method in options.methods:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # gaps are in the table
                        took, new = timed(run, split, method, condition, kappas)
                    runs += new
                    progress(f"{name}, split {number}, {condition}, {method}", took)
                    command.write(tables(runs))
    command.write(tables(runs), last=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
