"""``scalefair classify``: a classifier that is fair within a range of ranks."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import joblib
import numpy as np
import pandas
from sklearn.base import clone

from scalefair import metrics
from scalefair._digits import apart
from scalefair._memory import peak_memory
from scalefair.cli import _errors, _fit, _options, _output, _report, _rows
from scalefair.linear_model import PartiallyFairClassifier

_EPILOG = f"""\b
TRAIN is a table (text or parquet; each word becomes a feature of its own),
svmlight, or an array (.npy, or .npz of scipy.sparse.save_npz). --target and
--groups name a column, else a file: a line or `id,value` for each row. Of the
two labels the one that sorts last is the positive one, with high scores.
\b
Gap: the share of a group above a threshold, counted within the interval of
ranks, differs by at most this much from any other group's; at all thresholds
(partial parity gap), or at --threshold (weak gap). 0 is fair, 1 is not. The
indicator is replaced by a ramp, so that it may be larger than --kappa.
\b
The output is for `scalefair predict`, or a dictionary for joblib.load (load
only files that you trust): classifier, encoder, columns ... Of a frame:
  X = model["encoder"].transform(frame[model["columns"]])
  model["classifier"].predict(X, sensitive_features=groups)
\b
{_errors.EXIT_CODES}
"""
_STANDARDIZE = """Divide each column of numbers by its standard deviation and, unless it
is sparse, centre it. Training does not need it."""


class Ranks(click.ParamType[Any]):
    """Interval of ranks, ``alpha,beta`` with 0 <= alpha < beta <= 1."""

    name = "ranks"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[float, float]:
        """Read two numbers."""
        try:
            low, high = map(float, value.split(","))
        except ValueError:
            low, high = 1.0, 0.0
        if not 0 <= low < high <= 1:
            wanted = "alpha,beta with 0 <= alpha < beta <= 1 (0 is the top)"
            self.fail(f"{value!r} is not {wanted}, such as 0.05,0.30.", param, ctx)
        return low, high


_SECTIONS = {
    "Fairness": ("kappa", "criterion", "threshold", "n_thresholds", "interactions"),
    "Training": ("loss", "alpha", "tol", "max_iter"),
    "Advanced": ("surrogate", "start", "tune_intercept", "max_groups"),
}
_INTERVAL = {"type": Ranks(), "default": "0,1", "metavar": "ALPHA,BETA"}
_PARAMETERS: dict[str, tuple[Any, ...]] = {
    "interval": ("Fairness", _INTERVAL),
    **{name: (where,) for where, names in _SECTIONS.items() for name in names},
    "min_group_size": ("Advanced",),
    "inner_solver": ("Advanced", "--solver"),
}
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


@click.command(cls=_options.SectionedCommand, epilog=_EPILOG)
@click.argument("train", type=_options.PATH)
@_errors.debug_option
@click.pass_context
def classify(ctx: click.Context, /, train: Path, **options: Any) -> None:
    """Train a linear classifier on the rows in TRAIN.

    Its scores treat groups alike within an interval of ranks, where decisions are
    contested. On a terminal a summary is shown; in a pipe nothing is printed but
    errors, warnings and notes, on stderr.
    """
    take = options.pop
    test, report_file = take("test_file"), take("report_file")
    roles = {name: take(f"test_{name}") for name in ("target", "groups")}
    if test is None and any(roles.values()):
        raise click.UsageError("--test-target and --test-groups apply with --test.")
    names = [train, test, options["target"], options["groups"], *roles.values()]
    written = _output.name_outputs(
        {"output": (take("output"), ".joblib"), "report": (report_file, "")},
        (Path(name) for name in names if name is not None),
    )
    show = _fit.on_terminal(take("quiet"), written.values())
    compare, standardize = take("baseline"), take("standardize")
    if compare is None:
        compare = show or report_file is not None

    start = time.perf_counter()
    reading = _rows.Reading.take(options, folder=written["output"].resolve().parent)
    rows = _rows.read_rows(train, reading)
    _check_labels(rows)
    parts = {"train": rows}
    if test is not None:
        parts["test"] = _rows.read_test(test, rows, reading, roles)
    seconds = {"read": time.perf_counter() - start}
    how = {"standardize": standardize, "impute": reading.missing == "impute"}
    with _rows.encoded(parts, show=show, **how) as (encoder, X):
        model = PartiallyFairClassifier(**options)
        known = {"y": rows.target, "sensitive_features": rows.groups}
        seconds["fit"] = _fit.fit(model, X["train"], path=train, show=show, **known)
        found, scores = _measure(model, X, parts)
        read = {
            name: _rows.describe(part, X[name])
            | {"labels_from": part.target_from}
            | {"labels": _report.count_values(part.target)}
            for name, part in parts.items()
        }
        content = {
            **_report.describe_run("classify", {**options, "standardize": standardize}),
            "input": {"n_features": X["train"].shape[1], **read},
            "positive_label": str(model.classes_[1]),
            **{name: getattr(model, f"{name}_") for name in _FITTED},
            **found,
        }
        scores = {"fair": scores}
        if compare:
            # The largest gap there can be is allowed; all else is the same.
            plain = clone(model).set_params(kappa=1.0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # they are about the groups, as before
                plain.fit(X["train"], **known)
            found, scores["without fairness"] = _measure(plain, X, parts)
            content["baseline"] = {"converged": plain.converged_, **found}
    content |= {"seconds": seconds, "peak_memory_bytes": peak_memory()}
    report = _report.Report(
        "classify",
        content,
        _title(content),
        str(train),
        _facts(content),
        _report.part_tables(content, _COLUMNS),
        [_figure(name, part, scores, options) for name, part in parts.items()],
    )
    saved = {
        "classifier": model,
        "encoder": encoder,
        "feature_names": _rows.feature_names(encoder, rows),
        "classes": model.classes_,
        "groups": model.groups_,
        **_rows.describe_columns(rows, reading),
    }
    writers = {
        "output": lambda file: joblib.dump(saved, file),
        "report": lambda file: report.write(file, written["report"]),
    }
    _output.write_files({path: writers[name] for name, path in written.items()})
    if show:
        report.show(written)
    if not model.converged_:
        ctx.exit(_errors.NOT_CONVERGED)


_options.add_options(
    classify,
    [
        *_options.ROLES,
        _options.output_option("the model"),
        *_options.estimator_options(PartiallyFairClassifier, _PARAMETERS),
        _options.option("Training", "--standardize", is_flag=True, help=_STANDARDIZE),
        *_options.INPUT,
        _options.SVMLIGHT,
        *_options.TEST,
        _options.BASELINE,
        _options.REPORT,
        _options.MEMORY_LIMIT,
        _options.QUIET,
    ],
)


def _check_labels(rows: _rows.Rows) -> None:
    if rows.target is None:
        raise click.UsageError(
            f"Missing option '--target': {rows.path} needs a column, or a file, with "
            "the label of each row."
        )
    labels = np.unique(rows.target)
    # As scikit-learn has it, fractions are no labels.
    fractions = labels.dtype.kind == "f" and (labels % 1 != 0).any()
    if len(labels) != 2 or fractions:
        listed = ", ".join(map(repr, labels[:8].tolist())) + ", ..." * (len(labels) > 8)
        raise _errors.Failure(
            f"{rows.target_from}: has {len(labels):,} different labels ({listed}), but "
            "two, words or whole numbers, are to be told apart. Join labels, or leave "
            "rows out."
        )


def _measure(
    model: Any, X: Mapping[str, Any], parts: Mapping[str, _rows.Rows]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Accuracy, gaps and rates of groups on each part of the rows; and its scores."""
    found, scores = {}, {}
    for name, rows in parts.items():
        scores[name] = model.decision_function(X[name], sensitive_features=rows.groups)
        positive, selected = rows.target == model.classes_[1], scores[name] > 0
        frame = pandas.DataFrame(
            {
                "n_rows": 1,
                "positive_rate": positive,
                "selection_rate": selected,
                "accuracy": positive == selected,
            }
        )
        table = frame.groupby(rows.groups).mean()
        table["n_rows"] = frame.groupby(rows.groups).size()
        table.insert(0, "group", table.index.astype(str))
        where = {"sensitive_features": rows.groups, "interval": model.interval}
        found[name] = {
            "accuracy": frame["accuracy"].mean(),
            "partial_parity_gap": metrics.partial_demographic_parity_gap(
                scores[name], **where
            ),
            "weak_partial_parity_gap": metrics.weak_partial_demographic_parity_gap(
                scores[name], threshold=model.threshold, **where
            ),
            "groups": table.to_dict("records"),
        }
    return found, scores


