"""Fair regression: data and networks trained as in the paper, and the methods."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np
from _timing import timed
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from scalefair.datasets import fetch_bar_passage, fetch_compas
from scalefair.metrics import statistical_parity_ks
from scalefair.postprocessing import (
    DiscretizedTransportRegressor,
    ExplainableSVDRegressor,
    WassersteinBarycenterRegressor,
)

NAMES = {
    "law": "law school",
    "compas": "COMPAS, the paper's features and scaling",
    "compas-scaled": "COMPAS, the paper's features, all scaled",
    "compas-plain": "COMPAS, honest features",
}
_BATCH, _RATE, _DECAY = 256, 1e-3, 0.8
_QUICK_ROWS = 400
# The paper's features of COMPAS that are dates, and all that it scales.
_DATES = slice(8, 14)


@dataclass(frozen=True)
class Effort:
    """How large the networks are and how long they are trained."""

    width: int = 256
    epochs: int = 20

    @property
    def settings(self) -> dict[str, Any]:
        """Parameters of the networks: five linear layers, Adam, no weight decay."""
        return {
            "hidden_layer_sizes": (self.width,) * 4,
            "learning_rate_init": _RATE,
            "batch_size": _BATCH,
            "alpha": 0.0,
        }


QUICK = Effort(width=6, epochs=3)


@dataclass(frozen=True)
class Part:
    """Rows, their targets and their groups."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray

    def measure(self, outputs: np.ndarray) -> tuple[float, float]:
        """Mean squared error and Kolmogorov-Smirnov distance of outputs."""
        distance = statistical_parity_ks(outputs, sensitive_features=self.groups)
        return float(np.mean((outputs - self.y) ** 2)), float(distance)

    def distance_by_chance(self) -> float:
        """Mean distance, to first order, if all outputs had one distribution.

        The mean of the Kolmogorov distribution is ``sqrt(pi / 2) ln 2``.
        """
        counts = np.unique(self.groups, return_counts=True)[1]
        return float(np.sqrt(np.pi / 2) * np.log(2) * np.sqrt(np.sum(1 / counts)))


@dataclass(frozen=True)
class Split:
    """One random split of a data set, 70/15/15, and the network trained on it."""

    name: str
    number: int
    train: Part
    validation: Part
    test: Part
    network: Pipeline


def load(name: str, number: int, effort: Effort, quick: bool) -> Split:
    """Split a data set at random and train the network; the scaler sees train only."""
    data = _synthetic(name) if quick else _read(name)
    rows = np.arange(data.y.size)
    train, held_out = train_test_split(rows, test_size=0.3, random_state=number)
    validation, test = train_test_split(held_out, test_size=0.5, random_state=number)
    parts = [
        Part(data.X[i], data.y[i], data.groups[i]) for i in (train, validation, test)
    ]
    network = MLPRegressor(random_state=number, **effort.settings)
    fitted = _trained(network, _scaler(name, quick), parts[0], effort.epochs)
    return Split(name, number, *parts, fitted)


def group_network(split: Split, effort: Effort) -> Pipeline:
    """Network that predicts the groups, as the paper has it for COMPAS."""
    network = MLPClassifier(random_state=split.number, **effort.settings)
    groups = Part(split.train.X, split.train.groups, split.train.groups)
    return _trained(network, StandardScaler(), groups, effort.epochs)


def _scaler(name: str, quick: bool) -> Any:
    """Scale as the paper does, but by the training rows only."""
    if name != "compas" or quick:
        return StandardScaler()
    return ColumnTransformer(
        [("dates", MinMaxScaler(), _DATES)], remainder="passthrough"
    )


def _trained(network: Any, scaler: Any, part: Part, epochs: int) -> Pipeline:
    """Train by Adam, with a rate that falls by a fifth after each epoch."""
    X, y = scaler.fit_transform(part.X), part.y
    network.set_params(batch_size=min(_BATCH, len(X)))
    classes = {"classes": np.unique(y)} if hasattr(network, "predict_proba") else {}
    for _ in range(epochs):
        network.partial_fit(X, y, **classes)
        network._optimizer.learning_rate_init *= _DECAY
    return make_pipeline(scaler, network)


