"""Models of scikit-learn as sequences of linear layers."""

import pickle

import numpy as np
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.cross_decomposition import PLSRegression
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    RANSACRegressor,
    Ridge,
)
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from scalefair.postprocessing._hosts import find_host

from .conftest import X, Y, mlp


@pytest.mark.parametrize("make", [mlp, lambda: Ridge().fit(X, Y)], ids=["mlp", "ridge"])
def test_a_frozen_last_step(make):
    """The layers are those of the estimator inside; it stays frozen in the copy."""
    model = make()
    frozen = make_pipeline("passthrough", None, FrozenEstimator(model))
    pipeline = make_pipeline(StandardScaler(), frozen).fit(X, Y)
    before = pickle.dumps(pipeline)
    host, inner, Z = find_host(pipeline), find_host(model), pipeline[0].transform(X)
    assert host.layer_names == inner.layer_names
    assert host.can_resume
    for i, A in enumerate(host.inputs_by_layer(X)):
        np.testing.assert_array_equal(A, inner.inputs(Z, i))
    last = host.n_layers - 1
    n_inputs = host.shape(last)[1]
    changed = host.replaced({last: (np.zeros((1, n_inputs)), [4.0])})
    np.testing.assert_array_equal(changed.estimator.predict(X), np.full(300, 4.0))
    np.testing.assert_array_equal(changed.outputs(X), np.full(300, 4.0))
    assert isinstance(changed.estimator[-1][-1], FrozenEstimator)
    assert pickle.dumps(pipeline) == before
    assert find_host(FrozenEstimator(model)).estimator is model


@pytest.mark.parametrize("model", [mlp(), Ridge().fit(X, Y)], ids=["mlp", "ridge"])
def test_changes_that_do_not_fit(model):
    host = find_host(model)
    weight = host.weight(0)
    with pytest.raises(ValueError, match=r"weight of coefs?_.* must have shape"):
        host.replaced({0: (weight[:, 1:], None)})
    with pytest.raises(ValueError, match=r"intercepts?_.* must have shape"):
        host.replaced({0: (weight, np.zeros(9))})
    with pytest.raises(ValueError, match=r"weight of coefs?_.* has entries that are"):
        host.replaced({0: (weight * np.nan, None)})
    single = find_host(mlp(X.astype(np.float32), Y.astype(np.float32)))
    with pytest.raises(ValueError, match="not finite in float32"):
        single.replaced({2: (np.full((1, 6), 1e300), None)})


def test_layers_by_number_and_name():
    host = find_host(mlp())
    assert [host.resolve(i) for i in (0, 2, -1, -3)] == [0, 2, 2, 0]
    assert host.resolve(np.int64(1)) == host.resolve("coefs_[1]") == 1
    for bad in (3, -4):
        with pytest.raises(ValueError, match=r"from -3 to 2.*coefs_\[0\]"):
            host.resolve(bad)
    with pytest.raises(ValueError, match=r"no layer 'last'.*coefs_\[2\]"):
        host.resolve("last")
    for bad in (1.0, True, None):
        with pytest.raises(TypeError, match="integer or a name"):
            host.resolve(bad)


class Squaring(LinearRegression):
    """Looks linear, is not."""

    def predict(self, rows):
        return super().predict(rows) ** 2


@pytest.mark.parametrize(
    ("model", "advice"),
    [
        (RandomForestRegressor(2).fit(X, Y), "linear layer.*MLPRegressor"),
        (SVR().fit(X, Y), "linear layer.*MLPRegressor"),
        (SVR(kernel="linear").fit(X, Y), "cannot be changed.*LinearSVR"),
        (PLSRegression().fit(X, Y), "does not predict by X @ coef_"),
        (GridSearchCV(Ridge(), {"alpha": [1.0]}).fit(X, Y), "pass its best_estimator_"),
        (TransformedTargetRegressor(Ridge()).fit(X, Y), "pass its regressor_"),
        (RANSACRegressor(random_state=0).fit(X, Y), "pass its estimator_"),
        (LogisticRegression().fit(X, Y > 1), "is a classifier"),
        (MLPClassifier(max_iter=200), "is a classifier"),
        (Pipeline([("s", StandardScaler()), ("r", "passthrough")]), "last step"),
        (Pipeline([("s", StandardScaler()), ("r", None)]), "last step"),
        (make_pipeline(StandardScaler(), RandomForestRegressor(2)), "not been fitted"),
        (Squaring().fit(X, Y), "Squaring has coef_ and intercept_ but"),
        (Ridge, "is the class Ridge"),
        (StandardScaler().fit(X), "no predict"),
        ("network", "no predict.*MLPRegressor"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_models_without_a_host(model, advice):
    error = NotFittedError if advice == "not been fitted" else TypeError
    with pytest.raises(error, match=advice):
        find_host(model)


def test_coefficients_that_are_not_finite():
    for attribute, name in (("coef_", "weight"), ("intercept_", "bias")):
        model = Ridge().fit(X, Y)
        setattr(model, attribute, np.nan * getattr(model, attribute))
        message = rf"{name} of layer 'coef_' of this Ridge has"
        with pytest.raises(ValueError, match=message):
            find_host(model)
