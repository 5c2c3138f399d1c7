"""Accuracy against fairness of fair calibration and of other methods, on five tables.

    SCALEFAIR_DATA=... python benchmarks/paper_tables/fair_calibration.py
    python benchmarks/paper_tables/fair_calibration.py --data law --splits 1

Means over random splits, 70:30, of measures on the rows of test: accuracy, the exact
gap within an interval of ranks, log-loss, AUC, AUC of those ranks; and the gap on the
rows of training. With `--output FILE.md` all runs go to FILE.json, too; `--methods`
runs these anew and takes the others from there. Data are read from the folder named by
SCALEFAIR_DATA; what is missing is skipped.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from _command import Command, among, at_least, progress
from _fair_calibration import (
    INTERVALS,
    KAPPAS,
    METHODS,
    NAMES,
    REDUCTION,
    THRESHOLDS,
    Split,
    measures,
    null_gap,
)
from _layout import EMPTY, Table
from _timing import timed

_COLUMNS = (
    "accuracy",
    "gap",
    "fit gap",
    "label gap",
    "log-loss",
    "AUC",
    "AUC of ranks",
    "kept",
)
Run = dict[str, Any]


def run(split: Split, method: str, quick: bool) -> list[Run]:
    """Measure a method on a split, in both intervals."""
    kappas = KAPPAS[2:3] if quick else KAPPAS
    runs = []
    for interval in INTERVALS:
        noise = null_gap(split, interval)
        runs += [
            {
                "data": split.name,
                "interval": list(interval),
                "method": method,
                "kappa": outcome.kappa,
                "split": split.number,
                "null gap": noise,
                **measures(split, interval, outcome),
            }
            for outcome in METHODS[method](split, interval, kappas)
        ]
    return runs


def tables(runs: list[Run]) -> list[Table]:
    """Give a table for each data set and interval."""
    made = []
    for name in NAMES:
        for interval in INTERVALS:
            panel = [
                one
                for one in runs
                if one["data"] == name and tuple(one["interval"]) == interval
            ]
            if panel:
                made.append(_table(f"{name}, ranks {interval}", panel))
    return made


def _table(title: str, panel: list[Run]) -> Table:
    noise = np.mean([one["null gap"] for one in panel])
    splits = len({one["split"] for one in panel})
    table = Table(title, "|".join(("method", "kappa", *_COLUMNS)))
    rows = {(one["method"], one["kappa"]): None for one in panel}
    for method, kappa in sorted(rows, key=lambda row: list(METHODS).index(row[0])):
        repeats = [
            one for one in panel if (one["method"], one["kappa"]) == (method, kappa)
        ]
        for one in repeats:
            one["kept"] = one["gap"] <= (one["kappa"] or 0.0) + 1.5 * one["null gap"]
        cells = (
            f"{np.mean([one[column] for one in repeats]):.4f}" for column in _COLUMNS
        )
        table.add(method, EMPTY if kappa is None else f"{kappa:g}", *cells)
    table.notes = [
        f"Means over {splits} splits. Null gap, of rows of test and of training: "
        f"{noise:.3f}. `kept`: share of splits whose gap on the rows of test is at "
        "most kappa (0 where there is none) and 1.5 null gaps."
    ]
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the tables that are asked for."""
    command = Command(__doc__)
    data, methods = list(NAMES), list(METHODS)
    command.option("--data", type=among(data), default=data, help=",".join(data))
    command.option(
        "--methods", type=among(methods), default=methods, help="; ".join(methods)
    )
    command.option("--splits", type=at_least(1), default=3, help="random splits (3)")
    options = command.parse(arguments)
    kept = options.output and options.output.with_suffix(".json")
    runs: list[Run] = []
    if kept and kept.is_file():
        runs = json.loads(kept.read_text(encoding="utf-8"))
    chosen = options.methods
    if importlib.util.find_spec("fairlearn") is None:
        command.skip("fairlearn is not installed.")
        chosen = [name for name in chosen if name not in (THRESHOLDS, REDUCTION)]
    for name in options.data:
        for number in range(options.splits):
            try:
                split = Split(name, number, options.quick)
            except OSError as error:
                command.skip(f"{name}: {error}")
                break
            for method in chosen:
                took, new = timed(run, split, method, options.quick)
                key = (name, number, method)
                runs = [r for r in runs if (r["data"], r["split"], r["method"]) != key]
                runs += new
                progress(f"{name}, split {number}, {method}", took)
            if kept:
                kept.write_text(json.dumps(runs, indent=1), encoding="utf-8")
            command.write(tables(runs))
    command.write(tables(runs), last=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
