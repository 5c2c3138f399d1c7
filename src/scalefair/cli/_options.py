"""Options of the commands: how click reads and lists them, and those about files.

A command lists decorators of click: those that several commands share, by their names
(`shared`); the parameters of its estimator (`estimator_options`), whose names, types,
defaults and help are the estimator's; and its own (`option_table`).
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from math import inf, isnan
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import click
from click.core import ParameterSource

from scalefair._groups import check_interval
from scalefair._memory import array_limit
from scalefair.cli._errors import EXIT_CODES, note, store_debug, use_spellings
from scalefair.files._text import FileOptions, split_cells
from scalefair.files._values import find_source, read_values

# Sections of the help that come after those of the estimator, in this order.
_LAST_SECTIONS = ["Columns", "Measures", "Files", "Advanced", "Other options"]
# The readers check that a file can be read, not click: their message is one line.
PATH = click.Path(readable=False, path_type=Path)


# --- Types of values -----------------------------------------------------------------


class Count(click.IntRange):
    """Integer from `min` to the largest that compiled code takes, of 32 bits."""

    name = "integer"

    def __init__(self, min: int = 1, max: int = 2**31 - 1) -> None:
        super().__init__(min, max)


class Finite(click.FloatRange):
    """Number in a range, not NaN, or one of `choices`; ends are open by default."""

    def __init__(
        self,
        min: float = -inf,
        max: float = inf,
        choices: Sequence[str] = (),
        *,
        min_open: bool = True,
        max_open: bool = True,
    ) -> None:
        super().__init__(min, max, min_open=min_open, max_open=max_open)
        self.choices = choices
        self.name = "|".join([*choices, "number"])

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return a number or a choice."""
        if value in self.choices:
            return value
        number = super().convert(value, param, ctx)
        if isnan(number):
            self.fail("NaN is not a number.", param, ctx)
        return number


def size(value: str) -> int:
    """Read a number of bytes, such as ``500MB``, ``1.5GiB`` or ``2000000``."""
    pattern = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([kMGT]?)(i?)B?"
    match = re.fullmatch(pattern, value.strip(), re.IGNORECASE)
    # Text that is no size counts as 0, which is refused below.
    number, prefix, binary = match.groups() if match else ("0", "", "")
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
        raise click.BadParameter(
            f"{value!r} is not alpha,beta with 0 <= alpha < beta <= 1 (0 is the top)."
        ) from error


def column_name(text: str) -> str:
    """Return a name with single blanks, as the readers of headers write it."""
    return " ".join(text.split())


def source_name(text: str) -> str:
    """Return the name of an existing file unchanged, or else that of a column."""
    return text if find_source(text)[0].exists() else column_name(text)


def split_values(_: Any, __: Any, texts: Sequence[str]) -> list[str]:
    """Return the values of a repeatable option, each one or several, with commas."""
    return [value for text in texts for value in split_cells(text)]


# --- Options and commands of click ---------------------------------------------------


class _Option(click.Option):
    """Option listed in a section of the help."""

    def __init__(self, *args: Any, section: str, **kwargs: Any) -> None:
        super().__init__(*args, **{"show_default": True, **kwargs})
        self.section = section

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Leave the range out of the help: the message for a wrong value has it."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


