"""Candidates timed in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

# Runs shorter than this are made twice, those longer than the other once (seconds).
_SHORT, _LONG = 0.2, 20.0


def timed(run: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Seconds of a call, and what it returned."""
    start = time.perf_counter()
    result = run(*arguments)
    return time.perf_counter() - start, result


def alternate(
    repeats: int, runs: dict[str, Callable[[], Any]]
) -> tuple[dict[str, float], dict[str, Any]]:
    """Run the candidates in turn; median seconds after a warm-up, and results.

    Of short runs the second is timed: the first has to wake the threads, or waits
    for those of the other candidate to go to sleep.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    results = {}
    for repeat in range(repeats + 1):
        for name, run in runs.items():
            if repeat and seconds[name][0] > _LONG:
                continue
            if repeat and seconds[name][0] < _SHORT:
                run()
            took, results[name] = timed(run)
            seconds[name].append(took)
    medians = {name: statistics.median(s[1:] or s) for name, s in seconds.items()}
    return medians, results
