"""``scalefair pca``: fair principal components of the rows in a file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas
from sklearn.pipeline import Pipeline

from scalefair._groups import as_list
from scalefair._memory import peak_memory
from scalefair.cli import _fit, _report, _rows
from scalefair.cli import _options as opt
from scalefair.decomposition import FairPCA, GroupPCA
from scalefair.streaming import RowReader, row_blocks

_EPILOG = """\b
Loss: by how much the components reconstruct the rows of a group worse than
this group's own best ones, mean squared distance per row. Fair components make
the largest loss least; the duality gap bounds what is missing to that.
\b
The output is for `scalefair predict`, or numpy.load; coordinates of rows X are
((X - mean) / scale) @ components.T. It has losses of groups, too.
"""
_SCORES = "File to write the rows' coordinates to (npy, rows x components)."
_PARAMETERS = {
    "Required": "n_components,-r,--components",
    "Components": "attributes centering solver tol max_iter",
    "Advanced": "random_state",
}
_OPTIONS = [
    *(*opt.GROUPS, opt.output_option("the components (npz)")),
    *opt.estimator_options(FairPCA, _PARAMETERS, n_components={"required": True}),
    *(opt.STANDARDIZE, *opt.INPUT, opt.SVMLIGHT),
    opt.option("Files", "--scores", "scores_file", type=opt.PATH, help=_SCORES),
    *(opt.REPORT, opt.MEMORY_LIMIT, opt.QUIET),
]
_COLUMNS = {
    **_report.GROUP_COLUMNS,
    "pca_loss": ("loss,\nPCA", ".4g"),
    "loss": ("loss,\nfair PCA", ".4g"),
    "pca_reconstruction_error": ("error,\nPCA", ".4g"),
    "reconstruction_error": ("error,\nfair PCA", ".4g"),
    "dual_weight": ("dual\nweight", ".3f"),
}
# An error that is this part of the variance, or less, is none to be compared with.
_ROUNDING = 1e-12
_FITTED = ["solver", "converged", "n_iter", "n_products", "duality_gap"]
_FITTED += ["fairness_ratio_gap", "explained_variance"]
_ARRAYS = ["components", "explained_variance", "duality_gap"]
_OF_GROUPS = ["group_losses", "dual_weights", "group_reconstruction_errors"]
_FACTS = {
    "rows": "{n_rows:,}",
    "features": "{n_features:,}",
    "components": "{r}",
    "error per row": "{reconstruction_error:.4g}",
    "above PCA's error": "{error_increase:.3%}",
    "read": "{n_passes} times, {n_blocks:,} blocks",
    "duality gap": "{duality_gap:.1e}",
    "solver": "{solver}, {iterations}",
    "time": "{fit:.1f} s, reading {read:.1f} s",
}
# Features of which figures would take seconds.
_MANY = 100


@opt.command(_OPTIONS, _EPILOG, data="ROWS")
def pca(data: Path, **options: Any) -> None:
    """Find components of the rows in ROWS that lose equally much for all groups."""
    written, show = _fit.take_outputs(options, data, output=".npz", scores=".npy")
    standardize = options.pop("standardize")
    start = time.perf_counter()
    reading = opt.Reading.take(options, folder=written["output"].resolve().parent)
    rows = _rows.read_rows(data, reading, words="refuse")
    seconds = {"read": time.perf_counter() - start}
    options["attributes"] = reading.attributes
    model = FairPCA(**options)
    how = {"standardize": standardize, "impute": reading.missing == "impute"}
    with _rows.encoded({data.name: rows}, show=show, **how) as (encoder, encoded):
        X = encoded[data.name]
        roles = {"sensitive_features": rows.compared}
        seconds["fit"] = _fit.fit(model, X, path=data, show=show, **roles)
        groups = _report.by_attribute(rows.compared)
        found = [np.unique(own, return_counts=True)[1] for own in groups.values()]
        counts = np.concatenate(found)
        of = np.repeat([*groups], [len(own) for own in found])  # names of attributes
        plain = None
        if hasattr(model, "moments_"):
            how = {name: options[name] for name in ("n_components", "centering")}
            plain = GroupPCA.from_moments(model.moments_, **how)
        content = {
            **_report.describe_run("pca", {**options, "standardize": standardize}),
            "input": {**_fit.describe(rows, X), "n_features": X.shape[1]},
            "seconds": seconds,
            **{name: getattr(model, f"{name}_") for name in _FITTED},
            **_compare(model, plain, counts, of),
            "peak_memory_bytes": peak_memory(),
        }
        arrays = _arrays(model, encoder, X.shape[1]) | {"group_counts": counts}
        if rows.each is not None:
            arrays["attributes"] = of
        arrays["feature_names"] = arrays["columns"] = np.array(rows.names, np.str_)
        arrays["reading"] = json.dumps(_fit.describe_columns(rows, reading))
        known = {**content, **content["input"], "r": len(model.components_), **seconds}
        known["iterations"] = _report.iterations(model.n_iter_)
        facts = _report.fill(_FACTS, known)
        table = _report.Table("Groups", content["groups"], _COLUMNS, terminal=True)
        title = f"Largest loss of a group {np.hstack(model.group_losses_).max():.3g} "
        title += "with fair PCA"
        if plain is not None:
            title += f", {np.hstack(plain.group_losses_).max():.3g} with PCA"
            arrays["pca_group_losses"] = np.hstack(plain.group_losses_)
        report = _report.Report("pca", content, title, str(data), facts, [table])
        _add_figure(report, model, counts.size)
        writers = {
            "output": lambda file: np.savez(file, **arrays),
            "scores": lambda file: _write_scores(file, model, X),
        }
    _fit.finish(report, written, writers, show=show, converged=model.converged_)


def _compare(model: Any, plain: Any, counts: Any, of: Any) -> dict[str, Any]:
    """Losses and errors of groups, and of all rows; also under PCA if it is known."""
    found: dict[str, Any] = {}
    frame = pandas.DataFrame({"group": _groups(model), "n_rows": counts})
    if isinstance(model.groups_, list):
        frame.insert(0, "attribute", of)
    for prefix, fitted in (("", model), ("pca_", plain)):
        if fitted is not None:
            errors = np.hstack(fitted.group_reconstruction_errors_)
            frame[f"{prefix}loss"] = np.hstack(fitted.group_losses_)
            frame[f"{prefix}reconstruction_error"] = errors
            found[f"{prefix}reconstruction_error"] = errors @ counts / counts.sum()
    frame["dual_weight"] = np.hstack(model.dual_weights_)
    least = found.get("pca_reconstruction_error", 0.0)
    if least > _ROUNDING * model.explained_variance_.sum():
        found["error_increase"] = max(found["reconstruction_error"] / least - 1, 0.0)
    return {**found, "groups": frame.to_dict("records")}


def _groups(model: Any) -> Any:
    """Names of the groups of all attributes."""
    each = [groups.astype(np.str_) for groups in as_list(model.groups_)]
    return np.concatenate(each)


def _arrays(model: Any, encoder: Any, n: int) -> dict[str, Any]:
    """Arrays of the output, in the units of the features; none needs pickle."""
    steps = encoder
    known: dict[str, Any] = {}
    if isinstance(encoder, Pipeline):  # of a table, whose features are all numbers
        steps = encoder[-1].named_transformers_["numbers"]
    for step in steps if isinstance(steps, Pipeline) else [steps]:
        known |= vars(getattr(step, "estimator", step))
    scale = known.get("scale_", np.ones(n))
    shift = known["mean_"] if known.get("with_mean") else 0.0
    groups = model.groups_
    several = isinstance(groups, list) or groups.dtype.kind == "O"
    return {
        **{name: getattr(model, f"{name}_") for name in _ARRAYS},
        **{name: np.hstack(getattr(model, f"{name}_")) for name in _OF_GROUPS},
        "mean": shift + scale * model.mean_,
        "scale": scale,
        "imputation": known.get("statistics_", np.full(n, np.nan)),
        "groups": _groups(model) if several else groups,
    }


def _write_scores(file: BinaryIO, model: Any, X: Any) -> None:
    """Write the transformed rows as a ``.npy`` file, one block after another."""
    dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
    shape = (X.shape[0], len(model.components_))
    header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    is_read = isinstance(X, RowReader)
    for block in X.blocks() if is_read else (rows for _, rows in row_blocks(X)):
        file.write(np.ascontiguousarray(model.transform(block), dtype=dtype).data)


def _add_figure(report: _report.Report, model: Any, n_groups: int) -> None:
    """Add a figure of fair PCA beside PCA, or why there is none."""
    if not hasattr(model, "moments_") or n_groups > _report.MAX_GROUPS:
        told = f"need --solver gram and at most {_report.MAX_GROUPS} groups"
        report.facts.append(("figures", told))
        return
    r, n = model.n_components, model.n_features_in_
    sizes = np.linspace(1, min(2 * r, n), 10 if n <= _MANY else 1).round().astype(int)

    def plot(figure: Any) -> None:
        from scalefair.plotting import GroupLossDisplay

        chosen, axes = sorted({r, *sizes.tolist()}), figure.subplots(1, 2)
        GroupLossDisplay.from_estimator(model, n_components=chosen, axes=axes)

    told = "Losses of the groups, and the error of all rows, with PCA and fair PCA."
    report.figures.append(_report.Figure(plot, (11, 4.2), told, told))
