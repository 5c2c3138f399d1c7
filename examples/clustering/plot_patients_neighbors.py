"""
Fair clusters of hospital stays
===============================

Ten clusters of 15,000 hospital stays of patients with diabetes, from their nearest
neighbours in diagnoses and treatment. Age is not among the features, yet ordinary
clusters follow it: ages differ in what they are treated for. The fair embedding is
fair, but k-means loses nearly all of that: its clusters are hardly fairer than ordinary
ones. With fair labels, the default, every cluster has the ages of all stays, to a
tolerance, at a larger cut.

The stays are a sample of those of 130 US hospitals (1999-2008), read from the folder
named by ``SCALEFAIR_DATA``. Where they are not, made-up stays take their place, and the
figure shows beside them what the real ones gave; ``fetch_diabetes(sensitive="age")``
downloads those.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.cluster import KMeans

from scalefair.cluster import FairSpectralClustering
from scalefair.datasets import fetch_diabetes
from scalefair.linalg import chebyshev
from scalefair.metrics import group_proportions, normalized_cut_score
from scalefair.operators import NormalizedAffinity

N_STAYS, N_CLUSTERS = 15_000, 10
BANDS = ("under 40", "40 to 59", "60 to 79", "80 or more")
rng = np.random.default_rng(0)

# Real stays, computed by this script on 2026-11-23: percent of a cluster that are too
# many of some age, and the normalised cut.
STORED = {
    "Ordinary": (10.2, 1.44),
    "Fair, k-means": (9.8, 1.36),
    "Fair labels": (3.3, 1.90),
}


def made_up_stays(n_diagnoses=30):
    """Diagnoses, each more frequent at some ages than at others."""
    typical_age = rng.normal(65, 8, n_diagnoses)
    diagnosis = rng.integers(n_diagnoses, size=N_STAYS)
    age = np.clip(rng.normal(typical_age[diagnosis], 14), 1, 99)
    X = rng.normal(0, 1.2, (n_diagnoses, 8))[diagnosis]
    return X + rng.normal(size=(N_STAYS, 8)), age


# %%
# Stays in four bands of age
# --------------------------
made_up = False
try:
    data = fetch_diabetes(sensitive="age", download_if_missing=False)
    rows = np.sort(rng.choice(len(data.data), N_STAYS, replace=False))
    X = data.data[rows]
    decades = np.asarray(data.sensitive_features)[rows]  # such as "[70-80)"
    age = np.array([int(decade[1:].split("-")[0]) for decade in decades])
except (OSError, ImportError):
    made_up = True
    X, age = made_up_stays()
groups = np.digitize(age, [40, 60, 80])  # index into BANDS

# %%
# The graph and the fair clusters
# -------------------------------
model = FairSpectralClustering(
    N_CLUSTERS,
    affinity="nearest_neighbors",
    n_neighbors=10,
    regularization=0,
    tol=1e-3,
    assign_labels="kmeans",
    connected_components="largest",
    random_state=0,
)
model.fit(X, sensitive_features=groups)
rounded = clone(model).set_params(assign_labels="fair", balance_tolerance=0.1)
rounded.fit(X, sensitive_features=groups)
is_clustered = model.labels_ >= 0
graph = model.affinity_matrix_[is_clustered][:, is_clustered]
print(
    f"{is_clustered.sum()} stays, {graph.nnz // 2} pairs of neighbours, {model.solver_}"
)

# %%
# The same graph without fairness
# -------------------------------
# Without the constraints the same operator and solver give ordinary spectral
# clustering.
affinity = NormalizedAffinity(graph)
pairs = chebyshev(affinity, N_CLUSTERS, tol=1e-3, random_state=0)
embedding = pairs.vectors * affinity.inv_sqrt_degrees[:, None]
ordinary = KMeans(N_CLUSTERS, n_init=10, random_state=0).fit_predict(embedding)
partitions = {
    "Ordinary": ordinary,
    "Fair, k-means": model.labels_[is_clustered],
    "Fair labels": rounded.labels_[is_clustered],
}

# %%
# Which clusters hold more of an age than there is
# ------------------------------------------------
population = np.bincount(groups[is_clustered], minlength=4) / is_clustered.sum()
excess = {
    name: group_proportions(labels, sensitive_features=groups[is_clustered])
    - population
    for name, labels in partitions.items()
}
limit = 100 * max(np.abs(values).max() for values in excess.values())
figure, axes = plt.subplots(1, 3, figsize=(10.5, 4), sharey=True, layout="constrained")
for ax, (name, values) in zip(axes, excess.items(), strict=True):
    distance = np.abs(values).sum(axis=1) / 2  # total variation
    cut = normalized_cut_score(graph, partitions[name])
    image = ax.imshow(
        100 * values[np.argsort(-distance)].T,
        cmap="PuOr",
        vmin=-limit,
        vmax=limit,
        aspect="auto",
    )
    title = f"{name}: {100 * distance.mean():.1f} %, cut {cut:.2f}"
    if made_up:
        title += "\nreal stays: {:.1f} %, cut {:.2f}".format(*STORED[name])
    ax.set(
        title=title,
        xlabel="cluster, least fair first",
        xticks=range(N_CLUSTERS),
        xticklabels=range(1, N_CLUSTERS + 1),
    )
axes[0].set(yticks=range(4), yticklabels=BANDS, ylabel="age (years)")
figure.colorbar(
    image, ax=axes, label="share in the cluster less\nshare of all (percentage points)"
)
figure.suptitle(
    f"{'Made-up' if made_up else 'Real'} stays: how much of a cluster is too many of "
    "some age, and the normalised cut"
)
plt.show()

# %%
# To try: all 101,766 stays (most of the time is then the graph's, unless
# ``pip install ".[neighbors]"`` finds neighbours approximately), or
# ``sensitive="race"``.
