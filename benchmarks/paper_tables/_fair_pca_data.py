"""Rows of the fair PCA tables, preprocessed as their authors do."""

from __future__ import annotations

import bz2
import io
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np


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


def _path(folder: str, name: str) -> Path:
    root = os.environ.get("SCALEFAIR_DATA")
    path = Path(root or ".") / folder / name
    if not root or not path.is_file():
        raise FileNotFoundError(
            f"{folder}/{name} not found: name the folder that holds {folder} in the "
            "environment variable SCALEFAIR_DATA."
        )
    return path


def _bank() -> tuple[np.ndarray, np.ndarray]:
    table = np.loadtxt(_path("bank_marketing", "bank.csv"), delimiter=",")
    return _standardized(table[:, 1:]), (table[:, 0] < 65).astype(int)


def _credit() -> tuple[np.ndarray, np.ndarray]:
    path = _path("credit_default", "default_degree.csv")
    with path.open(encoding="utf-8") as file:
        names = file.read().splitlines()[1].split(",")
    table = np.loadtxt(path, delimiter=",", skiprows=2)
    education = names.index("EDUCATION")
    features = np.delete(table, [0, education], axis=1)
    return _standardized(features), (table[:, education] > 1).astype(int)


def _lfw() -> tuple[np.ndarray, np.ndarray]:
    packed = bz2.decompress(_path("lfw42", "pixels_x3_uint16.npy.bz2").read_bytes())
    with np.load(_path("lfw42", "labels.npz")) as labels:
        groups = labels["sex"].astype(int)
    return np.load(io.BytesIO(packed)) / (3 * 255.0), groups


def _standardized(X: np.ndarray) -> np.ndarray:
    return (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
