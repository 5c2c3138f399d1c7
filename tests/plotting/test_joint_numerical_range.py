"""Display of the joint numerical range of two groups."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from scalefair.decomposition import (
    FairPCA,
    GroupPCA,
    SemidefiniteFairPCA,
    joint_numerical_range,
)
from scalefair.plotting import JointNumericalRangeDisplay


def random_covariance(n, seed):
    A = np.random.default_rng(seed).standard_normal((n, n))
    return A @ A.T / n


C_A, C_B = random_covariance(6, 0), random_covariance(6, 1)


def top(C, r):
    return np.linalg.eigvalsh(C)[-r:].sum()


def draw(ax, first=C_A, second=C_B, n_components=2, **options):
    return JointNumericalRangeDisplay.from_covariances(
        first, second, n_components, ax=ax, **options
    )


def draw_fit(ax, model, X, groups, **options):
    return JointNumericalRangeDisplay.from_estimator(
        model, X, sensitive_features=groups, ax=ax, **options
    )


def two_groups(m=300, n=5, seed=0):
    rng = np.random.default_rng(seed)
    is_few = np.arange(m) < m // 3
    scales = np.where(is_few[:, None], np.arange(1, n + 1), np.arange(n, 0, -1))
    X = rng.standard_normal((m, n)) * scales + 3.0
    return X, np.where(is_few, "few", "many")


X, GROUPS = two_groups()


def fitted(X=X, groups=GROUPS, **options):
    return FairPCA(**options).fit(X, sensitive_features=groups)


def largest_losses(display, points):
    return (display.best - points).max(axis=-1)


@pytest.mark.parametrize("r", [1, 2, 5])
def test_fair_point_is_the_optimum(ax, r):
    # phi(t), maximised by another method, is the optimal largest loss.
    best = np.array([top(C_A, r), top(C_B, r)])
    maximum = minimize_scalar(
        lambda t: top(t * C_A + (1 - t) * C_B, r) - t * best[0] - (1 - t) * best[1],
        bounds=(0, 1),
        options={"xatol": 1e-10},
    )
    display = draw(ax, n_components=r)
    np.testing.assert_allclose(display.best, best)
    np.testing.assert_allclose(best - display.fair_point, [-maximum.fun] * 2, rtol=1e-9)
    assert display.plain_point is None


@pytest.mark.parametrize("share", [0.0, 1.0])  # a group without variance, equal groups
def test_titles_are_without_rounding(ax, share):
    display = draw(ax, C_A, share * C_A)
    np.testing.assert_allclose(display.fair_point, display.best, atol=1e-12)
    assert ax.get_title() == "largest loss: fair PCA 0"


def test_artists_have_the_data(ax):
    display = draw(ax, group_sizes=(100, 300), groups=("u", "v"), hatch="/")
    assert display.region_.get_hatch() == "/"
    # No basis is better than the fair one.
    fair = largest_losses(display, display.fair_point)
    assert largest_losses(display, display.boundary).min() >= fair * (1 - 1e-9)
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert {"fair PCA", "plain PCA", "equal losses"} <= set(names)
    corners = display.region_.get_xy()[:-1]
    np.testing.assert_allclose(corners, display.boundary)
    around = joint_numerical_range(C_A, C_B, 2, n_angles=180)
    normals = np.column_stack([np.cos(around.angles), np.sin(around.angles)])
    np.testing.assert_allclose((normals @ corners.T).max(axis=1), around.support)
    U = np.linalg.eigh((C_A + 3 * C_B) / 4)[1][:, -2:]
    plain = [np.trace(U.T @ C_A @ U), np.trace(U.T @ C_B @ U)]
    points = {"plain": plain, "fair": display.fair_point, "best": display.best}
    for name, point in points.items():
        np.testing.assert_allclose(display.markers_[name].get_xydata(), [point])
    fair, loss = (largest_losses(display, p) for p in (display.fair_point, plain))
    title = f"largest loss: fair PCA {fair:.3g}, plain PCA {loss:.3g}"
    assert ax.get_title() == title
    assert ax.get_xlabel().startswith("captured variance of group u")


def test_the_view_of_the_optimum_is_narrow(ax):
    similar = C_A + 0.01 * random_covariance(6, 2)
    display = draw(ax, C_A, similar, group_sizes=(1, 9), view="optimum")
    assert np.ptp(ax.get_xlim()) < 0.2 * np.ptp(display.boundary[:, 0])
    ax.figure.draw_without_rendering()
    top_axis, right_axis = ax.child_axes
    # A loss is the largest variance less the captured one.
    limits = display.best[0] - np.array(ax.get_xlim()[::-1])
    np.testing.assert_allclose(sorted(top_axis.get_xlim()), limits)
    assert right_axis.get_ylabel() == "loss of group B (same units)"


@pytest.mark.parametrize("r", [1, 2])
def test_two_features(ax, r):
    # A curve or a point: nothing is filled, be it from matrices or an estimator.
    X, groups = two_groups(n=2)
    for display in (
        draw(ax, C_A[:2, :2], C_B[:2, :2], r, group_sizes=(1, 1)),
        draw_fit(ax, fitted(X, groups, n_components=r), X, groups),
    ):
        ax.figure.draw_without_rendering()
        assert display.region_.get_facecolor()[3] == 0
    assert np.ptp(ax.get_xlim()) > 0.01 * display.best[0]


@pytest.mark.parametrize("centering", ["global", "group"])
def test_from_estimator(ax, centering):
    options = {"n_components": 2, "centering": centering}
    model = fitted(**options)
    display = draw_fit(ax, model, X, GROUPS)
    losses = display.best - display.fair_point
    np.testing.assert_allclose(losses, model.group_losses_, rtol=1e-7)
    plain = GroupPCA(**options).fit(X, sensitive_features=GROUPS)
    losses = display.best - display.plain_point
    np.testing.assert_allclose(losses, plain.group_losses_, atol=1e-9)
    assert ax.get_title().startswith("largest loss: FairPCA ")
    assert "group few" in ax.get_xlabel()
    # Of other rows the point lies within.
    display = draw_fit(ax, model, *two_groups(seed=1), name="old")
    assert "old" in ax.get_title()
    losses = display.best - display.fair_point
    assert (losses > 0).all()
    assert abs(losses[0] - losses[1]) > 1e-3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"view": "corner"}, "view must be"),
        ({"group_sizes": (1, 2, 3)}, r"group_sizes must have shape \(2,\)"),
        ({"group_sizes": (1, -2)}, "group_sizes must be positive"),
    ],
)
def test_bad_covariances(pyplot, change, message):
    with pytest.raises(ValueError, match=message):
        draw(None, **change)
    assert pyplot.get_fignums() == []


def test_bad_estimators(ax):
    model = fitted(n_components=2)
    relaxed = SemidefiniteFairPCA(n_components=2).fit(X, sensitive_features=GROUPS)
    for estimator, rows, groups, message in [
        (model, X, np.arange(300) % 3, "two groups, got 3"),
        (model, X[:, :4], GROUPS, "4 features, the estimator was fitted to 5"),
        (relaxed, X, GROUPS, "orthonormal"),
    ]:
        with pytest.raises(ValueError, match=message):
            draw_fit(ax, estimator, rows, groups)