@cache
def _read(name: str) -> Part:
    if name == "law":
        data = fetch_bar_passage(download_if_missing=False)
    elif name in ("compas", "compas-scaled"):
        data = fetch_compas(features="paper", screened=False, download_if_missing=False)
    else:
        data = fetch_compas(download_if_missing=False)
    return Part(data.data, data.target.astype(np.float64), data.sensitive_features)


@cache
def _synthetic(name: str) -> Part:
    """Rows of the same kind, few enough for seconds."""
    rng = np.random.default_rng(list(NAMES).index(name))
    groups = rng.integers(2, size=_QUICK_ROWS)
    X = rng.standard_normal((_QUICK_ROWS, 4))
    X[:, 0] += 1.5 * groups
    y = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.1 * rng.standard_normal(_QUICK_ROWS)
    if name != "law":
        y = (y > np.median(y)).astype(np.float64)
    return Part(X, y, np.where(groups == 1, "black", "other"))


# -- Last layer trained further by Adam ------------------------------------------------

_EPOCHS = 50
_FIRST, _SECOND, _TINY = 0.9, 0.999, 1e-8


def fine_tune(network: Pipeline, part: Part, decay: float, seed: int) -> None:
    """Train the last layer of the network, in place, for 50 epochs.

    How the paper sets the rate is not printed; here it is that of the network's
    training at first, and multiplied by `decay` after each epoch.
    """
    mlp = network[-1]
    rows = np.column_stack([last_inputs(network, part.X), np.ones(len(part.X))])
    weight = np.append(mlp.coefs_[-1], mlp.intercepts_[-1])
    weight = adam(rows, part.y, weight, decay, np.random.default_rng(seed))
    mlp.coefs_[-1], mlp.intercepts_[-1] = weight[:-1, None], weight[-1:]


def last_inputs(network: Pipeline, X: np.ndarray) -> np.ndarray:
    """Run rows through all layers but the last of a network with ReLUs."""
    rows, mlp = network[:-1].transform(X), network[-1]
    for weight, bias in zip(mlp.coefs_[:-1], mlp.intercepts_[:-1], strict=True):
        rows = np.maximum(rows @ weight + bias, 0)
    return np.asarray(rows)


def adam(
    rows: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    decay: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Reduce the mean squared error of ``rows @ weight`` by Adam."""
    first, second, rate, step = np.zeros_like(weight), np.zeros_like(weight), _RATE, 0
    for _ in range(_EPOCHS):
        batches = max(1, len(y) // _BATCH)
        for batch in np.array_split(rng.permutation(len(y)), batches):
            step += 1
            residual = rows[batch] @ weight - y[batch]
            gradient = rows[batch].T @ residual * (2 / len(batch))
            first = _FIRST * first + (1 - _FIRST) * gradient
            second = _SECOND * second + (1 - _SECOND) * gradient**2
            length = np.sqrt(second / (1 - _SECOND**step)) + _TINY
            weight = weight - rate * first / (1 - _FIRST**step) / length
        rate *= decay
    return weight


# -- Methods ------------------------------------------------------------------------

UNPROCESSED = "no post-processing"
PUBLISHED = "explainable SVD, gradient refit"
FINE_TUNED = "explainable SVD, fine-tuned"
DIRECT = "direct"
CHOSEN = "direct, chosen on validation rows"
CHZHEN = "Chzhen et al."
XIAN = "Xian et al."

MEAN_REDUCTIONS = (1.5, 2.0, 5.0, 15.0, 50.0)
COVARIANCE_REDUCTIONS = (5.0, 10.0, 50.0, 100.0, 150.0)
# Bins of the comparator of Xian et al., as in the paper.
_LAW_BINS, _COMPAS_BINS = 36, 18
_INF = float("inf")
_PUBLISHED = {
    "method": "explainable_svd",
    "first_moment": "svd",
    "refit_last": "gradient",
}
_STRICT = {"mean_reduction": _INF, "covariance_reduction": 1e4}
_LAYERS = {0: "first layer", -1: "last layer", -2: "last but one"}
# What is chosen from by the validation rows.
GRID: tuple[dict[str, Any], ...] = (
    {"mean_reduction": 4.0, "covariance_reduction": 20.0},
    {"mean_reduction": 8.0, "covariance_reduction": 60.0},
    {},
    _STRICT,
    {"layer": 0},
    {"layer": -1},
    {"layer": -1, **_STRICT},
)

Predict = Callable[[Part], np.ndarray]
Parameters = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What a method gave on one split, mostly on the test rows.

    `change` is the squared change of the layer's outputs on the training rows, as a
    share of their squares (nan where no layer is changed), `seconds` those of the
    fit, and `converged` whether the bounds on the layer's gaps hold.
    """

    data: str
    split: int
    method: str
    setting: str
    mse: float
    ks: float
    validation_mse: float
    validation_ks: float
    change: float = np.nan
    seconds: float = 0.0
    converged: bool = True
    outputs: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)

    def record(self) -> dict[str, Any]:
        """Give everything but the outputs; what is not known is None."""
        entries = asdict(self)
        del entries["outputs"]
        return {k: None if v != v else v for k, v in entries.items()}