class SectionedCommand(click.Command):
    """Command whose help lists options in sections."""

    def format_options(self, ctx: click.Context, formatter: Any) -> None:
        """Write the sections of the estimator in order, and then the others."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            # Arguments are described in the text above the options.
            if isinstance(param, click.Option) and (
                record := param.get_help_record(ctx)
            ):
                # Only the --help of click itself has no section.
                section = getattr(param, "section", "Other options")
                sections.setdefault(section, []).append(record)
        last = [name for name in _LAST_SECTIONS if name in sections]
        for name in [*(name for name in sections if name not in last), *last]:
            with formatter.section(name):
                formatter.write_dl(sections[name])


def option(section: str, *declarations: str, **attributes: Any) -> Any:
    """Return a decorator that adds an option, in a section of the help."""
    return click.option(*declarations, cls=_Option, section=section, **attributes)


def option_table(
    section: str, rows: Mapping[str, tuple[dict[str, Any], str]]
) -> list[Any]:
    """Return options, from their names to attributes and help.

    Names are as in ``"-k,--n-clusters"``. A first name without dashes gets them, a
    second one is that of the parameter. The negation is added to the object `EITHER`.
    """
    options = []
    for names, (attributes, text) in rows.items():
        name, *aliases = names.split(",")
        spelling = name if name.startswith("-") else spell_option(name)
        if attributes is EITHER:
            spelling += f"/--no-{name}"
        options.append(option(section, spelling, *aliases, help=text, **attributes))
    return options


def spell_option(name: str) -> str:
    """Return the option of a parameter: ``--max-iter`` for ``max_iter``."""
    return "--" + name.replace("_", "-")


def value(kind: Any, default: Any = None) -> dict[str, Any]:
    """Return the attributes of an option with a type and a default."""
    return {"type": kind, "default": default}


def command(
    options: Sequence[Any], epilog: str = "", **arguments: str
) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a decorator that makes a command; `arguments` are the files it takes."""

    def make(function: Any) -> click.Command:
        """Add options and files to a function, whose docstring is the help."""
        # Applied from the last to the first, as decorators above a function are: the
        # help then lists them in this order.
        for decorate in reversed([*options, *shared("debug")]):
            function = decorate(function)
        for name, metavar in reversed(arguments.items()):
            function = click.argument(name, metavar=metavar, type=PATH)(function)
        end = f"{epilog}\b\n{EXIT_CODES}" if epilog else EXIT_CODES
        return click.command(cls=SectionedCommand, epilog=end)(function)

    return make


# --- Options that are parameters of an estimator ------------------------------------


def estimator_options(
    estimator: type, sections: Mapping[str, str], **changes: Mapping[str, Any]
) -> list[Any]:
    """Return options with names, types, defaults and help of parameters.

    `sections` lists the parameters, such as ``"tol n_clusters,-k"`` with an alias;
    `changes` has attributes of an option that differ from the estimator's.
    """
    # 1. What the estimator says of its parameters: the signature has the defaults, the
    #    constraints of scikit-learn have the types, the docstring has the help.
    signature = inspect.signature(estimator)
    constraints = vars(estimator)["_parameter_constraints"]
    parameters = [
        (section, *names.split(","))
        for section, text in sections.items()
        for names in text.split()
    ]
    helps = _read_docs(estimator, [name for _, name, *_ in parameters])
    # 2. An option of each, with what differs from it.
    options = []
    for section, name, *aliases in parameters:
        spelling = spell_option(name)
        default = signature.parameters[name].default
        attributes: dict[str, Any] = {
            "help": helps.get(name),
            # A type such as numpy.float64 is shown by its name.
            "default": getattr(default, "__name__", default),
        }
        if "boolean" in constraints[name]:  # a pair of flags
            spelling += f"/--no-{spelling[2:]}"
        else:
            attributes |= _type_of(constraints[name], default)
        attributes |= changes.get(name, {})
        if attributes.get("required"):  # then it has no default
            del attributes["default"]
        options.append(option(section, spelling, *aliases, name, **attributes))
    return options


def _type_of(constraints: Sequence[Any], default: Any) -> dict[str, Any]:
    """Return what scikit-learn's constraints say of an option: type, and maybe more."""
    from sklearn.utils._param_validation import Interval, StrOptions

    if "random_state" in constraints:
        text = "Seed; the same seed gives the same result."
        return {"type": Count(0, 2**32 - 1), "default": 0, "help": text}
    # A parameter may be a number, one of some words, or either.
    interval = next((x for x in constraints if isinstance(x, Interval)), None)
    options = next((x.options for x in constraints if isinstance(x, StrOptions)), ())
    choices = sorted(options, key=lambda name: (name != default, name))  # default first
    if interval is not None and issubclass(interval.type, Integral):
        return {"type": Count(interval.left)}
    if interval is not None:
        number = Finite(
            -inf if interval.left is None else interval.left,
            inf if interval.right is None else interval.right,
            choices,
            min_open=interval.closed not in ("left", "both"),
            max_open=interval.closed not in ("right", "both"),
        )
        return {"type": number}
    if choices and None in constraints:
        return {"type": click.Choice([*choices, "none"]), "callback": _none_as_none}
    return {"type": click.Choice(choices)} if choices else {}


def _none_as_none(_: Any, __: Any, value: str) -> str | None:
    """Return None for the choice "none": choices of click are strings."""
    return None if value == "none" else value


