"""Equal opportunity and equalized odds: accuracy against gap, with those of others.

    SCALEFAIR_DATA=... python benchmarks/paper_tables/equal_opportunity.py
    python benchmarks/paper_tables/equal_opportunity.py --data compas --splits 3

Means over random splits, 70:30: accuracy on the rows of test, the gap of the labels
there and on the rows of training, the gap of the scores at any threshold, their AUC,
and the seconds of a fit. Methods around boosting are held against ours, split by split.
Data are read from the folder named by SCALEFAIR_DATA; what is missing is skipped.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import _peers
import numpy as np
from _command import Command, among, at_least, progress
from _fair_calibration import Split, logistic
from _layout import EMPTY, Table
from _timing import timed
from sklearn.metrics import roc_auc_score

from scalefair.linear_model import PartiallyFairClassifier
from scalefair.metrics import partial_parity_gap
from scalefair.postprocessing import FairCalibratedClassifier

_NAMES = ("a9a", "bank", "census", "compas", "law")
_GIVEN = {"all": None, "positive": "positive", "label": "label"}
_TITLES = {
    None: "demographic parity",
    "positive": "equal opportunity",
    "label": "equalized odds",
}
_KAPPAS = (0.0, 0.02, 0.05, 0.1, 0.2)
# Of fairlearn: constraints by their names, and fits of the reduction at most.
_MOMENTS = {
    None: "DemographicParity",
    "positive": "TruePositiveRateParity",
    "label": "EqualizedOdds",
}
_FITS = 20
_COLUMNS = ("accuracy", "label gap", "fit label gap", "score gap", "AUC", "seconds")
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
_METHODS = (_PLAIN, _CALIBRATED, *_LINEAR, _THRESHOLDS, _REDUCTION, *_peers.PEERS)
_MODULES = dict.fromkeys((_THRESHOLDS, _REDUCTION), "fairlearn") | _peers.MODULES
# What a method is held against, at the same kappa.
_BLIND = "linear, one threshold, blind"
_AWARE = (_peers.ERROR_PARITY, _peers.XIAN, _peers.XIAN_CALIBRATED)
_PAIRS = dict.fromkeys(_AWARE, _peers.CALIBRATED)
_PAIRS |= dict.fromkeys((_peers.XIAN_BLIND, _peers.XIAN_LOGISTIC), _BLIND)


def outcomes(
    split: Split, method: str, condition: str | None, kappas: Sequence[float]
) -> Iterator[_peers.Outcome]:
    """Fit a method with each of its settings."""
    train_groups = {"sensitive_features": split.codes}
    new = {"sensitive_features": split.codes_test}
    if method in _peers.PEERS:
        yield from _peers.outcomes(split, method, condition, kappas)
    elif method == _PLAIN:
        took, model = timed(logistic().fit, split.X, split.y)
        yield None, took, *map(model.decision_function, (split.X, split.X_test))
    elif method == _THRESHOLDS:
        from fairlearn.postprocessing import ThresholdOptimizer

        model = ThresholdOptimizer(
            estimator=logistic(),
            constraints=_peers.CONSTRAINTS[condition],
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
    split: Split, method: str, condition: str | None, kappas: Sequence[float]
) -> list[dict[str, Any]]:
    """Measure all that a method gives on a split."""
    records = []
    for kappa, took, fitted, test in outcomes(split, method, condition, kappas):
        test_options = {"sensitive_features": split.codes_test, "y_true": split.y_test}
        rows = slice(len(split.y) - len(fitted), None)  # all, or those held out
        of_fit = {"sensitive_features": split.codes[rows], "y_true": split.y[rows]}
        is_score = len(np.unique(test)) > 2
        values = (
            float(np.mean((test > 0) == split.y_test)),
            partial_parity_gap(test, threshold=0.0, given=condition, **test_options),
            partial_parity_gap(fitted, threshold=0.0, given=condition, **of_fit),
            partial_parity_gap(test, given=condition, **test_options)
            if is_score
            else np.nan,
            float(roc_auc_score(split.y_test, test)) if is_score else np.nan,
            took,
        )
        names = {
            "data": split.name,
            "split": split.number,
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
            cells = [
                EMPTY if np.isnan(means[key]) else f"{means[key]:.4f}"
                for key in _COLUMNS[:-1]
            ]
            cells.append(f"{means['seconds']:.2f}")
            table.add(method, EMPTY if kappa is None else f"{kappa:g}", *cells)
        table.notes = [
            f"Means over {len(repeats)} split(s). Labels of fairlearn's methods and "
            "of error-parity are drawn, and have no other threshold."
        ]
        made += [table, *_paired(table.title, panel)]
    return made


def _paired(title: str, panel: list[dict[str, Any]]) -> list[Table]:
    """Give a table of differences from ours, with standard errors over the splits."""
    runs = {(one["method"], one["kappa"], one["split"]): one for one in panel}
    columns = ("accuracy", "label gap", "score gap")
    table = Table(f"{title}: differences", "|".join(("method", "kappa", *columns)))
    for method, kappa in dict.fromkeys((o["method"], o["kappa"]) for o in panel):
        pairs = [
            (one, runs[ours])
            for one in panel
            if (one["method"], one["kappa"]) == (method, kappa)
            and (ours := (_PAIRS.get(method), kappa, one["split"])) in runs
        ]
        if len(pairs) < 2:
            continue
        more = np.array([[one[c] - ours[c] for c in columns] for one, ours in pairs])
        errors = more.std(axis=0, ddof=1) / np.sqrt(len(pairs))
        cells = zip(more.mean(axis=0), errors, strict=True)
        table.add(
            method,
            f"{kappa:g}",
            *(EMPTY if np.isnan(m) else f"{m:+.4f} ± {e:.4f}" for m, e in cells),
        )
    table.notes = [
        f"Means and standard errors over {len({key[2] for key in runs})} "
        f"splits. Methods that know the group less {_peers.CALIBRATED}, blind ones "
        f"less {_BLIND}."
    ]
    return [table] if table.rows else []


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
    command.option(
        "--given", type=among(_GIVEN), default=["positive", "label"], help="or all"
    )
    command.option("--splits", type=at_least(1), default=3, help="random splits (3)")
    options = command.parse(arguments)
    missing = {
        module
        for module in map(_MODULES.get, options.methods)
        if module and importlib.util.find_spec(module) is None
    }
    for module in sorted(missing):
        command.skip(f"{module} is not installed.")
    chosen = [m for m in options.methods if _MODULES.get(m) not in missing]
    kappas = [0.05] if options.quick else list(map(float, options.kappas))
    runs: list[dict[str, Any]] = []
    for name in options.data:
        for number in range(options.splits):
            try:
                split = Split(name, number, options.quick)
            except OSError as error:
                command.skip(f"{name}: {error}")
                break
            for condition in map(_GIVEN.get, options.given):
                for method in chosen:
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
