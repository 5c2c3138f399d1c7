"""``scalefair classify``: a classifier that is fair within a range of ranks.

Two methods: a linear classifier that is trained under the constraint, or the calibrated
scores of a usual one. Either is measured on the rows of the fit and on those of a test,
perhaps beside the same classifier without fairness.
"""

import time
import warnings
from functools import partial
from itertools import combinations
from operator import itemgetter
from pathlib import Path
from typing import Any

import click
import joblib
import numpy as np
import pandas
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scalefair import metrics
from scalefair._memory import peak_memory
from scalefair._messages import format_distinct, listed
from scalefair.cli import _encoder, _errors, _report, _rows, _run
from scalefair.cli import _options as opt
from scalefair.cli._report import Facts
from scalefair.cli._roles import Parts, Rows, refuse_unknown
from scalefair.linear_model import PartiallyFairClassifier
from scalefair.postprocessing import FairCalibratedClassifier
from scalefair.streaming import RowReader

_EPILOG = """\b
Of the two labels the one that sorts last is the positive one, with high scores;
those of --method calibrated are its probability, less a half.
Gap: the largest difference of the shares of two groups above a threshold,
counted within the interval of ranks; at all thresholds (partial parity gap),
or at --threshold (weak gap). 0 is fair, 1 is not. It is at most --kappa: with
--method calibrated for the rows in TRAIN as they are scored by models that had
not seen them, with linear for TRAIN, or a warning says how large it is.
\b
The output is for `scalefair predict`, or joblib.load (only if you trust it):
  X = model["encoder"].transform(frame[model["columns"]])
  model["classifier"].predict(X, sensitive_features=groups)
"""
# Parameters of both methods, and of --method linear, by sections of the help.
_SHARED = {"Fairness": "interval kappa given attributes", "Advanced": "random_state"}
_LINEAR = {
    "Training, --method linear": "criterion threshold n_thresholds interactions loss "
    "alpha interaction_alpha tol max_iter",
    "Advanced": "surrogate surrogate_width start tune_intercept max_groups "
    "min_group_size inner_solver,--solver",
}
# Attributes of options that differ from those of the parameters.
_CHANGED: dict[str, Any] = {
    "interval": {"type": opt.ranks, "default": "0,1", "metavar": "ALPHA,BETA"},
    "kappa": {"type": opt.Finite(0, 1, min_open=False, max_open=False)},
    "given": {
        "help": "Which rows of the groups are compared: all, the positive ones (equal "
        "opportunity), or those of the same label (equalized odds)."
    },
}
_METHOD = {
    "method": (
        opt.value(click.Choice(["linear", "calibrated"]), "linear"),
        "A linear classifier, trained to be fair; or a usual one whose scores are "
        "calibrated for each group, so that prediction needs the groups.",
    )
}
# Options of --method calibrated; they make the classifier, the folds and the target.
_CALIBRATED = {
    "estimator": (
        opt.value(click.Choice(["logistic", "boosting"]), "logistic"),
        "What is calibrated: scikit-learn's LogisticRegression, of standardized "
        "features, or HistGradientBoostingClassifier.",
    ),
    "calibrate_to": (
        opt.value(click.Choice(["labels", "scores"]), "labels"),
        "What the outputs are nearest to: labels is the most accurate, scores changes "
        "the classifier's probabilities least.",
    ),
    "cv": (opt.value(opt.Count(2), 5), "Folds, each scored by a model of the others."),
}
_OPTIONS = [
    *opt.shared(opt.ROLE_OPTIONS),
    opt.output_option("the model"),
    *opt.option_table("Fairness", _METHOD),
    *opt.estimator_options(PartiallyFairClassifier, _SHARED, **_CHANGED),
    *opt.estimator_options(PartiallyFairClassifier, _LINEAR),
    *opt.option_table("Training, --method calibrated", _CALIBRATED),
    *opt.shared(f"standardize {opt.INPUT} svmlight {opt.TEST} baseline"),
    *opt.shared("report memory-limit quiet"),
]
# Options that apply with one of the methods only.
_CONDITIONS = {
    **dict.fromkeys(_CALIBRATED, ("method", ("calibrated",))),
    **{
        names.partition(",")[0]: ("method", ("linear",))
        for names in " ".join(_LINEAR.values()).split()
    },
}
# Attributes of the model that are in the report.
_FITTED = {
    "linear": "converged n_iter n_oracle_calls kkt_residual objective infeasibility "
    "history",
    "calibrated": "kappa kappas partial_parity_gap partial_parity_gaps null_gap "
    "roc_distance",
}
# What the name of a gap says of the rows that are compared, by the option `given`.
_CONDITION_NAMES = {
    None: "",
    "positive": " among positives",
    "label": " given the label",
}
# Columns of the table of groups: title and format by key.
_COLUMNS = {
    **_report.GROUP_COLUMNS,
    "error": ("error", ".1%"),
    "unfair_error": ("error\nwithout\nfairness", ".1%"),
    "positive_rate": ("positive\nlabels", ".1%"),
    "selection_rate": ("selected", ".1%"),
    "unfair_selection_rate": ("selected\nwithout\nfairness", ".1%"),
}
# Columns of the table of pairs of groups, the twenty with the largest gaps.
_PAIR_COLUMNS = {
    "attribute": ("attribute", ""),
    "group": ("group", ""),
    "other": ("other group", ""),
    "gap": ("gap", ".4f"),
    "bound": ("bound", ".4f"),
    "test_gap": ("gap,\ntest rows", ".4f"),
    "null_gap": ("gap by\nchance", ".4f"),
}
# Facts of the report; those that lack a value, as of the other method, are left out.
_FACTS = {
    "gap as calibrated": "{partial_parity_gap:.4f}, rows scored by models that had not "
    "seen them",
    "features": "{n_features:,}",
    "positive label": "{positive_label}",
    "KKT residual": "{kkt_residual}",
    "oracle calls": "{n_oracle_calls:,} in {n_iter}",
    "time": "{fit:.1f} s, reading {read:.1f} s",
}
_UNFAIR = "without fairness"


