"""What the page of ``scalefair pca`` shows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from scalefair.cli._html_figures import MAX_GROUPS, Drawing, drawable_names
from scalefair.cli._html_page import Table
from scalefair.cli._html_tables import record_table, summary_table
from scalefair.cli._pca_summary import summary_rows

if TYPE_CHECKING:
    from scalefair.cli._pca_fit import Fitted

__all__ = ["SHOWN", "drawings", "finding", "tables"]

SHOWN = {"groups"}

_COLUMNS = {
    "group": ("group", ""),
    "n_rows": ("rows", ",d"),
    "pca_loss": ("loss, PCA", ".4g"),
    "loss": ("loss, fair PCA", ".4g"),
    "pca_reconstruction_error": ("error, PCA", ".4g"),
    "reconstruction_error": ("error, fair PCA", ".4g"),
    "dual_weight": ("dual weight", ".3f"),
}
# Numbers of components in the figure of the losses. Beyond so many features other
# numbers than the one asked for would take seconds, and so would the plane of the
# variances.
_N_SIZES = 10
_MAX_FEATURES_OF_SIZES = 300
_MAX_FEATURES_OF_PLANE = 100


def finding(report: dict[str, Any]) -> str:
    """Return the result in a few words."""
    groups = report["groups"]
    found = f"Largest loss of a group {max(g['loss'] for g in groups):.3g}"
    if "pca_loss" not in groups[0]:
        return f"{found} with fair PCA"
    plain = max(g["pca_loss"] for g in groups)
    found = f"{found} with fair PCA, {plain:.3g} with PCA"
    if report.get("error_increase") is None:
        return found
    return f"{found}; error of all rows {report['error_increase']:.2%} above PCA's"


def tables(report: dict[str, Any]) -> list[Table]:
    """Return the tables, the summary first."""
    return [
        summary_table(summary_rows(report)),
        record_table("Groups", report["groups"], _COLUMNS),
    ]


def drawings(
    report: dict[str, Any], evidence: Fitted
) -> tuple[list[Drawing], list[str]]:
    """Return figures, and what is to be said about those there are not.

    Parameters
    ----------
    report : dict
        The report.
    evidence : Fitted
        The components; the figures need the moments that they were computed from.
    """
    if evidence.plain is None:
        return [], ["The figures need --solver gram: it compares with plain PCA."]
    r, n = evidence.model.n_components, report["input"]["n_features"]
    found = [_losses(report, evidence, r, n)]
    if len(report["groups"]) == 2 and n <= _MAX_FEATURES_OF_PLANE:
        found.append(_plane(report, evidence, r))
    return found, []


def _losses(report: dict[str, Any], evidence: Fitted, r: int, n: int) -> Drawing:
    groups = report["groups"]
    remark = ""
    if len(groups) > MAX_GROUPS:
        remark = f" The {MAX_GROUPS} largest of {len(groups)} groups are shown."
    return Drawing(
        partial(_plot_losses, evidence=evidence, sizes=_choose_sizes(r, n)),
        (11, 4.2),
        "Loss of each group, and error of all rows, against the number of components, "
        f"with PCA and fair PCA. With {r} the largest loss is "
        f"{max(g['pca_loss'] for g in groups):.4g} with PCA and "
        f"{max(g['loss'] for g in groups):.4g} with fair PCA.",
        f"Losses of the groups, left, and the error of all rows, right; {r} components "
        f"were asked for.{remark}",
    )


def _choose_sizes(r: int, n: int) -> list[int]:
    """Numbers of components up to twice the one asked for, which is among them."""
    if n > _MAX_FEATURES_OF_SIZES:
        return [r]
    last = min(2 * r, n)
    steps = {round(1 + i * (last - 1) / (_N_SIZES - 1)) for i in range(_N_SIZES)}
    return sorted(steps | {r})


def _plot_losses(figure: Any, *, evidence: Fitted, sizes: list[int]) -> None:
    import numpy as np

    from scalefair.plotting import GroupLossDisplay

    counts = evidence.counts
    shown = np.sort(np.argsort(-counts, kind="stable")[:MAX_GROUPS])
    losses, errors = {}, {}
    for name, fitted in (("PCA", evidence.plain), ("fair PCA", evidence.model)):
        fits = [_refit(fitted, evidence.model.moments_, r) for r in sizes]
        losses[name] = np.array([fit.group_losses_[shown] for fit in fits])
        errors[name] = np.array(
            [fit.group_reconstruction_errors_ @ counts / counts.sum() for fit in fits]
        )
    names = (str(group) for group in evidence.model.groups_[shown].tolist())
    display = GroupLossDisplay(
        sizes, losses=losses, total_errors=errors, groups=drawable_names(names)
    )
    display.plot(axes=figure.subplots(1, 2))


def _refit(fitted: Any, moments: Any, r: int) -> Any:
    if r == fitted.n_components:
        return fitted
    return type(fitted).from_moments(
        moments, **{**fitted.get_params(), "n_components": r}
    )


def _plane(report: dict[str, Any], evidence: Fitted, r: int) -> Drawing:
    names = [group["group"] for group in report["groups"]]
    return Drawing(
        partial(_plot_plane, evidence=evidence, r=r, names=names),
        (8, 5),
        f"Pairs of variances that {r} components can capture of groups {names[0]} and "
        f"{names[1]}: a region, with plain PCA and fair PCA on its edge.",
        f"What {r} components can capture of both groups, near the best of each. On a "
        "dotted corner the largest loss is the same.",
    )


def _plot_plane(figure: Any, *, evidence: Fitted, r: int, names: list[str]) -> None:
    from scalefair.plotting import JointNumericalRangeDisplay

    moments = evidence.model.moments_
    first, second = moments.covariances(evidence.model.centering)
    JointNumericalRangeDisplay.from_covariances(
        first,
        second,
        r,
        group_sizes=moments.counts,
        groups=drawable_names(names),
        view="optimum",
        ax=figure.subplots(),
    )
