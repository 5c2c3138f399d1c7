"""``scalefair regress``: a saved regressor made fair in one of its layers.

The model is of the user: it chooses its columns, and may raise any error. `predict`
reads rows for such models, and calls them, by the functions here.
"""

import inspect
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
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
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import gen_batches

from scalefair._memory import peak_memory
from scalefair._messages import listed
from scalefair._rounding import ROUNDING
from scalefair.cli import _encoder, _errors, _report, _rows, _run
from scalefair.cli import _options as opt
from scalefair.cli._report import Facts
from scalefair.cli._roles import Rows
from scalefair.files import reading
from scalefair.files._matrices import rows_format
from scalefair.files._tables import as_strings
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
_BOOLEANS = {"True": True, "False": False}
# A layer goes by its number, also from the end, or by its name.
_LAYER: dict[str, Any] = {
    "default": "-2",
    "metavar": "NUMBER|NAME|auto",
    "type": lambda text: int(text) if text.lstrip("+-").isdigit() else text,
}
_PARAMETERS = {
    "Layer": "layer method mean_reduction covariance_reduction max_distance "
    "noise_floor refit_last,--refit attributes random_state",
    "Advanced": "first_moment epsilon",
}
_OPTIONS = [
    *opt.shared(opt.ROLE_OPTIONS),
    opt.output_option("the changed model (joblib)"),
    *opt.estimator_options(ExplainableSVDRegressor, _PARAMETERS, layer=_LAYER),
    *opt.shared(f"{opt.INPUT} svmlight {opt.TEST} report quiet"),
]
# Options that apply with some values of another one only.
_CONDITIONS = {
    "noise_floor": ("method", ("direct",)),
    "epsilon": ("first_moment", ("svd",)),
    "first_moment": ("method", ("explainable_svd",)),
}
# Attributes of the model that are in the report.
_GAPS = ["mean_gap_before", "covariance_gap_before"]
_GAPS += ["mean_gap_after", "covariance_gap_after"]
_FITTED = ["layer", "groups", "output_change", "output_change_bound", "converged"]
_FITTED += ["layer_changed", "mean_gap_noise", "covariance_gap_noise"]
# Columns of the table of groups: title and format by key.
_COLUMNS = {
    **_report.GROUP_COLUMNS,
    "mse_before": ("error\nbefore", ".4g"),
    "mse_after": ("error\nafter", ".4g"),
    "mean_before": ("mean\nbefore", ".4g"),
    "mean_after": ("mean\nafter", ".4g"),
    "mean_target": ("mean\ntarget", ".4g"),
    "r2_before": ("R2\nbefore", ".3f"),
    "r2_after": ("R2\nafter", ".3f"),
}
_MEASURES = {"mse": "mean squared error", "ks": "KS distance"}


# --- Models of users -----------------------------------------------------------------


def load_model(path: Path) -> Any:
    """Open a file of joblib; code in it is run."""
    content = "a model saved by joblib.dump"
    with _run.library_warnings(), reading(path, content), open(path, "rb") as file:
        try:
            return joblib.load(file)
        except (OSError, MemoryError):
            raise
        # The file may raise any error, as may the packages that it imports.
        except Exception as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error


