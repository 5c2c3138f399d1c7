"""
Rows and graphs in parts, with Dask
===================================

Where a matrix is expected, estimators take Dask collections: an array or data frame of
rows, or a list of delayed blocks of a sparse graph. The parts stay where they are, only
sums and thin blocks travel. The answers are those for data in memory, to rounding.
Here everything runs on the threads of this machine; with a ``distributed.Client`` it
runs on its workers. Needs ``pip install ".[dask]"``.
"""

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

from scalefair.cluster import FairSpectralClustering
from scalefair.datasets import make_fair_sbm, make_group_gaussians
from scalefair.decomposition import FairPCA

dask.config.set(scheduler="threads")

# %%
# Fair PCA of a Dask array
# ------------------------
# Six partitions of 10,000 rows.
rows = make_group_gaussians(60_000, 40, random_state=0)
X, X_groups = rows.data, rows.sensitive_features
X_parts = da.from_array(X, chunks=(10_000, 40))
sizes = range(1, 16)
losses = {"in memory": [], "in parts": []}
for r in sizes:
    for name, matrix in (("in memory", X), ("in parts", X_parts)):
        model = FairPCA(n_components=r, solver="gram")
        model.fit(matrix, sensitive_features=X_groups)
        losses[name].append(model.group_losses_.max())

# %%
# Fair clusters of a graph in blocks of rows
# ------------------------------------------
# Each block may come from a file of its own: ``dask.delayed(load)(number)``.
graph = make_fair_sbm(8000, n_clusters=8, n_groups=3, average_degree=30, random_state=0)
W, W_groups = graph.graph, graph.sensitive_features
blocks = [dask.delayed(W[start : start + 2000]) for start in range(0, 8000, 2000)]
fits = {}
for name, matrix in (("in memory", W), ("in parts", blocks)):
    # Labels that both can have: graphs in parts are not refined.
    options = {"tol": 1e-8, "refine": False, "random_state": 0}
    model = FairSpectralClustering(8, solver="chebyshev", **options)
    fits[name] = model.fit(matrix, sensitive_features=W_groups)
agree = np.mean(fits["in memory"].labels_ == fits["in parts"].labels_)
print(f"{agree:.1%} of the nodes have the same cluster")

# %%
# The same answers
# ----------------
eigenvalues = {name: model.eigenvalues_ for name, model in fits.items()}
figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
panels = (
    (axes[0], sizes, losses, "Fair PCA: losses"),
    (axes[1], range(1, 9), eigenvalues, "Fair clusters: eigenvalues"),
)
for ax, x, values, title in panels:
    memory, parts = (np.asarray(values[name]) for name in ("in memory", "in parts"))
    ax.plot(
        x, memory, "o", markersize=11, markerfacecolor="none", color="#0072B2",
        label="in memory",
    )  # fmt: skip
    ax.plot(x, parts, "x", markersize=6, color="#D55E00", label="in parts, by Dask")
    difference = np.abs(memory - parts).max() / np.abs(memory).max()
    ax.set_title(f"{title} differ\nby at most {difference:.0e} of the largest")
    ax.grid(color="0.9")
    ax.set_axisbelow(True)
axes[0].set(xlabel="number of components", ylabel="largest loss of a group, per row")
axes[1].set(xlabel="number of the eigenvalue", ylabel="eigenvalue on the fair subspace")
axes[1].legend(frameon=False)
plt.show()
