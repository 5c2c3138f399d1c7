"""How a partially fair classifier is trained, once its rows are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair._intervals import check_interval
from scalefair.linear_model._base import BaseGroupClassifier
from scalefair.linear_model._feature_units import FeatureUnits
from scalefair.linear_model._intercept import best_constant, most_accurate_shift
from scalefair.linear_model._oracle import ScoreOracle
from scalefair.linear_model._parity_problem import (
    ParityProblem,
    StrongParity,
    WeakParity,
)
from scalefair.linear_model._partitioned_oracle import RowOracle
from scalefair.linear_model._partitioned_training import (
    partitioned_training,
    refuse_pairs,
)
from scalefair.linear_model._training import (
    Solution,
    given_start,
    solve,
    warn_unfinished,
)
from scalefair.linear_model._training_rows import TrainingRows
from scalefair.metrics import (
    partial_demographic_parity_gap,
    weak_partial_demographic_parity_gap,
)
from scalefair.streaming import is_partitioned

__all__ = ["ParityTraining"]


class ParityTraining(BaseGroupClassifier):
    """Steps from rows to weights; the parameters are PartiallyFairClassifier's."""

    interval: Sequence[float]
    kappa: float
    criterion: str
    threshold: float
    surrogate: str
    n_thresholds: int
    inner_solver: str
    start: Any
    tune_intercept: bool
    tol: float
    max_iter: int
    warm_start: bool

    def _train(
        self, rows: TrainingRows, oracle: RowOracle, last: Solution | None = None
    ) -> Self:
        problem = self._problem(oracle, rows)
        found = self._solve(problem, last)
        self._finish(rows, problem, found)
        warn_unfinished(found, self.tol, stacklevel=6)
        return self

    def _rows_and_oracle(
        self, X: Any, y: ArrayLike, sensitive_features: ArrayLike
    ) -> tuple[TrainingRows, RowOracle]:
        if not is_partitioned(X):
            rows = self._check_training(X, y, sensitive_features)
            return rows, self._oracle(rows, rows.units())
        refuse_pairs(self.loss)
        parts = self._check_rows(X, reset=True)
        rows, oracle = partitioned_training(
            parts, y, sensitive_features, self._limits, self._oracle_options()
        )
        self.classes_, self.groups_ = rows.classes, rows.groups
        return rows, oracle

    def _oracle(
        self, rows: TrainingRows, units: FeatureUnits | None = None
    ) -> ScoreOracle:
        """Return the oracle of rows in memory, in the given units of the features."""
        return ScoreOracle(
            rows.X,
            rows.signs,
            rows.codes,
            len(rows.groups),
            auc_interval=check_interval(self.interval),
            units=units,
            **self._oracle_options(),
        )

    def _oracle_options(self) -> dict[str, Any]:
        return {
            "interactions": self.interactions,
            "loss": self.loss,
            "surrogate": self.surrogate,
        }

    def _problem(self, oracle: RowOracle, rows: TrainingRows) -> ParityProblem:
        """Return the problem of an oracle's rows; labels are those of `rows`."""
        interval = check_interval(self.interval)
        common = (oracle, interval, float(self.kappa), float(self.alpha))
        if self.criterion == "weak":
            constant = best_constant(rows.signs, self.loss)
            weak = WeakParity(*common, float(self.threshold), constant)
            weak.require_memory()
            return weak
        strong = StrongParity(*common, self.n_thresholds, self.surrogate)
        strong.require_memory()
        return strong

    def _solve(self, problem: ParityProblem, last: Solution | None = None) -> Solution:
        """Solve a problem from another solution, the given start, or the last fit."""
        v0 = None
        before = problem.oracle.n_calls
        if last is not None:
            v0 = problem.with_thresholds(problem.weights(last.x), last.thresholds)
        elif self._may_go_on(problem):
            given = np.column_stack([self.coef_, self.intercept_])
            w = problem.oracle.layout.parameters(given)
            v0 = problem.with_thresholds(w, self.thresholds_)
        elif not isinstance(self.start, str):
            v0 = given_start(problem, self.start, self.tol)
        return solve(
            problem,
            v0,
            multipliers=None if last is None else last.multipliers,
            smooth=isinstance(self.start, str) and self.start == "auto",
            inner_solver=self.inner_solver,
            tol=self.tol,
            max_iter=self.max_iter,
            n_calls=problem.oracle.n_calls - before,
        )

    def _may_go_on(self, problem: ParityProblem) -> bool:
        n_rows = problem.oracle.n_groups if self.interactions else 1
        shape = n_rows, problem.oracle.n_features
        return self.warm_start and hasattr(self, "coef_") and self.coef_.shape == shape

    def _finish(
        self, rows: TrainingRows, problem: ParityProblem, found: Solution
    ) -> None:
        """Store a solution; the intercept is tuned on the rows."""
        w = problem.weights(found.x).copy()
        thresholds = np.array(problem.thresholds(found.x))
        scores = problem.oracle.scores(w)
        if self.tune_intercept and self.criterion == "strong":
            shift = most_accurate_shift(scores, rows.signs)
            scores = scores + shift
            thresholds = thresholds + shift
            w[problem.oracle.n_features] += shift
        self._store_weights(problem.oracle.layout.rows(w))
        self.thresholds_ = thresholds
        self.partial_parity_gap_ = self._gap(scores, rows.codes)
        self.objective_ = found.objective
        self.infeasibility_ = found.infeasibility
        self.kkt_residual_ = found.kkt_residual
        self.history_ = found.history
        self.n_iter_ = found.n_iter
        self.n_oracle_calls_ = found.n_calls
        self.converged_ = found.converged

    def _gap(self, scores: NDArray[np.float64], groups: NDArray[Any]) -> float:
        interval = check_interval(self.interval)
        where: dict[str, Any] = {"sensitive_features": groups, "interval": interval}
        if self.criterion == "strong":
            return partial_demographic_parity_gap(scores, **where)
        return weak_partial_demographic_parity_gap(
            scores, threshold=self.threshold, **where
        )
