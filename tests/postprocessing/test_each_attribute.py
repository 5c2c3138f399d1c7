"""Layers changed for several attributes, each by itself."""

from functools import cache

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
    moments = GroupMoments._from_attributes(X, PEOPLE[list(names)], "each")
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


@pytest.mark.parametrize("reductions", [(15.0, 150.0), (1.0, 10.0), (np.inf, 20.0)])
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


NET_TARGETS = np.tanh(X[:, 0]) + X[:, 1]


@cache
def network():
    options = {"hidden_layer_sizes": (8, 6), "tol": 0.01, "random_state": 0}
    return MLPRegressor(**options).fit(X, NET_TARGETS)


def fair(rows, people, **options):
    model = ExplainableSVDRegressor(network(), attributes="each", **options)
    return model.fit(rows, NET_TARGETS, sensitive_features=people)


def test_a_regressor(tmp_path):
    net, model = network(), fair(X, PEOPLE, noise_floor=False)
    assert [groups.tolist() for groups in model.groups_] == [["f", "m"], [0, 1, 2]]
    assert [m.counts.sum() for m in model.moments_] == [N, N]
    assert model.converged_
    assert np.isnan(model.output_change_bound_)
    hidden = np.maximum(X @ net.coefs_[0] + net.intercepts_[0], 0)
    for name in PEOPLE:
        before, after = (
            np.array(moment_gaps(hidden @ weight, sensitive_features=PEOPLE[name]))
            for weight in (net.coefs_[1], model.weight_.T)
        )
        assert (after <= before / np.sqrt([15, 150]) * (1 + 1e-6)).all()
    each = {"sensitive_features": PEOPLE, "attributes": "each"}
    gaps = moment_gaps(model.predict(X), **each)
    assert gaps == pytest.approx(model.refit_gaps_after_)
    assert gaps[0] < moment_gaps(net.predict(X), **each)[0] / 2
    twice, once = fair(X, PEOPLE[["sex", "sex"]]), fair(X, PEOPLE["sex"])
    assert isinstance(once.groups_, np.ndarray)
    np.testing.assert_allclose(twice.predict(X), once.predict(X), atol=1e-6)
    # The same of rows in parts.
    np.save(tmp_path / "X.npy", X)
    cuts = [slice(0, 600), slice(600, N)]
    rows, groups = ([dask.delayed(x[cut]) for cut in cuts] for x in (X, PEOPLE))
    reader = open_rows(tmp_path / "X.npy", max_bytes=20000)
    for X_parts, people in ((rows, groups), (reader, PEOPLE)):
        parts = fair(X_parts, people, noise_floor=False)
        np.testing.assert_allclose(parts.weight_, model.weight_, atol=1e-4)


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"Column place of .* only one group \(1\)"):
        fair(X, PEOPLE.assign(place=1))
    with pytest.raises(ValueError, match="'attributes' parameter of Explainable"):
        ExplainableSVDRegressor(network(), attributes="all").fit(
            X, X[:, 0], sensitive_features=PEOPLE
        )
