"""Displays of principal components: losses of groups, joint numerical range."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from scalefair.decomposition import (
    ErrorWeightedFairPCA,
    FairPCA,
    GroupPCA,
    SemidefiniteFairPCA,
    joint_numerical_range,
)
from scalefair.plotting import GroupLossDisplay, JointNumericalRangeDisplay


def two_groups(m=300, n=5, seed=0):
    rng = np.random.default_rng(seed)
    is_few = np.arange(m) < m // 3
    scales = np.where(is_few[:, None], np.arange(1, n + 1), np.arange(n, 0, -1))
    X = rng.standard_normal((m, n)) * scales + 3.0
    return X, np.where(is_few, "few", "many")


X, GROUPS = two_groups()


def draw_losses(axes, n_components, X=X, groups=GROUPS, **options):
    return GroupLossDisplay.from_data(
        X, sensitive_features=groups, n_components=n_components, axes=axes, **options
    )


LOSSES = {
    "PCA": np.array([[3.0, 0.1], [2.0, 0.2], [0.0, 0.0]]),
    "fair": np.array([[1.0, 1.0], [0.9, 0.9], [0.0, 0.0]]),
}


def display_of(errors=(5.0, 2.2, 0.0)):
    return GroupLossDisplay(
        [1, 2, 4],
        losses=LOSSES,
        total_errors={"PCA": [4.0, 2.0, 0.0], "fair": errors},
        groups=["a", "b"],
    )


@pytest.mark.parametrize("centering", ["global", "group"])
def test_from_data_has_the_losses_of_the_estimators(axes, centering):
    display = draw_losses(axes, [3, 1], centering=centering)
    np.testing.assert_array_equal(display.n_components, [1, 3])
    for name, method in (("PCA", GroupPCA), ("FairPCA", FairPCA)):
        for i, r in enumerate([1, 3]):
            fit = method(r, centering=centering).fit(X, sensitive_features=GROUPS)
            losses = display.losses[name][i]
            np.testing.assert_allclose(losses, fit.group_losses_, rtol=1e-7)
            errors = fit.group_reconstruction_errors_
            error = np.average(errors, weights=[100, 200])
            np.testing.assert_allclose(display.total_errors[name][i], error)
    fair = display.losses["FairPCA"]
    np.testing.assert_allclose(fair[:, 0], fair[:, 1], rtol=1e-7)


def test_other_methods(axes):
    methods = {
        "plain": GroupPCA(n_components=1),
        "errors": ErrorWeightedFairPCA(centering="group"),
        "losses": FairPCA(tol=1e-6),
    }
    display = draw_losses(axes, [2], methods=methods)
    assert list(display.losses) == list(display.loss_lines_) == list(methods)
    expected = ErrorWeightedFairPCA(n_components=2).fit(X, sensitive_features=GROUPS)
    np.testing.assert_allclose(display.losses["errors"][0], expected.group_losses_)
    # The estimators given are left as they were.
    assert methods["errors"].centering == "group"


def test_lines_are_the_numbers(axes):
    display = display_of().plot(axes)
    for name in ("PCA", "fair"):
        drawn = np.column_stack([n.get_ydata() for n in display.loss_lines_[name]])
        np.testing.assert_array_equal(drawn, display.losses[name])
        line = display.error_lines_[name]
        expected = [[1, 2, 4], display.total_errors[name]]
        np.testing.assert_array_equal(line.get_xydata().T, expected)
        assert line.axes is axes[1]
        assert display.loss_lines_[name][0].axes is axes[0]
    assert axes[0].get_title() == "largest loss: PCA 3, fair 1"


@pytest.mark.parametrize(
    ("errors", "title"),
    [
        ([4.0, 3.0, 0.0], "fair adds at most 50.0 % (with 2 components)"),
        ([4.0, 2.0, 0.0], "fair adds nothing"),
        ([3.0, 1.0, 0.0], "fair takes off at least 25.0 % (with 1 component)"),
        ([4.0, 2.0002, 0.0], "fair adds at most 0.01 % (with 2 components)"),
        ([4.0, 2.0, 0.1], "fair adds to an error of nothing (with 4 components)"),
    ],
)
def test_the_price_is_true_for_better_methods_too(axes, errors, title):
    display_of(errors).plot(axes)
    assert axes[1].get_title() == title


def test_all_components_lose_nothing(axes):
    display = draw_losses(axes, [5])
    assert display.total_errors["PCA"] == display.total_errors["FairPCA"] == 0
    assert not display.losses["PCA"].any()
    assert axes[0].get_title() == "largest loss: PCA 0, FairPCA 0"
    assert axes[1].get_title() == "largest error: PCA 0, FairPCA 0"


def test_losses_of_a_fitted_fair_pca(axes):
    pca = FairPCA(3, solver="gram", centering="group").fit(X, sensitive_features=GROUPS)
    display = GroupLossDisplay.from_estimator(pca, axes=axes)
    expected = draw_losses(axes, [1, 2, 3], centering="group")
    assert list(display.n_components) == [1, 2, 3]
    assert list(display.axes_) == list(axes)
    for name in ("PCA", "FairPCA"):
        np.testing.assert_allclose(display.losses[name], expected.losses[name])
    np.testing.assert_allclose(display.losses["FairPCA"][2], pca.group_losses_)
    with pytest.raises(ValueError, match="n_components is empty"):
        GroupLossDisplay.from_estimator(pca, n_components=[], axes=axes)
    pca.set_params(solver="matrix_free").fit(X, sensitive_features=GROUPS)
    with pytest.raises(ValueError, match='solver="gram", or use from_data'):
        GroupLossDisplay.from_estimator(pca, axes=axes)


@pytest.mark.parametrize(
    ("n_components", "message"),
    [
        ([], "n_components is empty"),
        ([1.5], "whole numbers"),
        ([6], "n_components=6 must be at most"),
    ],
)
def test_bad_input(axes, n_components, message):
    with pytest.raises(ValueError, match=message):
        draw_losses(axes, n_components)
    with pytest.raises(ValueError, match="axes must be two"):
        display_of().plot(axes[0])


@pytest.mark.filterwarnings("ignore:The largest loss")
def test_several_attributes_each_by_itself(pyplot):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4)) * [3, 2, 1, 1]
    groups = np.column_stack([rng.integers(0, 2, 120), rng.integers(5, 8, 120)])
    X[groups[:, 0] == 1, 2] *= 4
    display = GroupLossDisplay.from_data(
        X, sensitive_features=groups, n_components=[1, 2], attributes="each"
    )
    assert display.groups.tolist() == [0, 1, 5, 6, 7]
    model = FairPCA(2, attributes="each").fit(X, sensitive_features=groups)
    expected = np.concatenate(model.group_losses_)
    np.testing.assert_allclose(display.losses["FairPCA"][1], expected, atol=1e-7)
    again = GroupLossDisplay.from_estimator(model)
    np.testing.assert_allclose(again.losses["PCA"], display.losses["PCA"])
    errors = X - X.mean(axis=0)
    errors -= errors @ model.components_.T @ model.components_
    total = display.total_errors["FairPCA"][1]
    assert total == pytest.approx((errors**2).sum(axis=1).mean())


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
    draw_fit(ax, model, X, GROUPS, name="plain PCA")
    assert ax.get_title().count("plain PCA") == 2
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
