"""``scalefair regress``: a saved regressor made fair in one of its layers."""

from __future__ import annotations

import inspect
import sys
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click
import joblib
import numpy as np
import pandas
from numpy.typing import NDArray
from scipy import sparse
from sklearn.pipeline import Pipeline

from scalefair._memory import peak_memory
from scalefair._messages import listed
from scalefair.cli import _errors, _fit, _report, _rows
from scalefair.cli import _options as opt
from scalefair.files import reading
from scalefair.files._matrices import rows_format
from scalefair.files._tables import as_words
from scalefair.metrics import statistical_parity_ks
from scalefair.postprocessing import ExplainableSVDRegressor

_EPILOG = """\b
MODEL is an MLPRegressor, linear model, or Pipeline that ends in one, saved by
joblib.dump. It finds columns in TRAIN by name if it was fitted to named
ones; else it takes those of numbers beside target, groups and ids in order.
\b
Gaps: how mean and covariance of the layer's outputs differ between groups.
KS distance: the same of shares of predictions below a threshold; 0 is fair.
"""
# Rows that are predicted at a time.
_ROWS = 2**16
_TRUTH = {"True": True, "False": False}
_LAYER: dict[str, Any] = {"default": "-2", "metavar": "NUMBER|NAME|auto"}
_LAYER["type"] = lambda s: int(s) if s.lstrip("+-").isdigit() else s
_PARAMETERS = {
    "Layer": "layer method mean_reduction covariance_reduction max_distance "
    "noise_floor refit_last,--refit attributes random_state",
    "Advanced": "first_moment epsilon",
}
_OPTIONS = [*opt.ROLES, opt.output_option("the changed model (joblib)")]
_OPTIONS += opt.estimator_options(ExplainableSVDRegressor, _PARAMETERS, layer=_LAYER)
_OPTIONS += [*opt.INPUT, opt.SVMLIGHT, *opt.TEST, opt.REPORT, opt.QUIET]
_CONDITIONS = {
    "noise_floor": ("method", ("direct",)),
    "epsilon": ("first_moment", ("svd",)),
    "first_moment": ("method", ("explainable_svd",)),
}
_GAPS = ["mean_gap_before", "covariance_gap_before"]
_GAPS += ["mean_gap_after", "covariance_gap_after"]
_FITTED = ["layer", "groups", "output_change", "output_change_bound", "converged"]
_FITTED += ["mean_gap_noise", "covariance_gap_noise"]
_MEASURES = {"mse": "mean squared error", "ks": "KS distance"}


def load_model(path: Path) -> Any:
    """Open a file of joblib; code in it is run."""
    what = "a model saved by joblib.dump"
    with _fit.library_warnings(), reading(path, what), open(path, "rb") as file:
        try:
            return joblib.load(file)
        except (OSError, MemoryError):
            raise
        # What can go wrong depends on what is in the file, and on what is installed.
        except Exception as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error


def read_for(
    model: Any, path: Path, reading: opt.Reading, like: _rows.Rows | None = None
) -> _rows.Rows:
    """Read rows as a saved estimator takes them: columns by name, or numbers."""
    columns = list(getattr(model, "feature_names_in_", ())) or None
    named, kind = columns is not None, rows_format(path, reading.svmlight)
    if reading.missing == "impute" or (named and reading.drop):
        raise click.UsageError(
            "MODEL itself chooses columns by name and fills in missing values: --drop "
            "and --missing impute do not apply."
        )
    if named and kind != "table":
        raise _errors.Failure(
            f"{path}: its columns have no names, by which MODEL finds them. Save a "
            "table with a header."
        )
    how: dict[str, Any] = {"words": "keep" if named else "leave", "columns": columns}
    keep_missing = reading.missing == "error"
    rows = _rows.read_rows(path, reading, like=like, keep_missing=keep_missing, **how)
    known = _spellings(model) if rows.words else {}
    for name in rows.words:
        words = rows.X[name].where(rows.X[name].notna(), np.nan)
        if spelling := known.get(name):
            words = words.fillna(spelling.get("?", np.nan))
            vocabulary = sorted({*spelling, *spelling.values()})
            _rows.say_unknown(path, words, vocabulary, "the model does not know")
            words = words.replace(spelling)
        elif words.dropna().isin(_TRUTH).all():  # as pandas reads them
            words = words.map(_TRUTH)
        rows.X[name] = words
    if kind == "table" and not named:
        rows.X = rows.X.to_numpy(np.float64)
    lacking = getattr(model, "n_features_in_", 0) - rows.X.shape[1]
    if kind == "svmlight" and lacking > 0:  # they are zero in all rows
        rows.n_columns += lacking
        rows.X.resize(rows.n_rows, model.n_features_in_)
    return rows


