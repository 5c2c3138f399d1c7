"""
Scores inside and outside of the contested ranks
================================================

Applicants are ranked by a score, the top 10 % to 40 % of each group are discussed one
by one. Logistic regression scores one group higher throughout. A partially fair
classifier gives both groups nearly the same scores in the ranks that are discussed, and
leaves the others free.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from scalefair.linear_model import PartiallyFairClassifier
from scalefair.metrics import partial_demographic_parity_gap
from scalefair.plotting import ScoreDensityDisplay

INTERVAL = (0.10, 0.40)

# %%
# Applicants of two groups
# ------------------------
# The groups differ at the top, and a third of group A is far behind.
rng = np.random.default_rng(0)
groups = np.where(rng.random(12_000) < 0.5, "A", "B")
X = rng.standard_normal((12_000, 8))
X[groups == "B"] += 0.3
X[(groups == "A") & (rng.random(12_000) < 0.35)] -= 1.2
y = rng.random(12_000) < expit(X @ np.linspace(0.2, 1.0, 8))

# %%
# An ordinary and a partially fair classifier
# -------------------------------------------
plain = LogisticRegression().fit(X, y)
fair = PartiallyFairClassifier(INTERVAL, kappa=0.03)
fair.fit(X, y, sensitive_features=groups)
print(f"gap {fair.partial_parity_gap_:.3f}, residual {fair.kkt_residual_:.1e}")
scores = {
    "Logistic regression": plain.decision_function(X),
    "Partially fair": fair.decision_function(X, sensitive_features=groups),
}

# %%
# The densities, and where the contested ranks lie
# ------------------------------------------------
# Hatched, and marked by the bars below, are the scores of the ranks 10 % to 40 % of
# each group.
figure, axes = plt.subplots(2, 1, figsize=(8.5, 6.4), layout="constrained")
for ax, (name, values) in zip(axes, scores.items(), strict=True):
    ScoreDensityDisplay.from_predictions(
        values, sensitive_features=groups, interval=INTERVAL, kind="kde", ax=ax
    )
    inside, everywhere = (
        partial_demographic_parity_gap(
            values, sensitive_features=groups, interval=interval
        )
        for interval in (INTERVAL, (0.0, 1.0))
    )
    ax.set_title(
        f"{name}: gap {inside:.2f} in the ranks {INTERVAL[0]:g} to "
        f"{INTERVAL[1]:g}, {everywhere:.2f} over all ranks"
    )
plt.show()

# %%
# To try: ``interval=(0.0, 1.0)`` for parity everywhere; ``interactions=False`` for a
# model that is not told the group.
