"""Partially fair classifiers for several gaps, and the choice among them."""

from __future__ import annotations

import warnings
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import indexable

from scalefair._decorators import checked_call, fit_context
from scalefair._docs import documented
from scalefair._groups import check_interval
from scalefair._messages import format_distinct, warn_user
from scalefair.linear_model._base import TEXTS, BaseGroupClassifier
from scalefair.linear_model._continuation import Solution
from scalefair.linear_model._partially_fair import PartiallyFairClassifier
from scalefair.linear_model._training_rows import LabeledRows, refuse_parts


@documented(**TEXTS)
@checked_call
def partial_fairness_path(
    X: Any,
    y: ArrayLike,
    *,
    sensitive_features: ArrayLike | None = None,
    group_probabilities: ArrayLike | None = None,
    kappas: ArrayLike,
    sample_weight: ArrayLike | None = None,
    **params: Any,
) -> list[PartiallyFairClassifier]:
    """Train classifiers for several gaps: a whole front of fairness and accuracy.

    The tightest gap is solved first; each wider one starts from the weights,
    thresholds and multipliers of the one before, which satisfy its constraints.

    Parameters
    ----------
    %(rows_in_memory)s
    %(group_probabilities)s
    kappas : array-like of shape (n_kappas,)
        Gaps allowed, in any order.
    %(sample_weight)s
    **params
        Parameters of `PartiallyFairClassifier` other than `kappa`.

    Returns
    -------
    list of PartiallyFairClassifier
        In the order of `kappas`, each with the calls beyond the one before.

    Raises
    ------
    ValueError
        If `kappas` is empty or holds a number that is not within (0, 1], or for the
        reasons of `PartiallyFairClassifier.fit`.
    %(refused_parts)s

    %(warns)s

    %(example_rows)s
    >>> from scalefair.linear_model import partial_fairness_path
    >>> path = partial_fairness_path(X, y, sensitive_features=group, kappas=[0.1, 0.3])
    >>> path[0].objective_ > path[1].objective_
    True
    """
    values = check_candidates("kappas", kappas)
    first = PartiallyFairClassifier(**params)
    first._validate_params()
    refuse_parts(X, "partial_fairness_path")
    check_interval(first.interval)
    rows = first._check_training(
        X, y, sensitive_features, sample_weight, group_probabilities
    )
    rows.warn_few()
    oracle = rows.oracle(**first._oracle_options())
    models = [clone(first).set_params(kappa=float(value)) for value in values]
    # Step 1: from the tightest gap on; each solution starts the next problem.
    order = np.argsort(values, kind="stable")
    solutions: list[Solution] = []
    for i in order:
        problem = models[i]._problem(oracle, rows)
        previous = solutions[-1] if solutions else None
        solutions.append(models[i]._solve(problem, rows, previous))
    # Step 2: the best solution for each gap.
    smallest_gap = min(solution.gap for solution in solutions)
    for i, solution in zip(order, solutions, strict=True):
        if first.surrogate_width == "auto":
            # Another kappa's solution may be better. With the best one of all, gaps
            # never fall and objectives never rise as kappa grows.
            bound = max(smallest_gap, solution.kappa)
            fair = [other for other in solutions if other.gap <= bound]
            best = min(fair, key=lambda other: other.objective)
            solution = replace(best, kappa=solution.kappa)
        _copy_input_attributes(first, models[i])
        models[i]._finish(rows, solution)
    return models


def check_candidates(name: str, candidates: ArrayLike) -> np.ndarray:
    """Return values of a parameter as an array, or raise a ValueError."""
    constraints = PartiallyFairClassifier._parameter_constraints
    (constraint, *_) = constraints[name.removesuffix("s")]
    values = np.asarray(candidates, dtype=np.float64)
    is_valid = map(constraint.is_satisfied_by, np.atleast_1d(values).tolist())
    if values.ndim != 1 or values.size == 0 or not all(is_valid):
        raise ValueError(
            f"{name} must be a sequence of numbers, at least one, each {constraint}, "
            f"got {candidates!r}."
        )
    return values


def _copy_input_attributes(fitted: Any, other: Any) -> None:
    """Copy the fitted attributes about labels, groups and features.

    They are set where rows are checked, once for several classifiers.
    """
    for name in ("classes_", "groups_", "n_features_in_", "feature_names_in_"):
        vars(other).pop(name, None)  # of an earlier fit
        if hasattr(fitted, name):
            setattr(other, name, getattr(fitted, name))