# --- The command ---------------------------------------------------------------------


@opt.command(_OPTIONS, _EPILOG, train="TRAIN")
def classify(train: Path, **options: Any) -> None:
    """Train a fair classifier on the rows in TRAIN.

    Within an interval of ranks, where decisions are contested, its scores have nearly
    the same share of each group above any threshold.
    """
    outputs, show = _run.take_outputs(options, train, output=".joblib")
    with_baseline, standardize = map(options.pop, ("baseline", "standardize"))
    start = time.perf_counter()
    folder = outputs["output"].resolve().parent
    read_options = opt.ReadOptions.take(options, folder=folder)
    options = opt.parameters_in_force(options, _CONDITIONS)
    # 1. Read the rows, and refuse what the method cannot take.
    if options["method"] == "linear" and options["kappa"] == 0:
        raise click.UsageError("--kappa 0 applies to --method calibrated only.")
    parts = _rows.read_parts(train, read_options)
    rows = parts["train"]
    _check_labels(rows)
    if rows.has_probabilities and options["method"] == "calibrated":
        raise click.UsageError(
            "--method calibrated predicts by the group of a row: it takes --groups "
            "without holes, or pass --method linear."
        )
    if "test" in parts:
        refuse_unknown(parts["test"], "target", "label", rows)
    seconds = {"read": time.perf_counter() - start}
    with _encoder.encoded(
        parts,
        show=show,
        standardize=standardize,
        impute=read_options.missing == "impute",
        dense=options.get("estimator") == "boosting",
    ) as (encoder, X):
        # 2. Fit the fair classifier and perhaps one without fairness.
        model = _make_classifier(X["train"], train, **options)
        roles = {"y": rows.target, **rows.fit_arguments}
        seconds["fit"] = _run.fit(model, X["train"], path=train, show=show, **roles)
        if options["kappa"] == 0:
            _errors.note(
                f"--kappa 0: rows of the smallest groups make a gap of "
                f"{model.kappa_:.3g}, which was allowed."
            )
        models = {"fair": model}
        if with_baseline:
            models[_UNFAIR] = _fit_unfair(model, X["train"], roles)
        # 3. Measure both on each part of the rows. Scores are of entries, a row for
        #    each group that it may be of.
        entries = {name: part.entries() for name, part in parts.items()}
        runs, scores = {}, {}
        for name, classifier in models.items():
            runs[name], scores[name] = _measure(classifier, model, X, parts)
        source: Facts = {"n_features": X["train"].shape[1]}
        for name, part in parts.items():
            source[name] = {
                **_run.describe_rows(part, X[name]),
                "labels_from": part.sources["target"],
                "labels": _report.count_values(part.target),
            }
    # 4. Write report and model. The values of the fair classifier are those of the
    #    report; the other one has them below "baseline".
    content = {
        **_report.describe_run("classify", {**options, "standardize": standardize}),
        "input": source,
        "positive_label": str(model.classes_[1]),
        **{k: getattr(model, f"{k}_") for k in _FITTED[options["method"]].split()},
        **runs["fair"],
        **({"baseline": runs[_UNFAIR]} if with_baseline else {}),
        "seconds": seconds,
        "peak_memory_bytes": peak_memory(),
    }
    # Pairs of groups are many, and only a report shows them.
    if "report" in outputs and (
        pairs := _largest_pairs(model, entries, scores["fair"])
    ):
        content["pairs"] = pairs
    report = _report.Report("classify", content, "", str(train))
    _add_facts(report, model, runs, options)
    # What `predict` needs, and names for who opens the file with joblib.
    saved = {
        "classifier": model,
        "encoder": encoder,
        "feature_names": _encoder.feature_names(encoder, rows),
        "classes": model.classes_,
        "groups": model.groups_,
        **_run.describe_columns(rows, read_options),
    }
    writers = {"output": partial(joblib.dump, saved)}
    report.figures = _score_figures(model, entries, scores)
    converged = content.get("converged", True)  # calibration always ends
    _run.finish(report, outputs, writers, show=show, converged=converged)


