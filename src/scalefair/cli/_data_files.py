"""Files of a data set, as the other commands read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse

from scalefair.cli._csv_file import write_table

__all__ = ["data_writers", "next_command", "summary"]

_ROWS_AT_ONCE = 4096


def data_writers(bunch: Any) -> dict[str, Callable[[BinaryIO], object]]:
    """Return for each file name the function that writes its content."""
    writers: dict[str, Callable[[BinaryIO], object]] = {
        "about.txt": lambda file: _write_about(file, bunch)
    }
    if "graph" in bunch:
        writers["graph.npz"] = lambda file: sparse.save_npz(
            file, bunch.graph, compressed=False
        )
        writers["groups.csv"] = lambda file: _write_groups(file, bunch)
        return writers
    writers["rows.csv"] = lambda file: _write_rows(file, bunch, "")
    if "data_test" in bunch:
        writers["test.csv"] = lambda file: _write_rows(file, bunch, "_test")
    return writers


def summary(bunch: Any) -> str:
    """Say in a line how much there is."""
    n_groups = np.unique(bunch.sensitive_features).size
    if "graph" in bunch:
        n, nnz = bunch.graph.shape[0], bunch.graph.nnz
        return f"{n:,} nodes, {nnz:,} stored entries, {n_groups} groups"
    m, n = bunch.data.shape
    return f"{m:,} rows, {n} features, {n_groups} groups"


def next_command(bunch: Any, folder: Path) -> str:
    """Return a command that these files can be given to."""
    if "graph" in bunch:
        return (
            f"scalefair cluster {folder / 'graph.npz'} "
            f"--groups {folder / 'groups.csv'} -k 10 --components largest "
            "--assign-labels fair -o labels.csv"
        )
    rows = folder / "rows.csv"
    if np.unique(bunch.target).size == 2:
        return (
            f"scalefair classify {rows} --target target --groups group --standardize "
            "--interval 0.05,0.30 -o model.joblib"
        )
    return (
        f"scalefair pca {rows} --groups group --drop target --standardize -r 5 "
        "-o components.npz"
    )


def _write_about(file: BinaryIO, bunch: Any) -> None:
    origin = f"Source: {bunch.source}\nLicence: {bunch.licence}"
    file.write(f"{bunch.DESCR.rstrip()}\n\n{origin}\n".encode())


def _write_groups(file: BinaryIO, bunch: Any) -> None:
    groups = np.asarray(bunch.sensitive_features).tolist()
    write_table(file, ["id", "group"], enumerate(groups))


def _write_rows(file: BinaryIO, bunch: Any, part: str) -> None:
    """Write features, target and group of the rows; `part` ends the entries' names."""
    X = bunch[f"data{part}"]
    columns = [*bunch.feature_names, "target", "group"]
    target = np.asarray(bunch[f"target{part}"]).tolist()
    groups = np.asarray(bunch[f"sensitive_features{part}"]).tolist()
    rows = zip(_row_values(X), target, groups, strict=True)
    write_table(file, columns, ([*values, y, group] for values, y, group in rows))


def _row_values(X: Any) -> Iterator[list[float]]:
    """Yield the values of each row; of a sparse matrix some rows at once are dense."""
    for start in range(0, X.shape[0], _ROWS_AT_ONCE):
        block = X[start : start + _ROWS_AT_ONCE]
        yield from (block.toarray() if sparse.issparse(block) else block).tolist()
