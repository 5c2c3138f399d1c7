"""A cluster that has closed is an error, not a fit in this process."""

import numpy as np
import pytest

from scalefair.decomposition import FairPCA
from scalefair.streaming import PartitionedRows
from scalefair.streaming._dask import DaskParts

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


def test_a_closed_scheduler_is_no_fit_on_threads(monkeypatch):
    monkeypatch.setattr(DaskParts, "_client", None)
    X, groups = np.eye(100, 3), np.repeat(["a", "b"], 50)
    options = {"n_workers": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster):
        rows = PartitionedRows.of(da.from_array(X, chunks=(40, 3)))
    for lost in (
        rows,
        da.from_array(X, chunks=(40, 3)),
    ):  # kept by its workers, and computed anew
        with pytest.raises(
            RuntimeError, match=r"scheduler at .* is closed\. Make a new"
        ):
            FairPCA(1).fit(lost, sensitive_features=groups)
    with dask.config.set(scheduler="threads"):
        FairPCA(1).fit(da.from_array(X, chunks=(40, 3)), sensitive_features=groups)