# --- The report ----------------------------------------------------------------------


def _score_figures(
    model: Any, parts: Parts, scores: dict[str, Any]
) -> list[_report.ReportFigure]:
    """Return densities of the scores of each model, for the groups of each part.

    `scores` are those of the entries of each part, by the name of the model.
    """

    def plot(figure: Any, part: str, selected: Any, **roles: Any) -> None:
        """Draw the scores of the selected entries of a part, each model on its axes."""
        from scalefair.plotting import ScoreDensityDisplay

        axes = figure.subplots(1, len(scores), squeeze=False)[0]
        for ax, (name, values) in zip(axes, scores.items(), strict=True):
            ScoreDensityDisplay.from_predictions(
                values[part][selected],
                interval=model.interval,
                threshold=0.0,
                y_true=parts[part].target[selected],
                given=model.given,
                ax=ax,
                name=name,
                legend=ax is axes[-1],
                **roles,
            )

    low, high = model.interval
    caption = (
        "Scores of the groups{of_attribute}, {part} rows; bars mark those of ranks "
        f"{low:g} to {high:g}, where the groups are compared."
    )
    size = (3 + 5 * len(scores), 4.5)
    return _report.group_figures(parts, plot, size, caption)


def _add_facts(
    report: _report.Report, model: Any, runs: dict[str, Facts], options: dict[str, Any]
) -> None:
    """Add title, summary, facts and tables.

    `runs` has the measures of each model on each part of the rows, with fairness first.
    """
    content = report.content
    # 1. The measures of each model, of the rows that were not fitted first.
    condition = _CONDITION_NAMES[options.get("given")]
    parts, unfair = _report.parts_of(content), runs.get(_UNFAIR, {})
    is_weak = options.get("criterion") == "weak"
    gap = "weak_partial_parity_gap" if is_weak else "partial_parity_gap"
    gap_title = ("weak gap" if is_weak else "partial parity gap") + condition
    records, compared = list[Facts](), {}
    for name, part in reversed(parts.items()):
        unfair_part = unfair.get(name, {})
        records.append({"rows": name, **part})
        # Beside each value the one without fairness, if that was computed.
        records[-1] |= {
            f"unfair_{k}": unfair_part[k] for k in (gap, "accuracy") if unfair_part
        }
        groups = [{**x, "error": 1 - x["accuracy"]} for x in part["groups"]]
        for record, plain in zip(groups, unfair_part.get("groups", ()), strict=False):
            record["unfair_error"] = 1 - plain["accuracy"]
            record["unfair_selection_rate"] = plain["selection_rate"]
        compared[name] = {"groups": groups}
    columns = {
        "rows": ("rows", ""),
        gap: (gap_title.replace(" gap", "\ngap"), ".4f"),
        f"unfair_{gap}": ("without\nfairness", ".4f"),
        "null_gap": ("gap by\nchance", ".4f"),
        "unmixed_parity_gap": ("unmixed\ngap", ".4f"),
        "accuracy": ("accuracy", ".4f"),
        "unfair_accuracy": ("without\nfairness", ".4f"),
    }
    # 2. Facts of the fit, and the weights of the rows.
    values: Facts = {}
    if options["method"] == "linear":
        values["n_iter"] = _report.iterations(model.n_iter_)
        values["kkt_residual"] = format_distinct(model.kkt_residual_, model.tol)
    report.facts += _report.fill(_FACTS, content, **values)
    report.facts += _report.weight_facts(content["input"])
    # 3. The gap that was bounded, and tables of the groups and of their pairs. The
    #    title and the summary are about the test rows, if there are any.
    (first, *_), tables = records, _report.part_tables(compared, _COLUMNS)
    measured = f"{first[gap]:.3f} with accuracy {first['accuracy']:.1%}"
    report.title = f"{gap_title.capitalize()} {measured} ({first['rows']} rows)"
    report.summary = _summarize(model, records, gap, tables[0].records, condition)
    caption, pairs = "Pairs of groups with the largest gaps", content.get("pairs", [])
    report.tables = [
        _report.ReportTable("Gaps and accuracy", records, columns, terminal=True),
        *tables,
        _report.ReportTable(caption, pairs, _PAIR_COLUMNS),
        _report.history_table(content.get("history")),
    ]


