"""``scalefair regress``: a saved regressor made fair in one of its layers."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click
import joblib
import numpy as np
import pandas
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype
from scipy import sparse
from sklearn.pipeline import Pipeline

from scalefair._memory import peak_memory
from scalefair.cli import _fit as fits
from scalefair.cli import _options as shared
from scalefair.cli import _report as reports
from scalefair.cli._errors import EXIT_CODES, NOT_CONVERGED, Failure, debug_option, note
from scalefair.cli._output import name_outputs, write_files
from scalefair.cli._rows import Reading, Rows, describe, read_rows
from scalefair.files import FileError, reading
from scalefair.files._matrices import rows_format
from scalefair.metrics import statistical_parity_ks
from scalefair.postprocessing import ExplainableSVDRegressor

_EPILOG = f"""\b
MODEL is a fitted regressor of scikit-learn, saved by joblib.dump: an
MLPRegressor, a linear model, or a Pipeline that ends in one. Of one fitted to
named columns these are looked for in TRAIN by name; else the columns of
numbers beside target, groups and ids are taken in their order. Missing values
are for the model to handle, or left out by --missing drop.
\b
Gaps: the outputs of the layer shall have the same mean and covariance in all
groups; those named refit are of the predictions, whose layer is fitted again.
KS distance: the largest difference of the shares of two groups whose
predictions are below a threshold; 0 is fair. The output is for `scalefair
predict`, or for joblib.load (load only files that you trust).
\b
{EXIT_CODES}
"""
# Rows that are predicted at a time.
_ROWS = 2**16
_TRUTH = {"true": True, "false": False}
_LAYER = {"default": "-2", "type": lambda s: int(s) if s.lstrip("+-").isdigit() else s}
_PARAMETERS: dict[str, tuple[Any, ...]] = {
    "layer": ("Layer", {**_LAYER, "metavar": "NUMBER|NAME|auto"}),
    **dict.fromkeys(("method", "mean_reduction", "covariance_reduction"), ("Layer",)),
    "refit_last": ("Layer", "--refit"),
    "random_state": ("Layer",),
    **dict.fromkeys(("rank", "first_moment", "epsilon"), ("Advanced",)),
}
_CONDITIONS = {
    "epsilon": ("first_moment", ("svd",)),
    "first_moment": ("method", ("explainable_svd",)),
}
_WHEN = ("before", "after")
_GAPS = ("mean_gap", "covariance_gap")
_VALUES = ["mean_target", *(f"{k}_{when}" for k in ("mean", "mse") for when in _WHEN)]
_GROUPS = {"group": ("group", ""), "n_rows": ("rows", ",d")}
_GROUPS |= {key: (key.replace("_", "\n"), ".4g") for key in _VALUES}
_LAYERS = [*_GAPS, *(f"relative_{gap}" for gap in _GAPS), "score"]


def load_model(path: Path) -> Any:
    """Open a file of joblib; code in it is run."""
    what = "a model saved by joblib.dump"
    try:
        with fits.library_warnings(), reading(path, what), open(path, "rb") as file:
            return joblib.load(file)
    except (FileError, MemoryError):
        raise
    # What can go wrong depends on what is in the file.
    except Exception as error:
        raise Failure(
            f"{path}: not {what}, or damaged, or made with other versions or modules "
            f"({type(error).__name__}: {error}). Save it again."
        ) from error


def read_for(
    model: Any, path: Path, reading: Reading, like: Rows | None = None
) -> Rows:
    """Read rows as a saved estimator takes them: columns by name, or numbers."""
    names = getattr(model, "feature_names_in_", None)
    kind = rows_format(path, reading.svmlight)
    if reading.missing == "impute" or (names is not None and reading.drop):
        raise click.UsageError(
            "MODEL itself chooses columns by name and fills in missing values: --drop "
            "and --missing impute do not apply."
        )
    if names is not None and kind != "table":
        raise Failure(
            f"{path}: its columns have no names, but the model takes {len(names)} "
            "columns by name. Save a table with a header."
        )
    rows = read_rows(
        path,
        reading,
        like=like,
        words="leave" if names is None else "keep",
        columns=None if names is None else [str(name) for name in names],
        keep_missing=reading.missing == "error",
    )
    known = _known_words(model)
    for name in rows.words:
        values = rows.X[name].where(rows.X[name].notna(), np.nan)
        if known.get(name):  # in their spelling there, such as " Private" or "?"
            values = values.fillna(known[name].get("?", np.nan))
            new = values.notna() & ~values.isin(
                known[name].keys() | known[name].values()
            )
            if new.any():
                note(
                    f"{path}: column {name}: {int(new.sum()):,} row(s) have a value "
                    f"that the model does not know, such as {values[new].iloc[0]!r}."
                )
            values = values.replace(known[name])
        truth = values.dropna().str.lower().isin(_TRUTH).all()
        if truth and (like is None or is_bool_dtype(like.X[name])):
            values = values.str.lower().map(_TRUTH)  # as pandas reads them
        rows.X[name] = values
    if names is None and kind == "table":
        rows.X = rows.X.to_numpy(np.float64)
    n = getattr(model, "n_features_in_", 0)
    if kind == "svmlight" and rows.X.shape[1] < n:  # the others are zero
        rows.n_columns += n - rows.X.shape[1]
        rows.X.resize(rows.n_rows, n)
    return rows


def _known_words(model: Any) -> dict[str, dict[str, Any]]:
    """Return words, stripped, that encoders in a model know, and their spelling."""
    found: dict[str, Any] = {}
    model = getattr(model, "estimator_", model)  # of one that regress has changed
    for step in getattr(model, "named_steps", {"": model}).values():
        own = ("", step, getattr(step, "feature_names_in_", ()))
        for _, part, columns in [own, *getattr(step, "transformers_", ())]:
            encoder = part[-1] if isinstance(part, Pipeline) else part
            if hasattr(encoder, "categories_") and not isinstance(columns, slice):
                found |= dict(zip(columns, encoder.categories_, strict=True))
    return {
        name: {word.strip(): word for word in words if isinstance(word, str)}
        for name, words in found.items()
    }


def predict(
    model: Any, path: Path, rows: Rows, method: str = "predict"
) -> NDArray[Any]:
    """Return a prediction for each row, some thousand rows at a time."""
    X, starts = getattr(rows.X, "iloc", rows.X), range(0, rows.n_rows, _ROWS)
    try:
        parts = [getattr(model, method)(X[i : i + _ROWS]) for i in starts]
    except (OSError, MemoryError):
        raise
    # What can go wrong depends on what is in the file.
    except Exception as error:
        missing = [] if sparse.issparse(rows.X) else pandas.isna(rows.X).sum(axis=0)
        counts = zip(rows.names, missing, strict=False)
        listed = [f"{name} {n:,}" for name, n in counts if n]
        hint = f" Values are missing ({', '.join(listed)}): pass --missing drop."
        raise Failure(
            f"{rows.path}: {path} cannot predict these rows ({type(error).__name__}: "
            f"{error}).{hint if listed else ''}"
        ) from error
    found = np.concatenate(parts)
    found = found.ravel() if found.shape[1:] == (1,) else found
    bad = found.dtype.kind == "f" and ~np.isfinite(found)
    if found.ndim > 1 or np.any(bad):
        row = int(np.argwhere(bad)[0][0]) if np.any(bad) else 0
        raise Failure(
            f"{rows.path}: {path} predicts {found[row]} for row {row} (counted from "
            "0), not one finite number. Check the model, and the scale of the columns."
        )
    return found


@click.command(cls=shared.SectionedCommand, epilog=_EPILOG)
@click.argument("model_file", metavar="MODEL", type=shared.PATH)
@click.argument("train", type=shared.PATH)
@debug_option
@click.pass_context
def regress(
    ctx: click.Context, /, model_file: Path, train: Path, **options: Any
) -> None:
    """Change a layer of the regressor in MODEL, by the rows in TRAIN.

    Its predictions then differ less between groups, and need no group. Only open
    models you trust: such a file can run any code. On a terminal a summary is
    shown; in a pipe nothing is printed but errors, warnings and notes, on stderr.
    """
    take = options.pop
    test, report_file = take("test_file"), take("report_file")
    tested = {name: take(f"test_{name}") for name in ("target", "groups")}
    if test is None and any(tested.values()):
        raise click.UsageError("--test-target and --test-groups apply with --test.")
    names = [model_file, train, test, options["target"], options["groups"]]
    written = name_outputs(
        {"output": (take("output"), ".joblib"), "report": (report_file, "")},
        (Path(name) for name in [*names, *tested.values()] if name is not None),
    )
    show = fits.on_terminal(take("quiet"), written.values())

    start = time.perf_counter()
    # A model takes rows in memory.
    reading = Reading.take(options, memory_limit=sys.maxsize)
    parameters = shared.parameters_in_force(ctx, options, _CONDITIONS)
    model = load_model(model_file)
    if not hasattr(model, "predict") or hasattr(model, "classes_"):
        held = getattr(model, "__name__", type(model).__name__)
        raise Failure(f"{model_file}: holds {held}, not a fitted regressor. Save one.")
    rows = read_for(model, train, reading)
    if rows.target is None:
        raise click.UsageError("Missing option '--target'.")
    parts = {"train": rows}
    if test is not None:
        for name in rows.from_files:
            if tested[name] is None:
                raise click.UsageError(f"Missing option '--test-{name}': a file, too.")
        own = {name: given for name, given in tested.items() if given is not None}
        parts["test"] = read_for(model, test, replace(reading, **own), rows)
    y = {name: _as_numbers(part) for name, part in parts.items()}
    seconds = {"read": time.perf_counter() - start}

    fair = ExplainableSVDRegressor(model, **parameters)
    with fits.library_warnings():
        # First of all, for it finds rows of another kind.
        found = {k: {"before": predict(model, model_file, parts[k])} for k in parts}
    roles = {"y": y["train"], "sensitive_features": rows.groups}
    seconds["fit"] = fits.fit(fair, rows.X, path=model_file, show=show, **roles)
    with fits.library_warnings():
        for name, part in parts.items():
            found[name]["after"] = predict(fair, model_file, part)
    read = {
        k: {**describe(v, v.X), "target_from": v.target_from} for k, v in parts.items()
    }
    measures = {k: _measure(v.groups, y[k], found[k]) for k, v in parts.items()}
    content = {
        **reports.describe_run("regress", parameters),
        "input": {"model": str(model_file), "n_features": rows.X.shape[1], **read},
        **_describe_fit(fair),
        **measures,
        "seconds": seconds,
        "peak_memory_bytes": peak_memory(),
    }
    report = reports.Report(
        "regress",
        content,
        _title(content),
        str(train),
        _facts(content),
        [
            *reports.part_tables(content, _GROUPS),
            reports.Table(
                "Layers, before the change",
                [layer for layer in content["unfairness_by_layer"] if layer],
                {"name": ("layer", ""), **{key: (key, ".4g") for key in _LAYERS}},
            ),
        ],
        [_figure(name, parts[name].groups, found[name]) for name in parts],
    )
    writers = {
        "output": lambda file: joblib.dump(fair, file),
        "report": lambda file: report.write(file, written["report"]),
    }
    write_files({path: writers[name] for name, path in written.items()})
    if show:
        report.show(written)
    if not fair.converged_:
        ctx.exit(NOT_CONVERGED)


shared.add_options(
    regress,
    [
        *shared.ROLES,
        shared.output_option("the changed model (joblib)"),
        *shared.estimator_options(ExplainableSVDRegressor, _PARAMETERS),
        *shared.INPUT,
        shared.SVMLIGHT,
        *shared.TEST,
        shared.REPORT,
        shared.QUIET,
    ],
)


def _as_numbers(rows: Rows) -> NDArray[np.float64]:
    words = pandas.Series(rows.target)
    y: NDArray[np.float64] = pandas.to_numeric(words, errors="coerce").to_numpy(float)
    bad = np.flatnonzero(~np.isfinite(y))
    if bad.size:
        raise Failure(
            f"{rows.target_from}: the target of row {bad[0]} (counted from 0) is "
            f"{rows.target[bad[0]].item()!r}, not a finite number. Correct it."
        )
    return y


def _describe_fit(model: Any) -> dict[str, Any]:
    """Say what was changed, and the gaps before and after."""
    layers, refit = model.unfairness_by_layer_, None
    gaps = [f"{gap}_{when}" for when in _WHEN for gap in _GAPS]
    if model.refit_last is not None:
        of_refit = (*model.refit_gaps_before_, *model.refit_gaps_after_)
        refit = dict(zip(gaps, of_refit, strict=True))
    fitted = ["layer", "groups", "output_change", "output_change_bound", "converged"]
    return {
        **{name: getattr(model, f"{name}_") for name in [*fitted, *gaps]},
        "layer_name": layers[model.layer_].name,
        "layer_shape": model.weight_.shape,
        "last_layer": refit,
        "unfairness_by_layer": [
            layer and {**asdict(layer), "score": layer.score} for layer in layers
        ],
    }


def _measure(
    groups: NDArray[Any], y: NDArray[np.float64], outputs: dict[str, NDArray[Any]]
) -> dict[str, Any]:
    """Errors and distances of the groups' predictions of two models."""
    errors = {f"mse_{when}": (found - y) ** 2 for when, found in outputs.items()}
    means = {f"mean_{when}": found for when, found in outputs.items()}
    frame = pandas.DataFrame({"n_rows": 1, "mean_target": y, **means, **errors})
    table = frame.groupby(groups).mean()
    table["n_rows"] = frame.groupby(groups).size()
    table.insert(0, "group", table.index.astype(str))
    return {
        **frame[[*errors]].mean().to_dict(),
        **{
            f"ks_{when}": statistical_parity_ks(found, sensitive_features=groups)
            for when, found in outputs.items()
        },
        "groups": table.to_dict("records"),
    }


