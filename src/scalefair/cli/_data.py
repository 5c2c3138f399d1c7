"""``scalefair data``: public data sets in files that the other commands read."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import click
import numpy as np
import pandas
from scipy import sparse

from scalefair import datasets
from scalefair.cli._errors import Failure, debug_option, printable
from scalefair.cli._fit import on_terminal
from scalefair.cli._options import PATH, QUIET
from scalefair.cli._output import check_destination, write_folder, write_table

_FOLDER = "Folder for the files; made if missing.  [default: the name of the data set]"
_HOME = (
    "Folder of what was downloaded before, and of what is downloaded.  [default: the "
    "folder that SCALEFAIR_DATA names, else the user's cache]"
)
# Rows of a sparse matrix that are dense at once.
_BLOCK = 4096


@click.command()
@click.argument("name", required=False)
@click.option("--output-dir", type=PATH, help=_FOLDER)
@click.option("--data-home", type=PATH, help=_HOME)
@click.option(
    "--download/--no-download",
    default=True,
    show_default=True,
    help="Whether files that are not there are downloaded.",
)
@QUIET
@debug_option
def data(
    name: str | None,
    output_dir: Path | None,
    data_home: Path | None,
    download: bool,
    quiet: bool | None,
) -> None:
    """List public data sets; with a NAME, write that one to files.

    Of a graph these are graph.npz and groups.csv, of rows rows.csv with columns
    target and group (and test.csv, if there are rows to test on); about.txt says what
    the data are, where they come from and under which licence. The other commands
    read these files. Downloads are checked against their checksums.
    """
    names = [fetch for fetch in datasets.__all__ if fetch.startswith("fetch_")]
    fetchers = {
        fetch[6:].replace("_", "-"): getattr(datasets, fetch) for fetch in names
    }
    if name is None:
        if output_dir is not None:
            raise click.UsageError("--output-dir goes with the NAME of a data set.")
        for known, fetch in fetchers.items() if not quiet else ():
            what = (inspect.getdoc(fetch) or "").partition("\n")[0]
            click.echo(f"{known:17} {what.removeprefix('Load ').removesuffix('.')}")
        return
    if name not in fetchers:
        close = difflib.get_close_matches(name, fetchers, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise click.UsageError(
            f"there is no data set {name}.{hint} `scalefair data` lists them."
        )
    folder = Path(name) if output_dir is None else output_dir
    if folder.exists() and not folder.is_dir():
        raise Failure(f"{folder}: is not a folder; choose another --output-dir.")
    check_destination(folder / "about.txt" if folder.is_dir() else folder)
    try:
        bunch = fetchers[name](data_home=data_home, download_if_missing=download)
    except (ImportError, OSError, ValueError) as error:
        said = str(error).replace("download_if_missing=False", "--no-download")
        said = said.replace("data_home", "--data-home")
        raise Failure(
            f"{name}: {said} If the download failed, check the connection, or name a "
            "folder that has the files by --data-home."
        ) from error
    writers = {folder / file: write for file, write in _writers(bunch)}
    for path in writers if folder.is_dir() else ():
        check_destination(path)
    write_folder(folder, writers)
    if on_terminal(quiet):
        n_groups = np.unique(bunch.sensitive_features).size
        click.echo(f"{name}: {len(bunch.sensitive_features):,} in {n_groups} groups")
        for path in writers:
            click.echo(printable(f"wrote {path}"))
        click.echo(printable(f"next: scalefair {_next_command(bunch, folder)}"))


def _writers(bunch: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name of each file and the function that writes its content."""
    origin = f"Source: {bunch.source}\nLicence: {bunch.licence}"
    about = f"{bunch.DESCR.rstrip()}\n\n{origin}\n".encode()
    yield "about.txt", lambda file: file.write(about)
    if "graph" in bunch:
        groups = {"id": range(bunch.graph.shape[0]), "group": bunch.sensitive_features}
        yield "graph.npz", lambda file: sparse.save_npz(file, bunch.graph, False)
        yield "groups.csv", lambda file: write_table(file, groups)
        return
    yield "rows.csv", lambda file: _write_rows(file, bunch, "")
    if "data_test" in bunch:
        yield "test.csv", lambda file: _write_rows(file, bunch, "_test")


def _write_rows(file: BinaryIO, bunch: Any, part: str) -> None:
    """Write features, target and group of rows; `part` ends the entries' names."""
    X, y, groups = (
        bunch[f"{entry}{part}"] for entry in ("data", "target", "sensitive_features")
    )
    for start in range(0, X.shape[0], _BLOCK):
        rows = slice(start, start + _BLOCK)
        block = X[rows].toarray() if sparse.issparse(X) else X[rows]
        frame = pandas.DataFrame(block, columns=list(bunch.feature_names))
        roles = {"target": np.asarray(y)[rows], "group": np.asarray(groups)[rows]}
        frame = frame.assign(**roles)
        frame.to_csv(file, index=False, header=start == 0, lineterminator="\n")


def _next_command(bunch: Any, folder: Path) -> str:
    """Return a command that these files can be given to."""
    if "graph" in bunch:
        return (
            f"cluster {folder / 'graph.npz'} --groups {folder / 'groups.csv'} -k 10 "
            "--components largest --assign-labels fair -o labels.csv"
        )
    roles = f"{folder / 'rows.csv'} --groups group --standardize"
    if np.unique(bunch.target).size == 2:
        return f"classify {roles} --target target --interval 0.05,0.30 -o model.joblib"
    return f"pca {roles} --drop target -r 5 -o components.npz"