def _summarize(
    model: Any, records: list[Facts], gap: str, groups: Any, condition: str
) -> str:
    """Return what was asked and reached, at what cost, and what is not promised.

    `records` have the measures of each part, test rows first, `gap` is the name of the
    gap in them; `groups` are the records of the groups of the first part.
    """
    first, is_part = records[0], tuple(model.interval) != (0, 1)
    is_weak, is_new = gap.startswith("weak"), first["rows"] == "test"
    # 1. What was asked, and reached.
    where = "any threshold"
    if is_weak:
        where = f"the threshold {model.threshold:g}"
    ranks = _report.between(model.interval) if is_part else ""
    text = f"Asked: the shares of any two groups{condition} above {where} differ by at "
    text += f"most {model.kappa:g}{ranks}. Reached: a difference of "
    text += f"{first[gap]:.3f} on "
    if is_new:
        text += f"rows that were not fitted, {records[1][gap]:.3f} on those that were"
    else:
        text += "the rows of the fit"
    if hasattr(model, "kappas_"):  # a calibrated one
        unseen = f"{model.partial_parity_gap_:.3f}"
        text += (
            f", {unseen} where the rows were scored by models that had not seen them"
        )
    if "null_gap" in first:
        text += f". {_report.CHANCE.format(first['null_gap'])}"
    # 2. The cost, for all rows and for the group that pays most.
    text += f". Cost: the accuracy is {first['accuracy']:.1%}"
    if f"unfair_{gap}" in first:
        worst = _report.worst_change(groups, "unfair_error", "error", ".1%")
        text += f"; without fairness it is {first['unfair_accuracy']:.1%}, and the "
        text += f"shares differ by {first[f'unfair_{gap}']:.3f}. {worst}. "
    else:
        text += ". What it is without fairness was not computed (--baseline). "
    # 3. What is not promised.
    text += "Not promised: " + ("" if is_new else "this gap on new rows (--test), ")
    text += "equal errors of the groups"
    return f"{text}, or any gap at other ranks." if is_part else f"{text}."


# --- Models, and their measures ------------------------------------------------------


