"""The option that says how large rows may be to be read at once."""

from __future__ import annotations

import re
from typing import Any

import click

from scalefair._memory import available_memory
from scalefair.cli._options import ParamType, option

__all__ = ["Size", "array_limit", "memory_limit_option"]

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([kMGT]?)(i?)B?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
# Where the system does not tell how much memory there is.
_DEFAULT = 2**31


class Size(ParamType):
    """Number of bytes, such as ``500MB``, ``1.5GiB`` or ``2000000``."""

    name = "size"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        if isinstance(value, int):
            return value
        found = _SIZE.fullmatch(value.strip())
        if found is None:
            self.fail(
                f"{value!r} is not a size: a number and B, kB, MB, GB, TB, KiB, MiB, "
                "GiB or TiB, such as 2GB.",
                param,
                ctx,
            )
        number, prefix, binary = found.groups()
        base = 1024 if binary else 1000
        size = float(number) * base ** _POWERS[prefix.lower()]
        if size < 1:
            self.fail(f"{value!r} is less than a byte.", param, ctx)
        if size >= 2**63:
            self.fail(f"{value!r} is more than any machine has.", param, ctx)
        return int(size)


def memory_limit_option(kept: str) -> Any:
    """Return a decorator that adds the option; `kept` says what else it bounds."""
    return option(
        "Files",
        "--memory-limit",
        type=Size(),
        metavar="SIZE",
        help="Arrays larger than this, such as 2GB, are not read at once: every pass "
        f"reads blocks of rows from the file again, see below. {kept}",
    )


def array_limit(given: int | None) -> int:
    """Bytes above which an array is read in blocks.

    Parameters
    ----------
    given : int or None
        What the option says; None takes half of the memory that is available now,
        or 2 GiB where that is not known.
    """
    if given is not None:
        return given
    free = available_memory()
    return _DEFAULT if free is None else free // 2
