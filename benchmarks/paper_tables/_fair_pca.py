"""Rows of the fair PCA tables, preprocessed as their authors do, and the methods."""

from __future__ import annotations

import bz2
import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from _command import data_file
from sklearn.decomposition import PCA

from scalefair.decomposition import (
    ErrorWeightedFairPCA,
    FairPCA,
    SemidefiniteFairPCA,
)

_GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class Data:
    """Rows centred within their groups; group 0 is A, group 1 is B."""

    name: str
    X: np.ndarray
    groups: np.ndarray

    @cached_property
    def covariances(self) -> np.ndarray:
        """Dense covariances of A and B, by NumPy."""
        blocks = (self.X[self.groups == g] for g in (0, 1))
        return np.array([block.T @ block / len(block) for block in blocks])

    @cached_property
    def spectra(self) -> np.ndarray:
        """Their eigenvalues, largest first."""
        return np.array([np.linalg.eigvalsh(C)[::-1] for C in self.covariances])

    @cached_property
    def shares(self) -> np.ndarray:
        """Shares of A and B among the rows."""
        return np.bincount(self.groups) / len(self.groups)

    def errors(self, components: np.ndarray) -> np.ndarray:
        """Mean squared errors of x -> W^T W x, W the components (any rows)."""
        small = components @ self.covariances @ components.T
        kept = 2 * np.trace(small, axis1=1, axis2=2)
        kept -= np.einsum("gij,ji->g", small, components @ components.T)
        return np.asarray(np.trace(self.covariances, axis1=1, axis2=2) - kept)

    def losses(self, components: np.ndarray, r: int) -> np.ndarray:
        """Errors less those of each group's best r-dimensional basis."""
        return self.errors(components) - self.spectra[:, r:].sum(axis=1)

    def dual(self, t: float, r: int) -> float:
        """phi(t), which no basis has a smaller largest loss than."""
        mixed = np.linalg.eigvalsh(np.tensordot([t, 1 - t], self.covariances, axes=1))
        best = self.spectra[:, :r].sum(axis=1)
        return float(t * best[0] + (1 - t) * best[1] - mixed[-r:].sum())


def load(name: str, quick: bool) -> Data:
    """Rows of a data set, preprocessed as the authors do."""
    if quick or name == "crop":
        sizes = (40, 260, 12) if quick else (39162, 286672, 173)
        X, groups = crop_stand_in(*sizes)
    else:
        X, groups = {"bank": _bank, "credit": _credit, "lfw": _lfw}[name]()
    for g in (0, 1):
        X[groups == g] -= X[groups == g].mean(axis=0)
    return Data(name, X, groups)


def crop_stand_in(
    n_first: int, n_second: int, n_features: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian rows of two mixed groups with decaying spectra, A near B.

    B has the standard deviations exp(-j / 25); A's differ by factors of about 1.3,
    along axes turned by a random matrix of norm 0.3.
    """
    rng = np.random.default_rng(seed)
    n = n_features
    deviations = np.exp(-np.arange(n) / 25.0)
    axes = np.linalg.qr(rng.standard_normal((n, n)))[0]
    turned = axes + 0.3 * rng.standard_normal((n, n)) / np.sqrt(n)
    turned = np.linalg.qr(turned)[0]
    roots = (
        (deviations * np.exp(0.3 * rng.standard_normal(n)))[:, None] * turned.T,
        deviations[:, None] * axes.T,
    )
    groups = rng.permutation(np.repeat([0, 1], [n_first, n_second]))
    X = rng.standard_normal((groups.size, n))
    for g in (0, 1):
        X[groups == g] = X[groups == g] @ roots[g]
    return X, groups


def _bank() -> tuple[np.ndarray, np.ndarray]:
    table = np.loadtxt(data_file("bank_marketing", "bank.csv"), delimiter=",")
    return _standardized(table[:, 1:]), (table[:, 0] < 65).astype(int)


def _credit() -> tuple[np.ndarray, np.ndarray]:
    path = data_file("credit_default", "default_degree.csv")
    with path.open(encoding="utf-8") as file:
        names = file.read().splitlines()[1].split(",")
    table = np.loadtxt(path, delimiter=",", skiprows=2)
    education = names.index("EDUCATION")
    features = np.delete(table, [0, education], axis=1)
    return _standardized(features), (table[:, education] > 1).astype(int)


def _lfw() -> tuple[np.ndarray, np.ndarray]:
    packed = bz2.decompress(data_file("lfw42", "pixels_x3_uint16.npy.bz2").read_bytes())
    with np.load(data_file("lfw42", "labels.npz")) as labels:
        groups = labels["sex"].astype(int)
    return np.load(io.BytesIO(packed)) / (3 * 255.0), groups


def _standardized(X: np.ndarray) -> np.ndarray:
    return (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)


# -- Methods ------------------------------------------------------------------------


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
        for name, is_used in solvers.items()
        if is_used
    }


def _pca(data: Data, r: int, svd_solver: str) -> Outcome:
    model = PCA(r, svd_solver=svd_solver, random_state=0).fit(data.X)
    return Outcome(model.components_, model._fit_svd_solver)


def fair_pca(data: Data, r: int, kind: Any = FairPCA, **parameters: Any) -> Any:
    """Fit FairPCA, or another estimator with its interface, to the rows."""
    model = kind(r, centering="group", **parameters)
    return model.fit(data.X, sensitive_features=data.groups)


def _fitted(kind: Any, remark: str, **parameters: Any) -> Method:
    """Fit an estimator; the remark names an attribute of it."""

    def run(data: Data, r: int) -> Outcome:
        model = fair_pca(data, r, kind, **parameters)
        return Outcome(model.components_, remark.format(model))

    return run


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
        gaps = [((block - block @ P) ** 2).sum() / len(block) for block in blocks]
        return np.array(gaps), U.T

    plain, U = errors(total)
    worse = int(plain.argmax())
    low, high = 0.0, 1.0
    while high - low > tol:  # both points anew, as there
        lower, upper = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        gaps = []
        for alpha in (lower, upper):
            e, U = errors(alpha * total + (1 - alpha) * (C[worse] - C[1 - worse]))
            gaps.append(abs(e[0] - e[1]))
        low, high = (low, upper) if gaps[0] < gaps[1] else (lower, high)
    return Outcome(U, f"alpha {(low + high) / 2:.6f}")


def methods(data: Data, r: int, published: bool, quick: bool) -> dict[str, Method]:
    """All methods of a row, by the names in the tables."""
    many, alpha = 20 if quick else 100, "alpha {.alpha_:.6f}"
    chosen: dict[str, Method] = {
        **peers(data, r),
        "FairPCA": _fitted(FairPCA, "{.n_iter_} evaluations", random_state=0),
        "SDR, T = 10": _fitted(SemidefiniteFairPCA, "rank {.rank_}", max_iter=10),
        f"SDR, T = {many}": _fitted(
            SemidefiniteFairPCA, "rank {.rank_}", max_iter=many
        ),
        "u-FPCA": _fitted(ErrorWeightedFairPCA, alpha, constraint="none"),
        "c-FPCA": _fitted(ErrorWeightedFairPCA, alpha, constraint="error"),
    }
    if published:
        chosen["SDR from rows, T = 10"] = published_sdr
        chosen["u-FPCA from rows"] = published_error_weighted
    return chosen
