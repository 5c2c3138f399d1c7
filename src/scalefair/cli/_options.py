"""Options of the commands, in sections of the help; many come from an estimator."""

from __future__ import annotations

import csv
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from math import inf, isnan
from numbers import Integral
from pathlib import Path
from typing import Any, Self, TypeVar

import click
from click.core import ParameterSource

from scalefair._groups import check_interval
from scalefair._messages import listed
from scalefair.cli._errors import EXIT_CODES, Failure, debug_option, note

Function = TypeVar("Function", bound=Callable[..., Any])

# Sections that come after those of the estimator, in this order.
_LAST = ["Columns", "Measures", "Files", "Advanced", "Other options"]
# Names of parameters that are no words: they need no underscore to be recognised.
_NO_WORDS = {"dtype", "kappa", "tol"}

# Readable or not is for the readers to say, in one line.
PATH = click.Path(readable=False, path_type=Path)


class Count(click.IntRange):
    """Integer from `min` to what fits 32 bits, as compiled code takes it."""

    name = "integer"

    def __init__(self, min: int = 1, max: int = 2**31 - 1) -> None:
        super().__init__(min, max)


class Finite(click.FloatRange):
    """Range of floats without NaN; infinity is an open end unless told otherwise.

    Words in `choices` are taken as they are.
    """

    def __init__(
        self,
        min: float = -inf,
        max: float = inf,
        choices: Sequence[str] = (),
        **ends: bool,
    ) -> None:
        super().__init__(min, max, **{"min_open": True, "max_open": True, **ends})
        self.choices = choices
        self.name = "|".join([*choices, "number"])

    def convert(self, value: Any, *where: Any) -> Any:
        if value in self.choices:
            return value
        number = super().convert(value, *where)
        if isnan(number):
            self.fail("NaN is not a number.", *where)
        return number


def size(value: str) -> int:
    """Read a number of bytes, such as ``500MB``, ``1.5GiB`` or ``2000000``."""
    pattern = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([kMGT]?)(i?)B?"
    found = re.fullmatch(pattern, value.strip(), re.IGNORECASE)
    number, prefix, binary = found.groups() if found else ("0", "", "")
    base = 1024 if binary else 1000
    n_bytes = float(number) * base ** ["", "k", "m", "g", "t"].index(prefix.lower())
    if not 1 <= n_bytes < 2**63:
        raise click.BadParameter(f"{value!r} is no size, such as 2GB or 1.5GiB.")
    return int(n_bytes)


def ranks(value: str) -> tuple[float, float]:
    """Read an interval of ranks, such as ``0.05,0.3``."""
    try:
        return check_interval(value.split(","))
    except ValueError as error:
        wanted = "alpha,beta with 0 <= alpha < beta <= 1 (0 is the top)"
        raise click.BadParameter(f"{value!r} is not {wanted}.") from error


def split_values(_: Any, __: Any, texts: Sequence[str]) -> list[str]:
    """Return the values of an option: one or, between commas, several each time."""
    rows = csv.reader(texts, skipinitialspace=True)
    return [value.strip() for row in rows for value in row]


def split_names(given: str, names: Sequence[str]) -> list[str]:
    """Return the columns that an option names: one, or several between commas."""
    if given in names:
        return [given]
    # As in a file, a name that has a comma stands in quotes.
    cells = next(csv.reader([given], skipinitialspace=True), [])
    return list(dict.fromkeys(cell.strip() for cell in cells))


