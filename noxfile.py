"""What a change must pass, as sessions: `nox --list`. `.ci/run` calls them, too."""

import os
import re
import shutil
import sys
import tomllib
import zipfile
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["lint", "doctests", "tests"]

PROJECT = tomllib.loads(Path("pyproject.toml").read_text())["project"]
PYTHONS = nox.project.python_versions({"project": PROJECT})
NIGHTLY = "https://pypi.anaconda.org/scientific-python-nightly-wheels/simple"


def _install(session: nox.Session, *packages: str) -> None:
    """Install into the session's environment, or with --no-venv into the one here.

    With --no-venv --no-install what is here will do.
    """
    if session.virtualenv.venv_backend == "none" and "--no-install" not in sys.argv:
        session.run("python", "-m", "pip", "install", "--quiet", *packages)
    else:
        session.install("--quiet", *packages)


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Tests, with the newest dependencies."""
    _install(session, "-e", ".[test]")
    session.run("pytest", *session.posargs)


@nox.session(python=PYTHONS[0])
def oldest(session: nox.Session) -> None:
    """Tests, with the oldest Python and the oldest dependencies that are allowed."""
    extras = PROJECT["optional-dependencies"]
    tested = re.search(r"\[(.*)\]", extras["test"][0])[1].split(",")
    optional = [line for name in [*tested, "test"] for line in extras[name]]
    needed = PROJECT["dependencies"] + optional
    bounds = [re.match(r"([\w-]+)(?:\[.*\])?>=([\d.]+)", line) for line in needed]
    oldest = {found[1]: found[2] for found in bounds if found}  # what tests need last
    constraints = Path(session.create_tmp(), "oldest.txt")
    constraints.write_text("".join(f"{name}=={v}.*\n" for name, v in oldest.items()))
    _install(session, "-e", ".[test]", "-c", str(constraints))
    # What old libraries use is deprecated in newer ones that they are together with.
    deprecated = "-W", "default::DeprecationWarning"
    session.run("pytest", *deprecated, *session.posargs)


@nox.session
def nightly(session: nox.Session) -> None:
    """Tests, with tonight's NumPy, SciPy and scikit-learn; their warnings are none."""
    _install(session, "-e", ".[test]")
    latest = "numpy", "scipy", "scikit-learn"
    options = "--pre", "--upgrade", "--no-deps", "--extra-index-url", NIGHTLY
    _install(session, *options, *latest)
    session.run("pytest", "-W", "default", *session.posargs)


@nox.session
def doctests(session: nox.Session) -> None:
    """The examples of the docstrings."""
    _install(session, "-e", ".[test]")
    session.run("pytest", "--quiet", "-m", "", "--doctest-modules", "src/scalefair")


@nox.session
def interoperability(session: nox.Session) -> None:
    """The snippets of docs/interoperability.md, with the libraries that they name."""
    libraries = "networkx", "igraph", "torch", "torch_geometric", "anndata", "polars"
    _install(session, "-e", ".[test]", *libraries, "fairlearn", "skops")
    session.run("pytest", "--quiet", "tests/test_interoperability.py")


@nox.session
def realdata(session: nox.Session) -> None:
    """Tests on the data in the folder named by SCALEFAIR_DATA."""
    if not os.environ.get("SCALEFAIR_DATA"):
        session.skip("SCALEFAIR_DATA names no folder")
    _install(session, "-e", ".[test]")
    session.run("pytest", "--quiet", "-m", "realdata")


@nox.session
def processors(session: nox.Session) -> None:
    """What multiplies, under the BLAS kernels of several processors."""
    _install(session, "-e", ".[test]")
    session.run(".ci/processors", external=True)


@nox.session
def lint(session: nox.Session) -> None:
    """Format, lint, types."""
    _install(session, "-e", ".[dev]")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("mypy")


@nox.session
def forms(session: nox.Session) -> None:
    """Workflows and metadata against their schemas, offline."""
    _install(session, "check-jsonschema", "zizmor", "validate-pyproject")
    workflows = sorted(map(str, Path(".github/workflows").glob("*.yml")))
    for schema in "vendor.github-workflows", "custom.github-workflows-require-timeout":
        session.run("check-jsonschema", "--builtin-schema", schema, *workflows)
    session.run("zizmor", "--offline", "--no-progress", ".github")
    session.run("validate-pyproject", "pyproject.toml")


@nox.session
def dist(session: nox.Session) -> None:
    """Wheel, which must hold all of src, and source distribution."""
    _install(session, "build", "twine")
    shutil.rmtree("dist", ignore_errors=True)
    session.run("python", "-m", "build")
    packages = sorted(map(str, Path("dist").iterdir()))
    session.run("twine", "check", "--strict", *packages)
    wheel = next(package for package in packages if package.endswith(".whl"))
    held, source = set(zipfile.ZipFile(wheel).namelist()), Path("src")
    files = {p.relative_to(source).as_posix() for p in source.glob("scalefair/**/*.*")}
    if missing := {name for name in files if "__pycache__" not in name} - held:
        session.error(f"{wheel} lacks {sorted(missing)}")


@nox.session
def bench(session: nox.Session) -> None:
    """A few benchmarks, once each: do they still run?"""
    _install(session, "-e", ".[bench]")
    session.cd("asv_bench")
    session.env["HOME"] = session.create_tmp()  # asv keeps the machine's name there
    session.run("asv", "machine", "--yes", silent=True)
    session.run("asv", "check", "--environment", "existing:python")
    options = "--quick", "--show-stderr", "--environment", "existing:python"
    command = "asv", "run", *options, "--bench", "parts.Graph"
    if "failed" in (output := session.run(*command, silent=True) or ""):
        session.error(output)  # asv itself ends with 0


@nox.session
def docs(session: nox.Session) -> None:
    """Documentation, warnings as errors; on generated data, not on photographs."""
    _install(session, "-e", ".[docs]")
    session.env["SCALEFAIR_DATA"] = None
    html = session.posargs[0] if session.posargs else "docs/_build/html"
    options = "-W", "--keep-going", "-q", "-b", "html"
    session.run("python", "-m", "sphinx", *options, "docs", html)
