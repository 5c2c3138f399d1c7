"""
In a pipeline, searched by cross-validation
===========================================

Groups are metadata: scikit-learn routes them through pipelines and searches to the
steps and scorers that ask for them. Here a grid search tunes the allowed gap and the
penalty of a partially fair classifier behind a scaler, and takes the most accurate
setting that is fair enough on held-out rows.
"""

import matplotlib.pyplot as plt
import numpy as np
import sklearn
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scalefair.datasets import make_biased_rows
from scalefair.linear_model import PartiallyFairClassifier
from scalefair.metrics import partial_demographic_parity_gap

INTERVAL, MIN_FAIRNESS = (0.05, 0.40), 0.7
KAPPAS, ALPHAS = (0.05, 0.1, 0.2, 0.4), (1e-3, 3e-1)
data = make_biased_rows(3000, 8, bias=0.8, random_state=0)
X, y, groups = data.data, data.target, data.sensitive_features


def fairness(y_true, scores, *, sensitive_features):
    """One less the gap of the groups within the interval."""
    return 1 - partial_demographic_parity_gap(
        scores, sensitive_features=sensitive_features, interval=INTERVAL
    )


def most_accurate_fair(results):
    """Index of the most accurate setting among those that are fair enough."""
    fair = results["mean_test_fairness"]
    is_fair = fair >= min(MIN_FAIRNESS, fair.max())
    return int(np.argmax(np.where(is_fair, results["mean_test_accuracy"], -1)))


# %%
# The groups go to the classifier and to the scorer
# -------------------------------------------------
# Without interactions the model does not use the group, and prediction needs none.
with sklearn.config_context(enable_metadata_routing=True):
    classifier = PartiallyFairClassifier(
        INTERVAL, interactions=False, start="zero", tol=3e-3
    ).set_fit_request(sensitive_features=True)
    scorer = make_scorer(fairness, response_method="decision_function")
    search = GridSearchCV(
        make_pipeline(StandardScaler(), classifier),
        {
            "partiallyfairclassifier__kappa": KAPPAS,
            "partiallyfairclassifier__alpha": ALPHAS,
        },
        scoring={
            "accuracy": "accuracy",
            "fairness": scorer.set_score_request(sensitive_features=True),
        },
        refit=most_accurate_fair,
        cv=3,
    )
    search.fit(X, y, sensitive_features=groups)
chosen = search.best_params_["partiallyfairclassifier__kappa"]
print(search.best_params_)

# %%
# Accuracy and fairness of every setting
# --------------------------------------
results = search.cv_results_
figure, axes = plt.subplots(
    1, 2, figsize=(10.5, 4.2), sharex=True, layout="constrained"
)
styles = {
    1e-3: {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    3e-1: {"color": "#D55E00", "marker": "s", "linestyle": "--"},
}
for ax, measure in zip(axes, ("fairness", "accuracy"), strict=True):
    for alpha, style in styles.items():
        rows = np.asarray(results["param_partiallyfairclassifier__alpha"]) == alpha
        ax.errorbar(
            np.asarray(results["param_partiallyfairclassifier__kappa"])[rows],
            results[f"mean_test_{measure}"][rows],
            yerr=results[f"std_test_{measure}"][rows],
            capsize=3,
            label=f"penalty {alpha:g}",
            **style,
        )
    ax.plot(
        chosen,
        results[f"mean_test_{measure}"][search.best_index_],
        "o",
        markersize=17,
        markerfacecolor="none",
        color="black",
        label="chosen",
    )
    ax.set(
        xlabel="allowed gap (kappa)",
        ylabel=f"{measure} on held-out rows\n(mean and deviation of 3 folds)",
    )
    ax.grid(color="0.9")
axes[0].axhline(MIN_FAIRNESS, color="black", linewidth=1, linestyle=":")
is_fair = results["mean_test_fairness"] >= MIN_FAIRNESS
axes[0].set_title(
    f"{is_fair.sum()} of {is_fair.size} settings have\n"
    f"a fairness of at least {MIN_FAIRNESS:g}"
)
best = results["mean_test_accuracy"][search.best_index_]
loss = results["mean_test_accuracy"].max() - best
axes[1].set_title(f"Chosen: accuracy {best:.3f},\n{loss:.3f} less than the highest")
handles, labels = axes[0].get_legend_handles_labels()
figure.legend(handles, labels, loc="outside right upper", frameon=False)
plt.show()

# %%
# `PartiallyFairClassifierCV` does this for the gap alone, and faster: with a path of
# gaps in every fold.
