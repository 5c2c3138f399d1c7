"""What fair components are like, group by group."""

from __future__ import annotations

from typing import Any

import numpy as np

from scalefair.cli._passes import describe_passes

__all__ = ["describe_components", "describe_groups", "describe_rows"]


def describe_rows(rows: Any) -> dict[str, Any]:
    """Size of the table, and of its groups; the passes over its blocks so far."""
    return {
        "rows": str(rows.path),
        **describe_passes(rows.matrix),
        "n_rows": rows.n_nodes,
        "n_features": rows.n_features,
        "groups": {str(name): count for name, count in rows.group_counts.items()},
    }


def describe_components(model: Any, plain: Any, counts: np.ndarray) -> dict[str, Any]:
    """How the solver fared, and what the components cost all rows."""
    error = _mean_error(model.group_reconstruction_errors_, counts)
    found = {
        "solver": model.solver_,
        "converged": model.converged_,
        "n_iter": model.n_iter_,
        "n_products": model.n_products_,
        "duality_gap": model.duality_gap_,
        "fairness_ratio_gap": model.fairness_ratio_gap_,
        "explained_variance": model.explained_variance_,
        "reconstruction_error": error,
    }
    if plain is not None:
        least = _mean_error(plain.group_reconstruction_errors_, counts)
        found["pca_reconstruction_error"] = least
        if least > 0:
            found["error_increase"] = max(error / least - 1, 0.0)
    return found


def describe_groups(model: Any, plain: Any, counts: np.ndarray) -> list[dict[str, Any]]:
    """Loss, error and weight of each group, also under plain PCA if it is known."""
    described = []
    for i, name in enumerate(model.groups_.tolist()):
        entry = {
            "group": str(name),
            "n_rows": counts[i],
            "loss": model.group_losses_[i],
            "reconstruction_error": model.group_reconstruction_errors_[i],
            "dual_weight": model.dual_weights_[i],
        }
        if plain is not None:
            entry["pca_loss"] = plain.group_losses_[i]
            entry["pca_reconstruction_error"] = plain.group_reconstruction_errors_[i]
        described.append(entry)
    return described


def _mean_error(errors: np.ndarray, counts: np.ndarray) -> float:
    return float(errors @ counts / counts.sum())
