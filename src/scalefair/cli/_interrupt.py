"""Interrupts that act while compiled code runs."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scalefair._writing import PLACING, abandon

__all__ = ["prompt_interrupts"]

# Seconds that the command has to end by itself.
_PATIENCE = 0.5


@contextmanager
def prompt_interrupts(code: int, say: Callable[[], str]) -> Iterator[None]:
    """End the process soon after SIGINT, whatever it computes.

    Python raises KeyboardInterrupt when compiled code has returned, which LAPACK does
    after seconds or minutes. Its handler in C writes to a socket at once, and a thread
    that waits there gets on wherever the interpreter's lock is not held. It lets the
    command end by itself; else it removes what is half written and leaves.

    Parameters
    ----------
    code : int
        Exit code.
    say : callable
        Returns the line that is written to stderr.
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
    watcher = threading.Thread(
        target=_watch, args=(ours, ended, code, say), daemon=True
    )
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
