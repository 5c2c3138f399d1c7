"""A file that changes while a command reads it."""

import subprocess
import sys

import numpy as np


def test_a_file_that_is_cut_during_the_fit(components):
    """A memory map would end the process with a bus error."""
    np.save(components.npy, np.tile(components.X, (100, 1)))
    components.write("sexes.txt", np.tile(components.sexes, 100))
    script = f"""
import os, sys
from scalefair.cli import main
from scalefair.decomposition import FairPCA
fit = FairPCA.fit

def cut(*arguments, **options):
    os.truncate({str(components.npy)!r}, 4096)
    return fit(*arguments, **options)

FairPCA.fit = cut
main(sys.argv[1:])
"""
    command = [sys.executable, "-c", script, "pca", components.npy, "--groups"]
    command += [components.column, "-r", 2, "-o", components.output]
    done = subprocess.run(list(map(str, command)), capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert components.arrays()["components"].shape == (2, 5)
    command += ["--memory-limit", "1kB"]
    done = subprocess.run(list(map(str, command)), capture_output=True, check=False)
    assert done.returncode == 1  # it is too short from the start
    assert b"is truncated" in done.stderr
