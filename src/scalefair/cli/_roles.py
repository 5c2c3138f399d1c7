"""What columns other than features hold: groups, targets, weights, and ids."""

import re
from dataclasses import replace
from math import inf
from typing import Any

import click
import numpy as np
import pandas
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from scalefair._groups import (
    check_group_weights,
    compared_attributes,
    encode_groups,
    few_rows,
)
from scalefair._membership import check_group_probabilities
from scalefair._messages import listed
from scalefair.cli._errors import Failure, note, warn
from scalefair.cli._options import ReadOptions, translate
from scalefair.files._values import parse_values

# More groups, or categories of a column, are rather ids or free text.
MAX_CATEGORIES = 1000
# Names of targets, last words of names of ids, and names of weights without
# punctuation.
TARGET_NAMES = ["target", "label", "class", "outcome", "y"]
_ID_WORDS = {"id", "ids", "index", "key", "no", "nr", "number", "row"}
_WEIGHT_NAMES = {"weight", "weights", "wt", "wgt", "fnlwgt", "finalweight", "perwt"}
_WEIGHT_NAMES |= {"instanceweight", "sampleweight", "samplingweight", "pwgtp"}
_WEIGHT_NAMES |= {"surveyweight", "caseweight", "personweight", "freqweight"}


# --- What features may be instead ----------------------------------------------------


def are_texts(n_distinct: int, n_rows: float) -> bool:
    """Return whether so many different words are ids or free text, no categories."""
    return n_distinct > MAX_CATEGORIES or (n_distinct > 20 and 2 * n_distinct > n_rows)


def may_be_ids(values: pandas.Series) -> bool:
    """Return whether more than ten values are whole numbers that all differ."""
    # Most columns are seen to be none by their first rows.
    for part in (values.head(1000), values):
        if is_bool_dtype(part) or not is_numeric_dtype(part) or part.hasnans:
            return False
        if len(part) <= 10 or (part % 1).any() or not part.is_unique:
            return False
    return True


def are_ids(values: pandas.Series) -> bool:
    """Return whether values are ids: without a hole, or under the name of an id."""
    if not may_be_ids(values):
        return False
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", str(values.name))
    is_named_so = bool(parts) and parts[-1].lower() in _ID_WORDS
    return is_named_so or values.max() - values.min() == len(values) - 1


def is_weight_name(name: Any) -> bool:
    """Return whether a column is called weight, or in another way that says so."""
    return re.sub("[^a-z]", "", str(name).lower()) in _WEIGHT_NAMES


def note_doubts(
    path: Any, features: pandas.DataFrame, *, has_weight: bool, has_target: bool
) -> None:
    """Note features that may be ids, targets or weights, or have codes for missing."""
    names = [str(name) for name in features if str(name).lower() in TARGET_NAMES]
    if names and not has_target:
        note(f"{path}: {listed(names)} was taken for a feature. Else pass --drop.")
    numbers = [x for _, x in features.items() if is_numeric_dtype(x)]
    numbers = [x for x in numbers if not is_bool_dtype(x)]
    if names := [str(x.name) for x in numbers if may_be_ids(x)]:
        note(
            f"{path}: whole numbers that all differ were taken for a feature: "
            f"{listed(names)}. Pass --drop if they are ids."
        )
    names = [str(x.name) for x in numbers if x.min() >= 0]
    names = [x for x in names if is_weight_name(x)]
    if names and not has_weight:
        note(
            f"{path}: {listed(names)} was taken for a feature. Pass --weight "
            f"{names[0]!r} if it says how often a row counts."
        )
    codes = {str(x.name): code for x in numbers if (code := _missing_code(x))}
    if codes:
        columns = listed(f"{name} ({code:g})" for name, code in codes.items())
        note(
            f"{path}: far from all other values of its column, and taken for a number: "
            f"{columns}. Pass --na-values={next(iter(codes.values())):g} if it means "
            "a missing value."
        )


def _missing_code(values: pandas.Series) -> float:
    """Return an end of the values such as -200 or 999, far from the others, or 0."""
    for code in (values.min(), values.max()):
        is_nines = abs(code) >= 99 and {*f"{abs(code):.10g}"} == {"9"}
        if not is_nines and code not in (-1, -9, -200):
            continue
        numbers = np.unique(values[(values != code) & values.notna()])
        if numbers.size <= 10:
            continue
        low, high = numbers[0], numbers[-1]
        if max(low - code, code - high) > high - low or code < 0 <= low:
            return float(code)
    return 0.0