def read_for_model(
    model: Any, path: Path, options: opt.ReadOptions, training: Rows | None = None
) -> Rows:
    """Read rows as a saved estimator takes them: columns by name, or of numbers.

    `training` are rows that were read for the same model before.
    """
    # 1. A model finds its columns by name if it was fitted to named ones.
    columns = list(getattr(model, "feature_names_in_", ())) or None
    has_names, rows_kind = columns is not None, rows_format(path, options.svmlight)
    is_chosen = options.feature or (has_names and options.drop)
    if options.missing == "impute" or is_chosen:
        raise click.UsageError(
            "MODEL itself chooses columns by name and fills in missing values: --drop, "
            "--feature and --missing impute do not apply."
        )
    if has_names and rows_kind != "table":
        raise _errors.Failure(
            f"{path}: its columns have no names, by which MODEL finds them. Save a "
            "table with a header."
        )
    rows = _rows.read_rows(
        path,
        options,
        training=training,
        strings="keep" if has_names else "drop",
        columns=columns,
        keep_missing=options.missing == "error",
    )
    # 2. Strings get the spelling of the model's categories, or are booleans.
    categories = _categories(model) if rows.string_columns else {}
    for name in rows.string_columns:
        values = rows.X[name].where(rows.X[name].notna(), np.nan)
        if spellings := categories.get(name):
            values = values.fillna(spellings.get("?", np.nan))
            vocabulary = sorted({*spellings, *spellings.values()})
            _encoder.note_unknown(
                rows.path, values, vocabulary, "the model does not know"
            )
            values = values.replace(spellings)
        elif values.dropna().isin(_BOOLEANS).all():  # as pandas reads them
            values = values.map(_BOOLEANS)
        rows.X[name] = values
    # 3. Names of columns are for models that know them.
    if rows_kind == "table" and not has_names:
        rows.X = rows.X.to_numpy(np.float64)
    n_missing = getattr(model, "n_features_in_", 0) - rows.X.shape[1]
    if rows_kind == "svmlight" and n_missing > 0:  # zero in all rows, and not written
        rows.n_columns += n_missing
        rows.X.resize(rows.n_rows, model.n_features_in_)
    return rows


def _categories(model: Any) -> dict[str, dict[str, str]]:
    """Return categories of the encoders in a model: stripped, with their spelling.

    Cells of a table are stripped of blanks; the model may know them with blanks.
    """
    categories = {}
    model = getattr(model, "estimator_", model)  # of one that regress has changed
    for names, by_column in _encoders(model):
        for name, values in zip(names, by_column, strict=False):
            spelled = [value for value in values if isinstance(value, str)]
            stripped = as_strings(pandas.Series(spelled), ())
            categories[name] = dict(zip(stripped, spelled, strict=True))
    return categories


def _encoders(pipeline: Any) -> Iterator[tuple[Sequence[str], Any]]:
    """Yield names of columns and their categories, of each encoder in a pipeline.

    It is a step itself, or part of a ColumnTransformer.
    """
    for i, step in enumerate(getattr(pipeline, "named_steps", {}).values()):
        for _, part, _ in getattr(step, "transformers_", ()):
            is_pipeline = isinstance(part, Pipeline)
            yield from _encoders(part if is_pipeline else make_pipeline(part))
        if hasattr(step, "categories_"):
            names = getattr(step, "feature_names_in_", ())
            # Not all steps before it name their columns.
            with suppress(AttributeError, ValueError):
                names = names if len(names) else [*pipeline[:i].get_feature_names_out()]
            yield names, step.categories_


