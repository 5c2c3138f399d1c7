"""
Fair where decisions are contested
==================================

Applicants are scored, and the top of the ranking is invited. Ordinary logistic
regression gives one group far more places. Here parity is asked for among the top 5 %
to 30 %, where decisions are contested, for several gaps, and compared with parity over
all ranks, which constrains the scores everywhere.

The rows are those of the data set a9a (income above 50,000 dollars; the groups are
women and men), read from the folder named by ``SCALEFAIR_DATA``. Where they are not,
made-up rows take their place; ``fetch_a9a()`` downloads them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from scalefair.datasets import fetch_a9a, make_biased_rows
from scalefair.linear_model import partial_fairness_path
from scalefair.metrics import partial_demographic_parity_gap
from scalefair.plotting import GroupRateDisplay, ParetoFrontDisplay

INTERVAL = (0.05, 0.30)

# %%
# Rows to learn from, and others to judge by
# ------------------------------------------
try:
    data = fetch_a9a(download_if_missing=False)
    train = data.data, data.target, data.sensitive_features
    test = data.data_test, data.target_test, data.sensitive_features_test
except (OSError, ImportError):
    print("made-up rows: the data are not on this disk")
    data = make_biased_rows(20_000, 20, random_state=0)
    half = np.arange(20_000) < 10_000
    names = np.where(np.asarray(data.sensitive_features) == 0, "A", "B")
    rows = data.data, data.target, names
    train, test = (tuple(part[where] for part in rows) for where in (half, ~half))


def judge(scores, X, y, groups):
    """Accuracy, and fairness within the interval."""
    gap = partial_demographic_parity_gap(
        scores, sensitive_features=groups, interval=INTERVAL
    )
    return np.mean((scores > 0) == (y == y.max())), 1 - gap


# %%
# A path of gaps for the interval, and one for all ranks
# ------------------------------------------------------
X, y, groups = train
results = []
models = {}
for name, interval in (("top 5 % to 30 %", INTERVAL), ("all ranks", (0.0, 1.0))):
    path = partial_fairness_path(
        X,
        y,
        sensitive_features=groups,
        kappas=(0.02, 0.05, 0.1, 0.2, 0.3),
        interval=interval,
    )
    models[name] = path[1]
    for model in path:
        scores = model.decision_function(test[0], sensitive_features=test[2])
        accuracy, fairness = judge(scores, *test)
        results.append(
            {
                "method": f"parity in {name}",
                "kappa": model.kappa,
                "accuracy": accuracy,
                "fairness": fairness,
            }
        )
        print(
            f"{name}, kappa {model.kappa}: accuracy {accuracy:.4f}, fairness "
            f"{fairness:.3f}, {model.n_oracle_calls_} passes over the rows"
        )
plain = LogisticRegression(max_iter=500).fit(X, y)
accuracy, fairness = judge(plain.decision_function(test[0]), *test)
print(f"logistic regression: accuracy {accuracy:.4f}, fairness {fairness:.3f}")

# %%
# The front, and the rates of the two groups
# ------------------------------------------
# The title compares the most accurate points that are as fair as both methods can be.
figure, axes = plt.subplots(2, 1, figsize=(8.5, 9), layout="constrained")
ParetoFrontDisplay.from_results(results, ax=axes[0])
points = {}
for run in results:
    points.setdefault(run["method"], []).append((run["fairness"], run["accuracy"]))
level = min(max(fairness for fairness, _ in those) for those in points.values())
found = {
    name: max(accuracy for fairness, accuracy in those if fairness >= level)
    for name, those in points.items()
}
axes[0].set_title(
    f"With a fairness of at least {level:.2f}:\naccuracy "
    + ",\n".join(f"{value:.3f} by {name}" for name, value in found.items())
)
GroupRateDisplay.from_estimator(
    {"logistic regression": plain, "partially fair": models["top 5 % to 30 %"]},
    test[0],
    sensitive_features=test[2],
    ax=axes[1],
)
plt.show()