def measured(
    split: Split, method: str, setting: str, predict: Predict, **more: Any
) -> Outcome:
    """Measure a method on the validation and on the test rows."""
    outputs = predict(split.test)
    mse, ks = split.test.measure(outputs)
    of_validation = split.validation.measure(predict(split.validation))
    names = (split.name, split.number, method, setting)
    return Outcome(*names, mse, ks, *of_validation, outputs=outputs, **more)


def unprocessed(split: Split) -> Outcome:
    """Measure the network as it is."""
    return measured(split, UNPROCESSED, "", lambda part: split.network.predict(part.X))


def comparators(split: Split, effort: Effort) -> list[Outcome]:
    """Both comparators, fitted on scores and on targets, groups predicted or known."""
    # None is logistic regression, the paper's for law school.
    predictor, trained = None, 0.0
    if split.name != "law":
        trained, predictor = timed(group_network, split, effort)
    outcomes = []
    for fit_on in ("scores", "targets"):
        options = {"group_predictor": predictor, "fit_on": fit_on, "random_state": 0}
        models = {
            CHZHEN: WassersteinBarycenterRegressor(split.network, **options),
            XIAN: DiscretizedTransportRegressor(
                split.network,
                n_bins=_LAW_BINS if split.name == "law" else _COMPAS_BINS,
                **options,
            ),
        }
        for method, model in models.items():
            rows = split.train
            took, _ = timed(
                partial(model.fit, rows.X, rows.y, sensitive_features=rows.groups)
            )
            runs: dict[str, Predict] = {
                "predicted": lambda part, model=model: model.predict(part.X),
                "known": lambda part, model=model: model.predict(
                    part.X, sensitive_features=part.groups
                ),
            }
            for groups, predict in runs.items():
                setting = f"fitted on {fit_on}, {groups} groups"
                seconds = took + (trained if groups == "predicted" else 0.0)
                outcomes.append(
                    measured(split, method, setting, predict, seconds=seconds)
                )
    return sorted(outcomes, key=lambda outcome: outcome.method)


def published(split: Split, **parameters: Any) -> Outcome:
    """Run the method of the paper, with gradient steps for the last layer."""
    full = {**_PUBLISHED, **parameters}
    return changed(split, PUBLISHED, name_setting(PUBLISHED, parameters), full)


def fine_tuned(split: Split, decay: float = 1.0, **parameters: Any) -> Outcome:
    """Run the method of the paper, and Adam on the last layer, as in its tables."""
    full = {**_PUBLISHED, **parameters, "refit_last": None}
    setting = name_setting(FINE_TUNED, parameters, decay)
    after = partial(fine_tune, part=split.train, decay=decay, seed=split.number)
    return changed(split, FINE_TUNED, setting, full, after)


