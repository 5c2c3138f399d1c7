"""Fair regression: cost beside a forward pass, memory, output changes.

    python asv_bench/ratios_regress.py layer                     # 256 wide, 20,000 rows
    python asv_bench/ratios_regress.py million                   # 10^6 x 1024
    SCALEFAIR_DATA=... python asv_bench/ratios_regress.py change # law school, COMPAS

The paper's tables: benchmarks/paper_tables/fair_regression.py.
"""

import resource
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from scipy.linalg.blas import dsyrk
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scalefair.datasets import fetch_bar_passage, fetch_compas
from scalefair.metrics import statistical_parity_ks
from scalefair.postprocessing import ExplainableSVDRegressor

sys.path.insert(0, str(Path(__file__).parent))
from ratios import alternate, report


def trained(X, y, hidden, epochs=20):
    """Pipeline with a network whose learning rate falls by 0.8 after each epoch."""
    scaler = StandardScaler().fit(X)
    net = MLPRegressor(
        hidden_layer_sizes=hidden, alpha=0.0, batch_size=256, random_state=0
    )
    rows = scaler.transform(X)
    for _ in range(epochs):
        net.partial_fit(rows, y)
        net._optimizer.learning_rate_init *= 0.8
    return make_pipeline(scaler, net)


def made_up(n_rows, n_features=16):
    rng = np.random.default_rng(0)
    groups = rng.integers(2, size=n_rows)
    X = rng.standard_normal((n_rows, n_features)) + 0.5 * groups[:, None]
    X[:, 1] *= 1 + groups
    y = X[:, 0] + np.sin(X[:, 1]) + 0.1 * rng.standard_normal(n_rows)
    return X, y, groups


def gaps(model):
    return (
        f"mean gap {model.mean_gap_before_:.4g} to {model.mean_gap_after_:.4g}, "
        f"covariance gap {model.covariance_gap_before_:.4g} to "
        f"{model.covariance_gap_after_:.4g}"
    )


def layer():
    X, y, groups = made_up(20_000)
    net = trained(X, y, (256,) * 4, epochs=5)
    activations = np.maximum(np.random.default_rng(1).standard_normal((20_000, 256)), 0)

    def forward_and_syrk():
        net.predict(X)
        dsyrk(1.0, activations.T)

    fits = {}
    for method in ("direct", "explainable_svd"):
        model = ExplainableSVDRegressor(net, method=method)
        fits[method] = partial(model.fit, X, y, sensitive_features=groups)
        fits[method]()
        print(
            f"{method}: {gaps(model)}, change {model.output_change_:.4f} "
            f"(bound {model.output_change_bound_:.4f})"
        )
    seconds = alternate(7, peer=forward_and_syrk, **fits)
    report("256 wide, 20,000 rows, second-last layer and refit", seconds, "peer")


def million():
    """Activations of 10^6 rows, 1024 wide, from a memory-mapped file of raw rows."""
    n_rows = 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        X = np.lib.format.open_memmap(path, "w+", np.float32, (n_rows, 16))
        rng = np.random.default_rng(0)
        groups = rng.integers(2, size=n_rows)
        for start in range(0, n_rows, 50_000):
            part = slice(start, start + 50_000)
            X[part] = rng.standard_normal((50_000, 16)) + 0.5 * groups[part, None]
        y = np.asarray(X[:, 0], dtype=np.float64)
        X.flush()
        del X
        X = np.load(path, mmap_mode="r")
        net = MLPRegressor(hidden_layer_sizes=(1024,), max_iter=1, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            net.fit(np.asarray(X[:2000]), y[:2000])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
        start = time.perf_counter()
        model = ExplainableSVDRegressor(net, layer=1, batch_size=2048)
        model.fit(X, y, sensitive_features=groups)
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
        print(
            f"{n_rows} rows, 1024 activations: {seconds:.1f} s, peak {peak:.0f} MiB "
            f"({before:.0f} before), {gaps(model)}"
        )


def change():
    """What both methods change at equal gaps of the second-last layer."""
    law, compas = fetch_bar_passage(), fetch_compas()
    for name, data in (("law school", law), ("COMPAS", compas)):
        X, y, groups = data.data, data.target, data.sensitive_features
        net = trained(X, y, (256,) * 4)
        for reduction in (5.0, 50.0, 150.0):
            options = {"refit_last": None, "mean_reduction": 1.0}
            published = ExplainableSVDRegressor(
                net,
                method="explainable_svd",
                covariance_reduction=reduction,
                **options,
            ).fit(X, y, sensitive_features=groups)
            ratio = published.covariance_gap_before_ / published.covariance_gap_after_
            direct = ExplainableSVDRegressor(
                net, covariance_reduction=ratio**2, **options
            ).fit(X, y, sensitive_features=groups)
            outputs = [
                (
                    np.mean((model.predict(X) - y) ** 2),
                    statistical_parity_ks(model.predict(X), sensitive_features=groups),
                )
                for model in (net, published, direct)
            ]
            print(
                f"{name}, reduction {reduction:g}: covariance gap "
                f"{published.covariance_gap_after_:.4f} and "
                f"{direct.covariance_gap_after_:.4f}, change "
                f"{published.output_change_:.4f} and {direct.output_change_:.4f} "
                f"(bound {direct.output_change_bound_:.4f}), ratio "
                f"{published.output_change_ / direct.output_change_:.1f}; MSE, KS: "
                + ", ".join(f"{mse:.4f} {ks:.3f}" for mse, ks in outputs),
                flush=True,
            )


if __name__ == "__main__":
    commands = {"layer": layer, "million": million, "change": change}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])
