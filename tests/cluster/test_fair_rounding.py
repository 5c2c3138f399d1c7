"""assign_labels="fair" through the estimator."""

import numpy as np
import pytest

from scalefair.cluster import FairAssignment, FairSpectralClustering
from scalefair.datasets import make_fair_sbm
from scalefair.metrics import balance_score, group_proportions


@pytest.fixture(scope="module")
def hard():
    """Clusters that k-means leaves unbalanced: many clusters of few nodes."""
    return make_fair_sbm(
        200, n_clusters=4, n_groups=2, average_degree=20, random_state=3
    )


def fit(data, k=8, **options):
    model = FairSpectralClustering(k, random_state=0, n_init=3, **options)
    return model.fit(data.graph, sensitive_features=data.sensitive_features)


@pytest.fixture(scope="module")
def plain(hard):
    return fit(hard)


@pytest.fixture(scope="module")
def fair(hard):
    return fit(hard, assign_labels="fair")


@pytest.mark.parametrize("tolerance", [0.05, 0.2])
def test_bounds_hold_exactly(hard, plain, tolerance):
    groups = np.asarray(hard.sensitive_features)
    model = fit(hard, assign_labels="fair", balance_tolerance=tolerance)
    shares = np.unique(groups, return_counts=True)[1] / groups.size
    for label in range(8):
        members = groups[model.labels_ == label]
        for group, share in zip(np.unique(groups), shares, strict=True):
            got = (members == group).mean()
            assert (1 - tolerance) * share <= got + 1e-12
            assert got <= (1 + tolerance) * share + 1e-12
    assert balance_score(model.labels_, sensitive_features=groups) > balance_score(
        plain.labels_, sensitive_features=groups
    )
    # The embedding is the same: only the rounding differs.
    np.testing.assert_array_equal(model.embedding_, plain.embedding_)


def test_assignment_is_reported(plain, fair):
    result = fair.assignment_
    assert isinstance(result, FairAssignment)
    assert result.max_violation == 0
    assert result.nearest_cost <= result.lower_bound + 1e-9
    assert result.lower_bound <= result.cost + 1e-9
    np.testing.assert_array_equal(result.labels, fair.labels_)
    assert plain.assignment_ is None


def test_wide_tolerance_moves_hardly_anything(hard, plain):
    model = fit(hard, assign_labels="fair", balance_tolerance=50.0)
    assert (model.labels_ != plain.labels_).mean() < 0.01


def test_nodes_left_out_stay_out(hard):
    W = hard.graph.tolil()
    W[7] = 0
    W[:, 7] = 0
    data = type(hard)(**{**hard, "graph": W.tocsr()})
    model = fit(data, assign_labels="fair", connected_components="largest")
    assert model.labels_[7] == -1
    assert set(model.labels_) == {-1, *range(8)}


def test_infeasible_bounds_name_a_tolerance(hard):
    groups = np.zeros(200, dtype=int)
    groups[:3] = 1  # three nodes cannot be in all eight clusters
    model = FairSpectralClustering(
        8, assign_labels="fair", balance_tolerance=0.1, random_state=0
    )
    message = r"within balance_tolerance=0\.1 .* or balance_tolerance=\d"
    with pytest.raises(ValueError, match=message):
        model.fit(hard.graph, sensitive_features=groups)
    assert not hasattr(model, "labels_")


def test_proportions_follow(hard, fair):
    assert fair.balance_tolerance == 0.1
    shares = group_proportions(fair.labels_, sensitive_features=hard.sensitive_features)
    assert np.ptp(np.asarray(shares), axis=0).max() < 0.2
