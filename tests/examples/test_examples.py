"""What every example of the gallery keeps to; the docs build runs them."""

import ast
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples"
SCRIPTS = sorted(FOLDER.glob("*/*.py"))
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in SCRIPTS}
NETWORK = {"urllib", "requests", "http", "socket", "pooch", "ftplib"}

every_script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)


def calls(tree, name):
    """Yield the calls of a function or method of that name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if re.fullmatch(name, called):
                yield node


def downloads(tree):
    """Whether a loader of the script may use the network."""
    loads = map(ast.unparse, calls(tree, "fetch_.*"))
    return any("download_if_missing=False" not in call for call in loads)


def imported(tree):
    """Yield the full names that the script imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def ends_in_figure(tree):
    """Whether figures are made and shown, and nothing is computed afterwards."""
    last = tree.body[-1]
    shown = isinstance(last, ast.Expr) and any(calls(last, "show"))
    return shown and any(calls(tree, "subplots|subplot_mosaic|figure"))


def says_what_real_data_gave(tree):
    """Whether a script that can do without its data shows stored numbers of them."""
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    data = any(calls(tree, "fetch_.*")) or "'SCALEFAIR_DATA'" in ast.unparse(tree)
    return not data or names.count("STORED") > 1


def test_every_script_is_in_a_section():
    assert len(SCRIPTS) >= 12
    assert not list(FOLDER.glob("*.py"))


@every_script
def test_example_is_a_gallery_script(script):
    tree, names = TREES[script], list(imported(TREES[script]))
    assert script.name.startswith("plot_")
    assert ends_in_figure(tree)
    assert says_what_real_data_gave(tree)
    # No network, and public names only.
    assert not downloads(tree)
    assert not {name.split(".")[0] for name in names} & NETWORK
    assert not [n for n in names if n.startswith("scalefair") and "._" in n]