def _spellings(model: Any) -> dict[str, dict[str, str]]:
    """Return words that encoders in a model know, stripped, with their spelling."""
    found = {}
    model = getattr(model, "estimator_", model)  # of one that regress has changed
    for step in getattr(model, "named_steps", {}).values():
        own = [("", step, [*getattr(step, "feature_names_in_", ())])]
        for _, part, columns in getattr(step, "transformers_", own):
            encoder = part[-1] if isinstance(part, Pipeline) else part
            known = getattr(encoder, "categories_", ())
            for name, words in zip(columns if len(known) else (), known, strict=True):
                texts = [word for word in words if isinstance(word, str)]
                found[name] = dict(
                    zip(as_words(pandas.Series(texts), ()), texts, strict=True)
                )
    return found


def predict(
    model: Any, path: Path, rows: _rows.Rows, method: str = "predict"
) -> NDArray[Any]:
    """Return a prediction for each row, some thousand rows at a time."""
    X = getattr(rows.X, "iloc", rows.X)
    slices = [slice(i, i + _ROWS) for i in range(0, rows.n_rows, _ROWS)]
    given: list[dict[str, Any]] = [{}] * len(slices)
    try:
        call = getattr(model, method)
        if known := inspect.signature(call).parameters.get("sensitive_features"):
            if rows.groups is not None:
                given = [{"sensitive_features": rows.groups[part]} for part in slices]
            elif known.default is known.empty:
                raise click.UsageError(_fit.NEEDS_GROUPS)
        parts = [call(X[p], **of) for p, of in zip(slices, given, strict=True)]
    except (OSError, MemoryError, click.UsageError):
        raise
    # What can go wrong depends on what is in the file.
    except Exception as error:
        said, _, _ = str(error).partition("\n")
        counts = pandas.DataFrame([] if sparse.issparse(rows.X) else rows.X).isna()
        gaps = zip(rows.names, counts.sum(), strict=False)
        missing = listed(f"{name} {n:,}" for name, n in gaps if n)
        hint = f" Values are missing ({missing}): pass --missing drop."
        raise _errors.Failure(
            f"{rows.path}: {path} cannot predict these rows ({type(error).__name__}: "
            f"{said}).{hint if missing else ''}"
        ) from error
    found = np.concatenate(parts)
    found = found.ravel() if found.shape[1:] == (1,) else found
    bad = np.argwhere(~np.isfinite(found) if found.dtype.kind == "f" else [])
    if found.ndim > 1 or bad.size:
        row = bad[0, 0] if bad.size else 0
        raise _errors.Failure(
            f"{rows.path}: {path} predicts {found[row]} for row {row} (counted from "
            "0), not one finite number. Check the model, and the scale of the columns."
        )
    return found


@opt.command(_OPTIONS, _EPILOG, model_file="MODEL", train="TRAIN")
@click.pass_context
def regress(
    ctx: click.Context, /, model_file: Path, train: Path, **options: Any
) -> None:
    """Change a layer of the regressor in MODEL, by the rows in TRAIN.

    Its predictions then differ less between groups, and need no group. Only open
    models you trust: such a file can run any code.
    """
    written, show = _fit.take_outputs(options, model_file, train, output=".joblib")
    start = time.perf_counter()
    # A model takes rows in memory.
    reading = opt.Reading.take(options, memory_limit=sys.maxsize)
    options["attributes"] = reading.attributes
    parameters = opt.parameters_in_force(ctx, options, _CONDITIONS)
    model = load_model(model_file)
    if not hasattr(model, "predict") or hasattr(model, "classes_"):
        held = getattr(model, "__name__", type(model).__name__)
        raise _errors.Failure(f"{model_file}: holds {held}, not a fitted regressor.")
    parts = _rows.read_parts(train, reading, partial(read_for, model))
    rows = parts["train"]
    y = {name: _as_numbers(part) for name, part in parts.items()}
    seconds = {"read": time.perf_counter() - start}

    fair = ExplainableSVDRegressor(model, **parameters)
    with _fit.library_warnings():
        # First of all, for it finds rows of another kind.
        before = {k: predict(model, model_file, part) for k, part in parts.items()}
    roles = {"y": y["train"], "sensitive_features": rows.compared}
    seconds["fit"] = _fit.fit(fair, rows.X, path=model_file, show=show, **roles)
    content = {
        **_report.describe_run("regress", parameters),
        "input": {"model": str(model_file), "n_features": rows.X.shape[1]},
        **_describe_fit(fair),
    }
    report = _report.Report("regress", content, "", str(train))
    with _fit.library_warnings():
        for name, part in parts.items():
            found = {"before": before[name], "after": predict(fair, model_file, part)}
            read = {**_fit.describe(part, part.X), "target_from": part.target_from}
            content["input"][name] = read
            content[name] = _measure(part.compared, y[name], found)
            for of, groups in _report.by_attribute(part.compared).items():
                report.figures.append(_figure(name, groups, found, of))
    content |= {"seconds": seconds, "peak_memory_bytes": peak_memory()}
    _fill(report)
    writers = {"output": partial(joblib.dump, fair)}
    _fit.finish(report, written, writers, show=show, converged=fair.converged_)