def _title(content: dict[str, Any]) -> str:
    part = "test" if "test" in content else "train"
    ks, mse = (
        reports.change(*(content[part][f"{key}_{when}"] for when in _WHEN))
        for key in ("ks", "mse")
    )
    return (
        f"The KS distance between groups {ks}, the mean squared error {mse} ({part} "
        "rows)"
    )


def _facts(content: dict[str, Any]) -> list[tuple[str, str]]:
    (m, n), seconds = content["layer_shape"], content["seconds"]
    facts = [("layer", f"{content['layer_name']}, {n} inputs, {m} outputs")]
    for where, gaps in (("", content), (", refit", content["last_layer"])):
        for key in _GAPS if gaps else ():
            before, after = (gaps[f"{key}_{when}"] for when in _WHEN)
            title = f"{key.replace('_', ' ')}{where}"
            facts.append((title, f"{before:.3g} -> {after:.3g}"))
    facts.append(("output change", f"{content['output_change']:.2%}"))
    for key, title in (("mse", "mean squared error"), ("ks", "KS distance")):
        moves = f"{{{key}_before:.4f}} -> {{{key}_after:.4f}}"
        facts.append((title, reports.by_part(content, moves)))
    said = f"{seconds['fit']:.1f} s, reading {seconds['read']:.1f} s"
    return [*facts, ("time", said)]


def _figure(
    part: str, groups: NDArray[Any], outputs: dict[str, NDArray[Any]]
) -> reports.Figure:
    """Densities of the predictions of groups, before and after the change."""
    codes, shown, names, remark = reports.choose_groups(groups)
    named = np.array(names)[np.unique(codes[shown], return_inverse=True)[1]]

    def plot(figure: Any) -> None:
        from scalefair.plotting import OutputDensityDisplay

        OutputDensityDisplay.from_predictions(
            {when: values[shown] for when, values in outputs.items()},
            sensitive_features=named,
            output_name="prediction",
            kind="histogram",
            ax=figure.subplots(1, 2, sharex=True, sharey=True),
        )

    return reports.Figure(
        plot,
        (10, 3.8),
        f"Density of the predictions for each group before and after, {part} rows.",
        f"Predictions for each group before and after the change, {part} rows. Where "
        f"the curves agree groups are treated alike.{remark}",
    )
