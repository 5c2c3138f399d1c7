"""The options of ``scalefair cluster``, in sections, and which go together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from scalefair.cli._options import (
    PATH,
    QUIET,
    REPORT,
    Count,
    Finite,
    add_options,
    option,
)

__all__ = ["CONDITIONS", "cluster_options"]

Command = TypeVar("Command", bound=Callable[..., Any])

# Pinned by a test to the estimator's, which takes a second to import.
_AFFINITIES = ("precomputed", "nearest_neighbors", "rbf", "rbf_nystroem")
_SOLVERS = (
    "auto",
    "nullspace",
    "lanczos",
    "chebyshev",
    "lobpcg",
    "dual",
    "admm",
)
_KERNELS = ("rbf", "rbf_nystroem")
_GRAPHS = ("precomputed", "nearest_neighbors")
_ROWS = ("nearest_neighbors", *_KERNELS)

# Options that mean something only with some values of another one.
CONDITIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "id_column": ("affinity", _ROWS),
    "n_neighbors": ("affinity", ("nearest_neighbors",)),
    "gamma": ("affinity", _KERNELS),
    "n_landmarks": ("affinity", ("rbf_nystroem",)),
    "connected_components": ("affinity", _GRAPHS),
    "balance_tolerance": ("assign_labels", ("fair",)),
}


def cluster_options(command: Command) -> Command:
    """Add all options, so that the help lists them in this order."""
    return add_options(command, _OPTIONS)


_OPTIONS = (
    option(
        "Required",
        "--groups",
        "groups_file",
        required=True,
        type=PATH,
        help="File with the group of each node.",
    ),
    option(
        "Required",
        "-k",
        "--n-clusters",
        required=True,
        type=Count(),
        help="Number of clusters.",
    ),
    option(
        "Required",
        "-o",
        "--output",
        required=True,
        type=PATH,
        help="File to write the labels to (csv).",
    ),
    option(
        "Affinity",
        "--affinity",
        type=click.Choice(_AFFINITIES),
        default="precomputed",
        show_default=True,
        help="What DATA holds and how it is compared, see below.",
    ),
    option(
        "Affinity",
        "--n-neighbors",
        type=Count(),
        default=10,
        show_default=True,
        help="Neighbours of a row (nearest_neighbors).",
    ),
    option(
        "Affinity",
        "--gamma",
        type=Finite(min=0, min_open=True),
        help="Factor of the squared distances (rbf, rbf_nystroem).  [default: 1 / "
        "number of features]",
    ),
    option(
        "Affinity",
        "--n-landmarks",
        type=Count(),
        default=500,
        show_default=True,
        help="Rank of the approximation (rbf_nystroem).",
    ),
    option(
        "Affinity",
        "--components",
        "connected_components",
        type=click.Choice(["raise", "largest", "all"]),
        default="raise",
        show_default=True,
        help="If the graph is not connected: stop with an error, cluster the largest "
        "component, or cluster all nodes that have an edge (precomputed, "
        "nearest_neighbors).",
    ),
    option(
        "Eigenvectors",
        "--solver",
        type=click.Choice(_SOLVERS),
        default="auto",
        show_default=True,
        help="How the eigenvectors are computed, see below.",
    ),
    option(
        "Eigenvectors",
        "--tol",
        type=Finite(min=0, min_open=True),
        default=1e-4,
        show_default=True,
        help="Residual at which an eigenvector is accepted.",
    ),
    option(
        "Eigenvectors",
        "--max-iter",
        type=Count(),
        help="Most iterations of the solver.  [default: the solver's]",
    ),
    option(
        "Eigenvectors",
        "--dtype",
        type=click.Choice(["float32", "float64"]),
        default="float64",
        show_default=True,
        help="Type the solver works in; float32 is faster and takes half the memory.",
    ),
    option(
        "Clusters",
        "--assign-labels",
        type=click.Choice(["kmeans", "fair"]),
        default="kmeans",
        show_default=True,
        help="k-means on the eigenvectors; or k-means, then moves of nodes at the "
        "least cost until every cluster is balanced.",
    ),
    option(
        "Clusters",
        "--balance-tolerance",
        type=Finite(min=0),
        default=0.1,
        show_default=True,
        help="Largest deviation of a group's share in a cluster, relative to its share "
        "in the population (--assign-labels fair).",
    ),
    option(
        "Clusters",
        "--n-init",
        type=Count(),
        default=10,
        show_default=True,
        help="Starts of k-means.",
    ),
    option(
        "Clusters",
        "--random-state",
        type=click.IntRange(min=0, max=2**32 - 1),
        default=0,
        show_default=True,
        help="Seed; the same seed gives the same labels.",
    ),
    REPORT,
    option(
        "Files",
        "--header/--no-header",
        default=None,
        help="Whether an edge list or table starts with a header.  [default: "
        "well-known headers of edge lists, and first lines without a number, are "
        "recognised]",
    ),
    option(
        "Files",
        "--id-column",
        metavar="NAME",
        help="Column of a table that holds the ids of the rows; without a header its "
        "number, from 1.  [default: a first column named id, node_id, user_id ...]",
    ),
    option(
        "Files",
        "--groups-header/--no-groups-header",
        default=None,
        help="Whether the groups file starts with a header.  [default: well-known "
        "headers are recognised]",
    ),
    QUIET,
)
