"""Sensitive features, and intervals of ranks, as users give them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair._entries import refuse_unread
from scalefair._messages import listed, warn_user

# Rows of a combination of attributes below which the user is warned: a share of fewer
# has a standard error of up to 0.16.
MIN_COMBINATION_ROWS = 10
# Rows of a group below which estimators warn: the standard error is up to 0.09.
FEW_ROWS = 30


class Attribute(NamedTuple):
    """A column of the sensitive features: its name, its groups, the group of rows."""

    name: str
    groups: NDArray[Any]  # sorted
    codes: Any  # indices into `groups`: ndarray, or Parts for rows in parts


class GroupCodes(np.ndarray):
    """Codes that are groups for certain: they are not checked for being quantities."""


def encode_groups(
    sensitive_features: ArrayLike, n_samples: int | None = None, *, warn: bool = True
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the sorted groups and the index of each sample's group among them.

    Of several columns every combination that occurs is a group; those of few rows are
    warned of.

    Raises
    ------
    ValueError
        If there is not one group per sample, a value is missing, the values cannot be
        ordered, or they are quantities, identifiers or probabilities, not groups.
    """
    attributes = encode_attributes(sensitive_features, n_samples)
    groups, codes = join_attributes(attributes)
    if warn and len(attributes) > 1:
        warn_few_rows(groups, np.bincount(codes))
    return groups, codes


def encode_attributes(
    sensitive_features: Any, n_samples: int | None = None
) -> list[Attribute]:
    """Return the columns of the sensitive features, each encoded by itself."""
    columns = _columns(sensitive_features)
    # One group for each sample. A frequent mistake is a table with a row for each
    # attribute in place of a column.
    n_rows = len(columns[0][1])
    if n_samples is not None and n_rows != n_samples:
        hint = " Put columns side by side." * (len(columns) == n_samples)
        # Names of columns differ; labels of samples hardly ever do.
        names = sensitive_features if isinstance(sensitive_features, list) else []
        if all(isinstance(name, str) for name in names) and n_rows == len({*names}) > 0:
            hint = " Names of columns are not taken: give the columns, X[names]."
        raise ValueError(
            f"sensitive_features must have one group per sample, got {n_rows} groups "
            f"for {n_samples} samples.{hint}"
        )
    if len(columns) == 1:
        encoded = [Attribute(name, *encode_values(x, name=name)) for name, x in columns]
    else:
        encoded = list(starmap(_encode_column, columns))
    if not isinstance(sensitive_features, GroupCodes):
        check_are_groups(encoded)
    return encoded


def compared_attributes(
    sensitive_features: Any,
    n_samples: int | None = None,
    attributes: str = "joint",
    *,
    warn: bool = True,
) -> list[Attribute]:
    """Return the attributes compared: all columns joined, or each by itself."""
    if attributes not in ("joint", "each"):
        raise ValueError(f'attributes must be "joint" or "each", got {attributes!r}.')
    if attributes == "each":
        return encode_attributes(sensitive_features, n_samples)
    groups, codes = encode_groups(sensitive_features, n_samples, warn=warn)
    return [Attribute("sensitive_features", groups, codes)]


