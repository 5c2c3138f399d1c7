"""Weights of rows in the change of a layer: 2 is the row twice, 0 is no row."""

import warnings

import dask
import dask.array
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scalefair.files import open_rows
from scalefair.metrics import statistical_parity_ks
from scalefair.postprocessing import ExplainableSVDRegressor

M = 240
RNG = np.random.default_rng(0)
CODES = RNG.integers(2, size=M)
X = RNG.standard_normal((M, 4)) + 0.3
X[:, 0] += 1.2 * CODES
X[:, 1] *= 1 + CODES
Y = X[:, 0] + np.abs(X[:, 1]) + 0.3 * X[:, 2]
NET = MLPRegressor(hidden_layer_sizes=(8, 6), max_iter=40, random_state=0)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)
    NET.set_params(learning_rate_init=0.01).fit(X, Y)
WEIGHTS = np.random.default_rng(1).integers(0, 4, M)
REPEATED = np.repeat(np.arange(M), WEIGHTS)
OF_FIT = ("ks_before_", "r2_before_", "mean_gap_before_", "covariance_gap_before_")
# Fits without a number of rows, which weights do not have.
EXACT = [
    {"method": "explainable_svd"},
    {"method": "explainable_svd", "layer": 0, "refit_last": None},
    {"method": "explainable_svd", "layer": -1},
    {"noise_floor": False, "refit_last": None},
    {"noise_floor": False, "layer": "auto"},
]


def fair(
    weights, rows=X, targets=Y, codes=CODES, estimator=NET, index=slice(None), **options
):
    model = ExplainableSVDRegressor(estimator, random_state=0, **options)
    return model.fit(
        rows[index],
        targets[index],
        sensitive_features=codes[index],
        sample_weight=weights,
    )


def assert_same(model, expected, rtol, unit=1.0):
    """Moments to the last digits, and predictions."""
    for got, want in zip(
        *(
            [m.moments_] if hasattr(m.moments_, "counts") else m.moments_
            for m in (model, expected)
        ),
        strict=True,
    ):
        np.testing.assert_allclose(got.counts, unit * want.counts, rtol=1e-12)
        np.testing.assert_allclose(got.means, want.means, rtol=1e-12, atol=1e-13)
        scatters = unit * want.scatters
        atol = 1e-12 * scatters.max()
        np.testing.assert_allclose(got.scatters, scatters, rtol=1e-12, atol=atol)
    for name in OF_FIT:
        values = (np.array(getattr(m, name), float) for m in (model, expected))
        np.testing.assert_allclose(*values, rtol=1e-10, err_msg=name)
    assert model.layer_changed_ == expected.layer_changed_
    np.testing.assert_allclose(model.predict(X), expected.predict(X), rtol, rtol)


@pytest.mark.parametrize("options", EXACT, ids=str)
def test_weights_are_repetitions(options):
    rtol = 1e-8 if "method" in options else 1e-4  # of L-BFGS
    repeated = fair(None, index=REPEATED, **options)
    assert_same(fair(WEIGHTS, **options), repeated, rtol)
    with pytest.raises(AssertionError):  # weights are seen
        assert_same(fair(None, **options), repeated, rtol)


@pytest.mark.parametrize("options", [{}, {"max_distance": 0.2}, *EXACT], ids=str)
def test_units_are_free(options):
    assert_same(fair(7 * WEIGHTS, **options), fair(WEIGHTS, **options), 1e-4, unit=7)


@pytest.mark.parametrize("options", [{}, {"refit_last": "gradient"}, *EXACT], ids=str)
def test_no_weight_is_no_row(options):
    is_first = np.arange(M) < 200
    weights = is_first * np.linspace(1.0, 2.0, M)
    expected = fair(weights[is_first], index=is_first, **options)
    assert_same(fair(weights, **options), expected, 1e-4)


def test_ones_are_no_weights():
    model, expected = fair(np.ones(M)), fair(None)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    assert model.moments_.counts.dtype == np.int64


def test_scores_of_the_rows_of_fit():
    model = fair(WEIGHTS)
    for when, predicted in (("before", NET.predict(X)), ("after", model.predict(X))):
        distance = statistical_parity_ks(
            predicted, sensitive_features=CODES, sample_weight=WEIGHTS
        )
        assert getattr(model, f"ks_{when}_") == pytest.approx(distance, abs=1e-12)
        r2 = [
            r2_score(Y[g], predicted[g], sample_weight=WEIGHTS[g])
            for g in (CODES == 0, CODES == 1)
        ]
        np.testing.assert_allclose(getattr(model, f"r2_{when}_"), r2, rtol=1e-6)