def predict(
    model: Any, path: Path, rows: Rows, method: str = "predict"
) -> NDArray[Any]:
    """Return a prediction for each row, in batches that fit into the memory.

    `path` is the file of the model, `method` what it is asked for.
    """
    X = getattr(rows.X, "iloc", rows.X)  # of a frame rows by number
    parts = []
    try:
        # 1. Some models take groups.
        call = getattr(model, method)
        parameter = inspect.signature(call).parameters.get("sensitive_features")
        takes_groups = parameter is not None and rows.groups is not None
        # 2. Predict.
        for batch in gen_batches(rows.n_rows, 2**16):
            groups = {"sensitive_features": rows.groups[batch]} if takes_groups else {}
            parts.append(call(X[batch], **groups))
    except (OSError, MemoryError):
        raise
    # The model may raise any error: the groups, or values, that it lacks are often the
    # reason.
    except Exception as error:
        if rows.groups is None and "sensitive_features" in str(error):
            raise click.UsageError(_run.NEEDS_GROUPS) from error
        hint, (reason, _, _) = "", str(error).partition("\n")
        if not sparse.issparse(rows.X):
            counts = pandas.DataFrame(rows.X).isna().sum()
            columns = zip(rows.names, counts, strict=False)
            if missing := listed(f"{name} {n:,}" for name, n in columns if n):
                hint = f" Values are missing ({missing}): pass --missing drop."
        raise _errors.Failure(
            f"{rows.path}: {path} cannot predict these rows ({type(error).__name__}: "
            f"{reason}).{hint}"
        ) from error
    # 3. One finite number for each row, or a class.
    predictions = np.concatenate(parts)
    if predictions.shape[1:] == (1,):
        predictions = predictions.ravel()
    is_float = predictions.dtype.kind == "f"
    invalid = np.argwhere(~np.isfinite(predictions) if is_float else [])
    if predictions.ndim > 1 or invalid.size:
        row = invalid[0, 0] if invalid.size else 0
        raise _errors.Failure(
            f"{rows.path}: {path} predicts {predictions[row]} for {rows.name_of(row)}, "
            "not one finite number. Check the model, and the scale of the columns."
        )
    return predictions


# --- The command ---------------------------------------------------------------------


@opt.command(_OPTIONS, _EPILOG, model_file="MODEL", train="TRAIN")
def regress(model_file: Path, train: Path, **options: Any) -> None:
    """Change a layer of the regressor in MODEL, by the rows in TRAIN.

    Its predictions then differ less between groups, and need no group. Only open
    models you trust: such a file can run any code.
    """
    outputs, show = _run.take_outputs(options, model_file, train, output=".joblib")
    # 1. Read the model and its rows, which it takes in memory.
    start = time.perf_counter()
    read_options = opt.ReadOptions.take(options, memory_limit=sys.maxsize)
    parameters = opt.parameters_in_force(options, _CONDITIONS)
    model = load_model(model_file)
    if not hasattr(model, "predict") or hasattr(model, "classes_"):
        kind = getattr(model, "__name__", type(model).__name__)
        raise _errors.Failure(f"{model_file}: holds {kind}, not a fitted regressor.")
    parts = _rows.read_parts(train, read_options, partial(read_for_model, model))
    rows = parts["train"]
    y = {name: _as_numbers(part) for name, part in parts.items()}
    seconds = {"read": time.perf_counter() - start}
    # 2. Predict before and after the change. The model rejects wrong rows with a
    #    clearer message than the fit.
    fair = ExplainableSVDRegressor(model, **parameters)
    with _run.library_warnings():
        before = {k: predict(model, model_file, part) for k, part in parts.items()}
    roles = {"y": y["train"], **rows.fit_arguments}
    seconds["fit"] = _run.fit(fair, rows.X, path=model_file, show=show, **roles)
    # 3. Measure each part of the rows, and write report and model.
    source: Facts = {"model": str(model_file), "n_features": rows.X.shape[1]}
    content = {
        **_report.describe_run("regress", parameters),
        "input": source,
        **_describe_fit(fair),
    }
    report = _report.Report("regress", content, "", str(train))
    predictions: dict[str, dict[str, NDArray[Any]]] = {}
    with _run.library_warnings():
        for name, part in parts.items():
            predictions[name] = {
                "before": before[name],
                "after": predict(fair, model_file, part),
            }
            source[name] = {
                **_run.describe_rows(part, part.X),
                "target_from": part.sources["target"],
            }
            content[name] = _measure(part, y[name], predictions[name])
    # Figures are of entries, a row for each group that it may be of.
    entries = {name: part.entries() for name, part in parts.items()}
    content |= {"seconds": seconds, "peak_memory_bytes": peak_memory()}
    _add_facts(report)

    def plot(figure: Any, part: str, selected: Any, **roles: Any) -> None:
        """Draw densities of the predictions of groups, before and after the change."""
        from scalefair.plotting import OutputDensityDisplay

        OutputDensityDisplay.from_predictions(
            {
                when: values[entries[part].positions][selected]
                for when, values in predictions[part].items()
            },
            output_name="prediction",
            kind="histogram",
            ax=figure.subplots(1, 2, sharex=True, sharey=True),
            **roles,
        )

    caption = (
        "Predictions for each group{of_attribute} before and after the change, {part} "
        "rows. The nearer the curves, the smaller the distance of the groups."
    )
    report.figures = _report.group_figures(entries, plot, (10, 3.8), caption)
    writers = {"output": partial(joblib.dump, fair)}
    _run.finish(report, outputs, writers, show=show, converged=fair.converged_)


