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
from functools import partial
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

# What a run remembers, in its context.
_DEBUG, _WRITTEN = "scalefair.cli.debug", "scalefair.cli.written"
_REMEDIES: dict[int | None, str] = {
    errno.ENOSPC: " Free some space.",
    errno.EACCES: " Check the access rights, or choose another name.",
}
# Seconds that an interrupted command has to end by itself.
_PATIENCE = 0.5

Function = TypeVar("Function", bound=Callable[..., Any])


class Failure(click.ClickException):
    """The command cannot go on; its message, on one line, is all the user sees."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(printable(" ".join(message.split())))
        self.exit_code = exit_code  # type: ignore[misc]

    def show(self, file: IO[Any] | None = None) -> None:
        """Print it on stderr."""
        click.echo(f"error: {self.message}", file=file, err=file is None)


class Lazy(click.Command):
    """Command of which the group knows a line; its module is imported when it runs."""

    def __init__(self, name: str, module: str, short_help: str) -> None:
        super().__init__(name, short_help=short_help)
        self.module = module

    def load(self) -> click.Command:
        """Import the command, which has its name in its module."""
        module: Any = import_module(f"scalefair.cli.{self.module}")
        return vars(module)[self.name]  # type: ignore[no-any-return]

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Return a context of the command itself, where click goes on."""
        return self.load().make_context(*args, **kwargs)


class Commands(click.Group):
    """Command group in which every exception ends as one line and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command."""
        try:
            with _prompt_interrupts(ctx):
                return super().invoke(ctx)
        # Rich exits when nobody reads what it prints.
        except (click.exceptions.Exit, click.UsageError, BrokenPipeError, SystemExit):
            raise
        except BaseException as error:  # KeyboardInterrupt is among them
            if ctx.meta.get(_DEBUG):
                traceback.print_exc()
            if isinstance(error, click.ClickException):
                raise
            if isinstance(error, (KeyboardInterrupt, click.Abort)):
                raise Failure(_interrupted(ctx), 130) from error
            raise _as_failure(error) from error


def debug_option(command: Function) -> Function:
    """Add ``--debug``: the traceback of an error before its line."""

    def remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        ctx.meta[_DEBUG] = value

    kept = {"is_flag": True, "expose_value": False, "callback": remember}
    told: Any = {**kept, "help": "Show the traceback of an error."}
    return click.option("--debug", **told)(command)


def mark_written() -> None:
    """Remember that the output is in place: an interrupt no longer undoes it."""
    _memory()[_WRITTEN] = True


def messages(kind: str) -> list[str]:
    """Return what this run of a command has warned of, or noted, so far."""
    return list(_memory().get(f"scalefair.cli.{kind}", []))


def _say(kind: str, message: str) -> None:
    """Print ``kind: ...`` on stderr, on one line, and remember it."""
    line = printable(" ".join(message.split()))
    click.echo(f"{kind}: {line}", err=True)
    _memory().setdefault(f"scalefair.cli.{kind}", []).append(line)


warn, note = partial(_say, "warning"), partial(_say, "note")


def _memory() -> dict[str, Any]:
    context = click.get_current_context(silent=True)
    return {} if context is None else context.meta


def _interrupted(ctx: click.Context) -> str:
    written = "the results had been" if ctx.meta.get(_WRITTEN) else "nothing"
    return f"interrupted, {written} written"


def _as_failure(error: BaseException) -> Failure:
    if isinstance(error, (ValueError, ImportError)):
        from scalefair.files import FileError  # not for --help

        # An ImportError says what to install; a module of ours is not found.
        if isinstance(error, FileError) or type(error) is ImportError:
            return Failure(str(error))
    if isinstance(error, MemoryError):
        detail = f" ({error})" if str(error) else ""
        return Failure(f"not enough memory{detail}. Use smaller data, or more memory.")
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename is not None else ""
        known = os.strerror(error.errno).lower() if error.errno is not None else ""
        reason = known or str(error).rstrip(".") or type(error).__name__
        return Failure(f"{where}{reason}.{_REMEDIES.get(error.errno, '')}")
    found = f"internal error, {type(error).__name__}: {error}"
    return Failure(f"{found} (a bug: report it, with what --debug shows)", 70)


def printable(text: str) -> str:
    """Escape what a terminal would obey, and bytes of file names that are no text."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in text
    )


@contextmanager
def _prompt_interrupts(ctx: click.Context) -> Iterator[None]:
    """End the process soon after SIGINT, also while compiled code runs for minutes.

    Python's handler in C writes to a socket at once. A thread that waits there lets the
    command end by itself for a while, then removes what is half written and leaves.
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

    def watch() -> None:
        while caught := ours.recv(1):
            if caught[0] == signal.SIGINT and not ended.wait(_PATIENCE):
                with PLACING:
                    if not ended.is_set():
                        _leave(f"error: {_interrupted(ctx)}\n")

    watcher = threading.Thread(target=watch, daemon=True)
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


def _leave(line: str) -> None:
    abandon()
    if sys.stdout.isatty():
        os.write(sys.stdout.fileno(), b"\x1b[?25h\n")  # a progress bar hid the cursor
    os.write(sys.stderr.fileno(), line.encode())
    os._exit(130)
