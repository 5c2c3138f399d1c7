"""The scripts of the tables, imported for one test each."""

import gzip
import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def load(monkeypatch):
    """Import scripts of a folder by the names they are given."""
    before = set(sys.modules)
    folders = set()

    def load(folder, **names):
        folders.add(ROOT / folder)
        monkeypatch.syspath_prepend(str(ROOT / folder))
        loaded = {word: importlib.import_module(name) for word, name in names.items()}
        return SimpleNamespace(**loaded)

    yield load
    for name in set(sys.modules) - before:
        path = getattr(sys.modules[name], "__file__", None)
        if path and folders & set(Path(path).parents):
            del sys.modules[name]


@pytest.fixture
def load_tables(load, monkeypatch):
    """Import scripts of the papers' tables; no data are there."""
    monkeypatch.delenv("SCALEFAIR_DATA", raising=False)
    return lambda **names: load("benchmarks/paper_tables", **names)


@pytest.fixture
def write_data(tmp_path, monkeypatch):
    """Write a stand-in for a file of a data set; the data folder is a new one."""
    monkeypatch.setenv("SCALEFAIR_DATA", str(tmp_path))

    def write(name, lines):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        content = "".join(f"{line}\n" for line in lines).encode()
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)

    return write


@pytest.fixture
def cells():
    """Return the cells of the rows of tables that start with one of some words."""

    def cells(text, *starts):
        rows = [line[2:-2].split(" | ") for line in text.splitlines()]
        return [row for row in rows if row[0].startswith(starts)]

    return cells
