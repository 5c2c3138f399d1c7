"""Small problems in files, and a command line to run on them."""

import contextlib
import json
import os
import pty
import signal
import threading
import warnings
from pathlib import Path
from typing import ClassVar

import joblib
import numpy as np
import pandas
import pytest
from click.testing import CliRunner, Result
from scipy import io, sparse
from sklearn.compose import make_column_transformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from scalefair.cli import main
from scalefair.datasets import make_fair_sbm

OLD = b"id,label\nan older result\n"


class Runs:
    """A folder, and runs of the command in it."""

    def __init__(self, folder: Path, output: str) -> None:
        self.folder = folder
        self.output = folder / output
        self.report = folder / "report.json"

    def write(self, path: Path | str, lines) -> Path:
        path = self.folder / path
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    def save_arrays(self, name: str, X) -> tuple[Path, Path]:
        """Save rows densely, and as a sparse matrix."""
        dense, compressed = self.folder / f"{name}.npy", self.folder / f"{name}.npz"
        np.save(dense, X)
        sparse.save_npz(compressed, sparse.csc_array(X))
        return dense, compressed

    def invoke(self, *arguments) -> Result:
        return CliRunner().invoke(main, [str(a) for a in arguments])

    def read_report(self) -> dict:
        def refuse(constant):
            raise AssertionError(f"{constant} is not strict JSON")

        return json.loads(self.report.read_text(), parse_constant=refuse)

    def keep_older(self) -> None:
        """Put an older result where the output goes, which no failure may touch."""
        self.output.write_bytes(OLD)

    def fails(self, result: Result, *words: str, code: int = 1) -> str:
        """Check that a run failed as it must and wrote nothing; what it said."""
        assert result.exit_code == code, result.output
        assert result.stdout == ""
        assert "Traceback" not in result.output
        said = " ".join(result.stderr.split())
        if code != 2:  # click shows the usage above the error
            assert said.startswith("error: ")
            assert len(result.stderr.splitlines()) == 1
        for word in words:
            assert str(word) in said
        assert self.output.read_bytes() == OLD
        assert not self.report.exists()
        assert list(self.folder.glob(".*.tmp")) == []
        return said


class Workspace(Runs):
    """Files of one problem in a folder, and runs of the command on them."""

    def __init__(self, folder: Path, data) -> None:
        super().__init__(folder, "labels.csv")
        self.data = data
        self.npz = folder / "graph.npz"
        self.mtx = folder / "graph.mtx"
        self.edges = folder / "graph.csv"
        self.groups = folder / "groups.csv"
        sparse.save_npz(self.npz, data.graph)
        io.mmwrite(self.mtx, sparse.coo_matrix(data.graph))
        self.pairs = np.transpose(sparse.triu(data.graph).nonzero()).tolist()
        self.write(self.edges, ["node_1,node_2", *(f"{i},{j}" for i, j in self.pairs)])
        groups = [f"{i},g{g}" for i, g in enumerate(data.sensitive_features)]
        self.write(self.groups, ["id,group", *groups])

    def cluster(self, graph=None, *options, groups=None, k=3) -> Result:
        arguments = ["cluster", graph or self.edges, "--groups", groups or self.groups]
        arguments += ["-k", k, "-o", self.output, *options]
        return self.invoke(*arguments)

    def cluster_rows(self, rows, affinity, *options, k=2, groups=None) -> Result:
        return self.cluster(
            rows, "--affinity", affinity, *options, k=k, groups=groups or self.blobs
        )

    def add_rows(self) -> None:
        """Two far groups of points, each half f and half m, in several formats."""
        rng = np.random.default_rng(0)
        self.target = np.repeat([0, 1], 30)
        self.X = rng.normal(size=(60, 2)) + 6 * self.target[:, None]
        self.npy, self.sparse_rows = self.save_arrays("rows", self.X)
        self.table = self.folder / "rows.csv"
        frame = pandas.DataFrame(self.X, columns=["height", "weight"])
        frame.to_csv(self.table, index=False)
        self.sexes = np.tile(["f", "m"], 30)
        self.blobs = self.write("sexes.txt", self.sexes)

    def labels(self) -> dict[str, int]:
        frame = pandas.read_csv(self.output, dtype={"id": str}, keep_default_na=False)
        assert frame.columns.tolist() == ["id", "label"]
        return dict(zip(frame["id"], frame["label"].tolist(), strict=True))


class Components(Runs):
    """Rows of two groups in all formats, and runs of ``pca`` on them."""

    names: ClassVar[list[str]] = ["height", "weight", "age", "income", "steps"]

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "components.npz")
        self.scores = folder / "scores.npy"
        rng = np.random.default_rng(0)
        self.sexes = np.array(["f"] * 70 + ["m"] * 50)[rng.permutation(120)]
        scales = np.where(self.sexes[:, None] == "f", [5, 4, 3, 2, 1], [1, 2, 3, 4, 5])
        self.X = rng.normal(size=(120, 5)) * scales + [1, 0, 50, 3, 0]
        self.X[rng.random(self.X.shape) < 0.2] = 0
        self.csv = folder / "rows.csv"
        frame = pandas.DataFrame(self.X, columns=self.names)
        frame.insert(2, "sex", self.sexes)
        frame.to_csv(self.csv, index=False)
        self.npy, self.npz = self.save_arrays("rows", self.X)
        self.column = self.write("sexes.txt", self.sexes)

    def pca(self, data=None, *options, groups="sex", r=2) -> Result:
        arguments = ["pca", data or self.csv, "--groups", groups, "-r", r]
        return self.invoke(*arguments, "-o", self.output, *options)

    def arrays(self) -> dict:
        with np.load(self.output, allow_pickle=False) as file:
            return dict(file)