def _as_numbers(rows: Rows) -> NDArray[np.float64]:
    """Return the target as finite numbers."""
    target = pandas.Series(rows.target)
    y: NDArray[np.float64] = pandas.to_numeric(target, errors="coerce").to_numpy(float)
    invalid = np.flatnonzero(~np.isfinite(y))
    if invalid.size:
        row, value = rows.name_of(invalid[0]), rows.target[invalid[0]].item()
        raise _errors.Failure(
            f"{rows.sources['target']}: the target of {row} is {value!r}, not a finite "
            "number. Correct it."
        )
    return y


# --- The report ----------------------------------------------------------------------


def _describe_fit(model: Any) -> Facts:
    """Return which layer was changed, and the gaps before and after."""
    layers = model.unfairness_by_layer_
    facts = {name: getattr(model, f"{name}_") for name in (*_FITTED, *_GAPS)}
    facts["last_layer"] = None  # its gaps, if it is fitted anew
    facts["layer_name"] = layers[model.layer_].name
    facts["layer_shape"] = model.weight_.shape
    if model.refit_last is not None:
        values = (*model.refit_gaps_before_, *model.refit_gaps_after_)
        facts["last_layer"] = dict(zip(_GAPS, values, strict=True))
    # Layers without a measure are None.
    facts["unfairness_by_layer"] = [
        layer and {**asdict(layer), "score": layer.score} for layer in layers
    ]
    return facts


def _measure(
    rows: Rows, y: NDArray[np.float64], predictions: dict[str, NDArray[Any]]
) -> Facts:
    """Return errors and distances of the groups' predictions, before and after."""
    # 1. Of all rows: error, R2 and distance.
    entries = rows.entries()
    mean = partial(np.average, weights=rows.weight)
    offsets = y - mean(y)
    variance = mean(offsets**2)
    noise = (ROUNDING * mean(y)) ** 2  # what rounding may make of a variance of 0
    columns: Facts = {"mean_target": y, "offset": offsets, "square": offsets**2}
    facts: Facts = {}
    for when, values in predictions.items():
        columns |= {f"mean_{when}": values, f"mse_{when}": (values - y) ** 2}
        facts[f"mse_{when}"] = mean(columns[f"mse_{when}"])
        facts[f"r2_{when}"] = _explained(facts[f"mse_{when}"], variance, noise)
        facts[f"ks_{when}"] = statistical_parity_ks(
            values[entries.positions], **entries.metric_arguments
        )
    # 2. Of each group the means of the same columns.
    frame = pandas.DataFrame({k: v[entries.positions] for k, v in columns.items()})
    groups = entries.sensitive_features
    records = _report.group_means(frame, groups, entries.weight)
    for record in records:
        # The variance within the group: the mean square about the centre of all rows,
        # less the square of the distance of the group's mean from it.
        square = record.pop("square")
        variance, noise_here = square - record.pop("offset") ** 2, ROUNDING * square
        for when in predictions:
            error = record[f"mse_{when}"]
            record[f"r2_{when}"] = _explained(error, variance, noise + noise_here)
    return {**facts, **_report.null_gap(rows, (0, 1)), "groups": records}


