"""Moments of what enters a layer, batch by batch."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, PoissonRegressor, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from scalefair.postprocessing._hosts import find_host
from scalefair.postprocessing._mlp_host import MLPHost
from scalefair.postprocessing._passes import (
    batches,
    check_linear_output,
    choose_batch_size,
    last_layer_moments,
    layer_batches,
    layer_moments,
    unit_moments,
)
from scalefair.streaming import GroupMoments

RNG = np.random.default_rng(0)
N = 90
X = RNG.standard_normal((N, 5)) + 2.0
Y = np.stack([X[:, 0] * X[:, 1], X[:, 2]], axis=1)
y = Y[:, 0]
# The last group has one row, the second only rows at the end.
CODES = np.sort(RNG.integers(2, size=N))
CODES[40] = 2
GROUPS = np.array(["a", "b", "c"])


def mlp(targets=y, rows=X, **options):
    options = {"hidden_layer_sizes": (6, 4), "max_iter": 5, "random_state": 0} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MLPRegressor(**options).fit(rows, targets)


def scaled():
    """A pipeline that scales the rows for a network."""
    scaler = StandardScaler().fit(X)
    return Pipeline([("scale", scaler), ("network", mlp(rows=scaler.transform(X)))])


def assert_moments(moments, rows, codes=CODES, groups=GROUPS, rtol=1e-10):
    """Moments are those of the rows, from the definition."""
    present = np.unique(codes)
    np.testing.assert_array_equal(moments.groups, groups[present])
    for i, code in enumerate(present):
        part = np.asarray(rows, dtype=float)[codes == code]
        offset = part - part.mean(axis=0)
        assert moments.counts[i] == len(part)
        np.testing.assert_allclose(moments.means[i], part.mean(axis=0), rtol=rtol)
        scatter = offset.T @ offset
        np.testing.assert_allclose(
            moments.scatters[i], scatter, rtol=rtol, atol=rtol * np.abs(scatter).max()
        )


class CountingHost(MLPHost):
    """How many rows went through how many layers."""

    n_rows = 0

    def _forward(self, A, layer, later):
        self.n_rows += A.shape[0] * (later - layer)
        return super()._forward(A, layer, later)


class Recomputing(CountingHost):
    """A host that cannot go on from the inputs of a layer."""

    goes_on = False

    def onward(self, X_batch, A, layer, later):
        return self.inputs(X_batch, later)


@pytest.mark.parametrize("batch_size", [1, 7, 45, N, 1000, None])
@pytest.mark.parametrize("keep", [0, 10**6])
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_layer_moments_are_those_of_all_rows(layer, keep, batch_size):
    host = find_host(scaled())
    moments, kept = layer_moments(
        host, layer, X, CODES, GROUPS, batch_size=batch_size, keep=keep
    )
    A = host.inputs(X, layer)
    assert_moments(moments, A)
    assert (kept is None) == (keep == 0)
    if keep:
        np.testing.assert_allclose(kept, A, rtol=1e-13)


def test_inputs_are_kept_up_to_the_bytes_allowed():
    host = find_host(mlp())
    for keep, is_kept in [(N * 6 * 8 - 1, False), (N * 6 * 8, True)]:
        _, kept = layer_moments(host, 1, X, CODES, GROUPS, batch_size=20, keep=keep)
        assert (kept is not None) == is_kept
    rows = X.astype(np.float32)
    host = find_host(mlp(y.astype(np.float32), rows))
    _, kept = layer_moments(host, 1, rows, CODES, GROUPS, keep=N * 6 * 4)
    assert kept.dtype == np.float32


@pytest.mark.parametrize("kind", ["frame", "csr", "csc", "memmap", "float32"])
def test_rows_of_every_kind(kind, tmp_path):
    names = list("abcde")
    model = mlp(rows=pd.DataFrame(X, columns=names) if kind == "frame" else X)
    if kind == "memmap":
        np.save(tmp_path / "rows.npy", X)
    rows = {
        "frame": lambda: pd.DataFrame(X, columns=names, index=np.arange(N)[::-1]),
        "csr": lambda: sparse.csr_array(X),
        "csc": lambda: sparse.csc_matrix(X),
        "memmap": lambda: np.load(tmp_path / "rows.npy", mmap_mode="r"),
        "float32": lambda: X.astype(np.float32),
    }[kind]()
    host = find_host(model)
    rows = host.check_rows(rows)
    rtol = 1e-4 if kind == "float32" else 1e-10
    plain = find_host(mlp())
    for layer in (0, 2):
        moments, _ = layer_moments(host, layer, rows, CODES, GROUPS, batch_size=16)
        assert_moments(moments, plain.inputs(X, layer), rtol=rtol)


def test_one_pass_of_the_rows():
    host = CountingHost(mlp())
    layer_moments(host, 2, X, CODES, GROUPS, batch_size=16)
    assert host.n_rows == 2 * N
    host = CountingHost(mlp())
    unit_moments(host, X, CODES, GROUPS, batch_size=16)
    assert host.n_rows == 2 * N  # not 1 + 2


@pytest.mark.parametrize("batch_size", [7, None])
def test_moments_of_every_layer(batch_size):
    host = find_host(scaled())
    every = unit_moments(host, X, CODES, GROUPS, batch_size=batch_size)
    assert len(every) == 3
    for layer, moments in enumerate(every):
        assert_moments(moments, host.inputs(X, layer))
    (only,) = unit_moments(find_host(Ridge().fit(X, y)), X, CODES, GROUPS)
    assert_moments(only, X)


@pytest.mark.parametrize("targets", [y, Y, y[:, None]], ids=["one", "two", "column"])
@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize("kind", [CountingHost, Recomputing])
def test_last_layer_and_targets(kind, is_kept, targets):
    host = kind(mlp(Y if targets is Y else y))
    _, kept = layer_moments(host, 1, X, CODES, GROUPS, keep=10**6)
    changed = kind(host.replaced({1: (host.weight(1) / 2, None)}).estimator)
    joint = last_layer_moments(
        changed,
        X,
        targets,
        CODES,
        GROUPS,
        batch_size=16,
        layer=1 if is_kept else None,
        kept=kept if is_kept else None,
    )
    goes_on = is_kept and changed.goes_on
    trial = 2 * 16  # to see whether the last layer gives the predictions
    assert changed.n_rows == trial + (1 if goes_on else 2) * N
    rows = np.column_stack([changed.inputs(X, 2), targets])
    assert_moments(joint, rows)


def test_least_squares_follow_from_the_joint_moments():
    host = find_host(mlp())
    joint = last_layer_moments(host, X, y, CODES, GROUPS, batch_size=11)
    n = host.shape(2)[1]
    total = joint.covariances().T @ joint.counts
    slope = np.linalg.lstsq(total[:n, :n], total[:n, n])[0]
    A = host.inputs(X, 2)
    expected = LinearRegression().fit(A, y)
    intercept = joint.mean[n] - slope @ joint.mean[:n]
    np.testing.assert_allclose(
        A @ slope + intercept, expected.predict(A), rtol=1e-6, atol=1e-6
    )


def test_the_last_layer_itself_may_be_the_changed_one():
    host = find_host(mlp())
    _, kept = layer_moments(host, 2, X, CODES, GROUPS, keep=10**6)
    joint = last_layer_moments(host, X, y, CODES, GROUPS, layer=2, kept=kept)
    assert_moments(joint, np.column_stack([kept, y]))


def test_predictions_must_be_those_of_the_last_layer():
    check_linear_output(find_host(mlp()), X)
    check_linear_output(find_host(mlp(Y)), X)
    check_linear_output(find_host(Ridge().fit(X, y)), X)
    poisson = find_host(PoissonRegressor().fit(X, np.exp(X[:, 0])))
    network = find_host(mlp(np.exp(X[:, 0]), loss="poisson"))
    for host in (poisson, network):
        with pytest.raises(ValueError, match="refit_last=None"):
            check_linear_output(host, X)
        with pytest.raises(ValueError, match="refit_last=None"):
            last_layer_moments(host, X, y, CODES, GROUPS)


def test_batches_are_the_rows_in_their_order():
    host = find_host(mlp())
    seen = list(layer_batches(host, 1, X, batch_size=32))
    assert [rows.stop - rows.start for rows, _ in seen] == [32, 32, 26]
    A = host.inputs(X, 1)
    np.testing.assert_allclose(np.vstack([B for _, B in seen]), A, rtol=1e-13)
    assert list(batches(X[:0], 5)) == []
    frame = pd.DataFrame(X, index=np.arange(N) + 7)
    parts = [part for _, part in batches(frame, 50)]
    pd.testing.assert_frame_equal(pd.concat(parts), frame)


def test_batch_size_goes_by_the_widest_layer():
    model = mlp(hidden_layer_sizes=(2048, 3), max_iter=1)
    assert choose_batch_size(find_host(model)) == 2**25 // (8 * 2048)
    model.coefs_[1] = np.broadcast_to(0.0, (2**20, 3))  # never made
    assert choose_batch_size(find_host(model)) == 256


def test_passes_are_deterministic():
    host = find_host(mlp())
    runs = [layer_moments(host, 2, X, CODES, GROUPS, batch_size=16) for _ in range(2)]
    np.testing.assert_array_equal(runs[0][0].scatters, runs[1][0].scatters)


def test_order_of_rows_and_names_of_groups_do_not_matter():
    host = find_host(mlp())
    moments, _ = layer_moments(host, 2, X, CODES, GROUPS, batch_size=16)
    order = RNG.permutation(N)
    renamed = np.array([10, 20, 30])
    shuffled, _ = layer_moments(host, 2, X[order], CODES[order], renamed, batch_size=16)
    np.testing.assert_allclose(shuffled.scatters, moments.scatters, atol=1e-9)
    np.testing.assert_array_equal(shuffled.groups, renamed)
    assert isinstance(shuffled, GroupMoments)


def test_groups_without_rows_are_left_out():
    codes = np.where(CODES == 1, 2, CODES)
    moments, _ = layer_moments(find_host(mlp()), 1, X, codes, GROUPS, batch_size=16)
    assert moments.groups.tolist() == ["a", "c"]


def test_what_does_not_fit():
    host = find_host(mlp())
    with pytest.raises(ValueError, match="no rows"):
        layer_moments(host, 0, X[:0], CODES[:0], GROUPS)
    for call in (
        lambda: layer_moments(host, 0, X, CODES[1:], GROUPS),
        lambda: unit_moments(host, X, CODES[1:], GROUPS),
        lambda: last_layer_moments(host, X, y, CODES[1:], GROUPS),
    ):
        with pytest.raises(ValueError, match="89 group codes for 90 rows"):
            call()
    with pytest.raises(ValueError, match="y has 89 targets for 90 rows"):
        last_layer_moments(host, X, y[1:], CODES, GROUPS)
    with pytest.raises(ValueError, match="batch_size"):
        layer_moments(host, 0, X, CODES, GROUPS, batch_size=0)


def test_activations_that_overflow_name_the_layer_and_the_rows():
    model = mlp(activation="identity")
    model.coefs_[0] = np.zeros_like(model.coefs_[0])
    model.coefs_[0][1, 0] = 1e308
    rows = X.copy()
    rows[:, 1] = 0.0
    rows[37, 1] = 100.0
    place = r"layer 'coefs_\[1\]', over rows 32 to 47 .*NaN or infinite.*row 5"
    host = find_host(model)
    with np.errstate(over="ignore"):
        with pytest.raises(ValueError, match=place):
            layer_moments(host, 1, rows, CODES, GROUPS, batch_size=16)
        with pytest.raises(ValueError, match=place):
            unit_moments(host, rows, CODES, GROUPS, batch_size=16, without=[0, 2])