def direct(split: Split, **parameters: Any) -> Outcome:
    """Run the direct method."""
    return changed(split, DIRECT, name_setting(DIRECT, parameters), parameters)


def name_setting(method: str, parameters: Parameters, decay: float = 1.0) -> str:
    """Name the setting of one of the three methods above."""
    if method == FINE_TUNED:
        setting = describe({**parameters, "refit_last": None})
        return setting.replace("no refit", f"Adam, rate x {decay:g} an epoch")
    return describe({**(_PUBLISHED if method == PUBLISHED else {}), **parameters})


def changed(
    split: Split,
    method: str,
    setting: str,
    parameters: Parameters,
    after: Callable[[Any], None] = lambda network: None,
) -> Outcome:
    """Change a layer, do to the network what comes after, and measure."""
    start, part = time.perf_counter(), split.train
    fair = ExplainableSVDRegressor(split.network, **parameters)
    with warnings.catch_warnings():  # it is reported in the table
        warnings.simplefilter("ignore", ConvergenceWarning)
        fair.fit(part.X, part.y, sensitive_features=part.groups)
    after(fair.estimator_)
    return measured(
        split,
        method,
        setting,
        lambda part: fair.predict(part.X),
        change=fair.output_change_,
        seconds=time.perf_counter() - start,
        converged=fair.converged_,
    )


def describe(parameters: Parameters) -> str:
    """Name the layer, the reductions and the refit."""
    reductions = [
        f"{parameters.get(name, default):g}"
        for name, default in (("mean_reduction", 15), ("covariance_reduction", 150))
    ]
    layer = parameters.get("layer", -2)
    text = f"{_LAYERS[layer]}, {'/'.join(reductions)}"
    if layer == -1:
        return text
    refit = parameters.get("refit_last", "least_squares")
    return f"{text}, {str(refit).replace('None', 'no').replace('_', ' ')} refit"


def of_table(split: Split) -> list[Outcome]:
    """Run the paper's method and the direct one in their variants."""
    svd = "explainable SVD, other refit"
    variants = [
        {**_PUBLISHED, "refit_last": "least_squares"},
        {**_PUBLISHED, "refit_last": None},
    ]
    return [
        fine_tuned(split),
        fine_tuned(split, decay=0.8),
        published(split),
        *(changed(split, svd, describe(variant), variant) for variant in variants),
        direct(split),
        direct(split, refit_last=None),
        direct(split, **_STRICT),
        direct(split, layer=-1),
        direct(split, layer=-1, **_STRICT),
    ]


def grid(split: Split, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Direct settings to choose from; those that were run are not run again."""
    done = {
        outcome.setting: outcome for outcome in outcomes if outcome.method == DIRECT
    }
    return [done.get(describe(setting)) or direct(split, **setting) for setting in GRID]


def chosen(outcomes: Sequence[Outcome], level: float) -> Outcome:
    """Choose by the validation rows: the least error at distances up to a level.

    If no distance is that small the smallest one is taken.
    """
    fair = [o for o in outcomes if o.validation_ks <= level]
    best = (
        min(fair, key=lambda o: o.validation_mse)
        if fair
        else min(outcomes, key=lambda o: o.validation_ks)
    )
    return replace(best, setting=f"validation KS at most {level:g}", method=CHOSEN)


def varied(split: Split, earlier: Sequence[Outcome]) -> list[Outcome]:
    """Three methods with one reduction varied, the other one at its default."""
    settings = [{"mean_reduction": c} for c in MEAN_REDUCTIONS]
    settings += [{"covariance_reduction": c} for c in COVARIANCE_REDUCTIONS]
    done = {(outcome.method, outcome.setting) for outcome in earlier}
    outcomes = []
    runs = {FINE_TUNED: fine_tuned, PUBLISHED: published, DIRECT: direct}
    for method, run in runs.items():
        for setting in settings:
            key = (method, name_setting(method, setting))
            if key not in done:
                done.add(key)
                outcomes.append(run(split, **setting))
    return outcomes
