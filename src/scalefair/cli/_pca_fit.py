"""Fit fair components to the rows that a command has read."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair.cli._block_files import is_reader, refuse_not_finite
from scalefair.cli._errors import Failure
from scalefair.cli._estimator import fit_model
from scalefair.cli._feature_reader import FeatureRows
from scalefair.cli._feature_scaling import (
    TooLargeError,
    standardize,
    standardize_blocks,
)
from scalefair.cli._pca_output import collect_arrays

__all__ = ["Fitted", "fit_components"]


@dataclass(frozen=True)
class Fitted:
    """Components, and what they were fitted to.

    Attributes
    ----------
    model : FairPCA
        The fitted estimator.
    matrix : {ndarray, csr_array, RowReader} of shape (m, n)
        The rows, standardized if they were to be.
    counts : ndarray of shape (n_groups,)
        Rows of each group, in the order of ``model.groups_``.
    plain : GroupPCA or None
        Plain PCA of the same rows; None if the solver kept no moments of them.
    arrays : dict of str to ndarray
        Content of the output file.
    seconds : float
        Wall time of scaling and fitting.
    """

    model: Any
    matrix: Any
    counts: NDArray[np.int64]
    plain: Any
    arrays: dict[str, Any]
    seconds: float


def fit_components(
    rows: FeatureRows,
    parameters: dict[str, Any],
    *,
    standardized: bool,
    folder: Path,
    limit: int | None = None,
    progress: bool = False,
) -> Fitted:
    """Fit ``FairPCA(**parameters)``.

    Parameters
    ----------
    rows : FeatureRows
        Rows and groups.
    parameters : dict
        Of the estimator.
    standardized : bool
        Whether the features are divided by their standard deviations before.
    folder : Path
        Where a temporary file is made, if one is needed.
    limit : int or None, default=None
        Bytes above which one is; None for 256 MiB.
    progress : bool, default=False
        Show a progress bar on stdout.

    Raises
    ------
    Failure
        If a value is not finite, or the estimator refuses its input.
    """
    from scalefair.decomposition import FairPCA, GroupPCA

    model = FairPCA(**parameters)
    matrix = rows.matrix
    n = rows.n_features
    shift, scale, spent = np.zeros(n), np.ones(n), 0.0
    try:
        if standardized:
            matrix, shift, scale, spent = _scale(rows, folder, limit)
        spent += fit_model(
            model, matrix, rows.groups, path=rows.path, progress=progress
        )
    except Failure:
        refuse_not_finite(rows.path, rows.matrix)  # the place of a bad value, if any
        raise
    counts = np.array([rows.group_counts[name] for name in model.groups_.tolist()])
    plain = None
    if hasattr(model, "moments_"):
        plain = GroupPCA.from_moments(
            model.moments_,
            n_components=model.n_components,
            centering=model.centering,
        )
    arrays = collect_arrays(
        model,
        plain,
        feature_names=rows.feature_names,
        counts=counts,
        shift=shift,
        scale=scale,
    )
    return Fitted(model, matrix, counts, plain, arrays, spent)


def _scale(
    rows: FeatureRows, folder: Path, limit: int | None
) -> tuple[Any, NDArray[np.float64], NDArray[np.float64], float]:
    start = time.perf_counter()
    try:
        if is_reader(rows.matrix):
            scaled = standardize_blocks(rows.path, rows.matrix)
        else:
            scaled = standardize(rows.matrix, folder, limit)
    except TooLargeError as error:
        raise Failure(
            f"{rows.path}: cannot be standardized: the numbers of column "
            f"{rows.feature_names[error.column]} are too large. Divide them by a "
            "constant, or leave the column out."
        ) from error
    except ValueError as error:
        raise Failure(f"{rows.path}: cannot be standardized: {error}") from error
    return scaled.matrix, scaled.shift, scaled.scale, time.perf_counter() - start
