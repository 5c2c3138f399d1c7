"""Rows of a file, and what columns other than features hold: groups, targets, ids.

A role (target, groups, weight) is read as strings, from columns or from a file of its
own, and gets its type when all of it was read. Labels become a vector of numbers or
strings, groups too, or a frame of probabilities; weights become numbers.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import inf
from pathlib import Path
from typing import Any, ClassVar

import click
import numpy as np
import pandas
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from scalefair._groups import (
    check_group_weights,
    compared_attributes,
    effective_sizes,
    encode_groups,
    few_rows,
)
from scalefair._membership import check_group_probabilities
from scalefair._messages import listed
from scalefair.cli._errors import Failure, note, translate, warn
from scalefair.cli._options import ROLES, ReadOptions
from scalefair.files._text import split_cells
from scalefair.files._values import find_source, parse_values

# A column with more groups or categories is taken for ids or free text.
MAX_CATEGORIES = 1000
# Names of targets, last words of the names of ids, and names of weights, of which only
# the letters are compared.
TARGET_NAMES = ["target", "label", "class", "outcome", "y"]
_ID_WORDS = {"id", "ids", "index", "key", "no", "nr", "number", "row"}
_WEIGHT_NAMES = {"weight", "weights", "wt", "wgt", "fnlwgt", "finalweight", "perwt"}
_WEIGHT_NAMES |= {"instanceweight", "sampleweight", "samplingweight", "pwgtp"}
_WEIGHT_NAMES |= {"surveyweight", "caseweight", "personweight", "freqweight"}


# --- Rows ----------------------------------------------------------------------------


@dataclass
class Rows:
    """Rows as they were read: `X` is a frame of a table, else a matrix or a reader.

    Target, groups and weights are frames at first, then vectors; `attributes` is a
    frame of the columns of groups if these are compared each by itself. Probabilities
    of groups stay a frame, with a column for each.
    """

    path: Path
    X: Any
    names: list[str]
    ids: NDArray[Any]  # row numbers from 0 unless `named`
    named: bool = False
    groups: Any = None
    attributes: pandas.DataFrame | None = None
    target: Any = None
    weight: Any = None
    sources: dict[str, str] = field(default_factory=dict)  # of the roles, in messages
    kinds: dict[str, str] = field(
        default_factory=dict
    )  # dtype.kind of columns, by role
    n_columns: int = 0  # of the file
    has_header: bool = True
    zero_based: bool = False  # the first feature of svmlight
    is_stored: bool = False  # in a temporary file
    knots: NDArray[Any] | None = None  # of a number in place of groups
    positions: Any = ...  # of entries: their rows; the Ellipsis takes each row once
    from_files: list[str] = field(default_factory=list)  # roles
    kept: Any = None  # columns that predict copies
    unit: ClassVar[str] = "row"
    ordered: ClassVar[bool] = True

    @property
    def sensitive_features(self) -> Any:
        """Groups as estimators take them."""
        return self.groups if self.attributes is None else self.attributes

    @property
    def has_probabilities(self) -> bool:
        """Whether rows have probabilities of groups in place of a group."""
        return isinstance(self.groups, pandas.DataFrame)

    @property
    def is_uncertain(self) -> bool:
        """Whether some probability of a group is neither 0 nor 1."""
        if not self.has_probabilities or self.knots is not None:
            return False
        P = self.groups.to_numpy()
        return bool(((P > 0) & (P < 1)).any())

    @property
    def fit_arguments(self) -> dict[str, Any]:
        """Groups, or their probabilities, and weights, as keywords of estimators."""
        arguments = {"sample_weight": self.weight}
        if self.has_probabilities:  # of the groups that some row may be of
            P = self.groups
            return {"group_probabilities": P.loc[:, (P > 0).any()], **arguments}
        return {"sensitive_features": self.sensitive_features, **arguments}

    @property
    def metric_arguments(self) -> dict[str, Any]:
        """Groups and weights as keywords of metrics of entries.

        The groups of each attribute are compared with each other: combinations of
        columns are one attribute already.
        """
        return {
            "sensitive_features": self.sensitive_features,
            "sample_weight": self.weight,
            "attributes": "each",
        }

    def entries(self) -> "Rows":
        """Return an entry for each row and group that it may be of, by weight.

        Without probabilities an entry is a row. `positions` index values of rows, and
        give those of the entries. Counts and means of entries are the expected ones.
        """
        if not self.has_probabilities:
            return self
        weights = self.groups.to_numpy(np.float64)
        if self.weight is not None:
            weights = weights * self.weight[:, None]
        rows, codes = np.nonzero(weights)
        return replace(
            self,
            ids=self.ids[rows],
            groups=self.groups.columns.to_numpy(np.str_)[codes],
            target=None if self.target is None else self.target[rows],
            weight=weights[rows, codes],
            positions=rows,
        )

    @property
    def string_columns(self) -> list[str]:
        """Names of the features that are strings."""
        if not isinstance(self.X, pandas.DataFrame):
            return []
        return [name for name in self.names if not is_numeric_dtype(self.X[name])]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.ids)

    def weights_of(self, selected: Any) -> NDArray[np.float64] | None:
        """Weights of some rows, None if rows have no weights."""
        return None if self.weight is None else self.weight[selected]

    def effective_size(self, selected: Any = ...) -> float:
        """Return how many rows of equal weights have means of the same variance."""
        if self.weight is None:
            return len(self.ids[selected])
        weights = self.weight[selected]
        return float(effective_sizes(np.zeros(len(weights), int), weights, 1)[0])

    def name_of(self, row: Any) -> str:
        """Return the id of a row, or its number in the file, for messages."""
        name = self.ids[row]
        return f"id {name}" if self.named else f"row {name} (counted from 0)"

    def keep(self, selected: NDArray[np.bool_]) -> None:
        """Drop the rows of a table that are not selected; frames keep their index."""
        for name in ("X", "ids", "kept", *ROLES):
            if (values := getattr(self, name)) is not None:
                setattr(self, name, values[selected])


Parts = Mapping[str, Rows]  # "train", and perhaps "test"


# --- What features may be instead ----------------------------------------------------


def are_texts(n_distinct: int, n_rows: float) -> bool:
    """Return whether so many different words are ids or free text, not categories."""
    return n_distinct > MAX_CATEGORIES or (n_distinct > 20 and 2 * n_distinct > n_rows)


def may_be_ids(values: pandas.Series) -> bool:
    """Return whether more than ten values are whole numbers that all differ."""
    # Of most columns the first rows show already that they are no ids.
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
    name_parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", str(values.name))
    is_named_so = bool(name_parts) and name_parts[-1].lower() in _ID_WORDS
    return is_named_so or values.max() - values.min() == len(values) - 1


def is_weight_name(name: Any) -> bool:
    """Return whether a column is called weight, or in another way that says so."""
    return re.sub("[^a-z]", "", str(name).lower()) in _WEIGHT_NAMES


def note_doubts(
    path: Path, features: pandas.DataFrame, *, has_weight: bool, has_target: bool
) -> None:
    """Note features that may be ids, targets or weights, or have codes for missing."""
    # 1. The names of the doubtful features, by the kind of doubt.
    numbers = [x for _, x in features.items() if is_numeric_dtype(x)]
    numbers = [x for x in numbers if not is_bool_dtype(x)]
    targets = [] if has_target else [s for s in features if s.lower() in TARGET_NAMES]
    ids = [str(x.name) for x in numbers if may_be_ids(x)]
    weights = [str(x.name) for x in numbers if is_weight_name(x.name) and x.min() >= 0]
    codes = {str(x.name): code for x in numbers if (code := _missing_code(x))}
    # 2. What is said of them: one note for all columns of a kind.
    doubts = {
        "{columns} was taken for a feature. Else pass --drop.": targets,
        "whole numbers that all differ were taken for a feature: {columns}. Pass "
        "--drop if they are ids.": ids,
        "{columns} was taken for a feature. Pass --weight {first!r} if it says how "
        "often a row counts.": [] if has_weight else weights,
        "far from all other values of its column, and taken for a number: {columns}. "
        "Pass --na-values={code:g} if it means a missing value.": [
            f"{name} ({code:g})" for name, code in codes.items()
        ],
    }
    code = next(iter(codes.values()), 0.0)
    for text, columns in doubts.items():
        if columns:
            text = text.format(columns=listed(columns), first=columns[0], code=code)
            note(f"{path}: {text}")


def _missing_code(values: pandas.Series) -> float:
    """Return the least or largest value if it looks like a code (999), else 0."""
    for code in (values.min(), values.max()):
        # Codes that people use: 99 and other nines, -1, -9, -200.
        is_nines = abs(code) >= 99 and {*f"{abs(code):.10g}"} == {"9"}
        if not is_nines and code not in (-1, -9, -200):
            continue
        numbers = np.unique(values[(values != code) & values.notna()])
        if numbers.size <= 10:
            continue
        # A code is further from the other values than these are from each other, or the
        # only negative one.
        low, high = numbers[0], numbers[-1]
        if max(low - code, code - high) > high - low or code < 0 <= low:
            return float(code)
    return 0.0


# --- Which columns have which role ---------------------------------------------------


def split_names(value: str, names: Sequence[str]) -> list[str]:
    """Return the columns that an option names: one, or several between commas."""
    return [value] if value in names else list(dict.fromkeys(split_cells(value)))


def find_role_columns(
    source: Any, names: Sequence[str], options: ReadOptions
) -> dict[str, list[str]]:
    """Return which columns of a source hold target, groups and weights.

    An option that names no column must name a file.
    """
    columns = {}
    for role in ROLES:
        if (value := getattr(options, role)) is None:
            continue
        chosen = split_names(value, names) if role == "groups" else [value]
        missing = [name for name in chosen if name not in names]
        # A column takes precedence over a file of the same name.
        if not missing:
            columns[role] = chosen
        elif not find_source(value)[0].exists():
            raise Failure(
                f"{listed(missing)}: neither a column of {source} (columns: "
                f"{listed(names)}) nor a file. Check --{role}, or pass FILE:COLUMN."
            )
    for role, other in combinations(columns, 2):
        if {*columns[role]} & {*columns[other]}:
            raise click.UsageError(f"--{role} and --{other} name the same column.")
    return columns


# --- Types of the roles --------------------------------------------------------------


@contextmanager
def _naming(source: str) -> Iterator[None]:
    """Turn a ValueError into a Failure that names the source.

    Names of parameters in the message become those of options.
    """
    try:
        yield
    except ValueError as error:
        raise Failure(f"{source}: {translate(str(error))}") from error


def type_role(
    rows: Rows, role: str, options: ReadOptions, training: Rows | None = None
) -> None:
    """Make the strings of a role a vector: of numbers, or strings, or names of groups.

    Several columns become names of combinations. If each column is compared by itself,
    they are kept as `attributes`, too. Groups may become probabilities instead.
    """
    if role == "groups" and options.makes_probabilities and rows.groups is not None:
        _type_probabilities(rows, options, training)
        return
    if not isinstance(frame := getattr(rows, role), pandas.DataFrame):
        return  # there is none, or it has its type
    source = rows.sources[role]
    # 1. A column has the type that it has in the rows for training. Without these it
    #    has its own; but codes (--categorical) stay strings, NumPy's kind "U".
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
    # 2. Combinations of several columns, which are named, as "woman, 65 or older". Few
    #    rows of one are no reason to warn where a saved model predicts: `training` has
    #    no data then.
    table = pandas.DataFrame(values)
    with _naming(source):  # a column may hold no groups
        names, codes = encode_groups(table, len(frame), warn=False)
    setattr(rows, role, names[codes])
    is_saved = training is not None and training.n_rows == 0
    if options.attributes == "each":
        rows.attributes = table
    elif not is_saved and (message := few_rows(names, np.bincount(codes))):
        warn(f"{source}: {message}")


def _type_probabilities(
    rows: Rows, options: ReadOptions, training: Rows | None
) -> None:
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
                f"{source}: {frame.iloc[row, column]!r} in {rows.name_of(row)}, column "
                f"{frame.columns[column]}, is not a number."
            )
    if options.knots is not None:
        P = _hat_functions(rows, P, options.knots, training)
    elif not options.group_probabilities:
        # Rows without holes are typed as groups are, which sets `rows.kinds`, too: the
        # copy shares it. A row with a hole is of no group.
        subset = replace(rows, ids=rows.ids[is_known], groups=frame[is_known])
        type_role(subset, "groups", replace(options, missing_groups=None), training)
        groups = np.full(len(frame), None, object)
        groups[is_known] = subset.groups
        P = pandas.get_dummies(pandas.Series(groups), dtype=np.float64)
    P.columns = P.columns.astype(str)
    # 2. Other rows get the groups of the rows for training. A group that they lack has
    #    a column of zeros, and is left out of the checks.
    if training is not None and isinstance(training.groups, pandas.DataFrame):
        names = training.groups.columns
        if new := [name for name in P if name not in names]:
            raise Failure(f"{source}: {listed(new)} are no groups of TRAIN.")
        present, P = P.columns[(P > 0).any()], P.reindex(columns=names, fill_value=0.0)
        if training.n_rows == 0:  # rows that a saved model predicts may be of few
            present = names
    else:
        present = P.columns
    # 3. Check that probabilities of a row add up to 1, or are all 0.
    with _naming(source):
        groups, values = check_group_probabilities(
            P[present], len(P), allow_empty=training is not None
        )
    rows.groups = pandas.DataFrame(values, columns=groups)
    if len(present) < P.shape[1]:
        rows.groups = rows.groups.reindex(columns=P.columns, fill_value=0.0)
    if not is_known.all():
        note(
            f"{source}: {(~is_known).sum():,} of {len(P):,} have no known group, and "
            "count for none."
        )


def _hat_functions(
    rows: Rows, frame: pandas.DataFrame, n_knots: int, training: Rows | None
) -> pandas.DataFrame:
    """Hat functions of a number, which add up to 1 as probabilities of groups do.

    Function k is 1 at knot k, 0 at the others, and linear between them. The knots are
    quantiles, of the rows for training if there are any.
    """
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
    # Names have six digits of the knots, or all if two would be the same.
    names = [f"{name} {knot:g}" for knot in rows.knots]
    if len(set(names)) < len(names):
        names = [f"{name} {knot!r}" for knot in rows.knots.tolist()]
    return pandas.DataFrame(np.column_stack(hats), columns=names)


def treat_missing_groups(rows: Rows, options: ReadOptions) -> None:
    """Refuse rows without a group, or leave them out, as --missing-groups says."""
    if rows.groups is None or options.missing_groups not in ("error", "drop"):
        return
    # 1. Rows that lack a group in one of the columns.
    is_missing = pandas.DataFrame(rows.groups).isna().any(axis=1).to_numpy()
    if not is_missing.any():
        return
    # 2. Refuse them with the first as an example, or leave them out of a table. Rows of
    #    a matrix or a reader cannot be dropped.
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


def check_groups(rows: Rows, training: Rows | None) -> None:
    """Refuse a single group, too many groups, and groups that training did not have."""
    if rows.groups is None or rows.has_probabilities:
        return  # these were checked when they were typed
    # Rows that a saved model predicts may all be of one group: `training` has no data.
    has_data = training is None or training.n_rows > 0
    for attribute, values in pandas.DataFrame(rows.sensitive_features).items():
        names = np.unique(values).tolist()
        if not 1 + has_data <= len(names) <= MAX_CATEGORIES:
            column = "" if rows.attributes is None else f"{attribute} "
            raise Failure(
                f"{rows.sources['groups']}: {column}has {len(names):,} group(s), such "
                f"as {names[0]!r}; 2 to {MAX_CATEGORIES:,} can be compared. Join "
                "values, or take others."
            )
    if training is None or training.groups is None or rows.attributes is not None:
        return
    refuse_unknown(rows, "groups", "group", training)


def type_weights(rows: Rows) -> None:
    """Make the weights a vector of numbers of at least 0, not all 0 in a group."""
    if rows.weight is None:
        return
    # A word, a hole, infinity and a negative number are all wrong.
    values, source = pandas.DataFrame(rows.weight).iloc[:, 0], rows.sources["weight"]
    numbers = pandas.to_numeric(values, errors="coerce")
    wrong = np.flatnonzero(~numbers.between(0, inf, inclusive="left"))
    if wrong.size:
        row, value = rows.name_of(wrong[0]), values.iloc[wrong[0]]
        raise Failure(
            f"{source}: the weight of {row} is {value!r}, not a finite number of at "
            "least 0. Correct it, or leave the row out."
        )
    rows.weight = numbers.to_numpy(np.float64)
    if rows.has_probabilities:
        if not (rows.weight @ rows.groups.to_numpy()).any():
            raise Failure(f"{source}: is 0 for all rows that may be of a group.")
        return
    # Every group needs some weight, those of each attribute if there are several.
    compared = compared_attributes(rows.sensitive_features, rows.n_rows, "each")
    with _naming(source):
        for _, groups, codes in compared:
            check_group_weights(rows.weight, groups, codes)


def refuse_unknown(rows: Rows, role: str, name: str, training: Rows) -> None:
    """Refuse groups or labels, called `name`, that did not occur in training.

    Of a saved model `training` holds the groups and labels that it was trained on.
    """
    vocabulary = np.unique(getattr(training, role)).tolist()
    values = np.unique(getattr(rows, role)).tolist()
    new = [value for value in values if value not in vocabulary]
    if new:
        raise Failure(
            f"{rows.sources[role]}: the {name} {listed(new[:1], repr)} does not "
            f"occur in TRAIN (known: {listed(vocabulary, repr)}). Leave it out."
        )
