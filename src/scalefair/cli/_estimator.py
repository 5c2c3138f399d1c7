"""Run an estimator for a command: its messages in the command's words."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from scalefair.cli._errors import Failure, warn

__all__ = ["WORDS", "Words", "fit_model", "say_warnings", "translate"]

# Patterns, and what takes their places, one after the other.
Words = Sequence[tuple[str, str | Callable[[re.Match[str]], str]]]

# The estimator names its parameters, the user knows the options.
WORDS: Words = (
    (r"^A precomputed affinity must be", "the graph must be"),
    (r"\baffinity=\"(\w+)\"", r"--affinity \1"),
    (r"connected_components=\"(\w+)\"", r"--components \1"),
    (r"solver=\"(\w+)\"", r"--solver \1"),
    (r"the Chebyshev solver", "--solver chebyshev"),
    (r"use a better preconditioner", "use --solver chebyshev"),
    (r"check that operator and preconditioner are symmetric", "use --solver chebyshev"),
    (r"choose n_clusters <= (\d+)", r"choose -k \1 or less"),
    (r"n_clusters=(\d+)", r"-k \1"),
    (r", n_samples=(\d+),", r", \1,"),
    (r"n_components=(\d+)", r"-r \1"),
    (r"n_features=(\d+)", r"the number of features, \1"),
    (r"Another n_components", "Another number of components, -r,"),
    (r"number of samples", "number of rows"),
    (r"\bn_neighbors( = |=)(\d+)", r"--n-neighbors \2"),
    (r"\bn_neighbors\b", "--n-neighbors"),
    (r"\bn_landmarks( = |=)(\d+)", r"--n-landmarks \2"),
    (r"\bn_landmarks\b", "--n-landmarks"),
    (r"\bgamma( = |=)([\d.e+-]*\d)", r"--gamma \2"),
    (r"(?<!-)\bgamma\b", "--gamma"),
    (r"\b(balance_)?tolerance( = |=)([\d.e+-]*\d)", r"--balance-tolerance \3"),
    (r"\bbalance_tolerance\b", "--balance-tolerance"),
    (r"\btol( = |=)([\d.e+-]*\d)", r"--tol \2"),
    (r"max_iter( = |=)(\d+)", r"--max-iter \2"),
    (r"raise max_iter or tol", "raise --max-iter or --tol"),
    (r"raise tol or max_iter", "raise --tol or --max-iter"),
    (r"Raise max_iter or tol", "Raise --max-iter or --tol"),
    (r"raise tol\b", "raise --tol"),
    (r"\bmax_iter\b", "--max-iter"),
    (r"use float64", "use --dtype float64"),
    (r"dtype=np\.float64", "--dtype float64"),
    (r"^sensitive_features has fewer", "the groups file has fewer"),
)


def fit_model(
    model: Any,
    matrix: Any,
    groups: Any,
    *,
    path: Path | str,
    progress: bool = False,
) -> float:
    """Fit, and return the wall time in seconds.

    Parameters
    ----------
    model : estimator
        With ``fit(W, sensitive_features=...)``.
    matrix, groups : array-like
        What it is fitted to.
    path : Path or str
        Where `matrix` is from, for messages.
    progress : bool, default=False
        Show a progress bar on stdout, if the estimator can.

    Raises
    ------
    Failure
        If the estimator refuses its input.
    """
    if progress and hasattr(model, "set_callbacks"):
        from sklearn.callback import ProgressBar

        model.set_callbacks(ProgressBar())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        try:
            model.fit(matrix, sensitive_features=groups)
        except ValueError as error:
            raise Failure(f"{path}: {translate(str(error), WORDS)}") from error
        seconds = time.perf_counter() - start
    say_warnings(caught, WORDS)
    return seconds


def say_warnings(caught: Iterable[warnings.WarningMessage], words: Words) -> None:
    """Print each warning that is meant for users once, not those for developers."""
    meant = (UserWarning, RuntimeWarning)
    found = dict.fromkeys(
        translate(str(warning.message), words)
        for warning in caught
        if issubclass(warning.category, meant)
    )
    for message in found:
        warn(message)


def translate(message: str, words: Words) -> str:
    """Return a message of an estimator in the words of a command."""
    for pattern, replacement in words:
        message = re.sub(pattern, replacement, message)
    return message
