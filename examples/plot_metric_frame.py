"""
Measured by fairlearn's MetricFrame
===================================

Estimators here are scikit-learn estimators: what audits those audits these. A
`MetricFrame` of fairlearn takes any metric apart by group; here it compares logistic
regression with a partially fair classifier that places a fifth of the applicants. Where
fairlearn is not installed, pandas makes the same table.
"""

import textwrap

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, recall_score

from scalefair.datasets import make_biased_rows
from scalefair.linear_model import PartiallyFairClassifier

try:
    from fairlearn.metrics import MetricFrame
except ImportError:
    MetricFrame = None

# %%
# Two classifiers, and a fifth of the applicants placed by each
# -------------------------------------------------------------
data = make_biased_rows(16_000, 10, bias=1.6, random_state=1)
X, y = data.data, data.target
groups = np.where(data.sensitive_features == 0, "A", "B")
train, test = np.arange(16_000) < 10_000, np.arange(16_000) >= 10_000
plain = LogisticRegression().fit(X[train], y[train])
fair = PartiallyFairClassifier(
    (0.05, 0.40), kappa=0.03, n_thresholds=25, alpha=1e-3, start="zero"
)
fair.fit(X[train], y[train], sensitive_features=groups[train])
scores = {
    "logistic regression": plain.decision_function(X[test]),
    "partially fair": fair.decision_function(X[test], sensitive_features=groups[test]),
}
placed = {name: s >= np.quantile(s, 0.8) for name, s in scores.items()}

# %%
# Metrics by group
# ----------------


def share_placed(y_true, y_pred):
    """Share of the rows that are placed, whatever their label."""
    return np.mean(y_pred)


METRICS = {
    "placed": share_placed,
    "placed, of the suitable": recall_score,
    "placed or left out rightly": accuracy_score,
}


def by_group(y_true, y_pred, groups):
    """Return a table with a row for each group and a column for each metric."""
    if MetricFrame is not None:
        frame = MetricFrame(
            metrics=METRICS, y_true=y_true, y_pred=y_pred, sensitive_features=groups
        )
        return frame.by_group.astype(float)
    table = pd.DataFrame({"true": y_true, "pred": y_pred, "group": groups})
    return pd.DataFrame(
        {
            name: {
                group: metric(rows["true"], rows["pred"])
                for group, rows in table.groupby("group")
            }
            for name, metric in METRICS.items()
        }
    )


tables = {name: by_group(y[test], p, groups[test]) for name, p in placed.items()}
for name, table in tables.items():
    print(f"{name}:\n{table.round(3).to_string()}\n")

# %%
# The same share placed, in both groups
# -------------------------------------
figure, axes = plt.subplots(
    1, 2, figsize=(10.5, 4.2), sharey=True, layout="constrained"
)
styles = {"A": {"color": "#0072B2"}, "B": {"color": "#E69F00", "hatch": "///"}}
for ax, (name, table) in zip(axes, tables.items(), strict=True):
    place = np.arange(len(METRICS))
    for shift, group in ((-0.2, "A"), (0.2, "B")):
        bars = ax.bar(
            place + shift,
            table.loc[group],
            width=0.38,
            edgecolor="white",
            label=group,
            **styles[group],
        )
        ax.bar_label(bars, fmt="%.2f", padding=2)
    gap = np.ptp(table["placed"])
    ax.set_title(f"{name.capitalize()}:\nthe shares placed differ by {gap:.2f}")
    ax.set_xticks(place, [textwrap.fill(metric, 15) for metric in METRICS])
axes[0].set(ylabel="share of the rows", ylim=(0, 1.0))
axes[1].legend(title="group", alignment="left", frameon=False, loc="upper left")
plt.show()

# %%
# Equal shares are one criterion among several: of the suitable people of the better
# placed group fewer are placed now, of the other group more. Whether that is fair is
# not for a metric to say.
