"""``scalefair classify``: a classifier that is fair within a range of ranks."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import joblib
import numpy as np
import pandas
from numpy.typing import NDArray
from sklearn.base import clone

from scalefair._digits import apart
from scalefair.cli import _options as shared
from scalefair.cli._errors import EXIT_CODES, NOT_CONVERGED, Failure, debug_option
from scalefair.cli._fit import (
    describe_passes,
    fit,
    on_terminal,
    peak_memory,
)
from scalefair.cli._output import name_outputs, write_files
from scalefair.cli._report import (
    Figure,
    Report,
    by_part,
    choose_groups,
    count_values,
    describe_run,
    iterations,
    part_tables,
)
from scalefair.cli._rows import (
    Reading,
    Rows,
    describe_columns,
    encoded,
    feature_names,
    read_rows,
    refuse_unknown,
)
from scalefair.linear_model import PartiallyFairClassifier
from scalefair.metrics import (
    partial_demographic_parity_gap,
    weak_partial_demographic_parity_gap,
)

_EPILOG = f"""\b
TRAIN may be
  a table     text, packed (gz, bz2, xz) or not, or parquet (needs
              pip install "scalefair[data]"); each word of a column of words
              becomes a feature of its own
  svmlight    label number:value ...; .svm, .svmlight or .libsvm
  an array    .npy of numpy.save, .npz of scipy.sparse.save_npz
\b
--target and --groups name a column first, else a file: a line or `id,value`
for each row, or a .npy array. Of the two labels the one that sorts last is
the positive one, with high scores.
\b
Gap: the share of a group above a threshold, counted within the interval of
ranks, differs by at most this much from any other group's; at all thresholds
(partial parity gap), or at --threshold (weak gap). 0 is fair, 1 is not. The
indicator is replaced by a ramp, so that it may be larger than --kappa.
\b
`scalefair predict MODEL ROWS` uses the model. It is a file of joblib (load
only those you trust), a dictionary: classifier, encoder, columns ... With a
frame, or an array of these columns:
  X = model["encoder"].transform(frame[model["columns"]])
  model["classifier"].predict(X, sensitive_features=groups)
