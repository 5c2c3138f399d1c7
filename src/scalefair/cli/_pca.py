"""``scalefair pca``: fair principal components of the rows in a file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, BinaryIO

import click
import numpy as np
from sklearn.pipeline import Pipeline

from scalefair._memory import peak_memory
from scalefair.cli import _errors, _fit, _options, _output, _report, _rows
from scalefair.decomposition import FairPCA, GroupPCA
from scalefair.streaming import RowReader, row_blocks

_EPILOG = f"""\b
ROWS is a table of numbers (text or parquet), svmlight, or an array (.npy, or
.npz of scipy.sparse.save_npz). --groups names a column, else a file: a line or
`id,group` for each row.
\b
Loss: by how much the components reconstruct the rows of a group worse than
this group's own best components would; mean squared distance per row, in
squared units of the features (without unit if standardized). Fair components
make the largest loss of a group as small as possible. The duality gap bounds
what is missing: no components have a largest loss that is smaller by more.
\b
The output is for `scalefair predict`, or for numpy.load; coordinates of rows X
are ((X - mean) / scale) @ components.T. It also holds explained_variance,
feature_names, groups and, in their order, group_counts, group_losses,
group_reconstruction_errors, dual_weights; with gram pca_group_losses, those
under plain components.
\b
{_errors.EXIT_CODES}
"""
_STANDARDIZE = """Divide each feature by its standard deviation over all rows (divisor
rows): for features in different units."""
_SCORES = "File to write the rows' coordinates to (npy, rows x components)."
_PARAMETERS: dict[str, tuple[Any, ...]] = {
    "n_components": ("Required", "-r", "--components", {"required": True}),
    "centering": ("Components",),
    "solver": ("Components",),
    "tol": ("Components",),
    "max_iter": ("Components",),
    "random_state": ("Advanced",),
}
_COLUMNS = {
    "group": ("group", ""),
    "n_rows": ("rows", ",d"),
    "pca_loss": ("loss,\nPCA", ".4g"),
    "loss": ("loss,\nfair PCA", ".4g"),
    "pca_reconstruction_error": ("error,\nPCA", ".4g"),
    "reconstruction_error": ("error,\nfair PCA", ".4g"),
    "dual_weight": ("dual\nweight", ".3f"),
}
_FITTED = ["solver", "converged", "n_iter", "n_products", "duality_gap"]
_FITTED += ["fairness_ratio_gap", "explained_variance"]
# Features of which figures would take seconds.
_MANY = 100


@click.command(cls=_options.SectionedCommand, epilog=_EPILOG)
@click.argument("data", metavar="ROWS", type=_options.PATH)
@_errors.debug_option
@click.pass_context
def pca(ctx: click.Context, /, data: Path, **options: Any) -> None:
    """Find components of the rows in ROWS that lose equally much for all groups.

    On a terminal a progress bar and a summary are shown; in a pipe nothing is
    printed but errors, warnings and notes, on stderr.
    """
    take = options.pop
    outputs = {
        "output": (take("output"), ".npz"),
        "scores": (take("scores_file"), ".npy"),
        "report": (take("report_file"), ""),
    }
    written = _output.name_outputs(outputs, (data, Path(options["groups"])))
    show = _fit.on_terminal(take("quiet"), written.values())
    standardize = take("standardize")

    start = time.perf_counter()
    reading = _rows.Reading.take(options, folder=written["output"].resolve().parent)
    rows = _rows.read_rows(data, reading, words="refuse")
    seconds = {"read": time.perf_counter() - start}
    model = FairPCA(**options)
    how = {"standardize": standardize, "impute": reading.missing == "impute"}
    with _rows.encoded({data.name: rows}, show=show, **how) as (encoder, encoded):
        X = encoded[data.name]
        roles = {"sensitive_features": rows.groups}
        seconds["fit"] = _fit.fit(model, X, path=data, show=show, **roles)
        counts = np.unique(rows.groups, return_counts=True)[1]
        plain = None
        if hasattr(model, "moments_"):
            how = {name: getattr(model, name) for name in ("n_components", "centering")}
            plain = GroupPCA.from_moments(model.moments_, **how)
        content = {
            **_report.describe_run("pca", {**options, "standardize": standardize}),
            "input": {**_rows.describe(rows, X), "n_features": X.shape[1]},
            "seconds": seconds,
            **{name: getattr(model, f"{name}_") for name in _FITTED},
            **_compare(model, plain, counts),
            "peak_memory_bytes": peak_memory(),
        }
        report = _report.Report(
            "pca",
            content,
            _title(content),
            str(data),
            _facts(content),
            [_report.Table("Groups", content["groups"], _COLUMNS, terminal=True)],
            *_figures(model, counts),
        )
        arrays = {
            **_arrays(model, encoder, X.shape[1]),
            "group_counts": counts,
            "feature_names": np.array(rows.names, dtype=np.str_),
            "columns": np.array(rows.names, dtype=np.str_),
            "reading": json.dumps(_rows.describe_columns(rows, reading)),
        }
        if plain is not None:
            arrays["pca_group_losses"] = plain.group_losses_
        writers = {
            "output": lambda file: np.savez(file, **arrays),
            "scores": lambda file: _write_scores(file, model, X),
            "report": lambda file: report.write(file, written["report"]),
        }
        _output.write_files({path: writers[name] for name, path in written.items()})
    if show:
        report.show(written)
    if not model.converged_:
        ctx.exit(_errors.NOT_CONVERGED)


_options.add_options(
    pca,
    [
        *_options.GROUPS,
        _options.output_option("the components (npz)"),
        *_options.estimator_options(FairPCA, _PARAMETERS),
        _options.option("Components", "--standardize", is_flag=True, help=_STANDARDIZE),
        *_options.INPUT,
        _options.SVMLIGHT,
        _options.option(
            "Files", "--scores", "scores_file", type=_options.PATH, help=_SCORES
        ),
        _options.REPORT,
        _options.MEMORY_LIMIT,
        _options.QUIET,
    ],
)


def _compare(model: Any, plain: Any, counts: Any) -> dict[str, Any]:
    """Errors of all rows and of each group; also under plain PCA if it is known."""
    error = model.group_reconstruction_errors_ @ counts / counts.sum()
    found: dict[str, Any] = {"reconstruction_error": error}
    columns = {
        "group": model.groups_.astype(str),
        "n_rows": counts,
        "loss": model.group_losses_,
        "reconstruction_error": model.group_reconstruction_errors_,
        "dual_weight": model.dual_weights_,
    }
    if plain is not None:
        least = plain.group_reconstruction_errors_ @ counts / counts.sum()
        found["pca_reconstruction_error"] = least
        if least > 0:
            found["error_increase"] = max(error / least - 1, 0.0)
        columns["pca_loss"] = plain.group_losses_
        columns["pca_reconstruction_error"] = plain.group_reconstruction_errors_
    records = zip(*columns.values(), strict=True)
    found["groups"] = [dict(zip(columns, record, strict=True)) for record in records]
    return found


def _arrays(model: Any, encoder: Any, n: int) -> dict[str, Any]:
    """Arrays of the output, in the units of the features; none needs pickle."""
    steps = encoder
    if isinstance(encoder, Pipeline):  # of a table, whose features are all numbers
        steps = encoder[-1].named_transformers_["numbers"]
    known = {
        name: value
        for step in (steps if isinstance(steps, Pipeline) else [steps])
        for name, value in vars(getattr(step, "estimator", step)).items()
        if name in ("mean_", "scale_", "statistics_", "with_mean")
    }
    scale = known.get("scale_", np.ones(n))
    shift = known.get("mean_", 0.0) if known.get("with_mean") else 0.0
    fitted = ["components", "explained_variance", "group_losses", "dual_weights"]
    fitted += ["group_reconstruction_errors", "duality_gap"]
    return {
        **{name: getattr(model, f"{name}_") for name in fitted},
        "mean": shift + scale * model.mean_,
        "scale": scale,
        "imputation": known.get("statistics_", np.full(n, np.nan)),
        "groups": _as_strings(model.groups_),
    }


def _as_strings(values: Any) -> Any:
    return values.astype(np.str_) if values.dtype.kind == "O" else values


def _write_scores(file: BinaryIO, model: Any, X: Any) -> None:
    """Write the transformed rows as a ``.npy`` file, one block after another."""
    dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
    shape = (X.shape[0], len(model.components_))
    header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    is_read = isinstance(X, RowReader)
    for block in X.blocks() if is_read else (rows for _, rows in row_blocks(X)):
        file.write(np.ascontiguousarray(model.transform(block), dtype=dtype).data)


def _title(content: dict[str, Any]) -> str:
    groups = content["groups"]
    title = (
        f"Largest loss of a group {max(g['loss'] for g in groups):.3g} with fair PCA"
    )
    if "pca_loss" in groups[0]:
        title += f", {max(g['pca_loss'] for g in groups):.3g} with PCA"
    if "error_increase" in content:
        title += f"; error of all rows {content['error_increase']:.2%} above PCA's"
    return title


def _facts(content: dict[str, Any]) -> list[tuple[str, str]]:
    read, seconds, gap = content["input"], content["seconds"], content["duality_gap"]
    facts = [
        ("rows", f"{read['n_rows']:,}"),
        ("features", f"{read['n_features']:,}"),
        ("components", f"{len(content['explained_variance'])}"),
        ("error per row", f"{content['reconstruction_error']:.4g}"),
    ]
    if "error_increase" in content:
        facts.append(("above PCA's error", f"{content['error_increase']:.3%}"))
    if "n_blocks" in read:
        facts.append(("read", f"{read['n_passes']} times, {read['n_blocks']:,} blocks"))
    largest = max(group["loss"] for group in content["groups"])
    share = f" ({gap / largest:.1e} of the largest loss)" if largest > 0 else ""
    return [
        *facts,
        ("duality gap", f"{gap:.1e}{share}"),
        ("solver", f"{content['solver']}, {_report.iterations(content['n_iter'])}"),
        ("time", f"{seconds['fit']:.1f} s, reading {seconds['read']:.1f} s"),
    ]


def _figures(model: Any, counts: Any) -> tuple[list[_report.Figure], list[str]]:
    """Return figures of fair PCA beside PCA, or why there are none."""
    if not hasattr(model, "moments_"):
        return [], ["The figures need --solver gram: it compares with plain PCA."]
    if counts.size > _report.MAX_GROUPS:
        return [], [f"There are no figures of more than {_report.MAX_GROUPS} groups."]
    r, n = model.n_components, model.n_features_in_
    sizes = np.linspace(1, min(2 * r, n), 10 if n <= _MANY else 1).round().astype(int)
    names = _report.drawable_names(map(str, model.groups_.tolist()))

    def plot_losses(figure: Any) -> None:
        from scalefair.plotting import GroupLossDisplay

        chosen = sorted({r, *sizes.tolist()})
        axes = figure.subplots(1, 2)
        GroupLossDisplay.from_estimator(model, n_components=chosen, axes=axes)

    def plot_plane(figure: Any) -> None:
        from scalefair.plotting import JointNumericalRangeDisplay

        first, second = model.moments_.covariances(model.centering)
        how = {"group_sizes": model.moments_.counts, "groups": names, "view": "optimum"}
        JointNumericalRangeDisplay.from_covariances(
            first, second, r, ax=figure.subplots(), **how
        )

    caption = "Losses of the groups, left, and the error of all rows, right, with PCA "
    caption += f"and fair PCA; {r} components were asked for."
    figures = [_report.Figure(plot_losses, (11, 4.2), caption, caption)]
    if counts.size == 2 and n <= _MANY:
        caption = f"What {r} components can capture of the variances of {names[0]} and "
        caption += f"{names[1]}: a region, with PCA and fair PCA on its edge."
        figures.append(_report.Figure(plot_plane, (8, 5), caption, caption))
    return figures, []
