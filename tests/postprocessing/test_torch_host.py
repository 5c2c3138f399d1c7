"""PyTorch modules as regressors, one layer of which is changed."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scalefair.metrics import moment_gaps
from scalefair.postprocessing import ExplainableSVDRegressor
from scalefair.postprocessing._hosts import find_host

torch = pytest.importorskip("torch")
nn = torch.nn

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 5))
CODES = RNG.integers(2, size=40)


@pytest.fixture(autouse=True)
def _seed():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def fair(module, rows=X, targets=None, **options):
    options = {"refit_last": None, "noise_floor": False} | options
    model = ExplainableSVDRegressor(module, **options)
    return model.fit(rows, targets, sensitive_features=CODES[: len(rows)])


def trained(bias=True, dtype=torch.float64):
    """A module whose BatchNorm has seen rows; in training mode, but for BatchNorm."""
    module = nn.Sequential(
        nn.Linear(5, 6),
        nn.BatchNorm1d(6),
        nn.ReLU(inplace=True),
        nn.Dropout(0.5),
        nn.Linear(6, 4, bias=bias),
        nn.Tanh(),
        nn.Linear(4, 1, bias=bias),
    ).to(dtype)
    for _ in range(3):
        module(torch.from_numpy(X).to(dtype))
    module[1].eval()  # as when statistics are frozen
    return module


def by_hand(module, upto, rows=X):
    """What the first parts of a Sequential give in evaluation mode."""
    module = pickle.loads(pickle.dumps(module)).eval()
    with torch.no_grad():
        dtype = next(module.parameters()).dtype
        return module[:upto](torch.tensor(rows, dtype=dtype)).double().numpy()


def check_layer(model, inputs, linear):
    """The gaps are those of the outputs of the layer, without its bias."""
    outputs = inputs @ linear.weight.detach().double().numpy().T
    gaps = model.mean_gap_before_, model.covariance_gap_before_
    expected = moment_gaps(outputs, sensitive_features=CODES)
    np.testing.assert_allclose(gaps, expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_layers_of_a_module_which_stays_as_it_was(dtype):
    module = trained(dtype=dtype)
    modes = [part.training for part in module.modules()]
    state = pickle.dumps(module.state_dict())
    for layer in (0, 4, 6):
        model = fair(module, layer=str(layer))
        check_layer(model, by_hand(module, layer), module[layer])
        assert {part.dtype for part in model.estimator_.parameters()} == {dtype}
        changed = by_hand(model.estimator_, 7)[:, 0]
        np.testing.assert_array_equal(model.predict(X), changed)
    with pytest.raises(RuntimeError):  # the rows have the wrong width
        fair(module, X[:, :3])
    assert [part.training for part in module.modules()] == modes
    assert not any(part._forward_pre_hooks for part in module.modules())
    assert pickle.dumps(module.state_dict()) == state
    assert torch.is_grad_enabled()


def test_layers_without_bias():
    module = trained(bias=False)
    changed = fair(module, layer="4").estimator_
    assert changed[4].bias is None
    refitted = fair(module, X, X[:, 0], layer="4", refit_last="least_squares")
    assert refitted.estimator_[6].bias.dtype == torch.float64
    assert module[6].bias is None


def test_rows_of_every_kind():
    integers = np.round(3 * X)
    model = fair(trained(), integers)
    expected = model.predict(integers)
    for rows in (
        torch.tensor(integers, dtype=torch.float32),
        sparse.csr_array(integers),
        pd.DataFrame(integers),
        integers.tolist(),
        np.frombuffer(integers.tobytes()).reshape(integers.shape),  # read-only
        integers.astype(int),
    ):
        np.testing.assert_array_equal(model.predict(rows), expected)
    with pytest.raises(ValueError, match="one row per sample"):
        model.predict(X[0])


class Named(nn.Module):
    """Named parts, an input that is changed in place, layers called by keyword."""

    def __init__(self):
        super().__init__()
        self.body = nn.ModuleDict({"first": nn.Linear(5, 5), "second": nn.Linear(5, 2)})

    def forward(self, x):
        x = x + 0.0
        x += self.body["first"](x)
        return self.body["second"](input=x)


def test_qualified_names_and_work_in_place():
    module = Named().double()
    check_layer(fair(module, layer="body.first"), X, module.body["first"])
    model = fair(module, layer="body.second")
    first = X + module.body["first"](torch.from_numpy(X)).detach().numpy()
    check_layer(model, first, module.body["second"])
    assert model.predict(X).shape == (40, 2)
    with pytest.raises(ValueError, match=r"'body\.first', 'body\.second'"):
        fair(module, layer="second")


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, 5)
        self.last = nn.Linear(5, 1)
        self.idle = nn.Linear(5, 5)

    def forward(self, x):
        return self.last(self.first(self.first(x)))


class Sequences(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Linear(5, 3)
        self.last = nn.Linear(3, 1)

    def forward(self, x):
        return self.last(self.shared(x).mean(dim=1))


class Flattened(Sequences):
    """Rows of the layer are not rows of samples, though two-dimensional."""

    def forward(self, x):
        return self.last(self.shared(x.flatten(0, 1)).view(len(x), -1, 3).mean(dim=1))


def tied():
    module = nn.Sequential(nn.Linear(5, 5), nn.Linear(5, 5))
    module[1].weight = module[0].weight
    return module


def normed():
    return nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(5, 2)))


def overflowing():
    module = nn.Sequential(nn.Linear(5, 3), nn.ReLU(), nn.Linear(3, 1))
    module[0].weight.data.fill_(3e38)
    return module


SEQUENCES = RNG.standard_normal((12, 4, 5))


@pytest.mark.parametrize(
    ("module", "rows", "layer", "message"),
    [
        (Twice, X, "first", r"'first' was called 2 time\(s\) with 80 row"),
        (Twice, X, "idle", "'idle' is not called"),
        (Sequences, SEQUENCES, "shared", r"\(12, 4, 5\).*would not be samples"),
        (Flattened, SEQUENCES, "shared", "48 rows in all for 12 rows of X"),
        (tied, X, 0, "'0' shares its weight"),
        (normed, X, 0, "computed from other parameters"),
        (overflowing, X, 1, "inputs of layer '2'.* NaN or infinite"),
        (partial(nn.Sequential, nn.LazyLinear(3)), X, 0, "has not seen any rows"),
        (partial(nn.Sequential, nn.ReLU()), X, 0, r"no torch\.nn\.Linear"),
    ],
)
def test_layers_that_are_refused(module, rows, layer, message):
    with pytest.raises((ValueError, TypeError), match=message):
        fair(module(), rows, layer=layer)


def test_other_layers_of_such_modules():
    model = fair(Twice(), layer="last")
    unfairness = model.unfairness_by_layer_
    assert [layer is None for layer in unfairness] == [True, False, True]
    assert fair(Sequences(), SEQUENCES, layer="last").predict(SEQUENCES).shape == (12,)


def test_modules_that_predict_nothing():
    class Pair(nn.Sequential):
        def forward(self, rows):
            return super().forward(rows), rows

    for batch_size in (15, None):
        model = fair(Pair(nn.Linear(5, 2)).double(), batch_size=batch_size)
        assert model.mean_gap_after_ < model.mean_gap_before_
        with pytest.raises(ValueError, match="must return one tensor"):
            model.predict(X)
    with pytest.raises(ValueError, match=r"max_distance compares .* one tensor"):
        fair(Pair(nn.Linear(5, 2)).double(), max_distance=0.1)


@pytest.mark.parametrize("new", [([[1e5]], None), ([[1.0]], [1e5])])
def test_new_values_out_of_the_range_of_half_precision(new):
    host = find_host(nn.Sequential(nn.Linear(1, 1)).half())
    with pytest.raises(ValueError, match=r"of layer '0' .* not finite in torch"):
        host.replaced({0: new})


class Wrapper(RegressorMixin, BaseEstimator):
    """Runs a module in batches of its own, as skorch does."""

    def __init__(self, module=None):
        self.module = module

    def fit(self, rows, targets=None):
        self.module_ = self.module
        return self

    def predict(self, rows):
        parts = [torch.from_numpy(rows[i : i + 7]) for i in range(0, len(rows), 7)]
        with torch.no_grad():
            return torch.cat([self.module_(part) for part in parts]).numpy()


def test_a_wrapped_module_in_a_pipeline():
    module, Z = trained(), StandardScaler().fit_transform(X)
    pipeline = make_pipeline(StandardScaler(), Wrapper(module)).fit(X)
    for layer in (4, 6):
        model = fair(pipeline, layer=str(layer))
        check_layer(model, by_hand(module, layer, Z), module[layer])
        changed = model.estimator_[-1].module_[layer].weight.detach().numpy()
        np.testing.assert_array_equal(changed, model.weight_)
        assert (module[layer].weight.detach().numpy() != changed).any()
    assert module.training
    # A list of rows, which the wrapper could not cut.
    model = fair(Wrapper(module).fit(X), X.tolist(), layer="4")
    np.testing.assert_array_equal(model.weight_, fair(module, layer="4").weight_)
