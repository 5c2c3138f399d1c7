"""Display of the losses of the groups."""

import numpy as np
import pytest

from scalefair.decomposition import ErrorWeightedFairPCA, FairPCA, GroupPCA
from scalefair.plotting import GroupLossDisplay


def rows_with_groups(m=240, n=5, n_groups=2, seed=0):
    rng = np.random.default_rng(seed)
    groups = np.arange(m) % n_groups
    scales = rng.uniform(0.5, 3, (n_groups, n))
    return rng.standard_normal((m, n)) * scales[groups] + 2.0, groups


X, GROUPS = rows_with_groups()


def draw(axes, n_components, X=X, groups=GROUPS, **options):
    return GroupLossDisplay.from_data(
        X, sensitive_features=groups, n_components=n_components, axes=axes, **options
    )


def display_of(**change):
    arguments = {
        "n_components": [1, 2, 4],
        "losses": {
            "PCA": np.array([[3.0, 0.1], [2.0, 0.2], [0.0, 0.0]]),
            "fair": np.array([[1.0, 1.0], [0.9, 0.9], [0.0, 0.0]]),
        },
        "total_errors": {
            "PCA": np.array([4.0, 2.0, 0.0]),
            "fair": np.array([5.0, 2.2, 0.0]),
        },
        "groups": ["a", "b"],
    }
    return GroupLossDisplay(**{**arguments, **change})


@pytest.mark.parametrize("centering", ["global", "group"])
def test_from_data_has_the_losses_of_the_estimators(axes, centering):
    display = draw(axes, [3, 1], centering=centering)
    np.testing.assert_array_equal(display.n_components, [1, 3])
    for name, method in (("PCA", GroupPCA), ("FairPCA", FairPCA)):
        for i, r in enumerate([1, 3]):
            fit = method(r, centering=centering).fit(X, sensitive_features=GROUPS)
            np.testing.assert_allclose(
                display.losses[name][i], fit.group_losses_, rtol=1e-7
            )
            error = fit.group_reconstruction_errors_.mean()  # of equal sizes
            np.testing.assert_allclose(display.total_errors[name][i], error)
    fair = display.losses["FairPCA"]
    np.testing.assert_allclose(fair[:, 0], fair[:, 1], rtol=1e-7)


def test_other_methods(axes):
    methods = {
        "plain": GroupPCA(n_components=1),
        "errors": ErrorWeightedFairPCA(centering="group"),
        "losses": FairPCA(tol=1e-6),
    }
    display = draw(axes, [2], methods=methods)
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
    display = display_of()
    total_errors = {"PCA": display.total_errors["PCA"], "fair": np.array(errors)}
    display_of(total_errors=total_errors).plot(axes)
    assert axes[1].get_title() == title


def test_one_method_and_one_number_of_components(axes):
    display = display_of(
        n_components=[2], losses={"only": [[1.0, 2.0]]}, total_errors={"only": [0.0]}
    ).plot(axes)
    axes[0].figure.draw_without_rendering()
    assert axes[0].get_title() == "largest loss: only 2"
    assert axes[1].get_title() == "largest error: only 0"
    assert list(display.error_lines_) == ["only"]


def test_all_components_lose_nothing(axes):
    display = draw(axes, [5])
    assert display.total_errors["PCA"] == display.total_errors["FairPCA"] == 0
    assert not display.losses["PCA"].any()
    assert axes[0].get_title() == "largest loss: PCA 0, FairPCA 0"
    assert axes[1].get_title() == "largest error: PCA 0, FairPCA 0"


def test_losses_of_a_fitted_fair_pca(axes):
    pca = FairPCA(3, solver="gram", centering="group").fit(X, sensitive_features=GROUPS)
    display = GroupLossDisplay.from_estimator(pca, axes=axes)
    expected = draw(axes, [1, 2, 3], centering="group")
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
        draw(axes, n_components)
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