def _make_classifier(X: Any, path: Path, *, method: str, **options: Any) -> Any:
    """Return the classifier of the options; refuse rows that it cannot take."""
    if method == "linear":
        return PartiallyFairClassifier(**options)
    # 1. A usual classifier needs the rows in memory, boosting dense ones.
    if isinstance(X, RowReader):
        raise _errors.Failure(
            f"{path}: takes more than --memory-limit, and --method calibrated needs "
            "all rows in memory. Raise the limit, or pass --method linear."
        )
    seed, kind = options.pop("random_state"), options.pop("estimator")
    if kind == "boosting" and sparse.issparse(X):
        raise _errors.Failure(
            f"{path}: is sparse, and --estimator boosting needs dense rows. Pass "
            "--estimator logistic, or save the rows as .npy."
        )
    # 2. The classifier whose scores are calibrated.
    if kind == "boosting":
        from sklearn.ensemble import HistGradientBoostingClassifier  # takes .2 s

        # Without early stopping the models of all folds have scores of one spread.
        estimator: Any = HistGradientBoostingClassifier(
            random_state=seed, early_stopping=False
        )
    else:
        scaler = StandardScaler(with_mean=not sparse.issparse(X))
        estimator = make_pipeline(scaler, LogisticRegression(max_iter=1000))
    # 3. Folds, each scored by a model of the others. Tables are often sorted: without a
    #    shuffle the folds would differ.
    folds = StratifiedKFold(options.pop("cv"), shuffle=True, random_state=seed)
    target = options.pop("calibrate_to")
    return FairCalibratedClassifier(estimator, target=target, cv=folds, **options)