def _as_numbers(rows: _rows.Rows) -> NDArray[np.float64]:
    given = pandas.Series(rows.target)
    y: NDArray[np.float64] = pandas.to_numeric(given, errors="coerce").to_numpy(float)
    bad = np.flatnonzero(~np.isfinite(y))
    if bad.size:
        raise _errors.Failure(
            f"{rows.target_from}: the target of row {bad[0]} (counted from 0) is "
            f"{rows.target[bad[0]].item()!r}, not a finite number. Correct it."
        )
    return y


def _describe_fit(model: Any) -> dict[str, Any]:
    """Say what was changed, and the gaps before and after."""
    found = {name: getattr(model, f"{name}_") for name in (*_FITTED, *_GAPS)}
    layers, found["last_layer"] = model.unfairness_by_layer_, None
    found["layer_name"] = layers[model.layer_].name
    found["layer_shape"] = model.weight_.shape
    if model.refit_last is not None:
        values = (*model.refit_gaps_before_, *model.refit_gaps_after_)
        found["last_layer"] = dict(zip(_GAPS, values, strict=True))
    scored = [layer and {**asdict(layer), "score": layer.score} for layer in layers]
    return {**found, "unfairness_by_layer": scored}


def _measure(
    groups: Any, y: NDArray[np.float64], outputs: dict[str, NDArray[Any]]
) -> dict[str, Any]:
    """Errors and distances of the groups' predictions, before and after."""
    centre, variance = y.mean(), y.var()
    columns, found = {"mean_target": y, "square": (y - centre) ** 2}, {}
    for when, values in outputs.items():
        columns |= {f"mean_{when}": values, f"mse_{when}": (values - y) ** 2}
        found[f"mse_{when}"] = columns[f"mse_{when}"].mean()
        found[f"r2_{when}"] = _explained(found[f"mse_{when}"], variance)
        of = {"sensitive_features": groups, "attributes": "each"}
        found[f"ks_{when}"] = statistical_parity_ks(values, **of)
    records = _report.group_means(pandas.DataFrame(columns), groups)
    for record in records:
        variance = record.pop("square") - (record["mean_target"] - centre) ** 2
        for when in outputs:
            record[f"r2_{when}"] = _explained(record[f"mse_{when}"], variance)
    return {**found, "groups": records}


def _explained(error: float, variance: float) -> float | None:
    """R2, if targets differ."""
    return 1 - error / variance if variance > 0 else None


def _fill(report: _report.Report) -> None:
    """Add title, facts and tables."""
    content, facts, said = report.content, report.facts, []
    m, n = content["layer_shape"]
    facts.append(("layer", f"{content['layer_name']}, {n} inputs, {m} outputs"))
    facts.append(("output change", f"{content['output_change']:.2%}"))
    part, found = [*_report.parts_of(content).items()][-1]
    change = "{%s_before:.4g} -> {%s_after:.4g}"
    for gap in ("mean_gap", "covariance_gap"):
        line, title = change % (gap, gap), gap.replace("_", " ")
        facts.append((title, line.format(**content)))
        if refit := content["last_layer"]:
            facts.append((f"{title}, refit", line.format(**refit)))
    for key, title in _MEASURES.items():
        facts.append((title, _report.by_part(content, change % (key, key))))
        values = found[f"{key}_before"], found[f"{key}_after"]
        said.append(f"the {title} {_report.change(*values)}")
    time = "{fit:.1f} s, reading {read:.1f} s"
    facts.append(("time", time.format(**content["seconds"])))
    report.title = f"Of the {part} rows {', '.join(said)}"
    report.tables = _report.part_tables(content)
    layers = [layer for layer in content["unfairness_by_layer"] if layer]
    report.tables.append(_report.Table("Layers, before the change", layers))


def _figure(
    part: str, groups: NDArray[Any], outputs: dict[str, NDArray[Any]], of: str
) -> _report.Figure:
    """Densities of the predictions of groups, before and after the change."""
    shown, names, remark = _report.choose_groups(groups)
    how: dict[str, Any] = {"output_name": "prediction", "kind": "histogram"}
    how["sensitive_features"] = names

    def plot(figure: Any) -> None:
        from scalefair.plotting import OutputDensityDisplay

        drawn = {when: values[shown] for when, values in outputs.items()}
        how["ax"] = figure.subplots(1, 2, sharex=True, sharey=True)
        OutputDensityDisplay.from_predictions(drawn, **how)

    of = of and f" of {of}"
    said = f"Predictions for each group{of} before and after the change, {part} rows."
    said += f" Where the curves agree groups are treated alike.{remark}"
    return _report.Figure(plot, (10, 3.8), f"Densities. {said}", said)
