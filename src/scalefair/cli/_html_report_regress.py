"""What the page of ``scalefair regress`` shows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from numpy.typing import NDArray

from scalefair.cli._html_figures import Drawing, choose_groups
from scalefair.cli._html_page import Table
from scalefair.cli._html_tables import measure_table, record_table, summary_table
from scalefair.cli._regress_summary import summary_rows

__all__ = ["SHOWN", "drawings", "finding", "tables"]

SHOWN = {"train", "test", "groups", "unfairness_by_layer"}

# Of more rows a histogram is as smooth as a kernel density, and faster.
_MAX_KERNELS = 5000
_COLUMNS = {
    "group": ("group", ""),
    "n_rows": ("rows", ",d"),
    "mean_target": ("mean target", ".4g"),
    "mean_before": ("mean before", ".4g"),
    "mean_after": ("mean after", ".4g"),
    "mse_before": ("squared error before", ".4g"),
    "mse_after": ("squared error after", ".4g"),
}
_LAYER_COLUMNS = {
    "name": ("layer", ""),
    "mean_gap": ("mean gap", ".4g"),
    "covariance_gap": ("covariance gap", ".4g"),
    "relative_mean_gap": ("mean gap, relative", ".4g"),
    "relative_covariance_gap": ("covariance gap, relative", ".4g"),
    "score": ("score", ".4g"),
}


def finding(report: dict[str, Any]) -> str:
    """Return the result in a few words."""
    part = "test" if "test" in report else "train"
    ks, mse = (
        _change(report[part][f"{key}_before"], report[part][f"{key}_after"])
        for key in ("ks", "mse")
    )
    return (
        f"The KS distance between groups {ks}, the mean squared error {mse} "
        f"({part} rows)"
    )


def _change(before: float, after: float) -> str:
    old, new = f"{before:.3g}", f"{after:.3g}"
    if old == new:
        return f"stays {new}"
    return f"{'falls' if after < before else 'rises'} from {old} to {new}"


def tables(report: dict[str, Any]) -> list[Table]:
    """Return the tables, the summary first."""
    known = ("train", "test")
    parts: dict[str, Any] = {name: report[name] for name in known if name in report}
    layers = [layer for layer in report["unfairness_by_layer"] if layer is not None]
    return [
        summary_table(summary_rows(report)),
        *(
            record_table(f"Groups in the {name} rows", found["groups"], _COLUMNS)
            for name, found in parts.items()
        ),
        measure_table(parts),
        *(
            [record_table("Layers, before the change", layers, _LAYER_COLUMNS)]
            if layers
            else []
        ),
    ]


def drawings(
    report: dict[str, Any],
    evidence: Mapping[str, tuple[dict[str, NDArray[Any]], NDArray[Any]]],
) -> tuple[list[Drawing], list[str]]:
    """Return figures, and what is to be said about those there are not.

    Parameters
    ----------
    report : dict
        The report.
    evidence : mapping of str to (dict of str to ndarray, ndarray of shape (m,))
        For the train rows and the test rows, if there are any, predictions
        ``"before"`` and ``"after"`` the change, and groups.
    """
    return [
        _densities(report[part], part, outputs, groups)
        for part, (outputs, groups) in evidence.items()
    ], []


def _densities(
    found: dict[str, Any],
    part: str,
    outputs: dict[str, NDArray[Any]],
    groups: NDArray[Any],
) -> Drawing:
    codes, shown, names, remark = choose_groups(groups)
    return Drawing(
        partial(
            _plot_densities,
            outputs={when: values[shown] for when, values in outputs.items()},
            codes=codes[shown],
            names=names,
        ),
        (10, 3.8),
        f"Density of the predictions for each group before and after the change, "
        f"{part} rows. The KS distance between groups is {found['ks_before']:.3f} "
        f"before and {found['ks_after']:.3f} after.",
        f"Predictions for each group before and after the change, {part} rows. Where "
        f"the curves agree groups are treated alike.{remark}",
    )


def _plot_densities(
    figure: Any, *, outputs: dict[str, NDArray[Any]], codes: NDArray[Any], names: Any
) -> None:
    import numpy as np
    from matplotlib.figure import Figure

    from scalefair.plotting import OutputDensityDisplay

    display = OutputDensityDisplay.from_predictions(
        outputs,
        sensitive_features=codes,
        output_name="prediction",
        kind=_choose_kind(outputs, codes),
        ax=Figure().subplots(1, 2),
    )
    # Of many rows codes are smaller than names.
    display.groups = np.array(names)
    display.plot(ax=figure.subplots(1, 2, sharex=True, sharey=True))


def _choose_kind(outputs: dict[str, NDArray[Any]], codes: NDArray[Any]) -> str:
    """Kernel densities if there are some for all groups, and rows are not many."""
    import numpy as np

    if codes.size > _MAX_KERNELS:
        return "histogram"
    parts = (
        values[codes == code]
        for values in outputs.values()
        for code in np.unique(codes)
    )
    return "kde" if all(np.ptp(part) > 0 for part in parts) else "histogram"
