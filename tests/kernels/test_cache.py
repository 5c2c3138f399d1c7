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


@pytest.mark.parametrize("has_folder", [False, True])
def test_a_package_without_a_writable_folder(has_folder, tmp_path):
    source = Path(scalefair.__file__).parent
    copy = tmp_path / "scalefair"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in (copy, *(path for path in copy.iterdir() if path.is_dir())):
        (folder / "__pycache__").touch()  # a file, for root as for others
    nowhere = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"), os.devnull)
    environment = os.environ | nowhere | {"PYTHONPATH": str(tmp_path)}
    if has_folder:
        environment["NUMBA_CACHE_DIR"] = str(tmp_path / "cache")
    command, options = [sys.executable, "-c", RUN], {"check": False, "text": True}
    done = subprocess.run(command, env=environment, capture_output=True, **options)
    assert done.stdout == f"{copy / '__init__.py'} 16.0\n", done
    kept = list(tmp_path.rglob("*.nbi"))
    assert bool(kept) == has_folder
    assert all(file.is_relative_to(tmp_path / "cache") for file in kept)
