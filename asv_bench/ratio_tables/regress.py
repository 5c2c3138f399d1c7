"""Fair regression: cost against a forward pass, memory, output changes.

The paper's tables: benchmarks/paper_tables/fair_regression.py.
"""

import tempfile
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from benchmarks.fair_regression import Layer
from scipy.linalg.blas import dsyrk
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scalefair.datasets import fetch_bar_passage, fetch_compas
from scalefair.metrics import statistical_parity_ks
from scalefair.postprocessing import ExplainableSVDRegressor

from .runner import compare, once, show

METHODS = ("direct", "explainable_svd")


def _gaps(name, model):
    if model is None:  # the peer
        return {}
    return {
        "mean gap": f"{model.mean_gap_before_:.4g} to {model.mean_gap_after_:.4g}",
        "covariance gap": f"{model.covariance_gap_before_:.4g} to "
        f"{model.covariance_gap_after_:.4g}",
        "change": f"{model.output_change_:.4f}",
        "bound": f"{model.output_change_bound_:.4f}",
    }


def layer(width=256, n_rows=20_000, repeats=7):
    """A layer changed and the last refitted, against one prediction and one syrk."""
    runs, benches = {}, {method: Layer() for method in METHODS}
    for method, bench in benches.items():
        bench.setup(width, n_rows, method)
        runs[method] = partial(
            bench.model.fit, bench.X, bench.y, sensitive_features=bench.groups
        )
    shape = (n_rows, width)
    activations = np.maximum(np.random.default_rng(1).standard_normal(shape), 0)

    def forward_and_syrk():
        bench.net.predict(bench.X)
        dsyrk(1.0, activations.T)

    runs = {"prediction and one syrk": forward_and_syrk, **runs}
    title = f"Four layers of {width}, {n_rows:,} rows"
    compare(title, runs, "prediction and one syrk", repeats, _gaps)


def _barely_trained(hidden, X, y):
    net = MLPRegressor(hidden_layer_sizes=hidden, max_iter=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return net.fit(X, y)


def million_activations(n_rows=1_000_000, width=1024):
    """Activations of a million rows, 1,024 wide, from a memory-mapped file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        X = np.lib.format.open_memmap(path, "w+", np.float32, (n_rows, 16))
        rng = np.random.default_rng(0)
        groups = rng.integers(2, size=n_rows)
        for start in range(0, n_rows, 50_000):
            part = slice(start, min(start + 50_000, n_rows))
            shape = (part.stop - start, 16)
            X[part] = rng.standard_normal(shape) + 0.5 * groups[part, None]
        y = np.asarray(X[:, 0], dtype=np.float64)
        X.flush()
        del X
        X = np.load(path, mmap_mode="r")
        net = _barely_trained((width,), np.asarray(X[:2000]), y[:2000])
        before = once(partial(net.predict, X[:1000]))
        model = ExplainableSVDRegressor(net, layer=1, batch_size=2048)
        fit = partial(model.fit, X, y, sensitive_features=groups)
        cells = once(fit, partial(_gaps, ""))
        rows = [{"": "1,000 predictions", **before}, {"": "fit", **cells}]
        show(f"{n_rows:,} rows, {width} activations", *rows)


def _trained(X, y, hidden, epochs):
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


def change(width=256, epochs=20):
    """What both methods change at equal gaps: law school and COMPAS."""
    rows = []
    for name, data in (("law school", fetch_bar_passage()), ("COMPAS", fetch_compas())):
        X, y, groups = data.data, data.target, data.sensitive_features
        net = _trained(X, y, (width,) * 4, epochs)
        options = {"refit_last": None, "mean_reduction": 1.0}
        for reduction in (5.0, 50.0, 150.0):
            published = ExplainableSVDRegressor(
                net,
                method="explainable_svd",
                covariance_reduction=reduction,
                **options,
            ).fit(X, y, sensitive_features=groups)
            ratio = published.covariance_gap_before_ / published.covariance_gap_after_
            direct = ExplainableSVDRegressor(
                net, covariance_reduction=ratio**2, noise_floor=False, **options
            ).fit(X, y, sensitive_features=groups)
            changes = published.output_change_, direct.output_change_
            cells = {"data": name, "reduction": f"{reduction:g}"}
            cells["explainable SVD, direct"] = "{:.4f}, {:.4f}".format(*changes)
            cells["bound"] = f"{direct.output_change_bound_:.4f}"
            cells["ratio"] = f"{changes[0] / changes[1]:.1f}"
            models = {"network": net, "explainable SVD": published, "direct": direct}
            for who, model in models.items():
                outputs = model.predict(X)
                mse = np.mean((outputs - y) ** 2)
                ks = statistical_parity_ks(outputs, sensitive_features=groups)
                cells[f"MSE, KS: {who}"] = f"{mse:.4f}, {ks:.3f}"
            rows.append(cells)
    show("Changes at equal covariance gaps", *rows)
