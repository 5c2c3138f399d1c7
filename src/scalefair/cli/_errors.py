"""Exceptions turned into one line on stderr and an exit code."""

from __future__ import annotations

import errno
import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import click

from scalefair.cli._interrupt import prompt_interrupts

__all__ = [
    "EXIT_CODES",
    "EXIT_CODES_HELP",
    "NOT_CONVERGED",
    "Commands",
    "Failure",
    "blame_file",
    "debug_option",
    "mark_written",
    "messages",
    "note",
    "printable",
    "warn",
]

NOT_CONVERGED = 3

# Of a command, in two lines.
EXIT_CODES = """\
Exit codes: 0 done, 1 bad data (nothing is written), 2 wrong usage,
3 not converged (results are written), 70 internal error, 130 interrupted."""

# The \b keeps click from joining the lines into one paragraph.
EXIT_CODES_HELP = """\b
Exit codes:
    0  done
    1  bad input data, or the output cannot be written; nothing was written
    2  wrong usage of the command line
    3  the solver did not converge; the results were written
   70  internal error (a bug in scalefair)
  130  interrupted
"""

_DEBUG = "scalefair.cli.debug"
_WRITTEN = "scalefair.cli.written"
_SAID = "scalefair.cli.said"

_RIGHTS = " Check the access rights, or choose another name."
_REMEDIES: dict[int | None, str] = {
    errno.ENOSPC: " Free some space.",
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.ENAMETOOLONG: " Choose a shorter name.",
}

Command = TypeVar("Command", bound=Callable[..., Any])


class Failure(click.ClickException):
    """The command cannot go on; its message, on one line, is all the user sees."""

    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(_one_line(message))

    def show(self, file: IO[Any] | None = None) -> None:
        """Print ``error: ...`` on stderr."""
        click.echo(f"error: {self.message}", file=file, err=file is None)


class _Interrupted(Failure):
    exit_code = 130


class _InternalError(Failure):
    exit_code = 70


class Commands(click.Group):
    """Command group in which every exception ends as one line and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command."""
        try:
            with prompt_interrupts(
                _Interrupted.exit_code, lambda: f"error: {_interrupted(ctx)}"
            ):
                return super().invoke(ctx)
        # Rich exits when nobody reads what it prints.
        except (
            click.exceptions.Exit,
            click.UsageError,
            BrokenPipeError,
            SystemExit,
        ):
            raise
        # BaseException: KeyboardInterrupt, and click's Abort, are among them.
        except BaseException as error:
            if ctx.meta.get(_DEBUG):
                traceback.print_exc()
            if isinstance(error, click.ClickException):
                raise
            if isinstance(error, (KeyboardInterrupt, click.Abort)):
                raise _Interrupted(_interrupted(ctx)) from error
            raise _as_failure(error) from error


def debug_option(command: Command) -> Command:
    """Add ``--debug``: the traceback of an error before its line."""

    def remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        ctx.meta[_DEBUG] = value

    return click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=remember,
        help="Show the traceback of an error.",
    )(command)


def mark_written() -> None:
    """Remember that the output is in place: an interrupt no longer undoes it."""
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta[_WRITTEN] = True


def warn(message: str) -> None:
    """Print ``warning: ...`` on stderr, on one line, and remember it."""
    _say("warning", message)


def note(message: str) -> None:
    """Print ``note: ...`` on stderr, on one line, and remember it."""
    _say("note", message)


def messages(kind: str) -> list[str]:
    """Return what this run of a command has warned of, or noted, so far."""
    context = click.get_current_context(silent=True)
    said = [] if context is None else context.meta.get(_SAID, [])
    return [message for found, message in said if found == kind]


def _say(kind: str, message: str) -> None:
    line = _one_line(message)
    click.echo(f"{kind}: {line}", err=True)
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta.setdefault(_SAID, []).append((kind, line))


@contextmanager
def blame_file(path: Path) -> Iterator[None]:
    """Turn an OSError on reading `path` into a Failure that names it."""
    try:
        yield
    except FileNotFoundError:
        raise Failure(f"{path}: no such file. Check the path.") from None
    except IsADirectoryError:
        raise Failure(f"{path}: is a folder, not a file.") from None
    except PermissionError:
        raise Failure(
            f"{path}: no permission to read it. Check its access rights."
        ) from None
    except OSError as error:
        raise Failure(f"{path}: cannot be read: {_reason(error)}.") from error


def _interrupted(ctx: click.Context) -> str:
    written = ctx.meta.get(_WRITTEN)
    state = "the results had been written" if written else "nothing written"
    return f"interrupted, {state}"


def _as_failure(error: BaseException) -> Failure:
    if isinstance(error, MemoryError):
        detail = f" ({error})" if str(error) else ""
        return Failure(
            f"not enough memory{detail}. Use smaller data, or a machine with more "
            "memory."
        )
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename is not None else ""
        remedy = _REMEDIES.get(error.errno, "")
        return Failure(f"{where}{_reason(error)}.{remedy}")
    return _InternalError(
        f"internal error, {type(error).__name__}: {error} (this is a bug: please "
        "report it with the traceback that --debug shows)"
    )


def _reason(error: OSError) -> str:
    if error.errno is None:
        return str(error).rstrip(".") or type(error).__name__
    return os.strerror(error.errno).lower()


def _one_line(message: str) -> str:
    return printable(" ".join(message.split()))


def printable(text: str) -> str:
    """Escape what a terminal would obey, and bytes of file names that are no text."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in text
    )
