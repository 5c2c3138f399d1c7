"""Directive ``command-help``: what a command prints with ``--help``."""

from __future__ import annotations

from typing import ClassVar

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from scalefair.cli import main

_WIDTH = 80


def help_text(names: list[str]) -> str:
    """Help of the command found by going down from ``scalefair`` along `names`.

    Raises
    ------
    ValueError
        If there is no such command.
    """
    command: click.Command = main
    context = _context(command, None, "scalefair")
    for name in names:
        found = (
            command.get_command(context, name)
            if isinstance(command, click.Group)
            else None
        )
        if found is None:
            raise ValueError(f"scalefair {' '.join(names)}: there is no such command")
        command = found
        context = _context(command, context, name)
    return command.get_help(context)


def _context(
    command: click.Command, parent: click.Context | None, name: str
) -> click.Context:
    """Make the context the command would run in, on a terminal of fixed width."""
    return click.Context(
        command,
        parent=parent,
        info_name=name,
        terminal_width=_WIDTH,
        max_content_width=_WIDTH,
        **command.context_settings,
    )


class CommandHelp(SphinxDirective):
    """The arguments are those of ``scalefair``: none, or the name of a command."""

    optional_arguments: ClassVar[int] = 1
    final_argument_whitespace: ClassVar[bool] = True

    def run(self) -> list[nodes.Node]:
        """Make one literal block."""
        names = self.arguments[0].split() if self.arguments else []
        try:
            text = help_text(names)
        except ValueError as error:
            raise self.error(str(error)) from error
        block = nodes.literal_block(text, text, language="none")
        self.set_source_info(block)
        return [block]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
