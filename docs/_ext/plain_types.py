r"""Escape names like ``n_iter_`` in the types of parameters.

``ndarray of shape (n_iter_,)`` is plain text to its reader; to reStructuredText a word
that ends in an underscore is a link.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

_TYPE_LINE = re.compile(r"^(\s*\*\*[^*]+\*\* : )(.*)$")
_TRAILING_UNDERSCORE = re.compile(r"(?<![`\w])(\w+)_(?![\w`])")
_AFTER_NUMPYDOC = 600


def _escape(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    for i, line in enumerate(lines):
        found = _TYPE_LINE.match(line)
        if found:
            lines[i] = found[1] + _TRAILING_UNDERSCORE.sub(r"\1\_", found[2])


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the step after numpydoc's."""
    app.connect("autodoc-process-docstring", _escape, priority=_AFTER_NUMPYDOC)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