def _explained(error: float, variance: float, noise: float) -> float | None:
    """Return R2, None if all targets are equal, but for rounding."""
    return 1 - error / variance if variance > noise else None


def _add_facts(report: _report.Report) -> None:
    """Add title, summary, facts and tables, of what the report has for its JSON."""
    # 1. The layer, and how much its gaps have changed.
    content, facts = report.content, report.facts
    n_outputs, n_inputs = content["layer_shape"]
    layer = f"{content['layer_name']}, {n_inputs} inputs, {n_outputs} outputs"
    facts += [("layer", layer), *_report.weight_facts(content["input"])]
    is_changed = content["layer_changed"]
    if is_changed:
        facts.append(("output change", f"{content['output_change']:.2%}"))
    else:  # its gaps are noise, or the last layer does as well
        facts[0] = ("layer", f"{layer}, not changed")
    for gap in ("mean_gap", "covariance_gap"):
        title = gap.replace("_", " ")
        template = f"{{{gap}_before:.4g}} -> {{{gap}_after:.4g}}"
        if is_changed:
            facts.append((title, template.format(**content)))
        if refit := content["last_layer"]:
            facts.append((f"{title}, refit", template.format(**refit)))
    # 2. The predictions; the title is about the rows of the test, if there are any.
    part, measures = [*_report.parts_of(content).items()][-1]
    changes = []
    for key, title in _MEASURES.items():
        template = f"{{{key}_before:.4g}} -> {{{key}_after:.4g}}"
        facts.append((title, _report.by_part(content, template)))
        before, after = measures[f"{key}_before"], measures[f"{key}_after"]
        old, new = f"{before:.3g}", f"{after:.3g}"
        verb = "falls" if after < before else "rises"
        change = f"stays {new}" if old == new else f"{verb} from {old} to {new}"
        changes.append(f"the {title} {change}")
    report.title = f"Of the {part} rows {', '.join(changes)}"
    if "null_gap" in measures:
        noise = _report.by_part(content, "{null_gap:.4g}")
        facts.append(("KS distance by chance", noise))
    time = "{fit:.1f} s, reading {read:.1f} s"
    facts.append(("time", time.format(**content["seconds"])))
    report.summary = _summarize(content, measures, is_new=part == "test")
    report.tables = _report.part_tables(content, _COLUMNS)
    layers = [layer for layer in content["unfairness_by_layer"] if layer]
    report.tables.append(_report.ReportTable("Layers, before the change", layers))


def _summarize(content: Facts, measures: Facts, *, is_new: bool) -> str:
    """Return what was asked and reached, at what cost, and what is not promised."""
    # 1. What was asked.
    distance = content["parameters"].get("max_distance")
    text = "Asked: predictions that differ less between groups, by a change of the "
    text += f"layer {content['layer_name']}"
    if distance is not None:
        text += f" to a KS distance of at most {distance:g} on the rows of the fit"
    if not content["layer_changed"]:
        text += ". That layer was not changed"
        text += ", only the last one" if content["last_layer"] else ""
    # 2. What was reached, and the cost.
    text += f". Reached, on rows that were {'not ' if is_new else ''}fitted: a KS "
    text += f"distance of {measures['ks_after']:.3f}, before "
    text += f"{measures['ks_before']:.3f}. It is {_report.KS}"
    if "null_gap" in measures:
        text += f". {_report.CHANCE.format(measures['null_gap'])}"
    text += f". Cost: a mean squared error of {measures['mse_after']:.3g}, before "
    text += f"{measures['mse_before']:.3g}. "
    text += _report.worst_change(measures["groups"], "mse_before", "mse_after", ".3g")
    # 3. What is not promised.
    text += ". Not promised: "
    if not is_new:
        text += "this distance on new rows (--test), "
    if distance is None:
        text += "any bound of the distance, as only means and covariances are made "
        text += "more alike; "
    return f"{text}equal errors of the groups."
