"""
Fair clusters in two dimensions
===============================

Two towns on a river. Most people of one group live north of the river, most of the
other south of it. Split in two, ordinary spectral clustering follows the river, and
so the groups. Fair spectral clustering finds the two towns instead.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import SpectralClustering

from scalefair.cluster import FairSpectralClustering
from scalefair.metrics import balance_score

# %%
# Two towns, a river
# ------------------
# The river is wider than the gap between the towns: it is the stronger structure.
rng = np.random.default_rng(0)
towns = np.array([(0.0, 0.0), (2.2, 0.0), (0.0, 3.0), (2.2, 3.0)])  # km
X = np.repeat(towns, 200, axis=0) + 0.6 * rng.standard_normal((800, 2))
north = X[:, 1] > 1.5
groups = np.where(rng.random(800) < np.where(north, 0.9, 0.1), "A", "B")

# %%
# The same Gaussian kernel, without and with fairness
# ---------------------------------------------------
ordinary = SpectralClustering(2, gamma=1.0, random_state=0).fit_predict(X)
fair = FairSpectralClustering(2, affinity="rbf", gamma=1.0, random_state=0)
fair = fair.fit_predict(X, sensitive_features=groups)

# %%
# Colours are clusters, markers are groups
# ----------------------------------------
# The balance is the smallest ratio of the groups' numbers within a cluster: 1 if they
# are equally many in each, 0 if some cluster lacks a group.
figure, axes = plt.subplots(
    1, 2, figsize=(8.6, 4.6), sharex=True, sharey=True, layout="constrained"
)
halves = {"by the river": north, "by town": np.repeat(towns[:, 0] > 0, 200)}


def agreement(labels, half):
    """Return the share of people whose cluster is that of their half."""
    share = np.mean(labels == half)
    return max(share, 1 - share)


panels = {"Ordinary": ordinary, "Fair": fair}
for ax, (method, labels) in zip(axes, panels.items(), strict=True):
    for cluster, color in enumerate(("#0072B2", "#E69F00")):
        for group, marker in (("A", "o"), ("B", "x")):
            rows = (labels == cluster) & (groups == group)
            ax.scatter(
                *X[rows].T,
                s=22,
                marker=marker,
                linewidths=1.0,
                facecolor=color if marker == "x" else "none",
                edgecolor=None if marker == "x" else color,
                label=f"cluster {cluster + 1}, group {group}",
            )
    balance = balance_score(labels, sensitive_features=groups)
    ax.axhspan(1.4, 1.6, color="0.85", zorder=0)  # the river
    agreements = {name: agreement(labels, half) for name, half in halves.items()}
    split = max(agreements, key=agreements.get)
    ax.set(
        title=f"{method}: {100 * agreements[split]:.1f} %\nare split {split},\n"
        f"balance {balance:.2f}",
        xlabel="east (km)",
        aspect="equal",
    )
axes[0].set_ylabel("north (km)")
figure.legend(
    *axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False
)
plt.show()

# %%
# To try: move the towns closer together (2.2 to 1.5), or ask for four clusters, with
# and without ``assign_labels="kmeans"``.
