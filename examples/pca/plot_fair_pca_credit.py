"""
Who pays for fewer components
=============================

Plain PCA keeps what is best for all rows together. Here the rows are clients of a
bank, the groups those who went to graduate school and the others. With few components
one group is reconstructed worse than by its own best components, the other hardly;
which of them pays depends on the number of components. Fair PCA makes both losses
equal; the figure shows them for each number of components, and what it costs all rows
together.

The 30,000 clients of the data set "default of credit card clients" are read from the
folder named by ``SCALEFAIR_DATA``. Where they are not, made-up clients take their
place, and the figure says what the real ones gave; ``fetch_credit_default()`` downloads
those.
"""

import matplotlib.pyplot as plt
import numpy as np

from scalefair.datasets import fetch_credit_default
from scalefair.decomposition import FairPCA, GroupPCA
from scalefair.plotting import GroupLossDisplay
from scalefair.streaming import GroupMoments

# What the real clients gave on 2026-11-23, by this script: the largest loss by PCA and
# by fair PCA, and what the latter adds to the error of all rows, at most, in %.
STORED = (0.694, 0.376, 1.3)


def made_up_clients(n_clients=12000, seed=0):
    """Bills, payments and delays of six months per client, and five other columns.

    Clients from graduate school differ more in their bills, the others in their
    delays; the larger `memory`, the more two months have in common.
    """
    rng = np.random.default_rng(seed)
    groups = np.where(rng.random(n_clients) < 0.35, "graduate school", "other")
    X = rng.standard_normal((n_clients, 23))
    months = np.arange(6)
    habits = {  # size and memory of bills, payments and delays
        "graduate school": ((2.0, 0.95), (1.5, 0.2), (0.7, 0.5)),
        "other": ((1.2, 0.8), (0.8, 0.4), (1.4, 0.85)),
    }
    for group, blocks in habits.items():
        rows = np.flatnonzero(groups == group)
        for block, (size, memory) in enumerate(blocks):
            common = memory ** np.abs(months[:, None] - months)
            columns = 6 * block + months
            X[np.ix_(rows, columns)] = size * rng.multivariate_normal(
                np.zeros(6), common, rows.size
            )
    return (X - X.mean(axis=0)) / X.std(axis=0), groups


# %%
# Clients in two groups, every column scaled
# ------------------------------------------
made_up = False
try:
    clients = fetch_credit_default(download_if_missing=False)
    X, groups = clients.data, clients.sensitive_features
except (OSError, ImportError):
    made_up = True
    X, groups = made_up_clients()
names, counts = np.unique(groups, return_counts=True)
print(", ".join(f"{n} {c}" for n, c in zip(names, counts, strict=True)))

# %%
# Losses by number of components
# ------------------------------
# The rows are read once, for the moments of the groups; every model takes those.
moments = GroupMoments.from_data(X, groups)
print(f"{'r':>2s}  {'plain PCA':^17s}  {'fair PCA':^17s}  total error")
for r in (1, 2, 3, 5, 8, 13, 21):
    plain = GroupPCA.from_moments(moments, n_components=r)
    fair = FairPCA.from_moments(moments, n_components=r)
    errors = [
        model.group_reconstruction_errors_ @ counts / counts.sum()
        for model in (plain, fair)
    ]
    losses = [
        "  ".join(f"{loss:.5f}".rjust(8) for loss in model.group_losses_)
        for model in (plain, fair)
    ]
    print(f"{r:2d}  {losses[0]}  {losses[1]}  up by {errors[1] / errors[0] - 1:.2%}")

# %%
# A picture of it
# ---------------
# The lines of fair PCA lie on top of each other: that is what it is for.
figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
GroupLossDisplay.from_data(
    X, sensitive_features=groups, n_components=range(1, 23), axes=axes
)
if made_up:
    figure.suptitle(
        "Made-up clients. Real ones: largest loss {} by PCA, {} by FairPCA,\n"
        "which adds at most {} %".format(*STORED)
    )
plt.show()
