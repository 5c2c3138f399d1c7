"""Small problems in files, and a command line to run on them."""

import contextlib
import gzip
import io
import json
import warnings
from functools import partial
from pathlib import Path
from typing import ClassVar

import joblib
import numpy as np
import pandas
import pytest
from click.testing import CliRunner, Result
from scipy import sparse
from scipy.io import mmwrite
from sklearn.compose import make_column_transformer
from sklearn.datasets import dump_svmlight_file
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from scalefair.cli import main
from scalefair.cluster import FairSpectralClustering
from scalefair.datasets import make_fair_sbm
from scalefair.decomposition import FairPCA
from scalefair.files._tables import FLOAT_OPTIONS
from scalefair.linear_model import PartiallyFairClassifier
from scalefair.postprocessing import ExplainableSVDRegressor

OLD = b"id,label\nan older result\n"


def ran(result: Result, message: str = "") -> None:
    """Check that a run printed nothing, and said nothing but a note perhaps."""
    assert (result.exit_code, result.stdout) == (0, ""), result.output
    assert message in result.stderr
    assert bool(message) == bool(result.stderr)


class Runs:
    """A folder with an older result, and runs of a command that writes a newer one."""

    estimator: type

    def __init__(self, folder: Path, output: str) -> None:
        self.folder = folder
        self.output = folder / output
        self.output.write_bytes(OLD)
        self.report = folder / "report.json"

    def write(self, path: Path | str, lines) -> Path:
        path = self.folder / path
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    def save(self, frame, name: str, **options) -> Path:
        frame.to_csv(self.folder / name, index=False, **options)
        return self.folder / name

    def save_arrays(self, name: str, X) -> tuple[Path, Path]:
        """Save rows densely, and as a sparse matrix."""
        dense, compressed = self.folder / f"{name}.npy", self.folder / f"{name}.npz"
        np.save(dense, X)
        sparse.save_npz(compressed, sparse.csr_array(X))
        return dense, compressed

    def invoke(self, *arguments) -> Result:
        self.before = self.written()
        return CliRunner().invoke(main, [str(a) for a in arguments])

    def written(self) -> list[bytes]:
        paths = (self.output, self.report)
        return [path.read_bytes() for path in paths if path.exists()]

    def run(self, data=None, *options, **roles) -> Result:
        """Run the command of these files."""
        return self.invoke(*self.line(data, *options, **roles))

    def done(self, *arguments, message: str = "", **roles) -> dict:
        """Run it, with nothing to be said but a note perhaps; what it reports."""
        ran(self.run(*arguments, "--report", self.report, **roles), message)
        return self.read_report()

    def evaluate(self, *arguments, message: str = "") -> dict:
        """Measure a table; the report, which goes to stdout."""
        result = self.invoke("evaluate", *arguments, "--report", "-")
        assert result.exit_code == 0, result.output
        assert message in result.stderr
        assert bool(message) == bool(result.stderr)
        return json.loads(result.stdout)

    def run_predict(self, table, *options) -> Result:
        path = self.folder / "scores.csv"
        return self.invoke("predict", self.output, table, "-o", path, *options)

    def predict(self, *arguments) -> pandas.DataFrame:
        """What the model in the output says of the rows of a table."""
        ran(self.run_predict(*arguments))
        return pandas.read_csv(self.folder / "scores.csv", **FLOAT_OPTIONS)

    def read_report(self) -> dict:
        def refuse(constant):
            raise AssertionError(f"{constant} is not strict JSON")

        return json.loads(self.report.read_text(), parse_constant=refuse)

    def fails(self, result: Result, *fragments: str, code: int = 1) -> str:
        """Check that a run failed as it must and wrote nothing; what it said."""
        assert result.exit_code == code, result.output
        assert result.stdout == ""
        assert "Traceback" not in result.output
        message = " ".join(result.stderr.split())
        if code != 2:  # click shows the usage above the error
            assert message.startswith("error: ")
            assert len(result.stderr.splitlines()) == 1
        for fragment in fragments:
            assert str(fragment) in message
        assert self.written() == self.before
        assert list(self.folder.glob(".*.tmp")) == []
        return message


# Few neighbours leave the two groups of points apart, many join them.
AFFINITIES = {
    "nearest_neighbors": ("--n-neighbors", 40),
    "rbf": ("--gamma", 0.1),
    "rbf_nystroem": ("--gamma", 0.1, "--n-landmarks", 20),
}