@dataclass(frozen=True)
class Reading:
    """What the options say about files of rows."""

    groups: str | None = None
    attributes: str = "joint"
    target: str | None = None
    id_column: str | None = None
    drop: Sequence[str] = ()
    categorical: Sequence[str] = ()
    keep_groups: bool = False
    missing: str = "error"
    header: bool | None = None
    delimiter: str | None = None
    decimal: str | None = None
    skip_lines: int = 0
    encoding: str | None = None
    na_values: Sequence[str] = ()
    svmlight: bool = False
    target_header: bool | None = None
    groups_header: bool | None = None
    directed: str = "error"
    weights: bool | None = None
    test_file: Path | None = None
    test_target: str | None = None
    test_groups: str | None = None
    memory_limit: int | None = None
    folder: Path = Path()

    @property
    def text(self) -> dict[str, Any]:
        """Options about text, as the readers take them."""
        names = ["header", "delimiter", "decimal", "skip_lines", "encoding"]
        return {name: getattr(self, name) for name in (*names, "na_values")}

    @property
    def edges(self) -> dict[str, Any]:
        """What becomes of the weights of edges, likewise."""
        return {"directed": self.directed, "weights": self.weights}

    def values(self, role: str) -> dict[str, Any]:
        """Options about values in a file of their own, as `read_values` takes them."""
        how = {name: getattr(self, name) for name in ("encoding", "na_values")}
        how |= {"header": getattr(self, f"{role}_header"), "say": note}
        return {**how, "joint": self.attributes == "joint"}

    @classmethod
    def take(cls, options: dict[str, Any], **others: Any) -> Self:
        """Take the options that are about files out of all options of a command."""
        if column := options.pop("group_column", None):
            options["groups"] = f"{options['groups']}:{column}"
        names = {entry.name for entry in fields(cls)} & options.keys()
        return cls(**{name: options.pop(name) for name in names}, **others)


def role_columns(place: Any, names: Sequence[str], roles: Any) -> dict[str, list[str]]:
    """Return which columns hold target and groups; the others must be files."""
    from scalefair.files._values import find_source  # not for --help

    columns = {}
    for role in ("target", "groups"):
        if (source := getattr(roles, role)) is None:
            continue
        chosen = [source] if role == "target" else split_names(source, names)
        lacking = [name for name in chosen if name not in names]
        if not lacking:
            columns[role] = chosen
        elif not find_source(source)[0].exists():
            raise Failure(
                f"{listed(lacking)}: neither a column of {place} (columns: "
                f"{listed(names)}) nor a file. Check --{role}, or pass FILE:COLUMN."
            )
    if {*columns.get("target", ())} & {*columns.get("groups", ())}:
        raise click.UsageError("--target and --groups name the same column.")
    return columns


class _Option(click.Option):
    """Option listed in a section of the help."""

    def __init__(self, *args: Any, section: str, **kwargs: Any) -> None:
        super().__init__(*args, **{"show_default": True, **kwargs})
        self.section = section

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Leave out ranges, which errors tell."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


class SectionedCommand(click.Command):
    """Command whose help lists options in sections."""

    def format_options(self, ctx: click.Context, formatter: Any) -> None:
        """Write the estimator's sections, as they come, and then the others."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            # Arguments are described in the text above the options.
            if isinstance(param, click.Option) and (told := param.get_help_record(ctx)):
                section = getattr(param, "section", "Other options")
                sections.setdefault(section, []).append(told)
        last = {name: sections.pop(name) for name in _LAST if name in sections}
        for name, records in {**sections, **last}.items():
            with formatter.section(name):
                formatter.write_dl(records)


def option(section: str, *declarations: str, **attributes: Any) -> Any:
    """Return a decorator that adds an option listed in a section of the help."""
    return click.option(*declarations, cls=_Option, section=section, **attributes)


def option_table(section: str, rows: Mapping[str, tuple[Any, Any, str]]) -> list[Any]:
    """Options with type, default and help, by names such as ``"-k,--n-clusters"``."""
    options = []
    for names, (kind, default, told) in rows.items():
        name, *more = names.split(",")
        how = {"type": kind, "default": default, "help": told}
        first = name if name.startswith("-") else _spell(name)
        options.append(option(section, first, *more, **how))
    return options


def add_options(command: Function, options: Sequence[Any]) -> Function:
    """Add all options to a command, or its function, in the order of the help."""
    # Of a function click takes the last decorator first.
    in_order = options if isinstance(command, click.Command) else reversed(options)
    for decorate in in_order:
        command = decorate(command)
    return command


def command(
    options: Sequence[Any], epilog: str = "", **arguments: str
) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a decorator that makes a command; its arguments, as shown, are files."""

    def make(function: Any) -> click.Command:
        function = add_options(debug_option(function), options)
        for name, shown in reversed(arguments.items()):
            function = click.argument(name, metavar=shown, type=PATH)(function)
        end = f"{epilog}\b\n{EXIT_CODES}" if epilog else EXIT_CODES
        return click.command(cls=SectionedCommand, epilog=end)(function)

    return make


