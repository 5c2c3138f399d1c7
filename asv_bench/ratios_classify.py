"""Partially fair classification: ratios, the paper's problem, the front, memory.

    SCALEFAIR_DATA=... python asv_bench/ratios_classify.py oracle   # one call, a9a
    SCALEFAIR_DATA=... python asv_bench/ratios_classify.py problem  # kappa 0.1, a9a
    SCALEFAIR_DATA=... python asv_bench/ratios_classify.py path     # five gaps, a9a
    SCALEFAIR_DATA=... python asv_bench/ratios_classify.py front    # by validation
    python asv_bench/ratios_classify.py million                     # 10^6 x 200, sparse

Figure 1 of the paper, and the calls of the bundle against those of the switching
subgradient method: benchmarks/paper_tables/partial_fairness.py.
"""

import itertools
import resource
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold

from scalefair.datasets import fetch_a9a, make_biased_rows
from scalefair.linear_model import PartiallyFairClassifier, partial_fairness_path
from scalefair.linear_model._oracle import ScoreOracle
from scalefair.metrics import partial_demographic_parity_gap

sys.path.insert(0, str(Path(__file__).parent))
from ratios import alternate, report

INTERVAL = (0.05, 0.30)
KAPPAS = (0.01, 0.05, 0.1, 0.2, 0.28)


def gap(model, X, groups):
    scores = model.decision_function(X, sensitive_features=groups)
    return partial_demographic_parity_gap(
        scores, sensitive_features=groups, interval=INTERVAL
    )


def oracle():
    data = fetch_a9a()
    X, signs = data.data, np.where(data.target == 1, 1.0, -1.0)
    codes = (data.sensitive_features == "Male").astype(np.int64)
    rng = np.random.RandomState(0)
    fused = ScoreOracle(X, signs, codes, 2)
    w = 0.1 * rng.randn(fused.n_weights)
    theta = np.linspace(-0.5, 1, 10)
    XT = X.T.tocsr()
    v, r = rng.randn(X.shape[1]), rng.randn(X.shape[0])
    beta = w.reshape(2, -1)

    def everything():
        value = fused.evaluate(w, theta)
        return value.loss, value.plus, value.minus, value.plus_gradient

    def in_numpy():
        """Values of all constraints, and the gradient of the loss alone."""
        h = X @ beta[0, :-1] + beta[0, -1]
        h += codes * (X @ beta[1, :-1] + beta[1, -1])
        t = np.exp(-np.abs(h))
        loss = (np.log1p(t) + np.maximum(-signs * h, 0)).mean()
        slope = -signs * np.where(signs * h > 0, t / (1 + t), 1 / (1 + t)) / len(h)
        parts = [
            [
                np.maximum(h[codes == k, None] - theta + side, 0).mean(axis=0)
                for side in (0.5, -0.5)
            ]
            for k in (0, 1)
        ]
        return loss, parts, XT @ slope, XT @ (slope * codes)

    loss, plus, minus, _ = everything()
    expected = in_numpy()
    np.testing.assert_allclose(loss, expected[0])
    np.testing.assert_allclose(np.stack([plus, minus], axis=1), expected[1])
    seconds = alternate(
        100,
        oracle=everything,
        values=partial(fused.evaluate, w, theta),
        numpy=in_numpy,
        products=lambda: (X @ v, XT @ r),
    )
    report("a9a, 10 thresholds, 2 groups", seconds, "products")


def problem():
    data = fetch_a9a()
    rows = (data.data, data.target)
    PartiallyFairClassifier(INTERVAL, 0.3).fit(  # compiles
        *rows, sensitive_features=data.sensitive_features
    )
    for options in (
        {},
        {"start": "zero"},
        {"start": "zero", "tol": 1e-4},
        {"start": "zero", "inner_solver": "ssg", "max_iter": 60},
    ):
        model = PartiallyFairClassifier(INTERVAL, 0.1, **options)
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(*rows, sensitive_features=data.sensitive_features)
        seconds = time.perf_counter() - start
        accuracy = model.score(
            data.data_test,
            data.target_test,
            sensitive_features=data.sensitive_features_test,
        )
        print(
            f"{options}: f0 {model.objective_:.5f}, violation "
            f"{max(model.infeasibility_, 0):.1e}, residual {model.kkt_residual_:.1e}, "
            f"{model.n_oracle_calls_} calls, {seconds:.2f} s; test accuracy "
            f"{accuracy:.4f}, gap "
            f"{gap(model, data.data_test, data.sensitive_features_test):.4f}",
            flush=True,
        )


