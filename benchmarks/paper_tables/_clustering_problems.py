"""The data sets of the tables: affinity, groups, and how accurately to solve."""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from _command import data_file
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from sklearn.metrics.pairwise import rbf_kernel

from scalefair.datasets import (
    fetch_facebooknet,
    fetch_lastfm_asia,
    make_random_affinity,
)
from scalefair.operators import RBFKernel

# A stored kernel of this many rows takes 10 GiB.
_STORED_ROWS = 36_000


@dataclass(frozen=True)
class Problem:
    """One data set: a stored affinity, or points and the factor of their kernel."""

    name: str
    groups: np.ndarray
    affinity: Any = None
    points: np.ndarray | None = None
    gamma: float | None = None
    tol: float = 1e-4
    target: np.ndarray | None = None

    @property
    def n(self) -> int:
        """Number of nodes or rows."""
        return len(self.groups)

    @property
    def is_kernel(self) -> bool:
        """Whether the affinity is the Gaussian kernel of points."""
        return self.points is not None

    @cached_property
    def operator(self) -> LinearOperator:
        """The affinity, to multiply by; kernels are not stored."""
        if self.is_kernel:
            return RBFKernel(self.points, gamma=self.gamma)
        return aslinearoperator(self.affinity)

    def fit_input(self) -> tuple[Any, dict[str, Any]]:
        """Give what the estimators' `fit` takes, and parameters to go with it.

        Dense matrices go in as operators: their products are those of the BLAS.
        """
        if self.is_kernel:
            return self.points, {"affinity": "rbf", "gamma": self.gamma}
        if isinstance(self.affinity, np.ndarray):
            return self.operator, {}
        return self.affinity, {}

    def stored(self) -> Any:
        """Return the affinity as a matrix, computed anew for kernels."""
        if not self.is_kernel:
            return self.affinity
        if self.n > _STORED_ROWS:
            raise ValueError(f"a kernel of {self.n} rows is too large to store")
        return rbf_kernel(self.points, gamma=self.gamma)


def lastfm() -> Problem:
    """Largest component of the LastFM Asia graph, six countries."""
    return _graph("LastFM", fetch_lastfm_asia)


def facebooknet() -> Problem:
    """Largest component of the pupils' Facebook friendships, two genders."""
    return _graph("FacebookNet", fetch_facebooknet)


def thyroid(n_rows: int | None) -> Problem:
    """Patients, three classes as groups; kernel with gamma = 0.01 / d.

    All entries of this kernel are close to 1: the eigenvalues of M after the first
    are below 3e-4 and the 25th is about 1e-8, hence the tolerance.
    """
    paths = [data_file("thyroid", f"ann-{part}.data") for part in ("train", "test")]
    lines = [line for path in paths for line in path.read_text().splitlines()]
    table = np.loadtxt([line.strip().rstrip(",") for line in lines], delimiter=",")
    points, groups = _sample(table[:, :-1], table[:, -1], n_rows)
    return _kernel("Thyroid", points, groups, 0.01 / points.shape[1], tol=1e-7)


def census(n_rows: int | None) -> Problem:
    """Adult census data, seven marital states as groups; gamma = 1 / d.

    Twelve attributes are left without the sampling weight, the income and the
    groups: numbers as they are, categories numbered in alphabetical order, all
    standardised.
    """
    rows = _read_csv(data_file("census-adult", "adult.csv.gz"))
    header, body = rows[0], np.array(rows[1:])
    column = dict(zip(header, body.T, strict=True))
    groups = column.pop("marital-status")
    del column["final-weight"], column["income"]
    points = np.column_stack([_numbers(values) for values in column.values()])
    spread = points.std(axis=0)
    points = (points - points.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    points, groups = _sample(points, groups, n_rows)
    return _kernel("Census", points, groups, 1 / points.shape[1])


def four_area_rows(n_rows: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Researchers in eight dimensions, and their fields as groups."""
    rows = _read_csv(data_file("4area", "4area.csv.gz"))
    table = np.array(rows[1:], dtype=np.float64)
    return _sample(table[:, 1:], table[:, 0], n_rows)


def four_area(n_rows: int | None) -> Problem:
    """Kernel of researchers, four fields as groups; gamma = 1 / d."""
    points, groups = four_area_rows(n_rows)
    return _kernel("4area", points, groups, 1 / points.shape[1])


def block_model(n: int, k: int, h: int, ratios: tuple[float, ...]) -> Problem:
    """Dense m-SBM with probabilities `ratios` times (log n / n)^0.1, cut at 1.

    The ratios are for pairs in the same cluster and group, another cluster and the
    same group, the same cluster and another group, and neither.
    """
    rng = np.random.default_rng(0)
    cluster, group = np.divmod(rng.permutation(np.arange(n) % (k * h)), h)
    a, b, c, d = np.minimum(1.0, np.array(ratios) * (np.log(n) / n) ** 0.1)
    W = np.zeros((n, n))
    for start in range(0, n, 1000):
        rows = slice(start, start + 1000)
        same_group = group[rows, None] == group
        same_cluster = cluster[rows, None] == cluster
        p = np.where(same_cluster, np.where(same_group, a, c), 0.0)
        p += np.where(same_cluster, 0.0, np.where(same_group, b, d))
        W[rows] = rng.random(p.shape, dtype=np.float32) < p
    return Problem("m-SBM", group, _symmetric(W), target=cluster)


def random_affinity(n: int, h: int, seed: int = 0) -> Problem:
    """RandLaplace: uniform random weights, random groups."""
    data = make_random_affinity(n, n_groups=h, random_state=seed)
    return Problem("RandLaplace", data.sensitive_features, data.affinity)


def _graph(name: str, fetch: Any) -> Problem:
    data = fetch(download_if_missing=False)
    W = sparse.csr_array(data.graph)
    component = connected_components(W, directed=False)[1]
    kept = component == np.bincount(component).argmax()
    groups = np.unique(data.sensitive_features[kept], return_inverse=True)[1]
    return Problem(name, groups, sparse.csr_array(W[kept][:, kept]))


def _kernel(
    name: str, points: np.ndarray, groups: np.ndarray, gamma: float, tol: float = 1e-4
) -> Problem:
    codes = np.unique(groups, return_inverse=True)[1]
    return Problem(name, codes, points=points, gamma=gamma, tol=tol)


def _read_csv(path: Path) -> list[list[str]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [row for row in csv.reader(lines, skipinitialspace=True) if row]


def _numbers(values: np.ndarray) -> np.ndarray:
    try:
        return values.astype(np.float64)
    except ValueError:
        return np.unique(values, return_inverse=True)[1].astype(np.float64)


def _sample(
    points: np.ndarray, groups: np.ndarray, n_rows: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Random rows without replacement, or all of them."""
    if n_rows is None or n_rows >= len(points):
        return points, groups
    chosen = np.random.default_rng(0).choice(len(points), n_rows, replace=False)
    return points[chosen], groups[chosen]


def _symmetric(W: np.ndarray) -> np.ndarray:
    """Upper triangle of W and its transpose, in place."""
    for start in range(0, len(W), 1000):
        rows = slice(start, start + 1000)
        W[rows, start : start + 1000] = np.triu(W[rows, start : start + 1000], 1)
        W[rows, start : start + 1000] += W[rows, start : start + 1000].T
        W[start + 1000 :, rows] = W[rows, start + 1000 :].T
    return W
