"""What a person waits for at a prompt: files that are read, and small commands."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from scalefair.files import read_graph, read_table

ARGUMENTS = {
    "describe": "describe people.csv",
    "pca": "pca people.csv --groups sex --drop colour --drop job -r 2 -o out.npz",
    "classify": "classify people.csv --groups sex --target hired -o out.joblib",
    "cluster": "cluster people.csv --affinity nearest_neighbors --groups sex "
    "--drop colour --drop job -k 3 -o out.csv",
}


def write_people(path, m):
    """Write six columns of numbers, two of words, a group and a label."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame(rng.normal(size=(m, 6)).round(4), columns=list("abcdef"))
    people["colour"] = rng.choice(["red", "green", "blue"], m)
    people["job"] = rng.choice([f"job {i}" for i in range(40)], m)
    people["sex"] = rng.choice(["f", "m"], m)
    people["hired"] = (people["a"] + rng.normal(size=m) > 0).astype(int)
    people.to_csv(path, index=False)


class Folder:
    """A temporary folder for the files of a benchmark."""

    def setup(self, *_):
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)

    def teardown(self, *_):
        self._folder.cleanup()


class Tables(Folder):
    """A table of words and numbers, against the parser that it rests on."""

    params = ([10**5, 10**6],)
    param_names = ("n_rows",)
    timeout = 300

    def setup(self, m):
        super().setup()
        self.path = self.folder / "people.csv"
        write_people(self.path, m)
        if not read_table(self.path)["a"].equals(pd.read_csv(self.path)["a"]):
            raise RuntimeError("read_table and pandas read other numbers")

    def time_read_table(self, m):
        read_table(self.path)

    def time_pandas_read_csv(self, m):
        pd.read_csv(self.path)

    peakmem_read_table = time_read_table


class Edges(Folder):
    """A million edges in text, integers or names."""

    params = (["integers", "names"],)
    param_names = ("ids",)
    timeout = 300

    def setup(self, ids):
        super().setup()
        rng = np.random.default_rng(0)
        ends = rng.integers(0, 100_000, (10**6, 2))
        frame = pd.DataFrame(ends, columns=["source", "target"])
        if ids == "names":
            frame = "n" + frame.astype(str)
        self.path = self.folder / "edges.csv"
        frame.to_csv(self.path, index=False)
        if read_graph(self.path).matrix.shape[0] > 100_000:
            raise RuntimeError("an edge has an end that is not there")

    def time_read_graph(self, ids):
        read_graph(self.path)


class Commands(Folder):
    """Small commands from start to end, in processes of their own."""

    params = (list(ARGUMENTS),)
    param_names = ("command",)
    timeout = 120

    def setup(self, command):
        super().setup()
        write_people(self.folder / "people.csv", 1000)
        self.time_command(command)  # kernels are compiled once

    def time_command(self, command):
        subprocess.run(
            [sys.executable, "-m", "scalefair.cli", *ARGUMENTS[command].split()],
            cwd=self.folder,
            check=True,
            capture_output=True,
        )
