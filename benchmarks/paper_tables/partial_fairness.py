"""Figure 1 of the paper on partially fair classification, made anew.

    SCALEFAIR_DATA=... python benchmarks/paper_tables/partial_fairness.py
    python benchmarks/paper_tables/partial_fairness.py --data law --plots figures
    python benchmarks/paper_tables/partial_fairness.py --calls

Accuracy against fairness on test rows of He, Huang, Yao and Lin, "Enforcing fairness
where it matters: an approach based on difference-of-convex constraints": three data
sets, both criteria, random splits, all methods; and for each point of a comparator
whether our accuracy at equal fairness is as high. `--calls` makes another table
instead: oracle calls of the DC algorithm with switching subgradients and with the
bundle. Data are read from the folder named by SCALEFAIR_DATA; what is missing is
skipped. Markdown on standard output or in a file.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from _command import Command, among, at_least, progress
from _layout import Table, numbered
from _partial_fairness import (
    CRITERIA,
    FAIRLEARN,
    NAMES,
    QUICK,
    Effort,
    Split,
    load,
    methods,
)
from _partial_fairness_tables import (
    Front,
    accuracy_and_fairness,
    calls,
    claim,
    panel_fronts,
    panels,
    times,
)
from _timing import timed
from sklearn.exceptions import ConvergenceWarning

_N_SPLITS = 5


def run(
    split: Split, number: int, criteria: Sequence[str], options: argparse.Namespace
) -> list[Front]:
    """Fronts of all methods on a split; the iterations of some are limited."""
    effort = QUICK if options.quick else Effort()
    fronts = []
    for criterion in criteria:
        for name, method in methods(options.ssg).items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                took, points = timed(method, split, criterion, effort)
            fronts.append(Front(split.name, criterion, name, number, points, took))
            progress(f"{split.name}, split {number}, {criterion}, {name}", took)
    return fronts


def tables(fronts: list[Front], options: argparse.Namespace) -> list[Table]:
    """All tables of the figure."""
    made = [
        accuracy_and_fairness(*panel, panel_fronts(fronts, *panel))
        for panel in panels(fronts)
    ]
    all_points, summary = claim(fronts)
    effort = QUICK if options.quick else Effort()
    rates = " and ".join(f"{rate:g}" for rate in effort.descent_rates)
    summary.notes = [
        f"Means over {options.splits} random splits with 95 % confidence half widths; "
        "differences are paired over the splits. `holds`: the interval's lower end is "
        "not negative; `does not hold`: its upper end is. With one split only signs "
        "are looked at. `fairer than ours`: in all splits but one, at most, the point "
        "is fairer than our fairest one, with which it is then compared. Our front "
        "starts at the classifier without constraints, as in the paper; points that "
        "others beat on the validation rows are left out of it.",
        "Ours: alpha 0, 1e-4 or 1e-3 and, for the strong criterion, 10 or 25 "
        "thresholds, from zero; the paper's kappas and wider ones, which fill the "
        "front towards the classifier without constraints. For each kappa the most "
        "accurate classifier on the validation rows of those as fair there as that "
        "without ridge and with 10 thresholds; and the fairest one. The comparators "
        "have no ridge, as in the paper.",
        "Strong criterion: the scores of every method are shifted to the most accurate "
        "threshold on the training rows, which changes no fairness.",
        f"Limited: ours {effort.path_iterations} iterations for each kappa; penalty "
        f"{effort.descent_steps} steps with each of the rates {rates} "
        "(the paper: some 40000 steps with rates of 5e-4 to 5e-3), the more accurate "
        f"one on validation rows; direct SSG {effort.direct_steps} steps to 2e-3 (the "
        "paper: 50000).",
    ]
    run = methods(options.ssg)
    if FAIRLEARN not in run:
        summary.notes.append("Not run: fairlearn's reductions, not installed.")
    else:
        summary.notes.append(
            f"fairlearn: {effort.reductions} iterations; rows are ranked by the "
            "probability of a positive answer, then by the mean probability."
        )
    if not options.ssg:
        summary.notes.append("Not run: IDCA with SSG (`--ssg`).")
    return numbered([*made, all_points, summary, times(fronts)])


def plot(fronts: list[Front], folder: Path) -> None:
    """Draw a panel into a file each."""
    from matplotlib.figure import Figure

    from scalefair.plotting import ParetoFrontDisplay

    folder.mkdir(parents=True, exist_ok=True)
    for data, criterion in panels(fronts):
        results = [
            {
                "method": method,
                "setting": point.setting,
                "accuracy": point.test[0],
                "fairness": point.test[1],
            }
            for method, those in panel_fronts(fronts, data, criterion).items()
            for front in those
            for point in front.points
        ]
        figure = Figure(figsize=(8, 5), layout="constrained")
        display = ParetoFrontDisplay.from_results(
            results, setting="setting", ax=figure.subplots()
        )
        title = display.ax_.get_title()
        heading = f"{NAMES[data]}, {criterion} criterion"
        display.ax_.set_title(f"{heading}: {title}" if title else heading)
        # By the points: a wide bar shall not make the rest small.
        points = np.concatenate(list(display.means.values()))
        (x_min, y_min), (x_max, y_max) = points.min(axis=0), points.max(axis=0)
        display.ax_.set_xlim(x_min - 0.05, x_max + 0.05)
        display.ax_.set_ylim(y_min - 0.01, y_max + 0.01)
        figure.savefig(folder / f"partial_fairness_{data}_{criterion}.png", dpi=150)


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the tables that are asked for."""
    command = Command(__doc__)
    data, criteria = list(NAMES), list(CRITERIA)
    command.option("--data", type=among(data), default=data, help=",".join(data))
    command.option(
        "--criteria", type=among(criteria), default=criteria, help=",".join(criteria)
    )
    command.option(
        "--splits", type=at_least(1), default=_N_SPLITS, help="random splits (5)"
    )
    command.option("--ssg", action="store_true", help="IDCA with SSG too: an hour more")
    command.option("--calls", action="store_true", help="oracle calls instead")
    command.option("--plots", type=Path, help="folder for the figures")
    options = command.parse(arguments)
    fronts: list[Front] = []
    first: list[Split] = []
    for name in options.data:
        for number in range(1 if options.calls else options.splits):
            try:
                split = load(name, number, options.quick)
            except OSError as error:
                command.skip(f"{NAMES[name]}: {error}")
                break
            if options.calls:
                first.append(split)
                continue
            fronts += run(split, number, options.criteria, options)
            command.write(tables(fronts, options))
    if options.calls:
        effort = QUICK if options.quick else Effort()
        limits = [effort.ssg_steps // 3, effort.ssg_steps]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            made = numbered([calls(first, options.criteria, effort, limits)])
    else:
        made = tables(fronts, options) if fronts else []
        if options.plots and fronts:
            plot(fronts, options.plots)
    command.write(made, last=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
