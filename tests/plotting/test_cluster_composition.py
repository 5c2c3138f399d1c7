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
    display = draw(ax, name="Mine")
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


def test_order_follows_the_overrepresented_group(ax):
    labels = np.repeat([0, 1, 2, 3], 10)
    groups = np.array(list("aabbbbbbbb" + "aaaaaaabbb" + "aaaaaaaaab" + "aaabbbbbbb"))
    display = draw(ax, labels, groups)
    assert [t.get_text() for t in ax.get_xticklabels()] == ["2", "1", "0", "3"]
    np.testing.assert_allclose(heights(display)[:, 0], [0.9, 0.7, 0.2, 0.3])


def test_legend_lists_groups_as_the_bars_lie(ax):
    display = draw(ax, width=0.5, alpha=0.3)
    bar = display.bars_[0][0]
    assert (bar.get_width(), bar.get_alpha()) == (0.5, 0.3)
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["c", "b", "a", "share in the population"]
    assert ax.get_title() == "average balance 0.12"  # of 0 and 1/4


@pytest.mark.parametrize("n_clusters", [16, 41])
def test_names_of_few_clusters_only(ax, n_clusters):
    labels = 100 + np.arange(40 * n_clusters) % n_clusters
    groups = np.arange(labels.size) // n_clusters % 2
    draw(ax, labels, groups)
    is_named = n_clusters == 16
    assert len(ax.get_xticklabels()) == (16 if is_named else 0)
    assert ax.get_xlabel() == ("cluster" if is_named else "41 clusters")


def test_long_names_of_clusters_are_slanted(ax):
    names = np.array(["north-western region", "southern region", "business district"])
    draw(ax, names[np.arange(120) % 3], np.arange(120) % 2)
    labels = ax.get_xticklabels()
    assert {label.get_text() for label in labels} == set(names)
    assert all(label.get_rotation() > 0 for label in labels)


def test_no_two_of_many_groups_look_the_same(ax):
    display = draw(ax, np.repeat([0, 1], 100), np.tile(np.arange(20), 10))
    looks = {(b[0].get_facecolor(), b[0].get_hatch()) for b in display.bars_}
    assert len(looks) == 20


def test_from_estimator(ax):
    data = make_fair_sbm(60, n_clusters=2, n_groups=2, random_state=0)
    groups = {"sensitive_features": data.sensitive_features}
    model = FairSpectralClustering(2, random_state=0).fit(data.graph, **groups)
    for name, title in ((None, "FairSpectralClustering"), ("x", "x")):
        display = ClusterCompositionDisplay.from_estimator(
            model, **groups, ax=ax, name=name
        )
        assert ax.get_title().startswith(f"{title}: average balance")
    expected = group_proportions(model.labels_, **groups)
    np.testing.assert_allclose(display.proportions, expected)


AGES = np.arange(12) % 3 * 10
BOTH = {"group": GROUPS, "age": AGES}


def test_several_attributes_lie_above_each_other(ax):
    """Clusters are in one order; each attribute is drawn as it would be alone."""
    frame = pandas.DataFrame(BOTH)
    display = draw(ax, sensitive_features=frame, attributes="each")
    assert display.clusters.tolist() == [3, 5]
    assert display.groups.tolist() == ["a", "b", "c", 0, 10, 20]
    assert display.attributes == {"group": 3, "age": 3}
    bottoms = np.array([[b.get_y() for b in bars] for bars in display.bars_]).T
    lines = np.array([line.get_ydata()[0] for line in display.lines_])
    [foot] = {*bottoms[:, 0]}
    assert foot > 1
    for j, column in enumerate(frame):
        alone = group_proportions(LABELS, sensitive_features=frame[column])
        columns, low = slice(3 * j, 3 * j + 3), (foot, 0)[j]
        np.testing.assert_allclose(heights(display)[:, columns], alone)
        np.testing.assert_allclose(bottoms[:, columns] - low, alone.cumsum(1) - alone)
        shares = np.unique(frame[column][LABELS != -1], return_counts=True)[1] / 10
        np.testing.assert_allclose(display.population[columns], shares)
        marked = lines[2 * j : 2 * j + 2] - low
        np.testing.assert_allclose(marked, shares.cumsum()[:-1])
    balance = balance_score(LABELS, sensitive_features=frame, attributes="each")
    assert display.average_balance == pytest.approx(balance)
    assert balance < balance_score(LABELS, sensitive_features=AGES)
    entries = [text.get_text() for text in ax.get_legend().get_texts()]
    assert entries[:6] == ["group", "c", "b", "a", "age", "20"]
    assert ax.get_ylim() == (0, 1 + foot)
    with pytest.raises(ValueError, match=r"Column age .* has only one group"):
        draw(ax, sensitive_features=frame.assign(age=1), attributes="each")
    with pytest.raises(ValueError, match=r"4 groups of attributes .*'age': 1"):
        draw(ax, sensitive_features=frame.assign(age=LABELS == -1), attributes="each")
    with pytest.raises(ValueError, match='attributes must be "joint" or "each"'):
        draw(ax, sensitive_features=frame, attributes="both")


def test_attributes_of_an_estimator(ax):
    data = make_fair_sbm(60, n_clusters=2, n_groups=2, random_state=0)
    both = np.column_stack([data.sensitive_features, np.arange(60) // 2 % 2])
    groups = {"sensitive_features": both}
    model = FairSpectralClustering(2, attributes="each", random_state=0)
    model.fit(data.graph, **groups)
    display = ClusterCompositionDisplay.from_estimator(model, **groups, ax=ax)
    assert display.attributes == {"0": 2, "1": 2}
    assert display.average_balance == pytest.approx(model.balance_.mean())
    display = ClusterCompositionDisplay.from_estimator(
        model, **groups, attributes="joint", ax=ax
    )
    assert display.groups.tolist() == ["0, 0", "0, 1", "1, 0", "1, 1"]


def test_clusters_may_have_names_of_any_type(ax):
    for labels in (["x", "x", "y"], [True, True, False], [0.5, 0.5, 2.0]):
        display = draw(ax, labels, ["a", "b", "a"])
        assert display.clusters.tolist() == sorted(set(labels))
        np.testing.assert_allclose(display.population, [2 / 3, 1 / 3])


def test_balance_of_the_clusters_drawn_is_the_default(ax):
    proportions, population = [[0.5, 0.5], [0.2, 0.8]], [0.3, 0.7]
    ClusterCompositionDisplay(
        proportions, population=population, clusters=[0, 1], groups=["a", "b"]
    ).plot(ax)
    assert ax.get_title() == "average balance 0.62"  # of 1 and 1/4


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([*GROUPS[:-1], None], "sensitive_features has 1 missing value"),
        (GROUPS[:-1], "11 groups for 12 samples"),
        (["a"] * 12, "only one"),
    ],
)
def test_bad_groups(ax, groups, message):
    with pytest.raises(ValueError, match=message):
        draw(ax, sensitive_features=groups)
