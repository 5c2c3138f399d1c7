"""``scalefair pca``: fair principal components of the rows in a file.

The output holds plain arrays, from which `predict` projects other rows: it runs no code
when it is opened.
"""

import json
import time
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas
from sklearn.pipeline import Pipeline

from scalefair._entries import real_type
from scalefair._groups import as_list
from scalefair._memory import peak_memory
from scalefair._rounding import ROUNDING
from scalefair.cli import _encoder, _report, _rows, _run
from scalefair.cli import _options as opt
from scalefair.cli._report import Facts
from scalefair.cli._roles import Rows
from scalefair.decomposition import FairPCA, GroupPCA

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
    *opt.shared(opt.GROUPS),
    opt.output_option("the components (npz)"),
    *opt.estimator_options(FairPCA, _PARAMETERS, n_components={"required": True}),
    *opt.shared(f"standardize {opt.INPUT} svmlight"),
    opt.option("Files", "--scores", "scores_file", type=opt.PATH, help=_SCORES),
    *opt.shared("report memory-limit quiet"),
]
# Columns of the table of groups; and facts, by title, below. Those without a value are
# left out: of PCA if there are no Gram matrices, of passes if rows are in memory.
_COLUMNS = {
    **_report.GROUP_COLUMNS,
    "pca_loss": ("loss,\nPCA", ".4g"),
    "loss": ("loss,\nfair PCA", ".4g"),
    "pca_reconstruction_error": ("error,\nPCA", ".4g"),
    "reconstruction_error": ("error,\nfair PCA", ".4g"),
    "dual_weight": ("dual\nweight", ".3f"),
}
# Attributes of the model in the report, and arrays of it in the output.
_FITTED = (
    "solver converged n_iter n_products duality_gap fairness_ratio_gap "
    "explained_variance"
)
_ARRAYS = ["components", "explained_variance", "duality_gap"]
_GROUP_ARRAYS = ["group_losses", "dual_weights", "group_reconstruction_errors"]
_FACTS = {
    "rows": "{n_rows:,}",
    "weights": _report.WEIGHTS,
    "groups": "{expected}",
    "features": "{n_features:,}",
    "components": "{r}",
    "error per row": "{reconstruction_error:.4g}",
    "above PCA's error": "{error_increase:.3%}",
    "read": "{n_passes} times, {n_blocks:,} blocks",
    "duality gap": "{duality_gap:.1e}",
    "solver": "{solver}, {iterations}",
    "time": "{fit:.1f} s, reading {read:.1f} s",
}


# --- The command ---------------------------------------------------------------------


@opt.command(_OPTIONS, _EPILOG, data="ROWS")
def pca(data: Path, **options: Any) -> None:
    """Find components of the rows in ROWS that lose equally much for all groups."""
    # 1. Take the options, and read the rows.
    outputs, show = _run.take_outputs(options, data, output=".npz", scores=".npy")
    standardize = options.pop("standardize")
    start = time.perf_counter()
    folder = outputs["output"].resolve().parent
    read_options = opt.ReadOptions.take(options, folder=folder)
    rows = _rows.read_rows(data, read_options, strings="refuse")
    seconds = {"read": time.perf_counter() - start}
    model = FairPCA(**options)
    impute = read_options.missing == "impute"
    parts = {data.name: rows}
    reading = _encoder.encoded(parts, show=show, standardize=standardize, impute=impute)
    with reading as (encoder, features):
        # 2. Fit fair PCA and, if there is a Gram matrix of each group, PCA from these:
        #    the rows are not read again.
        X = features[data.name]
        if not standardize:
            _encoder.note_spreads(rows, X)
        seconds["fit"] = _run.fit(model, X, path=data, show=show, **rows.fit_arguments)
        plain = None
        if hasattr(model, "moments_"):
            plain = GroupPCA.from_moments(
                model.moments_,
                n_components=options["n_components"],
                centering=options["centering"],
            )
        # 3. The report, and the arrays of the output.
        content = {
            **_report.describe_run("pca", {**options, "standardize": standardize}),
            "input": {**_run.describe_rows(rows, X), "n_features": X.shape[1]},
            "seconds": seconds,
            **{name: getattr(model, f"{name}_") for name in _FITTED.split()},
            **_compare(model, plain, rows),
            "peak_memory_bytes": peak_memory(),
        }
        arrays = {
            **_arrays(model, encoder, X.shape[1]),
            "group_counts": np.array([group["n_rows"] for group in content["groups"]]),
            "feature_names": np.array(rows.names, np.str_),
            "columns": np.array(rows.names, np.str_),
            "reading": json.dumps(_run.describe_columns(rows, read_options)),
        }
        if rows.attributes is not None:
            names = [group["attribute"] for group in content["groups"]]
            arrays["attributes"] = np.array(names, np.str_)
        if plain is not None:
            arrays["pca_group_losses"] = np.hstack(plain.group_losses_)
        report = _make_report(model, plain, content, str(data))
        writers = {
            "output": lambda file: np.savez(file, **arrays),
            "scores": lambda file: _write_scores(file, model, X),
        }
    _run.finish(report, outputs, writers, show=show, converged=model.converged_)