def _title(content: Mapping[str, Any]) -> str:
    part = "test" if "test" in content else "train"
    found, (low, high) = content[part], content["parameters"]["interval"]
    weak = content["parameters"]["criterion"] == "weak"
    gap = found["weak_partial_parity_gap" if weak else "partial_parity_gap"]
    return (
        f"Groups differ by {gap:.3f} {'at the threshold' if weak else 'at most'} "
        f"within ranks {low:g} to {high:g}, accuracy {found['accuracy']:.1%} ({part} "
        "rows)"
    )


def _facts(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    facts = [("features", f"{content['input']['n_features']:,}")]
    facts += [("positive label", content["positive_label"])]
    for key, title in _MEASURES.items():
        facts.append((title, _report.by_part(content, f"{{{key}:.4f}}")))
        if "baseline" in content:
            plain = _report.by_part(content["baseline"], f"{{{key}:.4f}}")
            facts.append(("  without fairness", plain))
    seconds, n_iter = content["seconds"], _report.iterations(content["n_iter"])
    residual = apart(content["kkt_residual"], content["parameters"]["tol"])
    return [
        *facts,
        ("KKT residual", residual),
        ("oracle calls", f"{content['n_oracle_calls']:,} in {n_iter}"),
        ("time", f"{seconds['fit']:.1f} s, reading {seconds['read']:.1f} s"),
    ]


def _figure(
    part: str,
    rows: _rows.Rows,
    scores: Mapping[str, Mapping[str, Any]],
    parameters: Mapping[str, Any],
) -> _report.Figure:
    """Densities of the scores of groups, and their rates, of all models."""
    codes, shown, names, remark = _report.choose_groups(rows.groups)
    groups = np.array(names)[np.unique(codes[shown], return_inverse=True)[1]]
    kept = {name: found[part][shown] for name, found in scores.items()}
    # The two groups that are treated most differently.
    rates = pandas.Series(kept["fair"] > 0).groupby(groups).mean().sort_values()
    pair = sorted([rates.index[0], rates.index[-1]])
    low, high = parameters["interval"]

    def plot(figure: Any) -> None:
        from scalefair.plotting import GroupRateDisplay, ScoreDensityDisplay

        left, right = figure.subplots(1, 2)
        how: dict[str, Any] = {"sensitive_features": groups, "interval": (low, high)}
        ScoreDensityDisplay.from_predictions(
            kept["fair"], threshold=0.0, ax=left, **how
        )
        GroupRateDisplay.from_predictions(
            kept, kappa=parameters["kappa"], pair=pair, ax=right, **how
        )

    return _report.Figure(
        plot,
        (13, 4.5),
        f"Left the density of the scores of each group, {part} rows, with bars at the "
        f"scores of ranks {low:g} to {high:g}. Right the shares of groups "
        f"{' and '.join(pair)} above a threshold; equal ones lie on the diagonal.",
        f"Scores of the {part} rows, left; marked are those of ranks {low:g} to "
        f"{high:g}, where groups are to be treated alike. Right the shares above a "
        "threshold of the two groups whose selected shares differ most; green is what "
        f"--kappa allows.{remark}",
    )
