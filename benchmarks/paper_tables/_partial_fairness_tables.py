"""Tables of the partially fair classifiers' figure, made from the runs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from _layout import EMPTY, Table, number
from _partial_fairness import (
    CRITERIA,
    NAMES,
    OURS,
    PLAIN,
    Effort,
    Point,
    Split,
    classifier,
    fit,
)
from scipy import special

HOLDS, WITHIN, FAILS = "holds", "within the interval", "does not hold"
FAIRER = "fairer than ours"
# Of the comparison of oracle calls, amid the grids; and the tolerance of the bundle.
_CALLS_KAPPA = {
    "strong": {"a9a": 0.1, "bank": 0.08, "law": 0.1},
    "weak": {"a9a": 0.05, "bank": 0.05, "law": 0.06},
}
_CALLS_TOL = 1e-4
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Front:
    """The points of a method on one split, and the seconds they took."""

    data: str
    criterion: str
    method: str
    split: int
    points: list[Point]
    seconds: float


def interval(values: Iterable[float]) -> tuple[float, float]:
    """Mean and half width of its 95 % confidence interval (Student's)."""
    x = np.fromiter(values, float)
    if x.size < 2:
        return float(x.mean()), math.nan
    half = special.stdtrit(x.size - 1, 0.975) * x.std(ddof=1) / math.sqrt(x.size)
    return float(x.mean()), float(half)


def shown(values: Iterable[float]) -> str:
    """Mean and half width as text; the mean alone of one value."""
    mean, half = interval(values)
    return f"{mean:.4f}" if math.isnan(half) else f"{mean:.4f} ± {half:.4f}"


def settings(fronts: list[Front]) -> dict[str, list[Point]]:
    """Points of a method by setting, one of each split."""
    by_setting: dict[str, list[Point]] = {}
    for front in fronts:
        for p in front.points:
            by_setting.setdefault(p.setting, []).append(p)
    return by_setting


def panel_fronts(
    fronts: list[Front], data: str, criterion: str
) -> dict[str, list[Front]]:
    """Fronts of one panel of the figure, by method."""
    by_method: dict[str, list[Front]] = {}
    for front in fronts:
        if (front.data, front.criterion) == (data, criterion):
            by_method.setdefault(front.method, []).append(front)
    return by_method


def panels(fronts: list[Front]) -> list[tuple[str, str]]:
    """List data and criterion of each panel there is."""
    present = {(f.data, f.criterion) for f in fronts}
    return [(d, c) for c in CRITERIA for d in NAMES if (d, c) in present]


def accuracy_and_fairness(
    data: str, criterion: str, fronts: dict[str, list[Front]]
) -> Table:
    """Means over the splits of every point of a panel."""
    title = f"{NAMES[data]}, {criterion} criterion, test rows"
    table = Table(title, "method|setting|accuracy|fairness")
    for method, those in fronts.items():
        for setting, points in settings(those).items():
            accuracy = shown(p.test[0] for p in points)
            table.add(method, setting, accuracy, shown(p.test[1] for p in points))
    return table


def times(fronts: list[Front]) -> Table:
    """Mean seconds of a method's front on one split."""
    present = panels(fronts)
    header = "|".join(["method", *(f"{NAMES[d]}, {c}" for d, c in present)])
    table = Table("seconds for a front, one split, all settings tried", header)
    for method in dict.fromkeys(f.method for f in fronts):
        cells = []
        for data, criterion in present:
            seconds = [
                f.seconds for f in panel_fronts(fronts, data, criterion).get(method, [])
            ]
            cells.append(number(np.mean(seconds), 3) if seconds else EMPTY)
        table.add(method, *cells)
    return table


def undominated(points: list[Point]) -> list[Point]:
    """Points that no other one beats on the validation rows."""

    def beaten(p: Point) -> bool:
        return any(
            q.validation != p.validation
            and q.validation[0] >= p.validation[0]
            and q.validation[1] >= p.validation[1]
            for q in points
        )

    return [p for p in points if not beaten(p)]


def accuracy_at(front: list[Point], fairness: float) -> float:
    """Accuracy of a front at a fairness, on test rows; nan beyond its fairest point.

    Between two points it is interpolated; a fairness below all is met by the least
    fair point.
    """
    pairs = sorted(p.test[::-1] for p in undominated(front))
    x, y = np.array(pairs).T
    if fairness > x[-1] + _ROUNDING:
        return math.nan
    return float(np.interp(fairness, x, y))


def verdict(differences: list[float]) -> str:
    """Say what the differences, ours less theirs, mean for the claim."""
    mean, half = interval(differences)
    margin = 0.0 if math.isnan(half) else half
    if mean - margin >= -_ROUNDING:
        return HOLDS
    return WITHIN if mean + margin >= -_ROUNDING else FAILS


def claim(fronts: list[Front]) -> tuple[Table, Table]:
    """Our accuracy at a comparator's fairness less its own; and how often it holds."""
    header = "data|criterion|comparator|setting|its fairness|difference|splits|claim"
    table = Table("ours less the comparator's accuracy, at equal fairness", header)
    verdicts = (HOLDS, WITHIN, FAILS, FAIRER)
    summary = Table("the claim of figure 1, in points", "|".join(_HEAD + verdicts))
    counts: dict[tuple[str, str, str], dict[str, int]] = {}
    for data, criterion in panels(fronts):
        methods = panel_fronts(fronts, data, criterion)
        start = {f.split: f.points for f in methods.get(PLAIN, [])}
        # All fronts start from the classifier without constraints.
        ours = {f.split: f.points + start.get(f.split, []) for f in methods[OURS]}
        for method, those in methods.items():
            if method == OURS:
                continue
            splits = [f.split for f in those]
            tally = counts.setdefault(
                (data, criterion, method), dict.fromkeys(verdicts, 0)
            )
            for setting, points in settings(those).items():
                pairs = [
                    accuracy_at(ours[split], p.test[1]) - p.test[0]
                    for split, p in zip(splits, points, strict=True)
                ]
                differences = [d for d in pairs if not math.isnan(d)]
                has_splits = len(differences) >= min(2, len(pairs))
                result = verdict(differences) if has_splits else FAIRER
                if has_splits:
                    difference = shown(differences)
                else:
                    difference = _beside_fairest([ours[s] for s in splits], points)
                tally[result] += 1
                table.add(
                    NAMES[data],
                    criterion,
                    method,
                    setting,
                    shown(p.test[1] for p in points),
                    difference,
                    f"{len(differences)} of {len(pairs)}",
                    result,
                )
    for (data, criterion, method), tally in counts.items():
        summary.add(NAMES[data], criterion, method, *tally.values())
    return table, summary


def _beside_fairest(fronts: list[list[Point]], points: list[Point]) -> str:
    """How a point that is fairer than our fronts differs from their fairest points."""
    fairest = [max(front, key=lambda p: p.test[::-1]) for front in fronts]
    pairs = list(zip(fairest, points, strict=True))
    accuracy = shown(p.test[0] - q.test[0] for p, q in pairs)
    return f"{accuracy}, fairness {shown(p.test[1] - q.test[1] for p, q in pairs)}"


_HEAD = ("data", "criterion", "comparator")


def calls(
    splits: list[Split], criteria: list[str], effort: Effort, checks: list[int]
) -> Table:
    """Oracle calls of the bundle to what IDCA with SSG reaches, both from zero."""
    header = (
        "data|criterion|kappa|calls of SSG|residual|objective|infeasibility|"
        "bundle: calls to the residual|calls to all|residual|objective|infeasibility|"
        "SSG / bundle"
    )
    table = Table("oracle calls of IDCA, switching subgradients and bundle", header)
    for split in splits:
        for criterion in criteria:
            kappa = _CALLS_KAPPA[criterion][split.name]
            ssg = classifier(split, criterion, kappa, "ssg", effort.ssg_steps)
            ssg = fit(ssg, split).history_
            bundle = classifier(split, criterion, kappa, "bundle", 1)
            bundle.set_params(max_iter=1000, tol=_CALLS_TOL)
            bundle = fit(bundle, split).history_
            for limit in checks:
                table.add(
                    NAMES[split.name],
                    criterion,
                    f"{kappa:g}",
                    *_calls_row(ssg, bundle, limit),
                )
    table.notes = [
        "Both start from weights of zero on the training rows of the first split. SSG "
        "takes 150 steps in each subproblem, to 2e-3. Residual: the smallest so far; "
        "objective and infeasibility: those of the last iterate. Bundle: calls until "
        "its residual is no larger, and until residual, objective and infeasibility "
        "are. SSG's infeasibility grows with the iterations, by up to 2e-3 in each, "
        "and an objective at a violation may be out of reach without one."
    ]
    return table


History = list[dict[str, float]]


def _calls_row(ssg: History, bundle: History, limit: int) -> list[str]:
    until = [r for r in ssg if r["n_oracle_calls"] <= limit] or ssg[:1]
    last = until[-1]
    residual = min(r["kkt_residual"] for r in until)
    violation = max(last["infeasibility"], 0.0)
    alone = [r["n_oracle_calls"] for r in bundle if r["kkt_residual"] <= residual]
    as_good = [
        r
        for r in bundle
        if r["kkt_residual"] <= residual
        and r["objective"] <= last["objective"]
        and r["infeasibility"] <= violation + _ROUNDING
    ]
    end = as_good[0] if as_good else bundle[-1]
    calls = f"{end['n_oracle_calls']:.0f}"
    ratio = last["n_oracle_calls"] / end["n_oracle_calls"]
    return [
        f"{last['n_oracle_calls']:.0f}",
        f"{residual:.1e}",
        f"{last['objective']:.5f}",
        f"{violation:.1e}",
        f"{alone[0]:.0f}" if alone else EMPTY,
        calls if as_good else f"not in {calls}",
        f"{end['kkt_residual']:.1e}",
        f"{end['objective']:.5f}",
        f"{max(end['infeasibility'], 0.0):.1e}",
        f"{ratio:.1f}" if as_good else EMPTY,
    ]
