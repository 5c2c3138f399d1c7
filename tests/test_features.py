"""Features of rows in parts, recorded and compared."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from scalefair._entries import check_features


class Model(BaseEstimator):
    pass


def rows(n_features, names=None):
    return SimpleNamespace(shape=(9, n_features), feature_names=names)


def fitted(n_features, names=None):
    model = Model()
    check_features(model, rows(n_features, names), reset=True)
    return model


def test_features_are_recorded():
    model = fitted(2, ["a", "b"])
    assert model.n_features_in_ == 2
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert model.feature_names_in_.dtype == object
    check_features(model, rows(3), reset=True)
    assert model.n_features_in_ == 3
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize("names", [None, ["a", "b"], np.array(["a", "b"], object)])
def test_the_same_features(names):
    check_features(fitted(2, ["a", "b"]), rows(2, names), reset=False)
    check_features(fitted(2), rows(2, names), reset=False)


def test_other_features():
    model = fitted(2, ["a", "b"])
    with pytest.raises(ValueError, match="X has 3 features, but Model is expecting 2"):
        check_features(model, rows(3), reset=False)
    with pytest.raises(ValueError, match=r"unseen at fit time:\n- c\n"):
        check_features(model, rows(2, ["a", "c"]), reset=False)
