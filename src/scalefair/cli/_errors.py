"""The ends of a command: each error is one line on stderr, and an exit code.

Also what a command says meanwhile: warnings and notes, on one line each, which the
report repeats. Nothing that takes long is imported here: `scalefair --help` needs it.
"""

import errno
import os
import re
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import IO, Any

import click

from scalefair._writing import RENAMING, remove_unfinished

NOT_CONVERGED = 3

# The end of each help text; the \b keeps click from joining the lines.
EXIT_CODES = """\b
Exit codes:
    0  done
    1  bad input data, or the output cannot be written; nothing was written
    2  wrong usage of the command line
    3  the solver did not converge; the results were written
   70  internal error (a bug in scalefair)
  130  interrupted
"""

# Keys of what a run stores in the context of click, which ends with the run.
_DEBUG = "scalefair.cli.debug"
_WRITTEN = "scalefair.cli.written"
# What a user can do about errors of the system, by their numbers.
_REMEDIES: dict[int | None, str] = {
    errno.ENOSPC: " Free some space.",
    errno.EACCES: " Check the access rights, or choose another name.",
}
# Parameters without an underscore that are no English words: in a text they are
# parameters wherever they occur.
_UNAMBIGUOUS_NAMES = {"dtype", "kappa", "tol"}
# The remedy of `check_are_groups`, for users of Python.
_AS_STRINGS = "give them as strings, x.astype(str)"


class Failure(click.ClickException):
    """An error of the input or the output; the user sees its message, on one line."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(printable(" ".join(message.split())))
        self.exit_code = exit_code  # type: ignore[misc]

    def show(self, file: IO[Any] | None = None) -> None:
        """Print it on stderr."""
        click.echo(f"error: {self.message}", file=file, err=file is None)


class Lazy(click.Command):
    """Command whose module is imported when it runs; for its group a line of help."""

    def __init__(self, name: str, module: str, short_help: str) -> None:
        super().__init__(name, short_help=short_help)
        self.module = module

    def load(self) -> click.Command:
        """Import the command, a variable of its name in its module."""
        module: Any = import_module(f"scalefair.cli.{self.module}")
        return vars(module)[self.name]  # type: ignore[no-any-return]

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Return a context of the imported command."""
        return self.load().make_context(*args, **kwargs)


class Commands(click.Group):
    """Command group in which every exception ends as one line and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command."""
        try:
            with _prompt_interrupts(ctx):
                return super().invoke(ctx)
        # click itself ends these well: an exit code, the usage, a pipe that was closed
        # by its reader (`| head`), for which rich raises SystemExit.
        except (click.exceptions.Exit, click.UsageError, BrokenPipeError, SystemExit):
            raise
        except BaseException as error:  # a KeyboardInterrupt as well
            if ctx.meta.get(_DEBUG):
                traceback.print_exc()
            if isinstance(error, click.ClickException):
                raise
            if isinstance(error, (KeyboardInterrupt, click.Abort)):
                raise Failure(_interrupted(ctx), 130) from error
            raise _as_failure(error) from error


def store_debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    """Store whether an error shows its traceback."""
    ctx.meta[_DEBUG] = value


def mark_written() -> None:
    """Store that the output is written: the message of an interrupt says so."""
    _context_data()[_WRITTEN] = True


def messages(kind: str) -> list[str]:
    """Return the messages of this run so far, of kind "warning" or "note"."""
    return list(_context_data().get(f"scalefair.cli.{kind}", []))


def _print_message(kind: str, message: str) -> None:
    """Print ``kind: ...`` on stderr, on one line, and store it for the report."""
    line = printable(" ".join(message.split()))
    click.echo(f"{kind}: {line}", err=True)
    _context_data().setdefault(f"scalefair.cli.{kind}", []).append(line)


warn = partial(_print_message, "warning")
note = partial(_print_message, "note")


def print_notes(source: Any) -> None:
    """Print, and take away, the notes of a table or a graph."""
    while source.notes:
        note(source.notes.pop(0))


def translate(message: str) -> str:
    """Replace the parameters that an estimator names by options of the command."""
    ctx = click.get_current_context(silent=True)
    if ctx is None:  # called from Python, where the parameters are right
        return message
    spellings = {str(param.name): param.opts[0] for param in ctx.command.params}
    # 1. Remedies that are lines of Python.
    message = message.replace(_AS_STRINGS, "name their column in --categorical")
    if "directed" in spellings:
        symmetrise = "for example with (W + W.T) / 2 or W.maximum(W.T)"
        message = message.replace(symmetrise, "with --directed sum or --directed max")
    # 2. Arguments of `fit`, then options of the same name as a parameter.
    roles = {"sensitive_features": "--groups", "sample_weight": "--weight"}
    return use_spellings(message, {**roles, **spellings})


