"""Layers changed for several attributes, each by itself."""

from itertools import pairwise

import dask
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.neural_network import MLPRegressor

from scalefair.files import open_rows
from scalefair.metrics import moment_gaps
from scalefair.postprocessing import ExplainableSVDRegressor
from scalefair.postprocessing._fair_layer import fair_layer
from scalefair.postprocessing._layer_moments import LayerMoments
from scalefair.streaming import GroupMoments

N = 1500
RNG = np.random.default_rng(0)
PEOPLE = pd.DataFrame({"sex": RNG.permutation(["f", "m"] * (N // 2))})
PEOPLE["place"] = RNG.integers(0, 3, N)
X = RNG.standard_normal((N, 4)) @ RNG.standard_normal((4, 4))
X *= np.where(PEOPLE["sex"] == "f", 1.4, 1.0)[:, None]
X += np.outer(PEOPLE["place"], [0.8, -0.4, 0.1, 0.3])
X[PEOPLE["place"] == 1, 2] *= 1.5
W = RNG.standard_normal((3, 4))


def moments_of(*names):
    moments = GroupMoments._compared(X, PEOPLE[list(names)], "each")
    return moments if len(moments) > 1 else moments[0]


def changed(moments, method="direct", mean=15.0, covariance=150.0):
    return fair_layer(
        W,
        moments,
        method=method,
        reductions=(mean, covariance),
        noise_floor=False,
        epsilon=1e-5,
        first_moment="exact",
    )


def gaps_of(weight, name):
    return np.array(moment_gaps(X @ weight.T, sensitive_features=PEOPLE[name]))


@pytest.mark.parametrize(
    "reductions", [(15.0, 150.0), (4.0, 4.0), (1.0, 10.0), (3.0, 1.0), (np.inf, 20.0)]
)
def test_bounds_of_each_at_the_smallest_change(reductions):
    result = changed(moments_of("sex", "place"), "direct", *reductions)
    assert result.converged
    for name in PEOPLE:
        allowed = gaps_of(W, name) / np.sqrt(reductions)
        within = gaps_of(result.weight, name) <= allowed * (1 + 1e-8) + 1e-12
        assert within[np.array(reductions) > 1].all()
    if np.isinf(reductions[0]):
        return
    layer = LayerMoments(moments_of("sex", "place"))
    S, before = layer.second_moment, layer.gaps_by_attribute(layer.pair_gaps(W)) ** 2
    bounded = np.array(reductions) > 1

    def change(w):
        step = w.reshape(W.shape) - W
        return np.sum((step @ S) * step) / np.sum((W @ S) * W)

    def slack(w):
        after = layer.gaps_by_attribute(layer.pair_gaps(w.reshape(W.shape))) ** 2
        return (1 / np.array(reductions)[:, None] - after / before)[bounded].ravel()

    reference = minimize(
        change,
        0.9 * result.weight.ravel(),
        constraints={"type": "ineq", "fun": slack},
        method="SLSQP",
        options={"maxiter": 300, "ftol": 1e-10},
    )
    assert slack(reference.x).min() > -1e-6
    assert result.change <= 1.03 * reference.fun


@pytest.mark.parametrize("name", ["sex", "place"])
def test_one_attribute_twice_is_once(name):
    for method in ("direct", "explainable_svd"):
        once = changed(moments_of(name), method)
        twice = changed(moments_of(name, name), method)
        np.testing.assert_allclose(twice.weight, once.weight, atol=1e-8)
        assert twice.gaps_after == pytest.approx(once.gaps_after)


def test_the_published_method_lowers_the_sum_of_squares():
    result = changed(moments_of("sex", "place"), "explainable_svd")
    before, after = (
        np.sum([gaps_of(weight, name) ** 2 for name in PEOPLE], axis=0)
        for weight in (W, result.weight)
    )
    assert after[0] == pytest.approx(before[0] / 15)  # no less than was asked for
    assert after[1] < before[1] / 5


@pytest.fixture(scope="module")
def net():
    y = np.tanh(X[:, 0]) + X[:, 1]
    return MLPRegressor(hidden_layer_sizes=(8, 6), tol=0.01, random_state=0).fit(
        X, y
    ), y


def test_a_regressor(net, tmp_path):
    net, y = net
    fair = ExplainableSVDRegressor(net, attributes="each", noise_floor=False)
    fair.fit(X, y, sensitive_features=PEOPLE)
    assert [groups.tolist() for groups in fair.groups_] == [["f", "m"], [0, 1, 2]]
    assert [m.counts.sum() for m in fair.moments_] == [N, N]
    assert fair.converged_
    assert np.isnan(fair.output_change_bound_)
    hidden = np.maximum(X @ net.coefs_[0] + net.intercepts_[0], 0)
    for name in PEOPLE:
        before, after = (
            moment_gaps(hidden @ weight, sensitive_features=PEOPLE[name])
            for weight in (net.coefs_[1], fair.weight_.T)
        )
        assert after[0] <= before[0] / np.sqrt(15) * (1 + 1e-6)
        assert after[1] <= before[1] / np.sqrt(150) * (1 + 1e-6)
    mean_gap, covariance_gap = moment_gaps(
        fair.predict(X), sensitive_features=PEOPLE, attributes="each"
    )
    assert (mean_gap, covariance_gap) == pytest.approx(fair.refit_gaps_after_)
    original = moment_gaps(net.predict(X), sensitive_features=PEOPLE, attributes="each")
    assert mean_gap < original[0] / 2
    twice = ExplainableSVDRegressor(net, attributes="each")
    twice.fit(X, y, sensitive_features=PEOPLE[["sex", "sex"]])
    once = ExplainableSVDRegressor(net, attributes="each")
    once.fit(X, y, sensitive_features=PEOPLE["sex"])
    assert isinstance(once.groups_, np.ndarray)
    np.testing.assert_allclose(twice.predict(X), once.predict(X), atol=1e-6)

    np.save(tmp_path / "X.npy", X)
    cuts = (0, 600, N)
    rows = [dask.delayed(X[a:b]) for a, b in pairwise(cuts)]
    groups = [dask.delayed(PEOPLE[a:b]) for a, b in pairwise(cuts)]
    reader = open_rows(tmp_path / "X.npy", max_bytes=20000)
    for X_parts, people in ((rows, groups), (reader, PEOPLE)):
        parts = ExplainableSVDRegressor(net, attributes="each", noise_floor=False)
        parts.fit(X_parts, y, sensitive_features=people)
        np.testing.assert_allclose(parts.weight_, fair.weight_, atol=1e-4)


def test_what_is_refused(net):
    net, y = net
    fair = ExplainableSVDRegressor(net, attributes="each")
    with pytest.raises(ValueError, match=r"Column place of .* only one group \(1\)"):
        fair.fit(X, y, sensitive_features=PEOPLE.assign(place=1))
    with pytest.raises(ValueError, match="'attributes' parameter of Explainable"):
        ExplainableSVDRegressor(net, attributes="all").fit(X, y, sensitive_features=y)
