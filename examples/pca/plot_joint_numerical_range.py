"""
Why a fair subspace exists, in a picture
========================================

Two groups whose variance lies along different axes, and a subspace of three
components for both. Each possible subspace captures some variance of the first group
and some of the second: a point in the plane. All these points together form a convex
region, and fair PCA is the point of its boundary where both groups lose equally much
against their own best subspace.
"""

import matplotlib.pyplot as plt
import numpy as np

from scalefair.decomposition import FairPCA, GroupPCA, joint_numerical_range
from scalefair.plotting import JointNumericalRangeDisplay

# %%
# Two groups, one three times as large as the other
# -------------------------------------------------
rng = np.random.default_rng(0)
n_features, sizes = 8, {"majority": 3000, "minority": 1000}
spread = 2.0 * 0.7 ** np.arange(n_features)
rotation = 0.25 * rng.standard_normal((n_features, n_features))
axes = np.linalg.qr(np.eye(n_features) + rotation)[0]
rows = [
    rng.standard_normal((sizes["majority"], n_features)) * spread,
    (rng.standard_normal((sizes["minority"], n_features)) * spread) @ axes,
]
X = np.vstack(rows)
groups = np.repeat(list(sizes), list(sizes.values()))

plain = GroupPCA(n_components=3).fit(X, sensitive_features=groups)
fair = FairPCA(n_components=3, solver="gram").fit(X, sensitive_features=groups)
for name, model in {"plain PCA": plain, "fair PCA": fair}.items():
    losses = ", ".join(
        f"{group} {loss:.4f}"
        for group, loss in zip(model.groups_, model.group_losses_, strict=True)
    )
    print(f"{name:10s} loss per sample: {losses}")

# %%
# The boundary of the region
# --------------------------
# The point furthest in a direction belongs to the leading eigenvectors of a weighted
# sum of both covariances, one small eigenproblem for each direction. The directions
# of the dual weights of fair PCA lead to the fair point.
covariances = fair.moments_.covariances("global")
direction = np.arctan2(fair.dual_weights_[1], fair.dual_weights_[0])
boundary = joint_numerical_range(*covariances, 3, angles=[direction])
best = joint_numerical_range(*covariances, 3, angles=[0, np.pi / 2]).support
print("losses at the boundary point in that direction:", best - boundary.points[0])

# %%
# A picture of it
# ---------------
# To the left the whole region; its marked corner, between the groups' own best
# subspaces, is enlarged to the right. No point of the region lies beyond the solid
# corner: no subspace is better for both groups.
figure, axes = plt.subplots(1, 2, figsize=(13, 4.8), layout="constrained")
for ax, view in zip(axes, ("all", "optimum"), strict=True):
    JointNumericalRangeDisplay.from_estimator(
        fair,
        X,
        sensitive_features=groups,
        ax=ax,
        view=view,
        legend=ax is axes[-1],
    )
region, corner = axes
times = np.ptp(region.get_xlim()) / np.ptp(corner.get_xlim())
region.set_title(f"the whole region,\n{region.get_title()}")
corner.set_title(
    f"its marked corner, enlarged {times:.0f} times,\n{corner.get_title()}"
)
region.indicate_inset(
    (
        *(corner.get_xlim()[0], corner.get_ylim()[0]),
        *(np.ptp(corner.get_xlim()), np.ptp(corner.get_ylim())),
    ),
    edgecolor="black",
    alpha=1.0,
)
plt.show()
