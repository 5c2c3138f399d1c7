from itertools import pairwise

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from scalefair.cluster import FairSpectralClustering
from scalefair.datasets import make_fair_sbm
from scalefair.metrics import balance_score, group_proportions
from scalefair.plotting import ClusterCompositionDisplay

LABELS = np.array([3, 3, 3, 3, 5, 5, 5, 5, 5, 5, -1, -1])
GROUPS = np.array(list("aabb" + "abbbbc" + "dd"))


def heights(display):
    """Height of each bar, clusters in rows in the order drawn."""
    return np.array([[b.get_height() for b in bars] for bars in display.bars_]).T


def test_bars_are_the_proportions(ax):
    display = ClusterCompositionDisplay.from_predictions(
        LABELS, sensitive_features=GROUPS, ax=ax, name="Mine"
    )
    expected = group_proportions(LABELS, sensitive_features=GROUPS)
    np.testing.assert_allclose(display.proportions, expected)
    # Cluster 3 has too many of "a", cluster 5 of "b": they are in that order.
    np.testing.assert_allclose(heights(display), expected)
    bottoms = [[b.get_y() for b in bars] for bars in display.bars_]
    np.testing.assert_allclose(np.array(bottoms).T, expected.cumsum(1) - expected)
    np.testing.assert_allclose(display.population, [0.3, 0.6, 0.1])
    drawn = [line.get_ydata()[0] for line in display.lines_]
    np.testing.assert_allclose(drawn, [0.3, 0.9])
    balance = balance_score(LABELS, sensitive_features=GROUPS)
    assert ax.get_title() == f"Mine: average balance {balance:.2f}"
    assert [t.get_text() for t in ax.get_xticklabels()] == ["3", "5"]
    assert display.ax_ is ax
    assert display.figure_ is ax.figure


def test_order_follows_the_overrepresented_group(ax):
    labels = np.repeat([0, 1, 2, 3], 10)
    groups = np.array(list("aabbbbbbbb" + "aaaaaaabbb" + "aaaaaaaaab" + "aaabbbbbbb"))
    display = ClusterCompositionDisplay.from_predictions(
        labels, sensitive_features=groups, ax=ax
    )
    assert [t.get_text() for t in ax.get_xticklabels()] == ["2", "1", "0", "3"]
    np.testing.assert_allclose(heights(display)[:, 0], [0.9, 0.7, 0.2, 0.3])


def test_legend_lies_outside_and_lists_groups(ax):
    display = ClusterCompositionDisplay.from_predictions(
        LABELS, sensitive_features=GROUPS, ax=ax
    )
    legend = ax.get_legend()
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["c", "b", "a", "share in the population"]
    ax.figure.draw_without_rendering()
    assert legend.get_window_extent().x0 > ax.get_window_extent().x1
    assert ax.get_title() == "average balance 0.12"  # of 0 and 1/4
    ax.get_legend().remove()
    display.plot(ax, legend=False)
    assert ax.get_legend() is None


def overlapping(texts):
    boxes = sorted((t.get_window_extent() for t in texts), key=lambda box: box.x0)
    return any(a.x1 > b.x0 for a, b in pairwise(boxes))


def test_long_cluster_names_do_not_overlap(ax):
    regions = ["north-western region", "southern region", "central business district"]
    rng = np.random.default_rng(0)
    ClusterCompositionDisplay.from_predictions(
        rng.choice(regions, 90), sensitive_features=rng.choice(["a", "b"], 90), ax=ax
    )
    names = ax.get_xticklabels()
    assert {name.get_text() for name in names} == set(regions)
    assert all(name.get_rotation() > 0 for name in names)


@pytest.mark.parametrize("n_clusters", [2, 16, 17, 50, 200])
def test_cluster_names_never_overlap(ax, n_clusters):
    labels = 100 + np.arange(40 * n_clusters) % n_clusters
    groups = np.random.default_rng(0).choice(["a", "b"], labels.size)
    ClusterCompositionDisplay.from_predictions(
        labels, sensitive_features=groups, ax=ax, legend=False
    )
    ax.figure.draw_without_rendering()
    names = ax.get_xticklabels()
    assert not overlapping(names)
    if not names:
        assert ax.get_xlabel() == f"{n_clusters} clusters"