def test_noise_is_that_of_the_rows_in_effect():
    """As many as (sum w)^2 / sum w^2: equal weights are no news, others are noise."""
    expected = fair(None).mean_gap_noise_[0, 1]
    assert fair(np.full(M, 0.3)).mean_gap_noise_[0, 1] == pytest.approx(expected)
    weights = np.where(np.arange(M) % 2, 9.0, 1.0)
    model = fair(weights)
    members = [np.flatnonzero(group == CODES) for group in (0, 1)]
    sizes = [w.sum() ** 2 / (w**2).sum() for w in map(weights.take, members)]
    A = np.maximum(X @ NET.coefs_[0] + NET.intercepts_[0], 0) @ NET.coefs_[1]
    trace = 0.0
    for group in members:
        rows, w = A[group], weights[group]
        centred = rows - np.average(rows, axis=0, weights=w)
        trace += w @ (centred**2).sum(axis=1)
    trace *= sum(sizes) / (sum(sizes) - 2) / weights.sum()
    noise = trace * (1 / sizes[0] + 1 / sizes[1])
    assert model.mean_gap_noise_[0, 1] ** 2 == pytest.approx(noise)
    # A group that is one row, but for others of hardly any weight.
    weights = np.where(CODES == 1, 1e-6, 1.0)
    weights[np.flatnonzero(CODES == 1)[0]] = 1.0
    with pytest.warns(UserWarning, match=r"^1 \(1 rows\): .* have fewer rows"):
        fair(weights)


@pytest.mark.parametrize("layer", [-2, "auto"])
@pytest.mark.parametrize("attributes", ["joint", "each"])
def test_weights_of_rows_in_parts(layer, attributes, tmp_path):
    codes = np.column_stack([CODES, np.arange(M) % 3 == 0])
    options = {"codes": codes, "layer": layer, "attributes": attributes}
    weights = WEIGHTS * np.where(np.arange(M) < 70, 0.0, 1.5)  # a part without weight
    expected = fair(weights, **options)
    np.save(tmp_path / "rows.npy", X)
    array = dask.array.from_array(X, (70, 4))
    blocks = [dask.delayed(weights[i : i + 70]) for i in range(0, M, 70)]
    for rows, values in (
        (open_rows(tmp_path / "rows.npy"), weights),
        (array, dask.array.from_array(weights, 31)),
        (array, blocks),
    ):
        model = ExplainableSVDRegressor(NET, random_state=0, layer=layer)
        model.set_params(attributes=attributes)
        model.fit(rows, Y, sensitive_features=codes, sample_weight=values)
        assert_same(model, expected, 1e-4)
        for one, other in zip(
            model.unfairness_by_layer_, expected.unfairness_by_layer_, strict=True
        ):
            assert one.score == pytest.approx(other.score)


def test_weights_of_modules():
    torch = pytest.importorskip("torch")
    layers = []
    for weight, bias in zip(NET.coefs_, NET.intercepts_, strict=True):
        linear = torch.nn.Linear(*weight.shape, dtype=torch.float64)
        linear.weight.data = torch.tensor(weight.T.copy())
        linear.bias.data = torch.tensor(bias)
        layers += [linear, torch.nn.ReLU()]
    module = torch.nn.Sequential(*layers[:-1])
    model = fair(WEIGHTS, estimator=module, batch_size=50)
    np.testing.assert_allclose(model.predict(X), fair(WEIGHTS).predict(X), 1e-4, 1e-4)


def test_weights_go_to_the_estimators_fit():
    model = fair(WEIGHTS, estimator=LinearRegression(), method="explainable_svd")
    repeated = {"estimator": LinearRegression(), "method": "explainable_svd"}
    expected = fair(None, index=REPEATED, **repeated)
    np.testing.assert_allclose(model.predict(X), expected.predict(X))
    pipeline = make_pipeline(StandardScaler(), LinearRegression())
    with pytest.raises(ValueError, match=r"Pipeline has to be fitted, .* no sample_we"):
        fair(WEIGHTS, estimator=pipeline)
    assert fair(WEIGHTS, estimator=pipeline.fit(X, Y)).layer_ == 0


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.where(CODES == 1, 0.0, 1.0), r"0 for all samples of 1 group\(s\): 1"),
        (-np.ones(M), r"240 weight\(s\) that are negative"),
        (np.full(M, np.nan), "NaN or infinite"),
        (np.ones(M - 1), "one weight per sample"),
        (["heavy"] * M, "must hold real numbers"),
        (np.zeros(M), "zero for all samples"),
    ],
)
@pytest.mark.parametrize(
    "rows", [X, dask.array.from_array(X, (70, 4))], ids=["memory", "parts"]
)
def test_weights_that_are_none(rows, weights, message):
    with pytest.raises(ValueError, match=message):
        ExplainableSVDRegressor(NET).fit(
            rows, Y, sensitive_features=CODES, sample_weight=weights
        )
