"""FairSpectralClustering promises the same result for any number of threads."""

import os
import subprocess
import sys

# The number of threads is fixed when Numba is imported, and may be lowered later.
SCRIPT = """
import numba, numpy as np
from threadpoolctl import threadpool_limits
from scalefair.cluster import FairSpectralClustering
from scalefair.datasets import make_fair_sbm

data = make_fair_sbm(6000, n_clusters=4, n_groups=2, random_state=0)
assert numba.config.NUMBA_NUM_THREADS == 8
fitted = []
for threads in (1, 2, 8):
    numba.set_num_threads(threads)
    model = FairSpectralClustering(4, random_state=0)
    with threadpool_limits(threads, user_api="blas"):
        model.fit(data.graph, sensitive_features=data.sensitive_features)
    fitted.append(model)
first, *others = fitted
scale = abs(first.embedding_).max()
for other in others:
    assert np.array_equal(other.labels_, first.labels_)
    print(abs(other.embedding_ - first.embedding_).max() / scale)
    print(abs(other.eigenvalues_ - first.eigenvalues_).max())
"""


def test_one_two_and_eight_threads():
    environment = {**os.environ, "NUMBA_NUM_THREADS": "8"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    differences = [float(line) for line in done.stdout.split()]
    assert len(differences) == 4
    assert max(differences) <= 1e-12