@documented(**TEXTS)
class PartiallyFairClassifierCV(BaseGroupClassifier):
    """Partially fair classifier with the most accurate gap that is fair enough.

    Every fold trains a whole path of gaps, for each penalty of the interactions. Of
    the candidates whose fairness on held-out rows, one less the partial parity gap, is
    at least `fairness_floor` on average, the most accurate one is trained on all rows.

    Parameters
    ----------
    kappas : array-like of shape (n_kappas,), default=(0.01, 0.02, 0.05, 0.1, 0.2)
        Gaps to choose from.
    fairness_floor : float, default=0.9
        Least mean fairness on held-out rows, between 0 and 1.
    interaction_alphas : array-like of shape (n_alphas,) or None, default=None
        Values of `interaction_alpha` to choose from. None takes that of `estimator`.
    estimator : PartiallyFairClassifier or None, default=None
        Classifier with the other parameters, by default those of its class.
    cv : int, cross-validation generator or iterable, default=None
        Folds. None and numbers (None is 5) are stratified by label and group, if that
        is known.

    Attributes
    ----------
    kappa_, interaction_alpha_ : float, and float or None
        The gap and the penalty that were chosen.
    best_estimator_ : PartiallyFairClassifier
        The classifier trained on all rows with them.
    cv_results_ : dict of str to ndarray
        For each candidate "kappa" (sorted) and "interaction_alpha" (sorted, all gaps
        of the smallest first; only if there are several to choose from), and for each
        candidate and fold, of shape (n_candidates, n_folds), "accuracy" and "fairness"
        of the held-out rows.
    %(input_)s

    %(example_rows)s
    >>> from scalefair.linear_model import PartiallyFairClassifierCV
    >>> search = PartiallyFairClassifierCV([0.02, 0.1, 0.4], fairness_floor=0.8, cv=3)
    >>> search.fit(X, y, sensitive_features=group).kappa_
    0.1
    """

    best_estimator_: PartiallyFairClassifier

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kappas": ["array-like"],
        "fairness_floor": [Interval(Real, 0, 1, closed="both")],
        "interaction_alphas": ["array-like", None],
        "estimator": [PartiallyFairClassifier, None],
        "cv": ["cv_object"],
    }

    def __init__(
        self,
        kappas: ArrayLike = (0.01, 0.02, 0.05, 0.1, 0.2),
        fairness_floor: float = 0.9,
        *,
        interaction_alphas: ArrayLike | None = None,
        estimator: PartiallyFairClassifier | None = None,
        cv: Any = None,
    ) -> None:
        self.kappas = kappas
        self.fairness_floor = fairness_floor
        self.interaction_alphas = interaction_alphas
        self.estimator = estimator
        self.cv = cv

    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        *,
        sensitive_features: ArrayLike | None = None,
        group_probabilities: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> PartiallyFairClassifierCV:
        """Choose the gap, and train with it.

        Parameters
        ----------
        %(rows_in_memory)s
        %(group_probabilities)s
        %(sample_weight)s
            Folds are drawn without them, as scikit-learn does.

        Returns
        -------
        self : object
            The trained classifier.

        Raises
        ------
        ValueError
            As `PartiallyFairClassifier.fit`, for all rows and those of each fold; if
            a combination of label and group has fewer rows than there are folds.
        %(refused_parts)s

        Warns
        -----
        ConvergenceWarning
            If no gap reaches `fairness_floor` (the fairest is taken), or the final
            training did not converge. Folds do not warn.
        UserWarning
            If groups have fewer than 30 rows: the message names them.
        """
        refuse_parts(X, type(self).__name__)
        base = self.estimator or PartiallyFairClassifier()
        kappas = np.unique(check_candidates("kappas", self.kappas))
        alphas: list[Any] = [base.interaction_alpha]
        if self.interaction_alphas is not None:
            alphas = np.unique(
                check_candidates("interaction_alphas", self.interaction_alphas)
            ).tolist()
        rows = clone(base)._check_training(
            X, y, sensitive_features, sample_weight, group_probabilities
        )
        params = base.get_params(deep=False)
        del params["kappa"], params["interaction_alpha"]
        labels = rows.classes[(rows.signs > 0).astype(np.intp)]
        groups, weights = rows.group_arguments, rows.weights
        (X,) = indexable(X)
        # Step 1: accuracy and fairness of each candidate in each fold. Candidates are
        # ordered by alpha, then kappa: each alpha has one path of kappas.
        scores = []
        codes = rows.codes
        if rows.membership.rows is not None:
            codes = np.zeros(len(labels), np.int64)  # no row has a group
        for train, test in self._folds(X, rows.signs, codes):
            held_out = rows.take(np.arange(len(labels))[test], _safe_indexing(X, test))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                warnings.filterwarnings("ignore", "Gaps of groups", UserWarning)
                models = [
                    model
                    for alpha in alphas
                    for model in partial_fairness_path(
                        _safe_indexing(X, train),
                        labels[train],
                        **{k: _safe_indexing(v, train) for k, v in groups.items()},
                        kappas=kappas,
                        sample_weight=None if weights is None else weights[train],
                        interaction_alpha=alpha,
                        **params,
                    )
                ]
            try:
                scores.append([_evaluate(model, held_out) for model in models])
            except (ValueError, ZeroDivisionError) as error:
                raise ValueError(
                    f"The held-out rows of a fold have no score: {error}"
                ) from error
        if not scores:
            raise ValueError(
                "cv has no folds. A generator of splits is used up by the first fit: "
                "give a list of them."
            )
        # (n_folds, n_candidates, 2) becomes two arrays (n_candidates, n_folds).
        accuracy, fairness = np.array(scores).transpose(2, 1, 0)
        self.cv_results_ = {"kappa": np.tile(kappas, len(alphas))}
        if self.interaction_alphas is not None:
            self.cv_results_["interaction_alpha"] = np.repeat(alphas, len(kappas))
        self.cv_results_ |= {"accuracy": accuracy, "fairness": fairness}
        # Step 2: the best candidate, trained on all rows.
        i_alpha, i_kappa = divmod(self._choose(accuracy, fairness), len(kappas))
        self.kappa_ = float(kappas[i_kappa])
        self.interaction_alpha_ = alphas[i_alpha]
        self.best_estimator_ = clone(base).set_params(
            kappa=self.kappa_, interaction_alpha=self.interaction_alpha_
        )
        self.best_estimator_.fit(X, labels, **groups, sample_weight=weights)
        _copy_input_attributes(self.best_estimator_, self)
        return self

    def _folds(self, X: Any, signs: NDArray[Any], codes: NDArray[Any]) -> Any:
        """Yield rows to train and to test on; numbers of folds are stratified."""
        strata = 2 * codes + (signs > 0)
        cv = check_cv(5 if self.cv is None else self.cv, strata, classifier=True)
        if isinstance(cv, StratifiedKFold):
            fewest = int(np.bincount(strata)[np.unique(strata)].min())
            if fewest < cv.get_n_splits():
                raise ValueError(
                    f"The smallest combination of label and group has {fewest} row(s), "
                    f"fewer than the {cv.get_n_splits()} folds. Take fewer folds."
                )
        return cv.split(X, strata)

    def _choose(self, accuracy: NDArray[Any], fairness: NDArray[Any]) -> int:
        """Return the index of the most accurate candidate that is fair enough."""
        mean_accuracy, mean_fairness = accuracy.mean(axis=1), fairness.mean(axis=1)
        is_fair = mean_fairness >= self.fairness_floor
        if is_fair.any():
            return int(np.where(is_fair, mean_accuracy, -np.inf).argmax())
        best = int(mean_fairness.argmax())
        warn_user(
            f"No gap reaches fairness_floor={self.fairness_floor:g} on held-out rows; "
            "the fairest has "
            f"{format_distinct(mean_fairness[best], self.fairness_floor)} and is "
            "taken. Add smaller kappas or more thresholds, or lower the floor.",
            ConvergenceWarning,
        )
        return best

    def _scoring(self) -> PartiallyFairClassifier:
        if hasattr(self, "best_estimator_"):
            return self.best_estimator_
        return self.estimator or PartiallyFairClassifier()


def _evaluate(model: PartiallyFairClassifier, rows: LabeledRows) -> tuple[float, float]:
    """Return accuracy and fairness on held-out rows."""
    groups = rows.group_arguments.get("sensitive_features")
    scores = model.decision_function(rows.X, sensitive_features=groups)
    is_correct = (scores > 0) == (rows.signs > 0)
    accuracy = np.average(is_correct, weights=rows.weights)
    return float(accuracy), 1.0 - model._gap(scores, rows)