\b
{EXIT_CODES}
"""


class _Ranks(click.ParamType):
    """Interval of ranks, ``alpha,beta`` with 0 <= alpha < beta <= 1."""

    name = "ranks"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, float]:
        try:
            low, high = map(float, value.split(","))
        except ValueError:
            low, high = 1.0, 0.0
        if not 0 <= low < high <= 1:
            wanted = "alpha,beta with 0 <= alpha < beta <= 1 (0 is the top)"
            self.fail(f"{value!r} is not {wanted}, such as 0.05,0.30.", param, ctx)
        return low, high


_SPELLED = {"type": _Ranks(), "default": "0,1", "metavar": "ALPHA,BETA"}
_OPTIONS = [
    *shared.ROLES,
    shared.output_option("the model (joblib), see below,"),
    *shared.estimator_options(
        PartiallyFairClassifier,
        {
            "interval": ("Fairness", _SPELLED),
            **dict.fromkeys(("kappa", "criterion", "threshold"), ("Fairness",)),
            **dict.fromkeys(("n_thresholds", "interactions"), ("Fairness",)),
            **dict.fromkeys(("loss", "alpha", "tol", "max_iter"), ("Training",)),
            "inner_solver": ("Advanced", "--solver"),
            **dict.fromkeys(("surrogate", "start", "tune_intercept"), ("Advanced",)),
            **dict.fromkeys(("max_groups", "min_group_size"), ("Advanced",)),
        },
    ),
    shared.option(
        "Training",
        "--standardize",
        is_flag=True,
        help="Divide each column of numbers by its standard deviation and, unless it "
        "is sparse, centre it; training does not need it.",
    ),
    *shared.INPUT,
    shared.SVMLIGHT,
    *shared.TEST,
    shared.BASELINE,
    shared.REPORT,
    shared.MEMORY_LIMIT,
    shared.QUIET,
]
_COLUMNS = {
    "group": ("group", ""),
    "n_rows": ("rows", ",d"),
    "positive_rate": ("positive", ".1%"),
    "selection_rate": ("selected", ".1%"),
    "accuracy": ("accuracy", ".1%"),
}
_FITTED = ["converged", "n_iter", "n_oracle_calls", "kkt_residual", "objective"]
_FITTED += ["infeasibility", "history"]
_MEASURES = {
    "accuracy": "accuracy",
    "partial_parity_gap": "partial parity gap",
    "weak_partial_parity_gap": "weak gap",
}


@click.command(
    cls=shared.SectionedCommand,
    epilog=_EPILOG,
    short_help="Train a classifier that is fair within a range of ranks.",
)
@click.argument("train", type=shared.PATH)
@debug_option
@click.pass_context
def classify(
    ctx: click.Context,
    /,
    train: Path,
    output: Path,
    report_file: Path | None,
    test_file: Path | None,
    standardize: bool,
    baseline: bool | None,
    quiet: bool | None,
    **options: Any,
) -> None:
    """Train a linear classifier on the rows in TRAIN.

    Its scores treat groups alike within an interval of ranks, where decisions are
    contested. On a terminal a summary is shown; in a pipe nothing is printed but
    errors, warnings and notes, on stderr.
    """
    tested = {name: options.pop(f"test_{name}") for name in ("target", "groups")}
    for name, given in tested.items():
        if given is not None and test_file is None:
            raise click.UsageError(f"--test-{name} applies with --test only.")
    names = (train, test_file, options["target"], options["groups"], *tested.values())
    written = name_outputs(
        {"output": (output, ".joblib"), "report": (report_file, "")},
        (Path(name) for name in names if name is not None),
    )
    show = on_terminal(quiet, written.values())
    start = time.perf_counter()
    folder = Path(os.path.realpath(output)).parent
    reading = Reading.take(options, folder=folder)
    parts = {"train": read_rows(train, reading)}
    rows = parts["train"]
    _check_labels(rows)
    if test_file is not None:
        parts["test"] = _read_test(test_file, rows, reading, tested)
    seconds = {"read": time.perf_counter() - start}

    model = PartiallyFairClassifier(**options)
    how = {"standardize": standardize, "impute": reading.missing == "impute"}
    with encoded(parts, show=show, **how) as (encoder, X):
        roles = {"y": rows.target, "sensitive_features": rows.groups}
        seconds["fit"] = fit(model, X["train"], path=train, show=show, **roles)
        scores = {"fair": _score(model, X, parts)}
        content = {
            **describe_run("classify", {**options, "standardize": standardize}),
            "input": {
                "n_features": X["train"].shape[1],
                **{name: _describe(part, X[name]) for name, part in parts.items()},
            },
            "positive_label": str(model.classes_[1]),
            **{name: getattr(model, f"{name}_") for name in _FITTED},
            **_measure(model, scores["fair"], parts),
        }
        if baseline or (baseline is None and (show or report_file is not None)):
            # The largest gap there can be is allowed; all else is the same.
            plain = clone(model).set_params(kappa=1.0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # they are about the groups, too
                plain.fit(X["train"], **roles)
            scores["without fairness"] = _score(plain, X, parts)
            content["baseline"] = {
                "converged": plain.converged_,
                **_measure(plain, scores["without fairness"], parts),
            }

    content |= {"seconds": seconds, "peak_memory_bytes": peak_memory()}
    report = _report(content, scores, parts)
    saved = {
        "classifier": model,
        "encoder": encoder,
        "feature_names": feature_names(encoder, rows),
        "classes": model.classes_,
        "groups": model.groups_,
        **describe_columns(rows, reading),
    }
    writers = {
        "output": lambda file: joblib.dump(saved, file),
        "report": lambda file: report.write(file, written["report"]),
    }
    write_files({path: writers[name] for name, path in written.items()})
    if show:
        report.show(written)
    if not model.converged_:
        ctx.exit(NOT_CONVERGED)


shared.add_options(classify, _OPTIONS)


def _check_labels(rows: Rows) -> None:
    if rows.target is None:
        raise click.UsageError(
            f"Missing option '--target': {rows.path} needs a column, or a file, with "
            "the label of each row."
        )
    labels = np.unique(rows.target)
    listed = ", ".join(map(repr, labels[:8].tolist())) + ", ..." * (len(labels) > 8)
    if len(labels) != 2:
        raise Failure(
            f"{rows.target_from}: has {len(labels):,} different labels ({listed}), but "
            "two are to be told apart. Join labels, or leave rows out."
        )
    if labels.dtype.kind == "f" and (labels % 1 != 0).any():  # as scikit-learn has it
        raise Failure(
            f"{rows.target_from}: the labels {listed} are fractions. Labels are whole "
            "numbers or words, such as 0 and 1."
        )


def _read_test(
    path: Path, like: Rows, reading: Reading, given: Mapping[str, str | None]
) -> Rows:
    """Read the rows of a test, whose target and groups are where those of TRAIN are."""
    for name in like.from_files:
        if given[name] is None:
            raise click.UsageError(
                f"Missing option '--test-{name}': {path} needs a file of its own."
            )
    chosen = {name: value for name, value in given.items() if value is not None}
    rows = read_rows(path, replace(reading, **chosen), like=like)
    refuse_unknown(rows.target_from, "label", rows.target, np.unique(like.target))
    return rows


def _describe(rows: Rows, X: Any) -> dict[str, Any]:
    return {
        "rows": str(rows.path),
        **describe_passes(X),
        "labels_from": rows.target_from,
        "groups_from": rows.groups_from,
        "n_rows": rows.n_rows,
        "labels": count_values(rows.target),
        "groups": count_values(rows.groups),
    }


def _score(
    model: Any, X: Mapping[str, Any], parts: Mapping[str, Rows]
) -> dict[str, NDArray[np.float64]]:
    return {
        name: model.decision_function(X[name], sensitive_features=rows.groups)
        for name, rows in parts.items()
    }


def _measure(
    model: Any, scores: Mapping[str, NDArray[np.float64]], parts: Mapping[str, Rows]
) -> dict[str, Any]:
    """Accuracy, gaps and rates of a classifier on each part of the rows."""
    found = {}
    for name, rows in parts.items():
        positive, selected = rows.target == model.classes_[1], scores[name] > 0
        frame = pandas.DataFrame(
            {"positive_rate": positive, "selection_rate": selected}
        )
        frame["accuracy"] = positive == selected
        by_group = frame.groupby(rows.groups)
        table = by_group.mean()
        table.insert(0, "n_rows", by_group.size())
        table.insert(0, "group", table.index.astype(str))
        where = {"sensitive_features": rows.groups, "interval": model.interval}
        found[name] = {
            "accuracy": frame["accuracy"].mean(),
            "partial_parity_gap": partial_demographic_parity_gap(scores[name], **where),
            "weak_partial_parity_gap": weak_partial_demographic_parity_gap(
                scores[name], threshold=model.threshold, **where
            ),
            "groups": table.to_dict("records"),
        }
    return found


def _report(
    content: dict[str, Any],
    scores: Mapping[str, Mapping[str, NDArray[np.float64]]],
    parts: Mapping[str, Rows],
) -> Report:
    """Say what was found; `scores` are those of models, then of parts of the rows."""
    parameters, seconds = content["parameters"], content["seconds"]
    name = list(parts)[-1]
    weak = parameters["criterion"] == "weak"
    gap = content[name]["weak_partial_parity_gap" if weak else "partial_parity_gap"]
    low, high = parameters["interval"]
    facts = [("features", f"{content['input']['n_features']:,}")]
    facts += [("positive label", content["positive_label"])]
    for key, title in _MEASURES.items():
        facts.append((title, by_part(content, f"{{{key}:.4f}}")))
        if "baseline" in content:
            plain = by_part(content["baseline"], f"{{{key}:.4f}}")
            facts.append((f"{title}, without fairness", plain))
    residual, tol = content["kkt_residual"], parameters["tol"]
    facts += [
        ("KKT residual", f"{apart(residual, tol)}"),
        (
            "oracle calls",
            f"{content['n_oracle_calls']:,} in {iterations(content['n_iter'])}",
        ),
        ("time", f"{seconds['fit']:.1f} s, reading {seconds['read']:.1f} s"),
    ]
    return Report(
        "classify",
        content,
        f"Groups differ by {gap:.3f} {'at the threshold' if weak else 'at most'} "
        f"within ranks {low:g} to {high:g}, accuracy {content[name]['accuracy']:.1%} "
        f"({name} rows)",
        str(parts["train"].path),
        facts,
        part_tables(content, _COLUMNS),
        [
            figure
            for name, rows in parts.items()
            for figure in _figures(
                name,
                {model: found[name] for model, found in scores.items()},
                rows.groups,
                parameters,
            )
        ],
    )


def _figures(
    part: str,
    scores: Mapping[str, NDArray[np.float64]],
    groups: NDArray[Any],
    parameters: Mapping[str, Any],
) -> list[Figure]:
    """Figures of a part's rows; of the scores of each model, the result first."""
    codes, shown, names, remark = choose_groups(groups)
    labels = np.array(names)[np.unique(codes[shown], return_inverse=True)[1]]
    scores = {model: found[shown] for model, found in scores.items()}
    # The two groups that are treated most differently.
    rates = pandas.Series(scores["fair"] > 0).groupby(labels).mean().sort_values()
    pair = sorted([rates.index[0], rates.index[-1]])
    how = {"sensitive_features": labels, "interval": parameters["interval"]}
    low, high = parameters["interval"]

    def plot_densities(figure: Any) -> None:
        from scalefair.plotting import ScoreDensityDisplay

        axes = figure.subplots(1, len(scores), squeeze=False, sharex=True)[0]
        for ax, (model, found) in zip(axes, scores.items(), strict=True):
            ScoreDensityDisplay.from_predictions(
                found, threshold=0.0, name=model, ax=ax, legend=ax is axes[-1], **how
            )

    def plot_rates(figure: Any) -> None:
        from scalefair.plotting import GroupRateDisplay

        GroupRateDisplay.from_predictions(
            scores, kappa=parameters["kappa"], pair=pair, ax=figure.subplots(), **how
        )

    return [
        Figure(
            plot_densities,
            (6 + 5 * (len(scores) - 1), 4.2),
            f"Density of the scores of each group, {part} rows. The bars below mark "
            f"the scores of ranks {low:g} to {high:g} in each group.",
            f"Scores of the {part} rows. Marked are those of ranks {low:g} to "
            f"{high:g}, where the groups are to be treated alike.{remark}",
        ),
        Figure(
            plot_rates,
            (8, 5),
            f"Shares of groups {' and '.join(pair)} above a threshold, as it falls, "
            f"against each other, {part} rows. Equal shares lie on the diagonal.",
            f"Shares above a threshold, {part} rows, of the groups whose shares of "
            "selected rows differ most. Green: what --kappa allows.",
        ),
    ]
