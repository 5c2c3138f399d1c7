"""What the page of ``scalefair classify`` shows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from numpy.typing import NDArray

from scalefair.cli._classify_summary import summary_rows
from scalefair.cli._html_figures import Drawing, choose_groups, drawable_names
from scalefair.cli._html_page import Table
from scalefair.cli._html_tables import measure_table, record_table, summary_table

__all__ = ["SHOWN", "drawings", "finding", "tables"]

SHOWN = {"train", "test"}

_COLUMNS = {
    "group": ("group", ""),
    "n_rows": ("rows", ",d"),
    "positive_rate": ("positive", ".1%"),
    "selection_rate": ("selected", ".1%"),
    "accuracy": ("accuracy", ".1%"),
}


def finding(report: dict[str, Any]) -> str:
    """Return the result in a few words."""
    part = "test" if "test" in report else "train"
    low, high = report["parameters"]["interval"]
    found = report[part]
    weak = report["parameters"]["criterion"] == "weak"
    gap = found["weak_partial_parity_gap" if weak else "partial_parity_gap"]
    where = "at the threshold" if weak else "at most"
    return (
        f"Groups differ by {gap:.3f} {where} within ranks {low:g} to {high:g}, "
        f"accuracy {found['accuracy']:.1%} ({part} rows)"
    )


def tables(report: dict[str, Any]) -> list[Table]:
    """Return the tables, the summary first."""
    known = ("train", "test")
    parts: dict[str, Any] = {name: report[name] for name in known if name in report}
    return [
        summary_table(summary_rows(report)),
        *(
            record_table(f"Groups in the {name} rows", found["groups"], _COLUMNS)
            for name, found in parts.items()
        ),
        measure_table(parts),
    ]


def drawings(
    report: dict[str, Any],
    evidence: Mapping[str, tuple[NDArray[Any], NDArray[Any]]],
) -> tuple[list[Drawing], list[str]]:
    """Return figures, and what is to be said about those there are not.

    Parameters
    ----------
    report : dict
        The report.
    evidence : mapping of str to (ndarray of shape (m,), ndarray of shape (m,))
        For the train rows and the test rows, if there are any, scores and groups.
    """
    found = []
    for part, (scores, groups) in evidence.items():
        found.append(_densities(report, part, scores, groups))
        found.append(_rates(report, part, scores, groups))
    return found, []


def _densities(
    report: dict[str, Any], part: str, scores: NDArray[Any], groups: NDArray[Any]
) -> Drawing:
    codes, shown, names, remark = choose_groups(groups)
    low, high = report["parameters"]["interval"]
    return Drawing(
        partial(
            _plot_densities,
            scores=scores[shown],
            codes=codes[shown],
            names=names,
            interval=(low, high),
        ),
        (9, 4.5),
        f"Density of the scores of each group, {part} rows. The bars below mark the "
        f"scores of ranks {low:g} to {high:g} in each group.",
        f"Scores of the {part} rows. Marked are those of ranks {low:g} to {high:g}, "
        f"where the groups are to be treated alike.{remark}",
    )


def _plot_densities(
    figure: Any,
    *,
    scores: NDArray[Any],
    codes: NDArray[Any],
    names: list[str],
    interval: tuple[float, float],
) -> None:
    import numpy as np
    from matplotlib.figure import Figure

    from scalefair.plotting import ScoreDensityDisplay

    display = ScoreDensityDisplay.from_predictions(
        scores,
        sensitive_features=codes,
        interval=interval,
        threshold=0.0,
        ax=Figure().subplots(),
    )
    # Of many rows codes are smaller than names.
    display.groups = np.array(names)
    display.plot(ax=figure.subplots())


def _rates(
    report: dict[str, Any], part: str, scores: NDArray[Any], groups: NDArray[Any]
) -> Drawing:
    import numpy as np

    found, codes = np.unique(groups, return_inverse=True)
    rates = [entry["selection_rate"] for entry in report[part]["groups"]]
    # Of more than two groups the two that are treated most differently.
    pair = sorted({int(np.argmin(rates)), int(np.argmax(rates))})
    pair = pair if len(pair) == 2 else [0, 1]
    pair_names = [str(found[k]) for k in pair]
    names = drawable_names(pair_names)
    shown = np.isin(codes, pair)
    parameters = report["parameters"]
    remark = ""
    if found.size > 2:
        remark = " Of all groups their shares of selected rows differ most."
    return Drawing(
        partial(
            _plot_rates,
            scores=scores[shown],
            codes=codes[shown],
            names=names,
            interval=tuple(parameters["interval"]),
            kappa=parameters["kappa"],
        ),
        (8, 5),
        f"Shares of groups {pair_names[0]} and {pair_names[1]} above a threshold, as "
        f"it falls, against each other, {part} rows. Equal shares lie on the "
        "diagonal.",
        f"Shares above a threshold, {part} rows. Green: what --kappa allows.{remark}",
    )


def _plot_rates(
    figure: Any,
    *,
    scores: NDArray[Any],
    codes: NDArray[Any],
    names: list[str],
    interval: tuple[float, float],
    kappa: float,
) -> None:
    import numpy as np
    from matplotlib.figure import Figure

    from scalefair.plotting import GroupRateDisplay

    display = GroupRateDisplay.from_predictions(
        scores,
        sensitive_features=codes,
        interval=interval,
        kappa=kappa,
        name="classifier",
        ax=Figure().subplots(),
    )
    display.groups = np.array(names)
    display.plot(ax=figure.subplots())
