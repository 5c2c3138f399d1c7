"""
Boosting made fair, measured by fairlearn's MetricFrame
=======================================================

Any classifier can be made fair afterwards: gradient boosting is fitted as usual, and
its scores are calibrated for each group, so that among the top 5 % to 40 % nearly the
same share of each group is above any threshold. Then a fifth of the applicants are
placed. A `MetricFrame` of fairlearn takes any metric apart by group; where fairlearn is
not installed, pandas makes the same table.

The rows are those of the data set a9a (income above 50,000 dollars; the groups are
women and men), read from the folder named by ``SCALEFAIR_DATA``. Where they are not,
made-up rows take their place, and the figure says what a9a gave; ``fetch_a9a()``
downloads it.
"""

import textwrap

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import accuracy_score, recall_score

from scalefair.datasets import fetch_a9a, make_biased_rows
from scalefair.plotting import ParetoFrontDisplay
from scalefair.postprocessing import fair_calibration_path

try:
    from fairlearn.metrics import MetricFrame
except ImportError:
    MetricFrame = None

# Differences of the shares placed for a9a, computed by this script on 2026-11-23.
STORED = {"boosting": 0.18, "calibrated": 0.00}

# %%
# Rows for training and for testing
# ---------------------------------
made_up = False
try:
    data = fetch_a9a(download_if_missing=False)
    train = data.data.toarray(), data.target, data.sensitive_features
    test = data.data_test.toarray(), data.target_test, data.sensitive_features_test
except (OSError, ImportError):
    made_up = True
    data = make_biased_rows(16_000, 10, bias=1.6, random_state=1)
    groups = np.where(np.asarray(data.sensitive_features) == 0, "A", "B")
    rows, is_train = (data.data, data.target, groups), np.arange(16_000) < 10_000
    train, test = (tuple(part[mask] for part in rows) for mask in (is_train, ~is_train))
X, y, groups = test

# %%
# One classifier, calibrated for several gaps
# -------------------------------------------
# The classifier is fitted to all rows, and once for each of five folds: the scores of
# held-out rows are calibrated, as a model is too certain of its training rows. All have
# the same number of rounds of boosting, with which the spread of the scores grows.
path = fair_calibration_path(
    HistGradientBoostingClassifier(early_stopping=False, random_state=0),
    *train[:2],
    sensitive_features=train[2],
    kappas=(0.0, 0.02, 0.05, 0.1, 0.2, 0.4),
    interval=(0.05, 0.40),
)
for model in path:
    print(f"kappa {model.kappa:g}: gap {model.partial_parity_gap_:.3f} in training")
print(f"on the test rows noise adds about {path[0].null_gap(len(y)):.3f}")
plain, fair = path[0].estimator_, path[1]
scores = {
    "boosting": plain.decision_function(X),
    "calibrated": fair.decision_function(X, sensitive_features=groups),
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


tables = {name: by_group(y == y.max(), p, groups) for name, p in placed.items()}
for name, table in tables.items():
    print(f"{name}:\n{table.round(3).to_string()}\n")

# %%
# The same share placed, in both groups; and the front
# ----------------------------------------------------
figure, axes = plt.subplot_mosaic(
    [["boosting", "calibrated"], ["front", "front"]],
    figsize=(10.5, 8.5),
    layout="constrained",
)
styles = [{"color": "#0072B2"}, {"color": "#E69F00", "hatch": "///"}]
for name, table in tables.items():
    x, ax = np.arange(len(METRICS)), axes[name]
    for shift, group, style in zip((-0.2, 0.2), table.index, styles, strict=True):
        options = {"width": 0.38, "edgecolor": "white", "label": str(group), **style}
        bars = ax.bar(x + shift, table.loc[group], **options)
        ax.bar_label(bars, fmt="%.2f", padding=2)
    gap = np.ptp(table["placed"])
    title = f"{name.capitalize()}:\nthe shares placed differ by {gap:.2f}"
    real = f"\n(made-up rows; by {STORED[name]:.2f} for a9a)" if made_up else ""
    ax.set_title(title + real)
    ax.set_xticks(x, [textwrap.fill(metric, 15) for metric in METRICS])
    ax.set_ylim(0, 1.1)
axes["boosting"].set_ylabel("share of the rows")
axes["calibrated"].legend(title="group", alignment="left", frameon=False)
ParetoFrontDisplay.from_estimator(
    {"boosting": plain, "calibrated": path},
    X,
    y,
    sensitive_features=groups,
    ax=axes["front"],
)
plt.show()

# %%
# Equal shares are one criterion among several: of the suitable people of the better
# placed group fewer are placed now, of the other group more. Whether that is fair is
# not for a metric to say.
