"""Axes to draw on, and models whose outputs depend on the groups."""

import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression


class GroupAware:
    """Mixed into models: their outputs depend on the groups, and they have settings."""

    interval, kappa = (0.1, 0.5), 0.2

    def decision_function(self, X, *, sensitive_features):
        return super().decision_function(X) + 3 * (sensitive_features == "f")

    def predict(self, X, *, sensitive_features):
        return super().predict(X) + 3 * (sensitive_features == "f")


class AwareClassifier(GroupAware, LogisticRegression): ...


class AwareRegressor(GroupAware, LinearRegression): ...


@pytest.fixture
def figure():
    """A figure that pyplot does not know."""
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    return Figure(figsize=(8, 5), layout="constrained")


@pytest.fixture
def ax(figure):
    return figure.subplots()


@pytest.fixture
def axes(figure):
    return figure.subplots(1, 2)


@pytest.fixture
def pyplot():
    mpl = pytest.importorskip("matplotlib")
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")
