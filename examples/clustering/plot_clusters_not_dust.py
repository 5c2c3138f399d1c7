"""
Clusters that are not dust
==========================

On real networks spectral clustering as published cuts off handfuls of people who are
linked to the others by one friend: no cut is cheaper. ``regularization``, by default,
spreads a tenth of an average person's ties over all people, so that tiny clusters are
expensive, and compares the rows of the embedding by their directions. Fair labels, also
the default, then give every cluster a good balance. The price of both is a larger cut.

First a made-up network with handfuls; then three real ones, LastFM (countries), Deezer
(gender) and Pokec (age), in ten clusters. They are computed where ``SCALEFAIR_DATA``
names their folder; elsewhere stored results are shown.
"""

import os
import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from scalefair import datasets
from scalefair.cluster import FairSpectralClustering
from scalefair.metrics import normalized_cut_score

VARIANTS = {
    "as published": {"regularization": 0, "assign_labels": "kmeans"},
    "regularised": {"assign_labels": "kmeans"},
    "regularised, fair labels": {},
}


def compare_variants(graph, groups, k):
    """Return sizes of clusters, their mean balance and their cut, for each variant."""
    results = {}
    for name, options in VARIANTS.items():
        model = FairSpectralClustering(k, random_state=0, tol=1e-3, **options)
        model.fit(graph, sensitive_features=groups)
        sizes = sorted(np.bincount(model.labels_).tolist())
        cut = normalized_cut_score(graph, model.labels_)
        balance = round(float(model.balance_.mean()), 3)
        results[name] = sizes, balance, round(cut, 2)
        print(f"{name:25s} balance {balance:.2f}, cut {cut:.2f}, sizes {sizes}")
    return results


# %%
# Handfuls on a thread
# --------------------
# Four planted clusters of 1,500 people, and eight handfuls of five. The estimator warns
# of clusters that small, and names the parameter.
data = datasets.make_fair_sbm(
    6000,
    n_clusters=4,
    n_groups=2,
    average_degree=20,
    probabilities=(0.47, 0.03, 0.43, 0.01),
    random_state=0,
)
cliques = np.kron(np.eye(8), np.ones((5, 5)) - np.eye(5))
graph = sparse.block_diag([data.graph, cliques], format="lil")
friends = np.random.default_rng(0).choice(6000, 8, replace=False)
members = 6000 + 5 * np.arange(8)
graph[friends, members] = graph[members, friends] = 1
groups = np.append(data.sensitive_features, np.arange(40) % 2)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    compare_variants(sparse.csr_array(graph), groups, 4)
print("Warning:", caught[0].message)

# %%
# Three networks of people
# ------------------------
STORED = {
    "LastFM": {
        "as published": ([5, 5, 5, 5, 6, 10, 13, 20, 91, 5416], 0.03, 0.79),
        "regularised": (
            [168, 282, 283, 356, 587, 616, 618, 643, 685, 1338],
            0.02,
            2.02,
        ),
        "regularised, fair labels": (
            [32, 32, 121, 288, 297, 504, 519, 557, 1148, 2078],
            0.33,
            5.65,
        ),
    },
    "Deezer": {
        "as published": ([21, 31, 31, 32, 32, 42, 52, 58, 8628, 19354], 0.71, 0.13),
        "regularised": (
            [130, 248, 260, 1064, 1785, 2210, 2284, 3028, 4702, 12570],
            0.72,
            2.06,
        ),
        "regularised, fair labels": (
            [131, 260, 263, 1013, 1787, 2209, 2321, 3028, 4825, 12444],
            0.79,
            2.16,
        ),
    },
    "Pokec": {
        "as published": ([3, 4, 5, 6, 8, 8, 9, 15, 24305, 43072], 0.04, 0.82),
        "regularised": (
            [3295, 4265, 4914, 5083, 5522, 7334, 7877, 8560, 10212, 10373],
            0.13,
            3.88,
        ),
        "regularised, fair labels": (
            [3539, 4407, 4823, 5619, 5673, 5758, 8648, 9261, 9313, 10394],
            0.17,
            4.34,
        ),
    },
}
results = STORED
if "SCALEFAIR_DATA" in os.environ:
    results = {}
    loaders = (
        datasets.fetch_lastfm_asia,
        datasets.fetch_deezer_europe,
        datasets.fetch_pokec,
    )
    for network, fetch in zip(STORED, loaders, strict=True):
        data = fetch(download_if_missing=False)
        component = connected_components(data.graph)[1]
        largest = component == np.bincount(component).argmax()
        print(network)
        with warnings.catch_warnings(action="ignore"):
            results[network] = compare_variants(
                data.graph[largest][:, largest], data.sensitive_features[largest], 10
            )

# %%
# Sizes, balance and cut
# ----------------------
colors_and_markers = ("#D55E00", "s"), ("#0072B2", "o"), ("black", "^")
styles = dict(zip(VARIANTS, colors_and_markers, strict=True))
figure, axes = plt.subplots(2, 3, figsize=(11, 6.4), layout="constrained")
for (ax_sizes, ax_cuts), network in zip(axes.T, results, strict=True):
    variants = results[network]
    for name, (sizes, balance, cut) in variants.items():
        color, marker = styles[name]
        ax_sizes.semilogy(range(1, 11), sizes, marker + "-", color=color, label=name)
        ax_cuts.plot(cut, balance, marker, color=color, markersize=9)
    smallest = {name: sizes[0] for name, (sizes, _, _) in variants.items()}
    ax_sizes.set(
        xlabel="cluster, by size",
        title=f"{network}: the smallest cluster\ngrows from "
        f"{smallest['as published']} to {smallest['regularised']} people",
    )
    ax_cuts.margins(0.12)
    ax_cuts.set(xlabel="normalised cut", ylim=(0, None), xlim=(0, None))
    for ax in (ax_sizes, ax_cuts):
        ax.grid(color="0.9")
        ax.set_axisbelow(True)
axes[0, 0].set_ylabel("people")
axes[1, 0].set_ylabel("average balance of the clusters")
figure.legend(
    *axes[0, 0].get_legend_handles_labels(),
    loc="outside lower center",
    ncols=3,
    frameon=False,
)
plt.show()
