"""Shared paragraphs of docstrings: filled in everywhere, with their indentation."""

import importlib
import inspect
import pkgutil

import pytest

import scalefair
from scalefair._docs import documented


def test_an_unknown_text_is_an_error():
    def function():
        """%(nothing)s"""

    with pytest.raises(KeyError, match="nothing"):
        documented()(function)


def documented_names(module):
    for name, value in vars(module).items():
        if getattr(value, "__module__", None) == module.__name__:
            yield name, value
            if inspect.isclass(value):
                # As users read them: descriptors keep what they wrap.
                members = ((n, getattr(value, n, None)) for n in vars(value))
                yield from ((f"{name}.{n}", member) for n, member in members)


def test_every_docstring_is_filled():
    names = [m.name for m in pkgutil.walk_packages(scalefair.__path__, "scalefair.")]
    unfilled = [
        f"{name}: {member}"
        for name in names
        if not name.endswith("__main__")
        for member, value in documented_names(importlib.import_module(name))
        if "%(" in (getattr(value, "__doc__", None) or "")
    ]
    assert not unfilled, "decorate with scalefair._docs.documented"
