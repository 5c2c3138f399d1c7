"""The scripts of the tables, imported for one test each."""

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
