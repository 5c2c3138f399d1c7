"""Display of the groups in each cluster."""

import numpy as np
import pandas
import pytest

from scalefair.cluster import FairSpectralClustering
from scalefair.datasets import make_fair_sbm
from scalefair.metrics import balance_score, group_proportions
from scalefair.plotting import ClusterCompositionDisplay

LABELS = np.array([3, 3, 3, 3, 5, 5, 5, 5, 5, 5, -1, -1])
GROUPS = np.array(list("aabb" + "abbbbc" + "dd"))


def draw(ax, labels=LABELS, sensitive_features=GROUPS, **options):
    return ClusterCompositionDisplay.from_predictions(
        labels, sensitive_features=sensitive_features, ax=ax, **options
    )


def heights(display):
    """Height of each bar, clusters in rows in the order drawn."""
    return np.array([[b.get_height() for b in bars] for bars in display.bars_]).T


def test_bars_are_the_proportions(ax):
    display = draw(ax, name="Mine", width=0.5)
    expected = group_proportions(LABELS, sensitive_features=GROUPS)
    np.testing.assert_allclose(display.proportions, expected)
    # Cluster 3 has too many of "a", cluster 5 of "b": they are in that order.
    np.testing.assert_allclose(heights(display), expected)
    assert [t.get_text() for t in ax.get_xticklabels()] == ["3", "5"]
    assert display.bars_[0][0].get_width() == 0.5
    np.testing.assert_allclose(display.population, [0.3, 0.6, 0.1])
    marked = [line.get_ydata()[0] for line in display.lines_]
    np.testing.assert_allclose(marked, [0.3, 0.9])
    assert ax.get_title() == "Mine: average balance 0.12"  # of 0 and 1/4
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["c", "b", "a", "share in the population"]  # as the bars lie


def test_order_follows_the_overrepresented_group(ax):
    labels = np.repeat([0, 1, 2, 3], 10)
    groups = np.array(list("aabbbbbbbb" + "aaaaaaabbb" + "aaaaaaaaab" + "aaabbbbbbb"))
    display = draw(ax, labels, groups)
    assert [t.get_text() for t in ax.get_xticklabels()] == ["2", "1", "0", "3"]
    np.testing.assert_allclose(heights(display)[:, 0], [0.9, 0.7, 0.2, 0.3])


def test_names_of_few_clusters_only_and_long_ones_slanted(ax):
    many = "41 clusters, by the group that has most above its share"
    for n_clusters, n_names, xlabel in ((16, 16, "cluster"), (41, 0, many)):
        labels = 100 + np.arange(40 * n_clusters) % n_clusters
        draw(ax, labels, np.arange(labels.size) // n_clusters % 2)
        assert len(ax.get_xticklabels()) == n_names
        assert ax.get_xlabel() == xlabel
    names = np.array(["north-western region", "southern region", "business district"])
    draw(ax, names[np.arange(120) % 3], np.arange(120) % 2)
    assert all(label.get_rotation() > 0 for label in ax.get_xticklabels())


def test_clusters_may_have_names_of_any_type(ax):
    for labels in (["x", "x", "y"], [True, True, False], [0.5, 0.5, 2.0]):
        display = draw(ax, labels, ["a", "b", "a"])
        assert display.clusters.tolist() == sorted(set(labels))
        np.testing.assert_allclose(display.population, [2 / 3, 1 / 3])


def test_several_attributes_lie_above_each_other(ax):
    """Clusters are in one order; each attribute is drawn as it would be alone."""
    ages = np.arange(12) % 3 * 10
    frame = pandas.DataFrame({"group": GROUPS, "age": ages})
    display = draw(ax, sensitive_features=frame, attributes="each")
    assert display.clusters.tolist() == [3, 5]
    assert display.groups.tolist() == ["a", "b", "c", 0, 10, 20]
    assert display.attributes == {"group": 3, "age": 3}
    feet = [display.bars_[i][0].get_y() for i in (0, 3)]
    assert (feet[0] > 1, feet[1]) == (True, 0)
    for j, (column, foot) in enumerate(zip(frame, feet, strict=True)):
        alone = draw(ax.figure.subplots(), sensitive_features=frame[column])
        columns, lines = slice(3 * j, 3 * j + 3), slice(2 * j, 2 * j + 2)
        np.testing.assert_allclose(heights(display)[:, columns], heights(alone))
        np.testing.assert_allclose(display.population[columns], alone.population)
        marked = [line.get_ydata()[0] - foot for line in display.lines_[lines]]
        np.testing.assert_allclose(marked, [n.get_ydata()[0] for n in alone.lines_])
    balance = balance_score(LABELS, sensitive_features=frame, attributes="each")
    assert display.average_balance == pytest.approx(balance)
    assert balance < balance_score(LABELS, sensitive_features=ages)
    entries = [text.get_text() for text in ax.get_legend().get_texts()]
    assert entries[:6] == ["group", "c", "b", "a", "age", "20"]
    for options, message in [
        ({"sensitive_features": frame.assign(age=1)}, "Column age .* only one group"),
        ({"sensitive_features": frame.assign(age=LABELS == -1)}, "4 groups of attrib"),
        ({"sensitive_features": frame.set_axis(["g"] * 2, axis=1)}, "equal names"),
    ]:
        with pytest.raises(ValueError, match=message):
            draw(ax, **{"attributes": "each", "sensitive_features": frame, **options})


@pytest.mark.parametrize("attributes", ["joint", "each"])
def test_from_estimator(ax, attributes):
    data = make_fair_sbm(60, n_clusters=2, n_groups=2, random_state=0)
    both = np.column_stack([data.sensitive_features, np.arange(60) // 2 % 2])
    groups = {"sensitive_features": both}
    model = FairSpectralClustering(2, attributes=attributes, random_state=0)
    model.fit(data.graph, **groups)
    for name, title in ((None, "FairSpectralClustering"), ("x", "x")):
        display = ClusterCompositionDisplay.from_estimator(
            model, **groups, ax=ax, name=name
        )
        assert ax.get_title().startswith(f"{title}: average balance")
    assert display.average_balance == pytest.approx(model.balance_.mean())
    if attributes == "each":
        assert display.attributes == {"0": 2, "1": 2}
        display = ClusterCompositionDisplay.from_estimator(
            model, **groups, attributes="joint", ax=ax
        )
    assert display.groups.tolist() == ["0, 0", "0, 1", "1, 0", "1, 1"]
