"""Compiled kernels are kept where there is a folder for them, and work where not."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import scalefair

RUN = """
import numpy as np, scalefair
from scalefair import kernels
A = np.tri(4)
kernels.mirror_lower(A)
print(scalefair.__file__, A.sum())
"""


@pytest.fixture
def unwritable(tmp_path):
    """Environment with a copy of the package that no folder for a cache is left to."""
    source = Path(scalefair.__file__).parent
    copy = tmp_path / "scalefair"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in (copy, *(path for path in copy.iterdir() if path.is_dir())):
        (folder / "__pycache__").touch()  # a file, for root as for others
    nowhere = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"), os.devnull)
    return os.environ | nowhere | {"PYTHONPATH": str(tmp_path)}


def run(environment):
    command = [sys.executable, "-c", RUN]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    )


def test_without_a_writable_folder(unwritable, tmp_path):
    done = run(unwritable)
    assert done.stdout == f"{tmp_path / 'scalefair' / '__init__.py'} 16.0\n", done
    assert not list(tmp_path.rglob("*.nbi"))


def test_numba_cache_dir(unwritable, tmp_path):
    done = run(unwritable | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")})
    assert done.returncode == 0, done
    assert list((tmp_path / "cache").rglob("*.nbi"))