def _read_docs(estimator: type, names: Sequence[str]) -> dict[str, str]:
    """Return the first sentence about each parameter, without markup and citations."""
    doc = inspect.getdoc(estimator) or ""
    # The section of the parameters ends before the next underlined title.
    section = re.split(r"\n\n\w+\n-+\n", doc.partition("Parameters\n---")[2])[0]
    spellings = {name: spell_option(name) for name in names}
    sentences = {}
    # A line "name : type", then lines of text that are indented by four blanks.
    for name, text in re.findall(r"^(\w+) : .*\n((?: {4}.+\n?)+)", section, re.M):
        text = " ".join(text.split()).replace("None takes", "by default")
        # Remove citations, spell parameters as options, cut after the first sentence,
        # and remove quotes.
        text = re.sub(r"(,? as in| in| of)? \[\d\]_| \(see [^)]*\)|:math:", "", text)
        text = re.sub(r"(?<!`)`(\w+)`", lambda m: spellings.get(m[1], m[1]), text)
        text = use_spellings(re.split(r"(?<=[\w)])\. ", text)[0], spellings)
        sentences[name] = re.sub(r"`|(?<!\w)\"|\"(?!\w)", "", text).rstrip(".") + "."
    return sentences


def parameters_in_force(
    parameters: Mapping[str, Any], conditions: Mapping[str, tuple[str, tuple[str, ...]]]
) -> dict[str, Any]:
    """Drop options that do not apply; refuse them if they are on the command line.

    In `conditions` an option has another one, and the values of that other one with
    which it applies.
    """
    ctx = click.get_current_context()
    spellings = {param.name: param.opts[0] for param in ctx.command.params}
    # The options that do not apply: the other one has none of these values.
    idle = {k: v for k, v in conditions.items() if ctx.params[v[0]] not in v[1]}
    for name, (other, values) in idle.items():
        if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise click.UsageError(
                f"{spellings[name]} applies to {spellings[other]} "
                f"{' or '.join(values)} only, not to {spellings[other]} "
                f"{ctx.params[other]}.",
                ctx,
            )
    return {name: value for name, value in parameters.items() if name not in idle}


# --- Options that several commands have ----------------------------------------------