class Graph(Runs):
    """Files of one graph, of rows beside it, and runs of ``cluster`` on them."""

    estimator = FairSpectralClustering

    def __init__(self, folder: Path, data) -> None:
        super().__init__(folder, "labels.csv")
        self.data = data
        self.npz = folder / "graph.npz"
        self.mtx = folder / "graph.mtx"
        sparse.save_npz(self.npz, data.graph)
        mmwrite(self.mtx, sparse.coo_matrix(data.graph))
        self.pairs = np.transpose(sparse.triu(data.graph).nonzero()).tolist()
        edges = ["node_1,node_2", *(f"{i},{j}" for i, j in self.pairs)]
        self.edges = self.write("graph.csv", edges)
        groups = [f"{i},g{g}" for i, g in enumerate(data.sensitive_features)]
        self.groups = self.write("groups.csv", ["id,group", *groups])
        # Rows: two far groups of points, each half f and half m, in several formats.
        rng = np.random.default_rng(0)
        self.target = np.repeat([0, 1], 30)
        self.X = rng.normal(size=(60, 2)) + 6 * self.target[:, None]
        self.npy, self.sparse_rows = self.save_arrays("rows", self.X)
        frame = pandas.DataFrame(self.X, columns=["height", "weight"])
        self.table = self.save(frame, "rows.csv")
        self.sex = np.tile(["f", "m"], 30)
        self.frame = frame.assign(sex=self.sex)
        self.sexes = self.write("sexes.txt", self.sex)

    def line(self, graph=None, *options, groups=None, k=3) -> list:
        arguments = ["cluster", graph or self.edges, "--groups", groups or self.groups]
        return [*arguments, "-k", k, "-o", self.output, *options]

    def cluster_rows(self, rows, affinity, *options, k=2, groups=None) -> Result:
        groups = groups or self.sexes
        return self.run(rows, "--affinity", affinity, *options, k=k, groups=groups)

    def labels(self) -> dict[str, int]:
        frame = pandas.read_csv(self.output, dtype={"id": str}, keep_default_na=False)
        assert frame.columns.tolist() == ["id", "label"]
        return dict(zip(frame["id"], frame["label"].tolist(), strict=True))


class Table(Runs):
    """Rows of two groups in all formats, with a target perhaps."""

    target: str | None = None

    def __init__(self, folder: Path, output: str, X, **columns) -> None:
        super().__init__(folder, output)
        self.X, self.frame = X, pandas.DataFrame(columns)
        self.sex = self.frame["sex"].to_numpy()
        self.csv = self.save(self.frame, "rows.csv")
        self.lines = self.csv.read_text().splitlines()
        self.npy, self.npz = self.save_arrays("rows", X)
        self.sexes = self.write("sexes.txt", self.sex)
        self.files = {"groups": self.sexes}
        if self.target:
            self.y = self.frame[self.target].to_numpy()
            self.targets = self.write("targets.txt", self.y)
            self.files["target"] = self.targets

    def edited(self, row: int, column: str, value) -> Path:
        """A table in which a cell is changed; it is on the line ``row + 2``."""
        frame = self.frame.astype(object)
        frame.loc[row, column] = value
        return self.save(frame, "edited.csv")

    def stored(self, kind: str) -> tuple[Path, dict]:
        """The rows in a format, and the options that name their roles."""
        if kind in ("npy", "npz"):
            return getattr(self, kind), self.files
        path = self.folder / f"stored {kind}"
        roles = dict(zip(self.files, ("sex", self.target), strict=False))
        if kind == "packed":
            path.write_bytes(gzip.compress(self.csv.read_bytes()))
        elif kind == "parquet":
            path = path.with_suffix(".parquet")
            self.frame.to_parquet(path)
        elif kind == "no header":
            self.save(self.frame, path.name, sep="\t", header=False)
            names = list(self.frame)
            roles = {role: str(1 + names.index(x)) for role, x in roles.items()}
        elif kind == "files":
            self.save(self.frame.drop(columns=list(roles.values())), path.name)
            roles = self.files
        else:
            path = self.csv
        return path, roles


class Components(Table):
    """Rows of two groups, and runs of ``pca`` on them."""

    estimator = FairPCA
    names: ClassVar[list[str]] = ["height", "weight", "age", "income", "steps"]

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(0)
        sex = np.array(["f"] * 70 + ["m"] * 50)[rng.permutation(120)]
        scales = np.where(sex[:, None] == "f", [5, 4, 3, 2, 1], [1, 2, 3, 4, 5])
        X = rng.normal(size=(120, 5)) * scales + [1, 0, 50, 3, 0]
        X[rng.random(X.shape) < 0.2] = 0
        columns = dict(zip(self.names, X.T, strict=True))
        super().__init__(folder, "components.npz", X, sex=sex, **columns)
        self.scores = folder / "scores.npy"

    def line(self, data=None, *options, groups="sex", r=2) -> list:
        arguments = ["pca", data or self.csv, "--groups", groups, "-r", r]
        return [*arguments, "-o", self.output, *options]

    def arrays(self) -> dict:
        with np.load(self.output, allow_pickle=False) as file:
            return dict(file)