def path():
    data = fetch_a9a()
    rows = {"X": data.data, "y": data.target}
    rows["sensitive_features"] = data.sensitive_features
    for options in ({"start": "auto"}, {"start": "zero", "n_thresholds": 25}):
        front = partial(
            partial_fairness_path, **rows, kappas=KAPPAS, interval=INTERVAL, **options
        )
        tightest = PartiallyFairClassifier(INTERVAL, KAPPAS[0], **options)
        single = partial(tightest.fit, **rows)
        calls = [model.n_oracle_calls_ for model in front()]
        report(
            f"{options}: calls {calls}",
            alternate(3, path=front, single=single),
            "single",
        )


def front():
    """Setting with the best accuracy in ten folds, at a training gap up to 0.13."""
    data = fetch_a9a()
    X, y, groups = data.data, data.target, data.sensitive_features
    strata = 2 * (groups == "Male") + y
    folds = StratifiedKFold(10, shuffle=True, random_state=0)
    kappas = (0.095, 0.1, 0.105, 0.11)
    found = []
    for n_thresholds, alpha in itertools.product((10, 25, 40), (0.0, 1e-4, 1e-3, 3e-3)):
        options = {"n_thresholds": n_thresholds, "alpha": alpha, "start": "zero"}
        scores = []
        for train, held_out in folds.split(X, strata):
            models = partial_fairness_path(
                X[train],
                y[train],
                sensitive_features=groups[train],
                kappas=kappas,
                interval=INTERVAL,
                **options,
            )
            scores.append(
                [
                    (
                        m.partial_parity_gap_,
                        m.score(
                            X[held_out],
                            y[held_out],
                            sensitive_features=groups[held_out],
                        ),
                    )
                    for m in models
                ]
            )
        for kappa, (gap_, accuracy) in zip(
            kappas, np.mean(scores, axis=0), strict=True
        ):
            found.append((accuracy if gap_ <= 0.13 else -1.0, gap_, kappa, options))
            model = PartiallyFairClassifier(INTERVAL, kappa, **options)
            model.fit(X, y, sensitive_features=groups)
            test = model.score(
                data.data_test,
                data.target_test,
                sensitive_features=data.sensitive_features_test,
            )
            test_gap = gap(model, data.data_test, data.sensitive_features_test)
            print(
                f"kappa {kappa}, n_thresholds {n_thresholds}, alpha {alpha}: "
                f"validation accuracy {accuracy:.4f}, training gap {gap_:.3f}; "
                f"all rows: test accuracy {test:.4f}, gap {test_gap:.4f}",
                flush=True,
            )
    best = max(found, key=lambda setting: setting[0])
    print(f"chosen: kappa {best[2]}, {best[3]}, validation accuracy {best[0]:.4f}")


def million():
    data = make_biased_rows(1_000_000, 200, density=0.1, random_state=0)
    X, groups = data.data, data.sensitive_features
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    for options in ({"start": "zero"}, {}):
        model = PartiallyFairClassifier((0.1, 0.4), 0.05, **options)
        start = time.perf_counter()
        model.fit(X, data.target, sensitive_features=groups)
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{X.shape[0]} x {X.shape[1]}, {X.nnz} entries, {options}: "
            f"{seconds:.1f} s, {model.n_oracle_calls_} calls, "
            f"residual {model.kkt_residual_:.1e}, "
            f"violation {max(model.infeasibility_, 0):.1e}, "
            f"gap {model.partial_parity_gap_:.3f}; "
            f"peak {peak:.2f} GiB ({before:.2f} before)",
            flush=True,
        )


if __name__ == "__main__":
    commands = {
        "oracle": oracle,
        "problem": problem,
        "path": path,
        "front": front,
        "million": million,
    }
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])
