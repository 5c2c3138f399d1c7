"""The figure of the paper: python paper/figure.py writes paper/figure.png.

Made-up data, drawn anew; the times are those of docs/images/graph_sizes.csv.
"""

from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd

matplotlib.use("agg")

import matplotlib.pyplot as plt
from sklearn.cluster import SpectralClustering
from sklearn.linear_model import LogisticRegression

from scalefair.cluster import FairSpectralClustering
from scalefair.datasets import make_biased_rows, make_fair_sbm
from scalefair.plotting import ClusterCompositionDisplay
from scalefair.postprocessing import FairCalibratedClassifier

PAPER = Path(__file__).parent
COLORS = ("#0072B2", "#D55E00")

figure, axes = plt.subplots(1, 4, figsize=(10.5, 2.9), layout="constrained")

# Clusters of the network of the README.
network = make_fair_sbm(
    2000,
    n_clusters=4,
    n_groups=2,
    probabilities=(0.06, 0.04, 0.02, 0.01),
    random_state=0,
)
groups = np.where(np.asarray(network.sensitive_features) == 0, "A", "B")
plain = SpectralClustering(4, affinity="precomputed", random_state=0)
fair = FairSpectralClustering(4, random_state=0)
labels = {
    "spectral clustering": plain.fit(network.graph).labels_,
    "fair, default": fair.fit(network.graph, sensitive_features=groups).labels_,
}
for ax, (name, clusters) in zip(axes, labels.items(), strict=False):
    ClusterCompositionDisplay.from_predictions(
        clusters, sensitive_features=groups, ax=ax, name=name, legend=False
    )

# Shares of the groups above each threshold, on rows that were not seen in the fit.
data = make_biased_rows(20_000, random_state=0)
parts = data.data, data.target, np.asarray(data.sensitive_features)
(X, X_test), (y, y_test), (g, g_test) = [(p[:10_000], p[10_000:]) for p in parts]
plain = LogisticRegression().fit(X, y)
fair = FairCalibratedClassifier(LogisticRegression(), kappa=0.05)
fair.fit(X, y, sensitive_features=g)
scores = {
    ":": plain.predict_proba(X_test)[:, 1],
    "-": fair.predict_proba(X_test, sensitive_features=g_test)[:, 1],
}
thresholds = np.linspace(0, 1, 400)
for style, values in scores.items():
    for group, color in enumerate(COLORS):
        members = np.sort(values[g_test == group])
        shares = 1 - np.searchsorted(members, thresholds, side="right") / len(members)
        name = f"{'logistic' if style == ':' else 'calibrated'}, {'AB'[group]}"
        axes[2].plot(thresholds, shares, style, color=color, label=name)
axes[2].set(xlabel="threshold", ylabel="share above", title="Scores, new rows")
axes[2].legend(fontsize="x-small")

# Fits of block models of average degree 30, as measured.
sizes = pd.read_csv(PAPER.parent / "docs" / "images" / "graph_sizes.csv")
sizes = sizes[sizes["dtype"] == "float32"]
axes[3].loglog(sizes["nodes"], sizes["seconds"], "o-", color="black")
axes[3].set(xlabel="nodes", ylabel="seconds", title="Fair fit, two cores")

figure.savefig(PAPER / "figure.png", dpi=120)
