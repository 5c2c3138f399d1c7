"""Partially fair classifiers for several gaps, from the tightest upwards."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from scalefair._intervals import check_interval
from scalefair.linear_model._partially_fair import PartiallyFairClassifier
from scalefair.linear_model._training import Solution, warn_unfinished
from scalefair.linear_model._training_rows import refuse_parts, warn_few_rows

__all__ = ["check_kappas", "partial_fairness_path"]


def partial_fairness_path(
    X: Any,
    y: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    kappas: ArrayLike,
    **params: Any,
) -> list[PartiallyFairClassifier]:
    """Train classifiers for several gaps: a whole front of fairness and accuracy.

    The tightest gap is solved first. Its solution satisfies the constraints of every
    wider gap, so that each problem starts from the weights, thresholds and
    multipliers of the one before; the rows are checked and encoded once.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (m, n_features)
        Rows of features, dense or CSR.
    y : array-like of shape (m,)
        Labels of two kinds.
    sensitive_features : array-like of shape (m,)
        Group of each row.
    kappas : array-like of shape (n_kappas,)
        Gaps allowed, in any order.
    **params
        Parameters of `PartiallyFairClassifier` other than `kappa`.

    Returns
    -------
    list of PartiallyFairClassifier
        Trained classifiers, in the order of `kappas`. The oracle calls that each
        reports are those it needed beyond the one before.

    Raises
    ------
    ValueError
        If `kappas` is empty or holds a number that is not within (0, 1], or for the
        reasons of `PartiallyFairClassifier.fit`.
    TypeError
        If `X` is a Dask collection or a reader: rows have to be in memory.

    Warns
    -----
    ConvergenceWarning
        As `PartiallyFairClassifier.fit` does, for each gap.
    UserWarning
        If groups have fewer than 30 rows.

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.linear_model import partial_fairness_path
    >>> rng = np.random.RandomState(0)
    >>> group = rng.randint(2, size=2000)
    >>> X = rng.randn(2000, 3) + group[:, None]
    >>> y = X.sum(axis=1) + rng.randn(2000) > 2
    >>> path = partial_fairness_path(
    ...     X, y, sensitive_features=group, kappas=[0.02, 0.1, 0.3], interval=(0.1, 0.5)
    ... )
    >>> losses = [model.objective_ for model in path]
    >>> losses == sorted(losses, reverse=True)
    True
    """
    values = check_kappas(kappas)
    first = PartiallyFairClassifier(**params)
    first._validate_params()
    refuse_parts(X, "partial_fairness_path")
    check_interval(first.interval)
    rows = first._check_training(X, y, sensitive_features)
    warn_few_rows(rows.groups, rows.group_sizes, stacklevel=2)
    oracle = first._oracle(rows, rows.units())
    models: list[PartiallyFairClassifier] = [first] * values.size
    last: Solution | None = None
    for i in np.argsort(values, kind="stable"):
        model = clone(first).set_params(kappa=float(values[i]))
        for name in ("classes_", "groups_", "n_features_in_", "feature_names_in_"):
            if hasattr(first, name):
                setattr(model, name, getattr(first, name))
        problem = model._problem(oracle, rows)
        last = model._solve(problem, last)
        model._finish(rows, problem, last)
        warn_unfinished(last, model.tol, stacklevel=3)
        models[i] = model
    return models


def check_kappas(kappas: ArrayLike) -> np.ndarray:
    """Return the gaps as an array, or say what is wrong."""
    values = np.asarray(kappas, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(
            f"kappas must be a sequence of numbers, at least one, got {kappas!r}."
        )
    if not ((values > 0) & (values <= 1)).all():
        raise ValueError(f"kappas must lie within (0, 1], got {kappas!r}.")
    return values
