"""
Balance against the number of clusters
======================================

The fair embedding satisfies its constraint to rounding for any number of clusters k.
Its clusters by k-means do not: the more clusters, the more balance is lost. Fair
labels, the default, keep the balance.
"""

import matplotlib.pyplot as plt
from sklearn.cluster import SpectralClustering

from scalefair.cluster import FairSpectralClustering
from scalefair.datasets import make_fair_sbm
from scalefair.metrics import balance_score, normalized_cut_score

data = make_fair_sbm(900, n_clusters=6, n_groups=2, average_degree=24, random_state=2)
graph, groups = data.graph, data.sensitive_features
SIZES = (2, 4, 6, 8, 11, 15)

# %%
# Three ways to cluster, six numbers of clusters
# ------------------------------------------------
balances, cuts = {}, {}
for k in SIZES:
    partitions = {
        "ordinary": SpectralClustering(
            k, affinity="precomputed", random_state=0
        ).fit_predict(graph),
    }
    for name, assign_labels in (("fair, k-means", "kmeans"), ("fair labels", "fair")):
        model = FairSpectralClustering(k, assign_labels=assign_labels, random_state=0)
        partitions[name] = model.fit_predict(graph, sensitive_features=groups)
    for name, labels in partitions.items():
        balance = balance_score(labels, sensitive_features=groups)
        balances.setdefault(name, []).append(balance)
        cuts.setdefault(name, []).append(normalized_cut_score(graph, labels) / k)

# %%
# Balance and cut
# ---------------
styles = {
    "ordinary": {"color": "#D55E00", "marker": "s", "linestyle": "--"},
    "fair, k-means": {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    "fair labels": {"color": "black", "marker": "^", "linestyle": ":"},
}
figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
for name, style in styles.items():
    axes[0].plot(SIZES, balances[name], label=name, **style)
    axes[1].plot(SIZES, cuts[name], label=name, **style)
axes[0].axvline(6, color="0.8", linewidth=6, zorder=0)
axes[0].set(
    xlabel="number of clusters k (6 are planted)",
    ylabel="average balance of the clusters",
    ylim=(-0.03, 1.03),
    title=f"At k = {SIZES[-1]} k-means in the fair embedding has\n"
    f"a balance of {balances['fair, k-means'][-1]:.2f}, fair labels one of "
    f"{balances['fair labels'][-1]:.2f}",
)
excess = max(
    fair / plain - 1
    for fair, plain in zip(cuts["fair labels"], cuts["fair, k-means"], strict=True)
)
axes[1].set(
    xlabel="number of clusters k",
    ylabel="normalised cut per cluster",
    title=f"Fair labels cut at most {100 * excess:.0f} % more\n"
    "than k-means in the fair embedding",
)
for ax in axes:
    ax.set_xticks(SIZES)
    ax.grid(color="0.9")
    ax.set_axisbelow(True)
figure.legend(
    *axes[1].get_legend_handles_labels(), loc="outside right upper", frameon=False
)
plt.show()
