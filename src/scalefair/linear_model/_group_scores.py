"""Scores of rows by the weights of their groups, and what is made of scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from scalefair._checks import check_array
from scalefair._entries import all_finite, judged_later
from scalefair.streaming import PartitionedRows

__all__ = [
    "Output",
    "decide",
    "group_scores",
    "output_of_part",
    "probabilities",
    "real_type",
]

# Takes scores, returns an entry or a row of entries for each.
Output = Callable[[NDArray[Any]], NDArray[Any]]


def group_scores(
    X: Any,
    codes: NDArray[np.int64] | None,
    coef: NDArray[np.float64],
    intercept: NDArray[np.float64],
) -> NDArray[Any]:
    """Return ``X @ coef + intercept`` with the weights of each row's group.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (m, d)
        Rows of features. Products are taken in their type.
    codes : ndarray of shape (m,), int64, or None
        Group of each row; only read if there are several rows of weights.
    coef : ndarray of shape (n_rows, d)
        Coefficients: the first row shared, the others added to it.
    intercept : ndarray of shape (n_rows,)
        Intercepts, likewise.

    Returns
    -------
    ndarray of shape (m,)
        Scores, of the type of `X`.

    Raises
    ------
    ValueError
        If a score is too large for the type of `X`.
    """
    with judged_later():
        scores = _products(X, codes, coef, intercept)
    if not all_finite(scores):
        bad = np.flatnonzero(~np.isfinite(scores))
        raise ValueError(
            f"The scores of {bad.size} row(s) are too large for {X.dtype}, the first "
            f"at position {bad[0]}: the features of these rows are too large."
        )
    return scores


def _products(
    X: Any,
    codes: NDArray[np.int64] | None,
    coef: NDArray[np.float64],
    intercept: NDArray[np.float64],
) -> NDArray[Any]:
    if len(coef) == 1:
        return np.asarray(X @ coef[0].astype(X.dtype) + intercept.astype(X.dtype)[0])
    scores = np.empty(X.shape[0], X.dtype)
    for code in range(len(coef)):
        rows = np.flatnonzero(codes == code)
        added = coef[0] + coef[code] if code else coef[0]
        shift = intercept[0] + intercept[code] if code else intercept[0]
        scores[rows] = X[rows] @ added.astype(X.dtype) + shift.astype(X.dtype)
    return scores


def real_type(rows: PartitionedRows) -> np.dtype:
    """Return the type in which rows are multiplied: float32 if they are that."""
    return np.dtype(np.float32 if rows.dtype == np.float32 else np.float64)


def output_of_part(
    X: Any,
    output: Output,
    dtype: np.dtype,
    known: NDArray[np.int64] | None,
    coef: NDArray[np.float64],
    intercept: NDArray[np.float64],
    codes: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Return what `output` makes of the scores of one part.

    Of its groups, given by codes, `known` are the indices among those trained on.
    """
    X = check_array(X, accept_sparse="csr", dtype=dtype, input_name="X")
    if known is not None:
        codes = known[codes]
    return output(group_scores(X, codes, coef, intercept))


def decide(scores: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """Class of each score; zero is the first."""
    return classes[(scores > 0).astype(np.intp)]


def probabilities(scores: NDArray[Any]) -> NDArray[Any]:
    """Probabilities of both classes."""
    return np.column_stack([expit(-scores), expit(scores)])