def estimator_options(
    estimator: type, sections: Mapping[str, str], **changed: Mapping[str, Any]
) -> list[Any]:
    """Options with names, types, defaults and help of an estimator's parameters."""
    # `sections` lists names, such as ``"tol n_clusters,-k"`` with one more spelling;
    # `changed` has attributes of an option that are not to be the estimator's.
    signature = inspect.signature(estimator)
    constraints = vars(estimator)["_parameter_constraints"]
    listed = [
        (section, *word.split(","))
        for section, words in sections.items()
        for word in words.split()
    ]
    helps = _read_docs(estimator, [name for _, name, *_ in listed])
    options = []
    for section, name, *more in listed:
        spellings = [_spell(name), *more]
        default = signature.parameters[name].default
        attributes: dict[str, Any] = {
            "help": helps.get(name),
            # Of a type such as numpy.float64 the name.
            "default": getattr(default, "__name__", default),
        }
        if "boolean" in constraints[name]:
            spellings[0] += f"/--no-{spellings[0][2:]}"
        else:
            attributes |= _type_of(constraints[name], default)
        attributes |= changed.get(name, {})
        if attributes.get("required"):
            del attributes["default"]
        options.append(option(section, *spellings, name, **attributes))
    return options


def _type_of(kinds: Sequence[Any], default: Any) -> dict[str, Any]:
    """Type of an option, with what belongs to it, from constraints of scikit-learn."""
    from sklearn.utils._param_validation import Interval, StrOptions

    words: list[str] = []
    for kind in kinds:
        if isinstance(kind, StrOptions):
            words = sorted(kind.options)
            if any(isinstance(other, Interval) for other in kinds):
                continue
            names = sorted(kind.options, key=lambda name: (name != default, name))
            if None not in kinds:
                return {"type": click.Choice(names)}
            as_none = {"callback": lambda _, __, v: None if v == "none" else v}
            return {"type": click.Choice([*names, "none"]), **as_none}
        if isinstance(kind, Interval) and issubclass(kind.type, Integral):
            return {"type": Count(kind.left)}
        if isinstance(kind, Interval):
            end = {"min": kind.left, "min_open": kind.closed not in ("left", "both")}
            end |= {"max": kind.right, "max_open": kind.closed not in ("right", "both")}
            end = {k: v for k, v in end.items() if v is not None}
            return {"type": Finite(choices=words, **end)}
        if kind == "random_state":
            told = "Seed; the same seed gives the same result."
            return {"type": Count(0, 2**32 - 1), "default": 0, "help": told}
    return {}


def _read_docs(estimator: type, chosen: Sequence[str]) -> dict[str, str]:
    """First sentence about each parameter, without markup and literature."""
    doc = inspect.getdoc(estimator) or ""
    section = re.split(r"\n\n\w+\n-+\n", doc.partition("Parameters\n---")[2])[0]
    spellings = {name: _spell(name) for name in chosen}
    found = {}
    for name, text in re.findall(r"^(\w+) : .*\n((?: {4}.+\n?)+)", section, re.M):
        text = " ".join(text.split()).replace("None takes", "by default")
        text = re.sub(r"(,? as in| in| of)? \[\d\]_| \(see [^)]*\)|:math:", "", text)
        text = re.sub(r"(?<!`)`(\w+)`", lambda m: spellings.get(m[1], m[1]), text)
        text = _use_spellings(re.split(r"(?<=[\w)])\. ", text)[0], spellings)
        found[name] = re.sub(r"`|(?<!\w)\"|\"(?!\w)", "", text).rstrip(".") + "."
    return found


