"""Paths of gaps, and the choice among them."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning

from scalefair.linear_model import (
    PartiallyFairClassifier,
    PartiallyFairClassifierCV,
    partial_fairness_path,
)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.RandomState(1)
    group = rng.randint(2, size=1500)
    X = rng.randn(1500, 3) + 0.6 * group[:, None]
    y = X.sum(axis=1) + rng.randn(1500) > 0.9
    return X, y, group


@pytest.fixture(scope="module")
def path(rows):
    X, y, group = rows
    return partial_fairness_path(
        X,
        y,
        sensitive_features=group,
        kappas=[0.3, 0.02, 0.1],
        interval=(0.1, 0.5),
        n_thresholds=20,
    )


def test_in_the_order_given(path):
    assert [model.kappa for model in path] == [0.3, 0.02, 0.1]
    losses = [path[i].objective_ for i in (1, 2, 0)]
    assert losses == sorted(losses, reverse=True)
    gaps = [path[i].partial_parity_gap_ for i in (1, 2, 0)]
    assert gaps == sorted(gaps)


def test_each_is_a_solution(rows, path):
    X, y, group = rows
    for model in path:
        alone = PartiallyFairClassifier(**model.get_params())
        alone.fit(X, y, sensitive_features=group)
        assert model.converged_
        np.testing.assert_allclose(model.objective_, alone.objective_, rtol=0.02)
        if model.kappa > 0.02:  # a warm start
            assert model.n_oracle_calls_ < alone.n_oracle_calls_ / 3


@pytest.mark.parametrize("kappas", [[], [0.0], [0.1, 2.0], 0.1])
def test_bad_kappas(rows, kappas):
    X, y, group = rows
    with pytest.raises(ValueError, match="kappas"):
        partial_fairness_path(X, y, sensitive_features=group, kappas=kappas)


def test_warnings_name_the_caller(rows):
    X, y, group = rows
    with pytest.warns(ConvergenceWarning, match="stopped after 1 it") as caught:
        partial_fairness_path(
            X, y, sensitive_features=group, kappas=[0.1], start="zero", max_iter=1
        )
    assert caught[0].filename == __file__


class TestCV:
    def search(self, floor, **params):
        estimator = PartiallyFairClassifier((0.1, 0.5), n_thresholds=8, tol=5e-3)
        return PartiallyFairClassifierCV(
            [0.02, 0.5], floor, estimator=estimator, cv=3, **params
        )

    def test_floor_decides(self, rows):
        X, y, group = rows
        loose = self.search(0.2).fit(X, y, sensitive_features=group)
        strict = self.search(0.75).fit(X, y, sensitive_features=group)
        assert loose.kappa_ == 0.5
        assert strict.kappa_ == 0.02
        assert strict.best_estimator_.kappa == 0.02
        assert strict.cv_results_["accuracy"].shape == (2, 3)
        fairness = strict.cv_results_["fairness"].mean(axis=1)
        assert fairness[0] >= 0.75 > fairness[1]

    def test_no_gap_is_fair_enough(self, rows):
        X, y, group = rows
        with pytest.warns(ConvergenceWarning, match="fairness_floor") as caught:
            search = self.search(1.0).fit(X, y, sensitive_features=group)
        assert search.kappa_ == 0.02
        assert caught[0].filename == __file__

    def test_labels_and_groups_as_columns(self, rows):
        X, y, group = rows
        flat = self.search(0.2).fit(X, y, sensitive_features=group)
        with pytest.warns(DataConversionWarning):
            search = self.search(0.2).fit(
                X, y[:, None], sensitive_features=group[:, None]
            )
        np.testing.assert_array_equal(
            search.cv_results_["accuracy"], flat.cv_results_["accuracy"]
        )
        assert search.kappa_ == flat.kappa_

    def test_predicts_as_the_best(self, rows):
        X, y, group = rows
        search = self.search(0.2).fit(X, y, sensitive_features=group)
        best = search.best_estimator_
        for name in ("predict", "decision_function", "predict_proba"):
            np.testing.assert_array_equal(
                getattr(search, name)(X, sensitive_features=group),
                getattr(best, name)(X, sensitive_features=group),
            )
        assert search.score(X, y, sensitive_features=group) == best.score(
            X, y, sensitive_features=group
        )

    def test_no_folds(self, rows):
        X, y, group = rows
        splits = iter([(np.arange(750), np.arange(750, 1500))])
        search = self.search(0.2).set_params(cv=splits)
        search.fit(X, y, sensitive_features=group)
        with pytest.raises(ValueError, match="no folds"):
            search.fit(X, y, sensitive_features=group)

    def test_too_few_rows_for_the_folds(self, rows):
        X, y, _ = rows
        rare = np.zeros(len(y), int)
        rare[:2] = 1
        with pytest.raises(ValueError, match="fewer than the 3 folds"):
            self.search(0.5).fit(X, y, sensitive_features=rare)
