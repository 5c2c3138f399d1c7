"""What every example of the gallery keeps to; the docs build runs them."""

import ast
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples"
SCRIPTS = sorted(FOLDER.glob("*/*.py"))
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
    return any(
        not any(
            keyword.arg == "download_if_missing"
            and isinstance(keyword.value, ast.Constant)
            and keyword.value.value is False
            for keyword in call.keywords
        )
        for call in calls(tree, "fetch_.*")
    )


def imported(tree):
    """Return the top-level packages that the script imports."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module.split(".")[0])
    return names


def is_titled(docstring):
    """Whether the text starts with a title, underlined in full, and goes on."""
    title, underline, *rest = [*(docstring or "").strip().splitlines(), "", ""]
    return (
        underline == "=" * len(title)
        and len(title) > 0
        and any(line.strip() for line in rest)
    )


def ends_in_figure(tree):
    """Whether figures are made and shown, and nothing is computed afterwards."""
    last = tree.body[-1]
    shown = isinstance(last, ast.Expr) and any(calls(last, "show"))
    return shown and any(calls(tree, "subplots|subplot_mosaic|figure"))


def constant_titles(tree):
    """Return the titles that are written down, not computed from what is found."""
    titles = [call.args[0] for call in calls(tree, "set_title|suptitle")]
    titles += [
        keyword.value
        for call in calls(tree, "set")
        for keyword in call.keywords
        if keyword.arg == "title"
    ]
    return [title.value for title in titles if isinstance(title, ast.Constant)]


@pytest.mark.parametrize(
    "folder",
    sorted({FOLDER, *(s.parent for s in SCRIPTS)}),
    ids=lambda folder: folder.name,
)
def test_gallery_and_its_sections_have_titles(folder):
    header = (folder / "GALLERY_HEADER.rst").read_text(encoding="utf-8").splitlines()
    assert header[1] == ("=" if folder == FOLDER else "-") * len(header[0])


def test_every_script_is_in_a_section():
    assert len(SCRIPTS) >= 12
    assert not list(FOLDER.glob("*.py"))


@every_script
def test_example_is_a_gallery_script(script):
    tree = ast.parse(script.read_text(encoding="utf-8"))
    assert script.name.startswith("plot_")
    assert is_titled(ast.get_docstring(tree))
    assert ends_in_figure(tree)


@every_script
def test_example_uses_no_network(script):
    tree = ast.parse(script.read_text(encoding="utf-8"))
    assert not imported(tree) & NETWORK
    assert not downloads(tree)


@every_script
def test_example_imports_public_names_only(script):
    tree = ast.parse(script.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("scalefair"):
            names = [*node.module.split("."), *(alias.name for alias in node.names)]
            assert not any(name.startswith("_") for name in names)


def says_what_real_data_gave(tree):
    """Whether a script that can do without its data shows stored numbers of them."""
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    data = any(calls(tree, "fetch_.*")) or "SCALEFAIR_DATA" in {
        node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)
    }
    return not data or names.count("STORED") > 1


@every_script
def test_beside_made_up_data_stands_what_real_ones_gave(script):
    assert says_what_real_data_gave(ast.parse(script.read_text(encoding="utf-8")))


def test_the_check_of_what_real_data_gave_can_fail():
    assert says_what_real_data_gave(ast.parse("STORED = 1; fetch_a9a(); print(STORED)"))
    assert not says_what_real_data_gave(ast.parse("STORED = 1; fetch_a9a()"))


@every_script
def test_titles_of_figures_are_computed(script):
    assert not constant_titles(ast.parse(script.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('ax.set_title("Fair is best")', ["Fair is best"]),
        ('ax.set(xlabel="x", title="Best")', ["Best"]),
        ('ax.set_title(f"Fair: {gap:.2f}")', []),
    ],
)
def test_the_check_of_computed_titles_can_fail(source, found):
    assert constant_titles(ast.parse(source)) == found


def test_titles_differ():
    docs = [ast.get_docstring(ast.parse(s.read_text("utf-8"))) for s in SCRIPTS]
    titles = [doc.splitlines()[0] for doc in docs]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize(
    ("source", "fine"),
    [
        ("fetch_a9a(download_if_missing=False)", True),
        ("fetch_a9a()", False),
        ("data.fetch_a9a(download_if_missing=True)", False),
    ],
)
def test_the_check_of_loaders_can_fail(source, fine):
    assert downloads(ast.parse(source)) is not fine


@pytest.mark.parametrize(
    "text", [None, "No underline.", "Title\n=====\n", "Ab\n=\n\nC"]
)
def test_the_check_of_titles_can_fail(text):
    assert not is_titled(text)


def test_the_check_of_figures_can_fail():
    assert ends_in_figure(ast.parse("f, ax = plt.subplots()\nplt.show()"))
    assert not ends_in_figure(ast.parse("f, ax = plt.subplots()\nplt.show()\nx = 1"))
    assert not ends_in_figure(ast.parse("plt.show()"))