# What groups that are codes take, in Python: see `check_are_groups`.
_AS_STRINGS = "give them as strings, x.astype(str)"


def translate(message: str, ctx: click.Context | None) -> str:
    """Name the options of the command where an estimator names its parameters."""
    if ctx is None:
        return message
    spellings = {str(param.name): param.opts[0] for param in ctx.command.params}
    message = message.replace(_AS_STRINGS, "name their column in --categorical")
    if "directed" in spellings:
        symmetrise = "for example with (W + W.T) / 2 or W.maximum(W.T)"
        message = message.replace(symmetrise, "with --directed sum or --directed max")
    return _use_spellings(message, {"sensitive_features": "--groups", **spellings})


def _use_spellings(text: str, spellings: Mapping[str, str]) -> str:
    """Write ``--max-iter 5`` for ``max_iter=5``, ``--max-iter`` for ``max_iter``."""
    # Other names, such as ``solver``, are words as well; ``solver="x"`` is not.

    def spell(found: re.Match[str]) -> str:
        name, value = found.groups()
        option = spellings[name]
        if value is not None:
            flags = {"True": option, "False": f"--no-{option[2:]}"}
            return flags.get(value, f"{option} {value.replace('None', 'none')}")
        is_word = "_" not in name and name not in _NO_WORDS
        return name if is_word else option

    names = "|".join(spellings)
    value = r"(?: ?= ?[`'\"]*([\w.+-]*\w)[`'\"]*)?"
    return re.sub(rf"(?<![\w.-])({names})\b{value}", spell, text)


def _spell(name: str) -> str:
    return "--" + name.replace("_", "-")


def parameters_in_force(
    ctx: click.Context,
    parameters: Mapping[str, Any],
    conditions: Mapping[str, tuple[str, tuple[str, ...]]],
) -> dict[str, Any]:
    """Drop options that do not apply, by the values of others; refuse those given."""
    names = {param.name: param.opts[0] for param in ctx.command.params}
    idle = {k: v for k, v in conditions.items() if ctx.params[v[0]] not in v[1]}
    for name, (other, values) in idle.items():
        if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT:
            told = f"{names[name]} applies to {names[other]} {' or '.join(values)} only"
            found = f"not to {names[other]} {ctx.params[other]}."
            raise click.UsageError(f"{told}, {found}", ctx)
    return {name: value for name, value in parameters.items() if name not in idle}


