"""Every way in which a command ends: one line on stderr, and an exit code."""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import IO, Any, TypeVar

import click

from scalefair._writing import PLACING, abandon

NOT_CONVERGED = 3

# For the end of a help text; the \b keeps click from joining the lines.
EXIT_CODES = """\b
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
# Seconds that an interrupted command has to end by itself.
_PATIENCE = 0.5

Function = TypeVar("Function", bound=Callable[..., Any])


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


class Lazy(click.Command):
    """Command of which the group knows a line; its module is imported when it runs."""

    def __init__(self, name: str, module: str, short_help: str) -> None:
        super().__init__(name, short_help=short_help)
        self.module = module

    def load(self) -> click.Command:
        """Import the command, which has its name in its module."""
        found = getattr(import_module(f"scalefair.cli.{self.module}"), str(self.name))
        assert isinstance(found, click.Command)
        return found

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Return a context of the command itself, where click goes on."""
        return self.load().make_context(*args, **kwargs)


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


def debug_option(command: Function) -> Function:
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


def _interrupted(ctx: click.Context) -> str:
    written = ctx.meta.get(_WRITTEN)
    state = "the results had been written" if written else "nothing written"
    return f"interrupted, {state}"


def _as_failure(error: BaseException) -> Failure:
    if isinstance(error, ValueError):
        from scalefair.files import FileError  # not for --help

        if isinstance(error, FileError):
            return Failure(str(error))
    if isinstance(error, MemoryError):
        detail = f" ({error})" if str(error) else ""
        return Failure(
            f"not enough memory{detail}. Use smaller data, or a machine with more "
            "memory."
        )
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename is not None else ""
        reason = str(error).rstrip(".") or type(error).__name__
        if error.errno is not None:
            reason = os.strerror(error.errno).lower()
        return Failure(f"{where}{reason}.{_REMEDIES.get(error.errno, '')}")
    return _InternalError(
        f"internal error, {type(error).__name__}: {error} (this is a bug: please "
        "report it with the traceback that --debug shows)"
    )


def _one_line(message: str) -> str:
    return printable(" ".join(message.split()))


def printable(text: str) -> str:
    """Escape what a terminal would obey, and bytes of file names that are no text."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in text
    )


@contextmanager
def prompt_interrupts(code: int, say: Callable[[], str]) -> Iterator[None]:
    """End the process soon after SIGINT, with an exit code and a line on stderr.

    Python raises KeyboardInterrupt when compiled code has returned, which may take
    minutes. Its handler in C writes to a socket at once, and a thread that waits there
    lets the command end by itself; else it removes what is half written and leaves.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield  # who calls the command has other plans
        return
    ours, pythons = socket.socketpair()
    pythons.setblocking(False)
    ended = threading.Event()
    arguments = (ours, ended, code, say)
    watcher = threading.Thread(target=_watch, args=arguments, daemon=True)
    before = signal.set_wakeup_fd(pythons.fileno(), warn_on_full_buffer=False)
    watcher.start()
    try:
        yield
    finally:
        with PLACING:
            ended.set()
        signal.set_wakeup_fd(before)
        pythons.close()  # the watcher reads the end
        watcher.join()
        ours.close()


def _watch(
    ours: socket.socket, ended: threading.Event, code: int, say: Callable[[], str]
) -> None:
    while caught := ours.recv(1):
        if caught[0] == signal.SIGINT and not ended.wait(_PATIENCE):
            with PLACING:
                if not ended.is_set():
                    _leave(code, say())


def _leave(code: int, line: str) -> None:
    abandon()
    if sys.stdout.isatty():
        os.write(sys.stdout.fileno(), b"\x1b[?25h\n")  # a progress bar hid the cursor
    os.write(sys.stderr.fileno(), f"{line}\n".encode(errors="replace"))
    os._exit(code)
