"""The files that ``scalefair pca`` writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from scalefair.cli._block_files import finite_blocks, is_reader

__all__ = ["as_strings", "collect_arrays", "write_arrays", "write_scores"]


def collect_arrays(
    model: Any,
    plain: Any,
    *,
    feature_names: list[str],
    counts: NDArray[np.int64],
    shift: NDArray[np.float64],
    scale: NDArray[np.float64],
) -> dict[str, Any]:
    """Arrays of the output file; none needs pickle.

    Parameters
    ----------
    model : estimator
        Fitted to ``(X - shift) / scale``.
    plain : estimator or None
        Plain PCA of the same rows, if it is known.
    feature_names : list of str
        Names of the features.
    counts : ndarray of shape (n_groups,)
        Rows of each group, in the order of ``model.groups_``.
    shift, scale : ndarray of shape (n_features,)
        What was done to the rows before.
    """
    arrays = {
        "components": model.components_,
        # The model's mean in the units of the features.
        "mean": shift + scale * model.mean_,
        "scale": scale,
        "explained_variance": model.explained_variance_,
        "feature_names": np.array(feature_names, dtype=np.str_),
        "groups": as_strings(model.groups_),
        "group_counts": counts,
        "group_losses": model.group_losses_,
        "group_reconstruction_errors": model.group_reconstruction_errors_,
        "dual_weights": model.dual_weights_,
        "duality_gap": np.float64(model.duality_gap_),
    }
    if plain is not None:
        arrays["pca_group_losses"] = plain.group_losses_
    return arrays


def write_arrays(file: BinaryIO, arrays: dict[str, Any]) -> None:
    """Write a ``.npz`` file."""
    np.savez(file, **arrays)


def write_scores(file: BinaryIO, model: Any, X: Any, path: Path) -> None:
    """Write the transformed rows as a ``.npy`` file, one block after another.

    Parameters
    ----------
    file : binary file
        Where they are written.
    model : estimator
        The fitted estimator.
    X : {ndarray, csr_array, RowReader} of shape (m, n)
        Rows it was fitted to.
    path : Path
        Where they are from, for messages.
    """
    dtype: type = np.float32 if X.dtype == np.float32 else np.float64
    header = {
        "descr": np.lib.format.dtype_to_descr(np.dtype(dtype)),
        "fortran_order": False,
        "shape": (X.shape[0], model.components_.shape[0]),
    }
    np.lib.format.write_array_header_1_0(file, header)
    for block in _blocks(X, path):
        scores = model.transform(block)
        file.write(np.ascontiguousarray(scores, dtype=dtype).data)


def _blocks(X: Any, path: Path) -> Iterator[Any]:
    if is_reader(X):
        return finite_blocks(path, X)
    from scalefair.streaming import row_blocks

    return (block for _, block in row_blocks(X))


def as_strings(values: NDArray[Any]) -> NDArray[Any]:
    """Strings in place of objects; numbers as they are."""
    return values.astype(np.str_) if values.dtype.kind == "O" else values
