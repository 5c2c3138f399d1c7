"""Which methods run on which data, and the runs made so far."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from _layout import Table
from _methods import Run, repeat
from _problems import MissingDataError, Problem, census, four_area, lastfm, thyroid

# Dense null-space bases take minutes beyond this order, and too much memory beyond
# the second.
_DENSE_ROWS, _MOST_DENSE_ROWS = 6000, 10_000
# Stored kernels of up to this many rows go to FFSC (12 bytes an entry) and UFSC,
# which the paper saw time out.
FFSC_ROWS, UFSC_ROWS = 10_000, 8000


@dataclass
class Session:
    """Sizes, repetitions, and the runs made so far, which several tables share."""

    quick: bool = False
    large: bool = False
    n_runs: int = 3
    runs: dict[tuple[str, int, int, str], list[Run]] = field(default_factory=dict)
    problems: dict[str, Problem] = field(default_factory=dict)

    def allows(self, problem: Problem, method: str) -> bool:
        """Whether a method is run on a problem of this size."""
        if method == "o-FSC":
            most = _MOST_DENSE_ROWS if self.large else _DENSE_ROWS
            return problem.n <= (1000 if self.quick else most)
        limits = {"FFSC": FFSC_ROWS, "UFSC": UFSC_ROWS}
        return problem.n <= limits.get(method, problem.n)

    def run(self, problem: Problem, method: str, k: int) -> list[Run]:
        """Run a method, or take the runs of an earlier table; none if too large."""
        if not self.allows(problem, method):
            return []
        key = (problem.name, problem.n, k, method)
        if key not in self.runs:
            self.runs[key] = repeat(problem, method, k, self.n_runs)
            took = self.runs[key][0].seconds
            text = f"{problem.name} n={problem.n} k={k} {method}: {took:.2f} s"
            print(text, file=sys.stderr, flush=True)
        return self.runs[key]

    def real(self, table: Table) -> list[Problem]:
        """Load the four data sets of tables 2, 3, 4 and 8, as far as they are there."""
        rows = 400 if self.quick else None if self.large else 10_000
        small = 400 if self.quick else None
        makers: list[tuple[str, Callable[[], Problem]]] = [
            ("LastFM", lastfm),
            ("Thyroid", partial(thyroid, small)),
            ("Census", partial(census, rows)),
            ("4area", partial(four_area, rows)),
        ]
        found = []
        for name, make in makers:
            try:
                if name not in self.problems:
                    self.problems[name] = make()
            except MissingDataError as error:
                table.notes.append(f"Skipped: {error}")
            else:
                found.append(self.problems[name])
        sampled = [p.name for p in found if p.name in ("Census", "4area") and rows]
        if sampled:
            table.notes.append(
                f"{' and '.join(sampled)}: {rows} random rows instead of 32561 and "
                "35385 (`--large` takes all); printed times are for all rows."
            )
        return found

    @property
    def k_real(self) -> int:
        """Clusters of tables 2, 3, 4 and 8."""
        return 5 if self.quick else 25
