"""
Fair clusters of 101,766 hospital encounters
============================================

Ten clusters of encounters with diabetic patients (130 US hospitals, 1999-2008),
from their 10-nearest-neighbour graph, so that every cluster mirrors the patients in
race or in age. The groups are not among the features, yet ordinary clusters can
follow them: ages differ in diagnoses and treatment, and a cluster may become "the
old". Run with the group as an argument::

    python examples/plot_patients_neighbors.py race
    python examples/plot_patients_neighbors.py age

The data are read from the folder named by ``SCALEFAIR_DATA`` or downloaded once.
Building the graph takes most of the time.
"""

import sys
import time

import numpy as np
from sklearn.cluster import KMeans

from scalefair.cluster import FairSpectralClustering
from scalefair.datasets import fetch_diabetes
from scalefair.linalg import chebyshev
from scalefair.metrics import (
    balance_score,
    group_proportions,
    normalized_cut_score,
)
from scalefair.operators import NormalizedAffinity

N_CLUSTERS = 10


def describe(name, graph, labels, groups):
    """Print how far the clusters are from the population, and their cut."""
    shares = np.unique(groups, return_counts=True)[1] / groups.size
    proportions = group_proportions(labels, sensitive_features=groups)
    distance = np.abs(proportions - shares).sum(axis=1) / 2  # total variation
    print(
        f"{name:14s} mean distance from the population {distance.mean():.3f}, "
        f"largest {distance.max():.3f}, "
        f"balance {balance_score(labels, sensitive_features=groups):.4f}, "
        f"normalised cut {normalized_cut_score(graph, labels):.3f}"
    )
    return proportions


# %%
# The graph and the fair clusters
# -------------------------------
sensitive = sys.argv[1] if len(sys.argv) > 1 else "race"
data = fetch_diabetes(sensitive=sensitive)
groups = np.asarray(data.sensitive_features)
start = time.perf_counter()
model = FairSpectralClustering(
    N_CLUSTERS,
    affinity="nearest_neighbors",
    n_neighbors=10,
    tol=1e-3,
    connected_components="largest",
    random_state=0,
)
model.fit(data.data, sensitive_features=groups)
graph = model.affinity_matrix_
print(
    f"{graph.shape[0]} encounters, {graph.nnz} stored entries, groups: {sensitive}; "
    f"graph and fair clusters in {time.perf_counter() - start:.1f} s "
    f"({model.solver_}, {model.n_products_} products, "
    f"|F^T H| = {model.fairness_violation_:.1e})"
)
fair = describe("fair", graph, model.labels_, groups)

# %%
# The same without fairness
# -------------------------
# The operator and the solver are public: without the constraints they give ordinary
# spectral clustering of the same graph.
affinity = NormalizedAffinity(graph)
pairs = chebyshev(affinity, N_CLUSTERS, tol=1e-3, random_state=0)
rows = pairs.vectors * affinity.inv_sqrt_degrees[:, None]
labels = KMeans(N_CLUSTERS, n_init=10, random_state=0).fit_predict(rows)
ordinary = describe("without", graph, labels, groups)

# %%
# A picture of it
# ---------------
# Needs matplotlib (``pip install "scalefair[plot]"``).
try:
    import matplotlib.pyplot as plt
except ImportError:
    sys.exit('for the figure: pip install "scalefair[plot]"')

names = np.unique(groups)
population = np.unique(groups, return_counts=True)[1] / groups.size
figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
limit = max(abs(fair - population).max(), abs(ordinary - population).max())
for ax, proportions, title in zip(
    axes, (ordinary, fair), ("Without fairness", "Fair"), strict=True
):
    distance = np.abs(proportions - population).sum(axis=1) / 2
    order = np.argsort(-distance)
    image = ax.imshow(
        (proportions - population)[order].T,
        cmap="PuOr",
        vmin=-limit,
        vmax=limit,
        aspect="auto",
    )
    ax.set_title(f"{title}:\nmean distance from the population {distance.mean():.3f}")
    ax.set_xlabel("cluster, least representative first")
    ax.set_xticks(range(N_CLUSTERS), range(1, N_CLUSTERS + 1))
    ax.set_yticks(range(names.size), names)
figure.colorbar(image, ax=axes, label="share in the cluster minus share of all")
figure.savefig(f"patients-{sensitive}.png", dpi=120)
print(f"figure: patients-{sensitive}.png")