def _fit_unfair(model: Any, X: Any, roles: dict[str, Any]) -> Any:
    """Return a classifier like the fitted model, but without fairness."""
    if hasattr(model, "estimator_"):  # the one whose scores were calibrated
        return model.estimator_
    # No gap is larger than 1: nothing is constrained.
    unfair = clone(model).set_params(kappa=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same warnings about the groups
        unfair.fit(X, **roles)
    if not unfair.converged_:
        _errors.warn("The model without fairness did not converge.")
    return unfair


def _check_labels(rows: Rows) -> None:
    """Refuse targets that are not two labels; fractions are no labels."""
    labels = np.unique(rows.target)
    if len(labels) != 2 or (labels.dtype.kind == "f" and (labels % 1 != 0).any()):
        raise _errors.Failure(
            f"{rows.sources['target']}: has {len(labels):,} different labels ("
            f"{listed(labels.tolist(), repr)}), but "
            "two words or whole numbers are needed. Join labels, or leave rows out."
        )


def _measure(
    model: Any, fair: Any, X: dict[str, Any], parts: Parts
) -> tuple[Facts, dict[str, Any]]:
    """Return accuracy, gaps and rates of groups on each part of the rows; and scores.

    Interval, threshold and compared rows are those of the `fair` model, also where
    `model` is the one without fairness. Scores are of entries.
    """
    facts: Facts = {}
    if hasattr(model, "converged_"):
        facts["converged"] = model.converged_
    scores = {}
    for name, rows in parts.items():
        # 1. Scores, one for each row. Our classifiers take the groups of the rows, if
        #    these are sure; that of scikit-learn takes none. Without groups, rows that
        #    are read in blocks are scored block by block.
        score, entries = model.decision_function, rows.entries()
        if hasattr(model, "groups_") and not rows.has_probabilities:
            groups = rows.sensitive_features
            scores[name] = score(X[name], sensitive_features=groups)
        elif isinstance(X[name], RowReader):
            scores[name] = np.concatenate(X[name].parts().map(score).gather())
        else:
            scores[name] = score(X[name])
        # 2. Rates of the groups, of entries by their weights.
        is_correct = (rows.target == model.classes_[1]) == (scores[name] > 0)
        row_scores, scores[name] = scores[name], scores[name][entries.positions]
        is_positive = entries.target == model.classes_[1]
        frame = pandas.DataFrame({"positive_rate": is_positive})
        frame["selection_rate"] = scores[name] > 0
        frame["accuracy"] = frame["positive_rate"] == frame["selection_rate"]
        # 3. The gaps between them, and the gap by chance: of a calibrated classifier as
        #    it computes it, of a linear one unless it bounds one threshold only.
        compared = {"interval": fair.interval, "given": fair.given}
        kinds = _kinds(is_positive, fair.given)
        gaps = _report.parity_gaps(
            entries,
            scores[name],
            threshold=getattr(fair, "threshold", 0.0),
            **compared,
        )
        accuracy = np.average(is_correct, weights=rows.weight)
        unmixed = _report.unmixed_gap(rows, row_scores, **compared)
        facts[name] = {"accuracy": accuracy, **gaps, **unmixed}
        if hasattr(model, "null_gap"):
            facts[name]["null_gap"] = model.null_gap(rows.effective_size())
        elif model is fair and fair.criterion != "weak":
            facts[name] |= _report.null_gap(rows, fair.interval, kinds)
        groups = entries.sensitive_features
        facts[name]["groups"] = _report.group_means(frame, groups, entries.weight)
    return facts, scores


def _kinds(
    is_positive: NDArray[np.bool_], condition: str | None
) -> list[NDArray[np.bool_]]:
    """Select the rows of each comparison: all, the positives, or those of a label."""
    if condition == "label":
        return [~is_positive, is_positive]
    return [is_positive if condition else np.full(is_positive.size, True)]


def _gap(
    model: Any,
    scores: NDArray[Any],
    rows: Rows,
    groups: NDArray[Any],
    selected: NDArray[np.bool_],
) -> float:
    """Return the gap of scores that a model bounds, for the selected rows.

    A calibrated one bounds the gap at all thresholds, as a linear one by default.
    """
    is_weak = getattr(model, "criterion", "") == "weak"
    return metrics.partial_parity_gap(
        scores[selected],
        sensitive_features=groups[selected],
        interval=model.interval,
        threshold=model.threshold if is_weak else None,
        y_true=rows.target[selected],
        given=model.given,
        sample_weight=rows.weights_of(selected),
    )


def _largest_pairs(model: Any, parts: Parts, scores: dict[str, Any]) -> list[Facts]:
    """Return the pairs with the largest gaps, of attributes of more than two groups.

    The gap is the one that the model bounds: of a calibrated one that of rows scored by
    models that had not seen them, with the bound of the pair; else that of TRAIN.
    """
    is_calibrated, interval = hasattr(model, "kappas_"), model.interval
    is_weak = not is_calibrated and model.criterion == "weak"
    # 1. The gap of each pair.
    train, records = parts["train"], list[Facts]()
    for attribute, groups in _report.by_attribute(train.sensitive_features).items():
        names, codes = np.unique(groups, return_inverse=True)
        pairs = combinations(range(len(names)), 2) if len(names) > 2 else ()
        for i, j in pairs:
            record: Facts = {"attribute": attribute} if attribute else {}
            record |= {"group": names[i], "other": names[j]}
            if is_calibrated:  # it has a gap and a bound for each pair
                record["gap"] = model.partial_parity_gaps_[i, j]
                record["bound"] = model.kappas_[i, j]
            else:
                selected = (codes == i) | (codes == j)
                record["gap"] = _gap(model, scores["train"], train, codes, selected)
            records.append(record)
    records = sorted(records, key=itemgetter("gap"), reverse=True)[:20]
    # 2. Of the largest ones the gap on the rows of the test, and that by chance.
    *_, (part, rows) = parts.items()
    kinds = _kinds(rows.target == model.classes_[1], model.given)
    attributes = _report.by_attribute(rows.sensitive_features)
    for record in records:
        pair = [record["group"], record["other"]]
        groups = attributes[record.get("attribute", "")]
        members = [groups == group for group in pair]
        if not all(rows_of_group.any() for rows_of_group in members):
            continue  # a group of TRAIN has no rows in the test
        if part == "test":
            selected = members[0] | members[1]
            record["test_gap"] = _gap(model, scores[part], rows, groups, selected)
        if is_calibrated:
            record["null_gap"] = model.null_gap(rows.effective_size(), pair)
        elif not is_weak:
            size = rows.effective_size
            sizes = [[size(m & k) for m in members] for k in kinds]
            record["null_gap"] = metrics.null_parity_gap(sizes, interval=interval)
    return records
