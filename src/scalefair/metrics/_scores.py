"""Check the input that the measures of scores share."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair._groups import check_values, encode_groups, encode_values


def check_scores(
    y_score: ArrayLike,
    *,
    name: str = "y_score",
    hint: str = "Of predict_proba, pass the column of one class.",
) -> NDArray[np.float64]:
    """Return the scores as a vector of float64, or say what is wrong."""
    scores = np.asarray(y_score)
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]  # a data frame of one column
    if scores.ndim != 1:
        raise ValueError(
            f"{name} must be one-dimensional with one number per sample, got shape "
            f"{scores.shape}. {hint}"
        )
    if scores.shape[0] == 0:
        raise ValueError(f"{name} is empty: there is nothing to measure.")
    if scores.dtype.kind not in "buifO":
        raise ValueError(f"{name} must hold real numbers, got dtype {scores.dtype}.")
    try:
        scores = scores.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold real numbers: {error}.") from error
    missing = np.isnan(scores)
    if missing.any():
        raise ValueError(
            f"{name} has {int(missing.sum())} NaN(s), the first at position "
            f"{int(np.flatnonzero(missing)[0])}; they have no rank."
        )
    return scores


def encode_compared_groups(
    sensitive_features: ArrayLike, n_samples: int
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the sorted groups, at least two, and each sample's index among them."""
    groups, codes = encode_groups(sensitive_features, n_samples)
    if groups.shape[0] < 2:
        raise ValueError(
            f"the gap compares groups, but sensitive_features has only one: "
            f"{groups.tolist()[0]!r}."
        )
    return groups, codes


def encode_labels(y_true: ArrayLike, n_samples: int) -> NDArray[np.bool_]:
    """Return which samples have the positive label, the larger of the two."""
    values = check_values(y_true, name="y_true", what="label")
    if values.shape[0] != n_samples:
        raise ValueError(
            f"y_true and y_score must describe the same samples, got "
            f"{values.shape[0]} labels and {n_samples} scores."
        )
    labels, codes = encode_values(values, name="y_true")
    if labels.shape[0] != 2:
        raise ValueError(
            f"y_true must hold two labels, negative and positive, but has "
            f"{labels.shape[0]}: {labels[:5].tolist()}"
            f"{' and others' if labels.shape[0] > 5 else ''}."
        )
    positive: NDArray[np.bool_] = codes == 1
    return positive


def order_by_group(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the order that brings groups together and keeps it within each."""
    # NumPy sorts 16-bit integers by radix, in linear time.
    narrow = codes.astype(np.uint16) if codes.max() < 2**16 else codes
    return np.argsort(narrow, kind="stable")


def position_in_group(
    codes: NDArray[np.int64], sizes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return how many earlier samples are of the same group, for each sample."""
    by_group = order_by_group(codes)
    starts = np.cumsum(sizes) - sizes
    position = np.empty_like(codes)
    position[by_group] = np.arange(codes.shape[0]) - np.repeat(starts, sizes)
    return position


def largest_step_gap(
    sorted_scores: NDArray[np.float64],
    before: NDArray[np.float64],
    after: NDArray[np.float64],
) -> float:
    """Largest difference, at one score, of functions that step up along the scores.

    Each group has a function; the i-th sample lifts that of its own group from
    ``before[i]`` to ``after[i]``, and those of all groups end at 1. Functions are
    compared where equal scores have all been passed.
    """
    # Growing functions: the largest one after a sample is the maximum over the
    # samples passed, the smallest one the minimum over those to come.
    largest = np.maximum.accumulate(after)
    smallest = np.append(np.minimum.accumulate(before[::-1])[::-1][1:], 1.0)
    ends_tie = np.append(sorted_scores[1:] != sorted_scores[:-1], True)
    return float((largest - smallest)[ends_tie].max())
