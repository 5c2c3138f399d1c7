"""Results of one asv run, read from its files."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "pyamg", "dask")
VERSIONS = """
import importlib.metadata, importlib.util, json, platform, sys
found = {"Python": platform.python_version()}
for name in sys.argv[1:]:
    if importlib.util.find_spec({"scikit-learn": "sklearn"}.get(name, name)):
        found[name] = importlib.metadata.version(name)
print(json.dumps(found))
"""


class Measurement(NamedTuple):
    """One benchmark at one set of parameters."""

    name: str  # suite.Class.method, or suite.method
    kind: str  # time, peakmemory or track
    unit: str
    parameters: dict[str, str]
    value: float

    @property
    def suite(self) -> str:
        return self.name.split(".")[0]

    @property
    def owner(self) -> str:
        return self.name.rpartition(".")[0]


class Run(NamedTuple):
    """Results of one machine, commit and environment."""

    machine: dict[str, str]
    commit: str
    python: str
    started: datetime
    repeats: int  # a time is the median of so many runs, or more
    measurements: list[Measurement]


# -- Reading ------------------------------------------------------------------------


def newest_results(folder: Path, machine: str = "", commit: str = "") -> Path:
    """File of the newest run of this machine and commit; of any where empty."""
    found = [
        path
        for path in folder.glob(f"{machine or '*'}/*.json")
        if path.name != "machine.json" and path.name.startswith(commit[:8])
    ]
    if not found:
        wanted = "".join(f" of {word}" for word in (machine, commit) if word)
        raise SystemExit(f"no results{wanted} in {folder}: run `asv run` first")
    return max(found, key=lambda path: max(_started(json.loads(path.read_text()))))


def _columns(results: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name of each benchmark that ran, and what was recorded of it."""
    for name, row in results["results"].items():
        # Columns at the end are left out where they are empty.
        record = dict(zip(results["result_columns"], row or [], strict=False))
        if record.get("result"):
            yield name, record


def _started(results: dict[str, Any]) -> list[float]:
    return [record["started_at"] or 0 for _, record in _columns(results)] or [0]


def read_run(path: Path) -> Run:
    """Results in this file, described by benchmarks.json and machine.json near it."""
    results = json.loads(path.read_text())
    known = json.loads((path.parents[1] / "benchmarks.json").read_text())
    measurements, repeats = [], []
    for name, record in sorted(_columns(results)):
        if name not in known:  # a benchmark that is gone
            continue
        what = known[name]
        for values, value in zip(
            product(*record["params"]), record["result"], strict=True
        ):
            if value is None or math.isnan(value):  # failed, or not asked for
                continue
            parameters = dict(
                zip(what["param_names"], (v.strip("'\"") for v in values), strict=True)
            )
            measurements.append(
                Measurement(name, what["type"], what["unit"], parameters, value)
            )
        repeats += [n for n in record.get("stats_repeat") or [] if n]
    return Run(
        machine=json.loads((path.parent / "machine.json").read_text()),
        commit=results["commit_hash"],
        python=results["python"],
        started=datetime.fromtimestamp(max(_started(results)) / 1000, UTC),
        repeats=min(repeats, default=1),
        measurements=measurements,
    )


def versions(python: str) -> dict[str, str]:
    """Versions of this Python and of the packages installed for it."""
    answer = subprocess.run(
        [python, "-c", VERSIONS, *PACKAGES], check=True, capture_output=True, text=True
    )
    return json.loads(answer.stdout)
