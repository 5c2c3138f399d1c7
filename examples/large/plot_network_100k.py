"""
A network of 100,000 people
===========================

Twenty clusters of a network with a million and a half ties, in seconds.
The network is a stochastic block model. Its clusters hold all five groups alike, but
some are loose, and people of a group know each other wherever they are: ordinary
spectral clustering takes groups for clusters.
"""

import time

import matplotlib.pyplot as plt
from sklearn.cluster import KMeans

from scalefair.cluster import FairSpectralClustering
from scalefair.datasets import make_fair_sbm
from scalefair.linalg import chebyshev
from scalefair.metrics import balance_score
from scalefair.operators import NormalizedAffinity
from scalefair.plotting import ClusterCompositionDisplay

N_CLUSTERS, N_GROUPS = 20, 5
other_clusters, other_groups = N_CLUSTERS - 1, N_GROUPS - 1
data = make_fair_sbm(
    100_000,
    n_clusters=N_CLUSTERS,
    n_groups=N_GROUPS,
    average_degree=30,
    # Chances of a tie: same cluster and group, same group, same cluster, neither.
    probabilities=(
        0.36,
        0.34 / other_clusters,
        0.25 / other_groups,
        0.05 / (other_clusters * other_groups),
    ),
    cohesion=[0.4] * 5 + [1.0] * 15,
    random_state=0,
)
graph, groups = data.graph, data.sensitive_features
print(f"{graph.shape[0]:,} people, {graph.nnz // 2:,} ties")

# %%
# Without fairness: operator and solver are public
# ------------------------------------------------
# The first call of a method compiles its kernels; a small graph takes that out of the
# time.
small = make_fair_sbm(1000, n_clusters=4, n_groups=2, average_degree=40, random_state=0)
FairSpectralClustering(4, solver="chebyshev", random_state=0).fit(
    small.graph, sensitive_features=small.sensitive_features
)
start = time.perf_counter()
affinity = NormalizedAffinity(graph)
pairs = chebyshev(affinity, N_CLUSTERS, tol=1e-3, random_state=0)
rows = pairs.vectors * affinity.inv_sqrt_degrees[:, None]
ordinary = KMeans(N_CLUSTERS, n_init=3, random_state=0).fit_predict(rows)
seconds = {"Ordinary": time.perf_counter() - start}

# %%
# With fairness
# -------------
start = time.perf_counter()
model = FairSpectralClustering(
    N_CLUSTERS, tol=1e-3, n_init=3, connected_components="largest", random_state=0
)
model.fit(graph, sensitive_features=groups)
seconds["Fair"] = time.perf_counter() - start
labels = {"Ordinary": ordinary, "Fair": model.labels_}
for name, clusters in labels.items():
    balance = balance_score(clusters, sensitive_features=groups)
    print(f"{name:8s} {seconds[name]:5.1f} s, average balance {balance:.2f}")

# %%
# The groups in each cluster
# --------------------------
figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), sharey=True, layout="constrained")
for ax, (name, clusters) in zip(axes, labels.items(), strict=True):
    ClusterCompositionDisplay.from_predictions(
        clusters, sensitive_features=groups, ax=ax, name=name, legend=ax is axes[-1]
    )
    ax.set_title(f"{ax.get_title()}, {seconds[name]:.0f} s")
plt.show()

# %%
# To try: a million people; ``dtype="float32"``, which takes half the memory.
