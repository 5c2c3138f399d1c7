"""Data of the partially fair classifiers' figure, split as in the paper."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from scalefair.datasets import (
    fetch_a9a,
    fetch_bank_additional,
    fetch_law_school,
    make_biased_rows,
)
from scalefair.metrics import (
    partial_demographic_parity_gap,
    weak_partial_demographic_parity_gap,
)

NAMES = {"a9a": "a9a", "bank": "bank-additional", "law": "law school"}
INTERVALS = {"a9a": (0.05, 0.30), "bank": (0.0, 0.25), "law": (0.70, 1.0)}
CRITERIA = ("strong", "weak")
# Shares of training and validation; a9a has a test part of its own.
_SHARES = {"a9a": (0.9, 0.1), "bank": (0.6, 0.2), "law": (0.5625, 0.1875)}
_QUICK_ROWS = 1200


@dataclass(frozen=True)
class Part:
    """Rows, their labels (0 or 1) and their groups."""

    X: Any
    y: np.ndarray
    groups: np.ndarray

    def take(self, rows: np.ndarray) -> Part:
        """Take some of the rows."""
        return Part(self.X[rows], self.y[rows], self.groups[rows])


@dataclass(frozen=True)
class Split:
    """One random split of a data set."""

    name: str
    train: Part
    validation: Part
    test: Part

    @property
    def interval(self) -> tuple[float, float]:
        """Ranks within which the groups are to be treated alike."""
        return INTERVALS[self.name]

    def measure(
        self, scores: np.ndarray, part: Part, criterion: str
    ) -> tuple[float, float]:
        """Accuracy and fairness, one less the gap, of scores of a part."""
        accuracy = float(np.mean((scores > 0) == (part.y == 1)))
        gap = {
            "strong": partial_demographic_parity_gap,
            "weak": weak_partial_demographic_parity_gap,
        }[criterion](scores, sensitive_features=part.groups, interval=self.interval)
        return accuracy, 1.0 - gap


def load(name: str, seed: int, quick: bool) -> Split:
    """Split a data set at random; numbers are scaled by the training rows."""
    rows, test, numeric = _synthetic(name) if quick else _read(name)
    n = rows.y.size
    order = np.random.default_rng(seed).permutation(n)
    shares = _SHARES[name]
    first = round(shares[0] * n)
    second = n if test is not None else round(sum(shares) * n)
    train, validation = rows.take(order[:first]), rows.take(order[first:second])
    held_out = rows.take(order[second:]) if test is None else test
    if numeric:
        X = train.X[:, :numeric]
        mean, scale = X.mean(axis=0), X.std(axis=0)
        scale[scale == 0] = 1.0
        for part in (train, validation, held_out):  # copies of the rows
            part.X[:, :numeric] = (part.X[:, :numeric] - mean) / scale
    return Split(name, train, validation, held_out)


@cache
def _read(name: str) -> tuple[Part, Part | None, int]:
    """Rows, test rows if they are given, and how many columns are numbers."""
    options = {"download_if_missing": False}
    if name == "a9a":
        data = fetch_a9a(**options)
        test = Part(data.data_test, data.target_test, data.sensitive_features_test)
        return Part(data.data, data.target, data.sensitive_features), test, 0
    fetch = {"bank": fetch_bank_additional, "law": fetch_law_school}[name]
    data = fetch(preprocess=False, **options)
    numeric = sum("=" not in feature for feature in data.feature_names)
    return Part(data.data, data.target, data.sensitive_features), None, numeric


@cache
def _synthetic(name: str) -> tuple[Part, Part | None, int]:
    """Rows of the same kind, few enough for seconds."""
    data = make_biased_rows(
        _QUICK_ROWS,
        6,
        density=0.5 if name == "a9a" else 1.0,
        random_state=list(NAMES).index(name),
    )
    rows = Part(data.data, data.target, data.sensitive_features)
    if name != "a9a":
        return rows, None, 6
    half = np.arange(_QUICK_ROWS) < _QUICK_ROWS // 2
    return rows.take(np.flatnonzero(half)), rows.take(np.flatnonzero(~half)), 0