def test_no_two_of_many_groups_look_the_same(ax):
    groups = np.tile(np.arange(20), 10)
    labels = np.repeat([0, 1], 100)
    display = ClusterCompositionDisplay.from_predictions(
        labels, sensitive_features=groups, ax=ax
    )
    looks = {(b[0].get_facecolor(), b[0].get_hatch()) for b in display.bars_}
    assert len(looks) == 20


def test_bar_options_reach_matplotlib(ax):
    display = ClusterCompositionDisplay.from_predictions(
        LABELS, sensitive_features=GROUPS, ax=ax, width=0.5, alpha=0.3
    )
    bar = display.bars_[0][0]
    assert (bar.get_width(), bar.get_alpha()) == (0.5, 0.3)


def test_from_estimator(ax):
    data = make_fair_sbm(60, n_clusters=2, n_groups=2, random_state=0)
    model = FairSpectralClustering(2, random_state=0)
    with pytest.raises(NotFittedError):
        ClusterCompositionDisplay.from_estimator(
            model, sensitive_features=data.sensitive_features, ax=ax
        )
    model.fit(data.graph, sensitive_features=data.sensitive_features)
    display = ClusterCompositionDisplay.from_estimator(
        model, sensitive_features=data.sensitive_features, ax=ax
    )
    assert ax.get_title().startswith("FairSpectralClustering: average balance")
    np.testing.assert_allclose(
        display.proportions,
        group_proportions(model.labels_, sensitive_features=data.sensitive_features),
    )
    display = ClusterCompositionDisplay.from_estimator(
        model, sensitive_features=data.sensitive_features, ax=ax, name="x"
    )
    assert ax.get_title().startswith("x: ")


def test_clusters_may_have_names_of_any_type(ax):
    for labels in (["x", "x", "y"], [True, True, False], [0.5, 0.5, 2.0]):
        display = ClusterCompositionDisplay.from_predictions(
            labels, sensitive_features=["a", "b", "a"], ax=ax
        )
        assert display.clusters.tolist() == sorted(set(labels))
        np.testing.assert_allclose(display.population, [2 / 3, 1 / 3])


def test_balance_of_the_clusters_drawn_is_the_default(ax):
    display = ClusterCompositionDisplay(
        [[0.5, 0.5], [0.2, 0.8]],
        population=[0.3, 0.7],
        clusters=[0, 1],
        groups=["a", "b"],
    )
    display.plot(ax)
    assert ax.get_title() == "average balance 0.62"  # of 1 and 1/4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": ["a"]}, "two groups or more .* got 1 groups"),
        ({"clusters": []}, "got 2 groups and 0 clusters"),
        ({"population": [1.0]}, r"proportions must have shape \(2, 2\)"),
        ({"proportions": [[0.5, 0.5]]}, r"got \(1, 2\) and \(2,\)"),
    ],
)
def test_bad_arguments(change, message):
    arguments = {
        "proportions": [[0.5, 0.5], [0.2, 0.8]],
        "population": [0.3, 0.7],
        "clusters": [0, 1],
        "groups": ["a", "b"],
        **change,
    }
    with pytest.raises(ValueError, match=message):
        ClusterCompositionDisplay(arguments.pop("proportions"), **arguments)


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_missing_groups_are_not_a_group(ax, missing):
    with pytest.raises(ValueError, match="sensitive_features has 1 missing value"):
        ClusterCompositionDisplay.from_predictions(
            [0, 0, 1], sensitive_features=["a", "b", missing], ax=ax
        )


def test_bad_input(ax):
    with pytest.raises(ValueError, match="same samples"):
        ClusterCompositionDisplay.from_predictions(
            LABELS, sensitive_features=GROUPS[:-1], ax=ax
        )
    with pytest.raises(ValueError, match="only one"):
        ClusterCompositionDisplay.from_predictions(
            LABELS, sensitive_features=["a"] * 12, ax=ax
        )
