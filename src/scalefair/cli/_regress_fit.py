"""Change the saved model of ``scalefair regress``, and measure what it does."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair.cli._errors import Failure
from scalefair.cli._estimator import Words, say_warnings, translate
from scalefair.cli._regress_model import Model, predict
from scalefair.cli._regress_reader import RegressionRows
from scalefair.cli._regress_report import describe_fit, describe_rows, measure

__all__ = ["Changed", "change_model"]

# The estimator names its parameters, the user knows the options.
_WORDS: Words = (
    (r"refit_last=['\"]?(\w+)['\"]?", lambda m: f"--refit {m[1].lower()}"),
    (r"\brefit_last\b", "--refit"),
    (r"(?<!-)\bmethod=['\"](\w+)['\"]", r"--method \1"),
    (r"(?<!-)\bfirst_moment=['\"](\w+)['\"]", r"--first-moment \1"),
    (r"(?<!-)\b(layer|rank|epsilon)( = |=)", r"--\1 "),
    (
        r"(?<!-)\b(mean_reduction|covariance_reduction|random_state)( = |=)",
        lambda m: f"--{m[1].replace('_', '-')} ",
    ),
    (
        r"(?<!-)\b(mean_reduction|covariance_reduction|random_state|first_moment)\b",
        lambda m: f"--{m[1].replace('_', '-')}",
    ),
    (r"\b([Rr]aise|[Ll]ower|increase|decrease|or) (rank|epsilon)\b", r"\1 --\2"),
    (r"\bsensitive_features\b", "--groups"),
)


@dataclass(frozen=True)
class Changed:
    """A changed model, and what is written about it.

    Attributes
    ----------
    model : ExplainableSVDRegressor
        Fitted.
    report : dict
        What was read, how the change fared, and measures on the rows.
    seconds : float
        Wall time of the fit.
    outputs : dict of str to (dict of str to ndarray, ndarray)
        Predictions before and after, and groups, of the rows that the change is
        fitted to, and of the others if there are any.
    converged : bool
        Whether nothing that was fitted complained of too few iterations.
    """

    model: Any
    report: dict[str, Any]
    seconds: float
    outputs: dict[str, tuple[dict[str, NDArray[np.float64]], NDArray[Any]]]
    converged: bool


def change_model(
    model: Model,
    rows: RegressionRows,
    test: RegressionRows | None,
    parameters: dict[str, Any],
) -> Changed:
    """Fit ``ExplainableSVDRegressor(estimator, **parameters)`` and measure it.

    Parameters
    ----------
    model : Model
        The saved estimator, which is not changed itself.
    rows : RegressionRows
        Rows that the change is fitted to.
    test : RegressionRows or None
        Other rows on which both models are measured.
    parameters : dict
        Of the estimator.

    Raises
    ------
    Failure
        If the saved estimator cannot predict the rows, or cannot be changed.
    """
    from sklearn.exceptions import ConvergenceWarning

    from scalefair.postprocessing import ExplainableSVDRegressor

    parts = {"train": rows} | ({} if test is None else {"test": test})
    fair = ExplainableSVDRegressor(model.estimator, **parameters)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # First of all, for it finds rows of another kind.
        before = {name: model.predict(r.X, r.read.path) for name, r in parts.items()}
        start = time.perf_counter()
        try:
            fair.fit(rows.X, rows.y, sensitive_features=rows.read.groups)
        except (ValueError, TypeError) as error:
            raise Failure(f"{model.path}: {translate(str(error), _WORDS)}") from error
        seconds = time.perf_counter() - start
        outputs = {
            name: {"before": before[name], "after": predict(fair, r.X)}
            for name, r in parts.items()
        }
        measured = {name: measure(r, **outputs[name]) for name, r in parts.items()}
    say_warnings(caught, _WORDS)
    report = {
        "input": {
            "model": str(model.path),
            "n_features": rows.X.shape[1],
            **{name: describe_rows(r) for name, r in parts.items()},
        },
        **describe_fit(fair),
        **measured,
    }
    gave_up = any(issubclass(w.category, ConvergenceWarning) for w in caught)
    evidence = {name: (outputs[name], r.read.groups) for name, r in parts.items()}
    return Changed(fair, report, seconds, evidence, not gave_up)
