"""Workers in processes of their own: same answers, also when one is killed."""

import os
import signal
import threading
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LinearRegression

from scalefair.cluster import FairSpectralClustering
from scalefair.datasets import make_biased_rows, make_fair_sbm
from scalefair.decomposition import FairPCA
from scalefair.files import open_rows
from scalefair.linear_model import PartiallyFairClassifier
from scalefair.operators import GroupCovariance, PartitionedMatrix
from scalefair.postprocessing import ExplainableSVDRegressor
from scalefair.streaming import GroupMoments, PartitionedRows
from scalefair.streaming._dask import DaskParts

from ..conftest import delayed_blocks

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

pytestmark = [
    pytest.mark.distributed,
    # What distributed and its event loop leave behind is not ours.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
    DaskParts._client = None  # later tests compute in this process


# Before any other, while no workers are kept.
def test_a_closed_scheduler_is_no_fit_on_threads(monkeypatch):
    monkeypatch.setattr(DaskParts, "_client", None)
    X, groups = np.eye(100, 3), np.repeat(["a", "b"], 50)
    options = {"n_workers": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster):
        rows = PartitionedRows.of(da.from_array(X, chunks=(40, 3)))
    message = r"scheduler at .* is closed\. Make a new"
    for lost in (rows, da.from_array(X, chunks=(40, 3))):  # kept by its workers; anew
        with pytest.raises(RuntimeError, match=message):
            FairPCA(1).fit(lost, sensitive_features=groups)
    with dask.config.set(scheduler="threads"):
        FairPCA(1).fit(da.from_array(X, chunks=(40, 3)), sensitive_features=groups)


def cut(X, n_parts=5):
    return delayed_blocks(X, np.linspace(0, X.shape[0], n_parts + 1).astype(int))


def table(m=1000, n=12):
    rng = np.random.default_rng(0)
    groups = rng.choice(["a", "b"], m)
    X = rng.standard_normal((m, n)) * np.linspace(1, 3, n)
    X[groups == "b"] *= np.linspace(2, 1, n)
    return X, groups


@pytest.mark.parametrize("solver", ["gram", "matrix_free"])
def test_fair_pca(client, solver):
    X, groups = table()
    options = {"solver": solver, "random_state": 0, "tol": 1e-6}
    local = FairPCA(2, **options).fit(X, sensitive_features=groups)
    remote = FairPCA(2, **options).fit(
        da.from_array(X, chunks=(200, 12)),
        sensitive_features=da.from_array(groups, chunks=300),
    )
    np.testing.assert_allclose(remote.group_losses_, local.group_losses_, rtol=1e-8)
    Z = remote.transform(da.from_array(X, chunks=(200, 12)))
    np.testing.assert_allclose(abs(Z.compute()), abs(local.transform(X)), atol=1e-6)


def test_fair_spectral_clustering(client):
    sizes = {"n_clusters": 3, "n_groups": 2, "average_degree": 40}
    data = make_fair_sbm(400, **sizes, random_state=0)
    # Graphs in parts are not refined.
    model = FairSpectralClustering(3, random_state=0, tol=1e-2, refine=False)
    W, groups = sparse.csr_array(data.graph), data.sensitive_features
    labels = model.fit(W, sensitive_features=groups).labels_
    model.fit(cut(W), sensitive_features=groups)
    assert np.array_equal(model.labels_, labels)


def test_exchange_of_needed_rows(client):
    ring = sparse.eye_array(100, k=1) + sparse.eye_array(100, k=-99)
    W = sparse.csr_array(ring + ring.T)
    A = PartitionedMatrix(cut(W), exchange="needed")
    X = np.random.default_rng(0).standard_normal((100, 2))
    np.testing.assert_allclose(A @ X, W @ X, atol=1e-14)


def test_partially_fair_classification(client):
    data = make_biased_rows(600, 3, random_state=0)
    options = {"criterion": "weak", "interactions": False, "surrogate_width": 1.0}
    model = PartiallyFairClassifier((0.1, 0.6), 0.9, start="zero", tol=1e-2, **options)
    arguments = {"y": data.target, "sensitive_features": data.sensitive_features}
    local = model.fit(data.data, **arguments).objective_
    remote = model.fit(cut(data.data, 2), **arguments)
    assert remote.converged_
    assert remote.objective_ == pytest.approx(local, abs=1e-2)


def test_fair_regression(client):
    X, groups = table()
    y = X @ np.arange(12.0) + (groups == "b")
    network = LinearRegression().fit(X, y)
    local = ExplainableSVDRegressor(network).fit(X, y, sensitive_features=groups)
    remote = ExplainableSVDRegressor(network).fit(cut(X), y, sensitive_features=groups)
    np.testing.assert_allclose(remote.predict(X), local.predict(X), rtol=1e-8)


def test_large_blocks_are_no_reason_for_a_warning(client):
    W = sparse.eye_array(2**20, format="csr")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        A = PartitionedMatrix(cut(W, 2))
        X = np.ones((2**20, 2))  # 16 MiB
        assert np.array_equal(A @ X, X)


def test_errors_name_the_partition(client):
    X, groups = table()
    X[700, 3] = np.nan
    with pytest.raises(ValueError, match=r"Partition 3 of X, rows 600 to 799.*NaN"):
        GroupMoments.from_data(cut(X), groups)


def test_another_scalefair_elsewhere(client, monkeypatch):
    X, groups = table(100, 3)
    monkeypatch.setattr(DaskParts, "_client", None)
    hide = "import sys; sys.kept, sys.modules['scalefair'] = scalefair, None"
    client.run(exec, f"import scalefair; {hide}")
    try:
        with pytest.raises(RuntimeError, match=r"tcp://.* has ModuleNotFoundError"):
            FairPCA(1).fit(cut(X), sensitive_features=groups)
    finally:
        client.run(exec, "import sys; sys.modules['scalefair'] = sys.kept")
    monkeypatch.setattr("scalefair.streaming._dask.__version__", "0")
    with pytest.raises(RuntimeError, match=r"need scalefair 0.* the scheduler has '"):
        FairPCA(1).fit(cut(X), sensitive_features=groups)


def kill_one(client):
    """Kill a worker that keeps partitions, without notice."""
    os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)


def test_a_lost_worker_between_products(client, tmp_path):
    """Another one reads its blocks of the file again."""
    X, groups = table()
    np.save(tmp_path / "X.npy", X)
    reader = open_rows(tmp_path / "X.npy", max_bytes=2**14)
    rows = PartitionedRows.of(reader.delayed())
    assert len(rows.parts) > 3
    _, codes = rows.encode(groups, name="groups", noun="group")
    C = GroupCovariance(rows, codes, [0.5, 0.5])
    V = np.random.default_rng(1).standard_normal((12, 2))
    before = C @ V
    kill_one(client)
    assert np.array_equal(C @ V, before)
    codes = (groups == "b").astype(int)
    expected = GroupCovariance(X, codes, [0.5, 0.5]) @ V
    np.testing.assert_allclose(before, expected, rtol=1e-10)


def test_a_lost_worker_in_mid_fit(client):
    """Its blocks come from the memory of this process again."""
    X, groups = table()
    options = {"solver": "matrix_free", "random_state": 0}
    local = FairPCA(3, **options).fit(X, sensitive_features=groups)
    killed = []

    def kill(*_):
        kill_one(client)
        killed.append(True)

    timer = threading.Timer(0.5, kill)
    timer.start()
    remote = FairPCA(3, **options).fit(cut(X), sensitive_features=groups)
    timer.join()
    assert killed
    np.testing.assert_allclose(remote.group_losses_, local.group_losses_, rtol=1e-8)
