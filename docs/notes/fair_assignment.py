"""The numbers and the picture of the note on fair assignment.

python docs/notes/fair_assignment.py
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

from scalefair.cluster import fair_assignment

rng = np.random.default_rng(0)
groups = rng.choice(["a", "b", "c"], 3000, p=[0.6, 0.3, 0.1])
places = {"a": (0, 0), "b": (2, 0.5), "c": (0.5, 2)}
X = rng.normal(size=(3000, 2)) + np.array([places[group] for group in groups])
centers = KMeans(6, n_init=3, random_state=0).fit(X).cluster_centers_

tolerances = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
results = [
    fair_assignment(X, centers, sensitive_features=groups, tolerance=tolerance)
    for tolerance in tolerances
]
for tolerance, result in zip(tolerances, results, strict=True):
    print(
        f"tolerance {tolerance:4}: cost {result.cost / result.nearest_cost:.4f} of the "
        f"nearest, gap {result.gap:.1e}, {result.n_moved} moved, "
        f"beyond the bounds {result.max_violation:g}"
    )

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
labels = results[2].labels
axes[0].scatter(*X.T, c=labels, cmap="tab10", s=3, linewidths=0, rasterized=True)
axes[0].plot(*centers.T, "k+", markersize=10)
axes[0].set(xticks=[], yticks=[], title="Tolerance 0.1: clusters of the rows")
nearest = results[0].nearest_cost
axes[1].plot(tolerances, [r.cost / nearest for r in results], "o-", label="cost")
bounds = [r.lower_bound / nearest for r in results]
axes[1].plot(tolerances, bounds, "kx", label="lower bound")
axes[1].set(xlabel="tolerance", ylabel="in units of the nearest centres")
axes[1].set_title("Cost, and what no assignment can beat")
axes[1].legend()
plt.show()
