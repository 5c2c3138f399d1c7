"""PyTorch modules as sequences of linear layers."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scalefair._membership import Membership
from scalefair.postprocessing import ExplainableSVDRegressor
from scalefair.postprocessing._hosts import find_host
from scalefair.postprocessing._passes import ModelRows

torch = pytest.importorskip("torch")
nn = torch.nn

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 5))
CODES = RNG.integers(2, size=40)
GROUPS = np.array(["a", "b"])


@pytest.fixture(autouse=True)
def _seed():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def network(bias=True, dtype=torch.float64):
    return nn.Sequential(
        nn.Linear(5, 6),
        nn.BatchNorm1d(6),
        nn.ReLU(inplace=True),
        nn.Dropout(0.5),
        nn.Linear(6, 4, bias=bias),
        nn.Tanh(),
        nn.Linear(4, 1),
    ).to(dtype)


def trained(module):
    """A module whose BatchNorm has seen rows; in training mode."""
    module.train()
    for _ in range(3):
        module(torch.from_numpy(X).to(next(module.parameters()).dtype))
    return module


def by_hand(module, upto, rows=X):
    """What the first parts of a Sequential give in evaluation mode."""
    module = pickle.loads(pickle.dumps(module)).eval()
    with torch.no_grad():
        dtype = next(module.parameters()).dtype
        return module[:upto](torch.tensor(rows, dtype=dtype)).numpy()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_layers_of_a_module(dtype):
    module = trained(network(dtype=dtype))
    host = find_host(module)
    assert host.layer_names == ["0", "4", "6"]
    layer_inputs = list(host.inputs_by_layer(X))
    for i, upto in enumerate([0, 4, 6]):
        A = host.inputs(X, i)
        np.testing.assert_array_equal(A, by_hand(module, upto))
        np.testing.assert_array_equal(layer_inputs[i], A)
        assert A.dtype == (np.float64 if dtype == torch.float64 else np.float32)
        assert host.weight(i).dtype == host.bias(i).dtype == np.float64
        assert host.shape(i) == host.weight(i).shape
    np.testing.assert_array_equal(host.outputs(X), by_hand(module, 7)[:, 0])


def test_modes_and_hooks_are_as_before():
    module = trained(network())
    module[1].eval()  # as when statistics are frozen
    modes = [part.training for part in module.modules()]
    state = pickle.dumps(module.state_dict())
    host = find_host(module)
    host.inputs(X, 1)
    list(host.inputs_by_layer(X))
    host.outputs(X)
    with pytest.raises(RuntimeError):  # the rows have the wrong width
        host.inputs(X[:, :3], 1)
    assert [part.training for part in module.modules()] == modes
    assert not any(part._forward_pre_hooks for part in module.modules())
    assert pickle.dumps(module.state_dict()) == state
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_type_of_the_module_is_kept(dtype):
    module = nn.Sequential(nn.Linear(5, 3), nn.ReLU(), nn.Linear(3, 1)).to(dtype)
    host = find_host(module)
    assert host.inputs(X, 1).dtype == np.float32
    changed = host.replaced({0: (host.weight(0), host.bias(0))})
    assert {p.dtype for p in changed.estimator.parameters()} == {dtype}
    np.testing.assert_array_equal(changed.outputs(X), host.outputs(X))


def test_a_layer_without_bias():
    host = find_host(trained(network(bias=False)))
    np.testing.assert_array_equal(host.bias(1), np.zeros(4))
    assert host.replaced({1: (host.weight(1), None)}).estimator[4].bias is None
    changed = host.replaced({1: (host.weight(1), np.arange(4.0))})
    np.testing.assert_array_equal(changed.bias(1), np.arange(4.0))
    assert changed.estimator[4].bias.dtype == torch.float64
    assert host.estimator[4].bias is None


def test_rows_of_every_kind():
    integers = np.round(3 * X)
    host = find_host(trained(network()))
    inputs, outputs = host.inputs(integers[5:20], 1), host.outputs(integers[5:20])
    for rows in (
        torch.tensor(integers, dtype=torch.float32),
        sparse.csr_array(integers),
        pd.DataFrame(integers),
        integers.tolist(),
        np.frombuffer(integers.tobytes()).reshape(integers.shape),  # read-only
        integers.astype(int),
    ):
        checked = host.check_rows(rows)
        batch = getattr(checked, "iloc", checked)[5:20]
        np.testing.assert_array_equal(host.inputs(batch, 1), inputs)
        np.testing.assert_array_equal(host.outputs(batch), outputs)


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
    host = find_host(module)
    assert host.resolve("body.second") == host.resolve(-1) == 1
    np.testing.assert_array_equal(host.inputs(X, 0), X)
    expected = X + X @ host.weight(0).T + host.bias(0)
    np.testing.assert_allclose(host.inputs(X, 1), expected, rtol=1e-12)
    assert host.outputs(X).shape == (40, 2)
    with pytest.raises(ValueError, match=r"'body\.first', 'body\.second'"):
        host.resolve("second")


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, 5)
        self.last = nn.Linear(5, 1)
        self.idle = nn.Linear(5, 5)

    def forward(self, x):
        return self.last(self.first(self.first(x)))


def test_a_layer_used_twice_or_never_is_refused():
    host = find_host(Twice())
    with pytest.raises(ValueError, match=r"'first' was called 2 time\(s\) with 80 row"):
        host.inputs(X, 0)
    with pytest.raises(ValueError, match="'idle' is not called"):
        host.inputs(X, 2)
    first, last, idle = host.inputs_by_layer(X)
    assert (first, idle) == (None, None)
    np.testing.assert_array_equal(last, host.inputs(X, 1))
    membership = Membership.of(GROUPS[CODES], None, X)
    unfairness = ModelRows.build(host, X, membership, 16).unfairness_by_layer()
    assert [layer is None for layer in unfairness] == [True, False, True]


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


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Sequences, r"\(12, 4, 5\).*would not be samples"),
        (Flattened, "48 rows in all for 12 rows of X"),
    ],
)
def test_rows_that_are_not_samples_are_refused(module, message):
    rows, host = RNG.standard_normal((12, 4, 5)), find_host(module().double())
    assert host.check_rows(rows).shape == rows.shape
    with pytest.raises(ValueError, match=message):
        host.inputs(rows, 0)
    assert host.inputs(rows, 1).shape == (12, 3)
    assert host.outputs(rows).shape == (12,)


def test_values_that_are_not_finite():
    module = network()
    with torch.no_grad():
        module[4].weight[0, 0] = torch.nan
    host = find_host(module)
    assert np.isfinite(host.inputs(X, 1)).all()
    for read in (lambda: host.inputs(X, 2), lambda: list(host.inputs_by_layer(X))):
        with pytest.raises(ValueError, match="inputs of layer '6' have entries"):
            read()
    with pytest.raises(ValueError, match="predictions have entries"):
        host.outputs(X)


def test_modules_without_a_host():
    with pytest.raises(TypeError, match=r"no torch\.nn\.Linear"):
        find_host(nn.Sequential(nn.ReLU()))
    with pytest.raises(TypeError, match="is the class Linear"):
        find_host(nn.Linear)
    with pytest.raises(ValueError, match="has not seen any rows"):
        find_host(nn.Sequential(nn.LazyLinear(3)))
    with pytest.raises(ValueError, match="one row per sample"):
        find_host(network()).check_rows(X[0])


def test_modules_that_predict_nothing():
    class Pair(nn.Sequential):
        def forward(self, rows):
            return super().forward(rows), rows

    model = ExplainableSVDRegressor(Pair(nn.Linear(5, 2)).double(), refit_last=None)
    for batch_size in (15, None):
        model.set_params(batch_size=batch_size).fit(X, sensitive_features=CODES)
        assert model.mean_gap_after_ < model.mean_gap_before_
        with pytest.raises(ValueError, match="must return one tensor"):
            model.predict(X)


def test_weights_that_a_layer_does_not_own():
    tied = nn.Sequential(nn.Linear(5, 5), nn.Linear(5, 5))
    tied[1].weight = tied[0].weight
    host = find_host(tied)
    with pytest.raises(ValueError, match="'0' shares its weight"):
        host.replaced({0: (np.ones((5, 5)), None)})
    normed = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(5, 2)))
    with pytest.raises(ValueError, match="computed from other parameters"):
        find_host(normed).replaced({0: (np.ones((2, 5)), None)})


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
    module = trained(network())
    pipeline = make_pipeline(StandardScaler(), Wrapper(module)).fit(X)
    host, Z = find_host(pipeline), StandardScaler().fit_transform(X)
    assert not host.can_resume
    for layer, upto in ((1, 4), (2, 6)):
        A = host.inputs(X, layer)
        np.testing.assert_allclose(A, by_hand(module, upto, Z), rtol=1e-12)
    checked = find_host(Wrapper(module).fit(X)).check_rows(X.tolist())
    np.testing.assert_array_equal(checked, X)
    changed = host.replaced({1: (np.zeros((4, 6)), None)})
    assert changed.estimator[-1].module_ is not module
    np.testing.assert_array_equal(changed.weight(1), np.zeros((4, 6)))
    assert host.weight(1).any()
    assert np.ptp(changed.outputs(X)) == 0
    assert module.training