# --- The report ----------------------------------------------------------------------


def _make_report(model: Any, plain: Any, content: Facts, source: str) -> _report.Report:
    """Return the report: title, facts, a table of the groups, and perhaps a figure."""
    # 1. Facts and table. The title compares the largest losses.
    r, iterations = len(model.components_), _report.iterations(model.n_iter_)
    facts = _report.fill(_FACTS, content, r=r, iterations=iterations)
    largest_loss = np.hstack(model.group_losses_).max()
    title = f"Largest loss of a group {largest_loss:.3g} with fair PCA"
    if plain is not None:
        title += f", {np.hstack(plain.group_losses_).max():.3g} with PCA"
    table = _report.ReportTable("Groups", content["groups"], _COLUMNS, terminal=True)
    report = _report.Report("pca", content, title, source, facts, [table])
    report.summary = _summarize(content, r)
    # 2. A figure of fair PCA and PCA, or a fact that says why there is none.
    n_groups = len(content["groups"])
    if not hasattr(model, "moments_") or n_groups > _report.MAX_FIGURE_GROUPS:
        reason = f"need --solver gram and at most {_report.MAX_FIGURE_GROUPS} groups"
        facts.append(("figures", reason))
        return report
    n = model.n_features_in_
    # Numbers of components; with more features each takes about a second.
    n_sizes = 10 if n <= 100 else 1
    sizes = np.linspace(1, min(2 * r, n), n_sizes).round().astype(int)

    def plot(figure: Any) -> None:
        """Draw losses and errors, with a line at this number of components."""
        from scalefair.plotting import GroupLossDisplay

        chosen, axes = sorted({r, *sizes.tolist()}), figure.subplots(1, 2)
        GroupLossDisplay.from_estimator(model, n_components=chosen, axes=axes)
        for ax in axes:
            ax.axvline(r, color="0.8", zorder=0)

    caption = "Losses of the groups, and the error of all rows, with PCA and fair PCA. "
    caption += f"The grey lines mark the {r} components of this result; the titles are "
    caption += "about all numbers of components that are shown."
    report.figures.append(_report.ReportFigure(plot, (11, 4.2), caption, caption))
    return report


def _summarize(content: Facts, r: int) -> str:
    """Return what was asked and reached, at what cost, and what is not promised."""

    def largest(key: str) -> str:
        """Return the largest value of the groups, and whose it is."""
        record = max(content["groups"], key=lambda group: group[key])
        name = f"{record.get('attribute', '')} {record['group']}".strip()
        return f"{record[key]:.3g} ({name})"

    # 1. What was asked, and reached.
    features = content["input"]["n_features"]
    text = f"Asked: {r} components of {features:,} features with the smallest possible "
    text += "loss in the worst group. A group's loss is its error minus the error of "
    text += f"the best {r} components for it alone. Reached: a largest loss "
    text += f"of {largest('loss')}"
    if "pca_loss" in content["groups"][0]:
        text += f"; with PCA {largest('pca_loss')}"
    text += f". It could be smaller by {content['duality_gap']:.1e} at most. Cost: the "
    text += f"error per row is {content['reconstruction_error']:.4g}"
    if "error_increase" in content:
        text += f", {content['error_increase']:.2%} more than PCA's"
    # 2. What is not promised.
    text += ". Not promised: equal errors of the groups, of which the largest is "
    text += f"{largest('reconstruction_error')}; or components that hide the groups."
    return text


