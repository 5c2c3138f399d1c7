"""
Which layer carries the unfairness
==================================

A network predicts well and treats two groups differently. Where does the difference
sit? `ExplainableSVDRegressor` measures it for every layer, in units of the spread
within groups, and ``layer="auto"`` changes the layer with the largest gaps. The figure
shows what changing each layer does. The default, ``layer=-2``, is the last but one, as
in the paper: here a change there costs less accuracy than one at the beginning.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

from scalefair.metrics import statistical_parity_ks
from scalefair.postprocessing import ExplainableSVDRegressor

# %%
# Rows of two groups, and a network
# ---------------------------------
rng = np.random.default_rng(0)
groups = np.where(rng.random(6000) < 0.3, "few", "many")
X = rng.standard_normal((6000, 8))
X[groups == "few", :3] -= 1.0
X[groups == "few", 3] *= 1.6
y = X[:, 0] + np.abs(X[:, 3]) + 0.5 * X[:, 1] * X[:, 4]
y += 0.3 * rng.standard_normal(6000)
train, test = np.arange(6000) < 4000, np.arange(6000) >= 4000
network = MLPRegressor(hidden_layer_sizes=(48, 48, 48), max_iter=25, random_state=0)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)  # stopped early on purpose
    network.fit(X[train], y[train])

# %%
# Every layer changed in turn
# ---------------------------
errors, distances = [], []
n_layers = len(network.coefs_)
for layer in range(n_layers):
    fair = ExplainableSVDRegressor(network, layer=layer)
    fair.fit(X[train], y[train], sensitive_features=groups[train])
    predicted = fair.predict(X[test])
    errors.append(np.mean((predicted - y[test]) ** 2))
    distances.append(statistical_parity_ks(predicted, sensitive_features=groups[test]))
auto = ExplainableSVDRegressor(network, layer="auto")
auto.fit(X[train], y[train], sensitive_features=groups[train])
before = network.predict(X[test])
error_before = np.mean((before - y[test]) ** 2)
distance_before = statistical_parity_ks(before, sensitive_features=groups[test])

# %%
# Gaps by layer, and what changing it does
# ----------------------------------------
gaps = auto.unfairness_by_layer_
names = [f"layer {i + 1}" for i in range(n_layers)]
names[-1] += "\n(output)"
figure, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
x = np.arange(n_layers)
by_moment = {
    "means": [gap.relative_mean_gap for gap in gaps],
    "covariances": [gap.relative_covariance_gap for gap in gaps],
}
largest = {name: int(np.argmax(values)) for name, values in by_moment.items()}
axes[0].bar(x - 0.2, by_moment["means"], width=0.38, color="#0072B2", label="means")
axes[0].bar(
    x + 0.2,
    by_moment["covariances"],
    width=0.38,
    color="#E69F00",
    hatch="///",
    edgecolor="white",
    label="covariances",
)
axes[0].set_xticks(x, names)
axes[0].set(
    ylabel="gap between the groups,\nrelative to the spread within",
    title=f"Means differ most in layer {largest['means'] + 1},\n"
    f"covariances in layer {largest['covariances'] + 1}",
)
axes[0].legend(frameon=False)
axes[1].plot(distance_before, error_before, "ks", markersize=8)
axes[1].annotate(
    "unchanged",
    (distance_before, error_before),
    xytext=(-8, 8),
    textcoords="offset points",
    ha="right",
)
for layer, (distance, error) in enumerate(zip(distances, errors, strict=True)):
    chosen = layer == auto.layer_
    axes[1].plot(
        distance,
        error,
        "D" if chosen else "o",
        color="#D55E00" if chosen else "#0072B2",
        markersize=8,
    )
    axes[1].annotate(
        f"layer {layer + 1}" + (' ("auto")' if chosen else ""),
        (distance, error),
        xytext=(9, 0) if layer % 2 else (-9, 0),
        textcoords="offset points",
        ha="left" if layer % 2 else "right",
        va="center",
    )
axes[1].set(
    xlabel="Kolmogorov-Smirnov distance between the groups",
    ylabel="mean squared error",
    xlim=(0, 1.25 * distance_before),
    ylim=(0, 1.2 * max(*errors, error_before)),
    title=f'layer="auto": distance {distance_before:.2f} to '
    f"{distances[auto.layer_]:.2f},\nerror {error_before:.2f} to "
    f"{errors[auto.layer_]:.2f}",
)
axes[1].grid(color="0.9")
plt.show()

# %%
# To try: ``mean_reduction`` and ``covariance_reduction``, which say how much of the
# gaps may stay.
