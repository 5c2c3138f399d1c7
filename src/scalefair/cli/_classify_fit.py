"""Train the classifier of ``scalefair classify``, and save it."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

import scalefair
from scalefair.cli._block_files import is_reader, refuse_not_finite
from scalefair.cli._classify_encoding import Encoding, learn_encoding
from scalefair.cli._classify_report import (
    describe_fit,
    describe_rows,
    measure,
    score,
)
from scalefair.cli._classify_rows import LabelledRows, Schema
from scalefair.cli._errors import Failure
from scalefair.cli._estimator import Words, say_warnings, translate

__all__ = ["Trained", "train_classifier", "write_model"]

# The estimator names its parameters, the user knows the options.
_NAMES = "max_iter|n_thresholds|max_groups|min_group_size"
_WORDS: Words = (
    (r"inner_solver=['\"](\w+)['\"]", r"--solver \1"),
    (r"(criterion|loss|start|surrogate)=['\"](\w+)['\"]", r"--\1 \2"),
    (r"\b(tol|kappa|alpha|interval)( = |=)", r"--\1 "),
    (rf"\b({_NAMES})( = |=)", lambda m: f"--{m[1].replace('_', '-')} "),
    (rf"(?<!-)\b({_NAMES})\b", lambda m: f"--{m[1].replace('_', '-')}"),
    (r"\bsensitive_features\b", "--groups"),
    (r"\binner_solver\b", "--solver"),
    (r"over blocks or partitions: use", "over blocks: raise --memory-limit, or use"),
    # The solver has parameters that the estimator has not.
    (r"\b([Rr]aise [\w-]+) or (mu|max_calls)\b", r"\1"),
    (r"\b([Rr]aise|[Ll]ower|increase|decrease|or) (tol|kappa|alpha)\b", r"\1 --\2"),
)


@dataclass(frozen=True)
class Trained:
    """A trained classifier, and what is written about it.

    Attributes
    ----------
    model : PartiallyFairClassifier
        The classifier.
    content : dict
        Content of the model file.
    report : dict
        What was read, how the solver fared, and measures on the rows.
    scores : dict of str to (ndarray, ndarray)
        Scores and groups of the rows for training, and of the others if there are
        any.
    seconds : float
        Wall time of the fit.
    """

    model: Any
    content: dict[str, Any]
    report: dict[str, Any]
    scores: dict[str, tuple[NDArray[np.float64], NDArray[Any]]]
    seconds: float


def train_classifier(
    schema: Schema,
    rows: LabelledRows,
    test: LabelledRows | None,
    parameters: dict[str, Any],
    *,
    standardize: bool,
) -> Trained:
    """Fit ``PartiallyFairClassifier(**parameters)`` and measure it.

    Parameters
    ----------
    schema : Schema
        Columns of the rows.
    rows : LabelledRows
        Rows for training.
    test : LabelledRows or None
        Other rows to measure it on.
    parameters : dict
        Of the estimator.
    standardize : bool
        Whether columns of numbers are standardized before.

    Raises
    ------
    Failure
        If the estimator refuses its input.
    """
    encoding = learn_encoding(schema, rows, standardize=standardize)
    matrix = encoding.transform(rows)
    model, seconds = _fit(matrix, rows, parameters)
    parts = {"train": rows}
    scores = {"train": score(model, matrix, rows)}
    described = {"train": describe_rows(rows)}
    del matrix
    if test is not None:
        parts["test"] = test
        scores["test"] = score(model, encoding.transform(test), test)
        described["test"] = describe_rows(test)
    report = {
        "input": {"n_features": len(encoding.feature_names), **described},
        **describe_fit(model),
        **{name: measure(model, scores[name], part) for name, part in parts.items()},
    }
    evidence = {name: (scores[name], part.groups) for name, part in parts.items()}
    content = _describe_model(model, encoding, rows)
    return Trained(model, content, report, evidence, seconds)


def _fit(
    matrix: Any, rows: LabelledRows, parameters: dict[str, Any]
) -> tuple[Any, float]:
    """Fit the estimator; say what it warns of; return it and the wall time."""
    from scalefair.linear_model import PartiallyFairClassifier

    model = PartiallyFairClassifier(**parameters)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        try:
            model.fit(matrix, rows.labels, sensitive_features=rows.groups)
        except FloatingPointError as error:
            raise Failure(
                f"{rows.path}: the numbers are too large to compute with: divide "
                "columns by constants."
            ) from error
        except ValueError as error:
            if is_reader(rows.numbers):  # a file that is damaged, or a bad value?
                refuse_not_finite(rows.path, rows.numbers)
            raise Failure(f"{rows.path}: {translate(str(error), _WORDS)}") from error
        seconds = time.perf_counter() - start
    say_warnings(caught, _WORDS)
    return model, seconds


def _describe_model(
    model: Any, encoding: Encoding, rows: LabelledRows
) -> dict[str, Any]:
    """Content of the model file: arrays, lists and objects of public classes."""
    schema = encoding.schema
    return {
        "classifier": model,
        "encoder": encoding.transformer(),
        "columns": list(schema.columns),
        "positions": list(schema.positions),
        "feature_names": encoding.feature_names,
        "classes": model.classes_,
        "groups": model.groups_,
        "labels_from": rows.labels_from,
        "groups_from": rows.groups_from,
        "version": scalefair.__version__,
    }


def write_model(file: BinaryIO, content: dict[str, Any]) -> None:
    """Write a joblib file."""
    import joblib

    joblib.dump(content, file)
