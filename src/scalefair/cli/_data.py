"""``scalefair data``: public data sets in files that the other commands read."""

import difflib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas
from scipy import sparse

from scalefair import datasets
from scalefair.cli import _options as opt
from scalefair.cli._errors import Failure, printable
from scalefair.cli._parameters import translate
from scalefair.cli._run import check_folder, on_terminal, write_folder, write_table

_FILES = {
    "output-dir": (
        opt.value(opt.PATH),
        "Folder for the files.  [default: the name of the data set]",
    ),
    "data-home": (
        opt.value(opt.PATH),
        "Folder of downloads.  [default: as SCALEFAIR_DATA says, else the user's "
        "cache]",
    ),
    "--download/--no-download,download_if_missing": (
        {"default": True},
        "Whether files that are not there are downloaded.",
    ),
}
_OPTIONS = [
    click.argument("name", required=False),
    *opt.option_table("Files", _FILES),
    *opt.shared("quiet"),
]


@opt.command(_OPTIONS)
@click.pass_context
def data(
    ctx: click.Context,
    /,
    name: str | None,
    output_dir: Path | None,
    quiet: bool | None,
    **location: Any,
) -> None:
    """List public data sets; with a NAME, write that one to files.

    Of a graph these are graph.npz and groups.csv, of rows rows.csv with columns target
    and group (and test.csv), as the other commands read them; about.txt says what the
    data are, where they come from and under which licence.
    """
    # 1. Without a name, a line for each data set.
    fetchers = {
        fetcher.removeprefix("fetch_").replace("_", "-"): getattr(datasets, fetcher)
        for fetcher in datasets.__all__
        if fetcher.startswith("fetch_")
    }
    if name is None:
        if output_dir is not None:
            raise click.UsageError("--output-dir goes with the NAME of a data set.")
        if quiet:
            return
        # It has the name, and the first line of the docstring of the fetcher.
        for name, fetch in fetchers.items():
            summary = (inspect.getdoc(fetch) or "").partition("\n")[0]
            summary = summary.removeprefix("Load ").removesuffix(".")
            click.echo(f"{name:17} {summary}")
        return
    if name not in fetchers:
        close = difflib.get_close_matches(name, fetchers, n=1)
        hint = f"did you mean {close[0]}?" if close else "`scalefair data` lists them."
        raise click.UsageError(f"there is no data set {name}: {hint}")
    # 2. Fetch the one of this name, and write its files.
    folder = Path(name) if output_dir is None else output_dir
    check_folder(folder, ["about.txt", "graph.npz", "rows.csv"])
    try:
        bunch = fetchers[name](**location)
    except (ImportError, OSError, ValueError) as error:
        reason = translate(str(error), ctx)
        raise Failure(f"{name}: cannot be had: {reason}") from error
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
    text = f"{bunch.DESCR.rstrip()}\n\n{origin}\n".encode()
    yield "about.txt", lambda file: file.write(text)
    if "graph" in bunch:
        groups = {"id": range(bunch.graph.shape[0]), "group": bunch.sensitive_features}
        yield "graph.npz", lambda file: sparse.save_npz(file, bunch.graph, False)
        yield "groups.csv", lambda file: write_table(file, groups)
        return
    yield "rows.csv", lambda file: write_table(file, _frame(bunch, ""))
    if "data_test" in bunch:
        yield "test.csv", lambda file: write_table(file, _frame(bunch, "_test"))


def _frame(bunch: Any, suffix: str) -> pandas.DataFrame:
    """Return features, target and group of rows; `suffix` is "_test" of a test."""
    X, names = bunch[f"data{suffix}"], list(bunch.feature_names)
    X = X.toarray() if sparse.issparse(X) else X
    return pandas.DataFrame(X, columns=names).assign(
        target=bunch[f"target{suffix}"], group=bunch[f"sensitive_features{suffix}"]
    )


def _next_command(bunch: Any, folder: Path) -> str:
    """Return a command that reads these files."""
    if "graph" in bunch:
        return (
            f"cluster {folder / 'graph.npz'} --groups {folder / 'groups.csv'} -k 10 "
            "--components largest --assign-labels fair -o labels.csv"
        )
    roles = f"{folder / 'rows.csv'} --groups group --standardize"
    if np.unique(bunch.target).size == 2:
        return f"classify {roles} --target target --interval 0.05,0.30 -o model.joblib"
    return f"pca {roles} --drop target -r 5 -o components.npz"
