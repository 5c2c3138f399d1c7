"""Options of the commands, listed in sections of the help."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

__all__ = ["PATH", "Finite", "SectionedCommand", "add_options", "option"]

Command = TypeVar("Command", bound=Callable[..., Any])

# Readable or not is for the readers to say, in one line.
PATH = click.Path(readable=False, path_type=Path)


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