_COLUMN = {"metavar": "COLUMN", "type": column_name}
_COLUMNS = {**_COLUMN, "multiple": True}
_SOURCE = {"metavar": "COLUMN|FILE", "type": source_name}
_CHARACTER = {"metavar": "CHARACTER"}
_FILE = {"metavar": "FILE", "type": PATH}
_FLAG = {"is_flag": True}
# A flag that is None if neither it nor its negation is on the command line;
# `option_table` adds the negation where it finds this object.
EITHER = {"is_flag": True, "default": None}
# By section of the help and names: attributes of the option, and its help.
_SHARED: dict[str, dict[str, tuple[dict[str, Any], str]]] = {
    "Required": {
        # Not required by click: svmlight has targets itself, and there may be
        # probabilities of groups.
        "target": (_SOURCE, "Column with what is to be predicted; or a file of it."),
        "groups": (
            _SOURCE,
            "Column with the group of each row, then no feature, or several as "
            "sex,race, whose combinations are the groups; or a file of groups.",
        ),
    },
    "Columns": {
        "group-column": (_COLUMN, "Column of the FILE of groups, as in FILE:COLUMN."),
        "group-probabilities": (
            _SOURCE,
            "In place of --groups, columns with the probabilities of groups, as in "
            "p_black,p_white; or FILE:p_black,p_white.",
        ),
        "missing-groups": (
            value(click.Choice(["error", "drop", "ignore"])),
            "Rows without a group: an error, rows left out, or rows that count for "
            "no group.  [default: as --missing says]",
        ),
        "knots": (
            value(Count(2)),
            "Take --groups for a number, such as an age, and in place of groups the "
            "hat functions of so many quantiles.",
        ),
        "keep-groups": (_FLAG, "Keep the column of the groups as a feature."),
        "weight": (
            _SOURCE,
            "Column with the weight of each row or node, of a survey or how often it "
            "counts, then no feature; or a file of weights.",
        ),
        "categorical": (_COLUMNS, "Column whose numbers are codes; repeatable."),
        "standardize": (
            _FLAG,
            "Centre columns of numbers unless they are sparse, and divide them by "
            "their standard deviations; not by default.",
        ),
        "drop": (_COLUMNS, "Column, or number of one, to leave out; repeatable."),
        "feature": (
            _COLUMNS,
            "Column to keep as a feature though it looks like ids; repeatable.",
        ),
        "id-column": (
            _COLUMN,
            "Column with the ids of the rows, no feature.  "
            "[default: a first column named id, node_id, user_id ...]",
        ),
        "missing": (
            value(click.Choice(["error", "drop", "impute"]), "error"),
            "Missing values: an error that lists them, rows left out, or means and "
            "most frequent words in their place.",
        ),
    },
    "Files": {
        "groups-header": (EITHER, "Whether their file has a header."),
        "target-header": (EITHER, "Whether its file has a header."),
        "weight-header": (EITHER, "Whether the file of weights has a header."),
        "header": (
            EITHER,
            "Whether a text file starts with a header; without one columns go by "
            "number, from 1.  [default: as recognised]",
        ),
        "delimiter": (
            _CHARACTER,
            "Between the columns of a text file; also tab, or space.  "
            "[default: as recognised]",
        ),
        "decimal": (_CHARACTER, "Decimal mark of a text file."),
        "skip-lines": (value(Count(0), 0), "Lines of a text file to pass over first."),
        "encoding": (
            {"metavar": "NAME"},
            "Of text files, such as cp1252.  [default: utf-8, or as a mark at their "
            "start says]",
        ),
        "na-values": (
            {"metavar": "VALUE", "multiple": True, "callback": split_values},
            "What else means a missing value, such as -,Unknown or -200; repeatable.",
        ),
        "directed": (
            value(click.Choice(["error", "sum", "max"]), "error"),
            "Several weights of an edge, as in its two directions: an error, their "
            "sum, or the largest.",
        ),
        "weights": (
            EITHER,
            "Whether a third column holds weights of edges (of nodes: --weight).  "
            "[default: yes; if it looks like a time an error]",
        ),
        "weight-column": (_COLUMN, "Column of edges with them.  [default: the third]"),
        "svmlight": (
            _FLAG,
            "Rows are in svmlight format; groups are a feature's number.",
        ),
        "report,report_file": (
            _FILE,
            "Report to write: a page if named .html, else JSON.",
        ),
        "memory-limit": (
            {"metavar": "SIZE", "type": size},
            "Rows that take more, such as 2GB, are read in blocks, again in every "
            "pass.  [default: half of the memory that is available]",
        ),
    },
    "Measures": {
        "test,test_file": (
            _FILE,
            "Other rows in the same format, to measure the result on.",
        ),
        "test-target": (_SOURCE, "Their target.  [default: as above]"),
        "test-groups": (_SOURCE, "Their groups.  [default: as above]"),
        "test-weight": (_SOURCE, "Their weights.  [default: as above]"),
        "baseline": (
            EITHER,
            "Compute the same without fairness, to compare.  "
            "[default: if a report or a terminal shows it]",
        ),
    },
    "Other options": {
        "--quiet/--verbose": (
            {"is_flag": True, "default": None},
            "Nothing on stdout, or progress and a summary.  "
            "[default: --verbose on a terminal only]",
        ),
        "debug": (
            {"is_flag": True, "expose_value": False, "callback": store_debug},
            "Show the traceback of an error.",
        ),
    },
}
# By the first name of each option, without dashes.
_OPTIONS_BY_NAME = {
    re.findall(r"[\w-]*\w", names)[0].lstrip("-"): decorator
    for section, rows in _SHARED.items()
    for names, decorator in zip(rows, option_table(section, rows), strict=True)
}


def shared(names: str) -> list[Any]:
    """Return options that several commands have, by their names."""
    return [_OPTIONS_BY_NAME[name] for name in names.split()]


# Names of the options of files of rows.
TEXT = "header delimiter decimal skip-lines encoding na-values"
INPUT = f"drop id-column missing {TEXT}"
WEIGHT = "weight weight-header"
GROUPS = "groups group-column group-probabilities missing-groups knots keep-groups"
GROUPS = f"{GROUPS} groups-header feature {WEIGHT}"
ROLE_OPTIONS = f"target target-header {GROUPS} categorical"
TEST = "test test-target test-groups test-weight"