def check_are_groups(attributes: Sequence[Attribute]) -> None:
    """Raise a ValueError for quantities, dates and probabilities, not groups."""
    # Columns of fractions that add up to 1 are probabilities.
    is_in_parts = hasattr(attributes[0].codes, "gather")  # each part was checked
    is_fraction = all(a.groups.dtype.kind == "f" for a in attributes)
    if len(attributes) > 1 and is_fraction and not is_in_parts:
        total = sum(groups[codes] for _, groups, codes in attributes)
        is_mixed = any((a.groups % 1 != 0).any() for a in attributes)
        if is_mixed and np.allclose(total, 1.0, atol=1e-3):
            raise ValueError(
                f"sensitive_features has {len(attributes)} columns that add up to 1 in "
                "every row: probabilities of groups, not groups. Pass them as "
                "group_probabilities=; where that is not taken, give each sample one "
                "group, such as the most likely, probabilities.argmax(axis=1)."
            )
    # Many numbers or dates are a quantity.
    for name, groups, _ in attributes:
        is_number = groups.dtype.kind in "iuf" or (
            groups.dtype.kind == "O" and all(isinstance(v, Real) for v in groups)
        )
        if not (is_number or groups.dtype.kind in "mM"):
            continue  # any number of strings
        # 73 ages are a quantity and 42 departments are groups. Fractions and dates are
        # seldom groups: a few levels of a scale, say.
        is_whole = is_number and not (groups % 1 != 0).any()
        if len(groups) > (50 if is_whole else 10):
            kind = "numbers" if is_number else "dates"
            raise ValueError(
                f"{_describe(name, attributes)} has {len(groups):,} different {kind}, "
                f"{groups[0]} to {groups[-1]}: a quantity, not a group. Put it into "
                "bins, as with pandas.cut(x, bins=5); if these are codes of groups, "
                "give them as strings, x.astype(str)."
            )


def _describe(name: str, attributes: Sequence[Any]) -> str:
    """Name an attribute in a message: its column, where there are several."""
    return f"Column {name} of sensitive_features" if len(attributes) > 1 else name


def squeeze_single(values: list[Any]) -> Any:
    """Return a list with an entry for each attribute; of a single one its entry."""
    return values if len(values) > 1 else values[0]


def as_list(values: Any) -> list[Any]:
    """Return a list with an entry for each attribute: undo `squeeze_single`."""
    return values if isinstance(values, list) else [values]


def fitted_groups(compared: Sequence[Attribute]) -> Any:
    """Return `groups_` of an estimator: an array, or a list of one per attribute."""
    return squeeze_single([attribute.groups for attribute in compared])


def known_groups(compared: Sequence[Attribute], fitted: Any) -> list[NDArray[np.int64]]:
    """Return for each attribute its groups as indices into those that `fit` saw."""
    fitted = as_list(fitted)
    if len(compared) != len(fitted):
        # Several have the names of columns.
        name = compared[0].name if len(compared) == 1 else "sensitive_features"
        raise ValueError(
            f"{name} has {len(compared)} attribute(s), fit saw {len(fitted)}: give the "
            "same ones in the same order."
        )
    return [
        known_codes(groups, seen, subject=f"{_describe(name, compared)} has")
        for (name, groups, _), seen in zip(compared, fitted, strict=True)
    ]


def check_compared(
    compared: Sequence[Attribute], alternative: str, among: str = ""
) -> None:
    """Raise a ValueError for fewer than two groups, with an alternative for one."""
    for name, groups, _ in compared:
        if len(groups) < 2:
            remedy = f"For one group use {alternative}."
            raise ValueError(
                f"{_describe(name, compared)} has only one group{among} "
                f"({groups.tolist()[0]!r}): fairness compares groups. "
                f"{'Leave it out.' if len(compared) > 1 else remedy}"
            )


