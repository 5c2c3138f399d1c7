"""Regressors changed for several attributes, each by itself."""

from functools import cache

import dask
import numpy as np
import pandas as pd
import pytest
from sklearn.neural_network import MLPRegressor

from scalefair.files import open_rows
from scalefair.metrics import moment_gaps
from scalefair.postprocessing import ExplainableSVDRegressor

N = 1500
RNG = np.random.default_rng(0)
PEOPLE = pd.DataFrame({"sex": RNG.permutation(["f", "m"] * (N // 2))})
PEOPLE["place"] = RNG.integers(0, 3, N)
X = RNG.standard_normal((N, 4)) @ RNG.standard_normal((4, 4))
X *= np.where(PEOPLE["sex"] == "f", 1.4, 1.0)[:, None]
X += np.outer(PEOPLE["place"], [0.8, -0.4, 0.1, 0.3])
X[PEOPLE["place"] == 1, 2] *= 1.5


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