def _compare(model: Any, plain: Any, rows: Rows) -> Facts:
    """Return losses and errors of groups, and of all rows; of `plain` PCA if known."""
    # 1. Sizes and weights of the groups of each attribute.
    entries = rows.entries()
    codes = {
        name: np.unique(x, return_inverse=True)[1]
        for name, x in _report.by_attribute(entries.sensitive_features).items()
    }
    counts = np.concatenate([np.bincount(x) for x in codes.values()])
    totals = np.concatenate([np.bincount(x, entries.weight) for x in codes.values()])
    frame = pandas.DataFrame({"group": _groups(model), "n_rows": counts})
    if isinstance(model.groups_, list):  # of several attributes
        sizes = [len(groups) for groups in model.groups_]
        frame.insert(0, "attribute", np.repeat([*codes], sizes))
    # 2. Losses and errors of both. The error of all rows is the mean of those of the
    #    groups, weighted by their totals. The groups of each attribute are all rows, so
    #    that with several attributes it is the same mean.
    errors: dict[str, float] = {}
    for prefix, fitted in (("", model), ("pca_", plain)):
        if fitted is not None:
            group_errors = np.hstack(fitted.group_reconstruction_errors_)
            frame[f"{prefix}loss"] = np.hstack(fitted.group_losses_)
            frame[f"{prefix}reconstruction_error"] = group_errors
            error = group_errors @ totals / totals.sum()
            errors[f"{prefix}reconstruction_error"] = error
    frame["dual_weight"] = np.hstack(model.dual_weights_)
    pca_error = errors.get("pca_reconstruction_error", 0.0)
    # An error of rounding is nothing to compare with.
    if pca_error > ROUNDING * model.explained_variance_.sum():
        increase = errors["reconstruction_error"] / pca_error - 1
        errors["error_increase"] = max(increase, 0.0)
    return {**errors, "groups": frame.to_dict("records")}


def _groups(model: Any) -> Any:
    """Return the names of the groups of all attributes."""
    return np.concatenate([groups.astype(np.str_) for groups in as_list(model.groups_)])


# --- The output ----------------------------------------------------------------------


def _arrays(model: Any, encoder: Any, n: int) -> Facts:
    """Return the arrays of the output, in units of the columns; none is pickled.

    Coordinates of rows are ``((X - mean) / scale) @ components.T``.
    """
    # 1. The imputer and the scaler of the numbers.
    steps = encoder
    if isinstance(encoder, Pipeline):  # of a table, whose features are all numbers
        steps = encoder[-1].named_transformers_["numbers"]
    # Attributes of imputer and scaler, whose names differ.
    fitted: Facts = {}
    for step in steps if isinstance(steps, Pipeline) else [steps]:
        fitted |= vars(getattr(step, "estimator", step))
    # 2. The model's mean is of scaled rows: back to the units of the columns.
    scale = fitted.get("scale_", np.ones(n))
    shift = fitted["mean_"] if fitted.get("with_mean") else 0.0
    # 3. Arrays of objects could only be pickled: names become strings.
    groups = model.groups_
    several = isinstance(groups, list) or groups.dtype.kind == "O"
    return {
        **{name: getattr(model, f"{name}_") for name in _ARRAYS},
        **{name: np.hstack(getattr(model, f"{name}_")) for name in _GROUP_ARRAYS},
        "mean": shift + scale * model.mean_,
        "scale": scale,
        "imputation": fitted.get("statistics_", np.full(n, np.nan)),
        "groups": _groups(model) if several else groups,
    }


def _write_scores(file: BinaryIO, model: Any, X: Any) -> None:
    """Write the transformed rows as a ``.npy`` file, one block after another."""
    # NumPy writes an array whole: write its header, then the blocks.
    dtype = np.dtype(real_type(X.dtype))
    shape = (X.shape[0], len(model.components_))
    header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    for block in _encoder.iterate_blocks(X):
        file.write(np.ascontiguousarray(model.transform(block), dtype=dtype).data)
