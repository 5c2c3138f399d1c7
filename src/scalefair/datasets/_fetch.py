"""Find the file of a data set on disk, or download it once, checked."""

import importlib
import os
from pathlib import Path
from types import ModuleType

from scalefair.datasets._sources import SourceFile

DATA_VARIABLE = "SCALEFAIR_DATA"

# A folder as users name it; None is the default one.
DataHome = str | os.PathLike[str] | None


def local_file(file: SourceFile, data_home: DataHome, download: bool) -> Path:
    """Return the path of `file`, downloading it first if allowed and needed.

    A file already in the folder is used as it is, under its published name or, for
    text, gzip-compressed with ``.gz`` added; a download is checked against the
    checksum.
    """
    folder = data_folder(data_home)
    plain = folder / file.path
    if plain.is_file():
        return plain
    compressed = plain.with_name(f"{plain.name}.gz")
    if plain.suffix not in {".npz", ".zip"} and compressed.is_file():
        return compressed
    if not download:
        raise FileNotFoundError(
            f"{file.path} is not in the data folder {folder}, and "
            f"download_if_missing=False. Name the folder that holds it with "
            f"data_home or the environment variable {DATA_VARIABLE}, allow the "
            f"download, or save {file.url} there yourself."
        )
    pooch = _import_pooch(f"download {file.url}")
    try:
        # Downloads to a temporary name, checks, then renames: no half file is left.
        pooch.retrieve(
            url=file.url,
            known_hash=f"sha256:{file.sha256}",
            fname=plain.name,
            path=plain.parent,
        )
    except OSError as error:
        raise OSError(
            f"{file.path} could not be downloaded: {error}. Try again, or save "
            f"{file.url} as {plain} yourself."
        ) from error
    return plain


def data_folder(data_home: DataHome) -> Path:
    """Return `data_home`, else the folder SCALEFAIR_DATA names, else pooch's cache."""
    if data_home is not None:
        return Path(data_home).expanduser()
    if named := os.environ.get(DATA_VARIABLE):
        return Path(named).expanduser()
    return Path(_import_pooch("choose a cache folder").os_cache("scalefair"))


def _import_pooch(purpose: str) -> ModuleType:
    try:
        return importlib.import_module("pooch")
    except ImportError as error:
        raise ImportError(
            f'pooch is needed to {purpose}. Run pip install "scalefair[data]", or '
            f"name a folder that has the data in {DATA_VARIABLE}."
        ) from error
