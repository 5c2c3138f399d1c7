"""``scalefair data``: public data sets in files that the other commands read."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from scalefair.cli._errors import Failure, debug_option, printable
from scalefair.cli._output import check_destination, write_folder
from scalefair.cli._summary_tables import on_terminal

__all__ = ["data"]

_PREFIX = "fetch_"


@click.command(short_help="List public data sets, or download one.")
@click.argument("name", required=False)
@click.option(
    "--output-dir",
    type=click.Path(readable=False, path_type=Path),
    help="Folder for the files; made if missing.  [default: the name of the data set]",
)
@click.option(
    "--data-home",
    type=click.Path(readable=False, path_type=Path),
    help="Folder of what was downloaded before, and of what is downloaded.  "
    "[default: the folder that SCALEFAIR_DATA names, else the user's cache]",
)
@click.option(
    "--download/--no-download",
    default=True,
    show_default=True,
    help="Whether files that are not there are downloaded.",
)
@click.option("--quiet", is_flag=True, help="Nothing on stdout.")
@debug_option
def data(
    name: str | None,
    output_dir: Path | None,
    data_home: Path | None,
    download: bool,
    quiet: bool,
) -> None:
    """List public data sets; with a NAME, write that one to files.

    Of a graph these are graph.npz and groups.csv, of rows rows.csv with columns
    target and group (and test.csv, if there are rows to test on); about.txt says what
    the data are, where they come from and under which licence. The other commands
    read these files. Downloads are checked against their checksums. Exit codes are
    those of `scalefair --help`.
    """
    fetchers = _fetchers()
    if name is None:
        if output_dir is not None:
            raise click.UsageError("--output-dir goes with the NAME of a data set.")
        if not quiet:
            _print_list(fetchers)
        return
    if name not in fetchers:
        raise click.UsageError(_unknown(name, list(fetchers)))
    folder = Path(name) if output_dir is None else output_dir
    _check_folder(folder)

    bunch = _fetch(name, fetchers[name], data_home, download)
    from scalefair.cli._data_files import data_writers, next_command, summary

    writers = {folder / file: write for file, write in data_writers(bunch).items()}
    for path in writers:
        check_destination(path if folder.is_dir() else folder)
    write_folder(folder, writers)
    if not quiet and on_terminal():
        click.echo(f"{name}: {summary(bunch)}")
        for path in writers:
            click.echo(printable(f"wrote {path}"))
        click.echo(printable(f"next: {next_command(bunch, folder)}"))


def _fetchers() -> dict[str, Callable[..., Any]]:
    """Return the functions that load data sets, by the names used here."""
    from scalefair import datasets

    return {
        name.removeprefix(_PREFIX).replace("_", "-"): getattr(datasets, name)
        for name in sorted(datasets.__all__)
        if name.startswith(_PREFIX)
    }


def _print_list(fetchers: dict[str, Callable[..., Any]]) -> None:
    width = max(map(len, fetchers))
    for name, fetch in fetchers.items():
        first_line = (inspect.getdoc(fetch) or "").partition("\n")[0]
        what = first_line.removeprefix("Load ").removesuffix(".")
        click.echo(f"{name:{width}}  {what}".rstrip())


def _unknown(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    return f"there is no data set {name}.{hint} `scalefair data` lists them."


def _check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be made or written to, before any download."""
    if folder.exists() and not folder.is_dir():
        raise Failure(f"{folder}: is not a folder; choose another --output-dir.")
    check_destination(folder / "about.txt" if folder.is_dir() else folder)


def _fetch(
    name: str, fetch: Callable[..., Any], data_home: Path | None, download: bool
) -> Any:
    try:
        return fetch(data_home=data_home, download_if_missing=download)
    except FileNotFoundError as error:
        raise Failure(_as_options(f"{name}: {error}")) from error
    except (ImportError, ValueError) as error:
        raise Failure(f"{name}: {error}") from error
    except OSError as error:
        raise Failure(
            f"{name}: cannot be downloaded or read: {error}. Check the connection, or "
            "name a folder that has the files by --data-home."
        ) from error


def _as_options(message: str) -> str:
    """Arguments of the functions, named as the options of this command."""
    return (
        message.replace("download_if_missing=False", "--no-download was given")
        .replace("data_home", "--data-home")
        .replace("allow the download", "leave --no-download out")
    )
