"""``scalefair classify``: a classifier that is fair within a range of ranks."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas
from sklearn.base import clone

from scalefair import metrics
from scalefair._digits import apart
from scalefair._memory import peak_memory
from scalefair.cli import _errors, _fit, _report, _rows
from scalefair.cli import _options as opt
from scalefair.linear_model import PartiallyFairClassifier

_EPILOG = """\b
Of the two labels the one that sorts last is the positive one, with high scores.
Gap: the largest difference of the shares of two groups above a threshold,
counted within the interval of ranks; at all thresholds (partial parity gap),
or at --threshold (weak gap). 0 is fair, 1 is not. That of the rows in TRAIN is
at most --kappa, or a warning says how large it is.
\b
The output is for `scalefair predict`, or joblib.load (only if you trust it):
  X = model["encoder"].transform(frame[model["columns"]])
  model["classifier"].predict(X, sensitive_features=groups)
"""


_PARAMETERS = {
    "Fairness": "interval kappa criterion threshold n_thresholds interactions",
    "Training": "loss alpha tol max_iter",
    "Advanced": "surrogate surrogate_width start tune_intercept max_groups "
    "min_group_size inner_solver,--solver random_state",
}
_INTERVAL = {"type": opt.ranks, "default": "0,1", "metavar": "ALPHA,BETA"}
_OPTIONS = [
    *(*opt.ROLES, opt.output_option("the model")),
    *opt.estimator_options(PartiallyFairClassifier, _PARAMETERS, interval=_INTERVAL),
    *(opt.STANDARDIZE, *opt.INPUT, opt.SVMLIGHT, *opt.TEST, opt.BASELINE),
    *(opt.REPORT, opt.MEMORY_LIMIT, opt.QUIET),
]
_FITTED = ["converged", "n_iter", "n_oracle_calls", "kkt_residual", "objective"]
_FITTED += ["infeasibility", "history"]
_MEASURES = {
    "accuracy": "accuracy",
    "partial_parity_gap": "partial parity gap",
    "weak_partial_parity_gap": "weak gap",
}
_COLUMNS = {
    "group": ("group", ""),
    "n_rows": ("rows", ",d"),
    "positive_rate": ("positive", ".1%"),
    "selection_rate": ("selected", ".1%"),
    "accuracy": ("accuracy", ".1%"),
}
_FACTS = {
    "features": "{n_features:,}",
    "positive label": "{positive_label}",
    "KKT residual": "{kkt_residual}",
    "oracle calls": "{n_oracle_calls:,} in {n_iter}",
    "time": "{fit:.1f} s, reading {read:.1f} s",
}
_PLAIN = "without fairness"


@opt.command(_OPTIONS, _EPILOG, train="TRAIN")
def classify(train: Path, **options: Any) -> None:
    """Train a linear classifier on the rows in TRAIN.

    Its scores treat groups alike within an interval of ranks, where decisions are
    contested.
    """
    written, show = _fit.take_outputs(options, train, output=".joblib")
    compare, standardize = map(options.pop, ("baseline", "standardize"))
    start = time.perf_counter()
    reading = _rows.Reading.take(options, folder=written["output"].resolve().parent)
    parts = _rows.read_parts(train, reading)
    rows = parts["train"]
    _check_labels(rows)
    if "test" in parts:
        _rows.refuse_unknown(parts["test"], "target", "label", rows)
    seconds = {"read": time.perf_counter() - start}
    how = {"standardize": standardize, "impute": reading.missing == "impute"}
    model = PartiallyFairClassifier(**options)
    with _rows.encoded(parts, show=show, **how) as (encoder, X):
        known = {"y": rows.target, "sensitive_features": rows.groups}
        seconds["fit"] = _fit.fit(model, X["train"], path=train, show=show, **known)
        models = {"fair": model}
        if compare:
            # The largest gap there can be is allowed; all else is the same.
            models[_PLAIN] = clone(model).set_params(kappa=1.0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # they are about the groups, as before
                models[_PLAIN].fit(X["train"], **known)
            if not models[_PLAIN].converged_:
                _errors.warn("The model without fairness did not converge.")
        runs, scores = {}, {}
        for name, fitted in models.items():
            runs[name], scores[name] = _measure(fitted, X, parts)
        source: dict[str, Any] = {"n_features": X["train"].shape[1]}
        for name, part in parts.items():
            source[name] = _fit.describe(part, X[name])
            source[name]["labels_from"] = part.target_from
            source[name]["labels"] = _report.count_values(part.target)
    content = {
        **_report.describe_run("classify", {**options, "standardize": standardize}),
        "input": source,
        "positive_label": str(model.classes_[1]),
        **{name: getattr(model, f"{name}_") for name in _FITTED},
        **runs["fair"],
        **({"baseline": runs[_PLAIN]} if compare else {}),
        **{"seconds": seconds, "peak_memory_bytes": peak_memory()},
    }
    report = _report.Report("classify", content, "", str(train))
    for key, title in _MEASURES.items():
        for name, run in runs.items():
            named = title if name == "fair" else f"  {name}"
            report.facts.append((named, _report.by_part(run, f"{{{key}:.4f}}")))
    values = {**content, **source, **seconds}
    values["n_iter"] = _report.iterations(model.n_iter_)
    values["kkt_residual"] = apart(model.kkt_residual_, model.tol)
    report.facts += _report.fill(_FACTS, values)
    gap = "weak_" * (model.criterion == "weak") + "partial_parity_gap"
    said = _report.by_part(content, f"{{{gap}:.3f}} with accuracy {{accuracy:.1%}}")
    report.title = f"{_MEASURES[gap].capitalize()} {said}"
    report.tables = _report.part_tables(content, _COLUMNS)
    ranks = model.interval
    report.figures = [_figure(name, parts[name], scores, ranks) for name in parts]
    saved = {
        "classifier": model,
        "encoder": encoder,
        "feature_names": _rows.feature_names(encoder, rows),
        "classes": model.classes_,
        "groups": model.groups_,
        **_fit.describe_columns(rows, reading),
    }
    writers = {"output": lambda file: joblib.dump(saved, file)}
    _fit.finish(report, written, writers, show=show, converged=model.converged_)


def _check_labels(rows: _rows.Rows) -> None:
    labels = np.unique(rows.target)
    # As scikit-learn has it, fractions are no labels.
    if len(labels) != 2 or (labels.dtype.kind == "f" and (labels % 1 != 0).any()):
        listed = ", ".join(map(repr, labels[:8].tolist())) + ", ..." * (len(labels) > 8)
        raise _errors.Failure(
            f"{rows.target_from}: has {len(labels):,} different labels ({listed}), but "
            "two words or whole numbers are needed. Join labels, or leave rows out."
        )


def _measure(
    model: Any, X: Mapping[str, Any], parts: Mapping[str, _rows.Rows]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Accuracy, gaps and rates of groups on each part of the rows; and its scores."""
    found, scores = {"converged": model.converged_}, {}
    for name, rows in parts.items():
        of = {"sensitive_features": rows.groups}
        scores[name] = model.decision_function(X[name], **of)
        frame = pandas.DataFrame({"positive_rate": rows.target == model.classes_[1]})
        frame["selection_rate"] = scores[name] > 0
        frame["accuracy"] = frame["positive_rate"] == frame["selection_rate"]
        of["interval"] = model.interval
        gap = metrics.partial_demographic_parity_gap(scores[name], **of)
        of["threshold"] = model.threshold
        weak = metrics.weak_partial_demographic_parity_gap(scores[name], **of)
        values = (frame["accuracy"].mean(), gap, weak)
        found[name] = dict(zip(_MEASURES, values, strict=True))
        found[name]["groups"] = _report.group_means(frame, rows.groups)
    return found, scores


def _figure(part: str, rows: _rows.Rows, scores: Any, interval: Any) -> _report.Figure:
    """Densities of the scores that each model gives to the groups."""
    shown, names, remark = _report.choose_groups(rows.groups)
    how = {"sensitive_features": names, "interval": interval, "threshold": 0.0}

    def plot(figure: Any) -> None:
        from scalefair.plotting import ScoreDensityDisplay

        axes = figure.subplots(1, len(scores), squeeze=False)[0]
        for ax, (name, found) in zip(axes, scores.items(), strict=True):
            of = {"ax": ax, "name": name, "legend": ax is axes[-1]}
            ScoreDensityDisplay.from_predictions(found[part][shown], **how, **of)

    caption = f"Scores of the groups, {part} rows; bars mark those of ranks "
    caption += f"{interval[0]:g} to {interval[1]:g}, where groups are alike.{remark}"
    return _report.Figure(plot, (3 + 5 * len(scores), 4.5), caption, caption)