JOBS = ["clerk", "cook", "nurse"]


class People(Table):
    """Rows of two groups with words, and runs of ``classify`` on them."""

    estimator, target = PartiallyFairClassifier, "hired"

    def __init__(self, folder: Path, m: int = 240) -> None:
        rng = np.random.default_rng(0)
        sex, job = np.where(rng.random(m) < 0.4, "f", "m"), rng.choice(JOBS, m)
        X = rng.normal(size=(m, 2)).round(3) + 0.5 * (sex == "m")[:, None]
        score = X.sum(axis=1) + (job == "cook") + rng.normal(size=m)
        hired = np.where(score > 0.7, "yes", "no")
        columns = {"height": X[:, 0], "job": job, "weight": X[:, 1], "sex": sex}
        X = np.column_stack([X, *(job == name for name in JOBS)])
        super().__init__(folder, "model.joblib", X, **columns, hired=hired)
        self.svm = folder / "people.svm"
        X = np.column_stack([X, sex == "f"])
        signs = np.where(hired == "yes", 1, -1)
        dump_svmlight_file(X, signs, str(self.svm), zero_based=False)

    def line(self, data=None, *options, target="hired", groups="sex") -> list:
        arguments = ["classify", data or self.csv, "--groups", groups]
        arguments += [] if target is None else ["--target", target]
        arguments += ["--interval", "0.1,0.6", "--kappa", "0.2", "-o", self.output]
        return [*arguments, *options]


class Wages(Table):
    """Rows of two groups with words, saved models, and runs of ``regress``."""

    estimator, target = ExplainableSVDRegressor, "wage"
    names: ClassVar[list[str]] = ["job", "weight", "height"]

    def __init__(self, folder: Path, m: int = 120) -> None:
        rng = np.random.default_rng(0)
        sex, job = np.where(rng.random(m) < 0.4, "f", "m"), rng.choice(JOBS, m)
        X = (rng.normal(size=(m, 2)) + (sex == "m")[:, None]).round(3)
        wage = (X.sum(axis=1) + (job == "cook")).round(3)
        columns = {"height": X[:, 0], "job": job, "weight": X[:, 1], "sex": sex}
        super().__init__(folder, "fair.joblib", X, **columns, wage=wage)

    def dump(self, model, name: str = "model.joblib") -> Path:
        joblib.dump(model, self.folder / name)
        return self.folder / name

    def line(
        self, data=None, *options, model=None, target="wage", groups="sex"
    ) -> list:
        arguments = ["regress", model or self.named, data or self.csv]
        arguments += ["--groups", groups, "-o", self.output]
        arguments += [] if target is None else ["--target", target]
        return [*arguments, *options]


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

    class Screen(io.StringIO):
        isatty = partial(bool, True)

    def run(*arguments) -> tuple[int, str]:
        screen = Screen()
        with (
            contextlib.redirect_stdout(screen),
            contextlib.redirect_stderr(screen),
            pytest.raises(SystemExit) as stopped,
        ):
            main([str(a) for a in arguments])
        return stopped.value.code, screen.getvalue()

    return run


@pytest.fixture(scope="session")
def planted():
    likely = (0.9, 0.4, 0.35, 0.05)
    sizes = {"n_clusters": 3, "n_groups": 2, "probabilities": likely}
    return make_fair_sbm(90, **sizes, random_state=0)


@pytest.fixture
def workspace(tmp_path, planted):
    """Files of the planted graph."""
    return Graph(tmp_path, planted)


@pytest.fixture(params=["csv", "packed", "parquet", "no header", "files", "npy", "npz"])
def source(request):
    """A format in which rows of tables can be stored."""
    return request.param


@pytest.fixture
def components(tmp_path):
    """Files of rows and groups."""
    return Components(tmp_path)


@pytest.fixture
def people(tmp_path):
    """Files of rows, groups and labels."""
    return People(tmp_path)


@pytest.fixture
def command(request):
    """The files of the command that is the parameter, and runs of it on them."""
    names = {"cluster": "workspace", "pca": "components", "classify": "people"}
    return request.getfixturevalue({**names, "regress": "wages"}[request.param])


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
    """Files of rows, groups and wages, and two models of them."""
    wages_runs = Wages(tmp_path)
    wages_runs.plain = wages_runs.dump(plain_network, "plain.joblib")
    wages_runs.named = wages_runs.dump(named_network, "named.joblib")
    return wages_runs
