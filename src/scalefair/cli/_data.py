"""``scalefair data``: public data sets in files that the other commands read."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas
from scipy import sparse

from scalefair import datasets
from scalefair.cli._errors import Failure, debug_option, printable
from scalefair.cli._fit import on_terminal
from scalefair.cli._options import PATH, QUIET, add_options, translate
from scalefair.cli._output import check_folder, write_folder, write_table

_FOLDER = "Folder for the files.  [default: the name of the data set]"
_HOME = "Folder of downloads.  [default: as SCALEFAIR_DATA says, else the user's cache]"
_FLAG = "--download/--no-download"
_DOWNLOAD = "Whether files that are not there are downloaded."


@click.command()
@click.argument("name", required=False)
@click.option("--output-dir", type=PATH, help=_FOLDER)
@click.option("--data-home", type=PATH, help=_HOME)
@click.option(_FLAG, "download_if_missing", default=True, help=_DOWNLOAD)
@partial(add_options, options=[QUIET])
@debug_option
@click.pass_context
def data(
    ctx: click.Context, /, name: Any, output_dir: Any, quiet: Any, **how: Any
) -> None:
    """List public data sets; with a NAME, write that one to files.

    Of a graph these are graph.npz and groups.csv, of rows rows.csv with columns target
    and group (and test.csv), as the other commands read them; about.txt says what the
    data are, where they come from and under which licence.
    """
    names = [name for name in datasets.__all__ if name.startswith("fetch_")]
    fetchers = {f[6:].replace("_", "-"): getattr(datasets, f) for f in names}
    if name is None:
        if output_dir is not None:
            raise click.UsageError("--output-dir goes with the NAME of a data set.")
        for known, fetch in fetchers.items() if not quiet else ():
            what = (inspect.getdoc(fetch) or "").partition("\n")[0]
            click.echo(f"{known:17} {what.removeprefix('Load ').removesuffix('.')}")
        return
    if name not in fetchers:
        close = difflib.get_close_matches(name, fetchers, n=1)
        hint = f"did you mean {close[0]}?" if close else "`scalefair data` lists them."
        raise click.UsageError(f"there is no data set {name}: {hint}")
    folder = Path(name) if output_dir is None else output_dir
    check_folder(folder, ["about.txt", "graph.npz", "rows.csv"])
    try:
        bunch = fetchers[name](**how)
    except (ImportError, OSError, ValueError) as error:
        said = translate(str(error), ctx)
        raise Failure(f"{name}: cannot be had: {said}") from error
    writers = {folder / name: write for name, write in _writers(bunch)}
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
    yield "rows.csv", lambda file: write_table(file, _frame(bunch, ""))
    if "data_test" in bunch:
        yield "test.csv", lambda file: write_table(file, _frame(bunch, "_test"))


def _frame(bunch: Any, part: str) -> pandas.DataFrame:
    """Features, target and group of rows; `part` ends the names of the entries."""
    X, names = bunch[f"data{part}"], list(bunch.feature_names)
    frame = pandas.DataFrame
    make = frame.sparse.from_spmatrix if sparse.issparse(X) else frame
    roles = {"target": "target", "group": "sensitive_features"}
    known = {role: bunch[f"{name}{part}"] for role, name in roles.items()}
    return make(X, columns=names).assign(**known)


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
