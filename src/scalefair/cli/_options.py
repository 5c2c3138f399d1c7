"""Options of the commands, listed in sections of the help."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

__all__ = [
    "PATH",
    "QUIET",
    "REPORT",
    "Count",
    "Finite",
    "ParamType",
    "SectionedCommand",
    "add_options",
    "option",
    "parameters_in_force",
]

Command = TypeVar("Command", bound=Callable[..., Any])

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:  # a type without parameters in older versions of click
    ParamType = click.ParamType

# Readable or not is for the readers to say, in one line.
PATH = click.Path(readable=False, path_type=Path)


class Count(click.IntRange):
    """Integer from `min` to what fits 32 bits, as compiled code takes it."""

    def __init__(self, min: int = 1) -> None:
        super().__init__(min=min)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        number = super().convert(value, param, ctx)
        if number >= 2**31:
            self.fail(f"{number} is too large: at most {2**31 - 1}.", param, ctx)
        return number


class Finite(click.FloatRange):
    """Range of floats without infinity and NaN."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{number} is not a finite number.", param, ctx)
        return number


class _Option(click.Option):
    """Option listed in a section of the help."""

    def __init__(self, *args: Any, section: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


class SectionedCommand(click.Command):
    """Command whose help lists options in sections."""

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the sections in the order of their first options."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            # Arguments are described in the text above the options.
            is_option = isinstance(param, click.Option)
            record = param.get_help_record(ctx) if is_option else None
            if record is not None:
                section = getattr(param, "section", "Other options")
                sections.setdefault(section, []).append(record)
        for name, records in sections.items():
            with formatter.section(name):
                formatter.write_dl(records)


def option(section: str, *declarations: str, **attributes: Any) -> Any:
    """Return a decorator that adds an option listed in a section of the help."""
    return click.option(*declarations, cls=_Option, section=section, **attributes)


def add_options(command: Command, options: Sequence[Any]) -> Command:
    """Add all options, so that the help lists them in this order."""
    for decorate in reversed(options):
        command = decorate(command)
    return command


def parameters_in_force(
    ctx: click.Context,
    parameters: dict[str, Any],
    conditions: Mapping[str, tuple[str, tuple[str, ...]]],
) -> dict[str, Any]:
    """Drop the options that do not apply, after checking that none was given.

    `conditions` has for an option another one, and the values of it with which the
    option applies.

    Raises
    ------
    click.UsageError
        If an option was given that does not apply to the values of the others.
    """
    kept = dict(parameters)
    names = {param.name: param.opts[-1] for param in ctx.command.params}
    for name, (other, values) in conditions.items():
        if ctx.params[other] in values:
            continue
        if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise click.UsageError(
                f"{names[name]} applies to {names[other]} {_enumerate(values)} only, "
                f"not to {names[other]} {ctx.params[other]}.",
                ctx,
            )
        kept.pop(name, None)
    return kept


def _enumerate(values: tuple[str, ...]) -> str:
    *others, last = values
    return f"{', '.join(others)} or {last}" if others else last


REPORT = option(
    "Files",
    "--report",
    "report_file",
    type=PATH,
    help="File to write a report to: a page with tables and figures if its name ends "
    "in .html, else JSON.",
)
QUIET = option(
    "Other options",
    "--quiet",
    is_flag=True,
    help="Nothing on stdout, even on a terminal.",
)
