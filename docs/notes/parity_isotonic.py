"""The numbers and the picture of the note on partial parity.

python docs/notes/parity_isotonic.py
"""

import itertools

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from scalefair.datasets import make_biased_rows
from scalefair.optimize import parity_isotonic_regression

KAPPA = 0.1
data = make_biased_rows(400, 6, random_state=0)
X, y, groups = data.data, data.target, np.asarray(data.sensitive_features)
scores = cross_val_predict(LogisticRegression(), X, y, method="decision_function")
fits = {
    kappa: parity_isotonic_regression(y, scores, groups, kappa=kappa)
    for kappa in (1.0, KAPPA)
}
fair = fits[KAPPA].fitted

# For each cost c: the most that any allowed pair of cuts gains, by trying all pairs.
sums = []
for group in (0, 1):
    members = np.flatnonzero(groups == group)
    members = members[np.argsort(-scores[members])]
    sums.append(np.append(0, np.cumsum(y[members])))
sizes = [len(s) - 1 for s in sums]
pairs = np.array(
    [
        (i, j)
        for i, j in itertools.product(*[range(size + 1) for size in sizes])
        if abs(i / sizes[0] - j / sizes[1]) <= KAPPA + 1e-12
    ]
)
positives = sums[0][pairs[:, 0]] + sums[1][pairs[:, 1]]
costs = np.linspace(0.1, 0.9, 17)
best = [(positives - cost * pairs.sum(axis=1)).max() for cost in costs]
cut = [(y - cost)[fair > cost].sum() for cost in costs]
difference = np.abs(np.subtract(best, cut)).max()
print(f"{len(pairs):,} allowed pairs of cuts, largest difference {difference:.0e}")
for kappa, fit in fits.items():
    correct = np.mean((fit.fitted > 0.5) == y)
    print(f"kappa {kappa}: gap {fit.gap:.3f}, {correct:.4f} of the labels")
n_correct = np.sum(y == 0) + 2 * (positives - 0.5 * pairs.sum(axis=1)).max()
print(f"best pair of cuts, parity at one threshold: {n_correct / len(y):.4f}")

figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
for ax, (kappa, fit) in zip(axes, fits.items(), strict=False):
    for group, color in ((0, "#0072B2"), (1, "#D55E00")):
        values = np.sort(fit.fitted[groups == group])[::-1]
        ranks = np.arange(len(values) + 1) / len(values)
        ax.stairs(values, ranks, baseline=None, color=color, label=f"group {group}")
        if kappa < 1 and group == 1:
            moved = {"linestyle": ":", "color": "black", "baseline": None}
            ax.stairs(values, ranks - kappa, label="group 1, moved by kappa", **moved)
    ax.set(xlim=(0, 1), xlabel="rank in the group", ylabel="fitted value")
    ax.set_title(f"kappa = {kappa:g}")
axes[1].legend(fontsize="small")
axes[2].plot(costs, best, color="grey", label="best allowed cuts")
axes[2].plot(costs, cut, ".", color="black", label="values above c")
axes[2].set(xlabel="cost c", ylabel="sum of (y - c) above", title="Every cut is best")
axes[2].legend(fontsize="small")
plt.show()