# What commands share: section, name and value of an option, and its help.
_SHARED = {
    "Columns --group-column COLUMN": "Column of the FILE of groups, as in FILE:COLUMN.",
    "Columns --keep-groups": "Keep the column of the groups as a feature.",
    "Files --groups-header/--no-groups-header": "Whether their file has a header.",
    "Files --target-header/--no-target-header": "Whether its file has a header.",
    "Columns --categorical COLUMNS": "Column whose numbers are codes; repeatable.",
    "Columns --standardize": "Centre columns of numbers unless they are sparse, and "
    "divide them by their standard deviations.",
    "Columns --drop COLUMNS": "Column, or number of one, to leave out; repeatable.",
    "Columns --id-column COLUMN": "Column with the ids of the rows, no feature.  "
    "[default: a first column named id, node_id, user_id ...]",
    "Columns --missing HANDLING": "Missing values: an error that lists them, rows left "
    "out, or means and most frequent words in their place.",
    "Files --header/--no-header": "Whether a text file starts with a header; without "
    "one columns go by number, from 1.  [default: as recognised]",
    "Files --delimiter CHARACTER": "Between the columns of a text file; also tab, or "
    "space.  [default: as recognised]",
    "Files --decimal CHARACTER": "Decimal mark of a text file.",
    "Files --skip-lines COUNT": "Lines of a text file to pass over first.",
    "Files --encoding NAME": "Of text files, such as cp1252.  [default: utf-8, or as "
    "a mark at their start says]",
    "Files --na-values VALUES": "What else means a missing value, such as -,Unknown or "
    "-200; repeatable.",
    "Files --directed HOW": "Several weights of an edge, as in its two directions: an "
    "error, their sum, or the largest.",
    "Files --weights/--no-weights": "Whether a third column holds weights of edges.  "
    "[default: yes; if it looks like a time an error]",
    "Files --svmlight": "Rows are in svmlight format; groups are a feature's number.",
    "Measures --test FILE": "Other rows in the same format, to measure the result on.",
    "Measures --test-target COLUMN|FILE": "Their target.  [default: as above]",
    "Measures --test-groups COLUMN|FILE": "Their groups.  [default: as above]",
    "Measures --baseline/--no-baseline": "Compute the same without fairness, to "
    "compare.  [default: if a report or a terminal shows it]",
    "Files --report FILE": "Report to write: a page if named .html, else JSON.",
    "Files --memory-limit SIZE": "Rows that take more, such as 2GB, are read in "
    "blocks, again in every pass.  [default: half of the memory that is available]",
    "Other options --quiet/--verbose": "Nothing on stdout, or progress and a summary.  "
    "[default: --verbose on a terminal only]",
}
_VALUES: dict[str, dict[str, Any]] = {
    "COLUMNS": {"metavar": "COLUMN", "multiple": True},
    "FILE": {"metavar": "FILE", "type": PATH},
    "SIZE": {"metavar": "SIZE", "type": size},
    "VALUES": {"metavar": "VALUE", "multiple": True, "callback": split_values},
    "COUNT": {"type": Count(0), "default": 0},
    "HOW": {"default": "error", "type": click.Choice(["error", "sum", "max"])},
    "HANDLING": {"default": "error", "type": click.Choice(["error", "drop", "impute"])},
}


def _share(line: str, told: str, **attributes: Any) -> Any:
    """Option of a line such as ``Files --report FILE``; one without value is a flag."""
    section, _, declaration = line.partition(" --")
    name, _, value = declaration.partition(" ")
    attributes |= _VALUES.get(value, {"metavar": value})
    if not value:
        attributes |= {"is_flag": True, "default": None if "/" in name else False}
    names = [f"--{name}", f"{name}_file"] if value == "FILE" else [f"--{name}"]
    return option(section, *names, help=told, **attributes)


def _pick(names: str) -> list[Any]:
    lines = {re.findall(r" --([\w-]+)", line)[0]: line for line in _SHARED}
    return [_share(lines[name], _SHARED[lines[name]]) for name in names.split()]


_TARGET = "Column with what is to be predicted; or a file of it."
_GROUPS = "Column with the group of each row, then no feature, or several as sex,race, "
_GROUPS += "whose combinations are the groups; or a file of groups."
GROUPS = [
    _share("Required --groups COLUMN|FILE", _GROUPS, required=True),
    *_pick("group-column keep-groups groups-header"),
]
GROUPS_IF_ANY = [_share("Columns --groups COLUMN|FILE", _GROUPS), *GROUPS[2:]]
TARGET = [_share("Required --target COLUMN|FILE", _TARGET), *_pick("target-header")]
ROLES = [*TARGET, *GROUPS, *_pick("categorical")]
INPUT = _pick(
    "drop id-column missing header delimiter decimal skip-lines encoding na-values"
)
TEST = _pick("test test-target test-groups")
STANDARDIZE, SVMLIGHT, BASELINE = _pick("standardize svmlight baseline")
EDGES = _pick("directed weights")
REPORT, MEMORY_LIMIT, QUIET = _pick("report memory-limit quiet")


def output_option(what: str) -> Any:
    """Return the option that names the file for `what`."""
    said = f"File to write {what} to; - is stdout."
    return option("Required", "-o", "--output", required=True, type=PATH, help=said)
