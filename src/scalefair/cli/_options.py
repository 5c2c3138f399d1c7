"""Options of the commands, in sections of the help; many come from an estimator."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

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
    """Range of floats without NaN; infinity is an open end unless told otherwise."""

    name = "number"

    def __init__(
        self, min: float = -math.inf, max: float = math.inf, **ends: bool
    ) -> None:
        super().__init__(min, max, **{"min_open": True, "max_open": True, **ends})

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail("NaN is not a number.", param, ctx)
        return number


def size(value: str) -> int:
    """Read a number of bytes, such as ``500MB``, ``1.5GiB`` or ``2000000``."""
    pattern = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([kMGT]?)(i?)B?"
    found = re.fullmatch(pattern, value.strip(), re.IGNORECASE)
    if found is not None:
        number, prefix, binary = found.groups()
        base = 1024 if binary else 1000
        n_bytes = float(number) * base ** ["", "k", "m", "g", "t"].index(prefix.lower())
        if 1 <= n_bytes < 2**63:
            return int(n_bytes)
    raise click.BadParameter(
        f"{value!r} is not a size of a memory: a number and B, kB, MB, GB, TB, KiB, "
        "MiB, GiB or TiB, such as 2GB."
    )


class _Option(click.Option):
    """Option listed in a section of the help."""

    def __init__(self, *args: Any, section: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Leave out ranges, which errors tell."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


class SectionedCommand(click.Command):
    """Command whose help lists options in sections."""

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the estimator's sections, as they come, and then the others."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            # Arguments are described in the text above the options.
            is_option = isinstance(param, click.Option)
            record = param.get_help_record(ctx) if is_option else None
            if record is not None:
                section = getattr(param, "section", "Other options")
                sections.setdefault(section, []).append(record)
        last = [name for name in _LAST if name in sections]
        for name in [name for name in sections if name not in _LAST] + last:
            with formatter.section(name):
                formatter.write_dl(sections[name])


def option(section: str, *declarations: str, **attributes: Any) -> Any:
    """Return a decorator that adds an option listed in a section of the help."""
    return click.option(*declarations, cls=_Option, section=section, **attributes)


def add_options(command: Function, options: Sequence[Any]) -> Function:
    """Add all options to a command, or its function, in the order of the help."""
    # Of a function click takes the last decorator first.
    is_command = isinstance(command, click.Command)
    for decorate in options if is_command else reversed(options):
        command = decorate(command)
    return command


def estimator_options(
    estimator: type, chosen: Mapping[str, tuple[Any, ...]]
) -> list[Any]:
    """Options with names, types, defaults and help of an estimator's parameters.

    `chosen` has for a parameter the section, then further spellings of the option
    such as ``"-k"``, and a mapping of attributes that are not to be the estimator's.
    """
    signature = inspect.signature(estimator)
    constraints = vars(estimator)["_parameter_constraints"]
    helps = _read_docs(estimator, chosen)
    options = []
    for name, (section, *others) in chosen.items():
        spelling = _spell(name)
        attributes: dict[str, Any] = {"help": helps.get(name)}
        default = signature.parameters[name].default
        if default is not inspect.Parameter.empty:
            # Of a type such as numpy.float64 the name.
            attributes["default"] = getattr(default, "__name__", default)
            attributes["show_default"] = default is not None
        kinds = constraints[name]
        if "boolean" in kinds:
            spelling += f"/--no-{spelling[2:]}"
        else:
            attributes |= _type_of(kinds, default)
        for override in (other for other in others if not isinstance(other, str)):
            attributes |= override
        if attributes.get("required"):
            attributes.pop("default")
        spellings = [other for other in others if isinstance(other, str)]
        options.append(option(section, spelling, *spellings, name, **attributes))
    return options


def _type_of(kinds: Sequence[Any], default: Any) -> dict[str, Any]:
    """Type of an option, with what belongs to it, from constraints of scikit-learn."""
    from sklearn.utils._param_validation import Interval, StrOptions

    for kind in kinds:
        if isinstance(kind, StrOptions):
            names = sorted(kind.options, key=lambda name: (name != default, name))
            if None not in kinds:
                return {"type": click.Choice(names)}
            return {"type": click.Choice([*names, "none"]), "callback": _none}
        if isinstance(kind, Interval) and issubclass(kind.type, Integral):
            return {"type": Count(kind.left)}
        if isinstance(kind, Interval):
            ends = {
                "min_open": kind.closed in ("right", "neither"),
                "max_open": kind.closed in ("left", "neither"),
            }
            low = -math.inf if kind.left is None else kind.left
            high = math.inf if kind.right is None else kind.right
            return {"type": Finite(low, high, **ends)}
        if kind == "random_state":
            seed = "Seed; the same seed gives the same result."
            kept = {"default": 0, "show_default": True, "help": seed}
            return {"type": Count(0, 2**32 - 1), **kept}
    return {}


def _none(_: click.Context, __: click.Parameter, value: Any) -> Any:
    return None if value == "none" else value


def _read_docs(estimator: type, chosen: Mapping[str, Any]) -> dict[str, str]:
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


def translate(message: str, ctx: click.Context | None) -> str:
    """Name the options of the command where an estimator names its parameters."""
    if ctx is None:
        return message
    options = [p for p in ctx.command.params if isinstance(p, click.Option)]
    spellings = {str(param.name): param.opts[0] for param in options}
    return _use_spellings(message, {"sensitive_features": "--groups", **spellings})


def _use_spellings(text: str, spellings: Mapping[str, str]) -> str:
    """Write ``--max-iter 5`` for ``max_iter=5``, ``--max-iter`` for ``max_iter``.

    Other names, such as ``solver``, are words as well; ``solver="x"`` is not.
    """

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
    """Drop the options that do not apply; a click.UsageError if one was given.

    `conditions` has for an option another one, and the values of it with which the
    option applies.
    """
    kept = dict(parameters)
    names = {param.name: param.opts[0] for param in ctx.command.params}
    for name, (other, values) in conditions.items():
        if ctx.params[other] in values:
            continue
        if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise click.UsageError(
                f"{names[name]} applies to {names[other]} {' or '.join(values)} only, "
                f"not to {names[other]} {ctx.params[other]}.",
                ctx,
            )
        kept.pop(name, None)
    return kept


def _header(name: str, told: str) -> Any:
    recognised = "  [default: if the first line differs in kind from all others]"
    declaration = f"--{name}/--no-{name}"
    return option("Files", declaration, default=None, help=told + recognised)


def _column_or_file(section: str, role: str, told: str, **attributes: Any) -> Any:
    return option(section, f"--{role}", metavar="COLUMN|FILE", help=told, **attributes)


def _columns(name: str, told: str) -> Any:
    several = f"{told}; may be given several times."
    return option("Columns", f"--{name}", multiple=True, metavar="COLUMN", help=several)


def _groups(section: str, **attributes: Any) -> list[Any]:
    told = "Column with the group of each row, then no feature; or a file of groups."
    kept = "Keep the column of the groups as a feature."
    return [
        _column_or_file(section, "groups", told, **attributes),
        option("Columns", "--keep-groups", is_flag=True, help=kept),
        _header("groups-header", "Whether a file of groups starts with a header."),
    ]


GROUPS = _groups("Required", required=True)
GROUPS_IF_ANY = _groups("Columns")
TARGET = [
    _column_or_file(
        "Required",
        "target",
        "Column with the label or number to be predicted; or a file of them.",
    ),
    _header("target-header", "Whether a file of targets starts with a header."),
]
CATEGORICAL = _columns("categorical", "Column whose numbers are codes of categories")
STANDARDIZE = option(
    "Columns",
    "--standardize",
    is_flag=True,
    help="Centre each column of numbers, unless it is sparse, and divide it by its "
    "standard deviation.",
)
ROLES = [*TARGET, *GROUPS, CATEGORICAL]
INPUT = [
    _columns("drop", "Column of a table, or number of a feature, to leave out"),
    option(
        "Columns",
        "--id-column",
        metavar="COLUMN",
        help="Column with the ids of the rows, by which other files may name them; no "
        "feature.  [default: a first column named id, node_id, user_id ...]",
    ),
    option(
        "Columns",
        "--missing",
        type=click.Choice(["error", "drop", "impute"]),
        default="error",
        show_default=True,
        help="Missing values: an error that lists them, rows left out, or means and "
        "most frequent words in their place.",
    ),
    _header(
        "header",
        "Whether a text file starts with a header. Columns without one go by number, "
        "from 1.",
    ),
    option(
        "Files",
        "--delimiter",
        metavar="CHARACTER",
        help="Between the columns of a text file; also tab, or space.  [default: "
        "comma, semicolon, tab or white space, as recognised]",
    ),
    option("Files", "--decimal", metavar="CHARACTER", help="Decimal mark of a text."),
    option(
        "Files",
        "--skip-lines",
        type=Count(0),
        default=0,
        show_default=True,
        help="Lines of a text file to pass over first.",
    ),
]
SVMLIGHT = option(
    "Files",
    "--svmlight",
    is_flag=True,
    help="Rows are in svmlight format, whatever the names of their files: a line "
    "starts with the target, --groups is the number of a feature.",
)
TEST = [
    option(
        "Measures",
        "--test",
        "test_file",
        type=PATH,
        metavar="TEST",
        help="Other rows in the same format, on which the result is measured.",
    ),
    _column_or_file("Measures", "test-target", "Their target.  [default: as above]"),
    _column_or_file("Measures", "test-groups", "Their groups.  [default: as above]"),
]
BASELINE = option(
    "Measures",
    "--baseline/--no-baseline",
    default=None,
    help="Compute the same without fairness, to compare.  [default: if a report or a "
    "terminal shows it]",
)
REPORT = option(
    "Files",
    "--report",
    "report_file",
    type=PATH,
    help="File to write a report to: a page with tables and figures if its name ends "
    "in .html, else JSON.",
)
MEMORY_LIMIT = option(
    "Files",
    "--memory-limit",
    type=size,
    metavar="SIZE",
    help="Rows that take more, such as 2GB, are not read at once: every pass reads "
    "blocks of the file again.  [default: half of the memory that is available]",
)
QUIET = option(
    "Other options",
    "--quiet/--verbose",
    default=None,
    help="Nothing on stdout, or progress and a summary.  [default: --verbose on a "
    "terminal only]",
)


def output_option(what: str) -> Any:
    """Return the option that names the file for `what`."""
    said = f"File to write {what} to; - is stdout."
    return option("Required", "-o", "--output", required=True, type=PATH, help=said)