# --- Roles ---------------------------------------------------------------------------


def type_role(rows: Any, role: str, options: ReadOptions, training: Any = None) -> None:
    """Make the strings of a role a vector: of numbers, or strings, or names of groups.

    Several columns become names of combinations; if each is compared by itself they are
    the attributes as well. Of groups there may be probabilities instead.
    """
    if role == "groups" and options.makes_probabilities and rows.groups is not None:
        _type_probabilities(rows, options, training)
        return
    if not isinstance(frame := getattr(rows, role), pandas.DataFrame):
        return  # there is none, or it has its type
    source = rows.sources[role]
    # 1. Each column has the type that it has in the rows for training, or its own.
    kinds: Any = ["U" if name in options.categorical else None for name in frame]
    if training is not None:
        kinds = training.kinds.get(role) or getattr(training, role).dtype.kind
    if len(kinds) != frame.shape[1]:
        raise Failure(
            f"{source}: has {frame.shape[1]} column(s) of groups, and TRAIN has "
            f"{len(kinds)}."
        )
    columns = zip(frame, kinds, strict=True)
    values = {name: parse_values(frame[name], kind) for name, kind in columns}
    rows.kinds[role] = "".join(column.dtype.kind for column in values.values())
    if len(values) == 1:
        setattr(rows, role, values.popitem()[1])
        return
    # 2. Combinations of several columns.
    table = pandas.DataFrame(values)
    try:
        names, codes = encode_groups(table, len(frame), warn=False)
    except ValueError as error:  # a column holds no groups
        message = translate(str(error), click.get_current_context(silent=True))
        raise Failure(f"{source}: {message}") from error
    setattr(rows, role, names[codes])
    is_saved = training is not None and training.n_rows == 0
    if options.attributes == "each":
        rows.attributes = table
    elif not is_saved and (message := few_rows(names, np.bincount(codes))):
        warn(f"{source}: {message}")


def _type_probabilities(rows: Any, options: ReadOptions, training: Any) -> None:
    """Make the groups a frame of probabilities, with a column for each group."""
    frame = pandas.DataFrame(rows.groups).reset_index(drop=True)
    source, is_known = rows.sources["groups"], frame.notna().all(axis=1).to_numpy()
    # 1. Columns of probabilities, hat functions of a number, or groups with holes.
    if options.group_probabilities or options.knots is not None:
        P = frame.apply(pandas.to_numeric, errors="coerce").astype(np.float64)
        texts = np.argwhere(P.isna() & frame.notna())
        if texts.size:
            row, column = texts[0]
            raise Failure(
                f"{source}: {frame.iloc[row, column]!r} in row {row} (counted from 0), "
                f"column {frame.columns[column]}, is not a number."
            )
    if options.knots is not None:
        P = _hat_functions(rows, P, options.knots, training)
    elif not options.group_probabilities:
        subset = replace(rows, ids=rows.ids[is_known], groups=frame[is_known])
        type_role(subset, "groups", replace(options, missing_groups=None), training)
        groups = np.full(len(frame), None, object)
        groups[is_known] = subset.groups
        P = pandas.get_dummies(pandas.Series(groups), dtype=np.float64)
    P.columns = P.columns.astype(str)
    # 2. The groups of the rows for training, of which others may lack some.
    if training is not None and isinstance(training.groups, pandas.DataFrame):
        names = training.groups.columns
        if new := [name for name in P if name not in names]:
            raise Failure(f"{source}: {listed(new)} are no groups of TRAIN.")
        present, P = P.columns[(P > 0).any()], P.reindex(columns=names, fill_value=0.0)
    else:
        present = P.columns
    # 3. Rows that add up to 1, or 0.
    try:
        groups, values = check_group_probabilities(P[present], len(P))
    except ValueError as error:
        message = translate(str(error), click.get_current_context(silent=True))
        raise Failure(f"{source}: {message}") from error
    rows.groups = pandas.DataFrame(values, columns=groups)
    if len(present) < P.shape[1]:
        rows.groups = rows.groups.reindex(columns=P.columns, fill_value=0.0)
    if not is_known.all():
        note(
            f"{source}: {(~is_known).sum():,} of {len(P):,} have no known group, and "
            "count for none."
        )


