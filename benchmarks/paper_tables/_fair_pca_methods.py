"""The methods of the fair PCA tables, run in the same way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from _fair_pca_data import Data
from sklearn.decomposition import PCA

from scalefair.decomposition import (
    ErrorWeightedFairPCA,
    FairPCA,
    SemidefiniteFairPCA,
)

_GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class Outcome:
    """What a method gave: components and, for some, a remark."""

    components: np.ndarray
    remark: str = ""


Method = Callable[[Data, int], Outcome]


def peers(data: Data, r: int) -> dict[str, Method]:
    """scikit-learn's PCA with the solvers that are sensible for these rows."""
    m, n = data.X.shape
    solvers = {
        "auto": True,
        "covariance_eigh": True,
        "randomized": True,
        "arpack": r <= 60 and m <= 100_000 and r < n,
        "full": n < 30,
    }
    return {
        f"PCA {name}": partial(_pca, svd_solver=name)
        for name, wanted in solvers.items()
        if wanted
    }


def _pca(data: Data, r: int, svd_solver: str) -> Outcome:
    model = PCA(r, svd_solver=svd_solver, random_state=0).fit(data.X)
    return Outcome(model.components_, model._fit_svd_solver)


def fair_pca(data: Data, r: int) -> Any:
    """Fit FairPCA to the rows."""
    model = FairPCA(r, centering="group", random_state=0)
    return model.fit(data.X, sensitive_features=data.groups)


def _fair(data: Data, r: int) -> Outcome:
    model = fair_pca(data, r)
    return Outcome(model.components_, f"{model.n_iter_} evaluations")


def _semidefinite(data: Data, r: int, max_iter: int) -> Outcome:
    model = SemidefiniteFairPCA(r, centering="group", max_iter=max_iter)
    model.fit(data.X, sensitive_features=data.groups)
    return Outcome(model.components_, f"rank {model.rank_}")


def _error_weighted(data: Data, r: int, constraint: str) -> Outcome:
    model = ErrorWeightedFairPCA(r, centering="group", constraint=constraint)
    model.fit(data.X, sensitive_features=data.groups)
    return Outcome(model.components_, f"alpha {model.alpha_:.6f}")


def published_sdr(data: Data, r: int, max_iter: int = 10) -> Outcome:
    """Multiplicative weights with a PCA of the weighted rows in each iteration."""
    best = data.spectra[:, :r].sum(axis=1)
    weights = np.array([0.5, 0.5])
    for _ in range(max_iter):
        scale = np.sqrt(weights / np.bincount(data.groups))[data.groups]
        model = PCA(r, svd_solver="covariance_eigh").fit(data.X * scale[:, None])
        U = model.components_
        losses = best - np.trace(U @ data.covariances @ U.T, axis1=1, axis2=2)
        weights = weights * np.exp(losses - losses.max())
        weights /= weights.sum()
    return Outcome(model.components_, "the last projection")


def published_error_weighted(data: Data, r: int, tol: float = 1e-6) -> Outcome:
    """Golden section that computes the errors anew from the reconstructed rows."""
    blocks = [data.X[data.groups == g] for g in (0, 1)]
    C = [block.T @ block / len(block) for block in blocks]
    total = np.tensordot(data.shares, C, axes=1)

    def errors(S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        U = np.linalg.eigh(S)[1][:, -r:]
        P = U @ U.T
        found = [((block - block @ P) ** 2).sum() / len(block) for block in blocks]
        return np.array(found), U.T

    plain, U = errors(total)
    worse = int(plain.argmax())
    low, high = 0.0, 1.0
    while high - low > tol:  # both points anew, as there
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        found = []
        for alpha in (left, right):
            e, U = errors(alpha * total + (1 - alpha) * (C[worse] - C[1 - worse]))
            found.append(abs(e[0] - e[1]))
        low, high = (low, right) if found[0] < found[1] else (left, high)
    return Outcome(U, f"alpha {(low + high) / 2:.6f}")


def methods(data: Data, r: int, published: bool, quick: bool) -> dict[str, Method]:
    """All methods of a row, by the names in the tables."""
    many = 20 if quick else 100
    chosen: dict[str, Method] = {
        **peers(data, r),
        "FairPCA": _fair,
        "SDR, T = 10": partial(_semidefinite, max_iter=10),
        f"SDR, T = {many}": partial(_semidefinite, max_iter=many),
        "u-FPCA": partial(_error_weighted, constraint="none"),
        "c-FPCA": partial(_error_weighted, constraint="error"),
    }
    if published:
        chosen["SDR from rows, T = 10"] = published_sdr
        chosen["u-FPCA from rows"] = published_error_weighted
    return chosen
