"""Graphs of NetworkX and igraph, and what looks like them, in place of a matrix."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from scalefair._entries import graph_as_matrix
from scalefair.cluster import (
    CoordinateDescentFairClustering,
    FairSpectralClustering,
    UnifiedFairSpectralClustering,
    refine_partition,
)
from scalefair.datasets import make_fair_sbm
from scalefair.metrics import normalized_cut_score

DATA = make_fair_sbm(
    60, n_clusters=2, n_groups=2, probabilities=(0.9, 0.6, 0.3, 0.05), random_state=0
)
GROUPS = DATA.sensitive_features
# A weight for each edge, and the order in which a graph has the nodes.
WEIGHTED = sparse.triu(DATA.graph).tocoo()
WEIGHTED.data = np.random.default_rng(0).random(WEIGHTED.nnz) + 0.5
ORDER = np.random.default_rng(1).permutation(60)


class NetworkXLike:
    """What is asked of a networkx.Graph: nodes "n17", weighted edges."""

    directed = several = False

    def __init__(self, nodes=ORDER, default=None):
        self.nodes = {f"n{i}": {} for i in nodes}
        self.default = default

    def is_directed(self):
        return self.directed

    def is_multigraph(self):
        return self.several

    def edges(self, data, default):
        assert data == "weight"
        for i, j, weight in zip(*WEIGHTED.coords, WEIGHTED.data, strict=True):
            yield f"n{i}", f"n{j}", default if self.default else float(weight)


def expected(order=ORDER, *, weighted=True):
    W = sparse.csr_array(WEIGHTED + sparse.triu(WEIGHTED, 1).T)
    W.data = W.data if weighted else np.ones(W.nnz)
    return sparse.csr_array(W[order][:, order])


def networkx_graph(kind="Graph", *, weighted=True):
    networkx = pytest.importorskip("networkx")
    G = getattr(networkx, kind)()
    G.add_nodes_from(f"n{i}" for i in ORDER)
    name = "weight" if weighted else "length"
    G.add_weighted_edges_from(NetworkXLike().edges("weight", 1), name)
    return G


def igraph_graph(*, weighted=True, **options):
    igraph = pytest.importorskip("igraph")
    G = igraph.Graph(60, np.transpose(WEIGHTED.coords).tolist(), **options)
    if weighted:
        G.es["weight"] = WEIGHTED.data.tolist()
    return G


MAKERS = {
    "like networkx": lambda weighted: NetworkXLike(default=not weighted),
    "networkx": lambda weighted: networkx_graph(weighted=weighted),
    "igraph": lambda weighted: igraph_graph(weighted=weighted),
}


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("library", MAKERS)
def test_a_graph_is_taken_for_its_matrix(library, weighted):
    G = MAKERS[library](weighted)
    order = np.arange(60) if library == "igraph" else ORDER
    W, groups = expected(order, weighted=weighted), GROUPS[order]
    model = FairSpectralClustering(2, random_state=0).fit(G, sensitive_features=groups)
    assert abs(model.affinity_matrix_ - W).max() == 0
    same = FairSpectralClustering(2, random_state=0).fit(W, sensitive_features=groups)
    np.testing.assert_array_equal(model.labels_, same.labels_)
    cut = normalized_cut_score(W, model.labels_)
    assert normalized_cut_score(G, model.labels_) == cut


@pytest.mark.parametrize(
    "estimator", [CoordinateDescentFairClustering, UnifiedFairSpectralClustering]
)
def test_comparators_and_the_refinement_take_one(estimator):
    model = estimator(2, random_state=0)
    model.fit(NetworkXLike(), sensitive_features=GROUPS[ORDER])
    assert abs(model.affinity_matrix_ - expected()).max() == 0
    options = {"sensitive_features": GROUPS[ORDER], "random_state": 0}
    labels = np.arange(60) % 2
    refined = refine_partition(NetworkXLike(), labels, **options)
    same = refine_partition(expected(), labels, **options)
    np.testing.assert_array_equal(refined.labels, same.labels)
    assert refined.cut_before == same.cut_before


def test_groups_may_be_a_dict_of_nodes():
    groups_by_node = {f"n{i}": f"g{g}" for i, g in enumerate(GROUPS)}
    model = FairSpectralClustering(2, random_state=0)
    model.fit(NetworkXLike(), sensitive_features=groups_by_node)
    assert model.groups_.tolist() == ["g0", "g1"]
    assert model.minimum_balance_ > 0.5
    del groups_by_node["n3"], groups_by_node["n4"]
    with pytest.raises(ValueError, match=r"no value for 2 of 60 nodes.*'n[34]'"):
        model.fit(NetworkXLike(), sensitive_features=groups_by_node)


def test_clusters_may_be_a_dict_of_nodes():
    labels = {f"n{i}": i % 2 for i in range(60)}
    cut = normalized_cut_score(expected(), ORDER % 2)
    assert normalized_cut_score(NetworkXLike(), labels) == cut
    with pytest.raises(ValueError, match="index of labels has the nodes in another"):
        normalized_cut_score(NetworkXLike(), pd.Series(labels))


@pytest.mark.parametrize(
    "name", ["sensitive_features", "group_probabilities", "sample_weight", "labels"]
)
def test_labels_that_are_the_nodes_in_another_order_are_refused(name):
    G, values = NetworkXLike(), {"labels": np.arange(60) % 2}
    values["sensitive_features"] = GROUPS[ORDER]
    values["sample_weight"] = np.random.default_rng(0).integers(1, 4, 60)
    if name == "group_probabilities":
        values[name] = np.eye(2)[values.pop("sensitive_features")]
    kind = pd.DataFrame if name == "group_probabilities" else pd.Series
    labelled = kind(values.pop(name), index=list(G.nodes))
    calls = [partial(refine_partition, G, **values)]
    if name == "labels":
        calls.append(partial(normalized_cut_score, G))
    else:
        del values["labels"]
        model = FairSpectralClustering(2, random_state=0)
        calls.append(partial(model.fit, G, **values))
    for call in calls:
        with pytest.raises(ValueError, match=rf"pass {name}.loc\[list\(G.nodes\)\]"):
            call(**{name: labelled[::-1]})
        call(**{name: labelled[::-1].loc[list(G.nodes)]})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: networkx_graph("MultiGraph"), "a multigraph.* pass networkx.to_scipy"),
        (lambda: networkx_graph("DiGraph"), "directed.* pass A \\+ A.T, where A = net"),
        (lambda: networkx_graph("MultiDiGraph"), "pass A \\+ A.T"),
        (lambda: igraph_graph(directed=True), "pass G.as_undirected"),
    ],
)
def test_others_are_refused_with_the_line_that_converts_them(make, message):
    model = FairSpectralClustering(2, random_state=0)
    with pytest.raises(ValueError, match=message):
        model.fit(make(), sensitive_features=GROUPS)


def test_loops_count_once_and_rows_of_features_are_none():
    G = NetworkXLike()
    G.edges = lambda data, default: iter([("n0", "n0", 3.0), ("n0", "n1", 2.0)])
    W, _ = graph_as_matrix(G)
    first, second = (int(np.flatnonzero(i == ORDER)[0]) for i in (0, 1))
    assert (W[first, first], W[first, second], W.nnz) == (3, 2, 3)
    with pytest.raises((TypeError, ValueError)):
        FairSpectralClustering(affinity="rbf").fit(G, sensitive_features=GROUPS)
