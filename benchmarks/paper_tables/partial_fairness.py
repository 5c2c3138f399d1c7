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
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from _layout import Table
from _partial_fairness_data import CRITERIA, NAMES, Split, load
from _partial_fairness_methods import FAIRLEARN, QUICK, Effort, methods
from _partial_fairness_tables import (
    Front,
    accuracy_and_fairness,
    calls,
    claim,
    of,
    panels,
    times,
)
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
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                points = method(split, criterion, effort)
            took = time.perf_counter() - start
            fronts.append(Front(split.name, criterion, name, number, points, took))
            text = f"{split.name}, split {number}, {criterion}, {name}: {took:.1f} s"
            print(text, file=sys.stderr, flush=True)
    return fronts


def tables(fronts: list[Front], options: argparse.Namespace) -> list[Table]:
    """All tables of the figure."""
    made = [
        accuracy_and_fairness(n, *panel, of(fronts, *panel))
        for n, panel in enumerate(panels(fronts), start=1)
    ]
    all_points, summary = claim(len(made) + 1, fronts)
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
    return [*made, all_points, summary, times(len(made) + 3, fronts)]


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
            for method, those in of(fronts, data, criterion).items()
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
        (left, bottom), (right, top) = points.min(axis=0), points.max(axis=0)
        display.ax_.set_xlim(left - 0.05, right + 0.05)
        display.ax_.set_ylim(bottom - 0.01, top + 0.01)
        figure.savefig(folder / f"partial_fairness_{data}_{criterion}.png", dpi=150)


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the tables that are asked for."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.output and not options.output.absolute().parent.is_dir():
        parser.error(f"there is no folder {options.output.parent} for --output")
    fronts: list[Front] = []
    first: list[Split] = []
    skipped: list[str] = []
    for name in options.data:
        for number in range(1 if options.calls else options.splits):
            try:
                split = load(name, number, options.quick)
            except OSError as error:
                skipped.append(f"Skipped: {NAMES[name]}: {error}")
                break
            if options.calls:
                first.append(split)
                continue
            fronts += run(split, number, options.criteria, options)
            if options.output:  # after every split: a long run can be interrupted
                _write(tables(fronts, options), skipped, options.output)
    if options.calls:
        effort = QUICK if options.quick else Effort()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            limits = [effort.ssg_steps // 3, effort.ssg_steps]
            made = [calls(1, first, options.criteria, effort, limits)]
    else:
        made = tables(fronts, options) if fronts else []
        if options.plots and fronts:
            plot(fronts, options.plots)
    _write(made, skipped, options.output)
    return 0


def _write(made: list[Table], skipped: list[str], output: Path | None) -> None:
    text = "\n".join([*(t.markdown() for t in made), *(f"- {s}" for s in skipped)])
    if output:
        output.write_text(text, encoding="utf-8")
    else:
        print(text)


def _among(known: Sequence[str], text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in known]:
        raise argparse.ArgumentTypeError(f"{unknown} not among {list(known)}")
    return names


def _data(text: str) -> list[str]:
    return _among(list(NAMES), text)


def _criteria(text: str) -> list[str]:
    return _among(CRITERIA, text)


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=_data, default=list(NAMES), help="a9a,bank,law")
    parser.add_argument(
        "--criteria", type=_criteria, default=list(CRITERIA), help="strong,weak"
    )
    parser.add_argument(
        "--splits", type=_count, default=_N_SPLITS, help=f"random splits ({_N_SPLITS})"
    )
    parser.add_argument(
        "--ssg", action="store_true", help="IDCA with SSG too: an hour more"
    )
    parser.add_argument("--calls", action="store_true", help="oracle calls instead")
    parser.add_argument("--plots", type=Path, help="folder for the figures")
    parser.add_argument("--output", type=Path, help="markdown file to write")
    parser.add_argument("--quick", action="store_true", help="tiny, synthetic data")
    return parser


if __name__ == "__main__":
    sys.exit(main())
