"""What a result is like, as strict JSON or as a page."""

from __future__ import annotations

import json
import math
import platform
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

import scalefair
from scalefair.cli._errors import messages
from scalefair.cli._graph import Graph
from scalefair.cli._nodes import Nodes
from scalefair.cli._rows import Rows

__all__ = [
    "count_values",
    "describe_fit",
    "describe_input",
    "describe_run",
    "measure",
    "write_json",
    "write_report",
]


def describe_run(command: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Say what ran: command, version, parameters; and what it said so far."""
    return {
        "command": command,
        "version": scalefair.__version__,
        "python": platform.python_version(),
        "parameters": parameters,
        "warnings": messages("warning"),
        "notes": messages("note"),
    }


def describe_input(
    nodes: Nodes, groups: NDArray[Any], labels: NDArray[np.integer]
) -> dict[str, Any]:
    """Size of the graph, or of the table of rows, and of its groups."""
    return {
        **_describe_size(nodes),
        f"n_{nodes.unit}s_left_out": int((labels < 0).sum()),
        "groups": count_values(groups),
    }


def count_values(values: NDArray[Any]) -> dict[str, int]:
    """How often each value occurs, in sorted order."""
    names, counts = np.unique(values, return_counts=True)
    return {str(n): int(c) for n, c in zip(names, counts, strict=True)}


def _describe_size(nodes: Nodes) -> dict[str, Any]:
    size: dict[str, Any] = {f"n_{nodes.unit}s": nodes.n_nodes}
    if isinstance(nodes, Graph):
        return {"graph": str(nodes.path), **size, "n_edges": nodes.n_edges}
    assert isinstance(nodes, Rows)
    return {"rows": str(nodes.path), **size, "n_features": nodes.n_features}


def describe_fit(model: Any) -> dict[str, Any]:
    """How affinity, solver and assignment fared; what there was none of is left out."""
    found = {
        "affinity": model.affinity,
        "affinity_error": model.affinity_error_,
        "solver": model.solver_,
        "converged": model.converged_,
        "n_iter": model.n_iter_,
        "n_products": model.n_products_,
        "residual_max": np.max(model.residuals_),
        "fairness_violation": model.fairness_violation_,
        "eigenvalues": model.eigenvalues_,
        "history": model.history_,
        "assignment": _describe_assignment(model.assignment_),
    }
    return {name: value for name, value in found.items() if value is not None}


def _describe_assignment(found: Any) -> dict[str, Any] | None:
    if found is None:
        return None
    names = (
        "cost",
        "nearest_cost",
        "lower_bound",
        "gap",
        "max_violation",
        "n_moved",
        "message",
    )
    return {name: getattr(found, name) for name in names}


def measure(
    matrix: Any, labels: NDArray[np.integer], groups: NDArray[Any]
) -> dict[str, Any]:
    """Balance and cut of a clustering, and the composition of each cluster."""
    from scalefair.metrics import balance_score, normalized_cut_score

    kept = labels >= 0
    names, group_codes = np.unique(groups[kept], return_inverse=True)
    clusters, cluster_codes = np.unique(labels[kept], return_inverse=True)
    counts = np.zeros((clusters.size, names.size), dtype=np.int64)
    np.add.at(counts, (cluster_codes, group_codes), 1)
    balance = balance_score(labels, sensitive_features=groups, average=None)
    return {
        "balance_mean": balance.mean(),
        "balance_min": balance.min(),
        "normalized_cut": normalized_cut_score(matrix, labels),
        "clusters": [
            {
                "label": clusters[i],
                "size": counts[i].sum(),
                "balance": balance[i],
                "groups": {
                    str(name): count
                    for name, count in zip(names, counts[i], strict=True)
                },
            }
            for i in range(clusters.size)
        ],
    }


def write_report(
    file: BinaryIO, path: Path, report: dict[str, Any], evidence: Any = None
) -> None:
    """Write a report: a page of HTML if the name ends in .html, else JSON.

    Parameters
    ----------
    file : binary file
        Where it is written.
    path : Path
        The name asked for.
    report : dict
        The report.
    evidence : object, default=None
        What the figures of the command are drawn from, beside the report.
    """
    if path.suffix.lower() == ".html":
        from scalefair.cli._html_report import write_html

        write_html(file, _as_python(report), evidence)
    else:
        write_json(file, report)


def write_json(file: BinaryIO, content: dict[str, Any]) -> None:
    """Write strict JSON: UTF-8, no NaN, no NumPy types."""
    plain = _without_nan(_as_python(content))
    text = json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False)
    # Bytes of a file name that are no text are escaped as JSON does it.
    file.write(f"{text}\n".encode(errors="backslashreplace"))


def _as_python(value: Any) -> Any:
    """Return dicts, lists, numbers and strings."""
    if isinstance(value, dict):
        return {str(key): _as_python(item) for key, item in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_as_python(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
