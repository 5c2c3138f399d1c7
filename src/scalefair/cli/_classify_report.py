"""How accurate and how fair a classifier is, group by group."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair.cli._block_files import is_reader, refuse_not_finite
from scalefair.cli._classify_rows import LabelledRows
from scalefair.cli._errors import Failure
from scalefair.cli._passes import describe_passes
from scalefair.cli._report import count_values

__all__ = ["describe_fit", "describe_rows", "measure", "score"]


def describe_rows(rows: LabelledRows) -> dict[str, Any]:
    """Where rows are from, and how many there are of each label and group.

    Of rows that are read in blocks also the passes over them so far.
    """
    return {
        "rows": str(rows.path),
        **describe_passes(rows.numbers),
        "labels_from": rows.labels_from,
        "groups_from": rows.groups_from,
        "n_rows": rows.n_rows,
        "labels": count_values(rows.labels),
        "groups": count_values(rows.groups),
    }


def describe_fit(model: Any) -> dict[str, Any]:
    """How the solver fared."""
    return {
        "positive_label": str(model.classes_[1]),
        "converged": model.converged_,
        "n_iter": model.n_iter_,
        "n_oracle_calls": model.n_oracle_calls_,
        "kkt_residual": model.kkt_residual_,
        "objective": model.objective_,
        "infeasibility": model.infeasibility_,
        "history": model.history_,
    }


def score(model: Any, matrix: Any, rows: LabelledRows) -> NDArray[np.float64]:
    """Return the score that a classifier gives to each row.

    Parameters
    ----------
    model : PartiallyFairClassifier
        The trained classifier.
    matrix : {ndarray, csr_array, RowReader} of shape (m, n_features)
        Encoded rows.
    rows : LabelledRows
        Their groups.

    Raises
    ------
    Failure
        If rows that are read in blocks cannot be read, or are not finite.
    """
    scores: NDArray[np.float64]
    try:
        scores = model.decision_function(matrix, sensitive_features=rows.groups)
    except ValueError as error:
        if not is_reader(matrix):
            raise
        refuse_not_finite(rows.path, rows.numbers)  # says where, if that is it
        raise Failure(f"{rows.path}: {error}") from error
    return scores


def measure(
    model: Any, scores: NDArray[np.float64], rows: LabelledRows
) -> dict[str, Any]:
    """Accuracy, gaps and rates of a classifier on rows.

    Parameters
    ----------
    model : PartiallyFairClassifier
        The trained classifier.
    scores : ndarray of shape (m,)
        Its scores.
    rows : LabelledRows
        Labels and groups of the rows, at least two groups.
    """
    from scalefair.metrics import (
        partial_demographic_parity_gap,
        weak_partial_demographic_parity_gap,
    )

    selected = scores > 0
    positive = rows.labels == model.classes_[1]
    right = selected == positive
    groups = []
    for group in np.unique(rows.groups):
        of_group = rows.groups == group
        groups.append(
            {
                "group": str(group),
                "n_rows": int(of_group.sum()),
                "positive_rate": positive[of_group].mean(),
                "selection_rate": selected[of_group].mean(),
                "accuracy": right[of_group].mean(),
            }
        )
    common: dict[str, Any] = {
        "sensitive_features": rows.groups,
        "interval": tuple(model.interval),
    }
    return {
        "accuracy": right.mean(),
        "partial_parity_gap": partial_demographic_parity_gap(scores, **common),
        "weak_partial_parity_gap": weak_partial_demographic_parity_gap(
            scores, threshold=model.threshold, **common
        ),
        "groups": groups,
    }
