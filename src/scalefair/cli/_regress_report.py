"""How accurate and how fair a model is before and after it is changed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair.cli._regress_reader import RegressionRows
from scalefair.cli._report import count_values

__all__ = ["describe_fit", "describe_rows", "measure"]

_WHEN = ("before", "after")


def describe_rows(rows: RegressionRows) -> dict[str, Any]:
    """Where rows are from, and how many there are of each group."""
    return {
        "rows": str(rows.read.path),
        "target_from": rows.read.labels_from,
        "groups_from": rows.read.groups_from,
        "n_rows": len(rows.y),
        "groups": count_values(rows.read.groups),
    }


def describe_fit(model: Any) -> dict[str, Any]:
    """Say what was changed, and the gaps before and after."""
    layers = model.unfairness_by_layer_
    return {
        "layer": model.layer_,
        "layer_name": layers[model.layer_].name,
        "layer_shape": model.weight_.shape,
        "groups": model.groups_,
        **{
            f"{gap}_{when}": getattr(model, f"{gap}_{when}_")
            for gap in ("mean_gap", "covariance_gap")
            for when in _WHEN
        },
        "output_change": model.output_change_,
        "output_change_bound": model.output_change_bound_,
        "last_layer": _describe_refit(model),
        "unfairness_by_layer": [
            None if layer is None else {**asdict(layer), "score": layer.score}
            for layer in layers
        ],
    }


def _describe_refit(model: Any) -> dict[str, float] | None:
    """Gaps of the last layer's outputs before and after it was fitted again."""
    if model.refit_last is None:
        return None
    found = {}
    for when in _WHEN:
        gaps = getattr(model, f"refit_gaps_{when}_")
        found[f"mean_gap_{when}"], found[f"covariance_gap_{when}"] = gaps
    return found


def measure(
    rows: RegressionRows, before: NDArray[np.float64], after: NDArray[np.float64]
) -> dict[str, Any]:
    """Errors and distances of the groups' predictions of two models.

    Parameters
    ----------
    rows : RegressionRows
        The rows, with at least two groups.
    before, after : ndarray of shape (m,)
        Predictions of the saved model and of the changed one.
    """
    from scalefair.metrics import statistical_parity_ks

    groups = rows.read.groups
    errors = {"before": (before - rows.y) ** 2, "after": (after - rows.y) ** 2}
    described = []
    for group in np.unique(groups):
        of_group = groups == group
        described.append(
            {
                "group": str(group),
                "n_rows": int(of_group.sum()),
                "mean_target": rows.y[of_group].mean(),
                "mean_before": before[of_group].mean(),
                "mean_after": after[of_group].mean(),
                "mse_before": errors["before"][of_group].mean(),
                "mse_after": errors["after"][of_group].mean(),
            }
        )
    return {
        "mse_before": errors["before"].mean(),
        "mse_after": errors["after"].mean(),
        "ks_before": statistical_parity_ks(before, sensitive_features=groups),
        "ks_after": statistical_parity_ks(after, sensitive_features=groups),
        "groups": described,
    }