def use_spellings(text: str, spellings: Mapping[str, str]) -> str:
    """Write ``--max-iter 5`` for ``max_iter=5``, ``--max-iter`` for ``max_iter``."""
    # Names such as ``solver`` are English words as well, but ``solver="x"`` is not.

    def spell(match: re.Match[str]) -> str:
        """Return a name, and perhaps a value, as they are typed."""
        name, value = match.groups()
        option = spellings[name]
        if value is not None:
            # A flag has no value but a negation.
            flags = {"True": option, "False": f"--no-{option[2:]}"}
            return flags.get(value, f"{option} {value.replace('None', 'none')}")
        is_english = "_" not in name and name not in _UNAMBIGUOUS_NAMES
        return name if is_english else option

    names = "|".join(spellings)
    # An equals sign with or without blanks, and a value that may be quoted.
    value = r"(?: ?= ?[`'\"]*([\w.+-]*\w)[`'\"]*)?"
    return re.sub(rf"(?<![\w.-])({names})\b{value}", spell, text)


def _context_data() -> dict[str, Any]:
    """Return what the run has stored; nothing is kept outside of a run."""
    context = click.get_current_context(silent=True)
    return {} if context is None else context.meta


def _interrupted(ctx: click.Context) -> str:
    """Return the message of an interrupt."""
    written = "the results had been" if ctx.meta.get(_WRITTEN) else "nothing"
    return f"interrupted, {written} written"


def _as_failure(error: BaseException) -> Failure:
    """Return the message of an exception, and its exit code.

    Files, memory and missing packages are for the user to mend; what else was not
    foreseen is a bug.
    """
    if isinstance(error, (ValueError, ImportError)):
        from scalefair.files import FileError  # not for --help

        # Our ImportErrors say what to install. A ModuleNotFoundError, their subclass,
        # is a bug.
        if isinstance(error, FileError) or type(error) is ImportError:
            return Failure(str(error))
    if isinstance(error, MemoryError):
        detail = f" ({error})" if str(error) else ""
        return Failure(f"not enough memory{detail}. Use smaller data, or more memory.")
    if isinstance(error, OSError):
        # "file: reason. remedy", as far as the error has these.
        path = f"{error.filename}: " if error.filename is not None else ""
        system = os.strerror(error.errno).lower() if error.errno is not None else ""
        reason = system or str(error).rstrip(".") or type(error).__name__
        return Failure(f"{path}{reason}.{_REMEDIES.get(error.errno, '')}")
    message = f"internal error, {type(error).__name__}: {error}"
    return Failure(f"{message} (a bug: report it, with what --debug shows)", 70)


def printable(text: str) -> str:
    """Escape control characters, and bytes of file names that are no text."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in text
    )


@contextmanager
def _prompt_interrupts(ctx: click.Context) -> Iterator[None]:
    """End the process soon after SIGINT, also while compiled code runs for minutes.

    Python runs its own handlers only between bytecodes, but it writes the number of a
    signal to a socket at once. A thread that waits there gives the command half a
    second to end by itself, then removes unfinished files and ends the process.
    """
    # Only the main thread may change what a signal does.
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield  # the caller handles signals in another way
        return
    # 1. The socket to which Python writes the numbers of signals, and who reads it.
    reader, writer = socket.socketpair()
    writer.setblocking(False)  # a handler of a signal must never wait
    ended = threading.Event()

    def watch() -> None:
        """End the process if the command goes on after a signal."""
        # A byte for each signal; an empty read when the other end is closed.
        while number := reader.recv(1):
            if number[0] == signal.SIGINT and not ended.wait(timeout=0.5):
                with RENAMING:  # either all files have their names, or none
                    if not ended.is_set():
                        _end_process(f"error: {_interrupted(ctx)}\n")

    # 2. Run the command, and put everything back. Once `ended` is set the process is no
    #    longer ended by force; it waits for RENAMING, so that this is not halfway.
    watcher = threading.Thread(target=watch, daemon=True)
    previous = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    watcher.start()
    try:
        yield
    finally:
        with RENAMING:
            ended.set()
        signal.set_wakeup_fd(previous)
        writer.close()  # the watcher reads the end of the stream
        watcher.join()
        reader.close()


def _end_process(line: str) -> None:
    """End the process at once, with a line on stderr and without unfinished files."""
    remove_unfinished()
    if sys.stdout.isatty():
        os.write(sys.stdout.fileno(), b"\x1b[?25h\n")  # a progress bar hid the cursor
    os.write(sys.stderr.fileno(), line.encode())
    os._exit(130)