def join_attributes(
    attributes: Sequence[Attribute],
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the combinations that occur, as sorted strings, and the code of each row.

    A combination is ``"f, 31"``, whatever else occurs: commas and backslashes within
    values have a backslash before them. A single attribute is returned as it is.
    """
    if len(attributes) == 1:
        return attributes[0].groups, attributes[0].codes
    # 1. Number the combinations that occur.
    row, codes = combinations(
        [a.codes for a in attributes], [len(a.groups) for a in attributes]
    )
    # 2. Name each of them, by the values of a row that has it.
    texts = [
        np.array([_text(group) for group in groups], object)[values[row]]
        for _, groups, values in attributes
    ]
    names = [", ".join(parts) for parts in zip(*texts, strict=True)]
    # 3. Sort the names; `rank` maps combinations to sorted ones.
    groups, rank, counts = np.unique(
        np.array(names, np.str_), return_inverse=True, return_counts=True
    )
    if (counts > 1).any():
        raise ValueError(
            "sensitive_features has different values that are written alike, as in "
            f"{groups[counts > 1].tolist()[0]!r}. Convert each column to one type."
        )
    return groups, rank[codes]


def combinations(
    codes: Sequence[NDArray[np.integer]], sizes: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a row of each combination that occurs, and the combination of each row.

    `codes` are those of the attributes, `sizes` their numbers of groups.
    """
    # A combination is a number in mixed radix: cell = (code_1 * size_2 + code_2) * ...
    cells = codes[0].astype(np.int64, copy=False)
    n_cells, n = sizes[0], len(cells)
    for other, size in zip(codes[1:], sizes[1:], strict=True):
        if n_cells * size > np.iinfo(np.int64).max // 2:
            # Renumber the cells that occur. There are at most n: no product overflows.
            distinct, cells = encode_values(cells, name="codes")
            n_cells = len(distinct)
        cells = cells * size + other
        n_cells *= size
    # Renumber the cells that occur from 0, in their order.
    distinct, cells = encode_values(cells, name="codes")
    row = np.empty(len(distinct), np.int64)
    row[cells] = np.arange(n)  # the last row of each
    return row, cells


def warn_few_rows(groups: NDArray[Any], sizes: NDArray[np.integer]) -> None:
    """Warn the user of groups of few rows, as combinations of attributes may be."""
    if message := few_rows(groups, sizes):
        warn_user(message)


def few_rows(groups: NDArray[Any], sizes: NDArray[np.integer]) -> str:
    """Name groups of few rows, the smallest first; nothing if there are none."""
    small = sizes < MIN_COMBINATION_ROWS
    if not small.any():
        return ""
    return (
        f"{small.sum()} of the {len(groups)} groups, combinations of several "
        f"attributes, have fewer than {MIN_COMBINATION_ROWS} rows: "
        f"{smallest([*map(repr, groups.tolist())], sizes, small)}. What is found for "
        "so few is mostly chance: join values, or leave an attribute out."
    )


def smallest(
    names: Sequence[Any], sizes: NDArray[np.integer], small: NDArray[np.bool_]
) -> str:
    """Name the groups that are small, with their sizes, the smallest first."""
    order = np.argsort(sizes, kind="stable")
    return listed(f"{names[k]} ({sizes[k]})" for k in order[small[order]])


def check_group_count(
    n_groups: int, max_groups: int, name: str = "sensitive_features"
) -> None:
    """Raise a ValueError for so many groups that they may be numbers or ids."""
    if n_groups > max_groups:
        raise ValueError(
            f"{name} has {n_groups:,} different values, more than "
            f"max_groups={max_groups}: is it a number or an identifier, not a "
            "category? Every group takes constraints and weights of its own. "
            "Put the values into a few ranges or kinds, or pass max_groups="
            f"{n_groups} if all of them are meant."
        )


def check_group_sizes(
    names: Sequence[Any], sizes: NDArray[Any], min_size: int, within: str = ""
) -> None:
    """Raise a ValueError for groups of fewer rows than `min_group_size`."""
    small = sizes < min_size
    if small.any():
        minimum = sizes.min()
        remedy = f" min_group_size={minimum} takes them as they are." if minimum else ""
        raise ValueError(
            f"{small.sum()} of the {sizes.size} groups have{within} "
            f"fewer rows than min_group_size={min_size}: "
            f"{smallest(names, sizes, small)}. Shares of so few rows cannot be "
            f"compared: join them with others or leave them out.{remedy}"
        )


def check_group_weights(
    weights: NDArray[np.float64] | None,
    groups: NDArray[Any],
    codes: NDArray[np.integer],
    kind: str = "",
) -> None:
    """Raise a ValueError for a group of samples without weight."""
    if weights is None:
        return
    empty = groups[np.bincount(codes, weights, minlength=len(groups)) == 0]
    if empty.size:
        raise ValueError(
            f"sample_weight is 0 for all {kind + ' ' * bool(kind)}samples of "
            f"{empty.size} group(s): {listed(empty.tolist(), repr)}. Leave them out: "
            "they have no shares."
        )


def effective_sizes(
    codes: NDArray[np.integer], weights: NDArray[np.float64] | None, n_codes: int = 0
) -> NDArray[Any]:
    """Rows of each code; of weighted ones (sum w)^2 / sum w^2 (Kish 1965)."""
    if weights is None:
        return np.bincount(codes, minlength=n_codes)
    weights = weights / (weights.max(initial=0.0) or 1.0)  # no square is out of range
    totals = np.bincount(codes, weights, n_codes)
    squares = np.bincount(codes, weights**2, n_codes)
    sizes: NDArray[Any] = totals**2 / np.where(squares > 0, squares, 1.0)
    return sizes


def known_codes(
    groups: NDArray[Any], seen: NDArray[Any], *, subject: str = "sensitive_features has"
) -> NDArray[np.int64]:
    """Return distinct groups as indices into those that `fit` saw; refuse others."""
    codes = {group: code for code, group in enumerate(seen.tolist())}
    unseen = [group for group in groups.tolist() if group not in codes]
    if unseen:
        raise ValueError(
            f"{subject} {len(unseen)} group(s) that fit did not see: "
            f"{listed(unseen, repr)}. It saw {listed(codes, repr)}. Leave such rows "
            "out, or fit with some."
        )
    return np.array([codes[group] for group in groups.tolist()], np.int64)


def check_values(values: ArrayLike, *, name: str, noun: str) -> NDArray[Any]:
    """Return the values as a one-dimensional array; refuse missing ones."""
    array = as_table(values, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]  # a data frame of one column
    if array.ndim != 1:
        got = f"got shape {array.shape}."
        if isinstance(values, str):
            got = (
                f"not the name of a column, {values!r}: give the column, X[{values!r}]."
            )
        raise ValueError(
            f"{name} must be one-dimensional with one {noun} per sample, {got}"
        )
    if array.dtype.kind in "biu":
        return array  # nothing can be missing
    if array.dtype.kind == "O":
        import pandas

        missing = pandas.isna(array)
    else:  # NaN and NaT are the values that differ from themselves
        missing = array != array
    _refuse_missing(missing, name, noun)
    return array


def _refuse_missing(missing: NDArray[np.bool_], name: str, noun: str) -> None:
    """Raise a ValueError if values are missing, with the number and the first."""
    if missing.any():
        first = int(np.flatnonzero(missing)[0])
        remedy = (
            "; scalefair.metrics.group_probabilities makes probabilities of groups "
            "with holes"
        ) * (noun == "group")
        raise ValueError(
            f"{name} has {int(missing.sum())} missing value(s) (NaN or None), the "
            f"first at position {first}. Give each sample a {noun}, or drop it{remedy}."
        )


def as_table(values: Any, name: str) -> NDArray[Any]:
    """Return an array of the values; masked entries are refused."""
    refuse_unread(values, name)
    array = np.asarray(values)
    # More than one column: behind the number of rows a shape has () or (n_columns,).
    is_list, is_wide = isinstance(values, (list, tuple)), array.shape[1:] > (1,)
    if (is_list and is_wide) or (
        array.dtype.kind in "US" and not isinstance(values, np.ndarray)
    ):
        # NumPy turns None, NaN and numbers in a list of strings into strings, and
        # columns of several types into one.
        array = np.asarray(values, dtype=object)
    return array


def _columns(sensitive_features: Any) -> list[tuple[str, Any]]:
    """Return the columns with their names; a single one has been checked."""
    values, name = sensitive_features, "sensitive_features"
    if hasattr(values, "columns") and hasattr(values, "compute"):
        values = values.compute()  # a data frame of Dask
    labels = getattr(values, "columns", ())
    if len(labels) > 1 and hasattr(values, "iloc"):
        columns = [values.iloc[:, j] for j in range(len(labels))]
    elif len(labels) > 1 and hasattr(values, "get_columns"):  # of Polars
        columns = values.get_columns()
    else:
        array = as_table(values, name)
        if array.ndim != 2 or array.shape[1] < 2:
            return [(name, check_values(values, name=name, noun="group"))]
        labels, columns = range(array.shape[1]), list(array.T)
    return list(zip(map(str, labels), columns, strict=True))


def _encode_column(label: str, column: Any) -> Attribute:
    """Return one of several columns with its groups and codes."""
    name = f"Column {label} of sensitive_features"
    if hasattr(column, "factorize") and not isinstance(column.dtype, np.dtype):
        # Strings and categories of pandas, without an object for each row.
        codes, distinct = column.factorize()
        _refuse_missing(codes < 0, name, "group")
        groups, rank = encode_values(np.asarray(distinct), name=name)
        return Attribute(label, groups, rank[codes])
    column = np.asarray(column)
    if column.dtype.kind == "O" and column.size and not isinstance(column[0], str):
        column = column.tolist()  # numbers and truth values as such
    values = check_values(column, name=name, noun="group")
    return Attribute(label, *encode_values(values, name=name))


def _text(value: Any) -> str:
    """Return the text of a value in the name of a combination; that of 1.0 is 1."""
    if isinstance(value, (float, np.floating)):
        text = str(value + 0).removesuffix(".0")  # -0.0 is 0
    else:
        text = str(value)
    return text.replace("\\", r"\\").replace(",", r"\,")


def encode_values(
    values: NDArray[Any], *, name: str
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the sorted distinct values and the index of each value among them."""
    try:
        # Many values are hashed, which is faster than to sort them. Few need no pandas.
        if values.dtype.kind not in "biuOSU" or values.size < 2**15:
            distinct, codes = np.unique(values, return_inverse=True)
        else:
            import pandas

            is_text = values.dtype.kind in "SU"
            items = values.astype(object) if is_text else values
            codes, levels = pandas.factorize(items, use_na_sentinel=False)
            levels = levels.astype(values.dtype)
            distinct, ranks = np.unique(levels, return_inverse=True)
            codes = ranks[codes]
    except TypeError as error:
        raise ValueError(
            f"{name} mixes values that cannot be ordered, such as strings and "
            f"numbers ({error}). Convert them to one type."
        ) from error
    return distinct, codes.astype(np.int64, copy=False)


def check_interval(interval: Any) -> tuple[float, float]:
    """Return the ends of an interval of ranks, as floats; 0 is the top."""
    if isinstance(interval, str):  # "01" would be taken for the ends 0 and 1
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


def samples_by_label(
    y_true: ArrayLike | None, n_samples: int, condition: str
) -> dict[str, NDArray[np.bool_]]:
    """Return the samples that are compared, by kind: "positive", and "negative".

    The condition is the parameter `given` of metrics and displays.
    """
    if condition not in ("positive", "label"):
        raise ValueError(
            f'given must be None, "positive" or "label", got {condition!r}.'
        )
    if y_true is None:
        raise ValueError(
            f"given={condition!r} compares samples by their labels: pass them as "
            "y_true."
        )
    values = check_values(y_true, name="y_true", noun="label")
    if values.shape[0] != n_samples:
        raise ValueError(
            f"y_true and y_score must describe the same samples, got "
            f"{values.shape[0]} labels and {n_samples} scores."
        )
    labels, codes = encode_values(values, name="y_true")
    if labels.shape[0] != 2:
        raise ValueError(
            f"y_true must hold two labels, negative and positive, but has "
            f"{labels.shape[0]}: {listed(labels.tolist(), repr)}."
        )
    positive = {"positive": codes == 1}
    return positive if condition == "positive" else {**positive, "negative": codes == 0}