class Wages(Runs):
    """Rows of two groups in all formats, saved models, and runs of ``regress``."""

    names: ClassVar[list[str]] = ["job", "weight", "height"]

    def __init__(self, folder: Path, m: int = 120) -> None:
        super().__init__(folder, "fair.joblib")
        rng = np.random.default_rng(0)
        self.sex = np.where(rng.random(m) < 0.4, "f", "m")
        self.job = rng.choice(["clerk", "cook", "nurse"], m)
        self.X = (rng.normal(size=(m, 2)) + (self.sex == "m")[:, None]).round(3)
        self.y = (self.X.sum(axis=1) + (self.job == "cook")).round(3)
        height, weight = self.X.T
        columns = {"height": height, "job": self.job, "weight": weight}
        frame = pandas.DataFrame({**columns, "sex": self.sex, "wage": self.y})
        self.csv = folder / "wages.csv"
        frame.to_csv(self.csv, index=False)
        self.lines = self.csv.read_text().splitlines()
        self.npy, self.npz = self.save_arrays("wages", self.X)
        self.sexes = self.write("sexes.txt", self.sex)
        self.targets = self.write("targets.txt", self.y)

    @property
    def frame(self):
        """All columns, as pandas reads them."""
        return pandas.read_csv(self.csv)

    def save(self, model, name: str = "model.joblib") -> Path:
        joblib.dump(model, self.folder / name)
        return self.folder / name

    def regress(
        self, model, data=None, *options, target="wage", groups="sex"
    ) -> Result:
        arguments = ["regress", model, data or self.csv, "--groups", groups]
        arguments += [] if target is None else ["--target", target]
        return self.invoke(*arguments, "-o", self.output, *options)

    def regress_array(self, model, data=None, *options, **roles) -> Result:
        roles = {"target": self.targets, "groups": self.sexes, **roles}
        return self.regress(model, data or self.npy, *options, **roles)

    def refuses(self, result: Result, *words: str) -> None:
        """Check that the usage was wrong."""
        self.fails(result, *words, code=2)


def network(X, y, *before, seed: int = 0):
    """A network fitted to rows, behind other steps perhaps."""
    model = MLPRegressor(
        hidden_layer_sizes=(6, 4), solver="lbfgs", max_iter=30, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return make_pipeline(*before, model).fit(X, y) if before else model.fit(X, y)


@pytest.fixture
def on_a_terminal(monkeypatch):
    """Run the command in this process; return its exit code and what it shows."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments) -> tuple[int, str]:
        parent, child = pty.openpty()
        shown: list[bytes] = []

        def read() -> None:
            # Linux reports the end of a pseudo-terminal as an error.
            with contextlib.suppress(OSError):
                while chunk := os.read(parent, 4096):
                    shown.append(chunk)

        reader = threading.Thread(target=read)
        reader.start()
        with (
            open(child, "w") as screen,
            contextlib.redirect_stdout(screen),
            contextlib.redirect_stderr(screen),
            pytest.raises(SystemExit) as stopped,
        ):
            main([str(a) for a in arguments])
        reader.join()
        os.close(parent)
        return stopped.value.code, b"".join(shown).decode()

    return run


@pytest.fixture(scope="session")
def planted():
    likely = (0.9, 0.4, 0.35, 0.05)
    sizes = {"n_clusters": 3, "n_groups": 2, "probabilities": likely}
    return make_fair_sbm(90, **sizes, random_state=0)


@pytest.fixture
def workspace(tmp_path, planted):
    """Files of the planted graph; no result yet."""
    return Workspace(tmp_path, planted)


@pytest.fixture
def older(workspace):
    """The same, with an older result that a failing run must not touch."""
    workspace.keep_older()
    return workspace


@pytest.fixture
def with_rows(workspace):
    """Files of rows beside those of the graph; no result yet."""
    workspace.add_rows()
    return workspace


@pytest.fixture
def older_with_rows(older):
    """The same, with an older result."""
    older.add_rows()
    return older


@pytest.fixture
def components(tmp_path):
    """Files of rows and groups; no result yet."""
    return Components(tmp_path)


@pytest.fixture
def older_components(components):
    """The same, with an older result that a failing run must not touch."""
    components.keep_older()
    return components


@pytest.fixture(scope="session")
def train_network():
    """A function that fits a small network, quickly."""
    return network


@pytest.fixture(scope="session")
def plain_network(tmp_path_factory):
    """A network of the columns height and weight."""
    rows = Wages(tmp_path_factory.mktemp("plain"))
    return network(rows.X, rows.y, seed=2)


@pytest.fixture(scope="session")
def named_network(tmp_path_factory):
    """A pipeline of the columns job, weight and height by name."""
    rows = Wages(tmp_path_factory.mktemp("named"))
    encoder = make_column_transformer(
        (OneHotEncoder(), ["job"]), (StandardScaler(), ["weight", "height"])
    )
    return network(rows.frame[rows.names], rows.y, encoder, seed=2)


@pytest.fixture
def wages(tmp_path, plain_network, named_network):
    """Rows of wages, and two models of them; no result yet."""
    found = Wages(tmp_path)
    found.plain = found.save(plain_network, "plain.joblib")
    found.named = found.save(named_network, "named.joblib")
    return found


@pytest.fixture
def older_wages(wages):
    """The same, with an older model that a failing run must not touch."""
    wages.keep_older()
    return wages


@pytest.fixture
def interruptible():
    """Processes that are started take SIGINT, also where this one ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
