"""
Fair where decisions are contested
==================================

Applicants are scored, and the top of the ranking is invited. Ordinary logistic
regression gives one group far more places. Here parity is asked for among the top 5 %
to 30 %, where decisions are contested, for several gaps, and compared with parity over
all ranks, which constrains the scores everywhere. On real rows the latter, with a
smaller gap, is as fair in the contested ranks, and no less accurate: what the interval
gains is freedom elsewhere, not accuracy. On made-up rows it may gain both.

The rows are those of the data set a9a (income above 50,000 dollars; the groups are
women and men), read from the folder named by ``SCALEFAIR_DATA``. Where they are not,
made-up rows take their place, and the figure shows beside them what a9a gave;
``fetch_a9a()`` downloads it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from scalefair.datasets import fetch_a9a, make_biased_rows
from scalefair.linear_model import partial_fairness_path
from scalefair.metrics import partial_demographic_parity_gap
from scalefair.plotting import GroupRateDisplay, ParetoFrontDisplay

INTERVAL = (0.05, 0.30)
KAPPAS = (0.02, 0.05, 0.1, 0.2, 0.3)
CONTESTED, ALL = "parity in top 5 % to 30 %", "parity in all ranks"
# Fairness and accuracy on a9a for each gap, computed by this script on 2026-11-23.
STORED = {
    CONTESTED: (
        (0.969, 0.953, 0.905, 0.784, 0.692),
        (0.8257, 0.8281, 0.8315, 0.8358, 0.8394),
    ),
    ALL: (
        (0.947, 0.830, 0.637, 0.364, 0.224),
        (0.8314, 0.8367, 0.8413, 0.8476, 0.8479),
    ),
}

# %%
# Rows for training and for testing
# ---------------------------------
made_up = False
try:
    data = fetch_a9a(download_if_missing=False)
    train = data.data, data.target, data.sensitive_features
    test = data.data_test, data.target_test, data.sensitive_features_test
except (OSError, ImportError):
    made_up = True
    data = make_biased_rows(20_000, 20, random_state=0)
    is_train = np.arange(20_000) < 10_000
    names = np.where(np.asarray(data.sensitive_features) == 0, "A", "B")
    rows = data.data, data.target, names
    train, test = (tuple(part[mask] for part in rows) for mask in (is_train, ~is_train))


def measure(scores, X, y, groups):
    """Return the accuracy, and the fairness within the interval."""
    gap = partial_demographic_parity_gap(
        scores, sensitive_features=groups, interval=INTERVAL
    )
    return np.mean((scores > 0) == (y == y.max())), 1 - gap


# %%
# A path of gaps for the interval, and one for all ranks
# ------------------------------------------------------
X, y, groups = train
results, models = {}, {}
for name, interval in ((CONTESTED, INTERVAL), (ALL, (0.0, 1.0))):
    models[name] = partial_fairness_path(
        X, y, sensitive_features=groups, kappas=KAPPAS, interval=interval
    )
    measures = [
        measure(model.decision_function(test[0], sensitive_features=test[2]), *test)
        for model in models[name]
    ]
    results[name] = tuple(zip(*measures, strict=True))[::-1]
    for model, (accuracy, fairness) in zip(models[name], measures, strict=True):
        print(
            f"{name}, kappa {model.kappa}: accuracy {accuracy:.4f}, fairness "
            f"{fairness:.3f}, {model.n_oracle_calls_} passes over the rows"
        )
plain = LogisticRegression(max_iter=500).fit(X, y)
accuracy, fairness = measure(plain.decision_function(test[0]), *test)
print(f"logistic regression: accuracy {accuracy:.4f}, fairness {fairness:.3f}")

# %%
# The fronts, and the rates of the two groups
# -------------------------------------------
# The titles compare the most accurate points that are as fair as both methods can be.
# The gap is bounded on the rows learned from, whose rates are drawn; on others noise
# adds to it.
fronts = {"a9a": results}
if made_up:
    fronts = {"a9a, stored": STORED, "made-up rows": results}
figure, axes = plt.subplots(
    len(fronts) + 1, 1, figsize=(7.5, 4 * len(fronts) + 4.5), layout="constrained"
)
for ax, (title, front) in zip(axes[:-1], fronts.items(), strict=True):
    ParetoFrontDisplay(
        {name: accuracy for name, (_, accuracy) in front.items()},
        fairness={name: fairness for name, (fairness, _) in front.items()},
    ).plot(ax)
    level = min(max(fairness) for fairness, _ in front.values())
    best = {
        name: max(a for f, a in zip(*points, strict=True) if f >= level)
        for name, points in front.items()
    }
    ax.set_title(
        f"{title}: as fair as {level:.2f},\naccuracy "
        + ",\n".join(f"{accuracy:.3f} by {name}" for name, accuracy in best.items())
    )
fair = models[CONTESTED][1]
GroupRateDisplay.from_estimator(
    {"logistic regression": plain, "partially fair": fair},
    X,
    sensitive_features=groups,
    ax=axes[-1],
)
axes[-1].set_title(
    f"{list(fronts)[-1]}: gap {fair.partial_parity_gap_:.3f} on those\n"
    f"learned from (drawn), {1 - results[CONTESTED][0][1]:.3f} on others"
)
plt.show()
