import pytest


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
