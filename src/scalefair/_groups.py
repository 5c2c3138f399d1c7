"""Sensitive features, and intervals of ranks, as users give them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Integers are counted if their range is at most this, or four times their number.
_COUNTED_RANGE = 4096


def encode_groups(
    sensitive_features: ArrayLike, n_samples: int
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the sorted groups and the index of each sample's group among them."""
    values = check_values(sensitive_features, name="sensitive_features", what="group")
    if values.shape[0] != n_samples:
        raise ValueError(
            f"sensitive_features must have one group per sample, got "
            f"{values.shape[0]} groups for {n_samples} samples."
        )
    return encode_values(values, name="sensitive_features")


def check_two_groups(groups: NDArray[Any], instead: str) -> None:
    """Raise a ValueError for fewer than two groups; `instead` says what to use."""
    if len(groups) < 2:
        raise ValueError(
            f"sensitive_features has only one group ({groups.tolist()[0]!r}): "
            f"fairness compares groups. For one group use {instead}."
        )


def known_codes(
    groups: NDArray[Any],
    known: NDArray[Any],
    *,
    given: str = "sensitive_features has",
) -> NDArray[np.int64]:
    """Return distinct groups as indices into those that `fit` saw; refuse others."""
    codes = {group: code for code, group in enumerate(known.tolist())}
    unseen = [group for group in groups.tolist() if group not in codes]
    if unseen:
        raise ValueError(
            f"{given} {len(unseen)} group(s) that fit did not see: {listed(unseen)}. "
            f"It saw {listed(list(codes))}. Leave such rows out, or fit with some."
        )
    return np.array([codes[group] for group in groups.tolist()], np.int64)


def listed(values: list[Any], most: int = 10) -> str:
    """Values for a message, the first ones if there are many."""
    shown = ", ".join(map(repr, values[:most]))
    rest = len(values) - most
    return f"{shown} and {rest} more" if rest > 0 else shown


def check_values(values: ArrayLike, *, name: str, what: str) -> NDArray[Any]:
    """Return the values as a one-dimensional array, or say what is wrong."""
    # NumPy takes what is under a mask.
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(
            f"{name} has masked entries. Give each sample a {what}, or drop it."
        )
    array = np.asarray(values)
    if array.dtype.kind in "US" and not isinstance(values, np.ndarray):
        # NumPy turns None, NaN and numbers in a list of strings into strings.
        array = np.asarray(values, dtype=object)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]  # a data frame of one column
    if array.ndim != 1:
        raise ValueError(
            f"{name} must be one-dimensional with one {what} per sample, got shape "
            f"{array.shape}."
        )
    if array.dtype.kind in "biu":
        return array  # nothing can be missing
    if array.dtype.kind == "O":
        missing = np.fromiter((_is_missing(v) for v in array), bool, len(array))
    else:  # NaN and NaT are the values that differ from themselves
        missing = array != array
    if missing.any():
        first = int(np.flatnonzero(missing)[0])
        raise ValueError(
            f"{name} has {int(missing.sum())} missing value(s) (NaN or None), the "
            f"first at position {first}. Give each sample a {what}, or drop it."
        )
    return array


def encode_values(
    values: NDArray[Any], *, name: str
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the sorted distinct values and the index of each value among them."""
    if values.dtype.kind in "biu" and values.size:
        low, high = int(values.min()), int(values.max())  # of any size, exact
        if high - low <= max(_COUNTED_RANGE, 4 * values.size):
            return _encode_counted(values, low, high)
    try:
        distinct, codes = np.unique(values, return_inverse=True)
    except TypeError as error:
        raise ValueError(
            f"{name} mixes values that cannot be ordered, such as strings and "
            f"numbers ({error}). Convert them to one type."
        ) from error
    return distinct, codes.astype(np.int64, copy=False)


def _encode_counted(
    values: NDArray[Any], low: int, high: int
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Values of a small range: counted instead of sorted."""
    if values.dtype == np.uint64:  # may be too large for int64: subtract before
        codes = (values - np.uint64(low)).astype(np.int64)
    else:  # may be too small a type for the range: subtract after
        codes = values.astype(np.int64)
        if low != 0:
            codes -= low
    # Two neighbours are both there: they are the ends of the range.
    present = np.ones(high - low + 1, bool)
    if present.size > 2:
        present = np.bincount(codes) > 0
    offsets = np.flatnonzero(present)
    if len(offsets) < len(present):
        position = np.zeros(len(present), np.int64)
        position[offsets] = np.arange(len(offsets))
        codes = position[codes]
    if values.dtype.kind == "b":
        return (offsets + low).astype(bool), codes
    distinct = offsets.astype(values.dtype)
    distinct += low  # wraps around to the values, for the narrow types too
    return distinct, codes


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA has no truth value
        return True


def check_interval(interval: Any) -> tuple[float, float]:
    """Return the ends of an interval of ranks (0 is the top), or say what is wrong."""
    if isinstance(interval, str):
        interval = (interval,)
    try:
        low, high = (float(end) for end in interval)
    except (TypeError, ValueError):
        raise ValueError(f"interval must be two numbers, got {interval!r}.") from None
    if not 0 <= low < high <= 1:
        raise ValueError(
            "interval must satisfy 0 <= alpha < beta <= 1 (shares of a group, counted "
            f"from the highest score), got {interval!r}."
        )
    return low, high
