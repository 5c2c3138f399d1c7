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


def constants_named(call, name):
    """Constant values of a call's keyword of that name."""
    values = [keyword.value for keyword in call.keywords if keyword.arg == name]
    return [value.value for value in values if isinstance(value, ast.Constant)]


def downloads(tree):
    """Whether a loader of the script may use the network."""
    return any(
        constants_named(call, "download_if_missing") != [False]
        for call in calls(tree, "fetch_.*")
    )


def imported(tree):
    """Yield the full names that the script imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_titled(tree):
    """Whether the docstring starts with a title, underlined in full, and goes on."""
    docstring = ast.get_docstring(tree) or ""
    title, underline, *rest = [*docstring.strip().splitlines(), "", ""]
    return bool(title and underline == "=" * len(title) and "".join(rest).strip())


def ends_in_figure(tree):
    """Whether figures are made and shown, and nothing is computed afterwards."""
    last = tree.body[-1]
    shown = isinstance(last, ast.Expr) and any(calls(last, "show"))
    return shown and any(calls(tree, "subplots|subplot_mosaic|figure"))


def has_constant_titles(tree):
    """Whether titles are written down, not computed from what is found."""
    titles = [call.args[0] for call in calls(tree, "set_title|suptitle")]
    return any(isinstance(title, ast.Constant) for title in titles) or any(
        constants_named(call, "title") for call in calls(tree, "set")
    )


def says_what_real_data_gave(tree):
    """Whether a script that can do without its data shows stored numbers of them."""
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    constants = [
        node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)
    ]
    data = any(calls(tree, "fetch_.*")) or "SCALEFAIR_DATA" in constants
    return not data or names.count("STORED") > 1


@pytest.mark.parametrize(
    "folder",
    sorted({FOLDER, *(s.parent for s in SCRIPTS)}),
    ids=lambda folder: folder.name,
)
def test_gallery_and_its_sections_have_titles(folder):
    header = (folder / "GALLERY_HEADER.rst").read_text(encoding="utf-8").splitlines()
    assert header[1] == ("=" if folder == FOLDER else "-") * len(header[0])


def test_every_script_is_in_a_section_and_has_its_own_title():
    assert len(SCRIPTS) >= 12
    assert not list(FOLDER.glob("*.py"))
    titles = [ast.get_docstring(tree).splitlines()[0] for tree in TREES.values()]
    assert len(set(titles)) == len(titles)


@every_script
def test_example_is_a_gallery_script(script):
    tree, names = TREES[script], list(imported(TREES[script]))
    assert script.name.startswith("plot_")
    assert is_titled(tree)
    assert ends_in_figure(tree)
    assert not has_constant_titles(tree)
    assert says_what_real_data_gave(tree)
    # No network, and public names only.
    assert not downloads(tree)
    assert not {name.split(".")[0] for name in names} & NETWORK
    assert not [n for n in names if n.startswith("scalefair") and "._" in n]
