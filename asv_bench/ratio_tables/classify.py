"""Partially fair classification: one call, the paper's problem, fronts, a million rows.

Figure 1 of the paper, and the calls of the bundle against those of the switching
subgradient method: benchmarks/paper_tables/partial_fairness.py.
"""

import itertools
import warnings
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold

from scalefair.datasets import fetch_a9a, make_biased_rows
from scalefair.linear_model import PartiallyFairClassifier, partial_fairness_path
from scalefair.metrics import partial_demographic_parity_gap

from .runner import benchmark, compare, once, show

INTERVAL = (0.05, 0.30)
KAPPAS = (0.01, 0.05, 0.1, 0.2, 0.28)
# The method of the paper: its surrogate stays, and the gap may be any.
PAPER = {"surrogate_width": 1.0, "n_thresholds": 10, "alpha": 0.0}


def _rows(data, part=""):
    """Rows, labels and groups as keyword arguments of `fit` and `score`."""
    names = {"X": "data", "y": "target", "sensitive_features": "sensitive_features"}
    return {parameter: data[f"{name}{part}"] for parameter, name in names.items()}


def _test_cells(model, data):
    rows = _rows(data, "_test")
    accuracy = model.score(**rows)
    del rows["y"]
    groups = rows["sensitive_features"]
    gap = partial_demographic_parity_gap(
        model.decision_function(**rows), sensitive_features=groups, interval=INTERVAL
    )
    return {"test accuracy": f"{accuracy:.4f}", "test gap": f"{gap:.4f}"}


def _solution_cells(model):
    return {
        "f0": f"{model.objective_:.5f}",
        "violation": f"{max(model.infeasibility_, 0):.1e}",
        "residual": f"{model.kkt_residual_:.1e}",
        "calls": model.n_oracle_calls_,
    }


def oracle(rows=32_561, columns=123, repeats=100):
    """One oracle call, against NumPy's and a product with its adjoint."""
    name, shape = "score_oracle.Evaluate.time_evaluate", (rows, columns)
    products = benchmark(name, shape, "products")
    title = f"One call, {rows:,} x {columns}, 10 thresholds, 2 groups"
    # Apart: NumPy's threads still spin when the next candidate runs.
    for method in ("oracle", "numpy"):
        runs = {method: benchmark(name, shape, method), "products": products}
        compare(title, runs, "products", repeats)


def problem():
    """The paper's problem on a9a, kappa 0.1, solved in four ways."""
    data, rows = fetch_a9a(), []
    PartiallyFairClassifier(INTERVAL, 0.3, **PAPER).fit(**_rows(data))  # compiles
    for options in (
        {},
        PAPER,
        {**PAPER, "start": "zero"},
        {**PAPER, "start": "zero", "tol": 1e-4},
        {**PAPER, "start": "zero", "inner_solver": "ssg", "max_iter": 60},
    ):
        model = PartiallyFairClassifier(INTERVAL, 0.1, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            cells = once(partial(model.fit, **_rows(data)), _solution_cells)
        rows.append({"options": options} | cells | _test_cells(model, data))
    show("a9a, kappa 0.1", *rows)


def path(repeats=3):
    """Front of five gaps on a9a, against the single tightest fit."""
    rows = _rows(fetch_a9a())
    for options in ({}, PAPER, {**PAPER, "start": "zero", "n_thresholds": 25}):
        tightest = PartiallyFairClassifier(INTERVAL, KAPPAS[0], **options)
        runs = {
            "path": partial(
                partial_fairness_path,
                **rows,
                kappas=KAPPAS,
                interval=INTERVAL,
                **options,
            ),
            "single": lambda model=tightest: [model.fit(**rows)],
        }

        def facts(name, models):
            return {"calls": ", ".join(str(m.n_oracle_calls_) for m in models)}

        compare(f"a9a, {options}", runs, "single", repeats, facts)


def front(
    kappas=(0.095, 0.1, 0.105, 0.11),
    thresholds=(10, 25, 40),
    alphas=(0.0, 1e-4, 1e-3, 3e-3),
    n_folds=10,
):
    """Settings on a9a by their accuracy in folds, at a gap up to 0.13; on test rows."""
    data = fetch_a9a()
    rows = _rows(data)
    strata = 2 * (data.sensitive_features == "Male") + data.target
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=0)
    results = []
    for n_thresholds, alpha in itertools.product(thresholds, alphas):
        options = {**PAPER, "n_thresholds": n_thresholds, "alpha": alpha}
        options |= {"start": "zero"}
        scores = []
        for train, held_out in folds.split(data.data, strata):
            models = partial_fairness_path(
                **{name: values[train] for name, values in rows.items()},
                kappas=kappas,
                interval=INTERVAL,
                **options,
            )
            test_rows = {name: values[held_out] for name, values in rows.items()}
            scores.append(
                [(m.partial_parity_gap_, m.score(**test_rows)) for m in models]
            )
        means = np.mean(scores, axis=0)
        for kappa, (gap, accuracy) in zip(kappas, means, strict=True):
            model = PartiallyFairClassifier(INTERVAL, kappa, **options)
            cells = {
                "kappa": kappa,
                **options,
                "validation accuracy": f"{accuracy:.4f}",
                "training gap": f"{gap:.3f}",
                **_test_cells(model.fit(**rows), data),
            }
            results.append((accuracy if gap <= 0.13 else -1.0, cells))
    show("a9a, all settings", *(cells for _, cells in results))
    show("a9a, the setting that is chosen", max(results, key=lambda pair: pair[0])[1])


def million_rows(m=1_000_000, n=200):
    """Fits to a million sparse rows of 20 million entries, once each."""
    data = make_biased_rows(m, n, density=0.1, random_state=0)
    rows = [once(lambda: None) | {"start": "(the data alone)"}]
    for options in ({**PAPER, "start": "zero"}, PAPER, {}):
        model = PartiallyFairClassifier((0.1, 0.4), 0.05, **options)
        cells = once(partial(model.fit, **_rows(data)), _solution_cells)
        rows.append(options | cells | {"gap": f"{model.partial_parity_gap_:.3f}"})
    show(f"{m:,} x {n}, {data.data.nnz:,} entries", *rows)
