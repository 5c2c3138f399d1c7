"""Columns of rows in parts: labels, groups and weights of one part, checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair._entries import check_sample_weight
from scalefair._groups import (
    Attribute,
    check_values,
    encode_attributes,
    encode_values,
    join_attributes,
)


@contextmanager
def naming_partition(partition: Any) -> Iterator[None]:
    """Add to an error which partition raised it."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"Partition {partition}: {error}") from error


def encode_part(
    values: Any, name: str, noun: str, attributes: str, location: tuple[int, int | None]
) -> tuple[list[str], list[Attribute]]:
    """Encode the values of a part by themselves; names of all columns come first."""
    number, n_rows = location
    names: list[str] = []
    with naming_partition(number):
        if noun == "group":
            encoded = encode_attributes(values)
            names = [attribute.name for attribute in encoded]
            if attributes == "joint":
                encoded = [Attribute(name, *join_attributes(encoded))]
        else:
            values = check_values(values, name=name, noun=noun)
            encoded = [Attribute(name, *encode_values(values, name=name))]
    check_length(len(encoded[0].codes), n_rows, number, name, noun)
    return names, [a._replace(codes=small_codes(a.groups, a.codes)) for a in encoded]


def groups_of_part(encoded: tuple[list[str], list[Attribute]]) -> Any:
    """Names of the columns, and attributes with the rows of each group for codes."""
    names, columns = encoded
    return names, [a._replace(codes=np.bincount(a.codes)) for a in columns]


def recode(encoded: Any, number: int, new_codes: NDArray[Any]) -> NDArray[Any]:
    """Codes of an attribute of a part, those of all parts."""
    codes: NDArray[Any] = new_codes[encoded[1][number].codes]
    return codes


def check_length(
    n_values: int, n_rows: int | None, number: int, name: str, noun: str
) -> None:
    """Raise a ValueError for a partition that has not one value for each row."""
    if n_rows is not None and n_values != n_rows:
        raise ValueError(
            f"Partition {number} of {name} has {n_values} {noun}s for {n_rows} "
            "rows of X."
        )


def small_codes(groups: NDArray[Any], codes: NDArray[Any]) -> NDArray[Any]:
    """Codes in the smallest signed type that holds the number of groups."""
    return codes.astype(np.min_scalar_type(-max(len(groups), 1)))


def weights_of_part(values: Any, location: tuple[int, int]) -> NDArray[np.float64]:
    """Return the weights of a part, which may all be 0."""
    number, n_rows = location
    values = np.asarray(values)
    check_length(len(values), n_rows, number, "sample_weight", "weight")
    with naming_partition(number):
        # One more, of 1: only weights that are 0 in all parts are refused.
        weights = check_sample_weight(np.append(values, 1), n_rows + 1)
    return np.ones(n_rows) if weights is None else weights[:-1]


def range_of_part(weights: NDArray[np.float64]) -> tuple[float, float]:
    """Return the least and the largest weight."""
    return float(weights.min()), float(weights.max())
