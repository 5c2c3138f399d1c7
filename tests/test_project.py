"""Facts that stand in two files of the project are the same in both."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

pytestmark = pytest.mark.skipif(
    not (ROOT / ".github").is_dir(), reason="a source distribution has no workflows"
)


def _yaml(name):
    return pytest.importorskip("yaml").safe_load((ROOT / name).read_text())


def test_one_version():
    version = PROJECT["version"]
    assert _yaml("CITATION.cff")["version"] == version
    assert _yaml("conda/recipe.yaml")["context"]["version"] == version
    assert f"version = {{{version}}}" in _text("docs/glossary.md")
    assert re.search(rf"^## {re.escape(version)}\b", _text("CHANGELOG.md"), re.M)


def _text(name):
    return (ROOT / name).read_text()


def test_conda_needs_what_pip_needs():
    recipe = _yaml("conda/recipe.yaml")["requirements"]
    # Conda's numba brings TBB of its own.
    needed = {
        re.sub(r"\s|;.*", "", line)
        for line in [*PROJECT["dependencies"], f"python{PROJECT['requires-python']}"]
        if not line.startswith("tbb")
    }
    assert {line.replace(" ", "") for line in recipe["run"]} == needed


def test_workflows_run_what_is_promised():
    tests = _yaml(".github/workflows/tests.yml")["jobs"]
    promised = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert tests["tests"]["strategy"]["matrix"]["python"] == promised
    assert f"python{PROJECT['requires-python']}" == f"python>={promised[0]}"
    sessions = set(re.findall(r"^def (\w+)\(session", _text("noxfile.py"), re.M))
    assert set(tests["checks"]["strategy"]["matrix"]["session"]) < sessions


def test_the_paper_has_what_its_journal_asks_for():
    _, front, text = _text("paper/paper.md").split("---\n", 2)
    header = pytest.importorskip("yaml").safe_load(front)
    authors = [author["name"] for author in _yaml("CITATION.cff")["authors"]]
    assert [author["name"] for author in header["authors"]] == authors
    assert header["title"] == _yaml("CITATION.cff")["title"]
    assert re.findall(r"^# (.*)", text, re.M) == [
        "Summary",
        "Statement of need",
        "State of the field",
        "Software design",
        "Research impact statement",
        "AI usage disclosure",
        "Acknowledgements",
        "References",
    ]
    assert 750 <= len(text.split()) <= 1750
    cited = set(re.findall(r"(?<!\w)@([\w-]+)", text))
    entries = set(re.findall(r"^@\w+\{([^,]+),", _text("paper/paper.bib"), re.M))
    assert cited == entries
    for figure in re.findall(r"\]\(([^)]+\.png)\)", text):
        assert (ROOT / "paper" / figure).stat().st_size < 100_000


def test_links_of_the_readme_are_absolute():
    # On the package index a link has no folder to be relative to.
    links = re.findall(r"\]\(([^)]*)\)", _text("README.md"))
    ours = f"{PROJECT['urls']['Source']}/blob/main/"
    assert links
    for link in links:
        assert link.startswith("https://")
        if link.startswith(ours):
            assert (ROOT / link.removeprefix(ours).partition("#")[0]).exists(), link


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_snippets_of_the_readme(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    readme = _text("README.md")
    for kind, content in re.findall(r"```(python|text)\n(.*?)```", readme, re.S):
        if kind == "python":
            exec(content, names)
            printed = capsys.readouterr().out
            assert printed or "print" not in content
        else:
            assert printed == content
    assert names["model"].partial_parity_gap_ <= 1.05 * 0.05
    assert names["calibrated"].partial_parity_gap_ <= 0.05
