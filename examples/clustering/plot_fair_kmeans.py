"""
k-means of rows, fair to groups
===============================

5,000 people by two measurements, which follow their three groups. Ordinary k-means
sorts them by group; `FairKMeans` gives every cluster each group's share in the
population, to a tolerance and one person, and says what that costs. The balance of a
cluster is the number in its smallest group for each one in its largest, and can be
asked for directly.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

from scalefair.cluster import FairKMeans
from scalefair.metrics import minimum_balance_score
from scalefair.plotting import ClusterCompositionDisplay

rng = np.random.default_rng(0)
groups = rng.choice(["young", "middle-aged", "old"], 5000, p=[0.4, 0.35, 0.25])
centres = {"young": (0, 0), "middle-aged": (2, 1), "old": (3, 3)}
X = np.array([centres[group] for group in groups]) + rng.normal(size=(5000, 2))

# %%
# Cost and balance
# ----------------
models = {
    "k-means": KMeans(6, n_init=10, random_state=0),
    "shares within 0.1": FairKMeans(6, random_state=0),
    "balance 0.4": FairKMeans(6, min_balance=0.4, balance_tolerance=10, random_state=0),
}
for name, model in models.items():
    if name == "k-means":
        model.fit(X)
    else:
        model.fit(X, sensitive_features=groups)
    balance = minimum_balance_score(model.labels_, sensitive_features=groups)
    print(f"{name:18s} cost {model.inertia_:6,.0f}, lowest balance {balance:.2f}")

# %%
# A picture of it
# ---------------
figure, axes = plt.subplots(1, 3, figsize=(12, 4), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    ClusterCompositionDisplay.from_predictions(
        model.labels_,
        sensitive_features=groups,
        ax=ax,
        name=name,
        legend=ax is axes[-1],
    )
plt.show()