def _hat_functions(
    rows: Any, frame: pandas.DataFrame, n_knots: int, training: Any
) -> pandas.DataFrame:
    """Hat functions of a number at its quantiles: they add up to 1, as groups do."""
    if frame.shape[1] != 1:
        raise click.UsageError("--knots takes --groups with one column of numbers.")
    (name,), x = frame.columns, frame.iloc[:, 0].to_numpy()
    rows.knots = None if training is None else training.knots
    if rows.knots is None:
        quantiles = np.nanquantile(x, np.linspace(0, 1, n_knots))
        rows.knots = np.unique(quantiles)
    if len(rows.knots) < 2:
        raise Failure(f"{rows.sources['groups']}: has one value, {rows.knots[0]:g}.")
    hats = [np.interp(x, rows.knots, unit) for unit in np.eye(len(rows.knots))]
    names = [f"{name} {knot:g}" for knot in rows.knots]
    if len(set(names)) < len(names):
        names = [f"{name} {knot!r}" for knot in rows.knots.tolist()]
    return pandas.DataFrame(np.column_stack(hats), columns=names)


def treat_missing_groups(rows: Any, options: ReadOptions) -> None:
    """Refuse rows without a group, or leave them out, as --missing-groups says."""
    if rows.groups is None or options.missing_groups not in ("error", "drop"):
        return
    is_missing = pandas.DataFrame(rows.groups).isna().any(axis=1).to_numpy()
    if not is_missing.any():
        return
    first = rows.ids[np.argmax(is_missing)]
    text = f"{rows.sources['groups']}: {is_missing.sum():,} of {rows.n_rows:,} rows"
    if options.missing_groups == "error":
        raise Failure(
            f"{text} have no group, the first {first}. Pass --missing-groups ignore, "
            "to let them count for no group, or drop, to leave them out."
        )
    if not isinstance(rows.X, pandas.DataFrame):
        raise Failure(f"{text} have no group: --missing-groups drop is for tables.")
    if is_missing.all():
        raise Failure(f"{text} have no group: none is left.")
    note(f"{text} have no group and were left out.")
    rows.keep(~is_missing)


def check_groups(rows: Any, training: Any) -> None:
    """Refuse a single group in rows for training, too many, and unknown ones."""
    if isinstance(rows.groups, pandas.DataFrame):
        return  # probabilities, checked when they were typed
    names = np.unique(rows.groups).tolist()
    has_data = training is None or training.n_rows > 0
    if not 1 + has_data <= len(names) <= MAX_CATEGORIES:
        raise Failure(
            f"{rows.sources['groups']}: has {len(names):,} group(s), such as "
            f"{names[0]!r}; 2 to {MAX_CATEGORIES:,} can be compared. Join values, or "
            "take others."
        )
    has_groups = training is not None and training.groups is not None
    if has_groups and rows.attributes is None:
        refuse_unknown(rows, "groups", "group", training)


def type_weights(rows: Any) -> None:
    """Make the weights a vector of numbers of at least 0, not all 0 in a group."""
    values, source = pandas.DataFrame(rows.weight).iloc[:, 0], rows.sources["weight"]
    numbers = pandas.to_numeric(values, errors="coerce")
    wrong = np.flatnonzero(~numbers.between(0, inf, inclusive="left"))
    if wrong.size:
        name = rows.ids[wrong[0]]
        row = f"id {name}" if rows.named else f"row {name} (counted from 0)"
        raise Failure(
            f"{source}: the weight of {row} is {values.iloc[wrong[0]]!r}, not a finite "
            "number of at least 0. Correct it, or leave the row out."
        )
    rows.weight = numbers.to_numpy(np.float64)
    if isinstance(rows.groups, pandas.DataFrame):
        return
    compared = compared_attributes(rows.sensitive_features, rows.n_rows, "each")
    try:
        for _, groups, codes in compared:
            check_group_weights(rows.weight, groups, codes)
    except ValueError as error:
        message = translate(str(error), click.get_current_context(silent=True))
        raise Failure(f"{source}: {message}") from error


def refuse_unknown(rows: Any, role: str, name: str, training: Any) -> None:
    """Refuse groups or labels, called `name`, that did not occur in training."""
    vocabulary = np.unique(getattr(training, role)).tolist()
    values = np.unique(getattr(rows, role)).tolist()
    new = [value for value in values if value not in vocabulary]
    if new:
        raise Failure(
            f"{rows.sources[role]}: the {name} {listed(new[:1], repr)} does not "
            f"occur in TRAIN (known: {listed(vocabulary, repr)}). Leave it out."
        )