def output_option(content: str) -> Any:
    """Return the option that names the file for the content."""
    text = f"File to write {content} to; - is stdout."
    return option("Required", "-o", "--output", required=True, type=PATH, help=text)


# --- What the options say about files -----------------------------------------------

# What columns, or files, may hold besides features.
ROLES = ("target", "groups", "weight")


@dataclass(frozen=True)
class ReadOptions(FileOptions):
    """The options about files of rows, by their names; saved models keep them."""

    # Roles, each a column or a file, and what is made of the groups.
    groups: str | None = None
    group_probabilities: bool = False  # whether `groups` names columns of them
    missing_groups: str | None = None
    knots: int | None = None
    attributes: str = "joint"
    target: str | None = None
    weight: str | None = None
    # Columns that are no features, and features that are not read as others are.
    id_column: str | None = None
    drop: Sequence[str] = ()
    feature: Sequence[str] = ()
    keep: Sequence[str] = ()  # columns that the command predict copies to its output
    categorical: Sequence[str] = ()
    keep_groups: bool = False
    missing: str = "error"
    svmlight: bool = False
    # Whether files of roles have a header; then other rows, and roles, for a test.
    target_header: bool | None = None
    groups_header: bool | None = None
    weight_header: bool | None = None
    test_file: Path | None = None
    test_target: str | None = None
    test_groups: str | None = None
    test_weight: str | None = None
    memory_limit: int | None = None
    folder: Path = Path()  # of temporary files

    @classmethod
    def take(cls, options: dict[str, Any], **values: Any) -> Self:
        """Take the options that are about files out of all options of a command.

        `values` are those of fields for which the command has no option.
        """
        # 1. Three options become one field, `groups`: a source, the column of a file,
        #    and columns of probabilities, which a flag tells from a column of groups.
        if column := options.pop("group_column", None):
            options["groups"] = f"{options['groups']}:{column}"
        if "group_probabilities" in options:
            chosen = [options["groups"], options["group_probabilities"]]
            if None not in chosen:
                raise click.UsageError(
                    "--groups and --group-probabilities do not go together."
                )
            if chosen == [None, None]:
                raise click.UsageError("Missing option '--groups'.")
            options["group_probabilities"] = chosen[1] is not None
            options["groups"] = chosen[0] or chosen[1]
        # 2. All fields for which the command has an option.
        names = {entry.name for entry in fields(cls)} & options.keys()
        values |= {name: options.pop(name) for name in names}
        if "attributes" in values:  # the estimator takes this one, too
            options["attributes"] = values["attributes"]
        # 3. Options that do not go together.
        read_options = cls(**values)
        if read_options.makes_probabilities and read_options.attributes == "each":
            raise click.UsageError(
                "--attributes each does not apply to probabilities, --knots, or "
                "--missing-groups ignore."
            )
        if read_options.weight is not None and read_options.missing == "impute":
            raise click.UsageError("--missing impute takes no --weight: drop the rows.")
        return read_options

    @property
    def may_lack_groups(self) -> bool:
        """Whether rows without a group count for none."""
        return self.missing_groups == "ignore"

    @property
    def makes_probabilities(self) -> bool:
        """Whether groups become a frame of probabilities, a column for each."""
        is_number = self.knots is not None
        return self.group_probabilities or self.may_lack_groups or is_number

    def exceeds_memory(self, path: Path, *, is_text: bool) -> bool:
        """Return whether to read a file in blocks; the standard input never is."""
        size = 0 if str(path) == "-" else path.stat().st_size
        # A byte of text becomes about two bytes of numbers.
        return (2 * size if is_text else size) > array_limit(self.memory_limit)

    def read_values(self, role: str, units: Any) -> Any:
        """Read the file that has the values of a role, for rows or nodes."""
        values, notes = read_values(
            getattr(self, role),
            units,
            role.removesuffix("s"),
            header=getattr(self, f"{role}_header"),
            encoding=self.encoding,
            na_values=self.na_values,
            by_row=self.id_column == "row",  # numbers that the command predict writes
            joint=self.attributes == "joint" and not self.group_probabilities,
            keep_missing=role == "groups" and self.missing_groups is not None,
        )
        for text in notes:
            note(text)
        return values
